//! Schemas that messages name by a number, and that lie outside: in a registry, as a rule.
//!
//! This room knows no I/O. [`Schemas`] is what it asks; who implements it asks the registry, waits no longer than a
//! time-out, and keeps the answers.

use std::fmt::Debug;
use std::sync::Arc;

/// Where schemas are kept by number.
///
/// It promises: the same number has the same schema for ever, and what is not an answer of the registry itself is
/// [`Unavailable`], never [`Answer::NotThere`].
pub trait Schemas: Debug + Send + Sync {
    /// The schema of that number. Mostly from memory; may take as long as one request does.
    ///
    /// # Errors
    /// No answer: nothing can be said of the messages that need it.
    fn schema(&self, id: u32) -> Result<Answer, Unavailable>;

    /// Finds out about that number, before messages that name it are decoded, perhaps by somebody who must not wait:
    /// [`Schemas::schema`] then has its answer at once. May ask again what it knows not to be there.
    ///
    /// # Errors
    /// As [`Schemas::schema`].
    fn prepare(&self, id: u32) -> Result<(), Unavailable> {
        self.schema(id).map(drop)
    }
}

/// What the registry says of a number.
#[derive(Clone, Debug)]
#[must_use]
pub enum Answer {
    /// This schema.
    There(Arc<WrittenSchema>),
    /// There is none: a message that names it is a bad record.
    NotThere,
}

/// A schema as it is written, whatever its language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenSchema {
    /// Its language.
    pub language: Language,
    /// Its text.
    pub text: String,
    /// The schemas that it refers to, and those that they do; each before those that refer to it.
    pub references: Vec<ReferredSchema>,
}

/// A schema that another one refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferredSchema {
    /// The name that the reference has: a full name in Avro, an import in Protobuf, a URL in JSON Schema.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// What a schema is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Apache Avro.
    Avro,
    /// JSON Schema.
    Json,
    /// Protocol Buffers.
    Protobuf,
}

impl std::fmt::Display for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Avro => "Avro",
            Self::Json => "JSON Schema",
            Self::Protobuf => "Protobuf",
        })
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The registry can't be reached, or is in trouble: ask again.
    #[error("{detail}")]
    OutOfReach {
        /// Which registry, and what happened.
        detail: String,
    },
    /// The registry does not let us in: somebody has to look.
    #[error("{detail}")]
    NotAllowed {
        /// Which registry, what it says, and what to set.
        detail: String,
    },
}
