//! Why the core stops, and why it throws away what it holds. The texts name no topic and no
//! table: who prints them knows these.

use std::collections::BTreeSet;
use std::fmt;

use crate::ports::{Breach, Exit};
use crate::position::{Offset, PartitionId, TableVersion};

/// What only a person can decide. P9: what happened, where, and which option goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// Input was deleted before it was read.
    #[error(
        "partition {partition}: offsets {at} to {} were deleted before they were read (oldest kept: {oldest}, end: {end}); \
         pass --on-gap=skip (in a pipeline: on_gap = 'skip' of the source) to go on at {oldest} without them",
        oldest.last()
    )]
    Expired {
        /// Which partition.
        partition: PartitionId,
        /// The first offset that is missing.
        at: Offset,
        /// The oldest offset that is kept.
        oldest: Offset,
        /// One past the newest.
        end: Offset,
    },

    /// The log ends below what was read of it.
    #[error(
        "partition {partition}: the topic ends at {end}, but everything below {at} was read of it already: it was \
         truncated or made again; pass --on-gap=skip (in a pipeline: on_gap = 'skip' of the source) to go on at its \
         oldest record, {oldest}"
    )]
    Truncated {
        /// Which partition.
        partition: PartitionId,
        /// One past the last offset that was read.
        at: Offset,
        /// The oldest offset that is kept.
        oldest: Offset,
        /// One past the newest, below `at`.
        end: Offset,
    },

    /// The user's start is not in the log.
    #[error(
        "partition {partition}: asked to start at offset {at}, but the topic holds {oldest} to {end} (exclusive); \
         correct --start or --seek_offsets, or pass --on-gap=skip to start at the nearest offset there is"
    )]
    SeekOutside {
        /// Which partition.
        partition: PartitionId,
        /// The first offset that the user wants.
        at: Offset,
        /// The oldest offset that is kept.
        oldest: Offset,
        /// One past the newest.
        end: Offset,
    },

    /// The user's start lies above the stored frontier.
    #[error(
        "partition {partition}: stored {} seek {}: the table's last consumed offset lies below the one of \
         --seek_offsets or --start, and going on would leave a gap; nothing was written. Remove the partition from it to \
         go on at {stored}, leave the gap knowingly by `lakeward offsets set`, or use another --app_id",
        stored.last(), seek.last()
    )]
    SeekAhead {
        /// Which partition.
        partition: PartitionId,
        /// The sink's frontier.
        stored: Offset,
        /// The first offset that the user wants, above it.
        seek: Offset,
    },

    /// A person wants the frontier set back, and did not say that rows may be there twice.
    #[error(
        "partition {partition}: the table has everything below offset {from}; set to {to}, offsets {to} to {} are written \
         into it a second time; nothing was written. Pass --force if that is wanted",
        from.last()
    )]
    SetBack {
        /// Which partition.
        partition: PartitionId,
        /// Up to where the sink has it.
        from: Offset,
        /// Where it was to be set, below that.
        to: Offset,
    },

    /// The sink's frontier went back, or vanished, while we ran.
    #[error(
        "partition {partition}: the table's last consumed offset was {}, now it is {}: somebody set it back or the \
         log was rewound; pass --on-restore=replay to read again from there, --on-restore=accept to go on at {known}",
        known.last(), Stored(*stored)
    )]
    Rewound {
        /// Which partition.
        partition: PartitionId,
        /// The frontier that we committed or loaded before.
        known: Offset,
        /// The frontier now; `None` where there is none any more.
        stored: Option<Offset>,
    },

    /// The sink's log ends below a version that we have seen.
    #[error(
        "the table's newest version is {version}, but version {seen} was there before: its log was rewound. Check \
         what happened to it; a start after that goes on from what the table says then"
    )]
    RewoundLog {
        /// The newest version now.
        version: TableVersion,
        /// The newest that we saw, above it.
        seen: TableVersion,
    },

    /// The data was restored to an older version, our frontier was not.
    #[error(
        "the table was restored to version {to} by version {at}: rows of {} are gone from it, though its last consumed \
         offsets say otherwise; pass --on-restore=replay to read them again, --on-restore=accept to go on without them",
        Places(.partitions)
    )]
    Restored {
        /// The version that is the restore.
        at: TableVersion,
        /// The older version that it brought back.
        to: TableVersion,
        /// The partitions whose rows are gone, each with the first offset that is.
        partitions: Vec<(PartitionId, Offset)>,
    },

    /// Another table.
    #[error(
        "the table was dropped and made again (its id was {was}, now it is {is}): nothing that was written is in it. \
         Start again to fill the new one, from where it says or from the topic's beginning"
    )]
    Recreated {
        /// The id that we knew.
        was: String,
        /// The id of the one that lies there now.
        is: String,
    },

    /// Another topic.
    #[error(
        "the topic was deleted and made again (its id was {was}, now it is {is}): the table's last consumed offsets \
         are about the old one; pass --on-gap=skip (in a pipeline: on_gap = 'skip' of the source) to take the new one \
         from its oldest record"
    )]
    OtherTopic {
        /// Id of the topic that the frontier is about.
        was: String,
        /// Id of the topic that is read now.
        is: String,
    },

    /// The sink forgets frontiers, and has none of these partitions.
    #[error(
        "{}: the table has no offset of it, and whether it had one can't be told: it forgets offsets that are not \
         written again for {keeps} (delta.setTransactionRetentionDuration), and what is left of its log does not reach \
         back to where one could be. Records would be there twice if it had one. Find out what the table has, and say \
         where to go on: lakeward offsets set TABLE --to offsets:PARTITION=OFFSET (--to earliest for partitions that \
         were never written)",
        Numbers(partitions)
    )]
    Forgotten {
        /// Which partitions.
        partitions: BTreeSet<PartitionId>,
        /// How long it keeps frontiers, in its own words.
        keeps: String,
    },

    /// The same of the table of dead letters.
    #[error(
        "the dead-letter table: {0}. Or name another one (--dlq_table_location): the old one keeps what it has, and \
         nothing is owed to a new one"
    )]
    Letters(#[source] Box<Reason>),

    /// P7: the table of dead letters has letters of what the table does not have.
    #[error(
        "partition {partition}: the dead-letter table has the letters of all offsets below {letters}, and the table goes \
         on at {at}: the table was set back or restored, or another job writes the same dead-letter table under this \
         --app_id. Letters would be there twice: name another dead-letter table (--dlq_table_location), or give each \
         job an --app_id of its own"
    )]
    LettersAhead {
        /// Which partition.
        partition: PartitionId,
        /// What the table of dead letters says.
        letters: Offset,
        /// Where the table goes on, below it.
        at: Offset,
    },

    /// P9: records whose dead letters are not in their table yet are gone.
    #[error(
        "partition {partition}: a process ended before the dead letters of offsets {at} to {} were written, and the \
         topic does not hold all of these any more (oldest kept: {oldest}, end: {end}); pass --on-gap=skip to go on \
         without those that are gone: the table's counts tell how many they were",
        until.last()
    )]
    LettersGone {
        /// Which partition.
        partition: PartitionId,
        /// The first offset whose letters are owed.
        at: Offset,
        /// The one after the last.
        until: Offset,
        /// The oldest offset that is kept.
        oldest: Offset,
        /// One past the newest.
        end: Offset,
    },
}

impl Reason {
    /// How the process ends by it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::SeekAhead { .. } | Self::SeekOutside { .. } | Self::SetBack { .. } => Exit::Config,
            _ => Exit::Data,
        }
    }
}

/// Why everything that is held and not committed is thrown away, to start again from the sink's
/// frontier. Nothing is lost by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// P8: somebody committed further than we knew.
    Fenced {
        /// Which partition.
        partition: PartitionId,
        /// The frontier that we hold data for; `None`: there was none.
        expect: Option<Offset>,
        /// The frontier now, above it.
        stored: Offset,
    },
    /// P9: the sink says less than we committed.
    Rewound {
        /// Which partition.
        partition: PartitionId,
        /// The frontier that we hold data for.
        expect: Offset,
        /// The frontier now; `None` where there is none any more.
        stored: Option<Offset>,
    },
    /// P9: the sink, or the topic, is not what it was.
    Breached(Breach),
    /// The data was made for another shape.
    Reshaped,
    /// A partition that it has data of is not ours any more.
    Lost {
        /// Which partition.
        partition: PartitionId,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced { partition, expect, stored } => write!(
                f,
                "another process committed partition {partition} up to {} (expected: {})",
                stored.last(),
                Stored(*expect)
            ),
            Self::Rewound { partition, expect, stored } => write!(
                f,
                "the last consumed offset of partition {partition} went back from {} to {}",
                expect.last(),
                Stored(*stored)
            ),
            Self::Breached(Breach::Restored { at, to, .. }) => {
                write!(f, "the table was restored to version {to} by version {at}")
            }
            Self::Breached(Breach::Recreated { was, is }) => write!(f, "table {was} was replaced by table {is}"),
            Self::Breached(Breach::OtherTopic { was, is, .. }) => write!(f, "topic {was} was replaced by topic {is}"),
            Self::Breached(Breach::Forgotten { partitions, .. }) => {
                write!(f, "the table forgot the offset of {}", Numbers(partitions))
            }
            Self::Reshaped => f.write_str("the table's schema, partitioning or properties changed"),
            Self::Lost { partition } => write!(f, "partition {partition} was lost"),
        }
    }
}

/// A stored frontier as sinks show it: the last consumed offset.
pub(super) struct Stored(pub Option<Offset>);

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(offset) => write!(f, "{}", offset.last()),
            None => f.write_str("none"),
        }
    }
}

struct Numbers<'a>(&'a BTreeSet<PartitionId>);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, partition) in self.0.iter().enumerate() {
            write!(f, "{}{partition}", if n == 0 { "partition " } else { ", " })?;
        }
        Ok(())
    }
}

struct Places<'a>(&'a [(PartitionId, Offset)]);

impl fmt::Display for Places<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (partition, from)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}partition {partition} from offset {from}")?;
        }
        Ok(())
    }
}
