//! The input as the core sees it.

mod times;
mod trim;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lakeward_protocol::ports::{Bounds, Input, InputLog};
use lakeward_protocol::position::{Frontier, Offset, PartitionId};
use lakeward_protocol::records::Records;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError as Rdkafka;
use tracing::debug;

use crate::config::SourceConfig;
use crate::context::Context;
use crate::error::KafkaError;
use crate::group::leave;
use crate::handoff::{Command, Flow, Handoff, Order, Said};
use crate::native::{IdentityQuery, Queue, c_name, cached_end};
use crate::oauth::{self, Membership, Tokens};
use crate::reader::{Reader, list};
use crate::watch::{self, Known, Seen, Watch};

/// How long a question to the brokers may take before it is a hitch.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked whether the reader's thread is still there.
const LIVENESS: Duration = Duration::from_secs(1);

/// In how many goes a question may be asked within that time.
const SLICES: u32 = 5;

/// A topic's name and what tells it from an earlier or later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicIdentity {
    /// The name.
    pub name: String,
    /// The id; `None` where the brokers have none (before 2.8, and librdkafka's mock cluster).
    pub id: Option<[u8; 16]>,
}

impl TopicIdentity {
    /// The id as Kafka's own tools print it.
    #[must_use]
    pub fn id_text(&self) -> Option<String> {
        self.id.map(watch::text)
    }
}

/// How far behind one partition's reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// What was polled lies below.
    pub position: Offset,
    /// The end as the last fetch told it; `None` before the first.
    pub end: Option<Offset>,
}

/// Tells the lag from any thread; asks no broker. Empty once the source is dropped.
#[derive(Clone)]
pub struct LagProbe {
    consumer: Weak<BaseConsumer<Context>>,
    topic: CString,
    positions: Arc<Mutex<Frontier>>,
}

impl LagProbe {
    /// The lag of each partition that was started and is still ours.
    ///
    /// # Panics
    /// Never: the lock is not held where anything panics.
    #[must_use]
    pub fn lag(&self) -> BTreeMap<PartitionId, Lag> {
        let Some(consumer) = self.consumer.upgrade() else { return BTreeMap::new() };
        let positions = self.positions.lock().expect("no panic while it is held").clone();
        let lag = |(partition, position)| {
            let end = cached_end(&consumer, &self.topic, number(partition)).and_then(|end| Offset::new(end).ok());
            (partition, Lag { position, end })
        };
        positions.into_iter().map(lag).collect()
    }
}

/// A topic, read as a member of a group or by ourselves. Leaves the group when dropped.
pub struct Source {
    config: SourceConfig,
    name: CString,
    consumer: Arc<BaseConsumer<Context>>,
    tokens: Option<&'static Tokens>,
    membership: Option<Membership>,
    queue: Arc<Queue>,
    handoff: Arc<Handoff>,
    reader: Option<JoinHandle<()>>,
    is_member: bool,
    /// Records of which the caller took less than all, and how many it took.
    rest: Option<(Records, usize)>,
    positions: Arc<Mutex<Frontier>>,
    known: Known,
}

impl Source {
    /// Joins the group; partitions come with [`Input::Gained`]. Reaches for no broker by itself.
    ///
    /// # Errors
    /// A setting that librdkafka does not take.
    pub fn subscribe(config: SourceConfig) -> Result<Self, KafkaError> {
        let source = Self::open(config, None, false)?;
        source.consumer.subscribe(&[&source.config.topic]).map_err(|e| setting(&e, "topic"))?;
        Ok(source)
    }

    /// Reads these partitions without a group: nobody shares them, nobody takes them away.
    ///
    /// # Errors
    /// A setting that librdkafka does not take.
    pub fn assign(config: SourceConfig, partitions: BTreeSet<PartitionId>) -> Result<Self, KafkaError> {
        Self::open(config, Some(partitions), false)
    }

    /// The same with all partitions that the topic has; those that are added to it later come as well.
    ///
    /// # Errors
    /// A setting that librdkafka does not take.
    pub fn assign_all(config: SourceConfig, partitions: BTreeSet<PartitionId>) -> Result<Self, KafkaError> {
        Self::open(config, Some(partitions), true)
    }

    fn open(config: SourceConfig, partitions: Option<BTreeSet<PartitionId>>, grows: bool) -> Result<Self, KafkaError> {
        let mut client: ClientConfig = config.client()?;
        let tokens = oauth::tokens(&mut client)?;
        let bad_name = || KafkaError::Setting {
            key: "topic".to_owned(),
            reason: format!("no topic has the name {:?}", config.topic),
        };
        let name = c_name(&config.topic).filter(|_| is_topic_name(&config.topic)).ok_or_else(bad_name)?;
        let consumer: BaseConsumer<Context> =
            client.create_with_context(Context::with(tokens)).map_err(|e| setting(&e, "client"))?;
        let consumer = Arc::new(consumer);
        let membership = tokens.map(|tokens| tokens.join(&consumer));
        let queue = Arc::new(Queue::new(Arc::clone(&consumer)));
        let handoff = Arc::new(Handoff::new(config.handoff_bytes(), config.arena_bytes));
        let known = Known::default();
        let watch = Watch::new(config.topic.clone(), Arc::clone(&known));
        let mut reader = Reader::new(
            config.clone(),
            name.clone(),
            Arc::clone(&queue),
            Arc::clone(&consumer),
            Arc::clone(&handoff),
            watch,
        );
        let is_member = partitions.is_none();
        if let Some(partitions) = &partitions {
            reader.give(partitions, grows);
        }
        let reader = std::thread::Builder::new()
            .name("kafka-reader".to_owned())
            .spawn(move || reader.run())
            .expect("the system starts a thread");
        Ok(Self {
            config,
            name,
            consumer,
            tokens,
            membership,
            queue,
            handoff,
            reader: Some(reader),
            is_member,
            rest: None,
            positions: Arc::default(),
            known,
        })
    }

    /// Which topic it is, asked from the brokers.
    ///
    /// # Errors
    /// There is no such topic, or no answer; both heal.
    ///
    /// # Panics
    /// Never: the lock is not held where anything panics.
    pub fn topic_identity(&self) -> Result<TopicIdentity, KafkaError> {
        let metadata = self.metadata("ask for the id")?;
        let leader = metadata.topics().iter().flat_map(|t| t.partitions()).map(|p| p.leader()).find(|id| *id >= 0);
        let broker = leader.or(metadata.brokers().first().map(|b| b.id()));
        let asked = IdentityQuery::ask(&self.consumer, &self.name, broker, PATIENCE);
        let answer = asked.answer(PATIENCE + Duration::from_secs(1));
        let answer = answer.unwrap_or(Err(rdkafka::error::RDKafkaErrorCode::OperationTimedOut));
        let id = answer.map_err(|code| self.unanswered("ask for the id", &Rdkafka::MetadataFetch(code)))?.id;
        // What the caller decides by this answer is about this topic and no later one.
        *self.known.lock().expect("no panic while it is held") = Seen { id, broker };
        Ok(TopicIdentity { name: self.config.topic.clone(), id })
    }

    /// The topic's partitions, asked from the brokers.
    ///
    /// # Errors
    /// There is no such topic, or no answer; both heal.
    pub fn partitions(&self) -> Result<BTreeSet<PartitionId>, KafkaError> {
        let metadata = self.metadata("ask for the partitions")?;
        let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        let partitions: BTreeSet<_> = partitions.filter_map(|p| u32::try_from(p.id()).ok()).map(PartitionId).collect();
        if partitions.is_empty() {
            return Err(self.no_topic());
        }
        Ok(partitions)
    }

    /// How far behind each partition is that was started; asks no broker.
    #[must_use]
    pub fn lag(&self) -> BTreeMap<PartitionId, Lag> {
        self.lag_probe().lag()
    }

    /// [`lag`](Self::lag) for another thread.
    #[must_use]
    pub fn lag_probe(&self) -> LagProbe {
        LagProbe {
            consumer: Arc::downgrade(&self.consumer),
            topic: self.name.clone(),
            positions: Arc::clone(&self.positions),
        }
    }

    fn metadata(&self, what: &str) -> Result<rdkafka::metadata::Metadata, KafkaError> {
        // In slices: a refusal is known long before patience ends.
        let mut slices = 1..SLICES;
        let metadata = loop {
            match self.consumer.fetch_metadata(Some(&self.config.topic), PATIENCE / SLICES) {
                Ok(metadata) => break metadata,
                Err(_) if self.handoff.fatal().is_none() && slices.next().is_some() => {}
                Err(error) => return Err(self.unanswered(what, &error)),
            }
        };
        match metadata.topics().iter().find_map(|topic| topic.error()) {
            Some(error) => Err(self.unanswered(what, &Rdkafka::MetadataFetch(error.into()))),
            None => Ok(metadata),
        }
    }

    fn order(&self, order: Order) -> Result<(), KafkaError> {
        let (reply, done) = sync_channel(1);
        self.handoff.command(Command { order, reply });
        self.queue.wake();
        loop {
            match done.recv_timeout(LIVENESS) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) => self.alive()?,
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
            }
        }
    }

    /// The reader's thread ends before us only by a fault of its own, which it has told.
    fn alive(&self) -> Result<(), KafkaError> {
        let alive = self.reader.as_ref().is_some_and(|reader| !reader.is_finished());
        if alive { Ok(()) } else { Err(ended()) }
    }

    /// At most `most` of `records`; the rest stays here.
    fn part_of(&mut self, records: Records, taken: usize, most: usize) -> Records {
        if taken == 0 && records.len() <= most {
            return records;
        }
        let until = (taken + most).min(records.len());
        let from = if taken == 0 { records.from() } else { after(records.entries()[taken - 1].offset) };
        let mut part = self.handoff.arena(records.partition(), from);
        for (index, entry) in records.entries().iter().enumerate().take(until).skip(taken) {
            let (key, value) = (records.key(entry), records.value(entry));
            part.push_keyed(entry.offset, entry.timestamp_ms, entry.timestamp_type, key, value);
            records.headers(index).for_each(|(name, value)| part.push_header(name, value));
        }
        part.pad();
        if until == records.len() {
            part.cover_until(records.to());
            self.handoff.recycle(records);
        } else {
            self.rest = Some((records, until));
        }
        part
    }

    fn deliver(&mut self, records: Records, taken: usize, most: usize) -> Input {
        let part = self.part_of(records, taken, most);
        self.stand(part.partition(), part.to());
        Input::Records(part)
    }

    fn stand(&self, partition: PartitionId, at: Offset) {
        self.positions.lock().expect("no panic while it is held").insert(partition, at);
    }

    /// Forgets what is here of partitions that begin anew or go.
    fn forget(&mut self, partitions: &BTreeSet<PartitionId>) {
        if self.rest.as_ref().is_some_and(|(records, _)| partitions.contains(&records.partition())) {
            let (records, _) = self.rest.take().expect("just looked");
            self.handoff.recycle(records);
        }
        self.positions.lock().expect("no panic while it is held").retain(|p, _| !partitions.contains(p));
    }

    /// The broker has nothing at `at`: why?
    fn explain(
        &mut self,
        partition: PartitionId,
        at: Offset,
        cut: Option<Offset>,
    ) -> Result<Option<Input>, KafkaError> {
        let bounds = match self.bounds(partition) {
            Ok(bounds) => bounds,
            Err(error) => {
                self.handoff.put_back(Flow::Stalled { partition, at, cut });
                return Err(error);
            }
        };
        let end = cut.map_or(bounds.end, |cut| cut.min(bounds.end));
        if at < bounds.oldest || at > end {
            return Ok(Some(Input::Gone { partition, at, oldest: bounds.oldest, end }));
        }
        // A replica that lagged behind, or retention that ran between: it is there.
        debug!("partition {partition}: {at} lies within {bounds:?} after all, going on");
        self.order(Order::Start(Frontier::from([(partition, at)])))?;
        Ok(None)
    }

    fn unanswered(&self, what: &str, error: &Rdkafka) -> KafkaError {
        use rdkafka::error::RDKafkaErrorCode as Code;
        if let Some(fatal) = self.handoff.fatal() {
            return fatal; // says better why nothing is answered
        }
        if let Some(detail) = self.tokens.and_then(Tokens::lacking) {
            return KafkaError::Unreachable { brokers: self.config.brokers.clone(), detail };
        }
        match error.rdkafka_error_code() {
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => self.no_topic(),
            // A listener for TLS hangs up on whoever speaks in the clear, and the other way round.
            Some(Code::BrokerTransportFailure) => KafkaError::Unanswered {
                what: what.to_owned(),
                topic: self.config.topic.clone(),
                detail: format!("{error} (if the brokers are there: does security.protocol fit their listener?)"),
            },
            _ => KafkaError::Unanswered {
                what: what.to_owned(),
                topic: self.config.topic.clone(),
                detail: error.to_string(),
            },
        }
    }

    fn no_topic(&self) -> KafkaError {
        KafkaError::NoTopic { topic: self.config.topic.clone(), brokers: self.config.brokers.clone() }
    }
}

impl InputLog for Source {
    type Error = KafkaError;

    fn poll(&mut self, most: usize, wait: Duration) -> Result<Option<Input>, KafkaError> {
        let deadline = Instant::now() + wait;
        loop {
            let has_rest = most > 0 && self.rest.is_some();
            let left = if has_rest { Duration::ZERO } else { deadline.saturating_duration_since(Instant::now()) };
            // While there is a rest, only what the group says goes before it.
            let said = self.handoff.take(if has_rest { 0 } else { most }, left, || self.queue.wake())?;
            return Ok(Some(match said {
                Some(Said::Group(input)) => {
                    if let Input::Lost(partitions) = &input {
                        self.forget(partitions);
                    }
                    input
                }
                Some(Said::Flow(Flow::Records(records))) => self.deliver(records, 0, most),
                Some(Said::Flow(Flow::Reached { partition, end })) => {
                    self.stand(partition, end);
                    Input::Reached { partition, end }
                }
                Some(Said::Flow(Flow::Stalled { partition, at, cut })) => match self.explain(partition, at, cut)? {
                    Some(gone) => gone,
                    None => continue,
                },
                None if has_rest => {
                    let (records, taken) = self.rest.take().expect("just looked");
                    self.deliver(records, taken, most)
                }
                None => {
                    self.alive()?;
                    return Ok(None);
                }
            }));
        }
    }

    fn start(&mut self, at: &Frontier) -> Result<(), KafkaError> {
        self.forget(&at.keys().copied().collect());
        self.order(Order::Start(at.clone()))?;
        for (partition, offset) in at {
            self.stand(*partition, *offset);
        }
        Ok(())
    }

    fn release(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<(), KafkaError> {
        self.forget(partitions);
        self.order(Order::Release(partitions.clone()))
    }

    fn bounds(&mut self, partition: PartitionId) -> Result<Bounds, KafkaError> {
        let failed = |error: &Rdkafka| self.unanswered("ask for the bounds", error);
        let bounds = self.consumer.fetch_watermarks(&self.config.topic, number(partition), PATIENCE);
        let (oldest, end) = bounds.map_err(|error| failed(&error))?;
        match (Offset::new(oldest), Offset::new(end)) {
            (Ok(oldest), Ok(end)) => Ok(Bounds { oldest, end }),
            _ => Err(failed(&Rdkafka::NoMessageReceived)),
        }
    }

    fn announce(&mut self, frontier: &Frontier) {
        if !self.is_member || frontier.is_empty() {
            return;
        }
        if let Err(error) = self.consumer.commit(&list(&self.config.topic, frontier), CommitMode::Async) {
            debug!("the group's offsets, which lag tools read, were not written: {error}");
        }
    }

    fn recycle(&mut self, records: Records) {
        self.handoff.recycle(records);
    }

    fn trim(&mut self, below: &Frontier) -> Result<(), KafkaError> {
        self.delete_below(below)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.handoff.close();
        self.queue.wake();
        if let Some(reader) = self.reader.take() {
            // It panicked: that was told already, and its locks are not used from here on.
            let _ = reader.join();
        }
        leave(&self.consumer, &self.config.group);
        self.membership = None;
    }
}

fn ended() -> KafkaError {
    KafkaError::Fatal { detail: "its reading thread has ended, for the reason above".to_owned() }
}

fn number(partition: PartitionId) -> i32 {
    i32::try_from(partition.0).expect("Kafka numbers partitions with an i32")
}

fn id(number: i32) -> PartitionId {
    PartitionId(u32::try_from(number).expect("partitions have numbers"))
}

fn after(offset: i64) -> Offset {
    Offset::after(offset).expect("offsets of records are not negative")
}

/// Kafka's rule. librdkafka takes a name that begins with `^` for a pattern, which ours is not.
pub(crate) fn is_topic_name(name: &str) -> bool {
    (1..=249).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && name != "."
        && name != ".."
}

/// What librdkafka says of a setting that it refuses. Its value is not told: it may be a secret.
pub(crate) fn setting(error: &Rdkafka, otherwise: &str) -> KafkaError {
    match error {
        Rdkafka::ClientConfig(_, reason, key, value) => {
            let reason = if value.is_empty() { reason.clone() } else { reason.replace(value.as_str(), "...") };
            KafkaError::Setting { key: key.clone(), reason }
        }
        other => KafkaError::Setting { key: otherwise.to_owned(), reason: other.to_string() },
    }
}
