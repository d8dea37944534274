//! The shape of a message: the text between its values, which the messages of a topic mostly share.
//!
//! A shape is learnt of a message that the usual way took (`learn`). Another message is compared with its literals and
//! only the values are read, into slots. No column is touched before a whole message has matched, so a mismatch leaves
//! nothing to undo: the message goes the usual way. `block` moves the slots into the columns, a column at a time.
//!
//! Never laxer than `row`: literals are compared byte by byte, a value is taken by the one rule that was seen to suit
//! its column or not at all, and a shape has no key twice. What was JSON between the values is JSON again.

use lakeward_protocol::records::{Entry, TimestampType};

use crate::block::Sink;
use crate::key::Target;
use crate::number::{self, short_integer};
use crate::scan::Cursor;
use crate::simd::Marks;
use crate::time;
use crate::transform::{Converted, Epoch, substring};

/// Rows collected before they go into the columns.
pub(crate) const ROWS: usize = 64;

/// One value of each row collected: bits of a number, or a [`span`] of the message.
pub(crate) type Slots = [u64; ROWS];

/// A slot that is null. No value is: as a span it ends before it starts, as a double it is NaN, and it is no whole
/// number of up to 18 digits.
pub(crate) const NULL: u64 = 0x7ff8_dead_ffff_ffff;

/// Messages with more values are not learnt.
pub(crate) const MAX_VALUES: usize = 256;

/// A message, and what a first look at all of its bytes has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked<'a> {
    pub(crate) text: &'a str,
    pub(crate) ascii: bool,
    pub(crate) marks: &'a Marks,
}

/// A learnt shape, and the rows collected by it.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) segments: Vec<Segment>,
    /// What follows the last value.
    pub(crate) tail: Tail,
    pub(crate) steps: Vec<Step>,
    /// Where each column of the root gets its rows.
    pub(crate) sinks: Vec<Sink>,
    /// Unknown fields in each message: the way to their struct, and what counts them.
    pub(crate) drops: Vec<(Vec<usize>, Target)>,
    /// A column is filled with the record's timestamp, which must be there.
    pub(crate) stamped: bool,
    pub(crate) rows: usize,
}

/// A literal and the value behind it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) literal: Literal,
    pub(crate) take: Take,
    pub(crate) nullable: bool,
    pub(crate) slots: Slots,
}

/// How a value is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Take {
    /// A string without escapes.
    Text,
    /// A whole number of up to 18 digits, within bounds.
    Integer {
        min: i64,
        max: i64,
    },
    Double,
    Float,
    Boolean,
    /// Any value, in that many arrays and objects. Its slot has no meaning.
    Skip {
        depth: usize,
    },
}

/// A value made of others.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) make: Make,
    pub(crate) from: Slot,
    /// A null is kept; otherwise the usual way must see to it.
    pub(crate) nullable: bool,
    pub(crate) slots: Slots,
}

#[derive(Debug)]
pub(crate) enum Make {
    Same,
    Substring { skip: usize, take: usize },
    Timestamp,
    Date,
    MillisToMicros,
}

/// Where slots are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    Value(usize),
    Made(usize),
}

/// A place in a message.
#[inline(always)]
fn span(start: usize, end: usize) -> u64 {
    (end as u64) << 32 | start as u64
}

/// Where a span starts and ends.
#[inline(always)]
fn ends_of(span: u64) -> (usize, usize) {
    ((span & 0xffff_ffff) as usize, (span >> 32) as usize)
}

/// The text of a span.
#[inline(always)]
pub(crate) fn text_of(message: &str, span: u64) -> &str {
    let (start, end) = ends_of(span);
    &message[start..end]
}

impl Shape {
    /// Collects a message as one row more, if it is of this shape; there must be room for a row.
    pub(crate) fn collect(&mut self, message: Looked, entry: &Entry, scratch: &mut String) -> bool {
        let row = self.rows;
        assert!(row < ROWS, "a full block is emptied before the next message");
        if self.stamped && !has_timestamp(entry) {
            return false;
        }
        let bytes = message.text.as_bytes();
        if !self.tail.ends(bytes) {
            return false;
        }
        let mut at = 0;
        for segment in &mut self.segments {
            let Some(start) = segment.literal.end(bytes, at) else { return false };
            let Some((value, end)) = segment.value(message, start, scratch) else { return false };
            (segment.slots[row], at) = (value, end);
        }
        if at + self.tail.text.len() != bytes.len() || !self.make(message) {
            return false;
        }
        self.rows += 1;
        true
    }

    /// Makes the steps' values of the row being collected.
    fn make(&mut self, message: Looked) -> bool {
        for at in 0..self.steps.len() {
            let from = self.slots(self.steps[at].from)[self.rows];
            match self.steps[at].value(message, from) {
                Some(value) => self.steps[at].slots[self.rows] = value,
                None => return false,
            }
        }
        true
    }

    pub(crate) fn slots(&self, slot: Slot) -> &Slots {
        match slot {
            Slot::Value(at) => &self.segments[at].slots,
            Slot::Made(at) => &self.steps[at].slots,
        }
    }
}

/// Whether a record has a timestamp that a column can hold.
fn has_timestamp(entry: &Entry) -> bool {
    entry.timestamp_type != TimestampType::NotAvailable && entry.timestamp_ms.checked_mul(1000).is_some()
}

impl Segment {
    /// Takes the value at `at`: its slot, and where it ends.
    #[inline(always)]
    fn value(&self, message: Looked, at: usize, scratch: &mut String) -> Option<(u64, usize)> {
        let bytes = message.text.as_bytes();
        let taken = match self.take {
            Take::Text => plain_text(message, at),
            Take::Integer { min, max } => short_integer(bytes, at)
                .filter(|(number, _)| (min..=max).contains(number))
                .map(|(number, end)| (number.cast_unsigned(), end)),
            Take::Skip { depth } => {
                let mut cursor = Cursor { text: message.text, at };
                cursor.skip_value(depth, scratch).ok().map(|()| (0, cursor.at))
            }
            Take::Double | Take::Float | Take::Boolean => rare(self.take, message.text, at),
        };
        if taken.is_none() && self.nullable && bytes[at..].starts_with(b"null") {
            return Some((NULL, at + 4));
        }
        taken
    }
}

/// The span of a string without escapes, and where it ends.
#[inline(always)]
fn plain_text(message: Looked, at: usize) -> Option<(u64, usize)> {
    let bytes = message.text.as_bytes();
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let end = message.marks.next(at + 1)?;
    (bytes[end] == b'"').then(|| (span(at + 1, end), end + 1))
}

#[inline(never)]
fn rare(take: Take, message: &str, at: usize) -> Option<(u64, usize)> {
    let bytes = message.as_bytes();
    if take == Take::Boolean {
        return match &bytes[at..] {
            [b't', b'r', b'u', b'e', ..] => Some((1, at + 4)),
            [b'f', b'a', b'l', b's', b'e', ..] => Some((0, at + 5)),
            _ => None,
        };
    }
    // `as` rounds to the nearest, as the text would be.
    let (double, float, end) = if let Some((number, end)) = short_integer(bytes, at) {
        (number as f64, number as f32, end)
    } else {
        let mut cursor = Cursor { text: message, at };
        let text = cursor.number().ok()?;
        match take {
            Take::Float => (0.0, number::float(text).ok()?, cursor.at),
            _ => (number::double(text).ok()?, 0.0, cursor.at),
        }
    };
    Some((if take == Take::Float { float.to_bits().into() } else { double.to_bits() }, end))
}

impl Step {
    #[inline(always)]
    fn value(&self, message: Looked, from: u64) -> Option<u64> {
        if from == NULL {
            return self.nullable.then_some(NULL);
        }
        match self.make {
            Make::Same => Some(from),
            Make::Substring { skip, take } => {
                let (start, end) = ends_of(from);
                let (skipped, taken) = if message.ascii {
                    // Characters are bytes.
                    (skip, take)
                } else {
                    let text = &message.text[start..end];
                    let part = substring(text, skip, take);
                    (part.as_ptr() as usize - text.as_ptr() as usize, part.len())
                };
                let start = start.saturating_add(skipped).min(end);
                Some(span(start, start.saturating_add(taken).min(end)))
            }
            Make::Timestamp => time::timestamp_micros(text_of(message.text, from)).map(i64::cast_unsigned),
            Make::Date => time::date_days(text_of(message.text, from)).map(|days| i64::from(days).cast_unsigned()),
            Make::MillisToMicros => match Epoch::MillisToMicros.convert(from.cast_signed()) {
                Some(Converted::Micros(micros)) => Some(micros.cast_unsigned()).filter(|&micros| micros != NULL),
                _ => None,
            },
        }
    }
}

/// Text to compare with, mostly short.
#[derive(Debug)]
pub(crate) struct Literal {
    text: Box<[u8]>,
    /// Of a text of up to 32 bytes: it and zeros, and ones where it counts.
    words: [u64; 4],
    mask: [u64; 4],
}

impl Literal {
    pub(crate) fn new(text: &[u8]) -> Self {
        let (mut words, mut mask) = ([0; 32], [0; 32]);
        for (at, byte) in text.iter().take(32).enumerate() {
            (words[at], mask[at]) = (*byte, 0xff);
        }
        Self { text: text.into(), words: four(&words), mask: four(&mask) }
    }

    /// Where it ends, if it lies in `bytes` at `at`.
    #[inline(always)]
    fn end(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let rest = bytes.get(at..)?;
        // One wide load compares a short text without a call.
        let lies = match rest.first_chunk::<32>() {
            Some(block) if self.text.len() <= 32 => {
                let block = four(block);
                (0..4).fold(0, |differs, word| differs | (block[word] ^ self.words[word]) & self.mask[word]) == 0
            }
            _ => rest.starts_with(&self.text),
        };
        lies.then_some(at + self.text.len())
    }
}

/// Text that messages end with, mostly short.
#[derive(Debug)]
pub(crate) struct Tail {
    text: Box<[u8]>,
    /// Of a text of up to 8 bytes: it behind zeros, and ones where it counts.
    word: u64,
    mask: u64,
}

impl Tail {
    pub(crate) fn new(text: &[u8]) -> Self {
        let (mut word, mut mask) = ([0; 8], [0; 8]);
        for ((byte, counts), text) in word.iter_mut().zip(&mut mask).rev().zip(text.iter().rev()) {
            (*byte, *counts) = (*text, 0xff);
        }
        Self { text: text.into(), word: u64::from_le_bytes(word), mask: u64::from_le_bytes(mask) }
    }

    /// Whether `bytes` end with it.
    #[inline(always)]
    fn ends(&self, bytes: &[u8]) -> bool {
        match bytes.last_chunk::<8>() {
            Some(last) if self.text.len() <= 8 => u64::from_le_bytes(*last) & self.mask == self.word,
            _ => bytes.ends_with(&self.text),
        }
    }
}

/// 32 bytes as four numbers.
#[inline(always)]
fn four(bytes: &[u8; 32]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks::<8>();
    [0, 1, 2, 3].map(|word| u64::from_le_bytes(words[word]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_itself_and_nothing_else() {
        for length in 0..20 {
            let text: Vec<u8> = (0..length).map(|at| b'a' + at % 26).collect();
            let tail = Tail::new(&text);
            for before in [0, 1, 40] {
                let mut bytes = [vec![b'x'; before].as_slice(), &text].concat();
                assert!(tail.ends(&bytes), "{length} {before}");
                for at in 0..text.len() {
                    bytes[before + at] ^= 1;
                    assert!(!tail.ends(&bytes), "{length} {before}, changed at {at}");
                    bytes[before + at] ^= 1;
                }
                assert!(length == 0 || !tail.ends(&bytes[..bytes.len() - 1]), "{length} {before}, cut");
            }
        }
    }

    #[test]
    fn a_literal_is_itself_and_nothing_else() {
        for length in 0..70 {
            let text: Vec<u8> = (0..length).map(|at| b'a' + at % 26).collect();
            let literal = Literal::new(&text);
            for padding in [0, 1, 40] {
                let mut bytes = [b"__", text.as_slice(), &vec![b'x'; padding]].concat();
                assert_eq!(literal.end(&bytes, 2), Some(2 + text.len()), "{length} {padding}");
                for at in 0..text.len() {
                    bytes[2 + at] ^= 1;
                    assert_eq!(literal.end(&bytes, 2), None, "{length} {padding}, changed at {at}");
                    bytes[2 + at] ^= 1;
                    assert_eq!(literal.end(&bytes[..2 + at], 2), None, "{length}, cut at {at}");
                }
            }
        }
    }
}
