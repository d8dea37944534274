//! Views read by others: deltalake and duckdb, after every step.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use lakeward_delta::scan::Scan;
use lakeward_delta::view::{Mode, View, new_table};
use lakeward_delta::{Created, Table, TableOptions, TableSchema, create};
use lakeward_protocol::ports::OutputLog;
use lakeward_protocol::position::TableVersion;
use serde_json::{Value, json};

use super::support::{Lake, Row, SCHEMA, change, eager, row, rows, sorted, step, view_options};
use crate::support::{options, runtime};

/// id, `_op` and `_step` of a changelog's rows.
pub fn changelog(lake: &Lake) -> Vec<(i64, String, i64)> {
    let columns = ["id", "_op", "_step"];
    let at = object_store::path::Path::from("t");
    let scan = Scan::open_on(lake.store.clone(), at, None, Some(&columns), &runtime()).unwrap();
    let mut told = Vec::new();
    for batch in scan.map(Result::unwrap) {
        let (id, step) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(2).as_primitive::<Int64Type>());
        let op = batch.column(1).as_string::<i32>();
        told.extend((0..batch.num_rows()).map(|at| (id.value(at), op.value(at).to_owned(), step.value(at))));
    }
    told.sort();
    told
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The reader of the end-to-end tests, in a process of its own that ends with its standard input.
struct Reader {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Reader {
    fn start() -> Self {
        let python = repository().join("dev/readers/venv/bin/python");
        assert!(python.exists(), "{} is missing: `make venv` makes it", python.display());
        let mut child = Command::new(python)
            .arg(repository().join("tests/e2e/reader.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { requests: child.stdin.take(), answers, child }
    }

    fn ask(&mut self, request: &Value) -> Result<Value, String> {
        writeln!(self.requests.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        match answer.get("error") {
            Some(error) => Err(error.to_string()),
            None => Ok(answer["ok"].clone()),
        }
    }

    fn rows(&mut self, table: &Path) -> Vec<Row> {
        // Counted twice over, by values and by rows: statistics must not hide any.
        let request = json!({"do": "query", "table": table, "sql": "SELECT id, name, score FROM t"});
        let answer = self.ask(&request).unwrap();
        let row = |row: &Value| (row["id"].as_i64(), row["name"].as_str().map(str::to_owned), row["score"].as_f64());
        let rows = sorted(answer.as_array().unwrap().iter().map(row).collect());
        for bound in ["id >= 0 AND id < 1000", "name >= 'a' AND name < 'zz'"] {
            let sql = format!("SELECT count(*) AS n FROM t WHERE {bound}");
            let counted = self.ask(&json!({"do": "query", "table": table, "sql": sql})).unwrap();
            assert_eq!(counted[0]["n"].as_u64().unwrap(), rows.len() as u64, "{bound}");
        }
        rows
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.child.wait();
    }
}

fn open(location: &str) -> View {
    let table = Table::open(location, TableOptions { topic: None, ..options("app") }).unwrap();
    View::open(table, view_options(Mode::Upsert, &["id"], eager())).unwrap()
}

#[test]
fn a_table_whose_name_needs_escapes_keeps_its_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let location = folder.path().join("a view?#é").to_str().unwrap().to_owned();
    let schema = TableSchema::parse("view", SCHEMA).unwrap();
    let _ = create(&location, &new_table(Mode::Upsert, &schema, vec![]).unwrap(), &runtime()).unwrap();
    step(&mut open(&location), 0, &change(&[], &rows(0..4, "a")));
    step(&mut open(&location), 1, &change(&rows([1], "a"), &[]));
    let mut view = open(&location);
    assert_eq!(view.rows(), 3);
    step(&mut view, 2, &change(&rows([2], "a"), &[]));
    let count = |scan: Scan| scan.map(|batch| batch.unwrap().num_rows()).sum::<usize>();
    assert_eq!(count(Scan::open(&location, None, &runtime()).unwrap()), 2);
    let before = Scan::open_at(&location, TableVersion(2), None, &runtime()).unwrap();
    assert_eq!(count(before), 3);
    assert!(Scan::open_at(&location, TableVersion(9), None, &runtime()).is_err());
}

#[test]
fn others_write_to_the_views_table_and_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("view");
    let location = table.to_str().unwrap().to_owned();
    let schema = TableSchema::parse("view", SCHEMA).unwrap();
    let _ = create(&location, &new_table(Mode::Upsert, &schema, vec![]).unwrap(), &runtime()).unwrap();
    let (mut view, mut reader) = (open(&location), Reader::start());
    step(&mut view, 0, &change(&[], &rows(0..10, "a")));
    step(&mut view, 1, &change(&rows([1], "a"), &[]));
    #[rustfmt::skip] // columns: what another writer does, rows that go next
    let moves = [
        (json!({"do": "compact"}),                                                       rows([2], "a")),
        (json!({"do": "append", "rows": [{"id": 50, "name": "x", "score": 50.0}]}),      rows([50], "x")),
        (json!({"do": "delete", "where": "id < 5"}),                                     rows([5], "a")),
        (json!({"do": "checkpoint"}),                                                    rows([9], "a")),
    ];
    for (at, (foreign, deletes)) in (2..).zip(moves) {
        let mut foreign = foreign;
        foreign["table"] = json!(table);
        reader.ask(&foreign).unwrap_or_else(|error| panic!("{foreign}: {error}"));
        let staged_before = sorted(reader.rows(&table));
        let expected: Vec<Row> = staged_before.into_iter().filter(|row| !deletes.contains(row)).collect();
        step(&mut view, at, &change(&deletes, &[]));
        assert_eq!(reader.rows(&table), expected, "after {foreign}");
        assert_eq!(view.rows(), expected.len());
    }
    assert_eq!(reader.rows(&table), rows([6, 7, 8], "a"));
}

#[test] // S47, S48
fn others_read_every_version_as_the_view() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("view");
    let location = table.to_str().unwrap().to_owned();
    let schema = TableSchema::parse("view", SCHEMA).unwrap();
    let mut new = new_table(Mode::Upsert, &schema, vec![]).unwrap();
    new.properties.insert("delta.checkpointInterval".to_owned(), "3".to_owned());
    assert_eq!(create(&location, &new, &runtime()).unwrap(), Created::New);
    let (mut view, mut reader) = (open(&location), Reader::start());
    #[rustfmt::skip] // columns: rows that go, rows that come, rows there afterwards
    let steps = [
        (vec![],                            rows(0..10, "a"),                     rows(0..10, "a")),
        (rows([5], "a"),                    vec![],                               [rows(0..5, "a"), rows(6..10, "a")].concat()),
        (rows([0, 9], "a"),                 vec![row(0, "b"), row(700, "b")],     [rows([0], "b"), rows(1..5, "a"), rows(6..9, "a"), rows([700], "b")].concat()),
        (rows([1, 2, 3, 4], "a"),           vec![],                               [rows([0], "b"), rows(6..9, "a"), rows([700], "b")].concat()),
        (vec![row(700, "b"), row(6, "a")],  vec![row(6, "c")],                    [rows([0], "b"), rows([6], "c"), rows([7, 8], "a")].concat()),
        (rows([7, 8], "a"),                 rows([7], "d"),                       vec![row(0, "b"), row(6, "c"), row(7, "d")]),
    ];
    for (at, (deletes, inserts, expected)) in (0..).zip(steps) {
        step(&mut view, at, &change(&deletes, &inserts));
        let expected = sorted(expected);
        assert_eq!(reader.rows(&table), expected, "step {at}");
        view.tend();
        view.settle().unwrap();
        assert_eq!(reader.rows(&table), expected, "after housekeeping of step {at}");
        reader.ask(&json!({"do": "checkpoints", "table": table})).unwrap();
        if at == 3 {
            view = open(&location);
        }
    }
    assert!(view.table().housekeeping().failures() == 0);
}
