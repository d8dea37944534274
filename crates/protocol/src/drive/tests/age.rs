//! A table that forgets frontiers which are not committed again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::memory::{MemoryBatch, MemoryError};
use crate::ports::{Breach, Head, OutputLog, Put};
use crate::position::{CommitId, Shape};

const KEEPS_MS: u64 = 1_000_000;

/// When each partition's frontier was committed last.
type Told = Rc<RefCell<BTreeMap<PartitionId, u64>>>;

/// The memory table, whose frontiers are gone after [`KEEPS_MS`].
struct Forgetful {
    table: MemoryOutput,
    clock: Clock,
    told: Told,
}

impl Forgetful {
    fn age_ms(&self, partition: PartitionId) -> Option<u64> {
        Some(self.clock.now_ms() - self.told.borrow().get(&partition)?)
    }
}

impl OutputLog for Forgetful {
    type Batch = MemoryBatch;
    type Layout = Shape;
    type Error = MemoryError;

    fn load(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<Head, MemoryError> {
        let mut head = self.table.load(partitions)?;
        let aged = |age: u64| -> BTreeSet<PartitionId> {
            partitions.iter().filter(|p| self.age_ms(**p) >= Some(age)).copied().collect()
        };
        let gone = aged(KEEPS_MS);
        head.fading = aged(KEEPS_MS / 2);
        head.frontier.retain(|p, _| !gone.contains(p));
        head.fading.retain(|p| !gone.contains(p));
        if !gone.is_empty() {
            head.breach = Some(Breach::Forgotten { keeps: "a while".to_owned(), partitions: gone });
        }
        Ok(head)
    }

    fn layout(&self) -> Shape {
        self.table.layout()
    }

    fn put(&mut self, permit: &Permit, batch: Option<&MemoryBatch>) -> Result<Put, MemoryError> {
        let put = self.table.put(permit, batch)?;
        self.told.borrow_mut().extend(permit.advances().keys().map(|p| (*p, self.clock.now_ms())));
        Ok(put)
    }

    fn find(&mut self, commit: CommitId, from: TableVersion) -> Result<Option<TableVersion>, MemoryError> {
        self.table.find(commit, from)
    }

    fn keeps_ms(&self) -> Option<u64> {
        Some(KEEPS_MS)
    }

    fn tend(&mut self) {}
}

type Aged = Drive<MemoryInput, MemoryStage, Forgetful, MemoryWorld, Log>;

fn process(scene: &mut Scene, told: &Told, policies: Policies) -> Aged {
    let (world, clock) = (scene.world(), scene.clock.clone());
    let output = Forgetful { table: scene.table.open(1), clock, told: Rc::clone(told) };
    let (core, stage) = (Core::new(policies), MemoryStage::default());
    Drive::new(core, scene.topic.join(), stage, output, world, scene.log.clone(), limits())
}

fn settle(process: &mut Aged) {
    for _ in 0..10_000 {
        let progress = process.step().expect("no reason to stop");
        if progress == Progress::Idle && !process.core().is_holding() {
            return;
        }
    }
    panic!("never settled");
}

#[test]
fn an_idle_partition_is_told_again_and_nothing_else_is_written() {
    let mut scene = Scene::new(2);
    scene.append(P0, 3);
    let told = Told::default();
    let mut idle = process(&mut scene, &told, Policies::default());
    settle(&mut idle);
    assert_eq!(scene.table.version(), TableVersion(1));
    for _ in 0..40 {
        scene.clock.advance(Duration::from_millis(KEEPS_MS / 4));
        settle(&mut idle);
    }
    let renewals = scene.table.version().0 - 1;
    assert!((10..=20).contains(&renewals), "10 times as long as it is kept: {renewals}");
    assert_eq!(scene.frontier(), vec![(0, 3)], "what has no offset gets none by it");
    scene.append(P0, 2);
    scene.append(P1, 1);
    settle(&mut idle);
    scene.assert_complete();
}

#[test]
fn who_starts_tells_again_what_fades_even_if_it_ends_at_once() {
    let mut scene = Scene::new(1);
    scene.append(P0, 3);
    let told = Told::default();
    let ends = Policies { ends: Some(Frontier::from([(P0, at(3))])), ..Policies::default() };
    let run = |scene: &mut Scene| {
        let mut process = process(scene, &told, ends.clone());
        for _ in 0..10_000 {
            if let Progress::Ended(ending) = process.step().expect("no reason to stop") {
                return ending;
            }
        }
        panic!("never ended")
    };
    assert_eq!(run(&mut scene), Ending::Reached);
    scene.clock.advance(Duration::from_millis(KEEPS_MS / 3));
    assert_eq!((run(&mut scene), scene.table.version()), (Ending::Reached, TableVersion(1)));
    scene.clock.advance(Duration::from_millis(KEEPS_MS / 3));
    assert_eq!((run(&mut scene), scene.table.version()), (Ending::Reached, TableVersion(2)));
    assert_eq!(told.borrow()[&P0], scene.clock.now_ms());
    scene.assert_complete();
}

#[test]
fn records_that_wait_are_committed_before_the_table_is_asked() {
    let mut scene = Scene::new(1);
    scene.append(P0, 3);
    let told = Told::default();
    let world = scene.world();
    let output = Forgetful { table: scene.table.open(1), clock: scene.clock.clone(), told: Rc::clone(&told) };
    let patient = Limits { latency_ms: 100 * KEEPS_MS, ..limits() };
    let (core, stage) = (Core::new(Policies::default()), MemoryStage::default());
    let mut process = Drive::new(core, scene.topic.join(), stage, output, world, scene.log.clone(), patient);
    for round in 1..=4 {
        while !process.core().is_holding() {
            let _ = process.step().expect("well");
        }
        scene.clock.advance(Duration::from_millis(KEEPS_MS / 4));
        settle(&mut process);
        scene.append(P0, 1);
        assert_eq!(scene.table.version(), TableVersion(round));
    }
    settle_after(&mut scene, &mut process);
    scene.assert_complete();
}

fn settle_after(scene: &mut Scene, process: &mut Aged) {
    let _ = process.step().expect("well");
    scene.clock.advance(Duration::from_millis(KEEPS_MS / 4));
    settle(process);
}

#[test] // P9
fn what_was_forgotten_stops_whatever_the_options_say() {
    let mut scene = Scene::new(1);
    scene.append(P0, 3);
    let told = Told::default();
    settle(&mut process(&mut scene, &told, Policies::default()));
    scene.clock.advance(Duration::from_millis(KEEPS_MS));
    let seek = Policies { seek: Frontier::from([(P0, at(0))]), ..Policies::default() };
    let loose = Policies { on_gap: OnGap::Skip, on_restore: OnRestore::Replay, ..Policies::default() };
    let latest = Policies { beginning: Beginning::Latest, ..Policies::default() };
    for policies in [Policies::default(), seek, loose, latest] {
        let mut late = process(&mut scene, &told, policies);
        let stopped = (0..1_000).find_map(|_| late.step().err()).expect("it stops");
        let text = stopped.to_string();
        assert!(
            text.starts_with("partition 0: the table has no offset of it") && text.contains("offsets set"),
            "{text}"
        );
    }
    assert_eq!(scene.table.version(), TableVersion(1), "nothing was written");
    assert_eq!(scene.table.rows().len(), 3);
}
