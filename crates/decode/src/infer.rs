//! A schema from a topic's first messages.
//!
//! - whole numbers that 64 bits hold are long, other numbers double, or string when digits would be lost;
//! - text is string (dates and times too: they look like text to other readers of the topic as well);
//! - objects are structs, arrays are arrays; kinds that differ between messages become string, long and double double;
//! - a field that is only ever null, an empty array or an empty object has no type yet and is left out;
//! - a name that differs from an earlier one only by case is left out: Delta's column names ignore case;
//! - every column is nullable; columns come in the order in which messages first have them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};

use crate::error::InferError;
use crate::tree::{Tree, last_wins};

/// What a field has been so far.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Nothing,
    Boolean,
    Long,
    Double,
    String,
    Array(Box<Seen>),
    Object(Vec<(String, Seen)>),
}

/// Infers a schema that takes all `messages`. What is no JSON object is passed over.
///
/// # Errors
/// When no message has a field with a value.
pub fn infer<'a>(messages: impl IntoIterator<Item = &'a [u8]>) -> Result<Schema, InferError> {
    let mut seen = Seen::Nothing;
    let mut count = 0;
    for message in messages {
        count += 1;
        let tree = std::str::from_utf8(message).ok().and_then(|text| Tree::parse(text).ok());
        if let Some(tree @ Tree::Object(_)) = tree {
            seen.add(tree);
        }
    }
    match seen.data_type() {
        Some(DataType::Struct(fields)) => Ok(Schema::new(fields)),
        _ => Err(InferError::NoFields { messages: count }),
    }
}

impl Seen {
    /// One value more.
    pub(crate) fn add(&mut self, tree: Tree) {
        *self = match (std::mem::replace(self, Self::Nothing), tree) {
            (seen, Tree::Word(word)) if word == "null" => seen,
            (Self::Nothing, Tree::Object(members)) => Self::object(Vec::new(), members),
            (Self::Object(fields), Tree::Object(members)) => Self::object(fields, members),
            (Self::Nothing, Tree::Array(elements)) => Self::array(Self::Nothing, elements),
            (Self::Array(element), Tree::Array(elements)) => Self::array(*element, elements),
            (Self::Nothing, tree) => Self::scalar(&tree),
            (seen, tree) => seen.merge(&Self::scalar(&tree)),
        };
    }

    fn object(mut fields: Vec<(String, Self)>, members: Vec<(String, Tree)>) -> Self {
        for (name, value) in last_wins(members) {
            if let Some((_, seen)) = fields.iter_mut().find(|(other, _)| *other == name) {
                seen.add(value);
            } else if !fields.iter().any(|(other, _)| other.to_lowercase() == name.to_lowercase()) {
                let mut seen = Self::Nothing;
                seen.add(value);
                fields.push((name, seen));
            }
        }
        Self::Object(fields)
    }

    fn array(mut element: Self, elements: Vec<Tree>) -> Self {
        elements.into_iter().for_each(|value| element.add(value));
        Self::Array(Box::new(element))
    }

    /// What one value is; objects and arrays, which meet something else here, can only be text with it.
    fn scalar(tree: &Tree) -> Self {
        let Tree::Word(word) = tree else { return Self::String };
        match word.as_str() {
            "true" | "false" => Self::Boolean,
            number if number.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) => {
                if number.parse::<i64>().is_ok() { Self::Long } else { Self::String }
            }
            _ => Self::Double,
        }
    }

    fn merge(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Boolean, Self::Boolean) => Self::Boolean,
            (Self::Long, Self::Long) => Self::Long,
            (Self::Long | Self::Double, Self::Long | Self::Double) => Self::Double,
            _ => Self::String,
        }
    }

    /// The type; `None` where nothing was seen that has one.
    pub(crate) fn data_type(&self) -> Option<DataType> {
        Some(match self {
            Self::Nothing => return None,
            Self::Boolean => DataType::Boolean,
            Self::Long => DataType::Int64,
            Self::Double => DataType::Float64,
            Self::String => DataType::Utf8,
            Self::Array(element) => DataType::List(Arc::new(Field::new("element", element.data_type()?, true))),
            Self::Object(fields) => {
                let typed = |(name, seen): &(String, Self)| Some(Field::new(name, seen.data_type()?, true));
                let fields: Fields = fields.iter().filter_map(typed).collect();
                if fields.is_empty() {
                    return None;
                }
                DataType::Struct(fields)
            }
        })
    }
}
