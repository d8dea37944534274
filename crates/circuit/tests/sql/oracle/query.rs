//! Queries over all that the engine takes, with columns `c0`, `c1` and so on.

use super::expr::Column;
use super::kinds::{Kind, Table};
use super::tape::Tape;

/// Makes one query.
pub struct Maker<'a> {
    pub tape: &'a mut Tape,
    /// What can be read.
    pub tables: Vec<Table>,
    /// Whether values may be such as one of the judges is wrong for.
    pub wild: bool,
    pub aliases: usize,
}

/// A query's text and the kinds of its columns.
#[derive(Clone, Debug)]
pub struct Query {
    pub sql: String,
    pub kinds: Vec<Kind>,
}

/// What stands behind FROM, and its columns.
struct From {
    sql: String,
    scope: Vec<Column>,
}

const KINDS: [Kind; 5] = [Kind::Int, Kind::Text, Kind::Double, Kind::Time, Kind::Decimal];

impl Maker<'_> {
    /// A query of any shape, up to `depth` inside of each other.
    pub fn query(&mut self, depth: usize) -> Query {
        match self.tape.below(if depth == 0 { 4 } else { 12 }) {
            0..=2 => self.select(depth),
            3 | 4 => self.aggregate(depth),
            5 => self.set_operation(depth),
            6 => self.ranked(depth),
            7 => self.limited(depth),
            8 => self.distinct_on(depth),
            9 => self.with(depth),
            10 => self.aggregate(depth),
            _ => self.select(depth),
        }
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }

    fn from(&mut self, depth: usize) -> From {
        match self.tape.below(if depth == 0 { 4 } else { 10 }) {
            0..=3 => self.table(),
            4 => {
                let (query, alias) = (self.query(depth - 1), self.alias());
                let scope = columns(&alias, query.kinds.iter().enumerate().map(|(at, kind)| (format!("c{at}"), *kind)));
                From { sql: format!("({}) AS {alias}", query.sql), scope }
            }
            5 => self.using(),
            _ => self.join(depth),
        }
    }

    fn table(&mut self) -> From {
        let (table, alias) = (self.tape.pick(&self.tables).clone(), self.alias());
        From { sql: format!("{} AS {alias}", table.name), scope: columns(&alias, table.columns) }
    }

    fn join(&mut self, depth: usize) -> From {
        let (left, right) = (self.from(depth - 1), self.from(depth - 1));
        let scope: Vec<Column> = left.scope.iter().chain(&right.scope).cloned().collect();
        let kind = *self.tape.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]);
        let sql = |on: &str| format!("{} {kind} {}{on}", left.sql, bracketed(&right.sql));
        if kind == "CROSS JOIN" {
            return From { sql: sql(""), scope };
        }
        let of = self.kind_in(&left.scope);
        let plain = self.tape.below(8);
        let mut on = if plain == 7 {
            self.condition(&scope, 1)
        } else {
            let deep = usize::from(plain == 6);
            format!("{} = {}", self.expr(of, &left.scope, deep), self.expr(of, &right.scope, deep))
        };
        if self.tape.chance(30) {
            on = format!("{on} AND {}", self.condition(&scope, 1));
        }
        From { sql: sql(&format!(" ON {on}")), scope }
    }

    /// Two tables whose first column has one name; its merged column is named without a table.
    fn using(&mut self) -> From {
        let (left, right) = (self.tape.pick(&self.tables).clone(), self.tape.pick(&self.tables).clone());
        if left.columns[0] != right.columns[0] {
            return self.table();
        }
        let (key, kind) = left.columns[0].clone();
        let (one, two) = (self.alias(), self.alias());
        let join = *self.tape.pick(&["JOIN", "LEFT JOIN"]);
        let mut scope = vec![Column { sql: key.clone(), kind }];
        scope.extend(columns(&one, left.columns.into_iter().skip(1)));
        scope.extend(columns(&two, right.columns.into_iter().skip(1)));
        // In brackets of its own the merged column would be ambiguous beside other tables.
        let inner: Vec<String> = scope.iter().enumerate().map(|(at, c)| format!("{} AS c{at}", c.sql)).collect();
        let from = format!("{} AS {one} {join} {} AS {two} USING ({key})", left.name, right.name);
        let alias = self.alias();
        let named = columns(&alias, scope.iter().enumerate().map(|(at, c)| (format!("c{at}"), c.kind)));
        From { sql: format!("(SELECT {} FROM {from}) AS {alias}", inner.join(", ")), scope: named }
    }

    fn filter(&mut self, scope: &[Column], depth: usize) -> String {
        match self.tape.below(if depth == 0 { 3 } else { 7 }) {
            0 | 1 => String::new(),
            2 => format!(" WHERE {}", self.condition(scope, 2)),
            3 => format!(" WHERE {}", self.inside(scope, depth)),
            4 => format!(" WHERE {} AND {}", self.condition(scope, 1), self.inside(scope, depth)),
            5 => format!(" WHERE {} OR {}", self.inside(scope, depth), self.condition(scope, 1)),
            _ => format!(" WHERE NOT ({})", self.inside(scope, depth)),
        }
    }

    /// A condition with a subquery.
    fn inside(&mut self, scope: &[Column], depth: usize) -> String {
        let from = self.from(depth - 1);
        let (kind, of) = (self.kind_in(scope), self.kind_in(scope));
        let expr = self.expr(kind, scope, 1);
        let link = format!("{} = {}", self.expr(of, &from.scope, 0), self.column(of, scope));
        let correlated = if self.tape.chance(50) { format!(" WHERE {link}") } else { String::new() };
        match self.tape.below(5) {
            0 => {
                let not = *self.tape.pick(&["", "NOT "]);
                let more = if self.tape.chance(40) {
                    format!(" AND {}", self.condition(&from.scope, 1))
                } else {
                    String::new()
                };
                format!("{not}EXISTS (SELECT 1 FROM {} WHERE {link}{more})", from.sql)
            }
            1 => {
                let own = self.condition(&from.scope, 1);
                format!("EXISTS (SELECT 1 FROM {} WHERE {own})", from.sql)
            }
            2 | 3 => {
                let not = *self.tape.pick(&["", "NOT "]);
                let item = self.expr(kind, &from.scope, 1);
                format!("{expr} {not}IN (SELECT {item} FROM {}{correlated})", from.sql)
            }
            _ => {
                let op = *self.tape.pick(&["=", "<", ">=", "<>"]);
                let (name, item) = (*self.tape.pick(&["MAX", "MIN"]), self.expr(kind, &from.scope, 1));
                format!("{expr} {op} (SELECT {name}({item}) FROM {}{correlated})", from.sql)
            }
        }
    }

    fn column(&mut self, kind: Kind, scope: &[Column]) -> String {
        self.expr(kind, scope, 0)
    }

    fn select(&mut self, depth: usize) -> Query {
        let count = 1 + self.tape.below(3);
        let from = self.from(depth);
        let kinds: Vec<Kind> = (0..count).map(|_| self.kind_in(&from.scope)).collect();
        self.select_from(&from, &kinds, depth)
    }

    fn select_from(&mut self, from: &From, kinds: &[Kind], depth: usize) -> Query {
        let mut items: Vec<String> = kinds.iter().map(|kind| self.expr(*kind, &from.scope, 2)).collect();
        let mut kinds = kinds.to_vec();
        if depth > 0 && self.tape.chance(12) {
            items.push(self.scalar(&from.scope, depth));
            kinds.push(Kind::Int);
        }
        let distinct = if self.tape.chance(20) { "DISTINCT " } else { "" };
        let filter = self.filter(&from.scope, depth);
        Query { sql: format!("SELECT {distinct}{} FROM {}{filter}", named(&items), from.sql), kinds }
    }

    /// A subquery that stands for a whole number.
    fn scalar(&mut self, scope: &[Column], depth: usize) -> String {
        let from = self.from(depth - 1);
        let of = self.kind_in(scope);
        let link = format!("{} = {}", self.expr(of, &from.scope, 0), self.column(of, scope));
        let correlated = if self.tape.chance(60) { format!(" WHERE {link}") } else { String::new() };
        let item = self.expr(Kind::Int, &from.scope, 1);
        let name = match self.tape.below(4) {
            0 => "COUNT(*)".to_owned(),
            1 => format!("SUM({item})"),
            2 => format!("COALESCE(MAX({item}), -5)"),
            _ => format!("CASE WHEN MIN({item}) > 0 THEN 1 ELSE 0 END"),
        };
        format!("(SELECT {name} FROM {}{correlated})", from.sql)
    }

    fn aggregate(&mut self, depth: usize) -> Query {
        let from = self.from(depth);
        let groups: Vec<(String, Kind)> = (0..self.tape.below(3))
            .map(|_| {
                let kind = self.kind_in(&from.scope);
                (self.expr(kind, &from.scope, 1), kind)
            })
            .collect();
        let measures: Vec<(String, Kind)> = (0..=self.tape.below(3)).map(|_| self.measure(&from.scope)).collect();
        let filter = self.filter(&from.scope, depth);
        let having = if self.tape.chance(25) {
            let seen = measures.iter().map(|(sql, kind)| Column { sql: sql.clone(), kind: *kind });
            let seen: Vec<Column> = seen.collect();
            format!(" HAVING {}", self.condition(&seen, 1))
        } else {
            String::new()
        };
        let keys: Vec<String> = (1..=groups.len()).map(|at| at.to_string()).collect();
        let by = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", keys.join(", ")) };
        let (items, kinds): (Vec<String>, Vec<Kind>) = groups.into_iter().chain(measures).unzip();
        Query { sql: format!("SELECT {} FROM {}{filter}{by}{having}", named(&items), from.sql), kinds }
    }

    fn measure(&mut self, scope: &[Column]) -> (String, Kind) {
        let kind = self.kind_in(scope);
        let number = if kind.is_number() { kind } else { Kind::Int };
        let distinct = if self.tape.chance(25) { "DISTINCT " } else { "" };
        let (sql, kind) = match self.tape.below(12) {
            0 => ("COUNT(*)".to_owned(), Kind::Big),
            1 => (format!("COUNT({distinct}{})", self.expr(kind, scope, 1)), Kind::Big),
            2 | 3 => {
                let sum = if number == Kind::Int { Kind::Big } else { number };
                (format!("SUM({distinct}{})", self.expr(number, scope, 1)), sum)
            }
            4 | 5 => (format!("MIN({distinct}{})", self.expr(kind, scope, 1)), kind),
            6 | 7 => (format!("MAX({})", self.expr(kind, scope, 1)), kind),
            8 => (format!("AVG({distinct}{})", self.expr(number, scope, 1)), Kind::Double),
            9 => {
                let name = *self.tape.pick(&["BOOL_AND", "BOOL_OR"]);
                (format!("{name}({})", self.condition(scope, 1)), Kind::Bool)
            }
            10 => {
                let name = *self.tape.pick(&["VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"]);
                (format!("{name}({})", self.expr(number, scope, 1)), Kind::Double)
            }
            _ => {
                let of = if number == Kind::Decimal { Kind::Decimal } else { Kind::Int };
                (format!("AVG(CAST({} AS DOUBLE))", self.expr(of, scope, 1)), Kind::Double)
            }
        };
        let filter =
            if self.tape.chance(25) { format!(" FILTER (WHERE {})", self.condition(scope, 1)) } else { String::new() };
        let whole = format!("{sql}{filter}");
        // Averages and deviations are rounded differently: what compares them afterwards would see it.
        let rounded = kind == Kind::Double && !sql.starts_with("M") && !sql.starts_with("SUM");
        (if rounded { format!("ROUND(CAST({whole} AS DOUBLE), 3)") } else { whole }, kind)
    }

    fn set_operation(&mut self, depth: usize) -> Query {
        let left = self.select(depth - 1);
        let op = *self.tape.pick(&["UNION ALL", "UNION", "INTERSECT", "EXCEPT"]);
        let from = self.from(depth - 1);
        let items: Vec<String> = left.kinds.iter().map(|kind| self.expr(*kind, &from.scope, 1)).collect();
        let filter = self.filter(&from.scope, depth - 1);
        let right = format!("SELECT {} FROM {}{filter}", named(&items), from.sql);
        Query { sql: format!("{} {op} {right}", left.sql), kinds: left.kinds }
    }

    fn order(&mut self, columns: impl Iterator<Item = String>) -> String {
        let order = columns.map(|column| {
            let way = *self.tape.pick(&["ASC", "DESC"]);
            format!("{column} {way} NULLS {}", self.tape.pick(&["LAST", "FIRST"]))
        });
        order.collect::<Vec<_>>().join(", ")
    }

    fn ranked(&mut self, depth: usize) -> Query {
        let mut inner = self.query(depth - 1);
        let name = *self.tape.pick(&["ROW_NUMBER", "RANK", "DENSE_RANK"]);
        let all = inner.kinds.len();
        // A number of a row needs a total order.
        let first = self.tape.below(all);
        let ordered = if name == "ROW_NUMBER" { (first..all).chain(0..first).collect() } else { vec![first] };
        let order = self.order(ordered.into_iter().map(|at| format!("c{at}")));
        let by = if self.tape.chance(60) { format!("PARTITION BY c{} ", self.tape.below(all)) } else { String::new() };
        let bound = *self.tape.pick(&[
            "rn <= 2",
            "rn = 1",
            "rn < 3",
            "2 >= rn",
            "rn < 2.5",
            "rn <= 3 AND c0 IS NOT NULL",
            "rn BETWEEN 2 AND 3",
            "rn <= 2 AND rn <> 1",
        ]);
        let alias = self.alias();
        let columns: Vec<String> = (0..all).map(|at| format!("c{at}")).chain([format!("rn AS c{all}")]).collect();
        let ranked = format!("SELECT *, {name}() OVER ({by}ORDER BY {order}) AS rn FROM ({}) AS {alias}", inner.sql);
        inner.kinds.push(Kind::Int);
        Query { sql: format!("SELECT {} FROM ({ranked}) AS {alias} WHERE {bound}", columns.join(", ")), ..inner }
    }

    fn limited(&mut self, depth: usize) -> Query {
        let inner = self.query(depth - 1);
        let order = self.order((0..inner.kinds.len()).map(|at| format!("c{at}")));
        let (limit, offset) = (1 + self.tape.below(3), self.tape.below(3));
        let offset = if offset == 0 { String::new() } else { format!(" OFFSET {offset}") };
        let (alias, columns) = (self.alias(), all_columns(inner.kinds.len()));
        let sql = format!("SELECT {columns} FROM ({}) AS {alias} ORDER BY {order} LIMIT {limit}{offset}", inner.sql);
        let outer = self.alias();
        Query { sql: format!("SELECT {columns} FROM ({sql}) AS {outer}"), ..inner }
    }

    fn distinct_on(&mut self, depth: usize) -> Query {
        let inner = self.query(depth - 1);
        let order = self.order((0..inner.kinds.len()).map(|at| format!("c{at}")));
        let (alias, columns) = (self.alias(), all_columns(inner.kinds.len()));
        let sql = format!("SELECT DISTINCT ON (c0) {columns} FROM ({}) AS {alias} ORDER BY {order}", inner.sql);
        let outer = self.alias();
        Query { sql: format!("SELECT {columns} FROM ({sql}) AS {outer}"), ..inner }
    }

    /// A query over one that has a name, and may be read twice.
    fn with(&mut self, depth: usize) -> Query {
        let named = self.query(depth - 1);
        let name = format!("w{}", self.aliases);
        let columns = named.kinds.iter().enumerate().map(|(at, kind)| (format!("c{at}"), *kind)).collect();
        let table = Table { name: name.clone(), columns, keyed: false, grows: false };
        let before = std::mem::replace(&mut self.tables, vec![table]);
        let outer = match self.tape.below(3) {
            0 => self.select(depth),
            1 => self.aggregate(depth),
            _ => self.set_operation(depth),
        };
        self.tables = before;
        // Brackets, so that the name ends with the query where it stands inside of another.
        let (alias, columns) = (self.alias(), all_columns(outer.kinds.len()));
        let sql = format!("WITH {name} AS ({}) {}", named.sql, outer.sql);
        Query { sql: format!("SELECT {columns} FROM ({sql}) AS {alias}"), ..outer }
    }
}

fn columns(alias: &str, columns: impl IntoIterator<Item = (String, Kind)>) -> Vec<Column> {
    let column = |(name, kind)| Column { sql: format!("{alias}.{name}"), kind };
    columns.into_iter().map(column).collect()
}

fn named(items: &[String]) -> String {
    items.iter().enumerate().map(|(at, item)| format!("{item} AS c{at}")).collect::<Vec<_>>().join(", ")
}

fn all_columns(count: usize) -> String {
    (0..count).map(|at| format!("c{at}")).collect::<Vec<_>>().join(", ")
}

fn bracketed(from: &str) -> String {
    if from.contains(" JOIN ") && !from.starts_with('(') { format!("({from})") } else { from.to_owned() }
}

/// Kinds that columns of tables are of, the frequent ones first.
pub fn column_kind(tape: &mut Tape) -> Kind {
    if tape.chance(40) { *tape.pick(&super::kinds::ALL) } else { *tape.pick(&KINDS) }
}
