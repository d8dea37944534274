//! Avro: the forms that its messages have, and the schema of each.
//!
//! Schemas are `apache_avro`'s to parse; values are read by our own strict reader, straight into the columns
//! (docs/decisions/0015-avro-straight-into-columns.md has the measurement). Read `schema`, `plan` (what goes where,
//! once a schema), `value` and `scalar` (each message), then this. Invariants:
//! - a message that `apache_avro` refuses is refused here, and one that ends too early or too late is as well;
//! - fields that no column takes are looked at as closely as the others;
//! - memory and time are bounded by the message's length, or by [`MOST_INFLATED_BYTES`](crate::MOST_INFLATED_BYTES)
//!   where it is compressed.

mod container;
mod datum;
mod event;
mod infer;
mod json;
pub(crate) mod plan;
pub(crate) mod scalar;
mod schema;
mod top;
mod value;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub use infer::{AvroInferError, infer};
pub(crate) use scalar::{decimal_text, whole};
pub use schema::{AvroSchema, AvroSchemaError};

use crate::column::Struct;
use crate::debezium::Extras;
use crate::error::{BadKind, Fail, Refused};
use crate::reader::{Reader, Rows, Stop};
use crate::schemas::{Answer, Language, Schemas, Unavailable};
use container::Container;
use datum::Datum;
use top::Known;

/// How messages say what their schema is.
#[derive(Clone, Debug)]
pub enum Form {
    /// Confluent's framing: a zero, four bytes of the schema's number in the registry, the value.
    Framed(Arc<dyn Schemas>),
    /// Single-object encoding: `C3 01`, eight bytes of the schema's fingerprint, the value. These schemas are known.
    SingleObject(Vec<AvroSchema>),
    /// Container files, each with its schema; every value of the file is a row.
    Container,
    /// Values alone, all of this schema.
    Bare(AvroSchema),
    /// Container files, and values alone of this schema: what begins as a container file does is one.
    ContainerOrBare(AvroSchema),
}

impl Form {
    /// The schemas that are known, or those that the messages name, each once.
    pub(crate) fn schemas<'a>(&self, messages: impl Iterator<Item = &'a [u8]>) -> Result<Vec<AvroSchema>, Unavailable> {
        let container = |message: &[u8]| Some(Container::open(message).ok()?.schema.to_vec());
        let parsed = |texts: BTreeSet<Vec<u8>>| {
            let schema = |text: &Vec<u8>| AvroSchema::parse(std::str::from_utf8(text).ok()?, &[]).ok();
            texts.iter().filter_map(schema).collect()
        };
        Ok(match self {
            Self::SingleObject(schemas) => schemas.clone(),
            Self::Bare(schema) => vec![schema.clone()],
            Self::Container => parsed(messages.filter_map(container).collect()),
            Self::ContainerOrBare(schema) => {
                let mut schemas = vec![schema.clone()];
                schemas.extend::<Vec<_>>(parsed(messages.filter_map(container).collect()));
                schemas
            }
            Self::Framed(schemas) => {
                let ids: BTreeSet<u32> = messages.filter_map(|message| Some(unframed(message).ok()?.0)).collect();
                let mut found = Vec::new();
                for id in ids {
                    if let Answer::There(written) = schemas.schema(id)?
                        && written.language == Language::Avro
                    {
                        found.extend(AvroSchema::parse(&written.text, &written.references).ok());
                    }
                }
                found
            }
        })
    }
}

/// Schemas kept with their plans; when there are more, all are made anew.
const MOST_KEPT: usize = 1000;

/// Reads messages of one form.
#[derive(Debug)]
pub(crate) struct AvroReader {
    form: Form,
    /// By number in the registry; what is no Avro schema with the reason.
    by_id: HashMap<u32, Result<Known, String>>,
    by_fingerprint: HashMap<[u8; 8], Known>,
    /// By text, of container files.
    by_text: HashMap<Box<[u8]>, Known>,
    bare: Option<Known>,
    /// Messages are Debezium's events, of which this is wanted.
    wanted: Option<Extras>,
    text: String,
}

impl AvroReader {
    pub(crate) fn new(form: Form, wanted: Option<Extras>, root: &mut Struct) -> Self {
        let mut reader = Self {
            by_id: HashMap::new(),
            by_fingerprint: HashMap::new(),
            by_text: HashMap::new(),
            bare: None,
            text: String::new(),
            form: form.clone(),
            wanted: wanted.clone(),
        };
        match form {
            Form::Framed(_) | Form::Container => {}
            Form::SingleObject(schemas) => {
                let known = |schema: AvroSchema| (schema.fingerprint(), Known::new(schema, wanted.clone(), root));
                reader.by_fingerprint = schemas.into_iter().map(known).collect();
            }
            Form::Bare(schema) | Form::ContainerOrBare(schema) => reader.bare = Some(Known::new(schema, wanted, root)),
        }
        reader
    }

    fn container(&mut self, message: &[u8], rows: &mut Rows) -> Result<(), Refused> {
        let mut container = Container::open(message)?;
        if !self.by_text.contains_key(container.schema) {
            let schema = std::str::from_utf8(container.schema).map_err(|error| error.to_string());
            let schema = schema.and_then(|text| AvroSchema::parse(text, &[]).map_err(|error| error.to_string()));
            let schema =
                schema.map_err(|what| Fail::text(BadKind::UnknownSchema, format!("the file's schema: {what}")))?;
            make_room(&mut self.by_text);
            self.by_text.insert(container.schema.into(), Known::new(schema, self.wanted.clone(), rows.root));
        }
        let known = &self.by_text[container.schema];
        let mut number = 0_u64;
        while let Some((count, bytes)) = container.block()? {
            *rows.inflated_bytes += bytes.len();
            let mut datum = Datum::new(bytes);
            for left in (0..count).rev() {
                if datum.is_at_end() && left >= datum::MOST_EMPTY_ELEMENTS {
                    return Err(datum.fail("more values than the block has bytes for"));
                }
                number += 1;
                known.row(&mut datum, rows, &mut self.text).map_err(|refused| refused.of_value(number))?;
            }
            datum.end()?;
        }
        Ok(())
    }
}

impl Reader for AvroReader {
    fn message(&mut self, message: &[u8], rows: &mut Rows) -> Result<(), Stop> {
        let (known, value) = match &self.form {
            Form::Container => return Ok(self.container(message, rows)?),
            Form::ContainerOrBare(_) if message.starts_with(&container::MAGIC) => {
                return Ok(self.container(message, rows)?);
            }
            Form::Bare(_) | Form::ContainerOrBare(_) => (self.bare.as_ref().expect("made with its schema"), message),
            Form::SingleObject(_) => single_object(&self.by_fingerprint, message)?,
            Form::Framed(schemas) => {
                let (id, value) = unframed(message)?;
                if !self.by_id.contains_key(&id) {
                    let found = found(schemas.schema(id)?, id, self.wanted.as_ref(), rows.root)?;
                    make_room(&mut self.by_id);
                    self.by_id.insert(id, found);
                }
                match &self.by_id[&id] {
                    Ok(known) => (known, value),
                    Err(what) => return Err(Fail::text(BadKind::UnknownSchema, what.clone()).into()),
                }
            }
        };
        let mut datum = Datum::new(value);
        known.row(&mut datum, rows, &mut self.text)?;
        Ok(datum.end()?)
    }
}

/// What Confluent's framing says: the schema's number, and what follows.
pub(crate) fn unframed(message: &[u8]) -> Result<(u32, &[u8]), Refused> {
    match message {
        [0, a, b, c, d, value @ ..] => Ok((u32::from_be_bytes([*a, *b, *c, *d]), value)),
        [0, ..] | [] => Err(Fail::malformed(0, "the message is shorter than a schema's number (5 bytes)")),
        _ => Err(Fail::malformed(0, "the message does not begin with 0 and a schema's number")),
    }
}

fn single_object<'a, 'm>(
    schemas: &'a HashMap<[u8; 8], Known>,
    message: &'m [u8],
) -> Result<(&'a Known, &'m [u8]), Refused> {
    let Some((fingerprint, value)) = message.strip_prefix(b"\xc3\x01").and_then(<[u8]>::split_first_chunk) else {
        return Err(Fail::malformed(0, "the message does not begin with C3 01 and a schema's fingerprint (10 bytes)"));
    };
    match schemas.get(fingerprint) {
        Some(known) => Ok((known, value)),
        None => {
            let fingerprint = u64::from_le_bytes(*fingerprint);
            Err(Fail::text(BadKind::UnknownSchema, format!("no schema of fingerprint {fingerprint:016x} was given")))
        }
    }
}

/// The schema of a number, ready to be used, or what is wrong with it for good.
fn found(
    answer: Answer,
    id: u32,
    wanted: Option<&Extras>,
    root: &mut Struct,
) -> Result<Result<Known, String>, Refused> {
    let Answer::There(written) = answer else {
        return Err(Fail::text(BadKind::UnknownSchema, format!("the registry has no schema {id}")));
    };
    if written.language != Language::Avro {
        return Ok(Err(format!("schema {id} of the registry is not Avro, but {}", written.language)));
    }
    let schema = AvroSchema::parse(&written.text, &written.references);
    Ok(schema
        .map(|schema| Known::new(schema, wanted.cloned(), root))
        .map_err(|error| format!("schema {id} of the registry: {error}")))
}

fn make_room<K, V>(kept: &mut HashMap<K, V>) {
    if kept.len() >= MOST_KEPT {
        kept.clear();
    }
}
