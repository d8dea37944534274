//! Servers of others by TLS: the schema registry, with certificates on both sides.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use lakeward_testkit::{Message, Registry, framed};
use serde_json::json;

use crate::ingest::Ingest;
use crate::registry::columns;
use crate::{repository, scratch, topic};

/// Throw-away certificates by `certs.sh`; the folder is removed when dropped.
pub struct Certificates(PathBuf);

impl Certificates {
    pub fn new() -> Self {
        let folder = scratch("certificates");
        let made = Command::new(repository().join("dev/kafka/certs.sh")).arg(&folder).output().expect("run certs.sh");
        assert!(made.status.success(), "certs.sh: {}", String::from_utf8_lossy(&made.stderr));
        Self(folder)
    }

    pub fn path(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// TLS before a server that has none.
pub struct Front {
    child: Child,
    url: String,
}

impl Front {
    /// Before what listens at this address; clients need a certificate of `authority`'s, if there is one.
    pub fn start(url: &str, certificates: &Certificates, authority: Option<&str>) -> Self {
        let rest = url.strip_prefix("http://").expect("an address in the clear");
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (_, port) = host.rsplit_once(':').expect("a port");
        let mut command = Command::new(repository().join("dev/readers/venv/bin/python"));
        command.arg(repository().join("tests/e2e/tls.py")).arg(port);
        command.arg(certificates.path("server.pem")).args(authority.map(|file| certificates.path(file)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start tls.py");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("read the port");
        let port: u16 = line.trim().parse().expect("tls.py prints its port");
        Self { child, url: format!("https://localhost:{port}/{path}") }
    }

    /// The address before it: `https://localhost:PORT`, with the path that was behind.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn a_registry_by_tls_with_certificates_on_both_sides() {
    let (registry, certificates) = (Registry::shared(), Certificates::new());
    let front = Front::start(registry.url(), &certificates, Some("ca.pem"));
    let (topic, table) = (topic(1), columns());
    let schema = r#"{"type":"object","properties":{"id":{"type":"integer"}}}"#;
    let id = registry.register(&format!("{}-value", topic.name()), "JSON", schema, &[]);
    let row = json!({"name": "test", "id": 1, "date": "2023-06-30"});
    topic.produce([Message::new(framed(id, row.to_string().as_bytes())).to(0)]);
    let ingest = Ingest::new(&topic, &table).with(&["--json", front.url(), "-m", "1"]);
    let file = |ingest: &Ingest, name: &str, file: &str| ingest.clone().env(name, &certificates.path(file));
    let known = file(&ingest, "SCHEMA_REGISTRY_CA", "ca.pem");
    let proven = |name: &str| {
        let with = file(&known, "SCHEMA_REGISTRY_CERT", &format!("{name}.crt"));
        file(&with, "SCHEMA_REGISTRY_KEY", &format!("{name}.key"))
    };
    for wrong in
        [ingest.clone(), file(&ingest, "SCHEMA_REGISTRY_CA", "other-ca.pem"), known.clone(), proven("stranger")]
    {
        wrong.start().wait_log("the schema registry does not answer");
    }
    assert_eq!(table.rows(), 0);
    proven("client").run_to_end();
    assert_eq!(table.query("select * from t"), [row]);
}
