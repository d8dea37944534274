//! A store that loses replies, refuses winners and is out at times.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::stream::BoxStream;
use lakeward_delta::{History, Table};
use lakeward_protocol::core::Ending;
use lakeward_protocol::drive::drive;
use lakeward_protocol::memory::{Clock, MemoryWorld};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::races::{Deaf, limits, to_the_end, topic};
use crate::support::{PlaceStage, in_memory, options, runtime};

/// The faults, and how often each was done.
const FAULTS: [&str; 7] = [
    "done, reply lost",
    "done, then refused by its own retry",
    "409 with nothing there",
    "503 put",
    "503 get",
    "503 list",
    "late",
];

#[derive(Debug)]
struct Faulty {
    inner: Arc<InMemory>,
    dice: Mutex<SmallRng>,
    seen: Arc<[AtomicU64; FAULTS.len()]>,
    /// A put that was given up on and is still on its way.
    late: Arc<Mutex<Option<(Path, PutPayload)>>>,
}

impl Faulty {
    fn chance(&self, one_in: u32) -> bool {
        self.dice.lock().unwrap().random_range(0..one_in) == 0
    }

    fn count(&self, fault: usize) {
        self.seen[fault].fetch_add(1, Ordering::Relaxed);
    }

    fn fails(&self, fault: usize) -> Option<Error> {
        self.chance(12).then(|| {
            self.count(fault);
            outage("503 Slow Down")
        })
    }
}

fn outage(what: &'static str) -> Error {
    Error::Generic { store: "faulty", source: what.into() }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let late = self.late.lock().unwrap().take();
        if let Some((location, payload)) = late {
            let _ = self.inner.put_opts(&location, payload, PutMode::Create.into()).await;
        }
        if options.mode != PutMode::Create || !location.as_ref().ends_with(".json") {
            return match self.fails(3) {
                Some(error) => Err(error),
                None => self.inner.put_opts(location, payload, options).await,
            };
        }
        let fault = self.dice.lock().unwrap().random_range(0..14);
        let exists = || Error::AlreadyExists { path: location.to_string(), source: "409".into() };
        match fault {
            0 => {
                self.inner.put_opts(location, payload, options).await?;
                self.count(0);
                Err(outage("timed out waiting for the response"))
            }
            1 => {
                self.inner.put_opts(location, payload, options).await?;
                self.count(1);
                Err(exists())
            }
            2 => {
                self.count(2);
                Err(exists())
            }
            3 => {
                self.count(3);
                Err(outage("503 Slow Down"))
            }
            4 => {
                self.count(6);
                *self.late.lock().unwrap() = Some((location.clone(), payload));
                Err(outage("timed out"))
            }
            _ => self.inner.put_opts(location, payload, options).await,
        }
    }

    async fn put_multipart_opts(&self, to: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(to, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.fails(4) {
            Some(error) => Err(error),
            None => self.inner.get_opts(location, options).await,
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fails(5) {
            Some(error) => Box::pin(futures::stream::once(async { Err(error) })),
            None => self.inner.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Opening is not the loop's business: it is tried again here.
fn open(store: &Arc<Faulty>, app_id: &str) -> Table {
    for _ in 0..100 {
        match Table::open_on(store.clone(), Path::from("t"), options(app_id)) {
            Ok(table) => return table,
            Err(error) => assert!(error.to_string().contains("trying again"), "{error}"),
        }
    }
    panic!("a hundred outages in a row")
}

#[test]
fn a_faulty_store_loses_and_doubles_nothing() {
    let seen: Arc<[AtomicU64; FAULTS.len()]> = Arc::default();
    for seed in 0..60 {
        let inner = in_memory(&[("delta.checkpointInterval", "4")]);
        let store = |side: u64| {
            Arc::new(Faulty {
                inner: inner.clone(),
                dice: Mutex::new(SmallRng::seed_from_u64(seed * 2 + side)),
                seen: seen.clone(),
                late: Arc::default(),
            })
        };
        let topic = topic(2, 40);
        std::thread::scope(|scope| {
            // Two processes of one application, each with a store client of its own.
            for side in 0..2 {
                let (topic, store) = (topic.clone(), store(side));
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
    for (fault, seen) in FAULTS.iter().zip(seen.iter()) {
        assert!(seen.load(Ordering::Relaxed) > 0, "no run saw: {fault}");
    }
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
