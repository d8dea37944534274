//! An OpenID provider's token endpoint, in the test's process: tokens of short life for one client, and outages by
//! order. Its tokens are unsecured JWTs, as Kafka's own validator for tests takes them.

use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

use crate::http::{Answer, Request};

/// The one client that gets tokens.
pub const CLIENT_ID: &str = "lakeward-client";
/// Its secret; with what an address can't hold unescaped.
pub const CLIENT_SECRET: &str = "planted+client/secret:1";
/// The scope that it has to ask for.
pub const SCOPE: &str = "kafka:read kafka:write";
/// In every token, so that one can be looked for.
pub const TOKEN_MARK: &str = "planted-token-mark";

/// What it does with requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It serves.
    Serving,
    /// It closes the connection without an answer.
    Gone,
    /// It answers this status and body.
    Saying(u16, String),
}

/// The endpoint. Its threads end with the process.
pub struct TokenEndpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    life: Duration,
    state: Mutex<State>,
}

struct State {
    mood: Mood,
    /// Tokens given out.
    given: Vec<String>,
    /// What was wrong with requests.
    wrong: Vec<String>,
    asked: usize,
}

impl TokenEndpoint {
    /// Starts it; its tokens are valid for so long.
    ///
    /// # Panics
    /// When the system gives no port.
    pub fn start(life: Duration) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let state = State { mood: Mood::Serving, given: Vec::new(), wrong: Vec::new(), asked: 0 };
        let shared = Arc::new(Shared { life, state: Mutex::new(state) });
        let address = listener.local_addr().expect("an address");
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || shared.serve(&stream));
            }
        });
        Self { address, shared }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}/oauth/token", self.address)
    }

    /// What it does from now on.
    pub fn be(&self, mood: Mood) {
        self.shared.state().mood = mood;
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.shared.state().asked
    }

    /// Tokens that it gave out.
    pub fn given(&self) -> Vec<String> {
        self.shared.state().given.clone()
    }

    /// What was wrong with the requests that it refused.
    pub fn wrong(&self) -> Vec<String> {
        self.shared.state().wrong.clone()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn serve(&self, stream: &TcpStream) {
        let Ok(reading) = stream.try_clone() else { return };
        let mut reading = BufReader::new(reading);
        while let Ok(Some(request)) = Request::read(&mut reading) {
            let Some(answer) = self.answer(&request) else { return };
            let answer = answer.with("Content-Type", "application/json".to_owned());
            if answer.write(&mut &*stream, false).is_err() {
                return;
            }
        }
    }

    /// `None`: the connection closes.
    fn answer(&self, request: &Request) -> Option<Answer> {
        let mut state = self.state();
        state.asked += 1;
        match state.mood.clone() {
            Mood::Gone => return None,
            Mood::Saying(status, body) => return Some(Answer::new(status).holding(body)),
            Mood::Serving => {}
        }
        if let Some((error, what)) = wrong_with(request) {
            state.wrong.push(what.clone());
            let body = json!({"error": error, "error_description": what});
            return Some(Answer::new(401).holding(body.to_string()));
        }
        let token = token(self.life, state.given.len());
        state.given.push(token.clone());
        let body = json!({"access_token": token, "token_type": "Bearer", "expires_in": self.life.as_secs()});
        Some(Answer::new(200).holding(body.to_string()))
    }
}

/// What RFC 6749 and this client's registration ask for.
fn wrong_with(request: &Request) -> Option<(&'static str, String)> {
    let user = format!("Basic {}", STANDARD.encode(format!("{CLIENT_ID}:{CLIENT_SECRET}")));
    if request.header("authorization") != Some(&user) {
        return Some(("invalid_client", "Client authentication failed".to_owned()));
    }
    let form = Request::form(&request.body);
    let field = |name: &str| form.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str());
    let is_right = request.method == "POST"
        && request.path == "/oauth/token"
        && request.header("content-type") == Some("application/x-www-form-urlencoded")
        && field("grant_type") == Some("client_credentials");
    if !is_right {
        return Some(("invalid_request", request.line.clone()));
    }
    let scope = field("scope").unwrap_or_default();
    (scope != SCOPE).then(|| ("invalid_scope", format!("no scope '{scope}'")))
}

/// An unsecured JWT.
fn token(life: Duration, number: usize) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let claims =
        json!({"sub": CLIENT_ID, "iat": now - 1, "exp": now + life.as_secs(), "jti": format!("{TOKEN_MARK}-{number}")});
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.", part(r#"{"alg":"none"}"#), part(&claims.to_string()))
}
