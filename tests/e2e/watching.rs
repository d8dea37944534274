//! Watching a job: statsd, Prometheus and its page, JSON logs, and what lag tools see.

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use lakeward_testkit::{Broker, Message};
use serde_json::Value;

use crate::ingest::{Ingest, run};
use crate::table::Table;
use crate::{DEADLINE, ids, repository, topic};

/// What a statsd server would have been sent.
#[derive(Default)]
struct Received {
    datagrams: usize,
    counters: BTreeMap<String, i64>,
    gauges: BTreeMap<String, i64>,
    timers: BTreeMap<String, usize>,
}

impl Received {
    /// Takes in what comes until `done`.
    fn until(&mut self, socket: &UdpSocket, what: &str, done: impl Fn(&Self) -> bool) {
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out");
        let start = Instant::now();
        let mut buffer = [0; 65_536];
        while !done(self) {
            assert!(start.elapsed() < DEADLINE, "waited in vain for {what}: {:?} {:?}", self.counters, self.gauges);
            if let Ok(length) = socket.recv(&mut buffer) {
                self.datagrams += 1;
                String::from_utf8_lossy(&buffer[..length]).lines().for_each(|line| self.line(line));
            }
        }
    }

    fn line(&mut self, line: &str) {
        let (name, rest) = line.split_once(':').expect("NAME:VALUE|KIND");
        let (value, kind) = rest.split_once('|').expect("VALUE|KIND");
        let value: i64 = value.parse().expect("a number");
        match kind {
            "c" => *self.counters.entry(name.to_owned()).or_default() += value,
            "g" => _ = self.gauges.insert(name.to_owned(), value),
            "ms" => *self.timers.entry(name.to_owned()).or_default() += 1,
            other => panic!("kind {other}"),
        }
    }

    fn counter(&self, name: &str) -> i64 {
        self.counters.get(&format!("kafka_delta_ingest.{name}")).copied().unwrap_or(0)
    }
}

#[test]
fn statsd_hears_the_peers_metrics_in_few_datagrams() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let endpoint = socket.local_addr().expect("an address").to_string();
    let (topic, table) = (topic(2), Table::t());
    let bad = ["no JSON", r#"{"id":"x"}"#].map(|value| Message::new(value).to(0));
    topic.produce(ids(0..20_000, 2).into_iter().chain(bad));
    topic.produce([Message::new(r#"{"id":1,"date":5}"#).to(1)]);
    let options = ["-s", &endpoint, "-m", "5000", "-b", "134217728", "-t", "name: substr(date, `0`, `4`)"];
    let running = Ingest::new(&topic, &table).with(&options).start();
    let mut received = Received::default();
    received.until(&socket, "all messages", |received| {
        received.counter("delta.write.completed") >= 1
            && received.counter("messages.deserialization.completed")
                + received.counter("messages.deserialization.failed")
                >= 20_003
    });
    running.stop();
    received.until(&socket, "the last gauges", |received| {
        received.gauges.contains_key("kafka_delta_ingest.delta.write.lag.total")
    });
    assert_eq!(received.counter("messages.deserialization.failed"), 2);
    assert_eq!(received.counter("messages.transform.failed"), 1);
    assert_eq!(received.counter("messages.transform.completed"), 20_000);
    assert_eq!(received.counter("recordbatch.started"), received.counter("recordbatch.completed"));
    assert_eq!(received.counter("delta.write.started"), received.counter("delta.write.completed"));
    for gauge in ["messages.size", "delta.add.size", "buffered.record_batches", "buffer.lag.num_partitions"] {
        assert!(received.gauges.contains_key(&format!("kafka_delta_ingest.{gauge}")), "{gauge}: {:?}", received.gauges);
    }
    for timer in ["recordbatch.write_duration", "delta.write.duration"] {
        assert!(received.timers.contains_key(&format!("kafka_delta_ingest.{timer}")), "{timer}: {:?}", received.timers);
    }
    // The peer sends about five a message.
    assert!(received.datagrams < 500, "{} datagrams", received.datagrams);
}

#[test]
fn statsd_takes_the_peers_variables_and_may_be_nowhere() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let endpoint = socket.local_addr().expect("an address").to_string();
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..3, 1));
    let ingest = Ingest::new(&topic, &table);
    ingest.clone().env("STATSD_ENDPOINT", &endpoint).env("KDI_METRICS_PREFIX", "mine").run_to_end();
    let mut received = Received::default();
    received.until(&socket, "a commit", |received| received.counters.get("mine.delta.write.completed") == Some(&1));
    for endpoint in ["", "no.such.host.invalid:8125", "127.0.0.1:1"] {
        ingest.clone().with(&["-s", endpoint]).run_to_end();
    }
    let ended = ingest.env("KDI_METRICS_INPUT_QUEUE_SIZE", "many").with(&["-e"]).run();
    assert!(ended.code == Some(2) && ended.log.contains("KDI_METRICS_INPUT_QUEUE_SIZE"), "{}", ended.log);
}

/// Everything `/metrics` shows is explained, there and on the page, and so is everything that statsd is sent; and nothing
/// is explained that is not there.
#[test]
fn every_metric_is_documented_and_every_documented_one_is_there() {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).expect("a file");
    let (meters, page) = (read("crates/app/src/meters.rs"), read("docs/metrics.md"));
    let quoted = |text: &str, starts: &str| -> BTreeSet<String> {
        let words = text.split(['"', '`']).filter(|word| word.starts_with(starts));
        let plain = |word: &&str| word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
        words.filter(plain).map(str::to_owned).collect()
    };
    let (described, emitted) = meters.split_once("\n}\n").expect("`describe` comes first");
    assert!(described.contains("describe_counter!") && !emitted.contains("describe_"), "in one function");
    assert_eq!(quoted(emitted, "lakeward_"), quoted(&page, "lakeward_"), "emitted, documentation");
    assert_eq!(quoted(emitted, "lakeward_"), quoted(described, "lakeward_"), "emitted, described at /metrics");
    for group in ["messages.", "recordbatch.", "delta.", "buffer.", "buffered."] {
        assert_eq!(quoted(&meters, group), quoted(&page, group), "code, documentation");
    }
    let row = page.lines().find(|line| line.contains("lakeward_retries_total")).expect("its row");
    let told: BTreeSet<&str> = row.split('`').skip(1).step_by(2).skip(2).collect();
    let ports = read("crates/protocol/src/drive/watch.rs");
    let ports = ports.split("for Port {").nth(1).and_then(|text| text.split("\n}\n").next()).expect("their names");
    assert_eq!(ports.split('"').skip(1).step_by(2).collect::<BTreeSet<_>>(), told, "ports, documentation");
}

/// What is told of is named in one file, which the test above reads.
#[test]
fn nothing_is_measured_beside_the_meters() {
    fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for path in std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
            match path.is_dir() {
                true => sources(&path, found),
                false => found.extend(path.extension().is_some_and(|ending| ending == "rs").then_some(path)),
            }
        }
    }
    let mut files = Vec::new();
    sources(&repository().join("crates"), &mut files);
    assert!(files.len() > 200, "{}", files.len());
    files.retain(|path| !path.ends_with("app/src/meters.rs"));
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a file");
        for call in ["counter!(", "gauge!(", "histogram!(", "statsd::count(", "statsd::gauge(", "statsd::timing("] {
            assert!(!text.contains(call), "{}: {call}", path.display());
        }
    }
}

#[test]
fn logs_are_json_where_asked_and_a_commit_is_one_line() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    let ended = Ingest::new(&topic, &table).with(&["-m", "5000", "--log-format", "json"]).run_to_end();
    let lines: Vec<Value> = ended
        .log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let says = |line: &&Value, word: &str| line["message"].as_str().is_some_and(|text| text.contains(word));
    let commits: Vec<_> = lines.iter().filter(|line| says(line, "committed 0:0..10")).collect();
    assert_eq!(commits.len(), 1, "{}", ended.log);
    assert_eq!((&commits[0]["level"], &commits[0]["messages"]), (&"INFO".into(), &10.into()), "{}", commits[0]);
    // What ends it is JSON as well, also where nothing is to be logged.
    let mut command = crate::ingest::lakeward(&["verify", "/no/such/table", "--log-format", "json"]);
    command.env("RUST_LOG", "off");
    let ended = crate::ingest::Running::spawn(command, crate::ingest::free_port()).wait();
    let line: Value = serde_json::from_str(ended.log.trim()).unwrap_or_else(|_| panic!("no JSON: {}", ended.log));
    assert_eq!(line["exit_code"].as_i64(), ended.code.map(i64::from), "{line}");
}

/// Kafka's own tool, which operators and lag exporters go by.
#[test]
fn p44_kafkas_own_tool_reads_the_lag() {
    let broker = Broker::own(1);
    let (topic, table) = (broker.topic("lag", 2), Table::t());
    topic.produce(ids(0..100, 2));
    let ingest = Ingest::new(&topic, &table).with(&["-k", broker.bootstrap()]);
    ingest.run_to_end();
    topic.produce(ids(100..107, 1));
    let group = ingest.option("-g").to_owned();
    let class = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
    let shown = broker.tool(class, &["--bootstrap-server", broker.bootstrap(), "--describe", "--group", &group]);
    let lags: BTreeMap<&str, (&str, &str, &str)> = shown
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|cells| cells.get(1) == Some(&topic.name()))
        .map(|cells| (cells[2], (cells[3], cells[4], cells[5])))
        .collect();
    assert_eq!(lags, [("0", ("50", "57", "7")), ("1", ("50", "50", "0"))].into(), "{shown}");
}

#[test]
fn the_admin_port_has_a_page_for_people() {
    let (topic, table) = (topic(1), Table::t());
    topic.produce(ids(0..10, 1));
    let running = Ingest::new(&topic, &table).start();
    table.wait_txn("app-0", 9);
    running.wait_ready();
    let page = crate::wait_for("the page to show the commit", || match running.get("/") {
        Ok((200, page)) if page.contains("<td>10</td>") => Ok(page),
        other => Err(format!("{other:?}")),
    });

    for word in ["<!doctype html>", topic.name(), "/metrics", "/healthz", "/readyz"] {
        assert!(page.contains(word), "no {word} in {page}");
    }
    let (_, status) = running.get("/api/status").expect("an answer");
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["partitions"][0]["committed"], 10, "{status}");
    assert_eq!(status["topic"], topic.name(), "{status}");
    running.stop();
}

/// `check ingest` says what would be done, and does none of it.
#[test]
fn check_ingest_tells_and_writes_nothing() {
    let (topic, table) = (topic(2), Table::t());
    let place = table.path.display().to_string();
    let (brokers, group) = (Broker::shared().bootstrap(), Broker::shared().group());
    let check = |options: &[&str]| {
        run(&[&["check", "ingest", topic.name(), &place, "-k", brokers, "-a", "app", "-g", &group], options].concat())
    };
    topic.produce(ids(0..20, 2));
    Ingest::new(&topic, &table).with(&["-m", "5000"]).run_to_end();
    let odd = [r#"{"id":1,"colour":"red"}"#, "no JSON"].map(|value| Message::new(value).to(0));
    topic.produce(odd);
    let before = table.commits();
    let said = |ended: &crate::ingest::Ended, words: &[&str]| {
        for word in words {
            assert!(ended.log.contains(word), "no '{word}' in {}", ended.log);
        }
    };
    let ended = check(&["--workers", "3", "-t", "nowhere: id"]);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    said(&ended, &["2 partitions", "0..12", "the table", "2 messages", "1 row", "1 bad", "colour (1)", "not_json"]);
    said(&ended, &["--workers 3", "'nowhere' names no column", "nothing was written"]);
    assert_eq!(check(&["--on-bad-record=stop"]).code, Some(65));

    // What would stop it, stops the check with the same words and the same exit code.
    topic.delete_records(0, 12);
    topic.delete_records(1, 10);
    let ended = check(&[]);
    assert_eq!(ended.code, Some(65), "{}", ended.log);
    said(&ended, &["would stop", "10 to 11 were deleted", "--on-gap=skip"]);
    assert_eq!(check(&["--on-gap=skip"]).code, Some(0));
    let ended = check(&["--seek_offsets", r#"{"0":15}"#]);
    assert_eq!(ended.code, Some(78), "{}", ended.log);
    assert_eq!(check(&["--no-such-option"]).code, Some(2));

    let absent = Table::absent().path.display().to_string();
    let create = ["check", "ingest", topic.name(), &absent, "-k", brokers, "--create", "--start", "latest"];
    topic.produce(ids(20..22, 2));
    let ended = run(&create);
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    said(&ended, &["would be made, with schema", "\"id\""]);
    assert_eq!(run(&create[..create.len() - 3]).code, Some(69), "no table, and nobody asked for one");

    assert_eq!(table.commits(), before, "something was written");
    assert_eq!(topic.committed(&group, 0), None, "the group was joined");
    let help = run(&["check", "--help"]);
    said(&help, &["ingest", "pipeline"]);
}
