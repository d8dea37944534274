//! Sources whose messages are no plain JSON: Avro by a registry, by files, Protobuf, raw, and Debezium's events.

use apache_avro::Codec;
use lakeward_testkit::{Message, Registry, Topic, framed};
use serde_json::{Value, json};

use crate::formats::{bare, container, schema_file};
use crate::ingest::run;
use crate::registry::{RECORD, bytes, number, record, to_0, varint};
use crate::run::job::Pipeline;
use crate::{reader, topic, wait_for};

/// A pipeline of one source `t` of these columns, and one view of it.
fn over(topic: &Topic, columns: &str, options: &str, view: &str, sink: &str) -> Pipeline {
    Pipeline::new(&format!(
        "SET app_id = 'app'; SET state = '{{here}}/state'; SET step_latency_ms = 100;
         CREATE SOURCE t ({columns}) WITH (kafka = '{{kafka}}', topic = '{}'{options});
         CREATE VIEW v AS {view};
         CREATE SINK s FROM v WITH (delta = '{{here}}/t'{sink});",
        topic.name()
    ))
}

fn verified(pipeline: &Pipeline) {
    let ended = run(&["verify", &pipeline.file.display().to_string()]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
}

fn wait_rows(pipeline: &Pipeline, expected: &[Value]) {
    pipeline.table("t").wait_version(1);
    wait_for(&format!("{expected:?}"), || {
        let rows = reader::query_with(&pipeline.folder.join("t"), "select * from t", &["deltalake"]);
        if rows == expected { Ok(()) } else { Err(format!("{rows:?}")) }
    });
}

/// K64 by step: while the registry is down messages wait, what came before is committed, and none is a bad record.
#[test]
fn k64_a_view_waits_for_the_registry_and_loses_nothing() {
    let (registry, topic) = (Registry::own(), topic(1));
    let known = registry.register("known", "AVRO", RECORD, &[]);
    let unknown = registry.register("unknown", "AVRO", &RECORD.replace("\"R\"", "\"Other\""), &[]);
    let of = |schema, ids: std::ops::Range<u64>| {
        to_0(ids.map(|id| framed(schema, &record(id, "test", "2023-06-30"))).collect::<Vec<_>>())
    };
    let options = format!(", format = 'avro', registry = '{}'", registry.url());
    let view = "SELECT name AS id, COUNT(*) AS n, CAST(SUM(id) AS BIGINT) AS total FROM t GROUP BY name";
    let pipeline = over(&topic, "id BIGINT, name TEXT", &options, view, ", mode = 'upsert', key = 'id'");
    topic.produce(of(known, 0..10));
    let running = pipeline.start(&[]);
    wait_rows(&pipeline, &[json!({"id": "test", "n": 10, "total": 45})]);
    registry.stop();
    topic.produce(of(known, 10..20));
    topic.produce(of(unknown, 20..30));
    topic.produce(of(known, 30..40));
    running.wait_log("the schema registry does not answer");
    wait_rows(&pipeline, &[json!({"id": "test", "n": 20, "total": 190})]);
    let ended = running.stop();
    assert!(ended.log.contains("nothing is lost, trying again"), "{}", ended.log);

    let check = run(&["check", &pipeline.file.display().to_string()]);
    assert_eq!(check.code, Some(78), "{}", check.log);
    assert!(check.log.contains("WRONG: the schema registry does not answer"), "{}", check.log);
    let running = pipeline.start(&[]);
    running.wait_log("the schema registry does not answer");
    registry.start();
    wait_rows(&pipeline, &[json!({"id": "test", "n": 40, "total": 780})]);
    assert_eq!(running.metric("lakeward_bad_records_total"), 0.0);
    running.stop();
    verified(&pipeline);
}

#[test]
fn formats_go_by_partition_as_well() {
    let (registry, file) = (Registry::shared(), schema_file().display().to_string());
    let framing = registry.register("by-partition", "AVRO", RECORD, &[]);
    let by_registry = |id: u64| framed(framing, &record(id, "test", "2023-06-30"));
    let json = registry.register(
        "by-partition-json",
        "JSON",
        r#"{"type":"object","properties":{"id":{"type":"integer"}}}"#,
        &[],
    );
    let by_json = |id: u64| framed(json, format!(r#"{{"id":{id}}}"#).as_bytes());
    let zstd = |id: u64| zstd::encode_all(format!(r#"{{"id":{id}}}"#).as_bytes(), 3).expect("memory takes it");
    #[rustfmt::skip] // columns: options, messages that are rows 1 to 3, and a bad one among them
    let cases: [(String, Vec<Vec<u8>>); 5] = [
        (format!("format = 'avro', registry = '{}'", registry.url()),
            vec![by_registry(1), by_registry(2), framed(framing + 100_000, b"x"), by_registry(3)]),
        (format!("registry = '{}'", registry.url()), vec![by_json(1), b"{}".to_vec(), by_json(2), by_json(3)]),
        ("format = 'avro'".to_owned(),
            vec![container(Codec::Null, [1, 2]), b"none".to_vec(), container(Codec::Null, []), container(Codec::Null, [3])]),
        (format!("format = 'avro', schema = '{file}'"), vec![bare(1), container(Codec::Null, [2, 3]), b"\x02".to_vec()]),
        ("compression = 'zstd'".to_owned(), vec![zstd(1), b"{}".to_vec(), zstd(2), zstd(3)]),
    ];
    for (options, values) in cases {
        let topic = topic(1);
        topic.produce(to_0(values));
        let pipeline = over(&topic, "id BIGINT", &format!(", {options}"), "SELECT id, id * 2 AS twice FROM t", "");
        let ended = pipeline.run_to_end(&[]);
        assert!(ended.log.contains("by partition"), "{}", ended.log);
        let rows = [1, 2, 3].map(|id| json!({"id": id, "twice": id * 2}));
        assert_eq!(pipeline.table("t").query("select * from t"), rows, "{options}: {}", ended.log);
        assert_eq!(ended.log.matches("bad record left out").count(), 1, "{options}: {}", ended.log);
        verified(&pipeline);
    }
}

#[test]
fn protobuf_and_raw_messages_are_rows() {
    let topic = topic(1);
    // What protoc writes for: syntax = "proto3"; package p; message M { int32 id = 1; }
    let field = [bytes(1, b"id"), number(3, 1), number(4, 1), number(5, 5), bytes(10, b"id")].concat();
    let file = [bytes(1, b"m.proto"), bytes(2, b"p"), bytes(4, &[bytes(1, b"M"), bytes(2, &field)].concat())].concat();
    let path = crate::scratch("descriptors");
    std::fs::write(&path, bytes(1, &[file, bytes(12, b"proto3")].concat())).expect("write the descriptors");
    topic.produce(to_0([number(1, 5), vec![]]));
    let options = format!(", format = 'protobuf', schema = '{}', message = 'p.M'", path.display());
    let sum = "SELECT 1 AS id, CAST(SUM(id) AS BIGINT) AS total, COUNT(*) AS n FROM t";
    let pipeline = over(&topic, "id BIGINT", &options, sum, ", mode = 'upsert', key = 'id'");
    pipeline.run_to_end(&[]);
    assert_eq!(pipeline.table("t").query("select * from t"), [json!({"id": 1, "total": 5, "n": 2})]);
    verified(&pipeline);

    let columns = r#"value BYTEA, key TEXT, partition INT, "offset" BIGINT, headers STRUCT<key TEXT, value BYTEA>[]"#;
    let raw = crate::topic(1);
    raw.produce([Message::new("x").key("k").header("h", "1").to(0), Message::new(vec![0xff]).to(0)]);
    let view = r#"SELECT "offset" AS id, encode(value, 'hex') AS hex, key, headers[1]['key'] AS header FROM t"#;
    let pipeline = over(&raw, columns, ", format = 'raw'", view, "");
    pipeline.run_to_end(&[]);
    let rows = pipeline.table("t").query("select id, hex, key, header from t");
    let expected = [
        json!({"id": 0, "hex": "78", "key": "k", "header": "h"}),
        json!({"id": 1, "hex": "ff", "key": null, "header": null}),
    ];
    assert_eq!(rows, expected);
    verified(&pipeline);
}

/// Events of a table `(id int key, v string)` in Avro, as Debezium writes them with Confluent's converter.
struct Avro {
    event: u32,
    key: u32,
}

impl Avro {
    fn new(topic: &Topic) -> Self {
        let value = r#"{"type":"record","name":"Value","namespace":"d","fields":[{"name":"id","type":"int"},
            {"name":"v","type":["null","string"],"default":null}]}"#;
        let event = format!(
            r#"{{"type":"record","name":"Envelope","namespace":"d","fields":[{{"name":"before","type":["null",{value}]}},
               {{"name":"after","type":["null","d.Value"]}},{{"name":"op","type":"string"}}]}}"#
        );
        let key = r#"{"type":"record","name":"Key","namespace":"d","fields":[{"name":"id","type":"int"}]}"#;
        let registry = Registry::shared();
        Self {
            event: registry.register(&format!("{}-value", topic.name()), "AVRO", &event, &[]),
            key: registry.register(&format!("{}-key", topic.name()), "AVRO", key, &[]),
        }
    }

    fn key(&self, id: u64) -> Vec<u8> {
        framed(self.key, &varint(id * 2))
    }

    fn event(&self, op: char, id: u64, v: &str) -> Message {
        let some = |v: &str| {
            [varint(2), varint(id * 2), varint(2), varint(v.len() as u64 * 2), v.as_bytes().to_vec()].concat()
        };
        // Of a row that goes databases tell the key alone.
        let gone = [varint(2), varint(id * 2), varint(0)].concat();
        let (before, after) = if op == 'd' { (gone, varint(0)) } else { (varint(0), some(v)) };
        Message::new(framed(self.event, &[before, after, varint(2), vec![op as u8]].concat())).key(self.key(id)).to(0)
    }

    fn tombstone(&self, id: u64) -> Message {
        Message::tombstone().key(self.key(id)).to(0)
    }
}

/// The same in JSON, with the schema beside each value and key, or without.
fn event_json(op: char, id: u64, v: &str, enveloped: bool) -> Message {
    let row = json!({"id": id, "v": v});
    let (before, after) = if op == 'd' { (json!({"id": id, "v": null}), Value::Null) } else { (Value::Null, row) };
    let event = json!({"op": op.to_string(), "before": before, "after": after, "ts_ms": 1});
    Message::new(wrapped(event, enveloped)).key(wrapped(json!({"id": id}), enveloped)).to(0)
}

fn wrapped(payload: Value, enveloped: bool) -> String {
    if enveloped { json!({"schema": {"type": "struct"}, "payload": payload}).to_string() } else { payload.to_string() }
}

/// S41, S42, S43: keys that change, deletes with their tombstones, snapshots that come again; all at once, and event by event.
#[test]
fn events_of_debezium_keep_a_table_as_the_database_has_it() {
    let all: [(char, u64, &str); 11] = [
        ('d', 9, ""),
        ('r', 1, "a"),
        ('r', 2, "b"),
        ('u', 1, "c"),
        ('r', 1, "c"),
        ('r', 2, "b"),
        ('d', 1, ""),
        ('-', 1, ""),
        ('c', 3, "c"),
        ('d', 2, ""),
        ('c', 2, "e"),
    ];
    let columns = "id BIGINT PRIMARY KEY, v TEXT NOT NULL";
    for (encoding, at_once) in [("avro", true), ("avro", false), ("json", true), ("enveloped", false)] {
        let topic = topic(1);
        let avro = Avro::new(&topic);
        let messages = all.map(|(op, id, v)| match (encoding, op) {
            ("avro", '-') => avro.tombstone(id),
            ("avro", _) => avro.event(op, id, v),
            (_, '-') => Message::tombstone().key(wrapped(json!({"id": id}), encoding == "enveloped")).to(0),
            _ => event_json(op, id, v, encoding == "enveloped"),
        });
        let registry = format!(", format = 'avro', registry = '{}'", Registry::shared().url());
        let options = if encoding == "avro" { registry } else { String::new() };
        let options = format!("{options}, debezium = true, on_bad_record = 'stop'");
        let pipeline = over(&topic, columns, &options, "SELECT id, v FROM t", ", mode = 'upsert', key = 'id'");
        if at_once {
            topic.produce(messages);
            pipeline.run_to_end(&[]);
        } else {
            for message in messages {
                topic.produce([message]);
                pipeline.run_to_end(&[]);
            }
        }
        let expected = [json!({"id": 2, "v": "e"}), json!({"id": 3, "v": "c"})];
        assert_eq!(pipeline.table("t").query("select * from t"), expected, "{encoding}, at once: {at_once}");
        verified(&pipeline);
    }
}

/// A truncation says of no row that it goes: nothing goes on as if none had gone.
#[test]
fn a_truncated_table_stops_its_pipeline() {
    let topic = topic(1);
    topic.produce([event_json('c', 1, "a", false), Message::new(json!({"op": "t"}).to_string()).to(0)]);
    let columns = "id BIGINT PRIMARY KEY, v TEXT";
    let pipeline = over(&topic, columns, ", debezium = true", "SELECT id, v FROM t", ", mode = 'upsert', key = 'id'");
    let ended = pipeline.run(&[]);
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    assert!(ended.log.contains("-0 at offset 1: the table behind the topic was truncated"), "{}", ended.log);
}

#[test]
fn what_a_source_is_written_in_is_checked_before_anything_is_done() {
    let topic = topic(1);
    let check = |options: &str, arguments: &[&str]| {
        let pipeline = over(&topic, "id BIGINT", options, "SELECT id FROM t", "");
        run(&[&["check", &pipeline.file.display().to_string()], arguments].concat())
    };
    let file = schema_file().display().to_string();
    #[rustfmt::skip] // columns: options, exit code, what is said
    let cases = [
        (", format = 'avro', schema = '/nowhere/a.avsc'".to_owned(), 78, "source t: schema /nowhere/a.avsc: No such file"),
        (format!(", format = 'protobuf', schema = '{file}', message = 'M'"), 78, "source t: schema /"),
        (", registry = 'nothing'".to_owned(), 78, "source t: registry = 'nothing' is no address of a schema registry"),
        (", format = 'csv'".to_owned(), 78, "'json' or 'avro' or 'protobuf' or 'raw'"),
        (format!(", format = 'avro', schema = '{file}'"), 0, "1 column of Avro by /"),
    ];
    for (options, code, said) in cases {
        let ended = check(&options, &["--offline"]);
        assert_eq!(ended.code, Some(code), "{options}: {}", ended.log);
        assert!(ended.log.contains(said), "{options}: no '{said}' in {}", ended.log);
    }
    let url = Registry::shared().url();
    let ended = check(&format!(", format = 'avro', registry = '{url}'"), &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.log.contains(&format!("Avro by the registry at {url}")), "{}", ended.log);
}
