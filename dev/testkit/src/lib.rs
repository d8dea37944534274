//! What tests need beside the program: a real Kafka, one that is there or one that is started and ends with the test
//! process; object stores; and a wire that breaks.
//!
//! Everything here panics with a message that says what is missing: a test that cannot run has failed.
#![allow(clippy::disallowed_methods, reason = "made for tests: it waits by the clock, and draws names by chance")]

mod admin;
mod broker;
mod consume;
mod http;
mod objects;
mod produce;
mod proxy;
mod registry;
mod stores;
mod tokens;

pub use admin::Topic;
pub use broker::Broker;
pub use http::Request;
pub use objects::{Fault, Objects};
pub use produce::{Message, Sent, Transactional};
pub use proxy::Proxy;
pub use registry::{Reference, Registry, framed};
pub use stores::{Kind, StoreServer};
pub use tokens::{CLIENT_ID, CLIENT_SECRET, Mood, SCOPE, TOKEN_MARK, TokenEndpoint};
