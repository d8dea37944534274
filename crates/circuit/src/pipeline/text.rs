//! Texts of options, with what the environment put into them.

use std::fmt;

/// What is shown of a text that is secret by its option's name.
const HIDDEN: &str = "***";

/// An option's text. A part that came from the environment makes it secret: `Debug` and `Display` then give the text as
/// it was written, with `${NAME}`, and only [`Text::reveal`] gives the value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text {
    value: String,
    /// What to show instead.
    shown: Option<String>,
}

impl Text {
    /// The value. Never for a log, an error or a checkpoint when [`Text::is_secret`].
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.value
    }

    /// Whether the value must not be shown.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.shown.is_some()
    }

    /// Secret from now on, though it stands in the file.
    pub(super) fn hidden(self) -> Self {
        Self { shown: Some(self.shown.unwrap_or_else(|| HIDDEN.to_owned())), value: self.value }
    }

    /// Puts the environment into `raw`: `${NAME}`, or `${NAME:-default}` where it may be unset or empty. `$${` stands
    /// for `${`. The error says what is wrong, for the place of `raw`.
    pub(super) fn filled(raw: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut value = String::with_capacity(raw.len());
        let mut is_secret = false;
        let mut rest = raw;
        while let Some(at) = rest.find("${") {
            if let Some(before) = rest[..at].strip_suffix('$') {
                value.push_str(before);
                value.push_str("${");
                rest = &rest[at + 2..];
                continue;
            }
            value.push_str(&rest[..at]);
            let inner = &rest[at + 2..];
            let end = inner.find('}').ok_or("`${` has no `}`; write `$${` for the characters themselves")?;
            let (name, default) = match inner[..end].split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (&inner[..end], None),
            };
            check_name(name)?;
            match (environment(name), default) {
                (Some(found), None) => {
                    value.push_str(&found);
                    is_secret = true;
                }
                (Some(found), Some(_)) if !found.is_empty() => {
                    value.push_str(&found);
                    is_secret = true;
                }
                (_, Some(default)) => value.push_str(default),
                (None, None) => {
                    return Err(format!(
                        "the environment has no {name}; set it, or write `${{{name}:-default}}` to go on without"
                    ));
                }
            }
            rest = &inner[end + 1..];
        }
        value.push_str(rest);
        Ok(Self { value, shown: is_secret.then(|| raw.to_owned()) })
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.chars().all(is_letter) && name.starts_with(|first: char| !first.is_ascii_digit()) {
        return Ok(());
    }
    Err(format!("`{name}` is no name of the environment: letters, digits and `_`, as in `${{KAFKA_BROKERS}}`"))
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown.as_deref().unwrap_or(&self.value))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_secret() { "secret " } else { "" };
        write!(f, "{kind}{:?}", self.shown.as_ref().unwrap_or(&self.value))
    }
}
