//! Copies of files that are not a circuit's; `engine/tests.rs` has those that are.

use std::fs;
use std::time::SystemTime;

use lakeward_protocol::position::{CheckpointNumber, Frontier};
use object_store::memory::InMemory;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;

struct Scene {
    runtime: Runtime,
    local: TempDir,
    copies: Copies,
}

impl Scene {
    fn over(place: Place) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let copies = Copies::new(place, runtime.handle().clone());
        Self { runtime, local: tempfile::tempdir().unwrap(), copies }
    }

    fn in_memory() -> Self {
        Self::over(Place::on_store(Arc::new(InMemory::new()), Path::from("a/b")).unwrap())
    }

    /// A state of files that hold their names.
    fn put(&self, id: u128, names: &[&str]) {
        for name in names {
            let path = self.local.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.copies.put(CommitId(id), self.local.path(), &names).unwrap();
    }

    fn names(&self) -> Vec<String> {
        self.runtime.block_on(self.copies.names()).unwrap().into_iter().collect()
    }
}

fn named(id: u128) -> Checkpoint {
    let (number, state) = (CheckpointNumber(1), Some(Vec::new()));
    Checkpoint { number, id: CommitId(id), frontier: Frontier::new(), begun: Frontier::new(), state }
}

#[test]
fn files_of_all_sizes_come_back_as_they_were() {
    let scene = Scene::in_memory();
    let sizes = [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 12_345];
    let bytes = |size: usize| (0..size).map(|at| (at ^ (at >> 8) ^ size) as u8).collect::<Vec<u8>>();
    let names: Vec<String> = sizes.iter().map(|size| format!("engine/x/{size}.dat")).collect();
    fs::create_dir_all(scene.local.path().join("engine/x")).unwrap();
    for (name, size) in names.iter().zip(sizes) {
        fs::write(scene.local.path().join(name), bytes(size)).unwrap();
    }
    scene.copies.put(CommitId(7), scene.local.path(), &names).unwrap();
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(scene.copies.fetch(CommitId(7), cache.path()).unwrap(), Fetched::Done);
    for (name, size) in names.iter().zip(sizes) {
        assert!(fs::read(cache.path().join(name)).unwrap() == bytes(size), "{name}");
    }
    assert!(matches!(scene.copies.fetch(CommitId(8), cache.path()).unwrap(), Fetched::Missing { .. }));
}

#[test]
fn a_state_that_names_files_elsewhere_is_none() {
    let scene = Scene::in_memory();
    let whole = r#"{"format":1,"files":{"x":{"bytes":0,"digest":0}}}"#;
    let cases = [
        ("above the folder", whole.replace("\"x\"", "\"../x\"")),
        ("absolute", whole.replace("\"x\"", "\"/x\"")),
        ("without a name", whole.replace("\"x\"", "\"\"")),
        ("another format", whole.replace("\"format\":1", "\"format\":2")),
        ("torn", whole[..20].to_owned()),
    ];
    for (name, text) in cases {
        let at = scene.copies.state(CommitId(1));
        scene.runtime.block_on(scene.copies.place.store.put(&at, text.into())).unwrap();
        let cache = tempfile::tempdir().unwrap();
        let Fetched::Missing { what } = scene.copies.fetch(CommitId(1), &cache.path().join("in")).unwrap() else {
            panic!("{name} was taken")
        };
        assert!(what.ends_with("is damaged"), "{name}: {what}");
    }
}

/// A file is put over one of another length, and over none that is whole.
#[test]
fn a_save_mends_what_was_cut() {
    let scene = Scene::in_memory();
    scene.put(1, &["shared", "first"]);
    let at = scene.copies.file("shared");
    scene.runtime.block_on(scene.copies.place.store.put(&at, "sh".into())).unwrap();
    let fetch = |id| scene.copies.fetch(CommitId(id), tempfile::tempdir().unwrap().path()).unwrap();
    assert_eq!(fetch(1), Fetched::Missing { what: "a/b/files/shared is damaged".to_owned() });
    scene.put(2, &["shared", "second"]);
    assert_eq!((fetch(1), fetch(2)), (Fetched::Done, Fetched::Done));
}

#[test]
fn what_no_checkpoint_names_goes_once_it_is_old() {
    let store = tempfile::tempdir().unwrap();
    let scene = Scene::over(Place::resolve(&store.path().display().to_string()).unwrap());
    let age = |name: &str| {
        fs::File::options()
            .write(true)
            .open(store.path().join(name))
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH)
            .unwrap();
    };
    let states = [(1, ["all", "kept"]), (2, ["all", "superseded"]), (3, ["all", "old"]), (4, ["all", "young"])];
    for (id, names) in states {
        scene.put(id, &names);
    }
    let state = |id: u128| format!("states/{}.json", CommitId(id));
    ["files/all", "files/kept", "files/old", &state(1), &state(3)].into_iter().for_each(age);
    for _ in 0..2 {
        scene.runtime.block_on(scene.copies.remove(&[named(2)], &[named(1)])).unwrap();
        let mut left = vec!["files/all".to_owned(), "files/kept".to_owned(), "files/young".to_owned()];
        left.extend([state(1), state(4)]);
        assert_eq!(scene.names(), left);
    }
    // Of a checkpoint that came late after all.
    scene.runtime.block_on(scene.copies.remove(&[named(1)], &[named(1)])).unwrap();
    assert_eq!(scene.copies.fetch(CommitId(1), tempfile::tempdir().unwrap().path()).unwrap(), Fetched::Done);
}
