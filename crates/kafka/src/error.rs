//! What goes wrong with Kafka, and what a person is to do about it.

use lakeward_protocol::ports::{Exit, Fault, Verdict};
use lakeward_protocol::position::PartitionId;

/// Why the input can't be read, as yet or at all.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KafkaError {
    /// An option does not fit.
    #[error("Kafka setting `{key}`: {reason}; correct it (-K KEY=VALUE, names as in librdkafka's CONFIGURATION.md)")]
    Setting {
        /// The setting's name; never its value, which may be a secret.
        key: String,
        /// What librdkafka says of it.
        reason: String,
    },
    /// The brokers know us not, or do not let us.
    #[error("{brokers} refuses us ({what}): {detail}; {remedy}")]
    Refused {
        /// Who refuses.
        brokers: String,
        /// What: authentication, authorization, TLS.
        what: &'static str,
        /// In the client's words.
        detail: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Who gives tokens gives us none.
    #[error("no token to prove ourselves to {brokers} with: {detail}; {remedy}")]
    NoToken {
        /// For whom.
        brokers: String,
        /// Who refuses, and in which words.
        detail: String,
        /// What to do.
        remedy: &'static str,
    },
    /// No broker answers.
    #[error("no broker of {brokers} answers: {detail}")]
    Unreachable {
        /// Who does not.
        brokers: String,
        /// In the client's words.
        detail: String,
    },
    /// There is no such topic, as yet.
    #[error("topic {topic} does not exist at {brokers}; create it, or mend its name")]
    NoTopic {
        /// Its name.
        topic: String,
        /// Who says so.
        brokers: String,
    },
    /// A question or an order was not answered.
    #[error("{what} of topic {topic}: {detail}")]
    Unanswered {
        /// Verb and object.
        what: String,
        /// About which topic.
        topic: String,
        /// In the client's words.
        detail: String,
    },
    /// P3: records that were to be deleted, and that the brokers keep for good.
    #[error("{what}: {detail}; {remedy}")]
    Untrimmed {
        /// Verb and object.
        what: String,
        /// In the client's words.
        detail: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Records that can't be read.
    #[error(
        "partition {partition} of topic {topic} can't be read at offset {offset}: {detail}; nothing after it was taken. \
         Repair the log, or go on above it with --seek_offsets for a new app id"
    )]
    Unreadable {
        /// The topic.
        topic: String,
        /// The partition.
        partition: PartitionId,
        /// About where.
        offset: i64,
        /// In the client's words.
        detail: String,
    },
    /// P9: another topic of the same name.
    #[error(
        "topic {topic} was deleted and made again while it was read (its id was {was} and is {is}); what its new \
         records are to the table is not for us to guess: start again, the start says how to go on"
    )]
    Recreated {
        /// The topic.
        topic: String,
        /// The id that it had.
        was: String,
        /// The id that it has.
        is: String,
    },
    /// A topic that can't be this sink's.
    #[error("topic {topic} as a sink: {detail}")]
    Unfit {
        /// The topic.
        topic: String,
        /// What is wrong, and what to do.
        detail: String,
    },
    /// A message that brokers don't take.
    #[error(
        "topic {topic} takes no message of the key {key}: {detail}; nothing of the step was written. For larger messages \
         raise the topic's max.message.bytes, and kafka.message.max.bytes of the sink"
    )]
    Unwritable {
        /// The topic.
        topic: String,
        /// The key, shortened.
        key: String,
        /// In the client's words.
        detail: String,
    },
    /// librdkafka gave up for good.
    #[error("the Kafka client gave up: {detail}; start again")]
    Fatal {
        /// In its words.
        detail: String,
    },
}

impl Fault for KafkaError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Unreachable { .. } | Self::NoTopic { .. } | Self::Unanswered { .. } => Verdict::Retry,
            Self::Setting { .. } | Self::Untrimmed { .. } | Self::Unfit { .. } => Verdict::Stop(Exit::Config),
            Self::Refused { .. } | Self::NoToken { .. } => Verdict::Stop(Exit::Unavailable),
            Self::Unreadable { .. } | Self::Recreated { .. } | Self::Unwritable { .. } => Verdict::Stop(Exit::Data),
            Self::Fatal { .. } => Verdict::Stop(Exit::TryAgain),
        }
    }
}
