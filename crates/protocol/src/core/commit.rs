//! One commit on its way: the compare-and-swap of docs/protocol.md.

use std::collections::{BTreeMap, BTreeSet};

use super::reason::Why;
use crate::ports::{Advance, Breach, Gap, Head, Permit};
use crate::position::{CommitId, Offset, PartitionId, Shape, SinkId, TableVersion};

/// A commit that is not known to be there yet.
///
/// Load, then find (if it may be there already), then compare, then put; anything but `Done` goes
/// back to the load. Load comes before find, so that a late put of ours lies either among the
/// versions searched or in the way of the next put.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Commit {
    pub sink: SinkId,
    pub id: CommitId,
    /// What the batch was made for; `None` for a commit of frontiers alone.
    pub made_for: Option<Shape>,
    pub advances: BTreeMap<PartitionId, Advance>,
    pub gaps: Vec<Gap>,
    /// The breaches that this commit ends.
    pub healing: BTreeMap<PartitionId, Breach>,
    /// The first version that was tried, once one was.
    pub tried: Option<TableVersion>,
    pub step: Step,
}

/// Where a commit stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Load,
    Find(Head),
    Put(Permit),
}

impl Commit {
    pub fn new(sink: SinkId, id: CommitId, advances: BTreeMap<PartitionId, Advance>) -> Self {
        let (gaps, healing) = (Vec::new(), BTreeMap::new());
        Self { sink, id, made_for: None, advances, gaps, healing, tried: None, step: Step::Load }
    }

    pub fn partitions(&self) -> BTreeSet<PartitionId> {
        self.advances.keys().copied().collect()
    }

    /// The compare: exactly what we expect, or why not.
    pub fn compare(&self, head: &Head) -> Result<(), Why> {
        for (&partition, advance) in &self.advances {
            let breach = head.breach.as_ref().and_then(|breach| breach.of(partition));
            if breach.as_ref() != self.healing.get(&partition) {
                return Err(breach.map_or(Why::Reshaped, Why::Breached));
            }
            let stored = head.frontier.get(&partition).copied();
            differs(partition, advance.expect, stored)?;
        }
        match self.made_for {
            Some(shape) if shape != head.shape => Err(Why::Reshaped),
            _ => Ok(()),
        }
    }

    /// The permit for the version after `head`.
    pub fn permit(&self, head: &Head) -> Permit {
        Permit {
            sink: self.sink,
            version: head.version.next(),
            commit: self.id,
            shape: head.shape,
            advances: self.advances.clone(),
            gaps: self.gaps.clone(),
        }
    }
}

fn differs(partition: PartitionId, expect: Option<Offset>, stored: Option<Offset>) -> Result<(), Why> {
    match (expect, stored) {
        (expect, Some(stored)) if expect < Some(stored) => Err(Why::Fenced { partition, expect, stored }),
        (Some(expect), stored) if stored < Some(expect) => Err(Why::Rewound { partition, expect, stored }),
        _ => Ok(()),
    }
}
