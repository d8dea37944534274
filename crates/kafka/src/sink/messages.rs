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
    headers: Vec<(String, Option<Range<usize>>)>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its hash chooses the partition, as Java's producer does; without a key chance does.
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Names and values, in their order.
    pub headers: Vec<(&'a str, Option<&'a [u8]>)>,
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
        self.entries.push(Entry { key, value, headers: Vec::new() });
    }

    /// Adds one as it is.
    pub fn push_bytes(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        let mut write = |part: Option<&[u8]>| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(part?);
            Some(start..self.bytes.len())
        };
        let (key, value) = (write(key), write(value));
        self.entries.push(Entry { key, value, headers: Vec::new() });
    }

    /// Adds a header to the last one.
    ///
    /// # Panics
    /// Without one.
    pub fn push_header(&mut self, name: &str, value: Option<&[u8]>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let range = value.map(|_| start..self.bytes.len());
        let last = self.entries.last_mut().expect("a header is of a message");
        last.headers.push((name.to_owned(), range));
    }

    /// Memory of all of them, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>()
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
        self.entries.iter().map(move |entry| Message {
            key: part(&entry.key),
            value: part(&entry.value),
            headers: entry.headers.iter().map(|(name, value)| (name.as_str(), part(value))).collect(),
        })
    }
}
