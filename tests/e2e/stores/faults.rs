//! Stores that fail in the middle of the work: nothing is lost, nothing is there twice, and the log says what is.

use std::time::Duration;

use lakeward_testkit::{Fault, Kind, Objects, Proxy, StoreServer};
use serde_json::json;

use crate::stores::lake::{Lake, noisy};
use crate::{ids, topic, wait_for};

fn is_torture() -> bool {
    std::env::var_os("LAKEWARD_TORTURE").is_some()
}

/// The put of a commit, as it stands in an HTTP request.
const COMMIT: &str = "/t/_delta_log/0000";

/// Commits get through and their answers do not: each is tried again until somebody hears, and stands once.
#[test]
fn answers_of_commits_that_get_lost_make_no_second_commit() {
    let server = StoreServer::shared(Kind::S3);
    let proxy = Proxy::before(server.address());
    let (topic, lake) = (topic(1), Lake::behind(server, &format!("http://{}", proxy.address())));
    topic.produce(ids(0..10, 1));
    let running = lake.ingest(&topic, "t").with(&["-l", "1"]).env("AWS_TIMEOUT", "2s").start();
    lake.files("t").wait_rows(10);
    for round in 1..=3 {
        proxy.lose_answers("PUT", COMMIT, 1);
        topic.produce(ids(round * 10..round * 10 + 10, 1));
        wait_for("an answer to be lost", || if proxy.lost() >= round as usize { Ok(()) } else { Err(proxy.lost()) });
        lake.files("t").wait_rows(u64::try_from(round * 10 + 10).expect("small"));
    }
    let ended = running.stop();
    assert!(ended.log.contains("nothing is lost, trying again"), "{}", ended.log);
    lake.assert_once("t", 0..40, "lost answers");
}

/// Every way in which a store says that it did, or did not, put a commit.
#[test]
fn whatever_a_store_answers_each_commit_stands_once() {
    #[rustfmt::skip] // columns: what becomes of a commit's put
    let faults = [
        Fault::Refuse(409, "ConditionalRequestConflict"), Fault::DoneBut(409, "ConditionalRequestConflict"),
        Fault::Refuse(412, "PreconditionFailed"),         Fault::DoneBut(412, "PreconditionFailed"),
        Fault::Refuse(500, "InternalError"),              Fault::DoneBut(500, "InternalError"),
        Fault::Refuse(503, "SlowDown"),                   Fault::DoneBut(503, "SlowDown"),
        Fault::Refuse(429, "TooManyRequests"),            Fault::DoneBut(400, "RequestTimeout"),
        Fault::DoneWithoutAnswer,
    ];
    let objects = Objects::start();
    let (topic, lake) = (topic(1), Lake::at_objects(&objects));
    topic.produce(ids(0..10, 1));
    let running = lake.ingest(&topic, "t").with(&["-l", "1"]).start();
    lake.files("t").wait_rows(10);
    for (round, fault) in (1..).zip(&faults) {
        // More often than the client tries again by itself, every second time.
        let times = if round % 2 == 0 { 1 } else { 6 };
        objects.plan(times, fault.clone(), |request| request.method == "PUT" && request.path.contains(COMMIT));
        topic.produce(ids(round * 10..round * 10 + 10, 1));
        lake.files("t").wait_rows(u64::try_from(round * 10 + 10).expect("small"));
        objects.forget_plans();
    }
    running.stop();
    let all = i64::try_from(faults.len()).expect("few") * 10 + 10;
    lake.assert_once("t", 0..all, "answers");
    let commits = lake.files("t").version().expect("a table");
    assert_eq!(commits, u64::try_from(faults.len()).expect("few") + 1, "one version for each ten");
}

/// A store that wants less is waited for, aloud, whatever it is asked.
#[test]
fn throttling_is_waited_out() {
    let objects = Objects::start();
    let (topic, lake) = (topic(1), Lake::at_objects(&objects));
    topic.produce(ids(0..10, 1));
    let ingest = lake.ingest(&topic, "t").with(&["-l", "1"]);
    // From the very start: 20 requests, of all kinds.
    objects.plan(20, Fault::Refuse(503, "SlowDown"), |_| true);
    let running = ingest.start();
    lake.files("t").wait_rows(10);
    let ended = running.stop();
    assert!(ended.log.contains("SlowDown"), "{}", ended.log);
    lake.assert_once("t", 0..10, "throttled");
}

#[test]
fn a_store_that_is_killed_and_comes_back_is_waited_for() {
    let server = StoreServer::own(Kind::S3);
    let (topic, lake) = (topic(4), Lake::at_server(&server));
    let ingest = lake.ingest(&topic, "t").with(&["-l", "1"]);
    let pair = [ingest.start(), ingest.start()];
    let mut from = 0;
    for _ in 0..2 {
        topic.produce(ids(from..from + 100, 4));
        lake.files("t").wait_rows(u64::try_from(from).expect("positive") + 20);
        server.kill();
        topic.produce(ids(from + 100..from + 200, 4));
        // Whichever of them has partitions.
        wait_for("an outage", || {
            let logs = pair.each_ref().map(|running| running.log());
            if logs.iter().any(|log| log.contains("trying again")) { Ok(()) } else { Err(logs.concat()) }
        });
        server.start();
        from += 200;
        lake.files("t").wait_rows(u64::try_from(from).expect("positive"));
    }
    for running in pair {
        running.stop();
    }
    lake.assert_once("t", 0..400, "killed");
}

/// At full speed, with nowhere to put it: what is held stays within --memory-mb and a quarter.
#[test]
fn a_stalled_store_costs_no_memory_beyond_what_is_allowed() {
    const MEMORY_MB: u64 = 128;
    let stall = Duration::from_secs(if is_torture() { 60 } else { 8 });
    let messages: i64 = if is_torture() { 1_000_000 } else { 200_000 };
    let objects = Objects::start();
    let (topic, lake) = (topic(4), Lake::at_objects(&objects));
    topic.produce((0..1000).map(|id| noisy(id, 4)).collect::<Vec<_>>());
    let memory = MEMORY_MB.to_string();
    let options = ["-l", "1", "-m", "5000", "-b", "134217728", "--memory-mb", &memory, "--workers", "2"];
    let running = lake.ingest(&topic, "t").with(&options).start();
    lake.files("t").wait_rows(1000);
    objects.stall();
    for from in (1000..messages).step_by(100_000) {
        topic.produce((from..messages.min(from + 100_000)).map(|id| noisy(id, 4)).collect::<Vec<_>>());
    }
    wait_for("the store to be asked", || if objects.waiting() > 0 { Ok(()) } else { Err("nobody") });
    let mut most = 0;
    let start = std::time::Instant::now();
    while start.elapsed() < stall {
        most = most.max(running.own_memory_mb());
        std::thread::sleep(Duration::from_millis(100));
    }
    objects.release();
    while lake.files("t").rows() < u64::try_from(messages).expect("positive") {
        most = most.max(running.own_memory_mb());
        std::thread::sleep(Duration::from_millis(100));
    }
    running.stop();
    println!("{most} MB at the most, of {MEMORY_MB} allowed, stalled for {stall:?}");
    assert!(most <= MEMORY_MB * 5 / 4, "{most} MB");
    let counts = lake.files("t").query("select count(*) as n, count(distinct id) as ids from t");
    assert_eq!(counts, [json!({"n": messages, "ids": messages})]);
}

/// A line of 200 kB a second: data goes on where a request that must be whole at once would begin anew for ever.
#[test]
fn a_slow_line_is_used_as_it_is() {
    let server = StoreServer::shared(Kind::S3);
    let proxy = Proxy::before(server.address());
    let (topic, lake) = (topic(1), Lake::behind(server, &format!("http://{}", proxy.address())));
    proxy.limit(200_000);
    let rows: i64 = if is_torture() { 20_000 } else { 4_000 };
    topic.produce((0..rows).map(|id| noisy(id, 1)).collect::<Vec<_>>());
    let running = lake.ingest(&topic, "t").with(&["-l", "2", "-b", "134217728", "-m", "5000"]).start();
    lake.files("t").wait_rows(u64::try_from(rows).expect("positive"));
    running.stop();
    lake.assert_once("t", 0..rows, "slow");
}
