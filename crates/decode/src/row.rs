//! One message into the columns.
//!
//! Walks the message once and appends each value to its column as it comes. On an error the columns are left half
//! done: the caller cuts them back. Succeeds only where it is sure: a key that comes twice is left to `general`.

use crate::column::{Column, Data, List, Map, Struct, end_of, last, too_large};
use crate::error::{BadKind, Fail, Refused};
use crate::key::{Found, Keys, NONE, SlotId, Target};
use crate::number::short_integer;
use crate::scan::Cursor;

/// What the walk needs beside the columns; recycled.
#[derive(Debug, Default)]
pub(crate) struct Side {
    pub(crate) scratch: String,
    copy: String,
    /// Where the values that transforms look at lie in the message: start and end, `(0, 0)` for one that is missing
    /// (no value starts a message that is an object).
    pub(crate) captures: Vec<(u32, u32)>,
}

/// Walks a whole message into the root.
pub(crate) fn message(text: &str, root: &mut Struct, side: &mut Side) -> Result<(), Refused> {
    side.captures.fill((0, 0));
    let mut cursor = Cursor::new(text);
    cursor.skip_space();
    if cursor.peek() != b'{' {
        return Err(Fail::bad(BadKind::NotAnObject, "the message is not a JSON object"));
    }
    object(&mut cursor, root, side, 0)?;
    cursor.end()
}

/// Reads a value, at `cursor`, into `column`. `depth` is how many arrays and objects it lies in.
pub(crate) fn value(cursor: &mut Cursor, column: &mut Column, side: &mut Side, depth: usize) -> Result<(), Refused> {
    let first = cursor.peek();
    if first == b'n' {
        cursor.word("null")?;
        return column.push_null_checked("it is null, and the column is NOT NULL");
    }
    match &mut column.data {
        Data::String(text) if first == b'"' => text.push(cursor.string(&mut side.scratch)?),
        Data::String(text) => {
            side.copy.clear();
            cursor.copy_value(depth, &mut side.scratch, &mut side.copy)?;
            text.push(&side.copy)
        }
        Data::Struct(parts) if first == b'{' => object(cursor, parts, side, depth),
        Data::List(list) if first == b'[' => array(cursor, list, side, depth),
        Data::Map(map) if first == b'{' => entries(cursor, map, side, depth),
        _ => scalar(cursor, column, side, first),
    }
}

#[inline]
fn scalar(cursor: &mut Cursor, column: &mut Column, side: &mut Side, first: u8) -> Result<(), Refused> {
    match first {
        b'"' => column.put_string(cursor.string(&mut side.scratch)?),
        b'-' | b'0'..=b'9' => number(cursor, column),
        b't' => cursor.word("true").and_then(|()| column.put_boolean(true)),
        b'f' => cursor.word("false").and_then(|()| column.put_boolean(false)),
        b'{' => Err(column.wrong("an object")),
        b'[' => Err(column.wrong("an array")),
        _ => Err(cursor.fail("this is no JSON value")),
    }
}

#[inline]
fn number(cursor: &mut Cursor, column: &mut Column) -> Result<(), Refused> {
    if let Some((value, end)) = short_integer(cursor.bytes(), cursor.at) {
        cursor.at = end;
        return column.put_integer(value);
    }
    let text = cursor.number()?;
    column.put_number(text)
}

fn object(cursor: &mut Cursor, parts: &mut Struct, side: &mut Side, depth: usize) -> Result<(), Refused> {
    let row = parts.len;
    parts.open_row();
    let mut after = NONE;
    // `Cursor::members`, by hand: this is the loop that the time goes into. Space is looked for only where the byte
    // that is mostly there is not.
    cursor.open(depth)?;
    // A copy that nobody borrows stays in registers.
    let mut here = *cursor;
    let mut more = here.peek() != b'}';
    while more {
        let (slot, found) = match parts.keys.predict(after, here.bytes(), here.at) {
            Some((slot, length, found)) => {
                here.at += length;
                (slot, found)
            }
            None => {
                *cursor = here;
                let key = unexpected_key(cursor, &mut parts.keys, after, side)?;
                here = *cursor;
                key
            }
        };
        after = if slot == NONE { after } else { slot };
        here.skip_space();
        let start = here.at;
        here.at = member(here, cursor, parts, side, depth, row, found.target)?;
        capture(side, found, start, here.at)?;
        here.skip_space();
        match here.peek() {
            b',' => here.at += 1,
            b'}' => more = false,
            _ => return Err(here.fail("a comma or closing brace is missing")),
        }
    }
    cursor.at = here.at + 1;
    parts.len += 1;
    if parts.filled_late { Ok(()) } else { parts.fill(row) }
}

/// Takes a key, its colon and the space around: the slot it is.
fn key(cursor: &mut Cursor, keys: &mut Keys, after: SlotId, side: &mut Side) -> Result<(SlotId, Found), Refused> {
    match keys.predict(after, cursor.bytes(), cursor.at) {
        Some((slot, length, found)) => {
            cursor.at += length;
            Ok((slot, found))
        }
        None => unexpected_key(cursor, keys, after, side),
    }
}

#[inline(never)]
fn unexpected_key(
    cursor: &mut Cursor,
    keys: &mut Keys,
    after: SlotId,
    side: &mut Side,
) -> Result<(SlotId, Found), Refused> {
    cursor.skip_space();
    if let Some((slot, length, found)) = keys.predict(after, cursor.bytes(), cursor.at) {
        cursor.at += length;
        return Ok((slot, found));
    }
    if cursor.peek() != b'"' {
        return Err(cursor.fail("a key is missing in an object"));
    }
    let name = cursor.string(&mut side.scratch)?;
    let slot = keys.look_up(after, name);
    cursor.colon()?;
    Ok((slot, keys.found(slot)))
}

/// Takes a member's value, at `here`: where it ends. `cursor` is free to be moved.
#[inline(always)]
fn member(
    here: Cursor,
    cursor: &mut Cursor,
    parts: &mut Struct,
    side: &mut Side,
    depth: usize,
    row: usize,
    target: Target,
) -> Result<usize, Refused> {
    cursor.at = here.at;
    match target {
        Target::Field(index) => {
            let index = index as usize;
            if parts.mark(index, row) {
                return Err(Fail::unsure());
            }
            let field = &mut parts.fields[index];
            // What is most often there, without a call.
            if let Data::String(text) = &mut field.data
                && here.peek() == b'"'
                && let Some((string, end)) = here.plain_string()
            {
                text.push(string)?;
                return Ok(end);
            }
            value(cursor, field, side, depth + 1).map_err(|refused| refused.within(&field.name))?;
        }
        Target::Ghost(index) => ghost(cursor, &mut parts.keys.ghosts[index as usize], side, depth + 1)?,
        unknown => {
            parts.keys.drop_one(unknown);
            cursor.skip_value(depth + 1, &mut side.scratch)?;
        }
    }
    Ok(cursor.at)
}

/// Remembers where a value lies that a transform looks at.
#[inline(always)]
fn capture(side: &mut Side, found: Found, start: usize, end: usize) -> Result<(), Refused> {
    // `NONE` lies beyond them; the slow way has no captures at all.
    let Some(place) = side.captures.get_mut(found.capture as usize) else { return Ok(()) };
    if place.1 != 0 {
        return Err(Fail::unsure());
    }
    let at = |at: usize| u32::try_from(at).map_err(|_| too_large());
    *place = (at(start)?, at(end)?);
    Ok(())
}

/// Walks an object that is no column, for what transforms look at inside.
fn ghost(cursor: &mut Cursor, keys: &mut Keys, side: &mut Side, depth: usize) -> Result<(), Refused> {
    if cursor.peek() != b'{' {
        return cursor.skip_value(depth, &mut side.scratch);
    }
    let mut after = NONE;
    cursor.members(depth, |cursor| {
        let (slot, found) = key(cursor, keys, after, side)?;
        after = if slot == NONE { after } else { slot };
        cursor.skip_space();
        let start = cursor.at;
        match found.target {
            Target::Ghost(index) => ghost(cursor, &mut keys.ghosts[index as usize], side, depth + 1)?,
            _ => cursor.skip_value(depth + 1, &mut side.scratch)?,
        }
        capture(side, found, start, cursor.at)
    })
}

fn array(cursor: &mut Cursor, list: &mut List, side: &mut Side, depth: usize) -> Result<(), Refused> {
    let List { element, ends } = list;
    cursor.elements(depth, |cursor| {
        value(cursor, element, side, depth + 1).map_err(|refused| refused.within(&element.name))
    })?;
    ends.push(end_of(element.len())?);
    Ok(())
}

/// Maps up to this size are searched for a key that is there already by comparing with all.
const SMALL_MAP: usize = 16;

fn entries(cursor: &mut Cursor, map: &mut Map, side: &mut Side, depth: usize) -> Result<(), Refused> {
    let Map { key: keys, value: values, ends } = map;
    let start = last(ends);
    cursor.members(depth, |cursor| {
        let name = cursor.string(&mut side.scratch)?;
        keys.put_string(name).map_err(|refused| refused.within("key"))?;
        if keys.len() - start <= SMALL_MAP && has_twin(keys, start) {
            return Err(Fail::unsure());
        }
        cursor.colon()?;
        value(cursor, values, side, depth + 1).map_err(|refused| refused.within(&values.name))
    })?;
    if keys.len() - start > SMALL_MAP && has_twins_sorted(keys, start) {
        return Err(Fail::unsure());
    }
    ends.push(end_of(values.len())?);
    Ok(())
}

/// Whether the last key equals one from `start` on.
fn has_twin(keys: &Column, start: usize) -> bool {
    let newest = keys.len() - 1;
    (start..newest).any(|row| same(keys, row, newest))
}

/// Whether any two keys from `start` on are equal.
pub(crate) fn has_twins(keys: &Column, start: usize) -> bool {
    if keys.len() - start > SMALL_MAP {
        return has_twins_sorted(keys, start);
    }
    (start + 1..keys.len()).any(|newest| (start..newest).any(|row| same(keys, row, newest)))
}

/// The same, of many.
#[cold]
fn has_twins_sorted(keys: &Column, start: usize) -> bool {
    let mut rows: Vec<usize> = (start..keys.len()).collect();
    rows.sort_unstable_by(|&a, &b| order(keys, a, b));
    rows.windows(2).any(|pair| same(keys, pair[0], pair[1]))
}

fn same(keys: &Column, a: usize, b: usize) -> bool {
    order(keys, a, b).is_eq()
}

fn order(keys: &Column, a: usize, b: usize) -> std::cmp::Ordering {
    match &keys.data {
        Data::String(text) => text.get(a).cmp(text.get(b)),
        Data::Byte(values) => values[a].cmp(&values[b]),
        Data::Short(values) => values[a].cmp(&values[b]),
        Data::Int(values) | Data::Date(values) => values[a].cmp(&values[b]),
        Data::Long(values) | Data::Timestamp(values) => values[a].cmp(&values[b]),
        Data::Float(values) => (values[a] + 0.0).total_cmp(&(values[b] + 0.0)),
        Data::Double(values) => (values[a] + 0.0).total_cmp(&(values[b] + 0.0)),
        Data::Decimal { values, .. } => values[a].cmp(&values[b]),
        Data::Binary(column) => column.get(a).cmp(column.get(b)),
        Data::Boolean(values) => values[a].cmp(&values[b]),
        // No key is put into the others.
        Data::Struct(_) | Data::List(_) | Data::Map(_) => std::cmp::Ordering::Equal,
    }
}
