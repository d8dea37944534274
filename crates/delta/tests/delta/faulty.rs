//! A store that loses replies, refuses winners and is out at times, under two processes in threads of their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lakeward_delta::{History, Table};
use lakeward_protocol::core::Ending;
use lakeward_protocol::drive::drive;
use lakeward_protocol::memory::{Clock, Fate, MemoryWorld};
use lakeward_protocol::ports::{Fault, Verdict};
use lakeward_sim::{Call, FaultyStore};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::races::{Deaf, limits, to_the_end, topic};
use crate::support::{PlaceStage, in_memory, options, runtime};

/// Every fault, and how often it was done.
type Seen = Arc<Mutex<BTreeMap<(Call, Fate), u64>>>;

#[rustfmt::skip] // a list
const FAULTS: [(Call, Fate); 8] = [
    (Call::Commit, Fate::ReplyLost), (Call::Commit, Fate::SentTwice), (Call::Commit, Fate::Conflict),
    (Call::Commit, Fate::Late), (Call::Commit, Fate::Fails),
    (Call::Put, Fate::Fails), (Call::Get, Fate::Fails), (Call::List, Fate::Fails),
];

/// A process's own way to the store, whose faults its seed decides.
fn faulty(inner: Arc<InMemory>, seed: u64, seen: Seen) -> Arc<dyn ObjectStore> {
    let dice = Mutex::new(SmallRng::seed_from_u64(seed));
    Arc::new(FaultyStore::new(inner, move |call| {
        let mut dice = dice.lock().unwrap();
        let fate = match (call, dice.random_range(0..14)) {
            (_, 0) => Fate::Fails,
            (Call::Commit, 1) => Fate::ReplyLost,
            (Call::Commit, 2) => Fate::SentTwice,
            (Call::Commit, 3) => Fate::Conflict,
            (Call::Commit, 4) => Fate::Late,
            _ => return Fate::Well,
        };
        *seen.lock().unwrap().entry((call, fate)).or_default() += 1;
        fate
    }))
}

/// Opening is not the loop's business: it is tried again here.
fn open(store: &Arc<dyn ObjectStore>, app_id: &str) -> Table {
    for _ in 0..100 {
        match Table::open_on(store.clone(), Path::from("t"), options(app_id)) {
            Ok(table) => return table,
            Err(error) => assert_eq!(error.verdict(), Verdict::Retry, "{error}"),
        }
    }
    panic!("a hundred outages in a row")
}

#[test]
fn a_faulty_store_loses_and_doubles_nothing() {
    let seen = Seen::default();
    for seed in 0..60 {
        let inner = in_memory(&[("delta.checkpointInterval", "4")]);
        let topic = topic(2, 40);
        std::thread::scope(|scope| {
            // Two processes of one application, each with a store client of its own.
            for side in 0..2 {
                let (topic, store) = (topic.clone(), faulty(inner.clone(), seed * 2 + side, seen.clone()));
                scope.spawn(move || {
                    let world = MemoryWorld::new(Clock::default(), seed * 2 + side);
                    let core = to_the_end(&topic, 2);
                    let table = open(&store, "app");
                    let ending = drive(core, topic.join(), PlaceStage::new(10), table, world, Deaf, limits());
                    assert_eq!(ending.unwrap(), Ending::Reached, "seed {seed}");
                });
            }
        });
        assert_chain(&inner, seed);
    }
    let seen = seen.lock().unwrap();
    let missed: Vec<_> = FAULTS.iter().filter(|fault| !seen.contains_key(fault)).collect();
    assert!(missed.is_empty(), "no run saw: {missed:?}");
}

/// P1, P2: each partition's spans run from 0 to 40 without gap or overlap, and so do the files' rows.
fn assert_chain(store: &Arc<InMemory>, seed: u64) {
    let history = History::open_on(store.clone(), Path::from("t"), runtime()).unwrap();
    let mut at = [0, 0];
    let mut rows = 0;
    for version in history.read() {
        let version = version.unwrap();
        for span in version.notes.iter().flat_map(|notes| &notes.spans) {
            let at = &mut at[span.partition as usize];
            assert_eq!(*at, span.from, "seed {seed}, version {}", version.version);
            *at = span.to;
        }
        rows += version.adds.iter().filter_map(|add| add.num_records).sum::<u64>();
        let in_tags: u64 = version.adds.iter().flat_map(|add| add.spans.iter().flatten()).map(|span| span.rows).sum();
        assert_eq!(in_tags, version.adds.iter().filter_map(|add| add.num_records).sum::<u64>());
    }
    assert_eq!((at, rows), ([40, 40], 80), "seed {seed}");
}
