//! Debezium's change events as rows: the row of each event, and what the event says of it; or, for a table that holds
//! what is there, the rows that are there and those that go.
//!
//! The columns are those of `after`; of `before` where a row was deleted. Columns whose names begin with `__` are the
//! event's: `__op`, `__ts_ms` and so on by its fields, `__source_lsn` (or `__lsn`) by those of its source,
//! `__deleted` is whether the row was. Debezium's own transform for flat rows names them so. A deleted row, or a
//! truncated table, is a row here only if the table can tell it from others, by `__op` or `__deleted`.

pub(crate) mod json;

use crate::apply::{Placed, Way};
use crate::column::Struct;
use crate::error::{BadKind, Fail, Refused};

/// What begins the name of a column that is the event's.
pub(crate) const PREFIX: &str = "__";
const DELETED: &str = "__deleted";
const OP: &str = "__op";

/// What messages are to Debezium, and what is wanted of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Debezium {
    /// They are no events, or are kept as they are.
    #[default]
    No,
    /// The row of each event; that of a deleted one where the table can tell it from others.
    Rows,
    /// The row that is there after each event. A deleted one has none; a truncated table is refused, since no row says
    /// so.
    Living,
    /// The row that was there before, of events that change or delete one and say it.
    Before,
    /// They are events' keys: Kafka Connect's schema may be around them.
    Keys,
}

/// The fields of events that are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// Which row.
    pub(crate) wanted: Debezium,
    /// Names of columns, or those that transforms look at, sorted.
    pub(crate) names: Vec<String>,
    /// The table tells deleted rows from others.
    pub(crate) tells_deletes: bool,
}

impl Extras {
    /// For the columns of a table, and what transforms look into.
    pub(crate) fn new(wanted: Debezium, root: &Struct, placed: &[Placed]) -> Self {
        let columns = root.fields.iter().map(|field| field.name.to_string());
        let mut names: Vec<String> = columns.filter(|name| name.starts_with(PREFIX)).collect();
        let tells_deletes = wanted == Debezium::Rows && names.iter().any(|name| name == OP || name == DELETED);
        for placed in placed {
            if let Way::Message { expression, .. } = &placed.way {
                names.extend(words(expression.as_str()).map(str::to_owned));
            }
        }
        names.sort();
        names.dedup();
        Self { wanted, names, tells_deletes }
    }

    /// Which row of an event becomes one of the table; `None` for none.
    pub(crate) fn row_of(&self, op: Op) -> Result<Option<Part>, Refused> {
        Ok(match (self.wanted, op) {
            (Debezium::Before, Op::Row | Op::Delete) => Some(Part::Before),
            (Debezium::Before, _) => None,
            (Debezium::Living, Op::Truncate) => {
                let what = "the source's table was truncated, and no event says which rows are gone by it; delete them \
                            from the table by hand";
                return Err(Fail::bad(BadKind::NotAnObject, what));
            }
            (_, Op::Row) => Some(Part::After),
            (_, Op::Delete) if self.tells_deletes => Some(Part::Before),
            (_, Op::Truncate | Op::Message) if self.tells_deletes => Some(Part::Neither),
            (_, Op::Delete | Op::Truncate | Op::Message) => None,
        })
    }

    /// An event of `op` has no such row: is that all right?
    pub(crate) fn lacks(&self, op: Op, part: Part) -> Result<(), Refused> {
        match (part, op) {
            (Part::After, _) => {
                Err(Fail::bad(BadKind::NotAnObject, "the event says that a row is there, and has no 'after'"))
            }
            (Part::Before, Op::Delete) if self.wanted == Debezium::Before => {
                let what = "the event says that a row was deleted, and has no 'before' that names it; in PostgreSQL give \
                            the table a REPLICA IDENTITY";
                Err(Fail::bad(BadKind::NotAnObject, what))
            }
            (Part::Before | Part::Neither, _) => Ok(()),
        }
    }
}

/// A part of an event that has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Before,
    After,
    /// A row of what the event says beside it alone.
    Neither,
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
    /// No row: a table was truncated.
    Truncate,
    /// No row: a message was written into the log.
    Message,
}

impl Op {
    /// By its letter.
    pub(crate) fn of(letter: &str) -> Option<Self> {
        Some(match letter {
            "c" | "r" | "u" => Self::Row,
            "d" => Self::Delete,
            "t" => Self::Truncate,
            "m" => Self::Message,
            _ => return None,
        })
    }
}
