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
            // SAFETY: `block` is `WIDTH` readable bytes.
            let mask = unsafe { vector::specials(block.as_ptr()) };
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
            // SAFETY: `block` is `WIDTH` readable bytes.
            let mask = unsafe { vector::specials(block.as_ptr()) } >> (from - start);
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
        __m256i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256,
        _mm256_set1_epi8,
    };

    pub(super) const WIDTH: usize = 32;

    /// # Safety
    /// `from` must be readable for `WIDTH` bytes.
    #[inline(always)]
    pub(super) unsafe fn specials(from: *const u8) -> u32 {
        // SAFETY: the caller's promise; the feature is on for the whole build.
        unsafe {
            let block = _mm256_loadu_si256(from.cast::<__m256i>());
            let quote = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'"' as i8));
            let slash = _mm256_cmpeq_epi8(block, _mm256_set1_epi8(b'\\' as i8));
            let control = _mm256_cmpeq_epi8(_mm256_min_epu8(block, _mm256_set1_epi8(0x1f)), block);
            _mm256_movemask_epi8(_mm256_or_si256(_mm256_or_si256(quote, slash), control)).cast_unsigned()
        }
    }

    /// Which bytes are no ASCII.
    ///
    /// # Safety
    /// `from` must be readable for `WIDTH` bytes.
    #[inline(always)]
    pub(super) unsafe fn high(from: *const u8) -> u32 {
        // SAFETY: the caller's promise; the feature is on for the whole build.
        unsafe { _mm256_movemask_epi8(_mm256_loadu_si256(from.cast::<__m256i>())).cast_unsigned() }
    }
}

#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod vector {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };

    pub(super) const WIDTH: usize = 16;

    /// # Safety
    /// `from` must be readable for `WIDTH` bytes.
    #[inline(always)]
    pub(super) unsafe fn specials(from: *const u8) -> u32 {
        // SAFETY: the caller's promise; SSE2 is part of x86-64.
        unsafe {
            let block = _mm_loadu_si128(from.cast::<__m128i>());
            let quote = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
            let slash = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
            let control = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control)).cast_unsigned()
        }
    }

    /// Which bytes are no ASCII.
    ///
    /// # Safety
    /// `from` must be readable for `WIDTH` bytes.
    #[inline(always)]
    pub(super) unsafe fn high(from: *const u8) -> u32 {
        // SAFETY: the caller's promise; SSE2 is part of x86-64.
        unsafe { _mm_movemask_epi8(_mm_loadu_si128(from.cast::<__m128i>())).cast_unsigned() }
    }
}

/// `bytes.is_ascii()`, in wide steps.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let (blocks, rest) = bytes.as_chunks::<{ vector::WIDTH }>();
        // SAFETY: a block is `WIDTH` readable bytes.
        let high = |block: &[u8; vector::WIDTH]| unsafe { vector::high(block.as_ptr()) };
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

/// A string array of `text` cut at `ends`. Each offset is where a whole `&str` was appended.
pub(crate) fn string_array(text: String, offsets: Vec<i32>, nulls: Option<NullBuffer>) -> StringArray {
    debug_assert!(offsets.iter().all(|&at| usize::try_from(at).is_ok_and(|at| text.is_char_boundary(at))));
    assert_eq!(offsets.last().copied(), i32::try_from(text.len()).ok(), "the last string ends where the text does");
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    // SAFETY: `OffsetBuffer::new` checked that the offsets grow; the last is the length of `text`, which is UTF-8
    // because it is a `String`; its only writer, `column::Text`, appends whole `&str`s and cuts it back to such ends,
    // so every offset lies between two characters. `nulls` is made for as many rows (`finish` asserts it).
    unsafe { StringArray::new_unchecked(offsets, Buffer::from_vec(text.into_bytes()), nulls) }
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
