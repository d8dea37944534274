//! What a staged change means for one version of the table: which rows of which files die, and what
//! the commit says of it. Made anew for each attempt, from the state of the very version before it, so
//! that no row comes back from the dead.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use delta_kernel::actions::deletion_vector::DeletionVectorDescriptor;
use roaring::RoaringTreemap;
use tokio::runtime::Handle;

use super::chains::Chains;
use super::change::Staged;
use super::files::LiveFile;
use super::index::{Digest, DigestMap, Place};
use super::key::Keys;
use super::latest::{Moved, moved_key};
use super::state::State;
use super::vector;
use crate::commit::Rewrite;
use crate::error::DeltaError;
use crate::kernel::Kernel;

/// What one attempt would do, once its commit stands.
#[derive(Debug, Default)]
pub(crate) struct Revision {
    /// Rows that die: their index entries.
    removed: Vec<(Digest, Place)>,
    /// What becomes of their files; `None` where no row is left.
    touched: BTreeMap<u32, Option<Marked>>,
}

/// A file's dead rows, written as a vector.
#[derive(Debug)]
struct Marked {
    dead: RoaringTreemap,
    vector: DeletionVectorDescriptor,
}

impl Revision {
    /// Finds the rows that go and writes their files' vectors.
    ///
    /// # Errors
    /// A row that is not there, or one that comes twice, named; a store that refuses.
    pub(crate) fn new(
        state: &State,
        keys: &Keys,
        moved: Moved,
        staged: &Staged,
        kernel: &Kernel,
        runtime: &Handle,
    ) -> Result<Self, DeltaError> {
        let removed = match &staged.touched {
            Some(touched) => find_touched(state, keys, moved, staged, touched)?,
            None => {
                let removed = find(state, keys, staged)?;
                refuse_doubles(state, keys, staged)?;
                removed
            }
        };
        let come = staged.inserts.iter().map(Vec::len).sum::<usize>();
        state.check_room(keys, state.index.len() + come - removed.len())?;
        let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (_, place) in &removed {
            rows.entry(place.file).or_default().push(place.row);
        }
        let mut marks = Vec::new();
        let mut touched = BTreeMap::new();
        for (number, mut rows) in rows {
            rows.sort_unstable();
            let file = state.files.get(number);
            let mut dead = file.dead.clone();
            let fresh = rows.iter().filter(|row| dead.insert(u64::from(**row))).count();
            assert_eq!(fresh, rows.len(), "the index names live rows alone: {}", file.path);
            if dead.len() == file.rows {
                touched.insert(number, None);
            } else {
                marks.push((number, dead));
            }
        }
        let vectors: Vec<_> = marks.iter().map(|(_, dead)| dead).collect();
        let vectors = runtime.block_on(vector::write(kernel, &vectors))?;
        for ((number, dead), vector) in marks.into_iter().zip(vectors) {
            touched.insert(number, Some(Marked { dead, vector }));
        }
        Ok(Self { removed, touched })
    }

    /// Rows that die by it.
    pub(crate) fn gone(&self) -> u64 {
        self.removed.len() as u64
    }

    /// What the commit says of the files touched.
    pub(crate) fn rewrite(&self, state: &State, now_ms: i64) -> Rewrite {
        let removes = self.touched.keys().map(|number| state.files.get(*number).remove(now_ms, true));
        let adds = self
            .touched
            .iter()
            .filter_map(|(number, marked)| Some(state.files.get(*number).add(&marked.as_ref()?.vector, true)));
        Rewrite {
            actions: removes.chain(adds).collect(),
            touched_files: self.touched.len(),
            deleted_rows: self.removed.len() as u64,
            is_compaction: false,
        }
    }

    /// The commit stands: the state becomes that of its version.
    pub(crate) fn apply(self, state: &mut State, staged: &Staged) {
        for (digest, place) in self.removed {
            state.index.remove(digest, place);
        }
        for (number, marked) in self.touched {
            match marked {
                None => state.files.remove(number),
                Some(Marked { dead, vector }) => {
                    let file = state.files.get_mut(number);
                    (file.dead, file.vector) = (dead, Some(vector));
                }
            }
        }
        for (file, digests) in staged.batch.files.iter().zip(&staged.inserts) {
            let number = state.files.reserve();
            state.files.insert(number, LiveFile::of(file));
            for (row, digest) in (0..).zip(digests) {
                state.index.add(*digest, Place { file: number, row });
            }
        }
    }
}

/// What is there under the keys that events touch. A row that another log wrote last is a key that has changed logs.
fn find_touched(
    state: &State,
    keys: &Keys,
    moved: Moved,
    staged: &Staged,
    touched: &DigestMap<Arc<str>>,
) -> Result<Vec<(Digest, Place)>, DeltaError> {
    let mut chains: HashMap<u32, Chains> = HashMap::new();
    let (mut removed, mut changed) = (Vec::new(), 0_u64);
    for (&digest, to) in touched {
        for place in state.index.places(digest) {
            removed.push((digest, place));
            let chains = chains.entry(place.file).or_insert_with(|| Chains::of(state.files.get(place.file)));
            match chains.at(place.row).filter(|from| *from != to) {
                None => {}
                Some(from) if moved == Moved::Stop => {
                    return Err(moved_key(keys, &staged.insert_names.of(keys, digest), from, to));
                }
                Some(_) => changed += 1,
            }
        }
    }
    if changed > 0 {
        let table = keys.table();
        tracing::warn!(table, keys = changed, "rows are replaced by records of another partition than theirs");
    }
    Ok(removed)
}

fn find(state: &State, keys: &Keys, staged: &Staged) -> Result<Vec<(Digest, Place)>, DeltaError> {
    let mut removed = Vec::with_capacity(staged.deletes.len());
    for (&digest, &copies) in &staged.deletes {
        let before = removed.len();
        let wanted = usize::try_from(copies).expect("as many as rows in memory");
        removed.extend(state.index.places(digest).take(wanted).map(|place| (digest, place)));
        let found = removed.len() - before;
        if found < wanted {
            return Err(keys.refuse(format!(
                "the row {} goes, and the table holds {found} of the {wanted} that should go; another writer changed \
                 this table, or it was not made by this pipeline: let the pipeline write a new table",
                staged.delete_names.of(keys, digest)
            )));
        }
    }
    Ok(removed)
}

/// With a key, a row that comes where one is and stays.
fn refuse_doubles(state: &State, keys: &Keys, staged: &Staged) -> Result<(), DeltaError> {
    if !keys.unique {
        return Ok(());
    }
    let mut inserts = staged.inserts.iter().flatten();
    match inserts.find(|digest| !staged.deletes.contains_key(digest) && state.index.places(**digest).next().is_some()) {
        None => Ok(()),
        Some(digest) => Err(keys.refuse(format!(
            "a second row comes for the key {}, whose row is there and does not go; the key does not name the view's \
             rows, or another writer added one to this table",
            staged.insert_names.of(keys, *digest)
        ))),
    }
}
