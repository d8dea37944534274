//! `lakeward maintain`, beside jobs and rivals: no row comes or goes, and every reader and `verify` agree.

use lakeward_testkit::Broker;
use serde_json::{Value, json};

use crate::ingest::{Ended, Ingest, run};
use crate::table::{Table, field};
use crate::{ids, json, topic};

fn maintain(table: &Table, arguments: &[&str]) -> Ended {
    let path = table.path.display().to_string();
    run(&[&["maintain", &path], arguments].concat())
}

fn done(table: &Table, arguments: &[&str]) -> Value {
    let ended = maintain(table, &[arguments, &["--output", "json"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    serde_json::from_str(ended.log.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {}", ended.log))
}

fn assert_sound(table: &Table) {
    let path = table.path.display().to_string();
    let ended = run(&["verify", &path, "-k", Broker::shared().bootstrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
}

/// Live files by the log.
fn files(table: &Table) -> usize {
    let mut live = std::collections::BTreeSet::new();
    for actions in table.commits().values() {
        for action in actions {
            let path = |kind: &str| Some(action.get(kind)?["path"].as_str()?.to_owned());
            if let Some(gone) = path("remove") {
                live.remove(&gone);
            }
            if let Some(added) = path("add") {
                live.insert(added);
            }
        }
    }
    live.len()
}

#[test]
fn a_job_goes_on_while_its_files_are_made_few() {
    let (topic, table) = (topic(2), Table::t());
    // A commit for each few messages.
    let job = Ingest::new(&topic, &table).with(&["-l", "1", "-b", "1", "-m", "20"]);
    topic.produce(ids(0..200, 2));
    let running = job.start();
    table.wait_rows(200);
    let (mut commits, mut end) = (0, 200);
    for round in 1..=5 {
        topic.produce(ids(end..end + 100, 2));
        end += 100;
        commits += done(&table, &["--compact"])["compact"]["commits"].as_u64().expect("commits");
        table.wait_rows(u64::try_from(end).expect("rows"));
        assert_eq!(table.ids(), (0..end).collect::<Vec<_>>(), "round {round}");
    }
    assert_eq!(running.stop().code, Some(0));
    assert!(commits > 0, "something was compacted while the job ran");
    // With nobody beside it all files of the one value become one.
    let _ = done(&table, &["--compact"]);
    assert_eq!(files(&table), 1);
    assert_eq!(table.ids(), (0..end).collect::<Vec<_>>());
    assert_sound(&table);
    // The next start goes on where the last one ended.
    topic.produce(ids(end..end + 10, 2));
    job.run_to_end();
    assert_eq!(table.ids(), (0..end + 10).collect::<Vec<_>>());
    assert_sound(&table);
}

#[test]
fn all_of_it_is_done_where_nothing_is_asked_and_a_dry_run_writes_nothing() {
    let (topic, table) = (topic(1), Table::new(&[("id", "long"), ("day", "string")], &["day"]));
    let job = Ingest::new(&topic, &table);
    for (round, day) in [(0, "a b"), (1, "a b"), (2, "%2F=é"), (3, "%2F=é"), (4, "")] {
        topic.produce(json((0..10).map(|id| json!({"id": round * 10 + id, "day": day}))));
        job.run_to_end();
    }
    let rows = table.query("SELECT id, day FROM t ORDER BY id");
    let (version, on_disk) = (table.version(), table.files_on_disk());
    let dry = maintain(&table, &["--dry-run"]);
    assert_eq!((dry.code, table.version(), table.files_on_disk()), (Some(0), version, on_disk), "{}", dry.log);
    assert!(dry.log.contains("would rewrite 4 files"), "{}", dry.log);
    let ended = maintain(&table, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    for line in
        ["4 files of", "made into 2 files of", "checkpoint  written", "expire      deleted 0", "vacuum      deleted 0"]
    {
        assert!(ended.log.contains(line), "{line}: {}", ended.log);
    }
    assert_eq!(files(&table), 3);
    assert_eq!(table.query("SELECT id, day FROM t ORDER BY id"), rows);
    let again = maintain(&table, &[]);
    assert!(again.log.contains("nothing to do") && again.log.contains("there already"), "{}", again.log);
    // What the table no longer names goes once somebody means it; every row stays.
    let refused = maintain(&table, &["--vacuum", "--retain", "0"]);
    assert_eq!(refused.code, Some(78), "{}", refused.log);
    assert!(refused.log.contains("needs --force"), "{}", refused.log);
    assert_eq!(done(&table, &["--vacuum", "--retain", "0", "--force"])["vacuum"]["files"], json!(4));
    assert_eq!(table.query("SELECT id, day FROM t ORDER BY id"), rows);
    job.run_to_end();
    assert_sound(&table);
}

#[test]
fn rows_keep_their_values_when_they_move() {
    let kinds = [
        ("id", "long"),
        ("small", "short"),
        ("text", "string"),
        ("flag", "boolean"),
        ("price", "decimal(20,4)"),
        ("at", "timestamp"),
        ("on", "date"),
        ("float", "double"),
        ("raw", "binary"),
    ];
    let mut fields: Vec<Value> = kinds.iter().map(|(name, kind)| field(name, kind, true)).collect();
    fields.push(json!({"name": "deep", "nullable": true, "metadata": {}, "type": {"type": "struct", "fields": [
        {"name": "list", "nullable": true, "metadata": {}, "type": {"type": "array", "elementType": "long", "containsNull": true}},
    ]}}));
    let table = Table::made(&json!({"type": "struct", "fields": fields}), &[], &json!({}));
    let topic = topic(1);
    let job = Ingest::new(&topic, &table);
    for id in 0..6 {
        let full = json!({
            "id": id, "small": -7, "text": "héé\u{0}", "flag": true, "price": 1234567890123456.7891, "at": "2024-02-29T23:59:59.999999Z",
            "on": "1969-12-31", "float": -0.0, "deep": {"list": [1, null, 3]},
        });
        let empty = json!({"id": id});
        topic.produce(json([if id % 2 == 0 { full } else { empty }]));
        job.run_to_end();
    }
    let read = "SELECT * FROM t ORDER BY id";
    let before = table.query(read);
    assert_eq!(done(&table, &["--compact"])["compact"]["removed_files"], json!(6));
    assert_eq!(table.query(read), before);
    assert_eq!(table.query("SELECT count(*) c FROM t WHERE price > 1 AND \"at\" > '2024-01-01'"), [json!({"c": 3})]);
}

#[test]
fn a_job_makes_its_own_small_files_few_beside_its_commits() {
    let (topic, table) = (topic(2), Table::t());
    // Two processes of one job, a commit for each few messages.
    let job = Ingest::new(&topic, &table).with(&["-l", "1", "-b", "1", "-m", "5", "--auto-compact"]);
    let running = [job.start(), job.start()];
    let (mut end, mut moved) = (0, false);
    for _ in 0..200 {
        topic.produce(ids(end..end + 20, 2));
        end += 20;
        table.wait_rows(u64::try_from(end).expect("rows"));
        moved = table.actions("commitInfo").iter().any(|(_, info)| info["operation"] == json!("OPTIMIZE"));
        if moved {
            break;
        }
    }
    assert!(moved, "{} files, and none moved: {}", files(&table), running[0].log());
    topic.produce(ids(end..end + 20, 2));
    table.wait_rows(u64::try_from(end + 20).expect("rows"));
    for process in running {
        assert_eq!(process.stop().code, Some(0));
    }
    assert_eq!(table.ids(), (0..end + 20).collect::<Vec<_>>());
    assert_sound(&table);
    let upsert = job.with(&["--mode", "upsert", "--key", "id"]).run();
    assert_eq!(upsert.code, Some(2), "{}", upsert.log);
    assert!(upsert.log.contains("leave --auto-compact out"), "{}", upsert.log);
}

#[test]
fn p28_late_data_of_two_hours_makes_two_files_a_commit() {
    let (topic, table) = (topic(1), Table::new(&[("id", "long"), ("hour", "string")], &["hour"]));
    let hour = |id: i64| if id % 2 == 0 { "10" } else { "11" };
    topic.produce(json((0..4_000).map(|id| json!({"id": id, "hour": hour(id)}))));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(table.rows(), 4_000);
    let adds = table.actions("add");
    for (version, _) in &adds {
        let files = adds.iter().filter(|(other, _)| other == version).count();
        assert!(files <= 2, "{files} files in version {version}");
    }
    // A size is kept to where a commit holds more than that.
    let small = Table::new(&[("id", "long"), ("text", "string")], &[]);
    let text = |id: i64| {
        (0..40)
            .map(|n| format!("{:016x}", (id * 120 + n).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)))
            .collect::<String>()
    };
    topic.produce(json((0..2_500).map(|id| json!({"id": id, "text": text(id)}))));
    Ingest::new(&topic, &small).with(&["--target-file-mb", "1", "--compression", "none"]).run_to_end();
    let sizes: Vec<u64> = small.actions("add").iter().filter_map(|(_, add)| add["size"].as_u64()).collect();
    assert!(sizes.len() >= 3 && sizes.iter().all(|size| *size < 3 << 20), "{sizes:?}");
}
