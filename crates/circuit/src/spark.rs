//! Spark's expressions over the rows of a table: what CHECK constraints, invariants, generated columns and defaults
//! are written in.
//!
//! Only what means here exactly what it means there is taken, the rest is refused by name: an expression that is
//! almost the same would let rows pass, or make columns, that Spark then finds wrong. Where Spark's own meaning hangs
//! on a session, it is that of one in UTC which fails rather than wraps (ANSI). Names of columns ignore case.
//!
//! - Integers are computed in 64 bits, and a row for which they do not suffice fails.
//! - Numbers of different kinds are compared exactly; FLOAT meets an integer column nowhere.
//! - Text is compared by its bytes, never with a number; with a date or timestamp only as a literal of one.

mod functions;
mod unify;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields, SchemaRef, TimeUnit};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::functions::core::get_field;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator, lit, not};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, UnaryOperator, Value, ValueWithSpan};
use datafusion::sql::sqlparser::dialect::DatabricksDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::expr::{Evaluated, Expression};
use crate::refused::Refused;
use unify::{Kind, unified};

/// An expression over the rows of one table.
#[derive(Debug)]
pub struct RowExpression {
    expression: Expression,
    sql: String,
}

/// An expression under way, and the type of its values.
#[derive(Clone, Debug)]
struct Typed {
    expr: Expr,
    kind: DataType,
    /// A literal of a number: it takes the type of what it meets.
    literal: bool,
}

type Made = Result<Typed, Refused>;

impl RowExpression {
    /// A condition over rows of these columns.
    ///
    /// # Errors
    /// What is no condition, or means something else here than in Spark, in its own words.
    pub fn condition(sql: &str, columns: &SchemaRef) -> Result<Self, Refused> {
        let made = Scope { columns }.parse(sql)?;
        match made.kind {
            DataType::Boolean => Self::new(made.expr, sql, columns),
            kind => Err(Refused::new(format!("{sql} is no condition: it is of type {kind}"))),
        }
    }

    /// Values for a column over rows of these columns.
    ///
    /// # Errors
    /// As [`condition`](Self::condition), and for values that the column does not take.
    pub fn column(sql: &str, columns: &SchemaRef, kind: &DataType) -> Result<Self, Refused> {
        let made = Scope { columns }.parse(sql)?;
        let fitting = unify::stored_as(made, kind).map_err(|refused| refused.hint(format!("in {sql}")))?;
        Self::new(fitting, sql, columns)
    }

    fn new(expr: Expr, sql: &str, columns: &SchemaRef) -> Result<Self, Refused> {
        let schema =
            DFSchema::try_from(columns.as_ref().clone()).map_err(|error| Refused::new(format!("{sql}: {error}")))?;
        Ok(Self { expression: Expression::new(&expr, &schema)?, sql: sql.to_owned() })
    }

    /// As it was written.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Its value for each row of a batch of the columns.
    pub fn evaluate(&self, batch: &RecordBatch) -> Evaluated {
        self.expression.evaluate(batch)
    }
}

/// The columns that names stand for.
struct Scope<'a> {
    columns: &'a SchemaRef,
}

impl Scope<'_> {
    fn parse(&self, sql: &str) -> Made {
        let wrong = |error: &dyn std::fmt::Display| Refused::new(format!("{sql}: {error}"));
        let mut parser = Parser::new(&DatabricksDialect {}).try_with_sql(sql).map_err(|error| wrong(&error))?;
        let expr = parser.parse_expr().map_err(|error| wrong(&error))?;
        match parser.next_token().token {
            datafusion::sql::sqlparser::tokenizer::Token::EOF => self.expr(&expr),
            more => Err(wrong(&format!("unexpected {more}"))),
        }
    }

    fn expr(&self, expr: &ast::Expr) -> Made {
        use ast::Expr as E;
        match expr {
            E::Nested(inner) => self.expr(inner),
            E::Identifier(name) => self.column(std::slice::from_ref(name)),
            E::CompoundIdentifier(names) => self.column(names),
            E::Value(value) => literal(value),
            E::TypedString(typed) => match (&typed.data_type, &typed.value.value) {
                (ast::DataType::Date, Value::SingleQuotedString(text)) => unify::date(text),
                (ast::DataType::Timestamp(None, _), Value::SingleQuotedString(text)) => unify::timestamp(text),
                _ => Err(unknown(expr)),
            },
            E::IsNull(inner) => Ok(boolean(self.expr(inner)?.expr.is_null())),
            E::IsNotNull(inner) => Ok(boolean(self.expr(inner)?.expr.is_not_null())),
            E::IsTrue(inner) => Ok(boolean(Expr::IsTrue(self.condition(inner)?.into()))),
            E::IsNotTrue(inner) => Ok(boolean(Expr::IsNotTrue(self.condition(inner)?.into()))),
            E::IsFalse(inner) => Ok(boolean(Expr::IsFalse(self.condition(inner)?.into()))),
            E::IsNotFalse(inner) => Ok(boolean(Expr::IsNotFalse(self.condition(inner)?.into()))),
            E::UnaryOp { op, expr: inner } => self.unary(*op, inner, expr),
            E::BinaryOp { left, op, right } => self.binary(left, op, right, expr),
            E::Between { expr: inner, negated, low, high } => self.between(inner, *negated, low, high),
            E::InList { expr: inner, list, negated } => self.in_list(inner, list, *negated),
            E::Like { negated, any: false, expr: inner, pattern, escape_char: None } => {
                self.like(inner, pattern, *negated, expr)
            }
            E::Case { operand: None, conditions, else_result, .. } => self.case(conditions, else_result.as_deref()),
            E::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr: inner,
                data_type,
                format: None,
                ..
            } => functions::cast_to(self.expr(inner)?, data_type).ok_or_else(|| unknown(expr))?,
            _ => functions::call(self, expr).unwrap_or_else(|| Err(unknown(expr))),
        }
    }

    fn column(&self, names: &[ast::Ident]) -> Made {
        let (first, inner) = names.split_first().ok_or_else(|| Refused::new("a name is missing"))?;
        let place = found(self.columns.fields(), first)?;
        let mut kind = place.data_type();
        let mut expr = Expr::Column(Column::new_unqualified(place.name()));
        for name in inner {
            let DataType::Struct(parts) = kind else {
                return Err(Refused::new(format!("{name} is no field: {kind} has none")));
            };
            let part = found(parts, name)?;
            expr = get_field().call(vec![expr, lit(part.name().as_str())]);
            kind = part.data_type();
        }
        if kind.is_floating() {
            expr = crate::functions::one_zero(expr);
        }
        Ok(Typed { expr, kind: kind.clone(), literal: false })
    }

    fn condition(&self, expr: &ast::Expr) -> Result<Expr, Refused> {
        let made = self.expr(expr)?;
        match made.kind {
            DataType::Boolean => Ok(made.expr),
            DataType::Null => Ok(lit(ScalarValue::Boolean(None))),
            kind => Err(Refused::new(format!("{expr} is no condition: it is of type {kind}"))),
        }
    }

    fn unary(&self, op: UnaryOperator, inner: &ast::Expr, whole: &ast::Expr) -> Made {
        match op {
            UnaryOperator::Not => Ok(boolean(not(self.condition(inner)?))),
            UnaryOperator::Plus => self.expr(inner),
            UnaryOperator::Minus => {
                if let ast::Expr::Value(ValueWithSpan { value: Value::Number(text, false), .. }) = inner {
                    return unify::number(&format!("-{text}"));
                }
                let zero = unify::number("0")?;
                self.arithmetic(zero, Operator::Minus, self.expr(inner)?).ok_or_else(|| unknown(whole))
            }
            _ => Err(unknown(whole)),
        }
    }

    fn binary(&self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr, whole: &ast::Expr) -> Made {
        let both = |op| Ok(boolean(binary(self.condition(left)?, op, self.condition(right)?)));
        let compared = |op| self.compared(self.expr(left)?, op, self.expr(right)?).ok_or_else(|| unknown(whole));
        let computed = |op| self.arithmetic(self.expr(left)?, op, self.expr(right)?).ok_or_else(|| unknown(whole));
        match op {
            BinaryOperator::And => both(Operator::And),
            BinaryOperator::Or => both(Operator::Or),
            BinaryOperator::Eq => compared(Operator::Eq),
            BinaryOperator::NotEq => compared(Operator::NotEq),
            BinaryOperator::Lt => compared(Operator::Lt),
            BinaryOperator::LtEq => compared(Operator::LtEq),
            BinaryOperator::Gt => compared(Operator::Gt),
            BinaryOperator::GtEq => compared(Operator::GtEq),
            BinaryOperator::Spaceship => compared(Operator::IsNotDistinctFrom),
            BinaryOperator::Plus => computed(Operator::Plus),
            BinaryOperator::Minus => computed(Operator::Minus),
            BinaryOperator::Multiply => computed(Operator::Multiply),
            BinaryOperator::Modulo => computed(Operator::Modulo),
            BinaryOperator::StringConcat => {
                functions::joined(vec![self.expr(left)?, self.expr(right)?]).ok_or_else(|| unknown(whole))
            }
            _ => Err(unknown(whole)),
        }
    }

    fn compared(&self, left: Typed, op: Operator, right: Typed) -> Option<Typed> {
        let (left, right, _) = unified(left, right)?;
        Some(boolean(binary(left, op, right)))
    }

    /// On integers and doubles alone: decimals' own rules of precision are Spark's.
    fn arithmetic(&self, left: Typed, op: Operator, right: Typed) -> Option<Typed> {
        let (left, right, kind) = unified(left, right)?;
        let fits = match Kind::of(&kind) {
            Kind::Integer => true,
            Kind::Float => op != Operator::Modulo,
            _ => false,
        };
        fits.then(|| Typed { expr: binary(left, op, right), kind, literal: false })
    }

    fn between(&self, inner: &ast::Expr, negated: bool, low: &ast::Expr, high: &ast::Expr) -> Made {
        let pair = |op, bound: &ast::Expr| {
            let made = self.compared(self.expr(inner)?, op, self.expr(bound)?);
            made.ok_or_else(|| Refused::new(format!("{inner} and {bound} are of types that are not compared")))
        };
        let (low, high) = (pair(Operator::GtEq, low)?, pair(Operator::LtEq, high)?);
        let within = binary(low.expr, Operator::And, high.expr);
        Ok(boolean(if negated { not(within) } else { within }))
    }

    fn in_list(&self, inner: &ast::Expr, list: &[ast::Expr], negated: bool) -> Made {
        let mut any: Option<Expr> = None;
        for each in list {
            let one = self.compared(self.expr(inner)?, Operator::Eq, self.expr(each)?);
            let one =
                one.ok_or_else(|| Refused::new(format!("{inner} and {each} are of types that are not compared")))?;
            any = Some(match any {
                None => one.expr,
                Some(before) => binary(before, Operator::Or, one.expr),
            });
        }
        let any = any.ok_or_else(|| Refused::new(format!("{inner} IN () names nothing")))?;
        Ok(boolean(if negated { not(any) } else { any }))
    }

    fn like(&self, inner: &ast::Expr, pattern: &ast::Expr, negated: bool, whole: &ast::Expr) -> Made {
        let (inner, pattern) = (self.expr(inner)?, self.expr(pattern)?);
        let plain = matches!(&pattern.expr, Expr::Literal(ScalarValue::Utf8(Some(text)), _) if !text.contains('\\'));
        if inner.kind != DataType::Utf8 || !plain {
            return Err(unknown(whole));
        }
        Ok(boolean(Expr::Like(Like::new(negated, inner.expr.into(), pattern.expr.into(), None, false))))
    }

    fn case(&self, conditions: &[ast::CaseWhen], otherwise: Option<&ast::Expr>) -> Made {
        let mut results: Vec<Typed> = Vec::with_capacity(conditions.len() + 1);
        for each in conditions {
            results.push(self.expr(&each.result)?);
        }
        if let Some(otherwise) = otherwise {
            results.push(self.expr(otherwise)?);
        }
        let (mut results, kind) = unify::all(results)
            .ok_or_else(|| Refused::new("the branches of CASE are of types that do not go together"))?;
        let otherwise = otherwise.and_then(|_| results.pop()).map(Box::new);
        let mut when = Vec::with_capacity(conditions.len());
        for (each, result) in conditions.iter().zip(results) {
            when.push((Box::new(self.condition(&each.condition)?), Box::new(result)));
        }
        Ok(Typed { expr: Expr::Case(Case::new(None, when, otherwise)), kind, literal: false })
    }
}

/// The field of a name: the very name, or the only one that differs by case.
fn found<'a>(fields: &'a Fields, name: &ast::Ident) -> Result<&'a Arc<Field>, Refused> {
    let exact = fields.iter().find(|field| *field.name() == name.value);
    exact
        .or_else(|| fields.iter().find(|field| field.name().to_lowercase() == name.value.to_lowercase()))
        .ok_or_else(|| Refused::new(format!("there is no column {}", name.value)))
}

fn literal(value: &ValueWithSpan) -> Made {
    match &value.value {
        Value::Number(text, false) => unify::number(text),
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) if !text.contains('\\') => {
            Ok(Typed { expr: lit(text.as_str()), kind: DataType::Utf8, literal: true })
        }
        Value::Boolean(value) => Ok(boolean(lit(*value))),
        Value::Null => Ok(Typed { expr: lit(ScalarValue::Null), kind: DataType::Null, literal: true }),
        _ => Err(Refused::new(format!("{value} is a literal of a kind that is not taken"))),
    }
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

fn boolean(expr: Expr) -> Typed {
    Typed { expr, kind: DataType::Boolean, literal: false }
}

fn unknown(expr: &ast::Expr) -> Refused {
    Refused::new(format!("{expr} is not among what is sure to mean the same here as in Spark"))
}

/// Timestamps of the table's types.
fn is_timestamp(kind: &DataType) -> bool {
    matches!(kind, DataType::Timestamp(TimeUnit::Microsecond, _))
}

#[cfg(test)]
mod tests;
