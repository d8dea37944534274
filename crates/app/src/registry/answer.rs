//! What a registry answers, and what answers are none.

use std::error::Error as _;

use lakeward_decode::Language;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::Deserialize;

/// An answer that is longer is none of a registry.
const MOST_BYTES: usize = 16 << 20;
/// Of what an address says instead.
const EXCERPT_CHARACTERS: usize = 120;

/// What came of a request.
pub(super) enum Status {
    Answer(Found),
    /// 401 or 403.
    NotAllowed(u16),
    /// What the address said or did: to be asked again.
    Failed(String),
}

pub(super) enum Found {
    There(Schema),
    /// The registry's own word.
    NotThere(String),
}

/// A schema, by id or by subject and version.
#[derive(Debug, Deserialize)]
pub(super) struct Schema {
    pub(super) schema: String,
    /// Left out for Avro.
    #[serde(default = "avro", rename = "schemaType")]
    pub(super) schema_type: String,
    #[serde(default)]
    pub(super) references: Vec<Reference>,
}

/// Another schema that one refers to.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) subject: String,
    pub(super) version: i64,
}

fn avro() -> String {
    "AVRO".to_owned()
}

impl Schema {
    /// What it is written in; `None` where that is none that we know.
    pub(super) fn language(&self) -> Option<Language> {
        match self.schema_type.as_str() {
            "AVRO" => Some(Language::Avro),
            "JSON" => Some(Language::Json),
            "PROTOBUF" => Some(Language::Protobuf),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Complaint {
    error_code: i64,
    #[serde(default)]
    message: String,
}

/// Sends a request, and sorts what comes of it.
pub(super) async fn of(request: RequestBuilder) -> Status {
    let response =
        match request.header("Accept", "application/vnd.schemaregistry.v1+json, application/json").send().await {
            Ok(response) => response,
            Err(error) => return Status::Failed(format!("can't be reached ({})", told(error))),
        };
    let status = response.status();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Status::NotAllowed(status.as_u16());
    }
    let body = match body(response).await {
        Ok(body) => body,
        Err(what) => return Status::Failed(what),
    };
    if status == StatusCode::NOT_FOUND {
        return absent(&body);
    }
    if !status.is_success() {
        return Status::Failed(format!("answers {status}: {}", excerpt(&body)));
    }
    match serde_json::from_slice(&body) {
        Ok(schema) => Status::Answer(Found::There(schema)),
        Err(error) => Status::Failed(format!("answers what is no schema ({error}): {}", excerpt(&body))),
    }
}

/// 404: the registry's own, or that of somebody who knows of no registry at that path.
fn absent(body: &[u8]) -> Status {
    match serde_json::from_slice::<Complaint>(body) {
        Ok(Complaint { error_code: 40_401..=40_403, message }) => Status::Answer(Found::NotThere(message)),
        _ => Status::Failed(format!(
            "answers 404, but not as a registry does (is the address's path right?): {}",
            excerpt(body)
        )),
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= MOST_BYTES => body.extend_from_slice(&chunk),
            Ok(Some(_)) => return Err("answers more than 16 MiB".to_owned()),
            Ok(None) => return Ok(body),
            Err(error) => return Err(format!("broke off its answer ({})", told(error))),
        }
    }
}

/// An error with all that it comes from, and no address: it may hold a password.
fn told(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT_CHARACTERS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
