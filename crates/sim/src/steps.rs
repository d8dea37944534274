//! One run of a pipeline by step: chaos, then fair weather, then the reckoning.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use lakeward_protocol::core::Why;
use lakeward_protocol::core::step::{StepCore, StepPlan, StepReason};
use lakeward_protocol::drive::step::{Ports, StepDrive, StepLimits};
use lakeward_protocol::drive::{Port, Progress, Stopped, Watch};
use lakeward_protocol::memory::{
    Clock, Handover, MemoryCheckpoints, MemoryCircuit, MemoryInput, MemoryOutput, MemoryWorld, States, Table, Topic,
    answer,
};
use lakeward_protocol::ports::{Checkpoint, Exit, Permit, Stopping};
use lakeward_protocol::position::{Frontier, Offset, PartitionId, SinkId, SourceId, TableVersion};
use lakeward_protocol::sources::Sources;

use crate::chaos::{Chaos, Crash};
use crate::run::Report;

/// How large a run is.
#[derive(Clone, Debug)]
pub struct StepSize {
    /// Partitions of each source, at first.
    pub partitions: Vec<u32>,
    /// Up to 3: sums, dead letters, counts.
    pub sinks: usize,
    /// Processes at one time, at most; by right there is one.
    pub processes: usize,
    /// Turns of chaos.
    pub turns: u32,
}

impl Default for StepSize {
    fn default() -> Self {
        Self { partitions: vec![2, 1], sinks: 3, processes: 2, turns: 1_500 }
    }
}

type Process = StepDrive<Sources<MemoryInput>, MemoryCircuit, MemoryOutput, MemoryCheckpoints, MemoryWorld, Ear>;

struct Slot {
    name: u64,
    process: Process,
    world: MemoryWorld,
    /// Turns that it does not move.
    frozen: u64,
}

struct Simulation<'a> {
    size: &'a StepSize,
    chaos: Chaos,
    clock: Clock,
    topics: Vec<Topic>,
    tables: Vec<Table>,
    states: States,
    limits: StepLimits,
    slots: Vec<Slot>,
    names: u64,
    lost: bool,
}

/// Runs a seed over memory.
#[must_use]
pub fn run_steps(seed: u64, size: &StepSize) -> Report {
    let clock = Clock::default();
    let chaos = Chaos::new(seed, clock.clone());
    let limits = StepLimits {
        latency_ms: 200 + chaos.below(5_000),
        batch_messages: 1 + usize::try_from(chaos.below(8)).expect("small"),
        step_bytes: 1 + usize::try_from(chaos.below(200)).expect("small"),
        checkpoint_ms: 1_000 + chaos.below(20_000),
        grace_ms: 25_000,
    };
    chaos.note("begin", &format!("seed {seed} {limits:?}"));
    let topic = |partitions: &u32| Topic::new(*partitions, Handover::Eager, clock.clone());
    let mut simulation = Simulation {
        size,
        chaos: chaos.clone(),
        topics: size.partitions.iter().map(topic).collect(),
        tables: (0..size.sinks).map(|_| Table::new()).collect(),
        clock,
        states: States::default(),
        limits,
        slots: Vec::new(),
        names: 0,
        lost: false,
    };
    let broken = simulation.whole().err();
    Report { broken, history: chaos.history(), coverage: chaos.coverage() }
}

/// Turns of fair weather after which something is stuck.
const PATIENCE: u32 = 20_000;

impl Simulation<'_> {
    fn whole(&mut self) -> Result<(), String> {
        self.begin_process();
        for _ in 0..self.size.turns {
            self.turn()?;
            self.check()?;
        }
        self.clear_up();
        for _ in 0..PATIENCE {
            if self.slots.is_empty() {
                self.begin_process();
            }
            if self.is_complete() {
                return self.reckon();
            }
            for n in 0..self.slots.len() {
                self.step(n)?;
            }
            self.slots.retain(|slot| slot.name != 0);
        }
        Err(format!(
            "stuck: the first sink stands at {:?}, the topics end at {:?}",
            self.tables[0].frontier(),
            self.ends()
        ))
    }

    fn turn(&mut self) -> Result<(), String> {
        match self.chaos.below(1_000) {
            0..=149 => self.append(),
            150..=159 => self.begin_process(),
            160..=169 => self.freeze(),
            170..=194 => self.light_fuse(),
            195..=199 => self.kill(),
            200..=204 => self.wish(Stopping::Gracefully),
            205..=206 => self.wish(Stopping::AtOnce),
            207..=214 => {
                self.any_table().foreign_append();
                self.chaos.note("foreign append", "");
            }
            215..=217 => {
                self.any_table().foreign_reshape();
                self.chaos.note("foreign reshape", "");
            }
            218..=247 => self.deliver_late(),
            248..=250 => {
                self.chaos.store_down(Duration::from_millis(1_000 + self.chaos.below(60_000)));
                self.chaos.note("store outage", "");
            }
            251..=254 => {
                let down = self.chaos.below(3) == 0;
                self.topics.iter().for_each(|topic| topic.outage(down));
                self.chaos.note("input outage", if down { "begins" } else { "ends" });
            }
            255..=258 => self.lose(),
            259..=260 => self.extend(),
            _ => self.step_any()?,
        }
        self.slots.retain(|slot| slot.name != 0);
        Ok(())
    }

    fn pick(&self) -> Option<usize> {
        let count = self.slots.len() as u64;
        (count > 0).then(|| usize::try_from(self.chaos.below(count)).expect("few"))
    }

    fn any_table(&self) -> &Table {
        &self.tables[usize::try_from(self.chaos.below(self.tables.len() as u64)).expect("few")]
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
            Ok(Ok(Progress::Went | Progress::Idle)) => return Ok(()),
            Ok(Ok(Progress::Ended(ending))) => {
                self.chaos.note(&format!("end {ending:?}"), &format!("of {}", slot.name))
            }
            Ok(Err(stopped)) => {
                let kind = match &stopped {
                    Stopped::Step(StepReason::Fenced { .. }) => "end Fenced",
                    // A rival saved newer checkpoints, and trimmed what this one was reading.
                    Stopped::Step(StepReason::Gone { .. }) if self.names > 1 => "end Trimmed",
                    // It was told of the partitions before one was added, and a rival has committed that one.
                    Stopped::Step(StepReason::NoPartition { .. }) if self.names > 1 => "end NoPartition",
                    other if other.exit() == Exit::TryAgain => "end GaveUp",
                    _ => return Err(format!("process {} stopped: {stopped}", slot.name)),
                };
                self.chaos.note(kind, &format!("of {}: {stopped}", slot.name));
            }
            Err(unwound) if unwound.is::<Crash>() => {}
            Err(bug) => resume_unwind(bug),
        }
        self.slots[n].name = 0;
        Ok(())
    }

    fn begin_process(&mut self) {
        if self.slots.len() >= self.size.processes {
            return;
        }
        self.names += 1;
        let name = self.names;
        let reached = self.chaos.clone();
        let world = MemoryWorld::new(self.clock.clone(), name).reaching(move |point| reached.reach(name, point));
        let fate = || {
            let fates = self.chaos.clone();
            move |operation| fates.fate(operation)
        };
        let below = |bound| u32::try_from(self.chaos.below(bound)).expect("small");
        let (full_at, slow, failing) = (5 + below(40) as usize, below(12), u32::from(below(4) == 0));
        let ports = Ports {
            input: Sources::new(self.topics.iter().map(|topic| topic.open_alone().trimming()).collect()),
            circuit: MemoryCircuit::new(self.states.clone(), self.size.sinks, "plan")
                .full_at(full_at)
                .slow(slow)
                .failing(failing),
            sinks: self.tables.iter().map(|table| table.open(1).fated(fate())).collect(),
            checkpoints: self.states.open().fated(fate()),
        };
        let names = (0..self.size.sinks).map(|n| format!("sink{n}")).collect();
        let sources = u8::try_from(self.topics.len()).expect("few");
        let mut plan = StepPlan::new(sources, names);
        plan.sources.iter_mut().for_each(|source| source.trims = true);
        let ear = Ear { name, chaos: self.chaos.clone() };
        let process = StepDrive::new(StepCore::new(Arc::new(plan)), ports, world.clone(), ear, self.limits.clone());
        self.chaos.note(if self.slots.is_empty() { "begin process" } else { "begin rival" }, &name.to_string());
        self.slots.push(Slot { name, process, world, frozen: 0 });
    }

    fn append(&mut self) {
        let source = usize::try_from(self.chaos.below(self.topics.len() as u64)).expect("few");
        let topic = &self.topics[source];
        let count = self.partitions(source);
        let partition = PartitionId(u32::try_from(self.chaos.below(u64::from(count))).expect("few"));
        for _ in 0..=self.chaos.below(4) {
            let value = format!("{}={}", self.chaos.below(5), self.chaos.below(100));
            match self.chaos.below(20) {
                0 => topic.append(partition, None),
                1 => topic.append_hole(partition),
                2 => topic.append(partition, Some(b"bad")),
                3 => topic.append(partition, Some(b"none=0")),
                _ => topic.append(partition, Some(value.as_bytes())),
            };
        }
    }

    fn partitions(&self, source: usize) -> u32 {
        self.topics[source].partitions()
    }

    fn extend(&mut self) {
        let source = self.topics.len() - 1;
        if self.partitions(source) < self.size.partitions[source] + 1 {
            self.topics[source].extend();
            self.chaos.note("extend", "");
        }
    }

    fn freeze(&mut self) {
        let Some(n) = self.pick() else { return };
        let turns = 5 + self.chaos.below(100);
        self.slots[n].frozen = turns;
        self.chaos.note("freeze", &format!("{} for {turns} turns", self.slots[n].name));
    }

    fn light_fuse(&mut self) {
        let Some(n) = self.pick() else { return };
        let points = u32::try_from(self.chaos.below(30)).expect("small");
        self.chaos.light_fuse(self.slots[n].name, points);
    }

    fn kill(&mut self) {
        let Some(n) = self.pick() else { return };
        let slot = self.slots.remove(n);
        self.chaos.note("kill", &slot.name.to_string());
    }

    fn wish(&mut self, how: Stopping) {
        let Some(n) = self.pick() else { return };
        self.slots[n].world.stop(how);
        self.chaos.note(&format!("wish {how:?}"), &format!("of {}", self.slots[n].name));
    }

    fn deliver_late(&mut self) {
        for table in &self.tables {
            if table.deliver_late() {
                self.chaos.note("late put lands", "");
            }
        }
        if self.states.deliver_late() {
            self.chaos.note("late manifest lands", "");
        }
    }

    /// P4: once a run, the newest checkpoint gets lost.
    fn lose(&mut self) {
        if self.lost {
            return;
        }
        let (what, lost) = match self.chaos.below(2) {
            0 => ("lose manifest", self.states.lose_manifest()),
            _ => ("lose state", self.states.lose_state()),
        };
        if lost {
            self.lost = true;
            self.chaos.note(what, "");
        }
    }

    /// Fair weather: everybody wakes, nothing fails, and a last record each shows what was missed.
    fn clear_up(&mut self) {
        self.chaos.clear();
        self.chaos.note("fair weather", "");
        self.topics.iter().for_each(|topic| topic.outage(false));
        self.deliver_late();
        self.slots.iter_mut().for_each(|slot| slot.frozen = 0);
        for (source, topic) in self.topics.iter().enumerate() {
            for partition in (0..self.partitions(source)).map(PartitionId) {
                topic.append(partition, Some(b"last=1"));
            }
        }
    }

    fn ends(&self) -> Frontier {
        let mut ends = Frontier::new();
        for (source, topic) in self.topics.iter().enumerate() {
            for number in 0..topic.partitions() {
                let id = PartitionId::of(SourceId(u8::try_from(source).expect("few")), number);
                ends.insert(id, topic.bounds(PartitionId(number)).end);
            }
        }
        ends
    }

    fn is_complete(&self) -> bool {
        self.tables[0].frontier() == self.ends() && self.views_are(&self.ends()).is_ok()
    }

    fn begun(&self) -> Frontier {
        self.states.manifests().last().map(|newest| newest.begun.clone()).unwrap_or_default()
    }

    fn views_are(&self, frontier: &Frontier) -> Result<(), String> {
        for (sink, table) in (0..).map(SinkId).zip(&self.tables) {
            let (view, right) = (table.view(), answer(sink, &self.topics, &self.begun(), &[], frontier));
            if view != right {
                return Err(format!("P5: sink {} holds {view:?}, not {right:?}", sink.0));
            }
        }
        Ok(())
    }

    /// What holds at every moment: P3, P4 and P7.
    fn check(&self) -> Result<(), String> {
        let within = |low: &Frontier, high: &Frontier| {
            low.iter().all(|(p, at)| *at <= high.get(p).copied().unwrap_or(Offset::ZERO))
        };
        let first = self.tables[0].frontier();
        for table in &self.tables[1..] {
            if !within(&table.frontier(), &first) {
                return Err(format!("P7: {:?} is ahead of the first sink, {first:?}", table.frontier()));
            }
        }
        let manifests = self.states.manifests();
        for (manifest, table) in manifests.iter().flat_map(|m| self.tables.iter().map(move |t| (m, t))) {
            if !within(&manifest.frontier, &table.frontier()) && manifest.state.is_some() {
                return Err(format!("P4: checkpoint {} is ahead of {:?}", manifest.number, table.frontier()));
            }
        }
        let oldest = self
            .ends()
            .into_keys()
            .map(|p| (p, self.topics[usize::from(p.source().0)].bounds(PartitionId(p.number())).oldest));
        let oldest: Frontier = oldest.collect();
        match manifests.last() {
            Some(newest) if !within(&oldest, &newest.frontier) => {
                Err(format!("P3: trimmed to {oldest:?}, the newest checkpoint covers {:?}", newest.frontier))
            }
            _ => Ok(()),
        }
    }

    /// Every version of every table was the answer at its frontier, and the last one is over everything.
    fn reckon(&self) -> Result<(), String> {
        let begun = self.begun();
        for (sink, table) in (0..).map(SinkId).zip(&self.tables) {
            table.verify_steps(&begun, |frontier| answer(sink, &self.topics, &begun, &[], frontier))?;
        }
        self.views_are(&self.ends())
    }
}

/// Writes down what a process does.
struct Ear {
    name: u64,
    chaos: Chaos,
}

impl Ear {
    fn note(&self, what: &str, detail: &str) {
        self.chaos.note(what, &format!("by {}: {detail}", self.name));
    }
}

impl Watch for Ear {
    fn started(&mut self, positions: &Frontier) {
        self.note("started", &format!("{positions:?}"));
    }

    fn committed(&mut self, version: TableVersion, permit: &Permit) {
        let what = format!("committed to sink {}", permit.sink().0);
        self.note(&what, &format!("{version} {:?}", permit.advances()));
    }

    fn raced(&mut self, version: TableVersion) {
        self.note("raced", &version.to_string());
    }

    fn discarded(&mut self, why: &Why) {
        self.note("discarded", &why.to_string());
    }

    fn restored(&mut self, checkpoint: &Checkpoint) {
        let what = if checkpoint.state.is_some() { "restored" } else { "restored to the beginning" };
        self.note(what, &format!("{} {:?}", checkpoint.number, checkpoint.frontier));
    }

    fn stepped(&mut self, from: &Frontier, to: &Frontier) {
        self.note("stepped", &format!("{from:?} {to:?}"));
    }

    fn saved(&mut self, checkpoint: &Checkpoint) {
        self.note("saved", &checkpoint.number.to_string());
    }

    fn removed(&mut self, checkpoints: usize) {
        self.note("removed", &checkpoints.to_string());
    }

    fn trimmed(&mut self, below: &Frontier) {
        self.note("trimmed", &format!("{below:?}"));
    }

    fn retrying(&mut self, port: Port, doing: &str, error: &dyn Error, _: u32, _: Duration) {
        self.note(&format!("retrying {port}"), &format!("{doing}: {error}"));
    }
}
