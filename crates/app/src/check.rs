//! `lakeward check`: what a pipeline would do, what it would keep, and whether its sources and sinks fit; of an ingest
//! `check/ingest.rs` says it. Writes nothing.

mod ingest;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use lakeward_circuit::compile::{Compiled, SinkPlan};
use lakeward_circuit::pipeline::{
    DeltaSink, Encoding, KafkaSetting, KafkaSink, KafkaSource, Language, Mode, Origin, Source as SourceSql, Target,
};
use lakeward_delta::{Checkpoints, DeltaError, Table, TableOptions, TableSchema, view};
use lakeward_kafka::{KafkaError, Sink, SinkConfig, Source, SourceConfig};
use lakeward_protocol::ports::Exit;

use crate::cli::pipeline::{CheckArgs, CheckOther};
use crate::failure::Failure;
use crate::pipeline::{self, Way};
use crate::report::{counted, grouped};
use crate::run::formats;
use crate::run::messages::MessageWriter;
use crate::secrets;
use crate::session::Session;

/// Prints what would be done.
///
/// # Errors
/// When the pipeline can't be planned, or a source or sink does not fit; what would stop an ingest.
pub fn run(args: CheckArgs) -> Result<(), Failure> {
    match (args.other, args.pipeline) {
        (Some(CheckOther::Ingest(args)), _) => ingest::run(*args),
        (None, Some(path)) => run_pipeline(&path, args.offline),
        (None, None) => Err(Failure::usage("check what? Name a pipeline file, or write: check ingest TOPIC TABLE")),
    }
}

fn run_pipeline(path: &Path, offline: bool) -> Result<(), Failure> {
    let loaded = pipeline::load(path)?;
    let session = if offline { None } else { Some(Session::start()?) };
    let mut faults = Vec::new();
    let (pipeline, compiled) = (&loaded.pipeline, &loaded.compiled);
    println!(
        "{}: {}, {}, {}",
        path.display(),
        counted(pipeline.sources.len(), "source"),
        counted(pipeline.views.len(), "view"),
        counted(pipeline.sinks.len(), "sink")
    );
    println!();
    for source in &pipeline.sources {
        let files = formats::of(source).map_err(|failure| failure.text);
        let found = files.and_then(|_| if session.is_some() { at_source(source) } else { Ok(String::new()) });
        println!("source {}: {}{}", source.name.text, source_line(source), told(found, &mut faults));
    }
    for (at, (sink, plan)) in pipeline.sinks.iter().zip(&compiled.sinks).enumerate() {
        let found = match (&session, &sink.target) {
            (Some(session), Target::Delta(delta)) => at_table(delta, plan, session),
            (_, Target::Kafka(kafka)) => at_topic(kafka, plan, session.is_some()),
            (None, Target::Delta(_)) => Ok(String::new()),
        };
        println!(
            "sink   {}: {}{}",
            plan.name,
            sink_line(&sink.from.text, &sink.target, plan, at >= pipeline.sinks_of_views().len()),
            told(found, &mut faults)
        );
    }
    println!();
    println!("runs   {}", loaded.way);
    if let (Way::ByPartition(_), Some(_)) = (&loaded.way, &pipeline.settings.state) {
        println!("       SET state is not used: nothing is kept but what the tables say");
    }
    print!("{}", state(compiled));
    if faults.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::Config, faults.join("; ")))
}

fn told(found: Result<String, String>, faults: &mut Vec<String>) -> String {
    match found {
        Ok(text) => text,
        Err(fault) => {
            faults.push(fault.clone());
            format!("\n       WRONG: {fault}")
        }
    }
}

fn source_line(source: &SourceSql) -> String {
    let Origin::Kafka(kafka) = &source.from;
    let how = match (&source.changes, source.key.is_empty()) {
        (None, true) => "rows only come".to_owned(),
        (None, false) => format!("a row replaces that of its key ({})", key_names(source)),
        (Some(changes), true) => format!("field {} says whether a row comes or goes", changes.field),
        (Some(changes), false) => {
            format!("field {} says what becomes of the row of the key ({})", changes.field, key_names(source))
        }
    };
    let how = if source.written.debezium {
        format!("Debezium's events say what becomes of the row of the key ({})", key_names(source))
    } else {
        how
    };
    let columns = counted(source.columns.len(), "column");
    format!("topic {} at {}, {columns} of {}; {how}", kafka.topic, kafka.brokers, format_word(source))
}

/// What messages are written in.
fn format_word(source: &SourceSql) -> String {
    let by = |language: &str, at| format!("{language} by the registry at {at}");
    match &source.written.encoding {
        Encoding::Json => "JSON".to_owned(),
        Encoding::Raw => "raw messages".to_owned(),
        Encoding::AvroContainers => "Avro container files".to_owned(),
        Encoding::AvroFile(file) => format!("Avro by {file}"),
        Encoding::ProtobufFile { file, message } => format!("Protobuf's {message} of {file}"),
        Encoding::Registered(Language::Json, at) => by("JSON", at),
        Encoding::Registered(Language::Avro, at) => by("Avro", at),
        Encoding::Registered(Language::Protobuf, at) => by("Protobuf", at),
    }
}

fn key_names(source: &SourceSql) -> String {
    source.key.iter().map(|at| source.columns[*at].name.text.as_str()).collect::<Vec<_>>().join(", ")
}

fn sink_line(from: &str, target: &Target, plan: &SinkPlan, is_dead_letters: bool) -> String {
    let place = match target {
        Target::Delta(delta) => format!("Delta table {}", delta.location),
        Target::Kafka(KafkaSink { topic, brokers, .. }) => format!("topic {topic} at {brokers}"),
    };
    let names = |places: &[usize]| {
        places.iter().map(|at| plan.schema.field(*at).name().as_str()).collect::<Vec<_>>().join(", ")
    };
    if is_dead_letters {
        return format!("bad records and rows that fail into {place}, as long as they do");
    }
    let how = match plan.mode {
        Mode::Append => "appends: rows only come".to_owned(),
        Mode::Upsert if plan.key.is_empty() => "is the view, row by row (no key)".to_owned(),
        Mode::Upsert => format!("is the view, by key ({})", names(&plan.key)),
        Mode::Changelog => "lists each insert and delete".to_owned(),
    };
    let parts =
        if plan.partition_by.is_empty() { String::new() } else { format!("; by {}", names(&plan.partition_by)) };
    format!("{from} into {place}, {how}{parts}")
}

/// What every operator keeps, and what bounds it.
fn state(compiled: &Compiled) -> String {
    let mut text = String::new();
    for (at, node) in compiled.plan.nodes.iter().enumerate() {
        for state in node.operator.state() {
            let what = format!("#{at} {}: keeps {}", node.operator.describe(), state.what);
            let _ = match state.bound {
                Some(bound) => writeln!(text, "state  {what}; bounded: {bound}"),
                None => writeln!(
                    text,
                    "state  {what}\n       WARNING: it grows with the input, for ever; a WHERE before it, or fewer columns or keys, keeps it small"
                ),
            };
        }
    }
    if text.is_empty() { "state  none: each row stands for itself\n".to_owned() } else { text }
}

/// Asks the brokers.
fn at_source(source: &SourceSql) -> Result<String, String> {
    let Origin::Kafka(kafka) = &source.from;
    let asking = Source::assign(config(kafka), BTreeSet::new()).map_err(|error| error.to_string())?;
    let ends = asking.ends().map_err(|error| error.to_string())?;
    let end: i64 = ends.values().map(|end| end.get()).sum();
    if let Encoding::Registered(_, at) = &source.written.encoding {
        let subject = format!("{}-value", kafka.topic.reveal());
        let registry = formats::registry(source, at).map_err(|failure| failure.text)?;
        registry.latest(&subject).map_err(|error| error.to_string())?;
    }
    Ok(format!("\n       {}, {} offsets so far", counted(ends.len(), "partition"), grouped(end)))
}

/// How to reach a source's topic, as nobody's member.
#[must_use]
pub fn config(kafka: &KafkaSource) -> SourceConfig {
    let mut config = SourceConfig::new(kafka.brokers.reveal(), "lakeward", kafka.topic.reveal());
    config.settings = settings(&kafka.settings);
    config
}

/// How to reach a sink's topic, under the name that is this sink's alone.
#[must_use]
pub fn sink_config(kafka: &KafkaSink, app_id: &str, name: &str) -> SinkConfig {
    SinkConfig {
        brokers: kafka.brokers.reveal().to_owned(),
        topic: kafka.topic.reveal().to_owned(),
        id: format!("{app_id}-{name}"),
        sources: Vec::new(),
        settings: settings(&kafka.settings),
    }
}

fn settings(given: &[KafkaSetting]) -> Vec<(String, String)> {
    let given: Vec<_> = given.iter().map(|setting| (setting.name.clone(), setting.value.reveal().to_owned())).collect();
    secrets::kafka(&given)
}

/// Looks at the columns, and asks the brokers for the topic.
fn at_topic(sink: &KafkaSink, plan: &SinkPlan, online: bool) -> Result<String, String> {
    MessageWriter::new(plan).map_err(|error| error.to_string())?;
    if !online {
        return Ok(String::new());
    }
    match Sink::look(&sink_config(sink, "lakeward-check", &plan.name)) {
        Ok(found) => Ok(format!("\n       {}", counted(found.partitions, "partition"))),
        // It may be made by the brokers once it is written to.
        Err(KafkaError::NoTopic { .. }) => {
            Ok("\n       no such topic: make it before the run, unless the brokers make topics by themselves"
                .to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Looks at the table, if there is one.
fn at_table(sink: &DeltaSink, plan: &SinkPlan, session: &Session) -> Result<String, String> {
    let options = TableOptions {
        app_id: "lakeward-check".to_owned(),
        topic: None,
        checkpoints: Checkpoints::AsTheTableSays,
        runtime: session.runtime.handle().clone(),
    };
    let location = sink.location.reveal();
    let table = match Table::open(location, options) {
        Ok(table) => table,
        Err(DeltaError::Missing { .. }) => return Ok("\n       a new table".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let wanted = wanted(plan).map_err(|error| error.to_string())?;
    match table.difference(&wanted) {
        None => Ok("\n       the table is there, and fits".to_owned()),
        Some(difference) => Err(format!(
            "table {location} is there, but {difference}; give the view the table's columns, or name another table"
        )),
    }
}

/// The table that a sink would make.
///
/// # Errors
/// When a table can't have such columns.
pub fn wanted(plan: &SinkPlan) -> Result<lakeward_delta::NewTable, DeltaError> {
    let partition_by = plan.partition_by.iter().map(|at| plan.schema.field(*at).name().clone()).collect();
    view::new_table(mode(plan.mode), &TableSchema::from_arrow(&plan.schema)?, partition_by)
}

/// The table's word for a sink's mode.
#[must_use]
pub fn mode(mode: Mode) -> view::Mode {
    match mode {
        Mode::Append => view::Mode::Append,
        Mode::Upsert => view::Mode::Upsert,
        Mode::Changelog => view::Mode::Changelog,
    }
}
