//! [`IntSum`]: integers and decimals.

use super::bytes::{Damaged, damaged};
use super::ratio::{divide, quotient};
use super::spread::{Moments, Spread};
use super::wide::{Wide, extend, weighted};

/// The exact sum of integers, or of decimals of one scale as their unscaled integers, each with a weight.
///
/// Without a bound: 256 bits are kept in place, which is 2^65 of the widest decimals with the largest weight, or
/// 2^128 squares of `i64`; longer sums go to the heap. The order is total, and not that of the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntSum(Wide);

/// What the average of a decimal column is.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalAverage {
    /// There are no rows.
    Null,
    /// The unscaled value at the scale that was asked for.
    Value(i128),
    /// It has more digits than its type: an error of the query, as for DataFusion.
    DoesNotFit,
}

impl IntSum {
    /// Adds `value * weight`.
    #[inline]
    pub fn add(&mut self, value: i64, weight: i64) {
        self.0.add(0, extend(i128::from(value) * i128::from(weight)));
    }

    /// Adds `value * weight`.
    #[inline]
    pub fn add_i128(&mut self, value: i128, weight: i64) {
        self.0.add(0, weighted(value, weight));
    }

    /// Adds `value * value * weight`.
    pub fn add_square(&mut self, value: i128, weight: i64) {
        if let Some(square) = value.checked_mul(value) {
            return self.add_i128(square, weight);
        }
        let value = Wide::from(value);
        self.0.merge(&value.times(&value).times(&Wide::from(i128::from(weight))));
    }

    /// Adds all that `other` has.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// All weights times -1.
    pub fn negate(&mut self) {
        self.0 = self.0.negated();
    }

    /// All weights times `factor`.
    pub fn scale(&mut self, factor: i64) {
        self.0 = self.0.times(&Wide::from(i128::from(factor)));
    }

    /// Whether the sum is zero: of no rows, or of rows that cancel out.
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    /// None if it does not fit.
    pub fn to_i64(&self) -> Option<i64> {
        self.0.to_i128().and_then(|value| i64::try_from(value).ok())
    }

    /// None if it has more digits than `precision`, which is at most 38.
    pub fn to_i128(&self, precision: u8) -> Option<i128> {
        self.0.to_i128().filter(|value| fits(*value, precision))
    }

    /// The nearest double, half to even. Finite: 2^700 of the largest squares with the largest weight are.
    pub fn to_f64(&self) -> f64 {
        quotient(&self.0, &[])
    }

    /// The nearest double to the sum divided by the count of rows; None (NULL) without rows.
    pub fn average(&self, count: i64) -> Option<f64> {
        let count = u64::try_from(count).ok().filter(|count| *count > 0)?;
        Some(quotient(&self.0, &[count]))
    }

    /// The sum divided by the count of rows, with so many more digits after the point than the sum has, and at most
    /// `precision` (up to 38) digits in all. What goes beyond is cut off towards zero, as DataFusion does it.
    pub fn decimal_average(&self, count: i64, more_digits: u8, precision: u8) -> DecimalAverage {
        let Some(count) = u64::try_from(count).ok().filter(|count| *count > 0) else { return DecimalAverage::Null };
        let scaled = self.0.times(&Wide::from(power_of_ten(more_digits)));
        // Whole limbs from the number's unit on, for a whole division.
        let zeros = usize::try_from(scaled.low()).expect("an integer has no limbs below its unit");
        let mut magnitude = [vec![0; zeros], scaled.magnitude()].concat();
        divide(&mut magnitude, &[count]);
        let average = Wide::from_magnitude(scaled.is_negative(), 0, magnitude).to_i128();
        average.filter(|value| fits(*value, precision)).map_or(DecimalAverage::DoesNotFit, DecimalAverage::Value)
    }

    /// Variance or deviation of `count` values, of which `self` is the sum and `squares` the sum of squares, both
    /// unscaled; `scale` is how many digits a value has after the point. As [`FloatSum::spread`](super::FloatSum::spread).
    pub fn spread(&self, squares: &Self, count: i64, scale: u8, what: Spread) -> Option<f64> {
        Moments { sum: &self.0, squares: &squares.0, count }.spread(scale, what)
    }

    /// Appends the bytes of this sum: equal sums have equal bytes, different sums different ones, none is the beginning
    /// of another. They are part of the state on disk, and never change.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(false, out);
    }

    /// Reads one sum and moves `from` on behind it. An error for all bytes that [`encode`](Self::encode) never writes;
    /// where `from` is then is of no use.
    pub fn decode(from: &mut &[u8]) -> Result<Self, Damaged> {
        let (sum, mark) = Wide::decode(from)?;
        match sum.low() < 0 || mark {
            true => Err(damaged(from, "an integer has what only a double has")),
            false => Ok(Self(sum)),
        }
    }
}

/// Up to `10^38`.
fn power_of_ten(digits: u8) -> i128 {
    assert!(digits <= 38, "a decimal has at most 38 digits, not {digits}: wider ones are refused when planned");
    10_i128.pow(u32::from(digits))
}

fn fits(value: i128, precision: u8) -> bool {
    value.unsigned_abs() < power_of_ten(precision).unsigned_abs()
}
