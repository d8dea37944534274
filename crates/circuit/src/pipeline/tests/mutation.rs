//! No text makes the parser panic, and every fault has a place in the file.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::super::SqlError;
use super::{SOURCE, parse};

const SEEDS: u64 = 4_000;

const FILE: &str = "\
SET app_id = 'x'; SET workers = ${WORKERS:-2};
CREATE SOURCE bid (auction BIGINT NOT NULL, \"Preis\" DECIMAL(10, 2), tags STRUCT<a INT[], m MAP(TEXT, INT)>, at TIMESTAMP,
  PRIMARY KEY (auction) NOT ENFORCED, WATERMARK FOR at AS at - INTERVAL '5' SECOND)
  WITH (kafka = '${BROKERS}', topic = 'bid', changes = 'op', changes_insert = 'c,r', 'kafka.acks' = 1); -- größer ✓
/* a view */ CREATE VIEW hot AS WITH w AS (SELECT * FROM bid WHERE at > TIMESTAMP '2020-01-01')
  SELECT auction, COUNT(*) FILTER (WHERE \"Preis\" > 1.5e3) AS bids, CASE WHEN max(auction) IS NULL THEN 'ä' END AS x
  FROM w JOIN (SELECT auction AS b FROM bid) y ON w.auction = y.b GROUP BY auction HAVING COUNT(*) BETWEEN 1 AND 10;
CREATE SINK hot_table FROM hot WITH (delta = './hot', mode = 'upsert', key = 'auction', partition_by = 'x');
CREATE SINK topic FROM hot WITH (kafka = 'localhost:9092', topic = 'hot', format = 'json', key = 'auction');
";

const BITS: [&str; 34] = [
    "'",
    "\"",
    ";",
    "(",
    ")",
    ",",
    "<",
    ">",
    ">>",
    "[",
    "]",
    "{",
    "}",
    "${",
    "${A:-",
    "$$",
    "--",
    "/*",
    "*/",
    ".",
    "=",
    "-",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "é",
    "✓",
    "E'\\u",
    "CREATE",
    " NOT NULL",
    " PRIMARY KEY",
    "99999999999999999999",
    "((((",
];

fn mutated(chance: &mut SmallRng) -> String {
    let mut letters: Vec<char> = FILE.chars().collect();
    for _ in 0..chance.random_range(1..=4) {
        let at = chance.random_range(0..=letters.len());
        let end = (at + chance.random_range(0..=12)).min(letters.len());
        match chance.random_range(0..5) {
            0 => drop(letters.drain(at..end)),
            1 => drop(letters.splice(at..at, BITS.choose(chance).expect("bits").chars())),
            2 => letters.truncate(at),
            3 => {
                let part = letters[at..end].to_vec();
                let to = chance.random_range(0..=letters.len());
                drop(letters.splice(to..to, part));
            }
            _ => drop(letters.splice(at..end, BITS.choose(chance).expect("bits").chars())),
        }
    }
    letters.into_iter().collect()
}

/// The place is in the file, or just behind its end or its last line's.
fn check_place(text: &str, error: &SqlError, seed: u64) {
    let lines: Vec<&str> = text.split('\n').collect();
    let place = error.place;
    let line = place.line.checked_sub(1).and_then(|at| lines.get(at));
    let width =
        line.unwrap_or_else(|| panic!("seed {seed}: no line {} in\n{text}\n{error}", place.line)).chars().count();
    assert!(
        (1..=width + 1).contains(&place.column),
        "seed {seed}: column {} of {width}\n{text}\n{error}",
        place.column
    );
    assert!(!error.to_string().contains("secret-host"), "seed {seed}: {error}");
}

#[test]
fn mutated_files_never_panic() {
    let whole = FILE.replace("${WORKERS:-2}", "2");
    super::good(&whole);
    let mut good = 0;
    for seed in 0..SEEDS {
        let text = mutated(&mut SmallRng::seed_from_u64(seed)).replace("${WORKERS:-2}", "2");
        match parse(&text) {
            Ok(pipeline) => {
                good += 1;
                assert!(pipeline.views.iter().all(|view| text.contains(&view.text)), "seed {seed}");
            }
            Err(error) => check_place(&text, &error, seed),
        }
    }
    // A parser that refuses all of them, or none, shows nothing.
    assert!((SEEDS / 50..SEEDS / 2).contains(&good), "{good} of {SEEDS} were good");
}

#[test]
fn cut_off_anywhere() {
    for (at, _) in FILE.char_indices() {
        let text = &FILE[..at];
        if let Err(error) = parse(text) {
            check_place(text, &error, 0);
        }
    }
}

/// Each of these is one level of the tree a link or bracket; without a bound the stack overflows.
#[test]
fn deep_files_are_refused() {
    let view = |query: &str| format!("{SOURCE}CREATE VIEW v AS {query};\nCREATE SINK s FROM v WITH (delta = 'x')");
    #[rustfmt::skip] // columns: before and behind each level, around, how deep is good, how deep is not
    let cases = [
        ("(",                   ")",            "SELECT {}1{}",                     40, 2_000),
        ("abs(",                ")",            "SELECT {}1{}",                     40, 2_000),
        ("- ",                  "",             "SELECT {}1{}",                     40, 2_000),
        ("NOT ",                "",             "SELECT {}1{}",                     40, 2_000),
        ("CASE WHEN TRUE THEN ", " END",        "SELECT {}1{}",                     40, 2_000),
        ("[",                   "]",            "SELECT {}1{}",                     40, 2_000),
        ("(SELECT * FROM ",     ") x",          "SELECT * FROM {}t{}",              10, 2_000),
        ("WITH a AS (",         ") SELECT 1",   "{} SELECT 1 {}",                   40, 2_000),
        ("ARRAY<",              ">",            "SELECT CAST(a AS {}INT{}) FROM t", 40, 2_000),
        ("",                    "::INT",        "SELECT {}1{}",                     390, 20_000),
        ("",                    " + 1",         "SELECT {}1{}",                     390, 20_000),
        ("",                    " OR a = 1",    "SELECT 1 FROM t WHERE {}TRUE{}",   190, 20_000),
        ("",                    " IS NULL",     "SELECT {}1{}",                     390, 20_000),
        ("",                    " UNION ALL SELECT 1", "{}SELECT 1{}",              390, 20_000),
    ];
    for (before, behind, around, good, bad) in cases {
        let query = |depth: usize| {
            let filled = around.replacen("{}", &before.repeat(depth), 1);
            view(&filled.replacen("{}", &behind.repeat(depth), 1))
        };
        super::good(&query(good));
        super::fault(&query(bad));
    }
    assert_eq!(super::fault(&view("SELECT INTERVAL INTERVAL '1' DAY")).split(": ").next(), Some("2:34"));
    let chain = super::fault(&view(&format!("SELECT 1{}", " + 1".repeat(401))));
    assert!(chain.starts_with("2:1627: more than 400 operators in a chain; "), "{chain}");
}

#[test]
fn wide_files_are_good() {
    let view = |query: &str| format!("{SOURCE}CREATE VIEW v AS {query};\nCREATE SINK s FROM v WITH (delta = 'x')");
    let numbers: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
    super::good(&view(&format!("SELECT * FROM t WHERE a IN ({})", numbers.join(", "))));
    let casts: Vec<String> =
        (0..500).map(|n| format!("CAST(CAST(a + {n} AS TEXT) AS ARRAY<ARRAY<INT>>) x{n}")).collect();
    super::good(&view(&format!("SELECT {} FROM t", casts.join(", "))));
    let casts: Vec<String> = (0..500).map(|n| format!("a::ARRAY<ARRAY<INT>> x{n}, a::ARRAY<INT> > b y{n}")).collect();
    super::good(&view(&format!("SELECT {} FROM t", casts.join(", "))));
    let cases = " WHEN a > 1 AND a < 2 THEN a + 1".repeat(500);
    super::good(&view(&format!("SELECT CASE{cases} ELSE 0 END AS c FROM t")));
    super::good(&view(&format!("SELECT * FROM t{}", " JOIN t ON t.a = t.a".repeat(500))));
}

#[test]
fn long_files_are_refused() {
    let long = format!("{SOURCE}-- {}\n", "x".repeat(super::super::MAX_FILE_BYTES));
    assert_eq!(super::fault(&long), "1:1: a pipeline file has at most 1048576 bytes");
}
