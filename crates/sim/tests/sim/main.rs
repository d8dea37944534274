//! Seeds: the determinism test first, then two thousand of them over memory, then some over a real
//! Delta table in a faulty object store.

#![expect(clippy::disallowed_methods, reason = "SIM_SEEDS replays seeds")]

mod delta;
mod steps;

use lakeward_sim::{Coverage, MemorySite, Plan, Report, run};

/// Seeds of a usual run.
const SEEDS: u64 = 2_000;

/// `SIM_SEEDS=42,43` replays those; else always the same ones, so that a red run is red again.
fn seeds() -> Vec<u64> {
    match std::env::var("SIM_SEEDS") {
        Ok(list) => list.split(',').map(|seed| seed.trim().parse().expect("SIM_SEEDS is a list of numbers")).collect(),
        Err(_) => (0..SEEDS).collect(),
    }
}

fn over_memory(seed: u64) -> Report {
    run(seed, &Plan::default(), &MemorySite::default())
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in seeds().into_iter().take(20) {
        let (first, second) = (over_memory(seed), over_memory(seed));
        assert_eq!(first.history, second.history, "SIM_SEEDS={seed}: not reproducible");
        assert!(first.history.len() > 50, "SIM_SEEDS={seed}: nothing happened");
    }
    assert_ne!(over_memory(1).history, over_memory(2).history, "the seed decides");
}

#[test]
fn every_record_lands_exactly_once() {
    let mut coverage = Coverage::default();
    for seed in seeds() {
        let report = over_memory(seed);
        if let Some(broken) = report.broken {
            panic!("SIM_SEEDS={seed}: {broken}\n{}", report.history.join("\n"));
        }
        coverage.add(&report.coverage);
    }
    println!("{}", coverage.lines());
    if std::env::var("SIM_SEEDS").is_err() {
        assert_all_reached(&coverage);
    }
}

/// Dead letters over memory, fewer: each run has two tables.
const LETTER_SEEDS: u64 = 1_000;

#[test]
fn every_bad_record_is_a_dead_letter_exactly_once() {
    let mut coverage = Coverage::default();
    for seed in seeds().into_iter().filter(|seed| *seed < LETTER_SEEDS || std::env::var("SIM_SEEDS").is_ok()) {
        let plan = Plan { losses: false, ..Plan::default() };
        let report = run(seed, &plan, &MemorySite::with_letters());
        if let Some(broken) = report.broken {
            panic!("SIM_SEEDS={seed} with dead letters: {broken}\n{}", report.history.join("\n"));
        }
        coverage.add(&report.coverage);
    }
    println!("{}", coverage.lines());
    if std::env::var("SIM_SEEDS").is_err() {
        let kinds = ["letters committed", "read again for letters", "retrying letters", "crash AfterPut", "freeze"];
        let more = ["discarded, fenced", "discarded, reshaped", "discarded, lost", "late put lands", "crash BeforePut"];
        let missed: Vec<_> = kinds.into_iter().chain(more).filter(|kind| coverage.of(kind) == 0).collect();
        assert!(missed.is_empty(), "never happened with dead letters: {missed:?}");
    }
}

/// Seeds over Delta: each takes some hundredths of a second.
const DELTA_SEEDS: u64 = 200;

#[test]
fn every_record_lands_exactly_once_in_a_delta_table() {
    let mut coverage = Coverage::default();
    for seed in seeds().into_iter().filter(|seed| *seed < DELTA_SEEDS || std::env::var("SIM_SEEDS").is_ok()) {
        let plan = Plan { turns: 250, losses: false, ..Plan::default() };
        let report = run(seed, &plan, &delta::DeltaSite::new());
        if let Some(broken) = report.broken {
            panic!("SIM_SEEDS={seed} over Delta: {broken}\n{}", report.history.join("\n"));
        }
        coverage.add(&report.coverage);
    }
    println!("{}", coverage.lines());
    if std::env::var("SIM_SEEDS").is_err() {
        let kinds = ["Put Fails", "Put ReplyLost", "Put Late", "Put SentTwice", "Put Conflict", "Load Fails", "raced"];
        let more = ["crash BeforePut", "crash AfterPut", "freeze", "discarded, fenced", "discarded, reshaped"];
        let missed: Vec<_> = kinds.into_iter().chain(more).filter(|kind| coverage.of(kind) == 0).collect();
        assert!(missed.is_empty(), "never happened over Delta: {missed:?}");
    }
}

/// A run without crashes and fencing proves nothing.
fn assert_all_reached(coverage: &Coverage) {
    #[rustfmt::skip] // a list
    let kinds = [
        "Put Fails", "Put ReplyLost", "Put Late", "Put SentTwice", "Put Conflict", "Put Slow",
        "Load Fails", "Load Slow", "Find Fails", "Find Slow", "late put lands",
        "crash BeforeStart", "crash BeforeSeal", "crash AfterSeal", "crash BeforePut", "crash AfterPut",
        "crash BeforeAnnounce", "crash AfterAnnounce", "crash BeforeTend", "crash AfterTend",
        "crash BeforeRelease", "crash AfterRelease", "kill", "bury", "freeze",
        "store outage", "input outage", "retrying input", "retrying output",
        "foreign append", "foreign reshape", "restore", "expire", "committed", "committed with a gap",
        "gained", "losing", "lost", "released", "raced",
        "discarded, fenced", "discarded, breached", "discarded, reshaped", "discarded, lost",
        "sealed Latency", "sealed Size", "sealed Memory", "sealed Leaving",
        "end Stopped", "end Aborted",
    ];
    let missed: Vec<_> = kinds.into_iter().filter(|kind| coverage.of(kind) == 0).collect();
    assert!(missed.is_empty(), "never happened: {missed:?}");
}
