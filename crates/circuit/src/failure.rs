//! Rows that an expression failed for.

use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;

/// A row that is not in the view because an expression of it fails. Should the row go, the same comes with the
/// opposite weight: failures are a Z-set as the view is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Failure {
    /// Which operator, as `explain` names it.
    pub operator: String,
    /// The expression, and why it fails.
    pub reason: String,
    /// The row that went into the operator, as a JSON object.
    pub row: String,
    /// How many copies of it came (above zero) or went (below).
    pub weight: i64,
}

/// Where the workers of a circuit put what failed in a step.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<Mutex<Vec<Failure>>>);

impl Failures {
    /// Notes row `row` of `batch`.
    pub fn note(&self, operator: &str, reason: String, batch: &RecordBatch, row: usize, weight: i64) {
        let failure = Failure { operator: operator.to_owned(), reason, row: shown(batch, row), weight };
        self.0.lock().expect("no worker panics while it holds this").push(failure);
    }

    /// Takes all that were noted.
    #[must_use]
    pub fn take(&self) -> Vec<Failure> {
        std::mem::take(&mut self.0.lock().expect("no worker panics while it holds this"))
    }
}

/// Row `row` as a JSON object. Behind a join columns may have one name: then the second is `name_2`, or the next one
/// that is free.
fn shown(batch: &RecordBatch, row: usize) -> String {
    let mut names: Vec<String> = Vec::with_capacity(batch.num_columns());
    let mut fields = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let (mut name, mut number) = (field.name().clone(), 1);
        while names.contains(&name) {
            number += 1;
            name = format!("{}_{number}", field.name());
        }
        fields.push(format!("{}:{}", quoted(&name), json(column, row)));
        names.push(name);
    }
    format!("{{{}}}", fields.join(","))
}

/// A value as JSON: numbers with all of their digits, and as text what JSON has no form for.
fn json(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) || *column.data_type() == DataType::Null {
        return "null".to_owned();
    }
    let items = |values: &ArrayRef| (0..values.len()).map(|at| json(values, at)).collect::<Vec<_>>().join(",");
    match column.data_type() {
        DataType::List(_) => format!("[{}]", items(&column.as_list::<i32>().value(row))),
        DataType::Struct(fields) => {
            let values = fields.iter().zip(column.as_struct().columns());
            let values = values.map(|(field, value)| format!("{}:{}", quoted(field.name()), json(value, row)));
            format!("{{{}}}", values.collect::<Vec<_>>().join(","))
        }
        kind => {
            let formatter = ArrayFormatter::try_new(column, &FormatOptions::default());
            let text = formatter.map_or_else(|_| "?".to_owned(), |formatter| formatter.value(row).to_string());
            let is_finite = || text.parse::<f64>().is_ok_and(f64::is_finite);
            let bare = kind.is_integer() || kind.is_decimal() || *kind == DataType::Boolean;
            if bare || (kind.is_floating() && is_finite()) { text } else { quoted(&text) }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{Int32Builder, ListBuilder};
    use arrow_array::{BooleanArray, Decimal128Array, Float64Array, Int64Array, StringArray, StructArray};
    use arrow_schema::{Field, Schema};

    use super::*;

    #[test]
    fn a_row_is_json_with_all_of_its_columns() {
        let text = StringArray::from(vec![Some("a \"b\"\n"), None]);
        let number = Int64Array::from(vec![i64::MAX, -1]);
        let decimal = Decimal128Array::from(vec![Some(10_i128.pow(37) + 1), None]).with_precision_and_scale(38, 2);
        let double = Float64Array::from(vec![0.1, f64::NAN]);
        let mut list = ListBuilder::new(Int32Builder::new());
        list.append_value([Some(1), None]);
        list.append_value([]);
        let part: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
        let nested = StructArray::from(vec![(Arc::new(Field::new("x", DataType::Boolean, true)), part)]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(text)),
            ("n", Arc::new(number.clone())),
            ("n_2", Arc::new(number.clone())),
            ("n", Arc::new(number)),
            ("d", Arc::new(decimal.unwrap())),
            ("f", Arc::new(double)),
            ("l", Arc::new(list.finish())),
            ("s", Arc::new(nested)),
        ];
        let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema, columns.into_iter().map(|(_, column)| column).collect()).unwrap();
        let big = i64::MAX;
        let first = format!(
            r#"{{"a":"a \"b\"\n","n":{big},"n_2":{big},"n_3":{big},"d":100000000000000000000000000000000000.01,"f":0.1,"l":[1,null],"s":{{"x":true}}}}"#
        );
        let second = r#"{"a":null,"n":-1,"n_2":-1,"n_3":-1,"d":null,"f":"NaN","l":[],"s":{"x":false}}"#;
        assert_eq!([shown(&batch, 0), shown(&batch, 1)], [first.as_str(), second]);
    }
}
