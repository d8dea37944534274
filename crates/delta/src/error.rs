//! What goes wrong with a table, and whether waiting heals it.

use std::error::Error as _;

use delta_kernel::KernelError;
use lakeward_protocol::ports::{Exit, Fault, Verdict};

use crate::store::Unguarded;

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
    /// There is no place to write to in the store.
    #[error("{doing}: there is no bucket or container of that name; make it, or mend the address: {source}")]
    NoBucket {
        /// Verb and object.
        doing: String,
        /// The store's words.
        source: Cause,
    },
    /// The store is another one than it is addressed as.
    #[error("{doing}: the store refuses the address or its region; mend them (AWS_REGION, AWS_ENDPOINT_URL): {source}")]
    Address {
        /// Verb and object.
        doing: String,
        /// The store's words.
        source: Cause,
    },
    /// Another process may be writing to a store that can't keep two apart.
    #[error("{doing}: {source}")]
    Lease {
        /// Verb and object.
        doing: String,
        /// Who has the lease, or how it was lost.
        source: Unguarded,
    },
    /// The store does not answer, or not with sense.
    #[error("{doing}: {source}")]
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
    /// A table in mode upsert has more rows than the memory for their keys.
    #[error(
        "table {table} has {rows} rows or more, and the memory for their keys is enough for {most} ({row_bytes} bytes \
         each); give more memory (--memory-mb)"
    )]
    TooManyKeys {
        /// The table.
        table: String,
        /// Rows that are known.
        rows: usize,
        /// The most that there may be.
        most: usize,
        /// What each takes.
        row_bytes: usize,
    },
    /// Rows that a view's table can't take, or does not have.
    #[error("a change can't go into table {table}: {reason}")]
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
            | Self::Address { .. }
            | Self::Unfit { .. }
            | Self::TooManyKeys { .. } => Verdict::Stop(Exit::Config),
            Self::Missing { .. } | Self::Denied { .. } | Self::NoBucket { .. } => Verdict::Stop(Exit::Unavailable),
            Self::Lease { .. } => Verdict::Stop(Exit::TryAgain),
            Self::Broken { .. } | Self::Change { .. } => Verdict::Stop(Exit::Data),
        }
    }
}

impl DeltaError {
    /// A store's error while `doing` something (verb and object).
    pub fn store(doing: impl Into<String>, error: object_store::Error) -> Self {
        let (doing, sort) = (doing.into(), Sort::of(&error));
        match error {
            object_store::Error::NotSupported { source } => match source.downcast::<Unguarded>() {
                Ok(found) if matches!(*found, Unguarded::Unconditional { .. }) => Self::Unfit { doing, source: found },
                Ok(found) => Self::Lease { doing, source: *found },
                Err(source) => Self::sorted(doing, sort, source),
            },
            error => Self::sorted(doing, sort, error.into()),
        }
    }

    /// Whether a table is not there because its bucket is not.
    pub(crate) fn is_of_the_bucket(&self) -> bool {
        matches!(self, Self::NoBucket { .. })
    }

    fn sorted(doing: String, sort: Sort, source: Cause) -> Self {
        let source = Box::new(Told(source));
        match sort {
            Sort::Denied => Self::Denied { doing, source },
            Sort::Unfit => Self::Unfit { doing, source },
            Sort::NoBucket => Self::NoBucket { doing, source },
            Sort::Address => Self::Address { doing, source },
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

/// A store's error in one line: with what lies at the bottom of it, and of an answer in XML its code and message.
#[derive(Debug)]
struct Told(Cause);

impl std::error::Error for Told {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = self.0.to_string();
        if let Some(at) = text.find("<?xml").or_else(|| text.find("<Error>"))
            && let Some(code) = element(&text[at..], "Code")
        {
            let message = element(&text[at..], "Message").unwrap_or_default();
            text = format!("{}{code}: {message}", &text[..at]);
        }
        write!(f, "{}", text.split_whitespace().collect::<Vec<_>>().join(" "))?;
        let mut bottom: &(dyn std::error::Error + 'static) = &*self.0;
        while let Some(deeper) = bottom.source() {
            bottom = deeper;
        }
        let bottom = bottom.to_string();
        if text.contains(&bottom) || bottom.contains("<Code>") { Ok(()) } else { write!(f, ": {bottom}") }
    }
}

/// What an XML element holds.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split_once(&format!("<{name}>"))?.1.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

/// What may be done about a store's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Denied,
    Unfit,
    NoBucket,
    Address,
    Outage,
}

/// Codes that stores answer with, where the status alone says too little.
#[rustfmt::skip] // columns: code, what may be done
const CODES: [(&str, Sort); 15] = [
    ("NoSuchBucket",                     Sort::NoBucket),
    ("ContainerNotFound",                Sort::NoBucket),
    ("AccessDenied",                     Sort::Denied),
    ("InvalidAccessKeyId",               Sort::Denied),
    // What versitygw says in its place.
    ("XAdminUserNotFound",               Sort::Denied),
    ("SignatureDoesNotMatch",            Sort::Denied),
    ("InvalidToken",                     Sort::Denied),
    ("AuthenticationFailed",             Sort::Denied),
    ("AuthorizationFailure",             Sort::Denied),
    ("AuthorizationPermissionMismatch",  Sort::Denied),
    ("InvalidAuthenticationInfo",        Sort::Denied),
    // Another region than the bucket's.
    ("AuthorizationHeaderMalformed",     Sort::Address),
    ("PermanentRedirect",                Sort::Address),
    ("InvalidBucketName",                Sort::Address),
    ("InvalidResourceName",              Sort::Address),
];

impl Sort {
    fn of(error: &object_store::Error) -> Self {
        use object_store::Error as E;
        if let Some(sort) = Self::said(error) {
            return sort;
        }
        match error {
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => Self::Denied,
            E::NotSupported { .. } | E::NotImplemented { .. } | E::UnknownConfigurationKey { .. } => Self::Unfit,
            E::Generic { source, .. } => Self::within(&**source).unwrap_or(Self::Outage),
            _ => Self::Outage,
        }
    }

    /// By the code in the store's answer.
    fn said(error: &object_store::Error) -> Option<Self> {
        let text = error.to_string();
        if ["redirect without LOCATION", "URL scheme is not allowed"].iter().any(|words| text.contains(words)) {
            return Some(Self::Address);
        }
        let code = element(&text, "Code")?;
        CODES.iter().find(|(known, _)| *known == code).map(|(_, sort)| *sort)
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
