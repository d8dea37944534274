//! Where everything stands: the checkpoints first, then the sinks, the first one last. Whoever runs
//! beside us moves them in the other order, so that what is seen can't look worse than it is.

use std::collections::BTreeSet;

use super::{OnLostState, StepAction, StepCore, StepReason, Work, beyond};
use crate::core::{Beginning, Why};
use crate::ports::{Bounds, Checkpoint, Head, Restored};
use crate::position::{CheckpointNumber, CommitId, Frontier, PartitionId, SinkId};

/// How far a recovery is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Recovery {
    /// The input has not said yet what partitions it has.
    Hear,
    List,
    /// Read this sink, then the ones before it.
    Load(SinkId),
    /// A new pipeline: where these begin is asked from the input.
    Ask(BTreeSet<PartitionId>),
    Name,
    /// The beginning is the first checkpoint, so that a crash can't move it.
    Begin(Checkpoint),
    Restore(Checkpoint),
    /// P9: what breaks did the journal take, above the checkpoint?
    Gaps,
}

impl StepCore {
    pub(super) fn next_of_recovery(&self, recovery: &Recovery) -> StepAction {
        match recovery {
            Recovery::Hear => StepAction::Read,
            Recovery::List => StepAction::List,
            Recovery::Load(sink) => {
                let sink = self.bend_load(*sink);
                StepAction::Load { sink, partitions: self.asked() }
            }
            Recovery::Ask(partitions) => {
                StepAction::Ask { partition: *partitions.first().expect("a pipeline has partitions") }
            }
            Recovery::Name => StepAction::Name,
            Recovery::Begin(checkpoint) => StepAction::Save(checkpoint.clone()),
            Recovery::Restore(checkpoint) => match self.unopened() {
                Some(sink) => StepAction::Open { sink },
                None => StepAction::Restore(checkpoint.clone()),
            },
            Recovery::Gaps => StepAction::Gaps { sink: SinkId(0), above: self.stepped.clone() },
        }
    }

    /// Our partitions, and of each source the one after its last: a sink that knows it has seen more
    /// of the source than we.
    pub(super) fn asked(&self) -> BTreeSet<PartitionId> {
        let mut asked = self.partitions.clone();
        for partition in &self.partitions {
            asked.insert(PartitionId::of(partition.source(), partition.number() + 1));
        }
        asked
    }

    pub(super) fn recover_listed(&mut self, checkpoints: Vec<Checkpoint>) {
        self.keep(checkpoints);
        let last = self.plan.order().next_back().expect("a pipeline has sinks");
        self.work = Work::Recover(Recovery::Load(last));
    }

    /// Takes over what the store lists.
    pub(super) fn keep(&mut self, mut checkpoints: Vec<Checkpoint>) {
        let ordered = checkpoints.windows(2).all(|pair| pair[0].number < pair[1].number);
        assert!(ordered, "P4: checkpoints are listed out of order");
        if let Some(newest) = checkpoints.last() {
            self.number = self.number.max(CheckpointNumber(newest.number.0 + 1));
        }
        checkpoints.retain(|checkpoint| !self.hollow.contains(&checkpoint.number));
        self.kept = checkpoints;
    }

    pub(super) fn recover_loaded(&mut self, turn: SinkId, head: Head) {
        let sink = self.bend_load(turn);
        if let Err(reason) = self.see(sink, &head) {
            return self.halt(reason);
        }
        self.sink_mut(sink).stored = head.frontier;
        match turn.0.checked_sub(1) {
            Some(before) => self.work = Work::Recover(Recovery::Load(SinkId(before))),
            None => self.judge(),
        }
    }

    /// P9: what a load shows may only be more than what we knew.
    pub(super) fn see(&mut self, id: SinkId, head: &Head) -> Result<(), StepReason> {
        let name = || self.plan.name(id);
        let sink = self.sink(id);
        if let Some(breach) = &head.breach {
            return Err(StepReason::Broken { sink: name(), why: Why::Breached(breach.clone()) });
        }
        if let Some(seen) = sink.version.filter(|seen| head.version < *seen) {
            return Err(StepReason::RewoundLog { sink: name(), version: head.version, seen });
        }
        for (&partition, &expect) in &sink.stored {
            let stored = head.frontier.get(&partition).copied();
            if stored < Some(expect) {
                return Err(StepReason::Broken { sink: name(), why: Why::Rewound { partition, expect, stored } });
            }
        }
        if let Some(&partition) = head.frontier.keys().find(|p| !self.partitions.contains(p)) {
            return Err(StepReason::NoPartition { by: format!("sink {}", name()), partition });
        }
        let sink = self.sink_mut(id);
        (sink.version, sink.shape) = (Some(head.version), Some(head.shape));
        Ok(())
    }

    /// All is seen: where does the circuit begin?
    fn judge(&mut self) {
        let found = self.find_beginning();
        match self.bend_judge(found) {
            Ok(Some(checkpoint)) => self.restore_to(checkpoint),
            Ok(None) => self.work = Work::Recover(Recovery::Ask(self.partitions.clone())),
            // Who runs beside us may have begun, or removed what we listed, after we listed it.
            Err(StepReason::NoState { .. }) if !self.doubt => {
                (self.doubt, self.work) = (true, Work::Recover(Recovery::List));
            }
            Err(reason) => self.halt(reason),
        }
    }

    fn restore_to(&mut self, checkpoint: Checkpoint) {
        self.begun = checkpoint.begun.clone();
        self.set_sinks();
        self.work = Work::Recover(Recovery::Restore(checkpoint));
    }

    fn set_sinks(&mut self) {
        for n in 0..self.sinks.len() {
            (self.sinks[n].at, self.sinks[n].held) = (self.complete(&self.sinks[n].stored), false);
        }
    }

    /// The checkpoint to begin at; `None` where nothing was ever done.
    fn find_beginning(&mut self) -> Result<Option<Checkpoint>, StepReason> {
        let newest = match self.kept.last() {
            Some(newest) => newest.clone(),
            None => match self.without_state()? {
                Some(zero) => zero,
                None => return Ok(None),
            },
        };
        if let Some(&partition) = newest.frontier.keys().find(|p| !self.partitions.contains(p)) {
            return Err(StepReason::NoPartition { by: format!("checkpoint {}", newest.number), partition });
        }
        self.begun = newest.begun.clone();
        self.set_sinks();
        self.check_order()?;
        self.check_behind(&newest)?;
        self.check_seek()?;
        Ok(Some(newest))
    }

    /// No checkpoint: a new pipeline, or one that lost them.
    fn without_state(&self) -> Result<Option<Checkpoint>, StepReason> {
        let covered = self.plan.order().find_map(|sink| Some((sink, self.sink(sink).stored.first_key_value()?)));
        let Some((sink, (&partition, &stands))) = covered else { return Ok(None) };
        match self.plan.on_lost_state {
            OnLostState::Stop => Err(StepReason::NoState { sink: self.plan.name(sink), partition, stands }),
            OnLostState::Replay => Ok(Some(Self::empty(CommitId(0), Frontier::new()))),
        }
    }

    /// The empty circuit at a beginning.
    fn empty(id: CommitId, begun: Frontier) -> Checkpoint {
        Checkpoint { number: CheckpointNumber(0), id, frontier: begun.clone(), begun, state: None }
    }

    /// P7: nobody is ahead of the first sink, and any two are ordered.
    fn check_order(&self) -> Result<(), StepReason> {
        let sinks: Vec<SinkId> = self.plan.order().collect();
        for (n, &low) in sinks.iter().enumerate() {
            for &high in &sinks[..n] {
                let ahead = beyond(&self.sink(low).at, &self.sink(high).at);
                let behind = beyond(&self.sink(high).at, &self.sink(low).at);
                let Some((partition, stands, below)) = ahead.filter(|_| high.0 == 0 || behind.is_some()) else {
                    continue;
                };
                let (sink, journal) = (self.plan.name(low), self.plan.name(high));
                return Err(StepReason::Unordered { sink, journal, partition, stands, below });
            }
        }
        Ok(())
    }

    /// P4: no sink is behind the checkpoint.
    fn check_behind(&self, newest: &Checkpoint) -> Result<(), StepReason> {
        for id in self.plan.order() {
            if let Some((partition, covers, stands)) = beyond(&newest.frontier, &self.sink(id).at) {
                let (number, sink) = (newest.number, self.plan.name(id));
                return Err(StepReason::Ahead { number, sink, partition, covers, stands });
            }
        }
        Ok(())
    }

    fn check_seek(&self) -> Result<(), StepReason> {
        let at = &self.sinks[0].at;
        let seek = self.plan.seek.iter().filter(|(p, _)| at.contains_key(p)).map(|(p, seek)| (*p, *seek)).collect();
        match beyond(&seek, at) {
            Some((partition, seek, stored)) => Err(StepReason::SeekAhead { partition, stored, seek }),
            None => Ok(()),
        }
    }

    pub(super) fn bounds(&mut self, partition: PartitionId, bounds: Bounds) {
        if matches!(self.work, Work::Bridge(_)) {
            return self.bridge(partition, bounds);
        }
        let Bounds { oldest, end } = bounds;
        let Work::Recover(Recovery::Ask(left)) = &mut self.work else { return };
        left.remove(&partition);
        let done = left.is_empty();
        let at = match self.plan.seek.get(&partition) {
            Some(&at) if oldest <= at && at <= end => at,
            Some(&at) => return self.halt(StepReason::SeekOutside { partition, at, oldest, end }),
            None if self.plan.source(partition).beginning == Beginning::Latest => end,
            None => oldest,
        };
        self.begun.insert(partition, at);
        if done {
            self.work = Work::Recover(Recovery::Name);
        }
    }

    pub(super) fn beginning_named(&mut self, id: CommitId) {
        self.work = Work::Recover(Recovery::Begin(Self::empty(id, self.begun.clone())));
    }

    /// Ours or another process's: what is there is the beginning. It has one number only, so that there
    /// can't be two.
    pub(super) fn beginning_saved(&mut self) {
        self.begun = Frontier::new();
        self.work = Work::Recover(Recovery::List);
    }

    pub(super) fn restored(&mut self, restored: Restored) {
        let Work::Recover(Recovery::Restore(checkpoint)) = &self.work else {
            panic!("P4: a restore ended that was not asked for");
        };
        let checkpoint = checkpoint.clone();
        match restored {
            Restored::Missing => {
                self.hollow.insert(checkpoint.number);
                self.kept.retain(|kept| kept.number != checkpoint.number);
                self.judge();
            }
            Restored::Done => {
                self.stepped = self.complete(&checkpoint.frontier);
                self.taken = self.stepped.clone();
                (self.reading, self.due, self.lost_at, self.doubt) = (false, false, None, false);
                (self.gone, self.gaps) = (None, Vec::new());
                self.work = if self.is_replaying() { Work::Recover(Recovery::Gaps) } else { Work::Settle };
            }
        }
    }
}
