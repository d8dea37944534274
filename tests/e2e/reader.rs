//! The independent reader: `reader.py` in the virtual environment of dev/readers, one process for all tests.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

use crate::repository;

struct Reader {
    // Ends by itself when our end of its standard input goes away.
    _child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

fn start() -> Mutex<Reader> {
    let python = repository().join("dev/readers/venv/bin/python");
    assert!(python.exists(), "{} is missing: `make venv` makes it", python.display());
    let mut child = Command::new(python)
        .arg(repository().join("tests/e2e/reader.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the reader");
    let requests = child.stdin.take().expect("piped");
    let answers = BufReader::new(child.stdout.take().expect("piped"));
    Mutex::new(Reader { _child: child, requests, answers })
}

/// Sends one request; the answer, or the reader's error text.
pub fn ask(request: &Value) -> Result<Value, String> {
    static READER: OnceLock<Mutex<Reader>> = OnceLock::new();
    let mut reader = READER.get_or_init(start).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    writeln!(reader.requests, "{request}").expect("the reader takes requests");
    let mut line = String::new();
    reader.answers.read_line(&mut line).expect("the reader answers");
    let mut answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("the reader ended: {request}"));
    match answer.get("error") {
        Some(error) => Err(error.as_str().unwrap_or_default().to_owned()),
        None => Ok(answer["ok"].take()),
    }
}

/// Rows of `sql` over the table `t`, read by deltalake and by duckdb, which must agree. Sorted by `id`, else as text.
pub fn query(table: &Path, sql: &str) -> Vec<Value> {
    query_with(table, sql, &["deltalake", "duckdb"])
}

/// [`query`] by the named engines only; a test that leaves one out says why.
pub fn query_with(table: &Path, sql: &str, engines: &[&str]) -> Vec<Value> {
    let request = json!({"do": "query", "table": table, "sql": sql, "engines": engines});
    match ask(&request) {
        Ok(Value::Array(rows)) => rows,
        other => panic!("{sql} on {}: {other:?}", table.display()),
    }
}

/// Rows of `sql` over the table `t` in an object store, by deltalake alone: duckdb's extension takes other settings.
///
/// # Errors
/// The reader's, such as that no table is there yet.
pub fn query_at(location: &str, environment: &Value, sql: &str) -> Result<Vec<Value>, String> {
    let request = json!({
        "do": "query", "table": location, "sql": sql, "engines": ["deltalake"], "environment": environment,
    });
    match ask(&request)? {
        Value::Array(rows) => Ok(rows),
        other => Err(other.to_string()),
    }
}
