//! The finished pages of a column's chunk.

use std::collections::VecDeque;
use std::io::{self, Read};

use bytes::{Buf, Bytes};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};

/// See the module. Each with its header, in the file's order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    pages: VecDeque<Bytes>,
    bytes: usize,
    raw_bytes: usize,
}

impl Pages {
    pub(super) fn push(&mut self, page: Page, raw_bytes: usize) -> Result<()> {
        let page = self.finish(page, raw_bytes)?;
        self.pages.push_back(page);
        Ok(())
    }

    /// Puts a page before all others and says how long it is.
    pub(super) fn push_first(&mut self, page: Page, raw_bytes: usize) -> Result<usize> {
        let page = self.finish(page, raw_bytes)?;
        let bytes = page.len();
        self.pages.push_front(page);
        Ok(bytes)
    }

    /// Of all pages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Of all pages before they were compressed, their headers included.
    pub(super) fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    fn finish(&mut self, page: Page, raw_bytes: usize) -> Result<Bytes> {
        let mut sink = TrackedWrite::new(Vec::with_capacity(page.buffer().len() + 64));
        let written = SerializedPageWriter::new(&mut sink).write_page(CompressedPage::new(page, raw_bytes))?;
        self.bytes += written.compressed_size;
        self.raw_bytes += written.uncompressed_size;
        Ok(sink.into_inner()?.into())
    }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.bytes as u64
    }
}

/// The chunk is copied into the file from its first byte.
impl ChunkReader for Pages {
    type T = Self;

    fn get_read(&self, start: u64) -> Result<Self> {
        if start > 0 {
            return Err(ParquetError::General(format!("a chunk is read from its start, not from {start}")));
        }
        Ok(self.clone())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        Err(ParquetError::General(format!("a chunk is read as a whole, not {length} bytes from {start}")))
    }
}

impl Read for Pages {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(first) = self.pages.front_mut() else { return Ok(0) };
        let length = buffer.len().min(first.len());
        first.copy_to_slice(&mut buffer[..length]);
        if first.is_empty() {
            self.pages.pop_front();
        }
        Ok(length)
    }
}
