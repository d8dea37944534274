//! Reads the JSON commits of a table's log, one version at a time.
//!
//! The kernel reads the log for snapshots; this is for what a snapshot does not say: who committed
//! what, in which version. Reads are concurrent and bounded, and nothing here keeps file actions.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::DeltaError;
use crate::metadata::CLUSTERING_DOMAIN;
use crate::row_ids;
use crate::store::Place;

/// Commits read at a time.
pub(crate) const CONCURRENT_READS: usize = 16;

/// What tells one file of a name from another that took its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    size: u64,
    e_tag: Option<String>,
    modified_ms: i64,
}

impl Identity {
    fn of(meta: &ObjectMeta) -> Self {
        let modified_ms = meta.last_modified.timestamp_millis();
        Self { size: meta.size, e_tag: meta.e_tag.clone(), modified_ms }
    }
}

/// What a listing of the log shows.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// JSON commits by version.
    pub commits: BTreeMap<u64, Identity>,
    /// The newest version with a checkpoint file, complete or not.
    pub checkpoint: Option<u64>,
}

/// Lists the log from version `from` on.
pub(crate) async fn list(place: &Place, from: u64) -> Result<Listing, DeltaError> {
    // The name just below every name of `from`: what is listed lies above it.
    let folder = place.log_folder();
    let mut found = match from.checked_sub(1) {
        Some(before) => place.store.list_with_offset(Some(&folder), &place.log_file(&format!("{before:020}.z"))),
        None => place.store.list(Some(&folder)),
    };
    let mut listing = Listing::default();
    while let Some(meta) = found.next().await {
        let meta = meta.map_err(|error| DeltaError::store(format!("list the log of {}", place.name), error))?;
        let Some((version, kind)) = parse_name(&folder, &meta.location) else { continue };
        match kind {
            Kind::Commit if version >= from => _ = listing.commits.insert(version, Identity::of(&meta)),
            Kind::Checkpoint => listing.checkpoint = listing.checkpoint.max(Some(version)),
            Kind::Commit | Kind::Other => {}
        }
    }
    Ok(listing)
}

/// Why no table is found: the store says more than that its log is empty.
pub(crate) async fn missing(place: &Place) -> DeltaError {
    match list(place, 0).await {
        Err(error) if error.is_of_the_bucket() => error,
        _ => DeltaError::Missing { table: place.name.clone() },
    }
}

/// What a file of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Commit,
    Checkpoint,
    /// Checksums, compacted commits.
    Other,
}

/// Version and kind of a file right in the log's folder; `None` for what is none of a version's.
pub(crate) fn parse_name(folder: &Path, location: &Path) -> Option<(u64, Kind)> {
    let mut rest = location.prefix_match(folder)?;
    let name = rest.next()?;
    if rest.next().is_some() {
        return None;
    }
    let name = name.as_ref();
    let (version, rest) = name.split_at_checked(20)?;
    let version = version.bytes().all(|b| b.is_ascii_digit()).then(|| version.parse().ok())??;
    Some((
        version,
        match rest {
            ".json" => Kind::Commit,
            rest if rest.starts_with(".checkpoint.") => Kind::Checkpoint,
            _ => Kind::Other,
        },
    ))
}

/// The name of a version's commit.
pub(crate) fn commit_name(version: u64) -> String {
    format!("{version:020}.json")
}

/// The bytes of a version's commit; `None` when it is not there.
pub(crate) async fn read_bytes(place: &Place, version: u64) -> Result<Option<bytes::Bytes>, DeltaError> {
    let fail = |error| DeltaError::store(format!("read version {version} of {}", place.name), error);
    match place.store.get(&place.log_file(&commit_name(version))).await {
        Ok(found) => found.bytes().await.map(Some).map_err(fail),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(fail(error)),
    }
}

/// Reads versions in the order given, a few ahead. Those that are not there are `None`.
pub(crate) fn read<'a, A: Deserialized>(
    place: &'a Place,
    versions: impl IntoIterator<Item = u64, IntoIter: Send> + 'a,
) -> impl futures::Stream<Item = Result<(u64, Option<Commit<A>>), DeltaError>> + 'a {
    futures::stream::iter(versions)
        .map(move |version| async move {
            let bytes = read_bytes(place, version).await?;
            Ok((version, bytes.map(|bytes| parse(place, version, &bytes)).transpose()?))
        })
        .buffered(CONCURRENT_READS)
}

/// Reads versions that must all be there; `None` as soon as one is not.
pub(crate) async fn read_all<A: Deserialized>(
    place: &Place,
    versions: impl IntoIterator<Item = u64, IntoIter: Send>,
) -> Result<Option<Vec<Commit<A>>>, DeltaError> {
    let commits: Vec<_> = read(place, versions).map_ok(|(_, commit)| commit).try_collect().await?;
    Ok(commits.into_iter().collect())
}

/// How much of an `add` or `remove` is wanted.
pub(crate) trait Deserialized: for<'de> Deserialize<'de> + Send {}
impl<T: for<'de> Deserialize<'de> + Send> Deserialized for T {}

/// File actions whose content is not wanted.
pub(crate) type Skipped = IgnoredAny;

/// One version's commit.
#[derive(Debug)]
pub(crate) struct Commit<A = Skipped> {
    pub version: u64,
    pub txns: Vec<Txn>,
    pub info: Option<serde_json::Map<String, serde_json::Value>>,
    /// It carries a protocol or a metadata action, or changes what the table is clustered by.
    pub changes_shape: bool,
    /// The configuration of the domain that tells the highest row id, where it sets one.
    pub row_ids: Option<String>,
    pub adds: Vec<A>,
    pub removes: Vec<A>,
}

/// A `txn` action.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Txn {
    pub app_id: String,
    pub version: i64,
    /// When it was committed, in ms since 1970, where it says so.
    pub last_updated: Option<i64>,
}

/// A `domainMetadata` action.
#[derive(Deserialize)]
struct Domain {
    domain: String,
    #[serde(default)]
    configuration: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "A: for<'a> Deserialize<'a>")]
struct Line<A> {
    txn: Option<Txn>,
    commit_info: Option<serde_json::Map<String, serde_json::Value>>,
    add: Option<A>,
    remove: Option<A>,
    protocol: Option<IgnoredAny>,
    meta_data: Option<IgnoredAny>,
    domain_metadata: Option<Domain>,
}

/// Parses a commit.
pub(crate) fn parse<A: Deserialized>(place: &Place, version: u64, bytes: &[u8]) -> Result<Commit<A>, DeltaError> {
    let (changes_shape, row_ids) = (false, None);
    let mut commit =
        Commit { version, txns: Vec::new(), info: None, changes_shape, row_ids, adds: Vec::new(), removes: Vec::new() };
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let line: Line<A> = serde_json::from_slice(line).map_err(|error| DeltaError::Broken {
            table: place.name.clone(),
            reason: format!("version {version} is no Delta commit: {error}"),
        })?;
        commit.txns.extend(line.txn);
        commit.info = line.commit_info.or(commit.info);
        commit.changes_shape |= line.protocol.is_some() || line.meta_data.is_some();
        if let Some(Domain { domain, configuration }) = line.domain_metadata {
            commit.changes_shape |= domain == CLUSTERING_DOMAIN;
            commit.row_ids = (domain == row_ids::DOMAIN).then_some(configuration).or(commit.row_ids);
        }
        commit.adds.extend(line.add);
        commit.removes.extend(line.remove);
    }
    Ok(commit)
}

impl<A> Commit<A> {
    /// `commitInfo.operation`, or a dash.
    pub(crate) fn operation(&self) -> &str {
        self.info.as_ref().and_then(|info| info.get("operation")?.as_str()).unwrap_or("-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_log() {
        let folder = Path::from("t/_delta_log");
        #[rustfmt::skip] // columns: name, what it is
        let cases = [
            ("00000000000000000012.json",                          Some((12, Kind::Commit))),
            ("00000000000000000012.checkpoint.parquet",            Some((12, Kind::Checkpoint))),
            ("00000000000000000012.checkpoint.0000001.0000002.parquet", Some((12, Kind::Checkpoint))),
            ("00000000000000000012.crc",                           Some((12, Kind::Other))),
            ("00000000000000000012.00000000000000000014.compacted.json", Some((12, Kind::Other))),
            ("_last_checkpoint",                                   None),
            ("_staged_commits/00000000000000000012.x.json",        None),
            ("+0000000000000000012.json",                          None),
            ("12.json",                                            None),
        ];
        for (name, expected) in cases {
            let location = name.split('/').fold(folder.clone(), |path, part| path.join(part));
            assert_eq!(parse_name(&folder, &location), expected, "{name}");
        }
    }
}
