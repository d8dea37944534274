//! Arrow batches into Parquet files, and those into one commit of a Delta table with its frontier.
//!
//! Two halves that meet in [`layout`]: the data side writes files ([`encode`]), the log side names them in
//! commits ([`table`]). Only this crate knows `delta_kernel`.

mod appended;
mod care;
mod checkpoint;
mod commit;
mod create;
mod durable;
pub mod encode;
mod error;
mod features;
mod grow;
mod history;
mod kernel;
mod known;
pub mod layout;
mod letters;
mod lineage;
mod log;
mod mapping;
mod metadata;
mod named;
mod offsets;
mod opened;
mod retention;
mod row_ids;
mod rules;
pub mod scan;
mod schema;
mod store;
pub mod table;
pub mod view;

pub use appended::{Appended, Chunk};
pub use care::{Care, CompactOptions, Compacted, LEAST_UNNAMED_AGE, VacuumOptions, Vacuumed};
pub use checkpoint::{Checkpoints, DEFAULT_INTERVAL, Housekeeping};
pub use commit::{ByNote, ENGINE, GapNote, Notes, SPANS_TAG, SourceNote, Span, ViewNote, spans_from_tag};
pub use create::{Created, NewTable, create, create_on};
pub use error::DeltaError;
pub use features::{FEATURES, Support, Use};
pub use history::{Added, History, Removed, Version};
pub use layout::{Batch, DataFile, FileSpan, Layout, LayoutParts, StatsColumns, Tally};
pub use letters::{Companion, is_mark};
pub use named::NamedTopic;
pub use offsets::{StoredOffset, stored_offsets};
pub use rules::{Check, Made, Rules};
pub use schema::TableSchema;
pub use store::{Admission, Place, Unguarded, admit};
pub use table::{Signs, Table, TableOptions, Topic};
