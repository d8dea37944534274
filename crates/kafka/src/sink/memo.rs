//! What a sink says of itself: text beside offsets of its group, committed in the same transaction as its messages.
//!
//! The offsets are those of the sink topic's own partitions. A broker bounds the text beside one of them, so it is cut
//! into parts, one a partition from the first on, each with the version that it is of. Durable: another text takes
//! another format, and the golden of this one stays.

use std::collections::BTreeSet;

use lakeward_protocol::ports::{Breach, Permit};
use lakeward_protocol::position::{CommitId, Frontier, Offset, PartitionId, TableVersion};
use serde::{Deserialize, Serialize};

use super::SinkSource;

/// What the text begins with; the number is its format.
const MARK: &str = "lakeward/1";

/// Bytes of one part: what brokers allow (`offset.metadata.max.bytes`, 4096), less the longest head.
const PART_BYTES: usize = 4_096 - 64;

/// Commits whose names are kept.
const NAMES: usize = 4;

/// What the newest version says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memo {
    /// 0 where nothing was ever committed.
    pub version: u64,
    /// The newest commits, oldest first: version and name.
    commits: Vec<(u64, String)>,
    /// Id of the topic that the messages are in.
    pub topic: Option<String>,
    /// What was taken in; a source twice where its topic was made again and not all partitions were told yet.
    sources: Vec<Taken>,
}

/// How far one topic of a source was taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Taken {
    source: String,
    topic: String,
    id: Option<String>,
    /// The next offset by partition.
    next: Vec<Option<i64>>,
}

impl Taken {
    fn at(&self, number: u32) -> Option<Offset> {
        let raw = self.next.get(usize::try_from(number).ok()?).copied().flatten()?;
        Offset::new(raw).ok()
    }

    fn is_of(&self, source: &SinkSource) -> bool {
        self.source == source.name
    }

    /// Whether it is about the topic that the source reads now. Brokers without ids can't tell.
    fn is_current(&self, source: &SinkSource) -> bool {
        let ids = self.id.as_ref().zip(source.topic.id_text());
        self.topic == source.topic.name && ids.is_none_or(|(was, is)| *was == is)
    }

    fn described(name: &str, id: Option<&str>, source: &str) -> String {
        format!("{name} (id {}, source {source})", id.unwrap_or("unknown"))
    }
}

impl Memo {
    /// What is stored of these partitions.
    pub fn frontier(&self, sources: &[SinkSource], partitions: &BTreeSet<PartitionId>) -> Frontier {
        let stored = |partition: &PartitionId| {
            let source = sources.get(usize::from(partition.source().0))?;
            let at = self.sources.iter().filter(|taken| taken.is_of(source)).find_map(|t| t.at(partition.number()))?;
            Some((*partition, at))
        };
        partitions.iter().filter_map(stored).collect()
    }

    /// All that is stored, by source and partition.
    pub fn places(&self) -> impl Iterator<Item = (&str, u32, Offset)> {
        self.sources.iter().flat_map(|taken| {
            let numbers = 0..u32::try_from(taken.next.len()).unwrap_or(u32::MAX);
            numbers.filter_map(|number| Some((taken.source.as_str(), number, taken.at(number)?)))
        })
    }

    /// P9: what is stored of a source is about another topic than the one it reads now.
    pub fn other_topic(&self, sources: &[SinkSource], partitions: &BTreeSet<PartitionId>) -> Option<Breach> {
        let is_of = |at: usize, partition: &PartitionId| usize::from(partition.source().0) == at;
        for (at, source) in sources.iter().enumerate() {
            for taken in self.sources.iter().filter(|taken| taken.is_of(source) && !taken.is_current(source)) {
                let affected = partitions.iter().filter(|p| is_of(at, p) && taken.at(p.number()).is_some());
                let partitions: BTreeSet<PartitionId> = affected.copied().collect();
                if !partitions.is_empty() {
                    return Some(Breach::OtherTopic {
                        was: Taken::described(&taken.topic, taken.id.as_deref(), &taken.source),
                        is: Taken::described(&source.topic.name, source.topic.id_text().as_deref(), &source.name),
                        partitions,
                    });
                }
            }
        }
        None
    }

    /// A source that these are not: messages were made of what is missing.
    pub fn stranger(&self, sources: &[SinkSource]) -> Option<&str> {
        let is_known = |taken: &&Taken| sources.iter().any(|source| taken.is_of(source));
        self.sources.iter().find(|taken| !is_known(taken)).map(|taken| taken.source.as_str())
    }

    /// Where a commit is, from a version on, as far back as names are kept.
    pub fn find(&self, commit: CommitId, from: TableVersion) -> Option<TableVersion> {
        let name = commit.to_string();
        let found = self.commits.iter().find(|(version, named)| *named == name && *version >= from.0);
        found.map(|(version, _)| TableVersion(*version))
    }

    /// Whether a permit is for the version after this one, and expects what this one says.
    pub fn is_before(&self, permit: &Permit, sources: &[SinkSource]) -> bool {
        let stored = self.frontier(sources, &permit.advances().keys().copied().collect());
        let expected = permit.advances().iter().all(|(p, advance)| stored.get(p).copied() == advance.expect);
        TableVersion(self.version).next() == permit.version() && expected
    }

    /// What is said after a commit.
    pub fn after(&self, permit: &Permit, sources: &[SinkSource], topic: Option<String>) -> Self {
        let version = permit.version().0;
        let mut after = Self { version, topic, ..self.clone() };
        after.commits.push((version, permit.commit().to_string()));
        after.commits.drain(..after.commits.len().saturating_sub(NAMES));
        for (partition, advance) in permit.advances() {
            let source = &sources[usize::from(partition.source().0)];
            after.set(source, partition.number(), advance.to);
        }
        after
    }

    fn set(&mut self, source: &SinkSource, number: u32, to: Offset) {
        let at = usize::try_from(number).expect("a partition's number");
        for taken in self.sources.iter_mut().filter(|taken| taken.is_of(source) && !taken.is_current(source)) {
            if let Some(next) = taken.next.get_mut(at) {
                *next = None;
            }
        }
        self.sources.retain(|taken| taken.next.iter().any(Option::is_some));
        let place = self.sources.iter().position(|taken| taken.is_of(source) && taken.is_current(source));
        let place = place.unwrap_or_else(|| {
            let (topic, id) = (source.topic.name.clone(), source.topic.id_text());
            self.sources.push(Taken { source: source.name.clone(), topic, id, next: Vec::new() });
            self.sources.len() - 1
        });
        let next = &mut self.sources[place].next;
        if next.len() <= at {
            next.resize(at + 1, None);
        }
        next[at] = Some(to.get());
    }

    /// How many partitions the text takes once these have gone as far as offsets go.
    pub fn most_parts(&self, sources: &[SinkSource], partitions: &BTreeSet<PartitionId>) -> usize {
        let name = (u64::MAX, CommitId(u128::MAX).to_string());
        let mut most = Self { version: u64::MAX, commits: vec![name; NAMES], ..self.clone() };
        for partition in partitions {
            let far = Offset::new(i64::MAX).expect("not negative");
            most.set(&sources[usize::from(partition.source().0)], partition.number(), far);
        }
        most.parts().len()
    }

    /// The text, cut for one partition each.
    pub fn parts(&self) -> Vec<String> {
        let text = serde_json::to_string(self).expect("a memo is JSON");
        let mut cut = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let mut end = rest.len().min(PART_BYTES);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            cut.push(&rest[..end]);
            rest = &rest[end..];
        }
        let head = |n| format!("{MARK} {} {n} {} ", self.version, cut.len());
        cut.iter().enumerate().map(|(n, part)| format!("{}{part}", head(n))).collect()
    }

    /// Reads what was cut; by partition, `None` where nothing is stored.
    ///
    /// # Errors
    /// What is stored and no text of ours.
    pub fn read(stored: &[Option<String>]) -> Result<Self, String> {
        let Some(Some(first)) = stored.first() else { return Ok(Self::default()) };
        let (version, _, count, _) = head(first).ok_or_else(|| format!("'{}'", shown(first)))?;
        let mut text = String::new();
        for n in 0..count {
            let part = stored.get(n).and_then(Option::as_deref).unwrap_or_default();
            match head(part) {
                Some((of, number, _, part)) if of == version && number == n => text.push_str(part),
                _ => return Err(format!("'{}' beside the offset of partition {n}", shown(part))),
            }
        }
        serde_json::from_str(&text).map_err(|error| format!("'{}' ({error})", shown(&text)))
    }
}

/// A part's version, number, count and text.
fn head(part: &str) -> Option<(u64, usize, usize, &str)> {
    let mut words = part.strip_prefix(MARK)?.strip_prefix(' ')?.splitn(4, ' ');
    let version = words.next()?.parse().ok()?;
    let (number, count) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((version, number, count, words.next()?))
}

fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TopicIdentity;

    fn source(name: &str, id: u8) -> SinkSource {
        let topic = TopicIdentity { name: format!("{name}s"), id: Some([id; 16]) };
        SinkSource { name: name.to_owned(), topic }
    }

    fn at(raw: i64) -> Offset {
        Offset::new(raw).unwrap()
    }

    fn memo(partitions: u32) -> Memo {
        let mut memo = Memo { version: 7, topic: Some("sink".to_owned()), ..Memo::default() };
        memo.commits.push((7, CommitId(0xab).to_string()));
        (0..partitions).for_each(|number| memo.set(&source("bid", 1), number, at(i64::from(number) + 5)));
        memo
    }

    const GOLDEN: &str = "lakeward/1 7 0 1 {\"version\":7,\"commits\":[[7,\"000000000000000000000000000000ab\"]],\
        \"topic\":\"sink\",\"sources\":[{\"source\":\"bid\",\"topic\":\"bids\",\"id\":\"AQEBAQEBAQEBAQEBAQEBAQ\",\
        \"next\":[5,6]}]}";

    #[test] // durable: what is written stays readable
    fn a_memos_text() {
        assert_eq!(memo(2).parts(), [GOLDEN]);
        assert_eq!(Memo::read(&[Some(GOLDEN.to_owned())]), Ok(memo(2)));
        assert_eq!(Memo::read(&[None]), Ok(Memo::default()));
        assert_eq!(Memo::read(&[]), Ok(Memo::default()));
    }

    #[test]
    fn a_long_text_is_cut_and_joined() {
        let long = memo(5_000);
        let mut parts: Vec<_> = long.parts().into_iter().map(Some).collect();
        assert!(parts.len() > 3 && parts.iter().flatten().all(|part| part.len() <= 4_096), "{}", parts.len());
        parts.push(memo(2).parts().pop());
        assert_eq!(Memo::read(&parts), Ok(long));
        let names = BTreeSet::from_iter((0..5_000).map(PartitionId));
        assert!(memo(2).most_parts(&[source("bid", 1)], &names) > parts.len(), "offsets grow");
    }

    #[test]
    fn what_is_no_text_of_ours_is_told() {
        let mut torn: Vec<_> = memo(5_000).parts().into_iter().map(Some).collect();
        torn[1] = Some(torn[1].take().unwrap().replacen(" 7 ", " 6 ", 1));
        let cases: [(&str, &[Option<String>]); 4] = [
            ("somebody's", &[Some("consumer-1".to_owned())]),
            ("empty", &[Some(String::new())]),
            ("another format", &[Some(GOLDEN.replace("lakeward/1", "lakeward/2"))]),
            ("of two versions", &torn),
        ];
        for (name, stored) in cases {
            assert!(Memo::read(stored).is_err(), "{name}");
        }
    }

    #[test]
    fn a_partition_is_of_one_topic_at_a_time() {
        let (mut memo, new) = (memo(2), source("bid", 2));
        let both = BTreeSet::from([PartitionId(0), PartitionId(1)]);
        let affected = |memo: &Memo| match memo.other_topic(std::slice::from_ref(&new), &both) {
            Some(Breach::OtherTopic { partitions, .. }) => partitions,
            _ => BTreeSet::new(),
        };
        assert_eq!(affected(&memo), both);
        memo.set(&new, 0, at(1));
        assert_eq!(affected(&memo), BTreeSet::from([PartitionId(1)]));
        let frontier = Frontier::from([(PartitionId(0), at(1)), (PartitionId(1), at(6))]);
        assert_eq!(memo.frontier(std::slice::from_ref(&new), &both), frontier);
        memo.set(&new, 1, at(2));
        assert_eq!((affected(&memo), memo.sources.len()), (BTreeSet::new(), 1));
        assert_eq!(memo.stranger(&[source("auction", 1)]), Some("bid"));
    }
}
