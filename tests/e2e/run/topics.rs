//! Topics as sinks beside a table: what a consumer sees that reads what is committed, whatever ended a process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lakeward_testkit::{Broker, Message, Topic};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::ingest::{Ended, run};
use crate::run::job::{PARTITIONS, Pipeline, Sent};
use crate::run::kills::{POINTS, died};

/// Groups come, change and go: every third bid takes its auction away, the next one brings it back.
const HOT: &str = "SELECT auction, COUNT(*) AS bids, CAST(SUM(price) AS DECIMAL(20, 2)) AS total \
                   FROM bid GROUP BY auction HAVING COUNT(*) % 3 <> 0";

/// One source, one table, and three topics: every bid once, the view by key, and its changes.
struct Case {
    bids: Sent,
    each: Topic,
    hot: Topic,
    log: Topic,
    app: String,
    pipeline: Pipeline,
}

impl Case {
    /// The table is the journal, or the first topic is.
    fn new(table_first: bool) -> Self {
        let broker = Broker::shared();
        let compacted = [("cleanup.policy", "compact")];
        let case = Self {
            bids: Sent::new(PARTITIONS),
            each: broker.topic("each", 3),
            hot: broker.topic_with("hot", 2, &compacted),
            log: broker.topic("log", 3),
            app: Broker::unique("app"),
            pipeline: Pipeline::new(""),
        };
        case.file("pipe.sql", "state", table_first);
        case
    }

    fn file(&self, name: &str, state: &str, table_first: bool) -> std::path::PathBuf {
        let table = "CREATE SINK hot_table FROM hot WITH (delta = '{here}/hot', mode = 'upsert', key = 'auction');";
        let (first, last) = if table_first { (table, "") } else { ("", table) };
        let text = format!(
            "SET app_id = '{}'; SET state = '{{here}}/{state}'; SET step_latency_ms = 200; SET checkpoint_interval_ms = 500;
             CREATE SOURCE bid (id BIGINT, auction BIGINT, price DECIMAL(10, 2)) WITH (kafka = '{{kafka}}', topic = '{}');
             CREATE VIEW each AS SELECT id, auction, price FROM bid;
             CREATE VIEW hot AS {HOT};
             {first}
             CREATE SINK each_topic FROM each WITH (kafka = '{{kafka}}', topic = '{}', mode = 'append');
             CREATE SINK hot_topic FROM hot WITH (kafka = '{{kafka}}', topic = '{}', mode = 'upsert', key = 'auction');
             CREATE SINK hot_log FROM hot WITH (kafka = '{{kafka}}', topic = '{}', key = 'auction', mode = 'changelog');
             {last}",
            self.app,
            self.bids.topic.name(),
            self.each.name(),
            self.hot.name(),
            self.log.name(),
        );
        self.pipeline.write(name, &text)
    }

    fn send(&self, random: &mut StdRng, count: usize) {
        let first = self.bids.records().len();
        let bid = |n: usize| {
            let (auction, cents) = (random.random_range(0..12), random.random_range(1..10_000));
            let value =
                json!({"id": first + n, "auction": auction, "price": format!("{}.{:02}", cents / 100, cents % 100)});
            (random.random_range(0..PARTITIONS), value)
        };
        self.bids.produce((0..count).map(bid).collect());
    }

    /// Runs `work` while bids come, then to the end, and judges.
    fn under(&self, work: impl FnOnce() + Send) {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = StdRng::seed_from_u64(7);
                while !over.load(Ordering::SeqCst) {
                    self.send(&mut random, 12);
                    std::thread::sleep(Duration::from_millis(150));
                }
            });
            let ended = scope.spawn(work).join();
            over.store(true, Ordering::SeqCst);
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
        });
        self.pipeline.run_to_end(&[]);
        self.judge();
    }

    /// All that was sent is in every sink, as the sink's mode has it.
    fn judge(&self) {
        let sent = self.bids.records();
        let wanted: Vec<i64> = (0..).take(sent.len()).collect();
        let mut ids: Vec<i64> = values(&self.each).iter().map(|value| value["id"].as_i64().expect("an id")).collect();
        ids.sort_unstable();
        assert_eq!(ids, wanted, "each bid is in the topic once");
        let answer = answer(&sent);
        assert_eq!(compacted(&self.hot), answer, "the topic by key is the view");
        assert_eq!(summed(&self.log), answer, "the changes add up to the view");
        let rows = self.pipeline.table("hot").query("select auction, bids, total::varchar as total from t");
        assert_eq!(rows.iter().map(row).collect::<Hot>(), answer, "so is the table");
        let verified = run(&["verify", &self.pipeline.file.display().to_string()]);
        assert_eq!(verified.code, Some(0), "{}", verified.log);
        for part in ["sink hot_topic: topic hot-", "Not proved here", "common frontier: "] {
            assert!(verified.log.contains(part), "no '{part}' in {}", verified.log);
        }
    }

    fn ends(&self) -> Vec<(i64, i64)> {
        [&self.each, &self.hot, &self.log]
            .iter()
            .flat_map(|topic| (0..topic.partitions()).map(|partition| topic.watermarks(partition)))
            .collect()
    }
}

/// By auction: how many bids, and their sum.
type Hot = BTreeMap<i64, (i64, String)>;

fn row(value: &Value) -> (i64, (i64, String)) {
    let number = |name: &str| value[name].as_i64().unwrap_or_else(|| panic!("{name} of {value}"));
    (number("auction"), (number("bids"), value["total"].as_str().expect("a decimal as text").to_owned()))
}

/// The view over all that was sent, made here.
fn answer(sent: &[Value]) -> Hot {
    let mut sums: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for record in sent {
        let (bid, price) = (&record[2], record[2]["price"].as_str().expect("a price").replace('.', ""));
        let sum = sums.entry(bid["auction"].as_i64().expect("an auction")).or_default();
        *sum = (sum.0 + 1, sum.1 + price.parse::<i64>().expect("cents"));
    }
    let shown = sums.into_iter().filter(|(_, (bids, _))| bids % 3 != 0);
    shown.map(|(auction, (bids, cents))| (auction, (bids, format!("{}.{:02}", cents / 100, cents % 100)))).collect()
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

fn values(topic: &Topic) -> Vec<Value> {
    topic.read_committed().iter().map(|(_, message)| json_of(message.value.as_deref().expect("a value"))).collect()
}

/// The last message of each key, as compaction leaves it; a key is in one partition.
fn compacted(topic: &Topic) -> Hot {
    let (mut last, mut places) = (BTreeMap::new(), BTreeMap::new());
    for (sent, Message { key, value, .. }) in topic.read_committed() {
        let key = json_of(&key.expect("a key"))["auction"].as_i64().expect("an auction");
        assert_eq!(*places.entry(key).or_insert(sent.partition), sent.partition, "key {key} is in two partitions");
        last.insert(key, value);
    }
    last.into_values().flatten().map(|value| row(&json_of(&value))).collect()
}

/// Inserts less deletes. P5 of a changelog: no row goes that is not there.
fn summed(topic: &Topic) -> Hot {
    let (mut hot, mut steps) = (Hot::new(), BTreeMap::new());
    for value in values(topic) {
        let ((auction, rest), step) = (row(&value), value["_step"].as_i64().expect("a step"));
        assert!(steps.insert(auction, step).is_none_or(|before| before <= step), "steps of a key are in order");
        match value["_op"].as_str().expect("_op") {
            "insert" => assert_eq!(hot.insert(auction, rest), None, "{value} comes before the old one goes"),
            "delete" => assert_eq!(hot.remove(&auction), Some(rest), "{value} goes and is not there"),
            other => panic!("_op is {other}"),
        }
    }
    hot
}

fn assert_says(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}", ended.log);
    for part in parts {
        assert!(ended.log.contains(part), "no '{part}' in:\n{}", ended.log);
    }
}

#[test]
fn killed_at_every_durable_step_each_change_is_in_its_topic_once() {
    let mut reached = BTreeSet::new();
    let case = Case::new(true);
    case.under(|| {
        for (point, times) in POINTS {
            // The topics are the second sink to the fourth.
            let last = if point.ends_with("put") { 4 } else { *times.last().expect("a time") };
            let crash = format!("{point}:{last}");
            let environment = [("LAKEWARD_CRASH_AT", crash.as_str())];
            let running = case.pipeline.start_with(&case.pipeline.file, &[], &environment);
            if died(running, point.ends_with("release")) {
                reached.insert(point);
            }
        }
    });
    let missed: Vec<_> = POINTS.iter().map(|(point, _)| point).filter(|point| !reached.contains(*point)).collect();
    assert!(missed.is_empty(), "points that no process reached, so nothing is proven there: {missed:?}");
}

#[test]
fn killed_at_random_with_a_topic_as_the_journal() {
    let case = Case::new(false);
    let mut random = StdRng::seed_from_u64(u64::from(std::process::id()));
    case.under(|| {
        for _ in 0..8 {
            let mut running = case.pipeline.start(&[]);
            running.wait_log("reading");
            assert!(running.wait_within(Duration::from_millis(random.random_range(100..1_500))).is_none());
            running.kill();
        }
    });
}

#[test]
fn a_frozen_process_that_wakes_writes_nothing_more_into_topics() {
    let case = Case::new(false);
    let other = case.file("other.sql", "other-state", false);
    case.under(|| {
        let mut frozen = case.pipeline.start(&[]);
        frozen.wait_log("INFO committed ");
        frozen.freeze();
        let two = case.pipeline.start_with(&other, &["--on-lost-state", "replay"], &[]);
        two.wait_log("INFO committed ");
        frozen.thaw();
        assert_says(&frozen.wait(), 75, &["another process runs this pipeline"]);
        two.stop();
        fs::remove_dir_all(case.pipeline.folder.join("state")).expect("remove the frozen one's state");
        let moved = fs::rename(case.pipeline.folder.join("other-state"), case.pipeline.folder.join("state"));
        moved.expect("hand the newer state over");
    });
}

#[test]
fn a_topic_that_lost_its_frontier_stops_the_pipeline_and_nothing_is_written() {
    let case = Case::new(true);
    case.send(&mut StdRng::seed_from_u64(3), 100);
    case.pipeline.run_to_end(&[]);
    case.judge();
    // As brokers do a week after the last commit, or somebody does by hand.
    Broker::shared().delete_group(&format!("{}-hot_topic", case.app));
    let before = (case.ends(), case.pipeline.table("hot").version());
    case.send(&mut StdRng::seed_from_u64(4), 100);
    assert_says(&case.pipeline.run(&["--until", "end"]), 65, &["P4", case.hot.name(), "only up to 0"]);
    assert_eq!((case.ends(), case.pipeline.table("hot").version()), before);
}

#[test]
fn a_topic_that_is_not_there_is_waited_for() {
    let case = Case::new(true);
    case.log.delete();
    let file = case.pipeline.file.display().to_string();
    assert_says(&run(&["check", &file]), 0, &["no such topic: make it before the run", "2 partitions"]);
    case.send(&mut StdRng::seed_from_u64(5), 30);
    let mut running = case.pipeline.start(&["--until", "end"]);
    running.wait_log(&format!("topic {} does not exist", case.log.name()));
    assert!(running.is_running());
    case.log.create(3, &[]);
    assert_eq!(running.wait().code, Some(0));
    case.judge();
    assert_says(&run(&["status", &file]), 0, &["hot_log", "common frontier: "]);
    assert_says(&run(&["query", &file, "SELECT COUNT(*) AS n FROM hot_table"]), 0, &["n\n"]);
    let asked = run(&["query", &file, "SELECT COUNT(*) AS n FROM hot_topic"]);
    assert_says(&asked, 78, &["sink hot_topic writes a topic, and queries read Delta tables"]);
}
