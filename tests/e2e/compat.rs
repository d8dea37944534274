//! The integration scenarios of kafka-delta-ingest, as black-box tests of this program: which test here is which there.
//! Where the peer's suite asserts what we must not copy, the test here says so.

use std::collections::BTreeSet;

use apache_avro::Codec;
use lakeward_testkit::Message;
use serde_json::{Value, json};

use crate::formats::{container, schema_file, single_object};
use crate::ingest::Ingest;
use crate::table::{Table, field};
use crate::{ids, repository, topic};

/// Each scenario of the peer's, and the test here: a file below tests/e2e, and the function.
#[rustfmt::skip]
const SCENARIOS: [(&str, &str, &str); 22] = [
    ("test_flush_when_latency_expires",                "compat",         "flush_when_latency_expires"),
    ("test_dont_write_an_empty_buffer",                "commits",        "k10_latency_flushes_and_an_idle_topic_commits_nothing"),
    ("test_flush_on_size_without_latency_expiration",  "commits",        "k11_size_flushes_long_before_latency"),
    ("test_dlq",                                       "compat",         "dead_letters"),
    ("test_delta_partitions",                          "compat",         "partitions_with_a_null_and_a_checkpoint"),
    ("test_json_default",                              "compat",         "json_by_default"),
    ("test_json_with_args",                            "compat",         "json_with_args"),
    ("test_json_with_registry",                        "registry",       "json_with_registry"),
    ("test_avro_default",                              "compat",         "avro_by_default"),
    ("test_avro_with_file",                            "compat",         "avro_with_file"),
    ("test_avro_with_registry",                        "registry",       "avro_with_registry_in_two_versions"),
    ("test_avro_single_object_encoding_with_file",     "compat",         "avro_single_objects_with_file"),
    ("zero_offset_issue",                              "commits",        "k02_offset_zero_is_not_read_again"),
    ("test_start_from_explicit",                       "compat",         "start_from_explicit_offsets"),
    ("test_start_from_earliest",                       "compat",         "start_from_earliest"),
    ("test_start_from_latest",                         "commits",        "k19_latest_takes_the_first_message_after_the_start"),
    ("end_at_initial_offsets",                         "compat",         "end_at_initial_offsets"),
    ("schema_update_test",                             "commits",        "k17_a_column_added_while_we_run_is_filled_from_then_on"),
    ("when_both_workers_started_simultaneously",       "stores/workers", "when_both_workers_started_simultaneously"),
    ("when_rebalance_happens",                         "stores/workers", "when_rebalance_happens"),
    ("when_both_workers_started_simultaneously_azure", "stores/workers", "when_both_workers_started_simultaneously"),
    ("when_rebalance_happens_azure",                   "stores/workers", "when_rebalance_happens"),
];

#[test]
fn every_scenario_of_the_peer_is_a_test() {
    for (scenario, file, test) in SCENARIOS {
        let path = repository().join("tests/e2e").join(file).with_extension("rs");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // What stands behind the attribute on its line is why it is there.
        let is_test = text.split("#[test]").any(|after| {
            let name = after.split_once('\n').and_then(|(_, rest)| rest.strip_prefix("fn "));
            name.and_then(|rest| rest.split('(').next()) == Some(test)
        });
        assert!(is_test, "{scenario}: no test {test} in {file}.rs");
    }
    let names: BTreeSet<_> = SCENARIOS.iter().map(|(scenario, ..)| scenario).collect();
    assert_eq!(names.len(), SCENARIOS.len(), "each once");
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

/// The one record of the peer's tests of formats, written so, is one row.
fn one_row(value: Vec<u8>, options: &[&str]) {
    let schema = json!({"type": "struct", "fields": [
        field("name", "string", true), field("id", "integer", true), field("date", "string", true),
    ]});
    let (topic, table) = (topic(1), Table::made(&schema, &["date"], &json!({})));
    topic.produce([Message::new(value).to(0)]);
    let running = Ingest::new(&topic, &table).with(&["-l", "5", "-m", "1", "-b", "1000000"]).with(options).start();
    table.wait_rows(1);
    running.stop();
    assert_eq!(table.query("select * from t"), [record()], "{options:?}");
}

fn record() -> Value {
    json!({"name": "test", "id": 1, "date": "2023-06-30"})
}

#[test]
fn json_by_default() {
    one_row(record().to_string().into_bytes(), &[]);
}

/// Whatever is no address of a registry means plain JSON.
#[test]
fn json_with_args() {
    for value in ["", "schema.json"] {
        one_row(record().to_string().into_bytes(), &["--json", value]);
    }
}

#[test]
fn avro_by_default() {
    one_row(container(Codec::Null, [1]), &["--avro", ""]);
}

#[test]
fn avro_with_file() {
    one_row(container(Codec::Null, [1]), &["--avro", &schema_file().display().to_string()]);
}

#[test]
fn avro_single_objects_with_file() {
    one_row(single_object(1), &["--soe-avro", &schema_file().display().to_string()]);
}

/// There a list that is null breaks its batch, and the two messages with one are dead letters; here they are rows.
#[test]
fn dead_letters() {
    let list = r#"{"type":"array","elementType":{"type":"struct","fields":[
        {"name":"value","type":"string","nullable":true,"metadata":{}}]},"containsNull":true}"#;
    let columns = [("value", "string"), ("a_list_of_structs", list), ("date", "string")];
    let letter = [
        ("base64_bytes", "string"),
        ("json_string", "string"),
        ("error", "string"),
        ("timestamp", "timestamp"),
        ("date", "string"),
    ];
    let (topic, table, dead) = (topic(3), Table::new(&columns, &["date"]), Table::new(&letter, &["date"]));
    let good = || json!({"value": "good", "a_list_of_structs": [{"value": "abc"}], "date": "2021-01-01"});
    let null = || json!({"value": "bad-null_struct", "a_list_of_structs": null, "date": "2021-01-01"});
    let send = |values: Vec<Value>| {
        topic.produce(values.into_iter().map(|value| Message::new(value.to_string())));
    };
    let location = dead.path.display().to_string();
    let date = "date: substr(epoch_micros_to_iso8601(timestamp),`0`,`10`)";
    let options = ["--dlq_table_location", &location, "--dlq_transform", date, "-l", "5", "-m", "6", "-b", "20"];
    let running = Ingest::new(&topic, &table).with(&options).start();
    send(vec![good(), good(), null(), null(), good(), good()]);
    table.wait_rows(6);
    topic.produce([Message::new("bad bytes")]);
    dead.wait_rows(1);
    send((0..6).map(|_| good()).collect());
    table.wait_rows(12);
    running.stop();
    let letters = dead.query("select base64_bytes, json_string, error, date, length(date) as long from t");
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!((&letters[0]["base64_bytes"], &letters[0]["json_string"]), (&json!("YmFkIGJ5dGVz"), &Value::Null));
    assert!(letters[0]["date"].as_str().is_some_and(|date| date.starts_with("20")), "{letters:?}");
    assert_eq!(letters[0]["long"], json!(10));
    let nulls = table.query("select count(*) as n from t where a_list_of_structs is null");
    assert_eq!(nulls, [json!({"n": 2})]);
}

#[test]
fn partitions_with_a_null_and_a_checkpoint() {
    let columns = json!({"type": "struct", "fields": [field("id", "integer", true), field("color", "string", true)]});
    let table = Table::made(&columns, &["color"], &json!({"delta.checkpointInterval": "1"}));
    let color = |id: i32| match id {
        1 | 2 | 4 | 6 => json!("red"),
        9 => json!(null),
        _ => json!("blue"),
    };
    let topic = topic(1);
    topic.produce((1..=9).map(|id| Message::new(json!({"id": id, "color": color(id)}).to_string()).to(0)));
    Ingest::new(&topic, &table).with(&["-m", "5", "-b", "1000000"]).run_to_end();
    let mut found: Vec<_> = table
        .actions("add")
        .iter()
        .map(|(_, add)| {
            let stats: Value = serde_json::from_str(add["stats"].as_str().expect("statistics")).expect("JSON");
            let folder = add["path"].as_str().and_then(|path| path.split('/').next()).expect("a folder").to_owned();
            (folder, stats["numRecords"].clone(), stats["minValues"]["id"].clone(), stats["maxValues"]["id"].clone())
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("color=__HIVE_DEFAULT_PARTITION__", 1, 9, 9), ("color=blue", 4, 3, 8), ("color=red", 4, 1, 6)];
    assert_eq!(found, expected.map(|(folder, n, min, max)| (folder.to_owned(), json!(n), json!(min), json!(max))));
    // Readers begin at the checkpoint: what was before it may go.
    let log = table.path.join("_delta_log");
    assert!(log.join("00000000000000000001.checkpoint.parquet").exists(), "no checkpoint");
    std::fs::remove_file(log.join("00000000000000000000.json")).expect("remove a version");
    let rows = table.query("select color, count(*) as n from t group by color");
    let rows: BTreeSet<_> = rows.iter().map(ToString::to_string).collect();
    let expected = [json!({"color": "red", "n": 4}), json!({"color": "blue", "n": 4}), json!({"color": null, "n": 1})];
    assert_eq!(rows, expected.iter().map(ToString::to_string).collect());
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

#[test]
fn end_at_initial_offsets() {
    let (topic, table) = (topic(3), Table::t());
    topic.produce(ids(0..15, 3));
    let running = Ingest::new(&topic, &table).with(&["-l", "5", "-m", "20", "-b", "20", "-e"]).start();
    table.wait_version(1);
    topic.produce(ids(16..31, 3));
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert_eq!((table.version(), table.ids()), (Some(1), (0..15).collect::<Vec<_>>()));
}
