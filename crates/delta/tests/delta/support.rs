//! Tables, rivals and a stage whose rows are (partition, offset).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Int32Array, Int64Array, RecordBatch};
use lakeward_delta::encode::{EncodeError, Writer, WriterOptions};
use lakeward_delta::scan::Scan;
use lakeward_delta::{
    Batch, Checkpoints, Created, DataFile, FileSpan, Layout, NewTable, Table, TableOptions, TableSchema, Tally, Topic,
    create,
};
use lakeward_protocol::ports::{Exit, Fault, Stage, Verdict};
use lakeward_protocol::position::{Offset, PartitionId};
use lakeward_protocol::records::Records;
use object_store::memory::InMemory;
use object_store::path::Path;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Handle, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

pub fn runtime() -> Handle {
    RUNTIME.handle().clone()
}

pub const SCHEMA: &str = r#"{"type":"struct","fields":[
    {"name":"part","type":"integer","nullable":false,"metadata":{}},
    {"name":"id","type":"long","nullable":true,"metadata":{}}]}"#;

pub fn new_table(properties: &[(&str, &str)]) -> NewTable {
    NewTable {
        schema: TableSchema::parse("test", SCHEMA).unwrap(),
        partition_columns: vec![],
        properties: properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    }
}

pub fn options(app_id: &str) -> TableOptions {
    TableOptions {
        app_id: app_id.to_owned(),
        topic: Some(Topic { name: "web".to_owned(), id: Some([1; 16]) }),
        checkpoints: Checkpoints::AsTheTableSays,
        runtime: runtime(),
    }
}

pub fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

pub fn set(partitions: &[u32]) -> BTreeSet<PartitionId> {
    partitions.iter().map(|partition| PartitionId(*partition)).collect()
}

/// A table on local disk, and what others do to it.
pub struct Disk {
    folder: TempDir,
}

impl Disk {
    pub fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn with(properties: &[(&str, &str)]) -> Self {
        let disk = Self::empty();
        let Created::New = create(&disk.location(), &new_table(properties), &runtime()).unwrap() else {
            panic!("the folder is empty")
        };
        disk
    }

    /// Characters that have to be escaped on the way to the store.
    pub fn location(&self) -> String {
        self.folder.path().join("a table?#é").to_str().unwrap().to_owned()
    }

    pub fn open(&self, app_id: &str) -> Table {
        Table::open(&self.location(), options(app_id)).unwrap()
    }

    pub fn log_folder(&self) -> std::path::PathBuf {
        std::path::Path::new(&self.location()).join("_delta_log")
    }

    pub fn log_names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.log_folder())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn head(&self) -> u64 {
        let versions = self.log_names().into_iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok());
        versions.max().unwrap()
    }

    pub fn actions(&self, version: u64) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log_folder().join(format!("{version:020}.json"))).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Somebody else's commit on top of what is there.
    pub fn foreign(&self, actions: &[Value]) -> u64 {
        let version = self.head() + 1;
        self.write(version, actions);
        version
    }

    pub fn write(&self, version: u64, actions: &[Value]) {
        std::fs::create_dir_all(self.log_folder()).unwrap();
        let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
        std::fs::write(self.log_folder().join(format!("{version:020}.json")), lines).unwrap();
    }

    /// What RESTORE writes: files added since go, files removed since come back, `txn`s stay.
    pub fn restore(&self, to: u64, parameters: &Value) -> u64 {
        let (now, then) = (self.files(self.head()), self.files(to));
        let info = json!({"commitInfo": {"timestamp": 1, "operation": "RESTORE", "operationParameters": parameters}});
        let mut actions = vec![info];
        for path in now.keys().filter(|path| !then.contains_key(*path)) {
            actions.push(json!({"remove": {"path": path, "deletionTimestamp": 1, "dataChange": true}}));
        }
        actions.extend(then.iter().filter(|(path, _)| !now.contains_key(*path)).map(|(_, add)| json!({"add": add})));
        self.foreign(&actions)
    }

    /// The live files of a version.
    fn files(&self, version: u64) -> BTreeMap<String, Value> {
        let mut files = BTreeMap::new();
        for action in (0..=version).flat_map(|version| self.actions(version)) {
            if let Some(add) = action.get("add") {
                files.insert(add["path"].as_str().unwrap().to_owned(), add.clone());
            }
            if let Some(remove) = action.get("remove") {
                files.remove(remove["path"].as_str().unwrap());
            }
        }
        files
    }

    /// The live files of the newest version, by their paths: what the `add` says.
    pub fn live(&self) -> BTreeMap<String, Value> {
        self.files(self.head())
    }

    pub fn delete(&self) {
        std::fs::remove_dir_all(self.location()).unwrap();
    }

    /// Partition and offset of every live row, sorted.
    pub fn rows(&self) -> Vec<(PartitionId, Offset)> {
        let mut rows = vec![];
        for batch in Scan::open(&self.location(), Some(&["part", "id"]), &runtime()).unwrap() {
            let batch = batch.unwrap();
            let part = batch.column(0).as_primitive::<Int32Type>();
            let id = batch.column(1).as_primitive::<Int64Type>();
            rows.extend(
                part.values()
                    .iter()
                    .zip(id.values())
                    .map(|(part, id)| (PartitionId(u32::try_from(*part).unwrap()), offset(*id))),
            );
        }
        rows.sort_unstable();
        rows
    }
}

pub fn each(partitions: &[u32], offsets: std::ops::Range<i64>) -> Vec<(PartitionId, Offset)> {
    partitions.iter().flat_map(|p| offsets.clone().map(|o| (PartitionId(*p), offset(o)))).collect()
}

/// An empty table in memory.
pub fn in_memory(properties: &[(&str, &str)]) -> Arc<InMemory> {
    let store = Arc::new(InMemory::new());
    let created = lakeward_delta::create_on(store.clone(), Path::from("t"), &new_table(properties), &runtime());
    assert_eq!(created.unwrap(), Created::New);
    store
}

/// A stage with the crate's own writer behind it: the row of a record is its place.
pub struct PlaceStage {
    writer: Option<(Writer, Layout)>,
    rows: Vec<(PartitionId, Offset)>,
    full_at: usize,
}

impl PlaceStage {
    pub fn new(full_at: usize) -> Self {
        Self { writer: None, rows: vec![], full_at }
    }
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StageError(#[from] EncodeError);

impl Fault for StageError {
    fn verdict(&self) -> Verdict {
        match self.0.verdict() {
            Verdict::Retry => Verdict::Retry,
            Verdict::Stop(_) => Verdict::Stop(Exit::Software),
        }
    }
}

impl Stage for PlaceStage {
    type Batch = Batch;
    type Layout = Layout;
    type Error = StageError;

    fn open(&mut self, layout: &Layout) -> Result<(), StageError> {
        assert!(self.rows.is_empty());
        self.writer = Some((Writer::new(layout, WriterOptions::default())?, layout.clone()));
        Ok(())
    }

    fn push(&mut self, records: Records) -> Result<Option<Records>, StageError> {
        let rows = records.entries().iter().map(|entry| (records.partition(), offset(entry.offset)));
        self.rows.extend(rows);
        Ok(Some(records))
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.full_at
    }

    fn seal(&mut self) -> Result<Batch, StageError> {
        let (writer, layout) = self.writer.as_mut().expect("open precedes seal");
        let batch = write_rows(writer, layout, &self.rows)?;
        self.rows.clear();
        Ok(batch)
    }

    fn discard(&mut self) {
        self.rows.clear();
        if let Some((writer, _)) = &mut self.writer {
            writer.discard();
        }
    }
}

/// Seals these rows, in this order.
pub fn write_rows(writer: &mut Writer, layout: &Layout, rows: &[(PartitionId, Offset)]) -> Result<Batch, EncodeError> {
    let part = Int32Array::from_iter_values(rows.iter().map(|(p, _)| i32::try_from(p.0).unwrap()));
    let id = Int64Array::from_iter_values(rows.iter().map(|(_, o)| o.get()));
    let mut columns: Vec<arrow_array::ArrayRef> = vec![Arc::new(part), Arc::new(id)];
    for field in layout.schema().fields().iter().skip(2) {
        columns.push(arrow_array::new_null_array(field.data_type(), rows.len()));
    }
    let batch = RecordBatch::try_new(layout.schema().clone(), columns).unwrap();
    let spans: Vec<_> = rows
        .iter()
        .map(|(partition, at)| FileSpan { partition: *partition, from: *at, to: offset(at.get() + 1), rows: 1 })
        .collect();
    writer.discard();
    writer.write(&batch, &spans)?;
    let files: Vec<DataFile> = writer.deliver(&runtime())?;
    let mut tally: BTreeMap<PartitionId, Tally> = BTreeMap::new();
    for (partition, _) in rows {
        let tally = tally.entry(*partition).or_default();
        (tally.records, tally.rows) = (tally.records + 1, tally.rows + 1);
    }
    Ok(Batch { files, tally, ..Batch::default() })
}
