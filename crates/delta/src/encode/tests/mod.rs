//! Cases of the data side: what goes in must be what readers see.

mod columns;
mod made;
mod partitions;
mod properties;
mod scans;
mod shapes;
