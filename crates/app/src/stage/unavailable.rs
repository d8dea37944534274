//! Debezium's unavailable values: PostgreSQL leaves large values (TOAST) that an update did not change out of its log,
//! and the event has a placeholder in their place.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What becomes of a row with such a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnavailable {
    /// The value that the row has in the table stays.
    Keep,
    /// The message is a bad record.
    Fail,
}

/// Finds placeholders, in all forms that they take.
#[derive(Clone, Debug)]
pub struct Placeholders {
    /// What becomes of them.
    pub then: OnUnavailable,
    text: String,
    /// In text columns of bytes; as base64 or hexadecimal digits.
    encoded: [String; 2],
}

impl Placeholders {
    /// For the connector's `unavailable.value.placeholder`.
    #[must_use]
    pub fn new(placeholder: &str, then: OnUnavailable) -> Self {
        let hex = placeholder.bytes().map(|byte| format!("{byte:02x}")).collect();
        Self { then, text: placeholder.to_owned(), encoded: [STANDARD.encode(placeholder), hex] }
    }

    /// By row: the columns that hold one.
    pub fn find(&self, batch: &RecordBatch) -> BTreeMap<usize, Vec<usize>> {
        let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, column) in batch.columns().iter().enumerate() {
            let rows = (0..column.len()).filter(|row| column.is_valid(*row) && self.is_at(column, *row));
            rows.for_each(|row| found.entry(row).or_default().push(at));
        }
        found
    }

    fn is_at(&self, column: &ArrayRef, row: usize) -> bool {
        match column.data_type() {
            DataType::Utf8 => self.is_text(column.as_string::<i32>().value(row)),
            DataType::Binary => {
                let value = column.as_binary::<i32>().value(row);
                value == self.text.as_bytes() || value == self.encoded[0].as_bytes()
            }
            DataType::List(_) => self.is_list(&column.as_list::<i32>().value(row)),
            DataType::Map(..) => {
                let entries = column.as_map().value(row);
                let is = |part: &ArrayRef| part.len() == 1 && self.is_list(part);
                is(entries.column(0)) && is(entries.column(1))
            }
            _ => false,
        }
    }

    fn is_text(&self, value: &str) -> bool {
        let is_list =
            || value.strip_prefix("[\"").and_then(|rest| rest.strip_suffix("\"]")) == Some(self.text.as_str());
        value == self.text || self.encoded.iter().any(|encoded| value == encoded) || is_list()
    }

    /// The one text, or as many numbers as it has bytes.
    fn is_list(&self, values: &ArrayRef) -> bool {
        let bytes = || self.text.bytes();
        match values.data_type() {
            _ if values.null_count() > 0 => false,
            DataType::Utf8 => values.len() == 1 && values.as_string::<i32>().value(0) == self.text,
            DataType::Int32 => values.as_primitive::<Int32Type>().values().iter().copied().eq(bytes().map(i32::from)),
            DataType::Int64 => values.as_primitive::<Int64Type>().values().iter().copied().eq(bytes().map(i64::from)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::{BinaryArray, Int64Array, StringArray};

    use super::*;

    #[test]
    fn placeholders_are_found_in_all_their_forms() {
        let word = "__debezium_unavailable_value";
        let base64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==";
        let texts = [Some(word), Some("x"), None, Some(base64), Some(r#"["__debezium_unavailable_value"]"#), Some("")];
        let bytes: [Option<&[u8]>; 6] =
            [Some(b"x"), Some(word.as_bytes()), None, Some(base64.as_bytes()), None, Some(b"")];
        let mut lists = ListBuilder::new(StringBuilder::new());
        let mut numbers = ListBuilder::new(Int64Builder::new());
        let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        for row in 0..6 {
            let of_list = [vec![Some(word)], vec![Some(word), Some("x")], vec![None], vec![], vec![Some("x")], vec![]];
            of_list[row].iter().for_each(|value| lists.values().append_option(*value));
            lists.append(row != 5);
            let of_numbers: Vec<i64> = if row == 2 { word.bytes().map(i64::from).collect() } else { vec![95] };
            numbers.values().append_slice(&of_numbers);
            numbers.append(true);
            maps.keys().append_value(if row == 4 { word } else { "x" });
            maps.values().append_value(word);
            maps.append(true).expect("as many keys as values");
        }
        let columns: [(&str, ArrayRef); 6] = [
            ("id", Arc::new(Int64Array::from_iter_values(0..6))),
            ("text", Arc::new(StringArray::from_iter(texts))),
            ("bytes", Arc::new(BinaryArray::from_iter(bytes))),
            ("list", Arc::new(lists.finish())),
            ("numbers", Arc::new(numbers.finish())),
            ("map", Arc::new(maps.finish())),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
        let found = Placeholders::new(word, OnUnavailable::Keep).find(&batch);
        let expected = [(0, vec![1, 3]), (1, vec![2]), (2, vec![4]), (3, vec![1, 2]), (4, vec![1, 5])];
        assert_eq!(found, BTreeMap::from(expected));
        assert_eq!(Placeholders::new("else", OnUnavailable::Keep).find(&batch), BTreeMap::new());
    }
}
