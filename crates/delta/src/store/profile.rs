//! Keys from the profiles that AWS's own tools keep in files (`~/.aws/credentials`, `~/.aws/config`).
//!
//! The files are looked at again whenever they change, so that keys which somebody renews there are taken on. A
//! profile may name a program instead (`credential_process`), which is asked again before its keys run out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use async_trait::async_trait;
use object_store::aws::AwsCredential;
use object_store::{CredentialProvider, Error, Result};
use serde::Deserialize;

use super::remote::Variables;

/// Keys of a program are asked for anew so long before they run out.
const EARLY_SECONDS: i64 = 300;

/// What a profile says.
#[derive(Debug)]
pub(super) struct Found {
    pub credentials: ProfileCredentials,
    pub region: Option<String>,
    pub endpoint_url: Option<String>,
}

/// The profile that is to be used; `None` where other keys come before it, or there is none.
///
/// The order is that of AWS's tools: keys in the environment, a profile that is asked for, web identity, a container's
/// role, the profile `default` if it holds keys, and the machine's role.
///
/// # Errors
/// A profile that is asked for and not there, or that needs what is not done here.
pub(super) fn find(variables: &Variables) -> std::result::Result<Option<Found>, String> {
    let is_set = |key: &str| variables.get(key).is_some_and(|value| !value.is_empty());
    if is_set("aws_access_key_id") || is_set("aws_secret_access_key") || is_set("aws_skip_signature") {
        return Ok(None);
    }
    let asked = variables.get("aws_profile").filter(|name| !name.is_empty());
    let others =
        ["aws_web_identity_token_file", "aws_container_credentials_relative_uri", "aws_container_credentials_full_uri"];
    if asked.is_none() && others.iter().any(|key| is_set(key)) {
        return Ok(None);
    }
    let credentials = ProfileCredentials::new(variables, asked.map_or("default", String::as_str));
    let Some(settings) = credentials.settings() else {
        let missing = |name| format!("AWS_PROFILE: no profile {name} in {}", credentials.files());
        return asked.map_or(Ok(None), |name| Err(missing(name)));
    };
    match Keys::of(&settings) {
        Some(_) => {
            let get = |key: &str| settings.get(key).cloned();
            let (region, endpoint_url) = (get("region"), get("endpoint_url"));
            Ok(Some(Found { credentials, region, endpoint_url }))
        }
        None if asked.is_none() => Ok(None),
        None => Err(format!(
            "profile {} in {} holds no aws_access_key_id with aws_secret_access_key and no credential_process; for roles \
             and single sign-on let the profile say credential_process = aws configure export-credentials --profile {} \
             --format process",
            credentials.name,
            credentials.files(),
            credentials.name
        )),
    }
}

/// Where a profile's keys come from.
#[derive(Debug, PartialEq, Eq)]
enum Keys {
    Here(Pair),
    Program(String),
}

/// Keys as they are used.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    key_id: String,
    secret_key: String,
    token: Option<String>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl Keys {
    fn of(settings: &BTreeMap<String, String>) -> Option<Self> {
        let get = |key: &str| settings.get(key).cloned();
        match (get("aws_access_key_id"), get("aws_secret_access_key")) {
            (Some(key_id), Some(secret_key)) => {
                Some(Self::Here(Pair { key_id, secret_key, token: get("aws_session_token") }))
            }
            _ => get("credential_process").map(Self::Program),
        }
    }
}

/// A profile by its name, in the files that hold it.
#[derive(Debug)]
pub(super) struct ProfileCredentials {
    name: String,
    credentials_file: PathBuf,
    config_file: PathBuf,
    held: Mutex<Option<Held>>,
}

/// Keys that were read, and for how long they are good.
#[derive(Debug)]
struct Held {
    credential: Arc<AwsCredential>,
    /// When the files were last written to.
    written: [Option<SystemTime>; 2],
    /// Of a program's keys.
    expires_s: Option<i64>,
}

/// What a `credential_process` prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<chrono::DateTime<chrono::Utc>>,
}

impl ProfileCredentials {
    fn new(variables: &Variables, name: &str) -> Self {
        let home = PathBuf::from(variables.get("home").map_or("", String::as_str)).join(".aws");
        let file = |key: &str, usual: &str| variables.get(key).map_or(home.join(usual), PathBuf::from);
        Self {
            name: name.to_owned(),
            credentials_file: file("aws_shared_credentials_file", "credentials"),
            config_file: file("aws_config_file", "config"),
            held: Mutex::default(),
        }
    }

    fn files(&self) -> String {
        format!("{} and {}", self.credentials_file.display(), self.config_file.display())
    }

    /// What both files say of the profile; those of the credentials' file win. `None` where neither knows it.
    fn settings(&self) -> Option<BTreeMap<String, String>> {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let of_config = if self.name == "default" { "default".to_owned() } else { format!("profile {}", self.name) };
        let config = section(&read(&self.config_file), &of_config);
        let credentials = section(&read(&self.credentials_file), &self.name);
        if config.is_none() && credentials.is_none() {
            return None;
        }
        let mut all = config.unwrap_or_default();
        all.extend(credentials.unwrap_or_default());
        Some(all)
    }

    fn written(&self) -> [Option<SystemTime>; 2] {
        [&self.credentials_file, &self.config_file]
            .map(|path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok())
    }

    /// Those read before, if they are good still.
    fn held(&self) -> Option<Arc<AwsCredential>> {
        let held = self.held.lock().expect("no holder panics");
        let held = held.as_ref().filter(|held| held.written == self.written())?;
        let is_good = held.expires_s.is_none_or(|expires| expires - now_s() > EARLY_SECONDS);
        is_good.then(|| Arc::clone(&held.credential))
    }

    fn keep(&self, pair: Pair, written: [Option<SystemTime>; 2], expires_s: Option<i64>) -> Arc<AwsCredential> {
        let Pair { key_id, secret_key, token } = pair;
        let credential = Arc::new(AwsCredential { key_id, secret_key, token });
        let held = Held { credential: Arc::clone(&credential), written, expires_s };
        *self.held.lock().expect("no holder panics") = Some(held);
        credential
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::Generic { store: "S3", source: format!("profile {} in {}: {what}", self.name, self.files()).into() }
    }
}

#[async_trait]
impl CredentialProvider for ProfileCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> Result<Arc<AwsCredential>> {
        if let Some(credential) = self.held() {
            return Ok(credential);
        }
        let written = self.written();
        match self.settings().as_ref().and_then(Keys::of) {
            Some(Keys::Here(pair)) => Ok(self.keep(pair, written, None)),
            Some(Keys::Program(command)) => {
                let asked = tokio::task::spawn_blocking(move || ask(&command)).await?;
                let printed = asked.map_err(|error| self.wrong(error))?;
                let expires_s = printed.expiration.map(|at| at.timestamp());
                let (key_id, secret_key) = (printed.access_key_id, printed.secret_access_key);
                Ok(self.keep(Pair { key_id, secret_key, token: printed.session_token }, written, expires_s))
            }
            None => Err(self.wrong("its keys are gone; nothing is lost, put them back")),
        }
    }
}

/// Runs a program that prints keys. What it prints is never told on.
fn ask(command: &str) -> std::result::Result<Printed, String> {
    let output = std::process::Command::new("sh").args(["-c", command]).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("credential_process ended with {}: {}", output.status, said.trim()));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|_| "credential_process printed no JSON with AccessKeyId and SecretAccessKey".to_owned())
}

/// A section of an INI file, its keys in lower case. `None` where it is not there.
fn section(text: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let mut found: Option<BTreeMap<String, String>> = None;
    let mut is_in = false;
    for line in text.lines() {
        let bare = line.trim();
        if let Some(header) = bare.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            is_in = header.split_whitespace().eq(name.split_whitespace());
            if is_in {
                found.get_or_insert_default();
            }
        } else if is_in
            && !bare.starts_with(['#', ';'])
            // Indented lines belong to a setting of several.
            && !line.starts_with([' ', '\t'])
            && let (Some((key, value)), Some(found)) = (bare.split_once('='), found.as_mut())
        {
            found.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[expect(clippy::disallowed_methods, reason = "an edge: keys run out by the wall clock")]
fn now_s() -> i64 {
    chrono::Utc::now().timestamp()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "# mine\n[default]\naws_access_key_id = AK1\naws_secret_access_key=s3=cr/et\n\n[work]\n\
        aws_access_key_id=AK2\naws_secret_access_key=b\naws_session_token = t\n";
    const CONFIG: &str = "[default]\nregion = eu-central-1\n[profile work]\nregion=us-west-2\n\
        endpoint_url = http://h:1\ns3 =\n  max_concurrent_requests = 1\n[profile sso]\nsso_session = x\n\
        [profile made]\ncredential_process = echo '{\"Version\":1,\"AccessKeyId\":\"AK3\",\"SecretAccessKey\":\"c\",\
        \"Expiration\":\"2020-01-01T00:00:00Z\"}'\n[profile broken]\ncredential_process = echo no >&2; exit 3\n";

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir(home.0.path().join(".aws")).unwrap();
            home.write("credentials", CREDENTIALS);
            home.write("config", CONFIG);
            home
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.path().join(".aws").join(name), text).unwrap();
        }

        fn variables(&self, more: &[(&str, &str)]) -> Variables {
            let home = ("home".to_owned(), self.0.path().display().to_string());
            more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).chain([home]).collect()
        }
    }

    fn keys(found: &Found) -> std::result::Result<(String, Option<String>), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let got = runtime.block_on(found.credentials.get_credential());
        got.map(|got| (got.key_id.clone(), got.token.clone())).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_found_in_the_order_that_awss_tools_have() {
        let home = Home::new();
        #[rustfmt::skip] // columns: variables, key and region of the profile that is used
        let cases: [(&[(&str, &str)], Option<(&str, Option<&str>)>); 6] = [
            (&[],                                                             Some(("AK1", Some("eu-central-1")))),
            (&[("aws_profile", "work")],                                      Some(("AK2", Some("us-west-2")))),
            (&[("aws_profile", "work"), ("aws_web_identity_token_file", "f")], Some(("AK2", Some("us-west-2")))),
            (&[("aws_profile", "made")],                                      Some(("AK3", None))),
            (&[("aws_web_identity_token_file", "f")],                         None),
            (&[("aws_access_key_id", "k"), ("aws_profile", "work")],          None),
        ];
        for (variables, expected) in cases {
            let found = find(&home.variables(variables)).unwrap();
            let is = found.as_ref().map(|found| (keys(found).unwrap().0, found.region.clone()));
            assert_eq!(is, expected.map(|(key, region)| (key.to_owned(), region.map(str::to_owned))), "{variables:?}");
        }
        let empty = [("home".to_owned(), "/nowhere".to_owned())].into();
        assert!(find(&empty).unwrap().is_none(), "no profile, none asked for");
    }

    #[test]
    fn profiles_that_can_not_be_used_are_refused_by_name() {
        let home = Home::new();
        for (name, said) in [("sso", "export-credentials --profile sso"), ("none", "no profile none in")] {
            let error = find(&home.variables(&[("aws_profile", name)])).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let found = find(&home.variables(&[("aws_profile", "broken")])).unwrap().unwrap();
        let error = keys(&found).unwrap_err();
        assert!(error.contains("exit status: 3") && error.contains(": no"), "{error}");
    }

    #[test]
    fn keys_that_change_in_the_file_are_taken_on() {
        let home = Home::new();
        let found = find(&home.variables(&[("aws_profile", "work")])).unwrap().unwrap();
        assert_eq!(keys(&found).unwrap(), ("AK2".to_owned(), Some("t".to_owned())));
        home.write("credentials", "[work]\naws_access_key_id=AK9\naws_secret_access_key=b\n");
        let later = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000);
        let file = std::fs::File::options().write(true).open(home.0.path().join(".aws/credentials")).unwrap();
        file.set_modified(later).unwrap();
        assert_eq!(keys(&found).unwrap(), ("AK9".to_owned(), None));
        home.write("credentials", "");
        assert!(keys(&found).unwrap_err().contains("its keys are gone"));
        assert!(!format!("{found:?}").contains("cr/et"));
    }
}
