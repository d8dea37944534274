//! Why a run ends otherwise than well, and which errors do that.

use std::error::Error;

use super::Port;
use crate::core::Reason;
use crate::core::step::StepReason;
use crate::ports::{Exit, Fault, Verdict};

/// Why a run ended otherwise than well.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A person has to decide.
    #[error("{0}")]
    Reason(#[from] Reason),
    /// A person has to decide about a pipeline by step.
    #[error("{0}")]
    Step(#[from] StepReason),
    /// A port can't go on.
    #[error("{doing}: {source}")]
    Port {
        /// Which one.
        port: Port,
        /// Verb and object.
        doing: &'static str,
        /// How the process ends by it.
        exit: Exit,
        /// What it says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Asked to stop, but what was held could not be committed in time.
    #[error(
        "asked to stop, but what is held could not be committed within {waited_ms} ms{}; it is read again at the next start",
        .last.as_deref().map(|last| format!(" ({last})")).unwrap_or_default()
    )]
    GaveUp {
        /// Time since the wish.
        waited_ms: u64,
        /// The last thing that went wrong.
        last: Option<String>,
    },
}

impl Stopped {
    /// How the process ends by it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Reason(reason) => reason.exit(),
            Self::Step(reason) => reason.exit(),
            Self::Port { exit, .. } => *exit,
            Self::GaveUp { .. } => Exit::TryAgain,
        }
    }
}

/// A port's error, sorted.
pub(super) enum Trouble {
    Heals { port: Port, doing: &'static str, source: Box<dyn Error + Send + Sync> },
    Stops(Stopped),
}

/// Sorts an error of a port, that came while `doing`.
pub(super) fn trouble<E: Fault>(port: Port, doing: &'static str) -> impl FnOnce(E) -> Trouble {
    move |error| match error.verdict() {
        Verdict::Retry => Trouble::Heals { port, doing, source: Box::new(error) },
        Verdict::Stop(exit) => Trouble::Stops(Stopped::Port { port, doing, exit, source: Box::new(error) }),
    }
}

/// What the stage can't take in can't be tried again: the records are gone into it.
pub(super) fn stops<E: Fault>(port: Port, doing: &'static str, error: E) -> Trouble {
    let exit = match error.verdict() {
        Verdict::Retry => Exit::TryAgain,
        Verdict::Stop(exit) => exit,
    };
    Trouble::Stops(Stopped::Port { port, doing, exit, source: Box::new(error) })
}
