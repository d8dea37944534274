//! An object store in memory that fails in all the ways that [`Fate`] names.
//!
//! Commits (a log's `.json`, put if absent) meet every fate; whatever else is asked goes well or fails.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use lakeward_protocol::memory::Fate;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// A version of a log is put if absent.
    Commit,
    /// Anything else is written.
    Put,
    /// An object, or what is known of it.
    Get,
    /// Names.
    List,
}

/// Commits that were given up on and are still on their way. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct Late(Arc<Mutex<Vec<(Path, PutPayload)>>>);

impl Late {
    /// The newest of them arrives; false where there is none, or somebody else was first.
    pub async fn land(&self, store: &InMemory) -> bool {
        let newest = self.waiting().pop();
        match newest {
            Some((path, payload)) => store.put_opts(&path, payload, PutMode::Create.into()).await.is_ok(),
            None => false,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(Path, PutPayload)>> {
        self.0.lock().expect("no panic holds it")
    }
}

/// One process's way to a store.
pub struct FaultyStore<F> {
    inner: Arc<InMemory>,
    fate: F,
    late: Late,
    lands_by_itself: bool,
}

impl<F: Fn(Call) -> Fate> FaultyStore<F> {
    /// `fate` says what becomes of each call; of those that are no commit only whether it goes well counts. A late
    /// commit arrives before the next write.
    pub fn new(inner: Arc<InMemory>, fate: F) -> Self {
        Self { inner, fate, late: Late::default(), lands_by_itself: true }
    }

    /// The same, but late commits wait in `late` until the caller lets them [`land`](Late::land).
    pub fn with_late(inner: Arc<InMemory>, fate: F, late: Late) -> Self {
        Self { inner, fate, late, lands_by_itself: false }
    }

    fn may(&self, call: Call) -> Result<()> {
        match (self.fate)(call) {
            Fate::Well => Ok(()),
            _ => Err(outage()),
        }
    }

    async fn commit(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let exists = || Error::AlreadyExists { path: at.to_string(), source: "409".into() };
        match (self.fate)(Call::Commit) {
            Fate::Well => self.inner.put_opts(at, payload, options).await,
            Fate::Fails => Err(outage()),
            Fate::Conflict => Err(exists()),
            Fate::Late => {
                self.late.waiting().push((at.clone(), payload));
                Err(outage())
            }
            Fate::ReplyLost => {
                let _ = self.inner.put_opts(at, payload, options).await;
                Err(outage())
            }
            Fate::SentTwice => {
                let _ = self.inner.put_opts(at, payload, options).await;
                Err(exists())
            }
        }
    }
}

fn outage() -> Error {
    Error::Generic { store: "faulty", source: "no answer".into() }
}

fn refused<T: Send + 'static>(error: Error) -> BoxStream<'static, Result<T>> {
    Box::pin(stream::once(async { Err(error) }))
}

impl<F> fmt::Debug for FaultyStore<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

impl<F> fmt::Display for FaultyStore<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl<F: Fn(Call) -> Fate + Send + Sync + 'static> ObjectStore for FaultyStore<F> {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if self.lands_by_itself {
            self.late.land(&self.inner).await;
        }
        if options.mode == PutMode::Create && at.as_ref().ends_with(".json") {
            return self.commit(at, payload, options).await;
        }
        self.may(Call::Put)?;
        self.inner.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(&self, to: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.may(Call::Put)?;
        self.inner.put_multipart_opts(to, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.may(Call::Get)?;
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.may(Call::List) {
            Ok(()) => self.inner.list(prefix),
            Err(error) => refused(error),
        }
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.may(Call::List) {
            Ok(()) => self.inner.list_with_offset(prefix, offset),
            Err(error) => refused(error),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.may(Call::List)?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.may(Call::Put)?;
        self.inner.copy_opts(from, to, options).await
    }
}
