//! Frontiers told again, for sinks that forget what is not committed for some time.
//!
//! Whenever the core asks where partitions stand, the sink says which frontiers are fading; now and then
//! ([`Event::Renew`](super::Event::Renew)) it is asked for that alone. They are committed once more as they are, from
//! and to the same offset, by a commit that is compared like any other: who was fenced meanwhile renews nothing.
//!
//! Nothing is held of a partition that is renewed, and its dead letters are not owed: what vouches for these (the mark
//! of [`Head::dead`]) is as old as the frontier, and is not told again.

use std::collections::BTreeSet;

use super::Core;
use super::place::{Partition, Place};
use crate::ports::{Advance, Head};
use crate::position::PartitionId;

impl Partition {
    /// The move of a partition that is told again.
    pub fn stay(&self) -> Advance {
        assert!(!self.is_held(), "P1: a frontier is told again while records above it are held");
        Advance { expect: self.expect, from: self.from, to: self.from }
    }

    /// It is to be told again, and can be.
    pub fn is_renewed(&self) -> bool {
        self.fades && self.may_stay()
    }

    fn may_stay(&self) -> bool {
        let stands = matches!(self.place, Place::Placed | Place::Open);
        stands && !self.is_held() && self.mail.owed.is_none() && self.expect == Some(self.from)
    }
}

impl Core {
    /// Whom the sink is asked about: those gained, and all if that is what the time has come for.
    pub(super) fn asked(&self, gained: BTreeSet<PartitionId>) -> BTreeSet<PartitionId> {
        if self.renewing { self.partitions.keys().copied().collect() } else { gained }
    }

    /// Notes which frontiers are to be told again. Who sets them by hand leaves all others alone.
    pub(super) fn mind_what_fades(&mut self, head: &Head) {
        self.renewing = false;
        if self.policies.set.is_some() {
            return;
        }
        for (id, partition) in self.partitions.iter_mut().filter(|(id, _)| head.fading.contains(id)) {
            partition.fades = head.frontier.get(id).copied() == partition.expect;
        }
    }
}
