//! The folder that a circuit keeps its state in: whose it is, who holds it, and which states in it are whole.
//!
//! - Held by one circuit at a time, by a lock that ends with the process.
//! - Marked as ours before anything is written; a folder with other things in it is refused.
//! - A state counts once its seal lies beside it. The seal names every file, and is written last.
//! - What the engine is told of the states is made of the seals, so one damaged state harms no other.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use feldera_types::checkpoint::{CheckpointDependencies, CheckpointMetadata};
use feldera_types::constants::{CHECKPOINT_DEPENDENCIES, CHECKPOINT_FILE_NAME};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::builder::Kind;

/// Marks the folder as ours, and is what the lock is on.
const MARKER: &str = "lakeward-circuit";
/// What the marker says.
const MARK: &str = "Lakeward keeps a circuit's state here, in format 1. Do not change anything in this folder.\n";
/// The engine's own folder in it.
const ENGINE: &str = "engine";
/// A state's seal, among its files.
const SEAL: &str = "seal.json";

/// Why a folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another circuit holds it.
    #[error("{folder} is in use by another process; end that one, or give this pipeline a folder of its own")]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// It is somebody else's.
    #[error("{folder} holds {found}, which is not Lakeward's; name a folder that is empty or does not exist yet")]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// What is in it.
        found: String,
    },
    /// It can't be read or written.
    #[error("failed to {doing} {path}: {source}")]
    Io {
        /// A verb.
        doing: &'static str,
        /// Of what.
        path: PathBuf,
        /// In the system's words.
        source: io::Error,
    },
}

impl FolderError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

/// All that a state needs, and how it is told from one that something was lost of.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seal {
    /// What the engine's list of states says of it.
    pub(crate) state: CheckpointMetadata,
    /// Of what type its traces are.
    pub(crate) pieces: BTreeMap<String, Kind>,
    /// Its own files and those that it shares with other states, from the engine's folder.
    pub(crate) files: BTreeMap<String, Sealed>,
}

/// A file as it was when the state was sealed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    bytes: u64,
    /// Of small files. The rows' files carry checksums of their own.
    digest: Option<u64>,
}

/// Whether a state can be started from.
#[must_use]
#[derive(Debug)]
pub(crate) enum Whole {
    /// All of it is there; and the digest of its seal.
    Yes(Box<Seal>, u64),
    /// What is not.
    No(String),
}

/// A folder that nobody else uses until this is dropped.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    _lock: File,
}

/// Tells bytes apart. Part of the format.
pub fn digest(bytes: &[u8]) -> u64 {
    dbsp::default_hash(bytes)
}

impl Folder {
    /// Takes the folder, making it if need be.
    ///
    /// # Errors
    /// When somebody else holds it, it is not ours, or can't be read or written.
    pub fn open(root: &Path) -> Result<Self, FolderError> {
        fs::create_dir_all(root).map_err(FolderError::io("create", root))?;
        let marker = root.join(MARKER);
        let is_marked = marker.try_exists().map_err(FolderError::io("look for", &marker))?;
        let foreign = |found: String| FolderError::Foreign { folder: root.to_owned(), found };
        if !is_marked && let Some(found) = names(root)?.into_iter().next() {
            return Err(foreign(found));
        }
        let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&marker);
        let lock = lock.map_err(FolderError::io("open", &marker))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::InUse { folder: root.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(FolderError::io("lock", &marker)(error)),
        }
        let mut mark = String::new();
        (&lock).read_to_string(&mut mark).map_err(FolderError::io("read", &marker))?;
        let engine = root.join(ENGINE);
        if mark.is_empty() && !engine.exists() {
            (&lock).write_all(MARK.as_bytes()).map_err(FolderError::io("write", &marker))?;
            lock.sync_all().map_err(FolderError::io("write", &marker))?;
        } else if mark != MARK {
            return Err(foreign(format!("a file {MARKER} that says {mark:?}")));
        }
        fs::create_dir_all(&engine).map_err(FolderError::io("create", &engine))?;
        sync(root)?;
        Ok(Self { root: root.to_owned(), _lock: lock })
    }

    /// Where the engine keeps its files.
    pub(crate) fn engine(&self) -> PathBuf {
        self.root.join(ENGINE)
    }

    /// Whether all of a state is there, as it was.
    pub(crate) fn state(&self, id: Uuid) -> Result<Whole, FolderError> {
        let path = self.engine().join(id.to_string()).join(SEAL);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if is_absent(&error) => return Ok(Whole::No(format!("{} is not there", path.display()))),
            Err(error) => return Err(FolderError::io("read", &path)(error)),
        };
        let Ok(seal) = serde_json::from_slice::<Seal>(&bytes) else {
            return Ok(Whole::No(format!("{} is damaged", path.display())));
        };
        for (name, sealed) in &seal.files {
            let path = self.engine().join(name);
            match look(&path, sealed.digest.is_some())? {
                None => return Ok(Whole::No(format!("{} is not there", path.display()))),
                Some(found) if found != *sealed => return Ok(Whole::No(format!("{} is damaged", path.display()))),
                Some(_) => {}
            }
        }
        Ok(Whole::Yes(Box::new(seal), digest(&bytes)))
    }

    /// Makes a state count: all its files are durable. Returns the seal's digest.
    pub(crate) fn seal(&self, state: CheckpointMetadata, pieces: BTreeMap<String, Kind>) -> Result<u64, FolderError> {
        let own = state.uuid.to_string();
        let folder = self.engine().join(&own);
        let mut files = BTreeMap::new();
        for name in names(&folder)?.into_iter().filter(|name| name != SEAL) {
            let sealed = self.sealed(&folder.join(&name), true)?;
            files.insert(format!("{own}/{name}"), sealed);
        }
        let path = folder.join(CHECKPOINT_DEPENDENCIES);
        let shared = fs::read(&path).map_err(FolderError::io("read", &path))?;
        let shared: CheckpointDependencies =
            serde_json::from_slice(&shared).map_err(|error| FolderError::io("read", &path)(error.into()))?;
        for name in shared.batches() {
            let sealed = self.sealed(&self.engine().join(name), false)?;
            files.insert(name.clone(), sealed);
        }
        let bytes = serde_json::to_vec(&Seal { state, pieces, files }).expect("a seal is JSON");
        let path = folder.join(SEAL);
        write(&path, &bytes)?;
        sync(&self.engine())?;
        Ok(digest(&bytes))
    }

    fn sealed(&self, path: &Path, is_small: bool) -> Result<Sealed, FolderError> {
        look(path, is_small)?.ok_or_else(|| FolderError::io("seal", path)(ErrorKind::NotFound.into()))
    }

    /// The files of a state by their names below `root`, each with a slash between folders.
    pub(crate) fn files(root: &Path, state: Uuid) -> Result<Vec<String>, FolderError> {
        let seal = format!("{ENGINE}/{state}/{SEAL}");
        let path = root.join(&seal);
        let bytes = fs::read(&path).map_err(FolderError::io("read", &path))?;
        let read: Seal =
            serde_json::from_slice(&bytes).map_err(|error| FolderError::io("read", &path)(error.into()))?;
        Ok(read.files.into_keys().map(|name| format!("{ENGINE}/{name}")).chain([seal]).collect())
    }

    /// Drops states that are not whole, and tells the engine of those that are. Before the engine starts.
    pub(crate) fn tidy(&self) -> Result<(), FolderError> {
        let mut states = Vec::new();
        for id in self.states()? {
            match self.state(id)? {
                Whole::Yes(seal, _) => states.push(seal.state),
                Whole::No(_) => self.drop_state(id)?,
            }
        }
        states.sort_by_key(|state| state.uuid);
        let path = self.engine().join(CHECKPOINT_FILE_NAME);
        write(&path, &serde_json::to_vec(&states).expect("a list of states is JSON"))
    }

    /// Removes what a save left that was not finished. While no save is under way.
    pub(crate) fn drop_unsealed(&self) -> Result<(), FolderError> {
        for id in self.states()? {
            let seal = self.engine().join(id.to_string()).join(SEAL);
            if !seal.try_exists().map_err(FolderError::io("look for", &seal))? {
                self.drop_state(id)?;
            }
        }
        Ok(())
    }

    fn drop_state(&self, id: Uuid) -> Result<(), FolderError> {
        let path = self.engine().join(id.to_string());
        fs::remove_dir_all(&path).map_err(FolderError::io("remove", &path))
    }

    fn states(&self) -> Result<Vec<Uuid>, FolderError> {
        Ok(names(&self.engine())?.iter().filter_map(|name| Uuid::parse_str(name).ok()).collect())
    }
}

/// Names in a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>, FolderError> {
    let entries = fs::read_dir(folder).map_err(FolderError::io("list", folder))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_, _>>().map_err(FolderError::io("list", folder))?;
    names.sort();
    Ok(names)
}

/// The file as it is now; none if it is not there.
fn look(path: &Path, is_small: bool) -> Result<Option<Sealed>, FolderError> {
    let found = if is_small {
        fs::read(path).map(|bytes| Sealed { bytes: bytes.len() as u64, digest: Some(digest(&bytes)) })
    } else {
        fs::metadata(path).map(|metadata| Sealed { bytes: metadata.len(), digest: None })
    };
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(FolderError::io("read", path)(error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory)
}

/// Writes a file whole or not at all, durably.
fn write(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let partial = path.with_extension("partial");
    let mut file = File::create(&partial).map_err(FolderError::io("create", &partial))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(FolderError::io("write", &partial))?;
    fs::rename(&partial, path).map_err(FolderError::io("write", path))?;
    sync(path.parent().expect("a file in a folder"))
}

/// Makes the names in a folder durable.
fn sync(folder: &Path) -> Result<(), FolderError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(FolderError::io("write", folder))
}
