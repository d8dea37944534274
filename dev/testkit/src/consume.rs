//! What a consumer sees that reads what is committed, and nothing else.

use std::time::Instant;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::admin::{PATIENCE, Topic};
use crate::produce::{Message, Sent};

impl Topic {
    /// All messages up to the first open transaction of each partition, with their places and in their order.
    ///
    /// # Panics
    /// When they can't be read.
    pub fn read_committed(&self) -> Vec<(Sent, Message)> {
        let mut config = self.config();
        config.set("group.id", "readers").set("isolation.level", "read_committed").set("enable.partition.eof", "true");
        let consumer: BaseConsumer = config.set("enable.auto.commit", "false").create().expect("make a consumer");
        let mut list = TopicPartitionList::new();
        let partitions = self.partitions();
        for partition in 0..partitions {
            list.add_partition_offset(&self.name, partition, Offset::Beginning).expect("an offset");
        }
        consumer.assign(&list).expect("read all partitions");
        let (mut messages, mut ended, deadline) = (Vec::new(), 0, Instant::now() + PATIENCE);
        while ended < partitions {
            assert!(Instant::now() < deadline, "{} can't be read to its end", self.name);
            match consumer.poll(PATIENCE / 60) {
                None => {}
                Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
                Some(Err(error)) => panic!("read {}: {error}", self.name),
                Some(Ok(read)) => {
                    let sent = Sent { partition: read.partition(), offset: read.offset() };
                    let (key, value) = (read.key().map(<[u8]>::to_vec), read.payload().map(<[u8]>::to_vec));
                    let timestamp_ms = read.timestamp().to_millis();
                    let partition = Some(read.partition());
                    let header =
                        |header: Header<'_, &[u8]>| (header.key.to_owned(), header.value.unwrap_or_default().to_vec());
                    let headers = read.headers().map_or_else(Vec::new, |all| all.iter().map(header).collect());
                    messages.push((sent, Message { partition, key, value, timestamp_ms, headers }));
                }
            }
        }
        messages.sort_by_key(|(sent, _)| *sent);
        messages
    }

    /// How many partitions there are.
    ///
    /// # Panics
    /// When the broker does not say.
    pub fn partitions(&self) -> i32 {
        let client: BaseConsumer = self.config().create().expect("make a client");
        let metadata = client.fetch_metadata(Some(&self.name), PATIENCE).expect("ask for metadata");
        i32::try_from(metadata.topics()[0].partitions().len()).expect("a number of partitions")
    }
}
