//! The delta crate against the protocol: its contract, rivals, faulty stores, and tables of others.

mod care;
mod contract;
mod faulty;
mod housekeeping;
mod lineage;
mod races;
mod retention;
mod support;
mod tables;
mod view;
