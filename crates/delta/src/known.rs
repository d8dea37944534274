//! What the log has told so far: the stored offsets of one application, who stored them in which
//! version, and the RESTOREs among the versions seen.
//!
//! Fed newer versions as they appear, and older ones backwards as far as somebody needs to know.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::commit::{Notes, SourceNote};
use crate::kernel::Last;
use crate::log::{Commit, Txn};
use crate::view::Mode;

/// Whose commit stored an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub app_id: String,
    pub topic: Option<String>,
    pub topic_id: Option<String>,
    pub sources: Vec<SourceNote>,
    /// It took rows in by their keys.
    pub by_key: bool,
}

/// A stored `txn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The last consumed offset.
    pub last: i64,
    /// When it was stored, by the writer's clock, where its `txn` says so.
    pub updated_ms: Option<i64>,
    /// The version that stored it; `None` as long as nobody looked.
    pub at: Option<u64>,
    /// Whose it is, where that commit is one of ours.
    pub owner: Option<Arc<Owner>>,
    /// Was it compared with what was stored before it? Only what others store needs to be.
    pub compared: bool,
}

impl Stored {
    fn of(txn: &Txn, at: u64, owner: Option<Arc<Owner>>) -> Self {
        Self { last: txn.version, updated_ms: txn.last_updated, at: Some(at), owner, compared: false }
    }

    /// Is there nothing left to learn of it from older versions?
    pub(crate) fn is_understood(&self) -> bool {
        self.at.is_some() && (self.owner.is_some() || self.compared)
    }
}

/// A version that brought the data back to an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restore {
    pub at: u64,
    /// The older version; `None` as long as it is not found out.
    pub to: Option<u64>,
}

/// See the module's header.
#[derive(Debug)]
pub(crate) struct Known {
    /// App ids that begin so are ours to know.
    prefix: String,
    pub txns: HashMap<String, Stored>,
    /// Ascending.
    pub restores: Vec<Restore>,
    /// Every version from here to the head was seen.
    pub seen_from: u64,
    /// The log holds no commit below those seen.
    pub exhausted: bool,
    /// In-commit timestamp of the head, where it has one.
    pub in_commit_timestamp_ms: Option<i64>,
    /// What a commit later than the last look at the configuration says of the highest row id.
    pub row_ids: Option<String>,
}

impl Known {
    /// From a snapshot of `head`, of which no commit was seen yet.
    pub(crate) fn new(prefix: String, txns: HashMap<String, Last>, head: u64) -> Self {
        let txns = txns
            .into_iter()
            .map(|(app_id, Last { last, updated_ms })| {
                (app_id, Stored { last, updated_ms, at: None, owner: None, compared: false })
            })
            .collect();
        Self {
            prefix,
            txns,
            restores: Vec::new(),
            seen_from: head + 1,
            exhausted: false,
            in_commit_timestamp_ms: None,
            row_ids: None,
        }
    }

    /// Takes in the next version.
    pub(crate) fn see_newer(&mut self, table: &str, commit: &Commit) {
        let notes = commit.info.as_ref().and_then(Notes::of);
        let owner = notes.as_ref().map(owner);
        for txn in commit.txns.iter().filter(|txn| txn.app_id.starts_with(&self.prefix)) {
            let stored = Stored { compared: true, ..Stored::of(txn, commit.version, owner.clone()) };
            let before = self.txns.insert(txn.app_id.clone(), stored);
            if let Some(before) = before
                && owner.is_none()
            {
                warn_of_a_step_back(table, &txn.app_id, commit.version, before.last, txn.version);
            }
        }
        self.in_commit_timestamp_ms = commit.info.as_ref().and_then(in_commit_timestamp);
        if commit.row_ids.is_some() {
            self.row_ids.clone_from(&commit.row_ids);
        }
        self.restores.extend(restore(commit));
    }

    /// Takes in the version just below those seen. An offset of ours that a checkpoint forgot is known again by it.
    pub(crate) fn see_older(&mut self, table: &str, commit: &Commit) {
        assert_eq!(commit.version + 1, self.seen_from, "versions are seen backwards without a hole");
        let notes = commit.info.as_ref().and_then(Notes::of);
        for txn in commit.txns.iter().filter(|txn| txn.app_id.starts_with(&self.prefix)) {
            let Some(stored) = self.txns.get_mut(&txn.app_id) else {
                let owner = notes.as_ref().map(owner);
                self.txns.insert(txn.app_id.clone(), Stored::of(txn, commit.version, owner));
                continue;
            };
            match stored.at {
                None => {
                    stored.at = Some(commit.version);
                    stored.owner = notes.as_ref().map(owner);
                }
                Some(at) if stored.owner.is_none() && !stored.compared => {
                    stored.compared = true;
                    warn_of_a_step_back(table, &txn.app_id, at, txn.version, stored.last);
                }
                Some(_) => {}
            }
        }
        self.restores.splice(0..0, restore(commit));
        self.seen_from = commit.version;
    }
}

/// P43: the table is believed, since whoever does that means it; but not in silence.
fn warn_of_a_step_back(table: &str, app_id: &str, version: u64, from: i64, to: i64) {
    if to < from {
        tracing::warn!(
            table,
            app_id,
            version,
            from,
            to,
            "another writer moved a stored offset backwards; the records above it will be read and written again",
        );
    }
}

fn owner(notes: &Notes) -> Arc<Owner> {
    let Notes { app_id, topic, topic_id, sources, view, .. } = notes.clone();
    let by_key = view.is_some_and(|view| view.mode == Mode::Upsert.word());
    Arc::new(Owner { app_id, topic, topic_id, sources, by_key })
}

/// A commit's in-commit timestamp.
pub(crate) fn in_commit_timestamp(info: &Map<String, Value>) -> Option<i64> {
    info.get("inCommitTimestamp")?.as_i64()
}

/// Is it a RESTORE? Spark writes the version as text, delta-rs as a number, both nothing where the
/// user gave a time.
fn restore(commit: &Commit) -> Option<Restore> {
    if commit.operation() != "RESTORE" {
        return None;
    }
    let parameters = commit.info.as_ref().and_then(|info| info.get("operationParameters"));
    let to = parameters.and_then(|parameters| match parameters.get("version")? {
        Value::String(text) => text.trim_matches('"').parse().ok(),
        version => version.as_u64(),
    });
    Some(Restore { at: commit.version, to: to.filter(|to| *to < commit.version) })
}
