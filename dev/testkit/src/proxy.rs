//! A wire between a client and a service that breaks as a test says.
//!
//! It sees requests, so that a fault hits the very one that it is meant for: a commit's answer, say, and nothing else.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The wire. Its threads end with the process.
pub struct Proxy {
    address: SocketAddr,
    wire: Arc<Wire>,
}

#[derive(Default)]
struct Wire {
    upstream: Mutex<String>,
    /// Method and a part of the path of requests whose answers are swallowed, and how many are left.
    lost: Mutex<Option<(String, String, usize)>>,
    swallowed: AtomicUsize,
    /// Nothing passes.
    stalled: (Mutex<bool>, Condvar),
    /// 0: as fast as it goes.
    bytes_a_second: AtomicU64,
}

impl Proxy {
    /// Before a service at `host:port`.
    ///
    /// # Panics
    /// When the system gives no port.
    pub fn before(upstream: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let wire = Arc::new(Wire { upstream: Mutex::new(upstream.to_owned()), ..Wire::default() });
        let serving = Arc::clone(&wire);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let wire = Arc::clone(&serving);
                std::thread::spawn(move || wire.join(client));
            }
        });
        Self { address, wire }
    }

    /// `host:port` of the client's side.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The next so many requests of this method to a path that holds this text reach the service, and their answers
    /// nobody.
    pub fn lose_answers(&self, method: &str, holding: &str, times: usize) {
        *self.wire.lost.lock().expect("no holder panics") = Some((format!("{method} "), holding.to_owned(), times));
    }

    /// Answers that were lost so far.
    pub fn lost(&self) -> usize {
        self.wire.swallowed.load(Ordering::SeqCst)
    }

    /// Nothing passes until [`release`](Self::release).
    pub fn stall(&self) {
        *self.wire.stalled.0.lock().expect("no holder panics") = true;
    }

    /// What waits passes.
    pub fn release(&self) {
        *self.wire.stalled.0.lock().expect("no holder panics") = false;
        self.wire.stalled.1.notify_all();
    }

    /// Requests pass no faster than this, over each connection; 0 for as fast as it goes.
    pub fn limit(&self, bytes_a_second: u64) {
        self.wire.bytes_a_second.store(bytes_a_second, Ordering::SeqCst);
    }
}

impl Wire {
    fn join(self: Arc<Self>, client: TcpStream) {
        let upstream = self.upstream.lock().expect("no holder panics").clone();
        let Ok(service) = TcpStream::connect(upstream) else { return };
        let (Ok(from_client), Ok(from_service)) = (client.try_clone(), service.try_clone()) else { return };
        // The answers on this connection are lost from now on.
        let black = Arc::new(AtomicBool::new(false));
        let (wire, hole) = (Arc::clone(&self), Arc::clone(&black));
        std::thread::spawn(move || wire.answers(from_service, client, &hole));
        self.requests(from_client, service, &black);
    }

    fn requests(&self, mut from: TcpStream, mut to: TcpStream, black: &AtomicBool) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            self.wait();
            let is_lost = self.is_lost(&buffer[..count]);
            if is_lost {
                black.store(true, Ordering::SeqCst);
            }
            if self.send(&buffer[..count], &mut to).is_err() {
                break;
            }
            self.swallowed.fetch_add(usize::from(is_lost), Ordering::SeqCst);
        }
        // What was sent arrives, also from a client that has given up.
        let _ = to.shutdown(Shutdown::Write);
    }

    fn answers(&self, mut from: TcpStream, mut to: TcpStream, black: &AtomicBool) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            self.wait();
            if black.load(Ordering::SeqCst) {
                continue;
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        if !black.load(Ordering::SeqCst) {
            let _ = to.shutdown(Shutdown::Both);
        }
    }

    fn wait(&self) {
        let stalled = self.stalled.0.lock().expect("no holder panics");
        drop(self.stalled.1.wait_while(stalled, |stalled| *stalled));
    }

    fn is_lost(&self, bytes: &[u8]) -> bool {
        let mut lost = self.lost.lock().expect("no holder panics");
        let Some((method, holding, left)) = lost.as_mut().filter(|(.., left)| *left > 0) else { return false };
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(2048)]);
        let line = head.split("\r\n").next().unwrap_or_default();
        let is_it = line.starts_with(method.as_str()) && line.contains(holding.as_str());
        *left -= usize::from(is_it);
        is_it
    }

    fn send(&self, bytes: &[u8], to: &mut TcpStream) -> std::io::Result<()> {
        let limit = self.bytes_a_second.load(Ordering::SeqCst);
        if limit == 0 {
            return to.write_all(bytes);
        }
        for piece in bytes.chunks(4 << 10) {
            to.write_all(piece)?;
            std::thread::sleep(Duration::from_secs_f64(piece.len() as f64 / limit as f64));
        }
        Ok(())
    }
}
