//! Pages and chunks that we write ourselves, read back by Parquet's own reader.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, StructArray, make_array, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use lakeward_protocol::position::Shape;
use object_store::memory::InMemory;
use object_store::path::Path;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Encoding;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;

use crate::encode::{Compression, SealedFile, Writer, WriterOptions};
use crate::layout::{Layout, LayoutParts, StatsColumns};

fn options(compression: &str, plain_encodings: bool) -> WriterOptions {
    let compression: Compression = compression.parse().unwrap();
    WriterOptions { compression, plain_encodings, ..WriterOptions::default() }
}

fn write(schema: &SchemaRef, batches: &[RecordBatch], options: WriterOptions) -> SealedFile {
    let layout = Layout::from(LayoutParts {
        table: "columns".to_owned(),
        shape: Shape(0),
        schema: Arc::clone(schema),
        partition_columns: Vec::new(),
        stats_columns: StatsColumns::All,
        partition_columns_in_files: false,
        store: Arc::new(InMemory::new()),
        root: Path::from("table"),
    });
    let mut writer = Writer::new(&layout, options).unwrap();
    for batch in batches {
        writer.write(batch, &[]).unwrap();
    }
    let file = writer.seal_next().unwrap().unwrap();
    assert!(writer.seal_next().unwrap().is_none(), "one file");
    file
}

/// The file's footer, and all its rows as one batch.
fn read(file: &SealedFile) -> (ParquetMetaData, RecordBatch) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file.parts.concat())).unwrap();
    let metadata = builder.metadata().as_ref().clone();
    let batches: Vec<_> = builder.with_batch_size(7001).build().unwrap().map(Result::unwrap).collect();
    (metadata, arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap())
}

/// Writes batches and expects them back. Returns a file written as usual; in what other way one is
/// written as well depends on the case.
fn check(name: &str, schema: &SchemaRef, batches: &[RecordBatch]) -> SealedFile {
    let all = arrow_select::concat::concat_batches(schema, batches).unwrap();
    let other = [("none", true), ("snappy", false), ("zstd:3", true)][name.len() % 3];
    for (compression, plain) in [other, ("zstd", false)] {
        let file = write(schema, batches, options(compression, plain));
        let (metadata, found) = read(&file);
        assert_eq!(found.num_rows(), all.num_rows(), "{name}, {compression}");
        for (n, column) in found.columns().iter().enumerate() {
            let column = cast(column, all.column(n).data_type()).unwrap();
            assert!(column.as_ref() == all.column(n).as_ref(), "{name}, {compression}: column {n} is another");
        }
        let bytes: i64 =
            metadata.row_groups().iter().flat_map(|group| group.columns()).map(|c| c.compressed_size()).sum();
        assert!(bytes as u64 <= file.size_bytes, "{name}: {bytes} bytes of pages in {}", file.size_bytes);
        if compression == "zstd" {
            return file;
        }
    }
    unreachable!("the last one is zstd")
}

fn mix(n: usize) -> u64 {
    (n as u64 ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// More than a page has.
const ROWS: usize = 25_000;

/// Which rows are NULL.
#[rustfmt::skip]
const HOLES: [(&str, fn(usize) -> bool); 5] = [
    ("none",  |_| false),
    ("all",   |_| true),
    ("some",  |n| mix(n).is_multiple_of(3)),
    ("runs",  |n| n / 1000 % 2 == 0),
    ("late",  |n| n >= 18_000 && n % 7 == 0),
];

/// Batches of one column, cut at odd places out of larger arrays, as slices are.
fn batches(array: &ArrayRef) -> (SchemaRef, Vec<RecordBatch>) {
    let schema = Arc::new(Schema::new(vec![Field::new("c", array.data_type().clone(), true)]));
    let whole = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(array)]).unwrap();
    let mut cuts = vec![0, 1, 8, 9_003, 9_003 + 15, 19_999, 22_001, array.len()];
    cuts.retain(|cut| *cut <= array.len());
    let batches = cuts.windows(2).map(|cut| whole.slice(cut[0], cut[1] - cut[0])).collect();
    (schema, batches)
}

#[test]
fn whole_numbers_of_all_shapes_come_back() {
    let (min, max) = (i64::MIN, i64::MAX);
    #[rustfmt::skip] // columns: name, values
    let shapes: [(&str, &dyn Fn(usize) -> i64); 7] = [
        ("one",       &|_| -7),
        ("few",       &|n| (mix(n) % 11) as i64 - 5),
        ("ascending", &|n| n as i64 * 3 - 50_000),
        ("noise",     &|n| mix(n) as i64),
        ("wild late", &|n| if n < 9_000 { n as i64 } else { [min, max, 0, -1][n % 4] }),
        ("many late", &|n| if n < 9_000 { 1 } else { mix(n) as i64 }),
        ("runs",      &|n| (n / 37) as i64),
    ];
    for (shape, value) in shapes {
        for (holes, is_hole) in HOLES {
            let values = || (0..ROWS).map(|n| (!is_hole(n)).then(|| value(n)));
            let long: PrimitiveArray<Int64Type> = values().collect();
            let int: PrimitiveArray<Int32Type> = values().map(|v| v.map(|v| (v ^ v >> 32) as i32)).collect();
            let name = format!("{shape}, {holes}");
            check_numbers(&format!("long, {name}"), Arc::new(long));
            check_numbers(&format!("int, {name}"), Arc::new(int));
        }
        let byte: PrimitiveArray<Int8Type> = (0..ROWS).map(|n| Some(value(n) as i8)).collect();
        check_numbers(&format!("byte, {shape}"), Arc::new(byte));
        let short: PrimitiveArray<Int16Type> = (0..ROWS).map(|n| Some(value(n) as i16)).collect();
        check_numbers(&format!("short, {shape}"), Arc::new(short));
    }
}

fn check_numbers(name: &str, array: ArrayRef) {
    let wide = cast(&array, &DataType::Int64).unwrap();
    let values: Vec<i64> =
        wide.as_any().downcast_ref::<PrimitiveArray<Int64Type>>().unwrap().iter().flatten().collect();
    let (schema, batches) = batches(&array);
    let file = check(name, &schema, &batches);
    let metadata = read(&file).0;
    let (low, high) = match metadata.row_group(0).column(0).statistics().unwrap() {
        Statistics::Int32(s) => (s.min_opt().map(|v| i64::from(*v)), s.max_opt().map(|v| i64::from(*v))),
        Statistics::Int64(s) => (s.min_opt().copied(), s.max_opt().copied()),
        other => panic!("{name}: {other}"),
    };
    assert_eq!((low, high), (values.iter().min().copied(), values.iter().max().copied()), "{name}");
    check_counts(name, &file, array.null_count());
}

fn check_counts(name: &str, file: &SealedFile, nulls: usize) {
    let metadata = read(file).0;
    let column = metadata.row_group(0).column(0).clone();
    assert_eq!(column.num_values(), ROWS as i64, "{name}");
    assert_eq!(column.statistics().unwrap().null_count_opt(), Some(nulls as u64), "{name}");
    let stats: serde_json::Value = serde_json::from_str(&file.stats).unwrap();
    assert_eq!(stats["nullCount"]["c"], nulls, "{name}");
}

#[test]
fn texts_of_all_shapes_come_back() {
    let long = "ß".repeat(700_000);
    #[rustfmt::skip] // columns: name, values
    let shapes: [(&str, &dyn Fn(usize) -> String); 9] = [
        ("one",        &|_| "web_requests".to_owned()),
        ("empty",      &|_| String::new()),
        ("few",        &|n| ["", "a", "ab", "GET", "http://www.example.com/a/b"][(mix(n) % 5) as usize].to_owned()),
        ("noise",      &|n| format!("{:016x}", mix(n))),
        ("of a kind",  &|n| format!("{:032x}", u128::from(mix(n)) << 64)[..n % 33].to_owned()),
        ("times",      &|n| format!("2024-01-01T00:00:{:09}Z", n * 977)),
        ("times back", &|n| format!("2024-01-01T00:00:{:09}Z", (ROWS - n) * 977 + n % 3 * 5000)),
        ("many late",  &|n| if n < 9_000 { "x".to_owned() } else { format!("{:040x}", mix(n)) }),
        ("long late",  &|n| if n % 9_500 == 9_000 { format!("{long}{n}") } else { format!("{n:07}") }),
    ];
    for (shape, value) in shapes {
        for (holes, is_hole) in HOLES {
            let values: Vec<Option<String>> = (0..ROWS).map(|n| (!is_hole(n)).then(|| value(n))).collect();
            let mut texts = StringBuilder::new();
            let mut bytes = BinaryBuilder::new();
            for value in &values {
                texts.append_option(value.as_deref());
                bytes.append_option(value.as_ref().map(|value| value.replace('a', "\u{80}").into_bytes()));
            }
            check_texts(&format!("text, {shape}, {holes}"), &values, Arc::new(texts.finish()));
            if shape != "long late" {
                let (schema, batches) = batches(&(Arc::new(bytes.finish()) as ArrayRef));
                check(&format!("bytes, {shape}, {holes}"), &schema, &batches);
            }
        }
    }
}

fn check_texts(name: &str, values: &[Option<String>], array: ArrayRef) {
    let (schema, batches) = batches(&array);
    let file = check(name, &schema, &batches);
    let metadata = read(&file).0;
    let Statistics::ByteArray(found) = metadata.row_group(0).column(0).statistics().unwrap() else { panic!("{name}") };
    let (low, high) = (values.iter().flatten().min(), values.iter().flatten().max());
    let found_low = found.min_opt().map(|bound| bound.as_utf8().unwrap());
    let found_high = found.max_opt().map(|bound| bound.as_utf8().unwrap());
    if values.iter().flatten().all(|value| value.len() < 200) {
        assert_eq!((found_low, found_high), (low.map(String::as_str), high.map(String::as_str)), "{name}");
        assert!(found_low.is_none() || found.min_is_exact() && found.max_is_exact(), "{name}");
    } else {
        assert!(found_low <= low.map(String::as_str) && found_high >= high.map(String::as_str), "{name}");
        assert!(found_high.is_none_or(|bound| bound.len() < 300), "{name}: a bound as long as a value");
    }
    check_counts(name, &file, array.null_count());
}

/// A leaf is NULL where anything on the way to it is; fields that can't be have no level.
#[test]
fn levels_are_those_of_the_structs_above() {
    let nulls = |step: usize, at: usize| Some(NullBuffer::from_iter((0..ROWS).map(|n| n % step != at)));
    let longs = |step: usize| -> ArrayRef {
        Arc::new((0..ROWS as i64).map(|n| (n as usize % step != 1).then_some(n)).collect::<PrimitiveArray<Int64Type>>())
    };
    let sure: ArrayRef = Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(0..ROWS as i64));
    let leaves: Fields = vec![
        Field::new("maybe", DataType::Int64, true),
        Field::new("sure", DataType::Int64, false),
        Field::new("time", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
    ]
    .into();
    let time = |step| cast(&longs(step), leaves[2].data_type()).unwrap();
    let deep = |step| StructArray::new(leaves.clone(), vec![longs(7), Arc::clone(&sure), time(9)], nulls(step, 2));
    let fixed = StructArray::new(leaves.clone(), vec![longs(4), Arc::clone(&sure), time(6)], None);
    let outer: Fields = vec![
        Field::new("deep", DataType::Struct(leaves.clone()), true),
        Field::new("fixed", DataType::Struct(leaves.clone()), false),
    ]
    .into();
    let outer_array = StructArray::new(outer.clone(), vec![Arc::new(deep(5)), Arc::new(fixed)], nulls(11, 3));
    let list = Field::new("element", DataType::Int32, true);
    let schema = Arc::new(Schema::new(vec![
        Field::new("outer", DataType::Struct(outer), true),
        Field::new("list", DataType::List(Arc::new(list)), true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("last", DataType::Int64, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        make_array(outer_array.into()),
        new_null_array(schema.field(1).data_type(), ROWS),
        new_null_array(&DataType::Boolean, ROWS),
        sure,
    ];
    let whole = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let batches: Vec<_> = (0..ROWS).step_by(5_000).map(|from| whole.slice(from, 5_000)).collect();
    let file = check("structs", &schema, &batches);
    let stats: serde_json::Value = serde_json::from_str(&file.stats).unwrap();
    let expected = (0..ROWS).filter(|n| n % 11 == 3 || n % 5 == 2 || n % 7 == 1).count();
    assert_eq!(stats["nullCount"]["outer"]["deep"]["maybe"], expected);
    assert_eq!(stats["nullCount"]["outer"]["fixed"]["sure"], (0..ROWS).filter(|n| n % 11 == 3).count());
    assert_eq!((&stats["minValues"]["last"], &stats["maxValues"]["last"]), (&0.into(), &(ROWS - 1).into()));
}

/// A dictionary that grows too large ends, and what came before it stays as it is.
#[test]
fn dictionaries_end_where_values_stop_repeating() {
    let text = |n: usize| if n < 9_000 { "x".to_owned() } else { format!("{:064x}", mix(n)) };
    let array: ArrayRef = Arc::new(arrow_array::StringArray::from_iter_values((0..2 * ROWS).map(text)));
    let (schema, batches) = batches(&array);
    let metadata = read(&check("ending", &schema, &batches)).0;
    let pages = *metadata.row_group(0).column(0).page_encoding_stats_mask().unwrap();
    assert!(pages.all_set([Encoding::RLE_DICTIONARY, Encoding::DELTA_LENGTH_BYTE_ARRAY].iter()), "{pages:?}");
}

/// Noise is not searched for what repeats, which costs no bytes worth speaking of; all else is.
#[test]
fn noise_takes_no_more_bytes_for_being_skipped() {
    let uuid = |n: usize| uuid::Uuid::from_u128(u128::from(mix(n)) << 64 | u128::from(mix(n + ROWS))).to_string();
    let path = |n: usize| format!("{:04x}/a/long/path/that/comes/again/{:04x}", mix(n) >> 48, mix(n + ROWS) >> 48);
    let word = |n: usize| format!("word{:x}", mix(mix(n) as usize % 300));
    let words = |n: usize| (0..6).map(|k| word(n * 6 + k)).collect::<Vec<_>>().join(" ");
    for (name, value) in [("uuids", &uuid as &dyn Fn(usize) -> String), ("paths", &path), ("words", &words)] {
        let array: ArrayRef = Arc::new(arrow_array::StringArray::from_iter_values((0..ROWS).map(value)));
        let (schema, batches) = batches(&array);
        let size = |compression| write(&schema, &batches, options(compression, false)).size_bytes;
        let (first, second) = (size("zstd"), size("zstd:2"));
        assert!(first * 100 <= second * 103, "{name}: {first} bytes at level 1, {second} at level 2");
    }
}
