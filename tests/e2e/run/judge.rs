//! P5: every version of a sink's table is the answer over exactly the input below that version's frontier.
//!
//! The frontier is the table's own `txn`s. `judge.py` reads each version with deltalake and asks DuckDB for the
//! answer; nothing of ours is between. A changelog's rows so far must sum up to the answer.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::repository;
use crate::table::Table;

/// What a pipeline had, and what it said.
pub struct Case<'a> {
    pub sources: &'a [Source<'a>],
    /// Names and queries, as the pipeline has them; in SQL that both understand.
    pub views: &'a [(&'a str, &'a str)],
    /// In the order of commits.
    pub sinks: &'a [Sink<'a>],
}

/// A source, in the order of the pipeline's file.
pub struct Source<'a> {
    pub name: &'a str,
    pub columns: &'a [(&'a str, &'a str)],
    /// A later message replaces the row of its key; `op` = delete takes it away.
    pub key: Option<&'a str>,
    /// `[partition, offset, value]` of each record; a bad one's value is `{"bad": its text}`, and stands in `bad_NAME`.
    pub records: Vec<Value>,
}

/// A view's table.
pub struct Sink<'a> {
    pub view: &'a str,
    pub table: &'a Table,
    pub is_changelog: bool,
    /// What is compared of the table, as a `SELECT` list.
    pub columns: &'a str,
}

/// The next offset of each partition of each source.
pub type Frontier = BTreeMap<(String, i64), i64>;

/// What was found right.
pub struct Judged {
    /// Versions that were compared, of all sinks.
    pub versions: u64,
    /// Of each view's table, where it stands now.
    pub newest: BTreeMap<String, Frontier>,
}

/// Compares all versions.
///
/// # Panics
/// At the first that is wrong, with what is missing and what is too much.
pub fn judge(case: &Case<'_>) -> Judged {
    let names: Vec<&str> = case.sources.iter().map(|source| source.name).collect();
    let mut newest = BTreeMap::new();
    let mut sinks = Vec::new();
    for sink in case.sinks {
        let versions = frontiers(sink.table, &names);
        let last = versions.last().map(|version| version.frontier.clone()).unwrap_or_default();
        newest.insert(sink.view.to_owned(), last);
        let listed = versions.iter().map(|version| {
            let frontier = version.frontier.iter().map(|((source, partition), next)| json!([source, partition, next]));
            json!([version.number, version.has_files, frontier.collect::<Vec<_>>()])
        });
        sinks.push(json!({
            "view": sink.view,
            "table": sink.table.path,
            "changelog": sink.is_changelog,
            "columns": sink.columns,
            "versions": listed.collect::<Vec<_>>(),
        }));
    }
    in_order(case, &newest);
    let sources = case.sources.iter().map(
        |source| json!({"name": source.name, "columns": source.columns, "key": source.key, "records": source.records}),
    );
    let views = case.views.iter().map(|(name, sql)| json!([name, sql]));
    let request = json!({
        "sources": sources.collect::<Vec<_>>(),
        "views": views.collect::<Vec<_>>(),
        "sinks": sinks,
    });
    let answer = ask(&request);
    let wrong = answer["wrong"].as_array().expect("a list of faults");
    assert!(wrong.is_empty(), "P5: {} versions are wrong, the first: {:#}", wrong.len(), wrong[0]);
    Judged { versions: answer["versions"].as_u64().expect("a count"), newest }
}

struct Version {
    number: u64,
    has_files: bool,
    frontier: Frontier,
}

/// Where a table stood at each version. P1, P2: no partition ever goes back, and none is named without moving.
fn frontiers(table: &Table, sources: &[&str]) -> Vec<Version> {
    let mut frontier = Frontier::new();
    let mut versions = Vec::new();
    for (number, actions) in table.commits() {
        let mut has_files = false;
        for action in actions {
            has_files |= action.get("add").is_some() || action.get("remove").is_some();
            let Some(txn) = action.get("txn") else { continue };
            let place = place(txn["appId"].as_str().expect("appId"), sources);
            let next = txn["version"].as_i64().expect("version") + 1;
            let before = frontier.insert(place.clone(), next);
            let path = table.path.display();
            assert!(
                before.is_none_or(|before| before < next),
                "P2: version {number} of {path} has {place:?} at {next}, where it was at {before:?}"
            );
        }
        versions.push(Version { number, has_files, frontier: frontier.clone() });
    }
    versions
}

/// `app-<source>-<partition>`.
fn place(app_id: &str, sources: &[&str]) -> (String, i64) {
    let found = app_id.strip_prefix("app-").and_then(|rest| rest.rsplit_once('-'));
    let found = found.and_then(|(source, partition)| Some((source.to_owned(), partition.parse().ok()?)));
    let (source, partition) = found.unwrap_or_else(|| panic!("a txn that says no place: {app_id}"));
    assert!(sources.contains(&source.as_str()), "a txn of no source: {app_id}");
    (source, partition)
}

/// P7: no sink is ahead of the first.
fn in_order(case: &Case<'_>, newest: &BTreeMap<String, Frontier>) {
    let journal = &newest[case.sinks[0].view];
    for (view, frontier) in newest {
        let ahead = frontier.iter().find(|(place, next)| journal.get(place).is_none_or(|first| first < next));
        assert!(ahead.is_none(), "P7: {view} is ahead of the first sink: {ahead:?}");
    }
}

fn ask(request: &Value) -> Value {
    let python = repository().join("dev/readers/venv/bin/python");
    assert!(python.exists(), "{} is missing: `make venv` makes it", python.display());
    let mut child = Command::new(python)
        .arg(repository().join("tests/e2e/judge.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the judge");
    let mut requests = child.stdin.take().expect("piped");
    requests.write_all(request.to_string().as_bytes()).expect("the judge takes a request");
    drop(requests);
    let output = child.wait_with_output().expect("a child of ours");
    assert!(output.status.success(), "the judge failed; its words are above");
    serde_json::from_slice(&output.stdout).expect("the judge answers with JSON")
}
