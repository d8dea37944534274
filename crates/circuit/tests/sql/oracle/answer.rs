//! Answers of different engines in one form.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;

/// Rows with their copies. Doubles start with `~`, NULL with a byte that no text holds.
pub type Bag = BTreeMap<Vec<String>, i64>;

/// NULL, which no text is.
pub const NULL: &str = "\u{2}NULL";

/// How far two doubles may lie apart: averages of decimals have six digits behind the point.
const APART: f64 = 1e-6;

/// Adds a batch's rows, `weight` of them each.
pub fn add(bag: &mut Bag, batch: &RecordBatch, weight: impl Fn(usize) -> i64) {
    let options = FormatOptions::default().with_null(NULL).with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| (column.data_type().clone(), ArrayFormatter::try_new(column, &options).unwrap()))
        .collect();
    for row in 0..batch.num_rows() {
        let cell = |(kind, column): &(DataType, ArrayFormatter<'_>)| {
            let text = column.value(row).to_string();
            match kind {
                _ if text == NULL => text,
                DataType::Float64 | DataType::Float32 => double(&text),
                DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Timestamp(..) => trimmed(&text),
                _ => text,
            }
        };
        *bag.entry(columns.iter().map(cell).collect()).or_default() += weight(row);
    }
    bag.retain(|_, copies| *copies != 0);
}

/// A row as the other engine writes it: doubles start with `~`.
pub fn foreign(row: Vec<Option<String>>) -> Vec<String> {
    let cell = |cell: Option<String>| match cell {
        None => NULL.to_owned(),
        Some(text) => text.strip_prefix('~').map_or_else(|| text.clone(), double),
    };
    row.into_iter().map(cell).collect()
}

fn double(text: &str) -> String {
    let value: f64 = text.parse().unwrap_or_else(|_| panic!("a double expected: {text}"));
    if value == 0.0 { "~0".to_owned() } else { format!("~{value}") }
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> String {
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Whether two answers are the same, but for the last digits of doubles.
pub fn same(one: &Bag, other: &Bag) -> bool {
    if one == other {
        return true;
    }
    let (mut left, mut right) = (listed(one), listed(other));
    left.len() == right.len() && {
        left.sort_by(|a, b| order(a, b));
        right.sort_by(|a, b| order(a, b));
        left.iter().zip(&right).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(a, b)))
    }
}

fn listed(bag: &Bag) -> Vec<Vec<String>> {
    bag.iter()
        .flat_map(|(row, copies)| std::iter::repeat_n(row.clone(), usize::try_from(*copies).unwrap_or(0)))
        .collect()
}

/// By all that is no double first, so that rows that differ in last digits stand side by side.
fn order(a: &[String], b: &[String]) -> std::cmp::Ordering {
    let plain = |row: &[String]| -> Vec<String> { row.iter().filter(|cell| !cell.starts_with('~')).cloned().collect() };
    let doubles = |row: &[String]| -> Vec<i64> {
        let value = |cell: &String| cell.strip_prefix('~').and_then(|text| text.parse::<f64>().ok());
        row.iter().filter_map(value).map(|value| (value * 1e4).round() as i64).collect()
    };
    plain(a).cmp(&plain(b)).then_with(|| doubles(a).cmp(&doubles(b)))
}

fn near(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let value = |text: &str| text.strip_prefix('~').and_then(|text| text.parse::<f64>().ok());
    match (value(a), value(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= APART * a.abs().max(1.0),
        _ => false,
    }
}

/// For people.
pub fn shown(bag: &Bag) -> String {
    let row = |(row, copies): (&Vec<String>, &i64)| {
        let cells: Vec<&str> = row.iter().map(|cell| cell.trim_start_matches(['~', '\u{2}'])).collect();
        let copies = if *copies == 1 { String::new() } else { format!(" x{copies}") };
        format!("({}){copies}", cells.join(", "))
    };
    if bag.is_empty() { "empty".to_owned() } else { bag.iter().map(row).collect::<Vec<_>>().join(" ") }
}
