//! Explores the shipped core: every interleaving of processes, a group, a table and faults.
//!
//! The state is small: two processes run the very [`Core`] that ships, over a table, a topic and a
//! group boiled down to what matters (the same semantics as `memory`, without threads or clocks).
//! Between any two actions a process may crash, freeze (the others simply go on) and hear of a
//! rebalance; a put may fail, lose its reply, land late, find itself in the way, or be refused with
//! nothing there. Breadth-first, so that what breaks a promise is shown by a shortest history.
//!
//! Checked in every state: P1, P2, P8, P9 as far as a commit shows them, and that a fault-free run
//! leads from it to everything being committed. `broken_cores_are_caught` proves that this sees.

#[path = "model/explore.rs"]
mod explore;
#[path = "model/steps.rs"]
mod steps;
#[path = "model/steps_world.rs"]
mod steps_world;
#[path = "model/world.rs"]
mod world;

use lakeward_protocol::core::{Beginning, Break, OnGap, OnRestore, Policies, Set};
use lakeward_protocol::position::{Frontier, Offset, PartitionId};

use explore::{Explored, explore};
use world::{Budget, Scene, World};

const OWNERS: &str = "one partition, owners that come and go";
const SHAPE: &str = "one partition, a new shape amid it all";
const GROW: &str = "two processes that add a column";
const STOP: &str = "foreign writers, a new shape, a wish to stop";
const LATEST: &str = "latest";
const EXPIRY: &str = "expiry, skipped";
const REWIND: &str = "a frontier set back, replayed";
const RESTORE: &str = "a restore, replayed";
const LETTERS: &str = "dead letters, owners that come and go";
const LOSS: &str = "dead letters whose records expire, skipped";
const FADE: &str = "frontiers that the table forgets, told again";
const FORGOTTEN: &str = "a frontier that the table forgot, stopped at";
const SET: &str = "a frontier set by a person, without leave to go back";

/// Two processes, two partitions, and every fault that a healthy table and topic can meet.
fn scenes() -> Vec<Scene> {
    let base = Scene { records: [1, 1], exact: true, ..Scene::default() };
    vec![
        Scene {
            name: "crashes and lost replies",
            budget: Budget { crashes: 1, fates: 2, ..Budget::default() },
            total: 3,
            ..base.clone()
        },
        Scene {
            name: "a rebalance and lost replies",
            budget: Budget { crashes: 1, fates: 1, evictions: 1, handovers: 1, ..Budget::default() },
            total: 2,
            ..base.clone()
        },
        Scene {
            name: STOP,
            budget: Budget { fates: 1, foreign: 1, reshapes: 1, evictions: 1, stops: 1, ..Budget::default() },
            total: 2,
            ..base.clone()
        },
        Scene {
            name: OWNERS,
            records: [2, 0],
            budget: Budget { crashes: 1, fates: 1, evictions: 2, handovers: 1, ..Budget::default() },
            total: 3,
            ..base.clone()
        },
        Scene {
            name: SHAPE,
            records: [2, 0],
            budget: Budget { crashes: 1, fates: 1, evictions: 1, foreign: 1, reshapes: 1, ..Budget::default() },
            total: 3,
            ..base.clone()
        },
        Scene {
            name: GROW,
            grows: true,
            budget: Budget { crashes: 1, fates: 1, evictions: 1, foreign: 1, ..Budget::default() },
            total: 2,
            ..base
        },
    ]
}

/// What is gone, and a beginning that is committed first: one option each.
fn rare_scenes() -> Vec<Scene> {
    let one = Scene { records: [2, 0], exact: false, ..Scene::default() };
    let rewinds = Budget { crashes: 1, fates: 1, rewinds: 1, ..Budget::default() };
    let restores = Budget { crashes: 1, fates: 1, restores: 1, ..Budget::default() };
    let policies = Policies::default;
    vec![
        Scene {
            name: LATEST,
            records: [1, 0],
            policies: Policies { beginning: Beginning::Latest, ..policies() },
            budget: Budget { crashes: 1, fates: 1, evictions: 1, appends: 2, ..Budget::default() },
            total: 4,
            ..one.clone()
        },
        Scene {
            name: "a start is committed while records of another partition wait, and the shape changes",
            records: [1, 1],
            policies: Policies { beginning: Beginning::Latest, ..policies() },
            budget: Budget { appends: 1, reshapes: 1, fates: 1, ..Budget::default() },
            total: 3,
            ..one.clone()
        },
        Scene {
            name: EXPIRY,
            policies: Policies { on_gap: OnGap::Skip, ..policies() },
            budget: Budget { crashes: 1, fates: 1, expiries: 2, ..Budget::default() },
            total: 4,
            ..one.clone()
        },
        Scene {
            name: "expiry, stopped at",
            budget: Budget { crashes: 1, fates: 1, expiries: 1, ..Budget::default() },
            total: 3,
            stops: true,
            ..one.clone()
        },
        Scene {
            name: REWIND,
            policies: Policies { on_restore: OnRestore::Replay, ..policies() },
            budget: rewinds.clone(),
            total: 3,
            ..one.clone()
        },
        Scene {
            name: "a frontier set back, accepted",
            policies: Policies { on_restore: OnRestore::Accept, ..policies() },
            budget: rewinds.clone(),
            total: 3,
            ..one.clone()
        },
        Scene { name: "a frontier set back, stopped at", budget: rewinds, total: 3, stops: true, ..one.clone() },
        Scene {
            name: RESTORE,
            policies: Policies { on_restore: OnRestore::Replay, ..policies() },
            budget: restores.clone(),
            total: 3,
            ..one.clone()
        },
        Scene {
            name: "a restore, accepted",
            policies: Policies { on_restore: OnRestore::Accept, ..policies() },
            budget: restores.clone(),
            total: 3,
            ..one.clone()
        },
        Scene { name: "a restore, stopped at", budget: restores, total: 3, stops: true, ..one },
    ]
}

/// A table of dead letters beside the other one: every second record is bad.
fn letter_scenes() -> Vec<Scene> {
    let policies = Policies { dead_letters: true, ..Policies::default() };
    let base = Scene { records: [3, 0], exact: true, policies: policies.clone(), ..Scene::default() };
    let expires = Budget { crashes: 1, fates: 1, expiries: 2, ..Budget::default() };
    vec![
        Scene {
            name: LETTERS,
            budget: Budget { crashes: 1, fates: 1, evictions: 1, ..Budget::default() },
            total: 2,
            ..base.clone()
        },
        Scene {
            name: "dead letters, handed over",
            budget: Budget { crashes: 1, fates: 1, handovers: 1, stops: 1, ..Budget::default() },
            total: 2,
            ..base.clone()
        },
        Scene {
            name: "dead letters, crashes again and again",
            budget: Budget { crashes: 3, fates: 1, ..Budget::default() },
            total: 3,
            ..base.clone()
        },
        Scene {
            name: "dead letters of two partitions",
            records: [1, 1],
            budget: Budget { crashes: 1, fates: 1, evictions: 1, ..Budget::default() },
            total: 1,
            ..base.clone()
        },
        Scene {
            name: "dead letters, new shapes of both tables",
            budget: Budget { crashes: 1, fates: 1, foreign: 1, reshapes: 2, ..Budget::default() },
            total: 2,
            ..base.clone()
        },
        Scene {
            name: LOSS,
            exact: false,
            policies: Policies { on_gap: OnGap::Skip, ..policies },
            budget: expires.clone(),
            total: 3,
            ..base.clone()
        },
        Scene { name: "dead letters whose records expire, stopped at", budget: expires, total: 3, stops: true, ..base },
    ]
}

/// A table that forgets frontiers that are not committed again.
fn scenes_of_age() -> Vec<Scene> {
    let base = Scene { records: [2, 0], exact: true, total: 3, ..Scene::default() };
    let to = Frontier::from([(PartitionId(0), Offset::new(1).expect("not negative"))]);
    let by_hand = Set { to, force: false, reason: "told to".to_owned() };
    vec![
        Scene {
            name: FADE,
            budget: Budget { fades: 2, crashes: 1, fates: 1, evictions: 1, ..Budget::default() },
            ..base.clone()
        },
        Scene {
            name: "two partitions, one of which fades while records of the other wait, and the shape changes",
            records: [1, 1],
            budget: Budget { fades: 1, fates: 1, reshapes: 1, handovers: 1, ..Budget::default() },
            total: 2,
            ..base.clone()
        },
        Scene {
            name: "a frontier that fades while dead letters are owed",
            records: [3, 0],
            policies: Policies { dead_letters: true, ..Policies::default() },
            budget: Budget { fades: 1, crashes: 1, fates: 1, ..Budget::default() },
            ..base.clone()
        },
        Scene {
            name: FORGOTTEN,
            stops: true,
            budget: Budget { fades: 1, vanishes: 1, crashes: 1, evictions: 1, fates: 1, ..Budget::default() },
            total: 4,
            ..base.clone()
        },
        Scene {
            name: "a frontier that the table forgot, set by a person",
            stops: true,
            exact: false,
            set: Some(by_hand),
            budget: Budget { fades: 1, vanishes: 1, crashes: 1, sets: 1, ..Budget::default() },
            total: 4,
            ..base
        },
    ]
}

/// A person sets the table's frontier while processes run.
fn scenes_of_sets() -> Vec<Scene> {
    let set = |force| {
        let to = Frontier::from([(PartitionId(0), Offset::new(1).expect("not negative"))]);
        Some(Set { to, force, reason: "told to".to_owned() })
    };
    let budget = Budget { crashes: 1, fates: 1, evictions: 1, sets: 1, ..Budget::default() };
    let one = Scene { records: [2, 0], budget, total: 3, ..Scene::default() };
    vec![
        Scene { name: SET, set: set(false), ..one.clone() },
        Scene {
            name: "a frontier set by a person, with leave to go back",
            set: set(true),
            policies: Policies { on_restore: OnRestore::Replay, ..Policies::default() },
            ..one.clone()
        },
        Scene {
            name: "a frontier set by a person, and processes that stop at it",
            set: set(true),
            stops: true,
            budget: Budget { fates: 1, sets: 1, foreign: 1, reshapes: 1, ..Budget::default() },
            ..one
        },
    ]
}

#[test]
fn every_interleaving_keeps_the_promises() {
    let mut states = 0;
    let (rare, letters, sets, age) = (rare_scenes(), letter_scenes(), scenes_of_sets(), scenes_of_age());
    for scene in scenes().iter().chain(&rare).chain(&letters).chain(&sets).chain(&age) {
        let Explored { states: these, moves, depth } =
            explore(scene.name, World::new(scene, None)).unwrap_or_else(|history| panic!("{}: {history}", scene.name));
        println!("{:>9} states {moves:>9} moves, {depth:>3} deep: {}", these, scene.name);
        states += these;
    }
    println!("{states:>9} states in all");
    assert!(states > 300_000, "the model shrank: {states} states");
}

/// Each fault of the core, the scene that shows it, and the promise that it breaks.
#[rustfmt::skip] // columns
const BREAKS: [(Break, &str, &str); 35] = [
    (Break::SkipCompare,     OWNERS,   "P1"),
    (Break::CompareAtLeast,  OWNERS,   "P1"),
    (Break::BlindRetry,      OWNERS,   "P1"),
    (Break::RebaseOnTaken,   OWNERS,   "P1"),
    (Break::UnknownIsDone,   OWNERS,   "P1"),
    (Break::NeverFind,       OWNERS,   "P1"),
    (Break::FindTooLate,     OWNERS,   "P1"),
    (Break::KeepAfterFence,  OWNERS,   "P1"),
    (Break::TrustGroup,      OWNERS,   "P1"),
    (Break::AnnounceEarly,   OWNERS,   "P1"),
    (Break::ReleaseEarly,    OWNERS,   "P8"),
    (Break::IgnoreLost,      OWNERS,   "P8"),
    (Break::KeepLostRecords, OWNERS,   "P8"),
    (Break::StartTooHigh,    OWNERS,   "P2"),
    (Break::StartTooLow,     OWNERS,   "P1"),
    (Break::ForgetShape,     SHAPE,    "P1"),
    (Break::ReshapeAnyway,   GROW,     "P1"),
    (Break::ReuseCommitId,   OWNERS,   "P1"),
    (Break::NoAnchor,        LATEST,   "P2"),
    (Break::SilentGap,       EXPIRY,   "P9"),
    (Break::EndEarly,        STOP,     "P8"),
    (Break::IgnoreRewind,    REWIND,   "P9"),
    (Break::IgnoreBreach,    RESTORE,  "P9"),
    (Break::LettersFirst,    LETTERS,  "P7"),
    (Break::LettersNever,    LETTERS,  "P7"),
    (Break::LettersUncompared, LETTERS, "P1"),
    (Break::NoMark,          LETTERS,  "P7"),
    (Break::LeaveOwed,       LETTERS,  "P7"),
    (Break::ReadPastOwed,    LETTERS,  "P7"),
    (Break::SilentLoss,      LOSS,     "P9"),
    (Break::SetBackUnasked,  SET,      "P1"),
    (Break::BeginForgotten,  FORGOTTEN, "P1"),
    (Break::RenewUncompared, FADE,     "P2"),
    (Break::RenewTaken,      FADE,     "P1"),
    (Break::NeverRenew,      FADE,     "P1"),
];

#[test]
fn broken_cores_are_caught() {
    assert_eq!(BREAKS.map(|(fault, ..)| fault), Break::ALL, "every fault has its promise");
    let rare = rare_scenes().into_iter().chain(letter_scenes()).chain(scenes_of_sets()).chain(scenes_of_age());
    let scenes: Vec<Scene> = scenes().into_iter().chain(rare).collect();
    for (fault, scene, promise) in BREAKS {
        let scene = scenes.iter().find(|known| known.name == scene).expect("a scene of that name");
        let Err(how) = explore(scene.name, World::new(scene, Some(fault))) else {
            panic!("{}: nobody noticed {fault:?}", scene.name)
        };
        println!("{fault:?}: {} ({}, {} moves)", how.broken, scene.name, how.moves.len());
        assert!(how.broken.starts_with(promise), "{fault:?} breaks {promise}, but was seen as: {how}");
    }
}
