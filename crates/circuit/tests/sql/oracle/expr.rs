//! Expressions and conditions over columns in scope.

use super::kinds::Kind;
use super::query::Maker;

/// A column that expressions may name.
#[derive(Clone, Debug)]
pub struct Column {
    pub sql: String,
    pub kind: Kind,
}

/// Stands for the division of integers, which dialects write differently.
pub const DIVIDED: &str = "\u{1}";

impl Maker<'_> {
    /// An expression of `kind`.
    pub fn expr(&mut self, kind: Kind, scope: &[Column], depth: usize) -> String {
        let own: Vec<String> = scope.iter().filter(|column| column.kind == kind).map(|c| c.sql.clone()).collect();
        if depth == 0 || !self.tape.chance(45) {
            if own.is_empty() || self.tape.chance(15) {
                return kind.literal(self.tape, self.wild);
            }
            return self.tape.pick(&own).clone();
        }
        let less = depth - 1;
        match self.tape.below(8) {
            0 => {
                let (when, then) = (self.condition(scope, less), self.expr(kind, scope, less));
                format!("CASE WHEN {when} THEN {then} ELSE {} END", self.expr(kind, scope, less))
            }
            1 => format!("COALESCE({}, {})", self.expr(kind, scope, less), self.expr(kind, scope, less)),
            2 => format!("NULLIF({}, {})", self.expr(kind, scope, less), self.expr(kind, scope, less)),
            3 if kind != Kind::Bool => {
                let name = *self.tape.pick(&["GREATEST", "LEAST"]);
                format!("{name}({}, {})", self.expr(kind, scope, less), self.expr(kind, scope, less))
            }
            4 => {
                let of = *self.tape.pick(&[Kind::Int, Kind::Text, Kind::Double]);
                let (base, when) = (self.expr(of, scope, less), of.literal(self.tape, self.wild));
                format!("CASE {base} WHEN {when} THEN {} END", self.expr(kind, scope, less))
            }
            _ => self.computed(kind, scope, less),
        }
    }

    fn computed(&mut self, kind: Kind, scope: &[Column], depth: usize) -> String {
        match kind {
            Kind::Int => self.int(scope, depth),
            Kind::Double => self.double(scope, depth),
            Kind::Text => self.text(scope, depth),
            Kind::Bool => format!("({})", self.condition(scope, depth)),
            Kind::Big | Kind::Decimal => {
                let (left, right) = (self.expr(kind, scope, depth), self.expr(kind, scope, depth));
                match self.tape.below(4) {
                    0 => format!("({left} + {right})"),
                    1 => format!("({left} - {right})"),
                    2 => format!("ABS({left})"),
                    _ => format!("CAST({} AS {})", self.expr(Kind::Int, scope, depth), kind.name()),
                }
            }
            Kind::Date => match self.tape.below(3) {
                0 => format!("CAST({} AS DATE)", self.expr(Kind::Time, scope, depth)),
                1 => format!("CAST({} + INTERVAL '1 day' AS DATE)", self.expr(Kind::Date, scope, depth)),
                _ => format!("CAST(DATE_TRUNC('month', {}) AS DATE)", self.expr(Kind::Date, scope, depth)),
            },
            Kind::Time => {
                let time = self.expr(Kind::Time, scope, depth);
                match self.tape.below(5) {
                    0 => {
                        let unit = *self.tape.pick(&["hour", "minute", "day", "week", "month", "year", "quarter"]);
                        format!("DATE_TRUNC('{unit}', {time})")
                    }
                    1 => format!("({time} + INTERVAL '90 minutes')"),
                    2 => format!("({time} - INTERVAL '1 month')"),
                    3 => format!("DATE_BIN(INTERVAL '30 seconds', {time})"),
                    _ => format!("CAST({} AS TIMESTAMP)", self.expr(Kind::Date, scope, depth)),
                }
            }
        }
    }

    fn int(&mut self, scope: &[Column], depth: usize) -> String {
        let a = self.expr(Kind::Int, scope, depth);
        match self.tape.below(12) {
            0 => format!("({a} + {})", self.expr(Kind::Int, scope, depth)),
            1 => format!("({a} - {})", self.expr(Kind::Int, scope, depth)),
            2 => format!("({a} * {})", self.expr(Kind::Int, scope, depth)),
            3 => format!("({a} % 3)"),
            4 => format!("({a} {DIVIDED} 2)"),
            5 => format!("({a} {DIVIDED} NULLIF({}, 0))", self.expr(Kind::Int, scope, depth)),
            6 => format!("(- {a})"),
            7 => format!("ABS({a})"),
            8 => format!("CAST(LENGTH({}) AS INT)", self.expr(Kind::Text, scope, depth)),
            9 => format!("CAST(STRPOS({}, 'b') AS INT)", self.expr(Kind::Text, scope, depth)),
            10 => {
                let unit = *self.tape.pick(&["YEAR", "MONTH", "DAY", "DOW", "DOY", "WEEK", "QUARTER"]);
                let of = *self.tape.pick(&[Kind::Date, Kind::Time]);
                format!("CAST(EXTRACT({unit} FROM {}) AS INT)", self.expr(of, scope, depth))
            }
            _ => format!("CAST({} AS INT)", self.expr(Kind::Bool, scope, depth)),
        }
    }

    fn double(&mut self, scope: &[Column], depth: usize) -> String {
        let a = self.expr(Kind::Double, scope, depth);
        match self.tape.below(9) {
            0 => format!("({a} + {})", self.expr(Kind::Double, scope, depth)),
            1 => format!("({a} - {})", self.expr(Kind::Double, scope, depth)),
            2 => format!("({a} * {})", self.expr(Kind::Double, scope, depth)),
            3 => format!("({a} / CAST(2 AS DOUBLE))"),
            4 => format!("FLOOR({a})"),
            5 => format!("CEIL({a})"),
            6 => format!("ABS({a})"),
            7 => format!("(- {a})"),
            _ => format!("CAST({} AS DOUBLE)", self.expr(Kind::Int, scope, depth)),
        }
    }

    fn text(&mut self, scope: &[Column], depth: usize) -> String {
        let a = self.expr(Kind::Text, scope, depth);
        match self.tape.below(13) {
            0 => format!("({a} || {})", self.expr(Kind::Text, scope, depth)),
            1 => format!("UPPER({a})"),
            2 => format!("LOWER({a})"),
            3 => format!("SUBSTR({a}, 2)"),
            4 => format!("SUBSTR({a}, 1, 1)"),
            5 => format!("REPLACE({a}, 'a', 'xy')"),
            6 => format!("TRIM({a})"),
            7 => format!("REVERSE({a})"),
            8 => format!("LPAD({a}, 3, 'x')"),
            9 => format!("LEFT({a}, 1)"),
            10 => format!("CONCAT({a}, {})", self.expr(Kind::Text, scope, depth)),
            11 => format!("REGEXP_REPLACE({a}, '[ab]', 'z')"),
            _ => {
                let of = *self.tape.pick(&[Kind::Int, Kind::Date, Kind::Bool, Kind::Big]);
                format!("CAST({} AS VARCHAR)", self.expr(of, scope, depth))
            }
        }
    }

    /// A condition without subqueries.
    pub fn condition(&mut self, scope: &[Column], depth: usize) -> String {
        let kind = self.kind_in(scope);
        let choice = self.tape.below(if depth == 0 { 7 } else { 11 });
        let less = depth.saturating_sub(1);
        let a = self.expr(kind, scope, less);
        match choice {
            0 | 1 => {
                let op = *self.tape.pick(&["=", "<>", "<", "<=", ">", ">="]);
                format!("{a} {op} {}", self.expr(kind, scope, less))
            }
            2 => format!("{a} IS {}NULL", self.tape.pick(&["", "NOT "])),
            3 => {
                let not = *self.tape.pick(&["", "NOT "]);
                let list = (0..=self.tape.below(3)).map(|_| kind.literal(self.tape, self.wild));
                format!("{a} {not}IN ({})", list.collect::<Vec<_>>().join(", "))
            }
            4 => format!("{a} BETWEEN {} AND {}", self.expr(kind, scope, less), self.expr(kind, scope, less)),
            5 => {
                let not = *self.tape.pick(&["", "NOT "]);
                format!("({a} IS {not}DISTINCT FROM {})", self.expr(kind, scope, less))
            }
            6 => {
                let text = self.expr(Kind::Text, scope, less);
                let not = *self.tape.pick(&["", "NOT "]);
                let like = *self.tape.pick(&["LIKE", "ILIKE"]);
                format!("{text} {not}{like} '{}'", self.tape.pick(&["a%", "%b", "_", "%", "a_", "A%", "", "%a%"]))
            }
            7 => format!("({} AND {})", self.condition(scope, less), self.condition(scope, less)),
            8 => format!("({} OR {})", self.condition(scope, less), self.condition(scope, less)),
            9 => format!("(NOT ({}))", self.condition(scope, less)),
            _ => {
                let is = *self.tape.pick(&["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS NULL"]);
                format!("({}) {is}", self.condition(scope, less))
            }
        }
    }

    /// A kind that the scope has.
    pub fn kind_in(&mut self, scope: &[Column]) -> Kind {
        if scope.is_empty() { Kind::Int } else { self.tape.pick(scope).kind }
    }
}
