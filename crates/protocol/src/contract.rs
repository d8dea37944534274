//! One conformance suite a port, run by the in-memory ones here and by the real ones at home.
//!
//! A room implements the harness of its port (how to make a fresh topic or table, how a rival acts
//! on it) and calls [`input_log`], [`stage`], [`output_log`], [`circuit`] or [`checkpoints`] in one test. Each case is a function
//! of its own as well, so that a room can run one alone. A case panics with what was promised.

pub mod checkpoints;
pub mod circuit;
pub mod input;
pub mod output;
pub mod stage;

pub use checkpoints::{CheckpointHarness, checkpoints};
pub use circuit::{CircuitHarness, circuit};
pub use input::{InputHarness, input_log};
pub use output::{OutputHarness, output_log};
pub use stage::{StageHarness, stage};
