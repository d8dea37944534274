//! Checkpoints that are refused, folders that are not ours, files that are lost or damaged, and a process that is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use lakeward_circuit::builder::{Builder, Deltas, Index, index};
use lakeward_circuit::checkpoint::Mismatch;
use lakeward_circuit::circuit::{Circuit, Restored, StartError};
use lakeward_circuit::folder::FolderError;
use lakeward_circuit::plan::{Operator, Planner};

use crate::restart::{self, options, restore, save};
use crate::restart_many::{differing, event, mixed, mixed_events, pipeline, step};

#[test]
fn another_plan_is_refused_with_what_changed() {
    let tables = ["create table t (k int, v int)"];
    let (_, plan) = pipeline(&tables, &[("s", "select k, sum(v) s from t group by k")]);
    let folder = restart::folder().unwrap();
    let mut circuit = Circuit::start(&plan, &options(1), Some(folder.path())).unwrap();
    let manifest = save(&mut circuit).unwrap();
    drop(circuit);
    let (_, other) = pipeline(&tables, &[("s", "select k, sum(v) s from t where v > 7 group by k")]);
    let refused = Circuit::restore(&other, &options(1), folder.path(), &manifest).unwrap_err();
    let StartError::Mismatch(Mismatch::Plan { difference }) = &refused else { panic!("{refused}") };
    assert!(
        difference.lines().count() == 1 && difference.starts_with("+ #") && difference.contains("Filter"),
        "{refused}"
    );
    let damaged = Circuit::restore(&plan, &options(1), folder.path(), &manifest[1..]).unwrap_err();
    assert!(matches!(damaged, StartError::Mismatch(Mismatch::Damaged { .. })), "{damaged}");
}

#[test]
fn what_came_in_the_first_step_only_is_neither_lost_nor_repeated() {
    let (relations, plan) =
        pipeline(&["create table t (k int)"], &[("one", "select 1 a"), ("n", "select count(*) n from t")]);
    let folder = restart::folder().unwrap();
    let mut circuit = Circuit::start(&plan, &options(2), Some(folder.path())).unwrap();
    let unbegun = save(&mut circuit).unwrap();
    drop(circuit);
    let mut circuit = restore(&plan, &options(3), folder.path(), &unbegun).unwrap();
    let first = step(&mut circuit, &relations, &[]).unwrap();
    assert_eq!(first.views.iter().map(|view| view.batch.num_rows()).collect::<Vec<_>>(), [1, 1]);
    let begun = save(&mut circuit).unwrap();
    drop(circuit);
    let mut circuit = restore(&plan, &options(2), folder.path(), &begun).unwrap();
    let second = step(&mut circuit, &relations, &[]).unwrap();
    assert_eq!(second.views.iter().map(|view| view.batch.num_rows()).collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn a_folder_that_is_in_use_or_not_ours_is_refused() {
    let (_, plan) = mixed();
    let folder = restart::folder().unwrap();
    let circuit = Circuit::start(&plan, &options(1), Some(folder.path())).unwrap();
    let second = Circuit::start(&plan, &options(1), Some(folder.path())).unwrap_err();
    assert!(matches!(second, StartError::Folder(FolderError::InUse { .. })), "{second}");
    circuit.stop().unwrap();
    drop(Circuit::start(&plan, &options(1), Some(folder.path())).unwrap());

    let foreign = restart::folder().unwrap();
    fs::write(foreign.path().join("thesis.txt"), "mine").unwrap();
    let refused = Circuit::start(&plan, &options(1), Some(foreign.path())).unwrap_err();
    assert!(
        matches!(&refused, StartError::Folder(FolderError::Foreign { found, .. }) if found == "thesis.txt"),
        "{refused}"
    );
    assert_eq!(fs::read_dir(foreign.path()).unwrap().count(), 1, "nothing is written there");
}

/// Keeps state and gives it no name.
#[derive(Debug)]
struct Careless(Arc<Index>);

impl Operator for Careless {
    fn describe(&self) -> String {
        "Careless".to_owned()
    }

    fn build(&self, builder: &Builder, inputs: &[Deltas]) -> Deltas {
        let rows = index(builder, "rows", &inputs[0], &self.0);
        let once = rows.map_index(|(key, value)| (key.clone(), value.clone())).distinct();
        once.apply(|_| lakeward_circuit::delta::Delta::default())
    }
}

#[test]
fn an_operator_whose_state_has_no_name_is_noticed_at_the_start() {
    let (relations, _) = pipeline(&["create table t (k int)"], &[("v", "select k from t")]);
    let mut planner = Planner::default();
    planner.source(relations[0].clone());
    let (input, schema) = (planner.named("t").unwrap(), relations[0].schema.clone());
    let by_key = Arc::new(Index::new(&schema, vec![0], vec![], false).unwrap());
    planner.add(Careless(by_key), vec![input], schema);
    let plan = Arc::new(planner.finish());
    drop(Circuit::start(&plan, &options(1), None).unwrap());
    let folder = restart::folder().unwrap();
    let refused = Circuit::start(&plan, &options(1), Some(folder.path())).unwrap_err().to_string();
    assert!(refused.contains("#1 Careless keeps state without a name"), "{refused}");
}

#[test]
fn old_states_are_removed_except_those_that_are_named() {
    let (relations, plan) = mixed();
    let folder = restart::folder().unwrap();
    let mut circuit = Circuit::start(&plan, &options(1), Some(folder.path())).unwrap();
    let mut manifests = Vec::new();
    for number in 0..5 {
        step(&mut circuit, &relations, &mixed_events(number, 50)).unwrap();
        manifests.push(save(&mut circuit).unwrap());
    }
    let under_way = circuit.prepare().unwrap();
    assert_eq!(circuit.remove_states(&[]).unwrap(), 0, "a save is under way");
    drop(under_way);
    assert_eq!(circuit.remove_states(&[&manifests[1]]).unwrap(), 2);
    drop(circuit);
    let is_there = |manifest: &[u8]| match Circuit::restore(&plan, &options(1), folder.path(), manifest).unwrap() {
        Restored::Done(_) => true,
        Restored::Missing { .. } => false,
    };
    let there: Vec<bool> = manifests.iter().map(|manifest| is_there(manifest)).collect();
    assert_eq!(there, [false, true, false, true, true]);
    let empty = restart::folder().unwrap();
    assert!(matches!(
        Circuit::restore(&plan, &options(1), empty.path(), &manifests[4]).unwrap(),
        Restored::Missing { .. }
    ));
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}

#[test]
fn a_lost_or_damaged_file_is_never_a_wrong_answer() {
    let views = [("s", "select t.k, count(*) n, sum(u.v) s from t join u on t.k = u.k group by t.k")];
    let tables = ["create table t (k int, g int, v int)", "create table u (k int primary key, v int)"];
    let (relations, plan) = pipeline(&tables, &views);
    let whole = restart::folder().unwrap();
    let mut circuit = Circuit::start(&plan, &options(2), Some(whole.path())).unwrap();
    step(&mut circuit, &relations, &mixed_events(0, 400)).unwrap();
    let manifest = save(&mut circuit).unwrap();
    let expected = step(&mut circuit, &relations, &mixed_events(1, 400)).unwrap();
    circuit.stop().unwrap();

    type Damage = fn(&Path, Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("lost", |file, _| fs::remove_file(file).unwrap()),
        ("empty", |file, _| fs::write(file, b"").unwrap()),
        ("halved", |file, bytes| fs::write(file, &bytes[..bytes.len() / 2]).unwrap()),
        ("flipped", |file, mut bytes| {
            let middle = bytes.len() / 2;
            bytes.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 0x10);
            fs::write(file, bytes).unwrap();
        }),
    ];
    let (mut missing, mut right) = (0, 0);
    for file in files(whole.path()) {
        let name = file.strip_prefix(whole.path()).unwrap().to_owned();
        for (damage, harm) in &damages {
            let folder = restart::folder().unwrap();
            copy(whole.path(), folder.path());
            harm(&folder.path().join(&name), fs::read(&file).unwrap());
            // Rows are read only where they are needed, so damage of them shows in the step.
            match Circuit::restore(&plan, &options(2), folder.path(), &manifest) {
                Err(_) => {}
                Ok(Restored::Missing { .. }) => missing += 1,
                Ok(Restored::Done(mut circuit)) => {
                    if let Ok(found) = step(&mut circuit, &relations, &mixed_events(1, 400)) {
                        assert_eq!(differing(&expected, &found), None, "{} {damage}", name.display());
                        right += 1;
                    }
                }
            }
        }
    }
    assert!(missing > 20 && right > 0, "{missing} missing, {right} right: nothing was tried");
}

/// A process of its own: steps and saves without end in the folder that it is told, and says so.
#[test]
fn a_child_that_saves() {
    let Ok(folder) = std::env::var("LAKEWARD_CHILD") else { return };
    let (relations, plan) = mixed();
    let mut circuit = Circuit::start(&plan, &options(2), Some(Path::new(&folder))).unwrap();
    for number in 0.. {
        step(&mut circuit, &relations, &mixed_events(number, 40)).unwrap();
        let manifest = save(&mut circuit).unwrap();
        let digits: String = manifest.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("\nsaved {number} {digits}");
    }
}

#[test]
fn a_killed_process_leaves_its_folder_and_its_last_save() {
    let (relations, plan) = mixed();
    let folder = restart::folder().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["restart_faults::a_child_that_saves", "--exact", "--nocapture"])
        .env("LAKEWARD_CHILD", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let mut saves = lines.filter(|line| line.starts_with("saved ")).take(3);
    let last = saves.by_ref().last().unwrap();
    let second = Circuit::start(&plan, &options(1), Some(folder.path())).unwrap_err();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(second, StartError::Folder(FolderError::InUse { .. })), "{second}");

    let parts: Vec<&str> = last.split(' ').collect();
    let number: u64 = parts[1].parse().unwrap();
    let manifest: Vec<u8> =
        (0..parts[2].len()).step_by(2).map(|at| u8::from_str_radix(&parts[2][at..at + 2], 16).unwrap()).collect();
    let mut through = Circuit::start(&plan, &options(1), None).unwrap();
    for number in 0..=number {
        step(&mut through, &relations, &mixed_events(number, 40)).unwrap();
    }
    let mut circuit = restore(&plan, &options(3), folder.path(), &manifest).unwrap();
    let mut events = mixed_events(number + 1, 40);
    events.push(event('+', "t", &[1, 2, 3]));
    let expected = step(&mut through, &relations, &events).unwrap();
    let found = step(&mut circuit, &relations, &events).unwrap();
    assert_eq!(differing(&expected, &found), None);
}
