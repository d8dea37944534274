//! The one row type of every circuit: bytes whose order is the rows' order.
//!
//! Generic code of the engine is compiled once, for this type, and never for a query. The bytes are those of
//! [`crate::codec::Codec`]; rows of one codec put behind each other are a row of both codecs' columns.
//! How a row is hashed decides which worker holds it, and so is part of a checkpoint's format.

use std::fmt;

use dbsp::NumEntries;
use dbsp::utils::{IsNone, SupportsRoaring};
use rkyv::ser::{ScratchSpace, Serializer};
use rkyv::vec::{ArchivedVec, VecResolver};
use rkyv::{Archive, Deserialize, Fallible, Serialize};
use size_of::{Context, SizeOf};
use smallvec::SmallVec;

/// Bytes kept inside of a row, without memory of their own: two numbers and a short text.
const INLINE_BYTES: usize = 24;

/// A row, or a part of one: a key, a value.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(SmallVec<[u8; INLINE_BYTES]>);

impl Row {
    /// A row of these bytes.
    #[inline]
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The columns of `self`, then those of `others`.
    #[inline]
    #[must_use]
    pub fn then(&self, others: &[&[u8]]) -> Self {
        let mut bytes = SmallVec::with_capacity(others.iter().map(|other| other.len()).sum::<usize>() + self.0.len());
        bytes.extend_from_slice(&self.0);
        others.iter().for_each(|other| bytes.extend_from_slice(other));
        Self(bytes)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl SizeOf for Row {
    fn size_of_children(&self, context: &mut Context) {
        if self.0.spilled() {
            context.add(self.0.capacity()).add_distinct_allocation();
        }
    }
}

impl IsNone for Row {
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

impl SupportsRoaring for Row {}

impl NumEntries for Row {
    const CONST_NUM_ENTRIES: Option<usize> = Some(1);

    fn num_entries_shallow(&self) -> usize {
        1
    }

    fn num_entries_deep(&self) -> usize {
        1
    }
}

// Copied whole, rather than byte by byte as the derive does it.
#[allow(unsafe_code, reason = "rkyv's traits for a copy of bytes are unsafe")]
impl Archive for Row {
    type Archived = ArchivedVec<u8>;
    type Resolver = VecResolver;

    unsafe fn resolve(&self, position: usize, resolver: VecResolver, out: *mut Self::Archived) {
        // SAFETY: the contract of this function is that of the one called.
        unsafe { ArchivedVec::resolve_from_slice(&self.0, position, resolver, out) }
    }
}

#[allow(unsafe_code, reason = "rkyv's traits for a copy of bytes are unsafe")]
impl<S: ScratchSpace + Serializer + ?Sized> Serialize<S> for Row {
    fn serialize(&self, serializer: &mut S) -> Result<VecResolver, S::Error> {
        // SAFETY: bytes are their own archived form.
        unsafe { ArchivedVec::<u8>::serialize_copy_from_slice(&self.0, serializer) }
    }
}

impl<D: Fallible + ?Sized> Deserialize<Row, D> for ArchivedVec<u8> {
    fn deserialize(&self, _: &mut D) -> Result<Row, D::Error> {
        Ok(Row::new(self.as_slice()))
    }
}
