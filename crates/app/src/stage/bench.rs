//! What a layout needs: messages to rows, rows by the table's rules, rows to files.

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, SchemaRef};
use lakeward_decode::{BadKind, Decoded, Decoder, Encoding};
use lakeward_delta::Layout;
use lakeward_delta::encode::{Unfit, Writer};
use lakeward_delta::view::Stretch;
use lakeward_protocol::records::Records;

use super::keyed::KeyBench;
use super::rules::{RowRules, Unkept};
use super::sifted::{Rows, Sifted, whole_messages};
use super::{Over, StageError, StageOptions};

/// What makes rows of messages for a layout, and files of rows.
pub struct Bench {
    pub(super) layout: Layout,
    rules: Option<RowRules>,
    keys: Option<KeyBench>,
    /// Messages to rows.
    pub decoder: Decoder,
    pub(super) writer: Writer,
}

impl Bench {
    /// For a layout.
    ///
    /// # Errors
    /// A layout that rows of messages can't be made for; rules of the table that we can't keep.
    pub fn new(options: &StageOptions, layout: &Layout) -> Result<Self, StageError> {
        let rules = if options.view.is_some() {
            Ok(None)
        } else {
            RowRules::new(layout, matches!(options.format.encoding, Encoding::Json))
        };
        let rules = rules.map_err(|Unkept { rule, reason }| StageError::Rule {
            table: layout.table().to_owned(),
            rule,
            reason,
        })?;
        let decoder = decoder(options, layout, rules.as_ref())?;
        let writer = Writer::new(layout, options.writer.clone())?;
        let keys = options.by_key.as_ref().map(|by_key| KeyBench::new(by_key, options, layout)).transpose()?;
        Ok(Self { layout: layout.clone(), rules, keys, decoder, writer })
    }

    /// A decoder that keeps nothing, for the one there is.
    pub(super) fn renew_decoder(&mut self, options: &StageOptions) {
        // The one it replaces was made of the same, so there is no error to tell.
        if let Ok(fresh) = decoder(options, &self.layout, self.rules.as_ref()) {
            self.decoder = fresh;
        }
    }

    /// The rows that the table takes, and the messages that became none: by their values, by the table's rules, or
    /// since nothing can be filed under them. Where rows go into the table by key, also what the entries from `from` on
    /// come to; a message that names no row is none of it.
    ///
    /// # Errors
    /// A schema of keys that nobody can say of as yet; a fault of ours.
    pub fn judged(
        &mut self,
        batch: RecordBatch,
        records: &Records,
        from: usize,
        decoded: &Decoded,
    ) -> Result<(Sifted, Option<Stretch>), StageError> {
        let rows = batch.num_rows();
        let mut sifted = self.sifted(batch, records, decoded)?;
        let Some(keys) = &mut self.keys else { return Ok((sifted, None)) };
        let events = keys.events(records, from..decoded.next, decoded, rows, &mut sifted)?;
        Ok((sifted, Some(events)))
    }

    fn sifted(&self, batch: RecordBatch, records: &Records, decoded: &Decoded) -> Result<Sifted, StageError> {
        let (batch, mut rows, mut all) = match &self.rules {
            None => (batch, Rows::default(), Vec::new()),
            Some(rules) => {
                let mut judged = rules.judge(batch, records, decoded);
                let failed = std::mem::take(&mut judged.failed).into_iter();
                let failed = failed.map(|(row, reason)| (BadKind::Constraint, Unfit { row, reason })).collect();
                (judged.batch.clone(), judged.into_rows(), failed)
            }
        };
        let batch = match &self.keys {
            None => batch,
            Some(keys) => {
                let (batch, without) = keys.part(batch);
                let kept = rows.without(batch.num_rows(), without.iter().map(|(row, _)| *row).collect());
                let numbered =
                    without.into_iter().map(|(row, (kind, reason))| (kind, Unfit { row: rows.of(row), reason }));
                all.extend(numbered);
                rows = kept;
                batch
            }
        };
        let (batch, unfit) = self.writer.sift(batch)?;
        let numbered = unfit.into_iter().map(|Unfit { row, reason }| Unfit { row: rows.of(row), reason });
        all.extend(numbered.map(|unfit| (BadKind::DoesNotFit, unfit)));
        all.sort_by_key(|(_, unfit)| unfit.row);
        Ok(whole_messages(decoded, batch, all))
    }
}

fn decoder(options: &StageOptions, layout: &Layout, rules: Option<&RowRules>) -> Result<Decoder, StageError> {
    let schema = match &options.view {
        None => rules.map_or(layout.schema(), RowRules::decoded_schema),
        Some(over) => fitting(over, layout)?,
    };
    Decoder::with_format(schema, &options.topic, &options.transforms, &options.format)
        .map_err(|source| StageError::Plan { table: layout.table().to_owned(), source })
}

/// What messages are decoded into for a view, as long as the table has the view's columns.
fn fitting<'a>(over: &'a Over, layout: &Layout) -> Result<&'a SchemaRef, StageError> {
    let (is, wanted) = (layout.schema().fields(), over.view.schema().fields());
    let same = |(is, wanted): (&FieldRef, &FieldRef)| {
        is.name() == wanted.name() && is.data_type().equals_datatype(wanted.data_type())
    };
    if is.len() == wanted.len() && is.iter().zip(wanted).all(same) {
        return Ok(over.view.columns(over.source));
    }
    let columns = is.iter().map(|field| format!("{} {}", field.name(), field.data_type()));
    Err(StageError::Columns {
        table: layout.table().to_owned(),
        view: over.view.name().to_owned(),
        columns: columns.collect::<Vec<_>>().join(", "),
    })
}
