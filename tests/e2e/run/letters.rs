//! Dead letters: what could not be taken in, as a table. That each of its versions is exact, whatever dies, is judged
//! wherever [`Job`](crate::run::job::Job) is; here is what a letter says, and what becomes of it.

use serde_json::{Value, json};

use lakeward_testkit::Message;

use crate::ingest::{Ended, run};
use crate::run::job::{Pipeline, Sent};

/// A keyed source with a view that fails for `n` = 0, and perhaps a table of dead letters.
fn text(sent: &Sent, letters: &str) -> String {
    format!(
        "SET app_id = 'app'; SET state = '{{here}}/state'; SET step_latency_ms = 100; {letters}
         CREATE SOURCE t (id BIGINT PRIMARY KEY, n BIGINT) WITH (kafka = '{{kafka}}', topic = '{}');
         CREATE VIEW v AS SELECT id, 100 / n AS q FROM t;
         CREATE SINK s FROM v WITH (delta = '{{here}}/t', key = 'id');",
        sent.topic.name()
    )
}

const LETTERS: &str = "SET dead_letters = '{here}/dead';";

fn row(id: i64, n: i64) -> Message {
    Message::new(json!({"id": id, "n": n}).to_string()).to(0)
}

/// The letters, in the order of offsets, then of rows.
fn letters(pipeline: &Pipeline) -> Vec<Value> {
    let mut rows = pipeline.table("dead").query("select * from t");
    rows.sort_by_key(|row| (row["offset"].as_i64().unwrap_or(i64::MAX), row["row"].to_string()));
    rows
}

fn on(pipeline: &Pipeline, command: &str, arguments: &[&str]) -> Ended {
    let file = pipeline.file.display().to_string();
    let ended = run(&[&[command, &file], arguments].concat());
    assert_eq!(ended.code, Some(0), "{command}: {}", ended.log);
    ended
}

#[test]
fn a_letter_says_what_came_and_goes_when_its_row_is_right() {
    let (sent, pipeline) = (Sent::new(1), Pipeline::new(""));
    pipeline.write("pipe.sql", &text(&sent, LETTERS));
    sent.topic.produce([
        row(1, 5),
        Message::new(b"\xff\x00{".to_vec()).key(b"k\xfe".to_vec()).at(1_700_000_000_123).to(0),
        row(2, 0),
        Message::tombstone().at(1_700_000_000_124).to(0),
        row(3, 0),
    ]);
    let checked = on(&pipeline, "check", &[]);
    assert!(checked.log.contains("dead_letters: bad records and rows that fail into Delta table"), "{}", checked.log);
    pipeline.run_to_end(&[]);
    let topic = sent.topic.name();
    let bad = |offset: i64, ms: i64, key: Value, value: Value| {
        json!({"kind": "bad_record", "source": "t", "topic": topic, "partition": 0, "offset": offset,
               "timestamp": ms * 1000, "key": key, "value": value, "operator": null, "row": null})
    };
    let failed = |id: i64| {
        json!({"kind": "failed_row", "source": null, "topic": null, "partition": null, "offset": null,
               "timestamp": null, "key": null, "value": null, "row": format!(r#"{{"id":{id},"n":0}}"#)})
    };
    let hex = |text: &str| json!({"hex": text});
    let always =
        [bad(1, 1_700_000_000_123, hex("6bfe"), hex("ff007b")), bad(3, 1_700_000_000_124, Value::Null, Value::Null)];
    let expect = |rows: &[Value]| {
        let mut found = letters(&pipeline);
        for letter in &mut found {
            let detail = letter.as_object_mut().expect("a row").remove("detail").expect("a column");
            let detail = detail.as_str().expect("never NULL").to_owned();
            if letter["kind"] == "failed_row" {
                let operator = letter.as_object_mut().expect("a row").remove("operator").expect("a column");
                assert!(operator.as_str().is_some_and(|name| name.contains("Project")), "{operator}");
                assert!(detail.contains("ivide by zero"), "{detail}");
            } else {
                assert!(detail.contains("not_json: ") || detail.contains("null_in_not_null: "), "{detail}");
            }
        }
        assert_eq!(found, rows);
        on(&pipeline, "verify", &[]);
    };
    expect(&[&always[..], &[failed(2), failed(3)]].concat());
    let counted = on(&pipeline, "query", &["SELECT kind, COUNT(*) AS n FROM dead_letters GROUP BY kind ORDER BY kind"]);
    assert!(counted.log.contains("bad_record  2\nfailed_row  2\n"), "{}", counted.log);
    assert!(on(&pipeline, "status", &[]).log.contains("\ndead_letters "), "a line of its own");
    // Another process takes it up: one row is mended, one goes, one comes.
    sent.topic.produce([row(2, 50), Message::tombstone().key("3").to(0), row(4, 0)]);
    pipeline.run_to_end(&[]);
    expect(&[&always[..], &[failed(4)]].concat());
    assert_eq!(pipeline.table("t").query("select * from t"), [json!({"id": 1, "q": 20}), json!({"id": 2, "q": 2})]);
    // Made anew from the topic, nothing is there twice.
    std::fs::remove_dir_all(pipeline.folder.join("state")).expect("lose the state");
    sent.topic.produce([row(4, 25), row(5, 0)]);
    pipeline.run_to_end(&["--on-lost-state", "replay"]);
    expect(&[&always[..], &[failed(5)]].concat());
}

#[test]
fn the_table_can_go_and_comes_back_by_a_replay_alone() {
    let (sent, pipeline) = (Sent::new(1), Pipeline::new(""));
    let write = |letters: &str| pipeline.write("pipe.sql", &text(&sent, letters));
    write(LETTERS);
    sent.topic.produce([row(1, 1), row(2, 0), Message::new("{").to(0)]);
    pipeline.run_to_end(&[]);
    assert_eq!(letters(&pipeline).len(), 2);
    write("");
    sent.topic.produce([row(3, 0), Message::new("[").to(0)]);
    pipeline.run_to_end(&[]);
    write(LETTERS);
    sent.topic.produce([row(2, 2)]);
    let ended = pipeline.run(&["--until", "end"]);
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    assert!(ended.log.contains("--on-lost-state=replay"), "{}", ended.log);
    std::fs::remove_dir_all(pipeline.folder.join("state")).expect("empty the state store");
    pipeline.run_to_end(&["--on-lost-state", "replay"]);
    let places: Vec<Value> = letters(&pipeline).iter().map(|row| json!([row["offset"], row["row"]])).collect();
    let expected = [json!([2, null]), json!([4, null]), json!([null, r#"{"id":3,"n":0}"#])];
    assert_eq!(places, expected, "what came meanwhile as well");
    on(&pipeline, "verify", &[]);
}

#[test]
fn a_bad_record_that_stops_the_pipeline_is_no_letter() {
    let (sent, pipeline) = (Sent::new(1), Pipeline::new(""));
    let stop = text(&sent, LETTERS).replace("topic = '", "on_bad_record = 'stop', topic = '");
    pipeline.write("pipe.sql", &stop);
    sent.topic.produce([row(1, 0)]);
    pipeline.run_to_end(&[]);
    sent.topic.produce([row(2, 0), Message::new("{").to(0)]);
    assert_eq!(pipeline.run(&["--until", "end"]).code, Some(65));
    assert_eq!(letters(&pipeline).len(), 1, "nothing of the step is there");
    pipeline.write("pipe.sql", &text(&sent, LETTERS));
    pipeline.run_to_end(&[]);
    assert_eq!(letters(&pipeline).len(), 3);
}
