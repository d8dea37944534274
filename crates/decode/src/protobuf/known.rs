//! Messages that every schema may use, and that stand for a value that a table has a type for.

use crate::column::{Column, Data};
use crate::error::{BadKind, Fail, Refused};
use crate::time::{date_days, iso8601};

use super::read::Read;
use super::types::TypeId;
use super::wire::{OTHER_WIRE_TYPE, Part, Wire};

/// The first and last second of the years 1 to 9999, which is all that a `Timestamp` may say.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const NANOS: std::ops::RangeInclusive<i32> = 0..=999_999_999;

/// The last value of each of these fields; what is left out is the default.
pub(super) fn values<const N: usize>(
    read: &Read,
    of: TypeId,
    pieces: &[Part],
    depth: usize,
    wanted: [u32; N],
) -> Result<[Part; N], Refused> {
    let message = &read.types.messages[of];
    let mut values = [Part::default(); N];
    for piece in pieces {
        let mut wire = Wire::new(read.bytes, *piece);
        while !wire.is_done() {
            let tag = wire.tag()?;
            let kind = message.field(tag.number).map(|field| &message.fields[field].kind);
            if kind.is_some_and(|kind| kind.form() != tag.form) {
                return Err(wire.fail(OTHER_WIRE_TYPE));
            }
            let value = wire.value(tag, depth)?;
            // What comes again goes nowhere, which does not make it right.
            kind.map_or(Ok(()), |kind| read.check_value(kind, value, depth))?;
            if let Some(at) = wanted.iter().position(|number| *number == tag.number) {
                values[at] = value;
            }
        }
    }
    Ok(values)
}

/// The seconds and nanoseconds of a `google.protobuf.Timestamp`.
fn time(read: &Read, of: TypeId, pieces: &[Part], depth: usize) -> Result<(i64, i32), Refused> {
    let [seconds, nanos] = values(read, of, pieces, depth, [1, 2])?;
    let (seconds, nanos) = (seconds.bits.cast_signed(), (nanos.bits as u32).cast_signed());
    if !SECONDS.contains(&seconds) || !NANOS.contains(&nanos) {
        let what = format!("a Timestamp of {seconds} seconds and {nanos} nanoseconds is none of the years 1 to 9999");
        return Err(Fail::text(BadKind::DoesNotFit, what));
    }
    Ok((seconds, nanos))
}

/// Puts a `google.protobuf.Timestamp`; nanoseconds are cut off, as of times in JSON.
pub(super) fn put_time(
    read: &Read,
    of: TypeId,
    pieces: &[Part],
    column: &mut Column,
    depth: usize,
) -> Result<(), Refused> {
    let (seconds, nanos) = time(read, of, pieces, depth)?;
    put_micros(seconds * 1_000_000 + i64::from(nanos / 1000), column)
}

/// A `google.protobuf.Timestamp` as text, with all its digits.
pub(super) fn time_text(read: &Read, of: TypeId, pieces: &[Part], depth: usize) -> Result<String, Refused> {
    let (seconds, nanos) = time(read, of, pieces, depth)?;
    let text = iso8601(seconds * 1_000_000).expect("a year that has text");
    Ok(format!("{}{}Z", text.trim_end_matches('Z'), fraction(nanos)))
}

/// A `google.protobuf.Duration` as text: `1.5s`.
pub(super) fn duration_text(read: &Read, of: TypeId, pieces: &[Part], depth: usize) -> Result<String, Refused> {
    /// About 10,000 years.
    const MOST: i64 = 315_576_000_000;
    let [seconds, nanos] = values(read, of, pieces, depth, [1, 2])?;
    let (seconds, nanos) = (seconds.bits.cast_signed(), (nanos.bits as u32).cast_signed());
    let one_sign = seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0);
    if !(-MOST..=MOST).contains(&seconds) || !NANOS.contains(&nanos.wrapping_abs()) || !one_sign {
        let what = format!("no Duration: {seconds} seconds and {nanos} nanoseconds");
        return Err(Fail::text(BadKind::DoesNotFit, what));
    }
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    Ok(format!("{sign}{}{}s", seconds.abs(), fraction(nanos.abs())))
}

/// A point and 3, 6 or 9 digits, as needed.
fn fraction(nanos: i32) -> String {
    match nanos {
        0 => String::new(),
        millis if millis % 1_000_000 == 0 => format!(".{:03}", millis / 1_000_000),
        micros if micros % 1000 == 0 => format!(".{:06}", micros / 1000),
        nanos => format!(".{nanos:09}"),
    }
}

/// Puts a `google.type.Date`.
pub(super) fn put_date(
    read: &Read,
    of: TypeId,
    pieces: &[Part],
    column: &mut Column,
    depth: usize,
) -> Result<(), Refused> {
    let parts = values(read, of, pieces, depth, [1, 2, 3])?;
    let [year, month, day] = parts.map(|part| (part.bits as u32).cast_signed());
    let text = format!("{year:04}-{month:02}-{day:02}");
    match date_days(&text) {
        Some(days) if year > 0 => put_micros(i64::from(days) * 86_400_000_000, column),
        _ => Err(Fail::text(BadKind::DoesNotFit, format!("{text} is no date"))),
    }
}

fn put_micros(micros: i64, column: &mut Column) -> Result<(), Refused> {
    if let Data::Timestamp(values) = &mut column.data {
        values.push(micros);
        return Ok(());
    }
    // A column of dates takes midnights alone, and says so of the others.
    let text = iso8601(micros).unwrap_or_else(|| micros.to_string());
    column.put_string(&text)
}
