//! Avro's binary encoding, read strictly: what `apache_avro` refuses is refused here, and what ends too early as well.

use apache_avro::Uuid;

use crate::error::{BadKind, Fail, Refused};
use crate::scan::MAX_DEPTH;
use crate::simd::utf8;

use super::schema::{AvroSchema, Node, NodeId, Size};

/// Elements that take no byte (nulls, records of nothing), so that few bytes can't stand for endless work.
pub(crate) const MOST_EMPTY_ELEMENTS: usize = 1 << 16;

/// A place in one message.
#[derive(Clone, Debug)]
pub(crate) struct Datum<'a> {
    bytes: &'a [u8],
    at: usize,
    /// How many more elements of arrays and maps there may be.
    elements_left: usize,
}

impl<'a> Datum<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, elements_left: bytes.len().saturating_add(MOST_EMPTY_ELEMENTS) }
    }

    /// Whether nothing follows.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    #[cold]
    pub(crate) fn fail(&self, what: &'static str) -> Refused {
        Fail::malformed(self.at, what)
    }

    #[cold]
    fn too_short(&self) -> Refused {
        self.fail("the message ends too early")
    }

    /// Nothing must follow.
    pub(crate) fn end(&self) -> Result<(), Refused> {
        if self.is_at_end() { Ok(()) } else { Err(self.fail("there are bytes behind the value that the schema knows")) }
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Refused> {
        let Some(taken) = self.bytes[self.at..].get(..length) else { return Err(self.too_short()) };
        self.at += length;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let Some(taken) = self.bytes[self.at..].first_chunk::<N>() else { return Err(self.too_short()) };
        self.at += N;
        Ok(*taken)
    }

    /// A zigzag number of 64 bits.
    #[inline]
    pub(crate) fn long(&mut self) -> Result<i64, Refused> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(i64::from(byte >> 1) ^ -i64::from(byte & 1))
            }
            _ => self.long_long(),
        }
    }

    fn long_long(&mut self) -> Result<i64, Refused> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let Some(&byte) = self.bytes.get(self.at) else { return Err(self.too_short()) };
            // Of the tenth byte one bit is left.
            if shift == 63 && byte > 1 {
                return Err(self.fail("a number of more than 64 bits"));
            }
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
            shift += 7;
        }
    }

    /// A zigzag number of 32 bits.
    #[inline]
    pub(crate) fn int(&mut self) -> Result<i32, Refused> {
        i32::try_from(self.long()?).map_err(|_| self.fail("an int of more than 32 bits"))
    }

    #[inline]
    pub(crate) fn boolean(&mut self) -> Result<bool, Refused> {
        match self.array::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(self.fail("a boolean that is neither 0 nor 1")),
        }
    }

    /// Bytes that say their length.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Refused> {
        let length = self.long()?;
        let length = usize::try_from(length).map_err(|_| self.fail("a length below 0"))?;
        self.take(length)
    }

    pub(crate) fn sized(&mut self, size: Size) -> Result<&'a [u8], Refused> {
        match size {
            Size::Told => self.bytes(),
            Size::Fixed(size) => self.take(size),
        }
    }

    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'a str, Refused> {
        let bytes = self.bytes()?;
        utf8(bytes).map_err(|_| self.fail("text that is not UTF-8"))
    }

    /// Which of `count` things, such as a union's branches or an enum's symbols.
    #[inline]
    pub(crate) fn index(&mut self, count: usize, what: &'static str) -> Result<usize, Refused> {
        let index = self.long()?;
        match usize::try_from(index) {
            Ok(index) if index < count => Ok(index),
            _ => Err(self.fail(what)),
        }
    }

    /// The elements of an array or map, block by block.
    #[inline]
    pub(crate) fn elements(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        loop {
            let mut count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                // Its length in bytes follows, for those who want to skip it. We look at all.
                count = count.checked_neg().ok_or_else(|| self.fail("a block of more than 2^63 elements"))?;
                if self.long()? < 0 {
                    return Err(self.fail("a block of less than 0 bytes"));
                }
            }
            let count = usize::try_from(count).ok().filter(|count| *count <= self.elements_left);
            let Some(count) = count else {
                return Err(self.fail("more elements than the message has bytes for"));
            };
            self.elements_left -= count;
            for _ in 0..count {
                element(self)?;
            }
        }
    }

    /// Goes over a value, looking at every byte of it as closely as if it were wanted.
    pub(crate) fn skip(&mut self, schema: &AvroSchema, node: NodeId, depth: usize) -> Result<(), Refused> {
        match schema.node(node) {
            Node::Null => Ok(()),
            Node::Boolean => self.boolean().map(drop),
            Node::Int | Node::Date | Node::TimeMillis => self.int().map(drop),
            Node::Long | Node::TimeMicros | Node::Timestamp(..) => self.long().map(drop),
            Node::Float => self.array::<4>().map(drop),
            Node::Double => self.array::<8>().map(drop),
            Node::Bytes => self.bytes().map(drop),
            Node::String => self.string().map(drop),
            Node::Fixed(size) => self.take(*size).map(drop),
            Node::Decimal { size, .. } => self.sized(*size).map(drop),
            Node::BigDecimal => self.big_decimal().map(drop),
            Node::UuidText => self.uuid_text().map(drop),
            Node::UuidBytes(size) => self.uuid_bytes(*size).map(drop),
            Node::Duration => self.array::<12>().map(drop),
            Node::Enum(symbols) => self.index(symbols.len(), NO_SYMBOL).map(drop),
            nested => self.skip_nested(schema, nested, deeper(depth)?),
        }
    }

    fn skip_nested(&mut self, schema: &AvroSchema, node: &Node, depth: usize) -> Result<(), Refused> {
        match node {
            Node::Array(items) => self.elements(|datum| datum.skip(schema, *items, depth)),
            Node::Map(values) => self.elements(|datum| {
                datum.string()?;
                datum.skip(schema, *values, depth)
            }),
            Node::Union(branches) => {
                let branch = branches[self.index(branches.len(), NO_BRANCH)?];
                self.skip(schema, branch, depth)
            }
            Node::Record(fields) => fields
                .iter()
                .try_for_each(|(name, field)| self.skip(schema, *field, depth).map_err(|refused| refused.within(name))),
            _ => unreachable!("seen to by `skip`"),
        }
    }

    /// Digits' bytes and scale of a big decimal.
    pub(crate) fn big_decimal(&mut self) -> Result<(&'a [u8], i64), Refused> {
        let mut inner = Datum::new(self.bytes()?);
        let parts = inner.bytes().and_then(|digits| Ok((digits, inner.long()?)));
        parts.ok().filter(|_| inner.is_at_end()).ok_or_else(|| self.fail("bytes that are no big-decimal"))
    }

    pub(crate) fn uuid_text(&mut self) -> Result<Uuid, Refused> {
        let text = self.string()?;
        Uuid::parse_str(text).map_err(|_| self.fail("text that is no UUID"))
    }

    pub(crate) fn uuid_bytes(&mut self, size: Size) -> Result<Uuid, Refused> {
        let bytes = self.sized(size)?;
        Uuid::from_slice(bytes).map_err(|_| self.fail("a UUID of another length than 16 bytes"))
    }
}

pub(crate) const NO_BRANCH: &str = "a branch that the union does not have";
pub(crate) const NO_SYMBOL: &str = "a symbol that the enum does not have";

/// One level further in.
pub(crate) fn deeper(depth: usize) -> Result<usize, Refused> {
    if depth < MAX_DEPTH {
        return Ok(depth + 1);
    }
    Err(Fail::bad(BadKind::Malformed, "the value nests deeper than 127 levels"))
}
