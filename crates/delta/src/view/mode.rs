//! How a view becomes a table, and which tables are fit for that.

use std::collections::BTreeMap;

use arrow_schema::{DataType, Field, Schema};

use super::sink::ViewOptions;
use crate::create::NewTable;
use crate::error::DeltaError;
use crate::features;
use crate::kernel::Configuration;
use crate::retention;
use crate::schema::TableSchema;

/// What a view's table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every row that ever came. For views whose rows never go.
    Append,
    /// The view as it is.
    Upsert,
    /// Every row that came or went, with what became of it and in which step.
    Changelog,
}

impl Mode {
    /// As notes and pipeline files write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Upsert => "upsert",
            Self::Changelog => "changelog",
        }
    }
}

/// A changelog's column that says `insert` or `delete`.
pub const CHANGE_COLUMN: &str = "_op";

/// A changelog's column with the number of the step.
pub const STEP_COLUMN: &str = "_step";

/// The property that lets writers mark rows dead instead of rewriting files.
const VECTORS_PROPERTY: &str = "delta.enableDeletionVectors";

/// The table that a view of these columns becomes.
///
/// # Errors
/// A changelog of a view that has a column of ours.
pub fn new_table(mode: Mode, view: &TableSchema, partition_columns: Vec<String>) -> Result<NewTable, DeltaError> {
    let mut properties = BTreeMap::new();
    let schema = match mode {
        Mode::Append => view.clone(),
        Mode::Upsert => {
            properties.insert(VECTORS_PROPERTY.to_owned(), "true".to_owned());
            view.clone()
        }
        Mode::Changelog => changelog(view)?,
    };
    Ok(NewTable { schema, partition_columns, properties })
}

fn changelog(view: &TableSchema) -> Result<TableSchema, DeltaError> {
    let columns = view.arrow().fields();
    let ours = [Field::new(CHANGE_COLUMN, DataType::Utf8, false), Field::new(STEP_COLUMN, DataType::Int64, false)];
    let taken = ours.iter().find(|our| columns.iter().any(|column| column.name().eq_ignore_ascii_case(our.name())));
    if let Some(name) = taken.map(Field::name) {
        return Err(DeltaError::Schema {
            place: format!("column {name}"),
            reason: "a changelog has a column of this name beside the view's; give the view's another with AS".into(),
        });
    }
    let fields = columns.iter().map(|field| field.as_ref().clone()).chain(ours);
    TableSchema::from_arrow(&Schema::new(fields.collect::<Vec<_>>()))
}

/// Is the table one that this mode can write to?
pub(crate) fn check(options: &ViewOptions, table: &str, configuration: &Configuration) -> Result<(), DeltaError> {
    let refused = |feature: String, hint: &str| {
        Err(DeltaError::Refused { table: table.to_owned(), feature, hint: hint.to_owned() })
    };
    let (mode, tracks_rows) = (options.mode, configuration.row_ids.is_some());
    if options.writer.keeps_rules && tracks_rows {
        return refused(
            "the feature rowTracking".to_owned(),
            "mode upsert would give rows that stay other ids; drop it with ALTER TABLE, or take mode append",
        );
    }
    if !options.writer.keeps_rules
        && let Some(what) = features::of_ingest_alone(&configuration.layout, tracks_rows)
    {
        let hint = "only lakeward ingest keeps it; drop it with ALTER TABLE, or write the view to a table of its own";
        return refused(what, hint);
    }
    if !options.writer.keeps_rules
        && let Some(text) = configuration.properties.get(retention::PROPERTY)
    {
        let hint = "the stored offsets of a view would vanish; unset it with ALTER TABLE ... UNSET TBLPROPERTIES, or \
                    write the view to a table of its own";
        return refused(format!("{} ({text})", retention::PROPERTY), hint);
    }
    let is = |property: &str| {
        configuration.properties.get(property).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    };
    match mode {
        Mode::Append => Ok(()),
        Mode::Upsert if is("delta.appendOnly") => Err(DeltaError::Refused {
            table: table.to_owned(),
            feature: "delta.appendOnly".to_owned(),
            hint: "rows in mode upsert come and go; take another mode, or unset the property with ALTER TABLE ... \
                   UNSET TBLPROPERTIES ('delta.appendOnly')"
                .to_owned(),
        }),
        Mode::Upsert if is(VECTORS_PROPERTY) && configuration.features.iter().any(|name| name == "deletionVectors") => {
            Ok(())
        }
        Mode::Upsert => Err(DeltaError::Schema {
            place: format!("table {table}"),
            reason: format!(
                "mode upsert marks rows dead, and this table does not allow it; run ALTER TABLE delta.`{table}` SET \
                 TBLPROPERTIES ('{VECTORS_PROPERTY}' = 'true'), or let lakeward make a new table"
            ),
        }),
        Mode::Changelog => {
            let wanted = [(CHANGE_COLUMN, DataType::Utf8), (STEP_COLUMN, DataType::Int64)];
            let fields = configuration.layout.schema().fields();
            let last = fields.iter().skip(fields.len().saturating_sub(wanted.len()));
            let fits = last
                .map(|field| (field.name().as_str(), field.data_type()))
                .eq(wanted.iter().map(|(name, kind)| (*name, kind)));
            if fits {
                return Ok(());
            }
            Err(DeltaError::Schema {
                place: format!("table {table}"),
                reason: format!(
                    "a changelog's last columns are {CHANGE_COLUMN} (string) and {STEP_COLUMN} (long), and this \
                     table's are others; let the pipeline create a table of its own"
                ),
            })
        }
    }
}
