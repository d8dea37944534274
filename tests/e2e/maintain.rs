//! `lakeward maintain`, beside jobs and rivals: no row comes or goes, and every reader and `verify` agree.

use std::process::Stdio;
use std::time::{Duration, Instant};

use lakeward_testkit::{Broker, Message};
use serde_json::{Value, json};

use crate::ingest::{Ended, Ingest, lakeward, run};
use crate::table::{Table, field, schema};
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
            "id": id, "small": -7, "text": "héé\u{0}", "flag": true, "price": 12345678.7891, "at": "2024-02-29T23:59:59.999999Z",
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

/// Versions that compactions put.
fn compactions(table: &Table) -> usize {
    table.actions("commitInfo").iter().filter(|(_, info)| info["operation"] == json!("OPTIMIZE")).count()
}

/// What was made and not committed is garbage like any other, and all of the rest is needed.
fn assert_garbage_goes(table: &Table, ids: i64) {
    let _ = done(table, &["--compact"]);
    let _ = done(table, &["--vacuum", "--retain", "0", "--force"]);
    assert_eq!(table.ids(), (0..ids).collect::<Vec<_>>());
    assert_sound(table);
}

/// Three processes of one job, each of which compacts, and `maintain` beside them; the oldest is killed again and again.
#[test]
fn jobs_compact_as_they_go_beside_each_other_and_kills() {
    let (topic, table) = (topic(3), Table::t());
    let job = Ingest::new(&topic, &table).with(&["-l", "1", "-b", "1", "-m", "20", "--auto-compact"]);
    let mut running: Vec<_> = (0..3).map(|_| job.start()).collect();
    let mut end = 0;
    for round in 0..4 {
        topic.produce(ids(end..end + 1_200, 3));
        end += 1_200;
        table.wait_rows(u64::try_from(end).expect("rows") - 600);
        let _ = running.remove(0).kill();
        running.push(job.start());
        // All of them see the same files, and one may move each.
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| done(&table, &["--compact"]));
            }
        });
        table.wait_rows(u64::try_from(end).expect("rows"));
        assert_eq!(table.ids(), (0..end).collect::<Vec<_>>(), "round {round}");
    }
    for running in running {
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{}", ended.log);
    }
    assert!(compactions(&table) > 2, "the jobs compacted as they went, not maintain alone");
    assert_sound(&table);
    assert_garbage_goes(&table, end);
    job.run_to_end();
    assert_sound(&table);
}

/// `maintain` is killed at any moment of its work: the table is right, and the next one goes on.
#[test]
fn kills_in_the_middle_of_it_leave_the_table_right() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..2_000, 1));
    let job = Ingest::new(&topic, &table).with(&["-l", "60", "-m", "20"]);
    job.run_to_end();
    let path = table.path.display().to_string();
    let begin = Instant::now();
    let whole = maintain(&table, &["--compact", "--checkpoint", "--dry-run"]);
    assert_eq!(whole.code, Some(0), "{}", whole.log);
    // From before it has opened the table to well behind the moment of its commit.
    let step = begin.elapsed().max(Duration::from_millis(50)) / 4;
    let mut end = 2_000;
    for kill in 1..=10 {
        let mut command = lakeward(&["maintain", &path, "--compact", "--checkpoint"]);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start maintain");
        std::thread::sleep(step * kill);
        let _ = process.kill();
        let _ = process.wait();
        assert_eq!(table.ids(), (0..end).collect::<Vec<_>>(), "after kill {kill}");
        topic.produce(ids(end..end + 40, 1));
        end += 40;
        job.run_to_end();
    }
    assert_sound(&table);
    assert_garbage_goes(&table, end);
    assert_eq!(files(&table), 1);
}

/// A table by key has an index of where its rows lie, in its writer's memory: rows that somebody else moves are found.
#[test]
fn a_writer_by_key_finds_its_rows_where_maintain_put_them() {
    let (topic, table) = (topic(1), Table::absent());
    let keyed = |row: Value| Message::new(row.to_string()).key(json!({"id": row["id"]}).to_string()).to(0);
    topic.produce([keyed(json!({"id": 0, "n": -1}))]);
    let job = Ingest::new(&topic, &table).with(&["-l", "1", "-m", "20", "--mode", "upsert", "--key", "id", "--create"]);
    let running = job.start();
    let newest = |round: i64| (0..60).map(|id| json!({"id": id, "n": round})).collect::<Vec<_>>();
    let mut commits = 0;
    for round in 0..6 {
        // Each key in a message of its own, so that deletions hit files that were just moved.
        topic.produce(newest(round).into_iter().map(keyed).collect::<Vec<_>>());
        table.wait_txn("app-0", (round + 1) * 60);
        commits += done(&table, &["--compact"])["compact"]["commits"].as_u64().expect("commits");
        assert_eq!(table.query("SELECT id, n FROM t ORDER BY id"), newest(round), "round {round}");
    }
    assert!(commits > 0, "something was moved under the writer");
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert_sound(&table);
}

/// The case's 12,000 files of 55 columns. Its measure is Spark's checkpoint; here it is deltalake's of the same version.
#[test]
fn k53_a_checkpoint_of_many_files_and_columns_is_small_and_whole() {
    const FILES: usize = 12_000;
    let names: Vec<String> = (0..54).map(|n| format!("column_{n:02}")).collect();
    let kinds = |n: usize| if n.is_multiple_of(2) { "long" } else { "string" };
    let columns = names.iter().enumerate().map(|(n, name)| (name.as_str(), kinds(n)));
    let schema = schema(&[("id", "long")].into_iter().chain(columns).collect::<Vec<_>>());
    let table = Table::made(&schema, &[], &json!({"delta.dataSkippingNumIndexedCols": "-1"}));
    let topic = topic(1);
    let mut row = json!({"id": 7});
    for (n, name) in names.iter().enumerate() {
        row[name] = if n % 2 == 0 { json!(n * 1_000) } else { json!(format!("value {n} of a column")) };
    }
    topic.produce(json([row]));
    Ingest::new(&topic, &table).run_to_end();
    let (_, add) = table.actions("add").pop().expect("an add");
    let first = add["path"].as_str().expect("a path").to_owned();
    let more = (1..FILES).map(|n| {
        let mut add = add.clone();
        let path =
            format!("part-{n:05}-{:032x}.parquet", (n as u128).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C834));
        std::fs::hard_link(table.path.join(&first), table.path.join(&path)).expect("a link");
        add["path"] = json!(path);
        // Bounds of each file's own in every column, around what the one row has.
        let mut stats = crate::table::stats(&add);
        for (at, name) in names.iter().enumerate() {
            let (low, high) = match at % 2 == 0 {
                true => (json!(at * 1_000 - at.min(n)), json!(at * 1_000 + n * (at + 1))),
                false => {
                    (json!(format!("a{:05}", n * (at + 1) % 99_991)), json!(format!("w{:05}", n * (at + 7) % 99_991)))
                }
            };
            (stats["minValues"][name], stats["maxValues"][name]) = (low, high);
        }
        add["stats"] = json!(stats.to_string());
        json!({ "add": add })
    });
    for adds in more.collect::<Vec<_>>().chunks(1_000) {
        table.commit(adds);
    }
    assert_eq!(done(&table, &["--checkpoint"])["checkpoint"], json!(true));
    let log = table.path.join("_delta_log");
    let version = table.version().expect("a version");
    let checkpoint = log.join(format!("{version:020}.checkpoint.parquet"));
    let size = || std::fs::metadata(&checkpoint).expect("a checkpoint").len();
    let (ours, aside) = (size(), table.path.join("_ours"));
    std::fs::rename(&checkpoint, &aside).expect("put aside");
    std::fs::remove_file(log.join("_last_checkpoint")).expect("remove the hint");
    table.ask(json!({"do": "checkpoint"}));
    let theirs = size();
    assert!(ours <= 2 * theirs, "{ours} bytes, and deltalake's has {theirs}");
    std::fs::rename(&aside, &checkpoint).expect("put back");
    std::fs::remove_file(log.join("_last_checkpoint")).expect("remove the hint");
    // Nothing but the checkpoint tells of the files.
    for version in 0..version {
        std::fs::remove_file(log.join(format!("{version:020}.json"))).expect("remove a commit");
    }
    assert_eq!(table.query("SELECT count(*) AS n, max(id) AS m FROM t"), [json!({"n": FILES, "m": 7})]);
}
