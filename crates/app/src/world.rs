//! Time, chance and signals, as the loop sees them; the one place of the binary that has them.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use lakeward_protocol::ports::{Exit, Point, Stopping, World};
use lakeward_protocol::position::CommitId;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// From the first signal to the end, whatever the store does. Schedulers commonly kill after 30 s.
const GRACE: Duration = Duration::from_secs(29);

/// The wish to stop, shared between the signal handler and the loop.
#[derive(Clone, Default)]
pub struct Signals(Arc<(Mutex<bool>, Condvar)>);

impl Signals {
    /// Has the first signal come?
    #[must_use]
    pub fn raised(&self) -> bool {
        *self.0.0.lock().expect("no holder of this lock panics")
    }

    /// Asks the loop to commit what it holds and to end.
    pub fn raise(&self) {
        *self.0.0.lock().expect("no holder of this lock panics") = true;
        self.0.1.notify_all();
    }

    fn wait(&self, limit: Duration) {
        let raised = self.0.0.lock().expect("no holder of this lock panics");
        let _ = self.0.1.wait_timeout_while(raised, limit, |raised| !*raised);
    }

    /// Listens on SIGTERM and SIGINT for as long as the process lives.
    ///
    /// The first asks the loop to end gracefully; a second, or [`GRACE`] running out, ends the
    /// process where it stands. Nothing is lost by that: the next start goes on from the table.
    pub async fn listen(self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        tracing::info!("asked to stop: committing what is held (a second signal ends at once)");
        self.raise();
        tokio::select! {
            _ = terminate.recv() => tracing::warn!("second signal: ending at once; uncommitted records are read again at the next start"),
            _ = interrupt.recv() => tracing::warn!("second signal: ending at once; uncommitted records are read again at the next start"),
            () = tokio::time::sleep(GRACE) => tracing::error!("could not commit within {} s: ending; uncommitted records are read again at the next start", GRACE.as_secs()),
        }
        std::process::exit(i32::from(Exit::TryAgain.code()))
    }
}

/// The real world.
pub struct Os {
    started: Instant,
    signals: Signals,
    random: StdRng,
    crash: Option<(Point, u32)>,
}

impl Os {
    /// A clock at zero and randomness from the system.
    #[must_use]
    pub fn new(signals: Signals) -> Self {
        Self { started: Instant::now(), signals, random: StdRng::from_os_rng(), crash: crash_point() }
    }
}

impl World for Os {
    fn now_ms(&mut self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).expect("a process lives for less than 500 million years")
    }

    fn commit_id(&mut self) -> CommitId {
        CommitId(self.random.random())
    }

    fn pause(&mut self, wait: Duration) {
        if self.signals.raised() { std::thread::sleep(wait) } else { self.signals.wait(wait) }
    }

    fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.random.random_range(0..bound) }
    }

    fn stopping(&mut self) -> Stopping {
        if self.signals.raised() { Stopping::Gracefully } else { Stopping::No }
    }

    fn reach(&mut self, point: Point) {
        if let Some((at, left)) = &mut self.crash
            && *at == point
        {
            *left -= 1;
            if *left == 0 {
                die();
            }
        }
    }
}

/// Ends as a power cut would: no destructor, no flush.
fn die() -> ! {
    #[allow(unsafe_code, reason = "std has no way to send ourselves a signal")]
    // SAFETY: `kill` with our own id takes no memory of ours; SIGKILL is not handled.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL)
    };
    std::process::abort()
}

/// `LAKEWARD_CRASH_AT=before-put:3` kills a development build the third time it gets there.
fn crash_point() -> Option<(Point, u32)> {
    if !cfg!(debug_assertions) {
        return None;
    }
    let text = std::env::var("LAKEWARD_CRASH_AT").ok()?;
    let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
    let point =
        POINTS.iter().find(|(of, _)| *of == name).unwrap_or_else(|| panic!("LAKEWARD_CRASH_AT: no point '{name}'")).1;
    Some((point, count.parse().expect("LAKEWARD_CRASH_AT: want POINT:COUNT")))
}

#[rustfmt::skip]
const POINTS: [(&str, Point); 20] = [
    ("before-start", Point::BeforeStart),
    ("before-seal", Point::BeforeSeal), ("after-seal", Point::AfterSeal),
    ("before-put", Point::BeforePut), ("after-put", Point::AfterPut),
    ("before-announce", Point::BeforeAnnounce), ("after-announce", Point::AfterAnnounce),
    ("before-tend", Point::BeforeTend), ("after-tend", Point::AfterTend),
    ("before-release", Point::BeforeRelease), ("after-release", Point::AfterRelease),
    ("after-step", Point::AfterStep),
    ("before-prepare", Point::BeforePrepare), ("after-prepare", Point::AfterPrepare),
    ("after-finish", Point::AfterFinish), ("after-save", Point::AfterSave),
    ("before-remove", Point::BeforeRemove), ("after-remove", Point::AfterRemove),
    ("before-trim", Point::BeforeTrim), ("after-trim", Point::AfterTrim),
];
