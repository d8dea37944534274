//! Faulty files, with the place and the message of each.

use super::{SINK, SOURCE, fault, parse};

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(fault(text), *expected, "{text}");
    }
}

/// Options of a source that has all it needs.
fn of_source(options: &str) -> String {
    fault(&format!("CREATE SOURCE t (a BIGINT, d DOUBLE)\nWITH ({options}, kafka = 'h:1', topic = 't');{SINK}"))
}

#[test]
fn options_of_a_source() {
    #[rustfmt::skip] // columns: options, fault
    let cases = [
        ("formt = 'json'",              "2:7: source `t` has no option `formt`; did you mean `format`?"),
        ("connector = 'kafka'",         "2:7: leave `connector` out: the option `kafka` says it already"),
        ("bootstrap_servers = 'h:1'",   "2:7: source `t` has no option `bootstrap_servers`; did you mean `kafka`?"),
        ("properties.bootstrap.server = 'h:1'", "2:7: source `t` has no option `properties.bootstrap.server`; did you mean `kafka`?"),
        ("'scan.startup.mode' = 'x'",   "2:7: source `t` has no option `scan.startup.mode`; did you mean `start`?"),
        ("delta = 'x'",                 "2:7: source `t` has no option `delta`; known are kafka, topic, format, registry, schema, message, compression, debezium, start, on_gap, trim, on_bad_record, changes, changes_insert, changes_update, changes_delete"),
        ("format = 'csv'",              "2:16: `format` can't be `csv`; it is 'json' or 'avro' or 'protobuf' or 'raw'"),
        ("format = 'protobuf'",         "2:54: source `t` lacks `registry` or `schema`; add registry = 'http://host:port', or a schema file and `message` in WITH (..)"),
        ("format = 'protobuf', schema = 'a'", "2:68: source `t` lacks `message`; add message = 'package.Name', the type in that file in WITH (..)"),
        ("format = 'raw', registry = 'http://r'", "2:23: raw messages have no schema; leave `registry` out"),
        ("format = 'avro', registry = 'http://r', schema = 'a'", "2:47: the registry has the schemas; leave `schema` or `registry` out"),
        ("schema = 'a'",                "2:7: a schema file is for format = 'avro' or 'protobuf'; leave `schema` out"),
        ("format = 'avro', message = 'M'", "2:24: `message` is the type of format = 'protobuf' with a `schema` file; leave it out"),
        ("format = 'avro', registry = 'http://r', compression = 'gzip'", "2:61: messages by a registry are not compressed as a whole; leave `compression` out"),
        ("format = 'raw', debezium = true", "2:23: Debezium's events are read in json and avro alone"),
        ("format = 'json', debezium = true", "2:7: debezium = true needs a PRIMARY KEY: snapshots tell rows again, and updates replace them"),
        ("debezium = true, changes = 'op'", "2:24: debezium = true says what messages do; leave this option out"),
        ("schema_registry = 'http://r'", "2:7: source `t` has no option `schema_registry`; did you mean `registry`?"),
        ("start = 'now'",               "2:15: `start` can't be `now`; it is 'earliest' or 'latest'"),
        ("start = '${BAD}'",            "2:15: `start` can't be `${BAD}`; it is 'earliest' or 'latest'"),
        ("start = '${EMPTY}'",          "2:15: `start` is empty; the environment gave nothing"),
        ("start = ''",                  "2:15: `start` is empty; leave the option out, or give it a value"),
        ("on_gap = 1",                  "2:16: `on_gap` can't be `1`; it is a text in quotes, as in on_gap = '1'"),
        ("trim = 'yes'",                "2:14: `trim` can't be `yes`; it is true or false"),
        ("trim = 1",                    "2:14: `trim` can't be `1`; it is true or false"),
        ("format = json",               "2:16: values are written in single quotes: format = 'json'"),
        ("format = \"json\"",           "2:16: values are written in single quotes: format = 'json'"),
        ("format 'json'",               "2:14: expected `=` here, found `'json'`"),
        ("format =",                    "2:15: expected a value: 'text' or a number here, found `,`"),
        ("= 'json'",                    "2:7: expected an option's name here, found `=`"),
        ("start = 'earliest' on_gap = 'stop'", "2:26: expected `,` or `)` after an option here, found `on_gap`"),
        ("topic = 'x'",                 "2:35: `topic` was given before, at 2:7"),
        ("start = '${NONE}'",           "2:15: the environment has no NONE; set it, or write `${NONE:-default}` to go on without"),
        ("start = '${NO NE}'",          "2:15: `NO NE` is no name of the environment: letters, digits and `_`, as in `${KAFKA_BROKERS}`"),
        ("start = '${}'",               "2:15: `` is no name of the environment: letters, digits and `_`, as in `${KAFKA_BROKERS}`"),
        ("start = 'x${NONE'",           "2:15: `${` has no `}`; write `$${` for the characters themselves"),
        ("kafka.bootstrap.servers = 'h'", "2:7: `kafka.bootstrap.servers` is set by kafka = 'host:port'"),
        ("'kafka.' = 'h'",              "2:7: `kafka.` needs the name of a librdkafka setting behind the dot"),
        ("kafka.acks = 1, kafka.ACKS = 2", "2:23: `kafka.acks` was given before, at 2:7"),
        ("changes = 'a'",               "2:17: leave `a` out of the columns: it says what happens to a row, and is none of it"),
        ("changes = 'op', changes_update = 'u'", "2:23: updates need a PRIMARY KEY, to say which row they replace"),
        ("changes = '${BAD}'",          "2:17: `changes` can't come from the environment; write it here"),
        ("changes_delete = 'd'",        "2:7: `changes_delete` needs changes = 'field', the field that says what a message does"),
        ("changes = 'op', changes_insert = 'c,d', changes_delete = 'd'", "2:17: the value `d` of changes means two things"),
        ("changes = 'op', changes_insert = 'c,,d'", "2:40: `changes_insert` can't be `c,,d`; it is names parted by commas, none empty and none twice, as in 'a, b'"),
    ];
    for (options, expected) in cases {
        assert_eq!(of_source(options), expected, "{options}");
    }
}

#[test]
fn sources() {
    #[rustfmt::skip] // columns: file, fault
    check(&[
        ("CREATE SOURCE t WITH (kafka = 'h:1')",           "1:17: expected the source's columns, (name TYPE, ..), here, found `WITH`"),
        ("CREATE SOURCE t ()",                             "1:17: a source has at least one column: (name TYPE, ..)"),
        ("CREATE SOURCE (a INT)",                          "1:15: expected the source's name here, found `(`"),
        ("CREATE SOURCE IF NOT EXISTS t (a INT)",          "1:15: leave IF NOT EXISTS out: the file is read as a whole"),
        ("CREATE SOURCE t (a INT)",                        "1:24: source `t` lacks `kafka`; add kafka = 'localhost:9092' in WITH (..)"),
        ("CREATE SOURCE t (a INT) WITH (kafka = 'h:1')",   "1:44: source `t` lacks `topic`; add topic = 'name-of-the-topic' in WITH (..)"),
        ("CREATE SOURCE t (\"\" INT)",                    "1:18: a name has at least one letter"),
        ("CREATE SOURCE t (a INT, a TEXT)",                "1:25: there are two columns `a`"),
        ("CREATE SOURCE t (a INT b TEXT)",                 "1:24: expected `,` or `)` after a column here, found `b`"),
        ("CREATE SOURCE t (a INT",                         "1:23: expected `,` or `)` after a column here, found the end of the statement"),
        ("CREATE SOURCE t (a)",                            "1:19: Expected: a data type name, found: )"),
        ("CREATE SOURCE t (a INT DEFAULT 1)",              "1:24: a source's column takes NOT NULL and PRIMARY KEY, not `DEFAULT 1`; write COALESCE(column, value) in a view"),
        ("CREATE SOURCE t (a INT UNIQUE)",                 "1:24: a source's column takes NOT NULL and PRIMARY KEY, not `UNIQUE`; write PRIMARY KEY where a later message replaces the row, or leave it out"),
        ("CREATE SOURCE t (a INT, UNIQUE (a))",            "1:25: a source takes PRIMARY KEY (a, b) and no other constraint"),
        ("CREATE SOURCE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", "1:43: there is a PRIMARY KEY already, at 1:24; write one PRIMARY KEY (a, b) for several"),
        ("CREATE SOURCE t (a INT, PRIMARY KEY (aa))",      "1:38: the source has no column `aa`; did you mean `a`?"),
        ("CREATE SOURCE t (a INT, PRIMARY KEY ('b'))",     "1:25: `'b'` is no column; a PRIMARY KEY names columns"),
        ("CREATE SOURCE t (a INT, PRIMARY KEY (a, a))",    "1:41: `a` is in the key already"),
        ("CREATE SOURCE t (a INT, PRIMARY KEY (a) ENFORCED)", "1:25: leave `ENFORCED` out: a later message replaces its key's row"),
        ("CREATE SOURCE t (a DOUBLE PRIMARY KEY)",         "1:18: `a` can't be in a PRIMARY KEY: a key is made of numbers without fraction, DECIMALs, texts, dates and the like"),
        ("CREATE SOURCE t (a INT, WATERMARK FOR a AS a)",  "1:39: `a` can't have a WATERMARK: it is no TIMESTAMP or TIMESTAMPTZ"),
        ("CREATE SOURCE t (a TIMESTAMP, WATERMARK FOR a AS b - INTERVAL '1 second')", "1:50: a WATERMARK is the column less a time: a - INTERVAL '5 seconds'"),
        ("CREATE SOURCE t (a TIMESTAMP, WATERMARK FOR a AS a - INTERVAL '1 month')", "1:50: a WATERMARK is the column less a time: a - INTERVAL '5 seconds'"),
        ("CREATE SOURCE t (a TIMESTAMP, WATERMARK FOR a AS a - INTERVAL '99999999999 days')", "1:50: a WATERMARK is the column less a time: a - INTERVAL '5 seconds'"),
        ("CREATE SOURCE t (a INT) WITH (kafka = 'h:1', topic = 't') FORMAT PLAIN ENCODE JSON", "1:59: the format is an option: WITH (.., format = 'json')"),
        ("CREATE SOURCE t (a INT) WITH (kafka = 'h:1', topic = 't')\nCREATE VIEW v AS SELECT 1", "2:1: a `;` is missing before CREATE"),
    ]);
}

#[test]
fn sinks_and_views() {
    #[rustfmt::skip] // columns: what follows a source, fault
    let cases = [
        ("CREATE SINK s AS SELECT 1",                          "2:15: a sink writes a view: CREATE VIEW v AS ..; CREATE SINK s FROM v WITH (..)"),
        ("CREATE SINK s FROM t",                               "2:21: sink `s` lacks the place to write to; add delta = './folder' or kafka = 'host:port' in WITH (..)"),
        ("CREATE SINK s FROM t WITH (connector = 'deltalake')", "2:28: leave `connector` out: the option `delta` or `kafka` says it already"),
        ("CREATE SINK s FROM t WITH (location = 'x')",         "2:28: sink `s` has no option `location`; did you mean `delta`?"),
        ("CREATE SINK s FROM t WITH (delta = 'x', kafka = 'h')", "2:41: a sink writes to one place: `delta` or `kafka`; make a second sink"),
        ("CREATE SINK s FROM t WITH (delta = 'x', topic = 'h')", "2:41: sink `s` has no option `topic`; known are delta, mode, key, partition_by"),
        ("CREATE SINK s FROM t WITH (delta = 'x', kafka.acks = 1)", "2:41: sink `s` has no option `kafka.acks`; known are delta, mode, key, partition_by"),
        ("CREATE SINK s FROM t WITH (delta = 'x', type = 'upsert')", "2:41: sink `s` has no option `type`; did you mean `mode`?"),
        ("CREATE SINK s FROM t WITH (delta = 'x', mode = 'merge')", "2:48: `mode` can't be `merge`; it is 'append' or 'upsert' or 'changelog'"),
        ("CREATE SINK s FROM t WITH (delta = 'x', mode = 'append', key = 'a')", "2:58: `key` is of use with mode = 'upsert' alone; leave it out"),
        ("CREATE SINK s FROM t WITH (delta = 'x', mode = 'changelog', key = 'a')", "2:61: `key` is of use with mode = 'upsert' alone; leave it out"),
        ("CREATE SINK s FROM t WITH (delta = 'x', key = '${BAD}')", "2:47: `key` can't come from the environment; write it here"),
        ("CREATE SINK s FROM t WITH (kafka = 'h:1')",          "2:41: sink `s` lacks `topic`; add topic = 'name-of-the-topic' in WITH (..)"),
        ("CREATE SINK s FROM t WITH (kafka = 'h:1', topic = 'x', mode = 'upsert')", "2:63: a topic with mode = 'upsert' needs key = 'column', the key of its messages"),
        ("CREATE VIEW v (a, b) AS SELECT 1",                   "2:15: a view's columns are named in its query: SELECT a AS b; leave the list out"),
        ("CREATE VIEW v WITH (x = 1) AS SELECT 1",             "2:20: a view takes no options; write them to its sink: CREATE SINK .. FROM the view WITH (..)"),
        ("CREATE VIEW v SELECT 1",                             "2:15: expected AS here, found `SELECT`"),
        ("CREATE VIEW v AS",                                   "2:17: Expected: SELECT, VALUES, or a subquery in the query body, found the end of the statement"),
        ("CREATE VIEW v AS SELECT a\n FROM t WHERE\n",         "3:14: Expected: an expression, found the end of the statement"),
        ("CREATE VIEW v AS SELECT a FROM t GROUP a",           "2:34: expected `;`, the end of the statement, here, found `GROUP`"),
        ("CREATE VIEW v AS SELECT a FROM t ORDER a",           "2:34: expected `;`, the end of the statement, here, found `ORDER`"),
        ("CREATE VIEW v AS SELECT CAST(a AS INT, b) FROM t",   "2:38: Expected: ), found: ,"),
        ("CREATE VIEW v AS SELECT a FROM t)",                  "2:33: expected `;`, the end of the statement, here, found `)`"),
        ("CREATE VIEW v AS SELECT 'a\n FROM t",                "2:25: Unterminated string literal"),
        ("CREATE VIEW v AS /* SELECT 1",                       "2:29: Unexpected EOF while in a multi-line comment"),
        ("CREATE VIEW v AS WITH c AS (INSERT INTO t VALUES (1)) SELECT 1", "2:18: a view is a query, not INSERT"),
    ];
    for (text, expected) in cases {
        assert_eq!(fault(&format!("{SOURCE}{text}")), expected, "{text}");
    }
}

#[test]
fn settings() {
    #[rustfmt::skip] // columns: file, fault
    check(&[
        ("SET workers = 0",                    "1:15: `workers` can't be `0`; it is a whole number from 1 to 256"),
        ("SET workers = '${PASSWORD}'",        "1:15: `workers` can't be `${PASSWORD}`; it is a whole number from 1 to 256"),
        ("SET checkpoint_interval_ms = '10s'", "1:30: `checkpoint_interval_ms` can't be `10s`; it is a whole number of milliseconds from 1 to 31536000000"),
        ("SET step_latency_ms = 1.5",          "1:23: `step_latency_ms` can't be `1.5`; it is a whole number of milliseconds from 1 to 31536000000"),
        ("SET memory_mb = 1",                  "1:17: `memory_mb` can't be `1`; it is a whole number of MiB from 64 to 67108864"),
        ("SET memory_mb = -1",                 "1:17: expected a value: 'text' or a number here, found `-`"),
        ("SET checkpoint_interval = 10",       "1:5: the pipeline has no option `checkpoint_interval`; did you mean `checkpoint_interval_ms`?"),
        ("SET workers 2",                      "1:13: expected `=` here, found `2`"),
        ("SET workers = 2 3",                  "1:17: expected `;`, the end of the statement, here, found `3`"),
        ("SET workers = 2;\nSET WORKERS = 3",  "2:5: `workers` was given before, at 1:5"),
        ("SET app_id = x",                     "1:14: values are written in single quotes: app_id = 'x'"),
        ("SET app_id = 5",                     "1:14: `app_id` can't be `5`; it is a text in quotes, as in app_id = '5'"),
    ]);
}

#[test]
fn other_statements() {
    #[rustfmt::skip] // columns: statement, how the message starts, what it tells to write
    let cases = [
        ("SELECT * FROM t",                  "1:1: SELECT is no statement",          "CREATE VIEW name AS SELECT"),
        ("WITH a AS (SELECT 1) SELECT 1",    "1:1: WITH is no statement",            "CREATE VIEW name AS SELECT"),
        ("(SELECT 1)",                       "1:1: expected CREATE or SET here",     "CREATE VIEW name AS SELECT"),
        ("INSERT INTO s SELECT * FROM t",    "1:1: INSERT is no statement",          "CREATE SINK .. FROM name"),
        ("CREATE TABLE t (a INT)",           "1:8: CREATE TABLE is no statement",    "CREATE SOURCE name (columns) WITH"),
        ("CREATE EXTERNAL TABLE t (a INT)",  "1:8: CREATE EXTERNAL is no statement", "CREATE SOURCE name (columns) WITH"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "1:8: CREATE OR is no statement",   "leave OR REPLACE out"),
        ("CREATE TEMP VIEW v AS SELECT 1",   "1:8: CREATE TEMP is no statement",     "CREATE VIEW name AS SELECT"),
        ("CREATE CONNECTION c TO KAFKA",     "1:8: CREATE CONNECTION is no",         "'${NAME}'"),
        ("CREATE SECRET c AS 'x'",           "1:8: CREATE SECRET is no",             "'${NAME}'"),
        ("CREATE INDEX i ON t (a)",          "1:8: CREATE INDEX is no",              "leave it out"),
        ("CREATE FUNCTION f()",              "1:8: CREATE FUNCTION is no",           "not supported"),
        ("CREATE SOURSE t (a INT)",          "1:8: expected SOURCE, VIEW or SINK",   "did you mean `SOURCE`?"),
        ("CREATE MATERIALIZED t",            "1:8: expected SOURCE, VIEW or SINK",   "did you mean `MATERIALIZED`?"),
        ("CREATE 1",                         "1:8: expected SOURCE, VIEW or SINK",   "found `1`"),
        ("CREATE",                           "1:7: expected SOURCE, VIEW or SINK",   "the end of the statement"),
        ("CRAETE VIEW v AS SELECT 1",        "1:1: expected CREATE or SET here",     "did you mean `CREATE`?"),
        ("DROP VIEW v",                      "1:1: DROP is no statement",            "change the statement that makes it"),
        ("UPDATE t SET a = 1",               "1:1: UPDATE is no statement",          "PRIMARY KEY"),
        ("EXPLAIN SELECT 1",                 "1:1: EXPLAIN is no statement",         "leave it out"),
        ("BEGIN",                            "1:1: BEGIN is no statement",           "each step is one transaction"),
    ];
    for (text, starts, tells) in cases {
        let found = fault(text);
        assert!(found.starts_with(starts) && found.contains(tells), "{text}\n{found}");
    }
}

#[test]
fn how_a_fault_is_shown() {
    #[rustfmt::skip] // columns: file, as shown
    let cases = [
        ("SET\tworkers = 0;",
         "1:15: `workers` can't be `0`; it is a whole number from 1 to 256\n  |\n1 | SET workers = 0;\n  |               ^"),
        ("\n\r\nSET workers = 'ä' ;  \r\n",
         "3:15: `workers` can't be `ä`; it is a whole number from 1 to 256\n  |\n3 | SET workers = 'ä' ;\n  |               ^^^"),
        ("CREATE SOURCE t (a\nINT",
         "2:4: expected `,` or `)` after a column here, found the end of the statement\n  |\n2 | INT\n  |    ^"),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text).expect_err("a fault").to_string(), expected, "{text}");
    }
    let long = format!("SET app_id = '{}'; SET workers = 0; SET state = '{}'", "x".repeat(500), "y".repeat(500));
    let shown = parse(&long).expect_err("a fault").to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() < 140), "{shown}");
    let caret = lines[3].chars().position(|letter| letter == '^').expect("a caret");
    assert_eq!(lines[2].chars().nth(caret), Some('0'), "{shown}");
}
