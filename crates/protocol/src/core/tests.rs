//! Where a partition begins, case by case. What follows from it is the model's matter.

use super::*;
use crate::ports::Breach;

const P0: PartitionId = PartitionId(0);

fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("not negative")
}

/// A process that was given partition 0 and has heard what the sink says of it.
fn told(policies: Policies, stored: Option<i64>, breach: Option<Breach>) -> Core {
    let mut core = Core::new(policies);
    core.on(Event::Gained(BTreeSet::from([P0])));
    let Action::Load { partitions, .. } = core.next() else { panic!("first of all, the sink is asked") };
    assert_eq!(partitions, BTreeSet::from([P0]));
    let frontier = stored.map(|stored| (P0, at(stored))).into_iter().collect();
    let head = Head { version: TableVersion(7), frontier, shape: Shape(1), breach, dead: [].into(), fading: [].into() };
    core.on(Event::Loaded { sink: SINK, head });
    core
}

/// Answers what it asks until it commits, starts or stops; the topic holds 10 to 20.
fn decision(mut core: Core) -> String {
    loop {
        match core.next() {
            Action::Open { sink } => core.on(Event::Opened { sink }),
            Action::Ask { partition } => {
                core.on(Event::Bounds { partition, bounds: Bounds { oldest: at(10), end: at(20) } });
            }
            Action::Name => core.on(Event::Named(crate::position::CommitId(1))),
            Action::Load { .. } => return anchors(&core),
            Action::Start { positions } => return format!("read from {}", positions[&P0]),
            Action::Stop(reason) => return format!("stop: {reason}"),
            Action::Release { .. } => return "ends".to_owned(),
            other => panic!("not expected at the start: {other:?}"),
        }
    }
}

fn anchors(core: &Core) -> String {
    let Work::Commit(commit) = &core.work else { panic!("a load for a commit") };
    let gaps: Vec<_> = commit.gaps.iter().map(|gap| format!("{} to {}", gap.from, gap.to)).collect();
    let advance = commit.advances[&P0];
    assert_eq!(advance.from, advance.to, "an anchor has no data");
    let expect = advance.expect.map_or("none".to_owned(), |expect| expect.to_string());
    format!("anchor {expect} to {}{}", advance.to, gaps.first().map(|gap| format!(", gap {gap}")).unwrap_or_default())
}

#[test]
fn a_partition_begins_at_the_only_safe_place() {
    let plain = Policies::default;
    let latest = || Policies { beginning: Beginning::Latest, ..plain() };
    let seek = |to| Policies { seek: Frontier::from([(P0, at(to))]), ..plain() };
    let starts = |to| Policies { starts: Frontier::from([(P0, at(to))]), ..plain() };
    let set = |to, force| {
        let to = Frontier::from([(P0, at(to))]);
        let ends = Some(to.clone());
        Policies { set: Some(Set { to, force, reason: "told to".to_owned() }), ends, ..plain() }
    };
    let skip = |policies| Policies { on_gap: OnGap::Skip, ..policies };
    let on = |on_restore| Policies { on_restore, ..plain() };
    let restored = || {
        let frontier = Frontier::from([(P0, at(12))]);
        Some(Breach::Restored { at: TableVersion(7), to: TableVersion(3), frontier })
    };
    let other = || {
        let (was, is) = ("A".to_owned(), "B".to_owned());
        Some(Breach::OtherTopic { was, is, partitions: BTreeSet::from([P0]) })
    };
    let forgotten = || Some(Breach::Forgotten { keeps: "a day".to_owned(), partitions: BTreeSet::from([P0]) });
    #[rustfmt::skip] // columns: policies, stored, breach, decision
    let cases = [
        (plain(),                  None,     None,       "read from 10"),
        (plain(),                  Some(15), None,       "read from 15"),
        (latest(),                 None,     None,       "anchor none to 20"),
        (latest(),                 Some(15), None,       "read from 15"),
        (seek(12),                 None,     None,       "anchor none to 12"),
        (seek(12),                 Some(12), None,       "read from 12"),
        (seek(12),                 Some(15), None,       "read from 15"),
        (seek(16),                 Some(6),  None,       "stop: partition 0: stored 5 seek 15"),
        (seek(5),                  None,     None,       "stop: partition 0: asked to start at offset 5"),
        (seek(25),                 None,     None,       "stop: partition 0: asked to start at offset 25"),
        (skip(seek(5)),            None,     None,       "anchor none to 10, gap 5 to 10"),
        (plain(),                  Some(15), restored(), "stop: the table was restored to version 3 by version 7"),
        (on(OnRestore::Replay),    Some(15), restored(), "anchor 15 to 12, gap 15 to 12"),
        (on(OnRestore::Accept),    Some(15), restored(), "anchor 15 to 15, gap 12 to 15"),
        (plain(),                  Some(15), other(),    "stop: the topic was deleted and made again"),
        (skip(plain()),            Some(15), other(),    "anchor 15 to 10, gap 15 to 10"),
        (starts(12),               None,     None,       "anchor none to 12"),
        (starts(16),               Some(6),  None,       "read from 6"),
        (starts(25),               None,     None,       "stop: partition 0: asked to start at offset 25"),
        (set(12, false),           None,     None,       "anchor none to 12"),
        (set(15, false),           Some(15), None,       "ends"),
        (set(18, false),           Some(15), None,       "anchor 15 to 18, gap 15 to 18"),
        (set(12, false),           Some(15), None,       "stop: partition 0: the table has everything below offset 15"),
        (set(12, true),            Some(15), None,       "anchor 15 to 12, gap 15 to 12"),
        (set(12, false),           Some(15), restored(), "anchor 15 to 12, gap 12 to 12"),
        (set(15, false),           Some(15), restored(), "anchor 15 to 15, gap 12 to 15"),
        (set(11, false),           Some(15), restored(), "stop: partition 0: the table has everything below offset 12"),
        (set(12, false),           Some(15), other(),    "anchor 15 to 12, gap 15 to 12"),
        (plain(),                  None,     forgotten(), "stop: partition 0: the table has no offset of it"),
        (latest(),                 None,     forgotten(), "stop: partition 0: the table has no offset of it"),
        (seek(12),                 None,     forgotten(), "stop: partition 0: the table has no offset of it"),
        (set(12, false),           None,     forgotten(), "anchor none to 12"),
    ];
    for (policies, stored, breach, expected) in cases {
        let decided = decision(told(policies.clone(), stored, breach));
        assert!(decided.starts_with(expected), "{policies:?} {stored:?}: {decided}, expected {expected}");
    }
}
