//! Where partitions begin, by offset and by time; offsets shown, and set by a person.

use lakeward_testkit::{Broker, Message, Topic};
use serde_json::{Value, json};

use crate::ingest::{Ended, Ingest, run};
use crate::table::Table;
use crate::{ids, topic};

fn range(from: i64, to: i64) -> Vec<i64> {
    (from..to).collect()
}

fn at(table: &Table) -> String {
    table.path.display().to_string()
}

fn brokers() -> &'static str {
    Broker::shared().bootstrap()
}

/// `offsets set` of the job `app`, with further arguments.
fn set(table: &Table, arguments: &[&str]) -> Ended {
    run(&[&["offsets", "set", &at(table), "-a", "app"], arguments].concat())
}

fn assert_sound(table: &Table, topic: bool) -> Ended {
    let path = at(table);
    let arguments: &[&str] = if topic { &["verify", &path, "-k", brokers()] } else { &["verify", &path] };
    let ended = run(arguments);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    ended
}

fn newest_info(table: &Table) -> Value {
    table.actions("commitInfo").pop().expect("a commitInfo").1
}

/// Ids 0.. in one partition, of which `n` is from the time n seconds after 2024 began.
fn timed(topic: &Topic, ids: std::ops::Range<i64>) {
    const START_MS: i64 = 1_704_067_200_000;
    topic.produce(ids.map(|id| Message::new(json!({"id": id}).to_string()).to(0).at(START_MS + id * 1000)));
}

#[test]
fn p46_a_start_by_offset_and_by_time_is_written_first_and_stays() {
    #[rustfmt::skip] // columns: where, the first id
    let cases = [
        ("earliest",                           0),
        ("offsets:0=4",                        4),
        ("timestamp:2024-01-01T00:00:06Z",     6),
        ("timestamp:2024-01-01T00:00:06.500Z", 7),
        ("timestamp:1704067208000",            8),
        ("timestamp:2024-01-01T01:00:00Z",     10),
        ("latest",                             10),
    ];
    for (start, first) in cases {
        // What is of 2024 is deleted at once otherwise.
        let (topic, table) = (Broker::shared().topic_with("timed", 1, &[("retention.ms", "-1")]), Table::t());
        timed(&topic, 0..10);
        Ingest::new(&topic, &table).with(&["--start", start]).run_to_end();
        assert_eq!(table.ids(), range(first, 10), "{start}");
        if start != "earliest" {
            let (_, info) =
                &table.actions("commitInfo").into_iter().find(|(version, _)| *version == 1).expect("a start");
            assert_eq!(table.txns()["app-0"], 9, "{start}");
            let by = &info["lakeward"]["by"];
            assert!(by["why"].as_str().is_some_and(|why| why.starts_with("--start ")), "{start}: {info}");
            assert!(by["who"].as_str().is_some_and(|who| !who.is_empty()), "{start}: {info}");
        }
        // Said again, it changes nothing: the table knows where it is.
        timed(&topic, 10..12);
        Ingest::new(&topic, &table).with(&["--start", start]).run_to_end();
        assert_eq!(table.ids(), range(first, 12), "{start}");
        assert_sound(&table, true);
    }
}

#[test]
fn starts_that_make_no_sense_or_contradict_each_other_change_nothing() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..5, 1));
    #[rustfmt::skip] // columns: options, exit code, a word
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--start", "middle"],                             2,  "want earliest"),
        (&["--start", "timestamp:2199-01-01"],               2,  "future"),
        (&["--start", "latest", "-o", "earliest"],           2,  "auto-offset-reset"),
        (&["--start", "latest", "--seek_offsets", "{}"],     2,  "seek-offsets"),
        (&["--start", "offsets:0=9"],                        78, "holds 0 to 5"),
        (&["--start", "offsets:0"],                          2,  "PARTITION=OFFSET"),
    ];
    for (options, code, word) in cases {
        let ended = Ingest::new(&topic, &table).with(options).with(&["-e"]).run();
        assert_eq!(ended.code, Some(code), "{options:?}: {}", ended.log);
        assert!(ended.log.contains(word), "{options:?}: {}", ended.log);
    }
    assert_eq!(table.version(), Some(0));
    // K07's rule holds for it as well.
    Ingest::new(&topic, &table).run_to_end();
    topic.produce(ids(5..20, 1));
    let ended = Ingest::new(&topic, &table).with(&["--start", "offsets:0=15", "-e"]).run();
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    assert!(ended.log.contains("lakeward offsets set"), "{}", ended.log);
    assert_eq!(table.ids(), range(0, 5));
}

#[test]
fn offsets_are_shown_with_who_stored_them() {
    let (topic, table) = (topic(2), Table::t());
    topic.produce(ids(0..10, 2));
    Ingest::new(&topic, &table).with(&["--start", "offsets:0=2"]).run_to_end();
    let ended = run(&["offsets", "show", &at(&table)]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    for word in ["app-0", "app-1", topic.name()] {
        assert!(ended.log.contains(word), "no {word}: {}", ended.log);
    }
    let ended = run(&["offsets", "show", &at(&table), "--output", "json"]);
    let shown: Value = ended.log.lines().find_map(|line| serde_json::from_str(line).ok()).expect("JSON");
    assert_eq!(shown["offsets"][0]["next_offset"], json!(5), "{shown}");
    assert_eq!(shown["offsets"][1]["app_id"], json!("app"), "{shown}");
    let none = run(&["offsets", "show", &at(&Table::t())]);
    assert!(none.code == Some(0) && none.log.contains("no txn"), "{}", none.log);
}

#[test]
fn set_forwards_is_shown_first_and_leaves_a_gap_that_is_written_down() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    Ingest::new(&topic, &table).run_to_end();
    topic.produce(ids(10..20, 1));
    let version = table.version();
    let dry = set(&table, &["--to", "offsets:0=15", "-k", brokers()]);
    assert_eq!(dry.code, Some(0), "{}", dry.log);
    for word in ["5 offsets never taken in", "0..20", "nothing was written", "--yes", "--reason"] {
        assert!(dry.log.contains(word), "no '{word}': {}", dry.log);
    }
    assert_eq!(table.version(), version);
    // Without a reason nobody knows why later.
    assert_eq!(set(&table, &["--to", "offsets:0=15", "--yes"]).code, Some(2));
    assert_eq!(table.version(), version);

    let done = set(&table, &["--to", "offsets:0=15", "--yes", "--reason", "a bad stretch"]);
    assert_eq!(done.code, Some(0), "{}", done.log);
    assert_eq!(table.txns()["app-0"], 14);
    let info = newest_info(&table);
    assert!(info["userMetadata"].as_str().is_some_and(|text| text.ends_with("a bad stretch")), "{info}");
    assert_eq!(info["lakeward"]["gaps"][0]["to"], json!(15), "{info}");
    assert_eq!(info["operationParameters"]["outputMode"], json!("Complete"), "{info}");
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), [range(0, 10), range(15, 20)].concat());
    let verified = assert_sound(&table, true);
    assert!(verified.log.contains("accepted") && verified.log.contains("a bad stretch"), "{}", verified.log);
    // Again: there is nothing to do, and nothing is written.
    let version = table.version();
    let again = set(&table, &["--to", "offsets:0=20", "--yes", "--reason", "again"]);
    assert!(again.code == Some(0) && again.log.contains("nothing to do"), "{}", again.log);
    assert_eq!(table.version(), version);
}

#[test]
fn set_backwards_needs_force_and_says_what_comes_twice() {
    let (topic, table) = (topic(2), Table::t());
    topic.produce(ids(0..20, 2));
    Ingest::new(&topic, &table).run_to_end();
    let version = table.version();
    let dry = set(&table, &["--to", "offsets:0=6", "-k", brokers()]);
    assert!(dry.code == Some(0) && dry.log.contains("TWICE") && dry.log.contains("--force"), "{}", dry.log);
    let refused = set(&table, &["--to", "offsets:0=6", "--yes", "--reason", "replay"]);
    assert_eq!(refused.code, Some(78), "{}", refused.log);
    for word in ["partition 0", "6 to 9", "second time", "--force"] {
        assert!(refused.log.contains(word), "no '{word}': {}", refused.log);
    }
    assert_eq!(table.version(), version, "nothing was written");

    let done = set(&table, &["--to", "earliest", "-k", brokers(), "--force", "--yes", "--reason", "replay"]);
    assert_eq!(done.code, Some(0), "{}", done.log);
    assert_eq!(table.txns(), [("app-0".to_owned(), -1), ("app-1".to_owned(), -1)].into());
    Ingest::new(&topic, &table).run_to_end();
    let mut twice = [range(0, 20), range(0, 20)].concat();
    twice.sort_unstable();
    assert_eq!(table.ids(), twice);
    let verified = assert_sound(&table, true);
    assert!(verified.log.contains("accepted"), "{}", verified.log);
}

#[test]
fn offsets_that_are_nowhere_are_refused() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    Ingest::new(&topic, &table).run_to_end();
    #[rustfmt::skip] // columns: arguments, exit code, a word
    let cases: [(&[&str], i32, &str); 4] = [
        (&["--to", "offsets:0=11", "-k", brokers()],    78, "holds 0 to 10"),
        (&["--to", "offsets:7=1", "-k", brokers()],     78, "no partition 7"),
        (&["--to", "latest"],                           2,  "-k"),
        (&["--to", "never"],                            2,  "want earliest"),
    ];
    for (arguments, code, word) in cases {
        let ended = set(&table, &[arguments, &["--yes", "--reason", "x"]].concat());
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.log);
        assert!(ended.log.contains(word), "{arguments:?}: {}", ended.log);
    }
    let ended = run(&["offsets", "set", &at(&table), "-a", "nobody", "--to", "latest", "-k", brokers()]);
    assert!(ended.code == Some(2) && ended.log.contains("--topic"), "{}", ended.log);
    assert_eq!(table.txns()["app-0"], 9);
}

/// A running job is fenced by it: it goes on where it was set, or stops where that is behind it.
#[test]
fn a_running_job_does_not_write_past_what_was_set() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    let held = Ingest::new(&topic, &table).with(&["-l", "20", "-m", "5000", "-b", "134217728"]).start();
    held.wait_read(10);
    let done = set(&table, &["--to", "offsets:0=5", "--topic", topic.name(), "--yes", "--reason", "skip"]);
    assert_eq!(done.code, Some(0), "{}", done.log);
    table.wait_txn("app-0", 9);
    held.stop();
    assert_eq!(table.ids(), range(5, 10), "what it held of before was let go of");

    let running = Ingest::new(&topic, &table).start();
    running.wait_ready();
    let done = set(&table, &["--to", "offsets:0=5", "--force", "--yes", "--reason", "replay"]);
    assert_eq!(done.code, Some(0), "{}", done.log);
    topic.produce(ids(10..12, 1));
    let ended = running.wait();
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    assert!(ended.log.contains("set it back"), "{}", ended.log);
    assert_eq!(table.ids(), range(5, 10));
    Ingest::new(&topic, &table).run_to_end();
    assert_sound(&table, true);
}

/// After a RESTORE the rows say where it goes on, and that is neither a gap nor twice.
#[test]
fn a_restored_table_is_set_right() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..50, 1));
    Ingest::new(&topic, &table).with(&["-m", "5000"]).run_to_end();
    let version = table.version();
    topic.produce(ids(50..100, 1));
    Ingest::new(&topic, &table).with(&["-m", "5000"]).run_to_end();
    table.ask(json!({"do": "restore", "version": version}));
    assert_eq!(Ingest::new(&topic, &table).with(&["-e"]).run().code, Some(65));
    let done = set(&table, &["--to", "offsets:0=50", "-k", brokers(), "--yes", "--reason", "after the restore"]);
    assert_eq!(done.code, Some(0), "{}", done.log);
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), range(0, 100));
    assert_sound(&table, false);
}

#[test]
fn a_pipelines_offsets_are_its_states() {
    let (topic, folder) = (topic(1), crate::scratch("pipeline"));
    std::fs::create_dir_all(&folder).expect("make a folder");
    topic.produce(ids(0..3, 1));
    let (file, table) = (folder.join("p.sql"), folder.join("t").display().to_string());
    let sql = format!(
        "CREATE SOURCE s (id BIGINT) WITH (kafka = '{}', topic = '{}'); CREATE SINK t FROM s WITH (delta = '{table}');",
        brokers(),
        topic.name()
    );
    std::fs::write(&file, sql).expect("write a pipeline");
    let ended = run(&["run", &file.display().to_string(), "--until", "end"]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let ended =
        run(&["offsets", "set", &table, "-a", "p-s", "--to", "offsets:0=0", "--force", "--yes", "--reason", "x"]);
    assert!(ended.code == Some(78) && ended.log.contains("pipeline"), "{:?} {}", ended.code, ended.log);
    std::fs::remove_dir_all(&folder).expect("remove the folder");
}
