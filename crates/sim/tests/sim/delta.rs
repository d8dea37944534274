//! A Delta table in memory, written by the real crate; seen from outside by reading its log's JSON
//! and its Parquet files, without that crate.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, new_null_array};
use lakeward_delta::encode::{EncodeError, Writer, WriterOptions};
use lakeward_delta::{
    Batch, Checkpoints, Created, FileSpan, Layout, NewTable, Table, TableOptions, TableSchema, Tally, Topic as TopicOf,
    create_on,
};
use lakeward_protocol::memory::{Operation, Topic};
use lakeward_protocol::ports::Stage;
use lakeward_protocol::position::{Frontier, Offset, PartitionId, TableVersion};
use lakeward_protocol::records::Records;
use lakeward_sim::{Call, Chaos, FaultyStore, Late, Site};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads")
});

const SCHEMA: &str = r#"{"type":"struct","fields":[
    {"name":"part","type":"integer","nullable":false,"metadata":{}},
    {"name":"at","type":"long","nullable":true,"metadata":{}}]}"#;

type Place = (PartitionId, Offset);

/// The table.
pub struct DeltaSite {
    store: Arc<InMemory>,
    late: Late,
    versions: RefCell<Vec<Version>>,
}

/// One version's commit, as its JSON says.
#[derive(Clone, Default)]
struct Version {
    frontier: Frontier,
    adds: Vec<String>,
    rows: Vec<Place>,
    metadata: Option<Value>,
}

impl DeltaSite {
    pub fn new() -> Self {
        let store = Arc::new(InMemory::new());
        let table = NewTable {
            schema: TableSchema::parse("simulation", SCHEMA).expect("a schema"),
            partition_columns: vec![],
            properties: BTreeMap::from([("delta.checkpointInterval".into(), "10".into())]),
        };
        let created = create_on(Arc::clone(&store) as _, root(), &table, RUNTIME.handle()).expect("a new table");
        assert_eq!(created, Created::New);
        Self { store, late: Late::default(), versions: RefCell::default() }
    }

    /// Reads what is new in the log.
    fn look(&self) -> std::cell::Ref<'_, Vec<Version>> {
        loop {
            let known = self.versions.borrow().len();
            let Some(version) = self.read(known) else { break };
            self.versions.borrow_mut().push(version);
        }
        self.versions.borrow()
    }

    fn bytes(&self, path: &Path) -> Option<bytes::Bytes> {
        RUNTIME.block_on(async { self.store.get(path).await.ok()?.bytes().await.ok() })
    }

    fn read(&self, number: usize) -> Option<Version> {
        let text = self.bytes(&log_path(number))?;
        let mut version = Version::default();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let action: Value = serde_json::from_slice(line).expect("a commit is lines of JSON");
            if let Some(txn) =
                action.get("txn").filter(|txn| txn["appId"].as_str().is_some_and(|id| id.starts_with("app-")))
            {
                let partition = txn["appId"].as_str().and_then(|id| id.strip_prefix("app-")?.parse().ok());
                let to = Offset::after(txn["version"].as_i64().expect("a number")).expect("an offset");
                version.frontier.insert(PartitionId(partition.expect("a partition")), to);
            }
            if let Some(add) = action.get("add") {
                let path = add["path"].as_str().expect("a path").to_owned();
                version.rows.extend(self.rows_of(&path, add["stats"].as_str().expect("stats")));
                version.adds.push(path);
            }
            if let Some(metadata) = action.get("metaData") {
                version.metadata = Some(metadata.clone());
            }
        }
        Some(version)
    }

    fn rows_of(&self, path: &str, stats: &str) -> Vec<Place> {
        let bytes = self.bytes(&Path::from(format!("table/{path}"))).expect("a file that a commit names is there");
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).expect("Parquet").build().expect("Parquet");
        let mut rows = Vec::new();
        for batch in reader {
            let batch = batch.expect("Parquet");
            let (part, at) = (batch.column(0).as_primitive::<Int32Type>(), batch.column(1).as_primitive::<Int64Type>());
            rows.extend(part.values().iter().zip(at.values()).map(|(p, o)| place(p.unsigned_abs(), *o)));
        }
        let stats: Value = serde_json::from_str(stats).expect("stats are JSON");
        assert_eq!(stats["numRecords"], rows.len(), "stats of {path}");
        rows
    }

    /// Somebody else's commit on top.
    fn foreign(&self, actions: &[Value]) {
        let number = self.look().len();
        let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
        let path = log_path(number);
        let put = self.store.put_opts(&path, lines.into_bytes().into(), PutMode::Create.into());
        RUNTIME.block_on(put).expect("nobody else moves meanwhile");
    }
}

fn root() -> Path {
    Path::from("table")
}

fn log_path(version: usize) -> Path {
    Path::from(format!("table/_delta_log/{version:020}.json"))
}

fn place(partition: u32, at: i64) -> Place {
    (PartitionId(partition), Offset::new(at).expect("not negative"))
}

impl Site for DeltaSite {
    type Batch = Batch;
    type Layout = Layout;
    type Stage = PlaceStage;
    type Output = Table;

    fn open(&self, chaos: &Chaos) -> (PlaceStage, Table) {
        let fates = chaos.clone();
        let fate = move |call| fates.fate(if call == Call::Commit { Operation::Put } else { Operation::Load });
        let store = FaultyStore::with_late(Arc::clone(&self.store), fate, self.late.clone());
        let options = TableOptions {
            app_id: "app".into(),
            topic: Some(TopicOf { name: "topic".into(), id: Some([7; 16]) }),
            checkpoints: Checkpoints::AsTheTableSays,
            runtime: RUNTIME.handle().clone(),
        };
        let table = chaos.calm(|| Table::open_on(Arc::new(store), root(), options)).expect("the table is there");
        (PlaceStage::default(), table)
    }

    fn foreign_append(&self) {
        self.foreign(&[
            json!({"commitInfo": {"operation": "WRITE"}}),
            json!({"txn": {"appId": "other", "version": 1}}),
        ]);
    }

    fn foreign_reshape(&self) {
        let mut metadata =
            self.look().iter().rev().find_map(|version| version.metadata.clone()).expect("version 0 has one");
        let mut schema: Value = serde_json::from_str(metadata["schemaString"].as_str().expect("text")).expect("JSON");
        let fields = schema["fields"].as_array_mut().expect("fields");
        fields
            .push(json!({"name": format!("more{}", fields.len()), "type": "string", "nullable": true, "metadata": {}}));
        metadata["schemaString"] = json!(schema.to_string());
        self.foreign(&[json!({"commitInfo": {"operation": "ADD COLUMNS"}}), json!({"metaData": metadata})]);
    }

    fn deliver_late(&self) -> bool {
        RUNTIME.block_on(self.late.land(&self.store))
    }

    fn version(&self) -> TableVersion {
        TableVersion(self.look().len() as u64 - 1)
    }

    fn frontier(&self) -> Frontier {
        self.look().iter().flat_map(|version| version.frontier.clone()).collect()
    }

    fn rows(&self) -> Vec<Place> {
        self.look().iter().flat_map(|version| version.rows.clone()).collect()
    }

    fn verify(&self, topic: &Topic) -> Result<(), String> {
        let mut frontier = Frontier::new();
        let mut files = BTreeSet::new();
        for (number, version) in self.look().iter().enumerate() {
            let mut expected = Vec::new();
            for (partition, to) in &version.frontier {
                let from = frontier.insert(*partition, *to).unwrap_or(Offset::ZERO);
                let records = topic.records(*partition).into_iter().filter(|(_, value)| value != b"bad");
                expected.extend(records.map(|(at, _)| (*partition, at)).filter(|(_, at)| (from..*to).contains(at)));
            }
            let mut rows = version.rows.clone();
            rows.sort_unstable();
            if rows != expected {
                return Err(format!("P1: version {number} holds {rows:?}, its txns say {expected:?}"));
            }
            if let Some(twice) = version.adds.iter().find(|path| !files.insert((*path).clone())) {
                return Err(format!("P1: version {number} adds {twice} again"));
            }
        }
        Ok(())
    }
}

/// Rows are the places of the records themselves.
#[derive(Default)]
pub struct PlaceStage {
    layout: Option<Layout>,
    rows: Vec<Place>,
    tally: BTreeMap<PartitionId, Tally>,
}

impl Stage for PlaceStage {
    type Batch = Batch;
    type Layout = Layout;
    type Error = EncodeError;

    fn open(&mut self, layout: &Layout) -> Result<(), EncodeError> {
        self.layout = Some(layout.clone());
        Ok(())
    }

    fn push(&mut self, records: Records) -> Result<Option<Records>, EncodeError> {
        let tally = self.tally.entry(records.partition()).or_default();
        for entry in records.entries() {
            let value = records.value(entry);
            let (good, bad) = (value.is_some_and(|v| v != b"bad"), value == Some(b"bad".as_slice()));
            *tally += Tally {
                records: 1,
                rows: good.into(),
                bad: bad.into(),
                tombstones: value.is_none().into(),
                ..Tally::default()
            };
            if good {
                self.rows.push(place(records.partition().0, entry.offset));
            }
        }
        Ok(Some(records))
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= 50
    }

    fn seal(&mut self) -> Result<Batch, EncodeError> {
        let layout = self.layout.as_ref().expect("opened");
        let mut writer = Writer::new(layout, WriterOptions::default())?;
        self.rows.sort_unstable();
        let part: ArrayRef = Arc::new(Int32Array::from_iter_values(self.rows.iter().map(|(p, _)| p.0.cast_signed())));
        let at: ArrayRef = Arc::new(Int64Array::from_iter_values(self.rows.iter().map(|(_, o)| o.get())));
        let more = layout.schema().fields().iter().skip(2).map(|field| new_null_array(field.data_type(), part.len()));
        let columns: Vec<ArrayRef> = [Arc::clone(&part), Arc::clone(&at)].into_iter().chain(more).collect();
        let batch = RecordBatch::try_new(Arc::clone(layout.schema()), columns).expect("rows fit the layout");
        writer.write(&batch, &spans(&self.rows))?;
        let files = writer.deliver(RUNTIME.handle())?;
        self.rows.clear();
        Ok(Batch { files, tally: std::mem::take(&mut self.tally), ..Batch::default() })
    }

    fn discard(&mut self) {
        self.rows.clear();
        self.tally.clear();
    }
}

fn spans(rows: &[Place]) -> Vec<FileSpan> {
    let mut spans: Vec<FileSpan> = Vec::new();
    for (partition, at) in rows {
        let to = Offset::after(at.get()).expect("a small offset");
        match spans.last_mut().filter(|span| span.partition == *partition) {
            Some(span) => (span.to, span.rows) = (to, span.rows + 1),
            None => spans.push(FileSpan { partition: *partition, from: *at, to, rows: 1 }),
        }
    }
    spans
}
