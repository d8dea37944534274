//! A plan as running workers: changes in, a step, changes out.

use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_schema::SchemaRef;
use dbsp::circuit::{CircuitConfig, CircuitStorageConfig, Mode};
use dbsp::operator::{MapHandle, Update};
use dbsp::utils::Tup2;
use dbsp::{DBSPHandle, IndexedZSetReader, InputHandle, OrdIndexedZSet, RootCircuit, Runtime};
use feldera_types::config::{StorageConfig, StorageOptions};

use crate::builder::{Builder, Deltas};
use crate::codec::Codec;
use crate::delta::{Delta, Part, batch, loose_schema};
use crate::failure::{Failure, Failures};
use crate::operator::unit::one_row;
use crate::plan::{Changes, Plan};
use crate::refused::Refused;
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
    fn new(doing: &'static str, why: impl ToString) -> Self {
        Self { doing, why: why.to_string() }
    }
}

/// A running circuit.
pub struct Circuit {
    engine: DBSPHandle,
    inputs: Vec<Input>,
    unit: InputHandle<Delta>,
    outputs: Vec<Output>,
    failures: Failures,
    workers: usize,
    /// Where the next part of an input goes.
    next_worker: usize,
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
}

/// What a step did.
#[derive(Debug)]
pub struct Stepped {
    /// Of each view, in the plan's order: each row that changed once, with its weight.
    pub views: Vec<Part>,
    /// Rows that an expression failed for.
    pub failures: Vec<Failure>,
}

impl Circuit {
    /// Starts the workers of `plan`, with nothing in any relation.
    ///
    /// # Errors
    /// When a view's rows can't be compared, or the engine does not start.
    pub fn start(plan: &Arc<Plan>, options: &Options, state: Option<Start<'_>>) -> Result<Self, StartError> {
        let failures = Failures::default();
        let outputs = outputs(plan)?;
        let inputs = codecs(plan)?;
        let mut config = CircuitConfig::with_workers(options.workers);
        let restored = state.as_ref().is_some_and(|start| start.checkpoint.is_some());
        if let Some(start) = state {
            let storage = StorageConfig { path: start.folder.display().to_string(), cache: Default::default() };
            let cache_mib = Some((options.memory_mb / options.workers).max(16));
            let storage_options = StorageOptions { cache_mib, ..StorageOptions::default() };
            let storage = CircuitStorageConfig::for_config(storage, storage_options)
                .map_err(|error| EngineError::new("open its storage", error))?;
            config = config.with_storage(Some(storage.with_init_checkpoint(start.checkpoint)));
        }
        config = config.with_mode(Mode::Persistent);
        let (shared, handles, sinks) = (Arc::clone(plan), failures.clone(), outputs.clone());
        let build = move |circuit: &mut RootCircuit| Ok(build(circuit, &shared, &inputs, &sinks, &handles));
        let (engine, (inputs, unit)) =
            Runtime::init_circuit(config, build).map_err(|error| EngineError::new("start", error))?;
        if !restored {
            unit.update_for_worker(0, |delta: &mut Delta| delta.0.push(one_row()));
        }
        let workers = options.workers;
        Ok(Self { engine, inputs, unit, outputs, failures, workers, next_worker: 0 })
    }

    /// Gives the next step a change of relation `at`. In a keyed relation a row with a weight above zero replaces that
    /// of its key, and one with a weight below zero takes it away; the last of a key wins, in the order given.
    pub fn push(&mut self, at: usize, part: Part) {
        self.next_worker = (self.next_worker + 1) % self.workers;
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
        self.engine.transaction().map_err(|error| EngineError::new("take a step", error))?;
        let views = self.outputs.iter().map(|output| {
            let parts = std::mem::take(&mut *output.changes.lock().expect("no worker panics while it holds this"));
            Delta(parts).consolidated(&output.codec, &output.schema)
        });
        Ok(Stepped { views: views.collect(), failures: net(self.failures.take()) })
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

/// Where a circuit's state is kept.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// A folder of the circuit's own.
    pub folder: &'a Path,
    /// The checkpoint in it to start from; none to start with nothing.
    pub checkpoint: Option<uuid::Uuid>,
}

/// Why a circuit does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The plan can't run.
    #[error("{0}")]
    Refused(Refused),
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
    let output = |view: &crate::plan::View| {
        let schema = &plan.nodes[view.node.0].schema;
        let codec = Codec::new(schema.fields().iter().map(|field| field.data_type()))
            .map_err(|refused| refused.within(&view.name))?;
        let names = view.schema.fields().iter().zip(schema.fields());
        let schema = loose_schema(names.map(|(name, field)| (name.name().as_str(), field.data_type())));
        Ok(Output { changes: Arc::default(), schema, codec: Arc::new(codec) })
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

/// One worker's circuit.
fn build(
    circuit: &mut RootCircuit,
    plan: &Arc<Plan>,
    codecs: &[KeyedInput],
    outputs: &[Output],
    failures: &Failures,
) -> (Vec<Input>, InputHandle<Delta>) {
    let (unit, unit_handle) = circuit.add_input_stream::<Delta>();
    let (mut sources, mut inputs) = (Vec::new(), Vec::new());
    for (at, (relation, codec)) in plan.relations.iter().zip(codecs).enumerate() {
        match codec {
            None => {
                let (stream, handle) = circuit.add_input_stream::<Delta>();
                sources.push(stream);
                inputs.push(Input::Bag(handle));
            }
            Some((keys, key, row)) => {
                let id = format!("source{at}");
                let (stream, handle) = circuit
                    .add_input_map_persistent::<Row, Row, Row, _>(Some(&id), |row, update| row.clone_from(update));
                let schema = loose_schema(
                    relation.schema.fields().iter().map(|field| (field.name().as_str(), field.data_type())),
                );
                let codec = Arc::clone(row);
                sources.push(stream.apply_named("Rows", move |rows: &OrdIndexedZSet<Row, Row>| {
                    let tuples: Vec<(Row, Row, i64)> = rows.iter().collect();
                    if tuples.is_empty() {
                        return Delta::default();
                    }
                    let columns = codec.decode(tuples.iter().map(|(_, row, _)| row.bytes()));
                    let weights: Vec<i64> = tuples.iter().map(|(_, _, weight)| *weight).collect();
                    Delta(vec![Part { batch: batch(&schema, columns, tuples.len()), weights: weights.into() }])
                }));
                let (keys, key, row) = (keys.clone(), Arc::clone(key), Arc::clone(row));
                inputs.push(Input::Keyed { handle, keys, key, row });
            }
        }
    }
    let mut builder = Builder { node: 0, name: String::new(), failures: failures.clone(), sources, unit };
    let mut streams: Vec<Deltas> = Vec::with_capacity(plan.nodes.len());
    for (at, node) in plan.nodes.iter().enumerate() {
        builder.node = at;
        builder.name = format!("#{at} {}", node.operator.describe().split(' ').next().unwrap_or_default());
        let inputs: Vec<Deltas> = node.inputs.iter().map(|input| streams[input.0].clone()).collect();
        streams.push(node.operator.build(&builder, &inputs));
    }
    for (view, output) in plan.views.iter().zip(outputs) {
        let changes = Arc::clone(&output.changes);
        streams[view.node.0].inspect(move |delta: &Delta| {
            if !delta.0.is_empty() {
                changes.lock().expect("no worker panics while it holds this").extend(delta.0.iter().cloned());
            }
        });
    }
    (inputs, unit_handle)
}

impl Circuit {
    /// Starts with nothing in any relation, and its state in `folder`.
    ///
    /// # Errors
    /// As [`Circuit::start`].
    pub fn fresh(plan: &Arc<Plan>, options: &Options, folder: &Path) -> Result<Self, StartError> {
        std::fs::create_dir_all(folder).map_err(|error| EngineError::new("make its folder", error))?;
        Self::start(plan, options, Some(Start { folder, checkpoint: None }))
    }

    /// STUB
    pub fn restore(plan: &Arc<Plan>, options: &Options, folder: &Path, state: &[u8]) -> Result<Option<Self>, StartError> {
        let id = std::str::from_utf8(state).ok().and_then(|text| uuid::Uuid::parse_str(text).ok());
        Self::start(plan, options, Some(Start { folder, checkpoint: id })).map(Some)
    }

    /// STUB
    pub fn save(&mut self) -> Result<Vec<u8>, EngineError> {
        let saved = self.engine.checkpoint().run().map_err(|error| EngineError::new("save", error))?;
        Ok(saved.uuid.to_string().into_bytes())
    }
}
