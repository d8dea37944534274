//! `lakeward` as a process: started as a user would, watched by its output, signalled by its own id.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use lakeward_testkit::{Broker, Topic};

use crate::table::Table;
use crate::{DEADLINE, scratch, unique, wait_for};

/// An ingest to start: options as the cases have them (`-l 2 -m 10 -b 1 -a app`), a group of its own.
#[derive(Clone)]
pub struct Ingest {
    topic: String,
    table: String,
    options: Vec<String>,
    environment: Vec<(String, String)>,
}

/// Failure detection in seconds, not in the default's minute.
const QUICK: [&str; 3] =
    ["session.timeout.ms=6000", "heartbeat.interval.ms=300", "topic.metadata.refresh.interval.ms=2000"];

/// Options that may stand once, and that [`Ingest::new`] sets.
const ONCE: [&str; 6] = ["-k", "-g", "-a", "-l", "-m", "-b"];

impl Ingest {
    pub fn new(topic: &Topic, table: &Table) -> Self {
        Self::at(topic.name(), &table.path.display().to_string())
    }

    pub fn at(topic: &str, table: &str) -> Self {
        let broker = Broker::shared().bootstrap();
        let new =
            Self { topic: topic.to_owned(), table: table.to_owned(), options: Vec::new(), environment: Vec::new() };
        let group = format!("group-{}", unique());
        let new = new.with(&["-k", broker, "-g", &group, "-a", "app", "-l", "2", "-m", "10", "-b", "1"]);
        QUICK.iter().fold(new, |new, setting| new.with(&["-K", setting]))
    }

    /// Adds options. One that takes one value and is there already is replaced, as a user would edit it.
    #[must_use]
    pub fn with(mut self, options: &[&str]) -> Self {
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            let at = self.options.iter().position(|given| given == option);
            if let (true, Some(at)) = (ONCE.contains(option), at) {
                let value = rest.next().expect("the option's value");
                (*value).clone_into(&mut self.options[at + 1]);
            } else {
                self.options.push((*option).to_owned());
            }
        }
        self
    }

    /// Sets a variable of the process's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The value of an option that was given, such as `-g`.
    pub fn option(&self, name: &str) -> &str {
        let at = self.options.iter().position(|option| option == name).expect("a given option");
        &self.options[at + 1]
    }

    /// Starts it.
    pub fn start(&self) -> Running {
        let admin = free_port();
        Running::spawn(self.command(admin), admin)
    }

    /// The command that starts it, with this admin port.
    pub fn command(&self, admin: SocketAddr) -> Command {
        let mut command = lakeward(&["ingest", &self.topic, &self.table]);
        command.args(&self.options).args(["--admin", &admin.to_string()]).envs(self.environment.iter().cloned());
        command
    }

    /// Starts it and waits for its end.
    pub fn run(&self) -> Ended {
        self.start().wait()
    }

    /// What it would do, as `lakeward check ingest` says it.
    pub fn check(&self) -> Ended {
        let options = self.options.iter().map(String::as_str);
        run(&["check", "ingest", &self.topic, &self.table].into_iter().chain(options).collect::<Vec<_>>())
    }

    /// Runs it to the end offsets of now (`-e`), which must go well.
    pub fn run_to_end(&self) -> Ended {
        let ended = self.clone().with(&["-e"]).run();
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        ended
    }
}

/// The program with some arguments, in an environment that has no settings of ours. `LAKEWARD_BIN` names another
/// program to test than the one just built.
pub fn lakeward(arguments: &[&str]) -> Command {
    let program = std::env::var_os("LAKEWARD_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_lakeward").into());
    let mut command = Command::new(program);
    for name in [
        "KAFKA_TOPIC",
        "TABLE_LOCATION",
        "KAFKA_BROKERS",
        "KAFKA_CONSUMER_GROUP",
        "APP_ID",
        "TRANSFORMS",
        "DLQ_TABLE_LOCATION",
        "DLQ_TRANSFORMS",
    ] {
        command.env_remove(name);
    }
    command.env("RUST_LOG", "info,lakeward=debug,delta_kernel=warn").args(arguments);
    command
}

/// Runs any command of the program to its end.
pub fn run(arguments: &[&str]) -> Ended {
    Running::spawn(lakeward(arguments), SocketAddr::from(([127, 0, 0, 1], 0))).wait()
}

/// An address that nobody listens on, below the ports that the system gives to clients.
pub fn free_port() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 90).expect("small") * 100;
    loop {
        let port = 10_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 9_000;
        if let Ok(address) = TcpListener::bind(("127.0.0.1", port)).and_then(|listener| listener.local_addr()) {
            return address;
        }
    }
}

/// Signals a process that was not waited for yet, or, by its negative, its group.
fn send(id: i32, signal: i32) {
    // SAFETY: `kill` takes no memory of ours.
    #[allow(unsafe_code, reason = "std sends SIGKILL alone, and to one process")]
    let sent = unsafe { libc::kill(id, signal) };
    assert_eq!(sent, 0, "signal {signal} to {id}");
}

/// A process that ended.
pub struct Ended {
    /// None where a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Standard error, then standard output.
    pub log: String,
}

/// A process that runs; killed when dropped.
pub struct Running {
    child: Child,
    folder: PathBuf,
    admin: SocketAddr,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Starts a command whose admin port, if it was asked for one, is this.
    pub fn spawn(mut command: Command, admin: SocketAddr) -> Self {
        let folder = scratch("run");
        fs::create_dir_all(&folder).expect("make the output's folder");
        let output = |name| Stdio::from(File::create(folder.join(name)).expect("make an output file"));
        command.stdin(Stdio::null()).stdout(output("stdout")).stderr(output("stderr"));
        command.process_group(0); // so that what it starts itself (the demo's workers) ends with it
        let child = command.spawn().expect("start lakeward");
        Self { child, folder, admin, ended: None }
    }

    /// All it said so far: standard error, then standard output.
    pub fn log(&self) -> String {
        let text = |name| String::from_utf8_lossy(&fs::read(self.folder.join(name)).unwrap_or_default()).into_owned();
        text("stderr") + &text("stdout")
    }

    /// Waits until it said this.
    pub fn wait_log(&self, text: &str) {
        wait_for(
            &format!("the log to say '{text}'"),
            || if self.log().contains(text) { Ok(()) } else { Err(self.log()) },
        );
    }

    /// Waits until it has its table and partitions, and would read what comes from now on.
    pub fn wait_ready(&self) {
        wait_for("/readyz", || match self.get("/readyz") {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    /// Waits until it has taken in this many messages, committed or not.
    pub fn wait_read(&self, messages: u64) {
        wait_for(&format!("{messages} messages to be read"), || {
            let read = self.metric("lakeward_records_total");
            if read >= messages as f64 { Ok(()) } else { Err(read) }
        });
    }

    /// Sum of a metric over its labels; 0 where it is not there (yet).
    pub fn metric(&self, name: &str) -> f64 {
        let Ok((200, text)) = self.get("/metrics") else { return 0.0 };
        let lines =
            text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// One answer of the admin port: status and body.
    pub fn get(&self, path: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.admin)?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Ok((status, body.to_owned()))
    }

    /// Its command line, as everybody on the machine sees it.
    pub fn command_line(&self) -> String {
        let line = fs::read(format!("/proc/{}/cmdline", self.child.id())).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ")
    }

    /// The most memory it ever held, in MB (VmHWM).
    pub fn peak_memory_mb(&mut self) -> u64 {
        self.status_mb("VmHWM:")
    }

    /// The memory that it made itself and holds now, in MB (RssAnon): not the program's text, which differs by build.
    pub fn own_memory_mb(&self) -> u64 {
        self.status_mb("RssAnon:")
    }

    fn status_mb(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let value = status.lines().find_map(|text| text.strip_prefix(line)).expect("a line of the kernel's");
        value.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("kB") / 1024
    }

    /// Sends a signal, unless it has ended.
    pub fn signal(&mut self, signal: i32) {
        if self.poll().is_some() {
            return;
        }
        send(self.id(), signal);
    }

    /// Its own as long as it was not waited for.
    pub fn id(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids are i32")
    }

    /// Freezes it (SIGSTOP).
    pub fn freeze(&mut self) {
        self.signal(libc::SIGSTOP);
    }

    /// Thaws it (SIGCONT).
    pub fn thaw(&mut self) {
        self.signal(libc::SIGCONT);
    }

    /// Ends it as a power cut would.
    pub fn kill(mut self) -> Ended {
        self.signal(libc::SIGKILL);
        self.wait()
    }

    /// Asks it to stop, once it listens; it must end well.
    pub fn stop(mut self) -> Ended {
        self.wait_log("admin port");
        self.signal(libc::SIGTERM);
        let ended = self.wait();
        assert_eq!(ended.code, Some(0), "after SIGTERM:\n{}", ended.log);
        ended
    }

    /// Whether it runs still.
    pub fn is_running(&mut self) -> bool {
        self.poll().is_none()
    }

    fn poll(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child of ours");
        }
        self.ended
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        self.wait_within(DEADLINE).unwrap_or_else(|| panic!("lakeward did not end:\n{}", self.log()))
    }

    /// Waits for its end, but no longer than this.
    pub fn wait_within(&mut self, limit: Duration) -> Option<Ended> {
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Some(status) = self.poll() {
                return Some(Ended { code: status.code(), signal: status.signal(), log: self.log() });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.poll().is_none() {
            send(-self.id(), libc::SIGKILL);
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<_> = log.lines().rev().take(40).collect();
            eprintln!("--- lakeward said ({}), newest last:", self.folder.display());
            tail.iter().rev().for_each(|line| eprintln!("  {line}"));
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
