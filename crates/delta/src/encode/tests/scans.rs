//! What `scan` shows of a table: live rows, the columns asked for, nothing else.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use lakeward_protocol::position::TableVersion;

use super::made::Table;
use crate::encode::WriterOptions;
use crate::error::DeltaError;
use crate::scan::Scan;

fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    Arc::new(Schema::new(vec![text("p"), Field::new("k", DataType::Int64, true), text("v")]))
}

fn rows(range: std::ops::Range<i64>) -> RecordBatch {
    let text = |f: &dyn Fn(i64) -> String| Arc::new(StringArray::from_iter_values(range.clone().map(f))) as ArrayRef;
    let columns = vec![text(&|_| "x".to_owned()), Arc::new(Int64Array::from_iter_values(range.clone())) as ArrayRef];
    let columns = columns.into_iter().chain([text(&|k| format!("v{k}"))]).collect();
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The kernel's own example of an inline deletion vector: rows 3, 4, 7, 11, 18 and 29.
#[test]
fn dead_rows_and_removed_files_are_not_seen() {
    let mut table = Table::new("dead", &schema(), &["p"]);
    let mut first = table.ingest(&[rows(0..30)], WriterOptions::default());
    table.ingest(&[rows(100..110)], WriterOptions::default());
    let gone = table.ingest(&[rows(200..210)], WriterOptions::default());
    let file = first.remove(0);
    let features = ["deletionVectors"];
    table.put(&[
        serde_json::json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}}),
        serde_json::json!({"remove": {"path": file.path, "dataChange": true, "deletionTimestamp": 0}}),
        serde_json::json!({"remove": {"path": gone[0].path, "dataChange": true, "deletionTimestamp": 0}}),
        serde_json::json!({"add": {
            "path": file.path, "partitionValues": {"p": "x"}, "size": file.size_bytes, "modificationTime": 0,
            "dataChange": true, "stats": file.stats,
            "deletionVector": {
                "storageType": "i", "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
                "sizeInBytes": 44, "cardinality": 6,
            },
        }}),
    ]);
    let scan = Scan::open(table.folder.to_str().unwrap(), Some(&["v", "k"]), table.runtime.handle()).unwrap();
    assert_eq!(scan.version(), TableVersion(4));
    let mut keys = Vec::new();
    for batch in scan {
        let batch = batch.unwrap();
        let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["v", "k"], "the columns asked for, in that order");
        keys.extend(batch.column(1).as_primitive::<Int64Type>().values().iter().copied());
    }
    keys.sort_unstable();
    let live = (0..30).filter(|k| ![3, 4, 7, 11, 18, 29].contains(k)).chain(100..110);
    assert_eq!(keys, live.collect::<Vec<_>>());
}

#[test]
fn what_is_not_there_is_named() {
    let table = Table::new("absent", &schema(), &["p"]);
    let folder = table.folder.to_str().unwrap();
    let Err(error) = Scan::open(folder, Some(&["nope"]), table.runtime.handle()) else { panic!("no such column") };
    assert!(error.to_string().contains("nope"), "{error}");
    let elsewhere = format!("{folder}/elsewhere");
    let missing = Scan::open(&elsewhere, None, table.runtime.handle()).err().unwrap();
    assert!(matches!(missing, DeltaError::Missing { .. }), "{missing}");
    assert_eq!(table.rows(), Vec::<String>::new());
}
