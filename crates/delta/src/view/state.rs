//! Index and files together: what the view knows of one version of its table.
//!
//! Brought to any version by comparing its files with those known, whoever committed between: what is
//! gone loses its entries, what is new is read (its key columns alone). So it is rebuilt from nothing,
//! kept up after foreign appends, deletes and compactions, and set right after a RESTORE by the one
//! same way.

use std::collections::{HashMap, HashSet};

use delta_kernel::SnapshotRef;
use roaring::RoaringTreemap;

use super::files::{Files, LiveFile};
use super::index::{Index, Place};
use super::key::Keys;
use super::scanned::{Found, Scanned};
use crate::error::DeltaError;
use crate::kernel::Kernel;

/// See the module's header.
#[derive(Debug)]
pub(crate) struct State {
    pub index: Index,
    pub files: Files,
    /// The most rows that the index may have.
    most_rows: usize,
}

/// What a row takes in the index at most: see [`super::index`].
pub const INDEX_ROW_BYTES: usize = 57;

/// How the files of a version differ from those known.
#[derive(Default)]
struct Difference {
    /// Numbers of files that are gone, or must be read anew.
    gone: HashSet<u32>,
    /// Files of which more rows are dead now.
    dying: Vec<(u32, LiveFile)>,
    /// Files to read, by their place in the list.
    fresh: Vec<usize>,
}

impl State {
    /// Of nothing, for a table of so many rows at most.
    pub(crate) fn new(most_rows: usize) -> Self {
        Self { index: Index::default(), files: Files::default(), most_rows }
    }

    /// Would the index pass its bound with so many rows?
    ///
    /// # Errors
    /// It would: what to do.
    pub(crate) fn check_room(&self, keys: &Keys, rows: usize) -> Result<(), DeltaError> {
        let most = self.most_rows;
        if rows <= most {
            return Ok(());
        }
        Err(DeltaError::TooManyKeys { table: keys.table().to_owned(), rows, most, row_bytes: INDEX_ROW_BYTES })
    }

    /// Becomes the state of a snapshot. After an error it is of no one version, but consistent in
    /// itself: the next call goes on from there.
    ///
    /// # Errors
    /// The table can't be read; it holds two rows of one key.
    pub(crate) fn sync(&mut self, kernel: &Kernel, snapshot: &SnapshotRef, keys: &Keys) -> Result<(), DeltaError> {
        let mut scanned = Scanned::new(kernel, snapshot, &keys.names())?;
        let difference = self.compare(&mut scanned)?;
        self.forget(&difference);
        for (number, file) in difference.dying {
            let known = self.files.get_mut(number);
            (known.vector, known.dead) = (file.vector, file.dead);
        }
        let mut files = std::mem::take(&mut scanned.files);
        for at in difference.fresh {
            scanned.read_vector(&mut files[at].file)?;
            self.read(&scanned, &files[at], keys)?;
        }
        Ok(())
    }

    fn compare(&self, scanned: &mut Scanned) -> Result<Difference, DeltaError> {
        let mut difference = Difference::default();
        let mut live = HashSet::new();
        let mut files = std::mem::take(&mut scanned.files);
        for (at, found) in files.iter_mut().enumerate() {
            let Some(number) = self.files.number(&found.file.path) else {
                difference.fresh.push(at);
                continue;
            };
            let known = self.files.get(number);
            live.insert(number);
            if known.vector == found.file.vector {
                continue;
            }
            scanned.read_vector(&mut found.file)?;
            if known.dead.is_subset(&found.file.dead) {
                difference.dying.push((number, found.file.clone()));
            } else {
                // Rows came back.
                difference.gone.insert(number);
                difference.fresh.push(at);
            }
        }
        difference.gone.extend(self.files.iter().map(|(number, _)| number).filter(|number| !live.contains(number)));
        scanned.files = files;
        Ok(difference)
    }

    /// Drops the entries of what is gone or died.
    fn forget(&mut self, difference: &Difference) {
        let dead: HashMap<u32, &RoaringTreemap> =
            difference.dying.iter().map(|(number, file)| (*number, &file.dead)).collect();
        if !difference.gone.is_empty() || !dead.is_empty() {
            let is_dead = |place: Place| dead.get(&place.file).is_some_and(|dead| dead.contains(u64::from(place.row)));
            self.index.retain(|place| !difference.gone.contains(&place.file) && !is_dead(place));
        }
        for number in &difference.gone {
            self.files.remove(*number);
        }
    }

    /// Takes in a file that is not known; whole, or not at all.
    fn read(&mut self, scanned: &Scanned, found: &Found, keys: &Keys) -> Result<(), DeltaError> {
        let number = self.files.reserve();
        match self.read_rows(scanned, found, keys, number) {
            Ok(rows) => {
                self.files.insert(number, LiveFile { rows, ..found.file.clone() });
                Ok(())
            }
            Err(error) => {
                self.index.retain(|place| place.file != number);
                Err(error)
            }
        }
    }

    fn read_rows(&mut self, scanned: &Scanned, found: &Found, keys: &Keys, number: u32) -> Result<u64, DeltaError> {
        let file = &found.file;
        let mut rows = 0_u64;
        for batch in Scanned::rows(scanned, found)? {
            let projected = keys.project(&batch?)?;
            for (at, digest) in keys.digests(&projected)?.into_iter().enumerate() {
                let row = rows + at as u64;
                if file.dead.contains(row) {
                    continue;
                }
                let row = u32::try_from(row).map_err(|_| keys.refuse(format!("file {} is too long", file.path)))?;
                if keys.unique
                    && let Some(other) = self.index.places(digest).next()
                {
                    let other = self.files.try_get(other.file).map_or(&file.path, |other| &other.path);
                    return Err(keys.refuse(format!(
                        "it holds two rows of the key {}, in the files {} and {other}; another writer added one, or \
                         the key does not name rows: delete one of them, or let the pipeline write a table of its own",
                        keys.describe(&projected, at),
                        file.path,
                    )));
                }
                self.index.add(digest, Place { file: number, row });
            }
            rows += projected.num_rows() as u64;
            self.check_room(keys, self.index.len())?;
        }
        Ok(rows)
    }
}
