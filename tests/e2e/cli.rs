//! The command line: usage, exit codes, refusals, verify and status.

use serde_json::{Value, json};

use crate::ingest::{Ingest, run};
use crate::table::{T, Table, field, schema};
use crate::{ids, repository, topic};

#[test]
fn k82_exit_codes() {
    let (topic, table) = (topic(1), Table::t());
    let path = table.path.display().to_string();
    #[rustfmt::skip] // columns: arguments, exit code
    let cases: [(&[&str], i32); 9] = [
        (&["--help"],                                    0),
        (&["--version"],                                 0),
        (&[],                                            2),
        (&["ingest"],                                    2),
        (&["ingest", "t", &path, "--no-such-option"],    2),
        (&["ingest", "t", &path, "-l", "soon"],          2),
        (&["ingest", "t", &path, "-o", "middle"],        2),
        (&["ingest", "t", &path, "-K", "no-value"],      2),
        (&["no-such-command"],                           2),
    ];
    for (arguments, code) in cases {
        let ended = run(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.log);
    }
    topic.produce(ids(0..3, 1));
    Ingest::new(&topic, &table).run_to_end();
}

#[test]
fn k46_two_values_after_one_option_are_a_clear_error() {
    let (topic, table) = (topic(1), Table::t());
    for options in [&["-t", "name: a", "date: c"][..], &["-K", "fetch.wait.max.ms=5", "fetch.min.bytes=1"]] {
        let ended = Ingest::new(&topic, &table).with(options).with(&["-e"]).run();
        assert_eq!(ended.code, Some(2), "{}", ended.log);
        assert!(ended.log.contains(options[2]), "{}", ended.log);
    }
}

#[test]
fn unknown_settings_of_kafka_and_transforms_that_do_not_parse_are_refused_before_anything() {
    let (topic, table) = (topic(1), Table::t());
    for options in
        [["-K", "no.such.setting=1"], ["-t", "name: substr("], ["-t", "no colon"], ["-t", "name: no_such_function(a)"]]
    {
        let ended = Ingest::new(&topic, &table).with(&options).with(&["-e"]).run();
        assert!(matches!(ended.code, Some(2 | 78)), "{options:?}: {:?} {}", ended.code, ended.log);
    }
    assert_eq!(table.version(), Some(0));
}

/// The peer's names of long options and its environment.
#[test]
fn the_peers_spelling_and_environment() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..3, 1));
    let ended = Ingest::new(&topic, &table)
        .with(&["--auto_offset_reset", "earliest", "--kafka_setting", "fetch.min.bytes=1", "--ends_at_latest_offsets"])
        .env("TRANSFORMS", "name: date")
        .run();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert_eq!(table.query("select distinct name from t"), [json!({"name": "2024-01-01"})]);
}

#[test]
fn brokers_that_refuse_us_or_are_not_there_are_told_apart() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..3, 1));
    let mut running = Ingest::new(&topic, &table).with(&["-k", "127.0.0.1:1"]).start();
    running.wait_log("127.0.0.1:1");
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(running.is_running(), "an outage is waited out: {}", running.log());
    running.signal(libc::SIGTERM);
    assert_eq!(running.wait().code, Some(0), "stops when asked, though nobody answers");
    assert_eq!(table.version(), Some(0));
}

/// Tables that need what we do not do are refused by name before the first message is read.
#[test]
fn k86_features_that_are_not_honoured_are_refused_by_name() {
    let generated =
        json!({"name": "g", "type": "long", "nullable": true, "metadata": {"delta.generationExpression": "rand(id)"}});
    let fields = [field("id", "long", true), generated];
    let with = |features: &[&str]| json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": features}});
    let old = json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}});
    let plain = schema(T);
    let cases: [(&str, Value, Value, Value); 4] = [
        ("positive", old.clone(), plain.clone(), json!({"delta.constraints.positive": "n / 2 > 0"})),
        ("enerat", old, json!({"type": "struct", "fields": fields}), json!({})),
        ("identityColumns", with(&["identityColumns"]), plain.clone(), json!({})),
        ("somethingNew", with(&["somethingNew"]), plain, json!({})),
    ];
    for (word, protocol, schema, properties) in cases {
        let (topic, table) = (topic(1), Table::absent());
        let mut actions = crate::table::first_version(&schema, &[], &properties);
        actions[0] = protocol;
        table.put(0, &actions);
        topic.produce(ids(0..3, 1));
        let ended = Ingest::new(&topic, &table).with(&["-e"]).run();
        let identity_alone = word == "identityColumns" && ended.code == Some(0); // no column is one: nothing to honour
        assert!(identity_alone || ended.code == Some(78), "{word}: {:?} {}", ended.code, ended.log);
        assert!(identity_alone || ended.log.contains(word), "{word} is not named: {}", ended.log);
        assert!(identity_alone || table.version() == Some(0), "{word}: something was written");
    }
}

#[test]
fn k86_append_only_tables_are_fine() {
    let (topic, table) = (topic(1), Table::made(&schema(T), &["date"], &json!({"delta.appendOnly": "true"})));
    topic.produce(ids(0..3, 1));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.ids(), [0, 1, 2]);
}

#[test]
fn verify_proves_a_chain_and_names_what_breaks_it() {
    let (topic, table) = (topic(2), Table::t());
    let path = table.path.display().to_string();
    topic.produce(ids(0..60, 2));
    Ingest::new(&topic, &table).run_to_end();
    let good = run(&["verify", &path]);
    assert_eq!(good.code, Some(0), "{}", good.log);
    let with_topic = run(&["verify", &path, "-k", lakeward_testkit::Broker::shared().bootstrap()]);
    assert_eq!(with_topic.code, Some(0), "{}", with_topic.log);
    let as_json = run(&["verify", &path, "--output", "json"]);
    assert!(as_json.log.lines().any(|line| line.trim_start().starts_with('{')), "{}", as_json.log);

    // A commit that is ours, once more: its rows are in the table twice.
    let version = table.version().expect("a version");
    let mut again = table.commits()[&version].clone();
    for action in &mut again {
        if let Some(path) = action.pointer_mut("/add/path") {
            let from = table.path.join(path.as_str().expect("a path"));
            let to = from.with_file_name("copy.parquet");
            std::fs::copy(&from, &to).expect("copy a file");
            *path = json!(format!(
                "{}copy.parquet",
                path.as_str()
                    .and_then(|path| path.rsplit_once('/'))
                    .map(|(folder, _)| format!("{folder}/"))
                    .unwrap_or_default()
            ));
        }
    }
    table.commit(&again);
    let twice = run(&["verify", &path]);
    assert_eq!(twice.code, Some(65), "{}", twice.log);
    assert!(twice.log.contains(&(version + 1).to_string()), "names the version: {}", twice.log);
}

/// Commits of the peer carry no spans: what they prove is less, but no fault is made of that.
#[test]
fn verify_of_tables_that_the_peer_wrote() {
    for name in ["unpartitioned", "checkpointed", "seek", "deadletters"] {
        let table = repository().join("tests/fixtures").join(name).join("table");
        let ended = run(&["verify", &table.display().to_string()]);
        assert_eq!(ended.code, Some(0), "{name}: {}", ended.log);
    }
}

#[test]
fn verify_of_what_is_no_table() {
    let table = Table::absent();
    let ended = run(&["verify", &table.path.display().to_string()]);
    assert!(ended.code.is_some_and(|code| code != 0), "{}", ended.log);
}

#[test]
fn status_shows_frontier_and_lag() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    Ingest::new(&topic, &table).run_to_end();
    topic.produce(ids(10..17, 1));
    let ended =
        run(&["status", &table.path.display().to_string(), "-k", lakeward_testkit::Broker::shared().bootstrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    for word in ["app", "10", "7"] {
        assert!(ended.log.contains(word), "no {word}: {}", ended.log);
    }
}

/// What a new user sees first, small.
#[test]
fn the_demo_ends_well() {
    let folder = crate::scratch("demo");
    // The second run starts clean.
    for _ in 0..2 {
        let ended = run(&["demo", &folder.display().to_string(), "--messages", "60000"]);
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        let line = |name: &str| ended.log.lines().find_map(|line| line.trim().strip_prefix(name).map(str::trim));
        assert_eq!((line("lost"), line("twice")), (Some("0"), Some("0")), "{}", ended.log);
        assert!(line("rows").is_some_and(|rows| rows.starts_with("60,000 ")), "{}", ended.log);
    }
    std::fs::remove_dir_all(&folder).expect("remove the demo");
}

#[test]
fn the_licence_and_the_map_are_there() {
    for name in ["LICENSE", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        assert!(repository().join(name).exists(), "{name}");
    }
}
