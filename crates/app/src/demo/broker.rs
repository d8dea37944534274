//! librdkafka's mock cluster, filled with web requests.
//!
//! It keeps about 5 MiB a partition, compressed, and forgets what is older: with zstd that is about
//! 95,000 requests a partition. Forgetting is noticed, and is an error.

use std::time::Duration;

use lakeward_protocol::ports::Exit;
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};

use super::requests::Requests;
use crate::failure::Failure;

/// Any will do; the same one makes each demo the same.
const SEED: u64 = 20_210_324;
/// Messages between two looks at the clock and the queue.
const STRIDE: u64 = 1000;

/// Bounds what should take milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A topic with one message for each text, in one partition.
fn fill(producer: &BaseProducer, topic: &str, texts: &[String]) -> Result<(), KafkaError> {
    for text in texts {
        let record = BaseRecord::<(), str>::to(topic).partition(0).payload(text);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    producer.flush(PATIENCE)
}

/// The cluster lives as long as this.
pub struct Broker {
    cluster: MockCluster<'static, DefaultProducerContext>,
    bootstrap: String,
}

impl Broker {
    /// One broker with one topic.
    ///
    /// # Errors
    /// When no port on loopback can be had.
    pub fn start(topic: &str, partitions: u32) -> Result<Self, Failure> {
        let failed = |error: KafkaError| {
            Failure::new(Exit::TryAgain, format_args!("the embedded broker does not start: {error}"))
        };
        let cluster = MockCluster::new(1).map_err(failed)?;
        cluster.create_topic(topic, i32::try_from(partitions).expect("a few partitions"), 1).map_err(failed)?;
        let bootstrap = cluster.bootstrap_servers();
        Ok(Self { cluster, bootstrap })
    }

    /// One more topic, of one partition and few messages.
    ///
    /// # Errors
    /// When it can't be made or filled.
    pub fn add(&self, topic: &str, texts: &[String]) -> Result<(), Failure> {
        let failed = |error: KafkaError| {
            Failure::new(Exit::TryAgain, format_args!("can't produce into the embedded broker: {error}"))
        };
        self.cluster.create_topic(topic, 1, 1).map_err(failed)?;
        let producer = ClientConfig::new().set("bootstrap.servers", &self.bootstrap).create().map_err(failed)?;
        fill(&producer, topic, texts).map_err(failed)
    }

    /// Where it listens.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Fills the topic, partitions in turn.
    ///
    /// # Errors
    /// When a message is not taken.
    pub fn produce(&self, topic: &str, partitions: u32, messages: u64, told: impl Fn(u64)) -> Result<(), Failure> {
        let failed = |error: KafkaError| {
            Failure::new(Exit::TryAgain, format_args!("can't produce into the embedded broker: {error}"))
        };
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("compression.type", "zstd")
            .set("linger.ms", "20")
            .set("batch.num.messages", "10000")
            .set("queue.buffering.max.messages", "200000")
            .create()
            .map_err(failed)?;
        let mut requests = Requests::new(SEED);
        for number in 0..messages {
            let partition = i32::try_from(number % u64::from(partitions)).expect("a few partitions");
            let text = requests.next();
            let mut record = BaseRecord::<(), str>::to(topic).partition(partition).payload(text);
            while let Err((error, back)) = producer.send(record) {
                if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                    return Err(failed(error));
                }
                producer.poll(Duration::from_millis(20));
                record = back;
            }
            if number % STRIDE == 0 {
                producer.poll(Duration::ZERO);
                told(number);
            }
        }
        producer.flush(PATIENCE).map_err(failed)?;
        for partition in 0..partitions {
            let partition = i32::try_from(partition).expect("a few partitions");
            let (oldest, _) = producer.client().fetch_watermarks(topic, partition, PATIENCE).map_err(failed)?;
            if oldest > 0 {
                let text = format_args!(
                    "{messages} messages are more than the embedded broker keeps; ask for fewer with --messages"
                );
                return Err(Failure::new(Exit::Config, text));
            }
        }
        Ok(())
    }
}
