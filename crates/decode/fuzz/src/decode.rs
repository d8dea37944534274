#![no_main]
//! Any bytes as a message: no panic; what `serde_json` refuses is bad; what it takes is bad for a reason of the table's;
//! neighbours are unharmed; compiled transforms and learnt shapes agree with a decoder that was given the same message
//! alone.
//!
//! The first byte chooses the transforms.

use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use lakeward_decode::{Bad, BadKind, Decoder, Transforms};
use lakeward_protocol::position::{Offset, PartitionId};
use lakeward_protocol::records::{Records, TimestampType};

const SETS: [&[&str]; 5] = [
    &[],
    &["name: substr(pair.name, `1`, `3`)", "id: kafka.offset"],
    &["ts: epoch_millis_to_micro(n)", "pair.id: kafka.partition"],
    &["name: tags[0] || pair.name", "d: length(keys(@))"],
    &["date: substr(epoch_seconds_to_iso8601(id), `0`, `10`)", "pair: other"],
];

fn schema() -> SchemaRef {
    let of = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    let list = |element: DataType| DataType::List(Arc::new(of("element", element)));
    let map = |value: DataType| {
        let pair = DataType::Struct(vec![Field::new("key", DataType::Utf8, false), of("value", value)].into());
        DataType::Map(Arc::new(Field::new("entries", pair, false)), false)
    };
    let pair = DataType::Struct(vec![of("id", DataType::Int64), Field::new("name", DataType::Utf8, false)].into());
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        of("id", DataType::Int64),
        of("name", DataType::Utf8),
        of("b", DataType::Int8),
        of("n", DataType::Int32),
        of("f", DataType::Float32),
        of("d", DataType::Float64),
        of("ok", DataType::Boolean),
        of("ts", utc),
        of("amt", DataType::Decimal128(10, 2)),
        of("date", DataType::Date32),
        of("raw", DataType::Binary),
        of("pair", pair.clone()),
        of("pairs", list(pair)),
        of("map", map(DataType::Int64)),
        of("deep", list(map(list(DataType::Float64)))),
    ]))
}

fn decoder(set: usize) -> Decoder {
    static SCHEMA: OnceLock<SchemaRef> = OnceLock::new();
    let transforms = Transforms::parse(SETS[set]).expect("transforms");
    Decoder::new(SCHEMA.get_or_init(schema), "topic", &transforms).expect("a plan")
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, message)) = data.split_first() else { return };
    let set = usize::from(first) % SETS.len();
    let mut records = Records::new(PartitionId(0), Offset::ZERO);
    let good: &[u8] = br#"{"id":1,"n":2,"pair":{"name":"good"}}"#;
    for (at, value) in [good, message, good].into_iter().enumerate() {
        records.push(at as i64, 0, TimestampType::CreateTime, Some(value));
    }
    let mut decoder = decoder(set);
    let decoded = decoder.decode(&records);
    let json = serde_json::from_slice::<serde_json::Value>(message);
    match decoded.bad.as_slice() {
        [] => assert!(json.is_ok_and(|value| value.is_object()), "taken, but serde_json refuses it"),
        [bad] => {
            assert_eq!(bad.entry, 1, "a good neighbour was harmed: {}", bad.detail);
            match bad.kind {
                BadKind::NotJson => assert!(json.is_err(), "refused, but serde_json takes it: {}", bad.detail),
                BadKind::NotAnObject => assert!(json.is_ok_and(|value| !value.is_object())),
                _ => assert!(json.is_ok_and(|value| value.is_object())),
            }
        }
        more => panic!("good neighbours were harmed: {more:?}"),
    }
    // Alone, no shape is known that it could go by.
    let mut alone = Records::new(PartitionId(0), Offset::ZERO);
    alone.push(1, 0, TimestampType::CreateTime, Some(message));
    let alone = self::decoder(set).decode(&alone);
    assert_eq!(alone.batch, decoded.batch.slice(1, decoded.batch.num_rows() - 2));
    let verdict = |bad: &[Bad]| bad.first().map(|bad| (bad.kind, bad.detail.clone()));
    assert_eq!(verdict(&alone.bad), verdict(&decoded.bad));
    // What the decoder has learnt of other messages, and of this one, changes nothing.
    let again = decoder.decode(&records);
    assert_eq!(again.batch, decoded.batch);
    assert_eq!(again.bad, decoded.bad);
});
