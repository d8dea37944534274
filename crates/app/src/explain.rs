//! `lakeward explain`: the incremental plan of a pipeline, as a tree or a picture.

use lakeward_circuit::explain;

use crate::cli::pipeline::{ExplainArgs, Picture};
use crate::failure::Failure;
use crate::pipeline;

/// Prints the plan.
///
/// # Errors
/// When the pipeline can't be planned.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let loaded = pipeline::load(&args.pipeline)?;
    let plan = &loaded.compiled.plan;
    let text = match args.format {
        Picture::Tree => format!("runs {}\n{}", loaded.way, explain::tree(plan)),
        Picture::Dot => explain::dot(plan),
        Picture::Mermaid => explain::mermaid(plan),
        Picture::Svg => explain::svg(plan),
    };
    print!("{text}");
    Ok(())
}
