//! A pipeline file, read and planned.

use std::path::Path;

use lakeward_circuit::compile::{Compiled, compile};
use lakeward_circuit::pipeline::{Mode, OnFault, Pipeline, Sink, SqlError, Target};
use lakeward_circuit::stateless::Stateless;
use lakeward_kafka::SinkConfig;
use lakeward_protocol::ports::Exit;

use crate::check;
use crate::failure::Failure;
use crate::secrets;

/// A pipeline and its plan.
#[derive(Debug)]
pub struct Loaded {
    /// What the file says.
    pub pipeline: Pipeline,
    /// What is to be run.
    pub compiled: Compiled,
    /// How.
    pub way: Way,
}

/// How a pipeline runs.
#[derive(Debug)]
pub enum Way {
    /// Each sink by itself, as far as each partition is. Its view keeps nothing.
    ByPartition(Vec<Stateless>),
    /// All sinks together, and why.
    ByStep(String),
}

impl Way {
    fn of(pipeline: &Pipeline, compiled: &Compiled) -> Self {
        let views = (0..compiled.sinks.len()).map(|at| Stateless::new(&compiled.plan, at));
        let why = pipeline.sinks.iter().zip(&compiled.sinks).find_map(|(sink, plan)| match &sink.target {
            Target::Delta(_) if plan.mode == Mode::Append => None,
            Target::Delta(_) => Some(format!("sink {} does more than append", plan.name)),
            Target::Kafka(_) => Some(format!("sink {} is a topic", plan.name)),
        });
        // What may be deleted hangs on all sinks together.
        let trimmed = pipeline.sources.iter().find(|source| source.trim);
        let why = why.or(trimmed.map(|source| format!("source {} is trimmed", source.name.text)));
        let views = match why {
            Some(why) => Err(why),
            None => views.collect::<Result<Vec<_>, _>>(),
        };
        match views {
            Err(why) => Self::ByStep(why),
            Ok(views) => match views.iter().find(|view| view.relations().is_empty()) {
                Some(view) => Self::ByStep(format!("{} reads no source", view.name())),
                None => Self::ByPartition(views),
            },
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ByPartition(_) => f.write_str(
                "by partition, in any number of processes: each sink appends and keeps nothing, so each goes on by itself",
            ),
            Self::ByStep(why) => write!(f, "by step, in one process: {why}"),
        }
    }
}

/// A replay asks the first sink what was skipped, and a topic keeps no log that says it.
fn check_journal(pipeline: &Pipeline) -> Result<(), SqlError> {
    let is_topic = pipeline.sinks.first().is_some_and(|sink| matches!(sink.target, Target::Kafka(_)));
    let skips = pipeline.sources.iter().find(|source| is_topic && source.on_gap == OnFault::Skip);
    skips.map_or(Ok(()), |source| {
        Err(pipeline.error(
            source.name.place,
            "on_gap = 'skip' needs a Delta table as the first sink, whose log says what was skipped: put one before the topic, or leave the option out",
        ))
    })
}

/// Reads and plans a pipeline file; `${NAME}` in options is the environment's.
///
/// # Errors
/// When it can't be read, or says what can't be done: with line and column.
pub fn load(path: &Path) -> Result<Loaded, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::Config, format_args!("pipeline {}: {error}", path.display())))?;
    let wrong = |error| Failure::new(Exit::Config, format_args!("pipeline {}: {error}", path.display()));
    let pipeline = Pipeline::parse(&text, &variable).map_err(wrong)?;
    check_journal(&pipeline).map_err(wrong)?;
    let compiled = compile(&pipeline).map_err(wrong)?;
    let way = Way::of(&pipeline, &compiled);
    Ok(Loaded { pipeline, compiled, way })
}

/// A variable of the environment, or a secret that is kept elsewhere.
fn variable(name: &str) -> Option<String> {
    secrets::variable(name).unwrap_or_else(|error| {
        tracing::error!("{error}");
        None
    })
}

/// What the sinks' transactions are named by: as the file says, else the file's own name.
#[must_use]
pub fn app_id(path: &Path, loaded: &Loaded) -> String {
    let own = || path.file_stem().map_or_else(|| "pipeline".to_owned(), |stem| stem.to_string_lossy().into_owned());
    loaded.pipeline.settings.app_id.as_ref().map_or_else(own, |id| id.reveal().to_owned())
}

/// Where a sink's own words are read.
pub enum Place {
    /// The log of a Delta table at this location.
    Table(String),
    /// The group of a topic's sink.
    Topic(Box<SinkConfig>),
}

/// Names and places of the sinks, in the pipeline's order.
#[must_use]
pub fn sinks(loaded: &Loaded, app_id: &str) -> Vec<(String, Place)> {
    let place = |sink: &Sink| match &sink.target {
        Target::Delta(delta) => Place::Table(delta.location.reveal().to_owned()),
        Target::Kafka(kafka) => Place::Topic(Box::new(check::sink_config(kafka, app_id, &sink.name.text))),
    };
    loaded.pipeline.sinks.iter().map(|sink| (sink.name.text.clone(), place(sink))).collect()
}

/// Names and locations of the Delta sinks, in the pipeline's order.
#[must_use]
pub fn delta_sinks(loaded: &Loaded) -> Vec<(String, String)> {
    let delta = loaded.pipeline.sinks.iter().filter_map(|sink| match &sink.target {
        Target::Delta(delta) => Some((sink.name.text.clone(), delta.location.reveal().to_owned())),
        Target::Kafka(_) => None,
    });
    delta.collect()
}

#[cfg(test)]
mod tests {
    use super::{Pipeline, check_journal};

    #[test]
    fn a_topic_is_no_journal_of_gaps() {
        let (topic, delta) = ("kafka = 'h:1', topic = 'o', mode = 'changelog'", "delta = 'o'");
        for (first, on_gap, is_fit) in
            [(topic, "skip", false), (topic, "stop", true), (delta, "skip", true), (delta, "stop", true)]
        {
            let text = format!(
                "CREATE SOURCE s (a BIGINT) WITH (kafka = 'h:1', topic = 's', on_gap = '{on_gap}');
                 CREATE SINK one FROM s WITH ({first});"
            );
            let pipeline = Pipeline::parse(&text, &|_| None).expect("a pipeline");
            assert_eq!(check_journal(&pipeline).is_ok(), is_fit, "{first} {on_gap}");
        }
    }
}
