//! Sums without error: the same rows give the same sum, in whatever order, cut or merge they came.
//!
//! A rounded sum remembers the order of its rows, and a retracted row leaves its rounding behind. [`FloatSum`] and
//! [`IntSum`] round nothing until they are asked for an answer; the answer is the exact one, rounded once, half to even.
//!
//! Invariants:
//! - P6: equal sums are equal values, have equal bytes and equal hashes. Zero is the empty sum.
//! - `add`, `merge`, `negate` and `scale` are exact for all arguments; nothing overflows, a sum only grows longer.
//! - The bytes of [`FloatSum::encode`] and [`IntSum::encode`] are part of the state on disk: they never change.
//!
//! Read `wide.rs` (the number below both), then `float.rs` and `int.rs`, then `ratio.rs` (how answers are rounded).
//!
//! Deliberately absent: the count of rows. Whether a group is NULL is for its owner to know (an empty sum is zero).

mod bytes;
mod float;
mod int;
mod ratio;
mod spread;
mod wide;

#[cfg(test)]
mod tests;

pub use bytes::Damaged;
pub use float::FloatSum;
pub use int::{DecimalAverage, IntSum};
pub use spread::Spread;
