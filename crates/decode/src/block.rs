//! Rows collected by a shape, into the columns: a column at a time, in loops of one type.

use lakeward_protocol::position::PartitionId;
use lakeward_protocol::records::Entry;

use crate::column::{Column, Data, Struct, Text};
use crate::shape::{NULL, ROWS, Shape, Slot, text_of};
use crate::transform::Metadata;

/// The messages of the rows collected, in their order.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    pub(crate) messages: Vec<(&'a str, &'a Entry)>,
    pub(crate) partition: PartitionId,
}

/// Where a column gets its rows.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Nothing is known yet; a finished shape has none of these.
    Missing,
    Null,
    Slots(Slot),
    Parts(Vec<Sink>),
    Kafka(Metadata),
}

impl<'a> Block<'a> {
    pub(crate) fn new(partition: PartitionId) -> Self {
        Self { messages: Vec::with_capacity(ROWS), partition }
    }

    pub(crate) fn push(&mut self, message: &'a str, entry: &'a Entry) {
        self.messages.push((message, entry));
    }

    /// Appends the rows that `shape` has collected, and empties both.
    pub(crate) fn flush(&mut self, shape: &mut Shape, root: &mut Struct, topic: &str) {
        assert_eq!(self.messages.len(), shape.rows, "each message collected is one row");
        for (path, target) in &shape.drops {
            parts_at(root, path).keys.drop_some(*target, shape.rows as u64);
        }
        let bytes = self.messages.iter().map(|(message, _)| message.len()).sum();
        fill(root, &shape.sinks, &Filler { shape, block: self, bytes, topic });
        shape.rows = 0;
        self.messages.clear();
    }
}

fn parts_at<'a>(root: &'a mut Struct, path: &[usize]) -> &'a mut Struct {
    path.iter().fold(root, |parts, &index| match &mut parts.fields[index].data {
        Data::Struct(inner) => inner,
        _ => unreachable!("learnt through structs"),
    })
}

fn fill(parts: &mut Struct, sinks: &[Sink], filler: &Filler) {
    for (column, sink) in parts.fields.iter_mut().zip(sinks) {
        filler.column(column, sink);
    }
    parts.len += filler.shape.rows;
}

/// What columns are filled from.
struct Filler<'a> {
    shape: &'a Shape,
    block: &'a Block<'a>,
    /// Of all its messages.
    bytes: usize,
    topic: &'a str,
}

impl<'a> Filler<'a> {
    fn column(&self, column: &mut Column, sink: &Sink) {
        match sink {
            Sink::Missing => unreachable!("a finished shape knows all its columns"),
            Sink::Null => column.push_nulls(self.shape.rows),
            Sink::Slots(slot) => self.slots(column, &self.shape.slots(*slot)[..self.shape.rows]),
            Sink::Kafka(metadata) => self.kafka(column, *metadata),
            Sink::Parts(sinks) => match &mut column.data {
                Data::Struct(parts) => fill(parts, sinks, self),
                _ => unreachable!("learnt from this schema"),
            },
        }
    }

    fn slots(&self, column: &mut Column, slots: &[u64]) {
        if slots.contains(&NULL) {
            let rows = u32::try_from(column.len()).expect("fewer rows than messages")..;
            column.nulls.extend(rows.zip(slots).filter(|(_, slot)| **slot == NULL).map(|(row, _)| row));
        }
        // Each was taken within the bounds of its column's type; a null's bits are read by nobody.
        match &mut column.data {
            Data::String(text) => self.texts(text, slots),
            Data::Long(values) | Data::Timestamp(values) => values.extend(slots.iter().map(|slot| slot.cast_signed())),
            Data::Int(values) | Data::Date(values) => values.extend(slots.iter().map(|&slot| slot as i32)),
            Data::Short(values) => values.extend(slots.iter().map(|&slot| slot as i16)),
            Data::Byte(values) => values.extend(slots.iter().map(|&slot| slot as i8)),
            Data::Double(values) => values.extend(slots.iter().map(|&slot| f64::from_bits(slot))),
            Data::Float(values) => values.extend(slots.iter().map(|&slot| f32::from_bits(slot as u32))),
            Data::Boolean(values) => values.extend(slots.iter().map(|&slot| slot == 1)),
            _ => unreachable!("no shape is learnt for these"),
        }
    }

    fn texts(&self, text: &mut Text, slots: &[u64]) {
        let value = |(&slot, (message, _)): (&u64, &(&'a str, &Entry))| match slot {
            NULL => "",
            span => text_of(message, span),
        };
        text.extend(slots.len(), self.bytes, slots.iter().zip(&self.block.messages).map(value));
    }

    fn kafka(&self, column: &mut Column, metadata: Metadata) {
        let (rows, entries) = (self.shape.rows, self.block.messages.iter().map(|(_, entry)| entry));
        let partition = self.block.partition.0;
        match (metadata, &mut column.data) {
            (Metadata::Offset, Data::Long(values)) => values.extend(entries.map(|entry| entry.offset)),
            (Metadata::Partition, Data::Int(values)) => {
                values.extend(std::iter::repeat_n(partition.cast_signed(), rows));
            }
            (Metadata::Partition, Data::Long(values)) => {
                values.extend(std::iter::repeat_n(i64::from(partition), rows));
            }
            (Metadata::Topic, Data::String(text)) => {
                text.extend(rows, rows * self.topic.len(), std::iter::repeat_n(self.topic, rows));
            }
            (Metadata::Timestamp, Data::Timestamp(values) | Data::Long(values)) => {
                values.extend(entries.map(|entry| entry.timestamp_ms * 1000));
            }
            (Metadata::TimestampType, Data::Int(values)) => {
                values.extend(entries.map(|entry| entry.timestamp_type as i32));
            }
            _ => unreachable!("no shape is learnt for these"),
        }
    }
}

/// Whether [`Filler::kafka`] fills such a column.
pub(crate) fn takes_kafka(column: &Column, metadata: Metadata) -> bool {
    matches!(
        (metadata, &column.data),
        (Metadata::Offset, Data::Long(_))
            | (Metadata::Partition, Data::Int(_) | Data::Long(_))
            | (Metadata::Topic, Data::String(_))
            | (Metadata::Timestamp, Data::Timestamp(_) | Data::Long(_))
            | (Metadata::TimestampType, Data::Int(_))
    )
}
