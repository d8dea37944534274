//! `--mode upsert`: the table holds the newest row of each key, whoever dies, races or deletes meanwhile.

mod kills;

use lakeward_testkit::{Message, Registry, framed};
use serde_json::{Value, json};

use crate::ingest::{Ingest, run};
use crate::registry::varint;
use crate::table::{Table, first_version, schema};
use crate::topic;

/// An array of text.
const TAGS: &str = r#"{"type":"array","elementType":"string","containsNull":true}"#;

const UPSERT: [&str; 4] = ["--mode", "upsert", "--key", "id"];

/// A message whose key names the row that it is of.
fn put(id: i64, name: &str) -> Message {
    Message::new(json!({"id": id, "name": name}).to_string()).key(json!({"id": id}).to_string()).to(0)
}

fn delete(id: i64) -> Message {
    Message::tombstone().key(json!({"id": id}).to_string()).to(0)
}

/// An empty table that rows may be taken out of.
fn table(columns: &[(&str, &str)], partition: &[&str]) -> Table {
    let properties = json!({"delta.enableDeletionVectors": "true"});
    let mut first = first_version(&schema(columns), partition, &properties);
    let features = ["deletionVectors"];
    first[0] = json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
        "writerFeatures": features}});
    let table = Table::absent();
    table.put(0, &first);
    table
}

fn verified(table: &Table) -> String {
    let ended = run(&["verify", &table.path.display().to_string()]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    ended.log
}

fn rows(table: &Table) -> Vec<Value> {
    table.query("select id, name from t")
}

#[test]
fn p05_of_each_key_the_newest_row_and_tombstones_delete() {
    let (topic, table) = (topic(1), Table::absent());
    let ingest = Ingest::new(&topic, &table).with(&UPSERT).with(&["--create"]);
    topic.produce([put(1, "a"), put(2, "a"), put(1, "b"), delete(9), put(3, "a"), delete(3)]);
    ingest.run_to_end();
    let row = |id: i64, name: &str| json!({"id": id, "name": name});
    assert_eq!(rows(&table), [row(1, "b"), row(2, "a")]);
    // Another process finds them in the table.
    topic.produce([put(2, "c"), delete(1), put(4, "a"), Message::tombstone().key("4").to(0), put(5, "a")]);
    ingest.run_to_end();
    assert_eq!(rows(&table), [row(2, "c"), row(5, "a")]);
    assert_eq!(table.txns()["app-0"], 10);
    let said = verified(&table);
    assert!(said.contains("2 live rows") && said.contains("view (upsert)"), "{said}");
    for ended in [Ingest::new(&topic, &table).with(&["-e"]).run(), Ingest::new(&topic, &table).check()] {
        assert_eq!(ended.code, Some(78), "every record beside the newest ones: {}", ended.log);
        assert!(ended.log.contains("pass --mode upsert"), "{}", ended.log);
    }
    let protocol = &table.actions("protocol")[0].1;
    assert!(protocol["writerFeatures"].to_string().contains("deletionVectors"), "{protocol}");
    let status = run(&["status", &table.path.display().to_string()]);
    assert!(status.code == Some(0) && status.log.contains("app-0"), "{}", status.log);
}

#[test]
fn messages_that_name_no_row_are_dead_letters() {
    let (topic, letters) = (topic(1), Table::absent());
    let table = table(&[("a", "long"), ("b", "string"), ("v", "long")], &["b"]);
    let options = ["--mode", "upsert", "--key", "a,b", "--dlq_table_location"];
    let ingest = Ingest::new(&topic, &table).with(&options).with(&[&letters.path.display().to_string(), "--create"]);
    let value = |value: Value| Message::new(value.to_string()).to(0);
    topic.produce([
        value(json!({"a": 1, "b": "x", "v": 1})),
        value(json!({"a": 1, "b": "y", "v": 2})),
        value(json!({"a": 1, "v": 3})),
        value(json!({"a": null, "b": "x", "v": 4})),
        value(json!({"a": 1, "b": "", "v": 5})),
        Message::tombstone().to(0),
        Message::tombstone().key(r#"{"a":1}"#).to(0),
        Message::tombstone().key(r#"{"a":1,"b":""}"#).to(0),
        Message::tombstone().key("1").to(0),
        Message::tombstone().key(r#"{"b":"x","a":1,"more":2}"#).to(0),
    ]);
    ingest.run_to_end();
    assert_eq!(table.query("select a, b, v from t"), [json!({"a": 1, "b": "y", "v": 2})]);
    let kinds = letters.query("select \"offset\" as id, error_kind from t");
    let null = "null_in_not_null";
    let expected = [(2, null), (3, null), (4, null), (5, null), (6, null), (7, null), (8, "not_an_object")];
    let expected = expected.map(|(offset, kind)| json!({"id": offset, "error_kind": kind}));
    assert_eq!(kinds, expected);
    verified(&table);
    verified(&letters);
}

/// An event of Debezium's, whose key is that of its row.
fn event(op: &str, before: Value, after: Value) -> Message {
    let id = if after.is_null() { before["id"].clone() } else { after["id"].clone() };
    let key = json!({"schema": {"type": "struct", "fields": []}, "payload": {"id": id}}).to_string();
    Message::new(json!({"before": before, "after": after, "op": op, "ts_ms": 1}).to_string()).key(key).to(0)
}

#[test]
fn debezium_inserts_updates_deletes_and_changes_of_keys() {
    let (topic, letters) = (topic(1), Table::absent());
    let table = table(&[("id", "long"), ("name", "string"), ("__op", "string")], &[]);
    let row = |id: i64, name: &str| json!({"id": id, "name": name});
    let key_of = |id: i64| json!({"schema": {"type": "struct"}, "payload": {"id": id}}).to_string();
    topic.produce([
        event("r", Value::Null, row(1, "a")),
        event("c", Value::Null, row(2, "a")),
        event("c", Value::Null, row(3, "a")),
        event("u", Value::Null, row(1, "b")),
        event("u", row(2, "a"), row(2, "b")),
        // A row deleted, as Debezium says it: the event, then a tombstone.
        event("d", row(3, "a"), Value::Null),
        Message::tombstone().key(key_of(3)).to(0),
        // Its key changes: deleted, and made under the other.
        event("d", row(2, "b"), Value::Null),
        Message::tombstone().key(key_of(2)).to(0),
        event("c", Value::Null, row(20, "b")),
        // A key that changes within one event.
        event("u", row(1, "b"), row(10, "c")),
        Message::new(json!({"before": null, "after": null, "op": "d"}).to_string()).key(key_of(20)).to(0),
        Message::new(json!({"before": null, "after": null, "op": "t"}).to_string()).to(0),
        Message::new(json!({"op": "m", "message": {}}).to_string()).to(0),
    ]);
    let letters_at = letters.path.display().to_string();
    let options = ["--debezium", "--create", "--dlq_table_location", &letters_at];
    Ingest::new(&topic, &table).with(&UPSERT).with(&options).run_to_end();
    let told = |id: i64, name: &str, op: &str| json!({"id": id, "name": name, "__op": op});
    assert_eq!(table.query("select * from t"), [told(10, "c", "u"), told(20, "b", "c")]);
    let errors = letters.query("select \"offset\" as id, error from t");
    assert_eq!(errors.len(), 2, "{errors:?}");
    for (error, (offset, what)) in errors.iter().zip([(11, "no 'before'"), (12, "truncated")]) {
        assert_eq!(error["id"], offset);
        assert!(error["error"].as_str().is_some_and(|error| error.contains(what)), "{error}");
    }
    let said = verified(&table);
    assert!(said.contains("2 live rows"), "{said}");
}

#[test]
fn avro_events_whose_keys_have_their_schema_in_the_registry() {
    const ENVELOPE: &str = r#"{"type":"record","name":"Envelope","fields":[
        {"name":"before","type":["null",{"type":"record","name":"Value","fields":[
            {"name":"id","type":"long"},{"name":"name","type":"string"}]}]},
        {"name":"after","type":["null","Value"]},{"name":"op","type":"string"}]}"#;
    const KEY: &str = r#"{"type":"record","name":"Key","fields":[{"name":"id","type":"long"}]}"#;
    let text = |text: &str| [varint(text.len() as u64 * 2), text.as_bytes().to_vec()].concat();
    let row = |row: Option<(u64, &str)>| match row {
        None => vec![0],
        Some((id, name)) => [vec![2], varint(id * 2), text(name)].concat(),
    };
    let (registry, topic) = (Registry::shared(), topic(1));
    let subject = |kind: &str| format!("{}-{kind}", topic.name());
    let value_id = registry.register(&subject("value"), "AVRO", ENVELOPE, &[]);
    let key_id = registry.register(&subject("key"), "AVRO", KEY, &[]);
    let event =
        |op: &str, before, after| Message::new(framed(value_id, &[row(before), row(after), text(op)].concat())).to(0);
    topic.produce([
        event("c", None, Some((1, "a"))),
        event("c", None, Some((2, "a"))),
        event("c", None, Some((3, "a"))),
        event("u", None, Some((2, "b"))),
        event("d", Some((3, "a")), None),
        Message::tombstone().key(framed(key_id, &varint(2))).to(0),
        // A schema that is not there, and a key that is no Avro.
        Message::tombstone().key(framed(key_id + 100_000, &varint(4))).to(0),
        Message::tombstone().key("nonsense").to(0),
    ]);
    let table = table(&[("id", "long"), ("name", "string")], &[]);
    let options = ["--debezium", "--avro", registry.url(), "-m", "1"];
    let ended = Ingest::new(&topic, &table).with(&UPSERT).with(&options).run_to_end();
    assert_eq!(rows(&table), [json!({"id": 2, "name": "b"})]);
    for (offset, kind) in [(6, "unknown_schema"), (7, "wrong_type")] {
        assert!(ended.log.contains(&format!("offset={offset} kind=\"{kind}\"")), "{}", ended.log);
    }
    verified(&table);
}

const PLACEHOLDER: &str = "__debezium_unavailable_value";

#[test]
fn p35_unchanged_toast_values_stay_as_they_were() {
    let columns: &[(&str, &str)] =
        &[("id", "long"), ("n", "long"), ("doc", "string"), ("raw", "binary"), ("tags", TAGS), ("day", "string")];
    let row = |id: i64, n: i64, doc: &str, tags: Value| json!({"id": id, "n": n, "doc": doc, "tags": tags, "day": "x"});
    let unsaid = |id: i64, n: i64| row(id, n, PLACEHOLDER, json!([PLACEHOLDER]));
    let topic = topic(1);
    topic.produce([
        event("c", Value::Null, row(1, 1, "large", json!(["a", "b"]))),
        event("c", Value::Null, row(2, 1, "too", json!([]))),
        // Within the batch of the row that has it.
        event("u", Value::Null, unsaid(2, 2)),
        event("u", Value::Null, row(2, 3, "changed", json!([PLACEHOLDER]))),
    ]);
    let kept = table(columns, &["day"]);
    let (failing, writing, letters) = (table(columns, &[]), table(columns, &[]), Table::absent());
    let ingest = |table: &Table, more: &[&str]| {
        Ingest::new(&topic, table).with(&UPSERT).with(&["--debezium"]).with(more).run_to_end()
    };
    ingest(&kept, &[]);
    // In another process, from the table; twice in one batch, and with a row that moves between the table's partitions.
    let mut moved = unsaid(1, 3);
    moved["day"] = json!("y");
    topic.produce([
        event("u", Value::Null, unsaid(1, 2)),
        event("u", Value::Null, moved),
        event("d", row(2, 3, "", json!([])), Value::Null),
    ]);
    ingest(&kept, &[]);
    let sql = "select id, n, doc, tags, day from t";
    let expected = json!({"id": 1, "n": 3, "doc": "large", "tags": ["a", "b"], "day": "y"});
    assert_eq!(kept.query(sql), [expected]);
    verified(&kept);
    ingest(&writing, &["--debezium-unavailable-value", "write"]);
    let expected = json!({"id": 1, "n": 3, "doc": PLACEHOLDER, "tags": [PLACEHOLDER], "day": "y"});
    assert_eq!(writing.query(sql), [expected]);
    let letters_at = letters.path.display().to_string();
    let fail = ["--debezium-unavailable-value", "fail", "--create", "--dlq_table_location", &letters_at];
    ingest(&failing, &fail);
    let expected = json!({"id": 1, "n": 1, "doc": "large", "tags": ["a", "b"], "day": "x"});
    assert_eq!(failing.query(sql), [expected]);
    assert_eq!(letters.query("select \"offset\" as id from t").len(), 4);
    // Of a row that nobody has ever seen.
    topic.produce([event("u", Value::Null, unsaid(3, 1))]);
    let ended = Ingest::new(&topic, &kept).with(&UPSERT).with(&["--debezium", "-e"]).run();
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    assert!(ended.log.contains("the key id = 3 leaves doc, tags as it was"), "{}", ended.log);
    ingest(&kept, &["--debezium-unavailable-placeholder", "other"]);
    assert_eq!(kept.query("select id, doc from t where id = 3"), [json!({"id": 3, "doc": PLACEHOLDER})]);
}

#[test]
fn a_key_that_changes_partitions_stops_it_unless_told_otherwise() {
    let topic = topic(2);
    let table = table(&[("id", "long"), ("name", "string")], &[]);
    let ingest = Ingest::new(&topic, &table).with(&UPSERT);
    topic.produce([put(5, "a").to(0)]);
    ingest.run_to_end();
    topic.produce([put(1, "old").to(0), put(2, "a").to(1)]);
    ingest.run_to_end();
    // Whose rows are whose is known of files that were made one, too.
    let maintained = run(&["maintain", &table.path.display().to_string()]);
    assert_eq!(maintained.code, Some(0), "{}", maintained.log);
    let compacted = table.actions("commitInfo").iter().any(|(_, info)| info["operation"] == json!("OPTIMIZE"));
    assert!(compacted, "{}", maintained.log);
    topic.produce([put(1, "new").to(1)]);
    let ended = ingest.clone().with(&["-e"]).run();
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    for word in ["the key id = 1 come from app-1", "is of app-0", "--on-moved-key=last-commit"] {
        assert!(ended.log.contains(word), "{word}: {}", ended.log);
    }
    let row = |id: i64, name: &str| json!({"id": id, "name": name});
    assert_eq!(rows(&table), [row(1, "old"), row(2, "a"), row(5, "a")], "nothing was written");
    let ended = ingest.with(&["--on-moved-key", "last-commit"]).run_to_end();
    assert!(ended.log.contains("replaced by records of another partition"), "{}", ended.log);
    assert_eq!(rows(&table), [row(1, "new"), row(2, "a"), row(5, "a")]);
    verified(&table);
}

#[test]
fn a_restored_table_is_noticed_and_can_be_read_again() {
    let (topic, table) = (topic(1), table(&[("id", "long"), ("name", "string")], &[]));
    let ingest = Ingest::new(&topic, &table).with(&UPSERT);
    for name in ["a", "b", "c"] {
        topic.produce([put(1, name), put(2, name), delete(2)]);
        ingest.run_to_end();
    }
    // Version 1 has what was first.
    table.ask(json!({"do": "restore", "version": 1}));
    assert_eq!(rows(&table), [json!({"id": 1, "name": "a"})]);
    topic.produce([put(3, "d")]);
    let ended = ingest.clone().with(&["-e"]).run();
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    ingest.with(&["--on-restore", "replay"]).run_to_end();
    assert_eq!(rows(&table), [json!({"id": 1, "name": "c"}), json!({"id": 3, "name": "d"})]);
    verified(&table);
}

#[test]
fn rows_and_columns_of_others_are_followed_while_it_runs() {
    let (topic, table) = (topic(1), table(&[("id", "long"), ("name", "string")], &[]));
    let running = Ingest::new(&topic, &table).with(&UPSERT).with(&["-l", "1", "-m", "1"]).start();
    topic.produce([put(1, "a"), put(2, "a")]);
    table.wait_txn("app-0", 1);
    table.ask(json!({"do": "append", "rows": [{"id": 7, "name": "theirs"}, {"id": 8, "name": "theirs"}]}));
    topic.produce([put(7, "ours"), delete(2)]);
    table.wait_txn("app-0", 3);
    table.ask(json!({"do": "add_column", "name": "n", "type": "long"}));
    topic.produce([Message::new(r#"{"id":8,"name":"ours","n":5}"#).key("8").to(0), put(1, "b")]);
    table.wait_txn("app-0", 5);
    running.stop();
    let row = |id: i64, name: &str, n: Value| json!({"id": id, "name": name, "n": n});
    let expected = [row(1, "b", Value::Null), row(7, "ours", Value::Null), row(8, "ours", json!(5))];
    assert_eq!(table.query("select * from t"), expected);
    let said = verified(&table);
    assert!(said.contains("3 live rows") && said.contains("+ 2 by other writers"), "{said}");
}

#[test]
fn what_can_not_be_is_told_before_anything_is_read() {
    let columns: &[(&str, &str)] = &[("id", "long"), ("name", "string")];
    let plain = Table::new(columns, &[]);
    let features = json!({"delta.enableDeletionVectors": "true", "delta.appendOnly": "true"});
    let append_only = Table::made(&schema(columns), &[], &features);
    let good = table(columns, &[]);
    let topic = topic(1);
    #[rustfmt::skip] // columns: table, options, exit code, what is said
    let cases: [(&Table, &[&str], i32, &str); 8] = [
        (&good,        &["--mode", "upsert"],                                   2,  "--mode upsert needs --key"),
        (&good,        &["--key", "id"],                                        2,  "--key is for --mode upsert"),
        (&good,        &["--mode", "upsert", "--key", "id", "--raw"],           2,  "--raw keeps messages as they are"),
        (&good,        &["--mode", "upsert", "--key", "id", "--evolve"],        2,  "--evolve=log"),
        (&good,        &["--mode", "upsert", "--key", "nix"],                   78, "there is no column \"nix\""),
        (&good,        &["--mode", "upsert", "--key", "id,id"],                 78, "named twice"),
        (&plain,       &UPSERT,                                                 78, "'delta.enableDeletionVectors' = 'true'"),
        (&append_only, &UPSERT,                                                 78, "delta.appendOnly"),
    ];
    for (table, options, code, said) in cases {
        for command in ["ingest", "check"] {
            let ingest = Ingest::new(&topic, table).with(options);
            let ended = if command == "ingest" { ingest.with(&["-e"]).run() } else { ingest.check() };
            assert_eq!(ended.code, Some(code), "{command} {options:?}: {}", ended.log);
            assert!(ended.log.contains(said), "{command} {options:?}: {}", ended.log);
        }
    }
    let checked = Ingest::new(&topic, &good).with(&UPSERT).check();
    assert_eq!(checked.code, Some(0), "{}", checked.log);
    assert!(checked.log.contains("mode     upsert, key id: 0 rows are there"), "{}", checked.log);
    // Rows that somebody else wrote.
    let twice = table(columns, &[]);
    twice
        .ask(json!({"do": "append", "rows": [{"id": 1, "name": "a"}, {"id": 7, "name": "b"}, {"id": 7, "name": "c"}]}));
    let ended = Ingest::new(&topic, &twice).with(&UPSERT).with(&["-e"]).run();
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    assert!(ended.log.contains("two rows of the key id = 7"), "{}", ended.log);
}
