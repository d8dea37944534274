//! A sink as the loop sees it: a table or a topic.

use std::collections::BTreeSet;

use lakeward_delta::view::{Counts, Staged, View};
use lakeward_delta::{DeltaError, Layout};
use lakeward_kafka::{KafkaError, Messages, Sink};
use lakeward_protocol::ports::{Fault, Gap, Head, OutputLog, Permit, Put, Verdict};
use lakeward_protocol::position::{CommitId, Frontier, PartitionId, TableVersion};

/// Where a view is written.
pub enum Output {
    /// A Delta table.
    Table(Box<View>),
    /// A Kafka topic.
    Topic(Box<Sink>),
}

/// What one commit takes.
pub enum Sealed {
    /// Of a table.
    Files(Staged),
    /// Of a topic.
    Messages(Messages),
}

/// What data is made for.
pub enum Form {
    /// A table's schema and partitioning.
    Table(Box<Layout>),
    /// Messages are made alike for every topic.
    Topic,
}

/// What goes wrong with either.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A table.
    #[error(transparent)]
    Table(#[from] DeltaError),
    /// A topic.
    #[error(transparent)]
    Topic(#[from] KafkaError),
}

impl Fault for OutputError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Table(error) => error.verdict(),
            Self::Topic(error) => error.verdict(),
        }
    }
}

impl Output {
    /// The table's or topic's name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Table(view) => view.table().name(),
            Self::Topic(sink) => sink.name(),
        }
    }

    /// With what its commits without rows count; a topic's commits tell nothing of that.
    #[must_use]
    pub fn counting(self, counts: Counts) -> Self {
        match self {
            Self::Table(view) => Self::Table(Box::new(view.counting(counts))),
            topic @ Self::Topic(_) => topic,
        }
    }
}

impl OutputLog for Output {
    type Batch = Sealed;
    type Layout = Form;
    type Error = OutputError;

    fn load(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<Head, OutputError> {
        match self {
            Self::Table(view) => Ok(view.load(partitions)?),
            Self::Topic(sink) => Ok(sink.load(partitions)?),
        }
    }

    fn layout(&self) -> Form {
        match self {
            Self::Table(view) => Form::Table(Box::new(view.layout())),
            Self::Topic(_) => Form::Topic,
        }
    }

    fn put(&mut self, permit: &Permit, batch: Option<&Sealed>) -> Result<Put, OutputError> {
        match (self, batch) {
            (Self::Table(view), None) => Ok(view.put(permit, None)?),
            (Self::Table(view), Some(Sealed::Files(staged))) => Ok(view.put(permit, Some(staged))?),
            (Self::Topic(sink), None) => Ok(sink.put(permit, None)?),
            (Self::Topic(sink), Some(Sealed::Messages(messages))) => Ok(sink.put(permit, Some(messages))?),
            (Self::Table(_), Some(Sealed::Messages(_))) | (Self::Topic(_), Some(Sealed::Files(_))) => {
                panic!("a batch is put to the sink that it was sealed for")
            }
        }
    }

    fn find(&mut self, commit: CommitId, from: TableVersion) -> Result<Option<TableVersion>, OutputError> {
        match self {
            Self::Table(view) => Ok(view.find(commit, from)?),
            Self::Topic(sink) => Ok(sink.find(commit, from)?),
        }
    }

    fn gaps(&mut self, above: &Frontier) -> Result<Option<Vec<Gap>>, OutputError> {
        match self {
            Self::Table(view) => Ok(view.gaps(above)?),
            Self::Topic(sink) => Ok(sink.gaps(above)?),
        }
    }

    fn tend(&mut self) {
        match self {
            Self::Table(view) => view.tend(),
            Self::Topic(sink) => sink.tend(),
        }
    }
}
