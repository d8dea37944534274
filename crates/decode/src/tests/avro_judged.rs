//! Avro judged by `apache_avro`: random schemas and values come back equal, and damaged messages are never taken that it
//! refuses, nor read as anything else than it does.

use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::schema::{InnerDecimalSchema, UuidSchema};
use apache_avro::types::Value;
use apache_avro::{Codec, Days, Decimal, Duration, Millis, Months, Schema as Judge, Uuid, Writer};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::avro::{avro_decoder, record_of, schema_of, written};
use super::*;
use crate::avro::Form;

/// A type: its text in Avro, and the column that takes its values.
fn random_type(random: &mut SmallRng, names: &mut u32, depth: u32) -> (String, DataType) {
    let logical = |of: &str, logical: &str| format!(r#"{{"type":"{of}","logicalType":"{logical}"}}"#);
    *names += 1;
    let name = *names;
    let ntz = DataType::Timestamp(TimeUnit::Microsecond, None);
    match random.random_range(0..if depth < 3 { 29 } else { 23 }) {
        0 => ("\"boolean\"".into(), DataType::Boolean),
        1 | 2 => ("\"int\"".into(), DataType::Int32),
        3 | 4 => ("\"long\"".into(), DataType::Int64),
        5 => ("\"float\"".into(), DataType::Float32),
        6 => ("\"double\"".into(), DataType::Float64),
        7..=9 => ("\"string\"".into(), DataType::Utf8),
        10 => ("\"bytes\"".into(), DataType::Binary),
        11 => {
            (format!(r#"{{"type":"fixed","name":"n{name}","size":{}}}"#, random.random_range(0..9)), DataType::Binary)
        }
        12 => (format!(r#"{{"type":"enum","name":"n{name}","symbols":["A","B","C"]}}"#), DataType::Utf8),
        13 => (logical("int", "date"), DataType::Date32),
        14 => (logical("int", "time-millis"), DataType::Int32),
        15 => (logical("long", "time-micros"), DataType::Int64),
        16 => (logical("long", "timestamp-millis"), timestamp()),
        17 => (logical("long", "timestamp-micros"), timestamp()),
        18 => (logical("long", "timestamp-nanos"), timestamp()),
        19 => (logical("long", "local-timestamp-micros"), ntz),
        20 => {
            (r#"{"type":"bytes","logicalType":"decimal","precision":18,"scale":3}"#.into(), DataType::Decimal128(38, 3))
        }
        21 => (logical("string", "uuid"), DataType::Utf8),
        22 => (format!(r#"{{"type":"fixed","name":"n{name}","size":12,"logicalType":"duration"}}"#), DataType::Binary),
        23 | 24 => {
            let (inner, data_type) = random_type(random, names, depth + 1);
            // Unions don't hold unions.
            if inner.starts_with('[') {
                return (inner, data_type);
            }
            (if random.random() { format!(r#"["null",{inner}]"#) } else { format!(r#"[{inner},"null"]"#) }, data_type)
        }
        25 => {
            let (items, data_type) = random_type(random, names, depth + 1);
            (format!(r#"{{"type":"array","items":{items}}}"#), array_of(column("element", data_type)))
        }
        26 => {
            let (values, data_type) = random_type(random, names, depth + 1);
            (format!(r#"{{"type":"map","values":{values}}}"#), map_of(DataType::Utf8, column("value", data_type)))
        }
        27 => (r#"["int","null","string"]"#.into(), DataType::Utf8),
        _ => {
            let (fields, columns) = random_fields(random, names, depth + 1);
            (format!(r#"{{"type":"record","name":"n{name}","fields":[{fields}]}}"#), structure(columns))
        }
    }
}

/// Fields, and columns for most of them in another order.
fn random_fields(random: &mut SmallRng, names: &mut u32, depth: u32) -> (String, Vec<Field>) {
    let (mut fields, mut columns) = (Vec::new(), vec![column("only_here", DataType::Int64)]);
    for at in 0..random.random_range(1..6) {
        let (schema, data_type) = random_type(random, names, depth);
        fields.push(format!(r#"{{"name":"f{at}","type":{schema}}}"#));
        if random.random_range(0..5) > 0 {
            columns.insert(random.random_range(0..=columns.len()), column(&format!("f{at}"), data_type));
        }
    }
    (fields.join(","), columns)
}

fn random_bytes(random: &mut SmallRng, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.random()).collect()
}

fn random_long(random: &mut SmallRng) -> i64 {
    random.random::<i64>() >> random.random_range(0..64)
}

fn random_value(random: &mut SmallRng, schema: &Judge) -> Value {
    let short = random.random_range(0..4);
    match schema {
        Judge::Null => Value::Null,
        Judge::Boolean => Value::Boolean(random.random()),
        Judge::Int => Value::Int(random_long(random) as i32),
        Judge::Long => Value::Long(random_long(random)),
        Judge::Float => Value::Float(random_long(random) as f32 / 8.0),
        Judge::Double => Value::Double(random_long(random) as f64 / 8.0),
        Judge::Bytes => Value::Bytes(random_bytes(random, short)),
        Judge::String => Value::String(["", "a", "é\u{1F600}", "a longer one with \"quotes\" \\ in it"][short].into()),
        Judge::Fixed(fixed) => Value::Fixed(fixed.size, random_bytes(random, fixed.size)),
        Judge::Enum(one) => {
            let at = random.random_range(0..one.symbols.len());
            Value::Enum(at as u32, one.symbols[at].clone())
        }
        Judge::Date => Value::Date(random_long(random) as i32),
        Judge::TimeMillis => Value::TimeMillis(random_long(random) as i32),
        Judge::TimeMicros => Value::TimeMicros(random_long(random)),
        Judge::TimestampMillis => Value::TimestampMillis(random_long(random) >> 12),
        Judge::TimestampMicros => Value::TimestampMicros(random_long(random)),
        Judge::TimestampNanos => Value::TimestampNanos(random_long(random)),
        Judge::LocalTimestampMicros => Value::LocalTimestampMicros(random_long(random)),
        Judge::Decimal(decimal) => {
            assert!(matches!(decimal.inner, InnerDecimalSchema::Bytes));
            Value::Decimal(Decimal::from(random_long(random).to_be_bytes().to_vec()))
        }
        Judge::Uuid(UuidSchema::String) => Value::Uuid(Uuid::from_u128(random.random())),
        Judge::Duration(_) => Value::Duration(Duration::new(
            Months::new(random.random()),
            Days::new(random.random()),
            Millis::new(random.random()),
        )),
        Judge::Union(union) => {
            let branch = random.random_range(0..union.variants().len());
            Value::Union(branch as u32, Box::new(random_value(random, &union.variants()[branch])))
        }
        Judge::Array(array) => Value::Array((0..short).map(|_| random_value(random, &array.items)).collect()),
        Judge::Map(map) => {
            let entry = |at| (format!("k{at}"), random_value(random, &map.types));
            Value::Map((0..short.min(1)).map(entry).collect())
        }
        Judge::Record(record) => {
            let field =
                |field: &apache_avro::schema::RecordField| (field.name.clone(), random_value(random, &field.schema));
            Value::Record(record.fields.iter().map(field).collect())
        }
        other => panic!("no random value of {other:?}"),
    }
}

/// What `show` prints of a value in such a column; `None` where the column has no place for it.
fn expected(value: &Value, data_type: &DataType) -> Option<String> {
    let binary = |bytes: &[u8]| format!("x{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    Some(match (value, data_type) {
        (Value::Union(_, inner), _) => return expected(inner, data_type),
        (Value::Null, _) => "null".into(),
        (Value::Boolean(value), _) => value.to_string(),
        (Value::Int(value), DataType::Utf8) => format!("\"{value}\""),
        (Value::Int(value) | Value::Date(value) | Value::TimeMillis(value), _) => value.to_string(),
        (Value::Long(value) | Value::TimeMicros(value), _) => value.to_string(),
        (Value::TimestampMicros(value) | Value::LocalTimestampMicros(value), _) => value.to_string(),
        (Value::TimestampMillis(value), _) => value.checked_mul(1000)?.to_string(),
        (Value::TimestampNanos(value), _) => value.div_euclid(1000).to_string(),
        (Value::Float(value), _) => format!("{value:?}"),
        (Value::Double(value), _) => format!("{value:?}"),
        (Value::String(text) | Value::Enum(_, text), _) => format!("{text:?}"),
        (Value::Bytes(bytes) | Value::Fixed(_, bytes), _) => binary(bytes),
        (Value::Uuid(uuid), _) => format!("\"{uuid}\""),
        (Value::Duration(duration), _) => binary(&<[u8; 12]>::from(*duration)),
        (Value::Decimal(decimal), _) => {
            let digits = <Vec<u8>>::try_from(decimal).expect("its bytes");
            let number = digits.iter().fold(if digits.first()? & 0x80 == 0 { 0 } else { -1 }, |number: i128, digit| {
                number << 8 | i128::from(*digit)
            });
            (digits.len() <= 15).then(|| number.to_string())?
        }
        (Value::Array(items), DataType::List(element)) => {
            let items: Option<Vec<_>> = items.iter().map(|item| expected(item, element.data_type())).collect();
            format!("[{}]", items?.join(","))
        }
        (Value::Map(entries), DataType::Map(pair, _)) => {
            let DataType::Struct(parts) = pair.data_type() else { panic!("a map's entries") };
            let entry =
                |(key, value): (&String, &Value)| Some(format!("{key:?}={}", expected(value, parts[1].data_type())?));
            let entries: Option<Vec<_>> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries?.join(","))
        }
        (Value::Record(values), DataType::Struct(columns)) => {
            let cell = |column: &Arc<Field>| {
                let value = values.iter().find(|(name, _)| name == column.name()).map(|(_, value)| value);
                let shown = value.map_or_else(|| Some("null".into()), |value| expected(value, column.data_type()))?;
                Some(format!("{}:{shown}", column.name()))
            };
            let cells: Option<Vec<_>> = columns.iter().map(cell).collect();
            format!("{{{}}}", cells?.join(","))
        }
        (value, data_type) => panic!("{value:?} in {data_type}"),
    })
}

/// A row as `show` prints a struct.
fn shown_row(batch: &RecordBatch, row: usize) -> String {
    let cell = |(at, field): (usize, &Arc<Field>)| format!("{}:{}", field.name(), show(batch.column(at), row));
    format!("{{{}}}", batch.schema().fields().iter().enumerate().map(cell).collect::<Vec<_>>().join(","))
}

struct Case {
    text: String,
    judge: Judge,
    columns: SchemaRef,
}

impl Case {
    fn random(random: &mut SmallRng) -> Self {
        let (fields, columns) = random_fields(random, &mut 0, 0);
        let text = record_of(&fields);
        let judge = Judge::parse_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        Self { text, judge, columns: table(columns) }
    }

    fn expected(&self, value: &Value) -> Option<String> {
        expected(value, &DataType::Struct(self.columns.fields().clone()))
    }
}

#[test]
fn random_values_come_back_equal() {
    let mut random = SmallRng::seed_from_u64(11);
    for _ in 0..400 {
        let case = Case::random(&mut random);
        let values: Vec<Value> = (0..20).map(|_| random_value(&mut random, &case.judge)).collect();
        let expected: Vec<String> = values.iter().filter_map(|value| case.expected(value)).collect();
        let datum = |value: &Value| written(&case.judge, value.clone());
        let bare: Vec<Vec<u8>> = values.iter().map(datum).collect();
        let mut decoder = avro_decoder(&case.columns, &[], Form::Bare(schema_of(&case.text)));
        let decoded = decoder.decode(&records(bare.iter().map(Vec::as_slice)));
        let found: Vec<String> = (0..decoded.batch.num_rows()).map(|row| shown_row(&decoded.batch, row)).collect();
        assert_eq!(found, expected, "{}: {:?}", case.text, decoded.bad);
        if expected.len() < values.len() {
            continue;
        }
        let mut writer = Writer::with_codec(&case.judge, Vec::new(), Codec::Snappy).unwrap();
        writer.extend(values).unwrap();
        let file = writer.into_inner().unwrap();
        let mut decoder = avro_decoder(&case.columns, &[], Form::Container);
        let decoded = decoder.decode(&records([file.as_slice()]));
        let found: Vec<String> = (0..decoded.batch.num_rows()).map(|row| shown_row(&decoded.batch, row)).collect();
        assert_eq!(found, expected, "{}: {:?}", case.text, decoded.bad);
    }
}

fn damage(random: &mut SmallRng, message: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..=message.len());
        match random.random_range(0..5) {
            0 if at < message.len() => message[at] ^= 1 << random.random_range(0..8),
            1 if at < message.len() => drop(message.remove(at)),
            2 => message.truncate(at),
            3 => message.insert(at, random.random()),
            _ => message.insert(at, [0, 1, 2, 0x7f, 0x80, 0xff][random.random_range(0..6)]),
        }
    }
}

#[test]
fn damaged_messages_are_never_taken_as_anything_else() {
    let mut random = SmallRng::seed_from_u64(12);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..300 {
        let case = Case::random(&mut random);
        let mut decoder = avro_decoder(&case.columns, &[], Form::Bare(schema_of(&case.text)));
        let judge = GenericDatumReader::builder(&case.judge).build().expect("a schema");
        for _ in 0..60 {
            let value = random_value(&mut random, &case.judge);
            let neighbour = written(&case.judge, value);
            let mut message = neighbour.clone();
            damage(&mut random, &mut message);
            let decoded = decoder.decode(&records([message.as_slice()]));
            let mut rest = message.as_slice();
            let judged = judge.read_value(&mut rest).ok().filter(|_| rest.is_empty());
            if decoded.bad.is_empty() {
                taken += 1;
                let judged = judged.unwrap_or_else(|| panic!("laxer than the judge: {message:?} of {}", case.text));
                let expected = case.expected(&judged).expect("what the columns have a place for");
                // The judge's maps have no order.
                let sorted = |text: String| {
                    let mut characters: Vec<char> = text.chars().collect();
                    characters.sort_unstable();
                    characters
                };
                assert_eq!(sorted(shown_row(&decoded.batch, 0)), sorted(expected), "{message:?} of {}", case.text);
            } else {
                refused += 1;
                assert_eq!(decoded.batch.num_rows(), 0, "no trace of it");
            }
        }
    }
    assert!(taken > 1000 && refused > 1000, "{taken} were taken, {refused} refused: both must be seen");
}
