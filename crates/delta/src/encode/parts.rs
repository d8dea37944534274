//! A file's bytes while it is written, in parts that are used again.
//!
//! Fresh memory costs a page fault for each 4 KiB, which at full speed is a tenth of the whole
//! encode: large parts go back to a [`Pool`] when the last holder of their bytes lets go.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Size of a part; also the granule in which memory is taken.
const PART_BYTES: usize = 1 << 20;

/// Parts that nobody reads any more.
#[derive(Debug)]
pub(crate) struct Pool {
    spare: Mutex<Vec<Vec<u8>>>,
    most: usize,
}

impl Pool {
    /// Keeps up to so many bytes for reuse.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { spare: Mutex::default(), most: most_bytes / PART_BYTES }
    }

    fn take(&self) -> Option<Vec<u8>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give(&self, mut part: Vec<u8>) {
        part.clear();
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < self.most {
            spare.push(part);
        }
    }

    /// Memory that lies ready.
    pub(crate) fn held_bytes(&self) -> usize {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).len() * PART_BYTES
    }

    /// Lets the memory go.
    pub(crate) fn clear(&self) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Owns a full part for as long as `Bytes` point at it.
struct Lent {
    part: Vec<u8>,
    pool: Arc<Pool>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.part
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.part));
    }
}

/// The growing file: full parts, and the one being filled.
#[derive(Debug)]
pub(crate) struct Parts {
    pool: Arc<Pool>,
    full: Vec<Bytes>,
    open: Vec<u8>,
}

impl Parts {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, full: Vec::new(), open: Vec::new() }
    }

    /// Memory taken.
    pub(crate) fn held_bytes(&self) -> usize {
        self.full.len() * PART_BYTES + self.open.capacity()
    }

    /// What is here, leaving nothing.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(Arc::clone(&self.pool)))
    }

    /// The whole file, in order.
    pub(crate) fn finish(mut self) -> Vec<Bytes> {
        if !self.open.is_empty() {
            // A small file must not hold a large part: there may be thousands of them.
            self.open.shrink_to_fit();
            self.full.push(Bytes::from(self.open));
        }
        self.full
    }

    /// Doubles as a vector does, but never beyond a part.
    fn make_room(&mut self, length: usize) {
        let needed = self.open.len() + length;
        if needed > self.open.capacity() {
            let capacity = needed.max(2 * self.open.capacity()).min(PART_BYTES);
            self.open.reserve_exact(capacity - self.open.len());
        }
    }

    /// The part being filled is full: set it aside and begin the next.
    fn turn(&mut self) {
        let next = self.pool.take().unwrap_or_else(|| Vec::with_capacity(PART_BYTES));
        let part = std::mem::replace(&mut self.open, next);
        self.full.push(Bytes::from_owner(Lent { part, pool: Arc::clone(&self.pool) }));
    }
}

impl Write for Parts {
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len();
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PART_BYTES - self.open.len()));
            self.make_room(now.len());
            self.open.extend_from_slice(now);
            bytes = later;
            if self.open.len() == PART_BYTES {
                self.turn();
            }
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(pool: &Arc<Pool>, length: usize) -> Vec<Bytes> {
        let mut parts = Parts::new(Arc::clone(pool));
        let bytes: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        for chunk in bytes.chunks(700_001) {
            parts.write_all(chunk).unwrap();
        }
        let parts = parts.finish();
        assert_eq!(parts.concat(), bytes, "{length} bytes");
        parts
    }

    #[test]
    fn bytes_come_out_as_they_went_in_and_parts_come_back() {
        let pool = Arc::new(Pool::new(8 * PART_BYTES));
        for length in [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES + 17] {
            fill(&pool, length);
        }
        let parts = fill(&pool, 3 * PART_BYTES);
        assert_eq!(pool.held_bytes(), 0, "the largest file before used three parts, this one has them all");
        drop(parts);
        assert_eq!(pool.held_bytes(), 3 * PART_BYTES);
        pool.clear();
        assert_eq!(pool.held_bytes(), 0);
    }
}
