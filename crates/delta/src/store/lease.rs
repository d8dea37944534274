//! One process's word that it alone writes to a store that can't keep two apart.
//!
//! The lease is an object with an owner, how long it lives, and a count that goes up as it is renewed. Whoever finds one
//! watches it for its life: one that counts up is held, and refuses him; one that stands still has run out. So no two
//! machines' clocks are compared. An owner looks at it before each put, and stops once it is another's.
//!
//! This narrows what can go wrong; without conditions nothing closes it. That is why it is called unsafe.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, Result};
use serde::{Deserialize, Serialize};

use super::guard::Unguarded;

/// How long what lasts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// A lease that was not renewed for so long is nobody's.
    pub life: Duration,
    /// It is renewed so often.
    pub renewal: Duration,
    /// Two who both found it free have both put theirs after so long.
    pub settling: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self { life: Duration::from_secs(20), renewal: Duration::from_secs(4), settling: Duration::from_secs(3) }
    }
}

/// The object's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Text {
    owner: String,
    /// For people.
    holder: String,
    count: u64,
    /// Not renewed for so long, it is nobody's.
    life_ms: u64,
}

/// A lease that is held, or was.
#[derive(Debug)]
pub(super) struct Lease {
    store: Arc<dyn ObjectStore>,
    at: Path,
    owner: String,
    holder: String,
    terms: Terms,
    count: AtomicU64,
    lost: Mutex<Option<String>>,
}

impl Lease {
    /// Takes it, once it is free.
    ///
    /// # Errors
    /// [`Unguarded::Held`] as soon as its owner is seen to be alive; a store that does not answer.
    pub(super) async fn acquire(store: Arc<dyn ObjectStore>, at: Path, terms: Terms) -> Result<Arc<Self>> {
        let lease = Arc::new(Self {
            store,
            at,
            owner: unique(),
            holder: holder(),
            terms,
            count: AtomicU64::new(0),
            lost: Mutex::default(),
        });
        lease.wait_until_free().await?;
        lease.put().await?;
        tokio::time::sleep(terms.settling).await;
        match lease.read().await? {
            Some(found) if found.owner == lease.owner => {}
            Some(found) => return Err(Unguarded::Held { holder: found.holder }.into_error()),
            None => return Err(Unguarded::Lost { reason: "it was removed".to_owned() }.into_error()),
        }
        tokio::spawn(renew(Arc::downgrade(&lease), terms));
        Ok(lease)
    }

    async fn wait_until_free(&self) -> Result<()> {
        let Some(mut seen) = self.read().await? else { return Ok(()) };
        let mut waited = Duration::ZERO;
        while waited < self.terms.life.max(Duration::from_millis(seen.life_ms)) {
            if waited.is_zero() {
                tracing::warn!("{} held the lease on this table; waiting to see whether it still lives", seen.holder);
            }
            tokio::time::sleep(self.terms.renewal).await;
            waited += self.terms.renewal;
            match self.read().await? {
                None => return Ok(()),
                Some(now) if now != seen => return Err(Unguarded::Held { holder: now.holder }.into_error()),
                Some(now) => seen = now,
            }
        }
        tracing::warn!("the lease of {} ran out; taking it", seen.holder);
        Ok(())
    }

    /// Is it ours still? Asks the store.
    ///
    /// # Errors
    /// [`Unguarded::Lost`]; a store that does not answer.
    pub(super) async fn check(&self) -> Result<()> {
        self.known()?;
        match self.read().await? {
            Some(found) if found.owner == self.owner => self.known(),
            Some(found) => self.lose(format!("{} has it", found.holder)),
            None => self.lose("it was removed".to_owned()),
        }
    }

    fn known(&self) -> Result<()> {
        match self.lost.lock().expect("no holder panics").clone() {
            None => Ok(()),
            Some(reason) => Err(Unguarded::Lost { reason }.into_error()),
        }
    }

    fn lose(&self, reason: String) -> Result<()> {
        let lost = self.lost.lock().expect("no holder panics").get_or_insert(reason).clone();
        Err(Unguarded::Lost { reason: lost }.into_error())
    }

    /// Gives it back, so that the next one need not wait.
    pub(super) async fn release(&self) {
        if self.check().await.is_ok() {
            let _ = self.lose("it was given back".to_owned());
            if let Err(error) = self.store.delete(&self.at).await {
                tracing::warn!("the lease {} stays until it runs out: {error}", self.at);
            }
        }
    }

    async fn read(&self) -> Result<Option<Text>> {
        let bytes = match self.store.get(&self.at).await {
            Ok(found) => found.bytes().await?,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        // What nobody can read is nobody's word; it still has to stop changing.
        let strange = || Text {
            owner: format!("{:?}", bytes.len()),
            holder: format!("a writer of another version ({})", self.at),
            count: 0,
            life_ms: 0,
        };
        Ok(Some(serde_json::from_slice(&bytes).unwrap_or_else(|_| strange())))
    }

    async fn put(&self) -> Result<()> {
        let text = Text {
            owner: self.owner.clone(),
            holder: self.holder.clone(),
            count: self.count.fetch_add(1, Ordering::SeqCst),
            life_ms: u64::try_from(self.terms.life.as_millis()).unwrap_or(u64::MAX),
        };
        let text = serde_json::to_vec(&text).expect("plain values are JSON");
        self.store.put(&self.at, text.into()).await.map(drop)
    }

    /// Looks, and counts up.
    async fn renew(&self) -> Result<()> {
        self.check().await?;
        self.put().await
    }
}

/// Renews a lease for as long as somebody has it.
async fn renew(lease: Weak<Lease>, terms: Terms) {
    loop {
        tokio::time::sleep(terms.renewal).await;
        let Some(lease) = lease.upgrade() else { return };
        let trying = async {
            while let Err(error) = lease.renew().await {
                if lease.known().is_err() {
                    return;
                }
                tracing::warn!("the lease {} can't be renewed: {error}", lease.at);
                tokio::time::sleep(terms.renewal / 4).await;
            }
        };
        // From the last renewal until here it lives in any case.
        if tokio::time::timeout(terms.life - 2 * terms.renewal, trying).await.is_err() {
            let _ = lease.lose(format!("it could not be renewed within {:?}", terms.life));
        }
        if lease.known().is_err() {
            return;
        }
    }
}

fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("process {} on host {}", std::process::id(), if host.trim().is_empty() { "unknown" } else { host.trim() })
}

#[expect(clippy::disallowed_methods, reason = "an edge: two owners must differ")]
fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
