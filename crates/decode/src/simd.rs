//! The crate's only `unsafe`: vector loads over message bytes, and strings known to be UTF-8.
#![allow(unsafe_code, reason = "vector loads, and arrays whose UTF-8 is known, halve the time a message takes")]

use arrow_array::StringArray;
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

/// The first byte at or after `from` that ends or escapes a string: a quote, a backslash or a control character.
/// `bytes.len()` when there is none.
#[inline(always)]
pub(crate) fn find_special(bytes: &[u8], mut from: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        while let Some(block) = bytes.get(from..).and_then(<[u8]>::first_chunk::<{ vector::WIDTH }>) {
            let (mask, _) = vector::marks(block);
            if mask != 0 {
                return from + mask.trailing_zeros() as usize;
            }
            from += vector::WIDTH;
        }
        if let Some(block) = bytes.last_chunk::<{ vector::WIDTH }>()
            && from < bytes.len()
        {
            // The last bytes, those before `from` among them.
            let start = bytes.len() - vector::WIDTH;
            let mask = vector::marks(block).0 >> (from - start);
            return if mask == 0 { bytes.len() } else { from + mask.trailing_zeros() as usize };
        }
    }
    find_special_tail(bytes, from)
}

/// Eight bytes at a time, then one.
#[inline]
fn find_special_tail(bytes: &[u8], mut from: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    while let Some(word) = bytes.get(from..from + 8) {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        let (quote, slash) = (word ^ (ONES * b'"' as u64), word ^ (ONES * b'\\' as u64));
        let zero = |x: u64| x.wrapping_sub(ONES) & !x;
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (zero(quote) | zero(slash) | control) & HIGH;
        if found != 0 {
            // Borrows only ever disturb bytes above the first hit.
            return from + found.trailing_zeros() as usize / 8;
        }
        from += 8;
    }
    while from < bytes.len() && !matches!(bytes[from], b'"' | b'\\' | 0..0x20) {
        from += 1;
    }
    from
}

#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
mod vector {
    use std::arch::x86_64::{
        __m256i, _mm256_cmpeq_epi8, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
    };

    pub(super) const WIDTH: usize = 32;

    /// Which bytes `find_special` finds, and which are no ASCII.
    #[inline(always)]
    pub(super) fn marks(bytes: &[u8; WIDTH]) -> (u32, u32) {
        // SAFETY: a vector of bytes has the bits of an array of as many; the feature is on for the whole build.
        unsafe {
            let block = std::mem::transmute::<[u8; WIDTH], __m256i>(*bytes);
            let quote = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'"' as i8));
            let slash = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'\\' as i8));
            let control = _mm256_cmpeq_epi8(_mm256_min_epu8(block, _mm256_set1_epi8(0x1f)), block);
            let special = _mm256_movemask_epi8(_mm256_or_si256(_mm256_or_si256(quote, slash), control));
            (special.cast_unsigned(), _mm256_movemask_epi8(block).cast_unsigned())
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod vector {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};

    pub(super) const WIDTH: usize = 16;

    /// Which bytes `find_special` finds, and which are no ASCII.
    #[inline(always)]
    pub(super) fn marks(bytes: &[u8; WIDTH]) -> (u32, u32) {
        // SAFETY: a vector of bytes has the bits of an array of as many; SSE2 is part of x86-64.
        unsafe {
            let block = std::mem::transmute::<[u8; WIDTH], __m128i>(*bytes);
            let quote = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
            let slash = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
            let control = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
            let special = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control));
            (special.cast_unsigned(), _mm_movemask_epi8(block).cast_unsigned())
        }
    }
}

/// `bytes.is_ascii()`, in wide steps.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let (blocks, rest) = bytes.as_chunks::<{ vector::WIDTH }>();
        let high = |block: &[u8; vector::WIDTH]| vector::marks(block).1;
        let all = blocks.iter().fold(0, |all, block| all | high(block));
        let rest = match bytes.last_chunk() {
            Some(block) => high(block),
            None => u32::from(!rest.is_ascii()),
        };
        all | rest == 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    bytes.is_ascii()
}

/// `std::str::from_utf8`, quicker on ASCII.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, std::str::Utf8Error> {
    if is_ascii(bytes) {
        // SAFETY: ASCII is UTF-8.
        return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes)
}

/// Marks of a message's bytes: bit `n % 64` of word `n / 64` is set where byte `n` ends or escapes a string, as
/// [`find_special`] has it.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    words: Vec<u64>,
    /// How many words are of the message; behind them are those of earlier ones.
    used: usize,
}

impl Marks {
    /// [`utf8`], which marks the bytes on the way and says whether they are ASCII.
    #[inline]
    pub(crate) fn utf8<'a>(&mut self, bytes: &'a [u8]) -> Result<(&'a str, bool), std::str::Utf8Error> {
        let (blocks, rest) = bytes.as_chunks::<64>();
        if self.words.len() <= blocks.len() {
            self.grow(blocks.len() + 1);
        }
        let mut high = 0;
        for (word, block) in self.words.iter_mut().zip(blocks) {
            let (special, above) = marks_of(block);
            *word = special;
            high |= above;
        }
        let (special, above) = match bytes.last_chunk::<64>() {
            // The last bytes, those before `rest` among them.
            Some(last) if !rest.is_empty() => {
                let (special, above) = marks_of(last);
                (special >> (64 - rest.len()), above)
            }
            Some(_) => (0, 0),
            None => {
                // Spaces are neither marked nor high.
                let mut last = [b' '; 64];
                last[..rest.len()].copy_from_slice(rest);
                marks_of(&last)
            }
        };
        self.words[blocks.len()] = special;
        self.used = blocks.len() + 1;
        high |= above;
        if high == 0 {
            // SAFETY: ASCII is UTF-8.
            return Ok((unsafe { std::str::from_utf8_unchecked(bytes) }, true));
        }
        std::str::from_utf8(bytes).map(|text| (text, false))
    }

    #[cold]
    fn grow(&mut self, words: usize) {
        self.words.resize(words, 0);
    }

    /// The first marked byte at or after `from`.
    #[inline(always)]
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let (mut at, mut counts) = (from / 64, u64::MAX << (from % 64));
        while at < self.used {
            let word = self.words[at] & counts;
            if word != 0 {
                return Some(at * 64 + word.trailing_zeros() as usize);
            }
            (at, counts) = (at + 1, u64::MAX);
        }
        None
    }
}

/// Which of 64 bytes [`find_special`] finds; and not 0 where one is no ASCII.
#[inline(always)]
fn marks_of(block: &[u8; 64]) -> (u64, u32) {
    #[cfg(target_arch = "x86_64")]
    {
        let (mut special, mut above) = (0, 0);
        for (at, part) in block.as_chunks::<{ vector::WIDTH }>().0.iter().enumerate() {
            let (marked, high) = vector::marks(part);
            special |= u64::from(marked) << (at * vector::WIDTH);
            above |= high;
        }
        (special, above)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let special = |byte: &u8| u64::from(matches!(byte, b'"' | b'\\' | 0..0x20));
        let marked = block.iter().rev().fold(0, |marks, byte| marks << 1 | special(byte));
        (marked, u32::from(!block.is_ascii()))
    }
}

/// Appends `values`, `count` of them and at most `bytes` in all, to `text`, and where each ends to `ends`.
///
/// # Panics
/// When that is not so, or the text would pass what `ends` can say.
#[inline]
pub(crate) fn append<'a>(
    text: &mut String,
    ends: &mut Vec<i32>,
    count: usize,
    bytes: usize,
    mut values: impl Iterator<Item = &'a str>,
) {
    assert!(i32::try_from(text.len() + bytes).is_ok(), "arenas that shapes are used for are far below 2 GiB");
    text.reserve(bytes);
    ends.reserve(count);
    let first = *ends.last().expect("starts with 0");
    // SAFETY: only whole `&str`s are appended below.
    let text = unsafe { text.as_mut_vec() };
    let room = text.spare_capacity_mut().as_mut_ptr().cast::<u8>();
    let mut used = 0;
    for end in &mut ends.spare_capacity_mut()[..count] {
        let value = values.next().expect("no fewer values than said");
        assert!(value.len() <= bytes - used, "no more text than said");
        // SAFETY: `room` has the `bytes` that were reserved, of which this value needs no more than are left; it is
        // borrowed by nobody else.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), room.add(used), value.len()) };
        used += value.len();
        end.write(first + used as i32);
    }
    assert!(values.next().is_none(), "no more values than said");
    // SAFETY: as many bytes and ends were written just now.
    unsafe {
        text.set_len(text.len() + used);
        ends.set_len(ends.len() + count);
    }
}

/// A string array of `text` cut at `ends`. Each offset is where a whole `&str` was appended.
pub(crate) fn string_array(text: String, offsets: Vec<i32>, nulls: Option<NullBuffer>) -> StringArray {
    if cfg!(test) {
        assert!(offsets.iter().all(|&at| usize::try_from(at).is_ok_and(|at| text.is_char_boundary(at))));
        assert!(offsets.is_sorted());
    }
    assert_eq!(offsets.last().copied(), i32::try_from(text.len()).ok(), "the last string ends where the text does");
    // SAFETY: the only writer of both, `column::Text`, by itself and by `append`, starts the offsets with 0, appends a
    // whole `&str` and an offset that is the last one plus its length, and cuts both back to such an end. So offsets
    // never fall, and each lies between two characters of `text`, which is UTF-8 because it is a `String`; the last is
    // its length. `nulls` is made for as many rows (`finish` asserts it).
    unsafe {
        let offsets = OffsetBuffer::new_unchecked(ScalarBuffer::from(offsets));
        StringArray::new_unchecked(offsets, Buffer::from_vec(text.into_bytes()), nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_ascii() {
        for length in 0..100 {
            let mut bytes = vec![0x7f; length];
            assert!(is_ascii(&bytes) && utf8(&bytes).is_ok());
            for at in 0..length {
                bytes[at] = 0x80;
                assert!(!is_ascii(&bytes) && utf8(&bytes).is_err(), "{length} {at}");
                bytes[at] = 0x7f;
            }
        }
    }

    #[test]
    fn marks_what_a_byte_at_a_time_finds() {
        let mut marks = Marks::default();
        for length in 0..200 {
            let mut bytes = vec![b'a'; length];
            for at in 0..length {
                for byte in [b'"', b'\\', 0, 0x1f, 0x20, 0x7f, 0x80, 0xff] {
                    bytes[at] = byte;
                    assert_eq!(marks.utf8(&bytes).ok().map(|(_, ascii)| ascii), byte.is_ascii().then_some(true));
                    for from in [0, at.saturating_sub(1), at, at + 1, length] {
                        let expected = find_special_tail(&bytes, from);
                        assert_eq!(marks.next(from), (expected < length).then_some(expected), "{length} {at} {from}");
                    }
                }
                bytes[at] = b'a';
            }
        }
        assert_eq!(marks.utf8("é".as_bytes()), Ok(("é", false)));
    }

    #[test]
    fn appends_all_and_nothing_else() {
        let values = ["", "a", "é", "", "a text of more than thirty-two bytes, this", "日本"];
        let (mut text, mut ends) = ("x".to_owned(), vec![0, 1]);
        let mut expected = (text.clone(), ends.clone());
        for round in 0..20 {
            let some = || values.iter().copied().cycle().take(round);
            append(&mut text, &mut ends, round, some().map(str::len).sum::<usize>() + round % 2, some());
            for value in values.iter().cycle().take(round) {
                expected.0.push_str(value);
                expected.1.push(expected.0.len() as i32);
            }
            assert_eq!((&text, &ends), (&expected.0, &expected.1));
        }
    }

    #[test]
    fn finds_what_a_byte_at_a_time_finds() {
        for length in 0..80 {
            for at in 0..=length {
                for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
                    let mut bytes = vec![0xc3_u8; length];
                    bytes.iter_mut().step_by(3).for_each(|byte| *byte = b' ');
                    if at < length {
                        bytes[at] = special;
                    }
                    for from in 0..=length {
                        let expected = if from <= at { at } else { length };
                        assert_eq!(find_special(&bytes, from), expected, "{length} {at} {special} {from}");
                        assert_eq!(find_special_tail(&bytes, from), expected, "{length} {at} {special} {from}");
                    }
                }
            }
        }
    }
}
