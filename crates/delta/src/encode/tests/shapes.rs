//! Schemas, file sizes, encodings.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Encoding;
use parquet::file::metadata::ParquetMetaData;

use super::made::{Table, sorted, span};
use crate::encode::{Compression, EncodeError, Writer, WriterOptions};
use crate::layout::{DataFile, FileSpan};

fn schema(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

fn longs(table: &str) -> (Table, SchemaRef) {
    let schema = schema(vec![Field::new("k", DataType::Int64, false)]);
    (Table::new(table, &schema, &[]), schema)
}

fn keys(schema: &SchemaRef, range: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_new(Arc::clone(schema), vec![Arc::new(Int64Array::from_iter_values(range))]).unwrap()
}

fn metadata(table: &Table, file: &DataFile) -> ParquetMetaData {
    let opened = std::fs::File::open(table.folder.join(&file.path)).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(opened).unwrap();
    builder.metadata().as_ref().clone()
}

#[test]
fn files_say_who_made_them_and_nothing_else() {
    let (mut table, schema) = longs("who");
    let files = table.ingest(&[keys(&schema, 0..10)], WriterOptions::default());
    let metadata = metadata(&table, &files[0]);
    let created_by = metadata.file_metadata().created_by().unwrap();
    assert_eq!(created_by, format!("lakeward version {}", env!("CARGO_PKG_VERSION")));
    assert!(metadata.file_metadata().key_value_metadata().is_none(), "no ARROW:schema");
    assert!(files[0].path.ends_with("-c000.snappy.parquet"), "{}", files[0].path);
    assert_eq!(files[0].size_bytes, std::fs::metadata(table.folder.join(&files[0].path)).unwrap().len());
    assert_eq!(table.rows().len(), 10);
}

/// K79: row groups are not tied to how small batches are.
#[test]
fn small_batches_make_one_row_group() {
    let (mut table, schema) = longs("row_groups");
    let batches: Vec<_> = (0..100_000).step_by(500).map(|start| keys(&schema, start..start + 500)).collect();
    let files = table.ingest(&batches, WriterOptions::default());
    assert_eq!(files.len(), 1);
    assert_eq!(metadata(&table, &files[0]).num_row_groups(), 1);
    assert_eq!(table.rows(), sorted(batches.into_iter()));
}

#[test]
fn a_file_past_its_target_makes_room_for_the_next() {
    let (mut table, schema) = longs("rollover");
    let mix = |i: i64| i.wrapping_mul(0x1234_5678_9abc_def1).rotate_left(29).wrapping_mul(0x2545_f491_4f6c_dd1d);
    let options = WriterOptions { target_file_bytes: 200_000, ..WriterOptions::default() };
    let mut writer = Writer::new(&table.layout, options).unwrap();
    let mut all = Vec::new();
    for start in (0..200_000).step_by(10_000) {
        let values = Int64Array::from_iter_values((start..start + 10_000).map(mix));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).unwrap();
        writer.write(&batch, &[span(0, start, 4_000), span(7, start, 6_000)]).unwrap();
        all.push(batch);
    }
    let files = writer.deliver(table.runtime.handle()).unwrap();
    assert!((5..=10).contains(&files.len()), "{} files of 1.6 MB", files.len());
    assert_eq!(files.iter().map(|file| file.num_records).sum::<u64>(), 200_000);
    for file in &files {
        assert!(file.size_bytes < 400_000, "{} bytes", file.size_bytes);
        assert_eq!(file.spans.iter().map(|span| span.rows).sum::<u64>(), file.num_records);
        assert_eq!(file.spans.len(), 2);
        assert_eq!(file.spans[0].rows * 3, file.spans[1].rows * 2);
    }
    let mut spans: Vec<FileSpan> = files.iter().map(|file| file.spans[0]).collect();
    spans.sort_by_key(|span| span.from);
    for pair in spans.windows(2) {
        assert!(pair[0].to <= pair[1].from, "{pair:?}: each file's span begins after the one before it");
    }
    table.commit(&files);
    assert_eq!(table.rows(), sorted(all.into_iter()));
}

#[test]
fn encodings_are_seen_in_the_file() {
    let schema = schema(vec![
        Field::new("offset", DataType::Int64, true),
        Field::new("method", DataType::Utf8, true),
        Field::new("uuid", DataType::Utf8, true),
        Field::new("time", DataType::Utf8, true),
    ]);
    let rows = 20_000;
    let text = |f: &dyn Fn(u64) -> String| Arc::new(StringArray::from_iter_values((0..rows).map(f))) as ArrayRef;
    let mix = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(0..rows as i64)),
            text(&|i| ["GET", "PUT"][i as usize % 2].to_owned()),
            text(&|i| format!("{:016x}{:016x}", mix(i), mix(i + rows))),
            text(&|i| format!("2024-01-01T00:00:00.{i:06}Z")),
        ],
    )
    .unwrap();
    for plain in [false, true] {
        let mut table = Table::new(if plain { "plain" } else { "encoded" }, &schema, &[]);
        let compression: Compression = "zstd".parse().unwrap();
        let options = WriterOptions { plain_encodings: plain, compression, ..WriterOptions::default() };
        let files = table.ingest(std::slice::from_ref(&batch), options);
        assert!(files[0].path.ends_with(".zstd.parquet"));
        let metadata = metadata(&table, &files[0]);
        let group = metadata.row_group(0);
        let has = |column: usize, encoding| group.column(column).encodings().any(|e| e == encoding);
        assert!(has(1, Encoding::RLE_DICTIONARY), "repeating text");
        assert!(!has(2, Encoding::RLE_DICTIONARY), "unique text");
        assert_eq!(has(0, Encoding::DELTA_BINARY_PACKED), !plain);
        assert_eq!(has(2, Encoding::DELTA_LENGTH_BYTE_ARRAY), !plain);
        assert_eq!(has(3, Encoding::DELTA_BYTE_ARRAY), !plain);
        assert_eq!(table.rows(), sorted([batch.clone()].into_iter()));
    }
}

/// P07: a required field of a struct that is NULL itself; P14: odd names.
#[test]
fn names_and_nullability_are_kept() {
    let inner = Field::new("id", DataType::Int32, false);
    let names = ["a.b", "a b", "a-b", "ñ", "_id", "A", &"n".repeat(200)];
    let mut fields = vec![Field::new("before", DataType::Struct(vec![inner.clone()].into()), true)];
    fields.extend(names.iter().map(|name| Field::new(*name, DataType::Int32, true)));
    let schema = schema(fields);
    let before = StructArray::new(
        vec![inner].into(),
        vec![Arc::new(Int32Array::from(vec![0, 1]))],
        Some(NullBuffer::from(vec![false, true])),
    );
    let mut columns: Vec<ArrayRef> = vec![Arc::new(before)];
    columns.extend((0..names.len() as i32).map(|n| Arc::new(Int32Array::from(vec![n, n + 100])) as ArrayRef));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let mut table = Table::new("names", &schema, &[]);
    let files = table.ingest(std::slice::from_ref(&batch), WriterOptions::default());
    assert_eq!(table.rows(), sorted([batch].into_iter()));
    let stats: serde_json::Value = serde_json::from_str(&files[0].stats).unwrap();
    assert_eq!(stats["nullCount"]["before"]["id"], 1);
    assert_eq!(stats["minValues"]["a.b"], 0);
}

#[test]
fn what_does_not_fit_is_refused() {
    let (table, schema) = longs("refused");
    let mut writer = Writer::new(&table.layout, WriterOptions::default()).unwrap();
    let other = super::shapes::schema(vec![Field::new("k", DataType::Int32, false)]);
    let batch = RecordBatch::try_new(other, vec![Arc::new(Int32Array::from(vec![1]))]).unwrap();
    assert!(matches!(writer.write(&batch, &[]), Err(EncodeError::Mismatch { .. })));
    let nullable = super::shapes::schema(vec![Field::new("k", DataType::Int64, true)]);
    let batch = RecordBatch::try_new(nullable, vec![Arc::new(Int64Array::from(vec![Some(1), None]))]).unwrap();
    assert!(matches!(writer.write(&batch, &[]), Err(EncodeError::Null { .. })));
    writer.write(&keys(&schema, 0..5), &[]).unwrap();
    assert!(!writer.is_empty());
    writer.discard();
    assert!(writer.is_empty());
    assert!(writer.deliver(table.runtime.handle()).unwrap().is_empty());
}

/// P56: single values of many MB, which must neither overflow a page nor pile up.
#[test]
fn large_values_pass() {
    let schema = schema(vec![Field::new("body", DataType::Binary, true), Field::new("k", DataType::Int64, true)]);
    let mut table = Table::new("large", &schema, &[]);
    let mut writer = Writer::new(&table.layout, WriterOptions::default()).unwrap();
    let mut most = 0;
    for round in 0..4u8 {
        let bodies: Vec<Vec<u8>> = (0..3).map(|n| vec![round * 3 + n; 5 << 20]).collect();
        let column = BinaryArray::from_iter_values(&bodies);
        let batch =
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column), Arc::new(Int64Array::from(vec![0; 3]))]);
        writer.write(&batch.unwrap(), &[]).unwrap();
        most = most.max(writer.held_bytes());
    }
    assert!(most < 32 << 20, "held {most} bytes of 60 MB that compress well");
    let files = writer.deliver(table.runtime.handle()).unwrap();
    assert_eq!((files.len(), files[0].num_records), (1, 12));
    table.commit(&files);
    let scan = crate::scan::Scan::open(table.folder.to_str().unwrap(), Some(&["body"]), table.runtime.handle());
    let mut seen = Vec::new();
    for batch in scan.unwrap() {
        let batch = batch.unwrap();
        assert_eq!(batch.num_columns(), 1);
        use arrow_array::cast::AsArray;
        for value in batch.column(0).as_binary::<i32>().iter() {
            let value = value.unwrap();
            assert!(value.len() == 5 << 20 && value.iter().all(|byte| *byte == value[0]));
            seen.push(value[0]);
        }
    }
    assert_eq!(seen, (0..12).collect::<Vec<u8>>());
}

/// P32, P25, P26: far times, and bounds that are rounded away from the values.
#[test]
fn time_bounds_are_rounded_outward() {
    let schema = schema(vec![
        Field::new("ts", DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("ntz", DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None), true),
    ]);
    #[rustfmt::skip] // columns: microseconds, minimum, maximum (no zone)
    let cases = [
        (3_723_456_789,             Some("1970-01-01T01:02:03.456"), Some("1970-01-01T01:02:03.457")),
        (-1,                        Some("1969-12-31T23:59:59.999"), Some("1970-01-01T00:00:00.000")),
        (1_786_392_293_080_758,     Some("2026-08-10T20:04:53.080"), Some("2026-08-10T20:04:53.081")),
        (9_223_459_200_000_000,     Some("2262-04-13T00:00:00.000"), Some("2262-04-13T00:00:00.000")),
        (253_402_300_799_999_999,   Some("9999-12-31T23:59:59.999"), None),
        (i64::MAX,                  None,                            None),
        (i64::MIN,                  None,                            None),
    ];
    let mut table = Table::new("times", &schema, &[]);
    for (micros, min, max) in cases {
        let ts = TimestampMicrosecondArray::from(vec![micros]);
        let columns: Vec<ArrayRef> = vec![Arc::new(ts.clone().with_timezone("UTC")), Arc::new(ts)];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let files = table.ingest(&[batch], WriterOptions::default());
        let stats: serde_json::Value = serde_json::from_str(&files[0].stats).unwrap();
        for (bound, expected) in [("minValues", min), ("maxValues", max)] {
            let expected_utc = expected.map(|text| format!("{text}Z"));
            assert_eq!(stats[bound]["ts"].as_str(), expected_utc.as_deref(), "{micros} {bound}");
            assert_eq!(stats[bound]["ntz"].as_str(), expected, "{micros} {bound}");
        }
    }
    assert_eq!(table.rows().len(), cases.len());
}

/// A store that refuses for a while loses nothing: the same rows are delivered once it takes them.
#[test]
fn a_delivery_that_failed_is_made_again() {
    let schema = schema(vec![Field::new("p", DataType::Utf8, true), Field::new("k", DataType::Int64, true)]);
    let mut table = Table::new("refusing", &schema, &["p"]);
    let mut writer = Writer::new(&table.layout, WriterOptions::default()).unwrap();
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..400).map(|n| format!("v{}", n % 40))));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..400));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values, keys]).unwrap();
    writer.write(&batch, &[]).unwrap();
    let blocks: Vec<_> = (0..40).step_by(7).map(|n| table.folder.join(format!("p=v{n}"))).collect();
    for block in &blocks {
        std::fs::write(block, "a file where a folder must be").unwrap();
    }
    for _ in 0..3 {
        let error = writer.deliver(table.runtime.handle()).unwrap_err();
        assert!(matches!(error, EncodeError::Upload(_)), "{error}");
        assert!(error.to_string().contains("part-00000-"), "{error}");
        assert!(!writer.is_empty());
    }
    writer.write(&batch.slice(0, 60), &[]).unwrap();
    for block in &blocks {
        std::fs::remove_file(block).unwrap();
    }
    let files = writer.deliver(table.runtime.handle()).unwrap();
    assert!((40..=80).contains(&files.len()), "{} files", files.len());
    assert!(writer.is_empty());
    table.commit(&files);
    assert_eq!(table.rows(), sorted([batch.slice(0, 60), batch].into_iter()));
}

/// Files above one request's size go up in pieces and are whole.
#[test]
fn a_large_file_goes_up_in_pieces() {
    use rand::rngs::SmallRng;
    use rand::{RngCore, SeedableRng};
    let schema = schema(vec![Field::new("body", DataType::Binary, true)]);
    let mut table = Table::new("pieces", &schema, &[]);
    let mut random = SmallRng::seed_from_u64(7);
    let mut bodies = vec![vec![0; 1 << 20]; 70];
    bodies.iter_mut().for_each(|body| random.fill_bytes(body));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(BinaryArray::from_iter_values(&bodies))]);
    let files = table.ingest(&[batch.unwrap()], WriterOptions::default());
    assert!(files[0].size_bytes > 70 << 20);
    assert_eq!(std::fs::metadata(table.folder.join(&files[0].path)).unwrap().len(), files[0].size_bytes);
    let scan = crate::scan::Scan::open(table.folder.to_str().unwrap(), None, table.runtime.handle()).unwrap();
    use arrow_array::cast::AsArray;
    let read: Vec<Vec<u8>> = scan
        .flat_map(|batch| {
            batch.unwrap().column(0).as_binary::<i32>().iter().map(|v| v.unwrap().to_vec()).collect::<Vec<_>>()
        })
        .collect();
    assert!(read == bodies);
}

/// Where the table asks for it partition columns stand in the files as well, without statistics.
#[test]
fn partition_columns_stand_in_files_where_asked() {
    use crate::layout::{Layout, LayoutParts};
    let schema = schema(vec![Field::new("p", DataType::Utf8, true), Field::new("k", DataType::Int64, true)]);
    let table = Table::new("materialised", &schema, &["p"]);
    let layout = Layout::from(LayoutParts {
        table: "materialised".to_owned(),
        shape: table.layout.shape(),
        schema: Arc::clone(&schema),
        partition_columns: vec!["p".to_owned()],
        stats_columns: table.layout.stats_columns().clone(),
        partition_columns_in_files: true,
        store: Arc::clone(table.layout.store()),
        root: table.layout.root().clone(),
    });
    let mut writer = Writer::new(&layout, WriterOptions::default()).unwrap();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(StringArray::from(vec!["x"; 3])), Arc::new(Int64Array::from(vec![1; 3]))];
    writer.write(&RecordBatch::try_new(schema, columns).unwrap(), &[]).unwrap();
    let files = writer.deliver(table.runtime.handle()).unwrap();
    assert_eq!(metadata(&table, &files[0]).row_group(0).num_columns(), 2);
    let stats: serde_json::Value = serde_json::from_str(&files[0].stats).unwrap();
    assert_eq!((&stats["minValues"]["p"], &stats["minValues"]["k"]), (&serde_json::Value::Null, &1.into()));
}
