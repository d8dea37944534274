//! The shards, for a table that events go into by key: the workers decode, and what is sealed is the newest row of each key.
//!
//! All events of a batch are looked at together, since a key's may be with two workers. Rows are held as they are until
//! then, and written by the loop's own thread.

use std::collections::BTreeMap;

use lakeward_delta::view::{self, Staged, Stretch, ViewOptions, ViewWriter};
use lakeward_delta::{Layout, Tally};
use lakeward_protocol::ports::{Letters, Stage};
use lakeward_protocol::position::{PartitionId, Shape};
use lakeward_protocol::records::Records;
use tokio::runtime::Handle;

use super::{Shards, StageError};

/// See the module's header.
pub struct Upserts {
    shards: Shards,
    options: ViewOptions,
    runtime: Handle,
    writer: Option<ViewWriter>,
    /// What the table of dead letters is open for.
    letters: Option<Shape>,
    /// Taken from the workers and not sealed yet: the store refused, say.
    events: Vec<Stretch>,
    tally: BTreeMap<PartitionId, Tally>,
}

impl Upserts {
    /// Over workers that make events by key.
    #[must_use]
    pub fn new(shards: Shards, options: ViewOptions, runtime: Handle) -> Self {
        Self { shards, options, runtime, writer: None, letters: None, events: Vec::new(), tally: BTreeMap::new() }
    }

    fn forget(&mut self) {
        self.events.clear();
        self.tally.clear();
    }
}

impl Stage for Upserts {
    type Batch = Staged;
    type Layout = Layout;
    type Error = StageError;

    fn open(&mut self, layout: &Layout) -> Result<(), StageError> {
        self.writer = Some(ViewWriter::open(layout, &self.options).map_err(StageError::Table)?);
        self.shards.open(layout)
    }

    fn prepare(&mut self, records: &Records) -> Result<(), StageError> {
        self.shards.prepare(records)?;
        Ok(self.shards.format.prepare_keys(records)?)
    }

    fn push(&mut self, records: Records) -> Result<Option<Records>, StageError> {
        self.shards.push(records)
    }

    fn is_full(&self) -> bool {
        self.shards.is_full()
    }

    fn seal(&mut self) -> Result<Staged, StageError> {
        let (batch, events) = self.shards.seal_events()?;
        self.events.extend(events);
        for (partition, tally) in batch.tally {
            *self.tally.entry(partition).or_default() += tally;
        }
        let writer = self.writer.as_mut().expect("the loop opens the stage before it seals");
        let staged =
            writer.stage_latest(&self.events, self.tally.clone(), &self.runtime).map_err(|error| match error {
                view::StageError::Encode(error) => StageError::Encode(error),
                view::StageError::Delta(error) => StageError::Table(error),
            })?;
        self.forget();
        Ok(staged)
    }

    fn discard(&mut self) {
        self.forget();
        self.shards.discard();
    }

    fn open_letters(&mut self, layout: &Layout) -> Result<(), StageError> {
        self.letters = Some(layout.shape());
        self.shards.open_letters(layout)
    }

    fn push_for_letters(&mut self, records: Records) -> Result<Option<Records>, StageError> {
        self.shards.push_for_letters(records)
    }

    fn seal_letters(&mut self) -> Result<Letters<Staged>, StageError> {
        let Letters { batch, past } = self.shards.seal_letters()?;
        let shape = self.letters.expect("the loop opens the stage for letters before it seals them");
        Ok(Letters { batch: Staged::of_new_rows(batch, shape), past })
    }
}
