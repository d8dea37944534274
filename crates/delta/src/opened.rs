//! What is read of a table when it is opened, once or anew.

use tokio::runtime::Handle;

use crate::error::DeltaError;
use crate::kernel::{Configuration, Kernel};
use crate::known::Known;
use crate::log::{self, Identity};

/// All that is known when a table was just opened.
pub(crate) struct Opened {
    pub configuration: Configuration,
    pub version: u64,
    /// The head's commit file; `None` where the log holds only its checkpoint.
    pub identity: Option<Identity>,
    pub known: Known,
    /// The newest checkpoint.
    pub checkpoint: Option<u64>,
}

impl Opened {
    /// Reads the newest version.
    ///
    /// # Errors
    /// No table there; one that needs what we do not do, by name; a store that refuses.
    pub(crate) fn new(kernel: &Kernel, runtime: &Handle, app_id: &str) -> Result<Self, DeltaError> {
        let snapshot = kernel.newest()?;
        let configuration = Configuration::of(kernel, &snapshot)?;
        let prefix = format!("{app_id}-");
        let txns = kernel.txns(&snapshot, &prefix)?;
        let version = snapshot.version();
        let mut known = Known::new(prefix, txns, version);
        let listing = runtime.block_on(log::list(&kernel.place, version))?;
        if let Some(bytes) = runtime.block_on(log::read_bytes(&kernel.place, version))? {
            let head = log::parse(&kernel.place, version, &bytes)?;
            known.in_commit_timestamp_ms = head.info.as_ref().and_then(crate::known::in_commit_timestamp);
            known.see_older(&kernel.place.name, &head);
        }
        let identity = listing.commits.get(&version).cloned();
        let checkpoint = snapshot.log_segment().checkpoint_version;
        Ok(Self { configuration, version, identity, known, checkpoint })
    }
}
