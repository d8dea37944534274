//! The command line of `offsets`.

use clap::{Args, Subcommand};

use super::{Output, setting};
use crate::start::Start;

/// What to do with a table's offsets.
#[derive(Clone, Debug, Subcommand)]
pub enum OffsetsCommand {
    /// Show every offset that a table stores, and who stored it.
    Show(ShowArgs),
    /// Set where a job goes on. Shows what that comes to; writes nothing without --yes.
    Set(SetArgs),
}

/// Show a table's offsets.
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The table: a folder, or a URL such as s3://bucket/path.
    pub table: String,

    /// How to print.
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}

/// Set a table's offsets.
#[derive(Clone, Debug, Args)]
pub struct SetArgs {
    /// The table: a folder, or a URL such as s3://bucket/path.
    pub table: String,

    /// Where to: earliest, latest, timestamp:2024-01-31T12:00:00Z, or offsets:0=123,1=45.
    ///
    /// An offset is the first one that the job will take. All but `offsets:` set every partition, and ask the
    /// brokers (-k) which offsets these are.
    #[arg(long, value_name = "WHERE")]
    pub to: Start,

    /// The job: prefix of its transaction ids in the table.
    #[arg(short, long, env = "APP_ID", default_value = "kafka_delta_ingest", value_name = "APP_ID")]
    pub app_id: String,

    /// The topic; by default the one that the job's last commits name.
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<String>,

    /// Compare with what the topic holds at these brokers.
    #[arg(short, long, value_name = "HOST:PORT,..")]
    pub kafka: Option<String>,

    /// A setting of librdkafka: KEY=VALUE. Repeatable.
    #[arg(short = 'K', long = "kafka-setting", value_name = "KEY=VALUE", value_parser = setting)]
    pub kafka_settings: Vec<(String, String)>,

    /// Why: stands in the table's log. Needed with --yes.
    #[arg(long, value_name = "TEXT", required_if_eq("yes", "true"))]
    pub reason: Option<String>,

    /// Go back although records will be in the table twice, or to offsets that the topic does not hold.
    #[arg(long)]
    pub force: bool,

    /// Do it.
    #[arg(long)]
    pub yes: bool,

    /// How to print.
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}
