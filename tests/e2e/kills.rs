//! Processes that die at every durable step, at random, or freeze, while records keep coming (K14, P02, P8).
//!
//! Each test ends the same way: what was produced is in the table exactly once, each row at its place, in offset
//! order within each file, and `lakeward verify` agrees. Longer with LAKEWARD_TORTURE=N (`make torture`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use lakeward_testkit::Topic;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::ingest::{Ended, Ingest, Running, run};
use crate::table::{PLACE_TRANSFORMS, PLACED, Table};
use crate::{ids, topic, wait_for};

const PARTITIONS: i64 = 4;

/// `protocol::ports::Point`, as LAKEWARD_CRASH_AT spells it.
pub const POINTS: [&str; 11] = [
    "before-start",
    "before-seal",
    "after-seal",
    "before-put",
    "after-put",
    "before-announce",
    "after-announce",
    "before-tend",
    "after-tend",
    "before-release",
    "after-release",
];

/// How many times the usual amount.
fn rounds() -> u32 {
    std::env::var("LAKEWARD_TORTURE").map_or(1, |text| text.parse().expect("LAKEWARD_TORTURE=N"))
}

/// One job under test: a topic that keeps filling, a table, and how its workers are started.
struct Job {
    topic: Topic,
    table: Table,
    ingest: Ingest,
    produced: AtomicI64,
    over: AtomicBool,
}

impl Job {
    fn new(settings: &[&str]) -> Self {
        let (topic, table) = (topic(i32::try_from(PARTITIONS).expect("few")), Table::new(PLACED, &["date"]));
        let ingest = Ingest::new(&topic, &table)
            .with(&["-l", "1", "-m", "20", "-K", "session.timeout.ms=3000"])
            .with(&PLACE_TRANSFORMS)
            .with(settings);
        Self { topic, table, ingest, produced: AtomicI64::new(0), over: AtomicBool::new(false) }
    }

    /// Produces until it is over.
    fn produce(&self) {
        while !self.over.load(Ordering::SeqCst) {
            let from = self.produced.load(Ordering::SeqCst);
            self.topic.produce(ids(from..from + 60, PARTITIONS));
            self.produced.store(from + 60, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// A guest that joins and leaves, so that partitions change hands under the others.
    fn visit(&self) {
        while !self.over.load(Ordering::SeqCst) {
            let guest = self.ingest.start();
            std::thread::sleep(Duration::from_millis(2500));
            guest.stop();
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Runs `work` while records come; then two sound workers finish, and everything is checked.
    fn run(&self, name: &str, work: impl FnOnce(&Self) + Send, guests: bool) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.produce());
            if guests {
                scope.spawn(|| self.visit());
            }
            // However the work ends, the others must end too, or the scope waits for ever.
            let ended = scope.spawn(move || work(self)).join();
            self.over.store(true, Ordering::SeqCst);
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
        });
        let pair = [self.ingest.start(), self.ingest.start()];
        wait_for(&format!("{name}: the end of every partition"), || {
            let txns = self.table.txns();
            let ends =
                (0..PARTITIONS).map(|partition| txns.get(&format!("app-{partition}")).map_or(0, |last| last + 1));
            let committed: i64 = ends.sum();
            if committed == self.produced.load(Ordering::SeqCst) { Ok(()) } else { Err(format!("{txns:?}")) }
        });
        pair.into_iter().for_each(|running| drop(running.stop()));
        self.check(name);
    }

    /// Exactly once, at its place, in order.
    fn check(&self, name: &str) {
        let produced = self.produced.load(Ordering::SeqCst);
        let sql = "select count(*) as n, count(distinct id) as ids, min(id) as low, max(id) as high from t";
        let expected = json!({"n": produced, "ids": produced, "low": 0, "high": produced - 1});
        assert_eq!(self.table.query(sql), [expected], "{name}: rows and ids");
        let mut rows = 0;
        let request = json!({"do": "files", "columns": ["id", "kafka_partition", "kafka_offset"]});
        for file in self.table.ask(request).as_array().expect("files") {
            let mut last = BTreeMap::new();
            for row in file["rows"].as_array().expect("rows") {
                let number = |column: &str| row[column].as_i64().expect("a number");
                let (id, partition, offset) = (number("id"), number("kafka_partition"), number("kafka_offset"));
                assert_eq!((id % PARTITIONS, id / PARTITIONS), (partition, offset), "{name}: a row at another's place");
                let before = last.insert(partition, offset);
                assert!(before.is_none_or(|before| before < offset), "{name}: {} is out of order", file["path"]);
                rows += 1;
            }
        }
        assert_eq!(rows, produced, "{name}: rows of all files");
        let verified = run(&["verify", &self.table.path.display().to_string()]);
        assert_eq!(verified.code, Some(0), "{name}: {}", verified.log);
    }
}

/// The worker must have died by the signal, not by an error of its own.
fn assert_killed(ended: &Ended) {
    assert_eq!(ended.signal, Some(libc::SIGKILL), "ended by itself with {:?}:\n{}", ended.code, ended.log);
}

/// Kills it after a while, unless it dies before.
fn kill_after(mut running: Running, wait: Duration) {
    match running.wait_within(wait) {
        Some(ended) => assert_killed(&ended),
        None => assert_killed(&running.kill()),
    }
}

/// A static member: comes back under its name at once, without a rebalance.
fn slot(job: &Job, name: &str) -> Ingest {
    job.ingest.clone().with(&["-K", &format!("group.instance.id={name}")])
}

#[test]
fn kills_at_every_point() {
    let job = Job::new(&[]);
    let (kills, reached) = (AtomicU32::new(0), Mutex::new(BTreeSet::new()));
    let die_at_each = |job: &Job, name: &str, first: u32| {
        for round in 0..2 * rounds() {
            for point in POINTS {
                let mut running =
                    slot(job, name).env("LAKEWARD_CRASH_AT", &format!("{point}:{}", first + round % 2)).start();
                if let Some(ended) = running.wait_within(Duration::from_secs(15)) {
                    assert_killed(&ended);
                    reached.lock().expect("no panic while it is held").insert(point);
                } else {
                    assert_killed(&running.kill());
                }
                kills.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let work = |job: &Job| {
        std::thread::scope(|scope| {
            scope.spawn(|| die_at_each(job, "one", 1));
            scope.spawn(|| die_at_each(job, "two", 2));
        });
    };
    job.run("points", work, true);
    let reached = reached.into_inner().expect("no panic while it is held");
    println!(
        "{} kills at {} points, {} records",
        kills.into_inner(),
        reached.len(),
        job.produced.load(Ordering::SeqCst)
    );
    let missed: Vec<_> = POINTS.iter().filter(|point| !reached.contains(*point)).collect();
    assert!(missed.is_empty(), "points that no process reached, so nothing is proven there: {missed:?}");
}

#[test]
fn kills_at_random() {
    let seed = std::env::var("LAKEWARD_SEED")
        .map_or_else(|_| u64::from(std::process::id()), |text| text.parse().expect("a seed"));
    println!("LAKEWARD_SEED={seed}");
    let job = Job::new(&[]);
    let kills = AtomicU32::new(0);
    let die_at_random = |job: &Job, name: &str, seed: u64| {
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..32 * rounds() {
            kill_after(slot(job, name).start(), Duration::from_millis(random.random_range(100..2500)));
            kills.fetch_add(1, Ordering::Relaxed);
        }
    };
    let work = |job: &Job| {
        std::thread::scope(|scope| {
            scope.spawn(|| die_at_random(job, "one", seed));
            scope.spawn(|| die_at_random(job, "two", seed + 1));
        });
    };
    job.run("random", work, true);
    println!("{} kills at random, {} records", kills.into_inner(), job.produced.load(Ordering::SeqCst));
}

/// Members without a name of their own: the group notices the dead by their silence, and somebody else goes on.
fn kills_of_nameless_members(name: &str, settings: &[&str]) {
    let job = Job::new(settings);
    let work = |job: &Job| {
        let survivor = job.ingest.start();
        for round in 0..5 * rounds() {
            kill_after(job.ingest.start(), Duration::from_millis(u64::from(1500 + 700 * (round % 4))));
        }
        survivor.stop();
    };
    job.run(name, work, false);
}

#[test]
fn kills_under_eager_rebalancing() {
    kills_of_nameless_members("eager", &["-K", "partition.assignment.strategy=range"]);
}

#[test]
fn kills_under_cooperative_rebalancing() {
    kills_of_nameless_members("cooperative", &["-K", "partition.assignment.strategy=cooperative-sticky"]);
}

#[test]
fn kills_nobody_but_freezes_each_for_longer_than_its_session() {
    let job = Job::new(&[]);
    let work = |job: &Job| {
        let mut pair = [job.ingest.start(), job.ingest.start()];
        for round in 0..4 * rounds() as usize {
            std::thread::sleep(Duration::from_millis(1500));
            pair[round % 2].freeze();
            std::thread::sleep(Duration::from_secs(5));
            pair[round % 2].thaw();
        }
        for running in pair {
            running.stop();
        }
    };
    job.run("frozen", work, false);
}
