//! Steps of a view, one after the other: what the table holds, and what the log says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lakeward_delta::view::{Commit, Mode, View};
use lakeward_protocol::memory::Fate;
use lakeward_protocol::ports::OutputLog;
use lakeward_protocol::position::{CommitId, TableVersion};
use lakeward_sim::{Call, FaultyStore};
use serde_json::{Value, json};

use super::support::{Lake, Row, change, eager, moves, open_on, replay, row, rows, sorted, step, view_options};
use crate::support::offset;

fn keyed(lake: &Lake) -> View {
    lake.open("app", view_options(Mode::Upsert, &["id"], None)).unwrap()
}

/// The last version's actions of one kind.
fn last(lake: &Lake, kind: &str) -> Vec<Value> {
    lake.commits().last().unwrap().iter().filter_map(|action| action.get(kind).cloned()).collect()
}

#[test] // S47
fn deletes_of_a_step_come_before_its_inserts() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut view = keyed(&lake);
    let value = |id: i64, value: &str| row(id, value);
    step(&mut view, 0, &change(&[], &[value(1, "1"), value(2, "2"), value(3, "3")]));
    let deletes = [value(1, "1"), value(2, "2"), value(3, "3")];
    step(&mut view, 1, &change(&deletes, &[value(2, "1"), value(3, "2"), value(4, "3")]));
    assert_eq!(lake.rows(None), sorted(vec![value(2, "1"), value(3, "2"), value(4, "3")]));
    assert_eq!(view.rows(), 3);
    assert_eq!(replay(&lake.commits()), [0, 3, 3]);
}

#[test] // S48
fn each_remove_names_the_vector_of_the_add_it_ends() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut view = lake.open("app", view_options(Mode::Upsert, &["id"], eager())).unwrap();
    step(&mut view, 0, &change(&[], &rows(0..10, "a")));
    step(&mut view, 1, &change(&rows([5], "a"), &[]));
    assert_eq!(last(&lake, "remove")[0].get("deletionVector"), None);
    step(&mut view, 2, &change(&rows([9], "a"), &[]));
    let (removes, adds) = (last(&lake, "remove"), last(&lake, "add"));
    assert_eq!((removes.len(), adds.len()), (1, 1));
    assert_eq!(
        (&removes[0]["path"], removes[0]["deletionVector"]["cardinality"].as_u64()),
        (&adds[0]["path"], Some(1))
    );
    step(&mut view, 3, &change(&rows([0, 1, 2, 3], "a"), &[]));
    compacted(&mut view);
    assert_eq!(replay(&lake.commits()), [0, 10, 9, 8, 4, 4]);
    assert_eq!(lake.rows(None), sorted(rows([4, 6, 7, 8], "a")));
    let (removes, adds) = (last(&lake, "remove"), last(&lake, "add"));
    assert_eq!(removes[0]["deletionVector"]["cardinality"], 6);
    assert_eq!((&removes[0]["dataChange"], &adds[0]["dataChange"]), (&json!(false), &json!(false)));
    // What moved is still found.
    step(&mut view, 4, &change(&rows([6], "a"), &rows([5], "b")));
    assert_eq!(lake.rows(None), sorted([rows([4, 7, 8], "a"), rows([5], "b")].concat()));
}

/// Lets the view look at its files, and waits for what it makes of them.
fn compacted(view: &mut View) {
    view.tend();
    view.settle().unwrap();
}

#[test]
fn a_file_without_live_rows_goes_whole() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut view = keyed(&lake);
    step(&mut view, 0, &change(&[], &rows(0..3, "a")));
    step(&mut view, 1, &change(&rows(0..3, "a"), &rows([7], "b")));
    assert_eq!((last(&lake, "remove").len(), last(&lake, "add").len()), (1, 1));
    assert_eq!(lake.rows(None), rows([7], "b"));
    step(&mut view, 2, &change(&rows([7], "b"), &[]));
    assert_eq!((last(&lake, "remove").len(), last(&lake, "add").len()), (1, 0));
    assert_eq!(replay(&lake.commits()), [0, 3, 1, 0]);
}

#[test]
fn a_foreign_delete_between_load_and_put_is_built_on() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let armed = Arc::new(AtomicBool::new(false));
    let store = {
        let (lake, armed) = (lake.clone(), armed.clone());
        let inner = lake.store.clone();
        Arc::new(FaultyStore::new(inner, move |call| {
            if call == Call::Commit && armed.swap(false, Ordering::Relaxed) {
                std::thread::scope(|scope| scope.spawn(|| foreign_delete(&lake, &rows([3], "a"))).join().unwrap());
            }
            Fate::Well
        }))
    };
    let mut view = open_on(store, "app", view_options(Mode::Upsert, &["id"], None)).unwrap();
    step(&mut view, 0, &change(&[], &rows(0..6, "a")));
    armed.store(true, Ordering::Relaxed);
    assert_eq!(step(&mut view, 1, &change(&rows([5], "a"), &[])), 3);
    assert_eq!(lake.rows(None), rows([0, 1, 2, 4], "a"));
    assert_eq!(replay(&lake.commits()), [0, 6, 5, 4]);
}

fn foreign_delete(lake: &Lake, gone: &[Row]) {
    let mut other = lake.open("other", view_options(Mode::Upsert, &["id"], None)).unwrap();
    let staged = other.stage(&change(gone, &[])).unwrap();
    let outcome = other.commit(CommitId(1_000), &moves("other", 0, 1), Some(&staged)).unwrap();
    assert!(matches!(outcome, Commit::Done(_)), "{outcome:?}");
}

#[test]
fn rows_that_die_while_they_are_moved_stay_dead() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut view = lake.open("app", view_options(Mode::Upsert, &["id"], eager())).unwrap();
    step(&mut view, 0, &change(&[], &rows(0..6, "a")));
    step(&mut view, 1, &change(&rows([0, 1], "a"), &[]));
    // Begins with what is there now.
    view.tend();
    step(&mut view, 2, &change(&rows([2], "a"), &[]));
    foreign_delete(&lake, &rows([3], "a"));
    view.settle().unwrap();
    assert_eq!(last(&lake, "commitInfo")[0]["operation"], "OPTIMIZE");
    assert_eq!(last(&lake, "add")[0]["deletionVector"]["cardinality"], 2);
    assert_eq!(lake.rows(None), rows([4, 5], "a"));
    assert_eq!(replay(&lake.commits()), [0, 6, 4, 3, 2, 2]);
    step(&mut view, 3, &change(&rows([4, 5], "a"), &[]));
    assert_eq!(lake.rows(None), []);
}

#[test]
fn a_compaction_gives_way_to_another() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut view = lake.open("app", view_options(Mode::Upsert, &["id"], eager())).unwrap();
    let mut other = lake.open("other", view_options(Mode::Upsert, &["id"], eager())).unwrap();
    step(&mut view, 0, &change(&[], &rows(0..6, "a")));
    step(&mut view, 1, &change(&rows([0, 1], "a"), &[]));
    view.tend();
    other.commit(CommitId(1_000), &moves("other", 0, 1), None).map(drop).unwrap();
    compacted(&mut other);
    let head = lake.head();
    view.settle().unwrap();
    assert_eq!(lake.head(), head, "its files are gone: nothing is put");
    assert_eq!(lake.rows(None), rows(2..6, "a"));
    step(&mut view, 2, &change(&rows([2], "a"), &[]));
    assert_eq!(lake.rows(None), rows(3..6, "a"));
}

#[test]
fn small_files_of_appends_become_one_unless_somebody_changed_them() {
    for disturbed in [false, true] {
        let lake = Lake::new(Mode::Append, &["name"], &[("delta.enableDeletionVectors", "true")]);
        let mut view = lake.open("app", view_options(Mode::Append, &[], eager())).unwrap();
        for at in 0..20 {
            step(&mut view, at, &change(&[], &rows([at], "a")));
        }
        view.tend();
        let mut expected = rows(0..20, "a");
        if disturbed {
            foreign_delete(&lake, &rows([3], "a"));
            expected.remove(3);
        }
        view.settle().unwrap();
        let (operation, adds) = (last(&lake, "commitInfo")[0]["operation"].clone(), last(&lake, "add").len());
        assert_eq!(operation == "OPTIMIZE", !disturbed, "{operation}");
        assert!(disturbed || adds == 1, "{adds} files");
        assert_eq!(lake.rows(None), sorted(expected.clone()));
        assert_eq!(replay(&lake.commits()).last(), Some(&(expected.len() as u64)));
        step(&mut view, 20, &change(&[], &rows([50], "b")));
    }
}

#[test]
fn what_is_staged_and_dropped_is_not_there() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut view = keyed(&lake);
    drop(view.stage(&change(&[], &rows([1], "a"))).unwrap());
    step(&mut view, 0, &change(&[], &rows([1], "b")));
    assert_eq!(lake.rows(None), rows([1], "b"));
}

#[test]
fn empty_text_in_a_partition_column_is_its_null() {
    let lake = Lake::new(Mode::Upsert, &["name"], &[]);
    let mut view = lake.open("app", view_options(Mode::Upsert, &[], None)).unwrap();
    step(&mut view, 0, &change(&[], &[row(1, ""), row(2, "")]));
    step(&mut view, 1, &change(&[row(1, "")], &[]));
    drop(view);
    let mut view = lake.open("app", view_options(Mode::Upsert, &[], None)).unwrap();
    step(&mut view, 2, &change(&[row(2, "")], &[]));
    assert_eq!(lake.rows(None), []);
    let mut view = lake.open("app", view_options(Mode::Upsert, &["name"], None)).unwrap();
    let error = view.stage(&change(&[], &[row(1, "")])).unwrap_err().to_string();
    assert!(error.contains("NULL"), "{error}");
}

#[test]
fn rows_without_a_key_are_a_bag() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut view = lake.open("app", view_options(Mode::Upsert, &[], None)).unwrap();
    let nothing: Row = (None, None, None);
    let odd = |score: f64| (Some(1), None, Some(score));
    step(&mut view, 0, &change(&[], &[nothing.clone(), nothing.clone(), nothing.clone(), odd(-0.0), odd(f64::NAN)]));
    step(&mut view, 1, &change(std::slice::from_ref(&nothing), &[row(1, "x"), row(1, "x")]));
    drop(view);
    let mut view = lake.open("app", view_options(Mode::Upsert, &[], None)).unwrap();
    assert_eq!(view.rows(), 6);
    // Equal in SQL, whatever their bits.
    step(&mut view, 2, &change(&[nothing.clone(), row(1, "x"), odd(0.0), odd(-f64::NAN)], &[]));
    assert_eq!(lake.rows(None), sorted(vec![nothing, row(1, "x")]));
    assert_eq!(replay(&lake.commits()), [0, 5, 6, 2]);
}

#[test]
fn a_changelog_tells_what_became_of_rows() {
    let lake = Lake::new(Mode::Changelog, &[], &[]);
    let mut view = lake.open("app", view_options(Mode::Changelog, &[], None)).unwrap();
    step(&mut view, 0, &change(&[], &rows([1, 2], "a")));
    let mut next = change(&rows([2], "a"), &rows([3], "b"));
    next.step = 12;
    step(&mut view, 1, &next);
    let told = super::readers::changelog(&lake);
    let line = |id: i64, kind: &str, step: i64| (id, kind.to_owned(), step);
    let expected = [line(1, "insert", 7), line(2, "delete", 12), line(2, "insert", 7), line(3, "insert", 12)];
    assert_eq!(told, expected);
    assert_eq!(replay(&lake.commits()), [0, 2, 4]);
}

#[test]
fn partitioned_views_change_across_partitions() {
    let lake = Lake::new(Mode::Upsert, &["name"], &[]);
    let mut view = lake.open("app", view_options(Mode::Upsert, &["id", "name"], None)).unwrap();
    let mixed: Vec<Row> = (0..40).map(|id| row(id, ["a", "b", "é/ü"][usize::try_from(id % 3).unwrap()])).collect();
    step(&mut view, 0, &change(&[], &mixed));
    step(&mut view, 1, &change(&mixed[3..10], &[row(3, "c"), row(4, "b")]));
    let expected = [&mixed[..3], &mixed[10..], &[row(3, "c"), row(4, "b")]].concat();
    assert_eq!(lake.rows(None), sorted(expected.clone()));
    drop(view);
    let mut view = lake.open("app", view_options(Mode::Upsert, &["id", "name"], None)).unwrap();
    step(&mut view, 2, &change(&expected, &[]));
    assert_eq!(lake.rows(None), []);
    // A key of partition columns alone is read all the same.
    let mut view = lake.open("app", view_options(Mode::Upsert, &["name"], None)).unwrap();
    step(&mut view, 3, &change(&[], &[row(1, "a"), row(2, "b")]));
    drop(view);
    let mut view = lake.open("app", view_options(Mode::Upsert, &["name"], None)).unwrap();
    step(&mut view, 4, &change(&[row(1, "a")], &[row(9, "a")]));
    assert_eq!(lake.rows(None), sorted(vec![row(2, "b"), row(9, "a")]));
}

#[test]
fn commits_are_compared_and_swapped() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let (mut view, mut rival) = (keyed(&lake), keyed(&lake));
    let one = view.stage(&change(&[], &rows([1], "a"))).unwrap();
    let done = view.commit(CommitId(1), &moves("app", 0, 5), Some(&one)).unwrap();
    assert!(matches!(done, Commit::Done(version) if version.0 == 1));
    let again = rival.stage(&change(&[], &rows([1], "a"))).unwrap();
    assert_eq!(rival.commit(CommitId(2), &moves("app", 0, 5), Some(&again)).unwrap(), Commit::AlreadyDone);
    let fenced = rival.commit(CommitId(3), &moves("app", 0, 7), Some(&again)).unwrap();
    assert_eq!(fenced, Commit::Fenced { app_id: "app-0".to_owned(), stored: Some(offset(5)) });
    // Frontiers alone.
    assert!(
        matches!(rival.commit(CommitId(4), &moves("app", 5, 9), None).unwrap(), Commit::Done(version) if version.0 == 2)
    );
    assert_eq!(last(&lake, "txn")[0]["version"], 8);
    let info = last(&lake, "commitInfo")[0].clone();
    assert_eq!(info["isBlindAppend"], true);
    assert_eq!(info["lakeward"]["moves"], json!([{"appId": "app-0", "from": 5, "to": 9}]));
    let ids = ["app-0", "app-1"].map(str::to_owned);
    assert_eq!(view.stored(&ids).unwrap(), BTreeMap::from([("app-0".to_owned(), offset(9))]));
    let fenced = view.commit(CommitId(5), &moves("app", 5, 6), None).unwrap();
    assert_eq!(fenced, Commit::Fenced { app_id: "app-0".to_owned(), stored: Some(offset(9)) });
    assert_eq!(lake.rows(None), rows([1], "a"));
    assert_eq!(lake.head(), 2);
}

#[test]
fn a_new_shape_is_noticed() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut view = keyed(&lake);
    step(&mut view, 0, &change(&[], &rows([1], "a")));
    let staged = view.stage(&change(&rows([1], "a"), &[])).unwrap();
    let metadata = lake.commits()[0].iter().find_map(|action| action.get("metaData").cloned()).unwrap();
    let mut renewed = metadata.clone();
    renewed["configuration"]["delta.dataSkippingNumIndexedCols"] = json!("1");
    lake.foreign(&[json!({ "metaData": renewed })]);
    assert_eq!(view.commit(CommitId(2), &moves("app", 1, 2), Some(&staged)).unwrap(), Commit::Reshaped);
    step(&mut view, 1, &change(&rows([1], "a"), &rows([2], "b")));
    assert_eq!(lake.rows(None), rows([2], "b"));
    let mut without = metadata;
    without["configuration"] = json!({});
    lake.foreign(&[json!({ "metaData": without })]);
    let error = view.commit(CommitId(3), &moves("app", 2, 3), None).unwrap_err().to_string();
    assert!(error.contains("ALTER TABLE"), "{error}");
}

#[test] // P9
fn a_restore_is_noticed_and_can_be_gone_on_from() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut view = keyed(&lake);
    step(&mut view, 0, &change(&[], &rows(0..4, "a")));
    step(&mut view, 1, &change(&rows([1], "a"), &[]));
    step(&mut view, 2, &change(&rows([2], "a"), &[]));
    let then = lake.commits();
    let add = |version: usize| then[version].iter().find_map(|action| action.get("add").cloned()).unwrap();
    let now = add(3);
    let remove = json!({"path": now["path"], "deletionVector": now["deletionVector"], "dataChange": true});
    // Its target is not named: it is found by the files, which differ in their vectors alone.
    let info = json!({"commitInfo": {"timestamp": 1, "operation": "RESTORE", "operationParameters": {}}});
    lake.foreign(&[info, json!({ "remove": remove }), json!({"add": add(1)})]);
    let outcome = view.commit(CommitId(9), &moves("app", 3, 4), None).unwrap();
    let Commit::Breached(breach) = outcome else { panic!("{outcome:?}") };
    assert!(format!("{breach:?}").contains("to: TableVersion(1)"), "{breach:?}");
    assert_eq!(view.rows(), 4, "rows that came back are known");
    view.accept_restore(TableVersion(4));
    for (at, told) in [(3, json!(4)), (4, Value::Null)] {
        step(&mut view, at, &change(&[], &rows([at + 6], "a")));
        assert_eq!(last(&lake, "commitInfo")[0]["lakeward"]["acceptedRestore"], told);
    }
    drop(view);
    assert_eq!(open_on(lake.store.clone(), "app", view_options(Mode::Upsert, &["id"], None)).unwrap().rows(), 6);
}
