//! The user's options as librdkafka's settings.

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use tracing::warn;

use crate::error::KafkaError;

/// Default of [`SourceConfig::memory_bytes`].
pub const DEFAULT_MEMORY_BYTES: usize = 64 << 20;

/// What to read and how.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Bootstrap servers, `host:port`, separated by commas.
    pub brokers: String,
    /// The consumer group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// Further settings by librdkafka's names. What the options above say wins over them, and so does
    /// what the protocol rests on (where to start, what to commit).
    pub settings: Vec<(String, String)>,
    /// About how much memory may hold records that were fetched and not yet polled, in bytes. A single
    /// larger record still passes.
    pub memory_bytes: usize,
    /// The most records of one [`Records`](lakeward_protocol::records::Records).
    pub arena_records: usize,
    /// About the most bytes of one; a larger record has one of its own.
    pub arena_bytes: usize,
    /// Whether the records' keys come along; else they are left with librdkafka.
    pub keys: bool,
    /// The same of their headers.
    pub headers: bool,
}

impl SourceConfig {
    /// With the defaults for all but what has none.
    #[must_use]
    pub fn new(brokers: &str, group: &str, topic: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
            group: group.to_owned(),
            topic: topic.to_owned(),
            settings: Vec::new(),
            memory_bytes: DEFAULT_MEMORY_BYTES,
            arena_records: 16_000,
            arena_bytes: 4 << 20,
            keys: false,
            headers: false,
        }
    }

    /// Half of the memory is librdkafka's queue, a quarter arenas on their way to the caller, a quarter
    /// those that came back and wait for the next.
    pub(crate) fn handoff_bytes(&self) -> usize {
        self.memory_bytes / 4
    }

    /// librdkafka's settings; warns of each that the user gave in vain.
    pub(crate) fn client(&self) -> Result<ClientConfig, KafkaError> {
        let mut client = ClientConfig::new();
        for (key, value) in self.defaults() {
            client.set(key, value);
        }
        for (key, value) in self.accepted() {
            client.set(key, value);
        }
        for (key, value) in FIXED {
            client.set(*key, *value);
        }
        client.set("bootstrap.servers", &self.brokers).set("group.id", &self.group);
        let debugs = self.settings.iter().any(|(key, _)| key == "debug");
        client.set_log_level(if debugs { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Warning });
        Ok(client)
    }

    fn defaults(&self) -> Vec<(&'static str, String)> {
        // More would only wait in memory: the queue is filled again while it is emptied.
        let queue_kbytes = (self.memory_bytes / 2 / 1024).clamp(64, 8_192);
        let fetch_bytes = (self.memory_bytes / 4).clamp(1 << 20, 50 << 20);
        let mut defaults = vec![
            ("client.id", "lakeward".to_owned()),
            ("isolation.level", "read_committed".to_owned()),
            ("queued.max.messages.kbytes", queue_kbytes.to_string()),
            ("fetch.max.bytes", fetch_bytes.to_string()),
            // A batch larger than what is asked for comes all the same, alone; this only has to let it pass.
            ("receive.message.max.bytes", "1000000000".to_owned()),
            // Its default of a second stalls whoever empties the queue within one.
            ("fetch.queue.backoff.ms", "2".to_owned()),
            // Corrupt bytes are to be noticed before they are in a table.
            ("check.crcs", "true".to_owned()),
            // Topics made later and partitions added are seen this soon.
            ("topic.metadata.refresh.interval.ms", "10000".to_owned()),
            ("reconnect.backoff.max.ms", "2000".to_owned()),
            ("socket.keepalive.enable", "true".to_owned()),
        ];
        if !self.is_new_protocol() {
            // A killed process's partitions wait this long for the next owner. Exactly-once does not hang on it.
            defaults.push(("session.timeout.ms", "10000".to_owned()));
        }
        defaults
    }

    fn accepted(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).filter(|(key, _)| {
            let owner = match *key {
                "bootstrap.servers" | "metadata.broker.list" => Some("the option for brokers decides"),
                "group.id" => Some("the option for the consumer group decides"),
                key if FIXED.iter().any(|(fixed, _)| *fixed == key) => Some("Lakeward itself decides"),
                key if self.is_new_protocol() && SERVER_SIDE.contains(&key) => {
                    Some("with group.protocol=consumer the brokers decide")
                }
                _ => None,
            };
            if let Some(owner) = owner {
                warn!("Kafka setting `{key}` is ignored: {owner}");
            }
            owner.is_none()
        })
    }

    fn is_new_protocol(&self) -> bool {
        self.settings.iter().any(|(key, value)| key == "group.protocol" && value.eq_ignore_ascii_case("consumer"))
    }
}

/// What the protocol rests on: the sink says where to start, and nobody else.
const FIXED: &[(&str, &str)] = &[
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "error"),
    ("enable.partition.eof", "true"),
    ("allow.auto.create.topics", "false"),
];

/// What librdkafka refuses with KIP-848.
const SERVER_SIDE: &[&str] =
    &["session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type"];
