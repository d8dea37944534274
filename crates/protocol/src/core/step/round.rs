//! One round of commits, sink after sink, the first sink first (P7).

use std::collections::{BTreeMap, VecDeque};

use super::{StepAction, StepCore, StepReason, Work, recover::Recovery};
use crate::core::commit::{Commit, Step};
use crate::core::{Outcome, Why};
use crate::ports::{Advance, Head};
use crate::position::{CommitId, PartitionId, SinkId, TableVersion};

/// The sinks that are still to be committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Round {
    /// The first one is under way.
    pub left: VecDeque<SinkId>,
    /// `None` while its batch is not sealed.
    pub commit: Option<Commit>,
}

impl Round {
    fn sink(&self) -> SinkId {
        *self.left.front().expect("a round has sinks left")
    }
}

impl StepCore {
    /// Commits what the circuit holds; `level` brings every other sink there as well. Nothing to do
    /// is no round.
    pub(super) fn begin_round(&mut self, level: bool) {
        let lags = |id: &SinkId| self.sink(*id).at != self.stepped;
        let mut left: VecDeque<SinkId> =
            self.plan.order().filter(|id| self.sink(*id).held || (level && lags(id))).collect();
        let journal = SinkId(0);
        if !left.is_empty() && !left.contains(&journal) && lags(&journal) {
            left.push_front(journal);
        }
        if !left.is_empty() {
            self.work = Work::Round(Round { left, commit: None });
        }
    }

    pub(super) fn next_of_round(&self, round: &Round) -> StepAction {
        let sink = round.sink();
        let Some(commit) = &round.commit else { return StepAction::Seal { sink } };
        match &commit.step {
            Step::Load => StepAction::Load { sink, partitions: self.asked() },
            Step::Put(permit) => StepAction::Put(permit.clone()),
            Step::Find(_) => {
                let from = commit.tried.expect("a search follows a try");
                StepAction::Find { sink, commit: commit.id, from }
            }
        }
    }

    fn round_mut(&mut self) -> &mut Round {
        match &mut self.work {
            Work::Round(round) => round,
            other => panic!("P1: an answer for a commit came amid {other:?}"),
        }
    }

    fn take_commit(&mut self) -> Commit {
        self.round_mut().commit.take().expect("P1: an answer for a commit came that was not asked for")
    }

    pub(super) fn sealed(&mut self, id: CommitId, rows: bool) {
        let sink = self.round_mut().sink();
        assert!(!rows || self.sink(sink).held, "P5: sink {} has rows though nothing was held of it", sink.0);
        let mut commit = Commit::new(sink, id, self.advances(sink));
        assert!(!commit.advances.is_empty(), "P5: sink {} is to be committed and does not move", sink.0);
        commit.gaps = self.owed(sink);
        for gap in &commit.gaps {
            let advance = commit.advances.get_mut(&gap.partition).expect("what goes over a gap moves");
            if advance.from == gap.from {
                advance.from = gap.to;
            }
        }
        commit.made_for = if rows { self.sink(sink).opened } else { None };
        self.round_mut().commit = Some(commit);
    }

    /// What a sink is still to be told: what moved, and what it says nothing of yet.
    fn advances(&self, sink: SinkId) -> BTreeMap<PartitionId, Advance> {
        let sink = self.sink(sink);
        let moved = self.stepped.iter().filter(|(p, to)| sink.stored.get(p) != Some(to));
        let advance = |p: &PartitionId, to| Advance { expect: sink.stored.get(p).copied(), from: sink.at[p], to };
        moved.map(|(p, to)| (*p, advance(p, *to))).collect()
    }

    pub(super) fn loaded(&mut self, head: Head) {
        match &self.work {
            Work::Recover(Recovery::Load(sink)) => {
                let sink = *sink;
                self.recover_loaded(sink, head);
            }
            _ => self.commit_loaded(head),
        }
    }

    fn commit_loaded(&mut self, head: Head) {
        let mut commit = self.take_commit();
        if let Err(reason) = self.see_again(commit.sink, &head) {
            return self.halt(reason);
        }
        if commit.tried.is_some() {
            commit.step = Step::Find(head);
            self.round_mut().commit = Some(commit);
        } else {
            self.judge_commit(commit, &head);
        }
    }

    /// As in a recovery; but a partition that we do not know was committed by somebody who runs beside us.
    fn see_again(&mut self, sink: SinkId, head: &Head) -> Result<(), StepReason> {
        match self.see(sink, head) {
            Err(StepReason::NoPartition { partition, .. }) => {
                let (expect, stored) = (None, head.frontier[&partition]);
                Err(StepReason::Fenced { by: format!("sink {}", self.plan.name(sink)), partition, expect, stored })
            }
            seen => seen,
        }
    }

    /// The compare of compare-and-swap.
    fn judge_commit(&mut self, mut commit: Commit, head: &Head) {
        let compared = commit.compare(head).and_then(|()| self.compare_rest(&commit, head));
        match self.bend_compare(compared, &mut commit, head) {
            Ok(()) => {
                commit.step = Step::Put(commit.permit(head));
                self.round_mut().commit = Some(commit);
            }
            Err(Why::Fenced { partition, expect, stored }) => {
                let by = format!("sink {}", self.plan.name(commit.sink));
                self.halt(StepReason::Fenced { by, partition, expect, stored });
            }
            Err(Why::Reshaped) => self.restart(Why::Reshaped),
            Err(why) => {
                let sink = self.plan.name(commit.sink);
                self.halt(StepReason::Broken { sink, why });
            }
        }
    }

    /// P8: what this commit does not move must stand where it stood as well, since the rows depend on it.
    fn compare_rest(&self, commit: &Commit, head: &Head) -> Result<(), Why> {
        let known = &self.sink(commit.sink).stored;
        let moved = head.frontier.iter().find(|(p, stored)| known.get(p) != Some(stored));
        match moved {
            Some((&partition, &stored)) => {
                Err(Why::Fenced { partition, expect: known.get(&partition).copied(), stored })
            }
            None => Ok(()),
        }
    }

    pub(super) fn put(&mut self, outcome: Outcome) {
        let mut commit = self.take_commit();
        let Step::Put(permit) = &commit.step else { panic!("P1: a put ended that had no permit") };
        let version = permit.version;
        match outcome {
            Outcome::Done => self.committed(&commit, version),
            Outcome::Taken | Outcome::Unknown => {
                commit.tried.get_or_insert(version);
                commit.step = Step::Load;
                self.round_mut().commit = Some(commit);
            }
        }
    }

    pub(super) fn found(&mut self, version: Option<TableVersion>) {
        let commit = self.take_commit();
        match (version, &commit.step) {
            (Some(version), _) => self.committed(&commit, version),
            (None, Step::Find(head)) => {
                let head = head.clone();
                self.judge_commit(commit, &head);
            }
            (None, _) => panic!("P1: a search ended that was not asked for"),
        }
    }

    /// The commit is there: on to the next sink.
    fn committed(&mut self, commit: &Commit, version: TableVersion) {
        let sink = self.sink_mut(commit.sink);
        sink.version = sink.version.max(Some(version));
        sink.held = false;
        for (&id, advance) in &commit.advances {
            sink.stored.insert(id, advance.to);
            sink.at.insert(id, advance.to);
        }
        self.tending.insert(commit.sink);
        let round = self.round_mut();
        round.left.pop_front();
        if round.left.is_empty() {
            self.work = Work::Announce;
        }
    }
}
