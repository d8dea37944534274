//! Our membership: what the group was answered, and what it still waits for.
//!
//! Two protocols, one picture. Eager: each answer names everything we hold, a rebalance takes all.
//! Cooperative (also KIP-848): answers name what comes or goes, and while something is asked back
//! (`losing`) nothing else may be unassigned, since the group would take that for its answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use lakeward_protocol::position::{Frontier, Offset, PartitionId};
use rdkafka::consumer::{BaseConsumer, Consumer, RebalanceProtocol};
use rdkafka::error::{KafkaError as Rdkafka, KafkaResult};
use tracing::{debug, warn};

use crate::context::{Context, Event};
use crate::error::KafkaError;
use crate::native::Logs;
use crate::reader::list;

/// The longest that moving a position may take before it is tried again.
const SEEK_PATIENCE: Duration = Duration::from_secs(5);

/// How long leaving the group may take. It is a courtesy: without it the others wait for our session to run out.
const LEAVING: Duration = Duration::from_secs(10);

/// What the group asked back.
struct Losing {
    all: BTreeSet<PartitionId>,
    unreleased: BTreeSet<PartitionId>,
}

pub(crate) struct Group {
    topic: String,
    consumer: Arc<BaseConsumer<Context>>,
    logs: Logs,
    /// What librdkafka fetches now.
    assigned: BTreeSet<PartitionId>,
    losing: Option<Losing>,
    /// It gave us partitions and waits to hear where we start.
    waits_for_start: bool,
}

impl Group {
    pub(crate) fn new(topic: String, consumer: Arc<BaseConsumer<Context>>) -> Self {
        let logs = Logs::of(Arc::clone(&consumer));
        Self { topic, consumer, logs, assigned: BTreeSet::new(), losing: None, waits_for_start: false }
    }

    /// What happened. Also what keeps us a member (`max.poll.interval.ms`).
    pub(crate) fn poll(&self) -> Vec<Event> {
        self.logs.drain();
        for _ in 0..4 {
            // Errors come by the context as well, with their reasons; messages come by our own queue.
            match self.consumer.poll(Duration::ZERO) {
                Some(Ok(_)) => panic!("a message in the group's queue: its partition was assigned but not taken"),
                Some(Err(_)) => {}
                None => break,
            }
        }
        self.consumer.context().take()
    }

    /// The group gives us these. An empty gift is answered at once, nobody will start it.
    pub(crate) fn gained(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.waits_for_start = !partitions.is_empty();
        if partitions.is_empty() {
            let _ = self.start_nothing();
        }
    }

    fn start_nothing(&self) -> KafkaResult<()> {
        let nothing = rdkafka::TopicPartitionList::new();
        if self.is_cooperative() { self.consumer.incremental_assign(&nothing) } else { self.consumer.assign(&nothing) }
    }

    /// The group asks for `partitions`, of which `ours` must be released first.
    pub(crate) fn losing(&mut self, partitions: &BTreeSet<PartitionId>, ours: &BTreeSet<PartitionId>) {
        self.waits_for_start = false;
        self.losing = Some(Losing { all: partitions.clone(), unreleased: ours.clone() });
        if ours.is_empty() {
            let _ = self.let_go();
        }
    }

    /// Others have these already.
    pub(crate) fn lost(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.waits_for_start = false;
        self.losing = Some(Losing { all: partitions.clone(), unreleased: BTreeSet::new() });
        let _ = self.let_go();
    }

    /// Fetches `at` from there. `standing` is where everything stands that is to be delivered, these included.
    pub(crate) fn assign(&mut self, at: &Frontier, standing: &Frontier) -> Result<(), KafkaError> {
        let topic = self.topic.clone();
        let failed = |error: Rdkafka| unanswered(&topic, "start reading", &error);
        if !self.is_cooperative() {
            self.consumer.assign(&list(&self.topic, standing)).map_err(failed)?;
            self.waits_for_start = false;
            self.assigned = standing.keys().copied().collect();
            return Ok(());
        }
        let (again, anew): (Frontier, Frontier) = at.iter().partition(|(p, _)| self.assigned.contains(p));
        if !again.is_empty() {
            self.move_to(&again)?;
        }
        if !anew.is_empty() {
            self.consumer.incremental_assign(&list(&self.topic, &anew)).map_err(failed)?;
            self.waits_for_start = false;
            self.assigned.extend(anew.keys());
        }
        Ok(())
    }

    /// Moves partitions that are fetched already.
    fn move_to(&mut self, at: &Frontier) -> Result<(), KafkaError> {
        let topic = self.topic.clone();
        let failed = |error: Rdkafka| unanswered(&topic, "move the position", &error);
        if self.losing.is_none() {
            let list = list(&self.topic, at);
            self.consumer.incremental_unassign(&list).map_err(failed)?;
            self.assigned.retain(|p| !at.contains_key(p));
            self.consumer.incremental_assign(&list).map_err(failed)?;
            self.assigned.extend(at.keys());
            return Ok(());
        }
        // Nothing may be unassigned now. A seek fails where the last fetch ended in an error: then it is for the
        // time after the rebalance.
        let moved = self.seek(at);
        if moved.len() == at.len() {
            return Ok(());
        }
        Err(unanswered(&self.topic, "move the position", "the group is rebalancing"))
    }

    /// Moves what is fetched to `at`; returns what was moved. What was fetched before does not come any more.
    pub(crate) fn seek(&self, at: &Frontier) -> BTreeSet<PartitionId> {
        let sought = self.consumer.seek_partitions(list(&self.topic, at), SEEK_PATIENCE).unwrap_or_default();
        let moved = sought.elements().into_iter().filter(|element| element.error().is_ok());
        moved.filter_map(|element| u32::try_from(element.partition()).ok()).map(PartitionId).collect()
    }

    /// Lets go of partitions; answers the group once all that it asked back are released.
    pub(crate) fn release(
        &mut self,
        partitions: &BTreeSet<PartitionId>,
        standing: &Frontier,
    ) -> Result<(), KafkaError> {
        if let Some(losing) = &mut self.losing {
            losing.unreleased.retain(|p| !partitions.contains(p));
            return if losing.unreleased.is_empty() { self.let_go() } else { Ok(()) };
        }
        let held: BTreeSet<_> = partitions.intersection(&self.assigned).copied().collect();
        if held.is_empty() {
            return Ok(());
        }
        let done = if self.is_cooperative() {
            self.consumer.incremental_unassign(&self.list_of(&held))
        } else {
            self.consumer.assign(&list(&self.topic, standing))
        };
        done.map_err(|error| unanswered(&self.topic, "let go of partitions", &error))?;
        self.assigned.retain(|p| !held.contains(p));
        Ok(())
    }

    /// Answers the group's wish to have `losing` back.
    fn let_go(&mut self) -> Result<(), KafkaError> {
        let Some(losing) = &self.losing else { return Ok(()) };
        let done = if self.is_cooperative() {
            let held: BTreeSet<_> = losing.all.intersection(&self.assigned).copied().collect();
            self.consumer.incremental_unassign(&self.list_of(&held))
        } else {
            self.consumer.unassign()
        };
        done.map_err(|error| unanswered(&self.topic, "let go of partitions", &error))?;
        if self.is_cooperative() {
            let all = self.losing.take().map(|losing| losing.all).unwrap_or_default();
            self.assigned.retain(|p| !all.contains(p));
        } else {
            self.losing = None;
            self.assigned.clear();
        }
        Ok(())
    }

    /// Answers what the group still waits for. What it asks from now on the context answers: the client is
    /// about to be closed.
    ///
    /// Only what was asked is answered, and once: see [`Context`] for what becomes of an answer too many.
    pub(crate) fn close(&mut self) {
        self.consumer.context().close();
        let answered = if self.losing.is_some() {
            self.let_go().map_err(|error| error.to_string())
        } else if self.waits_for_start {
            self.start_nothing().map_err(|error| error.to_string())
        } else {
            Ok(())
        };
        if let Err(error) = answered {
            debug!("answer the group before leaving it: {error}");
        }
    }

    pub(crate) fn is_cooperative(&self) -> bool {
        matches!(self.consumer.rebalance_protocol(), RebalanceProtocol::Cooperative)
    }

    fn list_of(&self, partitions: &BTreeSet<PartitionId>) -> rdkafka::TopicPartitionList {
        list(&self.topic, &partitions.iter().map(|p| (*p, Offset::ZERO)).collect())
    }
}

/// Leaves the group, in a thread that is left behind when it takes too long: a broker that froze keeps the client
/// waiting for a minute.
pub(crate) fn leave(consumer: &Arc<BaseConsumer<Context>>, group: &str) {
    let consumer = Arc::clone(consumer);
    let (done, left) = sync_channel(1);
    let leaving = std::thread::Builder::new().name("kafka-leave".to_owned()).spawn(move || {
        if consumer.close_queue().is_ok() {
            while !consumer.closed() {
                consumer.poll(LEAVING / 100);
            }
        }
        let _ = done.send(());
    });
    if leaving.is_ok() && left.recv_timeout(LEAVING) == Err(RecvTimeoutError::Timeout) {
        let seconds = LEAVING.as_secs();
        warn!("no answer for {seconds} s while leaving group {group}: its other members wait for our session's end");
    }
}

fn unanswered(topic: &str, what: &str, error: impl std::fmt::Display) -> KafkaError {
    KafkaError::Unanswered { what: what.to_owned(), topic: topic.to_owned(), detail: error.to_string() }
}
