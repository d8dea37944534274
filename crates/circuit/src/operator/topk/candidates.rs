//! Rows of a change that may be among the first of their group.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use dbsp::OrdIndexedZSet;
use smallvec::{SmallVec, smallvec};

use crate::codec::Encoded;
use crate::delta::Part;
use crate::read::Stretch;
use crate::row::Row;
use crate::sorted::{self, Tuple};
use crate::top::{Top, order_length};

/// A row, by its order and then by its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate<'a> {
    pub(super) order: &'a [u8],
    pub(super) row: &'a [u8],
    pub(super) copies: i64,
}

impl<'a> Candidate<'a> {
    fn place(&self) -> (&'a [u8], &'a [u8]) {
        (self.order, self.row)
    }
}

/// The rows of a part that may be among the first by their order alone, given that and their groups; `None` if all may.
/// So the columns of the others are never made bytes.
///
/// # Panics
/// When a row goes.
pub(super) fn leading(part: &Part, group: &Encoded, order: &Encoded, top: Top) -> Option<Part> {
    assert!(part.weights.values().iter().all(|copies| *copies > 0), "a row goes that only could come");
    let rows = u32::try_from(part.weights.len()).expect("a batch below 2^32 rows");
    let places = places(group, order, rows, most(top));
    (places.len() < part.weights.len()).then(|| part.taken(&places.into()))
}

/// How many rows of a group are kept.
fn most(top: Top) -> usize {
    usize::try_from(top.last).unwrap_or(0)
}

/// The places of rows that fewer than `most` rows of their group stand before.
fn places(group: &Encoded, order: &Encoded, rows: u32, most: usize) -> Vec<u32> {
    if most == 0 {
        return Vec::new();
    }
    let mut groups: HashMap<&[u8], SmallVec<[(&[u8], u32); 1]>, ahash::RandomState> = HashMap::default();
    for at in 0..rows {
        let own = order.row(at as usize);
        let known = groups.entry(group.row(at as usize)).or_default();
        match known.first().filter(|_| most == 1).map(|(first, _)| own.cmp(first)) {
            Some(Ordering::Greater) => continue,
            Some(Ordering::Less) => known.clear(),
            Some(Ordering::Equal) | None => {}
        }
        known.push((own, at));
    }
    let mut leading = Vec::new();
    for mut known in groups.into_values() {
        if most < known.len() {
            let (_, &mut (last, _), _) = known.select_nth_unstable(most - 1);
            known.retain(|(order, _)| *order <= last);
        }
        leading.extend(known.into_iter().map(|(_, at)| at));
    }
    leading.sort_unstable();
    leading
}

/// All rows by their group.
pub(super) fn all_of<'a>(candidates: impl Iterator<Item = (&'a [u8], Candidate<'a>)>) -> OrdIndexedZSet<Row, Row> {
    let (mut values, mut keys) = (Stretch::default(), Vec::new());
    for (group, Candidate { order, row, copies }) in candidates {
        values.push_parts(&[order, row, &order_length(order)]);
        keys.push((group, copies));
    }
    let tuples = keys.into_iter().zip(values.iter()).map(|((group, copies), value)| (group, value, copies));
    sorted::indexed(&tuples.collect::<Vec<_>>())
}

/// For each group the list of its first rows, which only come.
pub(super) fn first_of<'a>(
    candidates: impl Iterator<Item = (&'a [u8], Candidate<'a>)>,
    top: Top,
) -> OrdIndexedZSet<Row, Row> {
    let most = most(top);
    let mut firsts: HashMap<&[u8], SmallVec<[Candidate<'a>; 1]>, ahash::RandomState> = HashMap::default();
    for (group, candidate) in candidates {
        match firsts.entry(group) {
            Entry::Vacant(new) => {
                new.insert(smallvec![candidate]);
            }
            Entry::Occupied(mut known) => add(known.get_mut(), candidate, most),
        }
    }
    let (mut lists, mut groups, mut values) =
        (Stretch::default(), Vec::with_capacity(firsts.len()), Stretch::default());
    for (group, mut candidates) in firsts {
        trim(&mut candidates, most);
        values.clear();
        candidates
            .iter()
            .for_each(|Candidate { order, row, .. }| values.push_parts(&[order, row, &order_length(order)]));
        lists.push_parts(&[&top.list(values.iter().zip(candidates.iter().map(|candidate| candidate.copies)))]);
        groups.push(group);
    }
    let tuples: Vec<Tuple<'_>> = groups.into_iter().zip(lists.iter()).map(|(group, list)| (group, list, 1)).collect();
    sorted::indexed(&tuples)
}

/// How many times as many rows as are kept may wait to be sorted.
const WAITING: usize = 4;

fn add<'a>(known: &mut SmallVec<[Candidate<'a>; 1]>, candidate: Candidate<'a>, most: usize) {
    if most > 1 {
        known.push(candidate);
        if known.len() > most.saturating_mul(WAITING) {
            trim(known, most);
        }
    } else if candidate.place() < known[0].place() {
        known[0] = candidate;
    }
}

/// Leaves the first `most` rows, in order, each once.
fn trim(candidates: &mut SmallVec<[Candidate<'_>; 1]>, most: usize) {
    candidates.sort_unstable();
    candidates.dedup_by(|next, kept| {
        let same = next.place() == kept.place();
        if same {
            kept.copies = kept.copies.saturating_add(next.copies);
        }
        same
    });
    candidates.truncate(most.max(1));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use dbsp::utils::Tup2;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::top::Numbering;

    #[test]
    fn each_group_has_the_list_of_all_its_rows() {
        let mut rnd = SmallRng::seed_from_u64(5);
        for round in 0..400 {
            let last = [0, 1, 2, 5, 1_000][round % 5];
            let top = Top { numbering: Numbering::RowNumber, first: 1, last };
            let made: Vec<([u8; 1], [u8; 2], [u8; 1], i64)> = (0..rnd.random_range(0..200))
                .map(|_| {
                    let group = [rnd.random_range(0..4)];
                    (group, [1, rnd.random_range(0..6)], [rnd.random_range(0..3)], rnd.random_range(1..3))
                })
                .collect();
            let mut groups: BTreeMap<[u8; 1], BTreeMap<Vec<u8>, i64>> = BTreeMap::new();
            for (group, order, row, copies) in &made {
                let value = [&order[..], row, &order_length(order)].concat();
                *groups.entry(*group).or_default().entry(value).or_default() += copies;
            }
            let lists = groups.iter().map(|(group, values)| {
                let list = top.list(values.iter().map(|(value, copies)| (&value[..], *copies)));
                Tup2(Tup2(Row::new(group), Row::new(&list)), 1)
            });
            let candidates = made.iter().map(|(group, order, row, copies)| {
                (&group[..], Candidate { order: &order[..], row: &row[..], copies: *copies })
            });
            assert_eq!(first_of(candidates, top), OrdIndexedZSet::from_tuples((), lists.collect()), "round {round}");
        }
    }
}
