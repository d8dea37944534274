//! `lakeward dlq ls` and `show`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lakeward_delta::scan::Scan;
use lakeward_protocol::ports::Exit;
use serde_json::{Map, Value, json};

use super::letter::{COLUMNS, Letter, letters};
use super::wanted;
use crate::cli::Output;
use crate::cli::dlq::{FilterArgs, LsArgs, ShowArgs};
use crate::failure::Failure;
use crate::report::{counted, table};
use crate::session::Session;

/// Characters of a reason, and bytes of a value, in a line.
const SHOWN: usize = 60;

/// Prints a line for each letter.
///
/// # Errors
/// When the table can't be read.
pub fn list(args: &LsArgs) -> Result<(), Failure> {
    let (newest, all) = newest(&args.table, args.limit, |letter| wanted(&args.filter, letter))?;
    match args.output {
        Output::Json => newest.iter().for_each(|letter| println!("{}", as_json(letter, false))),
        Output::Table => {
            let rows: Vec<Vec<String>> = newest.iter().map(line).collect();
            if !rows.is_empty() {
                print!("{}", table(&["place", "made", "kind", "error", "value"], &rows));
            }
            println!("{}{}", counted(all, "letter"), filtered(&args.filter));
            if all > rows.len() {
                println!("the newest {} are shown; --limit shows more", rows.len());
            }
        }
    }
    Ok(())
}

/// Prints letters whole.
///
/// # Errors
/// When the table can't be read, or no letter is there.
pub fn show(args: &ShowArgs) -> Result<(), Failure> {
    let is_it = |letter: &Letter| {
        let same = |asked: Option<i64>, is: Option<i64>| asked.is_none() || asked == is;
        same(args.partition, letter.partition) && same(args.offset, letter.offset) && wanted(&args.filter, letter)
    };
    let (newest, _) = newest(&args.table, args.limit, is_it)?;
    if newest.is_empty() {
        return Err(Failure::new(Exit::Data, format_args!("{}: there is no such letter", args.table)));
    }
    for (n, letter) in newest.iter().enumerate() {
        match args.output {
            Output::Json => println!("{}", as_json(letter, true)),
            Output::Table => print!("{}{}", if n == 0 { "" } else { "\n" }, whole(letter)),
        }
    }
    Ok(())
}

/// The newest letters of those asked for, newest first, and how many there are. Holds no more than it gives.
fn newest(location: &str, most: usize, is_wanted: impl Fn(&Letter) -> bool) -> Result<(Vec<Letter>, usize), Failure> {
    let session = Session::start()?;
    let failed = |error: lakeward_delta::DeltaError| Failure::port(&error);
    let runtime = session.runtime.handle();
    let schema = Scan::open(location, None, runtime).map_err(failed)?.schema();
    let columns: Vec<&str> = COLUMNS.into_iter().filter(|name| schema.column_with_name(name).is_some()).collect();
    if !columns.iter().any(|name| ["base64_bytes", "json_string"].contains(name)) {
        let text = format!("{location} is no table of dead letters: it has neither base64_bytes nor json_string");
        return Err(Failure::new(Exit::Config, text));
    }
    let (mut kept, mut all) = (BinaryHeap::new(), 0);
    for batch in Scan::open(location, Some(&columns), runtime).map_err(failed)? {
        let found = letters(&batch.map_err(failed)?)
            .map_err(|what| Failure::new(Exit::Config, format_args!("table {location}: {what}")))?;
        for letter in found.into_iter().filter(|letter| is_wanted(letter)) {
            all += 1;
            kept.push(Reverse(Dated(letter)));
            if kept.len() > most {
                kept.pop();
            }
        }
    }
    let newest = kept.into_sorted_vec().into_iter().map(|Reverse(Dated(letter))| letter);
    Ok((newest.collect(), all))
}

/// A letter by when it was made, then by its place.
struct Dated(Letter);

impl Dated {
    fn order(&self) -> (Option<i64>, &Option<String>, Option<i64>, Option<i64>) {
        (self.0.timestamp, &self.0.topic, self.0.partition, self.0.offset)
    }
}

impl PartialEq for Dated {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Dated {}

impl PartialOrd for Dated {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dated {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

fn filtered(filter: &FilterArgs) -> &'static str {
    let all = filter.kind.is_empty() && filter.topic.is_empty() && filter.since.is_none() && filter.until.is_none();
    if all { "" } else { " by these filters" }
}

fn line(letter: &Letter) -> Vec<String> {
    let short = |text: &str| match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]).replace('\n', " "),
        None => text.replace('\n', " "),
    };
    let value = letter.value().unwrap_or_default().unwrap_or_default();
    let dash = |text: Option<&String>| text.map_or_else(|| "-".to_owned(), |text| short(text));
    vec![
        letter.place(),
        letter.timestamp.map_or_else(|| "-".to_owned(), time),
        dash(letter.kind.as_ref()),
        dash(letter.error.as_ref()),
        short(&value[..value.len().min(SHOWN)].escape_ascii().to_string()),
    ]
}

fn whole(letter: &Letter) -> String {
    let mut out = format!("{}\n", letter.place());
    let mut add = |name: &str, text: Option<String>| {
        if let Some(text) = text {
            out += &format!("  {name:<8} {}\n", text.replace('\n', "\n           "));
        }
    };
    add("kind", letter.kind.clone());
    add("error", letter.error.clone());
    add("made", letter.timestamp.map(time));
    add("sent", letter.kafka_timestamp.map(time));
    add("app id", letter.app_id.clone());
    add("key", letter.key.as_ref().map(|key| readable(key)));
    for (name, value) in &letter.headers {
        add("header", Some(format!("{name}: {}", value.as_ref().map_or_else(|| "null".to_owned(), |v| readable(v)))));
    }
    let value = match letter.value() {
        Ok(value) => value.map_or_else(|| "null".to_owned(), |value| readable(&value)),
        Err(what) => format!("can't be read: {what}"),
    };
    add("value", Some(value));
    out
}

fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && c != '\n') => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}

fn time(micros: i64) -> String {
    use arrow_cast::display::{ArrayFormatter, FormatOptions};
    let array = arrow_array::TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC");
    let formatter = ArrayFormatter::try_new(&array, &FormatOptions::default());
    formatter.map_or_else(|_| micros.to_string(), |formatter| formatter.value(0).to_string())
}

/// Bytes stand as text where they are, else as Base64 beside it.
fn as_json(letter: &Letter, with_bytes: bool) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    put("topic", json!(letter.topic));
    put("partition", json!(letter.partition));
    put("offset", json!(letter.offset));
    put("timestamp", json!(letter.timestamp.map(time)));
    put("kafka_timestamp", json!(letter.kafka_timestamp.map(time)));
    put("error_kind", json!(letter.kind));
    put("error", json!(letter.error));
    put("app_id", json!(letter.app_id));
    if with_bytes {
        let part = |bytes: &Vec<u8>| match std::str::from_utf8(bytes) {
            Ok(text) => json!({ "text": text }),
            Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
        };
        let header =
            |(name, value): &(String, Option<Vec<u8>>)| json!({"key": name, "value": value.as_ref().map(part)});
        put("key", json!(letter.key.as_ref().map(part)));
        put("headers", letter.headers.iter().map(header).collect());
        put("value", json!(letter.value().unwrap_or_default().as_ref().map(part)));
    }
    Value::Object(object)
}
