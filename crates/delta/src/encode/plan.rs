//! What is fixed for all files of a layout: their columns, their Parquet schema, their statistics.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::schema::types::SchemaDescriptor;

use super::column::Flat;
use super::error::EncodeError;
use super::stats::{StatsPlan, Wanted};
use crate::layout::{Layout, TextLength};

/// See the module.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What it is the plan for.
    pub(crate) layout: Layout,
    /// Partition columns: name, index in the layout's schema, may it be NULL?
    pub(crate) partitions: Vec<(String, usize, bool)>,
    /// Their names in the log.
    pub(crate) logged_partitions: Vec<String>,
    /// Columns whose text has a length, with their index in the layout's schema.
    pub(crate) lengths: Vec<(usize, TextLength)>,
    /// Index in the layout's schema of each column of the files.
    columns: Vec<usize>,
    /// The files' schema.
    pub(crate) schema: SchemaRef,
    /// The same as Parquet says it.
    pub(crate) parquet: SchemaDescriptor,
    /// For each of Parquet's leaves the column it belongs to, and the way to it where we encode it ourselves.
    pub(crate) leaves: Vec<(usize, Option<Flat>)>,
    /// The files' statistics.
    pub(crate) stats: StatsPlan,
}

impl Plan {
    /// Plans files for a layout.
    ///
    /// # Errors
    /// A layout that can't be written: a fault of ours.
    pub(crate) fn new(layout: &Layout) -> Result<Self, EncodeError> {
        let schema = layout.schema();
        let mut partitions = Vec::new();
        for name in layout.partition_columns() {
            let index = schema.index_of(name).map_err(|error| mismatch(layout, error.to_string()))?;
            partitions.push((name.clone(), index, schema.field(index).is_nullable()));
        }
        let is_partition = |index: &usize| partitions.iter().any(|(_, partition, _)| partition == index);
        let columns: Vec<usize> =
            (0..schema.fields().len()).filter(|i| layout.partition_columns_in_files() || !is_partition(i)).collect();
        let description = layout.description();
        let in_files = description.physical.as_ref().unwrap_or(schema.fields());
        let fields: Fields = columns.iter().map(|&index| Arc::new(named(&in_files[index]))).collect();
        let known: Fields = columns.iter().map(|&index| Arc::new(named(schema.field(index)))).collect();
        let wanted = Wanted { columns: layout.stats_columns(), clustering: &description.clustering };
        let stats = StatsPlan::new(&known, &fields, layout.partition_columns(), &wanted);
        let length = |length: &TextLength| Some((schema.index_of(&length.column).ok()?, length.clone()));
        let lengths = description.lengths.iter().filter_map(length).collect();
        let logged_partitions = layout.logged_partition_columns().into_iter().map(str::to_owned).collect();
        let leaves = Flat::all(&fields);
        let files = Arc::new(Schema::new(fields));
        let parquet = ArrowSchemaConverter::new()
            .schema_root("schema")
            .convert(&files)
            .map_err(|source| EncodeError::Parquet { table: layout.table().to_owned(), source })?;
        let layout = layout.clone();
        Ok(Self { layout, partitions, logged_partitions, lengths, columns, schema: files, parquet, leaves, stats })
    }

    /// The files' columns of a batch of the layout's schema, by its own names: columns go by their place.
    ///
    /// # Errors
    /// The batch is of another schema, or has a NULL where none may be.
    pub(crate) fn data(&self, batch: &RecordBatch) -> Result<RecordBatch, EncodeError> {
        let schema = self.layout.schema();
        if !Arc::ptr_eq(&batch.schema(), schema) {
            self.check(batch)?;
        }
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            if !field.is_nullable() && column.null_count() > 0 {
                return Err(EncodeError::Null { table: self.layout.table().to_owned(), column: field.name().clone() });
            }
        }
        batch
            .project(&self.columns)
            .map_err(|source| EncodeError::Arrow { table: self.layout.table().to_owned(), source })
    }

    /// Names and types must agree; metadata may differ.
    fn check(&self, batch: &RecordBatch) -> Result<(), EncodeError> {
        let (want, have) = (self.layout.schema().fields(), batch.schema());
        let have = have.fields();
        if want.len() != have.len() {
            return Err(mismatch(&self.layout, format!("{} columns for {}", have.len(), want.len())));
        }
        for (want, have) in want.iter().zip(have) {
            if want.name() != have.name() || !want.data_type().equals_datatype(have.data_type()) {
                return Err(mismatch(&self.layout, format!("{have} for {want}")));
            }
        }
        Ok(())
    }
}

fn mismatch(layout: &Layout, what: String) -> EncodeError {
    EncodeError::Mismatch { table: layout.table().to_owned(), what }
}

/// The field with lists' and maps' inner fields named as Parquet's standard says, which readers
/// look for, whatever Arrow called them. Ids stay.
fn named(field: &Field) -> Field {
    let inner = |field: &Field, name: &str| Arc::new(named(field).with_name(name));
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| Arc::new(named(field))).collect()),
        DataType::List(element) => DataType::List(inner(element, "element")),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else { return field.clone() };
            let pair: Fields = pair.iter().zip(["key", "value"]).map(|(field, name)| inner(field, name)).collect();
            let entries = Field::new("key_value", DataType::Struct(pair), entries.is_nullable());
            DataType::Map(Arc::new(entries), *sorted)
        }
        other => other.clone(),
    };
    Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone())
}

/// Visits the leaf arrays below a column, in Parquet's order.
pub(crate) fn each_leaf(array: &ArrayRef, visit: &mut impl FnMut(&ArrayRef)) {
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().for_each(|child| each_leaf(child, visit)),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            each_leaf(&inside(list.values(), list.offsets()), visit);
        }
        DataType::Map(..) => {
            let map = array.as_map();
            each_leaf(&inside(map.keys(), map.offsets()), visit);
            each_leaf(&inside(map.values(), map.offsets()), visit);
        }
        _ => visit(array),
    }
}

/// Of all values, those that the offsets speak of.
fn inside(values: &ArrayRef, offsets: &[i32]) -> ArrayRef {
    let at = |offset: Option<&i32>| offset.map_or(0, |&offset| usize::try_from(offset).unwrap_or(0));
    let (from, to) = (at(offsets.first()), at(offsets.last()));
    values.slice(from, to - from)
}
