//! `lakeward verify`: proves from a table's log that each offset is in it exactly once.

use std::path::Path;

use lakeward_delta::History;
use lakeward_protocol::ports::Exit;
use serde_json::json;

use crate::cli::{Output, VerifyArgs};
use crate::failure::Failure;
use crate::report::{grouped, table};
use crate::secrets;
use crate::session::Session;
use chain::{Chains, Kind};
use letters::Letters;

pub mod chain;
pub mod common;
pub mod letters;
mod pipeline;
pub mod rows;
mod topic;

/// Prints each chain and what is wrong with it.
///
/// # Errors
/// Exit 65 when a promise is broken; others when the log or the topic can't be read.
pub fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let session = Session::start()?;
    if Path::new(&args.table).is_file() {
        return pipeline::run(args, &session);
    }
    let mut chains = follow(&args.table, &session)?;
    if let Some(brokers) = &args.kafka {
        topic::compare(&mut chains, brokers, &secrets::kafka(&args.kafka_settings))?;
    }
    let letters = letters::compare(&mut chains, &session)?;
    match args.output {
        Output::Table => print!("{}", text(&args.table, &chains, &letters)),
        Output::Json => println!("{}", json(&args.table, &chains, &letters)),
    }
    if chains.is_sound() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Data,
        format_args!("{}: not every offset is in the table exactly once; see above", args.table),
    ))
}

/// Reads the whole log.
///
/// # Errors
/// No table there, or a log that can't be read.
pub fn follow(location: &str, session: &Session) -> Result<Chains, Failure> {
    let history = History::open(location, session.runtime.handle().clone()).map_err(|error| Failure::port(&error))?;
    let mut chains = Chains::default();
    for version in history.read() {
        chains.follow(&version.map_err(|error| Failure::port(&error))?);
    }
    chains.first = history.versions().first().copied().unwrap_or_default();
    if chains.first > 0 {
        chains.rows.partial = true;
        let text = "older versions were cleaned up: what they held is not proved here".to_owned();
        chains.find(chains.first, None, Kind::Note, text, 0, 0);
    }
    Ok(chains)
}

/// Compares with what the topic still holds at these brokers.
///
/// # Errors
/// When the topic can't be read.
pub fn compare(chains: &mut Chains, brokers: &str) -> Result<(), Failure> {
    topic::compare(chains, brokers, &[])
}

/// What was found wrong, let pass or worth knowing, a line each.
fn findings(chains: &Chains) -> String {
    let line = |finding: &chain::Finding| {
        let word = match finding.kind {
            Kind::Fault => "FAULT",
            Kind::Accepted => "accepted",
            Kind::Note => "note",
        };
        let txn = finding.txn.as_deref().map(|txn| format!(" {txn}:")).unwrap_or_default();
        format!("{word}: version {}:{txn} {}\n", finding.version, finding.text)
    };
    chains.findings.iter().map(line).collect()
}

fn text(location: &str, chains: &Chains, letters: &[Letters]) -> String {
    let rows: Vec<Vec<String>> = chains
        .chains
        .iter()
        .map(|(txn, chain)| {
            vec![
                txn.clone(),
                chain.topic.clone().unwrap_or_else(|| "-".to_owned()),
                chain.partition.to_string(),
                if chain.to > chain.from {
                    format!("{}..{}", grouped(chain.from), grouped(chain.to - 1))
                } else {
                    "none".to_owned()
                },
                grouped(chain.commits),
                grouped(chain.rows),
                grouped(chain.bad),
                grouped(chain.tombstones),
                grouped(chain.holes),
            ]
        })
        .collect();
    let head = ["txn", "topic", "partition", "offsets", "commits", "rows", "bad", "tombstones", "no record"];
    let mut out = format!("{location} at version {}\n", chains.version);
    out += &if rows.is_empty() {
        "no txn: no streaming writer has committed to this table\n".to_owned()
    } else {
        table(&head, &rows)
    };
    out += &findings(chains);
    out += &chains.rows.text().unwrap_or_default();
    out += &letters::text(letters);
    let (lost, twice) = totals(chains);
    out + &format!(
        "{} rows, {} lost, {} twice\n",
        grouped(chains.chains.values().map(|chain| chain.rows).sum::<u64>()),
        grouped(lost),
        grouped(twice)
    )
}

/// Offsets lost, and offsets twice, that nobody accepted.
#[must_use]
pub fn totals(chains: &Chains) -> (u64, u64) {
    let faults = chains.findings.iter().filter(|finding| finding.kind == Kind::Fault);
    faults.fold((0, 0), |(lost, twice), fault| (lost + fault.lost, twice + fault.twice))
}

fn json(location: &str, chains: &Chains, letters: &[Letters]) -> serde_json::Value {
    let (lost, twice) = totals(chains);
    json!({
        "table": location, "version": chains.version, "sound": chains.is_sound(), "lost": lost, "twice": twice,
        "chains": chains.chains, "findings": chains.findings,
        "view": chains.rows.mode.as_ref().map(|_| &chains.rows), "dead_letters": letters,
    })
}
