//! Golden cases: `tests/sql/*.sql` at the root of the workspace. Each is run in every way that must not matter.
#![allow(clippy::disallowed_methods, reason = "tests read the environment")]

mod case;
mod oracle;
mod restart;
mod restart_faults;
mod restart_many;
mod run;

use std::path::Path;

#[test]
fn goldens() {
    each_case(&every_way);
}

#[test]
fn goldens_without_a_circuit() {
    let ran = std::cell::Cell::new(0);
    each_case(&|case| {
        ran.set(ran.get() + usize::from(run::without_a_circuit(case)?));
        Ok(())
    });
    // One picked case may keep state.
    assert!(std::env::var_os("CASE").is_some() || ran.get() >= 8, "only {} cases keep nothing", ran.get());
}

fn each_case(check: &dyn Fn(&case::Case) -> Result<(), String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    assert!(!files.is_empty(), "no cases in {}", folder.display());
    let only = std::env::var("CASE").ok();
    let mut wrong = Vec::new();
    for file in &files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap();
        if let Err(why) = case::parse(&text).and_then(|case| check(&case)) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}

/// With tables that may change in every way, and again with those that only grow declared to.
fn every_way(case: &case::Case) -> Result<(), String> {
    run::every_way(case)?;
    restart::every_way(case)?;
    if !run::relations(case)?.iter().any(|relation| run::grows(case, relation)) {
        return Ok(());
    }
    let case = case::Case { grows: true, ..case.clone() };
    run::every_way(&case).and_then(|()| restart::every_way(&case)).map_err(|why| format!("growing: {why}"))
}
