//! Where partitions begin, as users write it: `earliest`, `latest`, `timestamp:WHEN`, `offsets:PARTITION=OFFSET,..`.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_cast::parse::string_to_timestamp_nanos;
use lakeward_kafka::{KafkaError, Source};
use lakeward_protocol::position::{Frontier, Offset, PartitionId};

/// How it is written, for messages.
const FORMS: &str = "want earliest, latest, timestamp:2024-01-31T12:00:00Z (or ms since 1970), or offsets:0=123,1=45 \
                     (the first offset to take of each partition)";

/// A place in every partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The oldest record that is kept.
    Earliest,
    /// The end.
    Latest,
    /// The first record whose time stamp is not before this one, in ms since 1970.
    Timestamp(i64),
    /// The first offset to take, of the partitions named.
    Offsets(Frontier),
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "earliest" => Ok(Self::Earliest),
            None if text == "latest" => Ok(Self::Latest),
            Some(("timestamp", when)) => timestamp_ms(when).map(Self::Timestamp),
            Some(("offsets", offsets)) => offsets.split(',').map(offset).collect::<Result<_, _>>().map(Self::Offsets),
            _ => Err(FORMS.to_owned()),
        }
    }
}

impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Earliest => f.write_str("earliest"),
            Self::Latest => f.write_str("latest"),
            Self::Timestamp(ms) => write!(f, "timestamp:{ms}"),
            Self::Offsets(offsets) => {
                for (n, (partition, offset)) in offsets.iter().enumerate() {
                    write!(f, "{}{partition}={offset}", if n == 0 { "offsets:" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

impl Start {
    /// Which offset that is, of each partition; asks the brokers, except for offsets.
    ///
    /// # Errors
    /// No answer, as yet.
    pub fn places(&self, source: &Source) -> Result<Frontier, KafkaError> {
        match self {
            Self::Earliest => source.oldest(),
            Self::Latest => source.ends(),
            Self::Timestamp(ms) => source.at_time(*ms),
            Self::Offsets(offsets) => Ok(offsets.clone()),
        }
    }
}

/// RFC 3339, or a date and a time; UTC where it names no zone. A bare number is ms since 1970.
fn timestamp_ms(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let number = || text.parse::<i64>().ok().filter(|ms| *ms >= 0);
    let date = || string_to_timestamp_nanos(text).ok().map(|nanos| nanos.div_euclid(1_000_000)).filter(|ms| *ms >= 0);
    let ms = number().or_else(date).ok_or_else(|| format!("'{text}' is no time since 1970; {FORMS}"))?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    // What is not written yet has no offset: it would come to `latest`, and from another moment on.
    if u128::from(ms.unsigned_abs()) > now_ms { Err(format!("'{text}' lies in the future; {FORMS}")) } else { Ok(ms) }
}

fn offset(text: &str) -> Result<(PartitionId, Offset), String> {
    let wrong = || format!("'{text}' is not PARTITION=OFFSET; {FORMS}");
    let (partition, offset) = text.split_once('=').ok_or_else(wrong)?;
    let partition = partition.trim().parse().map_err(|_| wrong())?;
    let offset = offset.trim().parse().ok().and_then(|raw| Offset::new(raw).ok()).ok_or_else(wrong)?;
    Ok((PartitionId(partition), offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_shown() {
        let at = |offset| Offset::new(offset).unwrap();
        let offsets = Frontier::from([(PartitionId(0), at(12)), (PartitionId(3), at(0))]);
        #[rustfmt::skip] // columns: text, what it is, as it is shown
        let cases = [
            ("earliest",                        Start::Earliest,                    "earliest"),
            ("latest",                          Start::Latest,                      "latest"),
            ("timestamp:1704067200123",         Start::Timestamp(1_704_067_200_123), "timestamp:1704067200123"),
            ("timestamp:2024-01-01T00:00:00Z",  Start::Timestamp(1_704_067_200_000), "timestamp:1704067200000"),
            ("timestamp:2024-01-01T01:00:00+01:00", Start::Timestamp(1_704_067_200_000), "timestamp:1704067200000"),
            ("timestamp:2024-01-01 00:00:00.5", Start::Timestamp(1_704_067_200_500), "timestamp:1704067200500"),
            ("timestamp:2024-01-01",            Start::Timestamp(1_704_067_200_000), "timestamp:1704067200000"),
            ("offsets:0=12, 3=0",               Start::Offsets(offsets),            "offsets:0=12,3=0"),
        ];
        for (text, expected, shown) in cases {
            let start: Start = text.parse().unwrap();
            assert_eq!((&start, start.to_string().as_str()), (&expected, shown), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused_with_what_is_wanted() {
        for text in [
            "",
            "middle",
            "timestamp:",
            "timestamp:soon",
            "timestamp:-1",
            "timestamp:1960-01-01T00:00:00Z",
            "timestamp:2199-01-01",
            "offsets:",
            "offsets:0",
            "offsets:0=-1",
            "offsets:a=1",
            "offsets:0=1,",
            "earliest:0",
        ] {
            let error = text.parse::<Start>().unwrap_err();
            assert!(error.contains("want earliest, latest"), "{text}: {error}");
        }
    }
}
