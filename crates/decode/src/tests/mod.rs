//! Tests of the crate as a whole, and what they share.

mod avro;
mod avro_judged;
mod coercion;
mod debezium;
mod encode;
mod formats;
mod grow;
mod json_schema;
mod learnt;
mod mutation;
mod protobuf;
mod reference;
mod shape;
mod transforms;

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use lakeward_protocol::position::{Offset, PartitionId};
use lakeward_protocol::records::{Records, TimestampType};

use crate::{Decoded, Decoder, Transforms};

fn column(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn not_null(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}

fn table(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

fn structure(fields: Vec<Field>) -> DataType {
    DataType::Struct(fields.into())
}

fn array_of(element: Field) -> DataType {
    DataType::List(Arc::new(element))
}

fn map_of(key: DataType, value: Field) -> DataType {
    let entries: Fields = vec![not_null("key", key), value].into();
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Messages of partition 3 from offset 100 on, stamped by the producer at 1626823098519.
fn records<'a>(messages: impl IntoIterator<Item = &'a [u8]>) -> Records {
    let from = Offset::new(100).expect("an offset");
    let mut records = Records::new(PartitionId(3), from);
    for (at, message) in messages.into_iter().enumerate() {
        records.push(100 + at as i64, 1_626_823_098_519, TimestampType::CreateTime, Some(message));
    }
    records.pad();
    records
}

fn decoder(schema: &SchemaRef, transforms: &[&str]) -> Decoder {
    Decoder::new(schema, "web", &Transforms::parse(transforms).expect("transforms")).expect("a plan")
}

fn decode(schema: &SchemaRef, transforms: &[&str], messages: &[&str]) -> Decoded {
    decoder(schema, transforms).decode(&records(messages.iter().map(|message| message.as_bytes())))
}

/// Every row of a batch as `show` prints it.
fn rows(batch: &RecordBatch) -> Vec<String> {
    let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    (0..batch.num_rows())
        .map(|row| {
            let cell = |(name, array): (&String, &Arc<dyn Array>)| format!("{name}={}", show(array, row));
            names.iter().zip(batch.columns()).map(cell).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// One value: numbers as they are, times as numbers, text in quotes, bytes as hex, `[..]`, `{..}`, `null`.
fn show(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "null".to_owned();
    }
    let join = |parts: Vec<String>| parts.join(",");
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float32 => format!("{:?}", array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).to_string(),
        DataType::Timestamp(..) => array.as_primitive::<TimestampMicrosecondType>().value(row).to_string(),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value(row).to_string(),
        DataType::Utf8 => format!("{:?}", array.as_string::<i32>().value(row)),
        DataType::Binary => {
            let hex: String = array.as_binary::<i32>().value(row).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x{hex}")
        }
        DataType::Struct(fields) => {
            let part = |(at, field): (usize, &Arc<Field>)| {
                format!("{}:{}", field.name(), show(array.as_struct().column(at), row))
            };
            format!("{{{}}}", join(fields.iter().enumerate().map(part).collect()))
        }
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(row);
            format!("[{}]", join((0..elements.len()).map(|at| show(&elements, at)).collect()))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let entry = |at| format!("{}={}", show(entries.column(0), at), show(entries.column(1), at));
            format!("{{{}}}", join((0..entries.len()).map(entry).collect()))
        }
        other => panic!("no test shows {other}"),
    }
}

/// Decodes `{"v": json}` into a nullable column of `data_type`: the value, or `!kind` of the refusal.
fn value_of(data_type: &DataType, json: &str) -> String {
    let decoded = decode(&table(vec![column("v", data_type.clone())]), &[], &[&format!("{{\"v\":{json}}}")]);
    match decoded.bad.first() {
        Some(bad) => format!("!{}", bad.kind),
        None => show(decoded.batch.column(0), 0),
    }
}

#[track_caller]
fn check(data_type: &DataType, json: &str, expected: &str) {
    assert_eq!(value_of(data_type, json), expected, "{json} into {data_type}");
}
