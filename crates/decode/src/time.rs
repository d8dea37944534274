//! Dates and timestamps as text, read by a grammar of our own: Arrow's takes `+05:70` for an offset.
//!
//! `YYYY-MM-DD`, then perhaps `T`, `t` or a space and `HH:MM[:SS[.digits]]`, then perhaps spaces and a zone: `Z`, `z`,
//! `+HH:MM`, `+HHMM`, `+HH` or the same with a minus. Second 60 is the one after 59.

const MICROS_A_SECOND: i64 = 1_000_000;
pub(crate) const MICROS_A_DAY: i64 = 86_400 * MICROS_A_SECOND;

/// Microseconds since 1970. Without a zone it is UTC, without a time midnight. Digits below a microsecond are cut off.
pub(crate) fn timestamp_micros(text: &str) -> Option<i64> {
    let (date, rest) = text.as_bytes().split_first_chunk::<10>()?;
    let days = civil_days(date)?;
    let (micros, rest) = match rest {
        [] => return Some(days * MICROS_A_DAY),
        [b'T' | b't' | b' ', time @ ..] => time_of_day(time)?,
        _ => return None,
    };
    let offset_minutes = zone_minutes(rest)?;
    Some(days * MICROS_A_DAY + micros - offset_minutes * 60 * MICROS_A_SECOND)
}

/// Days since 1970 of a date, or of a timestamp at midnight UTC.
pub(crate) fn date_days(text: &str) -> Option<i32> {
    let micros = timestamp_micros(text)?;
    if micros % MICROS_A_DAY == 0 { i32::try_from(micros / MICROS_A_DAY).ok() } else { None }
}

/// Microseconds since midnight, and what follows the time.
#[inline]
fn time_of_day(text: &[u8]) -> Option<(i64, &[u8])> {
    let [h1, h2, b':', m1, m2, rest @ ..] = text else { return None };
    let (hours, minutes) = (pair(*h1, *h2)?, pair(*m1, *m2)?);
    let (seconds, rest) = match rest {
        [b':', s1, s2, rest @ ..] => (pair(*s1, *s2)?, rest),
        _ => (0, rest),
    };
    if hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let (fraction, rest) = match rest {
        [b'.', digits @ ..] if text.get(5) == Some(&b':') => fraction(digits)?,
        _ => (0, rest),
    };
    Some((((hours * 60 + minutes) * 60 + seconds) * MICROS_A_SECOND + fraction, rest))
}

/// Microseconds of the digits behind a point, at least one, and what follows them.
#[inline]
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let (digits, rest) = text.split_at(count);
    let digits = digits.iter().chain(std::iter::repeat(&b'0')).take(6);
    Some((digits.fold(0, |micros, digit| micros * 10 + i64::from(digit - b'0')), rest))
}

/// How far a zone lies east of UTC; no zone is UTC.
#[inline]
fn zone_minutes(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match text.trim_ascii_start() {
        [] if text.is_empty() => return Some(0),
        [b'Z' | b'z'] => return Some(0),
        [sign, h1, h2] => (sign, pair(*h1, *h2)?, 0),
        [sign, h1, h2, m1, m2] | [sign, h1, h2, b':', m1, m2] => (sign, pair(*h1, *h2)?, pair(*m1, *m2)?),
        _ => return None,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    match sign {
        b'+' => Some(hours * 60 + minutes),
        b'-' => Some(-(hours * 60 + minutes)),
        _ => None,
    }
}

fn pair(tens: u8, ones: u8) -> Option<i64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

/// Days since 1970 of `YYYY-MM-DD`, in the calendar that goes on before 1582.
fn civil_days(text: &[u8; 10]) -> Option<i64> {
    let [y1, y2, y3, y4, d1, m1, m2, d2, a1, a2] = *text;
    let (year, month, day) = (pair(y1, y2)? * 100 + pair(y3, y4)?, pair(m1, m2)?, pair(a1, a2)?);
    if (d1, d2) != (b'-', b'-') || !(1..=12).contains(&month) || day < 1 || day > month_days(year, month) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `YYYY-MM-DD` of so many days since 1970. `None` outside of the years 0 to 9999.
pub(crate) fn date_text(days: i32) -> Option<String> {
    let mut text = iso8601(i64::from(days).checked_mul(MICROS_A_DAY)?)?;
    text.truncate("YYYY-MM-DD".len());
    Some(text)
}

/// ISO 8601 in UTC, with 0, 3 or 6 digits of fraction as needed. `None` outside of the years 0 to 9999.
pub(crate) fn iso8601(micros: i64) -> Option<String> {
    let days = micros.div_euclid(MICROS_A_DAY);
    let time = micros.rem_euclid(MICROS_A_DAY);
    let (year, month, day) = civil(days);
    if !(0..=9999).contains(&year) {
        return None;
    }
    let seconds = time / MICROS_A_SECOND;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = time % MICROS_A_SECOND;
    let head = format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}");
    Some(match fraction {
        0 => format!("{head}Z"),
        millis if millis % 1000 == 0 => format!("{head}.{:03}Z", millis / 1000),
        _ => format!("{head}.{fraction:06}Z"),
    })
}

fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let part = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * part + 2) / 5 + 1;
    let month = if part < 10 { part + 3 } else { part - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{DateTime, SecondsFormat};

    #[test]
    fn usual_forms_are_read_as_chrono_reads_them() {
        let stems = [
            "0000-01-01T00:00:00",
            "1969-12-31T23:59:59",
            "2000-02-29T12:34:56",
            "2262-04-13T00:00:00",
            "9999-12-31T23:59:59",
        ];
        let fractions = ["", ".1", ".12", ".123456", ".123456789", ".000001999"];
        let zones = ["Z", "+00:00", "-00:00", "+02:00", "-11:30", "+23:59"];
        for stem in stems {
            for fraction in fractions {
                for zone in zones {
                    let text = format!("{stem}{fraction}{zone}");
                    let expected = DateTime::parse_from_rfc3339(&text).expect(&text).timestamp_micros();
                    assert_eq!(timestamp_micros(&text), Some(expected), "{text}");
                    assert_eq!(timestamp_micros(&text.replace('T', " ")), Some(expected), "{text}");
                }
            }
        }
    }

    #[test]
    fn rarer_forms() {
        let at = 1_636_668_660_000_000;
        for text in [
            "2021-11-11T22:11Z",
            "2021-11-11 22:11",
            "2021-11-11t22:11:00 z",
            "2021-11-11T23:11:00 +0100",
            "2021-11-11T21:11:00-01",
            "2021-11-11T22:10:60Z",
            "2021-11-11T22:11:00.000000999999999999Z",
        ] {
            assert_eq!(timestamp_micros(text), Some(at), "{text}");
        }
    }

    #[test]
    fn what_is_no_timestamp_is_none() {
        let texts = [
            "",
            "nope",
            "2021-11-11T22:11:58+05:70",
            "2021-11-11T22:11:58+24:00",
            "2021-11-11T22:11.5Z",
            "2021-11-11T22:11:58 ",
            "2021-11-11Z",
            "20211111",
            "2021-11-11T22:11:61Z",
            "2021-11-11T22:11:58Zz",
            "2021-11-11T22:11:58~01:00",
            "2021-11-11T2:11:58Z",
            "1636668718000000",
            "20211111T22115800Z",
            "2021-02-29T00:00:00Z",
            "2021-13-01",
            "2021-11-11T24:00:00Z",
            "2021-11-11T22:11:58+",
            "2021-11-11T22:11:58é",
            "2021-11-11é22:11:58",
            "2021-11-11T22:11:58.Z",
            "2021-11-1",
        ];
        for text in texts {
            assert_eq!(timestamp_micros(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_the_calendar_there_and_back() {
        let mut days = -719_528;
        while days < 2_932_897 {
            let text = iso8601(days * MICROS_A_DAY).expect("years 0 to 9999");
            assert_eq!(date_days(&text[..10]), i32::try_from(days).ok(), "{text}");
            assert_eq!(date_days(&text), i32::try_from(days).ok(), "{text}");
            days += 13;
        }
        assert_eq!(iso8601(2_932_897 * MICROS_A_DAY), None);
        assert_eq!(iso8601(i64::MIN), None);
        assert_eq!((date_text(i32::MAX), date_text(i32::MIN)), (None, None));
        assert_eq!(date_text(18_942).as_deref(), Some("2021-11-11"));
        for micros in [0, -1, 1_626_823_098_519_000, 1_626_823_098_519_123, 1_626_823_098_000_000] {
            let expected = DateTime::from_timestamp_micros(micros).expect("in range");
            assert_eq!(iso8601(micros), Some(expected.to_rfc3339_opts(SecondsFormat::AutoSi, true)));
        }
    }
}
