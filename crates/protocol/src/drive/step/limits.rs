//! What the user decides about time and sizes, by step.

/// When to step and when to make a checkpoint, and how long to go on trying.
#[derive(Clone, Debug)]
pub struct StepLimits {
    /// Longest wait of a record before it is stepped and committed. A replay does not wait.
    pub latency_ms: u64,
    /// Most messages that are taken from the input at once. At least 1.
    pub batch_messages: usize,
    /// Bytes of values that make a step due.
    pub step_bytes: usize,
    /// Time between checkpoints, where anything has moved.
    pub checkpoint_ms: u64,
    /// After a wish to stop gracefully: how long to go on trying to commit what is held.
    pub grace_ms: u64,
}

impl Default for StepLimits {
    fn default() -> Self {
        Self {
            latency_ms: 10_000,
            batch_messages: 100_000,
            step_bytes: 134_217_728,
            checkpoint_ms: 60_000,
            grace_ms: 25_000,
        }
    }
}
