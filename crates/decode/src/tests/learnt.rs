//! Messages of learnt shapes: the same rows, verdicts and counts as without shapes, whatever comes in between.

use super::*;

pub(super) const BASE: &str = concat!(
    r#"{"meta":{"producer":{"timestamp":"2021-03-24T15:06:17.321710+00:00","n":5}},"id":12,"name":"é x","b":-128,"s":7,"#,
    r#""n":-2147483648,"f":1.5,"d":2.5e-10,"ok":true,"ts":"2021-11-11T22:11:58Z","local":1636668718000000,"#,
    r#""day":"2021-11-11","extra":[1,{"y":null}],"pair":{"id":7,"name":"in","more":"x\n"},"gone":null,"note":"a"}"#
);

const TRANSFORMS: [&str; 7] = [
    "date: substr(meta.producer.timestamp, `0`, `10`)",
    "meta.kafka.offset: kafka.offset",
    "meta.kafka.partition: kafka.partition",
    "meta.kafka.topic: kafka.topic",
    "meta.kafka.time: kafka.timestamp",
    "copy: note",
    "sent: epoch_millis_to_micro(meta.producer.n)",
];

pub(super) fn schema() -> SchemaRef {
    let kafka = structure(vec![
        not_null("offset", DataType::Int64),
        column("partition", DataType::Int32),
        column("topic", DataType::Utf8),
        column("time", timestamp()),
    ]);
    let producer = structure(vec![column("timestamp", DataType::Utf8)]);
    table(vec![
        column("meta", structure(vec![column("kafka", kafka), column("producer", producer)])),
        not_null("id", DataType::Int64),
        column("name", DataType::Utf8),
        column("b", DataType::Int8),
        column("s", DataType::Int16),
        column("n", DataType::Int32),
        column("f", DataType::Float32),
        column("d", DataType::Float64),
        column("ok", DataType::Boolean),
        column("ts", timestamp()),
        column("local", DataType::Timestamp(TimeUnit::Microsecond, None)),
        column("day", DataType::Date32),
        column("raw", DataType::Binary),
        column("pair", structure(vec![column("id", DataType::Int64), not_null("name", DataType::Utf8)])),
        column("gone", structure(vec![column("x", array_of(column("element", DataType::Utf8)))])),
        column("date", DataType::Utf8),
        column("copy", DataType::Utf8),
        column("sent", timestamp()),
    ])
}

/// Decodes by shapes, the usual way and the slow way, and holds them together. How many rows were made by shapes.
fn check_ways(transforms: &[&str], messages: &[&[u8]], shown: &str) -> usize {
    let input = records(messages.iter().copied());
    let mut learns = decoder(&schema(), transforms);
    let mut usual = decoder(&schema(), transforms).without_shapes();
    let (by_shape, expected) = (learns.decode(&input), usual.decode(&input));
    assert_eq!(rows(&by_shape.batch), rows(&expected.batch), "{shown}\n{:?}", expected.bad);
    assert_eq!(by_shape.bad, expected.bad, "{shown}");
    assert_eq!(by_shape.tombstones, expected.tombstones, "{shown}");
    let entries =
        |decoded: &Decoded| (0..decoded.batch.num_rows()).map(|row| decoded.entry_of(row)).collect::<Vec<_>>();
    assert_eq!(entries(&by_shape), entries(&expected), "{shown}");
    assert_eq!(learns.take_unknown_fields(), usual.take_unknown_fields(), "{shown}");
    let slow = decoder(&schema(), transforms).always_slow().decode(&input);
    assert_eq!(rows(&by_shape.batch), rows(&slow.batch), "{shown}\n{:?}", slow.bad);
    assert_eq!(by_shape.bad.len(), slow.bad.len(), "{shown}");
    assert_eq!(usual.by_shape(), (0, 0));
    learns.by_shape().0
}

fn base_with(from: &str, to: &str) -> String {
    assert!(BASE.contains(from), "{from}");
    BASE.replace(from, to)
}

#[test]
fn a_learnt_shape_makes_the_rows_that_the_usual_way_makes() {
    let values: Vec<String> = (0..300)
        .map(|n| {
            base_with(r#""id":12,"#, &format!(r#""id":{n},"#)).replace("\"in\"", &format!("\"{}\"", "é".repeat(n)))
        })
        .collect();
    let messages: Vec<&[u8]> = values.iter().map(|message| message.as_bytes()).collect();
    assert_eq!(check_ways(&TRANSFORMS, &messages, "all alike"), 299);
    assert_eq!(check_ways(&[], &messages, "without transforms"), 299);
    let expected = r#"meta={kafka:{offset:100,partition:3,topic:"web",time:1626823098519000},producer:{timestamp:"2021-03-24T15:06:17.321710+00:00"}} id=12 name="é x" b=-128 s=7 n=-2147483648 f=1.5 d=2.5e-10 ok=true ts=1636668718000000 local=1636668718000000 day=18942 raw=null pair={id:7,name:"in"} gone=null date="2021-03-24" copy="a" sent=5000"#;
    let decoded = decode(&schema(), &TRANSFORMS, &[BASE, BASE, BASE]);
    let expected: Vec<String> =
        [100, 101, 102].map(|offset| expected.replace("offset:100", &format!("offset:{offset}"))).into();
    assert_eq!(rows(&decoded.batch), expected);
}

#[test]
fn what_is_not_quite_of_the_shape_goes_the_usual_way() {
    let base = BASE.as_bytes();
    #[rustfmt::skip] // what of the message, by what it is replaced, whether a shape takes it
    let cases = [
        (r#""id":12,"name":"é x""#, r#""name":"é x","id":12"#, false), (r#""name":"é x""#, r#""name":7"#, false), (r#""id":12"#, r#""id":"12""#, false),
        (r#""name":"é x""#, r#""name":"a\"b""#, false), (r#""name":"é x""#, r#""name":"a\\b""#, false), (r#""name":"é x""#, r#""name":"\u0041""#, false), (r#""name":"é x""#, r#""name":"a\qb""#, false),
        (r#""name":"é x""#, r#""name":null"#, true), (r#""name":"é x""#, r#""name":nul"#, false), (r#""name":"é x""#, r#""name":nulls"#, false), (r#""name":"é x""#, "\"name\":\"a\nb\"", false),
        (r#""id":12"#, r#""id":null"#, false), (r#""id":12"#, r#""id":012"#, false), (r#""id":12"#, r#""id":-0"#, false), (r#""id":12"#, r#""id":12.0"#, false), (r#""id":12"#, r#""id":12.5"#, false), (r#""id":12"#, r#""id":12e1"#, false),
        (r#""id":12"#, r#""id":9223372036854775807"#, false), (r#""id":12"#, r#""id":9223372036854775808"#, false), (r#""id":12"#, r#""id":-999999999999999999"#, true), (r#""id":12"#, r#""id": 12"#, false), (r#""id":12"#, r#""id":12 "#, false),
        (r#""id":12"#, r#""id":12,"id":13"#, false), (r#""id":12"#, r#""id":12,"s":3"#, false), (r#""id":12,"#, "", false), (r#","note":"a""#, "", false), (r#","note":"a""#, r#","note":"a","note":"b""#, false),
        (r#""b":-128"#, r#""b":-129"#, false), (r#""b":-128"#, r#""b":127"#, true), (r#""b":-128"#, r#""b":128"#, false), (r#""s":7"#, r#""s":-32769"#, false), (r#""n":-2147483648"#, r#""n":-2147483649"#, false), (r#""n":-2147483648"#, r#""n":null"#, true),
        (r#""f":1.5"#, r#""f":16777217"#, true), (r#""f":1.5"#, r#""f":9007199791611905"#, true), (r#""f":1.5"#, r#""f":1e39"#, false), (r#""f":1.5"#, r#""f":-0"#, true), (r#""f":1.5"#, r#""f":1."#, false), (r#""f":1.5"#, r#""f":null"#, true),
        (r#""d":2.5e-10"#, r#""d":-0"#, true), (r#""d":2.5e-10"#, r#""d":9007199254740993"#, true), (r#""d":2.5e-10"#, r#""d":1e309"#, false), (r#""d":2.5e-10"#, r#""d":01"#, false), (r#""d":2.5e-10"#, r#""d":"1""#, false), (r#""d":2.5e-10"#, r#""d":NaN"#, false),
        (r#""ok":true"#, r#""ok":false"#, true), (r#""ok":true"#, r#""ok":null"#, true), (r#""ok":true"#, r#""ok":1"#, false), (r#""ok":true"#, r#""ok":tru"#, false), (r#""ok":true"#, r#""ok":truer"#, false),
        (r#""2021-11-11T22:11:58Z""#, r#""2021-11-11T22:11:58+05:30""#, true), (r#""2021-11-11T22:11:58Z""#, r#""2021-11-11T22:11:61Z""#, false), (r#""2021-11-11T22:11:58Z""#, "null", true), (r#""2021-11-11T22:11:58Z""#, "7", false),
        (r#""day":"2021-11-11""#, r#""day":"2021-02-29""#, false), (r#""day":"2021-11-11""#, r#""day":"2021-11-12T00:00:00Z""#, true), (r#""local":1636668718000000"#, r#""local":"2021-11-11""#, false),
        (r#"[1,{"y":null}]"#, r#"{"a":[[]]}"#, true), (r#"[1,{"y":null}]"#, "[1,{]", false), (r#"[1,{"y":null}]"#, "[01]", false), (r#"[1,{"y":null}]"#, r#""\ud800""#, false), (r#"[1,{"y":null}]"#, r#""\u00e9""#, true), (r#"[1,{"y":null}]"#, "1e999", false), (r#"[1,{"y":null}]"#, "", false),
        (r#""pair":{"id":7,"name":"in","more":"x\n"}"#, r#""pair":null"#, false), (r#"{"id":7,"name":"in""#, r#"{"id":7,"name":null"#, false), (r#"{"id":7,"name":"in""#, r#"{"name":"in","id":7"#, false), (r#"{"id":7,"name":"in""#, r#"{"id":null,"name":"in""#, true),
        (r#""gone":null"#, r#""gone":{}"#, false), (r#""gone":null"#, r#""gone":{"x":["y"]}"#, false), (r#""gone":null"#, r#""gone":7"#, false),
        (r#""note":"a""#, r#""note":null"#, false), (r#""note":"a""#, r#""note":7"#, false), (r#""note":"a""#, r#""note":"日本""#, true), (r#""n":5}"#, r#""n":9223372036854776}"#, false), (r#""n":5}"#, r#""n":"5"}"#, false), (r#""n":5}"#, r#""n":5,"n":6}"#, false),
        (r#""2021-03-24T15:06:17.321710+00:00""#, r#""""#, true), (r#""2021-03-24T15:06:17.321710+00:00""#, r#""ééé日本語日本語日本語""#, true), (r#""2021-03-24T15:06:17.321710+00:00""#, "null", false), (r#""2021-03-24T15:06:17.321710+00:00""#, r#""2021-\u0030""#, false),
        (r#""note":"a"}"#, r#""note":"a"} "#, false), (r#""note":"a"}"#, r#""note":"a"}}"#, false), (r#""note":"a"}"#, r#""note":"a""#, false), (r#"{"meta""#, r#" {"meta""#, false), (r#""extra""#, r#""extrb""#, false), (r#""extra":"#, r#""extra" :"#, false),
    ];
    for (from, to, taken) in cases {
        let message = base_with(from, to);
        let shown = format!("{from} -> {to}");
        let made = check_ways(&TRANSFORMS, &[base, base, message.as_bytes(), base], &shown);
        assert_eq!(made, 2 + usize::from(taken), "{shown}");
    }
}

#[test]
fn every_byte_counts() {
    let base = BASE.as_bytes();
    let bytes = b"\0\x1f \n\t\"\\{}[]:,.+-0159eEntfulx/\x7f\x80\xc3\xff";
    let mut batch: Vec<Vec<u8>> = Vec::new();
    let mut rows = 0;
    for at in 0..=base.len() {
        // Cut off there; a byte less; each byte in its place, and before it.
        batch.push(base[..at].to_vec());
        let rest = &base[(at + 1).min(base.len())..];
        batch.push([&base[..at], rest].concat());
        for byte in bytes {
            batch.push([&base[..at], &[*byte], rest].concat());
            batch.push([&base[..at], &[*byte], &base[at..]].concat());
        }
        let messages: Vec<&[u8]> = batch.iter().flat_map(|mutant| [base, base, mutant.as_slice()]).collect();
        rows += check_ways(&TRANSFORMS, &messages, &format!("at byte {at}"));
        batch.clear();
    }
    assert!(rows > base.len() * bytes.len() * 2, "most neighbours are taken by their shape: {rows}");
}

#[test]
fn records_without_a_usable_timestamp_are_judged_one_by_one() {
    let mut input = Records::new(PartitionId(3), Offset::ZERO);
    #[rustfmt::skip]
    let stamps = [
        (5, TimestampType::CreateTime), (6, TimestampType::CreateTime), (7, TimestampType::NotAvailable), (8, TimestampType::LogAppendTime),
        (i64::MAX, TimestampType::CreateTime), (i64::MAX, TimestampType::NotAvailable), (i64::MIN, TimestampType::LogAppendTime), (-1, TimestampType::CreateTime),
    ];
    for (offset, (millis, kind)) in stamps.into_iter().enumerate() {
        input.push(offset as i64, millis, kind, Some(br#"{"id":1}"#));
    }
    let schema = table(vec![
        column("id", DataType::Int64),
        column("ts", timestamp()),
        column("by", DataType::Int32),
        column("part", DataType::Int64),
    ]);
    let transforms = ["ts: kafka.timestamp", "by: kafka.timestamp_type", "part: kafka.partition"];
    let mut decoder = decoder(&schema, &transforms);
    let decoded = decoder.decode(&input);
    #[rustfmt::skip]
    assert_eq!(rows(&decoded.batch), [
        "id=1 ts=5000 by=0 part=3", "id=1 ts=6000 by=0 part=3", "id=1 ts=null by=-1 part=3", "id=1 ts=8000 by=1 part=3",
        "id=1 ts=null by=-1 part=3", "id=1 ts=-1000 by=0 part=3",
    ]);
    assert_eq!(decoded.bad.iter().map(|bad| bad.entry).collect::<Vec<_>>(), [4, 6]);
    assert_eq!(decoder.by_shape().0, 3);
}

#[test]
fn shapes_take_turns_and_keep_the_order() {
    let name = |n: usize| match n % 5 {
        0 | 1 => format!(r#"{{"id":{n},"name":"n{n}"}}"#),
        2 => format!(r#"{{"name":"n{n}","id":{n},"x":{n}}}"#),
        3 => format!(r#"{{ "id" : {n} }} "#),
        _ => format!(r#"{{"id":{n},"name":"\u0041"}}"#),
    };
    let messages: Vec<String> = (0..400).map(name).collect();
    let messages: Vec<&[u8]> = messages.iter().map(|message| message.as_bytes()).collect();
    assert_eq!(check_ways(&["meta.kafka.offset: kafka.offset"], &messages, "three shapes"), 400 * 4 / 5 - 3);
}

#[test]
fn what_shapes_can_not_do_is_left_to_the_usual_way() {
    let base = BASE.as_bytes();
    let sets: [&[&str]; 9] = [
        &["date: note || name"],
        &["date: epoch_seconds_to_iso8601(id)"],
        &["date: pair"],
        &["date: extra"],
        &["id: kafka.offset"],
        &["n: kafka.offset"],
        &["date: kafka.offset"],
        &["gone.x: note"],
        &["pair: meta", "pair.id: id"],
    ];
    for set in sets {
        assert_eq!(check_ways(set, &[base; 5], &format!("{set:?}")), 0, "{set:?}");
    }
    #[rustfmt::skip]
    let messages = [r#"{"id":1,"raw":"00"}"#, r#"{"id":1,"name":7}"#, r#"{"id":1,"id":1}"#, r#"{"id":"1"}"#, r#"{"id":1,"gone":{"x":[]}}"#, r#"{"id":1,"meta":{"kafka":{"offset":1}}}"#, r#"{"id":1,"meta":null}"#];
    for message in messages {
        let transforms = ["meta.kafka.offset: kafka.offset"];
        assert_eq!(check_ways(&transforms, &[message.as_bytes(); 5], message), 0, "{message}");
    }
    // A path to what is not there sets nothing.
    assert_eq!(check_ways(&["date: nowhere.at.all"], &[base; 5], "nothing"), 4);
}

#[test]
fn batches_near_the_bound_of_a_column_go_the_usual_way() {
    let topic = "t".repeat(1 << 20);
    let schema = table(vec![column("id", DataType::Int64), column("topic", DataType::Utf8)]);
    let transforms = Transforms::parse(&["topic: kafka.topic"]).expect("transforms");
    let mut decoder = Decoder::new(&schema, &topic, &transforms).expect("a plan");
    let input = |messages| records(vec![br#"{"id":1}"#.as_slice(); messages]);
    for (messages, by_shape) in [(3, 2), (257, 2), (3, 5)] {
        let decoded = decoder.decode(&input(messages));
        assert_eq!((decoded.batch.num_rows(), decoder.by_shape().0), (messages, by_shape));
    }
}

/// Messages whose keys come in an order of their own.
fn shapeless(count: usize) -> Vec<String> {
    let order = |n: usize| {
        let mut keys: Vec<usize> = (0..8).collect();
        keys.sort_by_key(|key| (n.wrapping_mul(0x9e37_79b9) >> 3).wrapping_mul(key * 2 + 1) % 257);
        let members: Vec<String> = keys.iter().map(|key| format!("\"k{key}\":{n}")).collect();
        format!("{{\"id\":{n},{}}}", members.join(","))
    };
    (0..count).map(order).collect()
}

#[test]
fn shapes_are_left_alone_where_there_are_none() {
    let mut decoder = decoder(&schema(), &[]);
    let without = shapeless(200_000);
    let _ = decoder.decode(&records(without.iter().map(|message| message.as_bytes())));
    let (_, looked) = decoder.by_shape();
    assert!(looked < 1000, "{looked} of 200000 messages without a shape were compared with one");
    // Arrays are no part of shapes: every attempt to learn one is in vain, and so there are few.
    let mut decoder = self::decoder(&schema(), &[]);
    let lists = vec![br#"{"id":1,"gone":{"x":["y"]}}"#.as_slice(); 200_000];
    let _ = decoder.decode(&records(lists.iter().copied()));
    let (made, looked) = decoder.by_shape();
    assert!(made == 0 && looked < 100, "{looked} attempts");
    // Later messages may have one.
    let alike = vec![BASE.as_bytes(); 70_000];
    let _ = decoder.decode(&records(alike.iter().copied()));
    let (made, _) = decoder.by_shape();
    assert!(made > 1000, "{made} rows by shape after a nap");
    let _ = decoder.decode(&records(alike.iter().copied()));
    assert_eq!(decoder.by_shape().0, made + alike.len(), "awake for good");
}

#[test]
fn bad_messages_do_not_cost_the_shape() {
    let bad = [base_with(r#""id":12"#, r#""id":"x""#), BASE[..100].to_owned(), base_with("{\"meta\"", "\"meta\"")];
    let message = |n: usize| if n % 100 == 99 { bad[n / 100 % 3].as_bytes() } else { BASE.as_bytes() };
    let messages: Vec<&[u8]> = (0..10_000).map(message).collect();
    assert_eq!(check_ways(&TRANSFORMS, &messages, "one in a hundred is bad"), 9_900 - 1);
}
