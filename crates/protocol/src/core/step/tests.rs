//! Where a pipeline begins and what it refuses, case by case. What follows from it is the model's matter.

use std::sync::Arc;

use super::*;
use crate::core::{Beginning, OnGap};
use crate::ports::{Breach, Head};
use crate::position::CommitId;

const P0: PartitionId = PartitionId(0);
const P1: PartitionId = PartitionId(1);

fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("not negative")
}

/// Offsets of partitions 0 and 1; a negative one is none.
type Pair = (i64, i64);

fn frontier((first, second): Pair) -> Frontier {
    [(P0, first), (P1, second)].into_iter().filter(|(_, raw)| *raw >= 0).map(|(p, raw)| (p, at(raw))).collect()
}

fn checkpoint(number: u64, place: Pair) -> Checkpoint {
    let (number, id) = (CheckpointNumber(number), CommitId(number.into()));
    Checkpoint { number, id, frontier: frontier(place), begun: Frontier::new(), state: Some(Vec::new()) }
}

/// What is done first, in words, by a process that finds this; the source holds 0 to 99 of either partition.
fn first(plan: StepPlan, checkpoints: &[Checkpoint], sinks: [Pair; 2], breach: Option<&Breach>) -> String {
    let mut core = StepCore::new(Arc::new(plan));
    core.on(StepEvent::Gained(BTreeSet::from([P0, P1])));
    let mut listed = 0;
    loop {
        match core.next() {
            StepAction::List => {
                listed += 1;
                core.on(StepEvent::Listed(checkpoints.to_vec()));
            }
            StepAction::Load { sink, .. } => {
                let frontier = frontier(sinks[usize::from(sink.0)]);
                let breach = breach.filter(|_| sink.0 == 0).cloned();
                core.on(StepEvent::Loaded(Head {
                    version: TableVersion(7),
                    frontier,
                    shape: Shape(1),
                    breach,
                    dead: [].into(),
                    fading: [].into(),
                }));
            }
            StepAction::Open { sink } => core.on(StepEvent::Opened(sink)),
            StepAction::Ask { partition } => {
                core.on(StepEvent::Bounds { partition, bounds: Bounds { oldest: at(0), end: at(99) } });
            }
            StepAction::Name => core.on(StepEvent::Named(CommitId(1))),
            StepAction::Save(beginning) => return format!("begin {}", shown(&beginning.frontier)),
            StepAction::Restore(from) if from.number.0 == 13 => {
                core.on(StepEvent::Restored(crate::ports::Restored::Missing));
            }
            StepAction::Restore(from) => {
                core.on(StepEvent::Restored(crate::ports::Restored::Done));
                if let StepAction::Gaps { .. } = core.next() {
                    core.on(StepEvent::Gaps(None));
                }
                if let StepAction::Stop(_) = core.next() {
                    continue;
                }
                let wanted: Vec<u8> = core.wanted().iter().map(|sink| sink.0).collect();
                let limit = core.boundary().map(|limit| format!(" to {}", shown(limit))).unwrap_or_default();
                return format!("restore {} at {}{limit}, want {wanted:?}", from.number, shown(&from.frontier));
            }
            StepAction::Stop(reason) => {
                let word = format!("{reason:?}");
                let word = word.split([' ', '{']).next().expect("a word");
                return format!("stop: {word}{}", if listed > 1 { " after a second look" } else { "" });
            }
            other => panic!("not expected at the start: {other:?}"),
        }
    }
}

fn shown(frontier: &Frontier) -> String {
    format!("{:?}", frontier.values().map(|at| at.get()).collect::<Vec<_>>())
}

#[test]
fn a_pipeline_begins_at_the_only_safe_place() {
    let plain = || StepPlan::new(1, vec!["sums".into(), "letters".into()]);
    let latest =
        || StepPlan { sources: vec![SourcePlan { beginning: Beginning::Latest, ..SourcePlan::default() }], ..plain() };
    let seek = |to| StepPlan { seek: Frontier::from([(P0, at(to))]), ..plain() };
    let skip = || StepPlan { sources: vec![SourcePlan { on_gap: OnGap::Skip, ..SourcePlan::default() }], ..plain() };
    let replay = || StepPlan { on_lost_state: OnLostState::Replay, ..plain() };
    let (none, c) = ((-1, -1), checkpoint);
    #[rustfmt::skip] // columns: name, plan, checkpoints, the two sinks, what is done
    let cases: [(&str, StepPlan, Vec<Checkpoint>, [Pair; 2], &str); 22] = [
        ("new",                        plain(),  vec![],                      [none, none],         "begin [0, 0]"),
        ("new, latest",                latest(), vec![],                      [none, none],         "begin [99, 99]"),
        ("new, seek",                  seek(5),  vec![],                      [none, none],         "begin [5, 0]"),
        ("new, seek outside",          seek(100), vec![],                     [none, none],         "stop: SeekOutside"),
        ("seek ahead of what is there", seek(9), vec![c(1, (5, 5))],          [(5, 5), (5, 5)],     "stop: SeekAhead"),
        ("begun, nothing done",        plain(),  vec![c(0, (0, 0))],          [none, none],         "restore 0 at [0, 0], want [0, 1]"),
        ("level",                      plain(),  vec![c(3, (5, 5))],          [(5, 5), (5, 5)],     "restore 3 at [5, 5], want [0, 1]"),
        ("replay, all have it",        plain(),  vec![c(3, (5, 5))],          [(7, 6), (7, 6)],     "restore 3 at [5, 5] to [7, 6], want []"),
        ("P9: gaps of before are not known", skip(), vec![c(3, (5, 5))],      [(7, 6), (7, 6)],     "stop: NoHistory"),
        ("gaps of before do not matter", skip(), vec![c(3, (5, 5))],          [(5, 5), (5, 5)],     "restore 3 at [5, 5], want [0, 1]"),
        ("second sink lags",           plain(),  vec![c(3, (5, 5))],          [(7, 6), (6, 5)],     "restore 3 at [5, 5] to [6, 5], want []"),
        ("second sink is at the checkpoint", plain(), vec![c(3, (5, 5))],     [(7, 6), (5, 5)],     "restore 3 at [5, 5] to [7, 6], want [1]"),
        ("second sink has nothing",    plain(),  vec![c(0, (0, 0))],          [(7, 6), none],       "restore 0 at [0, 0] to [7, 6], want [1]"),
        ("newest is missing",          plain(),  vec![c(12, (3, 3)), c(13, (5, 5))], [(7, 6), (7, 6)], "restore 12 at [3, 3] to [7, 6], want []"),
        ("P4: ahead of the second",    plain(),  vec![c(3, (5, 5))],          [(7, 6), (5, 4)],     "stop: Ahead"),
        ("P4: ahead of the first",     plain(),  vec![c(3, (5, 5))],          [(4, 9), (4, 9)],     "stop: Ahead"),
        ("P7: second ahead of first",  plain(),  vec![c(3, (5, 5))],          [(7, 6), (8, 6)],     "stop: Unordered"),
        ("P7: not ordered at all",     plain(),  vec![c(3, (5, 5))],          [(7, 6), (6, 7)],     "stop: Unordered"),
        ("no state",                   plain(),  vec![],                      [(7, 6), (7, 6)],     "stop: NoState after a second look"),
        ("no state, second sink alone", plain(), vec![],                      [none, (1, 1)],       "stop: NoState after a second look"),
        ("no state, replayed",         replay(), vec![],                      [(7, 6), none],       "restore 0 at [] to [7, 6], want [1]"),
        ("a partition that is not there", plain(), vec![Checkpoint { frontier: Frontier::from([(PartitionId(2), at(1))]), ..c(3, (5, 5)) }],
                                                                              [(7, 6), (7, 6)],     "stop: NoPartition"),
    ];
    for (name, plan, checkpoints, sinks, expected) in cases {
        assert_eq!(first(plan, &checkpoints, sinks, None), expected, "{name}");
    }
}

#[test]
fn a_breach_of_any_sink_stops() {
    let breach = Breach::Recreated { was: "a".into(), is: "b".into() };
    let plan = StepPlan::new(1, vec!["sums".into(), "letters".into()]);
    let what = first(plan, &[checkpoint(3, (5, 5))], [(5, 5), (5, 5)], Some(&breach));
    assert_eq!(what, "stop: Broken");
}

#[test]
fn sinks_without_an_order_among_them_are_refused() {
    let plan = StepPlan::new(1, vec!["sums".into(), "letters".into(), "counts".into()]);
    let mut core = StepCore::new(Arc::new(plan));
    core.on(StepEvent::Gained(BTreeSet::from([P0, P1])));
    core.on(StepEvent::Listed(vec![checkpoint(3, (5, 5))]));
    for place in [(6, 7), (7, 6), (8, 8)] {
        let head = Head {
            version: TableVersion(7),
            frontier: frontier(place),
            shape: Shape(1),
            breach: None,
            dead: [].into(),
            fading: [].into(),
        };
        core.on(StepEvent::Loaded(head));
    }
    let StepAction::Stop(reason) = core.next() else {
        panic!("P7: either is behind the first, neither behind the other")
    };
    assert!(reason.to_string().contains("sink counts") && reason.to_string().contains("sink letters"), "{reason}");
}
