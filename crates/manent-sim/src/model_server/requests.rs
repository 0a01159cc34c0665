//! What a model server was asked.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: String,
    /// The path, such as `/api/chat`.
    pub path: String,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// The body that was sent.
    pub body: Vec<u8>,
}

impl Request {
    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Reads a request, and leaves its last byte where it is: with it unread, closing is a reset. Nothing: the client went.
pub(super) fn read(mut stream: &TcpStream) -> io::Result<Option<Request>> {
    let Some(head_bytes) = find_head(stream)? else { return Ok(None) };
    let mut head = vec![0; head_bytes];
    // The head is in the buffer as a whole, so this does not take a part of it.
    let seen = stream.peek(&mut head)?;
    let (mut request, length) = parse(&String::from_utf8_lossy(&head[..seen]));
    let total = head_bytes + length;
    let mut whole = vec![0; total - 1];
    stream.read_exact(&mut whole)?;
    let mut last = [0];
    if stream.peek(&mut last)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    whole.extend(last);
    request.body = whole.split_off(head_bytes);
    Ok(Some(request))
}

/// Takes what [`read`] left.
pub(super) fn take_last_byte(mut stream: &TcpStream) -> io::Result<()> {
    stream.read_exact(&mut [0])
}

/// Waits until the head of a request is there, and says how long it is.
fn find_head(stream: &TcpStream) -> io::Result<Option<usize>> {
    let mut seen = vec![0; HEAD_BYTES_MAX];
    let mut before = 0;
    loop {
        let count = stream.peek(&mut seen)?;
        if let Some(at) = seen[..count].windows(4).position(|end| end == b"\r\n\r\n") {
            return Ok(Some(at + 4));
        }
        if count == 0 || count == HEAD_BYTES_MAX {
            return Ok(None);
        }
        if count == before {
            // Half of a head: looking does not block then.
            std::thread::sleep(Duration::from_millis(1));
        }
        before = count;
    }
}

/// The request without its body, and how long that is.
fn parse(head: &str) -> (Request, usize) {
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let mut word = || first.next().unwrap_or_default().to_owned();
    let (method, path) = (word(), word());
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_lowercase(), value.trim().to_owned()))
    };
    let request = Request { method, path, headers: lines.filter_map(header).collect(), body: Vec::new() };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    (request, length)
}

const HEAD_BYTES_MAX: usize = 32 << 10;
