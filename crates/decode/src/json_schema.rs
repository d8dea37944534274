//! JSON Schema: the table that a schema asks for. Messages are not held against it: as with Confluent's deserializer, a
//! producer's serializer is what validates; here a message must fit the table.
//!
//! | JSON Schema | Delta |
//! |---|---|
//! | `integer`, `number`, `boolean`, `string` | long, double, boolean, string; `connect.type` may ask for a smaller one |
//! | a `string` of format `date-time`, `date` | timestamp, date |
//! | `object` with `properties`; with `additionalProperties` alone | struct; map |
//! | `array` with `items` | array |
//! | one of `null` and another type | that other type |
//! | anything else, and what holds itself | string: its JSON |
//!
//! Every column is nullable, and a name that differs from an earlier one only by case is left out, as for inference.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};

use crate::schemas::ReferredSchema;
use crate::tree::Tree;

/// A schema that no table can be made for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonSchemaError {
    /// Not JSON.
    #[error("the schema{of} is not JSON: {what}")]
    NotJson {
        /// Which one, where it is not the schema itself.
        of: String,
        /// Where and why.
        what: String,
    },
    /// No `properties`.
    #[error(
        "the schema is not one of an object with properties, so it says nothing of columns; give them with --schema FILE"
    )]
    NoProperties,
}

/// The schema of a table for messages of a JSON Schema.
///
/// # Errors
/// What is no JSON, or does not describe an object.
pub fn table_schema(text: &str, references: &[ReferredSchema]) -> Result<Schema, JsonSchemaError> {
    let parse = |of: String, text: &str| {
        Tree::parse(text).map_err(|refused| JsonSchemaError::NotJson { of, what: refused.detail() })
    };
    let root = parse(String::new(), text)?;
    let referred = references
        .iter()
        .map(|referred| Ok((referred.name.as_str(), parse(format!(" {}", referred.name), &referred.text)?)))
        .collect::<Result<Vec<_>, _>>()?;
    let documents = Documents { referred };
    match documents.data_type(At { schema: &root, document: &root }, &mut Vec::new()) {
        DataType::Struct(fields) => Ok(Schema::new(fields)),
        _ => Err(JsonSchemaError::NoProperties),
    }
}

/// All that a schema may refer to.
struct Documents<'a> {
    referred: Vec<(&'a str, Tree)>,
}

/// A schema, and the document that its local references are about.
#[derive(Clone, Copy)]
struct At<'a> {
    schema: &'a Tree,
    document: &'a Tree,
}

impl<'a> At<'a> {
    fn within(self, schema: &'a Tree) -> Self {
        Self { schema, ..self }
    }

    fn get(self, name: &str) -> Option<&'a Tree> {
        member(self.schema, name)
    }
}

impl Documents<'_> {
    /// The type of a schema; `within` are the schemas that it lies in by reference.
    fn data_type<'a>(&'a self, at: At<'a>, within: &mut Vec<*const Tree>) -> DataType {
        if let Some(Tree::String(reference)) = at.get("$ref") {
            let Some(to) = self.resolve(at, reference) else { return DataType::Utf8 };
            let address = std::ptr::from_ref(to.schema);
            if within.contains(&address) {
                return DataType::Utf8;
            }
            within.push(address);
            let data_type = self.data_type(to, within);
            within.pop();
            return data_type;
        }
        for choice in ["oneOf", "anyOf", "allOf"] {
            if let Some(Tree::Array(schemas)) = at.get(choice) {
                return self.choice(at, schemas, within);
            }
        }
        let names = types(at);
        match &names[..] {
            ["integer"] => integer(at),
            ["number"] if text(at, "connect.type") == Some("float32") => DataType::Float32,
            ["number"] | ["integer", "number"] | ["number", "integer"] => DataType::Float64,
            ["boolean"] => DataType::Boolean,
            ["string"] => match text(at, "format") {
                Some("date-time") => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                Some("date") => DataType::Date32,
                _ => DataType::Utf8,
            },
            ["array"] => match at.get("items") {
                Some(items @ Tree::Object(_)) => {
                    let element = self.data_type(at.within(items), within);
                    DataType::List(Arc::new(Field::new("element", element, true)))
                }
                _ => DataType::Utf8,
            },
            ["object"] | [] => self.object(at, within),
            _ => DataType::Utf8,
        }
    }

    fn object<'a>(&'a self, at: At<'a>, within: &mut Vec<*const Tree>) -> DataType {
        if let Some(Tree::Object(properties)) = at.get("properties") {
            let mut fields: Vec<Field> = Vec::new();
            for (name, schema) in properties {
                let known = fields.iter().any(|other| other.name().to_lowercase() == name.to_lowercase());
                if !known && types(at.within(schema)) != ["null"] {
                    fields.push(Field::new(name, self.data_type(at.within(schema), within), true));
                }
            }
            return if fields.is_empty() { DataType::Utf8 } else { DataType::Struct(Fields::from(fields)) };
        }
        match at.get("additionalProperties") {
            Some(values @ Tree::Object(_)) => {
                let key = Field::new("key", DataType::Utf8, false);
                let value = Field::new("value", self.data_type(at.within(values), within), true);
                let entries = DataType::Struct(vec![key, value].into());
                DataType::Map(Arc::new(Field::new("key_value", entries, false)), false)
            }
            _ => DataType::Utf8,
        }
    }

    /// The one type that all schemas but `null` have.
    fn choice<'a>(&'a self, at: At<'a>, schemas: &'a [Tree], within: &mut Vec<*const Tree>) -> DataType {
        let mut found: Option<DataType> = None;
        for schema in schemas.iter().map(|schema| at.within(schema)).filter(|at| types(*at) != ["null"]) {
            let data_type = self.data_type(schema, within);
            match &found {
                None => found = Some(data_type),
                Some(other) if *other == data_type => {}
                Some(_) => return DataType::Utf8,
            }
        }
        found.unwrap_or(DataType::Utf8)
    }

    fn resolve<'a>(&'a self, at: At<'a>, reference: &str) -> Option<At<'a>> {
        let (name, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        let document = match name {
            "" => at.document,
            name => self.referred.iter().find(|(known, _)| *known == name).map(|(_, document)| document)?,
        };
        let mut schema = document;
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            schema = match schema {
                Tree::Array(elements) => elements.get(part.parse::<usize>().ok()?)?,
                other => member(other, &part)?,
            };
        }
        Some(At { schema, document })
    }
}

fn member<'a>(tree: &'a Tree, name: &str) -> Option<&'a Tree> {
    let Tree::Object(members) = tree else { return None };
    members.iter().rev().find(|(member, _)| member == name).map(|(_, value)| value)
}

fn text<'a>(at: At<'a>, name: &str) -> Option<&'a str> {
    match at.get(name)? {
        Tree::String(text) => Some(text),
        _ => None,
    }
}

/// The types that a schema allows, less `null` beside another one.
fn types(at: At<'_>) -> Vec<&str> {
    match at.get("type") {
        Some(Tree::String(name)) => vec![name],
        Some(Tree::Array(names)) => {
            let names =
                names.iter().filter_map(|name| if let Tree::String(name) = name { Some(&**name) } else { None });
            names.filter(|name| *name != "null").collect()
        }
        _ => Vec::new(),
    }
}

fn integer(at: At<'_>) -> DataType {
    match text(at, "connect.type") {
        Some("int8") => DataType::Int8,
        Some("int16") => DataType::Int16,
        Some("int32") => DataType::Int32,
        _ => DataType::Int64,
    }
}
