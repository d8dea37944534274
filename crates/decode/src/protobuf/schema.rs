//! Schemas: compiled from their text with what they import, or read from a set of descriptors.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{DescriptorPool, FileDescriptor, MessageDescriptor};
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

/// The name that a schema's own text goes by while it is compiled; no import is called so.
const ROOT: &str = "(the schema).proto";

/// A Protobuf schema: a file of message types, and all that it imports.
#[derive(Clone, Debug)]
pub struct ProtobufSchema {
    file: FileDescriptor,
}

/// A schema that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtobufError(String);

impl ProtobufSchema {
    /// Compiles a schema's text. `imports` holds the text of each file that it imports, by the name that it is
    /// imported by; Google's and Confluent's common files need not be there. A text may be a serialized descriptor in
    /// base64 as well, as some registries keep it.
    ///
    /// # Errors
    /// What the text has wrong, or what it imports and `imports` lacks.
    pub fn compile(text: &str, imports: &BTreeMap<String, String>) -> Result<Self, ProtobufError> {
        let mut texts = imports.clone();
        texts.insert(ROOT.to_owned(), text.to_owned());
        let mut resolver = ChainFileResolver::new();
        resolver.add(Texts(texts));
        resolver.add(GoogleFileResolver::new());
        let mut compiler = Compiler::with_file_resolver(resolver);
        compiler.open_file(ROOT).map_err(|error| ProtobufError(chain(&error)))?;
        let file = compiler.descriptor_pool().get_file_by_name(ROOT);
        Ok(Self { file: file.expect("the file that was just compiled") })
    }

    /// The message type of a name, among those of the file and all that it imports.
    ///
    /// # Errors
    /// A name that is not there, or that more than one type ends with.
    pub fn named(&self, name: &str) -> Result<ProtobufMessage, ProtobufError> {
        find(self.file.parent_pool(), name)
    }

    /// The message type at a place in the file: an index for each level, from the outside in. Entries of maps, which
    /// are message types to a compiler, are not counted: Confluent's Java serializer does not.
    #[must_use]
    pub fn message(&self, indexes: &[usize]) -> Option<ProtobufMessage> {
        let (first, rest) = indexes.split_first()?;
        let mut message = self.file.messages().nth(*first)?;
        for index in rest {
            let inner = message.child_messages().filter(|message| !message.is_map_entry()).nth(*index);
            message = inner?;
        }
        Some(ProtobufMessage(message))
    }
}

/// A message type.
#[derive(Clone, Debug)]
pub struct ProtobufMessage(pub(crate) MessageDescriptor);

impl ProtobufMessage {
    /// The type of this name in a serialized `FileDescriptorSet` (`protoc --descriptor_set_out --include_imports`).
    ///
    /// # Errors
    /// What is no such set; a name that it does not hold, or that more than one type ends with.
    pub fn named(set: &[u8], name: &str) -> Result<Self, ProtobufError> {
        let pool = DescriptorPool::decode(set).map_err(|error| {
            ProtobufError(format!(
                "this is no set of descriptors with all that it imports ({error}); make it by protoc \
                 --descriptor_set_out=FILE --include_imports"
            ))
        })?;
        find(&pool, name)
    }

    /// Its name, with its package.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.full_name()
    }
}

/// What a schema's text imports, by the names that it gives; without those that every compiler brings.
///
/// # Errors
/// What the text has wrong.
pub fn imports(text: &str) -> Result<Vec<String>, ProtobufError> {
    let file = File::from_source(ROOT, text).map_err(|error| ProtobufError(chain(&error)))?;
    let names = &file.file_descriptor_proto().dependency;
    Ok(names.iter().filter(|name| GoogleFileResolver::new().open_file(name).is_err()).cloned().collect())
}

fn find(pool: &DescriptorPool, name: &str) -> Result<ProtobufMessage, ProtobufError> {
    if let Some(message) = pool.get_message_by_name(name) {
        return Ok(ProtobufMessage(message));
    }
    let ending = format!(".{name}");
    let found: Vec<MessageDescriptor> =
        pool.all_messages().filter(|message| message.full_name().ends_with(&ending)).collect();
    match &found[..] {
        [message] => Ok(ProtobufMessage(message.clone())),
        [] => Err(ProtobufError(format!("there is no message {name}; there are {}", names(pool.all_messages())))),
        many => Err(ProtobufError(format!("{name} may be {}: say which", names(many.iter().cloned())))),
    }
}

/// Names to choose from, without those that every set may have.
fn names(messages: impl Iterator<Item = MessageDescriptor>) -> String {
    const MOST: usize = 20;
    let own = messages.filter(|message| !message.is_map_entry() && message.package_name() != "google.protobuf");
    let names: Vec<String> = own.map(|message| message.full_name().to_owned()).collect();
    match names.len() {
        0 => "none".to_owned(),
        1..=MOST => names.join(", "),
        count => format!("{} and {} more", names[..MOST].join(", "), count - MOST),
    }
}

/// An error with all that it comes from.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

/// Files by name, from memory.
struct Texts(BTreeMap<String, String>);

impl FileResolver for Texts {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let text = self.0.get(name).map(String::as_str).or_else(|| super::common::text(name));
        let Some(text) = text else { return Err(protox::Error::file_not_found(name)) };
        match serialized(text) {
            Some(descriptor) => {
                Ok(File::from_file_descriptor_proto(FileDescriptorProto { name: Some(name.to_owned()), ..descriptor }))
            }
            None => File::from_source(name, text),
        }
    }
}

/// The descriptor that a text in base64 is.
fn serialized(text: &str) -> Option<FileDescriptorProto> {
    use base64::Engine as _;
    let text = text.trim();
    // No text of a schema is of base64's letters alone: each statement has a space.
    let bytes = base64::prelude::BASE64_STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty())?;
    FileDescriptorProto::decode(bytes.as_slice()).ok()
}
