//! The rooms that the core talks to, each with both promises: the implementation's and the caller's.
//!
//! Ports are synchronous: the core takes one action at a time, and what runs beside it (fetching,
//! decoding, encoding) runs behind a port. See docs/decisions for why.

mod step;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::Duration;

pub use step::{Checkpoint, CheckpointStore, Circuit, Restored};
pub use world::{Point, Stopping, World};

use crate::position::{CommitId, Frontier, Offset, PartitionId, Shape, SinkId, Stretch, TableVersion};
use crate::records::Records;

/// What control flow may ask of an error: try again, or stop for a person?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Heals by itself (an outage, a time-out): wait and ask again. Nothing is lost meanwhile.
    Retry,
    /// Only a person heals it. The process ends with this exit code's class.
    Stop(Exit),
}

/// Why the process ends, as exit codes tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 65: the data, or its absence (a gap, a bad record under `stop`, a restored table).
    Data,
    /// 69: a service that refuses us (authentication, permission, not there).
    Unavailable,
    /// 70: a fault of ours.
    Software,
    /// 75: gave up waiting; another try may succeed.
    TryAgain,
    /// 78: options or table that do not fit.
    Config,
}

impl Exit {
    /// The process's exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Data => 65,
            Self::Unavailable => 69,
            Self::Software => 70,
            Self::TryAgain => 75,
            Self::Config => 78,
        }
    }
}

/// An error of a port. Its text says what happened, where, and what to do.
pub trait Fault: Error + Send + Sync + 'static {
    /// A new kind of error stops, until somebody decides otherwise.
    fn verdict(&self) -> Verdict;
}

/// Something the input has to say.
#[derive(Debug)]
pub enum Input {
    /// These partitions are ours from now on; nothing of them comes before [`InputLog::start`].
    Gained(BTreeSet<PartitionId>),
    /// These are asked back. They stay ours, and nobody else's, until [`InputLog::release`];
    /// their records may still come until then.
    Losing(BTreeSet<PartitionId>),
    /// These are gone, perhaps somebody else's already. No release is owed.
    Lost(BTreeSet<PartitionId>),
    /// The next records of one partition.
    Records(Records),
    /// The partition has no record between where we stand and `end`, its end as of now.
    Reached {
        /// Which partition.
        partition: PartitionId,
        /// One past the last offset that can be read now.
        end: Offset,
    },
    /// P9: we stand at `at`, and the log starts at `oldest`, above it, or ends at `end`, below it.
    Gone {
        /// Which partition.
        partition: PartitionId,
        /// The next offset that we want.
        at: Offset,
        /// The oldest offset that is kept.
        oldest: Offset,
        /// One past the newest.
        end: Offset,
    },
}

/// The first offset that is kept and the one after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// The oldest record kept is here or above.
    pub oldest: Offset,
    /// The next record that a producer writes gets this offset or a higher one; records of open
    /// transactions lie above it.
    pub end: Offset,
}

/// A replayable log cut into partitions. Every implementation passes `contract::input_log`.
///
/// The log promises: after `start` at offset `o`, a partition's [`Records`] form a chain from `o`
/// (each `from` is the last one's `to`); nothing from before that `start` follows it. The same
/// offsets give the same bytes, for ever. A partition is in at most one live owner's hands
/// between `Gained` and `release`, unless `Lost` was, or could not yet be, said.
///
/// A log that is opened *alone* (by step) shares with nobody: its first `poll` says `Gained` of every
/// partition, a later one of partitions that were added since; nothing is asked back or lost. Two
/// processes that do so are told apart by the sinks (P8).
///
/// The caller promises: `start` and `release` name partitions it was given; `release` comes once
/// for each `Losing`, and at the end for what is left; `poll` is called often enough to stay a member.
pub trait InputLog {
    /// What goes wrong here.
    type Error: Fault;

    /// Waits up to `wait` for something to say. [`Records`] hold at most `most` records, the rest
    /// comes with the next calls; with `most` 0 none come at all, only what the group says.
    ///
    /// # Errors
    /// What stops us from reading; nothing that was read is lost by it.
    fn poll(&mut self, most: usize, wait: Duration) -> Result<Option<Input>, Self::Error>;

    /// Begins, or begins anew, to deliver these partitions from exactly these positions.
    ///
    /// # Errors
    /// The partitions are not being delivered; call it again.
    fn start(&mut self, at: &Frontier) -> Result<(), Self::Error>;

    /// Lets go of partitions: those asked back, or at the end all that are held. Idempotent.
    ///
    /// # Errors
    /// They may or may not be let go; call it again.
    fn release(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<(), Self::Error>;

    /// What a partition holds now, asked from the log itself.
    ///
    /// # Errors
    /// Unknown as yet.
    fn bounds(&mut self, partition: PartitionId) -> Result<Bounds, Self::Error>;

    /// Tells lag tools how far the sinks are. Best effort, never read back, never ahead of a sink.
    fn announce(&mut self, frontier: &Frontier);

    /// Hands a used arena back.
    fn recycle(&mut self, records: Records);

    /// P3: nobody needs what lies below any more; it may be deleted. Idempotent. What deletes
    /// nothing leaves it out.
    ///
    /// # Errors
    /// It may or may not be deleted.
    fn trim(&mut self, below: &Frontier) -> Result<(), Self::Error> {
        let _ = below;
        Ok(())
    }
}

/// What turns records into what a sink takes. Holds everything taken in since the last `seal`.
///
/// The stage promises: `seal` yields exactly the records pushed since the last `seal` or
/// `discard`, less those it set aside as bad by the user's policy (which it counted); within a
/// partition in offset order. A bad record harms no other.
///
/// The caller promises: records of a partition come in offset order, each prepared for; `discard` precedes `open`.
pub trait Stage {
    /// What one commit takes: sealed files.
    type Batch;
    /// What data must be written for.
    type Layout;
    /// What goes wrong here.
    type Error: Fault;

    /// Makes itself ready for a layout. Nothing is held when it is called.
    ///
    /// # Errors
    /// The layout is one that we can't write for.
    fn open(&mut self, layout: &Self::Layout) -> Result<(), Self::Error>;

    /// Gets what these records need from outside (the schemas that they name, say), before they are pushed. What is
    /// held already may be sealed, and partitions handed over, as long as it can't.
    ///
    /// # Errors
    /// It can't be had now, or ever. Nothing was taken in: ask again with the same records, or not at all.
    fn prepare(&mut self, records: &Records) -> Result<(), Self::Error> {
        let _ = records;
        Ok(())
    }

    /// Takes records in; returns an arena to recycle, this one or an older one, where it has one.
    ///
    /// # Errors
    /// A bad record under the policy `stop`, or a fault of ours.
    fn push(&mut self, records: Records) -> Result<Option<Records>, Self::Error>;

    /// Should what is held be sealed before its time, to keep within memory?
    fn is_full(&self) -> bool;

    /// Closes what is held into a batch, durable enough that a commit may name it. After one that
    /// [`reshapes`](Self::reshapes) nothing is pushed before the next `open`.
    ///
    /// # Errors
    /// Nothing is sealed and everything is still held: retry, or discard.
    fn seal(&mut self) -> Result<Self::Batch, Self::Error>;

    /// Forgets everything held.
    fn discard(&mut self);

    /// Does a batch need another layout than the one it was opened for, which its commit brings with it
    /// (`--evolve`)? Its rows fit that one; the sink makes it of the very layout that the stage was opened for.
    fn reshapes(batch: &Self::Batch) -> bool {
        let _ = batch;
        false
    }

    /// Makes itself ready for the table of dead letters: from now on bad records are set aside as rows of it.
    /// Nothing is held when it is called.
    ///
    /// # Errors
    /// The layout is one that we can't write for.
    ///
    /// # Panics
    /// In a stage that makes no dead letters, as the other two.
    fn open_letters(&mut self, layout: &Self::Layout) -> Result<(), Self::Error> {
        let _ = layout;
        panic!("P7: dead letters of a stage that makes none");
    }

    /// Takes records in whose rows are committed already, for their dead letters alone.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    fn push_for_letters(&mut self, records: Records) -> Result<Option<Records>, Self::Error> {
        let _ = records;
        panic!("P7: dead letters of a stage that makes none");
    }

    /// Closes the dead letters of what `seal` closed last, and of what was pushed for them, into a batch of their own.
    ///
    /// # Errors
    /// All of them are still held: retry, or discard.
    fn seal_letters(&mut self) -> Result<Letters<Self::Batch>, Self::Error> {
        panic!("P7: dead letters of a stage that makes none");
    }
}

/// Dead letters, sealed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Letters<B> {
    /// What the commit takes.
    pub batch: B,
    /// By partition the position after the last one; a partition without any is absent.
    pub past: Frontier,
}

/// What a sink's newest version says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Head {
    /// The newest version.
    pub version: TableVersion,
    /// The stored frontier of the partitions asked for; those without one are absent.
    pub frontier: Frontier,
    /// What the table's files must fit now.
    pub shape: Shape,
    /// Not the log we, or the last process with our name, left: how so.
    pub breach: Option<Breach>,
    /// By partition asked for the newest span that made dead letters for the table of them that is written beside this
    /// sink, up to the last one. Empty where there is none.
    pub dead: BTreeMap<PartitionId, Stretch>,
    /// The partitions asked for whose frontier the sink is to be told again, before it forgets it: see
    /// [`OutputLog::keeps_ms`].
    pub fading: BTreeSet<PartitionId>,
}

/// P9: output is gone, or the sink's frontier is about another input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Breach {
    /// The data went back to an older version, the frontier did not. `frontier` is what the
    /// restored version covers, for the partitions asked for that are affected; [`Offset::ZERO`]
    /// where it covers nothing. A partition is affected until a commit later than the restore
    /// carries a [`Gap`] of it.
    Restored {
        /// The version that is the restore.
        at: TableVersion,
        /// The older version that it brought back.
        to: TableVersion,
        /// What that one covers of each affected partition: the first offset whose rows are gone.
        frontier: Frontier,
    },
    /// Another table lies where ours was when this log was opened.
    Recreated {
        /// The table's id when the log was opened.
        was: String,
        /// The id of the one that lies there now.
        is: String,
    },
    /// The stored frontier of these partitions, of those asked for, belongs to another topic of
    /// this name (it was deleted and made again). Over for a partition once we committed it.
    OtherTopic {
        /// Id of the topic that the frontier is about.
        was: String,
        /// Id of the topic that is read now.
        is: String,
        /// The partitions with such a frontier.
        partitions: BTreeSet<PartitionId>,
    },
    /// There is no frontier of these partitions, of those asked for, and the log forgets frontiers: whether there
    /// was one can't be told.
    Forgotten {
        /// How long it keeps them, in its own words.
        keeps: String,
        /// The partitions without one.
        partitions: BTreeSet<PartitionId>,
    },
}

impl Breach {
    /// What of it concerns one partition.
    #[must_use]
    pub fn of(&self, partition: PartitionId) -> Option<Self> {
        match self {
            Self::Restored { at, to, frontier } => {
                let frontier = Frontier::from([(partition, *frontier.get(&partition)?)]);
                Some(Self::Restored { at: *at, to: *to, frontier })
            }
            Self::Recreated { .. } => Some(self.clone()),
            Self::OtherTopic { was, is, partitions } => partitions.contains(&partition).then(|| Self::OtherTopic {
                was: was.clone(),
                is: is.clone(),
                partitions: BTreeSet::from([partition]),
            }),
            Self::Forgotten { keeps, partitions } => partitions
                .contains(&partition)
                .then(|| Self::Forgotten { keeps: keeps.clone(), partitions: BTreeSet::from([partition]) }),
        }
    }
}

/// One partition's move in one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Advance {
    /// What the sink must say before the commit, exactly.
    pub expect: Option<Offset>,
    /// Where the data begins. Other than `expect` only where the user accepted a gap or a replay.
    pub from: Offset,
    /// What the sink says after it.
    pub to: Offset,
}

/// A break in a partition's chain that the user accepted; written into the commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gap {
    /// The partition.
    pub partition: PartitionId,
    /// Where the chain stood.
    pub from: Offset,
    /// Where it goes on: above `from` when records are skipped, below it when replayed.
    pub to: Offset,
    /// What happened and which option let it pass.
    pub reason: String,
}

/// Leave to put one version of one sink. Only the core makes one, after its compare.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permit {
    pub(crate) sink: SinkId,
    pub(crate) version: TableVersion,
    pub(crate) commit: CommitId,
    pub(crate) shape: Shape,
    pub(crate) advances: BTreeMap<PartitionId, Advance>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) dead: Frontier,
}

impl Permit {
    /// The sink it is for.
    #[must_use]
    pub fn sink(&self) -> SinkId {
        self.sink
    }

    /// The only version it allows to put.
    #[must_use]
    pub fn version(&self) -> TableVersion {
        self.version
    }

    /// The batch's name.
    #[must_use]
    pub fn commit(&self) -> CommitId {
        self.commit
    }

    /// The shape that the version before must have.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Each partition's move.
    #[must_use]
    pub fn advances(&self) -> &BTreeMap<PartitionId, Advance> {
        &self.advances
    }

    /// Breaks to write down.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// P7: the partitions whose dead letters follow in a commit of their own, with the position after the last one.
    /// The commit says so, for [`Head::dead`].
    #[must_use]
    pub fn dead(&self) -> &Frontier {
        &self.dead
    }
}

/// How a put ended, as far as the log itself knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Put {
    /// The version is ours and durable.
    Done,
    /// The version is taken, perhaps by ourselves (a retried request), or perhaps not there at
    /// all (a store's 409): the outcome is unknown.
    Taken,
}

/// A transactional log that readers see. Every implementation passes `contract::output_log`.
///
/// The log promises: `put` puts exactly `permit.version()`, if absent, with the batch and each
/// advance's `to` in one atomic, durable commit, and with the layout that the batch asks for, if it
/// reshapes: then what the next `load` says has another shape. An `Err` of `put` means *unknown*.
///
/// The caller promises: it holds a permit made from the newest `load`, and after anything but
/// `Done` asks `find` before it trusts any outcome.
pub trait OutputLog {
    /// What one commit takes.
    type Batch;
    /// What data must be written for.
    type Layout;
    /// What goes wrong here.
    type Error: Fault;

    /// Reads the newest version.
    ///
    /// # Errors
    /// The log can't be read; nothing is known.
    fn load(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<Head, Self::Error>;

    /// The layout of the newest version loaded.
    fn layout(&self) -> Self::Layout;

    /// Puts one version if absent. `batch` is `None` for a commit that moves frontiers alone.
    ///
    /// # Errors
    /// The outcome is unknown: the version may be there.
    fn put(&mut self, permit: &Permit, batch: Option<&Self::Batch>) -> Result<Put, Self::Error>;

    /// Looks for a commit among the versions from `from` on.
    ///
    /// # Errors
    /// Unknown as yet.
    fn find(&mut self, commit: CommitId, from: TableVersion) -> Result<Option<TableVersion>, Self::Error>;

    /// The gaps that commits wrote down and that end above these positions, oldest first; `None` where
    /// the log does not reach back so far, or can't tell. Asked by step, of the first sink.
    ///
    /// # Errors
    /// Unknown as yet.
    fn gaps(&mut self, above: &Frontier) -> Result<Option<Vec<Gap>>, Self::Error> {
        let _ = above;
        Ok(None)
    }

    /// How long the log keeps a partition's frontier that is not committed again, as of the last load; `None`: for
    /// ever. Where it does not, a load says which are [`fading`](Head::fading), early enough.
    fn keeps_ms(&self) -> Option<u64> {
        None
    }

    /// Housekeeping after a commit (checkpoint, log cleanup), by step also from time to time without
    /// one. Best effort: what fails is logged and counted by the log itself, and tried again another
    /// time.
    fn tend(&mut self);
}
