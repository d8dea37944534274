//! The peer's metrics by the peer's names, to statsd.
//!
//! Counts are added up, gauges keep their last value, and all goes out together once a second, a few lines a
//! datagram: a job costs a datagram or two a second however many messages it reads, and nothing where nobody listens.
//! Nothing here fails or waits: a metric that can't be sent is not sent.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use cadence::prelude::*;
use cadence::{BufferedUdpMetricSink, StatsdClient};

/// The peer's prefix of names, unless `KDI_METRICS_PREFIX` gives another.
const PREFIX: &str = "kafka_delta_ingest";
/// Timings kept for one second's datagrams, unless `KDI_METRICS_INPUT_QUEUE_SIZE` says how many.
const TIMINGS: usize = 100;
/// What fits a datagram on any usual network.
const DATAGRAM_BYTES: usize = 1_432;
/// How often the name of the host is looked up again.
const RESOLVE: Duration = Duration::from_secs(60);
/// How often all goes out.
const FLUSH: Duration = Duration::from_secs(1);
/// Gauges that do not change are sent this many times less often.
const REPEAT: u32 = 10;

/// How metrics are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `host:port`.
    pub endpoint: String,
    /// Before each name, with a dot.
    pub prefix: String,
    /// Timings kept for one second's datagrams; more are let go.
    pub timings: usize,
}

impl Options {
    /// What the option and the peer's variables say; `None` for an empty endpoint, which sends nothing.
    ///
    /// # Errors
    /// A queue size that is no number.
    pub fn new(endpoint: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let timings = match set("KDI_METRICS_INPUT_QUEUE_SIZE") {
            None => TIMINGS,
            Some(text) => {
                let size = text.parse().ok().filter(|size| *size > 0);
                size.ok_or_else(|| format!("KDI_METRICS_INPUT_QUEUE_SIZE is '{text}'; want a number above 0"))?
            }
        };
        let prefix = set("KDI_METRICS_PREFIX").unwrap_or_else(|| PREFIX.to_owned());
        let endpoint = endpoint.trim().to_owned();
        Ok((!endpoint.is_empty()).then_some(Self { endpoint, prefix, timings }))
    }
}

/// What waits for the next second.
#[derive(Debug, Default)]
struct Waiting {
    counts: BTreeMap<&'static str, i64>,
    timings: Vec<(&'static str, u64)>,
    gauges: BTreeMap<&'static str, u64>,
    /// Gauges that were set since they were sent last.
    changed: bool,
    /// Flushes since then.
    rounds: u32,
}

struct Statsd {
    client: StatsdClient,
    most_timings: usize,
    waiting: Mutex<Waiting>,
}

static STATSD: OnceLock<Statsd> = OnceLock::new();

/// Sends from now on, for as long as the process lives. An endpoint that is not to be found is told once; the job does
/// not hang on it.
pub fn start(options: &Options, runtime: &tokio::runtime::Handle) {
    let client = match client(options) {
        Ok(client) => client,
        Err(error) => {
            return tracing::warn!("no metrics go to statsd at {}: {error}", options.endpoint);
        }
    };
    STATSD.get_or_init(|| Statsd { client, most_timings: options.timings, waiting: Mutex::default() });
    runtime.spawn(async {
        let mut ticks = tokio::time::interval(FLUSH);
        loop {
            ticks.tick().await;
            flush();
        }
    });
}

/// Adds to a counter.
pub fn count(name: &'static str, by: u64) {
    with(|waiting, _| *waiting.counts.entry(name).or_default() += i64::try_from(by).unwrap_or(i64::MAX));
}

/// Sets a gauge.
pub fn gauge(name: &'static str, value: u64) {
    with(|waiting, _| waiting.changed |= waiting.gauges.insert(name, value) != Some(value));
}

/// Notes how long something took.
pub fn timing(name: &'static str, took: Duration) {
    with(|waiting, most| {
        if waiting.timings.len() < most {
            waiting.timings.push((name, u64::try_from(took.as_millis()).unwrap_or(u64::MAX)));
        }
    });
}

/// Sends what waits. Also called when the process ends, so that its last commit is told.
pub fn flush() {
    let Some(statsd) = STATSD.get() else { return };
    with(|waiting, _| {
        for (name, count) in std::mem::take(&mut waiting.counts) {
            // Errors: there is nobody to tell.
            let _ = statsd.client.count(name, count);
        }
        for (name, ms) in waiting.timings.drain(..) {
            let _ = statsd.client.time(name, ms);
        }
        waiting.rounds += 1;
        if waiting.changed || waiting.rounds >= REPEAT {
            for (name, value) in &waiting.gauges {
                let _ = statsd.client.gauge(name, *value);
            }
            (waiting.changed, waiting.rounds) = (false, 0);
        }
    });
    let _ = statsd.client.flush();
}

fn with(change: impl FnOnce(&mut Waiting, usize)) {
    if let Some(statsd) = STATSD.get() {
        change(&mut statsd.waiting.lock().expect("no holder of this lock panics"), statsd.most_timings);
    }
}

fn client(options: &Options) -> Result<StatsdClient, String> {
    let endpoint = Endpoint(options.endpoint.clone());
    let address = endpoint.to_socket_addrs().map_err(|error| error.to_string())?.next();
    let local = match address.ok_or("the name has no address")? {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(local).map_err(|error| error.to_string())?;
    socket.set_nonblocking(true).map_err(|error| error.to_string())?;
    let sink = BufferedUdpMetricSink::builder().with_capacity(DATAGRAM_BYTES).with_resolver_period(RESOLVE);
    let sink = sink.build(endpoint, socket).map_err(|error| error.to_string())?;
    Ok(StatsdClient::from_sink(&options.prefix, sink))
}

/// A host and port whose IPv4 addresses come first: that is where statsd mostly listens, also as localhost.
#[derive(Debug)]
struct Endpoint(String);

impl ToSocketAddrs for Endpoint {
    type Iter = std::vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> std::io::Result<Self::Iter> {
        let mut addresses: Vec<_> = self.0.to_socket_addrs()?.collect();
        addresses.sort_by_key(SocketAddr::is_ipv6);
        Ok(addresses.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_the_peers() {
        let none = |_: &str| None;
        let told = |name: &str| match name {
            "KDI_METRICS_PREFIX" => Some("mine".to_owned()),
            _ => Some("7".to_owned()),
        };
        let of =
            |prefix: &str, timings| Some(Options { endpoint: "h:1".to_owned(), prefix: prefix.to_owned(), timings });
        assert_eq!(Options::new("h:1", none), Ok(of("kafka_delta_ingest", 100)));
        assert_eq!(Options::new(" h:1", told), Ok(of("mine", 7)));
        assert_eq!(Options::new("", none), Ok(None));
        for wrong in ["many", "0", "-1"] {
            let error = Options::new("h:1", |_| Some(wrong.to_owned())).unwrap_err();
            assert!(error.contains("KDI_METRICS_INPUT_QUEUE_SIZE") && error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn an_endpoint_prefers_the_older_protocol() {
        let addresses: Vec<_> = Endpoint("127.0.0.1:8125".to_owned()).to_socket_addrs().unwrap().collect();
        assert_eq!(addresses, [SocketAddr::from(([127, 0, 0, 1], 8125))]);
        let options = Options { endpoint: "no port".to_owned(), prefix: String::new(), timings: 1 };
        assert!(client(&options).is_err());
    }
}
