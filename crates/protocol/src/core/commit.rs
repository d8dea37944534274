//! One commit on its way: the compare-and-swap of docs/protocol.md.

use std::collections::{BTreeMap, BTreeSet};

use super::place::Place;
use super::reason::Why;
use super::words::Outcome;
use super::{Core, LETTERS, SINK, Work};
use crate::ports::{Advance, Breach, Gap, Head, Permit};
use crate::position::{CommitId, Frontier, Offset, PartitionId, Shape, SinkId, TableVersion};

/// A commit that is not known to be there yet.
///
/// Load, then find (if it may be there already), then compare, then put; anything but `Done` goes
/// back to the load. Load comes before find, so that a late put of ours lies either among the
/// versions searched or in the way of the next put.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Commit {
    pub sink: SinkId,
    pub id: CommitId,
    /// What the batch was made for; `None` for a commit of frontiers alone.
    pub made_for: Option<Shape>,
    /// It changes the sink's shape, from the one that the batch was made for.
    pub reshapes: bool,
    pub advances: BTreeMap<PartitionId, Advance>,
    pub gaps: Vec<Gap>,
    /// The partitions whose dead letters follow, with the position after the last one.
    pub dead: Frontier,
    /// The breaches that this commit ends.
    pub healing: BTreeMap<PartitionId, Breach>,
    /// The first version that was tried, once one was.
    pub tried: Option<TableVersion>,
    pub step: Step,
}

/// Where a commit stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Load,
    Find(Head),
    Put(Permit),
}

impl Commit {
    pub fn new(sink: SinkId, id: CommitId, advances: BTreeMap<PartitionId, Advance>) -> Self {
        let (gaps, dead, healing) = (Vec::new(), Frontier::new(), BTreeMap::new());
        let (made_for, reshapes, tried) = (None, false, None);
        Self { sink, id, made_for, reshapes, advances, gaps, dead, healing, tried, step: Step::Load }
    }

    pub fn partitions(&self) -> BTreeSet<PartitionId> {
        self.advances.keys().copied().collect()
    }

    /// The compare: exactly what we expect, or why not.
    pub fn compare(&self, head: &Head) -> Result<(), Why> {
        for (&partition, advance) in &self.advances {
            let breach = head.breach.as_ref().and_then(|breach| breach.of(partition));
            if breach.as_ref() != self.healing.get(&partition) {
                return Err(breach.map_or(Why::Reshaped, Why::Breached));
            }
            let stored = head.frontier.get(&partition).copied();
            differs(partition, advance.expect, stored)?;
        }
        match self.made_for {
            Some(shape) if shape != head.shape => Err(Why::Reshaped),
            _ => Ok(()),
        }
    }

    /// The permit for the version after `head`.
    pub fn permit(&self, head: &Head) -> Permit {
        Permit {
            sink: self.sink,
            version: head.version.next(),
            commit: self.id,
            shape: head.shape,
            advances: self.advances.clone(),
            gaps: self.gaps.clone(),
            dead: self.dead.clone(),
        }
    }
}

fn differs(partition: PartitionId, expect: Option<Offset>, stored: Option<Offset>) -> Result<(), Why> {
    match (expect, stored) {
        (expect, Some(stored)) if expect < Some(stored) => Err(Why::Fenced { partition, expect, stored }),
        (Some(expect), stored) if stored < Some(expect) => Err(Why::Rewound { partition, expect, stored }),
        _ => Ok(()),
    }
}

impl Core {
    pub(super) fn commit_loaded(&mut self, mut commit: Commit, head: Head) {
        // Seen is seen: should it be less at the next load, it went back (P9).
        let known = if commit.sink == LETTERS { &mut self.letters.known } else { &mut self.known };
        for (&id, &stored) in &head.frontier {
            let known = known.entry(id).or_insert(stored);
            *known = stored.max(*known);
        }
        if commit.tried.is_some() {
            commit.step = Step::Find(head);
            self.work = Work::Commit(commit);
        } else {
            self.judge(commit, &head);
        }
    }

    /// The compare of compare-and-swap.
    fn judge(&mut self, mut commit: Commit, head: &Head) {
        let compared = commit.compare(head);
        match self.bend_compare(compared, &mut commit, head) {
            Ok(()) => {
                commit.step = Step::Put(commit.permit(head));
                self.work = Work::Commit(commit);
            }
            Err(why) => self.restart(why),
        }
    }

    /// Rows first, their dead letters after them (P7).
    pub(super) fn sealed(&mut self, id: CommitId, dead: &Frontier, reshapes: bool) {
        let letters = self.letters_of(id, dead);
        let held = self.partitions.iter().filter(|(_, p)| p.is_held() && p.mail.owed.is_none());
        let mut commit = Commit::new(SINK, id, held.map(|(id, p)| (*id, p.advance())).collect());
        commit.dead = dead.iter().filter(|(p, _)| commit.advances.contains_key(p)).map(|(p, at)| (*p, *at)).collect();
        (commit.made_for, commit.reshapes) = (self.opened, reshapes);
        let (first, then) = if commit.advances.is_empty() { (letters, None) } else { (Some(commit), letters) };
        self.letters.next = then;
        self.work = Work::Commit(first.expect("P7: what is sealed is rows, or dead letters"));
    }

    pub(super) fn named(&mut self, id: CommitId) {
        let mut commit = Commit::new(SINK, id, BTreeMap::new());
        for (&id, partition) in &self.partitions {
            if partition.is_renewed() {
                commit.advances.insert(id, partition.stay());
            } else if let Place::Anchored(anchor) = &partition.place
                && anchor.letters.is_none()
            {
                commit.advances.insert(id, partition.advance());
                commit.gaps.extend(anchor.gap.clone());
                commit.healing.extend(anchor.healing.clone().map(|breach| (id, breach)));
            }
        }
        if commit.advances.is_empty() {
            commit = self.anchors_of_letters(commit.id);
        }
        self.work = Work::Commit(commit);
    }

    pub(super) fn put(&mut self, outcome: Outcome) {
        let Work::Commit(mut commit) = std::mem::replace(&mut self.work, Work::Settle) else {
            panic!("P1: a put ended that was not asked for");
        };
        let Step::Put(permit) = &commit.step else { panic!("P1: a put ended that had no permit") };
        let version = permit.version;
        match outcome {
            Outcome::Done => self.done(&commit, version),
            Outcome::Taken | Outcome::Unknown => {
                commit.tried.get_or_insert(version);
                commit.step = Step::Load;
                self.work = Work::Commit(commit);
            }
        }
    }

    pub(super) fn found(&mut self, version: Option<TableVersion>) {
        let Work::Commit(commit) = std::mem::replace(&mut self.work, Work::Settle) else {
            panic!("P1: a search ended that was not asked for");
        };
        match (version, &commit.step) {
            (Some(version), _) => self.done(&commit, version),
            (None, Step::Find(head)) => {
                let head = head.clone();
                self.judge(commit, &head);
            }
            (None, _) => panic!("P1: a search ended that was not asked for"),
        }
    }

    /// Our commit is there.
    fn done(&mut self, commit: &Commit, version: TableVersion) {
        self.tending.insert(commit.sink);
        if commit.made_for.is_some() {
            self.due = false;
        }
        if commit.sink == LETTERS {
            return self.posted(commit, version);
        }
        self.version = self.version.max(Some(version));
        for (&id, advance) in &commit.advances {
            self.known.insert(id, advance.to);
            self.letters.announcing.insert(id, advance.to);
            let partition = self.partitions.get_mut(&id).expect("P8: lost partitions end their commit");
            (partition.expect, partition.from, partition.fades) = (Some(advance.to), advance.to, false);
            if matches!(partition.place, Place::Anchored(_)) {
                partition.place = Place::Placed;
            }
        }
        if commit.reshapes {
            // Nothing is held: the next load says what the stage is opened for.
            (self.opened, self.shape) = (None, None);
        }
        match self.letters.next.take() {
            Some(letters) => self.work = Work::Commit(letters),
            None => self.settled(),
        }
    }

    /// Both sinks have what was sealed.
    pub(super) fn settled(&mut self) {
        self.bridge();
        let told = std::mem::take(&mut self.letters.announcing);
        self.work = if told.is_empty() { Work::Settle } else { Work::Announce(told) };
    }
}
