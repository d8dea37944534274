//! One message into the columns.
//!
//! Values of a field may lie anywhere in a message, in any order and more than once, so a message is walked once to
//! find them, and then put into the columns field by field: a scalar's last one, a list's all, a nested message's all
//! as one. What is no column is checked all the same (`check`): what `prost` refuses is refused here.

use crate::avro::plan::unknown;
use crate::avro::scalar::{decimal, double, float};
use crate::column::{Column, Data, List, Map, Struct, end_of, last};
use crate::error::{BadKind, Fail, Refused};
use crate::row::{self, Side};
use crate::scan::Cursor;
use crate::simd::utf8;

use super::node::{Into, MapInto, Node, Slot};
use super::types::{Count, Enumeration, FieldType, Kind, MessageType, Scalar, Types};
use super::wire::{MAX_NESTING, Part, Tag, Wire};
use super::{known, text};

/// The message being read.
pub(super) struct Read<'a> {
    pub(super) types: &'a Types,
    pub(super) bytes: &'a [u8],
    pub(super) side: &'a mut Side,
}

impl Read<'_> {
    /// Reads a message, in pieces that count as one, into a struct. `depth` is how many others it lies in.
    pub(super) fn message(
        &mut self,
        node: &mut Node,
        pieces: &[Part],
        parts: &mut Struct,
        depth: usize,
    ) -> Result<(), Refused> {
        let (row, types) = (parts.len, self.types);
        parts.open_row();
        node.found.clear();
        for piece in pieces {
            self.find(node, *piece, parts, depth)?;
        }
        for (at, field) in types.messages[node.of].fields.iter().enumerate() {
            if field.required && node.found.last(at).is_none() {
                return Err(Fail::bad(BadKind::Malformed, "a required field is missing").within(&field.name));
            }
            let Slot::Column { index, .. } = node.slots[at] else { continue };
            if field.presence && field.count == Count::One && node.found.last(at).is_none() {
                continue;
            }
            parts.mark(index, row);
            let column = &mut parts.fields[index];
            self.field(node, at, field, column, depth).map_err(|refused| refused.within(&column.name))?;
        }
        parts.len += 1;
        if parts.filled_late { Ok(()) } else { parts.fill(row) }
    }

    /// Puts what was found of a field into its column.
    fn field(
        &mut self,
        node: &mut Node,
        at: usize,
        field: &FieldType,
        column: &mut Column,
        depth: usize,
    ) -> Result<(), Refused> {
        let Slot::Column { into, .. } = &mut node.slots[at] else { unreachable!("a column's field") };
        if let (Count::One, Kind::Scalar(_) | Kind::Enum(_)) = (field.count, &field.kind) {
            return self.one(into, &[node.found.last(at).unwrap_or_default()], column, depth);
        }
        let mut values = std::mem::take(&mut node.found.gathered);
        values.clear();
        values.extend(node.found.all(at));
        let put = match field.count {
            Count::One => self.one(into, &values, column, depth),
            Count::Many | Count::Map => self.many(into, field, &values, column, depth),
        };
        node.found.gathered = values;
        put
    }

    /// Finds the values of a message's fields.
    fn find(&self, node: &mut Node, piece: Part, parts: &mut Struct, depth: usize) -> Result<(), Refused> {
        let message = &self.types.messages[node.of];
        let mut wire = Wire::new(self.bytes, piece);
        while !wire.is_done() {
            let tag = wire.tag()?;
            let Some(at) = message.field(tag.number) else {
                wire.value(tag, depth)?;
                let target = unknown(parts, &tag.number.to_string());
                parts.keys.drop_one(target);
                continue;
            };
            let field = &message.fields[at];
            // A oneof is its last field alone.
            if let Some(oneof) = field.oneof
                && let Some(before) = node.found.choose(oneof, at)
            {
                let name = &message.fields[before].name;
                self.forget(node, message, before, depth).map_err(|refused| refused.within(name))?;
            }
            match node.slots[at] {
                Slot::Column { .. } => self.note(node, message, at, &mut wire, tag, depth),
                Slot::Dropped(target) => {
                    parts.keys.drop_one(target);
                    node.found.push(at, Part::default());
                    self.check(field, &mut wire, tag, depth)
                }
                Slot::Nowhere => {
                    node.found.push(at, Part::default());
                    self.check(field, &mut wire, tag, depth)
                }
            }
            .map_err(|refused| refused.within(&field.name))?;
        }
        Ok(())
    }

    /// Notes a value, or the values that are packed into one.
    fn note(
        &self,
        node: &mut Node,
        message: &MessageType,
        at: usize,
        wire: &mut Wire,
        tag: Tag,
        depth: usize,
    ) -> Result<(), Refused> {
        let field = &message.fields[at];
        if tag.form != field.kind.form() {
            return self.packed(field, wire, tag, depth, |value| node.found.push(at, value));
        }
        let value = wire.value(tag, depth)?;
        if field.count == Count::One && matches!(field.kind, Kind::Scalar(_) | Kind::Enum(_)) {
            self.forget(node, message, at, depth)?;
        }
        node.found.push(at, value);
        Ok(())
    }

    /// Forgets what a field was, once it is known to be no fault.
    fn forget(&self, node: &mut Node, message: &MessageType, at: usize, depth: usize) -> Result<(), Refused> {
        if node.found.last(at).is_some() {
            if let Slot::Column { .. } = node.slots[at] {
                let kind = &message.fields[at].kind;
                node.found.all(at).try_for_each(|value| self.check_value(kind, value, depth))?;
            }
            node.found.drop(at);
        }
        Ok(())
    }

    /// Puts one value into a column; a nested message may come in pieces.
    fn one(&mut self, into: &mut Into, pieces: &[Part], column: &mut Column, depth: usize) -> Result<(), Refused> {
        let value = pieces.last().copied().unwrap_or_default();
        match into {
            Into::Scalar(scalar) => self.scalar(*scalar, value, column),
            Into::Enum(names) => enumeration(names, value, column),
            Into::Message(node) => {
                let Data::Struct(parts) = &mut column.data else { unreachable!("planned for a struct") };
                if depth >= MAX_NESTING {
                    return Err(Fail::malformed(value.start as usize, "nested deeper than 100 messages"));
                }
                self.message(node, pieces, parts, depth + 1)
            }
            Into::Time(of) => known::put_time(self, *of, pieces, column, depth),
            Into::Date(of) => known::put_date(self, *of, pieces, column, depth),
            Into::Decimal(of) => {
                let [digits, scale] = known::values(self, *of, pieces, depth, [1, 3])?;
                decimal(digits.of(self.bytes), i64::from((scale.bits as u32).cast_signed()), column)
            }
            Into::Wrapped(of, scalar) => {
                let [inner] = known::values(self, *of, pieces, depth, [1])?;
                self.scalar(*scalar, inner, column)
            }
            Into::Json(kind) => {
                let text = text::one(self, kind, pieces, depth)?;
                self.json(&text, column)
            }
            Into::List(_) | Into::Map(_) | Into::JsonOfAll => unreachable!("planned for one value"),
        }
    }

    #[inline]
    fn scalar(&self, scalar: Scalar, value: Part, column: &mut Column) -> Result<(), Refused> {
        if let Some(whole) = scalar.whole(value) {
            return match i64::try_from(whole) {
                Ok(whole) => column.put_integer(whole),
                Err(_) => column.put_number(&whole.to_string()),
            };
        }
        match scalar {
            Scalar::Bool => column.put_boolean(value.bits != 0),
            Scalar::Double => double(f64::from_bits(value.bits), column),
            Scalar::Float => float(f32::from_bits(value.bits as u32), column),
            Scalar::Bytes => column.put_bytes(value.of(self.bytes)),
            _ => column.put_string(self.string(value)?),
        }
    }

    /// Puts all values of a field into its column.
    fn many(
        &mut self,
        into: &mut Into,
        field: &FieldType,
        values: &[Part],
        column: &mut Column,
        depth: usize,
    ) -> Result<(), Refused> {
        match (into, &mut column.data) {
            (Into::List(into), Data::List(list)) => {
                let List { element, ends } = &mut **list;
                for value in values {
                    self.one(into, std::slice::from_ref(value), element, depth)
                        .map_err(|refused| refused.within(&element.name))?;
                }
                ends.push(end_of(element.len())?);
                Ok(())
            }
            (Into::Map(into), Data::Map(map)) => self.entries(into, values, map, depth),
            _ => {
                let text = text::all(self, field, values, depth)?;
                self.json(&text, column)
            }
        }
    }

    fn entries(&mut self, into: &mut MapInto, values: &[Part], map: &mut Map, depth: usize) -> Result<(), Refused> {
        let start = last(&map.ends);
        for (key, pieces) in self.last_entries(into.entry, values, depth)? {
            self.scalar(into.key, key, &mut map.key).map_err(|refused| refused.within("key"))?;
            self.one(&mut into.value, &pieces, &mut map.value, depth)
                .map_err(|refused| refused.within(&map.value.name))?;
        }
        if row::has_twins(&map.key, start) {
            return Err(Fail::bad(BadKind::WrongType, "two keys of a map are the same once read as its key type"));
        }
        map.ends.push(end_of(map.value.len())?);
        Ok(())
    }

    /// Puts a value that is JSON text, as a message of JSON would.
    fn json(&mut self, text: &str, column: &mut Column) -> Result<(), Refused> {
        row::value(&mut Cursor::new(text), column, self.side, 0)
    }

    pub(super) fn string(&self, value: Part) -> Result<&str, Refused> {
        utf8(value.of(self.bytes))
            .map_err(|error| Fail::malformed(value.start as usize + error.valid_up_to(), "not UTF-8"))
    }
}

fn enumeration(names: &Enumeration, value: Part, column: &mut Column) -> Result<(), Refused> {
    let number = Enumeration::number(value);
    match (&mut column.data, names.name(number)) {
        (Data::String(text), Some(name)) => text.push(name),
        _ => column.put_integer(number.into()),
    }
}
