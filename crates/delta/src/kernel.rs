//! What we ask of `delta_kernel`: a snapshot's protocol, metadata and `txn`s, and checkpoints.
//!
//! File actions are never kept: what a table with a million files costs us does not grow with them.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use delta_kernel::actions::LOG_TXN_SCHEMA;
use delta_kernel::engine::arrow_data::ArrowEngineData;
use delta_kernel::{KernelResult, Snapshot, SnapshotRef};
use delta_kernel_default_engine::executor::tokio::TokioMultiThreadExecutor;
use delta_kernel_default_engine::{DefaultEngine, DefaultEngineBuilder};
use lakeward_protocol::position::Shape;

use crate::error::DeltaError;
use crate::features::{self, Needs};
use crate::layout::{Layout, LayoutParts, StatsColumns};
use crate::log;
use crate::schema::TableSchema;
use crate::store::Place;

/// The kernel's engine on one table's store.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub place: Place,
    runtime: tokio::runtime::Handle,
    engine: Arc<DefaultEngine<TokioMultiThreadExecutor>>,
}

impl Kernel {
    pub(crate) fn new(place: Place, runtime: tokio::runtime::Handle) -> Self {
        let executor = Arc::new(TokioMultiThreadExecutor::new(runtime.clone()));
        let engine = DefaultEngineBuilder::new(place.store.clone()).with_task_executor(executor).build();
        Self { place, runtime, engine: Arc::new(engine) }
    }

    pub(crate) fn engine(&self) -> &DefaultEngine<TokioMultiThreadExecutor> {
        &self.engine
    }

    /// The newest snapshot.
    pub(crate) fn newest(&self) -> Result<SnapshotRef, DeltaError> {
        let built = Snapshot::builder_for(self.place.url.as_str()).build(self.engine());
        built.map_err(|error| {
            if DeltaError::is_absence(&error) {
                return self.runtime.block_on(log::missing(&self.place));
            }
            DeltaError::kernel(&self.place.name, "open", error)
        })
    }

    /// A snapshot of an older version; `None` when the log no longer reaches back to it.
    pub(crate) fn at(&self, version: u64) -> Result<Option<SnapshotRef>, DeltaError> {
        match Snapshot::builder_for(self.place.url.as_str()).at_version(version).build(self.engine()) {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(error) => match DeltaError::kernel(&self.place.name, "read an older version", error) {
                outage @ (DeltaError::Outage { .. } | DeltaError::Denied { .. }) => Err(outage),
                error => {
                    tracing::warn!(table = %self.place.name, version, %error, "an older version can't be read");
                    Ok(None)
                }
            },
        }
    }

    /// The last `txn` of every app id that begins with `prefix`, expired by the table's retention
    /// property or not.
    pub(crate) fn txns(&self, snapshot: &Snapshot, prefix: &str) -> Result<HashMap<String, i64>, DeltaError> {
        let fail = |error| DeltaError::kernel(&self.place.name, "read the stored offsets", error);
        let batches = snapshot.log_segment().read_actions(self.engine(), LOG_TXN_SCHEMA.clone()).map_err(fail)?;
        let mut found = HashMap::new();
        for batch in batches {
            collect_txns(batch, prefix, &mut found).map_err(fail)?;
        }
        Ok(found)
    }
}

/// Newest first: who is there already stays.
fn collect_txns(
    batch: KernelResult<delta_kernel::log_replay::ActionsBatch>,
    prefix: &str,
    found: &mut HashMap<String, i64>,
) -> KernelResult<()> {
    let batch: RecordBatch = (*ArrowEngineData::try_from_engine_data(batch?.actions)?).into();
    let Some(txn) = batch.column_by_name("txn").and_then(|column| column.as_struct_opt()) else { return Ok(()) };
    let (Some(ids), Some(versions)) = (
        txn.column_by_name("appId").and_then(|column| column.as_string_opt::<i32>()),
        txn.column_by_name("version").and_then(|column| column.as_primitive_opt::<Int64Type>()),
    ) else {
        return Ok(());
    };
    for row in (0..batch.num_rows()).filter(|&row| txn.is_valid(row) && ids.is_valid(row) && versions.is_valid(row)) {
        if ids.value(row).starts_with(prefix) && !found.contains_key(ids.value(row)) {
            found.insert(ids.value(row).to_owned(), versions.value(row));
        }
    }
    Ok(())
}

/// What a version says of its table.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    pub table_id: String,
    pub layout: Layout,
    pub properties: BTreeMap<String, String>,
    /// Every feature that the protocol lists.
    pub features: Vec<String>,
}

impl Configuration {
    /// Reads and checks it.
    ///
    /// # Errors
    /// The table needs what we do not do.
    pub(crate) fn of(place: &Place, snapshot: &Snapshot) -> Result<Self, DeltaError> {
        let configuration = snapshot.table_configuration();
        let (protocol, metadata) = (configuration.protocol(), configuration.metadata());
        let lists = [protocol.reader_features(), protocol.writer_features()];
        let mut features: Vec<String> = lists.into_iter().flatten().flatten().map(ToString::to_string).collect();
        features.sort();
        features.dedup();
        let properties: BTreeMap<String, String> =
            metadata.configuration().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let min_writer_version = protocol.min_writer_version();
        let schema = parse_schema(place, metadata.schema_string(), &features)?;
        let needs = Needs {
            table: &place.name,
            min_writer_version,
            features: &features,
            properties: &properties,
            schema: &schema,
        };
        features::check(&needs)?;
        let mut hasher = DefaultHasher::new();
        (metadata.id(), metadata.schema_string(), metadata.partition_columns(), &properties).hash(&mut hasher);
        (protocol.min_reader_version(), min_writer_version, &features).hash(&mut hasher);
        let layout = Layout::from(LayoutParts {
            table: place.name.clone(),
            shape: Shape(hasher.finish()),
            schema: schema.arrow().clone(),
            partition_columns: metadata.partition_columns().to_vec(),
            stats_columns: stats_columns(place, &properties)?,
            partition_columns_in_files: features.iter().any(|name| name == "materializePartitionColumns"),
            store: place.store.clone(),
            root: place.root.clone(),
        });
        Ok(Self { table_id: metadata.id().to_owned(), layout, properties, features })
    }

    pub(crate) fn has_in_commit_timestamps(&self) -> bool {
        self.properties
            .iter()
            .any(|(key, value)| key.starts_with("delta.enableInCommitTimestamps") && value.eq_ignore_ascii_case("true"))
    }
}

/// A type that we do not know is refused by its feature's name where it has one.
fn parse_schema(place: &Place, text: &str, features: &[String]) -> Result<TableSchema, DeltaError> {
    TableSchema::parse(&place.name, text)
        .map_err(|error| features::refusal_by_name(&place.name, features).unwrap_or(error))
}

fn stats_columns(place: &Place, properties: &BTreeMap<String, String>) -> Result<StatsColumns, DeltaError> {
    let bad = |key: &str, value: &str| DeltaError::Broken {
        table: place.name.clone(),
        reason: format!("its property {key} = {value:?} makes no sense; set or unset it with ALTER TABLE"),
    };
    let key = "delta.dataSkippingStatsColumns";
    if let Some(value) = properties.get(key) {
        return split_columns(value).map(StatsColumns::Only).ok_or_else(|| bad(key, value));
    }
    let key = "delta.dataSkippingNumIndexedCols";
    match properties.get(key).map(|value| (value, value.trim().parse::<i64>())) {
        None => Ok(StatsColumns::First(32)),
        Some((_, Ok(-1))) => Ok(StatsColumns::All),
        Some((value, Ok(count))) => Ok(StatsColumns::First(u64::try_from(count).map_err(|_| bad(key, value))?)),
        Some((value, Err(_))) => Err(bad(key, value)),
    }
}

/// `a, b.c, `odd.name`` into paths of names; a backtick is doubled within backticks.
fn split_columns(text: &str) -> Option<Vec<Vec<String>>> {
    let (mut columns, mut path, mut name) = (Vec::new(), Vec::new(), String::new());
    let mut rest = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = rest.next() {
        match c {
            '`' if quoted && rest.peek() == Some(&'`') => name.extend(rest.next()),
            '`' => quoted = !quoted,
            '.' | ',' if !quoted => {
                path.push(std::mem::take(&mut name));
                if c == ',' {
                    columns.push(std::mem::take(&mut path));
                }
            }
            c if c.is_whitespace() && !quoted => {}
            c => name.push(c),
        }
    }
    path.push(name);
    columns.push(path);
    (!quoted && columns.iter().flatten().all(|name| !name.is_empty())).then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_lists_split() {
        #[rustfmt::skip] // columns: text, paths joined by / and columns by |
        let cases = [
            ("id",             Some("id")),
            ("id, a.b",        Some("id|a/b")),
            ("`a.b`,`c``d`.e", Some("a.b|c`d/e")),
            ("",               None),
            ("a,,b",           None),
            ("`a",             None),
        ];
        for (text, expected) in cases {
            let columns = split_columns(text)
                .map(|columns| columns.iter().map(|path| path.join("/")).collect::<Vec<_>>().join("|"));
            assert_eq!(columns.as_deref(), expected, "{text}");
        }
    }
}
