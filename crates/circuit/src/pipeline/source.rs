//! `CREATE SOURCE name (columns) WITH (options)`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::columns::{self, Columns};
use super::cursor::Cursor;
use super::error::Problem;
use super::options::{Environment, Options};
use super::{Changes, Format, KafkaSource, Name, OnFault, Origin, Source, Start, written};

const KNOWN: [&str; 16] = [
    "kafka",
    "topic",
    "format",
    "registry",
    "schema",
    "message",
    "compression",
    "debezium",
    "start",
    "on_gap",
    "trim",
    "on_bad_record",
    "changes",
    "changes_insert",
    "changes_update",
    "changes_delete",
];

pub(super) const FORMATS: &[(&str, Format)] = &[("json", Format::Json)];
const CHANGES: [&str; 4] = ["changes", "changes_insert", "changes_update", "changes_delete"];
const STARTS: &[(&str, Start)] = &[("earliest", Start::Earliest), ("latest", Start::Latest)];
const FAULTS: &[(&str, OnFault)] = &[("stop", OnFault::Stop), ("skip", OnFault::Skip)];

/// Reads what follows `CREATE SOURCE`.
pub(super) fn read(cursor: &mut Cursor, environment: Environment) -> Result<Source, Problem> {
    let name = cursor.name("the source's name")?;
    if cursor.peek() != Token::LParen {
        return Err(cursor.expected("the source's columns, (name TYPE, ..),"));
    }
    let columns = columns::read(cursor)?;
    let mut options = Options::read(cursor, format!("source `{}`", name.text), environment)?;
    cursor.finish()?;
    options.only(&KNOWN, true)?;
    let written = written::written(&mut options, &name)?;
    let changes = match written.debezium {
        true => Some(written::debezium(&written, &columns, CHANGES.iter().find_map(|name| options.place_of(name)))?),
        false => changes(&mut options, &columns)?,
    };
    let on_gap = options.one_of("on_gap", FAULTS)?;
    let on_bad_record = options.one_of("on_bad_record", FAULTS)?;
    Ok(Source {
        name,
        columns: columns.columns,
        key: columns.key,
        lateness: columns.lateness,
        from: Origin::Kafka(kafka(&mut options)?),
        written,
        changes,
        on_gap: on_gap.map_or(OnFault::Stop, |(policy, _)| policy),
        trim: options.flag("trim")?,
        on_bad_record: on_bad_record.map_or(OnFault::Skip, |(policy, _)| policy),
    })
}

fn kafka(options: &mut Options) -> Result<KafkaSource, Problem> {
    Ok(KafkaSource {
        brokers: options.required("kafka", "localhost:9092")?.value,
        topic: options.required("topic", "name-of-the-topic")?.value,
        start: options.one_of("start", STARTS)?.map_or(Start::Earliest, |(start, _)| start),
        settings: options.kafka_settings()?,
    })
}

fn changes(options: &mut Options, columns: &Columns) -> Result<Option<Changes>, Problem> {
    let [_, names @ ..] = CHANGES;
    let Some(field) = options.plain_text(CHANGES[0])? else {
        return match names.iter().find_map(|name| options.place_of(name).map(|place| (name, place))) {
            None => Ok(None),
            Some((name, place)) => {
                let message = format!("`{name}` needs changes = 'field', the field that says what a message does");
                Err(Problem::new(place, message))
            }
        };
    };
    let name = field.value.reveal();
    if columns.columns.iter().any(|column| column.name.text == name) {
        let message =
            format!("leave `{}` out of the columns: it says what happens to a row, and is none of it", field.value);
        return Err(Problem::new(field.value_place, message));
    }
    let update_place = options.place_of("changes_update");
    if let (true, Some(place)) = (columns.key.is_empty(), update_place) {
        return Err(Problem::new(place, "updates need a PRIMARY KEY, to say which row they replace"));
    }
    let place = field.value_place;
    let field = name.to_owned();
    let insert = words(options, names[0], "insert")?;
    let update = if columns.key.is_empty() { Vec::new() } else { words(options, names[1], "update")? };
    let delete = words(options, names[2], "delete")?;
    let mut all: Vec<&str> = insert.iter().chain(&update).chain(&delete).map(String::as_str).collect();
    all.sort_unstable();
    if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Problem::new(place, format!("the value `{}` of changes means two things", pair[0])));
    }
    Ok(Some(Changes { field, insert, update, delete }))
}

fn words(options: &mut Options, name: &str, usual: &str) -> Result<Vec<String>, Problem> {
    let given: Vec<Name> = options.list(name)?;
    if given.is_empty() {
        return Ok(vec![usual.to_owned()]);
    }
    Ok(given.into_iter().map(|word| word.text).collect())
}
