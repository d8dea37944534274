//! Sums against a plain model, in any order and cut; answers against tables and against integers that can't overflow.

mod bytes;
mod float;
mod int;
mod model;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::{FloatSum, IntSum};
use model::Model;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn seeds() -> impl Iterator<Item = (u64, SmallRng)> {
    (0..400).map(|seed| (seed, SmallRng::seed_from_u64(seed)))
}

fn float_bytes(sum: &FloatSum) -> Vec<u8> {
    let mut bytes = Vec::new();
    sum.encode(&mut bytes);
    bytes
}

fn int_bytes(sum: &IntSum) -> Vec<u8> {
    let mut bytes = Vec::new();
    sum.encode(&mut bytes);
    bytes
}

/// The same number, or both not a number.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// Doubles of one of several kinds, so that sums come close together, far apart, and to cancel out.
fn float(rng: &mut SmallRng, kind: u64) -> f64 {
    match kind % 5 {
        0 => f64::from(rng.random_range(-50..50)) / 4.0,
        1 => rng.random::<f64>() * 1e6,
        2 => f64::from_bits(rng.random::<u64>() & 0x800f_ffff_ffff_ffff), // subnormal
        3 => 2_f64.powi(rng.random_range(-1074..1024)) * if rng.random() { 1.0 } else { -1.0 },
        _ => loop {
            let any = f64::from_bits(rng.random());
            if any.is_finite() {
                break any;
            }
        },
    }
}

fn weight(rng: &mut SmallRng) -> i64 {
    match rng.random_range(0..8) {
        0 => rng.random(),
        1 => [i64::MIN, i64::MAX, 0, 2, -2, 1 << 62][rng.random_range(0..6)],
        2 | 3 => -1,
        _ => 1,
    }
}
