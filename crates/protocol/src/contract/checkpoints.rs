//! What every [`CheckpointStore`] promises, tried.

use crate::ports::{Checkpoint, CheckpointStore, Put};
use crate::position::{CheckpointNumber, CommitId, Frontier, Offset, PartitionId, SourceId};

/// How the suite acts on a store from outside. Everything is about the newest store that
/// [`fresh`](Self::fresh) made.
pub trait CheckpointHarness {
    /// The implementation under trial.
    type Store: CheckpointStore;

    /// Makes a new, empty store.
    fn fresh(&mut self);

    /// One more process's hold on it.
    fn open(&mut self) -> Self::Store;

    /// A circuit saves a state under that name.
    fn save_state(&mut self, id: CommitId);

    /// Whether any of a state is there.
    fn has_state(&mut self, id: CommitId) -> bool;

    /// A process ends amid the put of a manifest with that number, and leaves what can be left. False
    /// where nothing can.
    fn half_put(&mut self, number: CheckpointNumber) -> bool;
}

/// Runs every case.
pub fn checkpoints<H: CheckpointHarness>(harness: &mut H) {
    a_new_store_is_empty(harness);
    what_is_put_is_listed_as_it_is(harness);
    a_number_is_put_once(harness);
    numbers_are_listed_in_order(harness);
    removes_a_manifest_and_its_state(harness);
    state_that_is_still_named_stays(harness);
    a_half_written_manifest_is_none(harness);
}

fn checkpoint<H: CheckpointHarness>(harness: &mut H, number: u64, id: u128) -> Checkpoint {
    harness.save_state(CommitId(id));
    let at = |raw| Offset::new(raw).expect("the suite's offsets are not negative");
    let other = PartitionId::of(SourceId(3), 7);
    Checkpoint {
        number: CheckpointNumber(number),
        id: CommitId(id),
        frontier: Frontier::from([(PartitionId(0), at(0)), (PartitionId(1), at(i64::MAX - 1)), (other, at(5))]),
        begun: Frontier::from([(other, at(2))]),
        state: Some(vec![0, 255, b'"', b'\n', 0]),
    }
}

/// Nothing is there.
pub fn a_new_store_is_empty<H: CheckpointHarness>(harness: &mut H) {
    harness.fresh();
    assert_eq!(harness.open().list().expect("list"), []);
}

/// Every field, for every process.
pub fn what_is_put_is_listed_as_it_is<H: CheckpointHarness>(harness: &mut H) {
    harness.fresh();
    let mut store = harness.open();
    let beginning = Checkpoint { state: None, ..checkpoint(harness, 0, 1) };
    let empty = Checkpoint { state: Some(Vec::new()), ..checkpoint(harness, 1, u128::MAX) };
    let full = checkpoint(harness, 2, 3);
    for one in [&beginning, &empty, &full] {
        assert_eq!(store.put(one).expect("put"), Put::Done);
    }
    let expected = [beginning, empty, full];
    assert_eq!(store.list().expect("list"), expected);
    assert_eq!(harness.open().list().expect("list by another process"), expected);
}

/// P8: the slower of two processes learns that the number is taken.
pub fn a_number_is_put_once<H: CheckpointHarness>(harness: &mut H) {
    harness.fresh();
    let (mut mine, mut rival) = (harness.open(), harness.open());
    let (first, second) = (checkpoint(harness, 4, 1), checkpoint(harness, 4, 2));
    assert_eq!(mine.put(&first).expect("put"), Put::Done);
    assert_eq!(rival.put(&second).expect("put"), Put::Taken);
    assert_eq!(mine.put(&first).expect("put again"), Put::Taken, "its own one is in the way as well");
    assert_eq!(rival.list().expect("list"), [first]);
}

/// By number, not by text, and whatever the order in which they came.
pub fn numbers_are_listed_in_order<H: CheckpointHarness>(harness: &mut H) {
    harness.fresh();
    let mut store = harness.open();
    for number in [9, 100, 10, 3] {
        let one = checkpoint(harness, number, number.into());
        assert_eq!(store.put(&one).expect("put"), Put::Done);
    }
    let numbers: Vec<u64> = store.list().expect("list").iter().map(|one| one.number.0).collect();
    assert_eq!(numbers, [3, 9, 10, 100]);
}

/// Those named and no others; twice is once.
pub fn removes_a_manifest_and_its_state<H: CheckpointHarness>(harness: &mut H) {
    harness.fresh();
    let mut store = harness.open();
    let all: Vec<Checkpoint> = (1..=4).map(|n| checkpoint(harness, n, n.into())).collect();
    for one in &all {
        assert_eq!(store.put(one).expect("put"), Put::Done);
    }
    for _ in 0..2 {
        store.remove(&all[..2]).expect("remove");
        assert_eq!(harness.open().list().expect("list"), all[2..]);
        let there: Vec<bool> = all.iter().map(|one| harness.has_state(one.id)).collect();
        assert_eq!(there, [false, false, true, true]);
    }
    store.remove(&[]).expect("remove nothing");
}

/// A manifest that came late may name a state once more.
pub fn state_that_is_still_named_stays<H: CheckpointHarness>(harness: &mut H) {
    harness.fresh();
    let mut store = harness.open();
    let old = checkpoint(harness, 1, 7);
    let new = Checkpoint { number: CheckpointNumber(2), ..old.clone() };
    assert_eq!(store.put(&old).expect("put"), Put::Done);
    assert_eq!(store.put(&new).expect("put"), Put::Done);
    store.remove(&[old]).expect("remove");
    assert!(harness.has_state(new.id), "P4: a manifest that counts names it");
    assert_eq!(store.list().expect("list"), [new]);
}

/// It is not listed, and it is in nobody's way for ever: another number goes through.
pub fn a_half_written_manifest_is_none<H: CheckpointHarness>(harness: &mut H) {
    harness.fresh();
    let mut store = harness.open();
    let (first, third) = (checkpoint(harness, 1, 1), checkpoint(harness, 3, 3));
    assert_eq!(store.put(&first).expect("put"), Put::Done);
    if !harness.half_put(CheckpointNumber(2)) {
        return;
    }
    assert_eq!(harness.open().list().expect("list"), std::slice::from_ref(&first));
    assert_eq!(store.put(&third).expect("put"), Put::Done);
    assert_eq!(store.list().expect("list"), [first, third]);
}
