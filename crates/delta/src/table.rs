//! A Delta table as the protocol's [`OutputLog`].
//!
//! Every `load` lists the log from the version that we stand on: that version must still be the
//! very file we know, what follows it is read commit by commit. So a table that was dropped and
//! made again, restored, or moved on while we were frozen is seen, and a quiet one costs one
//! listing. The kernel's snapshot is made anew only when protocol or metadata change.
//!
//! Invariants (docs/protocol.md):
//! - P1, P2: `put` puts the permit's version if absent, and nothing else, in one request.
//! - P8: `load` never answers from memory: the newest version is proven by a listing.
//! - P9: a table or topic that is not the one we left shows in [`Head::breach`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::TryStreamExt;
use lakeward_protocol::ports::{Breach, Gap, Head, OutputLog, Permit, Put};
use lakeward_protocol::position::{CommitId, Frontier, Offset, PartitionId, TableVersion};
use object_store::path::Path;
use object_store::{ObjectStore, PutMode};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use crate::checkpoint::{Checkpoints, Housekeeper, Housekeeping};
use crate::commit::{self, ByNote, Draft, GapNote, Notes, Rewrite, Span};
use crate::create::NewTable;
use crate::error::DeltaError;
use crate::kernel::{Configuration, Kernel};
use crate::known::Known;
use crate::layout::{Batch, Layout, Tally};
use crate::letters::Companion;
use crate::log::{self, Identity, Listing};
use crate::named::NamedTopic;
use crate::opened::Opened;
use crate::row_ids::{self, RowIds};
use crate::schema::column_text;
use crate::store::Place;
use crate::view::compact::Compactor;

/// The topic that a table is written from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id, where the broker gives one. Another id under the same name is another topic.
    pub id: Option<[u8; 16]>,
}

/// How a table is opened.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Prefix of the `txn`s' app ids.
    pub app_id: String,
    /// What the table is written from; `None` for those who only look, and for pipelines
    /// ([`Table::of_pipeline`]).
    pub topic: Option<Topic>,
    /// When checkpoints are written.
    pub checkpoints: Checkpoints,
    /// A multi-threaded runtime with all drivers; the table's methods block and are called from outside of it.
    pub runtime: Handle,
}

/// A Delta table, open for one application's commits.
#[derive(Debug)]
pub struct Table {
    pub(crate) kernel: Kernel,
    pub(crate) runtime: Handle,
    pub(crate) app_id: String,
    pub(crate) topic: Option<Topic>,
    /// A pipeline's sources, in its order; none in a job without names for them.
    pub(crate) sources: Vec<NamedTopic>,
    /// Where dead letters of what is written here go.
    pub(crate) letters: Option<Companion>,
    /// Whose dead letters these are.
    pub(crate) letters_of: Option<Companion>,
    pub(crate) configuration: Configuration,
    pub(crate) version: u64,
    /// The head's commit file; `None` where the log holds only its checkpoint.
    identity: Option<Identity>,
    pub(crate) known: Known,
    /// Another table than the one we opened, and committed to, lies there.
    pub(crate) recreated: Option<Breach>,
    /// App ids whose other owner was warned about.
    pub(crate) warned: BTreeSet<String>,
    housekeeper: Housekeeper,
    pub(crate) committed: Option<u64>,
    /// How often what lay there did not follow from what we knew.
    pub(crate) reopened: u64,
    signature: Option<(Signs, ByNote)>,
    /// Makes small files few beside the commits, where it is asked to.
    pub(crate) compactor: Option<Compactor>,
    /// The version at whose files it looked last.
    pub(crate) looked_at: u64,
}

/// Which commits of frontiers alone carry a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// Those that begin a partition that the table had no offset of.
    Beginnings,
    /// All of them.
    All,
}

/// Listings that disagree with themselves (made while somebody commits) are made again so often.
const LISTINGS: usize = 5;

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Table {
    /// Opens a table: a path, relative or absolute, or a `file:`, `s3:`, `s3a:`, `gs:`, `az:`,
    /// `abfs:` or `abfss:` URL. Object stores are configured by `AWS_*`, `AZURE_*`, `GOOGLE_*`.
    ///
    /// # Errors
    /// No table there; one that needs what we do not do, by name; a store that refuses.
    pub fn open(location: &str, options: TableOptions) -> Result<Self, DeltaError> {
        Self::open_place(Place::resolve(location)?, options)
    }

    /// Opens a table in a store that is there already, and that lists in the order of names.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(store: Arc<dyn ObjectStore>, root: Path, options: TableOptions) -> Result<Self, DeltaError> {
        Self::open_place(Place::on_store(store, root)?, options)
    }

    fn open_place(place: Place, options: TableOptions) -> Result<Self, DeltaError> {
        let TableOptions { app_id, topic, checkpoints, runtime } = options;
        let kernel = Kernel::new(place, runtime.clone());
        let opened = Opened::new(&kernel, &runtime, &app_id)?;
        let housekeeper = Housekeeper::new(kernel.clone(), checkpoints, runtime.clone(), opened.checkpoint);
        Ok(Self {
            kernel,
            runtime,
            app_id,
            topic,
            sources: Vec::new(),
            letters: None,
            letters_of: None,
            configuration: opened.configuration,
            version: opened.version,
            identity: opened.identity,
            known: opened.known,
            recreated: None,
            warned: BTreeSet::new(),
            housekeeper,
            committed: None,
            reopened: 0,
            signature: None,
            compactor: None,
            looked_at: 0,
        })
    }

    /// From now on commits of frontiers alone say who chose the frontier, and why.
    pub fn sign(&mut self, signs: Signs, by: ByNote) {
        self.signature = Some((signs, by));
    }

    /// What a commit of frontiers alone says of that.
    fn signed(&self, permit: &Permit) -> Option<ByNote> {
        let (signs, by) = self.signature.as_ref()?;
        let begins = permit.advances().values().any(|advance| advance.expect.is_none());
        (begins || *signs == Signs::All).then(|| by.clone())
    }

    /// The table's address, as people know it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.kernel.place.name
    }

    /// The table's id: another id is another table, whatever its address.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.configuration.table_id
    }

    /// What housekeeping did so far, for metrics. Stays valid as the table goes on.
    #[must_use]
    pub fn housekeeping(&self) -> Arc<Housekeeping> {
        self.housekeeper.done()
    }

    /// How this table differs from one that was asked for; `None` when files for the one fit the other.
    #[must_use]
    pub fn difference(&self, wanted: &NewTable) -> Option<String> {
        let layout = &self.configuration.layout;
        if layout.partition_columns() != wanted.partition_columns {
            return Some(format!(
                "it is partitioned by {:?}, not by {:?}",
                layout.partition_columns(),
                wanted.partition_columns
            ));
        }
        let (is, wanted) = (layout.schema().fields(), wanted.schema.arrow().fields());
        if let Some((is, wanted)) = is.iter().zip(wanted).find(|(is, wanted)| is != wanted) {
            return Some(format!("its column {} is not {}", column_text(is), column_text(wanted)));
        }
        let more = is.get(wanted.len()).map(|more| format!("it has the column {} as well", column_text(more)));
        more.or_else(|| wanted.get(is.len()).map(|lacking| format!("it has no column {}", column_text(lacking))))
    }

    /// Waits for housekeeping that is under way, a while. Dropping the table does it, too.
    pub fn settle(&mut self) {
        self.housekeeper.settle();
    }

    /// Brings what we know up to the newest version.
    pub(crate) fn refresh(&mut self) -> Result<(), DeltaError> {
        for _ in 0..LISTINGS {
            let listing = self.runtime.block_on(log::list(&self.kernel.place, self.version))?;
            let here = listing.commits.get(&self.version);
            if here != self.identity.as_ref() {
                return self.reopen();
            }
            let Some(head) = contiguous(&listing, self.version) else { continue };
            return match self.advance(head, &listing) {
                Ok(true) => Ok(()),
                Ok(false) => self.reopen(),
                Err(error) => Err(error),
            };
        }
        self.reopen()
    }

    /// Takes in the versions up to `head`; false when one of them is gone.
    fn advance(&mut self, head: u64, listing: &Listing) -> Result<bool, DeltaError> {
        if head == self.version {
            return Ok(true);
        }
        let read = log::read_all(&self.kernel.place, self.version + 1..=head);
        let Some(commits) = self.runtime.block_on(read)? else { return Ok(false) };
        if commits.iter().any(|commit| commit.changes_shape) {
            let Some(snapshot) = self.kernel.at(head)? else { return Ok(false) };
            let configuration = Configuration::of(&self.kernel, &snapshot)?;
            self.note_recreation(&configuration.table_id);
            self.configuration = configuration;
        }
        for commit in &commits {
            self.known.see_newer(&self.kernel.place.name, commit);
        }
        self.version = head;
        self.identity = listing.commits.get(&head).cloned();
        self.housekeeper.saw_checkpoint(listing.checkpoint);
        Ok(true)
    }

    /// Begins anew: what lies there does not follow from what we know.
    fn reopen(&mut self) -> Result<(), DeltaError> {
        let opened = Opened::new(&self.kernel, &self.runtime, &self.app_id)?;
        self.note_recreation(&opened.configuration.table_id);
        self.reopened += 1;
        (self.configuration, self.version) = (opened.configuration, opened.version);
        (self.identity, self.known) = (opened.identity, opened.known);
        self.housekeeper.restart(opened.checkpoint);
        Ok(())
    }

    fn note_recreation(&mut self, is: &str) {
        let was = match &self.recreated {
            Some(Breach::Recreated { was, .. }) => was.clone(),
            _ => self.configuration.table_id.clone(),
        };
        self.recreated = (was != is).then(|| Breach::Recreated { was, is: is.to_owned() });
    }

    pub(crate) fn notes(&self, permit: &Permit, tally: Option<&BTreeMap<PartitionId, Tally>>) -> Notes {
        let span = |(partition, advance): (&PartitionId, &lakeward_protocol::ports::Advance)| {
            let tally = tally.and_then(|tally| tally.get(partition)).copied().unwrap_or_default();
            let (source, number) = self.place_of(*partition);
            Span {
                source,
                partition: number,
                from: advance.from.get(),
                to: advance.to.get(),
                records: tally.records,
                rows: tally.rows,
                extra_rows: tally.extra_rows,
                bad: tally.bad,
                tombstones: tally.tombstones,
            }
        };
        let gap = |gap: &lakeward_protocol::ports::Gap| {
            let (source, partition) = self.place_of(gap.partition);
            GapNote { source, partition, from: gap.from.get(), to: gap.to.get(), reason: gap.reason.clone() }
        };
        Notes {
            commit_id: permit.commit().to_string(),
            app_id: self.app_id.clone(),
            topic: self.topic.as_ref().map(|topic| topic.name.clone()),
            topic_id: self.topic.as_ref().and_then(Topic::id_text),
            sources: self.source_notes(),
            view: None,
            dead_letters: self.letters.clone(),
            dead_letters_of: self.letters_of.clone(),
            spans: permit.advances().iter().map(span).collect(),
            gaps: permit.gaps().iter().map(gap).collect(),
            by: if tally.is_none() { self.signed(permit) } else { None },
        }
    }
}

/// What one commit holds.
pub(crate) struct Contents<'a> {
    pub notes: &'a Notes,
    /// App ids and the last offset that each stores.
    pub txns: &'a [(String, i64)],
    pub batch: Option<&'a Batch>,
    pub rewrite: Option<&'a Rewrite>,
    /// What stands beside the notes.
    pub more: &'a Map<String, Value>,
}

impl Table {
    /// Puts a version if absent.
    ///
    /// # Errors
    /// The outcome is unknown: the version may be there.
    pub(crate) fn put_version(&mut self, version: u64, contents: &Contents<'_>) -> Result<Put, DeltaError> {
        let now_ms = now_ms();
        let in_commit_timestamp_ms = self
            .configuration
            .has_in_commit_timestamps()
            .then(|| self.known.in_commit_timestamp_ms.map_or(now_ms, |before| now_ms.max(before + 1)));
        let Contents { notes, txns, batch, rewrite, more } = *contents;
        let read_version = version - 1;
        let place = &self.kernel.place;
        let row_ids = match (self.configuration.row_ids, &self.known.row_ids) {
            (None, _) => None,
            (Some(_), Some(newer)) => Some(row_ids::highest(place, Some(newer))?),
            (highest, None) => highest,
        };
        let row_ids = row_ids.map(|highest| RowIds { highest, version });
        let bytes = commit::render(&Draft {
            notes,
            txns,
            batch,
            rewrite,
            more,
            read_version,
            now_ms,
            in_commit_timestamp_ms,
            row_ids,
        });
        let file = place.log_file(&log::commit_name(version));
        let put = place.store.put_opts(&file, bytes.into(), PutMode::Create.into());
        match self.runtime.block_on(put) {
            Ok(_) => {
                self.recreated = None;
                self.committed = Some(version);
                Ok(Put::Done)
            }
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(Put::Taken),
            Err(error) => Err(DeltaError::store(format!("commit version {version} of {}", place.name), error)),
        }
    }
}

impl Topic {
    /// The id as it stands in commits.
    pub(crate) fn id_text(&self) -> Option<String> {
        self.id.map(|id| format!("{:032x}", u128::from_be_bytes(id)))
    }
}

/// The end of an unbroken row of versions after `from`; `None` when a listing has holes.
fn contiguous(listing: &Listing, from: u64) -> Option<u64> {
    let newer = listing.commits.range(from + 1..).map(|(version, _)| *version);
    let (mut head, mut count) = (from, 0);
    for version in newer {
        (head, count) = (version, count + 1);
    }
    (head - from == count).then_some(head)
}

impl OutputLog for Table {
    type Batch = Batch;
    type Layout = Layout;
    type Error = DeltaError;

    fn load(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<Head, DeltaError> {
        self.refresh()?;
        self.refuse_strangers()?;
        self.refuse_forgotten_letters()?;
        self.look_back(partitions)?;
        self.remember(partitions)?;
        let mut frontier = Frontier::new();
        for &partition in partitions {
            let key = self.key(partition);
            if let Some(stored) = self.known.txns.get(&key) {
                frontier.insert(partition, self.position(&key, stored.last)?);
            }
        }
        let breach = match self.recreated.clone() {
            Some(breach) => Some(breach),
            None => match self.forgotten(partitions) {
                Some(forgotten) => Some(forgotten),
                None => self.restored(partitions)?.or_else(|| self.other_topic(partitions)),
            },
        };
        let (version, dead, fading) =
            (TableVersion(self.version), self.made_letters(partitions)?, self.fading(partitions));
        Ok(Head { version, frontier, shape: self.configuration.layout.shape(), breach, dead, fading })
    }

    fn keeps_ms(&self) -> Option<u64> {
        Some(self.configuration.retention.as_ref()?.keeps_ms())
    }

    fn layout(&self) -> Layout {
        self.configuration.layout.clone()
    }

    fn put(&mut self, permit: &Permit, batch: Option<&Batch>) -> Result<Put, DeltaError> {
        let mut txns: Vec<_> =
            permit.advances().iter().map(|(partition, advance)| (self.key(*partition), advance.to.last())).collect();
        txns.extend(self.marks(permit));
        let notes = self.notes(permit, batch.map(|batch| &batch.tally));
        self.put_version(
            permit.version().0,
            &Contents { notes: &notes, txns: &txns, batch, rewrite: None, more: &Map::new() },
        )
    }

    fn find(&mut self, commit: CommitId, from: TableVersion) -> Result<Option<TableVersion>, DeltaError> {
        let place = &self.kernel.place;
        self.runtime.block_on(async {
            let listing = log::list(place, from.0).await?;
            let mut commits = std::pin::pin!(log::read::<log::Skipped>(place, listing.commits.into_keys()));
            while let Some((version, found)) = commits.try_next().await? {
                let notes = found.and_then(|found| Notes::of(found.info.as_ref()?));
                if notes.is_some_and(|notes| notes.is(commit)) {
                    return Ok(Some(TableVersion(version)));
                }
            }
            Ok(None)
        })
    }

    fn gaps(&mut self, above: &Frontier) -> Result<Option<Vec<Gap>>, DeltaError> {
        self.gaps_above(above)
    }

    fn tend(&mut self) {
        let committed = self.committed.take();
        if let Some(committed) = committed {
            self.housekeeper.tend(committed, &self.configuration);
        }
        self.tend_files(committed);
    }
}

impl Table {
    /// The position that a stored `txn` stands for.
    pub(crate) fn position(&self, app_id: &str, last: i64) -> Result<Offset, DeltaError> {
        Offset::after(last).map_err(|error| DeltaError::Broken {
            table: self.name().to_owned(),
            reason: format!("its stored offset under the app id {app_id}: {error}"),
        })
    }
}

/// Milliseconds since 1970 by the wall clock.
#[expect(
    clippy::disallowed_methods,
    reason = "an edge: commits and `txn`s carry the time, decisions do not hang on it"
)]
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
