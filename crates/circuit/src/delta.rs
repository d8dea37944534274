//! A change of a relation, as Arrow batches with a weight for each row: a Z-set that may name a row more than once.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;

use crate::codec::{Codec, normalised};
use crate::sorted::{self, Tuple};

/// Rows with their weights: how many copies come (above zero) or go (below).
#[derive(Clone, Debug)]
pub struct Part {
    /// The rows.
    pub batch: RecordBatch,
    /// One for each row; no nulls.
    pub weights: Int64Array,
}

impl Part {
    /// Rows that come, one copy of each.
    #[must_use]
    pub fn inserts(batch: RecordBatch) -> Self {
        let weights = Int64Array::from_value(1, batch.num_rows());
        Self { batch, weights }
    }

    /// The columns at `places`.
    #[must_use]
    pub fn columns(&self, places: &[usize]) -> Vec<ArrayRef> {
        places.iter().map(|at| Arc::clone(self.batch.column(*at))).collect()
    }

    /// The rows at `places`.
    ///
    /// # Panics
    /// When there is no row at one of them.
    #[must_use]
    pub fn taken(&self, places: &UInt32Array) -> Self {
        let taken = |column: &dyn Array| take(column, places, None).expect("places of rows");
        let columns = self.batch.columns().iter().map(|column| taken(column)).collect();
        let weights = taken(&self.weights).as_primitive::<Int64Type>().clone();
        Self { batch: batch(&self.batch.schema(), columns, places.len()), weights }
    }

    /// The same rows with other columns.
    #[must_use]
    pub fn with_columns(&self, schema: &SchemaRef, columns: Vec<ArrayRef>) -> Self {
        Self { batch: batch(schema, columns, self.weights.len()), weights: self.weights.clone() }
    }
}

/// A change of a relation. The order of rows means nothing; the same row may stand in it many times.
#[derive(Clone, Debug, Default)]
pub struct Delta(pub Vec<Part>);

impl Delta {
    /// How many rows it names.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.0.iter().map(|part| part.weights.len()).sum()
    }

    /// The same rows, going where they came.
    ///
    /// # Panics
    /// When a weight is the smallest number there is, which none can reach.
    #[must_use]
    pub fn negated(&self) -> Self {
        let negate = |part: &Part| Part {
            batch: part.batch.clone(),
            weights: part.weights.unary(|weight: i64| weight.checked_neg().expect("a weight that can be negated")),
        };
        Self(self.0.iter().map(negate).collect())
    }

    /// Each row once, with its weight in sum; rows whose weights cancel are gone. In the order of the rows'
    /// bytes.
    ///
    /// # Panics
    /// When a sum of weights passes 63 bits.
    #[must_use]
    pub fn consolidated(&self, codec: &Codec, schema: &SchemaRef) -> Part {
        let whole = self.normalised(schema);
        let rows = codec.encoded(whole.batch.columns());
        let weighted = whole.weights.values().iter().enumerate();
        let tuples: Vec<Tuple<'_>> = weighted.map(|(at, weight)| (rows.row(at), &[][..], *weight)).collect();
        let (mut places, mut weights) = (Vec::new(), Vec::new());
        sorted::summed(&tuples, |at, (_, _, weight)| {
            places.push(at);
            weights.push(weight);
        });
        Part { weights: weights.into(), ..whole.taken(&places.into()) }
    }

    /// All parts as one, equal values with equal bytes.
    #[must_use]
    pub fn normalised(&self, schema: &SchemaRef) -> Part {
        let whole = self.one_part(schema);
        let columns = whole.batch.columns().iter().map(normalised).collect();
        Part { batch: batch(schema, columns, whole.weights.len()), weights: whole.weights }
    }

    /// All parts as one.
    #[must_use]
    pub fn one_part(&self, schema: &SchemaRef) -> Part {
        if let [only] = self.0.as_slice() {
            return only.with_columns(schema, only.batch.columns().to_vec());
        }
        let batches = self.0.iter().map(|part| &part.batch);
        let rows = concat_batches(schema, batches).expect("parts of one schema");
        let weights: Vec<i64> = self.0.iter().flat_map(|part| part.weights.values().iter().copied()).collect();
        Part { batch: rows, weights: weights.into() }
    }
}

/// A batch of `rows` rows, with or without columns.
///
/// # Panics
/// When the columns are not of the schema.
#[must_use]
pub fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows)).with_match_field_names(false);
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).expect("columns of the schema")
}

/// The schema of a stream inside of a circuit: every column may be null, and names may repeat.
#[must_use]
pub fn loose_schema<'a>(columns: impl IntoIterator<Item = (&'a str, &'a DataType)>) -> SchemaRef {
    let fields = columns.into_iter().map(|(name, kind)| Field::new(name, kind.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
