//! How long to wait before something is tried again: exponential, with full jitter.

use std::time::Duration;

use crate::ports::World;

/// Failures in a row of one kind of thing.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first_ms: u64,
    most_ms: u64,
    failures: u32,
}

impl Backoff {
    /// Waits of at most `first_ms`, then twice that, and so on up to `most_ms`.
    pub fn new(first_ms: u64, most_ms: u64) -> Self {
        Self { first_ms, most_ms, failures: 0 }
    }

    /// Counts one more failure and says how long to wait, and how many there were.
    pub fn failed(&mut self, world: &mut impl World, most_ms: u64) -> (u32, Duration) {
        let ceiling = self.first_ms.saturating_mul(1 << self.failures.min(20)).min(self.most_ms).min(most_ms);
        self.failures = self.failures.saturating_add(1);
        (self.failures, Duration::from_millis(1 + world.below(ceiling.max(1))))
    }

    /// It went well.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}
