//! SQL's types as Arrow's. What can't be kept exactly as declared is refused, with what to write instead.

use std::sync::Arc;

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, Fields, TimeUnit};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType as SqlType, ExactNumberInfo, Ident, StructField, TimezoneInfo,
};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::error::{Place, Problem};

/// How deep arrays, structs and maps may be nested in each other.
const MAX_TYPE_DEPTH: usize = 16;

/// Reads a type.
pub(super) fn read(cursor: &mut Cursor) -> Result<DataType, Problem> {
    let place = cursor.place();
    check_depth(cursor, place)?;
    let sql = cursor.sql(|parser| parser.parse_data_type())?;
    arrow(&sql).map_err(|message| Problem::new(place, message))
}

/// The parser descends once for each bracket, without a bound of its own.
fn check_depth(cursor: &Cursor, place: Place) -> Result<(), Problem> {
    let (mut depth, mut arrays) = (0_usize, 0_usize);
    for (token, _) in cursor.ahead() {
        match token {
            Token::Lt | Token::LParen => depth += 1,
            Token::LBracket => arrays += 1,
            Token::Gt | Token::RParen if depth > 0 => depth -= 1,
            Token::ShiftRight => depth = depth.saturating_sub(2),
            Token::Comma | Token::RParen if depth == 0 => break,
            _ => {}
        }
        if depth + arrays > MAX_TYPE_DEPTH {
            return Err(Problem::new(place, format!("the type is nested more than {MAX_TYPE_DEPTH} deep")));
        }
    }
    Ok(())
}

/// The Arrow type of an SQL type, or what is wrong with it.
fn arrow(sql: &SqlType) -> Result<DataType, String> {
    let timestamp = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Arc::from));
    match sql {
        SqlType::Boolean | SqlType::Bool => Ok(DataType::Boolean),
        SqlType::TinyInt(None) => Ok(DataType::Int8),
        SqlType::SmallInt(None) | SqlType::Int2(None) => Ok(DataType::Int16),
        SqlType::Int(None) | SqlType::Integer(None) | SqlType::Int4(None) => Ok(DataType::Int32),
        SqlType::BigInt(None) | SqlType::Int8(None) => Ok(DataType::Int64),
        SqlType::Real | SqlType::Float4 | SqlType::Float(ExactNumberInfo::None) => Ok(DataType::Float32),
        SqlType::Float8 | SqlType::DoublePrecision | SqlType::Double(ExactNumberInfo::None) => Ok(DataType::Float64),
        SqlType::Decimal(info) | SqlType::Numeric(info) | SqlType::Dec(info) => decimal(*info),
        SqlType::Text | SqlType::String(None) | SqlType::Varchar(None) => Ok(DataType::Utf8),
        SqlType::CharacterVarying(None) | SqlType::CharVarying(None) => Ok(DataType::Utf8),
        SqlType::Bytea | SqlType::Binary(None) | SqlType::Varbinary(None) => Ok(DataType::Binary),
        SqlType::Blob(None) | SqlType::Bytes(None) => Ok(DataType::Binary),
        SqlType::Date => Ok(DataType::Date32),
        SqlType::Timestamp(None | Some(6), zone) => Ok(timestamp(match zone {
            TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => None,
            TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => Some("UTC"),
        })),
        SqlType::TimestampNtz(None | Some(6)) | SqlType::Datetime(None | Some(6)) => Ok(timestamp(None)),
        SqlType::Array(element) => array(element),
        SqlType::Struct(fields, _) => structure(fields),
        SqlType::Map(key, value) => map(key, value),
        other => Err(refused(other)),
    }
}

fn decimal(info: ExactNumberInfo) -> Result<DataType, String> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Err("DECIMAL needs its digits: write DECIMAL(precision, scale)".to_owned()),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let max = DECIMAL128_MAX_PRECISION;
    let precision = u8::try_from(precision).ok().filter(|digits| (1..=max).contains(digits));
    let precision = precision.ok_or_else(|| format!("a DECIMAL has from 1 to {max} digits"))?;
    let scale = i8::try_from(scale).ok().filter(|scale| *scale >= 0 && scale.unsigned_abs() <= precision);
    let scale = scale.ok_or_else(|| format!("the scale of this DECIMAL is from 0 to {precision}"))?;
    Ok(DataType::Decimal128(precision, scale))
}

fn array(element: &ArrayElemTypeDef) -> Result<DataType, String> {
    match element {
        ArrayElemTypeDef::AngleBracket(inner) | ArrayElemTypeDef::SquareBracket(inner, None) => {
            Ok(DataType::List(Arc::new(Field::new_list_field(arrow(inner)?, true))))
        }
        ArrayElemTypeDef::SquareBracket(inner, Some(_)) => Err(format!("arrays have no fixed length: write {inner}[]")),
        ArrayElemTypeDef::None | ArrayElemTypeDef::Parenthesis(_) => {
            Err("an array names its elements' type: write BIGINT[] or ARRAY<BIGINT>".to_owned())
        }
    }
}

fn structure(fields: &[StructField]) -> Result<DataType, String> {
    let example = "write STRUCT<a BIGINT, b TEXT>";
    let mut found: Vec<Field> = Vec::with_capacity(fields.len());
    for field in fields {
        let name = field.field_name.as_ref().map(normal);
        let name = name.ok_or_else(|| format!("a field of a STRUCT has a name: {example}"))?;
        if field.options.is_some() {
            return Err(format!("a field of a STRUCT takes no OPTIONS: {example}"));
        }
        if found.iter().any(|other| *other.name() == name) {
            return Err(format!("the STRUCT has two fields `{name}`"));
        }
        found.push(Field::new(name, arrow(&field.field_type)?, true));
    }
    if found.is_empty() {
        return Err(format!("a STRUCT has at least one field: {example}"));
    }
    Ok(DataType::Struct(Fields::from(found)))
}

fn map(key: &SqlType, value: &SqlType) -> Result<DataType, String> {
    let (key, value) = (arrow(key)?, arrow(value)?);
    if !can_be_key(&key) {
        return Err("the key of a MAP is a number without fraction, a text, a date or the like".to_owned());
    }
    let fields = vec![Field::new("key", key, false), Field::new("value", value, true)];
    let entries = Field::new("entries", DataType::Struct(Fields::from(fields)), false);
    Ok(DataType::Map(Arc::new(entries), false))
}

/// Whether values of a type can name a row: equal exactly when they are the same.
pub(super) fn can_be_key(kind: &DataType) -> bool {
    !kind.is_nested() && !kind.is_floating()
}

fn normal(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

fn refused(sql: &SqlType) -> String {
    let instead = match sql {
        SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Character(_) | SqlType::String(_) => {
            "TEXT: lengths are not held"
        }
        SqlType::Nvarchar(_) | SqlType::CharacterVarying(_) | SqlType::CharVarying(_) => "TEXT: lengths are not held",
        SqlType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => "TIMESTAMPTZ: it has microseconds",
        SqlType::Timestamp(..) | SqlType::Datetime(_) | SqlType::TimestampNtz(_) => "TIMESTAMP: it has microseconds",
        SqlType::Uuid => "TEXT",
        SqlType::JSON | SqlType::JSONB => "TEXT: it takes any JSON value as its text",
        SqlType::Time(..) => "TEXT, or BIGINT for a count of microseconds",
        SqlType::Interval { .. } => "BIGINT, and say the unit in the column's name",
        SqlType::TinyInt(_) | SqlType::SmallInt(_) | SqlType::Int(_) | SqlType::Integer(_) | SqlType::BigInt(_) => {
            "it without a width"
        }
        SqlType::Float(_) | SqlType::Double(_) => "DOUBLE, or DECIMAL(precision, scale) for exact digits",
        SqlType::UBigInt | SqlType::BigIntUnsigned(_) => "DECIMAL(20, 0): Delta tables have no unsigned numbers",
        SqlType::IntUnsigned(_) | SqlType::IntegerUnsigned(_) | SqlType::TinyIntUnsigned(_) => {
            "BIGINT: Delta tables have no unsigned numbers"
        }
        SqlType::SmallIntUnsigned(_) | SqlType::UTinyInt | SqlType::USmallInt => {
            "BIGINT: Delta tables have no unsigned numbers"
        }
        SqlType::Binary(_) | SqlType::Varbinary(_) | SqlType::Blob(_) | SqlType::Bytes(_) => {
            "BYTEA: lengths are not held"
        }
        SqlType::Custom(name, _) if name.to_string().eq_ignore_ascii_case("TIMESTAMP_LTZ") => "TIMESTAMPTZ",
        _ => return format!("{} is no type of a column; {KNOWN}", shown(sql)),
    };
    format!("{} is no type of a column; write {instead}", shown(sql))
}

fn shown(sql: &SqlType) -> String {
    format!("`{sql}`")
}

const KNOWN: &str = "known are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, REAL, DOUBLE, DECIMAL(p, s), TEXT, BYTEA, DATE, \
                     TIMESTAMP, TIMESTAMPTZ, and of these T[], STRUCT<a T, ..> and MAP(K, V)";
