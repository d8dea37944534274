//! The circuit as the loop sees it: records in, steps, each sink's changes as files or messages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use arrow_array::{BooleanArray, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use lakeward_circuit::checkpoint::{self, Pending};
use lakeward_circuit::circuit::{self, EngineError, StartError};
use lakeward_circuit::codec::Codec;
use lakeward_circuit::dead_letters::DeadLetters;
use lakeward_circuit::delta::{Delta, Part};
use lakeward_circuit::folder::Folder;
use lakeward_circuit::plan::Plan;
use lakeward_circuit::refused::Refused;
use lakeward_decode::Unavailable;
use lakeward_delta::Tally;
use lakeward_delta::view::{Change, Counts, StageError, ViewOptions, ViewWriter};
use lakeward_protocol::ports::{Checkpoint, Circuit, Exit, Fault, Restored, Verdict};
use lakeward_protocol::position::{CommitId, Frontier, PartitionId, SinkId};
use lakeward_protocol::records::Records;
use tokio::runtime::Handle;

use super::copies::{Copies, Fetched};
use super::intake::{Intake, IntakeError};
use super::messages::{MessageError, MessageWriter};
use super::output::{Form, Sealed};
use super::store::StoreError;
use crate::meters;

/// How a sink is written.
pub enum Writing {
    /// Into a table.
    Table(ViewOptions),
    /// Into a topic.
    Topic(MessageWriter),
}

/// What the engine works with.
pub struct EngineOptions {
    /// The operators; a view for each sink but that of dead letters.
    pub plan: Arc<Plan>,
    /// Threads and memory.
    pub circuit: circuit::Options,
    /// The folder that the circuit works in.
    pub folder: PathBuf,
    /// Where its states are copied, if that folder may get lost.
    pub copies: Option<Copies>,
    /// Each sink's columns.
    pub schemas: Vec<SchemaRef>,
    /// Whether the last sink is that of dead letters.
    pub has_dead_letters: bool,
    /// How each sink is written.
    pub sinks: Vec<Writing>,
    /// Bytes of records that make a step due.
    pub most_bytes: usize,
    /// Messages that make a step due.
    pub most_messages: u64,
    /// Where uploads run.
    pub runtime: Handle,
}

impl EngineOptions {
    /// From the state in the folder; what is not there whole is fetched from its copy.
    fn restore(&self, id: CommitId, state: &[u8]) -> Result<circuit::Restored, RunError> {
        let restore = || circuit::Circuit::restore(&self.plan, &self.circuit, &self.folder, state);
        let restored = restore()?;
        let (circuit::Restored::Missing { .. }, Some(copies)) = (&restored, &self.copies) else { return Ok(restored) };
        let held = Folder::open(&self.folder).map_err(StartError::from)?;
        let fetched = copies.fetch(id, &self.folder)?;
        drop(held);
        match fetched {
            Fetched::Done => Ok(restore()?),
            Fetched::Missing { what } => Ok(circuit::Restored::Missing { what }),
        }
    }
}

/// Why the engine stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A source's messages.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// The circuit.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The plan can't run, or a checkpoint is of another one.
    #[error("{0}")]
    Refused(Refused),
    /// The state's folder, or what a checkpoint says, is not this pipeline's.
    #[error(transparent)]
    State(StartError),
    /// The copies of the states.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A sink's rows.
    #[error("sink {sink}: {source}")]
    Stage { sink: usize, source: StageError },
    /// Rows that a topic can't take.
    #[error(transparent)]
    Messages(#[from] MessageError),
}

impl From<StartError> for RunError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Refused(refused) => Self::Refused(refused),
            StartError::Engine(error) => Self::Engine(error),
            other => Self::State(other),
        }
    }
}

impl Fault for RunError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Intake(IntakeError::Bad { .. } | IntakeError::Truncated { .. }) | Self::Messages(_) => {
                Verdict::Stop(Exit::Data)
            }
            Self::Intake(IntakeError::Schema(Unavailable::OutOfReach { .. })) => Verdict::Retry,
            Self::Intake(IntakeError::Schema(Unavailable::NotAllowed { .. })) => Verdict::Stop(Exit::Unavailable),
            Self::Intake(IntakeError::Columns { .. }) | Self::Refused(_) | Self::State(_) => {
                Verdict::Stop(Exit::Config)
            }
            Self::Engine(_) => Verdict::Stop(Exit::TryAgain),
            Self::Store(error) => error.verdict(),
            Self::Stage { source, .. } => source.verdict(),
        }
    }
}

/// A sink's changes since its last commit.
struct Held {
    codec: Codec,
    changes: Part,
    stager: Option<ViewWriter>,
    /// What the sink's next commit takes in, where it has no rows.
    counts: Counts,
}

/// Decoders, circuit and writers.
pub struct Engine {
    options: EngineOptions,
    intakes: Vec<Intake>,
    dead_letters: Option<DeadLetters>,
    circuit: Option<circuit::Circuit>,
    held: Vec<Held>,
    /// Of the save that is under way.
    saving: Option<Receiver<Result<Vec<u8>, RunError>>>,
    pushed_bytes: usize,
    pushed_messages: u64,
    /// The frontier of what was pushed, and what was counted on the way, since each sink's last commit.
    frontier: Frontier,
    tallies: Vec<BTreeMap<PartitionId, Tally>>,
    pushed_tally: BTreeMap<PartitionId, Tally>,
}

impl Engine {
    /// Ready to be restored.
    ///
    /// # Errors
    /// When a sink's rows can't be compared.
    pub fn new(options: EngineOptions, intakes: Vec<Intake>) -> Result<Self, RunError> {
        let held = options.schemas.iter().map(|schema| {
            let codec = Codec::new(schema.fields().iter().map(|field| field.data_type())).map_err(RunError::Refused)?;
            Ok(Held { codec, changes: nothing(schema), stager: None, counts: Counts::default() })
        });
        let held = held.collect::<Result<Vec<_>, RunError>>()?;
        let tallies = vec![BTreeMap::new(); held.len()];
        Ok(Self {
            dead_letters: options.has_dead_letters.then(DeadLetters::default),
            options,
            intakes,
            circuit: None,
            held,
            saving: None,
            pushed_bytes: 0,
            pushed_messages: 0,
            frontier: Frontier::new(),
            tallies,
            pushed_tally: BTreeMap::new(),
        })
    }

    /// By sink: where its commits without rows find their counts.
    pub fn counts(&self) -> Vec<Counts> {
        self.held.iter().map(|held| held.counts.clone()).collect()
    }

    fn circuit(&mut self) -> &mut circuit::Circuit {
        self.circuit.as_mut().expect("the loop restores before it pushes")
    }

    /// Names a step: the sum of its frontier's offsets.
    fn step_number(&self) -> i64 {
        self.frontier.values().map(|offset| offset.get()).sum()
    }

    fn forget(&mut self) {
        for (held, schema) in self.held.iter_mut().zip(&self.options.schemas) {
            held.changes = nothing(schema);
        }
        self.dead_letters = self.options.has_dead_letters.then(DeadLetters::default);
        self.tallies.iter_mut().for_each(BTreeMap::clear);
        self.pushed_tally.clear();
        (self.pushed_bytes, self.pushed_messages) = (0, 0);
    }
}

fn nothing(schema: &SchemaRef) -> Part {
    Part { batch: RecordBatch::new_empty(schema.clone()), weights: Int64Array::from(Vec::<i64>::new()) }
}

impl Circuit for Engine {
    type Batch = Sealed;
    type Layout = Form;
    type Error = RunError;

    fn open(&mut self, sink: SinkId, layout: &Form) -> Result<(), RunError> {
        let at = usize::from(sink.0);
        let (Writing::Table(options), Form::Table(layout)) = (&self.options.sinks[at], layout) else { return Ok(()) };
        let stager = ViewWriter::open(layout, options);
        let stager = stager.map_err(|error| RunError::Stage { sink: at, source: error.into() })?;
        self.held[at].stager = Some(stager);
        Ok(())
    }

    fn restore(&mut self, from: &Checkpoint) -> Result<Restored, RunError> {
        self.forget();
        self.frontier = from.frontier.clone();
        if let Some(saving) = self.saving.take() {
            // It holds the folder until it ends; its state is not asked for any more.
            drop(saving.recv());
        }
        if let Some(circuit) = self.circuit.take() {
            // What it held is of no use any more, and so is how it ends.
            drop(circuit.stop());
        }
        match &from.state {
            None => {
                let EngineOptions { plan, circuit, folder, .. } = &self.options;
                self.circuit = Some(circuit::Circuit::start(plan, circuit, Some(folder))?);
            }
            Some(state) => match self.options.restore(from.id, state)? {
                circuit::Restored::Done(circuit) => self.circuit = Some(*circuit),
                circuit::Restored::Missing { what } => {
                    tracing::warn!("the state of checkpoint {} is not there: {what}", from.number);
                    return Ok(Restored::Missing);
                }
            },
        }
        Ok(Restored::Done)
    }

    fn look_up(&mut self, records: &Records) -> Result<(), RunError> {
        Ok(self.intakes[usize::from(records.partition().source().0)].look_up(records)?)
    }

    fn push(&mut self, records: Records) -> Result<Option<Records>, RunError> {
        let partition = records.partition();
        let source = usize::from(partition.source().0);
        let (part, tally) = self.intakes[source].part(&records, self.dead_letters.as_mut())?;
        *self.pushed_tally.entry(partition).or_default() += tally;
        self.pushed_bytes += records.capacity_bytes();
        self.pushed_messages += records.len() as u64;
        self.frontier.insert(partition, records.to());
        self.circuit().push(source, part);
        Ok(Some(records))
    }

    fn is_full(&self) -> bool {
        self.pushed_bytes >= self.options.most_bytes || self.pushed_messages >= self.options.most_messages
    }

    fn step(&mut self, wanted: &BTreeSet<SinkId>) -> Result<BTreeSet<SinkId>, RunError> {
        let mut stepped = self.circuit().step()?;
        (self.pushed_bytes, self.pushed_messages) = (0, 0);
        for failure in &stepped.failures {
            meters::failed_rows(&failure.operator, failure.weight.unsigned_abs());
            tracing::warn!(
                operator = failure.operator,
                weight = failure.weight,
                "row left out: {} ({})",
                failure.reason,
                failure.row
            );
        }
        if let Some(letters) = &mut self.dead_letters {
            stepped.views.push(letters.take(&stepped.failures));
        }
        let tally = std::mem::take(&mut self.pushed_tally);
        let mut holding = BTreeSet::new();
        for (at, change) in stepped.views.into_iter().enumerate() {
            let sink = SinkId(u8::try_from(at).expect("up to 255 sinks"));
            if !wanted.contains(&sink) {
                continue;
            }
            for (partition, tally) in &tally {
                *self.tallies[at].entry(*partition).or_default() += *tally;
            }
            let held = &mut self.held[at];
            if held.changes.weights.is_empty() {
                held.changes = change;
            } else if !change.weights.is_empty() {
                let schema = held.changes.batch.schema();
                let both = Delta(vec![std::mem::replace(&mut held.changes, change.clone()), change]);
                held.changes = both.consolidated(&held.codec, &schema);
            }
            if !held.changes.weights.is_empty() {
                holding.insert(sink);
            }
        }
        Ok(holding)
    }

    fn seal(&mut self, sink: SinkId) -> Result<Option<Sealed>, RunError> {
        let at = usize::from(sink.0);
        let step = self.step_number();
        let held = &mut self.held[at];
        if held.changes.weights.is_empty() {
            *held.counts.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut self.tallies[at]);
            return Ok(None);
        }
        let rows = |wanted: fn(i64) -> i64| copies(&held.changes, wanted);
        let inserts = rows(|weight| weight.max(0));
        let deletes = rows(|weight| weight.min(0).unsigned_abs().try_into().unwrap_or(i64::MAX));
        let sealed = match &self.options.sinks[at] {
            Writing::Table(_) => {
                let change = Change { inserts, deletes, step, tally: self.tallies[at].clone() };
                let stager = held.stager.as_mut().expect("the loop opens a sink before a step wants it");
                let staged = stager.stage(&change, &self.options.runtime);
                Sealed::Files(staged.map_err(|source| RunError::Stage { sink: at, source })?)
            }
            Writing::Topic(writer) => Sealed::Messages(writer.messages(&inserts, &deletes, step)?),
        };
        held.changes = nothing(&self.options.schemas[at]);
        self.tallies[at].clear();
        Ok(Some(sealed))
    }

    fn prepare(&mut self, id: CommitId) -> Result<(), RunError> {
        assert!(self.saving.is_none(), "P4: two saves at once");
        let pending = self.circuit().prepare()?;
        let (sender, saving) = mpsc::channel();
        let (folder, copies) = (self.options.folder.clone(), self.options.copies.clone());
        let save = move || {
            let saved = save(pending, id, &folder, copies.as_ref());
            // Nobody asks any more once the process ends.
            let _ = sender.send(saved);
        };
        let thread = std::thread::Builder::new().name("save".to_owned()).spawn(save);
        thread.map_err(|error| EngineError::new("start the thread that saves", error))?;
        self.saving = Some(saving);
        Ok(())
    }

    fn finish(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, RunError> {
        let saving = self.saving.as_ref().expect("P4: the loop waits for a save that it has begun");
        let saved = match saving.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => unreachable!("a panic of a thread ends the process"),
            Ok(saved) => saved,
        };
        self.saving = None;
        let saved = saved?;
        // The manifests before the last two are about to go, and with them what only they name.
        self.circuit().remove_states(&[&saved])?;
        for (operator, rows) in self.circuit().sizes()? {
            meters::operator_rows(operator, rows);
        }
        Ok(Some(saved))
    }
}

/// Makes a state durable, here and where it is copied.
fn save(pending: Pending, id: CommitId, folder: &Path, copies: Option<&Copies>) -> Result<Vec<u8>, RunError> {
    let saved = pending.finish()?;
    if let Some(copies) = copies {
        copies.put(id, folder, &checkpoint::files(folder, &saved)?)?;
    }
    Ok(saved)
}

/// The rows of a change, each as often as `copies` makes of its weight.
fn copies(change: &Part, copies: fn(i64) -> i64) -> Vec<RecordBatch> {
    let counts: Vec<i64> = change.weights.values().iter().map(|weight| copies(*weight)).collect();
    if counts.iter().all(|count| *count <= 1) {
        let mask = BooleanArray::from(counts.iter().map(|count| *count == 1).collect::<Vec<_>>());
        return vec![filter_record_batch(&change.batch, &mask).expect("a mask of its length")];
    }
    let places = counts.iter().enumerate().flat_map(|(row, count)| {
        std::iter::repeat_n(u32::try_from(row).expect("rows of a batch"), usize::try_from(*count).unwrap_or(0))
    });
    let places: UInt32Array = places.collect::<Vec<_>>().into();
    vec![take_record_batch(&change.batch, &places).expect("places within the batch")]
}

#[cfg(test)]
mod tests;
