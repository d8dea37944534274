//! A value as JSON text: what transforms look into, and what a string column takes of a value with parts.
//!
//! Dates and times are their numbers, in the unit of their type, as kafka-delta-ingest's transforms see them. Unions are
//! the value that is there. Bytes are hex digits, decimals text of all their digits, as JSON messages have them here.

use std::fmt::Write as _;

use crate::error::Refused;
use crate::scan::quote;

use super::datum::{Datum, NO_BRANCH, NO_SYMBOL, deeper};
use super::scalar::{decimal_text, duration_text, whole};
use super::schema::{AvroSchema, Node, NodeId};

/// Appends the value at `datum`.
pub(crate) fn write(
    datum: &mut Datum,
    schema: &AvroSchema,
    node: NodeId,
    out: &mut String,
    depth: usize,
) -> Result<(), Refused> {
    match schema.node(node) {
        Node::Array(items) => {
            let depth = deeper(depth)?;
            listed(datum, out, ['[', ']'], |datum, out| write(datum, schema, *items, out, depth))
        }
        Node::Map(values) => {
            let depth = deeper(depth)?;
            listed(datum, out, ['{', '}'], |datum, out| {
                quote(datum.string()?, out);
                out.push(':');
                write(datum, schema, *values, out, depth)
            })
        }
        Node::Union(branches) => {
            let branch = branches[datum.index(branches.len(), NO_BRANCH)?];
            write(datum, schema, branch, out, deeper(depth)?)
        }
        Node::Record(fields) => {
            let depth = deeper(depth)?;
            out.push('{');
            for (at, (name, field)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quote(name, out);
                out.push(':');
                write(datum, schema, *field, out, depth).map_err(|refused| refused.within(name))?;
            }
            out.push('}');
            Ok(())
        }
        plain => scalar(datum, plain, out),
    }
}

/// Elements with commas between.
fn listed(
    datum: &mut Datum,
    out: &mut String,
    [open, close]: [char; 2],
    mut element: impl FnMut(&mut Datum, &mut String) -> Result<(), Refused>,
) -> Result<(), Refused> {
    out.push(open);
    let mut first = true;
    datum.elements(|datum| {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        element(datum, out)
    })?;
    out.push(close);
    Ok(())
}

fn scalar(datum: &mut Datum, node: &Node, out: &mut String) -> Result<(), Refused> {
    match node {
        Node::Null => out.push_str("null"),
        Node::Boolean => plain(datum.boolean()?, out),
        Node::Int | Node::Date | Node::TimeMillis => plain(datum.int()?, out),
        Node::Long | Node::TimeMicros | Node::Timestamp(..) => plain(datum.long()?, out),
        Node::Float => {
            let value = f32::from_le_bytes(datum.array()?);
            if value.is_finite() { plain(format_args!("{value:?}"), out) } else { special(value.into(), out) }
        }
        Node::Double => {
            let value = f64::from_le_bytes(datum.array()?);
            if value.is_finite() { plain(format_args!("{value:?}"), out) } else { special(value, out) }
        }
        Node::String => quote(datum.string()?, out),
        Node::Enum(symbols) => quote(&symbols[datum.index(symbols.len(), NO_SYMBOL)?], out),
        Node::Bytes => hex(datum.bytes()?, out),
        Node::Fixed(size) => hex(datum.take(*size)?, out),
        Node::Decimal { scale, size, .. } => decimal(datum.sized(*size)?, *scale, out),
        Node::BigDecimal => {
            let (digits, scale) = datum.big_decimal()?;
            decimal(digits, scale, out);
        }
        Node::UuidText => plain(format_args!("\"{}\"", datum.uuid_text()?), out),
        Node::UuidBytes(size) => plain(format_args!("\"{}\"", datum.uuid_bytes(*size)?), out),
        Node::Duration => plain(format_args!("\"{}\"", duration_text(datum.array()?)), out),
        Node::Array(_) | Node::Map(_) | Node::Union(_) | Node::Record(_) => unreachable!("seen to by `write`"),
    }
    Ok(())
}

fn plain(value: impl std::fmt::Display, out: &mut String) {
    write!(out, "{value}").expect("memory takes any text");
}

/// As Java's readers and Python's spell them.
fn special(value: f64, out: &mut String) {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() { out.push_str("\"NaN\"") } else { plain(format_args!("\"{sign}Infinity\""), out) }
}

fn hex(bytes: &[u8], out: &mut String) {
    out.push('"');
    bytes.iter().for_each(|byte| plain(format_args!("{byte:02x}"), out));
    out.push('"');
}

fn decimal(digits: &[u8], scale: i64, out: &mut String) {
    match whole(digits) {
        Some(value) => plain(format_args!("\"{}\"", decimal_text(value, scale)), out),
        None => hex(digits, out),
    }
}
