//! Housekeeping of the log: checkpoints, their checksum, and expired log files.
//!
//! All of it is best effort and runs beside the commits, one task at a time: what fails is logged
//! and counted, and tried again after a later commit. Racing processes do the same work twice at
//! worst.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use delta_kernel::Snapshot;
use delta_kernel::snapshot::CheckpointWriteResult;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::error::DeltaError;
use crate::kernel::{Configuration, Kernel};
use crate::log::{Kind, parse_name};
use crate::store::Place;
use crate::table::now_ms;

/// When a table gets checkpoints from us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoints {
    /// Never: somebody else writes them.
    Never,
    /// Every so many versions as its property `delta.checkpointInterval` says, else every
    /// [`DEFAULT_INTERVAL`].
    AsTheTableSays,
    /// Every so many versions.
    Every(u64),
}

/// Versions between checkpoints where nobody says.
pub const DEFAULT_INTERVAL: u64 = 100;

/// Expired log files deleted in one go at most.
const MOST_DELETED: usize = 20_000;

/// How long a task is waited for at the end; what is then half done is harmless.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// How long the log is kept where the table does not say.
const DEFAULT_RETENTION: Duration = Duration::from_hours(30 * 24);

/// What was done so far.
#[derive(Debug, Default)]
pub struct Housekeeping {
    checkpoints: AtomicU64,
    failures: AtomicU64,
    deleted: AtomicU64,
    compactions: AtomicU64,
    compacted_files: AtomicU64,
}

impl Housekeeping {
    /// Checkpoints written.
    #[must_use]
    pub fn checkpoints(&self) -> u64 {
        self.checkpoints.load(Ordering::Relaxed)
    }

    /// Tasks that failed, in part or as a whole.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Expired log files deleted.
    #[must_use]
    pub fn deleted_log_files(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Versions that moved rows between the job's own.
    #[must_use]
    pub fn compactions(&self) -> u64 {
        self.compactions.load(Ordering::Relaxed)
    }

    /// Files that these replaced.
    #[must_use]
    pub fn compacted_files(&self) -> u64 {
        self.compacted_files.load(Ordering::Relaxed)
    }

    pub(crate) fn compacted(&self, files: usize) {
        self.compactions.fetch_add(1, Ordering::Relaxed);
        self.compacted_files.fetch_add(files as u64, Ordering::Relaxed);
    }
}

/// Decides when something is due, and has it done.
#[derive(Debug)]
pub(crate) struct Housekeeper {
    kernel: Kernel,
    policy: Checkpoints,
    runtime: Handle,
    newest: Option<u64>,
    due: bool,
    running: Option<JoinHandle<Option<u64>>>,
    done: Arc<Housekeeping>,
}

impl Housekeeper {
    pub(crate) fn new(kernel: Kernel, policy: Checkpoints, runtime: Handle, newest: Option<u64>) -> Self {
        Self { kernel, policy, runtime, newest, due: false, running: None, done: Arc::default() }
    }

    pub(crate) fn done(&self) -> Arc<Housekeeping> {
        self.done.clone()
    }

    /// A checkpoint, somebody's, was seen.
    pub(crate) fn saw_checkpoint(&mut self, version: Option<u64>) {
        self.newest = self.newest.max(version);
    }

    /// The log is another one.
    pub(crate) fn restart(&mut self, newest: Option<u64>) {
        (self.newest, self.due) = (newest, false);
    }

    /// After our commit of version `committed`.
    pub(crate) fn tend(&mut self, committed: u64, configuration: &Configuration) {
        let Some(interval) = self.interval(configuration) else { return };
        // Usually the process whose commit falls on a multiple does it. Where those fall to others who
        // don't, we do it once it is late.
        let late = committed.saturating_sub(self.newest.unwrap_or(0)) >= interval.saturating_mul(2);
        self.due |= committed.is_multiple_of(interval) || late;
        if self.running.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        self.settle();
        if self.due && self.newest.is_none_or(|newest| newest < committed) {
            self.due = false;
            let task = Task {
                kernel: self.kernel.clone(),
                version: committed,
                runtime: self.runtime.clone(),
                cleans: cleans(configuration),
                done: self.done.clone(),
            };
            self.running = Some(self.runtime.spawn_blocking(move || task.run()));
        }
    }

    fn interval(&self, configuration: &Configuration) -> Option<u64> {
        match self.policy {
            Checkpoints::Never => None,
            Checkpoints::Every(interval) => Some(interval.max(1)),
            Checkpoints::AsTheTableSays => {
                let says = configuration.properties.get("delta.checkpointInterval").and_then(|text| text.parse().ok());
                Some(says.filter(|interval| *interval > 0).unwrap_or(DEFAULT_INTERVAL))
            }
        }
    }

    /// Waits for the task under way.
    pub(crate) fn settle(&mut self) {
        let Some(task) = self.running.take() else { return };
        match self.runtime.block_on(async { tokio::time::timeout(LONGEST_WAIT, task).await }) {
            Ok(Ok(written)) => self.saw_checkpoint(written),
            Ok(Err(error)) => self.broke_off(&error),
            Err(error) => self.broke_off(&error),
        }
    }

    fn broke_off(&self, error: &dyn std::error::Error) {
        self.done.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(table = %self.kernel.place.name, %error, "log housekeeping broke off; ingest goes on");
    }
}

/// A job that ends with its last commit must not leave its checkpoint half done, again and again.
impl Drop for Housekeeper {
    fn drop(&mut self) {
        if Handle::try_current().is_err() {
            self.settle();
        }
    }
}

/// May we delete expired log files? `checkpointProtection` sets conditions that we do not check.
fn cleans(configuration: &Configuration) -> bool {
    let off = |key: &str| configuration.properties.get(key).is_some_and(|value| value.eq_ignore_ascii_case("false"));
    !off("delta.enableExpiredLogCleanup") && !configuration.features.iter().any(|name| name == "checkpointProtection")
}

struct Task {
    kernel: Kernel,
    version: u64,
    runtime: Handle,
    cleans: bool,
    done: Arc<Housekeeping>,
}

impl Task {
    /// The version of the checkpoint that is there now.
    fn run(&self) -> Option<u64> {
        let written = self.checkpoint();
        let written = self.heed("write a checkpoint", written)??;
        let cleaned = if self.cleans { self.clean(&written) } else { Ok(()) };
        let _ = self.heed("delete expired log files", cleaned);
        Some(self.version)
    }

    /// Counts and logs what failed.
    fn heed<T>(&self, doing: &str, outcome: Result<T, DeltaError>) -> Option<T> {
        outcome
            .inspect_err(|error| {
                self.done.failures.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    table = %self.kernel.place.name, version = self.version, %error,
                    "could not {doing}; ingest goes on, another try comes with a later commit",
                );
            })
            .ok()
    }

    fn checkpoint(&self) -> Result<Option<Arc<Snapshot>>, DeltaError> {
        let Some((snapshot, written)) = write(&self.kernel, self.version)? else { return Ok(None) };
        self.done.checkpoints.fetch_add(u64::from(written), Ordering::Relaxed);
        Ok(Some(snapshot))
    }

    fn clean(&self, snapshot: &Snapshot) -> Result<(), DeltaError> {
        let place = &self.kernel.place;
        let Some(cutoff_ms) = cutoff_ms(snapshot) else {
            tracing::warn!(table = %place.name, "{}; no log file is deleted", unknown_retention(snapshot));
            return Ok(());
        };
        let deleted = self.runtime.block_on(delete_expired(place, cutoff_ms))?;
        self.done.deleted.fetch_add(deleted, Ordering::Relaxed);
        if deleted > 0 {
            tracing::info!(table = %place.name, deleted, "deleted expired log files");
        }
        Ok(())
    }
}

/// Writes a version's checkpoint, if it has none, and its checksum; whether it did. `None`: the version is gone.
fn write(kernel: &Kernel, version: u64) -> Result<Option<(Arc<Snapshot>, bool)>, DeltaError> {
    let Some(snapshot) = kernel.at(version)? else { return Ok(None) };
    let fail = |error| DeltaError::kernel(&kernel.place.name, "write a checkpoint of", error);
    let (outcome, snapshot) = snapshot.checkpoint(kernel.engine(), None).map_err(fail)?;
    let written = matches!(outcome, CheckpointWriteResult::Written);
    if written {
        tracing::debug!(table = %kernel.place.name, version, "wrote a checkpoint");
    }
    // A help to readers; tables whose history does not allow it go without.
    if let Err(error) = snapshot.write_checksum(kernel.engine()) {
        tracing::debug!(table = %kernel.place.name, version, %error, "wrote no checksum");
    }
    Ok(Some((snapshot, written)))
}

/// Before when log files are expired; `None` where the table's interval is none that we know.
fn cutoff_ms(snapshot: &Snapshot) -> Option<i64> {
    let says = snapshot.metadata_configuration().get("delta.logRetentionDuration");
    let retention = match (snapshot.table_properties().log_retention_duration, says) {
        (Some(retention), _) => retention,
        (None, None) => DEFAULT_RETENTION,
        (None, Some(_)) => return None,
    };
    Some(now_ms().saturating_sub(i64::try_from(retention.as_millis()).unwrap_or(i64::MAX)))
}

fn unknown_retention(snapshot: &Snapshot) -> String {
    let says = snapshot.metadata_configuration().get("delta.logRetentionDuration");
    format!("delta.logRetentionDuration = {:?} is no interval we know", says.map_or("", String::as_str))
}

/// Writes a checkpoint of a version, if it has none; whether it did.
///
/// # Errors
/// The table can't be read, or written to.
pub(crate) fn write_now(kernel: &Kernel, version: u64) -> Result<bool, DeltaError> {
    Ok(write(kernel, version)?.is_some_and(|(_, written)| written))
}

/// Deletes expired log files, as many as there are; how many these are.
///
/// # Errors
/// A table that does not allow it, with why; a store that refuses.
pub(crate) fn expire_now(
    kernel: &Kernel,
    version: u64,
    configuration: &Configuration,
    runtime: &Handle,
    dry_run: bool,
) -> Result<u64, DeltaError> {
    let name = &kernel.place.name;
    let refused = |reason: String| Err(DeltaError::Schema { place: format!("table {name}"), reason });
    if !cleans(configuration) {
        return refused(
            "its log files are not ours to delete: it has the feature checkpointProtection, or \
             delta.enableExpiredLogCleanup = false"
                .to_owned(),
        );
    }
    let Some(snapshot) = kernel.at(version)? else { return Ok(0) };
    let Some(cutoff_ms) = cutoff_ms(&snapshot) else {
        return refused(format!("{}; nothing was deleted", unknown_retention(&snapshot)));
    };
    if dry_run {
        return Ok(runtime.block_on(list_expired(&kernel.place, cutoff_ms))?.len() as u64);
    }
    let mut deleted = 0;
    loop {
        let more = runtime.block_on(delete_expired(&kernel.place, cutoff_ms))?;
        deleted += more;
        if more == 0 {
            return Ok(deleted);
        }
    }
}

/// Deletes log files last written before `cutoff_ms` that no version kept needs.
async fn delete_expired(place: &Place, cutoff_ms: i64) -> Result<u64, DeltaError> {
    let fail = |error| DeltaError::store(format!("clean the log of {}", place.name), error);
    let expired = list_expired(place, cutoff_ms).await?;
    let expired = futures::stream::iter(expired.into_iter().take(MOST_DELETED).map(Ok)).boxed();
    let mut outcomes = place.store.delete_stream(expired);
    let mut deleted = 0;
    while let Some(outcome) = outcomes.next().await {
        match outcome {
            Ok(_) => deleted += 1,
            // Somebody else cleans as well.
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(fail(error)),
        }
    }
    Ok(deleted)
}

async fn list_expired(place: &Place, cutoff_ms: i64) -> Result<Vec<Path>, DeltaError> {
    let folder = place.log_folder();
    let files: Vec<ObjectMeta> = place
        .store
        .list(Some(&folder))
        .try_collect()
        .await
        .map_err(|error| DeltaError::store(format!("list the log of {}", place.name), error))?;
    Ok(expired(&folder, &files, cutoff_ms))
}

/// The files to delete, oldest versions first: those below the newest complete checkpoint from which
/// every version younger than `cutoff_ms` can still be rebuilt.
fn expired(folder: &Path, files: &[ObjectMeta], cutoff_ms: i64) -> Vec<Path> {
    let modified_ms = |file: &ObjectMeta| file.last_modified.timestamp_millis();
    let mut by_version: BTreeMap<u64, Vec<(&ObjectMeta, Kind)>> = BTreeMap::new();
    for file in files {
        if let Some((version, kind)) = parse_name(folder, &file.location) {
            by_version.entry(version).or_default().push((file, kind));
        }
    }
    let young = |(file, kind): &(&ObjectMeta, Kind)| *kind == Kind::Commit && modified_ms(file) >= cutoff_ms;
    let newest = by_version.keys().next_back().copied().unwrap_or(0);
    let keep = by_version.iter().find(|(_, files)| files.iter().any(young)).map_or(newest, |(version, _)| *version);
    let whole = |files: &Vec<(&ObjectMeta, Kind)>| {
        let names =
            files.iter().filter(|(_, kind)| *kind == Kind::Checkpoint).filter_map(|(file, _)| file.location.filename());
        is_complete(names)
    };
    let Some((base, _)) = by_version.range(..=keep).rfind(|(_, files)| whole(files)) else { return Vec::new() };
    by_version
        .range(..*base)
        .flat_map(|(_, files)| files)
        .filter(|(file, _)| modified_ms(file) < cutoff_ms)
        .map(|(file, _)| file.location.clone())
        .collect()
}

/// Do one version's checkpoint files make a whole checkpoint? A single file does; of
/// `VERSION.checkpoint.PART.PARTS.parquet` all parts are needed.
fn is_complete<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let mut parts: BTreeMap<u64, u64> = BTreeMap::new();
    for name in names {
        let middle = name.splitn(3, '.').nth(2).unwrap_or_default();
        match middle.split('.').collect::<Vec<_>>()[..] {
            [part, of, "parquet"] if part.len() == 10 && of.len() == 10 => {
                if let (Ok(_), Ok(of)) = (part.parse::<u64>(), of.parse()) {
                    *parts.entry(of).or_default() += 1;
                }
            }
            _ => return true,
        }
    }
    parts.iter().any(|(of, seen)| of == seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, modified_s: i64) -> ObjectMeta {
        ObjectMeta {
            location: Path::from("t/_delta_log").join(name),
            last_modified: chrono::DateTime::from_timestamp(modified_s, 0).unwrap(),
            size: 1,
            e_tag: None,
            version: None,
        }
    }

    /// `names` are versions with a suffix; the age of each commit is its version in seconds.
    fn check(names: &[&str], cutoff_s: i64, expect: &[&str]) {
        let full = |name: &str| {
            let (version, rest) = name.split_once('.').unwrap();
            format!("{:0>20}.{rest}", version)
        };
        let files: Vec<_> =
            names.iter().map(|name| file(&full(name), name.split_once('.').unwrap().0.parse().unwrap())).collect();
        let expired: Vec<_> = expired(&Path::from("t/_delta_log"), &files, cutoff_s * 1000)
            .into_iter()
            .map(|path| path.filename().unwrap().to_owned())
            .collect();
        assert_eq!(expired, expect.iter().map(|name| full(name)).collect::<Vec<_>>(), "{names:?} at {cutoff_s}");
    }

    #[test]
    fn only_what_no_kept_version_needs_is_deleted() {
        let log = [
            "0.json",
            "1.json",
            "1.crc",
            "2.json",
            "2.checkpoint.parquet",
            "3.json",
            "4.json",
            "4.checkpoint.parquet",
            "5.json",
        ];
        check(&log, 0, &[]);
        check(&log, 2, &["0.json", "1.json", "1.crc"]);
        check(&log, 3, &["0.json", "1.json", "1.crc"]);
        check(&log, 4, &["0.json", "1.json", "1.crc", "2.json", "2.checkpoint.parquet", "3.json"]);
        check(&log, 100, &["0.json", "1.json", "1.crc", "2.json", "2.checkpoint.parquet", "3.json"]);
        check(&["0.json", "1.json", "2.json"], 100, &[]);
        let parts = ["0.json", "1.json", "1.checkpoint.0000000001.0000000002.parquet", "2.json"];
        check(&parts, 100, &[]);
        let parts = [&parts[..], &["1.checkpoint.0000000002.0000000002.parquet"]].concat();
        check(&parts, 100, &["0.json"]);
        check(&["0.json", "1.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", "2.json"], 100, &["0.json"]);
    }
}
