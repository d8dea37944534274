//! What a run does when its state is not the one it left: other workers, lost checkpoints, another query.

use std::fs;

use rand::SeedableRng;
use rand::rngs::StdRng;

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
