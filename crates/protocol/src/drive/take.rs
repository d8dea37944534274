//! Records on their way into the stage, or back into the queue where the stage can't take them yet.

use super::Drive;
use super::stopped::{Trouble, stops, trouble};
use super::watch::{Port, Watch};
use crate::core::{Admit, Event};
use crate::ports::{Input, InputLog, OutputLog, Stage, World};
use crate::records::Records;

impl<I, S, O, W, V> Drive<I, S, O, W, V>
where
    I: InputLog,
    S: Stage,
    O: OutputLog<Batch = S::Batch, Layout = S::Layout>,
    W: World,
    V: Watch,
{
    pub(super) fn take(&mut self, mut records: Records) -> Result<(), Trouble> {
        let partition = records.partition();
        let (end, for_letters) = match self.core.admit(partition) {
            Admit::Below(end) => (end, false),
            Admit::Letters(end) => (Some(end), true),
            Admit::No => {
                self.input.recycle(records);
                return Ok(());
            }
        };
        if let Some(end) = end {
            records.truncate(end);
        }
        let (from, to) = (records.from(), records.to());
        if to > from {
            if let Err(error) = self.stage.prepare(&records) {
                // They are taken in by nobody yet: whoever waits, commits, or ends meanwhile need not know of them.
                self.unheard.push_front(Input::Records(records));
                return Err(trouble(Port::Stage, "get what records need")(error));
            }
            self.held.messages += records.len();
            self.held.value_bytes += records.value_bytes();
            if self.held.since_ms.is_none() {
                self.held.since_ms = Some(self.world.now_ms());
            }
            self.watch.taken(&records);
            let pushed = if for_letters { self.stage.push_for_letters(records) } else { self.stage.push(records) };
            let arena = pushed.map_err(|error| stops(Port::Stage, "convert records", error))?;
            arena.into_iter().for_each(|arena| self.input.recycle(arena));
        } else {
            self.input.recycle(records);
        }
        self.core.on(Event::Taken { partition, from, to });
        Ok(())
    }
}
