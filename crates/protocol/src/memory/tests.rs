//! The in-memory ports pass the suites that the real ones pass.

use std::time::Duration;

use std::collections::BTreeMap;

use super::{
    Clock, Handover, MemoryBatch, MemoryCheckpoints, MemoryCircuit, MemoryInput, MemoryOutput, MemoryStage, States,
    Table, Topic,
};
use crate::contract::{CheckpointHarness, CircuitHarness, InputHarness, OutputHarness, StageHarness};
use crate::ports::Circuit;
use crate::position::{CheckpointNumber, CommitId, Offset, PartitionId, Shape, SinkId, TableVersion};
use crate::sources::Sources;

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

/// Several sources as one: the first of them alone.
struct First(Topics);

impl InputHarness for First {
    type Log = Sources<MemoryInput>;

    fn fresh(&mut self, partitions: u32) {
        self.0.fresh(partitions);
    }

    fn join(&mut self) -> Self::Log {
        Sources::new(vec![self.0.join()])
    }

    fn append(&mut self, partition: PartitionId, values: &[Option<&[u8]>]) {
        self.0.append(partition, values);
    }

    fn append_hole(&mut self, partition: PartitionId) -> bool {
        self.0.append_hole(partition)
    }

    fn expire(&mut self, partition: PartitionId, oldest: Offset) -> bool {
        self.0.expire(partition, oldest)
    }

    fn patience(&self) -> Duration {
        self.0.patience()
    }
}

#[test]
fn several_sources_keep_the_contract_of_one() {
    let topic = Topic::new(1, Handover::Cooperative, Clock::default());
    crate::contract::input_log(&mut First(Topics { topic, handover: Handover::Cooperative }));
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

    fn open_with_letters(&mut self, letters: &str) -> Option<MemoryOutput> {
        Some(self.table.open(1).with_letters(letters))
    }

    fn batch(&mut self, log: &mut MemoryOutput, partition: PartitionId, from: Offset, to: Offset) -> MemoryBatch {
        use crate::ports::OutputLog;
        let offset = |raw| Offset::new(raw).expect("not negative");
        let rows = (from.get()..to.get()).map(|raw| (partition, offset(raw), Vec::new()));
        MemoryBatch { shape: log.layout(), grown: None, rows: rows.collect() }
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

/// Sums, dead letters and counts by key.
#[derive(Default)]
struct Circuits {
    states: States,
}

impl CircuitHarness for Circuits {
    type Circuit = MemoryCircuit;

    fn make(&mut self) -> MemoryCircuit {
        MemoryCircuit::new(self.states.clone(), 3, "the suite's")
    }

    fn sinks(&self) -> u8 {
        3
    }

    fn layout(&mut self, _: SinkId) -> Shape {
        Shape(1)
    }

    fn value(&mut self, number: u64) -> Vec<u8> {
        format!("{}={}", number % 2, number + 1).into_bytes()
    }

    fn quiet(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn changes(&mut self, _: SinkId, batches: &[MemoryBatch]) -> BTreeMap<String, i64> {
        let mut view = BTreeMap::new();
        for (_, _, change) in batches.iter().flat_map(|batch| &batch.rows) {
            super::table::apply(&mut view, change);
        }
        view
    }

    fn lose(&mut self, id: CommitId) -> bool {
        self.states.forget(id)
    }
}

#[test]
fn circuits_keep_the_contract() {
    crate::contract::circuit(&mut Circuits::default());
}

#[derive(Default)]
struct Stores {
    states: States,
}

impl CheckpointHarness for Stores {
    type Store = MemoryCheckpoints;

    fn fresh(&mut self) {
        self.states = States::default();
    }

    fn open(&mut self) -> MemoryCheckpoints {
        self.states.open()
    }

    fn save_state(&mut self, id: CommitId) {
        let mut circuit = MemoryCircuit::new(self.states.clone(), 1, "the suite's");
        circuit.prepare(id).expect("begin to save a state");
        let _ = circuit.finish(std::time::Duration::ZERO).expect("save it");
    }

    fn has_state(&mut self, id: CommitId) -> bool {
        self.states.saved_states().contains(&id)
    }

    fn half_put(&mut self, _: CheckpointNumber) -> bool {
        false
    }
}

#[test]
fn stores_keep_the_contract() {
    crate::contract::checkpoints(&mut Stores::default());
}
