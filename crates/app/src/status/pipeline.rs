//! `lakeward status PIPELINE`: where each table and topic of a pipeline stands, by source and partition.

use std::collections::BTreeMap;
use std::path::Path;

use lakeward_circuit::pipeline::Origin;
use lakeward_kafka::Source;
use lakeward_protocol::position::{Frontier, PartitionId};
use serde_json::{Value, json};

use crate::check;
use crate::cli::{Output, StatusArgs};
use crate::failure::Failure;
use crate::pipeline::{self, Loaded, Place};
use crate::report::{grouped, table};
use crate::secrets;
use crate::session::Session;
use crate::verify::common::{self, Common, Stood, Trail};

/// A partition of a source, as a sink has it.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    source: String,
    topic: String,
    partition: u32,
    next: Option<i64>,
    end: Option<i64>,
}

/// What is known of a source: its name, its topic, and where the topic ends.
type Known = (String, String, Option<Frontier>);

/// Prints a line for each sink, source and partition.
///
/// # Errors
/// When a table's log can't be read, or brokers that were named do not answer.
pub fn run(args: &StatusArgs, session: &Session) -> Result<(), Failure> {
    let path = Path::new(&args.table);
    let loaded = pipeline::load(path)?;
    let app_id = pipeline::app_id(path, &loaded);
    let (prefix, sinks) = (format!("{app_id}-"), pipeline::sinks(&loaded, &app_id));
    let mut trails = Vec::new();
    for (_, place) in &sinks {
        trails.push(Trail::of(&common::follow(place, &prefix, session)?, &prefix));
    }
    let known = known(args, &loaded)?;
    let common = common::of_pipeline(&loaded.way, &trails);
    let lines: Vec<Vec<Line>> = trails.iter().map(|trail| lines(&trail.newest(), &known, &prefix)).collect();
    match args.output {
        Output::Table => print!("{}", text(&sinks, &lines) + &described(&loaded, &sinks, common.as_ref(), &prefix)),
        Output::Json => println!("{}", as_json(&args.table, &sinks, &lines, common.as_ref())),
    }
    Ok(())
}

/// The sources, with the ends of their topics where brokers are asked.
fn known(args: &StatusArgs, loaded: &Loaded) -> Result<Vec<Known>, Failure> {
    let mut known = Vec::new();
    for source in &loaded.pipeline.sources {
        let Origin::Kafka(kafka) = &source.from;
        let topic = kafka.topic.reveal().to_owned();
        let ends = match &args.kafka {
            None => None,
            Some(brokers) => {
                let mut config = check::config(kafka);
                config.brokers.clone_from(brokers);
                config.settings = secrets::kafka(&[config.settings, args.kafka_settings.clone()].concat());
                let asking = Source::assign(config, std::collections::BTreeSet::new());
                Some(asking.and_then(|source| source.ends()).map_err(|error| Failure::port(&error))?)
            }
        };
        known.push((source.name.text.clone(), topic, ends));
    }
    Ok(known)
}

/// Every partition that the sink or the topic knows, by source.
fn lines(stood: &Stood, known: &[Known], prefix: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    for (source, topic, ends) in known {
        let mut places: BTreeMap<u32, (Option<i64>, Option<i64>)> = BTreeMap::new();
        for (txn, next) in stood {
            let place = txn.strip_prefix(prefix).and_then(|rest| rest.rsplit_once('-'));
            if let Some((_, number)) = place.filter(|(name, _)| name == source)
                && let Ok(number) = number.parse()
            {
                places.entry(number).or_default().0 = Some(*next);
            }
        }
        for (PartitionId(number), end) in ends.iter().flatten() {
            places.entry(*number).or_default().1 = Some(end.get());
        }
        let line =
            |(partition, (next, end))| Line { source: source.clone(), topic: topic.clone(), partition, next, end };
        lines.extend(places.into_iter().map(line));
    }
    lines
}

impl Line {
    /// Offsets between the sink and the topic's end. A sink without an offset begins at the oldest record
    /// there is, which is not asked for.
    fn lag(&self) -> Option<i64> {
        Some((self.end? - self.next.unwrap_or(0)).max(0))
    }
}

fn described(loaded: &Loaded, sinks: &[(String, Place)], common: Option<&Common>, prefix: &str) -> String {
    common::described(&loaded.way, common, sinks.iter().map(|(sink, _)| sink.as_str()), prefix)
}

fn text(sinks: &[(String, Place)], lines: &[Vec<Line>]) -> String {
    let number = |number: Option<i64>, lacking: &str| number.map_or_else(|| lacking.to_owned(), grouped);
    let mut rows = Vec::new();
    for ((sink, _), lines) in sinks.iter().zip(lines) {
        for line in lines {
            rows.push(vec![
                sink.clone(),
                line.source.clone(),
                line.topic.clone(),
                line.partition.to_string(),
                number(line.next, "none"),
                number(line.end, "?"),
                number(line.lag(), "?"),
            ]);
        }
    }
    let mut out = table(&["sink", "source", "topic", "partition", "next offset", "end", "lag"], &rows);
    if rows.is_empty() {
        out = "no offset: nothing was committed yet\n".to_owned();
    }
    out
}

fn as_json(path: &str, sinks: &[(String, Place)], lines: &[Vec<Line>], common: Option<&Common>) -> Value {
    let each: Vec<Value> = sinks
        .iter()
        .zip(lines)
        .enumerate()
        .map(|(at, ((sink, place), lines))| {
            let partitions: Vec<Value> = lines
                .iter()
                .map(|line| {
                    json!({
                        "source": line.source, "topic": line.topic, "partition": line.partition,
                        "next_offset": line.next, "end": line.end, "lag": line.lag(),
                    })
                })
                .collect();
            let version = common.map(|common| common.versions[at]);
            let (table, topic) = match place {
                Place::Table(location) => (Some(location), None),
                Place::Topic(config) => (None, Some(&config.topic)),
            };
            json!({
                "sink": sink, "table": table, "topic": topic, "common_version": version, "partitions": partitions,
            })
        })
        .collect();
    json!({ "pipeline": path, "common_frontier": common.map(|common| &common.frontier), "sinks": each })
}

#[cfg(test)]
mod tests {
    use lakeward_protocol::position::Offset;

    use super::*;

    #[test]
    fn lines_go_by_source_and_partition() {
        let stood: Stood = [("p-bid-0", 5), ("p-bid-10", 7), ("p-a-uction-0", 2), ("p-0", 9)]
            .map(|(txn, to)| (txn.to_owned(), to))
            .into();
        let end = |raw| Offset::new(raw).unwrap();
        let ends = Frontier::from([(PartitionId(0), end(9)), (PartitionId(1), end(3))]);
        let known = [("bid".to_owned(), "bids".to_owned(), Some(ends)), ("a-uction".to_owned(), "as".to_owned(), None)];
        let found: Vec<_> = lines(&stood, &known, "p-")
            .iter()
            .map(|line| (line.source.clone(), line.partition, line.next, line.end, line.lag()))
            .collect();
        #[rustfmt::skip] // columns: source, partition, next, end, lag
        let expected = [
            ("bid".to_owned(),      0,  Some(5), Some(9), Some(4)),
            ("bid".to_owned(),      1,  None,    Some(3), Some(3)),
            ("bid".to_owned(),      10, Some(7), None,    None),
            ("a-uction".to_owned(), 0,  Some(2), None,    None),
        ];
        assert_eq!(found, expected);
    }
}
