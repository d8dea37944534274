//! Rows that stand in the query itself: `VALUES`, a `SELECT` without `FROM`. State: none; the row they hang on comes
//! in the first step of all and never again.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::logical_expr::LogicalPlan;

use super::project::Project;
use super::union::Union;
use crate::builder::{Builder, Deltas};
use crate::delta::loose_schema;
use crate::expr::Expression;
use crate::plan::{Columns, NodeId, Operator, Planner};
use crate::refused::Refused;

/// Takes `VALUES` and the relation without columns.
pub fn lower(plan: &LogicalPlan, planner: &mut Planner) -> Option<Result<NodeId, Refused>> {
    match plan {
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => Some(Ok(planner.unit())),
        LogicalPlan::EmptyRelation(empty) => {
            let fields = empty.schema.fields().iter();
            let schema = loose_schema(fields.map(|field| (field.name().as_str(), field.data_type())));
            Some(Ok(planner.add(Union, vec![], schema)))
        }
        LogicalPlan::Values(values) => Some(rows(values, planner)),
        _ => None,
    }
}

fn rows(values: &datafusion::logical_expr::Values, planner: &mut Planner) -> Result<NodeId, Refused> {
    let fields = values.schema.fields().iter();
    let schema = loose_schema(fields.map(|field| (field.name().as_str(), field.data_type())));
    let unit = planner.unit();
    let mut inputs = Vec::new();
    for row in &values.values {
        let columns: Result<Vec<_>, _> = row.iter().map(|expr| Expression::new(expr, &DFSchema::empty())).collect();
        inputs.push(planner.add(Project::new(columns?, schema.clone()), vec![unit], schema.clone()));
    }
    Ok(planner.add(Union, inputs, schema))
}

/// One row without columns.
#[derive(Debug)]
pub struct Unit;

impl Operator for Unit {
    fn describe(&self) -> String {
        "Unit".to_owned()
    }

    fn only_grows(&self, _: &[bool]) -> bool {
        true
    }

    fn unique(&self, _: &[&[Columns]]) -> Vec<Columns> {
        vec![Vec::new()]
    }

    fn build(&self, builder: &Builder, _: &[Deltas]) -> Deltas {
        builder.unit.clone()
    }
}

/// So that the row's batch has a schema, though it has no column.
#[must_use]
pub fn one_row() -> crate::delta::Part {
    crate::delta::Part::inserts(crate::delta::batch(&Arc::new(arrow_schema::Schema::empty()), vec![], 1))
}
