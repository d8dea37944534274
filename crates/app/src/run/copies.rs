//! Copies of the circuit's states in a store: the circuit works in a folder of its own, which may get lost at any time.
//!
//! - `files/` holds the engine's files. Each is written once and never changes, and states share them, so that a save
//!   uploads what is new alone. Their names are made up at random: two processes never mean different files by one.
//! - `states/` says of each state, by its checkpoint's id, what files it consists of. That is put last: a state is here
//!   whole or not at all. What got lost or damaged since shows when it is fetched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Component, Path as FilePath};
use std::sync::{Arc, Mutex};

use futures::{StreamExt, TryStreamExt};
use lakeward_circuit::folder::digest;
use lakeward_delta::Place;
use lakeward_protocol::ports::Checkpoint;
use lakeward_protocol::position::CommitId;
use object_store::path::Path;
use object_store::{Error, GetResult, MultipartUpload, ObjectMeta, ObjectStoreExt};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::store::{StoreError, delete, failed};

/// Files on their way at a time.
const TRANSFERS: usize = 4;
/// Bytes that are sent at once, and that a digest is made of: part of the format.
const PART_BYTES: usize = 8 << 20;
/// Files that no checkpoint names may be those of one that is being made, for so long.
const ORPHAN_AGE_SECONDS: i64 = 24 * 60 * 60;
const FORMAT: u32 = 1;

/// A store of states. A clone is the same store.
#[derive(Clone)]
pub struct Copies {
    place: Place,
    runtime: Handle,
    /// Of the files of the last state that was put.
    known: Arc<Mutex<BTreeMap<String, Mark>>>,
}

/// What a state consists of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    format: u32,
    files: BTreeMap<String, Mark>,
}

/// How a file is told from a damaged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    bytes: u64,
    digest: u64,
}

/// How a state was fetched.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Fetched {
    /// All of it is in the folder, as it was saved.
    Done,
    /// A part of it is not in the store any more, or is damaged.
    Missing {
        /// What.
        what: String,
    },
}

impl Copies {
    /// Beside the manifests.
    pub fn new(place: Place, runtime: Handle) -> Self {
        Self { place, runtime, known: Arc::default() }
    }

    fn file(&self, name: &str) -> Path {
        name.split('/').fold(self.place.root.clone().join("files"), |at, part| at.join(part))
    }

    fn state(&self, id: CommitId) -> Path {
        self.place.root.clone().join("states").join(format!("{id}.json"))
    }

    /// Copies a state: those of its files below `folder` that are not there yet, then what it consists of.
    ///
    /// # Errors
    /// It does not count; what was copied is of use to the next one.
    pub fn put(&self, id: CommitId, folder: &FilePath, names: &[String]) -> Result<(), StoreError> {
        self.runtime.block_on(async {
            let there = self.sizes().await?;
            let files = futures::stream::iter(names).map(|name| self.put_file(folder, name, &there));
            let files: BTreeMap<String, Mark> = files.buffer_unordered(TRANSFERS).try_collect().await?;
            let there = self.sizes().await?;
            for (name, mark) in &files {
                let found = there.get(&self.file(name)).copied().unwrap_or_default();
                if found != mark.bytes {
                    return Err(StoreError::Torn { name: name.clone(), found, bytes: mark.bytes });
                }
            }
            self.known.lock().expect("nobody panics while holding this").clone_from(&files);
            let contents = serde_json::to_vec(&Contents { format: FORMAT, files }).expect("contents are JSON");
            let put = self.place.store.put(&self.state(id), contents.into()).await;
            put.map(drop).map_err(failed(&self.place, "put a state's contents"))
        })
    }

    /// Of the files that are there.
    async fn sizes(&self) -> Result<BTreeMap<Path, u64>, StoreError> {
        let listed = self.list("files").await?;
        Ok(listed.into_iter().map(|meta| (meta.location, meta.size)).collect())
    }

    async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let listed = self.place.store.list(Some(&self.place.root.clone().join(folder)));
        listed.try_collect().await.map_err(failed(&self.place, "list the states' files"))
    }

    async fn put_file(
        &self,
        folder: &FilePath,
        name: &str,
        there: &BTreeMap<Path, u64>,
    ) -> Result<(String, Mark), StoreError> {
        let (path, at) = (folder.join(name), self.file(name));
        let known = self.known.lock().expect("nobody panics while holding this").get(name).copied();
        let mark = match known {
            Some(mark) => mark,
            None => mark(&path).map_err(io("read it", &path))?,
        };
        if there.get(&at) == Some(&mark.bytes) {
            return Ok((name.to_owned(), mark));
        }
        let mut parts = Parts::open(&path).map_err(io("read it", &path))?;
        let failed = || failed(&self.place, "put a state's file");
        if mark.bytes <= PART_BYTES as u64 {
            let bytes = parts.next().map_err(io("read it", &path))?;
            self.place.store.put(&at, bytes.into()).await.map_err(failed())?;
        } else {
            let mut upload = self.place.store.put_multipart(&at).await.map_err(failed())?;
            let sent = send(&mut parts, upload.as_mut(), &path).await;
            if sent.is_err() {
                // What the store keeps of it is nobody's; its own rules clear that up, should this fail as well.
                drop(upload.abort().await);
            }
            sent?.map_err(failed())?;
        }
        Ok((name.to_owned(), mark))
    }

    /// Brings a state's files below `folder`, where they are not there as they were. Whoever calls holds the folder.
    ///
    /// # Errors
    /// Some may be there, some not: call it again.
    pub fn fetch(&self, id: CommitId, folder: &FilePath) -> Result<Fetched, StoreError> {
        self.runtime.block_on(async {
            let contents = match self.contents(id).await? {
                Ok(contents) => contents,
                Err(what) => return Ok(Fetched::Missing { what }),
            };
            let files = futures::stream::iter(&contents.files).map(|(name, mark)| self.fetch_file(folder, name, *mark));
            let mut files = files.buffer_unordered(TRANSFERS);
            while let Some(fetched) = files.next().await {
                if let Fetched::Missing { what } = fetched? {
                    return Ok(Fetched::Missing { what });
                }
            }
            Ok(Fetched::Done)
        })
    }

    /// What a state consists of; or what is wrong with that.
    async fn contents(&self, id: CommitId) -> Result<Result<Contents, String>, StoreError> {
        let at = self.state(id);
        let Some(found) = self.get(&at).await? else { return Ok(Err(format!("{at} is not there"))) };
        let text = found.bytes().await.map_err(failed(&self.place, "read a state's contents"))?;
        let read = serde_json::from_slice::<Contents>(&text).ok();
        let is_whole =
            |contents: &Contents| contents.format == FORMAT && contents.files.keys().all(|name| is_below(name));
        Ok(read.filter(is_whole).ok_or_else(|| format!("{at} is damaged")))
    }

    async fn get(&self, at: &Path) -> Result<Option<GetResult>, StoreError> {
        match self.place.store.get(at).await {
            Ok(found) => Ok(Some(found)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(&self.place, "get a state's file")(error)),
        }
    }

    async fn fetch_file(&self, folder: &FilePath, name: &str, wanted: Mark) -> Result<Fetched, StoreError> {
        let path = folder.join(name);
        if path.is_file() && mark(&path).map_err(io("read it", &path))? == wanted {
            return Ok(Fetched::Done);
        }
        let at = self.file(name);
        let Some(found) = self.get(&at).await? else {
            return Ok(Fetched::Missing { what: format!("{at} is not there") });
        };
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).map_err(io("make its folder", &path))?;
        // The engine clears what ends so, should we not get further.
        let partial = folder.join(format!("{name}.mut"));
        let mut file = File::create(&partial).map_err(io("write it", &partial))?;
        let mut bytes = found.into_stream();
        while let Some(some) = bytes.next().await {
            let some = some.map_err(failed(&self.place, "read a state's file"))?;
            file.write_all(&some).map_err(io("write it", &partial))?;
        }
        file.sync_all().map_err(io("write it", &partial))?;
        if mark(&partial).map_err(io("read it", &partial))? != wanted {
            std::fs::remove_file(&partial).map_err(io("remove it", &partial))?;
            return Ok(Fetched::Missing { what: format!("{at} is damaged") });
        }
        std::fs::rename(&partial, &path).map_err(io("write it", &path))?;
        Ok(Fetched::Done)
    }

    /// Removes the states of `old` checkpoints that none of those `left` names, with the files that they alone need;
    /// and what no checkpoint ever named, once nobody can be about to.
    pub(super) async fn remove(&self, old: &[Checkpoint], left: &[Checkpoint]) -> Result<(), StoreError> {
        let (states, files) = (self.list("states").await?, self.list("files").await?);
        let newest = states.iter().chain(&files).map(|meta| meta.last_modified.timestamp()).max().unwrap_or_default();
        let is_old = |meta: &ObjectMeta| newest - meta.last_modified.timestamp() > ORPHAN_AGE_SECONDS;
        let (mut needed, mut kept) = (BTreeSet::new(), BTreeSet::new());
        for id in left.iter().filter(|left| left.state.is_some()).map(|left| left.id) {
            kept.insert(self.state(id));
            needed.extend(self.named(id).await?);
        }
        let mut unneeded = BTreeSet::new();
        let mut states_gone: BTreeSet<Path> = old.iter().map(|old| self.state(old.id)).collect();
        for old in old {
            unneeded.extend(self.named(old.id).await?);
        }
        states_gone.extend(states.into_iter().filter(is_old).map(|meta| meta.location));
        states_gone.retain(|at| !kept.contains(at));
        let files_gone = files.into_iter().filter(|meta| !needed.contains(&meta.location));
        let files_gone = files_gone.filter(|meta| unneeded.contains(&meta.location) || is_old(meta));
        let files_gone = files_gone.map(|meta| meta.location).collect();
        // Files before the list of them: should we end in between, it says what is left to do.
        delete(&self.place, files_gone).await?;
        delete(&self.place, states_gone.into_iter().collect()).await
    }

    /// The files that a state consists of; none of one that can't be restored.
    async fn named(&self, id: CommitId) -> Result<Vec<Path>, StoreError> {
        let contents = self.contents(id).await?;
        Ok(contents.map_or_else(|_| Vec::new(), |contents| contents.files.keys().map(|name| self.file(name)).collect()))
    }
}

#[cfg(test)]
impl Copies {
    /// What is there, below the store's folder.
    pub async fn names(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut all = self.list("states").await?;
        all.extend(self.list("files").await?);
        let names = all.iter().map(|meta| meta.location.prefix_match(&self.place.root).expect("below it"));
        Ok(names.map(|parts| parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/")).collect())
    }
}

/// The file, in parts.
struct Parts(File);

impl Parts {
    fn open(path: &FilePath) -> std::io::Result<Self> {
        File::open(path).map(Self)
    }

    /// Empty at the end.
    fn next(&mut self) -> std::io::Result<Vec<u8>> {
        let mut part = Vec::new();
        (&mut self.0).take(PART_BYTES as u64).read_to_end(&mut part)?;
        Ok(part)
    }
}

async fn send(
    parts: &mut Parts,
    upload: &mut dyn MultipartUpload,
    path: &FilePath,
) -> Result<Result<(), Error>, StoreError> {
    loop {
        let part = parts.next().map_err(io("read it", path))?;
        if part.is_empty() {
            return Ok(upload.complete().await.map(drop));
        }
        if let Err(error) = upload.put_part(part.into()).await {
            return Ok(Err(error));
        }
    }
}

fn mark(path: &FilePath) -> std::io::Result<Mark> {
    let (mut parts, mut bytes, mut digests) = (Parts::open(path)?, 0, Vec::new());
    loop {
        let part = parts.next()?;
        if part.is_empty() {
            return Ok(Mark { bytes, digest: digest(&digests) });
        }
        bytes += part.len() as u64;
        digests.extend_from_slice(&digest(&part).to_le_bytes());
    }
}

/// Whether a name stays within the folder.
fn is_below(name: &str) -> bool {
    FilePath::new(name).components().all(|part| matches!(part, Component::Normal(_))) && !name.is_empty()
}

fn io(doing: &'static str, path: &FilePath) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.display().to_string();
    move |source| StoreError::Io { path, doing, source }
}

#[cfg(test)]
mod tests;
