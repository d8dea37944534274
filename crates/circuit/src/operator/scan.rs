//! Reading a relation or another view. State: none.

use arrow_schema::DataType;
use datafusion::logical_expr::LogicalPlan;

use super::project::Project;
use crate::builder::{Builder, Deltas};
use crate::codec::normalised;
use crate::delta::{Delta, Part, loose_schema};
use crate::expr::Expression;
use crate::failure::Failures;
use crate::plan::{Columns, Linear, NodeId, Operator, Planner};
use crate::refused::Refused;

/// Takes the scan of a table, and a table's or subquery's other name.
pub fn lower(plan: &LogicalPlan, planner: &mut Planner) -> Option<Result<NodeId, Refused>> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => Some(planner.lower(&alias.input)),
        LogicalPlan::TableScan(scan) => {
            let name = scan.table_name.table();
            let Some(table) = planner.named(name) else {
                return Some(Err(Refused::new(format!("there is no source or view {name}"))));
            };
            assert!(scan.filters.is_empty() && scan.fetch.is_none(), "nothing is pushed into a scan");
            let Some(places) = &scan.projection else { return Some(Ok(table)) };
            let schema = planner.schema(table).clone();
            let columns = places.iter().map(|at| Expression::column(*at, schema.field(*at))).collect();
            let fields = places.iter().map(|at| schema.field(*at));
            let picked = loose_schema(fields.map(|field| (field.name().as_str(), field.data_type())));
            Some(Ok(planner.add(Project::new(columns, picked.clone()), vec![table], picked)))
        }
        _ => None,
    }
}

/// A relation from outside.
#[derive(Debug)]
pub struct Source {
    /// Its place among the plan's relations.
    pub at: usize,
    /// Its name.
    pub name: String,
    /// Whether rows only come.
    pub only_grows: bool,
    /// Places of the columns of its key.
    pub key: Option<Columns>,
    /// Whether it has floating-point numbers, whose zeros and NaNs are to be one each.
    pub floats: bool,
}

/// Whether values of this type are floating-point numbers, or hold some.
#[must_use]
pub fn has_floats(kind: &DataType) -> bool {
    match kind {
        DataType::List(item) => has_floats(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        kind => kind.is_floating(),
    }
}

impl Operator for Source {
    fn describe(&self) -> String {
        format!("Source {}", self.name)
    }

    fn only_grows(&self, _: &[bool]) -> bool {
        self.only_grows
    }

    fn unique(&self, _: &[&[Columns]]) -> Vec<Columns> {
        self.key.iter().cloned().collect()
    }

    fn build(&self, builder: &Builder, _: &[Deltas]) -> Deltas {
        let rows = builder.sources[self.at].clone();
        if !self.floats {
            return rows;
        }
        rows.apply_named("Floats", one_zero_and_nan)
    }

    fn relation(&self) -> Option<usize> {
        Some(self.at)
    }

    fn linear(&self) -> Option<&dyn Linear> {
        Some(self)
    }
}

impl Linear for Source {
    fn apply(&self, inputs: &[&Delta], _: &str, _: &Failures) -> Delta {
        if self.floats { one_zero_and_nan(inputs[0]) } else { inputs[0].clone() }
    }
}

fn one_zero_and_nan(delta: &Delta) -> Delta {
    let part = |part: &Part| {
        let columns = part.batch.columns().iter().map(normalised).collect();
        part.with_columns(&part.batch.schema(), columns)
    };
    Delta(delta.0.iter().map(part).collect())
}
