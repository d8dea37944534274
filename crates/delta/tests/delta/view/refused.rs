//! Changes and tables that are refused, by name.

use lakeward_delta::view::{Mode, new_table};
use lakeward_delta::{NewTable, TableSchema, create_on};
use lakeward_protocol::ports::{Exit, Fault, Verdict};
use lakeward_protocol::position::CommitId;
use object_store::path::Path;

use super::support::{Lake, SCHEMA, change, moves, refusal, row, rows, step, view_options};
use crate::support::runtime;

#[test]
fn changes_that_contradict_the_table_are_refused_by_their_key() {
    let nothing = (None, Some("x".to_owned()), None);
    #[rustfmt::skip] // columns: mode, key, rows that go, rows that come, what the refusal names
    let cases = [
        (Mode::Upsert, &["id"][..], vec![],              vec![row(1, "b")],               "id = 1"),
        (Mode::Upsert, &["id"],     vec![],              vec![row(5, "b"), row(5, "c")],  "id = 5"),
        (Mode::Upsert, &["id"],     vec![row(7, "a")],   vec![],                          "id = 7"),
        (Mode::Upsert, &["id"],     rows([1, 1], "a"),   vec![],                          "id = 1"),
        (Mode::Upsert, &["id"],     vec![],              vec![nothing.clone()],           "id = NULL"),
        (Mode::Upsert, &["id"],     vec![nothing],       vec![],                          "id = NULL"),
        (Mode::Upsert, &[],         vec![row(1, "b")],   vec![],                          "id = 1, name = b, score = 1.0"),
        (Mode::Upsert, &[],         rows([1, 1], "a"),   vec![],                          "holds 1 of the 2"),
        (Mode::Append, &[],         vec![row(1, "a")],   vec![],                          "id = 1, name = a"),
    ];
    for (mode, key, deletes, inserts, expected) in cases {
        let lake = Lake::new(mode, &[], &[]);
        let mut view = lake.open("app", view_options(mode, key, None)).unwrap();
        step(&mut view, 0, &change(&[], &rows([1, 2], "a")));
        let message = refusal(&mut view, 1, &change(&deletes, &inserts));
        assert!(message.contains(expected), "{expected}: {message}");
        assert_eq!(lake.rows(None), rows([1, 2], "a"), "nothing is written");
        step(&mut view, 1, &change(&[], &rows([3], "a")));
        assert_eq!(lake.rows(None), rows([1, 2, 3], "a"), "and the view goes on");
    }
}

#[test]
fn tables_that_do_not_fit_are_refused_with_what_to_do() {
    #[rustfmt::skip] // columns: mode of the table, mode of the view, property, key, what the refusal names
    let cases = [
        (Mode::Append, Mode::Upsert,    None,                             "id",  "ALTER TABLE delta.`t` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"),
        (Mode::Upsert, Mode::Upsert,    Some(("delta.appendOnly", "true")), "id", "delta.appendOnly"),
        (Mode::Upsert, Mode::Upsert,    None,                             "nix", "\"nix\""),
        (Mode::Upsert, Mode::Changelog, None,                             "id",  "_op (string) and _step (long)"),
    ];
    for (made, mode, property, key, expected) in cases {
        let lake = Lake::new(made, &[], property.as_slice());
        let error = lake.open("app", view_options(mode, &[key], None)).unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert_eq!(error.verdict(), Verdict::Stop(Exit::Config), "{error}");
    }
    let schema = TableSchema::parse("v", &SCHEMA.replace("score", "_OP")).unwrap();
    assert!(new_table(Mode::Changelog, &schema, vec![]).unwrap_err().to_string().contains("_op"));
}

#[test]
fn two_rows_of_a_key_in_the_table_are_an_error_not_a_choice() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut bag = lake.open("app", view_options(Mode::Upsert, &[], None)).unwrap();
    step(&mut bag, 0, &change(&[], &[row(1, "a"), row(2, "a"), row(1, "b")]));
    let error = lake.open("app", view_options(Mode::Upsert, &["id"], None)).unwrap_err();
    assert!(error.to_string().contains("two rows of the key id = 1"), "{error}");
    assert_eq!(error.verdict(), Verdict::Stop(Exit::Data));
}

#[test] // S48, by somebody else
fn a_file_that_is_live_twice_is_an_error_not_a_crash() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let mut view = lake.open("app", view_options(Mode::Upsert, &["id"], None)).unwrap();
    step(&mut view, 0, &change(&[], &rows(0..4, "a")));
    step(&mut view, 1, &change(&rows([1], "a"), &[]));
    step(&mut view, 2, &change(&rows([2], "a"), &[]));
    let commits = lake.commits();
    let before = commits[2].iter().find_map(|action| action.get("add").cloned()).unwrap();
    lake.foreign(&[serde_json::json!({"add": before})]);
    let error = view.commit(CommitId(9), &moves("app", 3, 4), None).unwrap_err();
    assert!(error.to_string().contains("live twice"), "{error}");
    assert_eq!(error.verdict(), Verdict::Stop(Exit::Data));
}

#[test]
fn a_new_table_has_the_protocol_that_it_needs() {
    let schema = TableSchema::parse("v", SCHEMA).unwrap();
    for (mode, vectors) in [(Mode::Append, false), (Mode::Upsert, true), (Mode::Changelog, false)] {
        let store = std::sync::Arc::new(object_store::memory::InMemory::new());
        let table: NewTable = new_table(mode, &schema, vec![]).unwrap();
        let _ = create_on(store.clone(), Path::from("t"), &table, &runtime()).unwrap();
        let protocol = Lake { store }.commits()[0].iter().find_map(|action| action.get("protocol").cloned()).unwrap();
        assert_eq!(protocol["minReaderVersion"], if vectors { 3 } else { 1 });
        assert_eq!(protocol["minWriterVersion"], if vectors { 7 } else { 2 });
        assert_eq!(protocol.to_string().matches("deletionVectors").count(), if vectors { 2 } else { 0 });
    }
}
