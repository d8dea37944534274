//! Ports over plain memory: a topic with its group, a table with its log, a world with its clock.
//!
//! They pass the suites of `contract`, and they do on request what real ones do by accident: lose
//! replies, refuse winners, evict the frozen, restore old versions. Tests and `lakeward-sim` run
//! the shipped loop over them.

mod stage;
mod table;
mod topic;
mod world;

#[cfg(test)]
mod tests;

pub use stage::{MemoryBatch, MemoryStage};
pub use table::{Fate, MemoryOutput, Operation, Table};
pub use topic::{Handover, MemoryInput, Topic};
pub use world::{Clock, MemoryWorld};

use crate::ports::{Exit, Fault, Verdict};

/// What goes wrong in memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// No answer, on request.
    #[error("no answer from memory while it was asked to {0}; retrying, nothing is lost")]
    Outage(&'static str),
    /// A bad record, by the policy `stop`.
    #[error("the record at offset {offset} is bad; remove it, or choose to skip such records")]
    BadRecord {
        /// Its offset in its partition.
        offset: i64,
    },
}

impl Fault for MemoryError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Outage(_) => Verdict::Retry,
            Self::BadRecord { .. } => Verdict::Stop(Exit::Data),
        }
    }
}
