//! The loop by step over memory, one situation a test.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Ports, StepDrive, StepLimits};
use crate::core::step::{SourcePlan, StepCore, StepPlan, StepReason};
use crate::core::{Beginning, Ending, OnGap, Why};
use crate::drive::{Port, Progress, Stopped, Watch};
use crate::memory::{
    Clock, Fate, Handover, MemoryCheckpoints, MemoryCircuit, MemoryInput, MemoryOutput, MemoryWorld, Operation,
    Outside, States, Table, Topic, View, answer,
};
use crate::ports::{Checkpoint, Exit, Gap, Permit, Point, Stopping};
use crate::position::{Frontier, Offset, PartitionId, SinkId, SourceId, TableVersion};
use crate::records::Records;
use crate::sources::Sources;

const P0: PartitionId = PartitionId(0);
const SINKS: usize = 3;

fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("not negative")
}

/// What the loop told, in words.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    fn note(&self, what: String) {
        self.0.borrow_mut().push(what);
    }

    fn count(&self, what: &str) -> usize {
        self.0.borrow().iter().filter(|line| line.starts_with(what)).count()
    }
}

impl Watch for Log {
    fn taken(&mut self, records: &Records) {
        self.note(format!("taken {}", records.len()));
    }

    fn committed(&mut self, version: TableVersion, permit: &Permit) {
        self.note(format!("committed {} {version}", permit.sink().0));
    }

    fn raced(&mut self, version: TableVersion) {
        self.note(format!("raced {version}"));
    }

    fn discarded(&mut self, why: &Why) {
        self.note(format!("discarded {why}"));
    }

    fn retrying(&mut self, port: Port, doing: &str, _: &dyn std::error::Error, _: u32, _: std::time::Duration) {
        self.note(format!("retrying {port} {doing}"));
    }

    fn restored(&mut self, checkpoint: &Checkpoint) {
        self.note(format!("restored {}", checkpoint.number));
    }

    fn saved(&mut self, checkpoint: &Checkpoint) {
        self.note(format!("saved {}", checkpoint.number));
    }

    fn trimmed(&mut self, below: &Frontier) {
        self.note(format!("trimmed {:?}", below.values().map(|at| at.get()).collect::<Vec<_>>()));
    }
}

type Process = StepDrive<Sources<MemoryInput>, MemoryCircuit, MemoryOutput, MemoryCheckpoints, MemoryWorld, Log>;

/// Two sources of two partitions and one, three sinks.
struct Scene {
    clock: Clock,
    topics: Vec<Topic>,
    tables: Vec<Table>,
    states: States,
    log: Log,
    names: u64,
}

/// 1 s latency, a checkpoint every 10 s.
fn limits() -> StepLimits {
    StepLimits { latency_ms: 1_000, batch_messages: 3, step_bytes: 1_000, checkpoint_ms: 10_000, grace_ms: 25_000 }
}

fn plan() -> StepPlan {
    StepPlan::new(2, vec!["sums".into(), "letters".into(), "counts".into()])
}

impl Scene {
    fn new() -> Self {
        let clock = Clock::default();
        let topics = [2, 1].map(|partitions| Topic::new(partitions, Handover::Eager, clock.clone())).to_vec();
        let tables = (0..SINKS).map(|_| Table::new()).collect();
        Self { clock, topics, tables, states: States::default(), log: Log::default(), names: 0 }
    }

    fn append(&self, source: usize, partition: u32, values: &[&str]) {
        for value in values {
            self.topics[source].append(PartitionId(partition), Some(value.as_bytes()));
        }
    }

    fn world(&mut self) -> MemoryWorld {
        self.names += 1;
        MemoryWorld::new(self.clock.clone(), self.names)
    }

    fn process(&mut self, plan: StepPlan) -> Process {
        let world = self.world();
        self.process_in(plan, world)
    }

    fn process_in(&self, plan: StepPlan, world: MemoryWorld) -> Process {
        let sinks = self.tables.iter().map(|table| table.open(1)).collect();
        self.process_over(plan, world, sinks, self.states.open())
    }

    fn process_over(
        &self,
        plan: StepPlan,
        world: MemoryWorld,
        sinks: Vec<MemoryOutput>,
        checkpoints: MemoryCheckpoints,
    ) -> Process {
        let input = Sources::new(self.topics.iter().map(|topic| topic.open_alone().trimming()).collect());
        let circuit = MemoryCircuit::new(self.states.clone(), SINKS, "a plan");
        let ports = Ports { input, circuit, sinks, checkpoints };
        StepDrive::new(StepCore::new(Arc::new(plan)), ports, world, self.log.clone(), limits())
    }

    /// Every version of every table holds the answer at its frontier.
    fn check(&self) {
        let begun = self.states.manifests().last().map(|newest| newest.begun.clone()).unwrap_or_default();
        for (sink, table) in (0..).map(SinkId).zip(&self.tables) {
            let gaps = self.tables[0].gaps();
            let right = |frontier: &Frontier| answer(sink, &self.topics, &begun, &gaps, frontier);
            table.verify_steps(&begun, right).unwrap_or_else(|wrong| panic!("sink {}: {wrong}", sink.0));
        }
    }

    fn versions(&self) -> Vec<u64> {
        self.tables.iter().map(|table| table.version().0).collect()
    }
}

/// Steps until the process has had nothing to do for some time.
fn settle(process: &mut Process) {
    let mut idle = 0;
    for _ in 0..10_000 {
        match process.step().expect("nothing stops it") {
            Progress::Idle => idle += 1,
            Progress::Went => idle = 0,
            Progress::Ended(_) => return,
        }
        if idle > 20 && !process.core().is_holding() {
            return;
        }
    }
    panic!("it never settles");
}

fn run(process: &mut Process) -> Result<Ending, Stopped> {
    for _ in 0..10_000 {
        if let Progress::Ended(ending) = process.step()? {
            return Ok(ending);
        }
    }
    panic!("it never ends");
}

fn rows(view: &View) -> Vec<&str> {
    view.keys().map(String::as_str).collect()
}

#[test]
fn sinks_are_tended_by_the_clock_though_nothing_is_committed() {
    let mut scene = Scene::new();
    let sinks = scene.tables.iter().map(|table| table.open(1)).collect();
    let tended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tended);
    let world = scene.world().reaching(move |point| {
        count.fetch_add(usize::from(point == Point::BeforeTend), Ordering::Relaxed);
    });
    let mut process = scene.process_over(plan(), world, sinks, scene.states.open());
    settle(&mut process);
    let before = tended.load(Ordering::Relaxed);
    for hours in 1..=3 {
        scene.clock.advance(Duration::from_secs(60 * 60));
        settle(&mut process);
        assert_eq!(tended.load(Ordering::Relaxed), before + hours);
    }
}

#[test]
fn answers_of_several_sources_reach_every_sink() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1", "b=2", "a=3"]);
    scene.append(0, 1, &["oops"]);
    scene.append(1, 0, &["b=-2", "c=4"]);
    settle(&mut scene.process(plan()));
    scene.check();
    assert_eq!(rows(&scene.tables[0].view()), ["a=4", "b=0", "c=4"]);
    assert_eq!(rows(&scene.tables[1].view()), ["1@0"]);
    assert_eq!(rows(&scene.tables[2].view()), ["a:2", "b:2", "c:1"]);
    let letter = PartitionId::of(SourceId(1), 0);
    assert_eq!(scene.tables[0].frontier()[&letter], at(2), "a partition says of which source it is");
}

#[test]
fn a_step_that_changes_nothing_commits_nothing() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1"]);
    let mut process = scene.process(plan());
    settle(&mut process);
    assert_eq!(scene.versions(), [1, 0, 1], "no dead letter, no commit for it");
    scene.append(0, 0, &["oops"]);
    settle(&mut process);
    assert_eq!(scene.versions(), [2, 1, 1], "P7: the first sink is the record of the step");
    scene.clock.advance(std::time::Duration::from_secs(9));
    settle(&mut process);
    assert_eq!(scene.versions(), [2, 1, 2], "P4: all sinks are at the checkpoint");
    assert_eq!(scene.states.manifests().len(), 2, "the beginning, and one");
    scene.clock.advance(std::time::Duration::from_secs(100));
    settle(&mut process);
    assert_eq!((scene.versions(), scene.states.manifests().len()), (vec![2, 1, 2], 2), "an idle pipeline is silent");
    scene.check();
}

#[test]
fn a_wish_to_stop_leaves_all_sinks_level_and_a_checkpoint() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1", "oops"]);
    let world = scene.world();
    let mut process = scene.process_in(plan(), world.clone());
    while !process.core().is_holding() {
        let _ = process.step().expect("nothing stops it");
    }
    world.stop(Stopping::Gracefully);
    assert_eq!(run(&mut process).expect("it ends well"), Ending::Stopped);
    scene.check();
    let newest = scene.states.manifests().pop().expect("a checkpoint");
    for table in &scene.tables {
        assert_eq!(table.frontier(), newest.frontier, "where the checkpoint is");
    }
    let before = scene.versions();
    settle(&mut scene.process(plan()));
    assert_eq!(scene.versions(), before, "a start that finds nothing new commits nothing");
    assert_eq!(scene.log.count("restored 1"), 1);
}

/// P4: the checkpoint is of where its save began, whatever is committed meanwhile.
#[test]
fn steps_go_on_while_a_state_is_saved() {
    let mut scene = Scene::new();
    let world = scene.world();
    let mut process = scene.process_in(plan(), world.clone());
    process.ports.circuit = MemoryCircuit::new(scene.states.clone(), SINKS, "a plan").slow(200);
    scene.append(0, 0, &["a=1", "oops"]);
    settle(&mut process);
    let begun_at = scene.tables[0].frontier();
    scene.clock.advance(std::time::Duration::from_secs(10));
    while !process.core().is_saving() {
        let _ = process.step().expect("nothing stops it");
    }
    for _ in 0..3 {
        scene.append(0, 0, &["a=1"]);
        settle(&mut process);
    }
    assert!(process.core().is_saving(), "it is under way still");
    assert_eq!((scene.versions()[0], scene.states.manifests().len()), (4, 1), "three commits, no checkpoint");
    while process.core().is_saving() {
        let _ = process.step().expect("nothing stops it");
    }
    settle(&mut process);
    assert_eq!(scene.states.manifests().last().expect("a checkpoint").frontier, begun_at);
    scene.append(1, 0, &["b=1"]);
    scene.clock.advance(std::time::Duration::from_secs(10));
    while !process.core().is_saving() {
        let _ = process.step().expect("nothing stops it");
    }
    scene.append(1, 0, &["b=2"]);
    settle(&mut process);
    world.stop(Stopping::Gracefully);
    assert_eq!(run(&mut process).expect("it ends well"), Ending::Stopped);
    let ends = scene.tables[0].frontier();
    assert_eq!(scene.states.manifests().last().expect("a checkpoint").frontier, ends, "who leaves waits for two saves");
    scene.check();
}

#[test]
fn a_save_that_fails_is_begun_anew_and_holds_nothing_up() {
    let mut scene = Scene::new();
    let mut process = scene.process(plan());
    process.ports.circuit = MemoryCircuit::new(scene.states.clone(), SINKS, "a plan").failing(2);
    for n in 1..=3 {
        scene.append(0, 0, &["a=1"]);
        settle(&mut process);
        scene.clock.advance(std::time::Duration::from_secs(11));
        settle(&mut process);
        assert_eq!(scene.versions()[0], n, "commits go on");
    }
    assert_eq!(scene.log.count("retrying circuit save the state"), 2);
    assert_eq!(scene.states.manifests().len(), 2, "the beginning, and one");
    let ends = scene.tables[0].frontier();
    assert_eq!(scene.states.manifests().last().expect("a checkpoint").frontier, ends);
    scene.check();
}

#[test]
fn ends_where_it_was_asked_to() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1", "a=2", "a=3"]);
    scene.append(1, 0, &["b=1"]);
    scene.topics[1].append_hole(P0);
    let other = PartitionId::of(SourceId(1), 0);
    let ends = Some(Frontier::from([(P0, at(2)), (other, at(2))]));
    let ending = run(&mut scene.process(StepPlan { ends, ..plan() })).expect("it ends well");
    assert_eq!(ending, Ending::Reached);
    assert_eq!(rows(&scene.tables[0].view()), ["a=3", "b=1"]);
    assert_eq!((scene.tables[1].frontier()[&P0], scene.tables[1].frontier()[&other]), (at(2), at(2)));
    scene.check();
}

/// Crashes at every point of a run, one after the other, and goes on with a new process.
#[test]
fn a_crash_anywhere_changes_nothing_that_is_seen() {
    for crash in 0..60 {
        let mut scene = Scene::new();
        scene.append(0, 0, &["a=1", "oops", "a=2", "b=5"]);
        scene.append(1, 0, &["a=7", "no"]);
        let reached = std::sync::atomic::AtomicUsize::new(0);
        let world = scene.world().reaching(move |_: Point| {
            if reached.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == crash {
                std::panic::resume_unwind(Box::new(()));
            }
        });
        let mut first = scene.process_in(plan(), world);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            settle(&mut first);
            scene.append(0, 1, &["c=1", "c=2"]);
            settle(&mut first);
            scene.clock.advance(std::time::Duration::from_secs(9));
            settle(&mut first);
        }));
        drop(first);
        scene.append(1, 0, &["b=-5", "worse"]);
        settle(&mut scene.process(plan()));
        scene.check();
        let ends = scene.tables[0].frontier();
        assert_eq!(ends[&PartitionId::of(SourceId(1), 0)], at(4), "crash {crash}: everything is there");
        if ended.is_ok() {
            assert!(crash > 30, "a run passes more points than {crash}");
            return;
        }
    }
    panic!("more points than were tried");
}

#[test]
fn two_processes_can_not_both_go_on() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1"]);
    let mut old = scene.process(plan());
    settle(&mut old);
    settle(&mut scene.process(plan()));
    scene.append(0, 0, &["oops"]);
    let mut new = scene.process(plan());
    settle(&mut new);
    scene.append(0, 1, &["a=2"]);
    let stopped = run(&mut old).expect_err("P8: it is fenced");
    assert!(matches!(stopped, Stopped::Step(StepReason::Fenced { .. })), "{stopped}");
    assert_eq!(stopped.exit(), Exit::TryAgain);
    settle(&mut new);
    scene.check();
    assert_eq!(rows(&scene.tables[0].view()), ["a=3"]);
}

#[test]
fn a_new_shape_makes_the_step_anew() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1"]);
    let mut process = scene.process(plan());
    settle(&mut process);
    for table in &scene.tables {
        table.foreign_reshape();
        scene.append(0, 0, &["a=1", "oops"]);
        settle(&mut process);
    }
    scene.check();
    assert_eq!(rows(&scene.tables[0].view()), ["a=4"]);
    assert!(scene.log.count("discarded the table's schema") >= 3);
}

#[test]
fn outages_are_waited_out() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1", "oops"]);
    let (mut puts, mut others) = (0, 0);
    let fate = move |operation: Operation| {
        let count = if operation.puts() { &mut puts } else { &mut others };
        *count += 1;
        match *count % 3 {
            1 => Fate::Fails,
            2 if operation.puts() => Fate::ReplyLost,
            _ => Fate::Well,
        }
    };
    let sinks = scene.tables.iter().map(|table| table.open(1).fated(fate)).collect();
    let checkpoints = scene.states.open().fated(fate);
    let world = scene.world();
    let mut process = scene.process_over(plan(), world.clone(), sinks, checkpoints);
    settle(&mut process);
    world.stop(Stopping::Gracefully);
    assert_eq!(run(&mut process).expect("it ends well"), Ending::Stopped);
    scene.check();
    assert_eq!(rows(&scene.tables[0].view()), ["a=1"]);
    for what in ["retrying output read a sink's log", "retrying output commit", "retrying checkpoints put a manifest"] {
        assert!(scene.log.count(what) > 0, "{what}: {:?}", scene.log.0);
    }
}

/// K64: what came before is stepped and committed, a wish to stop is heard, and nothing is lost or taken in twice.
#[test]
fn records_that_need_what_is_out_of_reach_wait_and_are_not_lost() {
    let (mut scene, outside) = (Scene::new(), Outside::default());
    let in_need = |scene: &mut Scene| {
        let world = scene.world();
        let mut process = scene.process_in(plan(), world.clone());
        process.ports.circuit = MemoryCircuit::new(scene.states.clone(), SINKS, "a plan").needing(&outside);
        let before = scene.log.count("retrying circuit get what records need");
        let taken = scene.log.count("taken 1");
        while scene.topics[1].records(P0).is_empty() {
            let _ = process.step().expect("well");
            if scene.log.count("taken 1") > taken {
                scene.append(1, 0, &["needs=5"]);
            }
        }
        for _ in 0..10_000 {
            if scene.log.count("retrying circuit get what records need") > before + 12 {
                return (process, world);
            }
            let _ = process.step().expect("it heals");
        }
        panic!("the records are gone");
    };
    scene.append(0, 0, &["a=1", "a=2", "a=3"]);
    settle(&mut scene.process(plan()));
    outside.set_gone(true);
    scene.append(0, 0, &["a=4"]);
    let (mut process, world) = in_need(&mut scene);
    assert_eq!(rows(&scene.tables[0].view()), ["a=10"], "what came before is there in time");
    world.stop(Stopping::Gracefully);
    assert_eq!(run(&mut process).expect("it ends well"), Ending::Stopped);
    let (mut process, _) = in_need(&mut scene);
    scene.append(1, 0, &["b=1"]);
    outside.set_gone(false);
    settle(&mut process);
    scene.check();
    assert_eq!(rows(&scene.tables[0].view()), ["a=10", "b=1", "needs=5"]);
}

/// Where reading starts anew while records wait, they come again, and once.
#[test]
fn records_that_wait_are_forgotten_where_reading_starts_anew() {
    let (mut scene, outside) = (Scene::new(), Outside::default());
    scene.append(0, 0, &["a=1"]);
    let mut process = scene.process(plan());
    process.ports.circuit = MemoryCircuit::new(scene.states.clone(), SINKS, "a plan").needing(&outside);
    settle(&mut process);
    // A checkpoint of just that: nothing is gone over again, and what waited would be taken for what comes first.
    scene.clock.advance(Duration::from_secs(10));
    settle(&mut process);
    outside.set_gone(true);
    for table in &scene.tables {
        table.foreign_reshape();
    }
    scene.append(0, 0, &["a=2"]);
    let taken = scene.log.count("taken");
    while scene.log.count("taken") == taken {
        let _ = process.step().expect("well");
    }
    scene.append(1, 0, &["needs=3"]);
    for _ in 0..200 {
        let _ = process.step().expect("it heals");
    }
    assert!(scene.log.count("discarded the table's schema") > 0, "it began anew: {:?}", scene.log.0);
    assert!(scene.log.count("retrying circuit get what records need") > 1, "while records waited: {:?}", scene.log.0);
    outside.set_gone(false);
    settle(&mut process);
    scene.check();
    assert_eq!(rows(&scene.tables[0].view()), ["a=3", "needs=3"]);
}

/// The first source is trimmed, the second is not.
fn trimming() -> StepPlan {
    let mut plan = plan();
    plan.sources[0].trims = true;
    plan
}

#[test]
fn the_newest_checkpoint_may_be_lost_though_the_source_is_trimmed() {
    for lose in [States::lose_manifest, States::lose_state] {
        let mut scene = Scene::new();
        let mut process = scene.process(trimming());
        for n in 0..6 {
            scene.append(0, 0, &["a=1", "oops"]);
            scene.append(1, 0, &["b=1"]);
            settle(&mut process);
            scene.clock.advance(std::time::Duration::from_secs(10));
            settle(&mut process);
            assert_eq!(
                scene.topics[0].bounds(P0).oldest,
                at(2 * i64::max(n, 0)),
                "P3: up to the one before the newest"
            );
            assert_eq!(scene.topics[1].bounds(P0).oldest, at(0), "P3: nobody said that this one may be");
        }
        drop(process);
        assert_eq!(scene.states.manifests().len(), 2);
        assert!(lose(&scene.states));
        scene.append(0, 0, &["a=1"]);
        settle(&mut scene.process(trimming()));
        scene.check();
        assert_eq!(rows(&scene.tables[0].view()), ["a=7", "b=6"]);
    }
}

#[test]
fn input_that_the_state_needs_and_is_gone_stops_the_run() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1", "a=2"]);
    settle(&mut scene.process(plan()));
    scene.topics[0].expire(P0, at(1));
    let stopped = run(&mut scene.process(plan())).expect_err("P9: the state can't be made");
    let Stopped::Step(StepReason::Gone { at: needed, oldest, replays, .. }) = &stopped else { panic!("{stopped}") };
    assert_eq!((*needed, *oldest, *replays), (at(0), at(1), true));
    assert_eq!(stopped.exit(), Exit::Data);
}

/// Two records are taken in and saved; so many more come, of which those below `oldest` are gone at once.
fn with_a_gap(more: &[&str], oldest: i64) -> Scene {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1", "oops"]);
    let world = scene.world();
    let mut process = scene.process_in(plan(), world.clone());
    settle(&mut process);
    world.stop(Stopping::Gracefully);
    assert_eq!(run(&mut process).expect("it ends well"), Ending::Stopped);
    scene.append(0, 0, more);
    scene.topics[0].expire(P0, at(oldest));
    scene
}

fn skipping() -> StepPlan {
    StepPlan { sources: vec![SourcePlan { on_gap: OnGap::Skip, ..SourcePlan::default() }; 2], ..plan() }
}

#[test]
fn what_is_gone_is_skipped_where_the_user_says_so_and_every_sink_says_it() {
    let mut scene = with_a_gap(&["a=10", "a=20", "a=40"], 4);
    let stopped = run(&mut scene.process(plan())).expect_err("P9: nobody said so");
    assert!(matches!(stopped, Stopped::Step(StepReason::Gone { replays: false, .. })), "{stopped}");
    settle(&mut scene.process(skipping()));
    // The checkpoint lies below the gap still: it is gone over again, now with nobody's leave.
    scene.append(0, 0, &["a=100"]);
    settle(&mut scene.process(plan()));
    scene.check();
    assert_eq!(rows(&scene.tables[0].view()), ["a=141"]);
    for table in &scene.tables {
        let gaps = table.gaps();
        let [Gap { partition: P0, from, to, reason }] = &gaps[..] else { panic!("P9: {gaps:?}") };
        assert_eq!((*from, *to), (at(2), at(4)));
        assert!(reason.contains("on_gap"), "{reason}");
    }
}

#[test]
fn what_is_gone_and_in_a_sink_is_never_skipped() {
    let mut scene = with_a_gap(&["a=10", "a=20", "a=40"], 4);
    settle(&mut scene.process(skipping()));
    scene.topics[0].expire(P0, at(5));
    let stopped = run(&mut scene.process(skipping())).expect_err("P9: the state can't be made");
    let Stopped::Step(StepReason::Gone { at: needed, replays, .. }) = &stopped else { panic!("{stopped}") };
    assert_eq!((*needed, *replays), (at(4), true));
    assert!(stopped.to_string().contains("can't help"), "{stopped}");
    scene.check();
}

#[test]
fn a_topic_that_was_cut_back_is_never_skipped() {
    let mut scene = with_a_gap(&[], 0);
    scene.topics[0].truncate(P0, at(1));
    let stopped = run(&mut scene.process(skipping())).expect_err("P9: the state holds what the topic does not");
    assert!(matches!(stopped, Stopped::Step(StepReason::CutBack { .. })), "{stopped}");
    assert_eq!(stopped.exit(), Exit::Data);
}

#[test]
fn many_partitions_with_gaps_have_one_commit() {
    let mut scene = with_a_gap(&["a=10", "a=20"], 3);
    scene.append(0, 1, &["a=1", "a=2"]);
    scene.append(1, 0, &["b=1", "b=2"]);
    scene.topics[0].expire(PartitionId(1), at(1));
    scene.topics[1].expire(P0, at(2));
    let before = scene.versions();
    settle(&mut scene.process(skipping()));
    scene.check();
    assert_eq!(rows(&scene.tables[0].view()), ["a=23"]);
    assert_eq!(scene.tables[1].gaps().len(), 3);
    assert_eq!(scene.versions()[1], before[1] + 1, "the second sink has nothing but the gaps to say");
}

#[test]
fn a_state_of_another_plan_is_refused() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1"]);
    let world = scene.world();
    let mut process = scene.process_in(plan(), world.clone());
    settle(&mut process);
    world.stop(Stopping::Gracefully);
    let _ = run(&mut process).expect("it ends well");
    let mut other = scene.process(plan());
    other.ports.circuit = MemoryCircuit::new(scene.states.clone(), SINKS, "another plan");
    let stopped = run(&mut other).expect_err("the state does not fit");
    assert_eq!(stopped.exit(), Exit::Config);
    assert!(stopped.to_string().contains("another plan"), "{stopped}");
}

#[test]
fn latest_begins_at_the_end_for_ever() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1"]);
    scene.append(1, 0, &["b=1"]);
    let latest = || {
        let mut plan = plan();
        plan.sources[0].beginning = Beginning::Latest;
        plan
    };
    settle(&mut scene.process(latest()));
    scene.append(0, 0, &["a=10"]);
    settle(&mut scene.process(latest()));
    scene.check();
    assert_eq!(rows(&scene.tables[0].view()), ["a=10", "b=1"], "decided at the first start, for each source");
}

#[test]
fn a_partition_that_is_added_is_read_from_its_beginning() {
    for beginning in [Beginning::Earliest, Beginning::Latest] {
        for restarts in [false, true] {
            let mut scene = Scene::new();
            let plan = || StepPlan { sources: vec![SourcePlan { beginning, ..SourcePlan::default() }; 2], ..plan() };
            let mut process = scene.process(plan());
            settle(&mut process);
            scene.append(0, 0, &["a=1"]);
            settle(&mut process);
            scene.topics[1].extend();
            scene.append(1, 1, &["a=5"]);
            if restarts {
                process = scene.process(plan());
            }
            settle(&mut process);
            scene.clock.advance(std::time::Duration::from_secs(10));
            settle(&mut process);
            scene.check();
            assert_eq!(rows(&scene.tables[0].view()), ["a=6"], "{beginning:?}, restarts: {restarts}");
            let added = PartitionId::of(SourceId(1), 1);
            assert_eq!(scene.tables[0].frontier()[&added], at(1));
            let newest = scene.states.manifests().pop().expect("a checkpoint");
            assert_eq!(newest.begun.get(&added), Some(&Offset::ZERO), "decided once, and written down");
        }
    }
}

#[test]
fn a_run_to_the_end_leaves_added_partitions_alone() {
    let mut scene = Scene::new();
    scene.append(0, 0, &["a=1"]);
    let ends = Some(Frontier::from([(P0, at(2))]));
    let mut process = scene.process(StepPlan { ends, ..plan() });
    settle(&mut process);
    scene.topics[1].extend();
    scene.append(1, 1, &["a=5"]);
    settle(&mut process);
    scene.append(0, 0, &["a=1"]);
    assert_eq!(run(&mut process).expect("it ends well"), Ending::Reached);
    scene.check();
    assert_eq!(rows(&scene.tables[0].view()), ["a=2"]);
}
