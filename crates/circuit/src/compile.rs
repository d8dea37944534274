//! A pipeline to its plan, with what each sink is to do.

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef, TimeUnit};

use crate::dead_letters;
use crate::logical::Queries;
use crate::pipeline::{Changes as Op, Mode, Name, Pipeline, Place, Sink, SqlError, Target, nearest};
use crate::plan::{Changes, Plan, Planner, Relation};
use crate::refused::Refused;

/// A pipeline that can run.
#[derive(Debug)]
pub struct Compiled {
    /// Its operators; a view for each sink, in the order of the sinks, but none for dead letters.
    pub plan: Arc<Plan>,
    /// What each sink is to do, in the order of the file; dead letters are the last.
    pub sinks: Vec<SinkPlan>,
}

/// What a sink is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkPlan {
    /// Its name.
    pub name: String,
    /// Its columns: those of its view.
    pub schema: SchemaRef,
    /// How changes are written: as the file says, else append where the view only grows, else upsert (a topic without
    /// key: changelog).
    pub mode: Mode,
    /// Places of the columns that name a row; none: the whole row does.
    pub key: Vec<usize>,
    /// Places of the partition columns of a table that is made.
    pub partition_by: Vec<usize>,
}

/// Plans all views and sinks of a pipeline.
///
/// # Errors
/// The first fault, with its place in the file.
pub fn compile(pipeline: &Pipeline) -> Result<Compiled, SqlError> {
    let (mut queries, mut planner) = (Queries::default(), Planner::default());
    for source in &pipeline.sources {
        let schema = Arc::new(source.schema());
        let changes = match (&source.key, &source.changes) {
            (key, _) if !key.is_empty() => Changes::Keyed(key.clone()),
            (_, Some(Op { .. })) => Changes::Bag,
            (_, None) => Changes::Grows,
        };
        if let Some(late) = source.lateness {
            return Err(
                pipeline.error(late.place, "no operator heeds a WATERMARK yet; leave it out: late rows then count")
            );
        }
        let refused = |refused: Refused| pipeline.error(source.name.place, refused.to_string());
        queries.table(&source.name.text, schema.clone()).map_err(refused)?;
        planner.source(Relation { name: source.name.text.clone(), schema, changes });
    }
    for view in &pipeline.views {
        let refused = |refused: Refused| pipeline.error(refused.place.unwrap_or(view.place), refused.to_string());
        let plan = queries.plan(&view.query).map_err(refused)?;
        planner.view(&view.name.text, &plan).map_err(refused)?;
        queries.table(&view.name.text, Arc::new(plan.schema().as_arrow().clone())).map_err(refused)?;
    }
    let of_views = pipeline.sinks_of_views();
    let outputs: Vec<&str> = of_views.iter().map(|sink| sink.from.text.as_str()).collect();
    let plan = planner
        .finish_for(&outputs, kept_as)
        .map_err(|(at, refused)| pipeline.error(of_views[at].from.place, format!("view {}: {refused}", outputs[at])))?;
    let growing = plan.growing();
    let sinks = of_views.iter().zip(&plan.views).map(|(sink, view)| {
        let planned = sink_plan(pipeline, sink, &view.schema, growing[view.node.0])?;
        names_rows(pipeline, sink, &planned, |key| plan.names_rows(view.node, key))?;
        Ok(planned)
    });
    let mut sinks = sinks.collect::<Result<Vec<_>, SqlError>>()?;
    for sink in &pipeline.sinks[of_views.len()..] {
        sinks.push(sink_plan(pipeline, sink, &dead_letters::schema(), false)?);
    }
    Ok(Compiled { plan: Arc::new(plan), sinks })
}

/// The type that a table keeps values of a type as.
fn kept_as(kind: &DataType) -> Result<DataType, String> {
    let cast = |to: &str| Err(format!("a table has no type for {kind}; cast it, as in CAST(x AS {to})"));
    match kind {
        DataType::UInt8 => Ok(DataType::Int16),
        DataType::UInt16 => Ok(DataType::Int32),
        DataType::UInt32 | DataType::UInt64 => Ok(DataType::Int64),
        DataType::Float16 => Ok(DataType::Float32),
        DataType::Utf8View | DataType::LargeUtf8 => Ok(DataType::Utf8),
        DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => Ok(DataType::Binary),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            Ok(DataType::Decimal128(*precision, *scale))
        }
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            Ok(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => cast("TIMESTAMP"),
        DataType::Timestamp(_, Some(_)) => Ok(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        DataType::Date64 => cast("DATE"),
        DataType::Null | DataType::Interval(_) | DataType::Duration(_) | DataType::Time32(_) | DataType::Time64(_) => {
            cast("TEXT")
        }
        DataType::Decimal256(..) => cast("DECIMAL(38, 9)"),
        DataType::Dictionary(_, values) => kept_as(values),
        other => Ok(other.clone()),
    }
}

fn sink_plan(pipeline: &Pipeline, sink: &Sink, schema: &SchemaRef, grows: bool) -> Result<SinkPlan, SqlError> {
    let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let (asked, key, partition_by, place, keyless) = match &sink.target {
        Target::Delta(delta) => (delta.mode, &delta.key, delta.partition_by.as_slice(), delta.place, Mode::Upsert),
        Target::Kafka(kafka) => (kafka.mode, &kafka.key, [].as_slice(), kafka.place, Mode::Changelog),
    };
    let places =
        |names: &[Name]| names.iter().map(|name| column(pipeline, sink, name, &columns)).collect::<Result<Vec<_>, _>>();
    let (key, partition_by) = (places(key)?, places(partition_by)?);
    let changing = if key.is_empty() { keyless } else { Mode::Upsert };
    let mode = asked.unwrap_or(if grows && key.is_empty() { Mode::Append } else { changing });
    if mode == Mode::Append && !grows {
        let view = &sink.from.text;
        return Err(pipeline.error(place, format!(
            "sink {} appends, and rows of {view} change or go; write mode = 'upsert', so that the sink is the view, or 'changelog'",
            sink.name.text
        )));
    }
    unique(pipeline, sink, &columns, place)?;
    Ok(SinkPlan { name: sink.name.text.clone(), schema: schema.clone(), mode, key, partition_by })
}

/// A topic by key can't tell that a second row has a key: the later one would hide the other, and go with it.
fn names_rows(
    pipeline: &Pipeline,
    sink: &Sink,
    planned: &SinkPlan,
    is_known: impl Fn(&[usize]) -> bool,
) -> Result<(), SqlError> {
    let Target::Kafka(kafka) = &sink.target else { return Ok(()) };
    if planned.mode != Mode::Upsert || is_known(&planned.key) {
        return Ok(());
    }
    let key: Vec<&str> = planned.key.iter().map(|at| planned.schema.field(*at).name().as_str()).collect();
    Err(pipeline.error(kafka.place, format!(
        "nothing shows that ({}) names one row of {}, and of two rows of a key the topic would keep the later one alone; take a key with all columns of a GROUP BY, a DISTINCT or the PRIMARY KEYs it is made of, or write mode = 'changelog'",
        key.join(", "),
        sink.from.text
    )))
}

/// A table has no two columns of one name, whatever their case.
fn unique(pipeline: &Pipeline, sink: &Sink, columns: &[&str], place: Place) -> Result<(), SqlError> {
    for (at, name) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(pipeline.error(
                place,
                format!(
                    "two columns of {} have the name {name}, and a sink's columns need names of their own; write AS",
                    sink.from.text
                ),
            ));
        }
    }
    Ok(())
}

fn column(pipeline: &Pipeline, sink: &Sink, name: &Name, columns: &[&str]) -> Result<usize, SqlError> {
    columns.iter().position(|column| *column == name.text).ok_or_else(|| {
        let near = nearest(&name.text, columns.iter().copied());
        let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        pipeline.error(name.place, format!("{} has no column {}{hint}", sink.from.text, name.text))
    })
}

#[cfg(test)]
mod tests {
    use super::{Pipeline, compile};

    #[test]
    fn a_topics_key_must_name_its_rows() {
        let text = |query: &str, key: &str| {
            format!(
                "CREATE SOURCE b (id BIGINT PRIMARY KEY, a BIGINT, p BIGINT) WITH (kafka = 'h:1', topic = 'b');
                 CREATE SOURCE l (a BIGINT, p BIGINT) WITH (kafka = 'h:1', topic = 'l');
                 CREATE VIEW v AS {query};
                 CREATE SINK s FROM v WITH (kafka = 'h:1', topic = 't', mode = 'upsert', key = '{key}');"
            )
        };
        let first = "SELECT a, p FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY p) AS n FROM l) WHERE n";
        #[rustfmt::skip] // columns: query, key, whether it is known to name a row
        let cases = [
            ("SELECT id, a FROM b WHERE p > 1".to_owned(),                          "id",    true),
            ("SELECT a, id AS i FROM b".to_owned(),                                 "i, a",  true),
            ("SELECT id, a FROM b".to_owned(),                                      "a",     false),
            ("SELECT id + 1 AS id FROM b".to_owned(),                               "id",    false),
            ("SELECT a, p FROM l".to_owned(),                                       "a, p",  false),
            ("SELECT DISTINCT a, p FROM l".to_owned(),                              "a, p",  true),
            ("SELECT DISTINCT a, p FROM l".to_owned(),                              "a",     false),
            ("SELECT a, COUNT(*) AS n FROM l GROUP BY a HAVING COUNT(*) > 1".to_owned(), "a", true),
            ("SELECT a, p, COUNT(*) AS n FROM l GROUP BY a, p".to_owned(),          "a",     false),
            ("SELECT COUNT(*) AS n FROM l GROUP BY a".to_owned(),                   "n",     false),
            ("SELECT COUNT(*) AS n FROM l".to_owned(),                              "n",     true),
            ("SELECT a FROM l UNION ALL SELECT a FROM l".to_owned(),                "a",     false),
            ("SELECT a FROM l UNION SELECT id FROM b".to_owned(),                   "a",     true),
            ("SELECT x.id, y.id AS j FROM b x JOIN b y ON x.a = y.a".to_owned(),    "id, j", true),
            ("SELECT x.id, y.id AS j FROM b x JOIN b y ON x.a = y.a".to_owned(),    "id",    false),
            ("SELECT x.id, y.p FROM b x JOIN b y ON x.a = y.id".to_owned(),         "id",    true),
            ("SELECT x.id, y.p FROM b x LEFT JOIN b y ON x.a = y.id".to_owned(),    "id",    true),
            ("SELECT x.id, y.id AS j FROM b x FULL JOIN b y ON x.a = y.a".to_owned(), "id, j", false),
            ("SELECT x.id, y.p FROM b x JOIN l y ON x.id = y.a".to_owned(),         "id",    false),
            ("SELECT id FROM b WHERE a IN (SELECT a FROM l)".to_owned(),            "id",    true),
            (format!("{first} <= 1"),                                               "a",     true),
            (format!("{first} <= 2"),                                               "a",     false),
        ];
        for (query, key, is_known) in cases {
            let compiled = compile(&Pipeline::parse(&text(&query, key), &|_| None).expect("a pipeline"));
            match compiled {
                Ok(_) => assert!(is_known, "{query} by {key}"),
                Err(error) => {
                    assert!(!is_known && error.to_string().contains("names one row of v"), "{query} by {key}: {error}");
                }
            }
        }
    }

    /// Better than to take in late rows that the file sets aside.
    #[test]
    fn a_watermark_is_refused() {
        let text = |watermark: &str| {
            format!(
                "CREATE SOURCE t (at TIMESTAMP{watermark}) WITH (kafka = 'h:1', topic = 't');
                 CREATE SINK s FROM t WITH (delta = 's');"
            )
        };
        let of = |watermark: &str| compile(&Pipeline::parse(&text(watermark), &|_| None).expect("a pipeline"));
        assert!(of("").is_ok());
        let place = of(", WATERMARK FOR at AS at - INTERVAL '1 second'").expect_err("refused").place;
        assert_eq!((place.line, place.column), (1, 32));
    }

    /// A slip is told where it stands, with the nearest name that there is.
    #[test]
    fn unknown_names_have_a_place_and_a_hint() {
        #[rustfmt::skip] // columns: query, column of the fault, message
        let cases = [
            ("SELECT prise FROM bid", 25, "there is no column prise; did you mean price?"),
            ("SELECT b.prise FROM bid AS b", 25, "there is no column b.prise; did you mean price?"),
            ("SELECT uper(channel) FROM bid", 25, "there is no function uper; did you mean upper?"),
            ("SELECT cuont(*) FROM bid", 25, "there is no function cuont; did you mean count?"),
            ("SELECT price FROM bid WHERE auctoin = 1", 46, "there is no column auctoin; did you mean auction?"),
            ("SELECT price FROM bid WHERE something_else = 1", 46, "there is no column something_else"),
        ];
        for (query, column, message) in cases {
            let text = format!(
                "CREATE SOURCE bid (auction BIGINT, price BIGINT, channel TEXT) WITH (kafka = 'h:1', topic = 't');
CREATE VIEW v AS {query};
CREATE SINK s FROM v WITH (delta = 's');"
            );
            let fault = compile(&Pipeline::parse(&text, &|_| None).expect("a pipeline")).expect_err(query);
            assert_eq!((fault.place.line, fault.place.column, fault.message.as_str()), (2, column, message), "{query}");
        }
    }
}
