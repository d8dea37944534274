//! Avro: each type into each column, each form, and what is wrong with messages.

use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use apache_avro::{Codec, Days, Decimal, Duration, Millis, Months, Schema as Judge, Uuid, Writer};

use super::*;
use crate::avro::{AvroSchema, Form, infer};
use crate::{Answer, Encoding, Language, Schemas, Unavailable, WrittenSchema};

pub(super) fn record_of(fields: &str) -> String {
    format!(r#"{{"type":"record","name":"message","fields":[{fields}]}}"#)
}

/// A value as the judge writes it.
pub(super) fn written(schema: &Judge, value: Value) -> Vec<u8> {
    let writer = GenericDatumWriter::builder(schema).build().expect("a schema");
    writer.write_value_to_vec(value).expect("a value of the schema")
}

fn field(name: &str, schema: &str) -> String {
    format!(r#"{{"name":"{name}","type":{schema}}}"#)
}

pub(super) fn schema_of(text: &str) -> AvroSchema {
    AvroSchema::parse(text, &[]).expect("a schema")
}

pub(super) fn avro_decoder(schema: &SchemaRef, transforms: &[&str], form: Form) -> Decoder {
    let transforms = Transforms::parse(transforms).expect("transforms");
    Decoder::with_format(schema, "web", &transforms, &Encoding::Avro(form).into()).expect("a plan")
}

/// The value as `show` prints it, or `!kind` of the refusal.
fn avro_value_of(data_type: &DataType, schema: &str, value: Value) -> String {
    let text = record_of(&field("v", schema));
    let judge = Judge::parse_str(&text).expect("a schema");
    let message = written(&judge, Value::Record(vec![("v".to_owned(), value)]));
    let mut decoder = avro_decoder(&table(vec![column("v", data_type.clone())]), &[], Form::Bare(schema_of(&text)));
    let decoded = decoder.decode(&records([message.as_slice()]));
    match decoded.bad.first() {
        Some(bad) => format!("!{}", bad.kind),
        None => show(decoded.batch.column(0), 0),
    }
}

fn decimal(unscaled: i64) -> Value {
    Value::Decimal(Decimal::from(unscaled.to_be_bytes().to_vec()))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_type_into_every_column_that_takes_it() {
    use DataType::{Binary, Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Utf8};
    let ntz = DataType::Timestamp(TimeUnit::Microsecond, None);
    let duration = Duration::new(Months::new(1), Days::new(2), Millis::new(3004));
    let uuid = Uuid::parse_str("f81d4fae-7dec-11d0-a765-00a0c91e6bf6").unwrap();
    let union = |branch, value| Value::Union(branch, Box::new(value));
    let typed = |of: &str, logical: &str| format!(r#"{{"type":"{of}","logicalType":"{logical}"}}"#);
    let dec = r#"{"type":"bytes","logicalType":"decimal","precision":18,"scale":2}"#;
    let fixed = r#"{"type":"fixed","name":"f","size":2}"#;
    let fix_dec_8 = r#"{"type":"fixed","name":"f","size":8,"logicalType":"decimal","precision":18,"scale":2}"#;
    let fix_dur = r#"{"type":"fixed","name":"f","size":12,"logicalType":"duration"}"#;
    let fix_uuid = r#"{"type":"fixed","name":"f","size":16,"logicalType":"uuid"}"#;
    let symbols = r#"{"type":"enum","name":"e","symbols":["RED","BLUE"]}"#;
    #[rustfmt::skip] // schema, value, column, expected
    let cases: Vec<(String, Value, DataType, &str)> = vec![
        ("\"null\"".into(),    Value::Null,                 Int32,   "null"),
        ("\"boolean\"".into(), Value::Boolean(true),        Boolean, "true"),
        ("\"boolean\"".into(), Value::Boolean(true),        Utf8,    "\"true\""),
        ("\"boolean\"".into(), Value::Boolean(true),        Int32,   "!wrong_type"),
        ("\"int\"".into(),     Value::Int(-7),              Int32,   "-7"),
        ("\"int\"".into(),     Value::Int(i32::MIN),        Int64,   "-2147483648"),
        ("\"int\"".into(),     Value::Int(128),             Int8,    "!does_not_fit"),
        ("\"int\"".into(),     Value::Int(3),               Float64, "3.0"),
        ("\"int\"".into(),     Value::Int(3),               Decimal128(10, 2), "300"),
        ("\"long\"".into(),    Value::Long(i64::MIN),       Int64,   "-9223372036854775808"),
        ("\"long\"".into(),    Value::Long(i64::MAX),       Int64,   "9223372036854775807"),
        ("\"long\"".into(),    Value::Long(5),              Int16,   "5"),
        ("\"long\"".into(),    Value::Long(3_000_000_000),  Int32,   "!does_not_fit"),
        ("\"long\"".into(),    Value::Long(5),              Utf8,    "\"5\""),
        ("\"long\"".into(),    Value::Long(1_636_668_718_000_000), timestamp(), "1636668718000000"),
        ("\"long\"".into(),    Value::Long(5),              Boolean, "!wrong_type"),
        ("\"float\"".into(),   Value::Float(0.1),           Float32, "0.1"),
        ("\"float\"".into(),   Value::Float(0.5),           Float64, "0.5"),
        ("\"float\"".into(),   Value::Float(0.1),           Decimal128(10, 2), "10"),
        ("\"double\"".into(),  Value::Double(0.1),          Float64, "0.1"),
        ("\"double\"".into(),  Value::Double(f64::NAN),     Float64, "NaN"),
        ("\"double\"".into(),  Value::Double(f64::INFINITY), Float64, "inf"),
        ("\"double\"".into(),  Value::Double(2.0),          Int32,   "2"),
        ("\"double\"".into(),  Value::Double(1.9),          Int32,   "!does_not_fit"),
        ("\"double\"".into(),  Value::Double(f64::NAN),     Int32,   "!wrong_type"),
        ("\"double\"".into(),  Value::Double(1e300),        Float32, "!does_not_fit"),
        ("\"double\"".into(),  Value::Double(0.1),          Decimal128(10, 2), "10"),
        ("\"double\"".into(),  Value::Double(0.125),        Decimal128(10, 2), "!does_not_fit"),
        ("\"double\"".into(),  Value::Double(1.5),          Utf8,    "\"1.5\""),
        ("\"string\"".into(),  Value::String("é".into()),   Utf8,    "\"é\""),
        ("\"string\"".into(),  Value::String("é".into()),   Binary,  "xc3a9"),
        ("\"string\"".into(),  Value::String("12".into()),  Int32,   "12"),
        ("\"string\"".into(),  Value::String("x".into()),   Int32,   "!wrong_type"),
        ("\"string\"".into(),  Value::String("2021-11-11T22:11:58Z".into()), timestamp(), "1636668718000000"),
        ("\"bytes\"".into(),   Value::Bytes(vec![0xff, 0]), Binary,  "xff00"),
        ("\"bytes\"".into(),   Value::Bytes(vec![0xff, 0]), Utf8,    "!wrong_type"),
        ("\"bytes\"".into(),   Value::Bytes(b"abc".to_vec()), Utf8,  "\"abc\""),
        ("\"bytes\"".into(),   Value::Bytes(b"1".to_vec()), Int32,   "!wrong_type"),
        (fixed.into(),         Value::Fixed(2, vec![1, 2]), Binary,  "x0102"),
        (symbols.into(),      Value::Enum(1, "BLUE".into()), Utf8,  "\"BLUE\""),
        (symbols.into(),      Value::Enum(1, "BLUE".into()), Int32, "!wrong_type"),
        (typed("int", "date"), Value::Date(18942),          Date32,  "18942"),
        (typed("int", "date"), Value::Date(-1),             Date32,  "-1"),
        (typed("int", "date"), Value::Date(1),              timestamp(), "86400000000"),
        (typed("int", "date"), Value::Date(18942),          Utf8,    "\"2021-11-11\""),
        (typed("int", "date"), Value::Date(18942),          Int64,   "18942"),
        (typed("int", "date"), Value::Date(i32::MAX),       Utf8,    "!does_not_fit"),
        (typed("int", "time-millis"),  Value::TimeMillis(79_918_123), Utf8, "\"22:11:58.123\""),
        (typed("int", "time-millis"),  Value::TimeMillis(5), Int32,  "5"),
        (typed("int", "time-millis"),  Value::TimeMillis(5), timestamp(), "!wrong_type"),
        (typed("int", "time-millis"),  Value::TimeMillis(-1), Utf8,  "!does_not_fit"),
        (typed("long", "time-micros"), Value::TimeMicros(79_918_123_456), Utf8, "\"22:11:58.123456\""),
        (typed("long", "time-micros"), Value::TimeMicros(86_400_000_000), Utf8, "!does_not_fit"),
        (typed("long", "timestamp-millis"), Value::TimestampMillis(1_636_668_718_001), timestamp(), "1636668718001000"),
        (typed("long", "timestamp-millis"), Value::TimestampMillis(-1), timestamp(), "-1000"),
        (typed("long", "timestamp-millis"), Value::TimestampMillis(i64::MAX), timestamp(), "!does_not_fit"),
        (typed("long", "timestamp-millis"), Value::TimestampMillis(1_636_668_718_001), Int64, "1636668718001"),
        (typed("long", "timestamp-millis"), Value::TimestampMillis(1_636_668_718_001), Utf8, "\"2021-11-11T22:11:58.001Z\""),
        (typed("long", "timestamp-millis"), Value::TimestampMillis(1_636_668_718_001), Date32, "!does_not_fit"),
        (typed("long", "timestamp-millis"), Value::TimestampMillis(86_400_000), Date32, "1"),
        (typed("long", "timestamp-micros"), Value::TimestampMicros(1_636_668_718_000_001), timestamp(), "1636668718000001"),
        (typed("long", "timestamp-nanos"),  Value::TimestampNanos(1999), timestamp(), "1"),
        (typed("long", "timestamp-nanos"),  Value::TimestampNanos(-1),   timestamp(), "-1"),
        (typed("long", "local-timestamp-millis"), Value::LocalTimestampMillis(1), ntz.clone(), "1000"),
        (typed("long", "local-timestamp-micros"), Value::LocalTimestampMicros(1), ntz.clone(), "1"),
        (typed("long", "local-timestamp-micros"), Value::LocalTimestampMicros(1), timestamp(), "1"),
        (typed("long", "local-timestamp-nanos"),  Value::LocalTimestampNanos(-1001), ntz.clone(), "-2"),
        (typed("long", "local-timestamp-millis"), Value::LocalTimestampMillis(0), Utf8, "\"1970-01-01T00:00:00\""),
        (dec.into(),           decimal(12345),              Decimal128(10, 2), "12345"),
        (dec.into(),           decimal(-12345),             Decimal128(10, 2), "-12345"),
        (dec.into(),           decimal(12340),              Decimal128(10, 1), "1234"),
        (dec.into(),           decimal(12345),              Decimal128(10, 1), "!does_not_fit"),
        (dec.into(),           decimal(12345),              Decimal128(10, 4), "1234500"),
        (dec.into(),           decimal(12345),              Decimal128(4, 2),  "!does_not_fit"),
        (dec.into(),           decimal(12300),              Int32,   "123"),
        (dec.into(),           decimal(12345),              Int32,   "!does_not_fit"),
        (dec.into(),           decimal(12345),              Float64, "123.45"),
        (dec.into(),           decimal(-5),                 Utf8,    "\"-0.05\""),
        (fix_dec_8.into(),     decimal(-12345),             Decimal128(10, 2), "-12345"),
        (typed("bytes", "big-decimal"), Value::BigDecimal("-123.4500".parse().unwrap()), Decimal128(10, 2), "-12345"),
        (typed("bytes", "big-decimal"), Value::BigDecimal("1e3".parse().unwrap()), Int32, "1000"),
        (typed("string", "uuid"), Value::Uuid(uuid),        Utf8,    "\"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\""),
        (typed("string", "uuid"), Value::Uuid(uuid),        Binary,  "xf81d4fae7dec11d0a76500a0c91e6bf6"),
        (fix_uuid.into(),      Value::Uuid(uuid),           Utf8,    "\"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\""),
        (fix_uuid.into(),      Value::Uuid(uuid),           Int64,   "!wrong_type"),
        (fix_dur.into(),       Value::Duration(duration),   Utf8,    "\"P1M2DT3.004S\""),
        (fix_dur.into(),       Value::Duration(duration),   Binary,  "x0100000002000000bc0b0000"),
        (r#"["null","long"]"#.into(), union(0, Value::Null), Int64,  "null"),
        (r#"["null","long"]"#.into(), union(1, Value::Long(3)), Int64, "3"),
        (r#"["long","null"]"#.into(), union(1, Value::Null), Int64,  "null"),
        (r#"["null","int","string"]"#.into(), union(2, Value::String("x".into())), Utf8, "\"x\""),
        (r#"["null","int","string"]"#.into(), union(1, Value::Int(3)), Utf8, "\"3\""),
        (r#"["null","int","string"]"#.into(), union(2, Value::String("x".into())), Int32, "!wrong_type"),
    ];
    for (schema, value, data_type, expected) in cases {
        let shown = format!("{value:?} of {schema} into {data_type}");
        assert_eq!(avro_value_of(&data_type, &schema, value), expected, "{shown}");
    }
}

#[test]
fn values_with_parts() {
    let inner = r#"{"type":"record","name":"inner","fields":[{"name":"a","type":"long"},{"name":"b","type":["null","string"]}]}"#;
    let pair = |a, b: Value| {
        let branch = u32::from(b != Value::Null);
        Value::Record(vec![("a".into(), Value::Long(a)), ("b".into(), Value::Union(branch, Box::new(b)))])
    };
    let ab = structure(vec![column("a", DataType::Int64), column("b", DataType::Utf8)]);
    let longs = || Value::Array(vec![Value::Long(1), Value::Long(2)]);
    let map = || Value::Map([("k".to_owned(), Value::Long(1))].into());
    let array = r#"{"type":"array","items":"long"}"#;
    let maps = r#"{"type":"map","values":"long"}"#;
    #[rustfmt::skip] // schema, value, column, expected
    let cases: Vec<(&str, Value, DataType, &str)> = vec![
        (inner, pair(1, Value::String("x".into())), ab.clone(), "{a:1,b:\"x\"}"),
        (inner, pair(1, Value::Null), ab.clone(), "{a:1,b:null}"),
        (inner, pair(1, Value::Null), structure(vec![column("b", DataType::Utf8), column("c", DataType::Int32)]), "{b:null,c:null}"),
        (inner, pair(1, Value::Null), structure(vec![not_null("c", DataType::Int32)]), "!null_in_not_null"),
        (inner, pair(1, Value::String("\"".into())), DataType::Utf8, r#""{\"a\":1,\"b\":\"\\\"\"}""#),
        (inner, pair(1, Value::String("2".into())), map_of(DataType::Utf8, column("value", DataType::Int64)), "{\"a\"=1,\"b\"=2}"),
        (inner, pair(1, Value::Null), DataType::Int64, "!wrong_type"),
        (array, longs(), array_of(column("element", DataType::Int32)), "[1,2]"),
        (array, Value::Array(vec![]), array_of(column("element", DataType::Int32)), "[]"),
        (array, longs(), DataType::Utf8, "\"[1,2]\""),
        (array, longs(), DataType::Int32, "!wrong_type"),
        (maps, map(), map_of(DataType::Utf8, column("value", DataType::Int64)), "{\"k\"=1}"),
        (maps, map(), structure(vec![column("k", DataType::Int64), column("l", DataType::Int64)]), "{k:1,l:null}"),
        (maps, map(), DataType::Utf8, r#""{\"k\":1}""#),
        (maps, map(), ab, "{a:null,b:null}"),
        (maps, map(), DataType::Binary, "!wrong_type"),
    ];
    for (schema, value, data_type, expected) in cases {
        let shown = format!("{value:?} into {data_type}");
        assert_eq!(avro_value_of(&data_type, schema, value), expected, "{shown}");
    }
}

const ID_NAME: &str =
    r#"{"type":"record","name":"message","fields":[{"name":"id","type":"long"},{"name":"name","type":"string"}]}"#;

fn id_name(id: i64, name: &str) -> Value {
    Value::Record(vec![("id".into(), Value::Long(id)), ("name".into(), Value::String(name.into()))])
}

fn datum(schema: &str, value: Value) -> Vec<u8> {
    written(&Judge::parse_str(schema).unwrap(), value)
}

fn container(schema: &str, codec: Codec, values: Vec<Value>) -> Vec<u8> {
    let schema = Judge::parse_str(schema).unwrap();
    let mut writer = Writer::with_codec(&schema, Vec::new(), codec).unwrap();
    writer.extend(values).unwrap();
    writer.into_inner().unwrap()
}

fn id_table() -> SchemaRef {
    table(vec![column("id", DataType::Int32), column("name", DataType::Utf8)])
}

fn told(decoded: &Decoded) -> Vec<String> {
    decoded.bad.iter().map(|bad| format!("{} {}: {}", bad.entry, bad.kind, bad.detail)).collect()
}

fn check_form(form: Form, messages: &[Vec<u8>], expected_rows: &[&str], expected_bad: &[&str]) -> (Vec<usize>, i64) {
    let mut decoder = avro_decoder(&id_table(), &[], form);
    let decoded = decoder.decode(&records(messages.iter().map(Vec::as_slice)));
    assert_eq!(rows(&decoded.batch), expected_rows);
    let told = told(&decoded);
    assert_eq!(told.len(), expected_bad.len(), "{told:?}");
    for (told, expected) in told.iter().zip(expected_bad) {
        assert!(told.starts_with(expected), "{told}, not {expected}");
    }
    ((0..decoded.batch.num_rows()).map(|row| decoded.entry_of(row)).collect(), decoded.extra_rows())
}

#[test]
fn bare_values_end_where_the_schema_says() {
    let good = datum(ID_NAME, id_name(7, "x"));
    let cut = good[..good.len() - 1].to_vec();
    let more = [good.as_slice(), b"\0"].concat();
    let messages = [good, cut, more, Vec::new()];
    let bad = [
        "1 malformed: name: the message ends too early at byte 2",
        "2 malformed: there are bytes behind the value that the schema knows at byte 3",
        "3 malformed: id: the message ends too early at byte 0",
    ];
    check_form(Form::Bare(schema_of(ID_NAME)), &messages, &["id=7 name=\"x\""], &bad);
}

#[test]
fn k67_every_value_of_a_container_file_is_a_row() {
    let values = || vec![id_name(1, "a"), id_name(2, "b"), id_name(3, "c")];
    let codecs = [
        Codec::Null,
        Codec::Deflate(Default::default()),
        Codec::Snappy,
        Codec::Zstandard(Default::default()),
        Codec::Bzip2(Default::default()),
        Codec::Xz(Default::default()),
    ];
    for codec in codecs {
        let messages = [
            container(ID_NAME, codec, values()),
            container(ID_NAME, codec, vec![]),
            container(ID_NAME, codec, vec![id_name(4, "d")]),
        ];
        let four = ["id=1 name=\"a\"", "id=2 name=\"b\"", "id=3 name=\"c\"", "id=4 name=\"d\""];
        let (entries, extra_rows) = check_form(Form::Container, &messages, &four, &[]);
        assert_eq!(entries, [0, 0, 0, 2]);
        assert_eq!(extra_rows, 1, "two more for the first, one less for the second");
    }
}

#[test]
fn k68_a_damaged_container_file_has_no_row_at_all() {
    for codec in [Codec::Null, Codec::Deflate(Default::default()), Codec::Snappy, Codec::Zstandard(Default::default())]
    {
        let good = container(ID_NAME, codec, (0..50).map(|id| id_name(id, "some name")).collect());
        let marker = good[good.len() - 16..].to_vec();
        // The block's bytes lie between two markers.
        let start = good.windows(16).position(|bytes| bytes == marker).unwrap() + 16;
        for at in start..good.len() {
            let mut message = good.clone();
            message[at] ^= 0x20;
            let judge = apache_avro::Reader::new(message.as_slice()).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let mut decoder = avro_decoder(&id_table(), &[], Form::Container);
            let decoded = decoder.decode(&records([message.as_slice()]));
            match decoded.bad.len() {
                1 => assert_eq!(decoded.batch.num_rows(), 0),
                _ => assert_eq!(judge.expect("never laxer").len(), decoded.batch.num_rows(), "{codec:?} at {at}"),
            }
        }
        for cut in 0..good.len() {
            let decoded = avro_decoder(&id_table(), &[], Form::Container).decode(&records([&good[..cut]]));
            let whole_header = cut == start;
            assert_eq!((decoded.bad.len(), decoded.batch.num_rows()), (usize::from(!whole_header), 0), "cut at {cut}");
        }
    }
}

#[test]
fn one_bad_value_sets_the_whole_file_aside() {
    let wide = vec![id_name(1, "a"), id_name(3_000_000_000, "b")];
    let messages = [container(ID_NAME, Codec::Null, wide), container(ID_NAME, Codec::Null, vec![id_name(3, "c")])];
    let bad = ["0 does_not_fit: value 2.id: 3000000000 is out of the range of type int"];
    check_form(Form::Container, &messages, &["id=3 name=\"c\""], &bad);
}

#[test]
fn files_that_are_no_container_are_told_so() {
    let mut unknown = container(ID_NAME, Codec::Snappy, vec![]);
    let at = unknown.windows(6).position(|bytes| bytes == b"snappy").unwrap();
    unknown[at..at + 6].copy_from_slice(b"brotli");
    let odd = container(ID_NAME, Codec::Null, vec![]);
    let at = odd.windows(6).position(|bytes| bytes == b"\"long\"").unwrap();
    let odd = [&odd[..at], b"\"lon?\"", &odd[at + 6..]].concat();
    let messages = [b"{}".to_vec(), odd, b"Obj\x01\0".to_vec(), unknown];
    let bad = [
        "0 malformed: the message is no Avro container file: it does not begin",
        "1 unknown_schema: the file's schema: this is no Avro schema:",
        "2 malformed: the message ends too early",
        "3 malformed: the container file's codec 'brotli' is none of null, deflate",
    ];
    check_form(Form::Container, &messages, &[], &bad);
}

#[test]
fn k70_single_objects_by_fingerprint() {
    let other = r#"{"type":"record","name":"other","fields":[{"name":"name","type":"string"}]}"#;
    let single = |schema: &str, value: Value| {
        let fingerprint = schema_of(schema).fingerprint();
        [b"\xc3\x01".as_slice(), &fingerprint, &datum(schema, value)].concat()
    };
    let judge = apache_avro::headers::RabinFingerprintHeader::from_schema(&Judge::parse_str(ID_NAME).unwrap());
    let header = apache_avro::headers::HeaderBuilder::build_header(&judge);
    let first = single(ID_NAME, id_name(1, "a"));
    assert!(first.starts_with(&header), "the judge's header");
    let messages = [
        first,
        single(other, Value::Record(vec![("name".into(), Value::String("b".into()))])),
        b"\xc3\x01\0\0\0\0\0\0\0\0".to_vec(),
        b"abc".to_vec(),
        b"\xc3\x01".to_vec(),
    ];
    let form = Form::SingleObject(vec![schema_of(ID_NAME), schema_of(other)]);
    let bad = [
        "2 unknown_schema: no schema of fingerprint 0000000000000000 was given",
        "3 malformed: the message does not begin with C3 01",
        "4 malformed: the message does not begin with C3 01",
    ];
    check_form(form, &messages, &["id=1 name=\"a\"", "id=null name=\"b\""], &bad);
}

/// Schema 1 is Avro, 2 is JSON Schema, 3 is no schema; 4 is out of reach; there are no others.
#[derive(Debug)]
struct Registry;

impl Schemas for Registry {
    fn schema(&self, id: u32) -> Result<Answer, Unavailable> {
        let written = |language, text: &str| {
            Ok(Answer::There(Arc::new(WrittenSchema { language, text: text.to_owned(), references: Vec::new() })))
        };
        match id {
            1 => written(Language::Avro, ID_NAME),
            2 => written(Language::Json, "{}"),
            3 => written(Language::Avro, "{}"),
            4 => Err(Unavailable::OutOfReach { detail: "registry: no answer".to_owned() }),
            _ => Ok(Answer::NotThere),
        }
    }
}

fn framed(id: u32, value: &[u8]) -> Vec<u8> {
    [&[0], id.to_be_bytes().as_slice(), value].concat()
}

#[test]
fn framed_messages_name_their_schema() {
    let good = datum(ID_NAME, id_name(1, "a"));
    let messages = [framed(1, &good), framed(2, &good), framed(3, &good), framed(7, &good), vec![0, 1], good.clone()];
    let bad = [
        "1 unknown_schema: schema 2 of the registry is not Avro, but JSON Schema",
        "2 unknown_schema: schema 3 of the registry: this is no Avro schema",
        "3 unknown_schema: the registry has no schema 7",
        "4 malformed: the message is shorter than a schema's number",
        "5 malformed: the message does not begin with 0",
    ];
    check_form(Form::Framed(Arc::new(Registry)), &messages, &["id=1 name=\"a\""], &bad);
}

#[test]
fn what_can_not_be_looked_up_is_neither_a_row_nor_bad() {
    let good = datum(ID_NAME, id_name(1, "a"));
    let mut decoder = avro_decoder(&id_table(), &[], Form::Framed(Arc::new(Registry)));
    let messages = [framed(1, &good), framed(9, &good), framed(4, &good)];
    let waiting = decoder.try_decode(&records(messages.iter().map(Vec::as_slice)), 0);
    assert!(matches!(waiting, Err(Unavailable::OutOfReach { .. })), "{waiting:?}");
    let again = decoder.decode(&records([messages[0].as_slice()]));
    assert_eq!(rows(&again.batch), ["id=1 name=\"a\""], "nothing is left of the batch that could not be made");
}

#[test]
fn p52_what_is_no_record() {
    let with_value = table(vec![column("value", DataType::Utf8), column("id", DataType::Int32)]);
    #[rustfmt::skip] // schema, value, with a column `value`, without
    let cases = [
        (r#"{"type":"string"}"#, Value::String("x".into()), "value=\"x\" id=null", "!not_an_object"),
        (r#""long""#, Value::Long(3), "value=\"3\" id=null", "!not_an_object"),
        (r#"["null","string"]"#, Value::Union(1, Box::new(Value::String("x".into()))), "value=\"x\" id=null", "!not_an_object"),
        (r#"["null","string"]"#, Value::Union(0, Box::new(Value::Null)), "!not_an_object", "!not_an_object"),
        (r#"{"type":"array","items":"long"}"#, Value::Array(vec![Value::Long(1)]), "value=\"[1]\" id=null", "!not_an_object"),
    ];
    for (schema, value, with, without) in cases {
        let message = datum(schema, value);
        for (table, expected) in [(&with_value, with), (&id_table(), without)] {
            let mut decoder = avro_decoder(table, &[], Form::Bare(schema_of(schema)));
            let decoded = decoder.decode(&records([message.as_slice()]));
            let found =
                decoded.bad.first().map_or_else(|| rows(&decoded.batch).concat(), |bad| format!("!{}", bad.kind));
            assert_eq!(found, expected, "{schema}");
        }
    }
}

#[test]
fn transforms_see_the_message_as_it_came() {
    let schema = record_of(
        r#"{"name":"id","type":"long"},{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},
           {"name":"in","type":{"type":"record","name":"inner","fields":[{"name":"text","type":["null","string"]}]}}"#,
    );
    let message = datum(
        &schema,
        Value::Record(vec![
            ("id".into(), Value::Long(7)),
            ("ts".into(), Value::TimestampMillis(1_636_668_718_123)),
            (
                "in".into(),
                Value::Record(vec![("text".into(), Value::Union(1, Box::new(Value::String("2021-11-11T".into()))))]),
            ),
        ]),
    );
    let transforms = [
        "date: substr(in.text, `0`, `10`)",
        "micros: epoch_millis_to_micro(ts)",
        "iso: epoch_millis_to_iso8601(ts)",
        "id: `12`",
        "meta.offset: kafka.offset",
        "none: in.nothing",
    ];
    let table = table(vec![
        column("id", DataType::Int8),
        column("date", DataType::Date32),
        column("micros", timestamp()),
        column("iso", DataType::Utf8),
        column("meta", structure(vec![column("offset", DataType::Int64)])),
        column("none", DataType::Utf8),
    ]);
    let mut decoder = avro_decoder(&table, &transforms, Form::Bare(schema_of(&schema)));
    let decoded = decoder.decode(&records([message.as_slice()]));
    assert_eq!(told(&decoded), [""; 0]);
    assert_eq!(
        rows(&decoded.batch),
        ["id=12 date=18942 micros=1636668718123000 iso=\"2021-11-11T22:11:58.123Z\" meta={offset:100} none=null"]
    );
    let unknown: Vec<_> = decoder.take_unknown_fields();
    let names: Vec<_> = unknown.iter().map(|field| (field.path.as_deref().unwrap_or("?"), field.count)).collect();
    assert_eq!(names, [] as [(&str, u64); 0], "transforms look at both");
}

#[test]
fn a_value_that_a_transform_replaces_need_not_fit() {
    let message = datum(ID_NAME, id_name(3_000_000_000, "x"));
    for (transforms, expected) in [
        (vec!["id: `5`"], "id=5 name=\"x\""),
        (vec!["id: nothing"], "!does_not_fit"),
        (vec!["name: `5`"], "!does_not_fit"),
    ] {
        let mut decoder = avro_decoder(&id_table(), &transforms, Form::Bare(schema_of(ID_NAME)));
        let decoded = decoder.decode(&records([message.as_slice()]));
        let found = decoded.bad.first().map_or_else(|| rows(&decoded.batch).concat(), |bad| format!("!{}", bad.kind));
        assert_eq!(found, expected, "{transforms:?}");
    }
}

#[test]
fn fields_that_no_column_takes_are_counted_and_looked_at() {
    let schema = record_of(r#"{"name":"id","type":"long"},{"name":"extra","type":{"type":"map","values":"boolean"}}"#);
    let extra = Value::Map([("k".to_owned(), Value::Boolean(true))].into());
    let message = datum(&schema, Value::Record(vec![("id".into(), Value::Long(1)), ("extra".into(), extra)]));
    let mut damaged = message.clone();
    let at = damaged.len() - 2;
    assert_eq!(damaged[at], 1, "the boolean");
    damaged[at] = 2;
    let mut decoder = avro_decoder(&id_table(), &[], Form::Bare(schema_of(&schema)));
    let decoded = decoder.decode(&records([message.as_slice(), &damaged]));
    assert_eq!(rows(&decoded.batch), ["id=1 name=null"]);
    assert_eq!(told(&decoded), ["1 malformed: extra: a boolean that is neither 0 nor 1 at byte 5"]);
    let unknown = decoder.take_unknown_fields();
    assert_eq!((unknown.len(), unknown[0].path.as_deref(), unknown[0].count), (1, Some("extra"), 2));
}

#[test]
fn types_that_contain_themselves_are_read_where_they_end() {
    let schema = r#"{"type":"record","name":"node","fields":[{"name":"id","type":"long"},{"name":"next","type":["null","node"]}]}"#;
    let node = |id, next: Option<Value>| {
        let next = next.map_or(Value::Union(0, Box::new(Value::Null)), |next| Value::Union(1, Box::new(next)));
        Value::Record(vec![("id".into(), Value::Long(id)), ("next".into(), next)])
    };
    let short = datum(schema, node(1, Some(node(2, Some(node(3, None))))));
    let next = structure(vec![column("id", DataType::Int64), column("next", DataType::Utf8)]);
    let table = table(vec![column("id", DataType::Int64), column("next", next)]);
    let long = [2_u8, 2].repeat(300);
    let mut decoder = avro_decoder(&table, &[], Form::Bare(schema_of(schema)));
    let decoded = decoder.decode(&records([short.as_slice(), &long]));
    assert_eq!(rows(&decoded.batch), [r#"id=1 next={id:2,next:"{\"id\":3,\"next\":null}"}"#]);
    assert_eq!(decoded.bad.len(), 1);
    assert!(decoded.bad[0].detail.contains("deeper than 127"), "{:?}", decoded.bad);
    let itself = r#"{"type":"record","name":"node","fields":[{"name":"next","type":"node"}]}"#;
    let error = AvroSchema::parse(itself, &[]).unwrap_err().to_string();
    assert!(error.contains("no end") || error.contains("ecursive"), "{error}");
    let error = infer([&schema_of(schema)]).unwrap_err().to_string();
    assert!(error.starts_with("next contains itself"), "{error}");
}

#[test]
fn few_bytes_are_never_endless_work() {
    let nulls = record_of(r#"{"name":"id","type":"long"},{"name":"x","type":{"type":"array","items":"null"}}"#);
    // Two to the 60 nulls, and then none.
    let mut message = vec![2_u8];
    let mut count = 1_u64 << 61;
    while count >= 0x80 {
        message.push((count & 0x7f) as u8 | 0x80);
        count >>= 7;
    }
    message.extend([count as u8, 0]);
    check_form(
        Form::Bare(schema_of(&nulls)),
        &[message],
        &[],
        &["0 malformed: x: more elements than the message has bytes for"],
    );
}

#[test]
fn numbers_that_connect_gives_a_meaning_to() {
    let typed = |name: &str| format!(r#"{{"type":"long","connect.version":1,"connect.name":"{name}"}}"#);
    for (name, expected) in [
        ("io.debezium.time.Timestamp", "5000"),
        ("io.debezium.time.MicroTimestamp", "5"),
        ("io.debezium.time.NanoTimestamp", "0"),
        ("org.apache.kafka.connect.data.Timestamp", "5000"),
        ("of.nobody", "5"),
    ] {
        let text = record_of(&field("v", &typed(name)));
        let message = [10_u8];
        let table = table(vec![column("v", timestamp())]);
        let mut decoder = avro_decoder(&table, &[], Form::Bare(schema_of(&text)));
        let decoded = decoder.decode(&records([message.as_slice()]));
        assert_eq!(show(decoded.batch.column(0), 0), expected, "{name}");
    }
}

#[test]
fn schemas_refer_to_others_by_name() {
    let reference = |name: &str, text: &str| crate::ReferredSchema { name: name.to_owned(), text: text.to_owned() };
    let inner = r#"{"type":"record","name":"inner","namespace":"a.b","fields":[{"name":"x","type":"long"}]}"#;
    let outer = r#"{"type":"record","name":"outer","namespace":"a","fields":[{"name":"id","type":"a.b.inner"},{"name":"again","type":"a.b.inner"}]}"#;
    let schema = AvroSchema::parse(outer, &[reference("a.b.inner", inner)]).unwrap();
    let table = table(vec![
        column("id", structure(vec![column("x", DataType::Int64)])),
        column("again", structure(vec![column("x", DataType::Int64)])),
    ]);
    let decoded = avro_decoder(&table, &[], Form::Bare(schema)).decode(&records([[2_u8, 4].as_slice()]));
    assert_eq!(rows(&decoded.batch), ["id={x:1} again={x:2}"]);
    assert!(AvroSchema::parse(outer, &[]).is_err(), "without what it refers to it is none");
}

#[test]
fn a_table_for_a_schema() {
    let schema = record_of(
        r#"{"name":"i","type":"int"},{"name":"l","type":["null","long"],"default":null},
           {"name":"f","type":"float"},{"name":"d","type":"double"},{"name":"b","type":"boolean"},
           {"name":"s","type":"string"},{"name":"raw","type":"bytes"},
           {"name":"e","type":{"type":"enum","name":"e","symbols":["A"]}},
           {"name":"day","type":{"type":"int","logicalType":"date"}},
           {"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},
           {"name":"local","type":{"type":"long","logicalType":"local-timestamp-micros"}},
           {"name":"time","type":{"type":"int","logicalType":"time-millis"}},
           {"name":"amt","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}},
           {"name":"huge","type":{"type":"bytes","logicalType":"decimal","precision":60,"scale":2}},
           {"name":"none","type":"null"},{"name":"N","type":"long"},{"name":"n","type":"string"},
           {"name":"list","type":{"type":"array","items":["null","long"]}},
           {"name":"map","type":{"type":"map","values":"double"}},
           {"name":"in","type":{"type":"record","name":"inner","fields":[{"name":"x","type":"int"}]}},
           {"name":"numbers","type":["int","long","null"]},{"name":"mixed","type":["null","int","string"]}"#,
    );
    let found = infer([&schema_of(&schema)]).unwrap();
    let shown: Vec<String> =
        found.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    let plain: Vec<&str> = shown.iter().map(String::as_str).filter(|text| !text.contains('(')).collect();
    #[rustfmt::skip]
    assert_eq!(plain, [
        "i Int32", "l Int64", "f Float32", "d Float64", "b Boolean", "s Utf8", "raw Binary", "e Utf8", "day Date32",
        "time Int32", "huge Utf8", "N Int64", "numbers Int64", "mixed Utf8",
    ]);
    let nested: Vec<&DataType> =
        ["ts", "local", "amt", "list", "map", "in"].map(|name| found.field_with_name(name).unwrap().data_type()).into();
    assert_eq!(nested[0], &timestamp());
    assert_eq!(nested[1], &DataType::Timestamp(TimeUnit::Microsecond, None));
    assert_eq!(nested[2], &DataType::Decimal128(10, 2));
    assert_eq!(nested[3], &array_of(column("element", DataType::Int64)));
    assert!(matches!(nested[4], DataType::Map(..)));
    assert_eq!(nested[5], &structure(vec![column("x", DataType::Int32)]));
    let other = record_of(
        r#"{"name":"l","type":"double"},{"name":"more","type":"int"},{"name":"in","type":{"type":"record","name":"i2","fields":[{"name":"y","type":"int"}]}}"#,
    );
    let both = infer([&schema_of(&schema), &schema_of(&other)]).unwrap();
    let of = |name: &str| both.field_with_name(name).unwrap().data_type().clone();
    assert_eq!((of("l"), of("more")), (DataType::Float64, DataType::Int32));
    assert_eq!(of("in"), structure(vec![column("x", DataType::Int32), column("y", DataType::Int32)]));
}
