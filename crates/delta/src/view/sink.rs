//! The sink itself: stage, commit, and keep the state at the table's newest version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lakeward_protocol::ports::{Breach, Gap, Head, OutputLog, Permit, Put};
use lakeward_protocol::position::{CommitId, Frontier, Offset, PartitionId, Shape, TableVersion};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;

use super::change::{Change, StageError, Staged, Stager};
use super::compact::{Compaction, Compactor};
use super::key::Keys;
use super::latest::{ByKey, Moved, Stretch};
use super::mode::{self, Mode};
use super::revise::Revision;
use super::state::State;
use crate::commit::{Notes, Rewrite, ViewNote};
use crate::encode::{Writer, WriterOptions};
use crate::error::DeltaError;
use crate::layout::{Layout, Tally};
use crate::table::{Contents, Table, Topic, now_ms};

/// Times that [`View::commit`] tries: each lost race or lost reply costs one.
const ATTEMPTS: usize = 50;

/// How a view is written.
#[derive(Clone, Debug)]
pub struct ViewOptions {
    /// What the table holds.
    pub mode: Mode,
    /// Columns that name a row; none where only whole rows do, and a row may be there several times.
    /// Looked at in mode upsert alone.
    pub key: Vec<String>,
    /// How files are written.
    pub writer: WriterOptions,
    /// When files are rewritten; `None` for never.
    pub compaction: Option<Compaction>,
    /// How events by key are taken in.
    pub by_key: ByKey,
}

/// One source partition's part of a step, as the sink stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The `txn`'s app id. Begins with the table's own (`TableOptions::app_id`) and a dash.
    pub app_id: String,
    /// What the sink must say before the commit, exactly.
    pub from: Option<Offset>,
    /// What it says after it.
    pub to: Offset,
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Commit {
    /// It stands, as this version.
    Done(TableVersion),
    /// The sink was at the step's end already: nothing was written.
    AlreadyDone,
    /// The sink stands elsewhere: somebody else moved it. Nothing was written.
    Fenced {
        /// The first app id that is not where the step begins.
        app_id: String,
        /// Where it is.
        stored: Option<Offset>,
    },
    /// The change was staged for another shape of the table: stage it anew. Nothing was written.
    Reshaped,
    /// P9: the table's data is not what its offsets say. Nothing was written.
    Breached(Breach),
}

/// What the next commit without rows takes in, by source partition: see [`View::counting`].
pub type Counts = Arc<Mutex<BTreeMap<PartitionId, Tally>>>;

/// A view's table, open for its one writer.
///
/// Methods block, and are called from outside of the runtime.
#[derive(Debug)]
pub struct View {
    pub(super) table: Table,
    pub(super) options: ViewOptions,
    pub(super) keys: Arc<Keys>,
    pub(super) stager: Stager,
    pub(super) state: State,
    /// The version that the state stands for, and of which table: see `Table::reopened`.
    pub(super) synced: Option<(u64, u64)>,
    /// The commit tried last and the first version that it was tried as.
    tried: Option<(CommitId, TableVersion)>,
    pub(super) compactor: Compactor,
    counts: Counts,
    /// The newest RESTORE that the user chose to go on after.
    accepted: Option<TableVersion>,
    /// Live rows, for whoever watches.
    counter: Arc<AtomicUsize>,
}

impl View {
    /// Makes a table a view's. In mode upsert its key columns are read.
    ///
    /// # Errors
    /// A table that the mode can't write to, with what to do; keys that it does not have; two rows of
    /// one key.
    pub fn open(table: Table, options: ViewOptions) -> Result<Self, DeltaError> {
        mode::check(&options, table.name(), &table.configuration)?;
        let layout = table.layout();
        let keys = keys(&layout, &options)?;
        let stager = stager(&layout, &options)?;
        let compactor = Compactor::new(options.compaction.clone(), options.writer.clone(), table.runtime.clone());
        let mut view = Self {
            table,
            keys,
            stager,
            state: State::new(options.by_key.most_rows),
            options,
            synced: None,
            tried: None,
            compactor,
            counts: Counts::default(),
            accepted: None,
            counter: Arc::default(),
        };
        view.sync()?;
        Ok(view)
    }

    /// Takes the counts for the notes of commits without rows from here. With rows they are the change's
    /// own. Who writes there does so before the commit is first put, and leaves it until it stands.
    #[must_use]
    pub fn counting(mut self, counts: Counts) -> Self {
        self.counts = counts;
        self
    }

    /// The table below.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Live rows, as of the newest version seen; in mode upsert alone.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.state.index.len()
    }

    /// [`rows`](Self::rows) as it goes on, for metrics.
    #[must_use]
    pub fn counter(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.counter)
    }

    /// Writes a step's change into files that no commit names yet.
    ///
    /// # Errors
    /// Rows that the mode or the key does not allow, named; a store that refuses. Stage it again.
    pub fn stage(&mut self, change: &Change) -> Result<Staged, StageError> {
        self.stager.stage(&self.keys, change, &self.table.runtime)
    }

    /// Where the newest version stands under these app ids; those that it does not have are absent.
    ///
    /// # Errors
    /// The table can't be read; nothing is known.
    pub fn stored(&mut self, app_ids: &[String]) -> Result<BTreeMap<String, Offset>, DeltaError> {
        self.refresh()?;
        let mut stored = BTreeMap::new();
        for app_id in app_ids {
            if let Some(txn) = self.table.known.txns.get(app_id) {
                stored.insert(app_id.clone(), self.table.position(app_id, txn.last)?);
            }
        }
        Ok(stored)
    }

    /// Commits a step: its change, if it has any, and its offsets, in one version. A compare-and-swap:
    /// each attempt first reads the newest version, whose offsets must be exactly the step's
    /// beginning. After an error the same may be offered again under the same name: it looks for
    /// itself first.
    ///
    /// # Errors
    /// The outcome is unknown, or the change can't be: a row to delete that is not there, a second row
    /// of a key.
    ///
    /// # Panics
    /// When there is no move (P1: nothing would keep the change from being made twice), or an app id
    /// is not the table's.
    pub fn commit(&mut self, id: CommitId, moves: &[Move], staged: Option<&Staged>) -> Result<Commit, DeltaError> {
        let prefix = format!("{}-", self.table.app_id);
        assert!(!moves.is_empty(), "P1: a commit moves an offset");
        assert!(moves.iter().all(|each| each.app_id.starts_with(&prefix)), "app ids begin with {prefix}: {moves:?}");
        for _ in 0..ATTEMPTS {
            self.refresh()?;
            if let Some((_, from)) = self.tried.filter(|(tried, _)| *tried == id)
                && let Some(version) = self.table.find(id, from)?
            {
                return Ok(Commit::Done(version));
            }
            if let Some(outcome) = self.compare(moves, staged)? {
                return Ok(outcome);
            }
            let version = TableVersion(self.table.version).next();
            if self.tried.is_none_or(|(tried, _)| tried != id) {
                self.tried = Some((id, version));
            }
            let txns: Vec<_> = moves.iter().map(|each| (each.app_id.clone(), each.to.last())).collect();
            let notes = self.notes(id);
            let mut more = Map::new();
            more.insert("moves".to_owned(), moves.iter().map(Move::to_json).collect());
            if let Some(at) = self.accepted.filter(|at| self.is_first_after(*at, moves)) {
                more.insert("acceptedRestore".to_owned(), json!(at.0));
            }
            if self.put_change(version.0, Said { notes, txns: &txns, more: &more }, staged)? == Put::Done {
                return Ok(Commit::Done(version));
            }
        }
        Err(DeltaError::Outage {
            doing: format!("commit to {}", self.table.name()),
            source: format!("{ATTEMPTS} attempts were overtaken by other writers").into(),
        })
    }

    /// P9: the user chose to go on after the RESTORE of this version and those before it. Later commits
    /// pass over it; the first of each source partition writes it down.
    pub fn accept_restore(&mut self, at: TableVersion) {
        self.accepted = self.accepted.max(Some(at));
    }

    /// Waits for a compaction under way and puts it, and for the log's housekeeping.
    ///
    /// # Errors
    /// As for [`commit`](Self::commit); the view is as good as before.
    pub fn settle(&mut self) -> Result<(), DeltaError> {
        self.table.settle();
        self.compactor.wait();
        self.compact()
    }

    /// Brings table and state to the newest version.
    pub(super) fn refresh(&mut self) -> Result<(), DeltaError> {
        self.table.refresh()?;
        self.follow()
    }

    /// Brings the state to where the table is, as long as it is the table that we opened.
    fn follow(&mut self) -> Result<(), DeltaError> {
        if self.table.recreated.is_some() {
            return Ok(());
        }
        self.follow_shape()?;
        self.sync()
    }

    /// A new shape needs a new writer, and may be none that we can write to.
    fn follow_shape(&mut self) -> Result<(), DeltaError> {
        let layout = self.table.layout();
        if layout.shape() == self.stager.layout.shape() {
            return Ok(());
        }
        mode::check(&self.options, self.table.name(), &self.table.configuration)?;
        self.keys = keys(&layout, &self.options)?;
        self.stager = stager(&layout, &self.options)?;
        (self.state, self.synced) = (State::new(self.options.by_key.most_rows), None);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeltaError> {
        let wanted = (self.table.reopened, self.table.version);
        if self.options.mode != Mode::Upsert || self.synced == Some(wanted) {
            return Ok(());
        }
        self.synced = None;
        let version = self.table.version;
        let Some(snapshot) = self.table.kernel.at(version)? else {
            return Err(DeltaError::Outage {
                doing: format!("read version {version} of {}", self.table.name()),
                source: "it was there a moment ago, and is gone".into(),
            });
        };
        self.state.sync(&self.table.kernel, &snapshot, &self.keys)?;
        self.synced = Some(wanted);
        self.counter.store(self.rows(), Ordering::Relaxed);
        Ok(())
    }

    /// What speaks against the commit, if anything.
    fn compare(&mut self, moves: &[Move], staged: Option<&Staged>) -> Result<Option<Commit>, DeltaError> {
        if let Some(breach) = self.table.recreated.clone() {
            return Ok(Some(Commit::Breached(breach)));
        }
        let keys: Vec<_> = moves.iter().map(|each| each.app_id.clone()).collect();
        self.table.look_back_for(&keys)?;
        let mut stored = BTreeMap::new();
        for key in &keys {
            let last = self.table.known.txns.get(key).map(|txn| txn.last);
            stored.insert(key, last.map(|last| self.table.position(key, last)).transpose()?);
        }
        for key in &keys {
            let restore = self.table.taken_back(key)?;
            if let Some(restore) = restore.filter(|restore| self.accepted.is_none_or(|at| at.0 < restore.at)) {
                return Ok(Some(Commit::Breached(Breach::Restored {
                    at: TableVersion(restore.at),
                    to: TableVersion(restore.to.unwrap_or_default()),
                    frontier: BTreeMap::new(),
                })));
            }
        }
        if moves.iter().all(|each| stored[&each.app_id] == Some(each.to)) {
            return Ok(Some(Commit::AlreadyDone));
        }
        if let Some(each) = moves.iter().find(|each| stored[&each.app_id] != each.from) {
            return Ok(Some(Commit::Fenced { app_id: each.app_id.clone(), stored: stored[&each.app_id] }));
        }
        let reshaped = staged.is_some_and(|staged| staged.shape != self.shape());
        Ok(reshaped.then_some(Commit::Reshaped))
    }

    /// Is it about a partition that has stored nothing since that version?
    fn is_first_after(&self, at: TableVersion, moves: &[Move]) -> bool {
        let stored = moves.iter().filter_map(|each| self.table.known.txns.get(&each.app_id));
        stored.filter_map(|txn| txn.at).any(|stored| stored < at.0)
    }

    fn shape(&self) -> Shape {
        self.stager.layout.shape()
    }

    fn notes(&self, id: CommitId) -> Notes {
        Notes {
            commit_id: id.to_string(),
            app_id: self.table.app_id.clone(),
            topic: self.table.topic.as_ref().map(|topic| topic.name.clone()),
            topic_id: self.table.topic.as_ref().and_then(Topic::id_text),
            ..Notes::default()
        }
    }

    /// What a change does to the table's rows, of which so many go.
    pub(super) fn view_note(&self, staged: Option<&Staged>, gone: u64) -> ViewNote {
        ViewNote {
            mode: self.options.mode.word().to_owned(),
            came: staged.map_or(0, |staged| staged.files().iter().map(|file| file.num_records).sum()),
            gone,
        }
    }

    /// Puts a version with a change, made for the version before it and no other.
    fn put_change(&mut self, version: u64, said: Said<'_>, staged: Option<&Staged>) -> Result<Put, DeltaError> {
        let is_upsert = self.options.mode == Mode::Upsert;
        if is_upsert && self.synced != Some((self.table.reopened, version - 1)) {
            // Not the version that the state stands for: nothing is put, which is no news of a taken one.
            return Ok(Put::Taken);
        }
        let completed = staged.map(|staged| self.completed(staged)).transpose()?.flatten();
        let staged = completed.as_ref().or(staged);
        let revision = match staged.filter(|_| is_upsert) {
            Some(staged) => {
                let (moved, kernel, runtime) = (self.options.by_key.moved, &self.table.kernel, &self.table.runtime);
                Some(Revision::new(&self.state, &self.keys, moved, staged, kernel, runtime)?)
            }
            None => None,
        };
        let gone = revision.as_ref().map_or_else(|| staged.map_or(0, Staged::deleted_rows), Revision::gone);
        let rewrite = revision.as_ref().map(|revision| revision.rewrite(&self.state, now_ms()));
        let batch = staged.map(|staged| &staged.batch);
        let rewrite = rewrite.as_ref().filter(|rewrite: &&Rewrite| !rewrite.actions.is_empty());
        let Said { notes, txns, more } = said;
        let notes = Notes { view: Some(self.view_note(staged, gone)), ..notes };
        let put = self.table.put_version(version, &Contents { notes: &notes, txns, batch, rewrite, more })?;
        if put == Put::Done && is_upsert {
            if let (Some(revision), Some(staged)) = (revision, staged) {
                revision.apply(&mut self.state, staged);
            }
            self.synced = Some((self.table.reopened, version));
            self.counter.store(self.rows(), Ordering::Relaxed);
        }
        Ok(put)
    }
}

impl OutputLog for View {
    type Batch = Staged;
    type Layout = Layout;
    type Error = DeltaError;

    fn load(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<Head, DeltaError> {
        let head = self.table.load(partitions)?;
        self.follow()?;
        Ok(head)
    }

    fn layout(&self) -> Layout {
        self.table.layout()
    }

    fn keeps_ms(&self) -> Option<u64> {
        self.table.keeps_ms()
    }

    fn put(&mut self, permit: &Permit, batch: Option<&Staged>) -> Result<Put, DeltaError> {
        let advances = permit.advances().iter();
        let mut txns: Vec<_> = advances.map(|(partition, each)| (self.table.key(*partition), each.to.last())).collect();
        txns.extend(self.table.marks(permit));
        let counted = || self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = batch.map_or_else(counted, |staged| staged.batch.tally.clone());
        // A commit of frontiers alone may be one that somebody chose.
        let notes = self.table.notes(permit, Some(&told).filter(|told| batch.is_some() || !told.is_empty()));
        self.put_change(permit.version().0, Said { notes, txns: &txns, more: &Map::new() }, batch)
    }

    fn find(&mut self, commit: CommitId, from: TableVersion) -> Result<Option<TableVersion>, DeltaError> {
        self.table.find(commit, from)
    }

    fn gaps(&mut self, above: &Frontier) -> Result<Option<Vec<Gap>>, DeltaError> {
        self.table.gaps(above)
    }

    fn tend(&mut self) {
        self.table.tend();
        if let Err(error) = self.compact() {
            tracing::warn!(table = self.table.name(), %error, "files could not be compacted; another try comes later");
        }
    }
}

/// Stages changes apart from the view, where another than its owner writes its files.
#[derive(Debug)]
pub struct ViewWriter {
    keys: Arc<Keys>,
    stager: Stager,
    moved: Moved,
}

impl ViewWriter {
    /// For a table of this layout.
    ///
    /// # Errors
    /// Keys that it does not have; a schema that no file can be written for.
    pub fn open(layout: &Layout, options: &ViewOptions) -> Result<Self, DeltaError> {
        Ok(Self { keys: keys(layout, options)?, stager: stager(layout, options)?, moved: options.by_key.moved })
    }

    /// As [`View::stage`].
    ///
    /// # Errors
    /// As [`View::stage`].
    pub fn stage(&mut self, change: &Change, runtime: &Handle) -> Result<Staged, StageError> {
        self.stager.stage(&self.keys, change, runtime)
    }

    /// Writes the newest rows of events by key, for a view in mode upsert with a key. Where several logs have events of
    /// one key and that is no error, the last stretch's counts.
    ///
    /// # Errors
    /// As [`View::stage`]; a key that changes logs where it must not.
    pub fn stage_latest(
        &mut self,
        stretches: &[Stretch],
        tally: BTreeMap<PartitionId, Tally>,
        runtime: &Handle,
    ) -> Result<Staged, StageError> {
        self.stager.stage_latest(&self.keys, self.moved, stretches, tally, runtime)
    }
}

/// What a commit says beside its files.
struct Said<'a> {
    notes: Notes,
    txns: &'a [(String, i64)],
    more: &'a Map<String, Value>,
}

impl Move {
    fn to_json(&self) -> Value {
        json!({"appId": self.app_id, "from": self.from.map(Offset::get), "to": self.to.get()})
    }
}

fn keys(layout: &Layout, options: &ViewOptions) -> Result<Arc<Keys>, DeltaError> {
    let key = if options.mode == Mode::Upsert { &options.key[..] } else { &[] };
    Keys::new(layout, key).map(Arc::new)
}

fn stager(layout: &Layout, options: &ViewOptions) -> Result<Stager, DeltaError> {
    let writer = Writer::new(layout, options.writer.clone()).map_err(|error| DeltaError::Broken {
        table: layout.table().to_owned(),
        reason: format!("files can't be written for it: {error}"),
    })?;
    Ok(Stager { layout: layout.clone(), writer, mode: options.mode })
}
