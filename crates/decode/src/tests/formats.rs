//! Compressed messages, and bytes as they are.

use std::io::Write as _;

use super::*;
use crate::{Compression, Encoding, Format, MOST_INFLATED_BYTES, PlanError};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).expect("memory takes it")
}

fn inflating(compression: Compression, transforms: &[&str]) -> Decoder {
    let format = Format { compression: Some(compression), ..Format::default() };
    let transforms = Transforms::parse(transforms).expect("transforms");
    let table = table(vec![column("id", DataType::Int64), column("name", DataType::Utf8)]);
    Decoder::with_format(&table, "web", &transforms, &format).expect("a plan")
}

#[test]
fn k71_all_members_and_nothing_but_members() {
    for (compression, pack) in
        [(Compression::Gzip, gzip as fn(&[u8]) -> Vec<u8>), (Compression::Zstd, zstd as fn(&[u8]) -> Vec<u8>)]
    {
        let good = pack(br#"{"id":1,"name":"a"}"#);
        let cases: [(Vec<u8>, &str); 8] = [
            (good.clone(), "id=1 name=\"a\""),
            ([pack(br#"{"id":1,"#), pack(br#""name":"b"}"#)].concat(), "id=1 name=\"b\""),
            (br#"{"id":1}"#.to_vec(), "!malformed"),
            (good[..good.len() - 3].to_vec(), "!malformed"),
            ([good.as_slice(), b"more"].concat(), "!malformed"),
            (Vec::new(), "!malformed"),
            (pack(b"[1]"), "!not_an_object"),
            (pack(b""), "!not_json"),
        ];
        for (message, expected) in cases {
            let decoded = inflating(compression, &[]).decode(&records([message.as_slice()]));
            let bad = decoded.bad.first().map(|bad| format!("!{}", bad.kind));
            assert_eq!(bad.unwrap_or_else(|| rows(&decoded.batch).concat()), expected, "{compression:?} {message:?}");
        }
    }
}

#[test]
fn inflated_messages_are_messages_like_others() {
    let messages: Vec<Vec<u8>> =
        (0..200).map(|id| gzip(format!(r#"{{"id":{id},"x":{{"y":"{id}"}}}}"#).as_bytes())).collect();
    let mut decoder = inflating(Compression::Gzip, &["name: x.y"]);
    let decoded = decoder.decode(&records(messages.iter().map(Vec::as_slice)));
    let expected: Vec<String> = (0..200).map(|id| format!("id={id} name=\"{id}\"")).collect();
    assert_eq!(rows(&decoded.batch), expected);
}

#[test]
fn a_bomb_is_a_bad_message() {
    for (compression, bomb) in [
        (Compression::Gzip, gzip(&vec![b' '; MOST_INFLATED_BYTES + 1])),
        (Compression::Zstd, zstd(&vec![b' '; MOST_INFLATED_BYTES + 1])),
    ] {
        let decoded = inflating(compression, &[]).decode(&records([bomb.as_slice()]));
        assert_eq!(decoded.bad.first().map(|bad| bad.kind.name()), Some("too_large"), "{compression:?}");
    }
}

#[test]
fn large_insides_are_not_all_taken_at_once() {
    let large = gzip(format!(r#"{{"id":1,"name":"{}"}}"#, "x".repeat(40 << 20)).as_bytes());
    let records = records([large.as_slice(), &large, &large, b"bad"]);
    let mut decoder = inflating(Compression::Gzip, &[]);
    let (mut next, mut stretches) = (0, Vec::new());
    while next < records.len() {
        let decoded = decoder.try_decode(&records, next).unwrap();
        assert!(decoded.bad.iter().all(|bad| bad.entry == 3));
        stretches.push((decoded.batch.num_rows(), decoded.bad.len(), decoded.entry_of(0)));
        next = decoded.next;
    }
    assert_eq!(stretches, [(2, 0, 0), (1, 1, 2)]);
}

fn raw(table: &SchemaRef, transforms: &[&str]) -> Result<Decoder, PlanError> {
    let transforms = Transforms::parse(transforms).expect("transforms");
    Decoder::with_format(table, "web", &transforms, &Encoding::Raw.into())
}

#[test]
fn p55_records_as_they_are() {
    let table = table(vec![
        column("offset", DataType::Int64),
        column("value", DataType::Binary),
        column("key", DataType::Utf8),
        column("topic", DataType::Utf8),
        column("partition", DataType::Int32),
        column("timestamp", timestamp()),
        column("timestampType", DataType::Int32),
        column("day", DataType::Utf8),
        column(
            "headers",
            array_of(column(
                "element",
                structure(vec![column("key", DataType::Utf8), column("value", DataType::Binary)]),
            )),
        ),
    ]);
    let mut records = Records::new(PartitionId(3), Offset::new(100).unwrap());
    let at = 1_626_823_098_519;
    records.push_keyed(100, at, TimestampType::CreateTime, Some(b"k"), Some(b"\xff\0"));
    records.push_header(b"h", Some(b"\x01"));
    records.push_header(b"h", None);
    records.push_keyed(101, at, TimestampType::LogAppendTime, None, Some(b""));
    records.push_keyed(102, at, TimestampType::NotAvailable, Some(b"gone"), None);
    records.push_keyed(103, at, TimestampType::CreateTime, Some(b"\xff"), Some(b"x"));
    records.pad();
    let mut decoder = raw(&table, &["day: kafka.topic"]).unwrap();
    let decoded = decoder.decode(&records);
    assert_eq!(
        rows(&decoded.batch),
        [
            "offset=100 value=xff00 key=\"k\" topic=\"web\" partition=3 timestamp=1626823098519000 timestampType=0 day=\"web\" headers=[{key:\"h\",value:x01},{key:\"h\",value:null}]",
            "offset=101 value=x key=null topic=\"web\" partition=3 timestamp=1626823098519000 timestampType=1 day=\"web\" headers=[]",
            "offset=102 value=null key=\"gone\" topic=\"web\" partition=3 timestamp=null timestampType=-1 day=\"web\" headers=[]",
        ]
    );
    assert_eq!((decoded.tombstones, decoded.bad.len()), (0, 1), "a record without a value is a row");
    assert_eq!(decoded.bad[0].detail, "key: bytes that are not UTF-8 in a column of type string");
}

#[test]
fn headers_as_a_map_are_the_last_of_each_name() {
    let table = table(vec![
        column("value", DataType::Binary),
        column("headers", map_of(DataType::Utf8, column("value", DataType::Utf8))),
    ]);
    let mut records = Records::new(PartitionId(3), Offset::new(100).unwrap());
    records.push(100, 0, TimestampType::CreateTime, Some(b"x"));
    for (name, value) in [("a", "1"), ("b", "2"), ("a", "3")] {
        records.push_header(name.as_bytes(), Some(value.as_bytes()));
    }
    records.pad();
    let decoded = raw(&table, &[]).unwrap().decode(&records);
    assert_eq!(rows(&decoded.batch), ["value=x78 headers={\"b\"=\"2\",\"a\"=\"3\"}"]);
}

#[test]
fn tables_and_transforms_that_raw_records_do_not_suit() {
    let value = |data_type| table(vec![column("value", data_type)]);
    #[rustfmt::skip] // table, transforms, what is told
    let cases: [(SchemaRef, &[&str], &str); 3] = [
        (value(DataType::Int32), &[], "column value is of type int"),
        (table(vec![column("key", DataType::Binary)]), &[], "column 'value'"),
        (value(DataType::Binary), &["value: id"], "transform 'value' looks into the message"),
    ];
    for (table, transforms, text) in cases {
        let error = raw(&table, transforms).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}
