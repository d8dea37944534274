//! A sink's frontier set by hand: what that comes to, and what it needs leave for.
//!
//! It is no way around the core: a process that sets is given the partitions, loads, anchors and ends, so that its
//! commit is compared like any other. Who reads these partitions meanwhile is fenced by it, or finds the frontier set
//! back (P9).

use super::place::{Partition, Said};
use super::reason::Reason;
use crate::ports::{Breach, Gap};
use crate::position::{Frontier, Offset, PartitionId};

/// Where a person wants the sink's frontier to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Set {
    /// The next offset to take of each partition.
    pub to: Frontier,
    /// Leave to go back: what lies between will be in the sink twice.
    pub force: bool,
    /// Who wants it and why; it stands in the commit.
    pub reason: String,
}

/// What setting one partition comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// It stands there.
    Stays,
    /// The sink has no offset of it: it begins there.
    Begins,
    /// What lies between `from` and there is never taken in.
    Skips {
        /// Up to where the sink has it.
        from: Offset,
    },
    /// What lies between there and `from` is taken in once more.
    Repeats {
        /// Up to where the sink has it.
        from: Offset,
    },
    /// What is stored is about another topic of the name: it begins there, in this one.
    Changes {
        /// What is stored.
        from: Offset,
    },
}

impl Move {
    /// What it comes to, given what the sink says of the partition.
    #[must_use]
    pub fn of(partition: PartitionId, to: Offset, stored: Option<Offset>, breach: Option<&Breach>) -> Self {
        let Some(stored) = stored else { return Self::Begins };
        let from = match breach {
            Some(Breach::OtherTopic { partitions, .. }) if partitions.contains(&partition) => {
                return Self::Changes { from: stored };
            }
            // Rows above that are gone, whatever the stored frontier says.
            Some(Breach::Restored { frontier, .. }) => frontier.get(&partition).copied().unwrap_or(stored),
            _ => stored,
        };
        match to.cmp(&from) {
            std::cmp::Ordering::Less => Self::Repeats { from },
            std::cmp::Ordering::Greater => Self::Skips { from },
            std::cmp::Ordering::Equal if from == stored => Self::Stays,
            // The sink says more than it holds: that is set right.
            std::cmp::Ordering::Equal => Self::Skips { from },
        }
    }
}

impl Set {
    /// Decides what becomes of a partition, from what the sink says.
    pub(super) fn settle(&self, id: PartitionId, partition: &mut Partition, said: Said) -> Result<(), Reason> {
        let to = *self.to.get(&id).expect("who sets is given what is to be set");
        if let (None, Some(known)) = (said.stored, said.known) {
            // It was there a moment ago: what setting it comes to was told by that.
            return Err(Reason::Rewound { partition: id, known, stored: None });
        }
        let moved = Move::of(id, to, said.stored, said.breach.as_ref());
        let from = match moved {
            Move::Stays => {
                partition.place_at(to);
                return Ok(());
            }
            Move::Begins => {
                partition.anchor_at(to, None, said.breach);
                return Ok(());
            }
            Move::Repeats { from } if !self.force => {
                return Err(Reason::SetBack { partition: id, from, to });
            }
            Move::Skips { from } | Move::Repeats { from } | Move::Changes { from } => from,
        };
        let gap = Gap { partition: id, from, to, reason: self.reason.clone() };
        partition.anchor_at(to, Some(gap), said.breach);
        Ok(())
    }
}
