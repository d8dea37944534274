//! Sealed files into the store.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::error::EncodeError;
use crate::error::DeltaError;
use crate::layout::{DataFile, FileSpan, Layout};

/// Uploads under way at once.
const UPLOADS: usize = 8;

/// Files above this go up in pieces of this size: one request for all would run into time-outs on a slow line.
const PIECE_BYTES: u64 = 8 << 20;

/// A whole file, in memory, in no store yet. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SealedFile {
    /// As [`DataFile::path`].
    pub(crate) path: String,
    /// Where it goes in the store.
    pub(crate) object: Path,
    /// Its bytes.
    pub(crate) parts: Arc<[Bytes]>,
    /// Their sum.
    pub(crate) size_bytes: u64,
    /// Rows.
    pub(crate) rows: u64,
    /// As [`DataFile::partition_values`].
    pub(crate) partition_values: Vec<(String, Option<String>)>,
    /// As [`DataFile::stats`].
    pub(crate) stats: String,
    /// As [`DataFile::spans`].
    pub(crate) spans: Vec<FileSpan>,
}

impl SealedFile {
    /// Its length, and about what it holds in memory.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Its rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Memory that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    #[expect(clippy::disallowed_methods, reason = "an edge: the log wants to know when the file was written")]
    fn into_data_file(self) -> DataFile {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        DataFile {
            path: self.path,
            partition_values: self.partition_values,
            size_bytes: self.size_bytes,
            modification_time_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            num_records: self.rows,
            stats: self.stats,
            spans: self.spans,
            chains: None,
        }
    }
}

/// Puts a file; once this is `Ok` the file is durable. Putting it again does no harm: nothing else
/// has its name.
///
/// # Errors
/// The file may or may not be there.
pub async fn put(layout: &Layout, file: &SealedFile) -> Result<DataFile, DeltaError> {
    let result = if file.size_bytes > PIECE_BYTES {
        put_in_pieces(layout.store(), file).await
    } else {
        layout.store().put(&file.object, payload(&file.parts)).await.map(drop)
    };
    match result {
        Ok(()) => Ok(file.clone().into_data_file()),
        Err(error) => {
            Err(DeltaError::store(format!("put data file {} of table {}", file.object, layout.table()), error))
        }
    }
}

async fn put_in_pieces(store: &Arc<dyn ObjectStore>, file: &SealedFile) -> object_store::Result<()> {
    let mut upload = store.put_multipart(&file.object).await?;
    let result = async {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        for part in file.parts.iter() {
            piece.push(part.clone());
            bytes += part.len() as u64;
            if bytes >= PIECE_BYTES {
                upload.put_part(payload(&piece)).await?;
                (piece, bytes) = (Vec::new(), 0);
            }
        }
        if !piece.is_empty() {
            upload.put_part(payload(&piece)).await?;
        }
        upload.complete().await
    }
    .await;
    if let Err(error) = result {
        if let Err(left) = upload.abort().await {
            tracing::debug!(file = %file.object, error = %left, "a broken upload's pieces stay in the store");
        }
        return Err(error);
    }
    Ok(())
}

fn payload(parts: &[Bytes]) -> PutPayload {
    parts.iter().cloned().collect()
}

/// Files on their way into the store, several at once. Those that could not be put wait here.
#[derive(Debug)]
pub(crate) struct Uploads {
    layout: Layout,
    waiting: Vec<SealedFile>,
    running: JoinSet<(SealedFile, Result<DataFile, DeltaError>)>,
    done: Vec<DataFile>,
    held_bytes: u64,
}

impl Uploads {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, waiting: Vec::new(), running: JoinSet::new(), done: Vec::new(), held_bytes: 0 }
    }

    /// Memory of the files that are not in the store yet.
    pub(crate) fn held_bytes(&self) -> usize {
        usize::try_from(self.held_bytes).unwrap_or(usize::MAX)
    }

    /// Takes a file in; blocks while too many others are under way.
    ///
    /// # Errors
    /// Some file did not get there; none is lost.
    pub(crate) fn add(&mut self, file: SealedFile, runtime: &Handle) -> Result<(), EncodeError> {
        self.held_bytes += file.size_bytes;
        self.waiting.push(file);
        self.start(runtime)
    }

    /// Waits until all files are in the store and hands them out.
    ///
    /// # Errors
    /// As [`Uploads::add`]; call it again.
    pub(crate) fn finish(&mut self, runtime: &Handle) -> Result<Vec<DataFile>, EncodeError> {
        while !self.waiting.is_empty() || !self.running.is_empty() {
            self.start(runtime)?;
            self.join(runtime)?;
        }
        Ok(std::mem::take(&mut self.done))
    }

    /// Forgets all. Files that are there already stay as orphans, which no commit names.
    pub(crate) fn discard(&mut self) {
        self.running.abort_all();
        *self = Self::new(self.layout.clone());
    }

    fn start(&mut self, runtime: &Handle) -> Result<(), EncodeError> {
        while let Some(file) = self.waiting.pop() {
            let layout = self.layout.clone();
            self.running.spawn_on(
                async move {
                    let result = put(&layout, &file).await;
                    (file, result)
                },
                runtime,
            );
            if self.running.len() >= UPLOADS {
                self.join(runtime)?;
            }
        }
        Ok(())
    }

    /// Waits for one of those under way.
    fn join(&mut self, runtime: &Handle) -> Result<(), EncodeError> {
        match runtime.block_on(self.running.join_next()) {
            None => Ok(()),
            Some(Ok((file, Ok(done)))) => {
                self.held_bytes -= file.size_bytes;
                self.done.push(done);
                Ok(())
            }
            Some(Ok((file, Err(error)))) => {
                self.waiting.push(file);
                // The others under way belong to this attempt: what is said of the next one must be
                // about the next one.
                while !self.running.is_empty() {
                    let _ = self.join(runtime);
                }
                Err(error.into())
            }
            Some(Err(error)) => {
                Err(EncodeError::CutOff { table: self.layout.table().to_owned(), reason: error.to_string() })
            }
        }
    }
}
