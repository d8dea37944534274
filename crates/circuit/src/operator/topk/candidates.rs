//! Rows of a change that may be among the first of their group.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use dbsp::OrdIndexedZSet;
use smallvec::{SmallVec, smallvec};

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

/// For each group the list of its first rows.
///
/// # Panics
/// When a row goes.
pub(super) fn first_of<'a>(
    candidates: impl Iterator<Item = (&'a [u8], Candidate<'a>)>,
    top: Top,
) -> OrdIndexedZSet<Row, Row> {
    let most = usize::try_from(top.last).unwrap_or(0);
    let mut firsts: HashMap<&[u8], SmallVec<[Candidate<'a>; 1]>, ahash::RandomState> = HashMap::default();
    for (group, candidate) in candidates {
        assert!(candidate.copies > 0, "a row goes that only could come: {} copies", candidate.copies);
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
