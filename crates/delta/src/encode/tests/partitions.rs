//! Partition values of every type, and strings that broke others.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{Field, Schema, SchemaRef};

use super::made::{Table, sorted, span};
use crate::encode::{EncodeError, Writer, WriterOptions};

fn keyed(column: &ArrayRef) -> (SchemaRef, RecordBatch) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("p", column.data_type().clone(), true),
        Field::new("k", arrow_schema::DataType::Int64, true),
    ]));
    let keys = Int64Array::from_iter_values(0..column.len() as i64);
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(column), Arc::new(keys)]).unwrap();
    (schema, batch)
}

#[test]
fn values_of_every_type_come_back() {
    let decimal = |values: Vec<Option<i128>>, p, s| {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(p, s).unwrap()) as ArrayRef
    };
    let micros = vec![Some(0), Some(-1), Some(1_709_210_096_123_456), Some(9_223_372_800_000_000), None];
    let cases: Vec<(&str, ArrayRef)> = vec![
        ("boolean", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("byte", Arc::new(Int8Array::from(vec![Some(-128), Some(127), None]))),
        ("short", Arc::new(Int16Array::from(vec![Some(-32768), Some(0), None]))),
        ("integer", Arc::new(Int32Array::from(vec![Some(i32::MIN), Some(7), None]))),
        ("long", Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), None]))),
        ("float", Arc::new(Float32Array::from(vec![Some(0.1), Some(-1.5e30), None]))),
        ("double", Arc::new(Float64Array::from(vec![Some(0.1), Some(1e-9), Some(12_345_678.0), None]))),
        ("date", Arc::new(Date32Array::from(vec![Some(0), Some(19_753), Some(2_932_896), Some(-719_162), None]))),
        ("timestamp", Arc::new(TimestampMicrosecondArray::from(micros.clone()).with_timezone("UTC"))),
        ("timestamp_ntz", Arc::new(TimestampMicrosecondArray::from(micros))),
        ("decimal", decimal(vec![Some(0), Some(-5), Some(123_456_789), None], 10, 2)),
        ("large_decimal", decimal(vec![Some(10i128.pow(37)), Some(-7), None], 38, 10)),
        ("binary", Arc::new(BinaryArray::from(vec![Some(&b"\x01\x02"[..]), Some("é/".as_bytes()), None]))),
        ("string", Arc::new(StringArray::from(vec![Some("a"), Some("b"), None]))),
    ];
    for (name, column) in cases {
        let (schema, batch) = keyed(&column);
        let mut table = Table::new(&format!("by_{name}"), &schema, &["p"]);
        let files = table.ingest(std::slice::from_ref(&batch), WriterOptions::default());
        assert_eq!(files.len(), column.len(), "{name}: a file for each value");
        assert_eq!(table.rows(), sorted([batch].into_iter()), "{name}");
        let null = files.iter().find(|file| file.partition_values[0].1.is_none()).unwrap();
        assert!(null.path.starts_with("p=__HIVE_DEFAULT_PARTITION__/"), "{}", null.path);
    }
}

#[test]
fn strings_that_broke_others_come_back() {
    let ascii: String = (32..127u8).map(char::from).collect();
    let fixed = [
        "A/A",
        "B B",
        "x:y",
        "x/y",
        "a%b",
        "US%2FEast",
        "100%2525",
        "a?",
        "é",
        "中文",
        "a/",
        "/",
        "//",
        "a\nb",
        "a\tb",
        "\u{7f}",
        "'",
        "\"",
        "..",
        ".",
        " ",
        "=",
        "a=b",
        "a+b",
        "a&b",
        "a;b",
        "a,b",
        "~",
        "%",
        "%%20",
        "#1",
        "#x",
        "__HIVE_DEFAULT_PARTITION__x",
        "😀",
        "null",
        "\\",
        "C:\\x",
    ];
    let mut values: BTreeSet<String> = fixed.iter().map(|&value| value.to_owned()).collect();
    values.extend((32..127u8).map(|byte| char::from(byte).to_string()));
    values.insert(ascii.clone());
    values.insert("long ".repeat(100));
    values.insert("é".repeat(200));
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(&values));
    let (schema, batch) = keyed(&column);
    let mut table = Table::new("by_odd_string", &schema, &["p"]);
    let files = table.ingest(std::slice::from_ref(&batch), WriterOptions::default());
    assert_eq!(files.len(), values.len());
    assert_eq!(table.rows(), sorted([batch].into_iter()));
    let written: BTreeSet<String> = files.iter().map(|file| file.partition_values[0].1.clone().unwrap()).collect();
    assert_eq!(written, values, "the log says the values as they are");
    for file in &files {
        assert!(file.path.bytes().all(|byte| byte.is_ascii_graphic()), "{}", file.path);
    }
}

/// K22, K49: NULL however it comes, and the empty string, are one partition.
#[test]
fn null_and_empty_are_one_partition() {
    let column: ArrayRef = Arc::new(StringArray::from(vec![None, Some(""), Some("x"), None]));
    let (schema, batch) = keyed(&column);
    let mut table = Table::new("null_partition", &schema, &["p"]);
    let files = table.ingest(&[batch], WriterOptions::default());
    let mut rows: Vec<_> = files.iter().map(|file| (file.partition_values[0].1.as_deref(), file.num_records)).collect();
    rows.sort_unstable();
    assert_eq!(rows, [(None, 3), (Some("x"), 1)]);
    let required = Arc::new(Schema::new(vec![
        Field::new("p", arrow_schema::DataType::Utf8, false),
        Field::new("k", arrow_schema::DataType::Int64, true),
    ]));
    let table = Table::new("required_partition", &required, &["p"]);
    let mut writer = Writer::new(&table.layout, WriterOptions::default()).unwrap();
    let column: ArrayRef = Arc::new(StringArray::from(vec!["x", ""]));
    let batch = RecordBatch::try_new(required, vec![column, Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
    assert!(matches!(writer.write(&batch, &[]), Err(EncodeError::Null { column, .. }) if column == "p"));
}

/// P28: however rows of two values take turns, a delivery has one file of each.
#[test]
fn interleaved_values_make_one_file_each_in_order() {
    let column: ArrayRef = Arc::new(StringArray::from_iter_values((0..16_000).map(|i| format!("h{}", i % 2))));
    let (schema, _) = keyed(&column);
    let mut table = Table::new("interleaved", &schema, &["p"]);
    let mut writer = Writer::new(&table.layout, WriterOptions::default()).unwrap();
    for start in (0..160_000).step_by(16_000) {
        let keys = Int64Array::from_iter_values(start..start + 16_000);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&column), Arc::new(keys)]).unwrap();
        writer.write(&batch, &[span(3, start, 16_000)]).unwrap();
    }
    let files = writer.deliver(table.runtime.handle()).unwrap();
    assert_eq!(files.len(), 2);
    for file in &files {
        assert_eq!(file.num_records, 80_000);
        let expected = crate::layout::FileSpan { rows: 80_000, ..span(3, 0, 160_000) };
        assert_eq!(file.spans, [expected]);
    }
    table.commit(&files);
    let scan = crate::scan::Scan::open(table.folder.to_str().unwrap(), Some(&["k", "p"]), table.runtime.handle());
    let mut last: std::collections::BTreeMap<String, i64> = Default::default();
    for batch in scan.unwrap() {
        let batch = batch.unwrap();
        use arrow_array::cast::AsArray;
        let keys = batch.column(0).as_primitive::<arrow_array::types::Int64Type>();
        let values = batch.column(1).as_string::<i32>();
        for row in 0..batch.num_rows() {
            let last = last.entry(values.value(row).to_owned()).or_insert(-1);
            assert!(*last < keys.value(row), "rows of a file keep their order");
            *last = keys.value(row);
        }
    }
    assert_eq!(last.into_values().collect::<Vec<_>>(), [159_998, 159_999]);
}

/// P29: thousands of values at once, a few rows each, and one busy value among them.
#[test]
fn thousands_of_values_stay_within_memory() {
    const VALUES: i64 = 3_000;
    let schema = keyed(&(Arc::new(StringArray::from(vec!["x"])) as ArrayRef)).0;
    let table = Table::new("many_values", &schema, &["p"]);
    let options = WriterOptions { memory_bytes: 16 << 20, ..WriterOptions::default() };
    let mut writer = Writer::new(&table.layout, options).unwrap();
    let (mut most, mut rows) = (0, 0);
    for start in (0..2_000_000).step_by(20_000) {
        // One row in a hundred is of a quiet value.
        let value = |i: i64| if i % 100 == 0 { format!("q{}", i / 100 % VALUES) } else { "busy".to_owned() };
        let column: ArrayRef = Arc::new(StringArray::from_iter_values((start..start + 20_000).map(value)));
        let keys = Int64Array::from_iter_values(start..start + 20_000);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column, Arc::new(keys)]).unwrap();
        writer.write(&batch, &[]).unwrap();
        rows += 20_000;
        most = most.max(writer.held_bytes());
    }
    assert!(most < 16 << 20, "held {most} bytes");
    let (mut sealed, mut files) = (0, 0);
    while let Some(file) = writer.seal_next().unwrap() {
        sealed += file.rows();
        files += 1;
    }
    assert_eq!((sealed, files), (rows, VALUES as u64 + 1));
    assert!(writer.is_empty());
    writer.trim();
    assert_eq!(writer.held_bytes(), 0);
}

#[test]
fn rows_that_cant_be_filed_are_sifted_out_alone() {
    let required = |data_type, values: ArrayRef| {
        let schema = Arc::new(Schema::new(vec![
            Field::new("p", data_type, false),
            Field::new("k", arrow_schema::DataType::Int64, true),
        ]));
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..values.len() as i64));
        (Arc::clone(&schema), RecordBatch::try_new(schema, vec![values, keys]).unwrap())
    };
    #[rustfmt::skip] // columns: name, type, values of which those at 1 and 3 can't be filed
    let cases: Vec<(&str, arrow_schema::DataType, ArrayRef)> = vec![
        ("empty_text", arrow_schema::DataType::Utf8, Arc::new(StringArray::from(vec!["a", "", "b", ""]))),
        ("far_dates", arrow_schema::DataType::Date32, Arc::new(Date32Array::from(vec![0, 2_932_897, 1, i32::MIN]))),
        ("no_utf8", arrow_schema::DataType::Binary, Arc::new(BinaryArray::from(vec![&b"a"[..], b"\xff", b"b", b"\xc3"]))),
    ];
    for (name, data_type, values) in cases {
        let (schema, batch) = required(data_type, values);
        let table = Table::new(name, &schema, &["p"]);
        let mut writer = Writer::new(&table.layout, WriterOptions::default()).unwrap();
        let (kept, unfit) = writer.sift(batch.clone()).unwrap();
        assert_eq!(unfit.iter().map(|unfit| unfit.row).collect::<Vec<_>>(), [1, 3], "{name}");
        assert_eq!(kept.num_rows(), 2, "{name}");
        writer.write(&kept, &[]).unwrap();
        let (again, none) = writer.sift(kept.clone()).unwrap();
        assert!(none.is_empty() && again == kept, "{name}: what was kept fits");
        assert!(writer.write(&batch, &[]).is_err(), "{name}: unsifted, the batch is refused");
    }
}
