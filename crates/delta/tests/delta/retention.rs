//! Tables that forget offsets which are not committed again (`delta.setTransactionRetentionDuration`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lakeward_delta::{Checkpoints, Table, TableOptions, stored_offsets};
use lakeward_protocol::core::{Core, Ending, Policies, Set};
use lakeward_protocol::drive::drive;
use lakeward_protocol::memory::{Clock, MemoryWorld};
use lakeward_protocol::ports::{Breach, Exit, Fault, OutputLog, Verdict};
use lakeward_protocol::position::{Frontier, PartitionId};
use serde_json::json;

use crate::races::{Deaf, limits, to_the_end, topic};
use crate::support::{Disk, PlaceStage, each, offset, options, runtime, set};

const PROPERTY: (&str, &str) = ("delta.setTransactionRetentionDuration", "interval 10 days");

fn ingest(disk: &Disk, partitions: u32, length: i64) -> Result<Ending, String> {
    let topic = topic(partitions, length);
    let world = MemoryWorld::new(Clock::default(), length.unsigned_abs());
    let core = to_the_end(&topic, partitions);
    let table = disk.open("app");
    drive(core, topic.join(), PlaceStage::new(10), table, world, Deaf, limits()).map_err(|stopped| stopped.to_string())
}

#[expect(clippy::disallowed_methods, reason = "what a table's commits say of time is the wall clock's")]
fn days_ago(days: u64) -> i64 {
    let then = SystemTime::now() - Duration::from_hours(24 * days);
    i64::try_from(then.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// All commits become so many days older.
fn let_pass(disk: &Disk, days: u64) {
    for version in 0..=disk.head() {
        let mut actions = disk.actions(version);
        for txn in actions.iter_mut().filter_map(|action| action.get_mut("txn")) {
            let passed_ms = i64::try_from(days * 24 * 3_600_000).unwrap();
            txn["lastUpdated"] = json!(txn["lastUpdated"].as_i64().unwrap() - passed_ms);
        }
        disk.write(version, &actions);
    }
}

/// A person's process.
fn set_offset(disk: &Disk, app_id: &str, checkpoints: Checkpoints, to: i64) {
    let table = Table::open(&disk.location(), TableOptions { checkpoints, ..options(app_id) }).unwrap();
    let ends = Frontier::from([(PartitionId(0), offset(to))]);
    let by = Set { to: ends.clone(), force: false, reason: "told to".to_owned() };
    let core = Core::new(Policies { set: Some(by), ends: Some(ends), ..Policies::default() });
    let world = MemoryWorld::new(Clock::default(), 77);
    let _ = drive(core, topic(1, 30).join(), PlaceStage::new(10), table, world, Deaf, limits()).unwrap();
}

/// Somebody else writes a checkpoint, which forgets what is old, and cleans the log below it.
fn forget(disk: &Disk, keep_commits: bool) {
    set_offset(disk, "other", Checkpoints::Every(1), 1);
    let head = disk.head();
    let names = disk.log_names();
    assert!(names.contains(&format!("{head:020}.checkpoint.parquet")), "{names:?}");
    for version in (0..head).filter(|_| !keep_commits) {
        std::fs::remove_file(disk.log_folder().join(format!("{version:020}.json"))).unwrap();
    }
    let (_, stored) = stored_offsets(&disk.location(), runtime()).unwrap();
    let txns: Vec<_> = stored.iter().map(|stored| stored.txn.as_str()).collect();
    assert_eq!(txns, ["other-0"], "a checkpoint forgets");
}

fn txns(disk: &Disk, version: u64) -> Vec<String> {
    let actions = disk.actions(version);
    let txns = actions.iter().filter_map(|action| action.get("txn"));
    txns.map(|txn| format!("{} {}", txn["appId"].as_str().unwrap(), txn["version"])).collect()
}

#[test]
fn what_is_half_as_old_as_it_may_get_is_committed_again_at_start() {
    let disk = Disk::with(&[PROPERTY]);
    ingest(&disk, 2, 10).unwrap();
    let_pass(&disk, 4);
    assert!(disk.open("app").load(&set(&[0, 1])).unwrap().fading.is_empty());
    let before = disk.head();
    ingest(&disk, 2, 10).unwrap();
    assert_eq!(disk.head(), before, "nothing to do yet");
    let_pass(&disk, 2);
    assert_eq!(disk.open("app").load(&set(&[0, 1])).unwrap().fading, set(&[0, 1]));
    ingest(&disk, 2, 10).unwrap();
    assert_eq!((disk.head(), txns(&disk, before + 1)), (before + 1, vec!["app-0 9".to_owned(), "app-1 9".to_owned()]));
    let actions = disk.actions(before + 1);
    assert!(actions.iter().all(|action| action.get("add").is_none()), "{actions:?}");
    let info = actions.iter().find_map(|action| action.get("commitInfo")).unwrap();
    let span = &info["lakeward"]["spans"][0];
    assert_eq!((&span["from"], &span["to"]), (&json!(10), &json!(10)));
    let young = actions.iter().filter_map(|action| action["txn"]["lastUpdated"].as_i64());
    assert!(young.min().unwrap() > days_ago(1));
    assert!(disk.open("app").load(&set(&[0, 1])).unwrap().fading.is_empty());
    ingest(&disk, 2, 15).unwrap();
    assert_eq!(disk.rows(), each(&[0, 1], 0..15));
}

#[test]
fn who_does_not_say_when_is_forgotten_by_the_next_checkpoint() {
    let disk = Disk::with(&[PROPERTY]);
    ingest(&disk, 1, 10).unwrap();
    let version = disk.foreign(&[json!({"txn": {"appId": "app-0", "version": 9}})]);
    assert_eq!(disk.open("app").load(&set(&[0])).unwrap().fading, set(&[0]));
    ingest(&disk, 1, 10).unwrap();
    assert_eq!(txns(&disk, version + 1), ["app-0 9"]);
}

#[test]
fn what_a_checkpoint_forgot_is_known_by_the_commits_below_it() {
    let disk = Disk::with(&[PROPERTY]);
    ingest(&disk, 2, 10).unwrap();
    let_pass(&disk, 11);
    forget(&disk, true);
    let head = disk.open("app").load(&set(&[0, 1])).unwrap();
    assert_eq!(head.frontier, Frontier::from([(PartitionId(0), offset(10)), (PartitionId(1), offset(10))]));
    assert_eq!((head.breach, head.fading), (None, set(&[0, 1])));
    ingest(&disk, 2, 20).unwrap();
    assert_eq!(disk.rows(), each(&[0, 1], 0..20));
}

#[test] // P9
fn what_can_not_be_known_is_decided_by_a_person() {
    let disk = Disk::with(&[PROPERTY]);
    ingest(&disk, 1, 10).unwrap();
    let_pass(&disk, 11);
    forget(&disk, false);
    let head = disk.open("app").load(&set(&[0])).unwrap();
    let keeps = PROPERTY.1.to_owned();
    assert_eq!(head.breach, Some(Breach::Forgotten { keeps, partitions: set(&[0]) }));
    let refused = ingest(&disk, 1, 20).unwrap_err();
    assert!(
        refused.contains("partition 0: the table has no offset") && refused.contains("interval 10 days"),
        "{refused}"
    );
    assert_eq!(disk.rows(), each(&[0], 0..10));
    set_offset(&disk, "app", Checkpoints::AsTheTableSays, 10);
    ingest(&disk, 1, 20).unwrap();
    assert_eq!(disk.rows(), each(&[0], 0..20));
}

#[test]
fn a_new_partition_begins_where_the_whole_log_says_that_it_is_new() {
    let disk = Disk::with(&[PROPERTY]);
    ingest(&disk, 1, 10).unwrap();
    ingest(&disk, 2, 10).unwrap();
    assert_eq!(disk.rows(), each(&[0, 1], 0..10));
    let _ = ingest(&disk, 2, 12).unwrap();
    set_offset(&disk, "other", Checkpoints::Every(1), 1);
    std::fs::remove_file(disk.log_folder().join(format!("{:020}.json", 0))).unwrap();
    ingest(&disk, 2, 15).unwrap();
    let refused = ingest(&disk, 3, 15).unwrap_err();
    assert!(refused.contains("partition 2: the table has no offset"), "{refused}");
    assert_eq!(disk.rows(), each(&[0, 1], 0..15));
}

#[test]
fn where_nothing_is_forgotten_nothing_is_told_again() {
    let disk = Disk::with(&[]);
    ingest(&disk, 1, 10).unwrap();
    let_pass(&disk, 10_000);
    let head = disk.open("app").load(&set(&[0, 1])).unwrap();
    assert_eq!((head.breach, head.fading, disk.open("app").keeps_ms()), (None, set(&[]), None));
}

#[test] // P7
fn a_table_of_dead_letters_has_to_keep_what_it_knows() {
    let disk = Disk::with(&[PROPERTY]);
    let rows = Disk::with(&[]);
    let letters = || disk.open("app").as_dead_letters_of(rows.open("app").companion());
    let refused = letters().load(&set(&[0])).unwrap_err();
    assert!(refused.to_string().contains("delta.setTransactionRetentionDuration"), "{refused}");
    assert!(matches!(refused.verdict(), Verdict::Stop(Exit::Config)));
}
