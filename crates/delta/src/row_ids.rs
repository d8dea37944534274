//! Row tracking: ids of rows, given by file. Each file's first row has `baseRowId`, the highest id of
//! all stands in a metadata domain, and both are made anew for each attempt at a version.

use serde_json::{Value, json};

use crate::error::DeltaError;
use crate::store::Place;

/// The domain that tells the highest id.
pub(crate) const DOMAIN: &str = "delta.rowTracking";

/// The ids of one commit's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowIds {
    /// The highest id before the commit; -1 where there is none.
    pub highest: i64,
    /// The version that the commit becomes.
    pub version: u64,
}

impl RowIds {
    /// The ids of the next file, of so many rows, written into its `add`.
    pub(crate) fn give(&mut self, add: &mut Value, rows: u64) {
        add["baseRowId"] = json!(self.highest + 1);
        add["defaultRowCommitVersion"] = json!(self.version);
        self.highest = self.highest.saturating_add_unsigned(rows);
    }

    /// The action that says how far ids are given.
    pub(crate) fn action(self) -> Value {
        let configuration = json!({ "rowIdHighWaterMark": self.highest }).to_string();
        json!({"domainMetadata": {"domain": DOMAIN, "configuration": configuration, "removed": false}})
    }
}

/// The highest id that the domain's configuration tells; -1 where there is no domain yet.
///
/// # Errors
/// A configuration that tells none.
pub(crate) fn highest(place: &Place, configuration: Option<&str>) -> Result<i64, DeltaError> {
    let Some(text) = configuration else { return Ok(-1) };
    let told = serde_json::from_str::<Value>(text).ok().and_then(|json| json.get("rowIdHighWaterMark")?.as_i64());
    told.ok_or_else(|| DeltaError::Broken {
        table: place.name.clone(),
        reason: format!("its domain {DOMAIN} tells no highest row id: {text}"),
    })
}
