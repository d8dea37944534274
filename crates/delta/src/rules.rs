//! What a table demands of its rows beyond their types, in Spark's SQL. It is only told here: who writes
//! rows evaluates it, and says so to the [`Writer`](crate::encode::Writer).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::TableSchema;

/// Prefix of the properties that hold CHECK constraints. Spark takes it in any case.
const CONSTRAINT: &str = "delta.constraints.";
/// Where a column has an invariant, as JSON.
const INVARIANT: &str = "delta.invariants";
/// Where a column says what it is made of.
const GENERATED: &str = "delta.generationExpression";
/// Where a column says its default.
const DEFAULT: &str = "CURRENT_DEFAULT";

/// What must hold for each row, and what makes columns that it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// A row is taken only where each is true; false and NULL refuse it.
    pub checks: Vec<Check>,
    /// Columns made of others, in the schema's order. A value that is there must be the same.
    pub generated: Vec<Made>,
    /// Columns with a value where a row says nothing of them, in the schema's order.
    pub defaults: Vec<Made>,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// As messages name it: `constraint positive`, `invariant of column n`.
    pub name: String,
    /// The condition.
    pub sql: String,
}

/// A column of the top level and its expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The column's name.
    pub column: String,
    /// What it is made of.
    pub sql: String,
}

impl Rules {
    /// Those of a table.
    ///
    /// # Errors
    /// What is no rule, or stands where none may.
    pub(crate) fn of(schema: &TableSchema, properties: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut rules = Self::default();
        for (key, sql) in properties {
            if let Some(name) = constraint(key) {
                rules.checks.push(Check { name: format!("constraint {name}"), sql: sql.clone() });
            }
        }
        let mut wrong = None;
        schema.for_each_metadata(&mut |path, metadata| {
            if let Err(reason) = rules.add(path, schema.arrow().index_of(path).is_ok(), metadata) {
                wrong.get_or_insert(format!("column {path}: {reason}"));
            }
        });
        wrong.map_or(Ok(rules), Err)
    }

    fn add(&mut self, path: &str, at_top: bool, metadata: &Map<String, Value>) -> Result<(), String> {
        let text = |key: &str| match metadata.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("its {key} is {other}, expected text")),
        };
        if let Some(invariant) = text(INVARIANT)? {
            let sql = serde_json::from_str::<Value>(invariant).ok();
            let sql = sql.and_then(|json| Some(json.pointer("/expression/expression")?.as_str()?.to_owned()));
            let sql = sql.ok_or_else(|| format!("its {INVARIANT} holds no expression: {invariant}"))?;
            self.checks.push(Check { name: format!("invariant of column {path}"), sql });
        }
        for (key, list) in [(GENERATED, &mut self.generated), (DEFAULT, &mut self.defaults)] {
            match text(key)? {
                Some(_) if !at_top => {
                    return Err(format!("it has {key}, which only columns of the top level may have"));
                }
                Some(sql) => list.push(Made { column: path.to_owned(), sql: sql.clone() }),
                None => {}
            }
        }
        Ok(())
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.generated.is_empty() && self.defaults.is_empty()
    }

    /// The first one, for messages.
    #[must_use]
    pub fn first(&self) -> Option<String> {
        let check = self.checks.first().map(|check| format!("{} ({})", check.name, check.sql));
        let made = |what, made: &Made| format!("{what} column {} ({})", made.column, made.sql);
        check
            .or_else(|| self.generated.first().map(|each| made("generated", each)))
            .or_else(|| self.defaults.first().map(|each| made("a default of", each)))
    }
}

fn constraint(key: &str) -> Option<&str> {
    let (start, name) = key.split_at_checked(CONSTRAINT.len())?;
    start.eq_ignore_ascii_case(CONSTRAINT).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(metadata: &str, nested: &str, properties: &[(&str, &str)]) -> Result<Rules, String> {
        let text = format!(
            r#"{{"type":"struct","fields":[
                {{"name":"a","type":"long","nullable":true,"metadata":{metadata}}},
                {{"name":"s","type":{{"type":"struct","fields":[{{"name":"x","type":"long","nullable":true,"metadata":{nested}}}]}},"nullable":true,"metadata":{{}}}}]}}"#
        );
        let properties = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Rules::of(&TableSchema::parse("t", &text).unwrap(), &properties)
    }

    #[test]
    fn rules_are_found_where_they_stand() {
        let invariant = r#"{"delta.invariants":"{\"expression\":{\"expression\":\"a < 4\"}}"}"#;
        let nested = r#"{"delta.invariants":"{\"expression\":{\"expression\":\"s.x > 0\"}}"}"#;
        let found =
            rules(invariant, nested, &[("DELTA.constraints.c", "a > 0"), ("é", "x"), ("delta.x", "y")]).unwrap();
        let checks: Vec<_> = found.checks.iter().map(|check| format!("{}: {}", check.name, check.sql)).collect();
        assert_eq!(checks, ["constraint c: a > 0", "invariant of column a: a < 4", "invariant of column s.x: s.x > 0"]);
        let made = r#"{"delta.generationExpression":"1 + 1","CURRENT_DEFAULT":"7"}"#;
        let found = rules(made, "{}", &[]).unwrap();
        assert_eq!((found.generated[0].sql.as_str(), found.defaults[0].sql.as_str()), ("1 + 1", "7"));
        assert!(rules("{}", "{}", &[]).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_rule_is_told() {
        #[rustfmt::skip] // columns: metadata of a, of s.x, what the reason holds
        let cases = [
            (r#"{"delta.invariants":"a < 4"}"#,         "{}",                                     "holds no expression"),
            (r#"{"delta.generationExpression":1}"#,     "{}",                                     "expected text"),
            ("{}",                                      r#"{"delta.generationExpression":"1"}"#,  "column s.x"),
            ("{}",                                      r#"{"CURRENT_DEFAULT":"1"}"#,             "top level"),
        ];
        for (metadata, nested, holds) in cases {
            let reason = rules(metadata, nested, &[]).unwrap_err();
            assert!(reason.contains(holds), "{reason}");
        }
    }
}
