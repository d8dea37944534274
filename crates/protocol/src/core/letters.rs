//! P7: dead letters, in a table of their own that follows the journal.
//!
//! A commit of rows that made dead letters says so, and their own commit follows it before anything else is committed
//! of their partitions. So at most one span of a partition is owed: the newest one. Whoever gains the partition asks the
//! table of dead letters first and the journal last, so that what it sees can't look better than it is; what is owed
//! is read again for the letters alone, before the partition goes on.
//!
//! Invariants:
//! - P1: letters are committed for spans that the journal has, each once: what the table of letters says is compared.
//! - P7: it is never ahead of the journal; if it is, somebody else writes there, or the journal went back.
//! - P9: letters whose records are gone are a gap in their table.

use std::collections::BTreeSet;

use super::commit::Commit;
use super::place::{Anchor, Base, Partition, Place};
use super::policy::{OnGap, OnRestore, Policies};
use super::reason::Reason;
use super::{Core, LETTERS, Work};
use crate::ports::{Advance, Bounds, Breach, Gap, Head};
use crate::position::{CommitId, Frontier, Offset, PartitionId, Shape, Stretch, TableVersion};

/// What is known of the table of dead letters, and what goes there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Post {
    /// The shape that the stage is open for.
    pub opened: Option<Shape>,
    /// The shape as of the last load.
    pub shape: Option<Shape>,
    version: Option<TableVersion>,
    /// The furthest it was seen to be, of partitions in our hands.
    pub known: Frontier,
    /// What follows the commit of rows that is under way.
    pub next: Option<Commit>,
    /// What lag tools hear once both have it.
    pub announcing: Frontier,
}

/// How it stands with one partition's dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Mail {
    /// What their table says of it; `None` until it was asked.
    said: Option<Option<Offset>>,
    /// P9: what is amiss with that.
    breach: Option<Breach>,
    /// The newest span that made some, by the journal.
    pub made: Option<Stretch>,
    /// Records are read again for their letters alone.
    pub owed: Option<Owed>,
}

/// What is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owed {
    /// Up to here.
    pub until: Offset,
    /// Where the partition goes on after that.
    resume: Offset,
}

impl Post {
    pub fn is_reshaped(&self) -> bool {
        self.opened.is_some() && self.opened != self.shape
    }

    pub fn forget(&mut self, partition: PartitionId) {
        self.known.remove(&partition);
        self.announcing.remove(&partition);
    }

    pub fn discard(&mut self) {
        self.next = None;
        self.announcing.clear();
    }
}

impl Partition {
    /// All that was owed is held.
    pub fn is_read_again(&self) -> bool {
        self.mail.owed.is_some_and(|owed| self.taken >= owed.until)
    }

    /// A fault, for the model.
    #[cfg(feature = "breaks")]
    pub fn leave_owed(&mut self) {
        if let Some(owed) = self.mail.owed.take() {
            self.mail.made = None;
            self.place_at(owed.resume);
        }
    }

    fn letters_at(&self) -> Option<Offset> {
        self.mail.said.flatten()
    }

    /// The move of its letters: from where they stand, so that their spans join as well.
    fn letters_advance(&self) -> Advance {
        let expect = self.letters_at();
        Advance { expect, from: expect.unwrap_or(self.from), to: self.taken }
    }

    /// The letters' table says `to`.
    fn posted(&mut self, to: Offset) {
        self.mail.said = Some(Some(to));
        let anchored = matches!(self.place, Place::Anchored(_));
        match self.mail.owed {
            Some(owed) if to >= owed.until => {
                self.mail.owed = None;
                self.place_at(owed.resume);
            }
            Some(_) if anchored => self.place_at(to),
            Some(_) => self.from = to,
            None if anchored => self.place = Place::Placed,
            None => {}
        }
    }

    fn anchor_letters(&mut self, at: Offset, gap: Gap, healing: Option<Breach>) {
        self.place = Place::Anchored(Anchor { gap: Some(gap), healing, letters: Some(at) });
    }

    /// Now that it is known where the partition goes on.
    fn mind_the_letters(&mut self, id: PartitionId) -> Result<(), Reason> {
        let starts = match &self.place {
            Place::Placed => true,
            Place::Anchored(anchor) => anchor.letters.is_none(),
            _ => false,
        };
        if !starts || self.mail.owed.is_some() {
            return Ok(());
        }
        if let Some(breach) = self.mail.breach.clone() {
            if self.place == Place::Placed {
                self.mail.breach = None;
                self.heal_letters(id, breach);
            }
            return Ok(());
        }
        let said = self.letters_at();
        if let Some(letters) = said.filter(|letters| *letters > self.from) {
            return Err(Reason::LettersAhead { partition: id, letters, at: self.from });
        }
        if let Some(made) = self.mail.made
            && self.place == Place::Placed
            && made.to <= self.from
            && said < Some(made.to)
        {
            self.mail.owed = Some(Owed { until: made.to, resume: self.from });
            self.begin(Place::Unplaced(Base::Owed), said.max(Some(made.from)).expect("one of them is there"));
        }
        Ok(())
    }

    /// An allowed breach of the letters' table is written down in it.
    fn heal_letters(&mut self, id: PartitionId, breach: Breach) {
        let chain = self.letters_at().unwrap_or(Offset::ZERO);
        let (at, gap) = match &breach {
            Breach::Restored { at, to, frontier } => {
                let from = frontier.get(&id).copied().unwrap_or(Offset::ZERO);
                let reason = format!("version {at} restored {to}; --on-restore=accept went on");
                (chain, Gap { partition: id, from, to: chain, reason })
            }
            Breach::OtherTopic { was, is, .. } => {
                let reason = format!("topic {was} was replaced by topic {is}; --on-gap=skip took the new one");
                (self.from, Gap { partition: id, from: chain, to: self.from, reason })
            }
            Breach::Recreated { .. } | Breach::Forgotten { .. } => return,
        };
        self.anchor_letters(at, gap, Some(breach));
    }
}

impl Policies {
    /// Refuses what only a person can decide about the letters' table.
    fn allow_letters(&self, breach: &Breach) -> Result<(), Reason> {
        let stays = matches!(breach, Breach::Restored { .. }) && self.on_restore == OnRestore::Replay;
        let allowed = if stays { Policies::default().allow(breach) } else { self.allow(breach) };
        allowed.map_err(|reason| Reason::Letters(Box::new(reason)))
    }

    /// P9: are the records of the letters that are owed still there?
    pub(super) fn look_for_owed(
        &self,
        id: PartitionId,
        partition: &mut Partition,
        bounds: Bounds,
    ) -> Result<(), Reason> {
        let Bounds { oldest, end } = bounds;
        let (at, until) = (partition.taken, partition.mail.owed.expect("letters are owed").until);
        if oldest <= at && until <= end {
            partition.place_at(at);
            return Ok(());
        }
        if self.on_gap == OnGap::Stop {
            return Err(Reason::LettersGone { partition: id, at, until, oldest, end });
        }
        let to = if oldest > at && until <= end { oldest.min(until) } else { until };
        let reason = format!("the topic held {oldest} to {end}; --on-gap=skip went on without their dead letters");
        partition.anchor_letters(to, Gap { partition: id, from: at, to, reason }, None);
        Ok(())
    }
}

impl Core {
    /// Whether a commit of dead letters follows the one that is under way.
    #[must_use]
    pub fn has_letters_next(&self) -> bool {
        self.letters.next.is_some()
    }

    /// The gained partitions that the letters' table was not asked for: first it, then the journal.
    pub(super) fn unasked(&self, gained: &BTreeSet<PartitionId>) -> Option<BTreeSet<PartitionId>> {
        let unasked = |p: &&PartitionId| self.partitions[*p].mail.said.is_none();
        let asked: BTreeSet<PartitionId> = gained.iter().filter(unasked).copied().collect();
        (self.policies.dead_letters && !asked.is_empty()).then_some(asked)
    }

    pub(super) fn letters_loaded(&mut self, head: Head) {
        if let Some(seen) = self.letters.version.filter(|seen| head.version < *seen)
            && head.breach.is_none()
        {
            let rewound = Reason::RewoundLog { version: head.version, seen };
            return self.decide(Err(Reason::Letters(Box::new(rewound))));
        }
        (self.letters.version, self.letters.shape) = (Some(head.version), Some(head.shape));
        match std::mem::replace(&mut self.work, Work::Settle) {
            Work::Commit(commit) => self.commit_loaded(commit, head),
            other => {
                self.work = other;
                self.hear_letters(&head);
            }
        }
    }

    fn hear_letters(&mut self, head: &Head) {
        let mut decision = head.breach.as_ref().map_or(Ok(()), |breach| self.policies.allow_letters(breach));
        let asked = self.partitions.iter_mut().filter(|(_, p)| p.place == Place::Gained && p.mail.said.is_none());
        for (&id, partition) in asked {
            let stored = head.frontier.get(&id).copied();
            let known = self.letters.known.get(&id).copied();
            if let Some(known) = known.filter(|known| stored < Some(*known)) {
                let rewound = Reason::Rewound { partition: id, known, stored };
                decision = decision.and(Err(Reason::Letters(Box::new(rewound))));
            }
            self.letters.known.extend(stored.map(|stored| (id, stored)));
            partition.mail.said = Some(stored);
            partition.mail.breach = head.breach.as_ref().and_then(|breach| breach.of(id));
        }
        self.decide(decision);
    }

    /// Looks at each partition of which it is just known where it goes on.
    pub(super) fn mind_the_letters(&mut self) {
        if !self.policies.dead_letters {
            return;
        }
        let mut decision = Ok(());
        for (&id, partition) in &mut self.partitions {
            decision = decision.and(partition.mind_the_letters(id));
        }
        self.decide(decision);
    }

    /// The commit of the dead letters that were just sealed: of new spans that made some, and of what was owed.
    pub(super) fn letters_of(&self, id: CommitId, dead: &Frontier) -> Option<Commit> {
        let held = self.partitions.iter().filter(|(_, p)| p.is_held());
        let posted = held.filter(|(id, p)| p.mail.owed.is_some() || dead.contains_key(id));
        let mut commit = Commit::new(LETTERS, id, posted.map(|(id, p)| (*id, p.letters_advance())).collect());
        commit.made_for = self.letters.opened;
        (!commit.advances.is_empty()).then_some(commit)
    }

    /// What is written down in the letters' table before anything follows.
    pub(super) fn anchors_of_letters(&self, name: CommitId) -> Commit {
        let mut commit = Commit::new(LETTERS, name, [].into());
        for (&id, partition) in &self.partitions {
            if let Place::Anchored(Anchor { gap, healing, letters: Some(at) }) = &partition.place {
                commit.advances.insert(id, Advance { expect: partition.letters_at(), from: *at, to: *at });
                commit.gaps.extend(gap.clone());
                commit.healing.extend(healing.clone().map(|breach| (id, breach)));
            }
        }
        commit
    }

    /// A commit of dead letters is there.
    pub(super) fn posted(&mut self, commit: &Commit, version: TableVersion) {
        self.letters.version = self.letters.version.max(Some(version));
        for (&id, advance) in &commit.advances {
            self.letters.known.insert(id, advance.to);
            self.partitions.get_mut(&id).expect("P8: lost partitions end their commit").posted(advance.to);
        }
        self.settled();
    }
}
