//! The first rows of a group, as an aggregate over its rows in order: the list of them.

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

/// A row in a list of first rows.
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

/// A row as it stands in its group: its order, its columns, and where the one ends.
///
/// # Panics
/// When the order takes 4 GiB.
#[must_use]
pub fn value(order: &Row, row: &Row) -> Row {
    let length = u32::try_from(order.bytes().len()).expect("an order below 4 GiB").to_le_bytes();
    order.then(&[row.bytes(), &length])
}

/// The order and the columns of a value.
fn split(value: &Row) -> (&[u8], &[u8]) {
    let (both, length) = value.bytes().split_at(value.bytes().len() - LENGTH_BYTES);
    both.split_at(u32::from_le_bytes(length.try_into().expect("its own length")) as usize)
}

/// The rows of a list, in order.
///
/// # Panics
/// When it is no list that [`Top`] made.
pub fn entries(list: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let (head, after) = rest.split_at_checked(20)?;
        let number = i64::from_le_bytes(head[..8].try_into().expect("8 bytes"));
        let copies = i64::from_le_bytes(head[8..16].try_into().expect("8 bytes"));
        let length = u32::from_le_bytes(head[16..].try_into().expect("4 bytes")) as usize;
        let (row, after) = after.split_at(length);
        rest = after;
        Some(Entry { number, copies, row })
    })
}

fn push(list: &mut Vec<u8>, entry: Entry<'_>) {
    list.extend_from_slice(&entry.number.to_le_bytes());
    list.extend_from_slice(&entry.copies.to_le_bytes());
    list.extend_from_slice(&u32::try_from(entry.row.len()).expect("a row below 4 GiB").to_le_bytes());
    list.extend_from_slice(entry.row);
}

impl Top {
    /// Adds what is kept of `copies` copies of `row`, before which stand `before` rows of its group and `peers` orders;
    /// `start` is the number of rows before its first peer. False once nothing after it can be kept.
    fn keep(self, list: &mut Vec<u8>, before: i64, start: i64, peers: i64, copies: i64, row: &[u8]) -> bool {
        let number = match self.numbering {
            Numbering::RowNumber => {
                let from = self.first.max(before + 1);
                let to = self.last.min(before.saturating_add(copies));
                (from..=to).for_each(|number| push(list, Entry { number, copies: 1, row }));
                return before.saturating_add(copies) < self.last;
            }
            Numbering::Rank => start + 1,
            Numbering::DenseRank => peers + 1,
        };
        if (self.first..=self.last).contains(&number) {
            push(list, Entry { number, copies, row });
        }
        number <= self.last
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
        let mut list = Vec::new();
        let (mut before, mut start, mut peers) = (0i64, 0i64, 0i64);
        let mut order: Option<Vec<u8>> = None;
        while cursor.key_valid() {
            let mut copies: ZWeight = 0;
            // SAFETY: the trace holds `ZWeight` weights and `Row` values, as this trait's parameters say.
            #[allow(unsafe_code, reason = "the engine's cursors are over erased types")]
            cursor.map_times(&mut |(), weight| copies += unsafe { *weight.downcast::<ZWeight>() });
            if copies > 0 {
                #[allow(unsafe_code, reason = "the engine's cursors are over erased types")]
                // SAFETY: as above.
                let value: &Row = unsafe { cursor.key().downcast() };
                let (own, row) = split(value);
                if order.as_deref() != Some(own) {
                    peers += i64::from(order.is_some());
                    (order, start) = (Some(own.to_vec()), before);
                }
                if !self.keep(&mut list, before, start, peers, copies, row) {
                    break;
                }
                before = before.saturating_add(copies);
            }
            cursor.step_key();
        }
        order.map(|_| Row::new(&list))
    }

    fn finalize(&self, list: Row) -> Row {
        list
    }
}
