//! A stretch of messages into one batch.

use std::str::Utf8Error;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use jmespatch::Expression;
use lakeward_protocol::records::Records;

use crate::block::Block;
use crate::column::{Column, Struct};
use crate::compiled::{Compiled, Made};
use crate::error::{BadKind, Cause, Fail, PlanError, Refused};
use crate::general::{Message, rewrite};
use crate::learn::{can_learn, learn};
use crate::place::{fill, fill_late, open_struct, place};
use crate::plan;
use crate::record::Record;
use crate::row::{self, Side};
use crate::scan::Cursor;
use crate::shapes::Shapes;
use crate::simd::utf8;
use crate::transform::{Metadata, Source, Transforms};
use crate::tree::Tree;
use crate::unknown::{UnknownField, take_unknown};

/// A message that no row was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Index into the [`Records`]' entries.
    pub entry: usize,
    /// The reason, to act on and to count by.
    pub kind: BadKind,
    /// The reason, to read: the place in the message and what is wrong there.
    pub detail: String,
}

/// The rows of a stretch of messages.
#[derive(Debug)]
#[must_use]
pub struct Decoded {
    /// A row for each good message, in offset order, of the decoder's schema.
    pub batch: RecordBatch,
    /// The messages set aside, in offset order.
    pub bad: Vec<Bad>,
    /// How many messages had no value at all, and so no row.
    pub tombstones: usize,
    /// Indices of the entries without a row, ascending.
    skipped: Vec<u32>,
}

impl Decoded {
    /// Index of the entry that row `row` was made of.
    #[must_use]
    pub fn entry_of(&self, row: usize) -> usize {
        // The i-th skipped entry lies before the row if at most `row` rows lie before that entry.
        let before = partition_point(&self.skipped, |at, skipped| skipped as usize - at <= row);
        row + before
    }
}

/// `slice::partition_point`, with the index.
fn partition_point(values: &[u32], before: impl Fn(usize, u32) -> bool) -> usize {
    let (mut low, mut high) = (0, values.len());
    while low < high {
        let middle = low.midpoint(high);
        if before(middle, values[middle]) { low = middle + 1 } else { high = middle }
    }
    low
}

/// A transform with its place in the table.
#[derive(Debug)]
pub(crate) struct Placed {
    property: String,
    /// Field indices from the root, and their names.
    path: Vec<usize>,
    names: Vec<String>,
    pub(crate) way: Way,
    /// The next one sets a field of the same struct.
    with_next: bool,
}

/// How its value is found.
#[derive(Debug)]
pub(crate) enum Way {
    Kafka(Metadata),
    Message { expression: Arc<Expression<'static>>, compiled: Option<Compiled> },
}

/// Makes rows of messages, for one table's schema. Reuse it: it keeps its memory and what it learnt of the messages.
#[derive(Debug)]
pub struct Decoder {
    schema: SchemaRef,
    topic: String,
    root: Struct,
    side: Side,
    placed: Vec<Placed>,
    /// The structs filled late, the inner before the outer.
    late: Vec<Vec<usize>>,
    unplaced: Vec<String>,
    /// Take the slow way always: one transform sets a part of what another one sets.
    entangled: bool,
    /// What is known of the messages' shapes; `None` when the transforms need the usual way.
    shapes: Option<Shapes>,
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
        Ok(Self { schema, topic, root, side, placed, late, unplaced, entangled, shapes })
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

    /// Properties of transforms that name no column of the table, and so set nothing. Worth a warning.
    #[must_use]
    pub fn unplaced_transforms(&self) -> &[String] {
        &self.unplaced
    }

    /// Memory held for columns under construction.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.root.fields.iter().map(Column::memory_bytes).sum()
    }

    /// Makes rows of all `records`.
    ///
    /// # Panics
    /// When the values pass 2 GiB, which no Arrow column holds: bound the arenas.
    pub fn decode(&mut self, records: &Records) -> Decoded {
        assert!(i32::try_from(records.value_bytes()).is_ok(), "an arena below 2 GiB");
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
            let record = Record { entry, partition: records.partition() };
            if let Err(refused) = self.decode_one(value, record, used.as_deref_mut(), &mut block) {
                skipped.push(u32::try_from(index).expect("fewer records than bytes of memory"));
                bad.push(Bad { entry: index, kind: refused.kind(), detail: refused.detail() });
            }
        }
        if let Some(shapes) = &mut shapes {
            shapes.flush(&mut block, &mut self.root, &self.topic);
        }
        self.shapes = shapes;
        let rows = self.root.len;
        let arrays = self.root.finish(self.schema.fields());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
        let batch = batch.expect("columns of the schema, NOT NULL enforced");
        Decoded { batch, tombstones: skipped.len() - bad.len(), bad, skipped }
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
        let not_utf8 = |error: Utf8Error| Fail::syntax(error.valid_up_to(), "not UTF-8");
        let Some(shapes) = shapes.and_then(Shapes::awake) else {
            return self.decode_text(utf8(value).map_err(not_utf8)?, record);
        };
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

    /// One message, the usual way: a row more, or no trace.
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
        // Neighbours in one struct open it once.
        for group in placed.chunk_by(|one, _| one.with_next) {
            let mut opened: Option<&mut Struct> = None;
            for placed in group {
                let made = match &placed.way {
                    Way::Kafka(metadata) => record.metadata(*metadata, topic, &placed.property)?.made(),
                    Way::Message { compiled: Some(compiled), .. } => compiled.evaluate(text, &side.captures),
                    Way::Message { compiled: None, .. } => Made::Unsure,
                };
                let made = match (made, &placed.way) {
                    (Made::Unsure, Way::Message { expression, .. }) => {
                        match message.search(&placed.property, expression)? {
                            Some(value) => Made::Json(value),
                            None => Made::Null,
                        }
                    }
                    (made, _) => made,
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
}

/// Whether a batch's columns stay far below the 2 GiB that Arrow has room for, whatever lies in the messages, and the
/// partition's number fits an int. Beyond that only the usual way can say which message is one too many.
fn fits_columns(records: &Records, topic: &str) -> bool {
    const SMALL_BYTES: usize = 1 << 28;
    let numbered = i32::try_from(records.partition().0).is_ok();
    numbered && records.value_bytes() <= SMALL_BYTES && records.len().saturating_mul(topic.len()) <= SMALL_BYTES
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
