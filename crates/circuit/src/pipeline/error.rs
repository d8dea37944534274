//! What is wrong with a pipeline file, and where: a message, a place, and the line with a caret below it.

use std::fmt;

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, TokenizerError};

/// Longest stretch of a line that is shown with an error, in characters.
const SHOWN_CHARS: usize = 120;

/// A stretch of one line of the file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column of the first character, from 1.
    pub column: usize,
    /// Characters that it covers, at least 1. What goes on in the next line is not counted.
    pub width: usize,
}

impl Place {
    /// Where a span of the parser's starts; as wide as it is on its first line.
    #[must_use]
    pub fn of(span: Span) -> Self {
        let Span { start, end } = span;
        let width = if start.line == end.line { end.column.saturating_sub(start.column) } else { 1 };
        Self { width: usize::try_from(width).unwrap_or(1).max(1), ..Self::at(start) }
    }

    /// Where a span of the planner's starts.
    #[must_use]
    pub fn of_query(span: datafusion::common::Span) -> Self {
        let location = |at: datafusion::common::Location| Location { line: at.line, column: at.column };
        Self::of(Span::new(location(span.start), location(span.end)))
    }

    fn at(location: Location) -> Self {
        let number = |raw: u64| usize::try_from(raw).unwrap_or(usize::MAX);
        Self { line: number(location.line), column: number(location.column), width: 1 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A fault of a pipeline file. `Display` is `LINE:COLUMN: message` and the line with a caret, so that a program may put
/// `FILE:` before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// What is wrong, and what to write instead.
    pub message: String,
    /// Where.
    pub place: Place,
    /// The line that `place` is in.
    line: String,
}

impl SqlError {
    /// A fault at a place of `text`, the whole file. A place behind its end is shown without a line.
    #[must_use]
    pub fn new(text: &str, place: Place, message: impl Into<String>) -> Self {
        let line = place.line.checked_sub(1).and_then(|above| text.split('\n').nth(above)).unwrap_or_default();
        Self { message: message.into(), place, line: line.trim_end().to_owned() }
    }
}

impl std::error::Error for SqlError {}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if self.line.is_empty() {
            return Ok(());
        }
        let column = self.place.column.saturating_sub(1);
        // A long line is shown around the place.
        let left_out = if column < SHOWN_CHARS * 3 / 4 { 0 } else { column - SHOWN_CHARS / 2 };
        let shown: String = self.line.chars().skip(left_out).take(SHOWN_CHARS).map(plain).collect();
        let indent = column - left_out;
        let room = shown.chars().count().saturating_sub(indent).max(1);
        let number = self.place.line.to_string();
        let margin = " ".repeat(number.len());
        let carets = "^".repeat(self.place.width.clamp(1, room));
        write!(f, "\n{margin} |\n{number} | {shown}\n{margin} | {}{carets}", " ".repeat(indent))
    }
}

/// Tabs and the like are one column wide, as they are counted.
fn plain(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

/// A fault before the file's line is added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub place: Place,
    pub message: String,
}

impl Problem {
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into() }
    }

    pub fn in_text(self, text: &str) -> SqlError {
        SqlError::new(text, self.place, self.message)
    }
}

impl From<TokenizerError> for Problem {
    fn from(error: TokenizerError) -> Self {
        Self::new(Place::at(error.location), error.message)
    }
}

/// The parser writes the place into its message; `end` is for a statement that ended too early.
pub(super) fn of_parser(error: &ParserError, end: Place) -> Problem {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.as_str(),
        ParserError::RecursionLimitExceeded => return Problem::new(end, TOO_DEEP),
    };
    let (what, place) = split_place(message).unwrap_or((message, end));
    let what = what.replace("found: EOF", "found the end of the statement");
    Problem::new(place, what.trim_start_matches("sql parser error: "))
}

const TOO_DEEP: &str = "expressions or queries are nested too deeply; move the inner ones into views of their own";

/// Parts `Expected: x, found: y at Line: 3, Column: 14`.
fn split_place(message: &str) -> Option<(&str, Place)> {
    let (what, place) = message.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let place = Place { line: line.parse().ok()?, column: column.trim().parse().ok()?, width: 1 };
    Some((what, place))
}
