//! What the user decides beforehand, by step.

use crate::core::{Beginning, OnGap};
use crate::position::{Frontier, PartitionId, SinkId};

/// Sinks that hold data while no checkpoint is to be found: the store was lost, or is another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnLostState {
    /// End with an error that says so.
    #[default]
    Stop,
    /// Make the state anew from offset 0 of every partition. Right only for a pipeline that began
    /// there; where a source does not reach back so far, it stops.
    Replay,
}

/// What the user decides about one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourcePlan {
    /// Where its partitions begin in a new pipeline. One that is added later begins at its first record.
    pub beginning: Beginning,
    /// What becomes of the pipeline when records are gone that no sink has. Those that a sink has
    /// are needed, whatever it says.
    pub on_gap: OnGap,
    /// P3: let it delete what every sink and every kept checkpoint covers.
    pub trims: bool,
}

/// The pipeline's form and the user's decisions. They do not change while a process runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepPlan {
    /// The sinks' names, for errors. The first one is the journal (P7).
    pub sinks: Vec<String>,
    /// The sources, in the order in which the pipeline names them; each has a partition at least.
    pub sources: Vec<SourcePlan>,
    /// The first offset to take of these partitions, in a new pipeline. A stored frontier below it
    /// is refused.
    pub seek: Frontier,
    /// Where to stop reading; a partition without an entry has nothing to read. What sinks have
    /// beyond it stays. `None` reads for ever.
    pub ends: Option<Frontier>,
    /// See [`OnLostState`].
    pub on_lost_state: OnLostState,
}

impl StepPlan {
    /// Reads `sources` from their oldest records for ever, trims nothing, and stops at what is lost.
    ///
    /// # Panics
    /// Without a source, without a sink, or with more than 255 of them.
    #[must_use]
    pub fn new(sources: u8, sinks: Vec<String>) -> Self {
        Self::of(vec![SourcePlan::default(); sources.into()], sinks)
    }

    /// The same with sources of which something else is decided.
    ///
    /// # Panics
    /// Without a source, without a sink, or with more than 255 of either.
    #[must_use]
    pub fn of(sources: Vec<SourcePlan>, sinks: Vec<String>) -> Self {
        assert!(!sources.is_empty() && sources.len() <= usize::from(u8::MAX), "a pipeline has 1 to 255 sources");
        assert!(!sinks.is_empty() && sinks.len() <= usize::from(u8::MAX), "a pipeline has 1 to 255 sinks");
        Self { sinks, sources, seek: Frontier::new(), ends: None, on_lost_state: OnLostState::default() }
    }

    pub(super) fn name(&self, sink: SinkId) -> String {
        self.sinks[usize::from(sink.0)].clone()
    }

    /// What is decided about a partition's source.
    pub(super) fn source(&self, partition: PartitionId) -> &SourcePlan {
        &self.sources[usize::from(partition.source().0)]
    }

    /// The sinks in the order of commits.
    pub(super) fn order(&self) -> impl DoubleEndedIterator<Item = SinkId> + use<> {
        (0..u8::try_from(self.sinks.len()).expect("up to 255 sinks")).map(SinkId)
    }
}
