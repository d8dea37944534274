//! `lakeward status`: each partition's frontier in a table, and how far the topic is ahead.

mod pipeline;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lakeward_kafka::{Source, SourceConfig};
use lakeward_protocol::position::{Frontier, PartitionId};
use serde_json::json;

use crate::cli::{Output, StatusArgs};
use crate::failure::Failure;
use crate::report::{grouped, table};
use crate::secrets;
use crate::session::Session;
use crate::verify::{follow, letters};

/// One partition's line.
struct Line {
    txn: String,
    topic: Option<String>,
    partition: u32,
    next: i64,
    rows: u64,
    end: Option<i64>,
}

/// Prints a line for each partition.
///
/// # Errors
/// When the log or the topic can't be read.
pub fn run(args: &StatusArgs) -> Result<(), Failure> {
    let session = Session::start()?;
    if Path::new(&args.table).is_file() {
        return pipeline::run(args, &session);
    }
    let mut chains = follow(&args.table, &session)?;
    let letters = letters::compare(&mut chains, &session)?;
    let topics: BTreeSet<&String> = chains.chains.values().filter_map(|chain| chain.topic.as_ref()).collect();
    let mut ends: BTreeMap<String, Frontier> = BTreeMap::new();
    if let Some(brokers) = &args.kafka {
        for topic in topics {
            ends.insert(topic.clone(), ends_of(brokers, topic, &secrets::kafka(&args.kafka_settings))?);
        }
    }
    let lines: Vec<Line> = chains
        .chains
        .iter()
        .map(|(txn, chain)| Line {
            txn: txn.clone(),
            topic: chain.topic.clone(),
            partition: chain.partition,
            next: chain.to,
            rows: chain.rows,
            end: chain
                .topic
                .as_ref()
                .and_then(|topic| Some(ends.get(topic)?.get(&PartitionId(chain.partition))?.get())),
        })
        .collect();
    match args.output {
        Output::Table => print!("{}{}", text(&args.table, chains.version, &lines), letters::text(&letters)),
        Output::Json => {
            let mut status = as_json(&args.table, chains.version, &lines);
            status["dead_letters"] = json!(letters);
            println!("{status}");
        }
    }
    Ok(())
}

fn ends_of(brokers: &str, topic: &str, settings: &[(String, String)]) -> Result<Frontier, Failure> {
    let mut config = SourceConfig::new(brokers, "lakeward-status", topic);
    config.settings = settings.to_vec();
    let source = Source::assign(config, BTreeSet::new()).map_err(|error| Failure::port(&error))?;
    source.ends().map_err(|error| Failure::port(&error))
}

fn text(location: &str, version: u64, lines: &[Line]) -> String {
    if lines.is_empty() {
        return format!("{location} at version {version}\nno txn: no streaming writer has committed to this table\n");
    }
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                line.txn.clone(),
                line.topic.clone().unwrap_or_else(|| "-".to_owned()),
                line.partition.to_string(),
                grouped(line.next),
                line.end.map_or_else(|| "?".to_owned(), grouped),
                line.end.map_or_else(|| "?".to_owned(), |end| grouped((end - line.next).max(0))),
                grouped(line.rows),
            ]
        })
        .collect();
    format!(
        "{location} at version {version}\n{}",
        table(&["txn", "topic", "partition", "next offset", "end", "lag", "rows"], &rows)
    )
}

fn as_json(location: &str, version: u64, lines: &[Line]) -> serde_json::Value {
    let partitions: Vec<_> = lines
        .iter()
        .map(|line| {
            json!({
                "txn": line.txn, "topic": line.topic, "partition": line.partition, "next_offset": line.next,
                "end": line.end, "lag": line.end.map(|end| (end - line.next).max(0)), "rows": line.rows,
            })
        })
        .collect();
    json!({ "table": location, "version": version, "partitions": partitions })
}
