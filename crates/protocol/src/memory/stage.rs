//! A stage whose rows are the records themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::MemoryError;
use crate::ports::{Letters, Stage};
use crate::position::{Frontier, Offset, PartitionId, Shape};
use crate::records::Records;

/// What one commit takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBatch {
    /// The shape that it was made for.
    pub shape: Shape,
    /// The shape that its rows need, where that is another.
    pub grown: Option<Shape>,
    /// Partition, offset and value of each row, as pushed.
    pub rows: Vec<(PartitionId, Offset, Vec<u8>)>,
}

/// Something outside that records whose value begins with `needs` need; there until it is taken away.
#[derive(Clone, Debug, Default)]
pub struct Outside(Arc<AtomicBool>);

impl Outside {
    /// Takes it away, or brings it back.
    pub fn set_gone(&self, gone: bool) {
        self.0.store(gone, Ordering::Relaxed);
    }

    /// Refuses records that need it, while it is gone.
    pub(super) fn needed_by(&self, records: &Records) -> Result<(), MemoryError> {
        let needs = |entry| records.value(entry).is_some_and(|value: &[u8]| value.starts_with(b"needs"));
        if self.0.load(Ordering::Relaxed) && records.entries().iter().any(needs) {
            return Err(MemoryError::Outage("get what records need"));
        }
        Ok(())
    }
}

/// Holds records as rows. The value `bad` is a bad record, one that begins `grow` needs a shape of at least 1.
#[derive(Debug)]
pub struct MemoryStage {
    shape: Option<Shape>,
    rows: Vec<(PartitionId, Offset, Vec<u8>)>,
    /// What dead letters are made for, where there is a table of them.
    letters_shape: Option<Shape>,
    letters: Vec<(PartitionId, Offset, Vec<u8>)>,
    full_at: usize,
    stops_on_bad: bool,
    outside: Outside,
}

impl Default for MemoryStage {
    fn default() -> Self {
        let (rows, letters, outside) = (Vec::new(), Vec::new(), Outside::default());
        Self { shape: None, rows, letters_shape: None, letters, full_at: usize::MAX, stops_on_bad: false, outside }
    }
}

impl MemoryStage {
    /// One that is full with so many rows.
    #[must_use]
    pub fn full_at(rows: usize) -> Self {
        Self { full_at: rows, ..Self::default() }
    }

    /// One whose records may need that.
    #[must_use]
    pub fn needing(outside: &Outside) -> Self {
        Self { outside: outside.clone(), ..Self::default() }
    }

    /// One that stops at a bad record.
    #[must_use]
    pub fn strict() -> Self {
        Self { stops_on_bad: true, ..Self::default() }
    }
}

impl Stage for MemoryStage {
    type Batch = MemoryBatch;
    type Layout = Shape;
    type Error = MemoryError;

    fn open(&mut self, layout: &Shape) -> Result<(), MemoryError> {
        let is_empty = self.rows.is_empty() && self.letters.is_empty();
        assert!(is_empty, "a stage is opened while it holds rows: discard precedes open");
        self.shape = Some(*layout);
        Ok(())
    }

    fn prepare(&mut self, records: &Records) -> Result<(), MemoryError> {
        self.outside.needed_by(records)
    }

    fn push(&mut self, records: Records) -> Result<Option<Records>, MemoryError> {
        assert!(self.shape.is_some(), "a stage is open before records come");
        for entry in records.entries() {
            match records.value(entry) {
                None => {}
                Some(b"bad") if self.stops_on_bad => {
                    return Err(MemoryError::BadRecord { offset: entry.offset });
                }
                Some(value) => {
                    let offset = Offset::new(entry.offset).expect("offsets are not negative");
                    let row = (records.partition(), offset, value.to_vec());
                    match (value == b"bad", self.letters_shape) {
                        (false, _) => self.rows.push(row),
                        (true, Some(_)) => self.letters.push(row),
                        (true, None) => {}
                    }
                }
            }
        }
        Ok(Some(records))
    }

    fn is_full(&self) -> bool {
        self.rows.len() + self.letters.len() >= self.full_at
    }

    fn seal(&mut self) -> Result<MemoryBatch, MemoryError> {
        let shape = self.shape.expect("a stage is open before it seals");
        let rows = std::mem::take(&mut self.rows);
        let grows = shape < GROWN && rows.iter().any(|(.., value)| needs_growth(value));
        Ok(MemoryBatch { shape, grown: grows.then_some(GROWN), rows })
    }

    fn discard(&mut self) {
        self.rows.clear();
        self.letters.clear();
    }

    fn open_letters(&mut self, layout: &Shape) -> Result<(), MemoryError> {
        assert!(self.letters.is_empty(), "a stage is opened while it holds dead letters");
        self.letters_shape = Some(*layout);
        Ok(())
    }

    fn push_for_letters(&mut self, records: Records) -> Result<Option<Records>, MemoryError> {
        let rows = self.rows.len();
        let arena = self.push(records)?;
        self.rows.truncate(rows);
        Ok(arena)
    }

    fn seal_letters(&mut self) -> Result<Letters<MemoryBatch>, MemoryError> {
        let shape = self.letters_shape.expect("it was opened for dead letters");
        let rows = std::mem::take(&mut self.letters);
        let mut past = Frontier::new();
        for (partition, at, _) in &rows {
            past.insert(*partition, Offset::after(at.get()).expect("a small offset"));
        }
        Ok(Letters { batch: MemoryBatch { shape, grown: None, rows }, past })
    }

    fn reshapes(batch: &MemoryBatch) -> bool {
        batch.grown.is_some()
    }
}

/// The shape that has a column for everything.
pub(super) const GROWN: Shape = Shape(1);

/// Does this row need [`GROWN`]?
pub(super) fn needs_growth(value: &[u8]) -> bool {
    value.starts_with(b"grow")
}
