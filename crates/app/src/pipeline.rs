//! A pipeline file, read and planned.

use std::path::Path;

use lakeward_circuit::compile::{Compiled, compile};
use lakeward_circuit::pipeline::Pipeline;
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

/// Reads and plans a pipeline file; `${NAME}` in options is the environment's.
///
/// # Errors
/// When it can't be read, or says what can't be done: with line and column.
pub fn load(path: &Path) -> Result<Loaded, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::Config, format_args!("pipeline {}: {error}", path.display())))?;
    let wrong = |error| Failure::new(Exit::Config, format_args!("pipeline {}: {error}", path.display()));
    let pipeline = Pipeline::parse(&text, &|name| std::env::var(name).ok()).map_err(wrong)?;
    let compiled = compile(&pipeline).map_err(wrong)?;
    Ok(Loaded { pipeline, compiled })
}
