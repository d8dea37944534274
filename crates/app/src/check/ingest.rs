//! `lakeward check ingest`: what an ingest with these options would do. Writes nothing, joins no group.

mod columns;
mod outlook;
mod sample;

use std::collections::{BTreeMap, BTreeSet};

use lakeward_delta::view::View;
use lakeward_delta::{DeltaError, Table};
use lakeward_kafka::{KafkaError, Source, TopicIdentity};
use lakeward_protocol::core::{Core, Policies};
use lakeward_protocol::ports::{Bounds, OutputLog};
use lakeward_protocol::position::{Frontier, Offset, PartitionId};

use crate::cli::IngestArgs;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::{counted, grouped, table};
use crate::session::Session;
use crate::sink::Sink;
use crate::{creation, letters};
use outlook::Outlook;

/// Prints it.
///
/// # Errors
/// What would stop the ingest, with its exit code; a topic or table that can't be read.
pub fn run(args: IngestArgs) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    let session = Session::start()?;
    let kafka = |error: KafkaError| Failure::port(&error);
    let source = Source::assign(plan.source.clone(), BTreeSet::new()).map_err(kafka)?;
    let topic = source.topic_identity().map_err(kafka)?;
    let holds = holds(&source).map_err(kafka)?;
    print!("{}", topic_line(&plan, &topic, &holds));
    let starts = plan.starts(&session, &source)?.unwrap_or_default();
    let table = open(&plan, &session, &topic)?;
    let dead = dead_letters(&plan, &session, &topic, table.as_ref())?;
    let Some(table) = table else {
        print!("{}", begins(&Outlook::of_nothing(&plan, &starts, &holds), &holds));
        println!("nothing was written");
        return Ok(());
    };
    let mut sink = sink(&plan, table)?;
    let fit = fit(&plan, sink.table(), holds.len());
    print!("{}", fit.iter().map(|line| format!("WARNING  {line}\n")).collect::<String>());
    print!("{}", columns::compared(&plan, &session, sink.layout().schema())?);
    // Dead letters follow the rows: where these begin is what is asked here.
    let policies = Policies { dead_letters: false, ..plan.policies(starts, None) };
    let outlook = Outlook::new(Core::new(policies), &mut sink, &holds)?;
    print!("{}", begins(&outlook, &holds));
    let sampled = match &outlook.stops {
        Some(_) => Ok(()),
        None => sample::run(&plan, &session, sink.table(), dead.as_ref(), &outlook.begins, &holds),
    };
    println!("nothing was written");
    sampled?;
    match outlook.stops {
        None => Ok(()),
        Some(reason) => Err(Failure::new(reason.exit(), format_args!("it would stop at once: {reason}"))),
    }
}

/// What the topic holds, by partition.
fn holds(source: &Source) -> Result<BTreeMap<PartitionId, Bounds>, KafkaError> {
    let (oldest, ends) = (source.oldest()?, source.ends()?);
    let bounds = |(partition, &end): (&PartitionId, &Offset)| {
        (*partition, Bounds { oldest: oldest.get(partition).copied().unwrap_or(end), end })
    };
    Ok(ends.iter().map(bounds).collect())
}

fn topic_line(plan: &Plan, topic: &TopicIdentity, holds: &BTreeMap<PartitionId, Bounds>) -> String {
    let offsets: u64 = holds.values().map(|bounds| bounds.oldest.span_until(bounds.end)).sum();
    format!(
        "topic    {} (id {}) at {}: {}, {} offsets\n",
        topic.name,
        topic.id_text().unwrap_or_else(|| "unknown".to_owned()),
        plan.args.kafka.kafka,
        counted(holds.len(), "partition"),
        grouped(offsets)
    )
}

/// The table, if it is there; what would be made, if not.
fn open(plan: &Plan, session: &Session, topic: &TopicIdentity) -> Result<Option<Table>, Failure> {
    match Table::open(&plan.args.table, plan.table_options(session, Some(topic.clone()))) {
        Ok(table) => {
            println!("table    {}: there, as {}", table.name(), plan.args.app_id);
            Ok(Some(table))
        }
        Err(DeltaError::Missing { .. }) if plan.args.create => {
            match creation::schema(plan, session)? {
                Some(schema) => {
                    creation::new_table(plan, schema.clone())?;
                    println!("table    {}: would be made, with schema {}", plan.args.table, schema.to_json())
                }
                None => println!(
                    "table    {}: would be made once a message is there that a schema can be inferred from",
                    plan.args.table
                ),
            }
            Ok(None)
        }
        Err(error) => Err(Failure::port(&error)),
    }
}

/// The table of dead letters, if one is asked for and it is there; what would be made, if not.
fn dead_letters(
    plan: &Plan,
    session: &Session,
    topic: &TopicIdentity,
    table: Option<&Table>,
) -> Result<Option<Table>, Failure> {
    let Some(location) = plan.args.dead_letters.table() else { return Ok(None) };
    match Table::open(location, plan.table_options(session, Some(topic.clone()))) {
        Ok(dead) => {
            letters::fit(&dead, table, location)?;
            println!("letters  {}: there", dead.name());
            Ok(Some(dead))
        }
        Err(DeltaError::Missing { .. }) if plan.args.create => {
            println!("letters  {location}: would be made, with schema {}", letters::schema(plan)?.to_json());
            Ok(None)
        }
        Err(error) => Err(Failure::port(&letters::Absent::of(error))),
    }
}

/// The table as it would be written to; in mode upsert with its keys read.
fn sink(plan: &Plan, table: Table) -> Result<Sink, Failure> {
    let Some(options) = &plan.upsert else { return Sink::append(table).map(|table| Sink::Append(Box::new(table))) };
    let view = View::open(table, options.clone()).map_err(|error| Failure::port(&error))?;
    let (key, rows) = (options.key.join(", "), grouped(view.rows() as u64));
    println!(
        "mode     upsert, key {key}: {rows} rows are there, memory for the keys of {}",
        grouped(options.by_key.most_rows as u64)
    );
    Ok(Sink::Upsert(Box::new(view)))
}

/// Options that do not fit the table, the topic, or each other.
fn fit(plan: &Plan, table: &Table, partitions: usize) -> Vec<String> {
    let args = &plan.args;
    let mut lines = Vec::new();
    if let Some(difference) = creation::difference(plan, table) {
        lines.push(format!("{difference}: --schema and --partition-by only shape new tables"));
    }
    if usize::from(args.workers) > partitions {
        lines.push(format!(
            "--workers {}: the topic has {}, so only that many do something",
            args.workers,
            counted(partitions, "partition")
        ));
    }
    if args.min_bytes_per_file > plan.budget.stage_bytes {
        lines.push(format!(
            "--min-bytes-per-file {}: {} bytes of memory hold what is not committed, and when they are full a commit is \
             made before; raise --memory-mb",
            grouped(args.min_bytes_per_file),
            grouped(plan.budget.stage_bytes)
        ));
    }
    lines
}

/// Where each partition would begin, and how far the topic is ahead of that.
fn begins(outlook: &Outlook, holds: &BTreeMap<PartitionId, Bounds>) -> String {
    let row = |(partition, bounds): (&PartitionId, &Bounds)| {
        let at = outlook.begins.get(partition).copied();
        vec![
            partition.to_string(),
            outlook.stored.get(partition).map_or_else(|| "none".to_owned(), |stored| grouped(stored.get())),
            at.map_or_else(|| "?".to_owned(), |at| grouped(at.get())),
            outlook.why(*partition),
            format!("{}..{}", grouped(bounds.oldest.get()), grouped(bounds.end.get())),
            at.map_or_else(|| "?".to_owned(), |at| grouped((bounds.end.get() - at.get()).max(0))),
        ]
    };
    let head = ["partition", "table says", "begins at", "by", "topic holds", "ahead"];
    table(&head, &holds.iter().map(row).collect::<Vec<_>>())
}

impl Outlook {
    /// Where there is no table yet.
    fn of_nothing(plan: &Plan, starts: &Frontier, holds: &BTreeMap<PartitionId, Bounds>) -> Self {
        let policies = plan.policies(starts.clone(), None);
        let asked = |id: &PartitionId| policies.seek.get(id).or_else(|| policies.starts.get(id)).copied();
        let latest = policies.beginning == lakeward_protocol::core::Beginning::Latest;
        let begin = |(id, bounds): (&PartitionId, &Bounds)| {
            (*id, asked(id).unwrap_or(if latest { bounds.end } else { bounds.oldest }))
        };
        Self { begins: holds.iter().map(begin).collect(), ..Self::default() }
    }
}
