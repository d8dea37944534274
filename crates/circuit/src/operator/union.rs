//! `UNION ALL`: the rows of all inputs. State: none.

use arrow_schema::SchemaRef;
use datafusion::logical_expr::LogicalPlan;

use super::project::Project;
use crate::builder::{Builder, Deltas};
use crate::delta::{Delta, loose_schema};
use crate::expr::Expression;
use crate::failure::Failures;
use crate::plan::{Linear, NodeId, Operator, Planner};
use crate::refused::Refused;

/// Takes `UNION ALL`; a `UNION` is a `DISTINCT` over one.
pub fn lower(plan: &LogicalPlan, planner: &mut Planner) -> Option<Result<NodeId, Refused>> {
    let LogicalPlan::Union(union) = plan else { return None };
    let fields = union.schema.fields().iter();
    let schema = loose_schema(fields.map(|field| (field.name().as_str(), field.data_type())));
    let mut inputs = Vec::new();
    for input in &union.inputs {
        match planner.lower(input) {
            Ok(input) => inputs.push(renamed(input, &schema, planner)),
            Err(refused) => return Some(Err(refused)),
        }
    }
    Some(Ok(planner.add(Union, inputs, schema)))
}

/// The same rows under the names and types of `schema`.
fn renamed(input: NodeId, schema: &SchemaRef, planner: &mut Planner) -> NodeId {
    if planner.schema(input) == schema {
        return input;
    }
    let columns = Expression::columns(planner.schema(input));
    planner.add(Project::new(columns, schema.clone()), vec![input], schema.clone())
}

/// All rows of all inputs.
#[derive(Debug)]
pub struct Union;

impl Operator for Union {
    fn describe(&self) -> String {
        "Union".to_owned()
    }

    fn only_grows(&self, inputs: &[bool]) -> bool {
        inputs.iter().all(|grows| *grows)
    }

    fn build(&self, builder: &Builder, inputs: &[Deltas]) -> Deltas {
        match inputs {
            [] => builder.unit.apply_named("Empty", |_: &Delta| Delta::default()),
            [first, others @ ..] => others.iter().fold(first.clone(), |all, other| sum(&all, other)),
        }
    }

    fn linear(&self) -> Option<&dyn Linear> {
        Some(self)
    }
}

impl Linear for Union {
    fn apply(&self, inputs: &[&Delta], _: &str, _: &Failures) -> Delta {
        Delta(inputs.iter().flat_map(|input| input.0.iter().cloned()).collect())
    }
}

/// The changes of both.
pub(crate) fn sum(left: &Deltas, right: &Deltas) -> Deltas {
    left.apply2(right, |left: &Delta, right: &Delta| Delta(left.0.iter().chain(&right.0).cloned().collect()))
}
