//! Tables that Spark made, with all that it can ask of a writer: we fill them, Spark's own checks hold over our rows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{ask, assert_proven, created, ids, query, sql, try_sql};
use crate::ingest::Ingest;
use crate::{ids as messages_of, json as messages, topic};

#[test]
fn mapped_columns_that_spark_adds_renames_and_drops_between_our_runs() {
    for mode in ["name", "id"] {
        let (topic, table) = (
            topic(1),
            created(&format!(
                "(id BIGINT, `a b` STRING, gone INT, inner STRUCT<x: INT, y: STRING>, `p, q` STRING) USING delta \
             PARTITIONED BY (`p, q`) TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"
            )),
        );
        let ingest = Ingest::new(&topic, &table);
        topic.produce(messages([
            json!({"id": 1, "a b": "one", "gone": 5, "inner": {"x": 1, "y": "y"}, "p, q": "k=/v"}),
        ]));
        ingest.run_to_end();
        sql(
            &table,
            &[
                "ALTER TABLE {t} RENAME COLUMN `a b` TO name",
                "ALTER TABLE {t} DROP COLUMN gone",
                "ALTER TABLE {t} ADD COLUMNS (gone STRING, inner.z DOUBLE)",
                "ALTER TABLE {t} RENAME COLUMN inner.x TO xx",
            ],
        );
        topic.produce(messages([
            json!({"id": 2, "name": "two", "gone": "back", "a b": "no", "inner": {"xx": 2, "z": 0.5, "x": 9}}),
        ]));
        ingest.run_to_end();
        // A column comes by us, and Spark renames it.
        topic.produce(messages([json!({"id": 3, "came": {"q": 3}})]));
        ingest.clone().with(&["--evolve"]).run_to_end();
        sql(&table, &["ALTER TABLE {t} RENAME COLUMN came.q TO r"]);
        topic.produce(messages([json!({"id": 4, "came": {"r": 4}})]));
        ingest.run_to_end();
        let rows = query(&table.path, "select * from t");
        let null = Value::Null;
        let row = |id: i64, name: Value, gone: Value, inner: Value, pq: Value, came: Value| {
            json!({"id": id, "name": name,
            "gone": gone, "inner": inner, "p, q": pq, "came": came})
        };
        let expected = [
            row(1, json!("one"), null.clone(), json!({"xx": 1, "y": "y", "z": null}), json!("k=/v"), null.clone()),
            row(2, json!("two"), json!("back"), json!({"xx": 2, "y": null, "z": 0.5}), null.clone(), null.clone()),
            row(3, null.clone(), null.clone(), null.clone(), null.clone(), json!({"r": 3})),
            row(4, null.clone(), null.clone(), null.clone(), null.clone(), json!({"r": 4})),
        ];
        assert_eq!(rows, expected, "{mode}");
        assert_eq!(query(&table.path, "select id from t where `inner`.xx = 2"), [json!({"id": 2})], "{mode}");
        assert_proven(&table);
    }
}

#[test]
fn a_mapping_that_spark_turns_on_while_we_run_is_followed() {
    let (topic, table) = (topic(1), created("(id BIGINT, date STRING) USING delta"));
    let running = Ingest::new(&topic, &table).with(&["-l", "1"]).start();
    topic.produce(messages_of(0..20, 1));
    table.wait_txn("app-0", 19);
    sql(
        &table,
        &[
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "ALTER TABLE {t} RENAME COLUMN date TO day",
        ],
    );
    topic.produce(messages((20..40).map(|id| json!({"id": id, "day": "new"}))));
    table.wait_txn("app-0", 39);
    running.stop();
    assert_eq!(ids(&table), (0..40).collect::<Vec<i64>>());
    let days = query(&table.path, "select day, count(*) as id from t group by day order by day");
    assert_eq!(days, [json!({"day": "2024-01-01", "id": 20}), json!({"day": "new", "id": 20})]);
    assert_proven(&table);
}

#[test]
fn rules_that_spark_made_hold_over_our_rows_by_sparks_own_check() {
    let table = created(
        "(id BIGINT NOT NULL, n INT, level STRING DEFAULT 'info', c CHAR(3), v VARCHAR(3), ts TIMESTAMP, \
         day DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), month STRING GENERATED ALWAYS AS (date_format(ts, 'yyyy-MM'))) \
         USING delta PARTITIONED BY (day) TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    );
    sql(&table, &["ALTER TABLE {t} ADD CONSTRAINT small CHECK (n IS NULL OR (n > 0 AND n < 100))"]);
    let topic = topic(1);
    topic.produce(messages([
        json!({"id": 1, "n": 5, "c": "a", "v": "abc", "ts": "2024-02-29T23:59:59Z"}),
        json!({"id": 2, "n": 500}),
        json!({"id": 3, "level": "warn", "ts": "1969-12-31T23:00:00Z", "day": "1969-12-31"}),
        json!({"id": 4, "ts": "2024-01-01T00:00:00Z", "day": "2024-01-02"}),
        json!({"id": 5, "v": "abcd"}),
        json!({"n": 6}),
        json!({"id": 7, "level": null, "c": "abc", "v": "ñ  "}),
    ]));
    let ended = Ingest::new(&topic, &table).run_to_end();
    let rows = query(&table.path, "select id, n, level, c, v, cast(day as string) as day, month from t");
    let row = |id: i64, n: Value, level: Value, c: Value, v: Value, day: Value, month: Value| {
        json!({"id": id, "n": n,
        "level": level, "c": c, "v": v, "day": day, "month": month})
    };
    let null = Value::Null;
    let expected = [
        row(1, json!(5), json!("info"), json!("a  "), json!("abc"), json!("2024-02-29"), json!("2024-02")),
        row(3, null.clone(), json!("warn"), null.clone(), null.clone(), json!("1969-12-31"), json!("1969-12")),
        row(7, null.clone(), null.clone(), json!("abc"), json!("ñ  "), null.clone(), null.clone()),
    ];
    assert_eq!(rows, expected, "{}", ended.log);
    // Adding a constraint has Spark check every row that is there.
    sql(
        &table,
        &[
            "ALTER TABLE {t} ADD CONSTRAINT again CHECK (n IS NULL OR (n > 0 AND n < 100))",
            "ALTER TABLE {t} ADD CONSTRAINT made CHECK (day <=> CAST(ts AS DATE) AND month <=> date_format(ts, 'yyyy-MM'))",
            "ALTER TABLE {t} ADD CONSTRAINT chars CHECK (c IS NULL OR length(c) = 3)",
        ],
    );
    let refused = try_sql(&table, "ALTER TABLE {t} ADD CONSTRAINT smaller CHECK (n IS NULL OR n < 5)");
    assert!(
        refused.is_err_and(|error| error.contains("smaller") || error.contains("CHECK")),
        "Spark looks at our rows"
    );
    // And Spark rewrites our rows under all these rules.
    sql(&table, &["UPDATE {t} SET n = 6 WHERE id = 1"]);
    assert_eq!(query(&table.path, "select n, month from t where id = 1"), [json!({"n": 6, "month": "2024-02"})]);
    assert_proven(&table);
}

#[test]
fn types_that_spark_and_we_make_wider() {
    let (topic, table) = (
        topic(1),
        created(
            "(id BIGINT, n TINYINT, f FLOAT, inner STRUCT<b: TINYINT, list: ARRAY<SMALLINT>>) USING delta \
         TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        ),
    );
    let ingest = Ingest::new(&topic, &table);
    let row = |id: i64, n: i64, f: f64, b: i64, item: i64| json!({"id": id, "n": n, "f": f, "inner": {"b": b, "list": [item]}});
    let sent = [
        row(1, 1, 0.5, 1, 1),
        row(2, 300, 0.25, 2, 2),
        row(3, 3_000_000_000, 1.5, 70_000, 40_000),
        row(4, 4, 1.0e300, 4, 4),
    ];
    topic.produce(messages([sent[0].clone()]));
    ingest.run_to_end();
    sql(&table, &["ALTER TABLE {t} ALTER COLUMN n TYPE SMALLINT"]);
    topic.produce(messages([sent[1].clone()]));
    ingest.run_to_end();
    topic.produce(messages([sent[2].clone(), sent[3].clone()]));
    ingest.clone().with(&["--evolve"]).run_to_end();
    assert_eq!(query(&table.path, "select * from t"), sent);
    for (filter, id) in [("n > 2999999999", 3), ("f > 1e299", 4), ("\"inner\".b = 70000", 3)] {
        assert_eq!(query(&table.path, &format!("select id from t where {filter}")), [json!({"id": id})], "{filter}");
    }
    // All files are written anew in the new types.
    sql(&table, &["OPTIMIZE {t}"]);
    assert_eq!(query(&table.path, "select * from t"), sent);
    assert_proven(&table);
}

#[test]
fn rows_keep_their_ids_through_sparks_optimize_and_merge() {
    let (topic, table) = (
        topic(1),
        created(
            "(id BIGINT, date STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true', \
         'delta.enableDeletionVectors' = 'false')",
        ),
    );
    let row_ids = || -> BTreeMap<i64, i64> {
        let rows = sql(&table, &["SELECT id, _metadata.row_id AS r FROM {t}"]);
        rows.iter().map(|row| (row["id"].as_i64().expect("an id"), row["r"].as_i64().expect("a row id"))).collect()
    };
    topic.produce(messages_of(0..50, 1));
    Ingest::new(&topic, &table).run_to_end();
    sql(&table, &["INSERT INTO {t} VALUES (1000, 'spark')"]);
    topic.produce(messages_of(50..80, 1));
    Ingest::new(&topic, &table).run_to_end();
    let before = row_ids();
    assert_eq!((before.len(), before.values().collect::<BTreeSet<_>>().len()), (81, 81), "{before:?}");
    sql(
        &table,
        &[
            "OPTIMIZE {t}",
            "MERGE INTO {t} t USING (SELECT 7 AS id UNION ALL SELECT 2000 AS id) s ON t.id = s.id \
         WHEN MATCHED THEN UPDATE SET date = 'merged' WHEN NOT MATCHED THEN INSERT (id, date) VALUES (s.id, 'new')",
        ],
    );
    topic.produce(messages_of(80..90, 1));
    Ingest::new(&topic, &table).run_to_end();
    let after = row_ids();
    assert_eq!((after.len(), after.values().collect::<BTreeSet<_>>().len()), (92, 92), "{after:?}");
    assert!(before.iter().all(|(id, row)| after.get(id) == Some(row)), "before {before:?}, after {after:?}");
    assert_proven(&table);
}

#[test]
fn a_clustered_table_is_optimized_over_our_files() {
    let (topic, table) = (topic(1), created("(id BIGINT, k BIGINT, far STRING) USING delta CLUSTER BY (k)"));
    topic.produce(messages((0..200).map(|id| json!({"id": id, "k": (id * 37) % 200, "far": "f"}))));
    Ingest::new(&topic, &table).run_to_end();
    let files = table.actions("add").len();
    sql(&table, &["OPTIMIZE {t}"]);
    let removed = table.actions("remove").len();
    assert!(removed > 1 && removed <= files, "{removed} of {files} files were clustered");
    topic.produce(messages((200..220).map(|id| json!({"id": id, "k": id, "far": "f"}))));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(ids(&table), (0..220).collect::<Vec<i64>>());
    assert_eq!(query(&table.path, "select id from t where k = 37"), [json!({"id": 1})]);
    assert_proven(&table);
}

#[test]
fn the_change_feed_has_our_rows_as_inserts_each_once() {
    let (topic, table) = (
        topic(1),
        created("(id BIGINT, date STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"),
    );
    topic.produce(messages_of(0..30, 1));
    Ingest::new(&topic, &table).run_to_end();
    sql(&table, &["DELETE FROM {t} WHERE id = 3", "UPDATE {t} SET date = 'new' WHERE id = 4"]);
    topic.produce(messages_of(30..40, 1));
    Ingest::new(&topic, &table).run_to_end();
    let feed = format!(
        "select id, _change_type as kind from table_changes_by_path('{}', 0) order by id, kind",
        table.path.display()
    );
    let changes = sql(&table, &[&feed]);
    let of = |id: i64| -> Vec<&str> {
        changes.iter().filter(|row| row["id"] == id).map(|row| row["kind"].as_str().expect("a kind")).collect()
    };
    for id in 0..40 {
        let expected: &[&str] = match id {
            3 => &["delete", "insert"],
            4 => &["insert", "update_postimage", "update_preimage"],
            _ => &["insert"],
        };
        assert_eq!(of(id), expected, "id {id}");
    }
}

#[test]
fn in_commit_timestamps_rise_and_spark_travels_by_them() {
    let (topic, table) = (
        topic(1),
        created("(id BIGINT, date STRING) USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"),
    );
    for first in [0, 10, 20] {
        topic.produce(messages_of(first..first + 10, 1));
        Ingest::new(&topic, &table).with(&["-m", "5000", "-b", "134217728"]).run_to_end();
        sql(&table, &["INSERT INTO {t} VALUES (-1, 'spark')"]);
    }
    let history = sql(&table, &["DESCRIBE HISTORY {t}"]);
    let newest_first: Vec<i64> = history.iter().map(|row| row["timestamp"].as_i64().expect("a time")).collect();
    assert!(newest_first.windows(2).all(|pair| pair[0] > pair[1]), "{newest_first:?}");
    for row in &history {
        let version = row["version"].as_i64().expect("a version");
        let at = row["timestamp"].as_i64().expect("a time");
        let read = |place: (&str, i64)| {
            let request = json!({"do": "query", "table": table.path, "sql": "select id from t", place.0: place.1});
            ask(&request).unwrap_or_else(|error| panic!("{request}: {error}"))
        };
        let by_version = read(("version", version));
        let grown = by_version.as_array().map(Vec::len);
        assert!(version == 0 || grown > Some(0), "version {version} has {grown:?} rows");
        assert_eq!(read(("at_us", at)), by_version, "version {version}");
    }
}
