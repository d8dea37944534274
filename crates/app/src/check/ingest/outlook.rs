//! Asks the very core that an ingest runs what it would do, up to the first thing that is written or read.

use std::collections::{BTreeMap, BTreeSet};

use lakeward_delta::DeltaError;
use lakeward_protocol::core::{Action, Core, Event, Reason};
use lakeward_protocol::ports::{Bounds, Gap, OutputLog};
use lakeward_protocol::position::{CommitId, Frontier, PartitionId};

use crate::failure::Failure;

/// What would come first.
#[derive(Debug, Default)]
pub struct Outlook {
    /// What the table says of each partition.
    pub stored: Frontier,
    /// Where each would begin.
    pub begins: Frontier,
    /// Those whose beginning would be written to the table before any data.
    pub anchored: BTreeSet<PartitionId>,
    /// Breaks in their chains that would be written with it.
    pub gaps: Vec<Gap>,
    /// Why it would stop instead.
    pub stops: Option<Reason>,
}

impl Outlook {
    /// Asks for all partitions at once, as if this were the only process.
    ///
    /// # Errors
    /// The table can't be read.
    pub fn new(
        mut core: Core,
        table: &mut impl OutputLog<Error = DeltaError>,
        holds: &BTreeMap<PartitionId, Bounds>,
    ) -> Result<Self, Failure> {
        let mut outlook = Self::default();
        core.on(Event::Gained(holds.keys().copied().collect()));
        loop {
            let event = match core.next() {
                Action::Load { sink, partitions } => {
                    let head = table.load(&partitions).map_err(|error| Failure::port(&error))?;
                    outlook.stored.extend(head.frontier.clone());
                    Event::Loaded { sink, head }
                }
                Action::Open { sink } => Event::Opened { sink },
                Action::Ask { partition } => Event::Bounds { partition, bounds: holds[&partition] },
                Action::Name => Event::Named(CommitId(0)),
                // Somebody committed between two loads.
                Action::Discard(_) => Event::Discarded,
                Action::Start { positions } => {
                    core.on(Event::Started);
                    tell_gone(&mut core, &positions, holds);
                    continue;
                }
                Action::Put(permit) => {
                    outlook.anchored = permit.advances().keys().copied().collect();
                    outlook.gaps = permit.gaps().to_vec();
                    break;
                }
                Action::Stop(reason) => {
                    outlook.stops = Some(reason);
                    break;
                }
                _ => break,
            };
            core.on(event);
        }
        outlook.begins = if outlook.stops.is_some() { Frontier::new() } else { core.taken() };
        Ok(outlook)
    }

    /// Who says where a partition begins.
    pub fn why(&self, partition: PartitionId) -> String {
        if let Some(gap) = self.gaps.iter().find(|gap| gap.partition == partition) {
            return gap.reason.clone();
        }
        match (self.stops.is_some(), self.stored.contains_key(&partition)) {
            (true, _) => "nobody: it would stop",
            (false, true) => "the table",
            (false, false) if self.anchored.contains(&partition) => "the options, written first",
            (false, false) => "the options",
        }
        .to_owned()
    }
}

/// P9: what a reader would be told where the topic does not hold what comes next.
fn tell_gone(core: &mut Core, positions: &Frontier, holds: &BTreeMap<PartitionId, Bounds>) {
    for (&partition, &at) in positions {
        let bounds = holds[&partition];
        if at < bounds.oldest || at > bounds.end {
            core.on(Event::Gone { partition, at, bounds });
        }
    }
}
