//! `lakeward offsets set`: what it would come to, and with `--yes` the commit, which the core decides.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use lakeward_delta::{ByNote, Checkpoints, Signs, StoredOffset, Table, TableOptions, Topic, stored_offsets};
use lakeward_kafka::{Source, SourceConfig};
use lakeward_protocol::core::{Core, Move, Policies, Set};
use lakeward_protocol::drive::{Limits, Watch, drive};
use lakeward_protocol::ports::{Exit, Head, OutputLog, Permit};
use lakeward_protocol::position::{Frontier, Offset, PartitionId, TableVersion};
use serde_json::{Value, json};

use super::still::{Given, Nothing};
use crate::cli::Output;
use crate::cli::offsets::SetArgs;
use crate::failure::Failure;
use crate::report::{grouped, table};
use crate::secrets;
use crate::session::Session;
use crate::start::Start;
use crate::who::who;
use crate::world::Os;

/// One partition's line of the plan.
struct Line {
    partition: PartitionId,
    stored: Option<Offset>,
    to: Offset,
    moved: Move,
    /// What the topic holds of it, where brokers were asked.
    holds: Option<(Offset, Offset)>,
}

/// Prints the plan, and carries it out where that is asked for.
///
/// # Errors
/// A table or topic that can't be read; offsets that the topic does not hold; what goes back without leave.
pub fn run(args: &SetArgs, session: &Session) -> Result<(), Failure> {
    let runtime = session.runtime.handle().clone();
    let (_, stored) = stored_offsets(&args.table, runtime.clone()).map_err(|error| Failure::port(&error))?;
    refuse_pipelines(args, &stored)?;
    let topics = stored.iter().filter(|of| of.app_id.as_ref() == Some(&args.app_id)).filter_map(|of| of.topic.clone());
    let topic = topic(args, topics.collect())?;
    let source = match (&args.kafka, &topic) {
        (Some(brokers), Some(topic)) => Some(asked(brokers, &topic.name, args)?),
        (Some(_), None) => {
            let text = format!("which topic? No commit of {} names one; pass --topic", args.app_id);
            return Err(Failure::usage(text));
        }
        (None, _) => None,
    };
    let to = match (&args.to, &source) {
        (start, Some(source)) => start.places(source).map_err(|error| Failure::port(&error))?,
        (Start::Offsets(offsets), None) => offsets.clone(),
        (start, None) => return Err(Failure::usage(format_args!("--to {start} asks the brokers: pass -k HOST:PORT"))),
    };
    let topic = match &source {
        None => topic,
        Some(source) => {
            let identity = source.topic_identity().map_err(|error| Failure::port(&error))?;
            Some(Topic { name: identity.name, id: identity.id })
        }
    };
    let options =
        TableOptions { app_id: args.app_id.clone(), topic, checkpoints: Checkpoints::AsTheTableSays, runtime };
    let mut table = Table::open(&args.table, options).map_err(|error| Failure::port(&error))?;
    let head = table.load(&to.keys().copied().collect()).map_err(|error| Failure::port(&error))?;
    let lines = lines(&to, &head, source.as_ref())?;
    if !args.force {
        check_bounds(&lines)?;
    }
    let done = if args.yes { Some(carry_out(args, to, table, session)?) } else { None };
    match args.output {
        Output::Table => print!("{}", text(args, &head, &lines, done.as_ref())),
        Output::Json => println!("{}", as_json(args, &head, &lines, done.as_ref())),
    }
    Ok(())
}

/// A pipeline's state goes with its offsets: set by hand, the two would not fit.
fn refuse_pipelines(args: &SetArgs, stored: &[StoredOffset]) -> Result<(), Failure> {
    let is_jobs = |of: &&StoredOffset| of.txn.strip_prefix(&args.app_id).is_some_and(|rest| rest.starts_with('-'));
    match stored.iter().filter(is_jobs).find(|of| of.is_pipelines) {
        None => Ok(()),
        Some(of) => {
            let text = format!(
                "{} is a pipeline's (lakeward run), whose state belongs to its offsets: they can't be set; to begin \
                 elsewhere, give the pipeline new tables",
                of.txn
            );
            Err(Failure::new(Exit::Config, text))
        }
    }
}

/// The topic that is asked for, else the one that the job's commits name.
fn topic(args: &SetArgs, named: Vec<Topic>) -> Result<Option<Topic>, Failure> {
    let names: BTreeSet<&str> = named.iter().map(|topic| topic.name.as_str()).collect();
    let name = match &args.topic {
        Some(name) => name.as_str(),
        None if names.len() > 1 => {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            let text = format!("{} has offsets of several topics ({names}): name one with --topic", args.app_id);
            return Err(Failure::usage(text));
        }
        None => match names.first() {
            Some(name) => name,
            None => return Ok(None),
        },
    };
    let known = named.iter().find(|topic| topic.name == name).cloned();
    Ok(Some(known.unwrap_or_else(|| Topic { name: name.to_owned(), id: None })))
}

fn asked(brokers: &str, topic: &str, args: &SetArgs) -> Result<Source, Failure> {
    let mut config = SourceConfig::new(brokers, "lakeward-offsets", topic);
    config.settings = secrets::kafka(&args.kafka_settings);
    Source::assign(config, BTreeSet::new()).map_err(|error| Failure::port(&error))
}

fn lines(to: &Frontier, head: &Head, source: Option<&Source>) -> Result<Vec<Line>, Failure> {
    let bounds = match source {
        None => None,
        Some(source) => {
            let ask = || Ok((source.oldest()?, source.ends()?));
            Some(ask().map_err(|error: lakeward_kafka::KafkaError| Failure::port(&error))?)
        }
    };
    let line = |(&partition, &to): (&PartitionId, &Offset)| {
        let stored = head.frontier.get(&partition).copied();
        let moved = Move::of(partition, to, stored, head.breach.as_ref());
        let holds = match &bounds {
            None => None,
            Some((oldest, ends)) => match (oldest.get(&partition), ends.get(&partition)) {
                (Some(oldest), Some(end)) => Some((*oldest, *end)),
                _ => {
                    let text = format!("the topic has no partition {partition}; it has {}", ends.len());
                    return Err(Failure::new(Exit::Config, text));
                }
            },
        };
        Ok(Line { partition, stored, to, moved, holds })
    };
    to.iter().map(line).collect()
}

fn check_bounds(lines: &[Line]) -> Result<(), Failure> {
    for line in lines {
        if let Some((oldest, end)) = line.holds
            && !(oldest..=end).contains(&line.to)
        {
            let text = format!(
                "partition {}: the topic holds {oldest} to {end} (exclusive), and not {}; a job would stop there. Pass \
                 --force to set it all the same",
                line.partition, line.to
            );
            return Err(Failure::new(Exit::Config, text));
        }
    }
    Ok(())
}

/// The version that was put; `None` where there was nothing to set.
type Done = Option<TableVersion>;

fn carry_out(args: &SetArgs, to: Frontier, mut table: Table, session: &Session) -> Result<Done, Failure> {
    let Some(_admission) = session.admit(&args.table, false)? else { return Ok(None) };
    let (who, why) = (who(), args.reason.clone().unwrap_or_default());
    table.sign(Signs::All, ByNote { who: who.clone(), why: format!("offsets set --to {}: {why}", args.to) });
    let given = Given(Some(to.keys().copied().collect()));
    let set = Set { to: to.clone(), force: args.force, reason: format!("set by {who}: {why}") };
    let core = Core::new(Policies { set: Some(set), ends: Some(to), ..Policies::default() });
    let (name, version) = (table.name().to_owned(), Rc::default());
    let (world, watch) = (Os::new(session.signals.clone()), Put(Rc::clone(&version)));
    let ended = drive(core, given, Nothing, table, world, watch, Limits::default());
    ended.map_err(|stopped| Failure::new(stopped.exit(), format_args!("{name}: {stopped}")))?;
    Ok(*version.borrow())
}

/// Notes the version that was put.
struct Put(Rc<RefCell<Done>>);

impl Watch for Put {
    fn committed(&mut self, version: TableVersion, _: &Permit) {
        *self.0.borrow_mut() = Some(version);
    }
}

fn text(args: &SetArgs, head: &Head, lines: &[Line], done: Option<&Done>) -> String {
    let row = |line: &Line| {
        vec![
            line.partition.to_string(),
            line.stored.map_or_else(|| "none".to_owned(), |stored| grouped(stored.get())),
            grouped(line.to.get()),
            comes_to(line),
            line.holds.map_or_else(|| "?".to_owned(), |(from, to)| format!("{}..{}", grouped(from), grouped(to))),
        ]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    let mut out = format!("{} at version {}, app id {}\n", args.table, head.version, args.app_id);
    out += &table(&["partition", "next offset", "set to", "comes to", "topic holds"], &rows);
    out += &match done {
        Some(Some(version)) => format!("done, as version {version}\n"),
        Some(None) => "nothing to do: it stands there already\n".to_owned(),
        None if lines.iter().all(|line| line.moved == Move::Stays) => {
            "nothing to do: it stands there already\n".to_owned()
        }
        None => {
            let repeats = lines.iter().any(|line| matches!(line.moved, Move::Repeats { .. }));
            let force = if repeats && !args.force { " --force (rows will be there twice)" } else { "" };
            let reason = if args.reason.is_none() { " --reason TEXT" } else { "" };
            format!("nothing was written; to do it, add{force}{reason} --yes\n")
        }
    };
    out
}

/// What setting it means for the rows.
fn comes_to(line: &Line) -> String {
    let offsets = |from: Offset, to: Offset| grouped(from.span_until(to));
    match line.moved {
        Move::Stays => "as it is".to_owned(),
        Move::Begins => "begins there".to_owned(),
        Move::Skips { from } => format!("{} offsets never taken in", offsets(from, line.to)),
        Move::Repeats { from } => format!("{} offsets taken in TWICE", offsets(line.to, from)),
        Move::Changes { .. } => "begins there in the new topic".to_owned(),
    }
}

fn as_json(args: &SetArgs, head: &Head, lines: &[Line], done: Option<&Done>) -> Value {
    let line = |line: &Line| {
        let (skipped, twice) = match line.moved {
            Move::Skips { from } => (from.span_until(line.to), 0),
            Move::Repeats { from } => (0, line.to.span_until(from)),
            Move::Stays | Move::Begins | Move::Changes { .. } => (0, 0),
        };
        json!({
            "partition": line.partition.0, "next_offset": line.stored.map(Offset::get), "to": line.to.get(),
            "skipped": skipped, "twice": twice, "oldest": line.holds.map(|(oldest, _)| oldest.get()),
            "end": line.holds.map(|(_, end)| end.get()),
        })
    };
    let partitions: Vec<Value> = lines.iter().map(line).collect();
    json!({
        "table": args.table, "app_id": args.app_id, "read_version": head.version.0, "partitions": partitions,
        "version": done.copied().flatten().map(|version| version.0),
    })
}
