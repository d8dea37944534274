//! What a stretch of messages came to.

use arrow_array::RecordBatch;

use crate::error::BadKind;

/// A message that no row was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Index into the [`Records`](lakeward_protocol::records::Records)' entries.
    pub entry: usize,
    /// The reason, to act on and to count by.
    pub kind: BadKind,
    /// The reason, to read: the place in the message and what is wrong there.
    pub detail: String,
}

/// The rows of a stretch of messages.
#[derive(Debug)]
#[must_use]
pub struct Decoded {
    /// The rows of each good message, in offset order, of the decoder's schema.
    pub batch: RecordBatch,
    /// The messages set aside, in offset order.
    pub bad: Vec<Bad>,
    /// How many messages had no value at all, and so no row.
    pub tombstones: usize,
    /// The first entry that was not looked at yet; the number of entries when all were.
    pub next: usize,
    pub(crate) entries: Entries,
}

/// Which entries the rows are of.
#[derive(Debug)]
pub(crate) enum Entries {
    /// One row for each, but for these; ascending.
    Without(Vec<u32>),
    /// By row.
    Listed {
        of_rows: Vec<u32>,
        /// Good messages that hold no row.
        empty: usize,
    },
}

impl Decoded {
    /// Index of the entry that row `row` was made of.
    #[must_use]
    pub fn entry_of(&self, row: usize) -> usize {
        match &self.entries {
            Entries::Without(skipped) => {
                // The i-th skipped entry lies before the row if at most `row` rows lie before that entry.
                let before = partition_point(skipped, |at, skipped| skipped as usize - at <= row);
                row + before
            }
            Entries::Listed { of_rows, .. } => of_rows[row] as usize,
        }
    }

    /// How many rows there are beyond one for each good message; below 0 where messages hold none.
    #[must_use]
    pub fn extra_rows(&self) -> i64 {
        let Entries::Listed { of_rows, empty } = &self.entries else { return 0 };
        let count = |rows: usize| i64::try_from(rows).expect("fewer rows than bytes of memory");
        count(of_rows.len()) - count(of_rows.chunk_by(|a, b| a == b).count()) - count(*empty)
    }
}

/// `slice::partition_point`, with the index.
fn partition_point(values: &[u32], before: impl Fn(usize, u32) -> bool) -> usize {
    let (mut low, mut high) = (0, values.len());
    while low < high {
        let middle = low.midpoint(high);
        if before(middle, values[middle]) { low = middle + 1 } else { high = middle }
    }
    low
}
