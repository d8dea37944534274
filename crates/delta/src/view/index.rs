//! From a row's digest to where it lies: the file's number and the row's.
//!
//! 24 bytes an entry and 1 of the map's own, at 44 to 88 % filling: 29 to 57 bytes a live row. Cut
//! into shards, so that growing moves a small part at a time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// What names a row: see [`super::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub [u64; 2]);

/// Where a row lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// As the view numbers files.
    pub file: u32,
    /// Its number among all rows of the file, dead ones included, from 0.
    pub row: u32,
}

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
    }
}

/// Digests are hashed already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("digests alone are hashed by this");
    }

    fn write_u64(&mut self, hashed: u64) {
        self.0 = hashed;
    }
}

pub(crate) type DigestMap<V> = HashMap<Digest, V, BuildHasherDefault<AsIs>>;

/// See [`Index`].
const SHARDS: usize = 64;

/// Every live row of a table. A digest may have several places where rows have no key: the first is
/// in the map, the others beside it.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Vec<DigestMap<Place>>,
    more: DigestMap<Vec<Place>>,
}

impl Default for Index {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| DigestMap::default()).collect(), more: DigestMap::default() }
    }
}

impl Index {
    fn shard(&self, digest: Digest) -> &DigestMap<Place> {
        &self.shards[Self::shard_of(digest)]
    }

    /// By bits that the maps do not look at.
    fn shard_of(digest: Digest) -> usize {
        usize::try_from(digest.0[1] % SHARDS as u64).expect("a small number")
    }

    /// Live rows.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(DigestMap::len).sum::<usize>() + self.more.values().map(Vec::len).sum::<usize>()
    }

    /// Where the rows of this digest are; those that are quickest to remove come first.
    pub(crate) fn places(&self, digest: Digest) -> impl Iterator<Item = Place> + '_ {
        let more = self.more.get(&digest).into_iter().flatten().rev();
        more.chain(self.shard(digest).get(&digest)).copied()
    }

    /// One row more.
    pub(crate) fn add(&mut self, digest: Digest, place: Place) {
        match self.shards[Self::shard_of(digest)].entry(digest) {
            std::collections::hash_map::Entry::Vacant(entry) => _ = entry.insert(place),
            std::collections::hash_map::Entry::Occupied(_) => self.more.entry(digest).or_default().push(place),
        }
    }

    /// The row of this digest at this place is no more.
    ///
    /// # Panics
    /// When it was not there.
    pub(crate) fn remove(&mut self, digest: Digest, place: Place) {
        let shard = &mut self.shards[Self::shard_of(digest)];
        let first = shard.get_mut(&digest).unwrap_or_else(|| panic!("no row at {place:?} to remove"));
        let Some(more) = self.more.get_mut(&digest) else {
            assert_eq!(*first, place, "the row removed is the row indexed");
            shard.remove(&digest);
            return;
        };
        if *first == place {
            *first = more.pop().expect("no list is kept empty");
        } else {
            let at = more.iter().rposition(|other| *other == place);
            more.swap_remove(at.unwrap_or_else(|| panic!("no row at {place:?} to remove")));
        }
        if more.is_empty() {
            self.more.remove(&digest);
        }
    }

    /// The row of this digest moved.
    pub(crate) fn relocate(&mut self, digest: Digest, from: Place, to: Place) {
        self.remove(digest, from);
        self.add(digest, to);
    }

    /// Forgets rows by where they lie.
    pub(crate) fn retain(&mut self, keep: impl Fn(Place) -> bool) {
        let Self { shards, more } = self;
        more.retain(|_, places| {
            places.retain(|place| keep(*place));
            !places.is_empty()
        });
        for shard in shards {
            shard.retain(|digest, first| {
                if keep(*first) {
                    return true;
                }
                let Some(others) = more.get_mut(digest) else { return false };
                *first = others.pop().expect("no list is kept empty");
                if others.is_empty() {
                    more.remove(digest);
                }
                true
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn an_entry_is_as_small_as_said() {
        assert_eq!(size_of::<(Digest, Place)>(), 24);
    }

    #[test]
    fn it_is_a_bag_of_places() {
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut index, mut model) = (Index::default(), BTreeSet::new());
        for step in 0..20_000_u32 {
            let key = rng.random_range(0..50_u64);
            let digest = Digest([key, key]);
            match rng.random_range(0..100) {
                0..55 => {
                    let place = Place { file: step % 5, row: step };
                    index.add(digest, place);
                    model.insert((key, place));
                }
                55..99 => {
                    let places: Vec<_> = index.places(digest).collect();
                    if let Some(place) = places.get(rng.random_range(0..places.len().max(1))) {
                        index.remove(digest, *place);
                        assert!(model.remove(&(key, *place)));
                    }
                }
                _ => {
                    let file = rng.random_range(0..5);
                    index.retain(|place| place.file != file);
                    model.retain(|(_, place)| place.file != file);
                }
            }
            assert_eq!(index.len(), model.len());
            let mut found: Vec<_> = index.places(digest).collect();
            found.sort_unstable();
            let expected: Vec<_> = model.iter().filter(|(k, _)| *k == key).map(|(_, place)| *place).collect();
            assert_eq!(found, expected);
        }
    }
}
