//! Values as JSON, for columns of text, for what no column type is made for, and for transforms.
//!
//! Protobuf's own mapping, with the schema's field names, 64-bit numbers as numbers, and maps in the message's order: a
//! field without presence is there with its default, one with presence only if it is set.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::error::{BadKind, Fail, Refused};
use crate::scan::quote;

use super::known;
use super::node::Found;
use super::read::Read;
use super::types::{Count, Enumeration, FieldType, Kind, Known, Scalar, TypeId, Types};
use super::wire::{MAX_NESTING, Part, Wire};

/// The JSON of the message itself, in one piece.
pub(super) fn message(read: &Read, whole: Part) -> Result<String, Refused> {
    read.check_message(0, whole, 0)?;
    let mut out = String::new();
    append_message(read, 0, &[whole], 0, &mut out)?;
    Ok(out)
}

/// The JSON of one value; a message may come in pieces.
pub(super) fn one(read: &Read, kind: &Kind, pieces: &[Part], depth: usize) -> Result<String, Refused> {
    pieces.iter().try_for_each(|piece| read.check_value(kind, *piece, depth))?;
    let mut out = String::new();
    append(read, kind, pieces, depth, &mut out)?;
    Ok(out)
}

/// The JSON of all values of a field.
pub(super) fn all(read: &Read, field: &FieldType, values: &[Part], depth: usize) -> Result<String, Refused> {
    if field.count == Count::Many {
        values.iter().try_for_each(|value| read.check_value(&field.kind, *value, depth))?;
    }
    let mut out = String::new();
    append_all(read, field, values, depth, &mut out)?;
    Ok(out)
}

fn append_all(read: &Read, field: &FieldType, values: &[Part], depth: usize, out: &mut String) -> Result<(), Refused> {
    if field.count == Count::Map {
        return append_entries(read, field.kind.entry(), values, depth, out);
    }
    listed(out, ['[', ']'], values, |value, out| append(read, &field.kind, std::slice::from_ref(value), depth, out))
}

fn append_entries(read: &Read, of: TypeId, values: &[Part], depth: usize, out: &mut String) -> Result<(), Refused> {
    let (key, value) = read.types.entry(of);
    listed(out, ['{', '}'], &read.last_entries(of, values, depth)?, |(part, pieces), out| {
        // JSON's keys are text.
        if key == Scalar::String {
            quote(read.string(*part)?, out);
        } else {
            out.push('"');
            append_scalar(read, key, *part, out)?;
            out.push('"');
        }
        out.push(':');
        append(read, value, pieces, depth, out)
    })
}

/// Elements with commas between.
fn listed<T>(
    out: &mut String,
    [open, close]: [char; 2],
    elements: &[T],
    mut element: impl FnMut(&T, &mut String) -> Result<(), Refused>,
) -> Result<(), Refused> {
    out.push(open);
    for (at, value) in elements.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        element(value, out)?;
    }
    out.push(close);
    Ok(())
}

/// A value that is known to be no fault.
fn append(read: &Read, kind: &Kind, pieces: &[Part], depth: usize, out: &mut String) -> Result<(), Refused> {
    let value = pieces.last().copied().unwrap_or_default();
    match kind {
        Kind::Message(of) | Kind::Group(of) => append_message(read, *of, pieces, depth + 1, out),
        Kind::Enum(names) => {
            match names.name(Enumeration::number(value)) {
                Some(name) => quote(name, out),
                None => out.push_str(&Enumeration::number(value).to_string()),
            }
            Ok(())
        }
        Kind::Scalar(scalar) => append_scalar(read, *scalar, value, out),
    }
}

fn append_message(read: &Read, of: TypeId, pieces: &[Part], depth: usize, out: &mut String) -> Result<(), Refused> {
    let message = &read.types.messages[of];
    match message.known {
        Known::Timestamp => quote(&known::time_text(read, of, pieces, depth)?, out),
        Known::Duration => quote(&known::duration_text(read, of, pieces, depth)?, out),
        Known::FieldMask => {
            let found = gather(read, of, pieces, depth)?;
            let paths = found.all(0).map(|path| read.string(path).map(camel)).collect::<Result<Vec<_>, _>>()?;
            quote(&paths.join(","), out);
        }
        Known::Wrapper(scalar) => {
            let [inner] = known::values(read, of, pieces, depth, [1])?;
            append_scalar(read, scalar, inner, out)?;
        }
        Known::Struct => {
            let found = gather(read, of, pieces, depth)?;
            let fields: Vec<Part> = found.all(0).collect();
            append_entries(read, message.fields[0].kind.entry(), &fields, depth, out)?;
        }
        Known::List => {
            let found = gather(read, of, pieces, depth)?;
            append_all(read, &message.fields[0], &found.all(0).collect::<Vec<_>>(), depth, out)?;
        }
        Known::Value => {
            let found = gather(read, of, pieces, depth)?;
            let set = (0..message.fields.len()).find(|field| found.last(*field).is_some());
            match set.map(|field| (&message.fields[field], found.all(field).collect::<Vec<_>>())) {
                Some((field, _)) if &*field.name == "null_value" => out.push_str("null"),
                Some((field, values)) => append(read, &field.kind, &values, depth, out)?,
                None => out.push_str("null"),
            }
        }
        Known::Any => append_any(read, of, pieces, depth, out)?,
        Known::Plain | Known::Date | Known::Decimal => {
            out.push('{');
            append_fields(read, of, pieces, depth, true, out)?;
            out.push('}');
        }
    }
    Ok(())
}

fn append_fields(
    read: &Read,
    of: TypeId,
    pieces: &[Part],
    depth: usize,
    mut first: bool,
    out: &mut String,
) -> Result<(), Refused> {
    let found = gather(read, of, pieces, depth)?;
    for (at, field) in read.types.messages[of].fields.iter().enumerate() {
        let mut values: Vec<Part> = found.all(at).collect();
        if values.is_empty() && field.count == Count::One {
            if field.presence {
                continue;
            }
            values.push(Part::default());
        }
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        quote(&field.name, out);
        out.push(':');
        match field.count {
            Count::One => append(read, &field.kind, &values, depth, out),
            Count::Many | Count::Map => append_all(read, field, &values, depth, out),
        }
        .map_err(|refused| refused.within(&field.name))?;
    }
    Ok(())
}

/// A message of a type that it names, which the schema must know.
fn append_any(read: &Read, of: TypeId, pieces: &[Part], depth: usize, out: &mut String) -> Result<(), Refused> {
    let [url, value] = known::values(read, of, pieces, depth, [1, 2])?;
    let url = read.string(url)?;
    let name = url.rsplit('/').next().unwrap_or_default();
    let pool = read.types.messages[of].descriptor.parent_pool();
    let Some(descriptor) = pool.get_message_by_name(name) else {
        let what = format!("an Any of type '{url}', which the schema does not know, can't be told as JSON");
        return Err(Fail::text(BadKind::WrongType, what));
    };
    if depth >= MAX_NESTING {
        return Err(Fail::malformed(value.start as usize, "nested deeper than 100 messages"));
    }
    let types = Types::new(&descriptor);
    let inner = Read { types: &types, bytes: read.bytes, side: &mut Default::default() };
    inner.check_message(0, value, depth + 1)?;
    out.push_str("{\"@type\":");
    quote(url, out);
    if types.messages[0].known == Known::Plain {
        append_fields(&inner, 0, &[value], depth + 1, false, out)?;
    } else {
        out.push_str(",\"value\":");
        append_message(&inner, 0, &[value], depth + 1, out)?;
    }
    out.push('}');
    Ok(())
}

/// The values of a message's fields; what is known to be no fault.
fn gather(read: &Read, of: TypeId, pieces: &[Part], depth: usize) -> Result<Found, Refused> {
    let message = &read.types.messages[of];
    let mut found = Found::new(message.fields.len(), message.oneofs);
    for piece in pieces {
        let mut wire = Wire::new(read.bytes, *piece);
        while !wire.is_done() {
            let tag = wire.tag()?;
            let Some(at) = message.field(tag.number) else {
                wire.value(tag, depth)?;
                continue;
            };
            let field = &message.fields[at];
            if let Some(oneof) = field.oneof
                && let Some(before) = found.choose(oneof, at)
            {
                found.drop(before);
            }
            if tag.form != field.kind.form() {
                read.packed(field, &mut wire, tag, depth, |value| found.push(at, value))?;
                continue;
            }
            if field.count == Count::One && matches!(field.kind, Kind::Scalar(_) | Kind::Enum(_)) {
                found.drop(at);
            }
            found.push(at, wire.value(tag, depth)?);
        }
    }
    Ok(found)
}

fn append_scalar(read: &Read, scalar: Scalar, value: Part, out: &mut String) -> Result<(), Refused> {
    if let Some(whole) = scalar.whole(value) {
        out.push_str(&whole.to_string());
        return Ok(());
    }
    match scalar {
        Scalar::Bool => out.push_str(if value.bits != 0 { "true" } else { "false" }),
        Scalar::Double => append_float(f64::from_bits(value.bits), &format!("{:?}", f64::from_bits(value.bits)), out),
        Scalar::Float => {
            let float = f32::from_bits(value.bits as u32);
            append_float(float.into(), &format!("{float:?}"), out);
        }
        Scalar::Bytes => quote(&BASE64_STANDARD.encode(value.of(read.bytes)), out),
        _ => quote(read.string(value)?, out),
    }
    Ok(())
}

fn append_float(value: f64, text: &str, out: &mut String) {
    if value.is_finite() {
        out.push_str(text);
    } else {
        // What JSON has no number for is text.
        let text = if value.is_nan() { "NaN" } else { ["-Infinity", "Infinity"][usize::from(value > 0.0)] };
        quote(text, out);
    }
}

/// `a_field.b` as `aField.b`.
fn camel(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut upper = false;
    for character in path.chars() {
        match character {
            '_' => upper = true,
            _ if std::mem::take(&mut upper) => out.extend(character.to_uppercase()),
            _ => out.push(character),
        }
    }
    out
}

/// Reads the index list that leads from a schema's file to a message: none is the first of all. Where the message
/// begins, and the indexes from the outside in.
pub(super) fn indexes(bytes: &[u8], from: usize) -> Result<(usize, Vec<usize>), Refused> {
    /// Deeper than any schema nests.
    const MOST: usize = 64;
    let mut wire = Wire::new(bytes, Part::whole(bytes, from)?);
    let count = index(&mut wire)?;
    if count > MOST {
        return Err(Fail::malformed(from, "no list of message indexes: is it a message of another serializer?"));
    }
    let indexes = (0..count).map(|_| index(&mut wire)).collect::<Result<Vec<_>, _>>()?;
    Ok((wire.at(), if indexes.is_empty() { vec![0] } else { indexes }))
}

/// A number of the list, which is written as a signed one.
fn index(wire: &mut Wire) -> Result<usize, Refused> {
    let zigzag = wire.varint()?;
    match usize::try_from(zigzag / 2) {
        Ok(index) if zigzag & 1 == 0 => Ok(index),
        _ => Err(wire.fail("a negative number in the list of message indexes")),
    }
}
