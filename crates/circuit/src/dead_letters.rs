//! What could not be taken in, as a relation beside the views: messages that became no row, and rows that an expression
//! fails for now.
//!
//! A message that is bad stays so. A failing row goes as it came, with the opposite weight. Both depend on the input
//! alone, so the relation is exact at each frontier as a view is.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::delta::{Part, batch};
use crate::failure::Failure;

/// The name of its sink, and of its table in queries.
pub const NAME: &str = "dead_letters";

/// Its columns.
#[must_use]
pub fn schema() -> SchemaRef {
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    #[rustfmt::skip] // columns: name, type, may be NULL
    let columns = [
        ("kind",      DataType::Utf8,   false),
        ("source",    DataType::Utf8,   true),
        ("topic",     DataType::Utf8,   true),
        ("partition", DataType::Int32,  true),
        ("offset",    DataType::Int64,  true),
        ("timestamp", timestamp,        true),
        ("key",       DataType::Binary, true),
        ("value",     DataType::Binary, true),
        ("operator",  DataType::Utf8,   true),
        ("detail",    DataType::Utf8,   false),
        ("row",       DataType::Utf8,   true),
    ];
    Arc::new(Schema::new(columns.map(|(name, kind, nullable)| Field::new(name, kind, nullable)).to_vec()))
}

/// A message that became no row.
#[derive(Clone, Copy, Debug)]
pub struct BadRecord<'a> {
    /// The source's name in the pipeline.
    pub source: &'a str,
    /// Its topic.
    pub topic: &'a str,
    /// Where it lies in the topic.
    pub partition: i32,
    /// Where it lies in the partition.
    pub offset: i64,
    /// Milliseconds since 1970, where the broker says.
    pub timestamp_ms: Option<i64>,
    /// As it came.
    pub key: Option<&'a [u8]>,
    /// As it came.
    pub value: Option<&'a [u8]>,
    /// A word for the reason, and the reason.
    pub detail: &'a str,
}

/// The changes of the relation since the last step.
#[derive(Debug, Default)]
pub struct DeadLetters {
    kind: StringBuilder,
    source: StringBuilder,
    topic: StringBuilder,
    partition: Int32Builder,
    offset: Int64Builder,
    timestamp: TimestampMicrosecondBuilder,
    key: BinaryBuilder,
    value: BinaryBuilder,
    operator: StringBuilder,
    detail: StringBuilder,
    row: StringBuilder,
    weights: Int64Builder,
}

impl DeadLetters {
    /// Adds a message.
    pub fn bad_record(&mut self, bad: &BadRecord<'_>) {
        self.kind.append_value("bad_record");
        self.source.append_value(bad.source);
        self.topic.append_value(bad.topic);
        self.partition.append_value(bad.partition);
        self.offset.append_value(bad.offset);
        self.timestamp.append_option(bad.timestamp_ms.and_then(|ms| ms.checked_mul(1000)));
        self.key.append_option(bad.key);
        self.value.append_option(bad.value);
        self.operator.append_null();
        self.detail.append_value(bad.detail);
        self.row.append_null();
        self.weights.append_value(1);
    }

    fn failed_row(&mut self, failure: &Failure) {
        self.kind.append_value("failed_row");
        self.source.append_null();
        self.topic.append_null();
        self.partition.append_null();
        self.offset.append_null();
        self.timestamp.append_null();
        self.key.append_null();
        self.value.append_null();
        self.operator.append_value(&failure.operator);
        self.detail.append_value(&failure.reason);
        self.row.append_value(&failure.row);
        self.weights.append_value(failure.weight);
    }

    /// The change that a step makes: the messages added since the last one, and the rows that fail or do no more.
    #[must_use]
    pub fn take(&mut self, failures: &[Failure]) -> Part {
        failures.iter().for_each(|failure| self.failed_row(failure));
        let weights = self.weights.finish();
        let schema = schema();
        let columns = vec![
            Arc::new(self.kind.finish()) as arrow_array::ArrayRef,
            Arc::new(self.source.finish()),
            Arc::new(self.topic.finish()),
            Arc::new(self.partition.finish()),
            Arc::new(self.offset.finish()),
            Arc::new(self.timestamp.finish().with_timezone("UTC")),
            Arc::new(self.key.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.operator.finish()),
            Arc::new(self.detail.finish()),
            Arc::new(self.row.finish()),
        ];
        let rows = weights.len();
        Part { batch: batch(&schema, columns, rows), weights }
    }
}

#[cfg(test)]
mod tests {
    use arrow_cast::display::{ArrayFormatter, FormatOptions};

    use super::*;

    fn texts(part: &Part) -> Vec<String> {
        let options = FormatOptions::default().with_null("-");
        let text = |row: usize| {
            let columns = part.batch.columns().iter();
            let cells = columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string());
            format!("{:+} {}", part.weights.value(row), cells.collect::<Vec<_>>().join("|"))
        };
        (0..part.weights.len()).map(text).collect()
    }

    #[test]
    fn messages_and_rows_are_letters() {
        let mut letters = DeadLetters::default();
        let bad = BadRecord {
            source: "bid",
            topic: "bids",
            partition: 3,
            offset: 17,
            timestamp_ms: Some(1_700_000_000_123),
            key: None,
            value: Some(b"\xff{"),
            detail: "not_json: not UTF-8",
        };
        letters.bad_record(&bad);
        letters.bad_record(&BadRecord { timestamp_ms: Some(i64::MAX), key: Some(b"k"), value: None, ..bad });
        let failure = Failure {
            operator: "#3 Filter".to_owned(),
            reason: "a / b: Divide by zero".to_owned(),
            row: r#"{"a":1,"b":0}"#.to_owned(),
            weight: -2,
        };
        let expected = [
            "+1 bad_record|bid|bids|3|17|2023-11-14T22:13:20.123Z|-|ff7b|-|not_json: not UTF-8|-",
            "+1 bad_record|bid|bids|3|17|-|6b|-|-|not_json: not UTF-8|-",
            r#"-2 failed_row|-|-|-|-|-|-|-|#3 Filter|a / b: Divide by zero|{"a":1,"b":0}"#,
        ];
        assert_eq!(texts(&letters.take(&[failure])), expected);
        assert_eq!(texts(&letters.take(&[])), [""; 0], "what was taken is gone");
    }
}
