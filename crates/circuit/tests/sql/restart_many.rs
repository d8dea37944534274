//! Every kind of state at once, carried over to other numbers of workers in the middle of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use lakeward_circuit::circuit::{Circuit, Stepped};
use lakeward_circuit::plan::{Plan, Relation};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::case::{Case, Event};
use crate::restart::{self, options, restore, save};
use crate::run;

/// One view for each kind of state that an operator keeps.
const MIXED: &[(&str, &str)] = &[
    ("outer", "select t.k, t.g, t.v, u.v uv from t left join u on t.k = u.k"),
    ("conditional", "select t.k, t.v, u.v uv from t full join u on t.k = u.k and t.v < u.v"),
    ("semi", "select k, v from t where k in (select k from u)"),
    ("grouped", "select g, count(*) n, sum(v) s, avg(v) a, min(v) lo, count(distinct v) d from t group by g"),
    ("whole", "select count(*) n, max(v) hi from t"),
    ("once", "select distinct v from t"),
    (
        "first",
        "select g, v, rn from (select g, v, row_number() over(partition by g order by v desc) rn from t) z where rn <= 3",
    ),
    ("literal", "select 1 a"),
];

/// A case of these tables and views, without steps.
pub fn pipeline(tables: &[&str], views: &[(&str, &str)]) -> (Vec<Relation>, Arc<Plan>) {
    let views = views.iter().map(|(name, query)| ((*name).to_owned(), (*query).to_owned())).collect();
    let case = Case { tables: tables.iter().map(|table| (*table).to_owned()).collect(), views, ..Case::default() };
    let relations: Vec<Relation> = case.tables.iter().map(|table| run::relation(table).unwrap()).collect();
    let plan = run::plan(&case, &relations).unwrap();
    (relations, Arc::new(plan))
}

pub fn mixed() -> (Vec<Relation>, Arc<Plan>) {
    pipeline(&["create table t (k int, g int, v int)", "create table u (k int primary key, v int)"], MIXED)
}

pub fn event(kind: char, table: &str, values: &[i64]) -> Event {
    Event { kind, table: table.to_owned(), values: values.iter().map(|value| Some(value.to_string())).collect() }
}

/// Rows that come and go, of `step` alone.
pub fn mixed_events(step: u64, rows: usize) -> Vec<Event> {
    let row =
        |chance: &mut StdRng| [chance.random_range(0..200), chance.random_range(0..7), chance.random_range(-50..50)];
    let rows_of = |step: u64| {
        let mut chance = StdRng::seed_from_u64(step);
        (0..rows).map(|_| row(&mut chance)).collect::<Vec<_>>()
    };
    let mut events: Vec<Event> = rows_of(step).iter().map(|row| event('+', "t", row)).collect();
    if step > 0 {
        events.extend(rows_of(step - 1).iter().step_by(3).map(|row| event('-', "t", row)));
    }
    let mut chance = StdRng::seed_from_u64(1_000 + step);
    for _ in 0..rows / 4 {
        let (key, value) = (chance.random_range(0..150), chance.random_range(-50..50));
        events.push(if chance.random_range(0..5) == 0 {
            event('~', "u", &[key])
        } else {
            event('^', "u", &[key, value])
        });
    }
    events
}

pub fn step(circuit: &mut Circuit, relations: &[Relation], events: &[Event]) -> Result<Stepped, String> {
    run::push(circuit, relations, events)?;
    circuit.step().map_err(|error| error.to_string())
}

/// The first view that two circuits tell differently of.
pub fn differing(expected: &Stepped, found: &Stepped) -> Option<usize> {
    let mut views = expected.views.iter().zip(&found.views);
    views.position(|(left, right)| left.batch != right.batch || left.weights != right.weights)
}

#[test]
fn every_kind_of_state_goes_on_with_other_workers() {
    let (relations, plan) = mixed();
    let folder = restart::folder().unwrap();
    let mut through = Circuit::start(&plan, &options(1), None).unwrap();
    let mut circuit = Circuit::start(&plan, &options(4), Some(folder.path())).unwrap();
    for (number, workers) in [2, 2, 3, 1, 2, 5, 3, 8, 3].into_iter().enumerate() {
        let events = mixed_events(number as u64, 300);
        let expected = step(&mut through, &relations, &events).unwrap();
        let found = step(&mut circuit, &relations, &events).unwrap();
        let view = differing(&expected, &found).map(|at| MIXED[at].0);
        assert_eq!(view, None, "step {number}, before {workers} workers:\n{}", plan.text());
        let manifest = save(&mut circuit).unwrap();
        circuit.stop().unwrap();
        circuit = restore(&plan, &options(workers), folder.path(), &manifest).unwrap();
    }
}

/// feldera#6753, #6755 (S44): keyed inputs and joins that hash to different widths.
#[test]
fn keyed_inputs_and_joins_agree_on_the_worker_of_a_key() {
    let tables = ["create table u (k int primary key, v int)", "create table w (k int primary key, x int)"];
    let (relations, plan) = pipeline(&tables, &[("j", "select u.k, u.v, w.x from u join w on u.k = w.k")]);
    let all = |table: &str, value: &dyn Fn(i64) -> i64| -> Vec<Event> {
        (0..1_000).map(|key| event('^', table, &[key, value(key)])).collect()
    };
    let steps = [all("u", &|_| 1), all("w", &|key| key), all("u", &|_| 2), all("w", &|key| key)];
    for workers in [[1, 1], [2, 2], [3, 3], [5, 5], [6, 6], [7, 7], [8, 3], [3, 7]] {
        let folder = restart::folder().unwrap();
        let mut circuit = Circuit::start(&plan, &options(workers[0]), Some(folder.path())).unwrap();
        let mut rows: BTreeMap<(i32, i32, i32), i64> = BTreeMap::new();
        for (number, events) in steps.iter().enumerate() {
            let stepped = step(&mut circuit, &relations, events).unwrap();
            let view = &stepped.views[0];
            let column = |at: usize| {
                arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Int32Type>(view.batch.column(at))
            };
            for row in 0..view.batch.num_rows() {
                let key = (column(0).value(row), column(1).value(row), column(2).value(row));
                *rows.entry(key).or_default() += view.weights.value(row);
            }
            rows.retain(|_, copies| *copies != 0);
            if number == 1 {
                let manifest = save(&mut circuit).unwrap();
                circuit.stop().unwrap();
                circuit = restore(&plan, &options(workers[1]), folder.path(), &manifest).unwrap();
            }
        }
        let sum: i64 = rows.iter().map(|((_, _, x), copies)| i64::from(*x) * copies).sum();
        assert_eq!((rows.len(), sum), (1_000, 499_500), "{workers:?} workers");
        assert!(rows.keys().all(|(_, v, _)| *v == 2), "{workers:?} workers: an old row is left");
    }
}
