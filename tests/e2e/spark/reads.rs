//! Spark reads what we wrote: types, partitions, statistics, checkpoints, views, streams, histories.

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::{ask, created, ids, query, sql};
use crate::ingest::Ingest;
use crate::run::job::Job;
use crate::table::Table;
use crate::{ids as messages_of, json as messages, scratch, through, topic};

#[test]
fn values_of_every_type_are_what_the_messages_said() {
    let columns = "(id BIGINT, i INT, s SMALLINT, b TINYINT, f FLOAT, d DOUBLE, ok BOOLEAN, name STRING, raw BINARY, \
         day DATE, ts TIMESTAMP, wall TIMESTAMP_NTZ, small DECIMAL(9,2), large DECIMAL(38,10), \
         inner STRUCT<a: INT, deep: ARRAY<STRUCT<x: BIGINT, y: STRING>>>, list ARRAY<INT>, map MAP<STRING, BIGINT>)";
    let table = created(&format!("{columns} USING delta"));
    let full = json!({
        "id": 1, "i": i32::MIN, "s": -32768, "b": 127, "f": 0.5, "d": -1.0e300, "ok": true, "name": "ñ\u{1F600}\n", "raw": "00ff",
        "day": "1969-12-31", "ts": "2024-02-29T23:59:59.123456Z", "wall": "2024-02-29T23:59:59.123456",
        "small": "-1234567.89", "large": "1234567890123456789012345678.0123456789",
        "inner": {"a": 7, "deep": [{"x": i64::MAX, "y": null}, {"x": null, "y": ""}]}, "list": [1, null, 3],
        "map": {"k": 1, "": null},
    });
    let empty = json!({"id": 3, "name": "", "inner": {}, "list": [], "map": {}, "inner.deep": null});
    through(&table, messages([full.clone(), json!({"id": 2}), empty]), &[]);
    let rows = query(&table.path, "select * from t");
    let at = 1_709_251_199_123_456_i64;
    let mut first = full;
    (first["ts"], first["wall"]) = (json!(at), json!(at));
    first["map"] = json!([["", null], ["k", 1]]); // as it lies in the message
    first["raw"] = json!({"hex": "00ff"});
    assert_eq!(rows[0], first);
    let names = rows[1].as_object().expect("a row").iter();
    assert!(names.clone().all(|(name, value)| name == "id" || value.is_null()), "{}", rows[1]);
    let third = ["name", "inner", "list", "map"].map(|name| rows[2][name].clone());
    assert_eq!(third, [json!(""), json!({"a": null, "deep": null}), json!([]), json!([])]);
}

/// Values that are odd in a path, in a URL, in SQL or in Hive.
const ODD: [&str; 17] = [
    "plain",
    "a b",
    "a/b",
    "a=b",
    "100%",
    "%20",
    "ñ",
    "\u{1F600}",
    "'",
    "\"",
    ":",
    "#?&",
    "\\",
    "__HIVE_DEFAULT_PARTITION",
    " lead",
    "{x}[y]^|<>",
    "a\u{1}\t\nb",
];

#[test]
fn text_of_partitions_is_as_odd_as_it_was_sent() {
    let table = Table::new(&[("id", "long"), ("p", "string")], &["p"]);
    let sent: Vec<Value> = ODD.iter().enumerate().map(|(id, p)| json!({"id": id, "p": p})).collect();
    through(&table, messages(sent.clone()), &["-m", "5000"]);
    assert_eq!(query(&table.path, "select id, p from t"), sent);
    // And by pruning, which compares the log's text.
    for (id, p) in ODD.iter().enumerate() {
        let literal = p.replace('\\', "\\\\").replace('\'', "\\'");
        let found = query(&table.path, &format!("select id from t where p = '{literal}'"));
        assert_eq!(found, [json!({"id": id})], "{p:?}");
    }
}

#[test]
fn statistics_let_spark_skip_files_and_hide_no_row() {
    let (topic, table) = (topic(1), Table::new(&[("id", "long"), ("name", "string"), ("ts", "timestamp")], &[]));
    for first in [0_i64, 100, 200, 300] {
        // Names longer than what statistics keep, and a time with a fraction that they cut.
        let name = |id: i64| format!("{}{id:04}", "n".repeat(60));
        let row = |id: i64| json!({"id": id, "name": name(id), "ts": 1_700_000_000_000_999 + id * 1_000_000});
        topic.produce(messages((first..first + 100).map(row)));
        Ingest::new(&topic, &table).with(&["-m", "5000", "-b", "134217728"]).run_to_end();
    }
    let all = table.actions("add").len();
    assert!(all >= 4, "{all} files");
    let opened = |filter: &str| ask(&json!({"do": "files", "table": table.path, "where": filter})).expect("files");
    assert_eq!(opened("true"), json!(all));
    for (filter, id) in [
        ("id = 250", 250),
        ("ts = timestamp'2023-11-14 22:17:30.000999'", 250),
        ("id = 399", 399),
        ("ts >= timestamp'2023-11-14 22:19:59.000999'", 399),
    ] {
        assert!(opened(filter).as_u64() < Some(all as u64), "{filter} opens all {all} files");
        assert_eq!(query(&table.path, &format!("select id from t where {filter}")), [json!({"id": id})], "{filter}");
    }
    // Names are the same as far as statistics keep them: no row may go missing by that.
    let last = format!("{}0399", "n".repeat(60));
    assert_eq!(query(&table.path, &format!("select id from t where name >= '{last}'")), [json!({"id": 399})]);
    assert_eq!(opened("id > 400"), json!(0));
}

/// What stands in our checkpoint must stand there alone, in both of Delta's forms.
#[test]
fn spark_starts_from_our_checkpoint() {
    for properties in ["'delta.checkpointPolicy' = 'classic'", "'delta.checkpointPolicy' = 'v2'"] {
        let table = created(&format!(
            "(id BIGINT, p STRING, d DOUBLE) USING delta PARTITIONED BY (p) \
             TBLPROPERTIES ({properties}, 'delta.checkpointInterval' = '10')"
        ));
        let topic = topic(1);
        topic
            .produce(messages((0..130).map(|id| json!({"id": id, "p": if id % 3 == 0 { None } else { Some("x y") }}))));
        Ingest::new(&topic, &table).with(&["-m", "5", "-c"]).run_to_end();
        let log = table.path.join("_delta_log");
        let names: Vec<String> = std::fs::read_dir(&log)
            .expect("the log")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        let newest = names
            .iter()
            .filter(|name| name.contains(".checkpoint"))
            .filter_map(|name| name.get(..20)?.parse::<u64>().ok())
            .max()
            .unwrap_or_else(|| panic!("{properties}: no checkpoint among {names:?}"));
        assert!(newest >= 10, "{names:?}");
        for version in 0..newest {
            std::fs::remove_file(log.join(format!("{version:020}.json"))).expect("remove a commit");
        }
        assert_eq!(ids(&table), (0..130).collect::<Vec<i64>>(), "{properties}");
        assert_eq!(
            query(&table.path, "select count(*) as n from t where p is null"),
            [json!({"n": 44})],
            "{properties}"
        );
        // Spark's own checkpoint, and we go on from that.
        sql(&table, &["INSERT INTO {t} VALUES (130, 'spark', 1.5)"]);
        topic.produce(messages((131..150).map(|id| json!({"id": id, "p": "z"}))));
        Ingest::new(&topic, &table).run_to_end();
        assert_eq!(ids(&table), (0..150).collect::<Vec<i64>>(), "{properties}");
    }
}

#[test]
fn views_changelogs_and_dead_letters_are_the_same_to_all_readers() {
    let job = Job::new();
    let mut random = StdRng::seed_from_u64(31);
    for _ in 0..3 {
        job.send(&mut random, 300, 40);
        job.pipeline.run_to_end(&[]);
    }
    job.judge_at_end();
    for name in ["hot", "named", "log", "share", "dead"] {
        let table = job.pipeline.table(name);
        // `Table::query` compares Spark with the others, which the judge knows.
        assert!(!table.query("select * from t").is_empty(), "{name} has rows");
    }
    let vectors = job.pipeline.table("named").actions("add");
    assert!(vectors.iter().any(|(_, add)| !add["deletionVector"].is_null()), "named has deletion vectors");
}

#[test]
fn a_stream_of_our_table_sees_each_row_once() {
    let (topic, table, place) = (topic(2), Table::t(), scratch("stream"));
    let mut seen: Vec<i64> = Vec::new();
    for first in [0, 70, 140] {
        topic.produce(messages_of(first..first + 70, 2));
        Ingest::new(&topic, &table).run_to_end();
        if first == 70 {
            // Rows move; to a stream that is no change.
            sql(&table, &["OPTIMIZE {t}"]);
        }
        let rows = ask(&json!({"do": "stream", "table": table.path, "place": place})).expect("a stream");
        seen.extend(rows.as_array().expect("rows").iter().map(|row| row["id"].as_i64().expect("an id")));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..210).collect::<Vec<i64>>());
    std::fs::remove_dir_all(place).expect("remove the stream's place");
}

#[test]
fn describe_history_says_what_each_of_our_commits_did() {
    let (topic, table) = (topic(1), Table::t());
    for first in [0, 10] {
        topic.produce(messages_of(first..first + 10, 1));
        Ingest::new(&topic, &table).with(&["-m", "5000"]).run_to_end();
    }
    let history = sql(&table, &["DESCRIBE HISTORY {t}"]);
    let ours: Vec<&Value> = history.iter().filter(|row| row["version"].as_u64() > Some(0)).collect();
    let mut total = 0;
    for row in &ours {
        assert_eq!((&row["operation"], &row["isBlindAppend"]), (&json!("STREAMING UPDATE"), &json!(true)), "{row}");
        let metrics = row["operationMetrics"].as_array().expect("a map");
        let metric =
            |name: &str| metrics.iter().find(|pair| pair[0] == name).and_then(|pair| pair[1].as_str()?.parse().ok());
        let rows: Option<u64> = metric("numOutputRows");
        total += rows.unwrap_or_else(|| panic!("no numOutputRows: {row}"));
        assert!(metric("numAddedFiles").is_some_and(|files: u64| files > 0), "{row}");
    }
    assert_eq!(total, 20, "{ours:?}");
}
