//! The demo's second half: a join and a running aggregate over the same requests, killed in the middle, and compared
//! with a batch query over the table that the first half made.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use lakeward_circuit::query::Batch;
use lakeward_protocol::ports::Exit;

use super::broker::Broker;
use super::progress::{Progress, Table};
use super::requests::SITES;
use super::{LOOK, PATIENCE};
use crate::failure::Failure;
use crate::query::open;
use crate::report::{cells, grouped, table};
use crate::session::Session;

/// What users may try themselves.
const PIPELINE: &str = include_str!("live.sql");
const SITES_TOPIC: &str = "sites";
/// Share of the messages, in percent, at which the process is killed.
const KILL_AT_PERCENT: u64 = 40;
/// The same question, asked once over all that was ingested.
const BATCH: &str = "SELECT s.team, h.host, COUNT(*) AS requests, COUNT(*) FILTER (WHERE h.status >= 500) AS errors, \
    COUNT(DISTINCT h.session_id) AS sessions \
    FROM (SELECT split_part(url, '/', 3) AS host, session_id, status FROM requests) h \
    JOIN site s ON s.host = h.host GROUP BY s.team, h.host ORDER BY s.team, h.host";

/// Runs the pipeline over the topic, kills it once, and compares. `requests` is the ingested table.
///
/// # Errors
/// When the answers differ, or the pipeline does not come to its end.
pub fn run(broker: &Broker, requests: &Path, folder: &Path, messages: u64, session: &Session) -> Result<(), Failure> {
    broker.add(
        SITES_TOPIC,
        &sites().iter().map(|(host, team)| format!(r#"{{"host":"{host}","team":"{team}"}}"#)).collect::<Vec<_>>(),
    )?;
    let file = folder.join("live.sql");
    let text = PIPELINE.replace("${BROKER}", broker.bootstrap()).replace("${FOLDER}", &folder.display().to_string());
    std::fs::write(&file, text).map_err(failed)?;
    println!();
    println!("Now live SQL over the same topic ({}): requests by site, a join and a running aggregate", file.display());
    let bar = Progress::new("running", messages);
    let began = Instant::now();
    let mut process = Pipeline::start(&file, folder)?;
    let mut killed_at = None;
    let sink = Table::new(&folder.join("sites"), session);
    while !process.ended()? {
        if began.elapsed() > PATIENCE || session.signals.raised() {
            return Err(Failure::new(Exit::TryAgain, format_args!("given up; the log is {}", process.log.display())));
        }
        let done = sink.covered();
        bar.set(done.min(messages));
        if killed_at.is_none() && done * 100 >= messages * KILL_AT_PERCENT && done < messages {
            process.kill_and_restart(&file)?;
            killed_at = Some(done);
        }
        std::thread::sleep(LOOK);
    }
    bar.done(&format!(
        "all {} requests are in the view after {:.1} s",
        grouped(messages),
        began.elapsed().as_secs_f64()
    ));
    if let Some(at) = killed_at {
        println!("  the process was killed (SIGKILL) at {} messages and went on where its table stood", grouped(at));
    }
    compare(requests, folder, session)
}

/// The view's table beside the batch answer.
fn compare(requests: &Path, folder: &Path, session: &Session) -> Result<(), Failure> {
    let ask = |tables: Vec<(&str, String)>, sql: &str| -> Result<Vec<Vec<String>>, Failure> {
        let wrong = |error: lakeward_circuit::refused::Refused| Failure::new(Exit::Software, error);
        let mut batch = Batch::default();
        for (name, location) in tables {
            batch.table(name, open(&location, session.runtime.handle())?).map_err(wrong)?;
        }
        let (_, batches) = session.runtime.block_on(batch.ask(sql)).map_err(wrong)?;
        Ok(batches.iter().flat_map(|batch| cells(batch, "NULL")).collect())
    };
    let live = ask(
        vec![("sites", folder.join("sites").display().to_string())],
        "SELECT team, host, requests, errors, sessions FROM sites ORDER BY team, host",
    )?;
    let values: Vec<String> = sites().iter().map(|(host, team)| format!("('{host}', '{team}')")).collect();
    let sql = format!("WITH site(host, team) AS (VALUES {}) {BATCH}", values.join(", "));
    let again = ask(vec![("requests", requests.display().to_string())], &sql)?;
    print!("{}", table(&["team", "host", "requests", "errors", "sessions"], &live));
    if live != again {
        let again = table(&["team", "host", "requests", "errors", "sessions"], &again);
        return Err(Failure::new(
            Exit::Software,
            format_args!("a batch query over the same requests says otherwise:\n{again}"),
        ));
    }
    println!(
        "the same as a batch query over all {} requests says: exact",
        grouped(live.iter().filter_map(|row| row.get(2)?.parse::<u64>().ok()).sum::<u64>())
    );
    Ok(())
}

/// Each site's team.
fn sites() -> Vec<(&'static str, &'static str)> {
    let team = |host: &'static str| {
        if host.starts_with("www") {
            "web"
        } else if host.starts_with("api") {
            "platform"
        } else {
            "content"
        }
    };
    SITES.iter().map(|host| (*host, team(host))).collect()
}

/// The pipeline's process; ended with us.
struct Pipeline {
    child: Child,
    log: PathBuf,
}

impl Pipeline {
    fn start(file: &Path, folder: &Path) -> Result<Self, Failure> {
        let log = folder.join("run.log");
        Ok(Self { child: spawn(file, &log)?, log })
    }

    fn kill_and_restart(&mut self, file: &Path) -> Result<(), Failure> {
        self.child.kill().map_err(failed)?;
        self.child.wait().map_err(failed)?;
        self.child = spawn(file, &self.log)?;
        Ok(())
    }

    /// Has it come to the topic's end?
    fn ended(&mut self) -> Result<bool, Failure> {
        match self.child.try_wait().map_err(failed)? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => {
                let text = std::fs::read_to_string(&self.log).unwrap_or_default();
                let last = text.lines().last().unwrap_or_default();
                Err(Failure::new(Exit::Software, format_args!("the pipeline ended with {status}: {last}")))
            }
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(file: &Path, log: &Path) -> Result<Child, Failure> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).map_err(failed)?;
    let program = std::env::current_exe().map_err(failed)?;
    Command::new(program)
        .arg("run")
        .arg(file)
        .args(["--until", "end"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(failed)
}

fn failed(error: std::io::Error) -> Failure {
    Failure::new(Exit::TryAgain, format_args!("the demo's pipeline: {error}"))
}
