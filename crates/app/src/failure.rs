//! Why a command ends otherwise than well: what to print, and the exit code.

use lakeward_protocol::drive::Stopped;
use lakeward_protocol::ports::{Exit, Fault, Verdict};

/// An error that ends the process. Its text is for people.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What happened, where, and what to do.
    pub text: String,
}

impl Failure {
    /// Exit code 2: options that contradict themselves.
    pub fn usage(text: impl std::fmt::Display) -> Self {
        Self { code: 2, text: text.to_string() }
    }

    /// Any other.
    pub fn new(exit: Exit, text: impl std::fmt::Display) -> Self {
        Self { code: exit.code(), text: text.to_string() }
    }

    /// A port's error outside of the loop: there, nobody waits for what heals.
    pub fn port(error: &impl Fault) -> Self {
        let exit = match error.verdict() {
            Verdict::Retry => Exit::TryAgain,
            Verdict::Stop(exit) => exit,
        };
        Self::new(exit, error)
    }

    /// The loop's end, with the names that its texts leave out.
    pub fn stopped(topic: &str, table: &str, stopped: &Stopped) -> Self {
        Self::new(stopped.exit(), format_args!("topic {topic} into {table}: {stopped}"))
    }
}
