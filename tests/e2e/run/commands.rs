//! `check`, `explain` and `query` as a user types them: what they print, and how they say what is wrong and where.

use serde_json::json;

use crate::ingest::{Ended, run};
use crate::run::job::{Job, Pipeline, Sent};

/// Small enough to be read in a test. `{bids}` is the topic.
const SQL: &str = "\
CREATE SOURCE bid (auction BIGINT, price BIGINT) WITH (kafka = '{kafka}', topic = '{bids}');
CREATE VIEW hot AS SELECT auction, COUNT(*) AS bids FROM bid WHERE price > 9 GROUP BY auction;
CREATE SINK hot_sink FROM hot WITH (delta = '{here}/hot', mode = 'upsert', key = 'auction');
";

fn small() -> (Sent, Pipeline) {
    let sent = Sent::new(2);
    let pipeline = Pipeline::new(&SQL.replace("{bids}", sent.topic.name()));
    (sent, pipeline)
}

/// Runs a command on a pipeline's file.
fn on(pipeline: &Pipeline, command: &str, arguments: &[&str]) -> Ended {
    let file = pipeline.file.display().to_string();
    let all: Vec<&str> = [command, &file].iter().chain(arguments).copied().collect();
    run(&all)
}

fn assert_says(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}", ended.log);
    for part in parts {
        assert!(ended.log.contains(part), "no '{part}' in:\n{}", ended.log);
    }
}

#[test]
fn check_says_what_would_be_done_and_writes_nothing() {
    let (sent, pipeline) = small();
    let (topic, here) = (sent.topic.name(), pipeline.folder.display());
    let head = "1 source, 1 view, 1 sink\n";
    let source =
        format!("source bid: topic {topic} at {}, 2 columns of JSON; rows only come\n", sent.topic.bootstrap());
    let sink = format!("sink   hot_sink: hot into Delta table {here}/hot, is the view, by key (auction)\n");
    let offline = on(&pipeline, "check", &["--offline"]);
    assert_says(&offline, 0, &[head, &source, &sink, "keeps one row a group", "WARNING: it grows with the input"]);
    sent.produce((0..7).map(|n| (0, json!({"auction": n, "price": 10}))).collect());
    assert_says(&on(&pipeline, "check", &[]), 0, &["2 partitions, 7 offsets so far", "a new table"]);
    assert!(!pipeline.folder.join("hot").exists(), "check wrote a table");
    pipeline.run_to_end(&[]);
    assert_says(&on(&pipeline, "check", &[]), 0, &["the table is there, and fits"]);
}

#[test]
fn faults_of_a_file_have_a_place() {
    let here = "pipe.sql:";
    #[rustfmt::skip] // columns: what is written, what is written instead, place, what is said
    let cases: [(&str, &str, &str, &str); 7] = [
        ("topic =",            "topics =",            "1:",  "did you mean `topic`?"),
        ("SELECT auction",     "SELEKT auction",      "2:",  ""),
        ("price > 9",          "prise > 9",           "2:",  "did you mean price?"),
        ("COUNT(*)",           "COUNTS(*)",           "2:",  "did you mean count?"),
        ("FROM bid WHERE",     "FROM bids WHERE",     "2:",  "did you mean `bid`?"),
        ("key = 'auction'",    "key = 'auktion'",     "3:",  "auktion"),
        ("FROM hot WITH",      "FROM hott WITH",      "3:",  "hot"),
    ];
    for (right, wrong, place, says) in cases {
        let (_, pipeline) = small();
        let text = std::fs::read_to_string(&pipeline.file).expect("our file");
        assert!(text.contains(right), "the test's own text has no '{right}'");
        pipeline.write("pipe.sql", &text.replace(right, wrong));
        for command in ["check", "explain", "run"] {
            let ended = on(&pipeline, command, &[]);
            assert_eq!(ended.code, Some(78), "{wrong}: {}", ended.log);
            let at = [&format!("{here}{place}"), &format!("{here} {place}")].map(|at| ended.log.contains(at.as_str()));
            assert!(at.contains(&true), "{command}, {wrong}: no place {place} in {}", ended.log);
            assert!(ended.log.contains(says), "{command}, {wrong}: no '{says}' in {}", ended.log);
            let line = place.trim_end_matches(':');
            assert!(ended.log.contains(&format!("\n{line} | ")), "{command}, {wrong}: no line shown in {}", ended.log);
        }
    }
}

#[test]
fn explain_shows_the_plan_in_four_ways() {
    let (_, pipeline) = small();
    let tree = on(&pipeline, "explain", &[]);
    assert_says(&tree, 0, &["view hot\n", "Aggregate count", "keeps one row a group", "Filter bid.price > Int64(9)"]);
    assert_says(&tree, 0, &["#0 Source bid\n"]);
    assert_says(
        &on(&pipeline, "explain", &["--format", "dot"]),
        0,
        &["digraph pipeline {", "n0 [label=\"#0 Source bid\"]"],
    );
    assert_says(&on(&pipeline, "explain", &["--format", "mermaid"]), 0, &["flowchart BT\n", "n0[\"#0 Source bid\"]"]);
    assert_says(&on(&pipeline, "explain", &["--format", "svg"]), 0, &["<svg xmlns=", "#0 Source bid", "</svg>"]);
    assert_says(&on(&pipeline, "explain", &["--format", "png"]), 2, &["possible values: tree, dot, mermaid, svg"]);
}

#[test]
fn query_asks_the_tables() {
    let (sent, pipeline) = small();
    let bids = [(1, 5), (1, 10), (2, 20), (1, 30), (3, 9)];
    sent.produce(bids.map(|(auction, price)| (0, json!({"auction": auction, "price": price}))).to_vec());
    pipeline.run_to_end(&[]);
    let table = on(&pipeline, "query", &["SELECT auction, bids FROM hot_sink ORDER BY auction"]);
    assert_says(&table, 0, &["auction  bids\n1           2\n2           1\n"]);
    let lines = on(&pipeline, "query", &["SELECT COUNT(*) AS n, SUM(bids) AS s FROM hot_sink", "--output", "json"]);
    assert_says(&lines, 0, &["{\"n\":2,\"s\":3}\n"]);
    let folder = pipeline.folder.join("hot").display().to_string();
    assert_says(&run(&["query", &folder, "SELECT MAX(bids) AS most FROM hot"]), 0, &["most\n2\n"]);
    let named = format!("again={folder}");
    let joined = "SELECT a.auction FROM hot_sink h JOIN again a ON a.auction = h.auction WHERE a.bids = 1";
    assert_says(&on(&pipeline, "query", &[joined, "--table", &named]), 0, &["auction\n2\n"]);
    assert_says(&on(&pipeline, "query", &["SELECT nothing FROM hot_sink"]), 78, &["nothing"]);
    assert_says(&on(&pipeline, "query", &["SELECT 1 FROM nowhere"]), 78, &["nowhere"]);
    assert_says(&on(&pipeline, "query", &["DELETE FROM hot_sink"]), 78, &[]);
    assert_eq!(pipeline.table("hot").version(), Some(1), "a query wrote");
}

#[test]
fn query_of_several_sinks_agrees_with_itself() {
    let job = Job::new();
    job.send(&mut rand::SeedableRng::seed_from_u64(11), 400, 40);
    job.pipeline.run_to_end(&[]);
    let all = "SELECT (SELECT SUM(bids) FROM hot_sink WHERE auction IN (SELECT auction FROM named_sink)) >= \
               (SELECT COUNT(*) FROM named_sink) AS fits";
    assert_says(&on(&job.pipeline, "query", &[all, "--output", "json"]), 0, &["{\"fits\":true}\n"]);
}
