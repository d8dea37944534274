//! The live files of the table, as the view knows them: what an `add` said of each, and which of its
//! rows are dead.

use std::collections::{BTreeMap, HashMap};

use delta_kernel::actions::deletion_vector::DeletionVectorDescriptor;
use roaring::RoaringTreemap;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{chains, vector};
use crate::layout::DataFile;

/// One live file: all that its next `remove` and `add` have to say again.
#[derive(Clone, Debug)]
pub(crate) struct LiveFile {
    /// `add.path`, to the letter.
    pub path: String,
    /// `add.partitionValues`.
    pub partition_values: Map<String, Value>,
    /// `add.size`.
    pub size_bytes: u64,
    /// `add.modificationTime`.
    pub modification_time_ms: i64,
    /// `add.stats`, as it stands.
    pub stats: Option<String>,
    /// `add.tags`.
    pub tags: Option<Map<String, Value>>,
    /// `add.deletionVector`.
    pub vector: Option<DeletionVectorDescriptor>,
    /// What it says.
    pub dead: RoaringTreemap,
    /// All rows in the file, dead ones too.
    pub rows: u64,
}

impl LiveFile {
    /// A file that was just added.
    pub(crate) fn of(file: &DataFile) -> Self {
        let values = file.partition_values.iter();
        Self {
            path: file.path.clone(),
            partition_values: values
                .map(|(name, value)| (name.clone(), value.clone().map_or(Value::Null, Value::String)))
                .collect(),
            size_bytes: file.size_bytes,
            modification_time_ms: file.modification_time_ms,
            stats: Some(file.stats.clone()),
            tags: chains::tags(file.chains.as_ref()),
            vector: None,
            dead: RoaringTreemap::new(),
            rows: file.num_records,
        }
    }

    /// Its dead rows, by the name of its vector alone.
    pub(crate) fn dead_rows(&self) -> u64 {
        self.vector.as_ref().map_or(0, |vector| u64::try_from(vector.cardinality).unwrap_or(0))
    }

    /// Its rows as its stats have it; 0 where they do not say.
    pub(crate) fn rows_by_stats(&self) -> u64 {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Stats {
            num_records: u64,
        }
        let stats = self.stats.as_deref().and_then(|stats| serde_json::from_str::<Stats>(stats).ok());
        stats.map_or(0, |stats| stats.num_records)
    }

    /// The `remove` that ends it as it stands now. Without the vector of the `add` it would end
    /// another file than this one (S48).
    pub(crate) fn remove(&self, now_ms: i64, data_change: bool) -> Value {
        let mut remove = json!({
            "path": self.path,
            "deletionTimestamp": now_ms,
            "dataChange": data_change,
            "extendedFileMetadata": true,
            "partitionValues": self.partition_values,
            "size": self.size_bytes,
        });
        if let Some(stats) = &self.stats {
            remove["stats"] = json!(stats);
        }
        if let Some(tags) = &self.tags {
            remove["tags"] = json!(tags);
        }
        if let Some(vector) = &self.vector {
            remove["deletionVector"] = vector::to_json(vector);
        }
        json!({ "remove": remove })
    }

    /// The `add` of the same file with another vector, which makes bounds loose: the row that had
    /// the smallest value may be dead.
    pub(crate) fn add(&self, vector: &DeletionVectorDescriptor, data_change: bool) -> Value {
        let mut add = json!({
            "path": self.path,
            "partitionValues": self.partition_values,
            "size": self.size_bytes,
            "modificationTime": self.modification_time_ms,
            "dataChange": data_change,
            "stats": loose(self.stats.as_deref(), self.rows),
            "deletionVector": vector::to_json(vector),
        });
        if let Some(tags) = &self.tags {
            add["tags"] = json!(tags);
        }
        json!({ "add": add })
    }
}

/// Stats of a file with dead rows: `numRecords` counts them still, and bounds are not tight. Other
/// values are kept to the letter, decimals longer than any float's digits among them.
fn loose(stats: Option<&str>, rows: u64) -> String {
    let raw = |value: Value| RawValue::from_string(value.to_string()).expect("JSON of a plain value");
    let mut fields: BTreeMap<String, Box<RawValue>> =
        stats.and_then(|stats| serde_json::from_str(stats).ok()).unwrap_or_default();
    fields.insert("numRecords".to_owned(), raw(json!(rows)));
    fields.insert("tightBounds".to_owned(), raw(json!(false)));
    serde_json::to_string(&fields).expect("JSON of JSON")
}

/// The files by the numbers that the index knows them by.
#[derive(Debug, Default)]
pub(crate) struct Files {
    by_number: BTreeMap<u32, LiveFile>,
    by_path: HashMap<String, u32>,
    next: u32,
}

impl Files {
    /// A number that no file has had.
    pub(crate) fn reserve(&mut self) -> u32 {
        let number = self.next;
        self.next = number.checked_add(1).expect("fewer than four thousand million files in a process's life");
        number
    }

    /// Takes in a file under a reserved number.
    pub(crate) fn insert(&mut self, number: u32, file: LiveFile) {
        let before = self.by_path.insert(file.path.clone(), number);
        assert!(before.is_none(), "{} is live once", file.path);
        self.by_number.insert(number, file);
    }

    /// The file is no more.
    pub(crate) fn remove(&mut self, number: u32) {
        let file = self.by_number.remove(&number).expect("a live file");
        self.by_path.remove(&file.path);
    }

    pub(crate) fn get(&self, number: u32) -> &LiveFile {
        &self.by_number[&number]
    }

    pub(crate) fn try_get(&self, number: u32) -> Option<&LiveFile> {
        self.by_number.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut LiveFile {
        self.by_number.get_mut(&number).expect("a live file")
    }

    pub(crate) fn number(&self, path: &str) -> Option<u32> {
        self.by_path.get(path).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &LiveFile)> {
        self.by_number.iter().map(|(number, file)| (*number, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_keep_all_digits_and_lose_only_tightness() {
        #[rustfmt::skip] // columns: stats, rows, what becomes of them
        let cases = [
            (None,                                            3, r#"{"numRecords":3,"tightBounds":false}"#),
            (Some("oops"),                                    3, r#"{"numRecords":3,"tightBounds":false}"#),
            (Some(r#"{"numRecords":3,"tightBounds":true}"#),  3, r#"{"numRecords":3,"tightBounds":false}"#),
            (Some(r#"{"numRecords":3,"minValues":{"tightBounds":true,"d":12345678901234567890.123456789}}"#), 3,
                r#"{"minValues":{"tightBounds":true,"d":12345678901234567890.123456789},"numRecords":3,"tightBounds":false}"#),
        ];
        for (stats, rows, expected) in cases {
            assert_eq!(loose(stats, rows), expected);
        }
    }
}
