//! The common transforms without a value tree: a path into the message, `substr` and the epoch functions over one.
//!
//! Each path is captured while the message is walked (`row`). What is not plainly a text or a 64-bit number is left to
//! `general`, errors included, so there is one place that says what a transform means.

use std::borrow::Cow;

use jmespatch::ast::Ast;

use crate::column::{Data, Struct};
use crate::key::{Keys, Target};
use crate::number::short_integer;
use crate::scan::Cursor;
use crate::simd::find_special;
use crate::transform::{Converted, Epoch, count, substring};

/// A compiled transform.
#[derive(Debug)]
pub(crate) enum Compiled {
    /// The value captured there.
    Path(u32),
    Substr {
        text: Box<Compiled>,
        skip: usize,
        take: usize,
    },
    Epoch(Epoch, Box<Compiled>),
}

/// What a compiled transform makes of a message.
#[derive(Debug)]
pub(crate) enum Made<'a> {
    /// Nothing: the message's own value stays.
    Null,
    Text(Cow<'a, str>),
    Integer(i64),
    /// JSON text, of `general`.
    Json(String),
    /// Ask `general`.
    Unsure,
}

impl Compiled {
    /// Compiles an expression and has its paths captured from `root`. `captures` counts those there are.
    /// `None` when it is not one of the common ones.
    pub(crate) fn new(ast: &Ast, root: &mut Struct, captures: &mut u32) -> Option<Self> {
        match ast {
            Ast::Field { .. } | Ast::Subexpr { .. } => {
                let mut path = Vec::new();
                names(ast, &mut path)?;
                capture(&path, root, captures).map(Self::Path)
            }
            Ast::Function { name, args, .. } => match (name.as_str(), args.as_slice()) {
                ("substr", [text, Ast::Literal { value: skip, .. }, Ast::Literal { value: take, .. }])
                    if skip.is_number() && take.is_number() =>
                {
                    let text = Box::new(Self::new(text, root, captures)?);
                    Some(Self::Substr { text, skip: count(skip), take: count(take) })
                }
                (name, [number]) => {
                    let epoch = Epoch::named(name)?;
                    Some(Self::Epoch(epoch, Box::new(Self::new(number, root, captures)?)))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Evaluates it over the values captured from `message`.
    pub(crate) fn evaluate<'a>(&self, message: &'a str, captures: &[(u32, u32)]) -> Made<'a> {
        match self {
            Self::Path(capture) => {
                let (start, end) = captures[*capture as usize];
                captured(&message[start as usize..end as usize])
            }
            Self::Substr { text, skip, take } => match text.evaluate(message, captures) {
                Made::Text(Cow::Borrowed(text)) => Made::Text(Cow::Borrowed(substring(text, *skip, *take))),
                Made::Text(Cow::Owned(text)) => Made::Text(Cow::Owned(substring(&text, *skip, *take).to_owned())),
                _ => Made::Unsure,
            },
            Self::Epoch(epoch, number) => match number.evaluate(message, captures) {
                Made::Integer(number) => match epoch.convert(number) {
                    Some(Converted::Text(text)) => Made::Text(Cow::Owned(text)),
                    Some(Converted::Micros(micros)) => Made::Integer(micros),
                    None => Made::Unsure,
                },
                _ => Made::Unsure,
            },
        }
    }
}

/// A captured value; empty text is one that is missing.
fn captured(text: &str) -> Made<'_> {
    match text.as_bytes().first() {
        None | Some(b'n') => Made::Null,
        Some(b'"') => {
            // It is a whole string: only a backslash can come before its closing quote.
            if find_special(text.as_bytes(), 1) == text.len() - 1 {
                return Made::Text(Cow::Borrowed(&text[1..text.len() - 1]));
            }
            let mut scratch = String::new();
            let string = Cursor::new(text).string(&mut scratch).map(str::to_owned);
            string.map_or(Made::Unsure, |string| Made::Text(Cow::Owned(string)))
        }
        Some(_) => match short_integer(text.as_bytes(), 0) {
            Some((number, end)) if end == text.len() => Made::Integer(number),
            _ => Made::Unsure,
        },
    }
}

/// The names of a path like `a.b.c`.
fn names<'a>(ast: &'a Ast, path: &mut Vec<&'a str>) -> Option<()> {
    match ast {
        Ast::Field { name, .. } => path.push(name),
        Ast::Subexpr { lhs, rhs, .. } => {
            names(lhs, path)?;
            names(rhs, path)?;
        }
        _ => return None,
    }
    Some(())
}

/// Has the value at `path` captured. `None` when the path leads through a column that is not walked by name.
fn capture(path: &[&str], parts: &mut Struct, captures: &mut u32) -> Option<u32> {
    let (name, rest) = path.split_first()?;
    if let Some(index) = parts.keys.field(name)
        && !rest.is_empty()
    {
        return match &mut parts.fields[index].data {
            Data::Struct(parts) => capture(rest, parts, captures),
            _ => None,
        };
    }
    Some(capture_in_keys(path, &mut parts.keys, captures))
}

fn capture_in_keys(path: &[&str], keys: &mut Keys, captures: &mut u32) -> u32 {
    let (name, rest) = path.split_first().expect("a path has a name");
    let slot = keys.slot_or_ghost(name);
    // A ghost on the way is captured too, so that one that comes twice is noticed.
    let place = keys.capture(slot, captures);
    match keys.target(slot) {
        Target::Ghost(index) if !rest.is_empty() => capture_in_keys(rest, &mut keys.ghosts[index as usize], captures),
        _ => place,
    }
}
