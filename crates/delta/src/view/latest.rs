//! Events by key, in the order in which they came, as one change: of each key the last one counts.
//!
//! What is there under a key goes if something is there, and the newest row of it comes, if the last event was one. No
//! event needs to know what was before: that is found when the change is committed ([`super::revise`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use lakeward_protocol::position::PartitionId;
use tokio::runtime::Handle;

use super::chains::Chains;
use super::change::{Groups, StageError, Staged, Stager};
use super::index::{Digest, DigestMap};
use super::key::{Digests, Keys};
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
    /// By event, in their order: is it the next one of `rows`, or else of `deletes`?
    pub order: Vec<bool>,
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

fn tag(file: &mut DataFile, digests: &[Digest], touched: &DigestMap<Arc<str>>) {
    let mut chains = Chains::default();
    digests.iter().for_each(|digest| chains.push(touched.get(digest)));
    file.chains = chains.to_tag();
}

/// Cuts the stretches down to the rows that count, and notes every key that they touch.
fn newest(keys: &Keys, moved: Moved, stretches: &[Stretch], staged: &mut Staged) -> Result<Newest, StageError> {
    let (mut last, mut digests) = (DigestMap::<Last>::default(), Vec::with_capacity(stretches.len()));
    for (at, stretch) in stretches.iter().enumerate() {
        let (rows, deletes) = (keys.project(&stretch.rows)?, keys.project(&stretch.deletes)?);
        let (of_rows, of_deletes) = (keys.digests(&rows)?, keys.digests(&deletes)?);
        let (mut next_row, mut next_delete) = (0, 0);
        for is_row in &stretch.order {
            let (projected, digests, event) = match is_row {
                true => (&rows, &of_rows, &mut next_row),
                false => (&deletes, &of_deletes, &mut next_delete),
            };
            let before = last.insert(digests[*event], Last { stretch: at, row: is_row.then_some(*event) });
            if let Some(other) = before.map(|before| &stretches[before.stretch].chain)
                && *other != stretch.chain
                && moved == Moved::Stop
            {
                return Err(moved_key(keys, &keys.describe(projected, *event), other, &stretch.chain).into());
            }
            *event += 1;
        }
        assert_eq!((next_row, next_delete), (of_rows.len(), of_deletes.len()), "each event is in the order once");
        staged.insert_names.0.push(rows);
        staged.insert_names.0.push(deletes);
        digests.push(of_rows);
    }
    let mut counts: Vec<Vec<bool>> = digests.iter().map(|digests| vec![false; digests.len()]).collect();
    for place in last.values() {
        if let Some(row) = place.row {
            counts[place.stretch][row] = true;
        }
    }
    let touched = last.into_iter().map(|(digest, place)| (digest, Arc::clone(&stretches[place.stretch].chain)));
    staged.touched = Some(touched.collect());
    let kept = stretches.iter().zip(digests).zip(counts).map(|((stretch, digests), counts)| {
        let of_kept = digests.into_iter().zip(&counts).filter(|(_, counts)| **counts).map(|(digest, _)| digest);
        let of_kept = of_kept.collect();
        let failed = |source| EncodeError::Arrow { table: keys.table().to_owned(), source };
        Ok((filter_record_batch(&stretch.rows, &BooleanArray::from(counts)).map_err(failed)?, of_kept))
    });
    kept.collect()
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
