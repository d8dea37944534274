//! A source's messages as changes of its relation.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use lakeward_circuit::delta::{Part, batch, loose_schema};
use lakeward_circuit::pipeline::{Changes, OnFault, Origin, Source};
use lakeward_decode::{Bad, BadKind, Decoder, Transforms};
use lakeward_delta::Tally;
use lakeward_protocol::records::Records;

use crate::badlog::BadLog;
use crate::meters;

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
    topic: String,
    decoder: Decoder,
    changes: Option<Changes>,
    /// A row goes by its key, which a message without value does not name.
    keyed: bool,
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
        let none: Vec<String> = Vec::new();
        let wrong = |why: String| IntakeError::Columns { source_name: source.name.text.clone(), why };
        let transforms = Transforms::parse(&none).map_err(|error| wrong(error.to_string()))?;
        let decoder = Decoder::new(&schema, &topic, &transforms).map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            bad: BadLog::new(topic.clone()),
            topic,
            decoder,
            changes: source.changes.clone(),
            keyed: !source.key.is_empty(),
            columns: loose_schema(own.fields().iter().map(|field| (field.name().as_str(), field.data_type()))),
            stop_at_bad: source.on_bad_record == OnFault::Stop,
            unknown: BTreeSet::new(),
        })
    }

    /// The change that these messages make, and what was counted.
    ///
    /// # Errors
    /// At the first bad record, where the source wants that.
    pub fn part(&mut self, records: &Records) -> Result<(Part, Tally), IntakeError> {
        let mut decoded = self.decoder.decode(records);
        let empty = RecordBatch::new_empty(Arc::clone(self.decoder.schema()));
        let rows = std::mem::replace(&mut decoded.batch, empty);
        let mut bad: Vec<Bad> = std::mem::take(&mut decoded.bad);
        if self.keyed {
            let gone = records.entries().iter().enumerate().filter(|(_, entry)| records.value(entry).is_none());
            let detail = "a message without value names no row to delete: send its key's columns and a field that says so (WITH changes = 'field')";
            bad.extend(gone.map(|(entry, _)| Bad { entry, kind: BadKind::NullInNotNull, detail: detail.to_owned() }));
        }
        let (rows, weights) = self.weighed(rows, &mut bad, |row| decoded.entry_of(row));
        bad.sort_by_key(|bad| bad.entry);
        let tally = Tally {
            records: records.len() as u64,
            rows: rows.num_rows() as u64,
            bad: bad.len() as u64,
            tombstones: if self.keyed { 0 } else { decoded.tombstones as u64 },
        };
        meters::decoded(&tally, &bad);
        self.tell(records, &bad)?;
        self.tell_unknown();
        let columns: Vec<ArrayRef> = rows.columns()[..self.columns.fields().len()].to_vec();
        Ok((Part { batch: batch(&self.columns, columns, rows.num_rows()), weights }, tally))
    }

    /// The rows with the weights that their change's field says; rows whose field says nothing known are bad.
    fn weighed(
        &self,
        rows: RecordBatch,
        bad: &mut Vec<Bad>,
        entry_of: impl Fn(usize) -> usize,
    ) -> (RecordBatch, Int64Array) {
        let Some(changes) = &self.changes else {
            let weights = Int64Array::from_value(1, rows.num_rows());
            return (rows, weights);
        };
        let field = rows.column(self.columns.fields().len()).as_string::<i32>();
        let weight = |row: usize| {
            let value = field.value(row);
            let is = |values: &[String]| values.iter().any(|known| known == value);
            if is(&changes.insert) || is(&changes.update) { Some(1) } else { is(&changes.delete).then_some(-1) }
        };
        let weights: Vec<Option<i64>> = (0..rows.num_rows()).map(weight).collect();
        if weights.iter().all(Option::is_some) {
            return (rows, weights.into_iter().flatten().collect::<Vec<_>>().into());
        }
        for (row, _) in weights.iter().enumerate().filter(|(_, weight)| weight.is_none()) {
            let detail =
                format!("{} is '{}', which is no change that the source knows", changes.field, field.value(row));
            bad.push(Bad { entry: entry_of(row), kind: BadKind::WrongType, detail });
        }
        let known = BooleanArray::from(weights.iter().map(Option::is_some).collect::<Vec<_>>());
        let rows = filter_record_batch(&rows, &known).expect("a mask of its length");
        (rows, weights.into_iter().flatten().collect::<Vec<_>>().into())
    }

    fn tell(&self, records: &Records, bad: &[Bad]) -> Result<(), IntakeError> {
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
