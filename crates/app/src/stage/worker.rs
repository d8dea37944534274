//! One worker: records in, sealed files out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use lakeward_circuit::delta::Part as Rows;
use lakeward_decode::{Bad, Decoded};
use lakeward_delta::encode::Writer;
use lakeward_delta::view::Stretch;
use lakeward_delta::{DataFile, FileSpan, Layout, Tally};
use lakeward_protocol::position::PartitionId;
use lakeward_protocol::records::Records;

use super::bench::Bench;
use super::evolve::{Evolution, Lineage};
use super::letters::{LetterBench, LetterPart};
use super::sifted::covered;
use super::{Held, Over, StageError, StageOptions};
use crate::badlog::BadLog;
use crate::{footprint, meters};

/// Without a record for so long, buffers kept for reuse are given back.
const IDLE: Duration = Duration::from_secs(5);

/// What a worker is told.
pub(super) enum Command {
    Open(Layout, Sender<Result<(), StageError>>),
    Take(Records),
    Seal(Sender<Result<Part, StageError>>),
    Discard(Sender<Result<(), StageError>>),
    OpenLetters(Layout, Sender<Result<(), StageError>>),
    TakeForLetters(Records),
    SealLetters(Sender<Result<LetterPart, StageError>>),
}

/// What one worker has sealed.
#[derive(Default)]
pub(super) struct Part {
    pub(super) files: Vec<DataFile>,
    pub(super) tally: BTreeMap<PartitionId, Tally>,
    /// Where rows go into the table by key: what is to be written.
    pub(super) events: Vec<Stretch>,
}

/// Arenas that are done with, on their way back to the input.
pub(super) struct Spare {
    pub(super) give: Sender<Records>,
    pub(super) take: Receiver<Records>,
}

/// What all workers of a stage have in common.
pub(super) struct Shared {
    pub(super) held: Held,
    pub(super) fault: Arc<Mutex<Option<StageError>>>,
    pub(super) bad: Arc<BadLog>,
    pub(super) lineage: Lineage,
}

pub(super) struct Worker {
    options: StageOptions,
    bench: Option<Bench>,
    letters: Option<LetterBench>,
    /// What the stage was opened for; the bench's may have grown out of it.
    opened: Option<Layout>,
    evolution: Evolution,
    /// Rows made for narrower layouts than the bench's, in the order in which they came.
    earlier: Vec<Writer>,
    /// Files of these that are in the store already.
    delivered: Vec<DataFile>,
    tally: BTreeMap<PartitionId, Tally>,
    /// Where rows go into the table by key: what came since the last seal.
    events: Vec<Stretch>,
    events_bytes: usize,
    /// What we added to `held` for the writer.
    counted_bytes: usize,
    held: Held,
    spare: Spare,
    fault: Arc<Mutex<Option<StageError>>>,
    /// Something failed: what comes is let go, until we are told to discard.
    broken: bool,
    /// All that was kept for reuse is given back.
    rested: bool,
    bad: Arc<BadLog>,
    /// Fields told of already; the decoder bounds how many names there are.
    unknown: BTreeSet<String>,
}

impl Worker {
    pub(super) fn new(options: StageOptions, spare: Spare, shared: Shared) -> Self {
        let Shared { held, fault, bad, lineage } = shared;
        Self {
            evolution: Evolution::new(options.evolve, lineage),
            options,
            bench: None,
            letters: None,
            opened: None,
            earlier: Vec::new(),
            delivered: Vec::new(),
            tally: BTreeMap::new(),
            events: Vec::new(),
            events_bytes: 0,
            counted_bytes: 0,
            held,
            spare,
            fault,
            broken: false,
            rested: false,
            bad,
            unknown: BTreeSet::new(),
        }
    }

    /// Works until the sender is gone.
    pub(super) fn run(mut self, queue: &Receiver<Command>) {
        loop {
            match queue.recv_timeout(IDLE) {
                Ok(command) => {
                    self.rested = false;
                    self.obey(command);
                }
                Err(RecvTimeoutError::Timeout) => self.rest(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// An answer that nobody waits for any more is dropped: the process is ending.
    fn obey(&mut self, command: Command) {
        match command {
            Command::Open(layout, answer) => drop(answer.send(self.open(&layout))),
            Command::Take(records) => self.take(records, false),
            Command::TakeForLetters(records) => self.take(records, true),
            Command::OpenLetters(layout, answer) => drop(answer.send(self.open_letters(&layout))),
            Command::SealLetters(answer) => drop(answer.send(self.seal_letters())),
            Command::Seal(answer) => drop(answer.send(self.seal())),
            Command::Discard(answer) => {
                self.discard();
                drop(answer.send(Ok(())));
            }
        }
    }

    fn open(&mut self, layout: &Layout) -> Result<(), StageError> {
        let bench = Bench::new(&self.options, layout)?;
        for property in bench.decoder.unplaced_transforms() {
            tracing::warn!("transform '{property}' names no column of {}: it sets nothing", layout.table());
        }
        self.forget_growth();
        (self.bench, self.opened) = (Some(bench), Some(layout.clone()));
        self.evolution.reopened();
        self.count();
        Ok(())
    }

    /// Makes rows of messages, for a layout that has a column for all that they have.
    fn decode(&mut self, records: &Records, next: usize) -> Result<Decoded, StageError> {
        loop {
            let bench = self.bench.as_mut().expect("the loop opens the stage before it pushes");
            let decoded = bench.decoder.try_decode(records, next)?;
            if !self.evolution.is_on() {
                return Ok(decoded);
            }
            let wider = self.evolution.wider(&bench.layout, &mut bench.decoder, records, &decoded);
            let Some(wider) = wider.map_err(StageError::Table)? else { return Ok(decoded) };
            let narrow = std::mem::replace(bench, Bench::new(&self.options, &wider)?).writer;
            if !narrow.is_empty() {
                self.earlier.push(narrow);
            }
        }
    }

    fn forget_growth(&mut self) {
        self.earlier.clear();
        self.delivered.clear();
    }

    fn open_letters(&mut self, layout: &Layout) -> Result<(), StageError> {
        let options = self.options.letters.as_ref().expect("P7: a stage with a table of dead letters");
        self.letters = Some(LetterBench::new(options, &self.options.topic, layout, &self.options.writer)?);
        self.count();
        Ok(())
    }

    /// `again`: their rows are committed already.
    fn take(&mut self, records: Records, again: bool) {
        let processed = |worker: &mut Self| {
            if again { worker.process_again(&records) } else { worker.process(&records) }
        };
        if !self.broken
            && let Err(error) = processed(self)
        {
            self.broken = true;
            self.fault.lock().expect("no holder of this lock panics").get_or_insert(error);
        }
        self.held.sub(records.capacity_bytes());
        self.count();
        let _ = self.spare.give.send(records);
    }

    fn process(&mut self, records: &Records) -> Result<(), StageError> {
        let mut next = 0;
        loop {
            next = self.process_from(records, next)?;
            if next == records.len() {
                return Ok(());
            }
        }
    }

    /// Takes entries from `next` on: all, unless they are larger inside than outside. The first one left.
    fn process_from(&mut self, records: &Records, next: usize) -> Result<usize, StageError> {
        let mut decoded = self.decode(records, next)?;
        let bench = self.bench.as_mut().expect("it was decoded at it");
        let batch = std::mem::replace(&mut decoded.batch, RecordBatch::new_empty(Arc::clone(bench.decoder.schema())));
        if let Some(over) = self.options.view.clone() {
            self.process_view(&over, records, next, &decoded, batch)?;
            return Ok(decoded.next);
        }
        let (mut sifted, events) = bench.judged(batch, records, next, &decoded)?;
        let bad = std::mem::take(&mut sifted.bad);
        let tally = Tally {
            records: (decoded.next - next) as u64,
            rows: sifted.batch.num_rows() as u64,
            extra_rows: sifted.extra_rows,
            bad: bad.len() as u64,
            tombstones: sifted.tombstones as u64,
        };
        meters::decoded(&tally, &bad);
        if let Some(error) = self.bad_records(records, &bad) {
            return Err(error);
        }
        if let Some(letters) = &mut self.letters {
            letters.add(records, &bad)?;
        }
        *self.tally.entry(records.partition()).or_default() += tally;
        if let Some(events) = events {
            self.events_bytes += events.memory_bytes();
            self.events.push(events);
            return Ok(decoded.next);
        }
        let (from, to) = covered(records, next, decoded.next);
        let span = FileSpan { partition: records.partition(), from, to, rows: tally.rows };
        let bench = self.bench.as_mut().expect("still there");
        let began = Instant::now();
        bench.writer.write(&sifted.batch, &[span])?;
        meters::encoded(began.elapsed());
        bench.decoder.recycle(sifted.batch);
        Ok(decoded.next)
    }

    /// For the dead letters alone.
    fn process_again(&mut self, records: &Records) -> Result<(), StageError> {
        let bench = self.bench.as_mut().expect("the loop opens the stage before it pushes");
        let letters = self.letters.as_mut().expect("P7: a stage with a table of dead letters");
        let mut next = 0;
        while next < records.len() {
            let mut decoded = bench.decoder.try_decode(records, next)?;
            let batch = RecordBatch::new_empty(Arc::clone(bench.decoder.schema()));
            let batch = std::mem::replace(&mut decoded.batch, batch);
            let (sifted, _) = bench.judged(batch, records, next, &decoded)?;
            letters.add(records, &sifted.bad)?;
            bench.decoder.recycle(sifted.batch);
            next = decoded.next;
        }
        Ok(())
    }

    /// The messages' rows are a view's source. Rows that the view can't be made of, or the table not have, are left
    /// out, counted and logged: they are no bad records, and a span counts what became of records alone. The records
    /// are those from entry `next` on, as far as they were decoded.
    fn process_view(
        &mut self,
        over: &Over,
        records: &Records,
        next: usize,
        decoded: &Decoded,
        batch: RecordBatch,
    ) -> Result<(), StageError> {
        let tally = Tally {
            records: (decoded.next - next) as u64,
            rows: batch.num_rows() as u64,
            extra_rows: decoded.extra_rows(),
            bad: decoded.bad.len() as u64,
            tombstones: decoded.tombstones as u64,
        };
        meters::decoded(&tally, &decoded.bad);
        if let Some(error) = self.bad_records(records, &decoded.bad) {
            return Err(error);
        }
        // A row goes by its number: that is its weight.
        let numbers = (0..).take(batch.num_rows()).collect::<Vec<i64>>().into();
        let applied = over.view.apply(over.source, Rows { batch: batch.clone(), weights: numbers });
        for failure in &applied.failures {
            self.left_out(records, decoded, failure.weight, &failure.operator, &failure.reason, &failure.row);
        }
        for part in applied.view.0 {
            let bench = self.bench.as_mut().expect("opened");
            let (rows, unfit) = bench.writer.sift(part.batch)?;
            bench.writer.write(&rows, &[])?;
            for unfit in unfit {
                self.left_out(records, decoded, part.weights.value(unfit.row), "sink", &unfit.reason, "");
            }
        }
        self.bench.as_mut().expect("opened").decoder.recycle(batch);
        *self.tally.entry(records.partition()).or_default() += tally;
        Ok(())
    }

    /// Row `row` of the decoded ones, or one made of it, is in no file.
    fn left_out(&self, records: &Records, decoded: &Decoded, row: i64, operator: &str, reason: &str, values: &str) {
        meters::failed_rows(operator, 1);
        let row = usize::try_from(row).expect("rows are numbered from 0");
        let offset = records.entries()[decoded.entry_of(row)].offset;
        self.bad.log_row(records.partition(), offset, operator, reason, values);
    }

    /// Logs the bad ones; under `stop`, the first is the error.
    fn bad_records(&self, records: &Records, bad: &[Bad]) -> Option<StageError> {
        for bad in bad {
            let entry = &records.entries()[bad.entry];
            if self.options.stop_at_bad {
                return Some(StageError::Bad {
                    topic: self.options.topic.clone(),
                    partition: records.partition().0,
                    offset: entry.offset,
                    kind: bad.kind.name(),
                    detail: bad.detail.clone(),
                    way_on: match self.options.view {
                        None => "pass --on-bad-record=skip",
                        Some(_) => "write on_bad_record = 'skip' in the source",
                    },
                });
            }
            self.bad.log(records.partition(), entry.offset, bad.kind.name(), &bad.detail, records.value(entry));
        }
        None
    }

    fn seal(&mut self) -> Result<Part, StageError> {
        self.unknown_fields();
        if let Some(bench) = self.bench.as_mut().filter(|_| !self.broken) {
            while let Some(writer) = self.earlier.first_mut() {
                self.delivered.extend(writer.deliver(&self.options.runtime)?);
                self.earlier.remove(0);
            }
            self.delivered.extend(bench.writer.deliver(&self.options.runtime)?);
        }
        self.events_bytes = 0;
        self.count();
        Ok(Part {
            files: std::mem::take(&mut self.delivered),
            tally: std::mem::take(&mut self.tally),
            events: std::mem::take(&mut self.events),
        })
    }

    fn seal_letters(&mut self) -> Result<LetterPart, StageError> {
        let part = match &mut self.letters {
            Some(letters) if !self.broken => letters.deliver(&self.options.runtime)?,
            _ => LetterPart::default(),
        };
        self.count();
        Ok(part)
    }

    /// Counts fields that no column took; names each once.
    fn unknown_fields(&mut self) {
        let Some(bench) = &mut self.bench else { return };
        for field in bench.decoder.take_unknown_fields() {
            meters::unknown_fields(field.count);
            if let Some(path) = field.path
                && self.unknown.insert(path.clone())
            {
                let of = if self.options.view.is_some() { "source" } else { "table" };
                tracing::warn!("messages have a field '{path}' that is no column of the {of}: it is dropped");
            }
        }
    }

    fn discard(&mut self) {
        self.forget_growth();
        if let (Some(bench), Some(opened)) = (&mut self.bench, &self.opened) {
            bench.writer.discard();
            // The one that was opened was made of the same, so there is no error to tell.
            if bench.layout.shape() != opened.shape()
                && let Ok(narrow) = Bench::new(&self.options, opened)
            {
                *bench = narrow;
            }
        }
        if let Some(letters) = &mut self.letters {
            letters.discard();
        }
        self.tally.clear();
        self.events.clear();
        self.events_bytes = 0;
        self.broken = false;
        self.count();
    }

    /// Gives back what is kept for reuse, once: a decoder keeps its columns, a writer its buffers, and the
    /// allocators what both let go.
    fn rest(&mut self) {
        let holds = !self.earlier.is_empty()
            || !self.events.is_empty()
            || self.bench.as_ref().is_some_and(|bench| !bench.writer.is_empty())
            || self.letters.as_ref().is_some_and(|letters| !letters.is_empty());
        if self.rested || holds {
            return;
        }
        self.unknown_fields();
        if let Some(bench) = &mut self.bench {
            bench.writer.trim();
            bench.renew_decoder(&self.options);
        }
        if let Some(letters) = &mut self.letters {
            letters.rest();
        }
        self.spare.take.try_iter().for_each(drop);
        self.count();
        footprint::give_back();
        self.rested = true;
    }

    /// Brings our share of `held` up to date.
    fn count(&mut self) {
        let earlier: usize = self.earlier.iter().map(Writer::held_bytes).sum();
        let now = earlier
            + self.events_bytes
            + self.bench.as_ref().map_or(0, |bench| bench.writer.held_bytes())
            + self.letters.as_ref().map_or(0, LetterBench::held_bytes);
        self.held.add(now);
        self.held.sub(self.counted_bytes);
        self.counted_bytes = now;
    }
}
