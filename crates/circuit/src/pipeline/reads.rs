//! Which tables a query reads.
//!
//! Chains of operators are walked in a loop: the parser's visitor takes a large frame of the stack for each link. It
//! takes over where an expression is of a rarer kind.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, JoinConstraint, JoinOperator,
    ObjectName, Query, Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Visit, Visitor,
};

use super::Name;
use super::error::{Place, Problem};

/// The tables that a query reads, each once, where it is named first. Names of its own WITH are none, nor are
/// functions. `place` is the query's.
pub(super) fn of(query: &Query, place: Place) -> Result<Vec<Name>, Problem> {
    let mut reader = Reader { place, scopes: Vec::new(), found: Vec::new() };
    if let ControlFlow::Break(problem) = reader.query(query) {
        return Err(problem);
    }
    let mut found = reader.found;
    found.sort_by_key(|name| name.place);
    let mut tables: Vec<Name> = Vec::new();
    for name in found {
        if !tables.iter().any(|table| table.text == name.text) {
            tables.push(name);
        }
    }
    Ok(tables)
}

type Flow = ControlFlow<Problem>;
const ON: Flow = ControlFlow::Continue(());

struct Reader {
    place: Place,
    /// The queries around the present place, outermost first.
    scopes: Vec<Scope>,
    found: Vec<Name>,
}

/// One query's WITH.
struct Scope {
    /// The name and the address of each query in it.
    tables: Vec<(String, *const Query)>,
    /// How many of them may be named at the present place.
    visible: usize,
    is_recursive: bool,
}

impl Reader {
    fn query(&mut self, query: &Query) -> Flow {
        self.pre_visit_query(query)?;
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.query(&table.query)?;
        }
        self.body(&query.body)?;
        query.order_by.visit(self)?;
        query.limit_clause.visit(self)?;
        query.fetch.visit(self)?;
        query.pipe_operators.visit(self)?;
        self.post_visit_query(query)
    }

    fn body(&mut self, body: &SetExpr) -> Flow {
        let mut open = vec![body];
        while let Some(body) = open.pop() {
            match body {
                SetExpr::Select(select) => self.select(select)?,
                SetExpr::Query(query) => self.query(query)?,
                SetExpr::SetOperation { left, right, .. } => open.extend([&**left, &**right]),
                SetExpr::Values(values) => self.expressions(values.rows.iter().flat_map(|row| &row.content))?,
                SetExpr::Table(table) => {
                    let name = table.table_name.as_deref().unwrap_or("t");
                    return self.refuse(format!("write SELECT * FROM {name} for TABLE {name}"));
                }
                SetExpr::Insert(statement)
                | SetExpr::Update(statement)
                | SetExpr::Delete(statement)
                | SetExpr::Merge(statement) => return self.pre_visit_statement(statement),
            }
        }
        ON
    }

    fn select(&mut self, select: &Select) -> Flow {
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expression) => self.expressions([expression])?,
                SelectItem::ExprWithAlias { expr, .. } => self.expressions([expr])?,
                other => other.visit(self)?,
            }
        }
        select.from.iter().try_for_each(|from| self.from(from))?;
        let filters = [&select.prewhere, &select.selection, &select.having, &select.qualify];
        self.expressions(filters.into_iter().flatten())?;
        if let GroupByExpr::Expressions(expressions, _) = &select.group_by {
            self.expressions(expressions)?;
        }
        select.distinct.visit(self)?;
        select.top.visit(self)?;
        select.lateral_views.visit(self)?;
        select.connect_by.visit(self)?;
        select.cluster_by.visit(self)?;
        select.distribute_by.visit(self)?;
        select.sort_by.visit(self)?;
        select.named_window.visit(self)
    }

    fn from(&mut self, from: &TableWithJoins) -> Flow {
        self.table(&from.relation)?;
        for join in &from.joins {
            self.table(&join.relation)?;
            match &join.join_operator {
                JoinOperator::Join(on)
                | JoinOperator::Inner(on)
                | JoinOperator::Left(on)
                | JoinOperator::LeftOuter(on)
                | JoinOperator::Right(on)
                | JoinOperator::RightOuter(on)
                | JoinOperator::FullOuter(on) => {
                    if let JoinConstraint::On(expression) = on {
                        self.expressions([expression])?;
                    }
                }
                other => other.visit(self)?,
            }
        }
        ON
    }

    fn table(&mut self, factor: &TableFactor) -> Flow {
        match factor {
            TableFactor::Derived { subquery, .. } => self.query(subquery),
            TableFactor::NestedJoin { table_with_joins, .. } => self.from(table_with_joins),
            other => other.visit(self),
        }
    }

    fn expressions<'a>(&mut self, expressions: impl IntoIterator<Item = &'a Expr>) -> Flow {
        let mut open: Vec<&Expr> = expressions.into_iter().collect();
        while let Some(expression) = open.pop() {
            match expression {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => {}
                Expr::BinaryOp { left, right, .. } => open.extend([&**left, &**right]),
                Expr::UnaryOp { expr, .. } | Expr::Nested(expr) | Expr::Cast { expr, .. } => open.push(expr),
                Expr::IsNull(expr) | Expr::IsNotNull(expr) | Expr::IsTrue(expr) | Expr::IsNotTrue(expr) => {
                    open.push(expr);
                }
                Expr::IsFalse(expr) | Expr::IsNotFalse(expr) | Expr::IsUnknown(expr) | Expr::IsNotUnknown(expr) => {
                    open.push(expr);
                }
                Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                    open.extend([&**left, &**right]);
                }
                Expr::AtTimeZone { timestamp, time_zone } => open.extend([&**timestamp, &**time_zone]),
                Expr::Collate { expr, .. } => open.push(expr),
                Expr::Between { expr, low, high, .. } => open.extend([&**expr, &**low, &**high]),
                Expr::Like { expr, pattern, .. } | Expr::ILike { expr, pattern, .. } => {
                    open.extend([&**expr, &**pattern])
                }
                Expr::InList { expr, list, .. } => {
                    open.push(expr);
                    open.extend(list);
                }
                Expr::Case { operand, conditions, else_result, .. } => {
                    open.extend(operand.as_deref());
                    open.extend(conditions.iter().flat_map(|when| [&when.condition, &when.result]));
                    open.extend(else_result.as_deref());
                }
                Expr::InSubquery { expr, subquery, .. } => {
                    open.push(expr);
                    self.query(subquery)?;
                }
                Expr::Exists { subquery, .. } | Expr::Subquery(subquery) => self.query(subquery)?,
                Expr::Function(function) => open.extend(self.arguments(function)?),
                other => other.visit(self)?,
            }
        }
        ON
    }

    /// A call's arguments that are expressions; the rest of it is read.
    fn arguments<'a>(&mut self, function: &'a Function) -> ControlFlow<Problem, Vec<&'a Expr>> {
        function.parameters.visit(self)?;
        function.over.visit(self)?;
        function.within_group.visit(self)?;
        let mut expressions: Vec<&Expr> = function.filter.as_deref().into_iter().collect();
        match &function.args {
            FunctionArguments::None => {}
            FunctionArguments::Subquery(query) => self.query(query)?,
            FunctionArguments::List(list) => {
                list.clauses.visit(self)?;
                for argument in &list.args {
                    match argument {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression))
                        | FunctionArg::Named { arg: FunctionArgExpr::Expr(expression), .. } => {
                            expressions.push(expression);
                        }
                        other => other.visit(self)?,
                    }
                }
            }
        }
        ControlFlow::Continue(expressions)
    }

    fn is_local(&self, name: &str) -> bool {
        let mut visible = self.scopes.iter().flat_map(|scope| &scope.tables[..scope.visible]);
        visible.any(|(local, _)| local == name)
    }

    /// The place of `query` in the WITH of the query around it.
    fn in_with(&mut self, query: &Query) -> Option<(&mut Scope, usize)> {
        let scope = self.scopes.last_mut()?;
        let at = scope.tables.iter().position(|(_, table)| std::ptr::eq(*table, query))?;
        Some((scope, at))
    }

    fn read(&mut self, name: &ObjectName) -> Flow {
        let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        let [one] = parts.as_slice() else {
            let place = parts.first().map_or(self.place, |first| Name::of_or(first, self.place).place);
            let message = format!("`{name}` has several parts; sources and views have one name, without a schema");
            return ControlFlow::Break(Problem::new(place, message));
        };
        let name = Name::of_or(one, self.place);
        if !self.is_local(&name.text) {
            self.found.push(name);
        }
        ON
    }

    fn refuse(&self, message: String) -> Flow {
        ControlFlow::Break(Problem::new(self.place, message))
    }
}

impl Visitor for Reader {
    type Break = Problem;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        if let Some((scope, at)) = self.in_with(query) {
            scope.visible = if scope.is_recursive { at + 1 } else { at };
        }
        let with = query.with.as_ref();
        let tables = with.map_or(&[][..], |with| &with.cte_tables);
        let tables = tables.iter().map(|table| (Name::of(&table.alias.name).text, &raw const *table.query)).collect();
        self.scopes.push(Scope { tables, visible: 0, is_recursive: with.is_some_and(|with| with.recursive) });
        ON
    }

    fn post_visit_query(&mut self, query: &Query) -> Flow {
        self.scopes.pop();
        if let Some((scope, at)) = self.in_with(query) {
            scope.visible = at + 1;
        }
        ON
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        match factor {
            TableFactor::Table { name, args: None, .. } => self.read(name),
            _ => ON,
        }
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> Flow {
        let words = statement.to_string();
        self.refuse(format!("a view is a query, not {}", words.split_whitespace().next().unwrap_or_default()))
    }
}
