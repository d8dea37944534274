//! JSON in Confluent's framing, and the tables that JSON Schemas ask for.

use std::sync::Arc;

use arrow_schema::DataType;

use super::{column, records, rows, table};
use crate::json_schema::table_schema;
use crate::{
    Answer, Compression, Decoder, Encoding, Format, Language, ReferredSchema, Schemas, Transforms, Unavailable,
    WrittenSchema,
};

/// Schema 1 is a JSON Schema, 2 is Avro, 404 is not there, of others nobody knows.
#[derive(Debug)]
struct Kept;

impl Schemas for Kept {
    fn schema(&self, id: u32) -> Result<Answer, Unavailable> {
        let of = |language| Answer::There(Arc::new(WrittenSchema { language, text: "{}".into(), references: vec![] }));
        match id {
            1 => Ok(of(Language::Json)),
            2 => Ok(of(Language::Avro)),
            404 => Ok(Answer::NotThere),
            _ => Err(Unavailable::OutOfReach { detail: "not today".to_owned() }),
        }
    }
}

fn framed(id: u32, text: &str) -> Vec<u8> {
    [&[0], &id.to_be_bytes()[..], text.as_bytes()].concat()
}

fn format() -> Format {
    Format::from(Encoding::JsonSchema(Arc::new(Kept)))
}

#[test]
fn frames_are_taken_off_and_faults_set_aside() {
    let table = table(vec![column("id", DataType::Int64), column("s", DataType::Utf8)]);
    // Shapes, the usual way, and the one for compressed messages.
    let transforms: [&[&str]; 2] = [&[], &["s: to_string(id)"]];
    for transforms in transforms {
        let transforms = Transforms::parse(transforms).expect("transforms");
        let mut decoder = Decoder::with_format(&table, "web", &transforms, &format()).expect("a plan");
        let good: Vec<_> = (0..100).map(|id| framed(1, &format!(r#"{{"id":{id}}}"#))).collect();
        let bad =
            [framed(2, r#"{"id":7}"#), framed(404, r#"{"id":7}"#), br#"{"id":7}"#.to_vec(), vec![0, 0], framed(1, "{")];
        let messages: Vec<_> =
            good.iter().take(50).chain(&bad).chain(good.iter().skip(50)).map(Vec::as_slice).collect();
        let decoded = decoder.try_decode(&records(messages.iter().copied()), 0).expect("the registry is there");
        assert_eq!(decoded.batch.num_rows(), 100);
        assert!(rows(&decoded.batch)[99].starts_with("id=99 "));
        assert_eq!((decoded.entry_of(49), decoded.entry_of(50)), (49, 55));
        let details: Vec<_> = decoded.bad.iter().map(|bad| format!("{} {}", bad.entry, bad.detail)).collect();
        assert_eq!(
            details,
            [
                "50 schema 2 of the registry is not JSON Schema, but Avro",
                "51 the registry has no schema 404",
                "52 the message does not begin with 0 and a schema's number at byte 0",
                "53 the message is shorter than a schema's number (5 bytes) at byte 0",
                "54 the message ends too early at byte 1",
            ]
        );
        let waiting = [good[0].clone(), framed(9, "{}")];
        assert!(decoder.try_decode(&records(waiting.iter().map(Vec::as_slice)), 0).is_err(), "nobody knows schema 9");
        let decoded = decoder.try_decode(&records([good[0].as_slice()]), 0).expect("the registry is there");
        assert_eq!(decoded.batch.num_rows(), 1, "nothing of the stretch that waits was kept");
    }
}

#[test]
fn schemas_are_asked_for_before_messages_are_decoded() {
    let of = |ids: &[u32]| {
        let messages: Vec<_> = ids.iter().map(|id| framed(*id, "{}")).collect();
        records(messages.iter().map(Vec::as_slice))
    };
    assert_eq!(format().prepare(&of(&[1, 2, 404, 1])), Ok(()), "all of these are known");
    assert!(format().prepare(&of(&[1, 9])).is_err());
    assert_eq!(Format::default().prepare(&of(&[9])), Ok(()), "plain JSON names no schema");
    let inflated = Format { compression: Some(Compression::Gzip), ..format() };
    assert_eq!(inflated.prepare(&of(&[9])), Ok(()), "what is inside is not seen yet");
}

#[test]
fn a_json_schema_gives_its_table() {
    let schema = r##"{"type":"object","properties":{
        "id":{"type":"integer"},"i8":{"type":"integer","connect.type":"int8"},"f":{"type":"number","connect.type":"float32"},
        "n":{"type":["null","number"]},"b":{"type":"boolean"},"s":{"type":"string"},"at":{"type":"string","format":"date-time"},
        "day":{"oneOf":[{"type":"null"},{"type":"string","format":"date"}]},"tags":{"type":"array","items":{"type":"string"}},
        "m":{"type":"object","additionalProperties":{"type":"integer"}},"any":{},"two":{"anyOf":[{"type":"integer"},{"type":"string"}]},
        "point":{"$ref":"point.json"},"local":{"$ref":"#/definitions/l"},"gone":{"$ref":"gone.json"},
        "never":{"type":"null"},"ID":{"type":"string"}},"definitions":{"l":{"type":"object","properties":{"x":{"type":"boolean"}}}}}"##;
    let point = ReferredSchema {
        name: "point.json".to_owned(),
        text: r##"{"properties":{"x":{"$ref":"#/$defs/c"}},"$defs":{"c":{"type":"number"}}}"##.to_owned(),
    };
    let schema = table_schema(schema, &[point]).expect("an object");
    let shown: Vec<_> = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    assert_eq!(
        shown,
        [
            "id Int64",
            "i8 Int8",
            "f Float32",
            "n Float64",
            "b Boolean",
            "s Utf8",
            "at Timestamp(µs, \"UTC\")",
            "day Date32",
            "tags List(Utf8, field: 'element')",
            "m Map(\"key_value\": non-null Struct(\"key\": non-null Utf8, \"value\": Int64), unsorted)",
            "any Utf8",
            "two Utf8",
            "point Struct(\"x\": Float64)",
            "local Struct(\"x\": Boolean)",
            "gone Utf8",
        ]
    );
    let own = r##"{"properties":{"id":{"type":"integer"},"up":{"$ref":"#"}}}"##;
    let own = table_schema(own, &[]).expect("an object");
    assert_eq!(
        own.field(1).data_type().to_string(),
        "Struct(\"id\": Int64, \"up\": Utf8)",
        "what holds itself is text"
    );
    for (text, part) in [("{", "is not JSON"), (r#"{"type":"string"}"#, "--schema FILE")] {
        assert!(table_schema(text, &[]).expect_err(text).to_string().contains(part), "{text}");
    }
}
