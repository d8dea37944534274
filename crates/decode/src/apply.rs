//! Transforms' values into the row that a message was made into.

use std::sync::Arc;

use jmespatch::Expression;

use crate::column::{Column, Struct};
use crate::compiled::{Compiled, Made};
use crate::error::Refused;
use crate::place::open_struct;
use crate::record::Record;
use crate::row::{self, Side};
use crate::scan::Cursor;
use crate::transform::Metadata;

/// A transform with its place in the table.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) property: String,
    /// Field indices from the root, and their names.
    pub(crate) path: Vec<usize>,
    pub(crate) names: Vec<String>,
    pub(crate) way: Way,
    /// The next one sets a field of the same struct.
    pub(crate) with_next: bool,
}

/// How its value is found.
#[derive(Debug)]
pub(crate) enum Way {
    Kafka(Metadata),
    Message { expression: Arc<Expression<'static>>, compiled: Option<Compiled> },
}

impl Placed {
    /// The struct that the column is a field of.
    pub(crate) fn parent(&self) -> &[usize] {
        &self.path[..self.path.len() - 1]
    }

    /// Which field of it.
    pub(crate) fn field(&self) -> usize {
        *self.path.last().expect("a target has a name")
    }

    /// Whether what it sets is at `path`, or one of them lies within the other.
    pub(crate) fn touches(&self, path: &[&str]) -> bool {
        self.names.iter().zip(path).all(|(a, b)| a == b)
    }

    /// Puts a value into the column.
    #[inline]
    fn put(&self, made: Made, column: &mut Column, side: &mut Side) -> Result<(), Refused> {
        let put = match made {
            Made::Text(text) => column.put_string(&text),
            Made::Integer(number) => column.put_integer(number),
            Made::Json(text) => put_json(&text, column, side),
            Made::Null | Made::Unsure => unreachable!("settled before"),
        };
        put.map_err(|refused| self.names.iter().rev().fold(refused, |refused, name| refused.within(name)))
    }
}

/// Puts a value that is JSON text. Captures are places in the message, and stay what they are.
fn put_json(text: &str, column: &mut Column, side: &mut Side) -> Result<(), Refused> {
    let captures = std::mem::take(&mut side.captures);
    let result = row::value(&mut Cursor::new(text), column, side, 0);
    side.captures = captures;
    result
}

/// Sets the transforms' values in row `row`; `look` makes what a transform makes of the message.
#[inline(always)]
pub(crate) fn apply<'a>(
    placed: &[Placed],
    root: &mut Struct,
    side: &mut Side,
    (record, topic, row): (Record<'_>, &'a str, usize),
    mut look: impl FnMut(&Placed, &Side) -> Result<Made<'a>, Refused>,
) -> Result<(), Refused> {
    // Neighbours in one struct open it once.
    for group in placed.chunk_by(|one, _| one.with_next) {
        let mut opened: Option<&mut Struct> = None;
        for placed in group {
            let made = match &placed.way {
                Way::Kafka(metadata) => record.metadata(*metadata, topic, &placed.property)?.made(),
                Way::Message { .. } => look(placed, side)?,
            };
            if matches!(made, Made::Null) {
                continue;
            }
            let parts = match opened.take() {
                Some(parts) => parts,
                None => open_struct(&mut *root, placed.parent(), row),
            };
            placed.put(made, parts.open(placed.field(), row), side)?;
            opened = Some(parts);
        }
    }
    Ok(())
}
