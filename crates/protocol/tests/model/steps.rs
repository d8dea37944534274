//! By step: two sinks, one circuit, checkpoints; everything that can happen between any two actions.

use lakeward_protocol::core::step::{OnLostState, StepBreak};
use lakeward_protocol::core::{Beginning, OnGap};

use super::explore::{Explored, explore};
use super::steps_world::{Budget, Record, Scene, World};

/// Changes the first sink, the second one, both, none.
const SUM: Record = [1, 0];
const LETTER: Record = [0, 1];
const BOTH: Record = [4, 4];
const NOTHING: Record = [0, 0];

const RIVALS: &str = "by step: two processes at once";
const VECTOR: &str = "by step: two processes, two partitions";
const CRASHES: &str = "by step: crashes, lost replies, checkpoints";
const SHAPE: &str = "by step: foreign writers, a new shape, a wish to stop";
const LATEST: &str = "by step: latest";
const LOSSES: &str = "by step: the newest checkpoint is lost, input is trimmed";
const ADDED: &str = "by step: a partition is added";
const REWIND: &str = "by step: a frontier set back";
const SKIP: &str = "by step: input expires, skipped";
const RETURN: &str = "by step: input expires, is skipped, and is there again";
const EXPIRY: &str = "by step: input expires";

fn base() -> Scene {
    Scene { partitions: 1, saves: 1, ..Scene::default() }
}

fn scenes() -> Vec<Scene> {
    [alone(), rivals(), rare(), skipping()].concat()
}

/// One process at a time.
fn alone() -> Vec<Scene> {
    let one = base();
    vec![
        Scene {
            name: CRASHES,
            records: [&[BOTH, LETTER, SUM], &[]],
            budget: Budget { crashes: 1, fates: 1, ..Budget::default() },
            total: 2,
            saves: 2,
            ..one.clone()
        },
        Scene {
            name: "by step: crashes upon crashes",
            records: [&[BOTH, LETTER], &[]],
            budget: Budget { crashes: 3, ..Budget::default() },
            total: 3,
            ..one.clone()
        },
        Scene {
            name: "by step: crashes and lost replies, two partitions",
            records: [&[BOTH], &[LETTER]],
            partitions: 2,
            budget: Budget { crashes: 1, fates: 1, ..Budget::default() },
            total: 2,
            ..one.clone()
        },
        Scene {
            name: SHAPE,
            records: [&[LETTER, NOTHING, BOTH], &[]],
            budget: Budget { crashes: 1, fates: 1, foreign: 1, reshapes: 1, stops: 1, ..Budget::default() },
            total: 2,
            saves: 0,
            ..one.clone()
        },
    ]
}

/// Two processes at once; checkpoints that get lost, input that is trimmed.
fn rivals() -> Vec<Scene> {
    let one = base();
    vec![
        Scene {
            name: RIVALS,
            records: [&[BOTH, LETTER], &[]],
            budget: Budget { crashes: 1, fates: 1, rivals: 1, ..Budget::default() },
            total: 2,
            ..one.clone()
        },
        Scene {
            name: VECTOR,
            records: [&[BOTH, BOTH], &[LETTER]],
            partitions: 2,
            budget: Budget { rivals: 1, ..Budget::default() },
            total: 1,
            saves: 0,
            ..one.clone()
        },
        Scene {
            name: LATEST,
            records: [&[BOTH, LETTER], &[]],
            beginning: Beginning::Latest,
            budget: Budget { crashes: 1, fates: 1, rivals: 1, appends: 1, ..Budget::default() },
            total: 3,
            saves: 0,
            ..one.clone()
        },
        Scene {
            name: LOSSES,
            records: [&[BOTH, LETTER, SUM], &[]],
            trims: true,
            budget: Budget { crashes: 1, fates: 1, losses: 1, stops: 1, ..Budget::default() },
            total: 2,
            saves: 3,
            ..one.clone()
        },
        Scene {
            name: "by step: two processes trim and remove",
            records: [&[BOTH, LETTER], &[]],
            trims: true,
            budget: Budget { crashes: 1, rivals: 1, losses: 1, ..Budget::default() },
            total: 2,
            saves: 3,
            ..one.clone()
        },
    ]
}

/// What is added or gone.
fn rare() -> Vec<Scene> {
    let one = base();
    let lost = Scene { records: [&[BOTH, LETTER], &[]], stops: true, total: 2, ..base() };
    vec![
        Scene {
            name: ADDED,
            records: [&[BOTH], &[LETTER, SUM]],
            budget: Budget { crashes: 1, rivals: 1, extends: 1, ..Budget::default() },
            total: 3,
            saves: 0,
            ..one.clone()
        },
        Scene {
            name: "by step: a partition is added, latest",
            records: [&[BOTH, LETTER], &[SUM]],
            beginning: Beginning::Latest,
            budget: Budget { crashes: 1, fates: 1, appends: 1, extends: 1, ..Budget::default() },
            total: 4,
            ..one.clone()
        },
        Scene {
            name: "by step: the store of checkpoints is lost, replayed",
            records: [&[BOTH, LETTER], &[]],
            on_lost_state: OnLostState::Replay,
            budget: Budget { crashes: 2, fates: 1, wipes: 1, ..Budget::default() },
            total: 2,
            ..one.clone()
        },
        Scene {
            name: "by step: the store of checkpoints is lost, stopped at",
            budget: Budget { crashes: 1, fates: 1, wipes: 1, ..Budget::default() },
            ..lost.clone()
        },
        Scene {
            name: REWIND,
            budget: Budget { crashes: 1, fates: 1, rewinds: 1, ..Budget::default() },
            ..lost.clone()
        },
        Scene {
            name: "by step: a restore",
            budget: Budget { crashes: 1, fates: 1, restores: 1, ..Budget::default() },
            ..lost.clone()
        },
        Scene { name: EXPIRY, budget: Budget { crashes: 1, fates: 1, expiries: 1, ..Budget::default() }, ..lost },
    ]
}

/// What is gone before it was read is skipped.
fn skipping() -> Vec<Scene> {
    let skip = Scene { on_gap: OnGap::Skip, ..base() };
    vec![
        Scene {
            name: SKIP,
            records: [&[SUM, LETTER, BOTH], &[]],
            budget: Budget { crashes: 1, fates: 1, expiries: 2, returns: 1, ..Budget::default() },
            total: 4,
            ..skip.clone()
        },
        Scene {
            name: "by step: input expires beside a rival, skipped",
            records: [&[BOTH, LETTER], &[]],
            budget: Budget { crashes: 1, rivals: 1, expiries: 1, ..Budget::default() },
            total: 3,
            ..skip.clone()
        },
        Scene {
            name: "by step: input of two partitions expires, skipped",
            records: [&[BOTH], &[LETTER]],
            partitions: 2,
            budget: Budget { crashes: 1, expiries: 2, stops: 1, ..Budget::default() },
            total: 3,
            saves: 0,
            ..skip.clone()
        },
        Scene {
            name: "by step: input expires and is trimmed, skipped",
            records: [&[BOTH, LETTER], &[]],
            trims: true,
            budget: Budget { crashes: 1, expiries: 1, losses: 1, ..Budget::default() },
            total: 2,
            saves: 3,
            ..skip.clone()
        },
        Scene {
            name: RETURN,
            records: [&[BOTH, LETTER], &[]],
            budget: Budget { crashes: 1, expiries: 1, returns: 1, ..Budget::default() },
            total: 3,
            stops: true,
            ..skip
        },
    ]
}

fn explore_all(scenes: &[Scene], at_least: usize) {
    let mut states = 0;
    for scene in scenes {
        let Explored { states: these, moves, depth } =
            explore(scene.name, World::new(scene, None)).unwrap_or_else(|history| panic!("{}: {history}", scene.name));
        println!("{these:>9} states {moves:>9} moves, {depth:>3} deep: {}", scene.name);
        states += these;
    }
    println!("{states:>9} states by step in {} scenes", scenes.len());
    assert!(states > at_least, "the model shrank: {states} states");
}

// Several tests, so that they share the cores.
#[test]
fn every_interleaving_by_step_of_one_process_keeps_the_promises() {
    explore_all(&alone(), 150_000);
}

#[test]
fn every_interleaving_by_step_of_rivals_keeps_the_promises() {
    explore_all(&rivals(), 1_000_000);
}

#[test]
fn every_interleaving_by_step_of_losses_keeps_the_promises() {
    explore_all(&rare(), 300_000);
}

#[test]
fn every_interleaving_by_step_of_gaps_keeps_the_promises() {
    explore_all(&skipping(), 100_000);
}

/// Each fault of the core, the scene that shows it, and the promise that it breaks.
#[rustfmt::skip] // columns
const BREAKS: [(StepBreak, &str, &str); 34] = [
    (StepBreak::SkipCompare,      RIVALS,  "P2"),
    (StepBreak::CompareMovedOnly, VECTOR,  "P5"),
    (StepBreak::KeepAfterFence,   RIVALS,  "P2"),
    (StepBreak::JournalLast,      CRASHES, "P7"),
    (StepBreak::UnknownIsDone,    CRASHES, "P7"),
    (StepBreak::NeverFind,        CRASHES, "P1"),
    (StepBreak::FindTooLate,      CRASHES, "P1"),
    (StepBreak::ReuseCommitId,    CRASHES, "P1"),
    (StepBreak::ForgetShape,      SHAPE,   "P1"),
    (StepBreak::NoSuppress,       CRASHES, "P5"),
    (StepBreak::SkipLagging,      CRASHES, "P4"),
    (StepBreak::CrossBoundary,    CRASHES, "P5"),
    (StepBreak::JournalFirst,     RIVALS,  "P1"),
    (StepBreak::IgnoreAhead,      REWIND,  "P9"),
    (StepBreak::IgnoreOrder,      REWIND,  "P9"),
    (StepBreak::IgnoreMissing,    LOSSES,  "P5"),
    (StepBreak::NoBeginning,      LATEST,  "P1"),
    (StepBreak::SilentGap,        EXPIRY,  "P9"),
    (StepBreak::GapUnwritten,     SKIP,    "P9"),
    (StepBreak::GapInJournalOnly, SKIP,    "P9"),
    (StepBreak::GapUnlevelled,    SKIP,    "P2"),
    (StepBreak::ForgetGaps,       RETURN,   "P9"),
    (StepBreak::SkipAmidReplay,   SKIP,    "P9"),
    (StepBreak::SaveAhead,        CRASHES, "P4"),
    (StepBreak::SaveAmid,         CRASHES, "P6"),
    (StepBreak::ManifestFirst,    CRASHES, "P4"),
    (StepBreak::SaveLate,         CRASHES, "P4"),
    (StepBreak::SaveTwice,        CRASHES, "P4"),
    (StepBreak::TrimBegun,        LOSSES,  "P3"),
    (StepBreak::KeepOne,          LOSSES,  "P3"),
    (StepBreak::RemoveNewest,     LOSSES,  "P3"),
    (StepBreak::TrimNewest,       LOSSES,  "P3"),
    (StepBreak::TrimUncovered,    LOSSES,  "P3"),
    (StepBreak::EndLagging,       SHAPE,   "P1"),
];

#[test]
fn cores_broken_by_step_are_caught() {
    assert_eq!(BREAKS.map(|(fault, ..)| fault), StepBreak::ALL, "every fault has its promise");
    let scenes = scenes();
    let mut wrong = Vec::new();
    for (fault, scene, promise) in BREAKS {
        let scene = scenes.iter().find(|known| known.name == scene).expect("a scene of that name");
        let Err(how) = explore(scene.name, World::new(scene, Some(fault))) else {
            wrong.push(format!("{}: nobody noticed {fault:?}", scene.name));
            continue;
        };
        println!("{fault:?}: {} ({}, {} moves)", how.broken, scene.name, how.moves.len());
        if !how.broken.starts_with(promise) {
            wrong.push(format!("{fault:?} breaks {promise}, but was seen as: {how}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
