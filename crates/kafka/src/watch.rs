//! Is it still the same topic (P9), and how many partitions has it?
//!
//! A topic that is deleted and made again while we read goes on at our offset as if nothing had
//! happened, once it has that many records. librdkafka does not tell. So its id is asked for from
//! time to time, and at once when something looks like a deletion. Between the two a stretch of a
//! new topic may pass as the old one's: at most what [`INTERVAL`] lets through. The same answer tells of
//! partitions that were added.

use std::ffi::CStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;
use tracing::debug;

use crate::context::Context;
use crate::error::KafkaError;
use crate::native::{IdentityQuery, TopicId};

/// How often a topic's id is asked for.
const INTERVAL: Duration = Duration::from_secs(5);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of the topic; shared with the caller's own question.
#[derive(Default)]
pub(crate) struct Seen {
    /// The id that was seen first, or that the caller was told.
    pub(crate) id: TopicId,
    /// A broker that knows the topic.
    pub(crate) broker: Option<i32>,
}

/// See [`Seen`].
pub(crate) type Known = Arc<Mutex<Seen>>;

pub(crate) struct Watch {
    topic: String,
    known: Known,
    due: Option<Instant>,
    asked: Option<IdentityQuery>,
    partitions: u32,
}

impl Watch {
    pub(crate) fn new(topic: String, known: Known) -> Self {
        Self { topic, known, due: None, asked: None, partitions: 0 }
    }

    /// Asks at the next occasion.
    pub(crate) fn suspect(&mut self) {
        self.due = None;
    }

    /// The most partitions that the topic was said to have: it never has fewer again.
    pub(crate) fn partitions(&self) -> u32 {
        self.partitions
    }

    /// Asks where it is time to, and looks at answers. Never waits.
    pub(crate) fn check(
        &mut self,
        consumer: &Arc<BaseConsumer<Context>>,
        topic: &CStr,
        reading: bool,
        now: Instant,
    ) -> Option<KafkaError> {
        if let Some(asked) = &self.asked {
            let answer = asked.answer(Duration::ZERO)?;
            self.asked = None;
            return match answer {
                Ok(is) => {
                    let changed = self.compare(is.id);
                    if changed.is_none() {
                        self.partitions = self.partitions.max(is.partitions);
                    }
                    changed
                }
                Err(code) => {
                    debug!("ask for the id of topic {}: {code}", self.topic);
                    self.known.lock().expect("no panic while it is held").broker = None;
                    None
                }
            };
        }
        if reading && self.due.is_none_or(|due| now >= due) {
            self.due = Some(now + INTERVAL);
            let broker = self.known.lock().expect("no panic while it is held").broker;
            self.asked = Some(IdentityQuery::ask(consumer, topic, broker, PATIENCE));
        }
        None
    }

    fn compare(&self, is: TopicId) -> Option<KafkaError> {
        let mut known = self.known.lock().expect("no panic while it is held");
        let (Some(was), Some(is)) = (known.id, is) else {
            known.id = known.id.or(is);
            return None;
        };
        (was != is).then(|| KafkaError::Recreated { topic: self.topic.clone(), was: text(was), is: text(is) })
    }
}

/// An id as Kafka's tools print it.
pub(crate) fn text(id: [u8; 16]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let number = u128::from_be_bytes(id);
    // 22 digits of 6 bits: the last one has only 2 bits of the number.
    (0..22)
        .map(|i| {
            let shift = 122_i32 - 6 * i;
            let digit = if shift >= 0 { number >> shift } else { number << -shift };
            DIGITS[(digit & 63) as usize] as char
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn an_id_reads_as_kafka_prints_it() {
        assert_eq!(text([0; 16]), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(text([0xff; 16]), "_____________________w");
        // Base64 with the URL's alphabet, without padding.
        let id = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128;
        assert_eq!(text(id.to_be_bytes()), "ASNFZ4mrze_-3LqYdlQyEA");
    }
}
