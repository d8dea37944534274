//! Where a partition stands, and where it begins. Pure functions over what sink and input say.

use super::letters::Mail;
use super::policy::{Beginning, OnGap, OnRestore, Policies};
use super::reason::Reason;
use crate::ports::{Advance, Bounds, Breach, Gap};
use crate::position::{Offset, PartitionId};

/// A partition in our hands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Partition {
    pub place: Place,
    /// What the sink says of it, as far as we know.
    pub expect: Option<Offset>,
    /// The stage holds `[from, taken)` of it.
    pub from: Offset,
    pub taken: Offset,
    /// The input said that nothing is left below the asked end.
    pub reached: bool,
    /// The sink is to be told again where it stands (`renew.rs`).
    pub fades: bool,
    /// How it stands with its dead letters.
    pub mail: Mail,
}

/// How far a partition is on its way to being read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Ours; where the sink stands is not known.
    Gained,
    /// The input's bounds decide where it begins.
    Unplaced(Base),
    /// It begins at `from`, which the sink has to say before any data.
    Anchored(Anchor),
    /// It begins at `from`.
    Placed,
    /// It is being read.
    Open,
    /// The input does not hold what comes next (P9); decided once what is held is committed.
    Gone(Bounds),
}

/// Why a partition's beginning has to be asked from the input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Base {
    Beginning,
    Seek(Offset),
    /// P7: dead letters are owed; the input may not hold their records any more.
    Owed,
    /// The stored frontier, if any, is no place in this topic: begin at the oldest record.
    Oldest {
        chain: Offset,
        reason: String,
        healing: Option<Breach>,
    },
}

/// A beginning that is committed before data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Anchor {
    pub gap: Option<Gap>,
    /// The breach that this anchor ends.
    pub healing: Option<Breach>,
    /// It is committed to the table of dead letters, which says this after it.
    pub letters: Option<Offset>,
}

impl Partition {
    pub fn gained() -> Self {
        let (from, taken) = (Offset::ZERO, Offset::ZERO);
        Self { place: Place::Gained, expect: None, from, taken, reached: false, fades: false, mail: Mail::default() }
    }

    pub fn is_held(&self) -> bool {
        self.taken > self.from
    }

    pub fn advance(&self) -> Advance {
        Advance { expect: self.expect, from: self.from, to: self.taken }
    }

    /// Nothing of it is left to read. `end` is where it ends, if it does.
    pub fn is_finished(&self, end: Option<Offset>) -> bool {
        match self.place {
            Place::Placed | Place::Open if self.mail.owed.is_none() => {
                end.is_some_and(|end| self.reached || self.taken >= end)
            }
            _ => false,
        }
    }

    pub fn begin(&mut self, place: Place, at: Offset) {
        (self.place, self.from, self.taken, self.reached) = (place, at, at, false);
    }

    pub fn place_at(&mut self, at: Offset) {
        self.begin(Place::Placed, at);
    }

    pub fn anchor_at(&mut self, at: Offset, gap: Option<Gap>, healing: Option<Breach>) {
        self.begin(Place::Anchored(Anchor { gap, healing, letters: None }), at);
    }
}

/// What the sink says of one partition: its frontier, what we know it was, and what is amiss.
pub(super) struct Said {
    pub stored: Option<Offset>,
    pub known: Option<Offset>,
    pub breach: Option<Breach>,
}

impl Policies {
    /// Decides where a gained partition stands, from what the sink says.
    pub(super) fn settle(&self, id: PartitionId, partition: &mut Partition, said: Said) -> Result<(), Reason> {
        partition.expect = said.stored;
        if let Some(set) = &self.set {
            return set.settle(id, partition, said);
        }
        match (said.breach, said.stored) {
            (Some(breach), _) => {
                self.heal(id, partition, breach);
                Ok(())
            }
            (None, stored) if said.known.is_some() && stored < said.known => {
                self.rewind(id, partition, stored, said.known.expect("just seen"))
            }
            (None, Some(stored)) => {
                // Once we know the partition, only the sink counts: a replay may lead below the seek.
                match self.seek.get(&id) {
                    Some(&seek) if said.known.is_none() && stored < seek => {
                        return Err(Reason::SeekAhead { partition: id, stored, seek });
                    }
                    _ => partition.place_at(stored),
                }
                Ok(())
            }
            (None, None) => {
                let asked = self.seek.get(&id).or_else(|| self.starts.get(&id));
                let base = asked.map_or(Base::Beginning, |&at| Base::Seek(at));
                partition.begin(Place::Unplaced(base), Offset::ZERO);
                Ok(())
            }
        }
    }

    /// Refuses what only a person can decide about.
    pub(super) fn allow(&self, breach: &Breach) -> Result<(), Reason> {
        match breach {
            Breach::Recreated { was, is } => Err(Reason::Recreated { was: was.clone(), is: is.clone() }),
            _ if self.set.is_some() => Ok(()),
            Breach::Restored { at, to, frontier } if self.on_restore == OnRestore::Stop => {
                let partitions = frontier.iter().map(|(id, offset)| (*id, *offset)).collect();
                Err(Reason::Restored { at: *at, to: *to, partitions })
            }
            Breach::OtherTopic { was, is, .. } if self.on_gap == OnGap::Stop => {
                Err(Reason::OtherTopic { was: was.clone(), is: is.clone() })
            }
            Breach::Forgotten { keeps, partitions } => {
                Err(Reason::Forgotten { partitions: partitions.clone(), keeps: keeps.clone() })
            }
            Breach::Restored { .. } | Breach::OtherTopic { .. } => Ok(()),
        }
    }

    /// Writes an allowed breach down, for one partition.
    fn heal(&self, id: PartitionId, partition: &mut Partition, breach: Breach) {
        let chain = partition.expect.unwrap_or(Offset::ZERO);
        match &breach {
            Breach::Recreated { .. } | Breach::Forgotten { .. } => {}
            Breach::Restored { at, to, frontier } => {
                let covers = frontier.get(&id).copied().unwrap_or(Offset::ZERO);
                let (replays, from, to, how) = match self.on_restore {
                    OnRestore::Accept => (false, covers, chain, format!("version {at} restored {to}; accept went on")),
                    _ => (true, chain, covers, format!("version {at} restored {to}; replay read it again")),
                };
                let gap = Gap { partition: id, from, to, reason: format!("{how} (--on-restore)") };
                partition.anchor_at(if replays { covers } else { chain }, Some(gap), Some(breach));
            }
            Breach::OtherTopic { was, is, .. } => {
                let reason = format!("topic {was} was replaced by topic {is}; --on-gap=skip took the new one");
                let base = Base::Oldest { chain, reason, healing: Some(breach.clone()) };
                partition.begin(Place::Unplaced(base), Offset::ZERO);
            }
        }
    }

    fn rewind(
        &self,
        id: PartitionId,
        partition: &mut Partition,
        stored: Option<Offset>,
        known: Offset,
    ) -> Result<(), Reason> {
        let what = "the stored offset went back";
        match (self.on_restore, stored) {
            (OnRestore::Stop, stored) => return Err(Reason::Rewound { partition: id, known, stored }),
            (OnRestore::Replay, Some(stored)) => {
                let reason = format!("{what}; --on-restore=replay read again from there");
                partition.anchor_at(stored, Some(Gap { partition: id, from: known, to: stored, reason }), None);
            }
            (OnRestore::Replay, None) => {
                let reason = format!("{what} to none; --on-restore=replay began anew");
                partition.begin(Place::Unplaced(Base::Oldest { chain: known, reason, healing: None }), Offset::ZERO);
            }
            (OnRestore::Accept, stored) => {
                let from = stored.unwrap_or(Offset::ZERO);
                let reason = format!("{what}; --on-restore=accept went on");
                partition.anchor_at(known, Some(Gap { partition: id, from, to: known, reason }), None);
            }
        }
        Ok(())
    }

    /// Decides where an unplaced partition begins, from what the input holds.
    pub(super) fn place(&self, id: PartitionId, partition: &mut Partition, bounds: Bounds) -> Result<(), Reason> {
        let Bounds { oldest, end } = bounds;
        let Place::Unplaced(base) = partition.place.clone() else { return Ok(()) };
        match base {
            Base::Beginning => match self.beginning {
                Beginning::Earliest => partition.place_at(oldest),
                Beginning::Latest => partition.anchor_at(end, None, None),
            },
            Base::Seek(at) if oldest <= at && at <= end => partition.anchor_at(at, None, None),
            Base::Seek(at) => {
                if self.on_gap == OnGap::Stop {
                    return Err(Reason::SeekOutside { partition: id, at, oldest, end });
                }
                let to = at.clamp(oldest, end);
                let reason = format!("the topic held {oldest} to {end}; --on-gap=skip took the nearest start");
                partition.anchor_at(to, Some(Gap { partition: id, from: at, to, reason }), None);
            }
            Base::Owed => self.look_for_owed(id, partition, bounds)?,
            Base::Oldest { chain, reason, healing } => {
                let gap = Gap { partition: id, from: chain, to: oldest, reason };
                partition.anchor_at(oldest, Some(gap), healing);
            }
        }
        Ok(())
    }

    /// Decides what becomes of a partition that stands where the input holds nothing.
    pub(super) fn bridge(&self, id: PartitionId, partition: &mut Partition, bounds: Bounds) -> Result<(), Reason> {
        let Bounds { oldest, end } = bounds;
        if partition.mail.owed.is_some() {
            return self.look_for_owed(id, partition, bounds);
        }
        let at = partition.taken;
        let reason = match self.on_gap {
            OnGap::Stop if at < oldest => return Err(Reason::Expired { partition: id, at, oldest, end }),
            OnGap::Stop => return Err(Reason::Truncated { partition: id, at, oldest, end }),
            OnGap::Skip if at < oldest => format!("deleted before it was read; --on-gap=skip went on at {oldest}"),
            OnGap::Skip => format!("the topic ended at {end}, below it; --on-gap=skip went on at {oldest}"),
        };
        partition.anchor_at(oldest, Some(Gap { partition: id, from: at, to: oldest, reason }), None);
        Ok(())
    }
}
