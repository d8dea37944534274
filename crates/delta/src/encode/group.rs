//! A row group while it grows: our columns ([`Column`]), and Parquet's for all that we leave to it.

use arrow_array::RecordBatch;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedFileWriter;

use super::choice::Choice;
use super::column::{Codec, Column};
use super::parts::Parts;
use super::plan::Plan;

/// See the module.
#[derive(Debug)]
pub(crate) struct Group {
    /// One for each of Parquet's leaves.
    writers: Vec<Way>,
    rows: usize,
}

#[derive(Debug)]
enum Way {
    Ours(Box<Column>),
    Parquets(Box<ArrowColumnWriter>),
}

impl Group {
    /// The group of number `index` of its file.
    ///
    /// # Errors
    /// The encoder refuses the schema: a fault of ours.
    pub(crate) fn new(
        plan: &Plan,
        choices: &[Choice],
        factory: &ArrowRowGroupWriterFactory,
        index: usize,
    ) -> Result<Self> {
        let all_ours = plan.leaves.iter().all(|(_, flat)| flat.is_some());
        let mut others = if all_ours { Vec::new() } else { factory.create_column_writers(index)? }.into_iter();
        let mut writers = Vec::with_capacity(plan.leaves.len());
        for (((_, flat), choice), description) in plan.leaves.iter().zip(choices).zip(plan.parquet.columns()) {
            let other = others.next();
            writers.push(match (flat, other) {
                (Some(flat), _) => Way::Ours(Box::new(Column::new(description.clone(), flat, *choice))),
                (None, Some(other)) => Way::Parquets(Box::new(other)),
                (None, None) => return Err(ParquetError::General(format!("no writer for {}", description.name()))),
            });
        }
        Ok(Self { writers, rows: 0 })
    }

    /// Rows taken in.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Takes rows of the files' columns in.
    ///
    /// # Errors
    /// The file is unusable.
    pub(crate) fn write(&mut self, plan: &Plan, batch: &RecordBatch, codec: &mut Codec) -> Result<()> {
        self.rows += batch.num_rows();
        for (root, (field, array)) in plan.schema.fields().iter().zip(batch.columns()).enumerate() {
            let from = plan.leaves.partition_point(|(of, _)| *of < root);
            let to = plan.leaves.partition_point(|(of, _)| *of <= root);
            let leaves = &plan.leaves[from..to];
            let others =
                if leaves.iter().all(|(_, flat)| flat.is_some()) { Vec::new() } else { compute_leaves(field, array)? };
            for (n, ((_, flat), writer)) in leaves.iter().zip(&mut self.writers[from..to]).enumerate() {
                match (flat, writer) {
                    (Some(flat), Way::Ours(column)) => column.write(&flat.leaf(batch)?, codec)?,
                    (_, Way::Parquets(writer)) => writer.write(&others[n])?,
                    (None, Way::Ours(_)) => unreachable!("ours are the flat ones"),
                }
            }
        }
        Ok(())
    }

    /// How long the group would be if it ended here, about.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let each = |writer: &Way| match writer {
            Way::Ours(column) => column.encoded_bytes(),
            Way::Parquets(writer) => writer.get_estimated_total_bytes(),
        };
        self.writers.iter().map(each).sum()
    }

    /// Memory taken.
    pub(crate) fn held_bytes(&self) -> usize {
        let each = |writer: &Way| match writer {
            Way::Ours(column) => column.held_bytes(),
            Way::Parquets(writer) => writer.memory_size(),
        };
        self.writers.iter().map(each).sum()
    }

    /// Ends the group and puts it into the file.
    ///
    /// # Errors
    /// The file is unusable.
    pub(crate) fn close(self, file: &mut SerializedFileWriter<Parts>, codec: &mut Codec) -> Result<()> {
        let mut group = file.next_row_group()?;
        for writer in self.writers {
            match writer {
                Way::Ours(column) => {
                    let (pages, close) = column.close(codec)?;
                    group.append_column(&pages, close)?;
                }
                Way::Parquets(writer) => writer.close()?.append_to_row_group(&mut group)?,
            }
        }
        group.close()?;
        Ok(())
    }
}
