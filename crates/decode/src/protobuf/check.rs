//! Looks at what goes nowhere as closely as at the rest, and at the entries of maps.

use crate::error::Refused;

use super::read::Read;
use super::types::{Count, FieldType, Kind, Scalar, TypeId};
use super::wire::{Form, MAX_NESTING, OTHER_WIRE_TYPE, Part, Tag, Wire};

/// An entry of a map: its key, and its value, which comes in pieces if it is a message.
pub(super) type Entry = (Part, Vec<Part>);

impl Read<'_> {
    /// Takes a field's value and looks whether it is one.
    pub(super) fn check(&self, field: &FieldType, wire: &mut Wire, tag: Tag, depth: usize) -> Result<(), Refused> {
        if tag.form != field.kind.form() {
            return self.packed(field, wire, tag, depth, |_| ());
        }
        let value = wire.value(tag, depth)?;
        self.check_value(&field.kind, value, depth)
    }

    /// Looks whether a value is one of its kind.
    pub(super) fn check_value(&self, kind: &Kind, value: Part, depth: usize) -> Result<(), Refused> {
        match kind {
            Kind::Scalar(Scalar::String) => self.string(value).map(drop),
            Kind::Message(of) | Kind::Group(of) => self.check_message(*of, value, depth + 1),
            Kind::Scalar(_) | Kind::Enum(_) => Ok(()),
        }
    }

    /// Looks whether bytes are a message of that type, which lies in `depth` others.
    pub(super) fn check_message(&self, of: TypeId, value: Part, depth: usize) -> Result<(), Refused> {
        let mut wire = Wire::new(self.bytes, value);
        if depth > MAX_NESTING {
            return Err(wire.fail("nested deeper than 100 messages"));
        }
        let message = &self.types.messages[of];
        while !wire.is_done() {
            let tag = wire.tag()?;
            match message.field(tag.number) {
                Some(at) => {
                    let field = &message.fields[at];
                    self.check(field, &mut wire, tag, depth).map_err(|refused| refused.within(&field.name))?;
                }
                None => drop(wire.value(tag, depth)?),
            }
        }
        Ok(())
    }

    /// The values that are packed into one; a fault where they can't be.
    pub(super) fn packed(
        &self,
        field: &FieldType,
        wire: &mut Wire,
        tag: Tag,
        depth: usize,
        mut take: impl FnMut(Part),
    ) -> Result<(), Refused> {
        let form = field.kind.form();
        let packable = field.count == Count::Many && matches!(form, Form::Varint | Form::Fixed32 | Form::Fixed64);
        if tag.form != Form::Length || !packable {
            return Err(wire.fail(OTHER_WIRE_TYPE));
        }
        let packed = wire.value(tag, depth)?;
        let mut inner = Wire::new(self.bytes, packed);
        while !inner.is_done() {
            take(inner.value(Tag { form, ..tag }, depth)?);
        }
        Ok(())
    }

    /// The entries of a map: each key with its last value.
    pub(super) fn last_entries(&self, of: TypeId, values: &[Part], depth: usize) -> Result<Vec<Entry>, Refused> {
        let (key, value) = self.types.entry(of);
        let mut entries = Vec::with_capacity(values.len());
        for part in values {
            entries.push(self.entry(of, *part, depth)?);
        }
        let name = |part: &Part| match key.whole(*part) {
            Some(whole) => (whole, &b""[..]),
            None if key == Scalar::Bool => (i128::from(part.bits != 0), &b""[..]),
            None => (0, part.of(self.bytes)),
        };
        let mut seen = ahash::AHashSet::with_capacity(entries.len());
        let keep: Vec<bool> = entries.iter().rev().map(|(key, _)| seen.insert(name(key))).collect();
        // What comes again goes nowhere, which does not make it right.
        for ((_, pieces), keep) in entries.iter().zip(keep.iter().rev()) {
            if !keep {
                pieces.iter().try_for_each(|piece| self.check_value(value, *piece, depth))?;
            }
        }
        let mut keep = keep.into_iter().rev();
        entries.retain(|_| keep.next().unwrap_or(true));
        Ok(entries)
    }

    fn entry(&self, of: TypeId, part: Part, depth: usize) -> Result<Entry, Refused> {
        let message = &self.types.messages[of];
        let (mut key, mut pieces) = (Part::default(), Vec::with_capacity(1));
        let mut wire = Wire::new(self.bytes, part);
        while !wire.is_done() {
            let tag = wire.tag()?;
            let kind = message.field(tag.number).map(|at| &message.fields[at].kind);
            if kind.is_some_and(|kind| kind.form() != tag.form) {
                return Err(wire.fail(OTHER_WIRE_TYPE));
            }
            let value = wire.value(tag, depth)?;
            match tag.number {
                1 => key = value,
                2 => pieces.push(value),
                _ => {}
            }
            // Of scalars the last counts, which does not make those before it right.
            if let Some(kind @ Kind::Scalar(Scalar::String)) = kind {
                self.check_value(kind, value, depth)?;
            }
        }
        // Without a value it is the default.
        if pieces.is_empty() {
            pieces.push(Part::default());
        }
        Ok((key, pieces))
    }
}
