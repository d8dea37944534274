//! What of tokens needs no broker: signatures, regions, and which settings are whose.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object_store::aws::AwsCredential;
use rdkafka::config::ClientConfig;

use super::settings::{Method, split};
use super::{TokenError, iam};

/// The signatures were computed from AWS's description of Signature Version 4 by other means (Python's hmac and
/// hashlib, the canonical request written by hand), with the keys of AWS's own examples.
#[test]
fn tokens_of_iam_are_signed_as_aws_describes_it() {
    let now = UNIX_EPOCH + Duration::from_secs(1_796_124_153);
    #[rustfmt::skip] // columns: session's token, signature
    let cases = [
        (None,                             "a2808d515cf9de4a9b3a5c466c4aa234bc6c85285c066e07abf52f944dc3e543"),
        (Some("session/token+with=signs"), "1752ebb55364aeea46d2a217d8a7ebf098f416807a0773b52648ae8994fd9412"),
    ];
    for (session, signature) in cases {
        let keys = AwsCredential {
            key_id: "AKIDEXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            token: session.map(str::to_owned),
        };
        let token = iam::token("eu-central-1", &keys, now);
        assert_eq!(token.expires_ms, (1_796_124_153 + 900) * 1_000);
        let url = String::from_utf8(URL_SAFE_NO_PAD.decode(&token.value).expect("base64")).expect("text");
        let url = reqwest::Url::parse(&url).expect("an address");
        assert_eq!(
            (url.scheme(), url.host_str(), url.path()),
            ("https", Some("kafka.eu-central-1.amazonaws.com"), "/")
        );
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let mut found: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert!(found.pop().is_some_and(|(name, value)| name == "User-Agent" && value.starts_with("lakeward/")));
        found.sort_unstable();
        let mut expected = vec![
            ("Action", "kafka-cluster:Connect"),
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", "AKIDEXAMPLE/20261201/eu-central-1/kafka-cluster/aws4_request"),
            ("X-Amz-Date", "20261201T112233Z"),
            ("X-Amz-Expires", "900"),
            ("X-Amz-SignedHeaders", "host"),
            ("X-Amz-Signature", signature),
        ];
        expected.extend(session.map(|session| ("X-Amz-Security-Token", session)));
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[test]
fn regions_in_the_names_of_brokers() {
    #[rustfmt::skip] // columns: brokers, region
    let cases = [
        ("b-1.jobs.a1b2c3.c2.kafka.us-east-1.amazonaws.com:9098,b-2.jobs.a1b2c3.c2.kafka.us-east-1.amazonaws.com:9098", Some("us-east-1")),
        ("boot-a1b2c3.c3.kafka-serverless.eu-west-1.amazonaws.com:9098", Some("eu-west-1")),
        ("b-1.jobs.a1b2c3.c2.kafka.cn-north-1.amazonaws.com.cn:9098",    Some("cn-north-1")),
        ("kafka.internal:9098",                                          None),
        ("my.s3.us-east-1.amazonaws.com:9098",                           None),
        ("127.0.0.1:9092",                                               None),
    ];
    for (brokers, region) in cases {
        assert_eq!(iam::region_of(brokers).as_deref(), region, "{brokers}");
    }
}

#[test]
fn settings_for_tokens_are_taken_out_and_others_left() {
    let config = |pairs: &[(&str, &str)]| {
        let mut config = ClientConfig::new();
        for (name, value) in pairs {
            config.set(*name, *value);
        }
        config
    };
    let oidc = [
        ("sasl.oauthbearer.client.credentials.client.id", "me"),
        ("sasl.oauthbearer.client.secret", "hunter2"),
        ("sasl.oauthbearer.token.endpoint.url", "https://id.example/token"),
        ("sasl.oauthbearer.extensions", "logicalCluster=lkc-1,identityPoolId=pool-1"),
        ("client.id", "lakeward"),
    ];
    // Java's users name no method; other mechanisms do not look at these settings.
    for (mechanism, wants) in [("OAUTHBEARER", true), ("oauthbearer", true), ("PLAIN", false)] {
        let mut client = config(&[&oidc[..], &[("sasl.mechanism", mechanism)]].concat());
        let method = split(&mut client).expect("they fit");
        assert_eq!(method.is_some(), wants, "{mechanism}");
        assert_eq!(client.get("client.id"), Some("lakeward"));
        assert!(oidc[..4].iter().all(|(name, _)| client.get(name).is_none()));
        assert_eq!(client.get("security.protocol"), wants.then_some("sasl_ssl"), "not in the clear unless asked for");
        if let Some(Method::Oidc(oidc)) = method {
            assert_eq!((oidc.id.as_str(), oidc.secret.as_str()), ("me", "hunter2"));
            assert_eq!(oidc.extensions[1], ("identityPoolId".to_owned(), "pool-1".to_owned()));
        }
    }
    let refused = |pairs: &[(&str, &str)]| split(&mut config(pairs)).err().map(|error| error.to_string());
    let no_mechanism = refused(&oidc).expect("what for?");
    assert!(no_mechanism.contains("sasl.mechanism") && !no_mechanism.contains("hunter2"), "{no_mechanism}");
    assert!(refused(&[("sasl.mechanism", "OAUTHBEARER")]).is_some_and(|text| text.contains("token.endpoint.url")));
    let unsecured = [("sasl.mechanism", "OAUTHBEARER"), ("enable.sasl.oauthbearer.unsecure.jwt", "true")];
    assert!(matches!(split(&mut config(&unsecured)), Ok(None)), "librdkafka makes these itself");

    let brokers = ("bootstrap.servers", "b-1.jobs.a1b2c3.c2.kafka.us-east-1.amazonaws.com:9098");
    for named in [("sasl.mechanism", "AWS_MSK_IAM"), ("sasl.mechanisms", "AWS_MSK_IAM")] {
        let mut client = config(&[brokers, named]);
        assert!(matches!(split(&mut client), Ok(Some(Method::Iam { region })) if region == "us-east-1"));
        assert_eq!(client.get("sasl.mechanism"), Some("OAUTHBEARER"));
        assert_eq!((client.get("sasl.mechanisms"), client.get("security.protocol")), (None, Some("sasl_ssl")));
    }
}

#[test]
fn no_secret_is_in_what_an_endpoint_says() {
    let mut client = ClientConfig::new();
    client
        .set("sasl.mechanism", "OAUTHBEARER")
        .set("sasl.oauthbearer.token.endpoint.url", "http://127.0.0.1:1/t?key=hunter2");
    client.set("sasl.oauthbearer.client.id", "me").set("sasl.oauthbearer.client.secret", "hunter2");
    let method = split(&mut client).ok().flatten().expect("it fits");
    assert_eq!(method.to_string(), "the token endpoint http://127.0.0.1:1/t");
    let asker = method.asker().expect("it can ask");
    match asker.ask(&method).err().expect("nobody listens there") {
        TokenError::OutOfReach(text) => {
            assert!(text.contains("does not answer") && !text.contains("hunter2"), "{text}")
        }
        TokenError::Refused(text) => panic!("{text}"),
    }
}
