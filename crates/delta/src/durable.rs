//! Local disk as an object store that keeps its word through a power cut.
//!
//! `object_store`'s own local store links files into place without syncing them. Here every put
//! syncs the file, then names it, then syncs the folder, so that what was acknowledged is there
//! after a crash, and what has its final name is whole. Reads are passed on.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// See the module's header.
#[derive(Debug)]
pub(crate) struct DurableDisk {
    inner: LocalFileSystem,
}

impl DurableDisk {
    /// The whole local file system, by absolute paths.
    pub(crate) fn new() -> Self {
        Self { inner: LocalFileSystem::new() }
    }
}

impl fmt::Display for DurableDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local disk")
    }
}

#[async_trait]
impl ObjectStore for DurableDisk {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let create = match options.mode {
            PutMode::Create => true,
            PutMode::Overwrite => false,
            PutMode::Update(_) => {
                return Err(Error::NotImplemented {
                    operation: "conditional overwrite".to_owned(),
                    implementer: self.to_string(),
                });
            }
        };
        let path = self.inner.path_to_filesystem(location)?;
        blocking(move || put(&path, &payload, create).map_err(|error| translate(&path, error))).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(&self, location: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let path = self.inner.path_to_filesystem(location)?;
        let staged = blocking({
            let path = path.clone();
            move || Staged::new(&path).map_err(|error| translate(&path, error))
        })
        .await?;
        Ok(Box::new(Upload { path, state: Some(Arc::new(staged)), offset: 0 }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Runs file work where it may block, or right here where there is no runtime.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await?,
        Err(_) => work(),
    }
}

fn translate(path: &FilePath, error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::AlreadyExists => Error::AlreadyExists { path: path.display().to_string(), source: error.into() },
        ErrorKind::NotFound => Error::NotFound { path: path.display().to_string(), source: error.into() },
        _ => Error::Generic { store: "local disk", source: Box::new(AtPath { path: path.to_owned(), error }) },
    }
}

/// An I/O error with the file that it is about.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
struct AtPath {
    path: PathBuf,
    #[source]
    error: io::Error,
}

fn put(path: &FilePath, payload: &PutPayload, create: bool) -> io::Result<()> {
    let staged = Staged::new(path)?;
    payload.iter().try_for_each(|piece| (&staged.file).write_all(piece))?;
    staged.publish(path, create)
}

/// A file without its final name; removed when dropped before it is published.
#[derive(Debug)]
struct Staged {
    file: File,
    path: PathBuf,
}

/// Distinguishes staged files of one process.
static STAGED: AtomicU64 = AtomicU64::new(0);

impl Staged {
    /// Opens one beside `target`, making folders as needed. The name ends as those do that
    /// `object_store` never lists.
    fn new(target: &FilePath) -> io::Result<Self> {
        let folder = target.parent().unwrap_or(FilePath::new("/"));
        loop {
            let number = STAGED.fetch_add(1, Ordering::Relaxed);
            let mut name = target.file_name().unwrap_or_default().to_owned();
            name.push(format!("#{}{number:06}", std::process::id()));
            let path = folder.join(name);
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == ErrorKind::NotFound => make_folder(folder)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes the content durable, then gives it its name, then makes the name durable.
    ///
    /// An error after the name was given leaves the file there: the outcome is unknown.
    fn publish(&self, target: &FilePath, create: bool) -> io::Result<()> {
        self.file.sync_all()?;
        if create {
            std::fs::hard_link(&self.path, target).map_err(no_links)?;
        } else {
            std::fs::rename(&self.path, target)?;
        }
        sync_folder(target.parent().unwrap_or(FilePath::new("/")))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn no_links(error: io::Error) -> io::Error {
    if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) {
        return io::Error::new(
            error.kind(),
            format!("{error} (this file system has no hard links, which commits need to be atomic)"),
        );
    }
    error
}

/// Makes `folder` and those above it, each durable in the one above it.
fn make_folder(folder: &FilePath) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let Some(parent) = folder.parent() else { return Ok(()) };
    make_folder(parent)?;
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(parent),
    }
}

fn sync_folder(folder: &FilePath) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A file that comes in parts.
#[derive(Debug)]
struct Upload {
    path: PathBuf,
    /// `None` once completed or aborted.
    state: Option<Arc<Staged>>,
    offset: u64,
}

impl Upload {
    fn state(&self) -> Result<Arc<Staged>> {
        self.state.clone().ok_or_else(|| Error::Generic {
            store: "local disk",
            source: format!("{}: the upload is over", self.path.display()).into(),
        })
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (state, path, mut at) = (self.state(), self.path.clone(), self.offset);
        self.offset += data.content_length() as u64;
        Box::pin(async move {
            let staged = state?;
            blocking(move || {
                for piece in &data {
                    std::os::unix::fs::FileExt::write_all_at(&staged.file, piece, at)
                        .map_err(|error| translate(&path, error))?;
                    at += piece.len() as u64;
                }
                Ok(())
            })
            .await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (staged, path) = (self.state()?, self.path.clone());
        blocking(move || staged.publish(&path, false).map_err(|error| translate(&path, error))).await?;
        self.state = None;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        self.state = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
    }

    fn names(folder: &FilePath) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn puts_are_whole_once_and_leave_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::from_absolute_path(folder.path()).unwrap();
        let store = DurableDisk::new();
        let at = |name: &str| root.clone().join("k=a b").join(name);
        run(async {
            store.put_opts(&at("x"), "one".into(), PutMode::Create.into()).await.unwrap();
            let taken = store.put_opts(&at("x"), "two".into(), PutMode::Create.into()).await.unwrap_err();
            assert!(matches!(taken, Error::AlreadyExists { .. }), "{taken}");
            assert_eq!(store.get(&at("x")).await.unwrap().bytes().await.unwrap(), "one");
            store.put(&at("x"), "three".into()).await.unwrap();
            assert_eq!(store.get(&at("x")).await.unwrap().bytes().await.unwrap(), "three");

            let mut upload = store.put_multipart(&at("y")).await.unwrap();
            let (first, second) = (upload.put_part("ab".into()), upload.put_part("cde".into()));
            second.await.unwrap();
            first.await.unwrap();
            assert!(store.head(&at("y")).await.is_err(), "no part of a file under its name");
            upload.complete().await.unwrap();
            assert_eq!(store.get(&at("y")).await.unwrap().bytes().await.unwrap(), "abcde");
            let mut dropped = store.put_multipart(&at("z")).await.unwrap();
            dropped.put_part("ab".into()).await.unwrap();
            dropped.abort().await.unwrap();
            drop(dropped);
            let missing = store.get(&at("z")).await.unwrap_err();
            assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
        });
        assert_eq!(names(&folder.path().join("k=a b")), ["x", "y"]);
    }

    #[test]
    fn racing_puts_have_one_winner() {
        let folder = tempfile::tempdir().unwrap();
        let location = Path::from_absolute_path(folder.path()).unwrap().join("new").join("x");
        let store = DurableDisk::new();
        let winners = run(async {
            let puts = (0..32).map(|n| store.put_opts(&location, n.to_string().into(), PutMode::Create.into()));
            futures::future::join_all(puts).await.iter().filter(|put| put.is_ok()).count()
        });
        assert_eq!(winners, 1);
        assert_eq!(names(&folder.path().join("new")), ["x"]);
    }
}
