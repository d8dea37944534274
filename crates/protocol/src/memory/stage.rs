//! A stage whose rows are the records themselves.

use super::MemoryError;
use crate::ports::Stage;
use crate::position::{Offset, PartitionId, Shape};
use crate::records::Records;

/// What one commit takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBatch {
    /// The shape that it was made for.
    pub shape: Shape,
    /// Partition, offset and value of each row, as pushed.
    pub rows: Vec<(PartitionId, Offset, Vec<u8>)>,
}

/// Holds records as rows. The value `bad` is a bad record.
#[derive(Debug)]
pub struct MemoryStage {
    shape: Option<Shape>,
    rows: Vec<(PartitionId, Offset, Vec<u8>)>,
    full_at: usize,
    stops_on_bad: bool,
}

impl Default for MemoryStage {
    fn default() -> Self {
        Self { shape: None, rows: Vec::new(), full_at: usize::MAX, stops_on_bad: false }
    }
}

impl MemoryStage {
    /// One that is full with so many rows.
    #[must_use]
    pub fn full_at(rows: usize) -> Self {
        Self { full_at: rows, ..Self::default() }
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
        assert!(self.rows.is_empty(), "a stage is opened while it holds rows: discard precedes open");
        self.shape = Some(*layout);
        Ok(())
    }

    fn push(&mut self, records: Records) -> Result<Option<Records>, MemoryError> {
        assert!(self.shape.is_some(), "a stage is open before records come");
        for entry in records.entries() {
            match records.value(entry) {
                None => {}
                Some(b"bad") if self.stops_on_bad => {
                    return Err(MemoryError::BadRecord { offset: entry.offset });
                }
                Some(b"bad") => {}
                Some(value) => {
                    let offset = Offset::new(entry.offset).expect("offsets are not negative");
                    self.rows.push((records.partition(), offset, value.to_vec()));
                }
            }
        }
        Ok(Some(records))
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.full_at
    }

    fn seal(&mut self) -> Result<MemoryBatch, MemoryError> {
        let shape = self.shape.expect("a stage is open before it seals");
        Ok(MemoryBatch { shape, rows: std::mem::take(&mut self.rows) })
    }

    fn discard(&mut self) {
        self.rows.clear();
    }
}
