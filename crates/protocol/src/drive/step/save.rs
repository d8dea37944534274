//! A checkpoint's save: when it is due, how it ends, and its manifest.

use std::time::Duration;

use super::super::stopped::{Trouble, trouble};
use super::super::{Port, Progress, Watch};
use super::StepDrive;
use crate::core::Outcome;
use crate::core::step::StepEvent;
use crate::ports::{Checkpoint, CheckpointStore, Circuit, InputLog, OutputLog, Point, World};
use crate::position::TableVersion;

impl<I, C, O, S, W, V> StepDrive<I, C, O, S, W, V>
where
    I: InputLog,
    C: Circuit,
    O: OutputLog<Batch = C::Batch, Layout = C::Layout>,
    S: CheckpointStore,
    W: World,
    V: Watch,
{
    /// Hears of the save that is under way. One that failed is over: the core is told before we wait.
    pub(super) fn finish(&mut self, wait: Duration) -> Result<Progress, Trouble> {
        match self.ports.circuit.finish(wait) {
            Ok(None) => Ok(Progress::Idle),
            Ok(Some(state)) => {
                self.world.reach(Point::AfterFinish);
                self.core.on(StepEvent::Finished(state));
                Ok(Progress::Went)
            }
            Err(error) => {
                self.saved_ms = self.world.now_ms();
                self.core.on(StepEvent::Failed);
                Err(trouble(Port::Circuit, "save the state")(error))
            }
        }
    }

    pub(super) fn save(&mut self, checkpoint: &Checkpoint) -> Result<Progress, Trouble> {
        let put = self.ports.checkpoints.put(checkpoint);
        self.world.reach(Point::AfterSave);
        let number = TableVersion(checkpoint.number.0);
        let outcome = self.told(put, Port::Checkpoints, "put a manifest", number, |drive, outcome| {
            if outcome == Outcome::Done {
                drive.watch.saved(checkpoint);
                drive.puts.reset();
                drive.races.reset();
            }
            drive.saved_ms = drive.world.now_ms();
            drive.core.on(StepEvent::Saved(outcome));
        });
        outcome.map(|()| Progress::Went)
    }

    pub(super) fn is_save_due(&mut self) -> bool {
        let since_ms = self.world.now_ms().saturating_sub(self.saved_ms);
        let core = &self.core;
        since_ms >= self.limits.checkpoint_ms && !core.is_saving() && !core.is_replaying() && core.is_unsaved()
    }
}
