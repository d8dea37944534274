//! Measures a circuit's state: how long a save stops it, how long a restore and a resharding take, how much memory it
//! needs. `state FOLDER ROWS MEMORY_MB WORKERS` makes the state; run it again and it is restored.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use lakeward_circuit::circuit::{Circuit, Options, Restored};
use lakeward_circuit::delta::{Part, batch, loose_schema};
use lakeward_circuit::logical::Queries;
use lakeward_circuit::plan::{Changes, Plan, Planner, Relation};

/// Rows of a step.
const STEP_ROWS: i64 = 100_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, rows, memory_mb, workers] = arguments.as_slice() else {
        return Err("usage: state FOLDER ROWS MEMORY_MB WORKERS".into());
    };
    let (folder, rows) = (Path::new(folder), rows.parse::<i64>()?);
    let options = Options { workers: workers.parse()?, memory_mb: memory_mb.parse()? };
    let schema: SchemaRef =
        Arc::new(Schema::new(["k", "g", "v"].map(|name| Field::new(name, DataType::Int64, true)).to_vec()));
    let plan = Arc::new(plan(&schema)?);
    let named = folder.join("manifest");
    let mut circuit = if named.exists() {
        let from = now();
        let restored = Circuit::restore(&plan, &options, &folder.join("state"), &std::fs::read(&named)?)?;
        let Restored::Done(circuit) = restored else { return Err(format!("{restored:?}").into()) };
        println!("restored with {} workers in {} ms", options.workers, from.elapsed().as_millis());
        *circuit
    } else {
        std::fs::create_dir_all(folder)?;
        let mut circuit = Circuit::start(&plan, &options, Some(&folder.join("state")))?;
        let from = now();
        for first in (0..rows).step_by(STEP_ROWS as usize) {
            circuit.push(0, part(&schema, first, STEP_ROWS));
            circuit.step()?;
        }
        let seconds = from.elapsed().as_secs_f64();
        println!("{rows} rows in {seconds:.1} s, at most {} MiB of memory", peak_mib()?);
        circuit
    };
    let from = now();
    circuit.push(0, part(&schema, rows, 1_000));
    let stepped = circuit.step()?;
    let changed: usize = stepped.views.iter().map(|view| view.weights.len()).sum();
    println!("a step of 1000 rows in {} ms, {changed} rows of views", from.elapsed().as_millis());
    for _ in 0..2 {
        let from = now();
        let pending = circuit.prepare()?;
        let stopped = from.elapsed().as_millis();
        let manifest = pending.finish()?;
        println!("a save stops the circuit for {stopped} ms, is durable after {} ms", from.elapsed().as_millis());
        std::fs::write(&named, manifest)?;
        circuit.remove_states(&[])?;
    }
    println!("at most {} MiB of memory", peak_mib()?);
    circuit.stop()?;
    Ok(())
}

/// Every row by its key, and a sum for each of them.
fn plan(schema: &SchemaRef) -> Outcome<Plan> {
    let (mut queries, mut planner) = (Queries::default(), Planner::default());
    queries.table("t", schema.clone()).map_err(|refused| refused.to_string())?;
    planner.source(Relation { name: "t".to_owned(), schema: schema.clone(), changes: Changes::Keyed(vec![0]) });
    let query = queries.plan_text("select g, sum(v) s from t group by g").map_err(|refused| refused.to_string())?;
    planner.view("sums", &query).map_err(|refused| refused.to_string())?;
    Ok(planner.finish())
}

/// Rows whose keys are spread over all of them.
fn part(schema: &SchemaRef, first: i64, rows: i64) -> Part {
    let keys: Vec<i64> = (first..first + rows).map(|row| row.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)).collect();
    let groups = keys.iter().map(|key| key >> 4);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys.clone())),
        Arc::new(groups.collect::<Int64Array>()),
        Arc::new((first..first + rows).collect::<Int64Array>()),
    ];
    let schema = loose_schema(schema.fields().iter().map(|field| (field.name().as_str(), field.data_type())));
    Part::inserts(batch(&schema, columns, rows as usize))
}

#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn now() -> Instant {
    Instant::now()
}

/// The most memory that this process had, in MiB.
fn peak_mib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(peak.trim().trim_end_matches(" kB").parse::<u64>()? / 1_024)
}
