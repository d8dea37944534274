//! P9: input that is gone before it was taken in, where the user chose to go on without it.
//!
//! The break is written into every sink, the journal first (P7), in a commit of frontiers alone. All
//! sinks are brought to where it begins before that: so a span of theirs has one break at most, and at
//! its start. What the journal says of breaks is what a replay goes by, whatever the input holds by
//! then: were a record of a break there again, it would be in the state and in no table (P5).

use std::collections::BTreeSet;

use super::recover::Recovery;
use super::{StepCore, StepReason, Work};
use crate::core::OnGap;
use crate::ports::{Bounds, Gap};
use crate::position::{Offset, PartitionId, SinkId};

impl StepCore {
    pub(super) fn heard_gone(&mut self, partition: PartitionId, at: Offset, bounds: Bounds) {
        // Where nothing more of it is wanted for now it is told again, with the next start.
        let wanted = self.limit(partition).is_none_or(|limit| at < limit);
        if self.reading && wanted && self.taken.get(&partition) == Some(&at) {
            self.gone = Some((partition, bounds));
        }
    }

    /// Whether the user lets it pass: what no sink has, of a source that is to go on.
    pub(super) fn may_skip(&self, partition: PartitionId, bounds: Bounds) -> bool {
        let skips = self.plan.source(partition).on_gap == OnGap::Skip;
        skips && !self.is_replaying() && self.taken[&partition] < bounds.oldest
    }

    /// Why it can't go on, and where.
    pub(super) fn gone_for_good(&self, partition: PartitionId, Bounds { oldest, end }: Bounds) -> StepReason {
        let (at, replays) = (self.taken[&partition], self.is_replaying());
        if at > end && !replays {
            return StepReason::CutBack { partition, at, end };
        }
        StepReason::Gone { partition, at, oldest, end, replays }
    }

    /// All sinks stand where the circuit does. What else is gone has the same commits.
    pub(super) fn begin_bridge(&mut self) {
        let skips = |p: &&PartitionId| self.plan.source(**p).on_gap == OnGap::Skip;
        let unfinished = |p: &&PartitionId| self.end(**p).is_none_or(|end| self.taken[*p] < end);
        let asked: BTreeSet<_> = self.partitions.iter().filter(skips).filter(unfinished).copied().collect();
        self.gaps.clear();
        self.work = Work::Bridge(asked);
    }

    /// The input says what it has left of a partition.
    pub(super) fn bridge(&mut self, partition: PartitionId, Bounds { oldest, .. }: Bounds) {
        let Work::Bridge(left) = &mut self.work else { return };
        left.remove(&partition);
        let done = left.is_empty();
        let from = self.taken[&partition];
        if from < oldest {
            let reason = format!("deleted before it was read; on_gap = 'skip' went on at {oldest}");
            self.gaps.push(Gap { partition, from, to: oldest, reason });
        }
        if done {
            (self.gone, self.reading, self.work) = (None, false, Work::Settle);
        }
    }

    /// What the journal says of breaks above the checkpoint; `None` where its log does not reach back.
    pub(super) fn told_gaps(&mut self, told: Option<Vec<Gap>>) {
        assert!(self.work == Work::Recover(Recovery::Gaps), "P9: gaps were told that were not asked for");
        if told.is_none() && self.plan.sources.iter().any(|source| source.on_gap == OnGap::Skip) {
            return self.halt(StepReason::NoHistory { sink: self.plan.name(SinkId(0)) });
        }
        self.gaps = told.unwrap_or_default();
        self.work = Work::Settle;
    }

    /// A break that begins where the circuit stands, and that is to be gone over now.
    pub(super) fn gap_ahead(&self) -> Option<&Gap> {
        if self.gaps.is_empty() {
            return None;
        }
        let boundary = self.boundary();
        let within = |gap: &Gap| boundary.is_none_or(|end| end.get(&gap.partition).is_some_and(|end| *end > gap.from));
        self.gaps.iter().find(|gap| self.taken.get(&gap.partition) == Some(&gap.from) && within(gap))
    }

    /// Where the next break of a partition begins.
    pub(super) fn next_gap(&self, partition: PartitionId) -> Option<Offset> {
        let taken = self.taken.get(&partition)?;
        let ahead = self.gaps.iter().filter(|gap| gap.partition == partition && gap.from >= *taken);
        ahead.map(|gap| gap.from).min()
    }

    pub(super) fn passed(&mut self, partition: PartitionId, to: Offset) {
        self.taken.insert(partition, to);
        (self.reading, self.due) = (false, true);
    }

    /// Breaks that the circuit has gone over and a sink does not say yet.
    pub(super) fn owed(&self, sink: SinkId) -> Vec<Gap> {
        let at = &self.sink(sink).at;
        let is_owed = |gap: &&Gap| at[&gap.partition] <= gap.from && gap.to <= self.stepped[&gap.partition];
        self.gaps.iter().filter(is_owed).cloned().collect()
    }
}
