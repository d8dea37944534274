//! What we ask of `delta_kernel`: a snapshot's protocol, metadata and `txn`s, and checkpoints.
//!
//! File actions are never kept: what a table with a million files costs us does not grow with them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use delta_kernel::actions::LOG_TXN_SCHEMA;
use delta_kernel::engine::arrow_data::ArrowEngineData;
use delta_kernel::{KernelResult, Snapshot, SnapshotRef};
use delta_kernel_default_engine::executor::tokio::TokioMultiThreadExecutor;
use delta_kernel_default_engine::{DefaultEngine, DefaultEngineBuilder};

use crate::error::DeltaError;
use crate::layout::Layout;
use crate::log;
use crate::metadata::{CLUSTERING_DOMAIN, Metadata};
use crate::retention::Retention;
use crate::row_ids;
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
    pub(crate) fn txns(&self, snapshot: &Snapshot, prefix: &str) -> Result<HashMap<String, Last>, DeltaError> {
        let fail = |error| DeltaError::kernel(&self.place.name, "read the stored offsets", error);
        let batches = snapshot.log_segment().read_actions(self.engine(), LOG_TXN_SCHEMA.clone()).map_err(fail)?;
        let mut found = HashMap::new();
        for batch in batches {
            collect_txns(batch, prefix, &mut found).map_err(fail)?;
        }
        Ok(found)
    }

    /// The configuration of one of Delta's own metadata domains; `None` where there is none.
    fn domain(&self, snapshot: &Snapshot, domain: &str) -> Result<Option<String>, DeltaError> {
        let read = snapshot.get_domain_metadata_internal(domain, self.engine());
        read.map_err(|error| DeltaError::kernel(&self.place.name, "read the metadata domains of", error))
    }
}

/// The newest `txn` of an app id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    /// Its `version`: the last consumed offset.
    pub last: i64,
    /// Its `lastUpdated`, in ms since 1970, where it has one.
    pub updated_ms: Option<i64>,
}

/// Newest first: who is there already stays.
fn collect_txns(
    batch: KernelResult<delta_kernel::log_replay::ActionsBatch>,
    prefix: &str,
    found: &mut HashMap<String, Last>,
) -> KernelResult<()> {
    let batch: RecordBatch = (*ArrowEngineData::try_from_engine_data(batch?.actions)?).into();
    let Some(txn) = batch.column_by_name("txn").and_then(|column| column.as_struct_opt()) else { return Ok(()) };
    let (Some(ids), Some(versions)) = (
        txn.column_by_name("appId").and_then(|column| column.as_string_opt::<i32>()),
        txn.column_by_name("version").and_then(|column| column.as_primitive_opt::<Int64Type>()),
    ) else {
        return Ok(());
    };
    let updated = txn.column_by_name("lastUpdated").and_then(|column| column.as_primitive_opt::<Int64Type>());
    for row in (0..batch.num_rows()).filter(|&row| txn.is_valid(row) && ids.is_valid(row) && versions.is_valid(row)) {
        if ids.value(row).starts_with(prefix) && !found.contains_key(ids.value(row)) {
            let updated_ms = updated.filter(|updated| updated.is_valid(row)).map(|updated| updated.value(row));
            found.insert(ids.value(row).to_owned(), Last { last: versions.value(row), updated_ms });
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
    /// The highest row id so far, -1 for none; `None` where the table has no row tracking.
    pub row_ids: Option<i64>,
    /// Where the table forgets offsets that are not committed again.
    pub retention: Option<Retention>,
}

impl Configuration {
    /// Reads and checks it.
    ///
    /// # Errors
    /// The table needs what we do not do.
    pub(crate) fn of(kernel: &Kernel, snapshot: &Snapshot) -> Result<Self, DeltaError> {
        let listed = |feature: &str| {
            let features = snapshot.table_configuration().protocol().writer_features();
            features.into_iter().flatten().any(|name| name.to_string() == feature)
        };
        let clustering = if listed("clustering") { kernel.domain(snapshot, CLUSTERING_DOMAIN)? } else { None };
        let row_ids = match listed("rowTracking") {
            true => Some(row_ids::highest(&kernel.place, kernel.domain(snapshot, row_ids::DOMAIN)?.as_deref())?),
            false => None,
        };
        let metadata = Arc::new(Metadata::of(&kernel.place, snapshot, clustering.as_deref())?);
        let layout = metadata.layout()?;
        let (properties, features) = (metadata.properties.clone(), metadata.features.clone());
        let retention = Retention::of(&kernel.place.name, &properties)?;
        Ok(Self { table_id: metadata.id.clone(), layout, properties, features, row_ids, retention })
    }

    pub(crate) fn has_in_commit_timestamps(&self) -> bool {
        self.properties
            .iter()
            .any(|(key, value)| key.starts_with("delta.enableInCommitTimestamps") && value.eq_ignore_ascii_case("true"))
    }
}
