//! A message type beside the columns it goes into: what becomes of each field.
//!
//! A node belongs to one struct of the table, so there are finitely many, also for types that hold themselves.

use std::sync::Arc;

use crate::avro::plan::unknown;
use crate::column::{Column, Data, Struct};
use crate::key::Target;

use super::types::{Count, Enumeration, FieldType, Kind, Known, Scalar, TypeId, Types};
use super::wire::Part;

/// A message type and the struct that takes it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) of: TypeId,
    /// By field.
    pub(super) slots: Vec<Slot>,
    /// What was found of the message being read; recycled.
    pub(super) found: Found,
}

/// What becomes of a field.
#[derive(Debug)]
pub(super) enum Slot {
    /// It is the column of that index.
    Column { index: usize, into: Into },
    /// It is none: checked, dropped and counted.
    Dropped(Target),
    /// Checked and dropped: a transform looks at it, or sets what it would.
    Nowhere,
}

/// Which columns are left to transforms: field indices from the root.
pub(super) type Without<'a> = &'a [Vec<usize>];

/// What a column makes of a field's value.
#[derive(Debug)]
pub(super) enum Into {
    Scalar(Scalar),
    /// A name for text, else the number.
    Enum(Arc<Enumeration>),
    Message(Box<Node>),
    /// A timestamp, for a column of times.
    Time(TypeId),
    /// The value in a wrapper.
    Wrapped(TypeId, Scalar),
    /// A year, month and day, for a column of dates.
    Date(TypeId),
    /// Bytes and a scale, for a column of decimals.
    Decimal(TypeId),
    List(Box<Into>),
    Map(Box<MapInto>),
    /// By its JSON, as if that stood in a message of JSON.
    Json(Kind),
    /// The JSON of all its values.
    JsonOfAll,
}

/// What a column makes of a map's entries.
#[derive(Debug)]
pub(super) struct MapInto {
    pub(super) entry: TypeId,
    pub(super) key: Scalar,
    pub(super) value: Into,
}

/// The values of each field, in the message's order.
#[derive(Debug, Default)]
pub(super) struct Found {
    parts: Vec<(Part, u32)>,
    /// The first and last part of each field; [`NONE`] where there is none.
    ends: Vec<(u32, u32)>,
    /// The field that each oneof last was.
    oneofs: Vec<usize>,
    /// Values of one field, side by side.
    pub(super) gathered: Vec<Part>,
}

const NONE: u32 = u32::MAX;

impl Found {
    pub(super) fn new(fields: usize, oneofs: usize) -> Self {
        Self { ends: vec![(NONE, NONE); fields], oneofs: vec![usize::MAX; oneofs], ..Self::default() }
    }

    /// Forgets the last message.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        self.ends.fill((NONE, NONE));
        self.oneofs.fill(usize::MAX);
    }

    /// One more value of a field.
    #[inline]
    pub(super) fn push(&mut self, field: usize, part: Part) {
        let at = u32::try_from(self.parts.len()).expect("fewer values than bytes");
        self.parts.push((part, NONE));
        let (first, last) = &mut self.ends[field];
        match *last {
            NONE => *first = at,
            last => self.parts[last as usize].1 = at,
        }
        *last = at;
    }

    /// Forgets a field's values.
    pub(super) fn drop(&mut self, field: usize) {
        self.ends[field] = (NONE, NONE);
    }

    /// The field that a oneof was before it is this one.
    pub(super) fn choose(&mut self, oneof: usize, field: usize) -> Option<usize> {
        let before = std::mem::replace(&mut self.oneofs[oneof], field);
        (before != usize::MAX && before != field).then_some(before)
    }

    /// A field's last value.
    #[inline]
    pub(super) fn last(&self, field: usize) -> Option<Part> {
        self.parts.get(self.ends[field].1 as usize).map(|(part, _)| *part)
    }

    /// A field's values, in their order.
    pub(super) fn all(&self, field: usize) -> impl Iterator<Item = Part> + '_ {
        let mut next = self.ends[field].0;
        std::iter::from_fn(move || {
            let (part, after) = self.parts.get(next as usize)?;
            next = *after;
            Some(*part)
        })
    }
}

impl Node {
    /// Where the fields of a message type go in a struct, which lies at `path`: to the column of a field's name, or of
    /// its JSON name.
    pub(super) fn new(types: &Types, of: TypeId, parts: &mut Struct, without: Without, path: &mut Vec<usize>) -> Self {
        let message = &types.messages[of];
        let columns = columns(&message.fields, parts);
        let slot = |(field, index): (&FieldType, Option<usize>)| {
            let Some(index) = index else {
                return match unknown(parts, &field.name) {
                    Target::Ghost(_) => Slot::Nowhere,
                    target => Slot::Dropped(target),
                };
            };
            path.push(index);
            let slot = match without.contains(path) {
                true => Slot::Nowhere,
                false => Slot::Column { index, into: all(types, field, &mut parts.fields[index], without, path) },
            };
            path.pop();
            slot
        };
        let slots = message.fields.iter().zip(columns).map(slot).collect();
        Self { of, slots, found: Found::new(message.fields.len(), message.oneofs) }
    }
}

/// The column of each field.
fn columns(fields: &[FieldType], parts: &Struct) -> Vec<Option<usize>> {
    let by_name: Vec<_> = fields.iter().map(|field| parts.keys.field(&field.name)).collect();
    let by_json_name =
        |field: &FieldType| parts.keys.field(&field.json_name).filter(|index| !by_name.contains(&Some(*index)));
    fields.iter().zip(&by_name).map(|(field, index)| index.or_else(|| by_json_name(field))).collect()
}

/// What a column makes of a field with all its values.
fn all(types: &Types, field: &FieldType, column: &mut Column, without: Without, path: &mut Vec<usize>) -> Into {
    match (field.count, &mut column.data) {
        (Count::One, _) => one(types, &field.kind, column, without, path),
        // Transforms set nothing inside of arrays and maps.
        (Count::Many, Data::List(list)) => {
            Into::List(Box::new(one(types, &field.kind, &mut list.element, &[], &mut Vec::new())))
        }
        (Count::Map, Data::Map(map)) => {
            let entry = field.kind.entry();
            let (key, value) = types.entry(entry);
            let value = one(types, value, &mut map.value, &[], &mut Vec::new());
            Into::Map(Box::new(MapInto { entry, key, value }))
        }
        (Count::Many | Count::Map, _) => Into::JsonOfAll,
    }
}

/// What a column makes of one value.
fn one(types: &Types, kind: &Kind, column: &mut Column, without: Without, path: &mut Vec<usize>) -> Into {
    let of = match kind {
        Kind::Scalar(scalar) => return Into::Scalar(*scalar),
        Kind::Enum(names) => return Into::Enum(names.clone()),
        Kind::Message(of) | Kind::Group(of) => *of,
    };
    match (types.messages[of].known, &mut column.data) {
        (Known::Struct | Known::Value | Known::List, _) => Into::Json(kind.clone()),
        (_, Data::Struct(parts)) => Into::Message(Box::new(Node::new(types, of, parts, without, path))),
        (Known::Wrapper(scalar), _) => Into::Wrapped(of, scalar),
        (Known::Timestamp, Data::Timestamp(_) | Data::Date(_)) => Into::Time(of),
        (Known::Date, Data::Date(_) | Data::Timestamp(_)) => Into::Date(of),
        (Known::Decimal, Data::Decimal { .. } | Data::Long(_) | Data::Int(_) | Data::Double(_) | Data::String(_)) => {
            Into::Decimal(of)
        }
        _ => Into::Json(kind.clone()),
    }
}
