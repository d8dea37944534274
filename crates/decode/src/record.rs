//! What Kafka says of a record, as a transform's value.

use lakeward_protocol::records::{Entry, Records, TimestampType};

use crate::compiled::Made;
use crate::error::{BadKind, Fail, Refused};
use crate::scan::quote;
use crate::transform::Metadata;

/// A record's place in the log.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) entry: &'a Entry,
    /// Its index among these.
    pub(crate) index: usize,
    /// Those that it lies among.
    pub(crate) records: &'a Records,
}

/// A value of a record's metadata.
pub(crate) enum Known<'a> {
    Null,
    Number(i64),
    Text(&'a str),
}

impl Record<'_> {
    #[inline]
    pub(crate) fn metadata<'a>(
        &self,
        metadata: Metadata,
        topic: &'a str,
        property: &str,
    ) -> Result<Known<'a>, Refused> {
        Ok(match metadata {
            Metadata::Offset => Known::Number(self.entry.offset),
            Metadata::Partition => Known::Number(self.records.partition().0.into()),
            Metadata::Topic => Known::Text(topic),
            Metadata::Timestamp if self.entry.timestamp_type == TimestampType::NotAvailable => Known::Null,
            Metadata::Timestamp => match self.entry.timestamp_ms.checked_mul(1000) {
                Some(micros) => Known::Number(micros),
                None => {
                    let what = "the record's timestamp is out of the range of microseconds in 64 bits";
                    return Err(Fail::text(BadKind::Transform, format!("transform '{property}': {what}")));
                }
            },
            Metadata::TimestampType => Known::Number(self.entry.timestamp_type as i64),
        })
    }
}

impl<'a> Known<'a> {
    pub(crate) fn made(self) -> Made<'a> {
        match self {
            Self::Null => Made::Null,
            Self::Number(number) => Made::Integer(number),
            Self::Text(text) => Made::Text(text.into()),
        }
    }

    pub(crate) fn json(self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Number(number) => Some(number.to_string()),
            Self::Text(text) => {
                let mut out = String::new();
                quote(text, &mut out);
                Some(out)
            }
        }
    }
}
