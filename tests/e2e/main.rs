//! End to end, on a real broker.
