//! Events in JSON, with or without the schema that Kafka Connect writes into each.
//!
//! An event becomes the text of a flat object, which is read as any JSON message is. Where the schema is there, values
//! whose numbers and texts it gives a meaning to (times, decimals and bytes) are written as what they mean.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::avro::decimal_text;
use crate::column::{Data, Struct};
use crate::error::{BadKind, Fail, Refused};
use crate::scan::{Cursor, quote};

use super::{Debezium, Extras, Op, Part, Place, place};

/// Schemas whose meaning is kept.
const MOST_SCHEMAS: usize = 100;

/// Makes flat objects of events.
#[derive(Debug)]
pub(crate) struct Flattener {
    extras: Extras,
    /// By the text of an event's schema.
    schemas: HashMap<String, Meanings>,
    flat: String,
}

/// Columns whose values in the message are not what they mean.
type Meanings = HashMap<String, Meaning>;

/// What a value means, where it is not what it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Days,
    Millis,
    Nanos,
    /// Base64 of bytes.
    Bytes,
    /// Base64 of a number with so many digits behind the point.
    Decimal {
        scale: i64,
    },
}

/// Where an object's member lies: its name, and its value's text.
type Member<'a> = (String, &'a str);

impl Flattener {
    pub(crate) fn new(extras: Extras) -> Self {
        Self { extras, schemas: HashMap::new(), flat: String::new() }
    }

    /// The flat object of an event; `None` where there is no row of it.
    pub(crate) fn flatten(&mut self, message: &str, root: &Struct) -> Result<Option<&str>, Refused> {
        let outer = members(message)?;
        let of = |name: &str| outer.iter().find(|member| member.0 == name).map(|member| member.1);
        if self.extras.wanted == Debezium::Keys {
            let (key, schema) = match (of("payload"), of("schema")) {
                (Some(payload), schema @ Some(_)) if outer.len() == 2 => (payload, schema),
                _ => (message.trim(), None),
            };
            // An object, or a fault.
            members(key)?;
            return self.row(Some(key), schema, root).map(|()| Some(self.flat.as_str()));
        }
        let (members, schema) = match (of("payload"), of("schema")) {
            (Some("null"), Some(_)) if outer.len() == 2 => return Ok(None),
            (Some(payload), schema @ Some(_)) if outer.len() == 2 => (members(payload)?, schema),
            _ => (outer, None),
        };
        let schema = schema.filter(|text| *text != "null");
        let member = |name: &str| members.iter().rev().find(|member| member.0 == name).map(|member| member.1);
        let op = member("op").and_then(|text| Op::of(text.trim_matches('"')));
        let Some(op) = op else {
            return Err(Fail::bad(
                BadKind::NotAnObject,
                "the message is no Debezium event: it has no 'op' of c, r, u, d, t or m",
            ));
        };
        let Some(which) = self.extras.row_of(op)? else { return Ok(None) };
        let row = match which {
            Part::After => member("after"),
            Part::Before => member("before"),
            Part::Neither => None,
        };
        let row = row.filter(|text| text.starts_with('{'));
        if row.is_none() {
            self.extras.lacks(op, which)?;
            if self.extras.wanted == Debezium::Before {
                return Ok(None);
            }
        }
        self.row(row, schema, root)?;
        self.flat.pop();
        for name in &self.extras.names {
            let value = match place(name) {
                Place::Deleted => Some(if op == Op::Delete { "true" } else { "false" }.to_owned()),
                Place::Event(name) => match member(name) {
                    Some(value) => Some(value.to_owned()),
                    None => part(member("source"), name)?,
                },
                Place::Source(name) => part(member("source"), name)?,
                Place::Transaction(name) => part(member("transaction"), name)?,
            };
            if let Some(value) = value {
                push_member(name, &value, &mut self.flat);
            }
        }
        self.flat.push('}');
        Ok(Some(&self.flat))
    }

    /// Begins the flat object with a row's members, as what they mean, and ends it.
    fn row(&mut self, row: Option<&str>, schema: Option<&str>, root: &Struct) -> Result<(), Refused> {
        let meanings = schema.map(|text| meanings_of(&mut self.schemas, text, root)).filter(|one| !one.is_empty());
        self.flat.clear();
        self.flat.push('{');
        match (row, meanings) {
            (Some(row), None) => self.flat.push_str(row[1..row.len() - 1].trim()),
            (Some(row), Some(meanings)) => meant(row, meanings, &mut self.flat)?,
            (None, _) => {}
        }
        self.flat.push('}');
        Ok(())
    }
}

/// Adds a member to an object that is being written.
fn push_member(name: &str, value: &str, out: &mut String) {
    if out.len() > 1 {
        out.push(',');
    }
    quote(name, out);
    out.push(':');
    out.push_str(value);
}

/// The members of an object, which the whole text is.
fn members(text: &str) -> Result<Vec<Member<'_>>, Refused> {
    let mut cursor = Cursor::new(text);
    cursor.skip_space();
    if cursor.peek() != b'{' {
        return Err(Fail::bad(BadKind::NotAnObject, "the message is not a JSON object"));
    }
    let (mut found, mut scratch) = (Vec::new(), String::new());
    cursor.members(0, |cursor| {
        let name = cursor.string(&mut scratch)?.to_owned();
        cursor.colon()?;
        let start = cursor.at;
        cursor.skip_value(1, &mut scratch)?;
        found.push((name, &cursor.text[start..cursor.at]));
        Ok(())
    })?;
    cursor.end()?;
    Ok(found)
}

/// A member of an object that may be there.
fn part(object: Option<&str>, name: &str) -> Result<Option<String>, Refused> {
    let Some(object) = object.filter(|text| text.starts_with('{')) else { return Ok(None) };
    Ok(members(object)?.into_iter().rev().find(|member| member.0 == name).map(|member| member.1.to_owned()))
}

fn meanings_of<'a>(schemas: &'a mut HashMap<String, Meanings>, text: &str, root: &Struct) -> &'a Meanings {
    if !schemas.contains_key(text) {
        if schemas.len() >= MOST_SCHEMAS {
            schemas.clear();
        }
        schemas.insert(text.to_owned(), meanings(text, root).unwrap_or_default());
    }
    &schemas[text]
}

/// What the schema says of the row's fields, as far as it matters to the columns that they go into.
fn meanings(text: &str, root: &Struct) -> Option<Meanings> {
    let schema: Value = serde_json::from_str(text).ok()?;
    let named = |name: &str| {
        let fields = schema["fields"].as_array()?;
        fields.iter().find(|field| field["field"] == name)?["fields"].as_array()
    };
    let mut meanings = Meanings::new();
    for field in named("after").or_else(|| named("before")).or_else(|| schema["fields"].as_array())? {
        if let Some(name) = field["field"].as_str()
            && let Some(column) = root.keys.field(name)
            && let Some(meaning) = meaning(field, &root.fields[column].data)
        {
            meanings.insert(name.to_owned(), meaning);
        }
    }
    Some(meanings)
}

fn meaning(field: &Value, column: &Data) -> Option<Meaning> {
    let name = field["name"].as_str().unwrap_or_default();
    match (field["type"].as_str()?, name) {
        ("int32", "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date") => {
            matches!(column, Data::Timestamp(_)).then_some(Meaning::Days)
        }
        ("int64", "io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp") => {
            matches!(column, Data::Timestamp(_)).then_some(Meaning::Millis)
        }
        ("int64", "io.debezium.time.NanoTimestamp") => matches!(column, Data::Timestamp(_)).then_some(Meaning::Nanos),
        ("bytes", "org.apache.kafka.connect.data.Decimal") => {
            let scale = field["parameters"]["scale"].as_str().and_then(|scale| scale.parse().ok())?;
            Some(Meaning::Decimal { scale })
        }
        ("bytes", _) => matches!(column, Data::Binary(_)).then_some(Meaning::Bytes),
        _ => None,
    }
}

/// The members of a row, each as what it means.
fn meant(row: &str, meanings: &Meanings, out: &mut String) -> Result<(), Refused> {
    for (name, value) in members(row)? {
        let converted = match meanings.get(&name) {
            Some(meaning) if value != "null" => {
                Some(meaning.convert(value).ok_or_else(|| not_meant(value).within(&name))?)
            }
            _ => None,
        };
        push_member(&name, converted.as_deref().unwrap_or(value), out);
    }
    Ok(())
}

#[cold]
fn not_meant(value: &str) -> Refused {
    let value = crate::scalar::shown(value);
    Fail::text(BadKind::WrongType, format!("{value} is not what the event's schema says that it is"))
}

impl Meaning {
    fn convert(self, value: &str) -> Option<String> {
        let number = || value.parse::<i64>().ok();
        let bytes = || STANDARD.decode(value.strip_prefix('"')?.strip_suffix('"')?).ok();
        Some(match self {
            Self::Days => number()?.checked_mul(crate::time::MICROS_A_DAY)?.to_string(),
            Self::Millis => number()?.checked_mul(1000)?.to_string(),
            Self::Nanos => number()?.div_euclid(1000).to_string(),
            Self::Bytes => {
                let digits: String = bytes()?.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("\"{digits}\"")
            }
            Self::Decimal { scale } => format!("\"{}\"", decimal_text(crate::avro::whole(&bytes()?)?, scale)),
        })
    }
}
