//! How files are written.

use std::fmt;
use std::str::FromStr;

use parquet::basic::{Compression as Codec, ZstdLevel};

use super::error::EncodeError;

/// How pages are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// Fast, and read by everything. Kafka-delta-ingest's.
    #[default]
    Snappy,
    /// About half of snappy's size. Level 1 costs about the same time.
    Zstd(ZstdLevel),
}

impl Compression {
    pub(crate) fn parquet(self) -> Codec {
        match self {
            Self::None => Codec::UNCOMPRESSED,
            Self::Snappy => Codec::SNAPPY,
            Self::Zstd(level) => Codec::ZSTD(level),
        }
    }

    /// What stands in file names between the file's own name and `.parquet`.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Snappy => ".snappy",
            Self::Zstd(_) => ".zstd",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Snappy => f.write_str("snappy"),
            Self::Zstd(level) => write!(f, "zstd:{}", level.compression_level()),
        }
    }
}

impl FromStr for Compression {
    type Err = EncodeError;

    /// `none`, `snappy`, `zstd` (level 1) or `zstd:LEVEL` (1 to 22).
    fn from_str(text: &str) -> Result<Self, EncodeError> {
        let refused = || EncodeError::Option {
            what: format!("compression {text:?} is none of none, snappy, zstd, zstd:LEVEL (levels 1 to 22)"),
        };
        let level = match text {
            "none" | "uncompressed" => return Ok(Self::None),
            "snappy" => return Ok(Self::Snappy),
            "zstd" => "1",
            other => other.strip_prefix("zstd:").ok_or_else(refused)?,
        };
        let level = level.parse().ok().and_then(|level| ZstdLevel::try_new(level).ok()).ok_or_else(refused)?;
        Ok(Self::Zstd(level))
    }
}

/// How a [`super::Writer`] writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// How pages are compressed.
    pub compression: Compression,
    /// An open file is closed, and the next begun, once its encoded size passes this.
    pub target_file_bytes: u64,
    /// Keep to dictionaries and plain values, for readers that know no `DELTA_*` encoding.
    pub plain_encodings: bool,
    /// What the writer should hold at most, about. It never refuses rows: its owner asks
    /// [`super::Writer::held_bytes`] and delivers in time. Sets how large row groups grow and when
    /// waiting rows are moved together.
    pub memory_bytes: usize,
    /// The owner keeps the table's [`Rules`](crate::rules::Rules): each row that is written holds by them.
    /// A writer whose owner does not refuses tables that have some.
    pub keeps_rules: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            compression: Compression::Snappy,
            target_file_bytes: 512 << 20,
            plain_encodings: false,
            memory_bytes: 128 << 20,
            keeps_rules: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressions_have_names() {
        for (text, name) in [("none", "none"), ("snappy", "snappy"), ("zstd", "zstd:1"), ("zstd:7", "zstd:7")] {
            assert_eq!(text.parse::<Compression>().unwrap().to_string(), name);
        }
        for text in ["", "gzip", "zstd:", "zstd:0", "zstd:23", "zstd(3)"] {
            let error = text.parse::<Compression>().unwrap_err().to_string();
            assert!(error.contains("zstd:LEVEL"), "{text}: {error}");
        }
    }
}
