//! Rivals, zombies and racing creators, through the shipped core and loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use lakeward_delta::{Created, Table, create};
use lakeward_protocol::core::{Core, Ending, Policies};
use lakeward_protocol::drive::{Limits, Watch, drive};
use lakeward_protocol::memory::{Clock, Handover, MemoryWorld, Topic};
use lakeward_protocol::ports::{Point, World};
use lakeward_protocol::position::{Frontier, PartitionId};

use crate::support::{Disk, PlaceStage, each, new_table, offset, runtime};

pub struct Deaf;
impl Watch for Deaf {}

pub fn limits() -> Limits {
    Limits { latency_ms: 50, batch_messages: 5, file_bytes: 100, grace_ms: 1_000_000 }
}

/// Reads a topic of these partitions and lengths to its end.
pub fn to_the_end(topic: &Topic, partitions: u32) -> Core {
    let ends: Frontier = (0..partitions).map(|p| (PartitionId(p), topic.bounds(PartitionId(p)).end)).collect();
    Core::new(Policies { ends: Some(ends), ..Policies::default() })
}

pub fn topic(partitions: u32, length: i64) -> Topic {
    let topic = Topic::new(partitions, Handover::Cooperative, Clock::default());
    for partition in 0..partitions {
        for _ in 0..length {
            topic.append(PartitionId(partition), Some(b"0123456789"));
        }
    }
    topic
}

fn run(table: Table, topic: &Topic, partitions: u32, world: impl World) {
    let ending = drive(to_the_end(topic, partitions), topic.join(), PlaceStage::new(20), table, world, Deaf, limits());
    assert_eq!(ending.unwrap(), Ending::Reached);
}

#[test] // K16
fn sixteen_writers_race_one_table() {
    let disk = Disk::with(&[]);
    let barrier = Arc::new(Barrier::new(16));
    std::thread::scope(|scope| {
        for writer in 0..16_u32 {
            let (table, barrier) = (disk.open(&format!("app{writer}")), barrier.clone());
            scope.spawn(move || {
                let topic = topic(1, 40);
                barrier.wait();
                run(table, &topic, 1, MemoryWorld::new(Clock::default(), writer.into()));
            });
        }
    });
    let mut expected: Vec<_> = (0..16).flat_map(|_| each(&[0], 0..40)).collect();
    expected.sort_unstable();
    assert_eq!(disk.rows(), expected);
}

#[test] // P02: nobody is behind it when it wakes; the table has moved
fn a_zombie_is_fenced_stale_or_fresh() {
    for asleep_at in [Point::AfterSeal, Point::BeforePut] {
        let disk = Disk::with(&[]);
        let topic = topic(2, 30);
        let slept = Arc::new(AtomicBool::new(false));
        let nap = {
            let (slept, topic, location) = (slept.clone(), topic.clone(), disk.location());
            move |point: Point| {
                if point == asleep_at && !slept.swap(true, Ordering::Relaxed) {
                    topic.evict(0, 1_000_000);
                    let table = Table::open(&location, crate::support::options("app")).unwrap();
                    run(table, &topic, 2, MemoryWorld::new(Clock::default(), 2));
                }
            }
        };
        run(disk.open("app"), &topic, 2, MemoryWorld::new(Clock::default(), 1).reaching(nap));
        assert!(slept.load(Ordering::Relaxed));
        assert_eq!(disk.rows(), each(&[0, 1], 0..30), "asleep at {asleep_at:?}");
    }
}

#[test] // K02, K07 and the like start from here
fn a_second_run_finds_nothing_left_to_do() {
    let disk = Disk::with(&[]);
    let topic = topic(1, 3);
    run(disk.open("app"), &topic, 1, MemoryWorld::new(Clock::default(), 1));
    let head = disk.head();
    run(disk.open("app"), &topic, 1, MemoryWorld::new(Clock::default(), 2));
    assert_eq!(disk.head(), head);
    let txn = disk.actions(head).into_iter().find_map(|action| action.get("txn").cloned()).unwrap();
    assert_eq!((&txn["appId"], &txn["version"]), (&"app-0".into(), &2.into()));
    assert_eq!(disk.rows(), each(&[0], 0..3));
    assert_eq!(offset(3).last(), 2);
}

#[test] // K83
fn racing_creators_end_with_one_table() {
    let disk = Disk::empty();
    let (barrier, outcomes) = (Barrier::new(8), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                let created = create(&disk.location(), &new_table(&[]), &runtime()).unwrap();
                let id = disk.open("app").id().to_owned();
                outcomes.lock().unwrap().push((created, id));
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    assert_eq!(outcomes.iter().filter(|(created, _)| *created == Created::New).count(), 1);
    assert!(outcomes.iter().all(|(_, id)| *id == outcomes[0].1));
}
