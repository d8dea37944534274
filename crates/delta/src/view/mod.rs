//! A view as a table: each step's change goes into one commit, with the step's offsets.
//!
//! In mode upsert the table *is* the view, by merge on read: new rows go into new files, rows that go
//! are marked dead by deletion vectors, found through an index from key to (file, row) in memory. The
//! index is a copy of what the table says ([`state`]); losing it costs a scan of the key columns.
//!
//! Invariants:
//! - The state stands for one version, and a commit is put on that version alone: a vector replaces
//!   the very vector that it was made from (no row comes back from the dead).
//! - Every `remove` names the vector of the `add` that it ends (S48).
//! - All deletes of a step come before its inserts (S47). A delete of what is not there, and a second
//!   row of a key, are errors that name the row: the table is never silently another view.
//! - Compaction moves rows and changes none; it gives way to everybody ([`compact`]).
//!
//! Events by key, of which nobody knows what was there before, are the other way in ([`latest`]): the change is what is
//! there when it is committed.
//!
//! Read `change`, then `revise`, then `state`.

mod chains;
mod change;
pub(crate) mod compact;
pub(crate) mod files;
mod index;
mod key;
mod latest;
mod mode;
mod patch;
mod revise;
pub(crate) mod scanned;
mod settle;
mod sink;
mod state;
mod vector;

pub(crate) use chains::CHAINS_TAG;
pub use change::{Change, StageError, Staged};
pub use compact::Compaction;
pub use key::{check_key, rows_without_key};
pub use latest::{ByKey, Moved, Said, Stretch};
pub use mode::{CHANGE_COLUMN, Mode, STEP_COLUMN, new_table};
pub use sink::{Commit, Counts, Move, View, ViewOptions, ViewWriter};
pub use state::INDEX_ROW_BYTES;
