//! Ports over plain memory: a topic with its group, a table with its log, a world with its clock.
//!
//! They pass the suites of `contract`, and they do on request what real ones do by accident: lose
//! replies, refuse winners, evict the frozen, restore old versions. Tests and `lakeward-sim` run
//! the shipped loop over them.

mod checkpoints;
mod circuit;
mod stage;
mod table;
mod topic;
mod world;

#[cfg(test)]
mod tests;

pub use checkpoints::{MemoryCheckpoints, States};
pub use circuit::{MemoryCircuit, answer};
pub use stage::{MemoryBatch, MemoryStage, Outside};
pub use table::{Fate, MemoryOutput, Operation, Table, View};
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
    /// A state of another plan.
    #[error("the checkpoint's state was saved by the plan {was}, this is {is}; run it under another name")]
    OtherPlan {
        /// What saved it.
        was: String,
        /// What would read it.
        is: String,
    },
}

impl Fault for MemoryError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Outage(_) => Verdict::Retry,
            Self::BadRecord { .. } => Verdict::Stop(Exit::Data),
            Self::OtherPlan { .. } => Verdict::Stop(Exit::Config),
        }
    }
}
