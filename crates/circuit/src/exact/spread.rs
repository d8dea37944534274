//! Variance and deviation, out of exact sums.

use std::iter::repeat_n;

use super::ratio::{quotient, root};
use super::wide::Wide;

/// How far values lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spread {
    /// `var_pop`: NULL for no values.
    PopulationVariance,
    /// `var_samp`: NULL for less than two values.
    SampleVariance,
    /// `stddev_pop`: the root of `var_pop`, also where that is too large or too small for a double.
    PopulationDeviation,
    /// `stddev_samp`: the root of `var_samp`, also where that is too large or too small for a double.
    SampleDeviation,
}

/// Of `count` values: their sum, and the sum of their squares.
pub(super) struct Moments<'a> {
    pub(super) sum: &'a Wide,
    pub(super) squares: &'a Wide,
    pub(super) count: i64,
}

impl Moments<'_> {
    /// `(count * squares - sum * sum) / (count * (count, or one less))`, or its root, of values divided by `10^scale`.
    pub(super) fn spread(&self, scale: u8, what: Spread) -> Option<f64> {
        let count = u64::try_from(self.count).ok()?;
        let others = match what {
            Spread::PopulationVariance | Spread::PopulationDeviation => count,
            Spread::SampleVariance | Spread::SampleDeviation => count.saturating_sub(1),
        };
        if others == 0 {
            return None;
        }
        let mut excess = self.squares.times(&Wide::from(i128::from(count)));
        excess.merge(&self.sum.times(self.sum).negated());
        if excess.is_negative() {
            return Some(f64::NAN);
        }
        let mut divisors = vec![count, others];
        divisors.extend(repeat_n(100, usize::from(scale)));
        Some(match what {
            Spread::PopulationVariance | Spread::SampleVariance => quotient(&excess, &divisors),
            Spread::PopulationDeviation | Spread::SampleDeviation => root(&excess, &divisors),
        })
    }
}
