//! A pipeline file as a validated value: sources, views over them, sinks, and settings.
//!
//! ```sql
//! CREATE SOURCE bid (auction BIGINT, price BIGINT) WITH (kafka = 'localhost:9092', topic = 'bid');
//! CREATE VIEW hot AS SELECT auction, COUNT(*) AS bids FROM bid GROUP BY auction;
//! CREATE SINK hot_table FROM hot WITH (delta = './hot', mode = 'upsert', key = 'auction');
//! ```
//!
//! DataFusion's tokenizer cuts the file into statements and reads types and queries; the statements around them and
//! their options are ours. What users write stands in `docs/sql.md`, why it is so in `docs/decisions`. Invariants:
//! - what is not known is a fault with a place: an option, a name, a kind of value; nothing is passed over;
//! - a value that came from the environment shows in no error and no `Debug`;
//! - names are defined above their use and once, so views need no sorting and form no circle;
//! - no text makes it panic: nesting is bounded by [`MAX_NESTING`], chains of operators by [`MAX_CHAIN`].
//!
//! No planning: whether a query can be answered, and what columns it has, the planner says. No I/O; the environment
//! comes in as a function.

mod columns;
mod cursor;
mod depth;
mod error;
mod names;
mod nearest;
mod options;
mod reads;
mod refused;
mod settings;
mod sink;
mod source;
mod text;
mod types;
mod view;
mod written;

#[cfg(test)]
mod tests;

use arrow_schema::{DataType, Field, Schema};
use datafusion::sql::sqlparser::ast::{Ident, Query};

pub use error::{Place, SqlError};
pub use nearest::nearest;
pub use text::Text;
pub use written::{Compression, Encoding, Language, Written};

use cursor::Cursor;
use error::Problem;
use options::{Environment, Options};

/// How deep queries and expressions may be nested: DataFusion's own bound.
pub const MAX_NESTING: usize = 50;

/// Longest chain of operators in an expression, or of UNIONs, as in `a OR b OR ..`: each link is one level of the tree
/// that all later passes descend.
pub const MAX_CHAIN: usize = 400;

/// Largest pipeline file, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// What some editors begin a file with.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A whole pipeline file. All names in it are resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// What concerns all of it.
    pub settings: Settings,
    /// At least one, in the order of the file.
    pub sources: Vec<Source>,
    /// In the order of the file: a view reads sources and views before it.
    pub views: Vec<View>,
    /// At least one, in the order of the file, which is the order of commits in a step (P7). The table of dead letters
    /// is the last.
    pub sinks: Vec<Sink>,
    /// The file.
    text: String,
}

/// What `SET` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Names the pipeline in its sinks' transactions. The program chooses where it is `None`.
    pub app_id: Option<Text>,
    /// Folder or URL of the checkpoints. The program chooses where it is `None`.
    pub state: Option<Text>,
    /// Folder that the circuit works in, where the checkpoints are copied elsewhere.
    pub state_cache: Option<Text>,
    /// Whether the last of the sinks is the table of dead letters.
    pub has_dead_letters: bool,
    /// Between two checkpoints, in milliseconds.
    pub checkpoint_interval_ms: u64,
    /// Longest wait of a message before its step begins, in milliseconds.
    pub step_latency_ms: u64,
    /// Most messages in one step.
    pub step_max_messages: u64,
    /// Threads of the circuit.
    pub workers: u16,
    /// Memory to stay within, in MiB. The program chooses where it is `None`.
    pub memory_mb: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            app_id: None,
            state: None,
            state_cache: None,
            has_dead_letters: false,
            checkpoint_interval_ms: 60_000,
            step_latency_ms: 1_000,
            step_max_messages: 1_000_000,
            workers: 1,
            memory_mb: None,
        }
    }
}

/// A name as DataFusion takes it: lower case, unless it was quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where it stands. For one of several in an option's text, where the text stands.
    pub place: Place,
}

impl Name {
    /// As [`Name::of`]; the parser gives names in single quotes no place, and then it is `instead`.
    fn of_or(ident: &Ident, instead: Place) -> Self {
        let name = Self::of(ident);
        if name.place.line == 0 { Self { place: instead, ..name } } else { name }
    }

    fn of(ident: &Ident) -> Self {
        let is_quoted = ident.quote_style.is_some();
        let text = if is_quoted { ident.value.clone() } else { ident.value.to_ascii_lowercase() };
        Self { text, place: Place::of(ident.span) }
    }
}

/// Messages that come in, as a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its name in queries.
    pub name: Name,
    /// At least one.
    pub columns: Vec<Column>,
    /// Positions in `columns` of the PRIMARY KEY, in its order. A message then replaces its key's row. Empty without.
    pub key: Vec<usize>,
    /// What a WATERMARK says.
    pub lateness: Option<Lateness>,
    /// Where messages come from.
    pub from: Origin,
    /// How messages are written.
    pub written: Written,
    /// Where a field of the message says what it does; else each message is a row.
    pub changes: Option<Changes>,
    /// What to do when messages are gone before they were read (P9).
    pub on_gap: OnFault,
    /// Whether messages that nothing needs any more are deleted from the source (P3).
    pub trim: bool,
    /// What to do with a message that can't become a row.
    pub on_bad_record: OnFault,
}

impl Source {
    /// Its columns as Arrow has them.
    #[must_use]
    pub fn schema(&self) -> Schema {
        let field = |column: &Column| Field::new(&column.name.text, column.data_type.clone(), column.nullable);
        Schema::new(self.columns.iter().map(field).collect::<Vec<_>>())
    }
}

/// A source's column. Timestamps are microseconds: without a zone, or in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, which is also the name of the message's field.
    pub name: Name,
    /// Its type.
    pub data_type: DataType,
    /// Whether NULL may stand in it. Never in a PRIMARY KEY.
    pub nullable: bool,
}

/// A promise about event times: a row whose time is more than `lateness_us` below the largest before it in its own
/// partition is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Position of the event time among the columns; a timestamp.
    pub column: usize,
    /// In microseconds.
    pub lateness_us: u64,
    /// Where the WATERMARK stands.
    pub place: Place,
}

/// What a source reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A Kafka topic.
    Kafka(KafkaSource),
}

/// A Kafka topic to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSource {
    /// Brokers to start from: `host:port,..`.
    pub brokers: Text,
    /// The topic.
    pub topic: Text,
    /// Where a partition begins that was never read.
    pub start: Start,
    /// In the order of the file, each name once.
    pub settings: Vec<KafkaSetting>,
}

/// A setting of librdkafka, `kafka.NAME = 'value'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSetting {
    /// Its name, as in `security.protocol`.
    pub name: String,
    /// Its value. Secret also by its name, as a password.
    pub value: Text,
    /// Where it stands.
    pub place: Place,
}

/// Where a partition begins that was never read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At its oldest message.
    Earliest,
    /// Behind its newest message.
    Latest,
}

/// How a sink's messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a message.
    Json,
}

/// Whether to end at a fault or to pass over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// End, saying what is wrong and where.
    Stop,
    /// Go on behind it; it is told of and counted.
    Skip,
}

/// A field of each message that says what the message does with its row. The field is no column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The field, as messages write it. Another value than those below makes the message a bad record.
    pub field: String,
    /// Values that insert the row.
    pub insert: Vec<String>,
    /// Values that replace the row of the same key; none without a key.
    pub update: Vec<String>,
    /// Values that delete the row, by its key where there is one.
    pub delete: Vec<String>,
}

/// A query with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Its name in queries.
    pub name: Name,
    /// The query. Its spans are places of the file.
    pub query: Query,
    /// The query as it was written.
    pub text: String,
    /// Where `text` starts.
    pub place: Place,
    /// The sources and views that it reads, each once; all defined above it.
    pub reads: Vec<Name>,
}

/// Where a view's rows go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sink {
    /// Its name, in messages and metrics.
    pub name: Name,
    /// The view or source that it writes.
    pub from: Name,
    /// Where to.
    pub target: Target,
}

/// What a sink writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Delta table.
    Delta(DeltaSink),
    /// A Kafka topic.
    Kafka(KafkaSink),
}

/// A Delta table to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaSink {
    /// Folder or URL.
    pub location: Text,
    /// Where the location stands.
    pub place: Place,
    /// `None`: append where the view only grows, else upsert.
    pub mode: Option<Mode>,
    /// Columns that name a row; with [`Mode::Upsert`] alone. Empty: the whole row does. Of a view unchecked.
    pub key: Vec<Name>,
    /// Partition columns of a table that is made. Of a view unchecked.
    pub partition_by: Vec<Name>,
}

/// A Kafka topic to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSink {
    /// Brokers to start from: `host:port,..`.
    pub brokers: Text,
    /// The topic.
    pub topic: Text,
    /// Where the topic stands.
    pub place: Place,
    /// How messages are written.
    pub format: Format,
    /// `None`: append where the view only grows, else upsert with a key and changelog without.
    pub mode: Option<Mode>,
    /// Columns of the message's key. Not empty with an explicit [`Mode::Upsert`]. Of a view unchecked.
    pub key: Vec<Name>,
    /// In the order of the file, each name once.
    pub settings: Vec<KafkaSetting>,
}

/// How changes of a view are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// New rows alone; for views that only grow.
    Append,
    /// The table is the view: changed and deleted rows are replaced and removed. A topic gets the newest row of a key,
    /// and an empty message where it is gone.
    Upsert,
    /// Each insert and delete as a row of its own.
    Changelog,
}

impl Pipeline {
    /// Reads a pipeline file. `environment` gives the values of `${NAME}` in options.
    ///
    /// # Errors
    /// The first fault of the file, with its place and what to write instead.
    pub fn parse(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, SqlError> {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        read(text, environment).map_err(|problem| problem.in_text(text))
    }

    /// The source of this name.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.name.text == name)
    }

    /// The view of this name.
    #[must_use]
    pub fn view(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.name.text == name)
    }

    /// The sinks of views and sources: all but the table of dead letters.
    #[must_use]
    pub fn sinks_of_views(&self) -> &[Sink] {
        &self.sinks[..self.sinks.len() - usize::from(self.settings.has_dead_letters)]
    }

    /// A fault that was found later, shown like those of [`Pipeline::parse`].
    #[must_use]
    pub fn error(&self, place: Place, message: impl Into<String>) -> SqlError {
        SqlError::new(&self.text, place, message)
    }
}

fn read(text: &str, environment: Environment) -> Result<Pipeline, Problem> {
    let start = Place { line: 1, column: 1, width: 1 };
    if text.len() > MAX_FILE_BYTES {
        return Err(Problem::new(start, format!("a pipeline file has at most {MAX_FILE_BYTES} bytes")));
    }
    let mut pipeline = Pipeline {
        settings: Settings::default(),
        sources: Vec::new(),
        views: Vec::new(),
        sinks: Vec::new(),
        text: text.to_owned(),
    };
    let mut options = Options::none("the pipeline");
    let mut end = start;
    for mut cursor in cursor::statements(text)? {
        end = cursor.start();
        statement(&mut cursor, &mut pipeline, &mut options, environment)?;
    }
    let (settings, dead_letters) = settings::settings(options)?;
    pipeline.settings = settings;
    pipeline.sinks.extend(dead_letters);
    names::check(&pipeline)?;
    let lacks = match (pipeline.sources.is_empty(), pipeline.sinks_of_views().is_empty()) {
        (true, _) => "a pipeline reads something: CREATE SOURCE name (columns) WITH (kafka = .., topic = ..)",
        (_, true) => "a pipeline writes something: CREATE SINK name FROM view WITH (delta = './folder')",
        _ => return Ok(pipeline),
    };
    Err(Problem::new(end, lacks))
}

fn statement(
    cursor: &mut Cursor,
    pipeline: &mut Pipeline,
    options: &mut Options,
    environment: Environment,
) -> Result<(), Problem> {
    if cursor.word("SET") {
        return options.add(settings::read(cursor, environment)?);
    }
    if !cursor.word("CREATE") {
        return Err(refused::other(cursor));
    }
    if cursor.word("SOURCE") {
        not_if_not_exists(cursor)?;
        pipeline.sources.push(source::read(cursor, environment)?);
    } else if cursor.word("VIEW") || cursor.words(&["MATERIALIZED", "VIEW"]) {
        not_if_not_exists(cursor)?;
        pipeline.views.push(view::read(cursor, &pipeline.text)?);
    } else if cursor.word("SINK") {
        not_if_not_exists(cursor)?;
        pipeline.sinks.push(sink::read(cursor, environment)?);
    } else {
        return Err(refused::create(cursor));
    }
    Ok(())
}

fn not_if_not_exists(cursor: &mut Cursor) -> Result<(), Problem> {
    let place = cursor.place();
    if cursor.words(&["IF", "NOT", "EXISTS"]) {
        return Err(Problem::new(place, "leave IF NOT EXISTS out: the file is read as a whole"));
    }
    Ok(())
}
