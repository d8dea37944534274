//! The independent reader: `reader.py` in the virtual environment of dev/readers, one process for all tests.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

use crate::repository;

/// A process behind a pipe: a JSON request a line, a JSON answer a line.
pub struct Reader {
    // Ends by itself when our end of its standard input goes away.
    _child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Reader {
    /// Starts a script of this folder in the virtual environment of `environment`, which `target` of make makes.
    pub fn start(environment: &str, script: &str, arguments: &[&Path], target: &str) -> Mutex<Self> {
        let python = repository().join(environment).join("venv/bin/python");
        assert!(python.exists(), "{} is missing: `make {target}` makes it", python.display());
        let mut child = Command::new(python)
            .arg(repository().join("tests/e2e").join(script))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the reader");
        let requests = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Mutex::new(Self { _child: child, requests, answers })
    }

    /// Sends one request; the answer, or the reader's error text.
    pub fn ask(reader: &Mutex<Self>, request: &Value) -> Result<Value, String> {
        let mut reader = reader.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        writeln!(reader.requests, "{request}").expect("the reader takes requests");
        let mut line = String::new();
        reader.answers.read_line(&mut line).expect("the reader answers");
        let mut answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("the reader ended: {request}"));
        match answer.get("error") {
            Some(error) => Err(error.as_str().unwrap_or_default().to_owned()),
            None => Ok(answer["ok"].take()),
        }
    }
}

/// Sends one request; the answer, or the reader's error text.
pub fn ask(request: &Value) -> Result<Value, String> {
    static READER: OnceLock<Mutex<Reader>> = OnceLock::new();
    Reader::ask(READER.get_or_init(|| Reader::start("dev/readers", "reader.py", &[], "venv")), request)
}

/// Rows of `sql` over the table `t`, read by deltalake and by duckdb, and under the feature `test-spark` by Apache Spark
/// as well. All must agree. Sorted by `id`, else as text.
pub fn query(table: &Path, sql: &str) -> Vec<Value> {
    query_with(table, sql, &["deltalake", "duckdb"])
}

/// [`query`] by the named engines only; a test that leaves one out says why. Spark is never left out.
pub fn query_with(table: &Path, sql: &str, engines: &[&str]) -> Vec<Value> {
    let request = json!({"do": "query", "table": table, "sql": sql, "engines": engines});
    let rows = match ask(&request) {
        Ok(Value::Array(rows)) => rows,
        other => panic!("{sql} on {}: {other:?}", table.display()),
    };
    #[cfg(feature = "test-spark")]
    assert_eq!(crate::spark::query(table, sql), rows, "Spark and {engines:?}: {sql} on {}", table.display());
    rows
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
