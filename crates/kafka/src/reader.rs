//! The thread that reads: the only one that takes messages, answers the group and moves positions.
//!
//! Because it alone does all three, nothing needs to be told apart afterwards: when it has
//! (re)assigned a partition, librdkafka itself drops what it had fetched before (each of its
//! messages carries the version of the assignment it was fetched for), and nothing is half taken.
//!
//! It never waits for the caller for longer than [`TICK`] at a time, so that the group hears from us
//! however long a commit takes. Invariants: of each partition `next` is where the chain stands (P2);
//! what is in `outbox` and in open arenas lies below it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lakeward_protocol::ports::Input;
use lakeward_protocol::position::{Frontier, Offset, PartitionId};
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::RDKafkaErrorCode as Code;
use tracing::debug;

use crate::config::SourceConfig;
use crate::context::Context;
use crate::error::KafkaError;
use crate::group::Group;
use crate::handoff::{Flow, Handoff, Order};
use crate::native::{Batch, Message, Queue};
use crate::part::Part;
use crate::trouble::{Kind, Trouble};
use crate::watch::Watch;

/// The longest that an event or an order waits.
const TICK: Duration = Duration::from_millis(100);

/// The longest that messages wait that were fetched right after a start.
const SETTLING: Duration = Duration::from_millis(5);

/// Messages taken at once.
const BATCH: usize = 1_000;

/// While messages come thick, how long they gather before the next take: a take that finds few costs about as
/// much as one that finds many, and wakes two threads for them.
const GATHERING: Duration = Duration::from_millis(1);

/// The longest that messages wait for others to fill an arena.
const FILLING: Duration = Duration::from_millis(5);

/// Without a message for so long, arenas kept for reuse are given back.
const IDLE: Duration = Duration::from_secs(3);

pub(crate) struct Reader {
    config: SourceConfig,
    name: CString,
    queue: Arc<Queue>,
    consumer: Arc<BaseConsumer<Context>>,
    handoff: Arc<Handoff>,
    group: Group,
    watch: Watch,
    trouble: Trouble,
    /// Partitions that are added to the topic are ours as well.
    grows: bool,
    /// By number; `None` where it is not ours.
    parts: Vec<Option<Part>>,
    batch: Option<Batch>,
    outbox: VecDeque<Flow>,
    open_bytes: usize,
    /// There is more, or soon will be: the next take does not wait.
    backlog: bool,
    /// When the oldest message came that is in an open arena.
    filling_since: Option<Instant>,
    /// When the last message came; `None` once what was kept for the next ones is given back.
    busy_at: Option<Instant>,
}

impl Reader {
    pub(crate) fn new(
        config: SourceConfig,
        name: CString,
        queue: Arc<Queue>,
        consumer: Arc<BaseConsumer<Context>>,
        handoff: Arc<Handoff>,
        watch: Watch,
    ) -> Self {
        let group = Group::new(config.topic.clone(), Arc::clone(&consumer));
        let trouble = Trouble::new(&config.brokers, &config.topic);
        Self {
            config,
            name,
            queue,
            consumer,
            handoff,
            group,
            watch,
            trouble,
            grows: false,
            parts: Vec::new(),
            batch: Some(Batch::new(BATCH)),
            outbox: VecDeque::new(),
            open_bytes: 0,
            backlog: false,
            filling_since: None,
            busy_at: None,
        }
    }

    /// Partitions that are ours without a group; `grows`: and so are all that are added.
    pub(crate) fn give(&mut self, partitions: &BTreeSet<PartitionId>, grows: bool) {
        self.grows = grows;
        self.gained(partitions.clone());
    }

    pub(crate) fn run(mut self) {
        while !self.handoff.is_closing() {
            self.obey();
            self.attend();
            self.check_identity();
            self.handoff.offer(&mut self.outbox);
            if !self.outbox.is_empty() || self.handoff.fatal().is_some() {
                self.handoff.await_room(TICK);
                continue;
            }
            self.read();
        }
        self.group.close();
    }

    // Orders.

    fn obey(&mut self) {
        while let Some(command) = self.handoff.next_command() {
            let done = match command.order {
                Order::Start(at) => self.start(at),
                Order::Release(partitions) => self.release(&partitions),
            };
            // Nobody waits for it any more: then it does not matter how it went.
            let _ = command.reply.send(done);
        }
    }

    fn start(&mut self, mut at: Frontier) -> Result<(), KafkaError> {
        // What was taken away in the meantime is not started; the caller hears of it.
        at.retain(|partition, _| self.part(*partition).is_some());
        let names: BTreeSet<PartitionId> = at.keys().copied().collect();
        self.forget(&names);
        for (partition, offset) in &at {
            let part = self.part(*partition).expect("just looked");
            (part.next, part.delivering, part.settled) = (*offset, true, false);
            (part.doubtful, part.stalled) = (false, false);
        }
        let started = self.group.assign(&at, &self.standing());
        self.unsettle();
        if started.is_err() {
            for partition in names {
                self.part(partition).expect("just looked").delivering = false;
            }
        }
        started
    }

    fn release(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<(), KafkaError> {
        self.forget(partitions);
        for partition in partitions {
            self.drop_part(*partition);
        }
        let released = self.group.release(partitions, &self.standing());
        self.unsettle();
        released
    }

    /// The eager protocol has assigned everything anew, what only goes on included.
    fn unsettle(&mut self) {
        if !self.group.is_cooperative() {
            self.parts.iter_mut().flatten().for_each(|part| part.settled = false);
        }
    }

    /// Where each partition that is delivered stands.
    fn standing(&self) -> Frontier {
        let delivered = self.parts.iter().flatten().filter(|part| part.delivering);
        delivered.map(|part| (part.id, part.next)).collect()
    }

    /// Drops what was read of them and not yet taken, wherever it is.
    fn forget(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.handoff.purge(partitions);
        let outbox = std::mem::take(&mut self.outbox);
        let of = |flow: &Flow| match flow {
            Flow::Records(records) => records.partition(),
            Flow::Reached { partition, .. } | Flow::Stalled { partition, .. } => *partition,
        };
        self.outbox = outbox.into_iter().filter(|flow| !partitions.contains(&of(flow))).collect();
        for partition in partitions {
            let open = self.part(*partition).and_then(|part| part.open.take());
            if let Some(records) = open {
                self.open_bytes -= records.value_bytes();
                self.handoff.recycle(records);
            }
        }
    }

    fn part(&mut self, partition: PartitionId) -> Option<&mut Part> {
        self.parts.get_mut(partition.0 as usize)?.as_mut()
    }

    fn drop_part(&mut self, partition: PartitionId) {
        if let Some(part) = self.parts.get_mut(partition.0 as usize) {
            *part = None;
        }
    }

    // Events.

    fn attend(&mut self) {
        use crate::context::Event;
        for event in self.group.poll() {
            match event {
                Event::Assigned(partitions) => {
                    self.trouble.heal();
                    self.doubt();
                    self.gained(partitions.into_iter().map(id).collect());
                }
                Event::Revoked { partitions, lost } => {
                    self.doubt();
                    self.revoked(partitions.into_iter().map(id).collect(), lost);
                }
                Event::Failed { code, reason } => self.failed(code, &reason),
            }
        }
        self.dispel();
        if self.parts.iter().all(Option::is_none)
            && let Some(hitch) = self.trouble.still_missing(&self.consumer)
        {
            self.handoff.hitch(hitch);
        }
    }

    /// A cooperative rebalance pauses what we keep, and lets it go on where librdkafka believes that we
    /// stand. That belief is wrong by one where the last thing taken was the word that the partition is at
    /// its end: batches count that as a message (`rd_kafka_q_serve_rkmessages`), and the next record would
    /// be skipped. So nothing is believed that comes before we have moved it ourselves.
    fn doubt(&mut self) {
        if self.group.is_cooperative() {
            self.parts.iter_mut().flatten().for_each(|part| part.doubtful = part.delivering && !part.stalled);
        }
    }

    fn dispel(&mut self) {
        let doubtful: Frontier =
            self.parts.iter().flatten().filter(|part| part.doubtful).map(|part| (part.id, part.next)).collect();
        if doubtful.is_empty() {
            return;
        }
        for partition in self.group.seek(&doubtful) {
            self.part(partition).expect("it was in doubt").doubtful = false;
        }
    }

    fn gained(&mut self, partitions: BTreeSet<PartitionId>) {
        for partition in &partitions {
            self.queue.take_partition(&self.name, number(*partition));
            let index = partition.0 as usize;
            if self.parts.len() <= index {
                self.parts.resize_with(index + 1, || None);
            }
            self.parts[index] = Some(Part::gained(*partition));
        }
        self.group.gained(&partitions);
        if !partitions.is_empty() {
            debug!("gained partitions {partitions:?} of topic {}", self.config.topic);
            self.handoff.say(Input::Gained(partitions));
        }
    }

    fn revoked(&mut self, partitions: BTreeSet<PartitionId>, lost: bool) {
        let ours: BTreeSet<_> = partitions.iter().copied().filter(|p| self.part(*p).is_some()).collect();
        debug!("{} partitions {ours:?} of topic {}", if lost { "lost" } else { "losing" }, self.config.topic);
        if lost {
            self.forget(&ours);
            for partition in &ours {
                self.drop_part(*partition);
            }
            self.group.lost(&partitions);
            if !ours.is_empty() {
                self.handoff.say(Input::Lost(ours));
            }
        } else {
            self.group.losing(&partitions, &ours);
            if !ours.is_empty() {
                self.handoff.say(Input::Losing(ours));
            }
        }
    }

    fn failed(&mut self, code: Code, reason: &str) {
        match self.trouble.judge(code, reason) {
            Kind::Nothing => {}
            Kind::Hitch(error) => self.handoff.hitch(error),
            Kind::Fatal(error) => self.handoff.fail(error),
        }
        if matches!(code, Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) {
            self.watch.suspect();
        }
    }

    fn check_identity(&mut self) {
        let reading = self.parts.iter().flatten().any(|part| part.delivering);
        if let Some(error) = self.watch.check(&self.consumer, &self.name, reading, Instant::now()) {
            self.handoff.fail(error);
            return;
        }
        let (ours, all) = (u32::try_from(self.parts.len()).expect("an i32 each"), self.watch.partitions());
        if self.grows && all > ours {
            self.gained((ours..all).map(PartitionId).collect());
        }
    }

    // Messages.

    fn read(&mut self) {
        let mut batch = self.batch.take().expect("it is put back below");
        let mut count = if self.backlog { self.queue.consume(&mut batch, BATCH, Duration::ZERO) } else { 0 };
        if count == 0 {
            // Nothing is ready: pass on what there is, then wait for one, and take what came with it.
            self.seal_all();
            let wait = if self.settle() { TICK } else { SETTLING };
            count = self.queue.consume(&mut batch, 1, wait);
            self.absorb(&batch);
            count = if count == 0 { 0 } else { self.queue.consume(&mut batch, BATCH, Duration::ZERO) };
        }
        self.absorb(&batch);
        self.batch = Some(batch);
        self.backlog = count == BATCH || self.gather();
        if !self.backlog || self.open_bytes > self.config.handoff_bytes() / 2 {
            self.seal_all();
        }
        self.rest();
    }

    /// Lets messages gather for a moment, unless some wait for long already. True where it did.
    fn gather(&mut self) -> bool {
        let gathers = self.filling_since.is_some_and(|since| since.elapsed() < FILLING) && self.open_bytes > 0;
        if gathers {
            std::thread::sleep(GATHERING);
        }
        gathers
    }

    /// Gives back what was kept for the next messages once none came for long.
    fn rest(&mut self) {
        if self.busy_at.is_some_and(|at| at.elapsed() >= IDLE) {
            self.busy_at = None;
            self.handoff.trim();
        }
    }

    /// Takes partitions again that were started and of which nothing came yet. The end of an earlier
    /// assignment, which librdkafka comes to at its leisure, takes their forwarding away; what was fetched
    /// since then waits in their own queues, and is moved here by this. True when there are none.
    fn settle(&mut self) -> bool {
        let mut settled = true;
        for part in self.parts.iter().flatten().filter(|part| part.delivering && !part.settled) {
            self.queue.take_partition(&self.name, number(part.id));
            settled = false;
        }
        settled
    }

    fn absorb(&mut self, batch: &Batch) {
        let records_max = self.config.arena_records.min(self.handoff.most()).max(1);
        let mut taken = false;
        for message in batch.iter() {
            if message.error().is_some() {
                self.absorb_error(&message);
                continue;
            }
            let index = message.partition() as usize;
            let Some(Some(part)) = self.parts.get_mut(index) else { continue };
            if !part.delivering || part.doubtful || message.offset() < part.next.get() {
                continue; // released, or from below the position that was asked for (a batch begins earlier)
            }
            (part.settled, taken) = (true, true);
            let open = part.open.get_or_insert_with(|| self.handoff.arena(part.id, part.next));
            let (timestamp_ms, kind) = message.timestamp();
            let before = open.value_bytes();
            let key = if self.config.keys { message.key() } else { None };
            open.push_keyed(message.offset(), timestamp_ms, kind, key, message.value());
            if self.config.headers {
                message.headers(|name, value| open.push_header(name, value));
            }
            part.next = open.to();
            self.open_bytes += open.value_bytes() - before;
            if open.len() >= records_max || open.value_bytes() >= self.config.arena_bytes {
                self.seal(index);
            }
        }
        if taken {
            self.trouble.heal();
            let now = Instant::now();
            self.filling_since.get_or_insert(now);
            self.busy_at = Some(now);
        }
    }

    fn absorb_error(&mut self, message: &Message<'_>) {
        let text = message.value().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        let code = message.error().expect("only errors come here");
        let index = usize::try_from(message.partition()).unwrap_or(usize::MAX);
        let Some(Some(part)) = self.parts.get_mut(index) else {
            self.failed(code, &text);
            return;
        };
        let (partition, at) = (part.id, part.next);
        part.settled = true;
        match code {
            _ if !part.delivering || part.doubtful => {}
            Code::PartitionEOF => self.reached(index, message.offset()),
            Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation => {
                let cut = (text.contains("truncat") && message.offset() < at.get())
                    .then(|| Offset::new(message.offset()).unwrap_or(Offset::ZERO));
                part.stalled = true;
                self.seal(index);
                self.outbox.push_back(Flow::Stalled { partition, at, cut });
            }
            Code::BadMessage
            | Code::BadCompression
            | Code::NotImplemented
            | Code::InvalidMessage
            | Code::InvalidMessageSize
            | Code::UnsupportedCompressionType
            | Code::Underflow
            | Code::MessageSizeTooLarge => self.handoff.fail(KafkaError::Unreadable {
                topic: self.config.topic.clone(),
                partition,
                offset: message.offset().max(at.get()),
                detail: text,
            }),
            _ => self.failed(code, &text),
        }
    }

    fn reached(&mut self, index: usize, end: i64) {
        let Some(Some(part)) = self.parts.get_mut(index) else { return };
        let Ok(end) = Offset::new(end) else { return };
        if end < part.next {
            return; // from before the last start
        }
        let partition = part.id;
        if end > part.next {
            // The log was read up to here and has no record for us there: the chain covers it.
            part.open.get_or_insert_with(|| self.handoff.arena(partition, part.next)).cover_until(end);
            part.next = end;
        }
        self.seal(index);
        self.outbox.push_back(Flow::Reached { partition, end });
    }

    /// Puts the open arena of a partition on its way.
    fn seal(&mut self, index: usize) {
        let Some(Some(part)) = self.parts.get_mut(index) else { return };
        if let Some(mut records) = part.open.take() {
            records.pad();
            self.open_bytes -= records.value_bytes();
            self.outbox.push_back(Flow::Records(records));
        }
    }

    /// Puts all on their way if the caller keeps up; lets them fill otherwise, within bounds.
    fn seal_all(&mut self) {
        let holding = !self.handoff.has_room() && self.open_bytes <= self.config.handoff_bytes() / 2;
        if !holding {
            for index in 0..self.parts.len() {
                self.seal(index);
            }
            self.filling_since = None;
        }
        self.handoff.set_holding(holding && self.open_bytes > 0);
        self.handoff.offer(&mut self.outbox);
    }
}

fn number(partition: PartitionId) -> i32 {
    i32::try_from(partition.0).expect("Kafka numbers partitions with an i32")
}

fn id(partition: i32) -> PartitionId {
    PartitionId(u32::try_from(partition).expect("partitions of an assignment have numbers"))
}

/// Positions as librdkafka takes them.
pub(crate) fn list(topic: &str, at: &BTreeMap<PartitionId, Offset>) -> rdkafka::TopicPartitionList {
    let mut list = rdkafka::TopicPartitionList::with_capacity(at.len());
    for (partition, offset) in at {
        let offset = rdkafka::Offset::Offset(offset.get());
        list.add_partition_offset(topic, number(*partition), offset).expect("positions are not negative");
    }
    list
}
