//! Tables and states in object stores: a real S3 server, Azure's emulator, and a store of our own that fails by plan
//! (and stands for GCS). Each is reached by the program as users reach theirs, by URL and variables.
//!
//! Long forms run with LAKEWARD_TORTURE (`make torture`).

mod alone;
mod disk;
mod faults;
pub mod lake;
mod pipeline;
mod told;
mod workers;
