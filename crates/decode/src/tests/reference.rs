//! A slow decoder that is obviously right: one function a rule, over a plain tree, sharing nothing with the real one
//! but the rules. Its tree is checked against `serde_json`'s own value.

use arrow_schema::{DataType, Field, Fields};
use chrono::DateTime;

/// A JSON value; numbers by their texts, members in order.
#[derive(Clone, Debug)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Parses what `serde_json` takes; anything else is `None`.
pub(super) fn parse(message: &[u8]) -> Option<Json> {
    let value: serde_json::Value = serde_json::from_slice(message).ok()?;
    let text: Vec<char> = std::str::from_utf8(message).expect("serde_json saw to it").chars().collect();
    let json = Some(read(&text, &mut 0)).filter(in_range)?;
    assert!(same(&json, &value), "the tree is serde_json's: {json:?} {value:?}");
    Some(json)
}

/// Reads a value; the text is JSON.
fn read(text: &[char], at: &mut usize) -> Json {
    space(text, at);
    match text[*at] {
        'n' => word(at, 4, Json::Null),
        't' => word(at, 4, Json::Bool(true)),
        'f' => word(at, 5, Json::Bool(false)),
        '"' => Json::String(string(text, at)),
        '[' => {
            let mut elements = Vec::new();
            *at += 1;
            space(text, at);
            while text[*at] != ']' {
                elements.push(read(text, at));
                separator(text, at);
            }
            word(at, 1, Json::Array(elements))
        }
        '{' => {
            let mut members = Vec::new();
            *at += 1;
            space(text, at);
            while text[*at] != '}' {
                let name = string(text, at);
                space(text, at);
                *at += 1;
                members.push((name, read(text, at)));
                separator(text, at);
            }
            word(at, 1, Json::Object(members))
        }
        _ => {
            let start = *at;
            while *at < text.len() && "+-.eE0123456789".contains(text[*at]) {
                *at += 1;
            }
            Json::Number(text[start..*at].iter().collect())
        }
    }
}

fn word(at: &mut usize, length: usize, json: Json) -> Json {
    *at += length;
    json
}

fn space(text: &[char], at: &mut usize) {
    while *at < text.len() && " \n\r\t".contains(text[*at]) {
        *at += 1;
    }
}

fn separator(text: &[char], at: &mut usize) {
    space(text, at);
    if text[*at] == ',' {
        *at += 1;
        space(text, at);
    }
}

fn string(text: &[char], at: &mut usize) -> String {
    let start = *at;
    *at += 1;
    while text[*at] != '"' {
        *at += if text[*at] == '\\' { 2 } else { 1 };
    }
    *at += 1;
    let literal: String = text[start..*at].iter().collect();
    serde_json::from_str(&literal).expect("a string")
}

/// Whether doubles hold all numbers: with arbitrary precision, which dbsp asks for, `serde_json` takes any.
fn in_range(json: &Json) -> bool {
    match json {
        Json::Number(number) => serde_json::from_str::<f64>(number).is_ok(),
        Json::Array(values) => values.iter().all(in_range),
        Json::Object(values) => values.iter().all(|(_, value)| in_range(value)),
        Json::Null | Json::Bool(_) | Json::String(_) => true,
    }
}

/// Whether a tree is `serde_json`'s value, whose doubles may be off in the last digit and whose keys come once.
fn same(json: &Json, value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (json, value) {
        (Json::Null, Value::Null) => true,
        (Json::Bool(a), Value::Bool(b)) => a == b,
        (Json::String(a), Value::String(b)) => a == b,
        (Json::Number(a), Value::Number(b)) => {
            let (a, b): (f64, f64) = (a.parse().expect("a number"), b.to_string().parse().expect("a number"));
            a == b || ((a - b) / a).abs() < 1e-15 || (a - b).abs() < 1e-320
        }
        (Json::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Value::Object(b)) => b.iter().all(|(name, b)| last(a, name).is_some_and(|a| same(a, b))),
        _ => false,
    }
}

fn last<'a>(members: &'a [(String, Json)], name: &str) -> Option<&'a Json> {
    members.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value)
}

/// The row as `super::rows` shows it; `None` when the message is bad.
pub(super) fn row(message: &[u8], fields: &Fields) -> Option<String> {
    let Json::Object(members) = parse(message)? else { return None };
    let cells = parts(&members, fields)?;
    Some(cells.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
}

fn parts(members: &[(String, Json)], fields: &Fields) -> Option<Vec<(String, String)>> {
    let cell = |field: &std::sync::Arc<Field>| {
        let value = last(members, field.name()).unwrap_or(&Json::Null);
        Some((field.name().clone(), cell(value, field)?))
    };
    fields.iter().map(cell).collect()
}

fn cell(json: &Json, field: &Field) -> Option<String> {
    if matches!(json, Json::Null) {
        return field.is_nullable().then(|| "null".to_owned());
    }
    match (field.data_type(), json) {
        (DataType::Utf8, Json::String(text)) => Some(format!("{text:?}")),
        (DataType::Utf8, other) => Some(format!("{:?}", compact(other))),
        (DataType::Boolean, Json::Bool(value)) => Some(value.to_string()),
        (DataType::Int8, _) => whole(json)?.try_into().ok().map(|value: i8| value.to_string()),
        (DataType::Int16, _) => whole(json)?.try_into().ok().map(|value: i16| value.to_string()),
        (DataType::Int32, _) => whole(json)?.try_into().ok().map(|value: i32| value.to_string()),
        (DataType::Int64, _) => whole(json)?.try_into().ok().map(|value: i64| value.to_string()),
        (DataType::Float32, _) => {
            number(json)?.parse::<f32>().ok().filter(|value| value.is_finite()).map(|value| format!("{value:?}"))
        }
        (DataType::Float64, _) => {
            number(json)?.parse::<f64>().ok().filter(|value| value.is_finite()).map(|value| format!("{value:?}"))
        }
        (DataType::Decimal128(precision, scale), _) => {
            let value = exact(&number(json)?, *scale as i64)?;
            (value.unsigned_abs() < 10_u128.pow(u32::from(*precision))).then(|| value.to_string())
        }
        (DataType::Date32, Json::String(text)) => {
            let midnight = moment(text).filter(|micros| micros % 86_400_000_000 == 0)?;
            Some((midnight / 86_400_000_000).to_string())
        }
        (DataType::Date32, Json::Number(_)) => whole(json)?.try_into().ok().map(|value: i32| value.to_string()),
        (DataType::Timestamp(..), Json::String(text)) => moment(text).map(|micros| micros.to_string()),
        (DataType::Timestamp(..), Json::Number(_)) => whole(json)?.try_into().ok().map(|value: i64| value.to_string()),
        (DataType::Binary, Json::String(text)) => {
            let even = text.len() % 2 == 0 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            even.then(|| format!("x{}", text.to_lowercase()))
        }
        (DataType::Struct(fields), Json::Object(members)) => {
            let parts = parts(members, fields)?;
            Some(format!(
                "{{{}}}",
                parts.iter().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>().join(",")
            ))
        }
        (DataType::List(element), Json::Array(elements)) => {
            let elements: Option<Vec<String>> = elements.iter().map(|value| cell(value, element)).collect();
            Some(format!("[{}]", elements?.join(",")))
        }
        (DataType::Map(entries, _), Json::Object(members)) => map(members, entries),
        _ => None,
    }
}

fn map(members: &[(String, Json)], entries: &Field) -> Option<String> {
    let DataType::Struct(pair) = entries.data_type() else { return None };
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in members {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut shown: Vec<(String, String)> = Vec::new();
    for name in names {
        let key = cell(&Json::String(name.clone()), &pair[0])?;
        if shown.iter().any(|(other, _)| *other == key) {
            return None;
        }
        shown.push((key, cell(last(members, name)?, &pair[1])?));
    }
    Some(format!("{{{}}}", shown.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")))
}

/// A number's text, of a number or a text that holds one.
fn number(json: &Json) -> Option<String> {
    match json {
        Json::Number(text) => Some(text.clone()),
        Json::String(text) => Some(text.trim().trim_start_matches('+').to_owned()),
        _ => None,
    }
}

fn whole(json: &Json) -> Option<i128> {
    exact(&number(json)?, 0)
}

/// `text` times ten to the power of `scale`, as digits are moved on paper.
fn exact(text: &str, scale: i64) -> Option<i128> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())?;
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits: String = format!("{}{fraction}", whole.trim_start_matches('-'));
    if digits.chars().all(|digit| digit == '0') {
        return Some(0);
    }
    let mut shift = exponent.parse::<i64>().ok()? + scale - fraction.len() as i64;
    while shift < 0 {
        if digits.pop()? != '0' {
            return None;
        }
        shift += 1;
    }
    digits.push_str(&"0".repeat(usize::try_from(shift).ok().filter(|&shift| shift < 400)?));
    let value: i128 = digits.trim_start_matches('0').parse().ok()?;
    if value >= 10_i128.pow(38) {
        return None;
    }
    Some(if whole.starts_with('-') { -value } else { value })
}

/// Microseconds of a timestamp, by putting it into the form that chrono takes for RFC 3339.
fn moment(text: &str) -> Option<i64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !text.is_ascii() {
        return None;
    }
    let date = text.get(..10)?;
    let rest = text.get(10..)?;
    if rest.is_empty() {
        return moment(&format!("{date}T00:00:00Z"));
    }
    let time = rest.strip_prefix(['T', 't', ' '])?;
    let zone_at = time.find(['Z', 'z', '+', '-', ' ']).unwrap_or(time.len());
    let (time, zone) = time.split_at(zone_at);
    let time = if time.len() == 5 { format!("{time}:00") } else { time.to_owned() };
    let (seconds, fraction) = time.split_once('.').unwrap_or((&time, "0"));
    if seconds.len() != 8 || !digits(fraction) || !digits(&date[..4]) {
        return None;
    }
    let fraction: String = fraction.chars().take(9).collect();
    let zone = match zone.trim_start_matches(' ') {
        "" if zone.is_empty() => "Z".to_owned(),
        "z" => "Z".to_owned(),
        zone if zone.len() == 3 && digits(&zone[1..]) => format!("{zone}:00"),
        zone if zone.len() == 5 && digits(&zone[1..]) => format!("{}:{}", &zone[..3], &zone[3..]),
        zone if zone.starts_with(['Z', '+', '-']) => zone.to_owned(),
        _ => return None,
    };
    let time = DateTime::parse_from_rfc3339(&format!("{date}T{seconds}.{fraction}{zone}")).ok()?;
    Some(time.timestamp_micros())
}

fn compact(json: &Json) -> String {
    let quoted = |text: &String| serde_json::to_string(text).expect("text");
    match json {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(text) => text.clone(),
        Json::String(text) => quoted(text),
        Json::Array(elements) => format!("[{}]", elements.iter().map(compact).collect::<Vec<_>>().join(",")),
        Json::Object(members) => {
            let member = |(name, value): &(String, Json)| format!("{}:{}", quoted(name), compact(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        }
    }
}
