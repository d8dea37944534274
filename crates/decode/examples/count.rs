//! Decodes a fixed, generated input, so that instructions a message can be counted (the same on a busy machine):
//!
//! ```text
//! cargo build -p lakeward-decode --example count
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!   --toggle-collect='lakeward_decode::decoder::Decoder::decode' target/debug/examples/count 20000
//! ```
//!
//! `Collected` over the number of messages it prints is the figure. `count MESSAGES [BAD]`: one message in `BAD` is bad.
//! With `count MESSAGES BAD ROUNDS` it decodes the same messages several times, for `perf stat` or a stopwatch.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use lakeward_decode::{Decoder, Transforms};
use lakeward_protocol::position::{Offset, PartitionId};
use lakeward_protocol::records::{Records, TimestampType};

const TRANSFORMS: [&str; 4] = [
    "date: substr(meta.producer.timestamp, `0`, `10`)",
    "meta.kafka.offset: kafka.offset",
    "meta.kafka.partition: kafka.partition",
    "meta.kafka.topic: kafka.topic",
];

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("numbers"));
    let messages: u64 = arguments.next().unwrap_or(20_000);
    let bad: u64 = arguments.next().unwrap_or(0);
    let rounds: u64 = arguments.next().unwrap_or(1);
    let records = generate(messages, bad);
    let transforms = Transforms::parse(&TRANSFORMS).expect("transforms");
    let mut decoder = Decoder::new(&Arc::new(schema()), "web_requests", &transforms).expect("a plan");
    let mut rows = 0;
    for _ in 0..rounds {
        for records in &records {
            let decoded = decoder.decode(records);
            rows += decoded.batch.num_rows();
            decoder.recycle(decoded.batch);
        }
    }
    let bytes: usize = records.iter().map(Records::value_bytes).sum();
    println!("{} messages of {} bytes, {rows} rows", messages * rounds, bytes as u64 / messages);
}

fn schema() -> Schema {
    fn text(name: &str) -> Field {
        Field::new(name, DataType::Utf8, true)
    }
    fn part(name: &str, fields: Vec<Field>) -> Field {
        Field::new(name, DataType::Struct(fields.into()), true)
    }
    let producer = part("producer", vec![text("timestamp")]);
    let offset = Field::new("offset", DataType::Int64, true);
    let kafka = part("kafka", vec![offset, text("topic"), Field::new("partition", DataType::Int32, true)]);
    let status = Field::new("status", DataType::Int32, true);
    let meta = part("meta", vec![kafka, producer]);
    Schema::new(vec![meta, text("method"), text("session_id"), status, text("url"), text("uuid"), text("date")])
}

/// Arenas of 4000 messages of a web server's log.
fn generate(messages: u64, bad: u64) -> Vec<Records> {
    let mut state: u64 = 42;
    let mut next = move || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut arenas = Vec::new();
    for number in 0..messages {
        if number % 4000 == 0 {
            let at = Offset::new(i64::try_from(number).expect("few")).expect("an offset");
            arenas.push(Records::new(PartitionId(0), at));
        }
        let mut message = message(number, &mut next);
        if bad > 0 && number % bad == bad - 1 {
            message = match number / bad % 3 {
                0 => message.replace("\"status\":", "\"status\":\"not a number\",\"x\":"),
                1 => message.replace("},\"method\"", ",\"method\""),
                _ => message[..message.len() / 2].to_owned(),
            };
        }
        let arena = arenas.last_mut().expect("one for each 4000");
        arena.push(i64::try_from(number).expect("few"), 0, TimestampType::CreateTime, Some(message.as_bytes()));
    }
    arenas.iter_mut().for_each(Records::pad);
    arenas
}

fn message(number: u64, next: &mut impl FnMut() -> u64) -> String {
    const METHODS: [&str; 5] = ["DELETE", "PUT", "POST", "GET", "HEAD"];
    const STATUS: [u64; 6] = [500, 200, 404, 302, 204, 201];
    const HOSTS: [&str; 6] =
        ["google.co.uk", "stackoverflow.com", "wikipedia.org", "vk.com", "nytimes.com", "answers.yahoo.com"];
    let (minute, second, micros) = (number / 60_000 % 60, number / 1000 % 60, next() % 1_000_000);
    let mut pick = |bound: usize| usize::try_from(next() % bound as u64).expect("small");
    let (method, status, host) = (METHODS[pick(5)], STATUS[pick(6)], HOSTS[pick(6)]);
    let mut uuid = || {
        let (high, low) = (next(), next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high & 0xffff,
            high >> 16 & 0xfff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    };
    let (session, uuid) = (uuid(), uuid());
    format!(
        r#"{{"meta":{{"producer":{{"timestamp":"2021-03-24T15:{minute:02}:{second:02}.{micros:06}+00:00"}}}},"method":"{method}","session_id":"{session}","status":{status},"url":"http://www.{host}","uuid":"{uuid}"}}"#
    )
}
