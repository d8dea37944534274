//! Ways to break the core on purpose: the model proves that each is caught. Without the feature
//! `breaks`, `sound.rs` stands in this file's place.

use super::commit::{Commit, Step};
use super::place::{Partition, Place};
use super::policy::Policies;
use super::reason::Why;
use super::words::{Action, Event, Outcome};
use super::{Core, Head, LETTERS, SINK, Work};
use crate::ports::{Breach, Stopping};
use crate::position::{CommitId, Frontier, Offset};

/// One deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Break {
    /// Puts without looking at the sink's frontier.
    SkipCompare,
    /// Takes a frontier that is further than expected for good.
    CompareAtLeast,
    /// Tries the next version after a lost race without loading again.
    BlindRetry,
    /// Counts "already exists" as somebody else's, takes over what the sink says, and puts again.
    RebaseOnTaken,
    /// Counts a put without an answer as done.
    UnknownIsDone,
    /// Does not look for its own commit.
    NeverFind,
    /// Looks for its own commit only above the newest version.
    FindTooLate,
    /// Goes on with what it holds after being fenced.
    KeepAfterFence,
    /// Starts where it last told the group, not where the sink stands.
    TrustGroup,
    /// Tells lag tools before the commit.
    AnnounceEarly,
    /// Lets go of partitions and commits their records after that.
    ReleaseEarly,
    /// Does not hear that partitions are lost.
    IgnoreLost,
    /// Forgets lost partitions but keeps their records in the stage.
    KeepLostRecords,
    /// Starts one record too late.
    StartTooHigh,
    /// Starts one record too early.
    StartTooLow,
    /// Commits data made for another shape.
    ForgetShape,
    /// Changes a shape that somebody else has changed meanwhile.
    ReshapeAnyway,
    /// Names each batch as the first one.
    ReuseCommitId,
    /// Does not commit a start that is not the stored one before data follows it.
    NoAnchor,
    /// Skips what is gone and does not write it down.
    SilentGap,
    /// Ends without committing what it holds.
    EndEarly,
    /// Takes a sink's frontier that went back for a new start.
    IgnoreRewind,
    /// Takes a restored table for what it was.
    IgnoreBreach,
    /// Commits dead letters before their rows.
    LettersFirst,
    /// Does not commit dead letters after their rows.
    LettersNever,
    /// Does not look at what the table of dead letters says when it commits to it.
    LettersUncompared,
    /// Takes what the journal says of dead letters for nothing.
    NoMark,
    /// Goes on where dead letters are owed.
    LeaveOwed,
    /// Reads on where letters that were owed are only read, not committed.
    ReadPastOwed,
    /// Skips dead letters whose records are gone and does not write it down.
    SilentLoss,
    /// Sets a frontier back without leave.
    SetBackUnasked,
    /// Begins anew where the sink can't tell whether it had a frontier.
    BeginForgotten,
    /// Tells a frontier again without looking whether it is still there.
    RenewUncompared,
    /// Tells what is taken, not what is committed.
    RenewTaken,
    /// Does not tell a frontier again that fades.
    NeverRenew,
}

impl Break {
    /// All of them.
    pub const ALL: [Self; 35] = [
        Self::SkipCompare,
        Self::CompareAtLeast,
        Self::BlindRetry,
        Self::RebaseOnTaken,
        Self::UnknownIsDone,
        Self::NeverFind,
        Self::FindTooLate,
        Self::KeepAfterFence,
        Self::TrustGroup,
        Self::AnnounceEarly,
        Self::ReleaseEarly,
        Self::IgnoreLost,
        Self::KeepLostRecords,
        Self::StartTooHigh,
        Self::StartTooLow,
        Self::ForgetShape,
        Self::ReshapeAnyway,
        Self::ReuseCommitId,
        Self::NoAnchor,
        Self::SilentGap,
        Self::EndEarly,
        Self::IgnoreRewind,
        Self::IgnoreBreach,
        Self::LettersFirst,
        Self::LettersNever,
        Self::LettersUncompared,
        Self::NoMark,
        Self::LeaveOwed,
        Self::ReadPastOwed,
        Self::SilentLoss,
        Self::SetBackUnasked,
        Self::BeginForgotten,
        Self::RenewUncompared,
        Self::RenewTaken,
        Self::NeverRenew,
    ];
}

/// The fault, and what it remembers that a sound core does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Bent {
    fault: Option<Break>,
    announced: Frontier,
    id: Option<CommitId>,
    waiting: Option<Commit>,
    placed: bool,
}

impl Core {
    /// A process with a deliberate fault.
    #[must_use]
    pub fn broken(mut policies: Policies, fault: Break) -> Self {
        if let Some(set) = policies.set.as_mut().filter(|_| fault == Break::SetBackUnasked) {
            set.force = true;
        }
        let mut core = Self::new(policies);
        core.bent.fault = Some(fault);
        core
    }

    fn breaks(&self, fault: Break) -> bool {
        self.bent.fault == Some(fault)
    }

    pub(super) fn bend_next(&self, action: Action) -> Action {
        match action {
            Action::Seal if self.breaks(Break::ReleaseEarly) && !self.losing.is_empty() => {
                Action::Release { partitions: self.losing.clone() }
            }
            Action::Find { sink, commit, .. } if self.breaks(Break::FindTooLate) => {
                Action::Find { sink, commit, from: self.version.expect("a search follows a load").next() }
            }
            other => other,
        }
    }

    pub(super) fn bend_event(&mut self, event: Event) -> Option<Event> {
        let Some(fault) = self.bent.fault else { return Some(event) };
        self.bent.placed = matches!(event, Event::Loaded { .. } | Event::Bounds { .. });
        match (fault, event) {
            (Break::IgnoreLost, Event::Lost(_)) => None,
            (Break::KeepLostRecords, Event::Lost(partitions)) => {
                for partition in partitions {
                    self.forget(partition);
                    if let Work::Commit(commit) = &mut self.work {
                        commit.advances.remove(&partition);
                    }
                }
                None
            }
            (Break::ReleaseEarly, Event::Released(partitions)) => {
                self.losing.retain(|p| !partitions.contains(p));
                None
            }
            (Break::UnknownIsDone, Event::Put(Outcome::Unknown)) => Some(Event::Put(Outcome::Done)),
            (Break::BlindRetry, Event::Put(Outcome::Taken)) => {
                if let Work::Commit(Commit { step: Step::Put(permit), .. }) = &mut self.work {
                    permit.version = permit.version.next();
                }
                None
            }
            (Break::ReuseCommitId, Event::Sealed { id, dead, reshapes }) => {
                Some(Event::Sealed { id: *self.bent.id.get_or_insert(id), dead, reshapes })
            }
            (Break::IgnoreBreach, Event::Loaded { sink, head }) => {
                Some(Event::Loaded { sink, head: Head { breach: None, ..head } })
            }
            (Break::BeginForgotten, Event::Loaded { sink, head }) => {
                let breach = head.breach.filter(|breach| !matches!(breach, Breach::Forgotten { .. }));
                Some(Event::Loaded { sink, head: Head { breach, ..head } })
            }
            (Break::NeverRenew, Event::Loaded { sink, head }) => {
                Some(Event::Loaded { sink, head: Head { fading: [].into(), ..head } })
            }
            (Break::RenewTaken, Event::Renew) if self.work == Work::Settle && self.holds() => {
                let held = self.partitions.iter().filter(|(_, p)| p.is_held());
                let advances = held.map(|(id, p)| (*id, p.advance())).collect();
                self.work = Work::Commit(Commit::new(SINK, CommitId(u128::MAX), advances));
                None
            }
            (Break::NoMark, Event::Loaded { sink: SINK, head }) => {
                Some(Event::Loaded { sink: SINK, head: Head { dead: [].into(), ..head } })
            }
            (Break::AnnounceEarly, Event::Announced) if self.bent.waiting.is_some() => {
                self.work = self.bent.waiting.take().map_or(Work::Settle, Work::Commit);
                None
            }
            (_, event) => Some(event),
        }
    }

    pub(super) fn bend_state(&mut self) {
        if let Work::Announce(frontier) = &self.work {
            self.bent.announced.extend(frontier.clone());
        }
        match self.bent.fault {
            Some(Break::NeverFind | Break::RebaseOnTaken) => {
                if let Work::Commit(Commit { step: Step::Find(_), .. }) = self.work {
                    self.found(None);
                }
            }
            Some(Break::AnnounceEarly) => self.announce_early(),
            Some(Break::EndEarly) if self.stopping == Stopping::Gracefully && self.work == Work::Settle => {
                self.partitions.values_mut().for_each(|p| p.taken = p.from);
            }
            Some(Break::SilentGap) => self.each_place(|place| {
                if let Place::Anchored(anchor) = place {
                    anchor.gap = None;
                }
            }),
            Some(Break::NoAnchor) => self.each_place(|place| {
                if matches!(place, Place::Anchored(_)) {
                    *place = Place::Placed;
                }
            }),
            Some(Break::IgnoreRewind) => self.known.clear(),
            Some(Break::StartTooHigh) if self.bent.placed => {
                self.each_start(|at| Offset::after(at.get()).expect("a small offset"));
            }
            Some(Break::StartTooLow) if self.bent.placed => {
                self.each_start(|at| Offset::new(at.last()).unwrap_or(Offset::ZERO));
            }
            Some(Break::TrustGroup) if self.bent.placed => self.trust_group(),
            _ => self.bend_letters(),
        }
    }

    fn bend_letters(&mut self) {
        match self.bent.fault {
            Some(Break::LettersNever) => self.letters.next = None,
            Some(Break::LettersFirst) => {
                if let Some(letters) = self.letters.next.take() {
                    let rows = std::mem::replace(&mut self.work, Work::Commit(letters));
                    self.bent.waiting = if let Work::Commit(rows) = rows { Some(rows) } else { None };
                } else if !matches!(self.work, Work::Commit(_) | Work::Discard(_))
                    && let Some(rows) = self.bent.waiting.take()
                {
                    self.work = Work::Commit(rows);
                }
            }
            Some(Break::LeaveOwed) => self.partitions.values_mut().for_each(Partition::leave_owed),
            Some(Break::ReadPastOwed) => {
                self.partitions.values_mut().filter(|p| p.is_read_again()).for_each(Partition::leave_owed);
            }
            Some(Break::SilentLoss) => self.each_place(|place| {
                if let Place::Anchored(anchor) = place
                    && anchor.letters.is_some()
                {
                    anchor.gap = None;
                }
            }),
            _ => {}
        }
    }

    fn announce_early(&mut self) {
        if let Work::Commit(commit) = &self.work
            && commit.step == Step::Load
            && commit.tried.is_none()
        {
            let told = commit.advances.iter().map(|(id, advance)| (*id, advance.to)).collect();
            self.bent.waiting = Some(commit.clone());
            self.work = Work::Announce(told);
        }
    }

    fn each_place(&mut self, mut change: impl FnMut(&mut Place)) {
        self.partitions.values_mut().for_each(|p| change(&mut p.place));
    }

    fn each_start(&mut self, change: impl Fn(Offset) -> Offset) {
        for partition in self.partitions.values_mut().filter(|p| p.place == Place::Placed) {
            partition.from = change(partition.from);
            partition.taken = partition.from;
        }
        self.bent.placed = false;
    }

    fn trust_group(&mut self) {
        for (id, partition) in self.partitions.iter_mut().filter(|(_, p)| p.place == Place::Placed) {
            if let Some(&at) = self.bent.announced.get(id) {
                (partition.from, partition.taken) = (at, at);
            }
        }
    }

    pub(super) fn bend_compare(
        &mut self,
        compared: Result<(), Why>,
        commit: &mut Commit,
        head: &Head,
    ) -> Result<(), Why> {
        let adopt = |commit: &mut Commit| {
            for (id, advance) in &mut commit.advances {
                advance.expect = head.frontier.get(id).copied();
            }
            Ok(())
        };
        match (self.bent.fault, compared) {
            (Some(Break::LettersUncompared), _) if commit.sink == LETTERS => Ok(()),
            (Some(Break::RenewUncompared), _) if commit.made_for.is_none() => adopt(commit),
            (Some(Break::SkipCompare), _)
            | (Some(Break::CompareAtLeast), Err(Why::Fenced { .. }))
            | (Some(Break::ForgetShape), Err(Why::Reshaped)) => Ok(()),
            (Some(Break::ReshapeAnyway), Err(Why::Reshaped)) if commit.reshapes => Ok(()),
            (Some(Break::KeepAfterFence), Err(Why::Fenced { .. })) => adopt(commit),
            (Some(Break::RebaseOnTaken), Err(Why::Fenced { .. })) if commit.tried.is_some() => adopt(commit),
            (_, compared) => compared,
        }
    }
}
