//! Makes tables: version 0, put if absent, so that racing creators end with one table.

use std::collections::BTreeMap;

use arrow_schema::{DataType, TimeUnit};
use object_store::ObjectStore;
use object_store::PutMode;
use object_store::path::Path;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::Handle;

use crate::commit::ENGINE;
use crate::error::DeltaError;
use crate::features::{self, Needs};
use crate::log;
use crate::schema::TableSchema;
use crate::store::Place;
use crate::table::now_ms;

/// How a creation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Created {
    /// The table is ours and new.
    New,
    /// There was one already, or somebody was faster. [`Table::difference`](crate::table::Table::difference)
    /// says whether it fits.
    Existed,
}

/// What a new table is to be.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// Its columns.
    pub schema: TableSchema,
    /// Names of columns, in order; empty for a table in one piece.
    pub partition_columns: Vec<String>,
    /// `delta.*` properties that need no feature, `delta.enableDeletionVectors`, and any others.
    pub properties: BTreeMap<String, String>,
}

/// Properties of Delta's that a table may have without a feature in its protocol.
const PLAIN_PROPERTIES: [&str; 16] = [
    "delta.appendOnly",
    "delta.autoOptimize.autoCompact",
    "delta.autoOptimize.optimizeWrite",
    "delta.checkpoint.writeStatsAsJson",
    "delta.checkpoint.writeStatsAsStruct",
    "delta.checkpointInterval",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.deletedFileRetentionDuration",
    "delta.enableExpiredLogCleanup",
    "delta.isolationLevel",
    "delta.logRetentionDuration",
    "delta.parquet.compression.codec",
    "delta.randomizeFilePrefixes",
    "delta.setTransactionRetentionDuration",
    "delta.targetFileSize",
];

/// The one property that brings a feature into the protocol.
const VECTORS_PROPERTY: &str = "delta.enableDeletionVectors";

/// Makes a table at a location (as [`Table::open`](crate::table::Table::open) takes it). Blocks.
///
/// # Errors
/// A table that can't be; a store that refuses or does not answer (then it may be there: call again).
pub fn create(location: &str, table: &NewTable, runtime: &Handle) -> Result<Created, DeltaError> {
    runtime.block_on(create_at(&Place::resolve(location)?, table))
}

/// Makes a table in a store that is there already.
///
/// # Errors
/// As [`create`].
pub fn create_on(
    store: Arc<dyn ObjectStore>,
    root: Path,
    table: &NewTable,
    runtime: &Handle,
) -> Result<Created, DeltaError> {
    runtime.block_on(create_at(&Place::on_store(store, root)?, table))
}

async fn create_at(place: &Place, table: &NewTable) -> Result<Created, DeltaError> {
    let bytes = render(place, table)?;
    let listing = log::list(place, 0).await?;
    if !listing.commits.is_empty() || listing.checkpoint.is_some() {
        return Ok(Created::Existed);
    }
    let file = place.log_file(&log::commit_name(0));
    match place.store.put_opts(&file, bytes.into(), PutMode::Create.into()).await {
        Ok(_) => Ok(Created::New),
        Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
            Ok(Created::Existed)
        }
        Err(error) => Err(DeltaError::store(format!("create table {}", place.name), error)),
    }
}

/// Version 0, once the table is known to be one that we can write to.
fn render(place: &Place, table: &NewTable) -> Result<Vec<u8>, DeltaError> {
    check_partitioning(place, table)?;
    let is_known = |name: &str| PLAIN_PROPERTIES.contains(&name) || name == VECTORS_PROPERTY;
    if let Some(name) = table.properties.keys().find(|name| name.starts_with("delta.") && !is_known(name)) {
        return Err(DeltaError::Refused {
            table: place.name.clone(),
            feature: name.clone(),
            hint: "make the table with another tool if it needs it, or leave the property out".to_owned(),
        });
    }
    let ntz = table.schema.holds(&|kind| *kind == DataType::Timestamp(TimeUnit::Microsecond, None));
    let vectors = table.properties.get(VECTORS_PROPERTY).is_some_and(|value| value == "true");
    let listed = [(vectors, "deletionVectors"), (ntz, "timestampNtz")];
    let features: Vec<String> = listed.iter().filter(|(used, _)| *used).map(|(_, name)| (*name).to_owned()).collect();
    features::check(&Needs {
        table: &place.name,
        min_writer_version: 2,
        features: &features,
        properties: &table.properties,
        schema: &table.schema,
    })?;
    let protocol = if features.is_empty() {
        json!({"minReaderVersion": 1, "minWriterVersion": 2})
    } else {
        let writer: Vec<_> =
            ["appendOnly", "invariants"].into_iter().chain(features.iter().map(String::as_str)).collect();
        json!({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": writer})
    };
    let now_ms = now_ms();
    let text = |value: &Value| value.to_string();
    let actions = [
        json!({"commitInfo": {
            "timestamp": now_ms,
            "operation": "CREATE TABLE",
            "operationParameters": {
                "isManaged": "false",
                "description": null,
                "partitionBy": text(&json!(table.partition_columns)),
                "properties": text(&json!(table.properties)),
            },
            "isolationLevel": "Serializable",
            "isBlindAppend": true,
            "operationMetrics": {},
            "engineInfo": ENGINE,
            "clientVersion": concat!("lakeward.", env!("CARGO_PKG_VERSION")),
        }}),
        json!({"protocol": protocol}),
        json!({"metaData": {
            "id": new_id(),
            "name": null,
            "description": null,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": table.schema.to_json(),
            "partitionColumns": table.partition_columns,
            "configuration": table.properties,
            "createdTime": now_ms,
        }}),
    ];
    Ok(actions.iter().flat_map(|action| format!("{action}\n").into_bytes()).collect())
}

#[expect(
    clippy::disallowed_methods,
    reason = "an edge: nothing else names a new table, and racing creators must differ"
)]
fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn check_partitioning(place: &Place, table: &NewTable) -> Result<(), DeltaError> {
    let columns = &table.partition_columns;
    let fail = |reason: String| Err(DeltaError::Schema { place: format!("partitioning of {}", place.name), reason });
    for (index, name) in columns.iter().enumerate() {
        let Ok(field) = table.schema.arrow().field_with_name(name) else {
            return fail(format!("there is no column {name:?}"));
        };
        if field.data_type().is_nested() {
            return fail(format!("column {name:?} is a {}, which has no partition values", field.data_type()));
        }
        if columns[..index].contains(name) {
            return fail(format!("column {name:?} is named twice"));
        }
    }
    if columns.len() == table.schema.arrow().fields().len() {
        return fail("a column that is no partition column is needed".to_owned());
    }
    Ok(())
}
