//! The sink on a real broker: the port's contract, and what only transactions and groups can do to it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use lakeward_kafka::{Messages, Sink, SinkConfig, SinkSource, TopicIdentity};
use lakeward_protocol::contract::output::{data_and_frontier_land_together, finds_its_own_commit};
use lakeward_protocol::contract::{OutputHarness, output_log};
use lakeward_protocol::ports::{Exit, Fault, OutputLog, Verdict};
use lakeward_protocol::position::{Offset, PartitionId, TableVersion};
use lakeward_testkit::{Broker, Message, Topic};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset as Place, TopicPartitionList};

use crate::PATIENCE;

const P0: PartitionId = PartitionId(0);

/// Each [`fresh`](OutputHarness::fresh) is a topic and a name of its own.
struct Harness {
    topic: Topic,
    id: String,
    settings: Vec<(String, String)>,
}

impl Harness {
    fn new() -> Self {
        let mut harness =
            Self { topic: Broker::shared().absent_topic("sink"), id: String::new(), settings: Vec::new() };
        harness.fresh();
        harness
    }

    fn config(&self, source_id: u8) -> SinkConfig {
        let topic = TopicIdentity { name: "web".to_owned(), id: Some([source_id; 16]) };
        SinkConfig {
            brokers: self.topic.bootstrap().to_owned(),
            topic: self.topic.name().to_owned(),
            id: self.id.clone(),
            sources: vec![SinkSource { name: "bid".to_owned(), topic }],
            settings: self.settings.clone(),
        }
    }

    fn group(&self) -> BaseConsumer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.topic.bootstrap()).set("group.id", &self.id);
        config.create().expect("make a consumer")
    }

    /// The text beside the offset of the first partition.
    fn text(&self) -> Option<String> {
        let mut list = TopicPartitionList::new();
        list.add_partition(self.topic.name(), 0);
        let list = self.group().committed_offsets(list, PATIENCE).expect("ask for offsets");
        let element = &list.elements()[0];
        matches!(element.offset(), Place::Offset(_)).then(|| element.metadata().to_owned())
    }

    /// Somebody sets the group's offsets by hand.
    fn set_text(&self, text: &str) {
        self.group().commit(&self.beside(text), CommitMode::Sync).expect("commit an offset");
    }

    fn beside(&self, text: &str) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(self.topic.name(), 0, Place::Offset(0)).expect("an offset");
        list.find_partition(self.topic.name(), 0).expect("just added").set_metadata(text);
        list
    }

    /// The text of one version more, with this partition there.
    fn next_text(&self, place: Option<(PartitionId, Offset)>) -> String {
        let text = self.text().unwrap_or_else(|| {
            "lakeward/1 0 0 1 {\"version\":0,\"commits\":[],\"topic\":null,\"sources\":[]}".to_owned()
        });
        let mut memo: serde_json::Value = serde_json::from_str(text.splitn(5, ' ').nth(4).expect("a memo")).unwrap();
        let version = memo["version"].as_u64().unwrap() + 1;
        memo["version"] = version.into();
        if let Some((partition, to)) = place {
            memo["sources"][0]["next"][usize::try_from(partition.0).unwrap()] = to.get().into();
        }
        format!("lakeward/1 {version} 0 1 {memo}")
    }
}

impl OutputHarness for Harness {
    type Log = Sink;

    fn tells_gaps(&self) -> bool {
        false
    }

    fn fresh(&mut self) {
        self.topic = Broker::shared().topic("sink", 2);
        self.id = Broker::shared().group();
    }

    fn open(&mut self) -> Sink {
        Sink::open(self.config(1)).expect("open")
    }

    fn open_for_recreated_topic(&mut self) -> Option<Sink> {
        Some(Sink::open(self.config(2)).expect("open"))
    }

    fn batch(&mut self, _: &mut Sink, partition: PartitionId, from: Offset, to: Offset) -> Messages {
        let mut messages = Messages::default();
        for offset in from.get()..to.get() {
            let row = move |bytes: &mut Vec<u8>| bytes.extend(format!("{partition} {offset}").bytes());
            messages.push(Some(&row), Some(&row));
        }
        messages
    }

    fn foreign_append(&mut self) {
        self.set_text(&self.next_text(None));
    }

    fn foreign_reshape(&mut self) {
        self.topic.grow(self.topic.partitions() + 1);
    }

    fn foreign_frontier(&mut self, partition: PartitionId, to: Offset) {
        self.set_text(&self.next_text(Some((partition, to))));
    }

    fn foreign_restore(&mut self, _: TableVersion) -> bool {
        false
    }

    fn foreign_recreate(&mut self) -> bool {
        self.topic.recreate(2);
        true
    }

    fn rows(&mut self) -> Vec<(PartitionId, Offset)> {
        let row = |message: Message| {
            let text = String::from_utf8(message.value.expect("a value")).expect("text");
            let (partition, offset) = text.split_once(' ').expect("a row");
            (PartitionId(partition.parse().expect("a number")), Offset::new(offset.parse().expect("a number")).unwrap())
        };
        let mut rows: Vec<_> = self.topic.read_committed().into_iter().map(|(_, message)| row(message)).collect();
        rows.sort_unstable();
        rows
    }
}

#[test]
fn a_topic_keeps_the_sinks_contract() {
    output_log(&mut Harness::new());
}

fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

fn only_p0() -> BTreeSet<PartitionId> {
    BTreeSet::from([P0])
}

/// A process that ended in the middle of a transaction: its messages and frontier are in the log, without an end.
fn half_done(harness: &Harness, with_frontier: bool) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", harness.topic.bootstrap()).set("transactional.id", &harness.id);
    let producer: BaseProducer = config.create().expect("make a producer");
    producer.init_transactions(PATIENCE).expect("begin");
    producer.begin_transaction().expect("begin");
    let record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(harness.topic.name()).payload(b"0 77");
    producer.send(record).map_err(|(error, _)| error).expect("produce");
    producer.flush(PATIENCE).expect("produce");
    if with_frontier {
        let group = harness.group().group_metadata().expect("a group");
        let list = harness.beside(&harness.next_text(Some((P0, offset(77)))));
        producer.send_offsets_to_transaction(&list, &group, PATIENCE).expect("write a frontier");
    }
    producer
}

#[test]
fn a_transaction_that_a_killed_process_left_is_ended_by_the_next_load() {
    for with_frontier in [false, true] {
        let mut harness = Harness::new();
        data_and_frontier_land_together(&mut harness);
        let before = harness.rows();
        let left = half_done(&harness, with_frontier);
        let start = Instant::now();
        let head = harness.open().load(&only_p0()).expect("load");
        assert!(start.elapsed() < Duration::from_secs(50), "it waited for the transaction to time out");
        assert_eq!(head.frontier[&P0], offset(3));
        assert_eq!(harness.rows(), before, "what was not committed is not seen");
        // Nothing open is in the way of what comes after it.
        harness.topic.produce([Message::new("0 78").to(0), Message::new("0 79").to(1)]);
        assert_eq!(harness.rows().len(), before.len() + 2);
        assert!(left.commit_transaction(PATIENCE).is_err(), "P8: the earlier process is fenced");
        assert_eq!(harness.open().load(&only_p0()).expect("load").frontier[&P0], offset(3));
    }
}

#[test]
fn a_sink_that_says_nothing_any_more_is_not_taken_for_one_that_says_something() {
    let mut harness = Harness::new();
    finds_its_own_commit(&mut harness);
    assert_eq!(harness.open().load(&only_p0()).expect("load").frontier[&P0], offset(2));
    Broker::shared().delete_group(&harness.id);
    let head = harness.open().load(&only_p0()).expect("load");
    assert_eq!((head.version, head.frontier.len()), (TableVersion(0), 0));
}

fn refused(harness: &mut Harness, partitions: &BTreeSet<PartitionId>, part: &str) {
    let error = harness.open().load(partitions).expect_err("refused");
    assert_eq!(error.verdict(), Verdict::Stop(Exit::Config), "{error}");
    assert!(error.to_string().contains(part), "no '{part}' in {error}");
}

#[test]
fn what_is_stored_and_not_ours_is_refused() {
    let mut harness = Harness::new();
    harness.set_text("consumer-1");
    refused(&mut harness, &only_p0(), "holds 'consumer-1'");
}

#[test]
fn a_source_that_the_pipeline_does_not_have_is_refused() {
    let mut harness = Harness::new();
    finds_its_own_commit(&mut harness);
    harness.set_text(&harness.next_text(None).replace("\"bid\"", "\"bids\""));
    refused(&mut harness, &only_p0(), "of the source bids");
}

#[test]
fn a_frontier_that_does_not_fit_is_refused_before_anything_is_written() {
    let mut harness = Harness::new();
    refused(&mut harness, &(0..1_000).map(PartitionId).collect(), "and it has 2; give it more");
    assert_eq!(harness.text(), None);
    harness.open().load(&(0..200).map(PartitionId).collect()).expect("fits");
}

/// Its batches have a message that no broker takes.
struct Large(Harness);

impl OutputHarness for Large {
    type Log = Sink;

    fn tells_gaps(&self) -> bool {
        false
    }

    fn fresh(&mut self) {
        self.0.fresh();
        self.0.topic = Broker::shared().topic_with("sink", 2, &[("max.message.bytes", "1000000")]);
    }

    fn open(&mut self) -> Sink {
        self.0.open()
    }

    fn open_for_recreated_topic(&mut self) -> Option<Sink> {
        self.0.open_for_recreated_topic()
    }

    fn batch(&mut self, log: &mut Sink, partition: PartitionId, from: Offset, to: Offset) -> Messages {
        let mut messages = self.0.batch(log, partition, from, to);
        messages.push(Some(&|bytes| bytes.extend(b"the-key")), Some(&|bytes| bytes.resize(2_000_000, b'x')));
        messages
    }

    fn foreign_append(&mut self) {
        self.0.foreign_append();
    }

    fn foreign_reshape(&mut self) {
        self.0.foreign_reshape();
    }

    fn foreign_frontier(&mut self, partition: PartitionId, to: Offset) {
        self.0.foreign_frontier(partition, to);
    }

    fn foreign_restore(&mut self, to: TableVersion) -> bool {
        self.0.foreign_restore(to)
    }

    fn foreign_recreate(&mut self) -> bool {
        self.0.foreign_recreate()
    }

    fn rows(&mut self) -> Vec<(PartitionId, Offset)> {
        self.0.rows()
    }
}

#[test]
fn a_message_that_is_too_large_stops_and_leaves_nothing_open() {
    // Refused by the client, and by the brokers.
    for client_bytes in ["1000000", "4000000"] {
        let mut large = Large(Harness::new());
        large.0.settings = vec![("message.max.bytes".to_owned(), client_bytes.to_owned())];
        let ended = catch_unwind(AssertUnwindSafe(|| data_and_frontier_land_together(&mut large)));
        let panic = ended.expect_err("the put goes wrong");
        let said = panic.downcast_ref::<String>().expect("a text");
        assert!(said.contains("Unwritable") && said.contains("the-key"), "{said}");
        assert_eq!((large.0.text(), large.rows()), (None, vec![]), "nothing is committed");
        large.0.topic.produce([Message::new("0 78").to(0), Message::new("0 79").to(1)]);
        assert_eq!(large.rows().len(), 2, "nothing is open");
    }
}
