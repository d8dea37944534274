//! The pieces that an aggregate is put together of.

use std::collections::HashMap;

use arrow_array::{ArrayRef, Int64Array, UInt32Array, new_null_array};
use arrow_schema::DataType;
use arrow_select::take::take;
use dbsp::algebra::UnimplementedSemigroup;
use dbsp::dynamic::{DataTrait, DynUnit, Erase, WeightTrait};
use dbsp::operator::Aggregator;
use dbsp::trace::Cursor;
use dbsp::utils::Tup2;
use dbsp::{OrdIndexedZSet, ZWeight};

use super::measure::{Measure, Values};
use crate::accumulator::Accumulator;
use crate::builder::Indexed;
use crate::codec::Codec;
use crate::row::Row;
use crate::sorted::{self, Tuple};

/// Adds up rows by group before the engine sees them: for each part the group of each row, the columns and the weights.
pub(super) fn groups_of<'a>(
    parts: impl Iterator<Item = (Vec<&'a [u8]>, &'a [ArrayRef], &'a Int64Array)>,
    measures: &[Measure],
) -> OrdIndexedZSet<Row, Accumulator> {
    let mut slots: HashMap<&[u8], usize, ahash::RandomState> = HashMap::default();
    let mut totals: Vec<Accumulator> = Vec::new();
    let empty: smallvec::SmallVec<_> = measures.iter().map(Measure::empty).collect();
    for (keys, columns, weights) in parts {
        let slot_of_row: Vec<usize> = keys
            .into_iter()
            .map(|key| {
                *slots.entry(key).or_insert_with(|| {
                    totals.push(Accumulator { rows: 0, cells: empty.clone() });
                    totals.len() - 1
                })
            })
            .collect();
        for (slot, weight) in slot_of_row.iter().zip(weights.values()) {
            totals[*slot].rows += weight;
        }
        for (at, measure) in measures.iter().enumerate() {
            let values = measure.values(measure.argument.map(|argument| &columns[argument]));
            if matches!(values, Values::None) {
                continue;
            }
            for (row, slot) in slot_of_row.iter().enumerate() {
                values.add(&mut totals[*slot].cells[at], row, weights.value(row));
            }
        }
    }
    let tuples = slots.into_iter().map(|(key, slot)| Tup2(Tup2(Row::new(key), std::mem::take(&mut totals[slot])), 1));
    OrdIndexedZSet::from_tuples((), tuples.collect())
}

/// The smallest value of each group, once.
///
/// # Panics
/// When a row goes.
pub(super) fn smallest_of<'a>(tuples: impl Iterator<Item = Tuple<'a>>) -> OrdIndexedZSet<Row, Row> {
    let mut smallest: HashMap<&[u8], &[u8], ahash::RandomState> = HashMap::default();
    for (key, value, weight) in tuples {
        assert!(weight > 0, "a row goes that only could come: {weight} copies");
        let known = smallest.entry(key).or_insert(value);
        *known = value.min(*known);
    }
    let tuples: Vec<Tuple<'_>> = smallest.into_iter().map(|(key, value)| (key, value, 1)).collect();
    sorted::indexed(&tuples)
}

/// The same rows, each marked as of piece `tag`.
pub(super) fn tagged(piece: &Indexed, tag: u8) -> Indexed {
    piece.map_index(move |(key, payload)| (key.clone(), Row::new(&[tag]).then(&[payload.bytes()])))
}

/// Puts the pieces of a group together: for each piece that is there its tag, its length and its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combine;

/// Of a piece: a tag and a length.
const HEAD_BYTES: usize = 5;

impl Aggregator<Row, (), ZWeight> for Combine {
    type Accumulator = Row;
    type Semigroup = UnimplementedSemigroup<Row>;
    type Output = Row;

    fn aggregate<K, R>(&self, cursor: &mut dyn Cursor<K, DynUnit, (), R>) -> Option<Row>
    where
        K: DataTrait + ?Sized,
        R: WeightTrait + ?Sized,
        Row: Erase<K>,
        ZWeight: Erase<R>,
    {
        let mut whole = Vec::new();
        while cursor.key_valid() {
            let mut weight: ZWeight = 0;
            // SAFETY: the trace holds `ZWeight` weights and `Row` values, as this trait's parameters say.
            #[allow(unsafe_code, reason = "the engine's cursors are over erased types")]
            cursor.map_times(&mut |(), more| weight += unsafe { *more.downcast::<ZWeight>() });
            if weight != 0 {
                // SAFETY: as above.
                #[allow(unsafe_code, reason = "the engine's cursors are over erased types")]
                let tagged: &Row = unsafe { cursor.key().downcast() };
                let (tag, payload) = tagged.bytes().split_first().expect("a tag");
                whole.push(*tag);
                whole.extend_from_slice(&u32::try_from(payload.len()).expect("a piece below 4 GiB").to_le_bytes());
                whole.extend_from_slice(payload);
            }
            cursor.step_key();
        }
        (!whole.is_empty()).then(|| Row::new(&whole))
    }

    fn finalize(&self, whole: Row) -> Row {
        whole
    }
}

/// The bytes of piece `tag` of a group; none if the group has nothing of it.
pub(super) fn piece_of(whole: &[u8], tag: usize) -> &[u8] {
    let mut rest = whole;
    while let Some((head, after)) = rest.split_at_checked(HEAD_BYTES) {
        let length = u32::from_le_bytes(head[1..].try_into().expect("4 bytes")) as usize;
        let (payload, after) = after.split_at(length);
        if usize::from(head[0]) == tag {
            return payload;
        }
        rest = after;
    }
    &[]
}

/// What a group of a piece adds up to; that of no rows, if it has nothing of it.
pub(super) fn total(payload: &[u8]) -> Accumulator {
    if payload.is_empty() {
        return Accumulator::default();
    }
    Accumulator::decode(payload).expect("what this operator encoded")
}

/// The values of a piece of one column; NULL for a group that has nothing of it.
pub(super) fn values(codec: &Codec, kind: &DataType, payloads: &[&[u8]]) -> ArrayRef {
    let there: Vec<&[u8]> = payloads.iter().copied().filter(|payload| !payload.is_empty()).collect();
    if there.is_empty() {
        return new_null_array(kind, payloads.len());
    }
    let column = codec.decode(there).pop().expect("a codec of one column");
    let mut next = 0u32;
    let places = payloads.iter().map(|payload| {
        (!payload.is_empty()).then(|| {
            next += 1;
            next - 1
        })
    });
    take(&column, &places.collect::<UInt32Array>(), None).expect("places within the column")
}
