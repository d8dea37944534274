//! Rows that wait for enough others of their partition value to be encoded together.
//!
//! Batches are kept as they came; a value's rows are [`Stretch`]es of them. A batch is let go once
//! none of its rows waits any more. Where most of what is kept waits for nothing (one busy value
//! among many quiet ones), the owner moves the rest together with [`Waiting::gather`].

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave_record_batch;

/// Consecutive rows of one kept batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    batch: u32,
    from: u32,
    rows: u32,
}

impl Stretch {
    /// How many rows.
    pub(crate) fn rows(self) -> usize {
        self.rows as usize
    }
}

#[derive(Debug)]
struct Kept {
    batch: RecordBatch,
    /// Rows of it that wait.
    waiting: usize,
    bytes: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    batches: BTreeMap<u32, Kept>,
    next: u32,
    bytes: usize,
    rows_kept: usize,
    rows_waiting: usize,
}

/// Stretches of fewer rows on average than this are copied together before they are encoded: the
/// encoder's cost for a call outweighs the copy's.
const SHORT_STRETCH: usize = 256;

/// Most rows that are copied together.
const GATHER_ROWS: usize = 64 << 10;

/// Most bytes of the batches whose rows are copied together: far below the 2 GiB that Arrow's
/// strings take.
const GATHER_BYTES: usize = 512 << 20;

impl Waiting {
    /// Keeps a batch, all of whose rows wait; the caller makes the stretches.
    pub(crate) fn keep(&mut self, batch: RecordBatch) -> u32 {
        let (rows, bytes) = (batch.num_rows(), batch.get_array_memory_size());
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.batches.insert(id, Kept { batch, waiting: rows, bytes });
        self.bytes += bytes;
        self.rows_kept += rows;
        self.rows_waiting += rows;
        id
    }

    /// Rows of a kept batch.
    pub(crate) fn stretch(&self, batch: u32, from: usize, rows: usize) -> Stretch {
        let narrow = |n: usize| u32::try_from(n).expect("batches of fewer than 2^32 rows");
        Stretch { batch, from: narrow(from), rows: narrow(rows) }
    }

    /// Arrow memory for each row of its batch, on average.
    pub(crate) fn row_bytes(&self, batch: u32) -> usize {
        self.batches.get(&batch).map_or(0, |kept| kept.bytes / kept.batch.num_rows().max(1))
    }

    /// Memory of the batches kept.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Is most of what is kept no longer waited for?
    pub(crate) fn is_sparse(&self) -> bool {
        self.rows_waiting * 2 < self.rows_kept
    }

    /// The rows of some stretches, in their order, in batches fit for the encoder; they wait still.
    ///
    /// # Errors
    /// Arrow can't gather them: a fault of ours.
    pub(crate) fn rows(&self, stretches: &[Stretch]) -> Result<Vec<RecordBatch>, ArrowError> {
        let rows: usize = stretches.iter().map(|stretch| stretch.rows()).sum();
        if stretches.len() < 2 || rows >= stretches.len() * SHORT_STRETCH {
            return Ok(stretches.iter().map(|stretch| self.slice(*stretch)).collect());
        }
        self.chunks(stretches).into_iter().map(|chunk| self.copy(chunk)).collect()
    }

    /// These rows wait no longer.
    pub(crate) fn release(&mut self, stretches: &[Stretch]) {
        for stretch in stretches {
            let Some(kept) = self.batches.get_mut(&stretch.batch) else { continue };
            kept.waiting -= stretch.rows();
            self.rows_waiting -= stretch.rows();
            if kept.waiting == 0 {
                self.bytes -= kept.bytes;
                self.rows_kept -= kept.batch.num_rows();
                self.batches.remove(&stretch.batch);
            }
        }
    }

    /// Copies the rows of all lists of stretches together, list by list, and points the lists to the
    /// copies. What they pointed to is let go.
    ///
    /// # Errors
    /// As [`Waiting::rows`]; the lists are as they were.
    pub(crate) fn gather<'a>(&mut self, lists: impl Iterator<Item = &'a mut Vec<Stretch>>) -> Result<(), ArrowError> {
        let mut lists: Vec<_> = lists.collect();
        let all: Vec<Stretch> = lists.iter().flat_map(|list| list.iter().copied()).collect();
        let copies: Vec<RecordBatch> =
            self.chunks(&all).into_iter().map(|chunk| self.copy(chunk)).collect::<Result<_, _>>()?;
        let mut copies = copies.into_iter();
        let (mut batch, mut at, mut left) = (0, 0, 0);
        for list in &mut lists {
            let mut rows: usize = list.iter().map(|stretch| stretch.rows()).sum();
            let mut moved = Vec::with_capacity(1);
            while rows > 0 {
                if left == 0 {
                    let copy = copies.next().expect("as many rows were copied as wait");
                    (at, left) = (0, copy.num_rows());
                    batch = self.keep(copy);
                }
                let now = rows.min(left);
                moved.push(self.stretch(batch, at, now));
                (at, left, rows) = (at + now, left - now, rows - now);
            }
            **list = moved;
        }
        self.release(&all);
        Ok(())
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn slice(&self, stretch: Stretch) -> RecordBatch {
        self.batches[&stretch.batch].batch.slice(stretch.from as usize, stretch.rows())
    }

    /// Cuts a list where what is copied at once would grow too large.
    fn chunks<'a>(&self, mut stretches: &'a [Stretch]) -> Vec<&'a [Stretch]> {
        let mut chunks = Vec::new();
        while !stretches.is_empty() {
            let (mut rows, mut bytes, mut last) = (0, 0, None);
            let end = stretches.iter().position(|stretch| {
                if last != Some(stretch.batch) {
                    last = Some(stretch.batch);
                    bytes += self.batches[&stretch.batch].bytes;
                }
                rows += stretch.rows();
                rows > GATHER_ROWS || bytes > GATHER_BYTES
            });
            let (chunk, rest) = stretches.split_at(end.unwrap_or(stretches.len()).max(1));
            chunks.push(chunk);
            stretches = rest;
        }
        chunks
    }

    fn copy(&self, stretches: &[Stretch]) -> Result<RecordBatch, ArrowError> {
        if let [stretch] = stretches {
            // One stretch may be of any length; copied so that the rest of its batch can go.
            let slice = self.slice(*stretch);
            let all: Vec<(usize, usize)> = (0..slice.num_rows()).map(|row| (0, row)).collect();
            return interleave_record_batch(&[&slice], &all);
        }
        let mut places = BTreeMap::new();
        let mut sources: Vec<&RecordBatch> = Vec::new();
        let mut rows = Vec::new();
        for stretch in stretches {
            let place = *places.entry(stretch.batch).or_insert_with(|| {
                sources.push(&self.batches[&stretch.batch].batch);
                sources.len() - 1
            });
            let from = stretch.from as usize;
            rows.extend((from..from + stretch.rows()).map(|row| (place, row)));
        }
        if sources.first().is_some_and(|batch| batch.num_columns() == 0) {
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            return RecordBatch::try_new_with_options(Arc::clone(&sources[0].schema()), Vec::new(), &options);
        }
        interleave_record_batch(&sources, &rows)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    fn batch(values: std::ops::Range<i64>) -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from_iter_values(values))]).unwrap()
    }

    fn values(waiting: &Waiting, list: &[Stretch]) -> Vec<i64> {
        let rows = waiting.rows(list).unwrap();
        rows.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    }

    #[test]
    fn rows_come_out_in_order_and_batches_are_let_go() {
        let mut waiting = Waiting::default();
        let (mut even, mut odd) = (Vec::new(), Vec::new());
        for start in [0, 1000] {
            let id = waiting.keep(batch(start..start + 1000));
            for row in 0..1000 {
                let list = if row % 2 == 0 { &mut even } else { &mut odd };
                list.push(waiting.stretch(id, row, 1));
            }
        }
        let expected = |odd: i64| (0..2000).filter(|n| n % 2 == odd).collect::<Vec<_>>();
        assert_eq!(values(&waiting, &even), expected(0));
        assert_eq!(values(&waiting, &odd), expected(1));
        let before = waiting.held_bytes();
        waiting.release(&even[..600]);
        even.drain(..600);
        assert_eq!(waiting.held_bytes(), before, "every batch has rows that wait");
        waiting.release(&odd[..500]);
        odd.drain(..500);
        assert!(waiting.held_bytes() < before, "nothing of the first batch waits");
        let (left_even, left_odd) = (values(&waiting, &even), values(&waiting, &odd));
        assert!(!waiting.is_sparse());
        waiting.gather([&mut even, &mut odd].into_iter()).unwrap();
        assert_eq!((even.len(), odd.len()), (1, 1));
        assert_eq!((values(&waiting, &even), values(&waiting, &odd)), (left_even, left_odd));
        waiting.release(&even);
        assert!(waiting.held_bytes() > 0);
        waiting.release(&odd);
        assert_eq!((waiting.held_bytes(), waiting.rows_kept, waiting.rows_waiting), (0, 0, 0));
    }

    #[test]
    fn long_lists_are_gathered_in_chunks() {
        let mut waiting = Waiting::default();
        let mut lists: Vec<Vec<Stretch>> = vec![Vec::new(); 3];
        for start in (0..200_000).step_by(10_000) {
            let id = waiting.keep(batch(start..start + 10_000));
            (0..10_000).for_each(|row| lists[row % 3].push(waiting.stretch(id, row, 1)));
        }
        let before: Vec<_> = lists.iter().map(|list| values(&waiting, list)).collect();
        waiting.gather(lists.iter_mut()).unwrap();
        let after: Vec<_> = lists.iter().map(|list| values(&waiting, list)).collect();
        assert_eq!(before, after);
        assert!(lists.iter().all(|list| list.len() <= 3));
    }
}
