//! Types of columns, and few values of each, so that they meet often.

use super::tape::Tape;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Big,
    Double,
    Text,
    Bool,
    Date,
    Time,
    Decimal,
}

use Kind::{Big, Bool, Date, Decimal, Double, Int, Text, Time};

pub const ALL: [Kind; 8] = [Int, Text, Double, Big, Decimal, Date, Time, Bool];

/// A table or view: its name and columns.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<(String, Kind)>,
    /// Whether its first column is its key.
    pub keyed: bool,
    /// Whether rows only come.
    pub grows: bool,
}

impl Kind {
    /// In SQL's words.
    pub fn name(self) -> &'static str {
        match self {
            Int => "INT",
            Big => "BIGINT",
            Double => "DOUBLE",
            Text => "VARCHAR",
            Bool => "BOOLEAN",
            Date => "DATE",
            Time => "TIMESTAMP",
            Decimal => "DECIMAL(10,2)",
        }
    }

    pub fn is_number(self) -> bool {
        matches!(self, Int | Big | Double | Decimal)
    }

    fn values(self) -> &'static [&'static str] {
        match self {
            Int => &["1", "0", "2", "3", "-1", "7"],
            Big => &["1", "0", "2", "5000000000", "-3"],
            Double => &["0.5", "0.0", "1.25", "-2.75", "3.0"],
            Text => &["a", "", "b", "ab", "A", "a%", "_b", "é", "NULL", "10"],
            Bool => &["true", "false"],
            Date => &["2024-01-31", "2024-02-29", "1969-12-31", "2023-12-31"],
            Time => &[
                "2024-01-31 10:00:00",
                "1969-12-31 23:59:59.5",
                "2024-02-29 00:00:00.000001",
                "2024-01-31 10:45:30",
                "2023-12-31 00:00:00",
            ],
            Decimal => &["1.50", "0.00", "0.01", "-2.25", "10.00", "99.99"],
        }
    }

    fn wild_values(self) -> &'static [&'static str] {
        match self {
            Double => &["-0.0", "NaN", "inf", "-inf", "0.0"],
            Date => &["9999-12-30", "0001-06-02"],
            Time => &["9999-12-30 12:00:00", "0001-06-02 00:00:00", "1677-01-01 00:00:00"],
            other => other.values(),
        }
    }

    /// A value as text; `wild` ones are those that one of the judges is known to be wrong for.
    pub fn value(self, tape: &mut Tape, wild: bool) -> &'static str {
        if wild && tape.chance(30) {
            self.wild_values()[tape.below(self.wild_values().len())]
        } else {
            self.values()[tape.below(self.values().len())]
        }
    }

    /// A value as SQL, NULL at times.
    pub fn literal(self, tape: &mut Tape, wild: bool) -> String {
        if tape.chance(12) {
            return format!("CAST(NULL AS {})", self.name());
        }
        let value = self.value(tape, wild);
        self.written(value)
    }

    /// `value` as SQL.
    pub fn written(self, value: &str) -> String {
        match self {
            Int | Bool => format!("({value})"),
            Text => format!("'{value}'"),
            Date => format!("DATE '{value}'"),
            Time => format!("TIMESTAMP '{value}'"),
            Big | Decimal => format!("CAST({value} AS {})", self.name()),
            Double => format!("CAST('{value}' AS DOUBLE)"),
        }
    }
}
