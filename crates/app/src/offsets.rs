//! `lakeward offsets`: shows where a table's jobs go on, and sets it, by a commit that says who and why.

mod set;
mod still;

use arrow_array::TimestampSecondArray;
use lakeward_delta::{StoredOffset, stored_offsets};
use serde_json::{Value, json};

use crate::cli::Output;
use crate::cli::offsets::{OffsetsCommand, ShowArgs};
use crate::failure::Failure;
use crate::report::{grouped, table};
use crate::session::Session;

/// Shows or sets.
///
/// # Errors
/// A table or topic that can't be read; what needs leave and has none.
pub fn run(command: &OffsetsCommand) -> Result<(), Failure> {
    let session = Session::start()?;
    match command {
        OffsetsCommand::Show(args) => show(args, &session),
        OffsetsCommand::Set(args) => set::run(args, &session),
    }
}

fn show(args: &ShowArgs, session: &Session) -> Result<(), Failure> {
    let found = stored_offsets(&args.table, session.runtime.handle().clone());
    let (version, stored) = found.map_err(|error| Failure::port(&error))?;
    match args.output {
        Output::Table => print!("{} at version {version}\n{}", args.table, text(&stored)),
        Output::Json => {
            let offsets: Vec<Value> = stored.iter().map(as_json).collect();
            println!("{}", json!({ "table": args.table, "version": version, "offsets": offsets }));
        }
    }
    Ok(())
}

fn text(stored: &[StoredOffset]) -> String {
    if stored.is_empty() {
        return "no txn: no streaming writer has committed to this table\n".to_owned();
    }
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let row = |of: &StoredOffset| {
        vec![
            of.txn.clone(),
            or_dash(of.topic.as_ref().map(|topic| topic.name.clone())),
            or_dash(of.partition().map(|partition| partition.to_string())),
            grouped(of.last),
            // What other writers store is a number of their own, and no offset.
            or_dash(of.partition().map(|_| grouped(of.last + 1))),
            or_dash(of.version.map(grouped)),
            or_dash(of.forgotten_ms.map(until)),
            or_dash(of.by.as_ref().map(|by| format!("{}: {}", by.who, by.why))),
        ]
    };
    let head = ["txn", "topic", "partition", "last consumed", "next offset", "version", "kept until", "chosen by"];
    table(&head, &stored.iter().map(row).collect::<Vec<_>>())
}

/// When a checkpoint may forget it.
fn until(forgotten_ms: i64) -> String {
    let at = TimestampSecondArray::from(vec![forgotten_ms / 1_000]).value_as_datetime(0);
    let at = at.filter(|_| forgotten_ms > 0);
    at.map_or_else(|| "the next checkpoint".to_owned(), |at| format!("{at} UTC"))
}

fn as_json(of: &StoredOffset) -> Value {
    json!({
        "txn": of.txn, "app_id": of.app_id, "topic": of.topic.as_ref().map(|topic| &topic.name),
        "partition": of.partition(), "last": of.last, "next_offset": of.partition().map(|_| of.last + 1),
        "version": of.version, "timestamp_ms": of.timestamp_ms, "forgotten_ms": of.forgotten_ms, "by": of.by,
    })
}
