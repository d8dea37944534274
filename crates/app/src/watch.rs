//! Hears what the loop does: one log line for each event that an operator wants, and the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lakeward_protocol::core::{Ending, LETTERS, Why};
use lakeward_protocol::drive::{Due, Port, Watch};
use lakeward_protocol::ports::Permit;
use lakeward_protocol::position::{Frontier, Offset, PartitionId, TableVersion};
use lakeward_protocol::records::{Records, TimestampType};

use crate::admin::Ready;
use crate::meters::{self, Labels};
use crate::reminder::Reminder;

/// How far each partition in our hands is; shared with whoever reports lag.
#[derive(Clone, Default)]
pub struct Progress(Arc<Mutex<BTreeMap<PartitionId, Reach>>>);

/// One partition's positions, with the time stamps of the last records below them.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    taken: i64,
    taken_ms: Option<i64>,
    sealed_ms: Option<i64>,
    committed: i64,
    committed_ms: Option<i64>,
    /// The partition's end, as it was known last.
    end: Option<i64>,
}

/// Where one partition stands, by the next offset to read, to commit, and to be written.
#[derive(Clone, Copy, Debug)]
pub struct Stand {
    /// Which.
    pub partition: PartitionId,
    /// Everything below is taken in.
    pub read: i64,
    /// Everything below is committed.
    pub committed: i64,
    /// The partition's end, once it is known.
    pub end: Option<i64>,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Reach>> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Where each partition in our hands stands.
    #[must_use]
    pub fn stands(&self) -> Vec<Stand> {
        let stand = |(partition, reach): (&PartitionId, &Reach)| Stand {
            partition: *partition,
            read: reach.taken,
            committed: reach.committed,
            end: reach.end,
        };
        self.lock().iter().map(stand).collect()
    }

    /// Brings the lag metrics up to date; `end` is each partition's end as far as it is known, `labels` say whose
    /// it is.
    pub fn report(&self, labels: impl Fn(PartitionId) -> Labels, end: impl Fn(PartitionId) -> Option<Offset>) {
        let now_ms = wall_clock_ms();
        let (mut read, mut committed) = (Vec::new(), Vec::new());
        for (partition, reach) in self.lock().iter_mut() {
            let Some(end) = end(*partition) else { continue };
            reach.end = Some(end.get());
            read.push(end.get() - reach.taken);
            committed.push(end.get() - reach.committed);
            let lag = |at: i64, stamp: Option<i64>| {
                let offsets = (end.get() - at).max(0);
                let age_ms = stamp.map_or(0, |stamp| (now_ms - stamp).max(0));
                (offsets as f64, if offsets == 0 { 0.0 } else { age_ms as f64 / 1000.0 })
            };
            meters::lag(
                &labels(*partition),
                *partition,
                lag(reach.taken, reach.taken_ms),
                lag(reach.committed, reach.committed_ms),
            );
        }
        meters::lags(&read, &committed);
    }
}

fn wall_clock_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The one who logs and counts.
pub struct Reporter {
    progress: Progress,
    ready: Ready,
    labels: Labels,
    owned: BTreeSet<PartitionId>,
    sealing_since: Option<Instant>,
    sealed: Option<(Due, u64, u64)>,
    /// Batches of records since the last seal.
    batches: usize,
    retries: Reminder,
}

impl Reporter {
    /// Reports into these.
    #[must_use]
    pub fn new(progress: Progress, ready: Ready) -> Self {
        let (labels, owned, retries) = (Labels::new(), BTreeSet::new(), Reminder::default());
        Self { progress, ready, labels, owned, sealing_since: None, sealed: None, batches: 0, retries }
    }

    /// The same, with these on its gauges.
    #[must_use]
    pub fn labelled(self, labels: Labels) -> Self {
        Self { labels, ..self }
    }

    fn own(&mut self, change: impl FnOnce(&mut BTreeSet<PartitionId>)) {
        change(&mut self.owned);
        meters::partitions(&self.labels, self.owned.len());
        let mut progress = self.progress.lock();
        progress.retain(|partition, _| {
            let ours = self.owned.contains(partition);
            if !ours {
                meters::forget_lag(&self.labels, *partition);
            }
            ours
        });
    }
}

impl Watch for Reporter {
    fn gained(&mut self, partitions: &BTreeSet<PartitionId>) {
        tracing::info!("partitions {} are ours", List(partitions));
        self.own(|owned| owned.extend(partitions));
    }

    fn losing(&mut self, partitions: &BTreeSet<PartitionId>) {
        tracing::info!("partitions {} are asked back: committing what is held of them", List(partitions));
    }

    fn lost(&mut self, partitions: &BTreeSet<PartitionId>) {
        tracing::warn!(
            "partitions {} were lost to the group; their next owner goes on from the table",
            List(partitions)
        );
        self.own(|owned| owned.retain(|partition| !partitions.contains(partition)));
    }

    fn released(&mut self, partitions: &BTreeSet<PartitionId>) {
        tracing::info!("partitions {} are let go of", List(partitions));
        self.own(|owned| owned.retain(|partition| !partitions.contains(partition)));
    }

    fn started(&mut self, positions: &Frontier) {
        self.ready.set(true);
        for (partition, offset) in positions {
            tracing::info!(%partition, %offset, "reading");
            let reach = Reach { taken: offset.get(), committed: offset.get(), ..Reach::default() };
            self.progress.lock().insert(*partition, reach);
        }
    }

    fn taken(&mut self, records: &Records) {
        self.batches += 1;
        meters::taken(records);
        meters::batches_held(self.batches);
        let stamp = records.entries().last().filter(|entry| entry.timestamp_type != TimestampType::NotAvailable);
        let mut progress = self.progress.lock();
        let reach = progress.entry(records.partition()).or_default();
        reach.taken = records.to().get();
        reach.taken_ms = stamp.map(|entry| entry.timestamp_ms).or(reach.taken_ms);
    }

    fn sealed(&mut self, due: Due, messages: u64, value_bytes: u64) {
        self.sealing_since = Some(Instant::now());
        self.sealed = Some((due, messages, value_bytes));
        self.batches = 0;
        meters::batches_held(self.batches);
        for reach in self.progress.lock().values_mut() {
            reach.sealed_ms = reach.taken_ms;
        }
    }

    fn committed(&mut self, version: TableVersion, permit: &Permit) {
        if permit.sink() == LETTERS {
            for gap in permit.gaps() {
                let (partition, from, to) = (gap.partition, gap.from, gap.to);
                tracing::warn!(%version, %partition, "gap of dead letters written down: offset {from} to {to}: {}", gap.reason);
            }
            meters::letters_committed(permit.gaps().len() as u64);
            tracing::info!(%version, "dead letters committed {}", Spans(permit));
            return;
        }
        let offsets = permit.advances().values().map(|advance| advance.from.span_until(advance.to)).sum();
        let seconds = self.sealing_since.take().map(|since| since.elapsed().as_secs_f64());
        meters::committed(&self.labels, version.0, offsets, permit.gaps().len() as u64, seconds);
        for gap in permit.gaps() {
            let (partition, from, to) = (gap.partition, gap.from, gap.to);
            tracing::warn!(%version, %partition, "gap written down: offset {from} to {to}: {}", gap.reason);
        }
        let mut progress = self.progress.lock();
        for (partition, advance) in permit.advances() {
            let reach = progress.entry(*partition).or_default();
            (reach.committed, reach.committed_ms) = (advance.to.get(), reach.sealed_ms);
        }
        drop(progress);
        let spans = Spans(permit);
        match self.sealed.take() {
            Some((due, messages, bytes)) => {
                let millis = seconds.map_or(0, |seconds| (seconds * 1000.0) as u64);
                tracing::info!(%version, messages, bytes, millis, ?due, "committed {spans}");
            }
            None => tracing::info!(%version, "committed {spans}"),
        }
    }

    fn raced(&mut self, version: TableVersion) {
        meters::raced();
        tracing::debug!(%version, "taken: looking whether it is ours, then trying the next version");
    }

    fn discarded(&mut self, why: &Why) {
        meters::discarded();
        tracing::warn!("uncommitted records are let go of and read again where the table stands: {why}");
    }

    fn retrying(&mut self, port: Port, doing: &str, error: &dyn Error, attempt: u32, wait: Duration) {
        meters::retrying(&port.to_string());
        if self.retries.is_due(attempt) {
            tracing::warn!(
                attempt,
                "can't {doing}: {error}; nothing is lost, trying again in {:.1} s",
                wait.as_secs_f64()
            );
        }
    }

    fn ended(&mut self, ending: Ending) {
        self.ready.set(false);
        let text = match ending {
            Ending::Reached => "everything up to the topic's ends is committed",
            Ending::Stopped => "stopped; what was held is committed",
            Ending::Aborted => "stopped at once; uncommitted records are read again at the next start",
        };
        tracing::info!("{text}");
    }
}

struct List<'a>(&'a BTreeSet<PartitionId>);

impl std::fmt::Display for List<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, partition) in self.0.iter().enumerate() {
            write!(f, "{}{partition}", if n == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Partitions shown with their offsets in a commit's line; the rest are counted.
const SHOWN: usize = 8;

struct Spans<'a>(&'a Permit);

impl std::fmt::Display for Spans<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let advances = self.0.advances();
        for (n, (partition, advance)) in advances.iter().take(SHOWN).enumerate() {
            write!(f, "{}{partition}:{}..{}", if n == 0 { "" } else { " " }, advance.from, advance.to)?;
        }
        match advances.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more partitions"),
        }
    }
}
