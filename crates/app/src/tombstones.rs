//! Messages without a value: each deletes the row of its key, in a source or a table that has one.
//!
//! A key is decoded as a value would be: into the key's columns, of an object that has them, or of a plain value where
//! one column is the key. What is no JSON is that value as text. Where values have Confluent's framing a key that begins
//! as such is read by its schema; text does not begin so.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use lakeward_decode::{Bad, BadKind, Debezium, Decoder, Format, PlanError, Transforms, Unavailable};
use lakeward_protocol::records::Records;
use serde::de::IgnoredAny;

/// Reads the keys of messages without a value.
pub struct Tombstones {
    decoder: Decoder,
    /// Of keys that have a frame.
    framed: Option<Decoder>,
    /// Where the key's columns stand in the source.
    places: Vec<usize>,
    /// The name of the key's only column, and whether it takes any text.
    only: Option<(String, bool)>,
}

/// Rows that go.
pub struct Gone {
    /// With the source's key columns; the others are NULL.
    pub rows: RecordBatch,
    /// Of each row its entry in the records.
    pub entries: Vec<usize>,
}

impl Tombstones {
    /// For a source of these columns, of which those at `places` are the key.
    ///
    /// # Errors
    /// When nothing can be decoded into a column.
    pub fn new(columns: &Schema, places: &[usize], topic: &str) -> Result<Self, PlanError> {
        let key = |at: &usize| {
            let field = columns.field(*at);
            Field::new(field.name(), field.data_type().clone(), false)
        };
        let schema: SchemaRef = Arc::new(Schema::new(places.iter().map(key).collect::<Vec<_>>()));
        let only = match schema.fields().as_ref() {
            [field] => Some((field.name().clone(), *field.data_type() == DataType::Utf8)),
            _ => None,
        };
        let decoder = Decoder::new(&schema, topic, &Transforms::default())?;
        Ok(Self { decoder, framed: None, places: places.to_vec(), only })
    }

    /// The same, for messages of that format.
    ///
    /// # Errors
    /// As [`Tombstones::new`].
    pub fn with_format(columns: &Schema, places: &[usize], topic: &str, format: &Format) -> Result<Self, PlanError> {
        let mut tombstones = Self::new(columns, places, topic)?;
        let decoder =
            |format: &Format, schema: &SchemaRef| Decoder::with_format(schema, topic, &Transforms::default(), format);
        let schema = Arc::clone(tombstones.decoder.schema());
        if format.debezium != Debezium::No {
            let keys = Format { debezium: Debezium::Keys, ..Format::default() };
            tombstones.decoder = decoder(&keys, &schema)?;
        }
        tombstones.framed = format.of_framed_keys().map(|keys| decoder(&keys, &schema)).transpose()?;
        Ok(tombstones)
    }

    /// The rows that go by these messages, as rows of `schema`, which begins with the source's columns. Messages that
    /// name no row are bad. `None` where none of them is without a value.
    ///
    /// # Errors
    /// A schema is needed, and nobody can say whether it is there.
    pub fn read(
        &mut self,
        records: &Records,
        which: Range<usize>,
        schema: &SchemaRef,
        bad: &mut Vec<Bad>,
    ) -> Result<Option<Gone>, Unavailable> {
        let empty = || (Records::new(records.partition(), records.from()), Vec::new());
        let [mut plain, mut framed] = [empty(), empty()];
        for (at, entry) in records.entries().iter().enumerate().take(which.end).skip(which.start) {
            match (records.value(entry), records.key(entry)) {
                (Some(_), _) => {}
                (None, Some(key)) => {
                    let has_frame = self.framed.is_some() && key.first() == Some(&0);
                    let (keys, entries) = if has_frame { &mut framed } else { &mut plain };
                    let object = if has_frame { key.into() } else { self.as_object(key) };
                    keys.push(entry.offset, entry.timestamp_ms, entry.timestamp_type, Some(&object));
                    entries.push(at);
                }
                (None, None) => {
                    let detail = "a message without a value deletes the row of its key, and this one has no key";
                    bad.push(Bad { entry: at, kind: BadKind::NullInNotNull, detail: detail.to_owned() });
                }
            }
        }
        let mut all: Vec<Gone> = Vec::new();
        for (decoder, (keys, entries)) in [(Some(&mut self.decoder), plain), (self.framed.as_mut(), framed)] {
            if let Some(decoder) = decoder.filter(|_| !entries.is_empty()) {
                all.push(gone(decoder, keys, &entries, (&self.places, schema), bad)?);
            }
        }
        Ok(all.into_iter().reduce(|one, other| Gone {
            rows: concat_batches(schema, [&one.rows, &other.rows]).expect("rows of one schema"),
            entries: [one.entries, other.entries].concat(),
        }))
    }

    /// The key as an object of its columns. One that is none stays as it is, to be refused.
    fn as_object<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        let (Some((name, takes_text)), Ok(text)) = (&self.only, std::str::from_utf8(key)) else { return key.into() };
        let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
        let first = text.trim_ascii_start().chars().next();
        if is_json && first == Some('{') {
            return key.into();
        }
        // Of what a text column would take as it is, JSON or not, only a string in quotes says that it is JSON. A null
        // may be meant as none, or as the word: it is refused.
        let is_value = is_json && (!takes_text || first == Some('"') || text == "null");
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let value = if is_value { Cow::Borrowed(text) } else { quoted(text).into() };
        format!("{{{}:{value}}}", quoted(name)).into_bytes().into()
    }
}

/// Keys as rows of a schema, in which their columns have these places. `entries` are those of the keys.
fn gone(
    decoder: &mut Decoder,
    mut keys: Records,
    entries: &[usize],
    (places, schema): (&[usize], &SchemaRef),
    bad: &mut Vec<Bad>,
) -> Result<Gone, Unavailable> {
    keys.pad();
    let decoded = decoder.try_decode(&keys, 0)?;
    drop(decoder.take_unknown_fields());
    assert_eq!(decoded.next, keys.len(), "keys are not larger inside than outside");
    bad.extend(decoded.bad.iter().map(|wrong| Bad {
        entry: entries[wrong.entry],
        kind: wrong.kind,
        detail: format!("a message without a value deletes the row of its key, and its key is none: {}", wrong.detail),
    }));
    let rows = decoded.batch.num_rows();
    let mut columns: Vec<_> = schema.fields().iter().map(|field| new_null_array(field.data_type(), rows)).collect();
    for (place, column) in places.iter().zip(decoded.batch.columns()) {
        columns[*place] = Arc::clone(column);
    }
    let entries = (0..rows).map(|row| entries[decoded.entry_of(row)]).collect();
    Ok(Gone { rows: lakeward_circuit::delta::batch(schema, columns, rows), entries })
}

#[cfg(test)]
mod tests {
    use lakeward_protocol::position::{Offset, PartitionId};
    use lakeward_protocol::records::TimestampType;

    use arrow_cast::pretty::pretty_format_batches;

    use super::*;

    const TEXT: &[(&str, DataType)] = &[("id", DataType::Utf8)];
    const NUMBER: &[(&str, DataType)] = &[("id", DataType::Int64)];
    const DAY: &[(&str, DataType)] = &[("day", DataType::Date32)];
    const BOTH: &[(&str, DataType)] = &[("a", DataType::Int64), ("b", DataType::Utf8)];

    fn tombstones(key: &[(&str, DataType)]) -> (Tombstones, SchemaRef) {
        // A column in front, so that places are not those of the key.
        let front = Field::new("n", DataType::Int64, true);
        let fields = key.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true));
        let schema = Arc::new(Schema::new([front].into_iter().chain(fields).collect::<Vec<_>>()));
        let places: Vec<usize> = (1..=key.len()).collect();
        (Tombstones::new(&schema, &places, "t").expect("columns of a key"), schema)
    }

    fn records(keys: &[Option<&str>]) -> Records {
        let mut records = Records::new(PartitionId(0), Offset::ZERO);
        records.push_keyed(0, 0, TimestampType::CreateTime, Some(b"{}"), Some(b"a value"));
        for (offset, key) in (1..).zip(keys) {
            records.push_keyed(offset, 0, TimestampType::CreateTime, key.map(str::as_bytes), None);
        }
        records
    }

    #[test]
    fn a_key_names_a_row_or_is_bad() {
        #[rustfmt::skip] // columns: the key's columns, the message's key, the row's key or why it is bad
        let cases: [(&[(&str, DataType)], &str, &str); 26] = [
            (NUMBER, "7",                          "7"),
            (NUMBER, r#"{"id":7}"#,                "7"),
            (NUMBER, r#" { "more" : 1, "id" : 7 } "#, "7"),
            (NUMBER, r#""7""#,                     "7"),
            (NUMBER, "x",                          "!wrong_type"),
            (NUMBER, "",                           "!wrong_type"),
            (NUMBER, "null",                       "!null_in_not_null"),
            (NUMBER, "7.5",                        "!does_not_fit"),
            (NUMBER, "[7]",                        "!wrong_type"),
            (NUMBER, r#"7,"more":1"#,              "!wrong_type"),
            (NUMBER, r#"{"ID":7}"#,                "!null_in_not_null"),
            (NUMBER, "{}",                         "!null_in_not_null"),
            (DAY,    "2024-02-29",                 "2024-02-29"),
            (DAY,    r#""2024-02-29""#,            "2024-02-29"),
            (TEXT,   "x",                          "x"),
            (TEXT,   r#""x""#,                     "x"),
            (TEXT,   r#"{"id":"x"}"#,              "x"),
            (TEXT,   "12.0",                       "12.0"),
            (TEXT,   " x ",                        " x "),
            (TEXT,   "",                           ""),
            (TEXT,   r#"x","id":"y"#,              r#"x","id":"y"#),
            (TEXT,   "{x",                         "{x"),
            (TEXT,   "null",                       "!null_in_not_null"),
            (TEXT,   r#"{"key":"x"}"#,             "!null_in_not_null"),
            (BOTH,   r#"{"b":"x","a":1}"#,         "1, x"),
            (BOTH,   r#"{"a":1}"#,                 "!null_in_not_null"),
        ];
        for (key, text, expected) in cases {
            let (mut tombstones, schema) = tombstones(key);
            let mut bad = Vec::new();
            let gone = tombstones.read(&records(&[Some(text)]), 0..2, &schema, &mut bad).unwrap().expect("a tombstone");
            let found = match bad.as_slice() {
                [] => {
                    let options = arrow_cast::display::FormatOptions::default().with_null("NULL");
                    let shown = |at: usize| {
                        let column = gone.rows.column(at);
                        arrow_cast::display::ArrayFormatter::try_new(column, &options).unwrap().value(0).to_string()
                    };
                    assert_eq!((shown(0).as_str(), gone.entries.as_slice()), ("NULL", &[1][..]), "{text}");
                    (1..=key.len()).map(shown).collect::<Vec<_>>().join(", ")
                }
                [bad] => format!("!{}", bad.kind),
                more => panic!("{text}: {more:?}"),
            };
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn each_row_has_its_entry() {
        let (mut tombstones, schema) = tombstones(NUMBER);
        let mut bad = Vec::new();
        let input = records(&[Some("1"), None, Some("x"), Some("4"), Some("1")]);
        let gone = tombstones.read(&input, 0..input.len(), &schema, &mut bad).unwrap().expect("tombstones");
        assert_eq!(gone.entries, [1, 4, 5], "{}", pretty_format_batches(&[gone.rows]).unwrap());
        let mut wrong: Vec<usize> = bad.iter().map(|bad| bad.entry).collect();
        wrong.sort_unstable();
        assert_eq!(wrong, [2, 3], "one without a key, and one whose key is none: {bad:?}");
        assert!(tombstones.read(&records(&[]), 0..1, &schema, &mut bad).unwrap().is_none());
    }
}
