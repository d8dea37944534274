//! Stores that ignore conditions (P40): refused, or written to by one process alone, under a lease.

use lakeward_testkit::Objects;

use crate::stores::lake::Lake;
use crate::{ids, topic};

#[test]
fn p40_a_store_that_ignores_conditions_is_refused_before_anything_is_written() {
    let objects = Objects::start();
    objects.ignore_conditions();
    let (topic, lake) = (topic(1), Lake::at_objects(&objects));
    topic.produce(ids(0..10, 1));
    let ended = lake.ingest(&topic, "t").with(&["-e"]).run();
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    for part in ["put one file if absent", "--unsafe-single-writer", &lake.table("t")] {
        assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
    }
    assert_eq!(std::fs::read_dir(lake.files("t").path.join("_delta_log")).map_or(0, Iterator::count), 0);
}

#[test]
fn one_process_alone_writes_under_a_lease_and_a_second_is_refused() {
    let objects = Objects::start();
    objects.ignore_conditions();
    let (topic, lake) = (topic(1), Lake::at_objects(&objects));
    topic.produce(ids(0..10, 1));
    let ingest = lake.ingest(&topic, "t").with(&["--unsafe-single-writer"]);
    let first = ingest.start();
    lake.wait_rows("t", 10);
    let second = ingest.run();
    assert_eq!(second.code, Some(75), "{}", second.log);
    assert!(second.log.contains("holds the lease"), "{}", second.log);
    topic.produce(ids(10..20, 1));
    lake.wait_rows("t", 20);
    first.stop();

    // Given back at the end: the next one need not wait. It loses the lease, and stops.
    let third = ingest.start();
    third.wait_ready();
    let lease = lake.files("t").path.join("_lakeward/lease");
    let theirs = r#"{"owner":"x","holder":"process 1 on host other","count":7,"life_ms":20000}"#;
    std::fs::write(&lease, theirs).expect("take the lease");
    topic.produce(ids(20..30, 1));
    let ended = third.wait();
    assert_eq!(ended.code, Some(75), "{}", ended.log);
    for part in ["lease on it is lost", "process 1 on host other"] {
        assert!(ended.log.contains(part), "no '{part}' in {}", ended.log);
    }
    lake.assert_once("t", 0..20, "alone");
}
