//! Decides what an exactly-once pipeline does next. Never does it.
//!
//! [`Core`] is a value: [`next`](Core::next) names one [`Action`], [`on`](Core::on) takes in what
//! happened. No clock, no chance, no I/O: `tests/model.rs` explores this very code under every
//! interleaving of crashes, lost replies and rival writers. Read `Work`, then `next`, then `on`.
//!
//! Invariants (docs/protocol.md):
//! - P1, P2: a permit is made only right after the sink said exactly what each advance expects.
//! - P8: a partition is let go of only once nothing of it is held; what was lost is thrown away.
//! - P9: what is gone stops the run, or is written down in a commit before any data follows it.
//!
//! One way out of every doubt: throw away what is not committed, start again where the sink is.
//!
//! Deliberately absent: retries, time, sizes (`drive.rs`). Running by step adds further `Work`.

// Deliberate faults, for the model: nothing of it in what ships.
#[cfg_attr(not(feature = "breaks"), path = "core/sound.rs")]
mod broken;
mod commit;
mod letters;
mod place;
mod policy;
mod reason;
mod renew;
mod set;
pub mod step;
mod words;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

#[cfg(feature = "breaks")]
pub use broken::Break;
pub use policy::{Beginning, OnGap, OnRestore, Policies};
pub use reason::{Reason, Why};
pub use set::{Move, Set};
pub use words::{Action, Admit, Ending, Event, Outcome};

use commit::{Commit, Step};
use letters::Post;
use place::{Partition, Place, Said};

use crate::ports::{Bounds, Head, Stopping};
use crate::position::{Frontier, Offset, PartitionId, Shape, SinkId, TableVersion};

/// The sink of rows while running by partition: the journal (P7).
pub const SINK: SinkId = SinkId(0);
/// The sink of dead letters, where there is one ([`Policies::dead_letters`]).
pub const LETTERS: SinkId = SinkId(1);

/// What one process knows and wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Core {
    policies: Policies,
    partitions: BTreeMap<PartitionId, Partition>,
    /// Asked back and not let go of yet.
    losing: BTreeSet<PartitionId>,
    work: Work,
    /// What is held is to be committed.
    due: bool,
    /// The sink is to be asked which frontiers it is to be told again.
    renewing: bool,
    /// The shape that the stage is open for.
    opened: Option<Shape>,
    /// The shape as of the last load; none once a commit of ours has changed it.
    shape: Option<Shape>,
    /// The newest version that we saw.
    version: Option<TableVersion>,
    /// The furthest the sink was seen to be, of partitions in our hands.
    known: Frontier,
    /// The same of the table of dead letters, and what goes there.
    letters: Post,
    tending: BTreeSet<SinkId>,
    stopping: Stopping,
    ending: Option<Ending>,
    stop: Option<Reason>,
    bent: broken::Bent,
}

/// What is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "a core has one of them, and it is not moved in a hot path")]
enum Work {
    /// Bring partitions under way, or read.
    Settle,
    Discard(Why),
    Commit(Commit),
    Announce(Frontier),
}

impl Core {
    /// A process that has nothing yet.
    #[must_use]
    pub fn new(policies: Policies) -> Self {
        Self {
            policies,
            partitions: BTreeMap::new(),
            losing: BTreeSet::new(),
            work: Work::Settle,
            due: false,
            renewing: false,
            opened: None,
            shape: None,
            version: None,
            known: Frontier::new(),
            letters: Post::default(),
            tending: BTreeSet::new(),
            stopping: Stopping::No,
            ending: None,
            stop: None,
            bent: broken::Bent::default(),
        }
    }

    /// What to do now.
    #[must_use]
    pub fn next(&self) -> Action {
        self.bend_next(self.sound_next())
    }

    fn sound_next(&self) -> Action {
        if self.stopping == Stopping::AtOnce {
            return Action::End(Ending::Aborted);
        }
        if let Some(reason) = &self.stop {
            return Action::Stop(reason.clone());
        }
        match &self.work {
            Work::Discard(why) => Action::Discard(why.clone()),
            Work::Announce(frontier) => Action::Announce { frontier: frontier.clone() },
            Work::Commit(commit) => match &commit.step {
                Step::Load => Action::Load { sink: commit.sink, partitions: commit.partitions() },
                Step::Put(permit) => Action::Put(permit.clone()),
                Step::Find(_) => {
                    let tried = commit.tried.expect("a search follows a try");
                    Action::Find { sink: commit.sink, commit: commit.id, from: tried }
                }
            },
            Work::Settle => self.settle(),
        }
    }

    /// Ifs in the order of their urgency: what others wait for comes first.
    fn settle(&self) -> Action {
        if self.must_flush() && self.holds() {
            return Action::Seal;
        }
        if !self.losing.is_empty() {
            return Action::Release { partitions: self.losing.clone() };
        }
        if let Some(&sink) = self.tending.first() {
            return Action::Tend { sink };
        }
        if let Some(ending) = self.ending {
            let partitions: BTreeSet<_> = self.partitions.keys().copied().collect();
            return if partitions.is_empty() { Action::End(ending) } else { Action::Release { partitions } };
        }
        let gained = self.those(|p| p.place == Place::Gained);
        if let Some(asked) = self.unasked(&gained) {
            return Action::Load { sink: LETTERS, partitions: asked };
        }
        let unknown_shape = self.shape.is_none() && !self.partitions.is_empty();
        if !gained.is_empty() || unknown_shape || self.renewing {
            return Action::Load { sink: SINK, partitions: self.asked(gained) };
        }
        if self.opened != self.shape {
            return Action::Open { sink: SINK };
        }
        if self.letters.opened != self.letters.shape {
            return Action::Open { sink: LETTERS };
        }
        if let Some(partition) = self.those(|p| matches!(p.place, Place::Unplaced(_))).pop_first() {
            return Action::Ask { partition };
        }
        if self.partitions.values().any(|p| p.is_renewed() || matches!(p.place, Place::Anchored(_))) {
            return Action::Name;
        }
        let positions = self.positions();
        if positions.is_empty() { Action::Read } else { Action::Start { positions } }
    }

    /// Where partitions begin that are placed and have something to read.
    fn positions(&self) -> Frontier {
        let placed = self.partitions.iter().filter(|(_, p)| p.place == Place::Placed);
        placed.filter(|(id, p)| !p.is_finished(self.end(**id))).map(|(id, p)| (*id, p.from)).collect()
    }

    fn those(&self, which: impl Fn(&Partition) -> bool) -> BTreeSet<PartitionId> {
        self.partitions.iter().filter(|(_, p)| which(p)).map(|(id, _)| *id).collect()
    }

    fn holds(&self) -> bool {
        self.partitions.values().any(Partition::is_held)
    }

    fn must_flush(&self) -> bool {
        let gone = self.partitions.values().any(|p| matches!(p.place, Place::Gone(_)));
        let stopping = self.stopping != Stopping::No;
        let owed = self.partitions.values().any(Partition::is_read_again);
        self.due || self.renewing || stopping || gone || owed || !self.losing.is_empty() || self.is_finished()
    }

    /// Where a partition's reading ends, if it does.
    fn end(&self, partition: PartitionId) -> Option<Offset> {
        self.policies.ends.as_ref().map(|ends| ends.get(&partition).copied().unwrap_or(Offset::ZERO))
    }

    /// Everything that is ours is read up to the asked ends.
    fn is_finished(&self) -> bool {
        self.policies.ends.is_some()
            && !self.partitions.is_empty()
            && self.partitions.iter().all(|(id, p)| p.is_finished(self.end(*id)))
    }

    /// Whether a partition's next records are wanted, and up to where.
    pub fn admit(&self, partition: PartitionId) -> Admit {
        match self.partitions.get(&partition) {
            Some(p) if p.place == Place::Open && !self.losing.contains(&partition) => {
                if let Some(owed) = p.mail.owed {
                    return if p.is_read_again() { Admit::No } else { Admit::Letters(owed.until) };
                }
                let end = self.end(partition);
                if p.is_finished(end) { Admit::No } else { Admit::Below(end) }
            }
            _ => Admit::No,
        }
    }

    /// Whether the stage holds anything that a commit would cover.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.holds()
    }

    /// The partitions in our hands, and how far each is taken in.
    #[must_use]
    pub fn taken(&self) -> Frontier {
        self.partitions.iter().map(|(id, p)| (*id, p.taken)).collect()
    }

    /// Takes in what happened.
    ///
    /// # Panics
    /// P2: when records do not follow on the last ones, or an answer comes that was not asked for.
    pub fn on(&mut self, event: Event) {
        let Some(event) = self.bend_event(event) else { return };
        self.hear(event);
        self.mind_the_letters();
        self.bend_state();
        self.mind_the_shape();
        self.conclude();
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Gained(partitions) => self.gained(&partitions),
            Event::Losing(partitions) => self.losing.extend(partitions),
            Event::Lost(partitions) => self.lost(&partitions),
            Event::Taken { partition, from, to } => self.took(partition, from, to),
            Event::Reached { partition, end } => self.reached(partition, end),
            Event::Gone { partition, at, bounds } => self.gone(partition, at, bounds),
            Event::Due => self.due = self.holds(),
            Event::Renew => self.renewing = !self.partitions.is_empty(),
            Event::Stopping(stopping) => self.stopping = stopping,
            Event::Loaded { sink: LETTERS, head } => self.letters_loaded(head),
            Event::Loaded { head, .. } => self.loaded(head),
            Event::Opened { sink: LETTERS } => self.letters.opened = self.letters.shape,
            Event::Opened { .. } => self.opened = self.shape,
            Event::Bounds { partition, bounds } => self.bounds(partition, bounds),
            Event::Named(id) => self.named(id),
            Event::Started => self.started(),
            Event::Sealed { id, dead, reshapes } => self.sealed(id, &dead, reshapes),
            Event::Put(outcome) => self.put(outcome),
            Event::Found(version) => self.found(version),
            Event::Announced => self.work = Work::Settle,
            Event::Tended { sink } => drop(self.tending.remove(&sink)),
            Event::Released(partitions) => self.released(&partitions),
            Event::Discarded => self.discarded(),
        }
    }

    /// What is held was made for a shape that is no more: it can't be committed, nor can the stage be
    /// opened for the new one. Any load may show it, that of a commit of frontiers alone as well.
    fn mind_the_shape(&mut self) {
        let reshaped = self.opened.is_some() && self.opened != self.shape || self.letters.is_reshaped();
        if self.work == Work::Settle && reshaped && self.holds() {
            self.restart(Why::Reshaped);
        }
    }

    /// Notices that nothing is left to do.
    fn conclude(&mut self) {
        if self.work != Work::Settle || self.ending.is_some() || self.holds() {
            return;
        }
        if self.stopping == Stopping::Gracefully {
            self.ending = Some(Ending::Stopped);
        } else if self.is_finished() && !self.partitions.values().any(Partition::is_renewed) {
            self.ending = Some(Ending::Reached);
        }
    }

    fn restart(&mut self, why: Why) {
        self.work = Work::Discard(why);
    }

    fn decide(&mut self, decision: Result<(), Reason>) {
        if let Err(reason) = decision {
            self.stop.get_or_insert(reason);
        }
    }

    fn gained(&mut self, partitions: &BTreeSet<PartitionId>) {
        // One that we have already was lost on the way without a word.
        let again: BTreeSet<_> = partitions.iter().copied().filter(|p| self.partitions.contains_key(p)).collect();
        if !again.is_empty() {
            self.lost(&again);
        }
        for partition in partitions {
            self.partitions.insert(*partition, Partition::gained());
        }
    }

    fn lost(&mut self, partitions: &BTreeSet<PartitionId>) {
        let mut in_flight = match &self.work {
            Work::Commit(commit) => commit.partitions(),
            _ => BTreeSet::new(),
        };
        in_flight.extend(self.letters.next.iter().flat_map(Commit::partitions));
        let mut lost_with_data = None;
        for &partition in partitions {
            let held = self.forget(partition).is_some_and(|p| p.is_held());
            if held || in_flight.contains(&partition) {
                lost_with_data.get_or_insert(partition);
            }
        }
        if let Some(partition) = lost_with_data {
            self.restart(Why::Lost { partition });
        }
    }

    fn released(&mut self, partitions: &BTreeSet<PartitionId>) {
        for &partition in partitions {
            let held = self.forget(partition).is_some_and(|p| p.is_held());
            assert!(!held, "P8: partition {partition} was let go of while we hold records of it");
        }
    }

    fn forget(&mut self, partition: PartitionId) -> Option<Partition> {
        self.losing.remove(&partition);
        self.known.remove(&partition);
        self.letters.forget(partition);
        if let Work::Announce(frontier) = &mut self.work {
            frontier.remove(&partition);
        }
        self.partitions.remove(&partition)
    }

    fn took(&mut self, id: PartitionId, from: Offset, to: Offset) {
        let partition = self.partitions.get_mut(&id).expect("P8: only records that were let in are taken");
        assert!(partition.place == Place::Open, "P8: partition {id} is not being read");
        assert!(from == partition.taken, "P2: partition {id} stands at {}, records begin at {from}", partition.taken);
        assert!(to >= from, "P2: records of partition {id} run from {from} back to {to}");
        let below = partition.mail.owed.is_none_or(|owed| to <= owed.until);
        assert!(below, "P1: records of partition {id} up to {to} are taken for their dead letters alone");
        partition.taken = to;
    }

    fn reached(&mut self, id: PartitionId, at: Offset) {
        let end = self.end(id);
        if let Some(partition) = self.partitions.get_mut(&id).filter(|p| p.place == Place::Open) {
            partition.reached = end.is_some_and(|end| at >= end);
        }
    }

    fn gone(&mut self, id: PartitionId, at: Offset, bounds: Bounds) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.place != Place::Open || partition.taken != at {
            return;
        }
        partition.place = Place::Gone(bounds);
        if !partition.is_held() {
            self.bridge();
        }
    }

    /// Decides about partitions whose input is gone, now that nothing of them is held.
    fn bridge(&mut self) {
        let mut decision = Ok(());
        for (id, partition) in &mut self.partitions {
            if let Place::Gone(bounds) = partition.place
                && !partition.is_held()
            {
                decision = decision.and(self.policies.bridge(*id, partition, bounds));
            }
        }
        self.decide(decision);
    }

    fn bounds(&mut self, id: PartitionId, bounds: Bounds) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let decision = self.policies.place(id, partition, bounds);
        self.decide(decision);
    }

    fn started(&mut self) {
        for partition in self.partitions.values_mut().filter(|p| p.place == Place::Placed) {
            partition.place = Place::Open;
        }
    }

    fn discarded(&mut self) {
        self.partitions.values_mut().for_each(|p| *p = Partition::gained());
        (self.work, self.due, self.renewing) = (Work::Settle, false, false);
        self.letters.discard();
    }

    fn loaded(&mut self, head: Head) {
        if let Some(seen) = self.version.filter(|seen| head.version < *seen)
            && head.breach.is_none()
        {
            self.stop.get_or_insert(Reason::RewoundLog { version: head.version, seen });
            return;
        }
        (self.version, self.shape) = (Some(head.version), Some(head.shape));
        match std::mem::replace(&mut self.work, Work::Settle) {
            Work::Commit(commit) => self.commit_loaded(commit, head),
            other => {
                self.work = other;
                self.place(&head);
                self.mind_what_fades(&head);
            }
        }
    }

    /// The sink said where gained partitions stand.
    fn place(&mut self, head: &Head) {
        let mut decision = head.breach.as_ref().map_or(Ok(()), |breach| self.policies.allow(breach));
        for (&id, partition) in self.partitions.iter_mut().filter(|(_, p)| p.place == Place::Gained) {
            let stored = head.frontier.get(&id).copied();
            let breach = head.breach.as_ref().and_then(|breach| breach.of(id));
            let known = self.known.get(&id).copied();
            partition.mail.made = head.dead.get(&id).copied();
            decision = decision.and(self.policies.settle(id, partition, Said { stored, known, breach }));
            if stored > known {
                self.known.extend(stored.map(|stored| (id, stored)));
            }
        }
        self.decide(decision);
    }
}
