//! Which tables we write to. What a table needs and we do not do is refused by name before the
//! first message is read; this file's [`FEATURES`] is the table in docs/tables.md.
//!
//! Old protocol versions imply features that most tables never use; so do the lists of tables that
//! were upgraded. Where use can be seen in the schema or the properties, use decides.

use std::collections::BTreeMap;

use arrow_schema::DataType;

use crate::error::DeltaError;
use crate::layout::{Layout, TextLength};
use crate::schema::TableSchema;

/// What we do about a feature.
#[derive(Clone, Copy, Debug)]
pub enum Support {
    /// Appending as we do is right by it.
    Honoured,
    /// `lakeward ingest` is right by it, in this way; use is refused for the tables of views.
    Ingest(&'static str),
    /// Right as long as the table does not use it; use is refused, with what to do.
    Unused(Use, &'static str),
    /// Refused wherever it is listed, with what to do.
    Refused(&'static str),
}

/// How use of a feature shows.
#[derive(Clone, Copy, Debug)]
pub enum Use {
    /// A property is set to something other than this (its "off").
    Property(&'static str, &'static str),
    /// A field's metadata has a key that begins so.
    FieldMetadataPrefix(&'static str),
}

/// Every feature of Delta's protocol that we know, by its name there.
#[rustfmt::skip]
pub const FEATURES: &[(&str, Support)] = &[
    ("appendOnly",                   Support::Honoured),
    ("changeDataFeed",               Support::Honoured),
    ("deletionVectors",              Support::Honoured),
    ("domainMetadata",               Support::Honoured),
    ("inCommitTimestamp",            Support::Honoured),
    ("inCommitTimestamp-preview",    Support::Honoured),
    ("materializePartitionColumns",  Support::Honoured),
    ("timestampNtz",                 Support::Honoured),
    ("typeWidening",                 Support::Honoured),
    ("typeWidening-preview",         Support::Honoured),
    ("v2Checkpoint",                 Support::Honoured),
    ("vacuumProtocolCheck",          Support::Honoured),
    ("checkpointProtection",         Support::Honoured),
    ("columnMapping",                Support::Honoured),
    ("clustering",                   Support::Honoured),
    ("checkConstraints",             Support::Ingest("a row that one is not true for is a bad record")),
    ("invariants",                   Support::Ingest("a row that one is not true for is a bad record")),
    ("generatedColumns",             Support::Ingest("made where a message says nothing, compared where it does")),
    ("allowColumnDefaults",          Support::Ingest("taken where a message does not name the column; constants alone")),
    ("rowTracking",                  Support::Ingest("rows get ids")),
    ("identityColumns",              Support::Unused(Use::FieldMetadataPrefix("delta.identity."), "make the column a plain one and fill it with --transform")),
    ("icebergCompatV1",              Support::Unused(Use::Property("delta.enableIcebergCompatV1", "false"), "write to a table without Iceberg compatibility")),
    ("icebergCompatV2",              Support::Unused(Use::Property("delta.enableIcebergCompatV2", "false"), "write to a table without Iceberg compatibility")),
    ("icebergCompatV3",              Support::Unused(Use::Property("delta.enableIcebergCompatV3", "false"), "write to a table without Iceberg compatibility")),
    ("variantType",                  Support::Refused("write to a table without VARIANT columns")),
    ("variantType-preview",          Support::Refused("write to a table without VARIANT columns")),
    ("variantShredding",             Support::Refused("write to a table without VARIANT columns")),
    ("variantShredding-preview",     Support::Refused("write to a table without VARIANT columns")),
    ("catalogManaged",               Support::Refused("its commits belong to a catalog; write to a table that the file system manages")),
    ("catalogOwned-preview",         Support::Refused("its commits belong to a catalog; write to a table that the file system manages")),
    ("coordinatedCommits-preview",   Support::Refused("its commits belong to a coordinator; write to a table that the file system manages")),
    ("redirectReaderWriter-preview", Support::Refused("name the table that it redirects to")),
    ("redirectWriterOnly-preview",   Support::Refused("name the table that it redirects to")),
    ("collations-preview",           Support::Refused("write to a table without collations")),
    ("geospatial",                   Support::Refused("write to a table without geometry columns")),
];

/// Where a column says that it is a CHAR or a VARCHAR.
const TEXT_TYPE: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// The newest writer version there is.
const NEWEST_WRITER: i32 = 7;

/// What a table says it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs<'a> {
    pub table: &'a str,
    pub min_writer_version: i32,
    /// The lists of reader and writer features, joined.
    pub features: &'a [String],
    pub properties: &'a BTreeMap<String, String>,
    pub schema: &'a TableSchema,
}

/// Refuses a table that needs what we do not do, naming the first such feature.
pub(crate) fn check(needs: &Needs<'_>) -> Result<(), DeltaError> {
    let refuse = |feature: &str, hint: &str| {
        Err(DeltaError::Refused { table: needs.table.to_owned(), feature: feature.to_owned(), hint: hint.to_owned() })
    };
    if needs.min_writer_version > NEWEST_WRITER {
        let feature = format!("writer version {}", needs.min_writer_version);
        return refuse(&feature, "a newer lakeward may know it");
    }
    for name in needs.features {
        match FEATURES.iter().find(|(known, _)| known == name) {
            None => return refuse(name, "we do not know it; a newer lakeward may"),
            Some((_, Support::Refused(hint))) => return refuse(name, hint),
            Some((_, Support::Honoured | Support::Ingest(_) | Support::Unused(..))) => {}
        }
    }
    // Listed or not: who uses it without listing it means it all the same.
    for (name, support) in FEATURES {
        if let Support::Unused(shows, hint) = support
            && let Some(place) = shows.seen(needs)
        {
            return refuse(&format!("{name} ({place})"), hint);
        }
    }
    if let Some(place) = nested_length(needs.schema) {
        return refuse(&format!("CHAR or VARCHAR inside of a column ({place})"), "make it STRING there");
    }
    Ok(())
}

/// The CHAR and VARCHAR columns.
pub(crate) fn lengths(schema: &TableSchema) -> Vec<TextLength> {
    let mut lengths = Vec::new();
    schema.for_each_metadata(&mut |path, metadata| {
        lengths.extend(metadata.get(TEXT_TYPE).and_then(|text| text_length(path, text.as_str()?)));
    });
    lengths
}

fn text_length(column: &str, text: &str) -> Option<TextLength> {
    let (kind, rest) = text.trim().split_once('(')?;
    let padded = match kind.trim().to_ascii_lowercase().as_str() {
        "char" => true,
        "varchar" => false,
        _ => return None,
    };
    let most = rest.strip_suffix(')')?.trim().parse().ok()?;
    Some(TextLength { column: column.to_owned(), most, padded })
}

/// A column of another type with text that has a length inside.
fn nested_length(schema: &TableSchema) -> Option<String> {
    let mut found = None;
    schema.for_each_metadata(&mut |path, metadata| {
        if let Some(text) = metadata.get(TEXT_TYPE) {
            let at_top = schema.arrow().field_with_name(path).is_ok_and(|field| *field.data_type() == DataType::Utf8);
            let plain = text.as_str().is_some_and(|text| text_length(path, text).is_some());
            if !at_top || !plain {
                found.get_or_insert(format!("column {path}: {text}"));
            }
        }
    });
    found
}

/// What of a layout only `lakeward ingest` sees to, for refusals.
pub(crate) fn of_ingest_alone(layout: &Layout, row_tracking: bool) -> Option<String> {
    let lengths = &layout.description().lengths;
    layout
        .rules()
        .first()
        .or_else(|| lengths.first().map(|length| format!("CHAR or VARCHAR column {}", length.column)))
        .or_else(|| row_tracking.then(|| "the feature rowTracking".to_owned()))
}

/// The refusal of the first feature of a list that is refused wherever it is listed.
pub(crate) fn refusal_by_name(table: &str, features: &[String]) -> Option<DeltaError> {
    let (name, hint) = FEATURES.iter().find_map(|(name, support)| match support {
        Support::Refused(hint) if features.iter().any(|listed| listed == name) => Some((name, hint)),
        _ => None,
    })?;
    Some(DeltaError::Refused { table: table.to_owned(), feature: (*name).to_owned(), hint: (*hint).to_owned() })
}

impl Use {
    /// Where use shows, if it does.
    fn seen(self, needs: &Needs<'_>) -> Option<String> {
        let property = |(key, value): (&String, &String)| format!("{key} = {value}");
        match self {
            Self::Property(name, off) => {
                needs.properties.get_key_value(name).filter(|(_, value)| !value.eq_ignore_ascii_case(off)).map(property)
            }
            Self::FieldMetadataPrefix(prefix) => field_with(needs.schema, &|key| key.starts_with(prefix)),
        }
    }
}

fn field_with(schema: &TableSchema, wanted: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut found = None;
    schema.for_each_metadata(&mut |path, metadata| {
        if found.is_none() && metadata.keys().any(|key| wanted(key)) {
            found = Some(format!("column {path}"));
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(features: &[&str], properties: &[(&str, &str)], metadata: &str) -> Result<(), String> {
        let schema = format!(
            r#"{{"type":"struct","fields":[{{"name":"s","type":{{"type":"struct","fields":[
                {{"name":"a","type":"long","nullable":true,"metadata":{metadata}}}]}},"nullable":true,"metadata":{{}}}}]}}"#
        );
        let needs = Needs {
            table: "t",
            min_writer_version: 7,
            features: &features.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(),
            properties: &properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            schema: &TableSchema::parse("t", &schema).unwrap(),
        };
        check(&needs).map_err(|error| error.to_string())
    }

    #[test] // K86, P49
    fn tables_that_need_more_are_refused_by_name() {
        type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str, &'a str);
        #[rustfmt::skip] // columns: features, properties, metadata of s.a, what the refusal names
        let cases: &[Case<'_>] = &[
            (&["variantType"], &[], "{}", "variantType"),
            (&["catalogManaged"], &[], "{}", "catalogManaged"),
            (&["somethingNew"], &[], "{}", "somethingNew"),
            (&[], &[], r#"{"delta.identity.start":1}"#, "identityColumns"),
            (&[], &[], r#"{"__CHAR_VARCHAR_TYPE_STRING":"varchar(3)"}"#, "column s.a: \"varchar(3)\""),
            (&[], &[("delta.enableIcebergCompatV2", "true")], "{}", "icebergCompatV2"),
        ];
        for (features, properties, metadata, expected) in cases {
            let message = verdict(features, properties, metadata).unwrap_err();
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }

    #[test]
    fn listed_but_unused_features_are_no_obstacle() {
        let honoured: Vec<_> = FEATURES
            .iter()
            .filter(|(_, support)| !matches!(support, Support::Refused(_)))
            .map(|(name, _)| *name)
            .collect();
        let properties = [
            ("delta.columnMapping.mode", "none"),
            ("delta.enableIcebergCompatV1", "FALSE"),
            ("delta.appendOnly", "true"),
            ("delta.enableChangeDataFeed", "true"),
            ("delta.enableDeletionVectors", "true"),
            ("é", "x"),
        ];
        verdict(&honoured, &properties, r#"{"comment":"x"}"#).unwrap();
    }

    #[test]
    fn the_documentation_says_the_same() {
        let document = include_str!("../../../docs/tables.md");
        for (name, support) in FEATURES {
            let row = match support {
                Support::Honoured => format!("| `{name}` | honoured |"),
                Support::Ingest(how) => format!("| `{name}` | honoured by `ingest`: {how}; refused for views |"),
                Support::Unused(_, hint) => format!("| `{name}` | refused where used: {hint} |"),
                Support::Refused(hint) => format!("| `{name}` | refused: {hint} |"),
            };
            assert!(document.lines().any(|line| line == row), "docs/tables.md lacks: {row}");
        }
    }
}
