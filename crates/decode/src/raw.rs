//! Records as they are: the value's bytes in a column, the key and what Kafka says of the record in others.
//!
//! The columns go by the names that Spark's Kafka source gives them; those that the table has are filled. Every record
//! is a row, one without a value too: its value is NULL.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::column::{Column, Data, Struct, end_of};
use crate::error::{BadKind, Fail, PlanError, Refused};
use crate::reader::{Reader, Rows, Stop};
use crate::record::{Known, Record};
use crate::transform::Metadata;

/// What a column is filled with.
#[derive(Clone, Copy, Debug)]
enum Part {
    Value,
    Key,
    Headers,
    Said(Metadata),
}

/// Columns that are filled, by name.
const COLUMNS: [(&str, Part); 9] = [
    ("value", Part::Value),
    ("key", Part::Key),
    ("headers", Part::Headers),
    ("topic", Part::Said(Metadata::Topic)),
    ("partition", Part::Said(Metadata::Partition)),
    ("offset", Part::Said(Metadata::Offset)),
    ("timestamp", Part::Said(Metadata::Timestamp)),
    ("timestampType", Part::Said(Metadata::TimestampType)),
    ("timestamp_type", Part::Said(Metadata::TimestampType)),
];

/// A table for all that there is.
pub(crate) fn schema() -> Schema {
    let column = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    let header = DataType::Struct(vec![column("key", DataType::Utf8), column("value", DataType::Binary)].into());
    let headers = DataType::List(Arc::new(Field::new("element", header, true)));
    Schema::new(vec![
        column("key", DataType::Binary),
        column("value", DataType::Binary),
        column("headers", headers),
        column("topic", DataType::Utf8),
        column("partition", DataType::Int32),
        column("offset", DataType::Int64),
        column("timestamp", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        column("timestampType", DataType::Int32),
    ])
}

/// Puts records into columns as they are.
#[derive(Debug)]
pub(crate) struct RawReader {
    /// Indices of the columns there are.
    columns: Vec<(usize, Part)>,
}

impl RawReader {
    /// For the columns of a table.
    ///
    /// # Errors
    /// It has no column for the value, or one that can't take any bytes.
    pub(crate) fn new(root: &Struct) -> Result<Self, PlanError> {
        let there = |(name, part): (&str, Part)| Some((root.keys.field(name)?, part));
        let columns: Vec<(usize, Part)> = COLUMNS.into_iter().filter_map(there).collect();
        for (index, part) in &columns {
            let column = &root.fields[*index];
            let takes_bytes = matches!(column.data, Data::Binary(_) | Data::String(_));
            let fits = match part {
                Part::Value | Part::Key => takes_bytes,
                Part::Headers => takes_headers(&column.data),
                Part::Said(_) => true,
            };
            if !fits {
                let (column, data_type) = (column.name.to_string(), column.type_name());
                return Err(PlanError::RawColumn { column, data_type });
            }
        }
        if columns.iter().any(|(_, part)| matches!(part, Part::Value)) {
            Ok(Self { columns })
        } else {
            Err(PlanError::RawWithoutValue)
        }
    }

    fn row(&self, value: Option<&[u8]>, rows: &mut Rows) -> Result<(), Refused> {
        let (row, record, topic) = (rows.root.len, rows.record, rows.topic());
        rows.root.open_row();
        for (index, part) in &self.columns {
            rows.root.mark(*index, row);
            let column = &mut rows.root.fields[*index];
            match part {
                Part::Value => put_bytes(value, column),
                Part::Key => put_bytes(record.records.key(record.entry), column),
                Part::Headers => put_headers(record, column),
                Part::Said(metadata) => put_said(record, *metadata, topic, column),
            }
            .map_err(|refused| refused.within(&rows.root.fields[*index].name))?;
        }
        rows.root.len += 1;
        if !rows.root.filled_late {
            rows.root.fill(row)?;
        }
        rows.close("")
    }
}

impl Reader for RawReader {
    fn message(&mut self, message: &[u8], rows: &mut Rows) -> Result<(), Stop> {
        Ok(self.row(Some(message), rows)?)
    }

    fn tombstone(&mut self, rows: &mut Rows) -> Result<(), Stop> {
        Ok(self.row(None, rows)?)
    }
}

fn put_bytes(bytes: Option<&[u8]>, column: &mut Column) -> Result<(), Refused> {
    let Some(bytes) = bytes else {
        return column.push_null_checked("the record has none, and the column is NOT NULL");
    };
    column.put_bytes(bytes)
}

/// An array of structs of two fields, of which the second takes bytes, or a map from string to such.
fn takes_headers(data: &Data) -> bool {
    let bytes = |column: &Column| matches!(column.data, Data::Binary(_) | Data::String(_));
    match data {
        Data::List(list) => match &list.element.data {
            Data::Struct(parts) => matches!(&parts.fields[..], [name, value] if bytes(name) && bytes(value)),
            _ => false,
        },
        Data::Map(map) => matches!(map.key.data, Data::String(_)) && bytes(&map.value),
        _ => false,
    }
}

/// All headers in their order; in a map the last one of each name.
fn put_headers(record: Record, column: &mut Column) -> Result<(), Refused> {
    let headers: Vec<_> = record.records.headers(record.index).collect();
    match &mut column.data {
        Data::List(list) => {
            let Data::Struct(parts) = &mut list.element.data else { unreachable!("looked at when it was planned") };
            for (name, value) in headers {
                let row = parts.len;
                put_bytes(Some(name), &mut parts.fields[0])?;
                put_bytes(value, &mut parts.fields[1])?;
                parts.len = row + 1;
            }
            list.ends.push(end_of(list.element.len())?);
        }
        Data::Map(map) => {
            for (at, (name, value)) in headers.iter().enumerate() {
                if !headers[at + 1..].iter().any(|(other, _)| other == name) {
                    map.key.put_bytes(name)?;
                    put_bytes(*value, &mut map.value)?;
                }
            }
            map.ends.push(end_of(map.key.len())?);
        }
        _ => unreachable!("looked at when it was planned"),
    }
    Ok(())
}

fn put_said(record: Record, metadata: Metadata, topic: &str, column: &mut Column) -> Result<(), Refused> {
    match record.metadata(metadata, topic, &column.name)? {
        Known::Null => column.push_null_checked("the record has none, and the column is NOT NULL"),
        Known::Number(number) => column.put_integer(number),
        Known::Text(text) => column.put_string(text),
    }
}

impl Column {
    /// Appends bytes: to a string column if they are UTF-8.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        match &mut self.data {
            Data::Binary(values) => {
                values.bytes.extend_from_slice(bytes);
                values.close()
            }
            Data::String(values) => match std::str::from_utf8(bytes) {
                Ok(text) => values.push(text),
                Err(_) => Err(Fail::bad(BadKind::WrongType, "bytes that are not UTF-8 in a column of type string")),
            },
            _ => Err(self.wrong("bytes")),
        }
    }
}
