//! Other people's tables: opened, or refused by name.

use arrow_schema::{DataType, Field, Schema};
use lakeward_delta::encode::{Writer, WriterOptions};
use lakeward_delta::{Created, NewTable, StatsColumns, Table, TableSchema, create};
use lakeward_protocol::drive::drive;
use lakeward_protocol::memory::{Clock, MemoryWorld};
use lakeward_protocol::ports::{Exit, Fault, OutputLog, Verdict};
use serde_json::{Value, json};

use crate::races::{Deaf, limits, to_the_end, topic};
use crate::support::{Disk, PlaceStage, SCHEMA, each, new_table, options, runtime, set};

fn table_with(protocol: &Value, configuration: &Value, metadata: &Value) -> Disk {
    let disk = Disk::empty();
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    schema["fields"][1]["metadata"] = metadata.clone();
    disk.write(
        0,
        &[
            json!({"commitInfo": {"timestamp": 1, "inCommitTimestamp": 4_000_000_000_000_i64, "operation": "CREATE TABLE"}}),
            json!({"protocol": protocol}),
            json!({"metaData": {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": schema.to_string(),
                "partitionColumns": [], "configuration": configuration, "createdTime": 1}}),
        ],
    );
    disk
}

fn features(reader: &[&str], writer: &[&str]) -> Value {
    let writer: Vec<_> = reader.iter().chain(writer).collect();
    if reader.is_empty() {
        return json!({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": writer});
    }
    json!({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader, "writerFeatures": writer})
}

fn ingest(disk: &Disk, length: i64) {
    let topic = topic(1, length);
    let world = MemoryWorld::new(Clock::default(), length.unsigned_abs());
    let table = disk.open("app");
    let _ = drive(to_the_end(&topic, 1), topic.join(), PlaceStage::new(10), table, world, Deaf, limits()).unwrap();
    assert_eq!(disk.rows(), each(&[0], 0..length));
}

#[test] // K86, P49
fn rules_are_refused_by_writers_whose_owner_does_not_keep_them() {
    let invariant = json!({"delta.invariants": "{\"expression\":{\"expression\":\"id > 0\"}}"});
    #[rustfmt::skip] // columns: protocol's writer version, properties, metadata of a column, what the refusal names
    let cases = [
        (3, json!({"delta.constraints.c1": "id > 0"}), json!({}), "constraint c1 (id > 0)"),
        (2, json!({}), invariant, "invariant of column id (id > 0)"),
        (4, json!({}), json!({"delta.generationExpression": "1"}), "generated column id (1)"),
        (7, json!({}), json!({"CURRENT_DEFAULT": "1"}), "a default of column id (1)"),
    ];
    for (writer, properties, metadata, name) in cases {
        let protocol = match writer {
            7 => features(&[], &["allowColumnDefaults"]),
            writer => json!({"minReaderVersion": 1, "minWriterVersion": writer}),
        };
        let disk = table_with(&protocol, &properties, &metadata);
        let layout = Table::open(&disk.location(), options("app")).unwrap().layout();
        let error = Writer::new(&layout, WriterOptions::default()).unwrap_err();
        assert!(error.to_string().contains(name), "{name}: {error}");
        assert_eq!(error.verdict(), Verdict::Stop(Exit::Config));
        Writer::new(&layout, WriterOptions { keeps_rules: true, ..WriterOptions::default() }).unwrap();
    }
}

#[test] // K86, P49
fn what_we_do_not_honour_is_refused_by_name() {
    let legacy = |writer: u32| json!({"minReaderVersion": 1, "minWriterVersion": writer});
    #[rustfmt::skip] // columns: protocol, properties, metadata of a column, what the refusal names
    let cases = [
        (legacy(6), json!({}), json!({"delta.identity.start": 1, "delta.identity.step": 1}), "identityColumns"),
        (json!({"minReaderVersion": 2, "minWriterVersion": 5}), json!({"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}),
            json!({"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c"}), "columnMapping"),
        (features(&[], &["fromTheFuture"]), json!({}), json!({}), "fromTheFuture"),
        (features(&["catalogManaged"], &["inCommitTimestamp"]), json!({"delta.enableInCommitTimestamps": "true"}), json!({}), "catalogManaged"),
        (features(&["variantType"], &[]), json!({}), json!({}), "variantType"),
        (legacy(2), json!({"delta.setTransactionRetentionDuration": "interval 1 month"}), json!({}), "setTransactionRetentionDuration"),
        (legacy(2), json!({"delta.setTransactionRetentionDuration": "interval 9 minutes"}), json!({}), "setTransactionRetentionDuration"),
    ];
    for (protocol, properties, metadata, name) in cases {
        let disk = table_with(&protocol, &properties, &metadata);
        let error = match Table::open(&disk.location(), options("app")) {
            Ok(_) => panic!("{name} was let through"),
            Err(error) => error,
        };
        assert!(error.to_string().contains(name), "{name}: {error}");
        assert!(matches!(error.verdict(), Verdict::Stop(_)), "{name}");
    }
}

#[test]
fn what_we_honour_is_written_to() {
    let icts = json!({"delta.enableInCommitTimestamps": "true"});
    #[rustfmt::skip] // columns: protocol, properties
    let cases = [
        (json!({"minReaderVersion": 1, "minWriterVersion": 1}), json!({})),
        (json!({"minReaderVersion": 1, "minWriterVersion": 2}), json!({"delta.appendOnly": "true"})),
        (json!({"minReaderVersion": 1, "minWriterVersion": 4}), json!({"delta.enableChangeDataFeed": "true"})),
        (json!({"minReaderVersion": 2, "minWriterVersion": 6}), json!({})),
        (features(&["deletionVectors"], &["appendOnly", "invariants"]), json!({"delta.enableDeletionVectors": "true"})),
        (features(&["timestampNtz", "vacuumProtocolCheck"], &["domainMetadata", "checkConstraints", "generatedColumns"]), json!({})),
        (features(&["v2Checkpoint"], &[]), json!({"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1"})),
        (features(&["columnMapping"], &[]), json!({})),
        (features(&[], &["inCommitTimestamp"]), icts),
        (json!({"minReaderVersion": 1, "minWriterVersion": 2}), json!({"delta.setTransactionRetentionDuration": "interval 7 days"})),
    ];
    for (protocol, properties) in cases {
        let disk = table_with(&protocol, &properties, &json!({"comment": "fine"}));
        ingest(&disk, 12);
        ingest(&disk, 30);
    }
}

#[test]
fn in_commit_timestamps_come_first_and_rise() {
    let disk = table_with(
        &features(&[], &["inCommitTimestamp"]),
        &json!({"delta.enableInCommitTimestamps": "true"}),
        &json!({}),
    );
    ingest(&disk, 30);
    let stamps: Vec<_> = (0..=disk.head())
        .map(|version| disk.actions(version)[0]["commitInfo"]["inCommitTimestamp"].as_i64().unwrap())
        .collect();
    assert!(stamps.len() > 2 && stamps.is_sorted_by(|a, b| a < b), "{stamps:?}");
}

#[test] // K17
fn a_property_that_comes_while_we_run_is_refused_or_heeded() {
    let disk = Disk::with(&[]);
    let mut table = disk.open("app");
    let before = table.load(&set(&[0])).unwrap();
    let metadata = disk.actions(0).into_iter().find_map(|action| action.get("metaData").cloned()).unwrap();
    let mut indexed = metadata.clone();
    indexed["configuration"] = json!({"delta.dataSkippingStatsColumns": "id"});
    disk.foreign(&[json!({"metaData": indexed})]);
    assert_ne!(table.load(&set(&[0])).unwrap().shape, before.shape);
    assert_eq!(*table.layout().stats_columns(), StatsColumns::Only(vec![vec!["id".to_owned()]]));
    let mut constrained = metadata.clone();
    constrained["configuration"] = json!({"delta.constraints.c": "id > 0"});
    disk.foreign(&[json!({"metaData": constrained})]);
    let _ = table.load(&set(&[0])).unwrap();
    assert_eq!(table.layout().rules().checks.len(), 1);
    let error = Writer::new(&table.layout(), WriterOptions::default()).unwrap_err();
    assert!(error.to_string().contains("constraint c (id > 0)"), "a writer that does not keep it refuses: {error}");
    let mut refused = metadata;
    refused["configuration"] = json!({"delta.enableIcebergCompatV2": "true"});
    disk.foreign(&[json!({"metaData": refused})]);
    let error = table.load(&set(&[0])).unwrap_err();
    assert!(error.to_string().contains("icebergCompatV2"), "{error}");
    assert_eq!(error.verdict(), Verdict::Stop(Exit::Config));
}

#[test]
fn a_grown_layout_is_the_tables_once_its_metadata_is_there() {
    let disk = Disk::with(&[("delta.dataSkippingNumIndexedCols", "3")]);
    let mut table = disk.open("app");
    let _ = table.load(&set(&[0])).unwrap();
    let more = [Field::new("b", DataType::Utf8, true), Field::new("c", DataType::Int64, true)];
    let layout = table.layout();
    let fields = layout.schema().fields().iter().map(|field| field.as_ref().clone()).chain(more);
    let grown = layout.grown(&Schema::new(fields.collect::<Vec<_>>())).unwrap();
    assert_ne!(grown.shape(), table.layout().shape());
    disk.foreign(&[serde_json::from_str(&grown.metadata_action().unwrap()).unwrap()]);
    let head = table.load(&set(&[0])).unwrap();
    assert_eq!((head.shape, table.layout().schema()), (grown.shape(), grown.schema()));
    assert_eq!(*table.layout().stats_columns(), StatsColumns::First(3), "its properties stay");
}

#[test] // K52
fn skipping_properties_are_read() {
    #[rustfmt::skip] // columns: property, value, what it means; none is refused
    let cases = [
        ("delta.dataSkippingNumIndexedCols", "1",         Some(StatsColumns::First(1))),
        ("delta.dataSkippingNumIndexedCols", "0",         Some(StatsColumns::First(0))),
        ("delta.dataSkippingNumIndexedCols", "-1",        Some(StatsColumns::All)),
        ("delta.dataSkippingNumIndexedCols", "many",      None),
        ("delta.dataSkippingNumIndexedCols", "-2",        None),
        ("delta.dataSkippingStatsColumns",   "id, `part`", Some(StatsColumns::Only(vec![vec!["id".into()], vec!["part".into()]]))),
        ("delta.dataSkippingStatsColumns",   "",          None),
        ("other",                            "x",         Some(StatsColumns::First(32))),
    ];
    for (property, value, expected) in cases {
        let disk = Disk::with(&[(property, value)]);
        match (Table::open(&disk.location(), options("app")), expected) {
            (Ok(table), Some(expected)) => {
                assert_eq!(*table.layout().stats_columns(), expected, "{property} = {value}")
            }
            (Err(error), None) => assert!(error.to_string().contains(property), "{error}"),
            (outcome, expected) => panic!("{property} = {value}: {expected:?}, got {:?}", outcome.err()),
        }
    }
}

#[test]
fn what_is_no_table_is_missing_or_broken() {
    let disk = Disk::empty();
    let error = Table::open(&disk.location(), options("app")).unwrap_err();
    assert_eq!(error.verdict(), Verdict::Stop(Exit::Unavailable), "{error}");
    assert!(error.to_string().contains("--create"), "{error}");
    let disk = Disk::with(&[]);
    std::fs::write(disk.log_folder().join(format!("{:020}.json", 1)), "{\"txn\":").unwrap();
    let error = Table::open(&disk.location(), options("app")).unwrap_err();
    assert_eq!(error.verdict(), Verdict::Stop(Exit::Data), "{error}");
}

#[test]
fn a_schema_that_leaves_out_what_goes_without_saying_makes_a_table() {
    let schema = r#"{"type":"struct","fields":[{"name":"id","type":"long"},
        {"name":"s","type":{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":"long"}}]},"metadata":null},
        {"name":"m","type":{"type":"map","keyType":"string","valueType":"long"}}]}"#;
    let schema = TableSchema::parse("schema.json", schema).unwrap();
    let (disk, new) = (Disk::empty(), NewTable { schema, ..new_table(&[]) });
    assert_eq!(create(&disk.location(), &new, &runtime()).unwrap(), Created::New);
    assert_eq!(disk.open("app").difference(&new), None);
}

#[test] // K83
fn tables_are_created_as_asked_or_not_at_all() {
    let every = r#"{"type":"struct","fields":[
        {"name":"ts","type":"timestamp_ntz","nullable":true,"metadata":{}},
        {"name":"day","type":"date","nullable":true,"metadata":{}},
        {"name":"amount","type":"decimal(10,2)","nullable":false,"metadata":{"comment":"in euros"}}]}"#;
    let table = |partition: &[&str], properties: &[(&str, &str)]| NewTable {
        schema: TableSchema::parse("schema.json", every).unwrap(),
        partition_columns: partition.iter().map(|name| (*name).to_owned()).collect(),
        properties: properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    };
    let disk = Disk::empty();
    let good = table(&["day"], &[("delta.appendOnly", "true"), ("mine", "x")]);
    assert_eq!(create(&disk.location(), &good, &runtime()).unwrap(), Created::New);
    assert_eq!(create(&disk.location(), &good, &runtime()).unwrap(), Created::Existed);
    let opened = disk.open("app");
    assert_eq!(opened.layout().partition_columns(), ["day"]);
    assert_eq!(opened.layout().schema(), good.schema.arrow());
    assert_eq!(opened.difference(&good), None);
    #[rustfmt::skip] // columns: schema of another table, how ours differs from it
    let others = [
        (every.replace("decimal(10,2)", "long"),       "its column amount decimal(10,2) NOT NULL is not amount long NOT NULL"),
        (every.replace(r#""nullable":false"#, r#""nullable":true"#), "its column amount decimal(10,2) NOT NULL is not amount decimal(10,2)"),
        (every.replace("}]}", r#"},{"name":"x","type":{"type":"array","elementType":"long","containsNull":true}}]}"#), "it has no column x {"),
        (every.replace(r#","nullable":false,"metadata":{"comment":"in euros"}"#, r#","nullable":false"#), ""),
        (r#"{"type":"struct","fields":[{"name":"ts","type":"timestamp_ntz"},{"name":"day","type":"date"}]}"#.to_owned(), "it has the column amount decimal(10,2) NOT NULL as well"),
    ];
    for (schema, expected) in others {
        let schema = TableSchema::parse("other.json", &schema).unwrap();
        let difference = opened.difference(&NewTable { schema, ..good.clone() }).unwrap_or_default();
        assert!(difference.starts_with(expected) && difference.is_empty() == expected.is_empty(), "{difference}");
    }
    assert_eq!(opened.difference(&table(&[], &[])).unwrap(), r#"it is partitioned by ["day"], not by []"#);
    #[rustfmt::skip] // columns: table, what the refusal names
    let cases = [
        (table(&["nope"], &[]),                                       "nope"),
        (table(&["day", "day"], &[]),                                 "twice"),
        (table(&["ts", "day", "amount"], &[]),                        "no partition column"),
        (table(&[], &[("delta.columnMapping.mode", "name")]),         "delta.columnMapping.mode"),
        (table(&[], &[("delta.enableChangeDataFeed", "true")]),       "delta.enableChangeDataFeed"),
    ];
    for (bad, name) in cases {
        let disk = Disk::empty();
        let error = create(&disk.location(), &bad, &runtime()).unwrap_err();
        assert!(error.to_string().contains(name), "{name}: {error}");
        assert!(!disk.log_folder().exists(), "{name}: nothing is left behind");
    }
    assert_eq!(new_table(&[]).partition_columns, Vec::<String>::new());
}
