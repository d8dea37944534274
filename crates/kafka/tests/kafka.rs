//! The source on a real broker: the port's contract, and what Kafka alone can do to it.

use std::time::Duration;

use lakeward_kafka::{Source, SourceConfig};
use lakeward_protocol::contract::{InputHarness, input_log};
use lakeward_protocol::position::{Offset, PartitionId};
use lakeward_testkit::{Broker, Message, Topic};

/// As long as a loaded machine may need for a rebalance.
const PATIENCE: Duration = Duration::from_secs(60);

/// The contract's harness: each [`fresh`](InputHarness::fresh) is a topic and a group of its own.
struct Harness {
    topic: Topic,
    group: String,
    settings: Vec<(String, String)>,
}

impl Harness {
    fn new(settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Self { topic: Broker::shared().absent_topic("contract"), group: String::new(), settings }
    }
}

impl InputHarness for Harness {
    type Log = Source;

    fn fresh(&mut self, partitions: u32) {
        let partitions = i32::try_from(partitions).expect("a small number");
        self.topic = Broker::shared().topic("contract", partitions);
        self.group = Broker::shared().group();
    }

    fn join(&mut self) -> Source {
        let mut config = SourceConfig::new(Broker::shared().bootstrap(), &self.group, self.topic.name());
        config.settings.clone_from(&self.settings);
        Source::subscribe(config).expect("join")
    }

    fn append(&mut self, partition: PartitionId, values: &[Option<&[u8]>]) {
        let partition = i32::try_from(partition.0).expect("a small number");
        let message = |value: &Option<&[u8]>| Message { value: value.map(<[u8]>::to_vec), ..Message::default() };
        self.topic.produce(values.iter().map(|value| message(value).to(partition)));
    }

    fn append_hole(&mut self, partition: PartitionId) -> bool {
        let partition = i32::try_from(partition.0).expect("a small number");
        let mut transactions = self.topic.transactional();
        transactions.begin();
        transactions.produce([Message::new("never seen").to(partition)]);
        transactions.abort();
        true
    }

    fn expire(&mut self, partition: PartitionId, oldest: Offset) -> bool {
        self.topic.delete_records(i32::try_from(partition.0).expect("a small number"), oldest.get());
        true
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

#[test]
fn keeps_the_contract_with_the_eager_protocol() {
    input_log(&mut Harness::new(&[]));
}

#[test]
fn keeps_the_contract_with_the_cooperative_protocol() {
    input_log(&mut Harness::new(&[("partition.assignment.strategy", "cooperative-sticky")]));
}

#[test]
fn keeps_the_contract_with_the_new_group_protocol() {
    input_log(&mut Harness::new(&[("group.protocol", "consumer")]));
}
