//! The integration scenarios of kafka-delta-ingest, as black-box tests of this program: which test here is which there.
//! Where the peer's suite asserts what we must not copy, the test here says so.

use lakeward_testkit::Message;
use serde_json::json;

use crate::ingest::Ingest;
use crate::table::{Table, field};
use crate::{ids, repository, topic};

/// The peer's scenario, and the test here: a file below tests/e2e, and the function.
#[rustfmt::skip]
const SCENARIOS: &[(&str, &str, &str)] = &[
    ("test_flush_when_latency_expires",               "compat",  "flush_when_latency_expires"),
    ("test_dont_write_an_empty_buffer",               "commits", "k10_latency_flushes_and_an_idle_topic_commits_nothing"),
    ("test_flush_on_size_without_latency_expiration", "commits", "k11_size_flushes_long_before_latency"),
    ("test_delta_partitions",                         "partitions", "k50_statistics_of_each_partitions_file"),
    ("test_json_default",                             "compat",  "json_by_default"),
    ("zero_offset_issue",                             "commits", "k02_offset_zero_is_not_read_again"),
    ("test_json_with_registry",                       "registry", "json_with_registry"),
    ("test_avro_with_registry",                       "registry", "avro_with_registry_in_two_versions"),
    ("test_start_from_explicit",                      "compat",  "start_from_explicit_offsets"),
    ("test_start_from_earliest",                      "compat",  "start_from_earliest"),
    ("test_start_from_latest",                        "commits", "k19_latest_takes_the_first_message_after_the_start"),
    ("end_at_initial_offsets",                        "gaps",    "k56_what_comes_after_the_start_is_left_for_the_next_run"),
    ("schema_update_test",                            "commits", "k17_a_column_added_while_we_run_is_filled_from_then_on"),
    ("when_both_workers_started_simultaneously",      "groups",  "k13_both_workers_start_at_once"),
    ("when_rebalance_happens",                        "groups",  "k13_a_second_worker_joins_in_mid_stream"),
];

/// Scenarios of formats, dead letters and object stores, by the piece of work that brings them.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("dead letters", &["test_dlq"]),
    (
        "formats",
        &["test_json_with_args", "test_avro_default", "test_avro_with_file", "single_object_encoding_with_file"],
    ),
    ("object stores", &["when_both_workers_started_simultaneously (azure)", "when_rebalance_happens (azure)"]),
];

#[test]
fn every_scenario_of_the_peer_is_somewhere() {
    for (scenario, file, test) in SCENARIOS {
        let path = repository().join("tests/e2e").join(file).with_extension("rs");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(text.contains(&format!("fn {test}(")), "{scenario}: no test {test} in {file}.rs");
    }
    let elsewhere: usize = ELSEWHERE.iter().map(|(_, scenarios)| scenarios.len()).sum();
    assert_eq!(SCENARIOS.len() + elsewhere, 22, "the peer's suite has 22 scenarios");
}

#[test]
fn flush_when_latency_expires() {
    let (topic, table) = (topic(1), Table::t());
    let options = ["-l", "5", "-m", "5000", "-b", "1000000"];
    let running = Ingest::new(&topic, &table).with(&options).start();
    running.wait_ready();
    topic.produce(ids(0..10, 1));
    table.wait_version(1);
    assert_eq!(table.rows(), 10);
    topic.produce(ids(10..20, 1));
    table.wait_version(2);
    assert_eq!(table.rows(), 20);
    running.stop();
    assert_eq!(table.ids(), (0..20).collect::<Vec<_>>());
}

#[test]
fn json_by_default() {
    let schema = json!({"type": "struct", "fields": [
        field("name", "string", true), field("id", "integer", true), field("date", "string", true),
    ]});
    let (topic, table) = (topic(1), Table::made(&schema, &["date"], &json!({})));
    let message = json!({"name": "test", "id": 1, "date": "2023-06-30"});
    topic.produce([Message::new(message.to_string()).to(0)]);
    let running = Ingest::new(&topic, &table).with(&["-l", "5", "-m", "1"]).start();
    table.wait_rows(1);
    running.stop();
    assert_eq!(table.query("select * from t"), [message]);
}

/// There the eleventh message of the second part stays unflushed when it ends; here SIGTERM commits it.
#[test]
fn start_from_explicit_offsets() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(1..11, 1));
    let seek = ["--seek_offsets", r#"{"0":3}"#, "-l", "20", "-m", "10", "-b", "20"];
    let running = Ingest::new(&topic, &table).with(&seek).start();
    topic.produce(ids(11..16, 1));
    running.wait_read(11);
    running.stop();
    assert_eq!(table.ids(), (5..16).collect::<Vec<_>>());
    let (version, first) = &table.actions("txn")[0];
    assert_eq!((*version, &first["version"]), (1, &json!(3)), "the seek is a commit of its own");
}

#[test]
fn start_from_earliest() {
    let (topic, table) = (topic(3), Table::t());
    topic.produce(ids(1..11, 3));
    let running = Ingest::new(&topic, &table).with(&["-o", "earliest"]).start();
    table.wait_rows(10);
    running.stop();
    assert_eq!(table.ids(), (1..11).collect::<Vec<_>>());
}
