//! Web requests as a small site logs them: JSON of about 230 bytes, the same for the same seed.

use std::fmt::Write as _;

use rand::{Rng, SeedableRng, rngs::SmallRng};

const METHODS: [&str; 8] = ["GET", "GET", "GET", "GET", "POST", "PUT", "DELETE", "HEAD"];
const STATUS: [u16; 10] = [200, 200, 200, 200, 201, 204, 301, 304, 404, 500];
pub const SITES: [&str; 6] = [
    "www.example.com",
    "shop.example.com",
    "api.example.com",
    "www.example.org",
    "img.example.net",
    "docs.example.org",
];
/// Requests of one session, on average.
const REQUESTS_A_SESSION: u64 = 40;
/// 2021-03-24T15:00:00Z.
const FIRST_SECOND: u64 = 1_616_598_000;
const REQUESTS_A_SECOND: u64 = 8;

/// An endless log of requests, one call a message.
pub struct Requests {
    random: SmallRng,
    sessions: Vec<u128>,
    number: u64,
    text: String,
}

impl Requests {
    /// The log that this seed gives.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let sessions = (0..512).map(|_| random.random()).collect();
        Self { random, sessions, number: 0, text: String::with_capacity(256) }
    }

    /// The next message, and the day it falls on.
    pub fn next(&mut self) -> &str {
        let random = &mut self.random;
        let slot = random.random_range(0..self.sessions.len());
        if random.random_range(0..REQUESTS_A_SESSION) == 0 {
            self.sessions[slot] = random.random();
        }
        let second = FIRST_SECOND + self.number / REQUESTS_A_SECOND;
        let micros = random.random_range(0..1_000_000);
        let (days, of_day) = (second / 86_400, second % 86_400);
        self.text.clear();
        let _ = write!(
            self.text,
            r#"{{"meta":{{"producer":{{"timestamp":"2021-03-{:02}T{:02}:{:02}:{:02}.{micros:06}+00:00"}}}},"method":"{}","session_id":"{}","status":{},"url":"http://{}/item/{}","uuid":"{}"}}"#,
            24 + days - FIRST_SECOND / 86_400,
            of_day / 3600,
            of_day / 60 % 60,
            of_day % 60,
            METHODS[random.random_range(0..METHODS.len())],
            uuid::Uuid::from_u128(self.sessions[slot]),
            STATUS[random.random_range(0..STATUS.len())],
            SITES[random.random_range(0..SITES.len())],
            random.random_range(0..1000),
            uuid::Builder::from_random_bytes(random.random()).into_uuid(),
        );
        self.number += 1;
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_log() {
        let (mut one, mut two, mut other) = (Requests::new(7), Requests::new(7), Requests::new(8));
        for _ in 0..1000 {
            let text = one.next().to_owned();
            assert_eq!(text, two.next());
            assert_ne!(text, other.next());
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(value["meta"]["producer"]["timestamp"].as_str().unwrap().starts_with("2021-03-2"));
            assert!((210..=250).contains(&text.len()), "{text}");
        }
    }
}
