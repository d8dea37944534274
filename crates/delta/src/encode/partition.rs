//! Partition values: their text in the log, the folder they name, and the path in the log.
//!
//! A value is escaped exactly once on each way: `partitionValues` carry Delta's text as it is; the
//! folder is that text escaped as Hive and Spark do; `add.path` is the folder's path, percent-encoded
//! as a URI. `US/East` is `US/East` in the log, lies in `p=US%2FEast`, and `add.path` says
//! `p=US%252FEast`. Readers take values from `partitionValues` alone, never from the path.
//!
//! NULL and the empty string (and empty binary) are one and the same in Delta's log: both are a JSON
//! null and lie in `p=__HIVE_DEFAULT_PARTITION__`. Readers see NULL.

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use chrono::{DateTime, Datelike, NaiveDate};

use super::error::EncodeError;

/// Name of the folder for NULL.
const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// Longest file name that all file systems take.
const NAME_BYTES: usize = 255;

/// Longest path of folders that we use: S3 takes 1024 bytes in all, the table's own path included.
const FOLDERS_BYTES: usize = 600;

/// Days from 0001-01-01 to 1970-01-01, both as chrono counts them.
const EPOCH_DAYS: i32 = 719_163;

/// Text of row `row` of a partition column, appended to `text`; `false` is NULL, with nothing
/// appended.
///
/// # Errors
/// A value that Delta's log has no text for which all readers take.
pub(crate) fn write_value(name: &str, column: &ArrayRef, row: usize, text: &mut String) -> Result<bool, EncodeError> {
    if column.is_null(row) {
        return Ok(false);
    }
    let start = text.len();
    let refused = |reason, value: String| Err(EncodeError::PartitionValue { column: name.to_owned(), value, reason });
    match column.data_type() {
        DataType::Utf8 => text.push_str(column.as_string::<i32>().value(row)),
        DataType::Binary => match std::str::from_utf8(column.as_binary::<i32>().value(row)) {
            Ok(value) => text.push_str(value),
            Err(_) => {
                let value = column.as_binary::<i32>().value(row).escape_ascii().to_string();
                return refused("Delta's log holds text, and these bytes are not UTF-8", value);
            }
        },
        DataType::Boolean => text.push_str(if column.as_boolean().value(row) { "true" } else { "false" }),
        DataType::Int8 => put(text, column.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => put(text, column.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => put(text, column.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => put(text, column.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            put_float(text, f64::from(value), || (value.to_string(), format!("{value:e}")));
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            put_float(text, value, || (value.to_string(), format!("{value:e}")));
        }
        DataType::Decimal128(_, scale) => {
            put_decimal(text, column.as_primitive::<Decimal128Type>().value(row), *scale);
        }
        DataType::Date32 => {
            let days = column.as_primitive::<Date32Type>().value(row);
            match date(days) {
                Some(date) => put(text, date),
                None => return refused("only the years 1 to 9999 can be told", format!("{days} days from 1970")),
            }
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let micros = column.as_primitive::<TimestampMicrosecondType>().value(row);
            let Some(time) = time(micros) else {
                return refused("only the years 1 to 9999 can be told", format!("{micros} us from 1970"));
            };
            // With the zone said nobody reads it in a session's own; without one there is none.
            let format = if zone.is_some() { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%d %H:%M:%S%.6f" };
            put(text, time.format(format));
        }
        _ => return refused("columns of this type can't partition a table", column.data_type().to_string()),
    }
    Ok(text.len() > start)
}

fn put(text: &mut String, value: impl std::fmt::Display) {
    write!(text, "{value}").expect("strings take all");
}

/// A date of the years that every reader takes.
pub(crate) fn date(days: i32) -> Option<NaiveDate> {
    let date = NaiveDate::from_num_days_from_ce_opt(days.checked_add(EPOCH_DAYS)?)?;
    (1..=9999).contains(&date.year()).then_some(date)
}

/// A time of the years that every reader takes.
pub(crate) fn time(micros: i64) -> Option<chrono::NaiveDateTime> {
    let time = DateTime::from_timestamp_micros(micros)?.naive_utc();
    (1..=9999).contains(&time.year()).then_some(time)
}

/// As Java writes floats, which is what Spark puts there: plain from 10^-3 to 10^7, else scientific.
/// -0.0 equals 0.0 in SQL, so both are one value here. `forms` gives the plain and the scientific
/// text at the value's own precision.
fn put_float(text: &mut String, value: f64, forms: impl Fn() -> (String, String)) {
    if value.is_nan() {
        return text.push_str("NaN");
    }
    if value.is_infinite() {
        return text.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    if value == 0.0 {
        return text.push_str("0.0");
    }
    let (plain, scientific) = forms();
    if (1e-3..1e7).contains(&value.abs()) {
        text.push_str(&plain);
        if !plain.contains('.') {
            text.push_str(".0");
        }
        return;
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    text.push_str(digits);
    if !digits.contains('.') {
        text.push_str(".0");
    }
    put(text, format_args!("E{exponent}"));
}

/// Plain digits with all of the scale's places.
pub(crate) fn put_decimal(text: &mut String, unscaled: i128, scale: i8) {
    let places = usize::try_from(scale).unwrap_or(0);
    if unscaled < 0 {
        text.push('-');
    }
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    text.push_str(whole);
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
}

/// The folders of a partition's files, `k=v/` for each column; `None` where some file system or
/// store could not hold them, so that another folder must do.
pub(crate) fn folders(values: &[(String, Option<String>)]) -> Option<String> {
    let mut path = String::new();
    for (name, value) in values {
        let start = path.len();
        escape(name, &mut path);
        path.push('=');
        match value {
            Some(value) => escape(value, &mut path),
            None => path.push_str(NULL_FOLDER),
        }
        if path.len() - start > NAME_BYTES {
            return None;
        }
        path.push('/');
    }
    (path.len() <= FOLDERS_BYTES).then_some(path)
}

/// As `FileUtils.escapePathName` of Hive and `ExternalCatalogUtils` of Spark do it.
fn escape(text: &str, path: &mut String) {
    for c in text.chars() {
        if is_unsafe_in_folder(c) {
            put(path, format_args!("%{:02X}", c as u32));
        } else {
            path.push(c);
        }
    }
}

fn is_unsafe_in_folder(c: char) -> bool {
    c.is_ascii_control()
        || matches!(c, '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '{' | '[' | ']' | '^')
}

/// A relative path as `add.path` must say it: a URI's path, `/` kept.
pub(crate) fn encode_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len() + 16);
    for &byte in path.as_bytes() {
        let plain = byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'"' | b'#' | b'%' | b'<' | b'>' | b'?' | b'[' | b'\\' | b']' | b'^' | b'`' | b'{' | b'|' | b'}'
            );
        if plain {
            encoded.push(byte as char);
        } else {
            put(&mut encoded, format_args!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array,
        StringArray, TimestampMicrosecondArray,
    };

    use super::*;

    fn text(column: ArrayRef) -> Result<Option<String>, String> {
        let mut text = String::new();
        let there = write_value("p", &column, 0, &mut text).map_err(|e| e.to_string())?;
        Ok(there.then_some(text))
    }

    #[test]
    fn every_type_has_its_text() {
        let decimal =
            |v, p, s| Arc::new(Decimal128Array::from(vec![v]).with_precision_and_scale(p, s).unwrap()) as ArrayRef;
        let ntz = |v| Arc::new(TimestampMicrosecondArray::from(vec![v])) as ArrayRef;
        let utc = |v| Arc::new(TimestampMicrosecondArray::from(vec![v]).with_timezone("UTC")) as ArrayRef;
        let s = |v: &str| Arc::new(StringArray::from(vec![v])) as ArrayRef;
        let f = |v: f64| Arc::new(Float64Array::from(vec![v])) as ArrayRef;
        #[rustfmt::skip] // columns: value, its text
        let cases: Vec<(ArrayRef, Option<&str>)> = vec![
            (s("US/East"), Some("US/East")),
            (s(" é\n"), Some(" é\n")),
            (s(""), None),
            (Arc::new(StringArray::from(vec![None::<&str>])), None),
            (Arc::new(BinaryArray::from(vec![&b""[..]])), None),
            (Arc::new(BinaryArray::from(vec![&b"\x01\x02a"[..]])), Some("\u{1}\u{2}a")),
            (Arc::new(BooleanArray::from(vec![true])), Some("true")),
            (Arc::new(BooleanArray::from(vec![false])), Some("false")),
            (Arc::new(Int8Array::from(vec![-128])), Some("-128")),
            (Arc::new(Int64Array::from(vec![i64::MIN])), Some("-9223372036854775808")),
            (Arc::new(Float32Array::from(vec![0.1f32])), Some("0.1")),
            (Arc::new(Float32Array::from(vec![f32::MAX])), Some("3.4028235E38")),
            (f(1.0), Some("1.0")),
            (f(-0.0), Some("0.0")),
            (f(1e7), Some("1.0E7")),
            (f(9_999_999.5), Some("9999999.5")),
            (f(0.001), Some("0.001")),
            (f(0.000_12), Some("1.2E-4")),
            (f(-1.25e300), Some("-1.25E300")),
            (f(f64::NAN), Some("NaN")),
            (f(f64::NEG_INFINITY), Some("-Infinity")),
            (decimal(4200, 10, 2), Some("42.00")),
            (decimal(-5, 10, 2), Some("-0.05")),
            (decimal(7, 5, 0), Some("7")),
            (decimal(i128::from(u64::MAX) * 10_000_000_000, 38, 10), Some("18446744073709551615.0000000000")),
            (Arc::new(Date32Array::from(vec![0])), Some("1970-01-01")),
            (Arc::new(Date32Array::from(vec![2_932_896])), Some("9999-12-31")),
            (Arc::new(Date32Array::from(vec![-719_162])), Some("0001-01-01")),
            (utc(0), Some("1970-01-01T00:00:00.000000Z")),
            (utc(-1), Some("1969-12-31T23:59:59.999999Z")),
            (ntz(1_709_210_096_123_456), Some("2024-02-29 12:34:56.123456")),
            (utc(9_223_372_800_000_000), Some("2262-04-12T00:00:00.000000Z")),
        ];
        for (column, expected) in cases {
            assert_eq!(text(Arc::clone(&column)).unwrap().as_deref(), expected, "{column:?}");
        }
    }

    #[test]
    fn what_the_log_cannot_say_is_refused() {
        let cases: Vec<ArrayRef> = vec![
            Arc::new(BinaryArray::from(vec![&b"\xff"[..]])),
            Arc::new(Date32Array::from(vec![2_932_897])),
            Arc::new(Date32Array::from(vec![i32::MAX])),
            Arc::new(Date32Array::from(vec![-719_163])),
            Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX])),
        ];
        for column in cases {
            let error = text(Arc::clone(&column)).unwrap_err();
            assert!(error.contains("\"p\""), "{column:?}: {error}");
        }
    }

    #[test]
    fn folders_and_paths_are_escaped_once_each() {
        #[rustfmt::skip] // columns: value, folder, add.path
        let cases = [
            (Some("US/East"), "p=US%2FEast/", "p=US%252FEast/"),
            (Some("A A"), "p=A A/", "p=A%20A/"),
            (Some("x:y=z"), "p=x%3Ay%3Dz/", "p=x%253Ay%253Dz/"),
            (Some("100%2525"), "p=100%252525/", "p=100%25252525/"),
            (Some("é"), "p=é/", "p=%C3%A9/"),
            (Some("a?#{}"), "p=a%3F%23%7B}/", "p=a%253F%2523%257B%7D/"),
            (Some("//"), "p=%2F%2F/", "p=%252F%252F/"),
            (Some("a\nb"), "p=a%0Ab/", "p=a%250Ab/"),
            (Some(".."), "p=../", "p=../"),
            (None, "p=__HIVE_DEFAULT_PARTITION__/", "p=__HIVE_DEFAULT_PARTITION__/"),
        ];
        for (value, folder, path) in cases {
            let folders = folders(&[("p".to_owned(), value.map(str::to_owned))]).unwrap();
            assert_eq!(folders, folder, "{value:?}");
            assert_eq!(encode_path(&folders), path, "{value:?}");
        }
        assert_eq!(folders(&[("p".to_owned(), Some("x".repeat(300)))]), None, "no file system takes it");
        let many: Vec<_> = (0..9).map(|i| (format!("p{i}"), Some("x".repeat(100)))).collect();
        assert_eq!(folders(&many), None, "S3 takes no such key");
    }
}
