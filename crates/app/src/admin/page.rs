//! The admin port's page for people, at `/`, and the same as JSON, at `/api/status`. Asks nobody but this process.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::report::grouped;
use crate::watch::{Progress, Stand};

/// How often a browser loads it again.
const REFRESH: Duration = Duration::from_secs(5);
/// Partitions shown; what are more is counted.
const SHOWN: usize = 500;

/// What there is to show.
#[derive(Clone)]
pub struct Page(Arc<Inner>);

struct Inner {
    /// What the process does, in the order shown.
    facts: Vec<(&'static str, String)>,
    started: Instant,
    /// How far each part of the job is, by its name; an ingest has one, without a name.
    parts: Mutex<Vec<(String, Progress)>>,
}

impl Page {
    /// About a process that does this.
    #[must_use]
    pub fn new(facts: Vec<(&'static str, String)>) -> Self {
        Self(Arc::new(Inner { facts, started: Instant::now(), parts: Mutex::default() }))
    }

    /// Shows how far a part of the job is as well.
    pub fn add(&self, name: &str, progress: &Progress) {
        self.0.parts.lock().expect("no holder of this lock panics").push((name.to_owned(), progress.clone()));
    }

    fn stands(&self) -> Vec<(String, Stand)> {
        let parts = self.0.parts.lock().expect("no holder of this lock panics");
        parts.iter().flat_map(|(name, progress)| progress.stands().into_iter().map(|at| (name.clone(), at))).collect()
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self, ready: bool) -> Value {
        let mut all: Map<String, Value> =
            self.0.facts.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let line = |(part, stand): &(String, Stand)| {
            json!({
                "part": part, "partition": stand.partition.to_string(), "read": stand.read,
                "committed": stand.committed, "end": stand.end, "lag": lag(stand),
            })
        };
        all.insert("ready".to_owned(), json!(ready));
        all.insert("uptime_seconds".to_owned(), json!(self.0.started.elapsed().as_secs()));
        all.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        all.insert("partitions".to_owned(), self.stands().iter().map(line).collect());
        Value::Object(all)
    }

    /// For a browser; without a script, so that it works behind any policy.
    #[must_use]
    pub fn html(&self, ready: bool) -> String {
        let mut out = format!(
            "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content={}><title>lakeward</title>\
             <style>body{{font:15px system-ui,sans-serif;margin:2em;color-scheme:light dark}}table{{border-collapse:\
             collapse}}td,th{{padding:.2em 1em;text-align:right}}td:first-child,th:first-child{{text-align:left}}\
             tr:nth-child(even){{background:#8881}}</style><h1>lakeward</h1><table>",
            REFRESH.as_secs()
        );
        let uptime = self.0.started.elapsed().as_secs();
        let state = if ready { "reading" } else { "not reading (no partitions, no table, or no topic yet)" };
        let more = [("state", state.to_owned()), ("up for", format!("{} s", grouped(uptime)))];
        for (name, value) in self.0.facts.iter().chain(&more) {
            let _ = write!(out, "<tr><th>{name}<td style=text-align:left>{}", escaped(value));
        }
        out += "</table><h2>Partitions here</h2><table><tr><th>partition<th>read<th>committed<th>end<th>lag";
        let stands = self.stands();
        for (part, stand) in stands.iter().take(SHOWN) {
            let cell = |number: Option<i64>| number.map_or_else(|| "?".to_owned(), grouped);
            let cells = [Some(stand.read), Some(stand.committed), stand.end, lag(stand)].map(cell);
            let _ = write!(out, "<tr><td>{} {}", escaped(part), stand.partition);
            cells.iter().for_each(|cell| _ = write!(out, "<td>{cell}</td>"));
        }
        if stands.len() > SHOWN {
            let _ = write!(out, "<tr><td colspan=5>and {} more", grouped(stands.len() - SHOWN));
        }
        out + "</table><p><a href=/metrics>/metrics</a> <a href=/api/status>/api/status</a> <a href=/healthz>/healthz</a> \
               <a href=/readyz>/readyz</a></html>\n"
    }
}

/// Offsets between what is committed and the end, as far as it is known.
fn lag(stand: &Stand) -> Option<i64> {
    stand.end.map(|end| (end - stand.committed).max(0))
}

/// Text as HTML has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_not_markup() {
        let page = Page::new(vec![("table", "./<script>&".to_owned())]);
        let html = page.html(true);
        assert!(html.contains("./&lt;script&gt;&amp;") && !html.contains("<script"), "{html}");
        assert_eq!(page.json(false)["table"], "./<script>&");
    }
}
