//! The loop over memory, one situation a test.

mod age;
mod letters;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::{Drive, Due, Limits, Port, Progress, Stopped, Watch};
use crate::core::{Beginning, Core, Ending, OnGap, OnRestore, Policies, Why};
use crate::memory::{
    Clock, Fate, Handover, MemoryInput, MemoryOutput, MemoryStage, MemoryWorld, Operation, Outside, Table, Topic,
};
use crate::ports::{Exit, Permit, Stopping};
use crate::position::{Frontier, Offset, PartitionId, TableVersion};

const P0: PartitionId = PartitionId(0);
const P1: PartitionId = PartitionId(1);

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
    fn sealed(&mut self, due: Due, messages: u64, value_bytes: u64) {
        self.note(format!("sealed {due:?} {messages} {value_bytes}"));
    }

    fn committed(&mut self, version: TableVersion, permit: &Permit) {
        self.note(format!(
            "committed {version} {:?}",
            permit.gaps().iter().map(|g| (g.from, g.to)).collect::<Vec<_>>()
        ));
    }

    fn discarded(&mut self, why: &Why) {
        self.note(format!("discarded {why}"));
    }

    fn raced(&mut self, version: TableVersion) {
        self.note(format!("raced {version}"));
    }

    fn retrying(
        &mut self,
        port: Port,
        doing: &str,
        error: &dyn std::error::Error,
        attempt: u32,
        _: std::time::Duration,
    ) {
        self.note(format!("retrying {port} {doing} {attempt}: {error}"));
    }

    fn lost(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.note(format!("lost {partitions:?}"));
    }
}

type Process = Drive<MemoryInput, MemoryStage, MemoryOutput, MemoryWorld, Log>;

struct Scene {
    clock: Clock,
    topic: Topic,
    table: Table,
    log: Log,
    names: u64,
}

/// 10 s latency, sizes looked at every 10 messages, 20 bytes are a file.
fn limits() -> Limits {
    Limits { latency_ms: 10_000, batch_messages: 10, file_bytes: 20, grace_ms: 25_000 }
}

impl Scene {
    fn new(partitions: u32) -> Self {
        Self::handing_over(partitions, Handover::Cooperative)
    }

    fn handing_over(partitions: u32, handover: Handover) -> Self {
        let clock = Clock::default();
        let topic = Topic::new(partitions, handover, clock.clone());
        Self { clock, topic, table: Table::new(), log: Log::default(), names: 0 }
    }

    fn append(&self, partition: PartitionId, count: usize) {
        for _ in 0..count {
            let next = self.topic.bounds(partition).end;
            self.topic.append(partition, Some(format!("{partition}/{next:0>4}").as_bytes()));
        }
    }

    fn world(&mut self) -> MemoryWorld {
        self.names += 1;
        MemoryWorld::new(self.clock.clone(), self.names)
    }

    fn process(&mut self, policies: Policies) -> Process {
        let world = self.world();
        self.process_in(policies, world, self.table.open(1))
    }

    fn process_in(&mut self, policies: Policies, world: MemoryWorld, output: MemoryOutput) -> Process {
        let stage = MemoryStage::default();
        Drive::new(Core::new(policies), self.topic.join(), stage, output, world, self.log.clone(), limits())
    }

    fn frontier(&self) -> Vec<(u32, i64)> {
        self.table.frontier().iter().map(|(p, o)| (p.0, o.get())).collect()
    }

    /// All of the topic is in the table, once, and the table's log proves it.
    fn assert_complete(&self) {
        self.table.verify(&self.topic).unwrap_or_else(|wrong| panic!("{wrong}\n{:#?}", self.log.0.borrow()));
        let mut rows = self.table.rows();
        rows.sort_unstable();
        let records = |p| self.topic.records(PartitionId(p)).into_iter().map(move |(o, v)| (PartitionId(p), o, v));
        let all: Vec<_> = (0..2).filter(|p| *p == 0 || self.two_partitions()).flat_map(records).collect();
        assert_eq!(rows, all);
    }

    fn two_partitions(&self) -> bool {
        self.table.frontier().contains_key(&P1)
    }
}

/// Steps until the input has nothing to say and nothing is held.
fn settle(process: &mut Process) {
    for _ in 0..10_000 {
        let progress = process.step().expect("no reason to stop");
        if progress == Progress::Idle && !process.core().is_holding() {
            return;
        }
    }
    panic!("never settled");
}

fn run(process: &mut Process) -> Result<Ending, Stopped> {
    for _ in 0..10_000 {
        if let Progress::Ended(ending) = process.step()? {
            return Ok(ending);
        }
    }
    panic!("never ended");
}

#[test]
fn latency_commits_and_idle_does_not() {
    let mut scene = Scene::new(2);
    scene.append(P0, 3);
    scene.append(P1, 4);
    let mut process = scene.process(Policies::default());
    settle(&mut process);
    assert_eq!(scene.frontier(), vec![(0, 3), (1, 4)]);
    assert_eq!(scene.table.version(), TableVersion(1));
    for _ in 0..1_000 {
        let _ = process.step().expect("idle");
    }
    assert_eq!(scene.table.version(), TableVersion(1), "an idle pipeline commits nothing");
    assert_eq!(scene.topic.announced(), scene.table.frontier(), "lag tools follow");
    scene.assert_complete();
}

#[test] // K11 and the scenario test_start_from_explicit of the reference
fn size_is_looked_at_every_so_many_messages() {
    let mut scene = Scene::new(1);
    scene.append(P0, 11);
    let mut process = scene.process(Policies::default());
    for _ in 0..12 {
        let _ = process.step().expect("well");
    }
    assert_eq!(scene.frontier(), vec![(0, 10)], "10 messages, the eleventh is not in it");
    assert_eq!(scene.log.count("sealed Size 10 60"), 1);
}

#[test]
fn stretches_that_miss_the_count_are_looked_at_all_the_same() {
    let mut scene = Scene::new(2);
    scene.append(P0, 7);
    scene.append(P1, 8);
    let mut process = scene.process(Policies::default());
    for _ in 0..12 {
        let _ = process.step().expect("well");
    }
    assert_eq!(scene.log.count("sealed Size 15 90"), 1);
}

#[test]
fn a_full_stage_commits_early() {
    let mut scene = Scene::new(1);
    scene.append(P0, 9);
    let world = scene.world();
    let (stage, output) = (MemoryStage::full_at(4), scene.table.open(1));
    let limits = Limits { batch_messages: 2, file_bytes: 1 << 30, ..limits() };
    let core = Core::new(Policies::default());
    let mut process = Drive::new(core, scene.topic.join(), stage, output, world, scene.log.clone(), limits);
    settle(&mut process);
    assert_eq!(scene.log.count("sealed Memory 4"), 2);
    scene.assert_complete();
}

#[test] // K34, P05
fn records_without_rows_move_the_frontier() {
    let mut scene = Scene::new(1);
    for value in [None, Some(b"bad".as_slice()), None] {
        scene.topic.append(P0, value);
    }
    scene.topic.append_hole(P0);
    settle(&mut scene.process(Policies::default()));
    assert_eq!(scene.frontier(), vec![(0, 4)]);
    assert!(scene.table.rows().is_empty());
}

#[test] // K76
fn a_wish_to_stop_commits_and_leaves() {
    let mut scene = Scene::new(2);
    scene.append(P0, 5);
    let world = scene.world();
    let output = scene.table.open(1);
    let mut process = scene.process_in(Policies::default(), world.clone(), output);
    while !process.core().is_holding() {
        let _ = process.step().expect("well");
    }
    world.stop(Stopping::Gracefully);
    assert_eq!(run(&mut process).expect("ends"), Ending::Stopped);
    scene.assert_complete();
    let mut other = scene.process(Policies::default());
    scene.append(P1, 1);
    settle(&mut other);
    assert_eq!(scene.frontier(), vec![(0, 5), (1, 1)], "the partitions were let go of");
}

#[test]
fn a_wish_to_stop_at_once_commits_nothing() {
    let mut scene = Scene::new(1);
    scene.append(P0, 5);
    let world = scene.world();
    let output = scene.table.open(1);
    let mut process = scene.process_in(Policies::default(), world.clone(), output);
    while !process.core().is_holding() {
        let _ = process.step().expect("well");
    }
    world.stop(Stopping::AtOnce);
    assert_eq!(run(&mut process).expect("ends"), Ending::Aborted);
    assert_eq!(scene.table.version(), TableVersion(0));
}

#[test]
fn a_wish_to_stop_gives_up_when_nothing_can_be_committed() {
    let mut scene = Scene::new(1);
    scene.append(P0, 5);
    let world = scene.world();
    let output = scene.table.open(1).fated(|op| if op == Operation::Put { Fate::Fails } else { Fate::Well });
    let mut process = scene.process_in(Policies::default(), world.clone(), output);
    while !process.core().is_holding() {
        let _ = process.step().expect("well");
    }
    world.stop(Stopping::Gracefully);
    let stopped = run(&mut process).expect_err("the store is down");
    assert_eq!(stopped.exit(), Exit::TryAgain, "{stopped}");
    assert!(scene.log.count("retrying output commit") > 5, "loudly");
}

/// A process whose stage lacks what the next record needs; three records before it are held.
fn process_in_need(scene: &mut Scene, outside: &Outside) -> (Process, MemoryWorld) {
    scene.append(P0, 3);
    outside.set_gone(true);
    let (world, stage, output) = (scene.world(), MemoryStage::needing(outside), scene.table.open(1));
    let core = Core::new(Policies::default());
    let mut process = Drive::new(core, scene.topic.join(), stage, output, world.clone(), scene.log.clone(), limits());
    while !process.core().is_holding() {
        let _ = process.step().expect("well");
    }
    scene.topic.append(P0, Some(b"needs/0003"));
    wait_in_need(scene, &mut process, 3);
    (process, world)
}

/// Steps until the stage lacked it so often.
fn wait_in_need(scene: &Scene, process: &mut Process, times: usize) {
    for _ in 0..10_000 {
        if scene.log.count("retrying stage get what records need") >= times {
            return;
        }
        let _ = process.step().expect("it heals");
    }
    panic!("the records are gone");
}

#[test] // K64
fn records_that_need_what_is_out_of_reach_wait_and_are_not_lost() {
    let (mut scene, outside) = (Scene::new(1), Outside::default());
    let (mut process, _) = process_in_need(&mut scene, &outside);
    wait_in_need(&scene, &mut process, 12);
    assert_eq!(scene.frontier(), vec![(0, 3)], "what came before is committed in time");
    scene.append(P0, 2);
    outside.set_gone(false);
    settle(&mut process);
    assert_eq!(scene.frontier(), vec![(0, 6)]);
    scene.assert_complete();
}

#[test] // K64
fn a_wish_to_stop_while_records_wait_commits_what_is_held() {
    let (mut scene, outside) = (Scene::new(1), Outside::default());
    let (mut process, world) = process_in_need(&mut scene, &outside);
    world.stop(Stopping::Gracefully);
    assert_eq!(run(&mut process).expect("ends well"), Ending::Stopped);
    assert_eq!(scene.frontier(), vec![(0, 3)]);
    settle(&mut scene.process(Policies::default()));
    scene.assert_complete();
}

#[test] // K64
fn partitions_are_handed_over_while_records_wait() {
    let (mut scene, outside) = (Scene::new(2), Outside::default());
    let (mut process, _) = process_in_need(&mut scene, &outside);
    let mut other = scene.process(Policies::default());
    scene.append(P1, 1);
    for _ in 0..2_000 {
        let _ = process.step().expect("it heals");
        let _ = other.step().expect("well");
    }
    assert!(scene.frontier().contains(&(1, 1)), "{:?}", scene.frontier());
    outside.set_gone(false);
    for _ in 0..2_000 {
        let _ = process.step().expect("well");
        let _ = other.step().expect("well");
    }
    scene.assert_complete();
}

#[test] // K56, K58, K59
fn ends_at_the_asked_ends() {
    let mut scene = Scene::new(2);
    scene.append(P0, 7);
    scene.topic.append_hole(P0);
    let ends = Some(Frontier::from([(P0, at(8)), (P1, at(0))]));
    scene.append(P0, 5);
    scene.append(P1, 2);
    let mut process = scene.process(Policies { ends: ends.clone(), ..Policies::default() });
    assert_eq!(run(&mut process).expect("ends"), Ending::Reached);
    assert_eq!(scene.frontier(), vec![(0, 8)]);
    assert_eq!(scene.table.rows().len(), 7);
    drop(process);
    let mut again = scene.process(Policies { ends, ..Policies::default() });
    assert_eq!(run(&mut again).expect("ends"), Ending::Reached);
    assert_eq!(scene.table.version(), TableVersion(1), "nothing was left to do");
}

#[test] // K05, K07, K02
fn seeks_once_and_durably() {
    let seek = Policies { seek: Frontier::from([(P0, at(4))]), ..Policies::default() };
    let mut scene = Scene::new(1);
    scene.append(P0, 10);
    let mut process = scene.process(seek.clone());
    while scene.table.version() == TableVersion(0) {
        let _ = process.step().expect("well");
    }
    assert_eq!(scene.frontier(), vec![(0, 4)], "the start alone is committed before data");
    drop(process);
    settle(&mut scene.process(seek.clone()));
    assert_eq!(scene.frontier(), vec![(0, 10)]);
    assert_eq!(scene.table.rows().len(), 6);
    scene.append(P0, 1);
    settle(&mut scene.process(seek));
    assert_eq!(scene.table.rows().len(), 7, "a stored frontier above the seek wins");

    let version = scene.table.version();
    let ahead = Policies { seek: Frontier::from([(P0, at(16))]), ..Policies::default() };
    let stopped = run(&mut scene.process(ahead)).expect_err("a seek above what is stored");
    assert!(stopped.to_string().contains("partition 0: stored 10 seek 15"), "{stopped}");
    assert_eq!(stopped.exit(), Exit::Config);
    assert_eq!(scene.table.version(), version, "nothing is written");
}

#[test] // K19
fn latest_is_where_the_topic_ended_the_first_time() {
    let latest = Policies { beginning: Beginning::Latest, ..Policies::default() };
    let mut scene = Scene::new(1);
    scene.append(P0, 5);
    let mut process = scene.process(latest.clone());
    while scene.table.version() == TableVersion(0) {
        let _ = process.step().expect("well");
    }
    drop(process);
    scene.append(P0, 3);
    settle(&mut scene.process(latest));
    let rows: Vec<i64> = scene.table.rows().iter().map(|row| row.1.get()).collect();
    assert_eq!(rows, vec![5, 6, 7], "a crash does not move the start");
}

#[test] // K61
fn expired_input_stops_or_is_written_down() {
    let mut scene = Scene::new(1);
    scene.append(P0, 10);
    settle(&mut scene.process(Policies::default()));
    scene.append(P0, 20);
    scene.topic.expire(P0, at(20));
    let stopped = run(&mut scene.process(Policies::default())).expect_err("P9");
    assert_eq!(stopped.exit(), Exit::Data);
    for part in ["partition 0", "offsets 10 to 19", "--on-gap=skip"] {
        assert!(stopped.to_string().contains(part), "{stopped}");
    }
    let skip = Policies { on_gap: OnGap::Skip, ..Policies::default() };
    settle(&mut scene.process(skip));
    assert_eq!(scene.frontier(), vec![(0, 30)]);
    assert_eq!(scene.table.gaps().len(), 1);
    assert_eq!(scene.log.count("committed 2 [(Offset(10), Offset(20))]"), 1);
    scene.table.verify(&scene.topic).expect("the gap is no break of the chain");
}

#[test] // P9, the log of a topic that was made again, its id unknown
fn a_log_that_ends_below_stops_or_is_taken_anew() {
    let mut scene = Scene::new(1);
    scene.append(P0, 10);
    settle(&mut scene.process(Policies::default()));
    scene.topic.recreate();
    scene.append(P0, 4);
    let stopped = run(&mut scene.process(Policies::default())).expect_err("P9");
    assert!(stopped.to_string().contains("ends at 4"), "{stopped}");
    settle(&mut scene.process(Policies { on_gap: OnGap::Skip, ..Policies::default() }));
    assert_eq!(scene.frontier(), vec![(0, 4)]);
    assert_eq!(scene.table.rows().len(), 14);
}

#[test]
fn input_that_expires_while_we_read_is_taken_first() {
    let mut scene = Scene::new(1);
    scene.append(P0, 5);
    let mut process = scene.process(Policies::default());
    while !process.core().is_holding() {
        let _ = process.step().expect("well");
    }
    scene.append(P0, 20);
    scene.topic.expire(P0, at(12));
    let stopped = run(&mut process).expect_err("P9");
    assert!(stopped.to_string().contains("offsets 5 to 11"), "{stopped}");
    assert_eq!(scene.frontier(), vec![(0, 5)], "what we had is committed, nobody else can read it again");
}

#[test] // K20, P43
fn a_frontier_that_went_back_stops_replays_or_is_accepted() {
    for (on_restore, frontier, rows, gaps) in [
        (OnRestore::Stop, vec![(0, 5)], 10, 0),
        (OnRestore::Replay, vec![(0, 12)], 17, 1),
        (OnRestore::Accept, vec![(0, 12)], 12, 1),
    ] {
        let mut scene = Scene::new(1);
        scene.append(P0, 10);
        let mut process = scene.process(Policies { on_restore, ..Policies::default() });
        settle(&mut process);
        scene.table.foreign_frontier(P0, at(5));
        scene.append(P0, 2);
        if on_restore == OnRestore::Stop {
            let stopped = run(&mut process).expect_err("P9");
            assert!(stopped.to_string().contains("was 9, now it is 4"), "{stopped}");
        } else {
            settle(&mut process);
            scene.table.verify(&scene.topic).expect("the break is written down");
        }
        assert_eq!(scene.frontier(), frontier, "{on_restore:?}");
        assert_eq!(scene.table.rows().len(), rows, "{on_restore:?}");
        assert_eq!(scene.table.gaps().len(), gaps, "{on_restore:?}");
    }
}

#[test]
fn a_restored_table_stops_replays_or_is_accepted() {
    for (on_restore, rows) in [(OnRestore::Stop, 5), (OnRestore::Replay, 12), (OnRestore::Accept, 7)] {
        for restarted in [true, false] {
            let mut scene = Scene::new(1);
            scene.append(P0, 5);
            let policies = Policies { on_restore, ..Policies::default() };
            let mut process = scene.process(policies.clone());
            settle(&mut process);
            scene.append(P0, 5);
            settle(&mut process);
            scene.table.foreign_restore(TableVersion(1));
            scene.append(P0, 2);
            if restarted {
                drop(process);
                process = scene.process(policies);
            }
            if on_restore == OnRestore::Stop {
                let stopped = run(&mut process).expect_err("P9");
                for part in ["restored to version 1 by version 3", "partition 0 from offset 5", "--on-restore=replay"] {
                    assert!(stopped.to_string().contains(part), "{stopped}");
                }
            } else {
                settle(&mut process);
                assert_eq!(scene.table.gaps().len(), 1);
                assert_eq!(scene.frontier(), vec![(0, 12)]);
                scene.table.verify(&scene.topic).expect("the break is written down");
            }
            assert_eq!(scene.table.rows().len(), rows, "{on_restore:?}");
        }
    }
}

#[test] // K89
fn a_table_made_again_stops_us_and_a_new_start_fills_it() {
    let mut scene = Scene::new(1);
    scene.append(P0, 5);
    let mut process = scene.process(Policies::default());
    settle(&mut process);
    scene.table.foreign_recreate();
    scene.append(P0, 1);
    let stopped = run(&mut process).expect_err("P9");
    assert!(stopped.to_string().contains("dropped and made again"), "{stopped}");
    drop(process);
    settle(&mut scene.process(Policies::default()));
    scene.assert_complete();
}

#[test]
fn a_topic_made_again_stops_or_is_taken_anew() {
    let mut scene = Scene::new(2);
    scene.append(P0, 5);
    scene.append(P1, 3);
    settle(&mut scene.process(Policies::default()));
    scene.topic.recreate();
    scene.append(P0, 9);
    scene.append(P1, 9);
    let (world, output) = (scene.world(), scene.table.open(2));
    let stopped = run(&mut scene.process_in(Policies::default(), world, output)).expect_err("P9");
    assert!(stopped.to_string().contains("the topic was deleted and made again"), "{stopped}");
    let (world, output) = (scene.world(), scene.table.open(2));
    let skip = Policies { on_gap: OnGap::Skip, ..Policies::default() };
    settle(&mut scene.process_in(skip, world, output));
    assert_eq!(scene.frontier(), vec![(0, 9), (1, 9)]);
    assert_eq!((scene.table.rows().len(), scene.table.gaps().len()), (26, 2));
}

#[test] // K17, K04
fn a_new_shape_discards_and_reads_again() {
    let mut scene = Scene::new(1);
    scene.append(P0, 5);
    let mut process = scene.process(Policies::default());
    while !process.core().is_holding() {
        let _ = process.step().expect("well");
    }
    scene.table.foreign_reshape();
    settle(&mut process);
    assert_eq!(scene.log.count("discarded the table's schema"), 1);
    scene.assert_complete();
}

#[test]
fn a_commit_that_brings_a_column_is_gone_on_from_without_a_discard() {
    for fate in [Fate::Well, Fate::Fails, Fate::ReplyLost, Fate::Late, Fate::SentTwice, Fate::Conflict] {
        let mut scene = Scene::new(1);
        scene.append(P0, 2);
        scene.topic.append(P0, Some(b"grow"));
        let mut fates = vec![fate].into_iter();
        let table = scene.table.clone();
        let output = scene.table.open(1).fated(move |op| {
            table.deliver_late();
            if op == Operation::Put { fates.next().unwrap_or(Fate::Well) } else { Fate::Well }
        });
        let world = scene.world();
        let mut process = scene.process_in(Policies::default(), world, output);
        settle(&mut process);
        scene.append(P0, 2);
        scene.topic.append(P0, Some(b"grow again"));
        settle(&mut process);
        assert_eq!(scene.log.count("discarded"), 0, "{fate:?}");
        scene.assert_complete();
    }
}

#[test]
fn two_processes_that_need_the_same_column_bring_it_once() {
    let mut scene = Scene::new(2);
    let mut first = scene.process(Policies::default());
    let mut second = scene.process(Policies::default());
    for _ in 0..50 {
        let _ = first.step().expect("well");
        let _ = second.step().expect("well");
    }
    for partition in [P0, P1] {
        scene.topic.append(partition, Some(b"grow"));
    }
    while !(first.core().is_holding() && second.core().is_holding()) {
        let _ = first.step().expect("well");
        let _ = second.step().expect("well");
    }
    settle(&mut first);
    settle(&mut second);
    assert_eq!(scene.log.count("discarded the table's schema"), 1, "who came second made its rows anew");
    scene.assert_complete();
}

#[test]
fn every_fate_of_a_put_ends_with_one_commit() {
    for fate in [Fate::Fails, Fate::ReplyLost, Fate::Late, Fate::SentTwice, Fate::Conflict] {
        let mut scene = Scene::new(1);
        scene.append(P0, 5);
        let mut fates = vec![fate].into_iter();
        let table = scene.table.clone();
        let output = scene.table.open(1).fated(move |op| {
            table.deliver_late();
            if op == Operation::Put { fates.next().unwrap_or(Fate::Well) } else { Fate::Well }
        });
        let world = scene.world();
        let mut process = scene.process_in(Policies::default(), world, output);
        settle(&mut process);
        assert_eq!(scene.log.count("committed"), 1, "{fate:?}");
        assert_eq!(scene.log.count("discarded"), 0, "{fate:?}");
        assert_eq!(scene.table.version(), TableVersion(1), "{fate:?}");
        scene.assert_complete();
    }
}

#[test] // P8
fn two_owners_commit_each_record_once() {
    let mut scene = Scene::new(1);
    scene.append(P0, 5);
    let mut zombie = scene.process(Policies::default());
    while !zombie.core().is_holding() {
        let _ = zombie.step().expect("well");
    }
    // The frozen one is thrown out; the new owner reads and commits; then the frozen one wakes.
    let mut heir = scene.process(Policies::default());
    scene.topic.evict(0, 50);
    settle(&mut heir);
    scene.append(P0, 2);
    for _ in 0..3 {
        settle(&mut zombie);
        settle(&mut heir);
    }
    assert_eq!(scene.log.count("discarded another process committed partition 0 up to 4"), 1);
    scene.assert_complete();
}

#[test] // K13, K77, P01
fn partitions_move_between_processes() {
    for handover in [Handover::Cooperative, Handover::Eager] {
        let mut scene = Scene::handing_over(2, handover);
        let mut first = scene.process(Policies::default());
        scene.append(P0, 5);
        scene.append(P1, 5);
        while !first.core().is_holding() {
            let _ = first.step().expect("well");
        }
        let mut second = scene.process(Policies::default());
        for round in 0..200 {
            let _ = first.step().expect("well");
            let _ = second.step().expect("well");
            if round % 10 == 0 {
                scene.append(P0, 1);
                scene.append(P1, 1);
            }
        }
        settle(&mut first);
        settle(&mut second);
        assert_eq!(first.core().taken().len() + second.core().taken().len(), 2);
        scene.assert_complete();
    }
}

#[test]
fn an_outage_is_waited_out_while_partitions_move() {
    let mut scene = Scene::new(2);
    scene.append(P0, 5);
    scene.append(P1, 5);
    let clock = scene.clock.clone();
    let down = move |_| {
        let outage = (15_000..90_000).contains(&clock.now_ms());
        if outage { Fate::Fails } else { Fate::Well }
    };
    let world = scene.world();
    let output = scene.table.open(1).fated(down);
    let mut process = scene.process_in(Policies::default(), world, output);
    settle(&mut process);
    scene.append(P0, 5);
    while scene.clock.now_ms() < 40_000 {
        let _ = process.step().expect("waits");
    }
    scene.topic.evict(0, 0);
    settle(&mut process);
    assert!(scene.clock.now_ms() >= 90_000);
    assert_eq!(scene.log.count("lost"), 1, "heard during the outage");
    scene.assert_complete();
}

#[test]
fn an_outage_of_the_input_is_waited_out() {
    let mut scene = Scene::new(1);
    scene.topic.outage(true);
    scene.append(P0, 5);
    let mut process = scene.process(Policies::default());
    for _ in 0..5 {
        let _ = process.step().expect("waits");
    }
    assert!(scene.log.count("retrying input") == 5);
    scene.topic.outage(false);
    settle(&mut process);
    scene.assert_complete();
}
