//! Rows that an expression failed for.

use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};

/// A row that is not in the view because an expression of it fails. Should the row go, the same comes with the
/// opposite weight: failures are a Z-set as the view is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Failure {
    /// Which operator, as `explain` names it.
    pub operator: String,
    /// The expression, and why it fails.
    pub reason: String,
    /// The row that went into the operator, as `name=value`, for people.
    pub row: String,
    /// How many copies of it came (above zero) or went (below).
    pub weight: i64,
}

/// Where the workers of a circuit put what failed in a step.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<Mutex<Vec<Failure>>>);

impl Failures {
    /// Notes row `row` of `batch`.
    pub fn note(&self, operator: &str, reason: String, batch: &RecordBatch, row: usize, weight: i64) {
        let failure = Failure { operator: operator.to_owned(), reason, row: shown(batch, row), weight };
        self.0.lock().expect("no worker panics while it holds this").push(failure);
    }

    /// Takes all that were noted.
    #[must_use]
    pub fn take(&self) -> Vec<Failure> {
        std::mem::take(&mut self.0.lock().expect("no worker panics while it holds this"))
    }
}

/// Row `row`, for people.
fn shown(batch: &RecordBatch, row: usize) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let schema = batch.schema();
    let value = |(at, field): (usize, &Arc<arrow_schema::Field>)| {
        let formatter = ArrayFormatter::try_new(batch.column(at), &options);
        let text = formatter.map_or_else(|_| "?".to_owned(), |formatter| formatter.value(row).to_string());
        format!("{}={text}", field.name())
    };
    schema.fields().iter().enumerate().map(value).collect::<Vec<_>>().join(", ")
}
