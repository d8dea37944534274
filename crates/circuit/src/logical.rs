//! A query's text to DataFusion's logical plan, in the shapes that the operators take and with no wrong turns.
//!
//! DataFusion parses, types and decorrelates. Of its optimizer only the rules stand here that an incremental plan needs
//! and that are right for every input: [`rules`]. What it is known to plan wrongly is planned around or refused in
//! [`crate::guard`], before its rules see it.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, SchemaRef, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::registry::FunctionRegistry;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion::optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion::optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule, optimizer::OptimizerContext};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

use crate::expr::plain;
use crate::functions;
use crate::guard;
use crate::pipeline::{Place, nearest};
use crate::refused::Refused;

/// The relations that queries can name, and the planner of queries.
pub struct Queries {
    context: SessionContext,
}

impl std::fmt::Debug for Queries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queries").finish_non_exhaustive()
    }
}

impl Default for Queries {
    fn default() -> Self {
        Self { context: SessionContext::new_with_state(state()) }
    }
}

impl Queries {
    /// Makes a relation known.
    ///
    /// # Errors
    /// When there is one of this name.
    pub fn table(&mut self, name: &str, schema: SchemaRef) -> Result<(), Refused> {
        let known = self.context.register_table(name, Arc::new(EmptyTable::new(schema)));
        match known.map_err(refused)? {
            None => Ok(()),
            Some(_) => Err(Refused::new(format!("there are two relations of the name {name}"))),
        }
    }

    /// The plan of a query.
    ///
    /// # Errors
    /// When it can't be planned, or when DataFusion's plan of it would be wrong.
    pub fn plan(&self, query: &ast::Query) -> Result<LogicalPlan, Refused> {
        guard::query(query)?;
        let statement = Statement::Statement(Box::new(ast::Statement::Query(Box::new(query.clone()))));
        let state = self.context.state();
        let plan = futures::executor::block_on(state.statement_to_plan(statement));
        let plan = plan.map_err(|error| unknown(&state, error))?;
        let plan = guard::plan(plan)?;
        let config = state.config_options();
        let plan = state.analyzer().execute_and_check(plan, config, |_, _| {}).map_err(refused)?;
        let optimizer = Optimizer::with_rules(rules());
        let options = OptimizerContext::new_with_config_options(Arc::clone(config));
        optimizer.optimize(plan, &options, |_, _| {}).map_err(refused)
    }

    /// The plan of a query's text.
    ///
    /// # Errors
    /// When it is no single query, and as [`Queries::plan`].
    pub fn plan_text(&self, text: &str) -> Result<LogicalPlan, Refused> {
        let statement = self.context.state().sql_to_statement(text, &datafusion::config::Dialect::Generic);
        match statement.map_err(refused)? {
            Statement::Statement(statement) => match *statement {
                ast::Statement::Query(query) => self.plan(&query),
                other => Err(Refused::new(format!("a query expected, not {other}"))),
            },
            other => Err(Refused::new(format!("a query expected, not {other}"))),
        }
    }
}

/// The rules that run, in this order, until nothing changes.
fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    vec![
        Arc::new(RewriteSetComparison::new()),
        Arc::new(DecorrelatePredicateSubquery::new()),
        Arc::new(ScalarSubqueryToJoin::new()),
        Arc::new(DecorrelateLateralJoin::new()),
        Arc::new(ExtractEquijoinPredicate::new()),
        Arc::new(Sparing { rule: EliminateCrossJoin::new(), spares: has_a_key_of_several }),
        Arc::new(Sparing { rule: PushDownFilter::new(), spares: filters_one_group }),
        Arc::new(OptimizeProjections::new()),
    ]
}

/// A rule that leaves some plans as they are.
#[derive(Debug)]
struct Sparing<R> {
    rule: R,
    spares: fn(&LogicalPlan) -> Result<bool, DataFusionError>,
}

impl<R: OptimizerRule> OptimizerRule for Sparing<R> {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        if (self.spares)(&plan)? { Ok(Transformed::no(plan)) } else { self.rule.rewrite(plan, config) }
    }
}

/// Conditions go down, but for one: into an aggregate without groups, which has a row for no rows as well. A condition
/// that names no column would get there, and what it excludes would come back as that row.
fn filters_one_group(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let mut below = plan;
    while let LogicalPlan::Filter(filter) = below {
        below = &filter.input;
    }
    let ungrouped = matches!(below, LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty());
    Ok(ungrouped && matches!(plan, LogicalPlan::Filter(_)))
}

/// Cross joins become joins by keys, but for queries with a key of several relations: joins are taken apart into their
/// inputs for it, and such a key, which belongs to no two of them, would be lost.
fn has_a_key_of_several(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let of_several = |key: &Expr| {
        let columns = key.column_refs();
        columns.iter().any(|column| columns.iter().any(|other| other.relation != column.relation))
    };
    plan.exists(|node| match node {
        LogicalPlan::Join(join) => Ok(join.on.iter().any(|(left, right)| of_several(left) || of_several(right))),
        _ => Ok(false),
    })
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.strip_suffix(after)
}

pub(crate) fn state() -> SessionState {
    let config = SessionConfig::new()
        .set_bool("datafusion.sql_parser.map_string_types_to_utf8view", false)
        .set_bool("datafusion.sql_parser.collect_spans", true)
        .set_bool("datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery", false);
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let mut state = builder.with_type_planner(Arc::new(Types)).build();
    for function in functions::all() {
        state.register_udf(Arc::new(function)).expect("a state takes functions");
    }
    state
}

/// A timestamp is of microseconds, as in a table: of nanoseconds it would reach from 1677 to 2262 alone.
#[derive(Debug)]
struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, kind: &ast::DataType) -> Result<Option<FieldRef>, DataFusionError> {
        let zoned = match kind {
            ast::DataType::Timestamp(None | Some(6), ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone)
            | ast::DataType::Datetime(None | Some(6)) => None,
            ast::DataType::Timestamp(None | Some(6), ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => {
                Some("UTC".into())
            }
            _ => return Ok(None),
        };
        let kind = DataType::Timestamp(TimeUnit::Microsecond, zoned);
        Ok(Some(Arc::new(Field::new("", kind, true))))
    }
}

/// As a refusal, in the words of DataFusion, with the place that it names.
pub(crate) fn refused(error: DataFusionError) -> Refused {
    let mut refused = Refused::new(plain(&error));
    if let DataFusionError::SchemaError(schema, _) = error.find_root()
        && let SchemaError::FieldNotFound { field, valid_fields } = schema.as_ref()
    {
        refused.what = format!("there is no column {}", field.quoted_flat_name());
        let near = nearest(field.name(), valid_fields.iter().map(Column::name));
        refused.hint = near.map(|near| format!("did you mean {near}?"));
    }
    refused.place = error.diagnostic().and_then(|diagnostic| diagnostic.span).map(Place::of_query);
    refused
}

/// As a refusal; a relation or function that is not known with the nearest that is.
pub(crate) fn unknown(state: &SessionState, error: DataFusionError) -> Refused {
    let said = error.diagnostic().map_or_else(String::new, |diagnostic| diagnostic.message.clone());
    let mut refused = refused(error);
    let (what, name, known) = if let Some(name) = between(&said, "table '", "' not found") {
        let schema = state.schema_for_ref("any");
        ("table or view", name, schema.map(|schema| schema.table_names()).unwrap_or_default())
    } else if let Some(name) = between(&said, "Invalid function '", "'") {
        let scalar = state.scalar_functions().keys();
        let all = scalar.chain(state.aggregate_functions().keys()).chain(state.window_functions().keys());
        ("function", name, all.cloned().collect())
    } else {
        return refused;
    };
    refused.what = format!("there is no {what} {name}");
    refused.hint = nearest(name, known.iter().map(String::as_str)).map(|near| format!("did you mean {near}?"));
    refused
}
