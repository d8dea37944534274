//! What every [`Circuit`] promises, tried.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::ports::{Checkpoint, Circuit, Restored};
use crate::position::{CheckpointNumber, CommitId, Frontier, Offset, PartitionId, SinkId};
use crate::records::{Records, TimestampType};

/// How the suite feeds a circuit and reads what it made. The circuit keeps state (an aggregate, a
/// join), so that what a record changes depends on the ones before it.
pub trait CircuitHarness {
    /// The implementation under trial.
    type Circuit: Circuit;

    /// A circuit of one and the same plan, over one and the same place for states; not restored, not
    /// open.
    fn make(&mut self) -> Self::Circuit;

    /// How many sinks the plan has.
    fn sinks(&self) -> u8;

    /// A layout of a sink.
    fn layout(&mut self, sink: SinkId) -> <Self::Circuit as Circuit>::Layout;

    /// The bytes of a record, another one for each number. Each changes the first sink.
    fn value(&mut self, number: u64) -> Vec<u8>;

    /// The bytes of a record that changes no sink. `None` where there is no such thing.
    fn quiet(&mut self) -> Option<Vec<u8>>;

    /// The sum of the changes in batches of one sink: rows, and how often each is added (or, below 0,
    /// taken away); those that cancel out left out. Places of data files do not show.
    fn changes(&mut self, sink: SinkId, batches: &[<Self::Circuit as Circuit>::Batch]) -> BTreeMap<String, i64>;

    /// A part of the state saved under that name gets lost. False where it can't.
    fn lose(&mut self, id: CommitId) -> bool;
}

/// Runs every case.
pub fn circuit<H: CircuitHarness>(harness: &mut H) {
    no_division_shows(harness);
    what_is_not_wanted_is_forgotten(harness);
    each_sink_is_wanted_for_itself(harness);
    holds_what_is_wanted_until_it_is_sealed(harness);
    nothing_held_is_no_batch(harness);
    goes_on_from_what_it_saved(harness);
    a_restore_forgets_everything_else(harness);
    a_saved_state_does_not_move(harness);
    steps_go_on_while_a_state_is_saved(harness);
    a_restore_forgets_a_save(harness);
    a_lost_state_shows(harness);
}

const PARTITIONS: u32 = 2;
/// Records of each partition.
const LENGTH: i64 = 6;

/// How often a save is waited for.
const SAVE_WAITS: usize = 60;

/// Changes by sink.
type Seen = Vec<BTreeMap<String, i64>>;

/// A circuit under trial, and what its batches were.
struct Trial<C: Circuit> {
    circuit: C,
    at: Frontier,
    batches: Vec<Vec<C::Batch>>,
}

fn beginning() -> Checkpoint {
    let (number, id) = (CheckpointNumber(0), CommitId(0));
    Checkpoint { number, id, frontier: Frontier::new(), begun: Frontier::new(), state: None }
}

fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("the suite's offsets are not negative")
}

fn all<H: CircuitHarness>(harness: &H) -> BTreeSet<SinkId> {
    (0..harness.sinks()).map(SinkId).collect()
}

fn begin<H: CircuitHarness>(harness: &mut H, from: &Checkpoint) -> Trial<H::Circuit> {
    let mut circuit = harness.make();
    for sink in all(harness) {
        let layout = harness.layout(sink);
        circuit.open(sink, &layout).expect("open for a fitting layout");
    }
    assert_eq!(circuit.restore(from).expect("restore"), Restored::Done, "a state that was saved is there");
    let batches = all(harness).iter().map(|_| Vec::new()).collect();
    let at = (0..PARTITIONS).map(|p| (PartitionId(p), Offset::ZERO)).collect::<Frontier>();
    let at = at.into_iter().chain(from.frontier.clone()).collect();
    Trial { circuit, at, batches }
}

impl<C: Circuit> Trial<C> {
    /// Pushes one partition's next records, up to an offset.
    fn push<H: CircuitHarness<Circuit = C>>(&mut self, harness: &mut H, partition: u32, to: i64) {
        let id = PartitionId(partition);
        let from = self.at.insert(id, at(to)).expect("a partition of the suite");
        let mut records = Records::new(id, from);
        for offset in from.get()..to {
            let number = u64::from(partition) * 1_000 + offset.unsigned_abs();
            let value = harness.value(number);
            records.push(offset, 1_700_000_000_000 + offset, TimestampType::CreateTime, Some(&value));
        }
        records.pad();
        let _ = self.circuit.push(records).expect("push good records");
    }

    fn step(&mut self, wanted: &BTreeSet<SinkId>) -> BTreeSet<SinkId> {
        self.circuit.step(wanted).expect("take a step")
    }

    /// Seals what every sink holds.
    fn seal(&mut self) {
        for (sink, batches) in (0..).map(SinkId).zip(&mut self.batches) {
            batches.extend(self.circuit.seal(sink).expect("seal"));
        }
    }

    fn seen<H: CircuitHarness<Circuit = C>>(&self, harness: &mut H) -> Seen {
        (0..).map(SinkId).zip(&self.batches).map(|(sink, batches)| harness.changes(sink, batches)).collect()
    }

    fn save(&mut self, id: u128) -> Checkpoint {
        self.circuit.prepare(CommitId(id)).expect("begin to save the state");
        let frontier = self.at.clone();
        self.finish(id, frontier)
    }

    fn finish(&mut self, id: u128, frontier: Frontier) -> Checkpoint {
        let mut ends = (0..SAVE_WAITS).filter_map(|_| self.circuit.finish(Duration::from_secs(1)).expect("save"));
        let state = Some(ends.next().expect("a save ends"));
        Checkpoint { number: CheckpointNumber(1), id: CommitId(id), frontier, begun: Frontier::new(), state }
    }
}

/// Everything in one step.
fn whole<H: CircuitHarness>(harness: &mut H) -> Seen {
    let wanted = all(harness);
    let mut trial = begin(harness, &beginning());
    (0..PARTITIONS).for_each(|p| trial.push(harness, p, LENGTH));
    let _ = trial.step(&wanted);
    trial.seal();
    trial.seen(harness)
}

/// What the records below `to` of both partitions change.
fn until<H: CircuitHarness>(harness: &mut H, to: i64) -> Seen {
    let wanted = all(harness);
    let mut trial = begin(harness, &beginning());
    (0..PARTITIONS).for_each(|p| trial.push(harness, p, to));
    let _ = trial.step(&wanted);
    trial.seal();
    trial.seen(harness)
}

fn sum(left: &Seen, right: &Seen) -> Seen {
    let mut sums = left.clone();
    for (sum, right) in sums.iter_mut().zip(right) {
        for (row, count) in right {
            *sum.entry(row.clone()).or_default() += count;
        }
        sum.retain(|_, count| *count != 0);
    }
    sums
}

/// P6: one step, many steps, many pushes, partitions in turn or one after the other.
pub fn no_division_shows<H: CircuitHarness>(harness: &mut H) {
    let expected = whole(harness);
    assert!(!expected[0].is_empty(), "the suite's records change the first sink");
    let wanted = all(harness);
    let mut single = begin(harness, &beginning());
    for offset in 1..=LENGTH {
        for partition in 0..PARTITIONS {
            single.push(harness, partition, offset);
            let _ = single.step(&wanted);
            single.seal();
        }
    }
    assert_eq!(single.seen(harness), expected, "P6: a step a record");
    let mut in_turn = begin(harness, &beginning());
    (0..PARTITIONS).rev().for_each(|p| in_turn.push(harness, p, LENGTH / 2));
    (0..PARTITIONS).for_each(|p| in_turn.push(harness, p, LENGTH));
    let _ = in_turn.step(&wanted);
    in_turn.seal();
    assert_eq!(in_turn.seen(harness), expected, "P6: another order of partitions");
}

/// P5: a replay makes no rows, and the state all the same.
pub fn what_is_not_wanted_is_forgotten<H: CircuitHarness>(harness: &mut H) {
    let (expected, before) = (whole(harness), until(harness, 2));
    let wanted = all(harness);
    let mut trial = begin(harness, &beginning());
    (0..PARTITIONS).for_each(|p| trial.push(harness, p, 2));
    assert_eq!(trial.step(&BTreeSet::new()), BTreeSet::new(), "nothing is held that was not wanted");
    trial.seal();
    assert!(trial.batches.iter().all(Vec::is_empty), "what is not held is not sealed");
    (0..PARTITIONS).for_each(|p| trial.push(harness, p, LENGTH));
    let _ = trial.step(&wanted);
    trial.seal();
    assert_eq!(sum(&before, &trial.seen(harness)), expected);
}

/// A sink that lags is told what the others have.
pub fn each_sink_is_wanted_for_itself<H: CircuitHarness>(harness: &mut H) {
    let (expected, before) = (whole(harness), until(harness, 2));
    let wanted = all(harness);
    for lagging in wanted.clone() {
        let mut trial = begin(harness, &beginning());
        (0..PARTITIONS).for_each(|p| trial.push(harness, p, 2));
        let held = trial.step(&BTreeSet::from([lagging]));
        assert!(held.iter().all(|sink| *sink == lagging), "only what is wanted is held");
        (0..PARTITIONS).for_each(|p| trial.push(harness, p, LENGTH));
        let _ = trial.step(&wanted);
        trial.seal();
        let (seen, n) = (trial.seen(harness), usize::from(lagging.0));
        assert_eq!(seen[n], expected[n], "the lagging sink gets all of it");
        let rest = sum(&before, &seen);
        for other in (0..expected.len()).filter(|other| *other != n) {
            assert_eq!(rest[other], expected[other], "the others get what they do not have");
        }
    }
}

/// Several steps, one batch.
pub fn holds_what_is_wanted_until_it_is_sealed<H: CircuitHarness>(harness: &mut H) {
    let expected = whole(harness);
    let wanted = all(harness);
    let mut trial = begin(harness, &beginning());
    for offset in 1..=LENGTH {
        (0..PARTITIONS).for_each(|p| trial.push(harness, p, offset));
        assert!(trial.step(&wanted).contains(&SinkId(0)), "it says that the first sink has changes");
    }
    trial.seal();
    assert_eq!(trial.seen(harness), expected);
    assert!(trial.batches.iter().all(|batches| batches.len() <= 1), "as one batch");
}

/// And an empty step changes nothing.
pub fn nothing_held_is_no_batch<H: CircuitHarness>(harness: &mut H) {
    let wanted = all(harness);
    let mut trial = begin(harness, &beginning());
    assert_eq!(trial.step(&wanted), BTreeSet::new(), "a step over nothing");
    trial.seal();
    trial.push(harness, 0, 1);
    let _ = trial.step(&wanted);
    trial.seal();
    let first = trial.batches[0].len();
    assert_eq!(first, 1, "only what changed is a batch");
    trial.seal();
    if let Some(quiet) = harness.quiet() {
        let mut records = Records::new(PartitionId(0), at(1));
        records.push(1, 1_700_000_000_001, TimestampType::CreateTime, Some(&quiet));
        records.pad();
        let _ = trial.circuit.push(records).expect("push");
        assert_eq!(trial.step(&wanted), BTreeSet::new(), "a record that changes nothing");
        trial.seal();
    }
    assert_eq!(trial.batches[0].len(), first, "what is sealed is not held any more");
}

/// P6: in another process, and in the one that saved.
pub fn goes_on_from_what_it_saved<H: CircuitHarness>(harness: &mut H) {
    let (expected, before) = (whole(harness), until(harness, 3));
    let wanted = all(harness);
    let mut first = begin(harness, &beginning());
    (0..PARTITIONS).for_each(|p| first.push(harness, p, 3));
    let _ = first.step(&wanted);
    first.seal();
    let saved = first.save(41);
    let mut second = begin(harness, &saved);
    for trial in [&mut first, &mut second] {
        (0..PARTITIONS).for_each(|p| trial.push(harness, p, LENGTH));
        let _ = trial.step(&wanted);
        trial.seal();
    }
    assert_eq!(first.seen(harness), expected, "saving changes nothing");
    assert_eq!(sum(&before, &second.seen(harness)), expected, "P6: restored in another process");
}

/// What was pushed, stepped or held.
pub fn a_restore_forgets_everything_else<H: CircuitHarness>(harness: &mut H) {
    let expected = whole(harness);
    let wanted = all(harness);
    let mut trial = begin(harness, &beginning());
    trial.push(harness, 0, 3);
    let _ = trial.step(&wanted);
    trial.push(harness, 1, 2);
    assert_eq!(trial.circuit.restore(&beginning()).expect("restore"), Restored::Done);
    trial.at = (0..PARTITIONS).map(|p| (PartitionId(p), Offset::ZERO)).collect();
    assert_eq!(trial.step(&wanted), BTreeSet::new(), "nothing is pushed, nothing is held");
    (0..PARTITIONS).for_each(|p| trial.push(harness, p, LENGTH));
    let _ = trial.step(&wanted);
    trial.seal();
    assert_eq!(trial.seen(harness), expected);
}

/// Later steps and later states leave it as it was.
pub fn a_saved_state_does_not_move<H: CircuitHarness>(harness: &mut H) {
    let (expected, before) = (whole(harness), until(harness, 2));
    let wanted = all(harness);
    let mut trial = begin(harness, &beginning());
    let mut saved = Vec::new();
    for to in [2, 4, LENGTH] {
        (0..PARTITIONS).for_each(|p| trial.push(harness, p, to));
        let _ = trial.step(&wanted);
        trial.seal();
        saved.push(trial.save(50 + to.unsigned_abs() as u128));
    }
    let mut again = begin(harness, &saved[0]);
    (0..PARTITIONS).for_each(|p| again.push(harness, p, LENGTH));
    let _ = again.step(&wanted);
    again.seal();
    assert_eq!(sum(&before, &again.seen(harness)), expected);
}

/// P6: what is saved is what the circuit was when that was begun, and its steps are what they are without it.
pub fn steps_go_on_while_a_state_is_saved<H: CircuitHarness>(harness: &mut H) {
    let (expected, before) = (whole(harness), until(harness, 2));
    let wanted = all(harness);
    let mut first = begin(harness, &beginning());
    (0..PARTITIONS).for_each(|p| first.push(harness, p, 2));
    let _ = first.step(&wanted);
    first.seal();
    let begun_at = first.at.clone();
    first.circuit.prepare(CommitId(71)).expect("begin to save the state");
    for offset in 3..=LENGTH {
        (0..PARTITIONS).for_each(|p| first.push(harness, p, offset));
        let _ = first.step(&wanted);
        first.seal();
    }
    assert_eq!(first.seen(harness), expected, "saving changes nothing");
    let saved = first.finish(71, begun_at);
    let mut second = begin(harness, &saved);
    (0..PARTITIONS).for_each(|p| second.push(harness, p, LENGTH));
    let _ = second.step(&wanted);
    second.seal();
    assert_eq!(sum(&before, &second.seen(harness)), expected, "P6: it covers what it covered at its beginning");
}

/// And another one may begin.
pub fn a_restore_forgets_a_save<H: CircuitHarness>(harness: &mut H) {
    let wanted = all(harness);
    let mut trial = begin(harness, &beginning());
    trial.push(harness, 0, 1);
    let _ = trial.step(&wanted);
    trial.seal();
    trial.circuit.prepare(CommitId(81)).expect("begin to save the state");
    assert_eq!(trial.circuit.restore(&beginning()).expect("restore"), Restored::Done);
    trial.at = (0..PARTITIONS).map(|p| (PartitionId(p), Offset::ZERO)).collect();
    let expected = until(harness, 2);
    (0..PARTITIONS).for_each(|p| trial.push(harness, p, 2));
    let _ = trial.step(&wanted);
    trial.batches.iter_mut().for_each(Vec::clear);
    trial.seal();
    assert_eq!(trial.seen(harness), expected);
    let saved = trial.save(82);
    assert_eq!(harness.make().restore(&saved).expect("restore"), Restored::Done);
}

/// P4: and another one can be restored after it.
pub fn a_lost_state_shows<H: CircuitHarness>(harness: &mut H) {
    let wanted = all(harness);
    let mut trial = begin(harness, &beginning());
    (0..PARTITIONS).for_each(|p| trial.push(harness, p, 2));
    let _ = trial.step(&wanted);
    trial.seal();
    let (older, newer) = (trial.save(61), trial.save(62));
    if !harness.lose(newer.id) {
        return;
    }
    let mut circuit = harness.make();
    for sink in all(harness) {
        let layout = harness.layout(sink);
        circuit.open(sink, &layout).expect("open for a fitting layout");
    }
    assert_eq!(circuit.restore(&newer).expect("restore"), Restored::Missing, "what is lost is said to be");
    assert_eq!(circuit.restore(&older).expect("restore"), Restored::Done, "an older one is there");
    let never = Checkpoint { id: CommitId(63), ..newer };
    assert_eq!(circuit.restore(&never).expect("restore"), Restored::Missing, "what was never saved");
}
