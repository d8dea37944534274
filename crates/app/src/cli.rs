//! The command line: option names and defaults of the peer (kafka-delta-ingest), `_` and `-` alike.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use lakeward_delta::encode::{Compression, WriterOptions};
use lakeward_protocol::core;

use crate::secrets;
use crate::stage;
use crate::start::Start;
use pipeline::{CheckArgs, CheckOther};

pub mod dlq;
pub mod format;
pub mod maintain;
pub mod mode;
pub mod offsets;
pub mod pipeline;

/// Carries streams to the lake, exactly once.
#[derive(Debug, Parser)]
#[command(name = "lakeward", version, max_term_width = 110, disable_help_subcommand = true)]
pub struct Cli {
    /// How to log, on standard error.
    #[arg(long, global = true, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line of text for each event.
    Text,
    /// A JSON object on a line for each event.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Carry a Kafka topic into a Delta table, exactly once, until stopped.
    Ingest(Box<IngestArgs>),
    /// Keep the answers of a pipeline up to date, exactly once, until stopped.
    Run(pipeline::RunArgs),
    /// Say what a pipeline, or an ingest, would do, and write nothing.
    Check(CheckArgs),
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
    /// Show where a table's jobs go on, or set it.
    #[command(subcommand)]
    Offsets(offsets::OffsetsCommand),
    /// Make small files few, keep the log short, and delete garbage, beside whoever writes.
    Maintain(maintain::MaintainArgs),
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

    /// Where partitions begin that the table has no offset of: earliest, latest, timestamp:2024-01-31T12:00:00Z
    /// (or ms since 1970), or offsets:0=123,1=45 (the first offset to take).
    ///
    /// Written to the table before any data. Instead of -o and --seek_offsets.
    #[arg(long, value_name = "WHERE", conflicts_with_all = ["auto_offset_reset", "seek_offsets"])]
    pub start: Option<Start>,

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
    #[arg(short = 'b', long, env = "MIN_BYTES_PER_FILE", default_value_t = 134_217_728, value_name = "BYTES")]
    pub min_bytes_per_file: u64,

    #[command(flatten)]
    pub mode: mode::ModeArgs,

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

    /// Send the peer's metrics to statsd here; an empty text sends none.
    ///
    /// KDI_METRICS_PREFIX replaces kafka_delta_ingest in their names; KDI_METRICS_INPUT_QUEUE_SIZE is how many
    /// timings a second are sent at most (100).
    #[arg(short = 's', long, env = "STATSD_ENDPOINT", default_value = "localhost:8125", value_name = "HOST:PORT")]
    pub statsd_endpoint: String,

    /// Make the table if there is none: from --schema, else inferred from the first messages.
    #[arg(long)]
    pub create: bool,

    /// Schema of the table to make: a file in Delta's schema JSON.
    #[arg(long, value_name = "FILE", requires = "create")]
    pub schema: Option<PathBuf>,

    /// Partition columns of the table to make.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', requires = "create")]
    pub partition_by: Vec<String>,

    /// Fields of messages that the table does not have become columns, and types wider where the table allows it.
    ///
    /// In the same commit as the data that needs them. With `log` the table stays as it is, and the log tells what
    /// would be added.
    #[arg(long, default_value = "no", default_missing_value = "add", num_args = 0..=1, require_equals = true,
          value_name = "HOW")]
    pub evolve: Evolve,

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

    /// A file that has grown to this size, in MiB, is ended, and the next one begun. A commit's files are smaller where
    /// less is held: see --min-bytes-per-file.
    #[arg(long, default_value_t = 128, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub target_file_mb: u64,

    /// Make small files few between the commits, which never wait for it: docs/maintain.md.
    #[arg(long)]
    pub auto_compact: bool,

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
            target_file_bytes: self.target_file_mb << 20,
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

/// What to do with fields that the table does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Evolve {
    /// Drop and count them.
    No,
    /// The same, and log the columns that they would be.
    Log,
    /// Add the columns.
    Add,
}

impl From<Evolve> for stage::Evolve {
    fn from(evolve: Evolve) -> Self {
        match evolve {
            Evolve::No => Self::No,
            Evolve::Log => Self::Log,
            Evolve::Add => Self::Add,
        }
    }
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
    read(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let matches = Cli::command().try_get_matches_from(arguments.into_iter().map(with_dashes))?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let wrong = |kind, text: String| Err(Cli::command().error(kind, text));
    if cli.settings().iter().any(|(key, _)| key.is_empty()) {
        // What stands there instead is not shown: it may be a secret.
        let text = "a value of -K, --kafka-setting is not KEY=VALUE, such as session.timeout.ms=30000".to_owned();
        return wrong(ErrorKind::ValueValidation, text);
    }
    if let Some(args) = cli.ingest_mut() {
        if let Some(extra) = args.extra.first() {
            let shown = match extra.split_once('=') {
                Some((key, _)) if secrets::is_secret(key) => format!("{key}=..."),
                _ => extra.clone(),
            };
            let text = format!(
                "unexpected value '{shown}': -t and -K take one value each, so write the option before every one"
            );
            return wrong(ErrorKind::TooManyValues, text);
        }
        if came_from_environment(&matches, "transforms") {
            args.transforms = args.transforms.iter().flat_map(|text| each_line(text)).collect();
        }
        if came_from_environment(&matches, "dlq_transforms") {
            let transforms = &mut args.dead_letters.dlq_transforms;
            *transforms = transforms.iter().flat_map(|text| each_line(text)).collect();
        }
    }
    Ok(cli)
}

impl Cli {
    /// The options of an ingest, to be run or checked.
    fn ingest_mut(&mut self) -> Option<&mut IngestArgs> {
        match &mut self.command {
            Command::Ingest(args) => Some(args),
            Command::Check(CheckArgs { other: Some(CheckOther::Ingest(args)), .. }) => Some(args),
            _ => None,
        }
    }

    fn settings(&self) -> &[(String, String)] {
        match &self.command {
            Command::Ingest(args) => &args.kafka.kafka_settings,
            Command::Check(CheckArgs { other: Some(CheckOther::Ingest(args)), .. }) => &args.kafka.kafka_settings,
            Command::Verify(args) => &args.kafka_settings,
            Command::Status(args) => &args.kafka_settings,
            Command::Offsets(offsets::OffsetsCommand::Set(args)) => &args.kafka_settings,
            _ => &[],
        }
    }
}

/// Whether the value of the innermost command's option is a variable's.
fn came_from_environment(matches: &clap::ArgMatches, option: &str) -> bool {
    match matches.subcommand() {
        Some((_, inner)) => came_from_environment(inner, option),
        None => matches.value_source(option) == Some(clap::parser::ValueSource::EnvVariable),
    }
}

/// A variable holds one transform a line; a line that begins with a blank goes on with the one before.
fn each_line(text: &str) -> Vec<String> {
    let mut transforms: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match transforms.last_mut().filter(|_| line.starts_with(char::is_whitespace)) {
            Some(before) => *before = format!("{before}\n{line}"),
            None => transforms.push(line.to_owned()),
        }
    }
    transforms
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

/// What is not KEY=VALUE has no key: were it refused here, clap would show it.
fn setting(text: &str) -> Result<(String, String), std::convert::Infallible> {
    let (key, value) = text.split_once('=').unwrap_or_default();
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ingest(arguments: &[&str]) -> Result<IngestArgs, clap::Error> {
        let words = ["lakeward", "ingest", "topic", "table"].into_iter().chain(arguments.iter().copied());
        read(words.map(OsString::from)).map(|cli| match cli.command {
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
        for (arguments, shown) in [(&["-t", "a: b", "c: d"], "'c: d'"), (&["-K", "a=b", "sasl.password=x"], "=...'")] {
            let error = ingest(arguments).unwrap_err().to_string();
            assert!(error.contains(shown) && !error.contains("password=x"), "{error}");
        }
    }

    #[test]
    fn a_variable_holds_a_transform_a_line() {
        #[rustfmt::skip] // columns: text, transforms
        let cases: [(&str, &[&str]); 4] = [
            ("a: b",                         &["a: b"]),
            ("a: b\nc: d\n",                 &["a: b", "c: d"]),
            ("\na: {x: y,\n    z: y}\r\nc: d", &["a: {x: y,\n    z: y}", "c: d"]),
            ("  a: b\n",                     &["  a: b"]),
        ];
        for (text, expected) in cases {
            assert_eq!(each_line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_setting_that_is_none_is_not_shown() {
        let error = ingest(&["-K", "sasl.password:hunter2"]).unwrap_err();
        assert!(error.exit_code() == 2 && !error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
