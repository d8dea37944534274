//! The way back: a row as the JSON object that this room reads as the same row.
//!
//! | column | becomes |
//! |---|---|
//! | integers, float, double | numbers, in the fewest digits that tell them from all others; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | decimal | text of all its digits: many readers take a number for a double |
//! | date, timestamp | text (`2021-11-11`, `2021-11-11T22:11:58.123Z`; without a zone no `Z`); the count since 1970 outside of the years 0 to 9999 |
//! | binary | text of hex digits |
//! | struct, map | objects, a map's keys as text; array: arrays |
//! | NULL | `null` |
//!
//! Invariant: what is read back is equal, but for a time outside of those years as the key of a map, which is refused.

use std::io::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    Array, BinaryArray, BooleanArray, Decimal128Array, ListArray, MapArray, PrimitiveArray, RecordBatch, StringArray,
    StructArray,
};
use arrow_schema::{DataType, Schema, TimeUnit};

use crate::time;

/// Columns of a batch, ready to be written row by row.
#[derive(Debug)]
pub struct Rows<'a> {
    columns: Vec<(Name, Cells<'a>)>,
}

/// `"name":`, as JSON has it.
type Name = Vec<u8>;

/// A column and how its values are written.
#[derive(Debug)]
enum Cells<'a> {
    Boolean(&'a BooleanArray),
    Byte(&'a PrimitiveArray<Int8Type>),
    Short(&'a PrimitiveArray<Int16Type>),
    Int(&'a PrimitiveArray<Int32Type>),
    Long(&'a PrimitiveArray<Int64Type>),
    Float(&'a PrimitiveArray<Float32Type>),
    Double(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a Decimal128Array),
    Date(&'a PrimitiveArray<Date32Type>),
    Timestamp(&'a PrimitiveArray<TimestampMicrosecondType>),
    TimestampNtz(&'a PrimitiveArray<TimestampMicrosecondType>),
    String(&'a StringArray),
    Binary(&'a BinaryArray),
    Struct(&'a StructArray, Vec<(Name, Cells<'a>)>),
    List(&'a ListArray, Box<Cells<'a>>),
    Map(&'a MapArray, Box<Cells<'a>>, Box<Cells<'a>>),
}

/// Whether rows of these columns can be written.
///
/// # Errors
/// The first column that can't, and its type.
pub fn check_schema(schema: &Schema) -> Result<(), String> {
    Rows::of(&RecordBatch::new_empty(schema.clone().into()), None).map(drop)
}

impl<'a> Rows<'a> {
    /// The columns of a batch at these places, in this order; all of them with `None`.
    ///
    /// # Errors
    /// A column of a type that messages don't have.
    pub fn of(batch: &'a RecordBatch, places: Option<&[usize]>) -> Result<Self, String> {
        let all: Vec<usize> = (0..batch.num_columns()).collect();
        let schema = batch.schema();
        let column = |at: &usize| {
            let field = schema.field(*at);
            let cells = Cells::of(batch.column(*at)).ok_or_else(|| {
                format!("column {} is of type {}, which messages don't have", field.name(), field.data_type())
            })?;
            Ok((name(field.name()), cells))
        };
        let columns = places.unwrap_or(&all).iter().map(column).collect::<Result<_, String>>()?;
        Ok(Self { columns })
    }

    /// Appends one row, as an object.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) {
        members(&self.columns, row, out);
    }
}

fn name(text: &str) -> Name {
    let mut name = Vec::new();
    string(text, &mut name);
    name.push(b':');
    name
}

fn string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("memory takes any text");
}

fn quoted(text: impl std::fmt::Display, out: &mut Vec<u8>) {
    write!(out, "\"{text}\"").expect("memory takes any text");
}

fn bare(text: impl std::fmt::Display, out: &mut Vec<u8>) {
    write!(out, "{text}").expect("memory takes any text");
}

fn members(columns: &[(Name, Cells<'_>)], row: usize, out: &mut Vec<u8>) {
    out.push(b'{');
    for (n, (name, cells)) in columns.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(name);
        cells.write(row, out);
    }
    out.push(b'}');
}

impl<'a> Cells<'a> {
    fn of(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Boolean => Self::Boolean(array.as_boolean()),
            DataType::Int8 => Self::Byte(array.as_primitive()),
            DataType::Int16 => Self::Short(array.as_primitive()),
            DataType::Int32 => Self::Int(array.as_primitive()),
            DataType::Int64 => Self::Long(array.as_primitive()),
            DataType::Float32 => Self::Float(array.as_primitive()),
            DataType::Float64 => Self::Double(array.as_primitive()),
            DataType::Decimal128(..) => Self::Decimal(array.as_primitive::<Decimal128Type>()),
            DataType::Date32 => Self::Date(array.as_primitive()),
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Self::Timestamp(array.as_primitive()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Self::TimestampNtz(array.as_primitive()),
            DataType::Utf8 => Self::String(array.as_string()),
            DataType::Binary => Self::Binary(array.as_binary()),
            DataType::Struct(fields) => {
                let array = array.as_struct();
                let parts = fields.iter().zip(array.columns());
                let parts = parts.map(|(field, part)| Some((name(field.name()), Self::of(part)?)));
                Self::Struct(array, parts.collect::<Option<_>>()?)
            }
            DataType::List(_) => {
                let array = array.as_list();
                Self::List(array, Box::new(Self::of(array.values())?))
            }
            DataType::Map(..) => {
                let array = array.as_map();
                Self::Map(array, Box::new(Self::of(array.keys())?), Box::new(Self::of(array.values())?))
            }
            _ => return None,
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Boolean(array) => array.is_null(row),
            Self::Byte(array) => array.is_null(row),
            Self::Short(array) => array.is_null(row),
            Self::Int(array) => array.is_null(row),
            Self::Long(array) => array.is_null(row),
            Self::Float(array) => array.is_null(row),
            Self::Double(array) => array.is_null(row),
            Self::Decimal(array) => array.is_null(row),
            Self::Date(array) => array.is_null(row),
            Self::Timestamp(array) | Self::TimestampNtz(array) => array.is_null(row),
            Self::String(array) => array.is_null(row),
            Self::Binary(array) => array.is_null(row),
            Self::Struct(array, _) => array.is_null(row),
            Self::List(array, _) => array.is_null(row),
            Self::Map(array, ..) => array.is_null(row),
        }
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            return out.extend_from_slice(b"null");
        }
        match self {
            Self::Boolean(array) => bare(array.value(row), out),
            Self::Byte(array) => integer(array, row, out),
            Self::Short(array) => integer(array, row, out),
            Self::Int(array) => integer(array, row, out),
            Self::Long(array) => integer(array, row, out),
            Self::Float(array) => {
                let value = array.value(row);
                if value.is_finite() { bare(format_args!("{value:?}"), out) } else { special(value.into(), out) }
            }
            Self::Double(array) => {
                let value = array.value(row);
                if value.is_finite() { bare(format_args!("{value:?}"), out) } else { special(value, out) }
            }
            Self::Decimal(array) => quoted(array.value_as_string(row), out),
            Self::Date(array) => {
                let days = array.value(row);
                match time::date_text(days) {
                    Some(text) => quoted(text, out),
                    None => bare(days, out),
                }
            }
            Self::Timestamp(array) | Self::TimestampNtz(array) => {
                let micros = array.value(row);
                match time::iso8601(micros) {
                    Some(text) if matches!(self, Self::TimestampNtz(_)) => quoted(text.trim_end_matches('Z'), out),
                    Some(text) => quoted(text, out),
                    None => bare(micros, out),
                }
            }
            Self::String(array) => string(array.value(row), out),
            Self::Binary(array) => {
                out.push(b'"');
                array.value(row).iter().for_each(|byte| bare(format_args!("{byte:02x}"), out));
                out.push(b'"');
            }
            Self::Struct(_, parts) => members(parts, row, out),
            Self::List(array, elements) => {
                let mut open = b'[';
                for at in range(array.value_offsets(), row) {
                    out.push(std::mem::replace(&mut open, b','));
                    elements.write(at, out);
                }
                out.extend_from_slice(if open == b'[' { b"[]" } else { b"]" });
            }
            Self::Map(array, keys, values) => {
                let mut open = b'{';
                for at in range(array.value_offsets(), row) {
                    out.push(std::mem::replace(&mut open, b','));
                    keys.write_key(at, out);
                    out.push(b':');
                    values.write(at, out);
                }
                out.extend_from_slice(if open == b'{' { b"{}" } else { b"}" });
            }
        }
    }

    /// As the name of an object's member.
    fn write_key(&self, row: usize, out: &mut Vec<u8>) {
        let start = out.len();
        self.write(row, out);
        if out[start] != b'"' {
            let text = String::from_utf8_lossy(&out[start..]).into_owned();
            out.truncate(start);
            string(&text, out);
        }
    }
}

fn integer<T: ArrowPrimitiveType<Native: std::fmt::Display>>(array: &PrimitiveArray<T>, row: usize, out: &mut Vec<u8>) {
    bare(array.value(row), out);
}

/// As Java's readers and Python's spell them.
fn special(value: f64, out: &mut Vec<u8>) {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() { quoted("NaN", out) } else { quoted(format_args!("{sign}Infinity"), out) }
}

fn range(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    let place = |at: usize| usize::try_from(offsets[at]).expect("offsets are not negative");
    place(row)..place(row + 1)
}
