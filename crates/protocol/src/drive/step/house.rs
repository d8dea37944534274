//! What is done beside reading, stepping and committing.

use super::super::stopped::{Trouble, trouble};
use super::{Port, StepDrive};
use crate::core::step::{StepAction, StepEvent};
use crate::drive::Watch;
use crate::ports::{CheckpointStore, Circuit, InputLog, OutputLog, Point, World};

/// An idle pipeline commits nothing, and sinks have things to do by the clock all the same.
const TEND_IDLE_MS: u64 = 60 * 60 * 1_000;

impl<I, C, O, S, W, V> StepDrive<I, C, O, S, W, V>
where
    I: InputLog,
    C: Circuit,
    O: OutputLog<Batch = C::Batch, Layout = C::Layout>,
    S: CheckpointStore,
    W: World,
    V: Watch,
{
    /// What follows commits.
    pub(super) fn keep_house(&mut self, action: StepAction) -> Result<StepEvent, Trouble> {
        Ok(match action {
            StepAction::Announce { frontier } => {
                self.world.reach(Point::BeforeAnnounce);
                self.ports.input.announce(&frontier);
                self.world.reach(Point::AfterAnnounce);
                StepEvent::Announced
            }
            StepAction::Tend { sink } => {
                self.world.reach(Point::BeforeTend);
                self.sink(sink).tend();
                self.world.reach(Point::AfterTend);
                StepEvent::Tended(sink)
            }
            StepAction::Prepare { id } => {
                self.world.reach(Point::BeforePrepare);
                let begun = self.ports.circuit.prepare(id);
                begun.map_err(trouble(Port::Circuit, "begin to save the state"))?;
                self.world.reach(Point::AfterPrepare);
                StepEvent::Prepared
            }
            StepAction::Remove(old) => {
                self.world.reach(Point::BeforeRemove);
                let removed = self.ports.checkpoints.remove(&old);
                removed.map_err(trouble(Port::Checkpoints, "remove older checkpoints"))?;
                self.watch.removed(old.len());
                self.world.reach(Point::AfterRemove);
                StepEvent::Removed
            }
            StepAction::Trim { below } => {
                self.world.reach(Point::BeforeTrim);
                self.ports.input.trim(&below).map_err(trouble(Port::Input, "trim the source"))?;
                self.watch.trimmed(&below);
                self.world.reach(Point::AfterTrim);
                StepEvent::Trimmed
            }
            StepAction::Release { partitions } => {
                self.world.reach(Point::BeforeRelease);
                self.ports.input.release(&partitions).map_err(trouble(Port::Input, "let go of the input"))?;
                self.world.reach(Point::AfterRelease);
                StepEvent::Released
            }
            StepAction::Discard(why) => {
                self.watch.discarded(&why);
                self.forget_batch();
                StepEvent::Discarded
            }
            other => unreachable!("{other:?} is done elsewhere"),
        })
    }

    /// Lets every sink keep its house from time to time, also where nothing is committed.
    pub(super) fn tend_idle(&mut self) {
        let now_ms = self.world.now_ms();
        if now_ms.saturating_sub(self.tended_ms) >= TEND_IDLE_MS {
            self.tended_ms = now_ms;
            self.world.reach(Point::BeforeTend);
            self.ports.sinks.iter_mut().for_each(OutputLog::tend);
            self.world.reach(Point::AfterTend);
        }
    }
}
