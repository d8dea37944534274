//! Kafka as an input, the bytes of an exact offset range, repeatable; and as a sink, transactions that carry their
//! frontier.
//!
//! [`Source`] is the [`InputLog`](lakeward_protocol::ports::InputLog) of a topic. One thread
//! (`reader.rs`) takes messages in batches from librdkafka into recycled arenas and answers the
//! group; the caller takes arenas and gives orders through `handoff.rs`. [`Sink`] is the
//! [`OutputLog`](lakeward_protocol::ports::OutputLog) of one.
//!
//! Never here: where to start (the sink's frontier says it, the group's offsets are only told to),
//! what records mean, and when to commit.

#![expect(
    clippy::disallowed_methods,
    reason = "an adapter's edge: it has a thread of its own and times what brokers do"
)]

mod config;
mod context;
mod error;
mod group;
mod handoff;
mod native;
mod oauth;
mod part;
mod reader;
mod sink;
mod source;
mod trouble;
mod watch;

pub use config::{DEFAULT_MEMORY_BYTES, SourceConfig};
pub use error::KafkaError;
pub use sink::{Message, Messages, Sink, SinkConfig, SinkSource, SinkState};
pub use source::{Lag, LagProbe, Source, TopicIdentity};
