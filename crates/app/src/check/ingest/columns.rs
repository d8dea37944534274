//! The schema that messages have, where that is known before any of them, against the table's columns.

use arrow_schema::{Schema, SchemaRef};
use lakeward_decode::{Debezium, Encoding};

use crate::creation;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::report::counted;
use crate::session::Session;

/// Which fields no column takes, and which columns nothing fills; empty where only messages say what they have.
///
/// # Errors
/// A registry that does not answer, a schema that no table can have.
pub fn compared(plan: &Plan, session: &Session, table: &SchemaRef) -> Result<String, Failure> {
    // There the schema is that of the event, and the columns are those of the row in it.
    if plan.format.debezium != Debezium::No {
        return Ok(String::new());
    }
    let Some((place, known)) = creation::known(plan, session)? else { return Ok(String::new()) };
    let by_transforms: Vec<String> = plan.transforms.columns().map(|(name, _)| top(name)).collect();
    let loose = matches!(plan.format.encoding, Encoding::Protobuf(_));
    Ok(text(&place, &known, table, &by_transforms, loose))
}

/// `loose`: Protobuf's fields go by their name or by that in JSON, `a_b` or `aB`.
fn text(place: &str, known: &Schema, table: &Schema, by_transforms: &[String], loose: bool) -> String {
    let same = |a: &str, b: &str| a == b || (loose && squeezed(a) == squeezed(b));
    let has = |schema: &Schema, name: &str| schema.fields().iter().any(|field| same(field.name(), name));
    let dropped: Vec<&str> =
        known.fields().iter().map(|field| field.name().as_str()).filter(|name| !has(table, name)).collect();
    let empty = table.fields().iter().filter(|field| {
        !has(known, field.name()) && !by_transforms.iter().any(|transformed| transformed == field.name())
    });
    let empty: Vec<String> = empty
        .map(|field| format!("{}{}", field.name(), if field.is_nullable() { "" } else { " (NOT NULL)" }))
        .collect();
    let mut out = format!("schema   {place}: {}\n", counted(known.fields().len(), "field"));
    if !dropped.is_empty() {
        out += &format!("         without a column, dropped: {}\n", dropped.join(", "));
    }
    if !empty.is_empty() {
        out += &format!("         columns that it does not fill: {}\n", empty.join(", "));
    }
    out
}

/// `a` of a property `a.b`.
fn top(property: &str) -> String {
    property.split('.').next().unwrap_or_default().to_owned()
}

fn squeezed(name: &str) -> String {
    name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};

    use super::*;

    #[test]
    fn fields_and_columns_that_have_no_fellow_are_named() {
        let schema = |names: &[&str]| {
            let field = |name: &&str| Field::new(name.trim_end_matches('!'), DataType::Utf8, !name.ends_with('!'));
            Schema::new(names.iter().map(field).collect::<Vec<_>>())
        };
        #[rustfmt::skip] // columns: the messages' fields, the table's columns, those of transforms, loose, what is said
        let cases: [(&[&str], &[&str], &[&str], bool, &str); 5] = [
            (&["a", "b"],   &["a", "b"],       &[],    false, "schema   x: 2 fields\n"),
            (&["a", "b"],   &["b"],            &[],    false, "schema   x: 2 fields\n         without a column, dropped: a\n"),
            (&["a"],        &["a", "b!", "c"], &["c"], false, "schema   x: 1 field\n         columns that it does not fill: b (NOT NULL)\n"),
            (&["a_b"],      &["aB"],           &[],    true,  "schema   x: 1 field\n"),
            (&["a_b"],      &["aB"],           &[],    false, "schema   x: 1 field\n         without a column, dropped: a_b\n         columns that it does not fill: aB\n"),
        ];
        for (known, table, transforms, loose, said) in cases {
            let transforms: Vec<String> = transforms.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(text("x", &schema(known), &schema(table), &transforms, loose), said, "{known:?} {table:?}");
        }
    }
}
