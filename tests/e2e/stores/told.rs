//! What is said where a store can't be used, and keys that change while a job runs.

use lakeward_testkit::Objects;

use crate::stores::lake::{Lake, Store, s3_variables};
use crate::{ids, topic};

/// Without a bucket, with wrong keys, without encryption: at once, with what to do, and nothing is tried for ever.
#[test]
fn what_is_wrong_with_a_store_is_said_at_once() {
    let topic = topic(1);
    topic.produce(ids(0..10, 1));
    #[rustfmt::skip] // columns: store, variable that is set, its value, bucket, exit code, what is said
    let cases = [
        (Store::S3,    "",                        "",               "nowhere",  69, "NoSuchBucket"),
        (Store::S3,    "AWS_SECRET_ACCESS_KEY",   "wrong",          "",         69, "SignatureDoesNotMatch"),
        (Store::S3,    "AWS_ACCESS_KEY_ID",       "nobody",         "",         69, "check credentials and access rights"),
        (Store::S3,    "AWS_ALLOW_HTTP",          "false",          "",         78, "set AWS_ALLOW_HTTP=true"),
        (Store::S3,    "AWS_IAM_ROLE_ARN",        "arn:aws:iam::1", "",         78, "AWS_IAM_ROLE_ARN is set"),
        (Store::Azure, "",                        "",               "nowhere",  69, "ContainerNotFound"),
        (Store::Azure, "AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=",     "",         69, "check credentials and access rights"),
        (Store::Gcs,   "",                        "",               "nowhere",  69, "NoSuchBucket"),
    ];
    for (store, variable, value, bucket, code, said) in cases {
        let mut lake = Lake::new(store);
        if !variable.is_empty() {
            lake.environment.retain(|(name, _)| name != variable);
            lake.environment.push((variable.to_owned(), value.to_owned()));
        }
        if !bucket.is_empty() {
            lake.url = match store {
                Store::Azure => format!("az://{bucket}"),
                _ => format!("{}://{bucket}", lake.url.split(':').next().expect("a scheme")),
            };
        }
        let ended = lake.ingest(&topic, "t").with(&["-e"]).run();
        assert_eq!(ended.code, Some(code), "{store:?} {variable}: {}", ended.log);
        assert!(ended.log.contains(said), "{store:?} {variable}: no '{said}' in {}", ended.log);
        for command in ["verify", "status"] {
            let ended = lake.run(&[command, &lake.table("t")]);
            assert_eq!(ended.code, Some(code), "{command} {store:?} {variable}: {}", ended.log);
            assert!(ended.log.contains(said), "{command} {store:?} {variable}: no '{said}' in {}", ended.log);
        }
    }
}

/// Commands that end say that nobody answers, and not that they go on: nobody does.
#[test]
fn a_store_out_of_reach_ends_commands_that_only_look() {
    let mut lake = Lake::new(Store::S3);
    lake.environment = s3_variables("http://127.0.0.1:1");
    let (topic, table) = (topic(1), lake.table("t"));
    let brokers = lakeward_testkit::Broker::shared().bootstrap();
    let check = ["check", "ingest", topic.name(), &table, "-k", brokers];
    let commands: [&[&str]; 5] = [
        &["verify", &table],
        &["status", &table],
        &["query", &table, "SELECT 1"],
        &["offsets", "show", &table],
        &check,
    ];
    for command in commands {
        let ended = lake.run(command);
        assert_eq!(ended.code, Some(75), "{command:?}: {}", ended.log);
        assert!(!ended.log.contains("trying again"), "{command:?}: {}", ended.log);
        assert!(ended.log.contains("127.0.0.1:1"), "{command:?}: {}", ended.log);
    }
}

/// All spellings of one table's address.
#[test]
fn addresses_are_taken_as_people_write_them() {
    for (store, spellings) in [
        (Store::S3, vec!["s3://{}/a/t", "s3a://{}/a/t/"]),
        (Store::Azure, vec!["abfss://{}@devstoreaccount1.dfs.core.windows.net/a/t", "abfs://{}/a/t", "az://{}/a/t/"]),
        (Store::Gcs, vec!["gs://{}/a/t"]),
    ] {
        let (topic, mut lake) = (topic(1), Lake::new(store));
        let authority = lake.url.split("://").nth(1).expect("an authority");
        let bucket = authority.split('@').next().expect("a bucket").to_owned();
        for (at, spelling) in (0..).zip(spellings) {
            let url = spelling.replace("{}", &bucket);
            lake.url = url.trim_end_matches('/').trim_end_matches("/t").to_owned();
            topic.produce(ids(at * 10..at * 10 + 10, 1));
            let ended = lake.ingest(&topic, "t").run_to_end();
            assert!(ended.log.contains("into table"), "{}", ended.log);
            let found = lake.run(&["query", &url, "SELECT COUNT(*) AS n FROM t", "--output", "json"]);
            assert!(found.log.contains(&format!("{{\"n\":{}}}", at * 10 + 10)), "{url}: {}", found.log);
        }
    }
}

/// The lock table of the peer's set-up (P41) is not there, and need not be.
#[test]
fn p41_a_lock_table_is_not_needed_and_that_is_said_once() {
    let (topic, lake) = (topic(1), Lake::new(Store::S3));
    topic.produce(ids(0..10, 1));
    let ingest = lake.ingest(&topic, "t").env("AWS_S3_LOCKING_PROVIDER", "dynamodb");
    let theirs = ["DELTA_DYNAMO_TABLE_NAME", "DYNAMO_LOCK_TABLE_NAME", "DEAD_LETTER_DYNAMO_LOCK_PARTITION_KEY_VALUE"];
    let ended = theirs.iter().fold(ingest, |ingest, name| ingest.env(name, "locks")).run_to_end();
    assert_eq!(ended.log.matches("needs no lock table").count(), 1, "{}", ended.log);
    for name in theirs.iter().chain(&["AWS_S3_LOCKING_PROVIDER"]) {
        assert!(ended.log.contains(name), "{}", ended.log);
    }
    lake.assert_once("t", 0..10, "no lock table");
}

/// A profile's keys change in its file while the job runs: the new ones are used, without a restart.
#[test]
fn keys_that_are_renewed_in_a_profile_are_taken_on() {
    let objects = Objects::start();
    let (topic, mut lake) = (topic(1), Lake::at_objects(&objects));
    let folder = crate::scratch("aws");
    std::fs::create_dir_all(&folder).expect("make a folder");
    let file = folder.join("credentials");
    let write = |key: &str| {
        let text = format!("[job]\naws_access_key_id = {key}\naws_secret_access_key = secret\n");
        std::fs::write(&file, text).expect("write the profile");
    };
    write("first");
    lake.environment = s3_variables(&objects.url());
    lake.environment.retain(|(name, _)| !name.contains("KEY"));
    for (name, value) in [("AWS_PROFILE", "job"), ("AWS_SHARED_CREDENTIALS_FILE", &file.display().to_string())] {
        lake.environment.push((name.to_owned(), value.to_owned()));
    }
    topic.produce(ids(0..10, 1));
    let running = lake.ingest(&topic, "t").start();
    lake.files("t").wait_rows(10);
    assert_eq!(objects.keys(), ["first"]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    write("second");
    topic.produce(ids(10..20, 1));
    lake.files("t").wait_rows(20);
    running.stop();
    assert_eq!(objects.keys(), ["first", "second"]);
}

/// Keys that a container's role gives run out; they are asked for anew before they do.
#[test]
fn keys_that_run_out_are_asked_for_anew() {
    let objects = Objects::start();
    let (topic, mut lake) = (topic(1), Lake::at_objects(&objects));
    let token = crate::scratch("token");
    std::fs::create_dir_all(token.parent().expect("a folder")).expect("make a folder");
    std::fs::write(&token, "a token").expect("write the token");
    lake.environment.retain(|(name, _)| !name.contains("KEY"));
    for (name, value) in [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", objects.role_url()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.display().to_string()),
    ] {
        lake.environment.push((name.to_owned(), value));
    }
    topic.produce(ids(0..10, 1));
    let running = lake.ingest(&topic, "t").start();
    lake.files("t").wait_rows(10);
    for round in 1..4 {
        topic.produce(ids(round * 10..round * 10 + 10, 1));
        lake.files("t").wait_rows(u64::try_from(round * 10 + 10).expect("small"));
    }
    running.stop();
    let keys = objects.keys();
    assert!(keys.len() > 1 && keys.iter().all(|key| key.starts_with("role-")), "{keys:?}");
    lake.environment = s3_variables(&objects.url());
    lake.assert_once("t", 0..40, "roles");
}
