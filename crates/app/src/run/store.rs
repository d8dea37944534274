//! Checkpoints' manifests: one file each in the state's folder, put if absent, durable.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use lakeward_protocol::ports::{Checkpoint, CheckpointStore, Exit, Fault, Put, Verdict};
use lakeward_protocol::position::{CheckpointNumber, CommitId, Frontier, Offset, PartitionId};
use serde::{Deserialize, Serialize};

/// A folder of manifests.
pub struct Folder {
    path: PathBuf,
}

/// Why manifests can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("checkpoints in {path}: can't {doing}: {source}")]
pub struct FolderError {
    path: String,
    doing: &'static str,
    source: std::io::Error,
}

impl Fault for FolderError {
    fn verdict(&self) -> Verdict {
        match self.source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::NotADirectory | ErrorKind::ReadOnlyFilesystem => {
                Verdict::Stop(Exit::Config)
            }
            _ => Verdict::Retry,
        }
    }
}

/// What a file holds. Offsets are the next to read, by partition: `source/number`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    number: u64,
    id: String,
    frontier: Vec<(u32, i64)>,
    begun: Vec<(u32, i64)>,
    state: Option<String>,
}

const FORMAT: u32 = 1;
const SUFFIX: &str = ".checkpoint.json";

impl Folder {
    /// The folder is made if it is not there.
    ///
    /// # Errors
    /// When it can't be.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let folder = Self { path: path.to_owned() };
        fs::create_dir_all(path).map_err(|error| folder.failed("make the folder", error))?;
        Ok(folder)
    }

    fn failed(&self, doing: &'static str, source: std::io::Error) -> FolderError {
        FolderError { path: self.path.display().to_string(), doing, source }
    }

    fn file(&self, number: CheckpointNumber) -> PathBuf {
        self.path.join(format!("{:020}{SUFFIX}", number.0))
    }

    fn synced(&self) -> std::io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl CheckpointStore for Folder {
    type Error = FolderError;

    fn list(&mut self) -> Result<Vec<Checkpoint>, FolderError> {
        let entries = fs::read_dir(&self.path).map_err(|error| self.failed("list the folder", error))?;
        let mut checkpoints = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| self.failed("list the folder", error))?.path();
            if !path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(SUFFIX)) {
                continue;
            }
            let text = fs::read_to_string(&path).map_err(|error| self.failed("read a manifest", error))?;
            match serde_json::from_str::<Manifest>(&text).ok().and_then(|manifest| checkpoint(&manifest)) {
                Some(checkpoint) => checkpoints.push(checkpoint),
                None => {
                    tracing::warn!("{} is no manifest that this version can read: it is passed over", path.display())
                }
            }
        }
        checkpoints.sort_by_key(|checkpoint| checkpoint.number);
        Ok(checkpoints)
    }

    fn put(&mut self, checkpoint: &Checkpoint) -> Result<Put, FolderError> {
        let text = serde_json::to_vec_pretty(&manifest(checkpoint)).expect("a manifest is JSON");
        let part = self.path.join(format!("{}.part", checkpoint.id));
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.map_err(|error| self.failed("write a manifest", error))?;
        // A link fails where the name is taken, and is there in full or not at all.
        let linked = fs::hard_link(&part, self.file(checkpoint.number));
        let _ = fs::remove_file(&part);
        match linked {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(Put::Taken),
            Err(error) => return Err(self.failed("put a manifest", error)),
        }
        self.synced().map_err(|error| self.failed("sync the folder", error))?;
        Ok(Put::Done)
    }

    fn remove(&mut self, checkpoints: &[Checkpoint]) -> Result<(), FolderError> {
        for checkpoint in checkpoints {
            match fs::remove_file(self.file(checkpoint.number)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(self.failed("remove a manifest", error));
                }
                _ => {}
            }
        }
        self.synced().map_err(|error| self.failed("sync the folder", error))
    }
}

fn manifest(checkpoint: &Checkpoint) -> Manifest {
    let plain = |frontier: &Frontier| frontier.iter().map(|(partition, offset)| (partition.0, offset.get())).collect();
    Manifest {
        format: FORMAT,
        number: checkpoint.number.0,
        id: format!("{:032x}", checkpoint.id.0),
        frontier: plain(&checkpoint.frontier),
        begun: plain(&checkpoint.begun),
        state: checkpoint
            .state
            .as_ref()
            .map(|state| String::from_utf8(state.clone()).expect("the circuit's manifest is text")),
    }
}

fn checkpoint(manifest: &Manifest) -> Option<Checkpoint> {
    if manifest.format != FORMAT {
        return None;
    }
    let frontier = |plain: &[(u32, i64)]| -> Option<Frontier> {
        plain.iter().map(|(partition, offset)| Some((PartitionId(*partition), Offset::new(*offset).ok()?))).collect()
    };
    Some(Checkpoint {
        number: CheckpointNumber(manifest.number),
        id: CommitId(u128::from_str_radix(&manifest.id, 16).ok()?),
        frontier: frontier(&manifest.frontier)?,
        begun: frontier(&manifest.begun)?,
        state: manifest.state.as_ref().map(|state| state.clone().into_bytes()),
    })
}
