//! Whose rows a file holds: which of the logs that write by key wrote each of them last.
//!
//! Events of one key are in an order only within one log (a partition of a topic). The tag of a file says, row by row,
//! which one it was, so that a record of another one for the same key is noticed and not taken for the newer one.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::files::LiveFile;

/// The key in `add.tags` under which a file says whose rows it holds.
pub(crate) const CHAINS_TAG: &str = "lakeward.chains";

/// More runs than this are not written down: the tag would be longer than what it guards.
const MOST_RUNS: usize = 4096;

/// Whose rows a file holds, in the rows' order, dead ones too: runs, each with the row after its last. `None`: nobody
/// knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chains(Vec<(Option<Arc<str>>, u64)>);

impl Chains {
    /// What a file says of itself.
    pub(crate) fn of(file: &LiveFile) -> Self {
        let tag = file.tags.as_ref().and_then(|tags| tags.get(CHAINS_TAG)?.as_str());
        tag.and_then(Self::from_tag).unwrap_or_default()
    }

    /// One row more at the end.
    pub(crate) fn push(&mut self, chain: Option<&Arc<str>>) {
        let rows = self.0.last().map_or(0, |(_, end)| *end);
        match self.0.last_mut() {
            Some((last, end)) if last.as_ref() == chain => *end += 1,
            _ => self.0.push((chain.cloned(), rows + 1)),
        }
    }

    /// Whose row `row` is, as far as that is known.
    pub(crate) fn at(&self, row: u32) -> Option<&Arc<str>> {
        let run = self.0.partition_point(|(_, end)| *end <= u64::from(row));
        self.0.get(run)?.0.as_ref()
    }

    /// How many rows it tells of.
    pub(crate) fn rows(&self) -> u64 {
        self.0.last().map_or(0, |(_, end)| *end)
    }

    /// Of some of the rows.
    pub(crate) fn part(&self, rows: Range<u64>) -> Self {
        let after = self.0.partition_point(|(_, end)| *end <= rows.start);
        let mut part = Vec::new();
        for (chain, end) in &self.0[after..] {
            part.push((chain.clone(), (*end).min(rows.end) - rows.start));
            if *end >= rows.end {
                break;
            }
        }
        Self(part)
    }

    /// As it stands in the tag; `None` where there is nothing to say.
    pub(crate) fn to_tag(&self) -> Option<String> {
        let says = self.0.len() <= MOST_RUNS && self.0.iter().any(|(chain, _)| chain.is_some());
        let mut start = 0;
        let run = |(chain, end): &(Option<Arc<str>>, u64)| (chain.clone(), end - std::mem::replace(&mut start, *end));
        let runs: Vec<(Option<Arc<str>>, u64)> = if says { self.0.iter().map(run).collect() } else { Vec::new() };
        let runs = runs.iter().map(|(chain, rows)| (chain.as_deref(), *rows)).collect::<Vec<_>>();
        says.then(|| serde_json::to_string(&runs).expect("JSON of names and numbers"))
    }

    fn from_tag(tag: &str) -> Option<Self> {
        let runs: Vec<(Option<String>, u64)> = serde_json::from_str(tag).ok()?;
        let mut end = 0_u64;
        let run = |(chain, rows): (Option<String>, u64)| {
            end = end.checked_add(rows)?;
            Some((chain.map(Arc::from), end))
        };
        runs.into_iter().map(run).collect::<Option<_>>().map(Self)
    }
}

/// The tags of a file that has just been written.
pub(crate) fn tags(chains: Option<&String>) -> Option<serde_json::Map<String, Value>> {
    chains.map(|tag| serde_json::Map::from_iter([(CHAINS_TAG.to_owned(), Value::from(tag.as_str()))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whose_they_were_pushed_for() {
        let (a, b): (Arc<str>, Arc<str>) = ("a-0".into(), "b-1".into());
        let rows = [Some(&a), Some(&a), None, Some(&b), Some(&a)];
        let mut chains = Chains::default();
        rows.iter().for_each(|chain| chains.push(*chain));
        let tag = chains.to_tag().unwrap();
        assert_eq!(tag, r#"[["a-0",2],[null,1],["b-1",1],["a-0",1]]"#, "durable");
        for chains in [chains, Chains::from_tag(&tag).unwrap()] {
            assert_eq!((0..6).map(|row| chains.at(row)).collect::<Vec<_>>(), [&rows[..], &[None]].concat());
        }
    }

    #[test]
    fn a_part_is_of_its_rows() {
        let names: [Arc<str>; 2] = ["a".into(), "b".into()];
        let mut chains = Chains::default();
        let whose = |row: u64| (row % 7 != 3).then(|| &names[usize::from(row % 5 > 2)]);
        (0..40).for_each(|row| chains.push(whose(row)));
        assert_eq!(chains.rows(), 40);
        for (from, to) in [(0, 40), (0, 1), (3, 4), (7, 31), (39, 40)] {
            let mut expected = Chains::default();
            (from..to).for_each(|row| expected.push(whose(row)));
            assert_eq!(chains.part(from..to), expected, "{from}..{to}");
        }
    }

    #[test]
    fn what_says_nothing_has_no_tag() {
        let mut unknown = Chains::default();
        unknown.push(None);
        let mut long = Chains::default();
        let names: [Arc<str>; 2] = ["a".into(), "b".into()];
        (0..=MOST_RUNS).for_each(|at| long.push(Some(&names[at % 2])));
        for chains in [Chains::default(), unknown, long] {
            assert_eq!(chains.to_tag(), None);
        }
        assert_eq!(Chains::from_tag("nonsense"), None);
    }
}
