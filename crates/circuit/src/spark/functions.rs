//! Functions and conversions.

use arrow_schema::{DataType, TimeUnit};
use datafusion::functions::{core, datetime, math, string, unicode};
use datafusion::logical_expr::{Expr, Operator, cast, lit};
use datafusion::sql::sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::unify::{self, Kind, converted};
use super::{Made, Scope, Typed, binary, is_timestamp, unknown};
use crate::refused::Refused;

/// A timestamp without a zone: of one with, its time in UTC.
const LOCAL: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// A call of a function, in any of the forms that the parser knows; `None` for what is none.
pub(super) fn call(scope: &Scope<'_>, expr: &ast::Expr) -> Option<Made> {
    let made = |made: Result<Option<Typed>, Refused>| Some(made.and_then(|made| made.ok_or_else(|| unknown(expr))));
    match expr {
        ast::Expr::Function(function) => {
            let (name, arguments) = match parts(scope, function)? {
                Ok(parts) => parts,
                Err(refused) => return Some(Err(refused)),
            };
            made(Ok(of(&name, arguments)))
        }
        ast::Expr::Substring { expr: text, substring_from: Some(from), substring_for, .. } => {
            let parts = [Some(text), Some(from), substring_for.as_ref()].into_iter().flatten();
            let arguments: Result<Vec<_>, _> = parts.map(|part| scope.expr(part)).collect();
            made(arguments.map(|arguments| of("substring", arguments)))
        }
        ast::Expr::Trim { expr: text, trim_where: None, trim_what: None, trim_characters: None } => {
            made(scope.expr(text).map(|text| of("trim", vec![text])))
        }
        ast::Expr::Extract { field, expr: time, .. } => {
            made(scope.expr(time).map(|time| of(&field.to_string().to_lowercase(), vec![time])))
        }
        _ => None,
    }
}

/// Name and arguments of a plain call; `None` for one with more to it.
fn parts(scope: &Scope<'_>, function: &ast::Function) -> Option<Result<(String, Vec<Typed>), Refused>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = function.filter.is_none() && function.over.is_none() && function.within_group.is_empty();
    if !plain || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return None;
    }
    let mut arguments = Vec::with_capacity(list.args.len());
    for argument in &list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument else { return None };
        match scope.expr(argument) {
            Ok(argument) => arguments.push(argument),
            Err(refused) => return Some(Err(refused)),
        }
    }
    Some(Ok((function.name.to_string().to_lowercase(), arguments)))
}

/// The function of this name; `None` for one that is not sure to mean the same.
fn of(name: &str, mut arguments: Vec<Typed>) -> Option<Typed> {
    match name {
        "concat" => return joined(arguments),
        "coalesce" | "ifnull" | "nvl" => {
            let (values, kind) = unify::all(arguments)?;
            return Some(plain(core::coalesce().call(values), kind));
        }
        "if" => {
            let otherwise = arguments.pop()?;
            let (condition, then) = (arguments.first()?.clone(), arguments.get(1)?.clone());
            let (mut values, kind) = unify::all(vec![then, otherwise])?;
            let (otherwise, then) = (values.pop()?, values.pop()?);
            let is_condition = condition.kind == DataType::Boolean && arguments.len() == 2;
            let case = datafusion::logical_expr::when(condition.expr, then).otherwise(otherwise).ok()?;
            return is_condition.then(|| plain(case, kind));
        }
        _ => {}
    }
    let rest = arguments.split_off(1.min(arguments.len()));
    let first = arguments.pop()?;
    match (name, rest.as_slice()) {
        ("length" | "char_length" | "character_length" | "len", []) if first.kind == DataType::Utf8 => {
            Some(plain(cast(unicode::character_length().call(vec![first.expr]), DataType::Int32), DataType::Int32))
        }
        ("lower" | "lcase", []) => text(string::lower().call(vec![first.expr.clone()]), &first),
        ("upper" | "ucase", []) => text(string::upper().call(vec![first.expr.clone()]), &first),
        ("trim", []) => text(string::btrim().call(vec![first.expr.clone()]), &first),
        ("ltrim", []) => text(string::ltrim().call(vec![first.expr.clone()]), &first),
        ("rtrim", []) => text(string::rtrim().call(vec![first.expr.clone()]), &first),
        ("substring" | "substr", [from, length @ ..]) => substring(first, from, length),
        ("left", [length]) => {
            let length = whole(length).filter(|length| *length >= 0)?;
            text(unicode::left().call(vec![first.expr.clone(), lit(length)]), &first)
        }
        ("abs", []) if Kind::of(&first.kind) == Kind::Integer => {
            let value = converted(first, &DataType::Int64);
            Some(plain(math::abs().call(vec![value]), DataType::Int64))
        }
        ("abs", []) if Kind::of(&first.kind) == Kind::Float => {
            let kind = first.kind.clone();
            Some(plain(math::abs().call(vec![first.expr]), kind))
        }
        ("mod", [by]) => {
            let (left, right, kind) = unify::unified(first, by.clone())?;
            (kind == DataType::Int64).then(|| plain(binary(left, Operator::Modulo, right), kind))
        }
        ("date" | "to_date", []) => day(first),
        ("year" | "quarter" | "month" | "hour" | "minute", []) => time_part(name, first),
        ("day" | "dayofmonth", []) => time_part("day", first),
        ("date_trunc", [time]) => truncated(&first, time.clone()),
        ("date_format", [format]) => formatted(first, format),
        _ => None,
    }
}

fn plain(expr: Expr, kind: DataType) -> Typed {
    Typed { expr, kind, literal: false }
}

fn text(expr: Expr, argument: &Typed) -> Option<Typed> {
    (argument.kind == DataType::Utf8).then(|| plain(cast(expr, DataType::Utf8), DataType::Utf8))
}

/// Texts end to end; NULL where one is.
pub(super) fn joined(texts: Vec<Typed>) -> Option<Typed> {
    let mut texts = texts.into_iter();
    let first = texts.next().filter(|text| text.kind == DataType::Utf8)?;
    texts.try_fold(first, |before, next| {
        let expr = binary(before.expr, Operator::StringConcat, next.expr);
        (next.kind == DataType::Utf8).then(|| plain(expr, DataType::Utf8))
    })
}

fn whole(argument: &Typed) -> Option<i64> {
    use datafusion::common::ScalarValue;
    match &argument.expr {
        Expr::Literal(ScalarValue::Int32(Some(value)), _) => Some(i64::from(*value)),
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some(*value),
        _ => None,
    }
}

/// From a place counted from 1 on; 0 means 1, and from the end it is counted otherwise than here.
fn substring(value: Typed, from: &Typed, length: &[Typed]) -> Option<Typed> {
    let from = whole(from).filter(|from| *from >= 0)?.max(1);
    let mut arguments = vec![value.expr.clone(), lit(from)];
    match length {
        [] => {}
        [length] => arguments.push(lit(whole(length).filter(|length| *length >= 0)?)),
        _ => return None,
    }
    text(unicode::substr().call(arguments), &value)
}

/// A date or timestamp, as the latter without a zone.
fn local(time: Typed) -> Option<Expr> {
    let fits = time.kind == DataType::Date32 || is_timestamp(&time.kind);
    fits.then(|| if time.kind == LOCAL { time.expr } else { cast(time.expr, LOCAL) })
}

/// The day of a date or timestamp.
fn day(time: Typed) -> Option<Typed> {
    if time.kind == DataType::Date32 {
        return Some(time);
    }
    // Towards the past also before 1970.
    let start = crate::functions::date_trunc("day", local(time)?);
    Some(plain(cast(start, DataType::Date32), DataType::Date32))
}

fn time_part(part: &str, time: Typed) -> Option<Typed> {
    let value = datetime::date_part().call(vec![lit(part), local(time)?]);
    Some(plain(cast(value, DataType::Int32), DataType::Int32))
}

fn literal_text(argument: &Typed) -> Option<&str> {
    match &argument.expr {
        Expr::Literal(datafusion::common::ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

fn truncated(unit: &Typed, time: Typed) -> Option<Typed> {
    let unit = match literal_text(unit)?.to_ascii_lowercase().as_str() {
        "year" | "yyyy" | "yy" => "year",
        "quarter" => "quarter",
        "month" | "mm" | "mon" => "month",
        "week" => "week",
        "day" | "dd" => "day",
        "hour" => "hour",
        "minute" => "minute",
        "second" => "second",
        _ => return None,
    };
    // Of a date Spark makes a timestamp.
    let kind = match &time.kind {
        DataType::Date32 => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        kind => kind.clone(),
    };
    let start = crate::functions::date_trunc(unit, local(time)?);
    Some(plain(if kind == LOCAL { start } else { cast(start, kind.clone()) }, kind))
}

/// A pattern of digits alone; names of months and days hang on a language.
fn formatted(time: Typed, pattern: &Typed) -> Option<Typed> {
    let mut rest = literal_text(pattern)?;
    let mut format = String::new();
    while let Some(first) = rest.chars().next() {
        let run = rest.len() - rest.trim_start_matches(first).len();
        format.push_str(match &rest[..run] {
            "yyyy" => "%Y",
            "MM" => "%m",
            "dd" => "%d",
            "HH" => "%H",
            "mm" => "%M",
            "ss" => "%S",
            run if matches!(first, '-' | '/' | '.' | ':' | ' ' | '_') => run,
            _ => return None,
        });
        rest = &rest[run..];
    }
    Some(plain(cast(datetime::to_char().call(vec![local(time)?, lit(format)]), DataType::Utf8), DataType::Utf8))
}

/// `CAST(value AS kind)`; `None` for a conversion that is not sure to mean the same.
pub(super) fn cast_to(value: Typed, kind: &ast::DataType) -> Option<Made> {
    use ast::DataType as T;
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let to = match kind {
        T::TinyInt(None) => DataType::Int8,
        T::SmallInt(None) => DataType::Int16,
        T::Int(None) | T::Integer(None) => DataType::Int32,
        T::BigInt(None) => DataType::Int64,
        T::Double(_) => DataType::Float64,
        T::String(None) => DataType::Utf8,
        T::Date => DataType::Date32,
        T::Timestamp(None, _) => timestamp.clone(),
        T::Custom(name, _) if name.to_string().eq_ignore_ascii_case("long") => DataType::Int64,
        _ => return None,
    };
    let from = Kind::of(&value.kind);
    if value.kind == to || from == Kind::Null {
        return Some(Ok(plain(converted(value, &to), to)));
    }
    match (from, &to) {
        (Kind::Integer, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Utf8)
        | (Kind::Float, DataType::Float64) => Some(Ok(plain(cast(value.expr, to.clone()), to))),
        // Every integer of 32 bits is a double.
        (Kind::Integer, DataType::Float64) if value.kind != DataType::Int64 => {
            Some(Ok(plain(cast(value.expr, to.clone()), to)))
        }
        (Kind::Time, DataType::Date32) => day(value).map(Ok),
        (Kind::Time, DataType::Utf8) if value.kind == DataType::Date32 => {
            Some(Ok(plain(cast(value.expr, to.clone()), to)))
        }
        (Kind::Time, to) if *to == timestamp && value.kind == DataType::Date32 => {
            Some(Ok(plain(cast(value.expr, timestamp.clone()), timestamp)))
        }
        (Kind::Text, DataType::Date32) => Some(unify::date(literal_text(&value)?)),
        (Kind::Text, to) if *to == timestamp => Some(unify::timestamp(literal_text(&value)?)),
        _ => None,
    }
}
