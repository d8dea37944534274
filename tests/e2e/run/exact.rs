//! A run without accidents: every version right, few commits where much waits, none where nothing comes.

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use std::time::Duration;

use crate::run::job::{Job, PARTITIONS, Pipeline, Sent};
use crate::wait_for;

#[test]
fn every_version_of_every_sink_is_the_answer_over_its_input() {
    let job = Job::with("SET workers = 2;");
    let judged = job.under(|| {
        let running = job.pipeline.start(&[]);
        // Until the three tables have seen some steps.
        for table in ["hot", "named", "log"] {
            job.pipeline.table(table).wait_version(8);
        }
        running.stop();
    });
    println!("{} versions judged", judged.versions);
    let both = job.pipeline.table("named").query("select count(*) as n from t where price >= 40");
    assert!(both[0]["n"].as_i64() > Some(0), "both readers see rows of a table with deletion vectors: {both:?}");
}

#[test]
fn an_idle_pipeline_commits_nothing_and_saves_nothing() {
    let job = Job::new();
    job.send(&mut StdRng::seed_from_u64(1), 200, 20);
    let running = job.pipeline.start(&[]);
    let state = || {
        let versions = ["hot", "named", "log"].map(|table| job.pipeline.table(table).version());
        (versions, job.pipeline.manifests())
    };
    // Caught up, and the checkpoint that follows is made.
    let at_rest = wait_for("two checkpoints", || {
        let (versions, manifests) = state();
        if manifests.len() >= 2 { Ok((versions, manifests)) } else { Err(format!("{versions:?}, {manifests:?}")) }
    });
    job.judge_at_end();
    let kept = ["#", "Source auction"].map(|operator| format!("lakeward_operator_rows{{operator=\"{operator}"));
    let (_, metrics) = running.get("/metrics").expect("the admin port");
    assert!(kept.iter().all(|metric| metrics.contains(metric)), "{metrics}");
    // Longer than several steps and checkpoints would take.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(state(), at_rest, "something was written though nothing came");
    running.stop();
    assert_eq!(state(), at_rest, "the end had nothing to add");
}

#[test]
fn much_input_makes_one_commit_and_a_replay_of_it_none() {
    let job = Job::new();
    job.send(&mut StdRng::seed_from_u64(2), 20_000, 500);
    let slow = job.file("slow.sql", "state", "").display().to_string();
    let text =
        std::fs::read_to_string(&slow).expect("our file").replace("step_latency_ms = 200", "step_latency_ms = 60000");
    std::fs::write(&job.pipeline.file, text).expect("write the pipeline's file");
    job.pipeline.run_to_end(&[]);
    let versions = || ["hot", "named", "log"].map(|table| job.pipeline.table(table).version());
    assert_eq!(versions(), [Some(1); 3], "20,500 messages are one step");
    job.judge_at_end();
    std::fs::remove_dir_all(job.pipeline.folder.join("state")).expect("lose the state");
    job.pipeline.run_to_end(&["--on-lost-state", "replay"]);
    assert_eq!(versions(), [Some(1); 3], "what the tables have is not committed again");
    job.send(&mut StdRng::seed_from_u64(3), 100, 10);
    job.pipeline.run_to_end(&[]);
    job.judge_at_end();
}

#[test]
fn rows_that_only_come_are_appended_each_once() {
    let (sent, pipeline) = (Sent::new(PARTITIONS), Pipeline::new(""));
    pipeline.write(
        "pipe.sql",
        &format!(
            "SET app_id = 'app'; SET state = '{{here}}/state'; SET step_latency_ms = 100;
             CREATE SOURCE t (id BIGINT, name TEXT) WITH (kafka = '{{kafka}}', topic = '{}');
             CREATE VIEW long AS SELECT id, upper(name) AS name FROM t WHERE id % 3 <> 0;
             CREATE SINK copied FROM long WITH (delta = '{{here}}/copied');",
            sent.topic.name()
        ),
    );
    for first in [0, 40, 80] {
        let row = |id: i32| (id % PARTITIONS, json!({"id": id, "name": format!("n{id}")}));
        sent.produce((first..first + 40).map(row).collect());
        pipeline.run_to_end(&[]);
    }
    let expected: Vec<i64> = (0..120).filter(|id| id % 3 != 0).collect();
    assert_eq!(pipeline.table("copied").ids(), expected);
    assert_eq!(pipeline.table("copied").actions("remove"), [], "a table that only grows");
}
