//! Files that no version within the table's retention names are deleted.
//!
//! What a version names is known from the log: live files, and those that a commit removed, with when. Every other file
//! is garbage of a writer that broke off, or of one that is about to commit: it is kept for a day at least. Nothing is
//! deleted unless each live file was seen where it should be, so that a name that is read wrongly costs nothing.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch, StructArray};
use delta_kernel::actions::LOG_REMOVE_SCHEMA;
use delta_kernel::actions::deletion_vector::DeletionVectorDescriptor;
use delta_kernel::engine::arrow_data::ArrowEngineData;
use delta_kernel::{KernelError, KernelResult, Snapshot};
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;
use url::Url;

use super::Care;
use crate::error::DeltaError;
use crate::table::now_ms;
use crate::view::scanned::{Scanned, descriptor};

/// A file that no commit names is kept so long at least: a writer may be about to name it.
pub const LEAST_UNNAMED_AGE: Duration = Duration::from_hours(24);

/// How long removed files are kept where the table does not say: `delta.deletedFileRetentionDuration`.
const DEFAULT_RETENTION: Duration = Duration::from_hours(7 * 24);

/// How files are deleted.
#[derive(Clone, Debug)]
pub struct VacuumOptions {
    /// How long removed files are kept, where it is not as long as the table says.
    pub retain: Option<Duration>,
    /// Less than the table says is meant.
    pub force: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What was done, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Files deleted.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// In a dry run: the first of them.
    pub names: Vec<String>,
}

/// Names told in a dry run.
const MOST_NAMES: usize = 1_000;

impl Care {
    /// Deletes what no version within the retention names.
    ///
    /// # Errors
    /// A retention that the table does not allow; a log or listing that is not understood; a store that refuses. Some
    /// may be deleted.
    pub fn vacuum(&mut self, options: &VacuumOptions) -> Result<Vacuumed, DeltaError> {
        self.table.refresh()?;
        let (kernel, version) = (self.table.kernel.clone(), self.table.version);
        let Some(snapshot) = kernel.at(version)? else {
            return Err(DeltaError::Outage {
                doing: format!("read version {version} of {}", self.table.name()),
                source: "it was there a moment ago, and is gone".into(),
            });
        };
        let retain = self.retention(&snapshot, options)?;
        let now = now_ms();
        let before = |age: Duration| now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        // The listing comes after the log was read: whatever a commit named meanwhile is young.
        let named = self.named(&snapshot)?;
        let listed = self.runtime.block_on(async {
            let all: Vec<ObjectMeta> = kernel.place.store.list(Some(&kernel.place.root)).try_collect().await?;
            Ok::<_, object_store::Error>(all)
        });
        let listed = listed.map_err(|error| DeltaError::store(format!("list {}", self.table.name()), error))?;
        named.all_live_are_in(&listed, self.table.name())?;
        let partitions = snapshot.table_configuration().metadata().partition_columns();
        let is_garbage = |file: &&ObjectMeta| {
            let is_old = |cutoff_ms: i64| file.last_modified.timestamp_millis() < cutoff_ms;
            let hidden = is_hidden(&kernel.place.root, &file.location, partitions);
            !hidden
                && match named.by_path.get(&file.location) {
                    Some(Kept::Live) => false,
                    Some(Kept::Removed(at)) => *at < before(retain),
                    None => is_old(before(retain.max(LEAST_UNNAMED_AGE))),
                }
        };
        let garbage: Vec<&ObjectMeta> = listed.iter().filter(is_garbage).collect();
        let mut done = Vacuumed {
            files: garbage.len() as u64,
            bytes: garbage.iter().map(|file| file.size).sum(),
            names: Vec::new(),
        };
        if options.dry_run {
            done.names =
                garbage.iter().take(MOST_NAMES).map(|file| within(&kernel.place.root, &file.location)).collect();
            return Ok(done);
        }
        let paths: Vec<_> = garbage.iter().map(|file| Ok(file.location.clone())).collect();
        self.runtime.block_on(async {
            let mut outcomes = kernel.place.store.delete_stream(futures::stream::iter(paths).boxed());
            while let Some(outcome) = outcomes.next().await {
                match outcome {
                    // Somebody else cleans as well.
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(DeltaError::store(format!("clean {}", kernel.place.name), error)),
                }
            }
            Ok(())
        })?;
        Ok(done)
    }

    /// How long removed files are kept.
    fn retention(&self, snapshot: &Snapshot, options: &VacuumOptions) -> Result<Duration, DeltaError> {
        let refused =
            |reason: String| Err(DeltaError::Schema { place: format!("table {}", self.table.name()), reason });
        let says = snapshot.metadata_configuration().get("delta.deletedFileRetentionDuration");
        let table = match (snapshot.table_properties().deleted_file_retention_duration, says) {
            (Some(says), _) => says,
            (None, None) => DEFAULT_RETENTION,
            (None, Some(text)) => {
                return refused(format!(
                    "delta.deletedFileRetentionDuration = {text:?} is no interval we know; nothing was deleted"
                ));
            }
        };
        let hours = |duration: Duration| duration.as_secs().div_ceil(3_600);
        match options.retain {
            None => Ok(table),
            Some(retain) if retain < table && !options.force => refused(format!(
                "its deletedFileRetentionDuration is {} h, and readers of older versions, and time travel, rely on it; \
                 --retain {} needs --force",
                hours(table),
                hours(retain)
            )),
            Some(retain) if retain > table => refused(format!(
                "its log tells of removed files for {} h (delta.deletedFileRetentionDuration): --retain {} would know \
                 nothing of older ones; set the property instead",
                hours(table),
                hours(retain)
            )),
            Some(retain) => Ok(retain),
        }
    }

    /// Every file that the log names.
    fn named(&self, snapshot: &delta_kernel::SnapshotRef) -> Result<Named, DeltaError> {
        let kernel = &self.table.kernel;
        let failed = |error| DeltaError::kernel(&kernel.place.name, "list the files of", error);
        let root = &kernel.place.url;
        let mut named = Named::default();
        let scanned = Scanned::new(kernel, snapshot, &[])?;
        for found in &scanned.files {
            named.live(root, &found.file.path, found.file.vector.as_ref()).map_err(failed)?;
        }
        let batches =
            snapshot.log_segment().read_actions(kernel.engine(), LOG_REMOVE_SCHEMA.clone()).map_err(failed)?;
        for batch in batches {
            named.removed(root, batch.map_err(failed)?).map_err(failed)?;
        }
        Ok(named)
    }
}

/// Why a file is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// The newest version has it.
    Live,
    /// A commit removed it, at this time.
    Removed(i64),
}

#[derive(Debug, Default)]
struct Named {
    by_path: HashMap<Path, Kept>,
}

impl Named {
    fn live(&mut self, root: &Url, path: &str, vector: Option<&DeletionVectorDescriptor>) -> KernelResult<()> {
        for path in places(root, path, vector)? {
            self.by_path.insert(path, Kept::Live);
        }
        Ok(())
    }

    fn removed(&mut self, root: &Url, batch: delta_kernel::log_replay::ActionsBatch) -> KernelResult<()> {
        let batch: RecordBatch = (*ArrowEngineData::try_from_engine_data(batch.actions)?).into();
        let Some(remove) = batch.column_by_name("remove").and_then(|column| column.as_struct_opt()) else {
            return Ok(());
        };
        let missing = || KernelError::generic("the library's list of removed files lacks a column");
        let column = |name: &str| remove.column_by_name(name).ok_or_else(missing);
        let paths = column("path")?.as_string_opt::<i32>().ok_or_else(missing)?;
        let times = column("deletionTimestamp")?.as_primitive_opt::<Int64Type>().ok_or_else(missing)?;
        let vectors: &StructArray = column("deletionVector")?.as_struct_opt().ok_or_else(missing)?;
        for row in (0..batch.num_rows()).filter(|&row| remove.is_valid(row) && paths.is_valid(row)) {
            // A remove without a time was never told when: as if it were now.
            let at = if times.is_valid(row) { times.value(row) } else { i64::MAX };
            for path in places(root, paths.value(row), descriptor(vectors, row)?.as_ref())? {
                match self.by_path.entry(path).or_insert(Kept::Removed(at)) {
                    Kept::Live => {}
                    Kept::Removed(before) => *before = at.max(*before),
                }
            }
        }
        Ok(())
    }

    /// Was each live file seen?
    fn all_live_are_in(&self, listed: &[ObjectMeta], table: &str) -> Result<(), DeltaError> {
        let seen: HashSet<&Path> = listed.iter().map(|file| &file.location).collect();
        let live = self.by_path.iter().filter(|(_, kept)| **kept == Kept::Live).map(|(path, _)| path);
        match live.into_iter().find(|path| !seen.contains(path)) {
            None => Ok(()),
            Some(path) => Err(DeltaError::Broken {
                table: table.to_owned(),
                reason: format!(
                    "the newest version has the file {path}, and the store's listing does not; nothing was deleted. \
                     Has somebody deleted files by hand?"
                ),
            }),
        }
    }
}

/// Where a file and its vector lie, as far as that is within the table.
fn places(root: &Url, path: &str, vector: Option<&DeletionVectorDescriptor>) -> KernelResult<Vec<Path>> {
    let mut urls = vec![root.join(path).map_err(|error| KernelError::generic(format!("path {path}: {error}")))?];
    urls.extend(vector.map(|vector| vector.absolute_path(root)).transpose()?.flatten());
    let within = urls.into_iter().filter(|url| url.as_str().starts_with(root.as_str()));
    within
        .map(|url| {
            Path::from_url_path(url.path()).map_err(|error| KernelError::generic(format!("path {url}: {error}")))
        })
        .collect()
}

/// A file's name in the table.
fn within(root: &Path, location: &Path) -> String {
    let parts: Vec<_> =
        location.prefix_match(root).into_iter().flatten().map(|part| part.as_ref().to_owned()).collect();
    parts.join("/")
}

/// Is it none of a table's data: the log, and whatever begins with `_` or `.`, but for changed data and partitions.
fn is_hidden(root: &Path, location: &Path, partitions: &[String]) -> bool {
    let Some(mut parts) = location.prefix_match(root) else { return true };
    let is_data =
        |name: &str| name == "_change_data" || partitions.iter().any(|column| name.starts_with(&format!("{column}=")));
    parts.any(|part| {
        let name = part.as_ref();
        name.starts_with(['_', '.']) && !is_data(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names_are_not_touched() {
        let root = Path::from("t");
        #[rustfmt::skip] // columns: name, hidden?
        let cases = [
            ("t/a.parquet",                   false),
            ("t/p=1/a.parquet",               false),
            ("t/_p=1/a.parquet",              false),
            ("t/_q=1/a.parquet",              true),
            ("t/_delta_log/0.json",           true),
            ("t/_change_data/c.parquet",      false),
            ("t/.crc/a.parquet",              true),
            ("t/p=1/_tmp/a.parquet",          true),
            ("t/p=1/.a.parquet.crc",          true),
            ("other/a.parquet",               true),
        ];
        for (name, hidden) in cases {
            assert_eq!(is_hidden(&root, &Path::from(name), &["p".to_owned(), "_p".to_owned()]), hidden, "{name}");
        }
    }

    #[test]
    fn names_are_read_as_the_store_has_them() {
        let root = Url::parse("s3://bucket/t/").unwrap();
        let at = |path: &str| places(&root, path, None).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(at("a.parquet"), ["t/a.parquet"]);
        assert_eq!(at("p=a%2520b/a.parquet"), ["t/p=a%20b/a.parquet"]);
        assert_eq!(at("s3://bucket/t/b.parquet"), ["t/b.parquet"]);
        assert_eq!(at("s3://elsewhere/b.parquet"), [""; 0]);
        assert_eq!(at("../b.parquet"), [""; 0]);
    }
}
