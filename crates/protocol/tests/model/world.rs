//! Two processes, a table, a topic and a group: small enough to try everything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::explore;
use lakeward_protocol::core::{
    Action, Admit, Beginning, Break, Core, Ending, Event, LETTERS, Outcome, Policies, Set, Why,
};
use lakeward_protocol::ports::{Advance, Bounds, Breach, Gap, Head, Permit, Stopping};
use lakeward_protocol::position::{CommitId, Frontier, Offset, PartitionId, Shape, SinkId, Stretch, TableVersion};

const PROCESSES: usize = 2;
const PARTITIONS: usize = 2;

/// Records of one partition: from here, to before there.
type Span = (usize, i64, i64);
/// What rows were made for, and their spans.
type Batch = (Shape, Vec<Span>);

/// What is explored.
#[derive(Clone, Default)]
pub struct Scene {
    pub name: &'static str,
    pub policies: Policies,
    /// Records in each partition; none means that the partition is not there.
    pub records: [i64; PARTITIONS],
    /// How often each fault may happen, and how many faults in all.
    pub budget: Budget,
    pub total: u8,
    /// Each offset lands exactly once: nothing is ever replayed on request.
    pub exact: bool,
    /// A process may end with an error once something is gone.
    pub stops: bool,
    /// What a person wants who comes by and sets the table's frontier.
    pub set: Option<Set>,
    /// The first record of each partition has a column that the table lacks at the start.
    pub grows: bool,
}

/// Faults left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    pub crashes: u8,
    pub fates: u8,
    pub evictions: u8,
    pub handovers: u8,
    pub foreign: u8,
    pub reshapes: u8,
    pub stops: u8,
    pub appends: u8,
    pub expiries: u8,
    pub rewinds: u8,
    pub restores: u8,
    pub sets: u8,
    pub fades: u8,
    pub vanishes: u8,
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
    /// A process does the core's next action.
    Act(u8, Fate),
    Take(u8, u8),
    TellGone(u8, u8),
    Due(u8),
    Hear(u8),
    Give(u8, u8),
    Restart(u8),
    LateLands,
    LateVanishes,
    Crash(u8),
    AskBack(u8),
    Evict(u8),
    Stop(u8),
    Append(u8),
    Expire(u8),
    ForeignAppend,
    Reshape,
    ReshapeLetters,
    Rewind(u8),
    Restore(u8),
    /// A person's process takes the place of one.
    Set(u8),
    /// A stored frontier gets old, and is forgotten.
    Fade(u8),
    Vanish(u8),
    /// It is time to ask which are old.
    Renew(u8),
}

/// Whether an action touches nothing but its process.
fn is_local(action: &Action) -> bool {
    match action {
        Action::Open { .. } | Action::Name | Action::Start { .. } | Action::Seal => true,
        Action::Announce { .. } | Action::Tend { .. } | Action::Discard(_) => true,
        Action::Load { .. } | Action::Ask { .. } | Action::Put(_) | Action::Find { .. } => false,
        Action::Read | Action::Release { .. } | Action::End(_) | Action::Stop(_) => false,
    }
}

impl Move {
    /// Whose state it changes.
    fn process(self) -> Option<usize> {
        match self {
            Self::Act(i, _) | Self::Take(i, _) | Self::TellGone(i, _) | Self::Due(i) => Some(i as usize),
            Self::Hear(i) | Self::Stop(i) | Self::Set(i) | Self::Renew(i) => Some(i as usize),
            _ => None,
        }
    }

    /// Whether it takes from the budget; a run without these ends with everything committed.
    fn is_fault(self) -> bool {
        match self {
            Self::Act(_, fate) => fate != Fate::Well,
            Self::Begin
            | Self::Take(..)
            | Self::TellGone(..)
            | Self::Due(_)
            | Self::Hear(_)
            | Self::Renew(_)
            | Self::Give(..)
            | Self::Restart(_)
            | Self::LateLands
            | Self::LateVanishes => false,
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
    table: Rc<Table>,
    /// The table of dead letters, where the scene has one. Records at even offsets are bad then.
    letters: Rc<Table>,
    late: Option<(TableVersion, Put)>,
    ends: [i64; PARTITIONS],
    oldest: [i64; PARTITIONS],
    /// Whom the group takes for the owner.
    owners: [Option<u8>; PARTITIONS],
    asked: [bool; PARTITIONS],
    /// The lowest position that anybody began to read at.
    begun: [Option<i64>; PARTITIONS],
    budget: Budget,
    total: u8,
    laws: Rc<Laws>,
}

/// What does not change while a world is explored, and tells no two states apart.
#[derive(Clone, PartialEq, Eq)]
struct Laws {
    exact: bool,
    stops: bool,
    grows: bool,
    fault: Option<Break>,
    policies: Policies,
    set: Option<Set>,
}

impl Laws {
    /// The shape that a batch brings with its commit.
    fn grown(&self, (shape, rows): &Batch) -> Option<u64> {
        let needed = self.grows && rows.iter().any(|(_, from, to)| from < to && *from == 0);
        (needed && shape.0 == 0).then_some(1)
    }
}

impl Hash for Laws {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Process {
    core: Core,
    /// Where the input delivers from.
    reading: BTreeMap<usize, i64>,
    inbox: VecDeque<Said>,
    /// The partitions that it was given, as far as it was told.
    told: [bool; PARTITIONS],
    stage: Vec<Span>,
    /// Dead letters that are held, and those that are sealed: partition, offset.
    dead: Vec<(usize, i64)>,
    dead_batch: Option<(Shape, Vec<(usize, i64)>)>,
    dead_opened: Option<Shape>,
    dead_layout: Shape,
    /// The furthest that the table was seen to be, of what it was given.
    knows: [Option<i64>; PARTITIONS],
    opened: Option<Shape>,
    layout: Shape,
    batch: Option<Batch>,
    tried: Option<Permit>,
    /// It is a person's, and sets the frontier.
    sets: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Said {
    Gained(u8),
    Losing(u8),
    Lost([bool; PARTITIONS]),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Put {
    permit: Permit,
    batch: Option<Batch>,
    dead: Option<(Shape, Vec<(usize, i64)>)>,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Table {
    /// By version: who put it, and the frontier after it.
    versions: Vec<(Option<CommitId>, [Option<i64>; PARTITIONS])>,
    shape: u64,
    /// How often each offset was committed.
    counts: [Vec<u8>; PARTITIONS],
    /// The offsets that are in a span with data.
    covered: [Vec<bool>; PARTITIONS],
    /// The newest span of each partition that made dead letters, up to the last one.
    dead: [Option<(i64, i64)>; PARTITIONS],
    /// P9: the next commit of the partition has to write a gap down.
    owes_gap: [bool; PARTITIONS],
    /// What a restored table covers of partitions that nobody wrote down yet.
    restored: Option<(u64, u64, [Option<i64>; PARTITIONS])>,
    /// The frontiers that are old, and those that were forgotten.
    fading: [bool; PARTITIONS],
    forgotten: [Option<i64>; PARTITIONS],
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

fn stretch((from, to): (i64, i64)) -> Stretch {
    Stretch { from: offset(from), to: offset(to) }
}

/// Where the scene has dead letters.
fn is_bad(at: i64) -> bool {
    at % 2 == 0
}

fn small(n: usize) -> u8 {
    u8::try_from(n).expect("few")
}

impl explore::World for World {
    type Move = Move;
    const BEGIN: Move = Move::Begin;

    fn is_fault(step: Move) -> bool {
        step.is_fault()
    }

    /// Everything that is in the topic is in the table, or something is gone and all stand still.
    fn is_goal(&self) -> bool {
        let ended = |p: usize| self.table.frontier()[p] == Some(self.ends[p]) && self.owed(p).is_none();
        let complete = (0..PARTITIONS).all(|p| !self.exists(p) || ended(p) && !self.table.fading[p]);
        let stopped = self.laws.stops && self.processes.iter().flatten().any(|process| process.is_stopped());
        complete || stopped || (!self.laws.exact && self.is_quiet())
    }

    /// Everything that can happen now.
    fn moves(&self, moves: &mut Vec<Move>) {
        for (i, process) in self.processes.iter().enumerate() {
            match process {
                Some(process) => self.moves_of(small(i), process, moves),
                None => moves.push(Move::Restart(small(i))),
            }
        }
        if self.late.is_some() {
            moves.extend([Move::LateLands, Move::LateVanishes]);
        }
        for p in (0..PARTITIONS).filter(|p| self.exists(*p)) {
            self.moves_about(p, moves);
        }
        if self.total == 0 {
            return;
        }
        let may = |left: u8, step: Move| (left > 0).then_some(step);
        moves.extend(may(self.budget.foreign, Move::ForeignAppend));
        moves.extend(may(self.budget.reshapes, Move::Reshape));
        if self.laws.policies.dead_letters {
            moves.extend(may(self.budget.reshapes, Move::ReshapeLetters));
        }
        if self.budget.restores > 0 {
            let newest = self.table.versions.len() - 1;
            moves.extend((0..newest).map(|to| Move::Restore(small(to))));
        }
    }

    /// The world after a move, or the promise that it breaks.
    fn after(&self, step: Move) -> Result<Self, String> {
        let mut world = self.clone();
        if step.is_fault() {
            world.total -= 1;
        }
        // An assertion of the core is a promise kept by ending the process: with a sound core none fails.
        let moved = catch_unwind(AssertUnwindSafe(|| world.make(step)));
        match moved {
            Ok(checked) => checked.map(|()| world),
            Err(panic) => Err(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into())),
        }
    }
}

impl World {
    pub fn new(scene: &Scene, fault: Option<Break>) -> Self {
        let laws = Laws {
            exact: scene.exact,
            stops: scene.stops,
            fault,
            policies: scene.policies.clone(),
            set: scene.set.clone(),
            grows: scene.grows,
        };
        let table = Table {
            versions: vec![(None, [None; PARTITIONS])],
            counts: scene
                .records
                .map(|n| vec![0; usize::try_from(n).expect("few") + usize::from(scene.budget.appends)]),
            covered: scene.records.map(|n| vec![false; usize::try_from(n).expect("few")]),
            ..Table::default()
        };
        let process = Rc::new(Process::new(&laws));
        Self {
            processes: [Some(process.clone()), Some(process)],
            names: [0; PROCESSES],
            letters: Rc::new(table.clone()),
            table: Rc::new(table),
            late: None,
            ends: scene.records,
            oldest: [0; PARTITIONS],
            owners: [None; PARTITIONS],
            asked: [false; PARTITIONS],
            begun: [None; PARTITIONS],
            budget: scene.budget.clone(),
            total: scene.total,
            laws: Rc::new(laws),
        }
    }

    fn exists(&self, p: usize) -> bool {
        self.ends[p] > 0
    }

    /// Everything is read and nothing is held. A table that goes back then is noticed with the next
    /// record: an idle pipeline does not look.
    fn is_quiet(&self) -> bool {
        (0..PARTITIONS).filter(|p| self.exists(*p)).all(|p| {
            let owner = self.owners[p].and_then(|i| self.processes[i as usize].as_ref());
            let is_quiet =
                |owner: &Rc<Process>| owner.reading.get(&p) == Some(&self.ends[p]) && !owner.core.is_holding();
            owner.is_some_and(is_quiet) && self.owed(p).is_none()
        })
    }

    fn moves_of(&self, i: u8, process: &Process, moves: &mut Vec<Move>) {
        let faulty = self.total > 0;
        let action = process.core.next();
        match &action {
            Action::Stop(_) => {}
            Action::Read => {
                for (&p, &at) in &process.reading {
                    if at < self.oldest[p] {
                        moves.push(Move::TellGone(i, small(p)));
                    } else if at < self.ends[p] {
                        moves.push(Move::Take(i, small(p)));
                    }
                }
                if process.core.is_holding() {
                    moves.push(Move::Due(i));
                }
                if process.reading.keys().any(|p| self.table.fading[*p]) {
                    moves.push(Move::Renew(i));
                }
            }
            Action::Put(_) => {
                moves.push(Move::Act(i, Fate::Well));
                if faulty && self.budget.fates > 0 {
                    let late = self.late.is_none().then_some(Fate::Late);
                    let fates = [Fate::Fails, Fate::ReplyLost, Fate::SentTwice, Fate::Conflict];
                    moves.extend(fates.into_iter().chain(late).map(|fate| Move::Act(i, fate)));
                }
            }
            _ => moves.push(Move::Act(i, Fate::Well)),
        }
        if !process.inbox.is_empty() {
            moves.push(Move::Hear(i));
        }
        if faulty {
            if self.budget.crashes > 0 {
                moves.push(Move::Crash(i));
            }
            if self.budget.stops > 0 && !process.is_stopped() {
                moves.push(Move::Stop(i));
            }
            if self.budget.sets > 0 {
                moves.push(Move::Set(i));
            }
            if self.budget.evictions > 0 && self.owners.contains(&Some(i)) {
                moves.push(Move::Evict(i));
            }
        }
    }

    fn moves_about(&self, p: usize, moves: &mut Vec<Move>) {
        let partition = small(p);
        if self.owners[p].is_none() {
            for (i, process) in self.processes.iter().enumerate() {
                if process.as_ref().is_some_and(|process| process.may_gain(p)) {
                    moves.push(Move::Give(partition, small(i)));
                }
            }
        }
        if self.total == 0 {
            return;
        }
        if self.budget.handovers > 0 && self.owners[p].is_some() && !self.asked[p] {
            moves.push(Move::AskBack(partition));
        }
        if self.budget.appends > 0 {
            moves.push(Move::Append(partition));
        }
        if self.budget.expiries > 0 && self.oldest[p] < self.ends[p] {
            moves.push(Move::Expire(partition));
        }
        let fading = self.table.fading[p];
        if self.budget.fades > 0 && !fading && self.table.frontier()[p].is_some() {
            moves.push(Move::Fade(partition));
        }
        // Who can renew it does so in time.
        let cared_for = self.processes.iter().flatten().any(|owner| owner.reading.contains_key(&p));
        if self.budget.vanishes > 0 && fading && !cared_for {
            moves.push(Move::Vanish(partition));
        }
        if self.budget.rewinds > 0 && self.table.frontier()[p].is_some_and(|stored| stored > 0) {
            moves.push(Move::Rewind(partition));
        }
    }

    /// A move, and what follows of it that nobody else can see: a crash, or a word of the group,
    /// just before such an action is the same as one just after it.
    fn make(&mut self, step: Move) -> Checked {
        self.happen(step)?;
        let Some(i) = step.process() else { return Ok(()) };
        while self.processes[i].as_ref().is_some_and(|process| is_local(&process.core.next())) {
            self.act(i, Fate::Well)?;
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
            Move::Take(i, p) => self.take(i as usize, p as usize),
            Move::TellGone(i, p) => self.tell_gone(i as usize, p as usize),
            Move::Due(i) => self.process(i as usize).core.on(Event::Due),
            Move::Hear(i) => self.process(i as usize).hear(),
            Move::Renew(i) => self.process(i as usize).core.on(Event::Renew),
            Move::Give(p, i) => {
                self.owners[p as usize] = Some(i);
                self.process(i as usize).inbox.push_back(Said::Gained(p));
            }
            Move::Restart(i) => self.processes[i as usize] = Some(Rc::new(Process::new(&self.laws))),
            Move::LateLands => {
                let (version, put) = self.late.take().expect("something is late");
                return self.land(version, &put).map(|_| ());
            }
            Move::LateVanishes => self.late = None,
            Move::Crash(i) => {
                self.budget.crashes -= 1;
                self.end(i as usize);
            }
            Move::AskBack(p) => {
                self.budget.handovers -= 1;
                self.asked[p as usize] = true;
                let owner = self.owners[p as usize].expect("it has an owner");
                self.process(owner as usize).inbox.push_back(Said::Losing(p));
            }
            Move::Evict(i) => self.evict(i as usize),
            Move::Stop(i) => {
                self.budget.stops -= 1;
                self.process(i as usize).core.on(Event::Stopping(Stopping::Gracefully));
            }
            Move::Append(p) => {
                self.budget.appends -= 1;
                self.ends[p as usize] += 1;
            }
            Move::Expire(p) => {
                self.budget.expiries -= 1;
                self.oldest[p as usize] += 1;
            }
            Move::Set(i) => {
                self.budget.sets -= 1;
                self.end(i as usize);
                self.processes[i as usize] = Some(Rc::new(Process::setting(&self.laws)));
            }
            Move::Fade(p) => {
                self.budget.fades -= 1;
                self.table().fading[p as usize] = true;
            }
            Move::Vanish(p) => {
                self.budget.vanishes -= 1;
                self.table().forget(p as usize);
            }
            Move::ForeignAppend | Move::Reshape | Move::ReshapeLetters | Move::Rewind(_) | Move::Restore(_) => {
                self.write_from_outside(step);
            }
        }
        Ok(())
    }

    /// What other writers do to the tables.
    fn write_from_outside(&mut self, step: Move) {
        match step {
            Move::ForeignAppend => {
                self.budget.foreign -= 1;
                let frontier = self.table.frontier();
                self.table().put(None, frontier);
            }
            Move::Reshape => {
                self.budget.reshapes -= 1;
                let frontier = self.table.frontier();
                self.table().put(None, frontier);
                self.table().shape += 1;
            }
            Move::ReshapeLetters => {
                self.budget.reshapes -= 1;
                let frontier = self.letters.frontier();
                let letters = Rc::make_mut(&mut self.letters);
                letters.put(None, frontier);
                letters.shape += 1;
            }
            Move::Rewind(p) => {
                self.budget.rewinds -= 1;
                let mut frontier = self.table.frontier();
                frontier[p as usize] = frontier[p as usize].map(|stored| stored - 1);
                self.table().put(None, frontier);
            }
            Move::Restore(to) => {
                self.budget.restores -= 1;
                self.table().restore(to as usize);
            }
            _ => unreachable!("the others are our own"),
        }
    }

    fn process(&mut self, i: usize) -> &mut Process {
        Rc::make_mut(self.processes[i].as_mut().expect("it is alive"))
    }

    fn table(&mut self) -> &mut Table {
        Rc::make_mut(&mut self.table)
    }

    fn end(&mut self, i: usize) {
        self.processes[i] = None;
        for p in 0..PARTITIONS {
            if self.owners[p] == Some(small(i)) {
                (self.owners[p], self.asked[p]) = (None, false);
            }
        }
    }

    /// The group takes a process for dead, which does not know it yet: two owners.
    fn evict(&mut self, i: usize) {
        self.budget.evictions -= 1;
        let lost = self.owners.map(|owner| owner == Some(small(i)));
        for p in (0..PARTITIONS).filter(|p| lost[*p]) {
            (self.owners[p], self.asked[p]) = (None, false);
        }
        let process = self.process(i);
        process.inbox.push_back(Said::Lost(lost));
    }

    fn take(&mut self, i: usize, p: usize) {
        let process = self.process(i);
        let from = process.reading[&p];
        process.reading.insert(p, from + 1);
        let admitted = process.core.admit(id(p));
        if admitted == Admit::No {
            return;
        }
        if let Admit::Below(_) = admitted {
            process.stage.push((p, from, from + 1));
        }
        if process.dead_opened.is_some() && is_bad(from) {
            process.dead.push((p, from));
        }
        process.core.on(Event::Taken { partition: id(p), from: offset(from), to: offset(from + 1) });
    }

    fn tell_gone(&mut self, i: usize, p: usize) {
        let bounds = Bounds { oldest: offset(self.oldest[p]), end: offset(self.ends[p]) };
        let process = self.process(i);
        let at = process.reading.remove(&p).expect("it is being read");
        process.core.on(Event::Gone { partition: id(p), at: offset(at), bounds });
    }

    /// The core's next action, done, and what it shows checked.
    fn act(&mut self, i: usize, fate: Fate) -> Checked {
        let action = self.process(i).core.next();
        let event = match action {
            Action::Load { sink, partitions } => Event::Loaded { sink, head: self.load(i, sink, &partitions) },
            Action::Open { sink } => {
                let process = self.process(i);
                let holds = !process.stage.is_empty() || !process.dead.is_empty();
                ensure(!holds, || "P1: a stage is opened that holds records".into())?;
                match sink {
                    LETTERS => process.dead_opened = Some(process.dead_layout),
                    _ => process.opened = Some(process.layout),
                }
                Event::Opened { sink }
            }
            Action::Ask { partition } => {
                let p = partition.0 as usize;
                let bounds = Bounds { oldest: offset(self.oldest[p]), end: offset(self.ends[p]) };
                Event::Bounds { partition, bounds }
            }
            Action::Name => Event::Named(self.name(i)),
            Action::Start { positions } => {
                self.begin(i, &positions);
                Event::Started
            }
            Action::Seal => self.seal(i),
            Action::Put(permit) => Event::Put(self.put(i, permit, fate)?),
            Action::Find { sink, commit, from } => {
                let found = self.at(sink).find(commit, from);
                if found.is_some() {
                    self.process(i).committed();
                }
                Event::Found(found)
            }
            Action::Announce { frontier } => {
                self.check_announced(&frontier)?;
                Event::Announced
            }
            Action::Tend { sink } => Event::Tended { sink },
            Action::Release { partitions } => {
                self.release(i, &partitions)?;
                Event::Released(partitions)
            }
            Action::Discard(why) => {
                self.discard(i, &why)?;
                Event::Discarded
            }
            Action::End(ending) => {
                let process = self.process(i);
                let holds = !(process.stage.is_empty() && process.dead.is_empty()) && ending != Ending::Aborted;
                ensure(!holds, || "P1: a process ends well and leaves records that it took".into())?;
                self.end(i);
                return Ok(());
            }
            Action::Read | Action::Stop(_) => unreachable!("no move of its own"),
        };
        self.process(i).core.on(event);
        self.check_stop(i)
    }

    fn seal(&mut self, i: usize) -> Event {
        let process = self.process(i);
        let shape = process.opened.expect("records come into an open stage");
        let batch = (shape, merged(std::mem::take(&mut process.stage)));
        process.batch = Some(batch.clone());
        let dead = std::mem::take(&mut process.dead);
        let past = dead.iter().map(|(p, at)| (id(*p), offset(at + 1))).collect();
        process.dead_batch = process.dead_opened.map(|shape| (shape, dead));
        let reshapes = self.laws.grown(&batch).is_some();
        Event::Sealed { id: self.name(i), dead: past, reshapes }
    }

    fn check_announced(&self, frontier: &Frontier) -> Checked {
        for (partition, to) in frontier {
            let stored = self.table.frontier()[partition.0 as usize];
            let ahead = stored < Some(to.get()) && !self.table.owes_gap[partition.0 as usize];
            ensure(!ahead || !self.laws.exact, || {
                format!("P1: lag tools were told {to} of partition {partition}, the table says {stored:?}")
            })?;
            let owed = self.owed(partition.0 as usize).is_some_and(|owed| owed.1 <= to.get());
            ensure(!owed || !self.laws.exact, || {
                format!("P7: lag tools were told {to} of partition {partition} before its dead letters are there")
            })?;
        }
        Ok(())
    }

    fn at(&self, sink: SinkId) -> &Table {
        if sink == LETTERS { &self.letters } else { &self.table }
    }

    /// The newest span of a partition that made dead letters, as long as their table does not have them.
    fn owed(&self, p: usize) -> Option<(i64, i64)> {
        self.table.dead[p].filter(|(_, to)| self.letters.frontier()[p] < Some(*to))
    }

    fn load(&mut self, i: usize, sink: SinkId, partitions: &BTreeSet<PartitionId>) -> Head {
        let head = self.at(sink).head(partitions);
        let process = self.process(i);
        if sink == LETTERS {
            process.dead_layout = head.shape;
            return head;
        }
        process.layout = head.shape;
        for (partition, stored) in &head.frontier {
            let knows = &mut process.knows[partition.0 as usize];
            *knows = (*knows).max(Some(stored.get()));
        }
        head
    }

    /// P9: with nothing gone, nobody stops.
    fn check_stop(&mut self, i: usize) -> Checked {
        match self.process(i).core.next() {
            Action::Stop(_) if self.process(i).sets => Ok(()),
            Action::Stop(reason) => ensure(self.laws.stops, || format!("P1: a needless stop: {reason}")),
            _ => Ok(()),
        }
    }

    fn name(&mut self, i: usize) -> CommitId {
        self.names[i] += 1;
        CommitId((i as u128) << 64 | u128::from(self.names[i]))
    }

    fn begin(&mut self, i: usize, positions: &Frontier) {
        for (partition, at) in positions {
            let p = partition.0 as usize;
            let begun = self.begun[p].get_or_insert(at.get());
            *begun = (*begun).min(at.get());
            self.process(i).reading.insert(p, at.get());
        }
    }

    fn release(&mut self, i: usize, partitions: &BTreeSet<PartitionId>) -> Checked {
        for partition in partitions {
            let p = partition.0 as usize;
            let process = self.process(i);
            process.reading.remove(&p);
            (process.told[p], process.knows[p]) = (false, None);
            let held = process.stage.iter().any(|(held, ..)| *held == p);
            ensure(!held, || format!("P8: partition {p} is let go of while records of it are held"))?;
            if self.owners[p] == Some(small(i)) {
                (self.owners[p], self.asked[p]) = (None, false);
            }
        }
        Ok(())
    }

    fn discard(&mut self, i: usize, why: &Why) -> Checked {
        let tried = self.process(i).tried.as_ref().map(|permit| (permit.sink(), permit.commit()));
        let landed = tried.is_some_and(|(sink, tried)| self.at(sink).find(tried, TableVersion(0)).is_some());
        ensure(!landed || matches!(why, Why::Lost { .. }), || {
            format!("P1: a commit that landed is thrown away as lost: {why}")
        })?;
        let process = self.process(i);
        process.stage.clear();
        process.dead.clear();
        (process.batch, process.dead_batch, process.tried) = (None, None, None);
        Ok(())
    }

    fn put(&mut self, i: usize, permit: Permit, fate: Fate) -> Result<Outcome, String> {
        for partition in permit.advances().keys() {
            let told = self.process(i).told[partition.0 as usize];
            ensure(told, || format!("P8: partition {partition} is committed by who was told that it lost it"))?;
        }
        let version = permit.version();
        self.process(i).tried = Some(permit.clone());
        let process = self.process(i);
        let (batch, dead) = match permit.sink() {
            LETTERS => (None, process.dead_batch.clone()),
            _ => (process.batch.clone(), None),
        };
        let put = Put { permit, batch, dead };
        let outcome = match fate {
            Fate::Fails => Outcome::Unknown,
            Fate::Conflict => Outcome::Taken,
            Fate::Late => {
                self.late = Some((version, put));
                Outcome::Unknown
            }
            Fate::Well | Fate::ReplyLost | Fate::SentTwice => {
                let landed = self.land_knowing(i, version, &put)?;
                match fate {
                    Fate::ReplyLost => Outcome::Unknown,
                    Fate::Well if landed => Outcome::Done,
                    _ => Outcome::Taken,
                }
            }
        };
        if outcome == Outcome::Done {
            self.process(i).committed();
        }
        Ok(outcome)
    }

    /// P9: who knows that the table was further writes down that it went back.
    fn land_knowing(&mut self, i: usize, version: TableVersion, put: &Put) -> Result<bool, String> {
        if put.permit.sink() == LETTERS {
            return self.land(version, put);
        }
        let mut before = self.table.frontier();
        for (partition, advance) in put.permit.advances() {
            // What was loaded before it was forgotten is true.
            let p = partition.0 as usize;
            before[p] = before[p].or(advance.expect.and(self.table.forgotten[p]));
        }
        let landed = self.land(version, put)?;
        for partition in put.permit.advances().keys().filter(|_| landed) {
            let p = partition.0 as usize;
            let gap = put.permit.gaps().iter().any(|gap| gap.partition == *partition);
            let asked = self.process(i).sets && self.laws.set.as_ref().is_some_and(|set| !set.force);
            ensure(!asked || before[p] <= self.table.frontier()[p], || {
                format!("P1: partition {p} was set back from {:?}, and nobody gave leave", before[p])
            })?;
            let knows = self.process(i).knows[p];
            ensure(gap || knows <= before[p], || {
                format!("P9: partition {p} was at {knows:?}, now it goes on at {:?} in silence", before[p])
            })?;
        }
        Ok(landed)
    }

    /// A put arrives at the store. True if the version was free.
    fn land(&mut self, version: TableVersion, put: &Put) -> Result<bool, String> {
        if put.permit.sink() == LETTERS {
            return self.land_letters(version, put);
        }
        if version.0 != self.table.versions.len() as u64 {
            return Ok(false);
        }
        let commit = put.permit.commit();
        let again = self.table.find(commit, TableVersion(0)).is_some();
        ensure(!again, || format!("P1: commit {commit} lands twice"))?;
        self.check_rows(put)?;
        let mut frontier = self.table.frontier();
        for (partition, advance) in put.permit.advances() {
            let p = partition.0 as usize;
            // What was compared before it was forgotten may land after that.
            let stored = frontier[p].or(advance.expect.and(self.table.forgotten[p])).map(offset);
            ensure(advance.expect == stored, || {
                format!("P2: partition {p} was expected at {:?}, it is at {stored:?}", advance.expect)
            })?;
            ensure(self.owed(p).is_none(), || format!("P7: partition {p} goes on while dead letters of it are owed"))?;
            self.check_mark(p, *advance, put.permit.dead().get(partition).copied())?;
            ensure(put.batch.is_some() || advance.from == advance.to, || {
                format!("P1: partition {p} goes on from {} to {} without its rows", advance.from, advance.to)
            })?;
            let gap = put.permit.gaps().iter().any(|gap| gap.partition == *partition);
            ensure(gap || !self.table.owes_gap[p], || format!("P9: partition {p} goes on in silence"))?;
            self.check_link(p, stored, advance.from, gap)?;
            self.table().owes_gap[p] &= !gap;
            (self.table().fading[p], self.table().forgotten[p]) = (false, None);
            if let Some((_, _, covers)) = &mut self.table().restored
                && gap
            {
                covers[p] = None;
            }
            frontier[p] = Some(advance.to.get());
        }
        self.table().put(Some(commit), frontier);
        if let Some(shape) = put.batch.as_ref().and_then(|batch| self.laws.grown(batch)) {
            self.table().shape = shape;
        }
        Ok(true)
    }

    /// P7: a commit says that it made dead letters exactly if it did.
    fn check_mark(&mut self, p: usize, advance: Advance, said: Option<Offset>) -> Checked {
        if !self.laws.policies.dead_letters {
            return Ok(());
        }
        let made = (advance.from.get()..advance.to.get()).rfind(|at| is_bad(*at)).map(|at| offset(at + 1));
        ensure(made == said, || {
            format!("P7: the dead letters of partition {p} end at {made:?}, the commit says {said:?}")
        })?;
        if let Some(to) = said {
            self.table().dead[p] = Some((advance.from.get(), to.get()));
        }
        Ok(())
    }

    /// A put arrives at the table of dead letters. True if the version was free.
    fn land_letters(&mut self, version: TableVersion, put: &Put) -> Result<bool, String> {
        if version.0 != self.letters.versions.len() as u64 {
            return Ok(false);
        }
        let commit = put.permit.commit();
        ensure(self.letters.find(commit, TableVersion(0)).is_none(), || format!("P1: commit {commit} lands twice"))?;
        let nothing = (Shape(self.letters.shape), Vec::new());
        let (shape, rows) = put.dead.as_ref().unwrap_or(&nothing);
        ensure(shape.0 == self.letters.shape, || "P1: dead letters land that were made for another shape".into())?;
        let mut frontier = self.letters.frontier();
        for (partition, advance) in put.permit.advances() {
            let p = partition.0 as usize;
            let (from, to) = (advance.from.get(), advance.to.get());
            ensure(Some(to) <= self.table.frontier()[p], || {
                format!("P7: dead letters of partition {p} up to {to} are there before their rows")
            })?;
            let here: Vec<i64> = rows.iter().filter(|(of, _)| *of == p).map(|(_, at)| *at).collect();
            self.check_letters(p, &here, to, put)?;
            let stored = frontier[p].map(offset);
            ensure(advance.expect == stored, || {
                format!("P2: letters of partition {p} were expected at {:?}, they are at {stored:?}", advance.expect)
            })?;
            let gap = put.permit.gaps().iter().any(|gap| gap.partition == *partition);
            ensure(gap || stored.is_none_or(|stored| stored.get() == from), || {
                format!("P2: letters of partition {p} go on at {from}, they are at {stored:?}")
            })?;
            frontier[p] = Some(to);
        }
        let strangers = rows.iter().any(|(p, _)| !put.permit.advances().contains_key(&id(*p)));
        ensure(!strangers, || "P1: dead letters land without a span".into())?;
        Rc::make_mut(&mut self.letters).put(Some(commit), frontier);
        Ok(true)
    }

    /// P1, P9: each bad record of the spans that the table has is a letter once, or in a gap.
    fn check_letters(&mut self, p: usize, rows: &[i64], to: i64, put: &Put) -> Checked {
        let covered = self.table.covered[p].clone();
        let counts = &mut Rc::make_mut(&mut self.letters).counts[p];
        for at in (0..to).filter(|at| is_bad(*at)) {
            let index = usize::try_from(at).expect("not negative");
            counts[index] += u8::from(rows.contains(&at));
            ensure(counts[index] <= 1, || format!("P1: the dead letter of offset {at} of partition {p} lands twice"))?;
            let skips = |gap: &Gap| gap.partition == id(p) && (gap.from.get()..gap.to.get()).contains(&at);
            if covered[index] && counts[index] == 0 {
                let told = put.permit.gaps().iter().any(skips);
                ensure(told, || format!("P9: the dead letter of offset {at} of partition {p} is lost in silence"))?;
                counts[index] = 1;
            }
        }
        let all = rows.iter().all(|at| is_bad(*at) && *at < to);
        ensure(all, || format!("P1: letters {rows:?} of partition {p} land in a span up to {to}"))
    }

    /// P2: data begins where the table stands, or at the first place that anybody began at.
    fn check_link(&self, p: usize, stored: Option<Offset>, from: Offset, gap: bool) -> Checked {
        match stored {
            Some(stored) => ensure(stored == from || gap, || {
                let what = if self.oldest[p] > 0 { "P9" } else { "P2" };
                format!("{what}: partition {p} goes on at {from}, it is at {stored}")
            }),
            None if self.laws.set.as_ref().is_some_and(|set| set.to.get(&id(p)) == Some(&from)) => Ok(()),
            None if self.laws.policies.beginning == Beginning::Earliest => {
                ensure(from == Offset::ZERO || self.oldest[p] > 0, || format!("P2: partition {p} begins at {from}"))
            }
            None => {
                let late = self.begun[p].is_some_and(|begun| begun < from.get());
                ensure(!late || gap || self.oldest[p] > 0, || {
                    format!("P2: partition {p} began at {:?}, and now anew at {from}", self.begun[p])
                })
            }
        }
    }

    fn check_rows(&mut self, put: &Put) -> Checked {
        let Some((shape, rows)) = &put.batch else { return Ok(()) };
        ensure(shape.0 == self.table.shape, || "P1: rows land that were made for another shape".into())?;
        let spans = put.permit.advances().iter().filter(|(_, a)| a.to > a.from);
        let spans: Vec<_> = spans.map(|(p, a)| (p.0 as usize, a.from.get(), a.to.get())).collect();
        ensure(*rows == spans, || format!("P1: rows {rows:?} land with spans {spans:?}"))?;
        for (p, from, to) in spans {
            for at in from..to {
                let exact = self.laws.exact;
                if let Some(covered) = self.table().covered[p].get_mut(usize::try_from(at).expect("not negative")) {
                    *covered = true;
                }
                let count = &mut self.table().counts[p][usize::try_from(at).expect("not negative")];
                *count += u8::from(exact);
                ensure(*count <= 1, || format!("P1: offset {at} of partition {p} lands twice"))?;
            }
        }
        Ok(())
    }
}

/// One span a partition, in order of partitions.
fn merged(rows: Vec<Span>) -> Vec<Span> {
    let mut spans: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
    for (p, from, to) in rows {
        let span = spans.entry(p).or_insert((from, from));
        assert_eq!(span.1, from, "P2: records of partition {p} are taken out of order");
        span.1 = to;
    }
    spans.into_iter().map(|(p, (from, to))| (p, from, to)).collect()
}

impl Process {
    fn new(laws: &Laws) -> Self {
        Self::with(laws, laws.policies.clone())
    }

    /// A person's: it has the partitions that it sets, whoever else has them.
    fn setting(laws: &Laws) -> Self {
        let set = laws.set.clone().expect("somebody wants something");
        let (partitions, ends) = (set.to.keys().copied().collect::<BTreeSet<_>>(), Some(set.to.clone()));
        let mut process = Self::with(laws, Policies { set: Some(set), ends, ..laws.policies.clone() });
        process.sets = true;
        for partition in &partitions {
            process.told[partition.0 as usize] = true;
        }
        process.core.on(Event::Gained(partitions));
        process
    }

    fn with(laws: &Laws, policies: Policies) -> Self {
        let core = match laws.fault {
            None => Core::new(policies),
            Some(fault) => Core::broken(policies, fault),
        };
        Self {
            core,
            reading: BTreeMap::new(),
            inbox: VecDeque::new(),
            told: [false; PARTITIONS],
            stage: Vec::new(),
            dead: Vec::new(),
            dead_batch: None,
            dead_opened: None,
            dead_layout: Shape(0),
            knows: [None; PARTITIONS],
            opened: None,
            layout: Shape(0),
            batch: None,
            tried: None,
            sets: false,
        }
    }

    fn is_stopped(&self) -> bool {
        matches!(self.core.next(), Action::Stop(_))
    }

    /// The group gives it nothing while it has not heard that it was thrown out.
    fn may_gain(&self, p: usize) -> bool {
        !self.sets && !self.told[p] && self.inbox.is_empty() && !self.is_stopped()
    }

    fn committed(&mut self) {
        let permit = self.tried.take().expect("what was put was tried");
        if permit.sink() == LETTERS {
            (self.batch, self.dead_batch) = (None, None);
            return;
        }
        for (partition, advance) in permit.advances() {
            self.knows[partition.0 as usize] = Some(advance.to.get());
        }
        self.batch = None;
    }

    fn hear(&mut self) {
        match self.inbox.pop_front().expect("something was said") {
            Said::Gained(p) => {
                self.told[p as usize] = true;
                self.core.on(Event::Gained(BTreeSet::from([id(p as usize)])));
            }
            Said::Losing(p) => self.core.on(Event::Losing(BTreeSet::from([id(p as usize)]))),
            Said::Lost(lost) => {
                let lost: BTreeSet<usize> = (0..PARTITIONS).filter(|p| lost[*p]).collect();
                for p in &lost {
                    (self.told[*p], self.knows[*p]) = (false, None);
                    self.reading.remove(p);
                }
                self.core.on(Event::Lost(lost.into_iter().map(id).collect()));
            }
        }
    }
}

impl Table {
    fn frontier(&self) -> [Option<i64>; PARTITIONS] {
        self.versions.last().expect("version 0 is always there").1
    }

    fn put(&mut self, commit: Option<CommitId>, frontier: [Option<i64>; PARTITIONS]) {
        self.versions.push((commit, frontier));
    }

    fn restore(&mut self, to: usize) {
        let (newest, old) = (self.frontier(), self.versions[to].1);
        let at = self.versions.len() as u64;
        let mut covers = [None; PARTITIONS];
        for p in 0..PARTITIONS {
            if newest[p] > old[p] && newest[p] > Some(0) {
                covers[p] = Some(old[p].unwrap_or(0));
                self.owes_gap[p] = true;
            }
        }
        self.restored = Some((at, to as u64, covers));
        self.versions.push((None, newest));
    }

    fn forget(&mut self, p: usize) {
        let stored = self.versions.last_mut().expect("version 0 is always there").1[p].take();
        (self.fading[p], self.forgotten[p]) = (false, stored);
    }

    fn find(&self, commit: CommitId, from: TableVersion) -> Option<TableVersion> {
        let versions = (0..).zip(&self.versions).filter(|(version, _)| *version >= from.0);
        versions.into_iter().find(|(_, (by, _))| *by == Some(commit)).map(|(version, _)| TableVersion(version))
    }

    fn head(&self, asked: &BTreeSet<PartitionId>) -> Head {
        let frontier = self.frontier();
        let of =
            |p: &PartitionId, offsets: &[Option<i64>; PARTITIONS]| offsets[p.0 as usize].map(|raw| (*p, offset(raw)));
        let breach = self.restored.as_ref().and_then(|(at, to, covers)| {
            let covered: Frontier = asked.iter().filter_map(|p| of(p, covers)).collect();
            let breach = Breach::Restored { at: TableVersion(*at), to: TableVersion(*to), frontier: covered.clone() };
            (!covered.is_empty()).then_some(breach)
        });
        let forgotten: BTreeSet<_> = asked.iter().filter(|p| self.forgotten[p.0 as usize].is_some()).copied().collect();
        let lost = Breach::Forgotten { keeps: "a while".to_owned(), partitions: forgotten.clone() };
        Head {
            version: TableVersion(self.versions.len() as u64 - 1),
            frontier: asked.iter().filter_map(|p| of(p, &frontier)).collect(),
            shape: Shape(self.shape),
            breach: if forgotten.is_empty() { breach } else { Some(lost) },
            fading: asked.iter().filter(|p| self.fading[p.0 as usize]).copied().collect(),
            dead: asked.iter().filter_map(|p| Some((*p, stretch(self.dead[p.0 as usize]?)))).collect(),
        }
    }
}
