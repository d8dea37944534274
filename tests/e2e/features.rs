//! Tables that ask for more than appends: each feature right, or refused by name.

use serde_json::{Value, json};

use crate::ingest::{Ingest, run};
use crate::table::{Table, field, first_version, schema, stats};
use crate::{json as messages, reader, through, topic};

/// A table of protocol 3/7 with these features.
fn featured(schema: &Value, partition: &[&str], properties: &Value, reader: &[&str], writer: &[&str]) -> Table {
    let table = Table::absent();
    table.put(0, &protocol(first_version(schema, partition, properties), reader, writer));
    table
}

fn protocol(mut first: [Value; 2], reader: &[&str], writer: &[&str]) -> [Value; 2] {
    let all = [reader, writer].concat();
    first[0] = json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader,
        "writerFeatures": all}});
    first
}

fn with_metadata(mut field: Value, metadata: Value) -> Value {
    field["metadata"] = metadata;
    field
}

fn struct_of(fields: &[Value]) -> Value {
    json!({"type": "struct", "fields": fields})
}

fn mapped(name: &str, kind: &str, id: u32) -> Value {
    let metadata = json!({"delta.columnMapping.id": id, "delta.columnMapping.physicalName": format!("col-{id}")});
    with_metadata(field(name, kind, true), metadata)
}

fn mapping_table(mode: &str) -> Table {
    let mut inner = field("inner", r#"{"type":"struct","fields":[]}"#, true);
    inner["type"]["fields"] = json!([mapped("deep er", "long", 5)]);
    inner["metadata"] = mapped("inner", "string", 4)["metadata"].clone();
    let schema =
        struct_of(&[mapped("id", "long", 1), mapped("day, of", "string", 2), mapped("a b", "string", 3), inner]);
    let properties = json!({"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "5"});
    featured(&schema, &["day, of"], &properties, &["columnMapping"], &[])
}

#[test] // P14
fn p14_mapped_columns_are_written_by_their_names_in_files() {
    for mode in ["name", "id"] {
        let table = mapping_table(mode);
        let values = [
            json!({"id": 1, "day, of": "x/y", "a b": "one", "inner": {"deep er": 7}}),
            json!({"id": 2, "day, of": null, "a b": null, "new col": [{"in side": 5}]}),
        ];
        through(&table, messages(values), &["--evolve"]);
        let adds = table.actions("add");
        assert_eq!(
            adds.iter().filter(|(_, add)| add["partitionValues"] == json!({"col-2": "x/y"})).count(),
            1,
            "{adds:?}"
        );
        assert!(adds.iter().all(|(_, add)| !add["path"].as_str().expect("a path").contains("day")), "{adds:?}");
        let one = adds.iter().find(|(_, add)| add["partitionValues"]["col-2"] == json!("x/y")).expect("an add");
        let stats = stats(&one.1);
        assert_eq!(stats["minValues"]["col-1"], json!(1));
        assert_eq!(stats["minValues"]["col-4"], json!({"col-5": 7}));
        let metadata = table.actions("metaData").pop().expect("a schema").1;
        assert_eq!(
            metadata["configuration"]["delta.columnMapping.maxColumnId"],
            json!("7"),
            "new col and what is in it"
        );
        // Each of what it reads: of the mapped partition columns here duckdb gives NULL.
        let sql = r#"select id, "day, of" as day, "a b" as ab from t"#;
        let rows = reader::query_with(&table.path, sql, &["deltalake"]);
        let row = |id: i64, day: Value, ab: Value| json!({"id": id, "day": day, "ab": ab});
        assert_eq!(rows, [row(1, json!("x/y"), json!("one")), row(2, Value::Null, Value::Null)], "{mode}");
        let sql = r#"select id, "a b" as ab, "inner"."deep er" as deep, "new col"[1]."in side" as side from t"#;
        let rows = reader::query_with(&table.path, sql, &["duckdb"]);
        let first = json!({"id": 1, "ab": "one", "deep": 7, "side": null});
        assert_eq!(rows, [first, json!({"id": 2, "ab": null, "deep": null, "side": 5})], "{mode}");
        let verified = run(&["verify", &table.path.display().to_string()]);
        assert_eq!(verified.code, Some(0), "{}", verified.log);
    }
}

#[test]
fn k86_p49_constraints_and_invariants_make_bad_records() {
    let invariant = json!({"delta.invariants": r#"{"expression":{"expression":"inner.a < 10"}}"#});
    let mut inner = field("inner", r#"{"type":"struct","fields":[]}"#, true);
    inner["type"]["fields"] = json!([with_metadata(field("a", "integer", true), invariant)]);
    let schema = struct_of(&[field("id", "long", true), field("n", "integer", true), inner]);
    let table = Table::absent();
    let mut first = first_version(&schema, &[], &json!({"delta.constraints.positive": "n > 0 AND n <> 13"}));
    first[0] = json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}});
    table.put(0, &first);
    let good = json!({"a": 1});
    let values = [
        json!({"id": 1, "n": 1, "inner": good}),
        json!({"id": 2, "n": -1, "inner": good}),
        json!({"id": 3, "n": 13, "inner": good}),
        json!({"id": 4, "inner": good}),
        json!({"id": 5, "n": 2, "inner": {"a": 10}}),
        json!({"id": 6, "n": 3}),
        json!({"id": 7, "n": 4, "inner": {"a": 9}}),
    ];
    let (topic, ingest) = (topic(1), |topic: &_| Ingest::new(topic, &table));
    topic.produce(messages(values));
    let ended = ingest(&topic).run_to_end();
    assert_eq!(table.ids(), [1, 7], "{}", ended.log);
    for told in [
        "constraint positive (n > 0 AND n <> 13) is false",
        "positive (n > 0 AND n <> 13) is NULL",
        "invariant of column inner.a (inner.a < 10) is false",
        "kind=\"constraint\"",
    ] {
        assert!(ended.log.contains(told), "{told}: {}", ended.log);
    }
    let stopped = ingest(&topic).with(&["-a", "other", "--on-bad-record", "stop", "-e"]).run();
    assert_eq!(stopped.code, Some(65), "{}", stopped.log);
}

/// What deltalake makes, and a constraint that comes while we run.
#[test]
fn k17_a_constraint_added_while_we_run_is_kept_from_then_on() {
    let (topic, table) = (topic(1), Table::new(&[("id", "long"), ("n", "long")], &[]));
    topic.produce(messages([json!({"id": 1, "n": 5})]));
    let running = Ingest::new(&topic, &table).start();
    table.wait_txn("app-0", 0);
    table.ask(json!({"do": "add_constraint", "name": "positive", "sql": "n > 0"}));
    topic.produce(messages([json!({"id": 2, "n": -5}), json!({"id": 3, "n": 6})]));
    table.wait_txn("app-0", 2);
    let ended = running.stop();
    assert_eq!(table.ids(), [1, 3], "{}", ended.log);
}

#[test]
fn generated_columns_are_made_and_compared() {
    let generated = |name: &str, kind: &str, sql: &str, nullable| {
        with_metadata(field(name, kind, nullable), json!({"delta.generationExpression": sql}))
    };
    let schema = struct_of(&[
        field("id", "long", true),
        field("ts", "timestamp", true),
        generated("day", "date", "CAST(ts AS DATE)", true),
        generated("hour", "integer", "HOUR(ts)", false),
        generated("month", "string", "date_format(ts, 'yyyy-MM')", true),
    ]);
    let table = Table::absent();
    let mut first = first_version(&schema, &["day"], &json!({}));
    first[0] = json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}});
    table.put(0, &first);
    let values = [
        json!({"id": 1, "ts": "2024-02-29T23:59:59.5Z"}),
        json!({"id": 2, "ts": "1969-12-31T23:00:00Z", "day": "1969-12-31", "hour": 23}),
        json!({"id": 3, "ts": "2024-01-01T00:00:00Z", "day": "2024-01-02"}),
        json!({"id": 4}),
    ];
    let ended = through(&table, messages(values), &[]);
    let rows = table.query("select id, day, hour, month from t");
    let row = |id: i64, day: &str, hour: i64, month: &str| json!({"id": id, "day": day, "hour": hour, "month": month});
    assert_eq!(rows, [row(1, "2024-02-29", 23, "2024-02"), row(2, "1969-12-31", 23, "1969-12")]);
    assert!(ended.log.contains("day: it is 2024-01-02, and its expression (CAST(ts AS DATE)) makes 2024-01-01"));
    assert!(ended.log.contains("hour: no value, and the column is NOT NULL"), "{}", ended.log);
}

#[test]
fn defaults_fill_what_a_message_does_not_name() {
    let of = |name: &str, kind: &str, sql: &str, nullable| {
        with_metadata(field(name, kind, nullable), json!({"CURRENT_DEFAULT": sql}))
    };
    let schema = struct_of(&[
        field("id", "long", true),
        of("level", "string", "'info'", true),
        of("n", "long", "-7", false),
        of("day", "date", "DATE '2024-01-01'", true),
    ]);
    let table = featured(&schema, &[], &json!({}), &[], &["allowColumnDefaults"]);
    let values = [
        json!({"id": 1}),
        json!({"id": 2, "level": null, "day": null, "n": 1}),
        json!({"id": 3, "level": "warn", "n": null}),
    ];
    let ended = through(&table, messages(values), &[]);
    // deltalake refuses to read a feature that only writers must know.
    let rows = reader::query_with(&table.path, "select * from t", &["duckdb"]);
    let first = json!({"id": 1, "level": "info", "n": -7, "day": "2024-01-01"});
    assert_eq!(rows, [first, json!({"id": 2, "level": null, "n": 1, "day": null})], "{}", ended.log);
    let clock = struct_of(&[field("id", "long", true), of("at", "timestamp", "current_timestamp()", true)]);
    let table = featured(&clock, &[], &json!({}), &[], &["allowColumnDefaults"]);
    let ended = Ingest::new(&topic(1), &table).with(&["-e"]).run();
    assert_eq!((ended.code, table.version()), (Some(78), Some(0)), "{}", ended.log);
    assert!(ended.log.contains("the default of column at (current_timestamp()) can't be kept"), "{}", ended.log);
}

#[test]
fn text_of_char_and_varchar_columns_has_its_length() {
    let of = |name: &str, kind: &str| {
        with_metadata(field(name, "string", true), json!({"__CHAR_VARCHAR_TYPE_STRING": kind}))
    };
    let schema = struct_of(&[field("id", "long", true), of("c", "char(3)"), of("v", "varchar(3)")]);
    let table = Table::made(&schema, &["c"], &json!({}));
    let values = [
        json!({"id": 1, "c": "a", "v": "a"}),
        json!({"id": 2, "c": "abc  ", "v": "ñññ  "}),
        json!({"id": 3, "c": "abcd", "v": "a"}),
        json!({"id": 4, "c": "abc", "v": "abcd"}),
        json!({"id": 5}),
    ];
    let ended = through(&table, messages(values), &[]);
    let row = |id: i64, c: Value, v: Value| json!({"id": id, "c": c, "v": v});
    let rows = [row(1, json!("a  "), json!("a")), row(2, json!("abc"), json!("ñññ")), row(5, json!(null), json!(null))];
    assert_eq!(table.query("select id, c, v from t"), rows);
    assert!(ended.log.contains("v: 4 characters, and the column is varchar(3)"), "{}", ended.log);
}

#[test]
fn auto_compact_refuses_rows_that_it_may_not_move() {
    let (topic, properties) = (topic(1), json!({"delta.enableRowTracking": "true"}));
    let table = featured(&schema(&[("id", "long")]), &[], &properties, &[], &["rowTracking", "domainMetadata"]);
    topic.produce(messages([json!({"id": 1})]));
    let ended = Ingest::new(&topic, &table).with(&["--auto-compact", "-e"]).run();
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    assert!(ended.log.contains("rowTracking") && ended.log.contains("OPTIMIZE"), "{}", ended.log);
    assert_eq!(table.version(), Some(0), "nothing is written");
}

#[test]
fn tracked_rows_have_ids_that_go_on_where_the_table_says() {
    let (topic, schema) = (topic(1), schema(&[("id", "long")]));
    let table =
        featured(&schema, &[], &json!({"delta.enableRowTracking": "true"}), &[], &["rowTracking", "domainMetadata"]);
    let domain = |highest: i64| {
        let configuration = json!({"rowIdHighWaterMark": highest}).to_string();
        json!({"domainMetadata": {"domain": "delta.rowTracking", "configuration": configuration, "removed": false}})
    };
    table.commit(&[domain(99)]);
    let running = Ingest::new(&topic, &table).start();
    topic.produce(messages((0..5).map(|id| json!({"id": id}))));
    table.wait_txn("app-0", 4);
    table.commit(&[domain(999)]);
    topic.produce(messages((5..8).map(|id| json!({"id": id}))));
    table.wait_txn("app-0", 7);
    running.stop();
    let adds = table.actions("add");
    let mut next = 100;
    for (version, add) in &adds {
        let rows = stats(add)["numRecords"].as_i64().expect("rows");
        next = if next <= 105 && add["baseRowId"].as_i64() >= Some(1000) { 1000 } else { next };
        assert_eq!(add["baseRowId"].as_i64(), Some(next), "{adds:?}");
        assert_eq!(add["defaultRowCommitVersion"].as_u64(), Some(*version));
        next += rows;
    }
    assert_eq!(next, 1003);
    let told = table.actions("domainMetadata").pop().expect("a domain").1;
    assert_eq!(told["configuration"], json!(json!({"rowIdHighWaterMark": 1002}).to_string()));
}

#[test]
fn clustered_tables_have_statistics_of_what_they_are_clustered_by() {
    let (topic, schema) = (topic(1), schema(&[("id", "long"), ("a", "long"), ("b", "long")]));
    let properties = json!({"delta.dataSkippingNumIndexedCols": "1"});
    let table = featured(&schema, &[], &properties, &[], &["clustering", "domainMetadata"]);
    let domain = |column: &str| {
        let configuration = json!({"clusteringColumns": [[column]]}).to_string();
        json!({"domainMetadata": {"domain": "delta.clustering", "configuration": configuration, "removed": false}})
    };
    table.commit(&[domain("b")]);
    let running = Ingest::new(&topic, &table).start();
    topic.produce(messages([json!({"id": 1, "a": 2, "b": 3})]));
    table.wait_txn("app-0", 0);
    table.commit(&[domain("a")]);
    topic.produce(messages([json!({"id": 4, "a": 5, "b": 6})]));
    table.wait_txn("app-0", 1);
    running.stop();
    let kept: Vec<Value> = table.actions("add").iter().map(|(_, add)| stats(add)["minValues"].clone()).collect();
    assert_eq!(kept, [json!({"id": 1, "b": 3}), json!({"id": 4, "a": 5})]);
}

/// What only `ingest` keeps is refused for a view's table, before anything is read.
#[test]
fn views_refuse_tables_with_rules() {
    let table = Table::made(&schema(&[("id", "long")]), &[], &json!({"delta.constraints.c": "id > 0"}));
    let (topic, path) = (topic(1), table.path.display());
    let file = table.path.with_extension("sql");
    let broker = lakeward_testkit::Broker::shared().bootstrap();
    let state = table.path.with_extension("state");
    let sql = format!(
        "SET state = '{}';\nCREATE SOURCE s (id BIGINT) WITH (kafka = '{broker}', topic = '{}', format = 'json');\n\
         CREATE VIEW v AS SELECT id FROM s;\nCREATE SINK k FROM v WITH (delta = '{path}', mode = 'append');",
        state.display(),
        topic.name()
    );
    std::fs::write(&file, sql).expect("write the pipeline");
    let ended = run(&["run", &file.display().to_string(), "--until", "end"]);
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    assert!(ended.log.contains("constraint c (id > 0)"), "{}", ended.log);
    std::fs::remove_file(&file).expect("remove the pipeline");
}
