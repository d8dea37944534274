//! What is committed and when: txns, flushes, seeks, conflicts, changed tables.

use std::time::Duration;

use serde_json::{Value, json};

use crate::ingest::Ingest;
use crate::table::{PLACED, Table, first_version, schema};
use crate::{ids, json as messages, repository, through, topic};

/// A commit of a foreign writer that moves one txn and nothing else.
fn foreign_txn(table: &Table, app: &str, version: i64) {
    table.commit(&[
        json!({"txn": {"appId": app, "version": version, "lastUpdated": 0}}),
        json!({"commitInfo": {"timestamp": 0, "operation": "FOREIGN"}}),
    ]);
}

fn range(from: i64, to: i64) -> Vec<i64> {
    (from..to).collect()
}

#[test]
fn k01_the_txn_is_the_last_offset() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..3, 1));
    let running = Ingest::new(&topic, &table).start();
    table.wait_version(1);
    running.stop();

    assert_eq!(table.version(), Some(1), "one commit");
    let txns = table.actions("txn");
    assert_eq!(txns.len(), 1, "{txns:?}");
    assert_eq!((&txns[0].1["appId"], &txns[0].1["version"]), (&json!("app-0"), &json!(2)));
    assert!(txns[0].1["lastUpdated"].is_i64(), "{txns:?}");
    let (_, info) = table.actions("commitInfo").pop().expect("a commitInfo");
    assert_eq!(info["operation"], json!("STREAMING UPDATE"));
    assert_eq!(info["isBlindAppend"], json!(true));
    let parameters = &info["operationParameters"];
    assert_eq!((&parameters["queryId"], &parameters["outputMode"]), (&json!("app"), &json!("Append")));
    let epoch: i64 = parameters["epochId"].as_str().expect("text").parse().expect("a number");
    assert!(epoch > 1_700_000_000_000, "milliseconds: {epoch}");
    assert!(info["operationMetrics"].is_object(), "{info}");
    let (_, add) = table.actions("add").pop().expect("an add");
    assert!(add["path"].as_str().expect("a path").starts_with("date=2024-01-01/"), "{add}");
    let files = table.ask(json!({"do": "files", "columns": ["id"]}));
    let created_by = files[0]["created_by"].as_str().expect("created_by");
    assert!(created_by.starts_with("lakeward version "), "{created_by}");
    assert_eq!(table.ids(), range(0, 3));
}

#[test]
fn k02_offset_zero_is_not_read_again() {
    let (topic, table) = (topic(1), Table::t());
    table.ask(json!({"do": "append", "rows": [{"id": 0, "date": "2024-01-01"}], "app": "app-0", "version": 0}));
    topic.produce(ids(0..3, 1));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), range(0, 3));
    assert_eq!(table.txns()["app-0"], 2);
}

#[test]
fn k04_message_0_survives_conflicts_and_a_new_schema() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..1, 1));
    let running = Ingest::new(&topic, &table).with(&["-l", "4"]).start();
    running.wait_read(1);
    foreign_txn(&table, "app-1", 7);
    table.ask(json!({"do": "add_column", "name": "color", "type": "string"}));
    table.wait_txn("app-0", 0);
    running.stop();
    assert_eq!(table.ids(), [0]);
    assert_eq!(table.txns()["app-1"], 7);
}

#[test]
fn k05_seek_goes_on_after_the_given_offset() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(1..11, 1));
    Ingest::new(&topic, &table).with(&["--seek_offsets", r#"{"0":3}"#]).run_to_end();
    assert_eq!(table.ids(), range(5, 11));
    let first = &table.commits()[&1];
    let txns: Vec<_> = first.iter().filter_map(|action| action.get("txn")).collect();
    assert_eq!(txns.len(), 1, "{first:?}");
    assert_eq!((&txns[0]["appId"], &txns[0]["version"]), (&json!("app-0"), &json!(3)));
    assert!(first.iter().all(|action| action.get("add").is_none()), "a commit of txns alone: {first:?}");
    assert_eq!(table.txns()["app-0"], 9);

    // The same option at the next start changes nothing.
    topic.produce(ids(11..13, 1));
    Ingest::new(&topic, &table).with(&["--seek-offsets", r#"{"0":3}"#]).run_to_end();
    assert_eq!(table.ids(), range(5, 13));
}

#[test]
fn k07_seek_ahead_of_the_stored_offset_is_refused() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..20, 1));
    foreign_txn(&table, "app-0", 5);
    let ended = Ingest::new(&topic, &table).with(&["--seek_offsets", r#"{"0":15}"#, "-e"]).run();
    assert!(ended.code.is_some_and(|code| code != 0), "{}", ended.log);
    for word in [topic.name(), "5", "15", "seek"] {
        assert!(ended.log.contains(word), "no {word} in:\n{}", ended.log);
    }
    assert_eq!(table.version(), Some(1), "nothing was written");
}

#[test]
fn k08_seek_offsets_that_make_no_sense_are_usage_errors() {
    let (topic, table) = (topic(1), Table::t());
    for text in [r#"{"a":1}"#, "nonsense", "[1]", r#"{"0":"1"}"#, r#"{"0":-5}"#, r#"{"-1":5}"#, ""] {
        let ended = Ingest::new(&topic, &table).with(&["--seek_offsets", text]).run();
        assert_eq!(ended.code, Some(2), "{text}: {}", ended.log);
    }
    assert_eq!(table.version(), Some(0));
}

/// The peer's buffer_flush and its "don't write an empty buffer" (K09, K10, P53).
#[test]
fn k10_latency_flushes_and_an_idle_topic_commits_nothing() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    let running = Ingest::new(&topic, &table).with(&["-l", "2", "-m", "5000", "-b", "1000000"]).start();
    table.wait_version(1);
    assert_eq!(table.rows(), 10);
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(table.version(), Some(1), "nothing came, nothing is committed");
    topic.produce(ids(10..20, 1));
    table.wait_version(2);
    assert_eq!(table.rows(), 20);
    running.stop();
    assert_eq!((table.version(), table.ids()), (Some(2), range(0, 20)));
}

#[test]
fn k11_size_flushes_long_before_latency() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    let running = Ingest::new(&topic, &table).with(&["-l", "3600", "-m", "10", "-b", "20"]).start();
    table.wait_version(1);
    assert_eq!(table.ids(), range(0, 10));
    running.stop();
}

#[test]
fn k17_a_column_added_while_we_run_is_filled_from_then_on() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(messages([json!({"id": 1, "color": "lost"})]));
    let running = Ingest::new(&topic, &table).start();
    table.wait_txn("app-0", 0);
    table.ask(json!({"do": "add_column", "name": "color", "type": "string"}));
    topic.produce(messages([json!({"id": 2, "color": "red"}), json!({"id": 3})]));
    table.wait_txn("app-0", 2);
    running.stop();
    assert_eq!(
        table.query("select id, color from t"),
        [json!({"id": 1, "color": null}), json!({"id": 2, "color": "red"}), json!({"id": 3, "color": null})]
    );
}

#[test]
fn k19_latest_takes_the_first_message_after_the_start() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(1..6, 1));
    let ingest = Ingest::new(&topic, &table).with(&["-o", "latest"]);
    let running = ingest.start();
    running.wait_log("reading");
    topic.produce(ids(6..17, 1));
    table.wait_txn("app-0", 15);
    running.stop();
    assert_eq!(table.ids(), range(6, 17));
}

/// Where "latest" was is remembered, or what is held at a crash is lost.
#[test]
fn k19_latest_loses_nothing_by_a_crash() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(1..6, 1));
    let ingest = Ingest::new(&topic, &table).with(&["-o", "latest", "-l", "300", "-m", "5000"]);
    let running = ingest.start();
    running.wait_log("reading");
    topic.produce(ids(6..17, 1));
    running.wait_read(11);
    running.kill();
    ingest.run_to_end();
    assert_eq!(table.ids(), range(6, 17));
}

#[test]
fn k16_twenty_writers_race_for_one_table_and_none_dies() {
    let (topic, table) = (topic(1), Table::new(PLACED, &["date"]));
    topic.produce(ids(0..5, 1));
    let writers: Vec<_> = (0..20)
        .map(|n| Ingest::new(&topic, &table).with(&["-a", &format!("app{n}"), "-m", "1", "-e"]).start())
        .collect();
    for writer in writers {
        let ended = writer.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.log);
    }
    let expected: Vec<_> = (0..5).flat_map(|id| [id; 20]).collect();
    assert_eq!(table.ids(), expected);
    assert!((0..20).all(|n| table.txns()[&format!("app{n}-0")] == 4), "{:?}", table.txns());
}

#[test]
fn k55_a_checkpoint_that_fails_does_not_stop_the_job() {
    let (topic, table) = (topic(1), Table::t());
    // Nothing can be written or renamed over a folder that is not empty.
    std::fs::create_dir_all(table.path.join("_delta_log/_last_checkpoint/x")).expect("make a folder");
    topic.produce(ids(0..120, 1));
    let ended = Ingest::new(&topic, &table).with(&["-c", "-m", "10"]).run_to_end();
    assert_eq!(table.ids(), range(0, 120));
    assert!(table.version() >= Some(10), "{:?}", table.version());
    assert!(ended.log.contains("WARN"), "{}", ended.log);
}

#[test]
fn k79_row_groups_are_not_tied_to_the_batch() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..100_000, 1));
    Ingest::new(&topic, &table).with(&["-l", "300", "-m", "5000", "-b", "134217728"]).run_to_end();
    let files = table.ask(json!({"do": "files", "columns": []}));
    assert_eq!(files.as_array().map(Vec::len), Some(1), "{files}");
    assert_eq!(files[0]["row_groups"], json!([100_000]));
}

/// Smaller than the case's million files, which take minutes to make: 20,000, from commits alone.
#[test]
fn k80_a_table_of_many_files_starts_within_bounded_memory() {
    let (topic, table) = (topic(1), Table::t());
    let add = |n: u32| {
        json!({"add": {"path": format!("date=2020-01-01/part-{n:08}.parquet"), "partitionValues": {"date": "2020-01-01"},
            "size": 1000, "modificationTime": 0, "dataChange": true, "stats": r#"{"numRecords":1}"#}})
    };
    for version in 0..20 {
        table.commit(&(0..1000).map(|n| add(version * 1000 + n)).collect::<Vec<_>>());
    }
    topic.produce(ids(0..5, 1));
    let mut running = Ingest::new(&topic, &table).start();
    table.wait_txn("app-0", 4);
    let peak = running.peak_memory_mb();
    running.stop();
    assert!(peak < 200, "{peak} MB");
}

#[test]
fn k52_skipping_properties_of_the_table_are_honoured() {
    let columns = [("id", "long"), ("name", "string"), ("n", "integer")];
    #[rustfmt::skip] // columns: property, its value, the columns that have bounds
    let cases: [(&str, &str, &[&str]); 3] = [
        ("delta.dataSkippingNumIndexedCols", "1", &["id"]),
        ("delta.dataSkippingStatsColumns", "n", &["n"]),
        ("delta.dataSkippingNumIndexedCols", "0", &[]),
    ];
    for (name, value, expected) in cases {
        let table = Table::made(&schema(&columns), &[], &json!({ name: value }));
        through(&table, messages([json!({"id": 1, "name": "a", "n": 2})]), &[]);
        let (_, add) = table.actions("add").pop().expect("an add");
        let stats = crate::table::stats(&add);
        let bounded: Vec<_> = stats["minValues"].as_object().map(|of| of.keys().cloned().collect()).unwrap_or_default();
        assert_eq!(bounded, expected, "{name}={value}: {stats}");
        assert_eq!(stats["numRecords"], json!(1));
    }
}

#[test]
fn p50_checkpoints_come_by_the_tables_interval_without_an_option() {
    let (topic, properties) = (topic(1), json!({"delta.checkpointInterval": "5"}));
    let table = Table::made(&schema(crate::table::T), &["date"], &properties);
    topic.produce(ids(0..120, 1));
    Ingest::new(&topic, &table).run_to_end();
    assert!(table.version() >= Some(10), "{:?}", table.version());
    let checkpoint = table.path.join("_delta_log/00000000000000000005.checkpoint.parquet");
    assert!(checkpoint.exists(), "{}", checkpoint.display());
    table.ask(json!({"do": "checkpoints"}));
    assert_eq!(table.ids(), range(0, 120));
}

#[test]
fn p50_a_log_of_thousands_of_commits_without_a_checkpoint_is_taken_on() {
    let (topic, table) = (topic(1), Table::t());
    for version in 1..4000 {
        let action = json!({"txn": {"appId": "other", "version": version, "lastUpdated": 0}});
        assert!(table.put(version, &[action]), "version {version}");
    }
    topic.produce(ids(0..5, 1));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!((table.ids(), table.txns()["other"]), (range(0, 5), 3999));
}

/// Tables that kafka-delta-ingest wrote: with the topic filled and the same app id each message is in the
/// table once, what was there stays, txn ids go on.
#[test]
fn taking_over_from_the_peer() {
    #[rustfmt::skip] // columns: fixture, app id, further options, partitions, offsets not covered, rows at the end
    let cases: [(&str, &str, &[&str], i32, usize); 4] = [
        ("unpartitioned", "a-b",                &[],                                         3, 12),
        ("checkpointed",  "kafka_delta_ingest", &["-c"],                                     2, 240),
        ("seek",          "kafka_delta_ingest", &["--seek_offsets", r#"{"0":4,"1":9}"#],     2, 25),
        ("deadletters",   "web",                &[],                                         1, 17),
    ];
    for (name, app, options, partitions, rows) in cases {
        let folder = repository().join("tests/fixtures").join(name);
        let table = Table::copied(&folder.join("table"));
        let before = table.version();
        let topic = topic(partitions);
        let lines = std::fs::read_to_string(folder.join("messages.jsonl")).expect("the fixture's messages");
        let sent = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
        topic.produce(sent.map(|message| {
            let partition = message["partition"].as_i64().and_then(|partition| partition.try_into().ok());
            lakeward_testkit::Message::new(message["value"].as_str().expect("a value"))
                .to(partition.expect("a partition"))
        }));
        let date = "date: substr(meta.producer.timestamp, `0`, `10`)";
        Ingest::new(&topic, &table)
            .with(&["-a", app, "-l", "1", "-t", date])
            .with(&crate::table::PLACE_TRANSFORMS)
            .with(options)
            .run_to_end();
        let places = table.query("select kafka_partition, kafka_offset from t");
        let once: std::collections::BTreeSet<_> = places.iter().map(Value::to_string).collect();
        assert_eq!((places.len(), once.len()), (rows, rows), "{name}: rows and places");
        for partition in 0..partitions {
            let end = topic.watermarks(partition).1;
            let txn = table.txns().get(&format!("{app}-{partition}")).copied();
            assert!(txn == Some(end - 1) || end == 0, "{name}: txn {txn:?} of partition {partition}, end {end}");
        }
        assert!(table.version() >= before, "{name}");
    }
}

/// Two first writers: whoever loses the race for version 0 goes on in the winner's table.
#[test]
fn k83_two_racing_creators_end_with_one_table() {
    let (topic, table) = (topic(2), Table::absent());
    topic.produce(ids(0..100, 2));
    let schema_file = table.path.with_extension("schema.json");
    std::fs::write(&schema_file, schema(&[("id", "long"), ("date", "string")]).to_string()).expect("write a schema");
    let path = schema_file.display().to_string();
    let ingest = Ingest::new(&topic, &table).with(&["--create", "--schema", &path, "--partition-by", "date"]);
    let pair = [ingest.start(), ingest.start()];
    table.wait_rows(100);
    pair.into_iter().for_each(|running| drop(running.stop()));
    assert_eq!(table.ids(), range(0, 100));
    assert_eq!(table.actions("metaData").len(), 1);
    std::fs::remove_file(schema_file).expect("remove the schema");
}

/// What was asked for is told where it is not what is there; the table stays as it is, and is written to.
#[test]
fn k83_create_warns_where_the_table_is_another_and_changes_nothing() {
    let topic = topic(1);
    topic.produce(ids(0..3, 1));
    let kept = [("id", "long"), ("date", "string")];
    #[rustfmt::skip] // columns: columns of --schema (none: not given), --partition-by, what the warning says (none: no warning)
    let cases: [(Option<&[(&str, &str)]>, &str, Option<&str>); 7] = [
        (Some(&kept),                               "date", None),
        (None,                                      "date", None),
        (None,                                      "",     None),
        (Some(&[("id", "string"), kept[1]]),        "date", Some("its column id long is not id string")),
        (Some(&[kept[0], kept[1], ("n", "long")]),  "date", Some("it has no column n long")),
        (Some(&kept),                               "",     Some("it is partitioned by [\"date\"], not by []")),
        (None,                                      "id",   Some("it is partitioned by [\"date\"], not by [\"id\"]")),
    ];
    for (columns, partition_by, warning) in cases {
        let table = Table::new(&kept, &["date"]);
        let before = table.commits();
        let file = table.path.with_extension("schema.json");
        let path = file.display().to_string();
        let mut options = vec!["--create"];
        if let Some(columns) = columns {
            std::fs::write(&file, schema(columns).to_string()).expect("write a schema");
            options.extend(["--schema", &path]);
        }
        if !partition_by.is_empty() {
            options.extend(["--partition-by", partition_by]);
        }
        let ended = Ingest::new(&topic, &table).with(&options).run_to_end();
        let warned = ended.log.lines().find(|line| line.contains("WARN") && line.contains("was there already"));
        let case = format!("{columns:?} {partition_by:?}:\n{}", ended.log);
        assert_eq!(warned.is_some(), warning.is_some(), "{case}");
        assert!(warning.is_none_or(|text| warned.is_some_and(|line| line.contains(text))), "{case}");
        assert_eq!(table.commits()[&0], before[&0], "{case}");
        assert_eq!((table.actions("metaData").len(), table.actions("protocol").len()), (1, 1), "{case}");
        assert_eq!(table.ids(), range(0, 3), "{case}");
        let _ = std::fs::remove_file(file);
    }
}

/// A schema that can't be read is told at once, whether it is needed or not.
#[test]
fn k83_a_schema_file_that_is_none_stops_before_anything() {
    let (topic, table) = (topic(1), Table::t());
    let missing = table.path.with_extension("none.json").display().to_string();
    let ended = Ingest::new(&topic, &table).with(&["--create", "--schema", &missing, "-e"]).run();
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    assert!(ended.log.contains(&format!("--schema {missing}")), "{}", ended.log);
    assert_eq!(table.version(), Some(0));
}

#[test]
fn k83_create_from_the_first_messages() {
    let (topic, table) = (topic(1), Table::absent());
    topic.produce(messages([
        json!({"id": 1, "name": "a", "d": 1.5, "ok": true, "tags": ["x"], "at": {"lat": 1.0}}),
        json!({"id": 2, "name": null, "extra": "e"}),
    ]));
    Ingest::new(&topic, &table).with(&["--create"]).run_to_end();
    let rows = table.query("select id, name, d, ok, extra from t");
    assert_eq!(
        rows,
        [
            json!({"id": 1, "name": "a", "d": 1.5, "ok": true, "extra": null}),
            json!({"id": 2, "name": null, "d": null, "ok": null, "extra": "e"}),
        ]
    );
}

#[test]
fn k83_a_missing_table_is_an_error_that_names_the_way_out() {
    let (topic, table) = (topic(1), Table::absent());
    topic.produce(ids(0..1, 1));
    let ended = Ingest::new(&topic, &table).with(&["-e"]).run();
    assert!(ended.code.is_some_and(|code| code != 0), "{}", ended.log);
    assert!(ended.log.contains("--create"), "{}", ended.log);
    assert_eq!(table.version(), None);
}

#[test]
fn k89_a_table_made_anew_under_us_is_noticed() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    let running = Ingest::new(&topic, &table).start();
    table.wait_txn("app-0", 9);
    std::fs::remove_dir_all(&table.path).expect("drop the table");
    table.put(0, &first_version(&schema(crate::table::T), &["date"], &json!({})));
    topic.produce(ids(10..20, 1));
    let ended = running.wait();
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    assert_eq!(table.rows(), 0, "nothing of one table's offsets goes into another");
}
