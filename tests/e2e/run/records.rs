//! Bad records and rows that fail: counted, told, and never in the way of the others.

use serde_json::{Value, json};

use lakeward_testkit::Message;

use crate::ingest::run;
use crate::run::job::{Pipeline, Sent};
use crate::{reader, wait_for};

/// A pipeline of one keyed source `t (id, n)` and one view of it, in mode upsert.
fn keyed(options: &str, view: &str, sink: &str) -> (Sent, Pipeline) {
    let (sent, pipeline) = (Sent::new(1), Pipeline::new(""));
    pipeline.write(
        "pipe.sql",
        &format!(
            "SET app_id = 'app'; SET state = '{{here}}/state'; SET step_latency_ms = 100;
             CREATE SOURCE t (id BIGINT PRIMARY KEY, n BIGINT)
               WITH (kafka = '{{kafka}}', topic = '{}', changes = 'op'{options});
             CREATE VIEW v AS {view};
             CREATE SINK s FROM v WITH (delta = '{{here}}/t', mode = 'upsert'{sink});",
            sent.topic.name()
        ),
    );
    (sent, pipeline)
}

fn update(id: i64, n: impl Into<Value>) -> (i32, Value) {
    (0, json!({"op": "update", "id": id, "n": n.into()}))
}

/// Waits until the table holds these rows, as its two readers see them.
fn wait_rows(pipeline: &Pipeline, expected: &[Value]) {
    pipeline.table("t").wait_version(1);
    wait_for(&format!("{expected:?}"), || {
        // By one reader, since a version may come between two.
        let rows = reader::query_with(&pipeline.folder.join("t"), "select * from t", &["deltalake"]);
        if rows == expected { Ok(()) } else { Err(format!("{rows:?}")) }
    });
    assert_eq!(pipeline.table("t").query("select * from t"), expected);
}

#[test]
fn a_row_that_fails_is_left_out_and_comes_back_when_it_is_right() {
    let (sent, pipeline) = keyed("", "SELECT id, 100 / n AS q, n + 9223372036854775800 AS big FROM t", ", key = 'id'");
    let big = |n: i64| 9_223_372_036_854_775_800_i64 + n;
    sent.produce(vec![update(1, 5), update(2, 0), update(3, 50)]);
    let running = pipeline.start(&[]);
    wait_rows(&pipeline, &[json!({"id": 1, "q": 20, "big": big(5)})]);
    running.wait_log("row left out");
    sent.produce(vec![update(2, 4), update(3, 2)]);
    let right = [(1, 20, 5), (2, 25, 4), (3, 50, 2)].map(|(id, q, n)| json!({"id": id, "q": q, "big": big(n)}));
    wait_rows(&pipeline, &right);
    sent.produce(vec![update(1, 0)]);
    wait_rows(&pipeline, &right[1..]);
    let log = running.stop().log;
    for part in ["ivide by zero", "verflow"] {
        assert!(log.contains(part), "no '{part}' in {log}");
    }
}

#[test]
fn a_bad_record_is_skipped_and_counted() {
    let (sent, pipeline) = keyed("", "SELECT id, n FROM t", ", key = 'id'");
    sent.produce(vec![update(1, 1)]);
    let bad = [
        "{\"op\":\"update\",\"id\":2,",
        "[]",
        r#"{"op":"update","id":"x"}"#,
        r#"{"op":"what","id":3}"#,
        r#"{"op":"update"}"#,
    ];
    sent.topic.produce(bad.map(|text| Message::new(text).to(0)));
    sent.topic.produce([Message::tombstone().to(0)]);
    sent.produce(vec![update(4, 4)]);
    let running = pipeline.start(&[]);
    wait_rows(&pipeline, &[json!({"id": 1, "n": 1}), json!({"id": 4, "n": 4})]);
    assert_eq!(running.metric("lakeward_bad_records_total"), 6.0, "five that are no change, and one that names no row");
    let log = running.stop().log;
    assert_eq!(log.matches("bad record left out").count(), 6, "{log}");
}

#[test]
fn a_message_without_a_value_deletes_the_row_of_its_key() {
    let (sent, pipeline) = (Sent::new(1), Pipeline::new(""));
    pipeline.write(
        "pipe.sql",
        &format!(
            "SET app_id = 'app'; SET state = '{{here}}/state'; SET step_latency_ms = 100;
             CREATE SOURCE t (id TEXT, n BIGINT, PRIMARY KEY (id)) WITH (kafka = '{{kafka}}', topic = '{}');
             CREATE VIEW v AS SELECT COUNT(*) AS rows, SUM(n) AS total FROM t;
             CREATE SINK s FROM t WITH (delta = '{{here}}/t', key = 'id');
             CREATE SINK w FROM v WITH (delta = '{{here}}/v');",
            sent.topic.name()
        ),
    );
    let row = |id: &str, n: i64| Message::new(json!({"id": id, "n": n}).to_string()).key(id).to(0);
    let gone = |key: &str| Message::tombstone().key(key).to(0);
    let first = [row("a", 1), row("b", 2), row("c", 4), gone("a"), gone("never"), row("a", 8), row("d", 16)];
    sent.topic.produce(first);
    pipeline.run_to_end(&[]);
    let expect = |rows: &[(&str, i64)]| {
        let all: Vec<Value> = rows.iter().map(|(id, n)| json!({"id": id, "n": n})).collect();
        assert_eq!(pipeline.table("t").query("select * from t"), all);
        let total: Option<i64> = (!rows.is_empty()).then(|| rows.iter().map(|(_, n)| n).sum());
        assert_eq!(pipeline.table("v").query("select * from t"), [json!({"rows": rows.len(), "total": total})]);
        let verified = run(&["verify", &pipeline.file.display().to_string()]);
        assert_eq!(verified.code, Some(0), "{}", verified.log);
    };
    expect(&[("a", 8), ("b", 2), ("c", 4), ("d", 16)]);
    // From a restored state, in each form that a key can have.
    sent.topic.produce([gone("a"), gone(r#""b""#), gone(r#"{"id":"c"}"#), row("d", 32), gone("a")]);
    pipeline.run_to_end(&[]);
    expect(&[("d", 32)]);
    sent.topic.produce([gone("d")]);
    pipeline.run_to_end(&[]);
    expect(&[]);
}

#[test]
fn a_bad_record_stops_the_pipeline_that_wants_that() {
    let (sent, pipeline) = keyed(", on_bad_record = 'stop'", "SELECT id, n FROM t", ", key = 'id'");
    sent.produce(vec![update(1, 1), update(2, 2)]);
    pipeline.run_to_end(&[]);
    sent.topic.produce([Message::new("{nonsense").to(0)]);
    let ended = pipeline.run(&["--until", "end"]);
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    let place = format!("{}-0 at offset 2", sent.topic.name());
    for part in [place.as_str(), "on_bad_record = 'skip'"] {
        assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
    }
    assert_eq!(pipeline.table("t").ids(), [1, 2]);
}

#[test]
fn a_key_that_is_null_or_names_two_rows_stops_the_pipeline() {
    #[rustfmt::skip] // columns: the sink's key, messages, what it says
    let cases: [(&str, [(i32, Value); 2], &[&str]); 2] = [
        ("n", [update(1, 7), update(2, Value::Null)], &["holds NULL", "COALESCE"]),
        ("n", [update(1, 7), update(2, 7)],           &["n = 7", "does not name the view's rows"]),
    ];
    for (key, messages, says) in cases {
        let (sent, pipeline) = keyed("", "SELECT id, n FROM t", &format!(", key = '{key}'"));
        sent.produce(vec![update(9, 9)]);
        pipeline.run_to_end(&[]);
        sent.produce(messages.to_vec());
        let ended = pipeline.run(&["--until", "end"]);
        assert_eq!(ended.code, Some(65), "{}", ended.log);
        for part in says {
            assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
        }
        assert_eq!(pipeline.table("t").ids(), [9], "nothing of the step is there");
    }
}
