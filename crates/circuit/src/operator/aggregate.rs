//! `GROUP BY`: one row a group. State: for each group what its aggregates add up to; for each `MIN`, `MAX` and
//! `DISTINCT` the values they may have to look at.
//!
//! An aggregate is put together of pieces: one of all functions that add up, one for each `MIN` or `MAX`, one for each
//! argument of `DISTINCT`. Where there are several, each row of a group comes of all pieces with that group's key.

use std::sync::Arc;

use arrow_array::{Array, Int64Array};
use arrow_schema::{DataType, SchemaRef, SortOptions};
use datafusion::common::{DFSchema, DataFusionError};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Aggregate as Logical, Expr, ExprSchemable, LogicalPlan, when};
use dbsp::OrdIndexedZSet;
use dbsp::operator::Min;

mod answer;
mod measure;
mod pieces;

pub use measure::{Function, Measure};

use self::answer::Answer;
use self::pieces::{Combine, groups_of, smallest_of, tagged};
use super::project::Project;
use crate::accumulator::Accumulator;
use crate::builder::{Builder, Deltas, Indexed, Kind};
use crate::codec::{Codec, Encoded};
use crate::delta::{Delta, Part, loose_schema};
use crate::expr::{Expression, plain};
use crate::plan::{Columns, NodeId, Operator, Planner, State};
use crate::read;
use crate::refused::Refused;
use crate::row::Row;
use crate::sorted;

/// Takes `GROUP BY`, and aggregates without one.
pub fn lower(plan: &LogicalPlan, planner: &mut Planner) -> Option<Result<NodeId, Refused>> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return None };
    Some(lower_aggregate(aggregate, planner))
}

fn lower_aggregate(aggregate: &Logical, planner: &mut Planner) -> Result<NodeId, Refused> {
    if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
        return Err(Refused::new("GROUPING SETS, ROLLUP and CUBE are not supported yet")
            .hint("write one GROUP BY for each set and join them by UNION ALL"));
    }
    let schema = aggregate.input.schema();
    let input = planner.lower(&aggregate.input)?;
    let mut columns = Vec::new();
    // The schema names a group's column once, however often the query does.
    for expr in grouping_set_to_exprlist(&aggregate.group_expr).map_err(|error| Refused::new(plain(&error)))? {
        columns.push(Expression::new(expr, schema)?);
    }
    let groups = columns.len();
    let mut outputs = Vec::new();
    for expr in &aggregate.aggr_expr {
        let text = expr.to_string();
        let Expr::AggregateFunction(call) = expr.clone().unalias() else {
            return Err(Refused::new(format!("{text}: an aggregate expected")));
        };
        let at = groups + outputs.len();
        let kind = aggregate.schema.field(at).data_type().clone();
        let (which, argument) = aggregated(&call, schema, &text)?;
        let argument = argument.map(|expr| Expression::new(&expr, schema)).transpose()?;
        let place = argument.map(|argument| {
            // Equal arguments stand once.
            columns.iter().position(|column| column.text() == argument.text()).unwrap_or_else(|| {
                columns.push(argument);
                columns.len() - 1
            })
        });
        let argument_type = place.map_or(DataType::Null, |at| columns[at].kind().clone());
        outputs.push(Output::new(which, call.params.distinct, place, argument_type, kind, text)?);
    }
    let fields = aggregate.schema.fields().iter();
    let out = loose_schema(fields.map(|field| (field.name().as_str(), field.data_type())));
    let projected = loose_schema(columns.iter().map(|column| (column.text(), column.kind())));
    let operator = Aggregate::new(&projected, planner.grows(input), groups, outputs, out.clone())?;
    let input = planner.add(Project::new(columns, projected.clone()), vec![input], projected);
    Ok(planner.add(operator, vec![input], out))
}

/// What an aggregate call computes, and of what.
enum Which {
    Sum(Function),
    Extremum { greatest: bool },
}

/// The function, and its argument where FILTER holds (`None` for `COUNT(*)`).
fn aggregated(call: &AggregateFunction, schema: &DFSchema, text: &str) -> Result<(Which, Option<Expr>), Refused> {
    let name = call.func.name();
    let which = match (name, Function::named(name)) {
        ("min", _) => Which::Extremum { greatest: false },
        ("max", _) => Which::Extremum { greatest: true },
        (_, Some(function)) => Which::Sum(function),
        _ => {
            return Err(Refused::new(format!("{text}: the aggregate {name} is not supported yet")).hint(
                "COUNT, SUM, AVG, MIN, MAX, BOOL_AND, BOOL_OR, VAR_* and STDDEV_* are, each with FILTER and DISTINCT",
            ));
        }
    };
    let [argument] = call.params.args.as_slice() else {
        return Err(Refused::new(format!("{text}: {name} of {} arguments", call.params.args.len()))
            .hint("COUNT of several columns: count a CASE that is not NULL where all of them are"));
    };
    let refused = |error: DataFusionError| Refused::new(plain(&error));
    // AVG of integers is exact: a cast of them to doubles is not. All other casts say something.
    let argument = match argument {
        Expr::Cast(cast)
            if matches!(which, Which::Sum(Function::Average | Function::Spread(_)))
                && *cast.field.data_type() == DataType::Float64
                && cast.expr.get_type(schema).map_err(refused)?.is_integer() =>
        {
            cast.expr.as_ref().clone()
        }
        other => other.clone(),
    };
    let constant = matches!(&argument, Expr::Literal(value, _) if !value.is_null());
    match (&which, &call.params.filter) {
        (Which::Sum(Function::Count), None) if constant && !call.params.distinct => {
            Ok((Which::Sum(Function::Rows), None))
        }
        (_, None) => Ok((which, Some(argument))),
        (_, Some(filter)) => {
            let only = when(filter.as_ref().clone(), argument).end().map_err(refused)?;
            Ok((which, Some(only)))
        }
    }
}

/// A column of the answer behind the group's.
#[derive(Debug)]
enum Output {
    /// The function of this place in the piece.
    Sum {
        piece: usize,
        at: usize,
    },
    /// The value of that piece.
    Extremum {
        piece: usize,
    },
    /// Not yet placed.
    Pending {
        measure: Measure,
        distinct: bool,
    },
    PendingExtremum {
        greatest: bool,
        argument: usize,
        text: String,
    },
}

impl Output {
    fn new(
        which: Which,
        distinct: bool,
        argument: Option<usize>,
        argument_type: DataType,
        kind: DataType,
        text: String,
    ) -> Result<Self, Refused> {
        match (which, argument) {
            (Which::Extremum { greatest }, Some(argument)) => Ok(Self::PendingExtremum { greatest, argument, text }),
            (Which::Extremum { .. }, None) => Err(Refused::new(format!("{text}: an argument is missing"))),
            (Which::Sum(function), argument) => {
                if !function.takes(&argument_type, &kind) && argument.is_some() {
                    return Err(Refused::new(format!("{text}: its argument is of type {argument_type}"))
                        .hint("cast it to BIGINT, DOUBLE or DECIMAL"));
                }
                Ok(Self::Pending { measure: Measure { function, argument, argument_type, kind, text }, distinct })
            }
        }
    }
}

/// A part of the aggregate with an index of its own.
#[derive(Debug)]
enum Piece {
    /// Functions that add up; of each value once, if `distinct` names the argument.
    Sums { measures: Arc<Vec<Measure>>, distinct: Option<(usize, Arc<Codec>)> },
    /// The first value in this order.
    First { argument: usize, codec: Arc<Codec>, text: String },
}

/// An aggregate by group.
#[derive(Debug)]
pub struct Aggregate {
    groups: usize,
    group_codec: Arc<Codec>,
    pieces: Vec<Arc<Piece>>,
    outputs: Arc<Vec<Output>>,
    /// Whether no row of the input ever goes: then of each group the first value is enough for a `MIN` or `MAX`.
    grows: bool,
    input: SchemaRef,
    schema: SchemaRef,
}

impl Aggregate {
    /// Over `input`, whose first `groups` columns are the group's, and which only grows or not.
    fn new(
        input: &SchemaRef,
        grows: bool,
        groups: usize,
        pending: Vec<Output>,
        schema: SchemaRef,
    ) -> Result<Self, Refused> {
        let (mut sums, mut distincts, mut firsts) = (Vec::new(), Vec::<(usize, Vec<Measure>)>::new(), Vec::new());
        // Where each output is to be found: pieces are numbered once all are known.
        let mut places: Vec<(usize, usize, usize)> = Vec::new();
        for output in pending {
            match output {
                Output::Pending { measure, distinct: true } => {
                    let argument = measure.argument.expect("DISTINCT of a column");
                    let at = distincts.iter().position(|(of, _)| *of == argument).unwrap_or_else(|| {
                        distincts.push((argument, Vec::new()));
                        distincts.len() - 1
                    });
                    distincts[at].1.push(measure);
                    places.push((1, at, distincts[at].1.len() - 1));
                }
                Output::Pending { measure, distinct: false } => {
                    sums.push(measure);
                    places.push((0, 0, sums.len() - 1));
                }
                Output::PendingExtremum { greatest, argument, text } => {
                    let options = SortOptions { descending: greatest, nulls_first: false };
                    let kind = input.field(argument).data_type().clone();
                    let codec = Arc::new(Codec::sorted([(kind, options)])?);
                    firsts.push(Piece::First { argument, codec, text });
                    places.push((2, firsts.len() - 1, 0));
                }
                placed @ (Output::Sum { .. } | Output::Extremum { .. }) => unreachable!("{placed:?} is placed here"),
            }
        }
        // A lone MIN or MAX knows by itself whether its group is there.
        let lone = firsts.len() == 1 && sums.is_empty() && distincts.is_empty();
        let before = usize::from(!lone);
        let distinct_count = distincts.len();
        let outputs = places.into_iter().map(|(kind, at, place)| match kind {
            0 => Output::Sum { piece: 0, at: place },
            1 => Output::Sum { piece: before + at, at: place },
            _ => Output::Extremum { piece: before + distinct_count + at },
        });
        let outputs = outputs.collect();
        let mut pieces = Vec::new();
        if !lone {
            pieces.push(Arc::new(Piece::Sums { measures: Arc::new(sums), distinct: None }));
        }
        for (argument, measures) in distincts {
            let codec = Arc::new(Codec::new([input.field(argument).data_type()])?);
            // Of the values alone, which stand in a column of their own.
            let alone = measures.into_iter().map(|measure| Measure { argument: Some(0), ..measure }).collect();
            pieces.push(Arc::new(Piece::Sums { measures: Arc::new(alone), distinct: Some((argument, codec)) }));
        }
        pieces.extend(firsts.into_iter().map(Arc::new));
        let group_codec = Arc::new(Codec::new(input.fields()[..groups].iter().map(|field| field.data_type()))?);
        let grows = grows && pieces.iter().any(|piece| matches!(piece.as_ref(), Piece::First { .. }));
        Ok(Self { groups, group_codec, pieces, outputs: Arc::new(outputs), grows, input: input.clone(), schema })
    }
}

impl Operator for Aggregate {
    fn describe(&self) -> String {
        let columns = |from: usize, to: usize| {
            let names = self.input.fields()[from..to].iter().map(|field| field.name().as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let pieces: Vec<String> = self
            .pieces
            .iter()
            .map(|piece| match piece.as_ref() {
                Piece::Sums { measures, .. } => {
                    measures.iter().map(|measure| measure.text.as_str()).collect::<Vec<_>>().join(", ")
                }
                Piece::First { text, .. } => text.clone(),
            })
            .collect();
        // What is kept depends on it.
        let grows = if self.grows { ", of rows that only come" } else { "" };
        format!("Aggregate {} by {}{grows}", pieces.join("; "), columns(0, self.groups))
    }

    fn state(&self) -> Vec<State> {
        let group = || {
            if self.groups == 0 {
                State::bounded("one row", "there is one group")
            } else {
                State::unbounded("one row a group")
            }
        };
        self.pieces
            .iter()
            .map(|piece| match piece.as_ref() {
                Piece::Sums { distinct: None, .. } => group(),
                Piece::Sums { distinct: Some((at, _)), .. } => {
                    State::unbounded(format!("every distinct {} of a group", self.input.field(*at).name()))
                }
                Piece::First { .. } if self.grows => group(),
                Piece::First { argument, .. } => State::unbounded(format!(
                    "every {} of a group, for its MIN or MAX",
                    self.input.field(*argument).name()
                )),
            })
            .collect()
    }

    fn unique(&self, _: &[&[Columns]]) -> Vec<Columns> {
        vec![(0..self.groups).collect()]
    }

    fn build(&self, builder: &Builder, inputs: &[Deltas]) -> Deltas {
        let mut pieces = self.pieces.iter().enumerate().map(|(at, piece)| self.piece(builder, &inputs[0], at, piece));
        let first = pieces.next().expect("an aggregate has a piece");
        let whole: Indexed = if self.pieces.len() == 1 {
            first
        } else {
            let tags = 1u8..;
            let parts = pieces.zip(tags).map(|(piece, tag)| tagged(&piece, tag));
            let all = parts.fold(tagged(&first, 0), |all, part| all.plus(&part));
            let all = all.set_persistent_id(builder.id(Kind::Indexed, "pieces").as_deref());
            all.aggregate_persistent(builder.id(Kind::Indexed, "combined").as_deref(), Combine)
        };
        self.rows(builder, &whole)
    }
}

impl Aggregate {
    fn piece(&self, builder: &Builder, input: &Deltas, at: usize, piece: &Arc<Piece>) -> Indexed {
        let id = |kind: Kind, name: &str| builder.id(kind, &format!("{name}{at}"));
        match piece.as_ref() {
            Piece::Sums { measures, distinct: None } => {
                let (measures, codec, groups) = (Arc::clone(measures), Arc::clone(&self.group_codec), self.groups);
                let sums = input.apply_named("Sums", move |delta: &Delta| {
                    let keys: Vec<Encoded> =
                        delta.0.iter().map(|part| codec.encoded(&part.batch.columns()[..groups])).collect();
                    let parts = keys.iter().zip(&delta.0).map(|(keys, part)| {
                        let keys = (0..part.weights.len()).map(|row| keys.row(row)).collect();
                        (keys, part.batch.columns(), &part.weights)
                    });
                    groups_of(parts, &measures)
                });
                let sums = sums.set_persistent_id(id(Kind::Summed, "sums").as_deref());
                sums.aggregate_linear_postprocess_persistent(
                    id(Kind::Summed, "summed").as_deref(),
                    Accumulator::clone,
                    |total: Accumulator| Row::new(&total.encode()),
                )
            }
            Piece::Sums { measures, distinct: Some((argument, codec)) } => {
                let values = self
                    .by_group(input, *argument, codec, true)
                    .set_persistent_id(id(Kind::Indexed, "values").as_deref());
                let once = values.distinct().set_persistent_id(id(Kind::Indexed, "once").as_deref());
                let (measures, codec) = (Arc::clone(measures), Arc::clone(codec));
                let sums = once.apply_named("Sums", move |values: &OrdIndexedZSet<Row, Row>| {
                    let read::Tuples { keys, values, weights } = read::tuples(values);
                    let (column, weights) = (codec.decode(values.iter()), Int64Array::from(weights));
                    groups_of([(keys.iter().collect(), column.as_slice(), &weights)].into_iter(), &measures)
                });
                let sums = sums.set_persistent_id(id(Kind::Summed, "sums").as_deref());
                sums.aggregate_linear_postprocess_persistent(
                    id(Kind::Summed, "summed").as_deref(),
                    Accumulator::clone,
                    |total: Accumulator| Row::new(&total.encode()),
                )
            }
            Piece::First { argument, codec, .. } => {
                let values = self.by_group(input, *argument, codec, false);
                let first = id(Kind::Indexed, "first");
                if self.grows {
                    let least = |one: Row, other: &Row, _| if *other < one { other.clone() } else { one };
                    return values.chain_aggregate_persistent(first.as_deref(), |value, _| value.clone(), least);
                }
                let values = values.set_persistent_id(id(Kind::Indexed, "values").as_deref());
                values.aggregate_persistent(first.as_deref(), Min)
            }
        }
    }

    /// A column's values by group: all that are not NULL for `DISTINCT`; else those that may be the first.
    fn by_group(&self, input: &Deltas, argument: usize, codec: &Arc<Codec>, distinct: bool) -> Indexed {
        let (groups, group_codec, codec) = (self.groups, Arc::clone(&self.group_codec), Arc::clone(codec));
        let smallest = self.grows && !distinct;
        input.apply_named("Values", move |delta: &Delta| {
            let parts = delta.0.iter().map(|part| {
                let keys = group_codec.encoded(&part.batch.columns()[..groups]);
                (keys, codec.encoded(std::slice::from_ref(part.batch.column(argument))), part)
            });
            let parts: Vec<_> = parts.collect();
            let tuples = parts.iter().flat_map(|(keys, values, part)| {
                let rows = 0..part.weights.len();
                let rows = rows.filter(|row| !(distinct && part.batch.column(argument).is_null(*row)));
                rows.map(|row| (keys.row(row), values.row(row), part.weights.value(row)))
            });
            if smallest { smallest_of(tuples) } else { sorted::indexed(&tuples.collect::<Vec<_>>()) }
        })
    }

    /// The answer's rows. Without groups there is always one, of no rows if there are none.
    fn rows(&self, builder: &Builder, whole: &Indexed) -> Deltas {
        let answer = Arc::new(Answer {
            operator: builder.name.clone(),
            failures: builder.failures.clone(),
            groups: self.groups,
            group_codec: Arc::clone(&self.group_codec),
            pieces: self.pieces.clone(),
            outputs: Arc::clone(&self.outputs),
            schema: self.schema.clone(),
        });
        let (own, grouped) = (Arc::clone(&answer), self.groups > 0);
        let rows = whole.apply_named("Groups", move |groups: &OrdIndexedZSet<Row, Row>| {
            let read::Tuples { keys, values, weights } = read::tuples(groups);
            let (keys, values): (Vec<&[u8]>, Vec<&[u8]>) = (keys.iter().collect(), values.iter().collect());
            let nothing = -weights.iter().sum::<i64>();
            let mut parts: Vec<Part> = own.part(&keys, &values, weights).into_iter().collect();
            if !grouped {
                parts.extend(own.of_nothing(nothing));
            }
            Delta(parts)
        });
        if grouped {
            return rows;
        }
        let always = builder.unit.apply_named("Always", move |unit: &Delta| {
            Delta(if unit.rows() == 0 { vec![] } else { answer.of_nothing(1).into_iter().collect() })
        });
        super::union::sum(&rows, &always)
    }
}
