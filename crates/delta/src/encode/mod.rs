//! Arrow batches into sealed data files: routed by partition value, encoded, described, uploaded.
//!
//! [`Writer`] takes batches of a layout's schema and yields [`DataFile`](crate::layout::DataFile)s
//! that a commit may name. What holds:
//!
//! - every row that went in is in exactly one file, under its partition values, in its order;
//! - a file's statistics never hide a row ([`stats`]);
//! - a value is escaped once on each way into the log, the folder and the path ([`partition`]);
//! - memory held is known ([`Writer::held_bytes`]) and no more than the rows need: a partition value
//!   costs an encoder only once it has rows enough to fill one ([`waiting`]).
//!
//! Read `writer`, then `file`. Deliberately absent: when to deliver, and what to do about errors.

mod choice;
mod column;
mod error;
mod file;
mod group;
mod lengths;
mod options;
mod partition;
mod parts;
mod plan;
mod sift;
mod stats;
mod upload;
mod waiting;
mod writer;

pub use error::EncodeError;
pub use options::{Compression, WriterOptions};
pub(crate) use partition::write_value;
pub use sift::Unfit;
pub use upload::{SealedFile, put};
pub use writer::Writer;

#[cfg(test)]
mod tests;
