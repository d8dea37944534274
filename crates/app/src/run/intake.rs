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
use lakeward_decode::{Bad, BadKind, Decoder, PlanError, Transforms};
use lakeward_delta::Tally;
use lakeward_protocol::records::{Records, TimestampType};

use crate::badlog::BadLog;
use crate::meters;
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
}

/// Decodes one source.
pub struct Intake {
    source: String,
    topic: String,
    decoder: Decoder,
    changes: Option<Changes>,
    /// Of a source with a key.
    tombstones: Option<Tombstones>,
    /// Columns of the relation; the decoder has the change's field behind them.
    columns: SchemaRef,
    stop_at_bad: bool,
    bad: BadLog,
    unknown: BTreeSet<String>,
}

impl Intake {
    /// For a source of the pipeline.
    ///
    /// # Errors
    /// When messages can't be decoded into its columns.
    pub fn new(source: &Source) -> Result<Self, IntakeError> {
        let Origin::Kafka(kafka) = &source.from;
        let own = source.schema();
        let mut fields: Vec<Field> = own.fields().iter().map(|field| field.as_ref().clone()).collect();
        if let Some(changes) = &source.changes {
            fields.push(Field::new(&changes.field, DataType::Utf8, false));
        }
        let schema = Arc::new(Schema::new(fields));
        let topic = kafka.topic.reveal().to_owned();
        let wrong =
            |error: PlanError| IntakeError::Columns { source_name: source.name.text.clone(), why: error.to_string() };
        let decoder = Decoder::new(&schema, &topic, &Transforms::default()).map_err(wrong)?;
        let tombstones = match source.key.as_slice() {
            [] => None,
            key => Some(Tombstones::new(&own, key, &topic).map_err(wrong)?),
        };
        Ok(Self {
            source: source.name.text.clone(),
            bad: BadLog::new(topic.clone()),
            topic,
            decoder,
            changes: source.changes.clone(),
            tombstones,
            columns: loose_schema(own.fields().iter().map(|field| (field.name().as_str(), field.data_type()))),
            stop_at_bad: source.on_bad_record == OnFault::Stop,
            unknown: BTreeSet::new(),
        })
    }

    /// The change that these messages make, and what was counted. Bad records are dead letters, where there are such.
    ///
    /// # Errors
    /// At the first bad record, where the source wants that.
    pub fn part(&mut self, records: &Records, letters: Option<&mut DeadLetters>) -> Result<(Part, Tally), IntakeError> {
        let mut decoded = self.decoder.decode(records);
        let empty = RecordBatch::new_empty(Arc::clone(self.decoder.schema()));
        let rows = std::mem::replace(&mut decoded.batch, empty);
        let mut bad: Vec<Bad> = std::mem::take(&mut decoded.bad);
        let keys = self.tombstones.as_mut();
        let gone = keys.map(|keys| keys.read(records, 0..records.len(), &self.columns, &mut bad));
        let gone = gone.and_then(|gone| gone.expect("keys in JSON need nothing from outside"));
        let weights = self.weights(&rows, &mut bad, |row| decoded.entry_of(row));
        bad.sort_by_key(|bad| bad.entry);
        let deletes = gone.as_ref().map_or(0, |gone| gone.entries.len());
        let tally = Tally {
            records: records.len() as u64,
            rows: weights.iter().flatten().count() as u64,
            bad: bad.len() as u64,
            tombstones: if self.tombstones.is_some() { deletes } else { decoded.tombstones } as u64,
            ..Tally::default()
        };
        meters::decoded(&tally, &bad);
        self.tell(records, &bad, letters)?;
        self.tell_unknown();
        let columns: Vec<ArrayRef> = rows.columns()[..self.columns.fields().len()].to_vec();
        let rows = batch(&self.columns, columns, rows.num_rows());
        Ok((in_order(rows, &weights, gone, |row| decoded.entry_of(row)), tally))
    }

    /// The weight that each row's change field says; a row whose field says nothing known has none, and is bad.
    fn weights(&self, rows: &RecordBatch, bad: &mut Vec<Bad>, entry_of: impl Fn(usize) -> usize) -> Vec<Option<i64>> {
        let Some(changes) = &self.changes else { return vec![Some(1); rows.num_rows()] };
        let field = rows.column(self.columns.fields().len()).as_string::<i32>();
        let weight = |row: usize| {
            let value = field.value(row);
            let is = |values: &[String]| values.iter().any(|known| known == value);
            if is(&changes.insert) || is(&changes.update) { Some(1) } else { is(&changes.delete).then_some(-1) }
        };
        let weights: Vec<Option<i64>> = (0..rows.num_rows()).map(weight).collect();
        for (row, _) in weights.iter().enumerate().filter(|(_, weight)| weight.is_none()) {
            let detail =
                format!("{} is '{}', which is no change that the source knows", changes.field, field.value(row));
            bad.push(Bad { entry: entry_of(row), kind: BadKind::WrongType, detail });
        }
        weights
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
        Intake::new(&Pipeline::parse(&text, &|_| None).expect("a pipeline").sources[0]).expect("columns of JSON")
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
