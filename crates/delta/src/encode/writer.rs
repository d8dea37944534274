//! Routes rows to their partition's file, and files to whoever takes them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use arrow_array::RecordBatch;
use delta_kernel::arrow::compute::partition;
use lakeward_protocol::position::PartitionId;
use object_store::path::Path;
use parquet::file::properties::WriterPropertiesBuilder;
use tokio::runtime::Handle;

use super::column::Codec;
use super::error::EncodeError;
use super::file::{OpenFile, properties};
use super::options::WriterOptions;
use super::partition::{encode_path, folders, write_value};
use super::parts::Pool;
use super::plan::Plan;
use super::sift::{Unfit, sift};
use super::upload::{SealedFile, Uploads};
use super::waiting::{Stretch, Waiting};
use crate::layout::{DataFile, FileSpan, Layout};

/// Rows of a partition value that wait before its file is begun: until then it costs no encoder, and
/// the encodings are chosen by what these rows look like.
const OPEN_ROWS: usize = 8192;

/// Rows that wait before they go into an open file.
const WRITE_ROWS: usize = 2048;

/// Arrow bytes of a partition value that wait at most, however few rows they are.
const WAITING_BYTES: usize = 8 << 20;

/// Turns batches of a layout's schema into sealed Parquet files, one for each combination of
/// partition values and delivery (more where one passes the target size).
///
/// Rows of one value keep their order. Memory is bounded by the owner: ask
/// [`Writer::held_bytes`] after each write, and deliver in time. It belongs to one thread, outside
/// of any runtime.
///
/// After an error other than [`EncodeError::Upload`] only [`Writer::discard`] leads on.
#[derive(Debug)]
pub struct Writer {
    plan: Plan,
    options: WriterOptions,
    properties: WriterPropertiesBuilder,
    pool: Arc<Pool>,
    codec: Codec,
    groups: Vec<Group>,
    index: HashMap<String, usize, ahash::RandomState>,
    waiting: Waiting,
    closed: VecDeque<SealedFile>,
    /// Memory of the groups' open files and of the closed ones.
    files_bytes: usize,
    /// The group that is sealed next, while a delivery goes on.
    sealing: usize,
    uploads: Uploads,
}

/// One combination of partition values.
#[derive(Debug)]
struct Group {
    values: Vec<(String, Option<String>)>,
    waiting: Vec<Stretch>,
    waiting_rows: usize,
    waiting_bytes: usize,
    file: Option<OpenFile>,
    file_bytes: usize,
    /// Of the rows that went into the file, or wait to.
    spans: BTreeMap<PartitionId, FileSpan>,
}

/// Consecutive rows of a batch that belong to one group.
struct Run {
    group: usize,
    from: usize,
    rows: usize,
}

impl Writer {
    /// Ready to write for a layout.
    ///
    /// # Errors
    /// A table with rules that the owner does not keep; a layout that can't be written for: a fault of ours.
    pub fn new(layout: &Layout, options: WriterOptions) -> Result<Self, EncodeError> {
        if let Some(rule) = layout.rules().first().filter(|_| !options.keeps_rules) {
            return Err(EncodeError::Rule { table: layout.table().to_owned(), rule });
        }
        let codec = Codec::new(options.compression)
            .map_err(|source| EncodeError::Parquet { table: layout.table().to_owned(), source })?;
        Ok(Self {
            plan: Plan::new(layout)?,
            codec,
            properties: properties(&options),
            pool: Arc::new(Pool::new(options.memory_bytes / 8)),
            options,
            groups: Vec::new(),
            index: HashMap::default(),
            waiting: Waiting::default(),
            closed: VecDeque::new(),
            files_bytes: 0,
            sealing: 0,
            uploads: Uploads::new(layout.clone()),
        })
    }

    /// Parts the rows that can be filed from those whose partition values Delta's log has no text for
    /// (years outside of 1 to 9999, bytes that are no UTF-8, empty text in a NOT NULL column), and from
    /// those with text too long for CHAR or VARCHAR; shorter text becomes what is written of it. A
    /// `write` with one of these among its rows fails as a whole, so sift first what users sent.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn sift(&self, batch: RecordBatch) -> Result<(RecordBatch, Vec<Unfit>), EncodeError> {
        sift(&self.plan, batch)
    }

    /// Takes a batch in: all columns of the layout's schema, in its order. `spans` say where its
    /// rows are from, in the rows' order, their `rows` adding up to the batch's; or nothing, where
    /// that is not known.
    ///
    /// # Errors
    /// A value that the table can't have, or a fault of ours.
    ///
    /// # Panics
    /// When the spans' rows do not add up to the batch's.
    pub fn write(&mut self, batch: &RecordBatch, spans: &[FileSpan]) -> Result<(), EncodeError> {
        let rows: u64 = spans.iter().map(|span| span.rows).sum();
        assert!(spans.is_empty() || rows == batch.num_rows() as u64, "{rows} rows in spans of {}", batch.num_rows());
        if batch.num_rows() == 0 {
            return Ok(());
        }
        // A delivery that failed half-way begins anew: its groups may get rows again.
        self.sealing = 0;
        let data = self.plan.data(batch)?;
        let runs = self.runs(batch)?;
        let kept = self.waiting.keep(data);
        let row_bytes = self.waiting.row_bytes(kept);
        let mut source = Source::new(spans);
        let mut ripe = Vec::new();
        for run in runs {
            let group = &mut self.groups[run.group];
            let was_ripe = group.is_ripe();
            group.waiting.push(self.waiting.stretch(kept, run.from, run.rows));
            group.waiting_rows += run.rows;
            group.waiting_bytes += run.rows * row_bytes;
            source.credit(run.rows, &mut group.spans);
            if group.is_ripe() && !was_ripe {
                ripe.push(run.group);
            }
        }
        for group in ripe {
            self.encode(group)?;
        }
        if self.waiting.is_sparse() && self.waiting.held_bytes() > self.options.memory_bytes / 8 {
            self.gather()?;
        }
        Ok(())
    }

    /// Memory held: rows that wait, files being encoded, files sealed and not in the store yet, and
    /// buffers kept for reuse.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.waiting.held_bytes()
            + self.files_bytes
            + self.uploads.held_bytes()
            + self.pool.held_bytes()
            + self.codec.held_bytes()
    }

    /// Does it hold nothing that a delivery would bring?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.closed.is_empty() && self.uploads.held_bytes() == 0
    }

    /// Seals everything and puts it into the store, several files at once while the next ones are
    /// encoded, so that thousands of small files need not be in memory together.
    ///
    /// # Errors
    /// With [`EncodeError::Upload`] all is still held: deliver again, or discard.
    pub fn deliver(&mut self, runtime: &Handle) -> Result<Vec<DataFile>, EncodeError> {
        while let Some(file) = self.seal_next()? {
            self.uploads.add(file, runtime)?;
        }
        self.uploads.finish(runtime)
    }

    /// Seals the next file of what is held and hands it out; `None` once there is none. For owners
    /// that upload by themselves.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn seal_next(&mut self) -> Result<Option<SealedFile>, EncodeError> {
        loop {
            if let Some(file) = self.closed.pop_front() {
                self.files_bytes -= file.held_bytes();
                return Ok(Some(file));
            }
            if self.sealing == self.groups.len() {
                self.groups.clear();
                self.index.clear();
                self.sealing = 0;
                return Ok(None);
            }
            self.encode(self.sealing)?;
            self.close(self.sealing)?;
            self.sealing += 1;
        }
    }

    /// Forgets everything held. Files that are in the store already stay there as orphans.
    pub fn discard(&mut self) {
        self.groups.clear();
        self.index.clear();
        self.waiting.clear();
        self.closed.clear();
        self.files_bytes = 0;
        self.sealing = 0;
        self.uploads.discard();
    }

    /// Lets go of the buffers that are kept for reuse: for a writer that has nothing to do.
    pub fn trim(&mut self) {
        self.pool.clear();
        self.codec.trim(0);
    }

    /// Cuts a batch where the partition values change, and finds each piece's group.
    fn runs(&mut self, batch: &RecordBatch) -> Result<Vec<Run>, EncodeError> {
        let columns: Vec<_> =
            self.plan.partitions.iter().map(|(_, index, _)| Arc::clone(batch.column(*index))).collect();
        let ranges = if columns.is_empty() {
            std::iter::once(0..batch.num_rows()).collect()
        } else {
            partition(&columns).map_err(|source| self.arrow(source))?.ranges()
        };
        let mut key = String::new();
        let mut runs = Vec::with_capacity(ranges.len());
        for range in ranges {
            key.clear();
            for ((name, _, nullable), column) in self.plan.partitions.iter().zip(&columns) {
                let start = key.len();
                let there = write_value(name, column, range.start, &mut key)?;
                if !there && !nullable {
                    return Err(EncodeError::Null { table: self.plan.layout.table().to_owned(), column: name.clone() });
                }
                seal_key(&mut key, start, there);
            }
            let group = match self.index.get(&key) {
                Some(group) => *group,
                None => self.add_group(batch, range.start, &key)?,
            };
            runs.push(Run { group, from: range.start, rows: range.len() });
        }
        Ok(runs)
    }

    fn add_group(&mut self, batch: &RecordBatch, row: usize, key: &str) -> Result<usize, EncodeError> {
        let mut values = Vec::with_capacity(self.plan.partitions.len());
        for ((name, index, _), logged) in self.plan.partitions.iter().zip(&self.plan.logged_partitions) {
            let mut text = String::new();
            let there = write_value(name, batch.column(*index), row, &mut text)?;
            values.push((logged.clone(), there.then_some(text)));
        }
        self.groups.push(Group {
            values,
            waiting: Vec::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
            file: None,
            file_bytes: 0,
            spans: BTreeMap::new(),
        });
        self.index.insert(key.to_owned(), self.groups.len() - 1);
        Ok(self.groups.len() - 1)
    }

    /// Moves a group's waiting rows into its file; closes that when it is large enough.
    fn encode(&mut self, group: usize) -> Result<(), EncodeError> {
        let rows = self.waiting.rows(&self.groups[group].waiting).map_err(|source| self.arrow(source))?;
        let held = &mut self.groups[group];
        if rows.is_empty() {
            return Ok(());
        }
        let file = match &mut held.file {
            Some(file) => file,
            None => held.file.insert(OpenFile::new(&self.plan, &self.properties, &self.options, &self.pool, &rows)?),
        };
        for batch in &rows {
            file.write(&self.plan, batch, &mut self.codec)?;
        }
        let file_bytes = file.held_bytes();
        self.files_bytes = self.files_bytes - held.file_bytes + file_bytes;
        held.file_bytes = file_bytes;
        let is_full = file.encoded_bytes() as u64 >= self.options.target_file_bytes;
        self.waiting.release(&held.waiting);
        held.waiting.clear();
        (held.waiting_rows, held.waiting_bytes) = (0, 0);
        if is_full { self.close(group) } else { Ok(()) }
    }

    /// Ends a group's file, if it has one. None of its rows waits.
    fn close(&mut self, group: usize) -> Result<(), EncodeError> {
        let held = &mut self.groups[group];
        let Some(file) = held.file.take() else { return Ok(()) };
        let encoded = file.close(&self.plan, &mut self.codec)?;
        let id = new_name();
        // Names that people do not know are no folders for them.
        let mapped = self.plan.layout.description().physical.is_some();
        let folders = if mapped && !held.values.is_empty() { None } else { folders(&held.values) };
        let folders = folders.unwrap_or_else(|| format!("{}/", &id.simple().to_string()[..2]));
        let name = format!("{folders}part-00000-{id}-c000{}.parquet", self.options.compression.extension());
        let root = self.plan.layout.root();
        let relative = Path::parse(&name).map_err(|error| EncodeError::Mismatch {
            table: self.plan.layout.table().to_owned(),
            what: error.to_string(),
        })?;
        let sealed = SealedFile {
            path: encode_path(&name),
            object: root.parts().chain(relative.parts()).collect(),
            parts: encoded.parts.into(),
            size_bytes: encoded.size_bytes,
            rows: encoded.rows,
            partition_values: held.values.clone(),
            stats: encoded.stats,
            spans: std::mem::take(&mut held.spans).into_values().collect(),
        };
        self.files_bytes = self.files_bytes - std::mem::take(&mut held.file_bytes) + sealed.held_bytes();
        self.closed.push_back(sealed);
        Ok(())
    }

    /// Moves the rows that wait together, so that batches which they keep for a few rows can go.
    fn gather(&mut self) -> Result<(), EncodeError> {
        let lists = self.groups.iter_mut().map(|group| &mut group.waiting).filter(|list| !list.is_empty());
        let result = self.waiting.gather(lists);
        result.map_err(|source| self.arrow(source))
    }

    fn arrow(&self, source: arrow_schema::ArrowError) -> EncodeError {
        EncodeError::Arrow { table: self.plan.layout.table().to_owned(), source }
    }
}

impl Group {
    /// Is it worth an encoder's while?
    fn is_ripe(&self) -> bool {
        let rows = if self.file.is_some() { WRITE_ROWS } else { OPEN_ROWS };
        self.waiting_rows >= rows || self.waiting_bytes >= WAITING_BYTES
    }
}

/// Part of a file's name that no file of any process has.
#[expect(clippy::disallowed_methods, reason = "an edge: nothing but the name depends on it")]
fn new_name() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}

/// Ends one value of a key so that different values never make one key: read from its end, a key
/// says how long its last value is.
fn seal_key(key: &mut String, start: usize, there: bool) {
    use std::fmt::Write;
    let length = key.len() - start;
    if there {
        write!(key, "\0{length}\0").expect("strings take all");
    } else {
        key.push_str("\0-\0");
    }
}

/// Where the rows of a batch are from, as one goes through them.
struct Source<'a> {
    spans: &'a [FileSpan],
    /// Rows of the first of them that are through.
    through: u64,
}

impl<'a> Source<'a> {
    fn new(spans: &'a [FileSpan]) -> Self {
        Self { spans, through: 0 }
    }

    /// The next `rows` rows belong to what `spans` describe.
    fn credit(&mut self, rows: usize, spans: &mut BTreeMap<PartitionId, FileSpan>) {
        let mut rows = rows as u64;
        while rows > 0 {
            let Some(span) = self.spans.first() else { return };
            let now = rows.min(span.rows - self.through);
            if now > 0 {
                let known = spans.entry(span.partition).or_insert(FileSpan { rows: 0, ..*span });
                known.from = known.from.min(span.from);
                known.to = known.to.max(span.to);
                known.rows += now;
            }
            rows -= now;
            self.through += now;
            if self.through == span.rows {
                self.spans = &self.spans[1..];
                self.through = 0;
            }
        }
    }
}
