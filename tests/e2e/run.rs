//! `lakeward run` as a process: real topics in, real tables out, and each version of each table judged.
//!
//! `job.rs` is the pipeline that most tests run, with what fills its topics; `judge.rs` holds P5: every version of
//! every sink equals what DuckDB answers over exactly the input below that version's frontier.

mod commands;
mod exact;
mod faults;
mod formats;
pub mod job;
mod judge;
mod kills;
mod letters;
mod owners;
mod partition;
mod records;
mod state;
mod topics;
