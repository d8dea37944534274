//! Runs a case with its circuit ended and taken up again between the steps, and what must never be taken up.

use std::path::Path;
use std::sync::Arc;

use lakeward_circuit::circuit::{Circuit, Options, Restored};
use lakeward_circuit::plan::{Plan, Relation};

use crate::case::Case;
use crate::run::{self, Cut, Seen};

/// The numbers of workers that every circuit has one after the other, over and over.
const WORKERS: &[usize] = &[1, 2, 3];
/// And one of these in turn, with the steps cut as written or anew.
const OTHERS: &[(&[usize], Cut)] =
    &[(&[1], Cut::AsWritten), (&[2, 3], Cut::EachEvent), (&[4, 2], Cut::AsWritten), (&[8, 3], Cut::AsWritten)];

/// Each step in a circuit of its own, and each step a second time in another.
pub fn every_way(case: &Case) -> Result<(), String> {
    if case.refused.is_some() {
        return Ok(());
    }
    let relations = run::relations(case)?;
    let plan = Arc::new(run::plan(case, &relations).map_err(|refused| refused.to_string())?);
    let turn: usize = case.views.iter().map(|(_, query)| query.len()).sum();
    for (workers, cut) in [(WORKERS, Cut::AsWritten), OTHERS[turn % OTHERS.len()]] {
        run(case, &relations, &plan, workers, cut)
            .map_err(|why| format!("restarted with {workers:?} workers, {cut:?}: {why}\n{}", plan.text()))?;
    }
    Ok(())
}

fn run(case: &Case, relations: &[Relation], plan: &Arc<Plan>, workers: &[usize], cut: Cut) -> Result<(), String> {
    let folder = folder().map_err(|error| error.to_string())?;
    let mut workers = workers.iter().cycle();
    let mut options = || options(*workers.next().expect("a cycle"));
    let mut circuit = Circuit::start(plan, &options(), Some(folder.path())).map_err(|error| error.to_string())?;
    let mut manifest = save(&mut circuit)?;
    let mut seen = Seen::default();
    for (number, (events, expected)) in run::steps(case, cut).iter().enumerate() {
        // Once to be lost, after the state that counts was saved, and once for good.
        for is_lost in [true, false] {
            let mut reader = seen.clone();
            run::push(&mut circuit, relations, events)?;
            let stepped = circuit.step().map_err(|error| error.to_string())?;
            reader.take(stepped.views.last().ok_or("no view")?, &stepped.failures)?;
            if let Some(expected) = expected {
                reader.check(expected).map_err(|why| format!("step {}, lost: {is_lost}: {why}", number + 1))?;
            }
            let later = save(&mut circuit)?;
            drop(circuit);
            if !is_lost {
                (seen, manifest) = (reader, later);
            }
            circuit = restore(plan, &options(), folder.path(), &manifest)?;
        }
        circuit.remove_states(&[&manifest]).map_err(|error| error.to_string())?;
    }
    circuit.stop().map_err(|error| error.to_string())
}

/// A folder in memory, where the machine has one: a state's files are synced at each save, and here nothing is gained.
pub fn folder() -> std::io::Result<tempfile::TempDir> {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir())
}

pub fn options(workers: usize) -> Options {
    Options { workers, memory_mb: 256 }
}

pub fn save(circuit: &mut Circuit) -> Result<Vec<u8>, String> {
    circuit.prepare().and_then(|pending| pending.finish()).map_err(|error| error.to_string())
}

pub fn restore(plan: &Arc<Plan>, options: &Options, folder: &Path, manifest: &[u8]) -> Result<Circuit, String> {
    match Circuit::restore(plan, options, folder, manifest).map_err(|error| error.to_string())? {
        Restored::Done(circuit) => Ok(*circuit),
        Restored::Missing { what } => Err(format!("missing: {what}")),
    }
}
