//! A source's messages as changes of its relation.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use lakeward_circuit::dead_letters::{BadRecord, DeadLetters};
use lakeward_circuit::delta::{Part, batch, loose_schema};
use lakeward_circuit::pipeline::{Changes, OnFault, Origin, Source};
use lakeward_decode::{Bad, BadKind, Debezium, Decoded, Decoder, Format, PlanError, Transforms, Unavailable};
use lakeward_delta::Tally;
use lakeward_protocol::records::{Records, TimestampType};

use crate::badlog::BadLog;
use crate::cli::mode::PLACEHOLDER;
use crate::meters;
use crate::stage::{OnUnavailable, Placeholders};
use crate::tombstones::{Gone, Tombstones};

/// Why a source's messages are not taken.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// Its columns.
    #[error("source {source_name}: {why}")]
    Columns { source_name: String, why: String },
    /// A bad record, where the source says `on_bad_record = 'stop'`.
    #[error(
        "{topic}-{partition} at offset {offset}: {detail} ({kind}); write on_bad_record = 'skip' in the source to go on without such records"
    )]
    Bad { topic: String, partition: u32, offset: i64, kind: &'static str, detail: String },
    /// A schema that messages name.
    #[error(transparent)]
    Schema(#[from] Unavailable),
    /// Rows went that no message names.
    #[error(
        "{topic}-{partition} at offset {offset}: the table behind the topic was truncated, and views can't be told that all \
         of its rows are gone; nothing from there on was taken in: begin a new pipeline (another app id, state and tables) \
         over a topic that begins after it"
    )]
    Truncated { topic: String, partition: u32, offset: i64 },
}

/// What an event of Debezium says where a table was emptied.
const TRUNCATE: &str = "t";

/// Decodes one source.
pub struct Intake {
    source: String,
    topic: String,
    decoder: Decoder,
    format: Format,
    changes: Option<Changes>,
    /// Where messages are Debezium's events.
    events: Option<Events>,
    /// Of a source with a key.
    tombstones: Option<Tombstones>,
    /// Columns of the relation; the decoder has the change's field behind them.
    columns: SchemaRef,
    stop_at_bad: bool,
    bad: BadLog,
    unknown: BTreeSet<String>,
}

/// What an event's row must have, by what the event does: of a row that goes databases tell the key alone. So all
/// columns are decoded as if they may be NULL.
struct Events {
    /// Columns that are NOT NULL.
    of_rows: Vec<usize>,
    /// Those of the key.
    of_keys: Vec<usize>,
    /// What stands for a value that the database left out: a view can't be told that the row's own stays.
    placeholders: Placeholders,
}

/// What records were decoded to.
struct Taken {
    rows: RecordBatch,
    /// Each with the first of its rows.
    parts: Vec<(usize, Decoded)>,
    bad: Vec<Bad>,
    tombstones: usize,
}

impl Taken {
    /// Index of the entry that a row was made of.
    fn entry_of(&self, row: usize) -> usize {
        let part = self.parts.iter().rev().find(|(first, _)| *first <= row);
        let (first, decoded) = part.expect("the first part begins at the first row");
        decoded.entry_of(row - first)
    }
}

impl Intake {
    /// For a source of the pipeline, whose messages are written so.
    ///
    /// # Errors
    /// When messages can't be decoded into its columns.
    pub fn new(source: &Source, format: &Format) -> Result<Self, IntakeError> {
        let Origin::Kafka(kafka) = &source.from;
        let own = source.schema();
        let events = format.debezium != Debezium::No;
        let of = |field: &Arc<Field>| Field::clone(field).with_nullable(field.is_nullable() || events);
        let mut fields: Vec<Field> = own.fields().iter().map(of).collect();
        if let Some(changes) = &source.changes {
            fields.push(Field::new(&changes.field, DataType::Utf8, false));
        }
        let schema = Arc::new(Schema::new(fields));
        let topic = kafka.topic.reveal().to_owned();
        let wrong =
            |error: PlanError| IntakeError::Columns { source_name: source.name.text.clone(), why: error.to_string() };
        let decoder = Decoder::with_format(&schema, &topic, &Transforms::default(), format).map_err(wrong)?;
        let tombstones = match source.key.as_slice() {
            [] => None,
            key => Some(Tombstones::with_format(&own, key, &topic, format).map_err(wrong)?),
        };
        let not_null = (0..source.columns.len()).filter(|at| !source.columns[*at].nullable);
        let needs = Events {
            of_rows: not_null.collect(),
            of_keys: source.key.clone(),
            placeholders: Placeholders::new(PLACEHOLDER, OnUnavailable::Fail),
        };
        Ok(Self {
            source: source.name.text.clone(),
            bad: BadLog::new(topic.clone()),
            topic,
            decoder,
            format: format.clone(),
            changes: source.changes.clone(),
            events: events.then_some(needs),
            tombstones,
            columns: loose_schema(own.fields().iter().map(|field| (field.name().as_str(), field.data_type()))),
            stop_at_bad: source.on_bad_record == OnFault::Stop,
            unknown: BTreeSet::new(),
        })
    }

    /// Finds out about every schema that these records name, so that decoding them need not wait.
    ///
    /// # Errors
    /// One of which nobody can say as yet whether it is there.
    pub fn look_up(&self, records: &Records) -> Result<(), IntakeError> {
        self.format.prepare(records)?;
        if self.tombstones.is_some() {
            self.format.prepare_keys(records)?;
        }
        Ok(())
    }

    /// The change that these messages make, and what was counted. Bad records are dead letters, where there are such.
    ///
    /// # Errors
    /// At the first bad record, where the source wants that. At an event that no change says: a table was emptied.
    pub fn part(&mut self, records: &Records, letters: Option<&mut DeadLetters>) -> Result<(Part, Tally), IntakeError> {
        let mut taken = self.decoded(records)?;
        let gone = match &mut self.tombstones {
            Some(keys) => keys.read(records, 0..records.len(), &self.columns, &mut taken.bad)?,
            None => None,
        };
        let mut bad = std::mem::take(&mut taken.bad);
        let mut weights = self.weights(&taken, &mut bad);
        if let Some(events) = &self.events {
            self.check_events(events, &taken, records, &mut weights, &mut bad)?;
        }
        bad.sort_by_key(|bad| bad.entry);
        // One bad row keeps its message's others out as well.
        bad.dedup_by_key(|bad| bad.entry);
        let is_bad = |row| bad.binary_search_by_key(&taken.entry_of(row), |bad| bad.entry).is_ok();
        if !bad.is_empty() && self.changes.is_some() {
            (0..weights.len()).filter(|row| is_bad(*row)).for_each(|row| weights[row] = None);
        }
        let deletes = gone.as_ref().map_or(0, |gone| gone.entries.len());
        let tombstones = if self.tombstones.is_some() { deletes } else { taken.tombstones };
        let rows = weights.iter().flatten().count();
        let good = records.len() - bad.len() - tombstones;
        let tally = Tally {
            records: records.len() as u64,
            rows: rows as u64,
            extra_rows: rows as i64 - good as i64,
            bad: bad.len() as u64,
            tombstones: tombstones as u64,
        };
        meters::decoded(&tally, &bad);
        self.tell(records, &bad, letters)?;
        self.tell_unknown();
        let columns: Vec<ArrayRef> = taken.rows.columns()[..self.columns.fields().len()].to_vec();
        let rows = batch(&self.columns, columns, taken.rows.num_rows());
        Ok((in_order(rows, &weights, gone, |row| taken.entry_of(row)), tally))
    }

    fn decoded(&mut self, records: &Records) -> Result<Taken, IntakeError> {
        let mut taken =
            Taken { rows: RecordBatch::new_empty(self.schema()), parts: Vec::new(), bad: Vec::new(), tombstones: 0 };
        let (mut next, mut batches, mut rows) = (0, Vec::new(), 0);
        while next < records.len() || taken.parts.is_empty() {
            let mut decoded = self.decoder.try_decode(records, next)?;
            let batch = std::mem::replace(&mut decoded.batch, RecordBatch::new_empty(self.schema()));
            taken.bad.append(&mut decoded.bad);
            taken.tombstones += decoded.tombstones;
            next = decoded.next;
            taken.parts.push((rows, decoded));
            rows += batch.num_rows();
            batches.push(batch);
        }
        taken.rows = match batches.len() {
            1 => batches.remove(0),
            _ => concat_batches(&self.schema(), &batches).expect("batches of one decoder"),
        };
        Ok(taken)
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(self.decoder.schema())
    }

    /// The weight that each row's change field says; a row whose field says nothing known has none, and is bad.
    fn weights(&self, taken: &Taken, bad: &mut Vec<Bad>) -> Vec<Option<i64>> {
        let Some(changes) = &self.changes else { return vec![Some(1); taken.rows.num_rows()] };
        let field = taken.rows.column(self.columns.fields().len()).as_string::<i32>();
        let weight = |row: usize| {
            let value = field.value(row);
            let is = |values: &[String]| values.iter().any(|known| known == value);
            if is(&changes.insert) || is(&changes.update) { Some(1) } else { is(&changes.delete).then_some(-1) }
        };
        let weights: Vec<Option<i64>> = (0..taken.rows.num_rows()).map(weight).collect();
        if self.events.is_none() {
            for (row, _) in weights.iter().enumerate().filter(|(_, weight)| weight.is_none()) {
                let detail =
                    format!("{} is '{}', which is no change that the source knows", changes.field, field.value(row));
                bad.push(Bad { entry: taken.entry_of(row), kind: BadKind::WrongType, detail });
            }
        }
        weights
    }

    /// What events must have. One that is about no row, and no change either, has no weight and is passed over.
    fn check_events(
        &self,
        events: &Events,
        taken: &Taken,
        records: &Records,
        weights: &mut [Option<i64>],
        bad: &mut Vec<Bad>,
    ) -> Result<(), IntakeError> {
        let op = taken.rows.column(self.columns.fields().len()).as_string::<i32>();
        let unavailable = events.placeholders.find(&taken.rows);
        for (row, weight) in weights.iter_mut().enumerate() {
            let entry = taken.entry_of(row);
            if op.value(row) == TRUNCATE {
                return Err(IntakeError::Truncated {
                    topic: self.topic.clone(),
                    partition: records.partition().number(),
                    offset: records.entries()[entry].offset,
                });
            }
            let needed = match *weight {
                Some(1) => &events.of_rows,
                Some(_) => &events.of_keys,
                None => continue,
            };
            if let (Some(1), Some(columns)) = (*weight, unavailable.get(&row)) {
                let name = self.columns.field(columns[0]).name();
                let detail = format!(
                    "{name}: Debezium's unavailable value in place of one that is unchanged; give the table REPLICA IDENTITY \
                     FULL, or leave the column out of the source"
                );
                bad.push(Bad { entry, kind: BadKind::DoesNotFit, detail });
                *weight = None;
                continue;
            }
            if let Some(column) = needed.iter().find(|column| taken.rows.column(**column).is_null(row)) {
                let name = self.columns.field(*column).name();
                let detail = format!("{name}: NULL or not there, and the column must not be NULL");
                bad.push(Bad { entry, kind: BadKind::NullInNotNull, detail });
                *weight = None;
            }
        }
        Ok(())
    }

    fn tell(&self, records: &Records, bad: &[Bad], mut letters: Option<&mut DeadLetters>) -> Result<(), IntakeError> {
        for bad in bad {
            let entry = &records.entries()[bad.entry];
            if self.stop_at_bad {
                return Err(IntakeError::Bad {
                    topic: self.topic.clone(),
                    partition: records.partition().number(),
                    offset: entry.offset,
                    kind: bad.kind.name(),
                    detail: bad.detail.clone(),
                });
            }
            self.bad.log(records.partition(), entry.offset, bad.kind.name(), &bad.detail, records.value(entry));
            if let Some(letters) = &mut letters {
                let is_stamped = entry.timestamp_type != TimestampType::NotAvailable;
                letters.bad_record(&BadRecord {
                    source: &self.source,
                    topic: &self.topic,
                    partition: i32::try_from(records.partition().number()).expect("Kafka numbers them with an i32"),
                    offset: entry.offset,
                    timestamp_ms: is_stamped.then_some(entry.timestamp_ms),
                    key: records.key(entry),
                    value: records.value(entry),
                    detail: &format!("{}: {}", bad.kind, bad.detail),
                });
            }
        }
        Ok(())
    }

    fn tell_unknown(&mut self) {
        for field in self.decoder.take_unknown_fields() {
            meters::unknown_fields(field.count);
            if let Some(path) = field.path
                && self.unknown.insert(path.clone())
            {
                tracing::warn!(
                    "messages of topic {} have a field '{path}' that is no column: it is dropped",
                    self.topic
                );
            }
        }
    }
}

/// Rows with their weights, and those that tombstones delete, in the order of their messages: of a key the last wins.
/// Rows without a weight are left out.
fn in_order(rows: RecordBatch, weights: &[Option<i64>], gone: Option<Gone>, entry_of: impl Fn(usize) -> usize) -> Part {
    if gone.is_none() && weights.iter().all(Option::is_some) {
        return Part { batch: rows, weights: weights.iter().flatten().copied().collect::<Vec<_>>().into() };
    }
    let known = weights.iter().enumerate().filter_map(|(row, weight)| Some((entry_of(row), row, (*weight)?)));
    let mut order: Vec<(usize, usize, i64)> = known.collect();
    let mut all = vec![rows];
    if let Some(gone) = gone {
        order.extend(gone.entries.iter().enumerate().map(|(row, entry)| (*entry, weights.len() + row, -1)));
        order.sort_unstable();
        all.push(gone.rows);
    }
    let whole = concat_batches(&all[0].schema(), &all).expect("rows of one source");
    let places = order.iter().map(|(_, row, _)| u32::try_from(*row).expect("rows of a batch"));
    let places = UInt32Array::from_iter_values(places);
    let batch = take_record_batch(&whole, &places).expect("places within the batch");
    Part { batch, weights: order.iter().map(|(_, _, weight)| *weight).collect::<Vec<_>>().into() }
}

#[cfg(test)]
mod tests {
    use lakeward_circuit::pipeline::Pipeline;
    use lakeward_protocol::position::{Offset, PartitionId};
    use lakeward_protocol::records::TimestampType;

    use super::*;
    use crate::report::cells;

    fn intake(columns: &str, options: &str) -> Intake {
        let text = format!(
            "CREATE SOURCE t ({columns}) WITH (kafka = 'h:1', topic = 't'{options});
             CREATE SINK s FROM t WITH (delta = 's');"
        );
        let source = Pipeline::parse(&text, &|_| None).expect("a pipeline").sources.remove(0);
        Intake::new(&source, &crate::run::formats::of(&source).expect("a format")).expect("columns of JSON")
    }

    fn records(messages: &[(Option<&str>, Option<&str>)]) -> Records {
        let mut records = Records::new(PartitionId(0), Offset::ZERO);
        for (offset, (key, value)) in (0..).zip(messages) {
            let (key, value) = (key.map(str::as_bytes), value.map(str::as_bytes));
            records.push_keyed(offset, 7, TimestampType::CreateTime, key, value);
        }
        records.pad();
        records
    }

    /// `weight: row` of each row that the messages, keys and values, become; then records, rows, bad, tombstones.
    fn changes(intake: &mut Intake, messages: &[(Option<&str>, Option<&str>)]) -> (Vec<String>, [u64; 4]) {
        let records = records(messages);
        let (part, tally) = intake.part(&records, None).expect("no stop at bad records");
        let rows = cells(&part.batch, "NULL").into_iter().zip(part.weights.values());
        let rows = rows.map(|(cells, weight)| format!("{weight:+}: {}", cells.join(", "))).collect();
        (rows, [tally.records, tally.rows, tally.bad, tally.tombstones])
    }

    #[test]
    fn messages_without_a_value_delete_in_their_order() {
        let mut keyed = intake("n INT, id TEXT PRIMARY KEY", "");
        let messages = [
            (Some("a"), Some(r#"{"id":"a","n":1}"#)),
            (Some("a"), None),
            (Some("b"), Some(r#"{"id":"b","n":2}"#)),
            (Some("b"), Some("{")),
            (None, None),
            (Some(r#"{"id":"c"}"#), None),
            (None, Some(r#"{"id":"a","n":3}"#)),
        ];
        let rows = ["+1: 1, a", "-1: NULL, a", "+1: 2, b", "-1: NULL, c", "+1: 3, a"].map(str::to_owned);
        assert_eq!(changes(&mut keyed, &messages), (rows.to_vec(), [7, 3, 2, 2]));
    }

    #[test]
    fn tombstones_stand_beside_a_field_that_says_what_to_do() {
        let mut keyed = intake("id INT PRIMARY KEY", ", changes = 'op'");
        let messages = [
            (None, Some(r#"{"op":"insert","id":1}"#)),
            (None, Some(r#"{"op":"what","id":2}"#)),
            (Some("1"), None),
            (None, Some(r#"{"op":"delete","id":3}"#)),
        ];
        let rows = ["+1: 1", "-1: 1", "-1: 3"].map(str::to_owned);
        assert_eq!(changes(&mut keyed, &messages), (rows.to_vec(), [4, 2, 1, 1]));
    }

    #[test]
    fn without_a_key_they_are_passed_over() {
        let mut bag = intake("id INT", "");
        let messages = [(Some("1"), None), (None, Some(r#"{"id":1}"#)), (None, None)];
        assert_eq!(changes(&mut bag, &messages), (vec!["+1: 1".to_owned()], [3, 1, 0, 2]));
    }

    /// S42, S43: updates of a key, snapshots that come again, tombstones behind deletes; and what a database tells of them.
    #[test]
    fn events_of_debezium_are_changes_of_their_keys() {
        let mut events = intake("id INT PRIMARY KEY, v TEXT NOT NULL, n INT", ", debezium = true");
        let event = |op: &str, before: &str, after: &str| {
            format!(r#"{{"payload":{{"op":"{op}","before":{before},"after":{after}}},"schema":null}}"#)
        };
        let row = |id: i32, v: &str| format!(r#"{{"id":{id},"v":"{v}","n":null}}"#);
        let messages = [
            (r#"{"id":1}"#, Some(event("r", "null", &row(1, "a")))),
            (r#"{"id":1}"#, Some(event("u", &row(1, "a"), &row(1, "b")))),
            (r#"{"id":1}"#, Some(event("d", r#"{"id":1,"v":null}"#, "null"))),
            (r#"{"schema":{"type":"struct"},"payload":{"id":1}}"#, None),
            (r#"{"id":2}"#, Some(event("c", "null", &row(2, "c")))),
            ("{}", Some(event("m", "null", "null"))),
            (r#"{"id":2}"#, Some(event("r", "null", r#"{"id":2}"#))),
            (r#"{"id":3}"#, Some(event("d", "null", "null"))),
            (r#"{"id":3}"#, Some(r#"{"id":3}"#.to_owned())),
            (r#"{"id":2}"#, Some(event("u", "null", &row(2, "__debezium_unavailable_value")))),
        ];
        let messages: Vec<_> = messages.iter().map(|(key, value)| (Some(*key), value.as_deref())).collect();
        let rows = ["+1: 1, a, NULL", "+1: 1, b, NULL", "-1: 1, NULL, NULL", "-1: 1, NULL, NULL", "+1: 2, c, NULL"];
        assert_eq!(changes(&mut events, &messages), (rows.map(str::to_owned).to_vec(), [10, 4, 4, 1]));
        let truncated = records(&[(None, Some(&event("t", "null", "null")))]);
        let stopped = events.part(&truncated, None).expect_err("nobody can say which rows went");
        assert!(matches!(stopped, IntakeError::Truncated { offset: 0, .. }), "{stopped}");
    }

    #[test]
    fn bad_records_are_dead_letters() {
        let mut keyed = intake("id INT PRIMARY KEY", "");
        let messages = [(Some("k"), Some("{")), (None, Some(r#"{"id":1}"#)), (None, None), (Some("x"), None)];
        let mut letters = DeadLetters::default();
        let (part, tally) = keyed.part(&records(&messages), Some(&mut letters)).expect("no stop at bad records");
        assert_eq!((part.weights.len(), tally.bad), (1, 3));
        let found = cells(&letters.take(&[]).batch, "-").into_iter().map(|mut cells| {
            let details = cells.split_off(8);
            assert!(details[1].contains(": "), "a word, and the reason: {details:?}");
            cells.join(" ")
        });
        let found: Vec<String> = found.collect();
        let at = "1970-01-01T00:00:00.007Z";
        let expected = [
            format!("bad_record t t 0 0 {at} 6b 7b"),
            format!("bad_record t t 0 2 {at} - -"),
            format!("bad_record t t 0 3 {at} 78 -"),
        ];
        assert_eq!(found, expected);
    }
}
