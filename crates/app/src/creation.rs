//! `--create`: makes the table from `--schema`, or from the topic's first messages; leaves one that is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{Field, FieldRef, Schema};
use lakeward_decode::avro::{self, AvroSchema};
use lakeward_decode::protobuf::ProtobufSchema;
use lakeward_decode::{InferError, Language, Unavailable, WrittenSchema, json_schema};
use lakeward_delta::view::{self, Mode};
use lakeward_delta::{Created, NewTable, Table, TableSchema, create};
use lakeward_kafka::Source;
use lakeward_protocol::ports::{Exit, Fault, Input, InputLog, OutputLog, Verdict};
use lakeward_protocol::position::Frontier;

use crate::failure::Failure;
use crate::plan::Plan;
use crate::session::Session;

/// Messages that a schema is inferred from, at most.
const SAMPLES: usize = 1000;
/// Once there is a first message: how long others are waited for.
const SETTLE_POLLS: usize = 20;
const POLL: Duration = Duration::from_millis(100);

/// Makes the table unless there is one. Racing creators end with one table. `None`: told to stop.
///
/// # Errors
/// A schema that no table can have, or a store that refuses.
pub fn ensure(plan: &Plan, session: &Session) -> Result<Option<()>, Failure> {
    match Table::open(&plan.args.table, plan.table_options(session, None)) {
        Ok(_) => return Ok(Some(())),
        Err(lakeward_delta::DeltaError::Missing { .. }) => {}
        Err(error) if error.verdict() == Verdict::Retry => tracing::warn!("{error}; trying again"),
        Err(error) => return Err(Failure::port(&error)),
    }
    let schema = match &plan.schema {
        Some(schema) => schema.clone(),
        None => match inferred(plan, session, true)? {
            Some(schema) => schema,
            None => return Ok(None),
        },
    };
    let table = new_table(plan, schema)?;
    let created = session.wait_for(|| create(&plan.args.table, &table, session.runtime.handle()))?;
    match created {
        Some(Created::New) => tracing::info!("made table {} with schema {}", plan.args.table, table.schema.to_json()),
        Some(Created::Existed) => tracing::info!("table {} was made by somebody else meanwhile", plan.args.table),
        None => return Ok(None),
    }
    Ok(Some(()))
}

/// The table to make, fit for its mode.
///
/// # Errors
/// A key that it would not have.
pub fn new_table(plan: &Plan, schema: TableSchema) -> Result<NewTable, Failure> {
    if let Some(missing) = plan.args.mode.key.iter().find(|name| schema.arrow().field_with_name(name).is_err()) {
        let text = format!(
            "--key {missing}: the table to make would have no such column; name one that messages have, or give --schema"
        );
        return Err(Failure::new(Exit::Config, text));
    }
    let mode = if plan.args.mode.is_upsert() { Mode::Upsert } else { Mode::Append };
    view::new_table(mode, &schema, plan.args.partition_by.clone()).map_err(|error| Failure::port(&error))
}

/// The schema of the table that would be made now. `None`: no message is there to infer one from.
///
/// # Errors
/// A schema that no table can have.
pub fn schema(plan: &Plan, session: &Session) -> Result<Option<TableSchema>, Failure> {
    match &plan.schema {
        Some(schema) => Ok(Some(schema.clone())),
        None => inferred(plan, session, false),
    }
}

/// How the table differs from what the options ask for.
pub fn difference(plan: &Plan, table: &Table) -> Option<String> {
    table.difference(&asked(plan, table)?)
}

/// Warns where the table is another than the options ask for. It stays as it is: they are for new tables.
pub fn compare(plan: &Plan, table: &Table) {
    if let Some(difference) = difference(plan, table) {
        tracing::warn!(
            "table {} was there already and stays as it is, but {difference}: --schema and --partition-by only shape \
             new tables; give them as the table is, or name another table",
            table.name()
        );
    }
}

/// What the options say of the table, as it is itself where they say nothing. `None` where they don't at all.
fn asked(plan: &Plan, table: &Table) -> Option<NewTable> {
    let schema = match &plan.schema {
        Some(schema) => schema.clone(),
        None if plan.args.partition_by.is_empty() => return None,
        None => TableSchema::from_arrow(table.layout().schema()).ok()?,
    };
    Some(NewTable { schema, partition_columns: plan.args.partition_by.clone(), properties: BTreeMap::new() })
}

/// The schema that messages have, or will have, and columns for the transforms that have none.
///
/// Waits for a first message, or else says `None` where there is none.
fn inferred(plan: &Plan, session: &Session, waits: bool) -> Result<Option<TableSchema>, Failure> {
    let Some(registered) = registered(plan, session, waits)? else { return Ok(None) };
    let schema = match registered {
        Some(schema) => schema,
        None => match of_messages(plan, session, waits)? {
            Some(schema) => schema,
            None => return Ok(None),
        },
    };
    let missing =
        plan.transforms.columns().filter(|(name, _)| !name.contains('.') && schema.column_with_name(name).is_none());
    let added: Vec<FieldRef> = missing.map(|(name, data_type)| Arc::new(Field::new(name, data_type, true))).collect();
    let schema = Schema::new(schema.fields().iter().cloned().chain(added).collect::<Vec<_>>());
    TableSchema::from_arrow(&schema).map(Some).map_err(|error| Failure::port(&error))
}

/// What messages have by a schema that is known before any of them, and where that is: in the registry, a file, or the
/// format itself. `None`: only messages say it.
///
/// # Errors
/// A registry that does not answer now, or a schema that no table can have.
pub fn known(plan: &Plan, session: &Session) -> Result<Option<(String, Schema)>, Failure> {
    if let Some(Some(schema)) = registered(plan, session, false)? {
        return Ok(Some((format!("newest of subject {}", subject(plan)), schema)));
    }
    if plan.registry.is_some() || !plan.format.is_known() {
        return Ok(None);
    }
    let schema = asked_for(session, false, || plan.format.infer([]).map_err(Uninferred))?;
    Ok(schema.map(|schema| (plan.args.format.place_of_schema(), schema)))
}

/// Under which name the registry has the schemas of the topic's values.
fn subject(plan: &Plan) -> String {
    format!("{}-value", plan.args.topic)
}

/// Asks until there is an answer, or once.
fn asked_for<T, E: Fault>(
    session: &Session,
    waits: bool,
    ask: impl Fn() -> Result<T, E>,
) -> Result<Option<T>, Failure> {
    if waits { session.wait_for(ask) } else { ask().map(Some).map_err(|error| Failure::port(&error)) }
}

/// The schema of the newest one that the registry has for the topic's values; `Some(None)` where it has none.
fn registered(plan: &Plan, session: &Session, waits: bool) -> Result<Option<Option<Schema>>, Failure> {
    let Some(registry) = &plan.registry else { return Ok(Some(None)) };
    let subject = subject(plan);
    let Some(found) = asked_for(session, waits, || registry.latest(&subject))? else { return Ok(None) };
    let Some(written) = found else {
        tracing::info!("the schema registry has no subject {subject}");
        return Ok(Some(None));
    };
    let schema = columns(&written).map_err(|what| {
        Failure::new(Exit::Config, format_args!("the newest schema of subject {subject} gives no table: {what}"))
    })?;
    tracing::info!("columns are those of the newest schema of subject {subject}");
    Ok(Some(Some(schema)))
}

/// The columns that a schema asks for.
fn columns(written: &WrittenSchema) -> Result<Schema, String> {
    fn told(error: impl std::fmt::Display) -> String {
        error.to_string()
    }
    match written.language {
        Language::Avro => {
            let schema = AvroSchema::parse(&written.text, &written.references).map_err(told)?;
            avro::infer(&[schema]).map_err(told)
        }
        Language::Json => json_schema::table_schema(&written.text, &written.references).map_err(told),
        Language::Protobuf => {
            let imports =
                written.references.iter().map(|referred| (referred.name.clone(), referred.text.clone())).collect();
            let schema = ProtobufSchema::compile(&written.text, &imports).map_err(told)?;
            let message = schema.message(&[0]).ok_or("it has no message")?;
            Ok(message.table_schema())
        }
    }
}

/// The schema of the topic's first messages.
fn of_messages(plan: &Plan, session: &Session, waits: bool) -> Result<Option<Schema>, Failure> {
    let samples = if plan.format.is_known() {
        Vec::new()
    } else {
        if waits {
            tracing::info!("no --schema: waiting for messages of topic {} to infer one", plan.args.topic);
        }
        let Some(samples) = samples(plan, session, waits)?.filter(|samples| !samples.is_empty()) else {
            return Ok(None);
        };
        samples
    };
    asked_for(session, waits, || plan.format.infer(samples.iter().map(Vec::as_slice)).map_err(Uninferred))
}

/// Why there are no columns.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Uninferred(InferError);

impl Fault for Uninferred {
    fn verdict(&self) -> Verdict {
        match &self.0 {
            InferError::Unavailable(Unavailable::OutOfReach { .. }) => Verdict::Retry,
            InferError::Unavailable(Unavailable::NotAllowed { .. }) => Verdict::Stop(Exit::Unavailable),
            _ => Verdict::Stop(Exit::Data),
        }
    }
}

/// The values of the first messages there are, from every partition; `waits` for a first one.
fn samples(plan: &Plan, session: &Session, waits: bool) -> Result<Option<Vec<Vec<u8>>>, Failure> {
    let failed = |error: lakeward_kafka::KafkaError| Failure::port(&error);
    let asking = Source::assign(plan.source.clone(), std::collections::BTreeSet::new()).map_err(failed)?;
    let Some(partitions) = session.wait_for(|| asking.partitions())? else { return Ok(None) };
    let mut source = Source::assign(plan.source.clone(), partitions.clone()).map_err(failed)?;
    let mut oldest = Frontier::new();
    for partition in partitions {
        oldest.insert(partition, source.bounds(partition).map_err(failed)?.oldest);
    }
    source.start(&oldest).map_err(failed)?;
    let (mut samples, mut quiet) = (Vec::new(), 0);
    while samples.len() < SAMPLES && ((waits && samples.is_empty()) || quiet < SETTLE_POLLS) {
        if session.signals.raised() {
            return Ok(None);
        }
        match source.poll(SAMPLES - samples.len(), POLL).map_err(failed)? {
            Some(Input::Records(records)) => {
                samples.extend(records.entries().iter().filter_map(|entry| records.value(entry)).map(<[u8]>::to_vec));
            }
            _ => quiet += usize::from(!waits || !samples.is_empty()),
        }
    }
    Ok(Some(samples))
}
