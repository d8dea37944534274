//! What the two halves of this crate share: the layout that files are written for, and what a
//! sealed file says of itself.
//!
//! The log side makes a [`Layout`] from a table's newest version; the data side writes files for it
//! and hands back [`DataFile`]s; a [`Batch`] of them goes into one commit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{Fields, Schema, SchemaRef};
use lakeward_protocol::position::{Offset, PartitionId, Shape};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::error::DeltaError;
use crate::metadata::Metadata;
use crate::rules::Rules;

/// Which columns get min, max and null counts in a file's stats. Every file has `numRecords`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsColumns {
    /// `delta.dataSkippingNumIndexedCols`: the first so many leaf columns in schema order,
    /// partition columns not counted. Delta's default is 32.
    First(u64),
    /// The same property at -1: every column.
    All,
    /// `delta.dataSkippingStatsColumns`: these and, where one is a struct, all below it.
    /// Each is a path of names from the root.
    Only(Vec<Vec<String>>),
}

/// What a table's data files must fit, as of one version. Cheap to clone.
#[derive(Clone)]
pub struct Layout {
    inner: Arc<Inner>,
}

struct Inner {
    table: String,
    shape: Shape,
    schema: SchemaRef,
    partition_columns: Vec<String>,
    stats_columns: StatsColumns,
    partition_columns_in_files: bool,
    store: Arc<dyn ObjectStore>,
    root: Path,
    description: Description,
}

/// What a table's metadata says beyond the columns' names and types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Description {
    /// The columns as files have them, where that is otherwise than the schema says (column mapping).
    pub physical: Option<Fields>,
    /// Columns that files must have statistics of: paths of the names that files have.
    pub clustering: Vec<Vec<String>>,
    /// Columns of the top level whose text has a length.
    pub lengths: Vec<TextLength>,
    pub rules: Arc<Rules>,
    /// Where it is all from; `None` for a layout made by hand.
    pub metadata: Option<Arc<Metadata>>,
}

/// A CHAR or VARCHAR column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextLength {
    /// Its name.
    pub column: String,
    /// The most characters that it may have.
    pub most: usize,
    /// Shorter text is filled with blanks (CHAR).
    pub padded: bool,
}

/// The parts of a [`Layout`], by name.
pub struct LayoutParts {
    /// See [`Layout::table`].
    pub table: String,
    /// See [`Layout::shape`].
    pub shape: Shape,
    /// See [`Layout::schema`].
    pub schema: SchemaRef,
    /// See [`Layout::partition_columns`].
    pub partition_columns: Vec<String>,
    /// See [`Layout::stats_columns`].
    pub stats_columns: StatsColumns,
    /// See [`Layout::partition_columns_in_files`].
    pub partition_columns_in_files: bool,
    /// See [`Layout::store`].
    pub store: Arc<dyn ObjectStore>,
    /// See [`Layout::root`].
    pub root: Path,
}

impl From<LayoutParts> for Layout {
    fn from(parts: LayoutParts) -> Self {
        let LayoutParts {
            table,
            shape,
            schema,
            partition_columns,
            stats_columns,
            partition_columns_in_files,
            store,
            root,
        } = parts;
        Self {
            inner: Arc::new(Inner {
                table,
                shape,
                schema,
                partition_columns,
                stats_columns,
                partition_columns_in_files,
                store,
                root,
                description: Description::default(),
            }),
        }
    }
}

impl Layout {
    /// The table's address, as people know it: for messages alone.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.inner.table
    }

    /// Fingerprint of protocol, schema, partitioning, properties and table id. Layouts of equal
    /// shape take each other's files.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.inner.shape
    }

    /// The same with what its metadata says more.
    pub(crate) fn described(self, description: Description) -> Self {
        let Inner { table, shape, schema, partition_columns, .. } = &*self.inner;
        let Inner { stats_columns, partition_columns_in_files, store, root, .. } = &*self.inner;
        Self {
            inner: Arc::new(Inner {
                table: table.clone(),
                shape: *shape,
                schema: Arc::clone(schema),
                partition_columns: partition_columns.clone(),
                stats_columns: stats_columns.clone(),
                partition_columns_in_files: *partition_columns_in_files,
                store: Arc::clone(store),
                root: root.clone(),
                description,
            }),
        }
    }

    pub(crate) fn description(&self) -> &Description {
        &self.inner.description
    }

    /// What the table demands of rows beyond their types. Who writes for it sees to that.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.inner.description.rules
    }

    /// May a new column, or field, of the table have this name?
    #[must_use]
    pub fn takes_name(&self, name: &str) -> bool {
        self.inner.description.metadata.as_ref().is_some_and(|metadata| metadata.takes_name(name))
    }

    /// May the type of a column become a wider one?
    #[must_use]
    pub fn widens(&self) -> bool {
        self.inner.description.metadata.as_ref().is_some_and(|metadata| metadata.widens(self.rules()))
    }

    /// The layout of the same table once it has the columns and types of `schema`, which has all of
    /// ours. Files of ours fit that table as well. A commit of a batch with
    /// [`metadata_action`](Self::metadata_action) makes it so.
    ///
    /// # Errors
    /// Something that this table can't become.
    pub fn grown(&self, schema: &Schema) -> Result<Self, DeltaError> {
        let unknown = || DeltaError::Schema {
            place: self.inner.table.clone(),
            reason: "a layout that is of no table can't grow".to_owned(),
        };
        let metadata = self.inner.description.metadata.as_ref().ok_or_else(unknown)?;
        Arc::new(metadata.grown(schema)?).layout()
    }

    /// The `metaData` action, as JSON text, that gives the table this layout.
    #[must_use]
    pub fn metadata_action(&self) -> Option<String> {
        self.inner.description.metadata.as_ref().map(|metadata| metadata.action().to_string())
    }

    /// The partition columns' names in the log, in the table's order.
    pub(crate) fn logged_partition_columns(&self) -> Vec<&str> {
        let names = self.inner.partition_columns.iter();
        let Some(physical) = &self.inner.description.physical else { return names.map(String::as_str).collect() };
        names.filter_map(|name| Some(physical[self.inner.schema.index_of(name).ok()?].name().as_str())).collect()
    }

    /// All columns in the table's order, partition columns included. NOT NULL columns and fields
    /// are `nullable: false`, nested ones too. Timestamps are microseconds, `UTC` or without zone.
    /// No field carries metadata.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.inner.schema
    }

    /// Names of the partition columns, in the table's order; top-level columns of the schema.
    #[must_use]
    pub fn partition_columns(&self) -> &[String] {
        &self.inner.partition_columns
    }

    /// Which columns get stats.
    #[must_use]
    pub fn stats_columns(&self) -> &StatsColumns {
        &self.inner.stats_columns
    }

    /// Must partition columns stand in the Parquet files as well (`materializePartitionColumns`)?
    /// Where it is false either way is allowed.
    #[must_use]
    pub fn partition_columns_in_files(&self) -> bool {
        self.inner.partition_columns_in_files
    }

    /// Where files are put. On local disk what is put is durable before the call returns.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.inner.store
    }

    /// The table's folder in the store.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// The place in the store of a file whose `add.path` (relative, percent-encoded) is
    /// `add_path`; `None` when its encoding is broken.
    #[must_use]
    pub fn object_path(&self, add_path: &str) -> Option<Path> {
        object_path(&self.inner.root, add_path)
    }
}

/// See [`Layout::object_path`].
pub(crate) fn object_path(root: &Path, add_path: &str) -> Option<Path> {
    let relative = Path::from_url_path(add_path).ok()?;
    Some(root.parts().chain(relative.parts()).collect())
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout")
            .field("table", &self.inner.table)
            .field("shape", &self.inner.shape)
            .field("schema", &self.inner.schema)
            .field("partition_columns", &self.inner.partition_columns)
            .field("stats_columns", &self.inner.stats_columns)
            .finish_non_exhaustive()
    }
}

/// The stretch of one source partition whose rows a file holds. Files of one commit may share a
/// stretch (its rows went to several partition values), so rows do not have to fill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpan {
    /// The source's partition.
    pub partition: PartitionId,
    /// At or below the first row's offset.
    pub from: Offset,
    /// Above the last row's offset.
    pub to: Offset,
    /// The rows that this file has of it.
    pub rows: u64,
}

/// A sealed data file: durable in the store, and in no commit yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFile {
    /// As it must stand in `add.path`: relative to the table's folder, percent-encoded by the book.
    pub path: String,
    /// Every partition column's value in Delta's text form, by the column's name in the log, in the
    /// table's order; `None` is NULL.
    pub partition_values: Vec<(String, Option<String>)>,
    /// The file's length.
    pub size_bytes: u64,
    /// When it was written, since 1970.
    pub modification_time_ms: i64,
    /// Its rows.
    pub num_records: u64,
    /// `add.stats`: JSON text.
    pub stats: String,
    /// What it holds of each source partition, where the writer knows. Goes into the file's tags.
    pub spans: Vec<FileSpan>,
    /// Whose rows it holds, where they are written by key, as the file's tag says it.
    pub chains: Option<String>,
}

/// What became of one partition's records in a batch.
///
/// `records` = `rows` - `extra_rows` + `bad` + `tombstones`, unless the rows are a view's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records taken in.
    pub records: u64,
    /// Rows written.
    pub rows: u64,
    /// Of them, those beyond one for each record that became rows; below 0 where such records hold none.
    pub extra_rows: i64,
    /// Records set aside.
    pub bad: u64,
    /// Records without a value.
    pub tombstones: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.records += more.records;
        self.rows += more.rows;
        self.extra_rows += more.extra_rows;
        self.bad += more.bad;
        self.tombstones += more.tombstones;
    }
}

/// What one commit takes: the files sealed since the last one, and the tally of the records that
/// they stand for. May have no file: a stretch of tombstones or bad records alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Sealed files, each in this commit alone.
    pub files: Vec<DataFile>,
    /// By source partition.
    pub tally: BTreeMap<PartitionId, Tally>,
    /// The `metaData` action, as JSON text, that makes the table one that the files fit, where it is
    /// not yet: [`Layout::metadata_action`] of a layout that grew out of the table's.
    pub metadata: Option<String>,
}
