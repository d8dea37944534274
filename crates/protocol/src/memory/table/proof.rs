//! What a table's log proves by itself.

use std::collections::BTreeSet;

use super::{Table, Version, View, apply};
use crate::memory::Topic;
use crate::memory::stage::{GROWN, needs_growth};
use crate::ports::{Advance, Gap};
use crate::position::{Frontier, Offset, PartitionId, Shape};

impl Table {
    /// Proves the table's own log: chains (P2), names, shapes, and that each commit's rows are
    /// exactly the topic's records of its spans (P1).
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(&self, topic: &Topic) -> Result<(), String> {
        self.verify_rows(topic, |value| value != b"bad")
    }

    /// The same of a table of dead letters: its rows are the bad records of its spans.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify_letters(&self, topic: &Topic) -> Result<(), String> {
        self.verify_rows(topic, |value| value == b"bad")
    }

    fn verify_rows(&self, topic: &Topic, wanted: impl Fn(&[u8]) -> bool) -> Result<(), String> {
        let state = self.state();
        let mut frontier = Frontier::new();
        let mut names = BTreeSet::new();
        let mut shape = 0;
        for (number, version) in state.versions.iter().enumerate() {
            if let Some(name) = version.commit {
                ensure(names.insert(name), || format!("P1: version {number} repeats the commit {name}"))?;
            }
            let fits = version.made_for.is_none_or(|made_for| made_for == Shape(shape));
            ensure(fits, || format!("version {number} holds rows made for another shape"))?;
            shape = version.shape;
            let lacks = shape < GROWN.0 && version.rows.iter().any(|(.., value)| needs_growth(value));
            ensure(!lacks, || format!("P1: version {number} holds a row whose column the table lacks"))?;
            for (partition, advance) in &version.advances {
                let stored = frontier.get(partition).copied();
                check_link(number, *partition, stored, *advance, &version.gaps)?;
            }
            if version.commit.is_some() {
                version.check_rows(number, topic, &wanted)?;
            }
            frontier.extend(version.frontier.iter().map(|(p, o)| (*p, *o)));
        }
        Ok(())
    }
}

impl Table {
    /// Proves the log of a sink by step: chains (P2), names, shapes, and that every version holds the
    /// answer over exactly what lies below its frontier (P5). `begun` is where the pipeline began.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify_steps(&self, begun: &Frontier, answer: impl Fn(&Frontier) -> View) -> Result<(), String> {
        let state = self.state();
        let (mut stored, mut view) = (Frontier::new(), View::new());
        let (mut names, mut shape) = (BTreeSet::new(), 0);
        for (number, version) in state.versions.iter().enumerate() {
            if let Some(name) = version.commit {
                ensure(names.insert(name), || format!("P1: version {number} repeats the commit {name}"))?;
            }
            let fits = version.made_for.is_none_or(|made_for| made_for == Shape(shape));
            ensure(fits, || format!("version {number} holds rows made for another shape"))?;
            shape = version.shape;
            for (partition, advance) in &version.advances {
                let was = stored.get(partition).copied();
                check_link(number, *partition, was, *advance, &version.gaps)?;
                let home = begun.get(partition).copied().unwrap_or(Offset::ZERO);
                let was = was.unwrap_or(home);
                let joins = |gap: &Gap| gap.partition == *partition && (gap.from, gap.to) == (was, advance.from);
                ensure(advance.from == was || version.gaps.iter().any(joins), || {
                    format!("P2: version {number} begins partition {partition} at {}", advance.from)
                })?;
            }
            stored.extend(version.frontier.iter().map(|(p, o)| (*p, *o)));
            version.rows.iter().for_each(|(_, _, change)| apply(&mut view, change));
            let right = answer(&stored);
            ensure(view == right, || format!("P5: version {number} holds {view:?} at {stored:?}, not {right:?}"))?;
        }
        Ok(())
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn check_link(
    number: usize,
    partition: PartitionId,
    stored: Option<Offset>,
    advance: Advance,
    gaps: &[Gap],
) -> Result<(), String> {
    ensure(advance.expect == stored, || {
        format!("P2: version {number} expected partition {partition} at {:?}, it was at {stored:?}", advance.expect)
    })?;
    let breaks = stored.is_some_and(|stored| stored != advance.from);
    ensure(!breaks || gaps.iter().any(|gap| gap.partition == partition), || {
        format!("P9: version {number} breaks the chain of partition {partition} at {stored:?} without a word")
    })
}

impl Version {
    fn check_rows(&self, number: usize, topic: &Topic, wanted: impl Fn(&[u8]) -> bool) -> Result<(), String> {
        let mut expected = Vec::new();
        for (partition, advance) in &self.advances {
            let records = topic.records(*partition).into_iter();
            let span = records.filter(|(at, value)| (advance.from..advance.to).contains(at) && wanted(value));
            expected.extend(span.map(|(at, value)| (*partition, at, value)));
        }
        let mut rows = self.rows.clone();
        rows.sort_by_key(|row| (row.0, row.1));
        ensure(rows == expected, || {
            let places = |rows: &[(PartitionId, Offset, Vec<u8>)]| -> Vec<_> {
                rows.iter().map(|row| (row.0.0, row.1.get())).collect()
            };
            format!("P1: version {number} holds {:?}, its spans {:?}", places(&rows), places(&expected))
        })
    }
}
