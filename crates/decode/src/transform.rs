//! Transforms: `PROPERTY: JMESPATH`, with the functions and the metadata that kafka-delta-ingest has.
//!
//! All transforms see the message as it came, not what other transforms made of it. A null result changes nothing.
//! Functions beyond JMESPath's own:
//! - `substr(text, skip, take)`: `take` characters after the first `skip`;
//! - `epoch_seconds_to_iso8601`, `epoch_millis_to_iso8601`, `epoch_micros_to_iso8601`: a number, cut to a whole one, as
//!   text in UTC;
//! - `epoch_millis_to_micro`: a number, cut to a whole one, times 1000.

use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, TimeUnit};
use jmespatch::ast::Ast;
use jmespatch::functions::{ArgumentType, CustomFunction, Signature};
use jmespatch::{Context, ErrorReason, Expression, JmespathError, Rcvar, Runtime, Variable};

use crate::error::TransformError;
use crate::time::iso8601;
use crate::variable;

/// A set of transforms, read and checked.
#[derive(Clone, Debug, Default)]
pub struct Transforms {
    list: Vec<Transform>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Transform {
    pub(crate) property: String,
    pub(crate) source: Source,
}

/// Where a transform's value comes from.
#[derive(Clone)]
pub(crate) enum Source {
    Kafka(Metadata),
    Message(Arc<Expression<'static>>),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kafka(metadata) => metadata.fmt(f),
            Self::Message(expression) => expression.as_str().fmt(f),
        }
    }
}

/// What Kafka says of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metadata {
    Offset,
    Partition,
    Topic,
    /// Microseconds since 1970.
    Timestamp,
    TimestampType,
}

impl Metadata {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "kafka.offset" => Self::Offset,
            "kafka.partition" => Self::Partition,
            "kafka.topic" => Self::Topic,
            "kafka.timestamp" => Self::Timestamp,
            "kafka.timestamp_type" => Self::TimestampType,
            _ => return None,
        })
    }
}

impl Source {
    fn data_type(&self) -> DataType {
        match self {
            Self::Kafka(Metadata::Offset) => DataType::Int64,
            Self::Kafka(Metadata::Partition | Metadata::TimestampType) => DataType::Int32,
            Self::Kafka(Metadata::Timestamp) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Kafka(Metadata::Topic) | Self::Message(_) => DataType::Utf8,
        }
    }
}

impl Transforms {
    /// Reads transforms of the form `PROPERTY: JMESPATH`. A dotted property sets a part of a struct; the source is one
    /// of `kafka.offset`, `kafka.partition`, `kafka.topic`, `kafka.timestamp`, `kafka.timestamp_type`, or JMESPath over
    /// the message.
    ///
    /// # Errors
    /// A text that has no such form, is not JMESPath, calls a function that is not there, or a property given twice.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, TransformError> {
        let mut list: Vec<Transform> = Vec::with_capacity(texts.len());
        for text in texts {
            let transform = Transform::parse(text.as_ref())?;
            if list.iter().any(|other| other.property == transform.property) {
                return Err(TransformError::Twice { property: transform.property });
            }
            list.push(transform);
        }
        Ok(Self { list })
    }

    /// The properties that are set, in the order given, and the type of column that suits each: the metadata's own,
    /// and text for what is made of the message.
    pub fn columns(&self) -> impl Iterator<Item = (&str, DataType)> {
        self.list.iter().map(|transform| (transform.property.as_str(), transform.source.data_type()))
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Transform> {
        self.list.iter()
    }
}

impl Transform {
    fn parse(text: &str) -> Result<Self, TransformError> {
        let form = || TransformError::Form { text: text.to_owned() };
        let (property, expression) = text.split_once(':').ok_or_else(form)?;
        let (property, expression) = (property.trim(), expression.trim());
        if property.is_empty() || expression.is_empty() {
            return Err(form());
        }
        let source = match Metadata::named(expression) {
            Some(metadata) => Source::Kafka(metadata),
            None => Source::Message(Arc::new(compile(property, expression)?)),
        };
        Ok(Self { property: property.to_owned(), source })
    }
}

fn compile(property: &str, expression: &str) -> Result<Expression<'static>, TransformError> {
    let compiled = runtime().compile(expression).map_err(|error| TransformError::Expression {
        property: property.to_owned(),
        expression: expression.to_owned(),
        position: error.offset + 1,
        message: match error.reason {
            ErrorReason::Parse(message) => message,
            reason @ ErrorReason::Runtime(_) => reason.to_string(),
        },
    })?;
    match unknown_function(compiled.as_ast()) {
        None => {
            let ast = variable::with_numbers(compiled.as_ast().clone()).map_err(|message| {
                let (property, expression) = (property.to_owned(), expression.to_owned());
                TransformError::Expression { property, expression, position: 1, message }
            })?;
            Ok(Expression::new(compiled.as_str(), ast, runtime()))
        }
        Some((function, offset)) => Err(TransformError::Function {
            property: property.to_owned(),
            expression: expression.to_owned(),
            position: offset + 1,
            function: function.to_owned(),
        }),
    }
}

/// The first call of a function that is not there: its name and place.
fn unknown_function(ast: &Ast) -> Option<(&str, usize)> {
    match ast {
        Ast::Function { name, args, offset } => {
            let known = runtime().get_function(name).is_some();
            if known { args.iter().find_map(unknown_function) } else { Some((name, *offset)) }
        }
        Ast::Comparison { lhs, rhs, .. }
        | Ast::Projection { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. }
        | Ast::Subexpr { lhs, rhs, .. }
        | Ast::Condition { predicate: lhs, then: rhs, .. } => unknown_function(lhs).or_else(|| unknown_function(rhs)),
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::Not { node, .. }
        | Ast::ObjectValues { node, .. } => unknown_function(node),
        Ast::MultiList { elements, .. } => elements.iter().find_map(unknown_function),
        Ast::MultiHash { elements, .. } => elements.iter().find_map(|pair| unknown_function(&pair.value)),
        Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Literal { .. } | Ast::Slice { .. } => None,
    }
}

/// The functions there are. Made once, and kept: expressions borrow it.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<&'static Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut runtime = Runtime::new();
        runtime.register_builtin_functions();
        runtime.register_function(
            "to_number",
            Box::new(CustomFunction::new(
                Signature::new(vec![ArgumentType::Any], None),
                Box::new(|arguments: &[Rcvar], _: &mut Context<'_>| {
                    Ok(match &*arguments[0] {
                        Variable::Number(_) => Rcvar::clone(&arguments[0]),
                        Variable::String(text) => Rcvar::new(variable::read(text).unwrap_or(Variable::Null)),
                        _ => Rcvar::new(Variable::Null),
                    })
                }),
            )),
        );
        let substr = Signature::new(vec![ArgumentType::String, ArgumentType::Number, ArgumentType::Number], None);
        runtime.register_function(
            "substr",
            Box::new(CustomFunction::new(
                substr,
                Box::new(|arguments: &[Rcvar], context: &mut Context<'_>| {
                    let text = arguments[0].as_string().ok_or_else(|| failure(context, "substr takes text"))?;
                    let result = substring(text, count(&arguments[1]), count(&arguments[2]));
                    Ok(Rcvar::new(Variable::String(result.to_owned())))
                }),
            )),
        );
        for epoch in [Epoch::SecondsToText, Epoch::MillisToText, Epoch::MicrosToText, Epoch::MillisToMicros] {
            runtime.register_function(
                epoch.name(),
                Box::new(CustomFunction::new(
                    Signature::new(vec![ArgumentType::Number], None),
                    Box::new(move |arguments: &[Rcvar], context: &mut Context<'_>| {
                        let converted = whole(&arguments[0]).and_then(|number| epoch.convert(number));
                        let converted =
                            converted.ok_or_else(|| failure(context, "a time out of the years 0 to 9999"))?;
                        Ok(Rcvar::new(match converted {
                            Converted::Text(text) => Variable::String(text),
                            Converted::Micros(micros) => Variable::Number(micros.into()),
                        }))
                    }),
                )),
            );
        }
        Box::leak(Box::new(runtime))
    })
}

fn failure(context: &Context<'_>, what: &str) -> JmespathError {
    JmespathError::from_ctx(context, ErrorReason::Parse(what.to_owned()))
}

/// A count of characters: below 0 is 0, fractions are cut off.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as said")]
pub(crate) fn count(number: &Variable) -> usize {
    number.as_number().unwrap_or(0.0) as usize
}

/// A number cut to a whole one, if 64 bits hold it.
fn whole(number: &Variable) -> Option<i64> {
    if let Variable::Number(number) = number
        && let Some(number) = number.as_i64()
    {
        return Some(number);
    }
    let number = number.as_number()?.trunc();
    // Both bounds are powers of two: exact as doubles.
    let bound = 2_f64.powi(63);
    #[allow(clippy::cast_possible_truncation, reason = "in range")]
    (-bound..bound).contains(&number).then_some(number as i64)
}

/// `take` characters of `text` after the first `skip`.
pub(crate) fn substring(text: &str, skip: usize, take: usize) -> &str {
    let end = skip.saturating_add(take).min(text.len());
    if text.as_bytes()[..end].is_ascii() {
        return &text[skip.min(end)..end];
    }
    let mut ends = text.char_indices().map(|(at, _)| at).chain(std::iter::repeat(text.len()));
    let start = ends.nth(skip).unwrap_or(text.len());
    let end = if take == 0 { start } else { ends.nth(take - 1).unwrap_or(text.len()) };
    &text[start..end]
}

/// The functions on times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epoch {
    SecondsToText,
    MillisToText,
    MicrosToText,
    MillisToMicros,
}

/// What they make.
pub(crate) enum Converted {
    Text(String),
    Micros(i64),
}

impl Epoch {
    fn name(self) -> &'static str {
        match self {
            Self::SecondsToText => "epoch_seconds_to_iso8601",
            Self::MillisToText => "epoch_millis_to_iso8601",
            Self::MicrosToText => "epoch_micros_to_iso8601",
            Self::MillisToMicros => "epoch_millis_to_micro",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [Self::SecondsToText, Self::MillisToText, Self::MicrosToText, Self::MillisToMicros];
        all.into_iter().find(|epoch| epoch.name() == name)
    }

    /// `None` when the result is out of range.
    pub(crate) fn convert(self, number: i64) -> Option<Converted> {
        let micros = match self {
            Self::SecondsToText => number.checked_mul(1_000_000)?,
            Self::MillisToText | Self::MillisToMicros => number.checked_mul(1000)?,
            Self::MicrosToText => number,
        };
        if self == Self::MillisToMicros {
            return Some(Converted::Micros(micros));
        }
        iso8601(micros).map(Converted::Text)
    }
}
