//! kill -9 before and after everything durable that a run does, and at random; P5 for all that was ever visible.
//!
//! Longer with LAKEWARD_TORTURE=N (`make torture`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::ingest::{Ended, Running};
use crate::run::job::{Job, PARTITIONS};

/// `protocol::ports::Point`, as LAKEWARD_CRASH_AT spells it, and at which of its times to die: a round of commits
/// passes some of them once for each sink.
pub const POINTS: [(&str, &[u32]); 18] = [
    ("before-start", &[1]),
    ("after-step", &[1, 3]),
    ("before-seal", &[1, 2, 3]),
    ("after-seal", &[1, 2, 3]),
    ("before-put", &[1, 2, 3]),
    ("after-put", &[1, 2, 3]),
    ("before-announce", &[1]),
    ("after-announce", &[2]),
    ("before-tend", &[1]),
    ("after-tend", &[2]),
    ("before-prepare", &[1, 2]),
    ("after-prepare", &[1, 2]),
    ("after-finish", &[1, 2]),
    ("after-save", &[1, 2]),
    ("before-remove", &[1]),
    ("after-remove", &[1]),
    ("before-release", &[1]),
    ("after-release", &[1]),
];

/// How many times the usual amount.
fn rounds() -> usize {
    std::env::var("LAKEWARD_TORTURE").map_or(1, |text| text.parse().expect("LAKEWARD_TORTURE=N"))
}

/// Of all that is left to chance; printed, to try the same again.
fn seed() -> u64 {
    let seed = std::env::var("LAKEWARD_SEED")
        .map_or_else(|_| u64::from(std::process::id()), |text| text.parse().expect("a seed"));
    println!("LAKEWARD_SEED={seed}");
    seed
}

/// The process must have died by the signal, not by an error of its own.
fn assert_killed(ended: &Ended) {
    assert_eq!(ended.signal, Some(libc::SIGKILL), "ended by itself with {:?}:\n{}", ended.code, ended.log);
}

/// Whether the process died where it was told to; else it is killed now.
pub fn died(mut running: Running, asks_to_stop: bool) -> bool {
    if asks_to_stop {
        // The last points lie on the way out, after a step or two.
        if running.wait_within(Duration::from_secs(2)).is_none() {
            running.signal(libc::SIGTERM);
        }
    }
    if let Some(ended) = running.wait_within(Duration::from_secs(20)) {
        assert_killed(&ended);
        return true;
    }
    assert_killed(&running.kill());
    false
}

#[test]
fn killed_at_every_durable_step_all_versions_are_exact() {
    let job = Job::new();
    let (mut kills, mut reached) = (0, BTreeSet::new());
    let judged = job.under(|| {
        for _ in 0..rounds() {
            for (point, times) in POINTS {
                for time in times {
                    let crash = format!("{point}:{time}");
                    let environment = [("LAKEWARD_CRASH_AT", crash.as_str())];
                    let running = job.pipeline.start_with(&job.pipeline.file, &[], &environment);
                    if died(running, point.ends_with("release")) {
                        reached.insert(point);
                    }
                    kills += 1;
                }
            }
        }
    });
    println!("{kills} kills at {} points, {} versions judged", reached.len(), judged.versions);
    let missed: Vec<_> = POINTS.iter().map(|(point, _)| point).filter(|point| !reached.contains(*point)).collect();
    assert!(missed.is_empty(), "points that no process reached, so nothing is proven there: {missed:?}");
}

/// P9: what is gone is skipped by all sinks alike, whenever the process dies.
#[test]
fn killed_at_random_amid_gaps_all_versions_are_exact() {
    let seed = seed();
    let job = Job::of("", ", on_gap = 'skip'");
    let mut random = StdRng::seed_from_u64(seed);
    // What goes before a pipeline begins is no gap of it.
    job.send(&mut random, 60, 10);
    job.pipeline.run_to_end(&[]);
    for _ in 0..6 * rounds() {
        // All sinks and the newest checkpoint stand here: what goes above it is in none of them.
        let stands: BTreeMap<i64, i64> = job.bids.ends().into_iter().collect();
        job.send(&mut random, 60, 10);
        for partition in 0..PARTITIONS {
            let (_, end) = job.bids.topic.watermarks(partition);
            let from = stands.get(&partition.into()).copied().unwrap_or(0);
            job.bids.topic.delete_records(partition, random.random_range(from..=end));
        }
        for _ in 0..2 {
            let mut running = job.pipeline.start(&[]);
            if let Some(ended) = running.wait_within(Duration::from_millis(random.random_range(300..1800))) {
                panic!("ended by itself with {:?}:\n{}", ended.code, ended.log);
            }
            assert_killed(&running.kill());
        }
        job.pipeline.run_to_end(&[]);
    }
    job.send(&mut random, 60, 10);
    job.pipeline.run_to_end(&[]);
    let gaps = job.pipeline.gaps("hot");
    assert!(gaps.len() > 6, "few gaps prove little: {gaps:?}");
    for sink in ["named", "log"] {
        assert_eq!(job.pipeline.gaps(sink), gaps, "P7: sink {sink} says what the first one says");
    }
    for (partition, from, to) in &gaps {
        let partition = i32::try_from(*partition).expect("few");
        assert!(job.bids.topic.watermarks(partition).0 >= *to, "P9: {to} of partition {partition} was there");
        job.bids.forget(partition, *from..*to);
    }
    let judged = job.judge_at_end();
    println!("{} gaps, {} versions judged", gaps.len(), judged.versions);
}

/// P3: what the oldest kept checkpoint covers is deleted, and not a record beyond; of a source that says nothing, none.
#[test]
fn killed_before_and_after_a_trim_nothing_is_deleted_that_is_needed() {
    let job = Job::of("", ", trim = true");
    let assert_trimmed = |when: &str, exactly: bool| {
        let oldest = job.pipeline.oldest_frontier("bid");
        assert_eq!(oldest.len(), 4, "{when}: {oldest:?}");
        for (partition, covered) in oldest {
            let (low, _) = job.bids.topic.watermarks(partition);
            assert!(low <= covered, "P3: {when}: partition {partition} begins at {low}, {covered} is needed");
            assert!(!exactly || low == covered, "{when}: partition {partition} begins at {low}, not at {covered}");
            assert_eq!(job.auctions.topic.watermarks(partition).0, 0, "{when}: the other source says nothing");
        }
    };
    let judged = job.under(|| {
        for crash in ["before-trim:1", "after-trim:1", "before-trim:2", "after-trim:2"] {
            let environment = [("LAKEWARD_CRASH_AT", crash)];
            let running = job.pipeline.start_with(&job.pipeline.file, &[], &environment);
            assert!(died(running, false), "{crash} is reached");
            assert_trimmed(crash, crash.starts_with("after"));
        }
    });
    assert_trimmed("at the end", true);
    let deleted: i64 = (0..4).map(|partition| job.bids.topic.watermarks(partition).0).sum();
    assert!(deleted > 0, "nothing was deleted, so nothing is proven");
    println!("{deleted} records deleted, {} versions judged", judged.versions);
}

/// The circuit's folder goes with each process: all that is left of the state is what was copied.
#[test]
fn killed_with_the_circuits_folder_lost_all_versions_are_exact() {
    let job = Job::with("SET state_cache = '{here}/cache';");
    let cache = job.pipeline.folder.join("cache");
    let points =
        ["after-step", "after-put", "before-prepare", "after-prepare", "after-finish", "after-save", "after-remove"];
    let (mut fetched, mut reached) = (0, BTreeSet::new());
    let judged = job.under(|| {
        for round in 0..2 * rounds() {
            for point in points {
                let crash = format!("{point}:{}", 1 + round % 2);
                let mut running =
                    job.pipeline.start_with(&job.pipeline.file, &[], &[("LAKEWARD_CRASH_AT", crash.as_str())]);
                let died = running.wait_within(Duration::from_secs(20));
                if died.is_some() {
                    reached.insert(point);
                }
                let ended = died.unwrap_or_else(|| running.kill());
                assert_killed(&ended);
                fetched += usize::from(ended.log.contains("state of checkpoint"));
                std::fs::remove_dir_all(&cache).expect("lose the circuit's folder");
            }
        }
    });
    println!("{fetched} states fetched, {} versions judged", judged.versions);
    assert_eq!(reached.len(), points.len(), "points that were reached: {reached:?}");
    assert!(fetched > points.len(), "{fetched} states were fetched: nothing is proven");
}

#[test]
fn killed_at_random_all_versions_are_exact() {
    let seed = seed();
    let job = Job::new();
    let mut random = StdRng::seed_from_u64(seed);
    let judged = job.under(|| {
        for round in 0..20 * rounds() {
            let mut running = job.pipeline.start(&[]);
            if round % 2 == 0 {
                // Else most would die while they start, on a busy machine.
                running.wait_log("reading");
            }
            if let Some(ended) = running.wait_within(Duration::from_millis(random.random_range(100..1800))) {
                panic!("ended by itself with {:?}:\n{}", ended.code, ended.log);
            }
            assert_killed(&running.kill());
        }
    });
    println!("{} kills at random, {} versions judged", 20 * rounds(), judged.versions);
}
