//! [`Wide`]: an exact signed number of any length, a multiple of a power of two.
//!
//! In two's complement, in limbs of 64 bits: limb `i` is worth `2^(64 * (low + i))`. Invariants, so that equal numbers
//! are equal values:
//! - The lowest limb is not zero; zero itself is `Near` at `low` 0.
//! - `Near` holds whatever fits its limbs, which carry the sign on to the last one. `Far` holds what does not, with no
//!   limb at the top that only repeats the sign.

use std::iter::repeat_n;

/// Limbs kept in place: a billion doubles up to 10^32 apart need no heap, nor do their squares if they are up to 10^8
/// apart.
pub(super) const NEAR: usize = 4;

/// The order is total, and not that of the numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Wide {
    Near { low: i32, limbs: [u64; NEAR] },
    Far { low: i32, limbs: Vec<u64> },
}

impl Default for Wide {
    fn default() -> Self {
        Self::Near { low: 0, limbs: [0; NEAR] }
    }
}

impl Wide {
    /// The number of these limbs in two's complement, trimmed or not.
    pub(super) fn new(low: i32, limbs: &[u64]) -> Self {
        let Some(zeros) = limbs.iter().position(|limb| *limb != 0) else { return Self::default() };
        let low = low + i32::try_from(zeros).expect("a number has far less than 2^31 limbs");
        let mut kept = &limbs[zeros..];
        while let [rest @ .., last] = kept
            && rest.last().is_some_and(|next| *last == sign(*next))
        {
            kept = rest;
        }
        if kept.len() > NEAR {
            return Self::Far { low, limbs: kept.to_vec() };
        }
        let mut near = [sign(kept[kept.len() - 1]); NEAR];
        near[..kept.len()].copy_from_slice(kept);
        Self::Near { low, limbs: near }
    }

    /// `magnitude * 2^(64 * low)`, or its negative.
    pub(super) fn from_magnitude(negative: bool, low: i32, mut magnitude: Vec<u64>) -> Self {
        magnitude.push(0);
        if negative {
            negate(&mut magnitude);
        }
        Self::new(low, &magnitude)
    }

    pub(super) fn is_zero(&self) -> bool {
        matches!(self, Self::Near { limbs: [0, ..], .. })
    }

    pub(super) fn is_negative(&self) -> bool {
        self.limbs().last().is_some_and(|top| sign(*top) != 0)
    }

    pub(super) fn low(&self) -> i32 {
        match self {
            Self::Near { low, .. } | Self::Far { low, .. } => *low,
        }
    }

    /// Lowest first, in two's complement: the last one has the sign. Never empty.
    pub(super) fn limbs(&self) -> &[u64] {
        match self {
            Self::Near { limbs, .. } => limbs,
            Self::Far { limbs, .. } => limbs,
        }
    }

    /// The limbs of the absolute value: no zero at the top, empty for zero.
    pub(super) fn magnitude(&self) -> Vec<u64> {
        let mut limbs = self.limbs().to_vec();
        if self.is_negative() {
            negate(&mut limbs);
        }
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        limbs
    }

    pub(super) fn to_i128(&self) -> Option<i128> {
        let Self::Near { low: low @ 0..=1, limbs } = self else { return None };
        let [first, second, third, fourth] = lift(*limbs, *low)?;
        let repeated = third == sign(second) && fourth == third;
        repeated.then_some(i128::from(second as i64) << 64 | i128::from(first))
    }

    /// Adds limbs in two's complement, trimmed or not.
    #[inline]
    pub(super) fn add(&mut self, low: i32, addend: [u64; NEAR]) {
        let [first, second, third, fourth] = addend;
        if first | second | third | fourth == 0 {
            return;
        }
        if let Self::Near { low: own_low, limbs } = self {
            // Only zero has no first limb, and it may start anywhere.
            let start = if limbs[0] == 0 { low } else { low.min(*own_low) };
            if let Some(own) = lift(*limbs, *own_low - start)
                && let Some(addend) = lift(addend, low - start)
                && let Some(sum) = sum(own, addend)
            {
                (*own_low, *limbs) = (start, sum);
                if sum[0] == 0 {
                    *self = Self::new(start, &sum);
                }
                return;
            }
        }
        self.add_far(low, &addend);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        match other {
            Self::Near { low, limbs } => self.add(*low, *limbs),
            Self::Far { low, limbs } => self.add_far(*low, limbs),
        }
    }

    #[cold]
    fn add_far(&mut self, addend_low: i32, addend: &[u64]) {
        if self.is_zero() {
            *self = Self::new(addend_low, addend);
            return;
        }
        let (mut low, mut limbs) = match std::mem::take(self) {
            Self::Near { low, limbs } => (low, limbs.to_vec()),
            Self::Far { low, limbs } => (low, limbs),
        };
        limbs.splice(..0, repeat_n(0, distance(addend_low, low)));
        low = low.min(addend_low);
        let start = distance(low, addend_low);
        // One limb more than either has, so that the sum can't leave them.
        let fill = sign(limbs[limbs.len() - 1]);
        limbs.resize(limbs.len().max(start + addend.len()) + 1, fill);
        add_at(&mut limbs[start..], addend);
        *self = Self::trimmed(low, limbs);
    }

    /// As [`new`](Self::new), in the same memory.
    fn trimmed(low: i32, mut limbs: Vec<u64>) -> Self {
        while let [.., next, last] = limbs[..]
            && last == sign(next)
        {
            limbs.pop();
        }
        if limbs.len() <= NEAR || limbs[0] == 0 {
            return Self::new(low, &limbs);
        }
        Self::Far { low, limbs }
    }

    pub(super) fn negated(&self) -> Self {
        Self::from_magnitude(!self.is_negative(), self.low(), self.magnitude())
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        let product = product(&self.magnitude(), &other.magnitude());
        Self::from_magnitude(negative, self.low() + other.low(), product)
    }
}

impl From<i128> for Wide {
    fn from(value: i128) -> Self {
        Self::new(0, &extend(value))
    }
}

/// In two's complement, the sign carried on.
pub(super) fn extend(value: i128) -> [u64; NEAR] {
    let top = (value >> 127) as u64;
    [value as u64, (value >> 64) as u64, top, top]
}

/// `value * weight`, which always fits.
#[inline]
pub(super) fn weighted(value: i128, weight: i64) -> [u64; NEAR] {
    if let Some(product) = value.checked_mul(i128::from(weight)) {
        return extend(product);
    }
    let factor = u128::from(weight.unsigned_abs());
    let magnitude = value.unsigned_abs();
    let first = (magnitude & u128::from(u64::MAX)) * factor;
    let second = (magnitude >> 64) * factor + (first >> 64);
    let mut limbs = [first as u64, second as u64, (second >> 64) as u64, 0];
    if (value < 0) != (weight < 0) {
        negate(&mut limbs);
    }
    limbs
}

/// `limbs * 2^bits` for less than 64 bits, if the caller knows that it fits.
#[inline]
pub(super) fn shifted(limbs: [u64; NEAR], bits: u32) -> [u64; NEAR] {
    // Twice, as a shift by 64 is none.
    let spill = |limb: u64| (limb >> 1) >> (63 - bits);
    let [first, second, third, fourth] = limbs;
    [first << bits, second << bits | spill(first), third << bits | spill(second), fourth << bits | spill(third)]
}

/// `-limbs`; the caller sees to it that it fits.
pub(super) fn negate(limbs: &mut [u64]) {
    let mut carry = true;
    for limb in limbs {
        (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
    }
}

/// What a limb above this one holds.
pub(super) fn sign(limb: u64) -> u64 {
    ((limb as i64) >> 63) as u64
}

/// `a * b`, without signs.
pub(super) fn product(a: &[u64], b: &[u64]) -> Vec<u64> {
    let mut result = vec![0; a.len() + b.len()];
    for (start, factor) in a.iter().enumerate() {
        let mut carry = 0;
        for (limb, other) in result[start..].iter_mut().zip(b.iter().chain([&0])) {
            let sum = u128::from(*factor) * u128::from(*other) + u128::from(*limb) + carry;
            *limb = sum as u64;
            carry = sum >> 64;
        }
    }
    result
}

/// How far it is up from `from` to `to`, or none.
fn distance(from: i32, to: i32) -> usize {
    usize::try_from(to - from).unwrap_or(0)
}

/// The same number, counted from so many limbs further down, if it fits.
#[inline]
fn lift(limbs: [u64; NEAR], by: i32) -> Option<[u64; NEAR]> {
    let [first, second, third, fourth] = limbs;
    match by {
        0 => Some(limbs),
        1 if fourth == sign(third) => Some([0, first, second, third]),
        2 if third == sign(second) && fourth == third => Some([0, 0, first, second]),
        3 if second == sign(first) && third == second && fourth == second => Some([0, 0, 0, first]),
        _ => (first | second | third | fourth == 0).then_some(limbs),
    }
}

/// The sum, if it fits.
#[inline]
fn sum(a: [u64; NEAR], b: [u64; NEAR]) -> Option<[u64; NEAR]> {
    let (low, carry) = low128(a).overflowing_add(low128(b));
    let (a, b) = (high128(a), high128(b));
    let high = a.wrapping_add(b).wrapping_add(i128::from(carry));
    // Out of bounds exactly if both have one sign, and the sum the other.
    let fits = ((a ^ high) & (b ^ high)) >= 0;
    fits.then_some([low as u64, (low >> 64) as u64, high as u64, (high >> 64) as u64])
}

fn low128(limbs: [u64; NEAR]) -> u128 {
    u128::from(limbs[1]) << 64 | u128::from(limbs[0])
}

fn high128(limbs: [u64; NEAR]) -> i128 {
    i128::from(limbs[3] as i64) << 64 | i128::from(limbs[2])
}

/// Adds in two's complement; the sign of `addend` is carried on to the end of `limbs`.
fn add_at(limbs: &mut [u64], addend: &[u64]) {
    let fill = addend.last().map_or(0, |top| sign(*top));
    let mut carry = false;
    for (at, limb) in limbs.iter_mut().enumerate() {
        if at >= addend.len() && carry == (fill != 0) {
            return; // adding 0 without, or -1 with a carry, changes nothing any more
        }
        (*limb, carry) = add_carry(*limb, addend.get(at).copied().unwrap_or(fill), carry);
    }
}

fn add_carry(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(u64::from(carry));
    (sum, first || second)
}
