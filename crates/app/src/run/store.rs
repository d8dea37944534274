//! Where a pipeline's checkpoints lie: a manifest each, put if absent, on a disk or in an object store.

use futures::StreamExt;
use lakeward_delta::{DeltaError, Place};
use lakeward_protocol::ports::{Checkpoint, CheckpointStore, Exit, Fault, Put, Verdict};
use lakeward_protocol::position::CheckpointNumber;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt, PutMode};
use tokio::runtime::Handle;

use super::copies::Copies;
use super::manifest::{self, Stranger};

/// The checkpoints of a pipeline.
pub struct Checkpoints {
    place: Place,
    /// Of the pipeline, in its order.
    sources: Vec<String>,
    runtime: Handle,
    /// The states that the manifests name, where they are copied here. Else they lie in the circuit's own folder, which
    /// knows what it needs.
    copies: Option<Copies>,
}

/// Why checkpoints can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store.
    #[error("checkpoints: {0}")]
    Store(#[from] DeltaError),
    /// The circuit's folder.
    #[error("the state in {path}: can't {doing}: {source}")]
    Io { path: String, doing: &'static str, source: std::io::Error },
    /// What was put is not there as it was put.
    #[error("{name} was put, but the store has {found} bytes of it instead of {bytes}")]
    Torn { name: String, found: u64, bytes: u64 },
    /// A manifest of other sources.
    #[error(
        "checkpoint {file} is of the source {stranger}, and this pipeline's sources are {sources}: give the source its \
         old name again, or begin anew with another SET state, another SET app_id and tables that are not there yet"
    )]
    Stranger { file: String, stranger: String, sources: String },
}

impl Fault for StoreError {
    fn verdict(&self) -> Verdict {
        use std::io::ErrorKind;
        match self {
            Self::Store(error) => error.verdict(),
            Self::Io { source, .. } => match source.kind() {
                ErrorKind::PermissionDenied | ErrorKind::NotADirectory | ErrorKind::ReadOnlyFilesystem => {
                    Verdict::Stop(Exit::Config)
                }
                _ => Verdict::Retry,
            },
            Self::Torn { .. } => Verdict::Retry,
            Self::Stranger { .. } => Verdict::Stop(Exit::Config),
        }
    }
}

/// The store's error while `doing` something in `place`.
pub(super) fn failed(place: &Place, doing: &str) -> impl FnOnce(Error) -> StoreError {
    let doing = format!("{doing} in {}", place.name);
    move |error| DeltaError::store(doing, error).into()
}

const SUFFIX: &str = ".checkpoint.json";

/// The manifests, oldest first; and whether there are some that this version can't read.
type Listed = (Vec<Checkpoint>, bool);

impl Checkpoints {
    /// Of a pipeline of these sources, in its order; the states are copied, or not.
    pub fn new(place: Place, sources: Vec<String>, runtime: Handle, copies: Option<Copies>) -> Self {
        Self { place, sources, runtime, copies }
    }

    fn file(&self, number: CheckpointNumber) -> Path {
        self.place.root.clone().join(format!("{:020}{SUFFIX}", number.0))
    }

    async fn read(&self) -> Result<Listed, StoreError> {
        let store = &self.place.store;
        let listed = store.list_with_delimiter(Some(&self.place.root)).await;
        let listed = listed.map_err(failed(&self.place, "list the checkpoints"))?;
        let (mut checkpoints, mut strange) = (Vec::new(), false);
        let manifests = listed.objects.into_iter().map(|meta| meta.location);
        for at in manifests.filter(|at| at.filename().is_some_and(|name| name.ends_with(SUFFIX))) {
            let text = match store.get(&at).await {
                Ok(found) => found.bytes().await,
                Err(error) => Err(error),
            };
            let text = match text {
                Ok(text) => text,
                // Removed by who runs beside us, since it was listed.
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(failed(&self.place, "read a manifest")(error)),
            };
            let read = manifest::decode(&text, &self.sources).map_err(|Stranger(stranger)| StoreError::Stranger {
                file: at.to_string(),
                stranger,
                sources: self.sources.join(", "),
            })?;
            match read {
                Some(checkpoint) => checkpoints.push(checkpoint),
                None => {
                    strange = true;
                    tracing::warn!("{at} is no manifest that this version can read: it is passed over");
                }
            }
        }
        checkpoints.sort_by_key(|checkpoint| checkpoint.number);
        Ok((checkpoints, strange))
    }

    async fn take_away(&self, old: &[Checkpoint]) -> Result<(), StoreError> {
        delete(&self.place, old.iter().map(|checkpoint| self.file(checkpoint.number)).collect()).await?;
        let Some(copies) = &self.copies else { return Ok(()) };
        // What no manifest names any more; after them, so that none ever names what is gone.
        match self.read().await? {
            (left, false) => copies.remove(old, &left).await,
            // Nobody knows what these name.
            (_, true) => Ok(()),
        }
    }
}

/// Removes objects; those that are gone already are no fault.
pub(super) async fn delete(place: &Place, old: Vec<Path>) -> Result<(), StoreError> {
    let mut gone = place.store.delete_stream(futures::stream::iter(old).map(Ok).boxed());
    while let Some(one) = gone.next().await {
        match one {
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(failed(place, "remove what is old")(error)),
        }
    }
    Ok(())
}

impl CheckpointStore for Checkpoints {
    type Error = StoreError;

    fn list(&mut self) -> Result<Vec<Checkpoint>, StoreError> {
        Ok(self.runtime.block_on(self.read())?.0)
    }

    fn put(&mut self, checkpoint: &Checkpoint) -> Result<Put, StoreError> {
        let (at, text) = (self.file(checkpoint.number), manifest::encode(checkpoint, &self.sources));
        let put = self.place.store.put_opts(&at, text.into(), PutMode::Create.into());
        match self.runtime.block_on(put) {
            Ok(_) => Ok(Put::Done),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Put::Taken),
            Err(error) => Err(failed(&self.place, "put a manifest")(error)),
        }
    }

    fn remove(&mut self, checkpoints: &[Checkpoint]) -> Result<(), StoreError> {
        self.runtime.block_on(self.take_away(checkpoints))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lakeward_protocol::contract::{CheckpointHarness, checkpoints};
    use lakeward_protocol::position::CommitId;
    use object_store::ObjectStore;
    use object_store::memory::InMemory;
    use tempfile::TempDir;
    use tokio::runtime::Runtime;

    use super::*;

    /// Manifests in some store, with states copied beside them or not.
    struct Stores {
        runtime: Runtime,
        make: fn() -> (Place, Option<TempDir>),
        is_copied: bool,
        place: Place,
        _folder: Option<TempDir>,
        local: TempDir,
    }

    fn on_disk() -> (Place, Option<TempDir>) {
        let folder = tempfile::tempdir().unwrap();
        (Place::resolve(&folder.path().display().to_string()).unwrap(), Some(folder))
    }

    fn in_memory() -> (Place, Option<TempDir>) {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        (Place::on_store(store, Path::from("pre/fix")).unwrap(), None)
    }

    impl Stores {
        fn new(make: fn() -> (Place, Option<TempDir>), is_copied: bool) -> Self {
            let (place, folder) = make();
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            Self { runtime, make, is_copied, place, _folder: folder, local: tempfile::tempdir().unwrap() }
        }

        fn copies(&self) -> Option<Copies> {
            self.is_copied.then(|| Copies::new(self.place.clone(), self.runtime.handle().clone()))
        }
    }

    impl CheckpointHarness for Stores {
        type Store = Checkpoints;

        fn fresh(&mut self) {
            *self = Self::new(self.make, self.is_copied);
        }

        fn open(&mut self) -> Checkpoints {
            let sources = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
            Checkpoints::new(self.place.clone(), sources, self.runtime.handle().clone(), self.copies())
        }

        fn save_state(&mut self, id: CommitId) {
            let own = format!("{id}.feldera");
            for name in [&own, "shared.feldera"] {
                std::fs::write(self.local.path().join(name), name).unwrap();
            }
            if let Some(copies) = self.copies() {
                copies.put(id, self.local.path(), &[own, "shared.feldera".to_owned()]).unwrap();
            }
        }

        fn has_state(&mut self, id: CommitId) -> bool {
            let Some(copies) = self.copies() else { return self.local.path().join(format!("{id}.feldera")).exists() };
            let names = self.runtime.block_on(copies.names()).unwrap();
            let own = names.contains(&format!("files/{id}.feldera"));
            assert_eq!(own, names.contains(&format!("states/{id}.json")), "{names:?}");
            assert!(names.contains("files/shared.feldera"), "a file that others need stays");
            own
        }

        fn half_put(&mut self, number: CheckpointNumber) -> bool {
            let at = self.open().file(number);
            self.runtime.block_on(self.place.store.put(&at, "{\"format\": 2, \"numb".into())).unwrap();
            true
        }
    }

    #[test]
    fn an_object_store_keeps_the_contract() {
        checkpoints(&mut Stores::new(in_memory, true));
    }

    #[test]
    fn a_folder_with_copies_keeps_the_contract() {
        checkpoints(&mut Stores::new(on_disk, true));
    }

    /// The states are the circuit's own matter: it removes them.
    #[test]
    fn a_folder_keeps_the_contract() {
        use lakeward_protocol::contract::checkpoints as contract;
        let stores = &mut Stores::new(on_disk, false);
        contract::a_number_is_put_once(stores);
        contract::what_is_put_is_listed_as_it_is(stores);
        contract::numbers_are_listed_in_order(stores);
        contract::a_half_written_manifest_is_none(stores);
        stores.fresh();
        let mut store = stores.open();
        let checkpoint = Checkpoint {
            number: CheckpointNumber(1),
            id: CommitId(1),
            frontier: Default::default(),
            begun: Default::default(),
            state: None,
        };
        assert_eq!(store.put(&checkpoint).unwrap(), Put::Done);
        for _ in 0..2 {
            store.remove(std::slice::from_ref(&checkpoint)).unwrap();
            assert_eq!(store.list().unwrap(), []);
        }
    }

    #[test]
    fn a_manifest_of_another_source_is_refused() {
        let mut stores = Stores::new(in_memory, false);
        let mut store = stores.open();
        let frontier =
            [(lakeward_protocol::position::PartitionId(0), lakeward_protocol::position::Offset::ZERO)].into();
        let (number, id) = (CheckpointNumber(0), CommitId(0));
        let checkpoint = Checkpoint { number, id, frontier, begun: Default::default(), state: None };
        assert_eq!(store.put(&checkpoint).unwrap(), Put::Done);
        store.sources[0] = "other".to_owned();
        let error = store.list().unwrap_err();
        assert!(error.to_string().contains("of the source a,"), "{error}");
        assert_eq!(error.verdict(), Verdict::Stop(Exit::Config));
    }
}
