//! The first rows of each group: `ROW_NUMBER`, `RANK` or `DENSE_RANK` with a bound on it, `ORDER BY` with `LIMIT`,
//! `DISTINCT ON`. State: every row, by group and in order; only the first ones are read.
//!
//! Rows that the order leaves equal are told apart by their other columns, so that which ones are kept depends on the
//! rows alone. Copies of a row have numbers of their own, and the same rank.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, UInt64Array};
use arrow_schema::{DataType, SchemaRef, SortOptions};
use datafusion::common::DFSchema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Filter as LogicalFilter, Limit, LogicalPlan, Operator as Comparison, SkipType, Sort,
    SortExpr, Window,
};
use dbsp::OrdIndexedZSet;
use dbsp::utils::Tup2;

use super::filter::{Filter, conditions};
use super::project::{extended, selected};
use crate::builder::{Builder, Deltas, Kind};
use crate::codec::Codec;
use crate::delta::{Delta, Part, batch, loose_schema};
use crate::plan::{Columns, NodeId, Operator, Planner, State};
use crate::read;
use crate::refused::Refused;
use crate::row::Row;
use crate::top::{Entry, Numbering, Top, entries, value};

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
        format!("TopK {numbering:?} {first} to {last} of each {groups:?} by {}", self.by.join(", "))
    }

    fn state(&self) -> Vec<State> {
        vec![State::unbounded("every row, by group and in order")]
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
        let (codecs, groups, order, columns) =
            (self.codecs.clone(), self.groups.clone(), self.order.clone(), self.columns);
        let by_group = inputs[0].apply_named("TopK", move |delta: &Delta| {
            let mut tuples = Vec::with_capacity(delta.rows());
            for part in &delta.0 {
                let rows = part.weights.len();
                let pick = |places: &[usize]| -> Vec<ArrayRef> {
                    places.iter().map(|at| Arc::clone(part.batch.column(*at))).collect()
                };
                let keys = codecs.group.encode(&pick(&groups), rows);
                let orders = codecs.order.encode(&pick(&order), rows);
                let whole = codecs.row.encode(&part.batch.columns()[..columns], rows);
                let values = orders.iter().zip(&whole).map(|(order, row)| value(order, row));
                for ((key, value), weight) in keys.into_iter().zip(values).zip(part.weights.values()) {
                    tuples.push(Tup2(Tup2(key, value), *weight));
                }
            }
            OrdIndexedZSet::<Row, Row>::from_tuples((), tuples)
        });
        let by_group = by_group.set_persistent_id(builder.id(Kind::Indexed, "rows").as_deref());
        let first = by_group.aggregate_persistent(builder.id(Kind::Indexed, "first").as_deref(), self.top);
        let (codec, schema, numbered) = (Arc::clone(&self.codecs.row), self.schema.clone(), self.numbered);
        first.apply_named("First", move |lists: &OrdIndexedZSet<Row, Row>| {
            let read::Tuples { values, weights, .. } = read::tuples(lists);
            let lists = values.iter().zip(&weights);
            let all = lists.flat_map(|(list, weight)| entries(list).map(move |entry| (entry, *weight)));
            let all: Vec<(Entry<'_>, i64)> = all.collect();
            if all.is_empty() {
                return Delta::default();
            }
            let mut columns = codec.decode(all.iter().map(|(entry, _)| entry.row));
            if numbered {
                let numbers: UInt64Array =
                    all.iter().map(|(entry, _)| entry.number.unsigned_abs()).collect::<Vec<_>>().into();
                columns.push(Arc::new(numbers));
            }
            let copies =
                |(entry, weight): &(Entry<'_>, i64)| entry.copies.checked_mul(*weight).expect("copies in 63 bits");
            let weights: Int64Array = all.iter().map(copies).collect::<Vec<_>>().into();
            Delta(vec![Part { batch: batch(&schema, columns, weights.len()), weights }])
        })
    }
}
