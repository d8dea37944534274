//! One value without parts into one column, by its type's meaning and the column's.
//!
//! The rules are those that JSON has (`crate::scalar`), with what a type adds:
//!
//! | type | goes into |
//! |---|---|
//! | date | date, timestamp (midnight UTC), string (`2021-11-11`), and as a number: days |
//! | timestamp-*, local-timestamp-* | timestamp with or without zone, date (midnight alone), string (ISO 8601), and as a number: its own unit |
//! | time-millis, time-micros | string (`22:11:58.123`), and as a number: its own unit |
//! | decimal, big-decimal | decimal and whole numbers exactly, float and double rounded, string (its digits) |
//! | bytes, fixed | binary; string where they are UTF-8 |
//! | string | as JSON's text; binary (its UTF-8) |
//! | uuid | string; binary (16 bytes) |
//! | enum | as a string |
//! | duration | string (`P1M2DT3.004S`); binary (12 bytes) |

use std::fmt::Write as _;

use apache_avro::Uuid;

use crate::column::{Column, Data};
use crate::error::{BadKind, Fail, Refused};
use crate::time::{MICROS_A_DAY, date_text, iso8601};

use super::datum::{Datum, NO_SYMBOL};
use super::schema::{Node, Unit, Zone};

/// Reads a value of `node`, which has no parts, into `column`.
#[inline]
pub(crate) fn read(datum: &mut Datum, node: &Node, column: &mut Column) -> Result<(), Refused> {
    match node {
        Node::String => text(datum.string()?, column),
        Node::Long => column.put_integer(datum.long()?),
        Node::Int => column.put_integer(datum.int()?.into()),
        Node::Double => double(f64::from_le_bytes(datum.array()?), column),
        Node::Boolean => column.put_boolean(datum.boolean()?),
        Node::Timestamp(unit, zone) => timestamp(datum.long()?, *unit, *zone, column),
        Node::Null => column.push_null_checked("it is null, and the column is NOT NULL"),
        Node::Enum(symbols) => column.put_string(&symbols[datum.index(symbols.len(), NO_SYMBOL)?]),
        rare => read_rare(datum, rare, column),
    }
}

fn read_rare(datum: &mut Datum, node: &Node, column: &mut Column) -> Result<(), Refused> {
    match node {
        Node::Float => float(f32::from_le_bytes(datum.array()?), column),
        Node::Bytes => column.put_bytes(datum.bytes()?),
        Node::Fixed(size) => column.put_bytes(datum.take(*size)?),
        Node::Date => date(datum.int()?, column),
        Node::TimeMillis => time(i64::from(datum.int()?), Unit::Millis, column),
        Node::TimeMicros => time(datum.long()?, Unit::Micros, column),
        Node::Decimal { scale, size, .. } => decimal(datum.sized(*size)?, *scale, column),
        Node::BigDecimal => {
            let (digits, scale) = datum.big_decimal()?;
            decimal(digits, scale, column)
        }
        Node::UuidText => uuid(datum.uuid_text()?, column),
        Node::UuidBytes(size) => uuid(datum.uuid_bytes(*size)?, column),
        Node::Duration => duration(datum.array()?, column),
        other => unreachable!("{other:?} has parts, or is seen to by `read`"),
    }
}

#[inline]
fn text(text: &str, column: &mut Column) -> Result<(), Refused> {
    match &mut column.data {
        Data::String(column) => column.push(text),
        Data::Binary(_) => column.put_bytes(text.as_bytes()),
        _ => column.put_string(text),
    }
}

#[inline]
pub(crate) fn double(value: f64, column: &mut Column) -> Result<(), Refused> {
    if let Data::Double(values) = &mut column.data {
        values.push(value);
        return Ok(());
    }
    // The shortest text that tells it from all others: what JSON would have.
    column.put_number(&format!("{value:?}"))
}

pub(crate) fn float(value: f32, column: &mut Column) -> Result<(), Refused> {
    match &mut column.data {
        Data::Float(values) => values.push(value),
        Data::Double(values) => values.push(value.into()),
        _ => return column.put_number(&format!("{value:?}")),
    }
    Ok(())
}

fn date(days: i32, column: &mut Column) -> Result<(), Refused> {
    match &mut column.data {
        Data::Timestamp(values) => {
            let too_far =
                || Fail::text(BadKind::DoesNotFit, format!("{days} days since 1970 is beyond all timestamps"));
            values.push(i64::from(days).checked_mul(MICROS_A_DAY).ok_or_else(too_far)?);
            Ok(())
        }
        Data::String(_) => match date_text(days) {
            Some(text) => column.put_string(&text),
            None => Err(no_text(days)),
        },
        _ => column.put_integer(days.into()),
    }
}

#[cold]
fn no_text(count: impl std::fmt::Display) -> Refused {
    Fail::text(BadKind::DoesNotFit, format!("{count} since 1970 is a time out of the years 0 to 9999, which have text"))
}

#[inline]
fn timestamp(count: i64, unit: Unit, zone: Zone, column: &mut Column) -> Result<(), Refused> {
    let micros = match unit {
        Unit::Micros => Some(count),
        Unit::Millis => count.checked_mul(1000),
        // Digits below a microsecond are cut off, as those of a text are.
        Unit::Nanos => Some(count.div_euclid(1000)),
    };
    let too_far =
        || Fail::text(BadKind::DoesNotFit, format!("{count} ms since 1970 is beyond 64 bits of microseconds"));
    match &mut column.data {
        Data::Timestamp(values) => values.push(micros.ok_or_else(too_far)?),
        Data::Date(values) => {
            let micros = micros.ok_or_else(too_far)?;
            let days = i32::try_from(micros / MICROS_A_DAY).ok().filter(|_| micros % MICROS_A_DAY == 0);
            let Some(days) = days else {
                return Err(Fail::text(
                    BadKind::DoesNotFit,
                    format!("{micros} \u{b5}s since 1970 is no midnight, which type date can't keep"),
                ));
            };
            values.push(days);
        }
        Data::String(_) => {
            let text = micros.and_then(iso8601).ok_or_else(|| no_text(count))?;
            return column.put_string(if zone == Zone::Utc { &text } else { text.trim_end_matches('Z') });
        }
        _ => return column.put_integer(count),
    }
    Ok(())
}

fn time(count: i64, unit: Unit, column: &mut Column) -> Result<(), Refused> {
    match &column.data {
        Data::Timestamp(_) | Data::Date(_) => Err(column.wrong("a time of day")),
        Data::String(_) => match time_text(count, unit) {
            Some(text) => column.put_string(&text),
            None => Err(Fail::text(BadKind::DoesNotFit, format!("{count} is no time of day"))),
        },
        _ => column.put_integer(count),
    }
}

/// `22:11:58.123`; `None` where that is no time of a day.
pub(crate) fn time_text(count: i64, unit: Unit) -> Option<String> {
    let micros = if unit == Unit::Millis { count.checked_mul(1000)? } else { count };
    let text = (0..MICROS_A_DAY).contains(&micros).then(|| iso8601(micros))??;
    Some(text["1970-01-01T".len()..].trim_end_matches('Z').to_owned())
}

/// A decimal of so many digits behind the point.
pub(crate) fn decimal(digits: &[u8], scale: i64, column: &mut Column) -> Result<(), Refused> {
    let value = whole(digits).filter(|_| !digits.is_empty());
    if let (Data::Decimal { values, precision, scale: wanted }, Some(value)) = (&mut column.data, value)
        && i64::from(*wanted) == scale
        && value.unsigned_abs() < 10_u128.pow(u32::from(*precision))
    {
        values.push(value);
        return Ok(());
    }
    match value {
        _ if digits.is_empty() => Err(Fail::bad(BadKind::Malformed, "a decimal of no bytes")),
        Some(value) => column.put_number(&decimal_text(value, scale)),
        None => {
            Err(Fail::text(BadKind::DoesNotFit, format!("a decimal of {} bytes, more than 128 bits", digits.len())))
        }
    }
}

/// A big-endian number, if 128 bits hold it.
pub(crate) fn whole(digits: &[u8]) -> Option<i128> {
    let negative = digits.first().is_some_and(|first| first & 0x80 != 0);
    let sign = if negative { 0xff } else { 0 };
    let mut bytes = [sign; 16];
    let spare = digits.len().saturating_sub(16);
    let (extra, kept) = digits.split_at(spare);
    bytes[16 - kept.len()..].copy_from_slice(kept);
    let value = i128::from_be_bytes(bytes);
    (extra.iter().all(|byte| *byte == sign) && (value < 0) == negative).then_some(value)
}

/// Its digits, with a point where the scale has it; an exponent where there would be too many zeros.
pub(crate) fn decimal_text(value: i128, scale: i64) -> String {
    const MOST_ZEROS: i64 = 60;
    if !(0..=MOST_ZEROS).contains(&scale) {
        return if scale == 0 { value.to_string() } else { format!("{value}e{}", scale.saturating_neg()) };
    }
    let behind = usize::try_from(scale).expect("small");
    let digits = format!("{:0width$}", value.unsigned_abs(), width = behind + 1);
    let (before, fraction) = digits.split_at(digits.len() - behind);
    let sign = if value < 0 { "-" } else { "" };
    if behind == 0 { format!("{sign}{before}") } else { format!("{sign}{before}.{fraction}") }
}

fn uuid(uuid: Uuid, column: &mut Column) -> Result<(), Refused> {
    match &column.data {
        Data::Binary(_) => column.put_bytes(uuid.as_bytes()),
        Data::String(_) => column.put_string(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer())),
        _ => Err(column.wrong("a UUID")),
    }
}

fn duration(parts: [u8; 12], column: &mut Column) -> Result<(), Refused> {
    match &column.data {
        Data::Binary(_) => column.put_bytes(&parts),
        Data::String(_) => column.put_string(&duration_text(parts)),
        _ => Err(column.wrong("a duration")),
    }
}

/// ISO 8601: `P1M2DT3.004S`.
pub(crate) fn duration_text(parts: [u8; 12]) -> String {
    let part = |at: usize| u32::from_le_bytes([parts[at], parts[at + 1], parts[at + 2], parts[at + 3]]);
    let (months, days, millis) = (part(0), part(4), part(8));
    let mut text = String::from("P");
    for (count, unit) in [(months, 'M'), (days, 'D')] {
        if count > 0 {
            let _ = write!(text, "{count}{unit}");
        }
    }
    match (millis / 1000, millis % 1000) {
        (0, 0) if text.len() > 1 => {}
        (seconds, 0) => drop(write!(text, "T{seconds}S")),
        (seconds, millis) => drop(write!(text, "T{seconds}.{millis:03}S")),
    }
    text
}
