//! Topics: made, changed, emptied and deleted.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::broker::{Broker, unique};

/// How long anything may take before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A topic on a broker. Not deleted when dropped: brokers of tests are thrown away.
#[derive(Clone, Debug)]
pub struct Topic {
    pub(crate) bootstrap: String,
    pub(crate) name: String,
}

impl Broker {
    /// Makes a topic with a name of its own that begins with `name`.
    ///
    /// # Panics
    /// When it can't be made.
    pub fn topic(&self, name: &str, partitions: i32) -> Topic {
        self.topic_with(name, partitions, &[])
    }

    /// [`Broker::topic`] with topic settings, such as `("cleanup.policy", "compact")`.
    ///
    /// # Panics
    /// When it can't be made.
    pub fn topic_with(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) -> Topic {
        let topic = self.absent_topic(name);
        topic.create(partitions, settings);
        topic
    }

    /// Only the name of one; make it later with [`Topic::create`].
    pub fn absent_topic(&self, name: &str) -> Topic {
        Topic { bootstrap: self.bootstrap().to_owned(), name: unique(name) }
    }

    /// A topic that is there already, under exactly this name.
    pub fn existing_topic(&self, name: &str) -> Topic {
        Topic { bootstrap: self.bootstrap().to_owned(), name: name.to_owned() }
    }

    /// Forgets what a group has committed.
    ///
    /// # Panics
    /// When it can't be.
    pub fn delete_group(&self, group: &str) {
        let admin = self.existing_topic("").admin();
        let gone = wait(admin.delete_groups(&[group], &options())).expect("ask to delete a group");
        if let Err((name, code)) = &gone[0] {
            panic!("delete group {name}: {code}");
        }
    }

    /// A group name of its own.
    pub fn group(&self) -> String {
        unique("group")
    }

    /// A name that begins with `name` and that nobody else uses, for whatever needs one.
    pub fn unique(name: &str) -> String {
        unique(name)
    }
}

impl Topic {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is, as `bootstrap.servers` takes it.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Makes the topic; waits while one of the same name is still being deleted. Returns once a
    /// client that asks anew is told of all its partitions and their leaders.
    ///
    /// # Panics
    /// When it can't be made.
    pub fn create(&self, partitions: i32, settings: &[(&str, &str)]) {
        let admin = self.admin();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut new = NewTopic::new(&self.name, partitions, TopicReplication::Fixed(-1));
            for (key, value) in settings {
                new = new.set(key, value);
            }
            let made = wait(admin.create_topics([&new], &options())).expect("ask for a topic");
            match &made[0] {
                Ok(_) => break,
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err((name, code)) => panic!("create topic {name}: {code}"),
            }
        }
        self.await_leaders(partitions);
    }

    /// Deletes the topic; returns when a client that asks anew is told that there is none.
    ///
    /// # Panics
    /// When it can't be deleted.
    pub fn delete(&self) {
        let gone = wait(self.admin().delete_topics(&[&self.name], &options())).expect("ask to delete a topic");
        if let Err((name, code)) = &gone[0] {
            panic!("delete topic {name}: {code}");
        }
        self.poll_metadata("the topic is still there", |partitions| partitions.is_none());
    }

    /// Deletes the topic and makes it again, with another id and offsets from 0.
    ///
    /// # Panics
    /// When it can't be done.
    pub fn recreate(&self, partitions: i32) {
        self.delete();
        self.create(partitions, &[]);
    }

    /// Raises the number of partitions.
    ///
    /// # Panics
    /// When it can't be raised.
    pub fn grow(&self, partitions: i32) {
        let count = usize::try_from(partitions).expect("a number of partitions");
        let grown = wait(self.admin().create_partitions([&NewPartitions::new(&self.name, count)], &options()));
        if let Err((name, code)) = &grown.expect("ask for partitions")[0] {
            panic!("more partitions for {name}: {code}");
        }
        self.await_leaders(partitions);
    }

    /// Deletes what lies below `before` in a partition, at once.
    ///
    /// # Panics
    /// When it can't be deleted.
    pub fn delete_records(&self, partition: i32, before: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name, partition, Offset::Offset(before)).expect("an offset");
        let done = wait(self.admin().delete_records(&list, &options())).expect("delete records");
        for element in done.elements() {
            element.error().unwrap_or_else(|e| panic!("delete records of {}: {e}", self.name));
        }
    }

    /// The first offset kept and the one after the last, of a partition; open transactions included.
    ///
    /// # Panics
    /// When the broker does not say.
    pub fn watermarks(&self, partition: i32) -> (i64, i64) {
        self.client().fetch_watermarks(&self.name, partition, PATIENCE).expect("ask for watermarks")
    }

    /// What a group has committed for a partition.
    ///
    /// # Panics
    /// When the broker does not say.
    pub fn committed(&self, group: &str, partition: i32) -> Option<i64> {
        let client: BaseConsumer = self.config().set("group.id", group).create().expect("make a consumer");
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.name, partition);
        let deadline = Instant::now() + PATIENCE;
        // The first question makes the topic that groups are kept in, and its leader is not there at once.
        let committed = loop {
            match client.committed_offsets(list.clone(), PATIENCE) {
                Ok(committed) => break committed,
                Err(error) => assert!(Instant::now() < deadline, "ask for committed offsets: {error}"),
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        match committed.elements()[0].offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }

    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().expect("make an admin client")
    }

    fn client(&self) -> BaseConsumer {
        self.config().create().expect("make a client")
    }

    fn await_leaders(&self, wanted: i32) {
        let wanted = usize::try_from(wanted).expect("a number of partitions");
        self.poll_metadata("the topic's partitions have no leaders yet", |partitions| partitions == Some(wanted));
    }

    /// Asks, each time with a new client since metadata is cached, until `done` likes the number of
    /// partitions that have a leader (`None`: there is no such topic).
    fn poll_metadata(&self, complaint: &str, done: impl Fn(Option<usize>) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let metadata = self.client().fetch_metadata(Some(&self.name), PATIENCE).expect("ask for metadata");
            let topic = &metadata.topics()[0];
            let led = topic.partitions().iter().filter(|p| p.leader() >= 0 && p.error().is_none()).count();
            if done(topic.error().is_none().then_some(led)) {
                return;
            }
            assert!(Instant::now() < deadline, "{}: {complaint}", self.name);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE))
}

/// Waits for one future on this thread; works inside and outside of any runtime.
fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
