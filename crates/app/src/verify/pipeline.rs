//! `lakeward verify PIPELINE`: each table of a pipeline, and what binds them together.

use std::path::Path;

use lakeward_circuit::pipeline::Origin;
use lakeward_protocol::ports::Exit;
use serde_json::{Value, json};

use super::chain::{Chains, Kind};
use super::common::{self, Common, Stood, Trail};
use crate::check;
use crate::cli::{Output, VerifyArgs};
use crate::failure::Failure;
use crate::pipeline::{self, Loaded, Place, Way};
use crate::report::{grouped, table};
use crate::secrets;
use crate::session::Session;

/// One table or topic of the pipeline.
struct Sink {
    name: String,
    place: String,
    is_topic: bool,
    chains: Chains,
}

/// Prints what is proved of each table, and where all of them stand.
///
/// # Errors
/// Exit 65 when a promise is broken; others when a log or a topic can't be read.
pub fn run(args: &VerifyArgs, session: &Session) -> Result<(), Failure> {
    let path = Path::new(&args.table);
    let loaded = pipeline::load(path)?;
    let app_id = pipeline::app_id(path, &loaded);
    let (prefix, places) = (format!("{app_id}-"), pipeline::sinks(&loaded, &app_id));
    let (_, journal) = places.first().expect("a pipeline has a sink");
    // For the common frontier the first sink is read first, for P7 last: others only go on meanwhile.
    let mut trails = vec![Trail::of(&common::follow(journal, &prefix, session)?, &prefix)];
    let mut sinks = Vec::new();
    for (name, place) in places.iter().rev() {
        let chains = common::follow(place, &prefix, session)?;
        let (text, is_topic) = match place {
            Place::Table(location) => (location.clone(), false),
            Place::Topic(config) => (format!("topic {}", config.topic), true),
        };
        sinks.insert(0, Sink { name: name.clone(), place: text, is_topic, chains });
    }
    trails.extend(sinks[1..].iter().map(|sink| Trail::of(&sink.chains, &prefix)));
    let sources: Vec<&str> = loaded.pipeline.sources.iter().map(|source| source.name.text.as_str()).collect();
    for sink in &mut sinks {
        find_strangers(&mut sink.chains, &prefix, &sources);
    }
    // By partition each sink has a record of its own.
    let journals = match loaded.way {
        Way::ByStep(_) => 1,
        Way::ByPartition(_) => sinks.len(),
    };
    if journals == 1 {
        find_who_is_ahead(&mut sinks, &prefix);
    }
    if let Some(brokers) = &args.kafka {
        // A topic keeps no spans of what it took in.
        for sink in sinks.iter_mut().filter(|sink| !sink.is_topic).take(journals) {
            compare(&mut sink.chains, brokers, args, &loaded)?;
        }
    }
    let common = common::of_pipeline(&loaded.way, &trails);
    match args.output {
        Output::Table => print!("{}", text(&loaded.way, &sinks, common.as_ref(), &prefix)),
        Output::Json => println!("{}", as_json(&args.table, &sinks, common.as_ref())),
    }
    if sinks.iter().all(|sink| sink.chains.is_sound()) {
        return Ok(());
    }
    Err(Failure::new(Exit::Data, format_args!("pipeline {}: a promise is broken; see above", args.table)))
}

/// Offsets of this application that no source of the pipeline accounts for.
fn find_strangers(chains: &mut Chains, prefix: &str, sources: &[&str]) {
    let is_known = |txn: &str| {
        let place = txn.strip_prefix(prefix).and_then(|rest| rest.rsplit_once('-'));
        place.is_some_and(|(source, _)| sources.contains(&source))
    };
    let strangers: Vec<String> =
        chains.chains.keys().filter(|txn| txn.starts_with(prefix) && !is_known(txn)).cloned().collect();
    for txn in strangers {
        let text = format!(
            "no source of the pipeline accounts for it (its sources are {}); `run` refuses this table",
            sources.join(", ")
        );
        chains.find(chains.version, Some(&txn), Kind::Fault, text, 0, 0);
    }
}

/// P7: no sink may be ahead of the first, whose commits are the record of the steps.
fn find_who_is_ahead(sinks: &mut [Sink], prefix: &str) {
    let Some((first, others)) = sinks.split_first_mut() else { return };
    for sink in others {
        let ahead: Vec<(String, i64, Option<i64>)> = sink
            .chains
            .chains
            .iter()
            .filter(|(txn, _)| txn.starts_with(prefix))
            .map(|(txn, chain)| (txn.clone(), chain.to, first.chains.chains.get(txn).map(|chain| chain.to)))
            .filter(|(_, to, journal)| Some(*to) > *journal)
            .collect();
        for (txn, to, journal) in ahead {
            let journal = journal.map_or_else(|| "nowhere".to_owned(), |to| format!("at {to}"));
            let text = format!("P7: it is at {to}, and the first sink {} is {journal}", first.name);
            sink.chains.find(sink.chains.version, Some(&txn), Kind::Fault, text, 0, 0);
        }
    }
}

/// A sink's spans against the topics.
fn compare(chains: &mut Chains, brokers: &str, args: &VerifyArgs, loaded: &Loaded) -> Result<(), Failure> {
    for source in &loaded.pipeline.sources {
        let Origin::Kafka(kafka) = &source.from;
        let mut config = check::config(kafka);
        config.brokers = brokers.to_owned();
        config.settings = secrets::kafka(&[config.settings, args.kafka_settings.clone()].concat());
        super::topic::compare_source(chains, Some(&source.name.text), kafka.topic.reveal(), &config)?;
    }
    Ok(())
}

fn text(way: &Way, sinks: &[Sink], common: Option<&Common>, prefix: &str) -> String {
    let mut out = String::new();
    for sink in sinks {
        let said = if sink.is_topic { of_topic(sink) } else { super::text(&sink.place, &sink.chains, &[]) };
        out += &format!("sink {}: {said}", sink.name);
        out.push('\n');
    }
    out + &common::described(way, common, sinks.iter().map(|sink| sink.name.as_str()), prefix)
}

/// A topic says where it stands, and nothing of how it came there.
fn of_topic(sink: &Sink) -> String {
    let rows = sink.chains.chains.iter().map(|(txn, chain)| vec![txn.clone(), grouped(chain.to)]);
    let mut out = format!("{} at version {}\n", sink.place, sink.chains.version);
    out += &table(&["txn", "next offset"], &rows.collect::<Vec<_>>());
    out += &super::findings(&sink.chains);
    if sink.chains.is_sound() {
        out += "proved: no offset beyond the first sink's. ";
    }
    out + "Not proved here: that each change is in the topic once, since it keeps no log of its transactions; a reader with \
           isolation.level = read_committed sees them\n"
}

fn as_json(path: &str, sinks: &[Sink], common: Option<&Common>) -> Value {
    let each: Vec<Value> = sinks
        .iter()
        .enumerate()
        .map(|(at, sink)| {
            let mut one = super::json(&sink.place, &sink.chains, &[]);
            one["topic"] = json!(sink.is_topic);
            one["sink"] = json!(sink.name);
            one["common_version"] = json!(common.map(|common| common.versions[at]));
            one
        })
        .collect();
    let frontier: Option<&Stood> = common.map(|common| &common.frontier);
    let sound = sinks.iter().all(|sink| sink.chains.is_sound());
    json!({ "pipeline": path, "sound": sound, "common_frontier": frontier, "sinks": each })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::chain::Chain;

    fn sink(name: &str, chains: &[(&str, i64)]) -> Sink {
        let chain = |&(txn, to): &(&str, i64)| (txn.to_owned(), Chain { to, ..Chain::default() });
        let chains = Chains { chains: chains.iter().map(chain).collect(), ..Chains::default() };
        Sink { name: name.to_owned(), place: String::new(), is_topic: false, chains }
    }

    #[test]
    fn a_topic_that_is_ahead_is_not_said_to_be_proved() {
        for (offset, is_proved) in [(5, true), (6, false)] {
            let topic = Sink { is_topic: true, ..sink("topic", &[("app-s-0", offset)]) };
            let mut sinks = [sink("table", &[("app-s-0", 5)]), topic];
            find_who_is_ahead(&mut sinks, "app-");
            let text = super::of_topic(&sinks[1]);
            assert_eq!((text.contains("\nproved: "), text.contains("\nFAULT: ")), (is_proved, !is_proved), "{text}");
        }
    }

    #[test]
    fn who_is_ahead_of_the_first_sink() {
        #[rustfmt::skip] // columns: name, the second sink's offsets, what is found
        let cases: [(&str, &[(&str, i64)], &[&str]); 5] = [
            ("level",             &[("p-bid-0", 5)],                   &[]),
            ("behind",            &[("p-bid-0", 3)],                   &[]),
            ("ahead",             &[("p-bid-0", 6)],                   &["P7: it is at 6, and the first sink first is at 5"]),
            ("alone",             &[("p-bid-0", 5), ("p-bid-1", 1)],   &["P7: it is at 1, and the first sink first is nowhere"]),
            ("another app's",     &[("q-bid-0", 9)],                   &[]),
        ];
        for (name, offsets, expected) in cases {
            let mut sinks = [sink("first", &[("p-bid-0", 5)]), sink("second", offsets)];
            find_who_is_ahead(&mut sinks, "p-");
            let found: Vec<_> = sinks[1].chains.findings.iter().map(|finding| finding.text.as_str()).collect();
            assert_eq!(found, expected, "{name}");
            assert_eq!(sinks[1].chains.is_sound(), expected.is_empty(), "{name}");
        }
    }

    #[test]
    fn offsets_that_no_source_accounts_for() {
        let mut one = sink("one", &[("p-bid-0", 5), ("p-old-0", 2), ("p-0", 2), ("q-0", 1)]);
        find_strangers(&mut one.chains, "p-", &["bid", "auction"]);
        let found: Vec<_> = one.chains.findings.iter().filter_map(|finding| finding.txn.as_deref()).collect();
        assert_eq!(found, ["p-0", "p-old-0"]);
    }
}
