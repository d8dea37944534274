//! Values as JMESPath has them.
//!
//! `jmespatch` reads JSON through `serde`, and there a number is an object of one odd field when any crate of the program
//! asks `serde_json` for arbitrary precision, as dbsp does. Here numbers are numbers, with the 64 bits that they have
//! without it.

use std::collections::BTreeMap;

use jmespatch::ast::{Ast, KeyValuePair};
use jmespatch::{Rcvar, Variable};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::{Number, Value};

/// The name of that one field.
const NUMBER_FIELD: &str = "$serde_json::private::Number";

/// Reads JSON.
///
/// # Errors
/// What is no JSON, or holds a number beyond all doubles.
pub(crate) fn read(text: &str) -> Result<Variable, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    variable(value)
}

fn variable(value: Value) -> Result<Variable, String> {
    Ok(match value {
        Value::Null => Variable::Null,
        Value::Bool(truth) => Variable::Bool(truth),
        Value::String(text) => Variable::String(text),
        Value::Number(number) => Variable::Number(plain(&number)?),
        Value::Array(values) => {
            let values = values.into_iter().map(|value| variable(value).map(Rcvar::new));
            Variable::Array(values.collect::<Result<_, _>>()?)
        }
        Value::Object(values) => {
            let values = values.into_iter().map(|(name, value)| Ok((name, Rcvar::new(variable(value)?))));
            Variable::Object(values.collect::<Result<BTreeMap<_, _>, String>>()?)
        }
    })
}

/// A JSON value for an expression to be evaluated on: `jmespatch` takes its data through `serde` as well.
#[derive(Debug)]
pub(crate) struct Plain(Value);

impl Plain {
    /// Reads JSON.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        in_range(&value)?;
        Ok(Self(value))
    }
}

fn in_range(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) => plain(number).map(drop),
        Value::Array(values) => values.iter().try_for_each(in_range),
        Value::Object(values) => values.values().try_for_each(in_range),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

impl Serialize for Plain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Borrowed(&self.0).serialize(serializer)
    }
}

/// Numbers as numbers, whatever `serde_json` holds them as.
struct Borrowed<'a>(&'a Value);

impl Serialize for Borrowed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(truth) => serializer.serialize_bool(*truth),
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(values) => serializer.collect_seq(values.iter().map(Borrowed)),
            Value::Object(values) => serializer.collect_map(values.iter().map(|(name, value)| (name, Borrowed(value)))),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(whole), _, _) => serializer.serialize_i64(whole),
                (_, Some(whole), _) => serializer.serialize_u64(whole),
                (_, _, Some(double)) => serializer.serialize_f64(double),
                (None, None, None) => Err(S::Error::custom(format_args!("number out of range: {number}"))),
            },
        }
    }
}

/// The number as 64 bits hold it: whole if it is, else the nearest double.
fn plain(number: &Number) -> Result<Number, String> {
    if let Some(whole) = number.as_i64() {
        return Ok(whole.into());
    }
    if let Some(whole) = number.as_u64() {
        return Ok(whole.into());
    }
    number.as_f64().and_then(Number::from_f64).ok_or_else(|| format!("number out of range: {number}"))
}

/// The same expression with its literals' numbers as numbers.
///
/// # Errors
/// A literal beyond all doubles.
pub(crate) fn with_numbers(ast: Ast) -> Result<Ast, String> {
    let one = |ast: Box<Ast>| with_numbers(*ast).map(Box::new);
    let all = |list: Vec<Ast>| list.into_iter().map(with_numbers).collect::<Result<Vec<_>, _>>();
    Ok(match ast {
        Ast::Literal { offset, value } => Ast::Literal { offset, value: Rcvar::new(settled(&value)?) },
        Ast::Comparison { offset, comparator, lhs, rhs } => {
            Ast::Comparison { offset, comparator, lhs: one(lhs)?, rhs: one(rhs)? }
        }
        Ast::Condition { offset, predicate, then } => {
            Ast::Condition { offset, predicate: one(predicate)?, then: one(then)? }
        }
        Ast::Expref { offset, ast } => Ast::Expref { offset, ast: one(ast)? },
        Ast::Flatten { offset, node } => Ast::Flatten { offset, node: one(node)? },
        Ast::Function { offset, name, args } => Ast::Function { offset, name, args: all(args)? },
        Ast::MultiList { offset, elements } => Ast::MultiList { offset, elements: all(elements)? },
        Ast::MultiHash { offset, elements } => {
            let pair = |pair: KeyValuePair| Ok(KeyValuePair { value: with_numbers(pair.value)?, ..pair });
            Ast::MultiHash { offset, elements: elements.into_iter().map(pair).collect::<Result<_, String>>()? }
        }
        Ast::Not { offset, node } => Ast::Not { offset, node: one(node)? },
        Ast::Projection { offset, lhs, rhs } => Ast::Projection { offset, lhs: one(lhs)?, rhs: one(rhs)? },
        Ast::ObjectValues { offset, node } => Ast::ObjectValues { offset, node: one(node)? },
        Ast::And { offset, lhs, rhs } => Ast::And { offset, lhs: one(lhs)?, rhs: one(rhs)? },
        Ast::Or { offset, lhs, rhs } => Ast::Or { offset, lhs: one(lhs)?, rhs: one(rhs)? },
        Ast::Subexpr { offset, lhs, rhs } => Ast::Subexpr { offset, lhs: one(lhs)?, rhs: one(rhs)? },
        leaf @ (Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Slice { .. }) => leaf,
    })
}

fn settled(value: &Variable) -> Result<Variable, String> {
    Ok(match value {
        Variable::Object(values) => match values.get(NUMBER_FIELD).map(|text| &**text) {
            Some(Variable::String(text)) if values.len() == 1 => return read(text),
            _ => {
                let values = values.iter().map(|(name, value)| Ok((name.clone(), Rcvar::new(settled(value)?))));
                Variable::Object(values.collect::<Result<BTreeMap<_, _>, String>>()?)
            }
        },
        Variable::Array(values) => {
            let values = values.iter().map(|value| settled(value).map(Rcvar::new));
            Variable::Array(values.collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers() {
        let text = r#"{"a":[1,-2,18446744073709551615,0.10,1e3],"b":{"c":3}}"#;
        assert_eq!(
            serde_json::to_string(&read(text).unwrap()).unwrap(),
            r#"{"a":[1,-2,18446744073709551615,0.1,1000.0],"b":{"c":3}}"#
        );
        assert!(read("1e400").unwrap_err().contains("out of range"));
    }
}
