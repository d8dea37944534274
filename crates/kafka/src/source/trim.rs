//! Deleting from a topic what nothing needs any more (P3).

use lakeward_protocol::position::{Frontier, PartitionId};
use rdkafka::error::{KafkaError as Rdkafka, RDKafkaErrorCode as Code};

use super::{PATIENCE, Source, id};
use crate::error::KafkaError;
use crate::native::delete_records;
use crate::reader::list;

const WHAT: &str = "delete what nothing needs any more";

impl Source {
    pub(super) fn delete_below(&self, below: &Frontier) -> Result<(), KafkaError> {
        let unanswered = |code| self.unanswered(WHAT, &Rdkafka::AdminOp(code));
        let answers = delete_records(&self.consumer, &list(&self.config.topic, below), PATIENCE).map_err(unanswered)?;
        let mut refused = answers.into_iter().filter_map(|(partition, answer)| Some((partition, answer.err()?)));
        refused.next().map_or(Ok(()), |(partition, code)| Err(self.untrimmed(id(partition), code)))
    }

    /// Why a partition keeps what nothing needs.
    fn untrimmed(&self, partition: PartitionId, code: Code) -> KafkaError {
        let remedy = match code {
            Code::TopicAuthorizationFailed => "allow it DELETE on the topic, or leave trim = true out",
            Code::PolicyViolation => "a compacted topic takes no deletion: leave trim = true out",
            Code::OffsetOutOfRange => "the topic ends below what was read of it: see what happened to it",
            _ => return self.unanswered(WHAT, &Rdkafka::AdminOp(code)),
        };
        let what = format!("delete records of partition {partition} of topic {}", self.config.topic);
        KafkaError::Untrimmed { what, detail: code.to_string(), remedy }
    }
}
