//! The two workers: processes of this very program, and what happens to them.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lakeward_protocol::ports::Exit;

use super::broker::Broker;
use crate::failure::Failure;

/// The columns of the demo's table: the message's own, and what transforms add.
const SCHEMA: &str = include_str!("schema.json");

/// Both workers; ended with us.
pub struct Workers {
    children: Vec<Child>,
    bootstrap: String,
    folder: PathBuf,
    logs: PathBuf,
}

impl Workers {
    /// Starts two.
    ///
    /// # Errors
    /// When a process can't be started.
    pub fn start(broker: &Broker, folder: &Path, logs: &Path) -> Result<Self, Failure> {
        std::fs::write(logs.join("schema.json"), SCHEMA).map_err(failed)?;
        let mut workers = Self {
            children: Vec::new(),
            bootstrap: broker.bootstrap().to_owned(),
            folder: folder.to_owned(),
            logs: logs.to_owned(),
        };
        for number in 1..=2 {
            workers.children.push(workers.spawn(number)?);
        }
        Ok(workers)
    }

    /// Where their logs are.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    fn spawn(&self, number: u32) -> Result<Child, Failure> {
        let program = std::env::current_exe().map_err(failed)?;
        let schema = self.logs.join("schema.json");
        Command::new(program)
            .args(["ingest", super::TOPIC])
            .arg(&self.folder)
            .args(["-k", &self.bootstrap, "-g", "demo", "-a", "demo", "-e", "-l", "1", "-b", "2000000"])
            .args(["--create", "--partition-by", "date", "--compression", "zstd", "--schema"])
            .arg(schema)
            .args(["-t", "date: substr(meta.producer.timestamp, `0`, `10`)"])
            .args(["-t", "kafka_partition: kafka.partition", "-t", "kafka_offset: kafka.offset"])
            .args(["-K", "session.timeout.ms=6000", "-K", "heartbeat.interval.ms=200"])
            .args(["-K", "partition.assignment.strategy=cooperative-sticky"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log(number)?)
            .spawn()
            .map_err(failed)
    }

    fn log(&self, number: u32) -> Result<File, Failure> {
        let file = self.logs.join(format!("worker-{number}.log"));
        OpenOptions::new().create(true).append(true).open(file).map_err(failed)
    }

    /// `kill -9` for the second one, and a new one in its place.
    ///
    /// # Errors
    /// When a process can't be started.
    pub fn kill_and_restart(&mut self) -> Result<(), Failure> {
        let last = self.children.last_mut().expect("two workers");
        last.kill().map_err(failed)?;
        last.wait().map_err(failed)?;
        *self.children.last_mut().expect("two workers") = self.spawn(2)?;
        Ok(())
    }

    /// Have all reached the topic's end?
    ///
    /// # Errors
    /// When one ended otherwise.
    pub fn all_ended(&mut self) -> Result<bool, Failure> {
        let mut all = true;
        for (number, child) in self.children.iter_mut().enumerate() {
            match child.try_wait().map_err(failed)? {
                None => all = false,
                Some(status) if status.success() => {}
                Some(status) => {
                    let log = self.logs.join(format!("worker-{}.log", number + 1));
                    let tail = std::fs::read_to_string(&log).unwrap_or_default();
                    let tail: Vec<&str> = tail.lines().rev().take(5).collect();
                    let tail: Vec<&str> = tail.into_iter().rev().collect();
                    return Err(Failure::new(
                        Exit::Software,
                        format_args!("worker {} ended with {status}:\n{}", number + 1, tail.join("\n")),
                    ));
                }
            }
        }
        Ok(all)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn failed(error: std::io::Error) -> Failure {
    Failure::new(Exit::TryAgain, format_args!("the demo's workers: {error}"))
}
