//! What every [`OutputLog`] promises, tried. The permits are made here, as the core makes them.

use std::collections::{BTreeMap, BTreeSet};

use crate::ports::{Advance, Breach, Gap, Head, OutputLog, Permit, Put};
use crate::position::{CommitId, Offset, PartitionId, SinkId, Stretch, TableVersion};

/// How the suite acts on a table from outside. Everything is about the newest table that
/// [`fresh`](Self::fresh) made.
pub trait OutputHarness {
    /// The implementation under trial.
    type Log: OutputLog;

    /// Makes a new, empty table.
    fn fresh(&mut self);

    /// One more writer of the same application, and topic, on the table.
    fn open(&mut self) -> Self::Log;

    /// A writer of the same application whose topic was deleted and made again. `None` where
    /// there is no such thing.
    fn open_for_recreated_topic(&mut self) -> Option<Self::Log>;

    /// Data for the layout that `log` loaded last: one row for each offset of `[from, to)`.
    fn batch(
        &mut self,
        log: &mut Self::Log,
        partition: PartitionId,
        from: Offset,
        to: Offset,
    ) -> <Self::Log as OutputLog>::Batch;

    /// Another application puts one version that concerns nobody.
    fn foreign_append(&mut self);

    /// Somebody puts a version that changes what files must fit (adds a column, say).
    fn foreign_reshape(&mut self);

    /// Somebody puts a version that sets the stored frontier of a partition, backwards perhaps.
    fn foreign_frontier(&mut self, partition: PartitionId, to: Offset);

    /// Somebody brings the table's data back to an older version, leaving our frontiers. False
    /// where it can't.
    fn foreign_restore(&mut self, to: TableVersion) -> bool;

    /// Somebody drops the table and makes another in its place. False where it can't.
    fn foreign_recreate(&mut self) -> bool;

    /// Whether the log can tell the gaps that it was given.
    fn tells_gaps(&self) -> bool {
        true
    }

    /// A writer of the same application that sets bad records aside, into the table of dead letters of this name.
    /// `None` where there is no such thing.
    fn open_with_letters(&mut self, letters: &str) -> Option<Self::Log> {
        let _ = letters;
        None
    }

    /// The rows that an independent reader sees, sorted.
    fn rows(&mut self) -> Vec<(PartitionId, Offset)>;
}

/// Runs every case.
pub fn output_log<H: OutputHarness>(harness: &mut H) {
    a_new_table_has_no_frontier(harness);
    data_and_frontier_land_together(harness);
    a_frontier_moves_alone(harness);
    a_version_is_put_once(harness);
    finds_its_own_commit(harness);
    rivals_do_not_hide_from_load(harness);
    a_new_shape_shows(harness);
    a_frontier_may_go_backwards(harness);
    a_restore_shows_until_it_is_written_down(harness);
    gaps_are_told_again(harness);
    dead_letters_are_told_again(harness);
    a_recreated_table_shows(harness);
    a_recreated_topic_shows_until_it_is_written_down(harness);
    many_versions_in_a_row(harness);
}

const P0: PartitionId = PartitionId(0);
const P1: PartitionId = PartitionId(1);

fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("the suite's offsets are not negative")
}

fn both() -> BTreeSet<PartitionId> {
    BTreeSet::from([P0, P1])
}

/// One partition's move, in a permit made from `head`.
fn permit(head: &Head, commit: u128, moves: &[(PartitionId, Offset)]) -> Permit {
    let advance = |&(partition, to): &(PartitionId, Offset)| {
        let expect = head.frontier.get(&partition).copied();
        (partition, Advance { expect, from: expect.unwrap_or(Offset::ZERO), to })
    };
    Permit {
        sink: SinkId(0),
        version: head.version.next(),
        commit: CommitId(commit),
        shape: head.shape,
        advances: moves.iter().map(advance).collect(),
        gaps: Vec::new(),
        dead: BTreeMap::new(),
    }
}

/// Loads, makes data for the move, and puts it; nobody is in the way.
fn commit<H: OutputHarness>(
    harness: &mut H,
    log: &mut H::Log,
    id: u128,
    partition: PartitionId,
    to: Offset,
) -> TableVersion {
    let head = log.load(&both()).expect("load");
    let from = head.frontier.get(&partition).copied().unwrap_or(Offset::ZERO);
    let batch = harness.batch(log, partition, from, to);
    let permit = permit(&head, id, &[(partition, to)]);
    assert_eq!(log.put(&permit, Some(&batch)).expect("put"), Put::Done);
    permit.version
}

fn offsets(partition: PartitionId, range: std::ops::Range<i64>) -> Vec<(PartitionId, Offset)> {
    range.map(|offset| (partition, at(offset))).collect()
}

/// Absent is not 0.
pub fn a_new_table_has_no_frontier<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let mut log = harness.open();
    let head = log.load(&both()).expect("load");
    assert_eq!(head.frontier, BTreeMap::new());
    assert_eq!(head.breach, None);
}

/// One version has both, every writer loads the same, and housekeeping changes nothing.
pub fn data_and_frontier_land_together<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let mut log = harness.open();
    let version = commit(harness, &mut log, 1, P0, at(3));
    let head = log.load(&both()).expect("load");
    assert_eq!(head.version, version);
    assert_eq!(head.frontier, BTreeMap::from([(P0, at(3))]));
    assert_eq!(harness.rows(), offsets(P0, 0..3));
    let other = harness.open().load(&both()).expect("load by another writer");
    assert_eq!(other, head, "what one writer put, every writer loads");
    let asked = log.load(&BTreeSet::from([P1])).expect("load");
    assert_eq!(asked.frontier, BTreeMap::new(), "only partitions asked for");
    log.tend();
    assert_eq!(log.load(&both()).expect("load"), head, "housekeeping changes nothing");
}

/// A commit without data; position 0 is stored as such.
pub fn a_frontier_moves_alone<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let mut log = harness.open();
    let head = log.load(&both()).expect("load");
    let anchor = permit(&head, 1, &[(P0, Offset::ZERO), (P1, at(7))]);
    assert_eq!(log.put(&anchor, None).expect("put"), Put::Done);
    let head = log.load(&both()).expect("load");
    assert_eq!(head.frontier, BTreeMap::from([(P0, Offset::ZERO), (P1, at(7))]), "position 0 is not absence");
    assert_eq!(harness.rows(), vec![]);
}

/// P1: the slower of two writers learns that the version is taken, and its data is nowhere.
pub fn a_version_is_put_once<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let (mut mine, mut rival) = (harness.open(), harness.open());
    let head = mine.load(&both()).expect("load");
    assert_eq!(rival.load(&both()).expect("load"), head);
    let (my_batch, rival_batch) =
        (harness.batch(&mut mine, P0, at(0), at(2)), harness.batch(&mut rival, P1, at(0), at(5)));
    assert_eq!(mine.put(&permit(&head, 1, &[(P0, at(2))]), Some(&my_batch)).expect("put"), Put::Done);
    let taken = permit(&head, 2, &[(P1, at(5))]);
    assert_eq!(rival.put(&taken, Some(&rival_batch)).expect("put"), Put::Taken);
    assert_eq!(rival.find(CommitId(2), taken.version).expect("find"), None);
    let head = rival.load(&both()).expect("load");
    assert_eq!(head.frontier, BTreeMap::from([(P0, at(2))]));
    assert_eq!(rival.put(&permit(&head, 2, &[(P1, at(5))]), Some(&rival_batch)).expect("put"), Put::Done);
    assert_eq!(harness.rows(), [offsets(P0, 0..2), offsets(P1, 0..5)].concat());
}

/// Where it is, from where it was asked, or not at all.
pub fn finds_its_own_commit<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let mut log = harness.open();
    let version = commit(harness, &mut log, 41, P0, at(1));
    harness.foreign_append();
    let later = commit(harness, &mut log, 42, P0, at(2));
    assert_eq!(log.find(CommitId(41), version).expect("find"), Some(version));
    assert_eq!(log.find(CommitId(42), version).expect("find"), Some(later), "past foreign versions");
    assert_eq!(log.find(CommitId(41), later).expect("find"), None, "only from where it was asked");
    assert_eq!(log.find(CommitId(43), version).expect("find"), None);
    assert_eq!(log.find(CommitId(43), later.next()).expect("find"), None, "from a version that is not there yet");
    // A put whose reply was lost is sent again by the store's client: it finds itself in the way.
    let head = log.load(&both()).expect("load");
    let again = Permit { version: later, ..permit(&head, 42, &[(P0, at(2))]) };
    assert_eq!(log.put(&again, None).expect("put"), Put::Taken);
    assert_eq!(log.find(CommitId(42), later).expect("find"), Some(later));
}

/// P8: a load is never older than a put that came before it.
pub fn rivals_do_not_hide_from_load<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let (mut mine, mut rival) = (harness.open(), harness.open());
    let before = mine.load(&both()).expect("load");
    harness.foreign_append();
    let _ = commit(harness, &mut rival, 1, P0, at(4));
    let head = mine.load(&both()).expect("load");
    assert_eq!(head.version.0, before.version.0 + 2);
    assert_eq!(head.frontier, BTreeMap::from([(P0, at(4))]), "P8: load is never older than what was put before it");
    assert_eq!(head.shape, before.shape, "somebody's rows do not change the shape");
}

/// And the layout is the one loaded last.
pub fn a_new_shape_shows<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let mut log = harness.open();
    let before = log.load(&both()).expect("load");
    harness.foreign_reshape();
    let head = log.load(&both()).expect("load");
    assert_ne!(head.shape, before.shape);
    assert_eq!(harness.open().load(&both()).expect("load").shape, head.shape, "equal for every writer");
    let version = commit(harness, &mut log, 1, P0, at(2));
    assert_eq!(version, head.version.next());
    assert_eq!(harness.rows(), offsets(P0, 0..2), "the layout loaded last is the one to write for");
}

/// What is stored is what is said.
pub fn a_frontier_may_go_backwards<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let mut log = harness.open();
    let _ = commit(harness, &mut log, 1, P0, at(10));
    harness.foreign_frontier(P0, at(4));
    assert_eq!(log.load(&both()).expect("load").frontier, BTreeMap::from([(P0, at(4))]));
    let _ = commit(harness, &mut log, 2, P0, at(5));
    assert_eq!(log.load(&both()).expect("load").frontier, BTreeMap::from([(P0, at(5))]));
}

/// P9: for each partition by itself.
pub fn a_restore_shows_until_it_is_written_down<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let mut log = harness.open();
    let old = commit(harness, &mut log, 1, P0, at(2));
    let _ = commit(harness, &mut log, 2, P0, at(5));
    let _ = commit(harness, &mut log, 3, P1, at(3));
    if !harness.foreign_restore(old) {
        return;
    }
    for log in [&mut log, &mut harness.open()] {
        let head = log.load(&both()).expect("load");
        assert_eq!(head.frontier, BTreeMap::from([(P0, at(5)), (P1, at(3))]), "a restore leaves the frontiers");
        let Some(Breach::Restored { to, frontier, .. }) = head.breach else { panic!("P9: a restore shows") };
        assert_eq!(to, old);
        assert_eq!(frontier, BTreeMap::from([(P0, at(2)), (P1, Offset::ZERO)]));
    }
    let head = log.load(&both()).expect("load");
    let gap = Gap { partition: P0, from: at(5), to: at(2), reason: "the suite replays".into() };
    let advance = Advance { expect: Some(at(5)), from: at(2), to: at(2) };
    let mut replay = permit(&head, 4, &[]);
    (replay.advances, replay.gaps) = (BTreeMap::from([(P0, advance)]), vec![gap]);
    assert_eq!(log.put(&replay, None).expect("put"), Put::Done);
    let head = log.load(&BTreeSet::from([P0])).expect("load");
    assert_eq!(head.breach, None, "over for a partition once it is written down");
    assert_eq!(head.frontier, BTreeMap::from([(P0, at(2))]));
    let Some(Breach::Restored { frontier, .. }) = log.load(&both()).expect("load").breach else {
        panic!("P9: not over for the other partition")
    };
    assert_eq!(frontier, BTreeMap::from([(P1, Offset::ZERO)]));
}

/// P9: a replay goes by them.
pub fn gaps_are_told_again<H: OutputHarness>(harness: &mut H) {
    if !harness.tells_gaps() {
        return;
    }
    harness.fresh();
    let mut log = harness.open();
    let _ = commit(harness, &mut log, 1, P0, at(2));
    let _ = commit(harness, &mut log, 2, P1, at(3));
    let gap = |partition, from, to| Gap { partition, from: at(from), to: at(to), reason: "the suite skips".into() };
    let gaps = [gap(P0, 2, 4), gap(P1, 3, 9), gap(P0, 5, 7)];
    for (n, gap) in (3..).zip(&gaps) {
        if gap.from == at(5) {
            let _ = commit(harness, &mut log, 10, P0, at(5));
        }
        let head = log.load(&both()).expect("load");
        let mut skip = permit(&head, n, &[]);
        let advance = Advance { expect: Some(gap.from), from: gap.to, to: gap.to };
        (skip.advances, skip.gaps) = (BTreeMap::from([(gap.partition, advance)]), vec![gap.clone()]);
        assert_eq!(log.put(&skip, None).expect("put"), Put::Done);
        harness.foreign_append();
    }
    #[rustfmt::skip] // columns: above, the gaps told
    let cases: [(i64, i64, &[usize]); 6] = [
        (0, 0, &[0, 1, 2]), (2, 3, &[0, 1, 2]), (4, 3, &[1, 2]), (5, 9, &[2]), (7, 3, &[1]), (7, 9, &[]),
    ];
    for log in [&mut log, &mut harness.open()] {
        let _ = log.load(&both()).expect("load");
        for (first, second, expected) in cases {
            let told = log.gaps(&BTreeMap::from([(P0, at(first)), (P1, at(second))])).expect("asked");
            let expected: Vec<_> = expected.iter().map(|n| gaps[*n].clone()).collect();
            assert_eq!(told, Some(expected), "above {first} and {second}");
        }
    }
}

/// P7: the newest span that made some, by whoever asks, and of one table of them alone.
pub fn dead_letters_are_told_again<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let Some(mut log) = harness.open_with_letters("letters") else { return };
    assert_eq!(log.load(&both()).expect("load").dead, BTreeMap::new());
    let _ = commit(harness, &mut log, 1, P0, at(2));
    let _ = commit(harness, &mut log, 2, P1, at(3));
    let stretch = |from, to| Stretch { from: at(from), to: at(to) };
    #[rustfmt::skip] // columns: partition, its end, past its last letter, what is told after it
    let cases: [(PartitionId, i64, Option<i64>, &[(PartitionId, Stretch)]); 4] = [
        (P0, 7, Some(5), &[(P0, stretch(2, 5))]),
        (P1, 4, Some(4), &[(P0, stretch(2, 5)), (P1, stretch(3, 4))]),
        (P0, 8, None,    &[(P0, stretch(2, 5)), (P1, stretch(3, 4))]),
        (P0, 9, Some(9), &[(P0, stretch(8, 9)), (P1, stretch(3, 4))]),
    ];
    for (n, (partition, to, past, told)) in (3..).zip(cases) {
        let head = log.load(&both()).expect("load");
        let batch = harness.batch(&mut log, partition, head.frontier[&partition], at(to));
        let mut permit = permit(&head, n, &[(partition, at(to))]);
        permit.dead = past.map(|past| (partition, at(past))).into_iter().collect();
        assert_eq!(log.put(&permit, Some(&batch)).expect("put"), Put::Done);
        harness.foreign_append();
        for log in [&mut log, &mut harness.open_with_letters("letters").expect("it was there before")] {
            let head = log.load(&both()).expect("load");
            assert_eq!(head.dead, told.iter().copied().collect());
            assert_eq!(head.frontier[&partition], at(to), "beside the frontier");
            assert_eq!(log.load(&BTreeSet::new()).expect("load").dead, BTreeMap::new(), "of those asked for");
        }
    }
    let mut other = harness.open_with_letters("others").expect("it was there before");
    assert_eq!(other.load(&both()).expect("load").dead, BTreeMap::new(), "another table of letters is owed nothing");
}

/// P9: to who knew the old one.
pub fn a_recreated_table_shows<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let mut log = harness.open();
    let _ = commit(harness, &mut log, 1, P0, at(2));
    if !harness.foreign_recreate() {
        return;
    }
    let head = log.load(&both()).expect("load");
    assert!(matches!(head.breach, Some(Breach::Recreated { .. })), "P9: another table lies where ours was");
    let head = harness.open().load(&both()).expect("load");
    assert_eq!((head.breach, head.frontier), (None, BTreeMap::new()), "a new writer takes the new table as it is");
}

/// P9: for each partition by itself.
pub fn a_recreated_topic_shows_until_it_is_written_down<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let mut old = harness.open();
    let _ = commit(harness, &mut old, 1, P0, at(5));
    let _ = commit(harness, &mut old, 2, P1, at(5));
    let Some(mut log) = harness.open_for_recreated_topic() else { return };
    let head = log.load(&both()).expect("load");
    let Some(Breach::OtherTopic { partitions, .. }) = &head.breach else {
        panic!("P9: the frontier is another topic's")
    };
    assert_eq!(*partitions, both());
    let mut skip = permit(&head, 3, &[]);
    skip.advances = BTreeMap::from([(P0, Advance { expect: Some(at(5)), from: at(0), to: at(0) })]);
    skip.gaps = vec![Gap { partition: P0, from: at(5), to: at(0), reason: "the suite goes on".into() }];
    assert_eq!(log.put(&skip, None).expect("put"), Put::Done);
    assert_eq!(log.load(&BTreeSet::from([P0])).expect("load").breach, None);
    let Some(Breach::OtherTopic { partitions, .. }) = log.load(&both()).expect("load").breach else {
        panic!("P9: not over for the other partition")
    };
    assert_eq!(partitions, BTreeSet::from([P1]), "P9: each partition for itself");
}

/// Past checkpoints and whatever else the log does by itself.
pub fn many_versions_in_a_row<H: OutputHarness>(harness: &mut H) {
    harness.fresh();
    let mut log = harness.open();
    for n in 1..=25_i64 {
        let _ = commit(harness, &mut log, n.unsigned_abs().into(), P0, at(n));
        log.tend();
    }
    assert_eq!(log.load(&both()).expect("load").frontier, BTreeMap::from([(P0, at(25))]));
    assert_eq!(harness.rows(), offsets(P0, 0..25));
    assert_eq!(harness.open().load(&both()).expect("load").frontier, BTreeMap::from([(P0, at(25))]));
}
