//! Options that say what an ingest's table holds.

use clap::{Args, ValueEnum};
use lakeward_delta::encode::WriterOptions;
use lakeward_delta::view::{ByKey, Compaction, INDEX_ROW_BYTES, Mode, Moved, ViewOptions};

use crate::failure::Failure;
use crate::stage::{OnUnavailable, Placeholders};

/// What the table holds.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What the table holds")]
pub struct ModeArgs {
    /// What the table holds: every record, or of each key the newest row.
    ///
    /// With upsert a message without a value, and a deletion of Debezium's, takes the key's row away. See docs/upsert.md.
    #[arg(long, default_value = "append", value_name = "MODE")]
    pub mode: IngestMode,

    /// With --mode upsert: the columns that name a row.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub key: Vec<String>,

    /// With --mode upsert: when a record's key has a row that another partition's record wrote.
    ///
    /// Records of two partitions are in no order. last-commit: the one committed last counts.
    #[arg(long, default_value = "stop", value_name = "POLICY")]
    pub on_moved_key: OnMovedKey,

    /// With --mode upsert and --debezium: a value that an event leaves out since it is unchanged (PostgreSQL's TOAST)
    /// stays as the table has it (keep, the default), makes the message a bad record, or is written as the placeholder.
    #[arg(long, value_name = "POLICY")]
    pub debezium_unavailable_value: Option<UnavailableValue>,

    /// What stands for such a value: the connector's unavailable.value.placeholder.
    #[arg(long, default_value = PLACEHOLDER, value_name = "TEXT")]
    pub debezium_unavailable_placeholder: String,
}

/// Debezium's default.
pub const PLACEHOLDER: &str = "__debezium_unavailable_value";

/// What to do with a value that an event leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnavailableValue {
    /// What the table has stays.
    Keep,
    /// The message is a bad record.
    Fail,
    /// The placeholder is the value.
    Write,
}

/// What the table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum IngestMode {
    /// Every record.
    #[default]
    Append,
    /// Of each key the newest row.
    Upsert,
}

/// What to do with a key whose records come from another partition than before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnMovedKey {
    /// End, naming the key and both partitions.
    #[default]
    Stop,
    /// Go on; the record that is committed last counts.
    LastCommit,
}

impl ModeArgs {
    /// Whether rows go into the table by key.
    #[must_use]
    pub fn is_upsert(&self) -> bool {
        self.mode == IngestMode::Upsert
    }

    /// Refuses options that make no sense together.
    ///
    /// # Errors
    /// The first of them.
    pub fn check(&self, debezium: bool) -> Result<(), Failure> {
        let unavailable = self.debezium_unavailable_value.is_some();
        if unavailable && !(debezium && self.is_upsert()) {
            return Err(Failure::usage(
                "--debezium-unavailable-value is for --mode upsert with --debezium: nothing else has a value to keep",
            ));
        }
        if unavailable && self.debezium_unavailable_placeholder.is_empty() {
            return Err(Failure::usage("--debezium-unavailable-placeholder is empty, and so may values be"));
        }
        match (self.mode, self.key.is_empty(), self.on_moved_key) {
            (IngestMode::Upsert, true, _) => {
                Err(Failure::usage("--mode upsert needs --key COLUMN[,COLUMN..]: the columns that name a row"))
            }
            (IngestMode::Append, false, _) => Err(Failure::usage(
                "--key is for --mode upsert; in mode append every record is a row of its own: leave it out",
            )),
            (IngestMode::Append, _, OnMovedKey::LastCommit) => {
                Err(Failure::usage("--on-moved-key is for --mode upsert; leave it out"))
            }
            _ => Ok(()),
        }
    }

    /// How values that events leave out are told; `None` where they are written as they are.
    #[must_use]
    pub fn unavailable(&self, debezium: bool) -> Option<Placeholders> {
        let then = match self.debezium_unavailable_value {
            _ if !debezium => return None,
            Some(UnavailableValue::Write) => return None,
            Some(UnavailableValue::Fail) => OnUnavailable::Fail,
            Some(UnavailableValue::Keep) | None => OnUnavailable::Keep,
        };
        Some(Placeholders::new(&self.debezium_unavailable_placeholder, then))
    }

    /// How the table is written, with so much memory for the keys of its rows.
    #[must_use]
    pub fn view_options(&self, writer: WriterOptions, keys_bytes: u64) -> ViewOptions {
        let most_rows = usize::try_from(keys_bytes).unwrap_or(usize::MAX) / INDEX_ROW_BYTES;
        let moved = match self.on_moved_key {
            OnMovedKey::Stop => Moved::Stop,
            OnMovedKey::LastCommit => Moved::LastCommit,
        };
        ViewOptions {
            mode: Mode::Upsert,
            key: self.key.clone(),
            writer,
            compaction: Some(Compaction::default()),
            by_key: ByKey { most_rows, moved },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_make_no_sense_together_are_told() {
        let key = || vec!["id".to_owned()];
        let keep = Some(UnavailableValue::Keep);
        #[rustfmt::skip] // columns: mode, key, moved keys, values left out, events of Debezium's, a word of the refusal
        let cases = [
            (IngestMode::Append, vec![], OnMovedKey::Stop,       None, true,  None),
            (IngestMode::Upsert, key(),  OnMovedKey::LastCommit, keep, true,  None),
            (IngestMode::Upsert, key(),  OnMovedKey::Stop,       None, false, None),
            (IngestMode::Upsert, vec![], OnMovedKey::Stop,       None, false, Some("needs --key")),
            (IngestMode::Append, key(),  OnMovedKey::Stop,       None, false, Some("--key is for --mode upsert")),
            (IngestMode::Append, vec![], OnMovedKey::LastCommit, None, false, Some("--on-moved-key")),
            (IngestMode::Append, vec![], OnMovedKey::Stop,       keep, true,  Some("--debezium-unavailable-value is for")),
            (IngestMode::Upsert, key(),  OnMovedKey::Stop,       keep, false, Some("--debezium-unavailable-value is for")),
        ];
        for (mode, key, on_moved_key, debezium_unavailable_value, debezium, word) in cases {
            let placeholder = PLACEHOLDER.to_owned();
            let args = ModeArgs {
                mode,
                key,
                on_moved_key,
                debezium_unavailable_value,
                debezium_unavailable_placeholder: placeholder,
            };
            match (args.check(debezium), word) {
                (Ok(()), None) => {}
                (Err(failure), Some(word)) => assert!(failure.code == 2 && failure.text.contains(word), "{args:?}"),
                (other, _) => panic!("{args:?}: {:?}", other.map_err(|failure| failure.text)),
            }
        }
    }
}
