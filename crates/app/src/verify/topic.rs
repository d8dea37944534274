//! Compares what commits say they took in with what the topic still holds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lakeward_delta::Span;
use lakeward_kafka::{KafkaError, Source, SourceConfig};
use lakeward_protocol::ports::{Input, InputLog};
use lakeward_protocol::position::{Frontier, Offset, PartitionId};
use lakeward_protocol::records::Records;

use super::chain::{Chains, Kind};
use crate::failure::Failure;

/// Records asked for at a time.
const MOST: usize = 16_000;
/// Nothing at all for so long: the topic can't be read.
const PATIENCE_POLLS: u32 = 600;
const POLL: Duration = Duration::from_millis(100);

/// The spans of one partition, being counted against the topic.
struct Count {
    txn: String,
    /// Ascending by their starts; those that the topic still holds whole. They overlap where somebody set the frontier
    /// back.
    spans: Vec<Span>,
    /// Records found, by span.
    found: Vec<u64>,
    /// All spans before this one are passed.
    at: usize,
    end: Offset,
}

impl Count {
    fn new(txn: String, spans: Vec<Span>) -> Option<Self> {
        let end = spans.iter().map(|span| span.to).max()?;
        let end = Offset::new(end).unwrap_or(Offset::ZERO);
        Some(Self { txn, found: vec![0; spans.len()], at: 0, end, spans })
    }

    fn take(&mut self, records: &Records) {
        records.entries().iter().for_each(|entry| self.see(entry.offset));
    }

    fn see(&mut self, offset: i64) {
        while self.spans.get(self.at).is_some_and(|span| offset >= span.to) {
            self.at += 1;
        }
        let begun = self.spans[self.at..].iter().take_while(|span| span.from <= offset).count();
        for at in self.at..self.at + begun {
            self.found[at] += u64::from(offset < self.spans[at].to);
        }
    }
}

/// Reads the topics that the chains name, as far as the chains cover them, and counts.
///
/// # Errors
/// When a topic can't be read.
pub fn compare(chains: &mut Chains, brokers: &str, settings: &[(String, String)]) -> Result<(), Failure> {
    let named = chains.chains.values().filter_map(|chain| Some((chain.source.clone(), chain.topic.clone()?)));
    let topics: BTreeSet<(Option<String>, String)> = named.collect();
    for (source, topic) in topics {
        let mut config = SourceConfig::new(brokers, "lakeward-verify", &topic);
        config.settings = settings.to_vec();
        compare_source(chains, source.as_deref(), &topic, &config)?;
    }
    Ok(())
}

/// The chains of one topic, read for one source where sources have names.
///
/// # Errors
/// When the topic can't be read.
pub fn compare_source(
    chains: &mut Chains,
    source: Option<&str>,
    topic: &str,
    config: &SourceConfig,
) -> Result<(), Failure> {
    compare_topic(chains, source, topic, config).map_err(|error| Failure::port(&error))
}

fn compare_topic(
    chains: &mut Chains,
    named: Option<&str>,
    topic: &str,
    config: &SourceConfig,
) -> Result<(), KafkaError> {
    let asking = Source::assign(config.clone(), BTreeSet::new())?;
    let (identity, ends) = (asking.topic_identity()?, asking.ends()?);
    drop(asking);
    let mut source = Source::assign(config.clone(), ends.keys().copied().collect())?;
    let (mut counts, mut starts) = (BTreeMap::new(), Frontier::new());
    let version = chains.version;
    for (txn, chain) in chains.chains.clone() {
        if chain.topic.as_deref() != Some(topic) || chain.source.as_deref() != named {
            continue;
        }
        if let (Some(is), Some(was)) = (identity.id, &chain.topic_id)
            && *was != hexadecimal(is)
        {
            chains.find(
                version,
                Some(&txn),
                Kind::Note,
                "the topic was made again since: nothing to compare with".to_owned(),
                0,
                0,
            );
            continue;
        }
        let partition = PartitionId(chain.partition);
        let bounds = source.bounds(partition)?;
        let mut spans = chain.spans.clone();
        spans.sort_by_key(|span| span.from);
        spans.retain(|span| span.from >= bounds.oldest.get() && span.to <= bounds.end.get());
        let Some(first) = spans.first().map(|span| span.from) else { continue };
        starts.insert(partition, Offset::new(first).unwrap_or(Offset::ZERO));
        counts.extend(Count::new(txn, spans).map(|count| (partition, count)));
    }
    source.start(&starts)?;
    read(&mut source, &mut counts)?;
    for count in counts.into_values() {
        report(chains, topic, &count);
    }
    Ok(())
}

fn read(source: &mut Source, counts: &mut BTreeMap<PartitionId, Count>) -> Result<(), KafkaError> {
    let mut open: BTreeSet<PartitionId> = counts.keys().copied().collect();
    let mut quiet = 0;
    while !open.is_empty() && quiet < PATIENCE_POLLS {
        match source.poll(MOST, POLL)? {
            Some(Input::Records(records)) => {
                quiet = 0;
                if let Some(count) = counts.get_mut(&records.partition()) {
                    count.take(&records);
                    if records.to() >= count.end {
                        open.remove(&records.partition());
                    }
                }
                source.recycle(records);
            }
            Some(Input::Reached { partition, .. }) => {
                open.remove(&partition);
            }
            _ => quiet += 1,
        }
    }
    match open.first() {
        None => Ok(()),
        Some(partition) => Err(KafkaError::Unanswered {
            what: format!("read partition {partition}"),
            topic: source.topic_identity().map_or_else(|_| String::new(), |identity| identity.name),
            detail: "nothing came".to_owned(),
        }),
    }
}

fn report(chains: &mut Chains, topic: &str, count: &Count) {
    let version = chains.version;
    let mut compared = 0;
    for (span, found) in count.spans.iter().zip(&count.found) {
        compared += found;
        if *found != span.records {
            let text = format!(
                "offsets {} to {} of {topic}-{} hold {found} records, the commit took {}",
                span.from,
                span.to - 1,
                span.partition,
                span.records
            );
            chains.find(
                version,
                Some(&count.txn),
                Kind::Fault,
                text,
                found.saturating_sub(span.records),
                span.records.saturating_sub(*found),
            );
        }
    }
    let text = format!("{compared} records of {topic} compared");
    chains.find(version, Some(&count.txn), Kind::Note, text, 0, 0);
}

fn hexadecimal(id: [u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_in_each_span_that_covers_it() {
        let span = |from, to| Span { from, to, ..Span::default() };
        #[rustfmt::skip] // columns: spans, found of the offsets 0 to 9
        let cases = [
            (vec![span(0, 4), span(4, 9)],              vec![4, 5]),
            (vec![span(2, 4), span(6, 7)],              vec![2, 1]),
            (vec![span(0, 8), span(3, 5), span(5, 10)], vec![8, 2, 5]),
            (vec![span(3, 5), span(3, 9)],              vec![2, 6]),
        ];
        for (spans, found) in cases {
            let mut count = Count::new(String::new(), spans.clone()).unwrap();
            (0..10).for_each(|offset| count.see(offset));
            assert_eq!(count.found, found, "{spans:?}");
        }
    }
}
