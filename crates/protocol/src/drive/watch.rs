//! Who logs and counts what the loop does. The loop itself prints nothing.

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;

use crate::core::{Ending, LETTERS, Why};
use crate::ports::{Checkpoint, Permit};
use crate::position::{Frontier, Offset, PartitionId, SinkId, TableVersion};
use crate::records::Records;

/// The port that an error came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Port {
    /// The topic.
    Input,
    /// Decode and encode.
    Stage,
    /// The table.
    Output,
    /// The table of dead letters.
    Letters,
    /// The circuit.
    Circuit,
    /// The checkpoints.
    Checkpoints,
}

impl Port {
    /// A sink, while running by partition.
    pub(super) fn of(sink: SinkId) -> Self {
        if sink == LETTERS { Self::Letters } else { Self::Output }
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Stage => "stage",
            Self::Output => "output",
            Self::Letters => "letters",
            Self::Circuit => "circuit",
            Self::Checkpoints => "checkpoints",
        })
    }
}

/// Why a commit is made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Due {
    /// The oldest record held waited long enough.
    Latency,
    /// Enough bytes for a file.
    Size,
    /// The stage is full.
    Memory,
    /// Partitions are asked back, all ends are reached, input is gone, or we are asked to stop.
    Leaving,
}

/// Hears what the loop does, as it does it. Every method may be left out.
pub trait Watch {
    /// Partitions came.
    fn gained(&mut self, partitions: &BTreeSet<PartitionId>) {
        let _ = partitions;
    }
    /// Partitions are asked back; they are let go of once what is held is committed.
    fn losing(&mut self, partitions: &BTreeSet<PartitionId>) {
        let _ = partitions;
    }
    /// Partitions were taken away.
    fn lost(&mut self, partitions: &BTreeSet<PartitionId>) {
        let _ = partitions;
    }
    /// Partitions were let go of.
    fn released(&mut self, partitions: &BTreeSet<PartitionId>) {
        let _ = partitions;
    }
    /// Partitions are read from these positions.
    fn started(&mut self, positions: &Frontier) {
        let _ = positions;
    }
    /// These records go into the stage.
    fn taken(&mut self, records: &Records) {
        let _ = records;
    }
    /// A partition's end, as the input sees it.
    fn reached(&mut self, partition: PartitionId, end: Offset) {
        let _ = (partition, end);
    }
    /// What was held, so many messages and bytes of values, is a batch to be committed.
    fn sealed(&mut self, due: Due, messages: u64, value_bytes: u64) {
        let _ = (due, messages, value_bytes);
    }
    /// A version is ours; the permit says what is in it, gaps (P9) included.
    fn committed(&mut self, version: TableVersion, permit: &Permit) {
        let _ = (version, permit);
    }
    /// The version was taken; the commit is tried again, or found.
    fn raced(&mut self, version: TableVersion) {
        let _ = version;
    }
    /// What was held is thrown away, to start again from where the sink stands.
    fn discarded(&mut self, why: &Why) {
        let _ = why;
    }
    /// Something failed that may heal. It is tried again after `wait`; nothing is lost meanwhile.
    fn retrying(&mut self, port: Port, doing: &str, error: &dyn Error, attempt: u32, wait: Duration) {
        let _ = (port, doing, error, attempt, wait);
    }
    /// By step: the circuit is what it was at a checkpoint; the sinks may be further.
    fn restored(&mut self, checkpoint: &Checkpoint) {
        let _ = checkpoint;
    }
    /// By step: the circuit took in what lies between two frontiers.
    fn stepped(&mut self, from: &Frontier, to: &Frontier) {
        let _ = (from, to);
    }
    /// By step: a checkpoint was put, and counts unless it is lost.
    fn saved(&mut self, checkpoint: &Checkpoint) {
        let _ = checkpoint;
    }
    /// By step: so many checkpoints were removed, newer ones being there.
    fn removed(&mut self, checkpoints: usize) {
        let _ = checkpoints;
    }
    /// By step, P3: the sources may delete what lies below.
    fn trimmed(&mut self, below: &Frontier) {
        let _ = below;
    }
    /// The run ends well.
    fn ended(&mut self, ending: Ending) {
        let _ = ending;
    }
}

/// Hears nothing.
impl Watch for () {}
