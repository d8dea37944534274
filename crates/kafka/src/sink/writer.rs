//! One life of the transactional producer: it begins by ending whatever its name had under way, and is thrown away at
//! the first thing that goes wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError as Rdkafka, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};

use tracing::debug;

use super::messages::{Message, Messages};
use super::{PATIENCE, SinkConfig};
use crate::context::{Context, Event};
use crate::error::KafkaError;
use crate::native::set_token;
use crate::oauth::{self, Member, Membership, Token};
use crate::source::setting;

/// How long a wait for room, or for answers, takes before it is looked whether there is any progress.
const TICK: Duration = Duration::from_millis(200);

/// Why a transaction did not go through.
pub(super) enum Failure {
    /// Another producer has our name by now, or the brokers ended the transaction.
    Fenced,
    /// Unknown, but for what can't be produced at all.
    Other { what: &'static str, error: Rdkafka },
    /// It can't be produced, now or ever.
    Stop(KafkaError),
}

pub(super) struct Writer {
    topic: String,
    /// Before the producer, so that it is dropped before it.
    _membership: Option<Membership>,
    producer: Arc<BaseProducer<Deliveries>>,
}

impl Writer {
    pub fn open(config: &SinkConfig) -> Result<Self, KafkaError> {
        let mut client = config.client();
        client.set("transactional.id", &config.id).set("enable.idempotence", "true");
        let tokens = oauth::tokens(&mut client)?;
        let deliveries = Deliveries { client: Context::with(tokens), ..Deliveries::default() };
        let producer = client.create_with_context(deliveries).map_err(|error| setting(&error, "client"))?;
        let producer: Arc<BaseProducer<Deliveries>> = Arc::new(producer);
        let _membership = tokens.map(|tokens| tokens.join(&producer));
        Ok(Self { topic: config.topic.clone(), _membership, producer })
    }

    /// Waits for our name's earlier transactions to end, ends those that do not, and fences who made them (P8).
    pub fn init(&self) -> Result<(), Rdkafka> {
        // Asked for by a producer, a topic is made where the brokers do that.
        self.producer.client().fetch_metadata(Some(&self.topic), PATIENCE)?;
        self.producer.init_transactions(PATIENCE)
    }

    /// What the client said went wrong.
    pub fn events(&self) -> Vec<Event> {
        self.producer.poll(Duration::ZERO);
        self.producer.context().client.take()
    }

    /// Messages and what stands beside their offsets, or nothing. `ends` says where our messages end by partition, and
    /// is brought up to date.
    pub fn transact(
        &self,
        messages: &Messages,
        parts: &[String],
        ends: &mut BTreeMap<i32, i64>,
        group: &ConsumerGroupMetadata,
    ) -> Result<(), Failure> {
        self.producer.begin_transaction().map_err(self.because("begin a transaction"))?;
        for message in messages.iter() {
            self.send(message)?;
        }
        self.await_answers()?;
        // After the last message comes the mark that ends the transaction.
        let written = self.producer.context().places.lock().expect("no panic while it is held").clone();
        ends.extend(written.into_iter().map(|(partition, last)| (partition, last + 2)));
        let mut list = TopicPartitionList::new();
        for (at, part) in (0_i32..).zip(parts) {
            let end = Offset::Offset(ends.get(&at).copied().unwrap_or(0));
            list.add_partition_offset(&self.topic, at, end).expect("an offset");
            list.find_partition(&self.topic, at).expect("just added").set_metadata(part);
        }
        let sent = self.producer.send_offsets_to_transaction(&list, group, PATIENCE);
        sent.map_err(self.because("write the frontier"))?;
        self.producer.commit_transaction(PATIENCE).map_err(self.because("commit a transaction"))
    }

    /// Ends a transaction, and what it has of messages; best effort.
    pub fn abort(&self) {
        if let Err(error) = self.producer.abort_transaction(PATIENCE) {
            debug!("abort a transaction of topic {}: {error}", self.topic);
        }
    }

    fn send(&self, message: Message<'_>) -> Result<(), Failure> {
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(&self.topic);
        (record.key, record.payload) = (message.key, message.value);
        if !message.headers.is_empty() {
            record.headers = Some(headers(&message));
        }
        let mut last = Instant::now();
        let mut queued = self.producer.in_flight_count();
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((Rdkafka::MessageProduction(Code::QueueFull), back)) => {
                    record = back;
                    self.producer.poll(TICK);
                    self.refused()?;
                    let now = self.producer.in_flight_count();
                    if now < queued {
                        (last, queued) = (Instant::now(), now);
                    } else if last.elapsed() > PATIENCE {
                        return Err(self.because("produce")(Rdkafka::MessageProduction(Code::OperationTimedOut)));
                    }
                }
                Err((Rdkafka::MessageProduction(code), _)) if is_unwritable(code) => {
                    return Err(Failure::Stop(self.unwritable(code, message.key)));
                }
                Err((error, _)) => return Err(self.because("produce")(error)),
            }
        }
    }

    /// Waits for all answers, as long as some come.
    fn await_answers(&self) -> Result<(), Failure> {
        let mut last = Instant::now();
        let mut left = self.producer.in_flight_count();
        loop {
            let flushed = self.producer.flush(TICK);
            self.refused()?;
            let Err(error) = flushed else { return Ok(()) };
            let now = self.producer.in_flight_count();
            if now < left {
                (last, left) = (Instant::now(), now);
            } else if last.elapsed() > PATIENCE {
                return Err(self.because("produce")(error));
            }
        }
    }

    /// The first message that was not taken.
    fn refused(&self) -> Result<(), Failure> {
        let refused = self.producer.context().refused.lock().expect("no panic while it is held").take();
        match refused {
            None => Ok(()),
            Some((code, key)) if is_unwritable(code) => Err(Failure::Stop(self.unwritable(code, key.as_deref()))),
            Some((code, _)) => Err(self.because("produce")(Rdkafka::MessageProduction(code))),
        }
    }

    fn unwritable(&self, code: Code, key: Option<&[u8]>) -> KafkaError {
        let key = key.map_or_else(|| "a message".to_owned(), |key| String::from_utf8_lossy(key).into_owned());
        KafkaError::Unwritable {
            topic: self.topic.clone(),
            key: key.chars().take(200).collect(),
            detail: code.to_string(),
        }
    }

    fn because(&self, what: &'static str) -> impl FnOnce(Rdkafka) -> Failure {
        let fatal = self.producer.client().fatal_error().map(|(code, _)| code);
        move |error| {
            let codes = [fatal, error.rdkafka_error_code()];
            let fenced = [Code::Fenced, Code::ProducerFenced, Code::InvalidProducerEpoch];
            match codes.into_iter().flatten().any(|code| fenced.contains(&code)) {
                true => Failure::Fenced,
                false => Failure::Other { what, error },
            }
        }
    }
}

fn headers(message: &Message<'_>) -> OwnedHeaders {
    let all = OwnedHeaders::new_with_capacity(message.headers.len());
    message.headers.iter().fold(all, |all, (key, value)| all.insert(Header { key, value: *value }))
}

/// Not for now, but for good.
fn is_unwritable(code: Code) -> bool {
    matches!(code, Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::InvalidRecord)
}

/// Where messages went, and why not.
#[derive(Default)]
struct Deliveries {
    client: Context,
    /// The last offset by partition.
    places: Mutex<BTreeMap<i32, i64>>,
    refused: Mutex<Option<(Code, Option<Vec<u8>>)>>,
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.client.log(level, facility, message);
    }

    fn error(&self, error: Rdkafka, reason: &str) {
        self.client.error(error, reason);
    }
}

impl Member for BaseProducer<Deliveries> {
    fn give(&self, token: &Token) -> Result<(), String> {
        set_token(self.client(), token)
    }

    fn tell(&self, code: Code, reason: &str) {
        self.context().client.fail(code, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(message) => {
                let mut places = self.places.lock().expect("no panic while it is held");
                let last = places.entry(message.partition()).or_insert(message.offset());
                *last = message.offset().max(*last);
            }
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
                let mut refused = self.refused.lock().expect("no panic while it is held");
                // What is purged with it says nothing.
                refused.get_or_insert_with(|| (code, message.key().map(<[u8]>::to_vec)));
            }
        }
    }
}
