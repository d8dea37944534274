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

/// Prints the answer.
///
/// # Errors
/// When a table can't be read, or the query fails.
pub fn run(args: &QueryArgs) -> Result<(), Failure> {
    let session = Session::start()?;
    let wrong = |error: lakeward_circuit::refused::Refused| Failure::new(Exit::Config, error);
    let mut batch = Batch::default();
    for (name, location) in tables(args)? {
        let opened = DeltaTable::open(&location, session.runtime.handle())?;
        batch.table(&name, Arc::new(opened)).map_err(wrong)?;
    }
    let (schema, batches) = session.runtime.block_on(batch.ask(&args.sql)).map_err(wrong)?;
    match args.output {
        Output::Table => print!("{}", as_table(&schema, &batches)),
        Output::Json => print!("{}", as_json(&schema, &batches)),
    }
    Ok(())
}

/// Names and locations.
fn tables(args: &QueryArgs) -> Result<Vec<(String, String)>, Failure> {
    let path = Path::new(&args.from);
    let mut tables = if path.is_file() {
        let loaded = pipeline::load(path)?;
        let delta = loaded.pipeline.sinks.iter().filter_map(|sink| match &sink.target {
            Target::Delta(delta) => Some((sink.name.text.clone(), delta.location.reveal().to_owned())),
            Target::Kafka(_) => None,
        });
        delta.collect()
    } else {
        let name = args.from.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        vec![(name.to_owned(), args.from.clone())]
    };
    tables.extend(args.table.iter().cloned());
    Ok(tables)
}

/// A Delta table as it is now, for a batch query.
///
/// # Errors
/// When it can't be read.
pub fn open(location: &str, runtime: &Handle) -> Result<Arc<dyn Readable>, Failure> {
    Ok(Arc::new(DeltaTable::open(location, runtime)?))
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
    fn open(location: &str, runtime: &Handle) -> Result<Self, Failure> {
        let scan = Scan::open(location, None, runtime).map_err(|error| Failure::port(&error))?;
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
