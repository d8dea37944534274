//! `DISTINCT`: each row once, however many copies there are. State: every distinct row with its number of copies.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::logical_expr::{Distinct as Logical, LogicalPlan};
use dbsp::OrdZSet;

use crate::builder::{Builder, Deltas, Kind, Rows};
use crate::codec::Codec;
use crate::delta::{Delta, Part, batch};
use crate::plan::{Columns, NodeId, Operator, Planner, State};
use crate::read;
use crate::refused::Refused;
use crate::row::Row;
use crate::sorted;

/// Takes `SELECT DISTINCT`, and what `UNION`, `INTERSECT` and `EXCEPT` need of it.
pub fn lower(plan: &LogicalPlan, planner: &mut Planner) -> Option<Result<NodeId, Refused>> {
    let LogicalPlan::Distinct(Logical::All(input)) = plan else { return None };
    Some(planner.lower(input).and_then(|input| {
        let schema = planner.schema(input).clone();
        Ok(planner.add(Distinct::new(schema.clone())?, vec![input], schema))
    }))
}

/// Each row once.
#[derive(Debug)]
pub struct Distinct {
    codec: Arc<Codec>,
    schema: SchemaRef,
}

impl Distinct {
    /// For rows of these columns.
    ///
    /// # Errors
    /// When a column can't be compared.
    pub fn new(schema: SchemaRef) -> Result<Self, Refused> {
        let codec = Codec::new(schema.fields().iter().map(|field| field.data_type()))?;
        Ok(Self { codec: Arc::new(codec), schema })
    }
}

impl Operator for Distinct {
    fn describe(&self) -> String {
        "Distinct".to_owned()
    }

    fn state(&self) -> Vec<State> {
        vec![State::unbounded("every distinct row")]
    }

    fn only_grows(&self, inputs: &[bool]) -> bool {
        inputs.iter().all(|grows| *grows)
    }

    fn unique(&self, inputs: &[&[Columns]]) -> Vec<Columns> {
        let whole = (0..self.schema.fields().len()).collect();
        inputs[0].iter().cloned().chain([whole]).collect()
    }

    fn build(&self, builder: &Builder, inputs: &[Deltas]) -> Deltas {
        let rows = rows(&inputs[0], &self.codec).set_persistent_id(builder.id(Kind::Rows, "in").as_deref());
        let once = rows.distinct().set_persistent_id(builder.id(Kind::Rows, "once").as_deref());
        deltas(&once, &self.codec, &self.schema)
    }
}

/// A change as a Z-set of whole rows.
pub(crate) fn rows(input: &Deltas, codec: &Arc<Codec>) -> Rows {
    let codec = Arc::clone(codec);
    input.apply_named("Rows", move |delta: &Delta| {
        let parts = delta.0.iter().map(|part| (codec.encoded(part.batch.columns()), part.weights.values()));
        let parts: Vec<_> = parts.collect();
        let tuples = parts.iter().flat_map(|(rows, weights)| {
            weights.iter().enumerate().map(|(row, weight)| (rows.row(row), &[][..], *weight))
        });
        sorted::rows(&tuples.collect::<Vec<_>>())
    })
}

/// A Z-set of whole rows as a change.
pub(crate) fn deltas(rows: &Rows, codec: &Arc<Codec>, schema: &SchemaRef) -> Deltas {
    let (codec, schema) = (Arc::clone(codec), schema.clone());
    rows.apply_named("Columns", move |rows: &OrdZSet<Row>| {
        let (rows, weights) = read::rows(rows);
        if weights.is_empty() {
            return Delta::default();
        }
        let columns = codec.decode(rows.iter());
        Delta(vec![Part { batch: batch(&schema, columns, weights.len()), weights: weights.into() }])
    })
}
