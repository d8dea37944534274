//! Decode and encode: each worker thread takes some partitions' records all the way to sealed files.
//!
//! Shared-nothing: a partition belongs to one worker, so its rows keep their order. [`Shards`] routes
//! and collects; it is the [`Stage`] that the loop sees. What a worker can't do is told at the next call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use lakeward_circuit::refused::Refused;
use lakeward_circuit::stateless::Stateless;
use lakeward_decode::{Format, PlanError, Transforms, Unavailable};
use lakeward_delta::encode::{EncodeError, WriterOptions};
use lakeward_delta::view::Stretch;
use lakeward_delta::{Batch, DeltaError, Layout};
use lakeward_protocol::ports::{Exit, Fault, Letters, Stage, Verdict};
use lakeward_protocol::records::Records;

use crate::badlog::BadLog;
use crate::meters;
pub use bench::Bench;
use evolve::Lineage;
pub use keyed::ByKeyOptions;
use letters::LetterPart;
pub use letters::{LetterBench, LetterOptions};
use worker::{Command, Part, Shared, Spare, Worker};

mod bench;
mod evolve;
mod keyed;
pub mod letters;
mod rules;
mod sifted;
mod unavailable;
mod upserts;
mod worker;

pub use evolve::Evolve;
pub use unavailable::{OnUnavailable, Placeholders};
pub use upserts::Upserts;

/// Arenas that wait for a worker; more would only be memory.
const QUEUE: usize = 4;

/// How the stage works.
#[derive(Clone)]
pub struct StageOptions {
    /// The topic, for `kafka.topic` and messages.
    pub topic: String,
    /// What messages are written in.
    pub format: Format,
    /// Columns made by expressions.
    pub transforms: Transforms,
    /// What makes the table's rows of the messages', in a pipeline; otherwise they are the same.
    pub view: Option<Over>,
    /// How bad records become dead letters, where they do.
    pub letters: Option<LetterOptions>,
    /// What becomes of fields that the table does not have.
    pub evolve: Evolve,
    /// How rows go into the table by key, where they do. Nothing is written by the workers then.
    pub by_key: Option<ByKeyOptions>,
    /// How files are written.
    pub writer: WriterOptions,
    /// Ends at the first bad record, rather than counting it.
    pub stop_at_bad: bool,
    /// Worker threads.
    pub workers: usize,
    /// Held bytes at which a commit is made before its time.
    pub most_bytes: usize,
    /// Messages at which it is.
    pub most_messages: usize,
    /// Where uploads run.
    pub runtime: tokio::runtime::Handle,
}

/// A view over one source of its pipeline.
#[derive(Clone)]
pub struct Over {
    /// The view.
    pub view: Stateless,
    /// Which of its relations the messages are of.
    pub source: usize,
}

/// What the stage can't do.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The table's schema, or a transform's target.
    #[error("table {table}: {source}")]
    Plan { table: String, source: PlanError },
    /// A bad record under `--on-bad-record=stop`.
    #[error("{topic}-{partition} at offset {offset}: {detail} ({kind}); {way_on} to go on without such records")]
    Bad { topic: String, partition: u32, offset: i64, kind: &'static str, detail: String, way_on: &'static str },
    /// A dead letter that is no row of its table.
    #[error(
        "{topic}-{partition}: the dead letter of offset {offset} can't be a row of the dead-letter table {table}: {detail}; \
         correct --dlq_transform, or the table's columns"
    )]
    Letter { table: String, topic: String, partition: u32, offset: i64, detail: String },
    /// The table is not as the view any more.
    #[error(
        "table {table}: its columns changed to {columns}, and view {view} has others; give the view the table's columns"
    )]
    Columns { table: String, view: String, columns: String },
    /// The table has a rule that we can't keep.
    #[error("table {table}: {rule} can't be kept: {reason}; drop it with ALTER TABLE, or write to a table without")]
    Rule { table: String, rule: String, reason: Box<Refused> },
    /// The table can't be written to so, or can't become what messages ask for.
    #[error(transparent)]
    Table(DeltaError),
    /// A schema that messages name.
    #[error(transparent)]
    Schema(#[from] Unavailable),
    /// Files.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A worker thread ended.
    #[error("a worker thread is gone; this is a fault of lakeward")]
    Gone,
}

impl Fault for StageError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Plan { .. } | Self::Columns { .. } | Self::Letter { .. } | Self::Rule { .. } => {
                Verdict::Stop(Exit::Config)
            }
            Self::Table(error) => error.verdict(),
            Self::Bad { .. } => Verdict::Stop(Exit::Data),
            Self::Schema(Unavailable::OutOfReach { .. }) => Verdict::Retry,
            Self::Schema(Unavailable::NotAllowed { .. }) => Verdict::Stop(Exit::Unavailable),
            Self::Encode(error) => error.verdict(),
            Self::Gone => Verdict::Stop(Exit::Software),
        }
    }
}

/// Bytes held anywhere in the stage.
#[derive(Clone, Default)]
pub struct Held(Arc<AtomicUsize>);

impl Held {
    /// The sum.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn sub(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The workers, as one stage.
pub struct Shards {
    commands: Vec<Sender<Command>>,
    threads: Vec<JoinHandle<()>>,
    spare: Receiver<Records>,
    format: Format,
    fault: Arc<Mutex<Option<StageError>>>,
    held: Held,
    most_bytes: usize,
    most_messages: usize,
    /// Messages pushed since the last seal.
    messages: usize,
    /// Delivered by some workers while another failed to: part of the batch that a retry completes.
    delivered: Vec<Part>,
    /// The same of dead letters.
    delivered_letters: Vec<LetterPart>,
    /// The layouts that the table is to have.
    lineage: Lineage,
}

impl Shards {
    /// Starts the workers.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(options: &StageOptions) -> std::io::Result<Self> {
        let (spare_in, spare) = unbounded();
        let (held, fault) = (Held::default(), Arc::default());
        let bad = Arc::new(BadLog::new(options.topic.clone()));
        let mut shards = Self {
            commands: Vec::new(),
            threads: Vec::new(),
            spare,
            format: options.format.clone(),
            fault: Arc::clone(&fault),
            held: held.clone(),
            most_bytes: options.most_bytes,
            most_messages: options.most_messages,
            messages: 0,
            delivered: Vec::new(),
            delivered_letters: Vec::new(),
            lineage: Lineage::default(),
        };
        for number in 0..options.workers {
            let (commands, queue) = bounded(QUEUE);
            let spare = Spare { give: spare_in.clone(), take: shards.spare.clone() };
            let (fault, bad, lineage) = (Arc::clone(&fault), Arc::clone(&bad), shards.lineage.clone());
            let worker = Worker::new(options.clone(), spare, Shared { held: held.clone(), fault, bad, lineage });
            let thread = std::thread::Builder::new().name(format!("encode-{number}"));
            shards.threads.push(thread.spawn(move || worker.run(&queue))?);
            shards.commands.push(commands);
        }
        Ok(shards)
    }

    /// Bytes held, for metrics.
    #[must_use]
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// What the workers have sealed, and the events by key where there are such: all or, with an error, nothing.
    fn seal_events(&mut self) -> Result<(Batch, Vec<Stretch>), StageError> {
        let mut failed = None;
        for answer in self.ask(Command::Seal) {
            match answer {
                Ok(part) => self.delivered.push(part),
                Err(error) => failed = Some(error),
            }
        }
        self.fault()?;
        if let Some(error) = failed {
            return Err(error);
        }
        self.messages = 0;
        let metadata = self.lineage.widest().and_then(|layout| layout.metadata_action());
        let (batch, events) = joined(std::mem::take(&mut self.delivered));
        let batch = Batch { metadata, ..batch };
        meters::sealed(&batch);
        Ok((batch, events))
    }

    fn fault(&self) -> Result<(), StageError> {
        self.fault.lock().expect("no holder of this lock panics").take().map_or(Ok(()), Err)
    }

    /// Sends records to their partition's worker.
    fn take(&mut self, records: Records, how: fn(Records) -> Command) -> Result<Option<Records>, StageError> {
        self.fault()?;
        let worker = &self.commands[records.partition().0 as usize % self.commands.len()];
        self.held.add(records.capacity_bytes());
        self.messages += records.len();
        worker.send(how(records)).map_err(|_| StageError::Gone)?;
        Ok(self.spare.try_recv().ok())
    }

    /// Asks every worker, and waits for every answer.
    fn ask<T>(&self, command: impl Fn(Sender<Result<T, StageError>>) -> Command) -> Vec<Result<T, StageError>> {
        let answers: Vec<_> = self
            .commands
            .iter()
            .map(|worker| {
                let (answer, answers) = bounded(1);
                worker.send(command(answer)).ok().map(|()| answers)
            })
            .collect();
        answers
            .into_iter()
            .map(|answer| match answer {
                Some(answer) => answer.recv().unwrap_or(Err(StageError::Gone)),
                None => Err(StageError::Gone),
            })
            .collect()
    }
}

impl Stage for Shards {
    type Batch = Batch;
    type Layout = Layout;
    type Error = StageError;

    fn open(&mut self, layout: &Layout) -> Result<(), StageError> {
        self.lineage.forget();
        self.ask(|answer| Command::Open(layout.clone(), answer)).into_iter().collect()
    }

    fn prepare(&mut self, records: &Records) -> Result<(), StageError> {
        Ok(self.format.prepare(records)?)
    }

    fn push(&mut self, records: Records) -> Result<Option<Records>, StageError> {
        self.take(records, Command::Take)
    }

    fn is_full(&self) -> bool {
        self.held.bytes() >= self.most_bytes || self.messages >= self.most_messages
    }

    fn seal(&mut self) -> Result<Batch, StageError> {
        let (batch, events) = self.seal_events()?;
        assert!(events.is_empty(), "events by key go through Upserts");
        Ok(batch)
    }

    fn discard(&mut self) {
        self.delivered.clear();
        self.delivered_letters.clear();
        self.messages = 0;
        // A worker that is gone holds nothing; `open` will tell.
        drop(self.ask(Command::Discard));
        self.lineage.forget();
        drop(self.fault());
    }

    fn reshapes(batch: &Batch) -> bool {
        batch.metadata.is_some()
    }

    fn open_letters(&mut self, layout: &Layout) -> Result<(), StageError> {
        self.ask(|answer| Command::OpenLetters(layout.clone(), answer)).into_iter().collect()
    }

    fn push_for_letters(&mut self, records: Records) -> Result<Option<Records>, StageError> {
        self.take(records, Command::TakeForLetters)
    }

    fn seal_letters(&mut self) -> Result<Letters<Batch>, StageError> {
        let mut failed = None;
        for answer in self.ask(Command::SealLetters) {
            match answer {
                Ok(part) => self.delivered_letters.push(part),
                Err(error) => failed = Some(error),
            }
        }
        self.fault()?;
        match failed {
            Some(error) => Err(error),
            None => Ok(letters::joined(std::mem::take(&mut self.delivered_letters))),
        }
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        self.commands.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn joined(parts: Vec<Part>) -> (Batch, Vec<Stretch>) {
    let (mut batch, mut events) = (Batch::default(), Vec::new());
    for part in parts {
        batch.files.extend(part.files);
        events.extend(part.events);
        for (partition, tally) in part.tally {
            *batch.tally.entry(partition).or_default() += tally;
        }
    }
    (batch, events)
}
