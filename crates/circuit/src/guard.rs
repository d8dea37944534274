//! Shapes that DataFusion plans wrongly: planned around here, or refused by name.
//!
//! Each is a case of `tests/sql`. A shape goes from this file once DataFusion's own answer to it is right.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit};
use datafusion::sql::sqlparser::ast::{self, Visit, Visitor};

use crate::expr::plain;
use crate::refused::Refused;

/// Refuses what is lost once the query is a plan.
///
/// # Errors
/// For `INTERSECT ALL`, `EXCEPT ALL`, and a full join whose columns `USING` merges.
pub fn query(query: &ast::Query) -> Result<(), Refused> {
    match query.visit(&mut Shapes) {
        ControlFlow::Break(refused) => Err(refused),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Shapes;

impl Visitor for Shapes {
    type Break = Refused;

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<Refused> {
        body(&query.body)
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Refused> {
        match expr {
            ast::Expr::Subquery(query) | ast::Expr::Exists { subquery: query, .. } => body(&query.body),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn body(body: &ast::SetExpr) -> ControlFlow<Refused> {
    match body {
        ast::SetExpr::SetOperation { op, set_quantifier, left, right } => {
            let all = matches!(set_quantifier, ast::SetQuantifier::All | ast::SetQuantifier::AllByName);
            if all && matches!(op, ast::SetOperator::Intersect | ast::SetOperator::Except | ast::SetOperator::Minus) {
                return ControlFlow::Break(
                    Refused::new(format!("{op} ALL is not supported: the number of copies would be wrong"))
                        .hint(format!("write {op} where each row may stand once")),
                );
            }
            self::body(left)?;
            self::body(right)
        }
        ast::SetExpr::Query(query) => self::body(&query.body),
        ast::SetExpr::Select(select) => select.from.iter().try_for_each(|from| from.joins.iter().try_for_each(join)),
        _ => ControlFlow::Continue(()),
    }
}

fn join(join: &ast::Join) -> ControlFlow<Refused> {
    let ast::JoinOperator::FullOuter(constraint) = &join.join_operator else { return ControlFlow::Continue(()) };
    match constraint {
        ast::JoinConstraint::Using(_) | ast::JoinConstraint::Natural => ControlFlow::Break(
            Refused::new("FULL JOIN with USING or NATURAL is not supported: the merged column would be NULL where only the right side has it")
                .hint("write ON a.k = b.k and COALESCE(a.k, b.k) AS k"),
        ),
        _ => ControlFlow::Continue(()),
    }
}

/// The same plan, without the subqueries that would be decorrelated wrongly.
///
/// # Errors
/// For those that no right form is known of.
pub fn plan(plan: LogicalPlan) -> Result<LogicalPlan, Refused> {
    let mut refused = None;
    let result = plan.transform_up_with_subqueries(|node| {
        let filter = matches!(node, LogicalPlan::Filter(_));
        node.map_expressions(|expr| match rewritten(expr, filter) {
            Ok(expr) => Ok(expr),
            Err(why) => {
                refused = Some(why);
                Err(DataFusionError::Plan("refused".to_owned()))
            }
        })
    });
    match (result.data(), refused) {
        (Ok(plan), None) => Ok(plan),
        (_, Some(why)) => Err(why),
        (Err(error), None) => Err(Refused::new(plain(&error))),
    }
}

/// The same expression of a node, its subqueries in forms that are decorrelated rightly.
fn rewritten(expr: Expr, of_filter: bool) -> Result<Transformed<Expr>, Refused> {
    let mut refused = None;
    let mut refuse = |why: Refused| {
        refused = Some(why);
        DataFusionError::Plan("refused".to_owned())
    };
    let inward = expr.transform_down(negation_inward).map_err(|error| Refused::new(plain(&error)))?;
    if has_null_where_false(&inward.data, of_filter) {
        return Err(Refused::new("IN (subquery) in a place where its NULL differs from false")
            .hint("use it in WHERE, alone or joined by AND and OR; or write EXISTS"));
    }
    let moved = inward.transformed;
    let result = inward.data.transform_up(|expr| match expr {
        Expr::InSubquery(inside) => not_in(inside).map_err(&mut refuse),
        Expr::Exists(exists) => existing(exists).map_err(&mut refuse),
        Expr::ScalarSubquery(subquery) => {
            scalar(&subquery).map_err(&mut refuse).map(|()| Transformed::no(Expr::ScalarSubquery(subquery)))
        }
        other => Ok(Transformed::no(other)),
    });
    match (result, refused) {
        (Ok(mut expr), None) => {
            expr.transformed |= moved;
            Ok(expr)
        }
        (_, Some(why)) => Err(why),
        (Err(error), None) => Err(Refused::new(plain(&error))),
    }
}

/// `NOT` moved inward to the subqueries, where it is a part of them: a `NOT` around what took NULL for false would make
/// true of NULL.
fn negation_inward(expr: Expr) -> Result<Transformed<Expr>, DataFusionError> {
    let Expr::Not(inner) = expr else { return Ok(Transformed::no(expr)) };
    if !inner.exists(|part| Ok(matches!(part, Expr::InSubquery(_) | Expr::Exists(_))))? {
        return Ok(Transformed::no(Expr::Not(inner)));
    }
    Ok(match *inner {
        // What comes out may be a NOT once more.
        Expr::Not(inner) => Transformed::yes(negation_inward(*inner)?.data),
        Expr::InSubquery(inside) => {
            Transformed::yes(Expr::InSubquery(InSubquery { negated: !inside.negated, ..inside }))
        }
        Expr::Exists(exists) => Transformed::yes(Expr::Exists(Exists { negated: !exists.negated, ..exists })),
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => {
            let op = if binary.op == Operator::And { Operator::Or } else { Operator::And };
            let (left, right) = (Expr::Not(binary.left), Expr::Not(binary.right));
            let binary = datafusion::logical_expr::BinaryExpr::new(Box::new(left), op, Box::new(right));
            Transformed::yes(Expr::BinaryExpr(binary))
        }
        other => Transformed::no(Expr::Not(Box::new(other))),
    })
}

/// `x NOT IN (q)` is `NOT EXISTS (a row of q that x equals, or that is NULL, or any row at all if x is NULL)`.
fn not_in(inside: InSubquery) -> Result<Transformed<Expr>, Refused> {
    bounded(&inside.subquery)?;
    if !inside.negated {
        return Ok(Transformed::no(Expr::InSubquery(inside)));
    }
    let refused = |error: DataFusionError| Refused::new(plain(&error));
    let InSubquery { expr, subquery, .. } = inside;
    let mut outer = subquery.outer_ref_columns.clone();
    let schema_less = |_: &Column| true;
    let expr = expr.transform_up(|expr| match expr {
        Expr::Column(column) if schema_less(&column) => {
            let field = arrow_schema::Field::new(column.name.clone(), arrow_schema::DataType::Null, true);
            let reference = Expr::OuterReferenceColumn(std::sync::Arc::new(field), column);
            outer.push(reference.clone());
            Ok(Transformed::yes(reference))
        }
        other => Ok(Transformed::no(other)),
    });
    let expr = expr.map_err(refused)?.data;
    let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
    let inner = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    let equal = Expr::BinaryExpr(datafusion::logical_expr::BinaryExpr::new(
        Box::new(inner.clone()),
        Operator::Eq,
        Box::new(expr.clone()),
    ));
    let known = matches!(&expr, Expr::Literal(value, _) if !value.is_null());
    let condition = equal.or(inner.is_null());
    let condition = if known { condition } else { condition.or(expr.is_null()) };
    let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()).filter(condition);
    let plan = plan.and_then(LogicalPlanBuilder::build).map_err(refused)?;
    let subquery = Subquery { subquery: std::sync::Arc::new(plan), outer_ref_columns: outer, ..subquery };
    Ok(Transformed::yes(Expr::Exists(Exists { subquery, negated: true })))
}

/// An aggregate without groups has a row always, so it exists.
fn existing(exists: Exists) -> Result<Transformed<Expr>, Refused> {
    if always_a_row(&exists.subquery.subquery) {
        return Ok(Transformed::yes(lit(!exists.negated)));
    }
    bounded(&exists.subquery)?;
    Ok(Transformed::no(Expr::Exists(exists)))
}

fn always_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => always_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => always_a_row(&alias.input),
        LogicalPlan::Sort(sort) => always_a_row(&sort.input),
        _ => false,
    }
}

/// A bound on the rows of a correlated subquery is lost when it becomes a join.
fn bounded(subquery: &Subquery) -> Result<(), Refused> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(());
    }
    let mut limited = false;
    let _ = subquery.subquery.apply(|node| {
        limited |= matches!(node, LogicalPlan::Limit(_));
        Ok(TreeNodeRecursion::Continue)
    });
    if limited {
        return Err(Refused::new("LIMIT or OFFSET in a subquery that depends on the row outside")
            .hint("EXISTS needs no LIMIT; to take the first row of each, join a ROW_NUMBER() = 1"));
    }
    named_once(&subquery.subquery)
}

/// A column that ties a subquery to the row outside is found again by its name alone, among those that come out of it.
fn named_once(subquery: &LogicalPlan) -> Result<(), Refused> {
    let mut tied: Vec<Column> = Vec::new();
    let _ = subquery.apply(|node| {
        for expr in node.expressions().iter().filter(|expr| expr.contains_outer()) {
            tied.extend(expr.column_refs().into_iter().cloned());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let clash = |column: &&Column| {
        let mut out = subquery.schema().iter();
        out.any(|(qualifier, field)| *field.name() == column.name && qualifier != column.relation.as_ref())
    };
    match tied.iter().find(clash) {
        Some(column) => Err(Refused::new(format!(
            "a subquery with a column {} that depends on the row outside by another one of this name, {column}",
            column.name
        ))
        .hint("give the one in its SELECT list another name, by AS")),
        None => Ok(()),
    }
}

/// A subquery that stands for a value has one row at most, whatever comes in.
fn scalar(subquery: &Subquery) -> Result<(), Refused> {
    bounded(subquery)?;
    if subquery.outer_ref_columns.is_empty() && subquery.subquery.max_rows().is_none_or(|rows| rows > 1) {
        return Err(Refused::new("a subquery that stands for one value, and may have many rows")
            .hint("aggregate it, as by MAX, or add ORDER BY with LIMIT 1"));
    }
    Ok(())
}

/// Whether an `IN (subquery)` stands where NULL is not taken for false, as a join's mark takes it.
fn has_null_where_false(expr: &Expr, as_condition: bool) -> bool {
    match expr {
        Expr::InSubquery(inside) => !as_condition || has_null_where_false(&inside.expr, false),
        Expr::BinaryExpr(binary) if as_condition && matches!(binary.op, Operator::And | Operator::Or) => {
            has_null_where_false(&binary.left, true) || has_null_where_false(&binary.right, true)
        }
        other => {
            let mut found = false;
            let _ = other.apply(|part| {
                found |= matches!(part, Expr::InSubquery(_));
                Ok(TreeNodeRecursion::Continue)
            });
            found
        }
    }
}
