//! Messages to rows: coercions, transforms, and records that cannot become rows. The decoder's own tests
//! have the tables of values; here is what a user sees of the whole.

use lakeward_testkit::{Broker, Message};
use serde_json::{Value, json};

use crate::ingest::{Ended, Ingest};
use crate::table::{Table, field};
use crate::{json as messages, through, topic};

/// The topic's records that are not in the table must each be named in the log: partition and offset.
fn assert_names_offsets(ended: &Ended, offsets: &[i64]) {
    for offset in offsets {
        let named = ended.log.lines().any(|line| line.contains("WARN") && contains_number(line, *offset));
        assert!(named, "no warning names offset {offset}:\n{}", ended.log);
    }
}

fn contains_number(line: &str, number: i64) -> bool {
    line.split(|c: char| !c.is_ascii_digit()).any(|word| word == number.to_string())
}

#[test]
fn k23_an_object_in_a_string_column_is_its_json_text() {
    let table = Table::t();
    let values = [
        json!({"id": 1, "name": {"x": "x", "y": "y"}}),
        json!({"id": 2, "name": [1, 2.5, null]}),
        json!({"id": 3, "name": 12}),
        json!({"id": 4, "name": true}),
        json!({"id": 5, "name": null}),
    ];
    through(&table, messages(values), &[]);
    let rows = table.query("select id, name from t");
    let names: Vec<_> = rows.iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names, [json!(r#"{"x":"x","y":"y"}"#), json!("[1,2.5,null]"), json!("12"), json!("true"), json!(null)]);
}

const AT: i64 = 1_636_668_718_000_000; // 2021-11-11T22:11:58Z

#[test]
fn k25_k26_timestamps_in_all_their_forms() {
    let good = [
        json!("2021-11-11T22:11:58Z"),
        json!("2021-11-11T22:11:58+00:00"),
        json!("2021-11-11T22:11:58-00:00"),
        json!("2021-11-12T00:11:58+02:00"),
        json!("2021-11-11 22:11:58"),
        json!("2021-11-11T22:11:58.000000"),
        json!(AT),
    ];
    let bad = [json!("20211111T22115800Z"), json!("nope"), json!("1636668718000000"), json!(true), json!([AT])];
    let table = Table::t();
    let values = good.iter().chain(&bad).enumerate().map(|(id, ts)| json!({"id": id, "ts": ts}));
    let ended = through(&table, messages(values), &[]);
    let rows = table.query("select id, ts from t");
    let found: Vec<_> = rows.iter().map(|row| (row["id"].as_u64(), row["ts"].as_i64())).collect();
    let expected: Vec<_> = (0..7).map(|id| (Some(id), Some(AT))).collect();
    assert_eq!(found, expected);
    assert_names_offsets(&ended, &[7, 8, 9, 10, 11]);
}

#[test]
fn k28_wrong_types_are_set_aside_and_good_rows_are_not() {
    let (topic, table) = (topic(1), Table::t());
    let bad = [
        json!({"id": "abc"}),
        json!({"n": true}),
        json!({"n": [1]}),
        json!({"ok": "yes"}),
        json!({"n": 3_000_000_000_u64}),
    ];
    let good = (0..5).map(|id| json!({"id": id, "n": 1, "ok": true}));
    // good, bad, good, bad, ..
    topic.produce(messages(good.zip(bad).flat_map(|(good, bad)| [good, bad])));
    let running = Ingest::new(&topic, &table).start();
    table.wait_txn("app-0", 9);
    let ended = running.stop();
    assert_eq!(table.ids(), [0, 1, 2, 3, 4]);
    assert!(ended.log.contains(topic.name()), "{}", ended.log);
    assert_names_offsets(&ended, &[1, 3, 5, 7, 9]);

    // Nothing is read again, no record is reported twice.
    let again = Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.rows(), 5);
    assert!(!again.log.contains("WARN"), "{}", again.log);
}

#[test]
fn k28_on_bad_record_stop_ends_with_its_place() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(messages([json!({"id": 1}), json!({"id": 2}), json!({"id": "abc"}), json!({"id": 4})]));
    let stopping = Ingest::new(&topic, &table).with(&["--on-bad-record=stop", "-e"]);
    let ended = stopping.run();
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    for word in [topic.name(), "--on-bad-record", "id"] {
        assert!(ended.log.contains(word), "no {word} in:\n{}", ended.log);
    }
    assert!(ended.log.lines().any(|line| line.contains("lakeward:") && contains_number(line, 2)), "{}", ended.log);
    assert!(table.ids().iter().all(|id| *id < 3), "nothing behind it was committed: {:?}", table.ids());
    // With skip it goes on from there.
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), [1, 2, 4]);
}

#[test]
fn k29_numbers_in_text_and_fractions() {
    let table = Table::t();
    let values = [
        json!({"id": 1, "n": "12"}),
        json!({"id": 2, "d": "1.5"}),
        json!({"id": 3, "n": 1.9}),
        json!({"id": 4, "n": 2.0}),
    ];
    let ended = through(&table, messages(values), &[]);
    assert_eq!(
        table.query("select id, n, d from t"),
        [
            json!({"id": 1, "n": 12, "d": null}),
            json!({"id": 2, "n": null, "d": 1.5}),
            json!({"id": 4, "n": 2, "d": null}),
        ]
    );
    assert_names_offsets(&ended, &[2]);
}

#[test]
fn k31_p07_not_null_is_enforced() {
    let nested = r#"{"type":"struct","fields":[{"name":"id","type":"integer","nullable":false,"metadata":{}}]}"#;
    let fields = [field("id", "long", false), field("name", "string", true), field("before", nested, true)];
    let table = Table::made(&json!({"type": "struct", "fields": fields}), &[], &json!({}));
    let values = [
        json!({"id": 1, "name": "a", "before": null}),
        json!({"name": "x"}),
        json!({"id": null}),
        json!({"id": 4, "before": {"id": 7}}),
        json!({"id": 5, "before": {}}),
    ];
    let ended = through(&table, messages(values), &[]);
    assert_eq!(table.ids(), [1, 4]);
    assert_names_offsets(&ended, &[1, 2, 4]);
}

#[test]
fn k32_what_is_no_object_is_set_aside() {
    let (topic, table) = (topic(1), Table::t());
    let deep = format!(r#"{{"id":1,"x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let garbage: [&[u8]; 13] = [
        b"[1]",
        br#""x""#,
        b"1",
        b"null",
        br#"{"a":1}{"b":2}"#,
        b"bad bytes",
        b"",
        deep.as_bytes(),
        b"{",
        br#"{"id":1,}"#,
        b"{\"id\":1\xff}",
        br#"{"id":01}"#,
        br#"{"id":NaN}"#,
    ];
    let count = i64::try_from(garbage.len()).expect("few");
    topic.produce(garbage.iter().map(|value| Message::new(*value).to(0)));
    topic.produce(messages([json!({"id": 7})]));
    let ended = Ingest::new(&topic, &table).run_to_end();
    assert_eq!((table.ids(), table.txns()["app-0"]), (vec![7], count));
    // A flood is cut short in the log; the first ones stand there in full.
    assert_names_offsets(&ended, &(0..8).collect::<Vec<_>>());
}

#[test]
fn k34_a_partition_of_bad_records_alone_moves_on() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce((0..100).map(|_| Message::new("bad bytes").to(0)));
    for _ in 0..3 {
        Ingest::new(&topic, &table).run_to_end();
    }
    assert_eq!((table.txns()["app-0"], table.rows()), (99, 0));
    let txns = table.actions("txn").len();
    assert!(txns <= 11, "each once: {txns} commits");
}

#[test]
fn k35_ten_thousand_bad_records_are_few_commits_and_few_lines() {
    let (topic, table) = (topic(2), Table::t());
    topic.produce((0..10_000).map(|_| Message::new("bad bytes").to(0)));
    topic.produce((0..10).map(|id| Message::new(json!({"id": id}).to_string()).to(1)));
    let ended = Ingest::new(&topic, &table).with(&["-m", "5000"]).run_to_end();
    assert_eq!((table.rows(), table.txns()["app-0"], table.txns()["app-1"]), (10, 9999, 9));
    assert!(table.version() <= Some(6), "{:?}", table.version());
    let lines = ended.log.lines().filter(|line| line.contains("WARN")).count();
    assert!((1..1000).contains(&lines), "{lines} warnings");
}

#[test]
fn k38_substr_of_a_missing_field_makes_a_bad_record() {
    let table = Table::t();
    let values =
        [json!({"id": 1}), json!({"id": 2, "modified": "2024-05-06T07:08:09Z"}), json!({"id": 3, "modified": 5})];
    let ended = through(&table, messages(values), &["-t", "date: substr(modified,`0`,`10`)"]);
    assert_eq!(table.query("select id, date from t"), [json!({"id": 2, "date": "2024-05-06"})]);
    assert_names_offsets(&ended, &[0, 2]);
}

#[test]
fn k40_metadata_of_kafka_in_columns() {
    let columns = [
        ("id", "long"),
        ("o", "long"),
        ("p", "integer"),
        ("topic", "string"),
        ("at", "timestamp"),
        ("at_us", "long"),
        ("kind", "integer"),
    ];
    let (topic, table) = (topic(2), Table::new(&columns, &[]));
    topic.produce([Message::new(r#"{"id":1}"#).to(1), Message::new(r#"{"id":2}"#).to(1).at(1_626_823_098_519)]);
    let sources = [
        "o: kafka.offset",
        "p: kafka.partition",
        "topic: kafka.topic",
        "at: kafka.timestamp",
        "at_us: kafka.timestamp",
        "kind: kafka.timestamp_type",
    ];
    let options: Vec<_> = sources.iter().flat_map(|source| ["-t", source]).collect();
    Ingest::new(&topic, &table).with(&options).run_to_end();
    let micros = 1_626_823_098_519_000_i64;
    assert_eq!(
        table.query("select * from t where id = 2"),
        [json!({"id": 2, "o": 1, "p": 1, "topic": topic.name(), "at": micros, "at_us": micros, "kind": 0})]
    );
}

#[test]
fn k41_functions_of_epochs() {
    let columns =
        [("id", "long"), ("a", "string"), ("b", "string"), ("c", "string"), ("d", "long"), ("e", "timestamp")];
    let table = Table::new(&columns, &[]);
    let value =
        json!({"id": 1, "s": 1_626_823_098, "f": 1_626_823_098.519_95, "t": "1626823098", "ms": 1_732_279_537_028_i64});
    let transforms = [
        "a: epoch_seconds_to_iso8601(s)",
        "b: epoch_seconds_to_iso8601(f)",
        "c: epoch_seconds_to_iso8601(to_number(t))",
        "d: epoch_millis_to_micro(ms)",
        "e: epoch_millis_to_iso8601(ms)",
    ];
    let options: Vec<_> = transforms.iter().flat_map(|transform| ["-t", transform]).collect();
    through(&table, messages([value]), &options);
    let row = &table.query("select * from t")[0];
    for column in ["a", "b", "c"] {
        assert_eq!(row[column], json!("2021-07-20T23:18:18Z"), "{column}");
    }
    assert_eq!((&row["d"], &row["e"]), (&json!(1_732_279_537_028_000_i64), &json!(1_732_279_537_028_000_i64)));
}

#[test]
fn k43_transforms_see_the_original_message_alone() {
    for transforms in [["-t", "a: id", "-t", "b: a"], ["-t", "b: a", "-t", "a: id"]] {
        let table = Table::new(&[("id", "long"), ("a", "long"), ("b", "long")], &[]);
        through(&table, messages([json!({"id": 1})]), &transforms);
        assert_eq!(table.query("select * from t"), [json!({"id": 1, "a": 1, "b": null})]);
    }
}

/// K44, and the peer's test_json_default.
#[test]
fn k44_without_transforms() {
    let table = Table::t();
    through(
        &table,
        messages([json!({"name": "test", "id": 1, "date": "2023-06-30", "unknown": {"dropped": 1}})]),
        &["-m", "1"],
    );
    assert_eq!(table.query("select id, name, date from t"), [json!({"id": 1, "name": "test", "date": "2023-06-30"})]);
}

#[test]
fn k88_duplicate_keys_invalid_utf8_and_byte_order_marks() {
    let (topic, table) = (topic(1), Table::t());
    let values: [&[u8]; 4] =
        [br#"{"id":1,"id":2}"#, b"{\"id\":3,\"name\":\"\xff\"}", b"\xef\xbb\xbf{\"id\":4}", br#"{"id":5}"#];
    topic.produce(values.iter().map(|value| Message::new(*value).to(0)));
    let ended = Ingest::new(&topic, &table).run_to_end();
    let ids = table.ids();
    assert!(ids == [2, 5] || ids == [2, 4, 5], "{ids:?}");
    assert_names_offsets(&ended, &[1]);
}

#[test]
fn p05_tombstones_are_skipped_and_covered() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce([
        Message::new(r#"{"id":1}"#).key("k").to(0),
        Message::tombstone().key("k").to(0),
        Message::tombstone().to(0),
        Message::new(r#"{"id":2}"#).key("k").to(0),
        Message::tombstone().key("k").to(0),
    ]);
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!((table.ids(), table.txns()["app-0"]), (vec![1, 2], 4));
}

#[test]
fn p08_p10_p13_p14_shapes_and_names_that_change() {
    let inner = r#"{"type":"struct","fields":[{"name":"a","type":"integer","nullable":true,"metadata":{}}]}"#;
    let long = "c".repeat(200);
    let columns = [
        ("id", "long"),
        ("f", "long"),
        ("arm", inner),
        ("a-b", "string"),
        ("ñ", "string"),
        ("_id", "string"),
        (long.as_str(), "string"),
    ];
    let table = Table::new(&columns, &[]);
    let values = [
        json!({"id": 1, "f": 1, "arm": {}}),
        json!({"id": 2, "f": [1], "arm": {"a": 1}}),
        json!({"id": 3, "f": true}),
        json!({"id": 4, "arm": {"a": 1}, "a-b": "1", "ñ": "2", "_id": "3", long.as_str(): "4"}),
    ];
    let ended = through(&table, messages(values), &[]);
    assert_eq!(table.ids(), [1, 4]);
    assert_names_offsets(&ended, &[1, 2]);
    let row =
        &table.query(&format!("select \"a-b\" as w, \"ñ\" as x, \"_id\" as y, \"{long}\" as z from t where id = 4"))[0];
    assert_eq!(row, &json!({"w": "1", "x": "2", "y": "3", "z": "4"}));
}

#[test]
fn p34_timestamps_in_the_wrong_unit_do_no_harm() {
    let settings = [
        ("message.timestamp.after.max.ms", "9223372036854775807"),
        ("message.timestamp.before.max.ms", "9223372036854775807"),
    ];
    let topic = Broker::shared().topic_with("future", 1, &settings);
    let table = Table::new(&[("id", "long"), ("at_us", "long")], &[]);
    let micros_as_millis = 1_700_000_000_000_000;
    topic.produce([
        Message::new(r#"{"id":1}"#).to(0).at(micros_as_millis),
        Message::new(r#"{"id":2}"#).to(0).at(i64::MAX / 2),
        Message::new(r#"{"id":3}"#).to(0).at(1),
    ]);
    Ingest::new(&topic, &table).with(&["-t", "at_us: kafka.timestamp"]).run_to_end();
    assert_eq!(table.txns()["app-0"], 2);
    let rows = table.query("select id, at_us from t");
    let at = |id: i64| rows.iter().find(|row| row["id"] == json!(id)).map(|row| row["at_us"].clone());
    assert_eq!((at(1), at(3)), (Some(json!(micros_as_millis * 1000)), Some(json!(1000))));
    assert!(matches!(at(2), None | Some(Value::Null)), "beyond what microseconds can hold: {:?}", at(2));
}

#[test]
fn p37_integers_and_floats_as_json_spells_them() {
    for kind in ["long", "double"] {
        let table = Table::new(&[("id", "long"), ("v", kind)], &[]);
        let texts = [r#"{"id":1,"v":1}"#, r#"{"id":2,"v":1.0}"#, r#"{"id":3,"v":1e3}"#, r#"{"id":4,"v":-0}"#];
        through(&table, texts.iter().map(|text| Message::new(*text).to(0)).collect(), &[]);
        let values: Vec<_> = table.query("select id, v from t").iter().map(|row| row["v"].as_f64()).collect();
        assert_eq!(values, [Some(1.0), Some(1.0), Some(1000.0), Some(0.0)], "{kind}");
    }
}

#[test]
fn p32_dates_far_away_are_stored() {
    let table = Table::new(&[("id", "long"), ("ts", "timestamp"), ("day", "date")], &[]);
    through(&table, messages([json!({"id": 1, "ts": "2262-04-13T00:00:00Z", "day": "9999-12-31"})]), &[]);
    let row = &table.query("select ts, day from t")[0];
    assert_eq!((&row["ts"], &row["day"]), (&json!(9_223_459_200_000_000_i64), &json!("9999-12-31")));
}

#[test]
fn p56_messages_of_tens_of_megabytes() {
    let topic = Broker::shared().topic_with("large", 1, &[("max.message.bytes", "40000000")]);
    let table = Table::new(&[("id", "long"), ("text", "string"), ("size", "integer")], &[]);
    let message = |id: u32, size: usize| Message::new(format!(r#"{{"id":{id},"text":"{}"}}"#, "x".repeat(size))).to(0);
    topic.produce((0..20).map(|id| message(id, 10)));
    topic.produce([message(20, 10_000_000)]);
    topic.produce([message(21, 30_000_000)]);
    topic.produce((22..30).map(|id| message(id, 10)));
    Ingest::new(&topic, &table).with(&["--memory-mb", "256"]).run_to_end();
    assert_eq!(table.ids(), (0..30).collect::<Vec<_>>());
    let sizes = table.query("select id, length(text) as size from t where id in (20, 21)");
    assert_eq!(sizes, [json!({"id": 20, "size": 10_000_000}), json!({"id": 21, "size": 30_000_000})]);
}

/// Each type that Delta has, nested ones too, as two other readers see what we wrote.
#[test]
fn every_type_reads_back() {
    let list = r#"{"type":"array","elementType":"integer","containsNull":true}"#;
    let map = r#"{"type":"map","keyType":"string","valueType":"double","valueContainsNull":true}"#;
    let lists = r#"{"type":"array","elementType":{"type":"array","elementType":"string","containsNull":true},"containsNull":true}"#;
    let inner = r#"{"type":"struct","fields":[{"name":"a","type":"string","nullable":true,"metadata":{}}]}"#;
    let columns = [
        ("id", "long"),
        ("b", "byte"),
        ("s", "short"),
        ("i", "integer"),
        ("f", "float"),
        ("d", "double"),
        ("t", "string"),
        ("ok", "boolean"),
        ("day", "date"),
        ("ts", "timestamp"),
        ("amt", "decimal(38,10)"),
        ("list", list),
        ("map", map),
        ("lists", lists),
        ("inner", inner),
    ];
    let table = Table::new(&columns, &[]);
    let full = json!({"id": 1, "b": -128, "s": 32767, "i": -5, "f": 0.5, "d": 1e300, "t": "é\u{1F600}\n", "ok": false, "day": "2024-02-29",
        "ts": "2024-02-29T23:59:59.123456Z", "amt": "1234567890123456789012345678.0123456789", "list": [1, null, 3], "map": {"x": 1.5, "y": null},
        "lists": [["a"], [], null, ["b", null]], "inner": {"a": "z"}});
    through(&table, messages([full, json!({"id": 2})]), &[]);
    let row = &table.query("select * from t where id = 1")[0];
    let expected = json!({"id": 1, "b": -128, "s": 32767, "i": -5, "f": 0.5, "d": 1e300, "t": "é\u{1F600}\n", "ok": false, "day": "2024-02-29",
        "ts": 1_709_251_199_123_456_i64, "amt": "1234567890123456789012345678.0123456789", "list": [1, null, 3], "map": [["x", 1.5], ["y", null]],
        "lists": [["a"], [], null, ["b", null]], "inner": {"a": "z"}});
    assert_eq!(row, &expected);
    let nulls = &table.query("select * from t where id = 2")[0];
    assert!(columns.iter().skip(1).all(|(name, _)| nulls[name].is_null()), "{nulls}");
}
