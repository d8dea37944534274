//! A table whose log is a list of versions, and its writers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use super::{MemoryBatch, MemoryError};
use crate::ports::{Advance, Breach, Gap, Head, OutputLog, Permit, Put};
use crate::position::{CommitId, Frontier, Offset, PartitionId, Shape, Stretch, TableVersion};

mod proof;

/// A table. A clone is the same table.
#[derive(Clone)]
pub struct Table(Arc<Mutex<State>>);

struct State {
    id: u64,
    versions: Vec<Version>,
    /// A put whose request is still on its way.
    late: Option<(TableVersion, Version)>,
}

/// One version, as its commit says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Version {
    commit: Option<CommitId>,
    /// The topic that the frontier is about.
    topic: u64,
    frontier: Frontier,
    advances: BTreeMap<PartitionId, Advance>,
    gaps: Vec<Gap>,
    /// Spans that made dead letters, up to the last one, for which table.
    dead: BTreeMap<(String, PartitionId), Stretch>,
    rows: Vec<(PartitionId, Offset, Vec<u8>)>,
    /// What files must fit from here on.
    shape: u64,
    /// What the rows were made for.
    made_for: Option<Shape>,
    restores: Option<TableVersion>,
}

/// What a call asks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// [`OutputLog::load`].
    Load,
    /// [`OutputLog::put`].
    Put,
    /// [`OutputLog::find`].
    Find,
    /// List checkpoints.
    List,
    /// Put a manifest.
    Save,
    /// Remove checkpoints.
    Remove,
}

impl Operation {
    /// Whether more can become of it than an answer or none.
    #[must_use]
    pub fn puts(self) -> bool {
        matches!(self, Self::Put | Self::Save)
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It goes well.
    Well,
    /// No answer, and nothing happened.
    Fails,
    /// No answer, but it happened.
    ReplyLost,
    /// No answer, and it happens some time later ([`Table::deliver_late`]).
    Late,
    /// It happened, and the store's client sent it again: "already exists".
    SentTwice,
    /// "Already exists", or 409, though nothing is there.
    Conflict,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    /// An empty table at version 0.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State { id: 1, versions: vec![Version::default()], late: None })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A writer; `topic` identifies what it reads (a topic that was made again has another).
    #[must_use]
    pub fn open(&self, topic: u64) -> MemoryOutput {
        let opened = self.state().id;
        let (letters, fate) = (String::new(), Box::new(|_| Fate::Well));
        MemoryOutput { table: self.clone(), opened, topic, letters, shape: Shape(0), fate }
    }

    /// Somebody puts a version that concerns nobody.
    pub fn foreign_append(&self) {
        self.foreign(|_| {});
    }

    /// Somebody changes what files must fit.
    pub fn foreign_reshape(&self) {
        self.foreign(|version| version.shape += 1);
    }

    /// Somebody sets a stored frontier.
    pub fn foreign_frontier(&self, partition: PartitionId, to: Offset) {
        self.foreign(|version| {
            version.frontier.insert(partition, to);
        });
    }

    /// Somebody brings the rows of an older version back.
    pub fn foreign_restore(&self, to: TableVersion) {
        self.foreign(|version| version.restores = Some(to));
    }

    fn foreign(&self, change: impl FnOnce(&mut Version)) {
        let mut state = self.state();
        let newest = state.newest();
        let mut version = Version { shape: newest.shape, topic: newest.topic, ..Version::default() };
        change(&mut version);
        state.versions.push(version);
    }

    /// Somebody drops the table and makes another.
    pub fn foreign_recreate(&self) {
        let mut state = self.state();
        (state.id, state.versions, state.late) = (state.id + 1, vec![Version::default()], None);
    }

    /// A late put arrives. True when it was not too late.
    pub fn deliver_late(&self) -> bool {
        let mut state = self.state();
        let Some((number, version)) = state.late.take() else { return false };
        state.put(number, version)
    }

    /// Newest version.
    #[must_use]
    pub fn version(&self) -> TableVersion {
        self.state().head()
    }

    /// The stored frontier.
    #[must_use]
    pub fn frontier(&self) -> Frontier {
        let state = self.state();
        state.frontier_at(state.head())
    }

    /// The rows that a reader sees, in no order that matters.
    #[must_use]
    pub fn rows(&self) -> Vec<(PartitionId, Offset, Vec<u8>)> {
        let state = self.state();
        state.rows_at(state.head())
    }

    /// Whether a version carries this name.
    #[must_use]
    pub fn has(&self, commit: CommitId) -> bool {
        self.state().versions.iter().any(|v| v.commit == Some(commit))
    }

    /// Each version's gaps.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        self.state().versions.iter().flat_map(|v| v.gaps.clone()).collect()
    }
}

impl Table {
    /// The rows of a sink by step, with how often each is there.
    #[must_use]
    pub fn view(&self) -> View {
        let mut view = View::new();
        self.rows().iter().for_each(|(_, _, change)| apply(&mut view, change));
        view
    }
}

/// Rows, and how often each is there.
pub type View = BTreeMap<String, i64>;

/// A change is `+` or `-` and a row.
pub(super) fn apply(view: &mut View, change: &[u8]) {
    let (sign, row) = change.split_at(1);
    let weight = if sign == b"-" { -1 } else { 1 };
    let row = String::from_utf8_lossy(row).into_owned();
    let count = view.entry(row.clone()).or_default();
    *count += weight;
    if *count == 0 {
        view.remove(&row);
    }
}

impl State {
    fn head(&self) -> TableVersion {
        TableVersion(self.versions.len() as u64 - 1)
    }

    fn newest(&self) -> &Version {
        self.versions.last().expect("version 0 is always there")
    }

    fn until(&self, version: TableVersion) -> &[Version] {
        let count = usize::try_from(version.0).expect("a short log") + 1;
        &self.versions[..count.min(self.versions.len())]
    }

    fn put(&mut self, number: TableVersion, version: Version) -> bool {
        let free = self.head().next() == number;
        if free {
            self.versions.push(version);
        }
        free
    }

    fn frontier_at(&self, version: TableVersion) -> Frontier {
        self.until(version).iter().flat_map(|v| v.frontier.clone()).collect()
    }

    /// The newest span of each partition that made dead letters for a table of them.
    fn dead(&self, letters: &str, asked: &BTreeSet<PartitionId>) -> BTreeMap<PartitionId, Stretch> {
        let all = self.versions.iter().flat_map(|v| &v.dead);
        let asked = all.filter(|((of, p), _)| of == letters && asked.contains(p));
        asked.map(|((_, p), stretch)| (*p, *stretch)).collect()
    }

    fn rows_at(&self, version: TableVersion) -> Vec<(PartitionId, Offset, Vec<u8>)> {
        let mut rows = Vec::new();
        for version in self.until(version) {
            if let Some(to) = version.restores {
                rows = self.rows_at(to);
            }
            rows.extend(version.rows.iter().cloned());
        }
        rows
    }

    /// The partitions whose rows the newest restore took away, nobody having written that down.
    fn restored(&self, asked: &BTreeSet<PartitionId>) -> Option<Breach> {
        let at = self.versions.iter().rposition(|v| v.restores.is_some())?;
        let to = self.versions[at].restores?;
        let (before, covered) = (self.frontier_at(TableVersion(at as u64)), self.frontier_at(to));
        let mut frontier = Frontier::new();
        for partition in asked {
            let covers = covered.get(partition).copied().unwrap_or(Offset::ZERO);
            let written = self.versions[at..].iter().any(|v| v.gaps.iter().any(|gap| gap.partition == *partition));
            if before.get(partition).is_some_and(|stored| *stored > covers) && !written {
                frontier.insert(*partition, covers);
            }
        }
        (!frontier.is_empty()).then_some(Breach::Restored { at: TableVersion(at as u64), to, frontier })
    }

    /// The partitions whose frontier is about another topic.
    fn other_topic(&self, asked: &BTreeSet<PartitionId>, topic: u64) -> Option<Breach> {
        let mut was = topic;
        let mut partitions = BTreeSet::new();
        for partition in asked {
            let newest = self.versions.iter().rev().find(|v| v.frontier.contains_key(partition));
            if let Some(version) = newest.filter(|version| version.topic != topic) {
                was = version.topic;
                partitions.insert(*partition);
            }
        }
        let (was, is) = (was.to_string(), topic.to_string());
        (!partitions.is_empty()).then_some(Breach::OtherTopic { was, is, partitions })
    }
}

/// One process's hold on a table.
pub struct MemoryOutput {
    table: Table,
    opened: u64,
    topic: u64,
    /// The table of dead letters' name.
    letters: String,
    shape: Shape,
    fate: Box<dyn FnMut(Operation) -> Fate + Send>,
}

impl MemoryOutput {
    /// Sets bad records aside, into the table of dead letters of this name.
    #[must_use]
    pub fn with_letters(self, letters: &str) -> Self {
        Self { letters: letters.to_owned(), ..self }
    }

    /// Lets `fate` decide what becomes of each call.
    #[must_use]
    pub fn fated(self, fate: impl FnMut(Operation) -> Fate + Send + 'static) -> Self {
        Self { fate: Box::new(fate), ..self }
    }

    fn ask(&mut self, operation: Operation, doing: &'static str) -> Result<Fate, MemoryError> {
        match (self.fate)(operation) {
            Fate::Well => Ok(Fate::Well),
            fate if operation.puts() => Ok(fate),
            _ => Err(MemoryError::Outage(doing)),
        }
    }
}

impl OutputLog for MemoryOutput {
    type Batch = MemoryBatch;
    type Layout = Shape;
    type Error = MemoryError;

    fn load(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<Head, MemoryError> {
        self.ask(Operation::Load, "load")?;
        let state = self.table.state();
        let mut frontier = state.frontier_at(state.head());
        frontier.retain(|p, _| partitions.contains(p));
        let recreated = (state.id != self.opened)
            .then(|| Breach::Recreated { was: self.opened.to_string(), is: state.id.to_string() });
        let breach = recreated.or_else(|| state.other_topic(partitions, self.topic));
        let breach = breach.or_else(|| state.restored(partitions));
        self.shape = Shape(state.newest().shape);
        let dead = state.dead(&self.letters, partitions);
        Ok(Head { version: state.head(), frontier, shape: self.shape, breach, dead, fading: BTreeSet::new() })
    }

    fn layout(&self) -> Shape {
        self.shape
    }

    fn put(&mut self, permit: &Permit, batch: Option<&MemoryBatch>) -> Result<Put, MemoryError> {
        let fate = self.ask(Operation::Put, "put")?;
        let mut state = self.table.state();
        let dead = permit.dead().iter();
        let version = Version {
            commit: Some(permit.commit()),
            topic: self.topic,
            frontier: permit.advances().iter().map(|(p, a)| (*p, a.to)).collect(),
            advances: permit.advances().clone(),
            gaps: permit.gaps().to_vec(),
            dead: dead
                .map(|(p, to)| ((self.letters.clone(), *p), Stretch { from: permit.advances()[p].from, to: *to }))
                .collect(),
            rows: batch.map(|batch| batch.rows.clone()).unwrap_or_default(),
            shape: batch.and_then(|batch| batch.grown).map_or(state.newest().shape, |grown| grown.0),
            made_for: batch.map(|batch| batch.shape),
            restores: None,
        };
        let number = permit.version();
        match fate {
            Fate::Fails => return Err(MemoryError::Outage("put")),
            Fate::Conflict => return Ok(Put::Taken),
            Fate::Late => {
                state.late = Some((number, version));
                return Err(MemoryError::Outage("put"));
            }
            Fate::Well | Fate::ReplyLost | Fate::SentTwice => {}
        }
        let landed = state.put(number, version);
        match fate {
            Fate::ReplyLost => Err(MemoryError::Outage("put")),
            Fate::Well if landed => Ok(Put::Done),
            _ => Ok(Put::Taken),
        }
    }

    fn find(&mut self, commit: CommitId, from: TableVersion) -> Result<Option<TableVersion>, MemoryError> {
        self.ask(Operation::Find, "find")?;
        let state = self.table.state();
        let at = (0..).zip(&state.versions).skip(usize::try_from(from.0).expect("a short log"));
        Ok(at.into_iter().find(|(_, v)| v.commit == Some(commit)).map(|(number, _)| TableVersion(number)))
    }

    fn gaps(&mut self, above: &Frontier) -> Result<Option<Vec<Gap>>, MemoryError> {
        let mut gaps = self.table.gaps();
        gaps.retain(|gap| above.get(&gap.partition).is_none_or(|above| gap.to > *above));
        Ok(Some(gaps))
    }

    fn tend(&mut self) {}
}
