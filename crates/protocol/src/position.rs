//! The numbers that cross rooms, each a type of its own.

use std::collections::BTreeMap;
use std::fmt;

/// Next offset to read in one partition: everything *below* it is consumed.
/// A position, not a count. Never negative, though Kafka's wire type is `i64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(i64);

/// A negative number was offered as an offset.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not an offset: offsets are never negative")]
pub struct NegativeOffset(pub i64);

impl Offset {
    /// The first position of a partition.
    pub const ZERO: Self = Self(0);

    /// # Errors
    /// When `raw` is negative.
    pub fn new(raw: i64) -> Result<Self, NegativeOffset> {
        if raw < 0 { Err(NegativeOffset(raw)) } else { Ok(Self(raw)) }
    }

    /// The position after the record at `last`, as sinks store it (`txn` holds the *last* consumed
    /// offset). `-1` is "nothing consumed, start at 0".
    ///
    /// # Errors
    /// When `last` is below -1, or is the largest number there is.
    pub fn after(last: i64) -> Result<Self, NegativeOffset> {
        last.checked_add(1).ok_or(NegativeOffset(i64::MIN)).and_then(Self::new)
    }

    /// The wire's form of the position: the next offset to read.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }

    /// The last offset below this position; -1 at the start of a partition.
    #[must_use]
    pub fn last(self) -> i64 {
        self.0 - 1
    }

    /// Width of `[self, end)`. May exceed the record count: compaction leaves holes.
    ///
    /// # Panics
    /// P2: when `end` lies before `self`.
    #[must_use]
    pub fn span_until(self, end: Self) -> u64 {
        assert!(self <= end, "P2: offsets ran backwards: {self} to {end}");
        (end.0 - self.0).unsigned_abs()
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A source of the pipeline, in the order in which it names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u8);

/// One partition of the pipeline. Those of the first source are numbered as the source does; with
/// several, the upper 8 bits name the source ([`of`](Self::of)), so that one [`Frontier`] holds all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

/// Bits of a partition's number inside its source.
const NUMBER_BITS: u32 = 24;

impl PartitionId {
    /// The partition that `source` calls `number`.
    ///
    /// # Panics
    /// When a source has 2^24 partitions or more.
    #[must_use]
    pub fn of(source: SourceId, number: u32) -> Self {
        assert!(number < 1 << NUMBER_BITS, "partition {number}: a source has fewer than 2^24 partitions");
        Self(u32::from(source.0) << NUMBER_BITS | number)
    }

    /// The source that it is of.
    #[must_use]
    pub fn source(self) -> SourceId {
        SourceId(u8::try_from(self.0 >> NUMBER_BITS).expect("8 bits are left"))
    }

    /// How its source numbers it.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source() {
            SourceId(0) => self.number().fmt(f),
            SourceId(source) => write!(f, "{source}/{}", self.number()),
        }
    }
}

/// A version of a sink's log: a Delta table's version number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableVersion(pub u64);

impl TableVersion {
    /// The version that a writer who has seen `self` may put.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for TableVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names one batch of one process for ever; written into its commit, so that a writer whose
/// reply was lost recognises its own work. Never reused for another batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u128);

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A sink of the pipeline, in the fixed order of commits (P7: the first is the journal).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SinkId(pub u8);

/// A checkpoint's place in the order in which they were made. Numbers may be left out, and are never
/// used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointNumber(pub u64);

impl fmt::Display for CheckpointNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Fingerprint of what data must be written *for*: a table's protocol, schema, partitioning and
/// properties. Equal shapes take equal files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape(pub u64);

/// Offsets of one partition: from here, up to but not including there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stretch {
    /// The first one.
    pub from: Offset,
    /// The one after the last.
    pub to: Offset,
}

/// An offset for each partition that has one.
pub type Frontier = BTreeMap<PartitionId, Offset>;
