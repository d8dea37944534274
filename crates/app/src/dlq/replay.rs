//! `lakeward dlq replay`: letters sent again, each once.
//!
//! The table of letters is the input of the loop that `ingest` runs, the target its sink: how far it came is in the
//! transaction, or commit, that holds what was sent. Two at once fence each other.

use std::error::Error;
use std::time::Duration;

use lakeward_decode::{Format, Transforms};
use lakeward_delta::encode::WriterOptions;
use lakeward_delta::{Checkpoints, Table, TableOptions, Topic, stored_offsets};
use lakeward_kafka::{Messages, Sink, SinkConfig, SinkSource, TopicIdentity};
use lakeward_protocol::core::{Core, Ending, Policies};
use lakeward_protocol::drive::{Due, Limits, Port, Stopped, Watch, drive};
use lakeward_protocol::ports::{Exit, Fault, Permit, Stage, Verdict};
use lakeward_protocol::position::{Frontier, Shape, TableVersion};
use lakeward_protocol::records::Records;

use super::source::{ALL, LettersInput};
use crate::budget::Budget;
use crate::cli::OnBadRecord;
use crate::cli::dlq::{FilterArgs, ReplayArgs};
use crate::failure::Failure;
use crate::report::counted;
use crate::session::Session;
use crate::stage::{Evolve, Shards, StageOptions};
use crate::world::Os;

/// How targets know the letters: the id beside it is the table's.
const SOURCE: &str = "dead-letters";

/// Bytes of messages in a transaction, about.
const TRANSACTION_BYTES: usize = 8 << 20;

/// What `kafka.` sources of a transform are about, that a replay does not have.
const PLACES: [&str; 3] = ["kafka.offset", "kafka.partition", "kafka.topic"];

/// Sends what was not sent yet, and says how much that was.
///
/// # Errors
/// With the exit code and what to do; what was sent stays sent.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let session = Session::start()?;
    let open = || LettersInput::open(&args.table, args.filter.clone(), session.runtime.handle());
    let Some(input) = session.wait_for(open)? else { return Ok(()) };
    let name = args.name.clone().unwrap_or_else(|| name_of(input.table_id(), &args.filter));
    let ends = Some(Frontier::from([(ALL, input.end())]));
    let core = Core::new(Policies { ends, ..Policies::default() });
    let target = args.to.as_ref().or(args.into.as_ref()).expect("one of them is given");
    let sent = std::rc::Rc::default();
    let watch = Told { sent: std::rc::Rc::clone(&sent), sealed: 0 };
    let ended = match &args.to {
        Some(topic) => to_topic(args, topic, &name, core, input, watch, &session)?,
        None => into_table(args, target, &name, core, input, watch, &session)?,
    };
    let letters = counted(usize::try_from(sent.get()).unwrap_or(usize::MAX), "letter");
    match ended {
        Ok(Ending::Reached) => println!("{letters} of {} replayed to {target}; no more are there", args.table),
        Ok(_) => println!("{letters} of {} replayed to {target}; stopped, the next start goes on", args.table),
        Err(stopped) => {
            eprintln!("{letters} of {} replayed to {target}", args.table);
            return Err(Failure::stopped(&args.table, target, &stopped));
        }
    }
    Ok(())
}

/// Under which name progress is kept: of one table, and one choice of its letters.
fn name_of(table_id: &str, filter: &FilterArgs) -> String {
    let id: String = table_id.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    let mut parts: Vec<String> = Vec::new();
    let sorted = |values: &[String]| {
        let mut values = values.to_vec();
        values.sort();
        values.join(",")
    };
    let choices = [
        ("kind", sorted(&filter.kind)),
        ("topic", sorted(&filter.topic)),
        ("since", filter.since.map(|at| at.to_string()).unwrap_or_default()),
        ("until", filter.until.map(|at| at.to_string()).unwrap_or_default()),
    ];
    parts.extend(
        choices.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!(".{name}={value}")),
    );
    format!("lakeward-replay-{id}{}", parts.concat())
}

/// The table's id as a topic's: letters of a table that was made again are others.
fn id_of(table_id: &str) -> Option<[u8; 16]> {
    uuid::Uuid::try_parse(table_id).ok().map(uuid::Uuid::into_bytes)
}

fn limits() -> Limits {
    Limits { latency_ms: 5_000, batch_messages: 1_000, file_bytes: TRANSACTION_BYTES, ..Limits::default() }
}

fn to_topic(
    args: &ReplayArgs,
    topic: &str,
    name: &str,
    core: Core,
    input: LettersInput,
    watch: Told,
    session: &Session,
) -> Result<Result<Ending, Stopped>, Failure> {
    let letters = TopicIdentity { name: SOURCE.to_owned(), id: id_of(input.table_id()) };
    let config = SinkConfig {
        brokers: args.kafka.clone(),
        topic: topic.to_owned(),
        id: format!("{name}-{topic}"),
        sources: vec![SinkSource { name: SOURCE.to_owned(), topic: letters }],
        settings: crate::secrets::kafka(&args.kafka_settings),
    };
    let sink = Sink::open(config).map_err(|error| Failure::port(&error))?;
    let world = Os::new(session.signals.clone());
    Ok(drive(core, input, Resend::default(), sink, world, watch, limits()))
}

fn into_table(
    args: &ReplayArgs,
    table: &str,
    name: &str,
    core: Core,
    input: LettersInput,
    watch: Told,
    session: &Session,
) -> Result<Result<Ending, Stopped>, Failure> {
    for transform in &args.transforms {
        let source = transform.split_once(':').map_or("", |(_, source)| source.trim());
        if PLACES.contains(&source) {
            return Err(Failure::usage(format_args!(
                "-t '{transform}': {source} would be the letter's place in the replay, not the message's in its topic; \
                 leave it out, or replay with --to TOPIC and ingest that"
            )));
        }
    }
    let transforms = Transforms::parse(&args.transforms).map_err(Failure::usage)?;
    let topic = Topic { name: SOURCE.to_owned(), id: id_of(input.table_id()) };
    let options = || TableOptions {
        app_id: name.to_owned(),
        topic: Some(topic.clone()),
        checkpoints: Checkpoints::AsTheTableSays,
        runtime: session.runtime.handle().clone(),
    };
    let Some(output) = session.wait_for(|| Table::open(table, options()))? else { return Ok(Ok(Ending::Stopped)) };
    if output.id() == input.table_id() {
        return Err(Failure::usage(format_args!("--into {table} is the table of the letters itself")));
    }
    let Some((_, stored)) = session.wait_for(|| stored_offsets(table, session.runtime.handle().clone()))? else {
        return Ok(Ok(Ending::Stopped));
    };
    if let Some(of) = stored.iter().find(|of| of.by_key) {
        let text = format!(
            "--into {table}: it holds the newest row of each key, as {} wrote it, and letters would be rows beside those; \
             replay them with --to its topic, or into a table of their own",
            of.app_id.as_deref().unwrap_or(&of.txn)
        );
        return Err(Failure::new(Exit::Config, text));
    }
    let budget = Budget::new(None);
    let most_bytes = usize::try_from(budget.stage_bytes).unwrap_or(usize::MAX);
    let stage = Shards::start(&StageOptions {
        topic: SOURCE.to_owned(),
        format: Format::default(),
        transforms,
        view: None,
        letters: None,
        evolve: Evolve::No,
        by_key: None,
        writer: WriterOptions { memory_bytes: most_bytes, ..WriterOptions::default() },
        stop_at_bad: args.on_bad_record == OnBadRecord::Stop,
        workers: 1,
        most_bytes,
        most_messages: usize::MAX,
        runtime: session.runtime.handle().clone(),
    });
    let stage = stage.map_err(|error| Failure::new(Exit::TryAgain, format_args!("can't start a thread: {error}")))?;
    let world = Os::new(session.signals.clone());
    let limits = Limits { file_bytes: Limits::default().file_bytes, ..limits() };
    Ok(drive(core, input, stage, output, world, watch, limits))
}

/// Passes messages on as they are.
#[derive(Default)]
struct Resend {
    messages: Messages,
}

/// A header's name that is no text: the peer of Kafka's protocol has none such.
#[derive(Debug, thiserror::Error)]
#[error("a header's name is not UTF-8, so it can't be sent again")]
struct ResendError;

impl Fault for ResendError {
    fn verdict(&self) -> Verdict {
        Verdict::Stop(Exit::Data)
    }
}

impl Stage for Resend {
    type Batch = Messages;
    type Layout = Shape;
    type Error = ResendError;

    fn open(&mut self, _: &Shape) -> Result<(), ResendError> {
        Ok(())
    }

    fn push(&mut self, records: Records) -> Result<Option<Records>, ResendError> {
        for (index, entry) in records.entries().iter().enumerate() {
            self.messages.push_bytes(records.key(entry), records.value(entry));
            for (name, value) in records.headers(index) {
                self.messages.push_header(std::str::from_utf8(name).map_err(|_| ResendError)?, value);
            }
        }
        Ok(Some(records))
    }

    fn is_full(&self) -> bool {
        self.messages.bytes() >= TRANSACTION_BYTES
    }

    fn seal(&mut self) -> Result<Messages, ResendError> {
        Ok(std::mem::take(&mut self.messages))
    }

    fn discard(&mut self) {
        self.messages = Messages::default();
    }
}

/// Counts what was sent, and says what holds it up.
struct Told {
    sent: std::rc::Rc<std::cell::Cell<u64>>,
    sealed: u64,
}

impl Watch for Told {
    fn sealed(&mut self, _: Due, messages: u64, _: u64) {
        self.sealed = messages;
    }

    fn committed(&mut self, version: TableVersion, _: &Permit) {
        let messages = std::mem::take(&mut self.sealed);
        self.sent.set(self.sent.get() + messages);
        tracing::info!(%version, messages, "replayed");
    }

    fn discarded(&mut self, why: &lakeward_protocol::core::Why) {
        self.sealed = 0;
        tracing::warn!("another process replays the same letters to the same place: going on where it stands ({why})");
    }

    fn retrying(&mut self, _: Port, doing: &str, error: &dyn Error, attempt: u32, wait: Duration) {
        tracing::warn!(attempt, "can't {doing}: {error}; nothing is lost, trying again in {:.1} s", wait.as_secs_f64());
    }
}
