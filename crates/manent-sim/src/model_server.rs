//! A server of models that says what a test wants, and breaks off where a test wants.
//!
//! Threads and sockets of the standard library, one thread a connection, so that whatever clients are built on is not
//! tested with itself. It is on this machine only, on a port of its own, and gone when it is dropped.
//!
//! ```
//! use manent_sim::model_server::{ModelServer, replies};
//! let server = ModelServer::replay([replies::ollama("hello world")]).unwrap();
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! assert!(server.requests().is_empty());
//! ```

pub mod replies;
mod requests;
mod script;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use requests::Request;
pub use script::{Closing, Script, Step};

/// A server that is running.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Answers each request with what the closure says.
    pub fn start(answer: impl Fn(&Request) -> Script + Send + Sync + 'static) -> io::Result<ModelServer> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { answer: Box::new(answer), ..Shared::new() });
        let accepting = {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || accept(&listener, &shared))
        };
        Ok(ModelServer { address, shared, accepting: Some(accepting) })
    }

    /// Answers the requests in order with these; the last one is said again and again.
    pub fn replay(scripts: impl IntoIterator<Item = Script>) -> io::Result<ModelServer> {
        let scripts: Vec<Script> = scripts.into_iter().collect();
        let next = AtomicUsize::new(0);
        ModelServer::start(move |_| {
            let at = next.fetch_add(1, Ordering::Relaxed).min(scripts.len().saturating_sub(1));
            scripts.get(at).cloned().unwrap_or_default()
        })
    }

    /// Returns the address of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.received().requests.clone()
    }

    /// Returns the number of connections that were opened so far.
    pub fn connections(&self) -> usize {
        self.shared.received().connections
    }

    /// Waits until so many clients went away before their answer was at its end; whether that happened in this time.
    pub fn wait_for_leaving(&self, clients: usize, limit: Duration) -> bool {
        let seen = self.shared.received();
        let waited = self.shared.changed.wait_timeout_while(seen, limit, |seen| seen.left < clients);
        waited.unwrap_or_else(PoisonError::into_inner).0.left >= clients
    }

    /// Waits until it was asked so often; whether that happened in this time.
    pub fn wait_for_requests(&self, count: usize, limit: Duration) -> bool {
        let seen = self.shared.received();
        let waited = self.shared.changed.wait_timeout_while(seen, limit, |seen| seen.requests.len() < count);
        waited.unwrap_or_else(PoisonError::into_inner).0.requests.len() >= count
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
        for connection in self.shared.received().open.drain(..) {
            if let Some(stream) = connection.upgrade() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        // Whoever accepts waits for a connection; it gets one.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

struct Shared {
    answer: Box<dyn Fn(&Request) -> Script + Send + Sync>,
    received: Mutex<Received>,
    changed: Condvar,
    is_over: AtomicBool,
}

#[derive(Default)]
struct Received {
    requests: Vec<Request>,
    connections: usize,
    left: usize,
    /// Weak: whoever serves a connection closes it by letting go of it.
    open: Vec<Weak<TcpStream>>,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            answer: Box::new(|_| Script::default()),
            received: Mutex::default(),
            changed: Condvar::new(),
            is_over: AtomicBool::new(false),
        }
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn note(&self, change: impl FnOnce(&mut Received)) {
        change(&mut self.received());
        self.changed.notify_all();
    }

    /// Waits, or until the server ends.
    fn pause(&self, time: Duration) {
        let limit = self.changed.wait_timeout_while(self.received(), time, |_| !self.is_over());
        drop(limit);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_over() {
            return;
        }
        let Ok(stream) = stream else { continue };
        let stream = Arc::new(stream);
        shared.note(|seen| {
            seen.connections += 1;
            seen.open.retain(|open| open.strong_count() > 0);
            seen.open.push(Arc::downgrade(&stream));
        });
        let shared = Arc::clone(shared);
        // Many at once, each with little to remember.
        let serving = std::thread::Builder::new().stack_size(STACK_BYTES);
        let _ = serving.spawn(move || serve(&stream, &shared));
    }
}

/// One connection, with as many requests as come.
fn serve(stream: &TcpStream, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    while let Ok(Some(request)) = requests::read(stream) {
        shared.note(|seen| seen.requests.push(request.clone()));
        let script = (shared.answer)(&request);
        match play(&script, stream, shared) {
            Ok(After::KeepOpen) => {}
            Ok(After::Close) => return,
            Err(_) => {
                shared.note(|seen| seen.left += 1);
                return;
            }
        }
    }
}

enum After {
    KeepOpen,
    Close,
}

/// Says what a script says. An error: the client is gone.
fn play(script: &Script, mut stream: &TcpStream, shared: &Shared) -> io::Result<After> {
    let mut has_head = false;
    for step in script.steps() {
        let mut head = Vec::new();
        if !has_head && matches!(step, Step::Chunk(_) | Step::Stall) {
            head = script.head();
            has_head = true;
        }
        match step {
            Step::Status(_) | Step::Header(..) => {}
            Step::Chunk(bytes) => {
                // In one write: then it is in one packet, and comes as one chunk.
                head.extend(format!("{:x}\r\n", bytes.len()).bytes());
                head.extend(bytes);
                head.extend(b"\r\n");
                stream.write_all(&head)?;
            }
            Step::Raw(bytes) => {
                has_head = true;
                stream.write_all(bytes)?;
            }
            Step::Pause(time) => shared.pause(*time),
            Step::Stall => {
                stream.write_all(&head)?;
                return stall(stream, shared);
            }
            Step::Close(Closing::Fin) => {
                requests::take_last_byte(stream)?;
                return Ok(After::Close);
            }
            // What was not read when a socket is closed makes it a reset.
            Step::Close(Closing::Rst) => return Ok(After::Close),
        }
    }
    let mut end = if has_head { Vec::new() } else { script.head() };
    if !script.is_raw() {
        end.extend(b"0\r\n\r\n");
    }
    stream.write_all(&end)?;
    requests::take_last_byte(stream)?;
    Ok(if script.is_raw() { After::Close } else { After::KeepOpen })
}

/// Says nothing until the client goes.
fn stall(mut stream: &TcpStream, shared: &Shared) -> io::Result<After> {
    requests::take_last_byte(stream)?;
    let began = Instant::now();
    let mut byte = [0];
    while !shared.is_over() && began.elapsed() < STALL_MAX {
        if stream.read(&mut byte)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(After::Close)
}

const STACK_BYTES: usize = 128 << 10;
/// A test that forgot a server must not keep its threads for ever.
const STALL_MAX: Duration = Duration::from_mins(10);
