//! The source and the sink on a real broker: their ports' contracts, and what Kafka alone can do to them.
#![allow(clippy::disallowed_methods, reason = "tests are the world around the source")]

mod sink;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lakeward_kafka::{KafkaError, Source, SourceConfig};
use lakeward_protocol::contract::{InputHarness, input_log};
use lakeward_protocol::ports::{Bounds, Exit, Fault, Input, InputLog, Verdict};
use lakeward_protocol::position::{Frontier, Offset, PartitionId};
use lakeward_protocol::records::{Records, TimestampType};
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

/// A member and what it was told, with the rows it would have written.
struct Member {
    source: Source,
    owned: BTreeSet<PartitionId>,
    at: BTreeMap<PartitionId, Offset>,
    values: BTreeMap<PartitionId, Vec<(i64, Option<Vec<u8>>)>>,
    reached: BTreeMap<PartitionId, Offset>,
    gone: Vec<Input>,
    lost: usize,
    holes: u64,
    hitches: Vec<KafkaError>,
}

impl Member {
    fn new(source: Source) -> Self {
        Self {
            source,
            owned: BTreeSet::new(),
            at: BTreeMap::new(),
            values: BTreeMap::new(),
            reached: BTreeMap::new(),
            gone: Vec::new(),
            lost: 0,
            holes: 0,
            hitches: Vec::new(),
        }
    }

    /// Reads all partitions of a topic from their beginnings, without a group.
    fn alone(topic: &Topic, settings: &[(&str, &str)]) -> Self {
        Self::alone_from(topic, settings, &(0..).zip(0..1).map(|(p, at)| (PartitionId(p), offset(at))).collect())
    }

    fn alone_from(topic: &Topic, settings: &[(&str, &str)], at: &Frontier) -> Self {
        let source = Source::assign(config(topic, settings), at.keys().copied().collect()).expect("open");
        let mut member = Self::new(source);
        member.until("partitions are given", |m| m.owned.len() == at.len());
        member.start(at);
        member
    }

    fn start(&mut self, at: &Frontier) {
        self.at.extend(at.clone());
        self.source.start(at).expect("start");
    }

    /// One poll. A rebalance is answered as the core would: with what `sink` holds, and into it.
    fn poll_with(&mut self, sink: &mut Frontier) {
        match self.source.poll(5_000, Duration::from_millis(50)) {
            Err(error) if error.verdict() == Verdict::Retry => self.hitches.push(error),
            Err(error) => panic!("{error}"),
            Ok(None) => {}
            Ok(Some(Input::Gained(partitions))) => {
                assert!(self.owned.is_disjoint(&partitions));
                self.owned.extend(&partitions);
                let at: Frontier =
                    partitions.iter().map(|p| (*p, sink.get(p).copied().unwrap_or(Offset::ZERO))).collect();
                if !sink.is_empty() {
                    self.start(&at);
                }
            }
            Ok(Some(Input::Losing(partitions))) => {
                for partition in &partitions {
                    self.owned.remove(partition);
                    if let Some(at) = self.at.remove(partition) {
                        sink.insert(*partition, at);
                    }
                }
                self.source.release(&partitions).expect("release");
            }
            Ok(Some(Input::Lost(partitions))) => {
                self.lost += 1;
                self.owned.retain(|p| !partitions.contains(p));
                self.at.retain(|p, _| !partitions.contains(p));
            }
            Ok(Some(Input::Records(records))) => self.take(records),
            Ok(Some(Input::Reached { partition, end })) => {
                assert_eq!(self.at[&partition], end, "what has no record is covered before the end is told");
                self.reached.insert(partition, end);
            }
            Ok(Some(gone @ Input::Gone { .. })) => self.gone.push(gone),
        }
    }

    fn take(&mut self, records: Records) {
        let partition = records.partition();
        let at = self.at.get_mut(&partition).expect("records of a partition that was not started");
        assert_eq!(records.from(), *at, "P2: the chain of partition {partition}");
        *at = records.to();
        self.holes += records.from().span_until(records.to()) - records.len() as u64;
        let values = records.entries().iter().map(|e| (e.offset, records.value(e).map(<[u8]>::to_vec)));
        self.values.entry(partition).or_default().extend(values);
        self.source.recycle(records);
    }

    fn poll(&mut self) {
        self.poll_with(&mut Frontier::new());
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(began.elapsed() < PATIENCE, "waited in vain: {what}; hitches: {:?}", self.hitches);
            self.poll();
        }
    }

    fn until_end(&mut self) {
        let ends = self.source.ends().expect("ends");
        self.until("the end", |m| ends.iter().all(|(p, end)| m.at.get(p).is_none_or(|at| at >= end)));
    }

    fn count(&self) -> usize {
        self.values.values().map(Vec::len).sum()
    }

    fn texts(&self, partition: u32) -> Vec<String> {
        let values = self.values.get(&PartitionId(partition)).into_iter().flatten();
        values.map(|(_, v)| String::from_utf8(v.clone().unwrap_or_default()).expect("text")).collect()
    }

    fn offsets(&self, partition: u32) -> Vec<i64> {
        self.values.get(&PartitionId(partition)).into_iter().flatten().map(|(offset, _)| *offset).collect()
    }
}

fn config(topic: &Topic, settings: &[(&str, &str)]) -> SourceConfig {
    let mut config = SourceConfig::new(topic.bootstrap(), &Broker::unique("group"), topic.name());
    config.settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    config
}

fn offset(raw: i64) -> Offset {
    Offset::new(raw).expect("not negative")
}

fn numbered(range: std::ops::Range<u64>) -> impl Iterator<Item = Message> {
    range.map(|n| Message::new(n.to_string()).to(0))
}

const P0: PartitionId = PartitionId(0);

#[test]
fn k58_p16_a_transaction_is_seen_when_committed_and_never_when_aborted() {
    let topic = Broker::shared().topic("transactions", 1);
    let mut transactions = topic.transactional();
    transactions.begin();
    transactions.produce((0..5).map(|n| Message::new(format!("yes {n}")).to(0)));
    transactions.commit(); // offsets 0 to 4, a marker at 5
    transactions.begin();
    transactions.produce((0..3).map(|n| Message::new(format!("no {n}")).to(0)));
    transactions.abort(); // 6 to 8, a marker at 9
    let mut member = Member::alone(&topic, &[]);
    assert_eq!(member.source.ends().expect("ends")[&P0], offset(10), "the end lies behind the markers");
    member.until("the end", |m| m.reached.get(&P0) == Some(&offset(10)));
    assert_eq!(member.offsets(0), [0, 1, 2, 3, 4]);
    // An open transaction ends what can be read, and what is asked for as the end, so that `-e` ends.
    transactions.begin();
    transactions.produce([Message::new("open").to(0)]);
    topic.produce([Message::new("behind it").to(0)]);
    assert_eq!(member.source.ends().expect("ends")[&P0], offset(10));
    transactions.commit();
    member.until("both", |m| m.count() == 7);
    assert_eq!(member.offsets(0)[5..], [10, 11]);
    // Who wants the uncommitted as well gets it.
    let mut uncommitted = Member::alone(&topic, &[("isolation.level", "read_uncommitted")]);
    uncommitted.until("all", |m| m.count() == 10);
}

#[test]
fn p17_compaction_leaves_holes_and_the_chain_holds() {
    let settings = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("segment.ms", "200"),
        ("max.compaction.lag.ms", "500"),
    ];
    let topic = Broker::shared().topic_with("compacted", 1, &settings);
    for round in 0..5 {
        topic.produce((0..20).map(|n| Message::new(format!("{round}")).key(format!("k{}", n % 4)).to(0)));
        std::thread::sleep(Duration::from_millis(300));
    }
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < PATIENCE, "the log is not compacted");
        std::thread::sleep(Duration::from_millis(500));
        topic.produce([Message::new("roll").key("roll").to(0)]); // the active segment is never compacted
        let mut member = Member::alone(&topic, &[]);
        member.until_end();
        let old: Vec<i64> = member.offsets(0).into_iter().filter(|o| *o < 100).collect();
        if old.len() <= 4 {
            assert!(!old.contains(&0), "what was replaced is gone: {old:?}");
            assert_eq!(old.last(), Some(&99), "the newest of each key stays");
            return;
        }
    }
}

#[test]
fn k59_an_emptied_topic_ends_at_once_and_says_what_is_gone() {
    let topic = Broker::shared().topic("emptied", 1);
    topic.produce(numbered(0..30));
    topic.delete_records(0, 30); // as retention does, but when told
    assert_eq!(topic.watermarks(0), (30, 30));
    let mut member = Member::alone_from(&topic, &[], &Frontier::from([(P0, offset(30))]));
    assert_eq!(member.source.ends().expect("ends")[&P0], offset(30));
    member.until("the end", |m| m.reached.contains_key(&P0));
    assert_eq!(member.count(), 0);
    member.start(&Frontier::from([(P0, offset(9))]));
    member.until("word of the gap", |m| !m.gone.is_empty());
    let bounds = Bounds { oldest: offset(30), end: offset(30) };
    assert!(
        matches!(member.gone[0], Input::Gone { partition: P0, at, oldest, end }
            if at == offset(9) && oldest == bounds.oldest && end == bounds.end),
        "{:?}",
        member.gone
    );
}

#[test]
fn a_topic_made_again_has_another_id_and_is_noticed_while_reading() {
    let topic = Broker::shared().topic("again", 1);
    topic.produce(numbered(0..3));
    let mut member = Member::alone(&topic, &[]);
    member.until_end();
    let was = member.source.topic_identity().expect("an id");
    assert_eq!(was.id_text().expect("an id").len(), 22, "as Kafka's tools print it");
    topic.recreate(1);
    topic.produce(numbered(0..1_000)); // beyond where we stand: only the id tells
    let began = Instant::now();
    let error = loop {
        assert!(began.elapsed() < PATIENCE, "nobody noticed");
        if let Err(error @ KafkaError::Recreated { .. }) = member.source.poll(100, Duration::from_millis(50)) {
            break error;
        }
    };
    assert_eq!(error.verdict(), Verdict::Stop(Exit::Data));
    let fresh = Source::assign(config(&topic, &[]), BTreeSet::new()).expect("open");
    assert_ne!(fresh.topic_identity().expect("an id").id, was.id);
}

#[test]
fn every_codec_is_read() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = Broker::shared().topic(&format!("codec-{codec}"), 1);
        topic.produce_with(&[("compression.type", codec)], numbered(0..500));
        let mut member = Member::alone(&topic, &[]);
        member.until("500 records", |m| m.count() == 500);
        assert_eq!(member.texts(0), (0..500).map(|n| n.to_string()).collect::<Vec<_>>(), "{codec}");
    }
}

#[test]
fn p56_large_messages_pass_within_the_memory_bound() {
    let topic = Broker::shared().topic_with("large", 1, &[("max.message.bytes", "67108864")]);
    let large = |n: u8| Message::new(vec![b'a' + n; 30 << 20]).to(0);
    topic.produce([Message::new("before").to(0), large(0), large(1), Message::new("between").to(0), large(2)]);
    let mut config = config(&topic, &[]);
    config.memory_bytes = 8 << 20; // less than one of them
    let mut member = Member::new(Source::assign(config, BTreeSet::from([P0])).expect("open"));
    member.until("the partition is given", |m| !m.owned.is_empty());
    member.start(&Frontier::from([(P0, Offset::ZERO)]));
    member.until("5 records", |m| m.count() == 5);
    let lengths: Vec<_> = member.values[&P0].iter().map(|(_, value)| value.as_ref().expect("a value").len()).collect();
    assert_eq!(lengths, [6, 30 << 20, 30 << 20, 7, 30 << 20]);
    assert!(member.values[&P0][4].1.as_ref().expect("a value").iter().all(|byte| *byte == b'c'));
}

#[test]
fn p34_odd_timestamps_pass_as_they_are() {
    // Brokers refuse what lies more than an hour ahead, unless told.
    let settings = [("message.timestamp.after.max.ms", "9223372036854775807")];
    let topic = Broker::shared().topic_with("timestamps", 1, &settings);
    topic.produce([Message::new("a").to(0).at(1_626_823_098_519), Message::new("b").to(0).at(1_700_000_000_000_000)]);
    let mut source = Source::assign(config(&topic, &[]), BTreeSet::from([P0])).expect("open");
    source.start(&Frontier::from([(P0, Offset::ZERO)])).expect("start");
    let began = Instant::now();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        assert!(began.elapsed() < PATIENCE, "two records");
        if let Some(Input::Records(records)) = source.poll(10, Duration::from_millis(50)).expect("poll") {
            seen.extend(records.entries().iter().map(|e| (e.timestamp_ms, e.timestamp_type)));
        }
    }
    let create = TimestampType::CreateTime;
    assert_eq!(seen, [(1_626_823_098_519, create), (1_700_000_000_000_000, create)]);
}

#[test]
fn k73_waits_for_a_topic_and_for_more_partitions() {
    let topic = Broker::shared().absent_topic("later");
    let mut member = Member::new(Source::subscribe(config(&topic, &[])).expect("join"));
    member.until("word that the topic is missing", |m| {
        m.hitches.iter().any(|hitch| matches!(hitch, KafkaError::NoTopic { .. }))
    });
    assert!(matches!(member.source.partitions(), Err(KafkaError::NoTopic { .. })));
    assert!(matches!(member.source.topic_identity(), Err(KafkaError::NoTopic { .. })));
    topic.create(1, &[]);
    let mut sink = Frontier::from([(P0, Offset::ZERO)]);
    let began = Instant::now();
    while member.owned.is_empty() {
        assert!(began.elapsed() < PATIENCE, "the topic is there");
        member.poll_with(&mut sink);
    }
    topic.produce(numbered(0..10));
    member.until("its records", |m| m.count() == 10);
    topic.grow(3);
    while member.owned.len() < 3 {
        assert!(began.elapsed() < 2 * PATIENCE, "new partitions are noticed");
        member.poll_with(&mut sink);
    }
    topic.produce([Message::new("new").to(2)]);
    while member.count() < 11 {
        assert!(began.elapsed() < 2 * PATIENCE, "new partitions are read");
        member.poll_with(&mut sink);
    }
}

#[test]
fn who_reads_alone_is_given_what_is_added_if_it_reads_all() {
    let topic = Broker::shared().topic("alone", 2);
    let first = BTreeSet::from([P0, PartitionId(1)]);
    let mut member = Member::new(Source::assign_all(config(&topic, &[]), first.clone()).expect("open"));
    let mut fixed = Member::new(Source::assign(config(&topic, &[]), first.clone()).expect("open"));
    for member in [&mut member, &mut fixed] {
        member.until("partitions are given", |m| m.owned == first);
        member.start(&first.iter().map(|p| (*p, Offset::ZERO)).collect());
    }
    topic.produce([Message::new("0").to(0), Message::new("1").to(1)]);
    member.until("the records", |m| m.count() == 2);
    topic.grow(4);
    topic.produce([Message::new("0").to(0), Message::new("2").to(2), Message::new("3").to(3)]);
    member.until("new partitions", |m| m.owned.len() == 4);
    member.start(
        &(0..4).map(|p| (PartitionId(p), member.at.get(&PartitionId(p)).copied().unwrap_or(Offset::ZERO))).collect(),
    );
    member.until("their records", |m| m.count() == 5);
    fixed.until("the one record more", |m| m.count() == 3);
    assert_eq!(fixed.owned, first, "who reads some of them is given no others");
}

#[test]
fn p3_trims_what_it_is_told_and_no_more() {
    let topic = Broker::shared().topic("trimmed", 2);
    topic.produce(numbered(0..10));
    topic.produce([Message::new("other").to(1)]);
    let mut source = Source::assign(config(&topic, &[]), BTreeSet::from([P0])).expect("open");
    for below in [4, 4, 2] {
        source.trim(&Frontier::from([(P0, offset(below))])).expect("trim");
        assert_eq!((topic.watermarks(0), topic.watermarks(1)), ((4, 10), (0, 1)), "told {below}");
    }
    let beyond = source.trim(&Frontier::from([(P0, offset(11))])).expect_err("it ends below that");
    assert!(matches!(&beyond, KafkaError::Untrimmed { .. }), "{beyond}");
    assert_eq!(topic.watermarks(0), (4, 10));
    let compacted = Broker::shared().topic_with("kept", 1, &[("cleanup.policy", "compact")]);
    compacted.produce([Message::new("x").key("k").to(0)]);
    let mut source = Source::assign(config(&compacted, &[]), BTreeSet::from([P0])).expect("open");
    let refused = source.trim(&Frontier::from([(P0, offset(1))])).expect_err("its policy keeps all");
    assert!(refused.to_string().contains("leave trim = true out"), "{refused}");
}

#[test]
fn begins_anew_at_full_speed_without_a_trace_of_before() {
    let topic = Broker::shared().topic("anew", 2);
    topic.produce((0..40_000_u64).map(|n| Message::new(format!("{n:0100}")).to((n % 2) as i32)));
    for settings in [vec![], vec![("partition.assignment.strategy", "cooperative-sticky")]] {
        let mut member = Member::new(Source::subscribe(config(&topic, &settings)).expect("join"));
        member.until("both partitions", |m| m.owned.len() == 2);
        member.start(&Frontier::from([(P0, Offset::ZERO), (PartitionId(1), Offset::ZERO)]));
        for back in [5_000, 1_000, 9_000, 0] {
            member.until("some of it", |m| m.offsets(0).len() > 2_000);
            // Upwards or downwards: the other partition goes on where it was.
            member.values.remove(&P0);
            member.start(&Frontier::from([(P0, offset(back))]));
        }
        member.until_end();
        assert_eq!(member.offsets(0), (0..20_000).collect::<Vec<_>>());
        assert_eq!(member.offsets(1), (0..20_000).collect::<Vec<_>>());
    }
}

/// K13, K77, P01: a second member joins and leaves in the middle; the sink's frontier goes from hand to hand.
fn rebalances(settings: &[(&str, &str)]) {
    let topic = Broker::shared().topic("rebalance", 4);
    let config = config(&topic, settings);
    let mut sink: Frontier = (0..4).map(|p| (PartitionId(p), Offset::ZERO)).collect();
    let mut members = vec![Member::new(Source::subscribe(config.clone()).expect("join"))];
    let produce = |range: std::ops::Range<u64>| {
        topic.produce(range.map(|n| Message::new(n.to_string()).to((n % 4) as i32)));
    };
    let mut seen: Vec<Member> = Vec::new();
    let settled = |members: &mut Vec<Member>, sink: &mut Frontier, share: usize, what: &str| {
        let began = Instant::now();
        while members.iter().any(|m| m.owned.len() != share) {
            assert!(began.elapsed() < PATIENCE, "{what}: {:?}", members.iter().map(|m| &m.owned).collect::<Vec<_>>());
            for member in members.iter_mut() {
                member.poll_with(sink);
            }
        }
    };
    settled(&mut members, &mut sink, 4, "the first has all");
    produce(0..400);
    // Having been told that it is at the end, the first keeps two partitions through the rebalance: the next
    // record of those must not be skipped.
    let began = Instant::now();
    while members[0].reached.values().any(|end| *end != offset(100)) || members[0].reached.len() < 4 {
        assert!(began.elapsed() < PATIENCE, "the first reads all");
        members[0].poll_with(&mut sink);
    }
    members.push(Member::new(Source::subscribe(config.clone()).expect("join")));
    settled(&mut members, &mut sink, 2, "two share");
    produce(400..800);
    let began = Instant::now();
    while members.iter().flat_map(|m| m.at.values()).any(|at| *at != offset(200)) {
        assert!(
            began.elapsed() < PATIENCE,
            "both read their shares: {:?}",
            members.iter().map(|m| &m.at).collect::<Vec<_>>()
        );
        for member in &mut members {
            member.poll_with(&mut sink);
        }
    }
    // The first leaves as the core does: commits, lets go, and is gone.
    let mut first = members.remove(0);
    sink.extend(std::mem::take(&mut first.at));
    first.source.release(&first.owned).expect("release");
    first.source.release(&first.owned).expect("release again");
    let Member { source, values, lost, holes, .. } = first;
    drop(source);
    assert_eq!((lost, holes), (0, 0), "P01: nothing of what was kept is skipped");
    settled(&mut members, &mut sink, 4, "the second has all");
    produce(800..1_000);
    let total = |m: &Member| m.count() + values.values().map(Vec::len).sum::<usize>();
    let began = Instant::now();
    while total(&members[0]) < 1_000 {
        assert!(began.elapsed() < PATIENCE, "all records: {}, at {:?}", total(&members[0]), members[0].at);
        members[0].poll_with(&mut sink);
    }
    seen.append(&mut members);
    let all = seen.iter().flat_map(|m| m.values.values()).chain(values.values()).flatten();
    let mut ids: Vec<u64> = all
        .map(|(_, v)| std::str::from_utf8(v.as_ref().expect("a value")).expect("text").parse().expect("a number"))
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..1_000).collect::<Vec<_>>(), "each record in exactly one member's hands");
}

#[test]
fn k13_eager_rebalance() {
    rebalances(&[]);
}

#[test]
fn k77_p01_cooperative_rebalance() {
    rebalances(&[("partition.assignment.strategy", "cooperative-sticky")]);
}

#[test]
fn who_logs_everything_still_hears_the_group() {
    rebalances(&[("debug", "all")]);
}

#[test]
fn rebalance_by_the_new_group_protocol() {
    rebalances(&[("group.protocol", "consumer"), ("session.timeout.ms", "6000")]);
}

#[test]
fn p44_what_is_announced_is_seen_by_lag_tools() {
    let topic = Broker::shared().topic("announced", 1);
    topic.produce(numbered(0..10));
    let config = config(&topic, &[("group.id", "not-this-one"), ("auto.offset.reset", "latest")]); // K85
    let group = config.group.clone();
    let mut member = Member::new(Source::subscribe(config).expect("join"));
    let mut sink = Frontier::from([(P0, offset(2))]);
    let began = Instant::now();
    while member.count() < 8 {
        assert!(began.elapsed() < PATIENCE, "eight records");
        member.poll_with(&mut sink);
    }
    let lag = member.source.lag()[&P0];
    assert_eq!((lag.position, lag.end), (offset(10), Some(offset(10))));
    assert_eq!(topic.committed(&group, 0), None, "nothing is committed before the sink has it");
    member.source.announce(&Frontier::from([(P0, offset(7))]));
    while topic.committed(&group, 0) != Some(7) {
        assert!(began.elapsed() < PATIENCE, "the group's offset");
    }
    member.source.announce(&Frontier::from([(P0, offset(10))]));
    drop(member);
    assert_eq!(topic.committed(&group, 0), Some(10), "what was announced last is written before we leave");
    assert_eq!(topic.committed("not-this-one", 0), None);
}

#[test]
fn a_caller_who_is_busy_for_long_stays_a_member() {
    let topic = Broker::shared().topic("busy", 1);
    topic.produce(numbered(0..10));
    let settings = [("session.timeout.ms", "6000"), ("max.poll.interval.ms", "6000")];
    let mut member = Member::new(Source::subscribe(config(&topic, &settings)).expect("join"));
    let mut sink = Frontier::from([(P0, Offset::ZERO)]);
    let began = Instant::now();
    while member.count() < 10 {
        assert!(began.elapsed() < PATIENCE, "ten records");
        member.poll_with(&mut sink);
    }
    std::thread::sleep(Duration::from_secs(8)); // a commit that takes its time
    topic.produce(numbered(10..20));
    while member.count() < 20 {
        assert!(began.elapsed() < PATIENCE, "ten more");
        member.poll_with(&mut sink);
    }
    assert_eq!(member.lost, 0);
    assert_eq!(member.owned, BTreeSet::from([P0]));
}

#[test]
fn leaves_whatever_the_group_still_waits_for() {
    let cooperative = vec![("partition.assignment.strategy", "cooperative-sticky")];
    for settings in [vec![], cooperative, vec![("group.protocol", "consumer")]] {
        let topic = Broker::shared().topic("leave", 2);
        let config = config(&topic, &settings);
        // Gained and never started.
        let mut first = Member::new(Source::subscribe(config.clone()).expect("join"));
        first.until("both partitions", |m| m.owned.len() == 2);
        drop(first);
        // Asked back and never released.
        let mut second = Member::new(Source::subscribe(config.clone()).expect("join"));
        second.until("both partitions", |m| m.owned.len() == 2);
        second.start(&(0..2).map(|p| (PartitionId(p), Offset::ZERO)).collect());
        let mut third = Member::new(Source::subscribe(config.clone()).expect("join"));
        let began = Instant::now();
        while !matches!(second.source.poll(0, Duration::from_millis(20)), Ok(Some(Input::Losing(_)))) {
            assert!(began.elapsed() < PATIENCE, "{settings:?}: the second is asked to share");
            third.poll();
        }
        drop(second);
        let mut sink = (0..2).map(|p| (PartitionId(p), Offset::ZERO)).collect();
        while third.owned.len() < 2 {
            assert!(began.elapsed() < PATIENCE, "{settings:?}: the third has all; it has {:?}", third.owned);
            third.poll_with(&mut sink);
        }
        // Neither gained nor anything else.
        drop(Source::subscribe(config).expect("join"));
    }
}

/// A member that leaves while another joins: whatever the group asks at that moment, leaving comes to an end.
#[test]
fn leaves_while_others_join() {
    let _alone = LEAVING.lock().unwrap_or_else(PoisonError::into_inner);
    let lingering = threads("kafka-leave");
    const QUICK: (&str, &str) = ("heartbeat.interval.ms", "100");
    let cooperative = vec![("partition.assignment.strategy", "cooperative-sticky"), QUICK];
    for settings in [vec![QUICK], cooperative, vec![("group.protocol", "consumer")]] {
        let config = config(&Broker::shared().topic("leave", 4), &settings);
        let mut sink: Frontier = (0..4).map(|p| (PartitionId(p), Offset::ZERO)).collect();
        let mut member = Member::new(Source::subscribe(config.clone()).expect("join"));
        for round in 0..20_u64 {
            let began = Instant::now();
            while member.owned.len() < 4 {
                assert!(began.elapsed() < PATIENCE, "{settings:?}, {round}: {:?} instead of all", member.owned);
                member.poll_with(&mut sink);
            }
            let next = Member::new(Source::subscribe(config.clone()).expect("join"));
            // Each round leaves at another moment of the rebalance, every other one with its questions unheard.
            let until = Instant::now() + Duration::from_millis(15 * round);
            while Instant::now() < until {
                if round % 2 == 0 {
                    member.poll_with(&mut sink);
                } else {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            get_away(std::mem::replace(&mut member, next), &format!("{settings:?}, {round}"));
        }
    }
    // Nor does what a drop waits for only for a while go on behind it.
    let began = Instant::now();
    while threads("kafka-leave") > lingering {
        assert!(began.elapsed() < PATIENCE, "a client that never closes was left behind");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One test counts the threads that leave a group, the other leaves one behind that waits for its frozen broker.
static LEAVING: Mutex<()> = Mutex::new(());

/// How many threads of this process have that name.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    tasks.filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)).count()
}

/// The group's coordinator says nothing any more, and owes an answer: whoever leaves does not wait for it.
#[test]
fn leaves_a_group_that_is_frozen() {
    let _alone = LEAVING.lock().unwrap_or_else(PoisonError::into_inner);
    let broker = Broker::own(1);
    let topic = broker.topic("frozen", 1);
    topic.produce(numbered(0..10));
    let mut member = Member::new(Source::subscribe(config(&topic, &[("socket.timeout.ms", "300000")])).expect("join"));
    let mut sink = Frontier::from([(P0, Offset::ZERO)]);
    let began = Instant::now();
    while member.count() < 10 {
        assert!(began.elapsed() < PATIENCE, "ten records");
        member.poll_with(&mut sink);
    }
    broker.pause(1);
    member.source.announce(&Frontier::from([(P0, offset(10))]));
    get_away(member, "the broker is frozen");
    broker.resume(1);
}

fn get_away(member: Member, when: &str) {
    let (done, left) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(member);
        let _ = done.send(());
    });
    assert!(left.recv_timeout(PATIENCE).is_ok(), "{when}: it never gets away");
}

#[test]
fn k74_a_broker_that_dies_freezes_and_comes_back() {
    let broker = Broker::own(1);
    let topic = broker.topic("restart", 2);
    topic.produce((0..1_000_u64).map(|n| Message::new(n.to_string()).to((n % 2) as i32)));
    let settings = [("session.timeout.ms", "3000"), ("heartbeat.interval.ms", "300")];
    let mut member = Member::new(Source::subscribe(config(&topic, &settings)).expect("join"));
    let mut sink: Frontier = (0..2).map(|p| (PartitionId(p), Offset::ZERO)).collect();
    let read = |member: &mut Member, sink: &mut Frontier, count: usize, what: &str| {
        let began = Instant::now();
        while member.count() < count {
            assert!(began.elapsed() < PATIENCE, "{what}: {} of {count}; {:?}", member.count(), member.hitches);
            member.poll_with(sink);
            sink.extend(member.at.clone()); // commits at once
        }
    };
    read(&mut member, &mut sink, 1_000, "before");
    broker.kill(1);
    let began = Instant::now();
    while member.hitches.is_empty() {
        assert!(began.elapsed() < PATIENCE, "nobody says that the broker is down");
        member.poll_with(&mut sink);
    }
    assert!(matches!(member.hitches[0], KafkaError::Unreachable { .. }), "{:?}", member.hitches);
    broker.start(1);
    topic.produce((1_000..2_000_u64).map(|n| Message::new(n.to_string()).to((n % 2) as i32)));
    read(&mut member, &mut sink, 2_000, "after the restart");
    // Frozen for longer than the session: what we had is lost, and given to us again.
    let lost = member.lost;
    broker.pause(1);
    let began = Instant::now();
    while member.lost == lost {
        assert!(began.elapsed() < PATIENCE, "nobody says that the partitions are lost");
        member.poll_with(&mut sink);
    }
    broker.resume(1);
    topic.produce((2_000..3_000_u64).map(|n| Message::new(n.to_string()).to((n % 2) as i32)));
    read(&mut member, &mut sink, 3_000, "after the freeze");
    let mut ids: Vec<u64> =
        [0, 1].iter().flat_map(|p| member.texts(*p)).map(|v| v.parse().expect("a number")).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..3_000).collect::<Vec<_>>(), "each record once");
    broker.pause(1);
    drop(member); // ends, though nobody answers
    broker.resume(1);
}

#[test]
fn a_leader_fails_over_and_the_chain_goes_on() {
    let broker = Broker::own(3);
    let topic = broker.topic("failover", 3);
    let produce = |range: std::ops::Range<u64>| {
        let messages = range.map(|n| Message::new(n.to_string()).to((n % 3) as i32));
        topic.produce_with(&[("acks", "all"), ("enable.idempotence", "true")], messages);
    };
    produce(0..300);
    let mut member = Member::new(Source::subscribe(config(&topic, &[("session.timeout.ms", "6000")])).expect("join"));
    let mut sink: Frontier = (0..3).map(|p| (PartitionId(p), Offset::ZERO)).collect();
    broker.kill(1); // the leader of a third of them
    produce(300..600);
    let began = Instant::now();
    while member.count() < 600 {
        assert!(began.elapsed() < PATIENCE, "{} read; {:?}", member.count(), member.hitches);
        member.poll_with(&mut sink);
        sink.extend(member.at.clone()); // commits at once
    }
    let texts = (0..3).flat_map(|p| member.texts(p));
    let mut ids: Vec<u64> = texts.map(|v| v.parse().expect("a number")).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..600).collect::<Vec<_>>(), "each record once");
    assert!(member.gone.is_empty(), "a new leader that lags behind is no gap");
}

#[test]
fn who_is_refused_stops_and_says_what_to_do() {
    let permissions = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
                       super.users=User:ANONYMOUS;User:alice;User:CN=client\n";
    let broker = Broker::own_with(1, permissions);
    let topic = broker.topic("refused", 1);
    topic.produce(numbered(0..3));
    let ca = broker.certificate("ca.pem").display().to_string();
    let sasl = |user: &str, password: &str| {
        vec![
            ("security.protocol".to_owned(), "SASL_SSL".to_owned()),
            ("sasl.mechanism".to_owned(), "SCRAM-SHA-512".to_owned()),
            ("sasl.username".to_owned(), user.to_owned()),
            ("sasl.password".to_owned(), password.to_owned()),
            ("ssl.ca.location".to_owned(), ca.clone()),
        ]
    };
    let tls = |name: &str| {
        let file = |kind: &str| broker.certificate(&format!("{name}.{kind}")).display().to_string();
        vec![
            ("security.protocol".to_owned(), "SSL".to_owned()),
            ("ssl.ca.location".to_owned(), ca.clone()),
            ("ssl.certificate.location".to_owned(), file("crt")),
            ("ssl.key.location".to_owned(), file("key")),
        ]
    };
    #[rustfmt::skip] // columns: name, address, settings, what to do (or let in)
    let cases = [
        ("right password", broker.sasl_ssl(), sasl("alice", "alice-secret"), None),
        ("wrong password", broker.sasl_ssl(), sasl("alice", "hunter2"), Some("check -K")),
        ("no permission", broker.sasl_ssl(), sasl("bob", "bob-secret"), Some("let this user")),
        ("right certificate", broker.ssl(), tls("client"), None),
        ("expired certificate", broker.ssl(), tls("expired"), Some("check -K")),
        ("a stranger's certificate", broker.ssl(), tls("stranger"), Some("check -K")),
    ];
    for (name, address, settings, remedy) in cases {
        let mut config = SourceConfig::new(&address, &broker.group(), topic.name());
        config.settings = settings;
        let mut source = Source::assign(config, BTreeSet::from([P0])).expect("open");
        source.start(&Frontier::from([(P0, Offset::ZERO)])).expect("start");
        let (began, mut hitches) = (Instant::now(), Vec::new());
        let outcome = loop {
            assert!(began.elapsed() < PATIENCE, "{name}: neither let in nor refused; {hitches:?}");
            match source.poll(10, Duration::from_millis(50)) {
                Ok(Some(Input::Records(_))) => break None,
                Ok(_) => {}
                Err(error) if error.verdict() != Verdict::Retry => break Some(error),
                Err(error) => hitches.push(error),
            }
        };
        match outcome {
            None => assert_eq!(remedy, None, "{name}: let in"),
            Some(error) => {
                assert_eq!(error.verdict(), Verdict::Stop(Exit::Unavailable), "{name}: {error}");
                let text = error.to_string();
                assert!(remedy.is_some_and(|remedy| text.contains(remedy)), "{name}: {text}");
                assert!(!text.contains("hunter2"), "{name}: {text}");
                assert!(source.topic_identity().is_err_and(|e| e.verdict() == error.verdict()), "{name}");
            }
        }
    }
}

#[test]
fn settings_that_do_not_fit_are_refused_by_name_and_without_their_value() {
    let topic = Broker::shared().absent_topic("unused");
    for (key, value) in [("no.such.setting", "s3cret"), ("session.timeout.ms", "s3cret")] {
        let error = Source::subscribe(config(&topic, &[(key, value)])).err().expect("refused");
        assert_eq!(error.verdict(), Verdict::Stop(Exit::Config), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let mut wrong = config(&topic, &[]);
    wrong.topic = "^all.*".to_owned();
    assert!(matches!(Source::subscribe(wrong), Err(KafkaError::Setting { .. })));
}
