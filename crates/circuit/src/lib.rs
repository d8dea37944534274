//! SQL to a plan of incremental operators, and the plan to a running circuit: changes in, the views' changes out.
//!
//! The way of a query: [`pipeline`] reads the file, [`logical`] makes DataFusion's plan of it, [`plan`] asks the
//! registry in [`operator`] for an operator for each node, [`circuit`] runs them on dbsp. All rows inside of the engine
//! are of one type, [`row::Row`]; what is linear runs on Arrow batches with a weight for each row, [`delta::Delta`].
//!
//! Knows neither Kafka nor Delta nor a clock.

pub mod accumulator;
pub mod builder;
pub mod checkpoint;
pub mod circuit;
pub mod codec;
pub mod compile;
pub mod dead_letters;
pub mod delta;
pub mod evaluate;
pub mod exact;
pub mod explain;
pub mod expr;
pub mod failure;
pub mod folder;
mod functions;
mod guard;
pub mod logical;
pub mod operator;
pub mod pipeline;
pub mod plan;
pub mod query;
mod read;
pub mod refused;
mod reshard;
pub mod row;
mod sorted;
pub mod spark;
pub mod stateless;
mod top;
