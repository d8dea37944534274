//! Mutated messages: never laxer than `serde_json`, and no value differs from what the reference makes of it.
//!
//! Each seed of the corpus is also decoded as it is, in a batch between good neighbours.

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;

/// Bytes worth putting anywhere in JSON.
const TOKENS: [&[u8]; 44] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\\"",
    b"\\u00e9",
    b"\\ud800",
    b"\\udc00",
    b"\\ud83d\\ude00",
    b"\\x",
    b"\0",
    b"\x1f",
    b"\x7f",
    b"\xff",
    b"\xc3",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b" ",
    b"\n",
    b"\x0b",
    b"0",
    b"01",
    b"-",
    b"-0",
    b"1.",
    b".5",
    b"e",
    b"1e5",
    b"e400",
    b"E-400",
    b"null",
    b"nul",
    b"true",
    b"false",
    b"NaN",
    b"123456789012345678901234567890",
    b"\"id\":1,",
    b"\"\":0",
    b"//",
];

fn all_types() -> SchemaRef {
    let pair = structure(vec![
        column("id", DataType::Int64),
        not_null("name", DataType::Utf8),
        column("tags", array_of(column("element", DataType::Utf8))),
    ]);
    table(vec![
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
        column("amt", DataType::Decimal128(10, 2)),
        column("date", DataType::Date32),
        column("raw", DataType::Binary),
        column("pair", pair.clone()),
        column("pairs", array_of(column("element", pair))),
        column("map", map_of(DataType::Utf8, column("value", DataType::Int64))),
        column(
            "deep",
            array_of(column(
                "element",
                map_of(DataType::Int32, column("value", array_of(not_null("element", DataType::Float64)))),
            )),
        ),
    ])
}

fn corpus() -> Vec<Vec<u8>> {
    let lines = [
        include_str!("../../corpus/types.jsonl"),
        include_str!("../../corpus/web.jsonl"),
        include_str!("../../corpus/odd.jsonl"),
    ];
    lines.iter().flat_map(|lines| lines.lines()).map(|line| line.as_bytes().to_vec()).collect()
}

/// Changes a few bytes: flips, cuts, repeats, splices, tokens.
fn mutate(message: &mut Vec<u8>, other: &[u8], random: &mut SmallRng) {
    for _ in 0..random.random_range(1..3) {
        let at = random.random_range(0..=message.len());
        let end = random.random_range(at..=message.len().min(at + 12));
        match random.random_range(0..10) {
            0 if at < message.len() => message[at] ^= 1 << random.random_range(0..8),
            1 if at < message.len() => message[at] = random.random_range(0..=255),
            2 => drop(message.drain(at..end)),
            3 => {
                let piece = message[at..end].to_vec();
                drop(message.splice(at..at, piece));
            }
            4 => {
                let from = random.random_range(0..=other.len());
                let piece = other[from..other.len().min(from + 20)].to_vec();
                drop(message.splice(at..end, piece));
            }
            5 => message.truncate(at),
            // Another digit, or letter, from the next one on: mostly still a good message.
            6..8 => {
                if let Some(byte) = message[at..].iter_mut().find(|byte| byte.is_ascii_alphanumeric()) {
                    *byte = b"0123456789abcdefTZ"[random.random_range(0..18)];
                }
            }
            _ => {
                let token = TOKENS[random.random_range(0..TOKENS.len())];
                drop(message.splice(at..end, token.iter().copied()));
            }
        }
    }
}

const GOOD: &[u8] = br#"{"id":1,"name":"good","pair":{"name":"x"},"deep":[{"1":[1]}]}"#;

/// Decodes `message` between two good ones; its row as the decoder and as the reference have it.
fn compare(decoder: &mut Decoder, good: &[u8], message: &[u8], shown: &str) -> bool {
    let decoded = decoder.decode(&records([good, message, good]));
    let expected = reference::row(message, decoder.schema().fields());
    let got = rows(&decoded.batch);
    let neighbours = reference::row(good, decoder.schema().fields()).expect("good");
    let text = String::from_utf8_lossy(message).into_owned();
    assert_eq!((got.first(), got.last()), (Some(&neighbours), Some(&neighbours)), "{shown}: {text}");
    assert_eq!(got.get(1).filter(|_| got.len() == 3), expected.as_ref(), "{shown}: {:?} {text}", decoded.bad);
    expected.is_some()
}

#[test]
fn mutants_are_judged_as_serde_json_judges_them() {
    const MUTANTS: usize = 60_000;
    let seed: u64 = 20_261_130;
    let mut random = SmallRng::seed_from_u64(seed);
    let corpus = corpus();
    let mut decoder = decoder(&all_types(), &[]);
    for message in &corpus {
        compare(&mut decoder, GOOD, message, "corpus");
    }
    let mut good = 0;
    for round in 0..MUTANTS {
        let mut message = corpus[random.random_range(0..corpus.len())].clone();
        let other = &corpus[random.random_range(0..corpus.len())];
        mutate(&mut message, other, &mut random);
        good += usize::from(compare(&mut decoder, GOOD, &message, &format!("seed {seed}, round {round}")));
    }
    assert!((MUTANTS / 20..MUTANTS).contains(&good), "some are still good: {good}");
}

#[test]
fn mutants_of_a_learnt_shape_are_judged_as_serde_json_judges_them() {
    const MUTANTS: usize = 60_000;
    let seed: u64 = 20_261_201;
    let mut random = SmallRng::seed_from_u64(seed);
    let corpus = corpus();
    let base = learnt::BASE.as_bytes();
    let mut decoder = decoder(&learnt::schema(), &[]);
    let mut good = 0;
    for round in 0..MUTANTS {
        let mut message = base.to_vec();
        let other = &corpus[random.random_range(0..corpus.len())];
        mutate(&mut message, other, &mut random);
        good += usize::from(compare(&mut decoder, base, &message, &format!("seed {seed}, round {round}")));
    }
    let (rows, _) = decoder.by_shape();
    assert!((MUTANTS / 20..MUTANTS).contains(&good), "some are still good: {good}");
    assert!(
        rows > 2 * MUTANTS + good / 3,
        "their shape takes the neighbours, and many of the good ones: {rows}, {good}"
    );
}
