//! A source's columns: `(name TYPE [NOT NULL] [PRIMARY KEY], .., PRIMARY KEY (..), WATERMARK FOR ..)`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ColumnOption, ConstraintCharacteristics, DateTimeField, Expr, Interval, PrimaryKeyConstraint,
    TableConstraint, Value,
};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::{Cursor, is_word};
use super::error::{Place, Problem};
use super::nearest::did_you_mean;
use super::{Column, Lateness, Name, types};

/// What stands between the parentheses.
#[derive(Default)]
pub(super) struct Columns {
    pub columns: Vec<Column>,
    /// Positions in `columns`, in the order of the PRIMARY KEY.
    pub key: Vec<usize>,
    pub lateness: Option<Lateness>,
    key_place: Option<Place>,
}

/// Reads the parenthesised list.
pub(super) fn read(cursor: &mut Cursor) -> Result<Columns, Problem> {
    let start = cursor.place();
    let mut columns = Columns::default();
    let (mut keys, mut watermarks) = (Vec::new(), Vec::new());
    cursor.expect(&Token::LParen)?;
    while cursor.peek() != Token::RParen {
        let place = cursor.place();
        if starts_constraint(cursor) {
            keys.push((place, constraint(cursor, place)?));
        } else if is_word(&cursor.peek(), "WATERMARK") && is_word(&cursor.peek_second(), "FOR") {
            watermarks.push((place, watermark(cursor)?));
        } else {
            columns.column(cursor)?;
        }
        if !cursor.takes(&Token::Comma) && cursor.peek() != Token::RParen {
            return Err(cursor.expected("`,` or `)` after a column"));
        }
    }
    cursor.expect(&Token::RParen)?;
    if columns.columns.is_empty() {
        return Err(Problem::new(start, "a source has at least one column: (name TYPE, ..)"));
    }
    for (place, names) in keys {
        columns.set_key(place, &names)?;
    }
    for (place, late) in watermarks {
        columns.set_lateness(place, late)?;
    }
    columns.check_key()?;
    Ok(columns)
}

impl Columns {
    fn column(&mut self, cursor: &mut Cursor) -> Result<(), Problem> {
        let name = cursor.name("a column's name")?;
        if self.columns.iter().any(|column| column.name.text == name.text) {
            return Err(Problem::new(name.place, format!("there are two columns `{}`", name.text)));
        }
        let data_type = types::read(cursor)?;
        let mut column = Column { name, data_type, nullable: true };
        let mut is_key = None;
        loop {
            let place = cursor.place();
            match cursor.sql(|parser| parser.parse_optional_column_option())? {
                None => break,
                Some(ColumnOption::Null) => {}
                Some(ColumnOption::NotNull) => column.nullable = false,
                Some(ColumnOption::PrimaryKey(key)) => {
                    check_characteristics(key.characteristics, place)?;
                    is_key = Some(place);
                }
                Some(option) => return Err(refused_option(&option, place)),
            }
        }
        let own = [column.name.clone()];
        self.columns.push(column);
        is_key.map_or(Ok(()), |place| self.set_key(place, &own))
    }

    fn set_key(&mut self, place: Place, names: &[Name]) -> Result<(), Problem> {
        if let Some(first) = self.key_place.replace(place) {
            let message =
                format!("there is a PRIMARY KEY already, at {first}; write one PRIMARY KEY (a, b) for several");
            return Err(Problem::new(place, message));
        }
        for name in names {
            let at = self.position(name)?;
            if self.key.contains(&at) {
                return Err(Problem::new(name.place, format!("`{}` is in the key already", name.text)));
            }
            self.key.push(at);
        }
        Ok(())
    }

    fn check_key(&mut self) -> Result<(), Problem> {
        for at in &self.key {
            let column = &mut self.columns[*at];
            if !types::can_be_key(&column.data_type) {
                let what = "a key is made of numbers without fraction, DECIMALs, texts, dates and the like";
                let message = format!("`{}` can't be in a PRIMARY KEY: {what}", column.name.text);
                return Err(Problem::new(column.name.place, message));
            }
            column.nullable = false;
        }
        Ok(())
    }

    fn set_lateness(&mut self, place: Place, late: (Name, u64)) -> Result<(), Problem> {
        if self.lateness.is_some() {
            return Err(Problem::new(place, "there is a WATERMARK already; a source has one"));
        }
        let (name, lateness_us) = late;
        let column = self.position(&name)?;
        if !matches!(self.columns[column].data_type, arrow_schema::DataType::Timestamp(..)) {
            let message = format!("`{}` can't have a WATERMARK: it is no TIMESTAMP or TIMESTAMPTZ", name.text);
            return Err(Problem::new(name.place, message));
        }
        self.lateness = Some(Lateness { column, lateness_us, place });
        Ok(())
    }

    fn position(&self, name: &Name) -> Result<usize, Problem> {
        let names = self.columns.iter().map(|column| column.name.text.as_str());
        let at = names.clone().position(|known| known == name.text);
        at.ok_or_else(|| {
            let near = did_you_mean(&name.text, names);
            Problem::new(name.place, format!("the source has no column `{}`{near}", name.text))
        })
    }
}

fn starts_constraint(cursor: &Cursor) -> bool {
    let first = cursor.peek();
    is_word(&first, "CONSTRAINT")
        || is_word(&first, "CHECK")
        || is_word(&first, "UNIQUE") && cursor.peek_second() == Token::LParen
        || ["PRIMARY", "FOREIGN"].iter().any(|word| is_word(&first, word)) && is_word(&cursor.peek_second(), "KEY")
}

/// The columns of a PRIMARY KEY; another constraint is refused.
fn constraint(cursor: &mut Cursor, place: Place) -> Result<Vec<Name>, Problem> {
    let found = cursor.sql(|parser| parser.parse_optional_table_constraint())?;
    let Some(TableConstraint::PrimaryKey(key)) = found else {
        return Err(Problem::new(place, "a source takes PRIMARY KEY (a, b) and no other constraint"));
    };
    let PrimaryKeyConstraint { index_name: None, index_type: None, columns, index_options, characteristics, .. } = key
    else {
        return Err(Problem::new(place, "a PRIMARY KEY here is columns alone: PRIMARY KEY (a, b)"));
    };
    check_characteristics(characteristics, place)?;
    if !index_options.is_empty() {
        return Err(Problem::new(place, "a PRIMARY KEY here is columns alone: PRIMARY KEY (a, b)"));
    }
    columns.iter().map(|column| key_column(&column.column.expr, place)).collect()
}

fn key_column(expression: &Expr, place: Place) -> Result<Name, Problem> {
    let Expr::Identifier(name) = expression else {
        return Err(Problem::new(place, format!("`{expression}` is no column; a PRIMARY KEY names columns")));
    };
    Ok(Name::of(name))
}

/// Flink's NOT ENFORCED says nothing new; what else there is would be a promise that nobody keeps.
fn check_characteristics(found: Option<ConstraintCharacteristics>, place: Place) -> Result<(), Problem> {
    match found {
        None | Some(ConstraintCharacteristics { deferrable: None, initially: None, enforced: Some(false) }) => Ok(()),
        Some(other) => Err(Problem::new(place, format!("leave `{other}` out: a later message replaces its key's row"))),
    }
}

fn refused_option(option: &ColumnOption, place: Place) -> Problem {
    let instead = match option {
        ColumnOption::Default(_) => "write COALESCE(column, value) in a view",
        ColumnOption::Generated { .. } | ColumnOption::Alias(_) | ColumnOption::Materialized(_) => {
            "compute it in a view"
        }
        ColumnOption::Unique(_) => "write PRIMARY KEY where a later message replaces the row, or leave it out",
        ColumnOption::Check(_) => "filter in a view",
        ColumnOption::Comment(_) => "write a comment: -- text",
        _ => "leave it out",
    };
    Problem::new(place, format!("a source's column takes NOT NULL and PRIMARY KEY, not `{option}`; {instead}"))
}

/// `WATERMARK FOR column AS column - INTERVAL '5 seconds'`: the column and the lateness in microseconds.
fn watermark(cursor: &mut Cursor) -> Result<(Name, u64), Problem> {
    cursor.expect_word("WATERMARK")?;
    cursor.expect_word("FOR")?;
    let name = cursor.name("a column's name")?;
    cursor.expect_word("AS")?;
    let place = cursor.place();
    let expression = cursor.sql(|parser| parser.parse_expr())?;
    let lateness_us = match &expression {
        Expr::Identifier(same) if Name::of(same).text == name.text => Some(0),
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => match (&**left, &**right) {
            (Expr::Identifier(same), Expr::Interval(interval)) if Name::of(same).text == name.text => {
                microseconds(interval)
            }
            _ => None,
        },
        _ => None,
    };
    let lateness_us = lateness_us.ok_or_else(|| {
        let column = &name.text;
        let message = format!("a WATERMARK is the column less a time: {column} - INTERVAL '5 seconds'");
        Problem::new(place, message)
    })?;
    Ok((name, lateness_us))
}

/// `INTERVAL '5 seconds'` or `INTERVAL '5' SECOND`: a whole number of one unit.
fn microseconds(interval: &Interval) -> Option<u64> {
    let Interval { value, leading_field, leading_precision: None, last_field: None, .. } = interval else {
        return None;
    };
    let Expr::Value(value) = &**value else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let unit_in_text = text.split_whitespace().nth(1).map(str::to_ascii_lowercase);
    let unit = match (leading_field, unit_in_text) {
        (None, Some(unit)) => unit,
        (Some(field), None) => unit_of(field)?.to_owned(),
        _ => return None,
    };
    if text.split_whitespace().count() > 2 {
        return None;
    }
    let unit_us = match unit.strip_suffix('s').unwrap_or(&unit) {
        "microsecond" => 1,
        "millisecond" => 1_000,
        "second" => 1_000_000,
        "minute" => 60_000_000,
        "hour" => 3_600_000_000,
        "day" => 86_400_000_000,
        _ => return None,
    };
    let count: u64 = text.split_whitespace().next()?.parse().ok()?;
    count.checked_mul(unit_us).filter(|lateness_us| i64::try_from(*lateness_us).is_ok())
}

fn unit_of(field: &DateTimeField) -> Option<&'static str> {
    match field {
        DateTimeField::Millisecond | DateTimeField::Milliseconds => Some("millisecond"),
        DateTimeField::Second | DateTimeField::Seconds => Some("second"),
        DateTimeField::Minute | DateTimeField::Minutes => Some("minute"),
        DateTimeField::Hour | DateTimeField::Hours => Some("hour"),
        DateTimeField::Day | DateTimeField::Days => Some("day"),
        _ => None,
    }
}
