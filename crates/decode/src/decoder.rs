//! A stretch of messages into one batch.

use std::str::Utf8Error;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use lakeward_protocol::records::Records;

use crate::apply::{Placed, Way, apply};
use crate::block::Block;
use crate::column::{Column, Struct};
use crate::compiled::{Compiled, Made};
use crate::debezium::json::Flattener;
use crate::debezium::{Debezium, Extras};
use crate::decoded::{Bad, Decoded, Entries};
use crate::error::{BadKind, Cause, Fail, PlanError, Refused};
use crate::format::{Encoding, Format};
use crate::frame::Frame;
use crate::general::{Message, rewrite};
use crate::inflate::Inflater;
use crate::learn::{can_learn, learn};
use crate::place::{fill, fill_late, place};
use crate::plan;
use crate::reader::Reader;
use crate::record::Record;
use crate::row::{self, Side};
use crate::scan::Cursor;
use crate::schemas::Unavailable;
use crate::shapes::Shapes;
use crate::simd::utf8;
use crate::transform::{Source, Transforms};
use crate::tree::Tree;
use crate::unknown::{UnknownField, take_unknown};

/// Makes rows of messages, for one table's schema. Reuse it: it keeps its memory and what it learnt of the messages.
#[derive(Debug)]
pub struct Decoder {
    schema: SchemaRef,
    pub(crate) topic: String,
    pub(crate) root: Struct,
    pub(crate) side: Side,
    pub(crate) placed: Vec<Placed>,
    /// The structs filled late, the inner before the outer.
    pub(crate) late: Vec<Vec<usize>>,
    unplaced: Vec<String>,
    /// Take the slow way always: one transform sets a part of what another one sets.
    entangled: bool,
    /// What is known of the messages' shapes; `None` when the transforms need the usual way.
    shapes: Option<Shapes>,
    /// What reads messages of another format than JSON.
    reader: Option<Box<dyn Reader>>,
    /// What takes the frame off messages of JSON that have one.
    frame: Option<Frame>,
    inflater: Option<Inflater>,
    /// What makes flat messages of Debezium's in JSON.
    flattener: Option<Flattener>,
    /// What the messages taken in for the batch being made come to, inflated.
    pub(crate) inflated_bytes: usize,
}

impl Decoder {
    /// Prepares decoding into `schema`: the table's full Arrow schema, partition columns included, as Delta's types map
    /// to Arrow's. A transform whose property names no column of it is dropped; see [`Decoder::unplaced_transforms`].
    ///
    /// # Errors
    /// When a column's type has no place in Delta, names repeat, or a dotted property leads through a column that is
    /// no struct.
    pub fn new(schema: &SchemaRef, topic: &str, transforms: &Transforms) -> Result<Self, PlanError> {
        let mut root = plan::root(schema.fields())?;
        let (mut placed, mut unplaced, mut late, mut captures) = (Vec::<Placed>::new(), Vec::new(), Vec::new(), 0);
        for transform in transforms.iter() {
            let Some((path, names)) = place(&transform.property, &root)? else {
                unplaced.push(transform.property.clone());
                continue;
            };
            let way = match &transform.source {
                Source::Kafka(metadata) => Way::Kafka(*metadata),
                Source::Message(expression) => Way::Message {
                    compiled: Compiled::new(expression.as_ast(), &mut root, &mut captures),
                    expression: Arc::clone(expression),
                },
            };
            fill_late(&mut root, &path);
            for length in 0..path.len() {
                if !late.contains(&path[..length].to_vec()) {
                    late.push(path[..length].to_vec());
                }
            }
            placed.push(Placed { property: transform.property.clone(), path, names, way, with_next: false });
        }
        for at in 1..placed.len() {
            placed[at - 1].with_next = placed[at - 1].parent() == placed[at].parent();
        }
        let entangled = placed.iter().enumerate().any(|(at, one)| {
            placed.iter().enumerate().any(|(other, two)| at != other && two.path.starts_with(&one.path))
        });
        late.sort_by_key(|path: &Vec<usize>| std::cmp::Reverse(path.len()));
        let mut side = Side::default();
        side.captures.resize(captures as usize, (0, 0));
        let shapes = (!entangled && can_learn(&placed)).then(Shapes::default);
        let (schema, topic) = (Arc::clone(schema), topic.to_owned());
        Ok(Self {
            schema,
            topic,
            root,
            side,
            placed,
            late,
            unplaced,
            entangled,
            shapes,
            reader: None,
            frame: None,
            inflater: None,
            flattener: None,
            inflated_bytes: 0,
        })
    }

    /// [`Decoder::new`], for messages of that format.
    ///
    /// # Errors
    /// As [`Decoder::new`].
    pub fn with_format(
        schema: &SchemaRef,
        topic: &str,
        transforms: &Transforms,
        format: &Format,
    ) -> Result<Self, PlanError> {
        let mut decoder = Self::new(schema, topic, transforms)?;
        decoder.reader = format.reader(&mut decoder.root, &decoder.placed)?;
        let looks = |placed: &&Placed| matches!(placed.way, Way::Message { .. });
        if let (Encoding::Raw, Some(placed)) = (&format.encoding, decoder.placed.iter().find(looks)) {
            return Err(PlanError::RawTransform { property: placed.property.clone() });
        }
        let flattens =
            format.debezium != Debezium::No && matches!(format.encoding, Encoding::Json | Encoding::JsonSchema(_));
        decoder.flattener =
            flattens.then(|| Flattener::new(Extras::new(format.debezium, &decoder.root, &decoder.placed)));
        if let Encoding::JsonSchema(schemas) = &format.encoding {
            decoder.frame = Some(Frame::new(Arc::clone(schemas)));
        }
        decoder.inflater = format.compression.map(Inflater::new);
        Ok(decoder)
    }

    /// The same, by the slow way alone.
    #[cfg(test)]
    pub(crate) fn always_slow(mut self) -> Self {
        self.entangled = true;
        self.shapes = None;
        self
    }

    /// The same, without shapes.
    #[cfg(test)]
    pub(crate) fn without_shapes(mut self) -> Self {
        self.shapes = None;
        self
    }

    /// How many rows were made by shapes so far, and how many messages were compared with some.
    #[cfg(test)]
    pub(crate) fn by_shape(&self) -> (usize, usize) {
        self.shapes.as_ref().map_or((0, 0), |shapes| (shapes.rows, shapes.looked))
    }

    /// The schema of the batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn root(&self) -> &Struct {
        &self.root
    }

    /// Properties of transforms that name no column of the table, and so set nothing. Worth a warning.
    #[must_use]
    pub fn unplaced_transforms(&self) -> &[String] {
        &self.unplaced
    }

    /// Memory held for columns under construction and inflated messages.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let inflated = self.inflater.as_ref().map_or(0, Inflater::memory_bytes);
        self.root.fields.iter().map(Column::memory_bytes).sum::<usize>() + inflated
    }

    /// Makes rows of all `records`.
    ///
    /// # Panics
    /// When the values pass 2 GiB, which no Arrow column holds: bound the arenas. When messages are compressed, hold
    /// several rows, or need schemas from outside: see [`Decoder::try_decode`].
    pub fn decode(&mut self, records: &Records) -> Decoded {
        let decoded = self.try_decode(records, 0);
        let decoded = decoded.unwrap_or_else(|error| panic!("a format that needs nothing from outside: {error}"));
        assert_eq!(decoded.next, records.len(), "a format whose messages are as large as they look");
        decoded
    }

    /// Makes rows of `records` from entry `from` on, of all of them as a rule. Messages that are larger inside than
    /// outside are not all taken at once: what comes is [`Decoded::next`].
    ///
    /// # Errors
    /// A schema is needed, and nobody can say whether it is there. No row is made of any of the records, and no
    /// message was set aside: ask again with the same ones.
    ///
    /// # Panics
    /// When the values pass 2 GiB.
    pub fn try_decode(&mut self, records: &Records, from: usize) -> Result<Decoded, Unavailable> {
        assert!(i32::try_from(records.value_bytes()).is_ok(), "an arena below 2 GiB");
        let (mut reader, mut inflater, mut frame) = (self.reader.take(), self.inflater.take(), self.frame.take());
        let decoded = match (&mut reader, &mut inflater) {
            (None, None) if self.flattener.is_none() => self.decode_json(records, frame.as_mut()),
            (reader, inflater) => self.decode_each(records, from, |decoder, value, record| {
                let value = match (value, inflater.as_mut()) {
                    (Some(value), Some(inflater)) => Some(inflater.inflate(value)?),
                    (value, _) => value,
                };
                decoder.inflated_bytes += value.map_or(0, <[u8]>::len);
                match (reader.as_mut(), value) {
                    (Some(reader), value) => decoder.read(&mut **reader, value, record),
                    (None, Some(value)) => {
                        let value = frame.as_mut().map_or(Ok(value), |frame| frame.open(value))?;
                        Ok(decoder.decode_flat(value, record)?)
                    }
                    (None, None) => Ok(()),
                }
            }),
        };
        if let Some(frame) = &mut frame {
            frame.forget_faults();
        }
        (self.reader, self.inflater, self.frame) = (reader, inflater, frame);
        decoded
    }

    fn decode_json(&mut self, records: &Records, mut frame: Option<&mut Frame>) -> Result<Decoded, Unavailable> {
        // All schemas first: rows wait in the block for those that follow.
        if let Some(frame) = frame.as_mut() {
            frame.learn(records)?;
        }
        let mut bad = Vec::new();
        let mut skipped = Vec::new();
        let mut block = Block::new(records.partition());
        let mut shapes = self.shapes.take();
        let mut used = shapes.as_mut().filter(|_| fits_columns(records, &self.topic));
        for (index, entry) in records.entries().iter().enumerate() {
            let Some(value) = records.value(entry) else {
                skipped.push(u32::try_from(index).expect("fewer records than bytes of memory"));
                continue;
            };
            let record = Record { entry, index, records };
            let value = frame.as_ref().map_or(Ok(value), |frame| frame.opened(value));
            let result = value.and_then(|value| self.decode_one(value, record, used.as_deref_mut(), &mut block));
            if let Err(refused) = result {
                skipped.push(u32::try_from(index).expect("fewer records than bytes of memory"));
                bad.push(Bad { entry: index, kind: refused.kind(), detail: refused.detail() });
            }
        }
        if let Some(shapes) = &mut shapes {
            shapes.flush(&mut block, &mut self.root, &self.topic);
        }
        self.shapes = shapes;
        let batch = self.take_batch();
        Ok(Decoded {
            batch,
            tombstones: skipped.len() - bad.len(),
            bad,
            next: records.len(),
            entries: Entries::Without(skipped),
        })
    }

    /// Takes the rows out.
    pub(crate) fn take_batch(&mut self) -> RecordBatch {
        let rows = self.root.len;
        let arrays = self.root.finish(self.schema.fields());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
        batch.expect("columns of the schema, NOT NULL enforced")
    }

    /// Takes the memory of a batch of ours that is done with, for the next one. Without it each batch costs new memory,
    /// and page faults are a good part of the time that a message takes. A batch still shared is dropped, no more.
    pub fn recycle(&mut self, batch: RecordBatch) {
        let (_, arrays, _) = batch.into_parts();
        for (column, array) in self.root.fields.iter_mut().zip(arrays) {
            column.recycle(array);
        }
    }

    /// The fields dropped since this was last asked for, and how often. Messages set aside count too.
    pub fn take_unknown_fields(&mut self) -> Vec<UnknownField> {
        let mut fields = Vec::new();
        take_unknown(&mut self.root, "", &mut fields);
        fields
    }

    /// One message: a row more, now or when the block is emptied, or no trace.
    #[inline]
    fn decode_one<'a>(
        &mut self,
        value: &'a [u8],
        record: Record<'a>,
        shapes: Option<&mut Shapes>,
        block: &mut Block<'a>,
    ) -> Result<(), Refused> {
        let Some(shapes) = shapes.and_then(Shapes::awake) else { return self.decode_bytes(value, record) };
        let text = shapes.look(value).map_err(not_utf8)?;
        if shapes.collect(text, record.entry, block, &mut self.root, &self.topic, &mut self.side.scratch) {
            return Ok(());
        }
        // Rows are in the messages' order.
        shapes.flush(block, &mut self.root, &self.topic);
        let result = self.decode_text(text, record);
        shapes.missed(|| result.is_ok().then(|| learn(text, &self.root, &self.placed, self.side.captures.len())));
        result
    }

    /// One message, made flat if it is an event.
    fn decode_flat(&mut self, value: &[u8], record: Record) -> Result<(), Refused> {
        let Some(mut flattener) = self.flattener.take() else { return self.decode_bytes(value, record) };
        let flat = utf8(value).map_err(not_utf8).and_then(|text| flattener.flatten(text, &self.root));
        let decoded = flat.and_then(|flat| flat.map_or(Ok(()), |text| self.decode_text(text, record)));
        self.flattener = Some(flattener);
        decoded
    }

    /// One message, the usual way: a row more, or no trace.
    fn decode_bytes(&mut self, value: &[u8], record: Record) -> Result<(), Refused> {
        self.decode_text(utf8(value).map_err(not_utf8)?, record)
    }

    fn decode_text(&mut self, text: &str, record: Record) -> Result<(), Refused> {
        let row = self.root.len;
        if self.entangled {
            return self.decode_slowly(text, record);
        }
        let result = self.decode_fast(text, record, row);
        result.or_else(|refused| {
            self.root.truncate(row);
            self.look_again(refused, text, record)
        })
    }

    fn decode_fast(&mut self, text: &str, record: Record, row: usize) -> Result<(), Refused> {
        row::message(text, &mut self.root, &mut self.side)?;
        if self.placed.is_empty() {
            return Ok(());
        }
        self.apply(text, record, row)?;
        fill(&mut self.root, &self.late, row)
    }

    /// What the fast way refused: is it final?
    #[cold]
    fn look_again(&mut self, refused: Refused, text: &str, record: Record) -> Result<(), Refused> {
        if refused.kind == Cause::Bad(BadKind::NotJson) {
            return Err(refused);
        }
        // A fault of syntax further on is the better reason.
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        cursor.skip_value(0, &mut self.side.scratch)?;
        cursor.end()?;
        if self.may_be_fine(&refused, text) { self.decode_slowly(text, record) } else { Err(refused) }
    }

    /// Whether the slow way may see it differently: a key came twice, or a transform replaces what is wrong.
    fn may_be_fine(&self, refused: &Fail, text: &str) -> bool {
        match refused.kind {
            Cause::Unsure => return true,
            Cause::Bad(BadKind::WrongType | BadKind::NullInNotNull | BadKind::DoesNotFit) => {}
            Cause::Bad(_) => return false,
        }
        let path: Vec<&str> = refused.path.iter().rev().map(AsRef::as_ref).collect();
        let replaced = self.placed.iter().any(|placed| {
            // One path leads through the other.
            placed.names.iter().zip(&path).all(|(a, b)| a == b)
        });
        let twice = |name: &&str| text.matches(&format!("\"{name}\"")).nth(1).is_some();
        replaced || text.contains('\\') || path.iter().any(twice)
    }

    fn decode_slowly(&mut self, text: &str, record: Record) -> Result<(), Refused> {
        let row = self.root.len;
        let result = self.decode_rewritten(text, record, row);
        if result.is_err() {
            self.root.truncate(row);
        }
        result
    }

    fn decode_rewritten(&mut self, text: &str, record: Record, row: usize) -> Result<(), Refused> {
        let (placed, topic) = (&self.placed, self.topic.as_str());
        let text = rewrite(text, &self.root, |tree| {
            let mut message = Message::new(text);
            for placed in placed {
                let value = match &placed.way {
                    Way::Kafka(metadata) => record.metadata(*metadata, topic, &placed.property)?.json(),
                    Way::Message { expression, .. } => message.search(&placed.property, expression)?,
                };
                if let Some(value) = value {
                    tree.set(&placed.names, Tree::parse(&value)?);
                }
            }
            Ok(())
        })?;
        // Transforms are done, so nothing is captured; a ghost's key may still come twice.
        let captures = std::mem::take(&mut self.side.captures);
        let result =
            row::message(&text, &mut self.root, &mut self.side).and_then(|()| fill(&mut self.root, &self.late, row));
        self.side.captures = captures;
        result.map_err(|refused| match refused.kind {
            Cause::Unsure => Fail::bad(BadKind::WrongType, "two keys of a map are the same once read as its key type"),
            Cause::Bad(_) => refused,
        })
    }

    /// Sets the transforms' values in the row just walked.
    fn apply(&mut self, text: &str, record: Record, row: usize) -> Result<(), Refused> {
        let Self { placed, root, side, topic, .. } = self;
        let mut message = Message::new(text);
        apply(placed, root, side, (record, topic, row), |placed, side| {
            let Way::Message { expression, compiled } = &placed.way else { unreachable!("asked for those alone") };
            match compiled.as_ref().map_or(Made::Unsure, |compiled| compiled.evaluate(text, &side.captures)) {
                Made::Unsure => message.search_made(&placed.property, expression),
                made => Ok(made),
            }
        })
    }
}

fn not_utf8(error: Utf8Error) -> Refused {
    Fail::syntax(error.valid_up_to(), "not UTF-8")
}

/// Whether a batch's columns stay far below the 2 GiB that Arrow has room for, whatever lies in the messages, and the
/// partition's number fits an int. Beyond that only the usual way can say which message is one too many.
fn fits_columns(records: &Records, topic: &str) -> bool {
    const SMALL_BYTES: usize = 1 << 28;
    let numbered = i32::try_from(records.partition().0).is_ok();
    numbered && records.value_bytes() <= SMALL_BYTES && records.len().saturating_mul(topic.len()) <= SMALL_BYTES
}
