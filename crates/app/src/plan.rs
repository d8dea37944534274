//! The command line of `ingest` as what each room is told.

use std::path::Path;
use std::sync::Arc;

use lakeward_decode::{Debezium, Encoding, Format, Transforms};
use lakeward_delta::encode::WriterOptions;
use lakeward_delta::view::Compaction;
use lakeward_delta::view::ViewOptions;
use lakeward_delta::{ByNote, Checkpoints, TableOptions, TableSchema, Topic};
use lakeward_kafka::{Source, SourceConfig, TopicIdentity};
use lakeward_protocol::core::{self, Beginning, Policies};
use lakeward_protocol::drive::Limits;
use lakeward_protocol::ports::Exit;
use lakeward_protocol::position::{Frontier, Offset, PartitionId};

use crate::budget::Budget;
use crate::cli::{Evolve, IngestArgs, OnBadRecord, OnGap, Reset};
use crate::failure::Failure;
use crate::registry::Registry;
use crate::secrets;
use crate::session::Session;
use crate::stage::{ByKeyOptions, LetterOptions, StageOptions};
use crate::start::Start;
use crate::statsd;
use crate::who::who;

/// More small files than this, of one partition value, are made one by `--auto-compact`.
const SMALL_FILES: usize = 50;

/// What the options come to, before anything is asked or opened.
pub struct Plan {
    /// The options.
    pub args: IngestArgs,
    /// What messages are written in.
    pub format: Format,
    /// Where their schemas are.
    pub registry: Option<Arc<Registry>>,
    /// Columns made by expressions.
    pub transforms: Transforms,
    /// The same of the dead-letter table.
    letter_transforms: Transforms,
    seek: Frontier,
    /// Who gets how much memory.
    pub budget: Budget,
    /// Where rows go into the table by key: how. Its writer's memory is the stage's.
    pub upsert: Option<ViewOptions>,
    /// How to reach the topic.
    pub source: SourceConfig,
    /// Memory for files that are made few.
    moved_bytes: u64,
    /// What `--schema` holds.
    pub schema: Option<TableSchema>,
    /// Where the peer's metrics go.
    pub statsd: Option<statsd::Options>,
}

impl Plan {
    /// Reads what the options say, and the file that `--schema` names.
    ///
    /// # Errors
    /// Options that make no sense; a file that can't be read, or holds no schema.
    pub fn new(args: IngestArgs) -> Result<Self, Failure> {
        let transforms = Transforms::parse(&args.transforms).map_err(Failure::usage)?;
        let seek = args.seek_offsets.as_deref().map_or(Ok(Frontier::new()), seek_offsets).map_err(Failure::usage)?;
        let letter_transforms = Transforms::parse(&args.dead_letters.dlq_transforms).map_err(Failure::usage)?;
        if args.dead_letters.table().is_some() && args.on_bad_record == OnBadRecord::Stop {
            return Err(Failure::usage(
                "--on-bad-record=stop ends at the first message that can't become a row, and --dlq_table_location keeps \
                 them and goes on: leave one of them out",
            ));
        }
        args.mode.check(args.format.debezium)?;
        if args.auto_compact && args.mode.is_upsert() {
            return Err(Failure::usage(
                "a table in mode upsert is compacted as it is written: leave --auto-compact out",
            ));
        }
        let whole = Budget::new(args.memory_mb);
        let ((keys_bytes, budget), moved_bytes) = match (args.mode.is_upsert(), args.auto_compact) {
            (true, _) => (whole.with_keys(), 0),
            (false, false) => ((0, whole), 0),
            (false, true) => {
                let (files, budget) = whole.with_compaction();
                ((0, budget), files)
            }
        };
        let mut source = SourceConfig::new(&args.kafka.kafka, &args.kafka.consumer_group, &args.topic);
        source.settings = secrets::kafka(&args.kafka.kafka_settings);
        source.memory_bytes = usize::try_from(budget.fetch_bytes + budget.arena_bytes).unwrap_or(usize::MAX);
        let has_letters = args.dead_letters.table().is_some();
        (source.keys, source.headers) = (has_letters, has_letters);
        let schema = args.schema.as_deref().map(schema_file).transpose()?;
        let registry = args.format.registry()?;
        let mut format = args.format.format(registry.as_ref())?;
        let upsert = args.mode.is_upsert().then(|| upsert(&args, &mut format, &budget, keys_bytes)).transpose()?;
        source.keys |= upsert.is_some();
        let events = format.debezium != Debezium::No;
        let plain = matches!(format.encoding, Encoding::Json) && format.compression.is_none() && !events;
        if args.evolve != Evolve::No && !plain {
            return Err(Failure::usage("--evolve looks for new fields in plain JSON messages alone; leave it out"));
        }
        source.keys |= format.wants_keys();
        source.headers |= format.wants_keys();
        let statsd = statsd::Options::new(&args.statsd_endpoint, |name| std::env::var(name).ok());
        let statsd = statsd.map_err(Failure::usage)?;
        Ok(Self {
            args,
            format,
            registry,
            transforms,
            letter_transforms,
            seek,
            budget,
            moved_bytes,
            upsert,
            source,
            schema,
            statsd,
        })
    }

    /// Columns of the dead-letter table made by expressions.
    #[must_use]
    pub fn letter_transforms(&self) -> &Transforms {
        &self.letter_transforms
    }

    /// How the table is opened, for a topic as far as it is known.
    #[must_use]
    pub fn table_options(&self, session: &Session, topic: Option<TopicIdentity>) -> TableOptions {
        TableOptions {
            app_id: self.args.app_id.clone(),
            topic: topic.map(|topic| Topic { name: topic.name, id: topic.id }),
            checkpoints: if self.args.checkpoints { Checkpoints::Every(10) } else { Checkpoints::AsTheTableSays },
            runtime: session.runtime.handle().clone(),
        }
    }

    /// Which files are made few, and how they are written; `None` where that is not asked for.
    #[must_use]
    pub fn compaction(&self) -> Option<(Compaction, WriterOptions)> {
        // Rows on the way, and the files that they become.
        let part = self.moved_bytes / 2;
        let policy = Compaction {
            small_files: SMALL_FILES,
            small_file_bytes: Compaction::default().small_file_bytes.min(part / 4),
            most_bytes: part,
            ..Compaction::default()
        };
        let memory_bytes = usize::try_from(part).unwrap_or(usize::MAX);
        let writer = WriterOptions { memory_bytes, keeps_rules: true, ..self.args.writer_options() };
        self.args.auto_compact.then_some((policy, writer))
    }

    /// How records become files.
    #[must_use]
    pub fn stage_options(&self, session: &Session) -> StageOptions {
        let most_bytes = usize::try_from(self.budget.stage_bytes).unwrap_or(usize::MAX);
        let workers = usize::from(self.args.workers);
        let mut writer = self.args.writer_options();
        writer.memory_bytes = most_bytes / workers;
        writer.keeps_rules = true;
        StageOptions {
            topic: self.args.topic.clone(),
            format: self.format.clone(),
            transforms: self.transforms.clone(),
            view: None,
            letters: self.args.dead_letters.table().map(|_| LetterOptions {
                app_id: self.args.app_id.clone(),
                transforms: self.letter_transforms.clone(),
            }),
            evolve: self.args.evolve.into(),
            by_key: self.upsert.as_ref().map(|upsert| ByKeyOptions {
                key: upsert.key.clone(),
                app_id: self.args.app_id.clone(),
                unavailable: self.args.mode.unavailable(self.args.format.debezium),
            }),
            writer,
            stop_at_bad: self.args.on_bad_record == OnBadRecord::Stop,
            workers,
            most_bytes,
            most_messages: usize::MAX,
            runtime: session.runtime.handle().clone(),
        }
    }

    /// What is decided where input or output is gone, and where reading begins and ends.
    #[must_use]
    pub fn policies(&self, starts: Frontier, ends: Option<Frontier>) -> Policies {
        Policies {
            on_gap: match self.args.on_gap {
                OnGap::Stop => core::OnGap::Stop,
                OnGap::Skip => core::OnGap::Skip,
            },
            on_restore: self.args.on_restore.into(),
            beginning: match (&self.args.start, self.args.auto_offset_reset) {
                (Some(Start::Latest), _) | (None, Reset::Latest) => Beginning::Latest,
                (Some(_), _) | (None, Reset::Earliest) => Beginning::Earliest,
            },
            seek: match &self.args.start {
                Some(Start::Offsets(offsets)) => offsets.clone(),
                _ => self.seek.clone(),
            },
            starts,
            ends,
            dead_letters: self.args.dead_letters.table().is_some(),
            set: None,
        }
    }

    /// Where partitions begin by a time, asked from the brokers.
    ///
    /// # Errors
    /// What waiting does not heal.
    pub fn starts(&self, session: &Session, source: &Source) -> Result<Option<Frontier>, Failure> {
        match &self.args.start {
            Some(start @ Start::Timestamp(_)) => session.wait_for(|| start.places(source)),
            _ => Ok(Some(Frontier::new())),
        }
    }

    /// Who chose where partitions begin, and how, for the table's log.
    #[must_use]
    pub fn signature(&self) -> ByNote {
        let why = match (&self.args.start, &self.args.seek_offsets, self.args.auto_offset_reset) {
            (Some(start), _, _) => format!("--start {start}"),
            (None, Some(seek), _) => format!("--seek_offsets {seek}"),
            (None, None, Reset::Latest) => "--auto_offset_reset latest".to_owned(),
            (None, None, Reset::Earliest) => "--auto_offset_reset earliest".to_owned(),
        };
        ByNote { who: who(), why }
    }

    /// When a commit is due.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            latency_ms: self.args.allowed_latency * 1000,
            batch_messages: self.args.max_messages_per_batch as usize,
            file_bytes: usize::try_from(self.args.min_bytes_per_file).unwrap_or(usize::MAX).max(1),
            ..Limits::default()
        }
    }
}

/// How rows go into the table by key, and what that changes in the messages' format.
fn upsert(args: &IngestArgs, format: &mut Format, budget: &Budget, keys_bytes: u64) -> Result<ViewOptions, Failure> {
    if matches!(format.encoding, Encoding::Raw) {
        return Err(Failure::usage(
            "--raw keeps messages as they are, and --mode upsert reads the columns of their keys: leave one of them out",
        ));
    }
    if args.evolve == Evolve::Add {
        return Err(Failure::usage(
            "--evolve adds columns in mode append alone; with --mode upsert take --evolve=log, and add them with ALTER TABLE",
        ));
    }
    if format.debezium != Debezium::No {
        format.debezium = Debezium::Living;
    }
    let mut writer = args.writer_options();
    writer.memory_bytes = usize::try_from(budget.stage_bytes).unwrap_or(usize::MAX) / 2;
    writer.keeps_rules = true;
    Ok(args.mode.view_options(writer, keys_bytes))
}

fn schema_file(path: &Path) -> Result<TableSchema, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::Config, format_args!("--schema {}: {error}", path.display())))?;
    TableSchema::parse(&path.display().to_string(), &text).map_err(|error| Failure::port(&error))
}

/// `{"0":123}`: 123 is the last offset *not* wanted, so the frontier is the one after it.
fn seek_offsets(text: &str) -> Result<Frontier, String> {
    let wrong = |what: String| {
        format!(
            "--seek_offsets {text}: {what}; want JSON such as {{\"0\":123,\"1\":45}}: partition and last consumed offset"
        )
    };
    let map: std::collections::BTreeMap<String, i64> =
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    map.into_iter()
        .map(|(partition, last)| {
            let id = partition.parse().map_err(|_| wrong(format!("'{partition}' is no partition number")))?;
            let offset = Offset::after(last).map_err(|_| wrong(format!("{last} is no offset")))?;
            Ok((PartitionId(id), offset))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seek_offsets_are_last_consumed_ones() {
        let parsed = seek_offsets(r#"{"0":3,"12":-1}"#).unwrap();
        assert_eq!(
            parsed,
            Frontier::from([(PartitionId(0), Offset::new(4).unwrap()), (PartitionId(12), Offset::ZERO)])
        );
        for (text, what) in [
            (r#"{"a":1}"#, "'a' is no partition number"),
            (r#"{"0":-2}"#, "-2 is no offset"),
            (r#"{"0":"x"}"#, "invalid type"),
            ("nonsense", "expected"),
        ] {
            let error = seek_offsets(text).unwrap_err();
            assert!(error.contains(what) && error.contains("--seek_offsets"), "{error}");
        }
    }
}
