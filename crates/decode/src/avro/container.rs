//! Container files: a schema, and blocks of values, perhaps compressed.

use std::str::FromStr as _;

use apache_avro::Codec;
use apache_avro::util::max_allocation_bytes;

use crate::error::{BadKind, Fail, Refused};
use crate::inflate::MOST_INFLATED_BYTES;

use super::datum::Datum;

/// What every container file begins with.
pub(crate) const MAGIC: [u8; 4] = *b"Obj\x01";
const SYNC_BYTES: usize = 16;

/// A container file, read from its header on.
#[derive(Debug)]
pub(crate) struct Container<'a> {
    /// The schema's text.
    pub(crate) schema: &'a [u8],
    codec: Codec,
    sync: [u8; SYNC_BYTES],
    datum: Datum<'a>,
    /// How many more bytes its blocks may inflate to.
    bytes_left: usize,
    block: Vec<u8>,
}

impl<'a> Container<'a> {
    /// Reads the header.
    pub(crate) fn open(message: &'a [u8]) -> Result<Self, Refused> {
        let Some(rest) = message.strip_prefix(&MAGIC) else {
            return Err(Fail::malformed(
                0,
                "the message is no Avro container file: it does not begin with 'Obj' and 1",
            ));
        };
        let mut datum = Datum::new(rest);
        let (mut schema, mut codec) = (None, None);
        datum.elements(|datum| {
            let (key, value) = (datum.string()?, datum.bytes()?);
            match key {
                "avro.schema" => schema = Some(value),
                "avro.codec" => codec = Some(value),
                _ => {}
            }
            Ok(())
        })?;
        let sync = datum.array()?;
        let schema = schema.ok_or_else(|| datum.fail("a container file without a schema"))?;
        let codec = match codec.map(std::str::from_utf8) {
            None => Codec::Null,
            Some(name) => name.ok().and_then(|name| Codec::from_str(name).ok()).ok_or_else(|| unknown(codec))?,
        };
        // A limit of the process, which the codecs ask for.
        max_allocation_bytes(MOST_INFLATED_BYTES);
        Ok(Self { schema, codec, sync, datum, bytes_left: MOST_INFLATED_BYTES, block: Vec::new() })
    }

    /// The next block: how many values, and their bytes. `None` at the end.
    pub(crate) fn block(&mut self) -> Result<Option<(usize, &[u8])>, Refused> {
        if self.datum.is_at_end() {
            return Ok(None);
        }
        let count = self.datum.long()?;
        let bytes = self.datum.bytes()?;
        if self.datum.array()? != self.sync {
            return Err(self.datum.fail("a block of the container file does not end with the file's marker"));
        }
        self.block.clear();
        self.block.extend_from_slice(bytes);
        if let Err(error) = self.codec.decompress(&mut self.block) {
            let what = format!("a block of the container file can't be decompressed: {error}");
            return Err(Fail::text(BadKind::Malformed, what));
        }
        let Some(left) = self.bytes_left.checked_sub(self.block.len()) else {
            return Err(Fail::text(
                BadKind::TooLarge,
                format!("the container file inflates to more than {MOST_INFLATED_BYTES} bytes"),
            ));
        };
        self.bytes_left = left;
        match usize::try_from(count) {
            Ok(count) => Ok(Some((count, &self.block))),
            Err(_) => Err(self.datum.fail("a block of less than 0 values")),
        }
    }
}

#[cold]
fn unknown(codec: Option<&[u8]>) -> Refused {
    let name = codec.unwrap_or_default().escape_ascii();
    let known = "null, deflate, snappy, zstandard, bzip2, xz";
    Fail::text(BadKind::Malformed, format!("the container file's codec '{name}' is none of {known}"))
}
