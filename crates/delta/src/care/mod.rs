//! Care of a table apart from those who write to it: small files made few, garbage deleted, the log kept short.
//!
//! Invariants:
//! - No row comes or goes by it, and no `txn` is written: it commits moves of rows alone, `dataChange` false.
//! - It gives way to everybody: a commit is put only where no commit since the files were listed has touched one that
//!   it replaces. Who else writes never waits for it.
//! - Nothing is deleted that a version within the table's retention names, or that a writer may be about to name.

mod beside;
mod compact;
mod plan;
mod vacuum;

use tokio::runtime::Handle;

pub use compact::{CompactOptions, Compacted};
pub(crate) use compact::{new_id, touched_since};
pub use vacuum::{LEAST_UNNAMED_AGE, VacuumOptions, Vacuumed};

use crate::checkpoint::{self, Checkpoints};
use crate::error::DeltaError;
use crate::table::{Table, TableOptions};

/// A table that is looked after.
#[derive(Debug)]
pub struct Care {
    table: Table,
    runtime: Handle,
}

impl Care {
    /// Opens it.
    ///
    /// # Errors
    /// No table there; one that needs what we do not do, by name; a store that refuses.
    pub fn open(location: &str, runtime: Handle) -> Result<Self, DeltaError> {
        let options = TableOptions {
            app_id: APP_ID.to_owned(),
            topic: None,
            checkpoints: Checkpoints::Never,
            runtime: runtime.clone(),
        };
        Ok(Self { table: Table::open(location, options)?, runtime })
    }

    /// The newest version that was seen.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.table.version
    }

    /// Writes a checkpoint of the newest version, if there is none; whether it did.
    ///
    /// # Errors
    /// The table can't be read, or written to.
    pub fn checkpoint(&mut self) -> Result<bool, DeltaError> {
        self.table.refresh()?;
        checkpoint::write_now(&self.table.kernel, self.table.version)
    }

    /// Deletes log files that are older than the table's retention, and that no version within it needs; how many.
    /// In a dry run nothing is deleted, and the number is what would be.
    ///
    /// # Errors
    /// A table that does not allow it, with why; a store that refuses.
    pub fn expire(&mut self, dry_run: bool) -> Result<u64, DeltaError> {
        self.table.refresh()?;
        checkpoint::expire_now(
            &self.table.kernel,
            self.table.version,
            &self.table.configuration,
            &self.runtime,
            dry_run,
        )
    }
}

/// Whose commits these are. They store no offset.
const APP_ID: &str = "lakeward-maintain";
