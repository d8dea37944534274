//! Who we are to Kafka: TLS, SASL, where secrets come from, and that they go nowhere else.

use std::sync::OnceLock;

use lakeward_testkit::{Broker, Topic};

use crate::ingest::{Ended, Ingest, Running, free_port, lakeward};
use crate::table::Table;
use crate::{DEADLINE, ids, scratch};

/// A broker of our own: the shared one may be somebody's who has other certificates.
fn broker() -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(|| Broker::own(1))
}

fn text(file: &str) -> String {
    std::fs::read_to_string(broker().certificate(file)).expect("a certificate")
}

fn path(file: &str) -> String {
    broker().certificate(file).display().to_string()
}

/// Three messages, and an ingest of them by another listener.
fn three(address: &str) -> (Topic, Table, Ingest) {
    let (topic, table) = (broker().topic("secure", 1), Table::t());
    topic.produce(ids(0..3, 1));
    let ingest = Ingest::new(&topic, &table).with(&["-k", address, "-e"]);
    (topic, table, ingest)
}

fn assert_lets_in(name: &str, ingest: &Ingest, table: &Table) -> Ended {
    let ended = ingest.run();
    assert_eq!(ended.code, Some(0), "{name}: {}", ended.log);
    assert_eq!(table.ids(), [0, 1, 2], "{name}");
    ended
}

/// The peer's variables, and nothing else.
#[test]
fn the_peers_variables_for_tls_and_scram() {
    let (_, table, ingest) = three(&broker().ssl());
    let ingest = ingest
        .env("KAFKA_DELTA_INGEST_CA", &text("ca.pem"))
        .env("KAFKA_DELTA_INGEST_CERT", &text("client.crt"))
        .env("KAFKA_DELTA_INGEST_KEY", &text("client.key"));
    assert_lets_in("mTLS", &ingest, &table);

    let (_, table, ingest) = three(&broker().sasl_ssl());
    let ingest = ingest
        .env("KAFKA_DELTA_INGEST_CA", &text("ca.pem"))
        .env("KAFKA_DELTA_INGEST_SCRAM_JSON", r#"{"username":"alice","password":"alice-secret"}"#);
    assert_lets_in("SCRAM", &ingest, &table);
}

#[test]
fn mechanisms_and_places_of_secrets() {
    let folder = scratch("credentials");
    std::fs::create_dir_all(&folder).expect("make a folder");
    let file = |name: &str, content: &str| {
        let path = folder.join(name);
        std::fs::write(&path, content).expect("write a secret");
        path.display().to_string()
    };
    let password = file("password", "alice-secret\n");
    file("LAKEWARD_KAFKA_SASL_PASSWORD", "alice-secret");
    let credentials = folder.display().to_string();
    #[rustfmt::skip] // columns: name, options, environment
    let cases: [(&str, &[&str], &[(&str, &str)]); 5] = [
        ("PLAIN, by -K",       &["-K", "sasl.mechanism=PLAIN", "-K", "sasl.password=alice-secret"], &[]),
        ("SCRAM 256, by name", &["-K", "sasl.mechanism=SCRAM-SHA-256"], &[("LAKEWARD_KAFKA_SASL_PASSWORD", "alice-secret")]),
        ("SCRAM 512, by file", &["-K", "sasl.mechanisms=SCRAM-SHA-512"], &[("LAKEWARD_KAFKA_SASL_PASSWORD_FILE", &password)]),
        ("systemd",            &["-K", "sasl.mechanism=SCRAM-SHA-512"], &[("CREDENTIALS_DIRECTORY", &credentials)]),
        ("-K wins",            &["-K", "sasl.mechanism=PLAIN", "-K", "sasl.password=alice-secret"],
                               &[("LAKEWARD_KAFKA_SASL_PASSWORD", "wrong"), ("LAKEWARD_KAFKA_SASL_MECHANISM", "SCRAM-SHA-512")]),
    ];
    for (name, options, environment) in cases {
        let (_, table, ingest) = three(&broker().sasl_ssl());
        let ca = format!("ssl.ca.location={}", path("ca.pem"));
        let ingest = ingest.with(&["-K", "security.protocol=SASL_SSL", "-K", "sasl.username=alice", "-K", &ca]);
        let ingest = environment.iter().fold(ingest.with(options), |ingest, (name, value)| ingest.env(name, value));
        assert_lets_in(name, &ingest, &table);
    }
    std::fs::remove_dir_all(&folder).expect("remove the folder");
}

#[test]
fn who_is_not_let_in_is_told_why_and_what_to_do() {
    let tls = |name: &str| {
        [
            ("ca.pem".to_owned(), "ssl.ca.location"),
            (format!("{name}.crt"), "ssl.certificate.location"),
            (format!("{name}.key"), "ssl.key.location"),
        ]
        .map(|(file, setting)| format!("{setting}={}", path(&file)))
        .to_vec()
    };
    let scram = |password: &str| {
        vec![
            format!("ssl.ca.location={}", path("ca.pem")),
            "sasl.mechanism=SCRAM-SHA-512".to_owned(),
            "sasl.username=alice".to_owned(),
            format!("sasl.password={password}"),
        ]
    };
    let foreign_ca = vec![format!("ssl.ca.location={}", path("other-ca.pem"))];
    let (ssl, sasl) = (broker().ssl(), broker().sasl_ssl());
    #[rustfmt::skip] // columns: name, address, protocol, settings, exit code, words
    let cases: [(&str, &str, &str, Vec<String>, i32, &[&str]); 8] = [
        ("expired",             &ssl,  "SSL",      tls("expired"),            69, &["refuses us (TLS)", "certificate"]),
        ("foreign",             &ssl,  "SSL",      tls("stranger"),           69, &["refuses us (TLS)", "certificate"]),
        ("none",                &ssl,  "SSL",      tls("client")[..1].into(), 69, &["refuses us (TLS)", "certificate"]),
        ("absent file",         &ssl,  "SSL",      tls("absent"),             78, &["ssl.certificate.location"]),
        ("a broker of a foreign authority", &sasl, "SASL_SSL", [foreign_ca, scram("alice-secret")[1..].to_vec()].concat(),
                                                                              69, &["refuses us (TLS)", "ssl.ca.location"]),
        ("wrong password",      &sasl, "SASL_SSL", scram("hunter2"),          69, &["refuses us (authentication)", "sasl.password"]),
        ("wrong mechanism",     &sasl, "SASL_SSL", [scram("x"), vec!["sasl.mechanism=GSSAPI".to_owned()]].concat(),
                                                                              78, &["GSSAPI"]),
        ("plaintext",           &sasl, "PLAINTEXT", Vec::new(),               75, &["security.protocol"]),
    ];
    for (name, address, protocol, settings, code, words) in cases {
        let (_, table, mut ingest) = three(address);
        ingest = ingest.with(&["-K", &format!("security.protocol={protocol}")]);
        for setting in &settings {
            ingest = ingest.with(&["-K", setting]);
        }
        if code == 75 {
            // An outage looks the same: it is waited out, aloud.
            let running = ingest.start();
            words.iter().for_each(|word| running.wait_log(word));
            continue;
        }
        let ended = ingest.run();
        assert_eq!(ended.code, Some(code), "{name}: {}", ended.log);
        for word in words {
            assert!(ended.log.contains(word), "{name}: no '{word}' in {}", ended.log);
        }
        assert!(!ended.log.contains("hunter2"), "{name}: {}", ended.log);
        assert_eq!(table.version(), Some(0), "{name}");
    }
}

/// Every command that asks brokers takes the same settings, from the same places.
#[test]
fn all_commands_are_let_in() {
    let (topic, table, ingest) = three(&broker().sasl_ssl());
    let secure = |mut command: std::process::Command| {
        command.env("KAFKA_DELTA_INGEST_CA", text("ca.pem"));
        command.env("KAFKA_DELTA_INGEST_SCRAM_JSON", r#"{"username":"alice","password":"alice-secret"}"#);
        command.env("PASSWORD_OF_THE_PIPELINE", "alice-secret");
        Running::spawn(command, free_port()).wait()
    };
    let ingest = ingest
        .env("KAFKA_DELTA_INGEST_CA", &text("ca.pem"))
        .env("KAFKA_DELTA_INGEST_SCRAM_JSON", r#"{"username":"alice","password":"alice-secret"}"#);
    assert_lets_in("ingest", &ingest, &table);
    let place = table.path.display().to_string();
    let address = broker().sasl_ssl();
    let folder = scratch("pipeline");
    std::fs::create_dir_all(&folder).expect("make a folder");
    let pipeline = folder.join("secure.sql");
    let source = format!(
        "CREATE SOURCE s (id BIGINT) WITH (kafka = '{address}', topic = '{}', kafka.sasl.password = \
         '${{PASSWORD_OF_THE_PIPELINE}}'); CREATE SINK t FROM s WITH (delta = '{}');",
        topic.name(),
        folder.join("t").display()
    );
    std::fs::write(&pipeline, source).expect("write a pipeline");
    let pipeline = pipeline.display().to_string();
    for arguments in [
        &["verify", &place, "-k", &address][..],
        &["status", &place, "-k", &address],
        &["check", "ingest", topic.name(), &place, "-k", &address, "-a", "app"],
        &["offsets", "set", &place, "-a", "app", "--to", "latest", "-k", &address],
        &["check", &pipeline],
        &["run", &pipeline, "--until", "end"],
        &["status", &pipeline, "-k", &address],
        &["verify", &pipeline, "-k", &address],
    ] {
        let ended = secure(lakeward(arguments));
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.log);
    }
    std::fs::remove_dir_all(&folder).expect("remove the folder");
}

/// Secrets of every kind, planted; then everything that leaves the process is searched for them.
#[test]
fn no_secret_is_in_any_output() {
    let (topic, table, ingest) = three(&broker().sasl_ssl());
    let key_password = "planted-key-password";
    let ca = format!("ssl.ca.location={}", path("ca.pem"));
    let run = ingest
        .with(&[
            "-K",
            "security.protocol=SASL_SSL",
            "-K",
            "sasl.mechanism=PLAIN",
            "-K",
            "sasl.username=alice",
            "-K",
            &ca,
        ])
        .with(&["-K", "sasl.password=alice-secret"])
        .env("LAKEWARD_KAFKA_SSL_KEY_PASSWORD", key_password)
        .env("RUST_LOG", "trace");
    let mut running = run.clone().with(&["--log-format", "json", "-K", "debug=all"]).start();
    // It ends by itself; until then its command line and metrics are looked at.
    let (mut seen, start) = (String::new(), std::time::Instant::now());
    while running.is_running() && start.elapsed() < DEADLINE {
        std::thread::sleep(std::time::Duration::from_millis(50));
        // Nobody can keep from others what a process is started with, before it has hidden it.
        let Ok((_, page)) = running.get("/") else { continue };
        seen += &page;
        seen += &running.command_line();
        seen += &running.get("/metrics").map(|(_, text)| text).unwrap_or_default();
    }
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(seen.contains("sasl.username=alice"), "the command line was read: {seen}");
    assert!(ended.log.contains("LAKEWARD_KAFKA_SASL_PASSWORD"), "says where it belongs: {}", ended.log);
    let wrong = run.with(&["-K", "sasl.password=hunter2-planted"]).run();
    assert_eq!(wrong.code, Some(69), "{}", wrong.log);
    let commits = format!("{:?}", table.commits());
    let group = topic.name();
    for secret in ["alice-secret", key_password, "hunter2-planted"] {
        for (place, text) in [("log", &ended.log), ("error", &wrong.log), ("process", &seen), ("table", &commits)] {
            assert!(!text.contains(secret), "{secret} in the {place} of {group}:\n{text}");
        }
    }
}
