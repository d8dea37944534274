//! Transforms: cases, and the compiled ones against JMESPath itself.

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;
use crate::{BadKind, PlanError, TransformError};

fn wide() -> SchemaRef {
    let kafka = structure(vec![column("offset", DataType::Int64), column("topic", DataType::Utf8)]);
    table(vec![
        column("id", DataType::Int64),
        column("date", DataType::Utf8),
        column("day", DataType::Date32),
        column("ts", timestamp()),
        column("meta", structure(vec![column("time", DataType::Utf8), column("kafka", kafka)])),
        column("n", DataType::Int32),
    ])
}

#[track_caller]
fn check_row(transforms: &[&str], message: &str, expected: &str) {
    let decoded = decode(&wide(), transforms, &[message]);
    let got = match decoded.bad.first() {
        Some(bad) => format!("!{} {}", bad.kind, bad.detail),
        None => rows(&decoded.batch).remove(0),
    };
    let got = got
        .replace("date=null ", "")
        .replace("day=null ", "")
        .replace("ts=null ", "")
        .replace("meta=null ", "")
        .replace(" n=null", "");
    assert_eq!(got, expected, "{transforms:?} on {message}");
}

#[test]
fn transforms_set_columns() {
    check_row(
        &["date: substr(modified,`0`,`10`)"],
        r#"{"id":1,"modified":"2021-11-11T22:11:58Z"}"#,
        r#"id=1 date="2021-11-11""#,
    );
    check_row(
        &["day: substr(meta.time, `0`, `10`)"],
        r#"{"meta":{"time":"2021-11-11T22:11:58Z"}}"#,
        r#"id=null day=18942 meta={time:"2021-11-11T22:11:58Z",kafka:null}"#,
    );
    // K40
    check_row(
        &["id: kafka.offset", "n: kafka.partition", "date: kafka.topic", "ts: kafka.timestamp"],
        r#"{"id":"replaced"}"#,
        r#"id=100 date="web" ts=1626823098519000 n=3"#,
    );
    check_row(&["n: kafka.timestamp_type", "date: kafka.offset"], "{}", r#"id=null date="100" n=0"#);
    // K41
    for source in ["seconds", "fraction", "to_number(text)"] {
        check_row(
            &[&format!("date: epoch_seconds_to_iso8601({source})")],
            r#"{"seconds":1626823098,"fraction":1626823098.51995,"text":"1626823098"}"#,
            r#"id=null date="2021-07-20T23:18:18Z""#,
        );
    }
    check_row(&["ts: epoch_millis_to_micro(t)"], r#"{"t":1732279537028}"#, "id=null ts=1732279537028000");
    check_row(
        &["date: epoch_millis_to_iso8601(t)"],
        r#"{"t":1626823098519}"#,
        r#"id=null date="2021-07-20T23:18:18.519Z""#,
    );
    check_row(
        &["date: substr(epoch_micros_to_iso8601(t),`0`,`10`)"],
        r#"{"t":1626823098519000}"#,
        r#"id=null date="2021-07-20""#,
    );
    // K43: the message as it came, in any order
    check_row(&["n: id", "date: n"], r#"{"id":1}"#, "id=1 n=1");
    check_row(&["date: n", "n: id"], r#"{"id":1}"#, "id=1 n=1");
    // null changes nothing
    check_row(&["date: x"], r#"{"date":"kept"}"#, r#"id=null date="kept""#);
    check_row(&["date: x"], r#"{"date":"kept","x":null}"#, r#"id=null date="kept""#);
    check_row(&["date: x"], r#"{"date":"lost","x":{"b":1,"a":2}}"#, r#"id=null date="{\"a\":2,\"b\":1}""#);
    // dotted targets nest
    for meta in ["", r#""meta":null"#, r#""meta":5"#, r#""meta":{}"#, r#""meta":{"kafka":7}"#] {
        check_row(
            &["meta.kafka.offset: kafka.offset"],
            &format!("{{{meta}}}"),
            "id=null meta={time:null,kafka:{offset:100,topic:null}}",
        );
    }
    check_row(
        &["meta.kafka.offset: kafka.offset", "meta.kafka.topic: kafka.topic"],
        r#"{"id":1,"meta":{"time":"x","kafka":{"topic":"own","offset":1}}}"#,
        r#"id=1 meta={time:"x",kafka:{offset:100,topic:"web"}}"#,
    );
    check_row(
        &["meta.time: a", "meta: b"],
        r#"{"a":"x","b":{"kafka":{"offset":1}}}"#,
        "id=null meta={time:null,kafka:{offset:1,topic:null}}",
    );
    check_row(
        &["meta: b", "meta.time: a"],
        r#"{"a":"x","b":{"kafka":{"offset":1}}}"#,
        r#"id=null meta={time:"x",kafka:{offset:1,topic:null}}"#,
    );
}

#[test]
fn a_failing_transform_sets_the_message_aside() {
    // K38
    let missing = "!transform transform 'date': Runtime error: Argument 0 expects type string, given null";
    check_row(&["date: substr(modified,`0`,`10`)"], r#"{"id":1}"#, missing);
    check_row(&["date: substr(modified,`0`,`10`)"], r#"{"id":1,"modified":5}"#, &missing.replace("null", "number"));
    let far = "!transform transform 'date': Parse error: a time out of the years 0 to 9999";
    check_row(&["date: epoch_seconds_to_iso8601(t)"], r#"{"t":9223372036854775807}"#, far);
    check_row(&["date: epoch_seconds_to_iso8601(t)"], r#"{"t":1e300}"#, far);
    check_row(&["n: x"], r#"{"x":3000000000}"#, "!does_not_fit n: 3000000000 is out of the range of type int");
    check_row(&["day: substr(x,`0`,`3`)"], r#"{"x":"abcdef"}"#, "!wrong_type day: 'abc' is no date");
    // P34
    let schema = wide();
    let mut records = Records::new(PartitionId(0), Offset::ZERO);
    for (at, millis) in [1_700_000_000_000_000, i64::MAX, i64::MIN, -1].into_iter().enumerate() {
        records.push(at as i64, millis, TimestampType::LogAppendTime, Some(b"{}"));
    }
    records.push(4, i64::MAX, TimestampType::NotAvailable, Some(b"{}"));
    let decoded = decoder(&schema, &["ts: kafka.timestamp"]).decode(&records);
    let stamps: Vec<String> = (0..3).map(|row| show(decoded.batch.column(3), row)).collect();
    assert_eq!(stamps, ["1700000000000000000", "-1000", "null"]);
    assert_eq!(
        decoded.bad.iter().map(|bad| (bad.entry, bad.kind)).collect::<Vec<_>>(),
        [(1, BadKind::Transform), (2, BadKind::Transform)]
    );
}

#[test]
fn not_null_is_judged_after_the_transforms() {
    let inner = structure(vec![not_null("a", DataType::Int64), not_null("b", DataType::Int64)]);
    let schema = table(vec![not_null("offset", DataType::Int64), column("s", inner)]);
    let transforms = ["offset: kafka.offset", "s.a: kafka.offset"];
    let decoded = decode(&schema, &transforms, &["{}", r#"{"offset":null,"s":{"b":1}}"#, r#"{"s":{"a":null,"b":2}}"#]);
    assert_eq!(rows(&decoded.batch), ["offset=101 s={a:101,b:1}", "offset=102 s={a:102,b:2}"]);
    assert_eq!(decoded.bad[0].detail, "s.b: it is missing, and the column is NOT NULL");
}

#[test]
fn transforms_are_read_or_refused_with_a_place() {
    let error = |text: &str| Transforms::parse(&[text]).expect_err(text);
    assert!(matches!(error("nothing"), TransformError::Form { .. }));
    assert!(matches!(error(": a"), TransformError::Form { .. }));
    assert!(matches!(error("a:"), TransformError::Form { .. }));
    let TransformError::Expression { position, .. } = error("date: substr(a,") else { panic!("an expression") };
    assert_eq!(position, 10);
    let TransformError::Function { position, function, .. } = error("date: length(nope(a))") else {
        panic!("a function")
    };
    assert_eq!((position, function.as_str()), (12, "nope"));
    assert!(matches!(Transforms::parse(&["a: b", "a: c"]), Err(TransformError::Twice { .. })));
    assert!(Transforms::parse::<&str>(&[]).expect("none").is_empty()); // K44
    let transforms =
        Transforms::parse(&["_kafka_offset: kafka.offset", "meta.x: id", "date : id"]).expect("transforms");
    let decoder = Decoder::new(&wide(), "web", &transforms).expect("a plan");
    assert_eq!(decoder.unplaced_transforms(), ["_kafka_offset", "meta.x"]);
    let transforms = Transforms::parse(&["date.x: id"]).expect("transforms");
    assert!(matches!(Decoder::new(&wide(), "web", &transforms), Err(PlanError::Target { .. })));
}

/// A message with the fields that the property's transforms look at, in odd shapes.
fn random_message(random: &mut SmallRng) -> String {
    const SCALARS: [&str; 20] = [
        "null",
        "true",
        "0",
        "-0",
        "7",
        "1626823098",
        "1626823098519",
        "1626823098519000",
        "1.5",
        "-12e1",
        "123456789012345678901",
        "{}",
        "[1]",
        r#""""#,
        r#""x""#,
        r#""2021-11-11T22:11:58Z""#,
        r#""ééé ééé ééé ééé""#,
        r#""a\u0062c\n2345678901""#,
        r#""\ud83d\ude00😀""#,
        r#"{"b":"q"}"#,
    ];
    const KEYS: [&str; 10] = ["id", "date", "day", "ts", "meta", "n", "a", "a", "b", "t"];
    let mut members = Vec::new();
    for _ in 0..random.random_range(0..6) {
        let key = KEYS[random.random_range(0..KEYS.len())];
        let scalar = |random: &mut SmallRng| SCALARS[random.random_range(0..SCALARS.len())].to_owned();
        let value = match random.random_range(0..4) {
            0 => format!(r#"{{"time":{},"b":{}}}"#, scalar(random), scalar(random)),
            1 => format!(r#"{{"b":{{"c":{}}}}}"#, scalar(random)),
            _ => scalar(random),
        };
        members.push(format!("\"{key}\":{value}"));
    }
    format!("{{{}}}", members.join(","))
}

#[test]
fn compiled_transforms_do_what_jmespath_does() {
    const SETS: [&[&str]; 8] = [
        &["date: a"],
        &["date: substr(a, `0`, `10`)", "id: kafka.offset"],
        &["date: substr(meta.time, `1`, `2`)", "n: b"],
        &["date: a.b.c", "meta.time: b"],
        &["ts: epoch_millis_to_micro(t)", "meta.kafka.topic: kafka.topic", "meta.kafka.offset: a.b"],
        &["date: epoch_seconds_to_iso8601(t)", "day: substr(epoch_micros_to_iso8601(a), `0`, `10`)"],
        &["meta: a", "date: meta.b"],
        &["date: substr(substr(a, `1`, `9`), `2`, `1`)", "ts: epoch_micros_to_iso8601(b)", "n: meta.time"],
    ];
    let seed: u64 = 0x1a4e;
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut good, mut bad) = (0, 0);
    for round in 0..20_000 {
        let set = SETS[round % SETS.len()];
        let message = random_message(&mut random);
        let input = records([message.as_bytes()]);
        let fast = decoder(&wide(), set).decode(&input);
        let slow = decoder(&wide(), set).always_slow().decode(&input);
        let shown = format!("seed {seed}, round {round}: {set:?} on {message}");
        assert_eq!(rows(&fast.batch), rows(&slow.batch), "{shown}\n{:?}\n{:?}", fast.bad, slow.bad);
        assert_eq!(fast.bad.len(), slow.bad.len(), "{shown}");
        good += fast.batch.num_rows();
        bad += fast.bad.len();
    }
    assert!(good > 2000 && bad > 2000, "both happen: {good} good, {bad} bad");
}
