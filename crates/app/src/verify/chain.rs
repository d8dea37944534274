//! Follows each partition's chain through a table's log. Decides; reads and prints nothing.
//!
//! - P1, P2: each commit's span starts where the last one of its chain ended, and the `txn` beside it
//!   says where it ends.
//! - Each span's records are all accounted for: rows in the commit's files, bad records, tombstones.
//!   A view's rows are none of its records': [`Rows`] holds them to what the commits say came and went.
//! - P9: a break that the user accepted is written in the commit; any other is a fault.

use std::collections::BTreeMap;

use lakeward_delta::{Notes, Span, Version, is_mark};
use serde::Serialize;

use super::letters::Made;
use super::rows::Rows;

/// One partition's way into the table, by the `txn`'s app id.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Chain {
    /// The app id that our commits name.
    #[serde(skip)]
    pub app_id: Option<String>,
    /// The topic that our commits name.
    pub topic: Option<String>,
    /// The topic's id as of the last commit.
    pub topic_id: Option<String>,
    /// The pipeline's source, where the commits name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The partition's number.
    pub partition: u32,
    /// First offset covered, as far as the log goes back.
    pub from: i64,
    /// The offset after the last one covered.
    pub to: i64,
    /// Commits that moved it.
    pub commits: u64,
    /// Records taken in.
    pub records: u64,
    /// Rows that the records became.
    pub rows: u64,
    /// Records left out as bad.
    pub bad: u64,
    /// Records without a value.
    pub tombstones: u64,
    /// Offsets covered that had no record: control records, compaction.
    pub holes: u64,
    /// Versions and where the chain stood after each, for restores.
    #[serde(skip)]
    pub ends: Vec<(u64, i64)>,
    /// What was read of the topic, to compare it with what it holds.
    #[serde(skip)]
    pub spans: Vec<Span>,
}

/// Something to say about a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The version at which it shows.
    pub version: u64,
    /// The chain it is about; `None` for the table as a whole.
    pub txn: Option<String>,
    /// Whether it breaks a promise.
    pub kind: Kind,
    /// What and where.
    pub text: String,
    /// Offsets that are in no row and no tally by it.
    pub lost: u64,
    /// Offsets that are in the table more than once by it.
    pub twice: u64,
}

/// What kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A promise is broken.
    Fault,
    /// A break that the user accepted beforehand.
    Accepted,
    /// Worth knowing.
    Note,
}

/// All chains of a table.
#[derive(Debug, Default)]
pub struct Chains {
    /// By the `txn`'s app id.
    pub chains: BTreeMap<String, Chain>,
    /// In the order of versions.
    pub findings: Vec<Finding>,
    /// The oldest version of the log.
    pub first: u64,
    /// The newest version followed.
    pub version: u64,
    /// The rows of a view's table.
    pub rows: Rows,
    /// Why breaks were let pass, as the commits have it.
    pub accepted: Vec<String>,
    /// What the commits say of the tables that their dead letters are in.
    pub made: Made,
}

impl Chains {
    /// Takes in the next version of the log.
    pub fn follow(&mut self, version: &Version) {
        self.version = version.version;
        if version.operation == "RESTORE" {
            self.restored(version);
            self.made.restored = true;
        }
        if version.notes.is_none()
            && version.operation != "RESTORE"
            && version.removes.iter().any(|file| file.data_change)
        {
            let text = format!(
                "{} took rows out or changed them; the counts here are of what was carried in",
                version.operation
            );
            self.find(version.version, None, Kind::Note, text, 0, 0);
        }
        for (txn, last) in version.txns.iter().filter(|(txn, _)| !is_mark(txn)) {
            self.moved(version, txn, last + 1);
        }
        let gaps = version.notes.iter().flat_map(|notes| &notes.gaps);
        self.accepted.extend(gaps.map(|gap| gap.reason.clone()));
        for text in self.rows.follow(version) {
            self.find(version.version, None, Kind::Fault, text, 0, 0);
        }
        match &version.notes {
            Some(notes) if notes.view.is_none() => self.check_files(version, notes),
            _ => {}
        }
    }

    /// One partition's frontier moves to `to`.
    fn moved(&mut self, version: &Version, txn: &str, to: i64) {
        let Some(partition) = txn.rsplit_once('-').and_then(|(_, number)| number.parse::<u32>().ok()) else { return };
        let notes = version.notes.as_ref().filter(|notes| is_of(txn, notes, partition));
        let source = notes.and_then(|notes| source_of(txn, notes, partition)).map(str::to_owned);
        if notes.is_none() && version.notes.as_ref().is_some_and(|notes| !notes.sources.is_empty()) {
            self.fault(version.version, txn, "a txn for which the commit names no source".to_owned(), 0, 0);
        }
        let stood = self.chains.get(txn).map(|chain| chain.to);
        let span = match notes {
            Some(notes) => match notes.spans.iter().find(|span| span.partition == partition && span.source == source) {
                Some(span) => span.clone(),
                None => return self.fault(version.version, txn, "a txn of ours without its span".to_owned(), 0, 0),
            },
            None => self.foreign(version, txn, partition, stood, to),
        };
        if span.to != to {
            self.fault(version.version, txn, format!("the span ends at {}, the txn at {to}", span.to), 0, 0);
        }
        self.check_start(version, txn, stood, span.from);
        if notes.is_some() {
            self.check_counts(version.version, txn, &span);
        }
        let chain = self.chains.entry(txn.to_owned()).or_default();
        if stood.is_none() {
            (chain.partition, chain.from) = (partition, span.from);
        }
        if let Some(notes) = notes {
            let named = notes.sources.iter().find(|note| Some(&note.name) == source.as_ref());
            chain.topic = named.map(|note| note.topic.clone()).or_else(|| notes.topic.clone());
            chain.topic_id = named.map_or_else(|| notes.topic_id.clone(), |note| note.topic_id.clone());
            chain.app_id = Some(notes.app_id.clone());
            chain.source = source;
            chain.holes += u64::try_from(span.to - span.from).unwrap_or(0).saturating_sub(span.records);
            if span.to > span.from {
                chain.spans.push(span.clone());
            }
            self.made.follow(version, notes, txn, &span);
        }
        chain.to = to;
        chain.commits += 1;
        chain.records += span.records;
        chain.rows += span.rows;
        chain.bad += span.bad;
        chain.tombstones += span.tombstones;
        chain.ends.push((version.version, to));
    }

    /// A `txn` by a writer who does not say where its data starts, such as kafka-delta-ingest.
    fn foreign(&mut self, version: &Version, txn: &str, partition: u32, stood: Option<i64>, to: i64) -> Span {
        let from = stood.filter(|stood| *stood <= to);
        if stood.is_some() && from.is_none() {
            let text = format!("somebody else set the txn back, from {} to {}", stood.unwrap_or(0) - 1, to - 1);
            self.find(version.version, Some(txn), Kind::Note, text, 0, 0);
        }
        let rows = version.adds.iter().filter_map(|add| add.num_records).sum();
        let alone = version.txns.len() == 1;
        let rows = if alone { rows } else { 0 };
        Span { partition, from: from.unwrap_or(to), to, records: rows, rows, ..Span::default() }
    }

    /// Where a span starts must be where the chain stands, or the user accepted the break.
    fn check_start(&mut self, version: &Version, txn: &str, stood: Option<i64>, from: i64) {
        let Some(stood) = stood.filter(|stood| *stood != from && version.notes.is_some()) else { return };
        let gaps = version.notes.iter().flat_map(|notes| &notes.gaps);
        let is_this = |source: &Option<String>, partition: u32| match source {
            Some(source) => txn.ends_with(&format!("-{source}-{partition}")),
            None => txn.ends_with(&format!("-{partition}")),
        };
        let accepted = gaps.clone().find(|gap| gap.to == from && is_this(&gap.source, gap.partition));
        let (lost, twice) = ((from - stood).max(0).unsigned_abs(), (stood - from).max(0).unsigned_abs());
        match accepted {
            Some(gap) => {
                let text = format!("went on at offset {from} instead of {stood}: {}", gap.reason);
                self.find(version.version, Some(txn), Kind::Accepted, text, lost, twice);
            }
            None if lost > 0 => {
                let text = format!("gap: offsets {stood} to {} are in no commit", from - 1);
                self.fault(version.version, txn, text, lost, 0);
            }
            None => {
                let (last, files) = (stood - 1, Files(version, txn, from, stood));
                let text =
                    format!("overlap: offsets {from} to {last} are in an earlier commit as well; here in {files}");
                self.fault(version.version, txn, text, 0, twice);
            }
        }
    }

    fn check_counts(&mut self, version: u64, txn: &str, span: &Span) {
        let width = u64::try_from(span.to - span.from).unwrap_or(0);
        if span.records > width {
            self.fault(
                version,
                txn,
                format!("{} records in the {width} offsets {} to {}", span.records, span.from, span.to - 1),
                0,
                span.records - width,
            );
        }
        let told = span.rows.saturating_add_signed(-span.extra_rows) + span.bad + span.tombstones;
        if told != span.records {
            let lost = span.records.saturating_sub(told);
            self.fault(
                version,
                txn,
                format!("of {} records {told} are accounted for", span.records),
                lost,
                told.saturating_sub(span.records),
            );
        }
    }

    /// The files must hold the rows that the spans say.
    fn check_files(&mut self, version: &Version, notes: &Notes) {
        let said: u64 = notes.spans.iter().map(|span| span.rows).sum();
        // Rows that were only moved are no span's.
        let new = version.adds.iter().filter(|add| add.data_change);
        let held: u64 = new.filter_map(|add| add.num_records).sum();
        if said != held {
            let text = format!("{held} rows in the files of this version, {said} in its spans");
            self.find(version.version, None, Kind::Fault, text, said.saturating_sub(held), held.saturating_sub(said));
        }
        for span in &notes.spans {
            let tagged: u64 = version
                .adds
                .iter()
                .flat_map(|add| add.spans.iter().flatten())
                .filter(|part| part.partition.0 == span.partition)
                .map(|part| part.rows)
                .sum();
            if tagged != span.rows {
                let text = format!(
                    "partition {}: its files are tagged with {tagged} rows, its span with {}",
                    span.partition, span.rows
                );
                self.find(version.version, None, Kind::Fault, text, 0, 0);
            }
            for add in &version.adds {
                for part in add.spans.iter().flatten().filter(|part| part.partition.0 == span.partition) {
                    if part.from.get() < span.from || part.to.get() > span.to {
                        let text = format!(
                            "file {} is tagged with offsets {} to {} of partition {}, outside of the commit's span",
                            add.path, part.from, part.to, span.partition
                        );
                        self.find(version.version, None, Kind::Fault, text, 0, 0);
                    }
                }
            }
        }
    }

    /// The data went back; so do the chains, and what follows must start from there.
    fn restored(&mut self, version: &Version) {
        let to = &version.parameters["version"];
        let to = to.as_u64().or_else(|| to.as_str()?.parse().ok());
        let Some(to) = to else {
            let text = "RESTORE to a time: which version that was is not in the log, so gaps after it do not show here"
                .to_owned();
            return self.find(version.version, None, Kind::Note, text, 0, 0);
        };
        self.find(version.version, None, Kind::Note, format!("RESTORE to version {to}"), 0, 0);
        for chain in self.chains.values_mut() {
            let end = chain.ends.iter().rev().find(|(at, _)| *at <= to).map_or(chain.from, |(_, end)| *end);
            chain.spans.retain(|span| span.to <= end);
            chain.to = end;
            chain.ends.push((version.version, end));
        }
    }

    fn fault(&mut self, version: u64, txn: &str, text: String, lost: u64, twice: u64) {
        self.find(version, Some(txn), Kind::Fault, text, lost, twice);
    }

    /// Writes a finding down.
    pub fn find(&mut self, version: u64, txn: Option<&str>, kind: Kind, text: String, lost: u64, twice: u64) {
        self.findings.push(Finding { version, txn: txn.map(str::to_owned), kind, text, lost, twice });
    }

    /// Does every promise hold?
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.kind != Kind::Fault)
    }
}

/// Files named in a finding; the rest are counted.
const FILES_SHOWN: usize = 3;

/// The files of a version that hold rows of a `txn`'s partition between two offsets.
struct Files<'a>(&'a Version, &'a str, i64, i64);

impl std::fmt::Display for Files<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(version, txn, from, to) = self;
        let is_theirs = |part: &lakeward_delta::FileSpan| {
            txn.ends_with(&format!("-{}", part.partition)) && part.from.get() < *to && part.to.get() > *from
        };
        let holds = |add: &&lakeward_delta::Added| add.spans.iter().flatten().any(is_theirs);
        let files: Vec<&str> = version.adds.iter().filter(holds).map(|add| add.path.as_str()).collect();
        let shown = files.iter().take(FILES_SHOWN).copied().collect::<Vec<_>>().join(", ");
        match files.len().saturating_sub(FILES_SHOWN) {
            0 if files.is_empty() => f.write_str("no file"),
            0 => f.write_str(&shown),
            more => write!(f, "{shown} and {more} more"),
        }
    }
}

/// The source in `app-source-0`, among those of the notes.
fn source_of<'a>(txn: &'a str, notes: &Notes, partition: u32) -> Option<&'a str> {
    let rest = txn.strip_prefix(notes.app_id.as_str())?.strip_prefix('-')?;
    let source = rest.strip_suffix(&format!("-{partition}"))?;
    notes.sources.iter().any(|note| note.name == source).then_some(source)
}

/// `app-0`, or `app-topic-0` where two topics share an app id, or `app-source-0` of a pipeline.
fn is_of(txn: &str, notes: &Notes, partition: u32) -> bool {
    if !notes.sources.is_empty() {
        return source_of(txn, notes, partition).is_some();
    }
    let plain = format!("{}-{partition}", notes.app_id);
    let qualified = notes.topic.as_ref().map(|topic| format!("{}-{topic}-{partition}", notes.app_id));
    txn == plain || Some(txn) == qualified.as_deref()
}

#[cfg(test)]
mod tests {
    use lakeward_delta::{Added, FileSpan, GapNote, SourceNote, ViewNote};
    use lakeward_protocol::position::{Offset, PartitionId};
    use serde_json::json;

    use super::*;

    /// A commit of ours: partition 0 from `from` to `to`, all of it rows in one file.
    fn ours(version: u64, from: i64, to: i64) -> Version {
        let rows = (to - from).unsigned_abs();
        let span = Span { from, to, records: rows, rows, ..Span::default() };
        let at = |offset| Offset::new(offset).unwrap();
        let part = FileSpan { partition: PartitionId(0), from: at(from), to: at(to), rows };
        let file = Added {
            path: format!("{version}.parquet"),
            size_bytes: 1,
            num_records: Some(rows),
            data_change: true,
            has_deletion_vector: false,
            dead_rows: 0,
            spans: Some(vec![part]),
        };
        let notes = Notes {
            commit_id: format!("{version:032x}"),
            app_id: "app".to_owned(),
            topic: Some("topic".to_owned()),
            spans: vec![span],
            ..Notes::default()
        };
        Version {
            version,
            operation: "STREAMING UPDATE".to_owned(),
            timestamp_ms: None,
            parameters: serde_json::Value::Null,
            notes: Some(notes),
            txns: vec![("app-0".to_owned(), to - 1)],
            adds: vec![file],
            removes: Vec::new(),
        }
    }

    fn accepting(mut version: Version, from: i64, to: i64) -> Version {
        let gap = GapNote { source: None, partition: 0, from, to, reason: "told to".to_owned() };
        version.notes.as_mut().unwrap().gaps.push(gap);
        version
    }

    fn restore(version: u64, to: u64) -> Version {
        let mut restore = ours(version, 0, 0);
        (restore.notes, restore.adds, restore.txns) = (None, Vec::new(), Vec::new());
        (restore.operation, restore.parameters) = ("RESTORE".to_owned(), json!({"version": to.to_string()}));
        restore
    }

    fn with(mut version: Version, change: impl FnOnce(&mut Version)) -> Version {
        change(&mut version);
        version
    }

    #[test]
    fn what_breaks_a_chain_is_named_and_counted() {
        #[rustfmt::skip] // columns: name, log, sound, lost, twice, a word of a finding
        let cases: Vec<(&str, Vec<Version>, bool, u64, u64, &str)> = vec![
            ("a chain", vec![ours(1, 0, 5), ours(2, 5, 9)], true, 0, 0, ""),
            ("a gap", vec![ours(1, 0, 5), ours(2, 7, 9)], false, 2, 0, "offsets 5 to 6 are in no commit"),
            ("an overlap", vec![ours(1, 0, 5), ours(2, 3, 9)], false, 0, 2, "offsets 3 to 4 are in an earlier commit as well; here in 2.parquet"),
            ("the same twice", vec![ours(1, 0, 5), ours(2, 0, 5)], false, 0, 5, "overlap"),
            ("an accepted gap", vec![ours(1, 0, 5), accepting(ours(2, 7, 9), 5, 7)], true, 2, 0, "told to"),
            ("restored, read again", vec![ours(1, 0, 5), ours(2, 5, 9), restore(3, 1), ours(4, 5, 9)], true, 0, 0, "RESTORE"),
            ("restored, not read again", vec![ours(1, 0, 5), ours(2, 5, 9), restore(3, 1), ours(4, 9, 10)], false, 4, 0, "gap"),
            ("rows missing in files", vec![with(ours(1, 0, 5), |v| v.adds[0].num_records = Some(4))], false, 1, 0, "4 rows in the files"),
            ("records not told of", vec![with(ours(1, 0, 5), |v| v.notes.as_mut().unwrap().spans[0].records = 4)], false, 0, 1, "accounted"),
            ("txn beside the span", vec![with(ours(1, 0, 5), |v| v.txns[0].1 = 7)], false, 0, 0, "the txn at 8"),
            ("a file outside", vec![with(ours(1, 5, 9), |v| v.adds[0].spans.as_mut().unwrap()[0].from = Offset::ZERO)], false, 0, 0, "outside"),
        ];
        for (name, log, sound, lost, twice, word) in cases {
            let mut chains = Chains::default();
            log.iter().for_each(|version| chains.follow(version));
            let found = &chains.findings;
            assert_eq!(chains.is_sound(), sound, "{name}: {found:?}");
            assert_eq!(found.iter().map(|f| f.lost).sum::<u64>(), lost, "{name}: {found:?}");
            assert_eq!(found.iter().map(|f| f.twice).sum::<u64>(), twice, "{name}: {found:?}");
            assert!(
                word.is_empty() && found.is_empty() || found.iter().any(|f| f.text.contains(word)),
                "{name}: {found:?}"
            );
        }
    }

    #[test]
    fn a_chain_sums_up_what_its_commits_tell() {
        let mut chains = Chains::default();
        let holes = with(ours(2, 5, 9), |version| {
            let span = &mut version.notes.as_mut().unwrap().spans[0];
            (span.records, span.rows, span.bad, span.tombstones) = (3, 1, 1, 1);
            version.adds[0].num_records = Some(1);
            version.adds[0].spans.as_mut().unwrap()[0].rows = 1;
        });
        [ours(1, 0, 5), holes].iter().for_each(|version| chains.follow(version));
        let chain = &chains.chains["app-0"];
        assert!(chains.is_sound(), "{:?}", chains.findings);
        assert_eq!((chain.from, chain.to, chain.commits), (0, 9, 2));
        assert_eq!((chain.records, chain.rows, chain.bad, chain.tombstones, chain.holes), (8, 6, 1, 1, 1));
    }

    /// A commit of a view: `bid` and `auction`, partition 0 each, and rows that have nothing to do with them.
    fn of_view(version: u64, bid: (i64, i64), auction: (i64, i64)) -> Version {
        with(ours(version, bid.0, bid.1), |version| {
            let notes = version.notes.as_mut().unwrap();
            let source = |name: &str| SourceNote { name: name.to_owned(), topic: format!("{name}s"), topic_id: None };
            notes.sources = vec![source("bid"), source("auction")];
            notes.topic = None;
            notes.view = Some(ViewNote { mode: "upsert".to_owned(), came: 2, gone: 0 });
            let span = |name: &str, (from, to): (i64, i64)| {
                let records = (to - from).unsigned_abs();
                Span { source: Some(name.to_owned()), from, to, records, rows: records, ..Span::default() }
            };
            notes.spans = vec![span("bid", bid), span("auction", auction)];
            version.txns = vec![("app-bid-0".to_owned(), bid.1 - 1), ("app-auction-0".to_owned(), auction.1 - 1)];
            (version.adds[0].num_records, version.adds[0].spans) = (Some(2), None);
        })
    }

    #[test]
    fn a_views_chains_go_by_source() {
        type Change = fn(&mut Version);
        #[rustfmt::skip] // columns: name, what is done to the second commit, sound, a word of a finding
        let cases: [(&str, Change, bool, &str); 7] = [
            ("two chains",        |_| {},                                                                 true,  ""),
            ("a span dropped",    |v| { v.notes.as_mut().unwrap().spans.pop(); },                         false, "without its span"),
            ("sources swapped",   |v| v.notes.as_mut().unwrap().spans.iter_mut().for_each(|span| {
                let is_bid = span.source.as_deref() == Some("bid");
                span.source = Some(if is_bid { "auction" } else { "bid" }.to_owned());
            }),                                                                                           false, "the txn at"),
            ("a source unnamed",  |v| v.notes.as_mut().unwrap().sources.truncate(1),                      false, "names no source"),
            ("a gap",             |v| v.notes.as_mut().unwrap().spans[1].from = 3,                        false, "gap: offsets 2 to 2"),
            ("records not told",  |v| v.notes.as_mut().unwrap().spans[0].bad = 1,                         false, "accounted"),
            ("rows not told",     |v| v.adds[0].num_records = Some(3),                                    false, "live rows"),
        ];
        for (name, change, sound, word) in cases {
            let mut chains = Chains::default();
            let second = with(of_view(2, (5, 9), (2, 4)), change);
            [of_view(1, (0, 5), (0, 2)), second].iter().for_each(|version| chains.follow(version));
            assert_eq!(chains.is_sound(), sound, "{name}: {:?}", chains.findings);
            assert!(
                word.is_empty() || chains.findings.iter().any(|f| f.text.contains(word)),
                "{name}: {:?}",
                chains.findings
            );
        }
        let mut chains = Chains::default();
        [of_view(1, (0, 5), (0, 2)), of_view(2, (5, 9), (2, 4))].iter().for_each(|version| chains.follow(version));
        let (bid, auction) = (&chains.chains["app-bid-0"], &chains.chains["app-auction-0"]);
        assert_eq!(
            (bid.source.as_deref(), bid.topic.as_deref(), bid.to, bid.records),
            (Some("bid"), Some("bids"), 9, 9)
        );
        assert_eq!((auction.topic.as_deref(), auction.to, auction.records), (Some("auctions"), 4, 4));
    }
}
