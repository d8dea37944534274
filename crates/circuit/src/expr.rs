//! Scalar expressions, evaluated a batch at a time.
//!
//! The functions are DataFusion's; that they fail where SQL says so is ours: integers do not wrap, and an expression
//! that fails for a row fails for that row alone. What comes of such a row is the operator's to say.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, DataFusionError, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{BinaryExpr as LogicalBinary, Expr, ExprSchemable, Operator, Volatility};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_expr::expressions::{self, BinaryExpr, Column};
use datafusion::physical_plan::PhysicalExpr;

use crate::functions;
use crate::refused::Refused;

/// An expression over the columns of a stream.
#[derive(Debug)]
pub struct Expression {
    physical: Arc<dyn PhysicalExpr>,
    text: String,
    kind: DataType,
    /// The column whose values it has, or has in a type that tells all of them apart.
    place: Option<usize>,
}

/// What came of a batch.
#[derive(Debug)]
#[must_use]
pub struct Evaluated {
    /// One value for each row; NULL also where it failed.
    pub values: ArrayRef,
    /// The rows for which it failed, ascending, and why.
    pub failed: Vec<(usize, String)>,
}

impl Expression {
    /// Prepares `expr`, whose columns are those of `schema`, by position.
    ///
    /// # Errors
    /// When it holds what has no one answer for a row (`now()`, `random()`), or what DataFusion can't evaluate.
    pub fn new(expr: &Expr, schema: &DFSchema) -> Result<Self, Refused> {
        let text = expr.to_string();
        let refused = |error: DataFusionError| Refused::new(format!("{text}: {}", plain(&error)));
        let kind = expr.get_type(schema).map_err(refused)?;
        let prepared = expr.clone().transform_up(|expr| one_zero(prepared(expr, schema)?, schema));
        let expr = prepared.map_err(refused)?.data;
        let context = PhysicalPlanningContext::default();
        let physical = create_physical_expr(&expr, schema, &ExecutionProps::new(), &context).map_err(refused)?;
        let physical = physical.transform_up(|expr| Ok(checked(expr))).map_err(refused)?.data;
        let place = physical.downcast_ref::<Column>().map(Column::index);
        Ok(Self { physical, text, kind, place })
    }

    /// Column `at` of the stream.
    #[must_use]
    pub fn column(at: usize, field: &Field) -> Self {
        let physical = Arc::new(Column::new(field.name(), at));
        Self { physical, text: format!("{}@{at}", field.name()), kind: field.data_type().clone(), place: Some(at) }
    }

    /// Column `at` of the stream as another type; it fails for a value that the type can't hold.
    ///
    /// # Errors
    /// When there is no such conversion.
    pub fn converted(at: usize, schema: &Schema, kind: &DataType) -> Result<Self, Refused> {
        let field = schema.field(at);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
        let physical = expressions::cast(column, schema, kind.clone()).map_err(|error| Refused::new(plain(&error)))?;
        Ok(Self { physical, text: format!("{}@{at} as {kind}", field.name()), kind: kind.clone(), place: Some(at) })
    }

    /// All columns of a stream.
    #[must_use]
    pub fn columns(schema: &Schema) -> Vec<Self> {
        schema.fields().iter().enumerate().map(|(at, field)| Self::column(at, field)).collect()
    }

    /// The column that it only hands on, if it does no more than that.
    #[must_use]
    pub fn place(&self) -> Option<usize> {
        self.place
    }

    /// In SQL's words, for people and for the plan's fingerprint.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The type of its values.
    #[must_use]
    pub fn kind(&self) -> &DataType {
        &self.kind
    }

    /// Its value for each row of `batch`.
    pub fn evaluate(&self, batch: &RecordBatch) -> Evaluated {
        let error = match self.whole(batch) {
            Ok(values) => return Evaluated { values, failed: Vec::new() },
            Err(error) => error,
        };
        let rows = batch.num_rows();
        if rows <= 1 {
            let failed = (0..rows).map(|row| (row, format!("{}: {}", self.text, plain(&error)))).collect();
            return Evaluated { values: new_null_array(&self.kind, rows), failed };
        }
        // Halves, until the rows at fault are alone.
        let half = rows / 2;
        let (front, back) = (self.evaluate(&batch.slice(0, half)), self.evaluate(&batch.slice(half, rows - half)));
        let values = concat(&[&front.values, &back.values]).expect("two arrays of one type");
        let mut failed = front.failed;
        failed.extend(back.failed.into_iter().map(|(row, why)| (row + half, why)));
        Evaluated { values, failed }
    }

    fn whole(&self, batch: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
        let values = self.physical.evaluate(batch)?.into_array(batch.num_rows())?;
        if values.data_type() == &self.kind { Ok(values) } else { Ok(cast(&values, &self.kind)?) }
    }
}

/// What DataFusion's optimizer would do that evaluation needs, and no more.
fn prepared(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>, DataFusionError> {
    match expr {
        Expr::ScalarFunction(mut call) => {
            if call.func.signature().volatility != Volatility::Immutable {
                return Err(DataFusionError::Plan(format!(
                    "{} has another value each time it is asked, and an incremental view none",
                    call.func.name()
                )));
            }
            let context = SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build();
            match call.func.simplify(std::mem::take(&mut call.args), &context)? {
                ExprSimplifyResult::Simplified(simple) => Ok(Transformed::yes(simple)),
                ExprSimplifyResult::Original(args) => {
                    call.args = args;
                    Ok(Transformed::no(Expr::ScalarFunction(call)))
                }
            }
        }
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => Err(DataFusionError::Plan(
            "a subquery in this place, or one that depends on the row outside by something else than an equality with a column of its own, is not supported".to_owned(),
        )),
        // A minus sign wraps for the smallest integer; a subtraction does not.
        Expr::Negative(inner) if inner.get_type(schema)?.is_signed_integer() => {
            let zero = ScalarValue::new_zero(&inner.get_type(schema)?)?;
            let zero = Box::new(Expr::Literal(zero, None));
            Ok(Transformed::yes(Expr::BinaryExpr(LogicalBinary::new(zero, Operator::Minus, inner))))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The same, with one zero and one NaN where it makes a floating-point number anew.
fn one_zero(expr: Transformed<Expr>, schema: &DFSchema) -> Result<Transformed<Expr>, DataFusionError> {
    let anew = match &expr.data {
        Expr::BinaryExpr(_) | Expr::Negative(_) | Expr::ScalarFunction(_) | Expr::Cast(_) | Expr::TryCast(_) => true,
        Expr::Literal(value, _) => !value.is_null(),
        _ => false,
    };
    if !anew || !expr.data.get_type(schema)?.is_floating() {
        return Ok(expr);
    }
    Ok(Transformed::yes(functions::one_zero(expr.data)))
}

/// The same, failing where an integer would wrap.
fn checked(expr: Arc<dyn PhysicalExpr>) -> Transformed<Arc<dyn PhysicalExpr>> {
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) if matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply) => {
            Transformed::yes(Arc::new(binary.clone().with_fail_on_overflow(true)))
        }
        _ => Transformed::no(expr),
    }
}

/// The message alone, without the names of the layers it came through.
#[must_use]
pub fn plain(error: &DataFusionError) -> String {
    let text = match error.find_root() {
        DataFusionError::ArrowError(error, _) => error.to_string(),
        DataFusionError::Plan(text) | DataFusionError::Execution(text) | DataFusionError::NotImplemented(text) => {
            text.clone()
        }
        other => other.strip_backtrace(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}
