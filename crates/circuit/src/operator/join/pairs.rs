//! The pairs of rows with equal keys, straight to columns.
//!
//! The change of a join is what each side's change makes with all rows of the other one: with those of the last step
//! for the one side, with those of this step for the other. The engine's own join makes a row of each pair and sorts
//! them; what comes next here wants columns, and each pair once is enough. State: none beside the rows of both sides.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use dbsp::circuit::operator_traits::{BinaryOperator, Operator};
use dbsp::dynamic::DowncastTrait as _;
use dbsp::operator::dynamic::MonoIndexedZSet;
use dbsp::trace::{BatchReader, BatchReaderFactories, Cursor as _, Spine, SpineSnapshot, WithSnapshot};
use dbsp::{Circuit as _, Scope, ZWeight};

use crate::builder::{Deltas, Indexed};
use crate::codec::Codec;
use crate::delta::{Delta, Part, batch};
use crate::operator::union::sum;
use crate::read::Stretch;
use crate::row::Row;

/// How many pairs go on at once, at most.
const MOST_PAIRS: usize = 50_000;

/// How a key, the rest of the left row and that of the right one become columns.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Of all three behind each other.
    pub(super) codec: Arc<Codec>,
    /// Where each column of the answer is in it.
    pub(super) places: Arc<Vec<usize>>,
    /// The answer's columns.
    pub(super) schema: SchemaRef,
}

/// The change of all pairs of a left and a right row of the same key.
pub(super) fn pairs(left: &Indexed, right: &Indexed, layout: &Layout) -> Deltas {
    let factories = BatchReaderFactories::new::<Row, Row, ZWeight>();
    let circuit = left.circuit();
    circuit.region("pairs", || {
        let (left, right) = (left.inner(), right.inner());
        let all_left = left.dyn_shard_accumulate_trace(&factories, &factories);
        let all_right = right.dyn_shard_accumulate_trace(&factories, &factories);
        let of_left = circuit.add_binary_operator(
            Pairs::new(layout, Side::Left),
            &left.dyn_shard_accumulate(&factories).into_enabled_stream(),
            &all_right,
        );
        let of_right = circuit.add_binary_operator(
            Pairs::new(layout, Side::Right),
            &right.dyn_shard_accumulate(&factories).into_enabled_stream(),
            &all_left.accumulate_delay_trace(),
        );
        sum(&of_left, &of_right)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

type Snapshot = SpineSnapshot<MonoIndexedZSet>;
type Rows = <Snapshot as BatchReader>::Cursor<'static>;

/// The change of one side with the rows of the other one.
struct Pairs {
    layout: Layout,
    /// Whose change it is.
    changed: Side,
    /// This transaction's change, once it is known.
    change: Option<Snapshot>,
    /// Whether the change is whole, and nothing was made of it yet.
    whole: bool,
    /// What is under way.
    meeting: Option<Meeting>,
}

impl Pairs {
    fn new(layout: &Layout, changed: Side) -> Self {
        Self { layout: layout.clone(), changed, change: None, whole: false, meeting: None }
    }

    fn next(&mut self, change: Option<Snapshot>, rows: impl FnOnce() -> Snapshot) -> Delta {
        if change.is_some() {
            self.change = change;
        }
        if std::mem::take(&mut self.whole) {
            let change = self.change.take().expect("a change comes before its end");
            self.meeting = (!change.is_empty()).then(|| Meeting::new(&change, &rows()));
        }
        let Some(meeting) = &mut self.meeting else { return Delta::default() };
        let (pairs, weights) = meeting.next(self.changed, MOST_PAIRS);
        if weights.len() < MOST_PAIRS {
            self.meeting = None;
        }
        if weights.is_empty() {
            return Delta::default();
        }
        let columns = self.layout.codec.decode(pairs.iter());
        let columns = self.layout.places.iter().map(|at| Arc::clone(&columns[*at])).collect();
        Delta(vec![Part { batch: batch(&self.layout.schema, columns, weights.len()), weights: weights.into() }])
    }
}

impl Operator for Pairs {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("Pairs")
    }

    fn fixedpoint(&self, _: Scope) -> bool {
        self.meeting.is_none()
    }

    fn flush(&mut self) {
        self.whole = true;
    }

    fn is_flush_complete(&self) -> bool {
        !self.whole && self.meeting.is_none()
    }
}

impl<T: WithSnapshot<Batch = MonoIndexedZSet> + 'static> BinaryOperator<Option<Spine<MonoIndexedZSet>>, T, Delta>
    for Pairs
{
    async fn eval(&mut self, change: &Option<Spine<MonoIndexedZSet>>, rows: &T) -> Delta {
        self.next(change.as_ref().map(Spine::ro_snapshot), || rows.ro_snapshot())
    }
}

/// A change and the rows that it meets, as far as they were gone through.
struct Meeting {
    change: Rows,
    rows: OfKey,
    /// Whether the rows' keys are gone through and looked for in the change, as there are fewer of them.
    by_rows: bool,
    /// Whether both stand at one key, with pairs left.
    met: bool,
}

impl Meeting {
    fn new(change: &Snapshot, rows: &Snapshot) -> Self {
        let by_rows = rows.key_count() < change.key_count();
        Self { change: change.cursor(), rows: OfKey::new(rows.cursor()), by_rows, met: false }
    }

    /// The next pairs with their weights, `most` of them unless it is the end.
    fn next(&mut self, changed: Side, most: usize) -> (Stretch, Vec<ZWeight>) {
        let (mut pairs, mut weights) = (Stretch::default(), Vec::new());
        while self.met || self.meet() {
            let key: &Row = self.change.key().downcast_checked();
            let key = key.clone();
            while self.change.val_valid() {
                let copies: ZWeight = **self.change.weight();
                let own: &Row = self.change.val().downcast_checked();
                while let Some((other, more)) = self.rows.get() {
                    if weights.len() == most {
                        return (pairs, weights);
                    }
                    let (left, right) = if changed == Side::Left { (own.bytes(), other) } else { (other, own.bytes()) };
                    pairs.push_parts(&[key.bytes(), left, right]);
                    weights.push(copies.checked_mul(more).expect("a pair's copies within 63 bits"));
                    self.rows.step();
                }
                self.rows.rewind();
                self.change.step_val();
            }
            self.met = false;
            if self.by_rows { self.rows.cursor.step_key() } else { self.change.step_key() }
        }
        (pairs, weights)
    }

    /// Goes on to the next key that both have, from where they stand.
    fn meet(&mut self) -> bool {
        let rows = &mut self.rows.cursor;
        let (leads, follows) = if self.by_rows { (rows, &mut self.change) } else { (&mut self.change, rows) };
        while leads.key_valid() {
            if follows.seek_key_exact(leads.key(), None) {
                self.met = true;
                self.rows.begin();
                return true;
            }
            leads.step_key();
        }
        false
    }
}

/// As many rows of a key are read once, and no more looked up for each row of the change.
const FEW_ROWS: usize = 16;

/// The rows of the key that a cursor stands at.
struct OfKey {
    cursor: Rows,
    /// All of them, if they are few.
    few: Stretch,
    weights: Vec<ZWeight>,
    /// The next of them; `None` if they are many, and the cursor knows.
    at: Option<usize>,
}

impl OfKey {
    fn new(cursor: Rows) -> Self {
        Self { cursor, few: Stretch::default(), weights: Vec::new(), at: None }
    }

    /// At a key where nothing was read yet.
    fn begin(&mut self) {
        self.few.clear();
        self.weights.clear();
        while self.cursor.val_valid() && self.weights.len() < FEW_ROWS {
            self.weights.push(**self.cursor.weight());
            let value: &Row = self.cursor.val().downcast_checked();
            self.few.push_parts(&[value.bytes()]);
            self.cursor.step_val();
        }
        self.at = (!self.cursor.val_valid()).then_some(0);
        if self.at.is_none() {
            self.cursor.rewind_vals();
        }
    }

    /// The row that it stands at, and how many copies there are.
    fn get(&mut self) -> Option<(&[u8], ZWeight)> {
        match self.at {
            Some(at) if at < self.few.len() => Some((self.few.row(at), self.weights[at])),
            None if self.cursor.val_valid() => {
                let copies: ZWeight = **self.cursor.weight();
                let value: &Row = self.cursor.val().downcast_checked();
                Some((value.bytes(), copies))
            }
            _ => None,
        }
    }

    fn step(&mut self) {
        match &mut self.at {
            Some(at) => *at += 1,
            None => self.cursor.step_val(),
        }
    }

    /// Back to the first.
    fn rewind(&mut self) {
        match &mut self.at {
            Some(at) => *at = 0,
            None => self.cursor.rewind_vals(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::sorted;

    /// Rows of few keys, over several batches, some of which take back what an earlier one gave.
    fn side(rnd: &mut SmallRng, keys: u8) -> (Snapshot, Vec<([u8; 1], [u8; 2], ZWeight)>) {
        let mut all = Vec::new();
        let batches = (0..rnd.random_range(0..4)).map(|_| {
            let row = |rnd: &mut SmallRng| {
                (
                    [rnd.random_range(0..keys)],
                    [rnd.random_range(0..3), rnd.random_range(0..30)],
                    rnd.random_range(-1..3),
                )
            };
            let made: Vec<_> = (0..rnd.random_range(0..40)).map(|_| row(rnd)).collect();
            let tuples: Vec<_> = made.iter().map(|(key, value, copies)| (&key[..], &value[..], *copies)).collect();
            all.extend_from_slice(&made);
            Arc::new(sorted::indexed(&tuples).into_inner())
        });
        let factories = BatchReaderFactories::new::<Row, Row, ZWeight>();
        (Snapshot::with_batches(&factories, batches.collect()), all)
    }

    fn added(pairs: impl Iterator<Item = (Vec<u8>, ZWeight)>) -> std::collections::BTreeMap<Vec<u8>, ZWeight> {
        let mut all = std::collections::BTreeMap::new();
        pairs.for_each(|(pair, copies)| *all.entry(pair).or_default() += copies);
        all.retain(|_, copies| *copies != 0);
        all
    }

    #[test]
    fn every_pair_comes_once_however_many_go_at_once() {
        let mut rnd = SmallRng::seed_from_u64(3);
        for round in 0..400 {
            let (keys, more) = [(3, 3), (1, 1), (40, 4), (4, 40)][round % 4];
            let ((change, own), (rows, others)) = (side(&mut rnd, keys), side(&mut rnd, more));
            let changed = [Side::Left, Side::Right][round % 2];
            let expected = added(own.iter().flat_map(|(key, value, copies)| {
                let met = others.iter().filter(move |(other, ..)| other == key);
                met.map(move |(_, other, more)| {
                    let (left, right) = if changed == Side::Left { (value, other) } else { (other, value) };
                    ([&key[..], left, right].concat(), copies * more)
                })
            }));
            for most in [1, 2, 5, 1_000] {
                let (mut meeting, mut got) = (Meeting::new(&change, &rows), Vec::new());
                loop {
                    let (pairs, weights) = meeting.next(changed, most);
                    assert!(weights.len() <= most);
                    got.extend(pairs.iter().map(<[u8]>::to_vec).zip(weights.iter().copied()));
                    if weights.len() < most {
                        break;
                    }
                }
                assert_eq!(added(got.into_iter()), expected, "round {round}, {most} at once");
            }
        }
    }
}
