//! Decides what a pipeline by step does next: all partitions of its sources, one circuit, sinks in a
//! fixed order, one store of checkpoints. Never does it.
//!
//! [`StepCore`] is to this what [`Core`](super::Core) is to running by partition: `next` names one
//! [`StepAction`], `on` takes in what happened; the compare and the search for a commit are the same
//! ones. Read `Work`, then `next`, then `conclude`.
//!
//! Three frontiers, each a vector over all partitions: `taken` (pushed into the circuit), `stepped`
//! (what its state covers), and `at` of each sink. Invariants (docs/protocol.md):
//! - P4: a checkpoint is begun only where every sink stands exactly at `stepped`. While its state is saved, steps
//!   and commits go on, so its manifest says where it was begun.
//! - P5: below a sink's `at` its changes are not kept; a step never crosses any sink's `at`.
//! - P7: a sink's `at` never passes the first sink's.
//! - P8: a commit expects *all* partitions where they were, also those that it does not move.
//!
//! One way out of every doubt: back to the newest checkpoint and to what the sinks say.
//!
//! Deliberately absent: retries, time, sizes (`drive/step.rs`).

// Deliberate faults, for the model: nothing of it in what ships.
#[cfg_attr(not(feature = "breaks"), path = "step/sound.rs")]
mod broken;
mod gap;
mod plan;
mod reason;
mod recover;
mod round;
mod save;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

#[cfg(feature = "breaks")]
pub use broken::StepBreak;
pub use plan::{OnLostState, SourcePlan, StepPlan};
pub use reason::StepReason;
pub use words::{StepAction, StepEvent};

use recover::Recovery;
use round::Round;
use save::{Begun, Saving};

use super::{Admit, Ending, Why};
use crate::ports::{Bounds, Checkpoint, Gap, Stopping};
use crate::position::{CheckpointNumber, Frontier, Offset, PartitionId, Shape, SinkId, TableVersion};

/// What one process knows and wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepCore {
    plan: Arc<StepPlan>,
    /// All that the input has.
    partitions: BTreeSet<PartitionId>,
    sinks: Vec<Sink>,
    /// The checkpoints that can be read, oldest first.
    kept: Vec<Checkpoint>,
    /// Listed, but their state is not there.
    hollow: BTreeSet<CheckpointNumber>,
    /// The number that the next checkpoint tries.
    number: CheckpointNumber,
    /// No checkpoint was listed though sinks hold data: it is looked at once more.
    doubt: bool,
    begun: Frontier,
    /// What was pushed into the circuit.
    taken: Frontier,
    /// What the circuit's state covers.
    stepped: Frontier,
    /// A checkpoint of this frontier was put, and is not listed.
    lost_at: Option<Frontier>,
    work: Work,
    /// What is pushed is to be stepped.
    due: bool,
    /// A checkpoint is to be made.
    save: bool,
    /// The circuit saves its state meanwhile.
    saving: Option<Begun>,
    /// The input delivers from `taken`.
    reading: bool,
    /// The input does not hold what comes next.
    gone: Option<(PartitionId, Bounds)>,
    /// Breaks that the user accepted: the journal says so of those above `stepped`, or will say so of
    /// the newest ones, which begin there.
    gaps: Vec<Gap>,
    tending: BTreeSet<SinkId>,
    trimmed: Frontier,
    stopping: Stopping,
    ending: Option<Ending>,
    stop: Option<StepReason>,
    bent: broken::Bent,
}

/// A sink, as far as we know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Sink {
    /// What it says, or we last made it say.
    stored: Frontier,
    /// The same for every partition: where it says nothing, the beginning.
    at: Frontier,
    version: Option<TableVersion>,
    /// As of the last load.
    shape: Option<Shape>,
    /// What the circuit is open for.
    opened: Option<Shape>,
    /// The circuit holds changes of it.
    held: bool,
}

/// What is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "a core has one of them, and it is not moved in a hot path")]
enum Work {
    /// Find out where everything stands, and bring the circuit there.
    Recover(Recovery),
    /// Read.
    Settle,
    /// P9: what has the input left of these? It goes on over what is gone.
    Bridge(BTreeSet<PartitionId>),
    /// The circuit takes in what was pushed.
    Step,
    /// Commits, sink after sink.
    Round(Round),
    Announce,
    /// A checkpoint.
    Save(Saving),
    /// The end of a save that is under way is waited for.
    Finish,
    Discard(Why),
}

impl StepCore {
    /// A process that knows nothing yet.
    #[must_use]
    pub fn new(plan: Arc<StepPlan>) -> Self {
        let sinks = plan.sinks.iter().map(|_| Sink::default()).collect();
        Self {
            plan,
            partitions: BTreeSet::new(),
            sinks,
            kept: Vec::new(),
            hollow: BTreeSet::new(),
            number: CheckpointNumber(0),
            doubt: false,
            begun: Frontier::new(),
            taken: Frontier::new(),
            stepped: Frontier::new(),
            lost_at: None,
            work: Work::Recover(Recovery::Hear),
            due: false,
            save: false,
            saving: None,
            reading: false,
            gone: None,
            gaps: Vec::new(),
            tending: BTreeSet::new(),
            trimmed: Frontier::new(),
            stopping: Stopping::No,
            ending: None,
            stop: None,
            bent: broken::Bent::default(),
        }
    }

    /// What to do now.
    #[must_use]
    pub fn next(&self) -> StepAction {
        self.bend_next(self.sound_next())
    }

    fn sound_next(&self) -> StepAction {
        if self.stopping == Stopping::AtOnce {
            return StepAction::End(Ending::Aborted);
        }
        if let Some(reason) = &self.stop {
            return StepAction::Stop(reason.clone());
        }
        match &self.work {
            Work::Recover(recovery) => self.next_of_recovery(recovery),
            Work::Settle => self.settle(),
            Work::Bridge(left) => StepAction::Ask { partition: *left.first().expect("one is gone at least") },
            Work::Step => {
                StepAction::Step { from: self.stepped.clone(), to: self.taken.clone(), wanted: self.wanted() }
            }
            Work::Round(round) => self.next_of_round(round),
            Work::Announce => StepAction::Announce { frontier: self.stepped.clone() },
            Work::Save(saving) => self.next_of_saving(saving),
            Work::Finish => StepAction::Finish,
            Work::Discard(why) => StepAction::Discard(why.clone()),
        }
    }

    fn settle(&self) -> StepAction {
        if let Some(&sink) = self.tending.first() {
            return StepAction::Tend { sink };
        }
        if let Some(ending) = self.ending {
            let partitions = self.partitions.clone();
            return if partitions.is_empty() { StepAction::End(ending) } else { StepAction::Release { partitions } };
        }
        // A load may have shown a new shape; what is held of the old one can't be committed, see `conclude`.
        if let Some(sink) = self.unopened() {
            return StepAction::Open { sink };
        }
        if let Some(gap) = self.gap_ahead() {
            return StepAction::Pass { partition: gap.partition, from: gap.from, to: gap.to };
        }
        if self.reading { StepAction::Read } else { StepAction::Start { positions: self.taken.clone() } }
    }

    fn unopened(&self) -> Option<SinkId> {
        self.plan.order().find(|sink| self.sink(*sink).opened != self.sink(*sink).shape)
    }

    fn sink(&self, sink: SinkId) -> &Sink {
        &self.sinks[usize::from(sink.0)]
    }

    fn sink_mut(&mut self, sink: SinkId) -> &mut Sink {
        &mut self.sinks[usize::from(sink.0)]
    }

    /// Where a partition began.
    fn home(&self, partition: PartitionId) -> Offset {
        self.begun.get(&partition).copied().unwrap_or(Offset::ZERO)
    }

    /// A position for every partition.
    fn complete(&self, frontier: &Frontier) -> Frontier {
        let place = |p: &PartitionId| frontier.get(p).copied().unwrap_or_else(|| self.home(*p));
        self.partitions.iter().map(|p| (*p, place(p))).collect()
    }

    /// How many sinks the plan names.
    #[must_use]
    pub fn sinks(&self) -> usize {
        self.sinks.len()
    }

    /// Whether the circuit is still below what the first sink has.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        !is_within(&self.sinks[0].at, &self.stepped)
    }

    /// The next place that a step may not cross: what some sink has and the circuit has not.
    fn boundary(&self) -> Option<&Frontier> {
        let ahead = self.sinks.iter().map(|sink| &sink.at).filter(|at| !is_within(at, &self.stepped));
        self.bend_boundary(ahead.reduce(|low, at| if is_within(at, low) { at } else { low }))
    }

    /// Sinks that have nothing beyond what the circuit covers.
    fn wanted(&self) -> BTreeSet<SinkId> {
        self.plan.order().filter(|sink| is_within(&self.sink(*sink).at, &self.stepped)).collect()
    }

    /// Something is pushed and not stepped.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.taken != self.stepped
    }

    /// Whether there is anything that a checkpoint would save.
    #[must_use]
    pub fn is_unsaved(&self) -> bool {
        self.is_holding() || self.kept.last().is_none_or(|newest| self.complete(&newest.frontier) != self.stepped)
    }

    /// How far the input is pushed, and how far the circuit covers it.
    #[must_use]
    pub fn progress(&self) -> (&Frontier, &Frontier) {
        (&self.taken, &self.stepped)
    }

    /// Where a partition's reading ends, if it does.
    fn end(&self, partition: PartitionId) -> Option<Offset> {
        let ends = self.plan.ends.as_ref()?;
        let asked = ends.get(&partition).copied().unwrap_or(Offset::ZERO);
        Some(self.sinks[0].at.get(&partition).map_or(asked, |at| asked.max(*at)))
    }

    /// Up to where a partition's records are wanted now.
    fn limit(&self, partition: PartitionId) -> Option<Offset> {
        let limit = match self.boundary() {
            Some(boundary) => boundary.get(&partition).copied(),
            None => self.end(partition),
        };
        [limit, self.next_gap(partition)].into_iter().flatten().min()
    }

    fn is_finished(&self) -> bool {
        self.plan.ends.is_some() && self.partitions.iter().all(|p| Some(self.taken[p]) >= self.end(*p))
    }

    /// Whether a partition's next records are wanted, and up to where.
    pub fn admit(&self, partition: PartitionId) -> Admit {
        let Some(&taken) = self.taken.get(&partition) else { return Admit::No };
        if self.work != Work::Settle || !self.reading {
            return Admit::No;
        }
        let limit = self.limit(partition);
        if limit.is_some_and(|limit| taken >= limit) { Admit::No } else { Admit::Below(limit) }
    }

    /// Takes in what happened.
    ///
    /// # Panics
    /// P2: when records do not follow on the last ones, or an answer comes that was not asked for.
    pub fn on(&mut self, event: StepEvent) {
        let Some(event) = self.bend_event(event) else { return };
        self.hear(event);
        self.bend_state();
        self.conclude();
    }

    fn hear(&mut self, event: StepEvent) {
        match event {
            StepEvent::Gained(partitions) => self.gained(partitions),
            StepEvent::Lost(partitions) => {
                let partition = *partitions.first().expect("something is lost");
                self.halt(StepReason::Shared { partition });
            }
            StepEvent::Taken { partition, from, to } => self.took(partition, from, to),
            StepEvent::Reached { partition, end } => self.reached(partition, end),
            StepEvent::Gone { partition, at, bounds } => self.heard_gone(partition, at, bounds),
            StepEvent::Due => self.due = self.is_holding(),
            StepEvent::SaveDue => self.save = self.is_unsaved() && !self.is_saving(),
            StepEvent::Stopping(stopping) => self.stopping = stopping,
            StepEvent::Listed(checkpoints) => self.listed(checkpoints),
            StepEvent::Loaded(head) => self.loaded(head),
            StepEvent::Bounds { partition, bounds } => self.bounds(partition, bounds),
            StepEvent::Named(id) => self.named(id),
            StepEvent::Opened(sink) => {
                let sink = self.sink_mut(sink);
                sink.opened = sink.shape;
            }
            StepEvent::Restored(restored) => self.restored(restored),
            StepEvent::Gaps(gaps) => self.told_gaps(gaps),
            StepEvent::Passed { partition, to } => self.passed(partition, to),
            StepEvent::Started => self.reading = true,
            StepEvent::Stepped { held } => self.step_taken(&held),
            StepEvent::Sealed { id, rows } => self.sealed(id, rows),
            StepEvent::Put(outcome) => self.put(outcome),
            StepEvent::Found(version) => self.found(version),
            StepEvent::Announced => self.work = Work::Settle,
            StepEvent::Tended(sink) => {
                self.tending.remove(&sink);
            }
            StepEvent::Prepared => self.prepared(),
            StepEvent::Finished(state) => self.finished(state),
            StepEvent::Failed => self.failed(),
            StepEvent::Saved(outcome) => self.saved(outcome),
            StepEvent::Removed => self.removed(),
            StepEvent::Trimmed => self.trimmed(),
            StepEvent::Released => self.partitions.clear(),
            StepEvent::Discarded => self.work = Work::Recover(Recovery::List),
        }
    }

    fn halt(&mut self, reason: StepReason) {
        self.stop.get_or_insert(reason);
    }

    fn gained(&mut self, partitions: BTreeSet<PartitionId>) {
        self.partitions.extend(partitions);
        match &self.work {
            Work::Recover(Recovery::Hear) => {
                let heard: BTreeSet<_> = self.partitions.iter().map(|p| p.source()).collect();
                if heard.len() == self.plan.sources.len() {
                    self.work = Work::Recover(Recovery::List);
                }
            }
            // Whatever is under way asked about fewer partitions.
            Work::Recover(_) => self.work = Work::Recover(Recovery::List),
            _ => {
                self.taken = self.complete(&self.taken);
                self.stepped = self.complete(&self.stepped);
                for n in 0..self.sinks.len() {
                    self.sinks[n].at = self.complete(&self.sinks[n].at);
                }
                self.reading = false;
            }
        }
    }

    fn took(&mut self, id: PartitionId, from: Offset, to: Offset) {
        assert!(self.work == Work::Settle && self.reading, "P8: only records that were let in are taken");
        let limit = self.limit(id);
        let taken = self.taken.get_mut(&id).expect("P8: only records that were let in are taken");
        assert!(from == *taken, "P2: partition {id} stands at {taken}, records begin at {from}");
        assert!(to >= from, "P2: records of partition {id} run from {from} back to {to}");
        assert!(limit.is_none_or(|limit| to <= limit), "P5: partition {id} is read to {to}, beyond {limit:?}");
        *taken = to;
    }

    /// Offsets without a record, up to where reading ends, are taken in by that.
    fn reached(&mut self, id: PartitionId, end: Offset) {
        if self.work != Work::Settle || !self.reading {
            return;
        }
        if let (Some(limit), Some(taken)) = (self.limit(id), self.taken.get_mut(&id)) {
            *taken = limit.min(end).max(*taken);
        }
    }

    fn step_taken(&mut self, held: &BTreeSet<SinkId>) {
        let crossed = self.boundary().is_some_and(|boundary| is_within(boundary, &self.taken));
        for sink in self.plan.order() {
            self.sink_mut(sink).held = held.contains(&sink);
        }
        self.stepped = self.taken.clone();
        (self.due, self.work) = (false, Work::Settle);
        if crossed {
            // Records beyond it were not let in: they are read again.
            self.reading = false;
        }
        if !self.is_replaying() {
            // A break is told to all, so that none of them has two in one span.
            self.begin_round(self.plan.order().any(|sink| !self.owed(sink).is_empty()));
        }
    }

    /// Notices what has to be done before more is read.
    fn conclude(&mut self) {
        if self.ending.is_some() || self.stop.is_some() {
            return;
        }
        if matches!(self.work, Work::Recover(_)) && self.stopping == Stopping::Gracefully {
            (self.work, self.ending) = (Work::Settle, Some(Ending::Stopped));
        }
        if self.work != Work::Settle || self.ending.is_some() || self.gap_ahead().is_some() {
            return;
        }
        let leaving = self.stopping == Stopping::Gracefully || self.gone.is_some() || self.is_finished();
        if self.is_replaying() {
            if self.stopping == Stopping::Gracefully {
                self.ending = Some(Ending::Stopped);
            } else if self.gone.is_some() {
                self.leave();
            } else if self.is_holding() && (self.due || self.is_at_boundary()) {
                self.work = Work::Step;
            }
        } else if self.is_holding() && (self.due || self.save || leaving) {
            self.work = Work::Step;
        } else if leaving || self.save {
            self.level_and_save(leaving);
        }
    }

    fn is_at_boundary(&self) -> bool {
        self.boundary().is_some_and(|boundary| is_within(boundary, &self.taken))
    }

    fn leave(&mut self) {
        match self.gone {
            Some((partition, bounds)) if !self.may_skip(partition, bounds) => {
                self.halt(self.gone_for_good(partition, bounds));
            }
            _ if self.stopping == Stopping::Gracefully => self.ending = Some(Ending::Stopped),
            Some(_) => self.begin_bridge(),
            None => self.ending = Some(Ending::Reached),
        }
    }

    fn restart(&mut self, why: Why) {
        (self.taken, self.stepped, self.saving) = (Frontier::new(), Frontier::new(), None);
        self.work = Work::Discard(why);
    }
}

/// Whether `low` lies nowhere above `high`. A partition that `high` does not name is above it.
fn is_within(low: &Frontier, high: &Frontier) -> bool {
    low.iter().all(|(p, offset)| high.get(p).is_some_and(|above| offset <= above))
}

/// A partition in which `low` lies above `high`, and both.
fn beyond(low: &Frontier, high: &Frontier) -> Option<(PartitionId, Offset, Offset)> {
    let pairs = low.iter().map(|(p, offset)| (*p, *offset, high.get(p).copied().unwrap_or(Offset::ZERO)));
    pairs.into_iter().find(|(_, low, high)| low > high)
}
