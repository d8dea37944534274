//! One scalar into one column: the coercion rules.
//!
//! | column | takes |
//! |---|---|
//! | byte short int long | whole numbers in range, `1.0` and `1e3` too, and the same as text; no fraction is lost |
//! | float double | numbers, rounded to the nearest; the same as text, `NaN` and `inf` too; nothing that overflows |
//! | decimal | numbers and text, exactly: digits beyond the scale must be 0 |
//! | boolean | `true` and `false` |
//! | date | `YYYY-MM-DD`, a timestamp at midnight UTC, whole days since 1970 |
//! | timestamp | RFC 3339 text and a little more (`time`; no zone is UTC, nanoseconds are cut off), whole microseconds since 1970 |
//! | timestamp_ntz | the same; a zone in the text is converted to UTC |
//! | binary | text of hex digits |
//! | string | text; of any other value its compact JSON (`row`) |

use crate::column::{Column, Data};
use crate::error::{BadKind, Fail, Refused};
use crate::number::{self, Misfit};
use crate::time;

/// Values in messages are shortened to this many bytes in error texts.
const SHOWN_BYTES: usize = 64;

/// A value in an error's text, shortened.
pub(crate) fn shown(text: &str) -> &str {
    let mut end = text.len().min(SHOWN_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Column {
    /// The column's type, as Delta calls it.
    pub(crate) fn type_name(&self) -> &'static str {
        match &self.data {
            Data::Boolean(_) => "boolean",
            Data::Byte(_) => "byte",
            Data::Short(_) => "short",
            Data::Int(_) => "int",
            Data::Long(_) => "long",
            Data::Float(_) => "float",
            Data::Double(_) => "double",
            Data::Date(_) => "date",
            Data::Timestamp(_) => "timestamp",
            Data::Decimal { .. } => "decimal",
            Data::String(_) => "string",
            Data::Binary(_) => "binary",
            Data::Struct(_) => "struct",
            Data::List(_) => "array",
            Data::Map(_) => "map",
        }
    }

    #[cold]
    pub(crate) fn wrong(&self, found: &str) -> Refused {
        Fail::text(BadKind::WrongType, format!("{found} in a column of type {}", self.type_name()))
    }

    #[cold]
    fn misfit(&self, text: &str, misfit: Misfit) -> Refused {
        let (name, text) = (self.type_name(), shown(text));
        match misfit {
            Misfit::NotANumber => {
                Fail::text(BadKind::WrongType, format!("'{text}' is no number, for a column of type {name}"))
            }
            Misfit::Fraction => {
                Fail::text(BadKind::DoesNotFit, format!("{text} has digits that type {name} can't keep"))
            }
            Misfit::Range => Fail::text(BadKind::DoesNotFit, format!("{text} is out of the range of type {name}")),
        }
    }

    /// Appends a string.
    #[inline]
    pub(crate) fn put_string(&mut self, text: &str) -> Result<(), Refused> {
        match &mut self.data {
            Data::String(column) => column.push(text),
            _ => self.put_text(text),
        }
    }

    /// Appends what a text says to a column of another type.
    fn put_text(&mut self, text: &str) -> Result<(), Refused> {
        match &mut self.data {
            Data::Timestamp(values) => match time::timestamp_micros(text) {
                Some(micros) => values.push(micros),
                None => return Err(self.no_time(text)),
            },
            Data::Date(values) => match time::date_days(text) {
                Some(days) => values.push(days),
                None => return Err(self.no_time(text)),
            },
            Data::Binary(column) => {
                if !push_hex(text, &mut column.bytes) {
                    return Err(Fail::text(
                        BadKind::WrongType,
                        format!("'{}' is not hex, for a binary column", shown(text)),
                    ));
                }
                return column.close();
            }
            Data::Boolean(_) | Data::Struct(_) | Data::List(_) | Data::Map(_) => return Err(self.wrong("text")),
            _ => return self.put_number(text.trim_ascii()),
        }
        Ok(())
    }

    #[cold]
    fn no_time(&self, text: &str) -> Refused {
        Fail::text(BadKind::WrongType, format!("'{}' is no {}", shown(text), self.type_name()))
    }

    /// Appends a number by its text.
    pub(crate) fn put_number(&mut self, text: &str) -> Result<(), Refused> {
        let put = match &mut self.data {
            Data::Float(values) => number::float(text).map(|value| values.push(value)),
            Data::Double(values) => number::double(text).map(|value| values.push(value)),
            Data::Decimal { values, precision, scale } => number::scaled(text, i64::from(*scale)).and_then(|value| {
                if value.unsigned_abs() >= 10_u128.pow(u32::from(*precision)) {
                    return Err(Misfit::Range);
                }
                values.push(value);
                Ok(())
            }),
            Data::String(column) => return column.push(text),
            Data::Boolean(_) | Data::Binary(_) | Data::Struct(_) | Data::List(_) | Data::Map(_) => {
                return Err(self.wrong("a number"));
            }
            _ => match number::whole(text) {
                Ok(value) => return self.put_integer(value),
                Err(misfit) => Err(misfit),
            },
        };
        put.map_err(|misfit| self.misfit(text, misfit))
    }

    /// Appends a whole number.
    #[inline]
    pub(crate) fn put_integer(&mut self, value: i64) -> Result<(), Refused> {
        fn narrow<T: TryFrom<i64>>(values: &mut Vec<T>, value: i64) -> bool {
            T::try_from(value).map(|value| values.push(value)).is_ok()
        }
        let fits = match &mut self.data {
            Data::Long(values) | Data::Timestamp(values) => {
                values.push(value);
                true
            }
            Data::Int(values) | Data::Date(values) => narrow(values, value),
            Data::Short(values) => narrow(values, value),
            Data::Byte(values) => narrow(values, value),
            // `as` rounds to the nearest, as the text would be.
            Data::Double(values) => {
                values.push(value as f64);
                true
            }
            Data::Float(values) => {
                values.push(value as f32);
                true
            }
            _ => return self.put_number(&value.to_string()),
        };
        if fits { Ok(()) } else { Err(self.misfit(&value.to_string(), Misfit::Range)) }
    }

    /// Appends `true` or `false`.
    pub(crate) fn put_boolean(&mut self, value: bool) -> Result<(), Refused> {
        match &mut self.data {
            Data::Boolean(values) => values.push(value),
            Data::String(column) => return column.push(if value { "true" } else { "false" }),
            _ => return Err(self.wrong(if value { "true" } else { "false" })),
        }
        Ok(())
    }
}

/// Appends the bytes that hex digits, two a byte, stand for.
fn push_hex(text: &str, bytes: &mut Vec<u8>) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return false };
    for [high, low] in pairs {
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return false };
        bytes.push(high << 4 | low);
    }
    true
}
