//! The same web requests as JSON and as Avro: nanoseconds a message, into the same columns; and what `apache_avro` takes
//! to make its values alone, without a column.
//!
//! ```text
//! cargo run --workspace --example avro -- 200000
//! ```

#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::sync::Arc;
use std::time::Instant;

use apache_avro::Schema as Judge;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use arrow_schema::{DataType, Field, Schema};
use lakeward_decode::avro::{AvroSchema, Form};
use lakeward_decode::{Decoder, Encoding, Format, Transforms};
use lakeward_protocol::position::{Offset, PartitionId};
use lakeward_protocol::records::{Records, TimestampType};

const SCHEMA: &str = r#"{"type":"record","name":"request","fields":[
  {"name":"timestamp","type":{"type":"long","logicalType":"timestamp-micros"}},
  {"name":"method","type":"string"},{"name":"session_id","type":"string"},{"name":"status","type":"int"},
  {"name":"url","type":["null","string"]},{"name":"uuid","type":"string"},{"name":"bytes","type":"long"},
  {"name":"seconds","type":"double"}]}"#;

const AN_ARENA: usize = 4000;

fn main() {
    let messages: usize = std::env::args().nth(1).map_or(200_000, |count| count.parse().expect("a number"));
    let judge = Judge::parse_str(SCHEMA).expect("a schema");
    let requests: Vec<Request> = (0..messages).map(Request::numbered).collect();
    let json: Vec<Vec<u8>> = requests.iter().map(Request::json).collect();
    let writer = GenericDatumWriter::builder(&judge).build().expect("a schema");
    let write = |request: &Request| writer.write_value_to_vec(request.avro()).expect("a request");
    let avro: Vec<Vec<u8>> = requests.iter().map(write).collect();
    let reader = GenericDatumReader::builder(&judge).build().expect("a schema");
    let form = Form::Bare(AvroSchema::parse(SCHEMA, &[]).expect("a schema"));
    for round in 1..=3 {
        println!("round {round}");
        decode("JSON", &Format::default(), &json);
        decode("Avro", &Encoding::Avro(form.clone()).into(), &avro);
        let start = Instant::now();
        for message in &avro {
            let value = reader.read_value(&mut message.as_slice()).expect("a request");
            std::hint::black_box(value);
        }
        told("values of apache_avro", start, &avro);
    }
}

fn decode(name: &str, format: &Format, messages: &[Vec<u8>]) {
    let arenas: Vec<Records> = messages.chunks(AN_ARENA).map(arena).collect();
    let table = Arc::new(table());
    let mut decoder = Decoder::with_format(&table, "web", &Transforms::default(), format).expect("a plan");
    let start = Instant::now();
    let mut rows = 0;
    for records in &arenas {
        let decoded = decoder.decode(records);
        assert!(decoded.bad.is_empty(), "{:?}", decoded.bad);
        rows += decoded.batch.num_rows();
        decoder.recycle(decoded.batch);
    }
    assert_eq!(rows, messages.len());
    told(name, start, messages);
}

fn told(name: &str, start: Instant, messages: &[Vec<u8>]) {
    let bytes: usize = messages.iter().map(Vec::len).sum();
    let nanos = start.elapsed().as_nanos() / messages.len() as u128;
    println!("  {name:24} {nanos:5} ns a message of {} bytes", bytes / messages.len());
}

fn arena(messages: &[Vec<u8>]) -> Records {
    let mut records = Records::new(PartitionId(0), Offset::ZERO);
    for (offset, message) in (0..).zip(messages) {
        records.push(offset, 0, TimestampType::CreateTime, Some(message));
    }
    records.pad();
    records
}

fn table() -> Schema {
    let column = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    let timestamp = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, Some("UTC".into()));
    Schema::new(vec![
        column("timestamp", timestamp),
        column("method", DataType::Utf8),
        column("session_id", DataType::Utf8),
        column("status", DataType::Int32),
        column("url", DataType::Utf8),
        column("uuid", DataType::Utf8),
        column("bytes", DataType::Int64),
        column("seconds", DataType::Float64),
    ])
}

struct Request {
    micros: i64,
    method: &'static str,
    session: String,
    status: i32,
    url: Option<String>,
    uuid: String,
    bytes: i64,
    seconds: f64,
}

impl Request {
    fn numbered(number: usize) -> Self {
        let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let id = |salt: u64| {
            let mixed = (mixed ^ salt).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            format!("{:08x}-{:04x}-4{:03x}-a000-{:012x}", mixed >> 32, mixed & 0xffff, mixed & 0xfff, mixed >> 16)
        };
        Self {
            micros: 1_616_600_000_000_000 + number as i64 * 1000,
            method: ["GET", "POST", "PUT", "HEAD"][number % 4],
            session: id(1),
            status: [200, 404, 302, 500][number % 4],
            url: (!number.is_multiple_of(7)).then(|| format!("http://www.example.com/{}", mixed >> 40)),
            uuid: id(2),
            bytes: (mixed >> 44) as i64,
            seconds: (mixed >> 54) as f64 / 1000.0,
        }
    }

    fn json(&self) -> Vec<u8> {
        let url = self.url.as_ref().map_or("null".to_owned(), |url| format!("\"{url}\""));
        let Self { micros, method, session, status, uuid, bytes, seconds, .. } = self;
        format!(
            r#"{{"timestamp":{micros},"method":"{method}","session_id":"{session}","status":{status},"url":{url},"uuid":"{uuid}","bytes":{bytes},"seconds":{seconds:?}}}"#
        )
        .into_bytes()
    }

    fn avro(&self) -> Value {
        let url = self
            .url
            .clone()
            .map_or(Value::Union(0, Box::new(Value::Null)), |url| Value::Union(1, Box::new(Value::String(url))));
        let fields = [
            ("timestamp", Value::TimestampMicros(self.micros)),
            ("method", Value::String(self.method.into())),
            ("session_id", Value::String(self.session.clone())),
            ("status", Value::Int(self.status)),
            ("url", url),
            ("uuid", Value::String(self.uuid.clone())),
            ("bytes", Value::Long(self.bytes)),
            ("seconds", Value::Double(self.seconds)),
        ];
        Value::Record(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }
}
