//! Tables that were restored, made again, or are shared: what `load` says of them (P9).

use lakeward_delta::{Table, Topic};
use lakeward_protocol::core::{Core, Ending, OnRestore, Policies};
use lakeward_protocol::drive::drive;
use lakeward_protocol::memory::{Clock, MemoryWorld};
use lakeward_protocol::ports::{Breach, OutputLog};
use lakeward_protocol::position::{Frontier, PartitionId, TableVersion};
use serde_json::{Value, json};

use crate::races::{Deaf, limits, to_the_end, topic};
use crate::support::{Disk, PlaceStage, each, offset, options, set};

fn run(disk: &Disk, table: Table, topic: &lakeward_protocol::memory::Topic, partitions: u32, name: u64) {
    let world = MemoryWorld::new(Clock::default(), name);
    let core = to_the_end(topic, partitions);
    let ending = drive(core, topic.join(), PlaceStage::new(10), table, world, Deaf, limits());
    assert_eq!(ending.unwrap(), Ending::Reached, "{}", disk.location());
}

/// A table with rows 0..10 of one partition as of the first version returned, 0..20 as of the second.
fn two_runs(disk: &Disk) -> (u64, u64) {
    run(disk, disk.open("app"), &topic(1, 10), 1, 1);
    let first = disk.head();
    run(disk, disk.open("app"), &topic(1, 20), 1, 2);
    (first, disk.head())
}

#[test] // K20
fn a_restore_is_seen_however_it_names_its_target() {
    #[rustfmt::skip] // columns: operationParameters of the RESTORE; V is the version
    let cases: [fn(u64) -> Value; 5] = [
        |v| json!({"version": v.to_string(), "timestamp": null}),
        |v| json!({"version": v, "datetime": null}),
        |_| json!({"version": null, "timestamp": "2024-01-01 10:00:00.0"}),
        |_| json!({"datetime": 1_700_000_000_000_i64}),
        |_| Value::Null,
    ];
    for parameters in cases {
        let disk = Disk::with(&[]);
        let (to, _) = two_runs(&disk);
        let mut running = disk.open("app");
        let _ = running.load(&set(&[0])).unwrap();
        // Others write on, before and after.
        disk.foreign(&[json!({"txn": {"appId": "other", "version": 1}})]);
        let at = disk.restore(to, &parameters(to));
        disk.foreign(&[json!({"txn": {"appId": "other", "version": 2}})]);
        for table in [&mut running, &mut disk.open("app")] {
            let head = table.load(&set(&[0, 1])).unwrap();
            assert_eq!(head.frontier, Frontier::from([(PartitionId(0), offset(20))]));
            let expected = Breach::Restored {
                at: TableVersion(at),
                to: TableVersion(to),
                frontier: Frontier::from([(PartitionId(0), offset(10))]),
            };
            assert_eq!(head.breach, Some(expected), "{}", parameters(to));
        }
    }
}

#[test] // K20
fn what_a_restore_took_back_is_replayed_once() {
    let disk = Disk::with(&[]);
    let (to, _) = two_runs(&disk);
    disk.restore(to, &json!({"version": to.to_string()}));
    assert_eq!(disk.rows(), each(&[0], 0..10));
    let topic = topic(1, 25);
    let world = MemoryWorld::new(Clock::default(), 3);
    let stopped =
        drive(to_the_end(&topic, 1), topic.join(), PlaceStage::new(10), disk.open("app"), world, Deaf, limits());
    assert!(stopped.unwrap_err().to_string().contains("restored"));

    let ends = Frontier::from([(PartitionId(0), offset(25))]);
    let core = Core::new(Policies { ends: Some(ends), on_restore: OnRestore::Replay, ..Policies::default() });
    let topic = topic_of(25);
    let world = MemoryWorld::new(Clock::default(), 4);
    let ending = drive(core, topic.join(), PlaceStage::new(10), disk.open("app"), world, Deaf, limits());
    assert_eq!(ending.unwrap(), Ending::Reached);
    assert_eq!(disk.rows(), each(&[0], 0..25));
    assert_eq!(disk.open("app").load(&set(&[0])).unwrap().breach, None, "written down, it is over");
}

fn topic_of(length: i64) -> lakeward_protocol::memory::Topic {
    topic(1, length)
}

#[test]
fn a_restore_of_what_is_not_ours_is_none_of_our_business() {
    let disk = Disk::with(&[]);
    run(&disk, disk.open("app"), &topic(1, 10), 1, 1);
    let to = disk.head();
    disk.foreign(&[
        json!({"add": {"path": "x", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": true}}),
    ]);
    disk.restore(to, &json!({"version": to.to_string()}));
    assert_eq!(disk.open("app").load(&set(&[0])).unwrap().breach, None);
}

#[test]
fn a_restore_of_a_restore_gives_back_what_was_there() {
    let disk = Disk::with(&[]);
    let (first, second) = two_runs(&disk);
    disk.restore(first, &json!({"version": first.to_string()}));
    disk.restore(second, &json!({"version": second.to_string()}));
    assert_eq!(disk.rows(), each(&[0], 0..20));
    assert_eq!(disk.open("app").load(&set(&[0])).unwrap().breach, None);
    // Back to the restored one: through both.
    let again = disk.restore(second + 1, &json!({"version": (second + 1).to_string()}));
    let Some(Breach::Restored { at, frontier, .. }) = disk.open("app").load(&set(&[0])).unwrap().breach else {
        panic!("the data is old again")
    };
    assert_eq!((at.0, frontier), (again, Frontier::from([(PartitionId(0), offset(10))])));
}

#[test] // P43
fn an_offset_moved_back_by_somebody_is_taken_as_it_is() {
    let disk = Disk::with(&[]);
    let (_, _) = two_runs(&disk);
    let mut table = disk.open("app");
    disk.foreign(&[json!({"txn": {"appId": "app-0", "version": 4}})]);
    let head = table.load(&set(&[0])).unwrap();
    assert_eq!((head.frontier, head.breach), (Frontier::from([(PartitionId(0), offset(5))]), None));
}

#[test] // K89
fn a_table_made_again_is_another_table() {
    for longer in [false, true] {
        let disk = Disk::with(&[]);
        two_runs(&disk);
        let mut table = disk.open("app");
        let was = table.id().to_owned();
        let version = disk.head();
        disk.delete();
        let gone = table.load(&set(&[0])).unwrap_err();
        assert!(gone.to_string().contains("no Delta table"), "{gone}");
        let again = Disk::with(&[]);
        disk.write(0, &again.actions(0));
        // Once it has grown past the version that we stand on.
        for n in 1..=if longer { version + 2 } else { 0 } {
            disk.write(n, &[json!({"txn": {"appId": "other", "version": n}})]);
        }
        let head = table.load(&set(&[0])).unwrap();
        let Some(Breach::Recreated { was: then, is }) = head.breach else { panic!("longer {longer}: not noticed") };
        assert_eq!((then, head.version.0), (was, disk.head()));
        assert_ne!(is, disk.location());
        assert_eq!(head.frontier, Frontier::new());
    }
}

#[test] // K62
fn two_topics_share_a_table_and_an_app_id() {
    let disk = Disk::with(&[]);
    let open = |name: &str, id: u8| {
        let mut options = options("kafka_delta_ingest");
        options.topic = Some(Topic { name: name.to_owned(), id: Some([id; 16]) });
        Table::open(&disk.location(), options).unwrap()
    };
    run(&disk, open("a", 1), &topic(2, 50), 2, 1);
    run(&disk, open("b", 2), &topic(2, 10), 2, 2);
    run(&disk, open("a", 1), &topic(2, 60), 2, 3);
    run(&disk, open("b", 2), &topic(2, 15), 2, 4);
    let mut expected = [each(&[0, 1], 0..60), each(&[0, 1], 0..15)].concat();
    expected.sort_unstable();
    assert_eq!(disk.rows(), expected);
    let (mut a, mut b) = (open("a", 1), open("b", 2));
    assert_eq!(a.load(&set(&[0])).unwrap().frontier, Frontier::from([(PartitionId(0), offset(60))]));
    assert_eq!(b.load(&set(&[0])).unwrap().frontier, Frontier::from([(PartitionId(0), offset(15))]));
    let txns: Vec<_> = (1..=disk.head()).flat_map(|version| disk.actions(version)).collect();
    let ids: std::collections::BTreeSet<_> = txns.iter().filter_map(|action| action["txn"]["appId"].as_str()).collect();
    let expected = ["kafka_delta_ingest-0", "kafka_delta_ingest-1", "kafka_delta_ingest-b-0", "kafka_delta_ingest-b-1"];
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), expected);
    // The name is the same, the topic is not.
    let Some(Breach::OtherTopic { partitions, .. }) = open("b", 9).load(&set(&[0])).unwrap().breach else {
        panic!("another topic's offsets")
    };
    assert_eq!(partitions, set(&[0]));
}

#[test] // a takeover from the peer: its commits name no topic
fn offsets_that_the_peer_stored_are_ours() {
    let disk = Disk::with(&[]);
    disk.foreign(&[
        json!({"txn": {"appId": "app-0", "version": 9, "lastUpdated": 1}}),
        json!({"txn": {"appId": "app-1", "version": -1}}),
        json!({"txn": {"appId": "app2-0", "version": 5}}),
        json!({"commitInfo": {"timestamp": 1, "operation": "STREAMING UPDATE", "operationParameters": {"queryId": "app"}}}),
    ]);
    let head = disk.open("app").load(&set(&[0, 1, 2])).unwrap();
    assert_eq!(head.frontier, Frontier::from([(PartitionId(0), offset(10)), (PartitionId(1), offset(0))]));
    assert_eq!(head.breach, None);
    disk.foreign(&[json!({"txn": {"appId": "app-0", "version": -2}})]);
    let error = disk.open("app").load(&set(&[0])).unwrap_err();
    assert!(error.to_string().contains("app-0"), "{error}");
}
