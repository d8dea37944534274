//! A schema that becomes a larger one: new columns at the end of their struct, wider types in place.
//!
//! Only what `wanted` has more is touched: names, comments and all other metadata of the columns that
//! are there stay byte for byte, so that other writers' settings survive.

use arrow_schema::{DataType, Fields, Schema};
use serde_json::{Map, Value, json};

use crate::mapping::{ID, PHYSICAL_NAME};
use crate::schema::{TableSchema, type_to_json};

/// Where a field tells how its type became what it is.
const TYPE_CHANGES: &str = "delta.typeChanges";

/// How files know new columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// By their names.
    Plain,
    /// By ids above the highest so far, and names made up.
    Mapped { highest: i64 },
}

/// One type that became another.
struct Change {
    /// From the field to the type: empty, or `element`, `value.element`, ...
    path: String,
    from: Value,
    to: Value,
}

/// `schema`, with the columns and types of `wanted`.
///
/// # Errors
/// The column that can't become what is wanted.
pub(crate) fn grown(schema: &TableSchema, wanted: &Schema, names: &mut Names) -> Result<TableSchema, String> {
    let mut json = schema.json().clone();
    grow_struct(&mut json, wanted.fields(), names, "")?;
    TableSchema::parse("the grown schema", &json.to_string()).map_err(|error| error.to_string())
}

fn grow_struct(json: &mut Value, wanted: &Fields, names: &mut Names, path: &str) -> Result<(), String> {
    let fields = json.get_mut("fields").and_then(Value::as_array_mut).ok_or_else(|| format!("{path} is no struct"))?;
    for field in wanted {
        let path = if path.is_empty() { field.name().clone() } else { format!("{path}.{}", field.name()) };
        let known = fields.iter_mut().find(|known| known["name"].as_str() == Some(field.name()));
        let Some(known) = known else {
            fields.push(new_field(field.name(), field.data_type(), names, &path)?);
            continue;
        };
        let mut changes = Vec::new();
        grow_type(&mut known["type"], field.data_type(), names, &path, "", &mut changes)?;
        if !changes.is_empty() {
            note(known, changes);
        }
    }
    Ok(())
}

/// `below` leads from the field to this type, through arrays and maps.
fn grow_type(
    json: &mut Value,
    wanted: &DataType,
    names: &mut Names,
    path: &str,
    below: &str,
    changes: &mut Vec<Change>,
) -> Result<(), String> {
    let inside = |name: &str| if below.is_empty() { name.to_owned() } else { format!("{below}.{name}") };
    match wanted {
        DataType::Struct(fields) => grow_struct(json, fields, names, path),
        DataType::List(element) => {
            let path = format!("{path}.element");
            grow_type(&mut json["elementType"], element.data_type(), names, &path, &inside("element"), changes)
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { return Err(format!("{path} is no map")) };
            let path = format!("{path}.value");
            grow_type(&mut json["valueType"], pair[1].data_type(), names, &path, &inside("value"), changes)
        }
        leaf => {
            let to = type_to_json(leaf, path).map_err(|wrong| wrong.to_string())?;
            if *json != to {
                if !may_widen(json, &to) {
                    return Err(format!("column {path} can't become {to} from {json}"));
                }
                let from = std::mem::replace(json, to.clone());
                changes.push(Change { path: below.to_owned(), from, to });
            }
            Ok(())
        }
    }
}

/// The changes of type that readers of the feature `typeWidening` follow, as far as we make them.
fn may_widen(from: &Value, to: &Value) -> bool {
    let rank = |kind: &Value| ["byte", "short", "integer", "long"].iter().position(|name| kind == name);
    match (rank(from), rank(to)) {
        (Some(from), Some(to)) => from < to,
        _ => from == "float" && to == "double",
    }
}

fn note(field: &mut Value, changes: Vec<Change>) {
    let Some(metadata) = field["metadata"].as_object_mut() else { return };
    let noted = metadata.entry(TYPE_CHANGES).or_insert_with(|| json!([]));
    let Some(noted) = noted.as_array_mut() else { return };
    for Change { path, from, to } in changes {
        let mut change = json!({"fromType": from, "toType": to});
        if !path.is_empty() {
            change["fieldPath"] = json!(path);
        }
        noted.push(change);
    }
}

fn new_field(name: &str, kind: &DataType, names: &mut Names, path: &str) -> Result<Value, String> {
    let mut metadata = Map::new();
    if let Names::Mapped { highest } = names {
        *highest += 1;
        metadata.insert(ID.to_owned(), json!(highest));
        metadata.insert(PHYSICAL_NAME.to_owned(), json!(format!("col-{}", new_id())));
    }
    let mut json = type_to_json(kind, path).map_err(|wrong| wrong.to_string())?;
    if *names != Names::Plain {
        name_inner(&mut json, kind, names, path)?;
    }
    Ok(json!({"name": name, "type": json, "nullable": true, "metadata": metadata}))
}

/// Gives the fields inside a new column their names in files.
fn name_inner(json: &mut Value, kind: &DataType, names: &mut Names, path: &str) -> Result<(), String> {
    match kind {
        DataType::Struct(fields) => {
            let made = fields
                .iter()
                .map(|field| new_field(field.name(), field.data_type(), names, &format!("{path}.{}", field.name())));
            json["fields"] = Value::Array(made.collect::<Result<_, _>>()?);
            Ok(())
        }
        DataType::List(element) => {
            name_inner(&mut json["elementType"], element.data_type(), names, &format!("{path}.element"))
        }
        _ => Ok(()),
    }
}

#[expect(clippy::disallowed_methods, reason = "an edge: the name in files is only ever told by the schema")]
fn new_id() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Field;

    use super::*;

    const SCHEMA: &str = r#"{"type":"struct","fields":[
        {"name":"id","type":"integer","nullable":false,"metadata":{"comment":"kept"}},
        {"name":"items","type":{"type":"array","elementType":{"type":"struct","fields":[
            {"name":"a","type":"short","nullable":true,"metadata":{}}]},"containsNull":true},"nullable":true,"metadata":{}},
        {"name":"m","type":{"type":"map","keyType":"string","valueType":"integer","valueContainsNull":true},"nullable":true,"metadata":{}}]}"#;

    fn wanted(id: DataType, a: DataType, m: DataType, more: bool) -> Schema {
        let mut item = vec![Field::new("a", a, true)];
        let mut fields = vec![Field::new("id", id, false)];
        if more {
            item.push(Field::new("b", DataType::Utf8, true));
        }
        let element = Field::new("element", DataType::Struct(item.into()), true);
        let pair = vec![Field::new("key", DataType::Utf8, false), Field::new("value", m, true)];
        let entries = Field::new("key_value", DataType::Struct(pair.into()), false);
        fields.push(Field::new("items", DataType::List(Arc::new(element)), true));
        fields.push(Field::new("m", DataType::Map(Arc::new(entries), false), true));
        if more {
            let inner = vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Boolean, true)];
            fields.push(Field::new("new", DataType::Struct(inner.into()), true));
        }
        Schema::new(fields)
    }

    #[test]
    fn columns_and_types_grow_and_nothing_else_changes() {
        let schema = TableSchema::parse("t", SCHEMA).unwrap();
        let same = wanted(DataType::Int32, DataType::Int16, DataType::Int32, false);
        assert_eq!(grown(&schema, &same, &mut Names::Plain).unwrap(), schema, "nothing more is wanted");
        let larger = wanted(DataType::Int64, DataType::Int32, DataType::Int64, true);
        let found = grown(&schema, &larger, &mut Names::Plain).unwrap();
        assert_eq!(found.arrow().as_ref(), &larger);
        let fields = found.json()["fields"].as_array().unwrap();
        assert_eq!(
            fields[0]["metadata"],
            json!({"comment": "kept", "delta.typeChanges": [{"fromType": "integer", "toType": "long"}]})
        );
        let item = &fields[1]["type"]["elementType"]["fields"];
        assert_eq!(item[0]["metadata"][TYPE_CHANGES], json!([{"fromType": "short", "toType": "integer"}]));
        assert_eq!(item[1], json!({"name": "b", "type": "string", "nullable": true, "metadata": {}}));
        let change = json!([{"fromType": "integer", "toType": "long", "fieldPath": "value"}]);
        assert_eq!(fields[2]["metadata"][TYPE_CHANGES], change, "the nearest field tells of it");
    }

    #[test]
    fn new_columns_of_a_mapped_table_have_ids_and_names_of_their_own() {
        let schema = TableSchema::parse("t", SCHEMA).unwrap();
        let larger = wanted(DataType::Int32, DataType::Int16, DataType::Int32, true);
        let mut names = Names::Mapped { highest: 40 };
        let found = grown(&schema, &larger, &mut names).unwrap();
        assert_eq!(names, Names::Mapped { highest: 44 }, "b, new, new.x and new.y");
        let mut seen = Vec::new();
        found.for_each_metadata(&mut |path, metadata| {
            if let Some(id) = metadata.get(ID) {
                assert!(metadata[PHYSICAL_NAME].as_str().unwrap().starts_with("col-"));
                seen.push((path.to_owned(), id.as_i64().unwrap()));
            }
        });
        let expected = [("items.b", 41), ("new", 42), ("new.x", 43), ("new.y", 44)];
        assert_eq!(seen, expected.map(|(path, id)| (path.to_owned(), id)));
    }

    #[test]
    fn a_type_that_no_reader_would_follow_is_refused() {
        let schema = TableSchema::parse("t", SCHEMA).unwrap();
        for kind in [DataType::Utf8, DataType::Int8, DataType::Float64] {
            let reason = grown(&schema, &wanted(kind, DataType::Int16, DataType::Int32, false), &mut Names::Plain);
            assert!(reason.unwrap_err().contains("column id"));
        }
    }
}
