//! What a group's linear aggregates add up in, as the engine's weight: sums that any order of rows makes alike.

use std::ops::{Add, AddAssign};

use dbsp::algebra::{HasZero, MulByRef};
use dbsp::utils::{IsNone, SupportsRoaring};
use dbsp::{NumEntries, ZWeight};
use rkyv::ser::{ScratchSpace, Serializer};
use rkyv::vec::{ArchivedVec, VecResolver};
use rkyv::{Archive, Deserialize, Fallible, Serialize};
use size_of::{Context, SizeOf};
use smallvec::SmallVec;

use crate::exact::{Damaged, FloatSum, IntSum};

/// One measure's sum. Counts are of rows whose value is not NULL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    /// How many.
    Count(i64),
    /// Integers or unscaled decimals.
    Int(i64, IntSum),
    /// Doubles.
    Float(i64, FloatSum),
    /// Integers and their squares.
    IntSpread(i64, Box<[IntSum; 2]>),
    /// Doubles and their squares.
    FloatSpread(i64, Box<[FloatSum; 2]>),
    /// How many are true, and how many false.
    Truth(i64, i64),
}

/// How many measures are kept without memory of their own.
const INLINE_CELLS: usize = 2;

/// A group: how many rows it has, and a cell for each measure. No cells stand for cells of zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Accumulator {
    /// Its rows, copies counted.
    pub rows: i64,
    /// Its measures, in the plan's order.
    pub cells: SmallVec<[Cell; INLINE_CELLS]>,
}

/// A sum of counts.
///
/// # Panics
/// When it passes 63 bits.
fn sum(left: i64, right: i64) -> i64 {
    left.checked_add(right).expect("a count of rows within 63 bits")
}

fn product(left: i64, right: i64) -> i64 {
    left.checked_mul(right).expect("a count of rows within 63 bits")
}

impl Cell {
    fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Count(count), Self::Count(more)) => *count = sum(*count, *more),
            (Self::Int(count, total), Self::Int(more, other)) => {
                *count = sum(*count, *more);
                total.merge(other);
            }
            (Self::Float(count, total), Self::Float(more, other)) => {
                *count = sum(*count, *more);
                total.merge(other);
            }
            (Self::IntSpread(count, totals), Self::IntSpread(more, others)) => {
                *count = sum(*count, *more);
                totals.iter_mut().zip(others.iter()).for_each(|(total, other)| total.merge(other));
            }
            (Self::FloatSpread(count, totals), Self::FloatSpread(more, others)) => {
                *count = sum(*count, *more);
                totals.iter_mut().zip(others.iter()).for_each(|(total, other)| total.merge(other));
            }
            (Self::Truth(trues, falses), Self::Truth(more_trues, more_falses)) => {
                *trues = sum(*trues, *more_trues);
                *falses = sum(*falses, *more_falses);
            }
            (one, other) => panic!("cells of one measure: {one:?} and {other:?}"),
        }
    }

    fn scale(&mut self, factor: i64) {
        match self {
            Self::Count(count) => *count = product(*count, factor),
            Self::Int(count, total) => {
                *count = product(*count, factor);
                total.scale(factor);
            }
            Self::Float(count, total) => {
                *count = product(*count, factor);
                total.scale(factor);
            }
            Self::IntSpread(count, totals) => {
                *count = product(*count, factor);
                totals.iter_mut().for_each(|total| total.scale(factor));
            }
            Self::FloatSpread(count, totals) => {
                *count = product(*count, factor);
                totals.iter_mut().for_each(|total| total.scale(factor));
            }
            Self::Truth(trues, falses) => {
                *trues = product(*trues, factor);
                *falses = product(*falses, factor);
            }
        }
    }

    fn is_zero(&self) -> bool {
        match self {
            Self::Count(count) => *count == 0,
            Self::Int(count, total) => *count == 0 && total.is_zero(),
            Self::Float(count, total) => *count == 0 && total.is_zero(),
            Self::IntSpread(count, totals) => *count == 0 && totals.iter().all(IntSum::is_zero),
            Self::FloatSpread(count, totals) => *count == 0 && totals.iter().all(FloatSum::is_zero),
            Self::Truth(trues, falses) => *trues == 0 && *falses == 0,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (kind, count) = match self {
            Self::Count(count) => (0, count),
            Self::Int(count, _) => (1, count),
            Self::Float(count, _) => (2, count),
            Self::IntSpread(count, _) => (3, count),
            Self::FloatSpread(count, _) => (4, count),
            Self::Truth(trues, _) => (5, trues),
        };
        out.push(kind);
        out.extend_from_slice(&count.to_le_bytes());
        match self {
            Self::Count(_) => {}
            Self::Int(_, total) => total.encode(out),
            Self::Float(_, total) => total.encode(out),
            Self::IntSpread(_, totals) => totals.iter().for_each(|total| total.encode(out)),
            Self::FloatSpread(_, totals) => totals.iter().for_each(|total| total.encode(out)),
            Self::Truth(_, falses) => out.extend_from_slice(&falses.to_le_bytes()),
        }
    }

    fn decode(from: &mut &[u8]) -> Result<Self, Damaged> {
        let kind = take::<1>(from)?[0];
        let count = i64::from_le_bytes(take(from)?);
        Ok(match kind {
            0 => Self::Count(count),
            1 => Self::Int(count, IntSum::decode(from)?),
            2 => Self::Float(count, FloatSum::decode(from)?),
            3 => Self::IntSpread(count, Box::new([IntSum::decode(from)?, IntSum::decode(from)?])),
            4 => Self::FloatSpread(count, Box::new([FloatSum::decode(from)?, FloatSum::decode(from)?])),
            5 => Self::Truth(count, i64::from_le_bytes(take(from)?)),
            _ => return Err(Damaged { left: from.len(), what: "a cell of no kind that there is" }),
        })
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], Damaged> {
    let damaged = Damaged { left: from.len(), what: "an accumulator cut short" };
    let (head, rest) = from.split_first_chunk::<N>().ok_or(damaged)?;
    *from = rest;
    Ok(*head)
}

impl Accumulator {
    /// Its bytes: equal ones for equal groups. They are part of the state on disk, and never change.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 24 * self.cells.len());
        out.extend_from_slice(&self.rows.to_le_bytes());
        self.cells.iter().for_each(|cell| cell.encode(&mut out));
        out
    }

    /// What [`Accumulator::encode`] gave.
    ///
    /// # Errors
    /// For all other bytes.
    pub fn decode(mut from: &[u8]) -> Result<Self, Damaged> {
        let from = &mut from;
        let rows = i64::from_le_bytes(take(from)?);
        let mut cells = SmallVec::new();
        while !from.is_empty() {
            cells.push(Cell::decode(from)?);
        }
        Ok(Self { rows, cells })
    }

    fn merge(&mut self, other: &Self) {
        self.rows = sum(self.rows, other.rows);
        if self.cells.is_empty() {
            self.cells.clone_from(&other.cells);
        } else if !other.cells.is_empty() {
            self.cells.iter_mut().zip(&other.cells).for_each(|(cell, other)| cell.merge(other));
        }
    }
}

impl HasZero for Accumulator {
    fn is_zero(&self) -> bool {
        self.rows == 0 && self.cells.iter().all(Cell::is_zero)
    }

    fn zero() -> Self {
        Self::default()
    }
}

impl Add for Accumulator {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self.merge(&other);
        self
    }
}

impl Add<&Accumulator> for &Accumulator {
    type Output = Accumulator;

    fn add(self, other: &Accumulator) -> Accumulator {
        self.clone() + other.clone()
    }
}

impl AddAssign for Accumulator {
    fn add_assign(&mut self, other: Self) {
        self.merge(&other);
    }
}

impl AddAssign<&Accumulator> for Accumulator {
    fn add_assign(&mut self, other: &Accumulator) {
        self.merge(other);
    }
}

impl MulByRef<ZWeight> for Accumulator {
    type Output = Self;

    fn mul_by_ref(&self, weight: &ZWeight) -> Self {
        let mut scaled = self.clone();
        if *weight != 1 {
            scaled.rows = product(scaled.rows, *weight);
            scaled.cells.iter_mut().for_each(|cell| cell.scale(*weight));
        }
        scaled
    }
}

impl SizeOf for Accumulator {
    fn size_of_children(&self, context: &mut Context) {
        if self.cells.spilled() {
            context.add(self.cells.capacity() * size_of::<Cell>()).add_distinct_allocation();
        }
    }
}

impl IsNone for Accumulator {
    type Inner = Self;

    fn is_none(&self) -> bool {
        false
    }

    fn unwrap_or_self(&self) -> &Self {
        self
    }

    fn from_inner(inner: Self) -> Self {
        inner
    }
}

impl SupportsRoaring for Accumulator {}

impl NumEntries for Accumulator {
    const CONST_NUM_ENTRIES: Option<usize> = Some(1);

    fn num_entries_shallow(&self) -> usize {
        1
    }

    fn num_entries_deep(&self) -> usize {
        1
    }
}

/// The length of an accumulator's bytes is known only once they are made.
#[allow(missing_debug_implementations, reason = "a part of it has none")]
pub struct Encoded {
    bytes: Vec<u8>,
    archived: VecResolver,
}

#[allow(unsafe_code, reason = "rkyv's traits for a copy of bytes are unsafe")]
impl Archive for Accumulator {
    type Archived = ArchivedVec<u8>;
    type Resolver = Encoded;

    unsafe fn resolve(&self, position: usize, resolver: Encoded, out: *mut Self::Archived) {
        // SAFETY: the contract of this function is that of the one called.
        unsafe { ArchivedVec::resolve_from_slice(&resolver.bytes, position, resolver.archived, out) }
    }
}

#[allow(unsafe_code, reason = "rkyv's traits for a copy of bytes are unsafe")]
impl<S: ScratchSpace + Serializer + ?Sized> Serialize<S> for Accumulator {
    fn serialize(&self, serializer: &mut S) -> Result<Encoded, S::Error> {
        let bytes = self.encode();
        // SAFETY: bytes are their own archived form.
        let archived = unsafe { ArchivedVec::<u8>::serialize_copy_from_slice(&bytes, serializer)? };
        Ok(Encoded { bytes, archived })
    }
}

impl<D: Fallible + ?Sized> Deserialize<Accumulator, D> for ArchivedVec<u8> {
    fn deserialize(&self, _: &mut D) -> Result<Accumulator, D::Error> {
        Ok(Accumulator::decode(self.as_slice()).expect("what the engine wrote, whose checksums it has checked"))
    }
}
