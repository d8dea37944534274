//! When to commit, how long to wait, and what a step of the loop may come to.

use std::time::Duration;

use crate::core::Ending;
use crate::ports::Stopping;

/// When to commit, and how long to go on trying.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest wait of a record before it is committed.
    pub latency_ms: u64,
    /// At least so many messages lie between two looks at sizes; at most so many are taken in at once. At least 1.
    pub batch_messages: usize,
    /// Bytes of values that make a commit due.
    pub file_bytes: usize,
    /// After a wish to stop gracefully: how long to go on trying to commit what is held.
    pub grace_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { latency_ms: 300_000, batch_messages: 5_000, file_bytes: 134_217_728, grace_ms: 25_000 }
    }
}

/// What one step of the loop came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Something was done.
    Went,
    /// The input had nothing to say.
    Idle,
    /// All is done.
    Ended(Ending),
}

/// What was taken in since the last seal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub messages: usize,
    pub value_bytes: usize,
    /// Messages at the last look at sizes.
    pub looked_at: usize,
    pub since_ms: Option<u64>,
}

/// A wish to stop is noticed within this time.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// Retries of what fails.
pub(super) const FIRST_RETRY_MS: u64 = 200;
pub(super) const LONGEST_RETRY_MS: u64 = 30_000;
/// While stopping, retries come sooner.
const LONGEST_RETRY_STOPPING_MS: u64 = 2_000;
/// Retries of a commit that somebody else was faster than.
pub(super) const FIRST_RACE_MS: u64 = 5;
pub(super) const LONGEST_RACE_MS: u64 = 1_000;

/// How often a sink that forgets frontiers is asked which are fading, in the time that it keeps them.
pub(super) const RENEWALS_A_KEEP: u64 = 8;
/// And not more often than this.
pub(super) const SOONEST_RENEWAL_MS: u64 = 1_000;

/// What the input may say about records while it is asked about its group alone.
pub(super) const MOST_UNHEARD: usize = 256;

/// The longest pause between two tries.
pub(super) fn longest_retry_ms(stopping: Stopping) -> u64 {
    if stopping == Stopping::No { u64::MAX } else { LONGEST_RETRY_STOPPING_MS }
}
