//! Object stores as processes of their own: a real S3 server, and Azure's emulator.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// The stores that `dev/objectstores/stores.sh` starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// versitygw.
    S3,
    /// azurite.
    Azure,
}

/// A store of ours. It ends when this is dropped, or when the process ends, however it ends.
#[derive(Debug)]
pub struct StoreServer {
    url: String,
    dir: PathBuf,
    pipes: Mutex<Pipes>,
}

#[derive(Debug)]
struct Pipes {
    child: Child,
    /// The script serves until this closes, and the kernel closes it for a process that was killed.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl StoreServer {
    /// The one of its kind that all tests of this process share: never kill it.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn shared(kind: Kind) -> &'static Self {
        static SHARED: [OnceLock<StoreServer>; 2] = [OnceLock::new(), OnceLock::new()];
        SHARED[kind as usize].get_or_init(|| Self::own(kind))
    }

    /// One for this test alone.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn own(kind: Kind) -> Self {
        let dir = tempfile::Builder::new().prefix("lakeward-store-").tempdir().expect("make the store's folder").keep();
        let word = if kind == Kind::S3 { "s3" } else { "azure" };
        let mut child = Command::new(script())
            .args(["serve".as_ref(), word.as_ref(), dir.as_os_str(), free_port().to_string().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0) // Ctrl-C in a terminal is for the test; the store ends after it
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", script().display()));
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut pipes = Pipes { child, stdin, stdout };
        let url = pipes.line();
        assert!(!url.is_empty(), "no store: stores.sh ended ({:?}); its errors are above", pipes.child.wait());
        Self { url, dir, pipes: Mutex::new(pipes) }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// The folder of the S3 server's buckets: making one in it makes a bucket, and objects are files.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Ends it with SIGKILL.
    ///
    /// # Panics
    /// When the script has ended.
    pub fn kill(&self) {
        self.ask("kill");
    }

    /// Starts it again, at the same address, and waits until it serves.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(&self) {
        self.ask("start");
    }

    /// Makes a container of this name, in Azure's emulator.
    ///
    /// # Panics
    /// When it can't be made.
    pub fn make_container(&self, name: &str) {
        self.ask(&format!("container {name}"));
    }

    fn ask(&self, command: &str) {
        let mut pipes = self.pipes.lock().expect("no holder panics");
        writeln!(pipes.stdin.as_mut().expect("open until it is dropped"), "{command}").expect("stores.sh listens");
        assert_eq!(pipes.line(), command, "stores.sh ended; its errors are above");
    }
}

impl Pipes {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("read what stores.sh says");
        line.trim().to_owned()
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        let pipes = self.pipes.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        drop(pipes.stdin.take());
        let _ = pipes.child.wait();
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../objectstores/stores.sh")
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a free port").port()
}
