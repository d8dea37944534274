//! What an [`InputLog`](crate::ports::InputLog) yields: the bytes of one partition's next records.

use crate::position::{Offset, PartitionId};

/// Which clock stamped a record, with the numbers that Kafka gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampType {
    /// The broker gave none.
    #[default]
    NotAvailable = -1,
    /// The producer's clock.
    CreateTime = 0,
    /// The broker's clock.
    LogAppendTime = 1,
}

/// Where one record lies in its [`Records`], and what the log says about it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Offset of the record.
    pub offset: i64,
    /// Milliseconds since 1970; meaningless where `timestamp_type` says there is none.
    pub timestamp_ms: i64,
    /// Who stamped it.
    pub timestamp_type: TimestampType,
    /// First byte of the value in the arena; the key lies in front of it.
    start: u32,
    /// Length of the value; `u32::MAX` is a null value (a tombstone).
    length: u32,
    /// Length of the key; `u32::MAX` is none, or one that is not kept.
    key_length: u32,
}

const NULL: u32 = u32::MAX;

/// A header of a record: its name, and its value where it has one.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// Consecutive records of one partition, their values in one arena that is recycled; their keys and headers as well,
/// where the input was asked for them.
///
/// Covers `[from, to)`: `from` is where the last `Records` of the partition ended, and offsets
/// inside it without an entry are holes that the log itself made (compaction, control records).
#[derive(Debug)]
pub struct Records {
    partition: PartitionId,
    from: Offset,
    to: Offset,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    /// Headers, each as length and bytes of its name, then of its value.
    headers: Vec<u8>,
    /// By record where its headers end; records beyond have none.
    header_ends: Vec<u32>,
}

/// Zeroed bytes kept after the last value, so that vector loads may run past its end.
pub const PADDING_BYTES: usize = 128;

impl Records {
    /// Empty, covering `[at, at)`.
    #[must_use]
    pub fn new(partition: PartitionId, at: Offset) -> Self {
        let (entries, bytes, headers, header_ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { partition, from: at, to: at, entries, bytes, headers, header_ends }
    }

    /// As [`Records::new`], with room for so many records and bytes of values before it grows.
    #[must_use]
    pub fn with_room(partition: PartitionId, at: Offset, records: usize, value_bytes: usize) -> Self {
        Self {
            entries: Vec::with_capacity(records),
            bytes: Vec::with_capacity(value_bytes + PADDING_BYTES),
            ..Self::new(partition, at)
        }
    }

    /// Empties the arena, keeping its memory, for another stretch.
    pub fn reset(&mut self, partition: PartitionId, at: Offset) {
        self.partition = partition;
        (self.from, self.to) = (at, at);
        self.entries.clear();
        self.bytes.clear();
        self.headers.clear();
        self.header_ends.clear();
    }

    /// Appends a record without its key; `value` is `None` for a tombstone.
    ///
    /// # Panics
    /// P2: when `offset` lies below what is covered. When the arena would pass 4 GiB.
    #[inline]
    pub fn push(&mut self, offset: i64, timestamp_ms: i64, timestamp_type: TimestampType, value: Option<&[u8]>) {
        self.push_keyed(offset, timestamp_ms, timestamp_type, None, value);
    }

    /// [`Records::push`] with the record's key, if it has one.
    ///
    /// # Panics
    /// As [`Records::push`].
    #[inline]
    pub fn push_keyed(
        &mut self,
        offset: i64,
        timestamp_ms: i64,
        timestamp_type: TimestampType,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) {
        assert!(offset >= self.to.get(), "P2: record {offset} after {} of partition {}", self.to, self.partition);
        let key_length = self.append(key);
        let start = u32::try_from(self.bytes.len()).expect("an arena below 4 GiB");
        let length = self.append(value);
        self.entries.push(Entry { offset, timestamp_ms, timestamp_type, start, length, key_length });
        self.to = Offset::after(offset).expect("offsets are not negative");
    }

    /// Adds a header to the last record.
    ///
    /// # Panics
    /// Without a record. When the headers would pass 4 GiB.
    pub fn push_header(&mut self, name: &[u8], value: Option<&[u8]>) {
        let last = self.entries.len().checked_sub(1).expect("a header is of a record");
        let start = self.header_ends.last().copied().unwrap_or(0);
        self.header_ends.resize(last.max(self.header_ends.len()), start);
        let mut put = |part: Option<&[u8]>| {
            let length = part.map_or(NULL, |part| u32::try_from(part.len()).expect("a header below 4 GiB"));
            self.headers.extend_from_slice(&length.to_le_bytes());
            self.headers.extend_from_slice(part.unwrap_or_default());
        };
        put(Some(name));
        put(value);
        let end = u32::try_from(self.headers.len()).expect("headers below 4 GiB");
        match self.header_ends.get_mut(last) {
            Some(known) => *known = end,
            None => self.header_ends.push(end),
        }
    }

    /// The length of what is now at the arena's end, or [`NULL`].
    #[inline]
    fn append(&mut self, part: Option<&[u8]>) -> u32 {
        let Some(part) = part else { return NULL };
        self.bytes.extend_from_slice(part);
        u32::try_from(part.len()).expect("a record below 4 GiB")
    }

    /// Covers the hole up to `to` as well (the log was seen to have no record there).
    pub fn cover_until(&mut self, to: Offset) {
        self.to = self.to.max(to);
    }

    /// Cuts off what lies at `end` or above: a bounded read takes no more.
    pub fn truncate(&mut self, end: Offset) {
        if self.to <= end {
            return;
        }
        let keep = self.entries.partition_point(|entry| entry.offset < end.get());
        if let Some(first_cut) = self.entries.get(keep) {
            self.bytes.truncate(first_cut.start as usize - first_cut.key_bytes());
        }
        self.entries.truncate(keep);
        self.header_ends.truncate(keep);
        self.headers.truncate(self.header_ends.last().copied().unwrap_or(0) as usize);
        self.to = end.max(self.from);
        self.pad();
    }

    /// Makes the padding after the last value readable and zero. Idempotent; call it once the
    /// last record is in.
    pub fn pad(&mut self) {
        let length = self.bytes.len();
        self.bytes.resize(length + PADDING_BYTES, 0);
        self.bytes.truncate(length);
    }

    /// The partition they are of.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Says whose they are among the partitions of several sources.
    pub(crate) fn relabel(&mut self, partition: PartitionId) {
        self.partition = partition;
    }

    /// The first position covered.
    #[must_use]
    pub fn from(&self) -> Offset {
        self.from
    }

    /// The position after the last one covered.
    #[must_use]
    pub fn to(&self) -> Offset {
        self.to
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// No record: at most holes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sum of the lengths of all values, and of the keys and headers that are kept.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.bytes.len() + self.headers.len()
    }

    /// Memory held, used or not.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.headers.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// What the log says of each record, in offset order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The bytes of one of our entries; `None` is a tombstone.
    #[inline]
    #[must_use]
    pub fn value(&self, entry: &Entry) -> Option<&[u8]> {
        (entry.length != NULL).then(|| &self.bytes[entry.start as usize..][..entry.length as usize])
    }

    /// The key of one of our entries; `None` where it has none, or keys are not kept.
    #[must_use]
    pub fn key(&self, entry: &Entry) -> Option<&[u8]> {
        let end = entry.start as usize;
        (entry.key_length != NULL).then(|| &self.bytes[end - entry.key_bytes()..end])
    }

    /// The headers of the record at an index of [`entries`](Self::entries), in their order; none where they are not kept.
    pub fn headers(&self, index: usize) -> impl Iterator<Item = Header<'_>> {
        let end = |index: Option<usize>| index.and_then(|i| self.header_ends.get(i)).copied();
        let from = end(index.checked_sub(1)).unwrap_or(0) as usize;
        let mut rest = end(Some(index)).map_or(&[][..], |to| &self.headers[from..to as usize]);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let name = take_part(&mut rest).unwrap_or_default();
            Some((name, take_part(&mut rest)))
        })
    }
}

/// Cuts one part of a header off.
fn take_part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, more) = rest.split_first_chunk().expect("parts of headers are whole");
    let length = u32::from_le_bytes(*length);
    let (part, more) = more.split_at(if length == NULL { 0 } else { length as usize });
    *rest = more;
    (length != NULL).then_some(part)
}

impl Entry {
    fn key_bytes(&self) -> usize {
        if self.key_length == NULL { 0 } else { self.key_length as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        Offset::new(offset).expect("not negative")
    }

    /// Offsets 10, 11 (a tombstone), 13; covers `[10, 15)`.
    fn three() -> Records {
        let mut records = Records::new(PartitionId(0), at(10));
        records.push(10, 0, TimestampType::CreateTime, Some(b"ten"));
        records.push(11, 0, TimestampType::CreateTime, None);
        records.push(13, 0, TimestampType::CreateTime, Some(b"thirteen"));
        records.cover_until(at(15));
        records.pad();
        records
    }

    #[test]
    fn truncate_cuts_records_and_what_is_covered() {
        #[rustfmt::skip] // columns: end, records left, bytes left, covered up to
        let cases = [
            (20, 3, 11, 15),
            (15, 3, 11, 15),
            (14, 3, 11, 14),
            (13, 2,  3, 13),
            (12, 2,  3, 12),
            (11, 1,  3, 11),
            (10, 0,  0, 10),
            ( 5, 0,  0, 10),
        ];
        for (end, left, bytes, to) in cases {
            let mut records = three();
            records.truncate(at(end));
            assert_eq!((records.len(), records.value_bytes(), records.to()), (left, bytes, at(to)), "at {end}");
            assert!(records.entries().iter().all(|entry| entry.offset < end), "at {end}");
        }
    }

    #[test]
    fn headers_are_their_records() {
        let kept: [&[Header<'_>]; 5] =
            [&[], &[(b"a", Some(b"1")), (b"a", None)], &[], &[(b"", Some(b""))], &[(b"b", Some(b"\xff\x00"))]];
        let mut records = Records::new(PartitionId(0), at(0));
        for (offset, headers) in (0..).zip(kept) {
            records.push(offset, 0, TimestampType::CreateTime, Some(b"v"));
            headers.iter().for_each(|(name, value)| records.push_header(name, *value));
        }
        let found = |records: &Records| -> Vec<Vec<(Vec<u8>, Option<Vec<u8>>)>> {
            let owned = |(name, value): Header<'_>| (name.to_vec(), value.map(<[u8]>::to_vec));
            (0..records.len()).map(|index| records.headers(index).map(owned).collect()).collect()
        };
        let expected = |left: usize| -> Vec<Vec<(Vec<u8>, Option<Vec<u8>>)>> {
            let owned = |(name, value): &Header<'_>| (name.to_vec(), value.map(<[u8]>::to_vec));
            kept[..left].iter().map(|headers| headers.iter().map(owned).collect()).collect()
        };
        for left in (0..=kept.len()).rev() {
            records.truncate(at(i64::try_from(left).unwrap()));
            assert_eq!(found(&records), expected(left));
        }
        assert_eq!(records.value_bytes(), 0, "nothing of what was cut off is left");
        records.reset(PartitionId(1), at(7));
        records.push(7, 0, TimestampType::CreateTime, None);
        assert_eq!(found(&records), [vec![]], "an arena that was used before");
    }

    #[test]
    fn keys_lie_apart_from_values() {
        let mut records = Records::new(PartitionId(0), at(0));
        let kept: [(Option<&[u8]>, Option<&[u8]>); 5] = [
            (Some(b"key"), Some(b"value")),
            (Some(b"gone"), None),
            (None, Some(b"alone")),
            (Some(b""), Some(b"")),
            (Some(b"last"), Some(b"one")),
        ];
        for (offset, (key, value)) in (0..).zip(kept) {
            records.push_keyed(offset, 0, TimestampType::CreateTime, key, value);
        }
        for left in (0..=kept.len()).rev() {
            records.truncate(at(i64::try_from(left).unwrap()));
            let found: Vec<_> =
                records.entries().iter().map(|entry| (records.key(entry), records.value(entry))).collect();
            assert_eq!(found, kept[..left]);
            let lengths = kept[..left].iter().flat_map(|(key, value)| [*key, *value]).flatten().map(<[u8]>::len);
            assert_eq!(records.value_bytes(), lengths.sum::<usize>(), "nothing of what was cut off is left");
        }
    }
}
