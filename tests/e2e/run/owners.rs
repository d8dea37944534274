//! Two processes of one pipeline: one of them goes on, the other ends with a message and commits nothing (P8).

use std::time::{Duration, Instant};

use crate::DEADLINE;
use crate::ingest::{Ended, Running};
use crate::run::job::Job;

const REPLAY: [&str; 2] = ["--on-lost-state", "replay"];

fn commits(log: &str) -> usize {
    log.lines().filter(|line| line.contains("INFO committed ")).count()
}

fn assert_fenced(ended: &Ended) {
    assert_eq!(ended.code, Some(75), "{}", ended.log);
    assert!(ended.log.contains("another process runs this pipeline"), "{}", ended.log);
}

/// The first of two to end, and the other one.
fn first_to_end(mut one: Running, mut two: Running) -> (Ended, Running) {
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        if let Some(ended) = one.wait_within(Duration::from_millis(50)) {
            return (ended, two);
        }
        if let Some(ended) = two.wait_within(Duration::from_millis(50)) {
            return (ended, one);
        }
    }
    panic!("both run on:\n{}\n{}", one.log(), two.log());
}

#[test]
fn of_two_processes_one_is_fenced() {
    let job = Job::new();
    let other = job.file("other.sql", "other-state", "");
    let judged = job.under(|| {
        let one = job.pipeline.start(&REPLAY);
        let two = job.pipeline.start_with(&other, &REPLAY, &[]);
        let (fenced, survivor) = first_to_end(one, two);
        assert_fenced(&fenced);
        let seen = job.pipeline.table("hot").version().unwrap_or(0);
        job.pipeline.table("hot").wait_version(seen + 2);
        survivor.stop();
        // Whichever state was left behind goes, so that the last run has the right one.
        for state in ["state", "other-state"] {
            let _ = std::fs::remove_dir_all(job.pipeline.folder.join(state));
        }
        job.pipeline.run_to_end(&REPLAY);
    });
    println!("{} versions judged", judged.versions);
}

#[test]
fn a_frozen_process_that_wakes_after_another_took_over_commits_nothing() {
    let job = Job::new();
    let other = job.file("other.sql", "other-state", "");
    let judged = job.under(|| {
        let mut frozen = job.pipeline.start(&[]);
        job.pipeline.table("hot").wait_version(3);
        frozen.freeze();
        let before = (job.pipeline.table("hot").version().unwrap_or(0), commits(&frozen.log()));
        let two = job.pipeline.start_with(&other, &REPLAY, &[]);
        job.pipeline.table("hot").wait_version(before.0 + 3);
        frozen.thaw();
        let ended = frozen.wait();
        assert_fenced(&ended);
        // A put that was under way when it froze may have gone through before: one, and it is in the log's chain.
        assert!(commits(&ended.log) <= before.1 + 1, "it went on after it was overtaken:\n{}", ended.log);
        two.stop();
        std::fs::remove_dir_all(job.pipeline.folder.join("state")).expect("remove the frozen one's state");
        let moved = std::fs::rename(job.pipeline.folder.join("other-state"), job.pipeline.folder.join("state"));
        moved.expect("hand the newer state over");
    });
    println!("{} versions judged", judged.versions);
}
