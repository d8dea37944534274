//! What a run finds outside: tables that do not fit, topics that are not there yet, records that are gone (P9).

use std::fs;
use std::path::Path;
use std::process::Command;

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;

use lakeward_testkit::{Broker, Message};

use crate::ingest::run;
use crate::run::job::{Job, PARTITIONS, Pipeline};
use crate::table::{first_version, schema};
use crate::wait_for;

#[test]
fn a_table_of_another_schema_is_refused_before_anything() {
    let job = Job::new();
    job.send(&mut StdRng::seed_from_u64(6), 20, 5);
    let columns = [("auction", "long"), ("bids", "string")];
    job.pipeline.table("hot").put(0, &first_version(&schema(&columns), &[], &json!({})));
    let ended = job.pipeline.run(&["--until", "end"]);
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    for part in ["sink hot_sink", "is there, but", "bids"] {
        assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
    }
    assert_eq!(job.pipeline.table("hot").version(), Some(0));
}

#[test]
fn a_topic_that_is_not_there_is_waited_for() {
    let topic = Broker::shared().absent_topic("later");
    let pipeline = Pipeline::new(&format!(
        "SET app_id = 'app'; SET state = '{{here}}/state'; SET step_latency_ms = 100;
         CREATE SOURCE t (id BIGINT) WITH (kafka = '{{kafka}}', topic = '{}');
         CREATE VIEW v AS SELECT id FROM t;
         CREATE SINK s FROM v WITH (delta = '{{here}}/t');",
        topic.name()
    ));
    let running = pipeline.start(&[]);
    running.wait_log("does not exist at");
    topic.create(2, &[]);
    topic.produce([Message::new(r#"{"id":1}"#).to(0), Message::new(r#"{"id":2}"#).to(1)]);
    pipeline.table("t").wait_rows(2);
    running.stop();
    assert_eq!(pipeline.table("t").ids(), [1, 2]);
}

#[test]
fn records_that_are_gone_before_they_were_read_stop_the_pipeline() {
    let mut random = StdRng::seed_from_u64(8);
    let job = Job::new();
    job.send(&mut random, 100, 20);
    job.pipeline.run_to_end(&[]);
    job.send(&mut random, 100, 20);
    for partition in 0..PARTITIONS {
        let (_, end) = job.bids.topic.watermarks(partition);
        job.bids.topic.delete_records(partition, end - 1);
    }
    let ended = job.pipeline.run(&["--until", "end"]);
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    for part in ["is needed next", "it was deleted or truncated"] {
        assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
    }
    // Other partitions may have moved. Had one gone over its gap, rows would be missing below its frontier.
    job.judge();
}

/// A pipeline that skips, stopped; then records come of which all but the last of each partition are gone at once.
fn with_a_gap(random: &mut StdRng) -> Job {
    let job = Job::of("", ", on_gap = 'skip'");
    job.send(random, 100, 20);
    job.pipeline.run_to_end(&[]);
    let stood = job.bids.ends();
    job.send(random, 100, 20);
    for (partition, from) in stood {
        let partition = i32::try_from(partition).expect("few");
        let (_, end) = job.bids.topic.watermarks(partition);
        job.bids.topic.delete_records(partition, end - 1);
        job.bids.forget(partition, from..end - 1);
    }
    job
}

/// A folder, in another's place.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").args([from, to]).status().expect("start cp").success());
}

fn verified(job: &Job) -> String {
    let verified = run(&["verify", &job.pipeline.file.display().to_string()]);
    assert_eq!(verified.code, Some(0), "{}", verified.log);
    verified.log
}

#[test]
fn records_that_are_gone_are_skipped_where_the_source_says_so() {
    let mut random = StdRng::seed_from_u64(18);
    let job = with_a_gap(&mut random);
    let (state, saved) = (job.pipeline.folder.join("state"), job.pipeline.folder.join("saved"));
    copy(&state, &saved);
    // The gap is to be in one sink, in two, in all: the rest has it from there.
    for crash in ["before-put:1", "after-put:1", "after-put:2", "after-put:3"] {
        let running = job.pipeline.start_with(&job.pipeline.file, &[], &[("LAKEWARD_CRASH_AT", crash)]);
        let ended = running.wait();
        assert_eq!(ended.signal, Some(libc::SIGKILL), "{crash}: {}", ended.log);
    }
    let ended = job.pipeline.run_to_end(&[]);
    job.judge_at_end();
    // From the checkpoint before the gap: the same gap again.
    copy(&saved, &state);
    job.send(&mut random, 50, 10);
    let again = job.pipeline.run_to_end(&[]);
    job.judge_at_end();
    for log in [&ended.log, &again.log] {
        assert!(!log.contains("can't be made"), "{log}");
    }
    let log = verified(&job);
    for sink in ["hot", "named", "log"] {
        let said = job.pipeline.gaps(sink).len();
        assert_eq!(said, usize::try_from(PARTITIONS).expect("few"), "sink {sink} says each once");
    }
    assert!(log.contains("on_gap = 'skip' went on"), "{log}");
}

#[test]
fn records_that_are_gone_and_in_a_table_stop_the_pipeline_that_skips() {
    let mut random = StdRng::seed_from_u64(19);
    let job = with_a_gap(&mut random);
    let (state, saved) = (job.pipeline.folder.join("state"), job.pipeline.folder.join("saved"));
    copy(&state, &saved);
    job.pipeline.run_to_end(&[]);
    copy(&saved, &state);
    for partition in 0..PARTITIONS {
        job.bids.topic.delete_records(partition, job.bids.topic.watermarks(partition).1);
    }
    let ended = job.pipeline.run(&["--until", "end"]);
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    for part in ["to make the state that the sinks stand at", "on_gap = 'skip' can't help"] {
        assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
    }
    job.judge();
}

#[test]
fn a_table_that_was_restored_stops_the_pipeline() {
    let mut random = StdRng::seed_from_u64(9);
    let job = Job::new();
    for _ in 0..2 {
        job.send(&mut random, 100, 20);
        job.pipeline.run_to_end(&[]);
    }
    job.pipeline.table("hot").ask(json!({"do": "restore", "version": 1}));
    job.send(&mut random, 100, 20);
    let ended = job.pipeline.run(&["--until", "end"]);
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    assert!(ended.log.contains("sink "), "{}", ended.log);
}

/// A source that begins at `latest` beside one that begins at `earliest`, in either order.
#[test]
fn each_source_begins_where_it_says() {
    for latest_first in [true, false] {
        let topics = [crate::topic(1), crate::topic(1)];
        let [t, u] = [latest_first, !latest_first].map(|latest| if latest { "latest" } else { "earliest" });
        let pipeline = Pipeline::new(&format!(
            "SET app_id = 'app'; SET state = '{{here}}/state'; SET step_latency_ms = 100;
             CREATE SOURCE t (id BIGINT) WITH (kafka = '{{kafka}}', topic = '{}', start = '{t}');
             CREATE SOURCE u (id BIGINT) WITH (kafka = '{{kafka}}', topic = '{}', start = '{u}');
             CREATE VIEW v AS SELECT id FROM t UNION ALL SELECT id FROM u;
             CREATE SINK s FROM v WITH (delta = '{{here}}/t');",
            topics[0].name(),
            topics[1].name(),
        ));
        let send = |ids: [u8; 2]| {
            for (topic, id) in topics.iter().zip(ids) {
                topic.produce([Message::new(format!("{{\"id\":{id}}}")).to(0)]);
            }
        };
        send([1, 2]);
        pipeline.run_to_end(&[]);
        send([3, 4]);
        pipeline.run_to_end(&[]);
        let expected = if latest_first { [2, 3, 4] } else { [1, 3, 4] };
        assert_eq!(pipeline.table("t").ids(), expected, "t at {t}, u at {u}");
    }
}

/// One more partition, and some records for it.
fn grow(job: &Job, partitions: i32) {
    job.bids.topic.grow(partitions + 1);
    wait_for("the new partition", || {
        let (oldest, end) = job.bids.topic.watermarks(partitions);
        if (oldest, end) == (0, 0) { Ok(()) } else { Err(format!("{oldest} to {end}")) }
    });
    job.bids.produce((0..20).map(|price| (partitions, json!({"auction": price % 5, "price": price + 1}))).collect());
}

#[test]
fn new_partitions_of_a_topic_are_read_after_a_restart_and_while_running() {
    let mut random = StdRng::seed_from_u64(10);
    let job = Job::new();
    job.send(&mut random, 50, 20);
    job.pipeline.run_to_end(&[]);
    grow(&job, PARTITIONS);
    job.pipeline.run_to_end(&[]);
    job.judge_at_end();
    let running = job.pipeline.start(&[]);
    running.wait_log("reading");
    for more in 1..=2 {
        grow(&job, PARTITIONS + more);
        job.pipeline.table("hot").wait_txn(&format!("app-bid-{}", PARTITIONS + more), 19);
        job.send(&mut random, 50, 20);
    }
    running.wait_log("partitions were added: 6");
    running.kill();
    job.send(&mut random, 50, 20);
    job.pipeline.run_to_end(&[]);
    job.judge_at_end();
}
