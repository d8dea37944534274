//! Where the broker comes from.

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// Names a broker that runs already; `host:port`.
const GIVEN: &str = "LAKEWARD_TEST_KAFKA";

/// A Kafka cluster. One that we started ends when this is dropped, or when the process ends, however it ends.
#[derive(Debug)]
pub struct Broker {
    bootstrap: String,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    child: Child,
    /// kafka.sh serves until this closes, and the kernel closes it for a process that was killed.
    stdin: Option<ChildStdin>,
    dir: PathBuf,
    first_port: u16,
}

impl Broker {
    /// The one that all tests of this process share: `LAKEWARD_TEST_KAFKA`, or one started on first use.
    /// Tests share it with others: use [`Broker::topic`]'s unique names, and never kill it.
    ///
    /// # Panics
    /// When there is none and none can be started.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Broker> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var(GIVEN) {
            Ok(address) if !address.is_empty() => Self { bootstrap: address, own: None },
            _ => Self::own(1),
        })
    }

    /// A cluster of 1 or 3 nodes for this test alone, with everything that [`Broker::kill`] and its like need.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn own(nodes: u16) -> Self {
        Self::own_with(nodes, "")
    }

    /// [`Broker::own`] with further broker settings, as lines of a properties file.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn own_with(nodes: u16, settings: &str) -> Self {
        let parent =
            tempfile::Builder::new().prefix("lakeward-kafka-").tempdir().expect("make a folder for the broker");
        let extra = parent.path().join("extra.properties");
        std::fs::write(&extra, settings).expect("write the broker's settings");
        let first_port = free_ports(nodes);
        // `serve` removes the folder, also when we are killed.
        let dir = parent.keep();
        let mut child = Command::new(script())
            .args(["serve".as_ref(), dir.as_os_str(), nodes.to_string().as_ref()])
            .env("PORT", first_port.to_string())
            .env("EXTRA", &extra)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0) // Ctrl-C in a terminal is for the test; the broker ends after it
            .spawn()
            .unwrap_or_else(|e| panic!("start {}: {e}", script().display()));
        let stdin = child.stdin.take();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        stdout.read_line(&mut line).expect("read what kafka.sh says");
        let bootstrap = line.trim().to_owned();
        assert!(!bootstrap.is_empty(), "no broker: kafka.sh ended ({:?}); its errors are above", child.wait());
        Self { bootstrap, own: Some(Own { child, stdin, dir, first_port }) }
    }

    /// Its addresses, as `bootstrap.servers` takes them.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Ends node `n` (from 1) with SIGKILL.
    ///
    /// # Panics
    /// When it is not a cluster of ours.
    pub fn kill(&self, n: u16) {
        self.script("kill", n);
    }

    /// Starts node `n` again and waits until it serves.
    ///
    /// # Panics
    /// When it is not a cluster of ours, or does not start.
    pub fn start(&self, n: u16) {
        self.script("start", n);
    }

    /// Freezes node `n`: its connections stay open and say nothing.
    ///
    /// # Panics
    /// When it is not a cluster of ours.
    pub fn pause(&self, n: u16) {
        self.script("pause", n);
    }

    /// Wakes node `n` again.
    ///
    /// # Panics
    /// When it is not a cluster of ours.
    pub fn resume(&self, n: u16) {
        self.script("resume", n);
    }

    /// The listener of node 1 that wants SASL (SCRAM-SHA-256, SCRAM-SHA-512, PLAIN; alice with
    /// alice-secret, bob with bob-secret) over TLS.
    ///
    /// # Panics
    /// When it is not a cluster of ours.
    pub fn sasl_ssl(&self) -> String {
        format!("localhost:{}", self.ours().first_port + 2)
    }

    /// The listener of node 1 that wants a client certificate.
    ///
    /// # Panics
    /// When it is not a cluster of ours.
    pub fn ssl(&self) -> String {
        format!("localhost:{}", self.ours().first_port + 3)
    }

    /// The listener of node 1 that is kept for a proxy, or for what a test's own settings make of it.
    ///
    /// # Panics
    /// When it is not a cluster of ours.
    pub fn proxy(&self) -> String {
        format!("127.0.0.1:{}", self.ours().first_port + 4)
    }

    /// A file of `certs.sh`, such as `ca.pem` or `expired.crt`.
    ///
    /// # Panics
    /// When it is not a cluster of ours.
    pub fn certificate(&self, file: &str) -> PathBuf {
        self.ours().dir.join("certs").join(file)
    }

    /// Runs one of Kafka's own tools and returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn tool(&self, class: &str, arguments: &[&str]) -> String {
        let output = Command::new(script()).args(["tool", class]).args(arguments).output().expect("run kafka.sh");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{class} {arguments:?}: {printed}{complaints}");
        printed
    }

    fn ours(&self) -> &Own {
        self.own.as_ref().expect("only a cluster of Broker::own can do that")
    }

    fn script(&self, command: &str, n: u16) {
        let dir = &self.ours().dir;
        let output = Command::new(script()).arg(command).arg(dir).arg(n.to_string()).output().expect("run kafka.sh");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kafka.sh {command} {n}: {complaints}");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// A name that no other test uses, also not in another process on the same broker.
pub(crate) fn unique(name: &str) -> String {
    format!("{name}-{:012x}", random() >> 16)
}

/// A number by chance; the standard library seeds its hashers with them.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kafka/kafka.sh")
}

/// A port that is free now; see [`free_ports`].
pub(crate) fn free_port() -> u16 {
    free_ports(1)
}

/// The first port of a stretch that is free now, laid out as kafka.sh wants it. Below the range from which
/// the system hands out ports for outgoing connections, so that none of those takes one before the broker does.
fn free_ports(nodes: u16) -> u16 {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..1_000 {
        let first = 11_000 + 10 * u16::try_from(random() % 2_100).expect("below 2100");
        if (0..nodes).flat_map(|node| (0..5).map(move |i| first + 10 * node + i)).all(free) {
            return first;
        }
    }
    panic!("no free ports for a broker between 11000 and 32000");
}
