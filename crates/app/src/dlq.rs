//! `lakeward dlq`: dead letters listed, shown, and sent again.

mod letter;
mod replay;
mod show;
mod source;

use crate::cli::dlq::{DlqCommand, FilterArgs};
use crate::failure::Failure;
use letter::Letter;

/// Runs one of its commands.
///
/// # Errors
/// When a table or topic can't be read or written.
pub fn run(command: &DlqCommand) -> Result<(), Failure> {
    match command {
        DlqCommand::Ls(args) => show::list(args),
        DlqCommand::Show(args) => show::show(args),
        DlqCommand::Replay(args) => replay::run(args),
    }
}

/// Is it one of those asked for? What a letter does not say is none of them.
fn wanted(filter: &FilterArgs, letter: &Letter) -> bool {
    let among = |named: &[String], is: Option<&String>| named.is_empty() || is.is_some_and(|is| named.contains(is));
    let since = filter.since.is_none_or(|since| letter.timestamp.is_some_and(|at| at >= since));
    let until = filter.until.is_none_or(|until| letter.timestamp.is_some_and(|at| at < until));
    among(&filter.kind, letter.kind.as_ref()) && among(&filter.topic, letter.topic.as_ref()) && since && until
}
