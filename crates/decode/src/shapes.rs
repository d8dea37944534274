//! The shapes known of a topic's messages, and whether to look for them at all.
//!
//! A message that fits none costs a little, and learning a shape costs as much as many messages. So each hit adds to
//! the trust and each miss takes from it; without trust shapes are left alone for a while, which is longer each time.

use std::str::Utf8Error;

use lakeward_protocol::records::Entry;

use crate::block::Block;
use crate::column::Struct;
use crate::shape::{Looked, ROWS, Shape};
use crate::simd::Marks;

/// Shapes kept at a time.
const MOST_SHAPES: usize = 4;

/// Trust at first and at most.
const FIRST_TRUST: u32 = 32;
const FULL_TRUST: u32 = 64;

/// What a message takes from the trust whose shape can't be learnt.
const UNLEARNABLE: u32 = 8;

/// Messages that are not looked at when trust is used up; twice as many each time until trust was full again.
const FIRST_NAP: u32 = 1 << 10;
const LONGEST_NAP: u32 = 1 << 16;

#[derive(Debug)]
pub(crate) struct Shapes {
    known: Vec<Shape>,
    /// The shape that fitted last; no other has rows collected.
    current: usize,
    trust: u32,
    /// Messages still to be left alone.
    asleep: u32,
    nap: u32,
    /// Of the message looked at last.
    marks: Marks,
    ascii: bool,
    /// Rows made so far, and messages looked at.
    #[cfg(test)]
    pub(crate) rows: usize,
    #[cfg(test)]
    pub(crate) looked: usize,
}

impl Default for Shapes {
    fn default() -> Self {
        Self {
            known: Vec::new(),
            current: 0,
            trust: FIRST_TRUST,
            asleep: 0,
            nap: FIRST_NAP,
            marks: Marks::default(),
            ascii: false,
            #[cfg(test)]
            rows: 0,
            #[cfg(test)]
            looked: 0,
        }
    }
}

impl Shapes {
    /// Itself, if the next message is to be looked at.
    #[inline]
    pub(crate) fn awake(&mut self) -> Option<&mut Self> {
        if self.asleep == 0 {
            #[cfg(test)]
            (self.looked += 1);
            return Some(self);
        }
        self.asleep -= 1;
        None
    }

    /// Looks at a message: its text.
    #[inline]
    pub(crate) fn look<'a>(&mut self, message: &'a [u8]) -> Result<&'a str, Utf8Error> {
        let (text, ascii) = self.marks.utf8(message)?;
        self.ascii = ascii;
        Ok(text)
    }

    /// Collects the message looked at last, if it fits a shape. If it does not, nothing has changed.
    #[inline]
    pub(crate) fn collect<'a>(
        &mut self,
        message: &'a str,
        entry: &'a Entry,
        block: &mut Block<'a>,
        root: &mut Struct,
        topic: &str,
        scratch: &mut String,
    ) -> bool {
        let looked = Looked { text: message, ascii: self.ascii, marks: &self.marks };
        let Some(shape) = self.known.get_mut(self.current) else { return false };
        if !shape.collect(looked, entry, scratch) {
            let mut others = (0..self.known.len()).filter(|other| *other != self.current);
            let Some(other) = others.find(|other| self.known[*other].collect(looked, entry, scratch)) else {
                return false;
            };
            self.flush(block, root, topic);
            self.current = other;
        }
        block.push(message, entry);
        if block.messages.len() == ROWS {
            self.flush(block, root, topic);
        }
        self.trust += 1;
        if self.trust >= FULL_TRUST {
            (self.trust, self.nap) = (FULL_TRUST, FIRST_NAP);
        }
        true
    }

    /// Appends the rows collected so far.
    pub(crate) fn flush(&mut self, block: &mut Block, root: &mut Struct, topic: &str) {
        if block.messages.is_empty() {
            return;
        }
        #[cfg(test)]
        (self.rows += block.messages.len());
        block.flush(&mut self.known[self.current], root, topic);
    }

    /// Takes note of a message that fitted no shape; no row is collected. `learn` gives its shape, `None` for a bad
    /// message and `Some(None)` for one that has no shape.
    pub(crate) fn missed(&mut self, learn: impl FnOnce() -> Option<Option<Shape>>) {
        self.trust = self.trust.saturating_sub(1);
        if self.known.len() < MOST_SHAPES {
            match learn() {
                Some(Some(shape)) => {
                    self.current = self.known.len();
                    self.known.push(shape);
                }
                Some(None) => self.trust = self.trust.saturating_sub(UNLEARNABLE),
                None => {}
            }
        }
        if self.trust == 0 {
            (self.known, self.current, self.trust) = (Vec::new(), 0, FIRST_TRUST);
            (self.asleep, self.nap) = (self.nap, LONGEST_NAP.min(self.nap * 2));
        }
    }
}
