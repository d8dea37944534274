//! A dead letter as its table has it: what a column says, and nothing where there is no such column.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// All columns that letters have.
pub const COLUMNS: [&str; 12] = [
    "base64_bytes",
    "json_string",
    "error",
    "timestamp",
    "error_kind",
    "topic",
    "partition",
    "offset",
    "kafka_timestamp",
    "key",
    "headers",
    "app_id",
];

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Letter {
    base64: Option<String>,
    json: Option<String>,
    pub error: Option<String>,
    pub kind: Option<String>,
    /// When it was made, in microseconds since 1970.
    pub timestamp: Option<i64>,
    pub topic: Option<String>,
    pub partition: Option<i64>,
    pub offset: Option<i64>,
    /// The message's own time, in microseconds since 1970.
    pub kafka_timestamp: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub app_id: Option<String>,
}

impl Letter {
    /// The message's value, byte by byte. Tables of the peer have text that was JSON as it printed it.
    ///
    /// # Errors
    /// What is no Base64.
    pub fn value(&self) -> Result<Option<Vec<u8>>, String> {
        match (&self.base64, &self.json) {
            (Some(base64), _) => STANDARD.decode(base64).map(Some).map_err(|error| format!("base64_bytes: {error}")),
            (None, json) => Ok(json.as_ref().map(|text| text.as_bytes().to_vec())),
        }
    }

    /// Where it came from, as far as it says.
    #[must_use]
    pub fn place(&self) -> String {
        let number = |number: Option<i64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        let topic = self.topic.as_deref().unwrap_or("?");
        format!("{topic}-{} at offset {}", number(self.partition), number(self.offset))
    }
}

/// The letters of some rows.
///
/// # Errors
/// A column of a type that letters don't have there.
pub fn letters(batch: &RecordBatch) -> Result<Vec<Letter>, String> {
    let mut letters = vec![Letter::default(); batch.num_rows()];
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let name = field.name().as_str();
        for (row, letter) in letters.iter_mut().enumerate().filter(|(row, _)| column.is_valid(*row)) {
            let read = match name {
                "base64_bytes" => text(column, row).map(|text| letter.base64 = Some(text)),
                "json_string" => text(column, row).map(|text| letter.json = Some(text)),
                "error" => text(column, row).map(|text| letter.error = Some(text)),
                "error_kind" => text(column, row).map(|text| letter.kind = Some(text)),
                "topic" => text(column, row).map(|text| letter.topic = Some(text)),
                "app_id" => text(column, row).map(|text| letter.app_id = Some(text)),
                "timestamp" => micros(column, row).map(|at| letter.timestamp = Some(at)),
                "kafka_timestamp" => micros(column, row).map(|at| letter.kafka_timestamp = Some(at)),
                "partition" => number(column, row).map(|number| letter.partition = Some(number)),
                "offset" => number(column, row).map(|number| letter.offset = Some(number)),
                "key" => bytes(column, row).map(|key| letter.key = Some(key)),
                "headers" => headers(column, row).map(|headers| letter.headers = headers),
                _ => Some(()),
            };
            read.ok_or_else(|| format!("column {name} is {}, which letters don't have there", column.data_type()))?;
        }
    }
    Ok(letters)
}

fn text(column: &ArrayRef, row: usize) -> Option<String> {
    Some(column.as_string_opt::<i32>()?.value(row).to_owned())
}

fn bytes(column: &ArrayRef, row: usize) -> Option<Vec<u8>> {
    Some(column.as_binary_opt::<i32>()?.value(row).to_vec())
}

fn micros(column: &ArrayRef, row: usize) -> Option<i64> {
    Some(column.as_primitive_opt::<TimestampMicrosecondType>()?.value(row))
}

fn number(column: &ArrayRef, row: usize) -> Option<i64> {
    match column.data_type() {
        DataType::Int32 => Some(column.as_primitive::<Int32Type>().value(row).into()),
        _ => Some(column.as_primitive_opt::<Int64Type>()?.value(row)),
    }
}

fn headers(column: &ArrayRef, row: usize) -> Option<Vec<(String, Option<Vec<u8>>)>> {
    let list = column.as_list_opt::<i32>()?.value(row);
    let pairs = list.as_struct_opt()?;
    let (names, values) = (pairs.column_by_name("key")?, pairs.column_by_name("value")?);
    (0..pairs.len())
        .map(|at| {
            let value = if values.is_valid(at) { Some(bytes(values, at)?) } else { None };
            Some((text(names, at)?, value))
        })
        .collect()
}
