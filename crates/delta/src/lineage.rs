//! Whether the table's data is what the stored offsets say (P9), and whose they are.
//!
//! - A RESTORE brings old data back and leaves the `txn`s: it is seen in the commits since the
//!   partition's last one, and what the restored version covers is worked out from the log.
//! - Two topics may share a table and an app id, the peer's default for one. Our commits name their
//!   topic; whose `app-0` is another topic's uses `app-<topic>-0` instead.
//! - A topic that was deleted and made again has another id than the one in the last commit.
//! - A pipeline's partitions are named by their source: see `named`.

use std::collections::{BTreeSet, HashSet};

use futures::TryStreamExt;
use lakeward_protocol::ports::{Breach, Gap};
use lakeward_protocol::position::{Frontier, Offset, PartitionId, TableVersion};
use serde::Deserialize;

use crate::commit::{GapNote, Notes};
use crate::error::DeltaError;
use crate::known::{Owner, Restore};
use crate::log::{self, Commit};
use crate::table::Table;

/// How many versions below the head are read to learn who stored an offset. Reached where
/// partitions are quiet while others are busy, or where the log was written by the peer.
const LOOK_BACK_COMMITS: u64 = 1_000;

/// Versions read at a time when going backwards.
const STRIDE: u64 = 64;

impl Table {
    /// Reads commits backwards until it is known who stored each of these partitions' offsets, as
    /// far as the log goes and the bound allows.
    pub(crate) fn look_back(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<(), DeltaError> {
        let keys = partitions.iter().flat_map(|&partition| {
            [Some(self.plain_key(partition)), self.qualified_key(partition)].into_iter().flatten()
        });
        self.look_back_for(&keys.collect::<Vec<_>>())
    }

    /// The same for app ids.
    pub(crate) fn look_back_for(&mut self, keys: &[String]) -> Result<(), DeltaError> {
        let oldest = self.version.saturating_sub(LOOK_BACK_COMMITS);
        while self.reaches_below(oldest) && self.unknown(keys) {
            self.see_older(oldest)?;
        }
        Ok(())
    }

    /// May there be commits from `oldest` on that were not seen yet?
    pub(crate) fn reaches_below(&self, oldest: u64) -> bool {
        self.known.seen_from > oldest && !self.known.exhausted
    }

    /// Reads some of the commits below those seen, down to `oldest`.
    pub(crate) fn see_older(&mut self, oldest: u64) -> Result<(), DeltaError> {
        let to = self.known.seen_from;
        let from = to.saturating_sub(STRIDE).max(oldest);
        let place = &self.kernel.place;
        let commits: Vec<(u64, Option<Commit>)> =
            self.runtime.block_on(log::read(place, (from..to).rev()).try_collect())?;
        for (version, commit) in commits {
            let Some(commit) = commit else {
                tracing::debug!(table = self.name(), version, "the log goes back no further; going on by offsets");
                self.known.exhausted = true;
                return Ok(());
            };
            self.known.see_older(&self.kernel.place.name, &commit);
        }
        Ok(())
    }

    /// Does the table hold the newest row of each key, by this application's commits as far as the log has them?
    ///
    /// # Errors
    /// The log can't be read.
    pub fn is_upserted(&mut self) -> Result<bool, DeltaError> {
        self.look_back_for(&self.known.txns.keys().cloned().collect::<Vec<_>>())?;
        Ok(self.known.txns.values().any(|stored| stored.owner.as_ref().is_some_and(|owner| owner.by_key)))
    }

    fn unknown(&self, keys: &[String]) -> bool {
        keys.iter().any(|key| self.known.txns.get(key).is_some_and(|stored| !stored.is_understood()))
    }

    /// P9: the RESTORE, if any, that took back the data which the newest offset under `key` is about.
    pub(crate) fn taken_back(&mut self, key: &str) -> Result<Option<Restore>, DeltaError> {
        let Some(stored) = self.known.txns.get(key).cloned() else { return Ok(None) };
        let after = |restore: &&Restore| stored.at.is_none_or(|at| at < restore.at);
        let Some(newest) = self.known.restores.iter().rfind(after).map(|restore| restore.at) else { return Ok(None) };
        if self.covered(key, stored.last, stored.at)? == Some(stored.last) {
            return Ok(None);
        }
        self.resolved(newest).map(Some)
    }

    fn plain_key(&self, partition: PartitionId) -> String {
        self.named_key(partition).unwrap_or_else(|| format!("{}-{partition}", self.app_id))
    }

    fn qualified_key(&self, partition: PartitionId) -> Option<String> {
        self.topic.as_ref().map(|topic| format!("{}-{}-{partition}", self.app_id, topic.name))
    }

    /// The app id under which this partition's offset is stored: the peer's, or one with the topic
    /// in it where the peer's is another topic's.
    pub(crate) fn key(&self, partition: PartitionId) -> String {
        let plain = self.plain_key(partition);
        let Some(qualified) = self.qualified_key(partition) else { return plain };
        let owner_of = |key: &str| self.known.txns.get(key).map(|stored| stored.owner.as_deref());
        match (owner_of(&plain), owner_of(&qualified)) {
            (_, Some(owner)) if owner.is_none_or(|owner| self.is_ours(owner)) => qualified,
            (Some(Some(owner)), _) if !self.is_ours(owner) => qualified,
            _ => plain,
        }
    }

    fn is_ours(&self, owner: &Owner) -> bool {
        let topic = self.topic.as_ref().map(|topic| topic.name.as_str());
        owner.app_id == self.app_id && (owner.topic.is_none() || owner.topic.as_deref() == topic)
    }

    /// P9: the stored offset is of a topic of our topic's name, but not of our topic.
    pub(crate) fn other_topic(&mut self, partitions: &BTreeSet<PartitionId>) -> Option<Breach> {
        if !self.sources.is_empty() {
            return self.source_elsewhere(partitions);
        }
        self.warn_of_collisions(partitions);
        let is = self.topic.as_ref()?.id_text()?;
        let mut affected: Option<(String, BTreeSet<PartitionId>)> = None;
        for &partition in partitions {
            let stored = self.known.txns.get(&self.key(partition));
            let was = stored.and_then(|stored| stored.owner.as_ref()?.topic_id.clone());
            let Some(was) = was.filter(|was| *was != is) else { continue };
            affected.get_or_insert_with(|| (was, BTreeSet::new())).1.insert(partition);
        }
        affected.map(|(was, partitions)| Breach::OtherTopic { was, is, partitions })
    }

    fn warn_of_collisions(&mut self, partitions: &BTreeSet<PartitionId>) {
        for &partition in partitions {
            let (plain, key) = (self.plain_key(partition), self.key(partition));
            if key == plain || !self.warned.insert(plain.clone()) {
                continue;
            }
            let owner = self.known.txns.get(&plain).and_then(|stored| stored.owner.as_deref());
            if let Some(Owner { app_id, topic: Some(topic), .. }) = owner {
                tracing::warn!(
                    table = self.name(),
                    app_id,
                    topic,
                    ours = key,
                    "another topic stores its offsets in this table under {plain}; ours are stored under {key}; \
                     give each topic its own --app_id to keep them apart",
                );
            }
        }
    }

    /// P9: the partitions, of those asked for, whose last commit a RESTORE took back, and what the
    /// table covers of them.
    pub(crate) fn restored(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<Option<Breach>, DeltaError> {
        let mut breach: Option<(Restore, Frontier)> = None;
        for &partition in partitions {
            let key = self.key(partition);
            let Some(stored) = self.known.txns.get(&key).cloned() else { continue };
            let Some(newest) = self.known.restores.iter().rfind(|restore| stored.at.is_none_or(|at| at < restore.at))
            else {
                continue;
            };
            let newest = newest.at;
            let covered = self.covered(&key, stored.last, stored.at)?;
            if covered == Some(stored.last) {
                continue;
            }
            let position = match covered {
                Some(last) => Offset::after(last).unwrap_or(Offset::ZERO),
                None => self.first_position(partition, &key, newest)?,
            };
            let restore = self.resolved(newest)?;
            let (worst, frontier) = breach.get_or_insert_with(|| (restore, Frontier::new()));
            *worst = if restore.at > worst.at { restore } else { *worst };
            frontier.insert(partition, position);
        }
        Ok(breach.map(|(restore, frontier)| Breach::Restored {
            at: TableVersion(restore.at),
            to: TableVersion(restore.to.unwrap_or_default()),
            frontier,
        }))
    }

    /// The last offset under `key` whose data the newest version holds, given that the newest
    /// `txn` says `last`, stored in version `at`. Follows restores of restores.
    fn covered(&mut self, key: &str, last: i64, at: Option<u64>) -> Result<Option<i64>, DeltaError> {
        let (mut value, mut at, mut upto) = (Some(last), at, self.version);
        loop {
            let after = |restore: &&Restore| restore.at <= upto && at.is_none_or(|at| at < restore.at);
            let Some(restore) = self.known.restores.iter().rfind(after).copied() else { return Ok(value) };
            upto = self.resolved(restore.at)?.to.unwrap_or_default();
            if at.is_some_and(|at| at <= upto) {
                continue;
            }
            (value, at) = self.last_stored(key, upto)?;
            if value.is_none() {
                return Ok(None);
            }
        }
    }

    /// What was stored under `key` as of version `upto`, and by which version.
    fn last_stored(&mut self, key: &str, upto: u64) -> Result<(Option<i64>, Option<u64>), DeltaError> {
        let mut top = Some(upto);
        'walk: while let Some(to) = top {
            let from = to.saturating_sub(STRIDE);
            let place = &self.kernel.place;
            let commits: Vec<(u64, Option<Commit>)> =
                self.runtime.block_on(log::read(place, (from..=to).rev()).try_collect())?;
            for (version, commit) in commits {
                let Some(commit) = commit else { break 'walk };
                if let Some(txn) = commit.txns.iter().find(|txn| txn.app_id == key) {
                    return Ok((Some(txn.version), Some(version)));
                }
            }
            top = from.checked_sub(1);
        }
        if top.is_none() {
            return Ok((None, None));
        }
        let Some(snapshot) = self.kernel.at(upto)? else { return Err(self.unreadable(upto)) };
        let txns = self.kernel.txns(&snapshot, key)?;
        // Where its commit is gone from the log no restore that we could still see precedes it.
        Ok((txns.get(key).map(|found| found.last), Some(0)))
    }

    /// Where the partition's first commit began, which the restored version does not cover.
    fn first_position(&mut self, partition: PartitionId, key: &str, restore: u64) -> Result<Offset, DeltaError> {
        let from = self.resolved(restore)?.to.unwrap_or_default() + 1;
        let place = &self.kernel.place;
        self.runtime.block_on(async {
            let mut commits = std::pin::pin!(log::read::<log::Skipped>(place, from..restore));
            while let Some((_, commit)) = commits.try_next().await? {
                let Some(commit) = commit else { break };
                if !commit.txns.iter().any(|txn| txn.app_id == key) {
                    continue;
                }
                let notes = commit.info.as_ref().and_then(Notes::of);
                let span = notes.and_then(|notes| notes.spans.into_iter().find(|span| self.is_of(span, partition)));
                return Ok(span.and_then(|span| Offset::new(span.from).ok()).unwrap_or(Offset::ZERO));
            }
            Ok(Offset::ZERO)
        })
    }

    /// The gaps that commits of ours wrote down above these positions, oldest first: read backwards until
    /// what each partition has above them is accounted for. `None` where the log ends before that.
    pub(crate) fn gaps_above(&self, above: &Frontier) -> Result<Option<Vec<Gap>>, DeltaError> {
        let stored = |p: PartitionId| self.known.txns.get(&self.key(p)).map(|stored| stored.last);
        let moved = above.iter().filter(|(p, at)| stored(**p).is_some_and(|last| last >= at.get()));
        let mut left: Frontier = moved.map(|(p, at)| (*p, *at)).collect();
        let mut gaps = Vec::new();
        let place = &self.kernel.place;
        self.runtime.block_on(async {
            let mut commits = std::pin::pin!(log::read::<log::Skipped>(place, (0..=self.version).rev()));
            while !left.is_empty() {
                let Some((_, commit)) = commits.try_next().await? else { break };
                let Some(commit) = commit else { return Ok(None) };
                let Some(notes) = commit.info.as_ref().and_then(Notes::of) else { continue };
                if notes.app_id == self.app_id {
                    left.retain(|partition, above| {
                        let found = self.gaps_in(&notes, *partition);
                        let from = found.iter().map(|gap| gap.from).min();
                        let span = notes.spans.iter().find(|span| self.is_of(span, *partition));
                        let begins = from.map(Offset::get).into_iter().chain(span.map(|span| span.from)).min();
                        gaps.extend(found.into_iter().filter(|gap| gap.to > *above));
                        begins.is_none_or(|begins| begins > above.get())
                    });
                }
            }
            gaps.reverse();
            Ok(Some(gaps))
        })
    }

    fn gaps_in(&self, notes: &Notes, partition: PartitionId) -> Vec<Gap> {
        let (source, number) = self.place_of(partition);
        let own = notes.gaps.iter().filter(|note| note.source == source && note.partition == number);
        let gap = |note: &GapNote| {
            let (from, to) = (Offset::new(note.from).ok()?, Offset::new(note.to).ok()?);
            Some(Gap { partition, from, to, reason: note.reason.clone() })
        };
        own.filter_map(gap).collect()
    }

    /// The RESTORE of version `at` with its target, looked up where the commit does not name it.
    fn resolved(&mut self, at: u64) -> Result<Restore, DeltaError> {
        let index = self.known.restores.iter().position(|restore| restore.at == at).expect("a restore we know of");
        if self.known.restores[index].to.is_none() {
            self.known.restores[index].to = Some(self.target(at)?);
        }
        Ok(self.known.restores[index])
    }

    /// The newest version that holds the files that the RESTORE of version `at` left: the one just
    /// before the oldest that added what it removed, or removed what it added again.
    fn target(&self, at: u64) -> Result<u64, DeltaError> {
        let place = &self.kernel.place;
        self.runtime.block_on(async {
            let restore = log::read_all::<FileName>(place, [at]).await?;
            let Some(restore) = restore.and_then(|mut commits| commits.pop()) else { return Err(self.unreadable(at)) };
            let mut removed: HashSet<FileName> = restore.removes.into_iter().collect();
            let mut added: HashSet<FileName> = restore.adds.into_iter().collect();
            let mut target = at - 1;
            let mut commits = std::pin::pin!(log::read::<FileName>(place, (0..at).rev()));
            while !(removed.is_empty() && added.is_empty()) {
                let Some((version, commit)) = commits.try_next().await? else { break };
                let Some(commit) = commit else { return Err(self.unreadable(version)) };
                let undone = commit.adds.iter().filter(|add| removed.remove(add)).count()
                    + commit.removes.iter().filter(|remove| added.remove(remove)).count();
                if undone > 0 {
                    target = version.saturating_sub(1);
                }
            }
            Ok(target)
        })
    }

    fn unreadable(&self, version: u64) -> DeltaError {
        DeltaError::Broken {
            table: self.name().to_owned(),
            reason: format!(
                "it was restored to an older version, and version {version}, which would tell what is missing since, \
                 is no longer in its log; compare the table with the topic, then store the right offset in the table \
                 (a commit of txn actions alone) or begin a new table"
            ),
        }
    }
}

/// What tells one live file from another: the same path with other dead rows is another.
#[derive(Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileName {
    path: String,
    deletion_vector: Option<VectorName>,
}

/// A deletion vector's name.
#[derive(Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VectorName {
    storage_type: String,
    path_or_inline_dv: String,
    offset: Option<i64>,
}
