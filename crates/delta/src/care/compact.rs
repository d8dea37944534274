//! Small files, and files with many dead rows, become few whole ones.

use std::collections::HashSet;

use futures::TryStreamExt;
use lakeward_protocol::ports::Put;
use serde::Deserialize;

use super::{Care, plan};
use crate::encode::WriterOptions;
use crate::error::DeltaError;
use crate::kernel::{Configuration, Kernel};
use crate::log;
use crate::view::compact::{Job, Rewritten};
use crate::view::files::LiveFile;
use crate::view::scanned::Scanned;

/// Source files of one commit at most, and their bytes, where one group does not have more. Bounds memory: new files are
/// held until they are put.
const MOST_FILES: usize = 1_000;
const MOST_BYTES: u64 = 128 << 20;

/// Times that a version is tried before others' commits are held to be too many.
const ATTEMPTS: usize = 100;

/// How files are made one.
#[derive(Clone, Debug)]
pub struct CompactOptions {
    /// How the new files are written; `target_file_bytes` is the size wanted.
    pub writer: WriterOptions,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What was done, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Versions committed.
    pub commits: u64,
    /// Files replaced, and their bytes.
    pub removed_files: u64,
    /// See above.
    pub removed_bytes: u64,
    /// Files that are there instead, and their bytes; not known in a dry run.
    pub added_files: u64,
    /// See above.
    pub added_bytes: u64,
    /// Files left as they are since somebody else changed them meanwhile.
    pub overtaken_files: u64,
}

impl Care {
    /// Makes small files, and those with many dead rows, into few whole ones. Says after each commit how far it is;
    /// ends early, with what is committed, once `goes_on` says no.
    ///
    /// # Errors
    /// A table whose files we must not move, by name; a store that refuses. What was committed stands.
    pub fn compact(
        &mut self,
        options: &CompactOptions,
        mut goes_on: impl FnMut(&Compacted) -> bool,
    ) -> Result<Compacted, DeltaError> {
        self.table.refresh()?;
        movable(self.table.name(), &self.table.configuration)?;
        let mut done = Compacted::default();
        let (layout, version) = (self.table.configuration.layout.clone(), self.table.version);
        let kernel = self.table.kernel.clone();
        let Some(snapshot) = kernel.at(version)? else {
            return Err(gone(self.table.name(), version));
        };
        let columns: Vec<_> = layout.schema().fields().iter().map(|field| field.name().as_str()).collect();
        let is_wanted = |file: &LiveFile| plan::is_candidate(file, options.writer.target_file_bytes);
        let mut scanned = Scanned::some(&kernel, &snapshot, &columns, &is_wanted)?;
        let mut found: Vec<_> = std::mem::take(&mut scanned.files).into_iter().map(Some).collect();
        let groups = {
            let files: Vec<&LiveFile> = found.iter().flatten().map(|each| &each.file).collect();
            let bins = plan::bins(&files, options.writer.target_file_bytes);
            groups(bins, &files)
        };
        let job = Job { kernel: kernel.clone(), layout, version, chosen: None, keys: None };
        for group in groups {
            let sources: Vec<_> = group.into_iter().filter_map(|at| found[at].take()).collect();
            if options.dry_run {
                done.removed_files += sources.len() as u64;
                done.removed_bytes += sources.iter().map(|each| each.file.size_bytes).sum::<u64>();
                continue;
            }
            if !goes_on(&done) {
                break;
            }
            let rewritten = job.rewrite(&scanned, sources, options.writer.clone(), &self.runtime)?;
            self.put(&rewritten, &mut done)?;
        }
        Ok(done)
    }

    /// Puts moved rows, unless somebody touched their files.
    fn put(&mut self, rewritten: &Rewritten, done: &mut Compacted) -> Result<(), DeltaError> {
        for _ in 0..ATTEMPTS {
            self.table.refresh()?;
            if self.table.recreated.is_some() || rewritten.layout.shape() != self.table.configuration.layout.shape() {
                let table = self.table.name().to_owned();
                let reason = "its schema or properties changed meanwhile; run it again".to_owned();
                return Err(DeltaError::Schema { place: format!("table {table}"), reason });
            }
            let touched = touched_since(&self.table.kernel, rewritten, self.table.version);
            if self.runtime.block_on(touched)? {
                done.overtaken_files += rewritten.sources.len() as u64;
                return Ok(());
            }
            // After an error the version may be there or not: the table shows it, and a next run goes on from there.
            if self.table.put_version_moved(self.table.version + 1, rewritten)? == Put::Done {
                done.commits += 1;
                done.removed_files += rewritten.sources.len() as u64;
                done.removed_bytes += rewritten.sources.iter().map(|file| file.size_bytes).sum::<u64>();
                done.added_files += rewritten.files.len() as u64;
                done.added_bytes += rewritten.files.iter().map(|file| file.size_bytes).sum::<u64>();
                return Ok(());
            }
        }
        done.overtaken_files += rewritten.sources.len() as u64;
        Ok(())
    }
}

/// Tables whose files lose something when their rows move.
pub(crate) fn movable(table: &str, configuration: &Configuration) -> Result<(), DeltaError> {
    let is_on = |name: &str| configuration.properties.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let refused = |feature: &str, hint: &str| {
        Err(DeltaError::Refused { table: table.to_owned(), feature: feature.to_owned(), hint: hint.to_owned() })
    };
    if is_on("delta.enableRowTracking") {
        return refused("rowTracking", "rows would lose their ids by being moved; run OPTIMIZE in Spark");
    }
    if !configuration.layout.description().clustering.is_empty() {
        return refused("clustering", "files would lose their order by being moved; run OPTIMIZE in Spark");
    }
    Ok(())
}

/// Bins in their order, as many as one commit may replace.
fn groups(bins: Vec<Vec<usize>>, files: &[&LiveFile]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut bytes = 0;
    for bin in bins {
        let more: u64 = bin.iter().map(|at| files[*at].size_bytes).sum();
        match groups.last_mut() {
            Some(group) if bytes + more <= MOST_BYTES && group.len() + bin.len() <= MOST_FILES => {
                bytes += more;
                group.extend(bin);
            }
            _ => {
                bytes = more;
                groups.push(bin);
            }
        }
    }
    groups
}

/// Has any commit since a rewrite was begun, up to `version`, touched a file that it replaces?
pub(crate) async fn touched_since(kernel: &Kernel, rewritten: &Rewritten, version: u64) -> Result<bool, DeltaError> {
    if version < rewritten.version {
        return Ok(true);
    }
    let sources: HashSet<&str> = rewritten.sources.iter().map(|source| source.path.as_str()).collect();
    let versions = rewritten.version + 1..=version;
    let mut commits = std::pin::pin!(log::read::<Touched>(&kernel.place, versions));
    while let Some((_, commit)) = commits.try_next().await? {
        let Some(commit) = commit else { return Ok(true) };
        if commit.adds.iter().chain(&commit.removes).any(|action| sources.contains(action.path.as_str())) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The one thing wanted of file actions.
#[derive(Debug, Deserialize)]
struct Touched {
    path: String,
}

fn gone(table: &str, version: u64) -> DeltaError {
    DeltaError::Outage {
        doing: format!("read version {version} of {table}"),
        source: "it was there a moment ago, and is gone".into(),
    }
}

/// Nobody asks for a compaction by its name: the table shows whether it stands.
#[expect(clippy::disallowed_methods, reason = "an edge: nothing but the name depends on it")]
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
