//! Reads a table's live rows, for `verify` and `demo`.
//!
//! The kernel decides what is live: files of the snapshot's version, deletion vectors applied,
//! partition values filled in from the log. One batch is in memory at a time, and only the columns
//! asked for are read from the files.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use delta_kernel::engine::arrow_conversion::TryIntoArrow;
use delta_kernel::engine::arrow_data::EngineDataArrowExt;
use delta_kernel::{Engine, KernelResult, Snapshot, SnapshotRef};
use delta_kernel_default_engine::DefaultEngineBuilder;
use delta_kernel_default_engine::executor::tokio::TokioMultiThreadExecutor;
use lakeward_protocol::position::TableVersion;
use object_store::ObjectStore;
use object_store::path::Path;
use tokio::runtime::Handle;

use crate::error::DeltaError;
use crate::log;
use crate::store::Place;

/// The live rows of one version of a table, batch by batch, files in no particular order.
pub struct Scan {
    table: String,
    version: TableVersion,
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = KernelResult<RecordBatch>> + Send>,
}

impl Scan {
    /// Opens the newest version of the table at `location` (see [`crate::table`]). `columns`: top-level
    /// columns to read, in the order they shall come; all where `None`. Must be called, and
    /// iterated, outside of the runtime's own threads.
    ///
    /// # Errors
    /// There is no such table or column, or it can't be read.
    pub fn open(location: &str, columns: Option<&[&str]>, runtime: &Handle) -> Result<Self, DeltaError> {
        Self::open_place(Place::resolve(location)?, None, columns, runtime)
    }

    /// The rows as of an older version, as long as the log and the files of that time are there.
    ///
    /// # Errors
    /// As [`open`](Self::open); the version is not there, or not any more.
    pub fn open_at(
        location: &str,
        version: TableVersion,
        columns: Option<&[&str]>,
        runtime: &Handle,
    ) -> Result<Self, DeltaError> {
        Self::open_place(Place::resolve(location)?, Some(version), columns, runtime)
    }

    /// The rows of a table in a store that is there already, of the newest version where none is named.
    ///
    /// # Errors
    /// As [`open_at`](Self::open_at).
    pub fn open_on(
        store: Arc<dyn ObjectStore>,
        root: Path,
        version: Option<TableVersion>,
        columns: Option<&[&str]>,
        runtime: &Handle,
    ) -> Result<Self, DeltaError> {
        Self::open_place(Place::on_store(store, root)?, version, columns, runtime)
    }

    fn open_place(
        place: Place,
        version: Option<TableVersion>,
        columns: Option<&[&str]>,
        runtime: &Handle,
    ) -> Result<Self, DeltaError> {
        let executor = Arc::new(TokioMultiThreadExecutor::new(runtime.clone()));
        let engine = DefaultEngineBuilder::new(Arc::clone(&place.store)).with_task_executor(executor).build();
        let mut builder = Snapshot::builder_for(place.url.as_str());
        if let Some(version) = version {
            builder = builder.at_version(version.0);
        }
        let snapshot = builder.build(&engine).map_err(|error| {
            if version.is_none() && DeltaError::is_absence(&error) {
                return runtime.block_on(log::missing(&place));
            }
            DeltaError::kernel(&place.name, "open", error)
        })?;
        Self::of(place.name, &snapshot, columns, Arc::new(engine))
    }

    /// The rows of a snapshot.
    pub(crate) fn of(
        table: String,
        snapshot: &SnapshotRef,
        columns: Option<&[&str]>,
        engine: Arc<dyn Engine>,
    ) -> Result<Self, DeltaError> {
        let schema = match columns {
            None => snapshot.schema(),
            Some(columns) => snapshot.schema().project(columns).map_err(|error| DeltaError::Schema {
                place: format!("columns {columns:?} of table {table}"),
                reason: error.to_string(),
            })?,
        };
        let failed = |error| DeltaError::kernel(&table, "read", error);
        let arrow: Schema = schema.as_ref().try_into_arrow().map_err(|error| failed(error.into()))?;
        let scan = Arc::clone(snapshot).scan_builder().with_schema(schema).build().map_err(failed)?;
        let data = scan.execute(engine).map_err(failed)?;
        let batches = Box::new(data.map(|batch| batch?.try_into_record_batch()));
        let version = TableVersion(snapshot.version());
        Ok(Self { table, version, schema: Arc::new(arrow), batches })
    }

    /// The columns that come.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The version that is read.
    #[must_use]
    pub fn version(&self) -> TableVersion {
        self.version
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch, DeltaError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.map_err(|error| DeltaError::kernel(&self.table, "read", error)))
    }
}
