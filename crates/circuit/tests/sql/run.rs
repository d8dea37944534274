//! Runs a case in every way that must not matter.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::{SessionConfig, SessionContext};
use lakeward_circuit::circuit::{Circuit, Options};
use lakeward_circuit::delta::Part;
use lakeward_circuit::failure::Failure;
use lakeward_circuit::logical::Queries;
use lakeward_circuit::plan::{Changes, Plan, Planner, Relation};
use lakeward_circuit::refused::Refused;
use lakeward_circuit::stateless::Stateless;

use crate::case::{Case, Event, Expected, shown};

/// How the case's steps are cut anew.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    AsWritten,
    OneStep,
    EachEvent,
}

pub fn every_way(case: &Case) -> Result<(), String> {
    let relations = relations(case)?;
    let plan = match (plan(case, &relations), &case.refused) {
        (Err(refused), Some(expected)) if refused.to_string().contains(expected.as_str()) => return Ok(()),
        (Err(refused), _) => return Err(format!("refused: {refused}")),
        (Ok(_), Some(expected)) => return Err(format!("not refused: {expected}")),
        (Ok(plan), None) => Arc::new(plan),
    };
    for workers in [1, 2, 3] {
        for cut in [Cut::AsWritten, Cut::OneStep, Cut::EachEvent] {
            run(case, &relations, &plan, workers, cut)
                .map_err(|why| format!("{workers} workers, {cut:?}: {why}\n{}", plan.text()))?;
        }
    }
    Ok(())
}

pub fn plan(case: &Case, relations: &[Relation]) -> Result<Plan, Refused> {
    let (mut queries, mut planner) = (Queries::default(), Planner::default());
    for relation in relations {
        queries.table(&relation.name, relation.schema.clone())?;
        planner.source(relation.clone());
    }
    for (name, query) in &case.views {
        let plan = queries.plan_text(query)?;
        planner.view(name, &plan)?;
        queries.table(name, Arc::new(plan.schema().as_arrow().clone()))?;
    }
    Ok(planner.finish())
}

/// The relations of a case.
pub fn relations(case: &Case) -> Result<Vec<Relation>, String> {
    let mut relations = case.tables.iter().map(|table| relation(table)).collect::<Result<Vec<_>, _>>()?;
    relations.iter_mut().filter(|relation| case.grows && grows(case, relation)).for_each(|relation| {
        relation.changes = Changes::Grows;
    });
    Ok(relations)
}

/// Whether no row is ever taken from a relation, or replaced.
pub fn grows(case: &Case, relation: &Relation) -> bool {
    let mut events = case.steps.iter().flat_map(|(events, _)| events);
    relation.changes == Changes::Bag && events.all(|event| event.table != relation.name || event.kind == '+')
}

/// A relation by its `CREATE TABLE`, with a key if it has a primary one.
pub fn relation(table: &str) -> Result<Relation, String> {
    let config = SessionConfig::new().set_bool("datafusion.sql_parser.map_string_types_to_utf8view", false);
    let context = SessionContext::new_with_config(config);
    let table = table.replace("timestamptz", "timestamp(6) with time zone").replace("timestamp)", "timestamp(6))");
    let plan = futures::executor::block_on(context.state().create_logical_plan(&table)).map_err(|e| e.to_string())?;
    let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else { return Err("no table".to_owned()) };
    let zoned = table.contains("with time zone");
    let fields = create.input.schema().fields().iter().map(|field| match field.data_type() {
        DataType::Timestamp(unit, _) if zoned => {
            Field::new(field.name(), DataType::Timestamp(*unit, Some("UTC".into())), true)
        }
        other => Field::new(field.name(), other.clone(), true),
    });
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let key = create.constraints.iter().find_map(|constraint| match constraint {
        datafusion::common::Constraint::PrimaryKey(places) => Some(places.clone()),
        datafusion::common::Constraint::Unique(_) => None,
    });
    let changes = key.map_or(Changes::Bag, Changes::Keyed);
    Ok(Relation { name: create.name.table().to_owned(), schema, changes })
}

fn run(case: &Case, relations: &[Relation], plan: &Arc<Plan>, workers: usize, cut: Cut) -> Result<(), String> {
    let options = Options { workers, memory_mb: 64 };
    let mut circuit = Circuit::start(plan, &options, None).map_err(|error| error.to_string())?;
    let mut seen = Seen::default();
    for (number, (events, expected)) in steps(case, cut).iter().enumerate() {
        push(&mut circuit, relations, events)?;
        let stepped = circuit.step().map_err(|error| error.to_string())?;
        let view = stepped.views.last().ok_or("no view")?;
        seen.take(view, &stepped.failures)?;
        if let Some(expected) = expected {
            seen.check(expected).map_err(|why| format!("step {}: {why}", number + 1))?;
        }
    }
    circuit.stop().map_err(|error| error.to_string())
}

/// The same without a circuit, where the view keeps nothing; whether it does.
pub fn without_a_circuit(case: &Case) -> Result<bool, String> {
    let relations = relations(case)?;
    let Ok(plan) = plan(case, &relations) else { return Ok(false) };
    let plan = Arc::new(plan);
    let Ok(view) = Stateless::new(&plan, plan.views.len() - 1) else { return Ok(false) };
    for cut in [Cut::AsWritten, Cut::OneStep, Cut::EachEvent] {
        let mut seen = Seen::default();
        for (number, (events, expected)) in steps(case, cut).iter().enumerate() {
            for (at, relation) in relations.iter().enumerate() {
                let own: Vec<&Event> = events.iter().filter(|event| event.table == relation.name).collect();
                let applied = view.apply(at, part(relation, &own)?);
                seen.note(&applied.failures);
                applied.view.0.iter().for_each(|part| seen.add(part));
            }
            if let Some(expected) = expected {
                seen.check(expected).map_err(|why| format!("{cut:?}, step {}: {why}\n{}", number + 1, plan.text()))?;
            }
        }
    }
    Ok(true)
}

/// The case's steps, cut anew.
pub fn steps(case: &Case, cut: Cut) -> Vec<(Vec<Event>, Option<Expected>)> {
    match cut {
        Cut::OneStep => {
            let all = case.steps.iter().flat_map(|(events, _)| events.clone()).collect();
            vec![(all, case.steps.last().and_then(|(_, expected)| expected.clone()))]
        }
        Cut::AsWritten => case.steps.clone(),
        Cut::EachEvent => case
            .steps
            .iter()
            .flat_map(|(events, expected)| {
                let mut steps: Vec<_> = events.iter().map(|event| (vec![event.clone()], None)).collect();
                if steps.is_empty() {
                    steps.push((vec![], None));
                }
                steps.last_mut().unwrap().1.clone_from(expected);
                steps
            })
            .collect(),
    }
}

/// Gives the next step its events.
pub fn push(circuit: &mut Circuit, relations: &[Relation], events: &[Event]) -> Result<(), String> {
    for (at, relation) in relations.iter().enumerate() {
        let own: Vec<&Event> = events.iter().filter(|event| event.table == relation.name).collect();
        if !own.is_empty() {
            circuit.push(at, part(relation, &own)?);
        }
    }
    if let Some(lost) = events.iter().find(|event| relations.iter().all(|relation| relation.name != event.table)) {
        return Err(format!("no table {}", lost.table));
    }
    Ok(())
}

/// What a reader of the view has seen so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    rows: BTreeMap<String, i64>,
    failures: BTreeMap<String, i64>,
}

impl Seen {
    pub fn take(&mut self, view: &Part, failures: &[Failure]) -> Result<(), String> {
        self.add(view);
        self.note(failures);
        match self.rows.iter().find(|(_, copies)| **copies < 0) {
            Some((row, copies)) => Err(format!("{copies} copies of {row}")),
            None => Ok(()),
        }
    }

    fn add(&mut self, view: &Part) {
        for (row, text) in texts(&view.batch).into_iter().enumerate() {
            *self.rows.entry(text).or_default() += view.weights.value(row);
        }
        self.rows.retain(|_, copies| *copies != 0);
    }

    fn note(&mut self, failures: &[Failure]) {
        for failure in failures {
            *self.failures.entry(format!("{}: {}", failure.reason, failure.row)).or_default() += failure.weight;
        }
        self.failures.retain(|_, copies| *copies != 0);
    }

    pub fn check(&self, expected: &Expected) -> Result<(), String> {
        let rows = self.rows.iter().flat_map(|(row, copies)| std::iter::repeat_n(row.clone(), *copies as usize));
        let rows: Vec<String> = rows.collect();
        if rows != expected.rows {
            return Err(format!("expected {:?}, got {rows:?} (failures: {:?})", expected.rows, self.failures));
        }
        for error in &expected.errors {
            if !self.failures.keys().any(|failure| failure.contains(error.as_str())) {
                return Err(format!("expected the failure {error}, got {:?}", self.failures));
            }
        }
        if expected.errors.is_empty() && !self.failures.is_empty() {
            return Err(format!("expected no failure, got {:?}", self.failures));
        }
        Ok(())
    }
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL").with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    (0..batch.num_rows())
        .map(|row| {
            let values: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            shown(values.iter().map(|value| Some(value.as_str())))
        })
        .collect()
}

/// Events of one table as a change.
pub fn part(relation: &Relation, events: &[&Event]) -> Result<Part, String> {
    let columns = relation.schema.fields().iter().enumerate().map(|(at, field)| {
        let texts: StringArray = events.iter().map(|event| event.values.get(at).cloned().flatten()).collect();
        let texts: ArrayRef = Arc::new(texts);
        cast(&texts, field.data_type()).map_err(|error| error.to_string())
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let weights = events.iter().map(|event| if "+^".contains(event.kind) { 1 } else { -1 }).collect::<Vec<i64>>();
    let fields = relation.schema.fields().iter().map(|field| (field.name().as_str(), field.data_type()));
    let schema = lakeward_circuit::delta::loose_schema(fields);
    let batch = lakeward_circuit::delta::batch(&schema, columns, events.len());
    Ok(Part { batch, weights: weights.into() })
}
