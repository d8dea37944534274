//! Encodes whole numbers of 32 and 64 bits: by a dictionary while that is small, else as the file's
//! choice says.

use parquet::basic::Encoding;
use parquet::file::statistics::{Statistics, ValueStatistics};

use super::dictionary::Numbers;
use super::pack::put_deltas;
use super::{Dictionary, Index};

/// See the module.
#[derive(Debug)]
pub(super) struct NumberEncoder {
    /// Is Parquet's type of 32 bits?
    narrow: bool,
    direct: Encoding,
    dictionary: Option<Dictionary<Numbers>>,
    /// Least and greatest of values that the dictionary does not have.
    bounds: Option<(i64, i64)>,
    /// Of the page.
    numbers: Vec<i64>,
}

impl NumberEncoder {
    pub(super) fn new(narrow: bool, dictionary: bool, direct: Encoding) -> Self {
        let dictionary = dictionary.then(|| Dictionary::new(Numbers::new()));
        Self { narrow, direct, dictionary, bounds: None, numbers: Vec::new() }
    }

    pub(super) fn write(&mut self, numbers: &[i64]) {
        match &mut self.dictionary {
            Some(Dictionary { values, indices }) => {
                indices.extend(numbers.iter().map(|&number| values.number(number)));
            }
            None => {
                self.widen(numbers);
                self.numbers.extend_from_slice(numbers);
            }
        }
    }

    fn widen(&mut self, numbers: &[i64]) {
        if let (Some(&low), Some(&high)) = (numbers.iter().min(), numbers.iter().max()) {
            let (least, greatest) = self.bounds.unwrap_or((low, high));
            self.bounds = Some((least.min(low), greatest.max(high)));
        }
    }

    /// Ends the page: its values as they stand in it.
    pub(super) fn put_page(&mut self, out: &mut Vec<u8>) -> Encoding {
        if let Some(Dictionary { values, indices }) = &mut self.dictionary {
            return Index::put_page(indices, values.values().len(), out);
        }
        match self.direct {
            Encoding::DELTA_BINARY_PACKED => put_deltas(&self.numbers, self.narrow, out),
            _ => put_plain(&self.numbers, self.narrow, out),
        }
        self.numbers.clear();
        self.direct
    }

    /// About as long as the page would be if it ended here.
    pub(super) fn page_bytes(&self) -> usize {
        match &self.dictionary {
            Some(Dictionary { indices, .. }) => indices.len(),
            None => self.numbers.len() * self.value_bytes(),
        }
    }

    pub(super) fn dictionary_bytes(&self) -> usize {
        self.dictionary.as_ref().map_or(0, |dictionary| dictionary.values.values().len() * self.value_bytes())
    }

    /// Ends the dictionary, between two pages: its page, and how many values that has.
    pub(super) fn take_dictionary(&mut self) -> Option<(Vec<u8>, usize)> {
        let Dictionary { values, .. } = self.dictionary.take()?;
        self.widen(values.values());
        let mut page = Vec::new();
        put_plain(values.values(), self.narrow, &mut page);
        Some((page, values.values().len()))
    }

    pub(super) fn statistics(&self, nulls: u64) -> Statistics {
        let (low, high) = self.bounds.unzip();
        // Old readers know the fields for bounds of signed numbers alone, and may have these.
        if self.narrow {
            let narrow = |bound: Option<i64>| bound.map(|bound| bound as i32);
            let found = ValueStatistics::new(narrow(low), narrow(high), None, Some(nulls), false);
            return found.with_backwards_compatible_min_max(true).into();
        }
        ValueStatistics::new(low, high, None, Some(nulls), false).with_backwards_compatible_min_max(true).into()
    }

    pub(super) fn held_bytes(&self) -> usize {
        let dictionary =
            self.dictionary.as_ref().map_or(0, |it| it.values.held_bytes() + Index::held_bytes(&it.indices));
        dictionary + self.numbers.capacity() * size_of::<i64>()
    }

    fn value_bytes(&self) -> usize {
        if self.narrow { size_of::<i32>() } else { size_of::<i64>() }
    }
}

fn put_plain(numbers: &[i64], narrow: bool, out: &mut Vec<u8>) {
    if narrow {
        out.extend(numbers.iter().flat_map(|&number| (number as i32).to_le_bytes()));
    } else {
        out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }
}
