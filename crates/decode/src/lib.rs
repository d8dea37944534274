//! Turns a stretch of a topic's messages into Arrow rows, bad messages aside. JSON, one object a message.
//!
//! [`Decoder`] is built once for a table's schema and a set of [`Transforms`], and holds the columns under
//! construction. [`Decoder::decode`] appends each message of a [`Records`](lakeward_protocol::records::Records)
//! straight into them: no value tree, no copy of the message. A bad message is undone by cutting the columns back to
//! the row's start, so it costs its own bytes and nothing of its batch.
//!
//! Read `row` (one message into the columns), then `column`, then `scan`. Invariants:
//! - a message that `serde_json` refuses is refused here, whatever field the fault is in (`scan`);
//! - the way taken first, for messages that differ in their values alone (`shape`), only ever succeeds with the rows
//!   that the usual way makes, and has not touched a column where it fails;
//! - the usual way (`row`, with transforms compiled by `compiled`) only ever *succeeds* with the rows that the
//!   slow and general way (`general`) makes; where it can't be sure, it fails over to that one;
//! - after each message all columns are as long as the batch has rows, or the message left no trace;
//! - nesting is bounded by [`MAX_DEPTH`], so no input overflows the stack.
//!
//! [`encode`] is the way back, for topics that are written.
//!
//! No clock, no I/O, no threads. Parser and columns are our own: number texts are kept as the message has them, and
//! strictness is decided in one place, whatever features other crates turn on in `serde_json`.

mod apply;
pub mod avro;
mod block;
mod column;
mod compiled;
mod debezium;
mod decoded;
mod decoder;
pub mod encode;
mod error;
mod finish;
mod format;
mod frame;
mod general;
mod grow;
mod infer;
mod inflate;
pub mod json_schema;
mod key;
mod learn;
mod number;
mod place;
mod plan;
pub mod protobuf;
mod raw;
mod reader;
mod record;
mod row;
mod scalar;
mod scan;
mod schemas;
mod shape;
mod shapes;
mod simd;
mod time;
mod transform;
mod tree;
mod unknown;
mod variable;

#[cfg(test)]
mod tests;

pub use debezium::Debezium;
pub use decoded::{Bad, Decoded};
pub use decoder::Decoder;
pub use error::{BadKind, InferError, PlanError, TransformError};
pub use format::{Encoding, Format};
pub use grow::{Bounds, Growth};
pub use infer::infer;
pub use inflate::{Compression, MOST_INFLATED_BYTES, NoCompression};
pub use scan::MAX_DEPTH;
pub use schemas::{Answer, Language, ReferredSchema, Schemas, Unavailable, WrittenSchema};
pub use transform::Transforms;
pub use unknown::UnknownField;
