//! Rows whose events leave values unsaid: what the table has there stays.
//!
//! Made whole at each attempt to commit, from the very version before it, as the rows that die are found. So a rival's
//! newer value is the one that stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave;
use arrow_select::take::take_record_batch;

use super::change::{Groups, StageError, Staged};
use super::index::Place;
use super::key::{Digests, Keys};
use super::latest::tag;
use super::scanned::Scanned;
use super::sink::View;
use crate::encode::EncodeError;
use crate::error::DeltaError;

/// Rows to be made whole.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    /// With anything in the columns that are unsaid.
    pub rows: RecordBatch,
    pub digests: Digests,
    /// By row: the columns that are unsaid.
    pub unsaid: Vec<Vec<usize>>,
}

/// Values of the table, and where each row's are: which batch, and which row of it.
struct Old {
    batches: Vec<RecordBatch>,
    places: Vec<(usize, usize)>,
}

impl View {
    /// The change with its rows whole, as of the version that the state stands for; `None` where they are already.
    ///
    /// # Errors
    /// A row that was never there, named; the table can't be read; a store that refuses.
    pub(super) fn completed(&mut self, staged: &Staged) -> Result<Option<Staged>, DeltaError> {
        let Some(patch) = &staged.patch else { return Ok(None) };
        let layout = self.stager.layout.clone();
        let columns: BTreeSet<usize> = patch.unsaid.iter().flatten().copied().collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        let old = self.old(patch, &columns)?;
        let broken = |error: ArrowError| self.keys.refuse(format!("rows can't be made whole: {error}"));
        let column = |(at, own): (usize, &ArrayRef)| {
            let Some(read) = columns.iter().position(|column| *column == at) else { return Ok(Arc::clone(own)) };
            let values = std::iter::once(own.as_ref());
            let values: Vec<&dyn Array> =
                values.chain(old.batches.iter().map(|batch| batch.column(read).as_ref())).collect();
            let place = |(row, (batch, of_batch)): (usize, &(usize, usize))| match patch.unsaid[row].contains(&at) {
                true => (batch + 1, *of_batch),
                false => (0, row),
            };
            interleave(&values, &old.places.iter().enumerate().map(place).collect::<Vec<_>>())
        };
        let whole = patch.rows.columns().iter().enumerate().map(column).collect::<Result<Vec<_>, _>>();
        let whole = whole.and_then(|columns| RecordBatch::try_new(layout.schema().clone(), columns)).map_err(broken)?;
        let table = layout.table();
        let failed = |error: StageError| match error {
            StageError::Delta(error) | StageError::Encode(EncodeError::Upload(error)) => error,
            StageError::Encode(error) => DeltaError::Broken {
                table: table.to_owned(),
                reason: format!("rows that keep values can't be written: {error}"),
            },
        };
        self.with_rows(staged, &whole, patch.digests.clone()).map_err(failed).map(Some)
    }

    /// The same change with some more rows, in files of their own.
    fn with_rows(&mut self, staged: &Staged, rows: &RecordBatch, digests: Digests) -> Result<Staged, StageError> {
        let mut groups = Groups::new();
        self.stager.writer.discard();
        self.stager.write(std::slice::from_ref(rows), None)?;
        self.stager.part(rows, digests, &mut groups)?;
        let (mut files, inserts) = self.stager.deliver(groups, &self.table.runtime)?;
        let mut whole = Staged { patch: None, ..staged.clone() };
        if let Some(touched) = &whole.touched {
            files.iter_mut().zip(&inserts).for_each(|(file, digests)| tag(file, digests, touched));
        }
        whole.batch.files.extend(files);
        whole.inserts.extend(inserts);
        Ok(whole)
    }

    /// What the table has in these columns, of each row of a patch.
    fn old(&self, patch: &Patch, columns: &[usize]) -> Result<Old, DeltaError> {
        let layout = &self.stager.layout;
        let names: Vec<&str> = columns.iter().map(|column| layout.schema().field(*column).name().as_str()).collect();
        let mut wanted: BTreeMap<&str, Vec<(u32, usize)>> = BTreeMap::new();
        for (row, digest) in patch.digests.iter().enumerate() {
            let Some(Place { file, row: of_file }) = self.state.index.places(*digest).next() else {
                let key = self.keys.project(&patch.rows)?;
                let key = self.keys.describe(&key, row);
                return Err(never_said(&self.keys, &key, &patch.rows, &patch.unsaid[row]));
            };
            wanted.entry(self.state.files.get(file).path.as_str()).or_default().push((of_file, row));
        }
        let version = self.table.version;
        let Some(snapshot) = self.table.kernel.at(version)? else {
            return Err(DeltaError::Outage {
                doing: format!("read version {version} of {}", self.table.name()),
                source: "it was there a moment ago, and is gone".into(),
            });
        };
        let mut scanned = Scanned::new(&self.table.kernel, &snapshot, &names)?;
        let files = std::mem::take(&mut scanned.files);
        let (mut batches, mut places) = (Vec::new(), vec![(0, 0); patch.digests.len()]);
        let mut found = 0;
        for file in &files {
            let Some(rows) = wanted.get(file.file.path.as_str()) else { continue };
            let mut first = 0;
            for batch in Scanned::rows(&scanned, file)? {
                let batch = batch?;
                let end = first + batch.num_rows();
                let here: Vec<_> = rows.iter().filter(|(row, _)| (first..end).contains(&(*row as usize))).collect();
                if !here.is_empty() {
                    let within = here.iter().map(|(row, _)| row - u32::try_from(first).expect("below a row's number"));
                    let taken = take_record_batch(&batch, &UInt32Array::from_iter_values(within));
                    let taken = taken.map_err(|error| self.keys.refuse(format!("rows can't be read: {error}")))?;
                    for (at, (_, row)) in here.iter().enumerate() {
                        places[*row] = (batches.len(), at);
                    }
                    found += here.len();
                    batches.push(taken);
                }
                first = end;
            }
        }
        assert_eq!(found, patch.digests.len(), "the index names rows that are there");
        Ok(Old { batches, places })
    }
}

/// The refusal of a row that keeps values which nobody ever said.
pub(crate) fn never_said(keys: &Keys, key: &str, rows: &RecordBatch, columns: &[usize]) -> DeltaError {
    let names = columns.iter().map(|column| rows.schema_ref().field(*column).name().clone());
    let names = names.collect::<Vec<_>>().join(", ");
    keys.refuse(format!(
        "a record of the key {key} leaves {names} as it was (Debezium's unavailable value), and there is no row of that key; \
         read the topic from where it has the row, or take --debezium-unavailable-value=fail or write"
    ))
}
