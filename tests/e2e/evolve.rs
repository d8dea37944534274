//! `--evolve`: tables that grow with their messages.

use serde_json::{Value, json};

use crate::ingest::{Ingest, Running, run};
use crate::table::{Table, field};
use crate::{json as messages, reader, through, topic};
use lakeward_testkit::Message;

/// Versions with a `metaData` action, but for the first.
fn reshaping(table: &Table) -> Vec<u64> {
    let versions = table.actions("metaData").into_iter().map(|(version, _)| version);
    versions.filter(|version| *version > 0).collect()
}

/// Names and types of the newest schema's columns.
fn columns(table: &Table) -> Vec<String> {
    let metadata = table.actions("metaData").pop().expect("a schema").1;
    let schema: Value = serde_json::from_str(metadata["schemaString"].as_str().expect("text")).expect("JSON");
    let fields = schema["fields"].as_array().expect("fields").iter();
    fields.map(|field| format!("{} {}", field["name"].as_str().expect("a name"), field["type"])).collect()
}

fn assert_proven(table: &Table) {
    let verified = run(&["verify", &table.path.display().to_string()]);
    assert_eq!(verified.code, Some(0), "{}", verified.log);
}

#[test]
fn p10_p11_columns_come_with_the_data_that_needs_them() {
    let table = Table::new(&[("id", "long")], &[]);
    let values = [
        json!({"id": 1}),
        json!({"id": 2, "color": "red", "inner": {}, "never": null}),
        json!({"id": 3, "inner": {"a": 1}, "items": [{"x": 1, "y": "s"}, {"x": 2, "y": "t"}]}),
        json!({"id": 4, "inner": {"a": 2, "b": true}, "items": [{"x": 1, "z": 0.5}], "a.b": 7}),
        json!({"id": "bad", "of_a_bad_record": 1}),
        json!({"id": 5, "ID": 6, "a b": 7}),
    ];
    let ended = through(&table, messages(values), &["--evolve"]);
    let versions = reshaping(&table);
    assert!(!versions.is_empty());
    let with_files: Vec<u64> = table.actions("add").into_iter().map(|(version, _)| version).collect();
    assert!(versions.iter().all(|version| with_files.contains(version)), "{versions:?} of {with_files:?}");
    let names: Vec<String> =
        columns(&table).iter().map(|column| column.split(' ').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(names, ["id", "color", "inner", "items", "a.b"]);
    let rows = table.query("select id, color, \"inner\", items, \"a.b\" as ab from t");
    let item = |x: i64, y: Value, z: Value| json!({"x": x, "y": y, "z": z});
    let expected = [
        json!({"id": 1, "color": null, "inner": null, "items": null, "ab": null}),
        json!({"id": 2, "color": "red", "inner": null, "items": null, "ab": null}),
        json!({"id": 3, "color": null, "inner": {"a": 1, "b": null}, "items": [item(1, json!("s"), json!(null)), item(2, json!("t"), json!(null))], "ab": null}),
        json!({"id": 4, "color": null, "inner": {"a": 2, "b": true}, "items": [item(1, json!(null), json!(0.5))], "ab": 7}),
        json!({"id": 5, "color": null, "inner": null, "items": null, "ab": null}),
    ];
    // An empty object of a struct column is a struct of nulls; before the struct had fields it was nothing.
    for (row, expected) in rows.iter().zip(&expected) {
        let empty = json!({"a": null, "b": null});
        let is_same = row == expected || (row["id"] == json!(2) && row["inner"] == empty);
        assert!(is_same, "{row} for {expected}");
    }
    assert_eq!(rows.len(), expected.len());
    assert!(ended.log.contains("'ID' that can be no column") && ended.log.contains("'a b' that can be no column"));
    assert_proven(&table);
}

#[test]
fn a_process_that_made_its_table_grow_goes_on_without_reading_again() {
    let (topic, table) = (topic(1), Table::new(&[("id", "long")], &[]));
    let running = Ingest::new(&topic, &table).with(&["--evolve", "-l", "1"]).start();
    for id in 0..4 {
        topic.produce(messages([json!({"id": id, format!("c{}", id / 2): id})]));
        table.wait_txn("app-0", id);
    }
    let ended = running.stop();
    assert_eq!(reshaping(&table).len(), 2, "the second message with a column knows it");
    assert!(!ended.log.contains("read again"), "{}", ended.log);
    let rows = table.query("select id, c0, c1 from t");
    let row = |id: i64, c0: Value, c1: Value| json!({"id": id, "c0": c0, "c1": c1});
    let null = json!(null);
    assert_eq!(
        rows,
        [
            row(0, json!(0), null.clone()),
            row(1, json!(1), null.clone()),
            row(2, null.clone(), json!(2)),
            row(3, null, json!(3))
        ]
    );
}

/// Both need the same column, and each one of its own, before either has committed.
#[test]
fn two_processes_that_add_columns_lose_and_double_nothing() {
    let (topic, table) = (topic(4), Table::new(&[("id", "long")], &[]));
    let ingest =
        Ingest::new(&topic, &table).with(&["--evolve", "-l", "3", "-m", "5000", "-b", "134217728", "--workers", "2"]);
    let group: Vec<Running> = (0..2).map(|_| ingest.start()).collect();
    group.iter().for_each(Running::wait_ready);
    for round in 0..3_i64 {
        let all = (0..40_i64).map(|n| {
            let (id, partition) = (round * 40 + n, n % 4);
            let own = format!("r{round}_p{partition}");
            let value = json!({"id": id, format!("r{round}"): id, own: {"deep": id}});
            Message::new(value.to_string()).to(i32::try_from(partition).expect("few"))
        });
        topic.produce(all.collect::<Vec<_>>());
        table.wait_rows(u64::try_from((round + 1) * 40).expect("few"));
    }
    for running in group {
        running.stop();
    }
    assert_eq!(table.ids(), (0..120).collect::<Vec<i64>>());
    for round in 0..3_i64 {
        let own: Vec<_> = (0..4).map(|p| format!("coalesce(r{round}_p{p}.deep, 0)")).collect();
        let sql = format!(
            "select id from t where r{round} <> id or (r{round} is not null and {} <> id) or (r{round} is null and id between {} and {})",
            own.join(" + "),
            round * 40,
            round * 40 + 39
        );
        assert_eq!(table.query(&sql), Vec::<Value>::new(), "each value is in its column");
    }
    assert_proven(&table);
}

#[test]
fn a_kill_before_the_commit_that_adds_columns_loses_nothing() {
    let (topic, table) = (topic(1), Table::new(&[("id", "long")], &[]));
    topic.produce(messages((0..50).map(|id| json!({"id": id, format!("c{}", id % 5): id}))));
    let ingest = Ingest::new(&topic, &table).with(&["--evolve", "-l", "300", "-m", "5000", "-b", "134217728"]);
    let running = ingest.start();
    running.wait_read(50);
    running.kill();
    assert_eq!(table.version(), Some(0), "nothing was committed");
    ingest.run_to_end();
    assert_eq!(table.ids(), (0..50).collect::<Vec<i64>>());
    assert_eq!(reshaping(&table).len(), 1, "all columns come with the one commit");
    assert_eq!(table.query("select count(*) as n from t where c3 = id"), [json!({"n": 10})]);
}

#[test]
fn evolve_log_only_tells() {
    let table = Table::new(&[("id", "long")], &[]);
    let values = (0..30).map(|id| json!({"id": id, "new": {"a": id}}));
    let ended = through(&table, messages(values), &["--evolve=log"]);
    assert_eq!(ended.log.matches("would get: new column new (struct<a: long>)").count(), 1, "{}", ended.log);
    assert_eq!((reshaping(&table).len(), table.ids().len()), (0, 30));
    let quiet = through(&table, messages([json!({"id": 30, "new": 1})]), &[]);
    assert!(quiet.log.contains("'new' that is no column") && reshaping(&table).is_empty(), "{}", quiet.log);
}

fn narrow(widening: bool) -> Table {
    let schema = json!({"type": "struct", "fields": [
        field("id", "long", true), field("n", "integer", true),
        field("s", r#"{"type":"struct","fields":[{"name":"b","type":"byte","nullable":true,"metadata":{}}]}"#, true)]});
    let properties = if widening { json!({"delta.enableTypeWidening": "true"}) } else { json!({}) };
    let table = Table::absent();
    let mut first = crate::table::first_version(&schema, &[], &properties);
    if widening {
        first[0] = json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7,
            "readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}});
    }
    table.put(0, &first);
    table
}

#[test]
fn types_widen_where_the_table_allows_it() {
    let values =
        || [json!({"id": 1, "n": 1, "s": {"b": 1}}), json!({"id": 2, "n": 3_000_000_000_i64, "s": {"b": 200}})];
    let table = narrow(true);
    through(&table, messages(values()), &["--evolve"]);
    assert!(columns(&table).contains(&"n \"long\"".to_owned()), "{:?}", columns(&table));
    let metadata = table.actions("metaData").pop().expect("a schema").1;
    let schema: Value = serde_json::from_str(metadata["schemaString"].as_str().expect("text")).expect("JSON");
    let changes = "delta.typeChanges";
    assert_eq!(schema["fields"][1]["metadata"][changes], json!([{"fromType": "integer", "toType": "long"}]));
    let inner = &schema["fields"][2]["type"]["fields"][0];
    assert_eq!(
        (&inner["type"], &inner["metadata"][changes]),
        (&json!("short"), &json!([{"fromType": "byte", "toType": "short"}]))
    );
    // deltalake refuses the feature.
    let rows = reader::query_with(&table.path, "select id, n, s.b as b from t", &["duckdb"]);
    assert_eq!(rows, [json!({"id": 1, "n": 1, "b": 1}), json!({"id": 2, "n": 3_000_000_000_i64, "b": 200})]);
    let table = narrow(false);
    let ended = through(&table, messages(values()), &["--evolve"]);
    assert_eq!((table.ids(), reshaping(&table).len()), (vec![1], 0), "{}", ended.log);
}
