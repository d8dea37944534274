//! Partition columns, their paths and values, and the statistics of files.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::ingest::Ingest;
use crate::table::{Table, field, stats};
use crate::{json as messages, reader, through, topic};

#[test]
fn k22_a_missing_and_a_null_partition_value_are_one_partition() {
    let table = Table::t();
    through(&table, messages([json!({"id": 1, "date": null}), json!({"id": 2})]), &[]);
    let adds = table.actions("add");
    assert!(adds.iter().all(|(_, add)| add["partitionValues"] == json!({"date": null})), "{adds:?}");
    assert!(
        adds.iter().all(|(_, add)| add["path"]
            .as_str()
            .is_some_and(|path| path.starts_with("date=__HIVE_DEFAULT_PARTITION__/"))),
        "{adds:?}"
    );
    assert_eq!(table.query("select id from t where date is null"), [json!({"id": 1}), json!({"id": 2})]);
}

#[test]
fn k47_p23_partition_columns_of_every_type() {
    #[rustfmt::skip] // columns: type, value in JSON, partitionValues' text, as readers give it
    let cases = [
        ("date",          json!("2024-01-31"),                 &["2024-01-31"][..],                     json!("2024-01-31")),
        ("boolean",       json!(true),                         &["true"],                               json!(true)),
        ("boolean",       json!(false),                        &["false"],                              json!(false)),
        ("double",        json!(1.5),                          &["1.5"],                                json!(1.5)),
        ("float",         json!(-0.25),                        &["-0.25"],                              json!(-0.25)),
        ("decimal(10,2)", json!("12.30"),                      &["12.30"],                              json!("12.30")),
        ("integer",       json!(-7),                           &["-7"],                                 json!(-7)),
        ("long",          json!(9_007_199_254_740_993_i64),    &["9007199254740993"],                   json!(9_007_199_254_740_993_i64)),
        ("timestamp",     json!("2024-01-31T01:02:03.456789Z"),&["2024-01-31T01:02:03.456789Z", "2024-01-31 01:02:03.456789"],
                                                                                                        json!(1_706_662_923_456_789_i64)),
    ];
    for (kind, value, texts, read) in cases {
        let table = Table::new(&[("id", "long"), ("p", kind)], &["p"]);
        through(&table, messages([json!({"id": 1, "p": value}), json!({"id": 2, "p": null})]), &[]);
        let adds = table.actions("add");
        let found: Vec<_> = adds.iter().map(|(_, add)| add["partitionValues"]["p"].clone()).collect();
        assert!(
            found.contains(&Value::Null) && texts.iter().any(|text| found.contains(&json!(text))),
            "{kind}: {found:?}"
        );
        assert_eq!(
            table.query("select id, p from t"),
            [json!({"id": 1, "p": read}), json!({"id": 2, "p": null})],
            "{kind}"
        );
    }
}

#[test]
fn k49_null_partitions_in_checkpoints() {
    let (topic, table) = (topic(1), Table::t());
    let row = |id: i64| if id % 2 == 0 { json!({"id": id, "date": "2024-01-01"}) } else { json!({"id": id}) };
    topic.produce(messages((0..120).map(row)));
    Ingest::new(&topic, &table).with(&["-c"]).run_to_end();
    assert!(table.version() >= Some(10), "{:?}", table.version());
    let checkpoint = table.path.join("_delta_log/00000000000000000010.checkpoint.parquet");
    assert!(checkpoint.exists(), "{:?}", table.version());
    // What stands in the checkpoint must stand there alone.
    for version in 0..=9 {
        std::fs::remove_file(table.path.join(format!("_delta_log/{version:020}.json"))).expect("remove a commit");
    }
    table.ask(json!({"do": "checkpoints"}));
    assert_eq!(table.query("select count(*) as n from t where date is null"), [json!({"n": 60})]);
    assert_eq!(table.ids(), (0..120).collect::<Vec<_>>());
    // And we read our own.
    topic.produce(messages((120..130).map(row)));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), (0..130).collect::<Vec<_>>());
}

/// A value that Delta's log has no text for harms its own row alone: with `skip` those beside it are written, with
/// `stop` the first one is named, and nothing behind it is committed.
#[test]
fn rows_whose_partition_value_cant_be_written_are_bad_records() {
    #[rustfmt::skip] // columns: type, nullable, values of which those at 1 and 3 can't be written, the reason given
    let cases = [
        ("string",    false, [json!("a"), json!(""), json!("b"), json!(""), json!("a")],                      "the column is NOT NULL"),
        ("date",      true,  [json!("2024-01-31"), json!(2_932_897), json!(0), json!(-719_163), json!(null)], "the years 1 to 9999"),
        ("timestamp", true,  [json!(0), json!(i64::MAX), json!(1), json!(i64::MIN), json!(null)],             "the years 1 to 9999"),
        ("binary",    true,  [json!("61"), json!("ff"), json!("62"), json!("c3"), json!(null)],               "not UTF-8"),
    ];
    for (kind, nullable, values, reason) in cases {
        let fields = [field("id", "long", true), field("p", kind, nullable)];
        let new_table = || Table::made(&json!({"type": "struct", "fields": fields}), &["p"], &json!({}));
        let topic = topic(1);
        topic.produce(messages(values.iter().enumerate().map(|(id, value)| json!({"id": id, "p": value}))));

        let table = new_table();
        let skip =
            |table: &Table| Ingest::new(&topic, table).with(&["--on-bad-record=skip", "-m", "5000"]).run_to_end();
        let ended = skip(&table);
        assert_eq!((table.ids(), table.txns()["app-0"]), (vec![0, 2, 4], 4), "{kind}: {}", ended.log);
        let warned: Vec<_> = ended.log.lines().filter(|line| line.contains("bad record left out")).collect();
        assert_eq!(warned.len(), 2, "{kind}: {}", ended.log);
        for (line, offset) in warned.iter().zip([1, 3]) {
            for word in [&format!("offset={offset} "), reason, "does_not_fit", topic.name()] {
                assert!(line.contains(word), "{kind}: no {word} in {line}");
            }
        }
        let spans: Vec<_> =
            table.actions("commitInfo").into_iter().map(|(_, info)| info["lakeward"]["spans"].clone()).collect();
        let told = json!([{"partition": 0, "from": 0, "to": 5, "records": 5, "rows": 3, "bad": 2, "tombstones": 0}]);
        assert_eq!(spans, [told], "{kind}");

        let table = new_table();
        let ended = Ingest::new(&topic, &table).with(&["--on-bad-record=stop", "-m", "5000", "-e"]).run();
        assert_eq!(ended.code, Some(65), "{kind}: {}", ended.log);
        let last = ended.log.lines().find(|line| line.starts_with("lakeward: ")).expect("the reason of the end");
        for word in [topic.name(), "offset 1:", reason, "--on-bad-record"] {
            assert!(last.contains(word), "{kind}: no {word} in {last}");
        }
        assert!(table.ids().iter().all(|id| *id < 1), "{kind}: nothing behind it is committed: {:?}", table.ids());
        skip(&table);
        assert_eq!(table.ids(), [0, 2, 4], "{kind}: goes on from there");
    }
}

/// The peer's test_delta_partitions.
#[test]
fn k50_statistics_of_each_partitions_file() {
    let table = Table::new(&[("id", "integer"), ("color", "string")], &["color"]);
    let color = |id: i32| match id {
        1 | 2 | 4 | 6 => json!("red"),
        9 => json!(null),
        _ => json!("blue"),
    };
    through(&table, messages((1..=9).map(|id| json!({"id": id, "color": color(id)}))), &["-m", "5000"]);
    let mut found: Vec<_> = table
        .actions("add")
        .iter()
        .map(|(_, add)| {
            let stats = stats(add);
            let folder = add["path"].as_str().and_then(|path| path.split('/').next()).expect("a folder").to_owned();
            (folder, stats["numRecords"].clone(), stats["minValues"]["id"].clone(), stats["maxValues"]["id"].clone())
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("color=__HIVE_DEFAULT_PARTITION__", 1, 9, 9), ("color=blue", 4, 3, 8), ("color=red", 4, 1, 6)];
    assert_eq!(found, expected.map(|(folder, n, min, max)| (folder.to_owned(), json!(n), json!(min), json!(max))));
}

#[test]
fn p19_p20_p22_partition_values_are_escaped_once() {
    let printable = (32..127).map(|byte| format!("a{}b", char::from(byte)));
    let known = [
        "a%b",
        "US%2FEast",
        "100%2525",
        "a?",
        "x:y",
        "x/y",
        "A/A",
        "B B",
        "a//b",
        "a/",
        "/a",
        "line\nbreak",
        "é",
        "日本",
        " x ",
        "..",
        "%",
    ];
    let values: Vec<_> = printable.chain(known.map(str::to_owned)).collect();
    let table = Table::new(&[("id", "long"), ("p", "string")], &["p"]);
    let rows = values.iter().enumerate().map(|(id, value)| json!({"id": id, "p": value}));
    through(&table, messages(rows), &["-m", "5000"]);
    for engine in ["deltalake", "duckdb"] {
        let rows = reader::query_with(&table.path, "select id, p from t", &[engine]);
        let found: BTreeSet<_> =
            rows.iter().map(|row| (row["id"].as_u64(), row["p"].as_str().map(str::to_owned))).collect();
        let expected: BTreeSet<_> = (0..).zip(&values).map(|(id, value)| (Some(id), Some(value.clone()))).collect();
        let missing: Vec<_> = expected.difference(&found).collect();
        assert!(
            missing.is_empty() && found.len() == expected.len(),
            "{engine}: {missing:?} not among {} rows",
            found.len()
        );
    }
}

#[test]
fn p25_p26_bounds_of_timestamps_do_not_lose_rows() {
    for text in ["2026-08-10 20:04:53.080758", "2024-01-01T01:02:03.456789Z", "1969-12-31T23:59:59.999999Z"] {
        let table = Table::t();
        through(&table, messages([json!({"id": 1, "ts": text})]), &[]);
        let at = table.query("select ts from t")[0]["ts"].as_i64().expect("a timestamp");
        let (_, add) = table.actions("add").pop().expect("an add");
        let bounds = stats(&add);
        for (side, ok) in [("minValues", i64::le as fn(&i64, &i64) -> bool), ("maxValues", i64::ge)] {
            let bound = micros(bounds[side]["ts"].as_str().expect("a bound"));
            assert!(ok(&bound, &at), "{text}: {side} {bound}, value {at}");
        }
        let equal = format!("select id from t where ts = TIMESTAMP '{}'", text.trim_end_matches('Z').replace('T', " "));
        assert_eq!(table.query(&equal), [json!({"id": 1})], "{text}");
    }
}

/// Microseconds since 1970 of an ISO timestamp in UTC with up to six digits of a second's fraction.
fn micros(text: &str) -> i64 {
    let (date, time) = text.trim_end_matches('Z').split_once(['T', ' ']).expect("date and time");
    let date: Vec<i64> = date.split('-').map(|part| part.parse().expect("a number")).collect();
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let clock: Vec<i64> = clock.split(':').map(|part| part.parse().expect("a number")).collect();
    // Days since 1970 (Howard Hinnant's days_from_civil).
    let (year, month) = if date[1] > 2 { (date[0], date[1] - 3) } else { (date[0] - 1, date[1] + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + date[2] - 1 - 719_468;
    let seconds = ((days * 24 + clock[0]) * 60 + clock[1]) * 60 + clock[2];
    seconds * 1_000_000 + format!("{fraction:0<6}")[..6].parse::<i64>().expect("a fraction")
}

/// A backlog over years of days and many customers: thousands of open partitions, a small budget.
#[test]
fn p29_thousands_of_partition_values_within_the_memory_bound() {
    let (topic, table) = (topic(1), Table::new(&[("id", "long"), ("day", "string"), ("text", "string")], &["day"]));
    let text = "x".repeat(500);
    let row = |id: i64| json!({"id": id, "day": format!("d{}", id * 7919 % 1500), "text": format!("{text}{id}")});
    topic.produce(messages((0..30_000).map(row)));
    let mut running = Ingest::new(&topic, &table)
        .with(&["-l", "600", "-m", "100000", "-b", "1000000000", "--memory-mb", "64"])
        .start();
    running.wait_read(20_000);
    let peak = running.peak_memory_mb();
    running.stop();
    Ingest::new(&topic, &table).run_to_end();
    assert!(peak < 160, "{peak} MB at --memory-mb 64");
    let sums = table.query("select count(*) as n, count(distinct id) as ids, count(distinct day) as days from t");
    assert_eq!(sums, [json!({"n": 30_000, "ids": 30_000, "days": 1500})]);
}
