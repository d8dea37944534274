//! What messages are written in.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_schema::Schema;
use lakeward_protocol::records::Records;

use crate::apply::Placed;
use crate::avro::{self, AvroReader, Form, unframed};
use crate::column::Struct;
use crate::debezium::{Debezium, Extras};
use crate::error::{InferError, PlanError};
use crate::infer::infer;
use crate::inflate::{Compression, Inflater};
use crate::protobuf::{self, ProtobufReader};
use crate::raw::{self, RawReader};
use crate::reader::Reader;
use crate::schemas::{Schemas, Unavailable};

/// What the messages of a topic are written in. JSON, one object a message, unless told otherwise.
#[derive(Clone, Debug, Default)]
pub struct Format {
    /// What the bytes mean.
    pub encoding: Encoding,
    /// How each message is compressed as a whole, if it is.
    pub compression: Option<Compression>,
    /// What of Debezium's change events goes into the columns, where messages are such.
    pub debezium: Debezium,
}

/// What a message's bytes mean.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Encoding {
    /// One JSON object.
    #[default]
    Json,
    /// One JSON object in Confluent's framing: a zero, four bytes of its JSON Schema's number in the registry, the text.
    JsonSchema(Arc<dyn Schemas>),
    /// Avro.
    Avro(avro::Form),
    /// Protocol Buffers.
    Protobuf(protobuf::Form),
    /// Nothing that matters here: the record goes into columns `value`, `key`, `headers`, `topic`, `partition`,
    /// `offset`, `timestamp` and `timestampType`, as far as the table has them.
    Raw,
}

impl Format {
    /// What reads its messages into the columns of `root`; JSON is the decoder's own.
    pub(crate) fn reader(&self, root: &mut Struct, placed: &[Placed]) -> Result<Option<Box<dyn Reader>>, PlanError> {
        Ok(match &self.encoding {
            Encoding::Json | Encoding::JsonSchema(_) => None,
            Encoding::Protobuf(form) => Some(Box::new(ProtobufReader::new(form.clone(), root))),
            Encoding::Avro(form) => {
                let events = self.debezium != Debezium::No && self.debezium != Debezium::Keys;
                let wanted = events.then(|| Extras::new(self.debezium, root, placed));
                Some(Box::new(AvroReader::new(form.clone(), wanted, root)))
            }
            Encoding::Raw => Some(Box::new(RawReader::new(root)?)),
        })
    }

    /// What messages' keys are written in where they are framed as values are; `None` where values have no frame.
    #[must_use]
    pub fn of_framed_keys(&self) -> Option<Self> {
        self.schemas()?;
        let debezium = if self.debezium == Debezium::No { Debezium::No } else { Debezium::Keys };
        Some(Self { encoding: self.encoding.clone(), compression: None, debezium })
    }

    /// As [`prepare`](Self::prepare), for the keys of records without a value.
    ///
    /// # Errors
    /// As there.
    pub fn prepare_keys(&self, records: &Records) -> Result<(), Unavailable> {
        let Some(schemas) = self.schemas() else { return Ok(()) };
        let tombstones = records.entries().iter().filter(|entry| records.value(entry).is_none());
        for (id, _) in tombstones.filter_map(|entry| unframed(records.key(entry)?).ok()) {
            schemas.prepare(id)?;
        }
        Ok(())
    }

    /// Where the schemas are that messages name.
    fn schemas(&self) -> Option<&dyn Schemas> {
        match &self.encoding {
            Encoding::JsonSchema(schemas)
            | Encoding::Avro(Form::Framed(schemas))
            | Encoding::Protobuf(protobuf::Form::Framed(schemas)) => Some(&**schemas),
            _ => None,
        }
    }

    /// Finds out about every schema that these records name, so that whoever decodes them need not wait. Of compressed
    /// ones it sees nothing: there the decoder asks.
    ///
    /// # Errors
    /// The first one of which nobody can say as yet whether it is there.
    pub fn prepare(&self, records: &Records) -> Result<(), Unavailable> {
        let Some(schemas) = self.schemas().filter(|_| self.compression.is_none()) else { return Ok(()) };
        let mut last = None;
        for value in records.entries().iter().filter_map(|entry| records.value(entry)) {
            let Ok((id, _)) = unframed(value) else { continue };
            if last != Some(id) {
                schemas.prepare(id)?;
            }
            last = Some(id);
        }
        Ok(())
    }

    /// Whether records' keys and headers are looked at.
    #[must_use]
    pub fn wants_keys(&self) -> bool {
        matches!(self.encoding, Encoding::Raw)
    }
}

impl Format {
    /// Whether the schema is known before any message is.
    #[must_use]
    pub fn is_known(&self) -> bool {
        matches!(
            &self.encoding,
            Encoding::Raw
                | Encoding::Avro(Form::SingleObject(_) | Form::Bare(_))
                | Encoding::Protobuf(protobuf::Form::Bare(_))
        )
    }

    /// The schema of a table that takes all `messages`, and where that [is known](Self::is_known), all that may come.
    /// What is no message of this format is passed over.
    ///
    /// # Errors
    /// When there is none.
    pub fn infer<'a>(&self, messages: impl IntoIterator<Item = &'a [u8]>) -> Result<Schema, InferError> {
        let mut inflater = self.compression.map(Inflater::new);
        let mut plain: Vec<Cow<'a, [u8]>> = Vec::new();
        for message in messages {
            match &mut inflater {
                None => plain.push(message.into()),
                Some(inflater) => plain.extend(inflater.inflate(message).ok().map(|plain| plain.to_vec().into())),
            }
        }
        let messages = plain.iter().map(AsRef::as_ref);
        match &self.encoding {
            Encoding::Json => infer(messages),
            Encoding::JsonSchema(_) => infer(messages.filter_map(|message| Some(unframed(message).ok()?.1))),
            Encoding::Protobuf(form) => form.table_schema(messages),
            Encoding::Avro(form) => Ok(avro::infer(&form.schemas(messages)?)?),
            Encoding::Raw => Ok(raw::schema()),
        }
    }
}

impl From<Encoding> for Format {
    fn from(encoding: Encoding) -> Self {
        Self { encoding, ..Self::default() }
    }
}
