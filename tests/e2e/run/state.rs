//! What a run does when its state is not the one it left: other workers, lost checkpoints, another query.

use std::fs;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::repository;
use crate::run::job::Job;

/// A job that has run twice, so that two checkpoints with state are there.
fn run_twice(random: &mut StdRng) -> Job {
    let job = Job::new();
    for _ in 0..2 {
        job.send(random, 300, 30);
        job.pipeline.run_to_end(&[]);
    }
    assert!(job.pipeline.manifests().len() >= 2, "{:?}", job.pipeline.manifests());
    job
}

#[test]
fn without_the_newest_checkpoint_the_one_before_it_serves() {
    let mut random = StdRng::seed_from_u64(4);
    let job = run_twice(&mut random);
    fs::remove_file(job.pipeline.manifests().last().expect("a manifest")).expect("lose the newest");
    job.send(&mut random, 300, 30);
    job.pipeline.run_to_end(&[]);
    job.judge_at_end();
}

#[test]
fn without_any_checkpoint_it_stops_and_says_how_to_go_on() {
    let mut random = StdRng::seed_from_u64(5);
    let job = run_twice(&mut random);
    let versions = || ["hot", "named", "log"].map(|table| job.pipeline.table(table).version());
    let before = versions();
    fs::remove_dir_all(job.pipeline.folder.join("state")).expect("lose the state");
    job.send(&mut random, 300, 30);
    let ended = job.pipeline.run(&["--until", "end"]);
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    for part in ["no checkpoint can be read", "--on-lost-state=replay"] {
        assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
    }
    assert_eq!(versions(), before, "nothing was written");
    job.pipeline.run_to_end(&["--on-lost-state=replay"]);
    job.judge_at_end();
}

/// The circuit's folder is lost, and a file of the newest copy: the one before it is fetched.
#[test]
fn a_copy_that_lost_a_file_gives_way_to_the_one_before_it() {
    let mut random = StdRng::seed_from_u64(16);
    let job = Job::with("SET state_cache = '{here}/cache';");
    for _ in 0..3 {
        job.send(&mut random, 300, 30);
        job.pipeline.run_to_end(&[]);
        fs::remove_dir_all(job.pipeline.folder.join("cache")).expect("lose the circuit's folder");
    }
    let states = fs::read_dir(job.pipeline.folder.join("state/states")).expect("states");
    let mut states: Vec<_> = states.map(|state| state.expect("a state").path()).collect();
    assert_eq!(states.len(), 2, "two checkpoints stay, and their states: {states:?}");
    states.sort_by_key(|state| fs::metadata(state).and_then(|state| state.modified()).expect("a time"));
    fs::write(&states[1], "").expect("damage the newest");
    job.send(&mut random, 300, 30);
    let ended = job.pipeline.run_to_end(&[]);
    for part in ["is damaged", "state of checkpoint", "worked on in"] {
        assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
    }
    job.judge_at_end();
}

/// Whether this tree has a part that a test is about; the test begins to count when the part comes.
fn has(part: &str) -> bool {
    let there = repository().join(part).exists();
    if !there {
        println!("skipped: {part} is not there");
    }
    there
}

#[test]
fn a_restart_with_another_number_of_workers_goes_on_exactly() {
    if !has("crates/circuit/src/reshard.rs") {
        return;
    }
    let mut random = StdRng::seed_from_u64(12);
    let job = Job::new();
    for workers in ["2", "3", "1", "4"] {
        job.send(&mut random, 200, 30);
        job.pipeline.run_to_end(&["--workers", workers]);
    }
    job.judge_at_end();
}

#[test]
fn another_query_over_the_old_state_is_refused_with_the_difference() {
    if !has("crates/circuit/src/checkpoint.rs") {
        return;
    }
    let mut random = StdRng::seed_from_u64(13);
    let job = run_twice(&mut random);
    let text = fs::read_to_string(&job.pipeline.file).expect("our file");
    fs::write(&job.pipeline.file, text.replace("b.price >= 40", "b.price >= 41")).expect("change the query");
    let versions = || ["hot", "named", "log"].map(|table| job.pipeline.table(table).version());
    let before = versions();
    job.send(&mut random, 100, 10);
    let ended = job.pipeline.run(&["--until", "end"]);
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    for part in ["Int64(40)", "Int64(41)"] {
        assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
    }
    assert_eq!(versions(), before, "nothing was written");
    fs::write(&job.pipeline.file, text).expect("change it back");
    job.pipeline.run_to_end(&[]);
    job.judge_at_end();
}

#[test]
fn a_state_in_use_by_another_process_is_refused() {
    let job = Job::new();
    job.send(&mut StdRng::seed_from_u64(14), 50, 10);
    let mut running = job.pipeline.start(&[]);
    job.pipeline.table("log").wait_version(1);
    running.freeze();
    let ended = job.pipeline.run(&["--until", "end"]);
    assert_ne!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.log.contains("state"), "{}", ended.log);
    running.thaw();
    job.send(&mut StdRng::seed_from_u64(15), 50, 10);
    job.pipeline.table("hot").wait_version(2);
    running.stop();
    job.pipeline.run_to_end(&[]);
    job.judge_at_end();
}
