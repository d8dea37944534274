//! What the client's complaints mean: nothing, a hitch that heals, or the end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode as Code;
use tracing::warn;

use crate::context::Context;
use crate::error::KafkaError;
use crate::oauth::REFUSED;

/// A hitch is told again after this long.
const TELL_AGAIN: Duration = Duration::from_secs(30);

/// A topic that is not there is asked for this often.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A process that once worked is refused this often in a row before it believes it: a broker that
/// ends in the middle of a handshake looks like one that refuses.
const REFUSALS: u32 = 5;

/// What to do where no token is given.
const NO_TOKEN: &str = "check -K sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id, \
                        sasl.oauthbearer.client.secret and sasl.oauthbearer.scope";

pub(crate) enum Kind {
    Nothing,
    Hitch(KafkaError),
    Fatal(KafkaError),
}

pub(crate) struct Trouble {
    brokers: String,
    topic: String,
    told: HashMap<&'static str, Instant>,
    missing: bool,
    asked: Option<Instant>,
    worked: bool,
    refusals: u32,
    /// What the last broker said that went away.
    last: String,
}

impl Trouble {
    pub(crate) fn new(brokers: &str, topic: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
            topic: topic.to_owned(),
            told: HashMap::new(),
            missing: false,
            asked: None,
            worked: false,
            refusals: 0,
            last: String::new(),
        }
    }

    /// Something worked.
    pub(crate) fn heal(&mut self) {
        (self.worked, self.refusals, self.missing) = (true, 0, false);
    }

    pub(crate) fn judge(&mut self, code: Code, reason: &str) -> Kind {
        if let Some((what, remedy)) = refusal(code, reason) {
            return self.refused(code, what, remedy, reason);
        }
        let brokers = self.brokers.clone();
        match code {
            Code::NoError | Code::PartitionEOF => Kind::Nothing,
            Code::Fatal | Code::FencedInstanceId => Kind::Fatal(KafkaError::Fatal { detail: reason.to_owned() }),
            Code::UnknownTopicOrPartition | Code::UnknownTopic => {
                self.missing = true;
                self.hitch("missing", KafkaError::NoTopic { topic: self.topic.clone(), brokers })
            }
            Code::InvalidTopic => Kind::Fatal(KafkaError::Setting {
                key: "topic".to_owned(),
                reason: format!("`{}` is not a name for a topic", self.topic),
            }),
            Code::InvalidGroupId | Code::InconsistentGroupProtocol | Code::InvalidSessionTimeout => {
                Kind::Fatal(KafkaError::Setting { key: "group.id".to_owned(), reason: reason.to_owned() })
            }
            Code::AllBrokersDown => {
                let detail = format!("{reason} ({})", self.last);
                self.hitch("down", KafkaError::Unreachable { brokers, detail })
            }
            _ => {
                // One broker of several, or something that librdkafka tries again by itself.
                reason.clone_into(&mut self.last);
                if self.is_due("other") {
                    warn!("Kafka client at {brokers}: {reason} ({code})");
                }
                Kind::Nothing
            }
        }
    }

    /// Asks once more for a topic that was not there; says so again from time to time.
    pub(crate) fn still_missing(&mut self, consumer: &BaseConsumer<Context>) -> Option<KafkaError> {
        if !self.missing || self.asked.is_some_and(|asked| asked.elapsed() < ASK_AGAIN) {
            return None;
        }
        // The answer itself is not needed: with it the client joins the group, should there be a topic.
        let _ = consumer.client().fetch_metadata(Some(&self.topic), ASK_AGAIN);
        self.asked = Some(Instant::now());
        self.is_due("missing").then(|| KafkaError::NoTopic { topic: self.topic.clone(), brokers: self.brokers.clone() })
    }

    fn refused(&mut self, code: Code, what: &'static str, remedy: &'static str, reason: &str) -> Kind {
        self.refusals += 1;
        let brokers = self.brokers.clone();
        let error = match reason.strip_prefix(REFUSED) {
            Some(detail) => KafkaError::NoToken { brokers, detail: detail.to_owned(), remedy: NO_TOKEN },
            None => KafkaError::Refused { brokers, what, detail: reason.to_owned(), remedy },
        };
        let permission = matches!(
            code,
            Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::ClusterAuthorizationFailed
                | Code::TransactionalIdAuthorizationFailed
        );
        if permission || !self.worked || self.refusals > REFUSALS {
            return Kind::Fatal(error);
        }
        warn!("{error} (it worked before: trying again)");
        Kind::Nothing
    }

    fn hitch(&mut self, kind: &'static str, error: KafkaError) -> Kind {
        if self.is_due(kind) { Kind::Hitch(error) } else { Kind::Nothing }
    }

    fn is_due(&mut self, kind: &'static str) -> bool {
        let due = self.told.get(kind).is_none_or(|told| told.elapsed() >= TELL_AGAIN);
        if due {
            self.told.insert(kind, Instant::now());
        }
        due
    }
}

/// What only a person heals: what it is called, and what to do.
fn refusal(code: Code, reason: &str) -> Option<(&'static str, &'static str)> {
    match code {
        // A broker that does not like our certificate says so only once it is asked something.
        Code::BrokerTransportFailure if reason.contains("tls alert") || reason.contains("sslv3 alert") => {
            refusal(Code::SSL, reason)
        }
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState => Some((
            "authentication",
            "check -K security.protocol, sasl.mechanism, and sasl.username and sasl.password, or the settings of \
                 sasl.oauthbearer",
        )),
        Code::SSL => Some((
            "TLS",
            "check -K security.protocol, ssl.ca.location, ssl.certificate.location and ssl.key.location, and the dates \
             of the certificates",
        )),
        Code::TopicAuthorizationFailed => Some((
            "authorization",
            "let this user read and describe the topic (ACL operations Read, Describe; of a sink also Write)",
        )),
        Code::TransactionalIdAuthorizationFailed => Some((
            "authorization",
            "let this user write with the sink's transactional id (ACL operations Write, Describe on the id)",
        )),
        Code::GroupAuthorizationFailed => {
            Some(("authorization", "let this user read with the consumer group (ACL operation Read on the group)"))
        }
        Code::ClusterAuthorizationFailed => Some(("authorization", "let this user use the cluster")),
        _ => None,
    }
}
