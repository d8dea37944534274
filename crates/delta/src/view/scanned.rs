//! What a version of the table holds: its live files by the library's replay of the log, and the
//! rows of one of them with their numbers.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, Int32Array, Int64Array, MapArray, RecordBatch, StringArray, StructArray};
use delta_kernel::actions::deletion_vector::DeletionVectorDescriptor;
use delta_kernel::engine::arrow_data::{ArrowEngineData, EngineDataArrowExt};
use delta_kernel::scan::state::{ScanFile, transform_to_logical};
use delta_kernel::scan::{Scan, ScanMetadata};
use delta_kernel::schema::SchemaRef;
use delta_kernel::{Engine, ExpressionRef, FileMeta, KernelError, KernelResult, SnapshotRef};
use serde_json::{Map, Value};

use super::files::LiveFile;
use super::vector;
use crate::error::DeltaError;
use crate::kernel::Kernel;

/// A version's live files, ready to be read.
pub(crate) struct Scanned {
    kernel: Kernel,
    scan: Scan,
    columns: Vec<String>,
    /// Vectors are not read yet: `dead` is empty and `rows` 0.
    pub files: Vec<Found>,
}

/// One live file.
pub(crate) struct Found {
    pub file: LiveFile,
    transform: Option<ExpressionRef>,
}

impl Scanned {
    /// Lists the files of a snapshot. `columns` are those that [`rows`](Self::rows) will yield.
    ///
    /// # Errors
    /// The log can't be read.
    pub(crate) fn new(kernel: &Kernel, snapshot: &SnapshotRef, columns: &[&str]) -> Result<Self, DeltaError> {
        Self::some(kernel, snapshot, columns, &|_| true)
    }

    /// The same of the files that are wanted: the others take no memory.
    ///
    /// # Errors
    /// The log can't be read.
    pub(crate) fn some(
        kernel: &Kernel,
        snapshot: &SnapshotRef,
        columns: &[&str],
        is_wanted: &dyn Fn(&LiveFile) -> bool,
    ) -> Result<Self, DeltaError> {
        let failed = |error| DeltaError::kernel(&kernel.place.name, "list the files of", error);
        let schema = read_schema(snapshot, columns).map_err(failed)?;
        let scan = Arc::clone(snapshot).scan_builder().with_schema(schema).build().map_err(failed)?;
        let mut files = Vec::new();
        for metadata in scan.scan_metadata(kernel.engine()).map_err(failed)? {
            let before = files.len();
            collect(metadata.map_err(failed)?, &mut files).map_err(failed)?;
            let new = files.split_off(before);
            files.extend(new.into_iter().filter(|found| is_wanted(&found.file)));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = files.iter().find(|found| !seen.insert(&found.file.path)) {
            return Err(DeltaError::Broken {
                table: kernel.place.name.clone(),
                reason: format!(
                    "its log has the file {} live twice, with different rows dead: another writer removed it without \
                     naming its deletion vector; RESTORE the table to a version before that",
                    twice.file.path
                ),
            });
        }
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        Ok(Self { kernel: kernel.clone(), scan, columns, files })
    }

    /// All rows of a file, dead ones too, in the order that gives them their numbers: batches of the
    /// columns asked for.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn rows<S: Deref<Target = Self>>(
        this: S,
        found: &Found,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, DeltaError>> + use<S>, DeltaError> {
        let file = format!("{} (file {})", this.kernel.place.name, found.file.path);
        let failed = move |error| DeltaError::kernel(&file, "read", error);
        let meta = FileMeta {
            location: this.scan.table_root().join(&found.file.path).map_err(|error| failed(error.into()))?,
            last_modified: found.file.modification_time_ms,
            size: found.file.size_bytes,
        };
        let physical = this.scan.physical_schema();
        let read = this.kernel.engine().parquet_handler().read_parquet_files(&[meta], Arc::clone(physical), None);
        let transform = found.transform.clone();
        Ok(read.map_err(&failed)?.map(move |batch| {
            let logical = batch.and_then(|batch| {
                let (schema, physical) = (this.scan.logical_schema(), this.scan.physical_schema());
                transform_to_logical(this.kernel.engine(), batch, physical, schema, transform.clone())
            });
            let batch = logical.and_then(EngineDataArrowExt::try_into_record_batch).map_err(&failed)?;
            let wanted = this.columns.iter().map(|name| batch.schema().index_of(name)).collect::<Result<Vec<_>, _>>();
            wanted.and_then(|wanted| batch.project(&wanted)).map_err(|error| failed(KernelError::generic_err(error)))
        }))
    }

    /// Reads a file's vector into it.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn read_vector(&self, file: &mut LiveFile) -> Result<(), DeltaError> {
        if let Some(descriptor) = &file.vector {
            file.dead = vector::read(&self.kernel, descriptor)?;
        }
        Ok(())
    }
}

/// The columns asked for, and one that lies in the files where those are partition columns alone:
/// rows are counted by it.
fn read_schema(snapshot: &SnapshotRef, columns: &[&str]) -> KernelResult<SchemaRef> {
    let partitions = snapshot.table_configuration().metadata().partition_columns();
    let is_partition = |name: &str| partitions.iter().any(|partition| partition == name);
    let schema = snapshot.schema();
    let mut wanted = columns.to_vec();
    if columns.iter().all(|name| is_partition(name)) {
        wanted.extend(schema.fields().map(|field| field.name().as_str()).find(|name| !is_partition(name)));
    }
    schema.project(&wanted)
}

fn collect(metadata: ScanMetadata, files: &mut Vec<Found>) -> KernelResult<()> {
    let scanned: Vec<ScanFile> = metadata.visit_scan_files(Vec::new(), |files, file| files.push(file))?;
    let (data, mut selected) = metadata.scan_files.into_parts();
    let batch: RecordBatch = (*ArrowEngineData::try_from_engine_data(data)?).into();
    selected.resize(batch.num_rows(), true);
    let missing = || KernelError::generic("the library's list of files lacks a column");
    let column = |name: &str| batch.column_by_name(name).ok_or_else(missing);
    let paths: &StringArray = column("path")?.as_string_opt().ok_or_else(missing)?;
    let stats: &StringArray = column("stats")?.as_string_opt().ok_or_else(missing)?;
    let vectors: &StructArray = column("deletionVector")?.as_struct_opt().ok_or_else(missing)?;
    let constants: &StructArray = column("fileConstantValues")?.as_struct_opt().ok_or_else(missing)?;
    let map = |name: &str| constants.column_by_name(name).and_then(|map| map.as_map_opt()).ok_or_else(missing);
    let (values, tags) = (map("partitionValues")?, map("tags")?);
    let mut scanned = scanned.into_iter();
    for row in (0..batch.num_rows()).filter(|&row| selected[row] && paths.is_valid(row)) {
        let file = scanned.next().ok_or_else(missing)?;
        assert_eq!(file.path, paths.value(row), "both walks of the list see the same files");
        files.push(Found {
            transform: file.transform,
            file: LiveFile {
                path: file.path,
                partition_values: entries(values, row).unwrap_or_default(),
                size_bytes: u64::try_from(file.size).map_err(KernelError::generic_err)?,
                modification_time_ms: file.modification_time,
                stats: stats.is_valid(row).then(|| stats.value(row).to_owned()),
                tags: entries(tags, row),
                vector: descriptor(vectors, row)?,
                dead: Default::default(),
                rows: 0,
            },
        });
    }
    Ok(())
}

pub(crate) fn descriptor(vectors: &StructArray, row: usize) -> KernelResult<Option<DeletionVectorDescriptor>> {
    let missing = || KernelError::generic("the library's list of files lacks a column");
    let column = |name: &str| vectors.column_by_name(name).ok_or_else(missing);
    let kinds: &StringArray = column("storageType")?.as_string_opt().ok_or_else(missing)?;
    if vectors.is_null(row) || kinds.is_null(row) {
        return Ok(None);
    }
    let paths: &StringArray = column("pathOrInlineDv")?.as_string_opt().ok_or_else(missing)?;
    let offsets: &Int32Array = column("offset")?.as_primitive_opt().ok_or_else(missing)?;
    let sizes: &Int32Array = column("sizeInBytes")?.as_primitive_opt().ok_or_else(missing)?;
    let cardinalities: &Int64Array = column("cardinality")?.as_primitive_opt().ok_or_else(missing)?;
    DeletionVectorDescriptor::try_new(
        kinds.value(row).parse()?,
        paths.value(row),
        offsets.is_valid(row).then(|| offsets.value(row)),
        sizes.value(row),
        cardinalities.value(row),
    )
    .map(Some)
}

fn entries(map: &MapArray, row: usize) -> Option<Map<String, Value>> {
    if map.is_null(row) {
        return None;
    }
    let entries = map.value(row);
    let (keys, values): (&StringArray, &StringArray) =
        (entries.column(0).as_string_opt()?, entries.column(1).as_string_opt()?);
    let value = |at: usize| if values.is_valid(at) { Value::from(values.value(at)) } else { Value::Null };
    Some((0..entries.len()).map(|at| (keys.value(at).to_owned(), value(at))).collect())
}
