//! An auction house's events of a fixed seed, by step: in each 50 one person, three auctions, 46 bids.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// One step's rows of each source.
pub struct Step {
    pub person: RecordBatch,
    pub auction: RecordBatch,
    pub bid: RecordBatch,
}

enum Column {
    Number(Vec<i64>),
    Text(Vec<String>),
    Time(Vec<i64>),
}

fn batch(columns: Vec<(&str, Column)>) -> RecordBatch {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    let kind = |column: &Column| match column {
        Column::Number(_) => DataType::Int64,
        Column::Text(_) => DataType::Utf8,
        Column::Time(_) => time.clone(),
    };
    let fields: Vec<Field> = columns.iter().map(|(name, column)| Field::new(*name, kind(column), true)).collect();
    let arrays = columns.into_iter().map(|(_, column)| -> ArrayRef {
        match column {
            Column::Number(values) => Arc::new(Int64Array::from(values)),
            Column::Text(values) => Arc::new(StringArray::from(values)),
            Column::Time(values) => Arc::new(TimestampMicrosecondArray::from(values)),
        }
    });
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.collect()).expect("columns of their types")
}

struct House {
    rnd: SmallRng,
    people: i64,
    auctions: i64,
}

impl House {
    fn text(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(b'a' + self.rnd.random_range(0..26u8))).collect()
    }

    fn price(&mut self) -> i64 {
        100 * 10i64.pow(self.rnd.random_range(0..6)) * self.rnd.random_range(1..10) + self.rnd.random_range(0..100)
    }

    /// Mostly one of each hundred, else one of the last.
    fn of(&mut self, last: i64, hot: f64, others: i64) -> i64 {
        if self.rnd.random_bool(hot) { last / 100 * 100 } else { (last - self.rnd.random_range(0..others)).max(0) }
    }

    fn step(&mut self, from: usize, to: usize) -> Step {
        let time = |number: usize| i64::try_from(number).expect("few events") * 100 + 1_767_225_600_000_000;
        let mut person: [Vec<String>; 4] = Default::default();
        let (mut people, mut born) = (Vec::new(), Vec::new());
        let (mut items, mut notes): (Vec<String>, Vec<String>) = Default::default();
        let mut auction: [Vec<i64>; 7] = Default::default();
        let mut bid: [Vec<i64>; 4] = Default::default();
        let mut words: [Vec<String>; 3] = Default::default();
        for number in from..to {
            match number % 50 {
                0 => {
                    people.push(self.people);
                    self.people += 1;
                    born.push(time(number));
                    person[0].push(self.text(12));
                    person[1].push(self.text(8));
                    person[2].push(["az", "ca", "id", "or", "wa", "wy"][self.rnd.random_range(0..6)].to_owned());
                    person[3].push(self.text(60));
                }
                1..=3 => {
                    let seller = self.of(self.people - 1, 0.75, 1000);
                    let (initial, reserve) = (self.price(), self.price());
                    let expires = time(number + self.rnd.random_range(1..3000));
                    let category = 10 + self.rnd.random_range(0..5);
                    let row = [self.auctions, initial, initial + reserve, time(number), expires, seller, category];
                    self.auctions += 1;
                    auction.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
                    items.push(self.text(20));
                    notes.push(self.text(200));
                }
                _ => {
                    let (auction, bidder) =
                        (self.of(self.auctions - 1, 0.5, 100), self.of(self.people - 1, 0.75, 1000));
                    let row = [auction, bidder, self.price(), time(number)];
                    bid.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
                    words[0].push(["Google", "Facebook", "Baidu", "Apple"][self.rnd.random_range(0..4)].to_owned());
                    words[1].push(format!("https://www.nexmark.com/{}/item.htm?query=1", self.text(14)));
                    words[2].push(self.text(30));
                }
            }
        }
        Step {
            person: of_people(people, person, born),
            auction: of_auctions(auction, items, notes),
            bid: of_bids(bid, words),
        }
    }
}

/// `events` of them, `step` a step.
pub fn steps(events: usize, step: usize) -> Vec<Step> {
    let mut house = House { rnd: SmallRng::seed_from_u64(1), people: 0, auctions: 0 };
    (0..events).step_by(step).map(|from| house.step(from, events.min(from + step))).collect()
}

fn of_people(ids: Vec<i64>, texts: [Vec<String>; 4], born: Vec<i64>) -> RecordBatch {
    let [name, city, state, extra] = texts.map(Column::Text);
    batch(vec![
        ("id", Column::Number(ids)),
        ("name", name),
        ("city", city),
        ("state", state),
        ("date_time", Column::Time(born)),
        ("extra", extra),
    ])
}

fn of_auctions(numbers: [Vec<i64>; 7], items: Vec<String>, notes: Vec<String>) -> RecordBatch {
    let [id, initial, reserve, opened, expires, seller, category] = numbers;
    batch(vec![
        ("id", Column::Number(id)),
        ("item_name", Column::Text(items)),
        ("initial_bid", Column::Number(initial)),
        ("reserve", Column::Number(reserve)),
        ("date_time", Column::Time(opened)),
        ("expires", Column::Time(expires)),
        ("seller", Column::Number(seller)),
        ("category", Column::Number(category)),
        ("extra", Column::Text(notes)),
    ])
}

fn of_bids(numbers: [Vec<i64>; 4], texts: [Vec<String>; 3]) -> RecordBatch {
    let ([auction, bidder, price, when], [channel, url, extra]) = (numbers, texts.map(Column::Text));
    batch(vec![
        ("auction", Column::Number(auction)),
        ("bidder", Column::Number(bidder)),
        ("price", Column::Number(price)),
        ("channel", channel),
        ("url", url),
        ("date_time", Column::Time(when)),
        ("extra", extra),
    ])
}
