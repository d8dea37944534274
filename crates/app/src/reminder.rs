//! How often something that goes on failing is told: at first each time, then once a minute.

use std::time::{Duration, Instant};

/// Failures told as they come, so that a short one is seen whole.
const FIRST: u32 = 3;
const AGAIN: Duration = Duration::from_secs(60);

/// Remembers when a failure was told last.
#[derive(Debug, Default)]
pub struct Reminder(Option<Instant>);

impl Reminder {
    /// Whether the failure of that number in a row, from 1, is to be told now.
    pub fn is_due(&mut self, attempt: u32) -> bool {
        self.is_due_at(attempt, Instant::now())
    }

    fn is_due_at(&mut self, attempt: u32, now: Instant) -> bool {
        let due = attempt <= FIRST || self.0.is_none_or(|told| now.duration_since(told) >= AGAIN);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_at_once_then_one_a_minute() {
        let (mut reminder, start) = (Reminder::default(), Instant::now());
        let told: Vec<u64> =
            (1..=40).filter(|n| reminder.is_due_at(*n, start + AGAIN / 6 * *n)).map(u64::from).collect();
        assert_eq!(told, [1, 2, 3, 9, 15, 21, 27, 33, 39]);
        assert!(reminder.is_due_at(1, start + AGAIN * 7), "another failure is told at once");
    }
}
