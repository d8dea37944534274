//! Two processes, two sinks, a source and a store of checkpoints: small enough to try everything.
//!
//! The circuit sums: each record adds a number to either sink's answer, so that the right content of
//! a table follows from its frontier alone. A batch says what it takes the content for, and what it
//! makes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::explore;
use lakeward_protocol::core::step::{
    OnLostState, SourcePlan, StepAction, StepBreak, StepCore, StepEvent, StepPlan, StepReason,
};
use lakeward_protocol::core::{Admit, Beginning, Ending, OnGap, Outcome};
use lakeward_protocol::ports::{Advance, Bounds, Breach, Checkpoint, Gap, Head, Permit, Restored, Stopping};
use lakeward_protocol::position::{CommitId, Frontier, Offset, PartitionId, Shape, SinkId, TableVersion};

const PROCESSES: usize = 2;
const PARTITIONS: usize = 2;
const SINKS: usize = 2;

/// What a record adds to each sink's answer.
pub type Record = [u32; SINKS];

type Place = [Option<i64>; PARTITIONS];

/// A saved state, and what it covers.
type Saved = ([i64; PARTITIONS], Record);

/// What is explored.
#[derive(Clone, Default)]
pub struct Scene {
    pub name: &'static str,
    /// By partition, all that will ever be written.
    pub records: [&'static [Record]; PARTITIONS],
    /// Partitions that are there from the start.
    pub partitions: usize,
    pub beginning: Beginning,
    pub trims: bool,
    pub on_gap: OnGap,
    pub on_lost_state: OnLostState,
    /// How often each fault may happen, and how many faults in all.
    pub budget: Budget,
    pub total: u8,
    /// How many checkpoints are made because it is time.
    pub saves: u8,
    /// A process may end with an error once something is gone.
    pub stops: bool,
}

/// Faults left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    pub crashes: u8,
    pub fates: u8,
    /// Processes that start while another one runs.
    pub rivals: u8,
    pub foreign: u8,
    pub reshapes: u8,
    pub stops: u8,
    /// Records of the first partition that come late.
    pub appends: u8,
    pub extends: u8,
    pub expiries: u8,
    /// Records that are there again, as where another broker leads that had not deleted them yet.
    pub returns: u8,
    pub rewinds: u8,
    pub restores: u8,
    /// Newest checkpoints that are lost.
    pub losses: u8,
    /// Stores that are lost whole.
    pub wipes: u8,
}

/// What becomes of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    Well,
    Fails,
    ReplyLost,
    Late,
    SentTwice,
    Conflict,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    Begin,
    Act(u8, Fate),
    Take(u8, u8),
    TellGone(u8, u8),
    Hear(u8),
    Due(u8),
    SaveDue(u8),
    /// The save that is under way ends, while the process reads.
    Finish(u8, Fate),
    Restart(u8),
    /// A process starts beside another one.
    Rival(u8),
    /// A process starts that is told of too few partitions.
    Stale(u8),
    LateLands,
    LateVanishes,
    Crash(u8),
    Stop(u8),
    Append,
    Extend,
    Expire(u8),
    Return(u8),
    ForeignAppend(u8),
    Reshape(u8),
    Rewind(u8),
    Restore(u8),
    LoseManifest,
    LoseState,
    Wipe,
}

/// Whether an action touches nothing but its process, or what nobody sees yet.
fn is_local(action: &StepAction) -> bool {
    match action {
        StepAction::Name | StepAction::Open { .. } | StepAction::Start { .. } | StepAction::Step { .. } => true,
        StepAction::Seal { .. } | StepAction::Announce { .. } | StepAction::Tend { .. } => true,
        StepAction::Prepare { .. } | StepAction::Discard(_) | StepAction::Release { .. } => true,
        StepAction::Pass { .. } => true,
        StepAction::Read | StepAction::List | StepAction::Load { .. } | StepAction::Ask { .. } => false,
        StepAction::Finish => false,
        StepAction::Restore(_) | StepAction::Put(_) | StepAction::Find { .. } | StepAction::Save(_) => false,
        StepAction::Gaps { .. } => false,
        StepAction::Remove(_) | StepAction::Trim { .. } | StepAction::End(_) | StepAction::Stop(_) => false,
    }
}

impl Move {
    fn process(self) -> Option<usize> {
        match self {
            Self::Act(i, _) | Self::Take(i, _) | Self::TellGone(i, _) | Self::Hear(i) => Some(i as usize),
            Self::Due(i) | Self::SaveDue(i) | Self::Finish(i, _) | Self::Stop(i) => Some(i as usize),
            Self::Restart(i) | Self::Rival(i) | Self::Stale(i) => Some(i as usize),
            _ => None,
        }
    }

    fn is_fault(self) -> bool {
        match self {
            Self::Act(_, fate) | Self::Finish(_, fate) => fate != Fate::Well,
            Self::Begin | Self::Take(..) | Self::TellGone(..) | Self::Hear(_) | Self::Due(_) => false,
            Self::SaveDue(_) | Self::Restart(_) | Self::LateLands | Self::LateVanishes => false,
            _ => true,
        }
    }
}

/// Everything there is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    processes: [Option<Rc<Process>>; PROCESSES],
    /// How many names each process has used.
    names: [u8; PROCESSES],
    tables: [Rc<Table>; SINKS],
    store: Rc<Store>,
    late: Option<Rc<Late>>,
    ends: [i64; PARTITIONS],
    oldest: [i64; PARTITIONS],
    /// Below here records were gone at some time.
    gone: [i64; PARTITIONS],
    /// Breaks that the first table says: partition, from, to.
    gaps: Rc<BTreeSet<(usize, i64, i64)>>,
    partitions: usize,
    /// Where the pipeline began, once that is written anywhere.
    begun: Option<[i64; PARTITIONS]>,
    /// A process ended for a person to look, as it should.
    halted: bool,
    saves: u8,
    budget: Budget,
    total: u8,
    laws: Rc<Laws>,
}

/// What does not change while a world is explored, and tells no two states apart.
#[derive(PartialEq, Eq)]
struct Laws {
    records: [&'static [Record]; PARTITIONS],
    stops: bool,
    extends: bool,
    fault: Option<StepBreak>,
    plan: Arc<StepPlan>,
}

impl Hash for Laws {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Process {
    core: StepCore,
    /// Partitions that it was told of.
    told: usize,
    stale: bool,
    /// Where the input delivers from.
    reading: [i64; PARTITIONS],
    circuit: Circuit,
    /// The state that is being saved, and its name.
    saving: Option<(CommitId, Saved)>,
    opened: [Shape; SINKS],
    layouts: [Shape; SINKS],
    batch: Option<Batch>,
    tried: Option<CommitId>,
    /// How far each sink must be, as far as it can tell.
    knows: [[i64; PARTITIONS]; SINKS],
    /// Somebody else moved something that it knew: it may find itself fenced.
    overtaken: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Circuit {
    sums: Record,
    /// Pushed and not stepped.
    pushed: Record,
    /// What each sink's batches so far lead to.
    shown: Record,
    stepped: [i64; PARTITIONS],
    taken: [i64; PARTITIONS],
}

/// Made for a shape; the content that it expects, and the one that it makes.
type Batch = (Shape, u32, u32);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Late {
    Commit(Permit, Option<Batch>),
    Manifest(Checkpoint),
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Table {
    /// By version: who put it, the frontier and the content after it.
    versions: Vec<(Option<CommitId>, Place, u32)>,
    shape: u64,
    restored: Option<(u64, u64, Place)>,
    /// Somebody set its frontier back.
    rewound: bool,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Store {
    manifests: Vec<Checkpoint>,
    states: BTreeMap<CommitId, Saved>,
    /// Everything was lost once; manifests may come late.
    wiped: bool,
}

type Checked = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

fn offset(raw: i64) -> Offset {
    Offset::new(raw).expect("not negative")
}

fn id(p: usize) -> PartitionId {
    PartitionId(u32::try_from(p).expect("few partitions"))
}

fn small(n: usize) -> u8 {
    u8::try_from(n).expect("few")
}

fn index(partition: PartitionId) -> usize {
    partition.0 as usize
}

fn offsets(frontier: &Frontier) -> Place {
    let mut place = [None; PARTITIONS];
    frontier.iter().for_each(|(p, at)| place[index(*p)] = Some(at.get()));
    place
}

impl explore::World for World {
    type Move = Move;
    const BEGIN: Move = Move::Begin;

    fn is_fault(step: Move) -> bool {
        step.is_fault()
    }

    /// Every table has the answer over all that is in the source, or a person has to look.
    fn is_goal(&self) -> bool {
        let complete = (0..SINKS).all(|k| self.tables[k].content() == self.answer(k, &self.ends));
        complete || self.halted || (self.laws.stops && self.is_quiet())
    }

    fn moves(&self, moves: &mut Vec<Move>) {
        let alone = self.processes.iter().all(Option::is_none);
        let may = |left: u8, step: Move| (left > 0 && self.total > 0).then_some(step);
        for (i, process) in self.processes.iter().enumerate() {
            let i = small(i);
            match process {
                Some(process) => self.moves_of(i, process, moves),
                None if alone => {
                    moves.push(Move::Restart(i));
                    let stale = u8::from(self.laws.extends && self.partitions > 1);
                    moves.extend(may(stale, Move::Stale(i)));
                }
                None => moves.extend(may(self.budget.rivals, Move::Rival(i))),
            }
        }
        if self.late.is_some() {
            moves.extend([Move::LateLands, Move::LateVanishes]);
        }
        let budget = &self.budget;
        moves.extend(may(budget.appends, Move::Append));
        moves.extend(may(budget.extends, Move::Extend));
        moves.extend(may(budget.wipes, Move::Wipe));
        for p in (0..PARTITIONS).filter(|p| self.oldest[*p] < self.ends[*p]) {
            moves.extend(may(budget.expiries, Move::Expire(small(p))));
        }
        for p in (0..PARTITIONS).filter(|p| self.oldest[*p] > 0) {
            moves.extend(may(budget.returns, Move::Return(small(p))));
        }
        for k in 0..SINKS {
            moves.extend(may(budget.foreign, Move::ForeignAppend(small(k))));
            moves.extend(may(budget.reshapes, Move::Reshape(small(k))));
            if self.tables[k].frontier()[0] > Some(0) {
                moves.extend(may(budget.rewinds, Move::Rewind(small(k))));
                moves.extend(may(budget.restores, Move::Restore(small(k))));
            }
        }
        if self.store.manifests.len() > 1 {
            moves.extend(may(budget.losses, Move::LoseManifest));
            moves.extend(may(budget.losses, Move::LoseState));
        }
    }

    fn after(&self, step: Move) -> Result<Self, String> {
        let mut world = self.clone();
        if step.is_fault() {
            world.total -= 1;
        }
        // An assertion of the core is a promise kept by ending the process: with a sound core none fails.
        match catch_unwind(AssertUnwindSafe(|| world.make(step))) {
            Ok(checked) => checked.map(|()| world),
            Err(panic) => Err(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into())),
        }
    }
}

impl World {
    pub fn new(scene: &Scene, fault: Option<StepBreak>) -> Self {
        let mut plan = StepPlan::new(1, vec!["sums".into(), "letters".into()]);
        plan.sources[0] = SourcePlan { beginning: scene.beginning, on_gap: scene.on_gap, trims: scene.trims };
        plan.on_lost_state = scene.on_lost_state;
        let laws = Laws {
            records: scene.records,
            stops: scene.stops,
            extends: scene.budget.extends > 0,
            fault,
            plan: Arc::new(plan),
        };
        let table = Table { versions: vec![(None, [None; PARTITIONS], 0)], ..Table::default() };
        let table = Rc::new(table);
        let mut ends = scene.records.map(|records| i64::try_from(records.len()).expect("few"));
        ends[0] -= i64::from(scene.budget.appends);
        (scene.partitions..PARTITIONS).for_each(|p| ends[p] = 0);
        let mut world = Self {
            processes: [None, None],
            names: [0; PROCESSES],
            tables: [table.clone(), table],
            store: Rc::default(),
            late: None,
            ends,
            oldest: [0; PARTITIONS],
            gone: [0; PARTITIONS],
            gaps: Rc::default(),
            partitions: scene.partitions,
            begun: None,
            halted: false,
            saves: scene.saves,
            budget: scene.budget.clone(),
            total: scene.total,
            laws: Rc::new(laws),
        };
        world.start(0, scene.partitions, false);
        world
    }

    fn start(&mut self, i: usize, told: usize, stale: bool) {
        let plan = self.laws.plan.clone();
        let mut core = match self.laws.fault {
            None => StepCore::new(plan),
            Some(fault) => StepCore::broken(plan, fault),
        };
        core.on(StepEvent::Gained((0..told).map(id).collect()));
        self.processes[i] = Some(Rc::new(Process {
            core,
            told,
            stale,
            reading: [0; PARTITIONS],
            circuit: Circuit::default(),
            saving: None,
            opened: [Shape(u64::MAX); SINKS],
            layouts: [Shape(0); SINKS],
            batch: None,
            tried: None,
            knows: [[0; PARTITIONS]; SINKS],
            overtaken: false,
        }));
    }

    /// Everything is read. A table that goes back then is noticed with the next record: an idle
    /// pipeline does not look.
    fn is_quiet(&self) -> bool {
        let idle = |process: &Process| process.core.next() == StepAction::Read && !process.core.is_holding();
        self.processes.iter().flatten().any(|process| idle(process) && process.reading == self.ends)
    }

    /// P5: what a sink holds at a frontier.
    fn answer(&self, k: usize, frontier: &[i64; PARTITIONS]) -> u32 {
        let begun = self.begun.unwrap_or_default();
        let below = |p: usize| {
            let skipped = move |at: i64| self.gaps.iter().any(|gap| gap.0 == p && (gap.1..gap.2).contains(&at));
            let places = (0..).zip(self.laws.records[p]);
            let places = places.filter(move |(at, _)| (begun[p]..frontier[p]).contains(at) && !skipped(*at));
            places.map(|(_, record)| record[k]).sum::<u32>()
        };
        (0..PARTITIONS).map(below).sum()
    }

    /// A sink's frontier, with the beginning where it says nothing.
    fn place(&self, stored: &Place) -> [i64; PARTITIONS] {
        let begun = self.begun.unwrap_or_default();
        std::array::from_fn(|p| stored[p].unwrap_or(begun[p]))
    }

    fn moves_of(&self, i: u8, process: &Process, moves: &mut Vec<Move>) {
        let faulty = self.total > 0;
        match process.core.next() {
            StepAction::Read => self.moves_of_reader(i, process, moves),
            StepAction::Finish => {
                moves.push(Move::Act(i, Fate::Well));
                moves.extend((faulty && self.budget.fates > 0).then_some(Move::Act(i, Fate::Fails)));
            }
            StepAction::Put(_) | StepAction::Save(_) => {
                moves.push(Move::Act(i, Fate::Well));
                if faulty && self.budget.fates > 0 {
                    let late = self.late.is_none().then_some(Fate::Late);
                    let fates = [Fate::Fails, Fate::ReplyLost, Fate::SentTwice, Fate::Conflict];
                    moves.extend(fates.into_iter().chain(late).map(|fate| Move::Act(i, fate)));
                }
            }
            _ => moves.push(Move::Act(i, Fate::Well)),
        }
        if faulty {
            if self.budget.crashes > 0 {
                moves.push(Move::Crash(i));
            }
            if self.budget.stops > 0 {
                moves.push(Move::Stop(i));
            }
        }
    }

    fn moves_of_reader(&self, i: u8, process: &Process, moves: &mut Vec<Move>) {
        if process.told < self.partitions {
            moves.push(Move::Hear(i));
        }
        for p in 0..process.told {
            let at = process.reading[p];
            if at < self.oldest[p] {
                moves.push(Move::TellGone(i, small(p)));
            } else if at < self.ends[p] && process.core.admit(id(p)) != Admit::No {
                moves.push(Move::Take(i, small(p)));
            }
        }
        if process.core.is_holding() {
            moves.push(Move::Due(i));
        }
        if process.core.is_saving() {
            moves.push(Move::Finish(i, Fate::Well));
            moves.extend((self.total > 0 && self.budget.fates > 0).then_some(Move::Finish(i, Fate::Fails)));
        }
        if self.saves > 0 && process.core.is_unsaved() && !process.core.is_replaying() {
            moves.push(Move::SaveDue(i));
        }
    }

    /// A move, and what follows of it that nobody else can see: a crash just before such an action is
    /// the same as one just after it.
    fn make(&mut self, step: Move) -> Checked {
        self.happen(step)?;
        let Some(i) = step.process() else { return Ok(()) };
        self.check_stop(i)?;
        while self.processes[i].as_ref().is_some_and(|process| is_local(&process.core.next())) {
            self.act(i, Fate::Well)?;
            self.check_stop(i)?;
        }
        Ok(())
    }

    fn happen(&mut self, step: Move) -> Checked {
        match step {
            Move::Begin => {}
            Move::Act(i, fate) => {
                if fate != Fate::Well {
                    self.budget.fates -= 1;
                }
                return self.act(i as usize, fate);
            }
            Move::Finish(i, fate) => {
                if fate != Fate::Well {
                    self.budget.fates -= 1;
                }
                let event = self.finish(i as usize, fate);
                self.process(i as usize).core.on(event);
            }
            Move::Take(i, p) => self.take(i as usize, p as usize),
            Move::TellGone(i, p) => {
                let bounds = self.bounds(p as usize);
                let process = self.process(i as usize);
                let at = offset(process.reading[p as usize]);
                process.core.on(StepEvent::Gone { partition: id(p as usize), at, bounds });
            }
            Move::Hear(i) => {
                let told = self.partitions;
                let process = self.process(i as usize);
                let new = process.told..told;
                process.told = told;
                process.core.on(StepEvent::Gained(new.map(id).collect()));
            }
            Move::Due(i) => self.process(i as usize).core.on(StepEvent::Due),
            Move::SaveDue(i) => {
                self.saves -= 1;
                self.process(i as usize).core.on(StepEvent::SaveDue);
            }
            Move::Restart(i) => self.start(i as usize, self.partitions, false),
            Move::Stale(i) => self.start(i as usize, 1, true),
            Move::Rival(i) => {
                self.budget.rivals -= 1;
                self.start(i as usize, self.partitions, false);
            }
            Move::LateLands => {
                return match &*self.late.take().expect("something is late") {
                    Late::Commit(permit, batch) => self.land(permit, *batch).map(|_| ()),
                    Late::Manifest(checkpoint) => self.land_manifest(checkpoint).map(|_| ()),
                };
            }
            Move::LateVanishes => self.late = None,
            Move::Crash(i) => {
                self.budget.crashes -= 1;
                self.processes[i as usize] = None;
            }
            Move::Stop(i) => {
                self.budget.stops -= 1;
                self.process(i as usize).core.on(StepEvent::Stopping(Stopping::Gracefully));
            }
            _ => self.happen_to_others(step),
        }
        Ok(())
    }

    /// What happens to a topic; what somebody does to a table or to the store.
    fn happen_to_others(&mut self, step: Move) {
        match step {
            Move::Append => {
                self.budget.appends -= 1;
                self.ends[0] += 1;
            }
            Move::Extend => {
                self.budget.extends -= 1;
                self.partitions += 1;
                self.ends[1] = i64::try_from(self.laws.records[1].len()).expect("few");
            }
            Move::Expire(p) => {
                self.budget.expiries -= 1;
                self.oldest[p as usize] += 1;
                self.gone[p as usize] = self.gone[p as usize].max(self.oldest[p as usize]);
            }
            Move::Return(p) => {
                self.budget.returns -= 1;
                self.oldest[p as usize] -= 1;
            }
            Move::ForeignAppend(k) => {
                self.budget.foreign -= 1;
                self.table(k as usize).foreign();
            }
            Move::Reshape(k) => {
                self.budget.reshapes -= 1;
                let table = self.table(k as usize);
                table.foreign();
                table.shape += 1;
            }
            Move::Rewind(k) => {
                self.budget.rewinds -= 1;
                let table = self.table(k as usize);
                table.foreign();
                table.rewound = true;
                let newest = table.versions.last_mut().expect("version 0 is always there");
                newest.1[0] = newest.1[0].map(|stored| stored - 1);
            }
            Move::Restore(k) => {
                self.budget.restores -= 1;
                self.table(k as usize).restore();
            }
            Move::LoseManifest => {
                self.budget.losses -= 1;
                self.store().manifests.pop();
            }
            Move::LoseState => {
                self.budget.losses -= 1;
                let newest = self.store.manifests.last().expect("there is one").id;
                self.store().states.remove(&newest);
            }
            Move::Wipe => {
                self.budget.wipes -= 1;
                *self.store() = Store { wiped: true, ..Store::default() };
            }
            other => unreachable!("{other:?} is no outsider's"),
        }
    }

    fn process(&mut self, i: usize) -> &mut Process {
        Rc::make_mut(self.processes[i].as_mut().expect("it is alive"))
    }

    fn table(&mut self, k: usize) -> &mut Table {
        Rc::make_mut(&mut self.tables[k])
    }

    fn store(&mut self) -> &mut Store {
        Rc::make_mut(&mut self.store)
    }

    fn bounds(&self, p: usize) -> Bounds {
        Bounds { oldest: offset(self.oldest[p]), end: offset(self.ends[p]) }
    }

    fn name(&mut self, i: usize) -> CommitId {
        self.names[i] += 1;
        CommitId((i as u128) << 64 | u128::from(self.names[i]))
    }

    fn take(&mut self, i: usize, p: usize) {
        let records = self.laws.records[p];
        let process = self.process(i);
        let from = process.reading[p];
        process.reading[p] = from + 1;
        let record = records[usize::try_from(from).expect("not negative")];
        (0..SINKS).for_each(|k| process.circuit.pushed[k] += record[k]);
        process.circuit.taken[p] = from + 1;
        process.core.on(StepEvent::Taken { partition: id(p), from: offset(from), to: offset(from + 1) });
    }

    /// A process that has to stop ends; with nothing gone and nobody beside it, none has to.
    fn check_stop(&mut self, i: usize) -> Checked {
        let Some(process) = &self.processes[i] else { return Ok(()) };
        let StepAction::Stop(reason) = process.core.next() else { return Ok(()) };
        let fenced = matches!(reason, StepReason::Fenced { .. } | StepReason::Gone { .. }) && process.overtaken;
        let untold = matches!(reason, StepReason::NoPartition { .. }) && process.told < self.partitions;
        let seen = fenced || untold || process.stale;
        ensure(seen || self.laws.stops || self.is_needed(&reason), || format!("P1: a needless stop: {reason}"))?;
        self.halted |= !seen;
        self.processes[i] = None;
        Ok(())
    }

    /// Whether what is gone is in the first table: then the state can't be made, whatever the user wants.
    fn is_needed(&self, reason: &StepReason) -> bool {
        let StepReason::Gone { partition, at, replays: true, .. } = reason else { return false };
        let (p, at) = (index(*partition), at.get());
        let skipped = self.gaps.iter().any(|gap| gap.0 == p && (gap.1..gap.2).contains(&at));
        at < self.gone[p] && at < self.place(&self.tables[0].frontier())[p] && !skipped
    }

    /// The core's next action, done, and what it shows checked.
    fn act(&mut self, i: usize, fate: Fate) -> Checked {
        let action = self.process(i).core.next();
        let event = match action {
            StepAction::List => StepEvent::Listed(self.store.manifests.clone()),
            StepAction::Load { sink, partitions } => {
                let head = self.tables[usize::from(sink.0)].head(&partitions);
                self.process(i).saw(usize::from(sink.0), &head);
                StepEvent::Loaded(head)
            }
            StepAction::Ask { partition } => StepEvent::Bounds { partition, bounds: self.bounds(index(partition)) },
            StepAction::Name => StepEvent::Named(self.name(i)),
            StepAction::Open { sink } => {
                let (k, process) = (usize::from(sink.0), self.process(i));
                process.opened[k] = process.layouts[k];
                let held = process.circuit.shown[k] != process.circuit.sums[k];
                ensure(!held, || "P5: a sink is opened anew while changes of it are held".into())?;
                StepEvent::Opened(sink)
            }
            StepAction::Restore(checkpoint) => StepEvent::Restored(self.restore(i, &checkpoint)?),
            StepAction::Gaps { sink, above } => self.gaps(sink, &above),
            StepAction::Pass { partition, from, to } => self.pass(i, partition, from, to)?,
            StepAction::Start { positions } => {
                self.process(i).begin(&positions)?;
                StepEvent::Started
            }
            StepAction::Step { wanted, .. } => StepEvent::Stepped { held: self.process(i).step(&wanted) },
            StepAction::Seal { sink } => {
                let id = self.name(i);
                let rows = self.process(i).seal(usize::from(sink.0));
                StepEvent::Sealed { id, rows }
            }
            StepAction::Put(permit) => StepEvent::Put(self.put(i, permit, fate)?),
            StepAction::Find { sink, commit, from } => {
                let found = self.tables[usize::from(sink.0)].find(commit, from);
                StepEvent::Found(found)
            }
            StepAction::Announce { .. } => StepEvent::Announced,
            StepAction::Tend { sink } => StepEvent::Tended(sink),
            StepAction::Prepare { id } => self.prepare(i, id)?,
            StepAction::Finish => self.finish(i, fate),
            StepAction::Save(checkpoint) => StepEvent::Saved(self.save(&checkpoint, fate)?),
            StepAction::Remove(old) => {
                self.remove(&old)?;
                StepEvent::Removed
            }
            StepAction::Trim { below } => {
                self.trim(&below)?;
                StepEvent::Trimmed
            }
            StepAction::Release { .. } => StepEvent::Released,
            StepAction::Discard(_) => {
                (self.process(i).batch, self.process(i).tried) = (None, None);
                StepEvent::Discarded
            }
            StepAction::End(ending) => return self.end(i, ending),
            StepAction::Read | StepAction::Stop(_) => unreachable!("no move of its own"),
        };
        self.process(i).core.on(event);
        Ok(())
    }

    /// What the first table's log says was skipped.
    fn gaps(&self, sink: SinkId, above: &Frontier) -> StepEvent {
        assert_eq!(sink, SinkId(0), "P7: the first table says what was skipped");
        let beyond = |(p, _, to): &&(usize, i64, i64)| above.get(&id(*p)).is_none_or(|at| *to > at.get());
        let gap = |(p, from, to): &(usize, i64, i64)| Gap {
            partition: id(*p),
            from: offset(*from),
            to: offset(*to),
            reason: String::new(),
        };
        StepEvent::Gaps(Some(self.gaps.iter().filter(beyond).map(gap).collect()))
    }

    fn pass(&mut self, i: usize, partition: PartitionId, from: Offset, to: Offset) -> Result<StepEvent, String> {
        let circuit = &mut self.process(i).circuit;
        let p = index(partition);
        ensure(circuit.taken[p] == from.get(), || format!("P2: a break at {from} is gone over elsewhere"))?;
        circuit.taken[p] = to.get();
        Ok(StepEvent::Passed { partition, to })
    }

    /// A save begins.
    fn prepare(&mut self, i: usize, id: CommitId) -> Result<StepEvent, String> {
        let circuit = self.process(i).circuit;
        ensure(circuit.pushed == [0; SINKS] && circuit.taken == circuit.stepped, || {
            "P6: a state is saved amid a step".into()
        })?;
        let saving = &mut self.process(i).saving;
        ensure(saving.is_none(), || "P4: a save begins while one is under way".into())?;
        *saving = Some((id, (circuit.stepped, circuit.sums)));
        Ok(StepEvent::Prepared)
    }

    /// The save under way ends, well or not.
    fn finish(&mut self, i: usize, fate: Fate) -> StepEvent {
        let (id, saved) = self.process(i).saving.take().expect("a save is under way");
        if fate != Fate::Well {
            return StepEvent::Failed;
        }
        self.store().states.insert(id, saved);
        StepEvent::Finished(Vec::new())
    }

    fn end(&mut self, i: usize, ending: Ending) -> Checked {
        let process = self.processes[i].take().expect("it is alive");
        if ending == Ending::Aborted || process.core.is_replaying() {
            return Ok(());
        }
        let (_, stepped) = process.core.progress();
        let stepped = self.place(&offsets(stepped));
        for k in 0..SINKS {
            let place = self.place(&self.tables[k].frontier());
            let level = (0..PARTITIONS).all(|p| place[p] >= stepped[p]);
            ensure(level || process.overtaken || self.laws.stops, || {
                format!("P1: a process ends well though sink {k} stands at {place:?}, and not at {stepped:?}")
            })?;
        }
        Ok(())
    }

    fn restore(&mut self, i: usize, checkpoint: &Checkpoint) -> Result<Restored, String> {
        let saved = self.store.states.get(&checkpoint.id).copied();
        let process = self.process(i);
        process.saving = None;
        let at = offsets(&checkpoint.frontier).map(|at| at.unwrap_or(0));
        let (stepped, sums) = match (&checkpoint.state, saved) {
            (None, _) => (at, [0; SINKS]),
            (Some(_), Some(saved)) => saved,
            (Some(_), None) => {
                process.circuit = Circuit { stepped: at, taken: at, ..Circuit::default() };
                return Ok(Restored::Missing);
            }
        };
        ensure(stepped == at, || format!("P6: a state of {stepped:?} is restored as that of {at:?}"))?;
        process.circuit = Circuit { sums, shown: sums, pushed: [0; SINKS], stepped, taken: stepped };
        // P4: what a checkpoint covers, every sink has.
        (0..SINKS).for_each(|k| process.know(k, stepped));
        Ok(Restored::Done)
    }

    fn put(&mut self, i: usize, permit: Permit, fate: Fate) -> Result<Outcome, String> {
        self.process(i).tried = Some(permit.commit());
        let (k, batch) = (usize::from(permit.sink().0), self.process(i).batch);
        let (knows, stored) = (self.process(i).knows[k], self.place(&self.tables[k].frontier()));
        let free = self.begun.is_some() && permit.version().0 == self.tables[k].versions.len() as u64;
        ensure(!free || (0..PARTITIONS).all(|p| knows[p] <= stored[p]), || {
            format!("P9: sink {k} was at {knows:?}, now it goes on at {stored:?} in silence")
        })?;
        Ok(match fate {
            Fate::Fails => Outcome::Unknown,
            Fate::Conflict => Outcome::Taken,
            Fate::Late => {
                self.late = Some(Rc::new(Late::Commit(permit, batch)));
                Outcome::Unknown
            }
            Fate::Well | Fate::ReplyLost | Fate::SentTwice => {
                let outcome = outcome(fate, self.land(&permit, batch)?);
                if outcome == Outcome::Done {
                    let place = self.place(&self.tables[k].frontier());
                    self.process(i).know(k, place);
                }
                outcome
            }
        })
    }

    /// A put arrives at the store. True if the version was free.
    fn land(&mut self, permit: &Permit, batch: Option<Batch>) -> Result<bool, String> {
        let k = usize::from(permit.sink().0);
        let table = &self.tables[k];
        if permit.version().0 != table.versions.len() as u64 {
            return Ok(false);
        }
        let commit = permit.commit();
        ensure(table.find(commit, TableVersion(0)).is_none(), || format!("P1: commit {commit} lands twice"))?;
        let stored = table.frontier();
        if self.begun.is_none() {
            let mut begun = [0; PARTITIONS];
            permit.advances().iter().for_each(|(p, advance)| begun[index(*p)] = advance.from.get());
            self.begun = Some(begun);
        }
        let before = self.place(&stored);
        let mut after = stored;
        for (partition, advance) in permit.advances() {
            let p = index(*partition);
            ensure(advance.expect.map(Offset::get) == stored[p], || {
                format!("P2: sink {k}, partition {p} was expected at {:?}, it is at {:?}", advance.expect, stored[p])
            })?;
            let gap = permit.gaps().iter().find(|gap| gap.partition == *partition);
            self.check_gap(k, p, before[p], advance, gap)?;
            if let Some(gap) = gap.filter(|_| k == 0) {
                Rc::make_mut(&mut self.gaps).insert((p, gap.from.get(), gap.to.get()));
            }
            after[p] = Some(advance.to.get());
        }
        let moves = permit.advances().values().any(|advance| Some(advance.to) != advance.expect);
        ensure(moves, || format!("P2: a commit to sink {k} moves nothing"))?;
        ensure(self.tables[k].restored.is_none(), || format!("P9: sink {k} goes on in silence, it was restored"))?;
        if self.tables[k].rewound {
            // Set back while nobody who knew better looked: nothing tells it from any other frontier.
            self.halted = true;
        } else {
            self.check_content(k, batch, &after)?;
        }
        let content = batch.map_or(self.tables[k].content(), |batch| batch.2);
        self.table(k).versions.push((Some(commit), after, content));
        for process in self.processes.iter_mut().flatten().filter(|process| process.tried != Some(commit)) {
            Rc::make_mut(process).overtaken = true;
        }
        Ok(true)
    }

    /// P9: a sink goes on where it stands, or says where else, as the first one said.
    fn check_gap(&self, k: usize, p: usize, stands: i64, advance: &Advance, gap: Option<&Gap>) -> Checked {
        let (from, to) = (advance.from.get(), advance.to.get());
        let place = gap.map(|gap| (p, gap.from.get(), gap.to.get()));
        let silent = gap.is_none() && from > stands;
        ensure(!silent, || format!("P9: sink {k}, partition {p} goes on at {from} without a word, it is at {stands}"))?;
        let said = place.map_or(from == stands, |place| place == (p, stands, from) && from <= to);
        ensure(said, || format!("P2: sink {k}, partition {p} goes on at {from}, it is at {stands}, and says {gap:?}"))?;
        let silent = self.gaps.iter().find(|gap| gap.0 == p && stands <= gap.1 && gap.1 < to && Some(**gap) != place);
        ensure(silent.is_none(), || format!("P9: sink {k} goes over the break {silent:?} without a word"))?;
        let known = place.is_none_or(|gap| if k == 0 { gap.2 <= self.gone[p] } else { self.gaps.contains(&gap) });
        ensure(known, || format!("P9: sink {k} skips {place:?}, which is not gone, or not so for the first"))
    }

    fn check_content(&self, k: usize, batch: Option<Batch>, after: &Place) -> Checked {
        let table = &self.tables[k];
        let (place, first) = (self.place(after), self.place(&self.tables[0].frontier()));
        let behind = self.tables[0].rewound || (0..PARTITIONS).all(|p| place[p] <= first[p]);
        ensure(k == 0 || behind, || {
            format!("P7: sink {k} gets what lies below {place:?}, the first one stands at {first:?}")
        })?;
        let content = match batch {
            None => table.content(),
            Some((shape, from, to)) => {
                ensure(shape.0 == table.shape, || "P1: rows land that were made for another shape".into())?;
                ensure(from == table.content(), || {
                    format!("P5: sink {k} holds {}, the rows were made for {from}", table.content())
                })?;
                to
            }
        };
        let answer = self.answer(k, &place);
        ensure(content == answer, || format!("P5: sink {k} holds {content} at {place:?}, the answer is {answer}"))
    }

    fn save(&mut self, checkpoint: &Checkpoint, fate: Fate) -> Result<Outcome, String> {
        Ok(match fate {
            Fate::Fails => Outcome::Unknown,
            Fate::Conflict => Outcome::Taken,
            Fate::Late => {
                self.late = Some(Rc::new(Late::Manifest(checkpoint.clone())));
                Outcome::Unknown
            }
            Fate::Well | Fate::ReplyLost | Fate::SentTwice => outcome(fate, self.land_manifest(checkpoint)?),
        })
    }

    fn land_manifest(&mut self, checkpoint: &Checkpoint) -> Result<bool, String> {
        if self.store.manifests.iter().any(|there| there.number == checkpoint.number) {
            return Ok(false);
        }
        let begun = offsets(&checkpoint.begun).map(|at| at.unwrap_or(0));
        let counts = self.store.manifests.iter().all(|there| there.number < checkpoint.number);
        ensure(!counts || self.begun.is_none_or(|was| was == begun), || {
            format!("P2: the pipeline began at {:?}, and now anew at {begun:?}", self.begun)
        })?;
        self.begun.get_or_insert(begun);
        let place = self.place(&offsets(&checkpoint.frontier));
        for k in 0..SINKS {
            let at = self.place(&self.tables[k].frontier());
            let behind = (0..PARTITIONS).all(|p| place[p] <= at[p]);
            ensure(behind || self.tables[k].rewound, || {
                format!("P4: a checkpoint covers {place:?}, sink {k} stands at {at:?}")
            })?;
        }
        // One that lands where it was removed already is older than what counts.
        if counts && checkpoint.state.is_some() && !self.store.wiped {
            let Some((stepped, sums)) = self.store.states.get(&checkpoint.id) else {
                return Err("P4: a checkpoint counts whose state is not saved".into());
            };
            let right = *stepped == place && (0..SINKS).all(|k| sums[k] == self.answer(k, &place));
            ensure(right, || format!("P6: a state {sums:?} of {stepped:?} is saved as that of {place:?}"))?;
        }
        let manifests = &mut self.store().manifests;
        manifests.push(checkpoint.clone());
        manifests.sort_by_key(|there| there.number);
        self.overtake_by(checkpoint.id);
        Ok(true)
    }

    /// A checkpoint that is not the one a process is putting may be beyond it.
    fn overtake_by(&mut self, id: CommitId) {
        for process in self.processes.iter_mut().flatten() {
            let own = matches!(process.core.next(), StepAction::Save(ours) if ours.id == id);
            if !own {
                Rc::make_mut(process).overtaken = true;
            }
        }
    }

    fn remove(&mut self, old: &[Checkpoint]) -> Checked {
        let newest = self.store.manifests.last().map(|newest| newest.number);
        let kept = self.store.manifests.iter().filter(|there| !old.contains(there));
        let readable = kept.filter(|there| there.state.is_none() || self.store.states.contains_key(&there.id)).count();
        ensure(!old.iter().any(|gone| Some(gone.number) == newest), || "P3: the newest checkpoint is removed".into())?;
        ensure(readable > 0, || "P3: the only readable checkpoint is removed".into())?;
        let store = self.store();
        store.manifests.retain(|there| !old.contains(there));
        old.iter().for_each(|gone| {
            store.states.remove(&gone.id);
        });
        Ok(())
    }

    fn trim(&mut self, below: &Frontier) -> Checked {
        let below = offsets(below).map(|at| at.unwrap_or(0));
        let covers = |at: &[i64; PARTITIONS]| (0..PARTITIONS).all(|p| below[p] <= at[p]);
        for k in 0..SINKS {
            let at = self.place(&self.tables[k].frontier());
            ensure(covers(&at), || format!("P3: what lies below {below:?} is deleted, sink {k} stands at {at:?}"))?;
        }
        let saved = self.store.manifests.iter().any(|there| covers(&self.place(&offsets(&there.frontier))));
        ensure(saved, || format!("P3: what lies below {below:?} is deleted, no checkpoint covers it"))?;
        (0..PARTITIONS).for_each(|p| self.oldest[p] = self.oldest[p].max(below[p]));
        (0..PARTITIONS).for_each(|p| self.gone[p] = self.gone[p].max(below[p]));
        for process in self.processes.iter_mut().flatten() {
            Rc::make_mut(process).overtaken |= (0..PARTITIONS).any(|p| process.reading[p] < below[p]);
        }
        Ok(())
    }
}

fn outcome(fate: Fate, landed: bool) -> Outcome {
    match fate {
        Fate::ReplyLost => Outcome::Unknown,
        Fate::Well if landed => Outcome::Done,
        _ => Outcome::Taken,
    }
}

impl Process {
    /// P7: what a later sink has, the first one has.
    fn saw(&mut self, k: usize, head: &Head) {
        self.layouts[k] = head.shape;
        let place = offsets(&head.frontier).map(|at| at.unwrap_or(0));
        self.know(k, place);
        self.know(0, place);
    }

    fn know(&mut self, k: usize, place: [i64; PARTITIONS]) {
        (0..PARTITIONS).for_each(|p| self.knows[k][p] = self.knows[k][p].max(place[p]));
    }

    fn begin(&mut self, positions: &Frontier) -> Checked {
        let place = offsets(positions).map(|at| at.unwrap_or(0));
        let silent = self.circuit.taken;
        ensure(place == silent, || format!("P9: read on at {place:?}, the circuit has taken in up to {silent:?}"))?;
        self.reading = place;
        Ok(())
    }

    fn step(&mut self, wanted: &BTreeSet<SinkId>) -> BTreeSet<SinkId> {
        let circuit = &mut self.circuit;
        let mut held = BTreeSet::new();
        for k in 0..SINKS {
            circuit.sums[k] += std::mem::take(&mut circuit.pushed[k]);
            let sink = SinkId(small(k));
            if !wanted.contains(&sink) {
                circuit.shown[k] = circuit.sums[k];
            } else if circuit.shown[k] != circuit.sums[k] {
                held.insert(sink);
            }
        }
        circuit.stepped = circuit.taken;
        held
    }

    fn seal(&mut self, k: usize) -> bool {
        let Circuit { shown, sums, .. } = &mut self.circuit;
        let rows = shown[k] != sums[k];
        self.batch = rows.then_some((self.opened[k], shown[k], sums[k]));
        self.tried = None;
        shown[k] = sums[k];
        rows
    }
}

impl Table {
    fn frontier(&self) -> Place {
        self.versions.last().expect("version 0 is always there").1
    }

    fn content(&self) -> u32 {
        self.versions.last().expect("version 0 is always there").2
    }

    fn foreign(&mut self) {
        let (_, frontier, content) = *self.versions.last().expect("version 0 is always there");
        self.versions.push((None, frontier, content));
    }

    /// Back to the version before the newest one that moved.
    fn restore(&mut self) {
        let newest = self.frontier();
        let (to, old) = (self.versions.iter().enumerate().rev())
            .find(|(_, version)| version.1 != newest)
            .map(|(to, version)| (to, *version))
            .expect("version 0 has no frontier");
        let at = self.versions.len() as u64;
        let covers = std::array::from_fn(|p| (newest[p] > old.1[p]).then(|| old.1[p].unwrap_or(0)));
        self.restored = Some((at, to as u64, covers));
        self.versions.push((None, newest, old.2));
    }

    fn find(&self, commit: CommitId, from: TableVersion) -> Option<TableVersion> {
        let versions = (0..).zip(&self.versions).filter(|(version, _)| *version >= from.0);
        versions.into_iter().find(|(_, version)| version.0 == Some(commit)).map(|(version, _)| TableVersion(version))
    }

    fn head(&self, asked: &BTreeSet<PartitionId>) -> Head {
        let of = |place: &Place| -> Frontier {
            let asked = asked.iter().filter(|p| index(**p) < PARTITIONS);
            asked.filter_map(|p| Some((*p, offset(place[index(*p)]?)))).collect()
        };
        let breach = self.restored.as_ref().and_then(|(at, to, covers)| {
            let frontier = of(covers);
            let any = !frontier.is_empty();
            any.then_some(Breach::Restored { at: TableVersion(*at), to: TableVersion(*to), frontier })
        });
        Head {
            version: TableVersion(self.versions.len() as u64 - 1),
            frontier: of(&self.frontier()),
            shape: Shape(self.shape),
            breach,
            dead: BTreeMap::new(),
            fading: BTreeSet::new(),
        }
    }
}
