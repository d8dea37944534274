//! The port's own suite, over a view's table in each mode.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use lakeward_delta::view::{Change, Counts, Mode, Staged, View};
use lakeward_delta::{Table, Topic};
use lakeward_protocol::contract::{OutputHarness, output_log};
use lakeward_protocol::ports::OutputLog;
use lakeward_protocol::position::{Offset, PartitionId, TableVersion};
use serde_json::json;

use super::named::pipeline;
use super::support::view_options;
use crate::contract::OnDisk;
use crate::support::{Disk, options};

pub struct ViewOnDisk {
    pub below: OnDisk,
    pub mode: Mode,
    /// As a pipeline with sources by name writes it.
    pub named: bool,
    pub counts: Counts,
}

impl ViewOnDisk {
    fn view(&self, table: Table) -> View {
        View::open(table, view_options(self.mode, &[], None)).unwrap().counting(self.counts.clone())
    }
}

impl OutputHarness for ViewOnDisk {
    type Log = View;

    fn fresh(&mut self) {
        self.below.fresh();
    }

    fn open(&mut self) -> View {
        if self.named {
            return self.view(pipeline(&self.below.disk, &[("bid", "web", 1)]));
        }
        self.view(self.below.disk.open("app"))
    }

    fn open_for_recreated_topic(&mut self) -> Option<View> {
        if self.named {
            return Some(self.view(pipeline(&self.below.disk, &[("bid", "web", 2)])));
        }
        let mut options = options("app");
        options.topic = Some(Topic { name: "web".to_owned(), id: Some([2; 16]) });
        Some(self.view(Table::open(&self.below.disk.location(), options).unwrap()))
    }

    fn batch(&mut self, log: &mut View, partition: PartitionId, from: Offset, to: Offset) -> Staged {
        let layout = log.layout();
        let count = usize::try_from(from.span_until(to)).unwrap();
        let part = Int32Array::from_value(i32::try_from(partition.0).unwrap(), count);
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(part), Arc::new(Int64Array::from_iter_values(from.get()..to.get()))];
        for field in layout.schema().fields().iter().skip(2) {
            columns.push(arrow_array::new_null_array(field.data_type(), count));
        }
        let inserts = vec![RecordBatch::try_new(layout.schema().clone(), columns).unwrap()];
        log.stage(&Change { inserts, ..Change::default() }).unwrap()
    }

    fn foreign_append(&mut self) {
        self.below.foreign_append();
    }

    fn foreign_reshape(&mut self) {
        self.below.foreign_reshape();
    }

    fn foreign_frontier(&mut self, partition: PartitionId, to: Offset) {
        if self.named {
            let txn = json!({"txn": {"appId": format!("app-bid-{partition}"), "version": to.last()}});
            self.below.disk.foreign(&[txn]);
            return;
        }
        self.below.foreign_frontier(partition, to);
    }

    fn foreign_restore(&mut self, to: TableVersion) -> bool {
        self.below.foreign_restore(to)
    }

    fn foreign_recreate(&mut self) -> bool {
        self.below.foreign_recreate()
    }

    fn rows(&mut self) -> Vec<(PartitionId, Offset)> {
        self.below.rows()
    }
}

#[test]
fn views_keep_the_contract() {
    for mode in [Mode::Append, Mode::Upsert] {
        let below = OnDisk { disk: Disk::empty(), properties: &[("delta.enableDeletionVectors", "true")] };
        output_log(&mut ViewOnDisk { below, mode, named: false, counts: Counts::default() });
    }
}

#[test]
fn views_of_named_sources_keep_the_contract() {
    let below = OnDisk { disk: Disk::empty(), properties: &[("delta.enableDeletionVectors", "true")] };
    output_log(&mut ViewOnDisk { below, mode: Mode::Upsert, named: true, counts: Counts::default() });
}
