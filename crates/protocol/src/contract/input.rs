//! What every [`InputLog`] promises, tried.

#![expect(clippy::disallowed_methods, reason = "the suite waits for real brokers by the real clock")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::ports::{Bounds, Input, InputLog};
use crate::position::{Offset, PartitionId};

/// How the suite acts on a log from outside. Everything is about the newest topic that
/// [`fresh`](Self::fresh) made.
pub trait InputHarness {
    /// The implementation under trial.
    type Log: InputLog;

    /// Makes a new, empty topic with partitions 0 to `partitions - 1`, and a new group.
    fn fresh(&mut self, partitions: u32);

    /// One more member of the group, reading from the topic.
    fn join(&mut self) -> Self::Log;

    /// Appends records and returns once they are readable; `None` is a tombstone.
    fn append(&mut self, partition: PartitionId, values: &[Option<&[u8]>]);

    /// Appends something that takes an offset and is no record to a reader (an aborted
    /// transaction, a control record). False where it can't; the case is then left out.
    fn append_hole(&mut self, partition: PartitionId) -> bool;

    /// Deletes the records below `oldest`. False where it can't.
    fn expire(&mut self, partition: PartitionId, oldest: Offset) -> bool;

    /// The longest that one thing that must happen may take.
    fn patience(&self) -> Duration;
}

/// Runs every case.
pub fn input_log<H: InputHarness>(harness: &mut H) {
    nothing_comes_before_start(harness);
    delivers_a_chain_from_the_exact_position(harness);
    begins_anew_where_told(harness);
    yields_at_most_what_was_asked(harness);
    keeps_tombstones_and_empty_values(harness);
    says_where_the_end_is(harness);
    covers_holes(harness);
    says_when_input_was_deleted(harness);
    says_when_it_stands_above_the_end(harness);
    hands_partitions_over(harness);
    lets_go_at_the_end(harness);
}

const P0: PartitionId = PartitionId(0);

fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("the suite's offsets are not negative")
}

fn numbered(range: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    range.map(|n| format!("{{\"n\":{n}}}").into_bytes()).collect()
}

fn append_numbered<H: InputHarness>(harness: &mut H, partition: PartitionId, range: std::ops::Range<u64>) {
    let values = numbered(range);
    let values: Vec<Option<&[u8]>> = values.iter().map(|v| Some(v.as_slice())).collect();
    harness.append(partition, &values);
}

/// The offset and the value of a record.
type Seen = (i64, Option<Vec<u8>>);

/// A member and what it has said so far.
struct Member<L> {
    log: L,
    owned: BTreeSet<PartitionId>,
    losing: BTreeSet<PartitionId>,
    next: BTreeMap<PartitionId, Offset>,
    read: BTreeMap<PartitionId, Vec<Seen>>,
    reached: BTreeMap<PartitionId, Offset>,
    gone: Vec<(PartitionId, Offset, Bounds)>,
    largest: usize,
}

impl<L: InputLog> Member<L> {
    fn new(log: L) -> Self {
        Self {
            log,
            owned: BTreeSet::new(),
            losing: BTreeSet::new(),
            next: BTreeMap::new(),
            read: BTreeMap::new(),
            reached: BTreeMap::new(),
            gone: Vec::new(),
            largest: 0,
        }
    }

    fn start(&mut self, partition: PartitionId, offset: Offset) {
        self.next.insert(partition, offset);
        self.read.remove(&partition);
        self.reached.remove(&partition);
        self.log.start(&BTreeMap::from([(partition, offset)])).expect("start");
    }

    fn poll(&mut self, most: usize) {
        let said = self.log.poll(most, Duration::from_millis(20)).expect("poll");
        match said {
            None => {}
            Some(Input::Gained(gained)) => {
                assert!(self.owned.is_disjoint(&gained), "gained {gained:?} which it has already");
                self.owned.extend(gained);
            }
            Some(Input::Losing(losing)) => {
                assert!(losing.is_subset(&self.owned), "asked back {losing:?}, which it never had");
                self.losing.extend(losing);
            }
            Some(Input::Lost(lost)) => self.forget(&lost),
            Some(Input::Records(records)) => self.take(records, most),
            Some(Input::Reached { partition, end }) => {
                self.reached.insert(partition, end);
            }
            Some(Input::Gone { partition, at, oldest, end }) => self.gone.push((partition, at, Bounds { oldest, end })),
        }
    }

    fn take(&mut self, records: crate::records::Records, most: usize) {
        let partition = records.partition();
        assert!(most > 0, "records came though none were asked for");
        assert!(records.len() <= most, "{} records came, at most {most} were asked for", records.len());
        let next = self.next.get_mut(&partition).expect("records came before start");
        assert_eq!(records.from(), *next, "P2: a partition's records form a chain from where it was started");
        *next = records.to();
        self.largest = self.largest.max(records.len());
        let read = self.read.entry(partition).or_default();
        read.extend(records.entries().iter().map(|e| (e.offset, records.value(e).map(<[u8]>::to_vec))));
        self.log.recycle(records);
    }

    fn forget(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.owned.retain(|p| !partitions.contains(p));
        self.losing.retain(|p| !partitions.contains(p));
        self.next.retain(|p, _| !partitions.contains(p));
    }

    fn release(&mut self) {
        let losing = std::mem::take(&mut self.losing);
        if !losing.is_empty() {
            self.log.release(&losing).expect("release");
            self.forget(&losing);
        }
    }

    fn offsets(&self, partition: PartitionId) -> Vec<i64> {
        self.read.get(&partition).map(|r| r.iter().map(|(offset, _)| *offset).collect()).unwrap_or_default()
    }
}

/// Polls until `done`, or panics with `what` once patience ends.
fn until<L: InputLog>(
    member: &mut Member<L>,
    patience: Duration,
    most: usize,
    what: &str,
    mut done: impl FnMut(&Member<L>) -> bool,
) {
    let began = Instant::now();
    while !done(member) {
        assert!(began.elapsed() < patience, "waited in vain: {what}");
        member.poll(most);
    }
}

/// A lone member that has all the partitions.
fn owner<H: InputHarness>(harness: &mut H, partitions: usize) -> Member<H::Log> {
    let mut member = Member::new(harness.join());
    until(&mut member, harness.patience(), 100, "the only member gains all partitions", |m| {
        m.owned.len() == partitions
    });
    member
}

/// A gained partition is silent until it is started, and only started ones speak.
pub fn nothing_comes_before_start<H: InputHarness>(harness: &mut H) {
    harness.fresh(2);
    append_numbered(harness, P0, 0..5);
    let mut member = owner(harness, 2);
    for _ in 0..10 {
        member.poll(100);
    }
    assert!(member.read.is_empty(), "records came before start");
    member.start(P0, Offset::ZERO);
    until(&mut member, harness.patience(), 100, "5 records", |m| m.offsets(P0).len() == 5);
    assert!(!member.read.contains_key(&PartitionId(1)), "only started partitions are delivered");
}

/// From the very position asked for, in order, with the right bytes, old records and new ones.
pub fn delivers_a_chain_from_the_exact_position<H: InputHarness>(harness: &mut H) {
    harness.fresh(1);
    append_numbered(harness, P0, 0..50);
    let mut member = owner(harness, 1);
    member.start(P0, at(13));
    until(&mut member, harness.patience(), 7, "records 13 to 49", |m| m.next[&P0] == at(50));
    assert_eq!(member.offsets(P0), (13..50).collect::<Vec<_>>());
    let values: Vec<_> = member.read[&P0].iter().map(|(_, value)| value.clone().expect("a value")).collect();
    assert_eq!(values, numbered(13..50), "the same offsets give the same bytes");
    append_numbered(harness, P0, 50..53);
    until(&mut member, harness.patience(), 100, "records appended later", |m| m.next[&P0] == at(53));
}

/// A second start wins over what was on its way, backwards and forwards.
pub fn begins_anew_where_told<H: InputHarness>(harness: &mut H) {
    harness.fresh(1);
    append_numbered(harness, P0, 0..40);
    let mut member = owner(harness, 1);
    member.start(P0, at(5));
    until(&mut member, harness.patience(), 10, "some records", |m| !m.offsets(P0).is_empty());
    member.start(P0, at(2));
    until(&mut member, harness.patience(), 10, "all again", |m| m.next[&P0] == at(40));
    assert_eq!(member.offsets(P0), (2..40).collect::<Vec<_>>(), "nothing from before the last start follows it");
    member.start(P0, at(38));
    until(&mut member, harness.patience(), 10, "the last again", |m| m.next[&P0] == at(40));
    assert_eq!(member.offsets(P0), vec![38, 39]);
}

/// `most` is kept to, and none is none.
pub fn yields_at_most_what_was_asked<H: InputHarness>(harness: &mut H) {
    harness.fresh(1);
    append_numbered(harness, P0, 0..20);
    let mut member = owner(harness, 1);
    member.start(P0, Offset::ZERO);
    for _ in 0..10 {
        member.poll(0);
    }
    assert!(member.read.is_empty());
    until(&mut member, harness.patience(), 3, "20 records, 3 at a time", |m| m.next[&P0] == at(20));
    assert!(member.largest <= 3);
}

/// A null value is not an empty one.
pub fn keeps_tombstones_and_empty_values<H: InputHarness>(harness: &mut H) {
    harness.fresh(1);
    harness.append(P0, &[Some(b"a"), None, Some(b""), Some(b"b")]);
    let mut member = owner(harness, 1);
    member.start(P0, Offset::ZERO);
    until(&mut member, harness.patience(), 100, "4 records", |m| m.next[&P0] == at(4));
    let values: Vec<_> = member.read[&P0].iter().map(|(_, value)| value.as_deref()).collect();
    assert_eq!(values, vec![Some(b"a".as_slice()), None, Some(b""), Some(b"b")]);
}

/// Bounds of full and empty partitions; the end is told only after what lies before it.
pub fn says_where_the_end_is<H: InputHarness>(harness: &mut H) {
    harness.fresh(2);
    append_numbered(harness, P0, 0..6);
    let mut member = owner(harness, 2);
    assert_eq!(member.log.bounds(P0).expect("bounds"), Bounds { oldest: Offset::ZERO, end: at(6) });
    assert_eq!(member.log.bounds(PartitionId(1)).expect("bounds"), Bounds { oldest: Offset::ZERO, end: Offset::ZERO });
    member.start(P0, Offset::ZERO);
    member.start(PartitionId(1), Offset::ZERO);
    let patience = harness.patience();
    until(&mut member, patience, 100, "the end of both", |m| {
        m.reached.get(&P0) == Some(&at(6)) && m.reached.len() == 2
    });
    assert_eq!(member.offsets(P0).len(), 6, "an end is reached only after the records before it");
    assert_eq!(member.reached[&PartitionId(1)], Offset::ZERO);
}

/// Offsets without a record are passed over and covered.
pub fn covers_holes<H: InputHarness>(harness: &mut H) {
    harness.fresh(1);
    append_numbered(harness, P0, 0..3);
    if !harness.append_hole(P0) {
        return;
    }
    append_numbered(harness, P0, 3..6);
    let mut member = owner(harness, 1);
    member.start(P0, Offset::ZERO);
    until(&mut member, harness.patience(), 2, "6 records around a hole", |m| m.offsets(P0).len() == 6);
    let values: Vec<_> = member.read[&P0].iter().map(|(_, value)| value.clone().expect("a value")).collect();
    assert_eq!(values, numbered(0..6), "holes hide nothing");
}

/// P9: a start below the oldest record is told, not skipped.
pub fn says_when_input_was_deleted<H: InputHarness>(harness: &mut H) {
    harness.fresh(1);
    append_numbered(harness, P0, 0..20);
    if !harness.expire(P0, at(10)) {
        return;
    }
    let mut member = owner(harness, 1);
    member.start(P0, at(4));
    until(&mut member, harness.patience(), 100, "P9: word that 4 is gone", |m| !m.gone.is_empty());
    assert_eq!(member.gone[0], (P0, at(4), Bounds { oldest: at(10), end: at(20) }));
    assert!(member.offsets(P0).is_empty(), "P9: nothing is skipped in silence");
    member.start(P0, at(10));
    until(&mut member, harness.patience(), 100, "what is left", |m| m.next[&P0] == at(20));
}

/// P9: a start above the end is told, not begun anew.
pub fn says_when_it_stands_above_the_end<H: InputHarness>(harness: &mut H) {
    harness.fresh(1);
    append_numbered(harness, P0, 0..5);
    let mut member = owner(harness, 1);
    member.start(P0, at(50));
    until(&mut member, harness.patience(), 100, "P9: word that 50 is above the end", |m| !m.gone.is_empty());
    assert_eq!(member.gone[0], (P0, at(50), Bounds { oldest: Offset::ZERO, end: at(5) }));
    assert!(member.offsets(P0).is_empty(), "P9: nothing is read again in silence");
}

/// Two members share the partitions, each of which is in one's hands at a time.
pub fn hands_partitions_over<H: InputHarness>(harness: &mut H) {
    harness.fresh(4);
    let mut first = owner(harness, 4);
    for p in 0..4 {
        first.start(PartitionId(p), Offset::ZERO);
    }
    let mut second = Member::new(harness.join());
    let began = Instant::now();
    while first.owned.len() != 2 || second.owned.len() != 2 {
        assert!(began.elapsed() < harness.patience(), "two members never came to share four partitions");
        first.poll(10);
        second.poll(10);
        assert!(first.owned.is_disjoint(&second.owned), "a partition is in one owner's hands until it is released");
        first.release();
        second.release();
    }
    for member in [&mut first, &mut second] {
        for partition in member.owned.clone() {
            member.start(partition, Offset::ZERO);
        }
    }
    for p in 0..4 {
        append_numbered(harness, PartitionId(p), 0..3);
    }
    let began = Instant::now();
    let total = |m: &Member<H::Log>| m.read.values().map(Vec::len).sum::<usize>();
    while total(&first) + total(&second) < 12 {
        assert!(began.elapsed() < harness.patience(), "each owner reads its share");
        first.poll(10);
        second.poll(10);
    }
    assert!(first.read.keys().chain(second.read.keys()).collect::<BTreeSet<_>>().len() == 4);
}

/// What is released without being asked for goes to the next member.
pub fn lets_go_at_the_end<H: InputHarness>(harness: &mut H) {
    harness.fresh(2);
    let mut first = owner(harness, 2);
    let all = first.owned.clone();
    first.log.release(&all).expect("release at the end");
    first.log.release(&all).expect("release is idempotent");
    drop(first);
    let _second = owner(harness, 2);
}
