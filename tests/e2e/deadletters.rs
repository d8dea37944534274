//! Dead letters of `ingest`: what one says, that each is there once whatever dies, and what `verify` says of them.

use std::collections::BTreeMap;

use lakeward_testkit::Message;
use serde_json::{Value, json};

use crate::ingest::{Ended, Ingest, run};
use crate::table::{T, Table, field};
use crate::{ids, json as messages, repository, topic};

/// The peer's table of dead letters.
const PEERS: &[(&str, &str)] = &[
    ("base64_bytes", "string"),
    ("json_string", "string"),
    ("error", "string"),
    ("timestamp", "timestamp"),
    ("date", "string"),
];

const DATE: &str = "date: substr(epoch_micros_to_iso8601(timestamp), `0`, `10`)";

fn path(table: &Table) -> String {
    table.path.display().to_string()
}

/// Options of an ingest with a table of dead letters.
fn into(letters: &Table) -> [String; 2] {
    ["--dlq_table_location".to_owned(), path(letters)]
}

trait WithLetters {
    fn letters(self, letters: &Table) -> Self;
}

impl WithLetters for Ingest {
    fn letters(self, letters: &Table) -> Self {
        let [option, location] = into(letters);
        self.with(&[&option, &location])
    }
}

/// Letters by partition and offset, without what differs from run to run.
fn letters(table: &Table) -> Vec<Value> {
    let mut rows = table.query("select * from t");
    rows.sort_by_key(|row| (row["partition"].as_i64(), row["offset"].as_i64()));
    rows.into_iter()
        .map(|mut row| {
            assert!(row["timestamp"].as_i64().is_some_and(|micros| micros > 1_700_000_000_000_000), "{row}");
            row.as_object_mut().expect("a row").remove("timestamp");
            row
        })
        .collect()
}

fn verified(table: &Table) -> Ended {
    let ended = run(&["verify", &path(table)]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    ended
}

fn bad(number: impl IntoIterator<Item = i64>) -> Vec<Message> {
    number.into_iter().map(|n| Message::new(format!("bad {n}")).to(0)).collect()
}

#[test]
fn k37_the_peers_columns_are_filled_as_the_peer_fills_them() {
    let (topic, table, dead) = (topic(1), Table::t(), Table::new(PEERS, &["date"]));
    topic.produce(ids(0..2, 1));
    topic.produce([
        Message::new("bad bytes").to(0),
        Message::new("[1]").to(0),
        Message::new(r#"{"id": "abc",  "n":1}"#).to(0),
    ]);
    topic.produce(ids(2..4, 1));
    Ingest::new(&topic, &table).letters(&dead).with(&["--dlq_transform", DATE]).run_to_end();
    assert_eq!(table.ids(), [0, 1, 2, 3]);
    assert_eq!(table.txns()["app-0"], 6);
    let mut rows = dead.query("select base64_bytes, json_string, error, date, timestamp from t");
    rows.sort_by_key(|row| row["json_string"].to_string());
    let values: Vec<_> = rows.iter().map(|row| (row["base64_bytes"].clone(), row["json_string"].clone())).collect();
    assert_eq!(
        values,
        [
            (Value::Null, json!("[1]")),
            (Value::Null, json!(r#"{"id": "abc",  "n":1}"#)),
            (json!("YmFkIGJ5dGVz"), Value::Null),
        ]
    );
    let today = dead.query("select distinct date from t");
    assert_eq!(today.len(), 1, "{today:?}");
    assert!(today[0]["date"].as_str().is_some_and(|date| date.len() == 10 && date.starts_with("20")), "{today:?}");
    assert!(rows.iter().all(|row| row["error"].as_str().is_some_and(|text| !text.is_empty())), "{rows:?}");
    let (_, add) = dead.actions("add").pop().expect("an add");
    assert!(add["path"].as_str().expect("a path").starts_with("date=20"), "{add}");
}

#[test]
fn a_table_that_is_made_has_all_that_is_known_of_a_letter() {
    let (topic, table, dead) = (topic(1), Table::t(), Table::absent());
    topic.produce([
        Message::new(b"\xff\x00{".to_vec())
            .key(b"k\xfe".to_vec())
            .header("a", b"1".to_vec())
            .header("b", b"\xff".to_vec())
            .header("a", Vec::new())
            .at(1_700_000_000_123)
            .to(0),
        Message::new(r#"{"id":1}"#).to(0),
        Message::tombstone().key("gone").to(0),
        Message::new(r#"{"id":true}"#).at(1_700_000_000_124).to(0),
    ]);
    Ingest::new(&topic, &table)
        .letters(&dead)
        .with(&["--create", "--dlq-transform", "hour: substr(epoch_micros_to_iso8601(kafka_timestamp), `11`, `2`)"])
        .run_to_end();
    let hex = |hex: &str| json!({ "hex": hex });
    let header = |key: &str, value: &str| json!({"key": key, "value": hex(value)});
    let name = topic.name();
    assert_eq!(
        letters(&dead),
        [
            json!({"base64_bytes": "/wB7", "json_string": null, "error": "not UTF-8 at byte 0", "error_kind": "not_json",
                "topic": name, "partition": 0, "offset": 0, "kafka_timestamp": 1_700_000_000_123_000_i64,
                "key": hex("6bfe"), "headers": [header("a", "31"), header("b", "ff"), header("a", "")],
                "app_id": "app", "hour": "22"}),
            json!({"base64_bytes": null, "json_string": r#"{"id":true}"#,
                "error": letters(&dead)[1]["error"], "error_kind": "wrong_type",
                "topic": name, "partition": 0, "offset": 3, "kafka_timestamp": 1_700_000_000_124_000_i64,
                "key": null, "headers": [], "app_id": "app", "hour": "22"}),
        ]
    );
    assert_eq!(table.ids(), [1]);
    let text = verified(&table).log;
    assert!(text.contains("dead letters: 2 in ") && text.contains("1 rows, 0 lost, 0 twice"), "{text}");
    verified(&dead);
    // A restart makes nothing anew, and goes on.
    topic.produce(bad([7]));
    Ingest::new(&topic, &table).letters(&dead).with(&["--create"]).run_to_end();
    assert_eq!(letters(&dead).len(), 3);
    verified(&table);
}

/// K26, K28, K31, K32, K38, P08: what can't be a row is a letter with its reason, and its neighbours are rows.
#[test]
fn k26_k28_k31_k32_k38_p08_each_kind_of_bad_message_is_a_letter() {
    let schema = json!({"type": "struct", "fields": [
        field("id", "long", false), field("n", "integer", true), field("ts", "timestamp", true),
        field("date", "string", true),
    ]});
    let deep = format!(r#"{{"id":1,"x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    #[rustfmt::skip] // columns: the message, the letter's kind, whether it stands as JSON
    let cases: Vec<(String, &str, bool)> = vec![
        ("[1]".into(),                            "not_an_object",    true),
        (r#""x""#.into(),                         "not_an_object",    true),
        ("1".into(),                              "not_an_object",    true),
        ("null".into(),                           "not_an_object",    true),
        (r#"{"a":1}{"b":2}"#.into(),              "not_json",         false),
        ("bad bytes".into(),                      "not_json",         false),
        (String::new(),                           "not_json",         false),
        (deep,                                    "not_json",         false),
        (r#"{"id":"abc","d":"x"}"#.into(),        "wrong_type",       true),
        (r#"{"id":1,"n":true,"d":"x"}"#.into(),   "wrong_type",       true),
        (r#"{"id":1,"n":[1],"d":"x"}"#.into(),    "wrong_type",       true),
        (r#"{"id":1,"n":3000000000,"d":"x"}"#.into(), "does_not_fit", true),
        (r#"{"id":1,"ts":"nope","d":"x"}"#.into(), "wrong_type",      true),
        (r#"{"n":1,"d":"x"}"#.into(),             "null_in_not_null", true),
        (r#"{"id":1}"#.into(),                    "transform",        true),
    ];
    let (topic, table, dead) = (topic(1), Table::made(&schema, &[], &json!({})), Table::absent());
    let good = |id: usize| Message::new(json!({"id": id, "d": "2024-01-01T00"}).to_string()).to(0);
    for (at, (text, ..)) in cases.iter().enumerate() {
        topic.produce([good(at), Message::new(text.clone()).to(0)]);
    }
    let options = ["--create", "-t", "date: substr(d, `0`, `10`)"];
    Ingest::new(&topic, &table).letters(&dead).with(&options).run_to_end();
    assert_eq!(table.ids(), (0..i64::try_from(cases.len()).expect("few")).collect::<Vec<_>>());
    let found = letters(&dead);
    assert_eq!(found.len(), cases.len(), "{found:?}");
    for (at, ((text, kind, as_json), letter)) in cases.iter().zip(&found).enumerate() {
        assert_eq!(letter["offset"], json!(2 * at + 1), "{letter}");
        assert_eq!(letter["error_kind"], json!(kind), "{letter}");
        let (value, other) = if *as_json { ("json_string", "base64_bytes") } else { ("base64_bytes", "json_string") };
        assert!(letter[other].is_null() && !letter[value].is_null(), "{letter}");
        if *as_json {
            assert_eq!(letter[value], json!(text), "exactly as it came");
        }
    }
    verified(&table);
}

#[test]
fn k34_a_partition_of_nothing_but_bad_messages_goes_on() {
    let (topic, table, dead) = (topic(1), Table::t(), Table::new(PEERS, &[]));
    topic.produce(bad(0..100));
    let ingest = Ingest::new(&topic, &table).letters(&dead);
    for _ in 0..3 {
        ingest.run_to_end();
    }
    assert_eq!(dead.rows(), 100);
    assert_eq!((table.txns()["app-0"], dead.txns()["app-0"]), (99, 99));
    assert_eq!(table.rows(), 0);
    verified(&table);
}

#[test]
fn k35_letters_of_one_span_are_one_commit() {
    let (topic, table, dead) = (topic(2), Table::t(), Table::new(PEERS, &[]));
    topic.produce(bad(0..10_000));
    topic.produce((0..100).map(|id| Message::new(format!(r#"{{"id":{id}}}"#)).to(1)));
    let options = ["-m", "5000", "-b", "134217728", "-l", "60"];
    Ingest::new(&topic, &table).letters(&dead).with(&options).run_to_end();
    assert_eq!((dead.rows(), table.rows()), (10_000, 100));
    assert!(dead.version() <= Some(3), "{:?} versions", dead.version());
    verified(&table);
}

/// The places between the commit of rows and that of their letters, and around them.
const CRASHES: [&str; 9] = [
    "before-put:1",
    "after-put:1",  // the rows are there
    "before-put:2", // their letters are compared
    "after-put:2",  // and there
    "before-announce:1",
    "before-tend:1",
    "after-tend:2",
    "before-put:4", // the second span's letters
    "after-put:4",
];

#[test]
fn kills_between_rows_and_letters_lose_and_repeat_nothing() {
    for crash in CRASHES {
        let (topic, table, dead) = (topic(1), Table::t(), Table::new(PEERS, &[]));
        let mixed =
            |from: i64| (from..from + 10).flat_map(|id| [ids([id], 1), bad([id])]).flatten().collect::<Vec<_>>();
        topic.produce(mixed(0));
        let ingest = Ingest::new(&topic, &table).letters(&dead).with(&["-l", "1", "-m", "4", "-b", "1"]);
        let mut running = ingest.clone().env("LAKEWARD_CRASH_AT", crash).start();
        let killed = loop {
            if let Some(ended) = running.wait_within(std::time::Duration::from_millis(500)) {
                break ended;
            }
            topic.produce(mixed(100));
        };
        assert_eq!(killed.signal, Some(libc::SIGKILL), "{crash}: {}", killed.log);
        if crash == "after-put:1" {
            assert!(table.rows() > 0 && dead.rows() == 0, "the rows are there, their letters are not");
            let owed = verified(&table).log;
            assert!(owed.contains("dead letters of") && owed.contains("are owed"), "{owed}");
        }
        ingest.run_to_end();
        let produced = i64::try_from(topic.read_committed().len()).expect("few");
        assert_eq!(table.txns()["app-0"], produced - 1, "{crash}");
        assert_eq!(i64::try_from(table.rows() + dead.rows()).expect("few"), produced, "{crash}");
        assert_eq!(table.rows(), dead.rows(), "{crash}");
        let text = verified(&table).log;
        assert!(!text.contains("owed") && text.contains(" 0 lost, 0 twice"), "{crash}: {text}");
        verified(&dead);
        let distinct = dead.query("select count(distinct base64_bytes) as n, count(*) as all_of_them from t");
        let rounds = dead.rows() / 10;
        assert!(rounds <= 1 || distinct[0]["n"].as_u64() >= Some(20), "{crash}: {distinct:?}");
    }
}

/// Letters that are owed and whose records are gone meanwhile (P9).
#[test]
fn p9_owed_letters_whose_records_are_gone_stop_the_job_or_are_written_down() {
    let (topic, table, dead) = (topic(1), Table::t(), Table::new(PEERS, &[]));
    topic.produce(bad(0..5));
    let ingest = Ingest::new(&topic, &table).letters(&dead);
    let killed = ingest.clone().env("LAKEWARD_CRASH_AT", "after-put:1").run();
    assert_eq!(killed.signal, Some(libc::SIGKILL), "{}", killed.log);
    topic.delete_records(0, 3);
    topic.produce(ids(10..12, 1));
    let stopped = ingest.clone().with(&["-e"]).run();
    assert_eq!(stopped.code, Some(65), "{}", stopped.log);
    assert!(
        stopped.log.contains("dead letters of offsets 0 to 4") && stopped.log.contains("--on-gap=skip"),
        "{}",
        stopped.log
    );
    assert_eq!((table.rows(), dead.rows()), (0, 0));
    ingest.clone().with(&["--on-gap", "skip"]).run_to_end();
    assert_eq!((table.ids(), dead.rows()), (vec![10, 11], 2));
    let text = verified(&table).log;
    assert!(text.contains("accepted") && text.contains("--on-gap=skip"), "{text}");
}

/// A new table of dead letters is owed nothing, and the old one keeps what it has.
#[test]
fn another_table_of_letters_begins_where_the_job_stands() {
    let (topic, table, dead, other) = (topic(1), Table::t(), Table::new(PEERS, &[]), Table::new(PEERS, &[]));
    topic.produce(bad(0..5));
    let ingest = Ingest::new(&topic, &table);
    ingest.clone().letters(&dead).run_to_end();
    topic.produce(bad(5..7));
    ingest.clone().letters(&other).run_to_end();
    topic.produce(bad(7..8));
    ingest.clone().letters(&dead).run_to_end();
    assert_eq!((dead.rows(), other.rows()), (6, 2));
    let text = verified(&table).log;
    assert!(text.contains("dead letters: 6 in ") && text.contains("dead letters: 2 in "), "{text}");
    assert!(run(&["status", &path(&table)]).log.contains("dead letters: 6 in "));
}

#[test]
fn what_does_not_fit_together_is_refused_before_anything_is_read() {
    let (topic, table, dead) = (topic(1), Table::t(), Table::new(PEERS, &[]));
    topic.produce(bad(0..1));
    let keyed = Table::new(&[("base64_bytes", "string"), ("key", "string")], &[]);
    let absent = Table::absent();
    #[rustfmt::skip] // columns: the table of letters, more options, exit code, a word
    let cases: [(&Table, &[&str], i32, &str); 6] = [
        (&dead,   &["--on-bad-record", "stop"],        2,  "leave one of them out"),
        (&dead,   &["--dlq_transform", "date: no("],   2,  "date"),
        (&table,  &[],                                 78, "is the table itself"),
        (&keyed,  &[],                                 78, "column key is Utf8"),
        (&absent, &[],                                 78, "--dlq_table_location"),
        (&dead,   &["--dlq_transform", "error: [1]"],  0,  ""),
    ];
    for (letters, options, code, word) in cases {
        let ended = Ingest::new(&topic, &table).letters(letters).with(options).with(&["-e"]).run();
        assert!(
            ended.code == Some(code) || code == 78 && ended.code == Some(69),
            "{options:?}: {:?} {}",
            ended.code,
            ended.log
        );
        assert!(ended.log.contains(word), "{options:?}: {}", ended.log);
    }
    // A transform that fails on a letter: it must not get lost.
    let (topic, table) = (crate::topic(1), Table::t());
    topic.produce(bad(0..1));
    let failing =
        Ingest::new(&topic, &table).letters(&dead).with(&["--dlq_transform", "date: substr(json_string, `0`, `1`)"]);
    let ended = failing.with(&["-e"]).run();
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    assert!(ended.log.contains("dead letter of offset 0") && ended.log.contains("--dlq_transform"), "{}", ended.log);
    assert_eq!(table.version(), Some(0), "nothing was committed");
}

/// A table that kafka-delta-ingest wrote, with its dead letters: taken over at exactly the next message.
#[test]
fn the_peers_dead_letters_are_taken_over() {
    let fixture = repository().join("tests/fixtures/deadletters");
    let (topic, table, dead) = (topic(1), Table::copied(&fixture.join("table")), Table::copied(&fixture.join("dlq")));
    let text = std::fs::read_to_string(fixture.join("messages.jsonl")).expect("the fixture's messages");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    topic.produce(lines.map(|line| Message::new(line["value"].as_str().expect("a value").to_owned()).to(0)));
    let (rows, letters) = (table.rows(), dead.rows());
    let last = table.txns()["web-0"];
    let behind = i64::try_from(topic.read_committed().len()).expect("few") - 1 - last;
    assert!((0..=1).contains(&behind), "the peer left at most its last bad message: {behind}");
    let ingest = Ingest::new(&topic, &table)
        .letters(&dead)
        .with(&["-a", "web", "--dlq_transform", DATE, "-t", "date: substr(meta.producer.timestamp, `0`, `10`)"])
        .with(&["-t", "kafka_offset: kafka.offset", "-t", "kafka_partition: kafka.partition"]);
    topic.produce(messages([
        json!({"status": 1}),
        json!({"meta": {"producer": {"timestamp": "2021-03-24T15:06:17.321710+00:00"}}, "uuid": "new"}),
    ]));
    ingest.run_to_end();
    let more = u64::try_from(behind).expect("not negative");
    assert_eq!((table.rows(), dead.rows()), (rows + 1, letters + 1 + more));
    let newest = dead.query("select json_string, error from t where json_string = '{\"status\":1}'");
    assert_eq!(newest.len(), 1, "{newest:?}");
    verified(&table);
}

/// The peer's test_dlq, whose lists of null are rows here.
#[test]
fn the_peers_scenario_of_dead_letters() {
    let list = r#"{"type":"array","elementType":{"type":"struct","fields":[{"name":"value","type":"string","nullable":true,"metadata":{}}]},"containsNull":true}"#;
    let schema = json!({"type": "struct", "fields": [
        field("value", "string", true), field("a_list_of_structs", list, true), field("date", "string", true),
    ]});
    let (topic, table, dead) = (topic(3), Table::made(&schema, &["date"], &json!({})), Table::new(PEERS, &["date"]));
    let good = |n: i64| json!({"value": n.to_string(), "a_list_of_structs": [{"value": "x"}], "date": "2020-01-01"});
    let null = |n: i64| json!({"value": n.to_string(), "a_list_of_structs": null, "date": "2020-01-01"});
    let all = [good(0), good(1), null(2), null(3), good(4), good(5)];
    let rest: Vec<_> = (6..12).map(good).collect();
    let to = |n: usize| i32::try_from(n % 3).expect("a partition");
    topic.produce(all.iter().enumerate().map(|(n, value)| Message::new(value.to_string()).to(to(n))));
    topic.produce([Message::new("bad bytes").to(1)]);
    topic.produce(rest.iter().enumerate().map(|(n, value)| Message::new(value.to_string()).to(to(n))));
    Ingest::new(&topic, &table).letters(&dead).with(&["--dlq_transform", DATE]).run_to_end();
    assert_eq!((table.rows(), dead.rows()), (12, 1));
    assert_eq!(dead.values("base64_bytes"), [json!("YmFkIGJ5dGVz")]);
    let by_partition: BTreeMap<_, _> = table.txns().into_iter().filter(|(txn, _)| !txn.contains("/dead")).collect();
    assert_eq!(by_partition.values().map(|last| last + 1).sum::<i64>(), 13);
    assert_eq!(T.len(), 8, "the default table is another");
}
