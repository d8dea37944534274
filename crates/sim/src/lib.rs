//! Runs the shipped loop of several processes over one faulty world, from a seed. Never shipped.
//!
//! One thread steps the processes in an order that the seed decides, over a shared topic and table.
//! Between and inside steps the seed lets processes crash at every point of the commit path, freeze
//! and wake after the group has thrown them out, come and go; lets the store lose replies, refuse
//! winners, answer late or not at all; lets others write, change the schema, restore old versions.
//! Then the weather clears, and everything must be in the table exactly once.
//!
//! `run_steps` does the same to pipelines by step: several sources and sinks, a circuit, checkpoints
//! that get lost, and a second process that does not know of the first.
//!
//! The same seed gives the same history over memory; `tests/sim.rs` asserts that first.

mod chaos;
mod run;
mod site;
mod steps;
mod store;

pub use chaos::{Chaos, Coverage};
pub use run::{Plan, Report, run};
pub use site::{MemorySite, Site};
pub use steps::{StepSize, run_steps};
pub use store::{Call, FaultyStore, Late};
