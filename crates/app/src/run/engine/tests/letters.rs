//! Dead letters as the engine holds them.

use lakeward_circuit::compile::compile;
use lakeward_circuit::pipeline::Pipeline;
use lakeward_protocol::position::{CheckpointNumber, Offset};
use lakeward_protocol::records::TimestampType;

use super::super::*;

const TEXT: &str = "
    SET dead_letters = 'dead';
    CREATE SOURCE t (id BIGINT PRIMARY KEY, n BIGINT) WITH (kafka = 'h:1', topic = 't');
    CREATE VIEW v AS SELECT id, 100 / n AS q FROM t;
    CREATE SINK s FROM v WITH (delta = 's', key = 'id');";

const BEGINNING: Checkpoint = Checkpoint {
    number: CheckpointNumber(0),
    id: CommitId(1),
    frontier: Frontier::new(),
    begun: Frontier::new(),
    state: None,
};

fn engine(folder: &std::path::Path, runtime: &Handle) -> Engine {
    let pipeline = Pipeline::parse(TEXT, &|_| None).expect("a pipeline");
    let compiled = compile(&pipeline).expect("a plan");
    let options = EngineOptions {
        plan: Arc::clone(&compiled.plan),
        circuit: circuit::Options { workers: 1, memory_mb: 64 },
        folder: folder.join("engine"),
        copies: None,
        schemas: compiled.sinks.iter().map(|sink| sink.schema.clone()).collect(),
        has_dead_letters: true,
        sinks: Vec::new(),
        most_bytes: usize::MAX,
        most_messages: u64::MAX,
        runtime: runtime.clone(),
    };
    let intakes = pipeline
        .sources
        .iter()
        .map(|source| Intake::new(source, &lakeward_decode::Format::default()).expect("columns"))
        .collect();
    Engine::new(options, intakes).expect("an engine")
}

/// Dead letters are held as the changes of views are: of a step that wants them, and of no other.
#[test]
fn letters_are_held_for_who_wants_them() {
    let (folder, runtime) = (tempfile::tempdir().unwrap(), tokio::runtime::Runtime::new().unwrap());
    let mut engine = engine(folder.path(), runtime.handle());
    let [view, letters] = [SinkId(0), SinkId(1)];
    let (all, none) = (BTreeSet::from([view, letters]), BTreeSet::new());
    let push = |engine: &mut Engine, value: &str| {
        let at = engine.frontier.get(&PartitionId(0)).copied().unwrap_or(Offset::ZERO);
        let mut records = Records::new(PartitionId(0), at);
        records.push(at.get(), 0, TimestampType::CreateTime, Some(value.as_bytes()));
        records.pad();
        engine.push(records).expect("what is bad is skipped");
    };
    assert_eq!(engine.restore(&BEGINNING).unwrap(), Restored::Done);
    push(&mut engine, "{");
    assert_eq!(engine.restore(&BEGINNING).unwrap(), Restored::Done);
    assert_eq!(engine.step(&all).unwrap(), none, "what was pushed before a restore is forgotten");
    for bad in ["{", r#"{"id":1,"n":0}"#] {
        push(&mut engine, bad);
        assert_eq!(engine.step(&BTreeSet::from([view])).unwrap(), none, "{bad}: not wanted");
        assert_eq!(engine.step(&all).unwrap(), none, "{bad}: and then it is gone");
    }
    push(&mut engine, r#"{"id":2,"n":0}"#);
    assert_eq!(engine.step(&BTreeSet::from([letters])).unwrap(), BTreeSet::from([letters]));
    push(&mut engine, r#"{"id":2,"n":1}"#);
    assert_eq!(engine.step(&all).unwrap(), BTreeSet::from([view]), "a row that failed and is mended was never there");
    push(&mut engine, "[");
    assert_eq!(engine.step(&all).unwrap(), all);
    assert_eq!(engine.restore(&BEGINNING).unwrap(), Restored::Done);
    assert_eq!(engine.step(&all).unwrap(), none, "what was held is forgotten");
}
