//! Debezium's change events as rows for a table that only grows: the row of each event, and what the event says of it.
//!
//! The columns are those of `after`; of `before` where a row was deleted. Columns whose names begin with `__` are the
//! event's: `__op`, `__ts_ms` and so on by its fields, `__source_lsn` (or `__lsn`) by those of its source,
//! `__deleted` is whether the row was. Debezium's own transform for flat rows names them so. A deleted row, or a
//! truncated table, is a row here only if the table can tell it from others, by `__op` or `__deleted`.

pub(crate) mod json;

use crate::apply::{Placed, Way};
use crate::column::Struct;

/// What begins the name of a column that is the event's.
pub(crate) const PREFIX: &str = "__";
const DELETED: &str = "__deleted";
const OP: &str = "__op";

/// The fields of events that are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// Names of columns, or those that transforms look at, sorted.
    pub(crate) names: Vec<String>,
    /// The table tells deleted rows from others.
    pub(crate) tells_deletes: bool,
}

impl Extras {
    /// For the columns of a table, and what transforms look into.
    pub(crate) fn new(root: &Struct, placed: &[Placed]) -> Self {
        let columns = root.fields.iter().map(|field| field.name.to_string());
        let mut names: Vec<String> = columns.filter(|name| name.starts_with(PREFIX)).collect();
        let tells_deletes = names.iter().any(|name| name == OP || name == DELETED);
        for placed in placed {
            if let Way::Message { expression, .. } = &placed.way {
                names.extend(words(expression.as_str()).map(str::to_owned));
            }
        }
        names.sort();
        names.dedup();
        Self { names, tells_deletes }
    }
}

/// The words of an expression that name what is the event's.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.filter(|word| word.starts_with(PREFIX))
}

/// Where a wanted name lies in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    Deleted,
    /// A field of the event, or else of its source.
    Event(&'a str),
    Source(&'a str),
    Transaction(&'a str),
}

pub(crate) fn place(name: &str) -> Place<'_> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    match name.split_once('_') {
        _ if name == "deleted" => Place::Deleted,
        Some(("source", rest)) => Place::Source(rest),
        Some(("transaction", rest)) => Place::Transaction(rest),
        _ => Place::Event(name),
    }
}

/// What an event says happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A row is there: created, read or updated.
    Row,
    Delete,
    /// No row: a table was truncated, or a message was written into the log.
    Other,
}

impl Op {
    /// By its letter.
    pub(crate) fn of(letter: &str) -> Option<Self> {
        Some(match letter {
            "c" | "r" | "u" => Self::Row,
            "d" => Self::Delete,
            "t" | "m" => Self::Other,
            _ => return None,
        })
    }
}
