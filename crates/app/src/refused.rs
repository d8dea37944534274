//! Settings of the peer that this version does not have: refused by name, never ignored in silence.

/// Environment variables that change what is read or written, with what they stand for.
#[rustfmt::skip]
const VARIABLES: [(&str, &str); 3] = [
    ("SCHEMA_REGISTRY_USERNAME", "schema registries"),
    ("SCHEMA_REGISTRY_PASSWORD", "schema registries"),
    ("SCHEMA_REGISTRY_PROXY", "schema registries"),
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
