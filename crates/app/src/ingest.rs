//! `lakeward ingest`: the rooms joined on one screen. Kafka -> decode and encode -> Delta.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lakeward_delta::view::View;
use lakeward_delta::{Admission, Housekeeping, Layout, Signs, Table};
use lakeward_kafka::{LagProbe, Source};
use lakeward_protocol::core::Core;
use lakeward_protocol::drive::Drive;
use lakeward_protocol::ports::{Exit, OutputLog, Stage};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::admin::page::Page;
use crate::admin::{self, Ready};
use crate::cli::IngestArgs;
use crate::failure::Failure;
use crate::meters::Labels;
use crate::plan::Plan;
use crate::session::Session;
use crate::sink::Sink;
use crate::stage::{Held, Shards, Upserts};
use crate::watch::{Progress, Reporter};
use crate::world::Os;
use crate::{creation, letters, meters, statsd};

/// How often gauges are brought up to date.
pub const REPORT: Duration = Duration::from_secs(1);

/// Runs until the topic's end, a signal, or somebody has to look.
///
/// # Errors
/// With the exit code and what to do.
pub fn run(args: IngestArgs) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    let session = Session::start()?;
    let (ready, progress) = (Ready::default(), Progress::default());
    if let Some(options) = &plan.statsd {
        statsd::start(options, session.runtime.handle());
    }
    if let Some(address) = plan.args.admin {
        let (args, metrics) = (&plan.args, metrics_recorder());
        let job = [("topic", &args.topic), ("table", &args.table), ("app_id", &args.app_id)];
        let page = Page::new(job.map(|(name, value)| (name, value.clone())).into());
        page.add("", &progress);
        let served = admin::serve(address, metrics, ready.clone(), page);
        session.runtime.block_on(served).map_err(|error| Failure::new(Exit::Config, error))?;
    }
    let Some(_admissions) = admissions(&plan, &session)? else { return Ok(()) };
    let Some((table, source)) = open(&plan, &session)? else { return Ok(()) };
    let Some((table, letters)) = letters::open(&plan, &session, &source, table)? else { return Ok(()) };
    let Some(starts) = plan.starts(&session, &source)? else { return Ok(()) };
    let ends = match plan.args.ends_at_latest_offsets {
        true => match session.wait_for(|| source.ends())? {
            Some(ends) => Some(ends),
            None => return Ok(()),
        },
        false => None,
    };
    let shards = Shards::start(&plan.stage_options(&session))
        .map_err(|error| Failure::new(Exit::TryAgain, format_args!("can't start a thread: {error}")))?;

    let parts = Parts { core: Core::new(plan.policies(starts, ends)), source, letters, progress, ready };
    report(&session, &parts.progress, parts.source.lag_probe(), shards.held(), table.housekeeping(), Labels::new());
    match &plan.upsert {
        None => {
            let mut table = Sink::append(table)?;
            if let Some((policy, writer)) = plan.compaction() {
                table.compact_beside(policy, writer).map_err(|error| Failure::port(&error))?;
            }
            parts.carry(&plan, &session, shards, table, |letters| letters)
        }
        Some(options) => {
            let view = View::open(table, options.clone()).map_err(|error| Failure::port(&error))?;
            tracing::info!(
                "mode upsert by {}: {} rows in {}",
                options.key.join(", "),
                view.rows(),
                view.table().name()
            );
            report_keys(&session, view.counter());
            let stage = Upserts::new(shards, options.clone(), session.runtime.handle().clone());
            let append = |letters| Sink::Append(Box::new(letters));
            parts.carry(&plan, &session, stage, Sink::Upsert(Box::new(view)), append)
        }
    }
}

/// What an ingest has, whatever its table holds.
struct Parts {
    core: Core,
    source: Source,
    letters: Option<Table>,
    progress: Progress,
    ready: Ready,
}

impl Parts {
    /// Runs the loop. `as_sink`: how the table of dead letters is written to.
    fn carry<S, O>(
        self,
        plan: &Plan,
        session: &Session,
        stage: S,
        output: O,
        as_sink: impl FnOnce(Table) -> O,
    ) -> Result<(), Failure>
    where
        S: Stage<Layout = Layout>,
        O: OutputLog<Batch = S::Batch, Layout = Layout>,
    {
        let Self { core, source, letters, progress, ready } = self;
        let (world, name) = (Os::new(session.signals.clone()), output.layout().table().to_owned());
        let drive = Drive::new(core, source, stage, output, world, Reporter::new(progress, ready), plan.limits());
        let drive = match letters {
            Some(letters) => drive.with_letters(as_sink(letters)),
            None => drive,
        };
        let ended = drive.run();
        statsd::flush();
        ended.map(|_| ()).map_err(|stopped| Failure::stopped(&plan.args.topic, &name, &stopped))
    }
}

/// Leave to write to the table, and to that of dead letters. `None` when told to stop meanwhile.
fn admissions(plan: &Plan, session: &Session) -> Result<Option<Vec<Admission>>, Failure> {
    let mut all = Vec::new();
    for location in [Some(plan.args.table.as_str()), plan.args.dead_letters.table()].into_iter().flatten() {
        let Some(admission) = session.admit(location, plan.args.unsafe_single_writer)? else { return Ok(None) };
        all.push(admission);
    }
    Ok(Some(all))
}

/// The table, or a reason why not, before the topic is waited for; then the topic, and the table
/// opened for just that topic. `None` when told to stop meanwhile.
fn open(plan: &Plan, session: &Session) -> Result<Option<(Table, Source)>, Failure> {
    if !plan.args.create {
        let look = || Table::open(&plan.args.table, plan.table_options(session, None));
        if session.wait_for(look)?.is_none() {
            return Ok(None);
        }
    }
    let source = Source::subscribe(plan.source.clone()).map_err(|error| Failure::port(&error))?;
    let Some(topic) = session.wait_for(|| source.topic_identity())? else { return Ok(None) };
    if plan.args.create && creation::ensure(plan, session)?.is_none() {
        return Ok(None);
    }
    let mut table =
        session.wait_for(|| Table::open(&plan.args.table, plan.table_options(session, Some(topic.clone()))))?;
    if let Some(table) = &mut table {
        creation::compare(plan, table);
        table.sign(Signs::Beginnings, plan.signature());
        let id = topic.id_text().unwrap_or_else(|| "unknown".to_owned());
        tracing::info!("topic {} (id {id}) into table {} as {}", topic.name, table.name(), plan.args.app_id);
    }
    Ok(table.map(|table| (table, source)))
}

/// Brings gauges up to date for as long as the process lives.
pub fn report(
    session: &Session,
    progress: &Progress,
    probe: LagProbe,
    held: Held,
    housekeeping: Arc<Housekeeping>,
    labels: Labels,
) {
    let progress = progress.clone();
    session.runtime.spawn(async move {
        let mut ticks = tokio::time::interval(REPORT);
        loop {
            ticks.tick().await;
            let lag = probe.lag();
            progress.report(|_| labels.clone(), |partition| lag.get(&partition)?.end);
            meters::held(&labels, held.bytes());
            meters::housekeeping(&labels, &housekeeping);
        }
    });
}

/// The same of the keys that are in memory.
fn report_keys(session: &Session, rows: Arc<AtomicUsize>) {
    session.runtime.spawn(async move {
        let mut ticks = tokio::time::interval(REPORT);
        loop {
            ticks.tick().await;
            meters::keys(rows.load(Ordering::Relaxed));
        }
    });
}

/// Where metrics are kept.
pub fn metrics_recorder() -> PrometheusHandle {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full("lakeward_commit_seconds".to_owned()), &meters::COMMIT_SECONDS)
        .and_then(|builder| {
            builder.set_buckets_for_metric(Matcher::Full("lakeward_step_seconds".to_owned()), &meters::COMMIT_SECONDS)
        })
        .expect("the bounds are not empty");
    let handle = builder.install_recorder().expect("the first and only recorder of the process");
    meters::describe();
    handle
}
