//! A table of dead letters as an input: one partition, whose offsets are its rows' positions.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use lakeward_delta::{Appended, Chunk, DeltaError};
use lakeward_protocol::ports::{Bounds, Exit, Fault, Input, InputLog, Verdict};
use lakeward_protocol::position::{Frontier, Offset, PartitionId};
use lakeward_protocol::records::{Records, TimestampType};

use super::letter::{COLUMNS, Letter, letters};
use super::wanted;
use crate::cli::dlq::FilterArgs;

/// The only partition.
pub const ALL: PartitionId = PartitionId(0);

/// Bytes of values at which records are handed out, if they are not enough by number.
const ARENA_BYTES: usize = 4 << 20;

/// What can't be read.
#[derive(Debug, thiserror::Error)]
pub enum LettersError {
    /// The table.
    #[error(transparent)]
    Table(#[from] DeltaError),
    /// A letter that is none.
    #[error("dead letters {table}: {place}: {what}; correct or delete that row")]
    Letter { table: String, place: String, what: String },
    /// Columns that letters don't have.
    #[error("dead letters {table}: {what}")]
    Columns { table: String, what: String },
}

impl Fault for LettersError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Table(error) => error.verdict(),
            Self::Letter { .. } => Verdict::Stop(Exit::Data),
            Self::Columns { .. } => Verdict::Stop(Exit::Config),
        }
    }
}

type Chunks = Box<dyn Iterator<Item = Result<Chunk, DeltaError>>>;

/// See the module.
pub struct LettersInput {
    table: String,
    appended: Appended,
    filter: FilterArgs,
    given: bool,
    /// While it is being read.
    chunks: Option<Chunks>,
    /// What the last chunk had and was not handed out yet.
    waiting: VecDeque<(i64, Letter)>,
    at: Offset,
}

impl LettersInput {
    /// The letters as the table has them now.
    ///
    /// # Errors
    /// No such table.
    pub fn open(table: &str, filter: FilterArgs, runtime: &tokio::runtime::Handle) -> Result<Self, DeltaError> {
        Ok(Self {
            table: table.to_owned(),
            appended: Appended::open(table, &COLUMNS, runtime)?,
            filter,
            given: false,
            chunks: None,
            waiting: VecDeque::new(),
            at: Offset::ZERO,
        })
    }

    /// The id of the table.
    #[must_use]
    pub fn table_id(&self) -> &str {
        self.appended.table_id()
    }

    /// Where they end.
    #[must_use]
    pub fn end(&self) -> Offset {
        Offset::new(self.appended.end()).expect("positions are not negative")
    }

    /// Reads on until letters wait, or there is none.
    fn fill(&mut self) -> Result<(), LettersError> {
        while self.waiting.is_empty() {
            let Some(chunk) = self.chunks.as_mut().and_then(Iterator::next) else { return Ok(()) };
            let chunk = chunk?;
            let found =
                letters(&chunk.batch).map_err(|what| LettersError::Columns { table: self.table.clone(), what })?;
            let placed = chunk.positions().zip(found);
            self.waiting.extend(placed.filter(|(_, letter)| wanted(&self.filter, letter)));
        }
        Ok(())
    }

    fn records(&mut self, most: usize) -> Result<Option<Records>, LettersError> {
        self.fill()?;
        let mut records = Records::new(ALL, self.at);
        while records.len() < most && records.value_bytes() < ARENA_BYTES {
            let Some((position, letter)) = self.waiting.pop_front() else { break };
            let value = letter.value().map_err(|what| LettersError::Letter {
                table: self.table.clone(),
                place: letter.place(),
                what,
            })?;
            let (stamp, kind) = match letter.kafka_timestamp {
                Some(micros) => (micros.div_euclid(1000), TimestampType::CreateTime),
                None => (0, TimestampType::NotAvailable),
            };
            records.push_keyed(position, stamp, kind, letter.key.as_deref(), value.as_deref());
            for (name, value) in &letter.headers {
                records.push_header(name.as_bytes(), value.as_deref());
            }
        }
        if records.is_empty() {
            // Nothing is left: what was passed over is taken in as well.
            if self.at >= self.end() {
                return Ok(None);
            }
            records.cover_until(self.end());
        }
        records.pad();
        self.at = records.to();
        Ok(Some(records))
    }
}

impl InputLog for LettersInput {
    type Error = LettersError;

    fn poll(&mut self, most: usize, _: Duration) -> Result<Option<Input>, LettersError> {
        if !self.given {
            self.given = true;
            return Ok(Some(Input::Gained(BTreeSet::from([ALL]))));
        }
        if most == 0 || self.chunks.is_none() {
            return Ok(None);
        }
        let end = self.end();
        Ok(Some(match self.records(most)? {
            Some(records) => Input::Records(records),
            None => Input::Reached { partition: ALL, end },
        }))
    }

    fn start(&mut self, at: &Frontier) -> Result<(), LettersError> {
        let Some(&from) = at.get(&ALL) else { return Ok(()) };
        self.waiting.clear();
        self.chunks = Some(Box::new(self.appended.read_from(from.get())?));
        self.at = from;
        Ok(())
    }

    fn release(&mut self, _: &BTreeSet<PartitionId>) -> Result<(), LettersError> {
        (self.chunks, self.waiting) = (None, VecDeque::new());
        Ok(())
    }

    fn bounds(&mut self, _: PartitionId) -> Result<Bounds, LettersError> {
        Ok(Bounds { oldest: Offset::ZERO, end: self.end() })
    }

    fn announce(&mut self, _: &Frontier) {}

    fn recycle(&mut self, _: Records) {}
}
