//! Records: plain, with keys, tombstones, timestamps, headers, any codec, transactional.

use std::sync::Mutex;

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};

use crate::admin::{PATIENCE, Topic};
use crate::broker::unique;

/// A record to produce.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Where to; the key's hash or chance decides otherwise.
    pub partition: Option<i32>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Its time, in ms since 1970; now otherwise.
    pub timestamp_ms: Option<i64>,
    /// Its headers.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Message {
    /// A record with this value.
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self { value: Some(value.into()), ..Self::default() }
    }

    /// A record without a value.
    pub fn tombstone() -> Self {
        Self::default()
    }

    /// To this partition.
    pub fn to(self, partition: i32) -> Self {
        Self { partition: Some(partition), ..self }
    }

    /// With this key.
    pub fn key(self, key: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// With this time, in ms since 1970.
    pub fn at(self, timestamp_ms: i64) -> Self {
        Self { timestamp_ms: Some(timestamp_ms), ..self }
    }

    /// With one more header.
    pub fn header(mut self, key: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((key.to_owned(), value.into()));
        self
    }
}

/// Where a record went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    /// The partition.
    pub partition: i32,
    /// The offset in it.
    pub offset: i64,
}

impl Topic {
    /// Produces and waits until all are acknowledged. Returns where each went, in the order given.
    ///
    /// # Panics
    /// When one is not acknowledged.
    pub fn produce(&self, messages: impl IntoIterator<Item = Message>) -> Vec<Sent> {
        self.produce_with(&[], messages)
    }

    /// [`Topic::produce`] with producer settings, such as `("compression.type", "zstd")`.
    ///
    /// # Panics
    /// When one is not acknowledged.
    pub fn produce_with(&self, settings: &[(&str, &str)], messages: impl IntoIterator<Item = Message>) -> Vec<Sent> {
        let producer = self.producer(settings);
        let count = send_all(&producer, &self.name, messages, 0);
        producer.flush(PATIENCE).unwrap_or_else(|e| panic!("produce to {}: {e}", self.name));
        let mut sent = producer.context().take();
        assert_eq!(sent.len(), count, "produce to {}: some were not acknowledged", self.name);
        sent.sort_by_key(|(index, _)| *index);
        sent.into_iter().map(|(_, sent)| sent).collect()
    }

    /// A producer whose records are seen once their transaction is committed.
    ///
    /// # Panics
    /// When the broker does not let it in.
    pub fn transactional(&self) -> Transactional {
        self.transactional_with(&[])
    }

    /// [`Topic::transactional`] with producer settings.
    ///
    /// # Panics
    /// When the broker does not let it in.
    pub fn transactional_with(&self, settings: &[(&str, &str)]) -> Transactional {
        let id = unique("transactions");
        let settings: Vec<_> = [("transactional.id", id.as_str())].iter().chain(settings).copied().collect();
        let producer = self.producer(&settings);
        producer.init_transactions(PATIENCE).expect("begin as a transactional producer");
        Transactional { topic: self.clone(), producer, count: 0, acknowledged: 0 }
    }

    fn producer(&self, settings: &[(&str, &str)]) -> BaseProducer<Acknowledged> {
        let mut config = self.config();
        // Large enough for the tests of large messages; the topic or the broker bounds them.
        config.set("message.max.bytes", "67108864").set("queue.buffering.max.kbytes", "1048576");
        config.set("linger.ms", "5");
        for (key, value) in settings {
            config.set(*key, *value);
        }
        config.create_with_context(Acknowledged::default()).expect("make a producer")
    }
}

/// A transactional producer to one topic.
pub struct Transactional {
    topic: Topic,
    producer: BaseProducer<Acknowledged>,
    count: usize,
    acknowledged: usize,
}

impl Transactional {
    /// Begins a transaction.
    ///
    /// # Panics
    /// When it can't.
    pub fn begin(&self) {
        self.producer.begin_transaction().expect("begin a transaction");
    }

    /// Produces within the transaction and waits until all are in the log.
    ///
    /// # Panics
    /// When one is not acknowledged.
    pub fn produce(&mut self, messages: impl IntoIterator<Item = Message>) {
        self.count += send_all(&self.producer, &self.topic.name, messages, self.count);
        self.producer.flush(PATIENCE).expect("produce in a transaction");
        self.acknowledged += self.producer.context().take().len();
        assert_eq!(self.acknowledged, self.count, "some were not acknowledged");
    }

    /// Commits it.
    ///
    /// # Panics
    /// When it can't.
    pub fn commit(&self) {
        self.producer.commit_transaction(PATIENCE).expect("commit a transaction");
    }

    /// Aborts it.
    ///
    /// # Panics
    /// When it can't.
    pub fn abort(&self) {
        self.producer.abort_transaction(PATIENCE).expect("abort a transaction");
    }
}

/// What the broker has acknowledged, (index, place), and why it did not the others.
#[derive(Default)]
struct Acknowledged {
    sent: Mutex<Vec<(usize, Sent)>>,
    refused: Mutex<Option<KafkaError>>,
}

impl Acknowledged {
    fn take(&self) -> Vec<(usize, Sent)> {
        if let Some(error) = &*self.refused.lock().expect("no panic while it is held") {
            panic!("a record was refused: {error}");
        }
        std::mem::take(&mut *self.sent.lock().expect("no panic while it is held"))
    }
}

impl ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        match result {
            Ok(message) => {
                let sent = Sent { partition: message.partition(), offset: message.offset() };
                self.sent.lock().expect("no panic while it is held").push((index, sent));
            }
            Err((error, _)) => *self.refused.lock().expect("no panic while it is held") = Some(error.clone()),
        }
    }
}

/// Hands all to the producer, numbered from `first`; waits where its queue is full.
fn send_all(
    producer: &BaseProducer<Acknowledged>,
    topic: &str,
    messages: impl IntoIterator<Item = Message>,
    first: usize,
) -> usize {
    let mut count = 0;
    for message in messages {
        let mut record = record(topic, &message, first + count);
        loop {
            match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    producer.poll(std::time::Duration::from_millis(20));
                    record = back;
                }
                Err((error, _)) => panic!("produce to {topic}: {error}"),
            }
        }
        count += 1;
    }
    count
}

fn record<'a>(topic: &'a str, message: &'a Message, index: usize) -> BaseRecord<'a, [u8], [u8], usize> {
    BaseRecord {
        topic,
        partition: message.partition,
        payload: message.value.as_deref(),
        key: message.key.as_deref(),
        timestamp: message.timestamp_ms,
        headers: (!message.headers.is_empty()).then(|| {
            let headers = message.headers.iter();
            headers.fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: Some(value) }))
        }),
        delivery_opaque: index,
    }
}
