//! Aggregate functions: what each adds up, and what comes of it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, UInt64Array};
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::accumulator::{Accumulator, Cell};
use crate::exact::{DecimalAverage, Spread};

/// A function of a group's rows that adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `COUNT(*)`.
    Rows,
    /// `COUNT(x)`.
    Count,
    /// `SUM`.
    Sum,
    /// `AVG`.
    Average,
    /// `VAR_POP`, `STDDEV_SAMP` and their like.
    Spread(Spread),
    /// `BOOL_AND`.
    And,
    /// `BOOL_OR`.
    Or,
}

impl Function {
    /// By DataFusion's name; `None` for one that does not add up, or that is not known.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "avg" => Self::Average,
            "bool_and" => Self::And,
            "bool_or" => Self::Or,
            "var" | "var_samp" => Self::Spread(Spread::SampleVariance),
            "var_pop" => Self::Spread(Spread::PopulationVariance),
            "stddev" | "stddev_samp" => Self::Spread(Spread::SampleDeviation),
            "stddev_pop" => Self::Spread(Spread::PopulationDeviation),
            _ => return None,
        })
    }

    /// Whether its argument may be of this type where its answer is of type `kind`.
    #[must_use]
    pub fn takes(self, argument: &DataType, kind: &DataType) -> bool {
        match self {
            Self::Rows | Self::Count => *kind == DataType::Int64,
            Self::And | Self::Or => *argument == DataType::Boolean,
            Self::Spread(_) => Numbers::of(argument).is_some() && *kind == DataType::Float64,
            Self::Sum => match Numbers::of(argument) {
                Some(Numbers::Float) => *kind == DataType::Float64,
                Some(Numbers::Int) => matches!(kind, DataType::Int64 | DataType::UInt64),
                Some(Numbers::Decimal(0)) if *kind == DataType::UInt64 => true,
                Some(Numbers::Decimal(scale)) => {
                    matches!(kind, DataType::Decimal128(_, same) if u8::try_from(*same) == Ok(scale))
                }
                None => false,
            },
            Self::Average => match Numbers::of(argument) {
                Some(Numbers::Float | Numbers::Int) => *kind == DataType::Float64,
                Some(Numbers::Decimal(0)) if *kind == DataType::Float64 => true,
                Some(Numbers::Decimal(_)) => matches!(kind, DataType::Decimal128(..)),
                None => false,
            },
        }
    }
}

/// How numbers of a type are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// As integers.
    Int,
    /// As unscaled decimals, with this many digits after the point.
    Decimal(u8),
    /// As doubles.
    Float,
}

impl Numbers {
    fn of(kind: &DataType) -> Option<Self> {
        match kind {
            DataType::UInt64 => Some(Self::Decimal(0)),
            kind if kind.is_integer() => Some(Self::Int),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Some(Self::Float),
            DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
                Some(Self::Decimal(u8::try_from(*scale).ok()?))
            }
            _ => None,
        }
    }
}

/// A function, of which column, as which type.
#[derive(Clone, Debug)]
pub struct Measure {
    /// What is computed.
    pub function: Function,
    /// Where its argument stands in the operator's input; `COUNT(*)` has none.
    pub argument: Option<usize>,
    /// The argument's type.
    pub argument_type: DataType,
    /// The answer's type.
    pub kind: DataType,
    /// In SQL's words.
    pub text: String,
}

/// An argument's column, ready to be added up.
#[derive(Debug)]
pub enum Values {
    /// Only whether a row is NULL counts.
    Any(ArrayRef),
    /// Integers.
    Ints(Int64Array),
    /// Unscaled decimals.
    Decimals(Decimal128Array),
    /// Doubles.
    Floats(Float64Array),
    /// Truth values.
    Truths(BooleanArray),
    /// There is no argument.
    None,
}

impl Measure {
    /// The argument's values out of its column.
    ///
    /// # Panics
    /// When the column is not of the argument's type.
    #[must_use]
    pub fn values(&self, column: Option<&ArrayRef>) -> Values {
        let Some(column) = column else { return Values::None };
        match (self.function, Numbers::of(column.data_type())) {
            (Function::Rows, _) => Values::None,
            (Function::Count, _) => Values::Any(Arc::clone(column)),
            (Function::And | Function::Or, _) => Values::Truths(column.as_boolean().clone()),
            (_, Some(Numbers::Int)) => {
                let ints = cast(column, &DataType::Int64).expect("an integer of at most 63 bits");
                Values::Ints(ints.as_primitive::<Int64Type>().clone())
            }
            (_, Some(Numbers::Decimal(scale))) => {
                let kind = DataType::Decimal128(38, i8::try_from(scale).expect("a scale that was an i8"));
                let decimals = cast(column, &kind).expect("more digits of the same scale");
                Values::Decimals(decimals.as_primitive::<Decimal128Type>().clone())
            }
            (_, Some(Numbers::Float)) => {
                let floats = cast(column, &DataType::Float64).expect("a double holds every shorter one");
                Values::Floats(floats.as_primitive::<Float64Type>().clone())
            }
            (_, None) => panic!("{}: an argument of type {}", self.text, column.data_type()),
        }
    }

    /// The cell of no rows.
    #[must_use]
    pub fn empty(&self) -> Cell {
        let float = Numbers::of(&self.argument_type) == Some(Numbers::Float);
        match self.function {
            Function::Rows | Function::Count => Cell::Count(0),
            Function::Sum | Function::Average if float => Cell::Float(0, Default::default()),
            Function::Sum | Function::Average => Cell::Int(0, Default::default()),
            Function::Spread(_) if float => Cell::FloatSpread(0, Default::default()),
            Function::Spread(_) => Cell::IntSpread(0, Default::default()),
            Function::And | Function::Or => Cell::Truth(0, 0),
        }
    }

    /// The answers, one for each group, and the groups whose answer its type can't hold.
    #[must_use]
    pub fn answers(&self, groups: &[Accumulator], at: usize) -> (ArrayRef, Vec<usize>) {
        let empty = self.empty();
        let cells = || groups.iter().map(|group| group.cells.get(at).unwrap_or(&empty));
        let mut misfits = Vec::new();
        let mut fitting = |group: usize, count: i64, value: Option<i128>| {
            if count > 0 && value.is_none() {
                misfits.push(group);
            }
            value.filter(|_| count > 0)
        };
        let array: ArrayRef = match (self.function, &self.kind) {
            (Function::Rows, _) => Arc::new(groups.iter().map(|group| Some(group.rows)).collect::<Int64Array>()),
            (Function::Count, _) => Arc::new(cells().map(|cell| Some(count(cell))).collect::<Int64Array>()),
            (Function::And, _) => {
                Arc::new(cells().map(|cell| truth(cell, |_, falses| falses == 0)).collect::<BooleanArray>())
            }
            (Function::Or, _) => {
                Arc::new(cells().map(|cell| truth(cell, |trues, _| trues > 0)).collect::<BooleanArray>())
            }
            (Function::Spread(what), _) => {
                let scale =
                    if let Some(Numbers::Decimal(scale)) = Numbers::of(&self.argument_type) { scale } else { 0 };
                Arc::new(cells().map(|cell| spread(cell, scale, what)).collect::<Float64Array>())
            }
            (Function::Sum, DataType::Float64) => Arc::new(cells().map(double).collect::<Float64Array>()),
            (Function::Average, DataType::Float64) => {
                Arc::new(cells().map(|cell| self.average(cell)).collect::<Float64Array>())
            }
            (Function::Sum, DataType::Int64) => {
                let sums = cells().enumerate().map(|(group, cell)| {
                    let (count, sum) = int(cell);
                    fitting(group, count, sum.to_i64().map(i128::from)).and_then(|sum| i64::try_from(sum).ok())
                });
                Arc::new(sums.collect::<Int64Array>())
            }
            (Function::Sum, DataType::UInt64) => {
                let sums = cells().enumerate().map(|(group, cell)| {
                    let (count, sum) = int(cell);
                    let sum = sum.to_i128(20).and_then(|sum| u64::try_from(sum).ok());
                    fitting(group, count, sum.map(i128::from)).and(sum)
                });
                Arc::new(sums.collect::<UInt64Array>())
            }
            (Function::Sum, DataType::Decimal128(precision, scale)) => {
                let sums = cells().enumerate().map(|(group, cell)| {
                    let (count, sum) = int(cell);
                    fitting(group, count, sum.to_i128(*precision))
                });
                Arc::new(decimals(sums.collect(), *precision, *scale))
            }
            (Function::Average, DataType::Decimal128(precision, scale)) => {
                let Some(Numbers::Decimal(had)) = Numbers::of(&self.argument_type) else {
                    unreachable!("a decimal's average")
                };
                let more = scale.unsigned_abs().saturating_sub(had);
                let averages = cells().enumerate().map(|(group, cell)| {
                    let (count, sum) = int(cell);
                    match sum.decimal_average(count, more, *precision) {
                        DecimalAverage::Null => None,
                        DecimalAverage::Value(value) => Some(value),
                        DecimalAverage::DoesNotFit => fitting(group, count, None),
                    }
                });
                Arc::new(decimals(averages.collect(), *precision, *scale))
            }
            (function, kind) => unreachable!("{function:?} as {kind}, which it does not take"),
        };
        (array, misfits)
    }

    fn average(&self, cell: &Cell) -> Option<f64> {
        match cell {
            Cell::Int(count, sum) => sum.average(*count),
            Cell::Float(count, sum) => sum.average(*count),
            other => unreachable!("{}: {other:?}", self.text),
        }
    }
}

fn count(cell: &Cell) -> i64 {
    match cell {
        Cell::Count(count) => *count,
        other => unreachable!("a count: {other:?}"),
    }
}

fn int(cell: &Cell) -> (i64, &crate::exact::IntSum) {
    match cell {
        Cell::Int(count, sum) => (*count, sum),
        other => unreachable!("a sum of integers: {other:?}"),
    }
}

fn double(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Float(count, sum) => (*count > 0).then(|| sum.to_f64()),
        other => unreachable!("a sum of doubles: {other:?}"),
    }
}

fn truth(cell: &Cell, answer: impl Fn(i64, i64) -> bool) -> Option<bool> {
    match cell {
        Cell::Truth(0, 0) => None,
        Cell::Truth(trues, falses) => Some(answer(*trues, *falses)),
        other => unreachable!("truth values: {other:?}"),
    }
}

fn spread(cell: &Cell, scale: u8, what: Spread) -> Option<f64> {
    match cell {
        Cell::IntSpread(count, sums) => sums[0].spread(&sums[1], *count, scale, what),
        Cell::FloatSpread(count, sums) => sums[0].spread(&sums[1], *count, what),
        other => unreachable!("a spread: {other:?}"),
    }
}

fn decimals(values: Vec<Option<i128>>, precision: u8, scale: i8) -> Decimal128Array {
    let array = Decimal128Array::from(values);
    array.with_precision_and_scale(precision, scale).expect("a decimal type of the plan")
}

impl Values {
    /// Adds `weight` copies of row `row` to `cell`.
    #[inline]
    pub fn add(&self, cell: &mut Cell, row: usize, weight: i64) {
        match (self, cell) {
            (Self::Any(values), Cell::Count(count)) => *count += if values.is_null(row) { 0 } else { weight },
            (Self::Ints(values), Cell::Int(count, sum)) if values.is_valid(row) => {
                *count += weight;
                sum.add(values.value(row), weight);
            }
            (Self::Decimals(values), Cell::Int(count, sum)) if values.is_valid(row) => {
                *count += weight;
                sum.add_i128(values.value(row), weight);
            }
            (Self::Floats(values), Cell::Float(count, sum)) if values.is_valid(row) => {
                *count += weight;
                sum.add(values.value(row), weight);
            }
            (Self::Ints(values), Cell::IntSpread(count, sums)) if values.is_valid(row) => {
                *count += weight;
                sums[0].add(values.value(row), weight);
                sums[1].add_square(i128::from(values.value(row)), weight);
            }
            (Self::Decimals(values), Cell::IntSpread(count, sums)) if values.is_valid(row) => {
                *count += weight;
                sums[0].add_i128(values.value(row), weight);
                sums[1].add_square(values.value(row), weight);
            }
            (Self::Floats(values), Cell::FloatSpread(count, sums)) if values.is_valid(row) => {
                *count += weight;
                sums[0].add(values.value(row), weight);
                sums[1].add_square(values.value(row), weight);
            }
            (Self::Truths(values), Cell::Truth(trues, falses)) if values.is_valid(row) => {
                *(if values.value(row) { trues } else { falses }) += weight;
            }
            _ => {}
        }
    }
}
