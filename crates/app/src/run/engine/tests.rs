//! A circuit's states in its folder and in an object store: what is lost or damaged there, who else writes there.

mod letters;

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field, Schema};
use futures::TryStreamExt;
use lakeward_circuit::circuit::{Options, Stepped};
use lakeward_circuit::delta::{batch, loose_schema};
use lakeward_circuit::logical::Queries;
use lakeward_circuit::plan::{Changes, Planner, Relation};
use lakeward_delta::Place;
use lakeward_protocol::ports::{CheckpointStore, Put};
use lakeward_protocol::position::CheckpointNumber;
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::super::store::Checkpoints;
use super::*;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A keyed table, an aggregate of it that goes back, and its join with itself.
fn plan() -> Arc<Plan> {
    let schema = Arc::new(Schema::new(["k", "g", "v"].map(|name| Field::new(name, DataType::Int64, true)).to_vec()));
    let (mut queries, mut planner) = (Queries::default(), Planner::default());
    queries.table("t", schema.clone()).unwrap();
    planner.source(Relation { name: "t".to_owned(), schema, changes: Changes::Keyed(vec![0]) });
    for (name, query) in [
        ("sums", "select g, count(*) n, sum(v) s, min(v) lo from t group by g"),
        ("pairs", "select a.k, b.v from t a join t b on a.v = b.k"),
    ] {
        planner.view(name, &queries.plan_text(query).unwrap()).unwrap();
    }
    Arc::new(planner.finish())
}

/// What a step changes in each view: rows with their weights.
type Changed = Vec<BTreeMap<Vec<Option<i64>>, i64>>;

fn changed(stepped: &Stepped) -> Changed {
    let rows = |view: &Part| {
        let columns: Vec<&Int64Array> = view.batch.columns().iter().map(|at| at.as_primitive::<Int64Type>()).collect();
        let row = |at: usize| columns.iter().map(|column| column.iter().nth(at).flatten()).collect();
        (0..view.weights.len()).map(|at| (row(at), view.weights.value(at))).collect()
    };
    stepped.views.iter().map(rows).collect()
}

/// A process: its options and its folder, which is new.
struct Process {
    options: EngineOptions,
    _folder: TempDir,
}

impl Process {
    fn new(store: &Arc<InMemory>, runtime: &Runtime) -> Self {
        let place = place(store);
        let folder = tempfile::tempdir().unwrap();
        let options = EngineOptions {
            plan: plan(),
            circuit: Options { workers: 1, memory_mb: 256 },
            folder: folder.path().join("engine"),
            copies: Some(Copies::new(place, runtime.handle().clone())),
            schemas: Vec::new(),
            has_dead_letters: false,
            sinks: Vec::new(),
            most_bytes: 0,
            most_messages: 0,
            runtime: runtime.handle().clone(),
        };
        Self { options, _folder: folder }
    }

    fn start(&self) -> circuit::Circuit {
        let EngineOptions { plan, circuit, folder, .. } = &self.options;
        circuit::Circuit::start(plan, circuit, Some(folder)).unwrap()
    }

    fn save(&self, circuit: &mut circuit::Circuit, id: u128) -> Vec<u8> {
        let saved = save(circuit.prepare().unwrap(), CommitId(id), &self.options.folder, self.options.copies.as_ref());
        saved.unwrap()
    }

    fn restore(&self, id: u128, state: &[u8]) -> circuit::Circuit {
        match self.options.restore(CommitId(id), state).unwrap() {
            circuit::Restored::Done(circuit) => *circuit,
            circuit::Restored::Missing { what } => panic!("missing: {what}"),
        }
    }
}

fn place(store: &Arc<InMemory>) -> Place {
    Place::on_store(Arc::clone(store) as Arc<dyn ObjectStore>, StorePath::from("state")).unwrap()
}

/// A step of some rows, others for each seed.
fn step(circuit: &mut circuit::Circuit, seed: i64, rows: i64) -> Changed {
    let number = |row: i64, salt: i64| (seed * 7_919 + row * 104_729 + salt).wrapping_mul(0x9E37_79B9).rem_euclid(997);
    let column = |salt| Arc::new((0..rows).map(|row| number(row, salt)).collect::<Int64Array>()) as ArrayRef;
    let schema = loose_schema(["k", "g", "v"].iter().map(|name| (*name, &DataType::Int64)));
    let groups = Arc::new((0..rows).map(|row| number(row, 2) % 50).collect::<Int64Array>());
    let part = batch(&schema, vec![column(1), groups, column(3)], rows as usize);
    circuit.push(0, Part::inserts(part));
    changed(&circuit.step().unwrap())
}

/// Everything that a store holds.
fn objects(store: &InMemory, runtime: &Runtime) -> BTreeMap<StorePath, Vec<u8>> {
    runtime.block_on(async {
        let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
        let mut objects = BTreeMap::new();
        for at in listed.into_iter().map(|meta| meta.location) {
            let bytes = store.get(&at).await.unwrap().bytes().await.unwrap();
            objects.insert(at, bytes.to_vec());
        }
        objects
    })
}

#[test]
fn a_lost_folder_is_no_loss() {
    let (runtime, store) = (runtime(), Arc::new(InMemory::new()));
    let first = Process::new(&store, &runtime);
    let mut circuit = first.start();
    step(&mut circuit, 0, 3_000);
    let mut state = first.save(&mut circuit, 100);
    let mut whole = first.options.copies.as_ref().map(|copies| runtime.block_on(copies.names()).unwrap()).unwrap();
    for round in 1..4 {
        let expected = step(&mut circuit, round, 5);
        let id = 100 + round as u128;
        let next = Process::new(&store, &runtime);
        let mut fetched = next.restore(id - 1, &state);
        assert_eq!(step(&mut fetched, round, 5), expected, "round {round}");
        state = next.save(&mut fetched, id);
        let now = next.options.copies.as_ref().map(|copies| runtime.block_on(copies.names()).unwrap()).unwrap();
        assert!(now.is_superset(&whole), "nothing goes");
        whole = now;
    }
    // Later saves name files of the first one, and did not put them again.
    let contents = |id: u128| {
        let text = objects(&store, &runtime)[&StorePath::from(format!("state/states/{}.json", CommitId(id)))].clone();
        let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
        read["files"].as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>()
    };
    assert!(contents(101).intersection(&contents(100)).count() > 0, "files are shared");
}

#[test]
fn what_is_lost_or_damaged_in_the_store_is_never_a_wrong_answer() {
    let (runtime, store) = (runtime(), Arc::new(InMemory::new()));
    let first = Process::new(&store, &runtime);
    let mut circuit = first.start();
    step(&mut circuit, 0, 400);
    first.save(&mut circuit, 1);
    step(&mut circuit, 1, 400);
    let newer = first.save(&mut circuit, 2);
    let expected = step(&mut circuit, 2, 400);
    circuit.stop().unwrap();

    let whole = objects(&store, &runtime);
    let damages = ["lost", "empty", "halved", "flipped", "longer"];
    let (mut missing, mut untouched) = (0, 0);
    for (at, bytes) in &whole {
        for damage in damages {
            let harmed = Arc::new(store.fork());
            let mut wrong = bytes.clone();
            match damage {
                "empty" => wrong.clear(),
                "halved" => wrong.truncate(bytes.len() / 2),
                "flipped" => wrong.iter_mut().skip(bytes.len() / 2).take(1).for_each(|byte| *byte ^= 0x10),
                _ => wrong.push(b'x'),
            }
            if damage != "lost" && wrong == *bytes {
                continue;
            }
            runtime.block_on(async {
                match damage {
                    "lost" => harmed.delete(at).await.unwrap(),
                    _ => drop(harmed.put(at, wrong.into()).await.unwrap()),
                }
            });
            let next = Process::new(&harmed, &runtime);
            match next.options.restore(CommitId(2), &newer).unwrap() {
                circuit::Restored::Missing { what } => {
                    // A list of files that is flipped may name one that never was.
                    assert!(what.contains(at.filename().unwrap()) || damage == "flipped", "{at} {damage}: {what}");
                    missing += 1;
                }
                circuit::Restored::Done(mut circuit) => {
                    assert_eq!(step(&mut circuit, 2, 400), expected, "{at} {damage}");
                    untouched += 1;
                }
            }
        }
    }
    // In the folder that holds it still, nothing is missed.
    whole.keys().for_each(|at| runtime.block_on(store.delete(at)).unwrap());
    assert_eq!(step(&mut first.restore(2, &newer), 2, 400), expected);
    assert!(missing > 50 && untouched > 0, "{missing} missing, {untouched} of no concern: nothing was tried");
}

/// P8: two processes go on from one checkpoint. Whatever either does, the state of the one that counts is there.
#[test]
fn a_zombie_harms_nothing() {
    let (runtime, store) = (runtime(), Arc::new(InMemory::new()));
    let checkpoints = || {
        let copies = Copies::new(place(&store), runtime.handle().clone());
        Checkpoints::new(place(&store), vec!["t".to_owned()], runtime.handle().clone(), Some(copies))
    };
    let checkpoint = |number, id, state: &[u8]| Checkpoint {
        number: CheckpointNumber(number),
        id: CommitId(id),
        frontier: Frontier::new(),
        begun: Frontier::new(),
        state: Some(state.to_vec()),
    };
    let zombie = Process::new(&store, &runtime);
    let mut old = zombie.start();
    step(&mut old, 0, 2_000);
    let first = checkpoint(1, 1, &zombie.save(&mut old, 1));
    assert_eq!(checkpoints().put(&first).unwrap(), Put::Done);

    let owner = Process::new(&store, &runtime);
    let mut new = owner.restore(1, first.state.as_ref().unwrap());
    step(&mut new, 1, 100);
    let second = checkpoint(2, 2, &owner.save(&mut new, 2));
    let expected = step(&mut new, 3, 100);
    assert_eq!(checkpoints().put(&second).unwrap(), Put::Done);

    // Woken, with other rows: what is there stays as it is, byte for byte.
    step(&mut old, 2, 100);
    let before = objects(&store, &runtime);
    let stale = checkpoint(2, 3, &zombie.save(&mut old, 3));
    let after = objects(&store, &runtime);
    assert!(after.len() > before.len(), "it put files of its own");
    assert!(before.iter().all(|(at, bytes)| after.get(at) == Some(bytes)), "nothing is written over");
    assert_eq!(checkpoints().put(&stale).unwrap(), Put::Taken);

    // The owner removes what it does not need; and so does the zombie, of an older list.
    checkpoints().remove(std::slice::from_ref(&first)).unwrap();
    checkpoints().remove(std::slice::from_ref(&first)).unwrap();
    assert_eq!(checkpoints().list().unwrap(), std::slice::from_ref(&second));
    let mut fetched = Process::new(&store, &runtime).restore(2, second.state.as_ref().unwrap());
    assert_eq!(step(&mut fetched, 3, 100), expected);
}
