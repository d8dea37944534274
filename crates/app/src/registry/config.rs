//! How to reach a registry, from its option and the environment. Secrets are shown nowhere.

use std::fmt;
use std::path::PathBuf;

use reqwest::{Certificate, Client, ClientBuilder, Identity, Proxy, Url};

/// Where a registry is, and who we are there.
#[derive(Clone)]
pub struct RegistryConfig {
    /// At least one; none holds a user.
    pub(super) urls: Vec<Url>,
    pub(super) user: Option<(String, Option<String>)>,
    pub(super) token: Option<String>,
    proxy: Option<String>,
    ca: Option<PathBuf>,
    certificate: Option<(PathBuf, PathBuf)>,
}

/// Settings that make no sense, or files that can't be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryConfigError {
    /// No address.
    #[error(
        "{option} '{url}' is no address of a schema registry ({what}); write http://HOST:PORT, several with commas"
    )]
    Url { option: &'static str, url: String, what: String },
    /// Settings that exclude or need each other.
    #[error("{0}")]
    Settings(String),
    /// A file.
    #[error("{variable} = {}: {what}", .path.display())]
    File { variable: &'static str, path: PathBuf, what: String },
    /// The proxy.
    #[error("SCHEMA_REGISTRY_PROXY is no address of a proxy: write http://HOST:PORT")]
    Proxy,
}

impl RegistryConfig {
    /// Whether an option's value means a registry, rather than a file.
    #[must_use]
    pub fn is_url(value: &str) -> bool {
        value.starts_with("http://") || value.starts_with("https://")
    }

    /// Reads the value of `option`, and what `variable` gives of the environment.
    ///
    /// # Errors
    /// What makes no sense, or can't be read.
    pub fn new(
        option: &'static str,
        value: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, RegistryConfigError> {
        let (mut urls, mut user) = (Vec::new(), None);
        for text in value.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let (url, named) = address(option, text)?;
            user = user.or(named);
            urls.push(url);
        }
        if urls.is_empty() {
            return Err(RegistryConfigError::Url { option, url: value.to_owned(), what: "it is empty".to_owned() });
        }
        let password = secret(&variable, "SCHEMA_REGISTRY_PASSWORD", "SCHEMA_REGISTRY_PASSWORD_FILE")?;
        let token = secret(&variable, "SCHEMA_REGISTRY_BEARER_TOKEN", "SCHEMA_REGISTRY_BEARER_TOKEN_FILE")?;
        let name = variable("SCHEMA_REGISTRY_USERNAME");
        if name.is_none() && password.is_some() {
            return Err(settings("SCHEMA_REGISTRY_PASSWORD is set, and SCHEMA_REGISTRY_USERNAME is not: set both"));
        }
        let user = user.or(name.map(|name| (name, password)));
        if user.is_some() && token.is_some() {
            return Err(settings(
                "both a user and SCHEMA_REGISTRY_BEARER_TOKEN are set for the schema registry: keep one",
            ));
        }
        let file = |name: &str| variable(name).map(PathBuf::from);
        let certificate = match (file("SCHEMA_REGISTRY_CERT"), file("SCHEMA_REGISTRY_KEY")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(settings(
                    "SCHEMA_REGISTRY_CERT and SCHEMA_REGISTRY_KEY go together: set both to PEM files",
                ));
            }
        };
        let (proxy, ca) = (variable("SCHEMA_REGISTRY_PROXY"), file("SCHEMA_REGISTRY_CA"));
        Ok(Self { urls, user, token, proxy, ca, certificate })
    }

    /// A client with the proxy and certificates.
    pub(super) fn client(&self, mut builder: ClientBuilder) -> Result<Client, RegistryConfigError> {
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(Proxy::all(proxy).map_err(|_| RegistryConfigError::Proxy)?);
        }
        if let Some(path) = &self.ca {
            let failed =
                |what: String| RegistryConfigError::File { variable: "SCHEMA_REGISTRY_CA", path: path.clone(), what };
            let certificates = Certificate::from_pem_bundle(&read("SCHEMA_REGISTRY_CA", path)?)
                .map_err(|error| failed(error.to_string()))?;
            if certificates.is_empty() {
                return Err(failed("it holds no certificate in PEM".to_owned()));
            }
            builder = certificates.into_iter().fold(builder, ClientBuilder::add_root_certificate);
        }
        if let Some((certificate, key)) = &self.certificate {
            let mut pem = read("SCHEMA_REGISTRY_CERT", certificate)?;
            pem.push(b'\n');
            pem.extend(read("SCHEMA_REGISTRY_KEY", key)?);
            let identity = Identity::from_pem(&pem).map_err(|_| RegistryConfigError::File {
                variable: "SCHEMA_REGISTRY_CERT",
                path: certificate.clone(),
                what: "it and SCHEMA_REGISTRY_KEY are no certificate and key in PEM".to_owned(),
            })?;
            builder = builder.identity(identity);
        }
        builder.build().map_err(|error| settings(&format!("the schema registry's client can't be made: {error}")))
    }
}

/// Shows addresses alone.
impl fmt::Debug for RegistryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryConfig")
            .field("urls", &self.urls.iter().map(Url::as_str).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

fn settings(what: &str) -> RegistryConfigError {
    RegistryConfigError::Settings(what.to_owned())
}

type User = (String, Option<String>);

/// An address, and the user that it names.
fn address(option: &'static str, text: &str) -> Result<(Url, Option<User>), RegistryConfigError> {
    // What can't be read may hold a password in any place.
    let shown = match text.rsplit_once('@') {
        Some((_, host)) => format!("...@{host}"),
        None => text.to_owned(),
    };
    let failed = |what: String| RegistryConfigError::Url { option, url: shown.clone(), what };
    let mut url = Url::parse(text).map_err(|error| failed(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
        return Err(failed(format!("its scheme is {}", url.scheme())));
    }
    let user = match url.username() {
        "" => None,
        name => Some((decoded(name), url.password().map(decoded))),
    };
    // Neither can fail for an address that has a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Ok((url, user))
}

/// What percent signs stand for, as bytes of UTF-8.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).expect("two hex digits"));
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A secret from its variable, or from the file that another one names.
fn secret(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
    file: &'static str,
) -> Result<Option<String>, RegistryConfigError> {
    match (variable(name), variable(file)) {
        (Some(_), Some(_)) => Err(settings(&format!("both {name} and {file} are set: keep one"))),
        (Some(secret), None) => Ok(Some(secret)),
        (None, Some(path)) => {
            let bytes = read(file, &PathBuf::from(path))?;
            // Editors end the last line.
            Ok(Some(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned()))
        }
        (None, None) => Ok(None),
    }
}

fn read(variable: &'static str, path: &PathBuf) -> Result<Vec<u8>, RegistryConfigError> {
    std::fs::read(path).map_err(|error| RegistryConfigError::File {
        variable,
        path: path.clone(),
        what: error.to_string(),
    })
}
