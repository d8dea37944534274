//! Protobuf's wire format: tags, numbers, lengths and groups, as strict as `prost` is.

use crate::error::{Fail, Refused};

/// How deep messages and groups may nest; the deepest that `prost` takes.
pub(super) const MAX_NESTING: usize = 100;

pub(super) const OTHER_WIRE_TYPE: &str = "a value of another wire type than the schema's";

/// How a value lies in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Varint,
    Fixed64,
    Length,
    Group,
    GroupEnd,
    Fixed32,
}

/// What stands before a value: its field's number, and how it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) form: Form,
}

/// One value of a field: a number's bits, or where its bytes lie in the message.
///
/// The default is what a field without presence has when it is left out: 0, `false`, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bits: u64,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Part {
    fn number(bits: u64) -> Self {
        Self { bits, ..Self::default() }
    }

    fn span(start: usize, end: usize) -> Result<Self, Refused> {
        let at = |at: usize| u32::try_from(at).map_err(|_| Fail::malformed(start, "a message of 4 GiB or more"));
        Ok(Self { bits: 0, start: at(start)?, end: at(end)? })
    }

    /// All of a message's bytes, less its frame.
    pub(super) fn whole(bytes: &[u8], from: usize) -> Result<Self, Refused> {
        Self::span(from, bytes.len())
    }

    /// Its bytes; none for a number.
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// A place in a message's bytes, and where the part that is read ends.
pub(super) struct Wire<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Wire<'a> {
    pub(super) fn new(bytes: &'a [u8], part: Part) -> Self {
        Self { bytes, at: part.start as usize, end: part.end as usize }
    }

    pub(super) fn is_done(&self) -> bool {
        self.at >= self.end
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn fail(&self, what: &'static str) -> Refused {
        Fail::malformed(self.at, what)
    }

    fn byte(&mut self) -> Result<u8, Refused> {
        if self.is_done() {
            return Err(self.fail("the message ends too early"));
        }
        let byte = self.bytes[self.at];
        self.at += 1;
        Ok(byte)
    }

    /// A number of 7 bits a byte, the lowest first.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Refused> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.fail("a number of more than 64 bits"))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        match self.bytes[self.at..self.end].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.fail("the message ends too early")),
        }
    }

    #[inline]
    pub(super) fn tag(&mut self) -> Result<Tag, Refused> {
        let start = self.at;
        let key = self.varint()?;
        let Ok(key) = u32::try_from(key) else {
            return Err(Fail::malformed(start, "a field number of more than 29 bits"));
        };
        let form = match key & 7 {
            0 => Form::Varint,
            1 => Form::Fixed64,
            2 => Form::Length,
            3 => Form::Group,
            4 => Form::GroupEnd,
            5 => Form::Fixed32,
            _ => return Err(Fail::malformed(start, "no such wire type")),
        };
        if key >> 3 == 0 { Err(Fail::malformed(start, "field number 0")) } else { Ok(Tag { number: key >> 3, form }) }
    }

    /// The value after a tag. `depth` is how many messages and groups it lies in.
    pub(super) fn value(&mut self, tag: Tag, depth: usize) -> Result<Part, Refused> {
        match tag.form {
            Form::Varint => self.varint().map(Part::number),
            Form::Fixed64 => self.fixed().map(u64::from_le_bytes).map(Part::number),
            Form::Fixed32 => self.fixed().map(u32::from_le_bytes).map(u64::from).map(Part::number),
            Form::Length => {
                let length = self.varint()?;
                let left = self.end - self.at;
                let Some(length) = usize::try_from(length).ok().filter(|length| *length <= left) else {
                    return Err(self.fail("a length that passes the message's end"));
                };
                self.at += length;
                Part::span(self.at - length, self.at)
            }
            Form::Group => self.group(tag.number, depth),
            Form::GroupEnd => Err(self.fail("a group's end without its start")),
        }
    }

    /// The fields of a group, whose start was taken; its end is taken, too.
    fn group(&mut self, number: u32, depth: usize) -> Result<Part, Refused> {
        if depth >= MAX_NESTING {
            return Err(self.fail("nested deeper than 100 messages"));
        }
        let start = self.at;
        loop {
            let end = self.at;
            match self.tag()? {
                Tag { number: inner, form: Form::GroupEnd } if inner == number => return Part::span(start, end),
                tag => self.value(tag, depth + 1)?,
            };
        }
    }
}
