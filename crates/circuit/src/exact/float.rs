//! [`FloatSum`]: doubles.

use super::bytes::{Damaged, damaged};
use super::int::IntSum;
use super::ratio::quotient;
use super::spread::{Moments, Spread};
use super::wide::{NEAR, Wide, shifted, weighted};

/// The exact sum of doubles, or of their squares, each with a weight.
///
/// What is not finite is counted beside the finite sum, so it leaves without a trace when it is retracted. There is no
/// negative zero. The longest sum takes 300 bytes, the longest sum of squares 560: 2^63 rows of all magnitudes; ordinary
/// ones need no heap. The order is total, and not that of the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FloatSum {
    finite: Wide,
    /// None if there are none: most columns never see any.
    specials: Option<Box<Specials>>,
}

/// Weights of what is not finite.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Specials {
    nans: IntSum,
    positives: IntSum,
    negatives: IntSum,
}

/// A finite double: `mantissa * 2^exponent`; the mantissa is odd, or zero.
struct Parts {
    mantissa: i64,
    exponent: i32,
}

impl FloatSum {
    /// Adds `value * weight`.
    #[inline]
    pub fn add(&mut self, value: f64, weight: i64) {
        if !value.is_finite() {
            return self.add_special(value, weight);
        }
        let Parts { mantissa, exponent } = parts(value);
        self.add_finite(weighted(i128::from(mantissa), weight), exponent);
    }

    /// Adds `value * value * weight`.
    #[inline]
    pub fn add_square(&mut self, value: f64, weight: i64) {
        if !value.is_finite() {
            return self.add_special(value.abs(), weight);
        }
        let Parts { mantissa, exponent } = parts(value);
        let square = i128::from(mantissa) * i128::from(mantissa);
        self.add_finite(weighted(square, weight), 2 * exponent);
    }

    /// `limbs` have at most 170 bits.
    #[inline]
    fn add_finite(&mut self, limbs: [u64; NEAR], exponent: i32) {
        self.finite.add(exponent >> 6, shifted(limbs, (exponent & 63) as u32));
    }

    #[cold]
    fn add_special(&mut self, value: f64, weight: i64) {
        let mut specials = self.specials.take().unwrap_or_default();
        let count = match value {
            _ if value.is_nan() => &mut specials.nans,
            _ if value > 0.0 => &mut specials.positives,
            _ => &mut specials.negatives,
        };
        count.add(1, weight);
        self.keep(specials);
    }

    fn keep(&mut self, specials: Box<Specials>) {
        self.specials = (*specials != Specials::default()).then_some(specials);
    }

    /// Adds all that `other` has.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        self.finite.merge(&other.finite);
        if let Some(others) = &other.specials {
            let mut specials = self.specials.take().unwrap_or_default();
            specials.nans.merge(&others.nans);
            specials.positives.merge(&others.positives);
            specials.negatives.merge(&others.negatives);
            self.keep(specials);
        }
    }

    /// All weights times -1: merged with what it was before, it gives zero.
    pub fn negate(&mut self) {
        self.scale(-1);
    }

    /// All weights times `factor`.
    pub fn scale(&mut self, factor: i64) {
        self.finite = self.finite.times(&Wide::from(i128::from(factor)));
        if let Some(mut specials) = self.specials.take() {
            specials.nans.scale(factor);
            specials.positives.scale(factor);
            specials.negatives.scale(factor);
            self.keep(specials);
        }
    }

    /// Whether the sum is zero, and nothing is in it that is not finite: of no rows, or of rows that cancel out.
    pub fn is_zero(&self) -> bool {
        self.finite.is_zero() && self.specials.is_none()
    }

    /// The nearest double, half to even.
    ///
    /// NaN if there is a NaN or both infinities, else the infinity that there is, by weights that are not zero. A finite
    /// sum from halfway beyond the largest double is infinite, as in IEEE 754. Zero is never negative.
    pub fn to_f64(&self) -> f64 {
        self.special().unwrap_or_else(|| quotient(&self.finite, &[]))
    }

    /// The nearest double to the sum divided by the count of rows; None (NULL) without rows.
    ///
    /// What is not finite is as in [`to_f64`](Self::to_f64). The average of finite values is finite.
    pub fn average(&self, count: i64) -> Option<f64> {
        let count = u64::try_from(count).ok().filter(|count| *count > 0)?;
        Some(self.special().unwrap_or_else(|| quotient(&self.finite, &[count])))
    }

    /// Variance or deviation of `count` values, of which `self` is the sum and `squares` the sum of squares: the
    /// nearest double to the exact answer. None (NULL) for too few values.
    ///
    /// NaN with any value that is not finite, and for sums that no `count` values have (rows were retracted that had
    /// never been there).
    pub fn spread(&self, squares: &Self, count: i64, what: Spread) -> Option<f64> {
        let spread = Moments { sum: &self.finite, squares: &squares.finite, count }.spread(0, what);
        let specials = self.specials.is_some() || squares.specials.is_some();
        spread.map(|spread| if specials { f64::NAN } else { spread })
    }

    fn special(&self) -> Option<f64> {
        let specials = self.specials.as_ref()?;
        Some(match (specials.nans.is_zero(), specials.positives.is_zero(), specials.negatives.is_zero()) {
            (true, false, true) => f64::INFINITY,
            (true, true, false) => f64::NEG_INFINITY,
            _ => f64::NAN,
        })
    }

    /// Appends the bytes of this sum: equal sums have equal bytes, different sums different ones, none is the beginning
    /// of another. They are part of the state on disk, and never change.
    ///
    /// The finite sum, marked if three integers follow it: the weights of NaN, infinity and minus infinity.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.finite.encode(self.specials.is_some(), out);
        if let Some(specials) = &self.specials {
            specials.nans.encode(out);
            specials.positives.encode(out);
            specials.negatives.encode(out);
        }
    }

    /// Reads one sum and moves `from` on behind it. An error for all bytes that [`encode`](Self::encode) never writes;
    /// where `from` is then is of no use.
    pub fn decode(from: &mut &[u8]) -> Result<Self, Damaged> {
        let (finite, mark) = Wide::decode(from)?;
        if !mark {
            return Ok(Self { finite, specials: None });
        }
        let [nans, positives, negatives] = [IntSum::decode(from)?, IntSum::decode(from)?, IntSum::decode(from)?];
        let specials = Specials { nans, positives, negatives };
        if specials == Specials::default() {
            return Err(damaged(from, "it counts what is not finite, and there is none"));
        }
        Ok(Self { finite, specials: Some(Box::new(specials)) })
    }
}

/// The bits of a finite double.
#[inline]
fn parts(value: f64) -> Parts {
    let bits = value.to_bits();
    let field = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let mantissa = if field == 0 { fraction } else { fraction | 1 << 52 };
    // At most 53 also for zero, whose mantissa stays zero.
    let zeros = mantissa.trailing_zeros().min(53);
    let magnitude = (mantissa >> zeros) as i64;
    let mantissa = if value < 0.0 { -magnitude } else { magnitude };
    Parts { mantissa, exponent: field.max(1) - 1075 + zeros as i32 }
}
