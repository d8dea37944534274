//! Which messages are taken, and what becomes of the others.

use super::*;
use crate::{BadKind, MAX_DEPTH, UnknownField, infer};

fn names() -> SchemaRef {
    table(vec![column("id", DataType::Int64), column("name", DataType::Utf8)])
}

#[test]
fn what_is_no_object_is_set_aside() {
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(200), "]".repeat(200));
    #[rustfmt::skip] // K32, K88
    let cases: [(&[u8], BadKind); 26] = [
        (b"[1]", BadKind::NotAnObject), (b"\"x\"", BadKind::NotAnObject), (b"1", BadKind::NotAnObject), (b"null", BadKind::NotAnObject), (b"true", BadKind::NotAnObject),
        (br#"{"a":1}{"b":2}"#, BadKind::NotJson), (b"bad bytes", BadKind::NotJson), (b"", BadKind::NotJson), (b"   ", BadKind::NotJson), (deep.as_bytes(), BadKind::NotJson),
        (b"{\"x\":\"\xff\"}", BadKind::NotJson), (b"\xef\xbb\xbf{}", BadKind::NotJson), (b"{", BadKind::NotJson), (b"{\"id\"", BadKind::NotJson), (b"{\"id\":1", BadKind::NotJson),
        (b"{\"id\":1,}", BadKind::NotJson), (b"{,}", BadKind::NotJson), (b"{\"x\":01}", BadKind::NotJson), (b"{\"x\":\"\x01\"}", BadKind::NotJson), (b"{\"x\":\"\\ud800\"}", BadKind::NotJson),
        (b"{\"x\":\"\\udc00\"}", BadKind::NotJson), (b"{\"x\":\"\\x\"}", BadKind::NotJson), (b"{'id':1}", BadKind::NotJson), (b"{\"id\":1} x", BadKind::NotJson),
        (b"{\"id\":\"abc\",", BadKind::NotJson), (b"{\"x\":1e999}", BadKind::NotJson),
    ];
    for (message, kind) in cases {
        let shown = String::from_utf8_lossy(message);
        let good = br#"{"id":1,"name":"x"}"#;
        let decoded = decoder(&names(), &[]).decode(&records([good.as_slice(), message, good]));
        assert_eq!(rows(&decoded.batch), [r#"id=1 name="x""#; 2], "{shown}");
        assert_eq!(decoded.bad.len(), 1, "{shown}");
        assert_eq!((decoded.bad[0].entry, decoded.bad[0].kind), (1, kind), "{shown}: {}", decoded.bad[0].detail);
        assert_eq!((decoded.entry_of(0), decoded.entry_of(1)), (0, 2), "{shown}");
    }
}

#[test]
fn depth_is_bounded_as_serde_json_bounds_it() {
    for depth in [1, 2, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 10_000] {
        let nested = format!("{}1{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        for field in ["x", "name"] {
            let message = format!("{{\"{field}\":{nested}}}");
            let taken = serde_json::from_str::<serde_json::Value>(&message).is_ok();
            assert_eq!(taken, depth <= MAX_DEPTH, "{depth}");
            assert_eq!(decode(&names(), &[], &[&message]).bad.is_empty(), taken, "{depth} in {field}");
        }
    }
}

#[test]
fn bad_records_name_the_place() {
    let inner =
        structure(vec![not_null("id", DataType::Int32), column("tags", array_of(column("element", DataType::Int64)))]);
    let schema = table(vec![not_null("id", DataType::Int64), column("before", inner)]);
    #[rustfmt::skip] // K28, K31, P07
    let cases = [
        (r#"{"id":"abc"}"#, BadKind::WrongType, "id: 'abc' is no number, for a column of type long"),
        (r#"{"name":"x"}"#, BadKind::NullInNotNull, "id: it is missing, and the column is NOT NULL"),
        (r#"{"id":null}"#, BadKind::NullInNotNull, "id: it is null, and the column is NOT NULL"),
        (r#"{"id":1,"before":{}}"#, BadKind::NullInNotNull, "before.id: it is missing, and the column is NOT NULL"),
        (r#"{"id":1,"before":{"id":3000000000}}"#, BadKind::DoesNotFit, "before.id: 3000000000 is out of the range of type int"),
        (r#"{"id":1,"before":{"id":1,"tags":[1,{}]}}"#, BadKind::WrongType, "before.tags.element: an object in a column of type long"),
        (r#"{"id":1,"before":1}"#, BadKind::WrongType, "before: a number in a column of type struct"),
        (r#"{"id":1.5}"#, BadKind::DoesNotFit, "id: 1.5 has digits that type long can't keep"),
        (r#"{"id":1]"#, BadKind::NotJson, "a comma or closing brace is missing at byte 7"),
        (r#"{"id":1"#, BadKind::NotJson, "the message ends too early at byte 7"),
    ];
    for (message, kind, detail) in cases {
        let good = [r#"{"id":1,"before":null}"#, message, r#"{"id":2,"before":{"id":7,"tags":[1]}}"#];
        let decoded = decode(&schema, &[], &good);
        assert_eq!(rows(&decoded.batch), ["id=1 before=null", "id=2 before={id:7,tags:[1]}"], "{message}");
        assert_eq!(decoded.bad.len(), 1, "{message}");
        assert_eq!((decoded.bad[0].kind, decoded.bad[0].detail.as_str()), (kind, detail), "{message}");
    }
}

#[test]
fn keys_decide_by_their_last_value_and_exact_name() {
    let part = structure(vec![column("a", DataType::Int64), column("b", DataType::Int64)]);
    let schema = table(vec![column("id", DataType::Int64), column("s", part), column("t", DataType::Utf8)]);
    #[rustfmt::skip] // K88, P13, P14
    let cases = [
        (r#"{"id":1,"id":2}"#, "id=2 s=null t=null"), (r#"{"id":"abc","id":2}"#, "id=2 s=null t=null"), (r#"{"id":1,"\u0069d":2}"#, "id=2 s=null t=null"),
        (r#"{"id":"abc","\u0069d":2}"#, "id=2 s=null t=null"), (r#"{"id":1,"id":null}"#, "id=null s=null t=null"), (r#"{"id":1,"ID":2}"#, "id=1 s=null t=null"),
        (r#"{"ID":2,"id":1}"#, "id=1 s=null t=null"), (r#"{"s":{"a":1},"s":{"b":2}}"#, "id=null s={a:null,b:2} t=null"), (r#"{"s":{"a":1,"a":2,"b":3}}"#, "id=null s={a:2,b:3} t=null"),
        (r#"{"s":1,"s":{"a":1}}"#, "id=null s={a:1,b:null} t=null"), (r#"{"s":{"a":1},"s":null}"#, "id=null s=null t=null"),
        (r#"{"x":1,"x":2,"id":1}"#, "id=1 s=null t=null"), (r#"{"t":{"x":1,"x":2}}"#, r#"id=null s=null t="{\"x\":1,\"x\":2}""#),
        (r#"{"t":{"x":1,"x":2},"id":1,"id":2}"#, r#"id=2 s=null t="{\"x\":1,\"x\":2}""#),
        (" {\t\"id\" :\r\n1 ,\"t\" : \"x\" } \n", r#"id=1 s=null t="x""#), ("{}", "id=null s=null t=null"),
    ];
    for (message, expected) in cases {
        let decoded = decode(&schema, &[], &[message]);
        assert_eq!(decoded.bad, [], "{message}");
        assert_eq!(rows(&decoded.batch), [expected], "{message}");
    }
    let long = "x".repeat(200);
    let special = ["a.b", "a b", "a-b", "ñ", "_id", "a\"b", "", &long];
    let schema = table(special.iter().map(|name| column(name, DataType::Int64)).collect());
    let pairs: Vec<String> = special
        .iter()
        .enumerate()
        .map(|(at, name)| format!("{}:{at}", serde_json::to_string(name).expect("text")))
        .collect();
    let decoded = decode(&schema, &[], &[format!("{{{}}}", pairs.join(",")).as_str(); 2]);
    let expected: Vec<String> = special.iter().enumerate().map(|(at, name)| format!("{name}={at}")).collect();
    assert_eq!(rows(&decoded.batch), [expected.join(" "), expected.join(" ")]);
}

#[test]
fn tombstones_and_unknown_fields_are_counted() {
    let mut input = records([br#"{"id":1,"x":1,"y":{"z":2}}"#.as_slice(), br#"{"x":2,"id":2}"#]);
    input.push(200, 0, TimestampType::NotAvailable, None);
    input.push(201, 0, TimestampType::NotAvailable, Some(br#"{"id":3,"n":{"q":1}}"#));
    input.push(202, 0, TimestampType::NotAvailable, None);
    input.push(203, 0, TimestampType::NotAvailable, Some(b"oops"));
    input.push(204, 0, TimestampType::NotAvailable, Some(br#"{"id":4}"#));
    let schema = table(vec![column("id", DataType::Int64), column("n", structure(vec![column("p", DataType::Int64)]))]);
    let mut decoder = decoder(&schema, &[]);
    for _ in 0..2 {
        let decoded = decoder.decode(&input);
        assert_eq!(rows(&decoded.batch), ["id=1 n=null", "id=2 n=null", "id=3 n={p:null}", "id=4 n=null"]);
        assert_eq!((decoded.tombstones, decoded.bad.len()), (2, 1));
        assert_eq!((0..4).map(|row| decoded.entry_of(row)).collect::<Vec<_>>(), [0, 1, 3, 6]);
        let told = |path: &str, count| UnknownField { path: Some(path.to_owned()), count };
        assert_eq!(decoder.take_unknown_fields(), [told("x", 2), told("y", 1), told("n.q", 1)]);
        decoder.recycle(decoded.batch);
    }
    assert_eq!(decoder.take_unknown_fields(), []);
}

#[test]
fn names_beyond_those_told_apart_are_still_checked() {
    let many: Vec<String> = (0..100).map(|n| format!("\"x{n}\":{n}")).collect();
    let mut decoder = decoder(&names(), &[]);
    let all = format!("{{{},\"id\":7}}", many.join(","));
    assert_eq!(rows(&decoder.decode(&records([all.as_bytes()])).batch), ["id=7 name=null"]);
    let fields = decoder.take_unknown_fields();
    assert_eq!((fields.len(), fields[64].clone()), (65, UnknownField { path: None, count: 36 }));
    #[rustfmt::skip]
    let cases = [(r#"{"x99":1,}"#, false), (r#"{"x99":1}"#, true), (r#"{"x99":1,"x98":2,"id":1}"#, true), (r#"{"x99"}"#, false), (r#"{"x99":1,"x99"}"#, false)];
    for (message, good) in cases {
        assert_eq!(decoder.decode(&records([message.as_bytes()])).bad.is_empty(), good, "{message}");
    }
}

#[test]
fn tables_of_many_columns() {
    let schema = table((0..130).map(|n| column(&format!("c{n}"), DataType::Int64)).collect());
    let all: Vec<String> = (0..130).map(|n| format!("\"c{n}\":{n}")).collect();
    let messages = [
        format!("{{{}}}", all.join(",")),
        r#"{"c129":1,"c3":2}"#.to_owned(),
        r#"{"c129":1,"c129":2,"c64":1}"#.to_owned(),
        "{}".to_owned(),
    ];
    let input = messages.each_ref().map(String::as_bytes);
    let decoded = decoder(&schema, &["c128: kafka.offset", "c63: c129"]).decode(&records(input));
    let cell = |row: usize, column: usize| show(decoded.batch.column(column), row);
    assert_eq!(
        (decoded.bad.len(), cell(0, 100), cell(0, 128), cell(0, 63)),
        (0, "100".into(), "100".into(), "129".into())
    );
    assert_eq!(
        (cell(1, 129), cell(1, 3), cell(1, 128), cell(1, 63), cell(1, 64)),
        ("1".into(), "2".into(), "101".into(), "1".into(), "null".into())
    );
    assert_eq!((cell(2, 129), cell(2, 64), cell(2, 63)), ("2".into(), "1".into(), "2".into()));
    assert_eq!((cell(3, 128), cell(3, 129)), ("103".into(), "null".into()));
}

#[test]
fn large_messages() {
    let text = "x".repeat(30_000_000); // P56
    let decoded = decode(&names(), &[], &[&format!("{{\"id\":1,\"name\":\"{text}\"}}"), r#"{"id":2}"#]);
    assert_eq!(decoded.batch.num_rows(), 2);
    assert_eq!(decoded.batch.column(1).as_string::<i32>().value(0).len(), text.len());
}

#[test]
fn a_recycled_batch_leaves_nothing_behind() {
    let schema = table(vec![
        column("n", DataType::Int64),
        column("t", DataType::Utf8),
        column("s", structure(vec![column("u", DataType::Utf8)])),
    ]);
    let mut decoder = decoder(&schema, &[]);
    let first = decoder.decode(&records([br#"{"n":1,"t":"one","s":{"u":"two"}}"#.as_slice()])).batch;
    let memory = first.column(1).to_data().buffers()[1].as_ptr();
    decoder.recycle(first);
    assert!(decoder.memory_bytes() > 0, "memory came back");
    let second = decoder.decode(&records([br#"{"t":"y"}"#.as_slice()])).batch;
    assert_eq!(rows(&second), [r#"n=null t="y" s=null"#]);
    assert_eq!(second.column(1).to_data().buffers()[1].as_ptr(), memory, "the same memory again");
    let shared = second.clone();
    decoder.recycle(second);
    let _third = decoder.decode(&records([br#"{"t":"z"}"#.as_slice()]));
    assert_eq!(rows(&shared), [r#"n=null t="y" s=null"#], "a batch still read is left alone");
}

#[test]
fn schemas_are_inferred() {
    fn seen(messages: &[&str]) -> String {
        let schema = match infer(messages.iter().map(|message| message.as_bytes())) {
            Ok(schema) => schema,
            Err(error) => return error.to_string(),
        };
        fn show(data_type: &DataType) -> String {
            match data_type {
                DataType::Struct(fields) => fields
                    .iter()
                    .map(|field| format!("{}:{}", field.name(), show(field.data_type())))
                    .collect::<Vec<_>>()
                    .join(" "),
                DataType::List(element) => format!("[{}]", show(element.data_type())),
                other => other.to_string(),
            }
        }
        show(&DataType::Struct(schema.fields))
    }
    #[rustfmt::skip]
    let cases: [(&[&str], &str); 8] = [
        (&[r#"{"b":1,"a":"x","c":true,"d":1.5,"e":{"f":1},"g":[1,null]}"#], "b:Int64 a:Utf8 c:Boolean d:Float64 e:f:Int64 g:[Int64]"),
        (&[r#"{"n":1}"#, r#"{"m":null,"n":2.0}"#, r#"{"m":1}"#], "n:Float64 m:Int64"),
        (&[r#"{"f":1}"#, r#"{"f":[1]}"#, r#"{"f":true}"#], "f:Utf8"),
        (&[r#"{"id":1,"arm":{}}"#, r#"{"arm":{"a":1}}"#], "id:Int64 arm:a:Int64"),
        (&[r#"{"id":1,"x":null,"y":[],"z":{}}"#], "id:Int64"),
        (&[r#"{"id":1,"ID":"x"}"#, r#"{"Id":2}"#, "oops", "[1]"], "id:Int64"),
        (&[r#"{"id":9223372036854775808}"#, r#"{"id":1}"#], "id:Utf8"),
        (&["1", "{}"], "none of the 2 messages seen is a JSON object with a value in it; give the schema with --schema FILE"),
    ];
    for (messages, expected) in cases {
        assert_eq!(seen(messages), expected, "{messages:?}");
    }
}

#[test]
fn decoders_move_between_threads() {
    fn sends<T: Send>() {}
    sends::<Decoder>();
    sends::<Decoded>();
}
