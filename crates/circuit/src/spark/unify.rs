//! Types that meet in an expression, and literals.

use arrow_schema::{DataType, TimeUnit};
use chrono::{NaiveDate, NaiveDateTime};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, cast, lit};

use super::{Made, Typed, is_timestamp};
use crate::refused::Refused;

/// What types have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Integer,
    Float,
    Decimal,
    Text,
    Time,
    Other,
}

impl Kind {
    pub(super) fn of(kind: &DataType) -> Self {
        match kind {
            DataType::Null => Self::Null,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Self::Integer,
            DataType::Float32 | DataType::Float64 => Self::Float,
            DataType::Decimal128(..) => Self::Decimal,
            DataType::Utf8 => Self::Text,
            DataType::Date32 => Self::Time,
            kind if is_timestamp(kind) => Self::Time,
            _ => Self::Other,
        }
    }
}

/// Both as values of one type, in which comparing them is exact; `None` where there is none that is also Spark's way.
pub(super) fn unified(left: Typed, right: Typed) -> Option<(Expr, Expr, DataType)> {
    let (left, right) = (as_time(left, &right.kind.clone()), right);
    let right = as_time(right, &left.kind);
    let kind = common(&left, &right)?;
    Some((converted(left, &kind), converted(right, &kind), kind))
}

/// All as values of one type.
pub(super) fn all(values: Vec<Typed>) -> Option<(Vec<Expr>, DataType)> {
    let mut kind = Typed { expr: lit(ScalarValue::Null), kind: DataType::Null, literal: true };
    for value in &values {
        kind.kind = common(&kind, value)?;
    }
    let kind = kind.kind;
    Some((values.into_iter().map(|value| converted(value, &kind)).collect(), kind))
}

fn common(left: &Typed, right: &Typed) -> Option<DataType> {
    let scale = |kind: &DataType| if let DataType::Decimal128(_, scale) = kind { *scale } else { 0 };
    Some(match (Kind::of(&left.kind), Kind::of(&right.kind)) {
        (Kind::Null, _) => widest(&right.kind),
        (_, Kind::Null) => widest(&left.kind),
        (Kind::Integer, Kind::Integer) => DataType::Int64,
        (Kind::Float, Kind::Float) => DataType::Float64,
        (Kind::Float, Kind::Integer | Kind::Decimal) => float_with(left, right)?,
        (Kind::Integer | Kind::Decimal, Kind::Float) => float_with(right, left)?,
        (Kind::Integer | Kind::Decimal, Kind::Integer | Kind::Decimal) => {
            DataType::Decimal128(38, scale(&left.kind).max(scale(&right.kind)))
        }
        (Kind::Time, Kind::Time) if left.kind == right.kind => left.kind.clone(),
        (Kind::Time, Kind::Time) => match (&left.kind, &right.kind) {
            (DataType::Date32, other) | (other, DataType::Date32) => other.clone(),
            _ => return None,
        },
        (Kind::Other, Kind::Other) if left.kind == DataType::Boolean && right.kind == DataType::Boolean => {
            DataType::Boolean
        }
        (a, b) if a == b && a != Kind::Other => left.kind.clone(),
        _ => return None,
    })
}

fn widest(kind: &DataType) -> DataType {
    match Kind::of(kind) {
        Kind::Integer => DataType::Int64,
        Kind::Float => DataType::Float64,
        _ => kind.clone(),
    }
}

/// Spark makes FLOAT of an integer that meets one, and loses digits: only literals that both have.
fn float_with(float: &Typed, other: &Typed) -> Option<DataType> {
    let single = float.kind == DataType::Float32;
    let exact = match &other.expr {
        Expr::Literal(ScalarValue::Int32(Some(value)), _) => value.unsigned_abs() < 1 << 24,
        // It makes DOUBLE of both where one is a decimal.
        _ => Kind::of(&other.kind) == Kind::Decimal,
    };
    (!single || exact).then_some(DataType::Float64)
}

/// A text literal that meets a date or a timestamp, as one.
fn as_time(text: Typed, other: &DataType) -> Typed {
    let Expr::Literal(ScalarValue::Utf8(Some(value)), _) = &text.expr else { return text };
    let read = match other {
        DataType::Date32 => date(value),
        kind if is_timestamp(kind) => timestamp(value),
        _ => return text,
    };
    match read {
        Ok(time) if is_timestamp(other) => Typed { expr: cast(time.expr, other.clone()), kind: other.clone(), ..time },
        Ok(time) => time,
        Err(_) => text,
    }
}

/// The same value as another type that holds it.
pub(super) fn converted(value: Typed, kind: &DataType) -> Expr {
    match &value.expr {
        _ if value.kind == *kind => value.expr,
        Expr::Literal(literal, metadata) => match literal.cast_to(kind) {
            Ok(literal) => Expr::Literal(literal, metadata.clone()),
            Err(_) => cast(value.expr, kind.clone()),
        },
        _ => cast(value.expr, kind.clone()),
    }
}

/// A value as a column of this type stores it: numbers of another width must fit, row by row.
pub(super) fn stored_as(value: Typed, column: &DataType) -> Result<Expr, Refused> {
    let same = value.kind == *column || value.kind == DataType::Null;
    let value = as_time(value, column);
    let fits = match (Kind::of(&value.kind), Kind::of(column)) {
        (Kind::Integer, Kind::Integer | Kind::Decimal) | (Kind::Float, Kind::Float) => true,
        (Kind::Integer | Kind::Decimal, Kind::Float) => value.literal,
        (Kind::Decimal, Kind::Decimal) => value.literal,
        (Kind::Time, Kind::Time) => value.kind == *column,
        _ => false,
    };
    if same || fits {
        return Ok(converted(value, column));
    }
    Err(Refused::new(format!("values of type {} do not go into a column of type {column}", value.kind)))
}

/// A literal of a number, of the type that Spark takes it for.
pub(super) fn number(text: &str) -> Made {
    let wrong = || Refused::new(format!("{text} is a number of a kind that is not taken"));
    let made = |value: ScalarValue| Typed { kind: value.data_type(), expr: lit(value), literal: true };
    if let Ok(value) = text.parse::<i32>() {
        return Ok(made(ScalarValue::Int32(Some(value))));
    }
    if let Ok(value) = text.parse::<i64>() {
        return Ok(made(ScalarValue::Int64(Some(value))));
    }
    if text.contains(['e', 'E']) {
        return text.parse().map(|value| made(ScalarValue::Float64(Some(value)))).map_err(|_| wrong());
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    let value: i128 = digits.parse().map_err(|_| wrong())?;
    let scale = i8::try_from(fraction.len()).map_err(|_| wrong())?;
    let most = digits.trim_start_matches('-').len();
    let precision = u8::try_from(most).ok().filter(|most| *most <= 38).ok_or_else(wrong)?;
    Ok(made(ScalarValue::Decimal128(Some(value), precision, scale)))
}

/// A date as `2024-02-29`.
pub(super) fn date(text: &str) -> Made {
    let wrong = || Refused::new(format!("'{text}' is no date as 2024-02-29"));
    let date = (text.len() == 10).then(|| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()).flatten();
    let days = date.ok_or_else(wrong)?.signed_duration_since(NaiveDate::default()).num_days();
    let days = i32::try_from(days).map_err(|_| wrong())?;
    Ok(Typed { expr: lit(ScalarValue::Date32(Some(days))), kind: DataType::Date32, literal: true })
}

/// A timestamp as `2024-02-29 12:00:00`, with or without time and fraction, in UTC.
pub(super) fn timestamp(text: &str) -> Made {
    let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok();
    let time = time.or_else(|| NaiveDateTime::parse_from_str(&format!("{text} 00:00:00"), "%Y-%m-%d %H:%M:%S").ok());
    let time = time.ok_or_else(|| Refused::new(format!("'{text}' is no timestamp as 2024-02-29 12:00:00")))?;
    let (micros, zone) = (time.and_utc().timestamp_micros(), Some("UTC".into()));
    let value = ScalarValue::TimestampMicrosecond(Some(micros), zone.clone());
    Ok(Typed { expr: lit(value), kind: DataType::Timestamp(TimeUnit::Microsecond, zone), literal: true })
}
