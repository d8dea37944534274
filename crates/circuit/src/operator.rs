//! The operators of a circuit. One file each: what it lowers, its plan node, what it keeps, how it is built, its cases.
//!
//! A new one is a file and a line in [`REGISTRY`].

use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::plan::{NodeId, Planner};
use crate::refused::Refused;

pub mod aggregate;
pub mod distinct;
pub mod filter;
pub mod join;
pub mod project;
pub mod scan;
pub mod topk;
pub mod union;
pub mod unit;

/// Takes a node of a logical plan, if it is one of its own.
pub type Lower = fn(&LogicalPlan, &mut Planner) -> Option<Result<NodeId, Refused>>;

/// Asked in this order: what takes a shape of several nodes stands before what takes its first one.
pub const REGISTRY: &[Lower] = &[
    scan::lower,
    topk::lower,
    filter::lower,
    project::lower,
    join::lower,
    aggregate::lower,
    distinct::lower,
    union::lower,
    unit::lower,
];

/// What to say of a node that no operator takes.
#[must_use]
pub fn unsupported(plan: &LogicalPlan) -> Refused {
    match plan {
        LogicalPlan::Limit(_) => {
            Refused::new("LIMIT without ORDER BY: which rows it keeps is not defined").hint("add an ORDER BY")
        }
        LogicalPlan::Window(window) => {
            let names: Vec<String> = window.window_expr.iter().map(window_name).collect();
            Refused::new(format!("window function {} over all rows", names.join(", "))).hint(
                "ROW_NUMBER, RANK and DENSE_RANK are supported where the query keeps the first k, as in WHERE rn <= 3",
            )
        }
        LogicalPlan::Unnest(_) => Refused::new("UNNEST is not supported yet"),
        LogicalPlan::RecursiveQuery(_) => Refused::new("WITH RECURSIVE is not supported yet"),
        other => {
            let text = other.display().to_string();
            Refused::new(format!("{} is not supported", text.split([':', ' ']).next().unwrap_or(&text)))
        }
    }
}

fn window_name(expr: &Expr) -> String {
    match expr {
        Expr::WindowFunction(call) => call.fun.name().to_uppercase(),
        Expr::Alias(alias) => window_name(&alias.expr),
        other => other.to_string(),
    }
}
