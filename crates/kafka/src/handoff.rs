//! Between the reader's thread and the caller: what was read one way, orders the other way.
//!
//! Bounded in bytes and in number, except that one arena always passes: a record may be larger than
//! the bound. Of a partition that is stopped or started anew nothing is left behind ([`Handoff::purge`]):
//! only the reader's thread adds, and it purges before it answers the order.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lakeward_protocol::ports::Input;
use lakeward_protocol::position::{Frontier, Offset, PartitionId};
use lakeward_protocol::records::Records;

use crate::error::KafkaError;

/// The most arenas that wait for the caller.
const WAITING_MAX: usize = 256;

/// What is said of a partition, in its order.
pub(crate) enum Flow {
    Records(Records),
    Reached {
        partition: PartitionId,
        end: Offset,
    },
    /// The broker has nothing at `at`. `cut`: the log was cut back to here below it (a leader's
    /// election), and what lies above is not what we read.
    Stalled {
        partition: PartitionId,
        at: Offset,
        cut: Option<Offset>,
    },
}

impl Flow {
    fn partition(&self) -> PartitionId {
        match self {
            Self::Records(records) => records.partition(),
            Self::Reached { partition, .. } | Self::Stalled { partition, .. } => *partition,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Records(records) => records.capacity_bytes(),
            _ => 0,
        }
    }
}

/// What the caller wants of the reader.
pub(crate) enum Order {
    Start(Frontier),
    Release(BTreeSet<PartitionId>),
}

/// An order and where to say how it went.
pub(crate) struct Command {
    pub(crate) order: Order,
    pub(crate) reply: SyncSender<Result<(), KafkaError>>,
}

/// What the caller takes at once.
pub(crate) enum Said {
    Group(Input),
    Flow(Flow),
}

#[derive(Default)]
struct State {
    group: VecDeque<Input>,
    flow: VecDeque<Flow>,
    flow_bytes: usize,
    hitches: VecDeque<KafkaError>,
    fatal: Option<KafkaError>,
    commands: VecDeque<Command>,
    pool: Vec<Records>,
    pool_bytes: usize,
    /// Records and bytes of the last arena that came back: what a new one is made for.
    usual: (usize, usize),
    most: usize,
    holding: bool,
    closing: bool,
}

pub(crate) struct Handoff {
    state: Mutex<State>,
    said: Condvar,
    room: Condvar,
    bytes_max: usize,
    arena_bytes_max: usize,
}

impl Handoff {
    /// `arena_bytes` is what arenas are sealed at; one that has become much larger is not kept.
    pub(crate) fn new(bytes_max: usize, arena_bytes: usize) -> Self {
        Self {
            state: Mutex::new(State { most: usize::MAX, ..State::default() }),
            said: Condvar::new(),
            room: Condvar::new(),
            bytes_max,
            arena_bytes_max: 3 * arena_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }

    // The reader's side.

    pub(crate) fn say(&self, group: Input) {
        self.lock().group.push_back(group);
        self.said.notify_one();
    }

    /// Something that heals. Only the newest few are kept.
    pub(crate) fn hitch(&self, error: KafkaError) {
        let mut state = self.lock();
        state.hitches.push_back(error);
        if state.hitches.len() > 8 {
            state.hitches.pop_front();
        }
        self.said.notify_one();
    }

    /// Something that doesn't; the first one stays.
    pub(crate) fn fail(&self, error: KafkaError) {
        self.lock().fatal.get_or_insert(error);
        self.said.notify_one();
    }

    /// Is there room for one more arena?
    pub(crate) fn has_room(&self) -> bool {
        Self::fits(&self.lock(), self.bytes_max)
    }

    fn fits(state: &State, bytes_max: usize) -> bool {
        state.flow.len() < WAITING_MAX && state.flow_bytes < bytes_max
    }

    /// Passes on as many as there is room for.
    pub(crate) fn offer(&self, outbox: &mut VecDeque<Flow>) {
        let mut state = self.lock();
        while Self::fits(&state, self.bytes_max) {
            let Some(flow) = outbox.pop_front() else { break };
            state.flow_bytes += flow.bytes();
            state.flow.push_back(flow);
        }
        self.said.notify_one();
    }

    /// Waits for room (where nothing failed for good), or for an order, or for `wait`.
    pub(crate) fn await_room(&self, wait: Duration) {
        let state = self.lock();
        let nothing_to_do = |state: &mut State| {
            let stuck = state.fatal.is_some() || !Self::fits(state, self.bytes_max);
            stuck && state.commands.is_empty() && !state.closing
        };
        drop(self.room.wait_timeout_while(state, wait, nothing_to_do).expect("no panic while it is held"));
    }

    /// The reader holds records back that it would pass on were there room: the caller is to wake it.
    pub(crate) fn set_holding(&self, holding: bool) {
        self.lock().holding = holding;
    }

    pub(crate) fn next_command(&self) -> Option<Command> {
        self.lock().commands.pop_front()
    }

    /// Forgets what was said of these partitions.
    pub(crate) fn purge(&self, partitions: &BTreeSet<PartitionId>) {
        let mut state = self.lock();
        let flow = std::mem::take(&mut state.flow);
        let (gone, kept): (Vec<_>, Vec<_>) = flow.into_iter().partition(|f| partitions.contains(&f.partition()));
        state.flow_bytes = kept.iter().map(Flow::bytes).sum();
        state.flow = kept.into();
        for flow in gone {
            if let Flow::Records(records) = flow {
                self.keep(&mut state, records);
            }
        }
    }

    /// An empty arena at `at`.
    pub(crate) fn arena(&self, partition: PartitionId, at: Offset) -> Records {
        let mut state = self.lock();
        match state.pool.pop() {
            Some(mut records) => {
                state.pool_bytes -= records.capacity_bytes();
                records.reset(partition, at);
                records
            }
            None => Records::with_room(partition, at, state.usual.0, state.usual.1),
        }
    }

    /// Lets go of the arenas that wait for reuse.
    pub(crate) fn trim(&self) {
        let mut state = self.lock();
        let pool = std::mem::take(&mut state.pool);
        (state.pool_bytes, state.usual) = (0, (0, 0));
        drop(state);
        drop(pool);
    }

    /// The most records that the caller last asked for.
    pub(crate) fn most(&self) -> usize {
        self.lock().most
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    // The caller's side.

    /// Waits up to `wait` for something; records and what belongs to them only where `most` is not 0.
    pub(crate) fn take(&self, most: usize, wait: Duration, wake: impl Fn()) -> Result<Option<Said>, KafkaError> {
        let deadline = Instant::now() + wait;
        let mut state = self.lock();
        if most > 0 {
            state.most = most;
        }
        loop {
            if let Some(error) = &state.fatal {
                return Err(error.clone());
            }
            if let Some(group) = state.group.pop_front() {
                return Ok(Some(Said::Group(group)));
            }
            if let Some(error) = state.hitches.pop_front() {
                return Err(error);
            }
            if most > 0
                && let Some(flow) = state.flow.pop_front()
            {
                state.flow_bytes -= flow.bytes();
                self.room.notify_one();
                return Ok(Some(Said::Flow(flow)));
            }
            if most > 0 && state.holding {
                state.holding = false;
                wake();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self.said.wait_timeout(state, left).expect("no panic while it is held").0;
        }
    }

    /// Puts back what could not be told yet.
    pub(crate) fn put_back(&self, flow: Flow) {
        let mut state = self.lock();
        state.flow_bytes += flow.bytes();
        state.flow.push_front(flow);
    }

    pub(crate) fn command(&self, command: Command) {
        self.lock().commands.push_back(command);
        self.room.notify_one();
    }

    /// What stops us for good, if anything does.
    pub(crate) fn fatal(&self) -> Option<KafkaError> {
        self.lock().fatal.clone()
    }

    pub(crate) fn recycle(&self, records: Records) {
        let mut state = self.lock();
        self.keep(&mut state, records);
    }

    fn keep(&self, state: &mut State, records: Records) {
        let bytes = records.capacity_bytes();
        if bytes <= self.arena_bytes_max && state.pool_bytes + bytes <= self.bytes_max {
            state.usual = (records.len(), records.value_bytes());
            state.pool_bytes += bytes;
            state.pool.push(records);
        }
    }

    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use lakeward_protocol::records::TimestampType;

    use super::*;

    const P0: PartitionId = PartitionId(0);

    fn filled(handoff: &Handoff, records: i64) -> Records {
        let mut arena = handoff.arena(P0, Offset::ZERO);
        (0..records).for_each(|offset| arena.push(offset, 0, TimestampType::CreateTime, Some(&[7; 100])));
        arena
    }

    #[test]
    fn arenas_are_as_large_as_those_that_came_back_until_trimmed() {
        let handoff = Handoff::new(1 << 20, 1 << 20);
        let arena = filled(&handoff, 1_000);
        let bytes = arena.capacity_bytes();
        handoff.recycle(arena);
        let (again, new) = (handoff.arena(P0, Offset::ZERO), handoff.arena(P0, Offset::ZERO));
        assert_eq!(again.capacity_bytes(), bytes, "the one that came back");
        assert!((100_000..=bytes).contains(&new.capacity_bytes()), "room for as many, at once");
        handoff.recycle(again);
        handoff.trim();
        assert!(handoff.arena(P0, Offset::ZERO).capacity_bytes() < 1_000, "nothing is kept");
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let handoff = Handoff::new(1 << 18, 1 << 20);
        let arenas: Vec<_> = (0..8).map(|_| filled(&handoff, 1_000)).collect();
        arenas.into_iter().for_each(|arena| handoff.recycle(arena));
        let state = handoff.lock();
        assert!(!state.pool.is_empty() && state.pool_bytes <= 1 << 18, "{} bytes are kept", state.pool_bytes);
    }
}
