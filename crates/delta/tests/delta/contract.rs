//! The port's own suite, over local disk.

use lakeward_delta::encode::{Writer, WriterOptions};
use lakeward_delta::{Batch, Companion, Table, Topic};
use lakeward_protocol::contract::{OutputHarness, output_log};
use lakeward_protocol::ports::OutputLog;
use lakeward_protocol::position::{Offset, PartitionId, TableVersion};
use serde_json::{Value, json};

use crate::support::{Disk, offset, options, write_rows};

pub struct OnDisk {
    pub disk: Disk,
    pub properties: &'static [(&'static str, &'static str)],
}

impl OutputHarness for OnDisk {
    type Log = Table;

    fn fresh(&mut self) {
        self.disk = Disk::with(self.properties);
    }

    fn open(&mut self) -> Table {
        self.disk.open("app")
    }

    fn open_for_recreated_topic(&mut self) -> Option<Table> {
        let mut options = options("app");
        options.topic = Some(Topic { name: "web".to_owned(), id: Some([2; 16]) });
        Some(Table::open(&self.disk.location(), options).unwrap())
    }

    fn open_with_letters(&mut self, letters: &str) -> Option<Table> {
        let letters = Companion { table: letters.to_owned(), id: letters.to_owned() };
        Some(self.disk.open("app").with_dead_letters(letters))
    }

    fn batch(&mut self, log: &mut Table, partition: PartitionId, from: Offset, to: Offset) -> Batch {
        let layout = log.layout();
        let mut writer = Writer::new(&layout, WriterOptions::default()).unwrap();
        let rows: Vec<_> = (from.get()..to.get()).map(|at| (partition, offset(at))).collect();
        write_rows(&mut writer, &layout, &rows).unwrap()
    }

    fn foreign_append(&mut self) {
        self.disk.foreign(&[
            json!({"commitInfo": {"timestamp": 1, "operation": "WRITE"}}),
            json!({"txn": {"appId": "somebody", "version": 7}}),
        ]);
    }

    fn foreign_reshape(&mut self) {
        let metadata = self.disk.actions(0).into_iter().find_map(|action| action.get("metaData").cloned()).unwrap();
        let mut schema: Value = serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap();
        let column = json!({"name": "color", "type": "string", "nullable": true, "metadata": {}});
        schema["fields"].as_array_mut().unwrap().push(column);
        let mut metadata = metadata;
        metadata["schemaString"] = json!(schema.to_string());
        self.disk.foreign(&[json!({"metaData": metadata})]);
    }

    fn foreign_frontier(&mut self, partition: PartitionId, to: Offset) {
        self.disk.foreign(&[json!({"txn": {"appId": format!("app-{partition}"), "version": to.last()}})]);
    }

    fn foreign_restore(&mut self, to: TableVersion) -> bool {
        self.disk.restore(to.0, &json!({"version": to.0.to_string(), "timestamp": null}));
        true
    }

    fn foreign_recreate(&mut self) -> bool {
        self.disk.delete();
        let again = Disk::with(self.properties);
        std::fs::create_dir_all(self.disk.log_folder()).unwrap();
        for name in again.log_names() {
            std::fs::copy(again.log_folder().join(&name), self.disk.log_folder().join(&name)).unwrap();
        }
        true
    }

    fn rows(&mut self) -> Vec<(PartitionId, Offset)> {
        self.disk.rows()
    }
}

#[test]
fn a_table_on_disk_keeps_the_contract() {
    output_log(&mut OnDisk { disk: Disk::empty(), properties: &[] });
}

#[test]
fn a_table_with_checkpoints_at_every_version_keeps_the_contract() {
    output_log(&mut OnDisk { disk: Disk::empty(), properties: &[("delta.checkpointInterval", "1")] });
}
