//! One run: chaos, then fair weather, then the reckoning.

use std::collections::BTreeSet;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use lakeward_protocol::core::{Core, LETTERS, OnGap, OnRestore, Policies, Why};
use lakeward_protocol::drive::{Drive, Due, Limits, Port, Progress, Watch};
use lakeward_protocol::memory::{Clock, Handover, MemoryInput, MemoryWorld, Topic};
use lakeward_protocol::ports::{Exit, Permit, Stopping};
use lakeward_protocol::position::{Frontier, Offset, PartitionId, TableVersion};

use crate::chaos::{Chaos, Coverage, Crash};
use crate::site::Site;

/// How large a run is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Partitions of the topic.
    pub partitions: u32,
    /// Processes at one time, at most.
    pub processes: usize,
    /// Turns of chaos.
    pub turns: u32,
    /// Whether the schema may change.
    pub reshapes: bool,
    /// Whether a table may be restored and input expire (P9, the user having chosen to go on).
    pub losses: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self { partitions: 4, processes: 3, turns: 400, reshapes: true, losses: true }
    }
}

/// What a run came to.
pub struct Report {
    /// What went wrong, if something did.
    pub broken: Option<String>,
    /// All that happened, in order.
    pub history: Vec<String>,
    /// What happened, counted.
    pub coverage: Coverage,
}

type Process<S> = Drive<MemoryInput, <S as Site>::Stage, <S as Site>::Output, MemoryWorld, Ear>;

/// A process and what the simulation needs to meddle with it.
struct Slot<S: Site> {
    name: u64,
    member: u64,
    process: Process<S>,
    world: MemoryWorld,
    /// Turns that it does not move.
    frozen: u64,
}

struct Simulation<'a, S: Site> {
    plan: &'a Plan,
    chaos: Chaos,
    clock: Clock,
    topic: Topic,
    site: &'a S,
    limits: Limits,
    slots: Vec<Slot<S>>,
    names: u64,
    restored: bool,
    expired: bool,
    /// Members that the group has not missed yet: a crashed process's input.
    graves: Vec<(u64, MemoryInput)>,
}

/// Runs a seed over a site.
pub fn run<S: Site>(seed: u64, plan: &Plan, site: &S) -> Report {
    let clock = Clock::default();
    let chaos = Chaos::new(seed, clock.clone());
    let handover = if chaos.below(2) == 0 { Handover::Cooperative } else { Handover::Eager };
    let limits = Limits {
        latency_ms: 200 + chaos.below(5_000),
        batch_messages: 1 + usize::try_from(chaos.below(8)).expect("small"),
        file_bytes: 1 + usize::try_from(chaos.below(100)).expect("small"),
        grace_ms: 25_000,
    };
    let topic = Topic::new(plan.partitions, handover, clock.clone());
    chaos.note("begin", &format!("seed {seed} {handover:?} {limits:?}"));
    let mut simulation = Simulation {
        plan,
        chaos: chaos.clone(),
        clock,
        topic,
        site,
        limits,
        slots: Vec::new(),
        names: 0,
        restored: false,
        expired: false,
        graves: Vec::new(),
    };
    let broken = simulation.whole().err();
    Report { broken, history: chaos.history(), coverage: chaos.coverage() }
}

/// Turns of fair weather after which something is stuck.
const PATIENCE: u32 = 50_000;

impl<S: Site> Simulation<'_, S> {
    fn whole(&mut self) -> Result<(), String> {
        self.begin_process();
        for _ in 0..self.plan.turns {
            self.turn()?;
            self.check()?;
        }
        self.clear_up();
        for _ in 0..PATIENCE {
            if self.is_complete() {
                return self.reckon();
            }
            for n in 0..self.slots.len() {
                self.step(n)?;
            }
            self.slots_ended();
            self.check()?;
        }
        Err(format!("stuck: the table stands at {:?}, the topic ends at {:?}", self.site.frontier(), self.ends()))
    }

    fn turn(&mut self) -> Result<(), String> {
        let dice = self.chaos.below(1_000);
        match dice {
            0..=149 => self.append(),
            150..=159 => self.begin_process(),
            160..=169 => self.freeze(),
            170..=184 => self.light_fuse(),
            185..=189 => self.kill(),
            190..=194 => self.wish(Stopping::Gracefully),
            195..=196 => self.wish(Stopping::AtOnce),
            197..=206 => {
                self.site.foreign_append();
                self.chaos.note("foreign append", "");
            }
            207..=210 if self.plan.reshapes => {
                self.site.foreign_reshape();
                self.chaos.note("foreign reshape", "");
            }
            211..=240 => self.deliver_late(),
            241..=243 => {
                self.chaos.store_down(Duration::from_millis(1_000 + self.chaos.below(60_000)));
                self.chaos.note("store outage", "");
            }
            244..=247 => {
                let down = self.chaos.below(2) == 0;
                self.topic.outage(down);
                self.chaos.note("input outage", if down { "begins" } else { "ends" });
            }
            248..=251 => self.bury(),
            252..=254 if self.plan.losses => self.lose(),
            _ => self.step_any()?,
        }
        self.slots_ended();
        Ok(())
    }

    fn pick(&self) -> Option<usize> {
        let count = self.slots.len() as u64;
        (count > 0).then(|| usize::try_from(self.chaos.below(count)).expect("few"))
    }

    fn step_any(&mut self) -> Result<(), String> {
        let Some(n) = self.pick() else {
            self.begin_process();
            return Ok(());
        };
        if self.slots[n].frozen > 0 {
            self.slots[n].frozen -= 1;
            return Ok(());
        }
        self.step(n)
    }

    /// One step of a process. What it unwinds with is a crash, or a bug.
    fn step(&mut self, n: usize) -> Result<(), String> {
        let slot = &mut self.slots[n];
        match catch_unwind(AssertUnwindSafe(|| slot.process.step())) {
            Ok(Ok(Progress::Went | Progress::Idle)) => {}
            Ok(Ok(Progress::Ended(ending))) => {
                self.chaos.note(&format!("end {ending:?}"), &format!("of {}", slot.name));
                slot.name = 0;
            }
            Ok(Err(stopped)) if stopped.exit() == Exit::TryAgain => {
                self.chaos.note("end GaveUp", &format!("of {}", slot.name));
                slot.name = 0;
            }
            Ok(Err(stopped)) => return Err(format!("process {} stopped: {stopped}", slot.name)),
            Err(unwound) if unwound.is::<Crash>() => slot.name = 0,
            Err(bug) => resume_unwind(bug),
        }
        Ok(())
    }

    /// Forgets processes that ended; the group misses them at once.
    fn slots_ended(&mut self) {
        self.slots.retain(|slot| slot.name != 0);
    }

    fn policies(&self) -> Policies {
        let dead_letters = self.site.open_letters(&self.chaos).is_some();
        Policies { on_gap: OnGap::Skip, on_restore: OnRestore::Replay, dead_letters, ..Policies::default() }
    }

    fn begin_process(&mut self) {
        if self.slots.len() >= self.plan.processes {
            return;
        }
        self.names += 1;
        let (name, chaos) = (self.names, self.chaos.clone());
        let world = MemoryWorld::new(self.clock.clone(), name).reaching(move |point| chaos.reach(name, point));
        let (stage, output) = self.site.open(&self.chaos);
        let input = self.topic.join();
        let member = input.member();
        let ear = Ear { name, chaos: self.chaos.clone(), dead: BTreeSet::new() };
        let core = Core::new(self.policies());
        let process = Drive::new(core, input, stage, output, world.clone(), ear, self.limits.clone());
        let process = match self.site.open_letters(&self.chaos) {
            Some(letters) => process.with_letters(letters),
            None => process,
        };
        self.chaos.note("begin process", &name.to_string());
        self.slots.push(Slot { name, member, process, world, frozen: 0 });
    }

    fn append(&mut self) {
        let partition = PartitionId(u32::try_from(self.chaos.below(u64::from(self.plan.partitions))).expect("few"));
        for _ in 0..=self.chaos.below(4) {
            match self.chaos.below(20) {
                0 => self.topic.append(partition, None),
                1 => self.topic.append_hole(partition),
                2 => self.topic.append(partition, Some(b"bad")),
                _ => {
                    let end = self.topic.bounds(partition).end;
                    self.topic.append(partition, Some(format!("{partition}/{end}").as_bytes()))
                }
            };
        }
    }

    /// A process stands still, and the group throws it out, which it hears of some time after it wakes.
    fn freeze(&mut self) {
        let Some(n) = self.pick() else { return };
        let (turns, polls) = (5 + self.chaos.below(60), self.chaos.below(12));
        let slot = &mut self.slots[n];
        slot.frozen = turns;
        self.topic.evict(slot.member, u32::try_from(polls).expect("small"));
        self.chaos.note("freeze", &format!("{} for {turns} turns and {polls} polls", slot.name));
    }

    fn light_fuse(&mut self) {
        let Some(n) = self.pick() else { return };
        let points = u32::try_from(self.chaos.below(14)).expect("small");
        self.chaos.light_fuse(self.slots[n].name, points);
    }

    fn kill(&mut self) {
        let Some(n) = self.pick() else { return };
        let slot = self.slots.remove(n);
        self.chaos.note("kill", &slot.name.to_string());
        if self.chaos.below(2) == 0 {
            // The group misses it only later: meanwhile nobody has its partitions.
            self.graves.push((slot.member, slot.process.into_input()));
        }
    }

    fn bury(&mut self) {
        if let Some((member, _)) = self.graves.pop() {
            self.chaos.note("bury", &member.to_string());
        }
    }

    fn wish(&mut self, how: Stopping) {
        let Some(n) = self.pick() else { return };
        self.slots[n].world.stop(how);
        self.chaos.note(&format!("wish {how:?}"), &format!("of {}", self.slots[n].name));
    }

    fn deliver_late(&mut self) {
        if self.site.deliver_late() {
            self.chaos.note("late put lands", "");
        }
    }

    /// P9: one restore or one expiry a run.
    fn lose(&mut self) {
        let newest = self.site.version().0;
        if self.restored || self.expired || newest < 3 {
            return;
        }
        if self.chaos.below(2) == 0 {
            let to = TableVersion(self.chaos.below(newest));
            if self.site.foreign_restore(to) {
                self.restored = true;
                self.chaos.note("restore", &to.to_string());
            }
        } else {
            let partition = PartitionId(0);
            let end = self.topic.bounds(partition).end.get();
            let oldest = Offset::new(end - i64::try_from(self.chaos.below(3)).expect("small")).unwrap_or(Offset::ZERO);
            self.topic.expire(partition, oldest);
            self.expired = true;
            self.chaos.note("expire", &oldest.to_string());
        }
    }

    /// Fair weather: everybody wakes, nothing fails, and a last record each shows what was missed.
    fn clear_up(&mut self) {
        self.chaos.clear();
        self.chaos.note("fair weather", "");
        self.topic.outage(false);
        self.graves.clear();
        self.site.deliver_late();
        self.slots.iter_mut().for_each(|slot| slot.frozen = 0);
        if self.slots.is_empty() {
            self.begin_process();
        }
        for partition in (0..self.plan.partitions).map(PartitionId) {
            let end = self.topic.bounds(partition).end;
            self.topic.append(partition, Some(format!("{partition}/{end}").as_bytes()));
        }
    }

    fn ends(&self) -> Frontier {
        (0..self.plan.partitions).map(|p| (PartitionId(p), self.topic.bounds(PartitionId(p)).end)).collect()
    }

    fn is_complete(&mut self) -> bool {
        if self.slots.is_empty() {
            self.begin_process();
        }
        let idle = self.slots.iter().all(|slot| !slot.process.core().is_holding());
        idle && self.site.frontier() == self.ends() && self.site.letters().len() >= self.bad_records().len()
    }

    /// What holds at every moment.
    fn check(&self) -> Result<(), String> {
        let stored = self.site.frontier();
        for (partition, announced) in self.topic.announced() {
            if stored.get(&partition) < Some(&announced) && !self.restored && !self.expired {
                return Err(format!("lag tools were told {announced} of partition {partition}, stored: {stored:?}"));
            }
        }
        Ok(())
    }

    /// The places that dead letters are to have.
    fn bad_records(&self) -> BTreeSet<(PartitionId, Offset)> {
        if self.site.open_letters(&self.chaos).is_none() {
            return BTreeSet::new();
        }
        let records = |p| self.topic.records(p).into_iter().filter(|(_, v)| v == b"bad").map(move |(at, _)| (p, at));
        (0..self.plan.partitions).map(PartitionId).flat_map(records).collect()
    }

    /// Everything is in the table once, and the table proves it.
    fn reckon(&self) -> Result<(), String> {
        self.site.verify(&self.topic)?;
        let (letters, bad) = (self.site.letters(), self.bad_records());
        if letters.len() != bad.len() || letters.iter().copied().collect::<BTreeSet<_>>() != bad {
            return Err(format!("P1: dead letters {letters:?} of the bad records {bad:?}"));
        }
        let rows = self.site.rows();
        let once: BTreeSet<_> = rows.iter().copied().collect();
        let mut expected = BTreeSet::new();
        for partition in (0..self.plan.partitions).map(PartitionId) {
            let records = self.topic.records(partition).into_iter().filter(|(_, value)| value != b"bad");
            expected.extend(records.map(|(at, _)| (partition, at)));
        }
        if rows.len() != once.len() {
            return Err(format!("P1: {} rows of {} records", rows.len(), once.len()));
        }
        let lost: Vec<_> = expected.difference(&once).collect();
        let too_many: Vec<_> = once.difference(&expected).collect();
        if !too_many.is_empty() || (!lost.is_empty() && !self.expired) {
            return Err(format!("P1: lost {lost:?}, from nowhere {too_many:?}"));
        }
        Ok(())
    }
}

/// Writes down what a process does.
struct Ear {
    name: u64,
    chaos: Chaos,
    /// Partitions whose dead letters follow the last commit.
    dead: BTreeSet<PartitionId>,
}

impl Ear {
    fn note(&self, what: &str, detail: &str) {
        self.chaos.note(what, &format!("by {}: {detail}", self.name));
    }
}

impl Watch for Ear {
    fn gained(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.note("gained", &format!("{partitions:?}"));
    }

    fn losing(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.note("losing", &format!("{partitions:?}"));
    }

    fn lost(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.note("lost", &format!("{partitions:?}"));
    }

    fn released(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.note("released", &format!("{partitions:?}"));
    }

    fn started(&mut self, positions: &Frontier) {
        self.note("started", &format!("{positions:?}"));
    }

    fn sealed(&mut self, due: Due, messages: u64, _: u64) {
        self.note(&format!("sealed {due:?}"), &messages.to_string());
    }

    fn committed(&mut self, version: TableVersion, permit: &Permit) {
        let gap = if permit.gaps().is_empty() { "" } else { " with a gap" };
        let letters = if permit.sink() == LETTERS { "letters " } else { "" };
        // A letter's span that no commit of rows by us came before was owed.
        let new = std::mem::take(&mut self.dead);
        if permit.sink() == LETTERS && permit.advances().keys().any(|p| !new.contains(p)) {
            self.note("read again for letters", &format!("{:?}", permit.advances()));
        }
        self.dead.extend(permit.dead().keys());
        self.note(&format!("{letters}committed{gap}"), &format!("{version} {:?}", permit.advances()));
    }

    fn raced(&mut self, version: TableVersion) {
        self.note("raced", &version.to_string());
    }

    fn discarded(&mut self, why: &Why) {
        let kind = match why {
            Why::Fenced { .. } => "fenced",
            Why::Rewound { .. } => "rewound",
            Why::Breached(_) => "breached",
            Why::Reshaped => "reshaped",
            Why::Lost { .. } => "lost",
        };
        self.note(&format!("discarded, {kind}"), &why.to_string());
    }

    fn retrying(&mut self, port: Port, doing: &str, error: &dyn Error, _: u32, _: Duration) {
        self.note(&format!("retrying {port}"), &format!("{doing}: {error}"));
    }
}
