//! A checkpoint: its save begun, and finished while steps go on; named by a manifest, seen again; then what is older
//! may go.

use super::{StepAction, StepCore, StepReason, Work, beyond, is_within, recover::Recovery};
use crate::core::Outcome;
use crate::ports::Checkpoint;
use crate::position::{CheckpointNumber, CommitId, Frontier};

/// Readable checkpoints that stay: should the newest be lost, the one before it is there.
const KEEP: usize = 2;

/// A save that is under way: under which name, and what its state covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Begun {
    id: CommitId,
    frontier: Frontier,
    /// Where the pipeline began, as far as that was known.
    begun: Frontier,
}

/// How far a checkpoint is, where it holds up everything else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Saving {
    Name,
    Prepare(CommitId),
    Put(Checkpoint),
    /// Was it put? And what else is there?
    List {
        ours: Checkpoint,
        done: bool,
    },
    Remove(Vec<Checkpoint>),
    Trim(Frontier),
}

impl StepCore {
    /// The circuit's state is being saved meanwhile.
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// P4: sinks first, then the checkpoint.
    pub(super) fn level_and_save(&mut self, leaving: bool) {
        self.begin_round(true);
        if self.work != Work::Settle {
            return;
        }
        if self.is_saving() {
            self.work = Work::Finish;
            return;
        }
        if self.is_unsaved() && self.lost_at.as_ref() != Some(&self.stepped) {
            self.work = Work::Save(Saving::Name);
            return;
        }
        self.save = false;
        if leaving {
            self.leave();
        }
    }

    pub(super) fn next_of_saving(&self, saving: &Saving) -> StepAction {
        match saving {
            Saving::Name => StepAction::Name,
            Saving::Prepare(id) => StepAction::Prepare { id: *id },
            Saving::Put(checkpoint) => StepAction::Save(checkpoint.clone()),
            Saving::List { .. } => StepAction::List,
            Saving::Remove(old) => StepAction::Remove(old.clone()),
            Saving::Trim(below) => StepAction::Trim { below: below.clone() },
        }
    }

    pub(super) fn named(&mut self, id: CommitId) {
        match self.work {
            Work::Recover(Recovery::Name) => self.beginning_named(id),
            Work::Save(Saving::Name) => self.work = Work::Save(Saving::Prepare(id)),
            _ => panic!("P4: a name came that was not asked for"),
        }
    }

    pub(super) fn prepared(&mut self) {
        let Work::Save(Saving::Prepare(id)) = self.work else {
            panic!("P4: a save was begun that was not asked for");
        };
        self.bend_assert(self.sinks.iter().all(|sink| sink.at == self.stepped), "P4: a sink is not at the checkpoint");
        self.saving = Some(Begun { id, frontier: self.stepped.clone(), begun: self.complete(&self.begun) });
        (self.save, self.work) = (false, Work::Settle);
    }

    pub(super) fn finished(&mut self, state: Vec<u8>) {
        let Begun { id, frontier, begun } = self.end_saving();
        let behind = self.sinks.iter().all(|sink| is_within(&frontier, &sink.at));
        self.bend_assert(behind, "P4: a sink is behind the checkpoint");
        let (number, state) = (self.number, Some(state));
        self.work = Work::Save(Saving::Put(Checkpoint { number, id, frontier, begun, state }));
    }

    /// Whoever leaves begins another one; else it is made when the next one is due.
    pub(super) fn failed(&mut self) {
        self.end_saving();
        self.work = Work::Settle;
    }

    fn end_saving(&mut self) -> Begun {
        assert!(matches!(self.work, Work::Settle | Work::Finish), "P4: a save ended amid {:?}", self.work);
        self.saving.take().expect("P4: a save ended that was not begun")
    }

    pub(super) fn saved(&mut self, outcome: Outcome) {
        match &self.work {
            Work::Recover(Recovery::Begin(_)) => self.beginning_saved(),
            Work::Save(Saving::Put(ours)) => {
                let ours = ours.clone();
                if outcome == Outcome::Taken {
                    self.number = CheckpointNumber(ours.number.0 + 1);
                }
                self.work = Work::Save(Saving::List { ours, done: outcome == Outcome::Done });
            }
            _ => panic!("P4: a manifest was put that was not asked for"),
        }
    }

    pub(super) fn listed(&mut self, checkpoints: Vec<Checkpoint>) {
        match &self.work {
            Work::Save(Saving::List { ours, done }) => {
                let (ours, done) = (ours.clone(), *done);
                self.keep(checkpoints);
                self.look_for(ours, done);
            }
            _ => self.recover_listed(checkpoints),
        }
    }

    fn look_for(&mut self, mut ours: Checkpoint, done: bool) {
        // P8: who saved something beyond ours has taken the pipeline over. To save once more would put
        // an older state above a newer one.
        let newest = self.kept.last().map(|newest| self.complete(&newest.frontier));
        if let Some((partition, stored, expect)) = newest.and_then(|newest| beyond(&newest, &ours.frontier)) {
            let by = "the newest checkpoint".to_owned();
            return self.halt(StepReason::Fenced { by, partition, expect: Some(expect), stored });
        }
        if self.kept.iter().any(|kept| kept.id == ours.id) {
            return self.clear_out();
        }
        if done {
            // Lost since. What is there stays as it is.
            self.lost_at = Some(ours.frontier);
            self.work = Work::Settle;
            return;
        }
        ours.number = self.number.max(ours.number);
        self.work = Work::Save(Saving::Put(ours));
    }

    /// The checkpoint counts: what is older than the one before it is not needed.
    fn clear_out(&mut self) {
        let old = self.kept[..self.kept.len().saturating_sub(KEEP)].to_vec();
        if old.is_empty() { self.trim() } else { self.work = Work::Save(Saving::Remove(old)) }
    }

    pub(super) fn removed(&mut self) {
        let Work::Save(Saving::Remove(old)) = &self.work else {
            panic!("P4: checkpoints were removed that were not asked for");
        };
        let old = old.clone();
        self.kept.retain(|kept| !old.contains(kept));
        self.trim();
    }

    /// P3: every checkpoint that stays covers it, and so does every sink.
    fn trim(&mut self) {
        let oldest = self.kept.first().map(|oldest| &oldest.frontier).into_iter().flatten();
        let below: Frontier = oldest.filter(|(p, _)| self.plan.source(**p).trims).map(|(p, at)| (*p, *at)).collect();
        let saved = self.kept.iter().all(|kept| is_within(&below, &kept.frontier));
        let covered = saved && self.sinks.iter().all(|sink| is_within(&below, &sink.at));
        let news = !is_within(&below, &self.trimmed);
        if self.kept.len() >= KEEP && covered && news {
            self.work = Work::Save(Saving::Trim(below));
        } else {
            self.work = Work::Settle;
        }
    }

    pub(super) fn trimmed(&mut self) {
        if let Work::Save(Saving::Trim(below)) = &self.work {
            self.trimmed = below.clone();
        }
        self.work = Work::Settle;
    }
}
