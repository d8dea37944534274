//! `CREATE [MATERIALIZED] VIEW name AS query`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::error::{Place, Problem};
use super::{View, depth, reads};

/// Reads what follows `CREATE VIEW`. `text` is the whole file.
pub(super) fn read(cursor: &mut Cursor, text: &str) -> Result<View, Problem> {
    let name = cursor.name("the view's name")?;
    if cursor.peek() == Token::LParen {
        let message = "a view's columns are named in its query: SELECT a AS b; leave the list out";
        return Err(Problem::new(cursor.place(), message));
    }
    if cursor.word("WITH") {
        let message = "a view takes no options; write them to its sink: CREATE SINK .. FROM the view WITH (..)";
        return Err(Problem::new(cursor.place(), message));
    }
    cursor.expect_word("AS")?;
    let place = cursor.place();
    depth::check(cursor)?;
    let query = *cursor.sql(|parser| parser.parse_query())?;
    cursor.finish()?;
    let source = between(text, place, cursor.end()).to_owned();
    let reads = reads::of(&query, place)?;
    Ok(View { name, query, text: source, place, reads })
}

/// The stretch of the file from one place up to another.
fn between(text: &str, start: Place, end: Place) -> &str {
    let (start, end) = (offset(text, start), offset(text, end));
    text.get(start..end.max(start)).unwrap_or_default()
}

/// The byte where a place starts; the end of the text for one behind it.
fn offset(text: &str, place: Place) -> usize {
    let mut starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let Some(start) = starts.nth(place.line.saturating_sub(1)) else { return text.len() };
    text[start..].char_indices().nth(place.column.saturating_sub(1)).map_or(text.len(), |(at, _)| start + at)
}
