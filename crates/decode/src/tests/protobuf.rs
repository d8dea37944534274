//! Protobuf: each type and rule as a table, then random messages, whole and damaged, with `prost_reflect` as the judge.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use prost::Message as _;
use prost_reflect::{DynamicMessage, Kind, MapKey, ReflectMessage as _, Value};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng, SeedableRng as _};
use serde_json::{Value as Json, json};

use super::{array_of, column, map_of, not_null, records, rows, show, structure, table, timestamp};
use crate::protobuf::{Form, ProtobufMessage, ProtobufSchema};
use crate::{
    Answer, Decoded, Decoder, Encoding, Format, Language, ReferredSchema, Schemas, Transforms, Unavailable,
    WrittenSchema,
};

const SYNTAX: &str = "syntax = \"proto3\"; package t;";
const IMPORTS: &str = r#"import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
    import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto"; import "google/protobuf/any.proto";
    import "google/protobuf/field_mask.proto"; import "google/type/date.proto"; import "confluent/type/decimal.proto";"#;

/// The first message of a schema's text.
fn message(text: &str) -> ProtobufMessage {
    schema(text).message(&[0]).expect("a message")
}

fn schema(text: &str) -> ProtobufSchema {
    ProtobufSchema::compile(text, &BTreeMap::new()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn decode_with(message: &ProtobufMessage, table: &SchemaRef, transforms: &[&str], messages: &[Vec<u8>]) -> Decoded {
    let transforms = Transforms::parse(transforms).expect("transforms");
    let format = Format::from(Encoding::Protobuf(Form::Bare(message.clone())));
    let mut decoder = Decoder::with_format(table, "web", &transforms, &format).expect("a plan");
    decoder.decode(&records(messages.iter().map(Vec::as_slice)))
}

/// A varint.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A number in field `field`.
fn number(field: u32, value: u64) -> Vec<u8> {
    [varint(u64::from(field) << 3), varint(value)].concat()
}

/// Bytes in field `field`.
fn bytes(field: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [varint(u64::from(field) << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn fixed64(field: u32, value: u64) -> Vec<u8> {
    [varint(u64::from(field) << 3 | 1), value.to_le_bytes().to_vec()].concat()
}

fn fixed32(field: u32, value: u32) -> Vec<u8> {
    [varint(u64::from(field) << 3 | 5), value.to_le_bytes().to_vec()].concat()
}

/// Reads a message whose field `v` is of `kind` into a column of `data_type`: the value, or `!kind` of the refusal.
#[track_caller]
fn check(kind: &str, bytes: &[u8], data_type: &DataType, expected: &str) {
    let text = format!(
        "{SYNTAX} {IMPORTS} message M {{ {kind} v = 1; }} enum E {{ ZERO = 0; ONE = 1; }}
        message P {{ int32 a = 1; string b = 2; }}"
    );
    let decoded = decode_with(&message(&text), &table(vec![column("v", data_type.clone())]), &[], &[bytes.to_vec()]);
    let found = match decoded.bad.first() {
        Some(bad) => format!("!{}", bad.kind),
        None => show(decoded.batch.column(0), 0),
    };
    assert_eq!(found, expected, "{kind} into {data_type}: {:?}", decoded.bad);
}

#[test]
fn scalars_go_into_every_column_that_holds_them() {
    let (long, int, double, float, text) =
        (DataType::Int64, DataType::Int32, DataType::Float64, DataType::Float32, DataType::Utf8);
    let minus = (-5_i64).cast_unsigned();
    #[rustfmt::skip] // type, message, column, value
    let cases: Vec<(&str, Vec<u8>, DataType, &str)> = vec![
        ("int32", number(1, 5), long.clone(), "5"), ("int32", number(1, minus), int.clone(), "-5"), ("int32", number(1, minus), text.clone(), "\"-5\""),
        ("int64", number(1, minus), long.clone(), "-5"), ("int64", number(1, 1 << 40), int.clone(), "!does_not_fit"),
        ("int64", number(1, 1 << 40), double.clone(), "1099511627776.0"), ("int64", number(1, 7), DataType::Decimal128(10, 2), "700"),
        ("uint32", number(1, u64::from(u32::MAX)), long.clone(), "4294967295"), ("uint32", number(1, u64::from(u32::MAX)), int.clone(), "!does_not_fit"),
        ("uint64", number(1, u64::MAX), DataType::Decimal128(20, 0), "18446744073709551615"),
        ("uint64", number(1, u64::MAX), long.clone(), "!does_not_fit"), ("uint64", number(1, u64::MAX), text.clone(), "\"18446744073709551615\""),
        ("uint64", number(1, u64::MAX), double.clone(), "1.8446744073709552e19"),
        ("sint32", number(1, 9), int.clone(), "-5"), ("sint64", number(1, 9), long.clone(), "-5"), ("sint64", number(1, u64::MAX), long.clone(), "-9223372036854775808"),
        ("fixed32", fixed32(1, 7), int.clone(), "7"), ("fixed64", fixed64(1, u64::MAX), long.clone(), "!does_not_fit"),
        ("sfixed32", fixed32(1, u32::MAX), int.clone(), "-1"), ("sfixed64", fixed64(1, minus), long.clone(), "-5"),
        ("bool", number(1, 1), DataType::Boolean, "true"), ("bool", number(1, 2), text.clone(), "\"true\""), ("bool", number(1, 1), int.clone(), "!wrong_type"),
        ("double", fixed64(1, 1.5_f64.to_bits()), double.clone(), "1.5"), ("double", fixed64(1, 1.5_f64.to_bits()), long.clone(), "!does_not_fit"),
        ("double", fixed64(1, 3.0_f64.to_bits()), long.clone(), "3"), ("double", fixed64(1, f64::NAN.to_bits()), double.clone(), "NaN"),
        ("double", fixed64(1, 1e300_f64.to_bits()), float.clone(), "!does_not_fit"), ("double", fixed64(1, f64::INFINITY.to_bits()), float.clone(), "inf"),
        ("double", fixed64(1, f64::NAN.to_bits()), long.clone(), "!wrong_type"),
        ("float", fixed32(1, 0.1_f32.to_bits()), float.clone(), "0.1"), ("float", fixed32(1, 0.1_f32.to_bits()), double.clone(), "0.10000000149011612"),
        ("float", fixed32(1, 0.5_f32.to_bits()), DataType::Decimal128(3, 1), "5"),
        ("string", bytes(1, "é"), text.clone(), "\"é\""), ("string", bytes(1, "12"), int.clone(), "12"), ("string", bytes(1, "x"), int.clone(), "!wrong_type"),
        ("string", bytes(1, "2024-01-31T00:00:00Z"), timestamp(), "1706659200000000"), ("string", bytes(1, b"\xff"), text.clone(), "!malformed"),
        ("bytes", bytes(1, b"\xff\x00"), DataType::Binary, "xff00"), ("bytes", bytes(1, "hi"), text.clone(), "\"hi\""), ("bytes", bytes(1, b"\xff"), text.clone(), "!wrong_type"),
        ("E", number(1, 1), text.clone(), "\"ONE\""), ("E", number(1, 1), int.clone(), "1"), ("E", number(1, 9), text.clone(), "\"9\""), ("E", number(1, minus), int.clone(), "-5"),
    ];
    for (kind, bytes, data_type, expected) in cases {
        check(kind, &bytes, &data_type, expected);
    }
}

#[test]
fn what_is_left_out_is_the_default_unless_the_schema_tells_it_from_that() {
    let text = &DataType::Utf8;
    for (kind, data_type, expected) in [
        ("int32", &DataType::Int32, "0"),
        ("bool", &DataType::Boolean, "false"),
        ("string", text, "\"\""),
        ("bytes", &DataType::Binary, "x"),
        ("E", text, "\"ZERO\""),
        ("optional int32", &DataType::Int32, "null"),
        ("optional string", text, "null"),
        ("P", text, "null"),
        ("google.protobuf.Int32Value", &DataType::Int32, "null"),
        ("google.protobuf.Timestamp", &timestamp(), "null"),
        ("repeated int32", &array_of(column("element", DataType::Int32)), "[]"),
        ("map<string, int32>", &map_of(DataType::Utf8, column("value", DataType::Int32)), "{}"),
        ("repeated int32", text, "\"[]\""),
    ] {
        check(kind, b"", data_type, expected);
    }
    // Set to the default is set.
    check("optional int32", &number(1, 0), &DataType::Int32, "0");
    check("P", &bytes(1, ""), text, r#""{\"a\":0,\"b\":\"\"}""#);
}

#[test]
fn common_messages_are_what_they_stand_for() {
    let (text, date) = (DataType::Utf8, DataType::Date32);
    let stamp = |seconds: i64, nanos: u64| bytes(1, [number(1, seconds.cast_unsigned()), number(2, nanos)].concat());
    let wrapped = |inner: Vec<u8>| bytes(1, inner);
    let word = |text: &str| bytes(1, bytes(3, text));
    #[rustfmt::skip] // type, message, column, value
    let cases: Vec<(&str, Vec<u8>, DataType, &str)> = vec![
        ("google.protobuf.Timestamp", stamp(1, 500_000_999), timestamp(), "1500000"), ("google.protobuf.Timestamp", stamp(-1, 1_000), timestamp(), "-999999"),
        ("google.protobuf.Timestamp", stamp(86_400, 0), date.clone(), "1"), ("google.protobuf.Timestamp", stamp(86_401, 0), date.clone(), "!wrong_type"),
        ("google.protobuf.Timestamp", stamp(0, 120_000_000), text.clone(), "\"1970-01-01T00:00:00.120Z\""), ("google.protobuf.Timestamp", stamp(0, 1), text.clone(), "\"1970-01-01T00:00:00.000000001Z\""),
        ("google.protobuf.Timestamp", stamp(253_402_300_800, 0), timestamp(), "!does_not_fit"), ("google.protobuf.Timestamp", stamp(0, 1_000_000_000), timestamp(), "!does_not_fit"),
        ("google.protobuf.Timestamp", stamp(5, 7), structure(vec![column("seconds", DataType::Int64), column("nanos", DataType::Int32)]), "{seconds:5,nanos:7}"),
        ("google.protobuf.Duration", stamp(1, 500_000_000), text.clone(), "\"1.500s\""), ("google.protobuf.Duration", stamp(-1, (-1_i64).cast_unsigned()), text.clone(), "\"-1.000000001s\""),
        ("google.protobuf.Duration", stamp(1, (-1_i64).cast_unsigned()), text.clone(), "!does_not_fit"), ("google.protobuf.Duration", stamp(1, 0), DataType::Int64, "!wrong_type"),
        ("google.protobuf.Int64Value", wrapped(number(1, 7)), DataType::Int64, "7"), ("google.protobuf.Int64Value", wrapped(vec![]), DataType::Int64, "0"),
        ("google.protobuf.UInt64Value", wrapped(number(1, u64::MAX)), DataType::Decimal128(20, 0), "18446744073709551615"),
        ("google.protobuf.StringValue", wrapped(bytes(1, "a")), text.clone(), "\"a\""), ("google.protobuf.BytesValue", wrapped(bytes(1, b"\x01")), DataType::Binary, "x01"),
        ("google.protobuf.BoolValue", wrapped(number(1, 1)), structure(vec![column("value", DataType::Boolean)]), "{value:true}"),
        ("google.protobuf.Value", word("a"), text.clone(), "\"a\""), ("google.protobuf.Value", bytes(1, fixed64(2, 1.5_f64.to_bits())), DataType::Float64, "1.5"),
        ("google.protobuf.Value", bytes(1, number(1, 0)), text.clone(), "null"),
        ("google.protobuf.Struct", bytes(1, [bytes(1, [bytes(1, "z"), bytes(2, number(4, 1))].concat()), bytes(1, [bytes(1, "a"), bytes(2, number(1, 0))].concat())].concat()), text.clone(), r#""{\"z\":true,\"a\":null}""#),
        ("google.protobuf.Struct", bytes(1, bytes(1, [bytes(1, "z"), bytes(2, bytes(3, "x"))].concat())), structure(vec![column("z", DataType::Utf8)]), "{z:\"x\"}"),
        ("google.protobuf.ListValue", bytes(1, [bytes(1, bytes(3, "x")), bytes(1, bytes(3, "y"))].concat()), array_of(column("element", DataType::Utf8)), "[\"x\",\"y\"]"),
        ("google.protobuf.FieldMask", bytes(1, [bytes(1, "a_b.c"), bytes(1, "d")].concat()), text.clone(), "\"aB.c,d\""),
        ("google.protobuf.Any", bytes(1, [bytes(1, "x.com/t.P"), bytes(2, number(1, 5))].concat()), text.clone(), r#""{\"@type\":\"x.com/t.P\",\"a\":5,\"b\":\"\"}""#),
        ("google.protobuf.Any", bytes(1, [bytes(1, "x/google.protobuf.Duration"), bytes(2, number(1, 5))].concat()), text.clone(), r#""{\"@type\":\"x/google.protobuf.Duration\",\"value\":\"5s\"}""#),
        ("google.protobuf.Any", bytes(1, bytes(1, "x.com/t.Q")), text.clone(), "!wrong_type"),
        ("google.protobuf.Any", bytes(1, [bytes(1, "u"), bytes(2, b"\xff")].concat()), structure(vec![column("type_url", DataType::Utf8), column("value", DataType::Binary)]), "{type_url:\"u\",value:xff}"),
        ("google.type.Date", bytes(1, [number(1, 2024), number(2, 2), number(3, 29)].concat()), date.clone(), "19782"), ("google.type.Date", bytes(1, [number(1, 2023), number(2, 2), number(3, 29)].concat()), date.clone(), "!does_not_fit"),
        ("confluent.type.Decimal", bytes(1, [bytes(1, [0x04, 0xd2]), number(3, 2)].concat()), DataType::Decimal128(10, 2), "1234"), ("confluent.type.Decimal", bytes(1, [bytes(1, [0xff]), number(3, 1)].concat()), DataType::Decimal128(10, 2), "-10"),
        ("confluent.type.Decimal", bytes(1, [bytes(1, [0x04, 0xd2]), number(3, 3)].concat()), DataType::Decimal128(10, 2), "!does_not_fit"),
    ];
    for (kind, bytes, data_type, expected) in cases {
        check(kind, &bytes, &data_type, expected);
    }
}

#[test]
fn values_may_come_in_any_order_more_than_once_and_in_pieces() {
    let parts = structure(vec![column("a", DataType::Int32), column("b", DataType::Utf8)]);
    let ints = array_of(column("element", DataType::Int32));
    let map = map_of(DataType::Utf8, column("value", DataType::Int32));
    let entry = |key: &str, value: u64| bytes(1, [bytes(1, key), number(2, value)].concat());
    #[rustfmt::skip] // type, message, column, value
    let cases: Vec<(&str, Vec<u8>, DataType, &str)> = vec![
        ("int32", [number(1, 1), number(1, 2)].concat(), DataType::Int32, "2"),
        ("string", [bytes(1, "a"), bytes(1, "b")].concat(), DataType::Utf8, "\"b\""), ("string", [bytes(1, b"\xff"), bytes(1, "b")].concat(), DataType::Utf8, "!malformed"),
        ("P", [bytes(1, number(1, 1)), bytes(1, bytes(2, "x"))].concat(), parts.clone(), "{a:1,b:\"x\"}"), ("P", [bytes(1, number(1, 1)), bytes(1, number(1, 2))].concat(), parts.clone(), "{a:2,b:\"\"}"),
        ("P", [bytes(1, number(1, 1)), bytes(1, bytes(2, "x"))].concat(), DataType::Utf8, r#""{\"a\":1,\"b\":\"x\"}""#),
        ("repeated int32", bytes(1, [1, 2, 3]), ints.clone(), "[1,2,3]"), ("repeated int32", [number(1, 1), bytes(1, [2, 3]), number(1, 4)].concat(), ints.clone(), "[1,2,3,4]"),
        ("repeated int32", bytes(1, [1, 2, 3]), DataType::Utf8, "\"[1,2,3]\""), ("repeated int32", bytes(1, [0x80]), ints.clone(), "!malformed"), ("repeated int32", bytes(1, [1]), DataType::Int32, "!wrong_type"),
        ("repeated P", [bytes(1, number(1, 1)), bytes(1, b"")].concat(), array_of(column("element", parts.clone())), "[{a:1,b:\"\"},{a:0,b:\"\"}]"),
        ("map<string, int32>", [entry("b", 1), entry("a", 2), entry("b", 3)].concat(), map.clone(), "{\"a\"=2,\"b\"=3}"), ("map<string, int32>", bytes(1, bytes(1, "k")), map.clone(), "{\"k\"=0}"),
        ("map<string, int32>", bytes(1, number(2, 7)), map.clone(), "{\"\"=7}"), ("map<string, int32>", entry("b", 1), DataType::Utf8, r#""{\"b\":1}""#),
        ("map<int32, P>", bytes(1, number(1, 7)), map_of(DataType::Int64, column("value", parts.clone())), "{7={a:0,b:\"\"}}"), ("map<bool, int32>", bytes(1, [number(1, 2), number(2, 1)].concat()), map_of(DataType::Boolean, column("value", DataType::Int32)), "{true=1}"),
        ("map<string, int32>", [entry("1", 1), entry("01", 2)].concat(), map_of(DataType::Int32, column("value", DataType::Int32)), "!wrong_type"),
    ];
    for (kind, bytes, data_type, expected) in cases {
        check(kind, &bytes, &data_type, expected);
    }
}

#[test]
fn a_oneof_is_its_last_field_alone() {
    let text = format!("{SYNTAX} message M {{ oneof x {{ int32 a = 1; string b = 2; M c = 3; }} }}");
    let table = table(vec![column("a", DataType::Int32), column("b", DataType::Utf8), column("c", DataType::Utf8)]);
    let messages = [
        vec![],
        number(1, 0),
        [number(1, 5), bytes(2, "x")].concat(),
        [bytes(2, "x"), bytes(3, number(1, 7)), number(1, 6)].concat(),
        [bytes(3, bytes(2, b"\xff")), number(1, 6)].concat(),
    ];
    let decoded = decode_with(&message(&text), &table, &[], &messages);
    assert_eq!(
        rows(&decoded.batch),
        ["a=null b=null c=null", "a=0 b=null c=null", "a=null b=\"x\" c=null", "a=6 b=null c=null"]
    );
    assert_eq!(decoded.bad[0].detail, "c.b: not UTF-8 at byte 4");
}

#[test]
fn proto2_has_required_fields_groups_and_extensions() {
    let text = "syntax = \"proto2\"; message M { required int32 id = 1; optional group G = 2 { optional string s = 3; }
        repeated int32 many = 4; extensions 100 to 200; optional int32 d = 5 [default = 7]; }
        extend M { optional int32 extra = 100; }";
    let table = table(vec![
        column("id", DataType::Int32),
        column("g", structure(vec![column("s", DataType::Utf8)])),
        column("many", array_of(column("element", DataType::Int32))),
        column("d", DataType::Int32),
    ]);
    let group = [vec![0x13], bytes(3, "x"), vec![0x14]].concat();
    let messages = [
        [number(1, 1), group, number(4, 1), number(4, 2), number(100, 9)].concat(),
        number(4, 1),
        [number(1, 1), vec![0x13, 0x0b]].concat(),
        [number(1, 1), vec![0x14]].concat(),
    ];
    let decoded = decode_with(&message(text), &table, &[], &messages);
    assert_eq!(rows(&decoded.batch), ["id=1 g={s:\"x\"} many=[1,2] d=null"]);
    let bad: Vec<_> = decoded.bad.iter().map(|bad| format!("{} {}", bad.entry, bad.detail)).collect();
    assert_eq!(
        bad,
        [
            "1 id: a required field is missing",
            "2 g: the message ends too early at byte 4",
            "3 g: a value of another wire type than the schema's at byte 3",
        ]
    );
}

#[test]
fn faults_are_told_with_their_place() {
    let text = format!(
        "{SYNTAX} message M {{ int32 id = 1; P p = 2; repeated P ps = 3; string dropped = 4; }}
        message P {{ int64 n = 1; string s = 2; }}"
    );
    let parts = structure(vec![column("n", DataType::Int32), column("s", DataType::Utf8)]);
    let table = table(vec![
        not_null("id", DataType::Int32),
        column("p", parts.clone()),
        column("ps", array_of(column("element", parts))),
    ]);
    let far = number(1, 1 << 40);
    #[rustfmt::skip] // message, what is said
    let cases = [
        (vec![0xff], "the message ends too early at byte 1"), (vec![0x07], "no such wire type at byte 0"), (vec![0x00], "field number 0 at byte 0"),
        (vec![0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], "id: a number of more than 64 bits at byte 11"),
        (vec![0x12, 0x05, 0x08], "p: a length that passes the message's end at byte 2"),
        (bytes(2, &far), "p.n: 1099511627776 is out of the range of type int"), ([bytes(3, ""), bytes(3, &far)].concat(), "ps.element.n: 1099511627776 is out of the range of type int"),
        (fixed32(1, 1), "id: a value of another wire type than the schema's at byte 1"), (bytes(4, b"a\xff"), "dropped: not UTF-8 at byte 3"),
        (bytes(2, bytes(2, b"\xff")), "p.s: not UTF-8 at byte 4"), (fixed64(9, 1)[..5].to_vec(), "the message ends too early at byte 1"),
    ];
    for (message_bytes, expected) in cases {
        let decoded = decode_with(&message(&text), &table, &[], &[message_bytes.clone(), number(1, 8)]);
        assert_eq!(decoded.bad.first().map(|bad| bad.detail.as_str()), Some(expected), "{message_bytes:x?}");
        assert_eq!(rows(&decoded.batch), ["id=8 p=null ps=[]"], "its neighbour is unharmed");
    }
}

#[test]
fn what_no_column_takes_is_counted_by_name() {
    let text = format!(
        "{SYNTAX} message M {{ int32 id = 1; int32 extra = 2; P p = 3; }} message P {{ int32 a = 1; int32 b = 2; }}"
    );
    let table = table(vec![column("id", DataType::Int32), column("p", structure(vec![column("a", DataType::Int32)]))]);
    let format = Format::from(Encoding::Protobuf(Form::Bare(message(&text))));
    let mut decoder = Decoder::with_format(&table, "web", &Transforms::default(), &format).expect("a plan");
    let messages = [[number(2, 1), bytes(3, number(2, 1)), number(17, 3)].concat(), number(2, 1)];
    let decoded = decoder.decode(&records(messages.iter().map(Vec::as_slice)));
    assert_eq!((decoded.batch.num_rows(), decoded.bad.len()), (2, 0));
    let counted: BTreeMap<_, _> =
        decoder.take_unknown_fields().into_iter().map(|field| (field.path, field.count)).collect();
    let expected = [("extra", 2), ("p.b", 1), ("17", 1)].map(|(path, count)| (Some(path.to_owned()), count));
    assert_eq!(counted, BTreeMap::from(expected));
}

#[test]
fn json_names_find_their_columns_too() {
    let text = format!(
        "{SYNTAX} message M {{ int32 user_id = 1; int32 x = 2 [json_name = \"y\"]; int32 z = 3 [json_name = \"w\"]; }}"
    );
    let table =
        table(vec![column("userId", DataType::Int32), column("y", DataType::Int32), column("z", DataType::Int32)]);
    let decoded = decode_with(&message(&text), &table, &[], &[[number(1, 1), number(2, 2), number(3, 3)].concat()]);
    assert_eq!(rows(&decoded.batch), ["userId=1 y=2 z=3"]);
}

#[test]
fn transforms_see_the_message_as_json() {
    let text = format!("{SYNTAX} message M {{ int32 id = 1; P p = 2; string time = 3; }} message P {{ int64 n = 1; }}");
    let table = table(vec![
        column("id", DataType::Int32),
        column("date", DataType::Utf8),
        column("n", DataType::Int64),
        column("time", timestamp()),
        column("offset", DataType::Int64),
    ]);
    let transforms =
        ["date: substr(time, `0`, `10`)", "n: p.n", "time: to_string('2024-01-31')", "offset: kafka.offset"];
    let good = [number(1, 7), bytes(2, number(1, 9)), bytes(3, "2024-02-03 or so")].concat();
    let decoded = decode_with(&message(&text), &table, &transforms, &[good]);
    assert_eq!(
        rows(&decoded.batch),
        ["id=7 date=\"2024-02-03\" n=9 time=1706659200000000 offset=100"],
        "{:?}",
        decoded.bad
    );
}

/// A registry of the test's own.
#[derive(Debug)]
struct Kept(BTreeMap<u32, WrittenSchema>);

impl Schemas for Kept {
    fn schema(&self, id: u32) -> Result<Answer, Unavailable> {
        match self.0.get(&id) {
            Some(schema) => Ok(Answer::There(Arc::new(schema.clone()))),
            None if id == 404 => Ok(Answer::NotThere),
            None => Err(Unavailable::OutOfReach { detail: "not today".to_owned() }),
        }
    }
}

fn written(language: Language, text: &str, references: &[(&str, &str)]) -> WrittenSchema {
    let referred = |(name, text): &(&str, &str)| ReferredSchema { name: (*name).to_owned(), text: (*text).to_owned() };
    WrittenSchema { language, text: text.to_owned(), references: references.iter().map(referred).collect() }
}

fn framed(id: u32, rest: impl AsRef<[u8]>) -> Vec<u8> {
    [&[0], &id.to_be_bytes()[..], rest.as_ref()].concat()
}

#[test]
fn frames_name_the_schema_and_the_type_in_it() {
    let money = "syntax = \"proto3\"; package c; message Money { int64 cents = 1; }";
    let order = "syntax = \"proto3\"; package p; import \"common.proto\"; import \"google/protobuf/timestamp.proto\";
        message Order { int64 id = 1; c.Money total = 2; }
        message Other { map<string, int32> m = 1; message In { int64 id = 3; } enum E { A = 0; } message Second { int64 id = 2; } }";
    let schemas = Kept(BTreeMap::from([
        (1, written(Language::Protobuf, order, &[("common.proto", money)])),
        (2, written(Language::Protobuf, "syntax = \"proto3\"; message Order { string id = 1; }", &[])),
        (3, written(Language::Avro, "\"long\"", &[])),
        (4, written(Language::Protobuf, "message { what", &[])),
        (5, written(Language::Protobuf, "syntax = \"proto3\"; import \"gone.proto\"; message A { }", &[])),
    ]));
    let format = Format::from(Encoding::Protobuf(Form::Framed(Arc::new(schemas))));
    let table =
        table(vec![column("id", DataType::Utf8), column("total", structure(vec![column("cents", DataType::Int64)]))]);
    let mut decoder = Decoder::with_format(&table, "web", &Transforms::default(), &format).expect("a plan");
    let value = [number(1, 5), bytes(2, number(1, 7))].concat();
    #[rustfmt::skip] // message, row or refusal
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (framed(1, [&[0], &value[..]].concat()), "id=\"5\" total={cents:7}"), (framed(1, [&[2, 0], &value[..]].concat()), "id=\"5\" total={cents:7}"),
        (framed(2, [vec![0], bytes(1, "x")].concat()), "id=\"x\" total=null"),
        (framed(1, [vec![4, 2, 0], number(3, 9)].concat()), "id=\"9\" total=null"), (framed(1, [vec![4, 2, 2], number(2, 8)].concat()), "id=\"8\" total=null"),
        (framed(1, [2, 4]), "schema 1 of the registry has no message at [2]"), (framed(1, [6, 2, 0, 0]), "schema 1 of the registry has no message at [1, 0, 0]"),
        (framed(1, [0x80]), "the message ends too early at byte 6"), (framed(1, [1]), "a negative number in the list of message indexes at byte 6"),
        (framed(1, [0xfe, 0x7f]), "no list of message indexes: is it a message of another serializer? at byte 5"),
        (framed(404, [0]), "the registry has no schema 404"), (framed(3, [0]), "schema 3 of the registry is not Protobuf, but Avro"),
        (vec![0, 0, 0], "the message is shorter than a schema's number (5 bytes) at byte 0"), (b"{}".to_vec(), "the message does not begin with 0 and a schema's number at byte 0"),
    ];
    for (bytes, expected) in cases {
        let decoded = decoder.try_decode(&records([bytes.as_slice()]), 0).expect("the registry is there");
        let found = decoded.bad.first().map_or_else(|| rows(&decoded.batch)[0].clone(), |bad| bad.detail.clone());
        assert_eq!(found, expected, "{bytes:x?}");
    }
    for (id, part) in [(4, "schema 4 of the registry: "), (5, "gone.proto")] {
        let decoded = decoder.try_decode(&records([framed(id, [0]).as_slice()]), 0).expect("the registry is there");
        assert!(decoded.bad[0].detail.contains(part), "{}", decoded.bad[0].detail);
    }
    let messages = [framed(2, [0]), framed(99, [0])];
    let unavailable = decoder.try_decode(&records(messages.iter().map(Vec::as_slice)), 0).expect_err("nobody knows");
    assert_eq!(unavailable, Unavailable::OutOfReach { detail: "not today".to_owned() });
    let decoded = decoder.try_decode(&records([messages[0].as_slice()]), 0).expect("the registry is there");
    assert_eq!(decoded.batch.num_rows(), 1, "nothing of the stretch that nobody knew was kept");
}

#[test]
fn a_set_of_descriptors_names_its_messages() {
    let mut compiler = protox::Compiler::with_file_resolver(protox::file::GoogleFileResolver::new());
    let set = compiler
        .include_imports(true)
        .open_file("google/protobuf/api.proto")
        .expect("a file")
        .encode_file_descriptor_set();
    assert_eq!(
        ProtobufMessage::named(&set, "google.protobuf.Mixin").expect("is there").name(),
        "google.protobuf.Mixin"
    );
    assert_eq!(ProtobufMessage::named(&set, "Mixin").expect("one ends so").name(), "google.protobuf.Mixin");
    assert!(ProtobufMessage::named(&set, "Nope").unwrap_err().to_string().contains("there is no message Nope"));
    assert!(ProtobufMessage::named(b"\xff", "Mixin").unwrap_err().to_string().contains("--include_imports"));
}

/// A schema with everything in it.
fn everything() -> ProtobufMessage {
    message(&format!(
        r#"{SYNTAX} import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
        message Everything {{ double d = 1; float f = 2; int32 i = 3; int64 l = 4; uint32 u = 5; uint64 ul = 6; sint32 si = 7;
          sint64 sl = 8; fixed32 xi = 9; fixed64 xl = 10; sfixed32 sxi = 11; sfixed64 sxl = 12; bool b = 13; string s = 14;
          bytes y = 15; Kind e = 16; optional int32 oi = 17; optional string os = 18; repeated int64 rl = 19;
          repeated string rs = 20; repeated Part rp = 21; map<string, int32> ms = 22; map<int64, Part> mp = 23; Part p = 24;
          oneof one {{ int32 oa = 25; string ob = 26; Part oc = 27; }} google.protobuf.Timestamp ts = 28;
          google.protobuf.StringValue w = 29; repeated double rd = 30; repeated Kind re = 31; map<bool, Kind> mb = 3000; }}
        message Part {{ int32 a = 1; optional string b = 2; Inner c = 3; message Inner {{ repeated uint32 z = 1; bytes y = 2; }} }}
        enum Kind {{ NONE = 0; SOME = 1; MANY = 5; }}"#
    ))
}

fn random_message(descriptor: &prost_reflect::MessageDescriptor, random: &mut StdRng) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    if descriptor.full_name() == "google.protobuf.Timestamp" {
        message.set_field_by_name("seconds", Value::I64(random.random_range(-62_135_596_800..=253_402_300_799)));
        message.set_field_by_name("nanos", Value::I32(random.random_range(0..1_000_000_000)));
        return message;
    }
    for field in descriptor.fields() {
        if random.random_bool(0.3) {
            continue;
        }
        let value = if field.is_map() {
            let Kind::Message(entry) = field.kind() else { unreachable!("a map's entry") };
            let key_of = entry.map_entry_key_field().kind();
            let count = random.random_range(0..4);
            let entry_of = |random: &mut StdRng| {
                let key = match (random_value(&key_of, random), &key_of) {
                    (Value::Bool(key), _) => MapKey::Bool(key),
                    (Value::I64(key), _) => MapKey::I64(key),
                    (Value::String(key), _) => MapKey::String(key),
                    (other, _) => unreachable!("{other:?}"),
                };
                (key, random_value(&entry.map_entry_value_field().kind(), random))
            };
            Value::Map((0..count).map(|_| entry_of(random)).collect())
        } else if field.is_list() {
            let count = random.random_range(0..5);
            Value::List((0..count).map(|_| random_value(&field.kind(), random)).collect())
        } else {
            random_value(&field.kind(), random)
        };
        message.set_field(&field, value);
    }
    message
}

fn random_value(kind: &Kind, random: &mut StdRng) -> Value {
    let small = random.random_bool(0.5);
    let mut bits: u64 = random.random();
    if small {
        bits %= 200;
    }
    match kind {
        Kind::Double => Value::F64(f64::from_bits(random.random())),
        Kind::Float => Value::F32(f32::from_bits(random.random())),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(bits as i32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(bits.cast_signed()),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(bits as u32),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(bits),
        Kind::Bool => Value::Bool(small),
        Kind::String => {
            let length = random.random_range(0..9);
            Value::String(
                (0..length).map(|_| *['a', 'b', '"', '\\', 'é', '\u{1f600}', '\n'].choose(random).unwrap()).collect(),
            )
        }
        Kind::Bytes => {
            let length = random.random_range(0..9_usize);
            Value::Bytes((0..length).map(|_| random.random::<u8>()).collect::<Vec<_>>().into())
        }
        Kind::Enum(_) => Value::EnumNumber(*[0, 1, 5, 77, -3].choose(random).unwrap()),
        Kind::Message(message) => Value::Message(random_message(message, random)),
    }
}

/// What a table holds, with keys in order: floats by their bits, bytes as numbers.
fn of_table(array: &dyn Array, row: usize) -> Json {
    if array.is_null(row) {
        return Json::Null;
    }
    match array.data_type() {
        DataType::Struct(fields) => {
            let part = |(at, field): (usize, &Arc<arrow_schema::Field>)| {
                (field.name().clone(), of_table(array.as_struct().column(at), row))
            };
            Json::Object(fields.iter().enumerate().map(part).collect())
        }
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(row);
            (0..elements.len()).map(|at| of_table(&elements, at)).collect()
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let entry = |at| (of_table(entries.column(0), at).to_string(), of_table(entries.column(1), at));
            Json::Object((0..entries.len()).map(entry).collect())
        }
        DataType::Float64 => {
            json!(array.as_primitive::<arrow_array::types::Float64Type>().value(row).to_bits().to_string())
        }
        DataType::Float32 => {
            json!(array.as_primitive::<arrow_array::types::Float32Type>().value(row).to_bits().to_string())
        }
        DataType::Binary => json!(array.as_binary::<i32>().value(row)),
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        _ => json!(show(array, row)),
    }
}

/// What the judge's message is in such a table.
fn of_message(message: &DynamicMessage) -> Json {
    let descriptor = message.descriptor();
    let get = |name: &str| message.get_field_by_name(name).expect("a field").into_owned();
    match descriptor.full_name() {
        "google.protobuf.Timestamp" => {
            let (Value::I64(seconds), Value::I32(nanos)) = (get("seconds"), get("nanos")) else { unreachable!() };
            return json!((seconds * 1_000_000 + i64::from(nanos / 1000)).to_string());
        }
        "google.protobuf.StringValue" => return of_value(&get("value"), &Kind::String),
        _ => {}
    }
    let field = |field: prost_reflect::FieldDescriptor| {
        let name = field.name().to_owned();
        if field.supports_presence() && !message.has_field(&field) {
            return (name, Json::Null);
        }
        (name, of_value(&message.get_field(&field), &field.kind()))
    };
    Json::Object(descriptor.fields().map(field).collect())
}

fn of_value(value: &Value, kind: &Kind) -> Json {
    match value {
        Value::Bool(value) => json!(value.to_string()),
        Value::I32(value) => json!(value.to_string()),
        Value::I64(value) => json!(value.to_string()),
        Value::U32(value) => json!(value.to_string()),
        Value::U64(value) => json!(value.to_string()),
        Value::F32(value) => json!(value.to_bits().to_string()),
        Value::F64(value) => json!(value.to_bits().to_string()),
        Value::String(value) => json!(value),
        Value::Bytes(value) => json!(&value[..]),
        Value::EnumNumber(number) => {
            let Kind::Enum(of) = kind else { unreachable!("an enum") };
            json!(of.get_value(*number).map_or_else(|| number.to_string(), |value| value.name().to_owned()))
        }
        Value::Message(message) => of_message(message),
        Value::List(values) => values.iter().map(|value| of_value(value, kind)).collect(),
        Value::Map(values) => {
            let Kind::Message(entry) = kind else { unreachable!("a map's entry") };
            let value_of = entry.map_entry_value_field().kind();
            let entry = |(key, value): (&MapKey, &Value)| {
                let key = match key {
                    MapKey::String(key) => json!(key),
                    MapKey::I64(key) => json!(key.to_string()),
                    MapKey::Bool(key) => json!(key.to_string()),
                    other => unreachable!("{other:?}"),
                };
                (key.to_string(), of_value(value, &value_of))
            };
            Json::Object(values.iter().map(entry).collect())
        }
    }
}

fn of_row(batch: &RecordBatch, row: usize) -> Json {
    let schema = batch.schema();
    let cell =
        |(field, array): (&Arc<arrow_schema::Field>, &Arc<dyn Array>)| (field.name().clone(), of_table(array, row));
    Json::Object(schema.fields().iter().zip(batch.columns()).map(cell).collect())
}

#[test]
fn random_messages_are_what_their_encoder_put_in() {
    let everything = everything();
    let table = Arc::new(everything.table_schema());
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..40 {
        let messages: Vec<_> = (0..50).map(|_| random_message(&everything.0, &mut random)).collect();
        let encoded: Vec<Vec<u8>> = messages.iter().map(DynamicMessage::encode_to_vec).collect();
        let decoded = decode_with(&everything, &table, &[], &encoded);
        assert_eq!(decoded.bad, [], "nothing is bad");
        for (row, message) in messages.iter().enumerate() {
            assert_eq!(of_row(&decoded.batch, row), of_message(message), "{:x?}", encoded[row]);
        }
    }
}

#[test]
fn what_comes_again_is_looked_at_too() {
    let everything = everything();
    let table = Arc::new(everything.table_schema());
    let wrapper = |text: u8| [0xea, 0x01, 3, 0x0a, 1, text];
    let entry = |first: u8| [0xb2, 0x01, 8, 0x0a, 1, first, 0x0a, 1, b'k', 0x10, 7];
    for (message, rows) in [
        ([wrapper(b'a'), wrapper(b'b')].concat(), 1),
        ([wrapper(0xff), wrapper(b'b')].concat(), 0),
        (entry(b'a').to_vec(), 1),
        (entry(0xff).to_vec(), 0),
    ] {
        let judged = DynamicMessage::decode(everything.0.clone(), message.as_slice());
        assert_eq!(usize::from(judged.is_ok()), rows, "{message:x?}");
        assert_eq!(
            decode_with(&everything, &table, &[], std::slice::from_ref(&message)).batch.num_rows(),
            rows,
            "{message:x?}"
        );
    }
}

#[test]
fn damaged_messages_are_never_taken_where_the_judge_refuses_them() {
    let everything = everything();
    let table = Arc::new(everything.table_schema());
    let few = Arc::new(arrow_schema::Schema::new(vec![column("nothing", DataType::Int32)]));
    let mut random = StdRng::seed_from_u64(8);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = random_message(&everything.0, &mut random).encode_to_vec();
        for _ in 0..random.random_range(1..4) {
            if bytes.is_empty() {
                continue;
            }
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..5) {
                0 => bytes[at] ^= 1 << random.random_range(0..8),
                1 => bytes.truncate(at),
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, random.random()),
                _ => {
                    let copied = bytes[at..].to_vec();
                    bytes.extend(copied);
                }
            }
        }
        let judged = DynamicMessage::decode(everything.0.clone(), bytes.as_slice());
        let decoded = decode_with(&everything, &table, &[], std::slice::from_ref(&bytes));
        let unread = decode_with(&everything, &few, &[], std::slice::from_ref(&bytes));
        match judged {
            Ok(message) if decoded.bad.is_empty() => {
                taken += 1;
                assert_eq!(of_row(&decoded.batch, 0), of_message(&message), "{bytes:x?}");
            }
            // A Timestamp of no year is none for the judge of bytes to see, and it looks at no wire type of maps.
            Ok(_) => {
                let bad = &decoded.bad[0];
                let of_a_map = bad.detail.starts_with('m') && bad.detail.contains("another wire type");
                assert!(of_a_map || bad.kind != crate::BadKind::Malformed, "{bytes:x?}: {bad:?}");
            }
            Err(error) => {
                refused += 1;
                assert_eq!(decoded.batch.num_rows(), 0, "{bytes:x?}: {error}");
                assert_eq!(unread.batch.num_rows(), 0, "what no column takes is looked at too: {bytes:x?}: {error}");
            }
        }
    }
    assert!(taken > 1_000 && refused > 1_000, "both were seen: {taken}, {refused}");
}

#[test]
fn a_type_gives_its_table() {
    let text = format!("{SYNTAX} {IMPORTS} message M {{ uint32 u = 1; uint64 ul = 2; E e = 3; bytes y = 4; M again = 5; Empty none = 6;
        google.protobuf.Timestamp ts = 7; google.protobuf.Duration du = 8; google.protobuf.Struct st = 9;
        google.protobuf.DoubleValue w = 10; google.type.Date date = 11; repeated P ps = 12; map<int32, float> m = 13; }}
        enum E {{ ZERO = 0; }} message Empty {{ }} message P {{ bool b = 1; M up = 2; }}");
    let schema = message(&text).table_schema();
    let shown: Vec<_> = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    let parts = "Struct(\"b\": Boolean, \"up\": Utf8)";
    assert_eq!(
        shown,
        [
            "u Int64".to_owned(),
            "ul Decimal128(20, 0)".to_owned(),
            "e Utf8".to_owned(),
            "y Binary".to_owned(),
            "again Utf8".to_owned(),
            "none Utf8".to_owned(),
            "ts Timestamp(µs, \"UTC\")".to_owned(),
            "du Struct(\"seconds\": Int64, \"nanos\": Int32)".to_owned(),
            "st Utf8".to_owned(),
            "w Float64".to_owned(),
            "date Date32".to_owned(),
            format!("ps List({parts}, field: 'element')"),
            "m Map(\"key_value\": non-null Struct(\"key\": non-null Int32, \"value\": Float32), unsorted)".to_owned(),
        ]
    );
}
