//! The first rows of each group: `ROW_NUMBER`, `RANK` or `DENSE_RANK` with a bound on it, `ORDER BY` with `LIMIT`,
//! `DISTINCT ON`. State: every row, by group and in order, of which only the first ones are read; where rows only come
//! and each has a number of its own, the first ones alone.
//!
//! Rows that the order leaves equal are told apart by their other columns, so that which ones are kept depends on the
//! rows alone. Copies of a row have numbers of their own, and the same rank.

use std::sync::Arc;

use arrow_array::UInt64Array;
use arrow_schema::{DataType, SchemaRef, SortOptions};
use datafusion::common::DFSchema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Filter as LogicalFilter, Limit, LogicalPlan, Operator as Comparison, SkipType, Sort,
    SortExpr, Window,
};
use dbsp::OrdIndexedZSet;

use super::filter::{Filter, conditions};
use super::project::{extended, selected};
use crate::builder::{Builder, Deltas, Indexed, Kind};
use crate::codec::Codec;
use crate::delta::{Delta, Part, batch, loose_schema};
use crate::plan::{Columns, NodeId, Operator, Planner, State};
use crate::read;
use crate::refused::Refused;
use crate::row::Row;
use crate::top::{Numbering, Top};

mod candidates;

use self::candidates::{Candidate, all_of, first_of, leading};

/// Takes the shapes that keep the first rows, and an `ORDER BY` that keeps all, which means nothing in a view.
pub fn lower(plan: &LogicalPlan, planner: &mut Planner) -> Option<Result<NodeId, Refused>> {
    match plan {
        LogicalPlan::Filter(filter) => match filter.input.as_ref() {
            LogicalPlan::Window(window) => Some(ranked(filter, window, planner)),
            _ => None,
        },
        LogicalPlan::Limit(limit) => limited(limit, &limit.input, planner),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => Some(planner.lower(&sort.input)),
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let order = on.sort_expr.clone().unwrap_or_default();
            let first = |planner: &mut Planner| {
                let input = planner.lower(&on.input)?;
                let groups: Vec<&Expr> = on.on_expr.iter().collect();
                // DISTINCT ON's order starts with its own columns.
                let top = Top { numbering: Numbering::RowNumber, first: 1, last: 1 };
                let node = top_k(planner, input, on.input.schema(), &groups, &order, top, false)?;
                selected(planner, node, on.input.schema(), &on.select_expr, &on.schema)
            };
            Some(first(planner))
        }
        _ => None,
    }
}

/// `WHERE rn <= k` over one ranking.
fn ranked(filter: &LogicalFilter, window: &Window, planner: &mut Planner) -> Result<NodeId, Refused> {
    let whole = LogicalPlan::Window(window.clone());
    let [expr] = window.window_expr.as_slice() else { return Err(super::unsupported(&whole)) };
    let Expr::WindowFunction(call) = expr.clone().unalias() else { return Err(super::unsupported(&whole)) };
    let numbering = match call.fun.name() {
        "row_number" => Numbering::RowNumber,
        "rank" => Numbering::Rank,
        "dense_rank" => Numbering::DenseRank,
        _ => return Err(super::unsupported(&whole)),
    };
    let number = window.schema.field(window.schema.fields().len() - 1).name();
    let (mut last, mut others) = (None::<i64>, Vec::new());
    for condition in split_conjunction(&filter.predicate) {
        // `rn <= 2` is said by the bound; `rn = 2` and `rn BETWEEN 2 AND 3` say more.
        let bound = bound(condition, number);
        let all_said = matches!(condition, Expr::BinaryExpr(binary) if binary.op != Comparison::Eq);
        if !(all_said && bound.is_some()) {
            others.push(condition.clone());
        }
        last = bound.into_iter().chain(last).min();
    }
    let Some(last) = last else { return Err(super::unsupported(&whole)) };
    let input = planner.lower(&window.input)?;
    let groups: Vec<&Expr> = call.params.partition_by.iter().collect();
    let top = Top { numbering, first: 1, last };
    let node = top_k(planner, input, window.input.schema(), &groups, &call.params.order_by, top, true)?;
    let Some(others) = conjunction(others) else { return Ok(node) };
    let schema = planner.schema(node).clone();
    Ok(planner.add(Filter::new(conditions(&others, &window.schema)?), vec![node], schema))
}

/// The greatest number that a condition lets through: `rn <= k`, `rn < k`, `rn = k`, the other way round, or
/// `rn BETWEEN j AND k`.
fn bound(condition: &Expr, number: &str) -> Option<i64> {
    let is_number = |expr: &Expr| match expr {
        Expr::Column(column) => column.name == number,
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Column(column) if column.name == number),
        _ => false,
    };
    let binary = match condition {
        Expr::Between(between) if !between.negated && is_number(&between.expr) => {
            return literal(&between.high).map(|(whole, _)| whole);
        }
        Expr::BinaryExpr(binary) => binary,
        _ => return None,
    };
    let (bound, op) = if is_number(&binary.left) {
        (&binary.right, binary.op)
    } else if is_number(&binary.right) {
        (&binary.left, binary.op.swap()?)
    } else {
        return None;
    };
    let (whole, fraction) = literal(bound)?;
    match op {
        Comparison::Lt if !fraction => whole.checked_sub(1),
        Comparison::Lt | Comparison::LtEq | Comparison::Eq => Some(whole),
        _ => None,
    }
}

/// A number written in the query, through the casts that its comparison put around it: its whole part, and whether it
/// has a fraction.
fn literal(expr: &Expr) -> Option<(i64, bool)> {
    match expr {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64).ok()? {
            whole @ ScalarValue::Int64(Some(number)) => {
                Some((number, whole.cast_to(&value.data_type()).ok()? != *value))
            }
            _ => None,
        },
        Expr::Cast(cast) => literal(&cast.expr),
        _ => None,
    }
}

/// `LIMIT` over an `ORDER BY`, with the projections between them.
fn limited(limit: &Limit, input: &LogicalPlan, planner: &mut Planner) -> Option<Result<NodeId, Refused>> {
    match input {
        LogicalPlan::Sort(sort) => Some(sorted(limit, sort, planner)),
        LogicalPlan::SubqueryAlias(alias) => limited(limit, &alias.input, planner),
        LogicalPlan::Projection(projection) => {
            let node = limited(limit, &projection.input, planner)?;
            let project =
                |node: NodeId| selected(planner, node, projection.input.schema(), &projection.expr, &projection.schema);
            Some(node.and_then(project))
        }
        _ => None,
    }
}

fn sorted(limit: &Limit, sort: &Sort, planner: &mut Planner) -> Result<NodeId, Refused> {
    let plain = |error: datafusion::common::DataFusionError| Refused::new(error.strip_backtrace());
    let SkipType::Literal(skip) = limit.get_skip_type().map_err(plain)? else {
        return Err(Refused::new("an OFFSET that is no number"));
    };
    let FetchType::Literal(fetch) = limit.get_fetch_type().map_err(plain)? else {
        return Err(Refused::new("a LIMIT that is no number"));
    };
    let Some(fetch) = fetch else {
        return Err(Refused::new("OFFSET without LIMIT: it would keep all rows in order").hint("add a LIMIT"));
    };
    let number = |count: usize| i64::try_from(count).map_err(|_| Refused::new("a LIMIT beyond 63 bits"));
    let (skip, fetch) = (number(skip)?, number(fetch)?);
    let last = skip.checked_add(fetch).ok_or_else(|| Refused::new("a LIMIT beyond 63 bits"))?;
    let input = planner.lower(&sort.input)?;
    let top = Top { numbering: Numbering::RowNumber, first: skip + 1, last };
    top_k(planner, input, sort.input.schema(), &[], &sort.expr, top, false)
}

/// Adds the operator over `input`, whose columns are those of `schema`; with the number as a last column, if asked.
fn top_k(
    planner: &mut Planner,
    input: NodeId,
    schema: &DFSchema,
    groups: &[&Expr],
    order: &[SortExpr],
    top: Top,
    numbered: bool,
) -> Result<NodeId, Refused> {
    let out = planner.schema(input).clone();
    let exprs: Vec<&Expr> = groups.iter().copied().chain(order.iter().map(|sort| &sort.expr)).collect();
    let (input, places) = extended(planner, input, schema, &exprs)?;
    let (groups, order_places) = places.split_at(groups.len());
    let columns = planner.schema(input).clone();
    let kind = |at: &usize| columns.field(*at).data_type();
    let options = |sort: &SortExpr| SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first };
    let group_codec = Arc::new(Codec::new(groups.iter().map(kind))?);
    let order_kinds = order_places.iter().zip(order).map(|(at, sort)| (kind(at).clone(), options(sort)));
    let order_codec = Arc::new(Codec::sorted(order_kinds)?);
    let codec = Arc::new(Codec::new(out.fields().iter().map(|field| field.data_type()))?);
    let number = ("number", &DataType::UInt64);
    let fields = out.fields().iter().map(|field| (field.name().as_str(), field.data_type()));
    let schema = loose_schema(fields.chain(numbered.then_some(number)));
    let by = order.iter().map(ToString::to_string).collect();
    let operator = TopK {
        merges: top.numbering == Numbering::RowNumber && planner.grows(input),
        groups: groups.to_vec(),
        order: order_places.to_vec(),
        by,
        top,
        numbered,
        codecs: Codecs { group: group_codec, order: order_codec, row: codec },
        columns: out.fields().len(),
        schema: schema.clone(),
    };
    Ok(planner.add(operator, vec![input], schema))
}

/// The first rows of each group.
#[derive(Debug)]
pub struct TopK {
    groups: Vec<usize>,
    order: Vec<usize>,
    /// The order, in SQL's words.
    by: Vec<String>,
    top: Top,
    numbered: bool,
    /// Whether the first rows so far and those of a change are enough to tell the first ones: rows only come, and no two
    /// have one number.
    merges: bool,
    codecs: Codecs,
    /// How many of the input's columns come out.
    columns: usize,
    schema: SchemaRef,
}

#[derive(Clone, Debug)]
struct Codecs {
    group: Arc<Codec>,
    order: Arc<Codec>,
    row: Arc<Codec>,
}

impl Operator for TopK {
    fn describe(&self) -> String {
        let Top { numbering, first, last } = self.top;
        let groups = &self.groups;
        // What is kept depends on it.
        let merges = if self.merges { ", of rows that only come" } else { "" };
        format!("TopK {numbering:?} {first} to {last} of each {groups:?} by {}{merges}", self.by.join(", "))
    }

    fn state(&self) -> Vec<State> {
        let last = self.top.last;
        vec![match (self.merges, self.groups.is_empty()) {
            (false, _) => State::unbounded("every row, by group and in order"),
            (true, false) => State::unbounded(format!("up to {last} rows of each group")),
            (true, true) => State::bounded(format!("up to {last} rows"), "there is one group"),
        }]
    }

    /// Those of the input's rows that stay; and the group, where one row of it does.
    fn unique(&self, inputs: &[&[Columns]]) -> Vec<Columns> {
        let mut unique = inputs[0].to_vec();
        if self.top.numbering == Numbering::RowNumber && self.top.first == self.top.last {
            unique.push(self.groups.clone());
        }
        unique.retain(|set| set.iter().all(|at| *at < self.columns));
        unique
    }

    fn build(&self, builder: &Builder, inputs: &[Deltas]) -> Deltas {
        let first = builder.id(Kind::Indexed, "first");
        let (codecs, groups, order) = (self.codecs.clone(), self.groups.clone(), self.order.clone());
        let (columns, top, merges) = (self.columns, self.top, self.merges);
        let by_group = inputs[0].apply_named("TopK", move |delta: &Delta| {
            let keys = |part: &Part| {
                [codecs.group.encoded(&part.columns(&groups)), codecs.order.encoded(&part.columns(&order))]
            };
            let parts = delta.0.iter().map(|part| {
                let [group, order] = keys(part);
                let leading = merges.then(|| leading(part, &group, &order, top)).flatten();
                let ([group, order], part) = match leading {
                    Some(leading) => (keys(&leading), leading),
                    None => ([group, order], part.clone()),
                };
                let row = codecs.row.encoded(&part.batch.columns()[..columns]);
                ([group, order, row], part.weights)
            });
            let parts: Vec<_> = parts.collect();
            let candidates = parts.iter().flat_map(|([group, order, row], weights)| {
                let rows = weights.values().iter().enumerate();
                rows.map(|(at, copies)| {
                    (group.row(at), Candidate { order: order.row(at), row: row.row(at), copies: *copies })
                })
            });
            if merges { first_of(candidates, top) } else { all_of(candidates) }
        });
        let first: Indexed = if self.merges {
            by_group.chain_aggregate_persistent(
                first.as_deref(),
                move |list, times| top.merged(&[], list.bytes(), times),
                move |known, list, times| top.merged(known.bytes(), list.bytes(), times),
            )
        } else {
            let rows = builder.id(Kind::Indexed, "rows");
            by_group.set_persistent_id(rows.as_deref()).aggregate_persistent(first.as_deref(), top)
        };
        self.rows(&first)
    }
}

impl TopK {
    /// The rows of lists.
    fn rows(&self, lists: &Indexed) -> Deltas {
        let (codec, schema) = (Arc::clone(&self.codecs.row), self.schema.clone());
        let (top, numbered) = (self.top, self.numbered);
        lists.apply_named("First", move |lists: &OrdIndexedZSet<Row, Row>| {
            let read::Tuples { values, weights, .. } = read::tuples(lists);
            let (mut rows, mut numbers, mut copies) = (Vec::new(), Vec::new(), Vec::new());
            for (list, weight) in values.iter().zip(&weights) {
                top.entries(list, |entry| {
                    rows.push(entry.row);
                    numbers.push(entry.number.unsigned_abs());
                    copies.push(entry.copies.checked_mul(*weight).expect("copies in 63 bits"));
                });
            }
            if rows.is_empty() {
                return Delta::default();
            }
            let mut columns = codec.decode(rows);
            if numbered {
                columns.push(Arc::new(UInt64Array::from(numbers)));
            }
            Delta(vec![Part { batch: batch(&schema, columns, copies.len()), weights: copies.into() }])
        })
    }
}
