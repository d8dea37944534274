//! What goes wrong on the data side.

use arrow_schema::ArrowError;
use lakeward_protocol::ports::{Exit, Fault, Verdict};
use parquet::errors::ParquetError;

use crate::error::DeltaError;

/// Why rows did not become a data file. After any of them but [`EncodeError::Upload`] the writer
/// holds an unknown part of what it took in: `discard` it and start again from the sink's frontier.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// A partition value that Delta's log has no text for.
    #[error(
        "a row can't be filed by partition column {column:?}: {reason}; mend or leave out such records (value: {value})"
    )]
    PartitionValue {
        /// The partition column.
        column: String,
        /// The value as far as it can be shown.
        value: String,
        /// Why it does not go.
        reason: &'static str,
    },
    /// NULL where the table's schema says NOT NULL.
    #[error("a row has NULL in column {column:?}, which table {table} declares NOT NULL")]
    Null {
        /// The table's address.
        table: String,
        /// The column.
        column: String,
    },
    /// The batch is not of the layout's schema: a fault of ours.
    #[error("a batch for table {table} does not have the table's columns: {what}; please report this")]
    Mismatch {
        /// The table's address.
        table: String,
        /// What differs.
        what: String,
    },
    /// The table demands more of rows than whoever writes them sees to.
    #[error(
        "table {table} has a {rule}, which is only kept by lakeward ingest; drop it with ALTER TABLE, or write to a \
         table without"
    )]
    Rule {
        /// The table's address.
        table: String,
        /// The rule and its expression.
        rule: String,
    },
    /// An option that makes no sense.
    #[error("{what}")]
    Option {
        /// What is wrong with which option, and what goes.
        what: String,
    },
    /// Rows could not be gathered.
    #[error("rows for table {table} can't be gathered: {source}")]
    Arrow {
        /// The table's address.
        table: String,
        /// Arrow's reason.
        source: ArrowError,
    },
    /// Rows could not be encoded.
    #[error("rows for table {table} can't be encoded as Parquet: {source}")]
    Parquet {
        /// The table's address.
        table: String,
        /// The encoder's reason.
        source: ParquetError,
    },
    /// The store did not take a file. Nothing is lost by it: deliver again, or discard.
    #[error(transparent)]
    Upload(#[from] DeltaError),
    /// An upload's task ended without a result: the runtime is going down.
    #[error("the upload of a data file of table {table} was cut off: {reason}")]
    CutOff {
        /// The table's address.
        table: String,
        /// How.
        reason: String,
    },
}

impl Fault for EncodeError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::PartitionValue { .. } | Self::Null { .. } => Verdict::Stop(Exit::Data),
            Self::Option { .. } | Self::Rule { .. } => Verdict::Stop(Exit::Config),
            Self::Mismatch { .. } | Self::Arrow { .. } | Self::Parquet { .. } | Self::CutOff { .. } => {
                Verdict::Stop(Exit::Software)
            }
            Self::Upload(error) => error.verdict(),
        }
    }
}
