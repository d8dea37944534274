//! The house's rules that a compiler does not know (functions over 70 lines are clippy's, see clippy.toml).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repository;

/// Files that git has or would take, by what they end with.
fn files(ending: &str) -> Vec<PathBuf> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(repository())
        .output()
        .expect("git lists the files");
    assert!(list.status.success(), "git ls-files: {}", String::from_utf8_lossy(&list.stderr));
    let text = String::from_utf8(list.stdout).expect("names are text");
    let names = text.lines().filter(|name| name.ends_with(ending)).map(PathBuf::from);
    names.filter(|name| repository().join(name).exists()).collect()
}

fn read(name: &Path) -> String {
    fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{}: {error}", name.display()))
}

/// The part of a source file that ships: up to its unit tests, where it holds them itself.
fn shipped(text: &str) -> &str {
    let inline = text.match_indices("#[cfg(test)]\nmod ").find(|(at, _)| {
        let line = text[*at..].lines().nth(1);
        line.is_some_and(|line| line.ends_with('{'))
    });
    inline.map_or(text, |(at, _)| &text[..at])
}

fn is_test(name: &Path) -> bool {
    let folders = ["tests", "tests.rs", "testkit", "examples", "fuzz"];
    name.components().any(|part| folders.iter().any(|folder| part.as_os_str() == *folder))
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn files_are_at_most_500_lines_without_tests() {
    let long = files(".rs").into_iter().filter(|name| !is_test(name)).filter_map(|name| {
        let lines = shipped(&read(&name)).lines().count();
        (lines > 500).then(|| format!("{}: {lines} lines", name.display()))
    });
    assert_none("files over 500 lines", &long.collect::<Vec<_>>());
}

#[test]
fn every_file_says_what_it_is() {
    let bare = files(".rs").into_iter().filter(|name| !is_test(name) && !read(name).starts_with("//!"));
    assert_none("no `//!` header", &bare.map(|name| name.display().to_string()).collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_to_do_or_ignored() {
    // Spelt in halves, so that this file does not find itself.
    let forbidden = [
        ["todo", "!("],
        ["unimplemented", "!("],
        ["dbg", "!("],
        ["#[ig", "nore"],
        ["TO", "DO:"],
        ["FIX", "ME"],
        ["XX", "X:"],
    ]
    .map(|halves| halves.concat());
    let found = files(".rs").into_iter().flat_map(|name| {
        let text = read(&name);
        let hits = forbidden.iter().filter(|word| text.contains(word.as_str()));
        hits.map(|word| format!("{}: {word}", name.display())).collect::<Vec<_>>()
    });
    assert_none("left to do", &found.collect::<Vec<_>>());
}

#[test]
fn no_path_of_somebodys_machine() {
    let folders = ["work", "root", "home"].map(|folder| format!("/{folder}/"));
    let mut found = Vec::new();
    for ending in [".rs", ".toml", ".md", ".sh", ".py", "Makefile", "justfile", ".ci/run"] {
        for name in files(ending) {
            let text = read(&name);
            let hits = text.lines().filter(|line| folders.iter().any(|folder| line.contains(folder.as_str())));
            found.extend(hits.map(|line| format!("{}: {}", name.display(), line.trim())));
        }
    }
    assert_none("paths of a machine", &found);
}

#[test]
fn the_map_names_only_what_exists() {
    let map = read(Path::new("ARCHITECTURE.md"));
    let quoted = map.split('`').skip(1).step_by(2);
    let looks_like_a_path = |word: &&str| {
        let path = word.split(['*', ' ']).next().unwrap_or_default();
        !word.contains([' ', '*', '(', '<', ':'])
            && (path.contains('/') || path.ends_with(".rs") || path.ends_with(".md"))
    };
    let missing = quoted.filter(looks_like_a_path).filter(|word| !repository().join(word).exists());
    assert_none("ARCHITECTURE.md names what is not there", &missing.map(str::to_owned).collect::<Vec<_>>());
}

/// The rooms and who may know whom: protocol <- {kafka, decode, circuit, delta} <- app; sim is never shipped.
#[test]
fn siblings_do_not_know_each_other() {
    #[rustfmt::skip] // columns: crate, the workspace's crates that its shipped code may name
    let allowed: [(&str, &[&str]); 7] = [
        ("protocol", &[]),
        ("kafka",    &["protocol"]),
        ("decode",   &["protocol"]),
        ("circuit",  &["protocol"]),
        ("delta",    &["protocol"]),
        ("app",      &["protocol", "kafka", "decode", "circuit", "delta"]),
        ("sim",      &["protocol", "kafka", "decode", "circuit", "delta"]),
    ];
    let mut wrong = Vec::new();
    for manifest in files("Cargo.toml").into_iter().filter(|name| name.starts_with("crates") && !is_test(name)) {
        let room = manifest.iter().nth(1).and_then(|name| name.to_str()).expect("crates/NAME/Cargo.toml");
        let (_, may) = allowed.iter().find(|(name, _)| *name == room).unwrap_or_else(|| panic!("no rule for {room}"));
        let text = read(&manifest);
        let shipped = text.split("[dev-dependencies]").next().expect("a first part");
        let known = shipped.lines().filter_map(|line| line.strip_prefix("lakeward-")?.split(['.', ' ', '=']).next());
        wrong.extend(known.filter(|known| !may.contains(known)).map(|known| format!("{room} knows {known}")));
    }
    assert_none("rooms that know too much", &wrong);
}

/// Warnings are errors in CI, so the workspace's lints must reach every crate.
#[test]
fn every_crate_takes_the_workspaces_lints() {
    let without = files("Cargo.toml")
        .into_iter()
        .filter(|name| name != Path::new("Cargo.toml") && !name.ends_with("fuzz/Cargo.toml"));
    let without = without.filter(|name| !read(name).replace('\n', " ").contains("[lints] workspace = true"));
    assert_none("no `[lints] workspace = true`", &without.map(|name| name.display().to_string()).collect::<Vec<_>>());
}

/// Python, Rust and C agree on UTF-8; editors and reviewers on spaces.
#[test]
fn no_tabs_no_trailing_blanks() {
    let mut found = BTreeSet::new();
    for ending in [".rs", ".py", ".md", ".toml"] {
        for name in files(ending) {
            if read(&name).lines().any(|line| line.contains('\t') || line.ends_with(' ')) {
                found.insert(name.display().to_string());
            }
        }
    }
    assert_none("tabs or trailing blanks", &found.into_iter().collect::<Vec<_>>());
}
