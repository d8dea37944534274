//! A view of three columns, its rows, and the log read by the letter.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use futures::TryStreamExt;
use lakeward_delta::encode::WriterOptions;
use lakeward_delta::scan::Scan;
use lakeward_delta::view::{ByKey, Change, Commit, Compaction, Mode, Move, StageError, View, ViewOptions, new_table};
use lakeward_delta::{Created, DeltaError, Table, TableOptions, TableSchema, create_on};
use lakeward_protocol::position::{CommitId, TableVersion};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use serde_json::Value;

use crate::support::{offset, options, runtime};

pub const SCHEMA: &str = r#"{"type":"struct","fields":[
    {"name":"id","type":"long","nullable":true,"metadata":{}},
    {"name":"name","type":"string","nullable":true,"metadata":{}},
    {"name":"score","type":"double","nullable":true,"metadata":{}}]}"#;

/// id, name, score.
pub type Row = (Option<i64>, Option<String>, Option<f64>);

pub fn row(id: i64, name: &str) -> Row {
    (Some(id), Some(name.to_owned()), Some(id as f64))
}

pub fn rows(ids: impl IntoIterator<Item = i64>, name: &str) -> Vec<Row> {
    ids.into_iter().map(|id| row(id, name)).collect()
}

pub fn batch(rows: &[Row]) -> RecordBatch {
    let schema = TableSchema::parse("view", SCHEMA).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(schema.arrow().clone(), columns).unwrap()
}

pub fn change(deletes: &[Row], inserts: &[Row]) -> Change {
    Change { inserts: vec![batch(inserts)], deletes: vec![batch(deletes)], step: 7, ..Change::default() }
}

/// A total order of rows, NULLs and odd floats among them.
pub fn order(row: &Row) -> (Option<i64>, Option<String>, Option<u64>) {
    (row.0, row.1.clone(), row.2.map(f64::to_bits))
}

pub fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(order);
    rows
}

/// A table in memory, and what is done to it.
#[derive(Clone)]
pub struct Lake {
    pub store: Arc<InMemory>,
}

pub fn view_options(mode: Mode, key: &[&str], compaction: Option<Compaction>) -> ViewOptions {
    let key = key.iter().map(|name| (*name).to_owned()).collect();
    ViewOptions { mode, key, writer: WriterOptions::default(), compaction, by_key: ByKey::default() }
}

/// Rewrites whatever it can.
pub fn eager() -> Option<Compaction> {
    Some(Compaction { dead_percent: 30, small_files: 2, ..Compaction::default() })
}

impl Lake {
    pub fn new(mode: Mode, partition_columns: &[&str], properties: &[(&str, &str)]) -> Self {
        let schema = TableSchema::parse("view", SCHEMA).unwrap();
        let partition_columns = partition_columns.iter().map(|name| (*name).to_owned()).collect();
        let mut table = new_table(mode, &schema, partition_columns).unwrap();
        table.properties.extend(properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let store = Arc::new(InMemory::new());
        let created = create_on(store.clone(), Path::from("t"), &table, &runtime()).unwrap();
        assert_eq!(created, Created::New);
        Self { store }
    }

    pub fn open(&self, app_id: &str, options: ViewOptions) -> Result<View, DeltaError> {
        open_on(self.store.clone(), app_id, options)
    }

    /// Live rows of a version, the newest where none is named; read by the Delta library.
    pub fn rows(&self, version: Option<u64>) -> Vec<Row> {
        let version = version.map(TableVersion);
        let columns = ["id", "name", "score"];
        let scan = Scan::open_on(self.store.clone(), Path::from("t"), version, Some(&columns), &runtime()).unwrap();
        sorted(scan.flat_map(|batch| to_rows(&batch.unwrap())).collect())
    }

    pub fn head(&self) -> u64 {
        self.commits().len() as u64 - 1
    }

    pub fn commits(&self) -> Vec<Vec<Value>> {
        runtime().block_on(async {
            let folder = Path::from("t/_delta_log");
            let files: Vec<_> = self.store.list(Some(&folder)).try_collect().await.unwrap();
            let mut commits = BTreeMap::new();
            for file in files.iter().filter(|file| file.location.as_ref().ends_with(".json")) {
                let bytes = self.store.get(&file.location).await.unwrap().bytes().await.unwrap();
                let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                let actions: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
                commits.insert(file.location.clone(), actions);
            }
            commits.into_values().collect()
        })
    }

    /// Somebody else's commit on top of what is there.
    pub fn foreign(&self, actions: &[Value]) {
        let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
        let at = Path::from(format!("t/_delta_log/{:020}.json", self.head() + 1));
        let put = self.store.put_opts(&at, lines.into(), PutMode::Create.into());
        let _ = runtime().block_on(put).unwrap();
    }
}

pub fn open_on(store: Arc<dyn ObjectStore>, app_id: &str, options: ViewOptions) -> Result<View, DeltaError> {
    let table = TableOptions { topic: None, ..options_of(app_id) };
    View::open(Table::open_on(store, Path::from("t"), table)?, options)
}

fn options_of(app_id: &str) -> TableOptions {
    options(app_id)
}

fn to_rows(batch: &RecordBatch) -> Vec<Row> {
    let id = batch.column(0).as_primitive::<Int64Type>();
    let name = batch.column(1).as_string::<i32>();
    let score = batch.column(2).as_primitive::<Float64Type>();
    let value = |at| {
        (
            id.is_valid(at).then(|| id.value(at)),
            name.is_valid(at).then(|| name.value(at).to_owned()),
            score.is_valid(at).then(|| score.value(at)),
        )
    };
    (0..batch.num_rows()).map(value).collect()
}

/// One source partition's step from `from` to `to`; nothing is stored before 0.
pub fn moves(app_id: &str, from: i64, to: i64) -> Vec<Move> {
    let from = (from > 0).then(|| offset(from));
    vec![Move { app_id: format!("{app_id}-0"), from, to: offset(to) }]
}

/// Stages and commits a step that must go well.
pub fn step(view: &mut View, at: i64, change: &Change) -> u64 {
    let staged = view.stage(change).unwrap_or_else(|error| panic!("{error}"));
    match view.commit(CommitId(at.unsigned_abs().into()), &moves("app", at, at + 1), Some(&staged)) {
        Ok(Commit::Done(version)) => version.0,
        other => panic!("step {at}: {other:?}"),
    }
}

/// The message of a step that must not go through.
pub fn refusal(view: &mut View, at: i64, change: &Change) -> String {
    let staged = match view.stage(change) {
        Ok(staged) => staged,
        Err(StageError::Delta(error)) => return error.to_string(),
        Err(error) => return error.to_string(),
    };
    match view.commit(CommitId(99), &moves("app", at, at + 1), Some(&staged)) {
        Err(error) => error.to_string(),
        Ok(other) => panic!("it went through: {other:?}"),
    }
}

/// Replays commits from their JSON alone, as the protocol says: files are told apart by path and deletion vector.
/// Every `remove` must end a live file, every `add` begin one. Returns the live rows after each version, by the numbers
/// that the log has.
pub fn replay(commits: &[Vec<Value>]) -> Vec<u64> {
    let name = |action: &Value| {
        let vector = &action["deletionVector"];
        (action["path"].as_str().unwrap().to_owned(), format!("{}{}", vector["pathOrInlineDv"], vector["offset"]))
    };
    let mut live: HashMap<(String, String), u64> = HashMap::new();
    let mut counts = Vec::new();
    for (version, commit) in commits.iter().enumerate() {
        for remove in commit.iter().filter_map(|action| action.get("remove")) {
            let ended = live.remove(&name(remove));
            assert!(ended.is_some(), "version {version} removes what is not live: {remove}");
        }
        for add in commit.iter().filter_map(|action| action.get("add")) {
            let stats: Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
            let dead = add["deletionVector"]["cardinality"].as_u64();
            assert_eq!(stats["tightBounds"].as_bool().unwrap(), dead.is_none(), "bounds of a file with dead rows");
            let rows = stats["numRecords"].as_u64().unwrap() - dead.unwrap_or(0);
            assert!(rows > 0, "version {version} adds a file without a live row: {add}");
            let began = live.insert(name(add), rows);
            assert!(began.is_none(), "version {version} adds what is live: {add}");
        }
        let paths: HashSet<_> = live.keys().map(|(path, _)| path).collect();
        assert_eq!(paths.len(), live.len(), "version {version} leaves a file live twice");
        counts.push(live.values().sum());
    }
    counts
}
