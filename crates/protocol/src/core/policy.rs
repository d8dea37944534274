//! What the user decides beforehand.

use super::set::Set;
use crate::position::Frontier;

/// Input that is gone before it was read: expired, truncated, or another topic's (P9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnGap {
    /// End with an error that names it.
    #[default]
    Stop,
    /// Go on at the oldest record there is; the gap is written into the table's log.
    Skip,
}

/// A sink that went back: its data, its frontier, or both are older than what we committed (P9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnRestore {
    /// End with an error that names it.
    #[default]
    Stop,
    /// Read again what the sink does not hold any more.
    Replay,
    /// Go on where we stood; what is gone stays gone, and is written down.
    Accept,
}

/// Where a partition begins that the sink has no frontier of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Beginning {
    /// At the oldest record kept.
    #[default]
    Earliest,
    /// At the end, as of the first time that any process was given the partition.
    Latest,
}

/// The user's decisions. They do not change while a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policies {
    /// See [`OnGap`].
    pub on_gap: OnGap,
    /// See [`OnRestore`].
    pub on_restore: OnRestore,
    /// See [`Beginning`].
    pub beginning: Beginning,
    /// The first offset to take of these partitions, where the sink has no frontier of them. A
    /// stored frontier at or above it wins; one below it is refused.
    pub seek: Frontier,
    /// The same where a time stands for it: a stored frontier wins wherever it is.
    pub starts: Frontier,
    /// To set the sink's frontier rather than to read. `ends` is the same frontier then.
    pub set: Option<Set>,
    /// Where to stop reading, by partition; a partition without an entry has nothing to read.
    /// `None` reads for ever.
    pub ends: Option<Frontier>,
    /// P7: bad records are dead letters, in a table of their own that follows the first.
    pub dead_letters: bool,
}
