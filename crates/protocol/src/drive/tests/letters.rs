//! Dead letters, one situation a test. What no test thinks of is the model's matter, and the simulation's.

use super::*;
use crate::ports::Point;

/// Two tables beside each other.
struct Office {
    scene: Scene,
    letters: Table,
}

impl Office {
    fn new(partitions: u32) -> Self {
        Self { scene: Scene::new(partitions), letters: Table::new() }
    }

    /// As told, `b` for a bad record.
    fn append(&self, records: &str) {
        for record in records.chars() {
            let next = self.scene.topic.bounds(P0).end;
            let value = if record == 'b' { "bad".to_owned() } else { format!("0/{next:0>4}") };
            self.scene.topic.append(P0, Some(value.as_bytes()));
        }
    }

    fn process(&mut self, policies: Policies) -> Process {
        let world = self.scene.world();
        self.process_in(policies, world, self.letters.open(1))
    }

    fn process_in(&mut self, policies: Policies, world: MemoryWorld, letters: MemoryOutput) -> Process {
        let policies = Policies { dead_letters: true, ..policies };
        let output = self.scene.table.open(1).with_letters("letters");
        self.scene.process_in(policies, world, output).with_letters(letters)
    }

    /// A process that ends at a point, the `n`th time.
    fn ends_at(&mut self, at: Point, n: u32) {
        let left = std::sync::atomic::AtomicU32::new(n);
        let world = self.scene.world().reaching(move |point| {
            if point == at && left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 1 {
                std::panic::resume_unwind(Box::new("a crash"));
            }
        });
        let mut process = self.process_in(Policies::default(), world, self.letters.open(1));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| settle(&mut process)));
        assert!(ended.is_err(), "it never got to {at:?}, {n}");
    }

    /// Where both tables stand, and how many letters there are.
    fn stand(&self) -> (i64, Option<i64>, usize) {
        let at = |table: &Table| table.frontier().get(&P0).map(|at| at.get());
        (at(&self.scene.table).unwrap_or(0), at(&self.letters), self.letters.rows().len())
    }

    fn assert_sound(&self) {
        self.scene.table.verify(&self.scene.topic).expect("rows");
        self.letters.verify_letters(&self.scene.topic).expect("letters");
    }
}

#[test]
fn letters_follow_their_rows_and_spans_without_any_have_no_commit() {
    let mut office = Office::new(1);
    let mut process = office.process(Policies::default());
    #[rustfmt::skip] // columns: records, where the rows stand then, the letters, how many there are
    let cases: [(&str, i64, Option<i64>, usize); 5] = [
        ("ggg",   3,  None,     0),
        ("gbgb",  7,  Some(7),  2),
        ("gg",    9,  Some(7),  2),
        ("bbb",   12, Some(12), 5),
        ("g",     13, Some(12), 5),
    ];
    for (records, rows, letters, count) in cases {
        office.append(records);
        settle(&mut process);
        assert_eq!(office.stand(), (rows, letters, count), "after {records}");
    }
    assert_eq!(office.letters.version(), TableVersion(2));
    office.assert_sound();
}

#[test]
fn what_is_owed_is_read_again_for_the_letters_alone() {
    // The second commit of each kind of point is that of the letters; earlier letters lie far below.
    for (point, n, owed) in [(Point::AfterPut, 4, true), (Point::BeforePut, 5, true), (Point::AfterPut, 5, false)] {
        let mut office = Office::new(1);
        office.append("bg");
        settle(&mut office.process(Policies::default()));
        office.append("gggg");
        settle(&mut office.process(Policies::default()));
        office.append("gbgbgg");
        office.ends_at(point, n - 3);
        assert_eq!(office.stand().0, 12, "the rows are there");
        assert_eq!(office.stand().1, Some(if owed { 2 } else { 12 }));
        office.append("gb");
        // Only the newest span is read again.
        office.scene.topic.expire(P0, at(6));
        settle(&mut office.process(Policies::default()));
        assert_eq!(office.stand(), (14, Some(14), 4));
        office.assert_sound();
    }
}

#[test]
fn letters_out_of_reach_hold_the_rows_up_and_not_the_other_way_round() {
    let mut office = Office::new(1);
    let clock = office.scene.clock.clone();
    let letters = office.letters.open(1).fated(move |operation| {
        let down = (5_000..100_000).contains(&clock.now_ms()) && operation == Operation::Put;
        if down { Fate::Fails } else { Fate::Well }
    });
    let world = office.scene.world();
    let mut process = office.process_in(Policies::default(), world, letters);
    office.append("gb");
    while office.scene.clock.now_ms() < 60_000 {
        let _ = process.step().expect("waits");
        if office.scene.clock.now_ms() == 30_000 {
            office.append("g");
        }
    }
    assert_eq!(office.stand(), (2, None, 0), "one commit ahead, no more");
    assert!(office.scene.log.count("retrying letters commit") > 3);
    office.append("gb");
    settle(&mut process);
    assert_eq!(office.stand().2, 2);
    office.assert_sound();
}

#[test]
fn owed_letters_whose_records_are_gone_stop_us_or_are_a_gap() {
    for on_gap in [OnGap::Stop, OnGap::Skip] {
        let mut office = Office::new(1);
        office.append("bbbgb");
        office.ends_at(Point::AfterPut, 1);
        office.scene.topic.expire(P0, at(2));
        office.append("b");
        let mut process = office.process(Policies { on_gap, ..Policies::default() });
        if on_gap == OnGap::Stop {
            let stopped = run(&mut process).expect_err("P9");
            assert!(stopped.to_string().contains("dead letters of offsets 0 to 4"), "{stopped}");
            assert_eq!((stopped.exit(), office.letters.version()), (Exit::Data, TableVersion(0)));
        } else {
            settle(&mut process);
            assert_eq!(office.stand(), (6, Some(6), 3));
            let gaps: Vec<_> = office.letters.gaps().iter().map(|gap| (gap.from, gap.to)).collect();
            assert_eq!(gaps, [(at(0), at(2))]);
        }
    }
}

#[test]
fn letters_ahead_of_the_rows_stop_us_by_name() {
    let mut office = Office::new(1);
    office.append("gb");
    settle(&mut office.process(Policies::default()));
    // Another table of rows, the same letters: two jobs of one name.
    office.scene.table = Table::new();
    let stopped = run(&mut office.process(Policies::default())).expect_err("P7");
    for part in ["below 2", "goes on at 0", "--app_id", "--dlq_table_location"] {
        assert!(stopped.to_string().contains(part), "no {part} in {stopped}");
    }
    assert_eq!(office.scene.table.version(), TableVersion(0), "nothing was written");
}

#[test]
fn a_table_of_letters_that_went_back_stops_us_and_a_new_one_goes_on() {
    for accept in [false, true] {
        let mut office = Office::new(1);
        let mut process = office.process(Policies::default());
        office.append("gb");
        settle(&mut process);
        office.append("bb");
        settle(&mut process);
        office.letters.foreign_restore(TableVersion(1));
        drop(process);
        office.append("gb");
        let on_restore = if accept { OnRestore::Accept } else { OnRestore::Replay };
        let mut process = office.process(Policies { on_restore, ..Policies::default() });
        if accept {
            settle(&mut process);
            assert_eq!(office.stand(), (6, Some(6), 2), "what is gone stays gone");
            assert_eq!(office.letters.gaps().len(), 1);
            continue;
        }
        let stopped = run(&mut process).expect_err("P9");
        let text = stopped.to_string();
        assert!(text.contains("the dead-letter table: ") && text.contains("--dlq_table_location"), "{text}");
        drop(process);
        office.letters = Table::new();
        let world = office.scene.world();
        let output = office.scene.table.open(1).with_letters("others");
        let policies = Policies { dead_letters: true, ..Policies::default() };
        let mut process = office.scene.process_in(policies, world, output).with_letters(office.letters.open(1));
        settle(&mut process);
        assert_eq!(office.stand(), (6, Some(6), 1), "nothing is owed to a new one");
    }
}
