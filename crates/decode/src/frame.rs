//! Confluent's frame around a message: a zero and the number of its schema in the registry.

use std::sync::Arc;

use ahash::AHashMap;
use lakeward_protocol::records::Records;

use crate::avro::unframed;
use crate::error::{BadKind, Fail, Refused};
use crate::reader::Stop;
use crate::schemas::{Answer, Language, Schemas, Unavailable};

/// Schemas remembered from one stretch to the next; when there are more, all are asked for anew.
const MOST_KEPT: usize = 1000;

/// Takes the frame off messages of JSON. Their schema must be there and be a JSON Schema; they are not held against it,
/// as they are not by Confluent's deserializer: who writes validates, and a row must fit the table.
#[derive(Debug)]
pub(crate) struct Frame {
    schemas: Arc<dyn Schemas>,
    /// By number; those that can't be used with the reason.
    known: AHashMap<u32, Option<String>>,
}

impl Frame {
    pub(crate) fn new(schemas: Arc<dyn Schemas>) -> Self {
        Self { schemas, known: AHashMap::new() }
    }

    /// Finds out about all schemas that messages name.
    pub(crate) fn learn(&mut self, records: &Records) -> Result<(), Unavailable> {
        let mut last = None;
        for value in records.entries().iter().filter_map(|entry| records.value(entry)) {
            let Ok((id, _)) = unframed(value) else { continue };
            if last != Some(id) {
                self.ask(id)?;
            }
            last = Some(id);
        }
        Ok(())
    }

    fn ask(&mut self, id: u32) -> Result<(), Unavailable> {
        if self.known.contains_key(&id) {
            return Ok(());
        }
        let fault = match self.schemas.schema(id)? {
            Answer::There(schema) if schema.language == Language::Json => None,
            Answer::There(schema) => {
                Some(format!("schema {id} of the registry is not JSON Schema, but {}", schema.language))
            }
            // It may come: not remembered for longer than this stretch.
            Answer::NotThere => Some(format!("the registry has no schema {id}")),
        };
        self.known.insert(id, fault);
        Ok(())
    }

    /// Forgets what may be otherwise the next time.
    pub(crate) fn forget_faults(&mut self) {
        self.known.retain(|_, fault| fault.is_none());
        if self.known.len() > MOST_KEPT {
            self.known.clear();
        }
    }

    /// The message in the frame.
    pub(crate) fn open<'m>(&mut self, message: &'m [u8]) -> Result<&'m [u8], Stop> {
        let (id, _) = unframed(message)?;
        self.ask(id)?;
        Ok(self.opened(message)?)
    }

    /// The same, of a message that was [learnt](Self::learn) about.
    pub(crate) fn opened<'m>(&self, message: &'m [u8]) -> Result<&'m [u8], Refused> {
        let (id, inner) = unframed(message)?;
        match &self.known[&id] {
            None => Ok(inner),
            Some(what) => Err(Fail::text(BadKind::UnknownSchema, what.clone())),
        }
    }
}
