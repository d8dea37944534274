//! What goes wrong, how often, and what of it was seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lakeward_protocol::memory::{Clock, Fate, Operation};
use lakeward_protocol::ports::Point;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// How often each kind of thing happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    /// Counts one.
    pub fn note(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what.clone()).or_default() += count;
        }
    }

    /// How often it happened.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// All of it, for people.
    #[must_use]
    pub fn lines(&self) -> String {
        self.0.iter().map(|(what, count)| format!("{count:>9} {what}\n")).collect()
    }
}

/// Chance and what it did. A clone is the same.
#[derive(Clone)]
pub struct Chaos(Arc<Mutex<State>>);

struct State {
    rng: SmallRng,
    clock: Clock,
    on: bool,
    store_down_until_ms: u64,
    /// Points left until the process named crashes.
    fuse: Option<(u64, u32)>,
    coverage: Coverage,
    history: Vec<String>,
}

/// What a crash unwinds with.
pub(crate) struct Crash;

impl Chaos {
    pub(crate) fn new(seed: u64, clock: Clock) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: SmallRng::seed_from_u64(seed),
            clock,
            on: true,
            store_down_until_ms: 0,
            fuse: None,
            coverage: Coverage::default(),
            history: Vec::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.state().rng.random_range(0..bound)
    }

    /// Counts and writes down.
    pub(crate) fn note(&self, what: &str, detail: &str) {
        let mut state = self.state();
        let line = format!("{:>8} {what} {detail}", state.clock.now_ms());
        state.coverage.note(what);
        state.history.push(line);
    }

    /// Does something that nothing happens to (an outsider's look, the start of a process).
    pub fn calm<T>(&self, quiet: impl FnOnce() -> T) -> T {
        let was = std::mem::replace(&mut self.state().on, false);
        let result = quiet();
        self.state().on = was;
        result
    }

    pub(crate) fn clear(&self) {
        let mut state = self.state();
        (state.on, state.store_down_until_ms, state.fuse) = (false, 0, None);
    }

    pub(crate) fn store_down(&self, wait: Duration) {
        let mut state = self.state();
        state.store_down_until_ms = state.clock.now_ms() + u64::try_from(wait.as_millis()).expect("a short time");
    }

    pub(crate) fn light_fuse(&self, process: u64, points: u32) {
        self.state().fuse = Some((process, points));
    }

    /// Called at each point of a process: ends it there when its time has come.
    pub(crate) fn reach(&self, process: u64, point: Point) {
        let mut state = self.state();
        match &mut state.fuse {
            Some((named, 0)) if *named == process => {
                state.fuse = None;
                drop(state);
                self.note(&format!("crash {point:?}"), &format!("of {process}"));
                std::panic::resume_unwind(Box::new(Crash));
            }
            Some((named, left)) if *named == process => *left -= 1,
            _ => {}
        }
    }

    /// What becomes of a call of the store. A slow one takes its time and then goes well.
    pub fn fate(&self, operation: Operation) -> Fate {
        let mut state = self.state();
        if !state.on {
            return Fate::Well;
        }
        let down = state.clock.now_ms() < state.store_down_until_ms;
        let dice = if down { 0 } else { state.rng.random_range(0..100) };
        let fate = match (operation, dice) {
            (_, 0..=3) => Fate::Fails,
            (_, 4..=7) if operation.puts() => Fate::ReplyLost,
            (_, 8..=11) if operation.puts() => Fate::Late,
            (_, 12..=15) if operation.puts() => Fate::SentTwice,
            (_, 16..=19) if operation.puts() => Fate::Conflict,
            (_, 20..=24) => {
                let slow = Duration::from_millis(state.rng.random_range(500..20_000));
                state.clock.advance(slow);
                state.coverage.note(format!("{operation:?} Slow"));
                return Fate::Well;
            }
            _ => return Fate::Well,
        };
        drop(state);
        self.note(&format!("{operation:?} {fate:?}"), "");
        fate
    }

    pub(crate) fn coverage(&self) -> Coverage {
        self.state().coverage.clone()
    }

    pub(crate) fn history(&self) -> Vec<String> {
        self.state().history.clone()
    }
}
