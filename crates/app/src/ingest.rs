//! `lakeward ingest`: the rooms joined on one screen. Kafka -> decode and encode -> Delta.

use std::sync::Arc;
use std::time::Duration;

use lakeward_decode::Transforms;
use lakeward_delta::{Checkpoints, Housekeeping, Table, TableOptions, Topic};
use lakeward_kafka::{Source, SourceConfig, TopicIdentity};
use lakeward_protocol::core::{Beginning, Core, Policies};
use lakeward_protocol::drive::{Limits, drive};
use lakeward_protocol::ports::{Exit, Fault, Verdict, World};
use lakeward_protocol::position::{Frontier, Offset, PartitionId};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::runtime::Runtime;

use crate::admin::{self, Ready};
use crate::budget::Budget;
use crate::cli::{IngestArgs, OnBadRecord, OnGap, OnRestore, Reset};
use crate::failure::Failure;
use crate::stage::{Held, Shards, StageOptions};
use crate::watch::{Progress, Reporter};
use crate::world::{Os, Signals};
use crate::{creation, meters, refused};

/// How often gauges are brought up to date.
const REPORT: Duration = Duration::from_secs(1);

/// What the options come to, before anything is asked or opened.
pub struct Plan {
    /// The options.
    pub args: IngestArgs,
    /// Columns made by expressions.
    pub transforms: Transforms,
    seek: Frontier,
    /// Who gets how much memory.
    pub budget: Budget,
    /// How to reach the topic.
    pub source: SourceConfig,
}

/// The process's runtime and its wish to stop.
pub struct Session {
    /// Uploads, the log, and the admin port run here; the loop does not.
    pub runtime: Runtime,
    /// The wish to stop.
    pub signals: Signals,
}

/// Runs until the topic's end, a signal, or somebody has to look.
///
/// # Errors
/// With the exit code and what to do.
pub fn run(args: IngestArgs) -> Result<(), Failure> {
    refused::check(refused::in_environment).map_err(|error| Failure::new(Exit::Config, error))?;
    let plan = Plan::new(args)?;
    let session = Session::start()?;
    let (ready, progress) = (Ready::default(), Progress::default());
    if let Some(address) = plan.args.admin {
        let metrics = metrics_recorder();
        session
            .runtime
            .block_on(admin::serve(address, metrics, ready.clone()))
            .map_err(|error| Failure::new(Exit::Config, error))?;
    }
    let Some((table, source)) = open(&plan, &session)? else { return Ok(()) };
    let ends = match plan.args.ends_at_latest_offsets {
        true => match plan.wait_for(&session, || source.ends())? {
            Some(ends) => Some(ends),
            None => return Ok(()),
        },
        false => None,
    };
    let stage = Shards::start(&plan.stage_options(&session))
        .map_err(|error| Failure::new(Exit::TryAgain, format_args!("can't start a thread: {error}")))?;

    report(&session, &progress, &source, stage.held(), table.housekeeping());
    let (core, limits, name) = (Core::new(plan.policies(ends)), plan.limits(), table.name().to_owned());
    let world = Os::new(session.signals.clone());
    let ended = drive(core, source, stage, table, world, Reporter::new(progress, ready), limits);
    ended.map(|_| ()).map_err(|stopped| Failure::stopped(&plan.args.topic, &name, &stopped))
}

impl Plan {
    /// Reads what the options say.
    ///
    /// # Errors
    /// Options that make no sense.
    pub fn new(args: IngestArgs) -> Result<Self, Failure> {
        let transforms = Transforms::parse(&args.transforms).map_err(Failure::usage)?;
        let seek = args.seek_offsets.as_deref().map_or(Ok(Frontier::new()), seek_offsets).map_err(Failure::usage)?;
        let budget = Budget::new(args.memory_mb);
        let mut source = SourceConfig::new(&args.kafka.kafka, &args.kafka.consumer_group, &args.topic);
        source.settings.clone_from(&args.kafka.kafka_settings);
        source.memory_bytes = usize::try_from(budget.fetch_bytes + budget.arena_bytes).unwrap_or(usize::MAX);
        Ok(Self { args, transforms, seek, budget, source })
    }

    /// Asks until there is an answer; `None` when we are told to stop meanwhile.
    ///
    /// # Errors
    /// What waiting does not heal.
    pub fn wait_for<T, E: Fault>(
        &self,
        session: &Session,
        ask: impl Fn() -> Result<T, E>,
    ) -> Result<Option<T>, Failure> {
        let mut world = Os::new(session.signals.clone());
        let mut wait = Duration::from_millis(250);
        loop {
            match ask() {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) if error.verdict() == Verdict::Retry => tracing::warn!("{error}"),
                Err(error) => return Err(Failure::port(&error)),
            }
            world.pause(wait);
            if session.signals.raised() {
                return Ok(None);
            }
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }

    /// How the table is opened, for a topic as far as it is known.
    #[must_use]
    pub fn table_options(&self, session: &Session, topic: Option<TopicIdentity>) -> TableOptions {
        TableOptions {
            app_id: self.args.app_id.clone(),
            topic: topic.map(|topic| Topic { name: topic.name, id: topic.id }),
            checkpoints: if self.args.checkpoints { Checkpoints::Every(10) } else { Checkpoints::AsTheTableSays },
            runtime: session.runtime.handle().clone(),
        }
    }

    fn stage_options(&self, session: &Session) -> StageOptions {
        let most_bytes = usize::try_from(self.budget.stage_bytes).unwrap_or(usize::MAX);
        let workers = usize::from(self.args.workers);
        let mut writer = self.args.writer_options();
        writer.memory_bytes = most_bytes / workers;
        StageOptions {
            topic: self.args.topic.clone(),
            transforms: self.transforms.clone(),
            writer,
            stop_at_bad: self.args.on_bad_record == OnBadRecord::Stop,
            workers,
            most_bytes,
            runtime: session.runtime.handle().clone(),
        }
    }

    fn policies(&self, ends: Option<Frontier>) -> Policies {
        use lakeward_protocol::core;
        Policies {
            on_gap: match self.args.on_gap {
                OnGap::Stop => core::OnGap::Stop,
                OnGap::Skip => core::OnGap::Skip,
            },
            on_restore: match self.args.on_restore {
                OnRestore::Stop => core::OnRestore::Stop,
                OnRestore::Replay => core::OnRestore::Replay,
                OnRestore::Accept => core::OnRestore::Accept,
            },
            beginning: match self.args.auto_offset_reset {
                Reset::Earliest => Beginning::Earliest,
                Reset::Latest => Beginning::Latest,
            },
            seek: self.seek.clone(),
            ends,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            latency_ms: self.args.allowed_latency * 1000,
            batch_messages: self.args.max_messages_per_batch as usize,
            file_bytes: usize::try_from(self.args.min_bytes_per_file).unwrap_or(usize::MAX),
            ..Limits::default()
        }
    }
}

impl Session {
    /// Starts the runtime and listens to signals.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn start() -> Result<Self, Failure> {
        let failed = |error| Failure::new(Exit::TryAgain, format_args!("can't start: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(failed)?;
        let signals = Signals::default();
        runtime.spawn(signals.clone().listen());
        Ok(Self { runtime, signals })
    }
}

/// The table, or a reason why not, before the topic is waited for; then the topic, and the table
/// opened for just that topic. `None` when told to stop meanwhile.
fn open(plan: &Plan, session: &Session) -> Result<Option<(Table, Source)>, Failure> {
    if !plan.args.create {
        let look = || Table::open(&plan.args.table, plan.table_options(session, None));
        if plan.wait_for(session, look)?.is_none() {
            return Ok(None);
        }
    }
    let source = Source::subscribe(plan.source.clone()).map_err(|error| Failure::port(&error))?;
    let Some(topic) = plan.wait_for(session, || source.topic_identity())? else { return Ok(None) };
    if plan.args.create && creation::ensure(plan, session)?.is_none() {
        return Ok(None);
    }
    let table =
        plan.wait_for(session, || Table::open(&plan.args.table, plan.table_options(session, Some(topic.clone()))))?;
    if let Some(table) = &table {
        let id = topic.id_text().unwrap_or_else(|| "unknown".to_owned());
        tracing::info!("topic {} (id {id}) into table {} as {}", topic.name, table.name(), plan.args.app_id);
    }
    Ok(table.map(|table| (table, source)))
}

/// Brings gauges up to date for as long as the process lives.
fn report(session: &Session, progress: &Progress, source: &Source, held: Held, housekeeping: Arc<Housekeeping>) {
    let (progress, probe) = (progress.clone(), source.lag_probe());
    session.runtime.spawn(async move {
        let mut ticks = tokio::time::interval(REPORT);
        loop {
            ticks.tick().await;
            let lag = probe.lag();
            progress.report(|partition| lag.get(&partition)?.end);
            meters::held(held.bytes());
            meters::housekeeping(housekeeping.checkpoints(), housekeeping.failures());
        }
    });
}

fn metrics_recorder() -> PrometheusHandle {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full("lakeward_commit_seconds".to_owned()), &meters::COMMIT_SECONDS)
        .expect("the bounds are not empty");
    let handle = builder.install_recorder().expect("the first and only recorder of the process");
    meters::describe();
    handle
}

/// `{"0":123}`: 123 is the last offset *not* wanted, so the frontier is the one after it.
fn seek_offsets(text: &str) -> Result<Frontier, String> {
    let wrong = |what: String| {
        format!(
            "--seek_offsets {text}: {what}; want JSON such as {{\"0\":123,\"1\":45}}: partition and last consumed offset"
        )
    };
    let map: std::collections::BTreeMap<String, i64> =
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    map.into_iter()
        .map(|(partition, last)| {
            let id = partition.parse().map_err(|_| wrong(format!("'{partition}' is no partition number")))?;
            let offset = Offset::after(last).map_err(|_| wrong(format!("{last} is no offset")))?;
            Ok((PartitionId(id), offset))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seek_offsets_are_last_consumed_ones() {
        let parsed = seek_offsets(r#"{"0":3,"12":-1}"#).unwrap();
        assert_eq!(
            parsed,
            Frontier::from([(PartitionId(0), Offset::new(4).unwrap()), (PartitionId(12), Offset::ZERO)])
        );
        for (text, what) in [
            (r#"{"a":1}"#, "'a' is no partition number"),
            (r#"{"0":-2}"#, "-2 is no offset"),
            (r#"{"0":"x"}"#, "invalid type"),
            ("nonsense", "expected"),
        ] {
            let error = seek_offsets(text).unwrap_err();
            assert!(error.contains(what) && error.contains("--seek_offsets"), "{error}");
        }
    }
}
