//! Settings of the peer that this version does not have: refused by name, never ignored in silence.

/// Environment variables that change what is read or written, with what they stand for.
#[rustfmt::skip]
const VARIABLES: [(&str, &str); 7] = [
    ("SCHEMA_REGISTRY_USERNAME", "schema registries"),
    ("SCHEMA_REGISTRY_PASSWORD", "schema registries"),
    ("SCHEMA_REGISTRY_PROXY", "schema registries"),
    ("KAFKA_DELTA_INGEST_CERT", "PEM text from the environment (use -K ssl.certificate.pem=...)"),
    ("KAFKA_DELTA_INGEST_KEY", "PEM text from the environment (use -K ssl.key.pem=...)"),
    ("KAFKA_DELTA_INGEST_CA", "PEM text from the environment (use -K ssl.ca.pem=...)"),
    ("KAFKA_DELTA_INGEST_SCRAM_JSON", "SCRAM from the environment (use -K sasl.username=... and its like)"),
];

/// A setting that would change the outcome, and that is not there yet.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is set, and this version of lakeward has no {what}; unset it to go on without")]
pub struct NotHere {
    variable: &'static str,
    what: &'static str,
}

/// # Errors
/// When a variable that `is_set` says is set asks for what is not there.
pub fn check(is_set: impl Fn(&str) -> bool) -> Result<(), NotHere> {
    match VARIABLES.iter().find(|(variable, _)| is_set(variable)) {
        Some(&(variable, what)) => Err(NotHere { variable, what }),
        None => Ok(()),
    }
}

/// Is it set to something?
#[must_use]
pub fn in_environment(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        assert_eq!(check(|_| false), Ok(()));
        let refused = check(|name| name == "SCHEMA_REGISTRY_PROXY").unwrap_err();
        assert!(refused.to_string().starts_with("SCHEMA_REGISTRY_PROXY is set"), "{refused}");
    }
}
