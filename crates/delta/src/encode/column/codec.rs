//! Compresses pages.
//!
//! Identifiers and other noise have nothing in them to match: all that can be won is the entropy of
//! their characters. Looking for matches there costs most of the time, so a page's sample decides
//! whether the column is searched at all.

use std::fmt;

use parquet::errors::{ParquetError, Result};
use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, compress_bound};

use crate::encode::Compression;

/// Bytes of a page that are tried both ways.
const SAMPLE: usize = 16 << 10;

/// Pages shorter than this are searched: there is little to save.
const SHORT: usize = 4 << 10;

/// What a search must win at least, as a part of what it leaves: one in so many bytes.
const LEAST_GAIN: usize = 100;

/// The level at which a search is skipped where it does not pay. Who asks for more wants bytes, not time.
const QUICK_LEVEL: i32 = 1;

/// Entries of the table of a search that finds next to nothing, and so skips ahead: 2 to this power.
const QUICK_TABLE_LOG: u32 = 6;

/// Is a page searched for what repeats in it?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    Full,
    Skipped,
}

/// Compresses one page after the other, for all columns of all files: its tables are large.
pub(crate) struct Codec {
    way: Way,
    compression: Compression,
    /// A page before and after, to be used again.
    pub(super) raw: Vec<u8>,
    packed: Vec<u8>,
    /// Values on their way into an encoder.
    pub(super) numbers: Vec<i64>,
}

enum Way {
    None,
    Snappy(Box<snap::raw::Encoder>),
    Zstd { full: Compressor<'static>, quick: Option<Compressor<'static>> },
}

impl Codec {
    /// # Errors
    /// The compressor refuses its own options: a fault of ours.
    pub(crate) fn new(compression: Compression) -> Result<Self> {
        let way = match compression {
            Compression::None => Way::None,
            Compression::Snappy => Way::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::Zstd(level) => {
                let level = level.compression_level();
                let quick = (level == QUICK_LEVEL).then(quick).transpose()?;
                Way::Zstd { full: Compressor::new(level)?, quick }
            }
        };
        Ok(Self { way, compression, raw: Vec::new(), packed: Vec::new(), numbers: Vec::new() })
    }

    /// Memory of the buffers.
    pub(crate) fn held_bytes(&self) -> usize {
        self.raw.capacity() + self.packed.capacity() + self.numbers.capacity() * size_of::<i64>()
    }

    /// Lets go of buffers of more than `most_bytes` each.
    pub(crate) fn trim(&mut self, most_bytes: usize) {
        for buffer in [&mut self.raw, &mut self.packed] {
            if buffer.capacity() > most_bytes {
                *buffer = Vec::new();
            }
        }
        if self.numbers.capacity() * size_of::<i64>() > most_bytes {
            self.numbers = Vec::new();
        }
    }

    /// What the file's footer calls it.
    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// How pages like the one in `raw` are best compressed.
    ///
    /// # Errors
    /// The compressor fails.
    pub(super) fn search(&mut self) -> Result<Search> {
        let Self { way: Way::Zstd { full, quick: Some(quick) }, raw, packed, .. } = self else {
            return Ok(Search::Full);
        };
        if raw.len() < SHORT {
            return Ok(Search::Full);
        }
        let from = (raw.len() - raw.len().min(SAMPLE)) / 2;
        let sample = &raw[from..from + raw.len().min(SAMPLE)];
        let searched = squeeze(full, sample, packed)?;
        let skipped = squeeze(quick, sample, packed)?;
        Ok(if searched + searched / LEAST_GAIN < skipped { Search::Full } else { Search::Skipped })
    }

    /// What is in `raw`, compressed.
    ///
    /// # Errors
    /// The compressor fails.
    pub(super) fn compress(&mut self, search: Search) -> Result<&[u8]> {
        match (&mut self.way, search) {
            (Way::None, _) => return Ok(&self.raw),
            (Way::Snappy(encoder), _) => {
                self.packed.resize(snap::raw::max_compress_len(self.raw.len()), 0);
                let length = encoder
                    .compress(&self.raw, &mut self.packed)
                    .map_err(|error| ParquetError::External(Box::new(error)))?;
                self.packed.truncate(length);
            }
            (Way::Zstd { quick: Some(quick), .. }, Search::Skipped) => {
                squeeze(quick, &self.raw, &mut self.packed)?;
            }
            (Way::Zstd { full, .. }, _) => {
                squeeze(full, &self.raw, &mut self.packed)?;
            }
        }
        Ok(&self.packed)
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").field("compression", &self.compression).finish_non_exhaustive()
    }
}

fn quick() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(QUICK_LEVEL)?;
    compressor.set_parameter(CParameter::HashLog(QUICK_TABLE_LOG))?;
    compressor.set_parameter(CParameter::MinMatch(7))?;
    Ok(compressor)
}

fn squeeze(compressor: &mut Compressor<'static>, raw: &[u8], packed: &mut Vec<u8>) -> std::io::Result<usize> {
    packed.clear();
    packed.reserve(compress_bound(raw.len()));
    compressor.compress_to_buffer(raw, packed)
}
