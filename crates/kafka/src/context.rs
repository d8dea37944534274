//! What librdkafka calls back: only writes down what it said.
//!
//! Rebalances are answered later, by the reader, once the core has said where to start or that it
//! let go. librdkafka allows that: with rebalance *events* (which `rdkafka` asks for) it waits in
//! the states WAIT_ASSIGN_CALL and WAIT_UNASSIGN_CALL, heartbeats going on, until assign or unassign
//! is called, from any thread.
//!
//! One exception: while the client closes, nobody is left to decide, and each rebalance is answered
//! here, by one call and no more. Such a call is a question to librdkafka's own thread, and one that is
//! on its way when that thread has left the group is thrown away unanswered (`rd_kafka_cgrp_op_serve`;
//! librdkafka's issues 4041 and 4884): who asked waits for ever. While the group waits for our answer it
//! can't be left; after it, it can at any moment.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError as Rdkafka, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;
use tracing::{debug, warn};

use crate::oauth::Tokens;

/// What the client said.
#[derive(Debug)]
pub(crate) enum Event {
    /// The group gives us these.
    Assigned(Vec<i32>),
    /// The group takes these; `lost`: it has already given them to others.
    Revoked { partitions: Vec<i32>, lost: bool },
    /// Something failed.
    Failed { code: RDKafkaErrorCode, reason: String },
}

/// Receives the callbacks.
#[derive(Default)]
pub(crate) struct Context {
    events: Mutex<Vec<Event>>,
    closing: AtomicBool,
    /// What it proves itself with.
    tokens: Option<&'static Tokens>,
}

impl Context {
    /// Of a client that gets its tokens here, if it needs any.
    pub(crate) fn with(tokens: Option<&'static Tokens>) -> Self {
        Self { tokens, ..Self::default() }
    }

    /// What was said since the last call.
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock().expect("no panic while it is held"))
    }

    /// From now on rebalances are answered at once: there is nobody left who would.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Tells a line of the client's log. What matters to us comes as an error as well, where it is told once.
    pub(crate) fn logged(is_urgent: bool, facility: &str, line: &str) {
        if is_urgent {
            warn!("Kafka client: {facility} {line}");
        } else {
            debug!("Kafka client: {facility} {line}");
        }
    }

    /// Something failed. The same once more says nothing to who has not listened yet.
    pub(crate) fn fail(&self, code: RDKafkaErrorCode, reason: &str) {
        let mut events = self.events.lock().expect("no panic while it is held");
        let is_known = matches!(events.last(), Some(Event::Failed { code: last, reason: text }) if *last == code && text == reason);
        if !is_known {
            events.push(Event::Failed { code, reason: reason.to_owned() });
        }
    }

    fn note(&self, event: Event) {
        self.events.lock().expect("no panic while it is held").push(event);
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let is_urgent = matches!(level, RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical);
        Self::logged(is_urgent, facility, message);
    }

    fn error(&self, error: Rdkafka, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
        let lacking = self.tokens.filter(|_| is_refusal(code)).and_then(Tokens::lacking);
        match lacking {
            // Brokers refuse what has expired. That heals with the next token, and no broker serves us until then.
            Some(why) => self.fail(RDKafkaErrorCode::AllBrokersDown, &why),
            None => self.fail(code, reason),
        }
    }
}

fn is_refusal(code: RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed)
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, code: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if self.closing.load(Ordering::SeqCst) {
            // A client that closes takes any answer, to any question, for "I let go of everything".
            if !consumer.closed()
                && let Err(error) = consumer.unassign()
            {
                debug!("let go of all partitions: {error}");
            }
            return;
        }
        let partitions: Vec<i32> = list.elements().iter().map(|e| e.partition()).collect();
        self.note(match code {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Event::Assigned(partitions),
            _ => Event::Revoked { partitions, lost: consumer.assignment_lost() },
        });
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            debug!("the group's offsets, which lag tools read, were not written: {error}");
        }
    }
}
