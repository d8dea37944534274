//! Input that is gone, output that is gone, and offsets that never held a record (P9, and what only looks like it).

use std::time::{Duration, Instant};

use lakeward_testkit::{Broker, Message, Topic};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use serde_json::json;

use crate::ingest::{Ended, Ingest, run};
use crate::table::Table;
use crate::{ids, json as messages, topic};

/// It stopped with "data", and its message has all of these.
fn assert_stops(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    for word in words {
        assert!(ended.log.contains(word), "no '{word}' in:\n{}", ended.log);
    }
}

fn range(from: i64, to: i64) -> Vec<i64> {
    (from..to).collect()
}

#[test]
fn k56_p38_the_end_of_an_idle_topic_is_an_end() {
    let (topic, table) = (topic(3), Table::t());
    // Partition 2 stays empty.
    topic.produce((0..15).map(|id| Message::new(json!({"id": id}).to_string()).to(id % 2)));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), range(0, 15));
    // Nothing came since: done again, and nothing is committed.
    let version = table.version();
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.version(), version);
}

/// The peer's end_at_initial_offsets, and a topic that nobody ever wrote to.
#[test]
fn k56_what_comes_after_the_start_is_left_for_the_next_run() {
    let (topic, table) = (topic(1), Table::t());
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.version(), Some(0), "an empty topic commits nothing");
    topic.produce(ids(0..15, 1));
    Ingest::new(&topic, &table).run_to_end();
    topic.produce(ids(15..30, 1));
    assert_eq!(table.ids(), range(0, 15));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), range(0, 30));
}

#[test]
fn k58_p16_control_records_and_aborted_ones_are_no_gaps() {
    let (topic, table) = (topic(1), Table::t());
    let rows = |from: i64| messages((from..from + 5).map(|id| json!({"id": id})));
    let mut producer = topic.transactional();
    for (from, commit) in [(0, true), (100, false), (5, true)] {
        producer.begin();
        producer.produce(rows(from));
        if commit { producer.commit() } else { producer.abort() }
    }
    let ended = Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), range(0, 10));
    assert!(!ended.log.to_lowercase().contains("gap"), "a false alarm: {}", ended.log);
    // The partition ends in a control record; what follows goes on behind it.
    topic.produce(ids(10..12, 1));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), range(0, 12));
    let verified = run(&["verify", &table.path.display().to_string()]);
    assert_eq!(verified.code, Some(0), "{}", verified.log);
}

#[test]
fn p16_an_open_transaction_is_waited_for() {
    let (topic, table) = (topic(1), Table::t());
    let mut producer = topic.transactional();
    producer.begin();
    producer.produce(ids(0..5, 1));
    let running = Ingest::new(&topic, &table).with(&["-l", "1"]).start();
    running.wait_ready();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(table.rows(), 0, "not yet committed, not to be seen");
    producer.commit();
    table.wait_rows(5);
    running.stop();
    assert_eq!(table.ids(), range(0, 5));
}

#[test]
fn k59_a_topic_whose_records_are_all_deleted_ends_at_once() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    topic.delete_records(0, 10);
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.rows(), 0);
    topic.produce(ids(10..15, 1));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), range(10, 15));
}

/// Offsets that a partition still holds, as a reader of committed records sees them.
fn offsets(topic: &Topic) -> Vec<i64> {
    let end = topic.watermarks(0).1;
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", Broker::shared().bootstrap())
        .set("group.id", "none")
        .set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut from = TopicPartitionList::new();
    from.add_partition_offset(topic.name(), 0, Offset::Beginning).expect("an offset");
    consumer.assign(&from).expect("assign");
    let mut found = Vec::new();
    let start = Instant::now();
    while start.elapsed() < crate::DEADLINE {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => found.push(message.offset()),
            Some(Err(_)) if found.last().is_none_or(|last| *last < end) => break, // the end of the partition
            _ => {}
        }
    }
    found
}

#[test]
fn p17_holes_of_compaction_are_no_gaps() {
    let settings = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("segment.ms", "200"),
        ("delete.retention.ms", "0"),
        ("max.compaction.lag.ms", "500"),
    ];
    let (topic, table) = (Broker::shared().topic_with("compacted", 1, &settings), Table::t());
    let row = |id: i64| json!({"id": id}).to_string();
    for round in 0..5 {
        topic.produce((0..20).map(|n| Message::new(row(round * 20 + n)).key(format!("k{}", n % 4)).to(0)));
        std::thread::sleep(Duration::from_millis(400));
    }
    // The active segment is never compacted: roll it until the old ones are.
    let mut rolls = 100;
    let kept = crate::wait_for("compaction", || {
        topic.produce([Message::new(row(rolls)).key("roll").to(0)]);
        rolls += 1;
        let kept = offsets(&topic);
        if kept.iter().filter(|offset| **offset < 100).count() <= 4 { Ok(kept) } else { Err(format!("{kept:?}")) }
    });
    let ended = Ingest::new(&topic, &table).run_to_end();
    let newest = table.ids();
    assert!(kept.iter().filter(|offset| **offset < 100).all(|offset| newest.contains(offset)), "{newest:?}, {kept:?}");
    assert!(newest.iter().filter(|id| **id < 100).count() <= 4, "{newest:?}");
    assert_eq!(table.txns()["app-0"], topic.watermarks(0).1 - 1);
    assert!(!ended.log.contains("--on-gap"), "a false alarm: {}", ended.log);
}

#[test]
fn k61_records_deleted_before_they_were_read_stop_the_job_or_are_written_down() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    Ingest::new(&topic, &table).run_to_end();
    topic.produce(ids(10..30, 1));
    topic.delete_records(0, 20);
    let ingest = Ingest::new(&topic, &table).with(&["-e"]);
    assert_stops(&ingest.run(), &[topic.name(), "10", "20", "--on-gap=skip"]);
    assert_eq!(table.ids(), range(0, 10), "nothing was written");

    let ended = ingest.with(&["--on-gap=skip"]).run();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert_eq!(table.ids(), range(0, 10).into_iter().chain(20..30).collect::<Vec<_>>());
    assert!(ended.log.contains("WARN"), "{}", ended.log);
    let infos: Vec<_> = table.actions("commitInfo").iter().map(|(_, info)| info.to_string()).collect();
    assert!(infos.iter().any(|info| info.contains("on-gap")), "the gap is not written down: {infos:?}");
    let verified = run(&["verify", &table.path.display().to_string()]);
    assert!(verified.log.contains("gap"), "{}", verified.log);
}

/// While it runs, and slower than retention.
#[test]
fn k61_records_deleted_under_a_running_job() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    let mut running = Ingest::new(&topic, &table).with(&["-K", "session.timeout.ms=45000"]).start();
    table.wait_txn("app-0", 9);
    running.freeze();
    topic.produce(ids(10..30, 1));
    topic.delete_records(0, 20);
    running.thaw();
    // It may have fetched them before it froze: then nothing is gone.
    if let Some(ended) = running.wait_within(Duration::from_secs(10)) {
        assert_stops(&ended, &[topic.name(), "--on-gap=skip"]);
        assert_eq!(table.ids(), range(0, 10));
    } else {
        table.wait_txn("app-0", 29);
        assert_eq!(table.ids(), range(0, 30));
    }
}

#[test]
fn a_topic_made_anew_is_known_by_its_id() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    Ingest::new(&topic, &table).run_to_end();
    topic.recreate(1);
    // More records than before, so that offsets alone would not tell.
    topic.produce(ids(100..120, 1));
    let ingest = Ingest::new(&topic, &table).with(&["-e"]);
    assert_stops(&ingest.run(), &[topic.name(), "--on-gap=skip"]);
    assert_eq!(table.ids(), range(0, 10));

    let ended = ingest.with(&["--on-gap=skip"]).run();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert_eq!(table.ids(), range(0, 10).into_iter().chain(100..120).collect::<Vec<_>>());
    // And from then on it is our topic.
    topic.produce(ids(120..125, 1));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.rows(), 35);
}

/// A table that was taken back by RESTORE: the data is old, our txn is the newest.
fn restored() -> (Topic, Table) {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..50, 1));
    Ingest::new(&topic, &table).with(&["-m", "5000"]).run_to_end();
    let version = table.version();
    topic.produce(ids(50..100, 1));
    Ingest::new(&topic, &table).with(&["-m", "5000"]).run_to_end();
    assert_eq!(table.txns()["app-0"], 99);
    table.ask(json!({"do": "restore", "version": version}));
    assert_eq!(table.ids(), range(0, 50));
    (topic, table)
}

#[test]
fn k20_a_restored_table_stops_the_job() {
    let (topic, table) = restored();
    let ended = Ingest::new(&topic, &table).with(&["-e"]).run();
    assert_stops(&ended, &["--on-restore"]);
    assert_eq!(table.ids(), range(0, 50));
}

#[test]
fn k20_a_restored_table_is_filled_again_where_asked() {
    let (topic, table) = restored();
    topic.produce(ids(100..110, 1));
    let ended = Ingest::new(&topic, &table).with(&["--on-restore", "replay"]).run_to_end();
    assert_eq!(table.ids(), range(0, 110));
    assert!(ended.log.contains("WARN"), "{}", ended.log);
    // Said once; from then on the table is like any other.
    topic.produce(ids(110..120, 1));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), range(0, 120));
}

#[test]
fn k20_a_restored_table_stays_so_where_asked() {
    let (topic, table) = restored();
    topic.produce(ids(100..110, 1));
    Ingest::new(&topic, &table).with(&["--on-restore=accept"]).run_to_end();
    assert_eq!(table.ids(), range(0, 50).into_iter().chain(100..110).collect::<Vec<_>>());
    topic.produce(ids(110..120, 1));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.rows(), 70);
}

#[test]
fn k20_a_table_restored_while_we_run() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..50, 1));
    let running = Ingest::new(&topic, &table).with(&["-l", "1", "-m", "5000"]).start();
    table.wait_txn("app-0", 49);
    let version = table.version();
    topic.produce(ids(50..100, 1));
    table.wait_txn("app-0", 99);
    table.ask(json!({"do": "restore", "version": version}));
    topic.produce(ids(100..110, 1));
    assert_stops(&running.wait(), &["--on-restore"]);
    assert_eq!(table.ids(), range(0, 50));
}

#[test]
fn p43_a_txn_that_somebody_set_back_is_not_followed_in_silence() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..100, 1));
    Ingest::new(&topic, &table).with(&["-m", "5000"]).run_to_end();
    table.commit(&[
        json!({"txn": {"appId": "app-0", "version": 49, "lastUpdated": 0}}),
        json!({"commitInfo": {"timestamp": 0, "operation": "FOREIGN"}}),
    ]);
    let ended = Ingest::new(&topic, &table).with(&["-e"]).run();
    let rows = table.rows();
    assert!(rows == 100 || ended.log.contains("WARN"), "rows came twice in silence: {rows}, {}", ended.log);
    assert_ne!((ended.code, rows), (Some(0), 100), "rows are missing in silence: {}", ended.log);
}

/// Compactions, deletes and appends of others between our commits are none of our business.
#[test]
fn foreign_commits_that_do_not_touch_our_txns_are_harmless() {
    let (topic, table) = (topic(1), Table::t());
    let running = Ingest::new(&topic, &table).with(&["-l", "1"]).start();
    topic.produce(ids(0..30, 1));
    table.wait_txn("app-0", 29);
    table.ask(json!({"do": "compact"}));
    topic.produce(ids(30..60, 1));
    table.wait_txn("app-0", 59);
    table.ask(json!({"do": "append", "rows": [{"id": 1000, "date": "2024-01-01"}]}));
    table.ask(json!({"do": "delete", "where": "id = 0"}));
    table.ask(json!({"do": "checkpoint"}));
    topic.produce(ids(60..90, 1));
    table.wait_txn("app-0", 89);
    running.stop();
    assert_eq!(table.ids(), range(1, 90).into_iter().chain([1000]).collect::<Vec<_>>());
    let verified = run(&["verify", &table.path.display().to_string()]);
    assert_eq!(verified.code, Some(0), "{}", verified.log);
}
