//! Checkpoints' manifests: one file each in the state's folder, put if absent, durable.
//!
//! Partitions are named by their source, so that a source may move in the pipeline's file. Durable:
//! another text takes another `format`, and the golden of this one stays.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use lakeward_protocol::ports::{Checkpoint, CheckpointStore, Exit, Fault, Put, Verdict};
use lakeward_protocol::position::{CheckpointNumber, CommitId, Frontier, Offset, PartitionId, SourceId};
use serde::{Deserialize, Serialize};

/// Removes the state that a manifest named. Again and again, if need be.
pub type Discard = Box<dyn FnMut(&Checkpoint) -> std::io::Result<()>>;

/// A folder of manifests.
pub struct Folder {
    path: PathBuf,
    /// Of the pipeline, in its order.
    sources: Vec<String>,
    discard: Discard,
}

/// Why manifests can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The disk.
    #[error("checkpoints in {path}: can't {doing}: {source}")]
    Io { path: String, doing: &'static str, source: std::io::Error },
    /// A manifest of other sources.
    #[error(
        "checkpoint {file} is of the source {stranger}, and this pipeline's sources are {sources}: give the source its \
         old name again, or begin anew with another SET state, another SET app_id and tables that are not there yet"
    )]
    Stranger { file: String, stranger: String, sources: String },
}

impl Fault for FolderError {
    fn verdict(&self) -> Verdict {
        let Self::Io { source, .. } = self else { return Verdict::Stop(Exit::Config) };
        match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::NotADirectory | ErrorKind::ReadOnlyFilesystem => {
                Verdict::Stop(Exit::Config)
            }
            _ => Verdict::Retry,
        }
    }
}

/// Next offsets to read, by source and partition.
type Named = BTreeMap<String, BTreeMap<u32, i64>>;

/// What a file holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    number: u64,
    id: String,
    frontier: Named,
    begun: Named,
    state: Option<State>,
}

/// The circuit's own words, as they are or as hexadecimal digits.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Text(String),
    Hex(String),
}

const FORMAT: u32 = 2;
const SUFFIX: &str = ".checkpoint.json";

impl Folder {
    /// For a pipeline of these sources, in its order. The folder is made if it is not there.
    ///
    /// # Errors
    /// When it can't be.
    pub fn open(path: &Path, sources: Vec<String>, discard: Discard) -> Result<Self, FolderError> {
        let folder = Self { path: path.to_owned(), sources, discard };
        fs::create_dir_all(path).map_err(|error| folder.failed("make the folder", error))?;
        Ok(folder)
    }

    fn failed(&self, doing: &'static str, source: std::io::Error) -> FolderError {
        FolderError::Io { path: self.path.display().to_string(), doing, source }
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
            let text = match fs::read(&path) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                // Removed by who runs beside us, since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(self.failed("read a manifest", error)),
            };
            let manifest = serde_json::from_str::<Manifest>(&text).ok().filter(|manifest| manifest.format == FORMAT);
            let read = match &manifest {
                Some(manifest) => self.checkpoint(manifest, &path)?,
                None => None,
            };
            match read {
                Some(checkpoint) => checkpoints.push(checkpoint),
                None => {
                    tracing::warn!("{} is no manifest that this version can read: it is passed over", path.display());
                }
            }
        }
        checkpoints.sort_by_key(|checkpoint| checkpoint.number);
        Ok(checkpoints)
    }

    fn put(&mut self, checkpoint: &Checkpoint) -> Result<Put, FolderError> {
        let text = serde_json::to_vec_pretty(&self.manifest(checkpoint)).expect("a manifest is JSON");
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
        self.synced().map_err(|error| self.failed("sync the folder", error))?;
        // What no manifest names any more; after them, so that none ever names what is gone.
        let left = self.list()?;
        for checkpoint in checkpoints.iter().filter(|gone| left.iter().all(|left| left.id != gone.id)) {
            (self.discard)(checkpoint).map_err(|error| self.failed("remove a state", error))?;
        }
        Ok(())
    }
}

impl Folder {
    fn manifest(&self, checkpoint: &Checkpoint) -> Manifest {
        let named = |frontier: &Frontier| {
            let mut named = Named::new();
            for (partition, offset) in frontier {
                let source = &self.sources[usize::from(partition.source().0)];
                named.entry(source.clone()).or_default().insert(partition.number(), offset.get());
            }
            named
        };
        Manifest {
            format: FORMAT,
            number: checkpoint.number.0,
            id: checkpoint.id.to_string(),
            frontier: named(&checkpoint.frontier),
            begun: named(&checkpoint.begun),
            state: checkpoint.state.as_deref().map(State::of),
        }
    }

    /// `None` for what is none.
    fn checkpoint(&self, manifest: &Manifest, file: &Path) -> Result<Option<Checkpoint>, FolderError> {
        let (Some(frontier), Some(begun)) =
            (self.frontier(&manifest.frontier, file)?, self.frontier(&manifest.begun, file)?)
        else {
            return Ok(None);
        };
        let Ok(id) = u128::from_str_radix(&manifest.id, 16) else { return Ok(None) };
        let state = manifest.state.as_ref().map(State::bytes);
        if state.as_ref().is_some_and(Option::is_none) {
            return Ok(None);
        }
        let number = CheckpointNumber(manifest.number);
        Ok(Some(Checkpoint { number, id: CommitId(id), frontier, begun, state: state.flatten() }))
    }

    fn frontier(&self, named: &Named, file: &Path) -> Result<Option<Frontier>, FolderError> {
        let mut frontier = Frontier::new();
        for (source, offsets) in named {
            let Some(at) = self.sources.iter().position(|name| name == source) else {
                let (file, sources) = (file.display().to_string(), self.sources.join(", "));
                return Err(FolderError::Stranger { file, stranger: source.clone(), sources });
            };
            let id = SourceId(u8::try_from(at).expect("up to 255 sources"));
            for (&number, &offset) in offsets {
                let Ok(offset) = Offset::new(offset) else { return Ok(None) };
                frontier.insert(PartitionId::of(id, number), offset);
            }
        }
        Ok(Some(frontier))
    }
}

impl State {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Hex(digits) if digits.is_ascii() => digits
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                .collect(),
            Self::Hex(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use lakeward_protocol::contract::{CheckpointHarness, checkpoints};
    use tempfile::TempDir;

    use super::*;

    fn names(sources: &[&str]) -> Vec<String> {
        sources.iter().map(|name| (*name).to_owned()).collect()
    }

    fn open(path: &Path, sources: &[&str]) -> Folder {
        let states = path.join("states");
        let discard = move |gone: &Checkpoint| match fs::remove_file(states.join(gone.id.to_string())) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        Folder::open(path, names(sources), Box::new(discard)).unwrap()
    }

    struct OnDisk(TempDir);

    impl CheckpointHarness for OnDisk {
        type Store = Folder;

        fn fresh(&mut self) {
            self.0 = tempfile::tempdir().unwrap();
        }

        fn open(&mut self) -> Folder {
            open(self.0.path(), &["a", "b", "c", "d"])
        }

        fn save_state(&mut self, id: CommitId) {
            fs::create_dir_all(self.0.path().join("states")).unwrap();
            fs::write(self.0.path().join("states").join(id.to_string()), "state").unwrap();
        }

        fn has_state(&mut self, id: CommitId) -> bool {
            self.0.path().join("states").join(id.to_string()).exists()
        }

        fn half_put(&mut self, number: CheckpointNumber) -> bool {
            fs::write(self.0.path().join(format!("{:032x}.part", 99)), "{").unwrap();
            fs::write(self.open().file(number), b"{\"format\": 2, \xff").unwrap();
            true
        }
    }

    #[test]
    fn a_folder_keeps_the_contract() {
        checkpoints(&mut OnDisk(tempfile::tempdir().unwrap()));
    }

    fn of(source: u8, number: u32) -> PartitionId {
        PartitionId::of(SourceId(source), number)
    }

    fn at(raw: i64) -> Offset {
        Offset::new(raw).unwrap()
    }

    fn sample() -> Checkpoint {
        Checkpoint {
            number: CheckpointNumber(3),
            id: CommitId(0xab),
            frontier: Frontier::from([(of(0, 0), at(7)), (of(0, 11), at(0)), (of(1, 0), at(5))]),
            begun: Frontier::from([(of(1, 0), at(2))]),
            state: Some(b"plan \"x\"".to_vec()),
        }
    }

    const GOLDEN: &str = r#"{
  "format": 2,
  "number": 3,
  "id": "000000000000000000000000000000ab",
  "frontier": {
    "auction": {
      "0": 5
    },
    "bid": {
      "0": 7,
      "11": 0
    }
  },
  "begun": {
    "auction": {
      "0": 2
    }
  },
  "state": {
    "text": "plan \"x\""
  }
}"#;

    #[test] // durable: what is written stays readable
    fn a_manifests_text() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(open(folder.path(), &["bid", "auction"]).put(&sample()).unwrap(), Put::Done);
        let text = fs::read_to_string(folder.path().join("00000000000000000003.checkpoint.json")).unwrap();
        assert_eq!(text, GOLDEN);
    }

    #[test]
    fn a_source_may_move_in_the_file_but_not_change_its_name() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(open(folder.path(), &["bid", "auction"]).put(&sample()).unwrap(), Put::Done);
        let moved = open(folder.path(), &["new", "auction", "bid"]).list().unwrap();
        let frontier = Frontier::from([(of(2, 0), at(7)), (of(2, 11), at(0)), (of(1, 0), at(5))]);
        assert_eq!(moved, [Checkpoint { frontier, ..sample() }]);
        let error = open(folder.path(), &["bids", "auction"]).list().unwrap_err();
        assert!(error.to_string().contains("of the source bid,"), "{error}");
        assert_eq!(error.verdict(), Verdict::Stop(Exit::Config));
    }

    #[test]
    fn what_is_no_manifest_is_passed_over() {
        #[rustfmt::skip] // columns: what is wrong, the text
        let cases = [
            ("nothing in it",       String::new()),
            ("torn",                GOLDEN[..GOLDEN.len() / 2].to_owned()),
            ("another format",      GOLDEN.replace("\"format\": 2", "\"format\": 1")),
            ("a field more",        GOLDEN.replace("\"number\"", "\"more\": 1, \"number\"")),
            ("a negative offset",   GOLDEN.replace("\"0\": 7", "\"0\": -7")),
            ("no id",               GOLDEN.replace("0ab", "xyz")),
            ("no state's bytes",    GOLDEN.replace("\"text\": \"plan", "\"hex\": \"plan")),
        ];
        for (name, text) in cases {
            let folder = tempfile::tempdir().unwrap();
            let mut store = open(folder.path(), &["bid", "auction"]);
            assert_ne!(text, GOLDEN, "{name}");
            fs::write(store.file(CheckpointNumber(3)), text).unwrap();
            assert_eq!(store.list().unwrap(), [], "{name}");
            fs::write(store.file(CheckpointNumber(3)), GOLDEN).unwrap();
            assert_eq!(store.list().unwrap(), [sample()], "{name}");
        }
    }
}
