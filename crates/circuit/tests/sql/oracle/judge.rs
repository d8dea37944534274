//! Answers over the whole contents of the tables: DataFusion's in this process, DuckDB's in one beside it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use datafusion::datasource::MemTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use lakeward_circuit::plan::Relation;

use super::answer::{Bag, add, foreign};
use super::trial::{Contents, Trial, Values};
use crate::case::Event;
use crate::run::part;

/// An answer for each step, or why there is none.
pub type Answers = Vec<Result<Bag, String>>;

/// Shapes that DataFusion answers wrongly, by a part of the query's text, and the golden case that shows it.
const WRONG: [(&str, &str); 1] = [("NOT IN (SELECT", "s17, s18, s19")];

/// Whether DataFusion's own answer says nothing. It tells the zeros apart (s31) and knows few times (s49), which are
/// the wild values.
pub fn datafusion_is_wrong(trial: &Trial) -> bool {
    trial.wild || trial.views.iter().any(|(_, sql)| WRONG.iter().any(|(shape, _)| sql.contains(shape)))
}

/// DataFusion's answers: its own optimizer, planned once, over tables whose rows are replaced before each step.
pub fn datafusion(trial: &Trial, relations: &[Relation], contents: &[Contents]) -> Answers {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let config = SessionConfig::new().with_target_partitions(1);
        let context = SessionContext::new_with_config(config);
        let planned = planned(&context, trial, relations).await;
        let (plan, tables) = match planned {
            Ok(planned) => planned,
            Err(error) => return contents.iter().map(|_| Err(error.to_string())).collect(),
        };
        let mut answers = Vec::with_capacity(contents.len());
        for contents in contents {
            for (table, relation) in tables.iter().zip(relations) {
                let rows: &[Values] = contents.0.get(&relation.name).map_or(&[], Vec::as_slice);
                let events: Vec<Event> = rows.iter().map(|row| inserted(&relation.name, row)).collect();
                let part = part(relation, &events.iter().collect::<Vec<_>>()).expect("rows of the table");
                *table.batches[0].write().await = vec![part.batch];
            }
            answers.push(answered(&context, &plan).await.map_err(|error| error.to_string()));
        }
        answers
    })
}

async fn planned(
    context: &SessionContext,
    trial: &Trial,
    relations: &[Relation],
) -> datafusion::error::Result<(LogicalPlan, Vec<Arc<MemTable>>)> {
    let mut tables = Vec::new();
    for relation in relations {
        let fields = relation.schema.fields().iter().map(|field| (field.name().as_str(), field.data_type()));
        let table = MemTable::try_new(lakeward_circuit::delta::loose_schema(fields), vec![vec![]])?;
        tables.push(Arc::new(table));
        context.register_table(relation.name.as_str(), Arc::clone(tables.last().expect("just added")) as _)?;
    }
    let case = trial.case();
    let (answer, before) = case.views.split_last().expect("a view");
    for (name, sql) in before {
        context.sql(&format!("CREATE VIEW {name} AS {sql}")).await?;
    }
    let plan = context.sql(&answer.1).await?.into_optimized_plan()?;
    Ok((plan, tables))
}

async fn answered(context: &SessionContext, plan: &LogicalPlan) -> datafusion::error::Result<Bag> {
    let state = context.state();
    let physical = state.query_planner().create_physical_plan(plan, &state).await?;
    let mut bag = Bag::new();
    for batch in collect(physical, context.task_ctx()).await? {
        add(&mut bag, &batch, |_| 1);
    }
    Ok(bag)
}

fn inserted(table: &str, row: &Values) -> Event {
    Event { kind: '+', table: table.to_owned(), values: row.clone() }
}

/// DuckDB, in a process that answers one trial a line.
pub struct DuckDb {
    process: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl DuckDb {
    pub fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = root.join("dev/readers/venv/bin/python");
        assert!(python.exists(), "{} is missing: `make venv` makes it", python.display());
        let mut process = Command::new(python)
            .arg(root.join("dev/oracle/judge.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the judge");
        let ask = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("its output"));
        Self { process, ask, answers }
    }

    /// DuckDB's answers.
    pub fn answers(&mut self, trial: &Trial, contents: &[Contents]) -> Answers {
        let steps: Vec<_> = contents.iter().map(|contents| &contents.0).collect();
        let case = serde_json::json!({ "ddl": trial.ddl(""), "views": trial.views_for_duckdb(), "steps": steps });
        let ask = self.ask.as_mut().expect("a judge that was not stopped");
        writeln!(ask, "{case}").and_then(|()| ask.flush()).expect("ask the judge");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the judge's answer");
        let answers: Vec<serde_json::Value> = serde_json::from_str(&line).expect("a list of answers");
        assert_eq!(answers.len(), contents.len(), "an answer for each step");
        answers.into_iter().map(answer).collect()
    }
}

fn answer(answer: serde_json::Value) -> Result<Bag, String> {
    if let Some(error) = answer.as_str() {
        return Err(error.to_owned());
    }
    let rows: Vec<Vec<Option<String>>> = serde_json::from_value(answer).expect("rows of texts");
    let mut bag = Bag::new();
    for row in rows {
        *bag.entry(foreign(row)).or_default() += 1;
    }
    Ok(bag)
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        drop(self.ask.take());
        let _ = self.process.wait();
    }
}
