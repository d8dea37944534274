//! Tables made by hand: data files by our writer, the log by this file, read by the kernel.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Schema, SchemaRef};
use delta_kernel::engine::arrow_conversion::TryIntoKernel;
use delta_kernel::schema::StructType;
use lakeward_protocol::position::{Offset, PartitionId, Shape};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::encode::{Writer, WriterOptions};
use crate::layout::{DataFile, FileSpan, Layout, LayoutParts, StatsColumns};
use crate::scan::Scan;

/// A table in a folder that vanishes with it (unless `LAKEWARD_KEEP_TABLES` names one to keep them in).
pub(crate) struct Table {
    _temporary: TempDir,
    pub(crate) folder: PathBuf,
    pub(crate) layout: Layout,
    pub(crate) runtime: Runtime,
    version: u64,
}

impl Table {
    pub(crate) fn new(name: &str, schema: &SchemaRef, partition_columns: &[&str]) -> Self {
        Self::with_stats(name, schema, partition_columns, StatsColumns::First(32))
    }

    #[expect(clippy::disallowed_methods, reason = "a switch for whoever looks at the tables with another reader")]
    pub(crate) fn with_stats(
        name: &str,
        schema: &SchemaRef,
        partition_columns: &[&str],
        stats_columns: StatsColumns,
    ) -> Self {
        let temporary = TempDir::new().unwrap();
        let folder = match std::env::var_os("LAKEWARD_KEEP_TABLES") {
            Some(kept) => FilePath::new(&kept).join(name),
            None => temporary.path().join(name),
        };
        std::fs::create_dir_all(folder.join("_delta_log")).unwrap();
        let layout = Layout::from(LayoutParts {
            table: name.to_owned(),
            shape: Shape(0),
            schema: Arc::clone(schema),
            partition_columns: partition_columns.iter().map(|&name| name.to_owned()).collect(),
            stats_columns,
            partition_columns_in_files: false,
            store: Arc::new(LocalFileSystem::new()),
            root: Path::from_absolute_path(&folder).unwrap(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut table = Self { _temporary: temporary, folder, layout, runtime, version: 0 };
        table.create();
        table
    }

    fn create(&mut self) {
        let kernel: StructType = self.layout.schema().as_ref().try_into_kernel().unwrap();
        let ntz = has_ntz(self.layout.schema());
        let protocol = if ntz {
            serde_json::json!({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]})
        } else {
            serde_json::json!({"minReaderVersion": 1, "minWriterVersion": 2})
        };
        let metadata = serde_json::json!({
            "id": "b2b6e6a1-1b0f-4a6e-9f0e-3a6f1c1f0001",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": serde_json::to_string(&kernel).unwrap(),
            "partitionColumns": self.layout.partition_columns(),
            "configuration": {},
            "createdTime": 0,
        });
        let lines = [serde_json::json!({ "protocol": protocol }), serde_json::json!({ "metaData": metadata })];
        self.put(&lines);
    }

    /// Puts a commit as it stands.
    pub(crate) fn put(&mut self, lines: &[serde_json::Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.folder.join(format!("_delta_log/{:020}.json", self.version)), text).unwrap();
        self.version += 1;
    }

    /// Commits files.
    pub(crate) fn commit(&mut self, files: &[DataFile]) {
        let lines: Vec<_> = files
            .iter()
            .map(|file| {
                let values: BTreeMap<_, _> = file.partition_values.iter().cloned().collect();
                serde_json::json!({"add": {
                    "path": file.path, "partitionValues": values, "size": file.size_bytes,
                    "modificationTime": file.modification_time_ms, "dataChange": true, "stats": file.stats,
                }})
            })
            .collect();
        self.put(&lines);
    }

    /// Writes and commits batches.
    pub(crate) fn ingest(&mut self, batches: &[RecordBatch], options: WriterOptions) -> Vec<DataFile> {
        let mut writer = Writer::new(&self.layout, options).unwrap();
        for batch in batches {
            writer.write(batch, &[]).unwrap();
        }
        let files = writer.deliver(self.runtime.handle()).unwrap();
        assert!(writer.is_empty());
        self.commit(&files);
        files
    }

    /// All rows as the kernel reads them, each as text, sorted.
    pub(crate) fn rows(&self) -> Vec<String> {
        let scan = Scan::open(self.folder.to_str().unwrap(), None, self.runtime.handle()).unwrap();
        sorted(scan.map(Result::unwrap))
    }
}

fn has_ntz(schema: &Schema) -> bool {
    fn is(data_type: &DataType) -> bool {
        match data_type {
            DataType::Timestamp(_, zone) => zone.is_none(),
            DataType::Struct(fields) => fields.iter().any(|field| is(field.data_type())),
            DataType::List(field) | DataType::Map(field, _) => is(field.data_type()),
            _ => false,
        }
    }
    schema.fields().iter().any(|field| is(field.data_type()))
}

/// Rows as text, one way for all: what two lists of batches are compared by.
pub(crate) fn sorted(batches: impl Iterator<Item = RecordBatch>) -> Vec<String> {
    let mut rows: Vec<String> = batches.flat_map(|batch| texts(&batch)).collect();
    rows.sort();
    rows
}

/// Each row as text.
pub(crate) fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| format!("{:?}", column.value(row).to_string())).collect::<String>())
        .collect()
}

pub(crate) fn span(partition: u32, from: i64, rows: u64) -> FileSpan {
    let offset = |n: i64| Offset::new(n).unwrap();
    let to = offset(from + i64::try_from(rows).unwrap());
    FileSpan { partition: PartitionId(partition), from: offset(from), to, rows }
}
