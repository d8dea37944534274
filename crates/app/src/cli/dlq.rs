//! Options about dead letters: of `ingest`, and the command `dlq`.

use clap::{Args, Subcommand};

use super::{OnBadRecord, Output, setting};

/// Where messages go that can't become rows.
#[derive(Clone, Debug, Default, Args)]
pub struct DeadLetterArgs {
    /// Table of dead letters: messages that can't become a row, with their bytes, their place and the reason.
    ///
    /// It must be there, unless --create makes it. Filled where the table has them: base64_bytes or json_string, error,
    /// timestamp, topic, partition, offset, key, headers, kafka_timestamp, app_id, error_kind.
    #[arg(long, env = "DLQ_TABLE_LOCATION", value_name = "TABLE")]
    pub dlq_table_location: Option<String>,

    /// Fill a column of the dead-letter table from a JMESPath over the letter: 'PROPERTY: JMESPATH'. Repeatable.
    ///
    /// For one: 'date: substr(epoch_micros_to_iso8601(timestamp), `0`, `10`)'.
    #[arg(long = "dlq-transform", env = "DLQ_TRANSFORMS", value_name = "PROPERTY: JMESPATH")]
    pub dlq_transforms: Vec<String>,
}

impl DeadLetterArgs {
    /// Where the table is, if there is one.
    #[must_use]
    pub fn table(&self) -> Option<&str> {
        self.dlq_table_location.as_deref().filter(|location| !location.is_empty())
    }
}

/// Look at dead letters, and send them again.
#[derive(Debug, Subcommand)]
pub enum DlqCommand {
    /// List the letters of a table, newest first.
    Ls(LsArgs),
    /// Show letters whole: reason, place, key, headers, value.
    Show(ShowArgs),
    /// Send letters again, each once: to a topic, or into a table.
    Replay(ReplayArgs),
}

/// Which letters.
#[derive(Clone, Debug, Default, Args)]
pub struct FilterArgs {
    /// Letters of this kind (`error_kind`). Repeatable.
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,

    /// Letters of this topic. Repeatable.
    #[arg(long, value_name = "TOPIC")]
    pub topic: Vec<String>,

    /// Letters made at this time or later, such as 2026-12-01 or 2026-12-01T08:00:00Z (UTC where no zone is given).
    #[arg(long, value_name = "TIME", value_parser = micros)]
    pub since: Option<i64>,

    /// Letters made before this time.
    #[arg(long, value_name = "TIME", value_parser = micros)]
    pub until: Option<i64>,
}

/// List letters.
#[derive(Clone, Debug, Args)]
pub struct LsArgs {
    /// The table of dead letters; one that kafka-delta-ingest wrote will do.
    pub table: String,

    #[command(flatten)]
    pub filter: FilterArgs,

    /// At most so many, the newest. All are counted.
    #[arg(long, default_value_t = 100, value_name = "LETTERS")]
    pub limit: usize,

    /// How to print.
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}

/// Show letters.
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The table of dead letters; one that kafka-delta-ingest wrote will do.
    pub table: String,

    #[command(flatten)]
    pub filter: FilterArgs,

    /// The letter of this partition.
    #[arg(long, value_name = "NUMBER")]
    pub partition: Option<i64>,

    /// The letter of this offset.
    #[arg(long, value_name = "OFFSET")]
    pub offset: Option<i64>,

    /// At most so many, the newest.
    #[arg(long, default_value_t = 10, value_name = "LETTERS")]
    pub limit: usize,

    /// How to print.
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
}

/// Send letters again.
///
/// How far it came is stored with what is sent, in the same transaction: whoever interrupts it, or starts it again, sends
/// no letter twice. Letters that were written since are sent by the next start. Other filters, and another target, are
/// another replay.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("target").required(true))]
pub struct ReplayArgs {
    /// The table of dead letters; one that kafka-delta-ingest wrote will do.
    pub table: String,

    /// Produce the messages to this topic: values, keys and headers byte by byte as they came.
    #[arg(long, group = "target", value_name = "TOPIC")]
    pub to: Option<String>,

    /// Make rows of this table of them, as `ingest` does.
    #[arg(long, group = "target", value_name = "TABLE")]
    pub into: Option<String>,

    #[command(flatten)]
    pub filter: FilterArgs,

    /// Brokers to start from, with --to.
    #[arg(short, long = "kafka", env = "KAFKA_BROKERS", default_value = "localhost:9092", value_name = "HOST:PORT,..")]
    pub kafka: String,

    /// A setting of librdkafka: KEY=VALUE. Repeatable.
    #[arg(short = 'K', long = "kafka-setting", value_name = "KEY=VALUE", value_parser = setting)]
    pub kafka_settings: Vec<(String, String)>,

    /// Fill a column from a JMESPath over the message, with --into: 'PROPERTY: JMESPATH'. Repeatable.
    #[arg(short = 't', long = "transform", requires = "into", value_name = "PROPERTY: JMESPATH")]
    pub transforms: Vec<String>,

    /// When a message still can't become a row, with --into: `skip` leaves it where it is.
    #[arg(long, default_value = "stop", value_name = "POLICY")]
    pub on_bad_record: OnBadRecord,

    /// Under which name progress is kept. Another name sends everything once more.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

fn micros(text: &str) -> Result<i64, String> {
    let parsed = arrow_cast::parse::string_to_timestamp_nanos(text);
    parsed.map(|nanos| nanos / 1000).map_err(|_| "want a time such as 2026-12-01 or 2026-12-01T08:00:00Z".to_owned())
}
