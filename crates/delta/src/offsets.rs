//! The offsets that a table stores, for those who show or set them.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::commit::{ByNote, Notes};
use crate::error::DeltaError;
use crate::kernel::{Kernel, Last};
use crate::log;
use crate::retention::Retention;
use crate::store::Place;
use crate::table::Topic;
use crate::view::Mode;

/// How many versions are read to learn who stored an offset.
const LOOK_BACK_COMMITS: u64 = 10_000;

/// A `txn` of the table, and the commit that stored it, as far as the log goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredOffset {
    /// `txn.appId`.
    pub txn: String,
    /// `txn.version`: of ours and the peer's the last consumed offset.
    pub last: i64,
    /// The version that stored it.
    pub version: Option<u64>,
    /// When that was, in ms since 1970.
    pub timestamp_ms: Option<i64>,
    /// Where the table forgets offsets: when it forgets this one unless it is committed again, in ms since 1970.
    pub forgotten_ms: Option<i64>,
    /// The `app_id` of its job, where a commit of ours says it.
    pub app_id: Option<String>,
    /// What it is an offset of, where a commit of ours says it.
    pub topic: Option<Topic>,
    /// Where a person chose it: who and why.
    pub by: Option<ByNote>,
    /// It is a pipeline's, whose state goes with it.
    pub is_pipelines: bool,
    /// Its commit kept the newest row of each key (mode upsert): rows may only come by who knows the keys.
    pub by_key: bool,
}

impl StoredOffset {
    /// The partition's number, by the rule `<app>-<number>`; `None` for what other writers store.
    #[must_use]
    pub fn partition(&self) -> Option<u32> {
        self.txn.rsplit_once('-')?.1.parse().ok()
    }

    fn learn(&mut self, version: u64, info: &serde_json::Map<String, Value>) {
        self.version = Some(version);
        self.timestamp_ms = info.get("timestamp").and_then(Value::as_i64);
        let Some(notes) = Notes::of(info) else { return };
        self.is_pipelines = !notes.sources.is_empty();
        self.by_key = notes.view.as_ref().is_some_and(|view| view.mode == Mode::Upsert.word());
        let topic = notes.topic.map(|name| Topic { name, id: notes.topic_id.as_deref().and_then(id) });
        (self.app_id, self.topic, self.by) = (Some(notes.app_id), topic, notes.by);
    }
}

fn id(hexadecimal: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(hexadecimal, 16).ok().map(u128::to_be_bytes)
}

/// The table's newest version, and every offset that it stores, in the order of their `txn`s.
///
/// # Errors
/// No table there, or a store that refuses.
pub fn stored_offsets(location: &str, runtime: Handle) -> Result<(u64, Vec<StoredOffset>), DeltaError> {
    let kernel = Kernel::new(Place::resolve(location)?, runtime.clone());
    let snapshot = kernel.newest()?;
    let version = snapshot.version();
    let retention =
        Retention::of(&kernel.place.name, &snapshot.metadata_configuration().clone().into_iter().collect())?;
    let bare = |(txn, Last { last, updated_ms }): (String, Last)| {
        let forgotten_ms = retention.as_ref().map(|retention| retention.ends_ms(updated_ms));
        (txn.clone(), StoredOffset { txn, last, forgotten_ms, ..StoredOffset::default() })
    };
    let mut stored: BTreeMap<String, StoredOffset> = kernel.txns(&snapshot, "")?.into_iter().map(bare).collect();
    let oldest = version.saturating_sub(LOOK_BACK_COMMITS);
    runtime.block_on(async {
        let mut left = stored.len();
        let mut commits = std::pin::pin!(log::read::<log::Skipped>(&kernel.place, (oldest..=version).rev()));
        while left > 0 {
            // Below the first one that is not there the log was cleaned up.
            let Some((version, Some(commit))) = commits.try_next().await? else { break };
            let info = commit.info.unwrap_or_default();
            for txn in &commit.txns {
                if let Some(of) = stored.get_mut(&txn.app_id).filter(|of| of.version.is_none()) {
                    of.learn(version, &info);
                    left -= 1;
                }
            }
        }
        Ok::<_, DeltaError>(())
    })?;
    Ok((version, stored.into_values().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_by_the_rule() {
        for (txn, partition) in [("app-0", Some(0)), ("a-b-17", Some(17)), ("8fae-uuid", None), ("app", None)] {
            let stored = StoredOffset { txn: txn.to_owned(), ..StoredOffset::default() };
            assert_eq!(stored.partition(), partition, "{txn}");
        }
    }

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let written = format!("{:032x}", u128::from_be_bytes([7; 16]));
        assert_eq!(id(&written), Some([7; 16]));
        assert_eq!(id("none"), None);
    }
}
