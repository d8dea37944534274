//! Sets rows aside that can't be written, so that one of them harms no other: no partition value has a text for
//! them, or their own is too long.

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::DataType;
use delta_kernel::arrow::compute::filter_record_batch;

use super::error::EncodeError;
use super::lengths::fit;
use super::partition::write_value;
use super::plan::Plan;

/// A row that can't be filed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Its index in the batch that was offered.
    pub row: usize,
    /// The column and what is wrong with its value.
    pub reason: String,
}

/// The rows of `batch` that can be filed, and those that can't, in order.
pub(super) fn sift(plan: &Plan, batch: RecordBatch) -> Result<(RecordBatch, Vec<Unfit>), EncodeError> {
    let mut unfit: Vec<Unfit> = Vec::new();
    let batch = fit(batch, &plan.lengths, &mut unfit);
    let mut text = String::new();
    for (name, index, nullable) in &plan.partitions {
        let column = batch.column(*index);
        if always_fits(column.data_type(), *nullable) {
            continue;
        }
        for row in 0..batch.num_rows() {
            text.clear();
            let reason = match write_value(name, column, row, &mut text) {
                Err(error) => error.to_string(),
                Ok(false) if !nullable => {
                    format!("{name}: empty or NULL, which is NULL as a partition value, and the column is NOT NULL")
                }
                Ok(_) => continue,
            };
            unfit.push(Unfit { row, reason });
        }
    }
    if unfit.is_empty() {
        return Ok((batch, unfit));
    }
    unfit.sort_by_key(|unfit| unfit.row);
    unfit.dedup_by_key(|unfit| unfit.row);
    let mut keep = vec![true; batch.num_rows()];
    unfit.iter().for_each(|unfit| keep[unfit.row] = false);
    let kept = filter_record_batch(&batch, &BooleanArray::from(keep))
        .map_err(|source| EncodeError::Arrow { table: plan.layout.table().to_owned(), source })?;
    Ok((kept, unfit))
}

/// No value of this type is without a text; a NULL in a NOT NULL column is found earlier.
fn always_fits(data_type: &DataType, nullable: bool) -> bool {
    match data_type {
        DataType::Binary | DataType::Date32 | DataType::Timestamp(..) => false,
        DataType::Utf8 => nullable,
        _ => true,
    }
}
