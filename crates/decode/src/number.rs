//! Numbers from their texts, exactly or not at all.

/// Why a number does not become what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// The text is no number.
    NotANumber,
    /// Digits behind the point would be lost.
    Fraction,
    /// Too large or too small.
    Range,
}

/// A plain integer of up to 18 digits at `at`, not followed by more of a number; and where it ends. Not `-0`, which a
/// double tells from 0.
#[inline(always)]
pub(crate) fn short_integer(bytes: &[u8], mut at: usize) -> Option<(i64, usize)> {
    let negative = bytes.get(at) == Some(&b'-');
    at += usize::from(negative);
    let start = at;
    let mut value: i64 = 0;
    while let Some(digit) = bytes.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        if at - start == 18 {
            return None;
        }
        value = value * 10 + i64::from(digit);
        at += 1;
    }
    let length = at - start;
    let leading_zero = length > 1 && bytes[start] == b'0';
    let goes_on = matches!(bytes.get(at), Some(b'.' | b'e' | b'E'));
    if length == 0 || leading_zero || goes_on || (negative && value == 0) {
        return None;
    }
    Some((if negative { -value } else { value }, at))
}

/// `text` times ten to the power of `scale`, if that is a whole number that 38 digits hold.
///
/// Takes JSON's numbers, and as text also a plus sign, leading zeros, and a point with digits on one side only.
pub(crate) fn scaled(text: &str, scale: i64) -> Result<i128, Misfit> {
    let parts = Parts::parse(text).ok_or(Misfit::NotANumber)?;
    let digits = || parts.whole.bytes().chain(parts.fraction.bytes());
    let leading = digits().take_while(|&digit| digit == b'0').count();
    let count = parts.whole.len() + parts.fraction.len() - leading;
    if count == 0 {
        return Ok(0);
    }
    let fraction = i64::try_from(parts.fraction.len()).map_err(|_| Misfit::Range)?;
    let shift = parts.exponent.saturating_add(scale).saturating_sub(fraction);
    let dropped = usize::try_from(shift.min(0).unsigned_abs()).map_err(|_| Misfit::Fraction)?;
    let zeros = digits().rev().take_while(|&digit| digit == b'0').count();
    if dropped > zeros {
        return Err(Misfit::Fraction);
    }
    let added = usize::try_from(shift.max(0)).map_err(|_| Misfit::Range)?;
    if (count - dropped).saturating_add(added) > 38 {
        return Err(Misfit::Range);
    }
    let kept = digits().skip(leading).take(count - dropped).chain(std::iter::repeat_n(b'0', added));
    let value = kept.fold(0_i128, |value, digit| value * 10 + i128::from(digit - b'0'));
    Ok(if parts.negative { -value } else { value })
}

/// A whole number that 64 bits hold.
pub(crate) fn whole(text: &str) -> Result<i64, Misfit> {
    i64::try_from(scaled(text, 0)?).map_err(|_| Misfit::Range)
}

/// The nearest double; infinite only where the text says so.
pub(crate) fn double(text: &str) -> Result<f64, Misfit> {
    let value: f64 = text.parse().map_err(|_| Misfit::NotANumber)?;
    if value.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(Misfit::Range);
    }
    Ok(value)
}

/// The nearest float; infinite only where the text says so.
pub(crate) fn float(text: &str) -> Result<f32, Misfit> {
    let value: f32 = text.parse().map_err(|_| Misfit::NotANumber)?;
    if value.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(Misfit::Range);
    }
    Ok(value)
}

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Parts<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], Self::exponent(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let plain = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
        (plain && !(whole.is_empty() && fraction.is_empty())).then_some(Self { negative, whole, fraction, exponent })
    }

    /// An exponent; one beyond 64 bits is as good as the largest.
    fn exponent(text: &str) -> Option<i64> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // Halved, so that adding a scale to it can't overflow into something near.
        const FAR: i64 = i64::MAX / 2;
        let value = digits.parse::<i64>().unwrap_or(FAR).min(FAR);
        Some(if text.starts_with('-') { -value } else { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_is_exact_or_refuses() {
        #[rustfmt::skip] // text, scale, expected
        let cases = [
            ("0", 0, Ok(0)), ("-0", 0, Ok(0)), ("0.000", 0, Ok(0)), ("0e999999999999999999999", 2, Ok(0)),
            ("1", 0, Ok(1)), ("1.0", 0, Ok(1)), ("1e3", 0, Ok(1000)), ("1.9", 0, Err(Misfit::Fraction)),
            ("100e-2", 0, Ok(1)), ("123e-2", 0, Err(Misfit::Fraction)), ("1.23e2", 0, Ok(123)),
            ("12.34", 2, Ok(1234)), ("-12.3", 2, Ok(-1230)), ("12.345", 2, Err(Misfit::Fraction)), ("12.340", 2, Ok(1234)),
            ("+7", 0, Ok(7)), ("007", 0, Ok(7)), (".5", 1, Ok(5)), ("5.", 0, Ok(5)),
            ("99999999999999999999999999999999999999", 0, Ok(99_999_999_999_999_999_999_999_999_999_999_999_999)),
            ("100000000000000000000000000000000000000", 0, Err(Misfit::Range)),
            ("1e38", 0, Err(Misfit::Range)), ("1e37", 0, Ok(10_i128.pow(37))), ("1e999999999999999999999", 0, Err(Misfit::Range)),
            ("1e-999999999999999999999", 0, Err(Misfit::Fraction)), ("000000000000000000000000000000000000000000001", 0, Ok(1)),
            ("", 0, Err(Misfit::NotANumber)), (".", 0, Err(Misfit::NotANumber)), ("1e", 0, Err(Misfit::NotANumber)),
            ("--1", 0, Err(Misfit::NotANumber)), ("1 ", 0, Err(Misfit::NotANumber)), ("0x1", 0, Err(Misfit::NotANumber)),
            ("1.2.3", 0, Err(Misfit::NotANumber)), ("é", 0, Err(Misfit::NotANumber)),
        ];
        for (text, scale, expected) in cases {
            assert_eq!(scaled(text, scale), expected, "{text} at scale {scale}");
        }
    }

    #[test]
    fn short_integers_end_where_they_end() {
        #[rustfmt::skip] // text, expected
        let cases = [
            ("0,", Some((0, 1))), ("-0}", None), ("12", Some((12, 2))), ("-9 ", Some((-9, 2))),
            ("999999999999999999", Some((999_999_999_999_999_999, 18))), ("1000000000000000000", None),
            ("01", None), ("1.", None), ("1e", None), ("-", None), ("", None), ("a", None),
        ];
        for (text, expected) in cases {
            assert_eq!(short_integer(text.as_bytes(), 0), expected, "{text}");
        }
    }
}
