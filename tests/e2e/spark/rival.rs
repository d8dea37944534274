//! Spark writes to our tables, between our runs and while we run: afterwards nothing is lost, nothing is there twice.

use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::{ask, assert_proven, created, ids, query, sql, try_sql};
use crate::ingest::Ingest;
use crate::run::job::Job;
use crate::table::Table;
use crate::{DEADLINE, ids as messages_of, topic};

#[test]
fn whatever_spark_does_between_our_runs_we_go_on_behind_it() {
    let (topic, table) = (topic(2), created("(id BIGINT, date STRING) USING delta"));
    let take = |first: i64| {
        topic.produce(messages_of(first..first + 50, 2));
        Ingest::new(&topic, &table).run_to_end();
    };
    take(0);
    let mut expected: Vec<i64> = (0..50).collect();
    #[rustfmt::skip] // columns: what Spark does, what that does to the ids
    let steps: [(&str, fn(&mut Vec<i64>)); 9] = [
        ("INSERT INTO {t} VALUES (-1, 'spark')",                                          |ids| ids.push(-1)),
        ("DELETE FROM {t} WHERE id % 10 = 7",                                             |ids| ids.retain(|id| id % 10 != 7)),
        ("UPDATE {t} SET date = 'new' WHERE id % 10 = 3",                                 |_| ()),
        ("MERGE INTO {t} t USING (SELECT id - 5 AS id FROM range(10)) s ON t.id = s.id \
          WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, date) VALUES (s.id, 'm')", merged),
        ("OPTIMIZE {t}",                                                                  |_| ()),
        ("ALTER TABLE {t} ADD COLUMNS (more STRING)",                                     |_| ()),
        ("REORG TABLE {t} APPLY (PURGE)",                                                 |_| ()),
        ("VACUUM {t} RETAIN 0 HOURS",                                                     |_| ()),
        ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '5')",           |_| ()),
    ];
    for (first, (statement, change)) in (1_i64..).zip(steps) {
        sql(&table, &[statement]);
        change(&mut expected);
        take(first * 50);
        expected.extend(first * 50..first * 50 + 50);
        expected.sort_unstable();
        assert_eq!(ids(&table), expected, "after {statement}");
    }
    let new = query(&table.path, "select id from t where date = 'new'");
    assert!(!new.is_empty() && new.iter().all(|row| row["id"].as_i64().is_some_and(|id| id % 10 == 3)), "{new:?}");
    assert_proven(&table);
}

/// Ids -5 to 4: those that are there go, the others come.
fn merged(ids: &mut Vec<i64>) {
    let source: Vec<i64> = (-5..5).collect();
    let new: Vec<i64> = source.iter().copied().filter(|id| !ids.contains(id)).collect();
    ids.retain(|id| !source.contains(id));
    ids.extend(new);
}

/// Spark's way to say that it lost a race, after which a user tries again. Anything else is a fault.
fn is_conflict(error: &str) -> bool {
    error.contains("DELTA_CONCURRENT") || error.contains("Concurrent")
}

/// Runs the statements round and round, `{n}` in them the round, until so many commits of them went through.
fn rival(table: &Table, statements: &[&str], enough: usize) {
    let (start, mut through, mut lost) = (Instant::now(), 0, 0);
    for round in 1.. {
        for statement in statements {
            match try_sql(table, &statement.replace("{n}", &round.to_string())) {
                Ok(_) => through += 1,
                Err(error) => {
                    assert!(is_conflict(&error), "{statement}: {error}");
                    lost += 1;
                }
            }
            if through >= enough {
                return;
            }
            assert!(start.elapsed() < 3 * DEADLINE, "{through} commits of Spark's went through, {lost} lost a race");
        }
    }
}

#[test]
fn spark_writes_while_an_ingest_runs_and_each_message_is_there_once() {
    let (topic, table) = (topic(2), created("(id BIGINT, date STRING) USING delta"));
    let running = Ingest::new(&topic, &table).with(&["-l", "1", "-m", "20"]).start();
    running.wait_ready();
    let statements = [
        "INSERT INTO {t} VALUES (-{n}, 'spark')",
        "OPTIMIZE {t}",
        "UPDATE {t} SET date = 'spark {n}' WHERE id < 0",
        "UPDATE {t} SET date = 'seen' WHERE id % 100 = 0 AND id >= 0",
    ];
    let mut end = 0;
    std::thread::scope(|scope| {
        let spark = scope.spawn(|| rival(&table, &statements, 10));
        while !spark.is_finished() {
            topic.produce(messages_of(end..end + 20, 2));
            end += 20;
            std::thread::sleep(Duration::from_millis(300));
        }
    });
    table.wait_txn("app-0", end / 2 - 1);
    table.wait_txn("app-1", end / 2 - 1);
    running.stop();
    let (theirs, ours): (Vec<i64>, Vec<i64>) = ids(&table).into_iter().partition(|id| *id < 0);
    assert_eq!(ours, (0..end).collect::<Vec<i64>>());
    assert!(theirs.len() >= 2, "{theirs:?}");
    assert_proven(&table);
}

/// Spark moves rows of views, and changes their tables' properties, while the pipeline changes them.
#[test]
fn spark_optimizes_while_a_pipeline_changes_its_views() {
    let job = Job::new();
    job.send(&mut StdRng::seed_from_u64(41), 200, 40);
    job.pipeline.run_to_end(&[]);
    job.under(|| {
        let running = job.pipeline.start(&[]);
        let statements = ["OPTIMIZE {t}", "ALTER TABLE {t} SET TBLPROPERTIES ('user.round' = '{n}')"];
        for name in ["hot", "named", "log"] {
            rival(&job.pipeline.table(name), &statements, 3);
        }
        running.stop();
    });
    for name in ["hot", "named", "log"] {
        // Compares Spark with the other readers.
        job.pipeline.table(name).query("select * from t");
    }
}

/// A table that Spark took back: the data is old, our txn is the newest.
#[test]
fn sparks_restore_stops_the_job_until_somebody_says_what_to_do() {
    let (topic, table) = (topic(1), Table::t());
    let ingest = Ingest::new(&topic, &table).with(&["-m", "5000"]);
    topic.produce(messages_of(0..50, 1));
    ingest.run_to_end();
    let version = table.version().expect("a version");
    topic.produce(messages_of(50..100, 1));
    ingest.run_to_end();
    sql(&table, &[&format!("RESTORE TABLE {{t}} TO VERSION AS OF {version}")]);
    assert_eq!(ids(&table), (0..50).collect::<Vec<i64>>());
    let ended = ingest.clone().with(&["-e"]).run();
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    assert!(ended.log.contains("--on-restore") && ended.log.to_uppercase().contains("RESTORE"), "{}", ended.log);
    assert_eq!(ids(&table), (0..50).collect::<Vec<i64>>(), "nothing is written");
    topic.produce(messages_of(100..110, 1));
    ingest.clone().with(&["--on-restore", "replay"]).run_to_end();
    assert_eq!(ids(&table), (0..110).collect::<Vec<i64>>());
    // Files that the RESTORE left over go, and ours stay.
    sql(&table, &["VACUUM {t} RETAIN 0 HOURS"]);
    assert_eq!(ids(&table), (0..110).collect::<Vec<i64>>());
}

#[test]
fn sparks_restore_of_a_running_job_stops_it() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(messages_of(0..50, 1));
    let running = Ingest::new(&topic, &table).with(&["-l", "1", "-m", "5000"]).start();
    table.wait_txn("app-0", 49);
    let version = table.version().expect("a version");
    topic.produce(messages_of(50..100, 1));
    table.wait_txn("app-0", 99);
    sql(&table, &[&format!("RESTORE TABLE {{t}} TO VERSION AS OF {version}")]);
    topic.produce(messages_of(100..110, 1));
    let ended = running.wait();
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    assert_eq!(ids(&table), (0..50).collect::<Vec<i64>>());
}

/// Our offsets are Spark's idempotence, and its are ours.
#[test]
fn transactions_of_both_stay_apart() {
    let (topic, table) = (topic(1), created("(id BIGINT, date STRING) USING delta"));
    topic.produce(messages_of(0..20, 1));
    Ingest::new(&topic, &table).run_to_end();
    let keyed = |version: i64| {
        let name = |of: &str| format!("spark.databricks.delta.write.{of}");
        let settings = json!({name("txnAppId"): "spark-job", name("txnVersion"): version.to_string()});
        let statement = format!("INSERT INTO delta.`{}` VALUES (-1, 'spark')", table.path.display());
        ask(&json!({"do": "sql", "sql": statement, "settings": settings})).expect("an insert");
    };
    keyed(1);
    keyed(1);
    topic.produce(messages_of(20..40, 1));
    Ingest::new(&topic, &table).run_to_end();
    assert_eq!(ids(&table), (-1..40).collect::<Vec<i64>>());
    let txns = table.txns();
    assert_eq!((txns.get("app-0"), txns.get("spark-job")), (Some(&39), Some(&1)));
    let left: Vec<Value> = query(&table.path, "select count(*) as n from t where date = 'spark'");
    assert_eq!(left, [json!({"n": 1})], "the second write was one that Spark knew");
}
