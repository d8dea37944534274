//! A pipeline's sources by name: where their offsets stand, whoever moves, renames or replaces one.

use std::collections::BTreeSet;

use lakeward_delta::view::{Commit, Counts, Mode, View, new_table};
use lakeward_delta::{
    Created, DeltaError, History, NamedTopic, SourceNote, Table, TableOptions, TableSchema, Tally, Topic, Version,
    ViewNote, create,
};
use lakeward_protocol::contract::output;
use lakeward_protocol::core::Ending;
use lakeward_protocol::drive::drive;
use lakeward_protocol::memory::{Clock, MemoryWorld};
use lakeward_protocol::ports::{Breach, Fault, Head, OutputLog};
use lakeward_protocol::position::{CommitId, Frontier, PartitionId, SourceId};
use serde_json::json;

use super::contract::ViewOnDisk;
use super::support::{Row, SCHEMA, change, moves, row, view_options};
use crate::contract::OnDisk;
use crate::races::{Deaf, limits, to_the_end, topic};
use crate::support::{Disk, PlaceStage, offset, options, runtime};

/// The table as a pipeline of these sources opens it: name, topic, the topic's id.
pub fn pipeline(disk: &Disk, sources: &[(&str, &str, u8)]) -> Table {
    let table = Table::open(&disk.location(), TableOptions { topic: None, ..options("app") }).unwrap();
    let named = |&(source, name, id): &(&str, &str, u8)| NamedTopic {
        source: source.to_owned(),
        topic: Topic { name: name.to_owned(), id: Some([id; 16]) },
    };
    table.of_pipeline(sources.iter().map(named).collect())
}

const BID: (&str, &str, u8) = ("bid", "bids", 1);
const AUCTION: (&str, &str, u8) = ("auction", "auctions", 2);

fn of(source: u8, number: u32) -> PartitionId {
    PartitionId::of(SourceId(source), number)
}

fn load(table: &mut Table, partitions: &[PartitionId]) -> Result<Head, DeltaError> {
    table.load(&partitions.iter().copied().collect::<BTreeSet<_>>())
}

/// The first of these sources is read to its end, which is at `length`.
fn run(disk: &Disk, sources: &[(&str, &str, u8)], length: i64, name: u64) {
    let (topic, world) = (topic(1, length), MemoryWorld::new(Clock::default(), name));
    let table = pipeline(disk, sources);
    let ending = drive(to_the_end(&topic, 1), topic.join(), PlaceStage::new(10), table, world, Deaf, limits());
    assert_eq!(ending.unwrap(), Ending::Reached);
}

/// A table whose partition 0 of `bid` stands at 10, and of `auction` at 4.
fn written() -> Disk {
    let disk = Disk::with(&[]);
    run(&disk, &[BID, AUCTION], 10, 1);
    run(&disk, &[AUCTION, BID], 4, 2);
    disk
}

#[test]
fn a_source_that_moves_in_the_file_keeps_its_offsets() {
    let disk = written();
    let head = load(&mut pipeline(&disk, &[AUCTION, BID]), &[of(0, 0), of(1, 0), of(1, 1)]).unwrap();
    assert_eq!(head.frontier, Frontier::from([(of(0, 0), offset(4)), (of(1, 0), offset(10))]));
    assert_eq!(head.breach, None);
    let spans: Vec<_> = versions(&disk).into_iter().filter_map(|version| version.notes?.spans.pop()).collect();
    let last = |source: &str| spans.iter().rfind(|span| span.source.as_deref() == Some(source)).map(|span| span.to);
    assert_eq!((last("bid"), last("auction")), (Some(10), Some(4)));
}

#[test]
fn offsets_of_a_source_that_the_pipeline_has_not_are_refused() {
    #[rustfmt::skip] // columns: sources, what is named
    let cases: [(&[(&str, &str, u8)], &str); 3] = [
        (&[("bids", "bids", 1), AUCTION], "app-bid-0"),
        (&[AUCTION],                      "app-bid-0"),
        (&[BID, ("a-uction", "a", 2)],    "app-auction-0"),
    ];
    for (sources, named) in cases {
        let disk = written();
        let error = load(&mut pipeline(&disk, sources), &[of(0, 0)]).unwrap_err();
        assert!(matches!(error, DeltaError::Stranger { .. }), "{error}");
        assert!(error.to_string().contains(named) && error.to_string().contains("old name"), "{error}");
    }
}

#[test]
fn who_else_stores_offsets_here() {
    let disk = written();
    let commit = |disk: &Disk, app: &str, txn: &str| {
        let notes = json!({"commitId": "1", "appId": app});
        disk.foreign(&[
            json!({"txn": {"appId": txn, "version": 3}}),
            json!({"commitInfo": {"timestamp": 1, "operation": "STREAMING UPDATE", "lakeward": notes}}),
        ]);
    };
    commit(&disk, "app-x", "app-x-0");
    let mut table = pipeline(&disk, &[BID, AUCTION]);
    assert!(load(&mut table, &[of(0, 0)]).is_ok(), "another application, whose id begins as ours");
    commit(&disk, "app", "app-0");
    assert!(load(&mut table, &[of(0, 0)]).is_err(), "an offset of ours without a source, by who runs beside us");
    let disk = written();
    commit(&disk, "app-bid", "app-bid-1");
    let error = load(&mut pipeline(&disk, &[BID, AUCTION]), &[of(0, 0)]).unwrap_err();
    assert!(error.to_string().contains("stored by app id app-bid"), "{error}");
}

#[test]
fn gaps_that_a_cleaned_log_would_tell_are_unknown() {
    let disk = written();
    let mut table = pipeline(&disk, &[BID, AUCTION]);
    let all = load(&mut table, &[of(0, 0), of(1, 0)]).unwrap().frontier;
    let above = |bid, auction| Frontier::from([(of(0, 0), offset(bid)), (of(1, 0), offset(auction))]);
    assert_eq!((all[&of(0, 0)], all[&of(1, 0)]), (offset(10), offset(4)));
    assert_eq!(table.gaps(&above(0, 0)).unwrap(), Some(vec![]), "the log tells all");
    std::fs::remove_file(disk.log_folder().join(format!("{:020}.json", 1))).unwrap();
    assert_eq!(table.gaps(&above(0, 0)).unwrap(), None, "who knows what its first version said");
    assert_eq!(table.gaps(&above(10, 0)).unwrap(), Some(vec![]), "what is asked for is there");
    assert_eq!(table.gaps(&above(10, 4)).unwrap(), Some(vec![]), "nothing is asked for");
}

#[test] // P9
fn a_source_with_another_topic_is_a_breach() {
    #[rustfmt::skip] // columns: sources, partitions whose topic is another
    let cases: [(&[(&str, &str, u8)], &[PartitionId]); 4] = [
        (&[BID, AUCTION],                                   &[]),
        (&[BID, ("auction", "auctions", 9)],                &[of(1, 0)]),
        (&[("bid", "elsewhere", 1), AUCTION],               &[of(0, 0)]),
        (&[("bid", "auctions", 2), ("auction", "bids", 1)], &[of(0, 0)]),
    ];
    for (sources, expected) in cases {
        let disk = written();
        let breach = load(&mut pipeline(&disk, sources), &[of(0, 0), of(1, 0)]).unwrap().breach;
        let partitions = match breach {
            Some(Breach::OtherTopic { partitions, .. }) => partitions.into_iter().collect(),
            None => Vec::new(),
            other => panic!("{other:?}"),
        };
        assert_eq!(partitions, expected, "{sources:?}");
    }
}

fn versions(disk: &Disk) -> Vec<Version> {
    let history = History::open(&disk.location(), runtime()).unwrap();
    history.read().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_views_notes_count_rows_apart_from_records() {
    let below = OnDisk { disk: Disk::empty(), properties: &[("delta.enableDeletionVectors", "true")] };
    let counts = Counts::default();
    let mut views = ViewOnDisk { below, mode: Mode::Upsert, named: true, counts: counts.clone() };
    output::data_and_frontier_land_together(&mut views);
    let notes = versions(&views.below.disk)[1].notes.clone().unwrap();
    assert_eq!(notes.view, Some(ViewNote { mode: "upsert".to_owned(), came: 3, gone: 0 }));
    let source = SourceNote { name: "bid".into(), topic: "web".into(), topic_id: Some("01".repeat(16)) };
    assert_eq!((notes.topic, notes.sources), (None, vec![source]));

    let tally = Tally { records: 4, rows: 2, bad: 1, tombstones: 1, ..Tally::default() };
    counts.lock().unwrap().insert(of(0, 1), tally);
    output::a_frontier_moves_alone(&mut views);
    let notes = versions(&views.below.disk)[1].notes.clone().unwrap();
    assert_eq!(notes.view, Some(ViewNote { mode: "upsert".to_owned(), came: 0, gone: 0 }));
    let told: Vec<_> = notes.spans.iter().map(|span| (span.records, span.rows, span.bad, span.tombstones)).collect();
    assert_eq!(told, [(0, 0, 0, 0), (4, 2, 1, 1)], "no row, and records all the same");
}

#[test]
fn rows_that_go_are_counted_and_marked() {
    let disk = Disk::empty();
    let schema = TableSchema::parse("view", SCHEMA).unwrap();
    let made = create(&disk.location(), &new_table(Mode::Upsert, &schema, Vec::new()).unwrap(), &runtime()).unwrap();
    assert_eq!(made, Created::New);
    let mut view = View::open(disk.open("app"), view_options(Mode::Upsert, &["id"], None)).unwrap();
    let mut step = |deletes: &[Row], inserts: &[Row], at: i64| {
        let staged = view.stage(&change(deletes, inserts)).unwrap();
        let outcome = view.commit(CommitId(at.unsigned_abs().into()), &moves("app", at, at + 1), Some(&staged));
        assert!(matches!(outcome.unwrap(), Commit::Done(_)));
    };
    step(&[], &[row(1, "a"), row(2, "b"), row(3, "c")], 0);
    step(&[row(1, "a"), row(2, "b")], &[row(1, "z")], 1);
    let versions = versions(&disk);
    let view = versions[2].notes.clone().unwrap().view;
    assert_eq!(view, Some(ViewNote { mode: "upsert".to_owned(), came: 1, gone: 2 }));
    let dead: u64 = versions[2].adds.iter().map(|add| add.dead_rows).sum();
    assert_eq!(dead, 2, "two of the first file's three rows");
}

#[test]
fn a_refusal_is_no_outage() {
    let error = DeltaError::Stranger { table: "t".to_owned(), reason: "r".to_owned() };
    assert!(matches!(error.verdict(), lakeward_protocol::ports::Verdict::Stop(_)));
}
