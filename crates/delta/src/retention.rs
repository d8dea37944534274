//! `delta.setTransactionRetentionDuration`: a table that forgets offsets which are not committed again.
//!
//! Whoever writes a checkpoint leaves out each `txn` whose `lastUpdated` is that long ago, or that has none. So ours
//! are committed again before they are half as old ([`Head::fading`](lakeward_protocol::ports::Head::fading)), and an
//! offset that is not there is none only if the whole log says so.
//!
//! - A checkpoint forgets, the commits below it do not: as long as one that stored the offset is in the log, it is known.
//! - Where the log was cleaned up below what we read, nobody can tell a partition that is new from one that was forgotten.

use std::collections::{BTreeMap, BTreeSet};

use lakeward_protocol::ports::Breach;
use lakeward_protocol::position::PartitionId;

use crate::error::DeltaError;
use crate::table::{Table, now_ms};

/// Its name.
pub(crate) const PROPERTY: &str = "delta.setTransactionRetentionDuration";

/// How many versions below the head are read for a partition that has no offset.
const REMEMBERED_COMMITS: u64 = 10_000;

/// What is kept for less can't be told again in time, whatever else goes on.
const SHORTEST_MS: i64 = 10 * MINUTE_MS;
const MINUTE_MS: i64 = 60_000;

/// For how long a table keeps offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    text: String,
    keeps_ms: i64,
}

impl Retention {
    /// What the properties say; `None`: for ever.
    ///
    /// # Errors
    /// No interval that Delta takes, or one that is too short for us.
    pub fn of(table: &str, properties: &BTreeMap<String, String>) -> Result<Option<Self>, DeltaError> {
        let Some(text) = properties.get(PROPERTY) else { return Ok(None) };
        let refused = |hint: &str| {
            let feature = format!("{PROPERTY} ({text})");
            Err(DeltaError::Refused { table: table.to_owned(), feature, hint: hint.to_owned() })
        };
        match interval_ms(text) {
            None => refused("this is no interval of weeks, days, hours, minutes and seconds; set one with ALTER TABLE"),
            Some(keeps_ms) if keeps_ms < SHORTEST_MS => refused(
                "stored offsets would vanish before they can be written again; keep them for 10 minutes at least",
            ),
            Some(keeps_ms) => Ok(Some(Self { text: text.clone(), keeps_ms })),
        }
    }

    /// How long.
    pub fn keeps_ms(&self) -> u64 {
        self.keeps_ms.unsigned_abs()
    }

    /// When what was stored then is forgotten, in ms since 1970: what does not say when may be at any time.
    pub fn ends_ms(&self, updated_ms: Option<i64>) -> i64 {
        updated_ms.map_or(0, |updated_ms| updated_ms.saturating_add(self.keeps_ms))
    }

    fn fades(&self, updated_ms: Option<i64>, now_ms: i64) -> bool {
        self.ends_ms(updated_ms).saturating_sub(now_ms) <= self.keeps_ms / 2
    }
}

/// An interval as Spark writes it: `interval 1 week 2 days`, in any case, the first word left out or not. Months and
/// years, which Delta does not take here either, are none.
fn interval_ms(text: &str) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    let mut words = text.strip_prefix("interval").unwrap_or(&text).split_whitespace().peekable();
    words.peek()?;
    let mut micros = 0_i64;
    while let Some(number) = words.next() {
        let number: i64 = number.parse().ok()?;
        let unit = match words.next()?.trim_end_matches('s') {
            "week" => 7 * 24 * 60 * MINUTE_MS * 1_000,
            "day" => 24 * 60 * MINUTE_MS * 1_000,
            "hour" => 60 * MINUTE_MS * 1_000,
            "minute" => MINUTE_MS * 1_000,
            "second" => 1_000_000,
            "millisecond" => 1_000,
            "microsecond" => 1,
            _ => return None,
        };
        micros = micros.checked_add(number.checked_mul(unit)?)?;
    }
    (micros >= 0).then_some(micros / 1_000)
}

impl Table {
    /// Reads commits backwards for partitions without an offset, as far as the log goes and the bound allows.
    pub(crate) fn remember(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<(), DeltaError> {
        let oldest = self.version.saturating_sub(REMEMBERED_COMMITS);
        while self.reaches_below(oldest) && !self.without_offset(partitions).is_empty() {
            self.see_older(oldest)?;
        }
        Ok(())
    }

    /// P9: partitions without an offset that may have had one.
    pub(crate) fn forgotten(&self, partitions: &BTreeSet<PartitionId>) -> Option<Breach> {
        let keeps = self.configuration.retention.as_ref()?.text.clone();
        let partitions = self.without_offset(partitions);
        (self.known.seen_from > 0 && !partitions.is_empty()).then_some(Breach::Forgotten { keeps, partitions })
    }

    /// None where the table forgets nothing.
    fn without_offset(&self, partitions: &BTreeSet<PartitionId>) -> BTreeSet<PartitionId> {
        let forgets = self.configuration.retention.is_some();
        let without = partitions.iter().filter(|partition| !self.known.txns.contains_key(&self.key(**partition)));
        without.filter(|_| forgets).copied().collect()
    }

    /// The partitions whose offset is to be committed again.
    pub(crate) fn fading(&self, partitions: &BTreeSet<PartitionId>) -> BTreeSet<PartitionId> {
        let Some(retention) = &self.configuration.retention else { return BTreeSet::new() };
        let now_ms = now_ms();
        let fades = |partition: &PartitionId| {
            let stored = self.known.txns.get(&self.key(*partition));
            stored.is_some_and(|stored| retention.fades(stored.updated_ms, now_ms))
        };
        partitions.iter().copied().filter(fades).collect()
    }

    /// P7: what a table of dead letters has is told by its offsets alone, and they are written with letters alone.
    pub(crate) fn refuse_forgotten_letters(&self) -> Result<(), DeltaError> {
        match &self.configuration.retention {
            Some(retention) if self.letters_of.is_some() => Err(DeltaError::Refused {
                table: self.name().to_owned(),
                feature: format!("{PROPERTY} ({})", retention.text),
                hint: "dead letters would be there twice once it forgets which it has; unset it with ALTER TABLE ... \
                       UNSET TBLPROPERTIES"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_as_spark_writes_them() {
        #[rustfmt::skip] // columns: text, milliseconds
        let cases = [
            ("interval 7 days",             Some(604_800_000)),
            ("INTERVAL 1 Week",             Some(604_800_000)),
            ("30 days",                     Some(2_592_000_000)),
            ("interval 1 day 12 hours",     Some(129_600_000)),
            ("interval 90 minutes 5 seconds 1500 microseconds", Some(5_405_001)),
            ("interval 1 day -1 hours",     Some(82_800_000)),
            ("interval -1 days",            None),
            ("interval 1 month",            None),
            ("interval 1",                  None),
            ("interval",                    None),
            ("",                            None),
            ("forever",                     None),
            ("interval 9223372036854775807 weeks", None),
        ];
        for (text, expected) in cases {
            assert_eq!(interval_ms(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_half_as_old_fades() {
        let of = |text: &str| Retention::of("t", &BTreeMap::from([(PROPERTY.to_owned(), text.to_owned())]));
        let retention = of("interval 1 hour").unwrap().unwrap();
        let now_ms = 1_000 * MINUTE_MS;
        let ago = |minutes: i64| Some(now_ms - minutes * MINUTE_MS);
        #[rustfmt::skip] // columns: stored, fades
        let cases = [(ago(0), false), (ago(29), false), (ago(30), true), (ago(90), true), (ago(-500), false), (None, true)];
        for (stored, expected) in cases {
            assert_eq!(retention.fades(stored, now_ms), expected, "{stored:?}");
        }
        assert!(of("interval 9 minutes").unwrap_err().to_string().contains("10 minutes at least"));
        assert!(of("soon").unwrap_err().to_string().contains("no interval"));
        assert_eq!(Retention::of("t", &BTreeMap::new()).unwrap(), None);
    }
}
