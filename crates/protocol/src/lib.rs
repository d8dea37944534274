//! Decides what an exactly-once pipeline does next. Never does it.

pub mod contract;
pub mod core;
pub mod drive;
pub mod memory;
pub mod ports;
pub mod position;
pub mod records;
pub mod sources;
