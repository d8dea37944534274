//! Walks a table's log for those who check or show it: `verify`, `status`.

use futures::{StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::commit::{Notes, SPANS_TAG, spans_from_tag};
use crate::error::DeltaError;
use crate::layout::FileSpan;
use crate::log;
use crate::store::Place;

/// One version of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// Its number.
    pub version: u64,
    /// `commitInfo.operation`; a dash where it says none.
    pub operation: String,
    /// `commitInfo.timestamp`, since 1970.
    pub timestamp_ms: Option<i64>,
    /// `commitInfo.operationParameters`, as it stands.
    pub parameters: Value,
    /// Our own facts, where it is a commit of ours.
    pub notes: Option<Notes>,
    /// App ids and the last offset that each stores.
    pub txns: Vec<(String, i64)>,
    /// Files added.
    pub adds: Vec<Added>,
    /// Paths of files removed, with whether that changed data (a compaction doesn't).
    pub removes: Vec<Removed>,
}

/// A file that a version added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// `add.path`.
    pub path: String,
    /// Its length.
    pub size_bytes: u64,
    /// Its rows, where its stats say.
    pub num_records: Option<u64>,
    /// False for a compaction's.
    pub data_change: bool,
    /// It carries a deletion vector: some of its rows are dead.
    pub has_deletion_vector: bool,
    /// How many rows that marks as dead.
    pub dead_rows: u64,
    /// What it holds of each partition, where it is ours and says so.
    pub spans: Option<Vec<FileSpan>>,
}

/// A file that a version removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// `remove.path`.
    pub path: String,
    /// False for a compaction's.
    pub data_change: bool,
}

/// The JSON commits of a table's log.
#[derive(Debug)]
pub struct History {
    place: Place,
    runtime: Handle,
    versions: Vec<u64>,
}

/// Versions read at a time.
const STRIDE: usize = 64;

impl History {
    /// Lists the log of the table at a location (as [`Table::open`](crate::table::Table::open) takes it).
    ///
    /// # Errors
    /// No table there, or a store that refuses.
    pub fn open(location: &str, runtime: Handle) -> Result<Self, DeltaError> {
        Self::of(Place::resolve(location)?, runtime)
    }

    /// Lists the log of a table in a store that is there already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(
        store: std::sync::Arc<dyn object_store::ObjectStore>,
        root: object_store::path::Path,
        runtime: Handle,
    ) -> Result<Self, DeltaError> {
        Self::of(Place::on_store(store, root)?, runtime)
    }

    fn of(place: Place, runtime: Handle) -> Result<Self, DeltaError> {
        let listing = runtime.block_on(log::list(&place, 0))?;
        if listing.commits.is_empty() {
            return Err(DeltaError::Missing { table: place.name });
        }
        let versions = listing.commits.into_keys().collect();
        Ok(Self { place, runtime, versions })
    }

    /// The versions whose commits are still in the log, ascending. Older ones were cleaned up.
    #[must_use]
    pub fn versions(&self) -> &[u64] {
        &self.versions
    }

    /// Reads them one after the other, a few ahead; memory does not grow with their number.
    pub fn read(&self) -> impl Iterator<Item = Result<Version, DeltaError>> + '_ {
        self.read_from(0)
    }

    /// [`read`](Self::read), from one version on.
    pub fn read_from(&self, from: u64) -> impl Iterator<Item = Result<Version, DeltaError>> + '_ {
        let start = self.versions.partition_point(|version| *version < from);
        self.versions[start..].chunks(STRIDE).flat_map(|chunk| {
            let commits = log::read::<FileAction>(&self.place, chunk.iter().copied());
            let read: Vec<_> = self.runtime.block_on(commits.collect());
            read.into_iter().filter_map(|outcome| match outcome {
                // Cleaned up since it was listed.
                Ok((_, None)) => None,
                Ok((_, Some(commit))) => Some(Ok(version(commit))),
                Err(error) => Some(Err(error)),
            })
        })
    }

    /// The newest version that `wanted` accepts, reading backwards.
    ///
    /// # Errors
    /// A store that refuses or does not answer.
    pub fn last(&self, wanted: impl Fn(&Version) -> bool) -> Result<Option<Version>, DeltaError> {
        let commits = log::read::<FileAction>(&self.place, self.versions.iter().rev().copied());
        self.runtime.block_on(async {
            let mut commits = std::pin::pin!(commits);
            while let Some((_, commit)) = commits.try_next().await? {
                if let Some(found) = commit.map(version).filter(|version| wanted(version)) {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
    }
}

/// What is wanted of `add` and `remove`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileAction {
    path: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    stats: Option<String>,
    #[serde(default)]
    data_change: Option<bool>,
    #[serde(default)]
    deletion_vector: Option<Vector>,
    #[serde(default)]
    tags: Option<std::collections::BTreeMap<String, Option<String>>>,
}

/// What is wanted of a deletion vector.
#[derive(Debug, Deserialize)]
struct Vector {
    cardinality: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    num_records: Option<u64>,
}

fn version(commit: log::Commit<FileAction>) -> Version {
    let operation = commit.operation().to_owned();
    let info = commit.info.unwrap_or_default();
    Version {
        version: commit.version,
        operation,
        timestamp_ms: info.get("timestamp").and_then(Value::as_i64),
        parameters: info.get("operationParameters").cloned().unwrap_or(Value::Null),
        notes: Notes::of(&info),
        txns: commit.txns.into_iter().map(|txn| (txn.app_id, txn.version)).collect(),
        adds: commit.adds.into_iter().map(added).collect(),
        removes: commit
            .removes
            .into_iter()
            .map(|remove| Removed { data_change: remove.data_change.unwrap_or(true), path: remove.path })
            .collect(),
    }
}

fn added(add: FileAction) -> Added {
    let stats = add.stats.and_then(|text| serde_json::from_str::<Stats>(&text).ok());
    let tag = add.tags.and_then(|mut tags| tags.remove(SPANS_TAG)).flatten();
    Added {
        num_records: stats.and_then(|stats| stats.num_records),
        size_bytes: add.size.unwrap_or_default(),
        data_change: add.data_change.unwrap_or(true),
        has_deletion_vector: add.deletion_vector.is_some(),
        dead_rows: add.deletion_vector.map_or(0, |vector| vector.cardinality),
        spans: tag.and_then(|tag| spans_from_tag(&tag)),
        path: add.path,
    }
}
