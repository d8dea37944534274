//! A schema registry that speaks Confluent's REST API: which schema an id stands for.
//!
//! Three things that others take for one are told apart here: a schema that is *not there* (a bad record), a registry
//! that is *out of reach* (wait and ask again: nothing is lost, nothing is set aside), and one that does *not allow* us
//! (stop, and say what to set). Answers are kept, failures never; that a schema is not there is believed for a while.
//!
//! Never here: what a schema means (`lakeward-decode`), when to ask again (the loop).

mod answer;
mod config;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lakeward_decode::{Answer, ReferredSchema, Schemas, Unavailable, WrittenSchema};
use lakeward_protocol::ports::{Exit, Fault, Verdict};
use reqwest::{Client, RequestBuilder, Url};
use tokio::runtime::Runtime;

pub use config::{RegistryConfig, RegistryConfigError};

use crate::meters;
use answer::{Found, Reference, Schema, Status};

/// One request, from the first byte to the last.
const REQUEST: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(3);
/// Schemas kept; a topic has a handful, and whoever has more asks again.
const MOST_KEPT: usize = 10_000;
/// How long an id that stands for nothing is not asked for again: a schema may still come.
const NOT_THERE: Duration = Duration::from_secs(30);
/// Such ids kept: more than one stretch of records can hold.
const MOST_NOT_THERE: usize = 1_000_000;
/// Schemas that one may refer to, directly or not.
const MOST_REFERENCES: usize = 500;
/// Ids are positive numbers of 32 bits with a sign.
const LARGEST_ID: u32 = i32::MAX as u32;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// No answer, or none that a registry gives.
    #[error("the schema registry does not answer: {what}")]
    OutOfReach {
        /// Which address said or did what.
        what: String,
    },
    /// 401 or 403.
    #[error(
        "the schema registry at {url} refuses us ({status}): set SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD, \
         or SCHEMA_REGISTRY_BEARER_TOKEN, to somebody who may read {what}"
    )]
    NotAllowed {
        /// The registry's address, without any secret.
        url: String,
        /// What it answered.
        status: u16,
        /// What we asked for.
        what: String,
    },
}

impl Fault for RegistryError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::OutOfReach { .. } => Verdict::Retry,
            Self::NotAllowed { .. } => Verdict::Stop(Exit::Unavailable),
        }
    }
}

impl From<RegistryError> for Unavailable {
    fn from(error: RegistryError) -> Self {
        let detail = error.to_string();
        match error {
            RegistryError::OutOfReach { .. } => Self::OutOfReach { detail },
            RegistryError::NotAllowed { .. } => Self::NotAllowed { detail },
        }
    }
}

/// A registry, at one address or several that are the same. Shared by all threads.
pub struct Registry {
    config: RegistryConfig,
    http: Client,
    /// Runs in the thread that asks, while it asks.
    runtime: Runtime,
    /// The address that answered last.
    turn: AtomicUsize,
    kept: Mutex<Kept>,
    not_there_for: Duration,
}

#[derive(Default)]
struct Kept {
    there: HashMap<u32, Arc<WrittenSchema>>,
    /// Since when.
    not_there: HashMap<u32, Instant>,
}

impl Registry {
    /// Prepares to ask; asks nothing yet.
    ///
    /// # Errors
    /// Certificates or a proxy that can't be used.
    pub fn new(config: RegistryConfig) -> Result<Self, RegistryConfigError> {
        Self::with_limit(config, REQUEST)
    }

    fn with_limit(config: RegistryConfig, request: Duration) -> Result<Self, RegistryConfigError> {
        let http = config.client(Client::builder().connect_timeout(CONNECT).timeout(request))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| RegistryConfigError::Settings(format!("can't ask a registry: {error}")))?;
        let (turn, kept) = (AtomicUsize::new(0), Mutex::default());
        Ok(Self { config, http, runtime, turn, kept, not_there_for: NOT_THERE })
    }

    /// The newest schema of a subject; `None` where it has none. Waits for 10 seconds a request and address at most.
    ///
    /// # Errors
    /// No answer: ask again, or stop, as the error's verdict says.
    pub fn latest(&self, subject: &str) -> Result<Option<Arc<WrittenSchema>>, RegistryError> {
        self.runtime.block_on(self.fetch(&["subjects", subject, "versions", "latest"]))
    }

    /// Asks for an id, and keeps the answer.
    fn look_up(&self, id: u32) -> Result<Answer, RegistryError> {
        let found = match id {
            ..=LARGEST_ID => self.runtime.block_on(self.fetch(&["schemas", "ids", &id.to_string()]))?,
            _ => None,
        };
        let mut kept = self.kept.lock().expect("no holder of this lock panics");
        let Some(schema) = found else {
            if kept.not_there.len() >= MOST_NOT_THERE {
                kept.not_there.clear();
            }
            kept.not_there.insert(id, Instant::now());
            return Ok(Answer::NotThere);
        };
        if kept.there.len() >= MOST_KEPT {
            kept.there.clear();
        }
        kept.not_there.remove(&id);
        kept.there.insert(id, Arc::clone(&schema));
        Ok(Answer::There(schema))
    }

    /// What is known of an id, if that was found out at most so long ago.
    fn known(&self, id: u32, not_there_for: Duration) -> Option<Answer> {
        let kept = self.kept.lock().expect("no holder of this lock panics");
        if let Some(schema) = kept.there.get(&id) {
            return Some(Answer::There(Arc::clone(schema)));
        }
        kept.not_there.get(&id).filter(|since| since.elapsed() < not_there_for).map(|_| Answer::NotThere)
    }

    /// A schema, and all that it refers to. `None` where it, or any of those, is not there, or of no kind we know.
    async fn fetch(&self, path: &[&str]) -> Result<Option<Arc<WrittenSchema>>, RegistryError> {
        let Found::There(schema) = self.ask(path, false).await? else { return Ok(None) };
        let Some(language) = schema.language() else {
            tracing::warn!(
                "/{} is a schema of type {}, which lakeward does not know",
                path.join("/"),
                schema.schema_type
            );
            return Ok(None);
        };
        let Some(references) = self.references(&schema, path).await? else { return Ok(None) };
        Ok(Some(Arc::new(WrittenSchema { language, text: schema.schema, references })))
    }

    /// All that a schema refers to, what others refer to first. `None` where one is not there.
    async fn references(&self, schema: &Schema, path: &[&str]) -> Result<Option<Vec<ReferredSchema>>, RegistryError> {
        enum Step {
            Ask(Reference),
            /// All that it refers to is taken.
            Take(ReferredSchema),
        }
        let mut taken = Vec::new();
        let mut seen = HashSet::new();
        let mut steps: Vec<Step> = schema.references.iter().rev().cloned().map(Step::Ask).collect();
        while let Some(step) = steps.pop() {
            let reference = match step {
                Step::Take(referred) => {
                    taken.push(referred);
                    continue;
                }
                Step::Ask(reference) => reference,
            };
            if !seen.insert((reference.subject.clone(), reference.version)) {
                continue;
            }
            let version = reference.version.to_string();
            let found = match seen.len() > MOST_REFERENCES {
                true => Found::NotThere(format!("it is one more than {MOST_REFERENCES}")),
                false => self.ask(&["subjects", &reference.subject, "versions", &version], true).await?,
            };
            match found {
                Found::There(schema) => {
                    steps.push(Step::Take(ReferredSchema { name: reference.name, text: schema.schema }));
                    steps.extend(schema.references.into_iter().rev().map(Step::Ask));
                }
                Found::NotThere(why) => {
                    tracing::warn!(
                        "/{} refers to '{}', version {version} of subject {}, which can't be had: {why}",
                        path.join("/"),
                        reference.name,
                        reference.subject
                    );
                    return Ok(None);
                }
            }
        }
        Ok(Some(taken))
    }

    /// Asks one address after the other, from the one that answered last on.
    async fn ask(&self, path: &[&str], deleted: bool) -> Result<Found, RegistryError> {
        let count = self.config.urls.len();
        let first = self.turn.load(Ordering::Relaxed);
        let mut failures = Vec::new();
        for at in (first..first + count).map(|at| at % count) {
            let url = &self.config.urls[at];
            match self.ask_at(url, path, deleted).await {
                Status::Answer(found) => {
                    meters::schema_request(if matches!(found, Found::There(_)) { "found" } else { "not_there" });
                    self.turn.store(at, Ordering::Relaxed);
                    return Ok(found);
                }
                Status::NotAllowed(status) => {
                    meters::schema_request("not_allowed");
                    let what = format!("/{}", path.join("/"));
                    return Err(RegistryError::NotAllowed { url: url.to_string(), status, what });
                }
                Status::Failed(what) => {
                    meters::schema_request("out_of_reach");
                    failures.push(format!("{url} {what}"));
                }
            }
        }
        Err(RegistryError::OutOfReach { what: failures.join("; ") })
    }

    async fn ask_at(&self, base: &Url, path: &[&str], deleted: bool) -> Status {
        let mut url = base.clone();
        // Below whatever path the address has.
        url.path_segments_mut().expect("an http address has a path").pop_if_empty().extend(path);
        if deleted {
            // What was deleted softly is still referred to.
            url.query_pairs_mut().append_pair("deleted", "true");
        }
        answer::of(self.authorized(self.http.get(url))).await
    }

    /// A request with what proves who we are.
    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match (&self.config.token, &self.config.user) {
            (Some(token), _) => request.bearer_auth(token),
            (None, Some((name, password))) => request.basic_auth(name, password.as_deref()),
            (None, None) => request,
        }
    }
}

impl Schemas for Registry {
    fn schema(&self, id: u32) -> Result<Answer, Unavailable> {
        // What was not there when its records were prepared is not there for them.
        match self.known(id, Duration::MAX) {
            Some(known) => Ok(known),
            None => Ok(self.look_up(id)?),
        }
    }

    fn prepare(&self, id: u32) -> Result<(), Unavailable> {
        match self.known(id, self.not_there_for) {
            Some(_) => Ok(()),
            None => self.look_up(id).map(drop).map_err(Unavailable::from),
        }
    }
}

/// Shows addresses alone.
impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.config).finish()
    }
}
