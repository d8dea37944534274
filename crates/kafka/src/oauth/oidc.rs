//! Tokens from an OpenID provider, by client credentials (RFC 6749, section 4.4).

use std::error::Error;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, Client, StatusCode, Url};
use serde_json::Value;
use tracing::warn;

use super::settings::setting;
use super::{Token, TokenError, now_ms};
use crate::error::KafkaError;

/// One request, from the first byte to the last.
const REQUEST: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);
/// No answer of a token endpoint is longer, in bytes.
const MOST_BYTES: usize = 1 << 20;
/// A token is fetched anew once a year, however long it says to be valid, in milliseconds.
const LONGEST_MS: i64 = 365 * 24 * 60 * 60 * 1_000;
/// So much of what an endpoint says is told, in characters.
const MOST_TOLD: usize = 300;

/// Who asks whom, and for what.
#[derive(PartialEq, Eq)]
pub(crate) struct Oidc {
    pub url: Url,
    pub id: String,
    pub secret: String,
    /// Whether id and secret are percent-encoded before they are encoded again, as RFC 6749 has it and few do.
    pub is_encoded: bool,
    pub scope: Option<String>,
    pub extensions: Vec<(String, String)>,
    pub ca_file: Option<String>,
    pub ca_pem: Option<String>,
}

impl Oidc {
    /// The address without what may be a secret.
    pub fn shown(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.to_string()
    }

    /// A client that trusts whom it should, and follows nobody: a secret goes where it was sent.
    pub fn http(&self) -> Result<Client, KafkaError> {
        let mut builder = Client::builder().timeout(REQUEST).connect_timeout(CONNECT);
        builder = builder.redirect(reqwest::redirect::Policy::none());
        let from_file = self.ca_file.as_ref().map(|path| {
            let bytes = std::fs::read(path);
            ("https.ca.location", bytes.map_err(|error| format!("can't read the file {path}: {error}")))
        });
        let from_text = self.ca_pem.as_ref().map(|pem| ("https.ca.pem", Ok(pem.clone().into_bytes())));
        for (name, pem) in from_file.into_iter().chain(from_text) {
            let pem = pem.map_err(|reason| setting(name, reason))?;
            let certificates = Certificate::from_pem_bundle(&pem).ok().filter(|all| !all.is_empty());
            let certificates = certificates.ok_or_else(|| setting(name, "it holds no certificate in PEM"))?;
            builder = certificates.into_iter().fold(builder, reqwest::ClientBuilder::add_root_certificate);
        }
        if self.url.scheme() == "http" && !is_local(&self.url) {
            warn!("Kafka: the client's secret goes to {} in the clear; use https", self.shown());
        }
        builder.build().map_err(|error| setting("https.ca.location", format!("no client for HTTPS: {error}")))
    }

    fn authorization(&self) -> HeaderValue {
        let encoded = |text: &str| -> String {
            match self.is_encoded {
                true => reqwest::Url::parse_with_params("x:", [("", text)]).map_or_else(
                    |_| text.to_owned(),
                    |url| url.query().and_then(|query| query.strip_prefix('=')).unwrap_or_default().to_owned(),
                ),
                false => text.to_owned(),
            }
        };
        let user = STANDARD.encode(format!("{}:{}", encoded(&self.id), encoded(&self.secret)));
        let mut value = HeaderValue::from_str(&format!("Basic {user}")).expect("base64 is a header's text");
        value.set_sensitive(true);
        value
    }

    fn body(&self) -> String {
        let mut form = Url::parse("x:").expect("an address");
        form.query_pairs_mut().append_pair("grant_type", "client_credentials");
        if let Some(scope) = &self.scope {
            form.query_pairs_mut().append_pair("scope", scope);
        }
        form.query().unwrap_or_default().to_owned()
    }

    /// What may be told of a text that the endpoint wrote.
    fn told(&self, text: &str) -> String {
        let user = STANDARD.encode(format!("{}:{}", self.id, self.secret));
        let text = text.replace(&user, "...").replace(&self.secret, "...");
        let text: String = text.chars().filter(|c| !c.is_control()).take(MOST_TOLD).collect();
        text.trim().to_owned()
    }
}

/// Whether nobody is on the way.
fn is_local(url: &Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

/// An endpoint's address.
pub(crate) fn address(text: &str) -> Result<Url, &'static str> {
    let wrong = "it is no address; write https://HOST/PATH";
    let url = Url::parse(text).map_err(|_| wrong)?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds a user; set sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret instead");
    }
    Ok(url)
}

/// Asks once.
pub(crate) async fn ask(oidc: &Oidc, http: &Client) -> Result<Token, TokenError> {
    let at = format!("the token endpoint {}", oidc.shown());
    let request =
        http.post(oidc.url.clone()).header(AUTHORIZATION, oidc.authorization()).header(ACCEPT, "application/json");
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(oidc.body());
    let answer = request.send().await.map_err(|error| unanswered(&at, &error))?;
    let status = answer.status();
    let body = body(answer).await.map_err(|error| unanswered(&at, &error))?;
    if status.is_success() {
        return read(oidc, &body).map_err(|what| TokenError::Refused(format!("{at} {what}")));
    }
    let text = format!("({}){}", status.as_u16(), reason(oidc, &body));
    Err(match may_heal(status) {
        true => TokenError::OutOfReach(format!("{at} does not serve us {text}")),
        false => TokenError::Refused(format!("{at} refuses us {text}")),
    })
}

/// As much as an answer may have.
async fn body(mut answer: reqwest::Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut all = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        all.extend_from_slice(&chunk[..chunk.len().min(MOST_BYTES - all.len())]);
        if all.len() == MOST_BYTES {
            break;
        }
    }
    Ok(all)
}

fn may_heal(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS)
}

/// No answer at all; a certificate that is not trusted does not become so by waiting.
fn unanswered(at: &str, error: &reqwest::Error) -> TokenError {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    let last =
        causes.pop().unwrap_or_else(|| if error.is_timeout() { "it takes too long" } else { "no answer" }.to_owned());
    match last.contains("certificate") {
        true => TokenError::Refused(format!("{at} is not who it should be: {last}; check https.ca.location")),
        false => TokenError::OutOfReach(format!("{at} does not answer: {last}")),
    }
}

/// What an endpoint gives as its reason: `error` and `error_description`, else its text.
fn reason(oidc: &Oidc, body: &[u8]) -> String {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let part = |name: &str| json.get(name).and_then(Value::as_str);
    let said = match (part("error"), part("error_description")) {
        (Some(error), Some(description)) => format!("{error}: {description}"),
        (Some(error), None) => error.to_owned(),
        _ => String::from_utf8_lossy(body).into_owned(),
    };
    match oidc.told(&said) {
        said if said.is_empty() => String::new(),
        said => format!(": {said}"),
    }
}

/// The token of an answer. What is wrong with it is told without any of its text.
fn read(oidc: &Oidc, body: &[u8]) -> Result<Token, String> {
    let json: Value = serde_json::from_slice(body).map_err(|_| "answers something that is no JSON".to_owned())?;
    let value = json.get("access_token").and_then(Value::as_str).filter(|token| !token.is_empty());
    let value = value.ok_or("answers without an access_token")?.to_owned();
    let claims = claims(&value);
    // Some write numbers as texts.
    let number = |value: Option<&Value>| value?.as_f64().or_else(|| value?.as_str()?.parse().ok());
    let claimed_ms = number(claims.get("exp")).map(|seconds| seconds * 1e3);
    // How long from now on is right also where two clocks differ.
    let told_ms = number(json.get("expires_in")).map(|seconds| seconds.mul_add(1e3, now_ms() as f64));
    let expires_ms =
        told_ms.or(claimed_ms).ok_or("does not say how long its token is valid (expires_in, or exp in it)")?;
    let principal = claims.get("sub").and_then(Value::as_str).unwrap_or(&oidc.id).to_owned();
    let expires_ms = (expires_ms as i64).min(now_ms() + LONGEST_MS);
    Ok(Token { value, expires_ms, principal, extensions: oidc.extensions.clone() })
}

/// What a token says of itself, where it is a JWT.
fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap_or_default().trim_end_matches('=');
    let bytes = URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}
