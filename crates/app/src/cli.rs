//! The command line: option names and defaults of the peer (kafka-delta-ingest), `_` and `-` alike.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lakeward_delta::encode::{Compression, WriterOptions};
use lakeward_protocol::core;

pub mod dlq;
pub mod format;
pub mod pipeline;

/// Carries streams to the lake, exactly once.
#[derive(Debug, Parser)]
#[command(name = "lakeward", version, max_term_width = 110, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Carry a Kafka topic into a Delta table, exactly once, until stopped.
    Ingest(Box<IngestArgs>),
    /// Keep the answers of a pipeline up to date, exactly once, until stopped.
    Run(pipeline::RunArgs),
    /// Plan a pipeline, look at its sources and sinks, and write nothing.
    Check(pipeline::CheckArgs),
    /// Show the incremental plan of a pipeline, as a tree or a picture.
    Explain(pipeline::ExplainArgs),
    /// Ask a question in SQL about a pipeline's tables, or about any Delta table.
    Query(pipeline::QueryArgs),
    /// Prove from a table's log that each offset is in it exactly once.
    Verify(VerifyArgs),
    /// Show a table's frontier by partition, and how far the topic is ahead.
    Status(StatusArgs),
    /// Look at dead letters, and send them again.
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// See it work: an embedded broker, two workers, kills, and the proof.
    Demo(DemoArgs),
}

/// Carry a Kafka topic into a Delta table.
#[derive(Clone, Debug, Args)]
pub struct IngestArgs {
    /// The topic to read.
    #[arg(env = "KAFKA_TOPIC")]
    pub topic: String,

    /// The table: a folder, or a URL such as s3://bucket/path.
    #[arg(env = "TABLE_LOCATION")]
    pub table: String,

    /// Catches values that follow a `-t` or `-K` without their own option.
    #[arg(hide = true, value_name = "EXTRA")]
    pub extra: Vec<String>,

    #[command(flatten)]
    pub kafka: KafkaArgs,

    /// Prefix of the table's transaction ids: `<APP_ID>-<partition>`. One job, one app id.
    #[arg(short, long, env = "APP_ID", default_value = "kafka_delta_ingest", value_name = "APP_ID")]
    pub app_id: String,

    /// First offsets to go on *after*, as JSON: {"0":123} makes 124 the first record of partition 0.
    ///
    /// For partitions that the table has no offset of; written to the table before any data.
    #[arg(long, env = "KAFKA_SEEK_OFFSETS", value_name = "JSON")]
    pub seek_offsets: Option<String>,

    /// Where a partition begins that the table has no offset of.
    #[arg(short = 'o', long, env = "KAFKA_AUTO_OFFSET_RESET", default_value = "earliest", value_name = "WHERE")]
    pub auto_offset_reset: Reset,

    /// Longest wait before a record is committed, in seconds.
    ///
    /// Lower gives fresher tables, and more and smaller files.
    #[arg(short = 'l', long, env = "ALLOWED_LATENCY", default_value_t = 300, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub allowed_latency: u64,

    /// Messages between two looks at --min-bytes-per-file.
    #[arg(short = 'm', long, env = "MAX_MESSAGES_PER_BATCH", default_value_t = 5000, value_name = "MESSAGES",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub max_messages_per_batch: u32,

    /// Commit once this many bytes of messages are held.
    #[arg(short = 'b', long, env = "MIN_BYTES_PER_FILE", default_value_t = 134_217_728, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub min_bytes_per_file: u64,

    #[command(flatten)]
    pub format: format::FormatArgs,

    /// Fill a column from a JMESPath over the message: 'PROPERTY: JMESPATH'. Repeatable.
    ///
    /// Functions beside JMESPath's own: substr(s, skip, take), epoch_seconds_to_iso8601, epoch_millis_to_iso8601,
    /// epoch_micros_to_iso8601, epoch_millis_to_micro. Sources beside the message: kafka.offset, kafka.partition,
    /// kafka.topic, kafka.timestamp (in microseconds), kafka.timestamp_type.
    #[arg(short = 't', long = "transform", env = "TRANSFORMS", value_name = "PROPERTY: JMESPATH")]
    pub transforms: Vec<String>,

    #[command(flatten)]
    pub dead_letters: dlq::DeadLetterArgs,

    /// Write a Delta checkpoint every 10 versions, rather than by the table's own interval.
    #[arg(short = 'c', long, env = "WRITE_CHECKPOINTS")]
    pub checkpoints: bool,

    /// Stop at the end that the topic had at the start.
    #[arg(short = 'e', long, env = "ENDS_AT_LATEST_OFFSETS")]
    pub ends_at_latest_offsets: bool,

    /// Make the table if there is none: from --schema, else inferred from the first messages.
    #[arg(long)]
    pub create: bool,

    /// Schema of the table to make: a file in Delta's schema JSON.
    #[arg(long, value_name = "FILE", requires = "create")]
    pub schema: Option<PathBuf>,

    /// Partition columns of the table to make.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', requires = "create")]
    pub partition_by: Vec<String>,

    /// When records that the table still needs are gone from the topic.
    #[arg(long, default_value = "stop", value_name = "POLICY")]
    pub on_gap: OnGap,

    /// When the table was restored to an older version, below what was committed.
    #[arg(long, default_value = "stop", value_name = "POLICY")]
    pub on_restore: OnRestore,

    /// When a message can't become a row of the table.
    #[arg(long, default_value = "skip", value_name = "POLICY")]
    pub on_bad_record: OnBadRecord,

    /// Write to a store that ignores conditions (no put if absent), under a lease: one process alone.
    ///
    /// Without this such a store is refused. See docs/stores.md.
    #[arg(long)]
    pub unsafe_single_writer: bool,

    /// Memory to stay within, in MiB. Default: a quarter of the machine's or the cgroup's, at most 1024.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..))]
    pub memory_mb: Option<u64>,

    /// Threads that decode and encode. More than the assigned partitions are no use.
    #[arg(long, default_value_t = 1, value_name = "THREADS", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,

    /// Compression of the Parquet files: none, snappy, zstd or zstd:LEVEL. zstd takes half of snappy's room.
    #[arg(long, default_value = "snappy", value_name = "CODEC")]
    pub compression: Compression,

    /// Only PLAIN and dictionary encodings in Parquet files, for old readers.
    #[arg(long)]
    pub plain_encodings: bool,

    /// Serve /metrics, /healthz and /readyz here, such as 127.0.0.1:9090.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<SocketAddr>,
}

impl IngestArgs {
    /// How files are written.
    #[must_use]
    pub fn writer_options(&self) -> WriterOptions {
        WriterOptions {
            compression: self.compression,
            plain_encodings: self.plain_encodings,
            ..WriterOptions::default()
        }
    }
}

/// How to reach Kafka.
#[derive(Clone, Debug, Args)]
pub struct KafkaArgs {
    /// Brokers to start from.
    #[arg(short, long = "kafka", env = "KAFKA_BROKERS", default_value = "localhost:9092", value_name = "HOST:PORT,..")]
    pub kafka: String,

    /// Consumer group: the processes of one job share it.
    #[arg(short = 'g', long, env = "KAFKA_CONSUMER_GROUP", default_value = "kafka_delta_ingest", value_name = "GROUP")]
    pub consumer_group: String,

    /// A setting of librdkafka: KEY=VALUE. Repeatable.
    #[arg(short = 'K', long = "kafka-setting", value_name = "KEY=VALUE", value_parser = setting)]
    pub kafka_settings: Vec<(String, String)>,
}

/// Prove that each offset is in a table exactly once.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// The table; or a pipeline file (SQL), for all of its tables and what binds them together.
    pub table: String,

    /// Compare also with what the topic still holds at these brokers.
    #[arg(short, long, value_name = "HOST:PORT,..")]
    pub kafka: Option<String>,

    /// A setting of librdkafka: KEY=VALUE. Repeatable.
    #[arg(short = 'K', long = "kafka-setting", value_name = "KEY=VALUE", value_parser = setting)]
    pub kafka_settings: Vec<(String, String)>,

    /// How to print.
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}

/// Show a table's frontier.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// The table; or a pipeline file (SQL), for all of its tables.
    pub table: String,

    /// Ask these brokers how far the topic is ahead.
    #[arg(short, long, value_name = "HOST:PORT,..")]
    pub kafka: Option<String>,

    /// A setting of librdkafka: KEY=VALUE. Repeatable.
    #[arg(short = 'K', long = "kafka-setting", value_name = "KEY=VALUE", value_parser = setting)]
    pub kafka_settings: Vec<(String, String)>,

    /// How to print.
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}

/// See it work.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Where the table goes; a table of an earlier demo there is replaced.
    #[arg(default_value = "lakeward-demo")]
    pub folder: PathBuf,

    /// Web requests to produce.
    #[arg(long, default_value_t = 400_000, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1_000..=700_000))]
    pub messages: u64,
}

/// Where a partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reset {
    Earliest,
    Latest,
}

/// What to do when input is gone (P9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnGap {
    /// End, saying what is gone.
    Stop,
    /// Go on behind the gap; it is logged, counted and written into the table's commit.
    Skip,
}

/// What to do when output is gone (P9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnRestore {
    /// End, saying what is gone.
    Stop,
    /// Read again what the restore took away.
    Replay,
    /// Go on; what the restore took away stays away, and the table's commit says so.
    Accept,
}

impl From<OnRestore> for core::OnRestore {
    fn from(on_restore: OnRestore) -> Self {
        match on_restore {
            OnRestore::Stop => Self::Stop,
            OnRestore::Replay => Self::Replay,
            OnRestore::Accept => Self::Accept,
        }
    }
}

/// What to do with a message that can't become a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnBadRecord {
    /// Log it, count it, go on.
    Skip,
    /// End, saying which and why.
    Stop,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Json,
}

/// Reads the process's command line; prints help or what is wrong, and ends with 0 or 2.
#[must_use]
pub fn parse() -> Cli {
    let cli = Cli::parse_from(std::env::args_os().map(with_dashes));
    if let Command::Ingest(args) = &cli.command
        && let Some(extra) = args.extra.first()
    {
        let text =
            format!("unexpected value '{extra}': -t and -K take one value each, so write the option before every one");
        <Cli as clap::CommandFactory>::command().error(clap::error::ErrorKind::TooManyValues, text).exit();
    }
    cli
}

/// `--allowed_latency=5` is `--allowed-latency=5`: the peer's spelling of long options.
fn with_dashes(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.starts_with("--") => match text.split_once('=') {
            Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
            None => text.replace('_', "-").into(),
        },
        _ => argument,
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("want KEY=VALUE, such as session.timeout.ms=30000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ingest(arguments: &[&str]) -> Result<IngestArgs, clap::Error> {
        let words = ["lakeward", "ingest", "topic", "table"].into_iter().chain(arguments.iter().copied());
        Cli::try_parse_from(words.map(|word| with_dashes(word.into()))).map(|cli| match cli.command {
            Command::Ingest(args) => *args,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_peers_defaults() {
        let args = ingest(&[]).unwrap();
        assert_eq!(
            (args.kafka.kafka.as_str(), args.kafka.consumer_group.as_str()),
            ("localhost:9092", "kafka_delta_ingest")
        );
        assert_eq!((args.app_id.as_str(), args.allowed_latency), ("kafka_delta_ingest", 300));
        assert_eq!((args.max_messages_per_batch, args.min_bytes_per_file), (5000, 134_217_728));
        assert_eq!(
            (args.auto_offset_reset, args.checkpoints, args.ends_at_latest_offsets),
            (Reset::Earliest, false, false)
        );
    }

    #[test]
    fn both_spellings_of_long_options_but_values_stay() {
        for spelling in ["--allowed_latency=7", "--allowed-latency=7"] {
            assert_eq!(ingest(&[spelling]).unwrap().allowed_latency, 7);
        }
        assert_eq!(ingest(&["--app_id=a_b"]).unwrap().app_id, "a_b");
        assert_eq!(
            ingest(&["--kafka_setting", "x.y=a_b=c"]).unwrap().kafka.kafka_settings,
            [("x.y".into(), "a_b=c".into())]
        );
    }

    #[test]
    fn transforms_repeat_and_take_one_value_each() {
        assert_eq!(ingest(&["-t", "a: b", "-t", "c: d"]).unwrap().transforms, ["a: b", "c: d"]);
        assert_eq!(ingest(&["-t", "a: b", "c: d"]).unwrap().extra, ["c: d"]);
    }

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
