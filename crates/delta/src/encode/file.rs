//! One Parquet file, from its first rows to its bytes.

use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, ArrowWriterOptions};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;

use super::choice::{Choice, apply, choose};
use super::column::Codec;
use super::error::EncodeError;
use super::group::Group;
use super::options::WriterOptions;
use super::parts::{Parts, Pool};
use super::plan::Plan;
use super::stats::{PARQUET_BOUND_BYTES, Watched};

/// Rows of a row group at most: what a reader's task takes at a time. Never tied to how often we commit.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Encoded bytes of a row group at most, where memory allows.
const ROW_GROUP_BYTES: usize = 128 << 20;

/// As [`ROW_GROUP_BYTES`], where it does not.
const LEAST_ROW_GROUP_BYTES: usize = 8 << 20;

/// Arrow bytes that are handed to the encoder at once, so that no page nears Parquet's 2 GiB.
const WRITE_BYTES: usize = 16 << 20;

/// What an open file holds for each column that Parquet's own writer encodes, beside what that owns
/// up to: its compressor's tables, hash tables.
const COLUMN_BYTES: usize = 24 << 10;

/// A file that takes rows.
#[derive(Debug)]
pub(crate) struct OpenFile {
    writer: SerializedFileWriter<Parts>,
    factory: ArrowRowGroupWriterFactory,
    choices: Vec<Choice>,
    /// The row group that grows.
    group: Option<Group>,
    group_bytes: usize,
    watched: Watched,
    rows: u64,
    /// Those that Parquet's own writer encodes.
    columns: usize,
}

/// A whole file's bytes and what the log must know of them.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// The bytes, in order.
    pub(crate) parts: Vec<Bytes>,
    /// Their sum.
    pub(crate) size_bytes: u64,
    /// Rows in them.
    pub(crate) rows: u64,
    /// `add.stats`.
    pub(crate) stats: String,
}

/// What all files' properties have in common.
pub(crate) fn properties(options: &WriterOptions) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        // Exactly this form: others make readers distrust the file (PARQUET-246, PARQUET-251).
        .set_created_by(format!("lakeward version {}", env!("CARGO_PKG_VERSION")))
        .set_compression(options.compression.parquet())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_statistics_truncate_length(Some(PARQUET_BOUND_BYTES))
        .set_offset_index_disabled(true)
}

impl OpenFile {
    /// Begins a file whose first rows will be `first`.
    ///
    /// # Errors
    /// The encoder refuses the schema: a fault of ours.
    pub(crate) fn new(
        plan: &Plan,
        properties: &WriterPropertiesBuilder,
        options: &WriterOptions,
        pool: &Arc<Pool>,
        first: &[RecordBatch],
    ) -> Result<Self, EncodeError> {
        let group_bytes = (options.memory_bytes / 4).clamp(LEAST_ROW_GROUP_BYTES, ROW_GROUP_BYTES);
        let choices = choose(&plan.parquet, first, options.plain_encodings);
        let properties = apply(properties.clone(), plan, &choices).build();
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true)
            .with_parquet_schema(plan.parquet.clone());
        let (writer, factory) =
            ArrowWriter::try_new_with_options(Parts::new(Arc::clone(pool)), Arc::clone(&plan.schema), options)
                .and_then(ArrowWriter::into_serialized_writer)
                .map_err(|source| failed(plan, source))?;
        let columns = plan.leaves.iter().filter(|(_, flat)| flat.is_none()).count();
        let watched = plan.stats.watch();
        Ok(Self { writer, factory, choices, group: None, group_bytes, watched, rows: 0, columns })
    }

    /// Takes rows in.
    ///
    /// # Errors
    /// The file is unusable.
    pub(crate) fn write(&mut self, plan: &Plan, batch: &RecordBatch, codec: &mut Codec) -> Result<(), EncodeError> {
        plan.stats.see(batch, &mut self.watched);
        self.rows += batch.num_rows() as u64;
        let rows = batch.num_rows();
        let row_bytes = batch.get_array_memory_size() / rows.max(1);
        let step = (WRITE_BYTES / row_bytes.max(1)).max(1);
        let mut from = 0;
        while from < rows {
            let group = match &mut self.group {
                Some(group) => group,
                None => self.group.insert(
                    Group::new(plan, &self.choices, &self.factory, self.writer.flushed_row_groups().len())
                        .map_err(|source| failed(plan, source))?,
                ),
            };
            let now = step.min(rows - from).min(ROW_GROUP_ROWS - group.rows());
            group.write(plan, &batch.slice(from, now), codec).map_err(|source| failed(plan, source))?;
            if group.rows() == ROW_GROUP_ROWS || group.encoded_bytes() >= self.group_bytes {
                self.end_group(plan, codec)?;
            }
            from += now;
        }
        Ok(())
    }

    fn end_group(&mut self, plan: &Plan, codec: &mut Codec) -> Result<(), EncodeError> {
        let Some(group) = self.group.take() else { return Ok(()) };
        group.close(&mut self.writer, codec).map_err(|source| failed(plan, source))
    }

    /// How long the file would be if it ended here, about.
    pub(crate) fn encoded_bytes(&self) -> usize {
        self.writer.bytes_written() + self.group.as_ref().map_or(0, Group::encoded_bytes)
    }

    /// Memory taken.
    pub(crate) fn held_bytes(&self) -> usize {
        let group = self.group.as_ref().map_or(0, Group::held_bytes);
        group + self.writer.inner().held_bytes() + self.columns * COLUMN_BYTES
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The file is lost.
    pub(crate) fn close(mut self, plan: &Plan, codec: &mut Codec) -> Result<Encoded, EncodeError> {
        self.end_group(plan, codec)?;
        let metadata = self.writer.finish().map_err(|source| failed(plan, source))?;
        let parts = self.writer.inner_mut().take().finish();
        Ok(Encoded {
            size_bytes: parts.iter().map(|part| part.len() as u64).sum(),
            parts,
            rows: self.rows,
            stats: plan.stats.json(self.rows, metadata.row_groups(), &self.watched),
        })
    }
}

fn failed(plan: &Plan, source: ParquetError) -> EncodeError {
    EncodeError::Parquet { table: plan.layout.table().to_owned(), source }
}
