//! `--evolve`: messages that have more than the table make it grow.
//!
//! A worker that meets a new field, or a number too large for its column, asks for a wider layout and decodes the
//! arena anew with it; rows made before stay in files of the narrower one, which fit the wider table as well. The
//! workers of a process share one lineage of layouts, each made of the one before, so that a column has one type
//! whoever met it first. The batch carries the widest one into its commit; a rival's change in between fences that
//! commit, and what was held is read again for the rival's table.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use lakeward_decode::{BadKind, Bounds, Decoded, Decoder, Growth};
use lakeward_delta::{DeltaError, Layout};
use lakeward_protocol::records::Records;

use crate::meters;

/// Columns beyond which a table does not grow by itself: keys that are data would make it grow for ever.
pub const MOST_COLUMNS: usize = 1000;

/// Paths remembered for not being told, or asked about, again.
const MOST_REMEMBERED: usize = 10_000;

/// What becomes of fields that the table does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evolve {
    /// Dropped, and counted.
    No,
    /// The same, and the log tells the columns that they would be.
    Log,
    /// They become columns.
    Add,
}

/// The lineage that workers share.
#[derive(Clone, Default)]
pub(super) struct Lineage(Arc<Mutex<Option<Layout>>>);

impl Lineage {
    fn lock(&self) -> MutexGuard<'_, Option<Layout>> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// The widest layout of the batch that is being made, where that is another than the table's.
    pub(super) fn widest(&self) -> Option<Layout> {
        self.lock().clone()
    }

    /// The table's layout is all there is again.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }
}

/// One worker's eye for what is new.
pub(super) struct Evolution {
    mode: Evolve,
    lineage: Lineage,
    /// Paths that are not asked about again: no column can be made of them, or none is to be.
    settled: BTreeSet<String>,
    /// Paths that the log has told.
    told: BTreeSet<String>,
}

impl Evolution {
    pub(super) fn new(mode: Evolve, lineage: Lineage) -> Self {
        Self { mode, lineage, settled: BTreeSet::new(), told: BTreeSet::new() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.mode != Evolve::No
    }

    /// Another table, or the same grown: what came to nothing may come to something now.
    pub(super) fn reopened(&mut self) {
        self.settled.clear();
    }

    /// The layout to decode these records anew with; `None` where nothing is new.
    ///
    /// # Errors
    /// The table can't become what the messages ask for.
    pub(super) fn wider(
        &mut self,
        layout: &Layout,
        decoder: &mut Decoder,
        records: &Records,
        decoded: &Decoded,
    ) -> Result<Option<Layout>, DeltaError> {
        let widens = layout.widens();
        let narrow = |kind: BadKind| matches!(kind, BadKind::WrongType | BadKind::DoesNotFit);
        let fits_not = widens && decoded.bad.iter().any(|bad| narrow(bad.kind));
        let (met, dropped) = self.meets_new_fields(decoder, records);
        if !met && !fits_not {
            meters::unknown_fields(dropped);
            return Ok(None);
        }
        // Messages that become no row make no column either.
        let bad: BTreeSet<usize> =
            decoded.bad.iter().filter(|bad| !(widens && narrow(bad.kind))).map(|bad| bad.entry).collect();
        let good = records.entries().iter().enumerate().filter(|(at, _)| !bad.contains(at));
        let takes_name = |name: &str| layout.takes_name(name);
        let bounds = Bounds { takes_name: &takes_name, widens, most_columns: MOST_COLUMNS };
        let growth = decoder.growth(good.filter_map(|(_, entry)| records.value(entry)), &bounds);
        self.tell_refused(layout, &growth);
        match (&growth.schema, self.mode) {
            (Some(schema), Evolve::Add) => {
                let mut widest = self.lineage.lock();
                // Another worker was first: its columns are the table's, whatever else is new comes after.
                if let Some(wider) = widest.as_ref().filter(|wider| wider.schema() != layout.schema()) {
                    return Ok(Some(wider.clone()));
                }
                let grown = layout.grown(schema)?;
                for (_, change) in &growth.changes {
                    tracing::info!("table {} gets with the next commit: {change}", layout.table());
                }
                *widest = Some(grown.clone());
                return Ok(Some(grown));
            }
            (Some(_), _) => {
                for (path, change) in growth.changes {
                    if self.settle(&path) {
                        tracing::warn!("--evolve=log: table {} would get: {change}", layout.table());
                    }
                }
            }
            (None, _) => {}
        }
        meters::unknown_fields(dropped);
        Ok(None)
    }

    /// Is there a field that is no column, has a value with a type, and is not settled? And how many were dropped.
    fn meets_new_fields(&self, decoder: &mut Decoder, records: &Records) -> (bool, u64) {
        let (mut met, mut dropped) = (false, 0);
        for field in decoder.take_unknown_fields() {
            dropped += field.count;
            let Some(path) = field.path else { continue };
            met |= !self.settled.contains(&path) && has_value(records, &path);
        }
        (met, dropped)
    }

    fn tell_refused(&mut self, layout: &Layout, growth: &Growth) {
        for (path, why) in &growth.refused {
            if self.settle(path) {
                tracing::warn!("messages have a field '{path}' that can be no column of {}: {why}", layout.table());
            }
        }
    }

    /// Remembers that nothing comes of a path. True where the log is to tell it: once.
    fn settle(&mut self, path: &str) -> bool {
        if self.settled.len() < MOST_REMEMBERED {
            self.settled.insert(path.to_owned());
        }
        self.told.len() < MOST_REMEMBERED && self.told.insert(path.to_owned())
    }
}

/// May a message have more than `null`, `[]` or `{}` under the last name of a path? Cheap, since it is asked of every
/// arena with fields that are always null.
fn has_value(records: &Records, path: &str) -> bool {
    let mut found = false;
    let mut typed = false;
    // A name with a dot in it ends as its last part does.
    let name = path.rsplit('.').next().unwrap_or(path);
    let key = format!("{name}\"");
    let finder = memchr::memmem::Finder::new(key.as_bytes());
    for value in records.entries().iter().filter_map(|entry| records.value(entry)) {
        for at in finder.find_iter(value) {
            let rest = value[at + key.len()..].trim_ascii_start();
            let Some(rest) = rest.strip_prefix(b":") else { continue };
            found = true;
            typed |= !is_untyped(rest.trim_ascii_start());
        }
        if typed {
            return true;
        }
    }
    // A name that JSON has escaped is not found so.
    !found
}

fn is_untyped(value: &[u8]) -> bool {
    let empty = |open: &[u8], close: &[u8]| {
        value.strip_prefix(open).is_some_and(|rest| rest.trim_ascii_start().starts_with(close))
    };
    value.starts_with(b"null") || empty(b"[", b"]") || empty(b"{", b"}")
}

#[cfg(test)]
mod tests {
    use lakeward_protocol::position::{Offset, PartitionId};
    use lakeward_protocol::records::TimestampType;

    use super::*;

    #[test]
    fn fields_without_a_type_are_passed_over() {
        #[rustfmt::skip] // columns: message, path, has it a value?
        let cases = [
            (r#"{"a":null}"#,               "a",     false),
            (r#"{"a" : [ ]}"#,              "a",     false),
            (r#"{"a":{}}"#,                 "a",     false),
            (r#"{"a":0}"#,                  "a",     true),
            (r#"{"x":{"a":null},"b":1}"#,   "x.a",   false),
            (r#"{"x":{"a":[null]}}"#,       "x.a",   true),
            (r#"{"p.a":1}"#,                "p.a",   true),
            (r#"{"\u0061":null}"#,          "a",     true),
        ];
        for (message, path, expected) in cases {
            let mut records = Records::new(PartitionId(0), Offset::ZERO);
            records.push(0, 0, TimestampType::CreateTime, Some(message.as_bytes()));
            records.pad();
            assert_eq!(has_value(&records, path), expected, "{message}");
        }
    }
}
