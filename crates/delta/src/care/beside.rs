//! Compaction by the writer itself, between its commits: `ingest --auto-compact`.

use lakeward_protocol::ports::Put;
use serde_json::Map;

use super::compact::{movable, new_id, touched_since};
use crate::commit::{Notes, Rewrite};
use crate::encode::WriterOptions;
use crate::error::DeltaError;
use crate::layout::Batch;
use crate::table::{Contents, Table, now_ms};
use crate::view::Compaction;
use crate::view::compact::{Compactor, Job, Rewritten};

/// Versions between two looks at the table's files. The process whose commit falls on a multiple of it looks; where those
/// fall to others who don't, we do once it is so many times as long.
const LOOK_EVERY: u64 = 16;
const LATE: u64 = 4;

impl Table {
    /// From now on small files are made few between the commits. Rows are moved in the background; what came of it is put
    /// after a later commit, or dropped where somebody touched the files. No commit waits for it.
    ///
    /// # Errors
    /// A table whose files we must not move, by name.
    pub fn compact_beside(&mut self, policy: Compaction, writer: WriterOptions) -> Result<(), DeltaError> {
        movable(self.name(), &self.configuration)?;
        self.compactor = Some(Compactor::new(Some(policy), writer, self.runtime.clone()));
        self.looked_at = self.version;
        Ok(())
    }

    /// After our commit of a version, if there was one: puts what is ready, or begins where it is time to.
    pub(crate) fn tend_files(&mut self, committed: Option<u64>) {
        let Some(mut compactor) = self.compactor.take() else { return };
        let ready = compactor.take();
        self.compactor = Some(compactor);
        let outcome = match ready {
            Some(rewritten) => self.put_moved(rewritten),
            None => self.begin(committed),
        };
        if let Err(error) = outcome {
            tracing::warn!(table = self.name(), %error, "files could not be compacted; another try comes later");
        }
    }

    fn begin(&mut self, committed: Option<u64>) -> Result<(), DeltaError> {
        let Some(version) = committed else { return Ok(()) };
        let due = version.is_multiple_of(LOOK_EVERY) || version >= self.looked_at + LOOK_EVERY * LATE;
        let Some(compactor) = self.compactor.as_mut().filter(|compactor| due && compactor.is_idle()) else {
            return Ok(());
        };
        movable(&self.kernel.place.name, &self.configuration)?;
        self.looked_at = version;
        let (kernel, layout) = (self.kernel.clone(), self.configuration.layout.clone());
        compactor.start(Job { kernel, layout, version, chosen: None, keys: None });
        Ok(())
    }

    fn put_moved(&mut self, rewritten: Rewritten) -> Result<(), DeltaError> {
        self.refresh()?;
        let is_other = self.recreated.is_some() || rewritten.layout.shape() != self.configuration.layout.shape();
        let touched = touched_since(&self.kernel, &rewritten, self.version);
        if is_other || self.runtime.block_on(touched)? {
            tracing::debug!(table = self.name(), "files changed while they were compacted; another try comes later");
            return Ok(());
        }
        let (version, committed) = (self.version + 1, self.committed);
        let put = self.put_version_moved(version, &rewritten);
        // The log's housekeeping goes by the commits of rows.
        self.committed = committed;
        match put {
            Ok(Put::Done) => {
                let (from, to) = (rewritten.sources.len(), rewritten.files.len());
                self.housekeeping().compacted(from);
                tracing::info!(table = self.name(), version, "{from} small files made into {to}");
                Ok(())
            }
            Ok(Put::Taken) => {
                self.offer_again(rewritten);
                Ok(())
            }
            // If it is there after all, the next offer finds its sources gone.
            Err(error) => {
                self.offer_again(rewritten);
                Err(error)
            }
        }
    }

    fn offer_again(&mut self, rewritten: Rewritten) {
        if let Some(compactor) = &mut self.compactor {
            compactor.put_back(rewritten);
        }
    }

    /// Puts a version that only moves rows.
    pub(super) fn put_version_moved(&mut self, version: u64, rewritten: &Rewritten) -> Result<Put, DeltaError> {
        let rewrite = Rewrite {
            actions: rewritten.sources.iter().map(|file| file.remove(now_ms(), false)).collect(),
            touched_files: rewritten.sources.len(),
            deleted_rows: 0,
            is_compaction: true,
        };
        let batch = Batch { files: rewritten.files.clone(), ..Batch::default() };
        let notes = Notes { commit_id: new_id(), app_id: self.app_id.clone(), ..Notes::default() };
        let (batch, rewrite) = (Some(&batch), Some(&rewrite));
        self.put_version(version, &Contents { notes: &notes, txns: &[], batch, rewrite, more: &Map::new() })
    }
}
