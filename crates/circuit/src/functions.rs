//! Functions that take the place of DataFusion's, where those go wrong in silence.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{IntervalMonthDayNanoType, TimestampMicrosecondType};
use arrow_array::{Array, TimestampMicrosecondArray};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use chrono::{DateTime, Datelike, Months, NaiveDateTime};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::codec::normalised;

/// All of them.
#[must_use]
pub fn all() -> Vec<ScalarUDF> {
    vec![ScalarUDF::new_from_impl(DateBin::default()), ScalarUDF::new_from_impl(DateTrunc::default())]
}

/// `date_bin(stride, time [, origin])`: the start of the bin that a time lies in; bins begin at the origin, which is
/// 1970-01-01 unless given. Times are of microseconds: DataFusion's own counts nanoseconds, and is NULL outside of the
/// years 1677 to 2262.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DateBin {
    signature: Signature,
}

impl Default for DateBin {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for DateBin {
    fn name(&self) -> &'static str {
        "date_bin"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(arguments[1].clone())
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>, DataFusionError> {
        let wrong =
            || Err(DataFusionError::Plan("date_bin takes an interval, a timestamp and, if any, an origin".into()));
        let time = |kind: &DataType| match kind {
            DataType::Timestamp(_, zone) => Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone())),
            DataType::Date32 | DataType::Date64 | DataType::Utf8 | DataType::Null => {
                Some(DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            _ => None,
        };
        let (Some(_), Some(Some(source))) = (arguments.first(), arguments.get(1).map(time)) else { return wrong() };
        let mut kinds = vec![DataType::Interval(IntervalUnit::MonthDayNano), source.clone()];
        match arguments.len() {
            2 => {}
            3 => kinds.push(source),
            _ => return wrong(),
        }
        Ok(kinds)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let arrays = ColumnarValue::values_to_arrays(&call.args)?;
        let strides = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
        let times = arrays[1].as_primitive::<TimestampMicrosecondType>();
        let origins = arrays.get(2).map(|origins| origins.as_primitive::<TimestampMicrosecondType>());
        let rows =
            if call.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_))) { 1 } else { call.number_rows };
        let bins = (0..rows).map(|row| {
            let null =
                strides.is_null(row) || times.is_null(row) || origins.is_some_and(|origins| origins.is_null(row));
            if null {
                return Ok(None);
            }
            let stride = strides.value(row);
            let origin = origins.map_or(0, |origins| origins.value(row));
            bin(stride.months, stride.days, stride.nanoseconds, times.value(row), origin).map(Some)
        });
        let bins: Vec<Option<i64>> = bins.collect::<Result<_, _>>()?;
        let zone = times.timezone().map(Arc::from);
        let bins = TimestampMicrosecondArray::from(bins).with_timezone_opt(zone);
        Ok(ColumnarValue::Array(Arc::new(bins)))
    }
}

/// `date_trunc(unit, time)` in microseconds: DataFusion's own counts nanoseconds, and fails outside of the years 1677 to
/// 2262. Times with a zone and those of day are left to it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    signature: Signature,
}

impl Default for DateTrunc {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &'static str {
        "date_trunc"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(arguments[1].clone())
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>, DataFusionError> {
        let [unit, time] = arguments else {
            return Err(DataFusionError::Plan("date_trunc takes a unit, as 'hour', and a time".into()));
        };
        if !unit.is_string() {
            return Err(DataFusionError::Plan(format!("date_trunc: a unit is a text, as 'hour', not a {unit}")));
        }
        let time = match time {
            DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64 | DataType::Null => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            kind if kind.is_string() => DataType::Timestamp(TimeUnit::Microsecond, None),
            other @ (DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_)) => other.clone(),
            other => return Err(DataFusionError::Plan(format!("date_trunc: a time expected, not a {other}"))),
        };
        Ok(vec![DataType::Utf8, time])
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let ColumnarValue::Scalar(ScalarValue::Utf8(Some(unit))) = &call.args[0] else {
            return Err(DataFusionError::Execution("date_trunc: the unit is written in the query".into()));
        };
        if call.args[1].data_type() != DataType::Timestamp(TimeUnit::Microsecond, None) {
            return datafusion::functions::datetime::date_trunc().invoke_with_args(call);
        }
        let (months, days, nanos, origin) = stride(&unit.to_lowercase())?;
        let times = call.args[1].to_array(1)?;
        let times = times.as_primitive::<TimestampMicrosecondType>().iter();
        let starts = times.map(|time| time.map(|time| bin(months, days, nanos, time, origin)).transpose());
        let starts: TimestampMicrosecondArray = starts.collect::<Result<Vec<_>, _>>()?.into();
        Ok(match &call.args[1] {
            ColumnarValue::Array(_) => ColumnarValue::Array(Arc::new(starts)),
            ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&starts, 0)?),
        })
    }
}

/// Months, days, nanoseconds of a unit, and where in microseconds one of them begins.
fn stride(unit: &str) -> Result<(i32, i32, i64, i64), DataFusionError> {
    // 1970-01-05 is a Monday.
    const MONDAY: i64 = 4 * 86_400_000_000;
    Ok(match unit {
        "year" => (12, 0, 0, 0),
        "quarter" => (3, 0, 0, 0),
        "month" => (1, 0, 0, 0),
        "week" => (0, 7, 0, MONDAY),
        "day" => (0, 1, 0, 0),
        "hour" => (0, 0, 3_600_000_000_000, 0),
        "minute" => (0, 0, 60_000_000_000, 0),
        "second" => (0, 0, 1_000_000_000, 0),
        "millisecond" => (0, 0, 1_000_000, 0),
        "microsecond" => (0, 0, 1_000, 0),
        other => {
            return Err(DataFusionError::Plan(format!(
                "date_trunc: there is no unit {other}; write year, quarter, month, week, day, hour, minute, second, millisecond or microsecond"
            )));
        }
    })
}

/// The start of the bin of `time`, both in microseconds.
fn bin(months: i32, days: i32, nanos: i64, time: i64, origin: i64) -> Result<i64, DataFusionError> {
    let refused = |why: &str| DataFusionError::Execution(format!("date_bin: {why}"));
    let stride = i128::from(days) * 86_400_000_000_000 + i128::from(nanos);
    if months != 0 && stride != 0 {
        return Err(refused("a stride of months and of days at once has no fixed bins"));
    }
    if months != 0 {
        let months = u32::try_from(months).map_err(|_| refused("the stride is not above zero"))?;
        return month_bin(i64::from(months), time, origin)
            .ok_or_else(|| refused("the bin begins outside of all dates"));
    }
    if stride <= 0 {
        return Err(refused("the stride is not above zero"));
    }
    let (time, origin) = (i128::from(time) * 1000, i128::from(origin) * 1000);
    let start = origin + (time - origin).div_euclid(stride) * stride;
    i64::try_from(start.div_euclid(1000)).map_err(|_| refused("the bin begins outside of all times"))
}

fn month_bin(months: i64, time: i64, origin: i64) -> Option<i64> {
    let moment = |micros: i64| DateTime::from_timestamp_micros(micros).map(|moment| moment.naive_utc());
    let (time, origin) = (moment(time)?, moment(origin)?);
    let number = |moment: NaiveDateTime| i64::from(moment.year()) * 12 + i64::from(moment.month0());
    let whole = (number(time) - number(origin)).div_euclid(months) * months;
    let start = |whole: i64| {
        let by = Months::new(u32::try_from(whole.unsigned_abs()).ok()?);
        if whole < 0 { origin.checked_sub_months(by) } else { origin.checked_add_months(by) }
    };
    let first = start(whole)?;
    let first = if first > time { start(whole - months)? } else { first };
    Some(first.and_utc().timestamp_micros())
}

/// The start of the unit that a time without a zone lies in.
#[must_use]
pub fn date_trunc(unit: &str, time: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::new_from_impl(DateTrunc::default()));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![datafusion::logical_expr::lit(unit), time]))
}

/// The same numbers, with one zero and one NaN: both zeros are equal in SQL, and every NaN is one value above all
/// numbers, where the kernels that compare go by bits and signs.
#[must_use]
pub fn one_zero(number: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(OneZero::default())), vec![number]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OneZero {
    signature: Signature,
}

impl Default for OneZero {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OneZero {
    fn name(&self) -> &'static str {
        "one_zero"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        Ok(match &call.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(normalised(array)),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&normalised(&value.to_array()?), 0)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::bin;

    #[test]
    fn bins_hold_their_times() {
        #[rustfmt::skip] // columns: months, days, nanoseconds; time, origin; the bin's start, all in microseconds
        let cases = [
            (0, 0, 30_000_000_000, 29_999_999, 0, Some(0)),
            (0, 0, 30_000_000_000, -1, 0, Some(-30_000_000)),
            (0, 1, 0, 253_402_257_600_000_000, 0, Some(253_402_214_400_000_000)),   // 9999-12-31 12:00
            (0, 1, 0, -62_135_596_800_000_000, 0, Some(-62_135_596_800_000_000)),   // 0001-01-01
            (0, 0, 10_000_000, 25_000, 5_000, Some(25_000)),
            (0, 0, 10_000_000, 24_999, 5_000, Some(15_000)),
            (1, 0, 0, 2_678_400_000_000, 0, Some(2_678_400_000_000)),               // 1970-02-01
            (1, 0, 0, 2_678_399_999_999, 0, Some(0)),
            (12, 0, 0, -1, 0, Some(-31_536_000_000_000)),                           // 1969-01-01
            (1, 1, 0, 0, 0, None),
            (0, 0, 0, 0, 0, None),
            (0, -1, 0, 0, 0, None),
        ];
        for (months, days, nanos, time, origin, expected) in cases {
            assert_eq!(
                bin(months, days, nanos, time, origin).ok(),
                expected,
                "{months} {days} {nanos} {time} {origin}"
            );
        }
    }
}
