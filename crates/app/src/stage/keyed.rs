//! `--mode upsert`: of messages the events by key. A row is the newest of its key; a tombstone, or Debezium's deletion,
//! takes the key's row away.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use lakeward_decode::{Bad, BadKind, Debezium, Decoded, Decoder, Format, Transforms};
use lakeward_delta::Layout;
use lakeward_delta::view::{Said, Stretch, check_key, rows_without_key};
use lakeward_protocol::records::Records;

use super::sifted::Sifted;
use super::unavailable::{OnUnavailable, Placeholders};
use super::{StageError, StageOptions};
use crate::tombstones::{Gone, Tombstones};

/// How rows go into the table by key.
#[derive(Clone, Debug)]
pub struct ByKeyOptions {
    /// The columns that name a row.
    pub key: Vec<String>,
    /// What begins the names of the partitions' chains.
    pub app_id: String,
    /// Where messages are Debezium's: how to tell values that they do not say, unless those are written as they are.
    pub unavailable: Option<Placeholders>,
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

    /// The rows that can go in by their key, and the others with the reason, by their numbers in `batch`; ascending.
    pub(super) fn part(&self, batch: RecordBatch) -> (RecordBatch, Vec<(usize, (BadKind, String))>) {
        let reason = |column: String| format!("{column}: no value, and it is a key column: nothing names the row");
        let without = rows_without_key(&self.layout, &self.options.key, &batch).into_iter();
        let mut without: BTreeMap<usize, (BadKind, String)> =
            without.map(|(row, column)| (row, (BadKind::NullInNotNull, reason(column)))).collect();
        for (row, columns) in self.unsaid(&batch) {
            if let Some(reason) = self.refused(&batch, &columns) {
                without.entry(row).or_insert((BadKind::DoesNotFit, reason));
            }
        }
        if without.is_empty() {
            return (batch, Vec::new());
        }
        let keep: BooleanArray = (0..batch.num_rows()).map(|row| Some(!without.contains_key(&row))).collect();
        let kept = filter_record_batch(&batch, &keep).expect("a mark for each row");
        (kept, without.into_iter().collect())
    }

    /// By row: the columns whose values its message does not say.
    fn unsaid(&self, batch: &RecordBatch) -> BTreeMap<usize, Vec<usize>> {
        self.options.unavailable.as_ref().map_or_else(BTreeMap::new, |unavailable| unavailable.find(batch))
    }

    /// Why a row that does not say these columns is none, if it is.
    fn refused(&self, batch: &RecordBatch, columns: &[usize]) -> Option<String> {
        let name = |column: &usize| batch.schema_ref().field(*column).name().clone();
        let first = name(columns.first()?);
        let key = columns.iter().map(name).find(|name| self.options.key.contains(name));
        if let Some(key) = key {
            return Some(format!("{key}: Debezium's unavailable value in a key column: nothing names the row"));
        }
        if self.options.unavailable.as_ref().is_some_and(|unavailable| unavailable.then == OnUnavailable::Fail) {
            let option = "--debezium-unavailable-value=fail";
            return Some(format!("{first}: Debezium's unavailable value in place of one that is unchanged ({option})"));
        }
        self.layout.rules().first().map(|rule| {
            format!("{first}: Debezium's unavailable value, and {rule} can't be seen to over a value that is not there")
        })
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
            while let Some(gone) = going.next_if(|gone| *gone <= entry) {
                order.push(if gone == entry { Said::Before } else { Said::Gone });
            }
            order.push(Said::Row);
        }
        order.extend(going.map(|_| Said::Gone));
        Ok(Stretch {
            chain: format!("{}-{}", self.options.app_id, records.partition()).into(),
            rows: sifted.batch.clone(),
            deletes: deletes.keys,
            order,
            unsaid: self.unsaid(&sifted.batch),
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

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_schema::DataType;
    use lakeward_delta::encode::WriterOptions;
    use lakeward_delta::{LayoutParts, StatsColumns};
    use lakeward_protocol::position::{Offset, PartitionId, Shape};
    use lakeward_protocol::records::TimestampType;
    use object_store::memory::InMemory;

    use super::super::Bench;
    use super::*;
    use crate::stage::Evolve;

    /// A table of id, name and big, keyed by id.
    fn bench(debezium: Debezium, then: OnUnavailable, runtime: &tokio::runtime::Handle) -> Bench {
        let column = |name: &str, kind: DataType| Field::new(name, kind, true);
        let columns =
            vec![column("name", DataType::Utf8), column("id", DataType::Int64), column("big", DataType::Utf8)];
        let layout = Layout::from(LayoutParts {
            table: "t".to_owned(),
            shape: Shape(1),
            schema: Arc::new(Schema::new(columns)),
            partition_columns: Vec::new(),
            stats_columns: StatsColumns::All,
            partition_columns_in_files: false,
            store: Arc::new(InMemory::new()),
            root: "t".into(),
        });
        let options = StageOptions {
            topic: "web".to_owned(),
            format: Format { debezium, ..Format::default() },
            transforms: Transforms::default(),
            view: None,
            letters: None,
            evolve: Evolve::No,
            by_key: Some(ByKeyOptions {
                key: vec!["id".to_owned()],
                app_id: "app".to_owned(),
                unavailable: (debezium != Debezium::No).then(|| Placeholders::new("?", then)),
            }),
            writer: WriterOptions::default(),
            stop_at_bad: false,
            workers: 1,
            most_bytes: 1 << 20,
            most_messages: 100,
            runtime: runtime.clone(),
        };
        Bench::new(&options, &layout).expect("a table with its key")
    }

    /// What key and value come to: `+id` a row, `-id` a key that goes, `~id` one that goes if the next row's is another,
    /// `?` behind a row that leaves something unsaid, `!offset` what is bad. Then rows, extra rows and tombstones.
    fn check(
        bench: &mut Bench,
        messages: &[(Option<&str>, Option<String>)],
        expected: &str,
        counts: (usize, i64, usize),
    ) {
        let mut records = Records::new(PartitionId(3), Offset::ZERO);
        for (offset, (key, value)) in (0..).zip(messages) {
            let (key, value) = (key.map(str::as_bytes), value.as_ref().map(String::as_bytes));
            records.push_keyed(offset, 0, TimestampType::CreateTime, key, value);
        }
        records.pad();
        let mut decoded = bench.decoder.try_decode(&records, 0).expect("JSON needs nothing from outside");
        let empty = RecordBatch::new_empty(Arc::clone(bench.decoder.schema()));
        let batch = std::mem::replace(&mut decoded.batch, empty);
        let (sifted, stretch) = bench.judged(batch, &records, 0, &decoded).expect("JSON");
        let stretch = stretch.expect("events by key");
        let ids = |batch: &RecordBatch| {
            let column = batch.column_by_name("id").expect("the key").as_primitive::<Int64Type>().clone();
            (0..column.len()).map(move |row| column.value(row))
        };
        let (mut rows, mut going) = (ids(&stretch.rows).enumerate(), ids(&stretch.deletes));
        let event = |said: &Said| match said {
            Said::Row => {
                let (row, id) = rows.next().expect("a row");
                format!("+{id}{}", if stretch.unsaid.contains_key(&row) { "?" } else { "" })
            }
            Said::Gone => format!("-{}", going.next().expect("a key")),
            Said::Before => format!("~{}", going.next().expect("a key")),
        };
        let events = stretch.order.iter().map(event).collect::<Vec<_>>();
        let mut bad: Vec<usize> = sifted.bad.iter().map(|bad| bad.entry).collect();
        bad.sort_unstable();
        let bad = bad.iter().map(|entry| format!("!{entry}"));
        assert_eq!(events.into_iter().chain(bad).collect::<Vec<_>>().join(" "), expected);
        assert_eq!((sifted.batch.num_rows(), sifted.extra_rows, sifted.tombstones), counts, "{expected}");
        let told = sifted.batch.num_rows() as i64 - sifted.extra_rows + (sifted.bad.len() + sifted.tombstones) as i64;
        assert_eq!(told, messages.len() as i64, "each record is accounted for: {expected}");
        assert_eq!(&*stretch.chain, "app-3");
    }

    #[test]
    fn messages_are_events_in_their_order() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let mut bench = bench(Debezium::No, OnUnavailable::Keep, runtime.handle());
        let put = |text: &str| (None, Some(text.to_owned()));
        let gone = |key: &'static str| (Some(key), None);
        check(&mut bench, &[], "", (0, 0, 0));
        check(&mut bench, &[put(r#"{"id":1}"#), gone("1"), put(r#"{"id":1,"name":"a"}"#)], "+1 -1 +1", (2, 0, 1));
        let mixed = [
            gone(r#"{"id":5}"#),
            put("nonsense"),
            put(r#"{"name":"no key"}"#),
            put(r#"{"id":2,"big":"?"}"#),
            (None, None),
            gone("x"),
            gone("7"),
            gone("8"),
        ];
        check(&mut bench, &mixed, "-5 +2 -7 -8 !1 !2 !4 !5", (1, 0, 3));
    }

    #[test]
    fn events_of_debezium_take_rows_away() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let event = |op: &str, before: &str, after: &str| {
            (None, Some(format!(r#"{{"op":"{op}","before":{before},"after":{after}}}"#)))
        };
        let (one, two) = (r#"{"id":1,"big":"b"}"#, r#"{"id":2,"big":"?"}"#);
        let mut keep = bench(Debezium::Living, OnUnavailable::Keep, runtime.handle());
        let mixed = [
            event("c", "null", one),
            event("u", one, two),
            event("d", two, "null"),
            (Some(r#"{"schema":{},"payload":{"id":2}}"#), None),
            event("d", "null", "null"),
            event("t", "null", "null"),
            event("m", "null", "null"),
            event("u", r#"{"name":"no key"}"#, one),
            event("u", "null", r#"{"id":null}"#),
        ];
        check(&mut keep, &mixed, "+1 ~1 +2? -2 -2 +1 !4 !5 !8", (3, -2, 1));
        let mut fail = bench(Debezium::Living, OnUnavailable::Fail, runtime.handle());
        check(&mut fail, &[event("u", one, two), event("c", "null", one)], "+1 !0", (1, 0, 0));
    }
}
