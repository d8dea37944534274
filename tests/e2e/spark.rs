//! Apache Spark with Delta Lake, under the feature `test-spark`: one session, `spark.py`, for all tests. It reads every
//! table that `reader::query` reads; the modules here have what it alone can do.

mod features;
mod reads;
mod rival;

use std::path::Path;
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

use crate::reader::Reader;
use crate::repository;
use crate::table::Table;

/// Sends one request; the answer, or Spark's error text.
pub fn ask(request: &Value) -> Result<Value, String> {
    static SPARK: OnceLock<Mutex<Reader>> = OnceLock::new();
    let start = || Reader::start("dev/spark", "spark.py", &[&repository().join("dev/spark/jars")], "test-readers");
    Reader::ask(SPARK.get_or_init(start), request)
}

fn rows_of(request: &Value) -> Vec<Value> {
    match ask(request) {
        Ok(Value::Array(rows)) => rows,
        other => panic!("{request}: {other:?}"),
    }
}

/// Rows of `sql` over the table `t`, by their `id`, else as text.
pub fn query(table: &Path, sql: &str) -> Vec<Value> {
    rows_of(&json!({"do": "query", "table": table, "sql": sql}))
}

/// Statements in Spark's own dialect, `{t}` in them the table; the rows of the last.
fn sql(table: &Table, statements: &[&str]) -> Vec<Value> {
    let mut rows = Vec::new();
    for statement in statements {
        rows = try_sql(table, statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    rows
}

/// One statement of [`sql`], which may fail.
fn try_sql(table: &Table, statement: &str) -> Result<Vec<Value>, String> {
    let statement = statement.replace("{t}", &format!("delta.`{}`", table.path.display()));
    match ask(&json!({"do": "sql", "sql": statement}))? {
        Value::Array(rows) => Ok(rows),
        other => Err(other.to_string()),
    }
}

/// An empty table that Spark makes: what stands behind `CREATE TABLE {t}`.
fn created(rest: &str) -> Table {
    let table = Table::absent();
    sql(&table, &[&format!("CREATE TABLE {{t}} {rest}")]);
    table
}

/// The `id`s that Spark reads.
fn ids(table: &Table) -> Vec<i64> {
    query(&table.path, "select id from t").iter().map(|row| row["id"].as_i64().expect("an id")).collect()
}

/// Proves by the log what was committed, whoever else wrote.
fn assert_proven(table: &Table) {
    let verified = crate::ingest::run(&["verify", &table.path.display().to_string()]);
    assert_eq!(verified.code, Some(0), "{}", verified.log);
}
