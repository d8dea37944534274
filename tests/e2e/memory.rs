//! What a process holds in memory.

use serde_json::json;

use crate::ingest::Ingest;
use crate::table::Table;
use crate::{DEADLINE, topic, wait_for};
use lakeward_testkit::Message;

/// Messages enough to fill every queue and buffer.
const MANY: i64 = 200_000;

/// What a process may hold that has worked and has nothing to do.
const IDLE_MB: u64 = 32;

#[test]
fn memory_is_given_back_when_there_is_nothing_to_do() {
    let (topic, table) = (topic(4), Table::new(&[("id", "long"), ("text", "string")], &[]));
    let text = "x".repeat(150);
    let message = |id: i64| {
        let partition = i32::try_from(id % 4).expect("small");
        Message::new(json!({"id": id, "text": format!("{text}{}", id * 7919 % MANY)}).to_string()).to(partition)
    };
    topic.produce((0..MANY).map(message).collect::<Vec<_>>());
    let mut running = Ingest::new(&topic, &table).with(&["-l", "1", "-m", "5000", "-b", "134217728"]).start();
    running.wait_read(MANY as u64);
    let peak = running.peak_memory_mb();
    wait_for(&format!("less than {IDLE_MB} MB to be held after a peak of {peak}, within {DEADLINE:?}"), || {
        let now = running.own_memory_mb();
        if now < IDLE_MB { Ok(()) } else { Err(format!("{now} MB")) }
    });
    // What was given back is taken anew.
    topic.produce((MANY..2 * MANY).map(message).collect::<Vec<_>>());
    running.wait_read(2 * MANY as u64);
    running.stop();
    let counts = table.query("select count(*) as n, count(distinct id) as ids from t");
    assert_eq!(counts, [json!({"n": 2 * MANY, "ids": 2 * MANY})]);
}
