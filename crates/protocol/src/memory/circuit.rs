//! A circuit that sums by key. The first sink has a row `key=sum` a key, the second one a dead letter
//! for each record that is not `key=number`, a third one a row `key:count` a key.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{MemoryBatch, MemoryError, Outside, States, Topic, View};
use crate::ports::{Checkpoint, Circuit, Gap, Restored};
use crate::position::{CommitId, Frontier, Offset, PartitionId, Shape, SinkId, SourceId};
use crate::records::Records;

/// Sum and count by key, and the bad records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    keys: BTreeMap<String, (i64, u64)>,
    letters: BTreeSet<(PartitionId, i64)>,
}

impl Sums {
    fn take(&mut self, partition: PartitionId, offset: i64, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        match text.split_once('=').and_then(|(key, number)| Some((key, number.parse::<i64>().ok()?))) {
            Some((key, number)) => {
                let (sum, count) = self.keys.entry(key.to_owned()).or_default();
                (*sum, *count) = (*sum + number, *count + 1);
            }
            None => {
                self.letters.insert((partition, offset));
            }
        }
    }

    /// The rows of a sink.
    fn rows(&self, sink: SinkId) -> BTreeSet<String> {
        match sink.0 {
            0 => self.keys.iter().map(|(key, (sum, _))| format!("{key}={sum}")).collect(),
            1 => self.letters.iter().map(|(partition, offset)| format!("{partition}@{offset}")).collect(),
            _ => self.keys.iter().map(|(key, (_, count))| format!("{key}:{count}")).collect(),
        }
    }
}

/// What a sink by step holds at a frontier, made from the topics in one go. `begun` is where the
/// pipeline began; what lies in `gaps` it never took in.
#[must_use]
pub fn answer(sink: SinkId, topics: &[Topic], begun: &Frontier, gaps: &[Gap], frontier: &Frontier) -> View {
    let mut sums = Sums::default();
    for (&partition, &to) in frontier {
        let from = begun.get(&partition).copied().unwrap_or(Offset::ZERO);
        let topic = &topics[usize::from(partition.source().0)];
        let records = topic.records(PartitionId::of(SourceId(0), partition.number())).into_iter();
        let gone = |at: &Offset| gaps.iter().any(|gap| gap.partition == partition && (gap.from..gap.to).contains(at));
        let span = records.filter(|(at, _)| (from..to).contains(at) && !gone(at));
        span.for_each(|(at, value)| sums.take(partition, at.get(), &value));
    }
    sums.rows(sink).into_iter().map(|row| (row, 1)).collect()
}

/// A sink, as the circuit knows it.
#[derive(Debug, Default)]
struct Sink {
    shape: Option<Shape>,
    /// The rows that all batches sealed so far lead to.
    shown: BTreeSet<String>,
}

/// The circuit, and where it saves its state.
pub struct MemoryCircuit {
    states: States,
    plan: String,
    sums: Sums,
    sinks: Vec<Sink>,
    pushed: Vec<(PartitionId, i64, Vec<u8>)>,
    restored: bool,
    full_at: usize,
    outside: Outside,
    /// The save under way.
    saving: Option<Saving>,
    /// How often a save is asked for before it has ended, and what it ends with.
    slowness: u32,
    failures: u32,
}

/// A state on its way into the store.
struct Saving {
    id: CommitId,
    sums: Sums,
    left: u32,
}

impl MemoryCircuit {
    /// One of so many sinks, up to 3; `plan` is what a checkpoint must be of.
    #[must_use]
    pub fn new(states: States, sinks: usize, plan: &str) -> Self {
        let (plan, sinks) = (plan.to_owned(), (0..sinks).map(|_| Sink::default()).collect());
        let (sums, pushed) = (Sums::default(), Vec::new());
        let (restored, full_at, saving) = (false, usize::MAX, None);
        let outside = Outside::default();
        Self { states, plan, sums, sinks, pushed, restored, full_at, outside, saving, slowness: 0, failures: 0 }
    }

    /// Its records may need that.
    #[must_use]
    pub fn needing(self, outside: &Outside) -> Self {
        Self { outside: outside.clone(), ..self }
    }

    /// A save is asked for so often in vain before it has ended.
    #[must_use]
    pub fn slow(self, times: u32) -> Self {
        Self { slowness: times, ..self }
    }

    /// So many saves fail.
    #[must_use]
    pub fn failing(self, saves: u32) -> Self {
        Self { failures: saves, ..self }
    }

    /// It is full with so many records pushed.
    #[must_use]
    pub fn full_at(self, records: usize) -> Self {
        Self { full_at: records, ..self }
    }
}

impl Circuit for MemoryCircuit {
    type Batch = MemoryBatch;
    type Layout = Shape;
    type Error = MemoryError;

    fn open(&mut self, sink: SinkId, layout: &Shape) -> Result<(), MemoryError> {
        self.sinks[usize::from(sink.0)].shape = Some(*layout);
        Ok(())
    }

    fn restore(&mut self, from: &Checkpoint) -> Result<Restored, MemoryError> {
        self.pushed.clear();
        (self.restored, self.saving) = (false, None);
        self.sums = match &from.state {
            None => Sums::default(),
            Some(plan) if *plan != self.plan.as_bytes() => {
                let was = String::from_utf8_lossy(plan).into_owned();
                return Err(MemoryError::OtherPlan { was, is: self.plan.clone() });
            }
            Some(_) => match self.states.saved(from.id) {
                Some(sums) => sums,
                None => return Ok(Restored::Missing),
            },
        };
        for (n, sink) in (0..).zip(&mut self.sinks) {
            sink.shown = self.sums.rows(SinkId(n));
        }
        self.restored = true;
        Ok(Restored::Done)
    }

    fn look_up(&mut self, records: &Records) -> Result<(), MemoryError> {
        self.outside.needed_by(records)
    }

    fn push(&mut self, records: Records) -> Result<Option<Records>, MemoryError> {
        assert!(self.restored, "a circuit is restored before records come");
        for entry in records.entries() {
            if let Some(value) = records.value(entry) {
                self.pushed.push((records.partition(), entry.offset, value.to_vec()));
            }
        }
        Ok(Some(records))
    }

    fn is_full(&self) -> bool {
        self.pushed.len() >= self.full_at
    }

    fn step(&mut self, wanted: &BTreeSet<SinkId>) -> Result<BTreeSet<SinkId>, MemoryError> {
        for (partition, offset, value) in self.pushed.drain(..) {
            self.sums.take(partition, offset, &value);
        }
        let mut held = BTreeSet::new();
        for (sink, known) in (0..).map(SinkId).zip(&mut self.sinks) {
            let rows = self.sums.rows(sink);
            if !wanted.contains(&sink) {
                known.shown = rows;
            } else if known.shown != rows {
                held.insert(sink);
            }
        }
        Ok(held)
    }

    fn seal(&mut self, sink: SinkId) -> Result<Option<MemoryBatch>, MemoryError> {
        let known = &mut self.sinks[usize::from(sink.0)];
        let rows = self.sums.rows(sink);
        let change = |sign: char, row: &String| (PartitionId(0), Offset::ZERO, format!("{sign}{row}").into_bytes());
        let gone = known.shown.difference(&rows).map(|row| change('-', row));
        let changes: Vec<_> = gone.chain(rows.difference(&known.shown).map(|row| change('+', row))).collect();
        known.shown = rows;
        let shape = known.shape.expect("a sink is open before it is sealed");
        Ok((!changes.is_empty()).then_some(MemoryBatch { shape, grown: None, rows: changes }))
    }

    fn prepare(&mut self, id: CommitId) -> Result<(), MemoryError> {
        assert!(self.pushed.is_empty(), "P6: a state is saved amid a step");
        assert!(self.saving.is_none(), "P4: two saves at once");
        self.saving = Some(Saving { id, sums: self.sums.clone(), left: self.slowness });
        Ok(())
    }

    fn finish(&mut self, _: Duration) -> Result<Option<Vec<u8>>, MemoryError> {
        let saving = self.saving.as_mut().expect("P4: a save is waited for that was not begun");
        if saving.left > 0 {
            saving.left -= 1;
            return Ok(None);
        }
        let Saving { id, sums, .. } = self.saving.take().expect("it is there");
        if self.failures > 0 {
            self.failures -= 1;
            return Err(MemoryError::Outage("save the state"));
        }
        self.states.save(id, sums);
        Ok(Some(self.plan.clone().into_bytes()))
    }
}
