//! Where `ingest`'s rows go: a table that only grows, or one that holds the newest row of each key.

use std::collections::BTreeSet;

use lakeward_delta::view::{Staged, View};
use lakeward_delta::{DeltaError, Layout, Table};
use lakeward_protocol::ports::{Exit, Gap, Head, OutputLog, Permit, Put};
use lakeward_protocol::position::{CommitId, Frontier, PartitionId, TableVersion};

use crate::failure::Failure;

/// A table by the way it is written.
pub enum Sink {
    /// Every row that ever came; dead letters among them.
    Append(Box<Table>),
    /// The newest row of each key.
    Upsert(Box<View>),
}

impl Sink {
    /// Every record into a table, unless it holds the newest row of each key.
    ///
    /// # Errors
    /// It does: records would be rows beside those. A log that can't be read.
    pub fn append(mut table: Table) -> Result<Table, Failure> {
        if !table.is_upserted().map_err(|error| Failure::port(&error))? {
            return Ok(table);
        }
        let text = format!(
            "table {} holds the newest row of each key, as --mode upsert wrote it; in mode append records would be rows \
             beside those: pass --mode upsert and its --key, or name another table",
            table.name()
        );
        Err(Failure::new(Exit::Config, text))
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &Table {
        match self {
            Self::Append(table) => table,
            Self::Upsert(view) => view.table(),
        }
    }
}

impl OutputLog for Sink {
    type Batch = Staged;
    type Layout = Layout;
    type Error = DeltaError;

    fn load(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<Head, DeltaError> {
        match self {
            Self::Append(table) => table.load(partitions),
            Self::Upsert(view) => view.load(partitions),
        }
    }

    fn layout(&self) -> Layout {
        self.table().layout()
    }

    fn keeps_ms(&self) -> Option<u64> {
        self.table().keeps_ms()
    }

    fn put(&mut self, permit: &Permit, batch: Option<&Staged>) -> Result<Put, DeltaError> {
        match self {
            Self::Append(table) => table.put(permit, batch.map(Staged::batch)),
            Self::Upsert(view) => view.put(permit, batch),
        }
    }

    fn find(&mut self, commit: CommitId, from: TableVersion) -> Result<Option<TableVersion>, DeltaError> {
        match self {
            Self::Append(table) => table.find(commit, from),
            Self::Upsert(view) => view.find(commit, from),
        }
    }

    fn gaps(&mut self, above: &Frontier) -> Result<Option<Vec<Gap>>, DeltaError> {
        match self {
            Self::Append(table) => table.gaps(above),
            Self::Upsert(view) => view.gaps(above),
        }
    }

    fn tend(&mut self) {
        match self {
            Self::Append(table) => table.tend(),
            Self::Upsert(view) => view.tend(),
        }
    }
}
