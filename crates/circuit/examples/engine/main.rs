//! The engine alone, from memory: SQL over Arrow batches beside the same queries in dbsp's own typed operators.
//!
//! `make bench-engine`, or `cargo run --release --workspace --features lakeward-circuit/engine --example engine --
//! [EVENTS] [QUERY..]`. One worker each, in turn, over the same events in the same steps; the time is that of pushing and stepping. Both must end with as many rows of the
//! same number of copies, or nothing is printed. `group` is what one core takes in from Arrow for a GROUP BY.

mod events;
mod typed;

/// The program's, for both.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::time::{Duration, Instant};

use lakeward_circuit::circuit::{Circuit, Options};
use lakeward_circuit::compile::compile;
use lakeward_circuit::delta::Part;
use lakeward_circuit::pipeline::Pipeline;

use events::{Step, steps};

/// As large as a step of a pipeline that is behind.
const STEP: usize = 100_000;
const ROUNDS: usize = 3;
const SOURCES: [(&str, &str); 3] = [
    ("person", "id BIGINT, name TEXT, city TEXT, state TEXT, date_time TIMESTAMP, extra TEXT"),
    (
        "auction",
        "id BIGINT, item_name TEXT, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP, expires TIMESTAMP, \
         seller BIGINT, category BIGINT, extra TEXT",
    ),
    ("bid", "auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT, date_time TIMESTAMP, extra TEXT"),
];
const QUERIES: [(&str, &str); 8] = [
    ("q2", "SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    (
        "q3",
        "SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id \
         WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca')",
    ),
    (
        "q4",
        "SELECT category, AVG(final) AS mean FROM (SELECT a.id, a.category, MAX(b.price) AS final FROM auction a \
         JOIN bid b ON a.id = b.auction WHERE b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category) AS w \
         GROUP BY category",
    ),
    (
        "q7",
        "SELECT b.auction, b.price, b.bidder, b.date_time, b.extra FROM bid b JOIN (SELECT MAX(price) AS top, \
         date_bin(INTERVAL '10 seconds', date_time) AS w FROM bid GROUP BY 2) AS m \
         ON b.price = m.top AND date_bin(INTERVAL '10 seconds', b.date_time) = m.w",
    ),
    (
        "q9",
        "SELECT id, item_name, seller, category, bidder, price, bid_time FROM (SELECT a.id, a.item_name, a.seller, \
         a.category, b.bidder, b.price, b.date_time AS bid_time, ROW_NUMBER() OVER (PARTITION BY a.id \
         ORDER BY b.price DESC, b.date_time, b.bidder) AS place FROM auction a JOIN bid b ON a.id = b.auction \
         WHERE b.date_time BETWEEN a.date_time AND a.expires) AS r WHERE place <= 1",
    ),
    (
        "q18",
        "SELECT auction, bidder, price, channel, url, date_time, extra FROM (SELECT *, ROW_NUMBER() OVER \
         (PARTITION BY bidder, auction ORDER BY date_time DESC, price DESC, extra) AS place FROM bid) AS r WHERE place <= 1",
    ),
    (
        "q20",
        "SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name, a.initial_bid, a.reserve, \
         a.expires, a.seller FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10",
    ),
    ("group", "SELECT auction, COUNT(*) AS bids, SUM(price) AS total FROM bid GROUP BY auction"),
];

#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn now() -> Instant {
    Instant::now()
}

/// What one run took, and the copies of rows that it ended with.
type Run = (Duration, i64);

fn by_sql(query: &str, steps: &[Step]) -> Run {
    let sources = SOURCES.map(|(name, columns)| {
        format!("CREATE SOURCE {name} ({columns}) WITH (kafka = 'localhost:9092', topic = '{name}');\n")
    });
    let text = format!("{}CREATE VIEW v AS {query};\nCREATE SINK s FROM v WITH (delta = './s');", sources.concat());
    let pipeline = Pipeline::parse(&text, &|_| None).expect("SQL of ours");
    let compiled = compile(&pipeline).expect("queries that are supported");
    let options = Options { workers: 1, memory_mb: 8192 };
    let mut circuit = Circuit::start(&compiled.plan, &options, None).expect("a circuit");
    let read = SOURCES.map(|(name, _)| reads(query, name));
    let (mut took, mut copies) = (Duration::ZERO, 0);
    for step in steps {
        let parts = [&step.person, &step.auction, &step.bid].map(|batch| Part::inserts(batch.clone()));
        let since = now();
        for (at, part) in parts.into_iter().enumerate().filter(|(at, _)| read[*at]) {
            circuit.push(at, part);
        }
        let stepped = circuit.step().expect("a step");
        took += since.elapsed();
        assert!(stepped.failures.is_empty());
        copies += stepped.views[0].weights.values().iter().sum::<i64>();
    }
    circuit.stop().expect("an end");
    (took, copies)
}

fn main() {
    let mut words = std::env::args().skip(1);
    let events = words.next().map_or(1_000_000, |word| word.parse().expect("EVENTS is a number"));
    let wanted: Vec<String> = words.collect();
    let steps = steps(events, STEP);
    println!("{:6} {:>12} {:>12} {:>16} {:>10}", "query", "SQL µs/row", "typed µs/row", "SQL rows/s/core", "typed/SQL");
    for (name, query) in QUERIES {
        if !wanted.is_empty() && !wanted.iter().any(|word| word == name) {
            continue;
        }
        let (mut sql, mut typed) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            let (ours, theirs) =
                (by_sql(query, &steps), typed::run(name, SOURCES.map(|(source, _)| reads(query, source)), &steps));
            assert_eq!(ours.1, theirs.1, "{name}: copies of rows");
            (sql, typed) = (sql.min(ours.0), typed.min(theirs.0));
        }
        let read = rows(query, &steps);
        let micros = |took: Duration| took.as_secs_f64() * 1e6 / read;
        let rate = read / sql.as_secs_f64();
        println!(
            "{name:6} {:12.3} {:12.3} {rate:16.0} {:10.2}",
            micros(sql),
            micros(typed),
            typed.as_secs_f64() / sql.as_secs_f64()
        );
    }
}

fn reads(query: &str, source: &str) -> bool {
    query.replace(')', " ").contains(&format!(" {source} "))
}

/// Rows of the sources that the query reads.
#[expect(clippy::cast_precision_loss, reason = "rows stay far below 2^52")]
fn rows(query: &str, steps: &[Step]) -> f64 {
    let of = |step: &Step| {
        let sources = [("person", &step.person), ("auction", &step.auction), ("bid", &step.bid)];
        sources.iter().filter(|(name, _)| reads(query, name)).map(|(_, batch)| batch.num_rows()).sum::<usize>()
    };
    steps.iter().map(of).sum::<usize>() as f64
}
