//! The same sums, slow and plain: for each power of two, how often it is in the sum. Carried only to be read.

use std::collections::BTreeMap;

/// Mantissas times weights, by the exponent; nothing but additions, in place of all carrying and shifting.
#[derive(Clone, Default)]
pub(super) struct Model(BTreeMap<i32, i128>);

impl Model {
    pub(super) fn add(&mut self, value: f64, weight: i64) {
        let (mantissa, exponent) = split(value);
        *self.0.entry(exponent).or_default() += mantissa * i128::from(weight);
    }

    pub(super) fn add_square(&mut self, value: f64, weight: i64) {
        let (mantissa, exponent) = split(value);
        // In halves, as the product with the weight has more than 128 bits.
        let square = mantissa * mantissa;
        *self.0.entry(2 * exponent).or_default() += (square & ((1 << 60) - 1)) * i128::from(weight);
        *self.0.entry(2 * exponent + 60).or_default() += (square >> 60) * i128::from(weight);
    }

    pub(super) fn add_int(&mut self, value: i128, weight: i64) {
        *self.0.entry(0).or_default() += (value & ((1 << 60) - 1)) * i128::from(weight);
        *self.0.entry(60).or_default() += (value >> 60 & ((1 << 60) - 1)) * i128::from(weight);
        *self.0.entry(120).or_default() += (value >> 120) * i128::from(weight);
    }

    /// The sign, the exponent of the first bit, and the bits of the absolute value from there, highest first.
    fn bits(&self) -> (bool, i32, Vec<bool>) {
        let Some(low) = self.0.keys().next().copied() else { return (false, 0, Vec::new()) };
        let carried = |sign: i128| {
            let (mut carry, mut bits) = (0, Vec::new());
            for exponent in low..low + 5000 {
                let here: i128 = carry + sign * self.0.get(&exponent).copied().unwrap_or(0);
                bits.push(here & 1 == 1);
                carry = here >> 1;
            }
            (carry == 0).then_some(bits)
        };
        let (negative, mut bits) = match carried(1) {
            Some(bits) => (false, bits),
            None => (true, carried(-1).expect("either it or its opposite is not negative")),
        };
        while bits.last() == Some(&false) {
            bits.pop();
        }
        bits.reverse();
        (negative, low + bits.len() as i32 - 1, bits)
    }

    /// The nearest double, half to even, by school's rules.
    pub(super) fn to_f64(&self) -> f64 {
        let (negative, top, bits) = self.bits();
        let last = (top - 52).max(-1074);
        let digits = usize::try_from(top - last + 1).unwrap_or(0);
        let digit = |at: usize| bits.get(at).copied().unwrap_or(false);
        let kept = (0..digits).fold(0_u64, |kept, at| kept * 2 + u64::from(digit(at)));
        // Below the last digit: one that is smaller than half a unit by more than a bit has no half.
        let half = top - last + 1 >= 0 && digit(digits);
        let beyond = bits.iter().skip(digits + 1).any(|bit| *bit);
        let rounded = kept + u64::from(half && (beyond || kept % 2 == 1));
        // Exact: at most 54 bits, in two powers that a double has. Beyond the largest it is infinite.
        let value = rounded as f64 * 2_f64.powi(last.max(-1000)) * 2_f64.powi(last.min(-1000) + 1000);
        if negative && value != 0.0 { -value } else { value }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.bits().2.is_empty()
    }

    /// Equal for equal sums.
    pub(super) fn canonical(&self) -> (bool, i32, Vec<bool>) {
        let (negative, top, mut bits) = self.bits();
        while bits.last() == Some(&false) {
            bits.pop();
        }
        if bits.is_empty() { (false, 0, bits) } else { (negative, top, bits) }
    }
}

/// A finite double's integer and the exponent of its last bit.
fn split(value: f64) -> (i128, i32) {
    let bits = value.to_bits();
    let field = (bits >> 52 & 0x7ff) as i32;
    let hidden = if field == 0 { 0 } else { 1 << 52 };
    let mantissa = i128::from(bits & ((1 << 52) - 1)) + hidden;
    (if value < 0.0 { -mantissa } else { mantissa }, field.max(1) - 1075)
}
