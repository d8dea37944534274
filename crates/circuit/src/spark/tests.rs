//! Each case as Spark answers it, in a session in UTC.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_cast::display::array_value_to_string;
use arrow_schema::Schema;

use super::*;

/// Two rows: values, and NULLs.
fn rows() -> RecordBatch {
    let time = |value: i64| TimestampMicrosecondArray::from(vec![Some(value), None]);
    let inner = StructArray::from(vec![(
        Arc::new(Field::new("x", DataType::Int32, true)),
        Arc::new(Int32Array::from(vec![Some(5), None])) as ArrayRef,
    )]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int32Array::from(vec![Some(-7), None]))),
        ("l", Arc::new(Int64Array::from(vec![Some(i64::MAX), None]))),
        ("d", Arc::new(Float64Array::from(vec![Some(-0.0), None]))),
        ("nan", Arc::new(Float64Array::from(vec![Some(f64::NAN), None]))),
        ("f", Arc::new(Float32Array::from(vec![Some(0.1), None]))),
        ("dec", Arc::new(Decimal128Array::from(vec![Some(150), None]).with_precision_and_scale(10, 2).unwrap())),
        ("t", Arc::new(StringArray::from(vec![Some(" Größe "), None]))),
        ("ok", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("day", Arc::new(Date32Array::from(vec![Some(19_782), None]))), // 2024-02-29
        ("at", Arc::new(time(-1).with_timezone("UTC"))),
        ("ntz", Arc::new(time(1_709_210_096_123_456))), // 2024-02-29 12:34:56.123456
        ("odd name", Arc::new(Int32Array::from(vec![Some(1), None]))),
        ("Inner", Arc::new(inner)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// The values of both rows, or the reason of the first that fails.
fn value(sql: &str) -> Result<String, String> {
    let batch = rows();
    let made = Scope { columns: &batch.schema() }.parse(sql).map_err(|refused| refused.to_string())?;
    let expression = RowExpression::new(made.expr, sql, &batch.schema()).map_err(|refused| refused.to_string())?;
    let evaluated = expression.evaluate(&batch);
    if let Some((_, why)) = evaluated.failed.into_iter().next() {
        return Err(format!("fails: {why}"));
    }
    let text = |row| match evaluated.values.is_null(row) {
        true => "NULL".to_owned(),
        false => array_value_to_string(&evaluated.values, row).unwrap(),
    };
    Ok(format!("{} | {}", text(0), text(1)))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn expressions_mean_what_they_mean_in_spark() {
    #[rustfmt::skip] // columns: expression, its value for the row of values and for the row of NULLs
    let cases = [
        ("i > 0",                                   "false | NULL"),
        ("i == -7",                                 "true | NULL"),
        ("i <=> NULL",                              "false | true"),
        ("NOT (i > 0 OR ok)",                       "false | NULL"),
        ("i IS NOT NULL AND ok",                    "true | false"),
        ("ok IS TRUE",                              "true | false"),
        ("ok IS NOT FALSE",                         "true | true"),
        ("i IN (1, -7)",                            "true | NULL"),
        ("i NOT IN (1, NULL)",                      "NULL | NULL"),
        ("i BETWEEN -7 AND 0",                      "true | NULL"),
        ("i % 4",                                   "-3 | NULL"),
        ("mod(i, 4) = -3",                          "true | NULL"),
        ("-i + 1",                                  "8 | NULL"),
        ("i * 2 - 1",                               "-15 | NULL"),
        ("abs(i)",                                  "7 | NULL"),
        ("d >= 0",                                  "true | NULL"),
        ("d = 0.0",                                 "true | NULL"),
        ("nan = nan",                               "true | NULL"),
        ("nan > 1e300",                             "true | NULL"),
        ("f > 0.1",                                 "true | NULL"),
        ("f < 1",                                   "true | NULL"),
        ("dec = 1.5",                               "true | NULL"),
        ("dec > 1.499999999999999999999",           "true | NULL"),
        ("dec > i",                                 "true | NULL"),
        ("l = 9223372036854775807",                 "true | NULL"),
        ("l < 9223372036854775808",                 "true | NULL"),
        ("`odd name` = 1",                          "true | NULL"),
        ("inner.X + 1",                             "6 | NULL"),
        ("length(t)",                               "7 | NULL"),
        ("upper(trim(t))",                          "GRÖSSE | NULL"),
        ("trim(t) = \"Größe\"",                     "true | NULL"),
        ("substring(trim(t), 2, 3)",                "röß | NULL"),
        ("substr(trim(t), 0, 2)",                   "Gr | NULL"),
        ("left(trim(t), 2)",                        "Gr | NULL"),
        ("concat('<', t, '>')",                     "< Größe > | NULL"),
        ("'a' || t",                                "a Größe  | NULL"),
        ("t LIKE '%öß_ '",                          "true | NULL"),
        ("t > 'a'",                                 "false | NULL"),
        ("coalesce(i, 3)",                          "-7 | 3"),
        ("IF(i < 0, 'neg', 'pos')",                 "neg | pos"),
        ("CASE WHEN i > 0 THEN 1 WHEN i < 0 THEN 2 END", "2 | NULL"),
        ("day >= '2024-02-29'",                     "true | NULL"),
        ("day < DATE '2024-03-01'",                 "true | NULL"),
        ("at < '1970-01-01'",                       "true | NULL"),
        ("at >= TIMESTAMP '1969-12-31 23:59:59.999999'", "true | NULL"),
        ("CAST(at AS DATE)",                        "1969-12-31 | NULL"),
        ("to_date(ntz)",                            "2024-02-29 | NULL"),
        ("year(at)",                                "1969 | NULL"),
        ("month(day)",                              "2 | NULL"),
        ("dayofmonth(day)",                         "29 | NULL"),
        ("quarter(day)",                            "1 | NULL"),
        ("HOUR(ntz)",                               "12 | NULL"),
        ("minute(ntz)",                             "34 | NULL"),
        ("date_format(at, 'yyyy-MM-dd HH:mm:ss')",  "1969-12-31 23:59:59 | NULL"),
        ("date_format(day, 'yyyyMM')",              "202402 | NULL"),
        ("date_trunc('MONTH', ntz)",                "2024-02-01T00:00:00 | NULL"),
        ("date_trunc('week', ntz)",                 "2024-02-26T00:00:00 | NULL"),
        ("CAST(i AS STRING)",                       "-7 | NULL"),
        ("CAST(day AS STRING)",                     "2024-02-29 | NULL"),
        ("CAST(i AS BIGINT)",                       "-7 | NULL"),
        ("CAST('2024-01-02' AS DATE) < day",        "true | NULL"),
        ("EXTRACT(YEAR FROM day)",                  "2024 | NULL"),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(sql, expected)| {
            let found = value(sql).unwrap_or_else(|why| why);
            (found != *expected).then(|| format!("{sql}: {found}, not {expected}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_not_sure_to_mean_the_same_is_refused() {
    #[rustfmt::skip]
    let cases = [
        "i / 2 > 0", "dec + 1 > 0", "i > 'a'", "t = 1", "l > f", "f > 16777217", "rand() > 0.5", "current_timestamp() > at",
        "t RLIKE 'a'", "t LIKE 'a\\%'", "'a\\n' = t", "substring(t, -2)", "CAST(t AS INT) > 0", "CAST(d AS STRING) = '1'",
        "at > 'yesterday'", "nothing > 0", "inner.nothing > 0", "i.x > 0", "date_format(at, 'MMM') = 'Jan'", "SELECT 1",
        "i >", "i > 0 i", "EXISTS (SELECT 1)", "at > ntz", "round(d) = 1", "d % 2 = 0", "count(i) > 0", "i", "t ILIKE 'a'",
    ];
    for sql in cases {
        let refused = RowExpression::condition(sql, &rows().schema());
        assert!(refused.is_err(), "{sql} was taken");
    }
}

#[test]
fn a_row_that_fails_is_told_alone() {
    assert!(value("l + 1 > 0").unwrap_err().starts_with("fails"));
    assert!(value("i % 0 = 0").unwrap_err().starts_with("fails"));
}

#[test]
fn values_go_into_columns_that_take_them() {
    let schema: SchemaRef = rows().schema();
    let none: SchemaRef = Arc::new(Schema::empty());
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    #[rustfmt::skip] // columns: expression, column's type, taken?
    let cases = [
        ("i + 1",                   DataType::Int32,              true),
        ("i + 1",                   DataType::Int8,               true),
        ("1",                       DataType::Float64,            true),
        ("0.5",                     DataType::Decimal128(10, 2),  true),
        ("'2024-01-01'",            DataType::Date32,             true),
        ("NULL",                    DataType::Utf8,               true),
        ("date_trunc('day', at)",   utc,                          true),
        ("t",                       DataType::Int32,              false),
        ("i",                       DataType::Utf8,               false),
        ("d",                       DataType::Int32,              false),
        ("'soon'",                  DataType::Date32,             false),
    ];
    for (sql, kind, taken) in cases {
        assert_eq!(RowExpression::column(sql, &schema, &kind).is_ok(), taken, "{sql} as {kind}");
    }
    assert!(RowExpression::column("i", &none, &DataType::Int32).is_err(), "a default names no column");
    let narrow = RowExpression::column("i * 100", &schema, &DataType::Int8).unwrap();
    assert_eq!(narrow.evaluate(&rows()).failed.len(), 1, "-700 is no byte");
}
