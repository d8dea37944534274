//! What goes wrong with a table, and whether waiting heals it.

use std::error::Error as _;

use delta_kernel::KernelError;
use lakeward_protocol::ports::{Exit, Fault, Verdict};

/// Any error with nothing more to ask of it.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What went wrong with a Delta table. The text says what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum DeltaError {
    /// An address makes no sense.
    #[error("{location:?} is no place to write to: {reason}")]
    Location {
        /// As the user gave it.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing that is a Delta table.
    #[error("no Delta table at {table}; create it first, or pass --create")]
    Missing {
        /// Where we looked.
        table: String,
    },
    /// The table asks for something that we do not do.
    #[error("table {table} uses {feature}, which lakeward does not honour: {hint}")]
    Refused {
        /// The table.
        table: String,
        /// The feature's name in Delta's protocol, or the property's.
        feature: String,
        /// What to do about it.
        hint: String,
    },
    /// A schema that is none, or that no table can have.
    #[error("{place}: {reason}")]
    Schema {
        /// File and line, or the column.
        place: String,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// What is stored in the table is not this pipeline's.
    #[error("table {table} is not of this pipeline: {reason}")]
    Stranger {
        /// The table.
        table: String,
        /// Which app ids, and what to do.
        reason: String,
    },
    /// The store knows us not, or does not let us.
    #[error("{doing}: permission denied; check credentials and access rights: {source}")]
    Denied {
        /// Verb and object.
        doing: String,
        /// The store's words.
        source: Cause,
    },
    /// The store can't do what exactly-once needs.
    #[error("{doing}: this store can't do it: {source}")]
    Unfit {
        /// Verb and object.
        doing: String,
        /// The store's words.
        source: Cause,
    },
    /// The store does not answer, or not with sense.
    #[error("{doing}: {source}; nothing is lost, trying again")]
    Outage {
        /// Verb and object.
        doing: String,
        /// The store's words.
        source: Cause,
    },
    /// The log contradicts itself or can't be read; waiting does not mend it.
    #[error("table {table} can't be used: {reason}")]
    Broken {
        /// The table.
        table: String,
        /// Which version, and what is wrong with it.
        reason: String,
    },
    /// Rows that a view's table can't take, or does not have.
    #[error("a change of a view can't go into table {table}: {reason}")]
    Change {
        /// The table.
        table: String,
        /// Which row, what is wrong with it, and what to do.
        reason: String,
    },
}

impl Fault for DeltaError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Outage { .. } => Verdict::Retry,
            Self::Location { .. }
            | Self::Refused { .. }
            | Self::Stranger { .. }
            | Self::Schema { .. }
            | Self::Unfit { .. } => Verdict::Stop(Exit::Config),
            Self::Missing { .. } | Self::Denied { .. } => Verdict::Stop(Exit::Unavailable),
            Self::Broken { .. } | Self::Change { .. } => Verdict::Stop(Exit::Data),
        }
    }
}

impl DeltaError {
    /// A store's error while `doing` something (verb and object).
    pub fn store(doing: impl Into<String>, error: object_store::Error) -> Self {
        Self::sorted(doing.into(), Sort::of(&error), error.into())
    }

    fn sorted(doing: String, sort: Sort, source: Cause) -> Self {
        match sort {
            Sort::Denied => Self::Denied { doing, source },
            Sort::Unfit => Self::Unfit { doing, source },
            Sort::Outage => Self::Outage { doing, source },
        }
    }

    /// The kernel's error while `doing` something with `table`.
    pub(crate) fn kernel(table: &str, doing: &str, error: KernelError) -> Self {
        let sort = match &error {
            // Not among its own causes.
            KernelError::ObjectStore(error) => Some(Sort::of(error)),
            KernelError::IOError(error) => Sort::within(error),
            KernelError::Reqwest(_) | KernelError::JoinFailure(_) => Some(Sort::Outage),
            error => Sort::within(error),
        };
        if let Some(sort) = sort {
            return Self::sorted(format!("{doing} {table}"), sort, error.into());
        }
        match error {
            KernelError::Backtraced { source, .. } => Self::kernel(table, doing, *source),
            KernelError::EmptyLog => Self::Missing { table: table.to_owned() },
            KernelError::MaxCatalogVersion(_) => Self::Refused {
                table: table.to_owned(),
                feature: "catalogManaged".to_owned(),
                hint: "its commits belong to a catalog; write to a table that the file system manages".to_owned(),
            },
            KernelError::Unsupported(what) => Self::Refused {
                table: table.to_owned(),
                feature: "a feature that the Delta library refuses".to_owned(),
                hint: what,
            },
            error => Self::Broken { table: table.to_owned(), reason: format!("{doing}: {error}") },
        }
    }

    /// Is it that something is not there?
    pub(crate) fn is_absence(error: &KernelError) -> bool {
        match error {
            KernelError::Backtraced { source, .. } => Self::is_absence(source),
            KernelError::FileNotFound(_)
            | KernelError::EmptyLog
            | KernelError::MissingVersion(_)
            | KernelError::InvalidTableLocation(_) => true,
            _ => false,
        }
    }
}

/// What may be done about a store's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Denied,
    Unfit,
    Outage,
}

impl Sort {
    fn of(error: &object_store::Error) -> Self {
        use object_store::Error as E;
        match error {
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => Self::Denied,
            E::NotSupported { .. } | E::NotImplemented { .. } | E::UnknownConfigurationKey { .. } => Self::Unfit,
            E::Generic { source, .. } => Self::within(&**source).unwrap_or(Self::Outage),
            _ => Self::Outage,
        }
    }

    /// A store's or a file system's error among the causes of an error; what is not there is no such.
    fn within(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        use std::io::ErrorKind;
        let mut cause = Some(error);
        while let Some(error) = cause {
            match error.downcast_ref::<object_store::Error>() {
                Some(object_store::Error::NotFound { .. }) => return None,
                Some(error) => return Some(Self::of(error)),
                None => {}
            }
            if let Some(io) = error.downcast_ref::<std::io::Error>() {
                match io.kind() {
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => return Some(Self::Denied),
                    ErrorKind::NotFound => return None,
                    // One that wraps what we look for.
                    ErrorKind::Other if io.source().is_some() => {}
                    _ => return Some(Self::Outage),
                }
            }
            cause = error.source();
        }
        None
    }
}
