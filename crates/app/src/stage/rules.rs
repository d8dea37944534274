//! The table's rules over decoded rows: columns that are made or have a default, then CHECK constraints and invariants.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::filter::filter;
use arrow_select::zip::zip;
use lakeward_circuit::refused::Refused;
use lakeward_circuit::spark::RowExpression;
use lakeward_decode::Decoded;
use lakeward_delta::Layout;
use lakeward_protocol::records::Records;
use serde::de::IgnoredAny;

use super::sifted::Rows;

/// The rules of one layout, ready to be kept.
pub(super) struct RowRules {
    /// As messages are decoded: what is made later may be NULL.
    decoded: SchemaRef,
    table: SchemaRef,
    defaults: Vec<Default>,
    generated: Vec<Generated>,
    checks: Vec<(String, RowExpression)>,
}

struct Default {
    column: usize,
    name: String,
    /// Of one row.
    value: ArrayRef,
}

struct Generated {
    column: usize,
    value: RowExpression,
    /// Is what is there the same?
    same: RowExpression,
}

/// A rule that can't be kept.
#[derive(Debug)]
pub(super) struct Unkept {
    /// Which.
    pub rule: String,
    /// Why not.
    pub reason: Box<Refused>,
}

/// Rows by the rules.
pub(super) struct Judged {
    /// Those that hold by them, of the table's schema.
    pub batch: RecordBatch,
    /// Which rows these were, where some are left out.
    kept: Option<Vec<usize>>,
    /// The rows left out, and why.
    pub failed: BTreeMap<usize, String>,
}

impl Judged {
    /// Which rows the batch's were.
    pub(super) fn into_rows(self) -> Rows {
        Rows(self.kept)
    }
}

impl RowRules {
    /// Those of a layout; `None` where there is none. `are_json`: messages tell which columns they name.
    ///
    /// # Errors
    /// The first one that we can't keep.
    pub(super) fn new(layout: &Layout, are_json: bool) -> Result<Option<Self>, Unkept> {
        let (rules, table) = (layout.rules(), layout.schema());
        if rules.is_empty() {
            return Ok(None);
        }
        let is_made =
            |field: &Field| rules.generated.iter().chain(&rules.defaults).any(|made| made.column == *field.name());
        let loose = table.fields().iter().map(|field| {
            if is_made(field) { Arc::new(field.as_ref().clone().with_nullable(true)) } else { Arc::clone(field) }
        });
        let decoded: SchemaRef = Arc::new(Schema::new(loose.collect::<Vec<_>>()));
        let unkept = |rule: String| move |reason| Unkept { rule, reason: Box::new(reason) };
        let mut ready =
            Self { decoded, table: Arc::clone(table), defaults: Vec::new(), generated: Vec::new(), checks: Vec::new() };
        for made in &rules.defaults {
            let rule = format!("the default of column {} ({})", made.column, made.sql);
            let default = match are_json {
                true => ready.default(&made.column, &made.sql),
                false => Err(Refused::new("only JSON messages tell whether they name a column")),
            };
            ready.defaults.push(default.map_err(unkept(rule))?);
        }
        for made in &rules.generated {
            let rule = format!("generated column {} ({})", made.column, made.sql);
            ready.generated.push(ready.generated(&made.column, &made.sql).map_err(unkept(rule))?);
        }
        for check in &rules.checks {
            let rule = format!("{} ({})", check.name, check.sql);
            let condition = RowExpression::condition(&check.sql, &ready.decoded).map_err(unkept(rule.clone()))?;
            ready.checks.push((rule, condition));
        }
        Ok(Some(ready))
    }

    /// A constant: what hangs on a row or on the clock is none.
    fn default(&self, name: &str, sql: &str) -> Result<Default, Refused> {
        let (column, field) = self.decoded.column_with_name(name).ok_or_else(|| Refused::new("no such column"))?;
        let none: SchemaRef = Arc::new(Schema::empty());
        let expression = RowExpression::column(sql, &none, field.data_type())?;
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(none, Vec::new(), &options).expect("one row of no column");
        let evaluated = expression.evaluate(&row);
        match evaluated.failed.into_iter().next() {
            Some((_, why)) => Err(Refused::new(why)),
            None => Ok(Default { column, name: name.to_owned(), value: evaluated.values }),
        }
    }

    fn generated(&self, name: &str, sql: &str) -> Result<Generated, Refused> {
        let (column, field) = self.decoded.column_with_name(name).ok_or_else(|| Refused::new("no such column"))?;
        let value = RowExpression::column(sql, &self.decoded, field.data_type())?;
        let quoted = name.replace('`', "``");
        let same = RowExpression::condition(&format!("`{quoted}` <=> ({sql})"), &self.decoded)?;
        Ok(Generated { column, value, same })
    }

    /// What messages are decoded into.
    pub(super) fn decoded_schema(&self) -> &SchemaRef {
        &self.decoded
    }

    /// Makes what is to be made, and parts the rows.
    pub(super) fn judge(&self, batch: RecordBatch, records: &Records, decoded: &Decoded) -> Judged {
        let mut failed = BTreeMap::new();
        let mut columns = batch.columns().to_vec();
        for default in &self.defaults {
            columns[default.column] = default.fill(&columns[default.column], records, decoded);
        }
        let mut batch = self.rebuilt(columns);
        for generated in &self.generated {
            let made = generated.make(&batch, &mut failed);
            let mut columns = batch.columns().to_vec();
            columns[generated.column] = made;
            batch = self.rebuilt(columns);
        }
        for (field, column) in self.table.fields().iter().zip(batch.columns()) {
            if !field.is_nullable() && column.null_count() > 0 {
                for row in (0..column.len()).filter(|row| column.is_null(*row)) {
                    failed
                        .entry(row)
                        .or_insert_with(|| format!("{}: no value, and the column is NOT NULL", field.name()));
                }
            }
        }
        for (rule, condition) in &self.checks {
            check(rule, condition, &batch, &mut failed);
        }
        self.parted(&batch, failed)
    }

    fn rebuilt(&self, columns: Vec<ArrayRef>) -> RecordBatch {
        RecordBatch::try_new(Arc::clone(&self.decoded), columns).expect("columns of the same types")
    }

    fn parted(&self, batch: &RecordBatch, failed: BTreeMap<usize, String>) -> Judged {
        let table = |columns| RecordBatch::try_new(Arc::clone(&self.table), columns).expect("rows of the table");
        if failed.is_empty() {
            return Judged { batch: table(batch.columns().to_vec()), kept: None, failed };
        }
        let kept: Vec<usize> = (0..batch.num_rows()).filter(|row| !failed.contains_key(row)).collect();
        let mask: BooleanArray = (0..batch.num_rows()).map(|row| Some(!failed.contains_key(&row))).collect();
        let columns = batch.columns().iter().map(|column| filter(column, &mask).expect("a mask of its length"));
        Judged { batch: table(columns.collect()), kept: Some(kept), failed }
    }
}

impl Default {
    /// NULL stays where a message says so.
    fn fill(&self, column: &ArrayRef, records: &Records, decoded: &Decoded) -> ArrayRef {
        if column.null_count() == 0 {
            return Arc::clone(column);
        }
        let lacks = |row: usize| {
            let value = records.value(&records.entries()[decoded.entry_of(row)]);
            column.is_null(row) && !value.is_some_and(|value| names(value, &self.name))
        };
        let mask: BooleanArray = (0..column.len()).map(|row| Some(lacks(row))).collect();
        let value = arrow_array::Scalar::new(Arc::clone(&self.value));
        zip(&mask, &value, column).expect("a value of the column's type")
    }
}

/// Has the message a field of this name? It was decoded, so it is an object.
fn names(message: &[u8], name: &str) -> bool {
    let keys = serde_json::from_slice::<HashMap<Cow<'_, str>, IgnoredAny>>(message);
    keys.is_ok_and(|keys| keys.contains_key(name))
}

impl Generated {
    /// The column with a value in each row; one that is there and another than it would be made fails.
    fn make(&self, batch: &RecordBatch, failed: &mut BTreeMap<usize, String>) -> ArrayRef {
        let (made, there) = (self.value.evaluate(batch), batch.column(self.column));
        let name = batch.schema_ref().field(self.column).name();
        for (row, why) in made.failed {
            failed.entry(row).or_insert_with(|| format!("{name}: it can't be made: {why}"));
        }
        let missing: BooleanArray = (0..there.len()).map(|row| Some(there.is_null(row))).collect();
        if missing.true_count() < missing.len() {
            let same = self.same.evaluate(batch).values;
            let same = same.as_boolean();
            for row in (0..there.len()).filter(|row| there.is_valid(*row) && !(same.is_valid(*row) && same.value(*row)))
            {
                let shown = |array: &ArrayRef| array_value_to_string(array, row).unwrap_or_default();
                failed.entry(row).or_insert_with(|| {
                    let (is, would) = (shown(there), shown(&made.values));
                    format!("{name}: it is {is}, and its expression ({}) makes {would}", self.value.sql())
                });
            }
        }
        zip(&missing, &made.values, there).expect("two columns of one type")
    }
}

fn check(rule: &str, condition: &RowExpression, batch: &RecordBatch, failed: &mut BTreeMap<usize, String>) {
    let evaluated = condition.evaluate(batch);
    for (row, why) in evaluated.failed {
        failed.entry(row).or_insert_with(|| format!("{rule} can't be evaluated: {why}"));
    }
    let holds = evaluated.values.as_boolean();
    if holds.null_count() == 0 && holds.true_count() == holds.len() {
        return;
    }
    for row in (0..holds.len()).filter(|row| holds.is_null(*row) || !holds.value(*row)) {
        let is = if holds.is_null(row) { "NULL" } else { "false" };
        failed.entry(row).or_insert_with(|| format!("{rule} is {is}"));
    }
}
