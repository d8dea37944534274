//! A real schema registry, which speaks Confluent's REST API.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

use crate::broker::free_port;

/// Names a registry that runs already, by its base address.
const GIVEN: &str = "LAKEWARD_TEST_REGISTRY";

/// A schema registry. One that we started ends when this is dropped, or when the process ends, however it ends.
#[derive(Debug)]
pub struct Registry {
    url: String,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    child: Child,
    /// registry.sh serves until this closes, and the kernel closes it for a process that was killed.
    stdin: Option<ChildStdin>,
    dir: PathBuf,
}

/// A schema that another one refers to: the name that it goes by there, its subject and version.
pub type Reference<'a> = (&'a str, &'a str, u32);

impl Registry {
    /// The one that all tests of this process share: `LAKEWARD_TEST_REGISTRY`, or one started on first use. Use
    /// subjects of topics with unique names, and never stop it.
    ///
    /// # Panics
    /// When there is none and none can be started.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Registry> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var(GIVEN) {
            Ok(url) if !url.is_empty() => Self { url, own: None },
            _ => Self::own(),
        })
    }

    /// One for this test alone, with everything that [`Registry::stop`] needs.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn own() -> Self {
        let parent = tempfile::Builder::new().prefix("lakeward-registry-").tempdir().expect("make a folder");
        // `serve` removes the folder, also when we are killed.
        let dir = parent.keep();
        let mut child = Command::new(script())
            .args(["serve".as_ref(), dir.as_os_str()])
            .env("PORT", free_port().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0) // Ctrl-C in a terminal is for the test; the registry ends after it
            .spawn()
            .unwrap_or_else(|e| panic!("start {}: {e}", script().display()));
        let stdin = child.stdin.take();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        stdout.read_line(&mut line).expect("read what registry.sh says");
        let url = line.trim().to_owned();
        assert!(!url.is_empty(), "no registry: registry.sh ended ({:?}); its errors are above", child.wait());
        Self { url, own: Some(Own { child, stdin, dir }) }
    }

    /// Its base address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it; what it knows stays.
    ///
    /// # Panics
    /// When it is not one of ours.
    pub fn stop(&self) {
        self.script("stop");
    }

    /// Starts it again at the same address, with what it knew, and waits until it serves.
    ///
    /// # Panics
    /// When it is not one of ours, or does not start.
    pub fn start(&self) {
        self.script("start");
    }

    /// Registers a schema of a type (`AVRO`, `JSON`, `PROTOBUF`) as a subject's newest version: its id.
    ///
    /// # Panics
    /// When the registry refuses it.
    pub fn register(&self, subject: &str, kind: &str, schema: &str, references: &[Reference<'_>]) -> u32 {
        let references: Vec<_> = references
            .iter()
            .map(|(name, subject, version)| serde_json::json!({"name": name, "subject": subject, "version": version}))
            .collect();
        let body = serde_json::json!({"schema": schema, "schemaType": kind, "references": references}).to_string();
        let answer = self.post(&format!("/subjects/{subject}/versions"), &body);
        let id = serde_json::from_str::<serde_json::Value>(&answer).ok().and_then(|answer| answer["id"].as_u64());
        let id = id.unwrap_or_else(|| panic!("register {subject}: {answer}"));
        u32::try_from(id).expect("ids are 32 bits")
    }

    fn post(&self, path: &str, body: &str) -> String {
        let rest = self.url.strip_prefix("http://").expect("an http address");
        let (host, base) =
            rest.split_once('/').map_or((rest, String::new()), |(host, base)| (host, format!("/{base}")));
        let mut stream = TcpStream::connect(host).unwrap_or_else(|e| panic!("connect to {host}: {e}"));
        write!(
            stream,
            "POST {base}{path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/vnd.schemaregistry.v1+json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("ask the registry");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("hear the registry");
        answer.split_once("\r\n\r\n").map_or(answer.clone(), |(_, body)| body.to_owned())
    }

    fn script(&self, command: &str) {
        let own = self.own.as_ref().expect("only a registry of Registry::own can do that");
        let output = Command::new(script()).arg(command).arg(&own.dir).output().expect("run registry.sh");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "registry.sh {command}: {complaints}");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// A message in Confluent's frame: 0, the schema's id, and the payload.
#[must_use]
pub fn framed(id: u32, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![0];
    message.extend_from_slice(&id.to_be_bytes());
    message.extend_from_slice(payload);
    message
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../registry/registry.sh")
}
