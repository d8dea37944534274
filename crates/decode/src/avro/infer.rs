//! A table's schema from Avro schemas.
//!
//! - every type becomes the column type that takes its values exactly; times of day stay the numbers they are, enums,
//!   UUIDs, durations and decimals of more than 38 digits become string;
//! - a union of null and one type is that type; of several numbers the widest; of anything else string (what has parts
//!   as JSON text);
//! - of several schemas the columns are joined by name by the same rules;
//! - every column is nullable; a name that differs from an earlier one only by case is left out, and so is what is
//!   only ever null.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};

use super::schema::{AvroSchema, Node, NodeId, Zone};
use super::top::VALUE;

/// Schemas that no table can have.
#[derive(Debug, thiserror::Error)]
pub enum AvroInferError {
    /// A type contains itself, and a table's columns have an end.
    #[error("{path} contains itself, and no table has columns without end; give the schema with --schema FILE")]
    Recursive {
        /// The field at which it does.
        path: String,
    },
    /// Nothing in it has a type that a column can have.
    #[error("none of the Avro schemas has a field that a column could take; give the schema with --schema FILE")]
    NoFields,
}

/// The schema of a table that takes all messages of these schemas.
///
/// # Errors
/// See [`AvroInferError`].
pub fn infer<'a>(schemas: impl IntoIterator<Item = &'a AvroSchema>) -> Result<Schema, AvroInferError> {
    let mut columns = Vec::new();
    for schema in schemas {
        let mut walk = Walk { schema, within: Vec::new(), path: Vec::new() };
        for field in walk.top(schema.top())?.iter() {
            add(&mut columns, field);
        }
    }
    if columns.is_empty() { Err(AvroInferError::NoFields) } else { Ok(Schema::new(columns)) }
}

struct Walk<'a> {
    schema: &'a AvroSchema,
    /// Records that we are inside of.
    within: Vec<NodeId>,
    path: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn top(&mut self, node: NodeId) -> Result<Fields, AvroInferError> {
        match self.schema.node(node) {
            Node::Record(fields) => self.fields(node, fields),
            Node::Union(branches) => {
                let mut columns = Vec::new();
                for branch in branches {
                    self.top(*branch)?.iter().for_each(|field| add(&mut columns, field));
                }
                Ok(columns.into())
            }
            _ => Ok(self.data_type(node)?.map(|data_type| Field::new(VALUE, data_type, true)).into_iter().collect()),
        }
    }

    fn fields(&mut self, record: NodeId, fields: &'a [(Box<str>, NodeId)]) -> Result<Fields, AvroInferError> {
        if self.within.contains(&record) {
            return Err(AvroInferError::Recursive { path: self.path.join(".") });
        }
        self.within.push(record);
        let mut columns = Vec::new();
        for (name, node) in fields {
            self.path.push(name);
            if let Some(data_type) = self.data_type(*node)? {
                add(&mut columns, &Field::new(&**name, data_type, true));
            }
            self.path.pop();
        }
        self.within.pop();
        Ok(columns.into())
    }

    fn data_type(&mut self, node: NodeId) -> Result<Option<DataType>, AvroInferError> {
        let schema = self.schema;
        Ok(Some(match schema.node(node) {
            Node::Array(items) => match self.data_type(*items)? {
                Some(items) => DataType::List(Arc::new(Field::new("element", items, true))),
                None => return Ok(None),
            },
            Node::Map(values) => match self.data_type(*values)? {
                Some(values) => map_of(values),
                None => return Ok(None),
            },
            Node::Record(fields) => {
                let fields = self.fields(node, fields)?;
                if fields.is_empty() {
                    return Ok(None);
                }
                DataType::Struct(fields)
            }
            Node::Union(branches) => {
                let mut joined = None;
                for branch in branches {
                    joined = match (joined, self.data_type(*branch)?) {
                        (Some(one), Some(other)) => Some(either(&one, &other)),
                        (one, other) => one.or(other),
                    };
                }
                return Ok(joined);
            }
            plain => return Ok(scalar(plain)),
        }))
    }
}

fn scalar(node: &Node) -> Option<DataType> {
    Some(match node {
        Node::Null => return None,
        Node::Boolean => DataType::Boolean,
        Node::Int | Node::TimeMillis => DataType::Int32,
        Node::Long | Node::TimeMicros => DataType::Int64,
        Node::Float => DataType::Float32,
        Node::Double => DataType::Float64,
        Node::Bytes | Node::Fixed(_) => DataType::Binary,
        Node::Date => DataType::Date32,
        Node::Timestamp(_, Zone::Utc) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Node::Timestamp(_, Zone::Local) => DataType::Timestamp(TimeUnit::Microsecond, None),
        Node::Decimal { precision, scale, .. } => match (u8::try_from(*precision), i8::try_from(*scale)) {
            (Ok(precision @ 1..=38), Ok(scale)) if i16::from(scale) <= i16::from(precision) => {
                DataType::Decimal128(precision, scale)
            }
            _ => DataType::Utf8,
        },
        _ => DataType::Utf8,
    })
}

fn map_of(values: DataType) -> DataType {
    let entries: Fields = vec![Field::new("key", DataType::Utf8, false), Field::new("value", values, true)].into();
    DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries), false)), false)
}

/// Adds a column, or joins it with the one that is there.
fn add(columns: &mut Vec<Field>, field: &Field) {
    if let Some(there) = columns.iter_mut().find(|there| there.name() == field.name()) {
        let joined = either(there.data_type(), field.data_type());
        *there = Field::new(there.name(), joined, true);
    } else if !columns.iter().any(|there| there.name().to_lowercase() == field.name().to_lowercase()) {
        columns.push(field.clone());
    }
}

/// The type that takes what is of either type.
fn either(one: &DataType, other: &DataType) -> DataType {
    use DataType::{Float32, Float64, Int32, Int64, List, Map, Struct, Utf8};
    match (one, other) {
        (one, other) if one == other => one.clone(),
        (Int32 | Int64, Int32 | Int64) => Int64,
        (Int32 | Int64 | Float32 | Float64, Int32 | Int64 | Float32 | Float64) => Float64,
        (Struct(one), Struct(other)) => {
            let mut columns: Vec<Field> = one.iter().map(|field| Field::clone(field)).collect();
            other.iter().for_each(|field| add(&mut columns, field));
            Struct(columns.into())
        }
        (List(one), List(other)) => {
            List(Arc::new(Field::new("element", either(one.data_type(), other.data_type()), true)))
        }
        (Map(one, _), Map(other, _)) => match (one.data_type(), other.data_type()) {
            (Struct(one), Struct(other)) => map_of(either(one[1].data_type(), other[1].data_type())),
            _ => Utf8,
        },
        _ => Utf8,
    }
}
