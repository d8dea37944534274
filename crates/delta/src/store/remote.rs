//! Clients of object stores, from a URL and the variables that people set for such stores.
//!
//! Two clients each: one for small things, which gives up soon, so that a lost answer is noticed, and one for data,
//! which has the time that a slow line takes. Both leave waiting to the loop, which does it aloud.

use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use url::Url;

use super::profile;

/// Variables that configure stores, their names in lower case.
pub(super) type Variables = BTreeMap<String, String>;

/// Environment variables that configure stores begin so; the last are of lock tables, which are told alone.
const PREFIXES: [&str; 5] = ["AWS_", "AZURE_", "GOOGLE_", "DYNAMO_LOCK_", "DEAD_LETTER_DYNAMO_LOCK_"];

/// Others that are looked at.
const OTHERS: [&str; 2] = ["HOME", "DELTA_DYNAMO_TABLE_NAME"];

/// What configures stores, from the environment.
pub(super) fn variables() -> Variables {
    let text =
        std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
    let ours = |key: &str| PREFIXES.iter().any(|prefix| key.starts_with(prefix)) || OTHERS.contains(&key);
    text.filter(|(key, _)| ours(key)).map(|(key, value)| (key.to_ascii_lowercase(), value)).collect()
}

/// A bucket or container.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    /// For the log, names and marks.
    pub quick: Arc<dyn ObjectStore>,
    /// For data.
    pub patient: Arc<dyn ObjectStore>,
}

/// How long a client waits for what.
#[derive(Clone, Copy)]
struct Patience {
    /// For a whole request, with what it sends and gets.
    request: Duration,
    retries: usize,
}

const QUICK: Patience = Patience { request: Duration::from_secs(30), retries: 3 };
/// A piece of data (`PIECE_BYTES`), eight at a time, within this: 1 MB a second is enough.
const PATIENT: Patience = Patience { request: Duration::from_secs(60), retries: 2 };

/// No retry begins later than this after a first request ran out of its time; the loop goes on from there.
const LAST_RETRY: Duration = Duration::from_secs(10);

impl Patience {
    fn client(self) -> ClientOptions {
        ClientOptions::new().with_timeout(self.request)
    }

    fn retries(self) -> RetryConfig {
        let backoff = BackoffConfig { max_backoff: Duration::from_secs(2), ..BackoffConfig::default() };
        // A read that breaks off goes on where it was, for as long as its bytes keep coming.
        let retry_timeout = LAST_RETRY + self.request;
        RetryConfig { max_retries: self.retries, retry_timeout, backoff }
    }
}

/// The store that a URL is in.
///
/// # Errors
/// Variables that make no sense together, or ask for what is not done here; what to do.
pub(super) fn open(url: &Url, variables: &Variables) -> Result<Remote, String> {
    match url.scheme() {
        "s3" | "s3a" => {
            check_aws(variables)?;
            check_bucket(url)?;
            tell_of_locks(variables);
            both(|patience| s3(url, variables, patience))
        }
        "gs" => both(|patience| gcs(url, variables, patience)),
        _ => {
            check_azure(variables)?;
            both(|patience| azure(url, variables, patience))
        }
    }
}

fn both(make: impl Fn(Patience) -> Result<Arc<dyn ObjectStore>, String>) -> Result<Remote, String> {
    Ok(Remote { quick: make(QUICK)?, patient: make(PATIENT)? })
}

fn s3(url: &Url, variables: &Variables, patience: Patience) -> Result<Arc<dyn ObjectStore>, String> {
    let found = profile::find(variables)?;
    if found.is_none() {
        check_machine(variables)?;
    }
    let mut builder = AmazonS3Builder::new().with_url(url.as_str());
    builder = builder.with_client_options(patience.client()).with_retry(patience.retries());
    if let Some(found) = found {
        // What the environment says comes after, and wins.
        for (key, value) in
            [(AmazonS3ConfigKey::Region, found.region), (AmazonS3ConfigKey::Endpoint, found.endpoint_url)]
        {
            builder = value.into_iter().fold(builder, |builder, value| builder.with_config(key, value));
        }
        builder = builder.with_credentials(Arc::new(found.credentials));
    }
    for (key, value) in variables {
        // Older spellings of those who wrote tables before us.
        let key = if key == "aws_storage_allow_http" { "aws_allow_http" } else { key };
        if let Ok(key) = key.parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    Ok(Arc::new(builder.build().map_err(|error| error.to_string())?))
}

fn azure(url: &Url, variables: &Variables, patience: Patience) -> Result<Arc<dyn ObjectStore>, String> {
    let mut builder = MicrosoftAzureBuilder::new().with_url(url.as_str());
    builder = builder.with_client_options(patience.client()).with_retry(patience.retries());
    for (key, value) in variables {
        if let Ok(key) = key.parse::<AzureConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let built = builder.build().map_err(|error| {
        format!(
            "{error}; an account is named by abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH, or by \
             AZURE_STORAGE_ACCOUNT_NAME"
        )
    });
    Ok(Arc::new(built?))
}

fn gcs(url: &Url, variables: &Variables, patience: Patience) -> Result<Arc<dyn ObjectStore>, String> {
    let mut builder = GoogleCloudStorageBuilder::new().with_url(url.as_str());
    // The machine's identity is asked for without encryption, and so may emulators be.
    builder = builder.with_client_options(patience.client().with_allow_http(true)).with_retry(patience.retries());
    for (key, value) in variables {
        if let Ok(key) = key.parse::<GoogleConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    Ok(Arc::new(builder.build().map_err(|error| error.to_string())?))
}

fn is_true(variables: &Variables, key: &str) -> bool {
    variables.get(key).is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
}

/// What would be passed over in silence, and lead to other keys or to errors that say little.
fn check_aws(variables: &Variables) -> Result<(), String> {
    for key in ["aws_iam_role_arn", "aws_s3_assume_role_arn"] {
        if variables.get(key).is_some_and(|value| !value.is_empty()) {
            return Err(format!(
                "{} is set, and lakeward assumes no role by itself; let a profile do it (credential_process = aws \
                 configure export-credentials --profile NAME --format process), or give AWS_WEB_IDENTITY_TOKEN_FILE \
                 with AWS_ROLE_ARN",
                key.to_ascii_uppercase()
            ));
        }
    }
    let endpoint =
        ["aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint"].iter().find_map(|key| variables.get(*key));
    let may = ["aws_allow_http", "aws_storage_allow_http"].iter().any(|key| is_true(variables, key));
    match endpoint {
        Some(endpoint) if endpoint.starts_with("http://") && !may => Err(format!(
            "the endpoint {endpoint} is not encrypted; set AWS_ALLOW_HTTP=true to use it all the same, or give an https \
             one"
        )),
        _ => Ok(()),
    }
}

/// A log is read by its newest names, which directory buckets do not list in order.
fn check_bucket(url: &Url) -> Result<(), String> {
    match url.host_str() {
        Some(bucket) if bucket.ends_with("--x-s3") => Err(format!(
            "{bucket} is a directory bucket (S3 Express One Zone), which lists names in no order; use a general one"
        )),
        _ => Ok(()),
    }
}

/// A connection string alone would be passed over, and the machine's identity asked.
fn check_azure(variables: &Variables) -> Result<(), String> {
    const KEYS: [&str; 8] = [
        "azure_storage_account_key",
        "azure_storage_access_key",
        "azure_storage_sas_token",
        "azure_storage_token",
        "azure_storage_use_emulator",
        "azure_storage_client_id",
        "azure_client_id",
        "azure_use_azure_cli",
    ];
    let is_set = |key: &str| variables.get(key).is_some_and(|value| !value.is_empty());
    if !is_set("azure_storage_connection_string") || KEYS.iter().any(|key| is_set(key)) {
        return Ok(());
    }
    Err("AZURE_STORAGE_CONNECTION_STRING is set, which is not looked at; unset it, or set AZURE_STORAGE_ACCOUNT_NAME with \
         AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, as they stand in it"
        .to_owned())
}

/// Where no keys are given, the machine's role is asked; that is worth a word, since elsewhere nobody answers.
fn check_machine(variables: &Variables) -> Result<(), String> {
    const KEYS: [&str; 5] = [
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_web_identity_token_file",
        "aws_container_credentials_relative_uri",
        "aws_container_credentials_full_uri",
    ];
    static TOLD: Once = Once::new();
    if KEYS.iter().any(|key| variables.contains_key(*key)) || is_true(variables, "aws_skip_signature") {
        return Ok(());
    }
    let none = "no AWS keys: none in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), no profile, no web \
                identity, no container's role";
    if is_true(variables, "aws_ec2_metadata_disabled") {
        return Err(format!("{none}, and AWS_EC2_METADATA_DISABLED keeps from asking the machine's role"));
    }
    TOLD.call_once(|| tracing::info!("{none}; asking the machine's role"));
    Ok(())
}

/// Whoever comes from a writer that needed a lock is told once that none is.
fn tell_of_locks(variables: &Variables) {
    const LOCKS: [&str; 3] = ["aws_s3_locking_provider", "delta_dynamo_table_name", "aws_s3_allow_unsafe_rename"];
    static TOLD: Once = Once::new();
    let is_lock = |key: &str| {
        LOCKS.contains(&key) || key.contains("dynamo_lock_") || (key.starts_with("aws_") && key.ends_with("_dynamodb"))
    };
    let set: Vec<_> = variables.keys().filter(|key| is_lock(key)).map(|key| key.to_ascii_uppercase()).collect();
    if !set.is_empty() {
        TOLD.call_once(|| {
            tracing::info!(
                "{}: not needed and not looked at: commits are put if absent, which needs no lock table; writers that \
                 rely on one (deltalake with DynamoDB) must not write to the same table",
                set.join(", ")
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(url: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let variables = variables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        open(&Url::parse(url).unwrap(), &variables).map(|remote| remote.quick.to_string())
    }

    #[test]
    fn urls_and_variables_come_to_stores() {
        let account = ("azure_storage_account_name", "acc");
        #[rustfmt::skip] // columns: URL, variables, what the store calls itself
        let cases: [(&str, &[(&str, &str)], &str); 7] = [
            ("s3://b/t/",                                &[("aws_region", "eu-west-1")],  "AmazonS3(b)"),
            ("s3a://b/t/",                               &[],                             "AmazonS3(b)"),
            ("abfss://c@acc.dfs.core.windows.net/t/",    &[],                             "MicrosoftAzure { account: acc, container: c }"),
            ("az://c/t/",                                &[account],                      "MicrosoftAzure { account: acc, container: c }"),
            ("abfss://c/t/",                             &[account],                      "MicrosoftAzure { account: acc, container: c }"),
            ("gs://b/t/",                                &[("google_skip_signature", "true")], "GoogleCloudStorage(b)"),
            ("s3://b/t/", &[("aws_endpoint_url", "http://h:1"), ("aws_storage_allow_http", "1")], "AmazonS3(b)"),
        ];
        for (url, variables, is) in cases {
            assert_eq!(opened(url, variables).as_deref(), Ok(is), "{url}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_do() {
        #[rustfmt::skip] // columns: URL, variables, what is said
        let cases: [(&str, &[(&str, &str)], &str); 8] = [
            ("s3://b--use1-az4--x-s3/t/", &[],                              "directory bucket"),
            ("az://c/t/", &[("azure_storage_connection_string", "x")],      "AZURE_STORAGE_ACCOUNT_KEY"),
            ("s3://b/t/", &[("aws_ec2_metadata_disabled", "true")],         "no AWS keys"),
            ("az://c/t/", &[],                                              "AZURE_STORAGE_ACCOUNT_NAME"),
            ("s3://b/t/", &[("aws_endpoint_url", "http://h:1")],            "AWS_ALLOW_HTTP=true"),
            ("s3://b/t/", &[("aws_s3_assume_role_arn", "arn:x")],           "AWS_S3_ASSUME_ROLE_ARN is set"),
            ("s3://b/t/", &[("aws_access_key_id", "k")],                    "SecretAccessKey"),
            ("s3://b/t/", &[("aws_profile", "p"), ("home", "/nowhere")],    "profile p"),
        ];
        for (url, variables, said) in cases {
            let error = opened(url, variables).unwrap_err();
            assert!(error.contains(said), "{url}: {error}");
        }
    }
}
