//! The table of dead letters beside `ingest`'s own: opened, checked, and made with `--create`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};
use lakeward_delta::{Created, DeltaError, NewTable, Table, TableSchema, create};
use lakeward_kafka::Source;
use lakeward_protocol::ports::{Exit, Fault, OutputLog, Verdict};

use crate::failure::Failure;
use crate::plan::Plan;
use crate::session::Session;

/// A table and, if there is one, that of its dead letters; each knows the other. `None`: told to stop.
///
/// # Errors
/// No such table, or one whose columns dead letters can't have.
pub fn open(
    plan: &Plan,
    session: &Session,
    source: &Source,
    table: Table,
) -> Result<Option<(Table, Option<Table>)>, Failure> {
    let Some(location) = plan.args.dead_letters.table() else { return Ok(Some((table, None))) };
    let Some(topic) = session.wait_for(|| source.topic_identity())? else { return Ok(None) };
    if plan.args.create && ensure(plan, location, session)?.is_none() {
        return Ok(None);
    }
    let options = || plan.table_options(session, Some(topic.clone()));
    let Some(letters) = session.wait_for(|| Table::open(location, options()).map_err(Absent::of))? else {
        return Ok(None);
    };
    fit(&letters, Some(&table), location)?;
    tracing::info!("dead letters into table {}", letters.name());
    let (rows, dead) = (table.companion(), letters.companion());
    Ok(Some((table.with_dead_letters(dead), Some(letters.as_dead_letters_of(rows)))))
}

/// Whether a table can be that of another one's dead letters.
///
/// # Errors
/// It is the table itself, or has columns that dead letters can't have.
pub fn fit(letters: &Table, table: Option<&Table>, location: &str) -> Result<(), Failure> {
    if table.is_some_and(|table| letters.id() == table.id()) {
        let same = format!("--dlq_table_location {location} is the table itself; name another one for dead letters");
        return Err(Failure::new(Exit::Config, same));
    }
    check(letters.name(), letters.layout().schema())
}

/// A table of dead letters that is not there is told by its own option.
#[derive(Debug, thiserror::Error)]
#[error("--dlq_table_location: {0}")]
pub struct Absent(#[source] DeltaError);

impl Absent {
    /// The error of opening it.
    #[must_use]
    pub fn of(error: DeltaError) -> Self {
        Self(error)
    }
}

impl Fault for Absent {
    fn verdict(&self) -> Verdict {
        self.0.verdict()
    }
}

/// Makes the table unless there is one, with all columns that letters have.
fn ensure(plan: &Plan, location: &str, session: &Session) -> Result<Option<()>, Failure> {
    match Table::open(location, plan.table_options(session, None)) {
        Err(DeltaError::Missing { .. }) => {}
        // Whatever else is wrong is told when it is opened.
        _ => return Ok(Some(())),
    }
    let schema = schema(plan)?;
    let table = NewTable { schema, partition_columns: Vec::new(), properties: BTreeMap::new() };
    let created = session.wait_for(|| create(location, &table, session.runtime.handle()))?;
    if let Some(Created::New) = created {
        tracing::info!("made dead-letter table {location} with schema {}", table.schema.to_json());
    }
    Ok(created.map(|_| ()))
}

/// The schema of the table that `--create` makes.
///
/// # Errors
/// Transforms whose columns no table can have.
pub fn schema(plan: &Plan) -> Result<TableSchema, Failure> {
    TableSchema::from_arrow(&with_transforms(plan)).map_err(|error| Failure::port(&error))
}

/// All columns that letters fill, and one of text for each transform that has none.
fn with_transforms(plan: &Plan) -> Schema {
    let own = columns();
    let made = plan.letter_transforms().columns();
    let missing = made.filter(|(name, _)| !name.contains('.') && own.column_with_name(name).is_none());
    let added: Vec<FieldRef> = missing.map(|(name, kind)| Arc::new(Field::new(name, kind, true))).collect();
    Schema::new(own.fields().iter().cloned().chain(added).collect::<Vec<_>>())
}

/// The columns of a table of dead letters; the first four are the peer's.
#[must_use]
pub fn columns() -> Schema {
    let timestamp = || DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    #[rustfmt::skip] // columns: name, type
    let columns = [
        ("base64_bytes",    DataType::Utf8),
        ("json_string",     DataType::Utf8),
        ("error",           DataType::Utf8),
        ("timestamp",       timestamp()),
        ("error_kind",      DataType::Utf8),
        ("topic",           DataType::Utf8),
        ("partition",       DataType::Int32),
        ("offset",          DataType::Int64),
        ("kafka_timestamp", timestamp()),
        ("key",             DataType::Binary),
        ("headers",         headers()),
        ("app_id",          DataType::Utf8),
    ];
    Schema::new(columns.map(|(name, kind)| Field::new(name, kind, true)).to_vec())
}

/// Kafka's headers: names may repeat, and their order counts.
fn headers() -> DataType {
    let fields = [Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)];
    DataType::List(Arc::new(Field::new("element", DataType::Struct(fields.to_vec().into()), true)))
}

/// Where a column has a letter's name it must be able to hold what the letter has.
fn check(table: &str, schema: &Schema) -> Result<(), Failure> {
    let fits = |wanted: &DataType, is: &DataType| match (wanted, is) {
        (DataType::Int32, DataType::Int64) => true,
        _ => is.equals_datatype(wanted),
    };
    let mut carries_value = false;
    for wanted in columns().fields() {
        let Ok(is) = schema.field_with_name(wanted.name()) else { continue };
        if !fits(wanted.data_type(), is.data_type()) {
            let text = format!(
                "dead-letter table {table}: its column {} is {}, and letters have {} there; rename the column, or let \
                 --create make a table at another --dlq_table_location",
                wanted.name(),
                is.data_type(),
                wanted.data_type()
            );
            return Err(Failure::new(Exit::Config, text));
        }
        carries_value |= wanted.name() == "base64_bytes";
    }
    if carries_value {
        return Ok(());
    }
    let text = format!(
        "dead-letter table {table} has no column base64_bytes (STRING), so a message's bytes would be lost; add it, or let \
         --create make a table at another --dlq_table_location"
    );
    Err(Failure::new(Exit::Config, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_whose_columns_letters_can_not_have_is_refused() {
        let with = |columns: &[(&str, DataType)]| {
            let fields = columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true));
            check("t", &Schema::new(fields.collect::<Vec<_>>())).map_err(|failure| failure.text)
        };
        assert_eq!(check("t", &columns()).map_err(|failure| failure.text), Ok(()));
        let value = ("base64_bytes", DataType::Utf8);
        #[rustfmt::skip] // columns: the table's column beside the value, a word of the refusal
        let cases = [
            (("partition", DataType::Int64),     None),
            (("reason", DataType::Binary),       None),
            (("key", DataType::Utf8),            Some("column key is Utf8")),
            (("timestamp", DataType::Int64),     Some("column timestamp is Int64")),
            (("offset", DataType::Int32),        Some("column offset is Int32")),
        ];
        for (column, refused) in cases {
            let checked = with(&[value.clone(), column.clone()]);
            match refused {
                None => assert_eq!(checked, Ok(()), "{column:?}"),
                Some(word) => assert!(checked.as_ref().is_err_and(|text| text.contains(word)), "{checked:?}"),
            }
        }
        assert!(with(&[("error", DataType::Utf8)]).is_err_and(|text| text.contains("no column base64_bytes")));
    }
}
