//! A pipeline under test: its topics and what was sent to them, its file, its tables and its state.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lakeward_testkit::{Broker, Message, Topic};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::ingest::{Ended, Running, free_port, lakeward};
use crate::run::judge;
use crate::stores::lake::Lake;
use crate::table::Table;
use crate::{scratch, topic};

pub const PARTITIONS: i32 = 4;

/// A file and its processes. Each has its app id, state and tables below one folder, which goes with the value.
pub struct Pipeline {
    pub folder: PathBuf,
    pub file: PathBuf,
    /// Where its tables and its state are; `{here}` in its texts.
    here: String,
    /// Where they lie as plain files.
    tables: PathBuf,
    /// Of its processes.
    environment: Vec<(String, String)>,
}

impl Pipeline {
    /// `{here}` in the text is the folder, `{kafka}` the broker.
    pub fn new(text: &str) -> Self {
        let folder = scratch("pipeline");
        Self::made(text, folder.display().to_string(), folder.clone(), Vec::new(), folder)
    }

    /// `{here}` is the lake.
    pub fn in_lake(text: &str, lake: &Lake) -> Self {
        let folder = scratch("pipeline");
        let tables = lake.folder.clone().unwrap_or_else(|| folder.clone());
        Self::made(text, lake.url.clone(), tables, lake.environment.clone(), folder)
    }

    fn made(text: &str, here: String, tables: PathBuf, environment: Vec<(String, String)>, folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).expect("make the pipeline's folder");
        let pipeline = Self { file: folder.join("pipe.sql"), folder, here, tables, environment };
        pipeline.write("pipe.sql", text);
        pipeline
    }

    /// One more file in its folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let text = text.replace("{folder}", &self.folder.display().to_string()).replace("{here}", &self.here);
        let text = text.replace("{kafka}", Broker::shared().bootstrap());
        let path = self.folder.join(name);
        fs::write(&path, text).expect("write a pipeline's file");
        path
    }

    /// Starts it.
    pub fn start(&self, options: &[&str]) -> Running {
        self.start_with(&self.file, options, &[])
    }

    /// Starts any file, with some environment.
    pub fn start_with(&self, file: &Path, options: &[&str], environment: &[(&str, &str)]) -> Running {
        let mut command = lakeward(&["run"]);
        let admin = free_port();
        command.arg(file).args(["--admin", &admin.to_string()]).args(options);
        command.envs(self.environment.iter().cloned()).envs(environment.iter().copied());
        Running::spawn(command, admin)
    }

    /// Runs it to its end, however that is.
    pub fn run(&self, options: &[&str]) -> Ended {
        self.start(options).wait()
    }

    /// Runs it to the end that the topics have now, which must go well.
    pub fn run_to_end(&self, options: &[&str]) -> Ended {
        let options: Vec<&str> = ["--until", "end"].iter().chain(options).copied().collect();
        let ended = self.run(&options);
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        ended
    }

    /// The table of a sink, to look at. Dropping it leaves the table there.
    pub fn table(&self, name: &str) -> std::mem::ManuallyDrop<Table> {
        std::mem::ManuallyDrop::new(Table { path: self.tables.join(name) })
    }

    /// The gaps that a sink's commits say: partition, from, to. Each is said once.
    pub fn gaps(&self, table: &str) -> BTreeSet<(i64, i64, i64)> {
        let mut gaps = BTreeSet::new();
        for (version, info) in self.table(table).actions("commitInfo") {
            for gap in info["lakeward"]["gaps"].as_array().into_iter().flatten() {
                let number = |name: &str| gap[name].as_i64().expect("a number");
                let place = (number("partition"), number("from"), number("to"));
                assert!(gaps.insert(place), "version {version} of {table} says {place:?} again");
            }
        }
        gaps
    }

    /// Where the oldest checkpoint that is kept stands in a source: partitions and next offsets.
    pub fn oldest_frontier(&self, source: &str) -> Vec<(i32, i64)> {
        let manifests = self.manifests();
        let text = fs::read_to_string(manifests.first().expect("a manifest")).expect("read a manifest");
        let manifest: Value = serde_json::from_str(&text).expect("a manifest is JSON");
        let of = manifest["frontier"][source].as_object().cloned().unwrap_or_default();
        of.iter().map(|(p, at)| (p.parse().expect("a number"), at.as_i64().expect("an offset"))).collect()
    }

    /// The manifests of its checkpoints, oldest first.
    pub fn manifests(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.join("state")).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with(".checkpoint.json"))
            .collect();
        found.sort();
        found
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Best effort: it lies in the target folder.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// A topic, and each record that was sent to it: partition, offset, value.
pub struct Sent {
    pub topic: Topic,
    records: Mutex<Vec<Value>>,
}

impl Sent {
    pub fn new(partitions: i32) -> Self {
        Self { topic: topic(partitions), records: Mutex::default() }
    }

    /// Produces, each to its partition.
    pub fn produce(&self, values: Vec<(i32, Value)>) {
        let message = |(partition, value): (i32, Value)| (Message::new(value.to_string()).to(partition), value);
        self.produce_meant(values.into_iter().map(message).collect());
    }

    /// Produces messages, each with the value that it stands for.
    pub fn produce_meant(&self, messages: Vec<(Message, Value)>) {
        let (messages, values): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        // Held over both: the judge sees a record if a table can.
        let mut records = self.records.lock().expect("no panic while it is held");
        let places = self.topic.produce(messages);
        records.extend(places.iter().zip(values).map(|(place, value)| json!([place.partition, place.offset, value])));
    }

    /// Forgets records: nobody is to see them.
    pub fn forget(&self, partition: i32, offsets: std::ops::Range<i64>) {
        let mut records = self.records.lock().expect("no panic while it is held");
        let gone = |record: &Value| {
            record[0] == json!(partition) && record[1].as_i64().is_some_and(|offset| offsets.contains(&offset))
        };
        records.retain(|record| !gone(record));
    }

    pub fn records(&self) -> Vec<Value> {
        self.records.lock().expect("no panic while it is held").clone()
    }

    /// The next offset of each partition that has any.
    pub fn ends(&self) -> Vec<(i64, i64)> {
        let mut ends = std::collections::BTreeMap::new();
        for record in self.records() {
            let (partition, next) =
                (record[0].as_i64().expect("a partition"), record[1].as_i64().expect("an offset") + 1);
            let end = ends.entry(partition).or_insert(next);
            *end = next.max(*end);
        }
        ends.into_iter().collect()
    }
}

/// The pipeline of most tests, and what fills it.
pub struct Job {
    pub bids: Sent,
    pub auctions: Sent,
    pub pipeline: Pipeline,
    over: AtomicBool,
    /// Further options of the first source.
    bid_options: &'static str,
}

/// An append-only and a keyed source; a running aggregate with everything that must be undone, a join, and an
/// aggregate over a join whose keyed side changes and goes.
pub const VIEWS: [(&str, &str); 3] = [
    (
        "hot",
        "SELECT auction, COUNT(*) AS bids, SUM(price) AS total, MIN(price) AS low, MAX(price) AS best \
         FROM bid GROUP BY auction",
    ),
    ("named", "SELECT b.auction, a.item, b.price FROM bid b JOIN auction a ON a.id = b.auction WHERE b.price >= 40"),
    (
        "by_category",
        "SELECT a.category, COUNT(*) AS bids, SUM(b.price) AS total, MIN(b.price) AS low, MAX(b.price) AS best \
         FROM bid b JOIN auction a ON a.id = b.auction GROUP BY a.category",
    ),
];

/// An expression that fails for some rows, until they change or go; the rows of its view, as the judge has them.
const SHARE: (&str, &str) = (
    "SELECT id, 100 / category AS part FROM auction",
    "SELECT id, 100 // category AS part FROM auction WHERE category <> 0",
);

/// What the judge takes for dead letters, and what of the table it compares with that: all but the words of a reason.
const LETTERS: (&str, &str) = (
    "SELECT 'bad_record' AS kind, 'bid' AS source, p, o, value, NULL AS \"row\" FROM bad_bid \
     UNION ALL SELECT 'bad_record', 'auction', p, o, value, NULL FROM bad_auction \
     UNION ALL SELECT 'failed_row', NULL, NULL, NULL, NULL, '{\"id\":' || id || ',\"category\":0}' \
     FROM auction WHERE category = 0",
    "kind, source, \"partition\" as p, \"offset\" as o, cast(value as varchar) as value, \"row\"",
);

impl Job {
    pub fn new() -> Self {
        Self::with("")
    }

    /// With further settings, such as `SET workers = 2;`.
    pub fn with(settings: &str) -> Self {
        Self::of(settings, "")
    }

    /// With further options of the source `bid`, such as `, on_gap = 'skip'`.
    pub fn of(settings: &str, bid_options: &'static str) -> Self {
        Self::at(Pipeline::new(""), settings, bid_options)
    }

    /// With its tables and its state in a store, and the circuit at work in the folder `cache`.
    pub fn in_lake(lake: &Lake) -> Self {
        Self::at(Pipeline::in_lake("", lake), "SET state_cache = '{folder}/cache';", "")
    }

    fn at(pipeline: Pipeline, settings: &str, bid_options: &'static str) -> Self {
        let (bids, auctions) = (Sent::new(PARTITIONS), Sent::new(PARTITIONS));
        let job = Self { bids, auctions, pipeline, over: AtomicBool::new(false), bid_options };
        job.file("pipe.sql", "state", settings);
        job
    }

    /// One more file of the same pipeline, with its state in another folder of ours and further settings.
    pub fn file(&self, name: &str, state: &str, settings: &str) -> PathBuf {
        let (bids, auctions) = (self.bids.topic.name(), self.auctions.topic.name());
        let views: String = VIEWS.iter().map(|(name, sql)| format!("CREATE VIEW {name} AS {sql};\n")).collect();
        let options = self.bid_options;
        let share = SHARE.0;
        let text = format!(
            "SET app_id = 'app'; SET state = '{{here}}/{state}'; SET dead_letters = '{{here}}/dead'; {settings}
             SET step_latency_ms = 200; SET checkpoint_interval_ms = 500;
             CREATE SOURCE bid (auction BIGINT, price BIGINT) WITH (kafka = '{{kafka}}', topic = '{bids}'{options});
             CREATE SOURCE auction (id BIGINT PRIMARY KEY, item TEXT, category BIGINT)
               WITH (kafka = '{{kafka}}', topic = '{auctions}', changes = 'op');
             {views}
             CREATE VIEW share AS {share};
             CREATE SINK hot_sink FROM hot WITH (delta = '{{here}}/hot', mode = 'upsert', key = 'auction');
             CREATE SINK named_sink FROM named WITH (delta = '{{here}}/named', mode = 'upsert');
             CREATE SINK log_sink FROM by_category WITH (delta = '{{here}}/log', mode = 'changelog');
             CREATE SINK share_sink FROM share WITH (delta = '{{here}}/share', key = 'id');"
        );
        self.pipeline.write(name, &text)
    }

    /// Sends some of everything: few auctions and prices, so that groups empty, rows repeat and keys come back.
    pub fn send(&self, random: &mut StdRng, bids: usize, auctions: usize) {
        let bid = |random: &mut StdRng| {
            let partition = random.random_range(0..PARTITIONS);
            if random.random_bool(0.05) {
                let text = format!("{{\"auction\":{},", random.random_range(0..12));
                return (Message::new(text.clone()).to(partition), json!({"bad": text}));
            }
            let value = json!({"auction": random.random_range(0..12), "price": random.random_range(1..100)});
            (Message::new(value.to_string()).to(partition), value)
        };
        self.bids.produce_meant((0..bids).map(|_| bid(random)).collect());
        let auction = |random: &mut StdRng| {
            let id: i32 = random.random_range(0..12);
            // Messages of one key are in one partition, or their order would be nobody's.
            let partition = id % PARTITIONS;
            let tombstone =
                |key: String| (Message::tombstone().key(key).to(partition), json!({"op": "delete", "id": id}));
            let item = format!("item{}", random.random_range(0..3));
            let (op, category) = match random.random_range(0..20) {
                0 => return tombstone(id.to_string()),
                1 => return tombstone(json!({"id": id}).to_string()),
                2..5 => ("delete", Value::Null),
                5 => ("update", "none".into()),
                _ => ("update", random.random_range(0..3).into()),
            };
            let value = json!({"op": op, "id": id, "item": item, "category": category});
            let meant = if category.is_string() { json!({"bad": value.to_string()}) } else { value.clone() };
            (Message::new(value.to_string()).to(partition), meant)
        };
        self.auctions.produce_meant((0..auctions).map(|_| auction(random)).collect());
    }

    /// Runs `work` while records come, then brings every sink to the end, and judges all that was ever there.
    pub fn under(&self, work: impl FnOnce() + Send) -> judge::Judged {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = StdRng::seed_from_u64(7);
                while !self.over.load(Ordering::SeqCst) {
                    self.send(&mut random, 12, 2);
                    std::thread::sleep(Duration::from_millis(150));
                }
            });
            // However the work ends, the producer must end too, or the scope waits for ever.
            let ended = scope.spawn(work).join();
            self.over.store(true, Ordering::SeqCst);
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
        });
        self.pipeline.run_to_end(&[]);
        self.judge_at_end()
    }

    /// [`Job::judge`], every sink covers all that was sent, and `lakeward verify` agrees.
    pub fn judge_at_end(&self) -> judge::Judged {
        let judged = self.judge();
        let mut verify = lakeward(&["verify", &self.pipeline.file.display().to_string()]);
        verify.envs(self.pipeline.environment.iter().cloned());
        let verified = Running::spawn(verify, free_port()).wait();
        assert_eq!(verified.code, Some(0), "{}", verified.log);
        for (source, sent) in [("bid", &self.bids), ("auction", &self.auctions)] {
            for (partition, end) in sent.ends() {
                for (sink, frontier) in &judged.newest {
                    let stands = frontier.get(&(source.to_owned(), partition)).copied();
                    assert_eq!(stands, Some(end), "sink {sink} at the end of {source}-{partition}");
                }
            }
        }
        judged
    }

    /// P5 for every version of every sink so far.
    pub fn judge(&self) -> judge::Judged {
        let views: Vec<(&str, &str)> = VIEWS.into_iter().chain([("share", SHARE.1), ("letters", LETTERS.0)]).collect();
        let sink = |view, table| judge::Sink { view, table, is_changelog: false, columns: "*" };
        let tables = ["hot", "named", "log", "share", "dead"].map(|name| self.pipeline.table(name));
        let [hot, named, log, share, dead] = tables.each_ref().map(|table| &**table);
        judge::judge(&judge::Case {
            sources: &[
                judge::Source {
                    name: "bid",
                    columns: &[("auction", "BIGINT"), ("price", "BIGINT")],
                    key: None,
                    records: self.bids.records(),
                },
                judge::Source {
                    name: "auction",
                    columns: &[("id", "BIGINT"), ("item", "VARCHAR"), ("category", "BIGINT")],
                    key: Some("id"),
                    records: self.auctions.records(),
                },
            ],
            views: &views,
            sinks: &[
                sink("hot", hot),
                sink("named", named),
                judge::Sink { is_changelog: true, ..sink("by_category", log) },
                sink("share", share),
                judge::Sink { columns: LETTERS.1, ..sink("letters", dead) },
            ],
        })
    }
}
