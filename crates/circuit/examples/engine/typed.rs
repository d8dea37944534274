//! The same queries as circuits of dbsp's typed operators, written by hand.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use dbsp::circuit::CircuitConfig;
use dbsp::operator::Max;
use dbsp::utils::{Tup2, Tup3, Tup4, Tup5, Tup6, Tup7, Tup9};
use dbsp::{IndexedZSetReader, OrdZSet, RootCircuit, Runtime, Stream};

use super::events::Step;
use super::{Run, now};

/// id, name, city, state, date_time, extra.
type Person = Tup6<i64, String, String, String, i64, String>;
/// id, item_name, initial_bid, reserve, date_time, expires, seller, category, extra.
type Auction = Tup9<i64, String, i64, i64, i64, i64, i64, i64, String>;
/// auction, bidder, price, channel, url, date_time, extra.
type Bid = Tup7<i64, i64, i64, String, String, i64, String>;

/// Reads what the last step changed, and returns the copies of rows that came, less those that went.
type Copies = Arc<std::sync::Mutex<dyn FnMut() -> i64 + Send>>;

struct Inputs {
    person: Stream<RootCircuit, OrdZSet<Person>>,
    auction: Stream<RootCircuit, OrdZSet<Auction>>,
    bid: Stream<RootCircuit, OrdZSet<Bid>>,
}

/// An output's copies.
macro_rules! copies {
    ($stream:expr) => {{
        let handle = $stream.accumulate_output();
        let copies: Copies =
            Arc::new(std::sync::Mutex::new(move || handle.concat().iter().map(|(_, _, weight)| weight).sum::<i64>()));
        copies
    }};
}

const WINDOW: i64 = 10_000_000;

impl Inputs {
    fn q2(&self) -> Copies {
        copies!(self.bid.flat_map(|Tup7(auction, _, price, ..)| (auction % 123 == 0).then_some(Tup2(*auction, *price))))
    }

    fn q3(&self) -> Copies {
        let auctions = self
            .auction
            .flat_map_index(|Tup9(id, _, _, _, _, _, seller, category, _)| (*category == 10).then_some((*seller, *id)));
        let people = self.person.flat_map_index(|Tup6(id, name, city, state, ..)| {
            let wanted = matches!(state.as_str(), "or" | "id" | "ca");
            wanted.then(|| (*id, Tup3(name.clone(), city.clone(), state.clone())))
        });
        let joined = auctions
            .join(&people, |_, id, Tup3(name, city, state)| Tup4(name.clone(), city.clone(), state.clone(), *id));
        copies!(joined)
    }

    fn q4(&self) -> Copies {
        let auctions =
            self.auction.map_index(|Tup9(id, _, _, _, from, to, _, category, _)| (*id, Tup3(*from, *to, *category)));
        let bids = self.bid.map_index(|Tup7(auction, _, price, _, _, at, _)| (*auction, Tup2(*price, *at)));
        let valid = auctions.join_index(&bids, |id, Tup3(from, to, category), Tup2(price, at)| {
            (from <= at && at <= to).then_some((Tup2(*id, *category), *price))
        });
        let best = valid.aggregate(Max).map_index(|(Tup2(_, category), price)| (*category, *price));
        copies!(
            best.aggregate_linear(|price| Tup2(*price, 1i64))
                .map(|(category, Tup2(sum, count))| Tup2(*category, sum / count))
        )
    }

    fn q7(&self) -> Copies {
        let prices = self.bid.map_index(|Tup7(_, _, price, _, _, at, _)| (at / WINDOW, *price));
        let top = prices.aggregate(Max).map_index(|(window, price)| (Tup2(*window, *price), ()));
        let bids = self.bid.map_index(|Tup7(auction, bidder, price, _, _, at, extra)| {
            (Tup2(at / WINDOW, *price), Tup4(*auction, *bidder, *at, extra.clone()))
        });
        copies!(top.join(&bids, |Tup2(_, price), (), Tup4(auction, bidder, at, extra)| {
            Tup5(*auction, *price, *bidder, *at, extra.clone())
        }))
    }

    fn q9(&self) -> Copies {
        let auctions = self.auction.map_index(|Tup9(id, item, _, _, from, to, seller, category, _)| {
            (*id, Tup5(*from, *to, item.clone(), *seller, *category))
        });
        let bids =
            self.bid.map_index(|Tup7(auction, bidder, price, _, _, at, _)| (*auction, Tup3(*price, *at, *bidder)));
        let valid =
            auctions.join_index(&bids, |id, Tup5(from, to, item, seller, category), Tup3(price, at, bidder)| {
                (from <= at && at <= to)
                    .then_some((*id, Tup6(*price, -*at, -*bidder, item.clone(), *seller, *category)))
            });
        copies!(valid.topk_desc(1))
    }

    fn q18(&self) -> Copies {
        let bids = self.bid.map_index(|Tup7(auction, bidder, price, channel, url, at, extra)| {
            (Tup2(*bidder, *auction), Tup5(*at, *price, extra.clone(), channel.clone(), url.clone()))
        });
        copies!(bids.topk_desc(1))
    }

    fn q20(&self) -> Copies {
        let auctions = self.auction.flat_map_index(|Tup9(id, item, initial, reserve, _, to, seller, category, _)| {
            (*category == 10).then(|| (*id, Tup5(item.clone(), *initial, *reserve, *to, *seller)))
        });
        let bids = self.bid.map_index(|Tup7(auction, bidder, price, channel, url, at, extra)| {
            (*auction, Tup6(*bidder, *price, channel.clone(), url.clone(), *at, extra.clone()))
        });
        copies!(bids.join(&auctions, |id, bid, auction| Tup3(*id, bid.clone(), auction.clone())))
    }

    fn group(&self) -> Copies {
        let prices = self.bid.map_index(|Tup7(auction, _, price, ..)| (*auction, *price));
        copies!(prices.aggregate_linear(|price| Tup2(1i64, *price)))
    }
}

/// The query `name`, which reads some of people, auctions and bids, over the steps.
pub fn run(name: &str, reads: [bool; 3], steps: &[Step]) -> Run {
    let name = name.to_owned();
    let build = move |circuit: &mut RootCircuit| {
        let (person, people) = circuit.add_input_zset::<Person>();
        let (auction, auctions) = circuit.add_input_zset::<Auction>();
        let (bid, bids) = circuit.add_input_zset::<Bid>();
        let inputs = Inputs { person, auction, bid };
        let copies = match name.as_str() {
            "q2" => inputs.q2(),
            "q3" => inputs.q3(),
            "q4" => inputs.q4(),
            "q7" => inputs.q7(),
            "q9" => inputs.q9(),
            "q18" => inputs.q18(),
            "q20" => inputs.q20(),
            "group" => inputs.group(),
            other => unreachable!("no query {other}"),
        };
        Ok((people, auctions, bids, copies))
    };
    let (mut circuit, (people, auctions, bids, copies)) =
        Runtime::init_circuit(CircuitConfig::with_workers(1), build).expect("a circuit");
    let (mut took, mut sum) = (Duration::ZERO, 0);
    for step in steps {
        let (mut person, mut auction, mut bid) = (person(&step.person), auction(&step.auction), bid(&step.bid));
        let since = now();
        if reads[0] {
            people.append(&mut person);
        }
        if reads[1] {
            auctions.append(&mut auction);
        }
        if reads[2] {
            bids.append(&mut bid);
        }
        circuit.transaction().expect("a step");
        sum += (copies.lock().expect("one reader"))();
        took += since.elapsed();
    }
    circuit.kill().expect("an end");
    (took, sum)
}

fn number(batch: &RecordBatch, column: usize, row: usize) -> i64 {
    batch.column(column).as_primitive_opt::<Int64Type>().map_or_else(
        || batch.column(column).as_primitive::<TimestampMicrosecondType>().value(row),
        |numbers| numbers.value(row),
    )
}

fn text(batch: &RecordBatch, column: usize, row: usize) -> String {
    batch.column(column).as_string::<i32>().value(row).to_owned()
}

fn rows<T>(batch: &RecordBatch, row: impl Fn(usize) -> T) -> Vec<Tup2<T, i64>> {
    (0..batch.num_rows()).map(|at| Tup2(row(at), 1)).collect()
}

fn person(b: &RecordBatch) -> Vec<Tup2<Person, i64>> {
    rows(b, |at| {
        Tup6(number(b, 0, at), text(b, 1, at), text(b, 2, at), text(b, 3, at), number(b, 4, at), text(b, 5, at))
    })
}

fn auction(b: &RecordBatch) -> Vec<Tup2<Auction, i64>> {
    let n = |column, at| number(b, column, at);
    rows(b, |at| {
        Tup9(n(0, at), text(b, 1, at), n(2, at), n(3, at), n(4, at), n(5, at), n(6, at), n(7, at), text(b, 8, at))
    })
}

fn bid(b: &RecordBatch) -> Vec<Tup2<Bid, i64>> {
    let n = |column, at| number(b, column, at);
    rows(b, |at| Tup7(n(0, at), n(1, at), n(2, at), text(b, 3, at), text(b, 4, at), n(5, at), text(b, 6, at)))
}
