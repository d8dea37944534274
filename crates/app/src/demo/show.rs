//! What the demo prints at its end.

use std::path::Path;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use lakeward_delta::scan::Scan;
use lakeward_protocol::ports::Exit;

use crate::failure::Failure;
use crate::report::{grouped, table};
use crate::session::Session;
use crate::verify::{self, chain::Chains};

use super::Run;

const NEWEST: usize = 3;
const COLUMNS: [&str; 5] = ["kafka_offset", "kafka_partition", "method", "status", "url"];

/// Figures, the proof, and the newest rows.
///
/// # Errors
/// When the table can't be read.
pub fn result(folder: &Path, session: &Session, chains: &Chains, took: Duration, run: &Run) -> Result<(), Failure> {
    let (lost, twice) = verify::totals(chains);
    let rows: u64 = chains.chains.values().map(|chain| chain.rows).sum();
    let seconds = took.as_secs_f64();
    println!();
    println!("  rows      {} in {seconds:.1} s, most of it waiting for the group to notice the kills", grouped(rows));
    let build = if cfg!(debug_assertions) { " (a build for development; a release build is faster)" } else { "" };
    println!("  speed     {} rows a second at its fastest{build}", grouped(run.fastest as u64));
    println!("  commits   {}", grouped(chains.version));
    println!("  kills     {} survived", run.kills);
    println!("  lost      {}", grouped(lost.max(run.messages.saturating_sub(rows))));
    println!("  twice     {}", grouped(twice.max(rows.saturating_sub(run.messages))));
    println!();
    println!("The newest rows:");
    print!("{}", table(&COLUMNS, &newest(folder, session)?));
    Ok(())
}

fn newest(folder: &Path, session: &Session) -> Result<Vec<Vec<String>>, Failure> {
    let failed = |error: lakeward_delta::DeltaError| Failure::port(&error);
    let scan = Scan::open(&folder.display().to_string(), Some(&COLUMNS), session.runtime.handle()).map_err(failed)?;
    let mut newest: Vec<(i64, Vec<String>)> = Vec::new();
    for batch in scan {
        let batch = batch.map_err(failed)?;
        let offsets = batch
            .column(0)
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| Failure::new(Exit::Software, "kafka_offset is no long"))?;
        for row in 0..batch.num_rows() {
            if newest.len() == NEWEST && newest.iter().all(|(offset, _)| *offset >= offsets.value(row)) {
                continue;
            }
            newest.push((offsets.value(row), batch.columns().iter().map(|column| cell(column, row)).collect()));
            newest.sort_by_key(|(offset, _)| std::cmp::Reverse(*offset));
            newest.truncate(NEWEST);
        }
    }
    Ok(newest.into_iter().map(|(_, row)| row).collect())
}

fn cell(column: &arrow_array::ArrayRef, row: usize) -> String {
    use arrow_array::types::Int32Type;
    if let Some(text) = column.as_string_opt::<i32>() {
        return text.value(row).to_owned();
    }
    if let Some(number) = column.as_primitive_opt::<Int32Type>() {
        return number.value(row).to_string();
    }
    column.as_primitive_opt::<Int64Type>().map_or_else(|| "?".to_owned(), |number| number.value(row).to_string())
}

/// What to try with one's own broker, by the name that this program was started by.
pub fn next(folder: &Path) {
    let lakeward = std::env::args().next().unwrap_or_else(|| "lakeward".to_owned());
    println!();
    println!("Look at it, then try your own broker:");
    println!("  {lakeward} verify {}", folder.display());
    println!("  {lakeward} ingest TOPIC ./my_table -k HOST:9092 --create -l 10");
    println!("  {lakeward} status ./my_table -k HOST:9092");
}
