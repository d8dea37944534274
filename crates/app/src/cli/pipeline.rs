//! The command line of pipelines: `check`, `explain`, `run`, `query`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{IngestArgs, OnRestore, Output};

/// Say what a pipeline, or an ingest, would do, and write nothing.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct CheckArgs {
    /// The pipeline file (SQL).
    #[arg(required = true)]
    pub pipeline: Option<PathBuf>,

    /// Ask no broker and open no table.
    #[arg(long)]
    pub offline: bool,

    /// What else than a pipeline.
    #[command(subcommand)]
    pub other: Option<CheckOther>,
}

/// What else can be checked.
#[derive(Clone, Debug, Subcommand)]
pub enum CheckOther {
    /// Say what `lakeward ingest` would do with the same options: where each partition would begin, how far the topic
    /// is ahead, and whether a sample of its messages fits the table.
    Ingest(Box<IngestArgs>),
}

/// Show the incremental plan of a pipeline.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// The pipeline file (SQL).
    pub pipeline: PathBuf,

    /// How to show it.
    #[arg(long, default_value = "tree", value_name = "FORMAT")]
    pub format: Picture,
}

/// Keep the answers of a pipeline up to date, until stopped.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The pipeline file (SQL). Try it first with `check`, which writes nothing.
    pub pipeline: PathBuf,

    /// Threads that share the work. Default: as the file's SET workers says, else 1.
    #[arg(long, value_name = "THREADS", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,

    /// Stop there: at the end that the topics had at the start.
    #[arg(long, value_name = "WHERE")]
    pub until: Option<Until>,

    /// When the tables hold data and no checkpoint is to be found, by step.
    #[arg(long, value_name = "POLICY", default_value = "stop")]
    pub on_lost_state: OnLostState,

    /// When a table was restored to an older version, below what was committed. By step only `stop`.
    #[arg(long, value_name = "POLICY", default_value = "stop")]
    pub on_restore: OnRestore,

    /// Write to stores that ignore conditions (no put if absent), under leases: one process alone.
    #[arg(long)]
    pub unsafe_single_writer: bool,

    /// Memory to stay within, in MiB. Default: as the file says, else a quarter of the machine's, at most 1024.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..))]
    pub memory_mb: Option<u64>,

    /// Serve /metrics, /healthz and /readyz here, such as 127.0.0.1:9090.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<SocketAddr>,
}

/// Ask a question in SQL about a pipeline's tables, or about any Delta table.
#[derive(Clone, Debug, Args)]
pub struct QueryArgs {
    /// A pipeline file: its Delta sinks are tables by their names. Or a Delta table: its folder's name is its name.
    pub from: String,

    /// The query.
    pub sql: String,

    /// One more Delta table: NAME=LOCATION. Repeatable.
    #[arg(long, value_name = "NAME=LOCATION", value_parser = named)]
    pub table: Vec<(String, String)>,

    /// How to print.
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}

/// Where a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// At the end that the topics had when it started.
    End,
}

/// What to do without a checkpoint that the tables need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnLostState {
    /// End, and say so.
    Stop,
    /// Make the state anew from offset 0 of every partition. Right only if the pipeline began there.
    Replay,
}

/// How a plan is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Picture {
    /// As text.
    Tree,
    /// For Graphviz.
    Dot,
    /// For Mermaid.
    Mermaid,
    /// A picture.
    Svg,
}

fn named(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, location)) if !name.is_empty() && !location.is_empty() => {
            Ok((name.to_owned(), location.to_owned()))
        }
        _ => Err("want NAME=LOCATION, such as hot=./lake/hot".to_owned()),
    }
}
