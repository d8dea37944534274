//! The live rows of a table by its log: what its files hold, less what is marked dead.
//!
//! A view's rows are the answer to a query, and no record is one of them. What can be proved from the log
//! is that nothing came or went unsaid: after each commit of ours the live rows are those before it, and
//! what the commit says came, less what it says went. And of every table: a commit that says that it only
//! moves rows leaves as many as there were.

use std::collections::HashMap;

use lakeward_delta::Version;
use serde::Serialize;

/// See the module.
#[derive(Debug, Default, Serialize)]
pub struct Rows {
    /// How the view is written, by the newest commit that says so; `None` for what is no view's.
    pub mode: Option<String>,
    /// Live rows of the newest version.
    pub live: i64,
    /// Rows that came by our commits.
    pub came: u64,
    /// Rows that went by our commits.
    pub gone: u64,
    /// What other writers added, less what they took away.
    pub others: i64,
    /// Not every file's rows are known: nothing can be proved.
    pub partial: bool,
    /// Live files: rows, and how many of them are dead.
    #[serde(skip)]
    files: HashMap<String, (u64, u64)>,
}

impl Rows {
    /// Takes in the next version; what is wrong with it.
    pub fn follow(&mut self, version: &Version) -> Vec<String> {
        let before = self.live;
        let new = self.take(version);
        let Some(view) = version.notes.as_ref().and_then(|notes| notes.view.as_ref()) else {
            self.others += self.live - before;
            return self.moved(version, before).into_iter().collect();
        };
        self.mode = Some(view.mode.clone());
        self.came += view.came;
        self.gone += view.gone;
        let mut wrong = Vec::new();
        if new != view.came && !self.partial {
            wrong.push(format!("{new} rows in the new files of this version, and {} came by its notes", view.came));
        }
        let expected = before + count(view.came) - count(view.gone);
        if self.live != expected && !self.partial {
            wrong.push(format!(
                "{} live rows after this version; {before} before it, of which {} went, and {} that came make {expected}",
                self.live, view.gone, view.came
            ));
        }
        wrong
    }

    /// A version that only moves rows, whoever wrote it, has as many as the one before.
    fn moved(&self, version: &Version, before: i64) -> Option<String> {
        let mut changes = version.adds.iter().map(|add| add.data_change);
        let mut gone = version.removes.iter().map(|gone| gone.data_change);
        let moves =
            !version.adds.is_empty() && !version.removes.is_empty() && !changes.any(|is| is) && !gone.any(|is| is);
        (moves && self.live != before && !self.partial).then(|| {
            format!(
                "{before} live rows before this version, which says that it only moves them, and {} after",
                self.live
            )
        })
    }

    /// Brings the files up to a version; how many rows its new files have.
    fn take(&mut self, version: &Version) -> u64 {
        let mut touched = Vec::new();
        for gone in &version.removes {
            match self.files.remove(&gone.path) {
                Some(file) => self.live -= live(file),
                None => self.partial = true,
            }
            touched.push(gone.path.as_str());
        }
        let mut new = 0;
        for add in &version.adds {
            let Some(rows) = add.num_records else {
                self.partial = true;
                continue;
            };
            let file = (rows, add.dead_rows);
            self.live += live(file);
            if let Some(replaced) = self.files.insert(add.path.clone(), file) {
                self.live -= live(replaced);
            } else if add.data_change && !touched.contains(&add.path.as_str()) {
                new += rows;
            }
        }
        new
    }

    /// For people; `None` for what is no view's.
    pub fn text(&self) -> Option<String> {
        use crate::report::grouped;
        let mode = self.mode.as_ref()?;
        if self.partial {
            return Some(format!(
                "view ({mode}): its live rows are not proved, since the log does not go back to its first\n"
            ));
        }
        let others = match self.others {
            0 => String::new(),
            others if others > 0 => format!(" + {} by other writers", grouped(others)),
            others => format!(" - {} by other writers", grouped(-others)),
        };
        let (live, came, gone) = (grouped(self.live), grouped(self.came), grouped(self.gone));
        Some(format!("view ({mode}): {live} live rows = {came} came - {gone} gone{others}\n"))
    }
}

fn live((rows, dead): (u64, u64)) -> i64 {
    count(rows) - count(dead)
}

fn count(rows: u64) -> i64 {
    i64::try_from(rows).expect("fewer rows than 2^63")
}

#[cfg(test)]
mod tests {
    use lakeward_delta::{Added, Notes, Removed, ViewNote};

    use super::*;

    /// Path, rows, dead ones.
    type File = (&'static str, u64, u64);

    fn version(view: Option<(u64, u64)>, removes: &[&str], adds: &[File]) -> Version {
        let view = view.map(|(came, gone)| ViewNote { mode: "upsert".to_owned(), came, gone });
        let add = |&(path, rows, dead): &File| Added {
            path: path.to_owned(),
            size_bytes: 1,
            num_records: Some(rows),
            data_change: true,
            has_deletion_vector: dead > 0,
            dead_rows: dead,
            spans: None,
        };
        Version {
            version: 1,
            operation: "-".to_owned(),
            timestamp_ms: None,
            parameters: serde_json::Value::Null,
            notes: view.map(|view| Notes { view: Some(view), ..Notes::default() }),
            txns: Vec::new(),
            adds: adds.iter().map(add).collect(),
            removes: removes.iter().map(|path| Removed { path: (*path).to_owned(), data_change: true }).collect(),
        }
    }

    #[test]
    fn what_came_or_went_unsaid_is_a_fault() {
        let first = || version(Some((5, 0)), &[], &[("a", 5, 0)]);
        #[rustfmt::skip] // columns: name, the versions after the first, faults, live rows, by others
        let cases: Vec<(&str, Vec<Version>, usize, i64, i64)> = vec![
            ("an update",          vec![version(Some((1, 2)), &["a"], &[("a", 5, 2), ("b", 1, 0)])],              0, 4, 0),
            ("twice",              vec![version(Some((0, 2)), &["a"], &[("a", 5, 2)]), version(Some((0, 1)), &["a"], &[("a", 5, 3)])], 0, 2, 0),
            ("a file all dead",    vec![version(Some((0, 5)), &["a"], &[])],                                      0, 0, 0),
            ("nothing",            vec![version(Some((0, 0)), &[], &[])],                                         0, 5, 0),
            ("one died unsaid",    vec![version(Some((1, 2)), &["a"], &[("a", 5, 3), ("b", 1, 0)])],              1, 3, 0),
            ("back from the dead", vec![version(Some((0, 2)), &["a"], &[("a", 5, 2)]), version(Some((0, 0)), &["a"], &[("a", 5, 0)])], 1, 5, 0),
            ("one came unsaid",    vec![version(Some((1, 0)), &[], &[("b", 2, 0)])],                              2, 7, 0),
            ("the add is missing", vec![version(Some((0, 1)), &["a"], &[])],                                      1, 0, 0),
            ("another writer",     vec![version(None, &["a"], &[("a", 5, 4), ("b", 9, 0)]), version(Some((1, 0)), &[], &[("c", 1, 0)])], 0, 11, 5),
        ];
        for (name, versions, faults, live, others) in cases {
            let mut rows = Rows::default();
            let found: Vec<_> = [first()].iter().chain(&versions).flat_map(|version| rows.follow(version)).collect();
            assert_eq!((found.len(), rows.live, rows.others), (faults, live, others), "{name}: {found:?}");
        }
    }

    #[test]
    fn rows_that_are_moved_are_as_many_as_before() {
        let moves = |removes: &[&str], adds: &[File]| {
            let mut version = version(None, removes, adds);
            version.adds.iter_mut().for_each(|add| add.data_change = false);
            version.removes.iter_mut().for_each(|gone| gone.data_change = false);
            version
        };
        #[rustfmt::skip] // columns: what is made of a (5 rows, 2 dead) and b (4 rows), faults
        let cases: [(&[File], usize); 3] = [
            (&[("c", 7, 0)],              0),
            (&[("c", 9, 0)],              1),
            (&[("c", 3, 0)],              1),
        ];
        for (adds, faults) in cases {
            let mut rows = Rows::default();
            assert_eq!(rows.follow(&version(None, &[], &[("a", 5, 2), ("b", 4, 0)])), [""; 0]);
            assert_eq!(rows.follow(&moves(&["a", "b"], adds)).len(), faults, "{adds:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_proved() {
        let mut rows = Rows::default();
        assert_eq!(rows.follow(&version(Some((1, 2)), &["older"], &[("older", 9, 2), ("a", 1, 0)])), [""; 0]);
        assert!(rows.partial && rows.text().unwrap().contains("not proved"));
    }
}
