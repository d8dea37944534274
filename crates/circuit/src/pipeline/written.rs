//! What a source's messages are written in: the options `format`, `registry`, `schema`, `message`, `compression` and
//! `debezium`, as one value that makes sense.

use super::columns::Columns;
use super::error::{Place, Problem};
use super::options::Options;
use super::text::Text;
use super::{Changes, Name};

/// How a source's messages are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What the bytes mean.
    pub encoding: Encoding,
    /// How each message is compressed as a whole, if it is.
    pub compression: Option<Compression>,
    /// Messages are Debezium's change events, in JSON or Avro.
    pub debezium: bool,
    /// Where it says so, or else the source's name: for faults that are found later.
    pub place: Place,
}

/// What a message's bytes mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// One JSON object.
    Json,
    /// In Confluent's framing, by schemas of this language in a registry at these addresses, parted by commas.
    Registered(Language, Text),
    /// Avro container files.
    AvroContainers,
    /// Values of the schema in an Avro schema file, or container files.
    AvroFile(Text),
    /// Protobuf messages of a type of a file.
    ProtobufFile {
        /// The file.
        file: Text,
        /// The type.
        message: Text,
    },
    /// Bytes as they are, beside what Kafka says of them.
    Raw,
}

/// In which schemas are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// JSON Schema.
    Json,
    /// Apache Avro.
    Avro,
    /// Protocol Buffers.
    Protobuf,
}

/// How each message is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Json,
    Avro,
    Protobuf,
    Raw,
}

const FORMATS: &[(&str, Word)] =
    &[("json", Word::Json), ("avro", Word::Avro), ("protobuf", Word::Protobuf), ("raw", Word::Raw)];
const COMPRESSIONS: &[(&str, Compression)] = &[("gzip", Compression::Gzip), ("zstd", Compression::Zstd)];

/// The event's field that says what happened, and its values: created, read in a snapshot, updated, deleted.
const OP: &str = "__op";
const INSERTS: [&str; 2] = ["c", "r"];
const UPDATES: [&str; 1] = ["u"];
const DELETES: [&str; 1] = ["d"];

/// Takes the options of the source called `name`.
pub(super) fn written(options: &mut Options, name: &Name) -> Result<Written, Problem> {
    let place = options.place_of("format").unwrap_or(name.place);
    let word = options.one_of("format", FORMATS)?.map_or(Word::Json, |(word, _)| word);
    let compression = options.one_of("compression", COMPRESSIONS)?;
    let debezium_place = options.place_of("debezium").unwrap_or(place);
    let debezium = options.flag("debezium")?;
    let encoding = encoding(options, word)?;
    if let (Encoding::Registered(..), Some((_, place))) = (&encoding, compression) {
        return Err(Problem::new(
            place,
            "messages by a registry are not compressed as a whole; leave `compression` out",
        ));
    }
    if debezium && !matches!(word, Word::Json | Word::Avro) {
        return Err(Problem::new(debezium_place, "Debezium's events are read in json and avro alone"));
    }
    Ok(Written { encoding, compression: compression.map(|(compression, _)| compression), debezium, place })
}

fn encoding(options: &mut Options, word: Word) -> Result<Encoding, Problem> {
    let (registry_place, schema_place) = (options.place_of("registry"), options.place_of("schema"));
    let message_place = options.place_of("message");
    let registry = options.text("registry")?.map(|given| given.value);
    let schema = options.text("schema")?.map(|given| given.value);
    let message = options.plain_text("message")?.map(|given| given.value);
    let refused = |place: Option<Place>, what: &str| Err(Problem::new(place.unwrap_or_default(), what));
    if registry.is_some() && word == Word::Raw {
        return refused(registry_place, "raw messages have no schema; leave `registry` out");
    }
    if registry.is_some() && schema.is_some() {
        return refused(schema_place, "the registry has the schemas; leave `schema` or `registry` out");
    }
    if schema.is_some() && !matches!(word, Word::Avro | Word::Protobuf) {
        return refused(schema_place, "a schema file is for format = 'avro' or 'protobuf'; leave `schema` out");
    }
    if message.is_some() && (word != Word::Protobuf || registry.is_some()) {
        return refused(
            message_place,
            "`message` is the type of format = 'protobuf' with a `schema` file; leave it out",
        );
    }
    Ok(match (word, registry, schema) {
        (Word::Json, None, _) => Encoding::Json,
        (Word::Json, Some(registry), _) => Encoding::Registered(Language::Json, registry),
        (Word::Avro, Some(registry), _) => Encoding::Registered(Language::Avro, registry),
        (Word::Avro, None, Some(schema)) => Encoding::AvroFile(schema),
        (Word::Avro, None, None) => Encoding::AvroContainers,
        (Word::Protobuf, Some(registry), _) => Encoding::Registered(Language::Protobuf, registry),
        (Word::Protobuf, None, Some(file)) => match message {
            Some(message) => Encoding::ProtobufFile { file, message },
            None => return Err(options.lacks("`message`; add message = 'package.Name', the type in that file")),
        },
        (Word::Protobuf, None, None) => {
            return Err(options
                .lacks("`registry` or `schema`; add registry = 'http://host:port', or a schema file and `message`"));
        }
        (Word::Raw, ..) => Encoding::Raw,
    })
}

/// What Debezium's events do to rows. They say it of a key: a snapshot tells rows once more, and an update has the new
/// row alone.
pub(super) fn debezium(written: &Written, columns: &Columns, other: Option<Place>) -> Result<Changes, Problem> {
    if let Some(place) = other {
        return Err(Problem::new(place, "debezium = true says what messages do; leave this option out"));
    }
    if columns.key.is_empty() {
        let message = "debezium = true needs a PRIMARY KEY: snapshots tell rows again, and updates replace them";
        return Err(Problem::new(written.place, message));
    }
    if let Some(column) = columns.columns.iter().find(|column| column.name.text == OP) {
        return Err(Problem::new(column.name.place, "leave `__op` out of the columns: it says what happens to a row"));
    }
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Ok(Changes { field: OP.to_owned(), insert: words(&INSERTS), update: words(&UPDATES), delete: words(&DELETES) })
}
