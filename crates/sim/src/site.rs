//! Where the processes write: the in-memory table, or anything that can stand for it.

use lakeward_protocol::memory::{MemoryBatch, MemoryOutput, MemoryStage, Table, Topic};
use lakeward_protocol::ports::{OutputLog, Stage};
use lakeward_protocol::position::{Frontier, Offset, PartitionId, Shape, TableVersion};

use crate::Chaos;

/// A table that several processes write, as the simulation sees it from outside.
pub trait Site {
    /// What one commit takes.
    type Batch;
    /// What data must be written for.
    type Layout;
    /// What turns records into batches.
    type Stage: Stage<Batch = Self::Batch, Layout = Self::Layout>;
    /// The log under trial.
    type Output: OutputLog<Batch = Self::Batch, Layout = Self::Layout>;

    /// One process's stage and hold on the table, under the chaos.
    fn open(&self, chaos: &Chaos) -> (Self::Stage, Self::Output);

    /// One process's hold on the table of dead letters, where this site has one.
    fn open_letters(&self, chaos: &Chaos) -> Option<Self::Output> {
        let _ = chaos;
        None
    }

    /// The place of each dead letter that a reader sees.
    fn letters(&self) -> Vec<(PartitionId, Offset)> {
        Vec::new()
    }

    /// Another application puts a version.
    fn foreign_append(&self);

    /// Somebody changes what files must fit.
    fn foreign_reshape(&self);

    /// Somebody brings an older version's rows back. False where this site can't.
    fn foreign_restore(&self, to: TableVersion) -> bool {
        let _ = to;
        false
    }

    /// A late put arrives, if there is one; false where it is too late.
    fn deliver_late(&self) -> bool {
        false
    }

    /// Newest version.
    fn version(&self) -> TableVersion;

    /// The stored frontier.
    fn frontier(&self) -> Frontier;

    /// The place of each row that a reader sees.
    fn rows(&self) -> Vec<(PartitionId, Offset)>;

    /// Proves the log by itself: its chains, and that each commit holds what it says.
    ///
    /// # Errors
    /// What is wrong.
    fn verify(&self, topic: &Topic) -> Result<(), String>;
}

/// The table in memory.
#[derive(Clone, Default)]
pub struct MemorySite {
    table: Table,
    letters: Option<Table>,
}

impl MemorySite {
    /// One with a table of dead letters beside it.
    #[must_use]
    pub fn with_letters() -> Self {
        Self { letters: Some(Table::new()), ..Self::default() }
    }
}

impl Site for MemorySite {
    type Batch = MemoryBatch;
    type Layout = Shape;
    type Stage = MemoryStage;
    type Output = MemoryOutput;

    fn open(&self, chaos: &Chaos) -> (MemoryStage, MemoryOutput) {
        let fates = chaos.clone();
        let stage = MemoryStage::full_at(5 + usize::try_from(chaos.below(40)).expect("small"));
        (stage, self.table.open(1).fated(move |operation| fates.fate(operation)))
    }

    fn open_letters(&self, chaos: &Chaos) -> Option<MemoryOutput> {
        let fates = chaos.clone();
        Some(self.letters.as_ref()?.open(1).fated(move |operation| fates.fate(operation)))
    }

    fn letters(&self) -> Vec<(PartitionId, Offset)> {
        self.letters.iter().flat_map(Table::rows).map(|row| (row.0, row.1)).collect()
    }

    fn foreign_append(&self) {
        self.table.foreign_append();
        self.letters.iter().for_each(Table::foreign_append);
    }

    fn foreign_reshape(&self) {
        self.letters.as_ref().unwrap_or(&self.table).foreign_reshape();
    }

    fn foreign_restore(&self, to: TableVersion) -> bool {
        self.table.foreign_restore(to);
        true
    }

    fn deliver_late(&self) -> bool {
        self.table.deliver_late() | self.letters.as_ref().is_some_and(Table::deliver_late)
    }

    fn version(&self) -> TableVersion {
        self.table.version()
    }

    fn frontier(&self) -> Frontier {
        self.table.frontier()
    }

    fn rows(&self) -> Vec<(PartitionId, Offset)> {
        self.table.rows().into_iter().map(|row| (row.0, row.1)).collect()
    }

    fn verify(&self, topic: &Topic) -> Result<(), String> {
        self.letters.as_ref().map_or(Ok(()), |letters| letters.verify_letters(topic))?;
        self.table.verify(topic)
    }
}
