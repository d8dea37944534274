//! What every [`Stage`] promises, tried.

use crate::ports::Stage;
use crate::position::{Offset, PartitionId};
use crate::records::{Records, TimestampType};

/// How the suite feeds a stage and reads what it made.
pub trait StageHarness {
    /// The implementation under trial.
    type Stage: Stage;

    /// A new stage, not open.
    fn make(&mut self) -> Self::Stage;

    /// A layout that good values fit.
    fn layout(&mut self) -> <Self::Stage as Stage>::Layout;

    /// Another layout that they fit as well (one more column, say).
    fn other_layout(&mut self) -> <Self::Stage as Stage>::Layout;

    /// The bytes of a good record.
    fn good(&mut self, number: u64) -> Vec<u8>;

    /// The bytes of a record that the stage sets aside. `None` where there is no such thing.
    fn bad(&mut self) -> Option<Vec<u8>>;

    /// Each good record's number in the batch, file by file, in the order of their rows.
    fn rows(&mut self, batch: &<Self::Stage as Stage>::Batch) -> Vec<u64>;
}

/// Runs every case.
pub fn stage<H: StageHarness>(harness: &mut H) {
    seals_exactly_what_was_pushed(harness);
    forgets_what_is_discarded(harness);
    seals_nothing_from_nothing(harness);
    sets_a_bad_record_aside_alone(harness);
    opens_for_another_layout(harness);
}

fn records<H: StageHarness>(harness: &mut H, partition: u32, from: i64, values: &[Option<u64>]) -> Records {
    let from = Offset::new(from).expect("the suite's offsets are not negative");
    let mut records = Records::new(PartitionId(partition), from);
    for (offset, number) in (from.get()..).zip(values) {
        let value = number.map(|n| harness.good(n));
        records.push(offset, 1_700_000_000_000, TimestampType::CreateTime, value.as_deref());
    }
    records.pad();
    records
}

fn opened<H: StageHarness>(harness: &mut H) -> H::Stage {
    let mut stage = harness.make();
    let layout = harness.layout();
    stage.open(&layout).expect("open for a fitting layout");
    stage
}

fn sorted(mut rows: Vec<u64>) -> Vec<u64> {
    rows.sort_unstable();
    rows
}

/// All of it, in each partition's order, once.
pub fn seals_exactly_what_was_pushed<H: StageHarness>(harness: &mut H) {
    let mut stage = opened(harness);
    let parts = [records(harness, 0, 0, &[Some(0), Some(1)]), records(harness, 1, 5, &[Some(100), None, Some(101)]), {
        records(harness, 0, 2, &[Some(2), Some(3)])
    }];
    for part in parts {
        let _ = stage.push(part).expect("push good records");
    }
    let batch = stage.seal().expect("seal");
    let rows = harness.rows(&batch);
    let of = |low, high| rows.iter().copied().filter(|n| (low..high).contains(n)).collect::<Vec<u64>>();
    assert_eq!(of(0, 100), vec![0, 1, 2, 3], "a partition's records keep their order");
    assert_eq!(of(100, 200), vec![100, 101]);
    assert_eq!(rows.len(), 6, "a tombstone is no row");
    let part = records(harness, 0, 4, &[Some(4)]);
    let _ = stage.push(part).expect("push after a seal");
    let batch = stage.seal().expect("seal again");
    assert_eq!(harness.rows(&batch), vec![4], "what was sealed is not held any more");
}

/// Nothing pushed before a discard comes back.
pub fn forgets_what_is_discarded<H: StageHarness>(harness: &mut H) {
    let mut stage = opened(harness);
    let part = records(harness, 0, 0, &[Some(0), Some(1)]);
    let _ = stage.push(part).expect("push");
    stage.discard();
    let part = records(harness, 0, 1, &[Some(1), Some(2)]);
    let _ = stage.push(part).expect("push after a discard");
    let batch = stage.seal().expect("seal");
    assert_eq!(harness.rows(&batch), vec![1, 2]);
}

/// An empty batch is a batch.
pub fn seals_nothing_from_nothing<H: StageHarness>(harness: &mut H) {
    let mut stage = opened(harness);
    let batch = stage.seal().expect("seal nothing");
    assert!(harness.rows(&batch).is_empty());
    let part = records(harness, 0, 0, &[None, None]);
    let _ = stage.push(part).expect("push tombstones");
    let batch = stage.seal().expect("seal tombstones");
    assert!(harness.rows(&batch).is_empty());
}

/// Its neighbours are unharmed.
pub fn sets_a_bad_record_aside_alone<H: StageHarness>(harness: &mut H) {
    let Some(bad) = harness.bad() else { return };
    let mut stage = opened(harness);
    let mut records = Records::new(PartitionId(0), Offset::ZERO);
    for (offset, number) in [(0, Some(0)), (1, None), (2, Some(2))] {
        let value = number.map_or_else(|| bad.clone(), |n| harness.good(n));
        records.push(offset, 1_700_000_000_000, TimestampType::CreateTime, Some(&value));
    }
    records.pad();
    let _ = stage.push(records).expect("a bad record harms no other");
    let batch = stage.seal().expect("seal");
    assert_eq!(sorted(harness.rows(&batch)), vec![0, 2]);
}

/// After a discard, for a changed table.
pub fn opens_for_another_layout<H: StageHarness>(harness: &mut H) {
    let mut stage = opened(harness);
    let part = records(harness, 0, 0, &[Some(0)]);
    let _ = stage.push(part).expect("push");
    stage.discard();
    let layout = harness.other_layout();
    stage.open(&layout).expect("open for another layout");
    let part = records(harness, 0, 0, &[Some(0), Some(1)]);
    let _ = stage.push(part).expect("push");
    let batch = stage.seal().expect("seal");
    assert_eq!(harness.rows(&batch), vec![0, 1]);
}
