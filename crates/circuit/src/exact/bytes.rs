//! The bytes of a [`Wide`], and so of all sums in the state on disk: they never change.
//!
//! `varint(2 * length + mark)`; then, unless the length is zero, `varint(zigzag(position))` and the number's bytes in
//! two's complement, lowest first, without zeros at the bottom and without repeated signs at the top. The first byte is
//! worth `2^(8 * position)`. A varint is LEB128 in as few bytes as possible. The mark is the owner's.

use super::wide::{Wide, sign};

/// Positions of all squares of doubles, and far beyond.
const POSITIONS: std::ops::RangeInclusive<i64> = -4096..=4096;

/// A sum in the state can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a sum in the state is damaged, {left} bytes before the end of its row: {what}; \
     restore the state's files, or have it built anew from the input"
)]
pub struct Damaged {
    /// Bytes from the fault to the end of what was given.
    pub left: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl Wide {
    pub(super) fn encode(&self, mark: bool, out: &mut Vec<u8>) {
        if self.is_zero() {
            return put(u64::from(mark), out);
        }
        let limbs = self.limbs();
        let byte = |at: usize| (limbs[at / 8] >> (at % 8 * 8)) as u8;
        let mut end = limbs.len() * 8;
        while end > 1 && byte(end - 1) == repeat(byte(end - 2)) {
            end -= 1;
        }
        let start = (limbs[0].trailing_zeros() / 8) as usize;
        put((end - start) as u64 * 2 + u64::from(mark), out);
        let position = i64::from(self.low()) * 8 + start as i64;
        put((position << 1 ^ position >> 63) as u64, out);
        out.extend((start..end).map(byte));
    }

    /// The number and its mark; only what [`encode`](Self::encode) writes. Moves `from` on behind it.
    pub(super) fn decode(from: &mut &[u8]) -> Result<(Self, bool), Damaged> {
        let head = take(from)?;
        let mark = head & 1 == 1;
        if head < 2 {
            return Ok((Self::default(), mark));
        }
        let zigzag = take(from)?;
        let position = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        if !POSITIONS.contains(&position) {
            return Err(damaged(from, "a number is beyond all doubles"));
        }
        let Some((bytes, rest)) = usize::try_from(head >> 1).ok().and_then(|length| from.split_at_checked(length))
        else {
            return Err(damaged(from, "it ends too early"));
        };
        if bytes[0] == 0 || matches!(bytes, [.., next, last] if *last == repeat(*next)) {
            return Err(damaged(from, "a number has more bytes than it needs"));
        }
        *from = rest;
        Ok((Self::from_bytes(position, bytes), mark))
    }

    fn from_bytes(position: i64, bytes: &[u8]) -> Self {
        let skip = position.rem_euclid(8) as usize;
        let fill = sign(u64::from(bytes[bytes.len() - 1]) << 56);
        let mut limbs = vec![fill; (skip + bytes.len()).div_ceil(8)];
        limbs[0] &= u64::MAX << (8 * skip);
        for (at, byte) in bytes.iter().enumerate() {
            let (limb, shift) = ((skip + at) / 8, (skip + at) % 8 * 8);
            limbs[limb] = limbs[limb] & !(0xff << shift) | u64::from(*byte) << shift;
        }
        Self::new(position.div_euclid(8) as i32, &limbs)
    }
}

pub(super) fn damaged(at: &[u8], what: &'static str) -> Damaged {
    Damaged { left: at.len(), what }
}

/// The byte above this one, if the number goes on.
fn repeat(byte: u8) -> u8 {
    ((byte as i8) >> 7) as u8
}

fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(from: &mut &[u8]) -> Result<u64, Damaged> {
    let mut value = 0;
    for shift in (0..28).step_by(7) {
        let Some((byte, rest)) = from.split_first() else { return Err(damaged(from, "it ends too early")) };
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            if *byte == 0 && shift > 0 {
                return Err(damaged(from, "a length has more bytes than it needs"));
            }
            *from = rest;
            return Ok(value);
        }
        *from = rest;
    }
    Err(damaged(from, "a length is beyond all sums"))
}
