//! Secrets from where they are kept: the environment, files, systemd's credentials. No value is ever printed.
//!
//! A secret NAME is the variable NAME, or the content of the file that NAME_FILE names, or the credential NAME below
//! `$CREDENTIALS_DIRECTORY`. What Kafka's client is to know has a name by rule: its setting `sasl.password` is
//! `LAKEWARD_KAFKA_SASL_PASSWORD`. The peer's variables mean what they mean there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use lakeward_protocol::ports::Exit;

use crate::failure::Failure;

pub mod argv;

/// Variables that begin so are settings of Kafka's client.
const PREFIX: &str = "LAKEWARD_KAFKA_";
/// The variable of this name holds the path of a file that holds the value.
const FILE: &str = "_FILE";

/// The peer's variables that hold PEM, and the settings that they are.
const PEM: [(&str, &str); 3] = [
    ("KAFKA_DELTA_INGEST_CA", "ssl.ca.pem"),
    ("KAFKA_DELTA_INGEST_CERT", "ssl.certificate.pem"),
    ("KAFKA_DELTA_INGEST_KEY", "ssl.key.pem"),
];
/// The peer's variable for a user: `{"username": .., "password": ..}`.
const SCRAM: &str = "KAFKA_DELTA_INGEST_SCRAM_JSON";
/// What brokers that speak SCRAM mostly want, MSK among them.
const SCRAM_MECHANISM: &str = "SCRAM-SHA-512";

/// Settings of Kafka's client, by name.
pub type Settings = Vec<(String, String)>;

/// Why a secret can't be had. Names places, never what lies there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Two places that both claim to hold it.
    #[error("{name} and {name}{FILE} are both set; leave one of them out")]
    Twice { name: String },
    /// A file that can't be read, or is no text.
    #[error("{name}: can't read {}: {reason}", path.display())]
    Unreadable { name: String, path: PathBuf, reason: String },
    /// Text that is not what it should be.
    #[error("{name}: {reason}")]
    Misshapen { name: &'static str, reason: &'static str },
}

/// Where secrets may lie.
#[derive(Clone, Debug, Default)]
pub struct Places {
    variables: BTreeMap<String, String>,
    /// Credentials by name, with their files.
    credentials: BTreeMap<String, PathBuf>,
}

impl Places {
    /// The process's own.
    fn of_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let files = credentials.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let credentials = files.filter_map(|file| Some((file.file_name().into_string().ok()?, file.path()))).collect();
        Self { variables, credentials }
    }

    fn set(&self, name: &str) -> Option<&String> {
        self.variables.get(name).filter(|value| !value.is_empty())
    }

    /// What NAME is; `None` where nothing says.
    fn read(&self, name: &str) -> Result<Option<String>, SecretError> {
        let by_file = format!("{name}{FILE}");
        match (self.set(name), self.set(&by_file)) {
            (Some(_), Some(_)) => Err(SecretError::Twice { name: name.to_owned() }),
            (Some(value), None) => Ok(Some(value.clone())),
            (None, Some(path)) => content(by_file, path.into()).map(Some),
            (None, None) => self.credentials.get(name).map(|path| content(name.to_owned(), path.clone())).transpose(),
        }
    }

    /// The names of all settings of Kafka's client that are somewhere here.
    fn kafka_names(&self) -> Vec<String> {
        let variables = self.variables.keys().map(|name| name.strip_suffix(FILE).unwrap_or(name));
        let names = variables.chain(self.credentials.keys().map(String::as_str));
        let mut names: Vec<_> = names.filter(|name| name.len() > PREFIX.len() && name.starts_with(PREFIX)).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(str::to_owned).collect()
    }

    /// What all of it says of Kafka's client; ours after the peer's, so that ours wins.
    fn kafka(&self) -> Result<Settings, SecretError> {
        let mut settings = Settings::new();
        for (name, setting) in PEM {
            settings.extend(self.read(name)?.map(|value| (setting.to_owned(), value)));
        }
        if let Some(text) = self.read(SCRAM)? {
            settings.extend(user(&text)?);
        }
        for name in self.kafka_names() {
            let setting = name[PREFIX.len()..].to_lowercase().replace('_', ".");
            settings.extend(self.read(&name)?.map(|value| (setting, value)));
        }
        Ok(settings)
    }
}

/// A file's text, without the line's end that editors and `echo` leave.
fn content(name: String, path: PathBuf) -> Result<String, SecretError> {
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => Err(SecretError::Unreadable { name, path, reason: error.to_string() }),
    }
}

/// The peer's JSON of a user. Its text is a secret, so a parser's complaint, which may quote it, is not told.
fn user(text: &str) -> Result<Settings, SecretError> {
    let misshapen = |reason| SecretError::Misshapen { name: SCRAM, reason };
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|_| misshapen("it is no JSON; want {\"username\": .., \"password\": ..}"))?;
    let part = |key: &str| value.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
    let name = part("username").ok_or(misshapen("it has no text \"username\""))?;
    let password = part("password").ok_or(misshapen("it has no text \"password\""))?;
    Ok([("sasl.mechanism", SCRAM_MECHANISM.to_owned()), ("sasl.username", name), ("sasl.password", password)]
        .map(|(key, value)| (key.to_owned(), value))
        .into())
}

/// What was found at the process's start.
static FOUND: OnceLock<Settings> = OnceLock::new();

/// Reads everything, once, before a command begins.
///
/// # Errors
/// A secret that is named, and can't be had.
pub fn find() -> Result<(), Failure> {
    let found = Places::of_process().kafka().map_err(|error| Failure::new(Exit::Config, error))?;
    FOUND.get_or_init(|| found);
    Ok(())
}

/// A variable that a pipeline's file names.
///
/// # Errors
/// As [`find`]'s.
pub fn variable(name: &str) -> Result<Option<String>, SecretError> {
    Places::of_process().read(name)
}

/// Settings of Kafka's client: what was found, then what the user gave, which wins.
#[must_use]
pub fn kafka(given: &[(String, String)]) -> Settings {
    over(FOUND.get().map_or(&[], Vec::as_slice), given)
}

fn over(found: &[(String, String)], given: &[(String, String)]) -> Settings {
    let mut settings: Settings = found.iter().chain(given).cloned().collect();
    for (key, _) in &mut settings {
        // The client takes both names, in no order.
        if key == "sasl.mechanisms" {
            "sasl.mechanism".clone_into(key);
        }
    }
    if let Some(protocol) = protocol_for(found).filter(|_| settings.iter().all(|(key, _)| key != "security.protocol")) {
        // In the clear a password would go over the wire, and a certificate would say nothing.
        settings.push(("security.protocol".to_owned(), protocol.to_owned()));
    }
    settings
}

/// What the secrets that were found are good for.
fn protocol_for(found: &[(String, String)]) -> Option<&'static str> {
    let has = |start: &str| found.iter().any(|(key, _)| key.starts_with(start));
    match (has("sasl."), has("ssl.")) {
        (true, _) => Some("sasl_ssl"),
        (false, true) => Some("ssl"),
        (false, false) => None,
    }
}

/// Is what stands behind this setting a secret?
#[must_use]
pub fn is_secret(setting: &str) -> bool {
    let setting = setting.trim().to_lowercase();
    ["password", "secret", "ssl.key.pem", "jaas", "token", "sasl.oauthbearer.config", "assertion.private.key"]
        .iter()
        .any(|word| setting.contains(word))
        && !setting.ends_with(".location")
        && !setting.contains("token.endpoint")
        && !setting.ends_with(".file")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)], credentials: &[(&str, PathBuf)]) -> Places {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let credentials = credentials.iter().map(|(name, path)| ((*name).to_owned(), path.clone())).collect();
        Places { variables, credentials }
    }

    fn pairs(settings: &[(&str, &str)]) -> Settings {
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn each_place_is_read_and_two_at_once_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "from a file\r\n").unwrap();
        let path = file.to_str().unwrap();
        #[rustfmt::skip] // columns: variables, credentials, what it is
        let cases: [(&[(&str, &str)], &[(&str, PathBuf)], Option<&str>); 6] = [
            (&[],                               &[],                      None),
            (&[("S", "")],                      &[],                      None),
            (&[("S", "plain")],                 &[],                      Some("plain")),
            (&[("S_FILE", path)],               &[],                      Some("from a file")),
            (&[],                               &[("S", file.clone())],   Some("from a file")),
            (&[("S", "plain")],                 &[("S", file.clone())],   Some("plain")),
        ];
        for (variables, credentials, expected) in cases {
            let read = places(variables, credentials).read("S");
            assert_eq!(read, Ok(expected.map(str::to_owned)), "{variables:?} {credentials:?}");
        }
        let twice = places(&[("S", "hunter2"), ("S_FILE", path)], &[]).read("S").unwrap_err().to_string();
        assert!(twice.contains("S and S_FILE") && !twice.contains("hunter2"), "{twice}");
        let absent = places(&[("S_FILE", "/no/such/file")], &[]).read("S").unwrap_err().to_string();
        assert!(absent.contains("S_FILE") && absent.contains("/no/such/file"), "{absent}");
    }

    #[test]
    fn settings_by_the_peers_names_and_by_ours() {
        let found = places(
            &[
                ("KAFKA_DELTA_INGEST_CA", "ca"),
                (SCRAM, r#"{"username":"alice","password":"hunter2"}"#),
                ("LAKEWARD_KAFKA_SASL_USERNAME", "bob"),
                ("LAKEWARD_KAFKA_SSL_KEY_PASSWORD", "x"),
                ("LAKEWARD_KAFKA_", "no setting"),
            ],
            &[],
        );
        let settings = over(&found.kafka().unwrap(), &[]);
        let last = |key: &str| settings.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        assert_eq!(last("ssl.ca.pem"), Some("ca"));
        assert_eq!(last("sasl.username"), Some("bob"), "ours wins over the peer's");
        assert_eq!(last("sasl.password"), Some("hunter2"));
        assert_eq!(last("sasl.mechanism"), Some("SCRAM-SHA-512"));
        assert_eq!(last("ssl.key.password"), Some("x"));
        assert_eq!(last("security.protocol"), Some("sasl_ssl"));
        for broken in ["hunter2", r#"{"username":"alice"}"#, r#"{"username":7,"password":"hunter2"}"#] {
            let error = places(&[(SCRAM, broken)], &[]).kafka().unwrap_err().to_string();
            assert!(error.contains(SCRAM) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_is_given_wins_and_no_secret_goes_over_the_wire_in_the_clear() {
        let user = pairs(&[("sasl.mechanism", "SCRAM-SHA-512"), ("sasl.password", "x")]);
        let (key, plain) = (pairs(&[("ssl.key.pem", "x")]), pairs(&[("client.id", "x")]));
        #[rustfmt::skip] // columns: found, given, protocol, mechanism
        let cases = [
            (&user,  pairs(&[]),                                     Some("sasl_ssl"),       Some("SCRAM-SHA-512")),
            (&user,  pairs(&[("sasl.mechanisms", "PLAIN")]),         Some("sasl_ssl"),       Some("PLAIN")),
            (&user,  pairs(&[("security.protocol", "sasl_plaintext")]), Some("sasl_plaintext"), Some("SCRAM-SHA-512")),
            (&key,   pairs(&[]),                                     Some("ssl"),            None),
            (&plain, pairs(&[]),                                     None,                   None),
        ];
        for (found, given, protocol, mechanism) in cases {
            let settings = over(found, &given);
            let last = |key: &str| settings.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
            assert_eq!((last("security.protocol"), last("sasl.mechanism")), (protocol, mechanism), "{given:?}");
        }
    }

    #[test]
    fn which_settings_are_secrets() {
        #[rustfmt::skip] // columns: setting, secret
        let cases = [
            ("sasl.password", true), ("SASL.Password ", true), ("ssl.key.password", true), ("ssl.key.pem", true),
            ("sasl.oauthbearer.client.secret", true), ("sasl.oauthbearer.config", true), ("ssl.keystore.password", true),
            ("sasl.username", false), ("ssl.key.location", false), ("ssl.ca.pem", false),
            ("sasl.oauthbearer.token.endpoint.url", false), ("session.timeout.ms", false),
        ];
        for (setting, secret) in cases {
            assert_eq!(is_secret(setting), secret, "{setting}");
        }
    }
}
