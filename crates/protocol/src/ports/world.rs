//! Time, chance, and where a test may end the process.

use std::time::Duration;

use crate::position::CommitId;

/// Has somebody asked us to end?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stopping {
    /// No.
    No,
    /// Commit what is held, leave, end.
    Gracefully,
    /// End at once; what is held is read again by the next owner.
    AtOnce,
}

/// A place in the loop just before or after something durable, where a test may end the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// A beginning is known, nothing is read yet.
    BeforeStart,
    /// Records are held in memory alone.
    BeforeSeal,
    /// Data files are in the store, no commit names them.
    AfterSeal,
    /// The compare went well.
    BeforePut,
    /// The put ended, and nobody knows how.
    AfterPut,
    /// The commit is there, lag tools do not know.
    BeforeAnnounce,
    /// They know.
    AfterAnnounce,
    /// Before housekeeping.
    BeforeTend,
    /// After it.
    AfterTend,
    /// What is asked back is committed, and still ours.
    BeforeRelease,
    /// It is not ours any more.
    AfterRelease,
    /// The circuit has taken a step, no sink knows.
    AfterStep,
    /// The circuit's state is to be saved.
    BeforePrepare,
    /// That is under way.
    AfterPrepare,
    /// It is saved, no manifest names it.
    AfterFinish,
    /// The manifest was put, and nobody knows how that ended.
    AfterSave,
    /// Older checkpoints are to be removed.
    BeforeRemove,
    /// They are.
    AfterRemove,
    /// Input that nobody needs is to be deleted.
    BeforeTrim,
    /// It is.
    AfterTrim,
}

/// Time, chance and the user's wish to stop: all that the loop may know of the world outside.
pub trait World {
    /// Milliseconds of a clock that never runs backwards.
    fn now_ms(&mut self) -> u64;
    /// A name that nobody used before.
    fn commit_id(&mut self) -> CommitId;
    /// Sleeps; returns early when asked to stop.
    fn pause(&mut self, wait: Duration);
    /// A number below `bound`, for jitter.
    fn below(&mut self, bound: u64) -> u64;
    /// Whether we are asked to end.
    fn stopping(&mut self) -> Stopping;
    /// The loop is at `point`. Does nothing, but for tests.
    fn reach(&mut self, point: Point) {
        let _ = point;
    }
}
