//! Checkpoints and expired log files, read back by the kernel.

use std::time::{Duration, SystemTime};

use lakeward_delta::{Checkpoints, Table};
use lakeward_protocol::drive::drive;
use lakeward_protocol::memory::{Clock, MemoryWorld};
use lakeward_protocol::ports::OutputLog;
use lakeward_protocol::position::{Frontier, PartitionId};
use serde_json::json;

use crate::races::{Deaf, limits, to_the_end, topic};
use crate::support::{Disk, PlaceStage, each, offset, options, set};

fn ingest(disk: &Disk, checkpoints: Checkpoints, length: i64) -> Table {
    let mut options = options("app");
    options.checkpoints = checkpoints;
    let table = Table::open(&disk.location(), options.clone()).unwrap();
    let topic = topic(1, length);
    let world = MemoryWorld::new(Clock::default(), length.unsigned_abs());
    let _ = drive(to_the_end(&topic, 1), topic.join(), PlaceStage::new(1), table, world, Deaf, limits()).unwrap();
    Table::open(&disk.location(), options).unwrap()
}

fn checkpoints(disk: &Disk) -> Vec<u64> {
    let versions =
        disk.log_names().into_iter().filter_map(|name| name.strip_suffix(".checkpoint.parquet")?.parse().ok());
    versions.collect()
}

/// Waits for housekeeping that other handles left running.
#[expect(clippy::disallowed_methods, reason = "real time has to pass for a task that runs beside us")]
fn until(what: impl Fn() -> bool) {
    for _ in 0..600 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("waited long enough");
}

#[test]
fn checkpoints_come_at_the_tables_interval_and_read_back() {
    let disk = Disk::with(&[("delta.checkpointInterval", "7")]);
    let mut length = 0;
    while checkpoints(&disk).len() < 3 {
        length += 25;
        let _ = ingest(&disk, Checkpoints::AsTheTableSays, length);
        let due = disk.head() / 14;
        until(|| checkpoints(&disk).len() as u64 >= due.min(3));
    }
    assert!(disk.log_folder().join("_last_checkpoint").is_file());
    // The JSON below the newest checkpoint is not needed to read.
    let newest = *checkpoints(&disk).last().unwrap();
    for version in 0..newest {
        std::fs::remove_file(disk.log_folder().join(format!("{version:020}.json"))).unwrap();
    }
    assert_eq!(disk.rows(), each(&[0], 0..length));
    let head = disk.open("app").load(&set(&[0])).unwrap();
    assert_eq!(head.frontier, Frontier::from([(PartitionId(0), offset(length))]));
}

#[test]
fn no_checkpoint_where_none_is_wanted() {
    let disk = Disk::with(&[("delta.checkpointInterval", "2")]);
    ingest(&disk, Checkpoints::Never, 30).settle();
    assert_eq!(checkpoints(&disk), Vec::<u64>::new());
}

#[test] // P50
fn a_log_of_thousands_without_checkpoint_gets_one() {
    let disk = Disk::with(&[]);
    for version in 1..=1_500_u64 {
        disk.write(version, &[json!({"txn": {"appId": "app-1", "version": version}})]);
    }
    let mut table = ingest(&disk, Checkpoints::AsTheTableSays, 2);
    until(|| !checkpoints(&disk).is_empty());
    let head = table.load(&set(&[0, 1])).unwrap();
    let expected = Frontier::from([(PartitionId(0), offset(2)), (PartitionId(1), offset(1_501))]);
    assert_eq!(head.frontier, expected);
}

#[test] // K55
fn a_checkpoint_that_fails_is_counted_and_nothing_else() {
    let disk = Disk::with(&[("delta.checkpointInterval", "1")]);
    // What can't be replaced by a file.
    std::fs::create_dir_all(disk.log_folder().join("_last_checkpoint/x")).unwrap();
    let mut table = disk.open("app");
    let counters = table.housekeeping();
    let _ = table.load(&set(&[0])).unwrap();
    let topic = topic(1, 20);
    let world = MemoryWorld::new(Clock::default(), 1);
    let _ = drive(to_the_end(&topic, 1), topic.join(), PlaceStage::new(1), table, world, Deaf, limits()).unwrap();
    until(|| counters.failures() > 0);
    assert_eq!(disk.rows(), each(&[0], 0..20));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "real time has to pass for a task that runs beside us")]
fn expired_log_files_go_and_every_version_kept_stays_whole() {
    let disk = Disk::with(&[("delta.logRetentionDuration", "interval 1 day"), ("delta.checkpointInterval", "5")]);
    let _ = ingest(&disk, Checkpoints::Every(5), 50);
    until(|| disk.log_folder().join("_last_checkpoint").is_file());
    // Two days pass for what is there.
    let old = SystemTime::now() - Duration::from_hours(48);
    for name in disk.log_names() {
        let file = std::fs::File::options().append(true).open(disk.log_folder().join(name)).unwrap();
        file.set_modified(old).unwrap();
    }
    let (kept, mut length) = (disk.head(), 50);
    for _ in 0..100 {
        if !disk.log_names().contains(&format!("{:020}.json", 0)) {
            break;
        }
        length += 25;
        let _ = ingest(&disk, Checkpoints::Every(5), length);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(disk.rows(), each(&[0], 0..length));
    let (names, oldest) = (disk.log_names(), checkpoints(&disk)[0]);
    assert!(!names.contains(&format!("{:020}.json", 0)), "{names:?}");
    assert!(oldest <= kept + 1, "the first young version, {}, can be rebuilt: {names:?}", kept + 1);
    assert!((oldest..=disk.head()).all(|version| names.contains(&format!("{version:020}.json"))), "{names:?}");
    let head = disk.open("app").load(&set(&[0])).unwrap();
    assert_eq!(head.frontier, Frontier::from([(PartitionId(0), offset(length))]));
}
