//! A topic as a sink: each commit is one transaction of messages and frontier.
//!
//! Two names are the sink's own: the transactional id, and a group of the same name that nobody joins and that holds
//! what the sink says of itself ([`memo`]). A put is a compare-and-swap among all who ever have that name: the
//! brokers let only the newest of them commit, who becomes the newest reads what the others left behind, and only then
//! writes.
//!
//! Invariants:
//! - P1, P8: a producer is used only after what our name had under way was ended *and then* the newest version was
//!   read; it commits only the version after that one.
//! - After an outcome that is not known nothing is read before the transaction was ended (`settled`).

mod memo;
mod messages;
mod reader;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use lakeward_protocol::ports::{Breach, Head, OutputLog, Permit, Put};
use lakeward_protocol::position::{CommitId, Offset, PartitionId, Shape, TableVersion};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use tracing::{debug, warn};

pub use messages::{Message, Messages};

use crate::error::KafkaError;
use crate::source::TopicIdentity;
use crate::watch::text;
use reader::{Reader, Seen};
use writer::{Failure, Writer};

/// How long a question to the brokers may take before it is a hitch.
const PATIENCE: Duration = Duration::from_secs(20);

/// Brokers forget what a group holds that nobody writes to, by default after a week (`offsets.retention.minutes`).
/// While we run it is written anew this often.
const REMIND: Duration = Duration::from_secs(6 * 60 * 60);

/// A source of the pipeline, as the sink remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkSource {
    /// The name that the pipeline gives it.
    pub name: String,
    /// What it reads.
    pub topic: TopicIdentity,
}

/// Where to write and how.
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// Bootstrap servers, `host:port`, separated by commas.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The transactional id and the group: one pipeline's sink, one id.
    pub id: String,
    /// The pipeline's sources, in its order.
    pub sources: Vec<SinkSource>,
    /// Further settings by librdkafka's names. What the options above say wins over them, and so does what the protocol
    /// rests on.
    pub settings: Vec<(String, String)>,
}

impl SinkConfig {
    /// What both clients share.
    fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        // librdkafka's own choice for messages of one key is none that Java's producers make.
        client.set("client.id", "lakeward").set("partitioner", "murmur2_random");
        client.set("socket.keepalive.enable", "true").set("reconnect.backoff.max.ms", "2000");
        for (key, value) in &self.settings {
            client.set(key, value);
        }
        client.set("bootstrap.servers", &self.brokers);
        let debugs = self.settings.iter().any(|(key, _)| key == "debug");
        client.set_log_level(if debugs { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Warning });
        client
    }

    fn unfit(&self, detail: String) -> KafkaError {
        KafkaError::Unfit { topic: self.topic.clone(), detail }
    }
}

/// What a sink says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkState {
    /// Commits so far.
    pub version: u64,
    /// The topic's partitions.
    pub partitions: usize,
    /// The next offset by source and partition.
    pub frontier: Vec<(String, u32, Offset)>,
}

/// A topic, open for its one writer.
pub struct Sink {
    config: SinkConfig,
    reader: Reader,
    writer: Option<Writer>,
    /// Nothing of ours, nor of an earlier process's, may still become visible.
    settled: bool,
    /// As of the last load or put.
    known: Seen,
    /// The topic's id as of the first load.
    opened: Option<[u8; 16]>,
    written: Instant,
}

impl Sink {
    /// Reaches for no broker by itself.
    ///
    /// # Errors
    /// A setting that librdkafka does not take.
    pub fn open(config: SinkConfig) -> Result<Self, KafkaError> {
        let reader = Reader::open(&config)?;
        // For its settings alone: it talks to brokers when it is made anew for the first load.
        drop(Writer::open(&config)?);
        let (known, written) = (Seen::default(), Instant::now());
        Ok(Self { config, reader, writer: None, settled: false, known, opened: None, written })
    }

    /// The topic's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.topic
    }

    /// What the sink says of itself, asked without having any part in it.
    ///
    /// # Errors
    /// There is no such topic, no answer, or what is stored is none of ours.
    pub fn look(config: &SinkConfig) -> Result<SinkState, KafkaError> {
        let seen = Reader::open(config)?.read()?;
        let places = seen.memo.places().map(|(source, number, at)| (source.to_owned(), number, at));
        Ok(SinkState { version: seen.memo.version, partitions: seen.partitions, frontier: places.collect() })
    }

    /// Becomes the newest of our name: what it had under way is over, one way or the other.
    fn init(&mut self) -> Result<(), KafkaError> {
        self.writer = None;
        let writer = Writer::open(&self.config)?;
        if let Err(error) = writer.init() {
            return Err(self.reader.judge(writer.events(), "take over its transactions", &error));
        }
        (self.writer, self.settled) = (Some(writer), true);
        Ok(())
    }

    /// One transaction with what is to be said after it. `None`: we were fenced, nothing of it is visible.
    fn transact(&mut self, messages: &Messages, said: Seen) -> Result<Option<()>, KafkaError> {
        let writer = self.writer.as_ref().expect("a writer is there before a transaction");
        let (mut said, parts, group) = (said.clone(), said.memo.parts(), self.reader.group());
        let failure = match writer.transact(messages, &parts, &mut said.ends, &group) {
            Ok(()) => {
                (self.known, self.written) = (said, Instant::now());
                return Ok(Some(()));
            }
            Err(failure) => failure,
        };
        let writer = self.writer.take().expect("it was just used");
        match failure {
            Failure::Fenced => Ok(None),
            Failure::Stop(error) => {
                // Else nobody reads beyond it before it times out.
                writer.abort();
                Err(error)
            }
            Failure::Other { what, error } => {
                self.settled = false;
                Err(self.reader.judge(writer.events(), what, &error))
            }
        }
    }

    /// Whether what is stored now is what the permit was made from.
    fn is_before(&mut self, permit: &Permit) -> Result<bool, KafkaError> {
        self.known = self.reader.read()?;
        Ok(self.known.memo.is_before(permit, &self.config.sources))
    }

    /// P9, and what no run of this pipeline left behind.
    fn check(&self, partitions: &BTreeSet<PartitionId>) -> Result<(), KafkaError> {
        let memo = &self.known.memo;
        if let Some(stranger) = memo.stranger(&self.config.sources) {
            let names: Vec<_> = self.config.sources.iter().map(|source| source.name.as_str()).collect();
            return Err(self.config.unfit(format!(
                "its frontier is of the source {stranger}, and this pipeline's sources are {}; give the source its old \
                 name again, or begin anew with another SET app_id, another SET state and new tables and topics",
                names.join(", ")
            )));
        }
        let parts = memo.most_parts(&self.config.sources, partitions);
        if parts > self.known.partitions {
            return Err(self.config.unfit(format!(
                "the frontier of {} source partitions needs {parts} partitions of the sink's topic to be kept in, and it \
                 has {}; give it more",
                partitions.len(),
                self.known.partitions
            )));
        }
        Ok(())
    }
}

impl OutputLog for Sink {
    type Batch = Messages;
    type Layout = Shape;
    type Error = KafkaError;

    fn load(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<Head, KafkaError> {
        if !self.settled {
            self.init()?;
        }
        self.known = self.reader.read()?;
        self.check(partitions)?;
        let was = *self.opened.get_or_insert(self.known.id.unwrap_or_default());
        let is = self.known.id.unwrap_or_default();
        let recreated = (was != is).then(|| Breach::Recreated { was: text(was), is: text(is) });
        let memo = &self.known.memo;
        Ok(Head {
            version: TableVersion(memo.version),
            frontier: memo.frontier(&self.config.sources, partitions),
            shape: self.layout(),
            breach: recreated.or_else(|| memo.other_topic(&self.config.sources, partitions)),
            dead: BTreeMap::new(),
            fading: BTreeSet::new(),
        })
    }

    /// The number of partitions: messages of one key are in order only while it stays.
    fn layout(&self) -> Shape {
        Shape(self.known.partitions as u64)
    }

    fn put(&mut self, permit: &Permit, batch: Option<&Messages>) -> Result<Put, KafkaError> {
        let (none, sources) = (Messages::default(), self.config.sources.clone());
        if !self.known.memo.is_before(permit, &sources) {
            return Ok(Put::Taken);
        }
        // Once more where we were fenced by one who committed nothing.
        for _ in 0..2 {
            if self.writer.is_none() {
                if !self.is_before(permit)? {
                    return Ok(Put::Taken);
                }
                self.init()?;
                if !self.is_before(permit)? {
                    return Ok(Put::Taken);
                }
            }
            let memo = self.known.memo.after(permit, &sources, self.known.id.map(text));
            let said = Seen { memo, ..self.known.clone() };
            if self.transact(batch.unwrap_or(&none), said)?.is_some() {
                return Ok(Put::Done);
            }
        }
        self.settled = false;
        Err(KafkaError::Unanswered {
            what: "commit a transaction".to_owned(),
            topic: self.config.topic.clone(),
            detail: "it was ended by the brokers twice: another process runs this pipeline, or the transaction takes \
                     longer than kafka.transaction.timeout.ms (default 60000) allows"
                .to_owned(),
        })
    }

    fn find(&mut self, commit: CommitId, from: TableVersion) -> Result<Option<TableVersion>, KafkaError> {
        Ok(self.known.memo.find(commit, from))
    }

    /// Says the same once more before the brokers forget it.
    fn tend(&mut self) {
        if self.written.elapsed() < REMIND || self.known.memo.version == 0 || self.writer.is_none() {
            return;
        }
        match self.transact(&Messages::default(), self.known.clone()) {
            Ok(Some(())) => debug!("the frontier of topic {} was written anew", self.config.topic),
            Ok(None) => {} // whoever fenced us writes it now
            Err(error) => warn!("{error}; trying again later"),
        }
    }
}
