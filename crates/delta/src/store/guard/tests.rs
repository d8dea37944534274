//! Stores that do not keep conditions, each in its way, and two processes that both want to write.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use object_store::memory::InMemory;

use super::*;

/// How a store treats a put if absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Honest,
    /// Puts.
    Careless,
    /// Looks, then puts.
    Hasty,
}

#[derive(Debug)]
struct Wild {
    inner: InMemory,
    manner: Manner,
    is_down: AtomicBool,
    creates: AtomicUsize,
}

impl Wild {
    fn new(manner: Manner) -> Arc<Self> {
        Arc::new(Self { inner: InMemory::new(), manner, is_down: AtomicBool::new(false), creates: AtomicUsize::new(0) })
    }

    fn up(&self) -> Result<()> {
        match self.is_down.load(Ordering::SeqCst) {
            true => Err(Error::Generic { store: "wild", source: "no answer".into() }),
            false => Ok(()),
        }
    }

    async fn names(&self) -> Vec<String> {
        use futures::TryStreamExt;
        let mut all: Vec<_> =
            self.inner.list(None).map_ok(|meta| meta.location.to_string()).try_collect().await.unwrap();
        all.sort();
        all
    }
}

impl fmt::Display for Wild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wild")
    }
}

#[async_trait]
impl ObjectStore for Wild {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.up()?;
        if options.mode != PutMode::Create {
            return self.inner.put_opts(at, payload, options).await;
        }
        self.creates.fetch_add(1, Ordering::SeqCst);
        if self.manner == Manner::Hasty && self.inner.head(at).await.is_ok() {
            return Err(Error::AlreadyExists { path: at.to_string(), source: "looked".into() });
        }
        tokio::task::yield_now().await;
        let mode = if self.manner == Manner::Honest { PutMode::Create } else { PutMode::Overwrite };
        self.inner.put_opts(at, payload, mode.into()).await
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.up()?;
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

const TERMS: Terms =
    Terms { life: Duration::from_millis(400), renewal: Duration::from_millis(40), settling: Duration::from_millis(20) };

fn guarded(wild: &Arc<Wild>) -> Guarded {
    let store: Arc<dyn ObjectStore> = wild.clone();
    Guarded::new(Remote { quick: store.clone(), patient: store }, Path::from("t"), TERMS)
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
}

fn unguarded(error: &Error) -> Option<&Unguarded> {
    std::error::Error::source(error)?.downcast_ref()
}

async fn commit(guarded: &Guarded, text: &'static str) -> Result<PutResult> {
    guarded.put_opts(&Path::from("t/_delta_log/1.json"), text.into(), PutMode::Create.into()).await
}

#[test]
fn a_store_that_keeps_conditions_is_probed_once_and_left_clean() {
    run(async {
        let wild = Wild::new(Manner::Honest);
        let first = guarded(&wild);
        commit(&first, "one").await.unwrap();
        let taken = commit(&first, "two").await.unwrap_err();
        assert!(matches!(taken, Error::AlreadyExists { .. }), "{taken}");
        assert_eq!(wild.names().await, ["t/_delta_log/1.json", "t/_lakeward/conditions"]);
        assert_eq!(wild.creates.swap(0, Ordering::SeqCst), RACERS + 1 + 1 + 2, "race, after it, mark, commits");
        // The next process asks once.
        guarded(&wild).admit(true).await.unwrap();
        assert_eq!(wild.creates.load(Ordering::SeqCst), 1);
        assert_eq!(wild.names().await.len(), 2, "no lease where none is needed");
    });
}

#[test] // P40
fn a_store_that_does_not_is_refused_before_anything_is_committed() {
    for manner in [Manner::Careless, Manner::Hasty] {
        run(async {
            let wild = Wild::new(manner);
            // Whether it is asked for, or found by the first commit; now and again.
            for _ in 0..2 {
                for error in [guarded(&wild).admit(false).await.err(), commit(&guarded(&wild), "x").await.err()] {
                    let found = error.as_ref().and_then(unguarded);
                    assert!(matches!(found, Some(Unguarded::Unconditional { winners: 2.. })), "{manner:?}: {error:?}");
                }
            }
            assert_eq!(wild.names().await, [] as [&str; 0], "{manner:?}");
        });
    }
}

#[test]
fn alone_a_name_is_put_once_and_a_second_process_is_refused() {
    run(async {
        let wild = Wild::new(Manner::Careless);
        let first = guarded(&wild);
        first.admit(true).await.unwrap();
        first.admit(true).await.unwrap();
        commit(&first, "one").await.unwrap();
        let taken = commit(&first, "two").await.unwrap_err();
        assert!(matches!(taken, Error::AlreadyExists { .. }), "{taken}");
        let error = guarded(&wild).admit(true).await.unwrap_err();
        assert!(matches!(unguarded(&error), Some(Unguarded::Held { holder }) if holder.contains("process")), "{error}");
        // One of two that were admitted goes.
        first.release().await;
        assert!(guarded(&wild).admit(true).await.is_err(), "the other still writes there");
        // Given back, it is free at once.
        first.release().await;
        let after = commit(&first, "three").await.unwrap_err();
        assert!(matches!(unguarded(&after), Some(Unguarded::Lost { .. })), "{after}");
        guarded(&wild).admit(true).await.unwrap();
    });
}

#[test]
fn a_lease_that_nobody_renews_runs_out() {
    run(async {
        let wild = Wild::new(Manner::Careless);
        let dead = guarded(&wild);
        dead.admit(true).await.unwrap();
        drop(dead);
        let next = guarded(&wild);
        next.admit(true).await.unwrap();
        commit(&next, "one").await.unwrap();
    });
}

#[test]
fn whoever_loses_the_lease_puts_nothing_more() {
    run(async {
        let wild = Wild::new(Manner::Careless);
        let (taken, removed) = (r#"{"owner":"x","holder":"somebody","count":0,"life_ms":9}"#, "");
        for text in [taken, removed] {
            let guarded = guarded(&wild);
            guarded.admit(true).await.unwrap();
            match text {
                "" => wild.inner.delete(&guarded.beside("lease")).await.unwrap(),
                text => drop(wild.inner.put(&guarded.beside("lease"), text.into()).await.unwrap()),
            }
            let error = commit(&guarded, "one").await.unwrap_err();
            assert!(matches!(unguarded(&error), Some(Unguarded::Lost { .. })), "{error}");
            // For good, whatever lies there later.
            wild.inner.delete(&guarded.beside("lease")).await.unwrap_or_default();
            assert!(commit(&guarded, "one").await.is_err());
        }
        assert_eq!(wild.names().await, [] as [&str; 0]);
    });
}

#[test]
fn a_lease_that_can_not_be_renewed_in_time_is_lost() {
    run(async {
        let wild = Wild::new(Manner::Careless);
        let guarded = guarded(&wild);
        guarded.admit(true).await.unwrap();
        wild.is_down.store(true, Ordering::SeqCst);
        let Some(Standing::Alone(lease)) = guarded.standing.get().cloned() else { panic!("a lease") };
        while lease.check().await.err().as_ref().and_then(unguarded).is_none() {
            tokio::time::sleep(TERMS.renewal).await;
        }
        wild.is_down.store(false, Ordering::SeqCst);
        let error = commit(&guarded, "one").await.unwrap_err();
        assert!(error.to_string().contains("could not be renewed"), "{error}");
    });
}
