//! Z-sets made of bytes: places are sorted, most of them by their first bytes alone, and rows are made of what is left.
//!
//! The engine's own way makes a row of everything first, and sorts those.

use std::cmp::Ordering;

use dbsp::dynamic::Erase as _;
use dbsp::operator::dynamic::{MonoIndexedZSet, MonoZSet};
use dbsp::trace::{Batch, BatchReaderFactories, Builder as _};
use dbsp::{OrdIndexedZSet, OrdZSet, ZWeight};

use crate::row::Row;

/// A key, a value and a weight. No key is the start of another one.
pub(crate) type Tuple<'a> = (&'a [u8], &'a [u8], ZWeight);

/// The first bytes of a key and its value, in their order; zeros behind their end.
type Start = u128;

/// A Z-set by key: each key and value once, with its weight in sum, if that is not 0.
///
/// # Panics
/// When a sum of weights passes 63 bits.
pub(crate) fn indexed(tuples: &[Tuple<'_>]) -> OrdIndexedZSet<Row, Row> {
    let factories = BatchReaderFactories::new::<Row, Row, ZWeight>();
    let count = tuples.len();
    let mut builder = <MonoIndexedZSet as Batch>::Builder::with_capacity(&factories, count, count);
    let mut open: Option<&[u8]> = None;
    summed(tuples, |_, (key, value, mut weight)| {
        if let Some(before) = open.filter(|open| *open != key) {
            builder.push_key_mut(Row::new(before).erase_mut());
        }
        open = Some(key);
        builder.push_val_diff_mut(Row::new(value).erase_mut(), weight.erase_mut());
    });
    if let Some(last) = open {
        builder.push_key_mut(Row::new(last).erase_mut());
    }
    OrdIndexedZSet::new(builder.done())
}

/// A Z-set of keys alone; the values are empty.
///
/// # Panics
/// As [`indexed`].
pub(crate) fn rows(tuples: &[Tuple<'_>]) -> OrdZSet<Row> {
    let factories = BatchReaderFactories::new::<Row, (), ZWeight>();
    let mut builder = <MonoZSet as Batch>::Builder::with_capacity(&factories, tuples.len(), tuples.len());
    summed(tuples, |_, (key, _, mut weight)| {
        builder.push_val_diff_mut(().erase_mut(), weight.erase_mut());
        builder.push_key_mut(Row::new(key).erase_mut());
    });
    OrdZSet::new(builder.done())
}

/// Each key and value once, in their order, with the place of one of their tuples and a weight that is not 0.
///
/// # Panics
/// As [`indexed`].
pub(crate) fn summed<'a>(tuples: &[Tuple<'a>], mut take: impl FnMut(u32, Tuple<'a>)) {
    let places = 0u32..u32::try_from(tuples.len()).expect("a batch below 2^32 rows");
    let mut order: Vec<(Start, u32)> = places.zip(tuples).map(|(at, tuple)| (start(tuple), at)).collect();
    let tuple = |at: u32| &tuples[at as usize];
    order.sort_unstable_by(|(one, at), (other, other_at)| {
        one.cmp(other).then_with(|| compared(tuple(*at), tuple(*other_at)))
    });
    let mut rest = order.into_iter().peekable();
    while let Some((first, at)) = rest.next() {
        let (key, value, mut weight) = *tuple(at);
        while let Some((_, more)) =
            rest.next_if(|(next, at)| *next == first && compared(tuple(*at), &(key, value, weight)) == Ordering::Equal)
        {
            weight = weight.checked_add(tuple(more).2).expect("weights of one row within 63 bits");
        }
        if weight != 0 {
            take(at, (key, value, weight));
        }
    }
}

fn compared((key, value, _): &Tuple<'_>, (other_key, other_value, _): &Tuple<'_>) -> Ordering {
    key.cmp(other_key).then_with(|| value.cmp(other_value))
}

fn start((key, value, _): &Tuple<'_>) -> Start {
    let mut bytes = [0; size_of::<Start>()];
    let of_key = key.len().min(bytes.len());
    bytes[..of_key].copy_from_slice(&key[..of_key]);
    let of_value = value.len().min(bytes.len() - of_key);
    bytes[of_key..of_key + of_value].copy_from_slice(&value[..of_value]);
    Start::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use dbsp::utils::Tup2;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Rows of a few bytes and lengths: many are equal, many have equal starts. The first byte tells a key's length.
    fn some(rnd: &mut SmallRng, longest: usize) -> Vec<u8> {
        let length = rnd.random_range(0..longest);
        let mut bytes = vec![u8::try_from(length).unwrap()];
        bytes.extend((0..length).map(|_| [0, 1, 255][usize::from(rnd.random_ratio(1, 9)) + rnd.random_range(0..2)]));
        bytes
    }

    #[test]
    fn what_is_made_is_what_the_engine_makes() {
        let mut rnd = SmallRng::seed_from_u64(7);
        for round in 0..200 {
            let longest = [2, 4, 18, 40][round % 4];
            let made: Vec<_> = (0..rnd.random_range(0..300))
                .map(|_| (some(&mut rnd, longest), some(&mut rnd, longest), rnd.random_range(-2..3)))
                .collect();
            let tuples: Vec<Tuple<'_>> =
                made.iter().map(|(key, value, weight)| (&key[..], &value[..], *weight)).collect();
            let engines = made.iter().map(|(key, value, weight)| Tup2(Tup2(Row::new(key), Row::new(value)), *weight));
            assert_eq!(indexed(&tuples), OrdIndexedZSet::from_tuples((), engines.collect()), "round {round}");
            let keys: Vec<Tuple<'_>> = tuples.iter().map(|(key, _, weight)| (*key, &[][..], *weight)).collect();
            let engines = made.iter().map(|(key, _, weight)| Tup2(Row::new(key), *weight));
            assert_eq!(rows(&keys), OrdZSet::from_keys((), engines.collect()), "round {round}");
        }
    }

    #[test]
    #[should_panic(expected = "within 63 bits")]
    fn weights_that_wrap_are_refused() {
        indexed(&[(&[1], &[], i64::MAX), (&[1], &[], 1)]);
    }
}
