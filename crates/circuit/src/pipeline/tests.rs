//! Pipeline files and what they mean, or what is wrong with them.

mod faults;
mod mutation;
mod names;
mod types;
mod valid;

use super::{Pipeline, SqlError};

/// What the tests' environment holds.
fn environment(name: &str) -> Option<String> {
    match name {
        "BROKERS" => Some("secret-host:9092".to_owned()),
        "PASSWORD" => Some("hunter2".to_owned()),
        "WORKERS" => Some("7".to_owned()),
        "BAD" => Some("very-secret".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<Pipeline, SqlError> {
    Pipeline::parse(text, &environment)
}

fn good(text: &str) -> Pipeline {
    parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// A source and a sink around what a case is about.
const SOURCE: &str = "CREATE SOURCE t (a BIGINT, b TEXT) WITH (kafka = 'h:1', topic = 't');\n";
const SINK: &str = "\nCREATE SINK s FROM t WITH (delta = './s');";

/// `LINE:COLUMN: message` of a faulty file.
fn fault(text: &str) -> String {
    match parse(text) {
        Ok(pipeline) => panic!("no fault in\n{text}\n{pipeline:#?}"),
        Err(error) => format!("{}: {}", error.place, error.message),
    }
}
