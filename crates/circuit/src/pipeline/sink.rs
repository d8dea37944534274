//! `CREATE SINK name FROM view WITH (options)`.

use super::cursor::{Cursor, is_word};
use super::error::Problem;
use super::options::{Environment, Options};
use super::source::FORMATS;
use super::{DeltaSink, Format, KafkaSink, Mode, Sink, Target};

const MODES: &[(&str, Mode)] = &[("append", Mode::Append), ("upsert", Mode::Upsert), ("changelog", Mode::Changelog)];

const KNOWN: [&str; 7] = ["delta", "kafka", "mode", "key", "partition_by", "topic", "format"];
const DELTA: [&str; 4] = ["delta", "mode", "key", "partition_by"];
const KAFKA: [&str; 5] = ["kafka", "topic", "format", "mode", "key"];

/// Reads what follows `CREATE SINK`.
pub(super) fn read(cursor: &mut Cursor, environment: Environment) -> Result<Sink, Problem> {
    let name = cursor.name("the sink's name")?;
    if is_word(&cursor.peek(), "AS") {
        let message = format!("a sink writes a view: CREATE VIEW v AS ..; CREATE SINK {} FROM v WITH (..)", name.text);
        return Err(Problem::new(cursor.place(), message));
    }
    cursor.expect_word("FROM")?;
    let from = cursor.name("the name of a view")?;
    let mut options = Options::read(cursor, format!("sink `{}`", name.text), environment)?;
    cursor.finish()?;
    let target = match (options.place_of("delta"), options.place_of("kafka")) {
        (Some(_), Some(place)) => {
            return Err(Problem::new(place, "a sink writes to one place: `delta` or `kafka`; make a second sink"));
        }
        (Some(_), None) => {
            options.only(&DELTA, false)?;
            Target::Delta(delta(&mut options)?)
        }
        (None, Some(_)) => {
            options.only(&KAFKA, true)?;
            Target::Kafka(kafka(&mut options)?)
        }
        (None, None) => {
            options.only(&KNOWN, true)?;
            return Err(options.lacks("the place to write to; add delta = './folder' or kafka = 'host:port'"));
        }
    };
    Ok(Sink { name, from, target })
}

fn delta(options: &mut Options) -> Result<DeltaSink, Problem> {
    let location = options.required("delta", "./folder")?;
    let key_place = options.place_of("key");
    let key = options.list("key")?;
    let partition_by = options.list("partition_by")?;
    let mode = options.one_of("mode", MODES)?.map(|(mode, _)| mode);
    if let (Some(Mode::Append | Mode::Changelog), Some(place)) = (mode, key_place) {
        return Err(Problem::new(place, "`key` is of use with mode = 'upsert' alone; leave it out"));
    }
    let mode = mode.or(key_place.map(|_| Mode::Upsert));
    Ok(DeltaSink { location: location.value, place: location.value_place, mode, key, partition_by })
}

fn kafka(options: &mut Options) -> Result<KafkaSink, Problem> {
    let brokers = options.required("kafka", "localhost:9092")?.value;
    let topic = options.required("topic", "name-of-the-topic")?;
    let format = options.one_of("format", FORMATS)?.map_or(Format::Json, |(format, _)| format);
    let key = options.list("key")?;
    let mode = options.one_of("mode", MODES)?;
    if let (Some((Mode::Upsert, place)), true) = (mode, key.is_empty()) {
        let message = "a topic with mode = 'upsert' needs key = 'column', the key of its messages";
        return Err(Problem::new(place, message));
    }
    let mode = mode.map(|(mode, _)| mode);
    let settings = options.kafka_settings()?;
    Ok(KafkaSink { brokers, topic: topic.value, place: topic.value_place, format, mode, key, settings })
}
