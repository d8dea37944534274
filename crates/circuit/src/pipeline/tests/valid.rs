//! Files that are right.

use arrow_schema::DataType;

use super::super::{
    Changes, Compression, Encoding, KafkaSource, Lateness, Mode, OnFault, Origin, Pipeline, Place, Settings, Start,
    Target,
};
use super::{SINK, SOURCE, good, parse};

const NEXMARK: &str = "\
-- The auctions.
SET app_id = 'auctions'; SET checkpoint_interval_ms = 30000;
CREATE SOURCE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT, date_time TIMESTAMP, extra TEXT)
  WITH (kafka = 'localhost:9092', topic = 'bid', format = 'json');
/* Counted
   by auction; and so on. */
CREATE VIEW hot AS SELECT auction, COUNT(*) AS bids, MAX(price) AS best
  FROM bid GROUP BY auction;
CREATE SINK hot_table FROM hot WITH (delta = './hot', mode = 'upsert', key = 'auction');
CREATE SINK hot_topic FROM hot WITH (kafka = 'localhost:9092', topic = 'hot', mode = 'changelog', kafka.acks = 'all');
";

#[test]
fn a_whole_file() {
    let pipeline = good(NEXMARK);
    assert_eq!(pipeline.settings.app_id.as_ref().map(|id| id.reveal()), Some("auctions"));
    assert_eq!(pipeline.settings.checkpoint_interval_ms, 30_000);
    let [source] = pipeline.sources.as_slice() else { panic!("one source") };
    assert_eq!((source.name.text.as_str(), source.columns.len()), ("bid", 7));
    let written = &source.written;
    assert_eq!((&written.encoding, written.compression, written.debezium), (&Encoding::Json, None, false));
    assert_eq!((source.on_gap, source.trim, source.on_bad_record), (OnFault::Stop, false, OnFault::Skip));
    let Origin::Kafka(kafka) = &source.from;
    assert_eq!((kafka.brokers.reveal(), kafka.topic.reveal(), kafka.start), ("localhost:9092", "bid", Start::Earliest));
    assert_eq!(source.schema().field(5).data_type().to_string(), "Timestamp(µs)");
    let [view] = pipeline.views.as_slice() else { panic!("one view") };
    assert_eq!(view.text, "SELECT auction, COUNT(*) AS bids, MAX(price) AS best\n  FROM bid GROUP BY auction");
    assert_eq!(view.place, Place { line: 7, column: 20, width: 6 });
    assert_eq!(view.reads.iter().map(|read| (read.text.as_str(), read.place.line)).collect::<Vec<_>>(), [("bid", 8)]);
    let [table, topic] = pipeline.sinks.as_slice() else { panic!("two sinks") };
    let Target::Delta(delta) = &table.target else { panic!("a table") };
    assert_eq!((delta.location.reveal(), delta.mode), ("./hot", Some(Mode::Upsert)));
    assert_eq!(delta.key.iter().map(|name| name.text.as_str()).collect::<Vec<_>>(), ["auction"]);
    let Target::Kafka(kafka) = &topic.target else { panic!("a topic") };
    assert_eq!((kafka.topic.reveal(), kafka.mode, kafka.key.len()), ("hot", Some(Mode::Changelog), 0));
    assert_eq!((kafka.settings[0].name.as_str(), kafka.settings[0].value.reveal()), ("acks", "all"));
}

#[test]
fn faults_found_later_are_shown_alike() {
    let error = good(NEXMARK).error(Place { line: 8, column: 8, width: 3 }, "there is no bid");
    let expected = "8:8: there is no bid\n  |\n8 |   FROM bid GROUP BY auction;\n  |        ^^^";
    assert_eq!(error.to_string(), expected);
}

fn of_source(columns: &str, options: &str) -> super::super::Source {
    let text = format!("CREATE SOURCE t ({columns}) WITH (kafka = 'h:1', topic = 't', {options});{SINK}");
    good(&text).sources.remove(0)
}

#[test]
fn keys_are_positions_and_not_null() {
    #[rustfmt::skip] // columns: the list, the key, which columns may be NULL
    let cases: [(&str, &[usize], [bool; 2]); 6] = [
        ("a BIGINT, b TEXT",                                            &[],     [true, true]),
        ("a BIGINT NOT NULL, b TEXT NULL",                              &[],     [false, true]),
        ("a BIGINT PRIMARY KEY, b TEXT",                                &[0],    [false, true]),
        ("a BIGINT, b TEXT, PRIMARY KEY (b, a)",                        &[1, 0], [false, false]),
        ("a BIGINT, b TEXT, PRIMARY KEY (B) NOT ENFORCED",              &[1],    [true, false]),
        ("a BIGINT, b TEXT NOT NULL, CONSTRAINT pk PRIMARY KEY (a),",   &[0],    [false, false]),
    ];
    for (columns, key, nullable) in cases {
        let source = of_source(columns, "");
        assert_eq!(source.key, key, "{columns}");
        assert_eq!([source.columns[0].nullable, source.columns[1].nullable], nullable, "{columns}");
    }
}

#[test]
fn names_are_lower_case_unless_quoted() {
    let source =
        of_source(r#"Auction BIGINT, "dateTime" TIMESTAMP, primary TEXT, "a b" INT, key INT, unique TEXT"#, "");
    let names: Vec<&str> = source.columns.iter().map(|column| column.name.text.as_str()).collect();
    assert_eq!(names, ["auction", "dateTime", "primary", "a b", "key", "unique"]);
}

#[test]
fn watermarks() {
    #[rustfmt::skip] // columns: the expression, microseconds
    let cases = [
        ("ts",                           0),
        ("ts - INTERVAL '5 seconds'",    5_000_000),
        ("ts - INTERVAL '5' SECOND",     5_000_000),
        ("ts - INTERVAL '1 minute'",     60_000_000),
        ("TS - INTERVAL '250 millisecond'", 250_000),
        ("ts - INTERVAL '2' DAY",        172_800_000_000),
    ];
    for (expression, lateness_us) in cases {
        let source = of_source(&format!("a INT, ts TIMESTAMP, WATERMARK FOR ts AS {expression}"), "");
        let place = Place { line: 1, column: 39, width: 9 };
        assert_eq!(source.lateness, Some(Lateness { column: 1, lateness_us, place }), "{expression}");
    }
    assert_eq!(of_source("watermark INT, b INT", "").lateness, None);
}

#[test]
fn changes() {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let of = |columns: &str, options: &str| of_source(columns, options).changes;
    assert_eq!(of("a INT", ""), None);
    let expected = Changes {
        field: "op".to_owned(),
        insert: words(&["insert"]),
        update: words(&["update"]),
        delete: words(&["delete"]),
    };
    assert_eq!(of("a INT PRIMARY KEY", "changes = 'op'"), Some(expected.clone()));
    assert_eq!(of("a INT", "changes = 'op'"), Some(Changes { update: Vec::new(), ..expected.clone() }));
    let options = "changes = '__op', changes_insert = 'c, r', changes_update = 'u', changes_delete = 'd'";
    let insert = words(&["c", "r"]);
    let expected = Changes { field: "__op".to_owned(), insert, update: words(&["u"]), delete: words(&["d"]) };
    assert_eq!(of("a INT PRIMARY KEY", options), Some(expected));
}

#[test]
fn what_messages_are_written_in() {
    let of = |options: &str| {
        let written = of_source("a INT PRIMARY KEY", options).written;
        let text = |text: &super::super::Text| text.reveal().to_owned();
        let encoding = match &written.encoding {
            Encoding::Json => "json".to_owned(),
            Encoding::Registered(language, at) => format!("{language:?} at {}", text(at)),
            Encoding::AvroContainers => "containers".to_owned(),
            Encoding::AvroFile(file) => format!("avro of {}", text(file)),
            Encoding::ProtobufFile { file, message } => format!("{} of {}", text(message), text(file)),
            Encoding::Raw => "raw".to_owned(),
        };
        (encoding, written.compression, written.debezium)
    };
    #[rustfmt::skip] // columns: options, what they come to
    let cases = [
        ("",                                                    ("json",              None,                    false)),
        ("format = 'json', compression = 'zstd'",               ("json",              Some(Compression::Zstd), false)),
        ("registry = 'http://r'",                               ("Json at http://r",  None,                    false)),
        ("format = 'avro', registry = 'http://r, http://s'",    ("Avro at http://r, http://s", None,           false)),
        ("format = 'avro'",                                     ("containers",        None,                    false)),
        ("format = 'avro', schema = 'a.avsc', compression = 'gzip'", ("avro of a.avsc", Some(Compression::Gzip), false)),
        ("format = 'protobuf', registry = 'http://r'",          ("Protobuf at http://r", None,                 false)),
        ("format = 'protobuf', schema = 'a.desc', message = 'p.M'", ("p.M of a.desc", None,                    false)),
        ("format = 'raw'",                                      ("raw",               None,                    false)),
        ("debezium = true",                                     ("json",              None,                    true)),
    ];
    for (options, (encoding, compression, debezium)) in cases {
        assert_eq!(of(options), (encoding.to_owned(), compression, debezium), "{options}");
    }
    let changes = of_source("a INT PRIMARY KEY", "debezium = true").changes.expect("what events do");
    assert_eq!(
        (changes.field.as_str(), changes.insert, changes.update, changes.delete),
        ("__op", vec!["c".to_owned(), "r".to_owned()], vec!["u".to_owned()], vec!["d".to_owned()])
    );
}

#[test]
fn options_in_all_spellings() {
    let options = "START = 'Latest', 'on_gap' = 'skip', on_bad_record = 'stop', FORMAT = 'JSON', trim = TRUE, \
                   kafka.security.protocol = 'sasl_ssl', 'kafka.sasl.password' = '${PASSWORD}', \
                   \"kafka.fetch.max.bytes\" = 1000,";
    let source = of_source("a INT", options);
    assert_eq!((source.on_gap, source.trim, source.on_bad_record), (OnFault::Skip, true, OnFault::Stop));
    assert!(!of_source("a INT", "trim = 'false',").trim);
    let Origin::Kafka(KafkaSource { start, settings, .. }) = source.from;
    assert_eq!(start, Start::Latest);
    let settings: Vec<_> = settings.iter().map(|setting| (setting.name.as_str(), setting.value.reveal())).collect();
    let expected = [("security.protocol", "sasl_ssl"), ("sasl.password", "hunter2"), ("fetch.max.bytes", "1000")];
    assert_eq!(settings, expected);
}

fn of_file(before: &str) -> Pipeline {
    good(&format!("{before}{SOURCE}{SINK}"))
}

#[test]
fn settings() {
    assert_eq!(of_file("").settings, Settings::default());
    let settings = of_file(
        "SET app_id = 'x'; set State TO 's3://bucket/state'; SET checkpoint_interval_ms = '500'; SET step_latency_ms = 10;
         SET step_max_messages = 99; SET workers = ${W}; SET state_cache = 'hot';"
            .replace("${W}", "'${WORKERS}'")
            .as_str(),
    )
    .settings;
    assert_eq!(settings.app_id.as_ref().map(|id| id.reveal()), Some("x"));
    assert_eq!(settings.state.as_ref().map(|state| state.reveal()), Some("s3://bucket/state"));
    assert_eq!(settings.state_cache.as_ref().map(|cache| cache.reveal()), Some("hot"));
    assert_eq!((settings.checkpoint_interval_ms, settings.step_latency_ms), (500, 10));
    assert_eq!((settings.step_max_messages, settings.workers, settings.memory_mb), (99, 7, None));
}

#[test]
fn dead_letters_are_the_last_sink() {
    let pipeline = of_file("SET dead_letters = './dead';");
    assert!(pipeline.settings.has_dead_letters);
    let [own, letters] = pipeline.sinks.as_slice() else { panic!("{:?}", pipeline.sinks) };
    assert_eq!((own.name.text.as_str(), letters.name.text.as_str()), ("s", "dead_letters"));
    let Target::Delta(delta) = &letters.target else { panic!("{letters:?}") };
    assert_eq!((delta.location.reveal(), delta.mode), ("./dead", Some(Mode::Upsert)));
    assert_eq!(pipeline.sinks_of_views().len(), 1);
    assert_eq!(of_file("").sinks_of_views().len(), 1);
    // The name is free where the table is not asked for.
    let view = "CREATE VIEW dead_letters AS SELECT a FROM t; CREATE SINK s FROM dead_letters WITH (delta = 's');";
    good(&format!("{SOURCE}{view}"));
}

#[test]
fn the_environment_is_never_shown() {
    let text = format!(
        "SET state = '${{BROKERS}}/state';\n\
         CREATE SOURCE t (a BIGINT) WITH (kafka = '${{BROKERS}}', topic = 'pre-${{NONE:-t}}', \
         kafka.sasl.username = 'me', kafka.sasl.password = 'typed-in', kafka.ssl.key.password = '${{PASSWORD}}');{SINK}"
    );
    let pipeline = good(&text);
    let Origin::Kafka(kafka) = &pipeline.sources[0].from;
    assert_eq!(kafka.brokers.reveal(), "secret-host:9092");
    assert_eq!((kafka.topic.reveal(), kafka.topic.is_secret()), ("pre-t", false));
    assert_eq!(kafka.settings[1].value.reveal(), "typed-in");
    assert_eq!(kafka.settings[2].value.reveal(), "hunter2");
    let values = format!("{:?} {:?} {}", pipeline.settings, kafka, kafka.brokers);
    for secret in ["secret-host", "hunter2", "typed-in"] {
        assert!(!values.contains(secret), "{secret} is in {values}");
    }
    assert!(values.contains("secret \"${BROKERS}\"") && values.ends_with(" ${BROKERS}"), "{values}");
    assert!(!format!("{pipeline:?}").contains("hunter2") && !format!("{pipeline:?}").contains("secret-host"));
}

#[test]
fn dollars() {
    #[rustfmt::skip] // columns: as written, the value
    let cases = [
        ("plain $ $x {y}",          "plain $ $x {y}"),
        ("${PASSWORD}!",            "hunter2!"),
        ("${PASSWORD}${PASSWORD}",  "hunter2hunter2"),
        ("$${PASSWORD}",            "${PASSWORD}"),
        ("$$${PASSWORD}",           "$${PASSWORD}"),
        ("${NONE:-}x",              "x"),
        ("${EMPTY:-full}",          "full"),
        ("a${EMPTY}b",              "ab"),
        ("${NONE:-a:-b}",           "a:-b"),
    ];
    for (written, value) in cases {
        let pipeline = of_file(&format!("SET app_id = '{written}';"));
        assert_eq!(pipeline.settings.app_id.map(|id| id.reveal().to_owned()).as_deref(), Some(value), "{written}");
    }
}

#[test]
fn sinks_modes() {
    #[rustfmt::skip] // columns: options, mode, columns of the key
    let cases = [
        ("delta = 'x'",                                                 None,                  0),
        ("delta = 'x', key = 'a'",                                      Some(Mode::Upsert),    1),
        ("delta = 'x', mode = 'upsert'",                                Some(Mode::Upsert),    0),
        ("delta = 'x', mode = 'append', partition_by = 'b'",            Some(Mode::Append),    0),
        ("kafka = 'h:1', topic = 'x'",                                  None,                  0),
        ("kafka = 'h:1', topic = 'x', key = 'a, b'",                    None,                  2),
        ("kafka = 'h:1', topic = 'x', key = 'a', mode = 'UPSERT'",      Some(Mode::Upsert),    1),
        ("kafka = 'h:1', topic = 'x', key = 'a', mode = 'append'",      Some(Mode::Append),    1),
        ("kafka = 'h:1', topic = 'x', key = 'a', mode = 'changelog'",   Some(Mode::Changelog), 1),
    ];
    for (options, mode, keys) in cases {
        let sink = good(&format!("{SOURCE}CREATE SINK s FROM t WITH ({options})")).sinks.remove(0);
        let found = match sink.target {
            Target::Delta(delta) => (delta.mode, delta.key.len()),
            Target::Kafka(kafka) => (kafka.mode, kafka.key.len()),
        };
        assert_eq!(found, (mode, keys), "{options}");
    }
}

#[test]
fn what_a_query_reads() {
    #[rustfmt::skip] // columns: query, tables
    let cases: [(&str, &[&str]); 16] = [
        ("SELECT * FROM t",                                                               &["t"]),
        ("(SELECT a FROM T UNION ALL SELECT a FROM u) ORDER BY a",                        &["t", "u"]),
        ("SELECT 1 AS one",                                                               &[]),
        ("SELECT * FROM t x JOIN u y ON x.a = y.a, t z",                                  &["t", "u"]),
        ("SELECT * FROM t WHERE a IN (SELECT a FROM u)",                                  &["t", "u"]),
        ("SELECT (SELECT max(a) FROM u) m FROM t",                                        &["u", "t"]),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c",                                   &["t"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t",                                   &["t"]),
        ("WITH c AS (SELECT * FROM t), d AS (SELECT * FROM c JOIN u ON TRUE) SELECT * FROM d", &["t", "u"]),
        ("WITH u AS (SELECT * FROM t) SELECT * FROM t WHERE a IN (SELECT a FROM u)",      &["t"]),
        ("SELECT * FROM (WITH u AS (SELECT * FROM t) SELECT * FROM u) x, u",              &["t", "u"]),
        ("WITH c AS (WITH u AS (SELECT * FROM t) SELECT * FROM u) SELECT * FROM c, u",    &["t", "u"]),
        ("WITH u AS (SELECT * FROM u), v AS (SELECT * FROM u) SELECT * FROM v",           &["u"]),
        ("WITH RECURSIVE r AS (SELECT a FROM t UNION SELECT r.a + 1 FROM r) SELECT * FROM r", &["t"]),
        ("SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.a = t.a) x",                  &["t", "u"]),
        ("SELECT v FROM t CROSS JOIN UNNEST([1, 2]) AS x(v), generate_series(1, 3) g",    &["t"]),
    ];
    let before = format!("{SOURCE}CREATE SOURCE u (a BIGINT) WITH (kafka = 'h:1', topic = 'u');");
    for (query, tables) in cases {
        let pipeline =
            good(&format!("{before} CREATE MATERIALIZED VIEW v AS {query} ; CREATE SINK s FROM v WITH (delta = 'd')"));
        let view = &pipeline.views[0];
        assert_eq!(view.reads.iter().map(|read| read.text.as_str()).collect::<Vec<_>>(), tables, "{query}");
        assert_eq!(view.text, query);
    }
}

/// A window's end must not be found by counting bytes.
#[test]
fn texts_beyond_ascii() {
    let text = format!(
        "/* größer\r\n ✓ */ {SOURCE}\r\n/* ö */ CREATE VIEW v AS SELECT 'ä;ö' AS \"ü\", b\r\n, 'ß' AS s FROM t -- ende é\r\n;{SINK}"
    );
    let view = good(&text).views.remove(0);
    assert_eq!(view.text, "SELECT 'ä;ö' AS \"ü\", b\r\n, 'ß' AS s FROM t");
    assert_eq!((view.place.line, view.place.column), (4, 26));
    assert_eq!(good(&text).sources[0].columns[0].data_type, DataType::Int64);
    assert_eq!(good(&format!("\u{feff}{text}")), good(&text));
}

/// The user's page: its example is right, and its fault looks so.
#[test]
fn the_page_is_right() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sql.md"));
    let mut blocks = page.split("```").skip(1).step_by(2);
    let example = blocks.next().and_then(|block| block.strip_prefix("sql\n")).expect("an example");
    let pipeline = good(example);
    assert_eq!((pipeline.sources.len(), pipeline.views.len(), pipeline.sinks.len()), (1, 1, 1));
    let error = parse(&example.replace("topic =", "topics =")).expect_err("a fault");
    assert_eq!(blocks.next().map(str::trim), Some(format!("pipeline.sql:{error}").as_str()));
}
