//! Bad records as rows of the table of dead letters.
//!
//! A letter is a JSON object (docs/dead-letters.md), which the decoder of messages takes into the table's columns: so
//! they are filled where the table has them, and transforms see what they set.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lakeward_decode::{Bad, BadKind, Decoder, Transforms};
use lakeward_delta::encode::{Writer, WriterOptions};
use lakeward_delta::{Batch, DataFile, FileSpan, Layout, Tally};
use lakeward_protocol::ports::Letters;
use lakeward_protocol::position::{Frontier, PartitionId};
use lakeward_protocol::records::{Entry, Records, TimestampType};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::StageError;
use crate::meters;

/// How bad records become dead letters.
#[derive(Clone)]
pub struct LetterOptions {
    /// What the letters say of who made them.
    pub app_id: String,
    /// Columns made by expressions over a letter.
    pub transforms: Transforms,
}

/// What one worker has sealed of dead letters.
#[derive(Default)]
pub(super) struct LetterPart {
    files: Vec<DataFile>,
    tally: BTreeMap<PartitionId, Tally>,
    past: Frontier,
}

/// The letters of all workers.
pub(super) fn joined(parts: Vec<LetterPart>) -> Letters<Batch> {
    let mut letters = Letters::<Batch>::default();
    for part in parts {
        letters.batch.files.extend(part.files);
        letters.batch.tally.extend(part.tally);
        letters.past.extend(part.past);
    }
    letters
}

/// What the layout of the dead letters' table needs.
pub struct LetterBench {
    layout: Layout,
    topic: String,
    app_id: String,
    decoder: Decoder,
    writer: Writer,
    tally: BTreeMap<PartitionId, Tally>,
    past: Frontier,
}

impl LetterBench {
    /// For letters of a topic, and a layout of their table.
    ///
    /// # Errors
    /// A layout that letters can't be made for.
    pub fn new(
        options: &LetterOptions,
        topic: &str,
        layout: &Layout,
        writer: &WriterOptions,
    ) -> Result<Self, StageError> {
        let decoder = Decoder::new(layout.schema(), topic, &options.transforms)
            .map_err(|source| StageError::Plan { table: layout.table().to_owned(), source })?;
        for property in decoder.unplaced_transforms() {
            tracing::warn!("transform '{property}' names no column of {}: it sets nothing", layout.table());
        }
        Ok(Self {
            writer: Writer::new(layout, WriterOptions { keeps_rules: false, ..writer.clone() })?,
            layout: layout.clone(),
            topic: topic.to_owned(),
            app_id: options.app_id.clone(),
            decoder,
            tally: BTreeMap::new(),
            past: Frontier::new(),
        })
    }

    /// Takes in the bad ones of some records.
    ///
    /// # Errors
    /// A letter that the table can't take: it must not be a dead letter itself.
    pub fn add(&mut self, records: &Records, bad: &[Bad]) -> Result<(), StageError> {
        if bad.is_empty() {
            return Ok(());
        }
        let mut bad: Vec<&Bad> = bad.iter().collect();
        bad.sort_by_key(|bad| bad.entry);
        let (partition, now_micros) = (records.partition(), now_micros());
        let mut letters = Records::new(partition, records.from());
        for bad in bad {
            let entry = &records.entries()[bad.entry];
            let letter = self.letter(records, bad, now_micros).to_string();
            letters.push(entry.offset, entry.timestamp_ms, entry.timestamp_type, Some(letter.as_bytes()));
        }
        letters.pad();
        let decoded = self.decoder.decode(&letters);
        if let Some(bad) = decoded.bad.first() {
            return Err(self.unfit(&letters, &letters.entries()[bad.entry], &bad.detail));
        }
        let (batch, unfit) = self.writer.sift(decoded.batch)?;
        if let Some(unfit) = unfit.first() {
            return Err(self.unfit(&letters, &letters.entries()[unfit.row], &unfit.reason));
        }
        let rows = batch.num_rows() as u64;
        self.writer.write(&batch, &[FileSpan { partition, from: records.from(), to: letters.to(), rows }])?;
        self.decoder.recycle(batch);
        // Fields of a letter that the table has no column of are no matter.
        drop(self.decoder.take_unknown_fields());
        *self.tally.entry(partition).or_default() += Tally { records: rows, rows, ..Tally::default() };
        self.past.insert(partition, letters.to());
        meters::dead_letters(rows);
        Ok(())
    }

    fn letter(&self, records: &Records, bad: &Bad, now_micros: i64) -> Value {
        let entry = &records.entries()[bad.entry];
        let value = records.value(entry).unwrap_or_default();
        let text = if bad.kind == BadKind::NotJson { None } else { json_text(value) };
        let header = |(name, value): (&[u8], Option<&[u8]>)| json!({"key": String::from_utf8_lossy(name), "value": value.map(hex)});
        let headers: Vec<Value> = records.headers(bad.entry).map(header).collect();
        let stamped = entry.timestamp_type != TimestampType::NotAvailable;
        json!({
            "base64_bytes": text.is_none().then(|| STANDARD.encode(value)),
            "json_string": text,
            "error": bad.detail,
            "timestamp": now_micros,
            "error_kind": bad.kind.name(),
            "topic": self.topic,
            "partition": records.partition().0,
            "offset": entry.offset,
            "kafka_timestamp": entry.timestamp_ms.checked_mul(1000).filter(|_| stamped),
            "key": records.key(entry).map(hex),
            "headers": headers,
            "app_id": self.app_id,
        })
    }

    fn unfit(&self, letters: &Records, entry: &Entry, detail: &str) -> StageError {
        StageError::Letter {
            table: self.layout.table().to_owned(),
            topic: self.topic.clone(),
            partition: letters.partition().0,
            offset: entry.offset,
            detail: detail.to_owned(),
        }
    }

    /// Puts the letters into the store; what is there is a part of a batch.
    pub(super) fn deliver(&mut self, runtime: &Handle) -> Result<LetterPart, StageError> {
        let files = self.writer.deliver(runtime)?;
        Ok(LetterPart { files, tally: std::mem::take(&mut self.tally), past: std::mem::take(&mut self.past) })
    }

    pub(super) fn discard(&mut self) {
        self.writer.discard();
        self.tally.clear();
        self.past.clear();
    }

    /// Gives back what is kept for reuse.
    pub(super) fn rest(&mut self) {
        self.writer.trim();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writer.is_empty()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.writer.held_bytes()
    }
}

/// The value as text where it is JSON: exactly as it came, so that it can be sent again.
fn json_text(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    Some(text)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("strings take all");
    }
    text
}

/// When a letter is made: by the wall clock, as the peer does.
fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
