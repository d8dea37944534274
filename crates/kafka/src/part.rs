//! What the reader knows of one partition.

use lakeward_protocol::position::{Offset, PartitionId};
use lakeward_protocol::records::Records;

/// One partition that we were given.
pub(crate) struct Part {
    pub(crate) id: PartitionId,
    /// Where the chain stands: all below is in `open`, in the outbox, or further on.
    pub(crate) next: Offset,
    /// Between `start` and `release`.
    pub(crate) delivering: bool,
    /// Something came since the last start. Until then what is fetched may still be on its way to nowhere:
    /// see `settle`.
    pub(crate) settled: bool,
    /// librdkafka's own position may be wrong: what comes is dropped until it was moved to `next`.
    pub(crate) doubtful: bool,
    /// The broker had nothing at `next`; only a start helps.
    pub(crate) stalled: bool,
    pub(crate) open: Option<Records>,
}

impl Part {
    /// Ours, and not started yet.
    pub(crate) fn gained(id: PartitionId) -> Self {
        Self { id, next: Offset::ZERO, delivering: false, settled: false, doubtful: false, stalled: false, open: None }
    }
}
