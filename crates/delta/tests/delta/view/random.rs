//! Random steps, foreign commits, lost replies and crashes, against a plain model of the view.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lakeward_delta::DeltaError;
use lakeward_delta::view::{Change, Commit, Mode, StageError, Staged, View, ViewOptions};
use lakeward_protocol::memory::Fate;
use lakeward_protocol::ports::{Fault, OutputLog, Verdict};
use lakeward_protocol::position::CommitId;
use lakeward_sim::{Call, FaultyStore};
use object_store::ObjectStore;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::support::{Lake, Row, change, eager, moves, open_on, order, replay, row, sorted, view_options};

/// What happens to a run, and must have happened to some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Step,
    ForeignAppend,
    ForeignDelete,
    ForeignCompaction,
    /// Between the load and the put of a commit of ours.
    ForeignInBetween,
    OwnCompaction,
    Reopened,
    /// Offered again by another process that does not know how the commit ended.
    Repeated,
    Fault,
}

const EVENTS: [Event; 9] = [
    Event::Step,
    Event::ForeignAppend,
    Event::ForeignDelete,
    Event::ForeignCompaction,
    Event::ForeignInBetween,
    Event::OwnCompaction,
    Event::Reopened,
    Event::Repeated,
    Event::Fault,
];

type Seen = Arc<Mutex<BTreeSet<Event>>>;

struct Run {
    lake: Lake,
    store: Arc<dyn ObjectStore>,
    options: ViewOptions,
    dice: SmallRng,
    seen: Seen,
    /// The next commit of ours meets a foreign one first.
    ambush: Arc<AtomicBool>,
    rows: Vec<Row>,
    /// The rows of each version that is known to be whole.
    versions: BTreeMap<u64, Vec<Row>>,
    next_id: i64,
    at: i64,
    commits: u128,
}

/// A store that fails as its seed says, and lets another writer in just before a commit.
fn faulty(lake: &Lake, seed: u64, seen: Seen, ambush: Arc<AtomicBool>) -> Arc<dyn ObjectStore> {
    let dice = Mutex::new(SmallRng::seed_from_u64(seed));
    let lake_of = lake.clone();
    Arc::new(FaultyStore::new(lake.store.clone(), move |call| {
        if call == Call::Commit && ambush.swap(false, Ordering::Relaxed) {
            let lake = lake_of.clone();
            // Another process: not within this call's runtime.
            std::thread::scope(|scope| scope.spawn(|| rewrite_all(&lake)).join().unwrap());
            seen.lock().unwrap().insert(Event::ForeignInBetween);
        }
        let fate = match (call, dice.lock().unwrap().random_range(0..40)) {
            (Call::Commit, 0..3) => Fate::ReplyLost,
            (Call::Commit, 3..6) => Fate::SentTwice,
            (Call::Commit, 6..8) => Fate::Conflict,
            (Call::Commit, 8..11) => Fate::Late,
            (Call::Commit, 11..13) | (_, 0) => Fate::Fails,
            _ => return Fate::Well,
        };
        seen.lock().unwrap().insert(Event::Fault);
        fate
    }))
}

/// Another writer compacts the whole table.
fn rewrite_all(lake: &Lake) -> u64 {
    let mut other = eager().unwrap();
    (other.dead_percent, other.small_files) = (0, 0);
    let mut view = lake.open("other", view_options(Mode::Upsert, &[], Some(other))).unwrap();
    view.tend();
    view.settle().unwrap();
    lake.head()
}

fn is_retry(error: &impl Fault) -> bool {
    error.verdict() == Verdict::Retry
}

impl Run {
    fn new(seed: u64, key: &[&str], partitions: &[&str], seen: Seen) -> Self {
        let lake = Lake::new(Mode::Upsert, partitions, &[("delta.checkpointInterval", "5")]);
        let ambush: Arc<AtomicBool> = Arc::default();
        let store = faulty(&lake, seed, seen.clone(), ambush.clone());
        let versions = BTreeMap::from([(0, vec![])]);
        let dice = SmallRng::seed_from_u64(seed.wrapping_mul(77));
        let options = view_options(Mode::Upsert, key, eager());
        Self { lake, store, options, dice, seen, ambush, rows: vec![], versions, next_id: 0, at: 0, commits: 0 }
    }

    fn saw(&self, event: Event) {
        self.seen.lock().unwrap().insert(event);
    }

    /// Opening is not the view's business: it is tried again here.
    fn open(&self) -> View {
        let open = || open_on(self.store.clone(), "app", self.options.clone());
        persist(open)
    }

    /// Rows that go, chosen among those there, and rows that come.
    fn change(&mut self) -> (Vec<Row>, Vec<Row>) {
        let keep = self.dice.random_range(0..100);
        let (mut deletes, mut inserts) = (Vec::new(), Vec::new());
        for row in &self.rows {
            if self.dice.random_range(0..100) >= keep {
                deletes.push(row.clone());
                // An update, as often as not.
                if self.dice.random_bool(0.5) {
                    inserts.push((row.0, Some(self.name()), row.2));
                }
            }
        }
        for _ in 0..self.dice.random_range(0..12) {
            let name = self.name();
            match self.options.key.is_empty() {
                false => self.next_id += 1,
                // Copies of rows.
                true => self.next_id = self.dice.random_range(0..6),
            }
            inserts.push(row(self.next_id, &name));
        }
        (deletes, inserts)
    }

    fn name(&self) -> String {
        ["a", "b", "c"][self.dice.clone().random_range(0..3)].to_owned()
    }

    /// The rows after a change.
    fn after(&self, deletes: &[Row], inserts: &[Row]) -> Vec<Row> {
        let mut rows = self.rows.clone();
        for gone in deletes {
            let at = rows.iter().position(|row| order(row) == order(gone)).unwrap();
            rows.swap_remove(at);
        }
        rows.extend_from_slice(inserts);
        sorted(rows)
    }

    fn step(&mut self, view: &mut View) {
        let (deletes, inserts) = self.change();
        let change = change(&deletes, &inserts);
        let staged = stage(view, &change);
        self.foreign_move();
        self.ambush.store(self.dice.random_range(0..4) == 0, Ordering::Relaxed);
        self.commit(view, &change, staged);
        self.ambush.store(false, Ordering::Relaxed);
        self.rows = self.after(&deletes, &inserts);
        self.at += 1;
        self.saw(Event::Step);
    }

    /// Until it is known to stand; some of the processes that try end meanwhile.
    fn commit(&mut self, view: &mut View, change: &Change, mut staged: Staged) {
        self.commits += 1;
        loop {
            match view.commit(CommitId(self.commits), &moves("app", self.at, self.at + 1), Some(&staged)) {
                Ok(Commit::Done(_) | Commit::AlreadyDone) => return,
                Err(error) if is_retry(&error) => {}
                other => panic!("{other:?}"),
            }
            if self.dice.random_bool(0.4) {
                *view = self.open();
                self.commits += 1;
                staged = stage(view, change);
                self.saw(Event::Repeated);
            }
        }
    }

    /// Moves that other writers make and that are none of the view's rows: rows stay what they are.
    fn foreign_move(&mut self) {
        if self.dice.random_range(0..4) == 0 {
            rewrite_all(&self.lake);
            self.saw(Event::ForeignCompaction);
        }
    }

    /// Other writers add and delete rows, and the view's table takes it.
    fn foreign_change(&mut self) {
        let mut other = self.lake.open("other", view_options(Mode::Upsert, &[], None)).unwrap();
        let (deletes, inserts) = match self.dice.random_range(0..3) {
            0 => {
                self.next_id += 1;
                self.saw(Event::ForeignAppend);
                (vec![], vec![row(self.next_id, "foreign")])
            }
            1 => {
                self.saw(Event::ForeignDelete);
                (self.rows.iter().take(2).cloned().collect(), vec![])
            }
            _ => return,
        };
        self.commits += 1;
        let staged = stage(&mut other, &change(&deletes, &inserts));
        let stored = i64::try_from(self.commits).unwrap();
        let from = self.foreign_frontier();
        let outcome = other.commit(CommitId(self.commits), &moves("other", from, stored), Some(&staged)).unwrap();
        assert!(matches!(outcome, Commit::Done(_)), "{outcome:?}");
        self.rows = self.after(&deletes, &inserts);
    }

    fn foreign_frontier(&self) -> i64 {
        let commits = self.lake.commits();
        let mut txns = commits.iter().flatten().filter_map(|action| action.get("txn"));
        txns.rfind(|txn| txn["appId"] == "other-0").map_or(0, |txn| txn["version"].as_i64().unwrap() + 1)
    }

    fn check(&mut self, seed: u64) {
        let rows = self.lake.rows(None);
        assert_eq!(rows, self.rows, "seed {seed}, step {}", self.at);
        let counts = replay(&self.lake.commits());
        assert_eq!(counts.last(), Some(&(rows.len() as u64)), "seed {seed}, step {}", self.at);
        self.versions.insert(self.lake.head(), rows);
    }
}

fn stage(view: &mut View, change: &Change) -> Staged {
    persist(|| {
        view.stage(change).map_err(|error| match error {
            StageError::Delta(error) => error,
            error => panic!("{error}"),
        })
    })
}

fn persist<T>(mut attempt: impl FnMut() -> Result<T, DeltaError>) -> T {
    for _ in 0..200 {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(is_retry(&error), "{error}"),
        }
    }
    panic!("two hundred outages in a row")
}

fn run(seed: u64, key: &[&str], partitions: &[&str], seen: &Seen) {
    let mut run = Run::new(seed, key, partitions, seen.clone());
    let mut view = run.open();
    for _ in 0..12 {
        match run.dice.random_range(0..6) {
            0 => {
                view = run.open();
                run.saw(Event::Reopened);
            }
            1 => run.foreign_change(),
            _ => run.step(&mut view),
        }
        view.tend();
        if run.dice.random_bool(0.5) {
            let _ = view.settle();
        }
        run.check(seed);
    }
    let optimized = |action: &serde_json::Value| {
        action["commitInfo"]["operation"] == "OPTIMIZE" && action["commitInfo"]["lakeward"]["appId"] == "app"
    };
    if run.lake.commits().iter().flatten().any(optimized) {
        run.saw(Event::OwnCompaction);
    }
    for (version, rows) in &run.versions {
        assert_eq!(run.lake.rows(Some(*version)), *rows, "seed {seed}, version {version}");
    }
}

fn seeds(from: u64, count: u64, key: &[&str], partitions: &[&str]) {
    let seen = Seen::default();
    for seed in from..from + count {
        run(seed, key, partitions, &seen);
    }
    let seen = seen.lock().unwrap();
    let missed: Vec<_> = EVENTS.iter().filter(|event| !seen.contains(event)).collect();
    assert!(missed.is_empty(), "no run saw {missed:?}");
}

#[test]
fn keyed_views_are_their_model_whatever_happens() {
    seeds(0, 25, &["id"], &[]);
}

#[test]
fn bags_are_their_model_whatever_happens() {
    seeds(1_000, 25, &[], &[]);
}

#[test]
fn partitioned_views_are_their_model_whatever_happens() {
    seeds(2_000, 20, &["id"], &["name"]);
}
