//! Some messages against the table's schema: what would become rows, what not, and which fields have no column.

use std::collections::BTreeMap;
use std::time::Duration;

use lakeward_decode::{Bad, BadKind};
use lakeward_delta::Table;
use lakeward_kafka::Source;
use lakeward_protocol::ports::{Bounds, Exit, Input, InputLog, OutputLog};
use lakeward_protocol::position::{Frontier, Offset, PartitionId};
use lakeward_protocol::records::Records;

use crate::cli::OnBadRecord;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::{counted, grouped};
use crate::session::Session;
use crate::stage::{Bench, LetterBench, StageError, StageOptions};

/// Messages looked at, at most.
const SAMPLES: usize = 1_000;
/// Bad ones shown in full, and fields named, at most.
const SHOWN: usize = 5;
/// No message for so long: there are no more.
const QUIET_POLLS: usize = 50;
const POLL: Duration = Duration::from_millis(100);

/// What became of the sample.
#[derive(Default)]
struct Seen {
    records: usize,
    rows: usize,
    tombstones: usize,
    bad: usize,
    /// By partition and offset.
    shown: Vec<(PartitionId, i64, BadKind, String)>,
    unknown: BTreeMap<String, u64>,
    /// Where the bad ones would go.
    letters: Option<String>,
}

/// Reads and prints.
///
/// # Errors
/// A topic that can't be read, a schema that rows can't be made for; a bad message, where those stop the ingest.
pub fn run(
    plan: &Plan,
    session: &Session,
    table: &Table,
    dead: Option<&Table>,
    begins: &Frontier,
    holds: &BTreeMap<PartitionId, Bounds>,
) -> Result<(), Failure> {
    let options = plan.stage_options(session);
    let failed = |error: StageError| Failure::port(&error);
    let mut bench = Bench::new(&options, &table.layout()).map_err(failed)?;
    let mut letters = letters(&options, dead).map_err(failed)?;
    for property in bench.decoder.unplaced_transforms() {
        println!("WARNING  transform '{property}' names no column of the table: it sets nothing");
    }
    let (positions, which) = positions(begins, holds);
    let mut seen = Seen { letters: plan.args.dead_letters.table().map(str::to_owned), ..Seen::default() };
    for records in read(plan, &positions, holds)? {
        let mut next = 0;
        while next < records.len() {
            let decoded = bench.decoder.try_decode(&records, next);
            let mut decoded = decoded.map_err(|error| failed(error.into()))?;
            let empty = arrow_array::RecordBatch::new_empty(std::sync::Arc::clone(bench.decoder.schema()));
            let batch = std::mem::replace(&mut decoded.batch, empty);
            let (sifted, _) = bench.judged(batch, &records, next, &decoded).map_err(failed)?;
            if let Some(letters) = &mut letters {
                letters.add(&records, &sifted.bad).map_err(failed)?;
            }
            seen.records += decoded.next - next;
            seen.take(&records, sifted.batch.num_rows(), sifted.tombstones, sifted.bad);
            next = decoded.next;
        }
    }
    for field in bench.decoder.take_unknown_fields() {
        *seen.unknown.entry(field.path.unwrap_or_else(|| "others".to_owned())).or_default() += field.count;
    }
    print!("{}", seen.text(which));
    match (plan.args.on_bad_record, seen.bad) {
        (OnBadRecord::Stop, 1..) => {
            Err(Failure::new(Exit::Data, "a bad message would stop it (--on-bad-record=stop); see above"))
        }
        _ => Ok(()),
    }
}

/// What makes letters, all but putting them anywhere.
fn letters(options: &StageOptions, dead: Option<&Table>) -> Result<Option<LetterBench>, StageError> {
    let (Some(dead), Some(how)) = (dead, &options.letters) else { return Ok(None) };
    LetterBench::new(how, &options.topic, &dead.layout(), &options.writer).map(Some)
}

impl Seen {
    fn take(&mut self, records: &Records, rows: usize, tombstones: usize, bad: Vec<Bad>) {
        self.rows += rows;
        self.tombstones += tombstones;
        self.bad += bad.len();
        let left = SHOWN.saturating_sub(self.shown.len());
        let place = |bad: Bad| (records.partition(), records.entries()[bad.entry].offset, bad.kind, bad.detail);
        self.shown.extend(bad.into_iter().take(left).map(place));
    }

    fn text(&self, which: &str) -> String {
        if self.records == 0 {
            return "sample   no message to look at\n".to_owned();
        }
        let mut out = format!(
            "sample   {} {which}: {}, {} bad, {}\n",
            counted(self.records, "message"),
            counted(self.rows, "row"),
            grouped(self.bad),
            counted(self.tombstones, "tombstone")
        );
        for (partition, offset, kind, detail) in &self.shown {
            out += &format!("         bad: partition {partition}, offset {offset}: {detail} ({kind})\n");
        }
        if let Some(place) = self.letters.as_ref().filter(|_| self.bad > 0) {
            out += &format!("         bad ones would be dead letters in {place}\n");
        }
        if !self.unknown.is_empty() {
            let named = self.unknown.iter().take(SHOWN).map(|(path, count)| format!("{path} ({count})"));
            let more = self.unknown.len().saturating_sub(SHOWN);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let named = named.collect::<Vec<_>>().join(", ");
            out += &format!("         fields without a column, dropped: {named}{more}\n");
        }
        out
    }
}

/// Where to look: at what would come first, or, where nothing is left to come, at the newest there is.
fn positions(begins: &Frontier, holds: &BTreeMap<PartitionId, Bounds>) -> (Frontier, &'static str) {
    let ahead = |(id, at): (&PartitionId, &Offset)| holds.get(id).is_some_and(|bounds| *at < bounds.end);
    if begins.iter().any(ahead) {
        let first = begins.iter().filter(|place| ahead(*place)).map(|(id, at)| (*id, *at));
        return (first.collect(), "that would come first");
    }
    let each = i64::try_from(SAMPLES / holds.len().max(1)).unwrap_or(1).max(1);
    let newest = |(id, bounds): (&PartitionId, &Bounds)| {
        let at = Offset::new((bounds.end.get() - each).max(bounds.oldest.get())).ok()?;
        (at < bounds.end).then_some((*id, at))
    };
    (holds.iter().filter_map(newest).collect(), "that are the newest (none is left to come)")
}

/// Up to [`SAMPLES`] messages, from all of these partitions.
fn read(plan: &Plan, positions: &Frontier, holds: &BTreeMap<PartitionId, Bounds>) -> Result<Vec<Records>, Failure> {
    let failed = |error: lakeward_kafka::KafkaError| Failure::port(&error);
    if positions.is_empty() {
        return Ok(Vec::new());
    }
    let mut source = Source::assign(plan.source.clone(), positions.keys().copied().collect()).map_err(failed)?;
    source.start(positions).map_err(failed)?;
    let (mut found, mut left, mut quiet) = (Vec::new(), SAMPLES, 0);
    let mut open = positions.clone();
    while left > 0 && !open.is_empty() && quiet < QUIET_POLLS {
        match source.poll(left, POLL).map_err(failed)? {
            Some(Input::Records(records)) => {
                (left, quiet) = (left.saturating_sub(records.len()), 0);
                if records.to() >= holds[&records.partition()].end {
                    open.remove(&records.partition());
                }
                found.push(records);
            }
            Some(Input::Reached { partition, .. }) => _ = open.remove(&partition),
            Some(_) => {}
            None => quiet += 1,
        }
    }
    Ok(found)
}
