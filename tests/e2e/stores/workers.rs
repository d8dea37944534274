//! The peer's scenarios of two workers on each store, and many processes that race for one table.

use std::time::Duration;

use lakeward_testkit::Message;
use serde_json::json;

use crate::ids;
use crate::ingest::Ingest;
use crate::stores::lake::{ALL, Lake, Store};
use crate::topic;

/// What the peer's suite sets beside the store's own variables, to no purpose here.
const THEIRS: [(&str, &str); 5] = [
    ("AWS_STORAGE_ALLOW_HTTP", "true"),
    ("AWS_S3_LOCKING_PROVIDER", "dynamodb"),
    ("DELTA_DYNAMO_TABLE_NAME", "locks"),
    ("DYNAMO_LOCK_OWNER_NAME", "worker"),
    ("DYNAMO_LOCK_LEASE_DURATION", "2"),
];

fn emails(ids: std::ops::Range<i64>) -> Vec<Message> {
    let text = |id: i64| json!({"id": id, "timestamp": "2024-01-01T10:00:00Z"}).to_string();
    ids.map(|id| Message::new(text(id)).to(i32::try_from(id % 4).expect("a partition"))).collect()
}

/// 4 partitions, 200 messages, two workers of one group; the second comes at once, or amid the messages.
fn two_workers(store: Store, pause: Duration) {
    let name = format!("{store:?}, {pause:?}");
    let (topic, lake) = (topic(4), Lake::new(store));
    let options = ["-b", "370", "-c", "-t", "date: substr(timestamp,`0`,`10`)", "-t", "_kafka_offset: kafka.offset"];
    let ingest =
        THEIRS.iter().fold(lake.ingest(&topic, "t").with(&options), |ingest, (name, value)| ingest.env(name, value));
    let first = ingest.start();
    std::thread::sleep(pause);
    topic.produce(emails(0..100));
    let second = ingest.start();
    std::thread::sleep(pause);
    topic.produce(emails(100..200));
    lake.wait_rows("t", 200);
    let (seconds, commits) =
        (first.metric("lakeward_commit_seconds_sum"), first.metric("lakeward_commit_seconds_count"));
    println!("{name}: {commits} commits of the first worker, {:.0} ms each", 1000.0 * seconds / commits);
    first.stop();
    second.stop();
    lake.assert_once("t", 0..200, &name);
    let dates = lake.query("t", "select date, count(*) as n from t group by date").expect("the table can be read");
    assert_eq!(dates, [json!({"date": "2024-01-01", "n": 200})], "{name}");
    let offsets = lake.run(&["status", &lake.table("t"), "--output", "json"]);
    assert_eq!(offsets.code, Some(0), "{}", offsets.log);
    assert_eq!(offsets.log.matches("\"next_offset\":50").count(), 4, "{name}: {}", offsets.log);
}

#[test]
fn when_both_workers_started_simultaneously() {
    std::thread::scope(|scope| {
        for store in ALL {
            scope.spawn(move || two_workers(store, Duration::ZERO));
        }
    });
}

#[test]
fn when_rebalance_happens() {
    std::thread::scope(|scope| {
        for store in ALL {
            scope.spawn(move || two_workers(store, Duration::from_secs(1)));
        }
    });
}

/// Each with an app id and a topic of its own, so that every version is fought for.
fn eight_processes(store: Store) {
    const PROCESSES: i64 = 8;
    const EACH: i64 = 60;
    let lake = Lake::new(store);
    let jobs: Vec<Ingest> = (0..PROCESSES)
        .map(|job| {
            let topic = topic(1);
            topic.produce(ids(job * EACH..(job + 1) * EACH, 1));
            lake.ingest(&topic, "t").with(&["-a", &format!("app{job}"), "-e"])
        })
        .collect();
    let running: Vec<_> = jobs.iter().map(Ingest::start).collect();
    for one in running {
        let ended = one.wait();
        assert_eq!(ended.code, Some(0), "{store:?}: {}", ended.log);
    }
    lake.assert_once("t", 0..PROCESSES * EACH, &format!("{store:?}"));
}

#[test]
fn eight_processes_race_for_one_table_in_s3() {
    eight_processes(Store::S3);
}

#[test]
fn eight_processes_race_for_one_table_in_azure() {
    eight_processes(Store::Azure);
}

#[test]
fn eight_processes_race_for_one_table_in_gcs() {
    eight_processes(Store::Gcs);
}
