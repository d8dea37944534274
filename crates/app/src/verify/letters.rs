//! Holds a table's dead letters to what its commits say of them: each bad record of each span is a letter once.
//!
//! The letters' table has chains of its own, which are proved as any table's. What binds the two is counted here, by
//! partition: the records that the spans of the one set aside, and the rows that the spans of the other have.

use std::collections::BTreeMap;

use lakeward_delta::{Notes, Span, Version};
use serde::Serialize;

use super::chain::{Chains, Kind};
use super::follow;
use crate::failure::Failure;
use crate::report::{counted, grouped};
use crate::session::Session;

/// Spans that made dead letters.
#[derive(Debug, Default)]
pub struct Made {
    /// By the id of the table that they are in.
    tables: BTreeMap<String, Table>,
    /// The table was restored: what its commits say is not what it has.
    pub restored: bool,
}

/// One table of dead letters, as the commits of rows know it.
#[derive(Debug, Default)]
struct Table {
    location: String,
    partitions: BTreeMap<Partition, Partial>,
}

/// Whose letters they are: app id, topic, partition.
type Partition = (String, Option<String>, u32);

/// What one partition's spans made.
#[derive(Debug, Default)]
struct Partial {
    txn: String,
    letters: u64,
    /// Letters of the newest span that made some, and past the last of them.
    newest: u64,
    past: i64,
}

/// A table of dead letters, compared.
#[derive(Debug, Serialize)]
pub struct Letters {
    /// Where it is.
    pub table: String,
    /// Its newest version; `None` where it can't be read.
    pub version: Option<u64>,
    /// Those that are there; as the commits of rows have it, where it can't be read or counted.
    pub letters: u64,
    /// Those that are not written yet: a process ended before that, or is about to.
    pub owed: u64,
}

impl Made {
    /// Takes in one partition's span of a commit.
    pub fn follow(&mut self, version: &Version, notes: &Notes, txn: &str, span: &Span) {
        let Some(companion) = &notes.dead_letters else { return };
        let table = self.tables.entry(companion.id.clone()).or_default();
        table.location.clone_from(&companion.table);
        if span.bad == 0 {
            return;
        }
        let mark = format!("{txn}/dead/{}", companion.id);
        let last = version.txns.iter().find(|(app_id, _)| *app_id == mark).map(|(_, last)| last + 1);
        let partition = (notes.app_id.clone(), notes.topic.clone(), span.partition);
        let partial = table.partitions.entry(partition).or_default();
        txn.clone_into(&mut partial.txn);
        partial.letters += span.bad;
        (partial.newest, partial.past) = (span.bad, last.unwrap_or(span.to));
    }
}

/// Reads the tables of dead letters that the commits name, and writes down what does not agree.
///
/// # Errors
/// Never for a table that can't be read: that is a finding.
pub fn compare(chains: &mut Chains, session: &Session) -> Result<Vec<Letters>, Failure> {
    let mut compared = Vec::new();
    let made = std::mem::take(&mut chains.made);
    for table in made.tables.values() {
        let letters: u64 = table.partitions.values().map(|partial| partial.letters).sum();
        let there = match follow(&table.location, session) {
            Ok(there) => there,
            Err(failure) => {
                let kind = if letters > 0 { Kind::Fault } else { Kind::Note };
                let text = format!("{} of it can't be proved: {}", counted_letters(letters), failure.text);
                chains.find(chains.version, None, kind, text, 0, 0);
                compared.push(Letters { table: table.location.clone(), version: None, letters, owed: 0 });
                continue;
            }
        };
        let (letters, owed) = table.compare(chains, &there, made.restored).unwrap_or((letters, 0));
        compared.push(Letters { table: table.location.clone(), version: Some(there.version), letters, owed });
    }
    Ok(compared)
}

impl Table {
    /// How many letters are there, and how many are not there yet; `None` where nothing can be counted.
    fn compare(&self, chains: &mut Chains, there: &Chains, restored: bool) -> Option<(u64, u64)> {
        let version = chains.version;
        for finding in &there.findings {
            let text = format!("dead letters {}: version {}: {}", self.location, finding.version, finding.text);
            chains.find(version, finding.txn.as_deref(), finding.kind, text, finding.lost, finding.twice);
        }
        let partial = chains.first > 0 || there.first > 0 || restored || there.made.restored;
        if partial {
            let text = format!(
                "dead letters {}: not counted against the rows' commits, since one of the logs was cleaned up or a table \
                 restored",
                self.location
            );
            chains.find(version, None, Kind::Note, text, 0, 0);
            return None;
        }
        let (mut letters, mut owed) = (0, 0);
        for ((app_id, topic, number), made) in &self.partitions {
            let is_theirs = |chain: &&super::chain::Chain| {
                chain.app_id.as_ref() == Some(app_id) && chain.topic == *topic && chain.partition == *number
            };
            let (rows, to) = there.chains.values().find(is_theirs).map_or((0, 0), |chain| (chain.rows, chain.to));
            letters += rows;
            let open = if to < made.past { made.newest } else { 0 };
            let due = made.letters - open;
            owed += open.saturating_sub(rows.saturating_sub(due));
            // Of a span that is owed some may be there.
            if (due..=due + open).contains(&rows) {
                continue;
            }
            let is_accepted = !there.accepted.is_empty() && rows < due;
            let kind = if is_accepted { Kind::Accepted } else { Kind::Fault };
            let why = there.accepted.iter().map(|why| format!("; {why}")).collect::<String>();
            let (has, all) = (grouped(rows), grouped(made.letters));
            let text = format!("dead letters {}: {has} rows of {all} bad records{why}", self.location);
            let (lost, twice) = (due.saturating_sub(rows), rows.saturating_sub(due + open));
            chains.find(version, Some(&made.txn), kind, text, lost, twice);
        }
        if owed > 0 {
            let text = format!(
                "{} of {} are owed: they are written before their partitions go on, by whoever has these next",
                counted_letters(owed),
                self.location
            );
            chains.find(version, None, Kind::Note, text, 0, 0);
        }
        Some((letters, owed))
    }
}

fn counted_letters(letters: u64) -> String {
    counted(usize::try_from(letters).unwrap_or(usize::MAX), "dead letter")
}

/// A line for each table.
#[must_use]
pub fn text(letters: &[Letters]) -> String {
    let line = |each: &Letters| {
        let there = grouped(each.letters);
        let owed = if each.owed > 0 { format!(", {} owed", grouped(each.owed)) } else { String::new() };
        match each.version {
            Some(version) => format!("dead letters: {there} in {} at version {version}{owed}\n", each.table),
            None => format!("dead letters: {} in {}, which can't be read\n", grouped(each.letters), each.table),
        }
    };
    letters.iter().map(line).collect()
}
