//! Expressions over a part of a change: values for the rows that all of them hold for, the others noted.

use arrow_array::{ArrayRef, BooleanArray};
use arrow_select::filter::{filter, filter_record_batch};

use crate::delta::Part;
use crate::expr::Expression;
use crate::failure::Failures;

/// Columns made of a part's rows.
#[derive(Debug)]
pub struct Columns {
    /// The rows that are left, as they came in.
    pub part: Part,
    /// A column for each expression, a value for each row that is left.
    pub columns: Vec<ArrayRef>,
}

/// Evaluates all `expressions`; a row that one fails for is noted with the first reason, and left out. `None` when
/// nothing is left.
#[must_use]
pub fn columns(part: &Part, expressions: &[Expression], operator: &str, failures: &Failures) -> Option<Columns> {
    let rows = part.weights.len();
    if rows == 0 {
        return None;
    }
    let mut columns = Vec::with_capacity(expressions.len());
    let mut failed: Vec<(usize, String)> = Vec::new();
    for expression in expressions {
        let evaluated = expression.evaluate(&part.batch);
        columns.push(evaluated.values);
        failed.extend(evaluated.failed);
    }
    if failed.is_empty() {
        return Some(Columns { part: part.clone(), columns });
    }
    failed.sort_by_key(|(row, _)| *row);
    failed.dedup_by_key(|(row, _)| *row);
    let mut keep = vec![true; rows];
    for (row, reason) in failed {
        keep[row] = false;
        failures.note(operator, reason, &part.batch, row, part.weights.value(row));
    }
    let keep = BooleanArray::from(keep);
    let part = kept(part, &keep)?;
    let columns = columns.iter().map(|column| filter(column, &keep).expect("a mask of its length")).collect();
    Some(Columns { part, columns })
}

/// The rows where `keep` is true. `None` when none is.
#[must_use]
pub fn kept(part: &Part, keep: &BooleanArray) -> Option<Part> {
    if keep.true_count() == 0 {
        return None;
    }
    if keep.true_count() == keep.len() {
        return Some(part.clone());
    }
    let batch = filter_record_batch(&part.batch, keep).expect("a mask of its length");
    let weights = filter(&part.weights, keep).expect("a mask of its length");
    let weights = arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Int64Type>(&weights).clone();
    Some(Part { batch, weights })
}
