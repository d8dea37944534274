//! Compaction: files with many dead rows, and many small files, become few whole ones.
//!
//! Rows are read and written beside the commits, from one version of the table. What comes of it is
//! put after a later commit, if every file that it replaces is still there: rows that died meanwhile
//! are dead in the new files as well, and where a file is gone, or rows came back, all of it is
//! dropped, to be tried again. No row comes or goes by it (`dataChange` false).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use delta_kernel::actions::deletion_vector::DeletionVectorDescriptor;
use roaring::RoaringTreemap;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::chains::Chains;
use super::files::LiveFile;
use super::index::Digest;
use super::key::Keys;
use super::scanned::{Found, Scanned};
use crate::encode::{EncodeError, SealedFile, Writer, WriterOptions, put};
use crate::error::DeltaError;
use crate::kernel::Kernel;
use crate::layout::{DataFile, Layout};

/// When files are rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// A file of whose rows more than this share is dead is rewritten.
    pub dead_percent: u64,
    /// More small files than this (of one partition value) are made one.
    pub small_files: usize,
    /// A file below this is small.
    pub small_file_bytes: u64,
    /// Bytes of files rewritten in one go at most; one larger file goes alone. Bounds memory and time,
    /// too: the new files are held until they are whole, and a row's place takes 24 bytes while it moves.
    pub most_bytes: u64,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { dead_percent: 50, small_files: 32, small_file_bytes: 16 << 20, most_bytes: 256 << 20 }
    }
}

/// Commits between two looks at the files of a table that is only appended to: each reads the log's
/// list of files.
const LOOK_EVERY: u64 = 16;

/// Times that a finished rewrite is offered to the log.
const OFFERS: usize = 3;

/// A file to rewrite, as it was when that was decided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub path: String,
    pub vector: Option<DeletionVectorDescriptor>,
}

/// Files rewritten, in the store and in no commit.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// The version that they were read from.
    pub version: u64,
    pub layout: Layout,
    /// The files replaced, as they were.
    pub sources: Vec<LiveFile>,
    pub files: Vec<DataFile>,
    /// By file: where its rows are from.
    pub rows: Vec<Vec<Origin>>,
    /// Offers to the log left.
    pub offers: usize,
}

/// A row that moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub digest: Digest,
    /// Index among the sources.
    pub source: u32,
    pub row: u32,
}

/// Decides what is rewritten, and has it done.
#[derive(Debug)]
pub(crate) struct Compactor {
    policy: Option<Compaction>,
    writer: WriterOptions,
    runtime: Handle,
    running: Option<JoinHandle<Result<Option<Rewritten>, DeltaError>>>,
    ready: Option<Rewritten>,
    looked_at: u64,
}

/// What a rewrite needs.
pub(crate) struct Job {
    pub kernel: Kernel,
    pub layout: Layout,
    pub version: u64,
    /// Chosen already, or to be chosen from the version's files.
    pub chosen: Option<Vec<Candidate>>,
    /// Where rows are followed.
    pub keys: Option<Arc<Keys>>,
}

impl Compactor {
    pub(crate) fn new(policy: Option<Compaction>, writer: WriterOptions, runtime: Handle) -> Self {
        Self { policy, writer, runtime, running: None, ready: None, looked_at: 0 }
    }

    /// What is to be rewritten of these files.
    pub(crate) fn choose<'a>(&self, files: impl Iterator<Item = &'a LiveFile>) -> Option<Vec<Candidate>> {
        choose(self.policy.as_ref()?, files)
    }

    /// May a table of which nothing is known be looked at now?
    pub(crate) fn is_time_to_look(&mut self, version: u64) -> bool {
        let due = version >= self.looked_at + LOOK_EVERY || version < self.looked_at;
        self.looked_at = if due { version } else { self.looked_at };
        due && self.policy.is_some()
    }

    /// Is it free to begin?
    pub(crate) fn is_idle(&self) -> bool {
        self.policy.is_some() && self.running.is_none() && self.ready.is_none()
    }

    /// Begins a rewrite beside everything else.
    pub(crate) fn start(&mut self, job: Job) {
        let Some(policy) = self.policy.clone() else { return };
        let (writer, runtime) = (self.writer.clone(), self.runtime.clone());
        self.running = Some(self.runtime.spawn_blocking(move || job.run(&policy, writer, &runtime)));
    }

    /// Waits for the rewrite under way.
    pub(crate) fn wait(&mut self) {
        if let Some(task) = self.running.take() {
            self.take_in(task);
        }
    }

    /// What was rewritten, once it is.
    pub(crate) fn take(&mut self) -> Option<Rewritten> {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished) {
            self.wait();
        }
        self.ready.take()
    }

    /// Offers it again later, or drops it: its files stay behind as orphans.
    pub(crate) fn put_back(&mut self, mut rewritten: Rewritten) {
        rewritten.offers = rewritten.offers.saturating_sub(1);
        if rewritten.offers > 0 {
            self.ready = Some(rewritten);
        }
    }

    fn take_in(&mut self, task: JoinHandle<Result<Option<Rewritten>, DeltaError>>) {
        match self.runtime.block_on(task) {
            Ok(Ok(rewritten)) => self.ready = rewritten,
            Ok(Err(error)) => tracing::warn!(%error, "a compaction failed; another try comes later"),
            Err(error) => tracing::warn!(%error, "a compaction broke off; another try comes later"),
        }
    }
}

fn is_decayed(policy: &Compaction, file: &LiveFile, rows: u64) -> bool {
    file.dead_rows() * 100 > rows * policy.dead_percent
}

fn is_candidate(policy: &Compaction, file: &LiveFile, rows: u64) -> bool {
    is_decayed(policy, file, rows) || file.size_bytes < policy.small_file_bytes
}

/// See [`Compaction`]. One partition value's files at a time.
fn choose<'a>(policy: &Compaction, files: impl Iterator<Item = &'a LiveFile>) -> Option<Vec<Candidate>> {
    let mut by_value: BTreeMap<String, Vec<(bool, &LiveFile)>> = BTreeMap::new();
    for file in files {
        if is_candidate(policy, file, file.rows) {
            let decayed = is_decayed(policy, file, file.rows);
            let value = serde_json::to_string(&file.partition_values).expect("JSON of JSON");
            by_value.entry(value).or_default().push((decayed, file));
        }
    }
    let is_due = |files: &Vec<(bool, &LiveFile)>| {
        let decayed = files.iter().filter(|(decayed, _)| *decayed).count();
        decayed > 0 || files.len() > policy.small_files
    };
    // The worst first, so that none waits for ever.
    let mut files = by_value.into_values().filter(is_due).max_by_key(Vec::len)?;
    files.sort_by_key(|(decayed, file)| (!decayed, file.size_bytes));
    let mut bytes = 0;
    let chosen = files.into_iter().take_while(|(_, file)| {
        let first = bytes == 0;
        bytes += file.size_bytes;
        first || bytes <= policy.most_bytes
    });
    let chosen = chosen.map(|(_, file)| Candidate { path: file.path.clone(), vector: file.vector.clone() });
    Some(chosen.collect())
}

impl Job {
    fn run(
        self,
        policy: &Compaction,
        writer: WriterOptions,
        runtime: &Handle,
    ) -> Result<Option<Rewritten>, DeltaError> {
        let Some(snapshot) = self.kernel.at(self.version)? else { return Ok(None) };
        let columns: Vec<_> = self.layout.schema().fields().iter().map(|field| field.name().as_str()).collect();
        let is_wanted = |file: &LiveFile| match &self.chosen {
            Some(chosen) => chosen.iter().any(|wanted| wanted.path == file.path),
            None => is_candidate(policy, file, file.rows_by_stats()),
        };
        let mut scanned = Scanned::some(&self.kernel, &snapshot, &columns, &is_wanted)?;
        let mut found = std::mem::take(&mut scanned.files);
        let chosen = match &self.chosen {
            Some(chosen) => chosen.clone(),
            None => {
                for each in &mut found {
                    each.file.rows = each.file.rows_by_stats();
                }
                let Some(chosen) = choose(policy, found.iter().map(|each| &each.file)) else { return Ok(None) };
                chosen
            }
        };
        let is_chosen = |each: &Found| {
            chosen.iter().any(|wanted| wanted.path == each.file.path && wanted.vector == each.file.vector)
        };
        found.retain(is_chosen);
        if found.len() < chosen.len() {
            return Ok(None);
        }
        self.rewrite(&scanned, found, writer, runtime).map(Some)
    }

    /// Writes the live rows of these files into new ones, which no commit names yet.
    pub(crate) fn rewrite(
        &self,
        scanned: &Scanned,
        found: Vec<Found>,
        options: WriterOptions,
        runtime: &Handle,
    ) -> Result<Rewritten, DeltaError> {
        let table = self.layout.table().to_owned();
        let failed = |error: EncodeError| match error {
            EncodeError::Upload(error) => error,
            error => DeltaError::Broken { table: table.clone(), reason: format!("rows can't be moved: {error}") },
        };
        let mut writer = Writer::new(&self.layout, options).map_err(failed)?;
        let (mut origins, mut sources, mut sealed) = (Vec::new(), Vec::new(), Vec::<SealedFile>::new());
        let mut whose = Whose::default();
        for (number, mut each) in (0..).zip(found) {
            scanned.read_vector(&mut each.file)?;
            whose.begin(&each.file);
            let moved = self.move_rows(scanned, &each, number, &mut writer, &mut origins, &mut whose);
            each.file.rows = moved.map_err(failed)?;
            sources.push(each.file);
        }
        while let Some(file) = writer.seal_next().map_err(failed)? {
            sealed.push(file);
        }
        let (mut files, mut rows) = (Vec::new(), Vec::new());
        let mut origins = origins.into_iter();
        for file in &sealed {
            let length = usize::try_from(file.rows()).expect("rows that were in memory");
            rows.push(origins.by_ref().take(length).collect());
            files.push(runtime.block_on(put(&self.layout, file))?);
        }
        whose.tag(&mut files);
        let layout = self.layout.clone();
        Ok(Rewritten { version: self.version, layout, sources, files, rows, offers: OFFERS })
    }

    /// Writes a file's live rows; how many it has, dead ones too.
    fn move_rows(
        &self,
        scanned: &Scanned,
        found: &Found,
        number: u32,
        writer: &mut Writer,
        origins: &mut Vec<Origin>,
        whose: &mut Whose,
    ) -> Result<u64, EncodeError> {
        let table = self.layout.table().to_owned();
        let failed = |source| EncodeError::Arrow { table: table.clone(), source };
        let mut rows = 0_u64;
        for batch in Scanned::rows(scanned, found)? {
            let batch = batch?;
            let length = batch.num_rows() as u64;
            let batch = RecordBatch::try_new(self.layout.schema().clone(), batch.columns().to_vec()).map_err(failed)?;
            let live: Vec<u64> = (rows..rows + length).filter(|row| !found.file.dead.contains(*row)).collect();
            whose.moved(&live);
            let mask = live_mask(&found.file.dead, rows, length);
            let batch = filter_record_batch(&batch, &mask).map_err(failed)?;
            if let Some(keys) = &self.keys {
                let digests = keys.digests(&keys.project(&batch)?)?;
                origins.extend(live.iter().zip(digests).map(|(row, digest)| Origin {
                    digest,
                    source: number,
                    row: u32::try_from(*row).expect("the index has its rows"),
                }));
            }
            writer.write(&batch, &[])?;
            rows += length;
        }
        Ok(rows)
    }
}

/// Whose the rows are that move, where they were written by key: they stay whose they were. By partition value, within
/// which rows keep their order.
#[derive(Default)]
struct Whose {
    by_value: BTreeMap<BTreeMap<String, Option<String>>, Chains>,
    /// Of the file that is being read.
    value: BTreeMap<String, Option<String>>,
    source: Chains,
}

impl Whose {
    fn begin(&mut self, file: &LiveFile) {
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        self.value = file.partition_values.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        self.source = Chains::of(file);
    }

    /// These rows of the file go on.
    fn moved(&mut self, live: &[u64]) {
        let chains = self.by_value.entry(self.value.clone()).or_default();
        live.iter().for_each(|row| chains.push(u32::try_from(*row).ok().and_then(|row| self.source.at(row))));
    }

    /// Tags the new files. Where a value's rows are not as many as went in (another writer may have written it otherwise)
    /// nothing is said.
    fn tag(&self, files: &mut [DataFile]) {
        let value = |file: &DataFile| file.partition_values.iter().cloned().collect::<BTreeMap<_, _>>();
        let mut rows: BTreeMap<_, u64> = BTreeMap::new();
        files.iter().for_each(|file| *rows.entry(value(file)).or_default() += file.num_records);
        let mut next: BTreeMap<_, u64> = BTreeMap::new();
        for file in files {
            let value = value(file);
            let Some(chains) = self.by_value.get(&value).filter(|chains| chains.rows() == rows[&value]) else {
                continue;
            };
            let from = next.entry(value).or_default();
            file.chains = chains.part(*from..*from + file.num_records).to_tag();
            *from += file.num_records;
        }
    }
}

fn live_mask(dead: &RoaringTreemap, from: u64, length: u64) -> BooleanArray {
    (from..from + length).map(|row| Some(!dead.contains(row))).collect()
}

#[cfg(test)]
mod tests {
    use delta_kernel::actions::deletion_vector::DeletionVectorStorageType;
    use serde_json::json;

    use super::*;

    /// Files as `partition value, size, rows, dead`, named by their place.
    fn check(files: &[(&str, u64, u64, i64)], expect: Option<&[usize]>) {
        let policy = Compaction { dead_percent: 50, small_files: 2, small_file_bytes: 100, most_bytes: 1_000 };
        let live: Vec<LiveFile> = (0..)
            .zip(files)
            .map(|(at, (value, size_bytes, rows, dead)): (usize, _)| LiveFile {
                path: at.to_string(),
                partition_values: json!({"p": value}).as_object().cloned().unwrap_or_default(),
                size_bytes: *size_bytes,
                modification_time_ms: 0,
                stats: None,
                tags: None,
                vector: (*dead > 0).then(|| {
                    DeletionVectorDescriptor::try_new(DeletionVectorStorageType::Inline, "", None, 0, *dead).unwrap()
                }),
                dead: RoaringTreemap::new(),
                rows: *rows,
            })
            .collect();
        let chosen = choose(&policy, live.iter())
            .map(|chosen| chosen.into_iter().map(|candidate| candidate.path.parse().unwrap()).collect::<Vec<usize>>());
        assert_eq!(chosen.as_deref(), expect, "{files:?}");
    }

    #[test]
    fn files_are_chosen_when_they_are_worth_it() {
        check(&[], None);
        check(&[("a", 500, 10, 5), ("a", 99, 1, 0), ("a", 99, 1, 0)], None);
        check(&[("a", 500, 10, 6)], Some(&[0]));
        check(&[("a", 99, 1, 0), ("a", 98, 1, 0), ("a", 500, 10, 0), ("a", 97, 1, 0)], Some(&[3, 1, 0]));
        // Small files of several partition values do not add up; a small one goes along with a decayed one.
        check(&[("a", 9, 1, 0), ("b", 9, 1, 0), ("c", 9, 1, 0)], None);
        check(&[("a", 9, 1, 0), ("a", 500, 10, 9), ("b", 9, 1, 0)], Some(&[1, 0]));
        // As much as goes at once, one at least; where most is to be done first.
        check(&[("a", 700, 10, 9), ("a", 600, 10, 9), ("a", 50, 1, 0)], Some(&[1]));
        check(&[("a", 5_000, 10, 9)], Some(&[0]));
        check(&[("a", 500, 10, 9), ("b", 200, 10, 9), ("b", 300, 10, 9)], Some(&[1, 2]));
    }
}
