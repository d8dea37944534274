//! `SET name = value`: what concerns the whole pipeline.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::error::Problem;
use super::options::{Environment, Given, Options};
use super::{DeltaSink, Mode, Name, Settings, Sink, Target};
use crate::dead_letters;

/// A year: a longer wait is a slip.
const MAX_WAIT_MS: u64 = 31_536_000_000;
const MAX_WORKERS: u64 = 256;
const MAX_STEP_MESSAGES: u64 = 100_000_000;
const MIN_MEMORY_MB: u64 = 64;
const MAX_MEMORY_MB: u64 = 64 * 1024 * 1024;

const KNOWN: [&str; 9] = [
    "app_id",
    "state",
    "state_cache",
    "dead_letters",
    "checkpoint_interval_ms",
    "step_latency_ms",
    "step_max_messages",
    "workers",
    "memory_mb",
];

/// Reads what follows `SET`.
pub(super) fn read(cursor: &mut Cursor, environment: Environment) -> Result<Given, Problem> {
    let Name { text: name, place } = cursor.name("the name of a setting")?;
    if !cursor.takes(&Token::Eq) && !cursor.word("TO") {
        return Err(cursor.expected("`=`"));
    }
    let given = Given::read_value(name, place, cursor, environment)?;
    cursor.finish()?;
    Ok(given)
}

/// The settings that all `SET` of a file make, and the sink that one of them stands for.
pub(super) fn settings(mut options: Options) -> Result<(Settings, Option<Sink>), Problem> {
    options.only(&KNOWN, false)?;
    let usual = Settings::default();
    let waits = 1..=MAX_WAIT_MS;
    let checkpoint_interval_ms = options.number("checkpoint_interval_ms", waits.clone())?;
    let workers = options.number("workers", 1..=MAX_WORKERS)?.and_then(|workers| u16::try_from(workers).ok());
    let dead_letters = options.text("dead_letters")?;
    let settings = Settings {
        app_id: options.text("app_id")?.map(|given| given.value),
        state: options.text("state")?.map(|given| given.value),
        state_cache: options.text("state_cache")?.map(|given| given.value),
        has_dead_letters: dead_letters.is_some(),
        checkpoint_interval_ms: checkpoint_interval_ms.unwrap_or(usual.checkpoint_interval_ms),
        step_latency_ms: options.number("step_latency_ms", waits)?.unwrap_or(usual.step_latency_ms),
        step_max_messages: options
            .number("step_max_messages", 1..=MAX_STEP_MESSAGES)?
            .unwrap_or(usual.step_max_messages),
        workers: workers.unwrap_or(usual.workers),
        memory_mb: options.number("memory_mb", MIN_MEMORY_MB..=MAX_MEMORY_MB)?,
    };
    Ok((settings, dead_letters.map(dead_letters_sink)))
}

/// The table is the relation of dead letters, row by row.
fn dead_letters_sink(given: Given) -> Sink {
    let name = Name { text: dead_letters::NAME.to_owned(), place: given.place };
    let target = Target::Delta(DeltaSink {
        location: given.value,
        place: given.value_place,
        mode: Some(Mode::Upsert),
        key: Vec::new(),
        partition_by: Vec::new(),
    });
    Sink { from: name.clone(), name, target }
}
