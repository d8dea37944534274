//! Which row is which: the key columns of a row, or all of them, as 128 bits.
//!
//! Values that SQL calls equal give equal digests: -0.0 and 0.0, all NaNs; and so do values that a
//! partition column can't tell apart (the empty string and NULL). What is in memory and what is read
//! back from the table therefore agree.

use std::sync::{Arc, LazyLock};

use ahash::RandomState;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, GenericStringArray, ListArray, MapArray, RecordBatch, StructArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Field};

use super::index::Digest;
use crate::error::DeltaError;
use crate::layout::Layout;

/// Keyed anew in each process, so that nobody can make keys that collide: an index never outlives its process. The
/// same for all keys of a process: who writes a view's files and who commits them each have keys of their own.
static HASHERS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);

/// Characters of a key that a message shows.
const SHOWN_CHARS: usize = 200;

/// The identity of a table's rows.
#[derive(Debug)]
pub(crate) struct Keys {
    table: String,
    columns: Vec<Column>,
    converter: RowConverter,
    /// One row for a key; else a row is named by all of its values, and may be there several times.
    pub unique: bool,
}

#[derive(Debug)]
struct Column {
    name: String,
    data_type: DataType,
    /// Its empty value reads back as NULL.
    is_partition: bool,
}

/// The digests of a batch's rows, in their order.
pub(crate) type Digests = Vec<Digest>;

impl Keys {
    /// Keys made of these columns of the layout; of all of them where there are none.
    ///
    /// # Errors
    /// A column that the table does not have, or whose values can't be compared.
    pub(crate) fn new(layout: &Layout, key: &[String]) -> Result<Self, DeltaError> {
        let wrong = |reason: String| DeltaError::Schema { place: format!("the key of {}", layout.table()), reason };
        let names: Vec<String> = match key {
            [] => layout.schema().fields().iter().map(|field| field.name().clone()).collect(),
            names => names.to_vec(),
        };
        let mut columns: Vec<Column> = Vec::with_capacity(names.len());
        for name in names {
            let field = layout
                .schema()
                .field_with_name(&name)
                .map_err(|_| wrong(format!("there is no column {name:?}; name columns that the view has")))?;
            if columns.iter().any(|column| column.name == name) {
                return Err(wrong(format!("column {name:?} is named twice")));
            }
            let is_partition = layout.partition_columns().contains(&name);
            columns.push(Column { name, data_type: field.data_type().clone(), is_partition });
        }
        let fields = columns.iter().map(|column| SortField::new(column.data_type.clone())).collect();
        let converter = RowConverter::new(fields).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { table: layout.table().to_owned(), columns, converter, unique: !key.is_empty() })
    }

    /// The table's address.
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// The columns to read for it.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// The key columns of a batch, by name, as the table has them. What it yields is small where the
    /// key is, and all that naming a row needs.
    ///
    /// # Errors
    /// The batch lacks one of them; a NULL in a unique key, which is named.
    pub(crate) fn project(&self, batch: &RecordBatch) -> Result<RecordBatch, DeltaError> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let Some(array) = batch.column_by_name(&column.name) else {
                return Err(self.refuse(format!("its rows have no column {:?}; please report this", column.name)));
            };
            let array = match array.data_type() == &column.data_type {
                true => Arc::clone(array),
                false => arrow_cast::cast(array, &column.data_type).map_err(|error| self.failed(&error))?,
            };
            let array = if column.is_partition { without_empty(&array) } else { array };
            columns.push((column.name.clone(), array, true));
        }
        let projected = RecordBatch::try_from_iter_with_nullable(columns).map_err(|error| self.failed(&error))?;
        if self.unique
            && let Some(row) = projected.columns().iter().find_map(first_null)
        {
            return Err(self.refuse(format!(
                "the key ({}) of one of its rows holds NULL, and NULL equals nothing; leave such rows out with WHERE \
                 ... IS NOT NULL, or give them a value with COALESCE",
                self.describe(&projected, row)
            )));
        }
        Ok(projected)
    }

    /// The digest of each row of what [`project`](Self::project) yields.
    ///
    /// # Errors
    /// A fault of ours.
    pub(crate) fn digests(&self, projected: &RecordBatch) -> Result<Digests, DeltaError> {
        let columns: Vec<_> = projected.columns().iter().map(normal).collect();
        let rows = self.converter.convert_columns(&columns).map_err(|error| self.failed(&error))?;
        Ok(rows.iter().map(|row| Digest(HASHERS.each_ref().map(|hasher| hasher.hash_one(row.data())))).collect())
    }

    /// A row's key for people: `id = 7, day = 2024-01-01`.
    pub(crate) fn describe(&self, projected: &RecordBatch, row: usize) -> String {
        let options = FormatOptions::new().with_null("NULL");
        let text = projected.schema_ref().fields().iter().zip(projected.columns()).map(|(field, column)| {
            let value = ArrayFormatter::try_new(column, &options).map(|shown| shown.value(row).to_string());
            format!("{} = {}", field.name(), value.unwrap_or_else(|_| "?".to_owned()))
        });
        let text = text.collect::<Vec<_>>().join(", ");
        match text.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{}..", &text[..end]),
            None => text,
        }
    }

    /// A change that this table can't take.
    pub(crate) fn refuse(&self, reason: String) -> DeltaError {
        DeltaError::Change { table: self.table.clone(), reason }
    }

    fn failed(&self, error: &ArrowError) -> DeltaError {
        self.refuse(format!("its keys can't be read: {error}; please report this"))
    }
}

/// The rows of a batch that no key can name, each with the key column that has nothing in it: NULL, or what a partition
/// column makes NULL.
#[must_use]
pub fn rows_without_key(layout: &Layout, key: &[String], batch: &RecordBatch) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for name in key {
        let Some(column) = batch.column_by_name(name) else { continue };
        let column = if layout.partition_columns().contains(name) { without_empty(column) } else { Arc::clone(column) };
        if column.null_count() > 0 {
            found.extend((0..column.len()).filter(|row| column.is_null(*row)).map(|row| (row, name.clone())));
        }
    }
    found.sort_by_key(|(row, _)| *row);
    found.dedup_by_key(|(row, _)| *row);
    found
}

/// Refuses key columns that are not there, and types that name no row: the key columns of a table that events are taken
/// into by key.
///
/// # Errors
/// The first such column, with what to do.
pub fn check_key(layout: &Layout, key: &[String]) -> Result<(), DeltaError> {
    let keys = Keys::new(layout, key)?;
    match keys.columns.iter().find(|column| column.data_type.is_nested()) {
        None => Ok(()),
        Some(column) => Err(DeltaError::Schema {
            place: format!("the key of {}", layout.table()),
            reason: format!("column {:?} is {}, and only plain values name a row", column.name, column.data_type),
        }),
    }
}

fn first_null(column: &ArrayRef) -> Option<usize> {
    (column.null_count() > 0).then(|| (0..column.len()).find(|row| column.is_null(*row))).flatten()
}

/// Empty text and bytes as NULL, which is what a partition column makes of them.
fn without_empty(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8 => {
            let kept = array.as_string::<i32>().iter().map(|value| value.filter(|value| !value.is_empty()));
            Arc::new(kept.collect::<GenericStringArray<i32>>())
        }
        DataType::Binary => {
            let kept = array.as_binary::<i32>().iter().map(|value| value.filter(|value| !value.is_empty()));
            Arc::new(kept.collect::<arrow_array::BinaryArray>())
        }
        _ => Arc::clone(array),
    }
}

/// One bit pattern for what is equal, at any depth.
fn normal(array: &ArrayRef) -> ArrayRef {
    if !holds_floats(array.data_type()) {
        return Arc::clone(array);
    }
    match array.data_type() {
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|value| match value {
                value if value.is_nan() => f32::NAN,
                value => value + 0.0,
            }))
        }
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| match value {
                value if value.is_nan() => f64::NAN,
                value => value + 0.0,
            }))
        }
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let columns = array.columns().iter().map(normal).collect();
            Arc::new(StructArray::new(fields.clone(), columns, array.nulls().cloned()))
        }
        DataType::List(field) => {
            let array = array.as_list::<i32>();
            let values = normal(array.values());
            Arc::new(ListArray::new(Arc::clone(field), array.offsets().clone(), values, array.nulls().cloned()))
        }
        DataType::Map(field, sorted) => {
            let array = array.as_map();
            let entries: ArrayRef = Arc::new(array.entries().clone());
            let entries = normal(&entries).as_struct().clone();
            let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
            Arc::new(MapArray::new(Arc::clone(field), offsets, entries, nulls, *sorted))
        }
        _ => Arc::clone(array),
    }
}

fn holds_floats(data_type: &DataType) -> bool {
    let inner = |field: &Field| holds_floats(field.data_type());
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::Struct(fields) => fields.iter().any(|field| inner(field)),
        DataType::List(field) | DataType::Map(field, _) => inner(field),
        _ => false,
    }
}
