//! Message types as the reader wants them: fields by number, every type that a message can hold in one list.

use std::collections::HashMap;
use std::sync::Arc;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind as Described, MessageDescriptor};

use super::wire::{Form, Part};

/// Index of a message type in its [`Types`].
pub(super) type TypeId = usize;

/// A message type and all that it can hold. The first is the message itself.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) messages: Vec<MessageType>,
}

#[derive(Debug)]
pub(super) struct MessageType {
    pub(super) descriptor: MessageDescriptor,
    pub(super) fields: Vec<FieldType>,
    /// Number and index of each field, by number.
    by_number: Vec<(u32, usize)>,
    pub(super) known: Known,
    pub(super) oneofs: usize,
}

#[derive(Debug)]
pub(super) struct FieldType {
    pub(super) name: Box<str>,
    pub(super) json_name: Box<str>,
    pub(super) kind: Kind,
    pub(super) count: Count,
    /// Left out is told from the default.
    pub(super) presence: bool,
    pub(super) required: bool,
    /// At most one field of a oneof is there.
    pub(super) oneof: Option<usize>,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    One,
    Many,
    /// Many entries of a key and a value.
    Map,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Scalar(Scalar),
    Enum(Arc<Enumeration>),
    Message(TypeId),
    Group(TypeId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
}

/// The names of an enum's numbers.
#[derive(Debug)]
pub(super) struct Enumeration {
    names: HashMap<i32, Box<str>>,
}

/// Messages that stand for something else than their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// None of these.
    Plain,
    Timestamp,
    /// A scalar that may be left out.
    Wrapper(Scalar),
    /// Any JSON object.
    Struct,
    /// Any JSON.
    Value,
    /// Any JSON array.
    List,
    /// Paths of fields, whose JSON is text.
    FieldMask,
    /// A message of a type that it names.
    Any,
    /// Seconds and nanoseconds, whose JSON is text.
    Duration,
    /// Year, month and day.
    Date,
    /// The bytes of a whole number and its scale.
    Decimal,
}

impl Types {
    pub(super) fn new(root: &MessageDescriptor) -> Self {
        let mut ids = HashMap::from([(root.full_name().to_owned(), 0)]);
        let mut waiting = vec![root.clone()];
        let mut messages = Vec::new();
        // In the order in which they are first met, which is that of their numbers.
        while messages.len() < waiting.len() {
            let descriptor = waiting[messages.len()].clone();
            let mut id_of = |of: MessageDescriptor| {
                let next = waiting.len();
                let id = *ids.entry(of.full_name().to_owned()).or_insert(next);
                if id == next {
                    waiting.push(of);
                }
                id
            };
            messages.push(MessageType::new(descriptor, &mut id_of));
        }
        Self { messages }
    }

    /// What the keys and values of a map are, of which this is the type of an entry.
    pub(super) fn entry(&self, of: TypeId) -> (Scalar, &Kind) {
        match &self.messages[of].fields[..] {
            [FieldType { kind: Kind::Scalar(key), .. }, value] => (*key, &value.kind),
            other => unreachable!("an entry is a scalar and a value, not {other:?}"),
        }
    }
}

impl MessageType {
    fn new(descriptor: MessageDescriptor, id_of: &mut impl FnMut(MessageDescriptor) -> TypeId) -> Self {
        let oneofs: Vec<String> = descriptor.oneofs().map(|oneof| oneof.full_name().to_owned()).collect();
        let mut described: Vec<FieldDescriptor> = descriptor.fields().collect();
        // In the order in which the schema's text has them, as far as that is known.
        described.sort_by_key(|field| field.path().to_vec());
        let fields: Vec<FieldType> =
            described.iter().map(|field| FieldType::new(field, &oneofs, &mut *id_of)).collect();
        let mut by_number: Vec<_> = described.iter().enumerate().map(|(at, field)| (field.number(), at)).collect();
        by_number.sort_unstable();
        let known = Known::of(descriptor.full_name());
        Self { fields, by_number, known, oneofs: oneofs.len(), descriptor }
    }

    /// The field of that number.
    #[inline]
    pub(super) fn field(&self, number: u32) -> Option<usize> {
        // Numbers mostly are 1, 2, 3 and so on.
        let guess = number as usize - 1;
        match self.by_number.get(guess) {
            Some(&(there, at)) if there == number => Some(at),
            _ => {
                let found = self.by_number.binary_search_by_key(&number, |(number, _)| *number).ok()?;
                Some(self.by_number[found].1)
            }
        }
    }
}

impl FieldType {
    fn new(field: &FieldDescriptor, oneofs: &[String], id_of: &mut impl FnMut(MessageDescriptor) -> TypeId) -> Self {
        let kind = match field.kind() {
            Described::Message(message) if field.is_group() => Kind::Group(id_of(message)),
            Described::Message(message) => Kind::Message(id_of(message)),
            Described::Enum(described) => Kind::Enum(Arc::new(Enumeration::new(&described))),
            scalar => Kind::Scalar(Scalar::new(&scalar)),
        };
        let count = match (field.is_map(), field.is_list()) {
            (true, _) => Count::Map,
            (_, true) => Count::Many,
            _ => Count::One,
        };
        let oneof = field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
        Self {
            name: field.name().into(),
            json_name: field.json_name().into(),
            kind,
            count,
            presence: field.supports_presence(),
            required: field.is_required(),
            oneof: oneof.and_then(|oneof| oneofs.iter().position(|name| name == oneof.full_name())),
        }
    }
}

impl Kind {
    /// The type of a map's entries.
    pub(super) fn entry(&self) -> TypeId {
        match self {
            Self::Message(entry) => *entry,
            other => unreachable!("entries are messages, not {other:?}"),
        }
    }

    /// How a value of it lies, alone.
    pub(super) fn form(&self) -> Form {
        match self {
            Self::Scalar(scalar) => scalar.form(),
            Self::Enum(_) => Form::Varint,
            Self::Message(_) => Form::Length,
            Self::Group(_) => Form::Group,
        }
    }
}

impl Scalar {
    fn new(kind: &Described) -> Self {
        match kind {
            Described::Double => Self::Double,
            Described::Float => Self::Float,
            Described::Int32 => Self::Int32,
            Described::Int64 => Self::Int64,
            Described::Uint32 => Self::Uint32,
            Described::Uint64 => Self::Uint64,
            Described::Sint32 => Self::Sint32,
            Described::Sint64 => Self::Sint64,
            Described::Fixed32 => Self::Fixed32,
            Described::Fixed64 => Self::Fixed64,
            Described::Sfixed32 => Self::Sfixed32,
            Described::Sfixed64 => Self::Sfixed64,
            Described::Bool => Self::Bool,
            Described::String => Self::String,
            Described::Bytes => Self::Bytes,
            Described::Message(_) | Described::Enum(_) => unreachable!("told apart before"),
        }
    }

    fn form(self) -> Form {
        match self {
            Self::Double | Self::Fixed64 | Self::Sfixed64 => Form::Fixed64,
            Self::Float | Self::Fixed32 | Self::Sfixed32 => Form::Fixed32,
            Self::String | Self::Bytes => Form::Length,
            _ => Form::Varint,
        }
    }

    /// A whole number's value; `None` for the others.
    #[inline]
    pub(super) fn whole(self, part: Part) -> Option<i128> {
        let bits = part.bits;
        // Truncated to 32 bits as every reader does: negative numbers of 32 bits are sent as ten bytes.
        let low = bits as u32;
        Some(match self {
            Self::Int32 | Self::Sfixed32 => i128::from(low.cast_signed()),
            Self::Int64 | Self::Sfixed64 => i128::from(bits.cast_signed()),
            Self::Uint32 | Self::Fixed32 => i128::from(low),
            Self::Uint64 | Self::Fixed64 => i128::from(bits),
            Self::Sint32 => i128::from((low >> 1).cast_signed() ^ -(low & 1).cast_signed()),
            Self::Sint64 => i128::from((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed()),
            Self::Double | Self::Float | Self::Bool | Self::String | Self::Bytes => return None,
        })
    }
}

impl Enumeration {
    fn new(described: &EnumDescriptor) -> Self {
        let mut names = HashMap::new();
        // An alias comes after the name that it is one of.
        for value in described.values() {
            names.entry(value.number()).or_insert_with(|| value.name().into());
        }
        Self { names }
    }

    /// The name of a number; `None` for one that the schema does not know.
    pub(super) fn name(&self, number: i32) -> Option<&str> {
        self.names.get(&number).map(AsRef::as_ref)
    }

    /// The number that a value's bits are.
    pub(super) fn number(part: Part) -> i32 {
        (part.bits as u32).cast_signed()
    }
}

impl Known {
    fn of(full_name: &str) -> Self {
        match full_name {
            "google.protobuf.Timestamp" => Self::Timestamp,
            "google.protobuf.Duration" => Self::Duration,
            "google.protobuf.Struct" => Self::Struct,
            "google.protobuf.Value" => Self::Value,
            "google.protobuf.ListValue" => Self::List,
            "google.protobuf.FieldMask" => Self::FieldMask,
            "google.protobuf.Any" => Self::Any,
            "google.protobuf.DoubleValue" => Self::Wrapper(Scalar::Double),
            "google.protobuf.FloatValue" => Self::Wrapper(Scalar::Float),
            "google.protobuf.Int64Value" => Self::Wrapper(Scalar::Int64),
            "google.protobuf.UInt64Value" => Self::Wrapper(Scalar::Uint64),
            "google.protobuf.Int32Value" => Self::Wrapper(Scalar::Int32),
            "google.protobuf.UInt32Value" => Self::Wrapper(Scalar::Uint32),
            "google.protobuf.BoolValue" => Self::Wrapper(Scalar::Bool),
            "google.protobuf.StringValue" => Self::Wrapper(Scalar::String),
            "google.protobuf.BytesValue" => Self::Wrapper(Scalar::Bytes),
            "google.type.Date" => Self::Date,
            "confluent.type.Decimal" => Self::Decimal,
            _ => Self::Plain,
        }
    }
}
