//! What the core asks for by step, and what it is told. What is not explained here means what it
//! means by partition.

use std::collections::BTreeSet;

use super::reason::StepReason;
use crate::core::{Ending, Outcome, Why};
use crate::ports::{Bounds, Checkpoint, Gap, Head, Permit, Restored, Stopping};
use crate::position::{CommitId, Frontier, Offset, PartitionId, SinkId, TableVersion};

/// The one thing to do next. Each but [`Read`](Self::Read), [`End`](Self::End) and
/// [`Stop`](Self::Stop) is answered by an event of [`StepEvent`]. An action may be tried again until
/// it is answered; any event in between may change what is next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StepAction {
    /// Hear the input, and tell when a step or a checkpoint is due.
    Read,
    /// List the readable checkpoints.
    List,
    /// Read a sink's newest version.
    Load {
        /// Which one.
        sink: SinkId,
        /// Whose stored frontiers are asked for.
        partitions: BTreeSet<PartitionId>,
    },
    /// Ask the input what it holds of a partition.
    Ask {
        /// Which one.
        partition: PartitionId,
    },
    /// Think up a name for a checkpoint.
    Name,
    /// Make the circuit ready for a sink's layout as of the last load.
    Open {
        /// Which one.
        sink: SinkId,
    },
    /// Make the circuit what it was at a checkpoint.
    Restore(Checkpoint),
    /// Read what breaks a sink's log has above a frontier.
    Gaps {
        /// Which one.
        sink: SinkId,
        /// Those that end above it are asked for.
        above: Frontier,
    },
    /// P9: let the circuit go on behind a break: it is pushed as a stretch without records.
    Pass {
        /// Of which partition.
        partition: PartitionId,
        /// Where it begins.
        from: Offset,
        /// Where the partition goes on.
        to: Offset,
    },
    /// Begin to deliver, all partitions, from these positions.
    Start {
        /// The next offset of each.
        positions: Frontier,
    },
    /// Let the circuit take in what was pushed: the span between the two frontiers. Changes of other
    /// sinks than those wanted are not kept.
    Step {
        /// What the state covers.
        from: Frontier,
        /// What it covers after it.
        to: Frontier,
        /// The sinks whose changes are kept.
        wanted: BTreeSet<SinkId>,
    },
    /// Close what the circuit holds for a sink into a batch, if it holds anything, and think up its name.
    Seal {
        /// Which one.
        sink: SinkId,
    },
    /// Put a version. The batch goes with it if one is sealed.
    Put(Permit),
    /// Look for our own commit.
    Find {
        /// In which one.
        sink: SinkId,
        /// Its name.
        commit: CommitId,
        /// The first version that it may be.
        from: TableVersion,
    },
    /// Tell lag tools.
    Announce {
        /// What every sink with changes has.
        frontier: Frontier,
    },
    /// Keep a sink's house.
    Tend {
        /// Which one.
        sink: SinkId,
    },
    /// Begin to save the circuit's state under a name.
    Prepare {
        /// The name.
        id: CommitId,
    },
    /// Wait for the save that is under way.
    Finish,
    /// Put a manifest.
    Save(Checkpoint),
    /// Remove checkpoints that are not needed.
    Remove(Vec<Checkpoint>),
    /// P3: let the source delete what lies below.
    Trim {
        /// What every sink and every kept checkpoint covers.
        below: Frontier,
    },
    /// Let go of the input.
    Release {
        /// All of them.
        partitions: BTreeSet<PartitionId>,
    },
    /// Forget the sealed batch. The circuit is restored after it.
    Discard(Why),
    /// All is done.
    End(Ending),
    /// A person has to decide.
    Stop(StepReason),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StepEvent {
    /// The input has these partitions; all that it has when it is asked first, later what was added.
    Gained(BTreeSet<PartitionId>),
    /// The input is taken from us: it is shared, which by step it may not be.
    Lost(BTreeSet<PartitionId>),
    /// Records that [`StepCore::admit`](super::StepCore::admit) let in are pushed.
    Taken {
        /// Of which partition.
        partition: PartitionId,
        /// The first offset.
        from: Offset,
        /// The one after the last.
        to: Offset,
    },
    /// No record of the partition is left below `end`.
    Reached {
        /// Which one.
        partition: PartitionId,
        /// Its end, as of now.
        end: Offset,
    },
    /// P9: the input does not hold what comes next.
    Gone {
        /// Which one.
        partition: PartitionId,
        /// What comes next.
        at: Offset,
        /// What it holds.
        bounds: Bounds,
    },
    /// A step is to be taken now: for latency, size, or memory.
    Due,
    /// A checkpoint is to be made now.
    SaveDue,
    /// Somebody asks us to end.
    Stopping(Stopping),
    /// The readable checkpoints, oldest first.
    Listed(Vec<Checkpoint>),
    /// The newest version of the sink asked for.
    Loaded(Head),
    /// What the input holds.
    Bounds {
        /// Which one.
        partition: PartitionId,
        /// Its oldest offset and its end.
        bounds: Bounds,
    },
    /// A name for a checkpoint.
    Named(CommitId),
    /// The circuit is ready for the sink.
    Opened(SinkId),
    /// How the restore ended.
    Restored(Restored),
    /// The breaks above the frontier asked for; `None` where the log does not reach back so far.
    Gaps(Option<Vec<Gap>>),
    /// The circuit goes on behind a break.
    Passed {
        /// Of which partition.
        partition: PartitionId,
        /// Where it goes on.
        to: Offset,
    },
    /// The input delivers.
    Started,
    /// The circuit has taken the step, and holds changes of these sinks.
    Stepped {
        /// Those that it holds changes of.
        held: BTreeSet<SinkId>,
    },
    /// The batch's name; `rows` when there is one.
    Sealed {
        /// The name.
        id: CommitId,
        /// Whether there is a batch.
        rows: bool,
    },
    /// How the put ended.
    Put(Outcome),
    /// Where our commit is.
    Found(Option<TableVersion>),
    /// Lag tools know.
    Announced,
    /// The house is kept.
    Tended(SinkId),
    /// The save is under way. Its end may be told whenever the core reads.
    Prepared,
    /// The state is saved; what its manifest has to keep.
    Finished(Vec<u8>),
    /// It is not saved, and the save is over.
    Failed,
    /// How the put of the manifest ended.
    Saved(Outcome),
    /// They are removed.
    Removed,
    /// The source knows.
    Trimmed,
    /// The input is let go of.
    Released,
    /// Nothing is sealed.
    Discarded,
}
