//! Logs bad records, but never floods the log with them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use lakeward_protocol::position::PartitionId;

/// Records logged in full in each [`WINDOW`].
const FULL: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);
/// Of a record's bytes, as many as help to recognise it.
const EXCERPT_BYTES: usize = 200;

/// Shared by all that find bad records of one topic.
pub struct BadLog {
    topic: String,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    began: Option<Instant>,
    logged: u32,
    silent: u64,
}

/// What to do with one more.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// Log it; so many before it were not.
    Say {
        unsaid: u64,
    },
    /// The last one in this window.
    SayAndHush,
    Silent,
}

impl Window {
    fn turn(&mut self, now: Instant) -> Turn {
        let fresh = self.began.is_none_or(|began| now.duration_since(began) >= WINDOW);
        if fresh {
            let unsaid = std::mem::take(&mut self.silent);
            (self.began, self.logged) = (Some(now), 1);
            return Turn::Say { unsaid };
        }
        self.logged += 1;
        match self.logged {
            ..FULL => Turn::Say { unsaid: 0 },
            FULL => Turn::SayAndHush,
            _ => {
                self.silent += 1;
                Turn::Silent
            }
        }
    }
}

impl BadLog {
    /// For one topic.
    #[must_use]
    pub fn new(topic: String) -> Self {
        Self { topic, window: Mutex::default() }
    }

    /// One record that was left out of the table.
    pub fn log(&self, partition: PartitionId, offset: i64, kind: &str, detail: &str, value: Option<&[u8]>) {
        self.say(|| {
            let value = excerpt(value.unwrap_or_default());
            tracing::warn!(topic = self.topic, %partition, offset, kind, "bad record left out: {detail}; its value: {value}");
        });
    }

    /// One row that was left out of a view, and the record that it was made of.
    pub fn log_row(&self, partition: PartitionId, offset: i64, operator: &str, reason: &str, row: &str) {
        self.say(|| {
            tracing::warn!(topic = self.topic, %partition, offset, operator, "row left out: {reason} ({row})");
        });
    }

    fn say(&self, log: impl FnOnce()) {
        let turn = self.window.lock().expect("no holder of this lock panics").turn(Instant::now());
        let unsaid = match turn {
            Turn::Silent => return,
            Turn::Say { unsaid } => unsaid,
            Turn::SayAndHush => 0,
        };
        if unsaid > 0 {
            tracing::warn!(
                "{unsaid} more were left out and not logged; lakeward_bad_records_total and lakeward_failed_rows_total \
                 count all"
            );
        }
        log();
        if turn == Turn::SayAndHush {
            tracing::warn!("further ones are counted, not logged, for up to {} s", WINDOW.as_secs());
        }
    }
}

fn excerpt(value: &[u8]) -> String {
    let (shown, dots) = if value.len() > EXCERPT_BYTES { (&value[..EXCERPT_BYTES], "...") } else { (value, "") };
    format!("\"{}\"{dots} ({} bytes)", shown.escape_ascii(), value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_short_and_counted() {
        let (mut window, start) = (Window::default(), Instant::now());
        let turns: Vec<Turn> = (0..15).map(|_| window.turn(start)).collect();
        assert_eq!(turns.iter().filter(|turn| **turn == Turn::Say { unsaid: 0 }).count(), 9);
        assert_eq!(turns[9], Turn::SayAndHush);
        assert_eq!(window.turn(start + WINDOW), Turn::Say { unsaid: 5 });
    }

    #[test]
    fn an_excerpt_is_printable_and_short() {
        assert_eq!(excerpt(b"bad \xff"), "\"bad \\xff\" (5 bytes)");
        assert!(excerpt(&[b'x'; 1000]).len() < 250);
    }
}
