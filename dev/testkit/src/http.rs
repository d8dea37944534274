//! As much of HTTP/1.1 as a store for tests needs.

use std::io::{self, BufRead, Write};
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

/// What was asked.
#[derive(Debug)]
pub struct Request {
    /// `GET`, `PUT` and so on.
    pub method: String,
    /// Without its query, decoded.
    pub path: String,
    /// Method and target, as they came.
    pub line: String,
    /// All of it.
    pub body: Vec<u8>,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
}

impl Request {
    /// The next one; `None` when the other side has closed.
    ///
    /// # Errors
    /// When it breaks off in the middle, or is none.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "no HTTP request");
        let (method, rest) = line.split_once(' ').ok_or_else(wrong)?;
        let target = rest.split(' ').next().ok_or_else(wrong)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: method.to_owned(),
            path: decoded(path),
            line: format!("{method} {target}"),
            body: Vec::new(),
            query: pairs(query),
            headers: Vec::new(),
        };
        loop {
            let mut header = String::new();
            from.read_line(&mut header)?;
            let Some((name, value)) = header.trim_end().split_once(':') else { break };
            request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        request.body.resize(length, 0);
        from.read_exact(&mut request.body)?;
        Ok(Some(request))
    }

    /// A header's value, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// A parameter of the query.
    pub fn query(&self, name: &str) -> Option<String> {
        self.query.iter().find(|(of, _)| of == name).map(|(_, value)| value.clone())
    }

    /// The fields of a form that is a body.
    pub(crate) fn form(body: &[u8]) -> Vec<(String, String)> {
        pairs(&String::from_utf8_lossy(body))
    }

    /// The part of so many bytes that is wanted; `None` for all.
    pub(crate) fn range(&self, size: usize) -> Option<Range<usize>> {
        let (from, to) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some(match (from.parse::<usize>(), to.parse::<usize>()) {
            (Ok(from), Ok(to)) => from..(to + 1).min(size),
            (Ok(from), Err(_)) => from..size,
            (Err(_), Ok(last)) => size.saturating_sub(last)..size,
            (Err(_), Err(_)) => return None,
        })
    }
}

fn pairs(text: &str) -> Vec<(String, String)> {
    text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
}

fn pair(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (decoded(name), decoded(&value.replace('+', " ")))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let hex = (*first == b'%').then(|| more.get(..2)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &more[2..] } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    body: Vec<u8>,
    headers: Vec<(&'static str, String)>,
}

impl Answer {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, body: Vec::new(), headers: Vec::new() }
    }

    /// As S3, GCS and Azure word it.
    pub(crate) fn error(status: u16, code: &str) -> Self {
        let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>by plan</Message></Error>");
        Self::new(status).holding(body)
    }

    pub(crate) fn holding(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(crate) fn of_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// With what tells one version of an object from another.
    pub(crate) fn tagged(self, generation: u64) -> Self {
        self.with("ETag", format!("\"{generation}\"")).with("x-goog-generation", generation.to_string())
    }

    pub(crate) fn write(&self, to: &mut impl Write, is_head: bool) -> io::Result<()> {
        let mut text = format!("HTTP/1.1 {} -\r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        let mut bytes = text.into_bytes();
        if !is_head {
            bytes.extend_from_slice(&self.body);
        }
        to.write_all(&bytes)
    }
}

/// `2026-12-01T04:05:06.789Z`.
pub(crate) fn iso(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (year, month, day, [hours, minutes, seconds]) = civil(since.as_secs());
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", since.subsec_millis())
}

/// `Tue, 01 Dec 2026 04:05:06 GMT`.
pub(crate) fn date(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day, [hours, minutes, seconds]) = civil(since);
    let month =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][month as usize - 1];
    let weekday =
        ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][usize::try_from(since / 86_400 % 7).expect("small")];
    format!("{weekday}, {day:02} {month} {year:04} {hours:02}:{minutes:02}:{seconds:02} GMT")
}

/// Year, month, day and time of day of so many seconds since 1970.
fn civil(seconds: u64) -> (u64, u64, u64, [u64; 3]) {
    let of_day = seconds % 86_400;
    // Days since 1 March of the year 0: leap days come last.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    let year = year_of_era + 400 * era + u64::from(month <= 2);
    (year, month, day, [of_day / 3_600, of_day / 60 % 60, of_day % 60])
}
