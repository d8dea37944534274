//! The one row type of every circuit: bytes whose order is the rows' order.
//!
//! Generic code of the engine is compiled once, for this type, and never for a query. The bytes are those of
//! [`crate::codec::Codec`]; rows of one codec put behind each other are a row of both codecs' columns.
//! How a row is hashed decides which worker holds it, and so is part of a checkpoint's format.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use dbsp::NumEntries;
use dbsp::utils::{IsNone, SupportsRoaring};
use rkyv::ser::{ScratchSpace, Serializer};
use rkyv::vec::{ArchivedVec, VecResolver};
use rkyv::{Archive, Deserialize, Fallible, Serialize};
use size_of::{Context, SizeOf};
/// Bytes kept inside of a row, without memory of their own: three numbers, or one and a short text.
const INLINE_BYTES: usize = 30;
/// Bytes that are compared as one number.
const WORD_BYTES: usize = size_of::<u64>();

/// A row, or a part of one: a key, a value.
#[derive(Clone)]
pub struct Row(Bytes);

#[derive(Clone)]
enum Bytes {
    /// Zeros behind the first `length`.
    Inline { length: u8, bytes: [u8; INLINE_BYTES] },
    /// More of them than fit.
    Heap(Box<[u8]>),
}

const _: () = assert!(size_of::<Row>() == 32, "rows are moved a lot");

impl Row {
    /// A row of these bytes.
    #[inline]
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        match u8::try_from(bytes.len()) {
            Ok(length) if bytes.len() <= INLINE_BYTES => {
                let mut inline = [0; INLINE_BYTES];
                inline[..bytes.len()].copy_from_slice(bytes);
                Self(Bytes::Inline { length, bytes: inline })
            }
            _ => Self(Bytes::Heap(bytes.into())),
        }
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Bytes::Heap(bytes) => bytes,
        }
    }

    /// The columns of `self`, then those of `others`.
    #[inline]
    #[must_use]
    pub fn then(&self, others: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(others.iter().map(|other| other.len()).sum::<usize>() + self.bytes().len());
        bytes.extend_from_slice(self.bytes());
        others.iter().for_each(|other| bytes.extend_from_slice(other));
        Self::new(&bytes)
    }
}

impl Default for Row {
    fn default() -> Self {
        Self(Bytes::Inline { length: 0, bytes: [0; INLINE_BYTES] })
    }
}

/// The order of the bytes.
impl Ord for Row {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let (Bytes::Inline { length, bytes }, Bytes::Inline { length: other_length, bytes: other_bytes }) =
            (&self.0, &other.0)
        else {
            return self.bytes().cmp(other.bytes());
        };
        // The zeros behind the shorter one are not above what the longer one has in their place. The last word takes in
        // bytes of the one before once more.
        for from in [0, WORD_BYTES, 2 * WORD_BYTES, INLINE_BYTES - WORD_BYTES] {
            let (own, others) = (word(bytes, from), word(other_bytes, from));
            if own != others {
                return own.cmp(&others);
            }
        }
        length.cmp(other_length)
    }
}

#[inline]
fn word(bytes: &[u8; INLINE_BYTES], from: usize) -> u64 {
    u64::from_be_bytes(bytes[from..from + WORD_BYTES].try_into().expect("a word"))
}

impl PartialOrd for Row {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Row {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Bytes::Inline { length, bytes }, Bytes::Inline { length: other_length, bytes: other_bytes }) => {
                length == other_length && bytes == other_bytes
            }
            _ => self.bytes() == other.bytes(),
        }
    }
}

impl Eq for Row {}

/// That of the bytes: it finds a row's worker, also in states that were saved long ago.
impl Hash for Row {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl SizeOf for Row {
    fn size_of_children(&self, context: &mut Context) {
        if let Bytes::Heap(bytes) = &self.0 {
            context.add(bytes.len()).add_distinct_allocation();
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
        unsafe { ArchivedVec::resolve_from_slice(self.bytes(), position, resolver, out) }
    }
}

#[allow(unsafe_code, reason = "rkyv's traits for a copy of bytes are unsafe")]
impl<S: ScratchSpace + Serializer + ?Sized> Serialize<S> for Row {
    fn serialize(&self, serializer: &mut S) -> Result<VecResolver, S::Error> {
        // SAFETY: bytes are their own archived form.
        unsafe { ArchivedVec::<u8>::serialize_copy_from_slice(self.bytes(), serializer) }
    }
}

impl<D: Fallible + ?Sized> Deserialize<Row, D> for ArchivedVec<u8> {
    fn deserialize(&self, _: &mut D) -> Result<Row, D::Error> {
        Ok(Row::new(self.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths on both sides of what is kept inside, with zeros, which are also what is behind an inline row's end.
    fn rows() -> Vec<Vec<u8>> {
        let mut rows = vec![vec![]];
        for length in [1, 7, 8, 9, 15, 16, 17, 24, 25, 29, 30, 31, 40] {
            for at in [0, length / 2, length - 1] {
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut row = vec![0; length];
                    row[at] = byte;
                    rows.push(row);
                }
            }
        }
        rows
    }

    #[test]
    fn rows_are_ordered_as_their_bytes_are() {
        for one in rows() {
            for other in rows() {
                let (left, right) = (Row::new(&one), Row::new(&other));
                assert_eq!(left.cmp(&right), one.cmp(&other), "{left:?} {right:?}");
                assert_eq!(left == right, one == other, "{left:?} {right:?}");
            }
        }
    }

    #[test]
    fn rows_keep_their_bytes_and_hash_as_they_do() {
        for bytes in rows() {
            let row = Row::new(&bytes);
            assert_eq!(row.bytes(), bytes);
            assert_eq!(row.then(&[&[1, 2], &[3]]).bytes(), [bytes.as_slice(), &[1, 2, 3]].concat());
            assert_eq!(dbsp::default_hash(&row), dbsp::default_hash(bytes.as_slice()), "{row:?}");
        }
    }
}
