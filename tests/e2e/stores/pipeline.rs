//! Pipelines whose tables and state lie in a store.

use std::time::Duration;

use lakeward_testkit::{Kind, StoreServer};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::run::job::Job;
use crate::stores::lake::{Lake, Store};

/// Killed again and again, each time restored from the store alone, on a machine that never saw the state.
#[test]
fn a_state_in_a_store_is_restored_elsewhere_and_goes_on_exactly() {
    let server = StoreServer::shared(Kind::S3);
    let lake = Lake::at_server(server);
    let job = Job::in_lake(&lake);
    let cache = job.pipeline.folder.join("cache");
    let judged = job.under(|| {
        for _ in 0..3 {
            let mut running = job.pipeline.start(&[]);
            // Long enough for a checkpoint or two.
            std::thread::sleep(Duration::from_secs(4));
            assert!(running.is_running(), "{}", running.log());
            running.kill();
            let _ = std::fs::remove_dir_all(&cache);
        }
    });
    assert!(judged.versions > 10, "{}", judged.versions);
    let states = lake.folder.as_ref().expect("plain files").join("state");
    assert!(states.join("files").exists() && !states.join("engine").exists(), "the state is in the store");
    assert!(cache.exists());

    let count = "SELECT COUNT(*) AS n FROM hot_sink";
    let file = job.pipeline.file.display().to_string();
    let asked = lake.run(&["query", &file, count, "--output", "json"]);
    assert_eq!(asked.code, Some(0), "{}", asked.log);
    assert!(asked.log.contains("{\"n\":"), "{}", asked.log);
    let status = lake.run(&["status", &file]);
    assert_eq!(status.code, Some(0), "{}", status.log);
    for part in ["hot_sink", "common frontier"] {
        assert!(status.log.contains(part), "no '{part}' in {}", status.log);
    }
}

/// Each of the others once: a run, the loss of everything local, another run.
#[test]
fn states_in_the_other_stores_are_restored_as_well() {
    for store in [Store::Azure, Store::Gcs] {
        let lake = Lake::new(store);
        let job = Job::in_lake(&lake);
        for seed in 0..2 {
            job.send(&mut StdRng::seed_from_u64(seed), 200, 20);
            let ended = job.pipeline.run_to_end(&[]);
            assert!(ended.log.contains("worked on in"), "{}", ended.log);
            std::fs::remove_dir_all(job.pipeline.folder.join("cache")).expect("lose the circuit's folder");
        }
        let file = job.pipeline.file.display().to_string();
        let verified = lake.run(&["verify", &file]);
        assert_eq!(verified.code, Some(0), "{store:?}: {}", verified.log);
        assert!(verified.log.contains("0 lost, 0 twice"), "{store:?}: {}", verified.log);
        if lake.folder.is_some() {
            job.judge_at_end();
        }
    }
}
