//! Views as tables: what they hold after each step, whoever else writes.

mod contract;
mod latest;
mod named;
mod random;
mod readers;
mod refused;
mod steps;
mod support;
