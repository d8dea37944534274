//! Bytes in the state on disk.

use super::*;

fn floats(rows: &[(f64, i64)]) -> FloatSum {
    let mut sum = FloatSum::default();
    rows.iter().for_each(|(value, weight)| sum.add(*value, *weight));
    sum
}

/// Such bytes lie in the states of users: no line of these may ever change.
#[test]
fn bytes_of_doubles_stay_as_they_are() {
    #[rustfmt::skip] // columns: rows, bytes
    let golden: &[(&[(f64, i64)], &str)] = &[
        (&[],                              "00"),
        (&[(1.0, 1)],                      "020001"),
        (&[(-1.0, 1)],                     "0200ff"),
        (&[(128.0, 1)],                    "04008000"),
        (&[(-128.0, 1)],                   "020080"),
        (&[(256.0, 1)],                    "020201"),
        (&[(0.5, 1)],                      "04018000"),
        (&[(0.1, 1)],                      "0e0d9a999999999919"),
        (&[(-2.75, 3), (1e6, 1)],          "0801c037420f"),
        (&[(f64::from_bits(1), 1)],        "028d0240"),
        (&[(f64::MAX, 1)],                 "10f201f8ffffffffffff00"),
        (&[(1e30, 1), (1e-30, 1)],         "4025a0c2ebfe4b48140000000000000000000000000000000000007546d09c2c9f0c"),
        (&[(INF, 1)],                      "010002000100"),
        (&[(2.0, 1), (NAN, 300), (-INF, -1)], "03000204002c01000200ff"),
    ];
    for (rows, expect) in golden {
        check_float(&floats(rows), expect);
    }
    let mut squares = FloatSum::default();
    squares.add_square(0.1, 1);
    squares.add_square(-3e5, 2);
    check_float(&squares, "261ba4703d0ad7a3708fc2f5285c8f020008d6e829");
}

fn check_float(sum: &FloatSum, expect: &str) {
    let bytes = float_bytes(sum);
    assert_eq!(hex(&bytes), expect, "{sum:?}");
    assert_eq!(FloatSum::decode(&mut &bytes[..]).as_ref(), Ok(sum));
}

#[test]
fn bytes_of_integers_stay_as_they_are() {
    #[rustfmt::skip] // columns: rows, bytes
    let golden: &[(&[(i128, i64)], &str)] = &[
        (&[],                              "00"),
        (&[(1, 1)],                        "020001"),
        (&[(-1, 1)],                       "0200ff"),
        (&[(1000, 1)],                     "0400e803"),
        (&[(-65536, 1)],                   "0204ff"),
        (&[(i64::MAX as i128, 1)],         "1000ffffffffffffff7f"),
        (&[(i64::MIN as i128, 1)],         "020e80"),
        (&[(10_i128.pow(38) - 1, 1)],      "2000ffffffff3f228a097ac4865aa84c3b4b"),
        (&[(i128::MIN, i64::MIN)],         "022e40"),
    ];
    for (rows, expect) in golden {
        let mut sum = IntSum::default();
        rows.iter().for_each(|(value, weight)| sum.add_i128(*value, *weight));
        let bytes = int_bytes(&sum);
        assert_eq!(hex(&bytes), *expect, "{rows:?}");
        assert_eq!(IntSum::decode(&mut &bytes[..]), Ok(sum));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn sums_come_back_from_their_bytes() {
    for (seed, mut rng) in seeds() {
        let (mut sum, mut squares, mut integers) = (FloatSum::default(), FloatSum::default(), IntSum::default());
        for kind in 0..rng.random_range(0..6) {
            let (value, weight) = (float(&mut rng, seed + kind), weight(&mut rng));
            sum.add(if rng.random_ratio(1, 20) { NAN } else { value }, weight);
            squares.add_square(value, weight);
            integers.add_square(rng.random::<i128>() >> rng.random_range(0..128), weight);
        }
        let bytes = [float_bytes(&sum), float_bytes(&squares), int_bytes(&integers), vec![7]].concat();
        let from = &mut &bytes[..];
        assert_eq!(FloatSum::decode(from), Ok(sum), "seed {seed}");
        assert_eq!(FloatSum::decode(from), Ok(squares), "seed {seed}");
        assert_eq!(IntSum::decode(from), Ok(integers), "seed {seed}");
        assert_eq!(*from, [7], "seed {seed}");
    }
}

/// One sum, one row of bytes: whatever can be read is what would be written.
#[test]
fn no_other_bytes_are_read() {
    let mut read = 0;
    for (seed, mut rng) in seeds() {
        for _ in 0..200 {
            let mut bytes = [rng.random_range(0..14), rng.random_range(0..20), 0, 0, 0, 0, 0, 0];
            bytes[2..].iter_mut().for_each(|byte| *byte = [0, 1, 2, 0x7f, 0x80, 0xff][rng.random_range(0..6)]);
            let from = &mut &bytes[..];
            if let Ok(sum) = FloatSum::decode(from) {
                read += 1;
                assert_eq!(float_bytes(&sum), bytes[..bytes.len() - from.len()], "seed {seed}");
            }
        }
    }
    assert!(read > 10_000, "only {read} could be read: the test shows nothing");
}

#[test]
fn damage_is_named() {
    #[rustfmt::skip] // columns: bytes, bytes left, what is wrong
    let cases: &[(&[u8], usize, &str)] = &[
        (&[],                       0, "it ends too early"),
        (&[2],                      0, "it ends too early"),
        (&[4, 0, 1],                1, "it ends too early"),
        (&[3, 0, 1],                0, "it ends too early"),
        (&[2, 0, 0],                1, "a number has more bytes than it needs"),
        (&[4, 0, 1, 0],             2, "a number has more bytes than it needs"),
        (&[4, 0, 0xff, 0xff],       2, "a number has more bytes than it needs"),
        (&[0x82, 0, 0, 1],          3, "a length has more bytes than it needs"),
        (&[2, 0xff, 0xff, 1, 1],    1, "a number is beyond all doubles"),
        (&[0xff, 0xff, 0xff, 0xff], 0, "a length is beyond all sums"),
        (&[1, 0, 0, 0],             0, "it counts what is not finite, and there is none"),
        (&[1, 2, 1, 1],             0, "an integer has what only a double has"),
    ];
    for (bytes, left, what) in cases {
        let error = FloatSum::decode(&mut &bytes[..]).expect_err("damaged");
        assert_eq!((error.left, error.what), (*left, *what), "{bytes:?}");
    }
    let error = IntSum::decode(&mut &[1][..]).expect_err("a mark");
    assert!(error.to_string().contains("have it built anew"), "{error}");
}
