//! A pipeline that keeps nothing: each sink goes on by itself, by partition, in any number of processes.
//!
//! A *chain* is a sink and a source that it reads: the loop of `ingest` in a thread of its own, with a consumer group
//! of its own, so that a sink out of reach holds up no other. Two chains of one sink are to its table what two
//! processes are.

use std::cell::RefCell;
use std::collections::BTreeSet;

use lakeward_circuit::pipeline::{OnFault, Origin, Source as SourceSql, Start};
use lakeward_circuit::stateless::Stateless;
use lakeward_decode::{Format, Transforms};
use lakeward_delta::view::{Staged, View, ViewOptions};
use lakeward_delta::{Layout, NamedTopic, Table, Topic};
use lakeward_kafka::{Source, SourceConfig};
use lakeward_protocol::core::{Beginning, Core, OnGap, Policies};
use lakeward_protocol::drive::{Limits, Stopped, drive};
use lakeward_protocol::ports::{Exit, OutputLog, Stage};
use lakeward_protocol::position::{Frontier, Shape};
use lakeward_protocol::records::Records;

use super::{formats, sink_location, sink_table, view_options};
use crate::admin::page::Page;
use crate::admin::{self, Ready};
use crate::budget::Budget;
use crate::check;
use crate::cli::pipeline::RunArgs;
use crate::failure::Failure;
use crate::ingest::{metrics_recorder, report};
use crate::meters;
use crate::pipeline::{self, Loaded};
use crate::report::counted;
use crate::session::Session;
use crate::stage::{Evolve, Over, Shards, StageError, StageOptions};
use crate::watch::{Progress, Reporter};
use crate::world::Os;

/// What all chains have in common.
struct Run<'a> {
    args: &'a RunArgs,
    loaded: &'a Loaded,
    session: &'a Session,
    app_id: String,
    /// Of each chain.
    budget: Budget,
    workers: usize,
    /// Of each source, where the run ends.
    ends: Option<Vec<Frontier>>,
    page: Page,
    /// Of each source.
    formats: Vec<Format>,
}

/// A sink and a source that it reads, by their places in the pipeline.
struct Chain<'a> {
    sink: usize,
    source: usize,
    view: &'a Stateless,
    ready: Ready,
}

/// Runs until the topics' end, a signal, or somebody has to look.
///
/// # Errors
/// With the exit code and what to do. When one chain can't go on, the others commit what they hold and end.
pub fn run(args: &RunArgs, loaded: &Loaded, views: &[Stateless]) -> Result<(), Failure> {
    let session = Session::start()?;
    let pairs = views.iter().enumerate().flat_map(|(sink, view)| {
        let sources = view.relations().into_iter();
        sources.map(move |source| (sink, source, view))
    });
    let pairs: Vec<_> = pairs.collect();
    let readiness = Ready::parts(pairs.len());
    let page = Page::new(vec![("pipeline", args.pipeline.display().to_string()), ("runs", loaded.way.to_string())]);
    if let Some(address) = args.admin {
        let served = admin::serve(address, metrics_recorder(), readiness[0].clone(), page.clone());
        session.runtime.block_on(served).map_err(|error| Failure::new(Exit::Config, error))?;
    }
    let settings = &loaded.pipeline.settings;
    let run = Run {
        args,
        loaded,
        session: &session,
        app_id: pipeline::app_id(&args.pipeline, loaded),
        budget: Budget::new(args.memory_mb.or(settings.memory_mb)).divided(pairs.len()),
        workers: usize::from(args.workers.unwrap_or(settings.workers)),
        ends: match args.until {
            Some(_) => match ends(loaded, &session)? {
                Some(ends) => Some(ends),
                None => return Ok(()),
            },
            None => None,
        },
        page,
        formats: formats::all(loaded)?,
    };
    let (file, chains) = (args.pipeline.display(), counted(pairs.len(), "chain"));
    tracing::info!("{file} as {}, by partition, {chains} of {}", run.app_id, counted(run.workers, "worker"));
    let chains = pairs.into_iter().zip(readiness);
    let chains = chains.map(|((sink, source, view), ready)| Chain { sink, source, view, ready });
    run.all(chains.collect())
}

/// Where each source's topic ends now. `None` when told to stop.
fn ends(loaded: &Loaded, session: &Session) -> Result<Option<Vec<Frontier>>, Failure> {
    let mut all = Vec::new();
    for source in &loaded.pipeline.sources {
        let Origin::Kafka(kafka) = &source.from;
        let asking = Source::assign(check::config(kafka), BTreeSet::new());
        let asking = asking.map_err(|error| Failure::port(&error))?;
        let Some(ends) = session.wait_for(|| asking.ends())? else { return Ok(None) };
        all.push(ends);
    }
    Ok(Some(all))
}

impl Run<'_> {
    /// The first failure, once all have ended.
    fn all(&self, chains: Vec<Chain<'_>>) -> Result<(), Failure> {
        let ended = |result: Result<(), Failure>| {
            if let Err(failure) = &result {
                tracing::error!("{}; the other chains commit what they hold and end", failure.text);
                self.session.signals.raise();
            }
            result
        };
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for chain in chains {
                let thread = std::thread::Builder::new().name(format!("sink-{}", self.sink(&chain)));
                let started = thread.spawn_scoped(scope, move || ended(self.one(&chain)));
                let failed = |error| Failure::new(Exit::TryAgain, format_args!("can't start a thread: {error}"));
                threads.push(started.map_err(|error| ended(Err(failed(error)))));
            }
            let results = threads.into_iter().map(|thread| match thread {
                Ok(thread) => thread.join().expect("a panic ends the process"),
                Err(failed) => failed,
            });
            // All of them, so that each is waited for.
            results.collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn sink(&self, chain: &Chain<'_>) -> &str {
        &self.loaded.pipeline.sinks[chain.sink].name.text
    }

    fn one(&self, chain: &Chain<'_>) -> Result<(), Failure> {
        let (sink, from) = (self.sink(chain), &self.loaded.pipeline.sources[chain.source]);
        let source_name = from.name.text.as_str();
        let _span = tracing::info_span!("chain", sink, source = source_name).entered();
        // Each chain for itself: a store out of reach holds up no other.
        let location = sink_location(self.loaded, chain.sink);
        let admission = self.session.admit(location, self.args.unsafe_single_writer)?;
        let Some(_admission) = admission else { return Ok(()) };
        let Some(table) = sink_table(self.loaded, chain.sink, &self.app_id, self.session)? else { return Ok(()) };
        let config = self.config(chain, table.id());
        let (topic, group) = (config.topic.clone(), config.group.clone());
        let input = Source::subscribe(config.clone()).map_err(|error| Failure::port(&error))?;
        let Some(identity) = self.session.wait_for(|| input.topic_identity())? else { return Ok(()) };
        let output = self.view(chain, table, identity.id)?;
        let name = output.table().name().to_owned();
        let stopped = |stopped| Failure::stopped(&topic, &format!("{name} (sink {sink})"), &stopped);
        let Origin::Kafka(kafka) = &from.from;
        let output = match kafka.start {
            Start::Earliest => output,
            Start::Latest => {
                self.begin_at_the_ends(chain, config, output, &input)?.map_err(stopped)?;
                let Some(table) = sink_table(self.loaded, chain.sink, &self.app_id, self.session)? else {
                    return Ok(());
                };
                self.view(chain, table, identity.id)?
            }
        };
        let stage = self.stage(chain)?;
        tracing::info!("topic {topic} into table {name}, group {group}");
        let labels = meters::labels(Some(sink), source_name);
        let progress = Progress::default();
        self.page.add(&format!("{sink} of {source_name}"), &progress);
        let housekeeping = output.table().housekeeping();
        report(self.session, &progress, input.lag_probe(), stage.shards.held(), housekeeping, labels.clone());
        let watch = Reporter::new(progress, chain.ready.clone()).labelled(labels);
        let core = Core::new(self.policies(chain.source, from));
        let ended = drive(core, input, stage, output, self.world(), watch, self.limits());
        ended.map(|_| ()).map_err(stopped)
    }

    /// Where the table knows nothing of the source yet, every partition that there is begins at its end, in one
    /// commit. So those that are added later are known by it, and begin at their first records.
    fn begin_at_the_ends(
        &self,
        chain: &Chain<'_>,
        config: SourceConfig,
        output: View,
        asking: &Source,
    ) -> Result<Result<(), Stopped>, Failure> {
        let Some(partitions) = self.session.wait_for(|| asking.partitions())? else { return Ok(Ok(())) };
        let output = RefCell::new(output);
        let Some(head) = self.session.wait_for(|| output.borrow_mut().load(&partitions))? else { return Ok(Ok(())) };
        if !head.frontier.is_empty() {
            return Ok(Ok(()));
        }
        let input = Source::assign(config, partitions).map_err(|error| Failure::port(&error))?;
        let nothing = Some(Frontier::new());
        let core = Core::new(Policies { beginning: Beginning::Latest, ends: nothing, ..Policies::default() });
        let watch = Reporter::new(Progress::default(), Ready::default());
        let (stage, output) = (self.stage(chain)?, output.into_inner());
        Ok(drive(core, input, stage, output, self.world(), watch, self.limits()).map(|_| ()))
    }

    fn world(&self) -> Os {
        Os::new(self.session.signals.clone())
    }

    fn view_options(&self, chain: &Chain<'_>) -> ViewOptions {
        let compiled = &self.loaded.compiled;
        view_options(&compiled.sinks[chain.sink])
    }

    fn view(&self, chain: &Chain<'_>, table: Table, topic_id: Option<[u8; 16]>) -> Result<View, Failure> {
        let table = table.of_pipeline(self.topics(chain.source, topic_id));
        View::open(table, self.view_options(chain)).map_err(|error| Failure::port(&error))
    }

    /// The group has the table's id in it: a pipeline of the same names elsewhere is not to share our partitions.
    fn config(&self, chain: &Chain<'_>, table_id: &str) -> SourceConfig {
        let source = &self.loaded.pipeline.sources[chain.source];
        let Origin::Kafka(kafka) = &source.from;
        let mut config = check::config(kafka);
        let id: String = table_id.chars().take(TABLE_ID_LETTERS).collect();
        config.group = format!("{}-{}-{id}", self.app_id, self.sink(chain));
        if chain.view.relations().len() > 1 {
            config.group = format!("{}-{}", config.group, source.name.text);
        }
        (config.keys, config.headers) = [self.formats[chain.source].wants_keys(); 2].into();
        config.memory_bytes = usize::try_from(self.budget.fetch_bytes + self.budget.arena_bytes).unwrap_or(usize::MAX);
        config
    }

    /// The pipeline's sources as the sink remembers them. A chain's own is the first: a partition of it is numbered as
    /// its topic numbers it. Others' ids are told by their own chains.
    fn topics(&self, own: usize, id: Option<[u8; 16]>) -> Vec<NamedTopic> {
        let named = |(at, source): (usize, &SourceSql)| {
            let Origin::Kafka(kafka) = &source.from;
            let topic = Topic { name: kafka.topic.reveal().to_owned(), id: id.filter(|_| at == own) };
            NamedTopic { source: source.name.text.clone(), topic }
        };
        let mut topics: Vec<NamedTopic> = self.loaded.pipeline.sources.iter().enumerate().map(named).collect();
        topics.swap(0, own);
        topics
    }

    fn stage(&self, chain: &Chain<'_>) -> Result<Appends, Failure> {
        let source = &self.loaded.pipeline.sources[chain.source];
        let Origin::Kafka(kafka) = &source.from;
        let mut writer = self.view_options(chain).writer;
        let most_bytes = usize::try_from(self.budget.stage_bytes).unwrap_or(usize::MAX);
        writer.memory_bytes = most_bytes / self.workers;
        let shards = Shards::start(&StageOptions {
            format: self.formats[chain.source].clone(),
            topic: kafka.topic.reveal().to_owned(),
            transforms: Transforms::default(),
            view: Some(Over { view: chain.view.clone(), source: chain.source }),
            letters: None,
            evolve: Evolve::No,
            by_key: None,
            writer,
            stop_at_bad: source.on_bad_record == OnFault::Stop,
            workers: self.workers,
            most_bytes,
            most_messages: usize::try_from(self.loaded.pipeline.settings.step_max_messages).unwrap_or(usize::MAX),
            runtime: self.session.runtime.handle().clone(),
        });
        let failed = |error| Failure::new(Exit::TryAgain, format_args!("can't start a thread: {error}"));
        Ok(Appends { shards: shards.map_err(failed)?, shape: None })
    }

    fn policies(&self, source: usize, from: &SourceSql) -> Policies {
        Policies {
            on_gap: match from.on_gap {
                OnFault::Stop => OnGap::Stop,
                OnFault::Skip => OnGap::Skip,
            },
            on_restore: self.args.on_restore.into(),
            // Or at the ends, which the table says already then.
            beginning: Beginning::Earliest,
            ends: self.ends.as_ref().map(|ends| ends[source].clone()),
            dead_letters: false,
            ..Policies::default()
        }
    }

    fn limits(&self) -> Limits {
        let (settings, usual) = (&self.loaded.pipeline.settings, Limits::default());
        let most = usize::try_from(settings.step_max_messages).unwrap_or(usize::MAX);
        Limits { latency_ms: settings.step_latency_ms, batch_messages: usual.batch_messages.min(most), ..usual }
    }
}

/// Letters of a table's id in a group's name.
const TABLE_ID_LETTERS: usize = 8;

/// The shards, for a view's table.
struct Appends {
    shards: Shards,
    /// What they are open for.
    shape: Option<Shape>,
}

impl Stage for Appends {
    type Batch = Staged;
    type Layout = Layout;
    type Error = StageError;

    fn open(&mut self, layout: &Layout) -> Result<(), StageError> {
        self.shape = Some(layout.shape());
        self.shards.open(layout)
    }

    fn prepare(&mut self, records: &Records) -> Result<(), StageError> {
        self.shards.prepare(records)
    }

    fn push(&mut self, records: Records) -> Result<Option<Records>, StageError> {
        self.shards.push(records)
    }

    fn is_full(&self) -> bool {
        self.shards.is_full()
    }

    fn seal(&mut self) -> Result<Staged, StageError> {
        let shape = self.shape.expect("the loop opens the stage before it seals");
        Ok(Staged::of_new_rows(self.shards.seal()?, shape))
    }

    fn discard(&mut self) {
        self.shards.discard();
    }
}
