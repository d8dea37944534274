//! Arrow batches into Parquet files, and those into one commit of a Delta table with its frontier.
//!
//! Two halves that meet in [`layout`]: the data side writes files ([`encode`]), the log side names
//! them in commits ([`table`]). Only this crate knows `delta_kernel`.

pub mod layout;
