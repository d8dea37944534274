//! How far the demo is: a bar on a terminal, plain lines elsewhere; and how far the table is.

use std::cell::{Cell, RefCell};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use lakeward_delta::History;
use lakeward_protocol::position::PartitionId;

use crate::report::grouped;
use crate::session::Session;

/// One phase's bar.
pub struct Progress {
    bar: Option<ProgressBar>,
    what: &'static str,
    whole: u64,
    /// Quarters told, where there is no bar.
    told: Cell<u64>,
}

impl Progress {
    /// At zero.
    pub fn new(what: &'static str, whole: u64) -> Self {
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("{msg:10} [{bar:40}] {human_pos}/{human_len} {per_sec}");
            let bar = ProgressBar::new(whole).with_message(what);
            if let Ok(style) = style { bar.with_style(style.progress_chars("=> ")) } else { bar }
        });
        Self { bar, what, whole, told: Cell::new(0) }
    }

    /// So far.
    pub fn set(&self, done: u64) {
        if let Some(bar) = &self.bar {
            return bar.set_position(done);
        }
        let quarter = done * 4 / self.whole.max(1);
        if quarter > self.told.get() && quarter < 4 {
            self.told.set(quarter);
            println!("  {} {} of {}", self.what, grouped(done), grouped(self.whole));
        }
    }

    /// Over; says what came of it.
    pub fn done(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        println!("{text}");
    }
}

/// Looks at the table's log from outside, each version once.
pub struct Table<'a> {
    location: String,
    session: &'a Session,
    seen: RefCell<(u64, std::collections::BTreeMap<PartitionId, i64>)>,
}

impl<'a> Table<'a> {
    /// Of a table that may not be there yet.
    pub fn new(folder: &Path, session: &'a Session) -> Self {
        Self { location: folder.display().to_string(), session, seen: RefCell::default() }
    }

    /// Offsets that the table covers, over all partitions.
    pub fn covered(&self) -> u64 {
        let mut seen = self.seen.borrow_mut();
        if let Ok(history) = History::open(&self.location, self.session.runtime.handle().clone()) {
            let next = seen.0;
            for version in history.read_from(next).flatten() {
                seen.0 = version.version + 1;
                for span in version.notes.iter().flat_map(|notes| &notes.spans) {
                    seen.1.insert(PartitionId(span.partition), span.to);
                }
            }
        }
        seen.1.values().map(|to| to.unsigned_abs()).sum()
    }
}
