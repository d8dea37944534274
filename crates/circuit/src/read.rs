//! Z-sets read without a copy of each row: their bytes go behind each other into one stretch of memory.

use dbsp::dynamic::DowncastTrait;
use dbsp::trace::{BatchReader as _, Cursor as _};
use dbsp::typed_batch::BatchReader as _;
use dbsp::{OrdIndexedZSet, OrdZSet};

use crate::row::Row;

/// Rows, or parts of some, behind each other.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Stretch {
    /// One row more.
    fn push(&mut self, row: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len());
    }

    /// One row more, of these parts.
    pub(crate) fn push_parts(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.ends.push(self.bytes.len());
    }

    /// No row any more.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of row `at`.
    pub(crate) fn row(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    /// The bytes of each row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// A Z-set by key, one tuple at each place.
#[derive(Debug, Default)]
pub(crate) struct Tuples {
    pub(crate) keys: Stretch,
    pub(crate) values: Stretch,
    pub(crate) weights: Vec<i64>,
}

/// All tuples of a Z-set, in its order.
pub(crate) fn tuples(zset: &OrdIndexedZSet<Row, Row>) -> Tuples {
    let mut tuples = Tuples::default();
    let mut cursor = zset.inner().cursor();
    while cursor.key_valid() {
        while cursor.val_valid() {
            tuples.weights.push(**cursor.weight());
            tuples.keys.push(cursor.key().downcast_checked::<Row>().bytes());
            tuples.values.push(cursor.val().downcast_checked::<Row>().bytes());
            cursor.step_val();
        }
        cursor.step_key();
    }
    tuples
}

/// All rows of a Z-set, in its order, and their weights.
pub(crate) fn rows(zset: &OrdZSet<Row>) -> (Stretch, Vec<i64>) {
    let (mut rows, mut weights) = (Stretch::default(), Vec::new());
    let mut cursor = zset.inner().cursor();
    while cursor.key_valid() {
        weights.push(**cursor.weight());
        rows.push(cursor.key().downcast_checked::<Row>().bytes());
        cursor.step_key();
    }
    (rows, weights)
}
