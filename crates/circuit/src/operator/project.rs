//! Columns made of a row's columns. State: none.

use std::sync::Arc;

use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::SchemaRef;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::builder::{Builder, Deltas};
use crate::delta::{Delta, loose_schema};
use crate::evaluate;
use crate::expr::Expression;
use crate::failure::Failures;
use crate::plan::{Columns, Linear, NodeId, Operator, Planner};
use crate::refused::Refused;

/// Takes a `SELECT` list.
pub fn lower(plan: &LogicalPlan, planner: &mut Planner) -> Option<Result<NodeId, Refused>> {
    let LogicalPlan::Projection(projection) = plan else { return None };
    Some(project(projection, planner))
}

fn project(projection: &datafusion::logical_expr::Projection, planner: &mut Planner) -> Result<NodeId, Refused> {
    let input = planner.lower(&projection.input)?;
    selected(planner, input, projection.input.schema(), &projection.expr, &projection.schema)
}

/// The values of `exprs` for each row of `input`, whose columns are those of `schema`, as the columns of `out`.
///
/// # Errors
/// As [`Expression::new`].
pub fn selected(
    planner: &mut Planner,
    input: NodeId,
    schema: &DFSchema,
    exprs: &[Expr],
    out: &DFSchema,
) -> Result<NodeId, Refused> {
    let columns = exprs.iter().map(|expr| Expression::new(expr, schema)).collect::<Result<Vec<_>, _>>()?;
    let fields = out.fields().iter();
    let schema = loose_schema(fields.map(|field| (field.name().as_str(), field.data_type())));
    Ok(planner.add(Project::new(columns, schema.clone()), vec![input], schema))
}

/// The rows of `input` with the values of `exprs` behind their columns: the node, and where each value stands. A row that
/// one of them fails for is left out there. Columns of the input stand where they stood.
///
/// # Errors
/// As [`Expression::new`].
pub fn extended(
    planner: &mut Planner,
    input: NodeId,
    schema: &DFSchema,
    exprs: &[&Expr],
) -> Result<(NodeId, Vec<usize>), Refused> {
    let mut columns = Expression::columns(planner.schema(input));
    let had = columns.len();
    let mut places = Vec::with_capacity(exprs.len());
    for expr in exprs {
        if let Expr::Column(column) = expr {
            let at = schema.index_of_column(column).map_err(|error| Refused::new(error.strip_backtrace()))?;
            places.push(at);
        } else {
            places.push(columns.len());
            columns.push(Expression::new(expr, schema)?);
        }
    }
    if columns.len() == had {
        return Ok((input, places));
    }
    let schema = loose_schema(columns.iter().map(|column| (column.text(), column.kind())));
    Ok((planner.add(Project::new(columns, schema.clone()), vec![input], schema), places))
}

/// The expressions of a `SELECT` list.
#[derive(Debug)]
pub struct Project {
    columns: Arc<Vec<Expression>>,
    schema: SchemaRef,
}

impl Project {
    /// One expression for each column of `schema`.
    #[must_use]
    pub fn new(columns: Vec<Expression>, schema: SchemaRef) -> Self {
        Self { columns: Arc::new(columns), schema }
    }
}

impl Operator for Project {
    fn describe(&self) -> String {
        let columns: Vec<&str> = self.columns.iter().map(Expression::text).collect();
        format!("Project {}", columns.join(", "))
    }

    fn only_grows(&self, inputs: &[bool]) -> bool {
        inputs.iter().all(|grows| *grows)
    }

    fn unique(&self, inputs: &[&[Columns]]) -> Vec<Columns> {
        let moved = |at: &usize| self.columns.iter().position(|column| column.place() == Some(*at));
        inputs[0].iter().filter_map(|set| set.iter().map(moved).collect()).collect()
    }

    fn build(&self, builder: &Builder, inputs: &[Deltas]) -> Deltas {
        let (columns, schema) = (Arc::clone(&self.columns), self.schema.clone());
        let (name, failures) = (builder.name.clone(), builder.failures.clone());
        inputs[0].apply_named("Project", move |delta: &Delta| projected(delta, &columns, &schema, &name, &failures))
    }

    fn linear(&self) -> Option<&dyn Linear> {
        Some(self)
    }
}

impl Linear for Project {
    fn apply(&self, inputs: &[&Delta], name: &str, failures: &Failures) -> Delta {
        projected(inputs[0], &self.columns, &self.schema, name, failures)
    }
}

fn projected(delta: &Delta, columns: &[Expression], schema: &SchemaRef, operator: &str, failures: &Failures) -> Delta {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let parts = delta.0.iter().filter_map(|part| {
        let made = evaluate::columns(part, columns, operator, failures)?;
        // A declared type may be wider than the expression's own.
        let typed = made.columns.iter().zip(schema.fields()).map(|(column, field)| {
            cast_with_options(column, field.data_type(), &strict).expect("a type that DataFusion says fits")
        });
        Some(made.part.with_columns(schema, typed.collect()))
    });
    Delta(parts.collect())
}
