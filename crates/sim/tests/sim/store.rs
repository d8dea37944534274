//! An object store under the chaos. Commits meet every fate of a put; the rest fails or is slow.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use lakeward_protocol::memory::{Fate, Operation};
use lakeward_sim::Chaos;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// Puts that are still on their way.
pub type Late = Arc<Mutex<Vec<(Path, PutPayload)>>>;

/// One process's way to the store.
pub struct Faulty {
    pub inner: Arc<InMemory>,
    pub chaos: Chaos,
    pub late: Late,
}

impl Faulty {
    fn may(&self) -> Result<()> {
        match self.chaos.fate(Operation::Load) {
            Fate::Well => Ok(()),
            _ => Err(outage()),
        }
    }
}

fn outage() -> Error {
    Error::Generic { store: "faulty", source: "no answer".into() }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if options.mode != PutMode::Create || !location.as_ref().ends_with(".json") {
            self.may()?;
            return self.inner.put_opts(location, payload, options).await;
        }
        let exists = || Error::AlreadyExists { path: location.to_string(), source: "409".into() };
        match self.chaos.fate(Operation::Put) {
            Fate::Well => self.inner.put_opts(location, payload, options).await,
            Fate::Fails => Err(outage()),
            Fate::Conflict => Err(exists()),
            Fate::Late => {
                self.late.lock().expect("no panic holds it").push((location.clone(), payload));
                Err(outage())
            }
            Fate::ReplyLost => {
                let _ = self.inner.put_opts(location, payload, options).await;
                Err(outage())
            }
            Fate::SentTwice => {
                let _ = self.inner.put_opts(location, payload, options).await;
                Err(exists())
            }
        }
    }

    async fn put_multipart_opts(&self, to: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.may()?;
        self.inner.put_multipart_opts(to, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.may()?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.may() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => Box::pin(stream::once(async { Err(error) })),
        }
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.may() {
            Ok(()) => self.inner.list_with_offset(prefix, offset),
            Err(error) => Box::pin(stream::once(async { Err(error) })),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.may()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.may()?;
        self.inner.copy_opts(from, to, options).await
    }
}
