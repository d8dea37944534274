//! What can be wrong: with a message, a schema, or a transform.

use std::fmt;

use crate::avro::AvroInferError;
use crate::schemas::Unavailable;

/// Why a message was set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BadKind {
    /// Not one JSON document in UTF-8, or nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    NotJson,
    /// JSON, but no object; Avro, but no record.
    NotAnObject,
    /// Bytes that are not of the format, cut off or damaged.
    Malformed,
    /// It names a schema that is not there, or that is none of its format.
    UnknownSchema,
    /// A value of a kind that its column can't take.
    WrongType,
    /// A value missing or null where the column is NOT NULL.
    NullInNotNull,
    /// A value of the right kind that its column can't hold exactly: out of range, or a fraction lost.
    DoesNotFit,
    /// A transform failed on it.
    Transform,
    /// Its row is larger than one batch can hold.
    TooLarge,
    /// The table's own rules refuse its row: a CHECK constraint, an invariant, a generated column.
    Constraint,
}

impl BadKind {
    /// A short name, for metrics' labels and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::NotAnObject => "not_an_object",
            Self::Malformed => "malformed",
            Self::UnknownSchema => "unknown_schema",
            Self::WrongType => "wrong_type",
            Self::NullInNotNull => "null_in_not_null",
            Self::DoesNotFit => "does_not_fit",
            Self::Transform => "transform",
            Self::TooLarge => "too_large",
            Self::Constraint => "constraint",
        }
    }
}

impl fmt::Display for BadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A schema, or a transform's target, that no rows can be made for.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Arrow knows the type, a Delta table has none like it.
    #[error("column {path} is of Arrow type {data_type}, which JSON messages are not decoded into")]
    Type {
        /// Where in the schema.
        path: String,
        /// The type as Arrow prints it.
        data_type: String,
    },
    /// Two fields of one struct share a name.
    #[error("column {path} is there twice: names within a struct must differ")]
    Duplicate {
        /// Where in the schema.
        path: String,
    },
    /// Raw records, and nowhere to put their values.
    #[error("raw records go into a column 'value' of type binary (or string), and the table has none")]
    RawWithoutValue,
    /// A part of raw records, and a column that can't take it.
    #[error(
        "column {column} is of type {data_type}: of raw records, value and key go into binary or string, headers into an \
         array of structs of two of these, or a map from string"
    )]
    RawColumn {
        /// The column.
        column: String,
        /// Its type, as Delta calls it.
        data_type: &'static str,
    },
    /// A transform looks into messages whose bytes are kept as they are.
    #[error(
        "transform '{property}' looks into the message, and raw records are not looked into; only kafka.offset and its \
         like can be had of them"
    )]
    RawTransform {
        /// The transform's property.
        property: String,
    },
    /// A dotted target goes through a column that has no named parts.
    #[error(
        "transform '{property}': {column} is not a struct, so nothing can be set inside it; name the column itself"
    )]
    Target {
        /// The transform's property.
        property: String,
        /// The column in the way.
        column: String,
    },
}

/// A transform that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum TransformError {
    /// No colon, or nothing before it.
    #[error("transform '{text}' has no property: write 'PROPERTY: JMESPATH', as in 'date: substr(time, `0`, `10`)'")]
    Form {
        /// The option's value.
        text: String,
    },
    /// Not JMESPath.
    #[error("transform '{property}': {message} at character {position} of '{expression}'")]
    Expression {
        /// The transform's property.
        property: String,
        /// The source, as given.
        expression: String,
        /// Counted from 1.
        position: usize,
        /// What the parser says.
        message: String,
    },
    /// A function that neither JMESPath nor we have.
    #[error("transform '{property}': there is no function {function} (character {position} of '{expression}')")]
    Function {
        /// The transform's property.
        property: String,
        /// The source, as given.
        expression: String,
        /// Counted from 1.
        position: usize,
        /// The name that nothing answers to.
        function: String,
    },
    /// Two transforms set the same place.
    #[error("transform '{property}' is given twice; keep one of them")]
    Twice {
        /// The property.
        property: String,
    },
}

/// Messages that no schema can be made of.
#[derive(Debug, thiserror::Error)]
pub enum InferError {
    /// No message is a JSON object with a field that has a value.
    #[error(
        "none of the {messages} messages seen is a JSON object with a value in it; give the schema with --schema FILE"
    )]
    NoFields {
        /// How many were looked at.
        messages: usize,
    },
    /// Schemas of Avro that no table can have.
    #[error(transparent)]
    Avro(#[from] AvroInferError),
    /// A schema that a message names can't be had.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a message, or one value, is refused; unwound with the path it happened at.
#[derive(Debug)]
pub(crate) struct Fail {
    pub(crate) kind: Cause,
    /// Byte of the message, for syntax errors.
    pub(crate) at: Option<usize>,
    pub(crate) what: What,
    /// Names from the inside out.
    pub(crate) path: Vec<Box<str>>,
}

/// A refusal, boxed: the good way returns one machine word.
pub(crate) type Refused = Box<Fail>;

/// What happened, so that the caller knows how to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Final unless the slow way may see it differently.
    Bad(BadKind),
    /// Nothing is wrong yet, but only the slow way can say: a key came twice.
    Unsure,
}

/// The text of a refusal; mostly fixed.
#[derive(Debug)]
pub(crate) enum What {
    Fixed(&'static str),
    Text(String),
}

impl Fail {
    pub(crate) fn syntax(at: usize, what: &'static str) -> Refused {
        Box::new(Self { at: Some(at), ..Self::fixed(Cause::Bad(BadKind::NotJson), what) })
    }

    #[cold]
    pub(crate) fn malformed(at: usize, what: &'static str) -> Refused {
        Box::new(Self { at: Some(at), ..Self::fixed(Cause::Bad(BadKind::Malformed), what) })
    }

    fn fixed(kind: Cause, what: &'static str) -> Self {
        Self { kind, at: None, what: What::Fixed(what), path: Vec::new() }
    }

    #[cold]
    pub(crate) fn bad(kind: BadKind, what: &'static str) -> Refused {
        Box::new(Self::fixed(Cause::Bad(kind), what))
    }

    #[cold]
    pub(crate) fn text(kind: BadKind, what: String) -> Refused {
        Box::new(Self { kind: Cause::Bad(kind), at: None, what: What::Text(what), path: Vec::new() })
    }

    #[cold]
    pub(crate) fn unsure() -> Refused {
        Box::new(Self::fixed(Cause::Unsure, "a key came twice"))
    }

    /// The same, inside of `name`.
    #[cold]
    pub(crate) fn within(mut self: Box<Self>, name: &str) -> Box<Self> {
        self.path.push(name.into());
        self
    }

    /// The same, of the value of that number among those of a message.
    #[cold]
    pub(crate) fn of_value(mut self: Box<Self>, number: u64) -> Box<Self> {
        self.path.push(format!("value {number}").into());
        self
    }

    pub(crate) fn kind(&self) -> BadKind {
        match self.kind {
            Cause::Bad(kind) => kind,
            Cause::Unsure => BadKind::WrongType,
        }
    }

    /// `a.b: what at byte n`, as far as there are a path and a byte.
    pub(crate) fn detail(&self) -> String {
        let what = match &self.what {
            What::Fixed(text) => text,
            What::Text(text) => text.as_str(),
        };
        let at = self.at.map_or_else(String::new, |at| format!(" at byte {at}"));
        // The place in the text says where it is not JSON; fields say it better elsewhere.
        if self.path.is_empty() || self.kind == Cause::Bad(BadKind::NotJson) {
            return format!("{what}{at}");
        }
        let path: Vec<&str> = self.path.iter().rev().map(AsRef::as_ref).collect();
        format!("{}: {what}{at}", path.join("."))
    }
}
