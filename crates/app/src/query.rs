//! `lakeward query`: batch SQL over a pipeline's tables, or over any Delta table.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lakeward_circuit::pipeline::Target;
use lakeward_circuit::query::{Batch, Batches, Readable};
use lakeward_delta::scan::Scan;
use lakeward_protocol::ports::Exit;
use lakeward_protocol::position::TableVersion;
use tokio::runtime::Handle;

use crate::cli::Output;
use crate::cli::pipeline::QueryArgs;
use crate::failure::Failure;
use crate::pipeline;
use crate::report::{cells, table};
use crate::session::Session;
use crate::verify::common;

/// Prints the answer.
///
/// # Errors
/// When a table can't be read, or the query fails.
pub fn run(args: &QueryArgs) -> Result<(), Failure> {
    let session = Session::start()?;
    let wrong = |error: lakeward_circuit::refused::Refused| Failure::new(Exit::Config, error);
    let mut batch = Batch::default();
    for (name, schema) in topics(args)? {
        batch.table(&name, Arc::new(Topic { name: name.clone(), schema })).map_err(wrong)?;
    }
    for (name, location, version) in tables(args, &session)? {
        let opened = DeltaTable::open(&location, version, session.runtime.handle())?;
        batch.table(&name, Arc::new(opened)).map_err(wrong)?;
    }
    let (schema, batches) = session.runtime.block_on(batch.ask(&args.sql)).map_err(wrong)?;
    match args.output {
        Output::Table => print!("{}", as_table(&schema, &batches)),
        Output::Json => print!("{}", as_json(&schema, &batches)),
    }
    Ok(())
}

/// A pipeline's sinks that are topics: known by name, so that a question about them is answered with why it is not.
fn topics(args: &QueryArgs) -> Result<Vec<(String, SchemaRef)>, Failure> {
    let path = Path::new(&args.from);
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let loaded = pipeline::load(path)?;
    let sinks = loaded.pipeline.sinks.iter().zip(&loaded.compiled.plan.views);
    let topics = sinks.filter(|(sink, _)| matches!(sink.target, Target::Kafka(_)));
    Ok(topics.map(|(sink, view)| (sink.name.text.clone(), view.schema.clone())).collect())
}

/// A sink that can't be asked.
#[derive(Debug)]
struct Topic {
    name: String,
    schema: SchemaRef,
}

impl Readable for Topic {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows(&self, _: &[&str]) -> Result<Batches, String> {
        Err(format!(
            "sink {} writes a topic, and queries read Delta tables: ask a table of the same view (CREATE SINK .. WITH \
             (delta = ..)), or read the topic with a consumer",
            self.name
        ))
    }
}

/// A table's name, its location, and which version is read; `None` for the newest.
type Named = (String, String, Option<TableVersion>);

fn tables(args: &QueryArgs, session: &Session) -> Result<Vec<Named>, Failure> {
    let path = Path::new(&args.from);
    let mut tables = if path.is_file() {
        at_one_moment(path, session)?
    } else {
        let name = args.from.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        vec![(name.to_owned(), args.from.clone(), None)]
    };
    tables.extend(args.table.iter().map(|(name, location)| (name.clone(), location.clone(), None)));
    Ok(tables)
}

/// A pipeline's tables, each at the version that shows what the others show. Says on standard error
/// which moment that is.
fn at_one_moment(path: &Path, session: &Session) -> Result<Vec<Named>, Failure> {
    let loaded = pipeline::load(path)?;
    let prefix = format!("{}-", pipeline::app_id(path, &loaded));
    let (names, locations): (Vec<String>, Vec<String>) = pipeline::delta_sinks(&loaded).into_iter().unzip();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let common = common::of_tables(&loaded.way, &locations, &prefix, session)?;
    eprint!("{}", common::described(&loaded.way, common.as_ref(), names.iter().map(String::as_str), &prefix));
    let version = |at: usize| common.as_ref().map(|common| TableVersion(common.versions[at]));
    let named = names.into_iter().zip(locations).enumerate();
    Ok(named.map(|(at, (name, location))| (name, location, version(at))).collect())
}

/// A Delta table as it is now, for a batch query.
///
/// # Errors
/// When it can't be read.
pub fn open(location: &str, runtime: &Handle) -> Result<Arc<dyn Readable>, Failure> {
    Ok(Arc::new(DeltaTable::open(location, None, runtime)?))
}

/// One version of a Delta table.
#[derive(Debug)]
struct DeltaTable {
    location: String,
    version: TableVersion,
    schema: SchemaRef,
    runtime: Handle,
}

impl DeltaTable {
    fn open(location: &str, version: Option<TableVersion>, runtime: &Handle) -> Result<Self, Failure> {
        let scan = match version {
            Some(version) => Scan::open_at(location, version, None, runtime),
            None => Scan::open(location, None, runtime),
        };
        let scan = scan.map_err(|error| Failure::port(&error))?;
        Ok(Self {
            location: location.to_owned(),
            version: scan.version(),
            schema: scan.schema(),
            runtime: runtime.clone(),
        })
    }
}

impl Readable for DeltaTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows(&self, columns: &[&str]) -> Result<Batches, String> {
        // The table's reader takes no scan without a column: COUNT(*) counts the rows of the first.
        let first = [self.schema.field(0).name().as_str()];
        let read = if columns.is_empty() { &first[..] } else { columns };
        let wanted = columns.len();
        let scan = Scan::open_at(&self.location, self.version, Some(read), &self.runtime)
            .map_err(|error| error.to_string())?;
        let columns: Vec<usize> = (0..wanted).collect();
        Ok(Box::new(scan.map(move |batch| {
            let batch = batch.map_err(|error| error.to_string())?;
            batch.project(&columns).map_err(|error| error.to_string())
        })))
    }
}

fn as_table(schema: &SchemaRef, batches: &[RecordBatch]) -> String {
    let head: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    if head.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = batches.iter().flat_map(|batch| cells(batch, "NULL")).collect();
    table(&head, &rows)
}

/// An object a row, a row a line. Numbers that JSON holds exactly are numbers, everything else is text.
fn as_json(schema: &SchemaRef, batches: &[RecordBatch]) -> String {
    let mut text = String::new();
    for batch in batches {
        for (row, cells) in cells(batch, "").into_iter().enumerate() {
            let values = cells.into_iter().enumerate().map(|(at, cell)| {
                let column = batch.column(at);
                let kind = column.data_type();
                let value = if arrow_array::Array::is_null(column, row) {
                    serde_json::Value::Null
                } else if kind.is_integer() || kind.is_floating() || *kind == arrow_schema::DataType::Boolean {
                    serde_json::from_str(&cell).unwrap_or(serde_json::Value::String(cell))
                } else {
                    serde_json::Value::String(cell)
                };
                (schema.field(at).name().clone(), value)
            });
            text.push_str(&serde_json::Value::Object(values.collect()).to_string());
            text.push('\n');
        }
    }
    text
}
