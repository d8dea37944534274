//! The least and the greatest text of a column.
//!
//! Texts are compared by their bytes, which is the order of Parquet and, for UTF-8, of code points.

use parquet::data_type::ByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};

use crate::encode::stats::PARQUET_BOUND_BYTES;

/// Both bounds of what was seen; none as long as that is nothing.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    both: Option<(Vec<u8>, Vec<u8>)>,
}

impl Bounds {
    /// Takes values in.
    pub(super) fn see<'a>(&mut self, mut values: impl Iterator<Item = &'a [u8]>) {
        let Some(first) = values.next() else { return };
        let mut low = (key(first), first);
        let mut high = low;
        for value in values {
            let key = key(value);
            // The tuple's second part is only looked at where the keys are equal.
            if key <= low.0 && (key, value) < low {
                low = (key, value);
            }
            if key >= high.0 && (key, value) > high {
                high = (key, value);
            }
        }
        self.widen(low.1, high.1);
    }

    /// Takes in what lies between two values, both of them included.
    pub(super) fn widen(&mut self, low: &[u8], high: &[u8]) {
        match &mut self.both {
            None => self.both = Some((low.to_vec(), high.to_vec())),
            Some((least, greatest)) => {
                if low < least.as_slice() {
                    low.clone_into(least);
                }
                if high > greatest.as_slice() {
                    high.clone_into(greatest);
                }
            }
        }
    }

    /// For the file's footer: long bounds are cut, outwards. `utf8`: what is cut is text still.
    pub(super) fn statistics(&self, nulls: u64, utf8: bool) -> Statistics {
        let statistics = |low: Option<Vec<u8>>, high: Option<Vec<u8>>| {
            let bytes = |bound: Vec<u8>| ByteArray::from(bound);
            ValueStatistics::<ByteArray>::new(low.map(bytes), high.map(bytes), None, Some(nulls), false)
        };
        let Some((least, greatest)) = &self.both else { return statistics(None, None).into() };
        let low = cut_low(least, utf8);
        let high = cut_high(greatest, utf8).unwrap_or_else(|| greatest.clone());
        let exact = (low == least.as_slice(), &high == greatest);
        statistics(Some(low.to_vec()), Some(high)).with_min_is_exact(exact.0).with_max_is_exact(exact.1).into()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.both.as_ref().map_or(0, |(least, greatest)| least.capacity() + greatest.capacity())
    }
}

/// Sorts as the value does, where two keys differ.
fn key(value: &[u8]) -> u64 {
    value.first_chunk().copied().map(u64::from_be_bytes).unwrap_or_else(|| {
        let mut bytes = [0; 8];
        bytes[..value.len()].copy_from_slice(value);
        u64::from_be_bytes(bytes)
    })
}

/// How much of a long value is kept: whole characters.
fn kept(value: &[u8], utf8: bool) -> &[u8] {
    let mut end = value.len().min(PARQUET_BOUND_BYTES);
    while utf8 && end > 0 && value.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
        end -= 1;
    }
    &value[..end]
}

/// A prefix sorts before what it is a prefix of.
fn cut_low(value: &[u8], utf8: bool) -> &[u8] {
    kept(value, utf8)
}

/// Something short that sorts after all that begins as the value does; `None` where there is none, or
/// nothing to cut.
fn cut_high(value: &[u8], utf8: bool) -> Option<Vec<u8>> {
    let kept = kept(value, utf8);
    if kept.len() == value.len() {
        return None;
    }
    if utf8 {
        let text = std::str::from_utf8(kept).ok()?;
        return text.char_indices().rev().find_map(|(at, c)| {
            let next = (c..=char::MAX).nth(1)?;
            Some(format!("{}{next}", &text[..at]).into_bytes())
        });
    }
    let at = kept.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut high = kept[..=at].to_vec();
    high[at] += 1;
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(values: &[&[u8]], utf8: bool) -> (Vec<u8>, Vec<u8>, bool, bool) {
        let mut bounds = Bounds::default();
        values.chunks(3).for_each(|some| bounds.see(some.iter().copied()));
        let Statistics::ByteArray(found) = bounds.statistics(0, utf8) else { unreachable!() };
        let bytes = |bound: Option<&ByteArray>| bound.unwrap().data().to_vec();
        (bytes(found.min_opt()), bytes(found.max_opt()), found.min_is_exact(), found.max_is_exact())
    }

    #[test]
    fn bounds_are_of_the_bytes() {
        let values: [&[u8]; 9] =
            [b"b", b"abcdefghz", b"abcdefgh", b"a\0", b"a", b"\xff", b"abcdefghzz", b"\xfe\xff", b"b"];
        let mut sorted = values;
        sorted.sort_unstable();
        assert_eq!(bounds(&values, false), (sorted[0].to_vec(), sorted[8].to_vec(), true, true));
        assert_eq!(bounds(&[b"", b"\0"], false), (vec![], vec![0], true, true));
        assert!(Bounds::default().statistics(3, true).min_bytes_opt().is_none());
    }

    #[test]
    fn long_bounds_are_cut_outwards() {
        let most = PARQUET_BOUND_BYTES;
        let text = |c: char, more: &str| format!("{}{more}", c.to_string().repeat(most)).into_bytes();
        let cut = |c: char, next: char| {
            let length = most / c.len_utf8();
            let low = c.to_string().repeat(length);
            (low.clone().into_bytes(), format!("{}{next}", c.to_string().repeat(length - 1)).into_bytes(), false, false)
        };
        for (c, next) in [('a', 'b'), ('é', 'ê'), ('\u{7f}', '\u{80}'), ('\u{d7ff}', '\u{e000}'), ('😀', '😁')] {
            assert_eq!(bounds(&[&text(c, "x")], true), cut(c, next), "{c:?}");
        }
        let greatest = text(char::MAX, "");
        let (low, high, exact_low, exact_high) = bounds(&[&greatest], true);
        assert!(low < high && high == greatest && exact_high && !exact_low, "nothing sorts after it");
        let bytes = [&[1, 2][..], &vec![0xff; most]].concat();
        assert_eq!(bounds(&[&bytes], false), (bytes[..most].to_vec(), vec![1, 3], false, false));
    }
}
