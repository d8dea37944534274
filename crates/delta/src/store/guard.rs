//! Stands before an object store and lets nothing be put if absent until it is known that the store can do that.
//!
//! Everything that must happen once (commits, manifests of checkpoints, new tables) is such a put. A store that ignores
//! the condition would let two writers overwrite each other, without an error anywhere (P40). So the first one of a
//! process is preceded by a probe; a store that fails it is refused, or, where the user says that one process alone
//! writes, guarded by a lease.
//!
//! What is kept beside a table's data lies in `_lakeward/`, which Delta's readers and VACUUM pass over.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::future::join_all;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::OnceCell;

use super::lease::{Lease, Terms};
use super::remote::Remote;

/// Writers that race in a probe.
const RACERS: usize = 8;

/// Data above this takes its time; a commit is seldom larger.
const SMALL_BYTES: usize = 256 << 10;

/// Why a store can't be written to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unguarded {
    /// Conditions are not kept.
    #[error(
        "it let {winners} writers put one file if absent, so commits would overwrite each other; use a store that keeps \
         conditions (If-None-Match, x-goog-if-generation-match), or, if one process alone writes there, pass \
         --unsafe-single-writer"
    )]
    Unconditional {
        /// Who were all told that they were first.
        winners: usize,
    },
    /// Another process holds the lease.
    #[error(
        "{holder} holds the lease on it and renews it, and this store can't keep two writers apart; stop that process, \
         or leave it to go on"
    )]
    Held {
        /// As it calls itself.
        holder: String,
    },
    /// Ours is gone.
    #[error("the lease on it is lost ({reason}), and this store can't keep two writers apart; nothing more is written")]
    Lost {
        /// How it was noticed.
        reason: String,
    },
}

impl Unguarded {
    /// As the store's error; [`DeltaError`](crate::DeltaError) finds it again.
    pub(super) fn into_error(self) -> Error {
        Error::NotSupported { source: Box::new(self) }
    }
}

/// How one file of a name is made sure of.
#[derive(Clone, Debug)]
enum Standing {
    /// The store does it.
    Conditional,
    /// Nobody else writes.
    Alone(Arc<Lease>),
}

/// See the module's header.
#[derive(Debug)]
pub(super) struct Guarded {
    quick: Arc<dyn ObjectStore>,
    patient: Arc<dyn ObjectStore>,
    root: Path,
    terms: Terms,
    may_be_alone: AtomicBool,
    /// How many were let in, and still are there.
    admitted: AtomicUsize,
    standing: OnceCell<Standing>,
}

impl Guarded {
    /// Before what lies below `root`.
    pub(super) fn new(remote: Remote, root: Path, terms: Terms) -> Self {
        let Remote { quick, patient } = remote;
        Self {
            quick,
            patient,
            root,
            terms,
            may_be_alone: AtomicBool::new(false),
            admitted: AtomicUsize::new(0),
            standing: OnceCell::new(),
        }
    }

    /// Makes sure that it can be written to, now.
    pub(super) async fn admit(&self, may_be_alone: bool) -> Result<()> {
        self.may_be_alone.fetch_or(may_be_alone, Ordering::SeqCst);
        self.standing().await.map(drop)?;
        self.admitted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Gives a lease back, if there is one and nobody else was admitted who is still there.
    pub(super) async fn release(&self) {
        let is_last = self.admitted.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && let Some(Standing::Alone(lease)) = self.standing.get() {
            lease.release().await;
        }
    }

    async fn standing(&self) -> Result<&Standing> {
        self.standing
            .get_or_try_init(|| async {
                let winners = self.probe().await?;
                if winners <= 1 {
                    tracing::debug!("{} keeps conditional puts apart", self.quick);
                    return Ok(Standing::Conditional);
                }
                if !self.may_be_alone.load(Ordering::SeqCst) {
                    return Err(Unguarded::Unconditional { winners }.into_error());
                }
                tracing::warn!(
                    "{} ignores conditions: --unsafe-single-writer goes on, under a lease; a second writer of this table \
                     would do harm",
                    self.quick
                );
                let lease = Lease::acquire(Arc::clone(&self.quick), self.beside("lease"), self.terms).await?;
                Ok(Standing::Alone(lease))
            })
            .await
    }

    fn beside(&self, name: &str) -> Path {
        self.root.clone().join("_lakeward").join(name)
    }

    /// How many writers were told that they put a file that several put if absent. One of them, for sure; or none, where
    /// a probe of before left its mark, and the store keeps it from being put again. From its second time on a table it
    /// costs two small requests.
    async fn probe(&self) -> Result<usize> {
        let mark = self.beside("conditions");
        // Not its head alone: errors have a body that way.
        match self.quick.get(&mark).await {
            Ok(_) if !self.put_if_absent(&mark).await? => return Ok(0),
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        // At once, since a store that looks first and puts then fails only so; and once more after it.
        let contested = self.beside(&format!("race-{}", unique()));
        let mut outcomes = join_all((0..RACERS).map(|_| self.put_if_absent(&contested))).await;
        outcomes.push(self.put_if_absent(&contested).await);
        let wins: Vec<bool> = outcomes.into_iter().collect::<Result<_>>()?;
        if let Err(error) = self.quick.delete(&contested).await {
            tracing::debug!("{contested} stays: {error}");
        }
        let winners = wins.into_iter().filter(|won| *won).count();
        if winners <= 1 {
            self.put_if_absent(&mark).await?;
        }
        Ok(winners)
    }

    async fn put_if_absent(&self, at: &Path) -> Result<bool> {
        let text =
            PutPayload::from_static(b"Put by lakeward, to see whether this store keeps conditions. May be removed.\n");
        match self.quick.put_opts(at, text, PutMode::Create.into()).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            // Switched off by AWS_CONDITIONAL_PUT.
            Err(Error::NotImplemented { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What holds data, by its size or its name.
    fn for_reading(&self, at: &Path) -> &Arc<dyn ObjectStore> {
        let is_small = at.extension() == Some("json") || at.filename() == Some("_last_checkpoint");
        if is_small { &self.quick } else { &self.patient }
    }

    fn for_writing(&self, payload: &PutPayload) -> &Arc<dyn ObjectStore> {
        if payload.content_length() <= SMALL_BYTES { &self.quick } else { &self.patient }
    }
}

#[expect(clippy::disallowed_methods, reason = "an edge: two processes that probe at once must not meet")]
fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quick.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Guarded {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if options.mode == PutMode::Create
            && let Standing::Alone(lease) = self.standing().await?
        {
            lease.check().await?;
            return match self.quick.head(at).await {
                Ok(_) => Err(Error::AlreadyExists { path: at.to_string(), source: "found before it was put".into() }),
                Err(Error::NotFound { .. }) => {
                    let options = PutOptions { mode: PutMode::Overwrite, ..options };
                    self.for_writing(&payload).put_opts(at, payload, options).await
                }
                Err(error) => Err(error),
            };
        }
        self.for_writing(&payload).put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.patient.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.for_reading(at).get_opts(at, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.quick.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.quick.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.quick.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.quick.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.patient.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests;
