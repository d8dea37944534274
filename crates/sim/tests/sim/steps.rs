//! Seeds of pipelines by step: the determinism test first.

use lakeward_sim::{Coverage, StepSize, run_steps};

use super::seeds;

/// Seeds of a usual run.
const STEP_SEEDS: u64 = 1_000;

#[test]
fn the_same_seed_gives_the_same_history_by_step() {
    for seed in seeds().into_iter().take(20) {
        let (first, second) = (run_steps(seed, &StepSize::default()), run_steps(seed, &StepSize::default()));
        assert_eq!(first.history, second.history, "SIM_SEEDS={seed}: not reproducible");
        assert!(first.history.len() > 50, "SIM_SEEDS={seed}: nothing happened");
    }
    let history = |seed| run_steps(seed, &StepSize::default()).history;
    assert_ne!(history(1), history(2), "the seed decides");
}

#[test]
fn every_version_of_every_sink_is_the_answer_at_its_frontier() {
    let mut coverage = Coverage::default();
    let all = std::env::var("SIM_SEEDS").is_err();
    for seed in seeds().into_iter().filter(|seed| !all || *seed < STEP_SEEDS) {
        let report = run_steps(seed, &StepSize::default());
        if let Some(broken) = report.broken {
            panic!("SIM_SEEDS={seed}: {broken}\n{}", report.history.join("\n"));
        }
        coverage.add(&report.coverage);
    }
    println!("{}", coverage.lines());
    if all {
        assert_all_reached(&coverage);
    }
}

/// A run without crashes and fencing proves nothing.
fn assert_all_reached(coverage: &Coverage) {
    #[rustfmt::skip] // a list
    let kinds = [
        "Put Fails", "Put ReplyLost", "Put Late", "Put SentTwice", "Put Conflict", "Put Slow",
        "Save Fails", "Save ReplyLost", "Save Late", "Save SentTwice", "Save Conflict", "Save Slow",
        "Load Fails", "Load Slow", "Find Fails", "Find Slow", "List Fails", "List Slow", "Remove Fails", "Remove Slow",
        "late put lands", "late manifest lands",
        "crash BeforeStart", "crash AfterStep", "crash BeforeSeal", "crash AfterSeal", "crash BeforePut", "crash AfterPut",
        "crash BeforeAnnounce", "crash AfterAnnounce", "crash BeforeTend", "crash AfterTend",
        "crash BeforePrepare", "crash AfterPrepare", "crash AfterFinish", "crash AfterSave",
        "crash BeforeRemove", "crash AfterRemove", "crash BeforeTrim", "crash AfterTrim",
        "crash BeforeRelease", "crash AfterRelease", "kill", "freeze",
        "store outage", "input outage", "retrying input", "retrying output", "retrying checkpoints",
        "retrying circuit",
        "foreign append", "foreign reshape", "lose manifest", "lose state", "extend", "begin rival",
        "committed to sink 0", "committed to sink 1", "committed to sink 2", "raced", "discarded",
        "restored", "restored to the beginning", "stepped", "saved", "removed", "trimmed",
        "end Fenced", "end Stopped", "end Aborted",
    ];
    let missed: Vec<_> = kinds.into_iter().filter(|kind| coverage.of(kind) == 0).collect();
    assert!(missed.is_empty(), "never happened: {missed:?}");
}
