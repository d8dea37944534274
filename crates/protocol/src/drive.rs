//! The loop: asks the core, calls a port, tells the core.
//!
//! What the core leaves out is here: time, sizes, retries. An error that may heal is waited out,
//! with the group's word still heard, so that partitions can come and go during an outage; then the
//! core is asked again, which may want something else by then. Nothing is tried again blindly.

mod limits;
mod retry;
pub mod step;
mod stopped;
mod take;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::VecDeque;
use std::error::Error;
use std::time::Duration;

pub use limits::{Limits, Progress};
pub use stopped::Stopped;
pub use watch::{Due, Port, Watch};

use crate::core::{Action, Core, Ending, Event, LETTERS, Outcome};
use crate::ports::{Bounds, Input, InputLog, OutputLog, Permit, Point, Put, Stage, Stopping, World};
use crate::position::{CommitId, Frontier, PartitionId, SinkId, TableVersion};
use limits::{
    FIRST_RACE_MS, FIRST_RETRY_MS, Held, LONGEST_RACE_MS, LONGEST_RETRY_MS, MOST_UNHEARD, RENEWALS_A_KEEP,
    SOONEST_RENEWAL_MS, TICK, longest_retry_ms,
};
use retry::Backoff;
use stopped::{Trouble, trouble};

/// Runs until all is done, or somebody has to look.
///
/// # Errors
/// See [`Stopped`]; its text says what happened and what to do.
pub fn drive<I, S, O, W, V>(
    core: Core,
    input: I,
    stage: S,
    output: O,
    world: W,
    watch: V,
    limits: Limits,
) -> Result<Ending, Stopped>
where
    I: InputLog,
    S: Stage,
    O: OutputLog<Batch = S::Batch, Layout = S::Layout>,
    W: World,
    V: Watch,
{
    Drive::new(core, input, stage, output, world, watch, limits).run()
}

/// One process of the pipeline: the core and what it talks to.
pub struct Drive<I, S, O: OutputLog, W, V> {
    core: Core,
    input: I,
    stage: S,
    output: O,
    /// The table of dead letters.
    letters: Option<O>,
    world: W,
    watch: V,
    limits: Limits,
    /// What is sealed and not committed.
    batch: Option<O::Batch>,
    /// The same, of dead letters.
    letters_batch: Option<O::Batch>,
    /// The last permit tried.
    permit: Option<Permit>,
    held: Held,
    due_for: Option<Due>,
    /// What the input said while it was asked about its group alone.
    unheard: VecDeque<Input>,
    /// When the sink was last asked which frontiers it is to be told again.
    renewed_ms: Option<u64>,
    trouble: Backoff,
    puts: Backoff,
    races: Backoff,
    last_error: Option<String>,
    stopping: Stopping,
    stopping_since_ms: u64,
}

impl<I, S, O, W, V> Drive<I, S, O, W, V>
where
    I: InputLog,
    S: Stage,
    O: OutputLog<Batch = S::Batch, Layout = S::Layout>,
    W: World,
    V: Watch,
{
    /// A process that has done nothing yet.
    pub fn new(core: Core, input: I, stage: S, output: O, world: W, watch: V, limits: Limits) -> Self {
        assert!(limits.batch_messages > 0, "a batch has at least one message");
        Self {
            core,
            input,
            stage,
            output,
            letters: None,
            world,
            watch,
            limits,
            batch: None,
            letters_batch: None,
            permit: None,
            held: Held::default(),
            due_for: None,
            unheard: VecDeque::new(),
            renewed_ms: None,
            trouble: Backoff::new(FIRST_RETRY_MS, LONGEST_RETRY_MS),
            puts: Backoff::new(FIRST_RETRY_MS, LONGEST_RETRY_MS),
            races: Backoff::new(FIRST_RACE_MS, LONGEST_RACE_MS),
            last_error: None,
            stopping: Stopping::No,
            stopping_since_ms: 0,
        }
    }

    /// The same with a table of dead letters, for a core whose policies say that there is one.
    #[must_use]
    pub fn with_letters(self, letters: O) -> Self {
        Self { letters: Some(letters), ..self }
    }

    /// Runs until all is done, or somebody has to look.
    ///
    /// # Errors
    /// See [`Stopped`].
    pub fn run(mut self) -> Result<Ending, Stopped> {
        loop {
            if let Progress::Ended(ending) = self.step()? {
                return Ok(ending);
            }
        }
    }

    /// What the core knows.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Ends it where it stands, and hands its input back.
    pub fn into_input(self) -> I {
        self.input
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
            self.core.on(Event::Stopping(wish));
        }
        if self.stopping == Stopping::Gracefully {
            let waited_ms = self.world.now_ms().saturating_sub(self.stopping_since_ms);
            if waited_ms > self.limits.grace_ms {
                return Err(Stopped::GaveUp { waited_ms, last: self.last_error.take() });
            }
        }
        Ok(())
    }

    fn perform(&mut self, action: Action) -> Result<Progress, Trouble> {
        let event = match action {
            Action::Read => return self.read(),
            Action::End(ending) => {
                self.watch.ended(ending);
                return Ok(Progress::Ended(ending));
            }
            Action::Stop(reason) => return Err(Trouble::Stops(reason.into())),
            Action::Put(permit) => return self.put(permit),
            Action::Load { sink, partitions } => {
                let doing = if sink == LETTERS { "read the dead-letter table's log" } else { "read the table's log" };
                let head = self.sink(sink).load(&partitions).map_err(trouble(Port::of(sink), doing))?;
                Event::Loaded { sink, head }
            }
            Action::Find { sink, commit, from } => return self.find(sink, commit, from),
            Action::Open { sink } => self.open(sink)?,
            Action::Ask { partition } => {
                let bounds =
                    self.input.bounds(partition).map_err(trouble(Port::Input, "ask for a partition's offsets"))?;
                Event::Bounds { partition, bounds }
            }
            Action::Name => Event::Named(self.world.commit_id()),
            Action::Start { positions } => {
                self.world.reach(Point::BeforeStart);
                self.unheard.retain(|said| !partition_of(said).is_some_and(|p| positions.contains_key(&p)));
                self.input.start(&positions).map_err(trouble(Port::Input, "start to read"))?;
                self.watch.started(&positions);
                Event::Started
            }
            Action::Seal => self.seal()?,
            Action::Announce { frontier } => {
                self.world.reach(Point::BeforeAnnounce);
                self.input.announce(&frontier);
                self.world.reach(Point::AfterAnnounce);
                Event::Announced
            }
            Action::Tend { sink } => {
                self.world.reach(Point::BeforeTend);
                self.sink(sink).tend();
                self.world.reach(Point::AfterTend);
                Event::Tended { sink }
            }
            Action::Release { partitions } => {
                self.world.reach(Point::BeforeRelease);
                self.input.release(&partitions).map_err(trouble(Port::Input, "let go of partitions"))?;
                self.world.reach(Point::AfterRelease);
                self.watch.released(&partitions);
                Event::Released(partitions)
            }
            Action::Discard(why) => {
                self.watch.discarded(&why);
                self.stage.discard();
                self.forget_batch();
                (self.held, self.due_for) = (Held::default(), None);
                Event::Discarded
            }
        };
        self.core.on(event);
        Ok(Progress::Went)
    }

    fn sink(&mut self, sink: SinkId) -> &mut O {
        match &mut self.letters {
            Some(letters) if sink == LETTERS => letters,
            _ => &mut self.output,
        }
    }

    fn open(&mut self, sink: SinkId) -> Result<Event, Trouble> {
        assert!(!self.core.is_holding(), "P1: the stage is opened while it holds records");
        let layout = self.sink(sink).layout();
        if sink == LETTERS {
            let opened = self.stage.open_letters(&layout);
            opened.map_err(trouble(Port::Stage, "prepare for the dead-letter table's schema"))?;
        } else {
            self.stage.discard();
            self.stage.open(&layout).map_err(trouble(Port::Stage, "prepare for the table's schema"))?;
        }
        Ok(Event::Opened { sink })
    }

    fn seal(&mut self) -> Result<Event, Trouble> {
        self.world.reach(Point::BeforeSeal);
        if self.batch.is_none() {
            self.batch = Some(self.stage.seal().map_err(trouble(Port::Stage, "write data files"))?);
        }
        let mut dead = Frontier::new();
        if self.letters.is_some() {
            let letters = self.stage.seal_letters().map_err(trouble(Port::Stage, "write files of dead letters"))?;
            (self.letters_batch, dead) = (Some(letters.batch), letters.past);
        }
        let Held { messages, value_bytes, .. } = std::mem::take(&mut self.held);
        self.watch.sealed(self.due_for.take().unwrap_or(Due::Leaving), messages as u64, value_bytes as u64);
        self.world.reach(Point::AfterSeal);
        let reshapes = self.batch.as_ref().is_some_and(S::reshapes);
        Ok(Event::Sealed { id: self.world.commit_id(), dead, reshapes })
    }

    /// Puts a version. After an error the core is told before we wait: the outcome is unknown, and
    /// partitions may be lost meanwhile.
    fn put(&mut self, permit: Permit) -> Result<Progress, Trouble> {
        self.world.reach(Point::BeforePut);
        let (version, sink) = (permit.version(), permit.sink());
        let put = match &mut self.letters {
            Some(letters) if sink == LETTERS => letters.put(&permit, self.letters_batch.as_ref()),
            _ => self.output.put(&permit, self.batch.as_ref()),
        };
        self.world.reach(Point::AfterPut);
        self.permit = Some(permit);
        match put {
            Ok(Put::Done) => {
                self.committed(version);
                self.core.on(Event::Put(Outcome::Done));
            }
            Ok(Put::Taken) => {
                self.core.on(Event::Put(Outcome::Taken));
                self.watch.raced(version);
                let (_, wait) = self.races.failed(&mut self.world, u64::MAX);
                self.listen(wait).map_err(Trouble::Stops)?;
            }
            Err(error) => match trouble(Port::of(sink), "commit")(error) {
                Trouble::Stops(stopped) => return Err(Trouble::Stops(stopped)),
                Trouble::Heals { port, doing, source } => {
                    self.core.on(Event::Put(Outcome::Unknown));
                    let (attempt, wait) = self.puts.failed(&mut self.world, longest_retry_ms(self.stopping));
                    self.wait_out(port, doing, &*source, attempt, wait).map_err(Trouble::Stops)?;
                }
            },
        }
        Ok(Progress::Went)
    }

    fn find(&mut self, sink: SinkId, commit: CommitId, from: TableVersion) -> Result<Progress, Trouble> {
        let found = self.sink(sink).find(commit, from).map_err(trouble(Port::of(sink), "look for our commit"))?;
        if let Some(version) = found {
            self.committed(version);
        }
        self.core.on(Event::Found(found));
        Ok(Progress::Went)
    }

    fn committed(&mut self, version: TableVersion) {
        if let Some(permit) = self.permit.take() {
            self.watch.committed(version, &permit);
            self.batch = None;
            if permit.sink() == LETTERS || !self.core.has_letters_next() {
                self.letters_batch = None;
            }
        }
        self.puts.reset();
        self.races.reset();
    }

    fn forget_batch(&mut self) {
        (self.batch, self.letters_batch, self.permit) = (None, None, None);
    }

    fn read(&mut self) -> Result<Progress, Trouble> {
        if let Some(due) = self.due() {
            self.due_for = Some(due);
            self.core.on(Event::Due);
            return Ok(Progress::Went);
        }
        if self.must_renew() {
            self.due_for = self.core.is_holding().then_some(Due::Latency);
            self.core.on(Event::Renew);
            return Ok(Progress::Went);
        }
        let said = match self.unheard.pop_front() {
            Some(input) => Some(input),
            None => {
                let wait = self.until_due();
                self.input.poll(self.limits.batch_messages, wait).map_err(trouble(Port::Input, "read"))?
            }
        };
        match said {
            None => return Ok(Progress::Idle),
            Some(Input::Records(records)) => self.take(records)?,
            Some(Input::Reached { partition, end }) => {
                self.watch.reached(partition, end);
                self.core.on(Event::Reached { partition, end });
            }
            Some(Input::Gone { partition, at, oldest, end }) => {
                self.core.on(Event::Gone { partition, at, bounds: Bounds { oldest, end } });
            }
            Some(membership) => self.hear(membership),
        }
        Ok(Progress::Went)
    }

    /// Takes in what the group says; keeps anything else for later.
    fn hear(&mut self, said: Input) {
        match said {
            Input::Gained(partitions) => {
                self.watch.gained(&partitions);
                self.core.on(Event::Gained(partitions));
            }
            Input::Losing(partitions) => {
                self.watch.losing(&partitions);
                self.core.on(Event::Losing(partitions));
            }
            Input::Lost(partitions) => {
                self.watch.lost(&partitions);
                self.core.on(Event::Lost(partitions));
            }
            other => self.unheard.push_back(other),
        }
    }

    /// Whether what is held is to be committed.
    fn due(&mut self) -> Option<Due> {
        if !self.core.is_holding() {
            return None;
        }
        if self.until_latency() == Some(Duration::ZERO) {
            Some(Due::Latency)
        } else if self.is_large() {
            Some(Due::Size)
        } else {
            self.stage.is_full().then_some(Due::Memory)
        }
    }

    /// Whether it is time to ask the sink which frontiers it is about to forget.
    fn must_renew(&mut self) -> bool {
        let Some(keeps_ms) = self.output.keeps_ms() else { return false };
        let now_ms = self.world.now_ms();
        let since_ms = *self.renewed_ms.get_or_insert(now_ms);
        let due = now_ms.saturating_sub(since_ms) >= (keeps_ms / RENEWALS_A_KEEP).max(SOONEST_RENEWAL_MS);
        if due {
            self.renewed_ms = Some(now_ms);
        }
        due
    }

    fn is_large(&mut self) -> bool {
        let Held { messages, value_bytes, looked_at, .. } = self.held;
        if messages - looked_at < self.limits.batch_messages {
            return false;
        }
        self.held.looked_at = messages;
        value_bytes >= self.limits.file_bytes
    }

    fn until_latency(&mut self) -> Option<Duration> {
        let due_ms = self.held.since_ms?.saturating_add(self.limits.latency_ms);
        Some(Duration::from_millis(due_ms.saturating_sub(self.world.now_ms())))
    }

    fn until_due(&mut self) -> Duration {
        self.until_latency().map_or(TICK, |left| left.min(TICK))
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
        self.listen(wait)
    }

    /// Lets time pass, hearing what the group says, until the wish to stop changes.
    fn listen(&mut self, wait: Duration) -> Result<(), Stopped> {
        let wish = self.stopping;
        let until_ms = self.world.now_ms().saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        loop {
            self.heed_wishes()?;
            let now_ms = self.world.now_ms();
            if now_ms >= until_ms || self.stopping != wish {
                return Ok(());
            }
            let slice = Duration::from_millis(until_ms - now_ms).min(TICK);
            let said = if self.unheard.len() < MOST_UNHEARD { self.input.poll(0, slice) } else { Ok(None) };
            if let Ok(Some(said)) = said {
                self.hear(said);
            } else {
                // An input that fails is tried again by the core's next action; until then only time passes.
                let passed_ms = self.world.now_ms() - now_ms;
                self.world.pause(slice.saturating_sub(Duration::from_millis(passed_ms)));
            }
        }
    }
}

/// The partition that something said is about, unless the group said it.
fn partition_of(said: &Input) -> Option<PartitionId> {
    match said {
        Input::Records(records) => Some(records.partition()),
        Input::Reached { partition, .. } | Input::Gone { partition, .. } => Some(*partition),
        Input::Gained(_) | Input::Losing(_) | Input::Lost(_) => None,
    }
}
