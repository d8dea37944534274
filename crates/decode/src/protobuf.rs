//! Protobuf: the forms that its messages have, and the type of each.
//!
//! Schemas are `protox`'s to compile and `prost_reflect`'s to describe; messages are read by our own strict reader,
//! straight into the columns. Read `types` (what a schema says), `node` (what goes where, once a type), `read` and
//! `check` (each message), then this. Invariants:
//! - a message that `prost` refuses is refused here, fields that no column takes included;
//! - a field that a message leaves out is null where the schema tells that from its default, and the default elsewhere;
//! - memory and time are bounded by the message's length.

mod check;
mod common;
mod known;
mod node;
mod read;
mod schema;
mod table;
mod text;
mod types;
mod wire;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow_schema::{FieldRef, Schema};

pub use schema::{ProtobufError, ProtobufMessage, ProtobufSchema, imports};

use crate::avro::unframed;
use crate::column::Struct;
use crate::error::{BadKind, Fail, InferError, Refused};
use crate::reader::{Reader, Rows, Stop};
use crate::row::Side;
use crate::schemas::{Answer, Language, Schemas};
use node::{Node, Without};
use read::Read;
use types::Types;
use wire::Part;

/// How messages say what their type is.
#[derive(Clone, Debug)]
pub enum Form {
    /// Confluent's framing: a zero, four bytes of the schema's number in the registry, where in the schema the type
    /// is, the message.
    Framed(Arc<dyn Schemas>),
    /// Messages alone, all of this type.
    Bare(ProtobufMessage),
}

impl Form {
    /// The schema of a table for all types of `messages`: their columns in the order in which they are first met.
    pub(crate) fn table_schema<'a>(&self, messages: impl Iterator<Item = &'a [u8]>) -> Result<Schema, InferError> {
        let schemas = match self {
            Self::Bare(message) => return Ok(message.table_schema()),
            Self::Framed(schemas) => schemas,
        };
        let (mut places, mut fields, mut count) = (BTreeSet::new(), Vec::<FieldRef>::new(), 0);
        for message in messages {
            count += 1;
            let Ok((id, value)) = unframed(message) else { continue };
            let Ok((_, indexes)) = text::indexes(message, message.len() - value.len()) else { continue };
            if !places.insert((id, indexes.clone())) {
                continue;
            }
            let Ok(Ok(schema)) = found(schemas.schema(id)?, id) else { continue };
            let new = schema.message(&indexes).map(|message| message.table_schema());
            for field in new.iter().flat_map(Schema::fields) {
                if !fields.iter().any(|known| known.name().to_lowercase() == field.name().to_lowercase()) {
                    fields.push(Arc::clone(field));
                }
            }
        }
        if fields.is_empty() { Err(InferError::NoFields { messages: count }) } else { Ok(Schema::new(fields)) }
    }
}

/// Types kept with their columns; when there are more, all are made anew.
const MOST_KEPT: usize = 1000;

/// A schema's number, and where in it the type is.
type Place = (u32, Vec<usize>);

/// Reads messages of one form.
#[derive(Debug)]
pub(crate) struct ProtobufReader {
    form: Form,
    /// By number in the registry; what is no Protobuf schema with the reason.
    schemas: HashMap<u32, Result<ProtobufSchema, String>>,
    known: HashMap<Place, Known>,
    bare: Option<Known>,
    /// The place of the last message: most are of the same.
    last: Place,
    side: Side,
}

/// A type, and where its fields go.
#[derive(Debug)]
struct Known {
    types: Types,
    node: Node,
}

impl ProtobufReader {
    pub(crate) fn new(form: Form, root: &mut Struct) -> Self {
        let bare = match &form {
            Form::Framed(_) => None,
            Form::Bare(message) => Some(Known::new(message, root)),
        };
        Self {
            form,
            schemas: HashMap::new(),
            known: HashMap::new(),
            bare,
            last: Place::default(),
            side: Side::default(),
        }
    }

    /// Makes the type at `self.last` known.
    fn learn(&mut self, schemas: &Arc<dyn Schemas>, root: &mut Struct) -> Result<(), Stop> {
        let (id, indexes) = &self.last;
        if !self.schemas.contains_key(id) {
            let found = found(schemas.schema(*id)?, *id)?;
            make_room(&mut self.schemas);
            self.schemas.insert(*id, found);
        }
        let unusable = |what: String| Fail::text(BadKind::UnknownSchema, what);
        let schema = self.schemas[id].as_ref().map_err(|what| unusable(what.clone()))?;
        let Some(message) = schema.message(indexes) else {
            return Err(unusable(format!("schema {id} of the registry has no message at {indexes:?}")).into());
        };
        make_room(&mut self.known);
        self.known.insert(self.last.clone(), Known::new(&message, root));
        Ok(())
    }
}

impl Reader for ProtobufReader {
    fn message(&mut self, message: &[u8], rows: &mut Rows) -> Result<(), Stop> {
        let form = self.form.clone();
        let Form::Framed(schemas) = form else {
            let known = self.bare.as_mut().expect("made with its type");
            return Ok(known.row(message, 0, rows, &mut self.side)?);
        };
        let (id, value) = unframed(message)?;
        let (from, indexes) = text::indexes(message, message.len() - value.len())?;
        self.last = (id, indexes);
        if !self.known.contains_key(&self.last) {
            self.learn(&schemas, rows.root)?;
        }
        let known = self.known.get_mut(&self.last).expect("learnt above");
        Ok(known.row(message, from, rows, &mut self.side)?)
    }
}

impl Known {
    fn new(message: &ProtobufMessage, root: &mut Struct) -> Self {
        let types = Types::new(&message.0);
        let node = Self::node(&types, root, &[]);
        Self { types, node }
    }

    fn node(types: &Types, root: &mut Struct, without: Without) -> Node {
        Node::new(types, 0, root, without, &mut Vec::new())
    }

    /// Reads the message that begins at `from` as one more row, and closes it.
    fn row(&mut self, bytes: &[u8], from: usize, rows: &mut Rows, side: &mut Side) -> Result<(), Refused> {
        let row = rows.root.len;
        let whole = [Part::whole(bytes, from)?];
        let mut read = Read { types: &self.types, bytes, side };
        let text = if rows.looked_into { text::message(&read, whole[0])? } else { String::new() };
        if let Err(refused) = read.message(&mut self.node, &whole, rows.root, 0) {
            rows.root.truncate(row);
            if !rows.may_replace(&refused) {
                return Err(refused);
            }
            // What transforms set need not fit as it is.
            let mut node = Self::node(&self.types, rows.root, &rows.replaced(&text)?);
            read.message(&mut node, &whole, rows.root, 0)?;
        }
        rows.close(&text)
    }
}

/// The schema of a number, ready to be used, or what is wrong with it for good.
fn found(answer: Answer, id: u32) -> Result<Result<ProtobufSchema, String>, Refused> {
    let Answer::There(written) = answer else {
        return Err(Fail::text(BadKind::UnknownSchema, format!("the registry has no schema {id}")));
    };
    if written.language != Language::Protobuf {
        return Ok(Err(format!("schema {id} of the registry is not Protobuf, but {}", written.language)));
    }
    let imports: BTreeMap<String, String> =
        written.references.iter().map(|referred| (referred.name.clone(), referred.text.clone())).collect();
    let schema = ProtobufSchema::compile(&written.text, &imports);
    Ok(schema.map_err(|error| format!("schema {id} of the registry: {error}")))
}

fn make_room<K, V>(kept: &mut HashMap<K, V>) {
    if kept.len() >= MOST_KEPT {
        kept.clear();
    }
}
