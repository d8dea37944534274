//! Encodes texts and bytes: by a dictionary while that is small, else as the file's choice says.

use std::ops::Range;

use parquet::basic::Encoding;
use parquet::file::statistics::Statistics;

use super::bounds::Bounds;
use super::dictionary::Texts;
use super::pack::put_deltas;
use super::{Dictionary, Index};

/// Values of Arrow's layout, none of them NULL.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    pub(super) offsets: &'a [i32],
    pub(super) bytes: &'a [u8],
}

impl<'a> Values<'a> {
    fn get(self, n: usize) -> &'a [u8] {
        &self.bytes[self.offsets[n] as usize..self.offsets[n + 1] as usize]
    }

    fn of(self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> {
        self.offsets[range.start..=range.end]
            .windows(2)
            .map(move |ends| &self.bytes[ends[0] as usize..ends[1] as usize])
    }

    /// Bytes of some values.
    pub(super) fn length(self, range: Range<usize>) -> usize {
        (self.offsets[range.end] - self.offsets[range.start]) as usize
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct TextEncoder {
    utf8: bool,
    direct: Encoding,
    dictionary: Option<Dictionary<Texts>>,
    /// Of values that the dictionary does not have; its own are taken from it.
    bounds: Bounds,
    /// Of the page: bytes, and as the encoding needs them the lengths of values and of what they
    /// share with the one before.
    bytes: Vec<u8>,
    lengths: Vec<i32>,
    shared: Vec<i32>,
    /// The page's value before.
    last: Vec<u8>,
}

impl TextEncoder {
    pub(super) fn new(utf8: bool, dictionary: bool, direct: Encoding) -> Self {
        Self {
            utf8,
            direct,
            dictionary: dictionary.then(|| Dictionary::new(Texts::new())),
            bounds: Bounds::default(),
            bytes: Vec::new(),
            lengths: Vec::new(),
            shared: Vec::new(),
            last: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, values: Values<'_>, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if let Some(Dictionary { values: known, indices }) = &mut self.dictionary {
            indices.extend(values.of(range).map(|value| known.number(value)));
            return;
        }
        if self.direct == Encoding::DELTA_BYTE_ARRAY {
            return self.write_front_coded(values, range);
        }
        self.bounds.see(values.of(range.clone()));
        if self.direct == Encoding::PLAIN {
            for value in values.of(range) {
                self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
                self.bytes.extend_from_slice(value);
            }
            return;
        }
        let offsets = &values.offsets[range.start..=range.end];
        self.lengths.extend(offsets.windows(2).map(|ends| ends[1] - ends[0]));
        self.bytes.extend_from_slice(&values.bytes[offsets[0] as usize..offsets[range.len()] as usize]);
    }

    /// Values that grow are known to be the greatest without a comparison of their own, which is what
    /// times do; likewise the least.
    fn write_front_coded(&mut self, values: Values<'_>, range: Range<usize>) {
        let first = values.get(range.start);
        let (mut low, mut high) = (first, first);
        let (mut low_at, mut high_at) = (0, 0);
        let mut last = std::mem::take(&mut self.last);
        let mut before: &[u8] = &last;
        for (n, value) in values.of(range.clone()).enumerate() {
            let shared = shared(before, value);
            self.shared.push(shared as i32);
            self.lengths.push((value.len() - shared) as i32);
            self.bytes.extend_from_slice(&value[shared..]);
            if n > 0 {
                if value.get(shared) > before.get(shared) {
                    if high_at + 1 == n || value > high {
                        (high, high_at) = (value, n);
                    }
                } else if low_at + 1 == n || value < low {
                    (low, low_at) = (value, n);
                }
            }
            before = value;
        }
        let end = values.get(range.end - 1);
        last.clear();
        last.extend_from_slice(end);
        self.last = last;
        self.bounds.widen(low, high);
    }

    /// Ends the page: its values as they stand in it.
    pub(super) fn put_page(&mut self, out: &mut Vec<u8>) -> Encoding {
        if let Some(Dictionary { values, indices }) = &mut self.dictionary {
            return Index::put_page(indices, values.len(), out);
        }
        match self.direct {
            Encoding::DELTA_BYTE_ARRAY => {
                put_deltas(&self.shared, true, out);
                put_deltas(&self.lengths, true, out);
            }
            Encoding::DELTA_LENGTH_BYTE_ARRAY => put_deltas(&self.lengths, true, out),
            _ => {}
        }
        out.extend_from_slice(&self.bytes);
        self.bytes.clear();
        self.lengths.clear();
        self.shared.clear();
        self.last.clear();
        self.direct
    }

    /// About as long as the page would be if it ended here.
    pub(super) fn page_bytes(&self) -> usize {
        match &self.dictionary {
            Some(Dictionary { indices, .. }) => indices.len(),
            None => self.bytes.len() + self.lengths.len(),
        }
    }

    pub(super) fn dictionary_bytes(&self) -> usize {
        self.dictionary.as_ref().map_or(0, |dictionary| dictionary.values.page().len())
    }

    /// Ends the dictionary, between two pages: its page, and how many values that has.
    pub(super) fn take_dictionary(&mut self) -> Option<(Vec<u8>, usize)> {
        let Dictionary { values, .. } = self.dictionary.take()?;
        self.bounds.see(values.values());
        let count = values.len();
        Some((values.into_page(), count))
    }

    pub(super) fn statistics(&self, nulls: u64) -> Statistics {
        self.bounds.statistics(nulls, self.utf8)
    }

    pub(super) fn held_bytes(&self) -> usize {
        let dictionary =
            self.dictionary.as_ref().map_or(0, |it| it.values.held_bytes() + Index::held_bytes(&it.indices));
        let lengths = (self.lengths.capacity() + self.shared.capacity()) * size_of::<i32>();
        dictionary + lengths + self.bytes.capacity() + self.last.capacity() + self.bounds.held_bytes()
    }
}

/// How many bytes two values begin with alike.
fn shared(a: &[u8], b: &[u8]) -> usize {
    let mut alike = 0;
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return alike + differ.trailing_zeros() as usize / 8;
        }
        alike += 8;
    }
    alike + a[alike..].iter().zip(&b[alike..]).take_while(|(a, b)| a == b).count()
}
