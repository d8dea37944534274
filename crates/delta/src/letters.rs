//! A table and the table of its dead letters: what each says of the other.
//!
//! A commit of rows that made dead letters stores two more offsets for each partition of it, under app ids that name the
//! table of dead letters by its id: where its span begins (`<key>/dead-from/<id>`, the offset before) and the last one
//! that made a letter (`<key>/dead/<id>`). So who gains the partition knows what that table should have without
//! reading the topic (P7), and a table of dead letters that is new, or was made again, owes nothing.

use std::collections::{BTreeMap, BTreeSet};

use lakeward_protocol::ports::Permit;
use lakeward_protocol::position::{PartitionId, Stretch};
use serde::{Deserialize, Serialize};

use crate::error::DeltaError;
use crate::table::Table;

/// A table that is written beside another, as commits name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Companion {
    /// Its address, as people know it.
    pub table: String,
    /// Its id.
    pub id: String,
}

/// What marks of dead letters have in them, after the partition's app id.
const DEAD: &str = "/dead/";
const DEAD_FROM: &str = "/dead-from/";

/// Is this `txn` a mark of dead letters, and no partition's offset?
#[must_use]
pub fn is_mark(app_id: &str) -> bool {
    app_id.contains(DEAD) || app_id.contains(DEAD_FROM)
}

impl Table {
    /// The same table, whose bad records are dead letters in another.
    #[must_use]
    pub fn with_dead_letters(mut self, letters: Companion) -> Self {
        self.letters = Some(letters);
        self
    }

    /// The same table, of the dead letters of another.
    #[must_use]
    pub fn as_dead_letters_of(mut self, rows: Companion) -> Self {
        self.letters_of = Some(rows);
        self
    }

    /// How commits of another table name this one.
    #[must_use]
    pub fn companion(&self) -> Companion {
        let place = &self.kernel.place;
        let path = (place.url.scheme() == "file").then(|| place.url.to_file_path().ok()).flatten();
        let table = path.map_or_else(|| place.name.clone(), |path| path.display().to_string());
        Companion { table, id: self.id().to_owned() }
    }

    /// The marks that a commit stores, and the last offset of each.
    pub(crate) fn marks(&self, permit: &Permit) -> Vec<(String, i64)> {
        let Some(letters) = &self.letters else { return Vec::new() };
        let marks = permit.dead().iter().flat_map(|(partition, past)| {
            let (key, from) = (self.key(*partition), permit.advances()[partition].from);
            let name = |kind: &str| format!("{key}{kind}{}", letters.id);
            [(name(DEAD_FROM), from.last()), (name(DEAD), past.last())]
        });
        marks.collect()
    }

    /// What the marks say of these partitions.
    pub(crate) fn made_letters(
        &self,
        partitions: &BTreeSet<PartitionId>,
    ) -> Result<BTreeMap<PartitionId, Stretch>, DeltaError> {
        let Some(letters) = &self.letters else { return Ok(BTreeMap::new()) };
        let mut made = BTreeMap::new();
        for &partition in partitions {
            let key = self.key(partition);
            let stored = |kind: &str| {
                let name = format!("{key}{kind}{}", letters.id);
                let stored = self.known.txns.get(&name)?;
                Some(self.position(&name, stored.last))
            };
            if let (Some(from), Some(to)) = (stored(DEAD_FROM), stored(DEAD)) {
                made.insert(partition, Stretch { from: from?, to: to? });
            }
        }
        Ok(made)
    }
}
