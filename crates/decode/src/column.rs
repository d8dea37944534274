//! Columns under construction: appended to by row, cut back when a row turns out bad.
//!
//! Every column knows its length; a struct's children are as long as the struct between rows. Nulls are the list of
//! null rows, since most columns have few; a value's slot is there all the same.

use crate::error::{BadKind, Fail, Refused};
use crate::key::Keys;
use crate::simd::append;

/// One column, or one part of one.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: Box<str>,
    pub(crate) nullable: bool,
    /// Rows that are null, ascending.
    pub(crate) nulls: Vec<u32>,
    pub(crate) data: Data,
}

/// Values, by Delta type.
#[derive(Debug)]
pub(crate) enum Data {
    Boolean(Vec<bool>),
    Byte(Vec<i8>),
    Short(Vec<i16>),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    /// Days since 1970.
    Date(Vec<i32>),
    /// Microseconds since 1970, UTC or local.
    Timestamp(Vec<i64>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: u8,
    },
    String(Text),
    Binary(Bytes),
    Struct(Box<Struct>),
    List(Box<List>),
    Map(Box<Map>),
}

/// Strings end to end. Only whole `&str`s are appended, and cuts fall on their ends.
#[derive(Debug)]
pub(crate) struct Text {
    text: String,
    /// 0, and where each string ends.
    ends: Vec<i32>,
}

/// Byte strings end to end.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<i32>,
}

/// Named parts.
#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) fields: Vec<Column>,
    pub(crate) keys: Keys,
    pub(crate) len: usize,
    /// Which of the first 64 fields the row being read has. Meaningful only while a row is open.
    seen: u64,
    /// A transform sets something inside: missing parts are filled after the transforms, not before.
    pub(crate) filled_late: bool,
}

#[derive(Debug)]
pub(crate) struct List {
    pub(crate) element: Column,
    pub(crate) ends: Vec<i32>,
}

#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) key: Column,
    pub(crate) value: Column,
    pub(crate) ends: Vec<i32>,
}

impl Text {
    pub(crate) fn new() -> Self {
        Self { text: String::new(), ends: vec![0] }
    }

    pub(crate) fn from_parts(mut text: String, mut ends: Vec<i32>) -> Self {
        text.clear();
        ends.clear();
        ends.push(0);
        Self { text, ends }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: &str) -> Result<(), Refused> {
        // A value's bytes are below 4 GiB, so this can't wrap.
        let Ok(end) = i32::try_from(self.text.len() + value.len()) else { return Err(too_large()) };
        self.text.push_str(value);
        self.ends.push(end);
        Ok(())
    }

    /// Appends `values`, of which there are `count`, of at most `bytes` in all.
    ///
    /// # Panics
    /// When that is not so, or the column would pass 2 GiB.
    #[inline]
    pub(crate) fn extend<'a>(&mut self, count: usize, bytes: usize, values: impl Iterator<Item = &'a str>) {
        append(&mut self.text, &mut self.ends, count, bytes, values);
    }

    fn push_empty(&mut self) {
        self.ends.push(self.last());
    }

    fn last(&self) -> i32 {
        *self.ends.last().expect("starts with 0")
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        self.text.truncate(usize::try_from(self.last()).expect("not negative"));
    }

    pub(crate) fn rows(&self) -> usize {
        self.ends.len() - 1
    }

    pub(crate) fn get(&self, row: usize) -> &str {
        let at = |row: usize| usize::try_from(self.ends[row]).expect("not negative");
        &self.text[at(row)..at(row + 1)]
    }

    pub(crate) fn take(&mut self) -> (String, Vec<i32>) {
        let text = std::mem::take(&mut self.text);
        (text, std::mem::replace(&mut self.ends, vec![0]))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<i32>()
    }
}

impl Bytes {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::new(), ends: vec![0] }
    }

    pub(crate) fn get(&self, row: usize) -> &[u8] {
        let at = |row: usize| usize::try_from(self.ends[row]).expect("not negative");
        &self.bytes[at(row)..at(row + 1)]
    }

    /// Closes the value made of the bytes appended since the last one.
    pub(crate) fn close(&mut self) -> Result<(), Refused> {
        let Ok(end) = i32::try_from(self.bytes.len()) else { return Err(too_large()) };
        self.ends.push(end);
        Ok(())
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        self.bytes.truncate(usize::try_from(*self.ends.last().expect("starts with 0")).expect("not negative"));
    }
}

/// A column may hold 2 GiB of text or 2^31 elements.
#[cold]
pub(crate) fn too_large() -> Refused {
    Fail::bad(BadKind::TooLarge, "a column of this batch would pass 2 GiB; use smaller batches")
}

/// Where a list that now has `length` elements ends.
#[inline]
pub(crate) fn end_of(length: usize) -> Result<i32, Refused> {
    i32::try_from(length).map_err(|_| too_large())
}

impl Column {
    pub(crate) fn new(name: &str, nullable: bool, data: Data) -> Self {
        Self { name: name.into(), nullable, nulls: Vec::new(), data }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &self.data {
            Data::Boolean(values) => values.len(),
            Data::Byte(values) => values.len(),
            Data::Short(values) => values.len(),
            Data::Int(values) | Data::Date(values) => values.len(),
            Data::Long(values) | Data::Timestamp(values) => values.len(),
            Data::Float(values) => values.len(),
            Data::Double(values) => values.len(),
            Data::Decimal { values, .. } => values.len(),
            Data::String(text) => text.rows(),
            Data::Binary(bytes) => bytes.ends.len() - 1,
            Data::Struct(parts) => parts.len,
            Data::List(list) => list.ends.len() - 1,
            Data::Map(map) => map.ends.len() - 1,
        }
    }

    /// Cuts back to `rows`, also what a failed value left half done above them.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match &mut self.data {
            Data::Boolean(values) => values.truncate(rows),
            Data::Byte(values) => values.truncate(rows),
            Data::Short(values) => values.truncate(rows),
            Data::Int(values) | Data::Date(values) => values.truncate(rows),
            Data::Long(values) | Data::Timestamp(values) => values.truncate(rows),
            Data::Float(values) => values.truncate(rows),
            Data::Double(values) => values.truncate(rows),
            Data::Decimal { values, .. } => values.truncate(rows),
            Data::String(text) => text.truncate(rows),
            Data::Binary(bytes) => bytes.truncate(rows),
            Data::Struct(parts) => parts.truncate(rows),
            Data::List(list) => {
                list.ends.truncate(rows + 1);
                list.element.truncate(last(&list.ends));
            }
            Data::Map(map) => {
                map.ends.truncate(rows + 1);
                map.key.truncate(last(&map.ends));
                map.value.truncate(last(&map.ends));
            }
        }
        while self.nulls.last().is_some_and(|&row| row as usize >= rows) {
            self.nulls.pop();
        }
    }

    /// Appends a null, whatever the schema says of it.
    #[inline]
    fn push_null(&mut self) {
        self.nulls.push(u32::try_from(self.len()).expect("fewer rows than messages"));
        self.push_default();
    }

    /// Appends the null that a message has, or implies by leaving the field out.
    #[inline]
    pub(crate) fn push_null_checked(&mut self, what: &'static str) -> Result<(), Refused> {
        if !self.nullable {
            return Err(Fail::bad(BadKind::NullInNotNull, what));
        }
        self.push_null();
        Ok(())
    }

    /// Appends a slot inside of a null struct: nobody reads it.
    fn push_absent(&mut self) {
        if self.nullable { self.push_null() } else { self.push_default() }
    }

    fn push_default(&mut self) {
        match &mut self.data {
            Data::Boolean(values) => values.push(false),
            Data::Byte(values) => values.push(0),
            Data::Short(values) => values.push(0),
            Data::Int(values) | Data::Date(values) => values.push(0),
            Data::Long(values) | Data::Timestamp(values) => values.push(0),
            Data::Float(values) => values.push(0.0),
            Data::Double(values) => values.push(0.0),
            Data::Decimal { values, .. } => values.push(0),
            Data::String(text) => text.push_empty(),
            Data::Binary(bytes) => bytes.ends.push(*bytes.ends.last().expect("starts with 0")),
            Data::Struct(parts) => {
                parts.len += 1;
                parts.fields.iter_mut().for_each(Self::push_absent);
            }
            Data::List(list) => list.ends.push(*list.ends.last().expect("starts with 0")),
            Data::Map(map) => map.ends.push(*map.ends.last().expect("starts with 0")),
        }
    }

    /// Appends so many nulls, or slots inside of null structs.
    pub(crate) fn push_nulls(&mut self, rows: usize) {
        let at = |row: usize| u32::try_from(row).expect("fewer rows than messages");
        let first = self.len();
        if self.nullable {
            self.nulls.extend(at(first)..at(first + rows));
        }
        match &mut self.data {
            Data::Boolean(values) => values.resize(first + rows, false),
            Data::Byte(values) => values.resize(first + rows, 0),
            Data::Short(values) => values.resize(first + rows, 0),
            Data::Int(values) | Data::Date(values) => values.resize(first + rows, 0),
            Data::Long(values) | Data::Timestamp(values) => values.resize(first + rows, 0),
            Data::Float(values) => values.resize(first + rows, 0.0),
            Data::Double(values) => values.resize(first + rows, 0.0),
            Data::Decimal { values, .. } => values.resize(first + rows, 0),
            Data::String(text) => repeat_last(&mut text.ends, rows),
            Data::Binary(Bytes { ends, .. }) => repeat_last(ends, rows),
            Data::Struct(parts) => {
                parts.len += rows;
                parts.fields.iter_mut().for_each(|field| field.push_nulls(rows));
            }
            Data::List(list) => repeat_last(&mut list.ends, rows),
            Data::Map(map) => repeat_last(&mut map.ends, rows),
        }
    }

    /// Memory held, used or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        fn of<T>(values: &Vec<T>) -> usize {
            values.capacity() * size_of::<T>()
        }
        let data = match &self.data {
            Data::Boolean(values) => of(values),
            Data::Byte(values) => of(values),
            Data::Short(values) => of(values),
            Data::Int(values) | Data::Date(values) => of(values),
            Data::Long(values) | Data::Timestamp(values) => of(values),
            Data::Float(values) => of(values),
            Data::Double(values) => of(values),
            Data::Decimal { values, .. } => of(values),
            Data::String(text) => text.memory_bytes(),
            Data::Binary(bytes) => of(&bytes.bytes) + of(&bytes.ends),
            Data::Struct(parts) => parts.fields.iter().map(Self::memory_bytes).sum(),
            Data::List(list) => list.element.memory_bytes() + of(&list.ends),
            Data::Map(map) => map.key.memory_bytes() + map.value.memory_bytes() + of(&map.ends),
        };
        data + of(&self.nulls)
    }
}

impl Struct {
    pub(crate) fn new(fields: Vec<Column>) -> Self {
        let keys = Keys::new(fields.iter().map(|field| &*field.name));
        Self { fields, keys, len: 0, seen: 0, filled_late: false }
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.len = self.len.min(rows);
        self.fields.iter_mut().for_each(|field| field.truncate(rows));
    }

    /// Opens a row: no field has a value yet.
    #[inline]
    pub(crate) fn open_row(&mut self) {
        self.seen = 0;
    }

    /// Whether the open row `row` has a value for the field, which from now on it has.
    #[inline]
    pub(crate) fn mark(&mut self, field: usize, row: usize) -> bool {
        match bit(field) {
            0 => self.fields[field].len() > row,
            bit => {
                let marked = self.seen & bit != 0;
                self.seen |= bit;
                marked
            }
        }
    }

    /// Fills what the message left out of row `row` with nulls.
    #[inline]
    pub(crate) fn fill(&mut self, row: usize) -> Result<(), Refused> {
        let all = u64::MAX.checked_shr(64 - u32::try_from(self.fields.len().min(64)).expect("at most 64")).unwrap_or(0);
        if self.seen == all && self.fields.len() <= 64 { Ok(()) } else { self.fill_missing(row) }
    }

    fn fill_missing(&mut self, row: usize) -> Result<(), Refused> {
        for field in &mut self.fields {
            if field.len() == row {
                field
                    .push_null_checked("it is missing, and the column is NOT NULL")
                    .map_err(|e| e.within(&field.name))?;
            }
        }
        Ok(())
    }
}

/// The bit of a field in `Struct::seen`; 0 for those beyond it.
#[inline]
fn bit(field: usize) -> u64 {
    if field < 64 { 1 << field } else { 0 }
}

/// Appends that many empty values.
fn repeat_last(ends: &mut Vec<i32>, rows: usize) {
    ends.resize(ends.len() + rows, *ends.last().expect("starts with 0"));
}

/// The last end, as an index.
pub(crate) fn last(ends: &[i32]) -> usize {
    usize::try_from(*ends.last().expect("starts with 0")).expect("not negative")
}
