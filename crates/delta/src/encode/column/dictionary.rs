//! The distinct values of a column, numbered as they come.
//!
//! Numbers depend on the values alone, never on their hashes, so the same rows give the same bytes.
//! Hashes have a seed of their own: nobody who writes to a topic can choose values that collide.

/// No value here.
const EMPTY: u32 = u32::MAX;

/// Places of a new table: few, as files with few rows have few values.
const FIRST_PLACES: usize = 64;

/// A factor of no structure, so that products mix all bits.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Finds values by their hashes; the values lie elsewhere.
#[derive(Debug)]
struct Table {
    /// A power of two, at least twice as many as there are values.
    places: Vec<u32>,
    /// Of each value, by its number.
    hashes: Vec<u64>,
}

impl Default for Table {
    fn default() -> Self {
        Self { places: vec![EMPTY; FIRST_PLACES], hashes: Vec::new() }
    }
}

impl Table {
    /// The value's number, or where to put it.
    fn find(&self, hash: u64, same: impl Fn(usize) -> bool) -> Result<u32, usize> {
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let number = self.places[place];
            if number == EMPTY {
                return Err(place);
            }
            if self.hashes[number as usize] == hash && same(number as usize) {
                return Ok(number);
            }
            place = (place + 1) & mask;
        }
    }

    fn add(&mut self, hash: u64, place: usize) -> u32 {
        let number = u32::try_from(self.hashes.len()).expect("a dictionary is bounded in bytes");
        self.hashes.push(hash);
        self.places[place] = number;
        if self.hashes.len() * 2 > self.places.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let mut places = vec![EMPTY; self.places.len() * 2];
        let mask = places.len() - 1;
        for (number, hash) in (0..).zip(&self.hashes) {
            let mut place = *hash as usize & mask;
            while places[place] != EMPTY {
                place = (place + 1) & mask;
            }
            places[place] = number;
        }
        self.places = places;
    }

    fn held_bytes(&self) -> usize {
        self.places.capacity() * size_of::<u32>() + self.hashes.capacity() * size_of::<u64>()
    }
}

/// Distinct texts.
#[derive(Debug)]
pub(super) struct Texts {
    seed: u64,
    table: Table,
    /// Each value after its length: what the dictionary's page holds.
    page: Vec<u8>,
    /// Where each value lies in the page.
    spans: Vec<(usize, usize)>,
}

impl Texts {
    pub(super) fn new() -> Self {
        Self { seed: seed(), table: Table::default(), page: Vec::new(), spans: Vec::new() }
    }

    /// The value's number.
    pub(super) fn number(&mut self, value: &[u8]) -> u32 {
        let hash = hash(value, self.seed);
        let same = |number: usize| {
            let (from, to) = self.spans[number];
            &self.page[from..to] == value
        };
        match self.table.find(hash, same) {
            Ok(number) => number,
            Err(place) => {
                let length = u32::try_from(value.len()).expect("Arrow's texts are shorter than 2 GiB");
                self.page.extend_from_slice(&length.to_le_bytes());
                let from = self.page.len();
                self.page.extend_from_slice(value);
                self.spans.push((from, self.page.len()));
                self.table.add(hash, place)
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|&(from, to)| &self.page[from..to])
    }

    pub(super) fn page(&self) -> &[u8] {
        &self.page
    }

    pub(super) fn into_page(self) -> Vec<u8> {
        self.page
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.table.held_bytes() + self.page.capacity() + self.spans.capacity() * size_of::<(usize, usize)>()
    }
}

/// Distinct whole numbers.
#[derive(Debug)]
pub(super) struct Numbers {
    seed: u64,
    table: Table,
    values: Vec<i64>,
}

impl Numbers {
    pub(super) fn new() -> Self {
        Self { seed: seed(), table: Table::default(), values: Vec::new() }
    }

    /// The value's number.
    pub(super) fn number(&mut self, value: i64) -> u32 {
        let hash = fold(value as u64 ^ self.seed, MIX);
        match self.table.find(hash, |number| self.values[number] == value) {
            Ok(number) => number,
            Err(place) => {
                self.values.push(value);
                self.table.add(hash, place)
            }
        }
    }

    pub(super) fn values(&self) -> &[i64] {
        &self.values
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.table.held_bytes() + self.values.capacity() * size_of::<i64>()
    }
}

fn seed() -> u64 {
    ahash::RandomState::default().hash_one(MIX)
}

fn hash(value: &[u8], seed: u64) -> u64 {
    let mut state = fold(seed ^ value.len() as u64, MIX);
    let mut rest = value;
    while rest.len() > 16 {
        state = fold(word(rest) ^ state, word(&rest[8..]) ^ seed);
        rest = &rest[16..];
    }
    let (first, last) = match rest.len() {
        8.. => (word(rest), word(&rest[rest.len() - 8..])),
        4.. => (half(rest), half(&rest[rest.len() - 4..])),
        1.. => (u64::from(rest[0]) << 8 | u64::from(rest[rest.len() / 2]), u64::from(rest[rest.len() - 1])),
        0 => (0, 0),
    };
    fold(fold(first ^ state, last ^ seed), MIX)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn half(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes).into())
}

/// Both halves of a product as one.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_number_and_others_their_own() {
        let mut texts = Texts::new();
        let values: Vec<Vec<u8>> = (0..2000_usize).map(|n| format!("{n}").repeat(n % 19).into_bytes()).collect();
        let mut seen: Vec<&[u8]> = Vec::new();
        for value in values.iter().chain(&values) {
            let place = seen.iter().position(|other| other == value).unwrap_or_else(|| {
                seen.push(value);
                seen.len() - 1
            });
            assert_eq!(texts.number(value) as usize, place, "{value:?}");
        }
        assert_eq!(texts.values().collect::<Vec<_>>(), seen);
        assert_eq!(texts.len(), seen.len());
        let mut numbers = Numbers::new();
        for round in 0..2 {
            for n in 0..1000_u32 {
                assert_eq!(numbers.number(i64::from(n) * i64::from(n) - 7), n, "round {round}");
            }
        }
        assert_eq!(numbers.values().len(), 1000);
    }
}
