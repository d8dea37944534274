//! What the core asks for, and what it is told.

use std::collections::BTreeSet;

use super::reason::{Reason, Why};
use crate::ports::{Bounds, Head, Permit, Stopping};
use crate::position::{CommitId, Frontier, Offset, PartitionId, SinkId, TableVersion};

/// The one thing to do next. Each but [`Read`](Self::Read), [`End`](Self::End) and
/// [`Stop`](Self::Stop) is answered by the [`Event`] of its name. An action may be tried again
/// until it is answered; any event in between may change what is next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read the sink's newest version.
    Load {
        /// Which sink.
        sink: SinkId,
        /// The partitions whose frontier is asked for.
        partitions: BTreeSet<PartitionId>,
    },
    /// Make the stage ready for the sink's layout as of the last load: to write rows, or dead letters. It holds nothing.
    Open {
        /// Whose layout it is.
        sink: SinkId,
    },
    /// Ask the input what it holds of a partition.
    Ask {
        /// Which partition.
        partition: PartitionId,
    },
    /// Think up a name for a commit of frontiers alone: where partitions begin, or where they stand, told again.
    Name,
    /// Begin to deliver from these positions.
    Start {
        /// The first offset wanted of each partition.
        positions: Frontier,
    },
    /// Take in what the input says, and tell when it is time to commit.
    Read,
    /// Close what the stage holds into a batch, and think up its name.
    Seal,
    /// Put a version. The batch goes with it if one is sealed.
    Put(Permit),
    /// Look for our own commit.
    Find {
        /// Which sink.
        sink: SinkId,
        /// The name that it was put under.
        commit: CommitId,
        /// The first version that it can be.
        from: TableVersion,
    },
    /// Tell lag tools.
    Announce {
        /// What is committed: for each partition the first offset that is not.
        frontier: Frontier,
    },
    /// Keep the sink's house.
    Tend {
        /// Which sink.
        sink: SinkId,
    },
    /// Let go of partitions.
    Release {
        /// Those asked back; at the end all that are held.
        partitions: BTreeSet<PartitionId>,
    },
    /// Forget everything held, and the sealed batch.
    Discard(Why),
    /// All is done.
    End(Ending),
    /// A person has to decide.
    Stop(Reason),
}

/// How a run ends well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Everything up to the asked ends is committed.
    Reached,
    /// Asked to stop; what was held is committed.
    Stopped,
    /// Asked to stop at once; what was held is read again by the next owner.
    Aborted,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Partitions are ours.
    Gained(BTreeSet<PartitionId>),
    /// Partitions are asked back.
    Losing(BTreeSet<PartitionId>),
    /// Partitions are gone.
    Lost(BTreeSet<PartitionId>),
    /// Records that [`Core::admit`](super::Core::admit) let in are in the stage.
    Taken {
        /// Which partition.
        partition: PartitionId,
        /// Where they begin: where the last ones of the partition ended.
        from: Offset,
        /// One past the last offset that they cover.
        to: Offset,
    },
    /// No record of the partition is left below `end`.
    Reached {
        /// Which partition.
        partition: PartitionId,
        /// One past the last offset that can be read now.
        end: Offset,
    },
    /// P9: the input does not hold what it was told to begin with.
    Gone {
        /// Which partition.
        partition: PartitionId,
        /// The next offset that was wanted.
        at: Offset,
        /// What the input holds instead.
        bounds: Bounds,
    },
    /// What is held is to be committed now: for latency, size, or memory.
    Due,
    /// It is time to ask the sink which frontiers it is to be told again.
    Renew,
    /// Somebody asks us to end.
    Stopping(Stopping),
    /// A sink's newest version.
    Loaded {
        /// Which sink.
        sink: SinkId,
        /// What it says.
        head: Head,
    },
    /// The stage is ready.
    Opened {
        /// For which sink.
        sink: SinkId,
    },
    /// What the input holds.
    Bounds {
        /// Which partition.
        partition: PartitionId,
        /// What it holds now.
        bounds: Bounds,
    },
    /// A name for a commit of frontiers alone.
    Named(CommitId),
    /// The input delivers.
    Started,
    /// The stage's batch, and that of its dead letters, have this name.
    Sealed {
        /// The name.
        id: CommitId,
        /// The partitions that made dead letters, with the position after the last one.
        dead: Frontier,
        /// The commit of the rows changes the sink's shape.
        reshapes: bool,
    },
    /// How the put ended.
    Put(Outcome),
    /// Where our commit is.
    Found(Option<TableVersion>),
    /// Lag tools know.
    Announced,
    /// The house is kept.
    Tended {
        /// Of which sink.
        sink: SinkId,
    },
    /// They are not ours any more.
    Released(BTreeSet<PartitionId>),
    /// Nothing is held.
    Discarded,
}

/// How a put ended, as far as we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is there.
    Done,
    /// The version is taken, by whom is unknown.
    Taken,
    /// No answer, or an error: it may be there.
    Unknown,
}

/// What to do with records that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admit {
    /// Not wanted: recycle them.
    No,
    /// Push those below the offset, if one is given, and tell [`Event::Taken`].
    Below(Option<Offset>),
    /// The same, for their dead letters alone.
    Letters(Offset),
}
