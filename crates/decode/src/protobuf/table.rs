//! The table that a message type asks for.
//!
//! | Protobuf | Delta |
//! |---|---|
//! | `int32` and its like, `int64` and its like, `bool`, `float`, `double`, `string`, `bytes` | int, long, boolean, float, double, string, binary |
//! | `uint32`, `uint64` | long, decimal(20, 0) |
//! | an enum | string: its names |
//! | a message; one that holds itself, or nothing | struct; string: its JSON |
//! | `repeated`, `map` | array, map |
//! | `Timestamp`, `google.type.Date`, a wrapper | timestamp, date, what it wraps |
//! | `Struct`, `Value`, `ListValue`, `Any` | string: its JSON |
//!
//! Every column is nullable, and a name that differs from an earlier one only by case is left out, as for JSON.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};

use super::schema::ProtobufMessage;
use super::types::{Count, FieldType, Kind, Known, Scalar, TypeId, Types};

impl ProtobufMessage {
    /// The schema of a table for such messages; without any column where the type has no field.
    #[must_use]
    pub fn table_schema(&self) -> Schema {
        let types = Types::new(&self.0);
        Schema::new(fields(&types, 0, &mut vec![0]))
    }
}

fn fields(types: &Types, of: TypeId, within: &mut Vec<TypeId>) -> Fields {
    let mut fields: Vec<Field> = Vec::new();
    for field in &types.messages[of].fields {
        if !fields.iter().any(|other| other.name().to_lowercase() == field.name.to_lowercase()) {
            fields.push(Field::new(&*field.name, all(types, field, within), true));
        }
    }
    fields.into()
}

fn all(types: &Types, field: &FieldType, within: &mut Vec<TypeId>) -> DataType {
    match field.count {
        Count::One => one(types, &field.kind, within),
        Count::Many => DataType::List(Arc::new(Field::new("element", one(types, &field.kind, within), true))),
        Count::Map => {
            let (key, value) = types.entry(field.kind.entry());
            let key = Field::new("key", scalar_type(key), false);
            let value = Field::new("value", one(types, value, within), true);
            let entries = DataType::Struct(vec![key, value].into());
            DataType::Map(Arc::new(Field::new("key_value", entries, false)), false)
        }
    }
}

fn one(types: &Types, kind: &Kind, within: &mut Vec<TypeId>) -> DataType {
    let of = match kind {
        Kind::Scalar(scalar) => return scalar_type(*scalar),
        Kind::Enum(_) => return DataType::Utf8,
        Kind::Message(of) | Kind::Group(of) => *of,
    };
    match types.messages[of].known {
        Known::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Known::Date => DataType::Date32,
        Known::Wrapper(scalar) => scalar_type(scalar),
        Known::Struct | Known::Value | Known::List | Known::Any | Known::FieldMask => DataType::Utf8,
        Known::Plain | Known::Duration | Known::Decimal => {
            if within.contains(&of) || types.messages[of].fields.is_empty() {
                return DataType::Utf8;
            }
            within.push(of);
            let fields = fields(types, of, within);
            within.pop();
            DataType::Struct(fields)
        }
    }
}

fn scalar_type(scalar: Scalar) -> DataType {
    match scalar {
        Scalar::Double => DataType::Float64,
        Scalar::Float => DataType::Float32,
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => DataType::Int32,
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 | Scalar::Uint32 | Scalar::Fixed32 => DataType::Int64,
        Scalar::Uint64 | Scalar::Fixed64 => DataType::Decimal128(20, 0),
        Scalar::Bool => DataType::Boolean,
        Scalar::String => DataType::Utf8,
        Scalar::Bytes => DataType::Binary,
    }
}
