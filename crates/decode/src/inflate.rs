//! Compressed messages: as a whole by gzip or zstd, every member or frame of them.

use std::io::{self, Read};
use std::str::FromStr;

use flate2::bufread::MultiGzDecoder;

use crate::error::{BadKind, Fail, Refused};

/// What a message may inflate to, at most: few bytes must not stand for endless memory.
pub const MOST_INFLATED_BYTES: usize = 128 << 20;

/// Memory kept for the next message.
const MOST_KEPT_BYTES: usize = 16 << 20;

/// How each message is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952, any number of members.
    Gzip,
    /// RFC 8878, any number of frames.
    Zstd,
}

/// No such way to compress.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is neither gzip nor zstd")]
pub struct NoCompression(String);

impl FromStr for Compression {
    type Err = NoCompression;

    fn from_str(text: &str) -> Result<Self, NoCompression> {
        match text {
            "gzip" => Ok(Self::Gzip),
            "zstd" => Ok(Self::Zstd),
            other => Err(NoCompression(other.to_owned())),
        }
    }
}

/// Inflates messages one after the other, into memory that is kept.
#[derive(Debug)]
pub(crate) struct Inflater {
    compression: Compression,
    inflated: Vec<u8>,
}

impl Inflater {
    pub(crate) fn new(compression: Compression) -> Self {
        Self { compression, inflated: Vec::new() }
    }

    /// The message as it was before it was compressed.
    pub(crate) fn inflate(&mut self, message: &[u8]) -> Result<&[u8], Refused> {
        let most = MOST_INFLATED_BYTES as u64 + 1;
        if self.inflated.capacity() > MOST_KEPT_BYTES {
            self.inflated = Vec::new();
        }
        self.inflated.clear();
        let inflated = match self.compression {
            // It takes no bytes at all for no member at all.
            Compression::Gzip if message.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            Compression::Gzip => MultiGzDecoder::new(message).take(most).read_to_end(&mut self.inflated),
            Compression::Zstd if message.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            Compression::Zstd => zstd::stream::read::Decoder::with_buffer(message)
                .and_then(|decoder| decoder.take(most).read_to_end(&mut self.inflated)),
        };
        if let Err(error) = inflated {
            let name = self.compression.name();
            return Err(Fail::text(BadKind::Malformed, format!("the message can't be inflated as {name}: {error}")));
        }
        if self.inflated.len() > MOST_INFLATED_BYTES {
            let what = format!("the message inflates to more than {MOST_INFLATED_BYTES} bytes");
            return Err(Fail::text(BadKind::TooLarge, what));
        }
        Ok(&self.inflated)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.inflated.capacity()
    }
}

impl Compression {
    /// As users write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}
