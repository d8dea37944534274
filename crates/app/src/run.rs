//! `lakeward run`: the rooms joined for a pipeline. Kafka -> decode -> circuit -> Delta or Kafka, step by step.

mod copies;
mod engine;
pub mod formats;
mod intake;
mod manifest;
pub mod messages;
mod output;
mod partition;
mod store;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use lakeward_circuit::circuit;
use lakeward_circuit::compile::SinkPlan;
use lakeward_circuit::pipeline::{Encoding, OnFault, Origin, Sink as SinkSql, Source as SourceSql, Start, Target};
use lakeward_delta::encode::{Compression, WriterOptions};
use lakeward_delta::view::{ByKey, Compaction, View, ViewOptions};
use lakeward_delta::{Admission, Created, NamedTopic, Place, Table, TableOptions, Topic, create};
use lakeward_kafka::{LagProbe, Sink, SinkSource, Source, TopicIdentity};
use lakeward_protocol::core::step::{OnLostState, SourcePlan, StepCore, StepPlan};
use lakeward_protocol::core::{Beginning, OnGap};
use lakeward_protocol::drive::step::{Ports, StepLimits, drive_steps};
use lakeward_protocol::ports::Exit;
use lakeward_protocol::position::{Frontier, PartitionId, SourceId};
use lakeward_protocol::sources::Sources;

use crate::admin::page::Page;
use crate::admin::{self, Ready};
use crate::budget::Budget;
use crate::check;
use crate::cli::OnRestore;
use crate::cli::pipeline::{self as arguments, RunArgs, Until};
use crate::failure::Failure;
use crate::footprint;
use crate::ingest::{REPORT, metrics_recorder};
use crate::meters;
use crate::pipeline::{self, Loaded, Way};
use crate::report::counted;
use crate::session::Session;
use crate::watch::Progress;
use crate::world::Os;
use copies::Copies;
use engine::{Engine, EngineOptions, Writing};
use intake::Intake;
use messages::MessageWriter;
use output::Output;
use store::Checkpoints;
use watch::Steps;

/// Records that make a step due, in bytes, whatever the memory: all of them in one Arrow column, as dead letters, stay
/// below the 2 GiB that it holds.
const MOST_STEP_BYTES: usize = 1 << 30;

/// Runs until the topics' end, a signal, or somebody has to look.
///
/// # Errors
/// With the exit code and what to do.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let loaded = pipeline::load(&args.pipeline)?;
    if let Way::ByPartition(views) = &loaded.way {
        return partition::run(args, &loaded, views);
    }
    if args.on_restore != OnRestore::Stop {
        let text = format_args!(
            "--on-restore: pipeline {} runs {}; a restored table is refused there",
            args.pipeline.display(),
            loaded.way
        );
        return Err(Failure::new(Exit::Config, text));
    }
    footprint::hold_on();
    let session = Session::start()?;
    let (ready, progress) = (Ready::default(), Progress::default());
    if let Some(address) = args.admin {
        let page = Page::new(vec![("pipeline", args.pipeline.display().to_string()), ("runs", loaded.way.to_string())]);
        page.add("", &progress);
        let served = admin::serve(address, metrics_recorder(), ready.clone(), page);
        session.runtime.block_on(served).map_err(|error| Failure::new(Exit::Config, error))?;
    }
    let app_id = pipeline::app_id(&args.pipeline, &loaded);
    let budget = Budget::new(args.memory_mb.or(loaded.pipeline.settings.memory_mb));
    let Some(inputs) = inputs(&loaded, &session, &budget)? else { return Ok(()) };
    let ends = match args.until {
        Some(Until::End) => match ends(&inputs, &session)? {
            Some(ends) => Some(ends),
            None => return Ok(()),
        },
        None => None,
    };
    let writings = writings(&loaded)?;
    let Some(_admissions) = admissions(args, &loaded, &session)? else { return Ok(()) };
    let Some(topics) = topics(&loaded, &inputs, &session)? else { return Ok(()) };
    let Some(sinks) = sinks(&loaded, &writings, &app_id, &topics, &session)? else { return Ok(()) };
    let names: Vec<String> = sinks.iter().map(|sink| sink.name().to_owned()).collect();
    let state = state(args, &loaded, &session)?;
    let workers = usize::from(args.workers.unwrap_or(loaded.pipeline.settings.workers));
    tracing::info!(
        "{} as {app_id}, {}, state in {}{}",
        args.pipeline.display(),
        counted(workers, "worker"),
        state.place.name,
        state.copies.as_ref().map(|_| format!(", worked on in {}", state.folder.display())).unwrap_or_default()
    );
    let engine = engine(&loaded, writings, &state, workers, &budget, &session)?;
    let sinks = sinks.into_iter().zip(engine.counts()).map(|(sink, counts)| sink.counting(counts)).collect();
    let sources = topics.into_iter().map(|named| named.source).collect();
    let checkpoints = Checkpoints::new(state.place, sources, session.runtime.handle().clone(), state.copies);
    let core = StepCore::new(Arc::new(step_plan(args, &loaded, names, ends.clone())));
    report(&session, &progress, &loaded, &inputs);
    let settings = &loaded.pipeline.settings;
    let limits = StepLimits {
        latency_ms: settings.step_latency_ms,
        step_bytes: usize::try_from(budget.stage_bytes).unwrap_or(usize::MAX),
        checkpoint_ms: settings.checkpoint_interval_ms,
        ..StepLimits::default()
    };
    let ports = Ports { input: Sources::new(inputs), circuit: engine, sinks, checkpoints };
    let world = Os::new(session.signals.clone());
    let ended = drive_steps(core, ports, world, Steps::new(progress, ready, ends), limits);
    ended.map(|_| ()).map_err(|stopped| {
        Failure::new(stopped.exit(), format_args!("pipeline {}: {stopped}", args.pipeline.display()))
    })
}

/// Brings the lag of each source's partitions up to date for as long as the process lives.
fn report(session: &Session, progress: &Progress, loaded: &Loaded, inputs: &[Source]) {
    let progress = progress.clone();
    let probes: Vec<LagProbe> = inputs.iter().map(Source::lag_probe).collect();
    let names: Vec<String> = loaded.pipeline.sources.iter().map(|source| source.name.text.clone()).collect();
    session.runtime.spawn(async move {
        let mut ticks = tokio::time::interval(REPORT);
        loop {
            ticks.tick().await;
            let lags: Vec<_> = probes.iter().map(LagProbe::lag).collect();
            let source = |partition: PartitionId| usize::from(partition.source().0);
            let inner = |partition: PartitionId| PartitionId::of(SourceId(0), partition.number());
            progress.report(
                |partition| names.get(source(partition)).map(|name| meters::labels(None, name)).unwrap_or_default(),
                |partition| lags.get(source(partition))?.get(&inner(partition))?.end,
            );
        }
    });
}

/// Where a pipeline's state lies.
struct State {
    /// The checkpoints.
    place: Place,
    /// What the circuit works in.
    folder: PathBuf,
    /// Where its states are copied, if that is not where they have to be already.
    copies: Option<Copies>,
}

/// As the file says, else beside the file.
fn state_location(args: &RunArgs, loaded: &Loaded) -> String {
    let said = loaded.pipeline.settings.state.as_ref().map(|state| state.reveal().to_owned());
    said.unwrap_or_else(|| args.pipeline.with_extension("state").display().to_string())
}

/// Leave to write to each table, and to the state's place. `None` when told to stop meanwhile.
fn admissions(args: &RunArgs, loaded: &Loaded, session: &Session) -> Result<Option<Vec<Admission>>, Failure> {
    let tables = pipeline::delta_sinks(loaded).into_iter().map(|(_, location)| location);
    let mut all = Vec::new();
    for location in tables.chain([state_location(args, loaded)]) {
        let Some(admission) = session.admit(&location, args.unsafe_single_writer)? else { return Ok(None) };
        all.push(admission);
    }
    Ok(Some(all))
}

/// Where it is, and what the circuit works in.
fn state(args: &RunArgs, loaded: &Loaded, session: &Session) -> Result<State, Failure> {
    let settings = &loaded.pipeline.settings;
    let beside = args.pipeline.with_extension("state");
    let place = Place::resolve(&state_location(args, loaded))
        .map_err(|error| Failure::new(Exit::Config, format_args!("SET state: {error}")))?;
    let cache = settings.state_cache.as_ref().map(|cache| PathBuf::from(cache.reveal()));
    let is_copied = cache.is_some() || place.folder().is_none();
    let folder = cache.or_else(|| place.folder()).unwrap_or(beside);
    let copies = is_copied.then(|| Copies::new(place.clone(), session.runtime.handle().clone()));
    Ok(State { place, folder, copies })
}

/// Each source's topic, with all of its partitions. `None` when told to stop meanwhile.
fn inputs(loaded: &Loaded, session: &Session, budget: &Budget) -> Result<Option<Vec<Source>>, Failure> {
    let mut inputs = Vec::new();
    let share = u64::try_from(loaded.pipeline.sources.len()).unwrap_or(1);
    for source in &loaded.pipeline.sources {
        let Origin::Kafka(kafka) = &source.from;
        let mut config = check::config(kafka);
        let is_raw = source.written.encoding == Encoding::Raw;
        config.keys = is_raw || !source.key.is_empty() || loaded.pipeline.settings.has_dead_letters;
        config.headers = is_raw;
        config.memory_bytes = usize::try_from((budget.fetch_bytes + budget.arena_bytes) / share).unwrap_or(usize::MAX);
        let asking =
            Source::assign(config.clone(), std::collections::BTreeSet::new()).map_err(|error| Failure::port(&error))?;
        let Some(partitions) = session.wait_for(|| asking.partitions())? else { return Ok(None) };
        inputs.push(Source::assign_all(config, partitions).map_err(|error| Failure::port(&error))?);
    }
    Ok(Some(inputs))
}

/// Each source's topic, as the sinks remember it.
fn topics(loaded: &Loaded, inputs: &[Source], session: &Session) -> Result<Option<Vec<NamedTopic>>, Failure> {
    let mut topics = Vec::new();
    for (source, input) in loaded.pipeline.sources.iter().zip(inputs) {
        let Some(topic) = session.wait_for(|| input.topic_identity())? else { return Ok(None) };
        let topic = Topic { name: topic.name, id: topic.id };
        topics.push(NamedTopic { source: source.name.text.clone(), topic });
    }
    Ok(Some(topics))
}

fn ends(inputs: &[Source], session: &Session) -> Result<Option<Frontier>, Failure> {
    let mut all = Frontier::new();
    for (at, input) in inputs.iter().enumerate() {
        let Some(ends) = session.wait_for(|| input.ends())? else { return Ok(None) };
        let source = SourceId(u8::try_from(at).expect("up to 255 sources"));
        all.extend(ends.into_iter().map(|(partition, end)| (PartitionId::of(source, partition.number()), end)));
    }
    Ok(Some(all))
}

/// How each sink is written.
fn writings(loaded: &Loaded) -> Result<Vec<Writing>, Failure> {
    let writing = |(sink, plan): (&SinkSql, &SinkPlan)| match &sink.target {
        Target::Delta(_) => Ok(Writing::Table(view_options(plan))),
        Target::Kafka(_) => {
            let writer = MessageWriter::new(plan);
            writer.map(Writing::Topic).map_err(|error| Failure::new(Exit::Config, error))
        }
    };
    loaded.pipeline.sinks.iter().zip(&loaded.compiled.sinks).map(writing).collect()
}

fn view_options(sink: &SinkPlan) -> ViewOptions {
    ViewOptions {
        mode: check::mode(sink.mode),
        key: sink.key.iter().map(|at| sink.schema.field(*at).name().clone()).collect(),
        writer: WriterOptions { compression: Compression::default(), ..WriterOptions::default() },
        compaction: Some(Compaction::default()),
        by_key: ByKey::default(),
    }
}

/// Each sink, its table made where there is none. `None` when told to stop meanwhile.
fn sinks(
    loaded: &Loaded,
    writings: &[Writing],
    app_id: &str,
    topics: &[NamedTopic],
    session: &Session,
) -> Result<Option<Vec<Output>>, Failure> {
    let mut sinks = Vec::new();
    for (at, writing) in writings.iter().enumerate() {
        let sink = &loaded.pipeline.sinks[at];
        sinks.push(match (&sink.target, writing) {
            (Target::Kafka(kafka), _) => {
                let known = |named: &NamedTopic| SinkSource {
                    name: named.source.clone(),
                    topic: TopicIdentity { name: named.topic.name.clone(), id: named.topic.id },
                };
                let mut config = check::sink_config(kafka, app_id, &sink.name.text);
                config.sources = topics.iter().map(known).collect();
                Output::Topic(Box::new(Sink::open(config).map_err(|error| Failure::port(&error))?))
            }
            (Target::Delta(_), Writing::Table(view)) => {
                let Some(table) = sink_table(loaded, at, app_id, session)? else { return Ok(None) };
                let view = View::open(table.of_pipeline(topics.to_vec()), view.clone());
                Output::Table(Box::new(view.map_err(|error| Failure::port(&error))?))
            }
            (Target::Delta(_), Writing::Topic(_)) => unreachable!("a table's sink is written as one"),
        });
    }
    Ok(Some(sinks))
}

/// Where a sink's table lies.
fn sink_location(loaded: &Loaded, at: usize) -> &str {
    let Target::Delta(delta) = &loaded.pipeline.sinks[at].target else { unreachable!("only a table's sink has one") };
    delta.location.reveal()
}

/// A sink's table, made where there is none. `None` when told to stop.
fn sink_table(loaded: &Loaded, at: usize, app_id: &str, session: &Session) -> Result<Option<Table>, Failure> {
    let sink = &loaded.pipeline.sinks[at];
    let location = sink_location(loaded, at);
    let wanted = check::wanted(&loaded.compiled.sinks[at]).map_err(|error| Failure::port(&error))?;
    match session.wait_for(|| create(location, &wanted, session.runtime.handle()))? {
        Some(Created::New) => tracing::info!("made table {location}"),
        Some(Created::Existed) => {}
        None => return Ok(None),
    }
    let options = || TableOptions {
        app_id: app_id.to_owned(),
        topic: None,
        checkpoints: lakeward_delta::Checkpoints::AsTheTableSays,
        runtime: session.runtime.handle().clone(),
    };
    let Some(table) = session.wait_for(|| Table::open(location, options()))? else { return Ok(None) };
    if let Some(difference) = table.difference(&wanted) {
        return Err(Failure::new(
            Exit::Config,
            format_args!(
                "sink {}: table {location} is there, but {difference}; give the view the table's columns, or name another table",
                sink.name.text
            ),
        ));
    }
    Ok(Some(table))
}

fn engine(
    loaded: &Loaded,
    sinks: Vec<Writing>,
    state: &State,
    workers: usize,
    budget: &Budget,
    session: &Session,
) -> Result<Engine, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Config, error);
    let intake = |(source, format)| Intake::new(source, &format).map_err(|error| failed(&error));
    let sources = loaded.pipeline.sources.iter().zip(formats::all(loaded)?);
    let intakes = sources.map(intake).collect::<Result<Vec<_>, _>>()?;
    let options = EngineOptions {
        plan: Arc::clone(&loaded.compiled.plan),
        circuit: circuit::Options {
            workers,
            memory_mb: usize::try_from(budget.total_bytes >> 20).unwrap_or(usize::MAX),
        },
        folder: state.folder.join("engine"),
        copies: state.copies.clone(),
        schemas: loaded.compiled.sinks.iter().map(|sink| sink.schema.clone()).collect(),
        has_dead_letters: loaded.pipeline.settings.has_dead_letters,
        sinks,
        most_bytes: usize::try_from(budget.stage_bytes).unwrap_or(usize::MAX).min(MOST_STEP_BYTES),
        most_messages: loaded.pipeline.settings.step_max_messages,
        runtime: session.runtime.handle().clone(),
    };
    Engine::new(options, intakes).map_err(|error| failed(&error))
}

fn step_plan(args: &RunArgs, loaded: &Loaded, names: Vec<String>, ends: Option<Frontier>) -> StepPlan {
    let source = |source: &SourceSql| {
        let Origin::Kafka(kafka) = &source.from;
        let beginning = match kafka.start {
            Start::Earliest => Beginning::Earliest,
            Start::Latest => Beginning::Latest,
        };
        let on_gap = match source.on_gap {
            OnFault::Stop => OnGap::Stop,
            OnFault::Skip => OnGap::Skip,
        };
        SourcePlan { beginning, on_gap, trims: source.trim }
    };
    let sources = loaded.pipeline.sources.iter().map(source).collect();
    let on_lost_state = match args.on_lost_state {
        arguments::OnLostState::Stop => OnLostState::Stop,
        arguments::OnLostState::Replay => OnLostState::Replay,
    };
    StepPlan { ends, on_lost_state, ..StepPlan::of(sources, names) }
}
