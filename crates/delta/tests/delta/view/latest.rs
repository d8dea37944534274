//! Events by key: the newest of each key is what the table holds, whoever commits between.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use lakeward_delta::DeltaError;
use lakeward_delta::view::{
    ByKey, Commit, Mode, Moved, Said, StageError, Staged, Stretch, View, ViewOptions, ViewWriter,
};
use lakeward_protocol::ports::{Exit, Fault, OutputLog, Verdict};
use lakeward_protocol::position::CommitId;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::support::{Lake, Row, batch, eager, moves, replay, row, rows, sorted, view_options};
use crate::support::runtime;

/// A row of that id and name, or its end.
type Event = (i64, Option<&'static str>);

fn stretch(chain: &str, events: &[Event]) -> Stretch {
    let coming: Vec<Row> = events.iter().filter_map(|(id, name)| Some(row(*id, (*name)?))).collect();
    let going: ArrayRef =
        Arc::new(Int64Array::from_iter_values(events.iter().filter(|(_, name)| name.is_none()).map(|(id, _)| *id)));
    Stretch {
        chain: chain.into(),
        rows: batch(&coming),
        deletes: RecordBatch::try_from_iter([("id", going)]).unwrap(),
        order: events.iter().map(|(_, name)| if name.is_some() { Said::Row } else { Said::Gone }).collect(),
        unsaid: BTreeMap::new(),
    }
}

fn by_id(by_key: ByKey) -> ViewOptions {
    ViewOptions { by_key, ..view_options(Mode::Upsert, &["id"], eager()) }
}

fn stage(view: &View, options: &ViewOptions, stretches: &[Stretch]) -> Result<Staged, StageError> {
    let mut writer = ViewWriter::open(&view.layout(), options).unwrap();
    writer.stage_latest(stretches, BTreeMap::new(), &runtime())
}

fn commit(view: &mut View, at: i64, staged: &Staged) -> Result<Commit, DeltaError> {
    view.commit(CommitId(at.unsigned_abs().into()), &moves("app", at, at + 1), Some(staged))
}

fn step(view: &mut View, options: &ViewOptions, at: i64, stretches: &[Stretch]) -> Result<(), String> {
    let staged = stage(view, options, stretches).map_err(|error| error.to_string())?;
    match commit(view, at, &staged) {
        Ok(Commit::Done(_)) => Ok(()),
        Ok(other) => panic!("step {at}: {other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

/// What the commits say came and went.
fn came_and_gone(lake: &Lake) -> Vec<(u64, u64)> {
    let note = |commit: &Vec<serde_json::Value>| {
        let info = commit.iter().find_map(|action| action.get("commitInfo"))?;
        let view = info["lakeward"].get("view")?;
        Some((view["came"].as_u64()?, view["gone"].as_u64()?))
    };
    lake.commits().iter().filter_map(note).collect()
}

#[test]
fn of_each_key_the_last_event_counts() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let options = ViewOptions { compaction: None, ..by_id(ByKey::default()) };
    let mut view = lake.open("app", options.clone()).unwrap();
    let events: [&[Event]; 4] = [
        &[(1, Some("a")), (2, Some("a")), (1, Some("b")), (3, Some("a")), (3, None), (9, None)],
        &[(1, None), (1, Some("c")), (4, Some("a")), (2, None)],
        &[(2, Some("z")), (2, None), (7, None)],
        &[(1, Some("d")), (4, None)],
    ];
    let expected = [
        vec![row(1, "b"), row(2, "a")],
        vec![row(1, "c"), row(4, "a")],
        vec![row(1, "c"), row(4, "a")],
        vec![row(1, "d")],
    ];
    for (at, (events, expected)) in (0..).zip(events.into_iter().zip(expected)) {
        step(&mut view, &options, at, &[stretch("app-0", events)]).unwrap();
        assert_eq!(lake.rows(None), sorted(expected), "after step {at}");
    }
    assert_eq!(came_and_gone(&lake), [(2, 0), (2, 2), (0, 0), (1, 2)], "what was there goes, and no more is said to");
    assert_eq!(replay(&lake.commits()), [0, 2, 2, 2, 1]);
    assert_eq!(view.rows(), 1);
}

#[test]
fn a_rivals_rows_are_replaced_too() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let options = by_id(ByKey { moved: Moved::LastCommit, ..ByKey::default() });
    let mut one = lake.open("app", options.clone()).unwrap();
    let mut two = lake.open("rival", options.clone()).unwrap();
    step(&mut one, &options, 0, &[stretch("app-0", &[(1, Some("a")), (2, Some("a")), (5, Some("a"))])]).unwrap();
    // Both are staged before either is committed.
    let first = stage(&one, &options, &[stretch("app-0", &[(1, Some("b")), (2, None), (3, Some("b"))])]).unwrap();
    let second = stage(&two, &options, &[stretch("rival-0", &[(2, Some("c")), (3, Some("c")), (1, None)])]).unwrap();
    assert!(matches!(commit(&mut one, 1, &first), Ok(Commit::Done(_))));
    let done = two.commit(CommitId(77), &moves("rival", 0, 1), Some(&second));
    assert!(matches!(done, Ok(Commit::Done(_))), "{done:?}");
    assert_eq!(lake.rows(None), sorted(vec![row(2, "c"), row(3, "c"), row(5, "a")]), "one row a key, the last one");
    step(&mut one, &options, 2, &[stretch("app-0", &[(3, None), (5, Some("e"))])]).unwrap();
    assert_eq!(lake.rows(None), sorted(vec![row(2, "c"), row(5, "e")]));
    replay(&lake.commits());
}

#[test]
fn a_key_that_changes_logs_is_refused_by_name() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let stop = by_id(ByKey::default());
    let mut view = lake.open("app", stop.clone()).unwrap();
    step(&mut view, &stop, 0, &[stretch("app-0", &[(1, Some("a")), (2, Some("a"))])]).unwrap();
    step(&mut view, &stop, 1, &[stretch("app-1", &[(3, Some("b")), (4, Some("b"))])]).unwrap();
    step(&mut view, &stop, 2, &[stretch("app-0", &[(2, None)])]).unwrap();
    // Compaction keeps whose rows are whose, and so does a new process.
    view.tend();
    view.settle().unwrap();
    let mut view = lake.open("app", stop.clone()).unwrap();
    let before = lake.rows(None);
    for (chain, id, other) in [("app-1", 1, "app-0"), ("app-0", 3, "app-1"), ("app-2", 4, "app-1")] {
        for event in [(id, Some("x")), (id, None)] {
            let error = step(&mut view, &stop, 3, &[stretch(chain, &[event])]).unwrap_err();
            let named = [format!("the key id = {id} come from {chain}"), format!("is of {other}")];
            assert!(named.iter().all(|name| error.contains(name)) && error.contains("--on-moved-key"), "{error}");
        }
    }
    let both = [stretch("app-0", &[(8, Some("x"))]), stretch("app-1", &[(8, Some("y"))])];
    assert!(step(&mut view, &stop, 3, &both).unwrap_err().contains("id = 8"), "within one batch as well");
    assert_eq!(lake.rows(None), before, "nothing is written");
    let accepted = by_id(ByKey { moved: Moved::LastCommit, ..ByKey::default() });
    let mut view = lake.open("app", accepted.clone()).unwrap();
    step(&mut view, &accepted, 3, &[stretch("app-1", &[(1, Some("moved"))]), both[0].clone(), both[1].clone()])
        .unwrap();
    let mut view = lake.open("app", stop.clone()).unwrap();
    step(&mut view, &stop, 4, &[stretch("app-1", &[(1, Some("stays")), (8, None)])]).unwrap();
    assert_eq!(lake.rows(None), sorted(vec![row(1, "stays"), row(3, "b"), row(4, "b")]));
}

#[test]
fn more_rows_than_there_is_memory_for_are_refused() {
    let lake = Lake::new(Mode::Upsert, &[], &[]);
    let options = by_id(ByKey { most_rows: 3, ..ByKey::default() });
    let mut view = lake.open("app", options.clone()).unwrap();
    step(&mut view, &options, 0, &[stretch("app-0", &[(1, Some("a")), (2, Some("a")), (3, Some("a"))])]).unwrap();
    let staged = stage(&view, &options, &[stretch("app-0", &[(4, Some("b"))])]).unwrap();
    let error = commit(&mut view, 1, &staged).unwrap_err();
    assert!(error.to_string().contains("--memory-mb"), "{error}");
    assert_eq!(error.verdict(), Verdict::Stop(Exit::Config));
    step(&mut view, &options, 1, &[stretch("app-0", &[(4, Some("b")), (1, None)])]).unwrap();
    assert_eq!(lake.rows(None), sorted([rows([2, 3], "a"), rows([4], "b")].concat()));
    let fewer = by_id(ByKey { most_rows: 2, ..ByKey::default() });
    assert!(matches!(lake.open("app", fewer), Err(DeltaError::TooManyKeys { .. })), "as soon as they are read");
}

/// The same with these rows' names unsaid.
fn unsaid(mut stretch: Stretch, rows: &[usize]) -> Stretch {
    stretch.unsaid = rows.iter().map(|row| (*row, vec![1])).collect();
    stretch
}

#[test]
fn what_an_event_does_not_say_stays_as_it_was() {
    for partition in [&[][..], &["name"]] {
        let lake = Lake::new(Mode::Upsert, partition, &[]);
        let options = by_id(ByKey { moved: Moved::LastCommit, ..ByKey::default() });
        let mut view = lake.open("app", options.clone()).unwrap();
        let scored = |id: i64, name: &str, score: i64| (Some(id), Some(name.to_owned()), Some(score as f64));
        // Their scores are said, their names are not.
        let scores = |chain: &str, events: &[Row], all: &[usize]| {
            let order = vec![Said::Row; events.len()];
            unsaid(Stretch { rows: batch(events), order, ..stretch(chain, &[]) }, all)
        };
        let first = [(1, Some("a")), (2, Some("b")), (3, Some("c"))];
        step(&mut view, &options, 0, &[stretch("app-0", &first)]).unwrap();
        let events =
            [scored(1, "?", 10), scored(2, "?", 20), scored(1, "?", 11), scored(4, "d", 40), scored(4, "?", 41)];
        step(&mut view, &options, 1, &[scores("app-0", &events, &[0, 1, 2, 4])]).unwrap();
        let expected = vec![scored(1, "a", 11), scored(2, "b", 20), scored(3, "c", 3), scored(4, "d", 41)];
        assert_eq!(lake.rows(None), sorted(expected));
        // A rival says another name between staging and commit: that one stays.
        let staged = stage(&view, &options, &[scores("app-0", &[scored(3, "?", 30)], &[0])]).unwrap();
        let mut rival = lake.open("rival", options.clone()).unwrap();
        let named = stage(&rival, &options, &[stretch("rival-0", &[(3, Some("rival")), (4, None)])]).unwrap();
        let done = rival.commit(CommitId(77), &moves("rival", 0, 1), Some(&named));
        assert!(matches!(done, Ok(Commit::Done(_))), "{done:?}");
        assert!(matches!(commit(&mut view, 2, &staged), Ok(Commit::Done(_))));
        assert_eq!(lake.rows(None), sorted(vec![scored(1, "a", 11), scored(2, "b", 20), scored(3, "rival", 30)]));
        // Nobody has said it: never there, gone, gone in the same batch.
        let gone = Stretch {
            rows: batch(&[scored(1, "?", 1)]),
            order: vec![Said::Gone, Said::Row],
            ..stretch("app-0", &[(1, None)])
        };
        let never = [scores("app-0", &[scored(9, "?", 1)], &[0]), scores("app-0", &[scored(4, "?", 1)], &[0])];
        for (events, id) in never.into_iter().chain([unsaid(gone, &[0])]).zip([9, 4, 1]) {
            let error = step(&mut view, &options, 3, &[events]).unwrap_err();
            assert!(error.contains(&format!("the key id = {id} leaves name as it was")), "{error}");
        }
        // What was before a row goes if it was another's.
        let moved = Stretch {
            rows: batch(&[scored(1, "?", 12), scored(20, "e", 1)]),
            order: vec![Said::Before, Said::Row, Said::Before, Said::Row],
            ..stretch("app-0", &[(1, None), (2, None)])
        };
        step(&mut view, &options, 3, &[unsaid(moved, &[0])]).unwrap();
        assert_eq!(lake.rows(None), sorted(vec![scored(1, "a", 12), scored(3, "rival", 30), scored(20, "e", 1)]));
        replay(&lake.commits());
        assert_eq!(view.rows(), 3);
    }
}

#[test]
fn random_events_with_restarts_and_compactions_equal_a_map() {
    for seed in 0..12 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let lake = Lake::new(Mode::Upsert, if seed % 2 == 0 { &[] } else { &["name"] }, &[]);
        let options = by_id(ByKey::default());
        let mut view = lake.open("app", options.clone()).unwrap();
        let mut model: BTreeMap<i64, &'static str> = BTreeMap::new();
        for at in 0..40 {
            let mut stretches = Vec::new();
            for chain in [0, 1] {
                let mut events: Vec<Event> = Vec::new();
                for _ in 0..rng.random_range(0..12) {
                    let id = rng.random_range(0..15) * 2 + chain;
                    let name = ["a", "b", "c"][rng.random_range(0..3)];
                    let event = (id, rng.random_bool(0.7).then_some(name));
                    match event.1 {
                        Some(name) => _ = model.insert(id, name),
                        None => _ = model.remove(&id),
                    }
                    events.push(event);
                }
                let cut = rng.random_range(0..=events.len());
                let chain = format!("app-{chain}");
                stretches.extend([stretch(&chain, &events[..cut]), stretch(&chain, &events[cut..])]);
            }
            step(&mut view, &options, at, &stretches).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let expected = model.iter().map(|(id, name)| row(*id, name)).collect();
            assert_eq!(lake.rows(None), sorted(expected), "seed {seed}, step {at}");
            view.tend();
            if rng.random_bool(0.2) {
                view.settle().unwrap();
                view = lake.open("app", options.clone()).unwrap();
            }
        }
        assert_eq!(*replay(&lake.commits()).last().unwrap(), model.len() as u64, "seed {seed}");
    }
}
