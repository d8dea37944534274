//! A topic with one group of readers, and readers of their own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::{Clock, MemoryError};
use crate::ports::{Bounds, Input, InputLog};
use crate::position::{Frontier, Offset, PartitionId};
use crate::records::{Records, TimestampType};

/// How partitions move between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// Those that move are asked back alone.
    Cooperative,
    /// All are asked back, then all are handed out anew.
    Eager,
}

/// A topic and its group. A clone is the same topic.
#[derive(Clone)]
pub struct Topic(Arc<Mutex<State>>);

struct State {
    logs: Vec<Log>,
    members: BTreeMap<u64, Member>,
    next_member: u64,
    handover: Handover,
    announced: Frontier,
    clock: Clock,
    outage: bool,
}

#[derive(Default)]
struct Log {
    oldest: i64,
    /// By offset, from 0. A hole is an offset without a record.
    slots: Vec<Slot>,
}

#[derive(Clone)]
enum Slot {
    Record(Option<Vec<u8>>),
    Hole,
}

#[derive(Default)]
struct Member {
    owned: BTreeSet<PartitionId>,
    losing: BTreeSet<PartitionId>,
    says: VecDeque<Said>,
    /// Thrown out by the group, and hears of it after so many polls.
    evicted: Option<u32>,
}

#[derive(Clone)]
enum Said {
    Gained(BTreeSet<PartitionId>),
    Losing(BTreeSet<PartitionId>),
}

impl Topic {
    /// An empty topic.
    #[must_use]
    pub fn new(partitions: u32, handover: Handover, clock: Clock) -> Self {
        let logs = (0..partitions).map(|_| Log::default()).collect();
        let (members, announced) = (BTreeMap::new(), Frontier::new());
        Self(Arc::new(Mutex::new(State { logs, members, next_member: 0, handover, announced, clock, outage: false })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Appends one record; `None` is a tombstone. Returns its offset.
    pub fn append(&self, partition: PartitionId, value: Option<&[u8]>) -> i64 {
        self.state().log(partition).push(Slot::Record(value.map(<[u8]>::to_vec)))
    }

    /// Appends an offset without a record.
    pub fn append_hole(&self, partition: PartitionId) -> i64 {
        self.state().log(partition).push(Slot::Hole)
    }

    /// Deletes what lies below `oldest`.
    pub fn expire(&self, partition: PartitionId, oldest: Offset) {
        let mut state = self.state();
        let log = state.log(partition);
        log.oldest = log.oldest.max(oldest.get().min(log.end()));
    }

    /// Deletes what lies at `end` or above.
    pub fn truncate(&self, partition: PartitionId, end: Offset) {
        let length = usize::try_from(end.get()).expect("not negative");
        self.state().log(partition).slots.truncate(length);
    }

    /// Deletes everything and begins at 0 again.
    pub fn recreate(&self) {
        self.state().logs.iter_mut().for_each(|log| *log = Log::default());
    }

    /// Makes every call fail, or ends that.
    pub fn outage(&self, on: bool) {
        self.state().outage = on;
    }

    /// One more member.
    #[must_use]
    pub fn join(&self) -> MemoryInput {
        let mut state = self.state();
        let id = state.next_member;
        state.next_member += 1;
        state.members.insert(id, Member::default());
        state.rebalance();
        self.input(Reader::Member(id))
    }

    /// A reader by step: it has every partition, and shares none.
    #[must_use]
    pub fn open_alone(&self) -> MemoryInput {
        self.input(Reader::Alone { told: 0 })
    }

    fn input(&self, reader: Reader) -> MemoryInput {
        MemoryInput { topic: self.clone(), reader, reading: BTreeMap::new(), turn: 0, arenas: Vec::new(), trims: false }
    }

    /// One more partition.
    pub fn extend(&self) {
        let mut state = self.state();
        state.logs.push(Log::default());
        state.rebalance();
    }

    /// Throws a member out that the group takes for dead; it hears of it after so many polls, and
    /// reads on until then.
    pub fn evict(&self, member: u64, polls: u32) {
        let mut state = self.state();
        let Some(thrown) = state.members.get_mut(&member) else { return };
        if thrown.evicted.is_none() {
            thrown.evicted = Some(polls);
            thrown.says.clear();
            state.rebalance();
        }
    }

    /// Where the newest record will be, and the oldest is.
    #[must_use]
    pub fn bounds(&self, partition: PartitionId) -> Bounds {
        self.state().log(partition).bounds()
    }

    /// How many partitions it has.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        u32::try_from(self.state().logs.len()).expect("few partitions")
    }

    /// What lag tools see.
    #[must_use]
    pub fn announced(&self) -> Frontier {
        self.state().announced.clone()
    }

    /// The value of every record that is or was in the topic, tombstones apart.
    #[must_use]
    pub fn records(&self, partition: PartitionId) -> Vec<(Offset, Vec<u8>)> {
        let mut state = self.state();
        let slots = (0..).zip(&state.log(partition).slots);
        let records = slots.filter_map(|(offset, slot)| match slot {
            Slot::Record(Some(value)) => Some((Offset::new(offset).expect("not negative"), value.clone())),
            Slot::Record(None) | Slot::Hole => None,
        });
        records.collect()
    }
}

impl Log {
    fn push(&mut self, slot: Slot) -> i64 {
        self.slots.push(slot);
        self.end() - 1
    }

    fn end(&self) -> i64 {
        i64::try_from(self.slots.len()).expect("a short log")
    }

    fn bounds(&self) -> Bounds {
        let offset = |raw| Offset::new(raw).expect("not negative");
        Bounds { oldest: offset(self.oldest), end: offset(self.end()) }
    }
}

impl State {
    fn log(&mut self, partition: PartitionId) -> &mut Log {
        &mut self.logs[partition.0 as usize]
    }

    /// Who should have what: in turn, by name.
    fn target(&self) -> BTreeMap<PartitionId, u64> {
        let members: Vec<u64> = self.members.iter().filter(|(_, m)| m.evicted.is_none()).map(|(id, _)| *id).collect();
        if members.is_empty() {
            return BTreeMap::new();
        }
        let ids = 0..u32::try_from(self.logs.len()).expect("few partitions");
        ids.map(|p| (PartitionId(p), members[p as usize % members.len()])).collect()
    }

    /// Asks back what has to move, then hands out what nobody has.
    fn rebalance(&mut self) {
        let target = self.target();
        for (id, member) in self.members.iter_mut().filter(|(_, m)| m.evicted.is_none()) {
            let moves: BTreeSet<_> = match self.handover {
                Handover::Cooperative => member.owned.iter().filter(|p| target.get(p) != Some(id)).copied().collect(),
                Handover::Eager => member.owned.clone(),
            };
            let asked: BTreeSet<_> = moves.difference(&member.losing).copied().collect();
            if !asked.is_empty() {
                member.losing.extend(asked.iter().copied());
                member.says.push_back(Said::Losing(asked));
            }
        }
        self.hand_out();
    }

    fn hand_out(&mut self) {
        let target = self.target();
        let waits = self.handover == Handover::Eager
            && self.members.values().any(|member| member.evicted.is_none() && !member.losing.is_empty());
        if waits {
            return;
        }
        let taken: BTreeSet<PartitionId> =
            self.members.values().filter(|m| m.evicted.is_none()).flat_map(|m| m.owned.iter().copied()).collect();
        for (id, member) in self.members.iter_mut().filter(|(_, m)| m.evicted.is_none()) {
            let mine = target.iter().filter(|(p, owner)| *owner == id && !taken.contains(p));
            let gained: BTreeSet<_> = mine.map(|(p, _)| *p).collect();
            if !gained.is_empty() {
                member.owned.extend(gained.iter().copied());
                member.says.push_back(Said::Gained(gained));
            }
        }
    }
}

/// One reader: a member of the group, or one alone.
pub struct MemoryInput {
    topic: Topic,
    reader: Reader,
    reading: BTreeMap<PartitionId, Reading>,
    /// Whose turn it is to be read.
    turn: usize,
    arenas: Vec<Records>,
    trims: bool,
}

#[derive(Clone, Copy)]
enum Reader {
    Member(u64),
    /// Has every partition; so many it was told of.
    Alone {
        told: usize,
    },
}

struct Reading {
    at: Offset,
    /// The end that we told last.
    told: Option<Offset>,
    gone: bool,
}

impl MemoryInput {
    /// Its name in the group.
    ///
    /// # Panics
    /// While it reads alone.
    #[must_use]
    pub fn member(&self) -> u64 {
        match self.reader {
            Reader::Member(id) => id,
            Reader::Alone { .. } => panic!("who reads alone is in no group"),
        }
    }

    /// Deletes what it is told that nobody needs.
    #[must_use]
    pub fn trimming(mut self) -> Self {
        self.trims = true;
        self
    }

    /// What the group says, or how many partitions there are.
    fn heard(&mut self) -> Option<Input> {
        match &mut self.reader {
            Reader::Member(id) => {
                let id = *id;
                self.heard_as(id)
            }
            Reader::Alone { told } => {
                let all = self.topic.state().logs.len();
                let new = std::mem::replace(told, all)..all;
                let id = |p| PartitionId(u32::try_from(p).expect("few partitions"));
                (!new.is_empty()).then(|| Input::Gained(new.map(id).collect()))
            }
        }
    }

    fn heard_as(&mut self, id: u64) -> Option<Input> {
        let mut state = self.topic.state();
        let member = state.members.get_mut(&id)?;
        if let Some(polls @ 1..) = member.evicted {
            member.evicted = Some(polls - 1);
        } else if member.evicted.is_some() {
            let lost = std::mem::take(member).owned;
            state.rebalance();
            drop(state);
            self.reading.clear();
            return (!lost.is_empty()).then_some(Input::Lost(lost));
        }
        let said = member.says.pop_front()?;
        drop(state);
        Some(match said {
            Said::Gained(partitions) => Input::Gained(partitions),
            Said::Losing(partitions) => Input::Losing(partitions),
        })
    }

    fn read(&mut self, most: usize) -> Option<Input> {
        let partitions: Vec<PartitionId> = self.reading.keys().copied().collect();
        for n in 0..partitions.len() {
            let partition = partitions[(self.turn + n) % partitions.len()];
            if let Some(said) = self.read_one(partition, most) {
                self.turn = self.turn.wrapping_add(n + 1);
                return Some(said);
            }
        }
        None
    }

    fn read_one(&mut self, partition: PartitionId, most: usize) -> Option<Input> {
        let mut state = self.topic.state();
        let log = state.log(partition);
        let Bounds { oldest, end } = log.bounds();
        let reading = self.reading.get_mut(&partition).expect("it is being read");
        if reading.gone {
            return None;
        }
        if reading.at < oldest || reading.at > end {
            reading.gone = true;
            return Some(Input::Gone { partition, at: reading.at, oldest, end });
        }
        if reading.at == end {
            let news = reading.told != Some(end);
            reading.told = Some(end);
            return news.then_some(Input::Reached { partition, end });
        }
        let mut records = self.arenas.pop().unwrap_or_else(|| Records::new(partition, reading.at));
        records.reset(partition, reading.at);
        let from = usize::try_from(reading.at.get()).expect("not negative");
        for (offset, slot) in (reading.at.get()..).zip(&log.slots[from..]) {
            match slot {
                Slot::Record(_) if records.len() == most => break,
                Slot::Record(value) => records.push(offset, offset, TimestampType::CreateTime, value.as_deref()),
                Slot::Hole => records.cover_until(Offset::after(offset).expect("not negative")),
            }
        }
        records.pad();
        reading.at = records.to();
        Some(Input::Records(records))
    }
}

impl InputLog for MemoryInput {
    type Error = MemoryError;

    fn poll(&mut self, most: usize, wait: Duration) -> Result<Option<Input>, MemoryError> {
        if self.topic.state().outage {
            return Err(MemoryError::Outage("read"));
        }
        let said = self.heard().or_else(|| if most > 0 { self.read(most) } else { None });
        if said.is_none() {
            self.topic.state().clock.advance(wait);
        }
        Ok(said)
    }

    fn start(&mut self, at: &Frontier) -> Result<(), MemoryError> {
        if self.topic.state().outage {
            return Err(MemoryError::Outage("start"));
        }
        for (partition, at) in at {
            self.reading.insert(*partition, Reading { at: *at, told: None, gone: false });
        }
        Ok(())
    }

    fn release(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<(), MemoryError> {
        self.reading.retain(|p, _| !partitions.contains(p));
        let mut state = self.topic.state();
        let Reader::Member(id) = self.reader else { return Ok(()) };
        let Some(member) = state.members.get_mut(&id).filter(|m| m.evicted.is_none()) else { return Ok(()) };
        let unasked = partitions.iter().any(|p| member.owned.contains(p) && !member.losing.contains(p));
        member.owned.retain(|p| !partitions.contains(p));
        member.losing.retain(|p| !partitions.contains(p));
        if unasked {
            // At the end: it leaves.
            state.members.remove(&id);
            state.rebalance();
        } else {
            state.hand_out();
        }
        Ok(())
    }

    fn bounds(&mut self, partition: PartitionId) -> Result<Bounds, MemoryError> {
        let mut state = self.topic.state();
        if state.outage { Err(MemoryError::Outage("ask for offsets")) } else { Ok(state.log(partition).bounds()) }
    }

    fn announce(&mut self, frontier: &Frontier) {
        let mut state = self.topic.state();
        let owned = match self.reader {
            Reader::Member(id) => {
                let member = state.members.get(&id).filter(|m| m.evicted.is_none());
                member.map(|m| m.owned.clone()).unwrap_or_default()
            }
            Reader::Alone { .. } => frontier.keys().copied().collect(),
        };
        state.announced.extend(frontier.iter().filter(|(p, _)| owned.contains(p)).map(|(p, o)| (*p, *o)));
    }

    fn recycle(&mut self, records: Records) {
        self.arenas.push(records);
    }

    fn trim(&mut self, below: &Frontier) -> Result<(), MemoryError> {
        if self.topic.state().outage {
            return Err(MemoryError::Outage("trim"));
        }
        if self.trims {
            below.iter().for_each(|(partition, oldest)| self.topic.expire(*partition, *oldest));
        }
        Ok(())
    }
}

impl Drop for MemoryInput {
    fn drop(&mut self) {
        let mut state = self.topic.state();
        if let Reader::Member(id) = self.reader
            && state.members.remove(&id).is_some()
        {
            state.rebalance();
        }
    }
}
