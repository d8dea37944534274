//! A state of so many workers to one of another number, while no circuit runs.
//!
//! The engine restores a worker from the files that carry its number, and asks for no more. With another number of
//! workers it starts all the same, and looks for rows where they are not: wrong answers, without an error. So each
//! trace is read in full and its rows are dealt out anew, by the hash that the engine's exchange uses: the 64 bits of
//! the key's, in joins, aggregates and keyed inputs alike.
//!
//! A trace's type is known from the piece that it belongs to and the engine's suffix. A file of any other name stops
//! the resharding: none is ever copied as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use dbsp::circuit::CircuitConfig;
use dbsp::dynamic::{DynData, DynWeight, Weight as _, WeightTrait};
use dbsp::storage::backend::{StorageBackend, StoragePath};
use dbsp::time::Timestamp;
use dbsp::trace::{
    Batch, BatchReader, BatchReaderFactories, Builder as _, Cursor as _, OrdIndexedWSet, OrdWSet, Spine, Trace,
};
use dbsp::{DynZWeight, Runtime, ZWeight};
use feldera_storage::FileCommitter;
use feldera_storage::fbuf::FBuf;
use feldera_types::checkpoint::{CheckpointDependenciesWrite, CheckpointMetadata, PSpineBatches};
use feldera_types::constants::CHECKPOINT_DEPENDENCIES;
use uuid::Uuid;

use crate::accumulator::Accumulator;
use crate::builder::Kind;
use crate::circuit::EngineError;
use crate::folder::{Folder, FolderError, Seal};
use crate::row::Row;

/// How many rows of a trace are held in memory before they become a batch.
const BATCH_ROWS: usize = 100_000;
/// The engine's names of files: a trace, and the list of its batches.
const TRACE: &str = "pspine-";
const BATCHES: &str = "pspine-batches-";
/// Marks a folder as a state, for the engine.
const STATE_MARK: &str = "CHECKPOINT";
/// What the engine puts behind a piece's name for a trace of the piece's rows.
const INTEGRALS: &[&str] = &[".integral", ".accintegral", ".shard_accintegral"];
/// What it puts there for a trace of accumulators.
const WEIGHTED: &str = "-weighted.shard_accintegral";

type TimedBatch<B> = <() as Timestamp>::TimedBatch<B>;
type RowsTrace = TimedBatch<OrdWSet<DynData, DynZWeight>>;
type IndexedTrace = TimedBatch<OrdIndexedWSet<DynData, DynData, DynZWeight>>;
type WeightedTrace = TimedBatch<OrdWSet<DynData, DynWeight>>;

/// Of what type a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Rows,
    Indexed,
    Weighted,
}

/// The name of the state that `state` is at `workers` workers.
pub(crate) fn name(state: Uuid, workers: usize) -> Uuid {
    let (time, rest) = state.as_u64_pair();
    Uuid::from_u64_pair(time, rest ^ crate::folder::digest(&workers.to_le_bytes()))
}

/// Makes of a state of `from` workers the one of `to` workers, under the name `to`, beside it. The engine's folder is
/// held, and nothing runs in it.
pub(crate) fn reshard(
    folder: &Folder,
    config: CircuitConfig,
    seal: Seal,
    from: usize,
    to: usize,
) -> Result<(), EngineError> {
    let failed = |why: String| EngineError::new("spread its state over another number of workers", why);
    let traces = traces(&seal, from).map_err(failed)?;
    let state = CheckpointMetadata { uuid: name(seal.state.uuid, to), ..seal.state.clone() };
    let job = Job { traces, from: seal.state.uuid, workers: from, to: state.uuid, into: to };
    let outcome: Arc<Mutex<Result<(), String>>> = Arc::new(Mutex::new(Err("it ended early".to_owned())));
    let slot = Arc::clone(&outcome);
    let run = move |_| {
        let done = job.run();
        *slot.lock().expect("nobody panics while holding this") = done;
    };
    let handle = Runtime::run(config, run).map_err(|error| failed(error.to_string()))?;
    handle.join().map_err(|_| failed("a thread of it panicked".to_owned()))?;
    std::mem::replace(&mut *outcome.lock().expect("nobody panics while holding this"), Ok(())).map_err(failed)?;
    let sealed = folder.seal(state, seal.pieces);
    sealed.map(drop).map_err(|error: FolderError| failed(error.to_string()))
}

/// The traces of a state by name, each with its type; every file of the state belongs to one, in each of its workers.
fn traces(seal: &Seal, workers: usize) -> Result<BTreeMap<String, Type>, String> {
    let own = format!("{}/", seal.state.uuid);
    let mut copies: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for file in seal.files.keys().filter_map(|file| file.strip_prefix(&own)) {
        if file == STATE_MARK || file == CHECKPOINT_DEPENDENCIES || file.starts_with(BATCHES) {
            continue;
        }
        let parts = file.strip_prefix(TRACE).and_then(|rest| rest.strip_suffix(".dat")).and_then(|x| x.split_once('-'));
        let (worker, trace) = parts.ok_or_else(|| format!("its file {file} is of no kind that is known"))?;
        let worker = worker.parse().map_err(|_| format!("its file {file} is of no worker"))?;
        copies.entry(trace.to_owned()).or_default().insert(worker);
    }
    let all: BTreeSet<usize> = (0..workers).collect();
    let typed = copies.into_iter().map(|(trace, of)| {
        if of != all {
            return Err(format!("its trace {trace} is there of the workers {of:?} instead of {workers} workers"));
        }
        let kind =
            typed(&trace, &seal.pieces).ok_or_else(|| format!("its trace {trace} is of no type that is known"))?;
        Ok((trace, kind))
    });
    typed.collect()
}

/// The type of a trace, by its piece and the engine's suffix.
fn typed(trace: &str, pieces: &BTreeMap<String, Kind>) -> Option<Type> {
    if let Some(piece) = trace.strip_suffix(WEIGHTED) {
        return (pieces.get(piece) == Some(&Kind::Summed)).then_some(Type::Weighted);
    }
    let piece = INTEGRALS.iter().find_map(|suffix| trace.strip_suffix(suffix))?;
    Some(match pieces.get(piece)? {
        Kind::Rows => Type::Rows,
        Kind::Indexed | Kind::Summed => Type::Indexed,
    })
}

/// What is to be done, in the engine's thread.
#[derive(Clone)]
struct Job {
    traces: BTreeMap<String, Type>,
    from: Uuid,
    workers: usize,
    to: Uuid,
    into: usize,
}

impl Job {
    fn run(&self) -> Result<(), String> {
        let storage = Runtime::storage_backend().map_err(|error| error.to_string())?;
        let mut files: Vec<Arc<dyn FileCommitter>> = Vec::new();
        for (trace, kind) in &self.traces {
            let done = match kind {
                Type::Rows => {
                    self.deal::<RowsTrace>(&BatchReaderFactories::new::<Row, (), ZWeight>(), trace, &mut files)
                }
                Type::Indexed => {
                    self.deal::<IndexedTrace>(&BatchReaderFactories::new::<Row, Row, ZWeight>(), trace, &mut files)
                }
                Type::Weighted => {
                    self.deal::<WeightedTrace>(&BatchReaderFactories::new::<Row, (), Accumulator>(), trace, &mut files)
                }
            };
            done.map_err(|error| format!("trace {trace}: {error}"))?;
        }
        for file in &files {
            file.commit().map_err(|error| error.to_string())?;
        }
        self.close(storage.as_ref()).map_err(|error| error.to_string())
    }

    /// Deals the rows of one trace out.
    fn deal<B>(
        &self,
        factories: &B::Factories,
        trace: &str,
        files: &mut Vec<Arc<dyn FileCommitter>>,
    ) -> Result<(), dbsp::Error>
    where
        B: Batch<Time = ()>,
        B::R: WeightTrait,
        Spine<B>:
            Trace<Batch = B, Key = B::Key, Val = B::Val, R = B::R, Time = ()> + BatchReader<Factories = B::Factories>,
    {
        let spine = || Spine::<B>::new(factories, Arc::new(trace.to_owned()));
        let mut hands: Vec<Spine<B>> = (0..self.into).map(|_| spine()).collect();
        let batches = || (0..self.into).map(|_| B::Builder::with_capacity(factories, 0, 0)).collect::<Vec<_>>();
        for worker in 0..self.workers {
            let mut whole = spine();
            whole.restore(&directory(self.from), &format!("{worker}-{trace}"))?;
            let mut cursor = whole.cursor();
            let (mut dealt, mut rows) = (batches(), 0);
            while cursor.key_valid() {
                let hand = shard(cursor.key(), self.into);
                let mut open = false;
                while cursor.val_valid() {
                    if !cursor.weight().is_zero() {
                        dealt[hand].push_diff(cursor.weight());
                        dealt[hand].push_val(cursor.val());
                        (open, rows) = (true, rows + 1);
                    }
                    if rows == BATCH_ROWS {
                        if std::mem::take(&mut open) {
                            dealt[hand].push_key(cursor.key());
                        }
                        take_up(&mut hands, std::mem::replace(&mut dealt, batches()));
                        rows = 0;
                    }
                    cursor.step_val();
                }
                if open {
                    dealt[hand].push_key(cursor.key());
                }
                cursor.step_key();
            }
            take_up(&mut hands, dealt);
        }
        for (worker, hand) in hands.iter_mut().enumerate() {
            hand.save(&directory(self.to), &format!("{worker}-{trace}"), files)?;
        }
        Ok(())
    }

    /// Writes what the engine wants beside the traces.
    fn close(&self, storage: &dyn StorageBackend) -> Result<(), dbsp::Error> {
        let folder = directory(self.to);
        storage.write(&folder.clone().join(STATE_MARK), FBuf::new())?.commit()?;
        let mut state_files = Vec::new();
        storage.list(&folder, &mut |entry| state_files.extend(entry.name.filename().map(str::to_owned)))?;
        state_files.sort_unstable();
        let mut batches = BTreeSet::new();
        for list in state_files.iter().filter(|name| name.starts_with(BATCHES)) {
            let list: PSpineBatches = storage.read_json(&folder.clone().join(list.as_str()))?;
            batches.extend(list.files);
        }
        let batches: Vec<String> = batches.into_iter().collect();
        let dependencies = CheckpointDependenciesWrite { batches: &batches, state_files: &state_files };
        storage.write_json(&folder.join(CHECKPOINT_DEPENDENCIES), &dependencies)?.commit()?;
        Ok(())
    }
}

/// Which of `workers` has the rows of a key.
fn shard<K: dbsp::dynamic::Data + ?Sized>(key: &K, workers: usize) -> usize {
    (key.default_hash() % workers as u64) as usize
}

fn take_up<B: Batch<Time = ()>>(hands: &mut [Spine<B>], dealt: Vec<B::Builder>)
where
    Spine<B>: Trace<Batch = B, Time = ()>,
{
    for (hand, batch) in hands.iter_mut().zip(dealt) {
        let batch = batch.done();
        if !batch.is_empty() {
            futures::executor::block_on(hand.insert(batch));
        }
    }
}

fn directory(state: Uuid) -> StoragePath {
    state.to_string().into()
}
