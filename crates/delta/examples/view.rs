//! Loads a view of ROWS keys into a new table below FOLDER, changes CHANGED of them a step, and says what a step and
//! the index cost.
//!
//!     cargo run --release --workspace --example view -- FOLDER [ROWS] [CHANGED] [STEPS]
//!
//! Half of the changes are updates, a quarter inserts and a quarter deletes, of keys all over the table. Memory is
//! the process's (Linux).
#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use lakeward_delta::encode::WriterOptions;
use lakeward_delta::view::{ByKey, Change, Commit, Mode, Move, View, ViewOptions, new_table};
use lakeward_delta::{Checkpoints, Table, TableOptions, TableSchema, create};
use lakeward_protocol::position::{CommitId, Offset};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Runtime;

const SCHEMA: &str = r#"{"type":"struct","fields":[
    {"name":"id","type":"long","nullable":false},{"name":"count","type":"long"},
    {"name":"amount","type":"double"},{"name":"name","type":"string"}]}"#;

/// Rows of one commit of the load.
const LOAD_ROWS: i64 = 1_000_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    let mut number = |default: i64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (rows, changed, steps) = (number(10_000_000), number(10_000), number(10));
    let runtime = Runtime::new().expect("a runtime");
    let schema = TableSchema::parse("view", SCHEMA).expect("a schema");
    let table = new_table(Mode::Upsert, &schema, vec![]).expect("a table");
    let _ = create(&folder, &table, runtime.handle()).expect("a new table");
    let before = resident_mib();
    let mut view = open(&folder, &runtime);
    let mut at = 0;
    let start = Instant::now();
    for from in (0..rows).step_by(LOAD_ROWS as usize) {
        let keys: Vec<_> = (from..rows.min(from + LOAD_ROWS)).collect();
        step(&mut view, &mut at, &Change { inserts: vec![batch(&schema, &keys, 0)], ..Change::default() });
    }
    println!("load {rows} rows: {:.1} s, {} to {} MiB", start.elapsed().as_secs_f64(), before, resident_mib());
    drop(view);
    let (start, before) = (Instant::now(), resident_mib());
    let mut view = open(&folder, &runtime);
    println!(
        "open, {} keys read: {:.2} s, {before} to {} MiB",
        view.rows(),
        start.elapsed().as_secs_f64(),
        resident_mib()
    );
    let mut live: Vec<i64> = (0..rows).collect();
    let (mut next, mut random) = (rows, SmallRng::seed_from_u64(7));
    for _ in 0..steps {
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for each in 0..changed {
            let any = random.random_range(0..live.len() - gone.len());
            match each % 4 {
                0 => {
                    come.push(next);
                    next += 1;
                }
                1 => gone.push(live.swap_remove(any)),
                _ => {
                    let key = live.swap_remove(any);
                    gone.push(key);
                    come.push(key);
                }
            }
        }
        let change = Change {
            deletes: vec![batch(&schema, &gone, 0)],
            inserts: vec![batch(&schema, &come, at)],
            ..Change::default()
        };
        live.extend(&come);
        let start = Instant::now();
        step(&mut view, &mut at, &change);
        println!("step of {changed}: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    }
    assert_eq!(view.rows(), live.len());
}

fn open(folder: &str, runtime: &Runtime) -> View {
    let table = TableOptions {
        app_id: "view".to_owned(),
        topic: None,
        checkpoints: Checkpoints::AsTheTableSays,
        runtime: runtime.handle().clone(),
    };
    let table = Table::open(folder, table).expect("the table");
    let key = vec!["id".to_owned()];
    let options = ViewOptions {
        mode: Mode::Upsert,
        key,
        writer: WriterOptions::default(),
        compaction: None,
        by_key: ByKey::default(),
    };
    View::open(table, options).expect("a view")
}

fn step(view: &mut View, at: &mut i64, change: &Change) {
    let start = Instant::now();
    let staged = view.stage(change).expect("a change");
    let staged_ms = start.elapsed().as_secs_f64() * 1e3;
    let from = (*at > 0).then(|| Offset::new(*at).expect("an offset"));
    *at += 1;
    let moves = [Move { app_id: "view-0".to_owned(), from, to: Offset::new(*at).expect("an offset") }];
    let outcome = view.commit(CommitId(at.unsigned_abs().into()), &moves, Some(&staged)).expect("a commit");
    assert!(matches!(outcome, Commit::Done(_)), "{outcome:?}");
    println!("  staged in {staged_ms:.1} ms, committed in {:.1} ms", start.elapsed().as_secs_f64() * 1e3 - staged_ms);
}

fn batch(schema: &TableSchema, keys: &[i64], count: i64) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys.to_vec())),
        Arc::new(Int64Array::from_value(count, keys.len())),
        Arc::new(Float64Array::from_iter_values(keys.iter().map(|key| *key as f64 * 1.25))),
        Arc::new(StringArray::from_iter_values(keys.iter().map(|key| format!("customer-{key:08x}")))),
    ];
    RecordBatch::try_new(schema.arrow().clone(), columns).expect("columns of the schema")
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
}
