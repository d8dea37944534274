//! Ways to break the core on purpose: the model proves that each is caught. Without the feature
//! `breaks`, `sound.rs` stands in this file's place.

use std::sync::Arc;

use super::recover::Recovery;
use super::round::Round;
use super::save::Saving;
use super::{StepAction, StepCore, StepEvent, StepPlan, StepReason, Work};
use crate::core::commit::{Commit, Step};
use crate::core::{Ending, Outcome, Why};
use crate::ports::{Checkpoint, Gap, Head, Restored, Stopping};
use crate::position::{CommitId, Frontier, SinkId};

/// One deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepBreak {
    /// Puts without looking at the sink's frontier.
    SkipCompare,
    /// Compares only the partitions that the commit moves.
    CompareMovedOnly,
    /// Takes over what the sink says after being fenced, and puts what it holds.
    KeepAfterFence,
    /// Commits the first sink last.
    JournalLast,
    /// Counts a put without an answer as done.
    UnknownIsDone,
    /// Does not look for its own commit.
    NeverFind,
    /// Looks for its own commit only above the newest version.
    FindTooLate,
    /// Names each batch as the first one.
    ReuseCommitId,
    /// Commits data made for another shape.
    ForgetShape,
    /// Keeps what a replay makes for sinks that have it.
    NoSuppress,
    /// Takes a sink that lags for one that does not.
    SkipLagging,
    /// Crosses a sink's frontier in one step.
    CrossBoundary,
    /// Reads the first sink before the others when it recovers.
    JournalFirst,
    /// Restores a checkpoint that covers what a sink does not have.
    IgnoreAhead,
    /// Takes a sink ahead of the first one for good.
    IgnoreOrder,
    /// Takes a state that is not there for restored.
    IgnoreMissing,
    /// Begins without writing down where.
    NoBeginning,
    /// Passes over input that is gone.
    SilentGap,
    /// Goes over a break without writing it down.
    GapUnwritten,
    /// Writes a break into the first sink alone.
    GapInJournalOnly,
    /// Goes over a break while sinks lag.
    GapUnlevelled,
    /// Replays without the breaks that the journal says.
    ForgetGaps,
    /// Skips what is gone also where sinks have it.
    SkipAmidReplay,
    /// Makes a checkpoint while sinks lag.
    SaveAhead,
    /// Makes a checkpoint while the circuit has not stepped what was pushed.
    SaveAmid,
    /// Puts the manifest while the state is being saved.
    ManifestFirst,
    /// Says of a saved state that it covers what the circuit covers by then.
    SaveLate,
    /// Begins to save while that is under way.
    SaveTwice,
    /// Lets the source delete what a checkpoint will cover once it is saved.
    TrimBegun,
    /// Keeps no checkpoint but the newest.
    KeepOne,
    /// Removes the newest checkpoint as well.
    RemoveNewest,
    /// Lets the source delete what the newest checkpoint covers.
    TrimNewest,
    /// Lets the source delete what the sinks have.
    TrimUncovered,
    /// Ends while sinks lag.
    EndLagging,
}

impl StepBreak {
    /// All of them.
    pub const ALL: [Self; 34] = [
        Self::SkipCompare,
        Self::CompareMovedOnly,
        Self::KeepAfterFence,
        Self::JournalLast,
        Self::UnknownIsDone,
        Self::NeverFind,
        Self::FindTooLate,
        Self::ReuseCommitId,
        Self::ForgetShape,
        Self::NoSuppress,
        Self::SkipLagging,
        Self::CrossBoundary,
        Self::JournalFirst,
        Self::IgnoreAhead,
        Self::IgnoreOrder,
        Self::IgnoreMissing,
        Self::NoBeginning,
        Self::SilentGap,
        Self::GapUnwritten,
        Self::GapInJournalOnly,
        Self::GapUnlevelled,
        Self::ForgetGaps,
        Self::SkipAmidReplay,
        Self::SaveAhead,
        Self::SaveAmid,
        Self::ManifestFirst,
        Self::SaveLate,
        Self::SaveTwice,
        Self::TrimBegun,
        Self::KeepOne,
        Self::RemoveNewest,
        Self::TrimNewest,
        Self::TrimUncovered,
        Self::EndLagging,
    ];
}

/// The fault, and what it remembers that a sound core does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Bent {
    fault: Option<StepBreak>,
    id: Option<CommitId>,
}

impl StepCore {
    /// A process with a deliberate fault.
    #[must_use]
    pub fn broken(plan: Arc<StepPlan>, fault: StepBreak) -> Self {
        let mut core = Self::new(plan);
        core.bent.fault = Some(fault);
        core
    }

    fn breaks(&self, fault: StepBreak) -> bool {
        self.bent.fault == Some(fault)
    }

    pub(super) fn bend_next(&self, action: StepAction) -> StepAction {
        match (self.bent.fault, action) {
            (Some(StepBreak::NoSuppress), StepAction::Step { from, to, .. }) => {
                StepAction::Step { from, to, wanted: self.plan.order().collect() }
            }
            (Some(StepBreak::FindTooLate), StepAction::Find { sink, commit, .. }) => {
                let newest = self.sink(sink).version.expect("a search follows a load");
                StepAction::Find { sink, commit, from: newest.next() }
            }
            (Some(StepBreak::GapUnwritten), StepAction::Put(mut permit)) => {
                permit.gaps.clear();
                StepAction::Put(permit)
            }
            (Some(StepBreak::GapInJournalOnly), StepAction::Put(mut permit)) if permit.sink != SinkId(0) => {
                permit.gaps.clear();
                StepAction::Put(permit)
            }
            (Some(StepBreak::TrimNewest), StepAction::Trim { .. }) => {
                StepAction::Trim { below: self.kept.last().expect("one is kept").frontier.clone() }
            }
            (Some(StepBreak::TrimUncovered), StepAction::Announce { frontier }) => StepAction::Trim { below: frontier },
            (_, action) => action,
        }
    }

    pub(super) fn bend_event(&mut self, event: StepEvent) -> Option<StepEvent> {
        let Some(fault) = self.bent.fault else { return Some(event) };
        match (fault, event) {
            (StepBreak::UnknownIsDone, StepEvent::Put(Outcome::Unknown)) => Some(StepEvent::Put(Outcome::Done)),
            (StepBreak::ReuseCommitId, StepEvent::Sealed { id, rows }) => {
                Some(StepEvent::Sealed { id: *self.bent.id.get_or_insert(id), rows })
            }
            (StepBreak::IgnoreMissing, StepEvent::Restored(_)) => Some(StepEvent::Restored(Restored::Done)),
            (StepBreak::SilentGap, StepEvent::Gone { partition, bounds, .. }) => {
                self.taken.insert(partition, bounds.oldest);
                self.reading = false;
                None
            }
            (StepBreak::ForgetGaps, StepEvent::Gaps(_)) => Some(StepEvent::Gaps(Some(Vec::new()))),
            (StepBreak::SkipAmidReplay, StepEvent::Gone { partition, bounds, .. }) if self.is_replaying() => {
                let from = self.taken[&partition];
                self.gaps.push(Gap { partition, from, to: bounds.oldest, reason: String::new() });
                None
            }
            (StepBreak::SaveAhead, StepEvent::SaveDue) if self.work == Work::Settle && !self.is_holding() => {
                self.work = Work::Save(Saving::Name);
                None
            }
            (StepBreak::SaveTwice, StepEvent::SaveDue) => {
                self.saving = None;
                Some(StepEvent::SaveDue)
            }
            (StepBreak::SaveAmid, StepEvent::SaveDue) if self.work == Work::Settle && !self.is_replaying() => {
                self.stepped = self.taken.clone();
                self.work = Work::Save(Saving::Name);
                None
            }
            (_, event) => Some(event),
        }
    }

    pub(super) fn bend_state(&mut self) {
        let holds = self.is_holding();
        match (self.bent.fault, &mut self.work) {
            (
                Some(StepBreak::NeverFind),
                Work::Round(Round { commit: Some(Commit { step: Step::Find(_), .. }), .. }),
            ) => {
                self.found(None);
            }
            (Some(StepBreak::JournalLast), Work::Round(round)) if round.commit.is_none() && round.left.len() > 1 => {
                let first = round.left.iter().position(|sink| *sink == SinkId(0));
                if let Some(sink) = first.and_then(|n| round.left.remove(n)) {
                    round.left.push_back(sink);
                }
            }
            (Some(StepBreak::ManifestFirst), Work::Settle) if self.saving.is_some() => self.finished(Vec::new()),
            (Some(StepBreak::SaveLate), Work::Save(Saving::Put(late))) => late.frontier = self.stepped.clone(),
            (Some(StepBreak::TrimBegun), Work::Settle) if self.saving.is_some() && self.trimmed != self.stepped => {
                self.work = Work::Save(Saving::Trim(self.stepped.clone()));
            }
            (Some(StepBreak::SkipLagging), Work::Recover(Recovery::Restore(_))) => {
                let journal = self.sinks[0].at.clone();
                self.sinks.iter_mut().for_each(|sink| sink.at = journal.clone());
            }
            (Some(StepBreak::NoBeginning), Work::Recover(Recovery::Begin(beginning))) => {
                let beginning = beginning.clone();
                self.sinks.iter_mut().for_each(|sink| sink.at = beginning.frontier.clone());
                self.work = Work::Recover(Recovery::Restore(beginning));
            }
            (Some(StepBreak::KeepOne), Work::Save(Saving::Trim(_) | Saving::Remove(_))) => {
                let older = self.kept[..self.kept.len() - 1].to_vec();
                self.work = Work::Save(Saving::Remove(older));
            }
            (Some(StepBreak::RemoveNewest), Work::Save(Saving::Remove(old))) => {
                old.extend(self.kept.last().cloned());
            }
            (Some(StepBreak::GapUnlevelled), Work::Settle) if self.gone.is_some() && !holds => self.begin_bridge(),
            (Some(StepBreak::EndLagging), Work::Settle) if self.stopping == Stopping::Gracefully && !holds => {
                self.ending = Some(Ending::Stopped);
            }
            _ => {}
        }
    }

    pub(super) fn bend_boundary<'a>(&self, boundary: Option<&'a Frontier>) -> Option<&'a Frontier> {
        boundary.filter(|_| !self.breaks(StepBreak::CrossBoundary))
    }

    pub(super) fn bend_load(&self, turn: SinkId) -> SinkId {
        let last = self.plan.order().next_back().expect("a pipeline has sinks");
        if self.breaks(StepBreak::JournalFirst) { SinkId(last.0 - turn.0) } else { turn }
    }

    pub(super) fn bend_judge(
        &self,
        found: Result<Option<Checkpoint>, StepReason>,
    ) -> Result<Option<Checkpoint>, StepReason> {
        match (self.bent.fault, found) {
            (Some(StepBreak::IgnoreAhead), Err(StepReason::Ahead { .. }))
            | (Some(StepBreak::IgnoreOrder), Err(StepReason::Unordered { .. })) => Ok(self.kept.last().cloned()),
            (_, found) => found,
        }
    }

    pub(super) fn bend_compare(
        &mut self,
        compared: Result<(), Why>,
        commit: &mut Commit,
        head: &Head,
    ) -> Result<(), Why> {
        match (self.bent.fault, compared) {
            (Some(StepBreak::SkipCompare), _) | (Some(StepBreak::ForgetShape), Err(Why::Reshaped)) => Ok(()),
            (Some(StepBreak::CompareMovedOnly), Err(Why::Fenced { .. })) => commit.compare(head),
            (Some(StepBreak::KeepAfterFence), Err(Why::Fenced { .. })) => {
                for (id, advance) in &mut commit.advances {
                    advance.expect = head.frontier.get(id).copied();
                }
                self.sink_mut(commit.sink).stored = head.frontier.clone();
                Ok(())
            }
            (_, compared) => compared,
        }
    }

    pub(super) fn bend_assert(&self, holds: bool, what: &str) {
        let forced = self.breaks(StepBreak::SaveAhead) || self.breaks(StepBreak::SaveAmid);
        assert!(holds || forced, "{what}");
    }
}
