//! Debezium's change events as flat rows: JSON with and without its schema, and Avro.

use apache_avro::Schema as Judge;
use apache_avro::types::Value;

use super::avro::{schema_of, written};
use super::*;
use crate::avro::Form;
use crate::{Debezium, Encoding, Format};

fn events(table: &SchemaRef, transforms: &[&str], encoding: Encoding) -> Decoder {
    wanted(Debezium::Rows, table, transforms, encoding)
}

fn wanted(debezium: Debezium, table: &SchemaRef, transforms: &[&str], encoding: Encoding) -> Decoder {
    let format = Format { encoding, debezium, ..Format::default() };
    Decoder::with_format(table, "web", &Transforms::parse(transforms).expect("transforms"), &format).expect("a plan")
}

fn plain() -> SchemaRef {
    table(vec![column("id", DataType::Int64), column("name", DataType::Utf8)])
}

fn telling() -> SchemaRef {
    table(vec![
        column("id", DataType::Int64),
        column("name", DataType::Utf8),
        column("__op", DataType::Utf8),
        column("__deleted", DataType::Boolean),
        column("__ts_ms", DataType::Int64),
        column("__source_lsn", DataType::Int64),
        column("__table", DataType::Utf8),
    ])
}

const TOLD: &str = r#""source":{"lsn":7,"table":"t","ts_ms":1},"ts_ms":5"#;

/// What a decoder makes of messages: rows, and `!kind` of what is bad.
fn made(decoder: &mut Decoder, messages: &[&[u8]]) -> Vec<String> {
    let decoded = decoder.decode(&records(messages.iter().copied()));
    let bad = decoded.bad.iter().map(|bad| format!("!{}", bad.kind));
    rows(&decoded.batch).into_iter().chain(bad).collect()
}

#[test]
fn json_events_become_their_rows() {
    let event =
        |op: &str, before: &str, after: &str| format!(r#"{{"before":{before},"after":{after},{TOLD},"op":"{op}"}}"#);
    let a = r#"{"id":1,"name":"a"}"#;
    #[rustfmt::skip] // event, row of a table that tells deleted rows, row of one that does not
    let cases = [
        (event("c", "null", a), "id=1 name=\"a\" __op=\"c\" __deleted=false __ts_ms=5 __source_lsn=7 __table=\"t\"", "id=1 name=\"a\""),
        (event("u", a, r#"{"id":1,"name":null}"#), "id=1 name=null __op=\"u\" __deleted=false __ts_ms=5 __source_lsn=7 __table=\"t\"", "id=1 name=null"),
        (event("r", "null", " { } "), "id=null name=null __op=\"r\" __deleted=false __ts_ms=5 __source_lsn=7 __table=\"t\"", "id=null name=null"),
        (event("d", a, "null"), "id=1 name=\"a\" __op=\"d\" __deleted=true __ts_ms=5 __source_lsn=7 __table=\"t\"", ""),
        (event("t", "null", "null"), "id=null name=null __op=\"t\" __deleted=false __ts_ms=5 __source_lsn=7 __table=\"t\"", ""),
        (event("c", a, "null"), "!not_an_object", "!not_an_object"),
        (event("x", "null", a), "!not_an_object", "!not_an_object"),
        (a.to_owned(), "!not_an_object", "!not_an_object"),
        (event("c", "null", r#"{"id":"x"}"#), "!wrong_type", "!wrong_type"),
        (event("c", "null", "{]"), "!not_json", "!not_json"),
        ("[1]".to_owned(), "!not_an_object", "!not_an_object"),
        (format!(r#"{{"schema":null,"payload":{}}}"#, event("c", "null", a)), "id=1 name=\"a\" __op=\"c\" __deleted=false __ts_ms=5 __source_lsn=7 __table=\"t\"", "id=1 name=\"a\""),
        (r#"{"schema":null,"payload":null}"#.to_owned(), "", ""),
    ];
    for (event, with, without) in cases {
        for (table, expected) in [(telling(), with), (plain(), without)] {
            let found = made(&mut events(&table, &[], Encoding::Json), &[event.as_bytes()]);
            assert_eq!(found.concat(), expected, "{event}");
        }
    }
}

#[test]
fn rows_that_are_there_and_rows_before() {
    let event = |op: &str, before: &str, after: &str| format!(r#"{{"before":{before},"after":{after},"op":"{op}"}}"#);
    let (a, b) = (r#"{"id":1,"name":"a"}"#, r#"{"id":2,"name":"b"}"#);
    #[rustfmt::skip] // event, the row that is there, the row before
    let cases = [
        (event("c", "null", a),      "id=1 name=\"a\"", ""),
        (event("u", "null", a),      "id=1 name=\"a\"", ""),
        (event("u", b, a),           "id=1 name=\"a\"", "id=2 name=\"b\""),
        (event("d", a, "null"),      "",                "id=1 name=\"a\""),
        (event("d", "null", "null"), "",                "!not_an_object"),
        (event("t", "null", "null"), "!not_an_object",  ""),
        (event("m", "null", "null"), "",                ""),
        (event("x", "null", a),      "!not_an_object",  "!not_an_object"),
    ];
    for (event, living, before) in cases {
        for (debezium, expected) in [(Debezium::Living, living), (Debezium::Before, before)] {
            let found = made(&mut wanted(debezium, &plain(), &[], Encoding::Json), &[event.as_bytes()]);
            assert_eq!(found.concat(), expected, "{debezium:?}: {event}");
        }
    }
    let deleted = format!("{} __deleted=false", r#"id=1 name="a" __op="u""#);
    let told = made(&mut wanted(Debezium::Living, &telling(), &[], Encoding::Json), &[event("u", b, a).as_bytes()]);
    assert!(told.concat().starts_with(&deleted), "the event's own columns are filled: {told:?}");
}

#[test]
fn keys_with_and_without_their_schema() {
    let schema = r#"{"type":"struct","fields":[{"field":"id","type":"bytes","name":"org.apache.kafka.connect.data.Decimal",
        "parameters":{"scale":"0"}}]}"#;
    let table = table(vec![column("id", DataType::Decimal128(10, 0))]);
    let cases = [
        (r#"{"id":7}"#.to_owned(), "id=7"),
        (r#" {"schema":null,"payload":{"id":7}} "#.to_owned(), "id=7"),
        (format!(r#"{{"schema":{schema},"payload":{{"id":"MDk="}}}}"#), "id=12345"),
        (r#"{"schema":null,"payload":null}"#.to_owned(), "!not_an_object"),
        (r#"{"schema":null,"payload":7}"#.to_owned(), "!not_an_object"),
        ("7".to_owned(), "!not_an_object"),
    ];
    for (key, expected) in cases {
        let found = made(&mut wanted(Debezium::Keys, &table, &[], Encoding::Json), &[key.as_bytes()]);
        assert_eq!(found.concat(), expected, "{key}");
    }
}

#[test]
fn what_the_schema_says_numbers_and_texts_mean() {
    let field = |name: &str, of: &str, meaning: &str, more: &str| {
        format!(r#"{{"field":"{name}","type":"{of}","name":"{meaning}"{more}}}"#)
    };
    let fields = [
        field("millis", "int64", "io.debezium.time.Timestamp", ""),
        field("micros", "int64", "io.debezium.time.MicroTimestamp", ""),
        field("nanos", "int64", "io.debezium.time.NanoTimestamp", ""),
        field("day", "int32", "io.debezium.time.Date", ""),
        field("number", "int64", "io.debezium.time.Timestamp", ""),
        field("amt", "bytes", "org.apache.kafka.connect.data.Decimal", r#","parameters":{"scale":"2"}"#),
        field("raw", "bytes", "", ""),
    ]
    .join(",");
    let schema = format!(r#"{{"type":"struct","fields":[{{"field":"after","type":"struct","fields":[{fields}]}}]}}"#);
    let after = r#"{"millis":5,"micros":5,"nanos":5000,"day":1,"number":5,"amt":"MDk=","raw":"/wA="}"#;
    let message = format!(r#"{{"schema":{schema},"payload":{{"after":{after},"op":"c"}}}}"#);
    let wrong = message.replace("MDk=", "*");
    let table = table(vec![
        column("millis", timestamp()),
        column("micros", timestamp()),
        column("nanos", timestamp()),
        column("day", DataType::Date32),
        column("number", DataType::Int64),
        column("amt", DataType::Decimal128(10, 2)),
        column("raw", DataType::Binary),
    ]);
    let found = made(&mut events(&table, &[], Encoding::Json), &[message.as_bytes(), wrong.as_bytes()]);
    assert_eq!(found, ["millis=5000 micros=5 nanos=5 day=1 number=5 amt=12345 raw=xff00", "!wrong_type"]);
}

const EVENT: &str = r#"{"type":"record","name":"Envelope","fields":[
  {"name":"before","type":["null",{"type":"record","name":"Value","fields":[
    {"name":"id","type":"long"},{"name":"name","type":["null","string"]}]}]},
  {"name":"after","type":["null","Value"]},
  {"name":"source","type":{"type":"record","name":"Source","fields":[
    {"name":"lsn","type":["null","long"]},{"name":"table","type":"string"}]}},
  {"name":"op","type":"string"},{"name":"ts_ms","type":["null","long"]}]}"#;

fn event(op: &str, before: Option<i64>, after: Option<i64>) -> Vec<u8> {
    let union = |value: Option<Value>| match value {
        None => Value::Union(0, Box::new(Value::Null)),
        Some(value) => Value::Union(1, Box::new(value)),
    };
    let row = |id| {
        let name = union(Some(Value::String("a".into())));
        Value::Record(vec![("id".into(), Value::Long(id)), ("name".into(), name)])
    };
    let source = vec![("lsn".into(), union(Some(Value::Long(7)))), ("table".into(), Value::String("t".into()))];
    let fields = [
        ("before", union(before.map(row))),
        ("after", union(after.map(row))),
        ("source", Value::Record(source)),
        ("op", Value::String(op.into())),
        ("ts_ms", union(Some(Value::Long(5)))),
    ];
    let fields = fields.map(|(name, value)| (name.to_owned(), value)).into();
    written(&Judge::parse_str(EVENT).expect("a schema"), Value::Record(fields))
}

#[test]
fn avro_events_become_their_rows() {
    #[rustfmt::skip] // event, row of a table that tells deleted rows, row of one that does not
    let cases = [
        (event("c", None, Some(1)), "id=1 name=\"a\" __op=\"c\" __deleted=false __ts_ms=5 __source_lsn=7 __table=\"t\"", "id=1 name=\"a\""),
        (event("u", Some(1), Some(2)), "id=2 name=\"a\" __op=\"u\" __deleted=false __ts_ms=5 __source_lsn=7 __table=\"t\"", "id=2 name=\"a\""),
        (event("d", Some(1), None), "id=1 name=\"a\" __op=\"d\" __deleted=true __ts_ms=5 __source_lsn=7 __table=\"t\"", ""),
        (event("d", None, None), "id=null name=null __op=\"d\" __deleted=true __ts_ms=5 __source_lsn=7 __table=\"t\"", ""),
        (event("c", Some(1), None), "!not_an_object", "!not_an_object"),
        (event("x", None, Some(1)), "!not_an_object", "!not_an_object"),
    ];
    let form = || Encoding::Avro(Form::Bare(schema_of(EVENT)));
    for (event, with, without) in cases {
        for (table, expected) in [(telling(), with), (plain(), without)] {
            let found = made(&mut events(&table, &[], form()), &[&event]);
            assert_eq!(found.concat(), expected);
        }
    }
    #[rustfmt::skip] // event, the row that is there, the row before
    let cases = [
        (event("c", None, Some(1)),    "id=1 name=\"a\"", ""),
        (event("u", Some(1), Some(2)), "id=2 name=\"a\"", "id=1 name=\"a\""),
        (event("d", Some(1), None),    "",                "id=1 name=\"a\""),
        (event("d", None, None),       "",                "!not_an_object"),
        (event("t", None, None),       "!not_an_object",  ""),
        (event("m", None, None),       "",                ""),
    ];
    for (event, living, before) in cases {
        for (debezium, expected) in [(Debezium::Living, living), (Debezium::Before, before)] {
            assert_eq!(made(&mut wanted(debezium, &plain(), &[], form()), &[&event]).concat(), expected);
        }
    }
    let found = made(&mut events(&plain(), &["name: __op"], form()), &[&event("c", None, Some(1))]);
    assert_eq!(found, ["id=1 name=\"c\""], "transforms see the flat row");
}
