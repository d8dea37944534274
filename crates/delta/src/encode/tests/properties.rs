//! Random rows of every type: they come back as they went in, and statistics say of them what is so.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::made::{Table, sorted};
use crate::encode::WriterOptions;
use crate::layout::StatsColumns;

/// Every type, at the top, in a struct in a struct, in lists and maps.
fn everything() -> SchemaRef {
    let scalars = |suffix: &str| -> Vec<Field> {
        let types = [
            ("byte", DataType::Int8),
            ("short", DataType::Int16),
            ("int", DataType::Int32),
            ("long", DataType::Int64),
            ("float", DataType::Float32),
            ("double", DataType::Float64),
            ("boolean", DataType::Boolean),
            ("binary", DataType::Binary),
            ("string", DataType::Utf8),
            ("date", DataType::Date32),
            ("ts", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
            ("ntz", DataType::Timestamp(TimeUnit::Microsecond, None)),
            ("dec9", DataType::Decimal128(9, 2)),
            ("dec18", DataType::Decimal128(18, 4)),
            ("dec38", DataType::Decimal128(38, 10)),
        ];
        types.into_iter().map(|(name, data_type)| Field::new(format!("{name}{suffix}"), data_type, true)).collect()
    };
    let mut fields = scalars("");
    let inner = Field::new("inner", DataType::Struct(scalars("_deep").into()), true);
    let element = Arc::new(Field::new("element", DataType::Int32, true));
    let deep = Field::new("list_deep", DataType::List(Arc::clone(&element)), true);
    fields.push(Field::new("outer", DataType::Struct(vec![inner, deep].into()), true));
    fields.push(Field::new("list", DataType::List(element), true));
    let pair = vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int32, true)];
    let entries = Field::new("key_value", DataType::Struct(pair.into()), false);
    fields.push(Field::new("map", DataType::Map(Arc::new(entries), false), true));
    let item = DataType::Struct(vec![Field::new("a", DataType::Int32, true)].into());
    fields.push(Field::new("structs", DataType::List(Arc::new(Field::new("element", item, true))), true));
    Arc::new(Schema::new(fields))
}

/// How odd the values are: what readers take everywhere, or all that a column can hold.
#[derive(Clone, Copy, PartialEq)]
enum Range {
    Usual,
    Full,
}

fn batch(schema: &SchemaRef, rows: usize, random: &mut StdRng, range: Range) -> RecordBatch {
    let columns = schema.fields().iter().map(|field| column(field.data_type(), rows, random, range)).collect();
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

fn column(data_type: &DataType, rows: usize, random: &mut StdRng, range: Range) -> ArrayRef {
    let null_share = [0.0, 0.1, 1.0][random.random_range(0..100usize).min(59) / 29];
    macro_rules! values {
        ($value:expr) => {
            (0..rows).map(|_| (!random.random_bool(null_share)).then(|| $value)).collect::<Vec<_>>()
        };
    }
    let micros = |random: &mut StdRng| match range {
        Range::Usual => random.random_range(-62_135_596_800_000_000..253_402_300_799_000_000),
        Range::Full => random.random::<i64>() >> random.random_range(0..60u32),
    };
    match data_type {
        DataType::Int8 => Arc::new(Int8Array::from(values!(random.random::<i8>()))),
        DataType::Int16 => Arc::new(Int16Array::from(values!(random.random::<i16>()))),
        DataType::Int32 => Arc::new(Int32Array::from(values!(random.random::<i32>() >> random.random_range(0..30u32)))),
        DataType::Int64 => Arc::new(Int64Array::from(values!(random.random::<i64>() >> random.random_range(0..62u32)))),
        DataType::Float32 => Arc::new(Float32Array::from(values!(float(random, range) as f32))),
        DataType::Float64 => Arc::new(Float64Array::from(values!(float(random, range)))),
        DataType::Boolean => Arc::new(BooleanArray::from(values!(random.random::<bool>()))),
        DataType::Binary => Arc::new(BinaryArray::from_iter(values!(text(random).into_bytes()))),
        DataType::Utf8 => Arc::new(StringArray::from_iter(values!(text(random)))),
        DataType::Date32 => Arc::new(Date32Array::from(values!(match range {
            Range::Usual => random.random_range(-719_162..2_932_897),
            Range::Full => random.random::<i32>() >> random.random_range(0..30u32),
        }))),
        DataType::Timestamp(_, zone) => {
            Arc::new(TimestampMicrosecondArray::from(values!(micros(random))).with_timezone_opt(zone.clone()))
        }
        DataType::Decimal128(precision, scale) => {
            let most = 10i128.pow(u32::from(*precision)) - 1;
            let values =
                Decimal128Array::from(values!(random.random_range(-most..=most) >> random.random_range(0..90u32)));
            Arc::new(values.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::Struct(fields) => structs(fields, rows, random, range),
        DataType::List(element) if element.data_type() == &DataType::Int32 => {
            let mut builder = ListBuilder::new(Int32Builder::new()).with_field(Arc::clone(element));
            for _ in 0..rows {
                (0..random.random_range(0..4)).for_each(|n| builder.values().append_option((n > 0).then_some(n)));
                builder.append(random.random_bool(0.8));
            }
            Arc::new(builder.finish())
        }
        DataType::List(element) => {
            let ints = column(&DataType::Int32, rows * 2, random, range);
            let DataType::Struct(fields) = element.data_type() else { unreachable!() };
            let items = StructArray::new(fields.clone(), vec![ints], None);
            let offsets = arrow_buffer::OffsetBuffer::from_lengths(std::iter::repeat_n(2, rows));
            Arc::new(arrow_array::ListArray::new(Arc::clone(element), offsets, Arc::new(items), None))
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { unreachable!() };
            let names = arrow_array::builder::MapFieldNames {
                entry: "key_value".to_owned(),
                key: "key".to_owned(),
                value: "value".to_owned(),
            };
            let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), Int32Builder::new())
                .with_keys_field(Arc::clone(&pair[0]))
                .with_values_field(Arc::clone(&pair[1]));
            for _ in 0..rows {
                for n in 0..random.random_range(0..3) {
                    builder.keys().append_value(format!("k{n}"));
                    builder.values().append_option(random.random_bool(0.7).then_some(n));
                }
                builder.append(random.random_bool(0.8)).unwrap();
            }
            Arc::new(builder.finish())
        }
        other => unreachable!("{other}"),
    }
}

fn structs(fields: &Fields, rows: usize, random: &mut StdRng, range: Range) -> ArrayRef {
    let columns = fields.iter().map(|field| column(field.data_type(), rows, random, range)).collect();
    let nulls = random.random_bool(0.5).then(|| NullBuffer::from_iter((0..rows).map(|_| random.random_bool(0.8))));
    Arc::new(StructArray::new(fields.clone(), columns, nulls))
}

fn float(random: &mut StdRng, range: Range) -> f64 {
    match random.random_range(0..40) {
        0 if range == Range::Full => f64::NAN,
        1 if range == Range::Full => f64::INFINITY,
        2 if range == Range::Full => -f64::NAN,
        3 => -0.0,
        4 => 0.0,
        _ => (random.random::<f64>() - 0.5) * 10f64.powi(random.random_range(-30..30)),
    }
}

/// Text of all lengths around where bounds are cut, of characters of all widths, the greatest included.
fn text(random: &mut StdRng) -> String {
    const ALPHABETS: [&[char]; 3] =
        [&['a', 'b', '~', '\u{7f}'], &['a', 'é', '中', '\u{ffff}', '\u{10000}', char::MAX], &[char::MAX]];
    let length = [random.random_range(0..6), random.random_range(30..36), random.random_range(60..90)];
    let alphabet = ALPHABETS[random.random_range(0..24usize) / 10];
    (0..length[random.random_range(0..3usize)]).map(|_| alphabet[random.random_range(0..alphabet.len())]).collect()
}

/// A value in its own order.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Cell {
    Whole(i128),
    Float(f64),
    Text(String),
    /// Has no order here.
    Other,
}

/// The cells of every column that can have statistics, by its path; `None` is NULL, its own or a parent's.
fn cells(batch: &RecordBatch, into: &mut BTreeMap<String, Vec<Option<Cell>>>) {
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        for row in 0..batch.num_rows() {
            cell(field, column, row, false, "", into);
        }
    }
}

fn cell(
    field: &Field,
    array: &ArrayRef,
    row: usize,
    is_null: bool,
    above: &str,
    into: &mut BTreeMap<String, Vec<Option<Cell>>>,
) {
    let path = format!("{above}/{}", field.name());
    let is_null = is_null || array.is_null(row);
    if let DataType::Struct(fields) = array.data_type() {
        for (field, child) in fields.iter().zip(array.as_struct().columns()) {
            cell(field, child, row, is_null, &path, into);
        }
        return;
    }
    macro_rules! whole {
        ($kind:ty) => {
            Cell::Whole(array.as_primitive::<$kind>().value(row).into())
        };
    }
    let value = || match array.data_type() {
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::Date32 => whole!(Date32Type),
        DataType::Timestamp(..) => whole!(TimestampMicrosecondType),
        DataType::Decimal128(..) => whole!(Decimal128Type),
        DataType::Float32 => Cell::Float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).to_owned()),
        _ => Cell::Other,
    };
    into.entry(path).or_default().push((!is_null).then(value));
}

/// The text of a bound in the stats, where there is one: read by hand, so that no digit is lost.
fn bound<'a>(stats: &'a str, section: &str, path: &str) -> Option<&'a str> {
    let start = stats.find(&format!("\"{section}\":"))?;
    let end = ["\"maxValues\":", "\"nullCount\":", "\"tightBounds\":"]
        .iter()
        .filter_map(|next| stats[start + 1..].find(next))
        .min()?;
    let section = &stats[start..start + 1 + end];
    let name = format!("\"{}\":", path.rsplit('/').next().unwrap());
    let value = &section[section.find(&name)? + name.len()..];
    if let Some(text) = value.strip_prefix('"') {
        let mut escaped = false;
        let end = text.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        return Some(&value[..end.unwrap() + 2]);
    }
    Some(&value[..value.find([',', '}']).unwrap()])
}

fn parse(text: &str, like: &Cell, name: &str) -> Cell {
    let quoted = || serde_json::from_str::<String>(text).unwrap();
    match like {
        Cell::Float(_) => Cell::Float(text.parse().unwrap()),
        Cell::Text(_) => Cell::Text(quoted()),
        Cell::Whole(_) if name.contains("date") => {
            let date: chrono::NaiveDate = quoted().parse().unwrap();
            Cell::Whole(date.signed_duration_since(chrono::DateTime::UNIX_EPOCH.date_naive()).num_days().into())
        }
        Cell::Whole(_) if name.contains("/ts") => {
            Cell::Whole(quoted().parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_micros().into())
        }
        Cell::Whole(_) if name.contains("/ntz") => {
            Cell::Whole(quoted().parse::<chrono::NaiveDateTime>().unwrap().and_utc().timestamp_micros().into())
        }
        Cell::Whole(_) => Cell::Whole(text.replace('.', "").parse().unwrap()),
        Cell::Other => unreachable!(),
    }
}

/// What a bound of these values must be, when it can be told and is not cut.
fn slack(name: &str) -> i128 {
    if name.contains("/ts") || name.contains("/ntz") { 999 } else { 0 }
}

fn check_column(stats: &str, json: &serde_json::Value, path: &str, cells: &[Option<Cell>], range: Range) {
    let names: Vec<&str> = path.split('/').skip(1).collect();
    let nulls = names.iter().fold(&json["nullCount"], |at, name| &at[name]);
    let expected = cells.iter().filter(|cell| cell.is_none()).count();
    assert_eq!(nulls.as_u64(), Some(expected as u64), "{path}: NULLs in {stats}");
    let values: Vec<&Cell> = cells.iter().flatten().collect();
    let (min, max) = (bound(stats, "minValues", path), bound(stats, "maxValues", path));
    let Some(&first) = values.first() else {
        return assert_eq!((min, max), (None, None), "{path}: no values, no bounds");
    };
    if *first == Cell::Other {
        return assert_eq!((min, max), (None, None), "{path}: no order, no bounds");
    }
    for value in &values {
        if let Some(min) = min {
            assert!(&&parse(min, first, path) <= value, "{path}: {value:?} lies below {min}");
        }
        if let Some(max) = max {
            assert!(&&parse(max, first, path) >= value, "{path}: {value:?} lies above {max}");
        }
    }
    if range == Range::Usual && !matches!(first, Cell::Text(_)) {
        tight(path, &values, parse(min.unwrap(), first, path), parse(max.unwrap(), first, path));
    }
}

/// Bounds other than text are the values themselves, times up to a millisecond further out.
fn tight(path: &str, values: &[&Cell], min: Cell, max: Cell) {
    match (min, max) {
        (Cell::Whole(min), Cell::Whole(max)) => {
            let whole = values.iter().map(|cell| if let Cell::Whole(n) = cell { *n } else { unreachable!() });
            assert!(whole.clone().min().unwrap() - min <= slack(path), "{path}: minimum {min} is too low");
            assert!(max - whole.max().unwrap() <= slack(path), "{path}: maximum {max} is too high");
        }
        (Cell::Float(min), Cell::Float(max)) => {
            assert!(values.iter().any(|cell| **cell == Cell::Float(min)), "{path}: {min}");
            assert!(values.iter().any(|cell| **cell == Cell::Float(max)), "{path}: {max}");
        }
        other => unreachable!("{other:?}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "a switch to replay what failed")]
fn seeds(how_many: u64) -> Vec<u64> {
    match std::env::var("LAKEWARD_SEEDS") {
        Ok(seeds) => seeds.split(',').map(|seed| seed.parse().unwrap()).collect(),
        Err(_) => (1..=how_many).collect(),
    }
}

#[test]
fn rows_come_back_and_statistics_never_hide_one() {
    let schema = everything();
    for seed in seeds(120) {
        println!("LAKEWARD_SEEDS={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let range = if random.random_bool(0.5) { Range::Usual } else { Range::Full };
        let mut table = Table::with_stats("random", &schema, &[], StatsColumns::All);
        let sizes: Vec<usize> = (0..random.random_range(1..4)).map(|_| random.random_range(1..40)).collect();
        let batches: Vec<_> = sizes.into_iter().map(|rows| batch(&schema, rows, &mut random, range)).collect();
        let files = table.ingest(&batches, WriterOptions::default());
        let mut columns = BTreeMap::new();
        batches.iter().for_each(|batch| cells(batch, &mut columns));
        let json: serde_json::Value = serde_json::from_str(&files[0].stats).unwrap();
        assert_eq!(json["numRecords"], files[0].num_records);
        assert_eq!(json["tightBounds"], true);
        for (path, cells) in &columns {
            check_column(&files[0].stats, &json, path, cells, range);
        }
        if seed % 8 == 0 {
            // The kernel is slow in a build that is not optimised.
            assert_eq!(table.rows(), sorted(batches.into_iter()), "LAKEWARD_SEEDS={seed}");
        }
    }
}

/// Several row groups of one file: bounds are over all of them, also where one has only NULLs.
#[test]
fn bounds_span_row_groups() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let mut table = Table::new("groups", &schema, &[]);
    let numbers = |f: &dyn Fn(i64) -> Option<i64>| {
        let values: Int64Array = (0..(1 << 20)).map(f).collect();
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).unwrap()
    };
    let batches = [numbers(&|_| None), numbers(&|n| Some(n % 7 + 100)), numbers(&|n| (n % 2 == 0).then_some(n % 11))];
    let files = table.ingest(&batches, WriterOptions::default());
    let stats: serde_json::Value = serde_json::from_str(&files[0].stats).unwrap();
    assert_eq!(stats["minValues"]["n"], 0);
    assert_eq!(stats["maxValues"]["n"], 106);
    assert_eq!(stats["nullCount"]["n"], (1 << 20) + (1 << 19));
}

/// K52: only the columns that the table's properties ask for.
#[test]
fn skipping_properties_are_honoured() {
    let inner = vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Int32, true)];
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("p", DataType::Utf8, true),
        Field::new("a", DataType::Int32, true),
        Field::new("s", DataType::Struct(inner.into()), true),
        Field::new("b", DataType::Int32, true),
    ]));
    let only = |paths: &[&[&str]]| {
        StatsColumns::Only(paths.iter().map(|path| path.iter().map(|&name| name.to_owned()).collect()).collect())
    };
    #[rustfmt::skip] // columns: property, columns with bounds
    let cases = [
        (StatsColumns::All,      "a s.x s.y b"),
        (StatsColumns::First(0), ""),
        (StatsColumns::First(1), "a"),
        (StatsColumns::First(2), "a s.x"),
        (StatsColumns::First(9), "a s.x s.y b"),
        (only(&[&["b"]]),        "b"),
        (only(&[&["s"]]),        "s.x s.y"),
        (only(&[&["s", "y"], &["a"], &["p"]]), "a s.y"),
    ];
    for (columns, expected) in cases {
        let mut random = StdRng::seed_from_u64(5);
        let ints = |random: &mut StdRng| Arc::new(Int32Array::from(vec![random.random::<i32>(); 3])) as ArrayRef;
        let DataType::Struct(fields) = schema.field(2).data_type() else { unreachable!() };
        let pair = StructArray::new(fields.clone(), vec![ints(&mut random), ints(&mut random)], None);
        let columns_of = vec![
            Arc::new(StringArray::from(vec!["v"; 3])) as ArrayRef,
            ints(&mut random),
            Arc::new(pair),
            ints(&mut random),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns_of).unwrap();
        let mut table = Table::with_stats("skipping", &schema, &["p"], columns.clone());
        let files = table.ingest(&[batch], WriterOptions::default());
        let stats: serde_json::Value = serde_json::from_str(&files[0].stats).unwrap();
        for section in ["minValues", "maxValues", "nullCount"] {
            let section = &stats[section];
            let has = |value: &serde_json::Value| !value.is_null();
            let paths = [
                ("p", has(&section["p"])),
                ("a", has(&section["a"])),
                ("s.x", has(&section["s"]["x"])),
                ("s.y", has(&section["s"]["y"])),
                ("b", has(&section["b"])),
            ];
            let found: Vec<_> = paths.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
            assert_eq!(found.join(" "), expected, "{columns:?}: {}", files[0].stats);
        }
        assert_eq!(stats["numRecords"], 3);
    }
}

/// K50: statistics are each file's own.
#[test]
fn statistics_are_by_partition() {
    let schema: SchemaRef =
        Arc::new(Schema::new(vec![Field::new("id", DataType::Int32, true), Field::new("color", DataType::Utf8, true)]));
    let colors = ["red", "red", "blue", "red", "blue", "red", "blue", "blue", ""];
    let colors = StringArray::from_iter(colors.iter().map(|&color| (!color.is_empty()).then_some(color)));
    let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from_iter_values(1..10)), Arc::new(colors)];
    let mut table = Table::new("colors", &schema, &["color"]);
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let mut found: Vec<_> = table.ingest(&[batch], WriterOptions::default());
    found.sort_by(|a, b| a.partition_values.cmp(&b.partition_values));
    let found: Vec<_> = found
        .iter()
        .map(|file| {
            let stats: serde_json::Value = serde_json::from_str(&file.stats).unwrap();
            let number = |value: &serde_json::Value| value.as_i64().unwrap();
            (file.num_records, number(&stats["minValues"]["id"]), number(&stats["maxValues"]["id"]))
        })
        .collect();
    assert_eq!(found, [(1, 9, 9), (4, 3, 8), (4, 1, 6)]);
}
