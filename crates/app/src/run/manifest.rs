//! A checkpoint's manifest as text.
//!
//! Partitions are named by their source, so that a source may move in the pipeline's file. Durable:
//! another text takes another `format`, and the golden of this one stays.

use std::collections::BTreeMap;

use lakeward_protocol::ports::Checkpoint;
use lakeward_protocol::position::{CheckpointNumber, CommitId, Frontier, Offset, PartitionId, SourceId};
use serde::{Deserialize, Serialize};

/// A manifest of a source that the pipeline does not have, by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Stranger(pub String);

/// Next offsets to read, by source and partition.
type Named = BTreeMap<String, BTreeMap<u32, i64>>;

/// What a file holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    number: u64,
    id: String,
    frontier: Named,
    begun: Named,
    state: Option<State>,
}

/// The circuit's own words, as they are or as hexadecimal digits.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Text(String),
    Hex(String),
}

const FORMAT: u32 = 2;

/// The text of a checkpoint of these sources, in the pipeline's order.
pub fn encode(checkpoint: &Checkpoint, sources: &[String]) -> Vec<u8> {
    let named = |frontier: &Frontier| {
        let mut named = Named::new();
        for (partition, offset) in frontier {
            let source = &sources[usize::from(partition.source().0)];
            named.entry(source.clone()).or_default().insert(partition.number(), offset.get());
        }
        named
    };
    let manifest = Manifest {
        format: FORMAT,
        number: checkpoint.number.0,
        id: checkpoint.id.to_string(),
        frontier: named(&checkpoint.frontier),
        begun: named(&checkpoint.begun),
        state: checkpoint.state.as_deref().map(State::of),
    };
    serde_json::to_vec_pretty(&manifest).expect("a manifest is JSON")
}

/// What [`encode`] gave; `None` for what it can't have given.
///
/// # Errors
/// When it is of other sources.
pub fn decode(text: &[u8], sources: &[String]) -> Result<Option<Checkpoint>, Stranger> {
    let read = serde_json::from_slice::<Manifest>(text).ok().filter(|manifest| manifest.format == FORMAT);
    let Some(manifest) = read else { return Ok(None) };
    let (Some(frontier), Some(begun)) = (places(&manifest.frontier, sources)?, places(&manifest.begun, sources)?)
    else {
        return Ok(None);
    };
    let Ok(id) = u128::from_str_radix(&manifest.id, 16) else { return Ok(None) };
    let state = manifest.state.as_ref().map(State::bytes);
    if state.as_ref().is_some_and(Option::is_none) {
        return Ok(None);
    }
    let number = CheckpointNumber(manifest.number);
    Ok(Some(Checkpoint { number, id: CommitId(id), frontier, begun, state: state.flatten() }))
}

fn places(named: &Named, sources: &[String]) -> Result<Option<Frontier>, Stranger> {
    let mut frontier = Frontier::new();
    for (source, offsets) in named {
        let at = sources.iter().position(|name| name == source).ok_or_else(|| Stranger(source.clone()))?;
        let id = SourceId(u8::try_from(at).expect("up to 255 sources"));
        for (&number, &offset) in offsets {
            let Ok(offset) = Offset::new(offset) else { return Ok(None) };
            frontier.insert(PartitionId::of(id, number), offset);
        }
    }
    Ok(Some(frontier))
}

impl State {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Hex(digits) if digits.is_ascii() => digits
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                .collect(),
            Self::Hex(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sources: &[&str]) -> Vec<String> {
        sources.iter().map(|name| (*name).to_owned()).collect()
    }

    fn of(source: u8, number: u32) -> PartitionId {
        PartitionId::of(SourceId(source), number)
    }

    fn at(raw: i64) -> Offset {
        Offset::new(raw).unwrap()
    }

    fn sample() -> Checkpoint {
        Checkpoint {
            number: CheckpointNumber(3),
            id: CommitId(0xab),
            frontier: Frontier::from([(of(0, 0), at(7)), (of(0, 11), at(0)), (of(1, 0), at(5))]),
            begun: Frontier::from([(of(1, 0), at(2))]),
            state: Some(b"plan \"x\"".to_vec()),
        }
    }

    const GOLDEN: &str = r#"{
  "format": 2,
  "number": 3,
  "id": "000000000000000000000000000000ab",
  "frontier": {
    "auction": {
      "0": 5
    },
    "bid": {
      "0": 7,
      "11": 0
    }
  },
  "begun": {
    "auction": {
      "0": 2
    }
  },
  "state": {
    "text": "plan \"x\""
  }
}"#;

    #[test] // durable: what is written stays readable
    fn a_manifests_text() {
        let text = encode(&sample(), &names(&["bid", "auction"]));
        assert_eq!(String::from_utf8(text).unwrap(), GOLDEN);
    }

    #[test]
    fn a_source_may_move_in_the_file_but_not_change_its_name() {
        let text = encode(&sample(), &names(&["bid", "auction"]));
        let moved = decode(&text, &names(&["new", "auction", "bid"])).unwrap();
        let frontier = Frontier::from([(of(2, 0), at(7)), (of(2, 11), at(0)), (of(1, 0), at(5))]);
        assert_eq!(moved, Some(Checkpoint { frontier, ..sample() }));
        assert_eq!(decode(&text, &names(&["bids", "auction"])), Err(Stranger("bid".to_owned())));
    }

    #[test]
    fn what_is_no_manifest_is_passed_over() {
        #[rustfmt::skip] // columns: what is wrong, the text
        let cases = [
            ("nothing in it",       String::new()),
            ("torn",                GOLDEN[..GOLDEN.len() / 2].to_owned()),
            ("another format",      GOLDEN.replace("\"format\": 2", "\"format\": 1")),
            ("a field more",        GOLDEN.replace("\"number\"", "\"more\": 1, \"number\"")),
            ("a negative offset",   GOLDEN.replace("\"0\": 7", "\"0\": -7")),
            ("no id",               GOLDEN.replace("0ab", "xyz")),
            ("no state's bytes",    GOLDEN.replace("\"text\": \"plan", "\"hex\": \"plan")),
        ];
        for (name, text) in cases {
            assert_ne!(text, GOLDEN, "{name}");
            assert_eq!(decode(text.as_bytes(), &names(&["bid", "auction"])), Ok(None), "{name}");
        }
        assert_eq!(decode(GOLDEN.as_bytes(), &names(&["bid", "auction"])), Ok(Some(sample())));
    }
}
