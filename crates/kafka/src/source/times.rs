//! Where partitions begin and end, and where they were at a time, asked from the brokers.

use std::collections::BTreeMap;

use lakeward_protocol::position::{Frontier, Offset, PartitionId};
use rdkafka::Offset as Asked;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError as Rdkafka;

use super::{PATIENCE, Source, id, number};
use crate::error::KafkaError;

impl Source {
    /// The end of each partition, asked from the brokers: what a reader will have passed when it has read
    /// all that can be read now. Open transactions end it under `read_committed`, so that whoever waits for
    /// it does not wait for them.
    ///
    /// # Errors
    /// There is no such topic, or no answer; both heal.
    pub fn ends(&self) -> Result<Frontier, KafkaError> {
        self.known_places("ask for the ends", Asked::End)
    }

    /// The oldest offset that each partition holds.
    ///
    /// # Errors
    /// As [`ends`](Self::ends).
    pub fn oldest(&self) -> Result<Frontier, KafkaError> {
        self.known_places("ask for the oldest offsets", Asked::Beginning)
    }

    /// The first record of each partition whose time stamp is not before this one, in ms since 1970; where there is
    /// none as yet, the end.
    ///
    /// # Errors
    /// As [`ends`](Self::ends).
    pub fn at_time(&self, time_ms: i64) -> Result<Frontier, KafkaError> {
        // The ends first: what comes in between is behind them.
        let mut places = self.ends()?;
        let found = self.places("ask for the offsets of a time", Asked::Offset(time_ms))?;
        places.extend(found.into_iter().filter_map(|(partition, place)| Some((partition, place?))));
        Ok(places)
    }

    fn known_places(&self, what: &str, asked: Asked) -> Result<Frontier, KafkaError> {
        let place = |(partition, place): (PartitionId, Option<Offset>)| {
            let place = place.ok_or_else(|| self.unanswered(what, &Rdkafka::NoMessageReceived))?;
            Ok((partition, place))
        };
        self.places(what, asked)?.into_iter().map(place).collect()
    }

    /// librdkafka asks ListOffsets, which takes "the end" and "the beginning" for times.
    fn places(&self, what: &str, asked: Asked) -> Result<BTreeMap<PartitionId, Option<Offset>>, KafkaError> {
        let mut list = rdkafka::TopicPartitionList::new();
        for partition in self.partitions()? {
            list.add_partition_offset(&self.config.topic, number(partition), asked).expect("an offset to ask for");
        }
        let answer = self.consumer.offsets_for_times(list, PATIENCE).map_err(|error| self.unanswered(what, &error))?;
        let place = |element: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            element.error().map_err(|error| self.unanswered(what, &error))?;
            // Nothing at or after a time is told as "the end".
            let raw = element.offset().to_raw().unwrap_or(-1);
            Ok((id(element.partition()), Offset::new(raw).ok()))
        };
        answer.elements().into_iter().map(place).collect()
    }
}
