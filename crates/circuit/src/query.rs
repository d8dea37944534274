//! Batch SQL over tables that a caller can read: the same dialect and functions as views.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use datafusion::prelude::SessionContext;

use crate::logical;
use crate::refused::Refused;

/// Batches that wait for the query.
const WAITING: usize = 4;

/// Rows of a table, batch by batch, or why they can't be read.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send>;

/// A table that can be read, once or several times.
pub trait Readable: std::fmt::Debug + Send + Sync {
    /// Its columns.
    fn schema(&self) -> SchemaRef;

    /// Its rows, with the columns of these names in this order. Called and drained on a thread that may block.
    ///
    /// # Errors
    /// Why it can't be read, for people.
    fn rows(&self, columns: &[&str]) -> Result<Batches, String>;
}

/// Tables by name, and questions about them.
pub struct Batch {
    context: SessionContext,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self { context: SessionContext::new_with_state(logical::state()) }
    }
}

impl Batch {
    /// Makes a table known.
    ///
    /// # Errors
    /// When there is one of this name.
    pub fn table(&mut self, name: &str, table: Arc<dyn Readable>) -> Result<(), Refused> {
        let known = self.context.register_table(name, Arc::new(Provider(table)));
        match known.map_err(logical::refused)? {
            None => Ok(()),
            Some(_) => Err(Refused::new(format!("there are two tables of the name {name}"))),
        }
    }

    /// The answer to a query: its columns and its rows.
    ///
    /// # Errors
    /// When it is no query, or fails.
    pub async fn ask(&self, query: &str) -> Result<(SchemaRef, Vec<RecordBatch>), Refused> {
        let options = datafusion::execution::context::SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        let answer = self.context.sql_with_options(query, options).await;
        let answer = answer.map_err(|error| logical::unknown(&self.context.state(), error))?;
        let schema: Schema = answer.schema().as_arrow().clone();
        let batches = answer.collect().await.map_err(logical::refused)?;
        Ok((Arc::new(schema), batches))
    }
}

/// A readable table as DataFusion takes it.
#[derive(Debug)]
struct Provider(Arc<dyn Readable>);

#[async_trait::async_trait]
impl TableProvider for Provider {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let schema = self.0.schema();
        let schema = projection.map_or(Ok(Arc::clone(&schema)), |places| schema.project(places).map(Arc::new))?;
        let rows = Rows { table: Arc::clone(&self.0), schema: Arc::clone(&schema) };
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(rows)], None, None, false, limit)?))
    }
}

/// Some columns of a table.
#[derive(Debug)]
struct Rows {
    table: Arc<dyn Readable>,
    schema: SchemaRef,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), WAITING);
        let (out, table, schema) = (stream.tx(), Arc::clone(&self.table), Arc::clone(&self.schema));
        stream.spawn_blocking(move || {
            let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            for batch in table.rows(&columns).map_err(DataFusionError::Execution)? {
                let batch = batch.map_err(DataFusionError::Execution)?;
                let batch = RecordBatch::try_new_with_options(
                    Arc::clone(&schema),
                    batch.columns().to_vec(),
                    &arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
                )?;
                if out.blocking_send(Ok(batch)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        stream.build()
    }
}

#[cfg(test)]
mod tests {
    use super::Batch;

    #[test]
    fn an_unknown_table_is_named_as_it_was_written() {
        let asked = futures::executor::block_on(Batch::default().ask("SELECT 1 FROM bids"));
        assert_eq!(asked.expect_err("no such table").to_string(), "there is no table or view bids");
    }
}
