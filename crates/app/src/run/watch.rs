//! What a run says: a line a step, and the metrics.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lakeward_protocol::core::{Ending, Why};
use lakeward_protocol::drive::{Due, Port, Watch};
use lakeward_protocol::ports::{Checkpoint, Permit};
use lakeward_protocol::position::{Frontier, Offset, PartitionId, TableVersion};
use lakeward_protocol::records::Records;

use indicatif::{ProgressBar, ProgressStyle};

use crate::admin::Ready;
use crate::meters;
use crate::watch::{Progress, Reporter};

/// Hears a run.
pub struct Steps {
    reporter: Reporter,
    stepping: Option<Instant>,
    messages: u64,
    /// Where the run ends, if it does.
    ends: Option<Frontier>,
    bar: Option<ProgressBar>,
    /// The first partitions are given; others are new.
    is_reading: bool,
}

impl Steps {
    /// Tells of progress and readiness; on a terminal with a bar, where the end is known.
    #[must_use]
    pub fn new(progress: Progress, ready: Ready, ends: Option<Frontier>) -> Self {
        Self {
            reporter: Reporter::new(progress, ready),
            stepping: None,
            messages: 0,
            ends,
            bar: None,
            is_reading: false,
        }
    }

    fn start_bar(&mut self, positions: &Frontier) {
        let Some(ends) = self.ends.as_ref().filter(|_| std::io::IsTerminal::is_terminal(&std::io::stderr())) else {
            return;
        };
        let left = |(partition, end): (&PartitionId, &Offset)| {
            let at = positions.get(partition).map_or(0, |at| at.get());
            (end.get() - at).max(0).unsigned_abs()
        };
        let bar = ProgressBar::new(ends.iter().map(left).sum());
        if let Ok(style) =
            ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} messages, {per_sec}, {eta} left")
        {
            bar.set_style(style);
        }
        self.bar = Some(bar);
    }
}

impl Watch for Steps {
    fn gained(&mut self, partitions: &BTreeSet<PartitionId>) {
        if self.is_reading {
            let added: Vec<String> = partitions.iter().map(PartitionId::to_string).collect();
            tracing::info!("partitions were added: {} begin at their first offsets", added.join(", "));
        }
    }

    fn started(&mut self, positions: &Frontier) {
        self.is_reading = true;
        self.start_bar(positions);
        self.reporter.started(positions);
    }

    fn taken(&mut self, records: &Records) {
        self.stepping.get_or_insert_with(Instant::now);
        self.messages += records.len() as u64;
        self.reporter.taken(records);
    }

    fn reached(&mut self, partition: PartitionId, end: Offset) {
        self.reporter.reached(partition, end);
    }

    fn sealed(&mut self, due: Due, messages: u64, value_bytes: u64) {
        self.reporter.sealed(due, messages, value_bytes);
    }

    fn committed(&mut self, version: TableVersion, permit: &Permit) {
        self.reporter.committed(version, permit);
    }

    fn raced(&mut self, version: TableVersion) {
        self.reporter.raced(version);
    }

    fn discarded(&mut self, why: &Why) {
        self.reporter.discarded(why);
    }

    fn retrying(&mut self, port: Port, doing: &str, error: &dyn std::error::Error, attempt: u32, wait: Duration) {
        self.reporter.retrying(port, doing, error, attempt, wait);
    }

    fn restored(&mut self, checkpoint: &Checkpoint) {
        match &checkpoint.state {
            Some(_) => tracing::info!("state of checkpoint {} at {}", checkpoint.number.0, Shown(&checkpoint.frontier)),
            None => tracing::info!("no checkpoint: starting with empty state"),
        }
    }

    fn stepped(&mut self, _: &Frontier, to: &Frontier) {
        let took = self.stepping.take().map_or(Duration::ZERO, |since| since.elapsed());
        let messages = std::mem::take(&mut self.messages);
        meters::stepped(took.as_secs_f64());
        if let Some(bar) = &self.bar {
            bar.inc(messages);
        }
        tracing::info!(messages, millis = took.as_millis(), "step to {}", Shown(to));
    }

    fn saved(&mut self, checkpoint: &Checkpoint) {
        meters::saved();
        tracing::info!("checkpoint {} at {}", checkpoint.number.0, Shown(&checkpoint.frontier));
    }

    fn trimmed(&mut self, below: &Frontier) {
        tracing::info!("deleted in the topics what lies below {}", Shown(below));
    }

    fn ended(&mut self, ending: Ending) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.reporter.ended(ending);
    }
}

/// Partitions shown with their offsets; the rest are counted.
const SHOWN: usize = 8;

struct Shown<'a>(&'a Frontier);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, (partition, offset)) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{partition}:{offset}", if n == 0 { "" } else { " " })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more partitions"),
        }
    }
}
