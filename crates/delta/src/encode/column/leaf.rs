//! One leaf column of a batch, and at which level each of its rows ends.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Fields, TimeUnit};
use arrow_select::filter::filter;
use parquet::errors::Result;

use super::pack::{put_run, put_runs, width};

/// How a leaf's values are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// UTF-8.
    Text,
    Bytes,
    /// Whole numbers, and dates, that Parquet keeps in 32 bits.
    Int32,
    /// Whole numbers, and times, that Parquet keeps in 64 bits.
    Int64,
}

impl Kind {
    fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Utf8 => Self::Text,
            DataType::Binary => Self::Bytes,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Date32 => Self::Int32,
            DataType::Int64 | DataType::Timestamp(TimeUnit::Microsecond, _) => Self::Int64,
            _ => return None,
        })
    }
}

/// A leaf that [`super::Column`] takes: it lies in no list and no map.
#[derive(Clone, Debug)]
pub(crate) struct Flat {
    /// The way to it: an index into the fields of each struct, and whether what is there may be NULL.
    path: Vec<(usize, bool)>,
    pub(super) kind: Kind,
}

impl Flat {
    /// For each of Parquet's leaves, in its order, the column of the files that it belongs to, and if it
    /// is one of ours, how to come to it.
    pub(crate) fn all(fields: &Fields) -> Vec<(usize, Option<Self>)> {
        let mut found = Vec::new();
        for (root, field) in fields.iter().enumerate() {
            let mut leaves = Vec::new();
            let path = vec![(root, field.is_nullable())];
            walk(field.data_type(), Some(path), &mut leaves);
            found.extend(leaves.into_iter().map(|leaf| (root, leaf)));
        }
        found
    }

    /// The level of a value that is there.
    pub(super) fn most(&self) -> u8 {
        self.path.iter().filter(|(_, nullable)| *nullable).count().try_into().expect("structs nest less deep")
    }

    /// The leaf's rows in a batch of the files' columns.
    ///
    /// # Errors
    /// Arrow can't tell the NULLs from the rest: a fault of ours.
    pub(crate) fn leaf(&self, batch: &RecordBatch) -> Result<Leaf> {
        let mut array = batch.column(self.path[0].0);
        let mut nulls: Vec<(u8, &NullBuffer)> = Vec::new();
        let mut level = 0;
        for (n, &(index, nullable)) in self.path.iter().enumerate() {
            if n > 0 {
                array = array.as_struct().column(index);
            }
            if nullable {
                nulls.extend(array.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| (level, nulls)));
                level += 1;
            }
        }
        let rows = array.len();
        if nulls.is_empty() {
            return Ok(Leaf { values: array.clone(), rows, levels: None, most: level });
        }
        let level_of = |row| nulls.iter().find(|(_, nulls)| nulls.is_null(row)).map_or(level, |&(level, _)| level);
        let levels: Vec<u8> = (0..rows).map(level_of).collect();
        let there = BooleanArray::new(BooleanBuffer::collect_bool(rows, |row| levels[row] == level), None);
        Ok(Leaf { values: filter(array, &there)?, rows, levels: Some(levels), most: level })
    }
}

/// `path`: the way here; `None` below a list or map.
fn walk(data_type: &DataType, path: Option<Vec<(usize, bool)>>, found: &mut Vec<Option<Flat>>) {
    match data_type {
        DataType::Struct(fields) => {
            for (index, field) in fields.iter().enumerate() {
                let path = path.as_ref().map(|path| [path.as_slice(), &[(index, field.is_nullable())]].concat());
                walk(field.data_type(), path, found);
            }
        }
        DataType::List(field) | DataType::Map(field, _) => walk(field.data_type(), None, found),
        leaf => found.push(path.and_then(|path| Kind::of(leaf).map(|kind| Flat { path, kind }))),
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// Those that are there.
    pub(super) values: ArrayRef,
    pub(super) rows: usize,
    /// Each row's; none where all values are there.
    levels: Option<Vec<u8>>,
    /// That of a value which is there.
    most: u8,
}

impl Leaf {
    /// How many of some rows have a value.
    pub(super) fn values_of(&self, from: usize, rows: usize) -> usize {
        self.levels(from, rows).map_or(rows, |levels| levels.iter().filter(|&&level| level == self.most).count())
    }

    pub(super) fn levels(&self, from: usize, rows: usize) -> Option<&[u8]> {
        self.levels.as_ref().map(|levels| &levels[from..from + rows])
    }

    /// Appends the values, where they are whole numbers.
    pub(super) fn numbers(&self, into: &mut Vec<i64>) {
        macro_rules! widened {
            ($type:ty) => {
                into.extend(self.values.as_primitive::<$type>().values().iter().map(|&value| i64::from(value)))
            };
        }
        match self.values.data_type() {
            DataType::Int8 => widened!(Int8Type),
            DataType::Int16 => widened!(Int16Type),
            DataType::Int32 => widened!(Int32Type),
            DataType::Date32 => widened!(Date32Type),
            DataType::Int64 => widened!(Int64Type),
            DataType::Timestamp(..) => widened!(TimestampMicrosecondType),
            _ => {}
        }
    }
}

/// The levels of a page's rows; only their number as long as all values are there.
#[derive(Debug)]
pub(super) struct Levels {
    most: u8,
    rows: usize,
    levels: Vec<u8>,
}

impl Levels {
    pub(super) fn new(most: u8) -> Self {
        Self { most, rows: 0, levels: Vec::new() }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Takes rows in, all of whose values are there where there are no levels.
    pub(super) fn add(&mut self, levels: Option<&[u8]>, rows: usize) {
        if let Some(levels) = levels {
            self.levels.resize(self.rows, self.most);
            self.levels.extend_from_slice(levels);
        }
        self.rows += rows;
    }

    /// Ends the page: its levels as they stand in it, after their length.
    pub(super) fn put_page(&mut self, out: &mut Vec<u8>) {
        if self.most > 0 {
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            let width = width(self.most.into());
            if self.levels.is_empty() {
                put_run(self.most, self.rows, width, out);
            } else {
                self.levels.resize(self.rows, self.most);
                put_runs(&self.levels, width, out);
            }
            let length = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
        self.levels.clear();
        self.rows = 0;
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.levels.capacity()
    }
}
