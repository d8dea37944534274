//! Several processes, their group, signals, the broker's troubles, and what lag tools see.

use std::time::Duration;

use lakeward_testkit::{Broker, Message, Topic};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::json;

use crate::ingest::{Ingest, run};
use crate::table::{PLACED, Table};
use crate::{ids, topic};

/// What the peer's own suite asserts of two workers: ids exactly once, and txns that name last offsets.
fn assert_200_once(table: &Table, name: &str) {
    assert_eq!(table.ids(), (0..200).collect::<Vec<_>>(), "{name}");
    assert_eq!(table.txns().values().sum::<i64>(), 196, "{name}: {:?}", table.txns());
    let ended = run(&["verify", &table.path.display().to_string()]);
    assert_eq!(ended.code, Some(0), "{name}: {}", ended.log);
}

/// 4 partitions, 200 messages, two workers of one group; how they start and share is the case's.
fn two_workers(name: &str, pause: Duration, settings: &[&str]) {
    let (topic, table) = (topic(4), Table::t());
    let ingest =
        Ingest::new(&topic, &table).with(&["-b", "370", "-c", "-t", "_kafka_offset: kafka.offset"]).with(settings);
    let first = ingest.start();
    std::thread::sleep(pause);
    topic.produce(ids(0..60, 4));
    let second = ingest.start();
    // In the middle of the second worker's joining.
    for at in (60..200).step_by(20) {
        std::thread::sleep(Duration::from_millis(200));
        topic.produce(ids(at..at + 20, 4));
    }
    table.wait_rows(200);
    first.stop();
    second.stop();
    assert_200_once(&table, name);
}

#[test]
fn k13_a_second_worker_joins_in_mid_stream() {
    two_workers("eager", Duration::from_secs(1), &["-K", "partition.assignment.strategy=range,roundrobin"]);
}

#[test]
fn k13_both_workers_start_at_once() {
    two_workers("default", Duration::ZERO, &[]);
}

#[test]
fn k77_p01_cooperative_sticky() {
    two_workers("cooperative", Duration::from_secs(1), &["-K", "partition.assignment.strategy=cooperative-sticky"]);
}

#[test]
fn workers_that_leave_and_come_back_hand_partitions_over_without_loss() {
    let (topic, table) = (topic(4), Table::new(PLACED, &["date"]));
    let ingest = Ingest::new(&topic, &table);
    let stays = ingest.start();
    for round in 0..5 {
        topic.produce(ids(round * 40..round * 40 + 20, 4));
        let guest = ingest.start();
        topic.produce(ids(round * 40 + 20..round * 40 + 40, 4));
        guest.wait_ready();
        guest.stop();
    }
    table.wait_rows(200);
    stays.stop();
    assert_200_once(&table, "guests");
}

#[test]
fn k56_two_bounded_workers_both_end() {
    for strategy in ["range", "cooperative-sticky"] {
        let (topic, table) = (topic(4), Table::t());
        topic.produce(ids(0..200, 4));
        let strategy = format!("partition.assignment.strategy={strategy}");
        let ingest = Ingest::new(&topic, &table).with(&["-e", "-K", &strategy]);
        let pair = [ingest.start(), ingest.start()];
        for running in pair {
            let ended = running.wait();
            assert_eq!(ended.code, Some(0), "{strategy}: {}", ended.log);
        }
        assert_200_once(&table, &strategy);
    }
}

#[test]
fn k62_two_topics_with_one_app_id_do_not_collide_in_silence() {
    let (one, other, table) = (topic(1), topic(1), Table::t());
    one.produce(ids(0..100, 1));
    other.produce(ids(1000..1010, 1));
    Ingest::new(&one, &table).run_to_end();
    let ended = Ingest::new(&other, &table).with(&["-e"]).run();
    if ended.code == Some(0) {
        assert_eq!(table.rows(), 110, "{}", ended.log);
    } else {
        assert!([Some(65), Some(78)].contains(&ended.code), "{}", ended.log);
        assert!(ended.log.contains("app"), "names the app id: {}", ended.log);
        assert_eq!(table.rows(), 100);
        Ingest::new(&other, &table).with(&["-a", "app-of-the-other"]).run_to_end();
        assert_eq!(table.rows(), 110);
    }
}

#[test]
fn k73_a_topic_that_is_made_after_the_start_is_waited_for() {
    let (topic, table) = (Broker::shared().absent_topic("late"), Table::t());
    let mut running = Ingest::new(&topic, &table).start();
    std::thread::sleep(Duration::from_secs(8));
    assert!(running.is_running(), "{}", running.log());
    topic.create(2, &[]);
    topic.produce(ids(0..10, 2));
    table.wait_rows(10);
    running.stop();
    assert_eq!(table.ids(), (0..10).collect::<Vec<_>>());
}

#[test]
fn k74_a_broker_that_restarts_is_waited_for() {
    let broker = Broker::own(1);
    let (topic, table) = (broker.topic("restart", 4), Table::new(PLACED, &["date"]));
    let ingest = Ingest::new(&topic, &table).with(&["-k", broker.bootstrap(), "-l", "1"]);
    let pair = [ingest.start(), ingest.start()];
    let produce = |ids| topic.produce_with(&[("enable.idempotence", "true")], ids);
    let mut from = 0;
    for stop in ["kill", "pause"] {
        produce(ids(from..from + 200, 4));
        // Some are committed, some are on their way.
        table.wait_rows(u64::try_from(from).expect("positive") + 20);
        if stop == "kill" {
            broker.kill(1);
            std::thread::sleep(Duration::from_secs(8));
            broker.start(1);
        } else {
            broker.pause(1);
            std::thread::sleep(Duration::from_secs(8));
            broker.resume(1);
        }
        produce(ids(from + 200..from + 400, 4));
        from += 400;
        table.wait_rows(u64::try_from(from).expect("positive"));
    }
    for running in pair {
        running.stop();
    }
    assert_eq!(table.ids(), (0..800).collect::<Vec<_>>());
}

#[test]
fn k76_sigterm_commits_what_is_held_and_ends_with_0() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..100, 1));
    let running = Ingest::new(&topic, &table).with(&["-l", "300", "-m", "5000", "-b", "134217728"]).start();
    running.wait_read(100);
    assert_eq!(table.version(), Some(0), "held, not committed");
    running.stop();
    assert_eq!((table.version(), table.ids()), (Some(1), (0..100).collect::<Vec<_>>()));
}

#[test]
fn a_second_sigterm_ends_it_at_once_and_loses_nothing() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..100, 1));
    let ingest = Ingest::new(&topic, &table);
    let mut running = ingest.start();
    running.wait_ready();
    running.signal(libc::SIGTERM);
    running.signal(libc::SIGTERM);
    running.wait();
    ingest.run_to_end();
    assert_eq!(table.ids(), (0..100).collect::<Vec<_>>());
}

#[test]
fn k85_settings_cannot_replace_brokers_and_group() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..3, 1));
    let ingest = Ingest::new(&topic, &table).with(&["-K", "group.id=z", "-K", "bootstrap.servers=127.0.0.1:1"]);
    let ended = ingest.run_to_end();
    assert_eq!(table.ids(), [0, 1, 2]);
    assert_eq!(topic.committed(ingest.option("-g"), 0), Some(3));
    assert!(ended.log.contains("WARN") && ended.log.contains("group.id"), "{}", ended.log);
    assert!(ended.log.contains("bootstrap.servers"), "{}", ended.log);
}

/// B commits while A, frozen, holds the same records; A's commit must not get through when it wakes.
#[test]
fn p02_a_frozen_writer_that_wakes_commits_nothing_twice() {
    let (topic, table) = (topic(1), Table::new(PLACED, &["date"]));
    topic.produce(ids(0..100, 1));
    let ingest = Ingest::new(&topic, &table).with(&["-K", "session.timeout.ms=3000"]);
    let held = ingest.clone().with(&["-l", "12", "-m", "5000", "-b", "134217728"]);
    let mut frozen = held.start();
    frozen.wait_read(100);
    frozen.freeze();
    let successor = ingest.start();
    topic.produce(ids(100..105, 1));
    table.wait_txn("app-0", 104);
    // Its latency is long over when it wakes: the first thing it does is to commit what it holds.
    std::thread::sleep(Duration::from_secs(8));
    frozen.thaw();
    topic.produce(ids(105..110, 1));
    table.wait_txn("app-0", 109);
    frozen.stop();
    successor.stop();
    assert_eq!(table.ids(), (0..110).collect::<Vec<_>>());
    let txns: Vec<_> = table.actions("txn").into_iter().map(|(_, txn)| txn["version"].as_i64()).collect();
    assert!(txns.is_sorted(), "never backwards: {txns:?}");
}

/// Sets what a group has committed, as an operator's reset does.
fn commit_for_group(topic: &Topic, group: &str, offset: i64) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", Broker::shared().bootstrap()).set("group.id", group);
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(topic.name(), 0, Offset::Offset(offset)).expect("an offset");
    consumer.commit(&offsets, CommitMode::Sync).expect("commit for the group");
}

#[test]
fn p04_the_groups_offsets_are_never_read_back() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..110, 1));
    let ingest = Ingest::new(&topic, &table);
    ingest.run_to_end();
    for offset in [100, 0, 115] {
        commit_for_group(&topic, ingest.option("-g"), offset);
        topic.produce(ids(110 + offset..111 + offset, 1));
        ingest.run_to_end();
    }
    let mut expected: Vec<_> = (0..110).chain([110, 210, 225]).collect();
    expected.sort_unstable();
    assert_eq!(table.ids(), expected);
}

#[test]
fn p44_the_groups_offsets_follow_the_tables_commits() {
    let (topic, table) = (topic(2), Table::t());
    topic.produce(ids(0..100, 2));
    let ingest = Ingest::new(&topic, &table).with(&["-l", "300", "-m", "5000", "-b", "134217728"]);
    let running = ingest.start();
    running.wait_read(100);
    std::thread::sleep(Duration::from_secs(6)); // librdkafka's own auto-commit would act each 5 s
    let before: Vec<_> = (0..2).map(|partition| topic.committed(ingest.option("-g"), partition)).collect();
    assert!(before.iter().all(|offset| offset.is_none_or(|offset| offset == 0)), "ahead of the table: {before:?}");
    running.stop();
    let after: Vec<_> = (0..2).map(|partition| topic.committed(ingest.option("-g"), partition)).collect();
    assert_eq!(after, [Some(50), Some(50)]);
}

#[test]
fn partitions_added_to_a_topic_are_taken_on() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    let running = Ingest::new(&topic, &table).start();
    table.wait_rows(10);
    topic.grow(3);
    topic.produce(ids(10..40, 3));
    table.wait_rows(40);
    running.stop();
    assert_eq!(table.ids(), (0..40).collect::<Vec<_>>());
}

#[test]
fn every_codec_and_group_protocol_is_read() {
    let (topic, table) = (topic(1), Table::t());
    for (at, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        let from = i64::try_from(at).expect("small") * 100;
        topic.produce_with(&[("compression.type", codec), ("linger.ms", "50")], ids(from..from + 100, 1));
    }
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), (0..500).collect::<Vec<_>>());
}

/// The admin port, with a job that has done something.
#[test]
fn metrics_tell_what_was_read_and_committed() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1).into_iter().chain([Message::new("no JSON"), Message::tombstone()].map(|m| m.to(0))));
    let running = Ingest::new(&topic, &table).start();
    table.wait_txn("app-0", 11);
    running.wait_ready();
    assert_eq!(running.get("/healthz").expect("an answer").0, 200);
    running.wait_read(12);
    let (_, text) = running.get("/metrics").expect("an answer");
    for name in ["lakeward_rows_total", "lakeward_commits_total", "lakeward_table_version"] {
        assert!(running.metric(name) > 0.0, "{name} in:\n{text}");
    }
    assert_eq!(running.metric("lakeward_bad_records_total"), 1.0, "{text}");
    assert_eq!(running.metric("lakeward_tombstones_total"), 1.0, "{text}");
    running.stop();
    let info = table.actions("commitInfo");
    assert_ne!(info[0].1, json!(null));
}
