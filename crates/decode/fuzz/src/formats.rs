#![no_main]
//! Any bytes as a message of each format but plain JSON (`decode` has that): no panic, neighbours are unharmed, the same
//! comes out alone and again, and memory stays within what the message and the bounds allow. A value of Avro is the
//! same row, or bad, in each of its forms.
//!
//! The first byte chooses the format.

use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use lakeward_decode::avro::{self, AvroSchema};
use lakeward_decode::{
    Answer, Compression, Debezium, Decoded, Decoder, Encoding, Format, Language, MOST_INFLATED_BYTES, Schemas, Transforms,
    Unavailable, WrittenSchema, protobuf,
};
use lakeward_protocol::position::{Offset, PartitionId};
use lakeward_protocol::records::{Records, TimestampType};

const AVRO: &str = r#"{"type":"record","name":"r","fields":[
    {"name":"id","type":"long"},
    {"name":"name","type":["null","string"]},
    {"name":"tags","type":{"type":"array","items":["string","null"]}},
    {"name":"map","type":{"type":"map","values":"long"}},
    {"name":"amt","type":["null",{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}]},
    {"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},
    {"name":"unknown","type":["null",{"type":"enum","name":"e","symbols":["A","B"]},{"type":"fixed","name":"f","size":3},"r"]}]}"#;

const PROTOBUF: &str = r#"syntax = "proto3"; message R {
    int64 id = 1; string name = 2; repeated string tags = 3; map<string, int64> map = 4; R deep = 5;
    message Inner { sint32 id = 1; bytes name = 2; } Inner inner = 6; double d = 7; fixed64 f = 8; }"#;

const JSON: &str = r#"{"type":"object"}"#;

/// Each language's schema, by the numbers 1 to 3.
#[derive(Debug)]
struct Known;

impl Schemas for Known {
    fn schema(&self, id: u32) -> Result<Answer, Unavailable> {
        let (language, text) = match id {
            1 => (Language::Avro, AVRO),
            2 => (Language::Protobuf, PROTOBUF),
            3 => (Language::Json, JSON),
            _ => return Ok(Answer::NotThere),
        };
        Ok(Answer::There(Arc::new(WrittenSchema { language, text: text.to_owned(), references: Vec::new() })))
    }
}

/// A format, how a body becomes a message of it, and a body that is a good one.
struct Kind {
    format: Format,
    wrap: fn(&[u8]) -> Vec<u8>,
    good: Option<&'static [u8]>,
}

fn avro_schema() -> &'static AvroSchema {
    static SCHEMA: OnceLock<AvroSchema> = OnceLock::new();
    SCHEMA.get_or_init(|| AvroSchema::parse(AVRO, &[]).expect("a schema"))
}

const GOOD_AVRO: &[u8] = &[2, 0, 0, 0, 0, 0, 0];

fn kinds() -> &'static [Kind] {
    static KINDS: OnceLock<Vec<Kind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let of = |encoding, wrap: fn(&[u8]) -> Vec<u8>, good| Kind {
            format: Format { encoding, compression: None, debezium: Debezium::No },
            wrap,
            good,
        };
        let known = || Arc::new(Known) as Arc<dyn Schemas>;
        let single = |body: &[u8]| [&[0xC3, 1], &avro_schema().fingerprint()[..], body].concat();
        let mut kinds = vec![
            of(Encoding::Avro(avro::Form::Framed(known())), |body| [&[0, 0, 0, 0, 1], body].concat(), Some(GOOD_AVRO)),
            of(Encoding::Avro(avro::Form::SingleObject(vec![avro_schema().clone()])), single, Some(GOOD_AVRO)),
            of(Encoding::Avro(avro::Form::Bare(avro_schema().clone())), <[u8]>::to_vec, Some(GOOD_AVRO)),
            of(Encoding::Avro(avro::Form::Framed(known())), <[u8]>::to_vec, None),
            of(Encoding::Avro(avro::Form::Container), <[u8]>::to_vec, None),
            of(Encoding::Avro(avro::Form::ContainerOrBare(avro_schema().clone())), <[u8]>::to_vec, Some(GOOD_AVRO)),
            of(Encoding::Protobuf(protobuf::Form::Framed(known())), |body| [&[0, 0, 0, 0, 2, 0], body].concat(), Some(&[8, 1])),
            of(Encoding::Protobuf(protobuf::Form::Framed(known())), <[u8]>::to_vec, None),
            of(Encoding::JsonSchema(known()), |body| [&[0, 0, 0, 0, 3], body].concat(), Some(br#"{"id":1}"#)),
            of(Encoding::Json, <[u8]>::to_vec, Some(br#"{"op":"c","after":{"id":1}}"#)),
            of(Encoding::Json, <[u8]>::to_vec, None),
            of(Encoding::Json, <[u8]>::to_vec, None),
        ];
        let last = kinds.len() - 1;
        kinds[last - 2].format.debezium = Debezium::Rows;
        kinds[last - 1].format.compression = Some(Compression::Gzip);
        kinds[last].format.compression = Some(Compression::Zstd);
        kinds
    })
}

fn schema() -> &'static SchemaRef {
    static SCHEMA: OnceLock<SchemaRef> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let of = |name: &str, data_type: DataType| Field::new(name, data_type, true);
        let pair = DataType::Struct(vec![Field::new("key", DataType::Utf8, false), of("value", DataType::Int64)].into());
        Arc::new(Schema::new(vec![
            of("id", DataType::Int64),
            of("name", DataType::Utf8),
            of("tags", DataType::List(Arc::new(of("element", DataType::Utf8)))),
            of("map", DataType::Map(Arc::new(Field::new("entries", pair, false)), false)),
            of("amt", DataType::Decimal128(10, 2)),
            of("ts", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        ]))
    })
}

fn decoder(kind: &Kind) -> Decoder {
    Decoder::with_format(schema(), "topic", &Transforms::default(), &kind.format).expect("a plan")
}

/// All of it, however often the decoder wants to be asked.
fn decode(decoder: &mut Decoder, messages: &[&[u8]]) -> Vec<Decoded> {
    let mut records = Records::new(PartitionId(0), Offset::ZERO);
    for (at, message) in (0..).zip(messages) {
        records.push(at, 0, TimestampType::CreateTime, Some(message));
    }
    let (mut next, mut parts) = (0, Vec::new());
    while next < records.len() {
        let decoded = decoder.try_decode(&records, next).expect("schemas are there");
        assert!(decoded.next > next, "it goes on");
        next = decoded.next;
        parts.push(decoded);
    }
    parts
}

/// Rows by entry, as text, and what was set aside.
fn told(parts: &[Decoded]) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for part in parts {
        for row in 0..part.batch.num_rows() {
            all.push((part.entry_of(row), format!("{:?}", part.batch.slice(row, 1))));
        }
        all.extend(part.bad.iter().map(|bad| (bad.entry, format!("{} {}", bad.kind, bad.detail))));
    }
    all.sort();
    all
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, body)) = data.split_first() else { return };
    let number = usize::from(first) % kinds().len();
    let kind = &kinds()[number];
    let message = (kind.wrap)(body);
    let mut decoder = self::decoder(kind);
    let alone = told(&decode(&mut decoder, &[&message]));
    assert!(alone.iter().all(|(entry, _)| *entry == 0));
    let most = MOST_INFLATED_BYTES + (1 << 20) + 256 * message.len();
    assert!(decoder.memory_bytes() <= most, "{} bytes for a message of {}", decoder.memory_bytes(), message.len());
    assert_eq!(told(&decode(&mut decoder, &[&message])), alone, "again");
    if let Some(good) = kind.good.map(kind.wrap) {
        let between = told(&decode(&mut decoder, &[&good, &message, &good]));
        let (ours, neighbours): (Vec<_>, Vec<_>) = between.into_iter().partition(|(entry, _)| *entry == 1);
        let ours: Vec<_> = ours.into_iter().map(|(_, text)| (0, text)).collect();
        assert_eq!(ours, alone, "between good ones");
        let unharmed = told(&decode(&mut self::decoder(kind), &[&good, b"", &good]));
        let unharmed: Vec<_> = unharmed.into_iter().filter(|(entry, _)| *entry != 1).collect();
        assert_eq!(neighbours, unharmed, "neighbours");
    }
    if number < 3 {
        let rows = |kind: &Kind| {
            let parts = decode(&mut self::decoder(kind), &[&(kind.wrap)(body)]);
            parts.iter().map(|part| format!("{:?}", part.batch)).collect::<String>()
        };
        let forms: Vec<_> = kinds()[..3].iter().map(rows).collect();
        assert!(forms.iter().all(|form| *form == forms[0]), "{forms:?}");
    }
});
