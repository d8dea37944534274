//! Which fault known from programs of this kind is proven where. K and P are the case list's numbers.
//!
//! Tests in this binary carry their cases' numbers in their names (`k58_p16_control_records..`), so the table
//! names only what is proven elsewhere, or is not yet ours to prove. A test keeps it whole.

use std::collections::BTreeSet;

use crate::repository;

/// Every case of the list.
#[rustfmt::skip]
const ALL: &str = "
    K01 K02 K04 K05 K07 K08 K10 K11 K13 K14 K16 K17 K19 K20 K22 K23 K25 K26 K28 K29 K31 K32 K34 K35 K37 K38 K40 K41 K43
    K44 K46 K47 K49 K50 K52 K53 K55 K56 K58 K59 K61 K62 K64 K65 K67 K68 K70 K71 K73 K74 K76 K77 K79 K80 K82 K83 K85 K86
    K88 K89 P01 P02 P04 P05 P07 P08 P10 P11 P13 P14 P16 P17 P19 P20 P22 P23 P25 P26 P28 P29 P31 P32 P34 P35 P37 P38 P40
    P41 P43 P44 P46 P47 P49 P50 P52 P53 P55 P56";

/// Cases whose test here goes by another name, and those of other test binaries: `path::test`.
const ELSEWHERE: &[(&str, &str)] = &[
    ("K14", "tests/e2e/kills.rs::kills_at_random"),
    ("P10", "tests/e2e/values.rs::p08_p10_p13_p14_shapes_and_names_that_change"),
    ("P40", "tests/e2e/stores/alone.rs::p40_a_store_that_ignores_conditions_is_refused_before_anything_is_written"),
    ("P41", "tests/e2e/stores/told.rs::p41_a_lock_table_is_not_needed_and_that_is_said_once"),
    ("P52", "crates/decode/src/tests/avro.rs::p52_what_is_no_record"),
    ("P53", "tests/e2e/commits.rs::k10_latency_flushes_and_an_idle_topic_commits_nothing"),
];

/// Cases that wait for another piece of work, by its subject.
const LATER: &[(&str, &[&str])] = &[];

/// Names of all tests of this binary, with their files.
fn tests() -> Vec<(String, String)> {
    let folder = repository().join("tests/e2e");
    let files = std::fs::read_dir(folder).expect("read the tests").flatten().map(|entry| entry.path());
    let sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    sources
        .flat_map(|path| {
            let text = std::fs::read_to_string(&path).expect("read a test");
            let file = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
            let after_attribute = text.split("#[test]\n").skip(1).map(str::to_owned).collect::<Vec<_>>();
            let name = |rest: String| Some(rest.strip_prefix("fn ")?.split('(').next()?.to_owned());
            after_attribute.into_iter().filter_map(name).map(|name| (file.clone(), name)).collect::<Vec<_>>()
        })
        .collect()
}

/// Cases in a test's name: `k58_p16_control_records` proves K58 and P16.
fn cases_of(name: &str) -> impl Iterator<Item = String> {
    let is_case =
        |word: &&str| word.len() == 3 && word.starts_with(['k', 'p']) && word[1..].bytes().all(|b| b.is_ascii_digit());
    name.split('_').filter(is_case).map(str::to_uppercase)
}

#[test]
fn every_case_is_proven_or_waits_for_a_named_piece_of_work() {
    let here: BTreeSet<_> = tests().iter().flat_map(|(_, name)| cases_of(name).collect::<Vec<_>>()).collect();
    let later: BTreeSet<_> = LATER.iter().flat_map(|(_, cases)| cases.iter().map(|case| (*case).to_owned())).collect();
    let elsewhere: BTreeSet<_> = ELSEWHERE.iter().map(|(case, _)| (*case).to_owned()).collect();
    let all: BTreeSet<_> = ALL.split_whitespace().map(str::to_owned).collect();
    let known: BTreeSet<_> = &(&here | &later) | &elsewhere;
    assert_eq!(&all - &known, BTreeSet::new(), "cases that nothing proves and nobody was given");
    assert_eq!(&known - &all, BTreeSet::new(), "no such cases");
    assert_eq!(&here & &later, BTreeSet::new(), "both proven and put off");
}

#[test]
fn what_is_proven_elsewhere_is_there() {
    for (case, place) in ELSEWHERE {
        let (file, test) = place.rsplit_once("::").expect("path::test");
        let text =
            std::fs::read_to_string(repository().join(file)).unwrap_or_else(|error| panic!("{case}: {file}: {error}"));
        assert!(text.contains(&format!("fn {test}(")), "{case}: no test {test} in {file}");
    }
}
