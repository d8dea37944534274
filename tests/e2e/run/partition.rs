//! Pipelines that keep nothing run by partition: several processes share the work, each sink goes on by itself, and
//! each version of each table is the answer over the input below its own frontier all the same (P1, P2, P5).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::ingest::{Ended, Running, run};
use crate::kills::POINTS;
use crate::run::job::{PARTITIONS, Pipeline, Sent};
use crate::run::judge;
use crate::wait_for;

/// One topic to three tables; the last one has rows of the others, and some twice.
const VIEWS: [(&str, &str); 3] = [
    ("errors", "SELECT id, n FROM event WHERE kind = 'error'"),
    ("slow", "SELECT id, kind, n * 2 AS twice FROM event WHERE n >= 50 AND kind <> 'error'"),
    ("all_of_it", "SELECT id, kind FROM event UNION ALL SELECT id, 'again' AS kind FROM event WHERE n < 10"),
];

/// The same pipeline with something to keep.
const COUNTS: (&str, &str) =
    ("counts", "SELECT kind, COUNT(*) AS rows_of_it, SUM(n) AS total FROM event GROUP BY kind");

struct Job {
    events: Sent,
    pipeline: Pipeline,
    over: AtomicBool,
}

impl Job {
    fn new() -> Self {
        let job = Self { events: Sent::new(PARTITIONS), pipeline: Pipeline::new(""), over: AtomicBool::new(false) };
        job.write(&VIEWS, "");
        job
    }

    /// Writes the pipeline's file, with further settings and views of its own.
    fn write(&self, views: &[(&str, &str)], more: &str) {
        let topic = self.events.topic.name();
        let view = |(name, sql): &(&str, &str)| {
            format!(
                "CREATE VIEW {name} AS {sql};
                 CREATE SINK {name}_sink FROM {name} WITH (delta = '{{here}}/{name}');\n"
            )
        };
        let views: String = views.iter().map(view).collect();
        let text = format!(
            "SET app_id = 'app'; SET state = '{{here}}/state'; SET step_latency_ms = 200; {more}
             CREATE SOURCE event (id BIGINT, kind TEXT, n BIGINT)
               WITH (kafka = '{{kafka}}', topic = '{topic}', kafka.session.timeout.ms = '6000');
             {views}"
        );
        self.pipeline.write("pipe.sql", &text);
    }

    fn send(&self, random: &mut StdRng, count: usize) {
        let event = |random: &mut StdRng| {
            let kind = ["error", "click", "view", "other"][random.random_range(0..4)];
            let value =
                json!({"id": random.random_range(0..1_000_000), "kind": kind, "n": random.random_range(0..100)});
            (random.random_range(0..PARTITIONS), value)
        };
        self.events.produce((0..count).map(|_| event(random)).collect());
    }

    /// Runs `work` while records come.
    fn under(&self, work: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = StdRng::seed_from_u64(5);
                while !self.over.load(Ordering::SeqCst) {
                    self.send(&mut random, 20);
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
            // However the work ends, the producer must end too, or the scope waits for ever.
            let ended = scope.spawn(work).join();
            self.over.store(true, Ordering::SeqCst);
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
        });
    }

    /// Each version of each table is right, all that was sent is in the newest, and `verify` agrees.
    fn judge(&self, views: &[(&str, &str)]) -> u64 {
        let mut versions = 0;
        for (name, _) in views {
            let judged = judge::judge(&judge::Case {
                sources: &[judge::Source {
                    name: "event",
                    columns: &[("id", "BIGINT"), ("kind", "VARCHAR"), ("n", "BIGINT")],
                    key: None,
                    records: self.events.records(),
                }],
                views,
                sinks: &[judge::Sink {
                    view: name,
                    table: &self.pipeline.table(name),
                    is_changelog: false,
                    columns: "*",
                }],
            });
            versions += judged.versions;
            for (partition, end) in self.events.ends() {
                let stands = judged.newest[*name].get(&("event".to_owned(), partition));
                assert_eq!(stands, Some(&end), "{name} at the end of partition {partition}");
            }
        }
        let kafka = self.events.topic.bootstrap();
        let verified = run(&["verify", &self.pipeline.file.display().to_string(), "-k", kafka]);
        assert_eq!(verified.code, Some(0), "{}", verified.log);
        versions
    }
}

fn assert_killed(ended: &Ended) {
    assert_eq!(ended.signal, Some(libc::SIGKILL), "ended by itself with {:?}:\n{}", ended.code, ended.log);
}

#[test]
fn two_processes_share_one_topic_for_three_tables_through_kills_and_rebalances() {
    let job = Job::new();
    let mut reached = BTreeSet::new();
    job.under(|| {
        let stays = job.pipeline.start(&["--workers", "2"]);
        for point in POINTS {
            let environment = [("LAKEWARD_CRASH_AT", point)];
            let mut guest = job.pipeline.start_with(&job.pipeline.file, &[], &environment);
            if point.ends_with("release") {
                guest.wait_ready();
                guest.signal(libc::SIGTERM);
            }
            if let Some(ended) = guest.wait_within(Duration::from_secs(20)) {
                assert_killed(&ended);
                reached.insert(point);
            } else {
                assert_killed(&guest.kill());
            }
        }
        // One that leaves in good order: the other takes over what it had.
        let guest = job.pipeline.start(&[]);
        guest.wait_ready();
        guest.stop();
        stays.stop();
    });
    let missed: Vec<_> = POINTS.iter().filter(|point| !reached.contains(*point)).collect();
    assert!(missed.is_empty(), "points that no process reached, so nothing is proven there: {missed:?}");
    job.pipeline.run_to_end(&[]);
    println!("{} versions judged", job.judge(&VIEWS));
    let operations = job.pipeline.table("all_of_it").actions("commitInfo");
    let compactions = operations.iter().filter(|(_, info)| info["operation"] == "OPTIMIZE").count();
    assert!(compactions > 0, "small files of two writers are made one");
    assert!(!job.pipeline.folder.join("state").exists(), "nothing is kept");
}

#[test]
fn a_pipeline_that_gains_state_goes_on_from_the_same_frontiers_and_back_again() {
    let job = Job::new();
    let mut random = StdRng::seed_from_u64(11);
    job.send(&mut random, 300);
    job.pipeline.run_to_end(&[]);
    job.judge(&VIEWS);
    let versions = |views: &[(&str, &str)]| -> Vec<_> {
        views.iter().map(|(name, _)| job.pipeline.table(name).version()).collect()
    };
    let before = versions(&VIEWS);
    let with_counts = [VIEWS[0], VIEWS[1], VIEWS[2], COUNTS];
    job.write(&with_counts, "");
    let refused = job.pipeline.run(&["--until", "end"]);
    assert!(refused.log.contains("--on-lost-state=replay"), "{}", refused.log);
    job.pipeline.run_to_end(&["--on-lost-state", "replay"]);
    assert_eq!(versions(&VIEWS), before, "what the tables have is not committed again");
    job.judge(&with_counts);
    job.send(&mut random, 300);
    job.pipeline.run_to_end(&[]);
    job.judge(&with_counts);
    // Without it again: the checkpoints that are left over are not asked for.
    job.write(&VIEWS, "");
    job.send(&mut random, 300);
    let pair = [job.pipeline.start(&["--until", "end"]), job.pipeline.start(&["--until", "end"])];
    for running in pair {
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        assert!(ended.log.contains("by partition"), "{}", ended.log);
    }
    job.judge(&VIEWS);
}

#[test]
fn a_sink_out_of_reach_holds_up_no_other() {
    let job = Job::new();
    job.pipeline.write(
        "pipe.sql",
        &std::fs::read_to_string(&job.pipeline.file)
            .expect("our file")
            .replace(&format!("{}/slow", job.pipeline.folder.display()), "s3://nowhere/slow"),
    );
    let environment = [
        ("AWS_ENDPOINT", "http://127.0.0.1:9"),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "nowhere"),
        ("AWS_ACCESS_KEY_ID", "none"),
        ("AWS_SECRET_ACCESS_KEY", "none"),
    ];
    let running = job.pipeline.start_with(&job.pipeline.file, &[], &environment);
    job.send(&mut StdRng::seed_from_u64(1), 100);
    job.pipeline.table("all_of_it").wait_rows(100);
    wait_for("errors", || match job.pipeline.table("errors").version() {
        Some(1..) => Ok(()),
        version => Err(format!("{version:?}")),
    });
    assert_eq!(running.get("/readyz").expect("an answer").0, 503, "one chain has no table");
    assert_killed(&running.kill());
}

/// Two topics into one table: two chains of one sink, each with its own start and its own answer to a gap.
#[test]
fn sources_of_one_table_begin_and_skip_each_by_itself() {
    let (old, new) = (Sent::new(1), Sent::new(1));
    let pipeline = Pipeline::new(&format!(
        "SET app_id = 'app'; SET step_latency_ms = 100;
         CREATE SOURCE old (id BIGINT) WITH (kafka = '{{kafka}}', topic = '{}', on_gap = 'skip');
         CREATE SOURCE new (id BIGINT) WITH (kafka = '{{kafka}}', topic = '{}', start = 'latest');
         CREATE VIEW both AS SELECT id, 'old' AS was FROM old UNION ALL SELECT id, 'new' AS was FROM new;
         CREATE SINK both_sink FROM both WITH (delta = '{{here}}/both');",
        old.topic.name(),
        new.topic.name()
    ));
    let ids = |range: std::ops::Range<i64>| -> Vec<(i32, Value)> { range.map(|id| (0, json!({"id": id}))).collect() };
    old.produce(ids(0..10));
    new.produce(ids(1000..1010));
    pipeline.run_to_end(&[]);
    assert_eq!(pipeline.table("both").ids(), (0..10).collect::<Vec<_>>());
    old.produce(ids(10..30));
    old.topic.delete_records(0, 20);
    new.produce(ids(1010..1015));
    let ended = pipeline.run_to_end(&[]);
    assert!(ended.log.contains("gap written down"), "{}", ended.log);
    let expected: Vec<i64> = (0..10).chain(20..30).chain(1010..1015).collect();
    assert_eq!(pipeline.table("both").ids(), expected);
    let verified = run(&["verify", &pipeline.file.display().to_string()]);
    assert_eq!(verified.code, Some(0), "{}", verified.log);
    assert!(
        verified.log.contains("accepted") && verified.log.contains("went on at offset 20 instead of 10"),
        "{}",
        verified.log
    );
}

#[test]
fn rows_that_fail_are_told_with_the_record_that_they_are_of() {
    let sent = Sent::new(1);
    let text = |policy: &str| {
        format!(
            "SET app_id = 'app'; SET step_latency_ms = 100;
             CREATE SOURCE t (id BIGINT, d BIGINT)
               WITH (kafka = '{{kafka}}', topic = '{}', on_bad_record = '{policy}');
             CREATE VIEW v AS SELECT id, 100 / d AS q FROM t WHERE id <> 3;
             CREATE SINK v_sink FROM v WITH (delta = '{{here}}/v');",
            sent.topic.name()
        )
    };
    let pipeline = Pipeline::new(&text("skip"));
    let rows = [json!({"id": 1, "d": 5}), json!({"id": "x"}), json!({"id": 3, "d": 0}), json!({"id": 4, "d": 0})];
    sent.produce(rows.into_iter().chain([json!({"id": 5, "d": 50})]).map(|value| (0, value)).collect());
    let running = pipeline.start(&[]);
    pipeline.table("v").wait_txn("app-t-0", 4);
    assert_eq!(running.metric("lakeward_failed_rows_total"), 1.0);
    assert_eq!(running.metric("lakeward_bad_records_total"), 1.0);
    let log = running.stop().log;
    let line = log.lines().find(|line| line.contains("row left out")).unwrap_or_else(|| panic!("no line in {log}"));
    for part in ["offset=3", "partition=0", "ivide by zero", "\"id\":4", "Project"] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    assert_eq!(pipeline.table("v").ids(), [1, 5]);
    let verified = run(&["verify", &pipeline.file.display().to_string()]);
    assert_eq!(verified.code, Some(0), "{}", verified.log);
    // One that ends takes the others with it, in good order, though they could go on.
    let more = format!(
        "CREATE SOURCE other (id BIGINT) WITH (kafka = '{{kafka}}', topic = '{}');
         CREATE SINK other_sink FROM other WITH (delta = '{{here}}/other');",
        sent.topic.name()
    );
    let ended = Pipeline::new(&(text("stop") + &more)).run(&[]);
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    assert!(ended.log.contains("-0 at offset 1") && ended.log.contains("on_bad_record = 'skip'"), "{}", ended.log);
}

#[test]
fn check_and_explain_say_how_a_pipeline_runs_and_why() {
    let job = Job::new();
    let says = |views: &[(&str, &str)], words: &[&str]| {
        job.write(views, "");
        for command in ["check", "explain"] {
            let ended = run(&[command, &job.pipeline.file.display().to_string()]);
            assert_eq!(ended.code, Some(0), "{}", ended.log);
            assert!(words.iter().all(|word| ended.log.contains(word)), "{command}, {words:?}: {}", ended.log);
        }
    };
    says(&VIEWS, &["by partition, in any number of processes"]);
    says(&[VIEWS[0], COUNTS], &["by step, in one process: sink counts_sink does more than append"]);
    says(&[("d", "SELECT a.id FROM event a JOIN event b ON a.id = b.id")], &["by step", "Join", "keeps"]);
    says(
        &[("one", "SELECT 1 AS id UNION ALL SELECT id FROM event")],
        &["by step", "Unit has its rows in the first step"],
    );
    job.write(&VIEWS, "");
    let text = std::fs::read_to_string(&job.pipeline.file).expect("our file");
    job.pipeline.write("pipe.sql", &text.replace("topic = ", "trim = true, topic = "));
    let trimmed = run(&["check", &job.pipeline.file.display().to_string()]);
    assert!(trimmed.log.contains("by step, in one process: source event is trimmed"), "{}", trimmed.log);
    job.write(&VIEWS, "");
    let checked = run(&["check", &job.pipeline.file.display().to_string(), "--offline"]);
    assert!(checked.log.contains("SET state is not used"), "{}", checked.log);
    let status = || run(&["status", &job.pipeline.file.display().to_string()]);
    job.send(&mut StdRng::seed_from_u64(3), 50);
    job.pipeline.run_to_end(&[]);
    assert!(status().log.contains("common frontier: event-0"), "all stand level: {}", status().log);
    let restored = job.pipeline.run(&["--until", "end", "--on-restore", "accept"]);
    assert_eq!(restored.code, Some(0), "{}", restored.log);
}

#[test]
fn a_frozen_process_that_wakes_commits_nothing_twice() {
    let job = Job::new();
    job.under(|| {
        let mut frozen: Running = job.pipeline.start(&[]);
        job.pipeline.table("slow").wait_version(2);
        frozen.freeze();
        let other = job.pipeline.start(&[]);
        let seen = job.pipeline.table("slow").version().unwrap_or(0);
        job.pipeline.table("slow").wait_version(seen + 3);
        frozen.thaw();
        job.pipeline.table("slow").wait_version(seen + 6);
        frozen.stop();
        other.stop();
    });
    job.pipeline.run_to_end(&[]);
    job.judge(&VIEWS);
}

/// What is there at the start is passed over, what comes later is not: neither after a kill, nor in partitions that are
/// added while nobody runs.
#[test]
fn partitions_added_to_a_topic_read_from_its_end_are_read_from_their_start() {
    let sent = Sent::new(2);
    let pipeline = Pipeline::new(&format!(
        "SET app_id = 'app'; SET step_latency_ms = 100;
         CREATE SOURCE t (id BIGINT) WITH (kafka = '{{kafka}}', topic = '{}', start = 'latest');
         CREATE SINK s FROM t WITH (delta = '{{here}}/s');",
        sent.topic.name()
    ));
    let one = |partition: i32, id: i64| (partition, json!({"id": id}));
    sent.produce(vec![one(0, 1), one(1, 2)]);
    let anchored = pipeline.start_with(&pipeline.file, &[], &[("LAKEWARD_CRASH_AT", "after-put")]);
    assert_killed(&anchored.wait());
    assert_eq!(pipeline.table("s").txns().len(), 2, "both partitions begin in one commit");
    sent.produce(vec![one(0, 3), one(1, 4)]);
    sent.topic.grow(3);
    sent.produce(vec![one(2, 5)]);
    let running = pipeline.start(&[]);
    pipeline.table("s").wait_rows(3);
    sent.topic.grow(4);
    sent.produce(vec![one(3, 6)]);
    pipeline.table("s").wait_rows(4);
    running.stop();
    assert_eq!(pipeline.table("s").ids(), [3, 4, 5, 6]);
}

/// A group shares its partitions, so two pipelines must never have one: each would lack what the other read.
#[test]
fn two_pipelines_of_the_same_names_share_nothing() {
    let (job, other) = (Job::new(), Pipeline::new(""));
    let text = std::fs::read_to_string(&job.pipeline.file).expect("our file");
    let (here, there) = (job.pipeline.folder.display().to_string(), other.folder.display().to_string());
    other.write("pipe.sql", &text.replace(&here, &there));
    let pair = [job.pipeline.start(&[]), other.start(&[])];
    pair.iter().for_each(Running::wait_ready);
    job.send(&mut StdRng::seed_from_u64(9), 200);
    let all = |pipeline: &Pipeline| pipeline.table("all_of_it").wait_rows(200);
    all(&job.pipeline);
    all(&other);
    pair.into_iter().for_each(|running| drop(running.stop()));
}
