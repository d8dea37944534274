//! `--mode upsert`: of messages the events by key. A row is the newest of its key; a tombstone, or Debezium's deletion,
//! takes the key's row away.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use lakeward_decode::{Bad, BadKind, Debezium, Decoded, Decoder, Format, Transforms};
use lakeward_delta::Layout;
use lakeward_delta::view::{Stretch, check_key, rows_without_key};
use lakeward_protocol::records::Records;

use super::sifted::Sifted;
use super::{StageError, StageOptions};
use crate::tombstones::{Gone, Tombstones};

/// How rows go into the table by key.
#[derive(Clone, Debug)]
pub struct ByKeyOptions {
    /// The columns that name a row.
    pub key: Vec<String>,
    /// What begins the names of the partitions' chains.
    pub app_id: String,
}

/// What reads the keys of one layout.
pub(super) struct KeyBench {
    options: ByKeyOptions,
    layout: Layout,
    /// The key's columns.
    columns: SchemaRef,
    tombstones: Tombstones,
    /// Reads the row before an event of Debezium's.
    before: Option<Decoder>,
}

/// Keys whose rows go, with the key's columns, by entry.
struct Deletes {
    keys: RecordBatch,
    /// Of each its entry; ascending.
    entries: Vec<usize>,
}

impl KeyBench {
    /// For a layout.
    ///
    /// # Errors
    /// A key that the table does not have, or that names no row.
    pub(super) fn new(by_key: &ByKeyOptions, options: &StageOptions, layout: &Layout) -> Result<Self, StageError> {
        check_key(layout, &by_key.key).map_err(StageError::Table)?;
        let wrong = |source| StageError::Plan { table: layout.table().to_owned(), source };
        let field = |name: &String| layout.schema().field_with_name(name).expect("a key of the table").clone();
        let columns: SchemaRef = Arc::new(Schema::new(
            by_key.key.iter().map(|name| field(name).with_nullable(true)).collect::<Vec<Field>>(),
        ));
        let places: Vec<usize> = (0..columns.fields().len()).collect();
        let (topic, format) = (options.topic.as_str(), &options.format);
        let tombstones = Tombstones::with_format(&columns, &places, topic, format).map_err(wrong)?;
        let before = (format.debezium != Debezium::No).then(|| {
            let format = Format { debezium: Debezium::Before, ..format.clone() };
            Decoder::with_format(&columns, topic, &Transforms::default(), &format)
        });
        let before = before.transpose().map_err(wrong)?;
        Ok(Self { options: by_key.clone(), layout: layout.clone(), columns, tombstones, before })
    }

    /// The rows that have a key, and those that have none with the reason, by their numbers in `batch`.
    pub(super) fn part(&self, batch: RecordBatch) -> (RecordBatch, Vec<(usize, String)>) {
        let without = rows_without_key(&self.layout, &self.options.key, &batch);
        if without.is_empty() {
            return (batch, Vec::new());
        }
        let mut keep = vec![true; batch.num_rows()];
        without.iter().for_each(|(row, _)| keep[*row] = false);
        let kept = filter_record_batch(&batch, &BooleanArray::from(keep)).expect("a mark for each row");
        let reason = |column: String| format!("{column}: no value, and it is a key column: nothing names the row");
        (kept, without.into_iter().map(|(row, column)| (row, reason(column))).collect())
    }

    /// The events of entries in `which`: rows that are there, and keys whose rows go. `rows` is how many were decoded
    /// before some were set aside. Messages without a value that name no row, and deletions that name none, become bad.
    pub(super) fn events(
        &mut self,
        records: &Records,
        which: Range<usize>,
        decoded: &Decoded,
        rows: usize,
        sifted: &mut Sifted,
    ) -> Result<Stretch, StageError> {
        let aside: BTreeSet<usize> = sifted.bad.iter().map(|bad| bad.entry).collect();
        let of_rows = (0..rows).map(|row| decoded.entry_of(row)).filter(|entry| !aside.contains(entry));
        let of_rows: Vec<usize> = of_rows.collect();
        assert_eq!(of_rows.len(), sifted.batch.num_rows(), "each row has its entry");
        let deletes = self.deletes(records, which, &of_rows, &aside, sifted)?;
        let mut order = Vec::with_capacity(of_rows.len() + deletes.entries.len());
        let mut going = deletes.entries.iter().peekable();
        for entry in &of_rows {
            // What was there before an event goes before its row comes.
            while going.next_if(|gone| *gone <= entry).is_some() {
                order.push(false);
            }
            order.push(true);
        }
        order.extend(going.map(|_| false));
        Ok(Stretch {
            chain: format!("{}-{}", self.options.app_id, records.partition()).into(),
            rows: sifted.batch.clone(),
            deletes: deletes.keys,
            order,
        })
    }

    fn deletes(
        &mut self,
        records: &Records,
        which: Range<usize>,
        of_rows: &[usize],
        aside: &BTreeSet<usize>,
        sifted: &mut Sifted,
    ) -> Result<Deletes, StageError> {
        let known = sifted.bad.len();
        let mut all: Vec<Gone> = Vec::new();
        all.extend(self.tombstones.read(records, which.clone(), &self.columns, &mut sifted.bad)?);
        sifted.tombstones -= sifted.bad.len() - known;
        all.extend(self.before(records, which, of_rows, aside, sifted)?);
        let batches = all.iter().map(|gone| &gone.rows);
        let mut rows = concat_batches(&self.columns, batches).expect("rows of one schema");
        let mut entries: Vec<usize> = all.into_iter().flat_map(|gone| gone.entries).collect();
        let without = rows_without_key(&self.layout, &self.options.key, &rows);
        if !without.is_empty() {
            let keep: BooleanArray =
                (0..entries.len()).map(|row| Some(without.iter().all(|(other, _)| *other != row))).collect();
            rows = filter_record_batch(&rows, &keep).expect("a mark for each row");
            for (row, column) in without.iter().rev() {
                let entry = entries.remove(*row);
                if of_rows.binary_search(&entry).is_err() {
                    let detail = format!("{column}: empty in the key of a row to delete, and no row has such a key");
                    set_aside(records, Bad { entry, kind: BadKind::NullInNotNull, detail }, sifted);
                }
            }
        }
        let mut places: Vec<usize> = (0..entries.len()).collect();
        places.sort_by_key(|place| entries[*place]);
        let indices = places.iter().map(|place| u32::try_from(*place).expect("rows of a batch"));
        let keys = take_record_batch(&rows, &UInt32Array::from_iter_values(indices)).expect("places within it");
        Ok(Deletes { keys, entries: places.into_iter().map(|place| entries[place]).collect() })
    }

    /// The rows that events of Debezium's say were there before. An event with a row need not say any; where it does, its
    /// key may have been another.
    fn before(
        &mut self,
        records: &Records,
        which: Range<usize>,
        of_rows: &[usize],
        aside: &BTreeSet<usize>,
        sifted: &mut Sifted,
    ) -> Result<Option<Gone>, StageError> {
        let Some(decoder) = &mut self.before else { return Ok(None) };
        let mut gone: Option<Gone> = None;
        let mut next = which.start;
        while next < which.end {
            let mut decoded = decoder.try_decode(records, next)?;
            drop(decoder.take_unknown_fields());
            for bad in std::mem::take(&mut decoded.bad) {
                let concerns = which.contains(&bad.entry) && !aside.contains(&bad.entry);
                if concerns && of_rows.binary_search(&bad.entry).is_err() {
                    set_aside(records, bad, sifted);
                }
            }
            let rows = decoded.batch.num_rows();
            let entries: Vec<usize> = (0..rows).map(|row| decoded.entry_of(row)).collect();
            let keep: Vec<bool> = entries.iter().map(|entry| which.contains(entry) && !aside.contains(entry)).collect();
            let entries = entries.into_iter().zip(&keep).filter(|(_, keep)| **keep).map(|(entry, _)| entry).collect();
            let rows = filter_record_batch(&decoded.batch, &BooleanArray::from(keep)).expect("a mark for each row");
            gone = Some(match gone {
                None => Gone { rows, entries },
                Some(before) => Gone {
                    rows: concat_batches(&self.columns, [&before.rows, &rows]).expect("rows of one schema"),
                    entries: [before.entries, entries].concat(),
                },
            });
            next = decoded.next;
        }
        Ok(gone)
    }
}

/// A message that held no row is bad after all.
fn set_aside(records: &Records, bad: Bad, sifted: &mut Sifted) {
    if records.value(&records.entries()[bad.entry]).is_none() {
        sifted.tombstones -= 1;
    } else {
        sifted.extra_rows += 1;
    }
    sifted.bad.push(bad);
}
