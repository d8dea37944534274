//! Formats other than JSON: one message's bytes into rows, between what all formats share.
//!
//! A [`Reader`] writes a message's values into the root's columns, a row at a time, and closes each row with
//! [`Rows::close`], which sets the transforms' values and fills what is missing. It may leave the columns half done
//! when it refuses: the message's rows are cut off here, all of them.

use std::fmt::Debug;

use lakeward_protocol::records::Records;

use crate::apply::{Placed, Way, apply};
use crate::column::Struct;
use crate::compiled::Made;
use crate::decoded::{Bad, Decoded, Entries};
use crate::decoder::Decoder;
use crate::error::{BadKind, Cause, Fail, Refused};
use crate::general::Message;
use crate::place::fill;
use crate::record::Record;
use crate::row::Side;
use crate::schemas::Unavailable;

/// A batch of so many bytes of messages, as they are inside, takes no further one. An arena is mostly smaller.
const LARGE_BATCH_BYTES: usize = 64 << 20;

/// Makes rows of messages of one format, for the columns that it was made for.
pub(crate) trait Reader: Debug + Send {
    /// Makes the rows of one message, in their order.
    fn message(&mut self, message: &[u8], rows: &mut Rows) -> Result<(), Stop>;

    /// Makes the rows of a record without a value: none, as a rule.
    fn tombstone(&mut self, rows: &mut Rows) -> Result<(), Stop> {
        let _ = rows;
        Ok(())
    }
}

/// Why a message has no rows.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It is bad.
    Refused(Refused),
    /// Nobody knows as yet.
    Unavailable(Unavailable),
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Unavailable> for Stop {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

/// The columns, and what is done to each row once the message's own values are in it.
pub(crate) struct Rows<'a> {
    pub(crate) root: &'a mut Struct,
    pub(crate) record: Record<'a>,
    /// Some transform looks into the message, so rows are closed with its text.
    pub(crate) looked_into: bool,
    /// What was inflated of messages is added here.
    pub(crate) inflated_bytes: &'a mut usize,
    placed: &'a [Placed],
    late: &'a [Vec<usize>],
    side: &'a mut Side,
    topic: &'a str,
}

impl<'a> Rows<'a> {
    pub(crate) fn topic(&self) -> &'a str {
        self.topic
    }

    /// Ends the root's newest row. `text` is the message that it was made of as JSON, if transforms look into it.
    pub(crate) fn close(&mut self, text: &str) -> Result<(), Refused> {
        if self.placed.is_empty() {
            return Ok(());
        }
        let row = self.root.len - 1;
        let mut message = Message::new(text);
        apply(self.placed, self.root, self.side, (self.record, self.topic, row), |placed, _| {
            let Way::Message { expression, .. } = &placed.way else { unreachable!("asked for those alone") };
            message.search_made(&placed.property, expression)
        })?;
        fill(self.root, self.late, row)
    }

    /// Whether a transform sets what was refused, so that it need not fit.
    pub(crate) fn may_replace(&self, refused: &Fail) -> bool {
        let value = [BadKind::WrongType, BadKind::NullInNotNull, BadKind::DoesNotFit].map(Cause::Bad);
        let path: Vec<&str> = refused.path.iter().rev().map(AsRef::as_ref).collect();
        value.contains(&refused.kind) && self.placed.iter().any(|placed| placed.touches(&path))
    }

    /// The places that transforms set something at, for a message of that text.
    pub(crate) fn replaced(&self, text: &str) -> Result<Vec<Vec<usize>>, Refused> {
        let mut message = Message::new(text);
        let mut places = Vec::new();
        for placed in self.placed {
            let null = match &placed.way {
                Way::Kafka(metadata) => {
                    matches!(self.record.metadata(*metadata, self.topic, &placed.property)?.made(), Made::Null)
                }
                Way::Message { expression, .. } => message.search(&placed.property, expression)?.is_none(),
            };
            if !null {
                places.push(placed.path.clone());
            }
        }
        Ok(places)
    }
}

impl Decoder {
    /// Makes rows of `records` from entry `from` on, each by `one`, until the batch is large.
    pub(crate) fn decode_each(
        &mut self,
        records: &Records,
        from: usize,
        mut one: impl FnMut(&mut Self, Option<&[u8]>, Record<'_>) -> Result<(), Stop>,
    ) -> Result<Decoded, Unavailable> {
        let (mut bad, mut of_rows) = (Vec::new(), Vec::with_capacity(records.len()));
        let (mut tombstones, mut empty, mut next) = (0, 0, from);
        self.inflated_bytes = 0;
        for (index, entry) in records.entries().iter().enumerate().skip(from) {
            if self.inflated_bytes >= LARGE_BATCH_BYTES {
                break;
            }
            next = index + 1;
            let (before, value) = (self.root.len, records.value(entry));
            match one(self, value, Record { entry, index, records }) {
                Ok(()) => {
                    let made = self.root.len - before;
                    let counted = if value.is_some() { &mut empty } else { &mut tombstones };
                    *counted += usize::from(made == 0);
                    let index = u32::try_from(index).expect("fewer records than bytes of memory");
                    of_rows.extend(std::iter::repeat_n(index, made));
                }
                Err(Stop::Refused(refused)) => {
                    self.root.truncate(before);
                    bad.push(Bad { entry: index, kind: refused.kind(), detail: refused.detail() });
                }
                Err(Stop::Unavailable(unavailable)) => {
                    self.root.truncate(0);
                    return Err(unavailable);
                }
            }
        }
        Ok(Decoded { batch: self.take_batch(), bad, tombstones, next, entries: Entries::Listed { of_rows, empty } })
    }

    /// One message, by a format's reader.
    pub(crate) fn read(
        &mut self,
        reader: &mut dyn Reader,
        value: Option<&[u8]>,
        record: Record<'_>,
    ) -> Result<(), Stop> {
        let looked_into = self.placed.iter().any(|placed| matches!(placed.way, Way::Message { .. }));
        let Self { root, placed, late, side, topic, inflated_bytes, .. } = self;
        let mut rows = Rows { root, record, looked_into, inflated_bytes, placed, late, side, topic };
        match value {
            Some(message) => reader.message(message, &mut rows),
            None => reader.tombstone(&mut rows),
        }
    }
}
