//! An object store of the test's own, in its process, with faults by plan. Speaks the XML API of S3 and of GCS as
//! clients use it for tables: whole and partial reads, conditional puts, uploads in parts, lists, deletes.
//!
//! Objects are plain files below its folder, `BUCKET/KEY`, so that any reader can look at them.

use std::collections::HashMap;
use std::fs;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use crate::http::{Answer, Request};

/// Keys are given out here; no bucket can be called so.
const ROLE: &str = "/_role";

/// What becomes of a request that a [`Plan`] is for.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is not done; the answer is this status, with this code in its body.
    Refuse(u16, &'static str),
    /// It is done, and the answer says this status and code all the same.
    DoneBut(u16, &'static str),
    /// It is done, and the connection closes without an answer.
    DoneWithoutAnswer,
    /// It is done after a while.
    Slow(Duration),
}

/// Faults for the requests that it fits, as many as it says.
struct Plan {
    fits: Box<dyn Fn(&Request) -> bool + Send>,
    left: usize,
    fault: Fault,
}

/// The server. Its threads end with the process.
pub struct Objects {
    address: SocketAddr,
    shared: Arc<Shared>,
    folder: tempfile::TempDir,
}

struct Shared {
    root: PathBuf,
    /// Guards the files, too: a request is done as a whole or not begun.
    state: Mutex<State>,
    /// Conditions are looked at.
    honours: AtomicBool,
    stalled: (Mutex<bool>, Condvar),
    faults: Mutex<Vec<Plan>>,
    seen: Mutex<Vec<String>>,
    keys: Mutex<Vec<String>>,
    waiting: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Of each object: counts up over all puts, so that no two versions have the same.
    generations: HashMap<String, u64>,
    last: u64,
    uploads: HashMap<String, HashMap<u32, Vec<u8>>>,
}

impl Objects {
    /// Starts it, with no object and no fault.
    ///
    /// # Panics
    /// When the system gives no port or folder.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("lakeward-objects-").tempdir().expect("make the store's folder");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let shared = Arc::new(Shared {
            root: folder.path().to_owned(),
            state: Mutex::default(),
            honours: AtomicBool::new(true),
            stalled: (Mutex::new(false), Condvar::new()),
            faults: Mutex::default(),
            seen: Mutex::default(),
            keys: Mutex::default(),
            waiting: AtomicU64::new(0),
        });
        let address = listener.local_addr().expect("an address");
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || shared.serve(&stream));
            }
        });
        Self { address, shared, folder }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where objects lie, by bucket and key.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Conditions are ignored from now on, as stores do that do not know them.
    pub fn ignore_conditions(&self) {
        self.shared.honours.store(false, Ordering::SeqCst);
    }

    /// Plans a fault for the next so many requests that it fits.
    pub fn plan(&self, times: usize, fault: Fault, fits: impl Fn(&Request) -> bool + Send + 'static) {
        lock(&self.shared.faults).push(Plan { fits: Box::new(fits), left: times, fault });
    }

    /// No request meets a fault any more.
    pub fn forget_plans(&self) {
        lock(&self.shared.faults).clear();
    }

    /// Where a container's role gets keys from. They are called `role-1`, `role-2` and so on, and are good for seconds.
    pub fn role_url(&self) -> String {
        self.url() + ROLE
    }

    /// From now on everything waits, until [`release`](Self::release).
    pub fn stall(&self) {
        *lock(&self.shared.stalled.0) = true;
    }

    /// What waits goes on.
    pub fn release(&self) {
        *lock(&self.shared.stalled.0) = false;
        self.shared.stalled.1.notify_all();
    }

    /// Requests that wait for [`release`](Self::release).
    pub fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::SeqCst)
    }

    /// `METHOD /path?query` of all that was asked so far.
    pub fn seen(&self) -> Vec<String> {
        lock(&self.shared.seen).clone()
    }

    /// The names of the keys that S3 requests were signed with, each once, in the order of their first use.
    pub fn keys(&self) -> Vec<String> {
        lock(&self.shared.keys).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Shared {
    fn serve(&self, stream: &TcpStream) {
        let Ok(reading) = stream.try_clone() else { return };
        let mut reading = BufReader::new(reading);
        while let Ok(Some(request)) = Request::read(&mut reading) {
            let Some(answer) = self.answer(&request) else { return };
            if answer.write(&mut &*stream, request.method == "HEAD").is_err() {
                return;
            }
        }
    }

    /// `None`: the connection closes.
    fn answer(&self, request: &Request) -> Option<Answer> {
        lock(&self.seen).push(request.line.clone());
        if let Some(key) = request.header("authorization").and_then(|text| text.split("Credential=").nth(1)) {
            let key = key.split('/').next().unwrap_or_default().to_owned();
            let mut keys = lock(&self.keys);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let fault = self.fault(request);
        match &fault {
            Some(Fault::Refuse(status, code)) => return Some(Answer::error(*status, code)),
            Some(Fault::Slow(wait)) => std::thread::sleep(*wait),
            _ => {}
        }
        self.wait_while_stalled();
        let done = if request.path == ROLE { self.role() } else { self.perform(request) };
        match fault {
            Some(Fault::DoneBut(status, code)) => Some(Answer::error(status, code)),
            Some(Fault::DoneWithoutAnswer) => None,
            _ => Some(done),
        }
    }

    fn fault(&self, request: &Request) -> Option<Fault> {
        let mut faults = lock(&self.faults);
        let plan = faults.iter_mut().find(|plan| plan.left > 0 && (plan.fits)(request))?;
        plan.left -= 1;
        Some(plan.fault.clone())
    }

    fn wait_while_stalled(&self) {
        let stalled = lock(&self.stalled.0);
        if *stalled {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            drop(self.stalled.1.wait_while(stalled, |stalled| *stalled));
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn perform(&self, request: &Request) -> Answer {
        let mut state = lock(&self.state);
        let (bucket, key) = request.path.trim_start_matches('/').split_once('/').unwrap_or((&request.path[1..], ""));
        if !self.root.join(bucket).is_dir() {
            return Answer::error(404, "NoSuchBucket");
        }
        if key.is_empty() {
            return match request.method.as_str() {
                "GET" => self.list(&state, bucket, request),
                "POST" => self.delete_many(&mut state, bucket, &request.body),
                _ => Answer::error(405, "MethodNotAllowed"),
            };
        }
        let at = Object { name: format!("{bucket}/{key}"), path: self.root.join(bucket).join(key) };
        match (request.method.as_str(), request.query("uploadId"), request.query("uploads")) {
            ("POST", None, Some(_)) => begin_upload(&mut state, bucket, key),
            ("PUT", Some(id), _) => put_part(&mut state, &id, request),
            ("POST", Some(id), _) => self.complete(&mut state, &id, &at, request),
            ("DELETE", Some(id), _) => {
                state.uploads.remove(&id);
                Answer::new(204)
            }
            ("PUT", None, _) => self.put(&mut state, &at, &request.body, request),
            ("DELETE", None, _) => delete(&mut state, &at),
            ("GET" | "HEAD", None, _) => get(&state, &at, request),
            _ => Answer::error(405, "MethodNotAllowed"),
        }
    }

    fn role(&self) -> Answer {
        let mut state = lock(&self.state);
        state.last += 1;
        let expiration = crate::http::iso(SystemTime::now() + Duration::from_secs(2));
        let text = format!(
            r#"{{"AccessKeyId":"role-{}","SecretAccessKey":"s","Token":"t","Expiration":"{expiration}"}}"#,
            state.last
        );
        Answer::new(200).holding(text)
    }

    fn put(&self, state: &mut State, at: &Object, body: &[u8], request: &Request) -> Answer {
        let is_there = at.path.is_file();
        if self.honours.load(Ordering::SeqCst) {
            let wants_none = request.header("if-none-match") == Some("*");
            let generation = request.header("x-goog-if-generation-match").and_then(|text| text.parse::<u64>().ok());
            let of_now = state.generations.get(&at.name).copied().unwrap_or(0);
            if (wants_none && is_there) || generation.is_some_and(|wanted| wanted != of_now) {
                return Answer::error(412, "PreconditionFailed");
            }
        }
        let staged = at.path.with_extension("staged");
        fs::create_dir_all(at.path.parent().expect("a folder")).expect("make the object's folder");
        fs::File::create(&staged).and_then(|mut file| file.write_all(body)).expect("write the object");
        fs::rename(&staged, &at.path).expect("name the object");
        state.last += 1;
        let generation = state.last;
        state.generations.insert(at.name.clone(), generation);
        Answer::new(200).tagged(generation)
    }

    fn complete(&self, state: &mut State, id: &str, at: &Object, request: &Request) -> Answer {
        let Some(parts) = state.uploads.remove(id) else { return Answer::error(404, "NoSuchUpload") };
        let mut numbers: Vec<_> = parts.keys().copied().collect();
        numbers.sort_unstable();
        let body: Vec<u8> = numbers.iter().flat_map(|number| parts[number].clone()).collect();
        let done = self.put(state, at, &body, request);
        if done.status != 200 {
            return done;
        }
        let text = "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>";
        done.holding(text)
    }

    fn delete_many(&self, state: &mut State, bucket: &str, body: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(body);
        let mut gone = String::new();
        for key in text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
            let at = Object { name: format!("{bucket}/{key}"), path: self.root.join(bucket).join(key) };
            let _ = delete(state, &at);
            gone += &format!("<Deleted><Key>{key}</Key></Deleted>");
        }
        Answer::new(200).holding(format!("<DeleteResult>{gone}</DeleteResult>"))
    }

    fn list(&self, state: &State, bucket: &str, request: &Request) -> Answer {
        let (prefix, delimiter) = (request.query("prefix").unwrap_or_default(), request.query("delimiter"));
        let after = request.query("start-after").unwrap_or_default();
        let mut keys: Vec<_> = state.generations.keys().filter_map(|name| name.strip_prefix(bucket)).collect();
        keys.sort_unstable();
        let (mut objects, mut folders) = (String::new(), Vec::new());
        for key in keys.into_iter().map(|key| &key[1..]).filter(|key| key.starts_with(&prefix) && **key > *after) {
            let cut = delimiter.as_ref().and_then(|delimiter| key[prefix.len()..].find(delimiter.as_str()));
            match cut {
                Some(cut) => folders.push(&key[..=prefix.len() + cut]),
                None => objects += &self.entry(state, bucket, key),
            }
        }
        folders.dedup();
        let folders: String =
            folders.iter().map(|name| format!("<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>")).collect();
        let text = format!("<ListBucketResult><IsTruncated>false</IsTruncated>{objects}{folders}</ListBucketResult>");
        Answer::new(200).holding(text)
    }

    fn entry(&self, state: &State, bucket: &str, key: &str) -> String {
        let generation = state.generations[&format!("{bucket}/{key}")];
        let meta = fs::metadata(self.root.join(bucket).join(key)).expect("an object's file");
        let (size, modified) = (meta.len(), crate::http::iso(meta.modified().expect("a time")));
        format!(
            "<Contents><Key>{key}</Key><Generation>{generation}</Generation><LastModified>{modified}</LastModified>\
             <ETag>\"{generation}\"</ETag><Size>{size}</Size></Contents>"
        )
    }
}

/// A name and where it lies.
struct Object {
    name: String,
    path: PathBuf,
}

fn begin_upload(state: &mut State, bucket: &str, key: &str) -> Answer {
    state.last += 1;
    let id = format!("upload-{}", state.last);
    state.uploads.insert(id.clone(), HashMap::new());
    let text = format!(
        "<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{key}</Key><UploadId>{id}</UploadId>\
         </InitiateMultipartUploadResult>"
    );
    Answer::new(200).holding(text)
}

fn put_part(state: &mut State, id: &str, request: &Request) -> Answer {
    let number = request.query("partNumber").and_then(|text| text.parse().ok());
    match (state.uploads.get_mut(id), number) {
        (Some(parts), Some(number)) => {
            parts.insert(number, request.body.clone());
            Answer::new(200).tagged(u64::from(number))
        }
        _ => Answer::error(404, "NoSuchUpload"),
    }
}

fn delete(state: &mut State, at: &Object) -> Answer {
    if state.generations.remove(&at.name).is_none() {
        return Answer::error(404, "NoSuchKey");
    }
    fs::remove_file(&at.path).expect("remove the object");
    Answer::new(204)
}

fn get(state: &State, at: &Object, request: &Request) -> Answer {
    let Some(&generation) = state.generations.get(&at.name) else { return Answer::error(404, "NoSuchKey") };
    let body = fs::read(&at.path).expect("read the object");
    let modified = fs::metadata(&at.path).and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let answer = Answer::new(200).tagged(generation).with("Last-Modified", crate::http::date(modified));
    let size = body.len();
    match request.range(size) {
        None => answer.holding(body),
        Some(range) if range.start >= size => Answer::error(416, "InvalidRange"),
        Some(range) => {
            let place = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            answer.of_status(206).with("Content-Range", place).holding(&body[range])
        }
    }
}
