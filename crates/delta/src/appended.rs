//! The rows of a table that only grows, in the order in which its versions added them: a log to read again from any place.
//!
//! A row's *position* is its version and its number among the rows that the version added, files in the order of the
//! commit. It stays what it is as long as the files do: rows that were deleted by vectors are passed over, compactions
//! move nothing. What rewrote files (a DELETE without vectors, an UPDATE) leaves rows that can't be told from those
//! that were there, so they are refused where they are still to be read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use delta_kernel::arrow::compute::filter_record_batch;
use roaring::RoaringTreemap;
use tokio::runtime::Handle;

use crate::error::DeltaError;
use crate::history::{Added, History, Version};
use crate::kernel::{Configuration, Kernel};
use crate::store::Place;
use crate::view::scanned::Scanned;

/// Bits of a position that number a row within its version.
const ROW_BITS: u32 = 32;

/// The position of a version's first row.
#[must_use]
pub fn position(version: u64) -> i64 {
    i64::try_from(version << ROW_BITS).expect("fewer versions than 2^31")
}

/// Rows that follow each other in one file.
#[derive(Debug)]
pub struct Chunk {
    /// Position of the first row of the file that this is of.
    base: i64,
    /// Numbers of the rows within the file, ascending.
    numbers: Vec<u64>,
    /// The rows.
    pub batch: RecordBatch,
}

impl Chunk {
    /// Each row's position.
    pub fn positions(&self) -> impl Iterator<Item = i64> + '_ {
        self.numbers.iter().map(|number| self.base + i64::try_from(*number).expect("rows of a file"))
    }
}

/// A table's rows by position.
pub struct Appended {
    kernel: Kernel,
    columns: Vec<String>,
    /// The newest version.
    version: u64,
    table_id: String,
    newest: Arc<Scanned>,
    /// Where each live file stands in `newest`.
    live: HashMap<String, usize>,
    /// By version what it added; older ones that the log does not hold are one.
    versions: BTreeMap<u64, Vec<Piece>>,
    /// The oldest version of the log.
    first: u64,
}

/// A file that a version added.
struct Piece {
    path: String,
    rows: u64,
    /// The version that rewrote its rows.
    rewritten_by: Option<u64>,
}

impl Appended {
    /// The table at a location as it is now, and those of `wanted` columns that it has.
    ///
    /// # Errors
    /// No table there; a log that can't be read.
    pub fn open(location: &str, wanted: &[&str], runtime: &Handle) -> Result<Self, DeltaError> {
        let place = Place::resolve(location)?;
        let kernel = Kernel::new(place, runtime.clone());
        let snapshot = kernel.newest()?;
        let configuration = Configuration::of(&kernel, &snapshot)?;
        let schema = configuration.layout.schema();
        let columns: Vec<&str> =
            wanted.iter().copied().filter(|name| schema.column_with_name(name).is_some()).collect();
        let newest = Arc::new(Scanned::new(&kernel, &snapshot, &columns)?);
        let live = newest.files.iter().enumerate().map(|(at, found)| (found.file.path.clone(), at)).collect();
        let mut appended = Self {
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            version: snapshot.version(),
            table_id: configuration.table_id.clone(),
            kernel,
            newest,
            live,
            versions: BTreeMap::new(),
            first: 0,
        };
        appended.follow(&History::open(location, runtime.clone())?)?;
        Ok(appended)
    }

    /// The table's id: positions are of it alone.
    #[must_use]
    pub fn table_id(&self) -> &str {
        &self.table_id
    }

    /// The position after the last row.
    #[must_use]
    pub fn end(&self) -> i64 {
        position(self.version + 1)
    }

    fn follow(&mut self, history: &History) -> Result<(), DeltaError> {
        self.first = history.versions().first().copied().unwrap_or_default();
        let mut rewritten: HashMap<String, u64> = HashMap::new();
        for version in history.read() {
            let version = version?;
            if version.version > self.version {
                break;
            }
            self.add(&version, &mut rewritten)?;
        }
        if self.first > 0 {
            self.add_older();
        }
        for piece in self.versions.values_mut().flatten() {
            piece.rewritten_by = rewritten.get(&piece.path).copied();
        }
        Ok(())
    }

    fn add(&mut self, version: &Version, rewritten: &mut HashMap<String, u64>) -> Result<(), DeltaError> {
        let changes = |add: &&Added| add.data_change;
        let touched = version.removes.iter().filter(|remove| remove.data_change);
        let added: Vec<&Added> = version.adds.iter().filter(changes).collect();
        let mut rewrites = false;
        for remove in touched {
            rewrites = true;
            // With a vector the very file is there again.
            if !added.iter().any(|add| add.path == remove.path) {
                rewritten.insert(remove.path.clone(), version.version);
            }
        }
        if rewrites || added.is_empty() {
            return Ok(());
        }
        let mut pieces = Vec::new();
        for add in added {
            let rows = add.num_records.ok_or_else(|| DeltaError::Broken {
                table: self.kernel.place.name.clone(),
                reason: format!("file {} says not how many rows it has (numRecords in its stats)", add.path),
            })?;
            pieces.push(Piece { path: add.path.clone(), rows, rewritten_by: None });
        }
        self.versions.insert(version.version, pieces);
        Ok(())
    }

    /// Live files that no commit of the log added were added before: as if by the version before the first.
    fn add_older(&mut self) {
        let known: Vec<&String> = self.versions.values().flatten().map(|piece| &piece.path).collect();
        let known: std::collections::HashSet<&String> = known.into_iter().collect();
        let older = self.newest.files.iter().filter(|found| !known.contains(&found.file.path));
        let mut pieces: Vec<Piece> = older
            .map(|found| Piece { path: found.file.path.clone(), rows: found.file.rows_by_stats(), rewritten_by: None })
            .collect();
        pieces.sort_by(|a, b| a.path.cmp(&b.path));
        self.versions.insert(self.first - 1, pieces);
    }

    /// The rows from a position on, file by file; a file that is not live any more is read as it was.
    ///
    /// # Errors
    /// The log does not go back to the position; files that were rewritten.
    pub fn read_from(&self, from: i64) -> Result<impl Iterator<Item = Result<Chunk, DeltaError>> + use<>, DeltaError> {
        let version = u64::try_from(from >> ROW_BITS).unwrap_or_default();
        if from > 0 && self.first > 0 && version < self.first - 1 {
            return Err(self.broken(format!(
                "its log goes back to version {} alone, and what is wanted begins at version {version}",
                self.first
            )));
        }
        let mut parts = Vec::new();
        for (version, pieces) in self.versions.range(version..) {
            let mut base = position(*version);
            for piece in pieces {
                let end = base + i64::try_from(piece.rows).expect("rows of a file");
                if end > from {
                    parts.push(self.part(*version, piece, base, from)?);
                }
                base = end;
            }
        }
        Ok(parts.into_iter().flat_map(|part| -> Chunks {
            match part.open() {
                Ok(chunks) => chunks,
                Err(error) => Box::new(std::iter::once(Err(error))),
            }
        }))
    }

    fn part(&self, version: u64, piece: &Piece, base: i64, from: i64) -> Result<Part, DeltaError> {
        if let Some(by) = piece.rewritten_by {
            return Err(self.broken(format!(
                "version {by} rewrote rows that version {version} added and that are still to be read, and which of them \
                 are left can't be told; RESTORE the table to the version before {by}, or begin with a new one"
            )));
        }
        let skip = u64::try_from(from - base).unwrap_or(0);
        let (scanned, index) = match self.live.get(&piece.path) {
            Some(index) => (Arc::clone(&self.newest), *index),
            None => self.as_it_was(version, &piece.path)?,
        };
        Ok(Part { scanned, index, base, skip })
    }

    /// A file that was compacted, in the version that added it.
    fn as_it_was(&self, version: u64, path: &str) -> Result<(Arc<Scanned>, usize), DeltaError> {
        let gone = || self.broken(format!("file {path} of version {version} is not live any more and not in its log"));
        let snapshot = self.kernel.at(version)?.ok_or_else(gone)?;
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let scanned = Scanned::new(&self.kernel, &snapshot, &columns)?;
        let index = scanned.files.iter().position(|found| found.file.path == path).ok_or_else(gone)?;
        Ok((Arc::new(scanned), index))
    }

    fn broken(&self, reason: String) -> DeltaError {
        DeltaError::Broken { table: self.kernel.place.name.clone(), reason }
    }
}

/// A file, or the rest of one.
struct Part {
    scanned: Arc<Scanned>,
    index: usize,
    base: i64,
    /// Rows of it that were read already.
    skip: u64,
}

type Chunks = Box<dyn Iterator<Item = Result<Chunk, DeltaError>>>;

impl Part {
    fn open(self) -> Result<Chunks, DeltaError> {
        let mut file = self.scanned.files[self.index].file.clone();
        self.scanned.read_vector(&mut file)?;
        let rows = Scanned::rows(Arc::clone(&self.scanned), &self.scanned.files[self.index])?;
        let (base, skip, mut at) = (self.base, self.skip, 0);
        Ok(Box::new(rows.map(move |batch| {
            let batch = batch?;
            let from = at;
            at += batch.num_rows() as u64;
            chunk(base, from, skip, &file.dead, &batch)
        })))
    }
}

/// The rows of a batch that are wanted and not dead.
fn chunk(base: i64, from: u64, skip: u64, dead: &RoaringTreemap, batch: &RecordBatch) -> Result<Chunk, DeltaError> {
    let all = from..from + batch.num_rows() as u64;
    let keep: Vec<bool> = all.clone().map(|row| row >= skip && !dead.contains(row)).collect();
    let numbers = all.zip(&keep).filter(|(_, keep)| **keep).map(|(row, _)| row).collect();
    let batch = filter_record_batch(batch, &BooleanArray::from(keep)).map_err(|error| DeltaError::Broken {
        table: "the table".to_owned(),
        reason: format!("its rows can't be read: {error}"),
    })?;
    Ok(Chunk { base, numbers, batch })
}
