//! `check ingest` with other formats, a schema registry and a table of dead letters, on a real broker and registry: it
//! says what would be, ends with the exit code that the ingest would end with, and writes nothing.

use lakeward_testkit::{Broker, Message, Registry, Topic, framed};
use serde_json::json;

use crate::formats::{bare, schema_file};
use crate::ingest::{Ended, Ingest, run};
use crate::registry::{RECORD, answering, columns, record, to_0};
use crate::table::{T, Table, field};
use crate::topic;

fn path(table: &Table) -> String {
    table.path.display().to_string()
}

/// The check of an ingest, which joins no group.
fn check(topic: &Topic, table: &Table, options: &[&str]) -> Ended {
    let (brokers, group) = (Broker::shared().bootstrap(), Broker::shared().group());
    let first = ["check", "ingest", topic.name(), &path(table), "-k", brokers, "-a", "app", "-g", &group];
    let (commits, files) = (table.path.join("_delta_log").exists().then(|| table.commits()), table.files_on_disk());
    let ended = run(&[&first, options].concat());
    let after = table.path.join("_delta_log").exists().then(|| table.commits());
    assert_eq!((after, table.files_on_disk()), (commits, files), "something was written: {}", ended.log);
    assert_eq!(topic.committed(&group, 0), None, "the group was joined");
    ended
}

fn assert_says(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}", ended.log);
    for part in parts {
        assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
    }
}

#[test]
fn avro_by_a_registry_is_compared_with_the_table() {
    let (registry, topic) = (Registry::shared(), topic(1));
    let schema = json!({"type": "struct", "fields": [
        field("id", "integer", true), field("date", "string", true), field("who", "string", true),
        field("offset", "long", true), field("must", "string", false),
    ]});
    let table = Table::made(&schema, &["date"], &json!({}));
    let id = registry.register(&format!("{}-value", topic.name()), "AVRO", RECORD, &[]);
    let value = |n: u64| framed(id, &record(n, "test", "2023-06-30"));
    topic.produce(to_0([value(1), value(2), framed(id + 100_000, b"x"), value(3_000_000_000), framed(id, b"\x02")]));
    let options = ["--avro", registry.url(), "-t", "offset: kafka.offset", "-t", "must: name"];
    let said = [
        &format!("newest of subject {}-value: 3 fields", topic.name()),
        "without a column, dropped: name\n",
        // Transforms fill the others.
        "columns that it does not fill: who\n",
        "5 messages that would come first: 2 rows, 3 bad, 0 tombstones",
        "offset 2: the registry has no schema",
        "(unknown_schema)",
        "offset 3: id",
        "(does_not_fit)",
        "offset 4",
        "(malformed)",
        "nothing was written",
    ];
    assert_says(&check(&topic, &table, &options), 0, &said);
    let without = check(&topic, &table, &options[..4]);
    assert_says(&without, 0, &["columns that it does not fill: who, must (NOT NULL)\n", "0 rows, 5 bad"]);
    let strict = check(&topic, &table, &[&options[..], &["--on-bad-record=stop"]].concat());
    assert_says(&strict, 65, &["a bad message would stop it"]);
    // The ingest does as the check said.
    Ingest::new(&topic, &table).with(&options).run_to_end();
    assert_eq!(table.ids(), [1, 2]);
}

#[test]
fn a_registry_that_is_not_there_or_refuses_us_ends_a_check_at_once() {
    let (topic, table) = (topic(1), columns());
    topic.produce(to_0([framed(1, &record(1, "test", "2023-06-30"))]));
    let absent = Table::absent();
    #[rustfmt::skip] // columns: the registry, exit code, what is said
    let cases = [
        ("http://127.0.0.1:1".to_owned(),  75, "the schema registry does not answer"),
        (answering("503 Unavailable"),     75, "the schema registry does not answer"),
        (answering("401 Unauthorized"),    69, "SCHEMA_REGISTRY_USERNAME"),
    ];
    for (url, code, said) in cases {
        let create = ["--avro", &url, "--create"];
        for ended in [check(&topic, &table, &create[..2]), check(&topic, &absent, &create)] {
            assert_says(&ended, code, &[said]);
            assert!(!ended.log.contains("planted"), "{}", ended.log);
        }
    }
}

#[test]
fn a_registrys_schema_shows_the_table_that_would_be_made() {
    let (registry, topic, absent) = (Registry::shared(), topic(1), Table::absent());
    registry.register(&format!("{}-value", topic.name()), "AVRO", RECORD, &[]);
    let ended = check(&topic, &absent, &["--avro", registry.url(), "--create", "--partition-by", "date"]);
    assert_says(
        &ended,
        0,
        &["would be made, with schema", r#""name":"id""#, r#""type":"long""#, "nothing was written"],
    );
}

#[test]
fn schema_files_and_raw_records_are_compared_as_well() {
    let (topic, table, file) = (topic(1), columns(), schema_file().display().to_string());
    topic.produce(to_0([bare(1), bare(2)[1..].to_vec()]));
    let ended = check(&topic, &table, &["--avro", &file, "--avro-form", "bare"]);
    assert_says(&ended, 0, &[&format!("schema   --avro {file}: 3 fields\n"), "1 row, 1 bad", "(malformed)"]);

    let raw = Table::new(&[("value", "binary"), ("offset", "long"), ("note", "string")], &[]);
    let ended = check(&topic, &raw, &["--raw"]);
    let dropped = "without a column, dropped: key, headers, topic, partition, timestamp, timestampType\n";
    assert_says(&ended, 0, &["schema   --raw: 8 fields", dropped, "does not fill: note\n", "2 rows, 0 bad"]);
    let ended = check(&topic, &Table::new(&[("value", "long")], &[]), &["--raw"]);
    assert_says(&ended, 78, &["value"]);
    assert_says(&check(&topic, &Table::absent(), &["--raw", "--create"]), 0, &["would be made", "timestampType"]);
}

#[test]
fn the_table_of_dead_letters_is_looked_at_too() {
    let (topic, table, dead) = (topic(1), Table::t(), Table::absent());
    topic.produce([r#"{"id":1}"#, "no JSON", r#"{"id":true}"#].map(|text| Message::new(text).to(0)));
    let location = path(&dead);
    let with = |options: &[&str]| check(&topic, &table, &[&["--dlq_table_location", &location], options].concat());
    assert_says(&with(&[]), 69, &["--dlq_table_location: "]);
    assert_says(&with(&["--create"]), 0, &["letters", "would be made, with schema", "base64_bytes", "1 row, 2 bad"]);
    assert_eq!(std::fs::read_dir(&dead.path).expect("a folder").count(), 0, "nothing is there");
    assert_says(&with(&["--on-bad-record=stop"]), 2, &["--dlq_table_location"]);

    let odd = Table::new(&[("error", "string")], &[]);
    let ended = check(&topic, &table, &["--dlq_table_location", &path(&odd)]);
    assert_says(&ended, 78, &["no column base64_bytes"]);
    let ended = check(&topic, &table, &["--dlq_table_location", &path(&table)]);
    assert_says(&ended, 78, &["is the table itself"]);

    let letters = Table::new(&[("base64_bytes", "string"), ("json_string", "string"), ("kind", "string")], &[]);
    let into = path(&letters);
    let with = |transform| check(&topic, &table, &["--dlq_table_location", &into, "--dlq_transform", transform]);
    let ended = with("kind: error_kind");
    assert_says(&ended, 0, &[&format!("letters  {into}: there"), &format!("would be dead letters in {into}")]);
    // A transform that fails on a letter would stop the job, so it ends the check.
    assert_says(
        &with("kind: substr(json_string, `0`, `3`)"),
        78,
        &["dead letter of offset 1", "correct --dlq_transform"],
    );
    assert_eq!((letters.version(), letters.files_on_disk()), (Some(0), 0));
}

/// What no bad message shows: that all of T's columns are there, or are not.
#[test]
fn a_topic_without_messages_is_compared_by_its_schema_alone() {
    let (registry, topic, table) = (Registry::shared(), topic(1), Table::new(T, &["date"]));
    registry.register(&format!("{}-value", topic.name()), "AVRO", RECORD, &[]);
    let ended = check(&topic, &table, &["--avro", registry.url()]);
    assert_says(&ended, 0, &["does not fill: n, d, ok, ts, amt\n", "no message to look at"]);
}
