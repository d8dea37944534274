//! Events by key, in the order in which they came, as one change: of each key the last one counts.
//!
//! What is there under a key goes if something is there, and the newest row of it comes, if the last event was one. No
//! event needs to know what was before: that is found when the change is committed ([`super::revise`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave;
use lakeward_protocol::position::PartitionId;
use tokio::runtime::Handle;

use super::chains::Chains;
use super::change::{Groups, StageError, Staged, Stager};
use super::index::{Digest, DigestMap};
use super::key::{Digests, Keys};
use super::patch::{Patch, never_said};
use crate::encode::EncodeError;
use crate::error::DeltaError;
use crate::layout::{Batch, DataFile, Tally};

/// Consecutive events of one log.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The log's name: events are in an order only within one. Begins with the table's app id.
    pub chain: Arc<str>,
    /// Rows that are the newest of their keys at their time, with all columns in the table's order.
    pub rows: RecordBatch,
    /// Keys whose rows go, with the key columns alone.
    pub deletes: RecordBatch,
    /// What each event says, in their order.
    pub order: Vec<Said>,
    /// By row of `rows`: columns whose values its event does not say. They stay as they were.
    pub unsaid: BTreeMap<usize, Vec<usize>>,
}

/// What an event says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The next one of `rows` is there.
    Row,
    /// The row of the next one of `deletes` goes.
    Gone,
    /// So was the row before that comes next: the next one of `deletes`. It goes if its key is another.
    Before,
}

impl Stretch {
    /// Memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.rows.get_array_memory_size() + self.deletes.get_array_memory_size() + self.order.capacity()
    }
}

/// What becomes of a key whose records come from another log than before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moved {
    /// It is an error, with the key: nobody can say which record is the newer one.
    #[default]
    Stop,
    /// What is committed last counts.
    LastCommit,
}

/// How a view takes in events by key.
#[derive(Clone, Debug)]
pub struct ByKey {
    /// The most rows that the table may have, which bounds the index's memory.
    pub most_rows: usize,
    /// What becomes of keys that change logs.
    pub moved: Moved,
}

impl Default for ByKey {
    fn default() -> Self {
        Self { most_rows: usize::MAX, moved: Moved::default() }
    }
}

/// The last event of a key.
struct Last {
    stretch: usize,
    /// Its row in the stretch; `None` where the key's row goes.
    row: Option<usize>,
    unsaid: Vec<Unsaid>,
}

/// A column whose value the last event does not say, and where it is: in a row of a stretch, or else in the table.
#[derive(Clone, Copy)]
struct Unsaid {
    column: usize,
    said: Option<(usize, usize)>,
}

/// Of each stretch: its rows that are the last of their keys, and who they are.
type Newest = Vec<(RecordBatch, Digests)>;

impl Stager {
    /// Writes the newest rows of events into files.
    ///
    /// # Errors
    /// A key without a value, or one that changes logs where it must not, named; a store that refuses. Nothing is
    /// held afterwards: staging the same again is right.
    pub(crate) fn stage_latest(
        &mut self,
        keys: &Keys,
        moved: Moved,
        stretches: &[Stretch],
        tally: BTreeMap<PartitionId, Tally>,
        runtime: &Handle,
    ) -> Result<Staged, StageError> {
        self.writer.discard();
        let mut staged = Staged::of_new_rows(Batch { tally, ..Batch::default() }, self.layout.shape());
        let newest = newest(keys, moved, stretches, &mut staged)?;
        let mut groups = Groups::new();
        for (rows, digests) in newest {
            self.write(std::slice::from_ref(&rows), None)?;
            self.part(&rows, digests, &mut groups)?;
        }
        (staged.batch.files, staged.inserts) = self.deliver(groups, runtime)?;
        let touched = staged.touched.as_ref().expect("made with its keys");
        for (file, digests) in staged.batch.files.iter_mut().zip(&staged.inserts) {
            tag(file, digests, touched);
        }
        Ok(staged)
    }
}

pub(super) fn tag(file: &mut DataFile, digests: &[Digest], touched: &DigestMap<Arc<str>>) {
    let mut chains = Chains::default();
    digests.iter().for_each(|digest| chains.push(touched.get(digest)));
    file.chains = chains.to_tag();
}

/// Cuts the stretches down to the rows that count, and notes every key that they touch.
fn newest(keys: &Keys, moved: Moved, stretches: &[Stretch], staged: &mut Staged) -> Result<Newest, StageError> {
    let (mut last, mut digests) = (DigestMap::<Last>::default(), Vec::with_capacity(stretches.len()));
    for at in 0..stretches.len() {
        digests.push(follow(keys, moved, stretches, at, &mut last, staged)?);
    }
    let mut counts: Vec<Vec<bool>> = digests.iter().map(|digests| vec![false; digests.len()]).collect();
    for place in last.values().filter(|place| place.unsaid.is_empty()) {
        if let Some(row) = place.row {
            counts[place.stretch][row] = true;
        }
    }
    let kept = stretches.iter().zip(digests).zip(counts).map(|((stretch, digests), counts)| {
        let of_kept = digests.into_iter().zip(&counts).filter(|(_, counts)| **counts).map(|(digest, _)| digest);
        let of_kept = of_kept.collect();
        Ok((filter_record_batch(&stretch.rows, &BooleanArray::from(counts)).map_err(|e| failed(keys, e))?, of_kept))
    });
    let mut kept = kept.collect::<Result<Newest, StageError>>()?;
    let (here, there): (Vec<_>, Vec<_>) = last
        .iter()
        .filter(|(_, place)| !place.unsaid.is_empty())
        .partition(|(_, place)| place.unsaid.iter().all(|unsaid| unsaid.said.is_some()));
    if !here.is_empty() {
        kept.push((put_together(keys, stretches, &here)?, here.iter().map(|(digest, _)| **digest).collect()));
    }
    if !there.is_empty() {
        let columns = |place: &Last| {
            let missing = place.unsaid.iter().filter(|unsaid| unsaid.said.is_none());
            missing.map(|unsaid| unsaid.column).collect::<Vec<usize>>()
        };
        staged.patch = Some(Box::new(Patch {
            rows: put_together(keys, stretches, &there)?,
            digests: there.iter().map(|(digest, _)| **digest).collect(),
            unsaid: there.iter().map(|(_, place)| columns(place)).collect(),
        }));
    }
    let touched = last.iter().map(|(digest, place)| (*digest, Arc::clone(&stretches[place.stretch].chain)));
    staged.touched = Some(touched.collect());
    Ok(kept)
}

/// Takes a stretch's events in; who its rows are.
fn follow(
    keys: &Keys,
    moved: Moved,
    stretches: &[Stretch],
    at: usize,
    last: &mut DigestMap<Last>,
    staged: &mut Staged,
) -> Result<Digests, StageError> {
    let stretch = &stretches[at];
    let (rows, deletes) = (keys.project(&stretch.rows)?, keys.project(&stretch.deletes)?);
    let (of_rows, of_deletes) = (keys.digests(&rows)?, keys.digests(&deletes)?);
    let (mut next_row, mut next_delete) = (0, 0);
    for said in &stretch.order {
        let (projected, digests, event) = match said {
            Said::Row => (&rows, &of_rows, &mut next_row),
            Said::Gone => (&deletes, &of_deletes, &mut next_delete),
            Said::Before if of_rows.get(next_row) == Some(&of_deletes[next_delete]) => {
                next_delete += 1;
                continue;
            }
            Said::Before => (&deletes, &of_deletes, &mut next_delete),
        };
        let (digest, number) = (digests[*event], *event);
        *event += 1;
        let before = last.get(&digest);
        if let Some(other) = before.map(|before| &stretches[before.stretch].chain)
            && *other != stretch.chain
            && moved == Moved::Stop
        {
            return Err(moved_key(keys, &keys.describe(projected, number), other, &stretch.chain).into());
        }
        let row = (*said == Said::Row).then_some(number);
        let columns = row.and_then(|row| stretch.unsaid.get(&row)).map_or(&[][..], Vec::as_slice);
        let unsaid = columns.iter().map(|column| Some(Unsaid { column: *column, said: said_before(before, *column)? }));
        let Some(unsaid) = unsaid.collect::<Option<Vec<_>>>() else {
            return Err(never_said(keys, &keys.describe(projected, number), &stretch.rows, columns).into());
        };
        last.insert(digest, Last { stretch: at, row, unsaid });
    }
    assert_eq!((next_row, next_delete), (of_rows.len(), of_deletes.len()), "each event is in the order once");
    staged.insert_names.0.push(rows);
    staged.insert_names.0.push(deletes);
    Ok(of_rows)
}

/// Where a column's value was said last: in a row of this batch, or, `Some(None)`, in the table. `None`: the row has gone.
fn said_before(before: Option<&Last>, column: usize) -> Option<Option<(usize, usize)>> {
    let Some(before) = before else { return Some(None) };
    let row = before.row?;
    let earlier = before.unsaid.iter().find(|unsaid| unsaid.column == column);
    Some(earlier.map_or(Some((before.stretch, row)), |unsaid| unsaid.said))
}

/// Rows of which parts are said by others of the batch. What none of them says is left as its own row has it.
fn put_together(keys: &Keys, stretches: &[Stretch], rows: &[(&Digest, &Last)]) -> Result<RecordBatch, StageError> {
    let schema = stretches[0].rows.schema();
    let column = |column: usize| {
        let values: Vec<&dyn Array> = stretches.iter().map(|stretch| stretch.rows.column(column).as_ref()).collect();
        let place = |place: &Last| {
            let unsaid = place.unsaid.iter().find(|unsaid| unsaid.column == column);
            let own = (place.stretch, place.row.expect("a row that is there"));
            unsaid.and_then(|unsaid| unsaid.said).unwrap_or(own)
        };
        interleave(&values, &rows.iter().map(|(_, last)| place(last)).collect::<Vec<_>>())
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>, _>>();
    let batch = columns.and_then(|columns| RecordBatch::try_new(schema, columns));
    batch.map_err(|error| failed(keys, error))
}

fn failed(keys: &Keys, source: ArrowError) -> StageError {
    EncodeError::Arrow { table: keys.table().to_owned(), source }.into()
}

/// The refusal of a key that changes logs.
pub(crate) fn moved_key(keys: &Keys, key: &str, from: &str, to: &str) -> DeltaError {
    keys.refuse(format!(
        "records of the key {key} come from {to}, and its row is of {from} (app id and partition); records of two \
         partitions are in no order, so nobody can say which is the newer one. Produce all records of a key to one \
         partition; or, where all that the old partition has of the key is committed already, pass \
         --on-moved-key=last-commit"
    ))
}
