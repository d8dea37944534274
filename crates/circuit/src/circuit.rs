//! A plan as running workers: changes in, a step, changes out.

mod sizes;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_schema::SchemaRef;
use dbsp::circuit::{CircuitConfig, CircuitStorageConfig, Mode};
use dbsp::operator::{MapHandle, Update};
use dbsp::utils::Tup2;
use dbsp::{DBSPHandle, InputHandle, OrdIndexedZSet, RootCircuit, Runtime};
use feldera_storage::error::StorageError;
use feldera_types::config::{StorageConfig, StorageOptions};
use uuid::Uuid;

use crate::builder::{self, Builder, Deltas, Kind, Pieces};
use crate::checkpoint::{Mismatch, Newest, Pending, Saved};
use crate::codec::Codec;
use crate::delta::{Delta, Part, batch, loose_schema};
use crate::failure::{Failure, Failures};
use crate::folder::{Folder, FolderError, Whole};
use crate::operator::unit::one_row;
use crate::plan::{Changes, Plan};
use crate::read;
use crate::refused::Refused;
use crate::reshard;
use crate::row::Row;

/// How a circuit runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that share the work, each with its part of the keys.
    pub workers: usize,
    /// Memory that all workers together may keep state in before it goes to disk, in MiB.
    pub memory_mb: usize,
}

/// What went wrong inside of the engine. The circuit is of no use any more; a new one starts from a checkpoint.
#[derive(Debug, thiserror::Error)]
#[error("the incremental engine failed to {doing}: {why}; start anew from the last checkpoint")]
pub struct EngineError {
    /// Verb and object.
    pub doing: &'static str,
    /// In the engine's words.
    pub why: String,
}

impl EngineError {
    /// Of what failed, with the reason in whatever words.
    pub fn new(doing: &'static str, why: impl ToString) -> Self {
        Self { doing, why: why.to_string() }
    }
}

/// A running circuit.
pub struct Circuit {
    engine: DBSPHandle,
    inputs: Vec<Input>,
    unit: InputHandle<Delta>,
    shared: Shared,
    workers: usize,
    /// Where the next part of an input goes.
    next_worker: usize,
    /// Whether a step was taken, by this circuit or the one that it was restored from.
    begun: bool,
    /// Whether something was pushed that no step has taken yet.
    pushed: bool,
    /// Where its state is kept. After the engine, so that it is free only once that has ended.
    kept: Option<Kept>,
}

/// Where a circuit's state is kept.
struct Kept {
    folder: Arc<Folder>,
    newest: Newest,
}

/// How a restore ended.
#[must_use]
#[derive(Debug)]
pub enum Restored {
    /// The circuit is what it was when it was saved.
    Done(Box<Circuit>),
    /// The state, or a part of it, is not there any more, or is damaged: take another checkpoint.
    Missing {
        /// What is not there.
        what: String,
    },
}

impl std::fmt::Debug for Circuit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Circuit").field("workers", &self.workers).finish_non_exhaustive()
    }
}

#[derive(Clone)]
enum Input {
    Bag(InputHandle<Delta>),
    Keyed { handle: MapHandle<Row, Row, Row>, keys: Vec<usize>, key: Arc<Codec>, row: Arc<Codec> },
}

#[derive(Clone, Debug)]
struct Output {
    changes: Arc<Mutex<Vec<Part>>>,
    schema: SchemaRef,
    codec: Arc<Codec>,
    grows: bool,
}

/// What a step did.
#[derive(Debug)]
pub struct Stepped {
    /// Of each view, in the plan's order: each row that changed once, with its weight. Of views that only grow a row
    /// may stand more than once.
    pub views: Vec<Part>,
    /// Rows that an expression failed for.
    pub failures: Vec<Failure>,
}

impl Circuit {
    /// Starts the workers of `plan`, with nothing in any relation. With a folder of its own for its state it can be
    /// saved; states that were saved there before stay.
    ///
    /// # Errors
    /// When a view's rows can't be compared, the folder is not to be had, an operator's state could not be saved, or
    /// the engine does not start.
    pub fn start(plan: &Arc<Plan>, options: &Options, folder: Option<&Path>) -> Result<Self, StartError> {
        let Some(folder) = folder else { return Self::run(plan, options, None, None) };
        let folder = Arc::new(Folder::open(folder)?);
        let mut circuit = Self::run(plan, options, Some(&folder), None)?;
        // An operator without a name for its state is noticed by a save alone.
        drop(circuit.prepare()?);
        folder.drop_unsealed()?;
        Ok(circuit)
    }

    /// Starts the workers of `plan` from the state that a manifest names, which [`Pending::finish`] returned. With
    /// another number of workers than it was saved by, its rows are spread anew first.
    ///
    /// # Errors
    /// As [`Circuit::start`]; and when the manifest is not one of this plan and this version.
    pub fn restore(
        plan: &Arc<Plan>,
        options: &Options,
        folder: &Path,
        manifest: &[u8],
    ) -> Result<Restored, StartError> {
        let saved = Saved::decode(manifest)?;
        saved.check(&plan.text())?;
        let folder = Arc::new(Folder::open(folder)?);
        let seal = match folder.state(saved.state)? {
            Whole::Yes(seal, digest) if digest == saved.seal => seal,
            Whole::Yes(..) => {
                return Ok(Restored::Missing { what: format!("the state {} is another one", saved.state) });
            }
            Whole::No(what) => return Ok(Restored::Missing { what }),
        };
        let mut state = saved.state;
        if saved.workers != options.workers {
            state = reshard::name(saved.state, options.workers);
            if let Whole::No(_) = folder.state(state)? {
                folder.drop_unsealed()?;
                let config = options.config(1, &folder, None)?;
                reshard::reshard(&folder, config, *seal, saved.workers, options.workers)?;
            }
        }
        let from = Some((state, saved.begun));
        Ok(Restored::Done(Box::new(Self::run(plan, options, Some(&folder), from)?)))
    }

    /// Starts the workers, from a state of which it is known whether a step was taken.
    fn run(
        plan: &Arc<Plan>,
        options: &Options,
        folder: Option<&Arc<Folder>>,
        from: Option<(Uuid, bool)>,
    ) -> Result<Self, StartError> {
        let shared = Shared {
            plan: Arc::clone(plan),
            codecs: Arc::new(codecs(plan)?),
            outputs: outputs(plan)?,
            failures: Failures::default(),
            pieces: Pieces::default(),
            ends: Arc::default(),
        };
        let config = match folder {
            None => CircuitConfig::with_workers(options.workers).with_mode(Mode::Persistent),
            Some(folder) => {
                folder.tidy()?;
                options.config(options.workers, folder, from.map(|(state, _)| state))?
            }
        };
        let of_workers = shared.clone();
        let build = move |circuit: &mut RootCircuit| Ok(build(circuit, &of_workers));
        let (engine, (inputs, unit)) =
            Runtime::init_circuit(config, build).map_err(|error| EngineError::new("start", error))?;
        if engine.bootstrap_in_progress() {
            let why = "an operator of it is not in the checkpoint";
            return Err(EngineError::new("take up its state", why).into());
        }
        let begun = from.is_some_and(|(_, begun)| begun);
        if !begun {
            unit.update_for_worker(0, |delta: &mut Delta| delta.0.push(one_row()));
        }
        let newest: Newest = Arc::new(Mutex::new(from.map(|(state, _)| state)));
        let kept = folder.map(|folder| Kept { folder: Arc::clone(folder), newest });
        let (workers, next_worker, pushed) = (options.workers, 0, false);
        Ok(Self { engine, inputs, unit, shared, workers, next_worker, begun, pushed, kept })
    }

    /// Takes its state as it is now, for [`Pending::finish`] to save. The workers stand still meanwhile.
    ///
    /// # Errors
    /// When it has no folder, or the engine fails.
    ///
    /// # Panics
    /// When something was pushed since the last step: it would be lost.
    pub fn prepare(&mut self) -> Result<Pending, EngineError> {
        assert!(!self.pushed, "P4: a circuit is saved between steps, with nothing pushed");
        let Some(kept) = &self.kept else {
            return Err(EngineError::new("save its state", "it was started without a folder"));
        };
        let committer = self.engine.checkpoint().prepare();
        let committer = committer.map_err(|error| {
            let ends = self.shared.ends.lock().expect("no worker panics while it holds this");
            EngineError::new("save its state", named(&error, &ends))
        })?;
        Ok(Pending {
            committer,
            folder: Arc::clone(&kept.folder),
            pieces: Arc::clone(&self.shared.pieces),
            plan: self.shared.plan.text(),
            workers: self.workers,
            begun: self.begun,
            newest: Arc::clone(&kept.newest),
        })
    }

    /// Removes saved states, except those that the manifests in `keep` name, the one that the circuit goes on from and
    /// the two that were saved last. Does nothing while a save is under way. Returns how many are gone.
    ///
    /// # Errors
    /// Some may be removed, some not.
    pub fn remove_states(&mut self, keep: &[&[u8]]) -> Result<usize, StartError> {
        let Some(kept) = &self.kept else { return Ok(0) };
        if Arc::strong_count(&kept.newest) > 1 {
            return Ok(0);
        }
        let failed = |error: dbsp::Error| EngineError::new("remove old states", error);
        let newest = *kept.newest.lock().expect("nobody panics while holding this");
        let states: Vec<Uuid> =
            self.engine.list_checkpoints().map_err(failed)?.iter().map(|state| state.uuid).collect();
        let mut needed: HashSet<Uuid> = newest.into_iter().chain(states.iter().rev().take(2).copied()).collect();
        for manifest in keep {
            needed.insert(Saved::decode(manifest)?.state);
        }
        needed.retain(|state| states.contains(state));
        Ok(self.engine.gc_checkpoint(needed).map_err(failed)?.len())
    }

    /// Gives the next step a change of relation `at`. In a keyed relation a row with a weight above zero replaces that
    /// of its key, and one with a weight below zero takes it away; the last of a key wins, in the order given.
    pub fn push(&mut self, at: usize, part: Part) {
        self.next_worker = (self.next_worker + 1) % self.workers;
        self.pushed = true;
        match &mut self.inputs[at] {
            Input::Bag(handle) => {
                handle.update_for_worker(self.next_worker, |delta: &mut Delta| delta.0.push(part));
            }
            Input::Keyed { handle, keys, key, row } => {
                let rows = part.weights.len();
                let key_columns: Vec<_> = keys.iter().map(|at| Arc::clone(part.batch.column(*at))).collect();
                let key_rows = key.encode(&key_columns, rows);
                let values = row.encode(part.batch.columns(), rows);
                let updates = key_rows.into_iter().zip(values).zip(part.weights.values());
                let updates = updates.map(|((key, value), weight)| {
                    Tup2(key, if *weight > 0 { Update::Insert(value) } else { Update::Delete })
                });
                handle.append(&mut updates.collect());
            }
        }
    }

    /// Takes all that was pushed into every view.
    ///
    /// # Errors
    /// When a worker failed: the circuit is of no use then.
    pub fn step(&mut self) -> Result<Stepped, EngineError> {
        (self.begun, self.pushed) = (true, false);
        self.engine.transaction().map_err(|error| EngineError::new("take a step", error))?;
        let views = self.shared.outputs.iter().map(|output| {
            let parts = std::mem::take(&mut *output.changes.lock().expect("no worker panics while it holds this"));
            let change = Delta(parts);
            if output.grows {
                change.normalised(&output.schema)
            } else {
                change.consolidated(&output.codec, &output.schema)
            }
        });
        Ok(Stepped { views: views.collect(), failures: net(self.shared.failures.take()) })
    }

    /// Ends the workers.
    ///
    /// # Errors
    /// When one of them had failed.
    pub fn stop(self) -> Result<(), EngineError> {
        drop(self.unit);
        self.engine.kill().map_err(|error| EngineError::new("stop", format!("{error:?}")))
    }
}

/// How much of the memory is for pages of files that were read.
const CACHE_PART: usize = 4;
/// The least memory for them, in MiB.
const LEAST_CACHE_MB: usize = 16;

impl Options {
    /// The engine's settings for `workers` threads over a folder, from a state in it.
    fn config(&self, workers: usize, folder: &Folder, from: Option<Uuid>) -> Result<CircuitConfig, EngineError> {
        let storage = StorageConfig { path: folder.engine().display().to_string(), cache: Default::default() };
        let cache_mib = Some((self.memory_mb / CACHE_PART).max(LEAST_CACHE_MB));
        let options = StorageOptions { cache_mib, ..StorageOptions::default() };
        let storage = CircuitStorageConfig::for_config(storage, options)
            .map_err(|error| EngineError::new("open its storage", error))?;
        let config = CircuitConfig::with_workers(workers).with_mode(Mode::Persistent);
        let config = config.with_max_rss_bytes(Some((self.memory_mb as u64) << 20));
        Ok(config.with_storage(Some(storage.with_init_checkpoint(from))))
    }
}

/// Why a circuit does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The plan can't run.
    #[error("{0}")]
    Refused(Refused),
    /// Its folder can't be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The checkpoint is not one of this pipeline and this version.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<Refused> for StartError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// Failures of which as many went as came are none.
fn net(mut failures: Vec<Failure>) -> Vec<Failure> {
    failures.sort();
    let mut net: Vec<Failure> = Vec::new();
    for failure in failures {
        match net.last_mut() {
            Some(last)
                if (&last.operator, &last.reason, &last.row) == (&failure.operator, &failure.reason, &failure.row) =>
            {
                last.weight += failure.weight;
            }
            _ => net.push(failure),
        }
    }
    net.retain(|failure| failure.weight != 0);
    net
}

fn outputs(plan: &Plan) -> Result<Vec<Output>, Refused> {
    let growing = plan.growing();
    let output = |view: &crate::plan::View| {
        let schema = &plan.nodes[view.node.0].schema;
        let codec = Codec::new(schema.fields().iter().map(|field| field.data_type()))
            .map_err(|refused| refused.within(&view.name))?;
        let names = view.schema.fields().iter().zip(schema.fields());
        let schema = loose_schema(names.map(|(name, field)| (name.name().as_str(), field.data_type())));
        Ok(Output { changes: Arc::default(), schema, codec: Arc::new(codec), grows: growing[view.node.0] })
    };
    plan.views.iter().map(output).collect()
}

/// For a keyed relation: its key's places, and how keys and rows become bytes.
type KeyedInput = Option<(Vec<usize>, Arc<Codec>, Arc<Codec>)>;

fn codecs(plan: &Plan) -> Result<Vec<KeyedInput>, Refused> {
    let codecs = plan.relations.iter().map(|relation| match &relation.changes {
        Changes::Grows | Changes::Bag => Ok(None),
        Changes::Keyed(keys) => {
            let key = Codec::new(keys.iter().map(|at| relation.schema.field(*at).data_type()))?;
            let row = Codec::new(relation.schema.fields().iter().map(|field| field.data_type()))?;
            Ok(Some((keys.clone(), Arc::new(key), Arc::new(row))))
        }
    });
    codecs.collect()
}

/// What the workers' circuits are built of, and what they tell of themselves.
#[derive(Clone)]
struct Shared {
    plan: Arc<Plan>,
    codecs: Arc<Vec<KeyedInput>>,
    outputs: Vec<Output>,
    failures: Failures,
    pieces: Pieces,
    /// For each source and node, as they are built, its name and the engine's number of what it ends with.
    ends: Arc<Mutex<Vec<(String, usize)>>>,
}

/// The engine's error, with the name of the node that it is about, if it is about one.
fn named(error: &dbsp::Error, ends: &[(String, usize)]) -> String {
    let dbsp::Error::Storage(StorageError::NoPersistentId(operator)) = error else { return error.to_string() };
    let number = operator.split_whitespace().next_back().unwrap_or_default();
    let number = number.trim_start_matches(|other: char| !other.is_ascii_digit());
    let number = number.split(|other: char| !other.is_ascii_digit()).next().and_then(|number| number.parse().ok());
    let node = number.and_then(|number: usize| ends.iter().find(|(_, end)| number <= *end));
    let node = node.map_or("an operator", |(name, _)| name);
    format!(
        "{node} keeps state without a name for it ({operator}), so it can't be restored: give it an id when it is built"
    )
}

/// One worker's circuit.
fn build(circuit: &mut RootCircuit, shared: &Shared) -> (Vec<Input>, InputHandle<Delta>) {
    let plan = &shared.plan;
    let (unit, unit_handle) = circuit.add_input_stream::<Delta>();
    let (mut sources, mut inputs, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for (at, codec) in shared.codecs.iter().enumerate() {
        let (stream, input) = source(circuit, shared, at, codec);
        ends.push((format!("Source {}", plan.relations[at].name), stream.local_node_id().id()));
        sources.push(stream);
        inputs.push(input);
    }
    let (failures, pieces) = (shared.failures.clone(), Arc::clone(&shared.pieces));
    let mut builder = Builder { node: 0, name: String::new(), failures, sources, unit, pieces };
    let mut streams: Vec<Deltas> = Vec::with_capacity(plan.nodes.len());
    for (at, node) in plan.nodes.iter().enumerate() {
        builder.node = at;
        builder.name = format!("#{at} {}", node.operator.describe().split(' ').next().unwrap_or_default());
        let inputs: Vec<Deltas> = node.inputs.iter().map(|input| streams[input.0].clone()).collect();
        let stream = node.operator.build(&builder, &inputs);
        ends.push((builder.name.clone(), stream.local_node_id().id()));
        streams.push(stream);
    }
    *shared.ends.lock().expect("no worker panics while it holds this") = ends;
    for (view, output) in plan.views.iter().zip(&shared.outputs) {
        let changes = Arc::clone(&output.changes);
        streams[view.node.0].inspect(move |delta: &Delta| {
            if !delta.0.is_empty() {
                changes.lock().expect("no worker panics while it holds this").extend(delta.0.iter().cloned());
            }
        });
    }
    (inputs, unit_handle)
}

/// The relation `at`, as a stream and where its changes go in.
fn source(circuit: &mut RootCircuit, shared: &Shared, at: usize, codec: &KeyedInput) -> (Deltas, Input) {
    let Some((keys, key, row)) = codec else {
        let (stream, handle) = circuit.add_input_stream::<Delta>();
        return (stream, Input::Bag(handle));
    };
    let id = format!("source{at}");
    builder::note(&shared.pieces, &id, Kind::Indexed);
    let (stream, handle) =
        circuit.add_input_map_persistent::<Row, Row, Row, _>(Some(&id), |row, update| row.clone_from(update));
    let fields = shared.plan.relations[at].schema.fields();
    let schema = loose_schema(fields.iter().map(|field| (field.name().as_str(), field.data_type())));
    let codec = Arc::clone(row);
    let stream = stream.apply_named("Rows", move |rows: &OrdIndexedZSet<Row, Row>| {
        let read::Tuples { values, weights, .. } = read::tuples(rows);
        if weights.is_empty() {
            return Delta::default();
        }
        Delta(vec![Part { batch: batch(&schema, codec.decode(values.iter()), weights.len()), weights: weights.into() }])
    });
    let (keys, key, row) = (keys.clone(), Arc::clone(key), Arc::clone(row));
    (stream, Input::Keyed { handle, keys, key, row })
}
