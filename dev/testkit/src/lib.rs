//! A real Kafka for tests: one that is there, or one that is started and ends with the test process.
//!
//! Everything here panics with a message that says what is missing: a test that cannot run has failed.
#![allow(clippy::disallowed_methods, reason = "made for tests: it waits by the clock, and draws names by chance")]

mod admin;
mod broker;
mod consume;
mod produce;
mod registry;

pub use admin::Topic;
pub use broker::Broker;
pub use produce::{Message, Sent, Transactional};
pub use registry::{Reference, Registry, framed};
