//! Processes that die at every durable step while keys come, change and go, two on one table and guests between: at the
//! end the table is what the last message of each key says.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lakeward_testkit::{Message, Topic};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::{UPSERT, table, verified};
use crate::ingest::{Ingest, Running};
use crate::kills::POINTS;
use crate::table::Table;
use crate::{topic, wait_for};

const PARTITIONS: i64 = 4;
const KEYS: i64 = 60;

struct Job {
    topic: Topic,
    table: Table,
    ingest: Ingest,
    /// Messages sent, and what the last one of each key says.
    sent: Mutex<(i64, BTreeMap<i64, i64>)>,
    over: AtomicBool,
}

impl Job {
    fn new() -> Self {
        let topic = topic(i32::try_from(PARTITIONS).expect("few"));
        let table = table(&[("id", "long"), ("n", "long"), ("day", "string")], &["day"]);
        let settings = ["-l", "1", "-m", "20", "-K", "session.timeout.ms=3000"];
        let ingest = Ingest::new(&topic, &table).with(&settings).with(&UPSERT);
        Self { topic, table, ingest, sent: Mutex::default(), over: AtomicBool::new(false) }
    }

    /// Sends until it is over.
    fn produce(&self, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        while !self.over.load(Ordering::SeqCst) {
            let mut sent = self.sent.lock().expect("no panic while it is held");
            let messages: Vec<Message> = (0..40).map(|_| next(&mut random, &mut sent)).collect();
            self.topic.produce(messages);
            drop(sent);
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// A process for itself; comes back under its name at once, without a rebalance.
    fn slot(&self, name: &str) -> Ingest {
        self.ingest.clone().with(&["-K", &format!("group.instance.id={name}")])
    }

    /// Everything that was sent is committed, and the table is what it should be.
    fn settle(&self) {
        let (sent, rows) = self.sent.lock().expect("no panic while it is held").clone();
        wait_for("the end of every partition", || {
            let committed: i64 = self.table.txns().values().map(|last| last + 1).sum();
            if committed == sent { Ok(()) } else { Err(format!("{committed} of {sent}")) }
        });
        let expected: Vec<Value> = rows.iter().map(|(id, n)| json!({"id": id, "n": n})).collect();
        assert_eq!(self.table.query("select id, n from t"), expected);
        let said = verified(&self.table);
        assert!(said.contains(&format!("{} live rows", rows.len())), "{said}");
    }
}

/// A row or a tombstone of some key. Rows of a key move between the table's partitions.
fn next(random: &mut StdRng, (sent, rows): &mut (i64, BTreeMap<i64, i64>)) -> Message {
    let (id, n) = (random.random_range(0..KEYS), *sent);
    *sent += 1;
    let to = i32::try_from(id % PARTITIONS).expect("few");
    let key = json!({"id": id}).to_string();
    if random.random_bool(0.2) {
        rows.remove(&id);
        return Message::tombstone().key(key).to(to);
    }
    rows.insert(id, n);
    let day = format!("2024-01-0{}", random.random_range(1..3));
    Message::new(json!({"id": id, "n": n, "day": day}).to_string()).key(key).to(to)
}

fn assert_killed(mut running: Running, wait: Duration) -> bool {
    let (by_itself, ended) = match running.wait_within(wait) {
        Some(ended) => (true, ended),
        None => (false, running.kill()),
    };
    assert_eq!(ended.signal, Some(libc::SIGKILL), "ended with {:?}:\n{}", ended.code, ended.log);
    by_itself
}

#[test]
fn upserts_survive_kills_at_every_point_while_two_race_on_one_table() {
    let job = Job::new();
    let reached = Mutex::new(std::collections::BTreeSet::new());
    let die_at_each = |name: &str, first: usize| {
        for (at, point) in POINTS.iter().cycle().skip(first).take(POINTS.len()).enumerate() {
            let crash = format!("{point}:{}", 1 + at % 2);
            let workers = if first == 0 { "1" } else { "2" };
            let ingest = job.slot(name).with(&["--workers", workers]);
            let running = ingest.env("LAKEWARD_CRASH_AT", &crash).start();
            if assert_killed(running, Duration::from_secs(12)) {
                reached.lock().expect("no panic while it is held").insert(*point);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| job.produce(1));
        let work = [scope.spawn(|| die_at_each("one", 0)), scope.spawn(|| die_at_each("two", POINTS.len() / 2))];
        let ended: Vec<_> = work.into_iter().map(|work| work.join()).collect();
        job.over.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    });
    let pair = [job.ingest.start(), job.ingest.start()];
    job.settle();
    pair.into_iter().for_each(|running| drop(running.stop()));
    let reached = reached.into_inner().expect("no panic while it is held");
    for point in ["before-put", "after-put", "after-seal", "before-seal"] {
        assert!(reached.contains(point), "no process reached {point}: {reached:?}");
    }
    let operation = |info: &Value| info["operation"] == json!("OPTIMIZE");
    let compactions = job.table.actions("commitInfo").iter().filter(|(_, info)| operation(info)).count();
    println!("{} messages, {} points, {compactions} compactions", job.sent.lock().expect("unheld").0, reached.len());
    assert!(compactions > 0, "files were compacted in between");
}
