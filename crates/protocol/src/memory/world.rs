//! A clock that stands still until it is moved, chance from a seed, and a wish to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use crate::ports::{Point, Stopping, World};
use crate::position::CommitId;

/// Shared milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// Milliseconds since it was made.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).expect("a short time"), Ordering::Relaxed);
    }
}

/// The world of one process. A clone is the same world: keep one to make wishes.
#[derive(Clone)]
pub struct MemoryWorld {
    clock: Clock,
    name: u64,
    state: Arc<AtomicU64>,
    wish: Arc<AtomicU8>,
    at: Option<Arc<dyn Fn(Point) + Send + Sync>>,
}

impl MemoryWorld {
    /// The world of the process `name`, which is its seed and the first half of its commits' names.
    #[must_use]
    pub fn new(clock: Clock, name: u64) -> Self {
        Self { clock, name, state: Arc::new(AtomicU64::new(name)), wish: Arc::default(), at: None }
    }

    /// Calls `at` whenever the loop passes a point; it may panic, to end the process there.
    #[must_use]
    pub fn reaching(self, at: impl Fn(Point) + Send + Sync + 'static) -> Self {
        Self { at: Some(Arc::new(at)), ..self }
    }

    /// Wishes that the process ends.
    pub fn stop(&self, how: Stopping) {
        self.wish.store(how as u8, Ordering::Relaxed);
    }

    /// SplitMix64, one step.
    fn draw(&self) -> u64 {
        let mut z = self.state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl World for MemoryWorld {
    fn now_ms(&mut self) -> u64 {
        self.clock.now_ms()
    }

    fn commit_id(&mut self) -> CommitId {
        CommitId((u128::from(self.name) << 64) | u128::from(self.draw()))
    }

    fn pause(&mut self, wait: Duration) {
        self.clock.advance(wait);
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    fn stopping(&mut self) -> Stopping {
        match self.wish.load(Ordering::Relaxed) {
            0 => Stopping::No,
            1 => Stopping::Gracefully,
            _ => Stopping::AtOnce,
        }
    }

    fn reach(&mut self, point: Point) {
        if let Some(at) = &self.at {
            at(point);
        }
    }
}
