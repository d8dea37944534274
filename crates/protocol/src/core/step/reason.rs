//! Why a run by step ends for a person to look.

use crate::core::Why;
use crate::core::reason::Stored;
use crate::ports::Exit;
use crate::position::{CheckpointNumber, Offset, PartitionId, TableVersion};

/// What only a person can decide. P9: what happened, where, and what goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StepReason {
    /// P9: a sink is not what it was. By step nothing of it can be accepted: the circuit's state
    /// would not be that of its input.
    #[error(
        "sink {sink}: {why}. A pipeline by step can't go on from there: bring the sink back to its newest version, \
             or run the pipeline under another name into new tables"
    )]
    Broken {
        /// The sink's name.
        sink: String,
        /// What happened to it.
        why: Why,
    },

    /// P9: a sink's log ends below a version that we have seen.
    #[error(
        "sink {sink}: the newest version is {version}, but version {seen} was there before: its log was rewound. Check \
         what happened to it; a start after that goes on from what all sinks say then, if they agree"
    )]
    RewoundLog {
        /// The sink's name.
        sink: String,
        /// The newest version now.
        version: TableVersion,
        /// The newest version that was seen.
        seen: TableVersion,
    },

    /// P8: somebody else committed, or saved a checkpoint beyond ours.
    #[error(
        "another process runs this pipeline: {by} was moved by it, partition {partition} to {stored} (expected: {}). \
         Nothing more is committed by this one. Make sure that one process runs it; when the other one has ended, \
         start again",
        Stored(*.expect)
    )]
    Fenced {
        /// What showed it: a sink's name, or the checkpoints.
        by: String,
        /// The partition.
        partition: PartitionId,
        /// Where it should have stood.
        expect: Option<Offset>,
        /// Where it stands.
        stored: Offset,
    },

    /// P8: the input is shared.
    #[error(
        "partition {partition} was taken away: a pipeline by step needs every partition of its sources; open them \
         without a group, and run the pipeline in one process"
    )]
    Shared {
        /// The first of them.
        partition: PartitionId,
    },

    /// P4: a sink went back, or the checkpoint is another pipeline's.
    #[error(
        "P4: checkpoint {number} covers partition {partition} up to offset {covers}, sink {sink} only up to {stands}: \
         the sink was set back, or the state store belongs to other tables. Bring the sink back to where it was, or \
         give the pipeline an empty state store and new tables. A sink that is new to the pipeline: empty the state \
         store, and pass --on-lost-state=replay if the pipeline began at offset 0"
    )]
    Ahead {
        /// The checkpoint.
        number: CheckpointNumber,
        /// The sink's name.
        sink: String,
        /// A partition that shows it.
        partition: PartitionId,
        /// The checkpoint's frontier there.
        covers: Offset,
        /// The sink's.
        stands: Offset,
    },

    /// P7: sinks that no run of this pipeline leaves behind.
    #[error(
        "P7: sink {sink} covers partition {partition} up to offset {stands}, sink {journal} only up to {below}, though \
         {journal} is committed first: a table was set back, the order of sinks changed, or the pipeline kept no state \
         before and each went on by itself. Bring the tables back to a common version (in the last case: run the \
         pipeline as it was with --until end), or fill new ones"
    )]
    Unordered {
        /// The sink that is ahead.
        sink: String,
        /// The one that should be.
        journal: String,
        /// A partition that shows it.
        partition: PartitionId,
        /// The former's frontier there.
        stands: Offset,
        /// The latter's.
        below: Offset,
    },

    /// P9: a source has fewer partitions than the pipeline has taken in.
    #[error(
        "{by} covers partition {partition}, which its source does not have: the topic was made again with fewer \
         partitions, or the broker that was asked does not know all of them yet. If it is the latter, start again"
    )]
    NoPartition {
        /// A sink's name, or the checkpoints.
        by: String,
        /// The partition.
        partition: PartitionId,
    },

    /// P9: input that the state, or the next step, needs.
    #[error(
        "partition {partition}: offset {at} is needed next{}, but the topic holds {oldest} to {end} (exclusive): it was \
         deleted or truncated. The answer can't be made without it: bring the records back, or run the pipeline \
         under another name into new tables{}",
        if *.replays { ", to make the state that the sinks stand at" } else { "" },
        if *.replays { " (on_gap = 'skip' can't help: the tables have it)" } else { "; or give the source on_gap = 'skip'" }
    )]
    Gone {
        /// The partition.
        partition: PartitionId,
        /// The offset needed.
        at: Offset,
        /// The oldest one kept.
        oldest: Offset,
        /// The one after the last.
        end: Offset,
        /// Whether the sinks have it already.
        replays: bool,
    },

    /// P9: a source that ends below what was taken in of it.
    #[error(
        "partition {partition}: it is read up to offset {at}, but the topic ends at {end}: it was truncated (as by an \
         unclean leader election), and holds, or will hold, other records at those offsets than the tables were made \
         of. No on_gap lets that pass: bring the records back, or run the pipeline under another name into new tables"
    )]
    CutBack {
        /// The partition.
        partition: PartitionId,
        /// The next offset.
        at: Offset,
        /// The one after the last that the topic holds.
        end: Offset,
    },

    /// P9: what a replay has to leave out is not known any more.
    #[error(
        "sink {sink}: its log does not reach back to the checkpoint any more, so that it is not known which gaps \
         were accepted since (on_gap = 'skip'); the state can't be made without that. Bring a newer checkpoint back, or \
         run the pipeline under another name into new tables"
    )]
    NoHistory {
        /// The sink's name.
        sink: String,
    },

    /// P9: the state is gone.
    #[error(
        "sink {sink} covers partition {partition} up to offset {stands}, but no checkpoint can be read: the state store \
         was lost, or is another one. Bring it back, or pass --on-lost-state=replay if the pipeline began at \
         offset 0, to make the state anew from there"
    )]
    NoState {
        /// The sink's name.
        sink: String,
        /// A partition that it covers.
        partition: PartitionId,
        /// Up to where.
        stands: Offset,
    },

    /// The user's beginning is not in the log.
    #[error(
        "partition {partition}: asked to start at offset {at}, but the topic holds {oldest} to {end} (exclusive); \
         correct --seek_offsets"
    )]
    SeekOutside {
        /// The partition.
        partition: PartitionId,
        /// The offset asked for.
        at: Offset,
        /// The oldest one kept.
        oldest: Offset,
        /// The one after the last.
        end: Offset,
    },

    /// The user's beginning lies above what is stored.
    #[error(
        "partition {partition}: --seek_offsets asks for offset {seek}, but the pipeline stands at {stored}, and going \
         on would leave a gap; nothing was written. Remove the partition from --seek_offsets to go on at {stored}, \
         or run the pipeline under another name into new tables"
    )]
    SeekAhead {
        /// The partition.
        partition: PartitionId,
        /// Where the first sink stands.
        stored: Offset,
        /// The offset asked for.
        seek: Offset,
    },
}

impl StepReason {
    /// How the process ends by it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Fenced { .. } => Exit::TryAgain,
            Self::Shared { .. } | Self::SeekOutside { .. } | Self::SeekAhead { .. } => Exit::Config,
            _ => Exit::Data,
        }
    }
}
