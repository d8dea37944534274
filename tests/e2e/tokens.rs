//! SASL/OAUTHBEARER: tokens of a few seconds, from an endpoint that fails, on a broker that ends every session with
//! the token that began it.

use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lakeward_testkit::{Broker, CLIENT_ID, CLIENT_SECRET, Mood, SCOPE, TOKEN_MARK, TokenEndpoint, Topic};

use crate::ingest::{Ended, Ingest, Running, free_port, lakeward};
use crate::table::Table;
use crate::tls::{Certificates, Front};
use crate::{ids, scratch, wait_for};

/// Of a token: long enough for a loaded machine to refresh it in its last fifth.
const LIFE: Duration = Duration::from_secs(10);

/// Sessions end with their tokens, unless a client proves itself anew.
const LISTENER: &str = "
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,PROXY:SASL_PLAINTEXT
listener.name.proxy.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.proxy.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.proxy.oauthbearer.connections.max.reauth.ms=3600000
";

fn broker() -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(|| Broker::own_with(1, LISTENER))
}

fn settings(endpoint: &TokenEndpoint) -> Vec<(&'static str, String)> {
    vec![
        ("security.protocol", "SASL_PLAINTEXT".to_owned()),
        ("sasl.mechanism", "OAUTHBEARER".to_owned()),
        ("sasl.oauthbearer.method", "oidc".to_owned()),
        ("sasl.oauthbearer.client.id", CLIENT_ID.to_owned()),
        ("sasl.oauthbearer.scope", SCOPE.to_owned()),
        ("sasl.oauthbearer.token.endpoint.url", endpoint.url()),
    ]
}

/// Three messages, and an ingest of them that proves itself by tokens.
fn three(endpoint: &TokenEndpoint) -> (Topic, Table, Ingest) {
    let (topic, table) = (broker().topic("tokens", 1), Table::t());
    topic.produce(ids(0..3, 1));
    let mut ingest = Ingest::new(&topic, &table).with(&["-k", &broker().proxy()]);
    for (name, value) in settings(endpoint) {
        ingest = ingest.with(&["-K", &format!("{name}={value}")]);
    }
    (topic, table, ingest.env("LAKEWARD_KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET", CLIENT_SECRET))
}

/// Waits until so many more tokens were given out.
fn wait_tokens(endpoint: &TokenEndpoint, more: usize) {
    let until = endpoint.given().len() + more;
    wait_for("tokens to be refreshed", || match endpoint.given().len() {
        given if given >= until => Ok(()),
        given => Err(format!("{given} tokens of {until}; wrong: {:?}", endpoint.wrong())),
    });
}

fn assert_no_secret(log: &str, endpoint: &TokenEndpoint) {
    let user = STANDARD.encode(format!("{CLIENT_ID}:{CLIENT_SECRET}"));
    let mut secrets = endpoint.given();
    secrets.extend([CLIENT_SECRET.to_owned(), TOKEN_MARK.to_owned(), user]);
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} in {log}");
    }
}

fn assert_ended(ended: &Ended, code: i32, words: &[&str], endpoint: &TokenEndpoint) {
    assert_eq!(ended.code, Some(code), "{}", ended.log);
    for word in words {
        assert!(ended.log.contains(word), "no '{word}' in {}", ended.log);
    }
    assert_no_secret(&ended.log, endpoint);
}

#[test]
fn p47_tokens_are_refreshed_while_nothing_comes() {
    let endpoint = TokenEndpoint::start(LIFE);
    let (topic, table, ingest) = three(&endpoint);
    // The secret on the command line, and everything told that can be.
    let secret = format!("sasl.oauthbearer.client.secret={CLIENT_SECRET}");
    let ingest = ingest.env("RUST_LOG", "trace").with(&["-K", "debug=all", "-K", &secret]);
    let running = ingest.start();
    table.wait_rows(3);
    // Two lives of a token and more go by without a message.
    wait_tokens(&endpoint, 3);
    topic.produce(ids(3..6, 1));
    table.wait_rows(6);
    let page = |path: &str| running.get(path).expect("the admin port answers").1;
    let seen = [running.command_line(), page("/"), page("/metrics"), format!("{:?}", table.commits())];
    assert!(seen[0].contains(CLIENT_ID) && seen[1].contains(topic.name()), "{seen:?}");
    seen.iter().for_each(|seen| assert_no_secret(seen, &endpoint));
    let ended = running.stop();
    assert_eq!(table.ids(), [0, 1, 2, 3, 4, 5]);
    assert!(endpoint.wrong().is_empty(), "{:?}", endpoint.wrong());
    assert!(!ended.log.contains("refuses us"), "{}", ended.log);
    assert!(ended.log.contains("SASL"), "the client told all: {}", ended.log);
    assert_no_secret(&ended.log, &endpoint);
}

#[test]
fn p47_an_endpoint_that_is_down_at_the_start_is_waited_for() {
    let endpoint = TokenEndpoint::start(LIFE);
    endpoint.be(Mood::Gone);
    let (_, table, ingest) = three(&endpoint);
    let running = ingest.with(&["-e"]).start();
    running.wait_log("does not answer");
    endpoint.be(Mood::Saying(503, "out of order".to_owned()));
    let asked = endpoint.asked();
    wait_for("it to be asked again", || if endpoint.asked() > asked + 1 { Ok(()) } else { Err(endpoint.asked()) });
    endpoint.be(Mood::Serving);
    assert_ended(&running.wait(), 0, &["there are tokens again"], &endpoint);
    assert_eq!(table.ids(), [0, 1, 2]);
}

#[test]
fn p47_an_endpoint_that_is_down_for_longer_than_a_token_lives() {
    let endpoint = TokenEndpoint::start(LIFE);
    let (topic, table, ingest) = three(&endpoint);
    let running = ingest.start();
    table.wait_rows(3);
    endpoint.be(Mood::Gone);
    running.wait_log("does not answer");
    // Until the broker has hung up, and has seen what is no longer good.
    std::thread::sleep(LIFE);
    topic.produce(ids(3..6, 1));
    std::thread::sleep(LIFE / 2);
    assert_eq!(table.ids(), [0, 1, 2], "nobody is let in with an old token");
    endpoint.be(Mood::Serving);
    table.wait_rows(6);
    let ended = running.stop();
    assert_eq!(table.ids(), [0, 1, 2, 3, 4, 5]);
    assert_no_secret(&ended.log, &endpoint);
}

#[test]
fn who_gets_no_token_is_told_why_and_what_to_do() {
    let endpoint = TokenEndpoint::start(LIFE);
    let (_, table, ingest) = three(&endpoint);
    let ingest = ingest.with(&["-e"]);
    let wrong = ingest.clone().env("LAKEWARD_KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET", "hunter2").run();
    let words = ["invalid_client", "Client authentication failed", &endpoint.url(), "sasl.oauthbearer.client.secret"];
    assert_ended(&wrong, 69, &words, &endpoint);
    assert!(!wrong.log.contains("hunter2"), "{}", wrong.log);
    let wrong = ingest.clone().with(&["-K", "sasl.oauthbearer.scope=none"]).run();
    assert_ended(&wrong, 69, &["invalid_scope", "no scope 'none'"], &endpoint);
    #[rustfmt::skip] // columns: what the endpoint says, words
    let cases: [(u16, &str, &[&str]); 6] = [
        (200, "<html>",                                             &["no JSON"]),
        (200, "{}",                                                 &["without an access_token"]),
        (200, r#"{"access_token":"x"}"#,                            &["expires_in"]),
        (200, r#"{"access_token":"x.y.z","expires_in":0}"#,         &["has expired already"]),
        (302, "elsewhere",                                          &["refuses us (302)"]),
        // This one a broker is shown, who does not take it.
        (200, r#"{"access_token":"planted-token-mark","expires_in":60}"#, &["refuses us (authentication)", "sasl.oauthbearer"]),
    ];
    for (status, body, words) in cases {
        endpoint.be(Mood::Saying(status, body.to_owned()));
        assert_ended(&ingest.run(), 69, words, &endpoint);
    }
    assert_eq!(table.version(), Some(0));
}

#[test]
fn an_endpoint_by_tls_is_known_by_its_authority() {
    let (endpoint, certificates) = (TokenEndpoint::start(LIFE), Certificates::new());
    let front = Front::start(&endpoint.url(), &certificates, None);
    let (_, table, ingest) = three(&endpoint);
    let url = format!("sasl.oauthbearer.token.endpoint.url={}", front.url());
    let ingest = ingest.with(&["-e", "-K", &url]);
    assert_ended(&ingest.run(), 69, &["is not who it should be", "https.ca.location"], &endpoint);
    assert_eq!(endpoint.asked(), 0, "no secret goes to whom we do not know");
    let ca = format!("https.ca.location={}", certificates.path("ca.pem"));
    assert_ended(&ingest.with(&["-K", &ca]).run(), 0, &[], &endpoint);
    assert_eq!(table.ids(), [0, 1, 2]);
}

#[test]
fn settings_that_can_not_be() {
    let endpoint = TokenEndpoint::start(LIFE);
    let (_topic, _table, ingest) = three(&endpoint);
    let ingest = ingest.with(&["-e"]);
    #[rustfmt::skip] // columns: settings, words
    let cases: [(&[&str], &[&str]); 6] = [
        (&["sasl.oauthbearer.client.id="],                      &["sasl.oauthbearer.client.id", "it is not set"]),
        (&["sasl.oauthbearer.token.endpoint.url=ftp://x"],      &["token.endpoint.url", "https://HOST/PATH"]),
        (&["sasl.oauthbearer.method=magic"],                    &["sasl.oauthbearer.method"]),
        (&["sasl.oauthbearer.grant.type=jwt-bearer"],           &["grant.type", "client_credentials"]),
        (&["sasl.oauthbearer.extensions=x"],                    &["extensions", "KEY=VALUE"]),
        (&["https.ca.location=/no/such/file"],                  &["https.ca.location", "/no/such/file"]),
    ];
    for (settings, words) in cases {
        let ingest = settings.iter().fold(ingest.clone(), |ingest, setting| ingest.with(&["-K", setting]));
        assert_ended(&ingest.run(), 78, words, &endpoint);
    }
    assert_eq!(endpoint.asked(), 0);
}

/// Consumers, the sink's producer and those who only ask; the producer is idle for longer than a token lives.
#[test]
fn p47_pipelines_and_topics_as_sinks() {
    let endpoint = TokenEndpoint::start(LIFE);
    let (topic, out) = (broker().topic("tokens", 1), broker().topic("out", 1));
    topic.produce(ids(0..3, 1));
    let folder = scratch("pipeline");
    std::fs::create_dir_all(&folder).expect("make a folder");
    let options: String =
        settings(&endpoint).iter().map(|(name, value)| format!(", kafka.{name} = '{value}'")).collect();
    let options = format!("{options}, kafka.sasl.oauthbearer.client.secret = '${{SECRET_OF_THE_PIPELINE}}'");
    let (address, place) = (broker().proxy(), folder.display());
    let source = format!(
        "SET step_latency_ms = 200; SET state = '{place}/state';
         CREATE SOURCE s (id BIGINT) WITH (kafka = '{address}', topic = '{}'{options});
         CREATE VIEW v AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
         CREATE SINK t FROM v WITH (kafka = '{address}', topic = '{}', mode = 'upsert', key = 'id'{options});",
        topic.name(),
        out.name()
    );
    let pipeline = folder.join("tokens.sql");
    std::fs::write(&pipeline, source).expect("write a pipeline");
    let pipeline = pipeline.display().to_string();
    let command = |arguments: &[&str]| {
        let mut command = lakeward(arguments);
        command.env("SECRET_OF_THE_PIPELINE", CLIENT_SECRET);
        command
    };
    let admin = free_port();
    let running = Running::spawn(command(&["run", &pipeline, "--admin", &admin.to_string()]), admin);
    let wait_out = |count: usize| {
        wait_for("messages in the sink's topic", || match out.read_committed().len() {
            found if found >= count => Ok(()),
            found => Err(found),
        });
    };
    wait_out(3);
    wait_tokens(&endpoint, 3);
    topic.produce(ids(3..6, 1));
    wait_out(6);
    let ended = running.stop();
    assert!(!ended.log.contains("refuses us"), "{}", ended.log);
    assert_no_secret(&ended.log, &endpoint);
    for arguments in [&["check", &pipeline][..], &["verify", &pipeline], &["status", &pipeline]] {
        let ended = Running::spawn(command(arguments), free_port()).wait();
        assert_ended(&ended, 0, &[], &endpoint);
    }
    assert!(endpoint.wrong().is_empty(), "{:?}", endpoint.wrong());
    std::fs::remove_dir_all(&folder).expect("remove the folder");
}

/// There is no MSK here: what is seen is that a token is made, goes to the broker, and is refused by one that is not
/// Amazon's. That its signature is right stands in the unit tests.
#[test]
fn keys_of_aws_make_tokens_for_msk() {
    let (topic, table) = (broker().topic("tokens", 1), Table::t());
    topic.produce(ids(0..3, 1));
    let ingest = Ingest::new(&topic, &table).with(&["-k", &broker().proxy(), "-e"]);
    let ingest = ingest.with(&["-K", "sasl.mechanism=AWS_MSK_IAM", "-K", "security.protocol=SASL_PLAINTEXT"]);
    let keys = ingest.clone().env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", "planted-aws-key");
    let keys = keys.env("AWS_SESSION_TOKEN", "planted-session").env("RUST_LOG", "trace");
    #[rustfmt::skip] // columns: name, ingest, exit code, words
    let cases: [(&str, Ingest, i32, &[&str]); 3] = [
        ("no region",  keys.clone(),                                                          78, &["AWS_REGION"]),
        ("a profile",  ingest.env("AWS_REGION", "eu-central-1").env("AWS_PROFILE", "p"),      78, &["AWS_PROFILE"]),
        ("a token",    keys.env("AWS_REGION", "eu-central-1").with(&["-K", "debug=security"]), 69, &["refuses us (authentication)"]),
    ];
    for (name, ingest, code, words) in cases {
        let ended = ingest.run();
        assert_eq!(ended.code, Some(code), "{name}: {}", ended.log);
        for word in words {
            assert!(ended.log.contains(word), "{name}: no '{word}' in {}", ended.log);
        }
        // The last is how a token begins: https://kafka.
        for secret in ["planted-aws-key", "planted-session", "aHR0cHM6Ly9rYWZrYS4"] {
            assert!(!ended.log.contains(secret), "{name}: {secret} in {}", ended.log);
        }
    }
}
