//! A real Kafka for tests: one that is there, or one that is started and ends with the test process.
//!
//! Everything here panics with a message that says what is missing: a test that cannot run has failed.

mod admin;
mod broker;
mod produce;

pub use admin::Topic;
pub use broker::Broker;
pub use produce::{Message, Sent, Transactional};
