//! `JOIN` of every kind. State: the rows of both sides; for outer, semi and anti joins what of them is matched.
//!
//! All kinds hang on the inner one. A left row is matched when its key has a right row, or, with a condition that is no
//! equality, when it stands in a pair that the condition holds for: `semi` is the matched left rows, `anti` the others,
//! an outer join the pairs and the others padded with NULL. Rows are bags: the number of copies carries over.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, new_null_array};
use arrow_schema::SchemaRef;
use datafusion::common::{JoinType, NullEquality};
use datafusion::logical_expr::{Expr, Join as Logical, LogicalPlan};

mod pairs;

use self::pairs::Layout;
use super::distinct::deltas;
use super::filter::{conditions, passing};
use super::project::extended;
use super::union::sum;
use crate::builder::{Builder, Deltas, Index, Indexed, Kind, index};
use crate::codec::Codec;
use crate::delta::{Delta, Part, loose_schema};
use crate::expr::Expression;
use crate::plan::{Columns, NodeId, Operator, Planner, State};
use crate::refused::Refused;
use crate::row::Row;

/// Takes joins, and the subqueries that became some.
pub fn lower(plan: &LogicalPlan, planner: &mut Planner) -> Option<Result<NodeId, Refused>> {
    let LogicalPlan::Join(join) = plan else { return None };
    Some(lower_join(join, planner))
}

fn lower_join(join: &Logical, planner: &mut Planner) -> Result<NodeId, Refused> {
    if join.null_aware {
        return Err(Refused::new("NOT IN (subquery) in this place").hint("write NOT EXISTS with an equality"));
    }
    let (left_keys, right_keys): (Vec<&Expr>, Vec<&Expr>) = join.on.iter().map(|(left, right)| (left, right)).unzip();
    let (left, right) = (planner.lower(&join.left)?, planner.lower(&join.right)?);
    let (left_columns, right_columns) = (planner.schema(left).clone(), planner.schema(right).clone());
    let (left, left_keys) = extended(planner, left, join.left.schema(), &left_keys)?;
    let (right, right_keys) = extended(planner, right, join.right.schema(), &right_keys)?;
    let pairs = join.left.schema().join(join.right.schema()).map_err(|error| Refused::new(error.strip_backtrace()))?;
    let residual = join.filter.as_ref().map_or(Ok(vec![]), |filter| conditions(filter, &pairs))?;
    let no_null_keys = join.null_equality == NullEquality::NullEqualsNothing;
    let side = |schema: &SchemaRef, keys: &[usize], columns: &SchemaRef| Side::new(schema, keys, columns, no_null_keys);
    let sides = [
        side(planner.schema(left), &left_keys, &left_columns)?,
        side(planner.schema(right), &right_keys, &right_columns)?,
    ];
    for (left, right) in sides[0].key_types.iter().zip(&sides[1].key_types) {
        if left != right {
            return Err(Refused::new(format!("a join compares {left} with {right}")).hint("cast one side to the other"));
        }
    }
    let fields = join.schema.fields().iter();
    let schema = loose_schema(fields.map(|field| (field.name().as_str(), field.data_type())));
    let pairs = loose_schema(pairs.fields().iter().map(|field| (field.name().as_str(), field.data_type())));
    let pair_codec = {
        let rest = sides.iter().flat_map(|side| side.rest.iter().map(|at| side.columns.field(*at).data_type()));
        Arc::new(Codec::new(sides[0].key_types.iter().chain(rest))?)
    };
    let (keys, left_rest) = (sides[0].key_types.len(), sides[0].rest.len());
    let of_pairs =
        [(0, keys), (1, keys + left_rest)].into_iter().flat_map(|(at, from)| sides[at].places(from)).collect();
    let on = join.on.iter().map(|(left, right)| format!("{left} = {right}")).collect();
    let kind = join.join_type;
    let layout = Layout { codec: pair_codec, places: Arc::new(of_pairs), schema: pairs };
    let operator = Join { kind, on, no_null_keys, residual: Arc::new(residual), sides, layout, schema };
    let schema = operator.schema.clone();
    Ok(planner.add(operator, vec![left, right], schema))
}

/// One side of a join.
#[derive(Debug)]
struct Side {
    /// Where its keys are, some perhaps behind its columns.
    key_places: Vec<usize>,
    key_types: Vec<arrow_schema::DataType>,
    /// Its columns that are no keys.
    rest: Vec<usize>,
    /// The rest of its rows by key.
    by_key: Arc<Index>,
    /// Its keys alone.
    keys: Arc<Index>,
    /// Its rows by all of their columns.
    whole: Arc<Index>,
    /// A key, then the rest.
    codec: Arc<Codec>,
    /// All of its columns.
    whole_codec: Arc<Codec>,
    /// Its columns, without those that only the key needs.
    columns: SchemaRef,
}

impl Side {
    fn new(schema: &SchemaRef, keys: &[usize], columns: &SchemaRef, no_null_keys: bool) -> Result<Self, Refused> {
        let all: Vec<usize> = (0..columns.fields().len()).collect();
        let rest: Vec<usize> = all.iter().copied().filter(|at| !keys.contains(at)).collect();
        let key_then_rest = keys.iter().chain(&rest).map(|at| schema.field(*at).data_type());
        Ok(Self {
            key_places: keys.to_vec(),
            key_types: keys.iter().map(|at| schema.field(*at).data_type().clone()).collect(),
            codec: Arc::new(Codec::new(key_then_rest)?),
            by_key: Arc::new(Index::new(schema, keys.to_vec(), rest.clone(), no_null_keys)?),
            rest,
            keys: Arc::new(Index::new(schema, keys.to_vec(), vec![], no_null_keys)?),
            whole: Arc::new(Index::new(columns, all, vec![], false)?),
            whole_codec: Arc::new(Codec::new(columns.fields().iter().map(|field| field.data_type()))?),
            columns: columns.clone(),
        })
    }

    /// Where its columns are in a row of its key, perhaps something else, and from `from` on its rest.
    fn places(&self, from: usize) -> Vec<usize> {
        let place = |column: usize| {
            let key = self.key_places.iter().position(|at| *at == column);
            key.or_else(|| Some(from + self.rest.iter().position(|at| *at == column)?)).expect("a key, or of the rest")
        };
        (0..self.columns.fields().len()).map(place).collect()
    }
}

/// A join of two relations.
#[derive(Debug)]
pub struct Join {
    kind: JoinType,
    on: Vec<String>,
    no_null_keys: bool,
    residual: Arc<Vec<Expression>>,
    sides: [Side; 2],
    /// Pairs, with the columns of both sides.
    layout: Layout,
    schema: SchemaRef,
}

impl Operator for Join {
    fn describe(&self) -> String {
        let nulls = if self.no_null_keys { "" } else { " (NULL equals NULL)" };
        let residual: Vec<&str> = self.residual.iter().map(Expression::text).collect();
        let residual = if residual.is_empty() { String::new() } else { format!(" where {}", residual.join(" AND ")) };
        format!("Join {} on {}{nulls}{residual}", self.kind, self.on.join(", "))
    }

    fn state(&self) -> Vec<State> {
        let mut state =
            vec![State::unbounded("every row of the left side"), State::unbounded("every row of the right side")];
        if self.kind != JoinType::Inner {
            state.push(State::unbounded("which rows or keys are matched"));
        }
        state
    }

    fn only_grows(&self, inputs: &[bool]) -> bool {
        let grows = matches!(self.kind, JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi);
        grows && inputs.iter().all(|grows| *grows)
    }

    /// A row of one side stands once where the other side has one row of its key at most; else it takes both sides' to
    /// name a pair.
    fn unique(&self, inputs: &[&[Columns]]) -> Vec<Columns> {
        let counts = [0, 1].map(|at| self.sides[at].columns.fields().len());
        let own = |at: usize, shift: usize| {
            let sets = inputs[at].iter().filter(move |set| set.iter().all(|place| *place < counts[at]));
            sets.map(move |set| set.iter().map(|place| place + shift).collect::<Columns>()).collect::<Vec<_>>()
        };
        let named_once =
            |at: usize| inputs[at].iter().any(|set| set.iter().all(|place| self.sides[at].key_places.contains(place)));
        match self.kind {
            JoinType::LeftSemi | JoinType::LeftAnti => return own(0, 0),
            JoinType::RightSemi | JoinType::RightAnti => return own(1, 0),
            JoinType::Inner | JoinType::Left | JoinType::Right => {}
            // Rows without a partner, of either side, may have NULL in all of both sets.
            JoinType::Full | JoinType::LeftMark | JoinType::RightMark => return Vec::new(),
        }
        let (left, right) = (own(0, 0), own(1, counts[0]));
        let mut unique: Vec<Columns> =
            left.iter().flat_map(|left| right.iter().map(move |right| [left.as_slice(), right].concat())).collect();
        // Rows of the other side that find no partner have NULLs in all of this one's columns.
        if named_once(1) && matches!(self.kind, JoinType::Inner | JoinType::Left) {
            unique.extend(left);
        }
        if named_once(0) && matches!(self.kind, JoinType::Inner | JoinType::Right) {
            unique.extend(right);
        }
        unique
    }

    fn build(&self, builder: &Builder, inputs: &[Deltas]) -> Deltas {
        let sides = [0, 1].map(|at| InCircuit {
            side: &self.sides[at],
            rows: trimmed(&inputs[at], &self.sides[at].columns),
            by_key: index(builder, ["left", "right"][at], &inputs[at], &self.sides[at].by_key),
            input: inputs[at].clone(),
        });
        let pairs = self.needs_pairs().then(|| self.pairs(builder, &sides));
        let matched = |at: usize| self.matched(builder, &sides, at, pairs.as_ref());
        let unmatched = |at: usize| sum(&sides[at].rows, &negated(&matched(at)));
        match self.kind {
            JoinType::Inner => pairs.expect("an inner join is its pairs"),
            JoinType::LeftSemi => matched(0),
            JoinType::RightSemi => matched(1),
            JoinType::LeftAnti => unmatched(0),
            JoinType::RightAnti => unmatched(1),
            JoinType::LeftMark => self.marked(&matched(0), &sides[0].rows),
            JoinType::RightMark => self.marked(&matched(1), &sides[1].rows),
            JoinType::Left | JoinType::Right | JoinType::Full => {
                let pairs = pairs.as_ref().expect("an outer join has its pairs");
                let left = (self.kind != JoinType::Right).then(|| self.padded(&unmatched(0), 0));
                let right = (self.kind != JoinType::Left).then(|| self.padded(&unmatched(1), 1));
                left.iter().chain(&right).fold(pairs.clone(), |all, padded| sum(&all, padded))
            }
        }
    }
}

/// One side, in a worker's circuit.
struct InCircuit<'a> {
    side: &'a Side,
    rows: Deltas,
    by_key: Indexed,
    input: Deltas,
}

impl Join {
    fn needs_pairs(&self) -> bool {
        let only_matches = matches!(
            self.kind,
            JoinType::LeftSemi
                | JoinType::RightSemi
                | JoinType::LeftAnti
                | JoinType::RightAnti
                | JoinType::LeftMark
                | JoinType::RightMark
        );
        !only_matches || !self.residual.is_empty()
    }

    /// The pairs of rows that the whole condition holds for.
    fn pairs(&self, builder: &Builder, sides: &[InCircuit; 2]) -> Deltas {
        let pairs = pairs::pairs(&sides[0].by_key, &sides[1].by_key, &self.layout);
        if self.residual.is_empty() {
            return pairs;
        }
        let (residual, name, failures) = (Arc::clone(&self.residual), builder.name.clone(), builder.failures.clone());
        pairs.apply_named("Residual", move |delta: &Delta| {
            Delta(delta.0.iter().filter_map(|part| passing(part, &residual, &name, &failures)).collect())
        })
    }

    /// The rows of side `at` that have a partner.
    fn matched(&self, builder: &Builder, sides: &[InCircuit; 2], at: usize, pairs: Option<&Deltas>) -> Deltas {
        let (this, other) = (&sides[at], &sides[1 - at]);
        let piece = |name: &str| format!("{name}{at}");
        if self.residual.is_empty() {
            let keys = index(builder, &piece("keys"), &other.input, &other.side.keys);
            let keys = keys.distinct().set_persistent_id(builder.id(Kind::Indexed, &piece("distinct")).as_deref());
            // The keys have nothing but themselves.
            let layout = Layout {
                codec: Arc::clone(&this.side.codec),
                places: Arc::new(this.side.places(this.side.key_types.len())),
                schema: this.side.columns.clone(),
            };
            return pairs::pairs(&this.by_key, &keys, &layout);
        }
        let pairs = pairs.expect("a condition over pairs has them");
        let (from, columns) =
            (if at == 0 { 0 } else { sides[0].side.columns.fields().len() }, this.side.columns.clone());
        let of_pairs = pairs.apply_named("Matched", move |delta: &Delta| {
            let part = |part: &Part| {
                let own = part.batch.columns()[from..from + columns.fields().len()].to_vec();
                part.with_columns(&columns, own)
            };
            Delta(delta.0.iter().map(part).collect())
        });
        let matched: Indexed = index(builder, &piece("pairs"), &of_pairs, &this.side.whole);
        let matched = matched.distinct().set_persistent_id(builder.id(Kind::Indexed, &piece("distinct")).as_deref());
        let rows: Indexed = index(builder, &piece("rows"), &this.rows, &this.side.whole);
        let rows = rows.join(&matched, |row: &Row, _: &Row, _: &Row| row.clone());
        deltas(&rows, &this.side.whole_codec, &this.side.columns)
    }

    /// Rows of side `at` with NULL in the columns of the other one.
    fn padded(&self, rows: &Deltas, at: usize) -> Deltas {
        let (pairs, other) = (self.layout.schema.clone(), self.sides[1 - at].columns.clone());
        rows.apply_named("Padded", move |delta: &Delta| {
            let part = |part: &Part| {
                let nulls = other.fields().iter().map(|field| new_null_array(field.data_type(), part.weights.len()));
                let own = part.batch.columns().iter().cloned();
                let columns: Vec<ArrayRef> =
                    if at == 0 { own.chain(nulls).collect() } else { nulls.chain(own).collect() };
                part.with_columns(&pairs, columns)
            };
            Delta(delta.0.iter().map(part).collect())
        })
    }

    /// All `rows` with a column that says whether they are `matched`.
    fn marked(&self, matched: &Deltas, rows: &Deltas) -> Deltas {
        let mark = |rows: &Deltas, mark: bool| {
            let schema = self.schema.clone();
            rows.apply_named("Mark", move |delta: &Delta| {
                let part = |part: &Part| {
                    let mut columns = part.batch.columns().to_vec();
                    columns.push(Arc::new(BooleanArray::from(vec![mark; part.weights.len()])));
                    part.with_columns(&schema, columns)
                };
                Delta(delta.0.iter().map(part).collect())
            })
        };
        sum(&mark(matched, true), &mark(&sum(rows, &negated(matched)), false))
    }
}

/// The same rows, going where they came.
fn negated(rows: &Deltas) -> Deltas {
    rows.apply_named("Negated", Delta::negated)
}

/// The first columns of each row, those that `columns` names.
fn trimmed(input: &Deltas, columns: &SchemaRef) -> Deltas {
    let columns = columns.clone();
    input.apply_named("Trimmed", move |delta: &Delta| {
        let part = |part: &Part| part.with_columns(&columns, part.batch.columns()[..columns.fields().len()].to_vec());
        Delta(delta.0.iter().map(part).collect())
    })
}
