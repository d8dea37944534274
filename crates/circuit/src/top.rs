//! The first rows of a group in order, as a list in one row: an aggregate over all rows of the group, or kept up by
//! merging lists where rows only come.

use std::cmp::Ordering;

use dbsp::ZWeight;
use dbsp::algebra::UnimplementedSemigroup;
use dbsp::dynamic::{DataTrait, DynUnit, Erase, WeightTrait};
use dbsp::operator::Aggregator;
use dbsp::trace::Cursor;

use crate::row::Row;

/// How rows of a group are numbered, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Each row its own number.
    RowNumber,
    /// Rows that the order leaves equal have the same number, that of their first.
    Rank,
    /// The same, without gaps.
    DenseRank,
}

/// Keeps the rows whose numbers are from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Top {
    /// What a row's number is.
    pub numbering: Numbering,
    /// The smallest number kept; 1 keeps from the start.
    pub first: i64,
    /// The greatest number kept.
    pub last: i64,
}

/// A row with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its number.
    pub number: i64,
    /// How many copies of it have that number.
    pub copies: i64,
    /// Its columns.
    pub row: &'a [u8],
}

/// Bytes for the length of an order at a value's end.
const LENGTH_BYTES: usize = size_of::<u32>();
/// Of a value in a list: its copies and its length.
const HEAD_BYTES: usize = size_of::<i64>() + LENGTH_BYTES;

/// What ends the value of a row as it stands in its group: its order, its columns, and where the one ends.
///
/// # Panics
/// When the order takes 4 GiB.
#[must_use]
pub fn order_length(order: &[u8]) -> [u8; LENGTH_BYTES] {
    u32::try_from(order.len()).expect("an order below 4 GiB").to_le_bytes()
}

/// The order and the columns of a value.
fn split(value: &[u8]) -> (&[u8], &[u8]) {
    let (both, length) = value.split_at(value.len() - LENGTH_BYTES);
    both.split_at(u32::from_le_bytes(length.try_into().expect("its own length")) as usize)
}

/// The values of a list with their copies, in order.
fn values(list: &[u8]) -> impl Iterator<Item = (&[u8], i64)> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let (head, after) = rest.split_at_checked(HEAD_BYTES)?;
        let (copies, length) = head.split_at(size_of::<i64>());
        let copies = i64::from_le_bytes(copies.try_into().expect("8 bytes"));
        let length = u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize;
        let (value, after) = after.split_at(length);
        rest = after;
        Some((value, copies))
    })
}

/// Values as they are numbered, one after the other.
struct Places {
    top: Top,
    /// Rows before the next value.
    before: i64,
    /// Rows before the first of the last value's order, and orders before that.
    start: i64,
    peers: i64,
    order: Option<Vec<u8>>,
}

impl Places {
    fn new(top: Top) -> Self {
        Self { top, before: 0, start: 0, peers: 0, order: None }
    }

    /// The first and the last number of the next value.
    fn next(&mut self, value: &[u8], copies: i64) -> (i64, i64) {
        let before = self.before;
        self.before = before.saturating_add(copies);
        if self.top.numbering == Numbering::RowNumber {
            return (before.saturating_add(1), self.before);
        }
        let (own, _) = split(value);
        if self.order.as_deref() != Some(own) {
            self.peers += i64::from(self.order.is_some());
            (self.order, self.start) = (Some(own.to_vec()), before);
        }
        let number = if self.top.numbering == Numbering::Rank { self.start } else { self.peers };
        (number.saturating_add(1), number.saturating_add(1))
    }
}

/// A list while it is made, of values that come in order.
struct List {
    bytes: Vec<u8>,
    places: Places,
}

impl List {
    fn new(top: Top) -> Self {
        Self { bytes: Vec::new(), places: Places::new(top) }
    }

    /// Adds those of `copies` copies of a value that have a number up to the last one kept. False once nothing behind it
    /// has.
    fn push(&mut self, value: &[u8], copies: i64) -> bool {
        let Top { numbering, last, .. } = self.places.top;
        let (from, to) = self.places.next(value, copies);
        if from > last {
            return false;
        }
        let each = numbering == Numbering::RowNumber;
        let kept = if each { to.min(last) - from + 1 } else { copies };
        self.bytes.extend_from_slice(&kept.to_le_bytes());
        self.bytes.extend_from_slice(&u32::try_from(value.len()).expect("a value below 4 GiB").to_le_bytes());
        self.bytes.extend_from_slice(value);
        !each || to < last
    }
}

impl Top {
    /// The list of values that come in order, each once, with their copies.
    pub fn list<'a>(self, values: impl IntoIterator<Item = (&'a [u8], i64)>) -> Vec<u8> {
        let mut list = List::new(self);
        for (value, copies) in values {
            if !list.push(value, copies) {
                break;
            }
        }
        list.bytes
    }

    /// The list of the values of two, those of the second one `times` times. Right for numbers of rows alone: what a
    /// list leaves out has no number in any greater group.
    ///
    /// # Panics
    /// When a row goes.
    #[must_use]
    pub fn merged(self, one: &[u8], other: &[u8], times: i64) -> Row {
        assert!(times > 0, "a row goes that only could come: {times} copies");
        let (mut one, mut other) = (values(one).peekable(), values(other).peekable());
        let merged = std::iter::from_fn(|| {
            let order = match (one.peek(), other.peek()) {
                (Some((left, _)), Some((right, _))) => left.cmp(right),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            let of_one = if order.is_le() { one.next() } else { None };
            let of_other = if order.is_ge() { other.next() } else { None };
            let (value, _) = of_one.or(of_other)?;
            let copies = |of: Option<(&[u8], i64)>| of.map_or(0, |(_, copies)| copies);
            Some((value, copies(of_one).saturating_add(copies(of_other).saturating_mul(times))))
        });
        Row::new(&self.list(merged))
    }

    /// The rows of a list whose numbers are kept, in order.
    pub fn entries<'a>(self, list: &'a [u8], mut take: impl FnMut(Entry<'a>)) {
        let mut places = Places::new(self);
        for (value, copies) in values(list) {
            let (from, to) = places.next(value, copies);
            let copies = if self.numbering == Numbering::RowNumber { 1 } else { copies };
            let (_, row) = split(value);
            (from.max(self.first)..=to.min(self.last)).for_each(|number| take(Entry { number, copies, row }));
        }
    }
}

impl Aggregator<Row, (), ZWeight> for Top {
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
        let mut list = List::new(*self);
        while cursor.key_valid() {
            let mut copies: ZWeight = 0;
            // SAFETY: the trace holds `ZWeight` weights and `Row` values, as this trait's parameters say.
            #[allow(unsafe_code, reason = "the engine's cursors are over erased types")]
            cursor.map_times(&mut |(), weight| copies += unsafe { *weight.downcast::<ZWeight>() });
            if copies > 0 {
                #[allow(unsafe_code, reason = "the engine's cursors are over erased types")]
                // SAFETY: as above.
                let value: &Row = unsafe { cursor.key().downcast() };
                if !list.push(value.bytes(), copies) {
                    break;
                }
            }
            cursor.step_key();
        }
        (!list.bytes.is_empty()).then(|| Row::new(&list.bytes))
    }

    fn finalize(&self, list: Row) -> Row {
        list
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn lists_of_parts_merge_to_that_of_the_whole() {
        let mut rnd = SmallRng::seed_from_u64(11);
        for round in 0..300 {
            let last = [0, 1, 2, 7, 1_000][round % 5];
            let top = Top { numbering: Numbering::RowNumber, first: 1, last };
            let (mut whole, mut merged) = (BTreeMap::<Vec<u8>, i64>::new(), Row::default());
            for _ in 0..rnd.random_range(1..6) {
                let times = rnd.random_range(1..4);
                let mut part = BTreeMap::<Vec<u8>, i64>::new();
                for _ in 0..rnd.random_range(0..12) {
                    let value = [&[rnd.random_range(0..5), rnd.random_range(0..3)][..], &order_length(&[0])].concat();
                    *part.entry(value).or_default() += rnd.random_range(1..3);
                }
                part.iter().for_each(|(value, copies)| *whole.entry(value.clone()).or_default() += copies * times);
                let part = top.list(part.iter().map(|(value, copies)| (&value[..], *copies)));
                merged = top.merged(merged.bytes(), &part, times);
            }
            let whole = top.list(whole.iter().map(|(value, copies)| (&value[..], *copies)));
            assert_eq!(merged, Row::new(&whole), "round {round}, up to {last}");
        }
    }
}
