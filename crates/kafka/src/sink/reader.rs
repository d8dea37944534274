//! What a sink says of itself, asked from the brokers. Writes nothing.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError as Rdkafka, RDKafkaErrorCode as Code};
use rdkafka::{Offset as Place, TopicPartitionList};

use super::memo::Memo;
use super::{PATIENCE, SinkConfig};
use crate::context::{Context, Event};
use crate::error::KafkaError;
use crate::native::{Described, IdentityQuery, TopicId, c_name};
use crate::oauth::{self, Membership, Tokens};
use crate::source::{is_topic_name, setting};
use crate::trouble::{Kind, Trouble};

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub id: TopicId,
    pub partitions: usize,
    pub memo: Memo,
    /// The offsets that the memo stands beside, for lag tools: where our last messages end.
    pub ends: BTreeMap<i32, i64>,
}

/// Asks as the sink's group, which it never joins.
pub(super) struct Reader {
    config: SinkConfig,
    name: CString,
    /// Before the consumer, so that it is dropped before it.
    _membership: Option<Membership>,
    consumer: Arc<BaseConsumer<Context>>,
    tokens: Option<&'static Tokens>,
    trouble: Trouble,
}

impl Reader {
    pub fn open(config: &SinkConfig) -> Result<Self, KafkaError> {
        let bad_name = || KafkaError::Setting {
            key: "topic".to_owned(),
            reason: format!("no topic has the name {:?}", config.topic),
        };
        let name = c_name(&config.topic).filter(|_| is_topic_name(&config.topic)).ok_or_else(bad_name)?;
        let mut client = config.client();
        client.set("group.id", &config.id).set("isolation.level", "read_committed");
        client.set("enable.auto.commit", "false").set("allow.auto.create.topics", "false");
        let tokens = oauth::tokens(&mut client)?;
        let consumer = client.create_with_context(Context::with(tokens)).map_err(|error| setting(&error, "client"))?;
        let consumer: Arc<BaseConsumer<Context>> = Arc::new(consumer);
        let _membership = tokens.map(|tokens| tokens.join(&consumer));
        let trouble = Trouble::new(&config.brokers, &config.topic);
        Ok(Self { config: config.clone(), name, _membership, consumer, tokens, trouble })
    }

    /// The newest version. Waits while a transaction is under way that may become it.
    pub fn read(&mut self) -> Result<Seen, KafkaError> {
        let (partitions, broker) = self.metadata()?;
        let asked = IdentityQuery::ask(&self.consumer, &self.name, broker, PATIENCE);
        let answer = asked.answer(PATIENCE + Duration::from_secs(1)).unwrap_or(Err(Code::OperationTimedOut));
        let Described { id, .. } =
            answer.map_err(|code| self.failed("ask for the id", &Rdkafka::MetadataFetch(code)))?;
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.config.topic, 0, i32::try_from(partitions).unwrap_or(i32::MAX) - 1);
        let list = self.consumer.committed_offsets(list, PATIENCE);
        let list = list.map_err(|error| self.failed("ask for the sink's frontier", &error))?;
        let mut seen = Seen { id, partitions, ..Seen::default() };
        let mut stored = vec![None; partitions];
        for element in list.elements() {
            element.error().map_err(|error| self.failed("ask for the sink's frontier", &error))?;
            let (Place::Offset(end), Ok(at)) = (element.offset(), usize::try_from(element.partition())) else {
                continue;
            };
            seen.ends.insert(element.partition(), end);
            if let Some(place) = stored.get_mut(at) {
                *place = Some(element.metadata().to_owned());
            }
        }
        let memo = Memo::read(&stored).map_err(|found| {
            self.config.unfit(format!(
                "its group {} holds {found}, which this version did not write: another program has offsets under \
                 this name; choose another SET app_id, or another name for the sink",
                self.config.id
            ))
        })?;
        // What is said of a topic that is gone is not said of the one in its place.
        let is_about_it = memo.topic.is_none() || id.is_none() || memo.topic == id.map(crate::watch::text);
        seen.memo = if is_about_it { memo } else { Memo::default() };
        self.trouble.heal();
        Ok(seen)
    }

    /// Partitions, and a broker that knows the topic.
    fn metadata(&mut self) -> Result<(usize, Option<i32>), KafkaError> {
        let what = "ask for the partitions";
        let metadata = self.consumer.fetch_metadata(Some(&self.config.topic), PATIENCE);
        let metadata = metadata.map_err(|error| self.failed(what, &error))?;
        let topic = metadata.topics().first();
        if let Some(code) = topic.and_then(rdkafka::metadata::MetadataTopic::error) {
            return Err(self.failed(what, &Rdkafka::MetadataFetch(code.into())));
        }
        let partitions = topic.map(|topic| topic.partitions()).unwrap_or_default();
        if partitions.is_empty() {
            return Err(self.failed(what, &Rdkafka::MetadataFetch(Code::UnknownTopicOrPartition)));
        }
        let leader = partitions.iter().map(|p| p.leader()).find(|id| *id >= 0);
        Ok((partitions.len(), leader.or(metadata.brokers().first().map(|broker| broker.id()))))
    }

    /// The group, as transactions name it.
    pub fn group(&self) -> ConsumerGroupMetadata {
        self.consumer.group_metadata().expect("a consumer with a group")
    }

    /// Why a question or an order came to nothing, where the clients said it better.
    pub fn failed(&mut self, what: &str, error: &Rdkafka) -> KafkaError {
        // Errors come by the context, with their reasons; it never has messages.
        for _ in 0..4 {
            if self.consumer.poll(Duration::ZERO).is_none() {
                break;
            }
        }
        self.judge(self.consumer.context().take(), what, error)
    }

    /// [`failed`](Self::failed), with what a client said.
    pub fn judge(&mut self, events: Vec<Event>, what: &str, error: &Rdkafka) -> KafkaError {
        let said = events.into_iter().filter_map(|event| match event {
            Event::Failed { code, reason } => Some((code, reason)),
            _ => None,
        });
        let code = error.rdkafka_error_code();
        let own = code.map(|code| (code, error.to_string()));
        for (code, reason) in said.chain(own) {
            if let Kind::Fatal(error @ (KafkaError::Refused { .. } | KafkaError::NoToken { .. })) =
                self.trouble.judge(code, &reason)
            {
                return error;
            }
        }
        if let Some(detail) = self.tokens.and_then(Tokens::lacking) {
            return KafkaError::Unreachable { brokers: self.config.brokers.clone(), detail };
        }
        match code {
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
                KafkaError::NoTopic { topic: self.config.topic.clone(), brokers: self.config.brokers.clone() }
            }
            Some(Code::UnknownMemberId | Code::IllegalGeneration) => self.config.unfit(format!(
                "its group {} has members, and is for the sink's frontier alone; stop the program that joined it, or \
                 choose another SET app_id, or another name for the sink",
                self.config.id
            )),
            Some(Code::OffsetMetadataTooLarge) => self.config.unfit(
                "its frontier is longer than the brokers allow beside an offset: raise their \
                 offset.metadata.max.bytes to the default of 4096 or more"
                    .to_owned(),
            ),
            _ => KafkaError::Unanswered {
                what: what.to_owned(),
                topic: self.config.topic.clone(),
                detail: error.to_string(),
            },
        }
    }
}
