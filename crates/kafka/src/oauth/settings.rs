//! The settings for tokens, by librdkafka's and Java's names, as one method of getting them.

use std::fmt;
use std::time::Duration;

use object_store::aws::AwsCredentialProvider;
use rdkafka::config::ClientConfig;
use tokio::runtime::Runtime;

use super::iam;
use super::oidc::{self, Oidc};
use super::{Token, TokenError};
use crate::error::KafkaError;

/// Where tokens come from.
#[derive(PartialEq, Eq)]
pub(crate) enum Method {
    /// An OpenID provider's token endpoint, by client credentials.
    Oidc(Box<Oidc>),
    /// Signed with keys of AWS.
    Iam { region: String },
}

/// Shows where, and no secret.
impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oidc(oidc) => write!(f, "the token endpoint {}", oidc.shown()),
            Self::Iam { region } => write!(f, "AWS IAM in {region}"),
        }
    }
}

/// What it takes to ask.
pub(crate) struct Asker {
    whom: Whom,
    runtime: Runtime,
}

enum Whom {
    Endpoint(reqwest::Client),
    Keys(AwsCredentialProvider),
}

impl Method {
    /// Prepares to ask.
    pub fn asker(&self) -> Result<Asker, KafkaError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| setting("sasl.oauthbearer.method", format!("can't ask: {error}")))?;
        let whom = match self {
            Self::Oidc(oidc) => Whom::Endpoint(oidc.http()?),
            Self::Iam { region } => Whom::Keys(iam::keys(region)?),
        };
        Ok(Asker { whom, runtime })
    }

    /// A token is fetched anew after this long, however long it is valid.
    pub fn most_age(&self) -> Duration {
        match self {
            Self::Oidc(_) => Duration::MAX,
            Self::Iam { .. } => iam::MOST_AGE,
        }
    }
}

impl Asker {
    /// A new token.
    pub fn ask(&self, method: &Method) -> Result<Token, TokenError> {
        self.runtime.block_on(async {
            match (method, &self.whom) {
                (Method::Oidc(oidc), Whom::Endpoint(http)) => oidc::ask(oidc, http).await,
                (Method::Iam { region }, Whom::Keys(keys)) => iam::ask(region, keys).await,
                _ => unreachable!("an asker is made for its method"),
            }
        })
    }
}

/// Takes out what librdkafka does not know. `None`: tokens are not wanted, or librdkafka makes them itself.
pub(crate) fn split(client: &mut ClientConfig) -> Result<Option<Method>, KafkaError> {
    let mut taken = Taken::from(client);
    let mechanism = ["sasl.mechanism", "sasl.mechanisms"].into_iter().find_map(|key| client.get(key));
    let mechanism = mechanism.map(str::to_ascii_uppercase);
    let is_iam = mechanism.as_deref() == Some(IAM);
    match mechanism.as_deref() {
        Some("OAUTHBEARER" | IAM) => {}
        None if taken.says_oidc() => {
            return Err(setting("sasl.mechanism", "it is not set, and sasl.oauthbearer.* are; set it to OAUTHBEARER"));
        }
        _ => return Ok(None),
    }
    let is_unsecured = client.get("enable.sasl.oauthbearer.unsecure.jwt") == Some("true");
    let method = match taken.take("sasl.oauthbearer.method").map(|method| method.to_ascii_lowercase()).as_deref() {
        None | Some("default" | "aws_msk_iam") if is_iam => by_iam(client)?,
        Some("aws_msk_iam") => by_iam(client)?,
        _ if is_iam => {
            return Err(setting("sasl.oauthbearer.method", "with sasl.mechanism=AWS_MSK_IAM it is aws_msk_iam"));
        }
        Some("oidc") => taken.oidc()?,
        Some("default") | None if is_unsecured => return Ok(None),
        Some("default") | None if taken.says_oidc() => taken.oidc()?,
        Some("default") | None => {
            let reason = "OAUTHBEARER needs tokens; set sasl.oauthbearer.method=oidc, sasl.oauthbearer.client.id, \
                          sasl.oauthbearer.client.secret and sasl.oauthbearer.token.endpoint.url";
            return Err(setting("sasl.mechanism", reason));
        }
        Some(_) => {
            return Err(setting("sasl.oauthbearer.method", "it is none that is known here; write oidc or aws_msk_iam"));
        }
    };
    // In the spelling that librdkafka takes.
    client.remove("sasl.mechanisms").set("sasl.mechanism", "OAUTHBEARER");
    if client.get("security.protocol").is_none() {
        // In the clear everybody on the way could take the token and use it.
        client.set("security.protocol", "sasl_ssl");
    }
    Ok(Some(method))
}

/// Brokers of MSK call the mechanism OAUTHBEARER as well; its own name is Java's alone.
const IAM: &str = "AWS_MSK_IAM";

fn by_iam(client: &ClientConfig) -> Result<Method, KafkaError> {
    let named = client.get("bootstrap.servers").and_then(iam::region_of);
    let said = || ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(|name| std::env::var(name).ok());
    let region = named.or_else(said).filter(|region| !region.is_empty());
    let region = region.ok_or_else(|| {
        let reason = "IAM needs the cluster's region: the brokers' names do not hold it; set AWS_REGION";
        setting("sasl.mechanism", reason)
    })?;
    if region.bytes().any(|byte| !byte.is_ascii_alphanumeric() && byte != b'-') {
        return Err(setting("sasl.mechanism", "AWS_REGION is no name of a region"));
    }
    Ok(Method::Iam { region })
}

/// The settings that were taken out.
struct Taken(Vec<(&'static str, String)>);

/// All that are for us; each has the name that librdkafka gives it first.
const OURS: [(&str, &str); 12] = [
    ("sasl.oauthbearer.method", "sasl.oauthbearer.method"),
    ("sasl.oauthbearer.client.id", ID),
    ("sasl.oauthbearer.client.credentials.client.id", ID),
    ("sasl.oauthbearer.client.secret", SECRET),
    ("sasl.oauthbearer.client.credentials.client.secret", SECRET),
    ("sasl.oauthbearer.scope", "sasl.oauthbearer.scope"),
    ("sasl.oauthbearer.extensions", EXTENSIONS),
    ("sasl.oauthbearer.token.endpoint.url", URL),
    ("sasl.oauthbearer.grant.type", GRANT),
    ("sasl.oauthbearer.header.urlencode", ENCODE),
    ("https.ca.location", CA_FILE),
    ("https.ca.pem", CA_PEM),
];
const ID: &str = "sasl.oauthbearer.client.id";
const SECRET: &str = "sasl.oauthbearer.client.secret";
const URL: &str = "sasl.oauthbearer.token.endpoint.url";
const EXTENSIONS: &str = "sasl.oauthbearer.extensions";
const GRANT: &str = "sasl.oauthbearer.grant.type";
const ENCODE: &str = "sasl.oauthbearer.header.urlencode";
const CA_FILE: &str = "https.ca.location";
const CA_PEM: &str = "https.ca.pem";

impl Taken {
    fn from(client: &mut ClientConfig) -> Self {
        let mut taken = Vec::new();
        for (name, first) in OURS {
            if let Some(value) = client.get(name).map(|value| value.trim().to_owned()) {
                client.remove(name);
                if !value.is_empty() {
                    taken.push((first, value));
                }
            }
        }
        Self(taken)
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(taken, _)| *taken == name)?;
        Some(self.0.remove(at).1)
    }

    fn says_oidc(&self) -> bool {
        self.0.iter().any(|(name, value)| *name == URL || (*name == "sasl.oauthbearer.method" && value == "oidc"))
    }

    fn needed(&mut self, name: &'static str) -> Result<String, KafkaError> {
        self.take(name).ok_or_else(|| setting(name, "it is not set, and tokens can't be asked for without it"))
    }

    fn oidc(&mut self) -> Result<Method, KafkaError> {
        if self.take(GRANT).is_some_and(|grant| !matches!(grant.as_str(), "client_credentials" | "default")) {
            return Err(setting(
                GRANT,
                "client_credentials is what there is; an assertion (jwt-bearer) is not built in",
            ));
        }
        let is_encoded = match self.take(ENCODE).as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(setting(ENCODE, "write true or false")),
        };
        let url = oidc::address(&self.needed(URL)?).map_err(|reason| setting(URL, reason))?;
        let extensions = self.take(EXTENSIONS).map(|text| pairs(&text)).transpose();
        let extensions = extensions.map_err(|reason| setting(EXTENSIONS, reason))?.unwrap_or_default();
        Ok(Method::Oidc(Box::new(Oidc {
            url,
            id: self.needed(ID)?,
            secret: self.needed(SECRET)?,
            is_encoded,
            scope: self.take("sasl.oauthbearer.scope"),
            extensions,
            ca_file: self.take(CA_FILE).filter(|file| file != "probe"),
            ca_pem: self.take(CA_PEM),
        })))
    }
}

/// `key=value`s with commas, as librdkafka takes extensions.
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |pair: &str| match pair.trim().split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, several with commas".to_owned()),
    };
    text.split(',').map(pair).collect()
}

pub(crate) fn setting(key: &str, reason: impl Into<String>) -> KafkaError {
    KafkaError::Setting { key: key.to_owned(), reason: reason.into() }
}
