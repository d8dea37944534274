//! A pipeline file, read and planned.

use std::path::Path;

use lakeward_circuit::compile::{Compiled, compile};
use lakeward_circuit::pipeline::{Pipeline, SqlError, Target};
use lakeward_protocol::ports::Exit;

use crate::failure::Failure;

/// A pipeline and its plan.
#[derive(Debug)]
pub struct Loaded {
    /// What the file says.
    pub pipeline: Pipeline,
    /// What is to be run.
    pub compiled: Compiled,
}

/// What the file may say and no part of the program does yet: said here, rather than passed over.
fn refuse_what_does_not_run(pipeline: &Pipeline) -> Result<(), SqlError> {
    let kafka = pipeline.sinks.iter().find(|sink| matches!(sink.target, Target::Kafka(_)));
    kafka.map_or(Ok(()), |sink| {
        Err(pipeline.error(
            sink.name.place,
            "a topic as a sink is not supported yet: write to a Delta table, WITH (delta = ..)",
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
    let pipeline = Pipeline::parse(&text, &|name| std::env::var(name).ok()).map_err(wrong)?;
    refuse_what_does_not_run(&pipeline).map_err(wrong)?;
    let compiled = compile(&pipeline).map_err(wrong)?;
    Ok(Loaded { pipeline, compiled })
}

/// What the sinks' transactions are named by: as the file says, else the file's own name.
#[must_use]
pub fn app_id(path: &Path, loaded: &Loaded) -> String {
    let own = || path.file_stem().map_or_else(|| "pipeline".to_owned(), |stem| stem.to_string_lossy().into_owned());
    loaded.pipeline.settings.app_id.as_ref().map_or_else(own, |id| id.reveal().to_owned())
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
