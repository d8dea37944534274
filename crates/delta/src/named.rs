//! A pipeline's partitions by the names of their sources.
//!
//! A pipeline stores its offsets under `<app>-<source>-<partition>`: whoever moves a source in the file,
//! or adds one before it, reads on where that source stood. What a name can't hold against (a source
//! renamed, or given another topic) is refused or shows as a breach.
//!
//! Invariants:
//! - The last dash parts the partition, so that no two partitions have one name.
//! - P9: offsets under our app id that no source of ours accounts for are refused, since rows were made
//!   of them; a source's offsets in another topic are a breach.

use std::collections::BTreeSet;

use lakeward_protocol::ports::Breach;
use lakeward_protocol::position::PartitionId;

use crate::commit::{SourceNote, Span};
use crate::error::DeltaError;
use crate::table::{Table, Topic};

/// A source of a pipeline, as its sinks know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTopic {
    /// The name that the pipeline gives it.
    pub source: String,
    /// What it reads.
    pub topic: Topic,
}

/// App ids named in a refusal; the rest are counted.
const STRANGERS_SHOWN: usize = 3;

impl Table {
    /// The same table, written from these sources, by the order of the pipeline
    /// ([`PartitionId::source`]). Partitions of other sources may not be asked of it.
    ///
    /// # Panics
    /// Without a source, or with two of one name.
    #[must_use]
    pub fn of_pipeline(mut self, sources: Vec<NamedTopic>) -> Self {
        let names: BTreeSet<_> = sources.iter().map(|each| &each.source).collect();
        assert!(!sources.is_empty() && names.len() == sources.len(), "sources have names of their own: {sources:?}");
        self.sources = sources;
        self
    }

    fn source(&self, partition: PartitionId) -> &NamedTopic {
        let at = usize::from(partition.source().0);
        self.sources.get(at).unwrap_or_else(|| panic!("partition {partition} is of no source of the pipeline"))
    }

    /// The app id of a named source's partition; `None` where sources have no names.
    pub(crate) fn named_key(&self, partition: PartitionId) -> Option<String> {
        let is_named = !self.sources.is_empty();
        is_named.then(|| format!("{}-{}-{}", self.app_id, self.source(partition).source, partition.number()))
    }

    /// A partition as notes name it.
    pub(crate) fn place_of(&self, partition: PartitionId) -> (Option<String>, u32) {
        if self.sources.is_empty() {
            return (None, partition.0);
        }
        (Some(self.source(partition).source.clone()), partition.number())
    }

    pub(crate) fn is_of(&self, span: &Span, partition: PartitionId) -> bool {
        let (source, number) = self.place_of(partition);
        span.source == source && span.partition == number
    }

    pub(crate) fn source_notes(&self) -> Vec<SourceNote> {
        let note = |each: &NamedTopic| SourceNote {
            name: each.source.clone(),
            topic: each.topic.name.clone(),
            topic_id: each.topic.id_text(),
        };
        self.sources.iter().map(note).collect()
    }

    /// Refuses a table that holds offsets of our app id which no source of ours accounts for.
    ///
    /// # Errors
    /// With the app ids, and what to do.
    pub(crate) fn refuse_strangers(&mut self) -> Result<(), DeltaError> {
        if self.sources.is_empty() {
            return Ok(());
        }
        let mut strangers: Vec<String> =
            self.known.txns.keys().filter(|key| !self.is_ours_by_name(key)).cloned().collect();
        if !strangers.is_empty() {
            self.look_back_for(&strangers)?;
        }
        // Another application's, whose id begins as ours.
        strangers.retain(|key| self.writer_of(key).is_none_or(|app_id| app_id == self.app_id));
        strangers.sort();
        let names: Vec<_> = self.sources.iter().map(|each| each.source.as_str()).collect();
        if !strangers.is_empty() {
            return Err(self.stranger(format!(
                "it holds offsets under {}, and the sources of app id {} are {}; rows of this table were made of what \
                 is missing: give the source its old name again, or begin anew with another SET app_id, another SET \
                 state and tables that are not there yet",
                shown(&strangers),
                self.app_id,
                names.join(", "),
            )));
        }
        let mut taken = self.known.txns.keys().filter(|key| self.writer_of(key).is_some_and(|app| app != self.app_id));
        match taken.find(|key| self.is_ours_by_name(key)) {
            None => Ok(()),
            Some(key) => Err(self.stranger(format!(
                "{key}, where the offsets of app id {} would be, was stored by app id {}; choose another SET app_id",
                self.app_id,
                self.writer_of(key).unwrap_or_default(),
            ))),
        }
    }

    fn stranger(&self, reason: String) -> DeltaError {
        DeltaError::Stranger { table: self.name().to_owned(), reason }
    }

    /// Who wrote an offset, as far as that is known.
    fn writer_of(&self, key: &str) -> Option<&str> {
        Some(self.known.txns.get(key)?.owner.as_deref()?.app_id.as_str())
    }

    fn is_ours_by_name(&self, key: &str) -> bool {
        let rest = key.strip_prefix(self.app_id.as_str()).and_then(|rest| rest.strip_prefix('-'));
        let Some((source, number)) = rest.and_then(|rest| rest.rsplit_once('-')) else { return false };
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number && self.sources.iter().any(|each| each.source == source)
    }

    /// P9: a source's stored offsets are of another topic than the one it reads now.
    pub(crate) fn source_elsewhere(&self, partitions: &BTreeSet<PartitionId>) -> Option<Breach> {
        let mut breach: Option<(&NamedTopic, &SourceNote)> = None;
        let mut affected = BTreeSet::new();
        for &partition in partitions {
            let named = self.source(partition);
            let stored = self.known.txns.get(&self.named_key(partition)?);
            let owner = stored.and_then(|stored| stored.owner.as_deref());
            let Some(note) = owner.and_then(|owner| owner.sources.iter().find(|note| note.name == named.source)) else {
                continue;
            };
            if is_another(note, &named.topic) {
                let (first, _) = breach.get_or_insert((named, note));
                if first.source == named.source {
                    affected.insert(partition);
                }
            }
        }
        let (named, note) = breach?;
        let text =
            |name: &str, id: Option<&str>| format!("{name} (id {}, source {})", id.unwrap_or("unknown"), note.name);
        Some(Breach::OtherTopic {
            was: text(&note.topic, note.topic_id.as_deref()),
            is: text(&named.topic.name, named.topic.id_text().as_deref()),
            partitions: affected,
        })
    }
}

fn is_another(note: &SourceNote, topic: &Topic) -> bool {
    let ids = note.topic_id.as_ref().zip(topic.id_text());
    note.topic != topic.name || ids.is_some_and(|(was, is)| *was != is)
}

fn shown(keys: &[String]) -> String {
    let shown = keys.iter().take(STRANGERS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match keys.len().saturating_sub(STRANGERS_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
