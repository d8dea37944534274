//! [`Top`]: the leading bits of an exact number, all that rounding it once needs.

use super::wide::Wide;

/// A number that is not zero: `bits * 2^exponent`, and a bit more than that if `more`.
/// The highest of the 128 bits is set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Top {
    negative: bool,
    bits: u128,
    exponent: i32,
    more: bool,
}

/// `number / (divisors multiplied)`, rounded once. The divisors are not zero.
pub(super) fn quotient(number: &Wide, divisors: &[u64]) -> f64 {
    Top::of(number, divisors).map_or(0.0, Top::round)
}

/// The root of the same, rounded once. The number is not negative.
pub(super) fn root(number: &Wide, divisors: &[u64]) -> f64 {
    Top::of(number, divisors).map_or(0.0, |top| top.root().round())
}

/// Whole divisions of a magnitude, one after the other; remainders are dropped.
pub(super) fn divide(magnitude: &mut [u64], divisors: &[u64]) {
    for divisor in divisors {
        let mut rest = 0;
        for limb in magnitude.iter_mut().rev() {
            let part = u128::from(rest) << 64 | u128::from(*limb);
            *limb = (part / u128::from(*divisor)) as u64;
            rest = (part % u128::from(*divisor)) as u64;
        }
    }
}

impl Top {
    /// None of zero.
    fn of(number: &Wide, divisors: &[u64]) -> Option<Self> {
        if number.is_zero() {
            return None;
        }
        let mut limbs = number.magnitude();
        let mut low = number.low();
        if !divisors.is_empty() {
            // Each divisor takes a limb at most: two are left for the answer, and a remainder shows in the limbs below.
            let room = divisors.len() + 2;
            limbs.splice(..0, std::iter::repeat_n(0, room));
            low -= i32::try_from(room).expect("a few divisors");
            divide(&mut limbs, divisors);
        }
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        let (rest, bits, spare) = match limbs[..] {
            [ref rest @ .., third, second, first] => (rest, pair(first, second), third),
            [second, first] => (&[][..], pair(first, second), 0),
            [first] => (&[][..], pair(first, 0), 0),
            [] => unreachable!("a number that is not zero has limbs"),
        };
        let lead = bits.leading_zeros(); // less than 64, as the first limb is not zero
        let spilt = u128::from(spare) << lead;
        let more = spilt as u64 != 0 || rest.iter().any(|limb| *limb != 0);
        let limbs = i32::try_from(limbs.len()).expect("a number has far less than 2^31 limbs");
        let exponent = 64 * (low + limbs - 2) - lead as i32;
        Some(Self { negative: number.is_negative(), bits: bits << lead | spilt >> 64, exponent, more })
    }

    fn root(self) -> Self {
        let odd = self.exponent & 1;
        let square = self.bits >> odd;
        let root = square.isqrt();
        let more = self.more || root * root != square || (square << odd) != self.bits;
        let lead = root.leading_zeros();
        Self { bits: root << lead, exponent: (self.exponent + odd) / 2 - lead as i32, more, ..self }
    }

    /// Half to even; infinite from halfway beyond the largest double; zero has no sign.
    fn round(self) -> f64 {
        let exponent = self.exponent + 127;
        if exponent > 1023 {
            return if self.negative { f64::NEG_INFINITY } else { f64::INFINITY };
        }
        // A double has 53 bits, and none below 2^-1074.
        let drop = (128 - 53).max(-1074 - self.exponent);
        let Ok(drop @ 0..=128) = u32::try_from(drop) else { return 0.0 };
        let kept = self.bits.checked_shr(drop).unwrap_or(0) as u64;
        let half = 1 << (drop - 1);
        let over = self.bits & (half - 1) != 0 || self.more;
        let up = self.bits & half != 0 && (over || kept & 1 == 1);
        // The leading bit adds one to the exponent's field, as does a carry out of the mantissa.
        let field = u64::try_from(exponent + 1022).unwrap_or(0);
        let rounded = f64::from_bits((field << 52) + kept + u64::from(up));
        if self.negative && rounded != 0.0 { -rounded } else { rounded }
    }
}

fn pair(high: u64, low: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}
