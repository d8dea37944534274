//! Column mapping: files, statistics and partition values know columns by other names than people do.
//!
//! The mode (by name or by id) is the readers' matter: writers put both into every file.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use serde_json::Value;

use crate::schema::TableSchema;

/// The property that says whether columns are mapped.
const MODE: &str = "delta.columnMapping.mode";
/// Where a field says its name in files.
pub(crate) const PHYSICAL_NAME: &str = "delta.columnMapping.physicalName";
/// Where a field says its id in files.
pub(crate) const ID: &str = "delta.columnMapping.id";

/// Characters that Parquet's names may not have without a mapping, as Spark holds it.
const UNFIT: [char; 10] = [' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='];

/// Are columns mapped?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    None,
    /// By name or by id.
    Names,
}

impl Mapping {
    pub(crate) fn of(properties: &BTreeMap<String, String>) -> Self {
        match properties.get(MODE) {
            Some(mode) if !mode.eq_ignore_ascii_case("none") => Self::Names,
            _ => Self::None,
        }
    }
}

/// May a column have this name?
pub(crate) fn takes_name(mapping: Mapping, name: &str) -> bool {
    !name.is_empty() && (mapping == Mapping::Names || !name.contains(UNFIT))
}

/// The schema's fields as files have them: the same structure, other names, and ids.
///
/// # Errors
/// A field without name or id, by its path.
pub(crate) fn physical(schema: &TableSchema) -> Result<Fields, String> {
    fields(schema.arrow().fields(), schema.json(), "")
}

fn fields(logical: &Fields, json: &Value, path: &str) -> Result<Fields, String> {
    let parts = json.get("fields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mapped = logical.iter().zip(parts).map(|(field, json)| {
        let path = if path.is_empty() { field.name().clone() } else { format!("{path}.{}", field.name()) };
        let lacks = |what: &str| format!("its columns are mapped, but {path} has no {what}");
        let metadata = json.get("metadata");
        let name =
            metadata.and_then(|metadata| metadata.get(PHYSICAL_NAME)?.as_str()).ok_or_else(|| lacks(PHYSICAL_NAME))?;
        let id = metadata.and_then(|metadata| metadata.get(ID)?.as_i64()).ok_or_else(|| lacks(ID))?;
        let kind = kind(field.data_type(), &json["type"], &path)?;
        let ids = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]);
        Ok(Arc::new(Field::new(name, kind, field.is_nullable()).with_metadata(ids)))
    });
    mapped.collect()
}

fn kind(logical: &DataType, json: &Value, path: &str) -> Result<DataType, String> {
    let inner = |field: &Field, key: &str| {
        let kind = kind(field.data_type(), &json[key], &format!("{path}.{}", field.name()))?;
        Ok::<_, String>(Arc::new(Field::new(field.name(), kind, field.is_nullable())))
    };
    Ok(match logical {
        DataType::Struct(parts) => DataType::Struct(fields(parts, json, path)?),
        DataType::List(element) => DataType::List(inner(element, "elementType")?),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else { return Ok(logical.clone()) };
            let pair = Fields::from(vec![inner(&pair[0], "keyType")?, inner(&pair[1], "valueType")?]);
            let entries = Field::new(entries.name(), DataType::Struct(pair), entries.is_nullable());
            DataType::Map(Arc::new(entries), *sorted)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(metadata: &str) -> Result<Fields, String> {
        let text = format!(
            r#"{{"type":"struct","fields":[{{"name":"a","type":{{"type":"array","elementType":{{"type":"struct","fields":[
               {{"name":"b","type":"long","nullable":true,"metadata":{metadata}}}]}},"containsNull":true}},"nullable":true,
               "metadata":{{"delta.columnMapping.id":7,"delta.columnMapping.physicalName":"col-1"}}}}]}}"#
        );
        physical(&TableSchema::parse("t", &text).unwrap())
    }

    #[test]
    fn names_and_ids_are_found_at_any_depth() {
        let fields = mapped(r#"{"delta.columnMapping.id":8,"delta.columnMapping.physicalName":"col-2"}"#).unwrap();
        assert_eq!(
            (fields[0].name().as_str(), fields[0].metadata()[PARQUET_FIELD_ID_META_KEY].as_str()),
            ("col-1", "7")
        );
        let DataType::List(element) = fields[0].data_type() else { panic!("a list") };
        let DataType::Struct(parts) = element.data_type() else { panic!("a struct") };
        assert_eq!((parts[0].name().as_str(), parts[0].metadata()[PARQUET_FIELD_ID_META_KEY].as_str()), ("col-2", "8"));
        for (metadata, lacks) in [("{}", PHYSICAL_NAME), (r#"{"delta.columnMapping.physicalName":"x"}"#, ID)] {
            let reason = mapped(metadata).unwrap_err();
            assert!(reason.contains("a.element.b") && reason.contains(lacks), "{reason}");
        }
    }

    #[test]
    fn names_that_need_a_mapping() {
        for (name, plain) in [("a.b", true), ("a-b", true), ("ñ", true), ("a b", false), ("a(b)", false), ("", false)]
        {
            assert_eq!(takes_name(Mapping::None, name), plain, "{name}");
            assert_eq!(takes_name(Mapping::Names, name), !name.is_empty(), "{name}");
        }
    }
}
