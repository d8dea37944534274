//! A step's change as messages, on its way to one transaction.

use std::ops::Range;

/// Messages of one commit, in the order in which they are produced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its hash chooses the partition, as Java's producer does; without a key chance does.
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
}

impl Messages {
    /// Adds one; each part that is there is written by its function, at the end of what it is given.
    pub fn push(&mut self, key: Option<&dyn Fn(&mut Vec<u8>)>, value: Option<&dyn Fn(&mut Vec<u8>)>) {
        let mut write = |part: Option<&dyn Fn(&mut Vec<u8>)>| {
            let start = self.bytes.len();
            part?(&mut self.bytes);
            Some(start..self.bytes.len())
        };
        let (key, value) = (write(key), write(value));
        self.entries.push(Entry { key, value });
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        let part = |range: &Option<Range<usize>>| range.clone().map(|range| &self.bytes[range]);
        self.entries.iter().map(move |entry| Message { key: part(&entry.key), value: part(&entry.value) })
    }
}
