//! Tokens for Amazon MSK: a request that is signed, and that the broker sends in our place to learn who we are.
//!
//! Nothing is asked for over the network but the keys, where the usual chain finds none in the environment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use object_store::aws::{AmazonS3Builder, AwsCredential, AwsCredentialProvider};
use object_store::{ClientOptions, RetryConfig};
use ring::{digest, hmac};

use super::settings::setting;
use super::{Token, TokenError};
use crate::error::KafkaError;

/// AWS's Signature Version 4.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "kafka-cluster";
/// How long a token is valid. MSK takes none that is longer.
const LIFE: Duration = Duration::from_secs(900);
/// Keys that end are replaced five minutes before, so what is signed this often is never signed with keys that ended.
pub(super) const MOST_AGE: Duration = Duration::from_secs(240);
/// The longest wait for keys from the machine's or the container's role.
const PATIENCE: Duration = Duration::from_secs(5);

/// The chain that finds keys: environment, web identity, container, machine.
pub(super) fn keys(region: &str) -> Result<AwsCredentialProvider, KafkaError> {
    let says = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if says("AWS_PROFILE") && !says("AWS_ACCESS_KEY_ID") {
        let reason = "AWS_PROFILE is set, and profiles give no keys for Kafka; set AWS_ACCESS_KEY_ID and \
                      AWS_SECRET_ACCESS_KEY, or unset it for the role of this machine";
        return Err(setting("sasl.mechanism", reason));
    }
    let retries = RetryConfig { max_retries: 1, retry_timeout: PATIENCE, ..RetryConfig::default() };
    // Of a store only its keys are wanted; there is no such bucket, and nobody asks for it.
    let store = AmazonS3Builder::from_env().with_bucket_name("none").with_region(region).with_retry(retries);
    let store = store.with_client_options(ClientOptions::new().with_timeout(PATIENCE).with_allow_http(true)).build();
    let store = store.map_err(|error| setting("sasl.mechanism", format!("no keys of AWS: {error}")))?;
    Ok(store.credentials().clone())
}

/// Signs once.
pub(super) async fn ask(region: &str, keys: &AwsCredentialProvider) -> Result<Token, TokenError> {
    let keys = keys.get_credential().await;
    let keys = keys.map_err(|error| TokenError::OutOfReach(format!("AWS gives no keys: {error}")))?;
    Ok(token(region, &keys, SystemTime::now()))
}

/// A token as of some moment.
pub(super) fn token(region: &str, keys: &AwsCredential, now: SystemTime) -> Token {
    let at = DateTime::<Utc>::from(now);
    let (moment, day) = (at.format("%Y%m%dT%H%M%SZ").to_string(), at.format("%Y%m%d").to_string());
    let host = format!("kafka.{region}.amazonaws.com");
    let scope = format!("{day}/{region}/{SERVICE}/aws4_request");
    let credential = format!("{}/{scope}", keys.key_id);
    let life = LIFE.as_secs().to_string();
    // In the order of their names, as they are signed.
    let mut pairs = vec![
        ("Action", "kafka-cluster:Connect"),
        ("X-Amz-Algorithm", ALGORITHM),
        ("X-Amz-Credential", &credential),
        ("X-Amz-Date", &moment),
        ("X-Amz-Expires", &life),
    ];
    pairs.extend(keys.token.as_deref().map(|session| ("X-Amz-Security-Token", session)));
    pairs.push(("X-Amz-SignedHeaders", "host"));
    let query = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&");
    let request = format!("GET\n/\n{query}\nhost:{host}\n\nhost\n{}", hash(""));
    let text = format!("{ALGORITHM}\n{moment}\n{scope}\n{}", hash(&request));
    let first = format!("AWS4{}", keys.secret_key).into_bytes();
    let steps = [day.as_str(), region, SERVICE, "aws4_request", &text];
    let signature = steps.iter().fold(first, |key, step| code(&key, step));
    // What comes last is not signed: brokers only write it down.
    let (signature, agent) = (hex(&signature), concat!("lakeward%2F", env!("CARGO_PKG_VERSION")));
    let url = format!("https://{host}/?{query}&X-Amz-Signature={signature}&User-Agent={agent}");
    let expires = now.duration_since(UNIX_EPOCH).unwrap_or_default() + LIFE;
    Token {
        value: URL_SAFE_NO_PAD.encode(url),
        expires_ms: i64::try_from(expires.as_millis()).expect("not that far in the future"),
        principal: keys.key_id.clone(),
        extensions: Vec::new(),
    }
}

fn code(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hash(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 3986, as AWS wants it: all but letters, digits and four signs.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The region that a broker's name holds: `..kafka.REGION.amazonaws.com`, `..kafka-serverless.REGION.amazonaws.com`.
pub(super) fn region_of(brokers: &str) -> Option<String> {
    let region = |broker: &str| {
        let host = broker.trim().rsplit_once(':').map_or(broker, |(host, _)| host);
        let host = host.strip_suffix(".cn").unwrap_or(host).strip_suffix(".amazonaws.com")?;
        let (rest, region) = host.rsplit_once('.')?;
        let kind = rest.rsplit('.').next()?;
        matches!(kind, "kafka" | "kafka-serverless").then(|| region.to_owned())
    };
    brokers.split(',').find_map(region)
}
