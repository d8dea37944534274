//! A pipeline's tables by the names of its sources, and what `verify`, `status` and `query` prove and say of them.

use std::fs;
use std::path::PathBuf;

use lakeward_testkit::{Broker, Topic};
use serde_json::{Value, json};

use crate::ingest::{Ended, run};
use crate::{json as messages, scratch, topic};

/// Two sources and two tables; the second changes only with an auction that has bids.
struct Job {
    folder: PathBuf,
    bids: Topic,
    auctions: Topic,
}

const REPLAY: [&str; 2] = ["--on-lost-state", "replay"];

impl Job {
    fn new() -> Self {
        let folder = scratch("proof");
        fs::create_dir_all(&folder).expect("make a folder");
        let job = Self { folder, bids: topic(1), auctions: topic(1) };
        job.write(&[job.bid("bid", &job.bids), job.auction("auction", &job.auctions)]);
        job
    }

    fn bid(&self, name: &str, topic: &Topic) -> String {
        let (kafka, topic) = (Broker::shared().bootstrap(), topic.name());
        format!("CREATE SOURCE {name} (auction BIGINT, price BIGINT) WITH (kafka = '{kafka}', topic = '{topic}');\n")
    }

    fn auction(&self, name: &str, topic: &Topic) -> String {
        let (kafka, topic) = (Broker::shared().bootstrap(), topic.name());
        format!("CREATE SOURCE {name} (auction BIGINT, item TEXT) WITH (kafka = '{kafka}', topic = '{topic}');\n")
    }

    /// The pipeline's file with these sources; their names, as the queries use them, are `bid` and `auction`, unless
    /// `bids` is defined.
    fn write(&self, sources: &[String]) {
        let here = self.folder.display();
        let bid = if sources.iter().any(|source| source.contains("SOURCE bids")) { "bids" } else { "bid" };
        let text = format!(
            "SET app_id = 'app'; SET state = '{here}/state'; SET step_latency_ms = 100;
             {sources}
             CREATE VIEW hot AS SELECT auction, COUNT(*) AS bids FROM {bid} GROUP BY auction;
             CREATE VIEW named AS SELECT a.item, b.price FROM {bid} b JOIN auction a ON a.auction = b.auction;
             CREATE SINK hot_table FROM hot WITH (delta = '{here}/hot', mode = 'upsert', key = 'auction');
             CREATE SINK named_table FROM named WITH (delta = '{here}/named');",
            sources = sources.concat()
        );
        fs::write(self.folder.join("pipe.sql"), text).expect("write the pipeline");
    }

    fn command(&self, command: &str, arguments: &[&str]) -> Ended {
        let file = self.folder.join("pipe.sql").display().to_string();
        let all: Vec<&str> = [command, &file].iter().chain(arguments).copied().collect();
        run(&all)
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        self.command("run", &[&["--until", "end"], arguments].concat())
    }

    fn run_well(&self, arguments: &[&str]) {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{}", ended.log);
    }

    fn send(&self, bids: i64, auctions: i64) {
        self.bids.produce(messages((0..bids).map(|n| json!({"auction": n % 3, "price": n}))));
        self.auctions.produce(messages((0..auctions).map(|n| json!({"auction": n, "item": format!("item {n}")}))));
    }

    fn lose_state(&self) {
        // A run that was refused has made none.
        let lost = fs::remove_dir_all(self.folder.join("state"));
        assert!(lost.is_ok() || !self.folder.join("state").exists(), "lose the state: {lost:?}");
    }

    fn log_file(&self, table: &str, version: u64) -> PathBuf {
        self.folder.join(table).join("_delta_log").join(format!("{version:020}.json"))
    }

    fn head(&self, table: &str) -> u64 {
        (0..).take_while(|version| self.log_file(table, *version).exists()).last().expect("a table")
    }

    /// Changes the notes of a commit.
    fn tamper(&self, table: &str, version: u64, change: impl Fn(&mut Value)) {
        let file = self.log_file(table, version);
        let text = fs::read_to_string(&file).expect("a commit");
        let line = |line: &str| {
            let mut action: Value = serde_json::from_str(line).expect("JSON");
            if let Some(notes) = action.pointer_mut("/commitInfo/lakeward") {
                change(notes);
            }
            format!("{action}\n")
        };
        fs::write(file, text.lines().map(line).collect::<String>()).expect("write the commit");
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn assert_says(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}", ended.log);
    for part in parts {
        assert!(ended.log.contains(part), "no '{part}' in:\n{}", ended.log);
    }
}

fn object(ended: &Ended) -> Value {
    let line = ended.log.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no JSON: {}", ended.log));
    serde_json::from_str(line).expect("JSON")
}

#[test]
fn sources_may_change_places_but_not_names_nor_topics() {
    let job = Job::new();
    job.send(30, 2);
    job.run_well(&[]);
    let (bid, auction) = (job.bid("bid", &job.bids), job.auction("auction", &job.auctions));
    job.send(9, 0);
    job.lose_state();
    job.write(&[auction.clone(), bid]);
    job.run_well(&REPLAY);
    let hot = "SELECT SUM(bids) AS n FROM hot_table";
    assert_says(&job.command("query", &[hot, "--output", "json"]), 0, &[r#"{"n":39}"#]);

    // The offsets in the tables are another source's: both by the checkpoint, and by the tables alone.
    job.write(&[auction.clone(), job.bid("bids", &job.bids)]);
    assert_says(&job.run(&[]), 78, &["source bid", "old name again"]);
    job.lose_state();
    assert_says(&job.run(&REPLAY), 78, &["app-bid-0", "old name again"]);
    assert_says(&job.command("verify", &[]), 65, &["app-bid-0", "no source of the pipeline accounts for it"]);

    // The names are right, the topics are the other's.
    job.write(&[job.bid("bid", &job.auctions), job.auction("auction", &job.bids)]);
    job.lose_state();
    assert_says(&job.run(&REPLAY), 65, &["was replaced by topic", job.bids.name(), job.auctions.name()]);
}

#[test]
fn verify_of_a_pipeline_proves_each_table_and_names_what_breaks_it() {
    let job = Job::new();
    job.send(30, 2);
    job.run_well(&[]);
    job.send(9, 1);
    job.run_well(&[]);
    let broker = Broker::shared().bootstrap().to_owned();
    let hot = job.folder.join("hot").display().to_string();
    assert_says(&run(&["verify", &hot]), 0, &["app-bid-0", "view (upsert): 3 live rows", "0 lost, 0 twice"]);
    let all = job.command("verify", &["-k", &broker]);
    assert_says(
        &all,
        0,
        &["sink hot_table", "view (append)", "39 records of", "common frontier: auction-0 3  bid-0 39"],
    );
    let found = object(&job.command("verify", &["--output", "json"]));
    assert_eq!((&found["sound"], &found["common_frontier"]["app-bid-0"]), (&json!(true), &json!(39)));
    for sink in found["sinks"].as_array().expect("sinks") {
        assert_eq!(sink["chains"]["app-bid-0"]["records"], 39, "{sink}");
        assert_eq!(sink["common_version"], sink["version"], "{sink}");
    }
    let status = job.command("status", &["-k", &broker]);
    assert_says(&status, 0, &["hot_table", "named_table", "common frontier: auction-0 3  bid-0 39"]);
    let lag = object(&job.command("status", &["-k", &broker, "--output", "json"]));
    assert_eq!(lag["sinks"][1]["partitions"][0]["lag"], 0, "{lag}");

    let version = job.head("hot");
    let file = job.log_file("hot", version);
    let right = fs::read_to_string(&file).expect("a commit");
    type Change = fn(&mut Value);
    #[rustfmt::skip] // columns: what is done to the newest commit's notes, what is said
    let cases: [(Change, &str); 4] = [
        (|notes| { notes["spans"].as_array_mut().expect("spans").remove(0); },                  "without its span"),
        (|notes| notes["view"]["came"] = json!(77),                                            "came by its notes"),
        (|notes| notes["view"]["gone"] = json!(55),                                            "live rows after this version"),
        (|notes| notes["spans"][0]["from"] = json!(notes["spans"][0]["from"].as_i64().map(|from| from + 1)), "gap"),
    ];
    for (change, said) in cases {
        job.tamper("hot", version, change);
        assert_says(&run(&["verify", &hot]), 65, &["FAULT", said]);
        assert_says(&job.command("verify", &[]), 65, &["FAULT", said]);
        fs::write(&file, &right).expect("mend it");
    }
    fs::remove_file(&file).expect("take the newest commit away");
    assert_says(&job.command("verify", &[]), 65, &["P7: it is at"]);
}

#[test]
fn a_query_reads_all_tables_at_one_moment() {
    let job = Job::new();
    job.send(30, 2);
    job.run_well(&[]);
    let count = "SELECT (SELECT SUM(bids) FROM hot_table) AS bids, (SELECT COUNT(*) FROM named_table) AS named";
    let ask = || job.command("query", &[count, "--output", "json"]);
    assert_says(&ask(), 0, &["common frontier: auction-0 2  bid-0 30", r#"{"bids":30,"named":20}"#]);
    job.send(9, 0);
    job.run_well(&[]);
    assert_says(&ask(), 0, &["common frontier: auction-0 2  bid-0 39", r#"{"bids":39,"named":26}"#]);
    // As after a crash between the first table's commit and the second's.
    fs::remove_file(job.log_file("named", job.head("named"))).expect("take the newest commit away");
    assert_says(&ask(), 0, &["common frontier: auction-0 2  bid-0 30", r#"{"bids":30,"named":20}"#]);
}
