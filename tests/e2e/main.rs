//! End to end: the program as a process, a real Kafka, real tables, and readers that are not ours.
//!
//! `cases.rs` is the table: which known fault is proven where. One module an area; `kills.rs` ends
//! processes at every durable step. `make test` starts the broker and makes the readers' environment.
//!
//! Waits are bounded by [`DEADLINE`] and are never a judgement on speed.
#![allow(
    clippy::disallowed_methods,
    reason = "the tests are the world around the program: clock, threads, environment"
)]

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lakeward_testkit::{Broker, Message, Topic};
use serde_json::Value;

use crate::ingest::{Ended, Ingest};
use crate::table::Table;

mod cases;
mod checks;
mod cli;
mod commits;
mod compat;
mod deadletters;
mod evolve;
mod features;
mod formats;
mod gaps;
mod groups;
mod ingest;
mod kills;
mod maintain;
mod memory;
mod offsets;
mod partitions;
mod proof;
mod reader;
mod registry;
mod replays;
mod run;
mod security;
#[cfg(feature = "test-spark")]
mod spark;
mod stores;
mod table;
mod tidy;
mod tls;
mod tokens;
mod upsert;
mod values;
mod watching;

/// The longest that anything may take on a loaded machine. Reached only by what is broken.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A new topic on the broker that all tests share.
pub fn topic(partitions: i32) -> Topic {
    Broker::shared().topic("e2e", partitions)
}

/// `{"id":N,"date":"2024-01-01"}` for each id, to partition id % partitions.
pub fn ids(ids: impl IntoIterator<Item = i64>, partitions: i64) -> Vec<Message> {
    let to = |id: i64| i32::try_from(id.rem_euclid(partitions)).expect("a partition");
    ids.into_iter().map(|id| Message::new(format!(r#"{{"id":{id},"date":"2024-01-01"}}"#)).to(to(id))).collect()
}

/// Takes the messages of a new topic with one partition to their end, into `table`.
pub fn through(table: &Table, messages: Vec<Message>, options: &[&str]) -> Ended {
    let topic = topic(1);
    topic.produce(messages);
    Ingest::new(&topic, table).with(options).run_to_end()
}

/// JSON messages to partition 0.
pub fn json(values: impl IntoIterator<Item = Value>) -> Vec<Message> {
    values.into_iter().map(|value| Message::new(value.to_string()).to(0)).collect()
}

/// A word that nobody else uses: names of topics, groups, folders.
pub fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static RUN: std::sync::LazyLock<u128> = std::sync::LazyLock::new(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis()
    });
    format!("{:x}-{}-{}", *RUN, std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A path for a folder of a test's own, below the target folder. Nothing is there yet.
pub fn scratch(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e").join(format!("{kind}-{}", unique()))
}

/// Probes until it says Ok; after [`DEADLINE`] panics with what it found last.
pub fn wait_for<T, E: Display>(what: &str, mut probe: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    loop {
        match probe() {
            Ok(found) => return found,
            Err(found) if start.elapsed() > DEADLINE => panic!("waited in vain for {what}; found {found}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
