//! Dead letters looked at, and sent again: byte by byte, each once.

use lakeward_testkit::{Message, Topic};
use serde_json::{Value, json};

use crate::ingest::{Ended, Ingest, Running, free_port, lakeward, run};
use crate::table::{Table, field};
use crate::{repository, topic, wait_for};

fn path(table: &Table) -> String {
    table.path.display().to_string()
}

/// A job's table and its dead letters of these messages.
fn dead_of(messages: impl IntoIterator<Item = Message>) -> (Topic, Table, Table) {
    let (topic, table, dead) = (topic(1), Table::t(), Table::absent());
    topic.produce(messages);
    ingest(&topic, &table, &dead);
    (topic, table, dead)
}

fn ingest(topic: &Topic, table: &Table, dead: &Table) {
    let options = ["--create", "--dlq-table-location", &path(dead)];
    Ingest::new(topic, table).with(&options).with(&["-m", "7", "-b", "1"]).run_to_end();
}

fn dlq(arguments: &[&str]) -> Ended {
    let ended = run(&[&["dlq"], arguments].concat());
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.log);
    ended
}

/// What it printed: a line of JSON each.
fn lines(ended: &Ended) -> Vec<Value> {
    ended
        .log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// What of messages is told again, in an order of its own.
fn contents(topic: &Topic) -> Vec<(Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Vec<u8>)>)> {
    let read = topic.read_committed().into_iter();
    let mut all: Vec<_> = read.map(|(_, message)| (message.value, message.key, message.headers)).collect();
    all.sort();
    all
}

fn odd(n: u8) -> Message {
    Message::new([b"\xff\x00{ ".as_slice(), &[n]].concat())
        .key([0xfe, n])
        .header("a", vec![n])
        .header("b", b"\xff\n".to_vec())
        .header("a", Vec::new())
        .to(0)
}

#[test]
fn letters_are_listed_and_shown_by_kind_topic_and_time() {
    let (topic, _, dead) = dead_of([odd(1), Message::new(r#"{"id":true}"#).to(0), Message::new("[1]").key("k").to(0)]);
    let (name, location) = (topic.name(), path(&dead));
    let all = dlq(&["ls", &location]);
    assert!(all.log.contains("3 letters") && all.log.contains(&format!("{name}-0 at offset 2")), "{}", all.log);
    #[rustfmt::skip] // columns: filters, the offsets that are left
    let cases: [(&[&str], &[i64]); 8] = [
        (&["--kind", "wrong_type"],                         &[1]),
        (&["--kind", "wrong_type", "--kind", "not_json"],   &[0, 1]),
        (&["--topic", name],                                &[0, 1, 2]),
        (&["--topic", "another"],                           &[]),
        (&["--since", "2020-01-01"],                        &[0, 1, 2]),
        (&["--since", "2199-01-01T00:00:00Z"],              &[]),
        (&["--until", "2020-01-01"],                        &[]),
        (&["--until", "2199-01-01", "--limit", "100"],      &[0, 1, 2]),
    ];
    for (filters, expected) in cases {
        let listed = dlq(&[&["ls", &location, "--output", "json"], filters].concat());
        let mut offsets: Vec<_> =
            lines(&listed).iter().map(|line| line["offset"].as_i64().expect("an offset")).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, expected, "{filters:?}");
    }
    let one = dlq(&["show", &location, "--partition", "0", "--offset", "0", "--output", "json"]);
    let shown = &lines(&one)[0];
    assert_eq!(shown["value"], json!({"base64": "/wB7IAE="}));
    assert_eq!(shown["key"], json!({"base64": "/gE="}));
    assert_eq!(shown["headers"][1], json!({"key": "b", "value": {"base64": "/wo="}}));
    let text = dlq(&["show", &location, "--kind", "not_an_object"]).log;
    assert!(text.contains("value    [1]") && text.contains("key      k"), "{text}");
    let none = run(&["dlq", "show", &location, "--offset", "99"]);
    assert_eq!(none.code, Some(65), "{}", none.log);
    let no_letters = Table::t();
    let refused = run(&["dlq", "ls", &path(&no_letters)]);
    assert_eq!(refused.code, Some(78), "{}", refused.log);
}

/// P31: what is sent again is what came, byte by byte, and once however often it is asked for.
#[test]
fn p31_a_replay_sends_the_very_bytes_and_each_letter_once() {
    let (source, table, dead) = dead_of((0..20).map(odd).chain([Message::new("{ \"id\" : true }").to(0)]));
    let target = topic(2);
    let location = path(&dead);
    let again = || dlq(&["replay", &location, "--to", target.name(), "-k", target.bootstrap()]).log;
    assert!(again().contains("21 letters"), "all of them");
    assert_eq!(contents(&target), contents(&source));
    assert!(again().contains("0 letters"), "none of them once more");
    // What came since is sent by the next one, and nothing else; also past a compaction.
    source.produce((20..30).map(odd));
    ingest(&source, &table, &dead);
    dead.ask(json!({"do": "compact"}));
    assert!(again().contains("10 letters"));
    source.produce((30..31).map(odd));
    ingest(&source, &table, &dead);
    assert!(again().contains("1 letter "));
    assert_eq!(contents(&target), contents(&source));
    let named = ["replay", &location, "--to", target.name(), "-k", target.bootstrap(), "--name", "another"];
    assert!(dlq(&named).log.contains("32 letters"), "another name is another replay");
}

fn replaying(dead: &Table, target: &Topic, crash: Option<&str>) -> Running {
    let location = path(dead);
    let mut command = lakeward(&["dlq", "replay", &location, "--to", target.name(), "-k", target.bootstrap()]);
    command.envs(crash.map(|point| ("LAKEWARD_CRASH_AT", point)));
    Running::spawn(command, free_port())
}

/// P31: ended at each durable step.
#[test]
fn p31_a_replay_that_is_killed_and_started_again_sends_each_letter_once() {
    let (source, _, dead) = dead_of((0..250).map(|n| Message::new(format!("bad {n} {}", "x".repeat(100_000))).to(0)));
    let target = topic(1);
    let mut killed = 0;
    for crash in ["before-start:1", "before-put:1", "after-put:1", "before-put:1", "after-seal:1", "after-put:1"] {
        let ended = replaying(&dead, &target, Some(crash)).wait();
        killed += u32::from(ended.signal == Some(libc::SIGKILL));
    }
    assert_eq!(killed, 6, "each of them died on its way");
    dlq(&["replay", &path(&dead), "--to", target.name(), "-k", target.bootstrap()]);
    let count = |topic: &Topic| topic.read_committed().len();
    wait_for("all of them", || if count(&target) == count(&source) { Ok(()) } else { Err(count(&target)) });
    assert_eq!(contents(&target), contents(&source));
}

/// P31: two that run to their ends side by side share the work or leave it to the other; each letter is sent once.
#[test]
fn p31_two_replays_at_once_send_each_letter_once() {
    let letter = |n: u32| Message::new(format!(r#"{{"id":"x{n}","note":"{}"}}"#, "y".repeat(50_000))).to(0);
    let (source, _, dead) = dead_of((0..400).map(letter));
    let target = topic(1);
    for running in [replaying(&dead, &target, None), replaying(&dead, &target, None)] {
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.log);
    }
    assert_eq!(contents(&target), contents(&source));

    let schema = json!({"type": "struct", "fields": [field("id", "string", false)]});
    let (table, letters) = (Table::made(&schema, &[], &json!({})), path(&dead));
    let replay = ["dlq", "replay", &letters, "--into", &path(&table)];
    let pair = [(); 2].map(|()| Running::spawn(lakeward(&replay), free_port()));
    for running in pair {
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.log);
    }
    assert_eq!(table.query("select count(*) as n, count(distinct id) as ids from t"), [json!({"n": 400, "ids": 400})]);
    let verified = run(&["verify", &path(&table)]);
    assert_eq!(verified.code, Some(0), "{}", verified.log);
}

#[test]
fn p31_a_replay_into_a_table_makes_each_row_once() {
    let (_, _, dead) = dead_of((0..30).map(|n| Message::new(format!(r#"{{"id": "x{n}", "k": {n}}}"#)).to(0)));
    let schema = json!({"type": "struct", "fields": [field("id", "string", false), field("k", "long", true)]});
    let target = Table::made(&schema, &[], &json!({}));
    let (letters, into) = (path(&dead), path(&target));
    let replay = ["replay", &letters, "--into", &into, "-t", "k: k"];
    let mut command = lakeward(&[&["dlq"], &replay[..]].concat());
    command.env("LAKEWARD_CRASH_AT", "after-put:1");
    assert_eq!(Running::spawn(command, free_port()).wait().signal, Some(libc::SIGKILL));
    for _ in 0..2 {
        dlq(&replay);
    }
    assert_eq!(target.values("k").len(), 30);
    assert_eq!(target.query("select count(distinct id) as n from t"), [json!({"n": 30})]);
    let verified = run(&["verify", &into]);
    assert_eq!(verified.code, Some(0), "{}", verified.log);
    let misplaced = run(&["dlq", "replay", &letters, "--into", &into, "-t", "k: kafka.offset"]);
    assert_eq!(misplaced.code, Some(2), "{}", misplaced.log);
    // What still can't be a row stops it, and is left where it is.
    let strict = Table::t();
    let stopped = run(&["dlq", "replay", &letters, "--into", &path(&strict)]);
    assert_eq!((stopped.code, strict.rows()), (Some(65), 0), "{}", stopped.log);
}

#[test]
fn a_table_of_the_newest_rows_takes_no_letters_beside_them() {
    let (topic, _, dead) = dead_of([Message::new(r#"{"id": "x"}"#).key(r#"{"id":1}"#).to(0)]);
    topic.produce([Message::new(r#"{"id": 1}"#).key(r#"{"id":1}"#).to(0)]);
    let upserted = Table::absent();
    let options = ["--create", "--mode", "upsert", "--key", "id", "--start", "offsets:0=1"];
    Ingest::new(&topic, &upserted).with(&options).run_to_end();
    let version = upserted.version();
    let refused = run(&["dlq", "replay", &path(&dead), "--into", &path(&upserted)]);
    assert_eq!((refused.code, upserted.version()), (Some(78), version), "{}", refused.log);
    assert!(refused.log.contains("the newest row of each key"), "{}", refused.log);
}

/// A table that kafka-delta-ingest wrote: Base64 or JSON, and nothing beside it.
#[test]
fn p31_the_peers_letters_are_shown_and_replayed() {
    let dead = Table::copied(&repository().join("tests/fixtures/deadletters/dlq"));
    let (location, target) = (path(&dead), topic(1));
    assert!(dlq(&["ls", &location]).log.contains("3 letters"));
    dlq(&["replay", &location, "--to", target.name(), "-k", target.bootstrap()]);
    let values: Vec<_> =
        target.read_committed().into_iter().map(|(_, message)| message.value.expect("a value")).collect();
    let texts: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect();
    assert_eq!(texts, ["bad bytes", r#"{"kafka_offset":11,"kafka_partition":0,"status":1}"#, "[1]"]);
}
