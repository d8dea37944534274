//! What the input says, and when what it gave is due.

use std::time::Duration;

use super::StepDrive;
use crate::core::Admit;
use crate::core::step::StepEvent;
use crate::drive::stopped::{Trouble, stops, trouble};
use crate::drive::{Port, Progress, TICK, Watch};
use crate::ports::{Bounds, CheckpointStore, Circuit, Input, InputLog, OutputLog, World};
use crate::position::{Offset, PartitionId};
use crate::records::Records;

impl<I, C, O, S, W, V> StepDrive<I, C, O, S, W, V>
where
    I: InputLog,
    C: Circuit,
    O: OutputLog<Batch = C::Batch, Layout = C::Layout>,
    S: CheckpointStore,
    W: World,
    V: Watch,
{
    pub(super) fn read(&mut self) -> Result<Progress, Trouble> {
        if self.is_due() {
            self.core.on(StepEvent::Due);
            return Ok(Progress::Went);
        }
        if self.is_save_due() {
            self.saved_ms = self.world.now_ms();
            self.core.on(StepEvent::SaveDue);
            return Ok(Progress::Went);
        }
        if self.core.is_saving() && self.finish(Duration::ZERO)? == Progress::Went {
            return Ok(Progress::Went);
        }
        if let Some(records) = self.waiting.take() {
            return self.take(records);
        }
        let wait = self.until_due();
        let said = self.ports.input.poll(self.limits.batch_messages, wait);
        let event = match said.map_err(trouble(Port::Input, "read"))? {
            None => {
                self.tend_idle();
                return Ok(Progress::Idle);
            }
            Some(Input::Records(records)) => return self.take(records),
            Some(Input::Reached { partition, end }) => {
                self.watch.reached(partition, end);
                StepEvent::Reached { partition, end }
            }
            Some(Input::Gone { partition, at, oldest, end }) => {
                StepEvent::Gone { partition, at, bounds: Bounds { oldest, end } }
            }
            Some(Input::Gained(partitions)) => {
                self.watch.gained(&partitions);
                StepEvent::Gained(partitions)
            }
            Some(Input::Losing(partitions) | Input::Lost(partitions)) => {
                self.watch.lost(&partitions);
                StepEvent::Lost(partitions)
            }
        };
        self.core.on(event);
        Ok(Progress::Went)
    }

    fn take(&mut self, mut records: Records) -> Result<Progress, Trouble> {
        let partition: PartitionId = records.partition();
        let Admit::Below(end) = self.core.admit(partition) else {
            self.ports.input.recycle(records);
            return Ok(Progress::Went);
        };
        if let Some(end) = end {
            records.truncate(end);
        }
        let (from, to) = (records.from(), records.to());
        if to > from {
            if let Err(error) = self.ports.circuit.look_up(&records) {
                // They are taken in by nobody yet: whoever steps, commits, or ends meanwhile need not know of them.
                self.waiting = Some(records);
                return Err(trouble(Port::Circuit, "get what records need")(error));
            }
            self.value_bytes += records.value_bytes();
            if self.since_ms.is_none() {
                self.since_ms = Some(self.world.now_ms());
            }
            self.watch.taken(&records);
            let arena = self.ports.circuit.push(records);
            let arena = arena.map_err(|error| stops(Port::Circuit, "take records in", error))?;
            arena.into_iter().for_each(|arena| self.ports.input.recycle(arena));
        } else {
            self.ports.input.recycle(records);
        }
        self.core.on(StepEvent::Taken { partition, from, to });
        Ok(Progress::Went)
    }

    fn is_due(&mut self) -> bool {
        if !self.core.is_holding() {
            return false;
        }
        let late = !self.core.is_replaying() && self.until_latency() == Some(Duration::ZERO);
        late || self.value_bytes >= self.limits.step_bytes || self.ports.circuit.is_full()
    }

    fn until_latency(&mut self) -> Option<Duration> {
        let due_ms = self.since_ms?.saturating_add(self.limits.latency_ms);
        Some(Duration::from_millis(due_ms.saturating_sub(self.world.now_ms())))
    }

    fn until_due(&mut self) -> Duration {
        let left = self.until_latency().filter(|_| self.core.is_holding());
        left.map_or(TICK, |left| left.min(TICK))
    }

    /// Lets the circuit go on behind a break.
    pub(super) fn pass(&mut self, partition: PartitionId, from: Offset, to: Offset) -> Result<StepEvent, Trouble> {
        let mut nothing = Records::new(partition, from);
        nothing.cover_until(to);
        nothing.pad();
        let arena = self.ports.circuit.push(nothing);
        let arena = arena.map_err(|error| stops(Port::Circuit, "go on behind a gap", error))?;
        arena.into_iter().for_each(|arena| self.ports.input.recycle(arena));
        Ok(StepEvent::Passed { partition, to })
    }
}
