//! Compaction and vacuum beside writers and rivals, on real files.

use std::time::{Duration, SystemTime};

use lakeward_delta::encode::WriterOptions;
use lakeward_delta::{Care, Checkpoints, CompactOptions, Compacted, DeltaError, Table, VacuumOptions};
use lakeward_protocol::drive::drive;
use lakeward_protocol::memory::{Clock, MemoryWorld};
use lakeward_protocol::ports::OutputLog;
use lakeward_protocol::position::{Frontier, PartitionId};
use serde_json::{Value, json};

use crate::races::{Deaf, limits, to_the_end, topic};
use crate::support::{Disk, PlaceStage, each, offset, options, runtime, set};

/// Records up to `length`, in many small files.
fn ingest(disk: &Disk, length: i64) {
    let mut options = options("app");
    options.checkpoints = Checkpoints::Never;
    let table = Table::open(&disk.location(), options).unwrap();
    let topic = topic(1, length);
    let world = MemoryWorld::new(Clock::default(), length.unsigned_abs());
    let _ = drive(to_the_end(&topic, 1), topic.join(), PlaceStage::new(1), table, world, Deaf, limits()).unwrap();
}

fn care(disk: &Disk) -> Care {
    Care::open(&disk.location(), runtime()).unwrap()
}

fn writer() -> WriterOptions {
    WriterOptions { keeps_rules: true, ..WriterOptions::default() }
}

fn compact(disk: &Disk, before: impl FnMut(&Compacted) -> bool) -> Result<Compacted, DeltaError> {
    care(disk).compact(&CompactOptions { writer: writer(), dry_run: false }, before)
}

fn live(disk: &Disk) -> Vec<Value> {
    disk.live().into_values().collect()
}

fn vacuum(disk: &Disk, hours: Option<u64>, force: bool) -> Result<u64, DeltaError> {
    let retain = hours.map(Duration::from_hours);
    care(disk).vacuum(&VacuumOptions { retain, force, dry_run: false }).map(|done| done.files)
}

/// The data files on disk.
fn on_disk(disk: &Disk) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(disk.location()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).collect()
}

#[expect(clippy::disallowed_methods, reason = "files have to grow old")]
fn age(path: &std::path::Path, hours: u64) {
    let file = std::fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(hours)).unwrap();
}

#[test]
fn many_small_files_become_one_and_the_job_goes_on() {
    let disk = Disk::with(&[]);
    ingest(&disk, 40);
    let files = live(&disk).len() as u64;
    assert!(files > 5, "{files} files");
    let done = compact(&disk, |_| true).unwrap();
    assert_eq!((done.commits, done.removed_files, done.added_files, done.overtaken_files), (1, files, 1, 0));
    assert_eq!(disk.rows(), each(&[0], 0..40));
    for action in disk.actions(disk.head()) {
        if let Some(moved) = action.get("add").or_else(|| action.get("remove")) {
            assert_eq!(moved["dataChange"], json!(false), "{action}");
        }
        assert!(action.get("txn").is_none(), "{action}");
        if let Some(info) = action.get("commitInfo") {
            assert_eq!((&info["operation"], &info["isBlindAppend"]), (&json!("OPTIMIZE"), &json!(false)));
        }
    }
    // Nothing is left to do, and the job's next record follows its last.
    assert_eq!(compact(&disk, |_| true).unwrap(), Compacted::default());
    let head = disk.open("app").load(&set(&[0])).unwrap();
    assert_eq!((head.frontier, head.breach), (Frontier::from([(PartitionId(0), offset(40))]), None));
    ingest(&disk, 60);
    assert_eq!(disk.rows(), each(&[0], 0..60));
}

#[test]
fn a_dry_run_says_what_and_writes_nothing() {
    let disk = Disk::with(&[]);
    ingest(&disk, 20);
    let (head, files) = (disk.head(), live(&disk).len() as u64);
    let options = CompactOptions { writer: writer(), dry_run: true };
    let said = care(&disk).compact(&options, |_| panic!("a dry run does not begin")).unwrap();
    assert_eq!((said.removed_files, said.commits, disk.head()), (files, 0, head));
    let old = on_disk(&disk).len();
    let _ = compact(&disk, |_| true).unwrap();
    let dry = VacuumOptions { retain: Some(Duration::ZERO), force: true, dry_run: true };
    let said = care(&disk).vacuum(&dry).unwrap();
    assert_eq!((said.files, said.names.len(), on_disk(&disk).len()), (files, old, old + 1));
}

/// What a rival does between the rewrite's beginning and its commit, and whether the rewrite stands.
fn check_rival(name: &str, rival: impl Fn(&Disk), stands: bool, rows: &[i64]) {
    let disk = Disk::with(&[("delta.enableDeletionVectors", "true")]);
    ingest(&disk, 20);
    let mut acted = false;
    // Asked after the files were listed.
    let done = compact(&disk, |_| {
        if !std::mem::replace(&mut acted, true) {
            rival(&disk);
        }
        true
    });
    let done = done.unwrap();
    assert_eq!(done.commits > 0, stands, "{name}: {done:?}");
    assert_eq!(done.overtaken_files > 0, !stands, "{name}: {done:?}");
    let expected: Vec<_> = rows.iter().map(|row| (PartitionId(0), offset(*row))).collect();
    assert_eq!(disk.rows(), expected, "{name}");
}

#[test]
fn a_rival_that_touches_its_files_comes_first_and_one_that_appends_does_not_matter() {
    let (all, more): (Vec<i64>, Vec<i64>) = ((0..20).collect(), (0..30).collect());
    let first = |disk: &Disk| disk.live().into_iter().next().unwrap();
    check_rival("nobody", |_| {}, true, &all);
    check_rival("an append", |disk| ingest(disk, 30), true, &more);
    let delete = |disk: &Disk| {
        let (path, _) = first(disk);
        disk.foreign(&[json!({"remove": {"path": path, "deletionTimestamp": 1, "dataChange": true}})]);
    };
    // The rows of the file that went must not come back.
    let disk = Disk::with(&[("delta.enableDeletionVectors", "true")]);
    ingest(&disk, 20);
    let gone = first(&disk).1;
    let stats: Value = serde_json::from_str(gone["stats"].as_str().unwrap()).unwrap();
    let (low, high) = (stats["minValues"]["id"].as_i64().unwrap(), stats["maxValues"]["id"].as_i64().unwrap());
    let mut acted = false;
    let done = compact(&disk, |_| {
        if !std::mem::replace(&mut acted, true) {
            delete(&disk);
        }
        true
    });
    assert_eq!(done.unwrap().commits, 0);
    let left: Vec<_> = (0..20).filter(|id| !(low..=high).contains(id)).map(|id| (PartitionId(0), offset(id))).collect();
    assert_eq!(disk.rows(), left);
    // The next run takes what is left.
    assert_eq!(compact(&disk, |_| true).unwrap().commits, 1);
    assert_eq!(disk.rows(), left);
}

#[test]
fn what_a_kept_version_names_stays_and_garbage_goes() {
    let disk = Disk::with(&[]);
    ingest(&disk, 20);
    let small = on_disk(&disk).len() as u64;
    let _ = compact(&disk, |_| true).unwrap();
    for path in on_disk(&disk) {
        age(&path, 1_000);
    }
    // Removed a moment ago: kept for as long as the table says, however old the files are.
    assert_eq!(vacuum(&disk, None, false).unwrap(), 0);
    assert_eq!(disk.rows(), each(&[0], 0..20));
    // Named by nobody: old ones go, young ones may be about to be named.
    let root = std::path::PathBuf::from(disk.location());
    for (name, hours) in
        [("orphan.parquet", 200), ("young.parquet", 100), ("_hidden.parquet", 200), ("newest.parquet", 0)]
    {
        std::fs::write(root.join(name), "x").unwrap();
        age(&root.join(name), hours);
    }
    assert_eq!(vacuum(&disk, None, false).unwrap(), 1);
    assert!(!root.join("orphan.parquet").exists() && root.join("young.parquet").exists());
    // Less than the table says needs to be meant; what a writer may be about to name stays even then.
    let refused = vacuum(&disk, Some(0), false).unwrap_err().to_string();
    assert!(refused.contains("--force") && refused.contains("168 h"), "{refused}");
    assert_eq!(vacuum(&disk, Some(0), true).unwrap(), small + 1);
    assert!(root.join("newest.parquet").exists() && root.join("_hidden.parquet").exists());
    assert_eq!(disk.rows(), each(&[0], 0..20));
    let refused = vacuum(&disk, Some(200), false).unwrap_err().to_string();
    assert!(refused.contains("set the property"), "{refused}");
}

#[test]
fn nothing_is_deleted_where_a_live_file_is_missing() {
    let disk = Disk::with(&[]);
    ingest(&disk, 20);
    let paths = on_disk(&disk);
    std::fs::remove_file(&paths[0]).unwrap();
    let root = std::path::PathBuf::from(disk.location());
    std::fs::write(root.join("orphan.parquet"), "x").unwrap();
    age(&root.join("orphan.parquet"), 1_000);
    let refused = vacuum(&disk, None, false).unwrap_err().to_string();
    assert!(refused.contains("nothing was deleted"), "{refused}");
    assert!(root.join("orphan.parquet").exists());
}

#[test]
fn tables_whose_files_must_not_be_moved_are_refused_by_name() {
    let disk = Disk::with(&[]);
    ingest(&disk, 10);
    let mut protocol = json!({"minReaderVersion": 1, "minWriterVersion": 7});
    protocol["writerFeatures"] = json!(["rowTracking", "domainMetadata"]);
    let mut metadata = disk.actions(0).into_iter().find_map(|action| action.get("metaData").cloned()).unwrap();
    metadata["configuration"] = json!({"delta.enableRowTracking": "true"});
    disk.foreign(&[json!({ "protocol": protocol }), json!({ "metaData": metadata })]);
    let refused = compact(&disk, |_| true).unwrap_err().to_string();
    assert!(refused.contains("rowTracking"), "{refused}");
}

#[test]
fn checkpoint_and_expiry_when_asked() {
    let disk = Disk::with(&[("delta.logRetentionDuration", "interval 1 day")]);
    ingest(&disk, 20);
    let head = disk.head();
    assert!(care(&disk).checkpoint().unwrap());
    assert!(!care(&disk).checkpoint().unwrap(), "there already");
    for name in disk.log_names() {
        age(&disk.log_folder().join(name), 48);
    }
    let expired = care(&disk).expire(true).unwrap();
    assert!(expired >= head && disk.log_names().contains(&format!("{:020}.json", 0)), "{expired}");
    assert_eq!(care(&disk).expire(false).unwrap(), expired);
    assert_eq!(disk.rows(), each(&[0], 0..20));
    assert!(!disk.log_names().contains(&format!("{:020}.json", 0)));
}
