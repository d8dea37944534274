//! Where a table is, or a pipeline's state, and the store that holds it.

mod guard;
mod lease;
mod profile;
mod remote;

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};
use std::sync::{Arc, Mutex};

use object_store::ObjectStore;
use object_store::path::Path;
use tokio::runtime::Handle;
use url::Url;

use crate::durable::DurableDisk;
use crate::error::DeltaError;
use guard::Guarded;
pub use guard::Unguarded;

/// The address of a table, or of a pipeline's state, resolved.
#[derive(Clone, Debug)]
pub struct Place {
    /// As people know it, for messages.
    pub name: String,
    /// The store: a bucket, a container, the local disk.
    pub store: Arc<dyn ObjectStore>,
    /// The folder in the store.
    pub root: Path,
    /// The same for the kernel; ends with a slash.
    pub(crate) url: Url,
}

/// Schemes whose URL path is the key in the store, which the kernel takes for granted.
const OBJECT_SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"];

/// One client for each place of a process: its connections, its keys, and what is known of its store are shared by all
/// who open it.
static OPENED: Mutex<BTreeMap<String, Arc<Guarded>>> = Mutex::new(BTreeMap::new());

impl Place {
    /// Resolves a path, relative or absolute, or a `file:`, `s3:`, `s3a:`, `gs:`, `az:`, `abfs:` or
    /// `abfss:` URL; object stores take their options from `AWS_*`, `AZURE_*` and `GOOGLE_*`.
    ///
    /// # Errors
    /// When it is none of these, or the options make no sense.
    pub fn resolve(location: &str) -> Result<Self, DeltaError> {
        let bad = |reason: String| DeltaError::Location { location: location.to_owned(), reason };
        if location.is_empty() {
            return Err(bad("it is empty".to_owned()));
        }
        if !has_scheme(location) {
            let path = without_parents(&std::path::absolute(location).map_err(|error| bad(error.to_string()))?);
            let url = Url::from_directory_path(&path).map_err(|()| bad("not a path".to_owned()))?;
            return Self::on_disk(path.display().to_string(), url).map_err(bad);
        }
        let mut url = Url::parse(location).map_err(|error| bad(error.to_string()))?;
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        match url.scheme() {
            "file" => Self::on_disk(location.to_owned(), url).map_err(bad),
            scheme if OBJECT_SCHEMES.contains(&scheme) => {
                let root = Path::from_url_path(url.path()).map_err(|error| bad(error.to_string()))?;
                let store = opened(&url, &root).map_err(bad)?;
                Ok(Self { name: location.to_owned(), store, root, url })
            }
            scheme => {
                Err(bad(format!("{scheme}: is no scheme we know; take a path, file, s3, s3a, gs, az, abfs or abfss")))
            }
        }
    }

    fn on_disk(name: String, url: Url) -> Result<Self, String> {
        let path = url.to_file_path().map_err(|()| "a file: URL with a host".to_owned())?;
        let root = Path::from_absolute_path(path).map_err(|error| error.to_string())?;
        if root.as_ref().contains('%') {
            return Err(
                "the path holds a percent sign, which the Delta library takes for an escape; rename it".to_owned()
            );
        }
        Ok(Self { name, store: Arc::new(DurableDisk::new()), root, url })
    }

    /// In a store that is there already, and lists in the order of names.
    ///
    /// # Errors
    /// Never, for a path that a store can have.
    pub fn on_store(store: Arc<dyn ObjectStore>, root: Path) -> Result<Self, DeltaError> {
        let mut url = Url::parse("memory:///").expect("a URL");
        url.path_segments_mut()
            .expect("a base")
            .clear()
            .extend(root.parts().map(|part| part.as_ref().to_owned()))
            .push("");
        Ok(Self { name: root.to_string(), store, root, url })
    }

    /// The folder, where it is one of this machine's.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        self.url.to_file_path().ok().filter(|_| self.url.scheme() == "file")
    }

    /// A file of the log.
    pub(crate) fn log_file(&self, name: &str) -> Path {
        self.root.clone().join("_delta_log").join(name)
    }

    /// The log's folder.
    pub(crate) fn log_folder(&self) -> Path {
        self.root.clone().join("_delta_log")
    }
}

/// The store of a URL, opened once.
fn opened(url: &Url, root: &Path) -> Result<Arc<Guarded>, String> {
    let mut all = OPENED.lock().expect("no holder panics");
    if let Some(store) = all.get(url.as_str()) {
        return Ok(Arc::clone(store));
    }
    let remote = remote::open(url, &remote::variables())?;
    let store = Arc::new(Guarded::new(remote, root.clone(), lease::Terms::default()));
    all.insert(url.to_string(), Arc::clone(&store));
    Ok(store)
}

/// Leave to write to a place. Held for as long as somebody writes there: a lease is given back when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Admission {
    /// `None` on a local disk.
    store: Option<Arc<Guarded>>,
    runtime: Handle,
}

/// Makes sure that a place can be written to: that its store keeps conditions, or, where that `may_be_alone`, that no
/// other process of ours writes there. Whatever is put if absent is preceded by the same; here one learns it before
/// anything else is done. A local disk needs no leave. Blocks.
///
/// # Errors
/// An address that is none; a store that refuses, does not answer, or can't do it; another process that holds the lease.
pub fn admit(location: &str, may_be_alone: bool, runtime: &Handle) -> Result<Admission, DeltaError> {
    let place = Place::resolve(location)?;
    let runtime = runtime.clone();
    if place.folder().is_some() {
        return Ok(Admission { store: None, runtime });
    }
    let store = opened(&place.url, &place.root)
        .map_err(|reason| DeltaError::Location { location: location.to_owned(), reason })?;
    let admitted = runtime.block_on(store.admit(may_be_alone));
    admitted.map_err(|error| DeltaError::store(format!("look at the store of {location}"), error))?;
    Ok(Admission { store: Some(store), runtime })
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            self.runtime.block_on(store.release());
        }
    }
}

/// The path without `..`, which object stores have no word for. Where a folder is a link, its `..` is that of the
/// folder it leads to, as for everybody else.
fn without_parents(path: &std::path::Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        if component == Component::ParentDir {
            clean = clean.canonicalize().unwrap_or(clean);
            clean.pop();
        } else {
            clean.push(component);
        }
    }
    clean
}

/// `scheme:` of two letters or more, so that `C:` is none.
fn has_scheme(location: &str) -> bool {
    location.split_once(':').is_some_and(|(scheme, _)| {
        scheme.len() > 1
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_or_refused() {
        #[rustfmt::skip] // columns: location, root in the store
        let good = [
            ("/data/t",            "data/t"),
            ("/data/t/",           "data/t"),
            ("file:///data/a%20b", "data/a b"),
            ("/data/a b",          "data/a b"),
            ("/data/é?#",          "data/é?#"),
            ("/data/x/../t",       "data/t"),
            ("/data/./t/..",       "data"),
            ("/../../data/t",      "data/t"),
        ];
        for (location, root) in good {
            let place = Place::resolve(location).unwrap();
            assert_eq!(place.root.as_ref(), root, "{location}");
            assert_eq!(Path::from_url_path(place.url.path()).unwrap(), place.root, "{location}");
            assert!(place.url.path().ends_with('/'), "{location}");
        }
        let linked = tempfile::TempDir::new().unwrap();
        std::fs::create_dir_all(linked.path().join("far/away")).unwrap();
        std::os::unix::fs::symlink(linked.path().join("far/away"), linked.path().join("near")).unwrap();
        let beside = Place::resolve(&linked.path().join("near/../t").display().to_string()).unwrap();
        assert!(beside.root.as_ref().ends_with("far/t"), "{}", beside.root);
        let here = Place::resolve("some/where").unwrap();
        assert!(here.root.as_ref().ends_with("some/where") && here.root.as_ref().len() > "some/where".len());
        for location in ["", "ftp://x/y", "https://x/y", "file://host/x", "/data/a%20b"] {
            let error = Place::resolve(location).unwrap_err();
            assert!(matches!(error, DeltaError::Location { .. }), "{location}: {error}");
        }
        let stored = Place::on_store(Arc::new(object_store::memory::InMemory::new()), Path::from("a/b c")).unwrap();
        assert_eq!(stored.url.path(), "/a/b%20c/");
    }
}
