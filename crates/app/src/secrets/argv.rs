//! A secret on the command line stands in the process list, for everybody on the machine to read. So the program
//! starts itself again, in the same process, with the secret in its environment, which only its owner can read.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{FILE, PREFIX, is_secret};

/// Names the settings that were moved, so that the new start can say so.
const MOVED: &str = "LAKEWARD_MOVED_FROM_COMMAND_LINE";

/// A command line without its secrets, and those.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cleaned {
    arguments: Vec<OsString>,
    /// Settings of Kafka's client.
    secrets: Vec<(String, String)>,
}

/// Starts the program again without the secrets of its command line, if there are any. Does not return then; where
/// that fails the command goes on as it is.
pub fn hide() {
    let Cleaned { arguments, secrets } = clean(std::env::args_os());
    let (Some((program, rest)), false) = (arguments.split_first(), secrets.is_empty()) else { return };
    let Ok(executable) = std::env::current_exe() else { return };
    let mut again = Command::new(executable);
    again.arg0(program).args(rest);
    for (setting, value) in &secrets {
        let name = variable(setting);
        again.env(&name, value).env_remove(format!("{name}{FILE}"));
    }
    let names: Vec<_> = secrets.iter().map(|(setting, _)| setting.as_str()).collect();
    // Comes back only when it failed.
    let _ = again.env(MOVED, names.join(" ")).exec();
}

/// Says which secrets stood on the command line, once there is a log.
pub fn tell() {
    let moved = std::env::var(MOVED).unwrap_or_default();
    for setting in moved.split_whitespace() {
        let name = variable(setting);
        tracing::warn!(
            "{setting} was given with -K, where for a moment everybody on this machine could read it: set {name}, \
             {name}{FILE} (a file's path), or a credential {name} of systemd instead"
        );
    }
    let left = clean(std::env::args_os()).secrets;
    for (setting, _) in left {
        tracing::warn!("{setting} stands on the command line, where everybody on this machine can read it");
    }
}

/// The variable that a setting has.
fn variable(setting: &str) -> String {
    format!("{PREFIX}{}", setting.to_uppercase().replace('.', "_"))
}

fn clean(arguments: impl IntoIterator<Item = OsString>) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let mut rest = arguments.into_iter();
    let mut options = true;
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        options &= text != "--";
        match Place::of(text).filter(|_| options) {
            None => cleaned.arguments.push(argument),
            Some(Place::Within(before, value)) => match secret(value) {
                Some(secret) => {
                    // What stood before it in the same word: `-eKsasl.password=..`.
                    cleaned.arguments.extend((before.len() > 1).then(|| OsString::from(before)));
                    cleaned.secrets.push(secret);
                }
                None => cleaned.arguments.push(argument),
            },
            Some(Place::Next(before)) => match rest.next() {
                Some(value) => match value.to_str().and_then(secret) {
                    Some(secret) => {
                        cleaned.arguments.extend((before.len() > 1).then(|| OsString::from(before)));
                        cleaned.secrets.push(secret);
                    }
                    None => cleaned.arguments.extend([argument, value]),
                },
                None => cleaned.arguments.push(argument),
            },
        }
    }
    cleaned
}

/// Where an option's value stands.
enum Place<'a> {
    /// In the same word, after what else the word says.
    Within(&'a str, &'a str),
    /// In the next word.
    Next(&'a str),
}

impl<'a> Place<'a> {
    fn of(text: &'a str) -> Option<Self> {
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let is_setting = name.replace('_', "-") == "kafka-setting";
            return is_setting.then_some(value.map_or(Self::Next(""), |value| Self::Within("", value)));
        }
        let at = text.strip_prefix('-')?.find(|letter: char| !matches!(letter, 'e' | 'c'))? + 1;
        let value = text[at..].strip_prefix('K')?;
        let value = value.strip_prefix('=').unwrap_or(value);
        Some(if value.is_empty() { Self::Next(&text[..at]) } else { Self::Within(&text[..at], value) })
    }
}

/// `sasl.password=..` as setting and value, if it is a secret that a variable can carry.
fn secret(text: &str) -> Option<(String, String)> {
    let (setting, value) = text.split_once('=')?;
    let setting = setting.trim().to_lowercase();
    let carries = setting.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    (carries && is_secret(&setting) && !value.trim().is_empty()).then(|| (setting, value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_leave_the_command_line_and_nothing_else_does() {
        #[rustfmt::skip] // columns: command line, what is left of it, the secrets
        let cases = [
            ("lw ingest t p -K a.b=c",                           "lw ingest t p -K a.b=c",       ""),
            ("lw ingest t p -K sasl.password=x -e",              "lw ingest t p -e",             "sasl.password=x"),
            ("lw ingest t p -Ksasl.password=x=y",                "lw ingest t p",                "sasl.password=x=y"),
            ("lw ingest t p -eK sasl.password=x",                "lw ingest t p -e",             "sasl.password=x"),
            ("lw ingest t p -K=sasl.password=x",                 "lw ingest t p",                "sasl.password=x"),
            ("lw ingest t p --kafka_setting=ssl.key.password=x", "lw ingest t p",                "ssl.key.password=x"),
            ("lw ingest t p --kafka-setting sasl.password=x",    "lw ingest t p",                "sasl.password=x"),
            ("lw ingest t p -k host -- -K sasl.password=x",      "lw ingest t p -k host -- -K sasl.password=x", ""),
            ("lw verify p -K ssl.key.location=/k -K",            "lw verify p -K ssl.key.location=/k -K", ""),
            ("lw ingest t p -K sasl.password=",                  "lw ingest t p -K sasl.password=", ""),
        ];
        for (line, left, secrets) in cases {
            let cleaned = clean(line.split(' ').map(OsString::from));
            let found: Vec<_> = cleaned.secrets.iter().map(|(setting, value)| format!("{setting}={value}")).collect();
            assert_eq!(cleaned.arguments.join(" ".as_ref()).to_str(), Some(left), "{line}");
            assert_eq!(found.join(" "), secrets, "{line}");
        }
    }

    #[test]
    fn a_setting_has_a_variable() {
        assert_eq!(variable("ssl.key.password"), "LAKEWARD_KAFKA_SSL_KEY_PASSWORD");
    }
}
