//! What a command runs in: the process's runtime, its wish to stop, and waiting for what heals.

use std::time::Duration;

use lakeward_delta::{Admission, admit};
use lakeward_protocol::ports::{Exit, Fault, Verdict, World};
use tokio::runtime::Runtime;

use crate::failure::Failure;
use crate::world::{Os, Signals};

/// The process's runtime and its wish to stop.
pub struct Session {
    /// Uploads, the log, and the admin port run here; the loop does not. It ends with the process: to end it before
    /// would take away what a compaction that is under way waits for.
    pub runtime: &'static Runtime,
    /// The wish to stop.
    pub signals: Signals,
}

impl Session {
    /// Starts the runtime and listens to signals.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn start() -> Result<Self, Failure> {
        let failed = |error| Failure::new(Exit::TryAgain, format_args!("can't start: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(failed)?;
        let signals = Signals::default();
        runtime.spawn(signals.clone().listen());
        Ok(Self { runtime: Box::leak(Box::new(runtime)), signals })
    }

    /// Leave to write to a table or a state, to be held for as long as that is done. `None`: told to stop meanwhile.
    ///
    /// # Errors
    /// A store that can't keep two writers apart, and what else waiting does not heal.
    pub fn admit(&self, location: &str, may_be_alone: bool) -> Result<Option<Admission>, Failure> {
        self.wait_for(|| admit(location, may_be_alone, self.runtime.handle()))
    }

    /// Asks until there is an answer; `None` when we are told to stop meanwhile.
    ///
    /// # Errors
    /// What waiting does not heal.
    pub fn wait_for<T, E: Fault>(&self, ask: impl Fn() -> Result<T, E>) -> Result<Option<T>, Failure> {
        let mut world = Os::new(self.signals.clone());
        let mut wait = Duration::from_millis(250);
        loop {
            match ask() {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) if error.verdict() == Verdict::Retry => {
                    tracing::warn!("{error}; nothing is lost, trying again in {:.1} s", wait.as_secs_f64());
                }
                Err(error) => return Err(Failure::port(&error)),
            }
            world.pause(wait);
            if self.signals.raised() {
                return Ok(None);
            }
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }
}
