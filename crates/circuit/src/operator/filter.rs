//! Rows for which a condition is true. State: none.
//!
//! A row goes if any of the conditions joined by AND is false or NULL, whatever becomes of the others: so a guard
//! protects (`b <> 0 AND a / b > 1`), in whatever order the conditions stand. A row fails if none excludes it and one fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::builder::{Builder, Deltas};
use crate::delta::{Delta, Part};
use crate::evaluate::kept;
use crate::expr::Expression;
use crate::failure::Failures;
use crate::plan::{Columns, Linear, NodeId, Operator, Planner};
use crate::refused::Refused;

/// Takes `WHERE` and `HAVING`.
pub fn lower(plan: &LogicalPlan, planner: &mut Planner) -> Option<Result<NodeId, Refused>> {
    let LogicalPlan::Filter(filter) = plan else { return None };
    Some(planner.lower(&filter.input).and_then(|input| {
        let conditions = conditions(&filter.predicate, filter.input.schema())?;
        let schema = planner.schema(input).clone();
        Ok(planner.add(Filter::new(conditions), vec![input], schema))
    }))
}

/// The conditions of a predicate that AND joins.
///
/// # Errors
/// As [`Expression::new`].
pub fn conditions(predicate: &Expr, schema: &datafusion::common::DFSchema) -> Result<Vec<Expression>, Refused> {
    split_conjunction(predicate).into_iter().map(|condition| Expression::new(condition, schema)).collect()
}

/// Conditions, all of which must be true.
#[derive(Debug)]
pub struct Filter {
    conditions: Arc<Vec<Expression>>,
}

impl Filter {
    /// Keeps rows for which all of `conditions` are true.
    #[must_use]
    pub fn new(conditions: Vec<Expression>) -> Self {
        Self { conditions: Arc::new(conditions) }
    }
}

impl Operator for Filter {
    fn describe(&self) -> String {
        let conditions: Vec<&str> = self.conditions.iter().map(Expression::text).collect();
        format!("Filter {}", conditions.join(" AND "))
    }

    fn only_grows(&self, inputs: &[bool]) -> bool {
        inputs.iter().all(|grows| *grows)
    }

    fn unique(&self, inputs: &[&[Columns]]) -> Vec<Columns> {
        inputs[0].to_vec()
    }

    fn build(&self, builder: &Builder, inputs: &[Deltas]) -> Deltas {
        let conditions = Arc::clone(&self.conditions);
        let (name, failures) = (builder.name.clone(), builder.failures.clone());
        inputs[0].apply_named("Filter", move |delta: &Delta| filtered(delta, &conditions, &name, &failures))
    }

    fn linear(&self) -> Option<&dyn Linear> {
        Some(self)
    }
}

impl Linear for Filter {
    fn apply(&self, inputs: &[&Delta], name: &str, failures: &Failures) -> Delta {
        filtered(inputs[0], &self.conditions, name, failures)
    }
}

fn filtered(delta: &Delta, conditions: &[Expression], operator: &str, failures: &Failures) -> Delta {
    Delta(delta.0.iter().filter_map(|part| passing(part, conditions, operator, failures)).collect())
}

/// The rows of `part` for which all `conditions` are true; those that fail are noted.
pub(crate) fn passing(part: &Part, conditions: &[Expression], operator: &str, failures: &Failures) -> Option<Part> {
    let mut pass = BooleanBuffer::new_set(part.weights.len());
    let mut failed: BTreeMap<usize, String> = BTreeMap::new();
    for condition in conditions {
        let evaluated = condition.evaluate(&part.batch);
        let values = evaluated.values.as_boolean();
        let holds = values.nulls().map_or_else(|| values.values().clone(), |nulls| values.values() & nulls.inner());
        // A row that a condition fails for is out by another one, or noted.
        pass = &pass & &with(holds, evaluated.failed.iter().map(|(row, _)| *row), true);
        for (row, reason) in evaluated.failed {
            failed.entry(row).or_insert(reason);
        }
    }
    failed.retain(|row, _| pass.value(*row));
    let pass = with(pass, failed.keys().copied(), false);
    for (row, reason) in failed {
        failures.note(operator, reason, &part.batch, row, part.weights.value(row));
    }
    kept(part, &BooleanArray::new(pass, None))
}

/// The same bits but for those at `places`, which are `bit`.
fn with(bits: BooleanBuffer, mut places: impl Iterator<Item = usize>, bit: bool) -> BooleanBuffer {
    let Some(first) = places.next() else { return bits };
    let mut changed = BooleanBufferBuilder::new(bits.len());
    changed.append_buffer(&bits);
    std::iter::once(first).chain(places).for_each(|at| changed.set_bit(at, bit));
    changed.finish()
}
