//! Rows as messages, and back.

use arrow_array::builder::{Decimal128Builder, Int64Builder, TimestampMicrosecondBuilder};
use arrow_array::builder::{ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, StringArray, StructArray, TimestampMicrosecondArray,
};

use super::*;
use crate::encode::{Rows, check_schema};

fn written(batch: &RecordBatch) -> Vec<String> {
    let rows = Rows::of(batch, None).expect("columns that messages have");
    let row = |row| {
        let mut out = Vec::new();
        rows.write(row, &mut out);
        String::from_utf8(out).expect("JSON is text")
    };
    (0..batch.num_rows()).map(row).collect()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = table(fields.collect());
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect()).expect("columns")
}

/// Written, and read by the decoder: the same. Floats by their bits, so that -0.0 is not 0.0.
fn there_and_back(batch: &RecordBatch) -> Vec<String> {
    let messages = written(batch);
    let texts: Vec<&str> = messages.iter().map(String::as_str).collect();
    let decoded = decode(&batch.schema(), &[], &texts);
    assert!(decoded.bad.is_empty(), "{:?} of {messages:?}", decoded.bad);
    assert_eq!(rows(&decoded.batch), rows(batch), "{messages:?}");
    assert_eq!(&decoded.batch, batch);
    messages
}

#[test]
fn each_type_there_and_back() {
    let text = |values: Vec<Option<&str>>| Arc::new(StringArray::from(values)) as ArrayRef;
    #[rustfmt::skip] // column, what its values become
    let cases: Vec<(ArrayRef, &[&str])> = vec![
        (Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])), &["true", "null", "false"]),
        (Arc::new(Int8Array::from(vec![i8::MIN, i8::MAX])), &["-128", "127"]),
        (Arc::new(Int16Array::from(vec![i16::MIN, 0])), &["-32768", "0"]),
        (Arc::new(Int32Array::from(vec![i32::MIN, i32::MAX])), &["-2147483648", "2147483647"]),
        (Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX])), &["-9223372036854775808", "9223372036854775807"]),
        (Arc::new(Float32Array::from(vec![0.1, f32::MAX, f32::MIN_POSITIVE, -0.0])), &["0.1", "3.4028235e38", "1.1754944e-38", "-0.0"]),
        (Arc::new(Float64Array::from(vec![0.1, 1e300, 5e-324, -0.0, 1.0])), &["0.1", "1e300", "5e-324", "-0.0", "1.0"]),
        (Arc::new(Float64Array::from(vec![f64::INFINITY, f64::NEG_INFINITY])), &["\"Infinity\"", "\"-Infinity\""]),
        (Arc::new(Decimal128Array::from(vec![-5, 123_456, 0]).with_precision_and_scale(38, 2).unwrap()), &["\"-0.05\"", "\"1234.56\"", "\"0.00\""]),
        (Arc::new(Decimal128Array::from(vec![10_i128.pow(38) - 1]).with_precision_and_scale(38, 0).unwrap()), &["\"99999999999999999999999999999999999999\""]),
        (Arc::new(Date32Array::from(vec![0, -1, 18_942, -719_529, 2_932_897])), &["\"1970-01-01\"", "\"1969-12-31\"", "\"2021-11-11\"", "-719529", "2932897"]),
        (Arc::new(TimestampMicrosecondArray::from(vec![0, -1, 1_636_668_718_123_000, i64::MAX])), &["\"1970-01-01T00:00:00\"", "\"1969-12-31T23:59:59.999999\"", "\"2021-11-11T22:11:58.123\"", "9223372036854775807"]),
        (Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MIN]).with_timezone("UTC")), &["\"1970-01-01T00:00:00Z\"", "-9223372036854775808"]),
        (text(vec![Some(""), None, Some("a\"b\\c\n\u{1}\u{7f} é 😀")]), &["\"\"", "null", "\"a\\\"b\\\\c\\n\\u0001\u{7f} é 😀\""]),
        (Arc::new(BinaryArray::from(vec![&b""[..], &b"\x00\xff\x10"[..]])), &["\"\"", "\"00ff10\""]),
    ];
    for (column, expected) in cases {
        let expected: Vec<String> = expected.iter().map(|value| format!("{{\"a \\\"name\":{value}}}")).collect();
        assert_eq!(there_and_back(&batch(vec![("a \"name", column)])), expected);
    }
}

#[test]
fn not_a_number_is_read_back_as_such() {
    let nan = batch(vec![("f", Arc::new(Float64Array::from(vec![f64::NAN])) as ArrayRef)]);
    assert_eq!(written(&nan), [r#"{"f":"NaN"}"#]);
    let decoded = decode(&nan.schema(), &[], &[r#"{"f":"NaN"}"#]);
    assert!(decoded.batch.column(0).as_primitive::<Float64Type>().value(0).is_nan());
}

#[test]
fn nested_columns_there_and_back() {
    let mut list = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
    list.values().append_value([Some(1), None]);
    list.values().append_null();
    list.append(true);
    list.append(true);
    list.append(false);
    let list = list.finish();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(2), Some(3)]));
    let fields = vec![column("n", DataType::Int64), column("l", list.data_type().clone())];
    let nulls = vec![true, true, false].into();
    let parts = StructArray::new(fields.into(), vec![numbers, Arc::new(list.clone())], Some(nulls));
    assert_eq!(
        there_and_back(&batch(vec![("s", Arc::new(parts) as ArrayRef), ("l", Arc::new(list) as ArrayRef)])),
        [
            r#"{"s":{"n":null,"l":[[1,null],null]},"l":[[1,null],null]}"#,
            r#"{"s":{"n":2,"l":[]},"l":[]}"#,
            r#"{"s":null,"l":null}"#
        ]
    );
}

#[test]
fn maps_there_and_back() {
    let decimal = Decimal128Builder::new().with_precision_and_scale(5, 2).unwrap();
    let mut maps = MapBuilder::new(Some(names()), Int64Builder::new(), decimal);
    maps.keys().append_slice(&[-1, 7]);
    maps.values().append_value(150);
    maps.values().append_null();
    maps.append(true).unwrap();
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    let mut times = MapBuilder::new(Some(names()), TimestampMicrosecondBuilder::new(), StringBuilder::new());
    times.keys().append_slice(&[0, 1]);
    times.values().append_value("x");
    times.values().append_value("y");
    times.append(true).unwrap();
    times.append(true).unwrap();
    times.append(true).unwrap();
    let (maps, times): (ArrayRef, ArrayRef) = (Arc::new(maps.finish()), Arc::new(times.finish()));
    assert_eq!(
        there_and_back(&batch(vec![("m", maps), ("t", times)])),
        [
            r#"{"m":{"-1":"1.50","7":null},"t":{"1970-01-01T00:00:00":"x","1970-01-01T00:00:00.000001":"y"}}"#,
            r#"{"m":{},"t":{}}"#,
            r#"{"m":null,"t":{}}"#
        ]
    );
}

fn names() -> arrow_array::builder::MapFieldNames {
    let [entry, key, value] = ["entries", "key", "value"].map(str::to_owned);
    arrow_array::builder::MapFieldNames { entry, key, value }
}

#[test]
fn only_some_columns_and_slices_of_them() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let whole = batch(vec![("n", numbers), ("t", texts)]);
    let slice = whole.slice(1, 2);
    let rows = Rows::of(&slice, Some(&[1, 0])).unwrap();
    let mut out = Vec::new();
    rows.write(1, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), r#"{"t":"c","n":3}"#);
}

#[test]
fn what_messages_do_not_have_is_told() {
    let schema = Schema::new(vec![column("d", DataType::Int64), column("x", array_of(column("e", DataType::UInt8)))]);
    let error = check_schema(&schema).unwrap_err();
    assert!(error.starts_with("column x is of type List"), "{error}");
}
