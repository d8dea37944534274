//! A message is in the table with all of its rows, or set aside as a whole.

use std::collections::BTreeMap;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use lakeward_decode::{Bad, BadKind, Decoded};
use lakeward_delta::encode::Unfit;
use lakeward_protocol::position::Offset;
use lakeward_protocol::records::Records;

/// What is left for the table.
pub struct Sifted {
    /// The rows.
    pub batch: RecordBatch,
    /// The messages set aside.
    pub bad: Vec<Bad>,
    /// Rows beyond one for each message that has some.
    pub extra_rows: i64,
    /// Messages without a value that are not set aside.
    pub tombstones: usize,
}

/// The numbers that rows had when they were decoded, where some are left out already.
#[derive(Default)]
pub(super) struct Rows(pub Option<Vec<usize>>);

impl Rows {
    /// The decoded row that row `row` was.
    pub(super) fn of(&self, row: usize) -> usize {
        self.0.as_ref().map_or(row, |kept| kept[row])
    }

    /// The same without some more, of which `left` are left.
    pub(super) fn without(&self, left: usize, gone: Vec<usize>) -> Self {
        if gone.is_empty() {
            return Self(self.0.clone());
        }
        let kept = (0..left + gone.len()).filter(|row| gone.binary_search(row).is_err());
        Self(Some(kept.map(|row| self.of(row)).collect()))
    }
}

/// Sets the messages of unfit rows aside, with the rows that they have beside; `batch` are the fit ones. Unfit rows
/// ascend.
pub(super) fn whole_messages(decoded: &Decoded, batch: RecordBatch, unfit: Vec<(BadKind, Unfit)>) -> Sifted {
    let (extra_rows, tombstones) = (decoded.extra_rows(), decoded.tombstones);
    let mut sifted = Sifted { batch, bad: decoded.bad.clone(), extra_rows, tombstones };
    if unfit.is_empty() {
        return sifted;
    }
    let rows = sifted.batch.num_rows() + unfit.len();
    let unfit_rows: Vec<usize> = unfit.iter().map(|(_, unfit)| unfit.row).collect();
    // By entry: the first reason, and how many rows there are.
    let mut dropped: BTreeMap<usize, (BadKind, String, i64)> = BTreeMap::new();
    for (kind, unfit) in unfit {
        dropped.entry(decoded.entry_of(unfit.row)).or_insert((kind, unfit.reason, 0));
    }
    let mut keep = Vec::with_capacity(sifted.batch.num_rows());
    for row in 0..rows {
        let entry = dropped.get_mut(&decoded.entry_of(row));
        if unfit_rows.binary_search(&row).is_err() {
            keep.push(entry.is_none());
        }
        entry.into_iter().for_each(|(.., rows)| *rows += 1);
    }
    if keep.contains(&false) {
        sifted.batch = filter_record_batch(&sifted.batch, &BooleanArray::from(keep)).expect("a mark for each row");
    }
    for (entry, (kind, detail, rows)) in dropped {
        sifted.extra_rows -= rows - 1;
        sifted.bad.push(Bad { entry, kind, detail });
    }
    sifted
}

/// What entries `first` up to, but not including, `next` cover.
pub(super) fn covered(records: &Records, first: usize, next: usize) -> (Offset, Offset) {
    let at = |entry: usize| Offset::new(records.entries()[entry].offset).expect("offsets are not negative");
    let from = if first == 0 { records.from() } else { at(first) };
    (from, if next == records.len() { records.to() } else { at(next) })
}
