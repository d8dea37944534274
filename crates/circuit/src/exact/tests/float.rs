//! [`FloatSum`].

use super::*;
use crate::exact::Spread;

type Rows = Vec<(f64, i64)>;

fn sum(rows: &[(f64, i64)]) -> FloatSum {
    let mut sum = FloatSum::default();
    rows.iter().for_each(|(value, weight)| sum.add(*value, *weight));
    sum
}

fn squares(rows: &[(f64, i64)]) -> FloatSum {
    let mut sum = FloatSum::default();
    rows.iter().for_each(|(value, weight)| sum.add_square(*value, *weight));
    sum
}

fn rows(rng: &mut SmallRng) -> Rows {
    let kind = rng.random();
    let mixed: bool = rng.random();
    (0..rng.random_range(0..40))
        .map(|at| {
            let value = float(rng, if mixed { at } else { kind });
            (if rng.random_ratio(1, 60) { value / 0.0 } else { value }, weight(rng))
        })
        .collect()
}

fn finite_rows(rng: &mut SmallRng) -> Rows {
    rows(rng).into_iter().filter(|(value, _)| value.is_finite()).collect()
}

#[test]
fn sums_are_those_of_the_model() {
    for (seed, mut rng) in seeds() {
        let rows = finite_rows(&mut rng);
        let (mut model, mut squared) = (Model::default(), Model::default());
        for (value, weight) in &rows {
            model.add(*value, *weight);
            squared.add_square(*value, *weight);
        }
        assert!(same(sum(&rows).to_f64(), model.to_f64()), "seed {seed}: {rows:?}");
        assert!(same(squares(&rows).to_f64(), squared.to_f64()), "seed {seed}: squares of {rows:?}");
        assert_eq!(sum(&rows).is_zero(), model.is_zero(), "seed {seed}");
    }
}

/// P6: two multisets that have one sum have one state, else two.
#[test]
fn states_are_equal_exactly_if_sums_are() {
    let mut equal = 0;
    for (seed, mut rng) in seeds() {
        let few: Vec<Rows> = (0..12)
            .map(|_| (0..3).map(|_| (f64::from(rng.random_range(-2..3)) * 1e40, rng.random_range(-1..2))).collect())
            .collect();
        let model = |rows: &Rows| {
            let mut model = Model::default();
            rows.iter().for_each(|(value, weight)| model.add(*value, *weight));
            model.canonical()
        };
        for (a, b) in few.iter().zip(&few[1..]) {
            let expect = model(a) == model(b);
            equal += u32::from(expect);
            assert_eq!(sum(a) == sum(b), expect, "seed {seed}: {a:?} {b:?}");
            assert_eq!(float_bytes(&sum(a)) == float_bytes(&sum(b)), expect, "seed {seed}: {a:?} {b:?}");
        }
    }
    assert!(equal > 100, "only {equal} pairs were equal: the test shows nothing");
}

/// P6: any order, any cut, any merge; the bytes too.
#[test]
fn order_and_cut_leave_no_trace() {
    for (seed, mut rng) in seeds() {
        let mut rows = rows(&mut rng);
        let expect = [sum(&rows), squares(&rows)];
        rows.shuffle(&mut rng);
        let mut merged = [FloatSum::default(), FloatSum::default()];
        let mut rest = &rows[..];
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rng.random_range(1..=rest.len()));
            merged[0].merge(&sum(part));
            merged[1].merge(&squares(part));
            rest = after;
        }
        for (merged, expect) in merged.iter().zip(&expect) {
            assert_eq!(merged, expect, "seed {seed}: {rows:?}");
            assert_eq!(float_bytes(merged), float_bytes(expect), "seed {seed}: {rows:?}");
        }
    }
}

#[test]
fn what_is_retracted_leaves_no_trace() {
    for (seed, mut rng) in seeds() {
        let (stay, mut go) = (rows(&mut rng), rows(&mut rng));
        let mut total = [sum(&stay), squares(&stay)];
        total[0].merge(&sum(&go));
        total[1].merge(&squares(&go));
        go.shuffle(&mut rng);
        for (value, weight) in go.iter().filter(|(_, weight)| *weight != i64::MIN) {
            total[0].add(*value, -weight);
            total[1].add_square(*value, -weight);
        }
        for (value, weight) in go.iter().filter(|(_, weight)| *weight == i64::MIN) {
            (0..2).for_each(|_| total[0].add(*value, -(weight / 2)));
            (0..2).for_each(|_| total[1].add_square(*value, -(weight / 2)));
        }
        assert_eq!(total, [sum(&stay), squares(&stay)], "seed {seed}: {stay:?} without {go:?}");
        let mut opposite = total[0].clone();
        opposite.negate();
        opposite.merge(&total[0]);
        assert!(opposite.is_zero(), "seed {seed}");
        assert_eq!((&opposite, float_bytes(&opposite)), (&FloatSum::default(), vec![0]), "seed {seed}");
    }
}

#[test]
fn a_factor_is_a_weight() {
    for (seed, mut rng) in seeds() {
        let (mut rows, factor) = (rows(&mut rng), rng.random_range(-3..=3) * rng.random_range(1..1_000_000_000));
        rows.retain(|(_, weight)| weight.abs_diff(0) < 1 << 30);
        let mut scaled = sum(&rows);
        scaled.scale(factor);
        let weighted: Rows = rows.iter().map(|(value, weight)| (*value, weight * factor)).collect();
        assert_eq!(scaled, sum(&weighted), "seed {seed}: {factor} times {rows:?}");
    }
}

/// S32: infinities and NaN leave as they came.
#[test]
fn what_is_not_finite_is_counted() {
    #[rustfmt::skip] // columns: what is added, sum, count
    let steps: [(&[(f64, i64)], f64, i64); 10] = [
        (&[(1.5, 1), (INF, 1)],              INF,  2),
        (&[(-INF, 1)],                       NAN,  3),
        (&[(INF, -1), (-INF, -1)],           1.5,  1),
        (&[(NAN, 1)],                        NAN,  2),
        (&[(-NAN, -1)],                      1.5,  1),
        (&[(1.5, -1), (1e308, 1), (1e308, 1)], INF, 2),
        (&[(1e308, -1), (-INF, 2)],          -INF, 3),
        (&[(NAN, 1), (1e308, -1)],           NAN,  3),
        (&[(-INF, -2), (INF, 1)],            NAN,  2),
        (&[(INF, -1), (NAN, -1)],            0.0,  0),
    ];
    let (mut total, mut count) = (FloatSum::default(), 0);
    for (rows, expect, rows_left) in steps {
        rows.iter().for_each(|(value, weight)| total.add(*value, *weight));
        count += rows.iter().map(|(_, weight)| weight).sum::<i64>();
        assert!(same(total.to_f64(), expect), "{total:?} is not {expect} after {rows:?}");
        assert_eq!(count, rows_left);
    }
    assert_eq!(total, FloatSum::default());
    assert!(same(squares(&[(-INF, 1), (INF, 2), (5.0, 1)]).to_f64(), INF));
    assert!(same(squares(&[(-NAN, 1)]).to_f64(), NAN));
    for value in [INF, -INF, NAN] {
        let mut scaled = sum(&[(value, 3)]);
        assert!(!scaled.is_zero(), "{value}");
        scaled.scale(-5);
        assert_eq!(scaled, sum(&[(value, -15)]), "{value}");
    }
}

/// Carries, borrows and signs at the edges of limbs: whatever is added to them comes off again.
#[test]
fn edges_of_limbs_lose_nothing() {
    let edges: Vec<f64> = (-3..=3)
        .flat_map(|limb| [2_f64.powi(64 * limb - 1), 2_f64.powi(64 * limb)])
        .flat_map(|edge| [edge, -edge])
        .collect();
    for a in &edges {
        for b in &edges {
            let pair = sum(&[(*a, 1), (*b, 1)]);
            for c in &edges {
                let mut total = pair.clone();
                total.add(*c, 1);
                assert_eq!(total, sum(&[(*c, 1), (*b, 1), (*a, 1)]), "{a} {b} {c}");
                total.add(*a, -1);
                total.add(*b, -1);
                assert_eq!(total, sum(&[(*c, 1)]), "{a} {b} {c}");
            }
        }
    }
}

#[test]
fn one_rounding_half_to_even() {
    let ulp = 2_f64.powi(-52);
    let tiny = f64::from_bits(1);
    #[rustfmt::skip] // columns: rows, sum
    let cases: &[(&[(f64, i64)], f64)] = &[
        (&[],                                            0.0),
        (&[(-0.0, 1)],                                   0.0),
        (&[(-0.0, 5), (0.0, -3)],                        0.0),
        (&[(0.1, 10)],                                   1.0),
        (&[(0.1, 1), (0.2, 1)],                          0.1 + 0.2),
        (&[(1e100, 1), (1.0, 1), (-1e100, 1)],           1.0),
        (&[(1.0, 1), (ulp / 2.0, 1)],                    1.0),
        (&[(1.0 + ulp, 1), (ulp / 2.0, 1)],              1.0 + 2.0 * ulp),
        (&[(1.0, 1), (ulp / 2.0, 1), (tiny, 1)],         1.0 + ulp),
        (&[(-1.0, 1), (ulp / 2.0, -1), (tiny, -1)],      -1.0 - ulp),
        (&[(1.0, 1), (ulp / 2.0, 1), (tiny, -1)],        1.0),
        (&[(1.0, 1), (ulp / 2.0, 1), (2_f64.powi(-128), 1)], 1.0 + ulp),
        (&[(1.0, 1), (ulp / 2.0, 1), (2_f64.powi(-129), 1)], 1.0 + ulp),
        (&[(9007199254740992.0, 1), (1.0, 1)],           9007199254740992.0),
        (&[(9007199254740992.0, 1), (1.0, 3)],           9007199254740996.0),
        (&[(tiny, 1)],                                   tiny),
        (&[(tiny, -3)],                                  f64::from_bits(3).copysign(-1.0)),
        (&[(f64::MIN_POSITIVE, 1), (tiny, -1)],          f64::from_bits((1 << 52) - 1)),
        (&[(f64::MAX, 1)],                               f64::MAX),
        (&[(f64::MAX, 1), (2_f64.powi(969), 1)],         f64::MAX),
        (&[(f64::MAX, 1), (2_f64.powi(970), 1)],         INF),
        (&[(f64::MAX, 1), (2_f64.powi(970), 1), (tiny, -1)], f64::MAX),
        (&[(f64::MIN, 1), (2_f64.powi(970), -1)],        -INF),
        (&[(f64::MAX, i64::MAX), (f64::MAX, -i64::MAX), (tiny, 1)], tiny),
        (&[(tiny, i64::MIN), (tiny, i64::MAX)],          -tiny),
    ];
    for (rows, expect) in cases {
        assert!(same(sum(rows).to_f64(), *expect), "{rows:?}: {} is not {expect}", sum(rows).to_f64());
    }
}

#[test]
fn averages_are_the_nearest_doubles() {
    let tiny = f64::from_bits(1);
    #[rustfmt::skip] // columns: rows, count, average
    let cases: &[(&[(f64, i64)], i64, Option<f64>)] = &[
        (&[],                              0, None),
        (&[(1.0, -1)],                    -1, None),
        (&[(1e308, 3)],                    3, Some(1e308)),
        (&[(0.1, 1), (0.2, 1), (0.3, 1)],  3, Some(0.2)),
        (&[(1e16, 1), (1.0, 1), (-1e16, 1)], 3, Some(1.0 / 3.0)),
        (&[(tiny, 1), (0.0, 1)],           2, Some(0.0)),
        (&[(tiny, -1), (0.0, 3)],          2, Some(0.0)),
        (&[(tiny, 3), (0.0, -1)],          2, Some(f64::from_bits(2))),
        (&[(tiny, 2), (0.0, 1)],           3, Some(tiny)),
        (&[(-7.0, 1)],                     i64::MAX, Some(-7.0 / 9223372036854775807.0)),
        (&[(1.0, 1)],                      7e18 as i64, Some(1.0 / 7e18)),
        (&[(1.0, 1), (INF, 1)],            2, Some(INF)),
        (&[(-INF, 1), (INF, 1)],           2, Some(NAN)),
    ];
    for (rows, count, expect) in cases {
        let average = sum(rows).average(*count);
        let equal = average.is_some() == expect.is_some() && same(average.unwrap_or(0.0), expect.unwrap_or(0.0));
        assert!(equal, "{rows:?}: {average:?} is not {expect:?}");
    }
}

fn check_spread(values: &[f64], expect: [Option<f64>; 4]) {
    let rows: Rows = values.iter().map(|value| (*value, 1)).collect();
    let kinds =
        [Spread::PopulationVariance, Spread::SampleVariance, Spread::PopulationDeviation, Spread::SampleDeviation];
    for (kind, expect) in kinds.into_iter().zip(expect) {
        let spread = sum(&rows).spread(&squares(&rows), values.len() as i64, kind);
        let equal = spread.is_some() == expect.is_some() && same(spread.unwrap_or(0.0), expect.unwrap_or(0.0));
        assert!(equal, "{kind:?} of {values:?}: {spread:?} is not {expect:?}");
    }
}

#[test]
fn variances_lose_nothing() {
    let all = |value| [Some(value); 4];
    let (third, root) = (2.0 / 3.0, 0.816496580927726);
    #[rustfmt::skip] // columns: values; variance of all, of a sample; deviation of all, of a sample
    let cases: &[(&[f64], [Option<f64>; 4])] = &[
        (&[],                              [None; 4]),
        (&[7.5],                           [Some(0.0), None, Some(0.0), None]),
        (&[INF],                           [Some(NAN), None, Some(NAN), None]),
        (&[0.1, 0.1, 0.1],                 all(0.0)),
        (&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0], [Some(third), Some(1.0), Some(root), Some(1.0)]),
        (&[1e15 + 1.0, 1e15 + 2.0, 1e15 + 3.0], [Some(third), Some(1.0), Some(root), Some(1.0)]),
        (&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], [Some(4.0), Some(32.0 / 7.0), Some(2.0), Some(2.138089935299395)]),
        (&[1e200, -1e200],                 [Some(INF), Some(INF), Some(1e200), Some(1.414213562373095e200)]),
        (&[1e-200, -1e-200],               [Some(0.0), Some(0.0), Some(1e-200), Some(1.414213562373095e-200)]),
        (&[f64::MAX, f64::MIN],            [Some(INF), Some(INF), Some(f64::MAX), Some(INF)]),
        (&[1.0, NAN],                      all(NAN)),
        (&[1.0, -INF],                     all(NAN)),
    ];
    for (values, expect) in cases {
        check_spread(values, *expect);
    }
}

/// The deviation is `1 + ulp / 2 + 2^-107`: halfway between two doubles, but for the last bit of its square.
#[test]
fn roots_are_rounded_once() {
    let up = 1.0 + f64::EPSILON;
    let rows = [(up, 1), (-up, 1), (1.0, 1), (-1.0, 1)];
    assert_eq!(sum(&rows).spread(&squares(&rows), 4, Spread::PopulationDeviation), Some(up));
}

/// Quotients of integers that a double holds are rounded once by the machine as well.
#[test]
fn variances_are_the_nearest_doubles() {
    for (_, mut rng) in seeds() {
        let values: Vec<i64> = (0..rng.random_range(2..60)).map(|_| rng.random_range(-200_000..200_000)).collect();
        let count = values.len() as i64;
        let total: i64 = values.iter().sum();
        let excess = count * values.iter().map(|value| value * value).sum::<i64>() - total * total;
        assert!(excess < 1 << 53);
        let shifted: Vec<f64> = values.iter().map(|value| 1e12 + *value as f64).collect();
        let variances = [count * count, count * (count - 1)].map(|divisor| excess as f64 / divisor as f64);
        let rows: Rows = shifted.iter().map(|value| (*value, 1)).collect();
        for (kind, expect) in [Spread::PopulationVariance, Spread::SampleVariance].into_iter().zip(variances) {
            assert_eq!(sum(&rows).spread(&squares(&rows), count, kind), Some(expect), "{values:?}");
        }
    }
}

#[test]
fn rows_that_never_were_have_no_variance() {
    let (sum, squares) = (sum(&[(3.0, 1)]), squares(&[(1.0, 2)]));
    assert!(sum.spread(&squares, 2, Spread::PopulationVariance).is_some_and(f64::is_nan));
    assert_eq!(sum.spread(&squares, -2, Spread::PopulationVariance), None);
}

#[test]
fn a_sum_is_small() {
    assert!(size_of::<FloatSum>() <= 48, "{}", size_of::<FloatSum>());
    let column: Rows = (0..1000).map(|at| (f64::from(at) / 7.0 - 50.0, 1)).collect();
    assert!(float_bytes(&sum(&column)).len() <= 12, "{:?}", float_bytes(&sum(&column)));
    let extremes = [(f64::MAX, i64::MAX), (f64::from_bits(1), 1)];
    assert!(float_bytes(&sum(&extremes)).len() <= 300);
    assert!(float_bytes(&squares(&extremes)).len() <= 560);
}
