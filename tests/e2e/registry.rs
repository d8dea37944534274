//! Formats whose schemas are in a registry: a real one, which is asked, stopped and started again.

use std::io::{Read, Write};
use std::net::TcpListener;

use lakeward_testkit::{Message, Registry, framed};
use serde_json::{Value, json};

use crate::ingest::Ingest;
use crate::table::Table;
use crate::topic;

pub const RECORD: &str = r#"{"type":"record","name":"R","fields":[{"name":"id","type":"long"},{"name":"name","type":"string"},
    {"name":"date","type":"string"}]}"#;

/// A number of 7 bits a byte; Avro and Protobuf write numbers so.
pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A value of [`RECORD`].
pub fn record(id: u64, name: &str, date: &str) -> Vec<u8> {
    let text = |text: &str| [varint(text.len() as u64 * 2), text.as_bytes().to_vec()].concat();
    [varint(id * 2), text(name), text(date)].concat()
}

/// Protobuf's field of a number.
pub fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// Protobuf's field of bytes.
pub fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

pub fn to_0(values: impl IntoIterator<Item = Vec<u8>>) -> Vec<Message> {
    values.into_iter().map(|value| Message::new(value).to(0)).collect()
}

pub fn columns() -> Table {
    Table::new(&[("id", "integer"), ("name", "string"), ("date", "string")], &["date"])
}

#[test] // the peer's test_json_with_registry
fn json_with_registry() {
    let (registry, topic, table) = (Registry::shared(), topic(1), columns());
    let schema = r#"{"type":"object","properties":{"id":{"type":"integer"}}}"#;
    let id = registry.register(&format!("{}-value", topic.name()), "JSON", schema, &[]);
    let row = json!({"name": "test", "id": 1, "date": "2023-06-30"});
    let bad = [framed(id + 100_000, row.to_string().as_bytes()), row.to_string().into_bytes(), framed(id, b"{")];
    topic.produce(to_0([framed(id, row.to_string().as_bytes())].into_iter().chain(bad)));
    let ended = Ingest::new(&topic, &table).with(&["--json", registry.url(), "-m", "1", "-l", "5"]).run_to_end();
    assert_eq!(table.query("select * from t"), [row]);
    for part in ["the registry has no schema", "does not begin with 0 and a schema's number", "kind=\"not_json\""] {
        assert!(ended.log.contains(part), "{part}:\n{}", ended.log);
    }
}

#[test] // the peer's test_avro_with_registry; ids have gaps; two versions in one topic
fn avro_with_registry_in_two_versions() {
    let (registry, topic, table) = (Registry::shared(), topic(1), columns());
    let subject = format!("{}-value", topic.name());
    let first = registry.register(&subject, "AVRO", RECORD, &[]);
    registry.register(&format!("{}-between", topic.name()), "AVRO", r#"{"type":"fixed","name":"F","size":3}"#, &[]);
    let second = r#"{"type":"record","name":"R","fields":[{"name":"id","type":"int"},{"name":"more","type":["null","string"],
        "default":null},{"name":"date","type":"string"}]}"#;
    let second = registry.register(&subject, "AVRO", second, &[]);
    assert_ne!(first, second);
    let other = [varint(4), vec![0], varint(20), b"2023-07-01".to_vec()].concat();
    topic.produce(to_0([framed(first, &record(1, "test", "2023-06-30")), framed(second, &other)]));
    let variable = Ingest::new(&topic, &table).with(&["-m", "1", "-l", "5"]).env("AVRO_REGISTRY", registry.url());
    variable.run_to_end();
    let rows = table.query("select * from t");
    let expected =
        [json!({"id": 1, "name": "test", "date": "2023-06-30"}), json!({"id": 2, "name": null, "date": "2023-07-01"})];
    assert_eq!(rows, expected);
}

#[test]
fn avro_with_references() {
    let (registry, topic) = (Registry::shared(), topic(1));
    let customer = format!("{}-customer", topic.name());
    registry.register(
        &customer,
        "AVRO",
        r#"{"type":"record","name":"Customer","namespace":"n","fields":[{"name":"name","type":"string"}]}"#,
        &[],
    );
    let order = r#"{"type":"record","name":"Order","namespace":"n","fields":[{"name":"id","type":"long"},
        {"name":"customer","type":"n.Customer"}]}"#;
    let subject = format!("{}-value", topic.name());
    let id = registry.register(&subject, "AVRO", order, &[("n.Customer", &customer, 1)]);
    topic.produce(to_0([framed(id, &[varint(14), varint(6), b"Bob".to_vec()].concat())]));
    let table = Table::absent();
    Ingest::new(&topic, &table).with(&["--avro", registry.url(), "--create"]).run_to_end();
    assert_eq!(table.query("select id, customer.name as name from t"), [json!({"id": 7, "name": "Bob"})]);
}

#[test]
fn protobuf_with_references_and_message_indexes() {
    let (registry, topic) = (Registry::shared(), topic(1));
    let common = format!("{}-common", topic.name());
    registry.register(&common, "PROTOBUF", r#"syntax = "proto3"; package c; message Money { int64 cents = 1; }"#, &[]);
    let order = r#"syntax = "proto3"; package p; import "common.proto"; import "google/protobuf/timestamp.proto";
        message Order { int64 id = 1; c.Money total = 2; repeated string tags = 3; map<string, int32> counts = 4;
          optional string note = 5; google.protobuf.Timestamp at = 6; Kind kind = 7; }
        message Wrapper { message Inner { int64 id = 1; } }
        enum Kind { NONE = 0; BIG = 1; }"#;
    let subject = format!("{}-value", topic.name());
    let id = registry.register(&subject, "PROTOBUF", order, &[("common.proto", &common, 1)]);
    let first = [
        vec![0],
        number(1, 1),
        bytes(2, &number(1, 250)),
        bytes(3, b"a"),
        bytes(3, b"b"),
        bytes(4, &[bytes(1, b"k"), number(2, 3)].concat()),
        bytes(6, &number(1, 1_706_659_200)),
        number(7, 1),
    ];
    let inner = [vec![4, 2, 0], number(1, 2)];
    let damaged = [vec![0], bytes(1, b"no number")];
    topic.produce(to_0([first.concat(), inner.concat(), damaged.concat()].map(|payload| framed(id, &payload))));
    let table = Table::absent();
    let ended = Ingest::new(&topic, &table).with(&["--protobuf", registry.url(), "--create"]).run_to_end();
    let sql =
        "select id, total.cents as cents, tags[1] as tag, note, kind, extract(epoch from \"at\") as \"at\" from t";
    let rows = crate::reader::query_with(&table.path, sql, &["duckdb"]);
    let expected = [
        json!({"id": 1, "cents": 250, "tag": "a", "note": null, "kind": "BIG", "at": 1_706_659_200.0}),
        json!({"id": 2, "cents": null, "tag": null, "note": null, "kind": null, "at": null}),
    ];
    assert_eq!(rows, expected);
    assert!(ended.log.contains("id: a value of another wire type than the schema's at byte 7"), "{}", ended.log);
    assert!(ended.log.contains("columns are those of the newest schema"), "{}", ended.log);
}

#[test]
fn a_table_is_made_from_the_newest_json_schema() {
    let (registry, topic) = (Registry::shared(), topic(1));
    let point = format!("{}-point", topic.name());
    registry.register(&point, "JSON", r#"{"type":"object","properties":{"x":{"type":"number"}}}"#, &[]);
    let schema = r##"{"type":"object","properties":{"id":{"type":"integer"},"at":{"type":"string","format":"date-time"},
        "where":{"$ref":"point.json"},"kind":{"oneOf":[{"type":"null"},{"$ref":"#/definitions/kind"}]}},
        "definitions":{"kind":{"type":"string"}}}"##;
    let subject = format!("{}-value", topic.name());
    let id = registry.register(&subject, "JSON", schema, &[("point.json", &point, 1)]);
    topic.produce(to_0([framed(id, br#"{"id":1,"at":"2024-01-31T00:00:00Z","where":{"x":2},"kind":"k"}"#)]));
    let table = Table::absent();
    Ingest::new(&topic, &table).with(&["--json", registry.url(), "--create"]).run_to_end();
    let rows = table.query("select id, \"where\".x as x, kind from t");
    assert_eq!(rows, [json!({"id": 1, "x": 2.0, "kind": "k"})]);
    let (_, metadata) = table.actions("metaData").remove(0);
    let schema = metadata["schemaString"].as_str().expect("a schema");
    assert!(schema.contains(r#""name":"at","nullable":true,"type":"timestamp""#), "{schema}");
}

#[test]
fn k64_a_registry_that_is_down_makes_messages_wait_and_none_a_bad_record() {
    let (registry, topic, table) = (Registry::own(), topic(1), columns());
    let known = registry.register("known", "AVRO", RECORD, &[]);
    let unknown = registry.register("unknown", "AVRO", &RECORD.replace("\"R\"", "\"Other\""), &[]);
    let of = |schema, ids: std::ops::Range<u64>| {
        to_0(ids.map(|id| framed(schema, &record(id, "test", "2023-06-30"))).collect::<Vec<_>>())
    };
    let job = Ingest::new(&topic, &table).with(&["--avro", registry.url(), "-b", "134217728"]);
    let held = job.clone().with(&["-l", "300"]).start();
    topic.produce(of(known, 0..10));
    held.wait_read(10);
    registry.stop();
    topic.produce(of(unknown, 10..110));
    held.wait_log("the schema registry does not answer");
    let ended = held.stop();
    assert_eq!((table.rows(), table.txns()["app-0"]), (10, 9), "what was held is committed:\n{}", ended.log);

    let waiting = job.with(&["-l", "2"]).start();
    waiting.wait_log("the schema registry does not answer");
    assert_eq!(table.rows(), 10);
    assert!(waiting.metric("lakeward_schema_requests_total") > 0.0);
    registry.start();
    table.wait_rows(110);
    assert_eq!(waiting.metric("lakeward_bad_records_total"), 0.0);
    waiting.stop();
    assert_eq!(table.ids(), (0..110).collect::<Vec<_>>());
}

/// A registry that answers every request so; for as long as the test runs.
pub fn answering(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
        }
    });
    format!("http://user:planted@{address}")
}

#[test]
fn k65_a_registry_that_refuses_us_stops_and_an_unknown_id_is_a_bad_record() {
    let (topic, table) = (topic(1), columns());
    topic.produce(to_0([framed(1, &record(1, "test", "2023-06-30"))]));
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let ended = Ingest::new(&topic, &table).with(&["--avro", &answering(status)]).run();
        assert_eq!(ended.code, Some(69), "{}", ended.log);
        assert!(ended.log.contains("SCHEMA_REGISTRY_USERNAME") && !ended.log.contains("planted"), "{}", ended.log);
    }
    assert_eq!(table.version(), Some(0), "nothing was left out");
    let waiting = Ingest::new(&topic, &table).with(&["--avro", &answering("404 Not Found")]).start();
    waiting.wait_log("but not as a registry does");
    assert!(!waiting.stop().log.contains("planted"));
    assert_eq!(table.version(), Some(0), "somebody else's 404 says nothing of a schema");

    let registry = Registry::shared();
    topic.produce(to_0([framed(2_000_000_000, b"x"), framed(u32::MAX, b"x")]));
    let options = ["--avro", registry.url(), "--seek_offsets", r#"{"0":0}"#];
    let ended = Ingest::new(&topic, &table).with(&options).run_to_end();
    assert_eq!((table.rows(), table.txns()["app-0"]), (0, 2));
    let named = ended.log.matches("unknown_schema").count();
    assert_eq!(named, 2, "{}", ended.log);
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_is_done() {
    let table = columns();
    let ingest = |options: &[&str]| Ingest::at("no-such-topic", &table.path.display().to_string()).with(options);
    #[rustfmt::skip] // options, exit code, what is said
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--json", "registry:8081"], 2, "no address of a schema registry"),
        (&["--protobuf", "no-such-file", "--message", "M"], 78, "no-such-file"),
        (&["--protobuf", "no-such-file"], 2, "--message"),
        (&["--protobuf", "http://127.0.0.1:1", "--message", "M"], 2, "messages say their type"),
        (&["--json", "http://127.0.0.1:1", "--avro", "http://127.0.0.1:1"], 2, "cannot be used with"),
    ];
    for (options, code, said) in cases {
        let ended = ingest(options).run();
        assert_eq!(ended.code, Some(code), "{options:?}: {}", ended.log);
        assert!(ended.log.contains(said), "{options:?}: {}", ended.log);
    }
    let ended = ingest(&["--json", "http://h"]).env("SCHEMA_REGISTRY_PASSWORD", "planted").run();
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    assert!(ended.log.contains("SCHEMA_REGISTRY_USERNAME is not") && !ended.log.contains("planted"), "{}", ended.log);
}

#[test]
fn protobuf_by_its_source() {
    let root = crate::scratch("proto");
    std::fs::create_dir_all(root.join("shop")).expect("make a folder");
    let write = |name: &str, text: &str| std::fs::write(root.join(name), text).expect("write a file");
    let order = "syntax = \"proto3\"; package shop; import \"shop/names.proto\"; import \"google/protobuf/timestamp.proto\";\n\
                 /* import \"no/such.proto\"; */ message Order { int32 id = 1; Name name = 2; string date = 3; \
                 google.protobuf.Timestamp at = 4; }";
    write("shop/order.proto", order);
    write(
        "shop/names.proto",
        "syntax = \"proto3\"; package shop; import \"base.proto\"; message Name { base.Text text = 1; }",
    );
    write("base.proto", "syntax = \"proto3\"; package base; message Text { string value = 1; }");
    let file = root.join("shop/order.proto").display().to_string();
    let table = Table::new(&[("id", "integer"), ("name", "string"), ("date", "string")], &["date"]);
    let topic = topic(1);
    let name = bytes(2, &bytes(1, &bytes(1, b"x")));
    topic.produce(to_0([[number(1, 5), name, bytes(3, b"2023-06-30")].concat()]));
    let ingest = Ingest::new(&topic, &table);
    ingest.clone().with(&["--protobuf", &file, "--message", "Order"]).run_to_end();
    let expected = json!({"id": 5, "name": r#"{"text":{"value":"x"}}"#, "date": "2023-06-30"});
    assert_eq!(table.query("select * from t"), [expected]);

    let refused = |message: &str, said: &str| {
        let ended = ingest.clone().with(&["--protobuf", &file, "--message", message]).run();
        assert_eq!(ended.code, Some(78), "{}", ended.log);
        assert!(ended.log.contains(said), "no '{said}' in {}", ended.log);
    };
    refused("Bill", "there is no message Bill; there are");
    std::fs::remove_file(root.join("base.proto")).expect("remove a file");
    refused("Order", "base.proto");
    write("shop/names.proto", "syntax = \"proto3\"; message Name {");
    refused("Order", "names.proto");
}

#[test]
fn protobuf_by_a_set_of_descriptors() {
    let (topic, table) = (topic(1), columns());
    // What protoc writes for: syntax = "proto3"; package p; message M { int32 id = 1; string name = 2; string date = 3; }
    let field = |name: &str, at: u64, kind: u64| {
        [bytes(1, name.as_bytes()), number(3, at), number(4, 1), number(5, kind), bytes(10, name.as_bytes())].concat()
    };
    let fields =
        [bytes(2, &field("id", 1, 5)), bytes(2, &field("name", 2, 9)), bytes(2, &field("date", 3, 9))].concat();
    let message = [bytes(1, b"M"), fields].concat();
    let file = [bytes(1, b"m.proto"), bytes(2, b"p"), bytes(4, &message), bytes(12, b"proto3")].concat();
    let path = table.path.with_extension("desc");
    std::fs::write(&path, bytes(1, &file)).expect("write the descriptors");
    topic.produce(to_0([[number(1, 5), bytes(2, b"x"), bytes(3, b"2023-06-30")].concat(), vec![]]));
    let file = path.display().to_string();
    Ingest::new(&topic, &table).with(&["--protobuf", &file, "--message", "M"]).run_to_end();
    std::fs::remove_file(&path).expect("remove the descriptors");
    let rows: Vec<Value> = table.query("select * from t");
    let expected = [json!({"id": 0, "name": "", "date": null}), json!({"id": 5, "name": "x", "date": "2023-06-30"})];
    assert_eq!(rows, expected, "what is left out is the default; no text is no partition");
}
