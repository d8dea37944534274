//! The loop by step: asks the core, calls a port, tells the core.
//!
//! What the core leaves out is here: time, sizes, retries. An error that may heal is waited out, and
//! then the core is asked again; nothing is tried again blindly.

mod house;
mod input;
mod limits;
mod save;

#[cfg(test)]
mod tests;

use std::error::Error;
use std::time::Duration;

pub use limits::StepLimits;

use super::retry::Backoff;
use super::stopped::{Trouble, stops, trouble};
use super::{
    FIRST_RACE_MS, FIRST_RETRY_MS, LONGEST_RACE_MS, LONGEST_RETRY_MS, Port, Progress, Stopped, TICK, Watch,
    longest_retry_ms,
};
use crate::core::step::{StepAction, StepCore, StepEvent};
use crate::core::{Ending, Outcome};
use crate::ports::{
    Checkpoint, CheckpointStore, Circuit, InputLog, OutputLog, Permit, Point, Put, Restored, Stopping, World,
};
use crate::position::{CommitId, SinkId, TableVersion};
use crate::records::Records;

/// The rooms that a pipeline by step talks to.
pub struct Ports<I, C, O, S> {
    /// The sources, opened alone ([`Sources`](crate::sources::Sources) makes one of several).
    pub input: I,
    /// What turns input into changes.
    pub circuit: C,
    /// The sinks, in the order of commits.
    pub sinks: Vec<O>,
    /// The checkpoints.
    pub checkpoints: S,
}

/// Runs until all is done, or somebody has to look.
///
/// # Errors
/// See [`Stopped`]; its text says what happened and what to do.
pub fn drive_steps<I, C, O, S, W, V>(
    core: StepCore,
    ports: Ports<I, C, O, S>,
    world: W,
    watch: V,
    limits: StepLimits,
) -> Result<Ending, Stopped>
where
    I: InputLog,
    C: Circuit,
    O: OutputLog<Batch = C::Batch, Layout = C::Layout>,
    S: CheckpointStore,
    W: World,
    V: Watch,
{
    let mut drive = StepDrive::new(core, ports, world, watch, limits);
    loop {
        if let Progress::Ended(ending) = drive.step()? {
            return Ok(ending);
        }
    }
}

/// One process of a pipeline by step: the core and what it talks to.
pub struct StepDrive<I, C, O: OutputLog, S, W, V> {
    core: StepCore,
    ports: Ports<I, C, O, S>,
    world: W,
    watch: V,
    limits: StepLimits,
    /// What is sealed and not committed.
    batch: Option<O::Batch>,
    /// The last permit tried.
    permit: Option<Permit>,
    /// Read, and not taken in: what they need can't be had yet.
    waiting: Option<Records>,
    /// What was pushed since the last step: since when, and how many bytes of values.
    since_ms: Option<u64>,
    value_bytes: usize,
    saved_ms: u64,
    /// When sinks were last tended for want of anything else.
    tended_ms: u64,
    trouble: Backoff,
    puts: Backoff,
    races: Backoff,
    last_error: Option<String>,
    stopping: Stopping,
    stopping_since_ms: u64,
}

impl<I, C, O, S, W, V> StepDrive<I, C, O, S, W, V>
where
    I: InputLog,
    C: Circuit,
    O: OutputLog<Batch = C::Batch, Layout = C::Layout>,
    S: CheckpointStore,
    W: World,
    V: Watch,
{
    /// A process that has done nothing yet.
    ///
    /// # Panics
    /// When the sinks are not those of the core's plan.
    pub fn new(core: StepCore, ports: Ports<I, C, O, S>, mut world: W, watch: V, limits: StepLimits) -> Self {
        assert!(limits.batch_messages > 0, "a batch has at least one message");
        assert!(ports.sinks.len() == core.sinks(), "the plan names {} sinks", core.sinks());
        let saved_ms = world.now_ms();
        Self {
            core,
            ports,
            world,
            watch,
            limits,
            batch: None,
            permit: None,
            waiting: None,
            since_ms: None,
            value_bytes: 0,
            saved_ms,
            tended_ms: saved_ms,
            trouble: Backoff::new(FIRST_RETRY_MS, LONGEST_RETRY_MS),
            puts: Backoff::new(FIRST_RETRY_MS, LONGEST_RETRY_MS),
            races: Backoff::new(FIRST_RACE_MS, LONGEST_RACE_MS),
            last_error: None,
            stopping: Stopping::No,
            stopping_since_ms: 0,
        }
    }

    /// What the core knows.
    pub fn core(&self) -> &StepCore {
        &self.core
    }

    /// Does the next thing.
    ///
    /// # Errors
    /// See [`Stopped`].
    pub fn step(&mut self) -> Result<Progress, Stopped> {
        self.heed_wishes()?;
        let action = self.core.next();
        match self.perform(action) {
            Ok(progress) => {
                self.trouble.reset();
                Ok(progress)
            }
            Err(Trouble::Stops(stopped)) => Err(stopped),
            Err(Trouble::Heals { port, doing, source }) => {
                let (attempt, wait) = self.trouble.failed(&mut self.world, longest_retry_ms(self.stopping));
                self.wait_out(port, doing, &*source, attempt, wait)?;
                Ok(Progress::Went)
            }
        }
    }

    /// Tells the core when somebody wants us to end, and gives up when that takes too long.
    fn heed_wishes(&mut self) -> Result<(), Stopped> {
        let wish = self.world.stopping();
        if wish != self.stopping {
            if self.stopping == Stopping::No {
                self.stopping_since_ms = self.world.now_ms();
            }
            self.stopping = wish;
            self.core.on(StepEvent::Stopping(wish));
        }
        if self.stopping == Stopping::Gracefully {
            let waited_ms = self.world.now_ms().saturating_sub(self.stopping_since_ms);
            if waited_ms > self.limits.grace_ms {
                return Err(Stopped::GaveUp { waited_ms, last: self.last_error.take() });
            }
        }
        Ok(())
    }

    fn sink(&mut self, sink: SinkId) -> &mut O {
        &mut self.ports.sinks[usize::from(sink.0)]
    }

    fn perform(&mut self, action: StepAction) -> Result<Progress, Trouble> {
        let event = match action {
            StepAction::Read => return self.read(),
            StepAction::End(ending) => {
                self.watch.ended(ending);
                return Ok(Progress::Ended(ending));
            }
            StepAction::Stop(reason) => return Err(Trouble::Stops(reason.into())),
            StepAction::Put(permit) => return self.put(permit),
            StepAction::Finish => return self.finish(TICK),
            StepAction::Save(checkpoint) => return self.save(&checkpoint),
            StepAction::Find { sink, commit, from } => return self.find(sink, commit, from),
            StepAction::List | StepAction::Load { .. } | StepAction::Ask { .. } | StepAction::Gaps { .. } => {
                self.ask(action)?
            }
            StepAction::Pass { partition, from, to } => self.pass(partition, from, to)?,
            StepAction::Name => StepEvent::Named(self.world.commit_id()),
            StepAction::Open { sink } => {
                let layout = self.sink(sink).layout();
                let opened = self.ports.circuit.open(sink, &layout);
                opened.map_err(trouble(Port::Circuit, "prepare for a sink's schema"))?;
                StepEvent::Opened(sink)
            }
            StepAction::Restore(checkpoint) => self.restore(&checkpoint)?,
            StepAction::Start { positions } => {
                self.world.reach(Point::BeforeStart);
                // The input gives them again, from where it starts.
                self.waiting = None;
                self.ports.input.start(&positions).map_err(trouble(Port::Input, "start to read"))?;
                self.watch.started(&positions);
                StepEvent::Started
            }
            StepAction::Step { from, to, wanted } => {
                let held = self.ports.circuit.step(&wanted);
                let held = held.map_err(|error| stops(Port::Circuit, "take a step", error))?;
                (self.since_ms, self.value_bytes) = (None, 0);
                self.watch.stepped(&from, &to);
                self.world.reach(Point::AfterStep);
                StepEvent::Stepped { held }
            }
            StepAction::Seal { sink } => {
                self.world.reach(Point::BeforeSeal);
                let sealed = self.ports.circuit.seal(sink);
                self.batch = sealed.map_err(trouble(Port::Circuit, "write data files"))?;
                self.permit = None;
                self.world.reach(Point::AfterSeal);
                StepEvent::Sealed { id: self.world.commit_id(), rows: self.batch.is_some() }
            }
            other => self.keep_house(other)?,
        };
        self.core.on(event);
        Ok(Progress::Went)
    }

    /// Where everything stands.
    fn ask(&mut self, question: StepAction) -> Result<StepEvent, Trouble> {
        Ok(match question {
            StepAction::List => {
                let listed = self.ports.checkpoints.list();
                StepEvent::Listed(listed.map_err(trouble(Port::Checkpoints, "list checkpoints"))?)
            }
            StepAction::Load { sink, partitions } => {
                let head = self.sink(sink).load(&partitions);
                StepEvent::Loaded(head.map_err(trouble(Port::Output, "read a sink's log"))?)
            }
            StepAction::Ask { partition } => {
                let bounds = self.ports.input.bounds(partition);
                let bounds = bounds.map_err(trouble(Port::Input, "ask for a partition's offsets"))?;
                StepEvent::Bounds { partition, bounds }
            }
            StepAction::Gaps { sink, above } => {
                let gaps = self.sink(sink).gaps(&above);
                StepEvent::Gaps(gaps.map_err(trouble(Port::Output, "read what gaps a table's log has"))?)
            }
            other => unreachable!("{other:?} asks nothing"),
        })
    }

    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<StepEvent, Trouble> {
        let restored = self.ports.circuit.restore(checkpoint);
        let restored = restored.map_err(trouble(Port::Circuit, "restore the state"))?;
        (self.since_ms, self.value_bytes) = (None, 0);
        if restored == Restored::Done {
            self.saved_ms = self.world.now_ms();
            self.watch.restored(checkpoint);
        }
        Ok(StepEvent::Restored(restored))
    }

    /// Puts a version. After an error the core is told before we wait: the outcome is unknown.
    fn put(&mut self, permit: Permit) -> Result<Progress, Trouble> {
        self.world.reach(Point::BeforePut);
        let sink = &mut self.ports.sinks[usize::from(permit.sink().0)];
        let put = sink.put(&permit, self.batch.as_ref());
        self.world.reach(Point::AfterPut);
        let version = permit.version();
        self.permit = Some(permit);
        let outcome = self.told(put, Port::Output, "commit", version, |drive, outcome| {
            if outcome == Outcome::Done {
                drive.committed(version);
            }
            drive.core.on(StepEvent::Put(outcome));
        });
        outcome.map(|()| Progress::Went)
    }

    /// What came of a put, told and waited out.
    fn told<E: crate::ports::Fault>(
        &mut self,
        put: Result<Put, E>,
        port: Port,
        doing: &'static str,
        version: TableVersion,
        tell: impl FnOnce(&mut Self, Outcome),
    ) -> Result<(), Trouble> {
        match put {
            Ok(Put::Done) => {
                tell(self, Outcome::Done);
                Ok(())
            }
            Ok(Put::Taken) => {
                tell(self, Outcome::Taken);
                self.watch.raced(version);
                let (_, wait) = self.races.failed(&mut self.world, u64::MAX);
                self.pass_time(wait).map_err(Trouble::Stops)
            }
            Err(error) => match trouble(port, doing)(error) {
                Trouble::Stops(stopped) => Err(Trouble::Stops(stopped)),
                Trouble::Heals { port, doing, source } => {
                    tell(self, Outcome::Unknown);
                    let (attempt, wait) = self.puts.failed(&mut self.world, longest_retry_ms(self.stopping));
                    self.wait_out(port, doing, &*source, attempt, wait).map_err(Trouble::Stops)
                }
            },
        }
    }

    fn find(&mut self, sink: SinkId, commit: CommitId, from: TableVersion) -> Result<Progress, Trouble> {
        let found = self.sink(sink).find(commit, from).map_err(trouble(Port::Output, "look for our commit"))?;
        if let Some(version) = found {
            self.committed(version);
        }
        self.core.on(StepEvent::Found(found));
        Ok(Progress::Went)
    }

    fn committed(&mut self, version: TableVersion) {
        if let Some(permit) = &self.permit {
            self.watch.committed(version, permit);
        }
        self.forget_batch();
        self.puts.reset();
        self.races.reset();
    }

    fn forget_batch(&mut self) {
        (self.batch, self.permit) = (None, None);
    }

    /// Waits before something is tried again, loudly.
    fn wait_out(
        &mut self,
        port: Port,
        doing: &'static str,
        error: &(dyn Error + Send + Sync + 'static),
        attempt: u32,
        wait: Duration,
    ) -> Result<(), Stopped> {
        self.watch.retrying(port, doing, error, attempt, wait);
        self.last_error = Some(format!("{doing}: {error}"));
        self.pass_time(wait)
    }

    /// Lets time pass, until the wish to stop changes.
    fn pass_time(&mut self, wait: Duration) -> Result<(), Stopped> {
        let wish = self.stopping;
        let until_ms = self.world.now_ms().saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        loop {
            self.heed_wishes()?;
            let now_ms = self.world.now_ms();
            if now_ms >= until_ms || self.stopping != wish {
                return Ok(());
            }
            self.world.pause(Duration::from_millis(until_ms - now_ms).min(TICK));
        }
    }
}
