//! Tokens for SASL/OAUTHBEARER: asked for by a thread of their own, and handed to every client that needs them.
//!
//! librdkafka asks for tokens by an event that somebody has to poll for. Nobody does while a commit blocks, while a
//! client is idle, or while its first answer is waited for, and so the usual way is a deadlock. Here no client asks:
//! a thread keeps the newest token of each set of settings and gives it to all clients that were made with them, from
//! outside, at 80 % of its life.
//!
//! Invariants:
//! - A client that is a member has the newest token, or there is none yet.
//! - Once a [`Membership`] is dropped, the thread no longer touches its client.
//! - No token and no secret is in a text that leaves this module.

mod iam;
mod oidc;
mod settings;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode as Code;
use tracing::{debug, info, warn};

use crate::context::Context;
use crate::error::KafkaError;
use crate::native::set_token;
use settings::{Method, split};

/// What a refusal of ours begins with, among the things that a client says.
pub(crate) const REFUSED: &str = "no token: ";

/// After a failure it is asked again this soon, then after twice as long, and so on up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(15);
/// A failure that lasts is told again after this long.
const TELL_AGAIN: Duration = Duration::from_secs(30);
/// A token is fetched anew once so much of its life is over, in percent.
const REFRESH_PERCENT: u32 = 80;

/// What proves to brokers who we are.
pub(crate) struct Token {
    /// The text, as it goes over the wire.
    pub value: String,
    /// Until when it is valid, in milliseconds since 1970.
    pub expires_ms: i64,
    /// Whom it is about; brokers look into the token itself.
    pub principal: String,
    /// Names and values for the broker beside it.
    pub extensions: Vec<(String, String)>,
}

/// Why there is no token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// It may come.
    OutOfReach(String),
    /// Only a person heals that.
    Refused(String),
}

/// A client that needs tokens.
pub(crate) trait Member: Send + Sync {
    /// Takes a new token.
    fn give(&self, token: &Token) -> Result<(), String>;
    /// Hears why there is none.
    fn tell(&self, code: Code, reason: &str);
}

impl Member for BaseConsumer<Context> {
    fn give(&self, token: &Token) -> Result<(), String> {
        set_token(self.client(), token)
    }

    fn tell(&self, code: Code, reason: &str) {
        self.context().fail(code, reason);
    }
}

/// Takes the settings for tokens out of a client's, which librdkafka does not know. What is left makes the client;
/// [`Tokens::join`] it then. `None`: it needs no tokens from here.
pub(crate) fn tokens(client: &mut ClientConfig) -> Result<Option<&'static Tokens>, KafkaError> {
    static ALL: Mutex<Vec<&'static Tokens>> = Mutex::new(Vec::new());
    let Some(method) = split(client)? else { return Ok(None) };
    let mut all = ALL.lock().expect("no panic while it is held");
    if let Some(tokens) = all.iter().find(|tokens| tokens.method == method) {
        return Ok(Some(*tokens));
    }
    let tokens = Tokens::start(method)?;
    all.push(tokens);
    Ok(Some(tokens))
}

/// The tokens of one set of settings. Lives as long as the process, which has few of them.
pub(crate) struct Tokens {
    method: Method,
    state: Mutex<State>,
    /// Somebody joined.
    joined: Condvar,
}

struct State {
    members: Vec<(u64, Weak<dyn Member>)>,
    next_member: u64,
    token: Option<Token>,
    /// When to ask next.
    due: Instant,
    /// Why the last question came to nothing.
    trouble: Option<String>,
}

/// A client's part in the tokens, until it is dropped; drop it before the client.
pub(crate) struct Membership {
    tokens: &'static Tokens,
    number: u64,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.tokens.state().members.retain(|(number, _)| *number != self.number);
    }
}

impl Tokens {
    fn start(method: Method) -> Result<&'static Self, KafkaError> {
        let asker = method.asker()?;
        let state = State { members: Vec::new(), next_member: 0, token: None, due: Instant::now(), trouble: None };
        let tokens: &'static Self =
            Box::leak(Box::new(Self { method, state: Mutex::new(state), joined: Condvar::new() }));
        let thread = std::thread::Builder::new().name("kafka-tokens".to_owned());
        thread.spawn(move || tokens.run(&asker)).expect("the system starts a thread");
        Ok(tokens)
    }

    /// Gives this client the newest token, and each later one.
    pub fn join<M: Member + 'static>(&'static self, client: &Arc<M>) -> Membership {
        let mut state = self.state();
        if let Some(token) = state.token.as_ref().filter(|token| token.expires_ms > now_ms())
            && let Err(error) = client.give(token)
        {
            debug!("the token that is there is not taken: {error}");
        }
        let number = state.next_member;
        state.next_member += 1;
        let weak = Arc::downgrade(client);
        state.members.push((number, weak));
        self.joined.notify_all();
        Membership { tokens: self, number }
    }

    /// Why there is no valid token; `None` where there is one.
    pub fn lacking(&self) -> Option<String> {
        let state = self.state();
        if state.token.as_ref().is_some_and(|token| token.expires_ms > now_ms()) {
            return None;
        }
        Some(state.trouble.clone().unwrap_or_else(|| format!("{} has not answered yet", self.method)))
    }

    fn run(&self, asker: &settings::Asker) {
        let mut pause = FIRST_PAUSE;
        let mut told: Option<Instant> = None;
        loop {
            self.await_due();
            let asked = asker.ask(&self.method).and_then(|token| self.give(token));
            let Err(error) = asked else {
                if told.take().is_some() {
                    info!("Kafka: there are tokens again from {}", self.method);
                }
                pause = FIRST_PAUSE;
                continue;
            };
            let is_due = told.is_none_or(|told| told.elapsed() >= TELL_AGAIN);
            if is_due {
                told = Some(Instant::now());
            }
            self.failed(error, pause, is_due);
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Waits until a token is to be fetched, for somebody.
    fn await_due(&self) {
        let mut state = self.state();
        loop {
            let wait = state.due.saturating_duration_since(Instant::now());
            state = match (state.members.is_empty(), wait.is_zero()) {
                (true, _) => self.joined.wait(state).expect("no panic while it is held"),
                (false, false) => self.joined.wait_timeout(state, wait).expect("no panic while it is held").0,
                (false, true) => return,
            };
        }
    }

    /// Hands a new token to everybody.
    fn give(&self, token: Token) -> Result<(), TokenError> {
        let life_ms = u64::try_from(token.expires_ms - now_ms()).ok().filter(|life_ms| *life_ms > 0);
        let Some(life) = life_ms.map(Duration::from_millis) else {
            let text =
                format!("the token from {} has expired already; are this machine's clock and its right?", self.method);
            return Err(TokenError::Refused(text));
        };
        let mut state = self.state();
        for (_, member) in &state.members {
            // Dropped here at the latest, and so while its `Membership`, which it outlives, can't be dropped.
            let Some(member) = member.upgrade() else { continue };
            let given = member.give(&token);
            given.map_err(|error| TokenError::Refused(format!("the token from {} is none: {error}", self.method)))?;
        }
        debug!("a token of {} s of life from {}", life.as_secs(), self.method);
        state.due = Instant::now() + (life * REFRESH_PERCENT / 100).min(self.method.most_age());
        (state.token, state.trouble) = (Some(token), None);
        Ok(())
    }

    fn failed(&self, error: TokenError, pause: Duration, tell: bool) {
        let mut state = self.state();
        state.due = Instant::now() + pause;
        match error {
            TokenError::OutOfReach(text) => {
                if tell {
                    warn!("Kafka: {text}; asking for a token again and again");
                }
                state.trouble = Some(text);
            }
            TokenError::Refused(text) => {
                let reason = format!("{REFUSED}{text}");
                for member in state.members.iter().filter_map(|(_, member)| member.upgrade()) {
                    member.tell(Code::Authentication, &reason);
                }
                state.trouble = Some(text);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).expect("not that far in the future")
}

#[cfg(test)]
mod tests;
