//! Messages of other formats than plain JSON, by the program as a user starts it.

use std::io::Write as _;
use std::path::PathBuf;

use apache_avro::types::Value as Avro;
use apache_avro::writer::datum::GenericDatumWriter;
use apache_avro::{Codec, Schema, Writer};
use lakeward_testkit::Message;
use serde_json::{Value, json};

use crate::ingest::{Ended, Ingest, lakeward};
use crate::table::Table;
use crate::{scratch, through, topic};

const RECORD: &str = r#"{"type":"record","name":"message","fields":[
  {"name":"id","type":"long"},{"name":"name","type":"string"},{"name":"date","type":"string"}]}"#;

fn record(id: i64) -> Avro {
    let fields =
        [("id", Avro::Long(id)), ("name", Avro::String("test".into())), ("date", Avro::String("2023-06-30".into()))];
    Avro::Record(fields.map(|(name, value)| (name.to_owned(), value)).into())
}

fn parsed() -> Schema {
    Schema::parse_str(RECORD).expect("a schema")
}

pub fn bare(id: i64) -> Vec<u8> {
    let schema = parsed();
    let writer = GenericDatumWriter::builder(&schema).build().expect("a schema");
    writer.write_value_to_vec(record(id)).expect("a record")
}

pub fn container(codec: Codec, ids: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let schema = parsed();
    let mut writer = Writer::with_codec(&schema, Vec::new(), codec).expect("a writer");
    writer.extend(ids.into_iter().map(record)).expect("records");
    writer.into_inner().expect("a file")
}

pub fn single_object(id: i64) -> Vec<u8> {
    use apache_avro::headers::{HeaderBuilder as _, RabinFingerprintHeader};
    [RabinFingerprintHeader::from_schema(&parsed()).build_header(), bare(id)].concat()
}

/// The schema as a file.
pub fn schema_file() -> PathBuf {
    let path = scratch("avsc").join("message.avsc");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("make a folder");
    std::fs::write(&path, RECORD).expect("write the schema");
    path
}

fn table() -> Table {
    Table::new(&[("id", "integer"), ("name", "string"), ("date", "string")], &["date"])
}

/// Messages through an ingest to their end, which `verify` must then find nothing wrong with.
fn carried(table: &Table, values: Vec<Vec<u8>>, options: &[&str]) -> Ended {
    let ended = through(table, values.into_iter().map(Message::new).collect(), options);
    verified(table);
    ended
}

fn verified(table: &Table) {
    let ended = crate::ingest::run(&["verify", &table.path.display().to_string()]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
}

#[test]
fn k67_k68_avro_container_files() {
    let table = table();
    let mut damaged = container(Codec::Snappy, [90, 91, 92]);
    let at = damaged.len() - 30;
    damaged[at] ^= 1;
    let values = vec![
        container(Codec::Null, [1]),
        container(Codec::Snappy, [2, 3, 4]),
        damaged,
        container(Codec::Zstandard(Default::default()), []),
        container(Codec::Deflate(Default::default()), [5]),
        b"no container".to_vec(),
    ];
    let ended = carried(&table, values, &["--avro", ""]);
    assert_eq!(table.ids(), [1, 2, 3, 4, 5]);
    assert_eq!(table.txns()["app-0"], 5);
    for offset in [2, 5] {
        assert!(ended.log.contains(&format!("offset={offset} kind=\"malformed\"")), "{}", ended.log);
    }
    let row = &table.query("select id, name, date from t where id = 3")[0];
    assert_eq!(row, &json!({"id": 3, "name": "test", "date": "2023-06-30"}));
}

#[test]
fn k70_avro_by_fingerprint_from_a_file_and_a_folder() {
    let file = schema_file();
    for place in [file.as_path(), file.parent().expect("a folder")] {
        let table = table();
        let unknown = [b"\xc3\x01".as_slice(), &[0; 8]].concat();
        let values = vec![single_object(1), unknown, b"abc".to_vec(), single_object(2)];
        let ended = carried(&table, values, &["--soe-avro", &place.display().to_string()]);
        assert_eq!(table.ids(), [1, 2]);
        assert!(ended.log.contains("offset=1 kind=\"unknown_schema\""), "{}", ended.log);
        assert!(ended.log.contains("offset=2 kind=\"malformed\""), "{}", ended.log);
    }
}

#[test]
fn avro_with_a_schema_file_takes_values_and_container_files() {
    let file = schema_file().display().to_string();
    let table = table();
    let values = vec![bare(1), container(Codec::Null, [2, 3]), bare(4)[1..].to_vec(), bare(5)];
    carried(&table, values, &["--avro", &file, "-t", "name: to_string(id)"]);
    let rows = table.query("select id, name from t");
    let found: Vec<(i64, &str)> =
        rows.iter().map(|row| (row["id"].as_i64().expect("an id"), row["name"].as_str().expect("a name"))).collect();
    assert_eq!(found, [(1, "1"), (2, "2"), (3, "3"), (5, "5")]);
}

#[test]
fn avro_makes_its_table() {
    for (options, values) in [
        (
            vec!["--avro".to_owned(), schema_file().display().to_string(), "--avro-form".to_owned(), "bare".to_owned()],
            vec![bare(1), bare(2)],
        ),
        (vec!["--avro".to_owned(), String::new()], vec![container(Codec::Null, [1, 2])]),
    ] {
        let table = Table::absent();
        let options: Vec<&str> =
            options.iter().map(String::as_str).chain(["--create", "--partition-by", "date"]).collect();
        carried(&table, values, &options);
        assert_eq!(table.ids(), [1, 2], "{options:?}");
        let metadata = &table.actions("metaData")[0].1;
        assert!(metadata["schemaString"].as_str().expect("a schema").contains(r#""type":"long""#), "{metadata}");
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

#[test]
fn k71_gzip() {
    let two = [gzip(br#"{"id":2,"#), gzip(br#""name":"two members"}"#)].concat();
    let whole = gzip(br#"{"id":1}"#);
    let values = vec![whole.clone(), br#"{"id":9}"#.to_vec(), whole[..whole.len() - 5].to_vec(), two];
    let options: [&[&str]; 2] = [&["--decompress_gzip"], &["--decompress", "gzip"]];
    for options in options {
        let table = Table::t();
        let ended = carried(&table, values.clone(), options);
        let rows = table.query("select id, name from t");
        assert_eq!(rows, [json!({"id": 1, "name": null}), json!({"id": 2, "name": "two members"})]);
        for offset in [1, 2] {
            assert!(ended.log.contains(&format!("offset={offset} kind=\"malformed\"")), "{}", ended.log);
        }
    }
    let table = Table::t();
    let topic = topic(1);
    topic.produce([Message::new(whole)]);
    Ingest::new(&topic, &table).env("DECOMPRESS_GZIP", "true").run_to_end();
    assert_eq!(table.ids(), [1], "by the environment");
}

#[test]
fn zstd_and_a_bomb() {
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 3).expect("memory takes it");
    let bomb = zstd(&vec![b' '; 200 << 20]);
    assert!(bomb.len() < 100_000);
    let mut values = vec![zstd(br#"{"id":1}"#), bomb, zstd(br#"{"id":2}"#)];
    // Each is large inside: together they would be more than any batch.
    let large = zstd(format!(r#"{{"id":3,"name":"{}"}}"#, "x".repeat(40 << 20)).as_bytes());
    values.extend(vec![large; 4]);
    let table = Table::t();
    let ended = carried(&table, values, &["--decompress", "zstd", "-m", "1000", "-b", "100000000"]);
    assert_eq!(table.ids(), [1, 2, 3, 3, 3, 3]);
    assert!(ended.log.contains("offset=1 kind=\"too_large\""), "{}", ended.log);
}

#[test]
fn p55_bytes_as_they_are_with_all_that_kafka_says() {
    let picture: Vec<u8> = (0..300_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    let topic = topic(1);
    topic.produce([
        Message::new(picture).key("a").header("h", "x"),
        Message::tombstone().key("b"),
        Message::new(b"{\"id\":1}".to_vec()),
    ]);
    let table = Table::absent();
    Ingest::new(&topic, &table).with(&["--raw", "--create"]).run_to_end();
    verified(&table);
    let rows = table.query("select \"offset\" id, topic, partition, \"timestamp\", value, key from t");
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["topic"], json!(topic.name()));
    assert!(rows.iter().all(|row| row["timestamp"].is_i64()), "{:?}", rows[1]);
    assert_eq!((&rows[1]["value"], &rows[2]["key"]), (&Value::Null, &Value::Null));
    assert_ne!((&rows[0]["value"], &rows[1]["key"]), (&Value::Null, &Value::Null));
}

/// A folder as the peer has it: schemas and nothing else, whatever their names; hidden files are others'.
#[test]
fn schemas_in_a_folder_have_any_names() {
    let folder = scratch("avro-schemas");
    std::fs::create_dir_all(folder.join("..data")).expect("make a folder");
    std::fs::write(folder.join("message.avro"), RECORD).expect("write the schema");
    std::fs::write(folder.join(".hidden"), "no schema").expect("write a file");
    let table = table();
    let options = ["--soe-avro", &folder.display().to_string()];
    carried(&table, vec![single_object(1)], &options);
    assert_eq!(table.ids(), [1]);
    std::fs::write(folder.join("README"), "no schema").expect("write a file");
    let topic = topic(1);
    let ended = Ingest::new(&topic, &table).with(&options).run();
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    assert!(ended.log.contains("README") && ended.log.contains("no Avro schema"), "{}", ended.log);
}

#[test]
fn options_of_formats_that_make_no_sense_are_told() {
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--avro", "a.avsc", "--raw"], 2, "cannot be used with"),
        (&["--avro", "/nowhere/a.avsc"], 78, "--avro /nowhere/a.avsc: No such file"),
        (&["--soe-avro", "/nowhere"], 78, "--soe-avro /nowhere"),
        (&["--decompress", "lz4"], 2, "'lz4' is neither gzip nor zstd"),
        (&["--raw", "--decompress_gzip"], 2, "--decompress_gzip is for JSON"),
        (&["--avro", "Cargo.toml"], 78, "this is no Avro schema"),
    ];
    for (options, code, text) in cases {
        let mut command = lakeward(&["ingest", "topic", "table"]);
        let output = command.args(options).current_dir(crate::repository()).output().expect("run it");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(text), "{options:?}: {said}");
    }
}
