//! Delta's schema JSON to Arrow and back.
//!
//! One pass over the JSON for both the tables that we open and the schema files that users write,
//! so what is created is what is opened. Errors name the column; those of the JSON itself its line.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use serde_json::{Map, Value, json};

use crate::error::DeltaError;

/// A table's columns, as Delta's schema JSON and as Arrow.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    arrow: SchemaRef,
    json: Value,
}

/// Deeper nesting than any table has; bounds recursion.
const DEEPEST: usize = 64;

impl TableSchema {
    /// Reads Delta's schema JSON: `{"type":"struct","fields":[...]}`. `place` (a file's name) is
    /// for messages.
    ///
    /// # Errors
    /// What is no JSON (with line and column), or no schema (with the column's name).
    pub fn parse(place: &str, text: &str) -> Result<Self, DeltaError> {
        let mut json: Value = serde_json::from_str(text)
            .map_err(|error| DeltaError::Schema { place: place.to_owned(), reason: format!("no JSON: {error}") })?;
        let fail = |Wrong { path, reason }: Wrong| DeltaError::Schema {
            place: if path.is_empty() { place.to_owned() } else { format!("{place}, column {path}") },
            reason,
        };
        let fields = fields_from(&json, "", 0).map_err(fail)?;
        if fields.is_empty() {
            return Err(DeltaError::Schema { place: place.to_owned(), reason: "it has no column".to_owned() });
        }
        complete(&mut json);
        Ok(Self { arrow: Arc::new(Schema::new(fields)), json })
    }

    /// The Delta schema of an Arrow schema, of inferred columns for instance.
    ///
    /// # Errors
    /// An Arrow type that Delta does not have; unsigned integers among them, which it would take
    /// for signed ones.
    pub fn from_arrow(schema: &Schema) -> Result<Self, DeltaError> {
        let json = struct_to_json(schema.fields(), "")
            .map_err(|Wrong { path, reason }| DeltaError::Schema { place: format!("column {path}"), reason })?;
        Self::parse("the schema", &json.to_string())
    }

    /// As Arrow: timestamps in microseconds, NOT NULL as `nullable: false`, no metadata.
    #[must_use]
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// As Delta's JSON text, the fields' metadata kept.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.json.to_string()
    }

    /// As Delta's JSON.
    pub(crate) fn json(&self) -> &Value {
        &self.json
    }

    /// Calls `see` with the path and the metadata of every field, nested ones too.
    pub(crate) fn for_each_metadata(&self, see: &mut dyn FnMut(&str, &Map<String, Value>)) {
        walk_metadata(&self.json, "", see);
    }

    /// Is there a column or field of this type, at any depth?
    pub(crate) fn holds(&self, wanted: &dyn Fn(&DataType) -> bool) -> bool {
        self.arrow.fields().iter().any(|field| type_holds(field.data_type(), wanted))
    }
}

/// What is no type, and where.
#[derive(Debug)]
pub(crate) struct Wrong {
    path: String,
    reason: String,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "column {}: {}", self.path, self.reason)
    }
}

fn wrong<T>(path: &str, reason: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { path: path.to_owned(), reason: reason.into() })
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn fields_from(json: &Value, path: &str, depth: usize) -> Result<Fields, Wrong> {
    if depth > DEEPEST {
        return wrong(path, format!("nested deeper than {DEEPEST} levels"));
    }
    if json.get("type").and_then(Value::as_str) != Some("struct") {
        return wrong(path, r#"expected {"type":"struct","fields":[...]}"#);
    }
    let Some(fields) = json.get("fields").and_then(Value::as_array) else {
        return wrong(path, r#"the struct has no list "fields""#);
    };
    let mut seen = HashSet::new();
    let fields = fields.iter().enumerate().map(|(index, field)| {
        let Some(name) = field.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            return wrong(path, format!(r#"field {} has no "name""#, index + 1));
        };
        let path = below(path, name);
        if !seen.insert(name.to_lowercase()) {
            return wrong(&path, "the name is there twice (names that differ by case alone are the same)");
        }
        let Some(kind) = field.get("type") else { return wrong(&path, r#"it has no "type""#) };
        let nullable = flag(field, "nullable", &path)?;
        if field.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
            return wrong(&path, r#""metadata" is no object"#);
        }
        Ok(Field::new(name, type_from(kind, &path, depth + 1)?, nullable))
    });
    fields.collect()
}

/// Says all that readers want said: what a user may leave out, they do not.
fn complete(json: &mut Value) {
    let Some(kind) = json.as_object_mut() else { return };
    for flag in ["containsNull", "valueContainsNull"] {
        let of = if flag == "containsNull" { "elementType" } else { "valueType" };
        if kind.contains_key(of) {
            kind.entry(flag).or_insert(Value::Bool(true));
        }
    }
    for key in ["elementType", "keyType", "valueType"] {
        kind.get_mut(key).map(complete);
    }
    for field in kind.get_mut("fields").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(field) = field.as_object_mut() {
            field.entry("nullable").or_insert(Value::Bool(true));
            let metadata = field.entry("metadata").or_insert(Value::Null);
            if metadata.is_null() {
                *metadata = json!({});
            }
            field.get_mut("type").map(complete);
        }
    }
}

/// A boolean that is true unless it says otherwise.
fn flag(json: &Value, key: &str, path: &str) -> Result<bool, Wrong> {
    match json.get(key) {
        None => Ok(true),
        Some(Value::Bool(value)) => Ok(*value),
        Some(other) => wrong(path, format!("{key:?} is {other}, expected true or false")),
    }
}

fn type_from(json: &Value, path: &str, depth: usize) -> Result<DataType, Wrong> {
    if let Some(name) = json.as_str() {
        return primitive_from(name, path);
    }
    if depth > DEEPEST {
        return wrong(path, format!("nested deeper than {DEEPEST} levels"));
    }
    let part = |key: &str, label: &str| match json.get(key) {
        Some(kind) => type_from(kind, &below(path, label), depth + 1),
        None => wrong(path, format!("it has no {key:?}")),
    };
    match json.get("type").and_then(Value::as_str) {
        Some("struct") => Ok(DataType::Struct(fields_from(json, path, depth)?)),
        Some("array") => {
            let element = Field::new("element", part("elementType", "element")?, flag(json, "containsNull", path)?);
            Ok(DataType::List(Arc::new(element)))
        }
        Some("map") => {
            let key = Field::new("key", part("keyType", "key")?, false);
            let value = Field::new("value", part("valueType", "value")?, flag(json, "valueContainsNull", path)?);
            let entries = Field::new("key_value", DataType::Struct(vec![key, value].into()), false);
            Ok(DataType::Map(Arc::new(entries), false))
        }
        _ => wrong(path, format!("its type is {json}, expected a name, or a struct, an array or a map")),
    }
}

fn primitive_from(name: &str, path: &str) -> Result<DataType, Wrong> {
    Ok(match name {
        "string" => DataType::Utf8,
        "long" => DataType::Int64,
        "integer" => DataType::Int32,
        "short" => DataType::Int16,
        "byte" => DataType::Int8,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "boolean" => DataType::Boolean,
        "binary" => DataType::Binary,
        "date" => DataType::Date32,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "decimal" => DataType::Decimal128(10, 0),
        _ => match decimal_from(name) {
            Some((precision, scale)) => DataType::Decimal128(precision, scale),
            None => {
                return wrong(
                    path,
                    format!(
                        "{name:?} is no type that we write; expected string, long, integer, short, byte, float, \
                         double, boolean, binary, date, timestamp, timestamp_ntz or decimal(p,s)"
                    ),
                );
            }
        },
    })
}

fn decimal_from(name: &str) -> Option<(u8, i8)> {
    let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (precision, scale): (u8, i8) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
    let fits = (1..=38).contains(&precision) && scale >= 0 && i16::from(scale) <= i16::from(precision);
    fits.then_some((precision, scale))
}

/// A column in Delta's words: `id long NOT NULL`.
pub(crate) fn column_text(field: &Field) -> String {
    let kind = match type_to_json(field.data_type(), field.name()) {
        Ok(Value::String(name)) => name,
        Ok(nested) => nested.to_string(),
        Err(_) => field.data_type().to_string(),
    };
    format!("{} {kind}{}", field.name(), if field.is_nullable() { "" } else { " NOT NULL" })
}

fn struct_to_json(fields: &Fields, path: &str) -> Result<Value, Wrong> {
    let fields = fields.iter().map(|field| {
        let kind = type_to_json(field.data_type(), &below(path, field.name()))?;
        Ok(json!({"name": field.name(), "type": kind, "nullable": field.is_nullable(), "metadata": {}}))
    });
    Ok(json!({"type": "struct", "fields": fields.collect::<Result<Vec<_>, Wrong>>()?}))
}

/// A type in Delta's JSON.
pub(crate) fn type_to_json(kind: &DataType, path: &str) -> Result<Value, Wrong> {
    Ok(match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => json!("string"),
        DataType::Int64 => json!("long"),
        DataType::Int32 => json!("integer"),
        DataType::Int16 => json!("short"),
        DataType::Int8 => json!("byte"),
        DataType::Float32 => json!("float"),
        DataType::Float64 => json!("double"),
        DataType::Boolean => json!("boolean"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => json!("binary"),
        DataType::Date32 => json!("date"),
        DataType::Timestamp(TimeUnit::Microsecond, None) => json!("timestamp_ntz"),
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if matches!(&**zone, "UTC" | "+00:00") => {
            json!("timestamp")
        }
        DataType::Decimal128(precision, scale) if (0..=38).contains(scale) => {
            json!(format!("decimal({precision},{scale})"))
        }
        DataType::Struct(fields) => struct_to_json(fields, path)?,
        DataType::List(element) | DataType::LargeList(element) => json!({
            "type": "array",
            "elementType": type_to_json(element.data_type(), &below(path, "element"))?,
            "containsNull": element.is_nullable(),
        }),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => json!({
                "type": "map",
                "keyType": type_to_json(pair[0].data_type(), &below(path, "key"))?,
                "valueType": type_to_json(pair[1].data_type(), &below(path, "value"))?,
                "valueContainsNull": pair[1].is_nullable(),
            }),
            _ => return wrong(path, format!("{kind} is no map")),
        },
        _ => return wrong(path, format!("Delta has no type for Arrow's {kind}")),
    })
}

fn walk_metadata(json: &Value, path: &str, see: &mut dyn FnMut(&str, &Map<String, Value>)) {
    for field in json.get("fields").and_then(Value::as_array).into_iter().flatten() {
        let path = below(path, field.get("name").and_then(Value::as_str).unwrap_or_default());
        if let Some(metadata) = field.get("metadata").and_then(Value::as_object) {
            see(&path, metadata);
        }
        if let Some(kind) = field.get("type") {
            walk_metadata(kind, &path, see);
        }
    }
    for key in ["elementType", "keyType", "valueType"] {
        if let Some(kind) = json.get(key) {
            walk_metadata(kind, path, see);
        }
    }
}

fn type_holds(kind: &DataType, wanted: &dyn Fn(&DataType) -> bool) -> bool {
    wanted(kind)
        || match kind {
            DataType::Struct(fields) => fields.iter().any(|field| type_holds(field.data_type(), wanted)),
            DataType::List(field) | DataType::Map(field, _) => type_holds(field.data_type(), wanted),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_TYPE: &str = r#"{"type":"struct","fields":[
        {"name":"s","type":"string","nullable":false,"metadata":{"comment":"a comment"}},
        {"name":"l","type":"long","nullable":true,"metadata":{}},
        {"name":"i","type":"integer","nullable":true,"metadata":{}},
        {"name":"h","type":"short","nullable":true,"metadata":{}},
        {"name":"b","type":"byte","nullable":true,"metadata":{}},
        {"name":"f","type":"float","nullable":true,"metadata":{}},
        {"name":"d","type":"double","nullable":true,"metadata":{}},
        {"name":"o","type":"boolean","nullable":true,"metadata":{}},
        {"name":"y","type":"binary","nullable":true,"metadata":{}},
        {"name":"t","type":"date","nullable":true,"metadata":{}},
        {"name":"ts","type":"timestamp","nullable":true,"metadata":{}},
        {"name":"n","type":"timestamp_ntz","nullable":true,"metadata":{}},
        {"name":"dec","type":"decimal(38,10)","nullable":true,"metadata":{}},
        {"name":"st","type":{"type":"struct","fields":[{"name":"a","type":"long","nullable":false,"metadata":{}}]},"nullable":true,"metadata":{}},
        {"name":"ar","type":{"type":"array","elementType":"long","containsNull":false},"nullable":true,"metadata":{}},
        {"name":"m","type":{"type":"map","keyType":"string","valueType":"date","valueContainsNull":true},"nullable":true,"metadata":{}}]}"#;

    #[test]
    fn every_type_goes_there_and_back() {
        let schema = TableSchema::parse("x", EVERY_TYPE).unwrap();
        let back = TableSchema::from_arrow(schema.arrow()).unwrap();
        assert_eq!(back.arrow(), schema.arrow());
        let mut comments = vec![];
        schema.for_each_metadata(&mut |path, metadata| {
            if !metadata.is_empty() {
                comments.push(path.to_owned());
            }
        });
        assert_eq!(comments, ["s"]);
        assert!(!schema.arrow().field(0).is_nullable());
        assert!(schema.holds(&|kind| *kind == DataType::Timestamp(TimeUnit::Microsecond, None)));
    }

    #[test]
    fn bad_schemas_say_where_and_what() {
        #[rustfmt::skip] // columns: text, what the message holds
        let cases = [
            ("{\n \"type\": oops}",                                              "line 2"),
            ("[]",                                                               "expected {\"type\":\"struct\""),
            (r#"{"type":"struct"}"#,                                             "fields"),
            (r#"{"type":"struct","fields":[]}"#,                                 "no column"),
            (r#"{"type":"struct","fields":[{"type":"long"}]}"#,                  "field 1 has no \"name\""),
            (r#"{"type":"struct","fields":[{"name":"a"}]}"#,                     "column a: it has no \"type\""),
            (r#"{"type":"struct","fields":[{"name":"a","type":"int"}]}"#,        "\"int\" is no type"),
            (r#"{"type":"struct","fields":[{"name":"a","type":"decimal(40,1)"}]}"#, "decimal(40,1)"),
            (r#"{"type":"struct","fields":[{"name":"a","type":"decimal(3,4)"}]}"#,  "decimal(3,4)"),
            (r#"{"type":"struct","fields":[{"name":"a","type":"variant"}]}"#,    "variant"),
            (r#"{"type":"struct","fields":[{"name":"a","type":"long","nullable":"no"}]}"#, "nullable"),
            (r#"{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"A","type":"long"}]}"#, "twice"),
            (r#"{"type":"struct","fields":[{"name":"a","type":{"type":"array"}}]}"#, "elementType"),
            (r#"{"type":"struct","fields":[{"name":"a","type":{"type":"struct","fields":[{"name":"b","type":"x"}]}}]}"#, "column a.b"),
        ];
        for (text, expected) in cases {
            let message = TableSchema::parse("s.json", text).unwrap_err().to_string();
            assert!(message.contains(expected) && message.starts_with("s.json"), "{text}: {message}");
        }
        let unsigned = Schema::new(vec![Field::new("u", DataType::UInt64, true)]);
        assert!(TableSchema::from_arrow(&unsigned).unwrap_err().to_string().contains("column u"));
        let deep = format!("{}\"long\"{}", r#"{"type":"array","elementType":"#.repeat(100), "}".repeat(100));
        let deep = format!(r#"{{"type":"struct","fields":[{{"name":"a","type":{deep}}}]}}"#);
        assert!(TableSchema::parse("s", &deep).is_err());
    }
}
