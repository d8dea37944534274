//! [`IntSum`].

use super::*;
use crate::exact::{DecimalAverage, Spread};

type Rows = Vec<(i128, i64)>;

fn sum(rows: &[(i128, i64)]) -> IntSum {
    let mut sum = IntSum::default();
    rows.iter().for_each(|(value, weight)| sum.add_i128(*value, *weight));
    sum
}

fn squares(rows: &[(i128, i64)]) -> IntSum {
    let mut sum = IntSum::default();
    rows.iter().for_each(|(value, weight)| sum.add_square(*value, *weight));
    sum
}

fn rows(rng: &mut SmallRng) -> Rows {
    let bits = rng.random_range(0..128);
    (0..rng.random_range(0..30)).map(|_| (rng.random::<i128>() >> bits, weight(rng))).collect()
}

#[test]
fn sums_are_those_of_the_model() {
    for (seed, mut rng) in seeds() {
        let rows = rows(&mut rng);
        let mut model = Model::default();
        rows.iter().for_each(|(value, weight)| model.add_int(*value, *weight));
        assert!(same(sum(&rows).to_f64(), model.to_f64()), "seed {seed}: {rows:?}");
        assert_eq!(sum(&rows).is_zero(), model.is_zero(), "seed {seed}");
    }
}

#[test]
fn order_and_cut_leave_no_trace() {
    for (seed, mut rng) in seeds() {
        let mut rows = rows(&mut rng);
        let expect = [sum(&rows), squares(&rows)];
        rows.shuffle(&mut rng);
        let (first, second) = rows.split_at(rng.random_range(0..=rows.len()));
        let mut merged = [sum(second), squares(second)];
        merged[0].merge(&sum(first));
        merged[1].merge(&squares(first));
        assert_eq!(merged, expect, "seed {seed}: {rows:?}");
        assert_eq!(int_bytes(&merged[0]), int_bytes(&expect[0]), "seed {seed}: {rows:?}");
        for sum in &mut merged {
            let mut opposite = sum.clone();
            opposite.negate();
            sum.merge(&opposite);
            assert_eq!((&*sum, int_bytes(sum)), (&IntSum::default(), vec![0]), "seed {seed}: {rows:?}");
        }
    }
}

#[test]
fn small_sums_are_those_of_i128() {
    for (seed, mut rng) in seeds() {
        let bits = rng.random_range(67..128); // twenty products fit 128 bits
        let value = move |rng: &mut SmallRng| (rng.random::<i128>() >> bits) as i64;
        let rows: Vec<(i64, i64)> = (0..20).map(|_| (value(&mut rng), value(&mut rng))).collect();
        let mut sum = IntSum::default();
        rows.iter().for_each(|(value, weight)| sum.add(*value, *weight));
        let expect = rows.iter().map(|(value, weight)| i128::from(*value) * i128::from(*weight)).sum::<i128>();
        assert_eq!(sum.to_i64(), i64::try_from(expect).ok(), "seed {seed}");
        assert_eq!(sum.to_i128(38), (expect.unsigned_abs() < 10_u128.pow(38)).then_some(expect), "seed {seed}");
        assert!(same(sum.to_f64(), expect as f64), "seed {seed}");
        assert!(same(sum.average(1 << 20).expect("rows"), expect as f64 / f64::from(1 << 20)), "seed {seed}");
        let DecimalAverage::Value(average) = sum.decimal_average(77, 0, 38) else { panic!("seed {seed}") };
        assert_eq!(average, expect / 77, "seed {seed}");
    }
}

/// S30: a sum of 39 digits is no decimal; it is one again once a row is gone.
#[test]
fn decimals_that_do_not_fit_come_back() {
    let nines = 90_000_000_000_000_000_000_000_000_000_000_000_000;
    let most = 10_i128.pow(38) - 1;
    let mut total = IntSum::default();
    let steps = [
        (nines, 1, Some(nines)),
        (nines, 1, None),
        (nines, -1, Some(nines)),
        (nines, -1, Some(0)),
        (most, 1, Some(most)),
        (1, 1, None),
        (-2 * (nines / 9 * 5), 1, Some(0)),
        (-most, 1, Some(-most)),
        (-1, 1, None),
        (i128::MIN, i64::MIN, None),
        (i128::MIN, i64::MAX, Some(i128::MAX - most)), // 2^127 - 10^38: the weights add up to -1
        (i128::MIN, 1, None),
    ];
    for (value, weight, expect) in steps {
        total.add_i128(value, weight);
        assert_eq!(total.to_i128(38), expect, "after {weight} times {value}");
    }
    assert_eq!(sum(&[(999, 1)]).to_i128(3), Some(999));
    assert_eq!(sum(&[(-1000, 1)]).to_i128(3), None);
}

#[test]
fn integers_fit_up_to_their_ends() {
    #[rustfmt::skip] // columns: rows, as i64
    let cases: &[(&[(i128, i64)], Option<i64>)] = &[
        (&[],                                  Some(0)),
        (&[(i64::MAX as i128, 1)],             Some(i64::MAX)),
        (&[(i64::MAX as i128, 1), (1, 1)],     None),
        (&[(i64::MIN as i128, 1)],             Some(i64::MIN)),
        (&[(i64::MIN as i128, 1), (1, -1)],    None),
        (&[(1 << 64, 1)],                      None),
        (&[(1 << 64, 1), (1 << 64, -1)],       Some(0)),
        (&[(i128::MAX, i64::MAX)],             None),
        (&[(i128::MAX, 2), (i128::MIN, 2)],    Some(-2)),
        (&[(i128::MAX, 2), (-3, 1)],           None), // 2^128 - 5, whose lower 128 bits are those of -5
    ];
    for (rows, expect) in cases {
        assert_eq!(sum(rows).to_i64(), *expect, "{rows:?}");
    }
}

/// S06: a group that has only NULLs left sums up no rows; that it is NULL, its count says.
#[test]
fn only_nulls_are_left() {
    let mut total = sum(&[(14, 1)]);
    total.merge(&sum(&[]));
    assert_eq!((total.to_i64(), total.average(1)), (Some(14), Some(14.0)));
    total.add(14, -1);
    assert!(total.is_zero());
    assert_eq!((total.average(0), total.decimal_average(0, 4, 38)), (None, DecimalAverage::Null));
}

#[test]
fn averages_of_decimals_are_cut_off() {
    use DecimalAverage::{DoesNotFit, Null, Value};
    let big = 10_i128.pow(37);
    #[rustfmt::skip] // columns: rows, count, more digits, precision, average
    let cases: &[(&[(i128, i64)], i64, u8, u8, DecimalAverage)] = &[
        (&[(100, 1), (100, 1), (0, 1)],  3, 4,  9, Value(666_666)),
        (&[(-100, 2), (0, 1)],           3, 4,  9, Value(-666_666)),
        (&[(-1, 1)],                     2, 0,  9, Value(0)),
        (&[(1, 1)],                  20001, 4,  9, Value(0)),
        (&[(99_999, 1)],                 1, 4,  9, Value(999_990_000)),
        (&[(100_000, 1)],                1, 4,  9, DoesNotFit),
        (&[(big, 3)],                    3, 0, 38, Value(big)),
        (&[(big, i64::MAX)],      i64::MAX, 0, 38, Value(big)),
        (&[(big, 1)],                    1, 4, 38, DoesNotFit),
        (&[(big, 1)],                10000, 4, 38, Value(big)),
        (&[(1 << 70, 1)],                1, 0, 38, Value(1 << 70)),
        (&[(1, 0)],                      0, 4, 38, Null),
    ];
    for (rows, count, more_digits, precision, expect) in cases {
        assert_eq!(sum(rows).decimal_average(*count, *more_digits, *precision), *expect, "{rows:?}");
    }
}

#[test]
fn averages_are_the_nearest_doubles() {
    let beyond = (1_i128 << 53) + 1;
    #[rustfmt::skip] // columns: rows, count, average
    let cases: &[(&[(i128, i64)], i64, f64)] = &[
        (&[(beyond, 2)],                2, 9007199254740992.0),
        (&[(beyond, 2), (1, 1)],        2, 9007199254740994.0),
        (&[(beyond, 3), (-1, 1)],       3, 9007199254740992.0),
        (&[(1, 1)],                     3, 1.0 / 3.0),
        (&[(-10, 1)],                   4, -2.5),
        (&[(i64::MAX as i128, 2)],      2, 9223372036854775807.0),
    ];
    for (rows, count, expect) in cases {
        assert_eq!(sum(rows).average(*count), Some(*expect), "{rows:?}");
    }
}

#[test]
fn variances_lose_nothing() {
    let widest = 10_i128.pow(38) - 2;
    // The deviation is the root of tie^2 + 2: halfway between two doubles, but for a bit that an odd exponent shifts out.
    let tie = (1 << 64) + (1 << 11);
    let near_tie = [tie + 2, tie - 2, tie, tie, -tie - 2, 2 - tie, -tie, -tie];
    #[rustfmt::skip] // columns: values, digits after the point, kind, expected
    let cases: &[(&[i128], u8, Spread, Option<f64>)] = &[
        (&[],                                 0, Spread::PopulationVariance,  None),
        (&[3],                                0, Spread::SampleVariance,      None),
        (&[3],                                0, Spread::PopulationVariance,  Some(0.0)),
        (&[widest - 1, widest, widest + 1],   0, Spread::SampleVariance,      Some(1.0)),
        (&[widest - 1, widest, widest + 1],   2, Spread::SampleVariance,      Some(0.0001)),
        (&[widest - 1, widest, widest + 1],   2, Spread::SampleDeviation,     Some(0.01)),
        (&[widest - 1, widest, widest + 1],  38, Spread::SampleDeviation,     Some(1e-38)),
        (&[i128::MIN, i128::MIN + 2],         0, Spread::PopulationVariance,  Some(1.0)),
        (&[i128::MIN, i128::MAX],             0, Spread::PopulationDeviation, Some(2_f64.powi(127))),
        (&near_tie,                           0, Spread::PopulationDeviation, Some(2_f64.powi(64) + 4096.0)),
        (&[0, 2, 4, 6],                       1, Spread::PopulationVariance,  Some(0.05)),
    ];
    for (values, scale, kind, expect) in cases {
        let rows: Rows = values.iter().map(|value| (*value, 1)).collect();
        assert_eq!(sum(&rows).spread(&squares(&rows), values.len() as i64, *scale, *kind), *expect, "{values:?}");
    }
}

#[test]
fn a_factor_is_a_weight() {
    for (seed, mut rng) in seeds() {
        let (rows, factor) = (rows(&mut rng), weight(&mut rng));
        let unit: Rows = rows.iter().map(|(value, _)| (*value, 1)).collect();
        let weighted: Rows = rows.iter().map(|(value, _)| (*value, factor)).collect();
        let mut scaled = [sum(&unit), squares(&unit)];
        scaled.iter_mut().for_each(|sum| sum.scale(factor));
        assert_eq!(scaled, [sum(&weighted), squares(&weighted)], "seed {seed}: {factor} times {rows:?}");
    }
}
