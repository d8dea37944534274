//! Random queries over random changes: after each step the view is what a batch engine answers over the tables.
//!
//! A case is one query after one step. `ORACLE_CASES` says how many (else the default run's number), `ORACLE_SEED` where
//! to start. DataFusion judges most of them, in this process; DuckDB a good share, what DataFusion is known to answer
//! wrongly (`judge.rs` says which), and wherever another answer differs. A fault is made small before it is shown, in
//! the form of a golden file.

mod answer;
mod expr;
mod judge;
mod kinds;
mod nexmark;
mod query;
mod tape;
mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lakeward_circuit::circuit::{Circuit, Options};

use self::answer::{Bag, add, same, shown};
use self::judge::{Answers, DuckDb};
use self::tape::{Tape, simpler};
use self::trial::{Contents, STEPS, Trial};
use crate::run;

/// Cases of a run that nobody says a number for.
const CASES: u64 = 20_000;
/// Faults that are shown before a run gives up.
const SHOWN: usize = 5;
/// Simpler forms of a fault that are tried.
const SHRINKS: usize = 250;
/// Threads, each with a judge of its own.
const THREADS: usize = 2;

/// What a run saw.
#[derive(Debug, Default)]
struct Seen {
    cases: u64,
    by_datafusion: u64,
    by_duckdb: u64,
    by_none: u64,
    /// Steps after which the judges disagreed; DuckDB's answer stood.
    disagreed: u64,
    failed: u64,
    refused: BTreeMap<String, u64>,
    unjudged: BTreeMap<String, u64>,
    disagreements: Vec<String>,
    faults: Vec<String>,
}

/// A query that went wrong, and after which step.
struct Fault {
    step: usize,
    expected: String,
    got: String,
}

#[test]
fn incremental_answers_are_the_batch_answers() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let cases = number("ORACLE_CASES").unwrap_or(CASES);
    let first = number("ORACLE_SEED").unwrap_or(1);
    let (next, counted) = (AtomicU64::new(first), AtomicU64::new(0));
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let work = || worker(&next, &counted, cases);
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker")).collect()
    });
    let seen = seen.into_iter().reduce(Seen::plus).expect("a worker");
    let refused: u64 = seen.refused.values().sum();
    println!(
        "oracle: {} cases from seed {first}: {} judged by DataFusion, {} by DuckDB, {} by neither; \
         {} queries refused, {} steps with failing rows, {} times the judges disagreed",
        seen.cases, seen.by_datafusion, seen.by_duckdb, seen.by_none, refused, seen.failed, seen.disagreed
    );
    for (kind, reasons) in [("refused", &seen.refused), ("not judged", &seen.unjudged)] {
        reasons.iter().for_each(|(reason, times)| println!("  {kind} {times} times: {reason}"));
    }
    seen.disagreements.iter().take(SHOWN).for_each(|text| println!("{text}"));
    assert!(seen.faults.is_empty(), "{} faults:\n{}", seen.faults.len(), seen.faults.join("\n\n"));
    let queries = cases / STEPS as u64;
    assert!(refused <= queries / 4, "{refused} queries were refused: the cases would show little");
    assert!(seen.by_none <= seen.cases / 20, "{} cases had no judge", seen.by_none);
}

fn worker(next: &AtomicU64, counted: &AtomicU64, cases: u64) -> Seen {
    let (mut seen, mut duckdb) = (Seen::default(), DuckDb::start());
    while counted.load(Ordering::Relaxed) < cases && seen.faults.len() < SHOWN {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let (mut shape, mut stream) = (Tape::random(seed), Tape::random(!seed));
        let trial = trial::make(&mut shape, &mut stream);
        let before = seen.cases;
        if let Some(fault) = examine(&trial, seed, &mut duckdb, &mut seen) {
            println!("ORACLE_SEED={seed} is a fault; making it small");
            let (trial, fault) =
                shrunk(shape.made().to_vec(), stream.made().to_vec(), seed, &mut duckdb).unwrap_or((trial, fault));
            let text = format!(
                "ORACLE_SEED={seed} (workers {}, cut {}): after step {}\nexpected {}\ngot      {}\n{}",
                trial.workers,
                trial.cut,
                fault.step + 1,
                fault.expected,
                fault.got,
                trial.text()
            );
            println!("{text}");
            seen.faults.push(text);
        }
        counted.fetch_add(seen.cases - before, Ordering::Relaxed);
    }
    seen
}

/// The simplest fault that is found in parts of the choices.
fn shrunk(shape: Vec<u32>, stream: Vec<u32>, seed: u64, duckdb: &mut DuckDb) -> Option<(Trial, Fault)> {
    let (mut tapes, mut best, mut tries) = ([stream, shape], None, 0);
    let mut smaller = true;
    while smaller && tries < SHRINKS {
        smaller = false;
        for which in [0, 1] {
            for tape in simpler(&tapes[which]) {
                let mut tried = tapes.clone();
                tried[which] = tape;
                let [stream, shape] = tried.clone();
                let trial = trial::make(&mut Tape::written(shape), &mut Tape::written(stream));
                tries += 1;
                if let Some(fault) = examine(&trial, seed, duckdb, &mut Seen::default()) {
                    (tapes, best, smaller) = (tried, Some((trial, fault)), true);
                    break;
                }
                if tries >= SHRINKS {
                    break;
                }
            }
        }
    }
    best
}

/// Runs a query, and compares it after each step. A panic is a fault like any.
fn examine(trial: &Trial, seed: u64, duckdb: &mut DuckDb, seen: &mut Seen) -> Option<Fault> {
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| examined(trial, seed, duckdb, seen)));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let got = format!("a panic: {}", text.unwrap_or_default());
        Some(Fault { step: 0, expected: "an answer".to_owned(), got })
    })
}

fn examined(trial: &Trial, seed: u64, duckdb: &mut DuckDb, seen: &mut Seen) -> Option<Fault> {
    let case = trial.case();
    let relations = run::relations(&case).expect("tables");
    let plan = match run::plan(&case, &relations) {
        Ok(plan) => Arc::new(plan),
        Err(refused) => {
            let reason = refused.what.split(':').next_back().unwrap_or_default().trim().to_owned();
            let known = seen.refused.entry(reason).or_default();
            *known += 1;
            return None;
        }
    };
    let contents = contents(trial);
    let incremental = incremental(trial, &relations, &plan);
    let alone = judge::datafusion_is_wrong(trial);
    let first = if alone { None } else { Some(judge::datafusion(trial, &relations, &contents)) };
    let asked = alone || seed.is_multiple_of(3) || first.as_ref().is_some_and(|first| differ(&incremental, first));
    let second = asked.then(|| duckdb.answers(trial, &contents));
    compared(trial, &incremental, first.as_ref(), second.as_ref(), seen)
}

/// Whether an answer differs from a judge's, or the judge has none.
fn differ(incremental: &Incremental, judge: &Answers) -> bool {
    incremental.answers.iter().zip(judge).any(|(own, judge)| match (own, judge) {
        (Ok(own), Ok(judge)) => !same(own, judge),
        _ => true,
    })
}

fn compared(
    trial: &Trial,
    incremental: &Incremental,
    first: Option<&Answers>,
    second: Option<&Answers>,
    seen: &mut Seen,
) -> Option<Fault> {
    for (step, own) in incremental.answers.iter().enumerate() {
        let first = first.map(|answers| &answers[step]);
        let second = second.map(|answers| &answers[step]);
        seen.cases += 1;
        let own = match own {
            Ok(own) => own,
            Err(why) => return Some(Fault { step, expected: "an answer".to_owned(), got: why.clone() }),
        };
        if incremental.failing[step] {
            seen.failed += 1;
            continue;
        }
        seen.by_datafusion += u64::from(matches!(first, Some(Ok(_))));
        seen.by_duckdb += u64::from(matches!(second, Some(Ok(_))));
        if let (Some(Ok(one)), Some(Ok(two))) = (first, second)
            && !same(one, two)
        {
            seen.disagreed += 1;
            let text = trial.text();
            if !seen.disagreements.iter().any(|known| known.ends_with(&text)) {
                seen.disagreements.push(format!("DataFusion: {}\nDuckDB:     {}\n{text}", shown(one), shown(two)));
            }
        }
        let expected = match (first, second) {
            (_, Some(Ok(judge))) | (Some(Ok(judge)), _) => judge,
            (_, Some(Err(why))) | (Some(Err(why)), _) => {
                seen.by_none += 1;
                let why = why.lines().next().unwrap_or_default();
                *seen.unjudged.entry(why.chars().take(100).collect()).or_default() += 1;
                continue;
            }
            (None, None) => unreachable!("a judge is asked"),
        };
        if !same(own, expected) {
            return Some(Fault { step, expected: shown(expected), got: shown(own) });
        }
    }
    None
}

/// What the tables hold after each step.
fn contents(trial: &Trial) -> Vec<Contents> {
    let mut contents = Contents::default();
    let step = |events: &Vec<crate::case::Event>| {
        events.iter().for_each(|event| contents.take(event));
        contents.clone()
    };
    trial.steps.iter().map(step).collect()
}

/// The engine's view after each step, and whether it names rows that fail.
struct Incremental {
    answers: Vec<Result<Bag, String>>,
    failing: Vec<bool>,
}

fn incremental(
    trial: &Trial,
    relations: &[lakeward_circuit::plan::Relation],
    plan: &Arc<lakeward_circuit::plan::Plan>,
) -> Incremental {
    let options = Options { workers: trial.workers, memory_mb: 64 };
    let mut seen = Incremental { answers: Vec::new(), failing: Vec::new() };
    let mut circuit = match Circuit::start(plan, &options, None) {
        Ok(circuit) => circuit,
        Err(error) => {
            seen.answers.push(Err(error.to_string()));
            return seen;
        }
    };
    let (mut bag, mut failing) = (Bag::new(), BTreeMap::<String, i64>::new());
    for events in &trial.steps {
        let single = trial.cut && !events.is_empty();
        for events in events.chunks(if single { 1 } else { events.len().max(1) }) {
            for (at, relation) in relations.iter().enumerate() {
                let own: Vec<_> = events.iter().filter(|event| event.table == relation.name).collect();
                if !own.is_empty() {
                    circuit.push(at, run::part(relation, &own).expect("rows of the table"));
                }
            }
            match circuit.step() {
                Ok(stepped) => {
                    let view = stepped.views.last().expect("a view");
                    add(&mut bag, &view.batch, |row| view.weights.value(row));
                    for failure in stepped.failures {
                        *failing
                            .entry(format!("{} {} {}", failure.operator, failure.reason, failure.row))
                            .or_default() += failure.weight;
                    }
                    failing.retain(|_, weight| *weight != 0);
                }
                Err(error) => {
                    seen.answers.push(Err(error.to_string()));
                    return seen;
                }
            }
        }
        if events.is_empty() {
            circuit.step().expect("an empty step");
        }
        let negative = bag.iter().find(|(_, copies)| **copies < 0);
        let answer =
            negative.map_or_else(|| Ok(bag.clone()), |(row, copies)| Err(format!("{copies} copies of {row:?}")));
        seen.answers.push(answer);
        seen.failing.push(!failing.is_empty());
    }
    if let Err(error) = circuit.stop() {
        seen.answers.push(Err(error.to_string()));
    }
    seen
}

impl Seen {
    fn plus(mut self, other: Self) -> Self {
        self.cases += other.cases;
        self.by_datafusion += other.by_datafusion;
        self.by_duckdb += other.by_duckdb;
        self.by_none += other.by_none;
        self.disagreed += other.disagreed;
        self.failed += other.failed;
        for (mine, theirs) in [(&mut self.refused, other.refused), (&mut self.unjudged, other.unjudged)] {
            theirs.into_iter().for_each(|(reason, times)| *mine.entry(reason).or_default() += times);
        }
        self.disagreements.extend(other.disagreements);
        self.faults.extend(other.faults);
        self
    }
}
