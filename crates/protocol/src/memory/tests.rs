//! The in-memory ports pass the suites that the real ones pass.

use std::time::Duration;

use super::{Clock, Handover, MemoryBatch, MemoryInput, MemoryOutput, MemoryStage, Table, Topic};
use crate::contract::{InputHarness, OutputHarness, StageHarness};
use crate::position::{Offset, PartitionId, Shape, TableVersion};

struct Topics {
    topic: Topic,
    handover: Handover,
}

impl InputHarness for Topics {
    type Log = MemoryInput;

    fn fresh(&mut self, partitions: u32) {
        self.topic = Topic::new(partitions, self.handover, Clock::default());
    }

    fn join(&mut self) -> MemoryInput {
        self.topic.join()
    }

    fn append(&mut self, partition: PartitionId, values: &[Option<&[u8]>]) {
        for value in values {
            self.topic.append(partition, *value);
        }
    }

    fn append_hole(&mut self, partition: PartitionId) -> bool {
        self.topic.append_hole(partition);
        true
    }

    fn expire(&mut self, partition: PartitionId, oldest: Offset) -> bool {
        self.topic.expire(partition, oldest);
        true
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(5)
    }
}

#[test]
fn topics_keep_the_contract() {
    for handover in [Handover::Cooperative, Handover::Eager] {
        crate::contract::input_log(&mut Topics { topic: Topic::new(1, handover, Clock::default()), handover });
    }
}

struct Stages;

impl StageHarness for Stages {
    type Stage = MemoryStage;

    fn make(&mut self) -> MemoryStage {
        MemoryStage::default()
    }

    fn layout(&mut self) -> Shape {
        Shape(0)
    }

    fn other_layout(&mut self) -> Shape {
        Shape(1)
    }

    fn good(&mut self, number: u64) -> Vec<u8> {
        number.to_string().into_bytes()
    }

    fn bad(&mut self) -> Option<Vec<u8>> {
        Some(b"bad".to_vec())
    }

    fn rows(&mut self, batch: &MemoryBatch) -> Vec<u64> {
        let number = |value: &[u8]| String::from_utf8_lossy(value).parse().expect("a number");
        batch.rows.iter().map(|(_, _, value)| number(value)).collect()
    }
}

#[test]
fn stages_keep_the_contract() {
    crate::contract::stage(&mut Stages);
}

#[derive(Default)]
struct Tables {
    table: Table,
}

impl OutputHarness for Tables {
    type Log = MemoryOutput;

    fn fresh(&mut self) {
        self.table = Table::new();
    }

    fn open(&mut self) -> MemoryOutput {
        self.table.open(1)
    }

    fn open_for_recreated_topic(&mut self) -> Option<MemoryOutput> {
        Some(self.table.open(2))
    }

    fn batch(&mut self, log: &mut MemoryOutput, partition: PartitionId, from: Offset, to: Offset) -> MemoryBatch {
        use crate::ports::OutputLog;
        let offset = |raw| Offset::new(raw).expect("not negative");
        let rows = (from.get()..to.get()).map(|raw| (partition, offset(raw), Vec::new()));
        MemoryBatch { shape: log.layout(), rows: rows.collect() }
    }

    fn foreign_append(&mut self) {
        self.table.foreign_append();
    }

    fn foreign_reshape(&mut self) {
        self.table.foreign_reshape();
    }

    fn foreign_frontier(&mut self, partition: PartitionId, to: Offset) {
        self.table.foreign_frontier(partition, to);
    }

    fn foreign_restore(&mut self, to: TableVersion) -> bool {
        self.table.foreign_restore(to);
        true
    }

    fn foreign_recreate(&mut self) -> bool {
        self.table.foreign_recreate();
        true
    }

    fn rows(&mut self) -> Vec<(PartitionId, Offset)> {
        let mut rows: Vec<_> = self.table.rows().into_iter().map(|row| (row.0, row.1)).collect();
        rows.sort_unstable();
        rows
    }
}

#[test]
fn tables_keep_the_contract() {
    crate::contract::output_log(&mut Tables::default());
}
