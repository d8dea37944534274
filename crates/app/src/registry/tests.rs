//! The client against a server of the test's own, which answers whatever the case wants.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lakeward_decode::{Answer, Language, Schemas, Unavailable};

use super::{Registry, RegistryConfig};

/// What the server does with a request.
#[derive(Clone)]
enum Does {
    Says(u16, String),
    /// Hangs up amid its answer.
    BreaksOff,
    /// Hangs up at once.
    HangsUp,
}

fn says(status: u16, body: &str) -> Does {
    Does::Says(status, body.to_owned())
}

/// Every request so far: its path, and what proves who asks.
type Heard = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// Answers each request as `answer` says by its path. Ends with the test.
fn server(answer: impl Fn(&str) -> Does + Send + 'static) -> (String, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Heard::default();
    let noted = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let Some((path, who)) = request(&stream) else { continue };
            noted.lock().unwrap().push((path.clone(), who));
            reply(stream, answer(&path));
        }
    });
    (format!("http://{address}"), heard)
}

fn request(stream: &TcpStream) -> Option<(String, Option<String>)> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let mut who = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("authorization")
        {
            who = Some(value.to_owned());
        }
    }
    Some((path, who))
}

fn reply(mut stream: TcpStream, does: Does) {
    // A client that does not wait for the answer is no fault of the server.
    let _ = match does {
        Does::HangsUp => return,
        Does::BreaksOff => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{{\"schema\":"),
        Does::Says(status, body) => {
            let length = body.len();
            write!(stream, "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        }
    };
}

fn registry_with(urls: &str, variables: &[(&str, &str)]) -> Registry {
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let config = RegistryConfig::new("--avro", urls, variable).unwrap();
    Registry::new(config).unwrap()
}

fn registry(urls: &str) -> Registry {
    registry_with(urls, &[])
}

const NOT_THERE: &str = r#"{"error_code":40403,"message":"Schema 7 not found"}"#;
const AVRO: &str = r#"{"schema":"\"long\""}"#;

/// In a word, what became of a question.
fn outcome(registry: &Registry, id: u32) -> String {
    match registry.prepare(id).and_then(|()| registry.schema(id)) {
        Ok(Answer::There(schema)) => format!("there {} {}", schema.language, schema.text),
        Ok(Answer::NotThere) => "not there".to_owned(),
        Err(Unavailable::OutOfReach { detail }) => format!("out of reach: {detail}"),
        Err(Unavailable::NotAllowed { detail }) => format!("not allowed: {detail}"),
    }
}

#[test]
fn what_is_not_there_out_of_reach_and_not_allowed_are_told_apart() {
    #[rustfmt::skip] // what the server does, what comes of it
    let cases = [
        (says(200, AVRO), "there Avro \"long\""),
        (says(200, r#"{"schema":"{}","schemaType":"JSON","id":3,"more":[1]}"#), "there JSON Schema {}"),
        (says(200, r#"{"schema":"message A {}","schemaType":"PROTOBUF"}"#), "there Protobuf message A {}"),
        (says(404, NOT_THERE), "not there"),
        (says(404, r#"{"error_code":40401,"message":"no subject"}"#), "not there"),
        (says(404, "<html>no such page</html>"), "out of reach: URL answers 404, but not as a registry does"),
        (says(404, r#"{"title":"Not Found"}"#), "out of reach: URL answers 404, but not as a registry does"),
        (says(401, "{}"), "not allowed: "), (says(403, "no"), "not allowed: "),
        (says(429, "slower"), "out of reach: URL answers 429"),
        (says(500, r#"{"error_code":50001,"message":"store"}"#), "out of reach: URL answers 500"),
        (says(503, ""), "out of reach: URL answers 503"), (says(400, "?"), "out of reach: URL answers 400"),
        (says(200, "<html>"), "out of reach: URL answers what is no schema"),
        (says(200, r#"{"schema":7}"#), "out of reach: URL answers what is no schema"),
        (says(200, ""), "out of reach: URL answers what is no schema"),
        (Does::BreaksOff, "out of reach: URL broke off its answer"),
        (Does::HangsUp, "out of reach: URL can't be reached"),
    ];
    for (does, expected) in cases {
        let (url, _) = server(move |_| does.clone());
        let registry = registry(&url);
        let outcome = outcome(&registry, 7);
        let expected = expected.replace("URL", &format!("{url}/"));
        assert!(
            outcome.replace("the schema registry does not answer: ", "").starts_with(&expected),
            "{outcome}: {expected}"
        );
    }
    let registry = registry("http://127.0.0.1:1");
    assert!(outcome(&registry, 7).contains("can't be reached"), "nobody listens");
}

#[test]
fn a_refusal_says_where_and_what_to_set() {
    let (url, _) = server(|_| says(401, ""));
    let registry = registry_with(&url, &[("SCHEMA_REGISTRY_USERNAME", "u"), ("SCHEMA_REGISTRY_PASSWORD", "planted")]);
    let outcome = outcome(&registry, 7);
    for part in [&*url, "401", "SCHEMA_REGISTRY_USERNAME", "SCHEMA_REGISTRY_BEARER_TOKEN", "/schemas/ids/7"] {
        assert!(outcome.contains(part), "{outcome}");
    }
    assert!(!outcome.contains("planted"));
}

#[test]
fn answers_are_kept_and_failures_are_not() {
    let answers = Arc::new(Mutex::new(vec![says(200, AVRO), says(500, ""), Does::HangsUp]));
    let (url, heard) = server(move |_| answers.lock().unwrap().pop().unwrap_or_else(|| says(500, "")));
    let registry = registry(&url);
    assert!(outcome(&registry, 7).starts_with("out of reach"));
    assert!(outcome(&registry, 7).starts_with("out of reach"));
    for _ in 0..3 {
        assert_eq!(outcome(&registry, 7), "there Avro \"long\"");
    }
    assert_eq!(heard.lock().unwrap().len(), 3, "what is known is not asked for again");
}

#[test]
fn what_was_not_there_is_asked_for_again_later() {
    let there = Arc::new(Mutex::new(false));
    let now = Arc::clone(&there);
    let (url, heard) = server(move |_| if *now.lock().unwrap() { says(200, AVRO) } else { says(404, NOT_THERE) });
    let mut registry = registry(&url);
    assert_eq!(outcome(&registry, 7), "not there");
    assert_eq!(outcome(&registry, 7), "not there");
    assert_eq!(heard.lock().unwrap().len(), 1, "not with every bad message");
    *there.lock().unwrap() = true;
    registry.not_there_for = Duration::ZERO;
    assert_eq!(outcome(&registry, 7), "there Avro \"long\"");
}

#[test]
fn ids_that_no_registry_gives_are_not_asked_for() {
    let (url, heard) = server(|_| says(500, ""));
    let registry = registry(&url);
    assert_eq!(outcome(&registry, 0x8000_0000), "not there");
    assert_eq!(outcome(&registry, u32::MAX), "not there");
    assert!(heard.lock().unwrap().is_empty());
}

#[test]
fn a_slow_registry_is_out_of_reach() {
    let (url, _) = server(|_| {
        std::thread::sleep(Duration::from_secs(60));
        Does::HangsUp
    });
    let config = RegistryConfig::new("--avro", &url, |_| None).unwrap();
    let registry = Registry::with_limit(config, Duration::from_millis(200)).unwrap();
    let asked = Instant::now();
    assert!(outcome(&registry, 7).starts_with("out of reach"));
    assert!(asked.elapsed() < Duration::from_secs(50), "it was not waited for");
}

#[test]
fn paths_are_kept_and_subjects_are_escaped() {
    for base in ["", "/", "/apis/ccompat/v7", "/apis/ccompat/v7/"] {
        let (url, heard) = server(|_| says(200, AVRO));
        let registry = registry(&format!("{url}{base}"));
        assert_eq!(outcome(&registry, 12), "there Avro \"long\"");
        assert!(registry.latest("a b/c-value").unwrap().is_some());
        let paths: Vec<String> = heard.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
        let base = base.trim_end_matches('/');
        assert_eq!(
            paths,
            [format!("{base}/schemas/ids/12"), format!("{base}/subjects/a%20b%2Fc-value/versions/latest")]
        );
    }
}

#[test]
fn another_address_answers_for_one_that_does_not() {
    let (down, asked_down) = server(|_| says(503, ""));
    let (up, asked_up) = server(|_| says(200, AVRO));
    let registry = registry(&format!("{down},{up}"));
    for id in 1..=3 {
        assert_eq!(outcome(&registry, id), "there Avro \"long\"");
    }
    assert_eq!(
        (asked_down.lock().unwrap().len(), asked_up.lock().unwrap().len()),
        (1, 3),
        "who answered is asked first"
    );
}

#[test]
fn who_we_are_is_told() {
    #[rustfmt::skip] // user in the address, variables, header
    let cases: [(&str, &[(&str, &str)], Option<&str>); 5] = [
        ("", &[], None),
        ("", &[("SCHEMA_REGISTRY_USERNAME", "me"), ("SCHEMA_REGISTRY_PASSWORD", "pass")], Some("Basic bWU6cGFzcw==")),
        ("m%40e:p%3Aass@", &[], Some("Basic bUBlOnA6YXNz")),
        ("x:y@", &[("SCHEMA_REGISTRY_USERNAME", "me"), ("SCHEMA_REGISTRY_PASSWORD", "pass")], Some("Basic eDp5")),
        ("", &[("SCHEMA_REGISTRY_BEARER_TOKEN", "token")], Some("Bearer token")),
    ];
    for (user, variables, expected) in cases {
        let (url, heard) = server(|_| says(200, AVRO));
        let registry = registry_with(&url.replace("http://", &format!("http://{user}")), variables);
        assert_eq!(outcome(&registry, 1), "there Avro \"long\"");
        assert_eq!(heard.lock().unwrap()[0].1.as_deref(), expected, "{user} {variables:?}");
    }
}

#[test]
fn a_proxy_is_asked_for_the_registry() {
    let (proxy, heard) = server(|_| says(200, AVRO));
    let registry = registry_with("http://registry.invalid:8081/base", &[("SCHEMA_REGISTRY_PROXY", &proxy)]);
    assert_eq!(outcome(&registry, 1), "there Avro \"long\"");
    assert_eq!(heard.lock().unwrap()[0].0, "http://registry.invalid:8081/base/schemas/ids/1");
}

#[test]
fn references_come_first_and_once() {
    let with = |schema: &str, references: &[(&str, &str, i64)]| {
        let references: Vec<_> = references
            .iter()
            .map(|(name, subject, version)| serde_json::json!({"name": name, "subject": subject, "version": version}))
            .collect();
        says(200, &serde_json::json!({"schema": schema, "references": references}).to_string())
    };
    let (url, heard) = server(move |path| match path {
        "/schemas/ids/1" => with("top", &[("b", "s-b", 2), ("a", "s-a", 1)]),
        "/subjects/s-a/versions/1?deleted=true" => with("A", &[]),
        "/subjects/s-b/versions/2?deleted=true" => with("B", &[("a", "s-a", 1), ("c", "s-c", 1)]),
        // Nobody registers a circle, but whoever answers may.
        "/subjects/s-c/versions/1?deleted=true" => with("C", &[("b", "s-b", 2)]),
        _ => says(404, NOT_THERE),
    });
    let registry = registry(&url);
    let Ok(Answer::There(schema)) = registry.schema(1) else { panic!("it is there") };
    let names: Vec<_> = schema.references.iter().map(|r| (r.name.as_str(), r.text.as_str())).collect();
    assert_eq!(names, [("a", "A"), ("c", "C"), ("b", "B")]);
    assert_eq!(schema.language, Language::Avro);
    assert_eq!(heard.lock().unwrap().len(), 4);
}

#[test]
fn a_reference_that_is_not_there_makes_the_schema_none() {
    let (url, _) = server(|path| match path {
        "/schemas/ids/1" => says(200, r#"{"schema":"x","references":[{"name":"n","subject":"gone","version":4}]}"#),
        _ => says(404, NOT_THERE),
    });
    let registry = registry(&url);
    assert_eq!(outcome(&registry, 1), "not there");
}

#[test]
fn settings_that_make_no_sense_are_told_without_their_secrets() {
    let new = |url: &str, variables: &[(&str, &str)]| {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        RegistryConfig::new("--json", url, variable)
            .and_then(|config| config.client(reqwest::Client::builder()))
            .expect_err(url)
            .to_string()
    };
    #[rustfmt::skip] // address, variables, what is said
    let cases: [(&str, &[(&str, &str)], &str); 9] = [
        ("http://u:planted@", &[], "--json '...@' is no address"),
        ("ftp://u:planted@host", &[], "its scheme is ftp"),
        (" , ", &[], "it is empty"),
        ("http://h", &[("SCHEMA_REGISTRY_PASSWORD", "planted")], "SCHEMA_REGISTRY_USERNAME is not"),
        ("http://u:planted@h", &[("SCHEMA_REGISTRY_BEARER_TOKEN", "planted")], "keep one"),
        ("http://h", &[("SCHEMA_REGISTRY_CERT", "c.pem")], "go together"),
        ("http://h", &[("SCHEMA_REGISTRY_CA", "no-such-file")], "SCHEMA_REGISTRY_CA = no-such-file: No such file"),
        ("http://h", &[("SCHEMA_REGISTRY_PASSWORD_FILE", "no-such-file")], "SCHEMA_REGISTRY_PASSWORD_FILE = no-such-file"),
        ("http://h", &[("SCHEMA_REGISTRY_PROXY", "http://u:planted@")], "SCHEMA_REGISTRY_PROXY is no address"),
    ];
    for (url, variables, expected) in cases {
        let error = new(url, variables);
        assert!(error.contains(expected) && !error.contains("planted"), "{url}: {error}");
    }
    let config = RegistryConfig::new("--json", "http://u:planted@h/x", |_| None).unwrap();
    assert_eq!(format!("{config:?}"), r#"RegistryConfig { urls: ["http://h/x"], .. }"#);
}
